//! System views and table-valued system functions.
//!
//! Theory: a view is a description (`define`) and a function that fills rows from the instance, the catalog of the
//! database it is seen from, and storage (`source`). Nothing is stored, so a view is right at the moment it is read.
//! The views list themselves: `sys.all_views`, `sys.all_columns` and `sys.all_objects` read the registry.
//!
//! Map: `databases`, `objects`, `ddl_triggers` (of definitions), `columns`, `indexes`, `constraints`, `principals`, `server`, `activity` (sessions,
//! locks, transactions), `plans` (kept plans, their texts and costs), `log`,
//! `version_store` (who keeps versions, and the log in words), `information_schema` and its `privileges`, `old` (names of SQL Server 2000), `odbc` (types and
//! columns as the catalogue procedures show them), `base_tables` (the product's hidden tables), `events` (event sessions), `keys`, `volumes` (room on disk), `machine`, `tasks` (what
//! threads do), `resource_governor` (its pools as they always are), `groups` and
//! `group_states` (availability groups), `empty` (features that are not here), `names` (ids of system objects).

mod activity;
mod base_tables;
mod cluster;
mod columns;
mod completed;
mod constraints;
mod counters;
mod databases;
mod ddl_triggers;
mod define;
mod dependencies;
mod empty;
mod events;
mod group_states;
mod groups;
mod indexes;
mod information_schema;
mod keys;
mod log;
mod machine;
mod names;
mod objects;
mod odbc;
mod old;
mod plans;
mod ports;
mod principals;
mod privileges;
mod properties;
mod resource_governor;
mod server;
mod source;
mod tasks;
mod version_store;
mod volumes;

pub(crate) use activity::wait_resource;
pub(crate) use define::{Cell, Rows, Shape, default_value, parse_type};
pub(crate) use indexes::partition_id;
pub(crate) use log::{lsn_text, percent, vlf_parity, vlf_status};
pub use names::{SystemObject, system_object, system_object_by_id, system_objects};
pub(crate) use objects::module_of;
pub(crate) use principals::{fixed_role_id, fixed_role_name};
pub(crate) use source::{Source, shown_text};

use crate::instance::Registry;
use define::{Registered, View};
use std::sync::Arc;

const ALL: &[&[View]] = &[
    databases::VIEWS,
    objects::VIEWS,
    ddl_triggers::VIEWS,
    columns::VIEWS,
    indexes::VIEWS,
    constraints::VIEWS,
    principals::VIEWS,
    server::VIEWS,
    activity::VIEWS,
    plans::VIEWS,
    properties::VIEWS,
    log::VIEWS,
    counters::VIEWS,
    completed::VIEWS,
    version_store::VIEWS,
    information_schema::VIEWS,
    privileges::VIEWS,
    odbc::VIEWS,
    old::VIEWS,
    keys::VIEWS,
    groups::VIEWS,
    group_states::VIEWS,
    ports::VIEWS,
    cluster::VIEWS,
    empty::VIEWS,
    events::VIEWS,
    dependencies::VIEWS,
    volumes::VIEWS,
    tasks::VIEWS,
    machine::VIEWS,
    resource_governor::VIEWS,
];

/// Adds every view and function to the registry.
pub fn register(registry: &mut Registry) {
    for view in ALL.iter().copied().flatten() {
        registry.add_table(view.schema, Arc::new(Registered::new(view)));
    }
}

#[cfg(test)]
mod tests;
