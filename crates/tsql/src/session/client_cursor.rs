//! Cursors of clients: sp_cursoropen, sp_cursorfetch and their family, which drivers call for result sets that scroll or come in pieces.
//!
//! Theory: every such cursor is STATIC and READ ONLY, whatever is asked for, as a cursor of a batch is: opening runs the query and keeps
//! its rows, a fetch sends those of a window over them. The answer says which kind it became. A text that is no single query, nor a call
//! of a procedure that is one, runs at once, where the client allows that (ALLOW_DIRECT): information 16954, and no cursor.
//!
//! Each row has one column more than the query, ROWSTAT, which clients look for behind the others and do not show.
//!
//! Source: the published descriptions of sp_cursoropen, sp_cursorfetch, sp_cursorprepare, sp_cursorexecute, sp_cursorprepexec,
//! sp_cursoroption, sp_cursor and sp_cursorclose, whose numbers these are.
//!
//! Invariants
//! 1. `ClientCursor::first` is from 0 (before the first row) to one past the last, and the window ends at the last row at most.
//! 2. A handle names one cursor for the life of a session.

use super::Execution;
use super::cursor::Opened;
use super::fail::{Step, Stop};
use super::procedure::{CallArgument, CallResult, OutputValue};
use super::rpc::int_argument as int;
use crate::error::Result;
use crate::executor::SelectPlan;
use crate::instance::Batch;
use crate::messages;
use crate::sink::OutputColumn;
use daruma_catalog::ObjectKind;
use daruma_syntax::ast::{
    ExecuteTarget, ModuleBody, ObjectName, Query, QueryBody, SelectItem, Statement, StatementKind,
};
use daruma_value::{CollationId, DataType, Value};
use std::sync::Arc;

/// Cursors that a session may have open. Error 16955.
pub(super) const CURSORS_MAX: usize = 4_096;
/// Rows of a fetch that does not say how many.
const ROWS_DEFAULT: i64 = 20;
/// Value of ROWSTAT: the row is there.
const FETCH_SUCCEEDED: i32 = 1;

/// Bits of `scrollopt`.
mod scroll {
    pub(super) const KEYSET: i32 = 0x01;
    pub(super) const FORWARD_ONLY: i32 = 0x04;
    pub(super) const STATIC: i32 = 0x08;
    pub(super) const FAST_FORWARD: i32 = 0x10;
    pub(super) const KINDS: i32 = 0x1F;
    pub(super) const PARAMETERIZED: i32 = 0x1000;
    pub(super) const AUTO_FETCH: i32 = 0x2000;
    pub(super) const AUTO_CLOSE: i32 = 0x4000;
}

/// Bits of `ccopt`.
mod concurrency {
    pub(super) const READ_ONLY: i32 = 0x01;
    pub(super) const ALLOW_DIRECT: i32 = 0x2000;
}

/// Values of `fetchtype`.
mod fetch {
    pub(super) const FIRST: i32 = 0x01;
    pub(super) const NEXT: i32 = 0x02;
    pub(super) const PRIOR: i32 = 0x04;
    pub(super) const LAST: i32 = 0x08;
    pub(super) const ABSOLUTE: i32 = 0x10;
    pub(super) const RELATIVE: i32 = 0x20;
    pub(super) const REFRESH: i32 = 0x80;
    pub(super) const INFO: i32 = 0x100;
    pub(super) const PRIOR_NOT_ADJUSTED: i32 = 0x200;
    /// Beside another one: a cursor for reading has nothing to update.
    pub(super) const WITHOUT_CONCURRENCY: i32 = 0x400;
}

/// Values of sp_cursoroption's `code`.
mod option {
    pub(super) const CURSOR_NAME: i32 = 2;
    pub(super) const TEXT_DATA: i32 = 3;
    pub(super) const SCROLL: i32 = 4;
    pub(super) const CONCURRENCY: i32 = 5;
    pub(super) const ROW_COUNT: i32 = 6;
}

/// The one `optype` of sp_cursor that changes no row.
const SET_POSITION: i32 = 0x20;

/// Bits of what sp_cursorfetch returns.
mod status {
    /// The window begins at the first row, because what was asked for begins before it.
    pub(super) const ADJUSTED: i32 = 0x02;
    /// The cursor was closed behind its last row.
    pub(super) const CLOSED: i32 = 0x10;
}

/// A cursor of the session's client.
pub(super) struct ClientCursor {
    pub handle: i32,
    pub opened: Opened,
    scrolls: bool,
    closes_at_end: bool,
    /// First row of the window, from 1.
    first: i64,
    /// Rows in it.
    count: i64,
}

/// The window that a fetch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    first: i64,
    count: i64,
    is_adjusted: bool,
}

/// What sp_cursoropen does with the query of the batch that it runs.
pub(crate) struct Opening {
    /// Frames there are where the query itself runs.
    level: usize,
    /// Only the columns are wanted.
    describes: bool,
    /// Rows to be sent at once.
    fetched: Option<i64>,
    opened: Option<Opened>,
}

/// Places of the arguments that the procedures which open cursors share.
struct Places {
    handle: usize,
    scroll: usize,
    concurrency: usize,
    rows: usize,
    /// The first one for the statement.
    values: usize,
}

impl ClientCursor {
    fn rows(&self) -> i64 {
        i64::try_from(self.opened.len()).unwrap_or(i64::MAX)
    }

    fn move_to(&mut self, window: Window) {
        (self.first, self.count) = (window.first, window.count);
    }

    /// Where a fetch of `n` rows goes. A window that would begin before the first row begins there, if it has rows at all.
    fn window(&self, kind: i32, row: i64, n: i64) -> Result<Window> {
        let rows = self.rows();
        let behind = rows + 1;
        let is_forward = matches!(kind, fetch::NEXT | fetch::REFRESH | fetch::FIRST);
        if !self.scrolls && !is_forward {
            return Err(messages::error(16911, &[&"fetch", &word(kind)]));
        }
        let begin = match kind {
            fetch::FIRST if n == 0 => 0,
            fetch::LAST if n == 0 => behind,
            fetch::FIRST => 1,
            fetch::NEXT if self.first == 0 => 1,
            fetch::NEXT => self.first + self.count,
            // Before the first row, as SQLFetchScroll says it.
            fetch::RELATIVE if self.first == 0 && row <= 0 => {
                return Ok(Window::new(0, 0, rows, false));
            }
            fetch::PRIOR if self.first <= 1 => return Ok(Window::new(0, 0, rows, false)),
            fetch::PRIOR => self.first - n,
            fetch::PRIOR_NOT_ADJUSTED => {
                let begin = (self.first - n).max(1);
                let count = (self.first - begin).max(0);
                return Ok(Window::new(begin.min(self.first), count, rows, false));
            }
            fetch::LAST => (behind - n).max(1),
            fetch::ABSOLUTE if row < 0 => behind.saturating_add(row),
            fetch::ABSOLUTE => row,
            fetch::RELATIVE => self.first.saturating_add(row),
            fetch::REFRESH => return Ok(Window::new(self.first, self.count, rows, false)),
            _ => return Err(messages::error(16902, &[&"sp_cursorfetch", &"fetchtype"])),
        };
        let is_adjusted = begin < 1 && (begin < 0 || kind != fetch::ABSOLUTE) && n > 0 && rows > 0;
        let begin = if is_adjusted { 1 } else { begin.max(0) };
        let count = if begin == 0 { 0 } else { n };
        Ok(Window::new(begin, count, rows, is_adjusted))
    }
}

/// Error 16903 for a call that leaves out what it is about.
fn enough(args: &[CallArgument], least: usize, procedure: &str) -> Result<()> {
    match args.len() < least {
        true => Err(messages::error(16903, &[&procedure])),
        false => Ok(()),
    }
}

impl Window {
    fn new(first: i64, count: i64, rows: i64, is_adjusted: bool) -> Window {
        let first = first.min(rows + 1);
        Window {
            first,
            count: count.clamp(0, rows + 1 - first.max(1)),
            is_adjusted,
        }
    }
}

impl Execution<'_> {
    /// sp_cursoropen @cursor OUTPUT, @stmt, @scrollopt OUTPUT, @ccopt OUTPUT, @rowcount OUTPUT, @paramdef, values ..
    pub(super) fn cursor_open(&self, args: &[CallArgument]) -> Step<CallResult> {
        enough(args, 2, "sp_cursoropen").map_err(|e| self.fail(e))?;
        let text = self.text_argument(args, 1).map_err(|e| self.fail(e))?;
        let takes_values = int(args, 2).unwrap_or(0) & scroll::PARAMETERIZED != 0;
        let definitions = match takes_values {
            true => self.optional_text(args, 5).map_err(|e| self.fail(e))?,
            false => String::new(),
        };
        let handle = self.new_handle(&text, &definitions);
        let prepared = handle.map_err(|e| self.fail(e))?;
        let places = Places {
            handle: 0,
            scroll: 2,
            concurrency: 3,
            rows: 4,
            values: 6,
        };
        let opened = self.open_for_client(prepared, args, &places);
        self.state.prepared.borrow_mut().remove(&prepared);
        opened
    }

    /// sp_cursorprepare @handle OUTPUT, @params, @stmt, @options, @scrollopt OUTPUT, @ccopt OUTPUT
    pub(super) fn cursor_prepare(&self, args: &[CallArgument]) -> Step<CallResult> {
        enough(args, 3, "sp_cursorprepare").map_err(|e| self.fail(e))?;
        let prepared = self.optional_text(args, 1).and_then(|definitions| {
            let text = self.text_argument(args, 2)?;
            self.new_handle(&text, &definitions)
        });
        let prepared = prepared.map_err(|e| self.fail(e))?;
        if int(args, 3).unwrap_or(0) & 1 != 0
            && let Err(stop) = self.describe(prepared)
        {
            // Nobody learns of the handle.
            self.state.prepared.borrow_mut().remove(&prepared);
            return Err(stop);
        }
        let kind = kind_of(int(args, 4).unwrap_or(0));
        let values = [(0, prepared), (4, kind), (5, concurrency::READ_ONLY)];
        Ok(result_of(0, outputs_of(args, values)))
    }

    /// sp_cursorexecute @handle, @cursor OUTPUT, @scrollopt OUTPUT, @ccopt OUTPUT, @rowcount OUTPUT, values ..
    pub(super) fn cursor_execute(&self, args: &[CallArgument]) -> Step<CallResult> {
        let places = Places {
            handle: 1,
            scroll: 2,
            concurrency: 3,
            rows: 4,
            values: 5,
        };
        self.open_for_client(int(args, 0).unwrap_or(0), args, &places)
    }

    /// sp_cursorprepexec @handle OUTPUT, @cursor OUTPUT, @params, @stmt, @scrollopt OUTPUT, @ccopt OUTPUT, @rowcount OUTPUT, values ..
    pub(super) fn cursor_prepexec(&self, args: &[CallArgument]) -> Step<CallResult> {
        enough(args, 4, "sp_cursorprepexec").map_err(|e| self.fail(e))?;
        let old = int(args, 0).unwrap_or(0);
        self.state.prepared.borrow_mut().remove(&old);
        let prepared = self.optional_text(args, 2).and_then(|definitions| {
            let text = self.text_argument(args, 3)?;
            self.new_handle(&text, &definitions)
        });
        let prepared = prepared.map_err(|e| self.fail(e))?;
        let places = Places {
            handle: 1,
            scroll: 4,
            concurrency: 5,
            rows: 6,
            values: 7,
        };
        let mut result = match self.open_for_client(prepared, args, &places) {
            Ok(result) => result,
            // As of sp_prepexec: the statement failed, the handle is good nevertheless.
            Err(Stop::Statement | Stop::Scope) => result_of(-6, Vec::new()),
            Err(stop) => {
                self.state.prepared.borrow_mut().remove(&prepared);
                return Err(stop);
            }
        };
        result.outputs.insert(0, OutputValue::int(0, prepared));
        Ok(result)
    }

    /// Runs the prepared text. A query stays open as a cursor of the session's client.
    fn open_for_client(
        &self,
        prepared: i32,
        args: &[CallArgument],
        places: &Places,
    ) -> Step<CallResult> {
        let scrollopt = int(args, places.scroll).unwrap_or(scroll::KEYSET);
        let ccopt = int(args, places.concurrency).unwrap_or(0);
        let (batch, parameters) = self.prepared_batch(prepared)?;
        let depth = self.query_depth(&batch).map_err(|e| self.fail(e))?;
        let is_query = depth.is_some();
        if !is_query && ccopt & concurrency::ALLOW_DIRECT == 0 {
            return Err(self.fail(messages::error(16937, &[])));
        }
        if is_query && self.state.cursors.clients.borrow().len() >= CURSORS_MAX {
            return Err(self.fail(messages::error(16955, &[])));
        }
        if !is_query {
            self.send(&messages::error(16954, &[]))?;
        }
        let wanted = int(args, places.rows).map_or(ROWS_DEFAULT, i64::from);
        let opening = depth.map(|depth| Opening {
            level: self.state.frames.borrow().len() + depth,
            describes: false,
            fetched: (scrollopt & scroll::AUTO_FETCH != 0).then_some(wanted.max(0)),
            opened: None,
        });
        let rest = args.get(places.values..).unwrap_or_default();
        let (opening, ran) = self.while_opening(opening, || {
            self.run_dynamic_batch(&batch, &parameters, rest)
        });
        let mut result = ran?;
        result
            .outputs
            .iter_mut()
            .for_each(|o| o.index += places.values);
        let fetched = opening.as_ref().and_then(|o| o.fetched);
        // What failed has been told.
        let Some(opened) = opening.and_then(|o| o.opened) else {
            return Ok(result);
        };
        let kind = kind_of(scrollopt);
        let mut cursor = ClientCursor {
            handle: self.state.cursors.next_handle(),
            opened,
            scrolls: kind == scroll::STATIC,
            closes_at_end: kind == scroll::FAST_FORWARD && scrollopt & scroll::AUTO_CLOSE != 0,
            first: 0,
            count: 0,
        };
        let mut told = cursor.rows();
        let mut closes = false;
        if let Some(wanted) = fetched {
            cursor.move_to(Window::new(1, wanted, cursor.rows(), false));
            told = cursor.count;
            closes = cursor.closes_at_end && cursor.count < wanted;
        }
        let values = [
            (places.handle, cursor.handle),
            (places.scroll, kind),
            (places.concurrency, concurrency::READ_ONLY),
            (places.rows, i32::try_from(told).unwrap_or(i32::MAX)),
        ];
        result.outputs.splice(0..0, outputs_of(args, values));
        match closes {
            true => result.status = status::CLOSED,
            false => self.state.cursors.clients.borrow_mut().push(cursor),
        }
        Ok(result)
    }

    /// How many frames above the present one a text has the one query that it is: its own, or that of the procedure which it calls.
    fn query_depth(&self, batch: &Batch) -> Result<Option<usize>> {
        if is_single_query(&batch.statements) {
            return Ok(Some(1));
        }
        let Some(name) = called(&batch.statements).filter(|n| !self.is_system_call(n)) else {
            return Ok(None);
        };
        let Some((database, object)) = self.find_object(name)? else {
            return Ok(None);
        };
        let ObjectKind::Procedure(module) = &object.kind else {
            return Ok(None);
        };
        let module = self.module_batch(database, module)?;
        let body = module.statements.first().map(|s| &s.kind);
        Ok(match body {
            Some(StatementKind::CreateProcedure(create)) => match &create.body {
                ModuleBody::Statements(body) => is_single_query(body).then_some(2),
                _ => None,
            },
            _ => None,
        })
    }

    /// Runs `work` while a query of the frame above the present one is opened instead of sent.
    fn while_opening<T>(
        &self,
        opening: Option<Opening>,
        work: impl FnOnce() -> T,
    ) -> (Option<Opening>, T) {
        let before = self.opening.replace(opening);
        let done = work();
        (self.opening.replace(before), done)
    }

    /// Sends the columns of the prepared query, which runs with NULL for each parameter and reads nothing.
    fn describe(&self, prepared: i32) -> Step<()> {
        let (batch, parameters) = self.prepared_batch(prepared)?;
        let depth = self.query_depth(&batch).map_err(|e| self.fail(e))?;
        let Some(depth) = depth else {
            return Ok(());
        };
        let null = CallArgument {
            name: String::new(),
            value: Some(Value::Null),
            data_type: DataType::Int,
            output: false,
            table: None,
        };
        let nulls = vec![null; parameters.parameters.len()];
        let opening = Opening {
            level: self.state.frames.borrow().len() + depth,
            describes: true,
            fetched: None,
            opened: None,
        };
        let (_, ran) = self.while_opening(Some(opening), || {
            self.run_dynamic_batch(&batch, &parameters, &nulls)
        });
        ran.map(|_| ())
    }

    /// The running query becomes a client's cursor if it is the one that is being opened: its columns are sent, and rows if some are
    /// wanted at once. Number of rows sent; `None` where the query is an ordinary one.
    pub(super) fn open_in_place(
        &self,
        plan: &Arc<SelectPlan>,
        rows_max: u64,
    ) -> Result<Option<u64>> {
        let level = self.state.frames.borrow().len();
        let (describes, wanted) = match &*self.opening.borrow() {
            Some(o) if o.level == level && o.opened.is_none() && !plan.is_assignment() => {
                (o.describes, o.fetched.unwrap_or(0))
            }
            _ => return Ok(None),
        };
        if describes {
            self.send_cursor_columns(plan.columns())?;
            return Ok(Some(0));
        }
        let mut opened = self.gather(plan, rows_max)?;
        self.send_cursor_columns(plan.columns())?;
        let count = wanted.min(i64::try_from(opened.len()).unwrap_or(i64::MAX));
        self.send_cursor_rows(&mut opened, 1, count)?;
        if let Some(opening) = &mut *self.opening.borrow_mut() {
            opening.opened = Some(opened);
        }
        Ok(Some(count.unsigned_abs()))
    }

    fn send_cursor_columns(&self, columns: &[OutputColumn]) -> Result<()> {
        let mut columns = columns.to_vec();
        columns.push(OutputColumn {
            name: "ROWSTAT".into(),
            data_type: DataType::Int,
            collation: CollationId::default(),
            nullable: false,
            identity: false,
            computed: true,
        });
        self.send_columns(&columns)?;
        match self.captured.borrow().is_some() {
            // INSERT .. EXEC takes the rows: the client sees none of them.
            true => Ok(()),
            false => self.sink.borrow_mut().hidden_columns(columns.len(), 1),
        }
    }

    fn send_cursor_rows(&self, opened: &mut Opened, first: i64, count: i64) -> Result<()> {
        for row in first..first + count {
            self.state.check_cancel()?;
            let mut values = opened.row(usize::try_from(row - 1).unwrap_or(0))?;
            values.push(Value::Int(FETCH_SUCCEEDED));
            self.send_row(&values)?;
        }
        Ok(())
    }

    /// sp_cursorfetch @cursor, @fetchtype, @rownum OUTPUT, @nrows OUTPUT
    pub(super) fn cursor_fetch(&self, args: &[CallArgument]) -> Step<CallResult> {
        let mut cursor = self
            .take_client_cursor("sp_cursorfetch", args)
            .map_err(|e| self.fail(e))?;
        let kind = int(args, 1).unwrap_or(fetch::NEXT) & !fetch::WITHOUT_CONCURRENCY;
        if kind == fetch::INFO {
            let is_behind = cursor.first > cursor.rows();
            let place = if is_behind { -1 } else { cursor.first };
            let at = [place, cursor.rows()].map(|n| i32::try_from(n).unwrap_or(i32::MAX));
            self.state.cursors.clients.borrow_mut().push(cursor);
            return Ok(result_of(0, outputs_of(args, [(2, at[0]), (3, at[1])])));
        }
        let row = int(args, 2).map_or(1, i64::from);
        let wanted = int(args, 3).map_or(ROWS_DEFAULT, i64::from);
        let sent = self.fetch_window(&mut cursor, kind, row, wanted);
        let closes = cursor.closes_at_end && cursor.count < wanted && sent.is_ok();
        let count = cursor.count.unsigned_abs();
        if !closes {
            self.state.cursors.clients.borrow_mut().push(cursor);
        }
        let is_adjusted = sent.map_err(|e| self.fail(e))?;
        self.state.last_error.set(0);
        self.state.row_count.set(count);
        self.send_pending()?;
        self.done(super::query::COMMAND_SELECT, Some(count), false)?;
        let mut status = 0;
        status |= if is_adjusted { status::ADJUSTED } else { 0 };
        status |= if closes { status::CLOSED } else { 0 };
        Ok(result_of(status, Vec::new()))
    }

    /// Was the window moved to the first row?
    fn fetch_window(
        &self,
        cursor: &mut ClientCursor,
        kind: i32,
        row: i64,
        wanted: i64,
    ) -> Result<bool> {
        if wanted < 0 {
            return Err(messages::error(16902, &[&"sp_cursorfetch", &"nrows"]));
        }
        let window = cursor.window(kind, row, wanted)?;
        cursor.move_to(window);
        self.send_cursor_columns(cursor.opened.columns())?;
        self.send_cursor_rows(&mut cursor.opened, window.first, window.count)?;
        Ok(window.is_adjusted)
    }

    /// sp_cursorclose @cursor; -1 stands for all.
    pub(super) fn cursor_close(&self, args: &[CallArgument]) -> Result<CallResult> {
        match int(args, 0) {
            Some(-1) => self.state.cursors.clients.borrow_mut().clear(),
            _ => drop(self.take_client_cursor("sp_cursorclose", args)?),
        }
        Ok(CallResult::default())
    }

    /// sp_cursoroption @cursor, @code, @value: what a cursor is called, and what it has become.
    pub(super) fn cursor_option(&self, args: &[CallArgument]) -> Result<CallResult> {
        let cursor = self.take_client_cursor("sp_cursoroption", args)?;
        let kind = if cursor.scrolls {
            scroll::STATIC
        } else {
            scroll::FORWARD_ONLY
        };
        let rows = i32::try_from(cursor.rows()).unwrap_or(i32::MAX);
        self.state.cursors.clients.borrow_mut().push(cursor);
        let told = match int(args, 1) {
            // Its name, which nothing that a cursor for reading allows could use; whole values, which fetches send anyway.
            Some(option::CURSOR_NAME | option::TEXT_DATA) => return Ok(CallResult::default()),
            Some(option::SCROLL) => kind,
            Some(option::CONCURRENCY) => concurrency::READ_ONLY,
            Some(option::ROW_COUNT) => rows,
            _ => return Err(messages::error(16902, &[&"sp_cursoroption", &"code"])),
        };
        Ok(result_of(0, outputs_of(args, [(2, told)])))
    }

    /// sp_cursor @cursor, @optype, @rownum, ..: a cursor for reading changes no rows.
    pub(super) fn cursor_change(&self, args: &[CallArgument]) -> Result<CallResult> {
        let cursor = self.take_client_cursor("sp_cursor", args)?;
        self.state.cursors.clients.borrow_mut().push(cursor);
        match int(args, 1) {
            Some(SET_POSITION) => Ok(CallResult::default()),
            _ => Err(messages::error(16929, &[])),
        }
    }

    /// Takes the cursor that the first argument names out of the list.
    fn take_client_cursor(&self, procedure: &str, args: &[CallArgument]) -> Result<ClientCursor> {
        let handle = int(args, 0).unwrap_or(0);
        let mut clients = self.state.cursors.clients.borrow_mut();
        match clients.iter().position(|c| c.handle == handle) {
            Some(at) => Ok(clients.swap_remove(at)),
            None => {
                let shown = format!("{handle:x}");
                Err(messages::error(16909, &[&procedure, &shown]))
            }
        }
    }
}

/// Is it one query that gives rows?
fn is_single_query(statements: &[Statement]) -> bool {
    match statements {
        [only] => matches!(&only.kind, StatementKind::Select(query) if gives_rows(query)),
        _ => false,
    }
}

fn gives_rows(query: &Query) -> bool {
    let assigns = match &query.body {
        QueryBody::Select(select) => {
            let is_assignment = |item: &SelectItem| matches!(item, SelectItem::Assign { .. });
            select.items.iter().any(is_assignment)
        }
        QueryBody::Set { .. } => false,
    };
    !assigns && super::query::into_of(query).is_none()
}

/// The procedure that a text calls, if it does nothing else.
fn called(statements: &[Statement]) -> Option<&ObjectName> {
    let [
        Statement {
            kind: StatementKind::Execute(exec),
            ..
        },
    ] = statements
    else {
        return None;
    };
    match &exec.target {
        ExecuteTarget::Procedure { name, .. } if exec.result_sets.is_none() => Some(name),
        _ => None,
    }
}

/// What a cursor of this kind becomes.
fn kind_of(scrollopt: i32) -> i32 {
    match scrollopt & scroll::KINDS {
        kind @ (scroll::FORWARD_ONLY | scroll::FAST_FORWARD) => kind,
        _ => scroll::STATIC,
    }
}

fn word(kind: i32) -> &'static str {
    match kind {
        fetch::PRIOR | fetch::PRIOR_NOT_ADJUSTED => "prior",
        fetch::LAST => "last",
        fetch::ABSOLUTE => "absolute",
        fetch::RELATIVE => "relative",
        _ => "unknown",
    }
}

/// Those values whose arguments are OUTPUT, in the order of the arguments.
fn outputs_of<const N: usize>(
    args: &[CallArgument],
    values: [(usize, i32); N],
) -> Vec<OutputValue> {
    let is_asked = |at: usize| args.get(at).is_some_and(|a| a.output);
    let asked = values.into_iter().filter(|(at, _)| is_asked(*at));
    asked.map(|(at, n)| OutputValue::int(at, n)).collect()
}

fn result_of(status: i32, outputs: Vec<OutputValue>) -> CallResult {
    CallResult {
        status,
        outputs,
        value: None,
    }
}
