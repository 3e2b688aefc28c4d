//! Trace flags: those of the server (`-T`, or -1 among the arguments of DBCC TRACEON), and those of one session.
//!
//! Theory: a flag is on where the server or the session has it. The session's go with it and with its reset. What the server does for all
//! (log to replicas) looks at the server's alone, so that a flag of one session changes nothing there.

use super::execution::Execution;
use crate::error::{Result, SqlError};
use crate::messages;
use daruma_syntax::ast::Expr;

/// The largest, as DBCC TRACESTATUS shows them: smallint.
const FLAG_MAX: i64 = 32_767;

/// A trace flag and where it is on.
#[derive(Clone, Copy)]
pub(crate) struct TraceFlag {
    pub number: i64,
    pub in_server: bool,
    pub in_session: bool,
}

impl Execution<'_> {
    /// DBCC TRACEON and TRACEOFF; -1 means the flags of the server. Error 2560 for what is no flag, and without one.
    pub(super) fn switch_trace_flags(&self, args: &[Expr], on: bool) -> Result<()> {
        let mut flags = Vec::new();
        let mut in_server = false;
        for (at, arg) in args.iter().enumerate() {
            match trace_flag(self.dbcc_number(arg)?, at)? {
                Some(flag) => flags.push(flag),
                None => in_server = true,
            }
        }
        if flags.is_empty() {
            return Err(no_flag(0));
        }
        flags.sort_unstable();
        flags.dedup();
        let switch = |set: &mut Vec<i32>| {
            set.retain(|f| !flags.contains(f));
            if on {
                set.extend(&flags);
            }
        };
        match in_server {
            true => switch(&mut self.state.instance.trace_flags.lock()),
            false => switch(&mut self.state.trace_flags.borrow_mut()),
        }
        Ok(())
    }

    /// The flags asked for, otherwise those that are on. -1 asks for none in particular. Error 2560 for what is no flag.
    pub(crate) fn trace_flags(&self, asked: &[i64]) -> Result<Vec<TraceFlag>> {
        let server = self.state.instance.trace_flags.lock().clone();
        let session = self.state.trace_flags.borrow();
        let mut listed = Vec::new();
        for (at, number) in asked.iter().enumerate() {
            listed.extend(trace_flag(Some(*number), at)?);
        }
        if listed.is_empty() {
            listed.extend(server.iter().chain(session.iter()));
            listed.sort_unstable();
            listed.dedup();
        }
        let shown = listed.into_iter().map(|flag| TraceFlag {
            number: i64::from(flag),
            in_server: server.contains(&flag),
            in_session: session.contains(&flag),
        });
        Ok(shown.collect())
    }
}

/// `None` is -1.
fn trace_flag(number: Option<i64>, at: usize) -> Result<Option<i32>> {
    match number {
        Some(-1) => Ok(None),
        Some(flag @ 1..=FLAG_MAX) => Ok(i32::try_from(flag).ok()),
        _ => Err(no_flag(at)),
    }
}

fn no_flag(at: usize) -> SqlError {
    messages::error_state(2560, 9, &[&(at + 1)])
}
