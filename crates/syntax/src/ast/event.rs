//! Event sessions: CREATE, ALTER and DROP EVENT SESSION.

use super::{CompareOp, Ident, OptionItem};

/// A statement about an event session.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSession {
    pub name: Ident,
    /// `ON DATABASE` rather than `ON SERVER`.
    pub on_database: bool,
    pub verb: EventSessionVerb,
}

/// What the statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum EventSessionVerb {
    Create {
        changes: Vec<EventSessionChange>,
        options: Vec<OptionItem>,
    },
    Alter {
        changes: Vec<EventSessionChange>,
        options: Vec<OptionItem>,
    },
    Start,
    Stop,
    Drop,
}

/// A part that comes or goes.
#[derive(Clone, Debug, PartialEq)]
pub enum EventSessionChange {
    AddEvent(EventSpec),
    DropEvent(EventName),
    AddTarget(EventTargetSpec),
    DropTarget(EventName),
}

/// `sqlserver.sql_batch_completed`; a GUID of a module may stand before it.
#[derive(Clone, Debug, PartialEq)]
pub struct EventName {
    pub module: Option<Ident>,
    pub package: Option<Ident>,
    pub name: Ident,
}

/// An event with what is collected of it, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSpec {
    pub name: EventName,
    pub settings: Vec<EventSetting>,
    pub actions: Vec<EventName>,
    pub predicate: Option<EventPredicate>,
}

/// A target with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct EventTargetSpec {
    pub name: EventName,
    pub settings: Vec<EventSetting>,
}

/// `SET name = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSetting {
    pub name: Ident,
    pub value: EventValue,
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventValue {
    /// Digits, maybe with a sign.
    Number(String),
    Text(String),
}

/// `WHERE` of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventPredicate {
    /// At least two branches, none of them an `And`.
    And(Vec<EventPredicate>),
    /// At least two branches, none of them an `Or`.
    Or(Vec<EventPredicate>),
    Not(Box<EventPredicate>),
    Compare {
        source: EventName,
        op: CompareOp,
        value: EventValue,
    },
    Like {
        source: EventName,
        pattern: String,
        negated: bool,
    },
    /// `package0.greater_than_uint64(duration, 5)`.
    Call {
        comparator: EventName,
        source: EventName,
        value: EventValue,
    },
}
