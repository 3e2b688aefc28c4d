//! The graph of a deadlock in the product's XML: who waits for whom, with what, and what each of them runs.
//!
//! It is made on the thread of the victim while everybody on the cycle still waits, so what the lock table and the registry of
//! sessions say is what led to it.

use super::occurrence::{Fact, Occurrence, put_text, timestamp, without_secrets};
use super::words::EventKind;
use crate::host::IsolationLevel;
use crate::instance::{Instance, SessionEntry, spid_of_owner};
use crate::sysviews::wait_resource;
use daruma_base::DatabaseId;
use daruma_catalog::ObjectKind;
use daruma_storage::{Deadlock, DeadlockOwner, LockDescription, LockInfo, LockResource, TreeId};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Longest text of a session in a graph, in bytes.
const TEXT_BYTES_MAX: usize = 8 * 1024;

impl Instance {
    /// Counts deadlocks, and makes events of them.
    pub(crate) fn watch_deadlocks(self: &Arc<Self>) {
        let me = Arc::downgrade(self);
        self.engine.watch_deadlocks(Box::new(move |deadlock| {
            if let Some(instance) = me.upgrade() {
                instance.tell_deadlock(deadlock);
            }
        }));
    }

    fn tell_deadlock(&self, deadlock: &Deadlock) {
        self.deadlocks.fetch_add(1, Ordering::Relaxed);
        if !self.events.wants(EventKind::DeadlockReport) {
            return;
        }
        let Some(session) = self.sessions.get(spid_of_owner(deadlock.victim)) else {
            return;
        };
        let xml = graph(self, deadlock);
        self.events.tell(&Occurrence {
            kind: EventKind::DeadlockReport,
            facts: &[Fact::from(xml.as_str())],
            instance: self,
            session: &session,
            at_utc: self.now_utc(),
        });
    }
}

fn graph(instance: &Instance, deadlock: &Deadlock) -> String {
    let locks = instance.engine.locks();
    let is_in = |lock: &&LockInfo| deadlock.owners.iter().any(|o| o.id == lock.owner);
    let waits: Vec<&LockInfo> = locks.iter().filter(is_in).filter(|l| !l.granted).collect();
    let mut xml = format!(
        "<deadlock><victim-list><victimProcess id=\"{}\"/></victim-list><process-list>",
        process(deadlock.victim)
    );
    for owner in &deadlock.owners {
        let wait = waits.iter().find(|w| w.owner == owner.id).copied();
        put_process(&mut xml, instance, owner, wait);
    }
    xml.push_str("</process-list><resource-list>");
    for (at, wait) in waits.iter().enumerate() {
        let known = waits.get(..at).unwrap_or_default();
        if !known.iter().any(|other| same_resource(other, wait)) {
            let of_it = locks
                .iter()
                .filter(is_in)
                .filter(|l| same_resource(l, wait));
            put_resource(&mut xml, instance, wait, &of_it.collect::<Vec<_>>());
        }
    }
    xml.push_str("</resource-list></deadlock>");
    xml
}

fn process(owner: u64) -> String {
    format!("process{owner:x}")
}

fn attribute(xml: &mut String, name: &str, value: &str) {
    let _ = write!(xml, " {name}=\"");
    put_text(xml, value);
    xml.push('"');
}

fn put_process(
    xml: &mut String,
    instance: &Instance,
    owner: &DeadlockOwner,
    wait: Option<&LockInfo>,
) {
    let spid = spid_of_owner(owner.id);
    let session = instance.sessions.get(spid);
    let _ = write!(
        xml,
        "<process id=\"{}\" taskpriority=\"0\" logused=\"{}\"",
        process(owner.id),
        owner.log_bytes
    );
    if let Some(wait) = wait {
        attribute(xml, "waitresource", &wait_resource(wait));
        attribute(xml, "lockMode", wait.mode);
    }
    let _ = write!(
        xml,
        " waittime=\"{}\" status=\"suspended\" spid=\"{spid}\" sbid=\"0\" ecid=\"0\" priority=\"{}\"",
        owner.waited.as_millis(),
        owner.priority
    );
    match session {
        Some(session) => put_session(xml, instance, &session),
        None => xml.push_str("><executionStack/><inputbuf/>"),
    }
    xml.push_str("</process>");
}

fn put_session(xml: &mut String, instance: &Instance, session: &SessionEntry) {
    let activity = session.activity.lock().clone();
    let login = &session.login;
    let _ = write!(
        xml,
        " trancount=\"{}\" lastbatchstarted=\"{}\" lastbatchcompleted=\"{}\"",
        activity.open_transactions,
        timestamp(activity.last_request_start_utc),
        timestamp(activity.last_request_end_utc)
    );
    attribute(xml, "clientapp", &login.program);
    attribute(xml, "hostname", &login.host);
    let _ = write!(xml, " hostpid=\"{}\"", login.client_process_id);
    attribute(xml, "loginname", &login.login);
    attribute(xml, "isolationlevel", isolation(activity.isolation));
    let _ = write!(xml, " xactid=\"{}\"", activity.transaction_id);
    if let Some(id) = activity.database {
        let _ = write!(xml, " currentdb=\"{}\"", id.0);
        let name = instance.database(id).map_or(String::new(), |d| d.name());
        attribute(xml, "currentdbname", &name);
    }
    let shown = session.shown_statement();
    let statement = match shown.is_empty() {
        true => &*activity.text,
        false => activity.text.get(shown.clone()).unwrap_or(&activity.text),
    };
    let before = activity.text.get(..shown.start).unwrap_or("");
    let _ = write!(
        xml,
        "><executionStack><frame procname=\"adhoc\" line=\"{}\" stmtstart=\"{}\" stmtend=\"{}\">",
        before.matches('\n').count() + 1,
        shown.start.saturating_mul(2),
        shown.end.saturating_mul(2)
    );
    put_text(xml, cut(&without_secrets(statement)));
    xml.push_str("</frame></executionStack><inputbuf>");
    put_text(xml, cut(&without_secrets(&activity.text)));
    xml.push_str("</inputbuf>");
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

fn isolation(level: Option<IsolationLevel>) -> &'static str {
    match level {
        Some(IsolationLevel::ReadUncommitted) => "read uncommitted (1)",
        Some(IsolationLevel::RepeatableRead) => "repeatable read (3)",
        Some(IsolationLevel::Serializable) => "serializable (4)",
        Some(IsolationLevel::Snapshot) => "snapshot (5)",
        Some(IsolationLevel::ReadCommitted) | None => "read committed (2)",
    }
}

fn same_resource(a: &LockInfo, b: &LockInfo) -> bool {
    use LockDescription::{Range, Resource, Transaction};
    a.database == b.database
        && match (&a.resource, &b.resource) {
            (Resource(a), Resource(b)) => a == b,
            (Range { tree: a }, Range { tree: b }) => a == b,
            (Transaction(a), Transaction(b)) => a == b,
            _ => false,
        }
}

fn put_resource(xml: &mut String, instance: &Instance, wait: &LockInfo, locks: &[&LockInfo]) {
    let element = match &wait.resource {
        LockDescription::Resource(LockResource::Key { .. }) | LockDescription::Range { .. } => {
            "keylock"
        }
        LockDescription::Resource(LockResource::Object(_)) => "objectlock",
        LockDescription::Resource(LockResource::Database) => "databaselock",
        LockDescription::Resource(LockResource::Name(_)) => "applicationlock",
        LockDescription::Transaction(_) => "xactlock",
    };
    let _ = write!(xml, "<{element} dbid=\"{}\"", wait.database);
    if let Some((object, index)) = names(instance, wait) {
        attribute(xml, "objectname", &object);
        if let Some(index) = index {
            attribute(xml, "indexname", &index);
        }
    }
    attribute(xml, "id", &wait_resource(wait));
    let held = locks.iter().filter(|l| l.granted);
    let strongest = held.clone().next_back().map_or(wait.mode, |l| l.mode);
    attribute(xml, "mode", strongest);
    xml.push_str("><owner-list>");
    for lock in held {
        let _ = write!(
            xml,
            "<owner id=\"{}\" mode=\"{}\"/>",
            process(lock.owner),
            lock.mode
        );
    }
    xml.push_str("</owner-list><waiter-list>");
    for lock in locks.iter().filter(|l| !l.granted) {
        let _ = write!(
            xml,
            "<waiter id=\"{}\" mode=\"{}\" requestType=\"wait\"/>",
            process(lock.owner),
            lock.mode
        );
    }
    let _ = write!(xml, "</waiter-list></{element}>");
}

/// `database.schema.table` and the index that a lock is about.
fn names(instance: &Instance, lock: &LockInfo) -> Option<(String, Option<String>)> {
    let entry = instance.database(DatabaseId(lock.database))?;
    let open = entry.open().ok()?;
    let catalog = open.catalog.current();
    let full = |object: &daruma_catalog::Object| {
        let schema = catalog.schema(object.schema_id);
        let schema = schema.map_or("dbo", |s| s.name.as_str());
        format!("{}.{schema}.{}", entry.name(), object.name)
    };
    match &lock.resource {
        LockDescription::Resource(LockResource::Object(id)) => {
            catalog.object(*id).map(|o| (full(o), None))
        }
        LockDescription::Resource(LockResource::Key { tree, .. })
        | LockDescription::Range { tree } => catalog.objects().find_map(|object| {
            let index = index_of(&object.kind, *tree)?;
            Some((full(object), index))
        }),
        _ => None,
    }
}

fn index_of(kind: &ObjectKind, tree: TreeId) -> Option<Option<String>> {
    let ObjectKind::Table(def) = kind else {
        return None;
    };
    let index = def.indexes.iter().find(|i| i.tree == tree)?;
    Some(index.name.clone())
}
