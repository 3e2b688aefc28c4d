//! Frames: what one batch, module or dynamic text has for itself.

use crate::error::Result;
use crate::host::{SessionSettings, TableRef, VariableType};
use crate::instance::Batch;
use crate::messages;
use crate::sink::DoneKind;
use daruma_base::DatabaseId;
use daruma_catalog::{ObjectId, name_key};
use daruma_value::{DataType, Value};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Deepest nesting of modules and dynamic text (error 217).
pub(crate) const NESTING_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FrameKind {
    Batch,
    /// EXEC('text') and sp_executesql.
    Dynamic,
    Procedure,
    Trigger,
}

pub(crate) struct Variable {
    pub declared: VariableType,
    pub value: Value,
}

/// Rows that a trigger sees as `inserted` and `deleted`.
pub(crate) struct TriggerRows {
    pub table: TableRef,
    pub inserted: Arc<Vec<Vec<Value>>>,
    pub deleted: Arc<Vec<Vec<Value>>>,
    pub updated_columns: Vec<i32>,
}

pub(crate) struct Frame {
    pub kind: FrameKind,
    pub batch: Arc<Batch>,
    /// Name of the module, for messages.
    pub module: Option<String>,
    pub object_id: ObjectId,
    /// Database whose names are meant.
    pub database: DatabaseId,
    pub schema_id: i32,
    pub variables: HashMap<String, Variable>,
    pub scope_identity: Option<i128>,
    pub trigger: Option<Arc<TriggerRows>>,
    /// Settings to go back to when the frame ends.
    pub saved_settings: Option<SessionSettings>,
    /// Line of the batch on which the frame's text starts, for module bodies.
    pub line: i32,
    pub statement_line: i32,
    /// TRY blocks that are open in this frame.
    pub tries: u32,
    pub while_depth: u32,
    pub return_status: i32,
    /// Hash of the parameters' types.
    pub signature: u64,
}

impl Frame {
    pub fn new(kind: FrameKind, batch: Arc<Batch>, database: DatabaseId) -> Frame {
        Frame {
            kind,
            batch,
            module: None,
            object_id: 0,
            database,
            schema_id: daruma_catalog::SCHEMA_DBO,
            variables: HashMap::new(),
            scope_identity: None,
            trigger: None,
            saved_settings: None,
            line: 0,
            statement_line: 1,
            tries: 0,
            while_depth: 0,
            return_status: 0,
            signature: 0,
        }
    }

    pub fn done_kind(&self) -> DoneKind {
        match self.kind {
            FrameKind::Batch => DoneKind::Statement,
            _ => DoneKind::InProcedure,
        }
    }

    /// Declares a variable; error 134 when there is one of the name.
    pub fn declare(&mut self, name: &str, declared: VariableType, value: Value) -> Result<()> {
        if self.variables.contains_key(&name_key(name)) {
            return Err(messages::error(134, &[&name]));
        }
        self.variables
            .insert(name_key(name), Variable { declared, value });
        Ok(())
    }

    /// Declares a parameter: its type is part of what plans depend on.
    pub fn declare_parameter(
        &mut self,
        name: &str,
        declared: DataType,
        value: Value,
    ) -> Result<()> {
        let mut hasher = DefaultHasher::new();
        (self.signature, name_key(name), declared).hash(&mut hasher);
        self.signature = hasher.finish();
        self.declare(name, VariableType::Scalar(declared), value)
    }

    pub fn variable(&self, name: &str) -> Option<&Variable> {
        // Names are mostly lower case as written.
        self.variables
            .get(name)
            .or_else(|| self.variables.get(&name_key(name)))
    }

    pub fn variable_mut(&mut self, name: &str) -> Option<&mut Variable> {
        self.variables.get_mut(&name_key(name))
    }
}
