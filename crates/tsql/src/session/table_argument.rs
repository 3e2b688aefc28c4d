//! Tables as arguments: table variables that a caller passes, and rows that a client sends with its call.
//!
//! Theory: a parameter of a table type is read only, so a table variable is not copied: the callee reads the caller's
//! rows, and its frame does not drop them. Rows of a client, and the empty table that DEFAULT means, are put into a table
//! of the callee's frame. They are taken one by one and written as those of INSERT are: with the type's defaults, checks
//! and keys, and through the statement's memory.

use super::execution::Execution;
use super::frame::Frame;
use super::procedure::CallArgument;
use crate::ddl;
use crate::dml::bulk::{BulkColumn, BulkTarget};
use crate::dml::{InsertOptions, explicit_identity};
use crate::error::{Result, SqlError};
use crate::host::{Host, TableRef, TypeKey, VariableType, check_cancel};
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{ColumnDef, SCHEMA_DBO, TypeDef};
use daruma_syntax::ast::{Parameter, TypeName};
use daruma_value::{DataType, Value};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Takes one row; its values may be taken out of it.
pub type TakeRow<'a> = dyn FnMut(&mut Vec<Value>) -> Result<()> + 'a;

/// A table that a client sent with a call.
pub trait SentTable: Send + Sync {
    /// Schema and name of its type; empty where nothing was sent.
    fn type_name(&self) -> (&str, &str);
    /// No table was sent: the parameter takes its default, which is an empty one.
    fn is_default(&self) -> bool;
    /// What the values of each row are, in their order.
    fn columns(&self) -> Vec<SentColumn>;
    /// Gives the rows one by one.
    fn each_row(&self, take: &mut TakeRow<'_>) -> Result<()>;
}

/// A column of rows that a client sent.
#[derive(Clone, Copy, Debug)]
pub struct SentColumn {
    /// Position in the type, from 0.
    pub ordinal: usize,
    pub data_type: DataType,
    /// Nothing was sent for it: the type's default counts, its identity or its expression.
    pub is_default: bool,
}

/// A table as an argument of a call.
#[derive(Clone)]
pub enum TableArgument {
    /// A table variable of the caller.
    Passed(TableRef),
    /// Rows that came with the call.
    Sent(Arc<dyn SentTable>),
    /// A cursor variable of the caller, which is no table either.
    Cursor(String),
}

impl fmt::Debug for TableArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableArgument::Passed(table) => write!(f, "Passed({})", table.name),
            TableArgument::Sent(sent) => write!(f, "Sent({:?})", sent.type_name()),
            TableArgument::Cursor(name) => write!(f, "Cursor({name})"),
        }
    }
}

impl PartialEq for TableArgument {
    fn eq(&self, other: &TableArgument) -> bool {
        match (self, other) {
            (TableArgument::Passed(a), TableArgument::Passed(b)) => a.object_id == b.object_id,
            (TableArgument::Sent(a), TableArgument::Sent(b)) => Arc::ptr_eq(a, b),
            (TableArgument::Cursor(a), TableArgument::Cursor(b)) => a == b,
            _ => false,
        }
    }
}

/// A table type and the database that it is in.
pub(crate) struct TableType {
    pub database: DatabaseId,
    pub def: Arc<TypeDef>,
}

impl TableType {
    /// What names the type.
    pub fn key(&self) -> TypeKey {
        (self.database, self.def.id)
    }
}

impl Execution<'_> {
    /// The table type that is meant, if there is one of the name.
    pub(crate) fn table_type(&self, name: &TypeName) -> Result<Option<TableType>> {
        let schema = name.schema.as_ref().map(|s| s.text.as_str());
        match name.args.is_empty() {
            true => self.table_type_named(schema, &name.name.text),
            false => Ok(None),
        }
    }

    fn table_type_named(&self, schema: Option<&str>, name: &str) -> Result<Option<TableType>> {
        let database = self.current_database();
        let catalog = self.state.catalog(database)?;
        let schema = match schema {
            Some(schema) => catalog.schema_named(schema).map(|s| s.id),
            None => Some(SCHEMA_DBO),
        };
        let def = schema.and_then(|id| catalog.type_named(id, name));
        let def = def.filter(|def| def.table.is_some()).cloned();
        Ok(def.map(|def| TableType { database, def }))
    }

    /// The table variable of the running frame with this name.
    pub(super) fn table_variable(&self, name: &str) -> Option<TableRef> {
        self.top(
            |frame| match frame.variable(name).map(|v| v.declared.clone()) {
                Some(VariableType::Table(table) | VariableType::Parameter(table)) => Some(table),
                _ => None,
            },
        )
    }

    /// A table variable or parameter that some frame of the session has.
    pub(super) fn live_table(&self, id: i32) -> Option<TableRef> {
        let frames = self.state.frames.borrow();
        let variables = frames.iter().rev().flat_map(|f| f.variables.values());
        let mut tables = variables.filter_map(|v| match &v.declared {
            VariableType::Table(table) | VariableType::Parameter(table) => Some(table),
            _ => None,
        });
        tables.find(|t| t.object_id == id).cloned()
    }

    /// Declares a parameter of a table type with the table of the call.
    pub(super) fn bind_table(
        &self,
        frame: &mut Frame,
        parameter: &Parameter,
        of: &TableType,
        argument: Option<&CallArgument>,
    ) -> Result<()> {
        let name = &parameter.name;
        if !parameter.read_only {
            return Err(messages::error(352, &[name]));
        }
        if argument.is_some_and(|a| a.output) {
            return Err(messages::error_state(8162, 2, &[name]));
        }
        let given = argument.and_then(|a| a.table.as_ref());
        match (given, argument.and_then(|a| a.value.as_ref())) {
            (Some(TableArgument::Cursor(cursor)), _) => Err(messages::error(16949, &[cursor])),
            (Some(TableArgument::Passed(table)), _) => self.borrow_table(frame, name, of, table),
            (Some(TableArgument::Sent(sent)), _) => {
                self.check_sent_type(name, of, sent.as_ref())?;
                let table = self.own_table(frame, name, of)?;
                match sent.is_default() {
                    true => Ok(()),
                    false => self.atomic(|| self.fill(&table, sent.as_ref())),
                }
            }
            (None, Some(_)) => {
                let from = argument.map_or(DataType::Int, |a| a.data_type);
                Err(messages::error_state(206, 2, &[&from.name(), &of.def.name]))
            }
            (None, None) => self.own_table(frame, name, of).map(|_| ()),
        }
    }

    fn borrow_table(
        &self,
        frame: &mut Frame,
        name: &str,
        of: &TableType,
        table: &TableRef,
    ) -> Result<()> {
        if table.table_type != Some(of.key()) {
            let from = self.shown_type(table)?;
            return Err(messages::error_state(206, 2, &[&from, &of.def.name]));
        }
        let table = TableRef {
            name: name.to_string(),
            ..table.clone()
        };
        frame.declare_table(name, VariableType::Parameter(table), true)
    }

    /// 206: a table where a value must be.
    pub(super) fn no_value(&self, table: &TableArgument, wanted: DataType) -> SqlError {
        let from = match table {
            TableArgument::Cursor(name) => return messages::error(16949, &[name]),
            TableArgument::Passed(table) => self.shown_type(table),
            TableArgument::Sent(sent) => Ok(sent.type_name().1.to_string()),
        };
        match from {
            Ok(from) => messages::error_state(206, 2, &[&from, &wanted.name()]),
            Err(error) => error,
        }
    }

    /// Type of a parameter of a text that is only bound.
    pub(super) fn parameter_type(&self, name: &str, of: &TypeName) -> Result<VariableType> {
        match self.type_of(of) {
            Ok((declared, ..)) => Ok(VariableType::Scalar(declared)),
            Err(missing) => {
                let of = self.table_type(of)?.ok_or(missing)?;
                let table = self.bare_table(name, of.key())?;
                Ok(VariableType::Parameter(table))
            }
        }
    }

    /// What error 206 calls the type of a table variable.
    pub(super) fn shown_type(&self, table: &TableRef) -> Result<String> {
        let Some((database, id)) = table.table_type else {
            return Ok("table".to_string());
        };
        let catalog = self.state.catalog(database)?;
        let def = catalog.type_by_id(id);
        Ok(def.map_or("table".to_string(), |def| def.name.clone()))
    }

    /// An empty table of the frame's own, as a parameter.
    pub(super) fn own_table(
        &self,
        frame: &mut Frame,
        name: &str,
        of: &TableType,
    ) -> Result<TableRef> {
        let table = ddl::table_of_type(self, name, of.database, &of.def)?;
        frame.declare_table(name, VariableType::Parameter(table.clone()), false)?;
        Ok(table)
    }

    /// The table that a call of a function passes by its number; 0 is an empty one.
    pub(super) fn pass_table(
        &self,
        frame: &mut Frame,
        name: &str,
        (database, id): TypeKey,
        value: &Value,
    ) -> Result<()> {
        let catalog = self.state.catalog(database)?;
        let def = catalog.type_by_id(id).cloned();
        let def = def.ok_or_else(|| messages::error(2715, &[&1, &name]))?;
        let of = TableType { database, def };
        match value {
            Value::Int(table) if *table != 0 => {
                let table = self.live_table(*table);
                let table = table.ok_or_else(|| messages::error_state(1087, 2, &[&name]))?;
                self.borrow_table(frame, name, &of, &table)
            }
            _ => self.own_table(frame, name, &of).map(|_| ()),
        }
    }

    /// The client names the type of what it sends: 2715 when there is none, 206 when it is another one.
    fn check_sent_type(&self, parameter: &str, of: &TableType, sent: &dyn SentTable) -> Result<()> {
        let (schema, name) = sent.type_name();
        if name.is_empty() {
            return Ok(());
        }
        let schema = (!schema.is_empty()).then_some(schema);
        match self.table_type_named(schema, name)? {
            Some(found) if found.key() == of.key() => Ok(()),
            Some(found) => Err(messages::error_state(
                206,
                2,
                &[&found.def.name, &of.def.name],
            )),
            None => Err(SqlError::new(
                2715,
                16,
                3,
                format!(
                    "Column, parameter, or variable {parameter}. : Cannot find data type {name}."
                ),
            )),
        }
    }

    /// Puts the rows of a client into a new table.
    fn fill(&self, table: &TableRef, sent: &dyn SentTable) -> Result<()> {
        let columns = sent.columns();
        let def = &table.def.columns;
        if columns.len() != def.len() {
            return Err(messages::error(500, &[&columns.len(), &def.len()]));
        }
        let mut seen = HashSet::new();
        let mut given = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let target = def.get(column.ordinal);
            let target = target.filter(|_| seen.insert(column.ordinal));
            let target = target.ok_or_else(wrong_order)?;
            if !column.is_default {
                refuse_given(target)?;
                let name = target.name.clone();
                let data_type = column.data_type;
                given.push((at, BulkColumn { name, data_type }));
            }
        }
        let (places, named): (Vec<usize>, Vec<BulkColumn>) = given.into_iter().unzip();
        let target = BulkTarget::new(self, table, &named, InsertOptions::STATEMENT)?;
        let mut insert = target.begin(self)?;
        let mut kept = Vec::with_capacity(places.len());
        sent.each_row(&mut |row| {
            check_cancel(self)?;
            kept.clear();
            for at in &places {
                let value = row.get_mut(*at);
                kept.push(value.map_or(Value::Null, |v| std::mem::replace(v, Value::Null)));
            }
            insert.push(&mut kept)
        })?;
        insert.finish().map(|_| ())
    }
}

/// Columns whose values the server makes.
fn refuse_given(column: &ColumnDef) -> Result<()> {
    match column {
        c if c.is_identity => Err(explicit_identity()),
        c if c.computed.is_some() => Err(messages::error(271, &[&c.name])),
        c if c.data_type == DataType::RowVersion => Err(messages::error(273, &[])),
        _ => Ok(()),
    }
}

/// The order of the columns names one twice, or one that is not there.
fn wrong_order() -> SqlError {
    SqlError::new(
        8009,
        16,
        1,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. The order of the columns of a table-valued parameter is wrong.",
    )
}
