//! SELECT: plan, stream, show.

use super::execution::Execution;
use super::fail::Step;
use crate::ddl;
use crate::error::{Result, SqlError};
use crate::executor::{RowBatch, SelectPlan, open, prepare_select, run_assignment};
use crate::host::Host;
use daruma_storage::LockMode;
use daruma_syntax::ast::{Query, QueryBody, SelectInto, SelectItem, Statement};
use std::sync::Arc;

pub(crate) const COMMAND_SELECT: u16 = 0xC1;
const COMMAND_SELECT_INTO: u16 = 0xC2;

/// Outcome of a SELECT.
enum Outcome {
    Rows(u64),
    Assigned(u64),
    Into(u64),
}

impl Outcome {
    fn rows(&self) -> u64 {
        match self {
            Outcome::Rows(n) | Outcome::Assigned(n) | Outcome::Into(n) => *n,
        }
    }
}

impl Execution<'_> {
    pub(crate) fn run_select(&self, query: &Query, statement: &Statement) -> Step<()> {
        self.begin_implicit()?;
        let started = self.start_statistics();
        let outer = self.begin_counting();
        let selected = self.retry_on_change(|| self.atomic(|| self.select(query, statement)));
        let counted = self.counting.replace(outer);
        match selected {
            Ok(outcome) => {
                let (command, count) = match outcome {
                    Outcome::Rows(n) => (COMMAND_SELECT, Some(n)),
                    Outcome::Into(n) => (COMMAND_SELECT_INTO, Some(n)),
                    Outcome::Assigned(_) => (COMMAND_SELECT, None),
                };
                self.state.last_error.set(0);
                self.state.row_count.set(outcome.rows());
                self.send_pending()?;
                self.finish_statistics(started)?;
                self.done(command, count, false)?;
                self.show_counted(statement, counted, outcome.rows())
            }
            Err(error) => {
                self.state.row_count.set(0);
                Err(self.after_trigger(COMMAND_SELECT, error))
            }
        }
    }

    fn select(&self, query: &Query, statement: &Statement) -> Result<Outcome> {
        let plan = self.select_plan(query, statement)?;
        let (fmtonly, rowcount) = {
            let settings = self.state.settings.borrow();
            (settings.fmtonly, settings.rowcount)
        };
        if fmtonly {
            self.send_columns(plan.columns())?;
            return Ok(Outcome::Rows(0));
        }
        self.count_plan(&plan);
        let begun = self.measure(plan.stats());
        let opened = self.open_in_place(&plan, rowcount)?;
        let outcome = if let Some(rows) = opened {
            Outcome::Rows(rows)
        } else if let Some(into) = into_of(query) {
            if !into.0.table.is_temporary() {
                // Rights and triggers as they are behind the wait.
                self.lock_definitions(self.current_database(), LockMode::Shared)?;
                self.check_statement(&statement.kind)?;
            }
            let told = self.told_of(&statement.kind)?;
            let rows = ddl::select_into(self, into, &plan)?;
            self.fire(&told, &self.text_of(statement))?;
            Outcome::Into(rows)
        } else if plan.is_assignment() {
            Outcome::Assigned(run_assignment(&plan, self)?)
        } else {
            Outcome::Rows(self.stream(&plan, rowcount)?)
        };
        self.measured(&begun, outcome.rows());
        Ok(outcome)
    }

    /// The statement's plan: the one kept with the batch, if it is still right.
    pub(super) fn select_plan(
        &self,
        query: &Query,
        statement: &Statement,
    ) -> Result<Arc<SelectPlan>> {
        self.state.follow_definitions()?;
        self.note_planned();
        self.shared_plan(statement.span.start, Some(statement.span), || {
            self.with_access(Some(&statement.kind), || prepare_select(query, self))
        })
    }

    /// Sends all rows.
    fn stream(&self, plan: &Arc<SelectPlan>, rows_max: u64) -> Result<u64> {
        let mut batch = RowBatch::new();
        let opened = open(plan, self).and_then(|mut stream| {
            let has_rows = stream.next(&mut batch)?;
            Ok((stream, has_rows))
        });
        // A statement that is to begin anew has shown nothing.
        if let Err(error) = &opened
            && matches!(error.number, 2801 | 3961)
        {
            return Err(error.clone());
        }
        self.send_columns(plan.columns())?;
        let (mut stream, mut has_rows) = opened?;
        let mut count = 0;
        while has_rows {
            self.state.check_cancel()?;
            for row in batch.rows() {
                self.send_row(row)?;
                count += 1;
                if count == rows_max {
                    return Ok(count);
                }
            }
            has_rows = stream.next(&mut batch)?;
        }
        Ok(count)
    }
}

/// The INTO clause of a query's first SELECT, and that one's items.
pub(crate) fn into_of(query: &Query) -> Option<(&SelectInto, &[SelectItem])> {
    let mut body = &query.body;
    loop {
        match body {
            QueryBody::Select(select) => {
                let into = select.into.as_ref()?;
                return Some((into, &select.items));
            }
            QueryBody::Set { branches, .. } => body = branches.first()?,
        }
    }
}

/// A statement that stops because nobody reads its rows.
pub(crate) fn client_gone() -> SqlError {
    SqlError::new(596, 21, 1, "The client is gone.")
}
