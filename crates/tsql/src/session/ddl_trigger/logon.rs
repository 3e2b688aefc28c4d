//! LOGON triggers: they run once a login was checked, in its own session, before its first request.
//!
//! Theory: what refuses a login is a ROLLBACK in a trigger, or an error that ends one. Whoever has shut himself out starts the server
//! without them. A session that is set back for its pool is no new login.

use super::types;
use crate::error::Result;
use crate::host::Host;
use crate::instance::MASTER;
use crate::instance::events::{put_text, timestamp};
use crate::messages;
use crate::session::execution::Execution;
use crate::session::{RequestEnd, Session};
use crate::sink::Discard;
use daruma_catalog::DdlTriggerDef;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MINUTE_100NS: i64 = 600_000_000;

impl Session {
    /// Runs the LOGON triggers; error 17892 where the login is refused. The session must then end.
    pub fn fire_logon(&mut self) -> Result<()> {
        let instance = self.instance().clone();
        if instance.without_logon_triggers.load(Ordering::Relaxed) {
            return Ok(());
        }
        let open = instance.open_database(MASTER)?;
        let is_for = |t: &&Arc<DdlTriggerDef>| {
            t.on_server && !t.disabled && t.events.contains(&types::LOGON)
        };
        let triggers: Vec<_> = {
            let catalog = open.catalog.current();
            catalog.ddl_triggers().filter(is_for).cloned().collect()
        };
        if triggers.is_empty() {
            return Ok(());
        }
        let mut failed = None;
        let mut sink = Discard::default();
        let ended = self.request("", &mut sink, |execution| {
            execution.push_request_frame();
            failed = execution.run_logon(&triggers).err();
            execution.state.frames.borrow_mut().pop();
            Ok(())
        });
        // What a trigger leaves open would be the client's.
        let is_open = self.in_transaction();
        if failed.is_none() && ended == RequestEnd::Completed && !is_open {
            return Ok(());
        }
        let login = &self.entry().login.login;
        // Why is for the log alone; where a trigger has told it, that is it.
        if let Some(error) = sink.first_error.or(failed) {
            let told = format!("Logon trigger for login '{login}': {}", error.message);
            instance.log.write_bounded("Logon", error.number, &[&told]);
        }
        Err(messages::error(17892, &[login]))
    }
}

impl Execution<'_> {
    fn run_logon(&self, triggers: &[Arc<DdlTriggerDef>]) -> Result<()> {
        let document: Arc<str> = Arc::from(self.logon_document());
        self.atomic(|| {
            self.with_transaction_counted(|| {
                let mut triggers = triggers.iter();
                triggers.try_for_each(|t| self.run_ddl_trigger(MASTER, t, &document))
            })
        })
    }

    fn logon_document(&self) -> String {
        let login = &self.state.entry.login;
        let (utc, offset_minutes) = self.now();
        let local = utc.saturating_add(i64::from(offset_minutes) * MINUTE_100NS);
        let sid = login.sid.as_deref().unwrap_or_default();
        let elements = [
            ("EventType", "LOGON".to_string()),
            (
                "PostTime",
                timestamp(local).trim_end_matches('Z').to_string(),
            ),
            ("SPID", self.state.entry.spid.to_string()),
            (
                "ServerName",
                self.state.instance.options().server_name.clone(),
            ),
            ("LoginName", login.login.clone()),
            ("LoginType", "SQL Login".to_string()),
            ("SID", daruma_value::json::base64::encode(sid)),
            ("ClientHost", login.client_address.clone()),
            ("IsPooled", "0".to_string()),
        ];
        let mut out = String::from("<EVENT_INSTANCE>");
        for (name, text) in &elements {
            out.push_str(&format!("<{name}>"));
            put_text(&mut out, text);
            out.push_str(&format!("</{name}>"));
        }
        out.push_str("</EVENT_INSTANCE>");
        out
    }
}
