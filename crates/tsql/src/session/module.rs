//! How a module comes to run: what procedures, triggers and functions share.
//!
//! Theory: a module has a frame of its own, in which its names mean what they mean where it is defined, runs under the
//! settings that it was created with, and perhaps as somebody else. All of that goes with the frame.

use super::execution::Execution;
use super::frame::{Frame, FrameKind, NESTING_MAX};
use crate::error::Result;
use crate::instance::Batch;
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{ModuleDef, Object};
use daruma_syntax::ParseOptions;
use daruma_syntax::ast::ExecuteContext;
use std::sync::Arc;

impl Execution<'_> {
    /// 217: modules and dynamic texts within each other have a bound.
    pub(super) fn check_depth(&self) -> Result<()> {
        match self.state.frames.borrow().len() > NESTING_MAX {
            false => Ok(()),
            true => Err(messages::error(217, &[&NESTING_MAX])),
        }
    }

    /// The module's text, parsed under the settings it was created with. `database`: what its names mean.
    pub(crate) fn module_batch(
        &self,
        database: DatabaseId,
        module: &ModuleDef,
    ) -> Result<Arc<Batch>> {
        let options = ParseOptions {
            quoted_identifier: module.quoted_identifier,
        };
        let plans = &self.state.instance.plans;
        let batch = plans.batch(&module.definition, &options, database);
        batch.map_err(|errors| {
            errors
                .into_iter()
                .next()
                .unwrap_or_else(|| messages::error(102, &[&""]))
        })
    }

    /// A frame for the module. `database`: what its names mean; `home`: where it is defined.
    pub(super) fn module_frame(
        &self,
        kind: FrameKind,
        object: &Object,
        batch: Arc<Batch>,
        (database, home): (DatabaseId, DatabaseId),
    ) -> Frame {
        let mut frame = Frame::new(kind, batch, database);
        frame.module = Some(object.name.clone());
        frame.object_id = object.id;
        frame.schema_id = object.schema_id;
        frame.home = home;
        frame.saved_settings = Some(self.state.settings.borrow().clone());
        frame
    }

    /// Rights and settings of the module, from now until the frame that comes next ends.
    pub(super) fn enter_module(
        &self,
        module: &ModuleDef,
        runs_as: Option<&ExecuteContext>,
        frame: &Frame,
    ) -> Result<()> {
        self.enter_module_as(runs_as, frame.home, frame.schema_id)?;
        let mut settings = self.state.settings.borrow_mut();
        settings.ansi_nulls = module.ansi_nulls;
        settings.quoted_identifier = module.quoted_identifier;
        Ok(())
    }
}
