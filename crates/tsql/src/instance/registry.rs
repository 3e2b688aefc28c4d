//! System views, functions and procedures by name: filled once at start by the rooms that implement them.

use crate::error::Result;
use crate::host::VirtualTable;
use crate::session::SystemCall;
use daruma_catalog::name_key;
use daruma_value::{DataType, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A declared parameter of a system procedure.
#[derive(Clone, Debug)]
pub struct SystemParameter {
    /// With its `@`.
    pub name: &'static str,
    pub data_type: DataType,
    /// `None`: the caller must supply it (error 201).
    pub default: Option<Value>,
    pub output: bool,
}

/// A procedure that is part of the server. Runs in the current database of its caller.
pub trait SystemProcedure: Send + Sync {
    /// Without schema: `sp_who`.
    fn name(&self) -> &str;
    /// Its parameters in order, by which the arguments of a call are bound.
    fn parameters(&self) -> &[SystemParameter];
    /// Do its texts take values of type `xml` as they are?
    fn takes_xml(&self) -> bool {
        false
    }
    /// Runs it; the result is its return status.
    fn run(&self, call: &SystemCall<'_, '_>) -> Result<i32>;
}

/// Every system view, function and procedure, by lower-case schema and name.
#[derive(Default)]
pub struct Registry {
    tables: BTreeMap<(String, String), Arc<dyn VirtualTable>>,
    procedures: BTreeMap<String, Arc<dyn SystemProcedure>>,
}

impl Registry {
    /// `schema`: `sys`, `INFORMATION_SCHEMA` or `dbo`.
    pub fn add_table(&mut self, schema: &str, table: Arc<dyn VirtualTable>) {
        let key = (name_key(schema), name_key(table.name()));
        self.tables.insert(key, table);
    }

    /// Adds a procedure; one of the same name is replaced.
    pub fn add_procedure(&mut self, procedure: Arc<dyn SystemProcedure>) {
        self.procedures
            .insert(name_key(procedure.name()), procedure);
    }

    /// The view or function of this name, in any case.
    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<dyn VirtualTable>> {
        self.tables.get(&(name_key(schema), name_key(name)))
    }

    /// Schema (lower case) and table, by name.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Arc<dyn VirtualTable>)> {
        self.tables
            .iter()
            .map(|((schema, _), table)| (schema.as_str(), table))
    }

    /// Procedures that EXEC reaches. A name in brackets may be anything, also that of a DBCC command, whose rights are others.
    pub fn procedure(&self, name: &str) -> Option<&Arc<dyn SystemProcedure>> {
        let found = self.procedures.get(&name_key(name))?;
        (!is_command(found.name())).then_some(found)
    }

    /// The DBCC command of this name.
    pub fn command(&self, name: &str) -> Option<&Arc<dyn SystemProcedure>> {
        self.procedures.get(&name_key(&format!("{COMMAND}{name}")))
    }

    /// All that EXEC reaches.
    pub fn procedures(&self) -> impl Iterator<Item = &Arc<dyn SystemProcedure>> {
        self.procedures.values().filter(|p| !is_command(p.name()))
    }
}

/// DBCC commands are registered like procedures, under names that begin so.
const COMMAND: &str = "dbcc ";

fn is_command(name: &str) -> bool {
    name.starts_with(COMMAND)
}
