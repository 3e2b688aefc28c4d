//! Plans kept with the running batch: the key under which one is right, looking one up, and keeping a new one.
//!
//! Theory: whatever a plan depends on is in its key, or the plan is not kept. A name without a schema depends on the module
//! it stands in, or on the default schema of whoever acts; `inserted` and `deleted` on there being a trigger. Names of
//! temporary tables and table variables, and definitions of the open transaction, are the session's alone: what uses
//! them is planned at each execution. All else is shared, whatever the session did before.

use super::execution::Execution;
use super::frame::{Frame, FrameKind};
use crate::error::Result;
use crate::executor::KeptPlan;
use crate::host::SessionSettings;
use crate::instance::{Batch, NamedObjects, PlanKey};
use daruma_base::DatabaseId;
use daruma_catalog::SCHEMA_DBO;
use daruma_syntax::ast::Span;
use std::cell::Cell;
use std::sync::Arc;

/// Dependencies of a plan, found while it was made.
#[derive(Default)]
pub(crate) struct Planned {
    /// It uses what only this session can see.
    private: Cell<bool>,
    /// A name was found by the default schema of whoever acts.
    by_default_schema: Cell<bool>,
    objects: Cell<NamedObjects>,
}

/// Bits of [`PlanKey::names`] beside the schema in which names are looked for first.
const IN_MODULE: u64 = 1 << 32;
const IN_TRIGGER: u64 = 1 << 33;
const OF_MASTER: u64 = 1 << 34;

impl Execution<'_> {
    /// The plan kept with the running batch under `place`, if it is still right; else a new one, which is kept if others
    /// may use it.
    pub(super) fn shared_plan<P: KeptPlan>(
        &self,
        place: usize,
        span: Option<Span>,
        prepare: impl FnOnce() -> Result<Arc<P>>,
    ) -> Result<Arc<P>> {
        // A plan that is made to be shown takes the place of none that is run, and asks for more than that.
        if self.state.has_private_definitions() || self.state.settings.borrow().shows_plans() {
            return prepare();
        }
        let (key, found) = {
            let frames = self.state.frames.borrow();
            let Some(frame) = frames.last() else {
                return prepare();
            };
            let key = self.plan_key(frame);
            (key, frame.batch.plan(place, key))
        };
        if let Some(plan) = found {
            return Ok(plan);
        }
        let planned = &self.planned;
        let outer = Planned {
            private: Cell::new(planned.private.take()),
            by_default_schema: Cell::new(planned.by_default_schema.take()),
            objects: Cell::new(planned.objects.take()),
        };
        let plan = prepare();
        let private = planned.private.replace(outer.private.get());
        let by_default_schema = planned
            .by_default_schema
            .replace(outer.by_default_schema.get());
        let objects = planned.objects.replace(outer.objects.get());
        let names = match by_default_schema || key.names & IN_MODULE != 0 {
            true => key.names,
            false => PlanKey::ANY_NAMES,
        };
        let key = PlanKey { names, ..key };
        // Frames without a text share a batch that is never given up.
        let keeps = |b: &Arc<Batch>| !private && !b.statements.is_empty();
        match self.running_batch().filter(keeps) {
            Some(batch) => Ok(batch.keep_plan(place, key, objects, span, plan?)),
            None => plan,
        }
    }

    fn plan_key(&self, frame: &Frame) -> PlanKey {
        let database = match frame.kind {
            FrameKind::Batch => self.state.database.borrow().id(),
            _ => frame.database,
        };
        let principal = self.state.principal_key();
        PlanKey {
            database,
            catalog_version: self.state.instance.catalog_version(),
            settings: packed(&self.state.settings.borrow()),
            parameters: frame.signature,
            names: self.names_in(frame, database, principal),
            principal,
        }
    }

    fn names_in(&self, frame: &Frame, database: DatabaseId, principal: u64) -> u64 {
        let in_trigger = u64::from(frame.trigger.is_some()) * IN_TRIGGER;
        let first = match frame.kind {
            FrameKind::Procedure | FrameKind::Trigger | FrameKind::Function => {
                let elsewhere = u64::from(frame.home != frame.database) * OF_MASTER;
                IN_MODULE | elsewhere | u64::from(frame.schema_id as u32)
            }
            FrameKind::Batch | FrameKind::Dynamic => {
                // Who may do everything has none of his own.
                let schema = match principal {
                    0 => None,
                    _ => self.state.default_schema(database),
                };
                u64::from(schema.unwrap_or(SCHEMA_DBO) as u32)
            }
        };
        in_trigger | first
    }

    /// The plan being made is of no use to other sessions.
    pub(crate) fn note_private(&self) {
        self.planned.private.set(true);
    }

    /// The plan being made is right where the default schema is the same.
    pub(super) fn note_default_schema(&self) {
        self.planned.by_default_schema.set(true);
    }

    /// The plan being made names this object.
    pub(super) fn note_object(&self, database: DatabaseId, object: i32) {
        let objects = &self.planned.objects;
        objects.set(objects.get().and(database, object));
    }
}

/// Settings that change what a plan does.
fn packed(s: &SessionSettings) -> u64 {
    let flags = [
        s.ansi_nulls,
        s.ansi_padding,
        s.ansi_warnings,
        s.arithabort,
        s.concat_null_yields_null,
        s.quoted_identifier,
        s.numeric_roundabort,
        // NEXT VALUE FOR is refused then.
        s.rowcount > 0,
    ];
    let bits = flags
        .iter()
        .fold(0u64, |bits, flag| (bits << 1) | u64::from(*flag));
    let language = super::settings::language_number(s.language);
    language << 32 | (s.dateformat as u64) << 24 | u64::from(s.datefirst) << 16 | bits
}
