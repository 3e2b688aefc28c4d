//! Cursors: DECLARE, OPEN, FETCH, CLOSE, DEALLOCATE, and cursor variables.
//!
//! Theory: OPEN runs the query and keeps its rows, FETCH walks over them. A STATIC cursor gives them as they were; a KEYSET or
//! DYNAMIC one keeps where they lie, and reads the row anew that it gives (`executor::cursor`). So it shows changes and
//! deletions, and no rows that have come since. A cursor is the session's (GLOBAL, the default) or its frame's (LOCAL, variables); the frame's are looked for
//! first, and go when it ends. The query sees the variables as they were when the cursor was declared.
//!
//! Invariants
//! 1. `Opened::at` is from 0 (before the first row) to one past the last.
//! 2. A cursor of a frame is seen by that frame alone, and is gone before another frame has its level.

mod live;
mod moves;

use super::Execution;
use super::client_cursor::ClientCursor;
use super::fail::Step;
use super::frame::{Frame, Scalars, Variables};
use crate::error::Result;
use crate::executor::{
    LivePlan, ReadBlock, Rereads, RowBatch, RowGatherer, SelectPlan, SharedRows, open,
    prepare_cursor, prepare_select,
};
use crate::host::{Host, RowPlace, VariableType};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::{DatabaseId, memory};
use daruma_catalog::name_key;
use daruma_syntax::ast::{
    CursorConcurrency, CursorDefinition, CursorKind, CursorRef, CursorScope, CursorScroll,
    CursorUpdate, DeclareCursor, Expr, Fetch, FetchDirection, Query,
};
use daruma_value::{DataType, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Arc;

use moves::Moves;
pub(super) use moves::WayBack;

/// Part of a statement's grant that the rows of a session's open cursors take of memory, before they go to disk.
const GRANT_PART: usize = 4;
/// Bytes that a session's cursors may take together of memory: what they were declared with, and rows that are not worth a file.
const BYTES_MAX: usize = 64 << 20;
/// Files that the rows of those which are open may have.
const OPENED_FILES_MAX: usize = 256;
/// Those that may be open at once: each keeps a plan.
const OPENED_MAX: usize = 4_096;
/// `@@FETCH_STATUS` of a row that is gone.
const MISSING: i32 = -2;
const COMMAND_OPEN: u16 = 0x20;
const COMMAND_FETCH: u16 = 0x21;
const COMMAND_CLOSE: u16 = 0x22;
const COMMAND_DEALLOCATE: u16 = 0x23;

/// The first handle of a client's cursor, as the product's begin.
const HANDLE_FIRST: i32 = 180_150_003;

/// The cursors of a session.
pub(crate) struct Cursors {
    list: RefCell<Vec<Cursor>>,
    /// Parameters of the frames that run.
    returned: RefCell<Vec<Returned>>,
    /// Those that the client opened by calls.
    pub(super) clients: RefCell<Vec<ClientCursor>>,
    /// Handles that were given to those.
    handles: Cell<i32>,
    /// `@@FETCH_STATUS`.
    pub fetch_status: Cell<i32>,
    /// `@@CURSOR_ROWS`.
    pub rows: Cell<i32>,
}

impl Default for Cursors {
    fn default() -> Cursors {
        Cursors {
            list: RefCell::default(),
            returned: RefCell::default(),
            clients: RefCell::default(),
            handles: Cell::new(0),
            fetch_status: Cell::new(-1),
            rows: Cell::new(0),
        }
    }
}

struct Cursor {
    /// What it is known by; it goes with the last of them.
    names: Vec<CursorName>,
    database: DatabaseId,
    query: Arc<Query>,
    /// Scalars that the query uses, as they were when it was declared.
    variables: Arc<Scalars>,
    /// Memory of the query and of those.
    bytes: usize,
    is_scrollable: bool,
    /// DYNAMIC, or nothing that fixes the rows: their number is not told.
    is_dynamic: bool,
    /// How rows are read when they are fetched; `None`: as they were when it was opened.
    rereads: Option<Rereads>,
    /// SCROLL_LOCKS: rows are locked for update when they are fetched.
    locks: bool,
    is_read_only: bool,
    /// Columns of FOR UPDATE OF.
    update_of: Vec<String>,
    opened: Option<Opened>,
}

/// A name of a cursor, or a variable that stands for it.
#[derive(Clone, Debug, PartialEq)]
struct CursorName {
    /// Variables with their `@`.
    key: String,
    /// Of the frame that it belongs to; `None` is the session's.
    level: Option<usize>,
}

/// A CURSOR VARYING OUTPUT parameter: when its frame ends the variable of the caller stands for its cursor.
struct Returned {
    parameter: CursorName,
    variable: CursorName,
}

/// Rows of a query, kept.
pub(super) struct Opened {
    columns: Vec<OutputColumn>,
    rows: SharedRows,
    /// Of rows on disk the block fetched from last.
    read: ReadBlock,
    at: usize,
    live: Option<Live>,
}

/// Rows of an open cursor that are read again.
struct Live {
    plan: Arc<LivePlan>,
    /// Where the row lies that was fetched last, if it was there.
    current: Vec<RowPlace>,
    moved: Arc<Moves>,
}

/// What FETCH found of a row.
enum Found {
    Row(Vec<Value>),
    /// Before the first, or behind the last.
    End,
    /// It is gone.
    Missing,
}

/// How FETCH goes.
struct Way {
    is_back: bool,
    /// Rows to the one that is given; 0: it stays.
    rows: u64,
    /// Rows that are gone are passed over.
    passes: bool,
}

impl Opened {
    pub(super) fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// Memory of rows and columns.
    fn memory_bytes(&self) -> usize {
        let names: usize = self.columns.iter().map(|c| c.name.len()).sum();
        let moved = self.live.as_ref().map_or(0, |live| live.moved.bytes());
        self.rows.memory_bytes() + names + size_of_val(self.columns.as_slice()) + moved
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// A row, from 0.
    pub(super) fn row(&mut self, at: usize) -> Result<Vec<Value>> {
        Ok(self.rows.row(at, &mut self.read)?.to_vec())
    }

    /// Moves to the row; `None` where there is none.
    fn go_to(&mut self, row: i64) -> Result<Option<Vec<Value>>> {
        let past = self.rows.len() + 1;
        self.at = usize::try_from(row).unwrap_or(0).min(past);
        match self.at {
            at if at == 0 || at == past => Ok(None),
            at => Ok(Some(self.rows.row(at - 1, &mut self.read)?.to_vec())),
        }
    }
}

impl Cursor {
    /// The row after the present one, or before it.
    fn step(&mut self, is_back: bool) -> Result<Option<Vec<Value>>> {
        match &mut self.opened {
            Some(opened) if is_back => opened.go_to(opened.at as i64 - 1),
            Some(opened) => opened.go_to(opened.at as i64 + 1),
            None => Ok(None),
        }
    }
}

/// Without a kind a cursor is DYNAMIC, with SCROLL KEYSET; one that is READ ONLY may be what is quickest.
fn rereads(definition: &CursorDefinition, insensitive: bool) -> Option<Rereads> {
    let is_read_only = definition.concurrency == Some(CursorConcurrency::ReadOnly)
        || definition.update == Some(CursorUpdate::ReadOnly);
    match definition.kind {
        _ if insensitive => None,
        Some(CursorKind::Static | CursorKind::FastForward) => None,
        Some(CursorKind::Keyset) => Some(Rereads::Keyset),
        Some(CursorKind::Dynamic) => Some(Rereads::Dynamic),
        None if is_read_only => None,
        None if definition.scroll == Some(CursorScroll::Scroll) => Some(Rereads::Keyset),
        None => Some(Rereads::Dynamic),
    }
}

impl Cursors {
    /// Those of frames at this level and above go, unless a parameter gives them to a caller.
    pub fn leave(&self, level: usize) {
        let mut list = self.list.borrow_mut();
        let mut returned = self.returned.borrow_mut();
        let ends = |name: &CursorName| name.level.is_some_and(|l| l >= level);
        while let Some(last) = returned.pop_if(|r| ends(&r.parameter)) {
            let mut cursors = list.iter_mut();
            if let Some(cursor) = cursors.find(|c| c.names.contains(&last.parameter)) {
                cursor.names.push(last.variable);
            }
        }
        if !list.is_empty() {
            list.iter_mut().for_each(|c| c.names.retain(|n| !ends(n)));
            list.retain(|c| !c.names.is_empty());
        }
    }

    /// Closes those that are open, as the end of a transaction may. A client's, which is never closed and there, is forgotten.
    pub fn close(&self) {
        let mut list = self.list.borrow_mut();
        list.iter_mut().for_each(|cursor| cursor.opened = None);
        self.clients.borrow_mut().clear();
    }

    /// Closes and forgets all cursors, as the end of the session or its reset does.
    pub fn clear(&self) {
        self.list.borrow_mut().clear();
        self.returned.borrow_mut().clear();
        self.clients.borrow_mut().clear();
        self.fetch_status.set(-1);
        self.rows.set(0);
    }

    /// What cursors hold: bytes in memory, and files.
    fn held(&self) -> (usize, usize) {
        let (list, clients) = (self.list.borrow(), self.clients.borrow());
        let declared: usize = list.iter().map(|c| c.bytes).sum();
        let opened = list.iter().filter_map(|c| c.opened.as_ref());
        let opened = opened.chain(clients.iter().map(|c| &c.opened));
        opened.fold((declared, 0), |(bytes, files), opened| {
            let is_on_disk = opened.rows.is_on_disk();
            (
                bytes + opened.memory_bytes(),
                files + usize::from(is_on_disk),
            )
        })
    }

    /// Number of those of statements that are open.
    fn opened_count(&self) -> usize {
        let list = self.list.borrow();
        list.iter().filter(|c| c.opened.is_some()).count()
    }

    /// A handle that no cursor of the session has had: there are more of them than a session can ask for.
    pub(super) fn next_handle(&self) -> i32 {
        let handle = self.handles.get();
        self.handles.set(handle.wrapping_add(2));
        HANDLE_FIRST.wrapping_add(handle)
    }

    fn position(&self, key: &str, level: Option<usize>) -> Option<usize> {
        let list = self.list.borrow();
        let is_it = |n: &CursorName| n.key == key && n.level == level;
        list.iter().position(|c| c.names.iter().any(is_it))
    }

    /// A name stands for nothing any more.
    fn forget(&self, name: &CursorName) {
        let mut list = self.list.borrow_mut();
        list.iter_mut().for_each(|c| c.names.retain(|n| n != name));
        list.retain(|c| !c.names.is_empty());
    }
}

impl Execution<'_> {
    fn cursors(&self) -> &Cursors {
        &self.state.cursors
    }

    pub(crate) fn run_declare_cursor(&self, declare: &DeclareCursor) -> Step<()> {
        self.quiet(|| {
            let definition = &declare.definition;
            // A function leaves no cursor behind.
            let scope = definition.scope.unwrap_or_else(|| self.cursor_default());
            let level = match scope == CursorScope::Local || self.in_function() {
                true => Some(self.state.frames.borrow().len()),
                false => None,
            };
            let key = name_key(&declare.name.text);
            if self.cursors().position(&key, level).is_some() {
                return Err(messages::error(16915, &[&declare.name.text]));
            }
            let name = CursorName { key, level };
            let cursor = self.new_cursor(name, definition, declare.insensitive)?;
            self.cursors().list.borrow_mut().push(cursor);
            Ok(())
        })
    }

    /// Scope of a cursor that is declared without one.
    fn cursor_default(&self) -> CursorScope {
        let database = self.instance().database(self.current_database());
        match database.is_some_and(|d| d.def().option("CURSOR_DEFAULT") == Some("LOCAL")) {
            true => CursorScope::Local,
            false => CursorScope::Global,
        }
    }

    /// `DECLARE @c CURSOR`: a variable that stands for no cursor yet.
    pub(crate) fn declare_cursor_variable(&self, name: &str) -> Result<()> {
        let mut frames = self.state.frames.borrow_mut();
        match frames.last_mut() {
            Some(frame) if frame.has_declared(name) => Ok(()),
            Some(frame) => frame.declare(name, VariableType::Cursor, Value::Null),
            None => Ok(()),
        }
    }

    /// `SET @c = CURSOR .. FOR ..`.
    pub(crate) fn set_cursor(&self, name: &str, definition: &CursorDefinition) -> Result<()> {
        if !matches!(self.variable_type(name), Some(VariableType::Cursor)) {
            return Err(messages::error_state(137, 1, &[&name]));
        }
        let name = self.own_name(name);
        let cursor = self.new_cursor(name.clone(), definition, false)?;
        self.cursors().forget(&name);
        self.cursors().list.borrow_mut().push(cursor);
        Ok(())
    }

    /// A variable of the running frame.
    fn own_name(&self, variable: &str) -> CursorName {
        CursorName {
            key: name_key(variable),
            level: Some(self.state.frames.borrow().len()),
        }
    }

    /// `SET @c = @other` and `SET @c = name`: both stand for one cursor from now on.
    pub(crate) fn share_cursor(&self, variable: &str, value: &Expr) -> Result<()> {
        let other = match value {
            Expr::Variable { name, .. } if self.is_cursor_variable(name) => {
                CursorRef::Variable(name.clone())
            }
            Expr::Variable { name, .. } => return Err(messages::error(16948, &[name])),
            Expr::Column(column) if column.table.is_none() => CursorRef::Name {
                name: column.name.clone(),
                global: false,
            },
            _ => return Err(messages::error(16948, &[&value.to_string()])),
        };
        let at = self.find_cursor(&other)?;
        let name = self.own_name(variable);
        let is_it = |c: &Cursor| c.names.contains(&name);
        if self.cursors().list.borrow().get(at).is_some_and(is_it) {
            return Ok(());
        }
        self.with_cursor(&other, |cursor| {
            cursor.names.push(name.clone());
            Ok(())
        })?;
        // What it stood for before is another one, and may go.
        let mut list = self.cursors().list.borrow_mut();
        let others = list.iter_mut().enumerate().filter(|(i, _)| *i != at);
        others.for_each(|(_, c)| c.names.retain(|n| *n != name));
        list.retain(|c| !c.names.is_empty());
        Ok(())
    }

    pub(crate) fn is_cursor_variable(&self, name: &str) -> bool {
        matches!(self.variable_type(name), Some(VariableType::Cursor))
    }

    /// Binds a CURSOR VARYING OUTPUT parameter of a frame that is about to be entered to a variable of this one: errors
    /// 16948 and 16951.
    pub(super) fn bind_cursor(
        &self,
        frame: &mut Frame,
        parameter: &str,
        variable: &str,
    ) -> Result<()> {
        if !self.is_cursor_variable(variable) {
            return Err(messages::error(16948, &[&variable]));
        }
        let variable_name = self.own_name(variable);
        let (key, level) = (&variable_name.key, variable_name.level);
        if self.cursors().position(key, level).is_some() {
            return Err(messages::error(16951, &[&variable]));
        }
        frame.declare(parameter, VariableType::Cursor, Value::Null)?;
        let level = self.state.frames.borrow().len() + 1;
        self.cursors().returned.borrow_mut().push(Returned {
            parameter: CursorName {
                key: name_key(parameter),
                level: Some(level),
            },
            variable: variable_name,
        });
        Ok(())
    }

    /// The frame whose parameters were bound is not entered.
    pub(super) fn unbind_cursors(&self) {
        let own = Some(self.state.frames.borrow().len());
        let mut returned = self.cursors().returned.borrow_mut();
        returned.retain(|r| r.parameter.level <= own);
    }

    /// The query is bound now, so that what is wrong with it is told now, and once more when the cursor is opened.
    fn new_cursor(
        &self,
        name: CursorName,
        definition: &CursorDefinition,
        insensitive: bool,
    ) -> Result<Cursor> {
        let query = &definition.query;
        let is_read_only = insensitive
            || definition.kind == Some(CursorKind::FastForward)
            || definition.concurrency == Some(CursorConcurrency::ReadOnly);
        if is_read_only && matches!(definition.update, Some(CursorUpdate::Update(_))) {
            return Err(messages::error(16957, &[]));
        }
        let rereads = rereads(definition, insensitive);
        let locks = definition.concurrency == Some(CursorConcurrency::ScrollLocks);
        let (plan, used) = self.noting_variables(|| {
            let (database, rereads) = (self.current_database(), rereads.unwrap_or(Rereads::Keyset));
            self.with_access(None, || {
                prepare_cursor(query, database, rereads, locks, self)
            })
        });
        let plan = plan?;
        if plan.select.is_assignment() {
            let (what, place) = ("variable assignment", "a cursor declaration");
            return Err(messages::error(154, &[&what, &place]));
        }
        let is_live = rereads.is_some() && plan.live.is_some();
        let update_of = match &definition.update {
            Some(CursorUpdate::Update(_)) if !is_live => {
                return Err(messages::error(16957, &[]));
            }
            Some(CursorUpdate::Update(names)) => names.iter().map(|n| n.text.clone()).collect(),
            _ => Vec::new(),
        };
        let is_read_only =
            is_read_only || !is_live || definition.update == Some(CursorUpdate::ReadOnly);
        let (query, variables, bytes) = self.kept_of_query(query, &used)?;
        let is_fixed = matches!(
            definition.kind,
            Some(CursorKind::Static | CursorKind::Keyset | CursorKind::FastForward)
        );
        let names_kind = matches!(
            definition.kind,
            Some(CursorKind::Static | CursorKind::Keyset | CursorKind::Dynamic)
        );
        let is_scroll = definition.scroll == Some(CursorScroll::Scroll);
        Ok(Cursor {
            names: vec![name],
            database: self.current_database(),
            query,
            variables,
            bytes,
            is_scrollable: match definition.scroll {
                Some(scroll) => scroll == CursorScroll::Scroll,
                None => names_kind,
            },
            is_dynamic: !(is_fixed || insensitive || is_scroll && definition.kind.is_none()),
            rereads: rereads.filter(|_| is_live),
            locks,
            is_read_only,
            update_of,
            opened: None,
        })
    }

    /// The query and the variables that it uses for a cursor to keep, and their memory; 701 where all cursors would keep too much.
    fn kept_of_query(
        &self,
        query: &Query,
        used: &HashSet<String>,
    ) -> Result<(Arc<Query>, Arc<Scalars>, usize)> {
        let frames = self.state.frames.borrow();
        let variables = frames.last().map(|frame| &frame.variables);
        let of_variables = variables.map_or(0, |v| v.scalar_bytes(used));
        let (held, _) = self.cursors().held();
        if held.saturating_add(of_variables) > BYTES_MAX {
            return Err(messages::error(701, &[&"default"]));
        }
        self.check_memory(of_variables)?;
        let before = memory::thread_bytes();
        let query = Arc::new(query.clone());
        let variables = variables.map(|v| v.scalars(used)).unwrap_or_default();
        let bytes = usize::try_from(memory::thread_bytes() - before).unwrap_or(0);
        match held.saturating_add(bytes) > BYTES_MAX {
            true => Err(messages::error(701, &[&"default"])),
            false => Ok((query, variables.into(), bytes)),
        }
    }

    /// The cursor that a name stands for; errors 16916 and 16950.
    fn with_cursor<T>(
        &self,
        name: &CursorRef,
        work: impl FnOnce(&mut Cursor) -> Result<T>,
    ) -> Result<T> {
        let at = self.find_cursor(name)?;
        match self.cursors().list.borrow_mut().get_mut(at) {
            Some(cursor) => work(cursor),
            None => Err(missing(name)),
        }
    }

    fn find_cursor(&self, name: &CursorRef) -> Result<usize> {
        let meant = self.name_meant(name)?;
        let found = self.cursors().position(&meant.key, meant.level);
        found.ok_or_else(|| missing(name))
    }

    /// The frame's own name, or the session's; errors 16916 and 16950 when it stands for no cursor.
    fn name_meant(&self, name: &CursorRef) -> Result<CursorName> {
        let own = Some(self.state.frames.borrow().len());
        let (key, levels) = match name {
            CursorRef::Variable(name) => (name_key(name), [own, own]),
            CursorRef::Name { name, global: true } => (name_key(&name.text), [None, None]),
            // Those of its caller would not be as before.
            CursorRef::Name { name, .. } if self.in_function() => {
                (name_key(&name.text), [own, own])
            }
            CursorRef::Name { name, .. } => (name_key(&name.text), [own, None]),
        };
        let is_there = |level: &Option<usize>| self.cursors().position(&key, *level).is_some();
        let level = levels.into_iter().find(is_there);
        let level = level.ok_or_else(|| missing(name))?;
        Ok(CursorName { key, level })
    }

    pub(crate) fn run_open(&self, name: &CursorRef) -> Step<()> {
        self.begin_implicit()?;
        match self.retry_on_change(|| self.atomic(|| self.open_cursor(name))) {
            Ok(()) => self.succeed(COMMAND_OPEN),
            Err(error) => Err(self.failed(COMMAND_OPEN, error)),
        }
    }

    fn open_cursor(&self, name: &CursorRef) -> Result<()> {
        let (query, variables, database, how) = self.with_cursor(name, |cursor| {
            if cursor.opened.is_some() {
                return Err(messages::error(16905, &[]));
            }
            let variables = cursor.variables.clone();
            let how = (cursor.rereads, cursor.locks);
            Ok((cursor.query.clone(), variables, cursor.database, how))
        })?;
        if database != self.current_database() {
            let what = "OPEN in another database than the one of DECLARE CURSOR";
            return Err(messages::not_supported(what));
        }
        let opened = self.with_variables(&variables, || self.read_all(&query, how))?;
        let count = i32::try_from(opened.rows.len()).unwrap_or(i32::MAX);
        self.with_cursor(name, |cursor| {
            let shown = if cursor.is_dynamic { -1 } else { count };
            self.cursors().rows.set(shown);
            cursor.opened = Some(opened);
            Ok(())
        })
    }

    /// Runs `work` where the frame has these scalars, beside its tables.
    fn with_variables<T>(&self, scalars: &Scalars, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_memory(scalars.iter().map(|(_, _, v)| v.outside_bytes()).sum())?;
        let kept = self.state.frames.borrow_mut().last_mut().map(|frame| {
            let variables = Variables::beside(scalars, &frame.variables);
            std::mem::replace(&mut frame.variables, variables)
        });
        let result = work();
        if let (Some(kept), Some(frame)) = (kept, self.state.frames.borrow_mut().last_mut()) {
            frame.variables = kept;
        }
        result
    }

    fn read_all(&self, query: &Query, how: (Option<Rereads>, bool)) -> Result<Opened> {
        self.note_planned();
        let (Some(rereads), locks) = how else {
            let plan = self.with_access(None, || prepare_select(query, self))?;
            return self.gather(&plan, 0);
        };
        let database = self.current_database();
        let plan = || prepare_cursor(query, database, rereads, locks, self);
        let plan = self.with_access(None, plan)?;
        let mut opened = self.gather(&plan.select, 0)?;
        opened.live = plan.live.map(|plan| Live {
            plan: Arc::new(plan),
            current: Vec::new(),
            moved: Arc::default(),
        });
        Ok(opened)
    }

    /// Runs the query and keeps its rows, the first `rows_max` of them; 0: all.
    pub(super) fn gather(&self, plan: &Arc<SelectPlan>, rows_max: u64) -> Result<Opened> {
        let mut stream = open(plan, self)?;
        let mut batch = RowBatch::new();
        let (bytes, files) = self.cursors().held();
        let room = self.memory_grant_bytes() / GRANT_PART;
        let mut rows = RowGatherer::within(room.saturating_sub(bytes));
        let mut count = 0;
        'rows: while stream.next(&mut batch)? {
            self.state.check_cancel()?;
            for row in batch.rows() {
                rows.add(row, self)?;
                count += 1;
                if count == rows_max {
                    break 'rows;
                }
            }
        }
        let opened = Opened {
            columns: plan.columns().to_vec(),
            rows: rows.finish()?,
            read: ReadBlock::default(),
            at: 0,
            live: None,
        };
        let is_too_much = bytes + opened.memory_bytes() > BYTES_MAX
            || self.cursors().opened_count() >= OPENED_MAX
            || files + usize::from(opened.rows.is_on_disk()) > OPENED_FILES_MAX;
        match is_too_much {
            true => Err(messages::error(701, &[&"default"])),
            false => Ok(opened),
        }
    }

    pub(crate) fn run_fetch(&self, fetch: &Fetch) -> Step<()> {
        self.begin_implicit()?;
        match self.fetch(fetch) {
            Ok(count) => {
                self.state.last_error.set(0);
                self.state.row_count.set(count);
                self.send_pending()?;
                match fetch.into.is_empty() {
                    true => self.done(super::query::COMMAND_SELECT, Some(count), false),
                    false => self.done(COMMAND_FETCH, None, false),
                }
            }
            Err(error) => {
                self.state.row_count.set(0);
                Err(self.failed(COMMAND_FETCH, error))
            }
        }
    }

    /// Number of rows: one or none.
    fn fetch(&self, fetch: &Fetch) -> Result<u64> {
        let offset = match &fetch.direction {
            FetchDirection::Absolute(expr) | FetchDirection::Relative(expr) => {
                let (value, from) = self.evaluate_alone(expr)?;
                let value = super::convert::assign(value, from, DataType::BigInt, self)?;
                value.as_i64().unwrap_or(0)
            }
            _ => 0,
        };
        let (columns, way, start, row) = self.with_cursor(&fetch.cursor, |cursor| {
            let passes = cursor.rereads == Some(Rereads::Dynamic);
            let scrolls = cursor.is_scrollable;
            let (is_dynamic, direction) = (cursor.is_dynamic, &fetch.direction);
            let Some(opened) = &mut cursor.opened else {
                return Err(messages::error(16917, &[]));
            };
            if is_dynamic && matches!(direction, FetchDirection::Absolute(_)) {
                return Err(messages::error(16925, &[&"Absolute"]));
            }
            if !scrolls && !matches!(direction, FetchDirection::Next) {
                return Err(messages::error(16911, &[&"fetch", &word(direction)]));
            }
            if !fetch.into.is_empty() && fetch.into.len() != opened.columns.len() {
                return Err(messages::error(16924, &[]));
            }
            let (at, count) = (opened.at as i64, opened.rows.len() as i64);
            let row = opened.go_to(match direction {
                FetchDirection::Next => at + 1,
                FetchDirection::Prior => at - 1,
                FetchDirection::First => 1,
                FetchDirection::Last => count,
                FetchDirection::Absolute(_) if offset < 0 => count + 1 + offset,
                FetchDirection::Absolute(_) => offset,
                // Row by row, to pass over those that are gone.
                FetchDirection::Relative(_) if passes => at + offset.signum(),
                FetchDirection::Relative(_) => at.saturating_add(offset),
            })?;
            let (is_back, rows) = match direction {
                FetchDirection::Prior | FetchDirection::Last => (true, 1),
                FetchDirection::Relative(_) if passes => (offset < 0, offset.unsigned_abs()),
                _ => (false, 1),
            };
            let way = Way {
                is_back,
                rows,
                passes,
            };
            Ok((opened.columns.clone(), way, at, row))
        })?;
        let found = self.find_row(&fetch.cursor, &way, row);
        if found.is_err() {
            // The next FETCH is about the same row.
            self.with_cursor(&fetch.cursor, |cursor| {
                let opened = cursor.opened.as_mut();
                opened.map_or(Ok(None), |opened| opened.go_to(start))
            })?;
        }
        let row = match found? {
            Found::Row(row) => Some(row),
            Found::End => None,
            Found::Missing => {
                self.cursors().fetch_status.set(MISSING);
                if fetch.into.is_empty() {
                    self.send_columns(&columns)?;
                }
                return Ok(0);
            }
        };
        self.cursors()
            .fetch_status
            .set(if row.is_some() { 0 } else { -1 });
        if fetch.into.is_empty() {
            self.send_columns(&columns)?;
            row.iter().try_for_each(|row| self.send_row(row))?;
        } else if let Some(row) = &row {
            for ((name, value), column) in fetch.into.iter().zip(row).zip(&columns) {
                self.assign_value(name, value.clone(), column.data_type)?;
            }
        }
        Ok(u64::from(row.is_some()))
    }

    /// Goes on from the row that a cursor has been moved to.
    fn find_row(&self, name: &CursorRef, way: &Way, row: Option<Vec<Value>>) -> Result<Found> {
        // Staying reads a row, too.
        let mut left = way.rows.max(1);
        let mut row = row;
        loop {
            match self.read_again(name, row.take())? {
                Found::Row(_) if left > 1 => left -= 1,
                // A row of a DYNAMIC cursor that is gone was never there, unless the cursor is to stay at it.
                Found::Missing if way.passes && way.rows > 0 => {}
                found => return Ok(found),
            }
            self.state.check_cancel()?;
            row = self.with_cursor(name, |cursor| cursor.step(way.is_back))?;
        }
    }

    pub(crate) fn run_close(&self, name: &CursorRef) -> Step<()> {
        let closed = self.with_cursor(name, |cursor| match cursor.opened.take() {
            Some(_) => Ok(()),
            None => Err(messages::error(16917, &[])),
        });
        match closed {
            Ok(()) => self.succeed(COMMAND_CLOSE),
            Err(error) => Err(self.failed(COMMAND_CLOSE, error)),
        }
    }

    pub(crate) fn run_deallocate(&self, name: &CursorRef) -> Step<()> {
        match self.name_meant(name) {
            Ok(name) => {
                self.cursors().forget(&name);
                self.succeed(COMMAND_DEALLOCATE)
            }
            Err(error) => Err(self.failed(COMMAND_DEALLOCATE, error)),
        }
    }

    /// CURSOR_STATUS('local' | 'global' | 'variable', name).
    pub(crate) fn cursor_status(&self, scope: &str, name: &str) -> i32 {
        let key = name_key(name);
        let own = Some(self.state.frames.borrow().len());
        let is_variable = scope.eq_ignore_ascii_case("variable");
        let level = match scope {
            s if s.eq_ignore_ascii_case("global") => None,
            s if s.eq_ignore_ascii_case("local") || is_variable => own,
            _ => return -3,
        };
        let found = match key.starts_with('@') == is_variable {
            true => self.cursors().position(&key, level),
            false => None,
        };
        let Some(at) = found else {
            let declared =
                is_variable && matches!(self.variable_type(name), Some(VariableType::Cursor));
            return if declared { -2 } else { -3 };
        };
        match self.cursors().list.borrow().get(at) {
            Some(Cursor {
                opened: Some(opened),
                is_dynamic,
                ..
            }) => i32::from(*is_dynamic || !opened.rows.is_empty()),
            Some(_) => -1,
            None => -3,
        }
    }
}

fn missing(name: &CursorRef) -> crate::error::SqlError {
    match name {
        CursorRef::Name { name, .. } => messages::error(16916, &[&name.text]),
        CursorRef::Variable(name) => messages::error_state(16950, 2, &[&name]),
    }
}

fn word(direction: &FetchDirection) -> &'static str {
    match direction {
        FetchDirection::Next => "next",
        FetchDirection::Prior => "prior",
        FetchDirection::First => "first",
        FetchDirection::Last => "last",
        FetchDirection::Absolute(_) => "absolute",
        FetchDirection::Relative(_) => "relative",
    }
}
