//! Definitions of event sessions: rows of master.
//!
//! A predicate is text: it was read once before it was stored, and is read again when its session starts.

use crate::group::ServerRow;
use serde::{Deserialize, Serialize};

/// An event session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSessionDef {
    /// From 65536, as the product counts.
    pub id: i32,
    pub name: String,
    /// Does it start with the server?
    pub starts_with_server: bool,
    /// Events that wait for a target that takes its time, and the longest single one.
    pub max_memory_kb: u32,
    /// Longest event, in KB; 0 for as long as the memory is.
    pub max_event_kb: u32,
    pub loses_several: bool,
    /// How long an event may wait for its target; 0 for as long as there is memory.
    pub dispatch_latency_s: u32,
    pub events: Vec<EventDef>,
    pub targets: Vec<EventTargetDef>,
    pub created_utc: i64,
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDef {
    /// Number within the session, from 1; targets count with events.
    pub id: i32,
    pub name: String,
    pub settings: Vec<(String, EventSettingValue)>,
    /// Names of actions.
    pub actions: Vec<String>,
    pub predicate: Option<String>,
}

/// A target of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTargetDef {
    pub id: i32,
    pub name: String,
    pub settings: Vec<(String, EventSettingValue)>,
}

/// What SET gave an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventSettingValue {
    Number(i64),
    Text(String),
}

impl ServerRow for EventSessionDef {
    const KIND: u8 = crate::rows::KIND_EVENT_SESSION;
    fn id(&self) -> i32 {
        self.id
    }
}

impl EventSessionDef {
    /// The number of the next event or target.
    pub fn next_part(&self) -> i32 {
        let events = self.events.iter().map(|e| e.id);
        let targets = self.targets.iter().map(|t| t.id);
        events.chain(targets).max().unwrap_or(0).saturating_add(1)
    }
}
