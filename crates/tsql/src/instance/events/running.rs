//! A session that is started: what it asks of each event, and where it puts what it wants.

use super::file::{self, EventFile};
use super::occurrence::Occurrence;
use super::predicate::Predicate;
use super::ring::{self, Ring};
use super::words::{ACTIONS, Action, EVENTS, EventKind, TARGETS, TargetKind};
use crate::error::{Result, SqlError};
use crate::instance::Instance;
use crate::messages;
use daruma_catalog::{EventDef, EventSessionDef, EventSettingValue, EventTargetDef};
use daruma_syntax::{ParseOptions, parse_event_predicate};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event that some session wanted.
pub struct Collected {
    pub kind: EventKind,
    pub at_utc: i64,
    pub xml: String,
}

/// What a session asks of a kind of event.
struct Wish {
    predicate: Option<Predicate>,
    actions: Vec<Action>,
    /// A field that is not collected.
    left_out: Option<usize>,
}

/// Where a session's events go.
pub enum Target {
    Ring(Ring),
    File(EventFile),
}

/// A target with the definition it was made of.
pub struct RunningTarget {
    pub def: EventTargetDef,
    pub target: Target,
    pub events: AtomicU64,
}

/// What a session has counted since its start.
#[derive(Default)]
pub struct Counts {
    sequence: AtomicU64,
    pub dropped: AtomicU64,
    pub largest_dropped: AtomicU64,
    pub bytes: AtomicU64,
}

/// A started session.
pub struct RunningSession {
    pub def: Arc<EventSessionDef>,
    pub started_utc: i64,
    wishes: Vec<Option<Wish>>,
    pub targets: Vec<Arc<RunningTarget>>,
    pub counts: Arc<Counts>,
}

impl RunningSession {
    /// Starts a session, or goes on with one whose definition changed: targets that stay keep what they hold.
    pub fn new(
        instance: &Instance,
        def: &Arc<EventSessionDef>,
        before: Option<&RunningSession>,
    ) -> Result<RunningSession> {
        let mut wishes: Vec<Option<Wish>> = EVENTS.iter().map(|_| None).collect();
        for event in &def.events {
            let (kind, wish) = read_wish(event)?;
            if let Some(slot) = wishes.get_mut(kind as usize) {
                *slot = Some(wish);
            }
        }
        let kept = |target: &EventTargetDef| {
            let targets = before.map_or(&[][..], |b| &b.targets);
            targets.iter().find(|t| t.def == *target).cloned()
        };
        let targets = def.targets.iter().map(|target| match kept(target) {
            Some(kept) => Ok(kept),
            None => make_target(instance, def, target).map(Arc::new),
        });
        Ok(RunningSession {
            def: def.clone(),
            started_utc: before.map_or_else(|| instance.now_utc(), |b| b.started_utc),
            wishes,
            targets: targets.collect::<Result<_>>()?,
            counts: before.map_or_else(Default::default, |b| b.counts.clone()),
        })
    }

    /// The bits of the events it wants.
    pub fn wanted(&self) -> u32 {
        let kinds = EVENTS.iter().zip(&self.wishes);
        let wanted = kinds.filter(|(_, wish)| wish.is_some());
        wanted.fold(0, |bits, (info, _)| bits | info.kind.bit())
    }

    /// Takes an event, if the session wants this one.
    pub fn take(&self, event: &Occurrence<'_>) {
        let Some(Some(wish)) = self.wishes.get(event.kind as usize) else {
            return;
        };
        if wish.predicate.as_ref().is_some_and(|p| !p.holds(event)) {
            return;
        }
        let sequence = self.counts.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let xml = event.to_xml(&wish.actions, sequence, wish.left_out);
        let bytes = xml.len() as u64;
        let most = match self.def.max_event_kb {
            0 => self.def.max_memory_kb,
            kb => kb,
        };
        if bytes > u64::from(most) << 10 {
            self.drop_event(bytes);
            return;
        }
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        let collected = Arc::new(Collected {
            kind: event.kind,
            at_utc: event.at_utc,
            xml,
        });
        for running in &self.targets {
            let is_taken = match &running.target {
                Target::Ring(ring) => {
                    ring.add(&collected);
                    true
                }
                Target::File(file) => file.add(&collected),
            };
            match is_taken {
                true => drop(running.events.fetch_add(1, Ordering::Relaxed)),
                false => self.drop_event(bytes),
            }
        }
    }

    /// Counts events of a kind that found no room before any session was asked.
    pub fn count_lost(&self, kind: EventKind, lost: u64) {
        if matches!(self.wishes.get(kind as usize), Some(Some(_))) {
            self.counts.dropped.fetch_add(lost, Ordering::Relaxed);
        }
    }

    fn drop_event(&self, bytes: u64) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        self.counts
            .largest_dropped
            .fetch_max(bytes, Ordering::Relaxed);
    }

    /// Writes what has waited as long as the session lets it.
    pub fn dispatch(&self, now_utc: i64) {
        let before = match self.def.dispatch_latency_s {
            0 => i64::MIN,
            seconds => now_utc.saturating_sub(i64::from(seconds) * 10_000_000),
        };
        self.dispatch_before(before);
    }

    /// Writes all that waits.
    pub fn flush(&self) {
        self.dispatch_before(i64::MAX);
    }

    fn dispatch_before(&self, before_utc: i64) {
        for running in &self.targets {
            if let Target::File(file) = &running.target {
                file.dispatch(before_utc);
            }
        }
    }
}

fn read_wish(def: &EventDef) -> Result<(EventKind, Wish)> {
    let found = EVENTS.iter().find(|info| info.name == def.name);
    let info = found.ok_or_else(|| messages::error(25623, &[&"event", &def.name]))?;
    let tree = def.predicate.as_ref().map(|text| {
        parse_event_predicate(text, &ParseOptions::default())
            .map_err(|_| messages::error(25711, &[]))
    });
    let predicate = tree.transpose()?;
    let predicate = predicate
        .map(|tree| Predicate::new(&tree, info))
        .transpose()?;
    let known = |name: &String| ACTIONS.iter().find(|a| a.name == *name).map(|a| a.action);
    let is_off = |attribute: &str| {
        let off = EventSettingValue::Number(0);
        def.settings
            .iter()
            .any(|(name, value)| name == attribute && *value == off)
    };
    let left_out = match info.optional {
        Some((attribute, field)) if is_off(attribute) => {
            info.fields.iter().position(|f| f.name == field)
        }
        _ => None,
    };
    let wish = Wish {
        predicate,
        actions: def.actions.iter().filter_map(known).collect(),
        left_out,
    };
    Ok((info.kind, wish))
}

/// The predicate of an event, checked. Errors as `Predicate::new`.
pub fn check_event(def: &EventDef) -> Result<()> {
    read_wish(def).map(drop)
}

fn make_target(
    instance: &Instance,
    def: &EventSessionDef,
    target: &EventTargetDef,
) -> Result<RunningTarget> {
    let found = TARGETS.iter().find(|info| info.name == target.name);
    let info = found.ok_or_else(|| messages::error(25623, &[&"target", &target.name]))?;
    let made = match info.kind {
        TargetKind::RingBuffer => {
            let kb = number(
                target,
                "max_memory",
                ring::MEMORY_KB,
                (0, ring::MEMORY_KB_MAX),
            )?;
            let events = number(
                target,
                "max_events_limit",
                ring::EVENTS,
                (0, i64::from(i32::MAX)),
            )?;
            // Without a bound of its own it has the one that all have.
            let kb = if kb == 0 { ring::MEMORY_KB } else { kb };
            Target::Ring(Ring::new(size(kb) << 10, size(events)))
        }
        TargetKind::EventFile => {
            let mb = number(
                target,
                "max_file_size",
                file::FILE_MB,
                (1, file::FILE_MB_MAX),
            )?;
            let files = number(
                target,
                "max_rollover_files",
                file::FILES,
                (0, file::FILES_MAX),
            )?;
            let asked = setting(target, "filename");
            let Some(EventSettingValue::Text(asked)) = asked else {
                return Err(messages::error(25642, &[&"target", &"package0.event_file"]));
            };
            let folder = instance.log_folder();
            let name = file::file_name(asked, &folder)?;
            let bounds = ((size(mb) as u64) << 20, size(files).max(1));
            let queue = (def.max_memory_kb as usize) << 10;
            Target::File(EventFile::new(
                instance.env(),
                &folder,
                &name,
                bounds,
                queue,
            ))
        }
    };
    Ok(RunningTarget {
        def: target.clone(),
        target: made,
        events: AtomicU64::new(0),
    })
}

/// The settings of a target, checked. Errors 25641 and 25642.
pub fn check_target(
    instance: &Instance,
    def: &EventSessionDef,
    target: &EventTargetDef,
) -> Result<()> {
    make_target(instance, def, target).map(drop)
}

fn setting<'d>(target: &'d EventTargetDef, name: &str) -> Option<&'d EventSettingValue> {
    let found = target.settings.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value)
}

fn number(
    target: &EventTargetDef,
    name: &str,
    otherwise: i64,
    (least, most): (i64, i64),
) -> Result<i64> {
    match setting(target, name) {
        None => Ok(otherwise),
        Some(EventSettingValue::Number(n)) if (least..=most).contains(n) => Ok(*n),
        Some(_) => Err(out_of_range(target, name)),
    }
}

fn out_of_range(target: &EventTargetDef, name: &str) -> SqlError {
    let full = format!("package0.{}", target.name);
    messages::error(
        25641,
        &[&"target", &full, &name, &"The value is out of range."],
    )
}

fn size(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}
