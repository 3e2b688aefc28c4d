//! Triggers of definitions: they belong to a database or, in master, to the server, and to no schema. Their names are apart from
//! those of objects.

use crate::model::{ModuleDef, ObjectId};
use serde::{Deserialize, Serialize};

/// A trigger that statements of definition fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DdlTriggerDef {
    /// No object has it.
    pub id: ObjectId,
    pub name: String,
    /// ON ALL SERVER: in master alone.
    #[serde(default)]
    pub on_server: bool,
    pub module: ModuleDef,
    /// Of one of the server WITH EXECUTE AS: the SID of the login that it runs as.
    #[serde(default)]
    pub runs_as: Option<Vec<u8>>,
    /// Events and groups of events as they were named, by `sys.trigger_event_types.type`.
    pub events: Vec<i32>,
    pub disabled: bool,
    /// 100 ns since 1970-01-01 UTC.
    pub created_utc: i64,
    pub modified_utc: i64,
}
