//! Frames: what one batch, module or dynamic text has for itself.

use crate::error::Result;
use crate::host::{Images, SessionSettings, TableRef, VariableType};
use crate::instance::Batch;
use crate::messages;
use crate::sink::DoneKind;
use daruma_base::DatabaseId;
use daruma_catalog::{ObjectId, name_key};
use daruma_value::{DataType, Value};
use std::collections::{HashMap, HashSet};
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
    Function,
}

impl FrameKind {
    /// Do names mean what they mean where a definition stands?
    pub fn is_module(&self) -> bool {
        matches!(
            self,
            FrameKind::Procedure | FrameKind::Trigger | FrameKind::Function
        )
    }
}

pub(crate) struct Variable {
    pub declared: VariableType,
    pub value: Value,
    /// A table of another frame, which drops it.
    pub is_borrowed: bool,
    /// It came with the call, and is not declared again.
    is_parameter: bool,
}

impl Variable {
    fn new(declared: VariableType, value: Value) -> Variable {
        Variable {
            declared,
            value,
            is_borrowed: false,
            is_parameter: false,
        }
    }
}

/// Rows that a trigger sees as `inserted` and `deleted`.
pub(crate) struct TriggerRows {
    pub table: TableRef,
    pub images: Images,
    pub updated_columns: Vec<i32>,
    /// Rows that the statement changed: @@ROWCOUNT when the trigger begins.
    pub count: u64,
    pub instead_of: bool,
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
    /// Database in which the module is defined: another one than `database` for the `sp_` procedures of master.
    pub home: DatabaseId,
    pub variables: Variables,
    pub scope_identity: Option<i128>,
    pub trigger: Option<Arc<TriggerRows>>,
    /// Of a trigger of definitions: what EVENTDATA shows.
    pub event: Option<Arc<str>>,
    /// Settings to go back to when the frame ends.
    pub saved_settings: Option<SessionSettings>,
    /// Line of the batch on which the frame's text starts, for module bodies.
    pub line: i32,
    pub statement_line: i32,
    /// Its text is the request's, so that its statements are shown as those that the request is at.
    pub is_request: bool,
    /// TRY blocks that are open in this frame.
    pub tries: u32,
    pub while_depth: u32,
    /// How many of the batch's `passed_over` places lie behind.
    pub passed: usize,
    pub return_status: i32,
    /// Of a scalar function: the type of its value, and the value once RETURN gave it.
    pub returns: Option<DataType>,
    pub returned: Option<Value>,
    /// Hash of the parameters' types, and of those that alias types of other variables stand for.
    pub signature: u64,
}

impl Frame {
    /// A frame at the start of its batch, without variables.
    pub fn new(kind: FrameKind, batch: Arc<Batch>, database: DatabaseId) -> Frame {
        Frame {
            kind,
            batch,
            module: None,
            object_id: 0,
            database,
            schema_id: daruma_catalog::SCHEMA_DBO,
            home: database,
            variables: Variables::default(),
            scope_identity: None,
            trigger: None,
            event: None,
            saved_settings: None,
            line: 0,
            statement_line: 1,
            is_request: false,
            tries: 0,
            while_depth: 0,
            passed: 0,
            return_status: 0,
            returns: None,
            returned: None,
            signature: 0,
        }
    }

    /// Which token ends a statement that runs in this frame.
    pub fn done_kind(&self) -> DoneKind {
        match self.kind {
            FrameKind::Batch => DoneKind::Statement,
            _ => DoneKind::InProcedure,
        }
    }

    /// Declares a variable; error 134 when there is one of the name.
    pub fn declare(&mut self, name: &str, declared: VariableType, value: Value) -> Result<()> {
        let variable = Variable::new(declared, value);
        match self.variables.insert(Arc::from(name_key(name)), variable) {
            true => Ok(()),
            false => Err(messages::error(134, &[&name])),
        }
    }

    /// Declares a table-valued parameter; one that is borrowed stays when the frame ends.
    pub fn declare_table(
        &mut self,
        name: &str,
        declared: VariableType,
        is_borrowed: bool,
    ) -> Result<()> {
        let variable = Variable {
            is_borrowed,
            is_parameter: true,
            ..Variable::new(declared, Value::Null)
        };
        match self.variables.insert(Arc::from(name_key(name)), variable) {
            true => Ok(()),
            false => Err(messages::error(134, &[&name])),
        }
    }

    /// Plans of what follows are good where the variable is a table.
    pub fn note_table(&mut self, name: &str) {
        let mut hasher = DefaultHasher::new();
        (self.signature, name_key(name), "table").hash(&mut hasher);
        self.signature = hasher.finish();
    }

    /// Plans of what follows are good for this type of the variable.
    pub fn note_type(&mut self, name: &str, declared: DataType) {
        let mut hasher = DefaultHasher::new();
        (self.signature, name_key(name), declared).hash(&mut hasher);
        self.signature = hasher.finish();
    }

    /// Declares a parameter under the key of its name.
    pub fn declare_parameter(
        &mut self,
        name: &str,
        key: &Arc<str>,
        declared: DataType,
        value: Value,
    ) -> Result<()> {
        let declared = VariableType::Scalar(declared);
        let variable = Variable {
            is_parameter: true,
            ..Variable::new(declared, value)
        };
        match self.variables.insert(key.clone(), variable) {
            true => Ok(()),
            false => Err(messages::error(134, &[&name])),
        }
    }

    /// The variable of this name (with `@`), in any case.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        let at = self.variables.find(name)?;
        self.variables.list.get(at).map(|(_, v)| v)
    }

    /// Was it declared here? DECLARE in a loop, or behind a label that GOTO comes back to, runs again and again; the variable exists
    /// once, and two of them in a text are found before it runs.
    pub fn has_declared(&self, name: &str) -> bool {
        self.variable(name).is_some_and(|v| !v.is_parameter)
    }

    /// The next DECLARE that control may have passed over, if it stands before this place of the text.
    pub fn next_passed(&self, place: usize) -> Option<usize> {
        let next = self.batch.passed_over.get(self.passed);
        next.copied().filter(|at| *at < place)
    }

    /// The variable of this name, to be assigned.
    pub fn variable_mut(&mut self, name: &str) -> Option<&mut Variable> {
        let at = self.variables.find(name)?;
        self.variables.list.get_mut(at).map(|(_, v)| v)
    }
}

/// A scalar variable apart from its frame: the key of its name, its type and value.
pub(crate) type Scalar = (Arc<str>, DataType, Value);
/// Several of them.
pub(crate) type Scalars = [Scalar];

/// Variables by name. Most frames have a few, which are compared one by one; more of them get an index.
#[derive(Default)]
pub(crate) struct Variables {
    /// With the keys of their names.
    list: Vec<(Arc<str>, Variable)>,
    index: HashMap<Arc<str>, usize>,
}

/// Variables that need no index.
const FEW: usize = 16;

impl Variables {
    /// False when there is one of the name.
    fn insert(&mut self, key: Arc<str>, variable: Variable) -> bool {
        if self.position(&key).is_some() {
            return false;
        }
        if self.list.len() >= FEW {
            if self.index.is_empty() {
                let keys = self.list.iter().enumerate();
                self.index = keys.map(|(at, (key, _))| (key.clone(), at)).collect();
            }
            self.index.insert(key.clone(), self.list.len());
        }
        self.list.push((key, variable));
        true
    }

    fn position(&self, key: &str) -> Option<usize> {
        match self.index.is_empty() {
            true => self.list.iter().position(|(k, _)| **k == *key),
            false => self.index.get(key).copied(),
        }
    }

    /// Names are mostly written as their keys are: in lower case.
    fn find(&self, name: &str) -> Option<usize> {
        let is_key = |b: u8| b.is_ascii() && !b.is_ascii_uppercase() && b != b' ';
        match name.bytes().all(is_key) {
            true => self.position(name),
            false => self.position(&name_key(name)),
        }
    }

    /// Those of these keys that are no tables and cursors.
    pub fn scalars(&self, keys: &HashSet<String>) -> Vec<Scalar> {
        let scalar = |(key, v): &(Arc<str>, Variable)| match v.declared {
            VariableType::Scalar(declared) if keys.contains(&**key) => {
                Some((key.clone(), declared, v.value.clone()))
            }
            _ => None,
        };
        self.list.iter().filter_map(scalar).collect()
    }

    /// Bytes that [`Variables::scalars`] would copy.
    pub fn scalar_bytes(&self, keys: &HashSet<String>) -> usize {
        let meant = self.list.iter().filter(|(key, _)| keys.contains(&**key));
        meant.map(|(_, v)| v.value.outside_bytes()).sum()
    }

    /// These scalars, and the tables of `other`.
    pub fn beside(scalars: &Scalars, other: &Variables) -> Variables {
        let mut made = Variables::default();
        for (key, declared, value) in scalars {
            let declared = VariableType::Scalar(*declared);
            made.insert(key.clone(), Variable::new(declared, value.clone()));
        }
        for (key, variable) in &other.list {
            let declared = &variable.declared;
            if let VariableType::Table(_) | VariableType::Parameter(_) = declared {
                made.insert(key.clone(), Variable::new(declared.clone(), Value::Null));
            }
        }
        made
    }

    /// The variables in the order of their declaration.
    pub fn values(&self) -> impl Iterator<Item = &Variable> {
        self.list.iter().map(|(_, variable)| variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_meet_in_any_case_and_number() {
        let mut frame = Frame::new(FrameKind::Batch, Batch::empty(), DatabaseId(1));
        for n in 0..FEW as i32 * 3 {
            let declared = VariableType::Scalar(DataType::Int);
            let made = frame.declare(&format!("@Name{n}"), declared.clone(), Value::Int(n));
            assert!(made.is_ok());
            let again = frame.declare(&format!("@nAME{n}"), declared, Value::Null);
            assert_eq!(again.map_err(|e| e.number), Err(134));
            for asked in [format!("@name{n}"), format!("@NAME{n} ")] {
                let value = frame.variable(&asked).map(|v| v.value.clone());
                assert_eq!(value, Some(Value::Int(n)));
            }
        }
        assert!(frame.variable("@other").is_none());
        assert_eq!(frame.variables.values().count(), FEW * 3);
    }
}
