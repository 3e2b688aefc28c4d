//! Temporary procedures: `#p` is the session's, `##p` everybody's until the session that made it goes.
//!
//! Theory: such a procedure is a text that is kept under a name. It runs as dynamic text does: its names mean what they mean
//! where it is called, and whoever calls it needs the rights for what it does, so it hands nobody's rights on. Creation and
//! removal are part of the transaction.

use super::SessionState;
use super::execution::Execution;
use super::fail::Step;
use super::frame::{Frame, FrameKind};
use super::parameters::ParameterShape;
use super::procedure::{CallArgument, CallResult};
use super::temp::TempUndo;
use crate::error::Result;
use crate::host::Host;
use crate::messages;
use daruma_catalog::{ModuleDef, Object, ObjectKind, name_key};
use daruma_syntax::ast::{ModuleBody, StatementKind};
use std::collections::HashMap;
use std::sync::Arc;

/// Procedures that a session has, and global ones that there are.
const MODULES_MAX: usize = 4_096;

/// A temporary procedure, and the session that made it.
#[derive(Clone)]
pub struct TempModule {
    pub object: Arc<Object>,
    pub creator: i32,
}

impl SessionState {
    /// The temporary procedure of this name.
    pub(crate) fn temp_module(&self, name: &str) -> Option<Arc<Object>> {
        self.kept_module(&name_key(name)).map(|m| m.object)
    }

    fn kept_module(&self, key: &str) -> Option<TempModule> {
        match key.starts_with("##") {
            true => self.instance.global_modules.lock().get(key).cloned(),
            false => self.temp_modules.borrow().get(key).cloned(),
        }
    }

    /// Others run a `##p` with their own rights: what it does is for its session alone to say, and for administrators.
    pub(crate) fn may_change_module(&self, name: &str) -> bool {
        let is_own = |m: TempModule| m.creator == self.entry.spid;
        let kept = self.kept_module(&name_key(name));
        kept.is_none_or(is_own) || self.server_rights().all
    }

    /// Puts a temporary procedure in place, or takes it away, as part of the transaction.
    pub(crate) fn set_temp_module(&self, name: &str, object: Option<Arc<Object>>) -> Result<()> {
        let key = name_key(name);
        let count = match key.starts_with("##") {
            true => self.instance.global_modules.lock().len(),
            false => self.temp_modules.borrow().len(),
        };
        let before = self.kept_module(&key);
        if object.is_some() && before.is_none() && count >= MODULES_MAX {
            return Err(messages::error(701, &[&"default"]));
        }
        let creator = before.as_ref().map_or(self.entry.spid, |m| m.creator);
        self.put_temp_module(&key, object.map(|object| TempModule { object, creator }));
        self.push_temp_undo(TempUndo::Module(key, before));
        Ok(())
    }

    pub(super) fn put_temp_module(&self, key: &str, module: Option<TempModule>) {
        let put = |map: &mut HashMap<String, TempModule>| match module {
            Some(module) => map.insert(key.to_string(), module),
            None => map.remove(key),
        };
        let _before = match key.starts_with("##") {
            true => put(&mut self.instance.global_modules.lock()),
            false => put(&mut self.temp_modules.borrow_mut()),
        };
    }

    /// The session ends or is reset: what it made goes.
    pub(super) fn drop_own_modules(&self) {
        self.temp_modules.borrow_mut().clear();
        let mut globals = self.instance.global_modules.lock();
        globals.retain(|_, module| module.creator != self.entry.spid);
    }
}

impl Execution<'_> {
    pub(super) fn call_temporary(
        &self,
        object: &Arc<Object>,
        module: &ModuleDef,
        args: &[CallArgument],
    ) -> Step<CallResult> {
        self.check_nesting()?;
        let batch = self.module_batch(self.current_database(), module);
        let batch = batch.map_err(|e| self.fail(e))?;
        let created = batch.statements.first().map(|s| &s.kind);
        let Some(StatementKind::CreateProcedure(create)) = created else {
            return Err(self.fail(messages::error_state(2812, 62, &[&object.name])));
        };
        let ModuleBody::Statements(body) = &create.body else {
            return Err(self.fail(messages::not_supported("EXTERNAL NAME")));
        };
        let database = self.current_database();
        let mut frame = Frame::new(FrameKind::Dynamic, batch.clone(), database);
        frame.module = Some(object.name.clone());
        frame.object_id = object.id;
        frame.saved_settings = Some(self.state.settings.borrow().clone());
        let shape = ParameterShape::of(&create.parameters);
        let bound =
            self.bind_parameters(&mut frame, &object.name, &create.parameters, &shape, args);
        let bound = bound.map_err(|e| self.fail(e.of_module(&object.name)))?;
        {
            let mut settings = self.state.settings.borrow_mut();
            settings.ansi_nulls = module.ansi_nulls;
            settings.quoted_identifier = module.quoted_identifier;
        }
        self.run_module(frame, body, bound)
    }
}

/// The module of a temporary procedure.
pub(super) fn procedure_of(object: &Object) -> Option<&ModuleDef> {
    match &object.kind {
        ObjectKind::Procedure(module) => Some(module),
        _ => None,
    }
}
