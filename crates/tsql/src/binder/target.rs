//! Targets of UPDATE and DELETE: a query whose rows also carry the key and stamp of one table's row.
//!
//! Theory: the target is a table of FROM when FROM has one by that alias or name, otherwise one more table joined to it.
//! While FROM is bound, the first scan that fits takes the request and produces the two extra columns, which flow upwards
//! like any others. A common table expression or view may stand for any one of its base tables, each row of which shows
//! at most once in a row of it: that of the first column that is assigned, known when all of it is bound.

use super::next_value::CLAUSE;
use super::scope::{NameScope, check_changed};
use super::stored::table_hints;
use super::tree::*;
use super::{Binder, ColumnInfo, ScopeEntry};
use crate::error::{Result, SqlError};
use crate::executor::{RowPin, TargetSpec, pin_target};
use crate::host::{Resolved, TableKind, TableRef, VariableType};
use daruma_base::DatabaseId;
use daruma_catalog::{Object, names_equal};
use daruma_syntax::ast::{DmlTarget, Ident, ObjectName, TableHint, TableSource, With};
use daruma_value::{DataType, Len};
use std::ops::Range;
use std::sync::Arc;

/// Conditions for a scan to be the target.
pub(super) struct TargetRequest {
    wanted: Wanted,
    /// Hints behind the name of the target, which may stand in FROM once more.
    hints: Vec<TableHint>,
    /// Scans met while any would do.
    candidates: Vec<Candidate>,
    /// Views met meanwhile, with the candidates that are in them.
    views: Vec<MetView>,
    /// Views WITH CHECK OPTION met meanwhile, the outermost of those that stand in each other.
    checked: Vec<Rel>,
    taken: Option<Taken>,
    /// FROM has the object that is wanted more than once.
    is_met_again: bool,
}

struct MetView {
    database: DatabaseId,
    object: i32,
    inside: Range<usize>,
}

struct Candidate {
    table: TableRef,
    /// Columns that the scan produces.
    scanned: Vec<ColId>,
    /// The same with virtual computed columns.
    columns: Vec<ColId>,
}

enum Wanted {
    /// A scan inside the source of FROM that has this name, its own or an alias.
    Inside(Shown),
    Object(u16, i32),
    /// A base of a view, common table expression or derived table.
    Any,
}

/// Name that a source of FROM is known by.
#[derive(Clone)]
struct Shown {
    name: ObjectName,
    is_alias: bool,
}

impl Shown {
    fn is_of(&self, source: &TableSource) -> bool {
        shown(source).is_some_and(|other| {
            self.is_alias == other.is_alias && same_name(&self.name, &other.name)
        })
    }
}

struct Taken {
    table: TableRef,
    columns: Vec<ColId>,
    key: ColId,
    stamp: ColId,
    joined: bool,
    /// Views that it is in.
    views: Vec<(DatabaseId, i32)>,
    check: Option<ViewCheck>,
}

/// Condition of the views WITH CHECK OPTION on a changed row.
pub struct ViewCheck {
    /// True for rows that the views show.
    pub condition: Scalar,
    /// The row: what the scan of the table produces.
    pub row: Vec<ColId>,
}

/// A bound target query.
pub struct BoundTarget {
    pub rel: Rel,
    pub table: TableRef,
    /// The target's columns, virtual computed ones included.
    pub columns: Vec<ColId>,
    pub key: ColId,
    pub stamp: ColId,
    /// It is joined to other tables, inside a view perhaps: its rows may come more than once, or not at all.
    pub joined: bool,
    /// Views that the table is come to through.
    pub views: Vec<(DatabaseId, i32)>,
    pub items: Vec<ColId>,
    /// Names of the other tables of FROM and their columns.
    pub sources: Vec<ScopeEntry>,
    /// Name that the other clauses know the target by, with its schema unless it is an alias.
    pub alias: String,
    pub schema: Option<String>,
    /// Names that the statement knows the target's columns by.
    pub exposed: Vec<(String, ColId)>,
    pub check: Option<ViewCheck>,
}

/// A bound view that rows are inserted through.
pub struct InsertedView {
    pub table: TableRef,
    pub columns: Vec<ColId>,
    pub joined: bool,
    pub views: Vec<(DatabaseId, i32)>,
    pub exposed: Vec<(String, ColId)>,
    pub check: Option<ViewCheck>,
}

impl Binder<'_> {
    /// The table that a data change is about, with the query that gives its rows. A view that cannot be changed
    /// through is error 4405 or one of its neighbours.
    pub fn target(&mut self, spec: &TargetSpec<'_>) -> Result<BoundTarget> {
        for hint in spec.options {
            self.hint(hint)?;
        }
        self.add_ctes(spec.with)?;
        self.scopes.push(NameScope::default());
        let (mut rel, known) = self.without_next_value(CLAUSE, |b| b.target_from(spec))?;
        let alias = known.name.text.clone();
        self.changed_name = Some(known.clone());
        let request = self.target.take();
        let mut request = request.ok_or_else(|| not_updatable(&alias))?;
        let taken = match request.taken.take() {
            Some(taken) => taken,
            None => {
                let set = spec.sets.first().map(|column| column.name.text.as_str());
                self.choose_base(&mut rel, &known, set, request)?
            }
        };
        self.refuse_parameter(&taken.table)?;
        if let Some(row) = spec.current {
            let pin = RowPin::at(&row.place_in(&taken.table)?.key);
            if !pin_target(&mut rel, taken.key, &pin) {
                return Err(crate::messages::error(16933, &[]));
            }
        }
        self.check_sets(spec, &known, &taken)?;
        if let Some(filter) = spec.filter {
            let condition = self.without_next_value(CLAUSE, |b| b.condition(filter))?;
            super::query::check_where(&condition)?;
            rel = rel.filter(Some(condition));
        }
        if let Some(top) = spec.top {
            rel = self.top(rel, top, Vec::new())?;
        }
        let mut items = Vec::with_capacity(spec.items.len());
        let mut computed = Vec::new();
        for expr in &spec.items {
            let scalar = self.of_rows(spec.top.is_some(), false, |b| b.expr(expr))?;
            if scalar.any(&|s| matches!(s.kind, Kind::Aggregate(_))) {
                return Err(crate::messages::error(157, &[]));
            }
            super::query::check_where(&scalar)?;
            let id = match scalar.as_column() {
                Some(id) => id,
                None => {
                    let id = self.new_computed("", &scalar)?;
                    computed.push((id, scalar));
                    id
                }
            };
            items.push(id);
        }
        let mut scalars: Vec<&mut Scalar> = computed.iter_mut().map(|(_, s)| s).collect();
        rel = self.share_next_values(rel, &mut scalars)?;
        let (own, sources): (Vec<_>, Vec<_>) = std::mem::take(&mut self.scope().tables)
            .into_iter()
            .partition(|t| t.matches(&known));
        let own = own.into_iter().next();
        Ok(BoundTarget {
            rel: rel.compute(computed),
            table: taken.table,
            columns: taken.columns,
            key: taken.key,
            stamp: taken.stamp,
            joined: taken.joined || !spec.from.is_empty(),
            views: taken.views,
            items,
            sources,
            schema: own.as_ref().and_then(|t| t.schema.clone()),
            exposed: own.map(|t| t.columns).unwrap_or_default(),
            alias,
            check: taken.check,
        })
    }

    /// SET may qualify its columns by the name that FROM knows the target by, and by the one that the statement has for it.
    fn check_sets(&mut self, spec: &TargetSpec<'_>, own: &ObjectName, taken: &Taken) -> Result<()> {
        let own = self.scope().tables.iter().filter(|t| t.matches(own));
        let mut known: Vec<ScopeEntry> = own.cloned().collect();
        if let DmlTarget::Table { name, .. } = spec.target {
            let table = taken.views.is_empty().then_some(&taken.table);
            known.push(ScopeEntry::of_target(name, table));
        }
        let mut sets = spec.sets.iter();
        sets.try_for_each(|column| check_changed(column, &known))
    }

    /// FROM with the target in it, and the name by which the target is known there.
    fn target_from(&mut self, spec: &TargetSpec<'_>) -> Result<(Rel, ObjectName)> {
        let (name, hints) = match spec.target {
            DmlTarget::Table { name, hints } => (name, hints.as_slice()),
            DmlTarget::Variable { name, .. } => return self.variable_target(name, spec.from),
            DmlTarget::Rowset(_) => {
                return Err(super::unsupported("A rowset function as a target"));
            }
        };
        let mut exposed = Vec::new();
        let sources = spec.from.iter();
        sources.for_each(|source| exposed_as(source, name, &mut exposed));
        if let Some((shown, _)) = exposed.pop() {
            if !exposed.is_empty() {
                return Err(ambiguous(name));
            }
            let known = shown.name.clone();
            self.want(Wanted::Inside(shown), hints);
            return Ok((self.from(spec.from)?, known));
        }
        if name.is_bare()
            && self
                .ctes
                .iter()
                .any(|c| names_equal(&c.cte.name.text, &name.name.text))
        {
            return self.cte_target(name, hints, spec);
        }
        match self.host.resolve(name)? {
            Resolved::Table(table) => {
                let object = (table.database.id().0, table.object_id);
                self.want(Wanted::Object(object.0, object.1), hints);
                if !spec.from.is_empty() {
                    let rel = self.from(spec.from)?;
                    if let Some(request) = self.target.as_ref().filter(|t| t.taken.is_some()) {
                        if request.is_met_again {
                            return Err(ambiguous(name));
                        }
                        return Ok((rel, self.name_of_target()));
                    }
                    let alias = &name.name.text;
                    let target = self.scan(table, alias, &name.dotted(), Some(None), hints)?;
                    return Ok((
                        super::from::join(JoinKind::Inner, target, rel, None, None),
                        name.clone(),
                    ));
                }
                let alias = &name.name.text;
                let scan = self.scan(table, alias, &name.dotted(), Some(None), hints)?;
                Ok((scan, name.clone()))
            }
            Resolved::View { database, object } => {
                let target = self.hinted(hints, &object.name, |b| {
                    b.wanted_view(database, &object, name)
                })?;
                self.with_rest(target, name, spec)
            }
            _ => Err(not_updatable(&name.dotted())),
        }
    }

    /// 10700: parameters are not changed under another name either.
    fn refuse_parameter(&self, table: &TableRef) -> Result<()> {
        if table.kind != TableKind::Variable {
            return Ok(());
        }
        match self.variable_table(&table.name) {
            Some(VariableType::Parameter(own)) if own.object_id == table.object_id => {
                Err(crate::messages::error(10700, &[&table.name]))
            }
            _ => Ok(()),
        }
    }

    fn variable_target(&mut self, name: &str, from: &[TableSource]) -> Result<(Rel, ObjectName)> {
        let table = crate::dml::changed_variable(self.host, name)?;
        self.want(Wanted::Object(table.database.id().0, table.object_id), &[]);
        let rel = self.from(from)?;
        let known = ObjectName::bare(Ident::new(name));
        if let Some(request) = self.target.as_ref().filter(|t| t.taken.is_some()) {
            if request.is_met_again {
                return Err(ambiguous(&known));
            }
            return Ok((rel, self.name_of_target()));
        }
        let target = self.scan(table, name, name, None, &[])?;
        let rel = if matches!(rel, Rel::One) {
            target
        } else {
            super::from::join(JoinKind::Inner, target, rel, None, None)
        };
        Ok((rel, known))
    }

    /// A common table expression as the only target.
    fn cte_target(
        &mut self,
        name: &ObjectName,
        hints: &[TableHint],
        spec: &TargetSpec<'_>,
    ) -> Result<(Rel, ObjectName)> {
        let source = TableSource::Table(daruma_syntax::ast::TableRef {
            name: name.clone(),
            alias: None,
            hints: hints.to_vec(),
            sample: None,
            system_time: None,
        });
        self.want(Wanted::Any, &[]);
        let target = self.source(&source)?;
        self.with_rest(target, name, spec)
    }

    fn with_rest(
        &mut self,
        target: Rel,
        name: &ObjectName,
        spec: &TargetSpec<'_>,
    ) -> Result<(Rel, ObjectName)> {
        check_updatable(&target, &name.dotted(), spec.deletes)?;
        let rel = match self.from(spec.from)? {
            Rel::One => target,
            rest => super::from::join(JoinKind::Inner, target, rest, None, None),
        };
        Ok((rel, name.clone()))
    }

    /// A view, so that its base tables are candidates.
    fn wanted_view(
        &mut self,
        database: DatabaseId,
        object: &Arc<Object>,
        name: &ObjectName,
    ) -> Result<Rel> {
        self.want(Wanted::Any, &[]);
        self.exposed_view(database, object, &name.name.text, &name.dotted(), true)
    }

    /// The base table of a view that an INSERT is about; `set` is its first column.
    pub fn inserted_view(
        &mut self,
        database: DatabaseId,
        object: &Arc<Object>,
        name: &ObjectName,
        set: Option<&str>,
    ) -> Result<InsertedView> {
        self.scopes.push(NameScope::default());
        let mut rel = self.wanted_view(database, object, name)?;
        check_updatable(&rel, &name.dotted(), false)?;
        let request = self.target.take();
        let request = request.ok_or_else(|| not_updatable(&name.name.text))?;
        let taken = self.choose_base(&mut rel, name, set, request)?;
        let mut tables = std::mem::take(&mut self.scope().tables).into_iter();
        Ok(InsertedView {
            table: taken.table,
            columns: taken.columns,
            joined: taken.joined,
            views: taken.views,
            exposed: tables.next().map(|t| t.columns).unwrap_or_default(),
            check: taken.check,
        })
    }

    /// Can rows be changed through this query, were it a view that checks them?
    pub fn is_updatable(&mut self, query: &daruma_syntax::ast::Query) -> Result<bool> {
        let mut rel = self.statement(query)?.rel;
        let is_whole = !any(&rel, &|r| matches!(r, Rel::Top(_)));
        Ok(is_whole
            && check_updatable(&rel, "", false).is_ok()
            && base_scan(&mut rel, &|_| true).is_some())
    }

    fn want(&mut self, wanted: Wanted, hints: &[TableHint]) {
        self.target = Some(TargetRequest {
            wanted,
            hints: hints.to_vec(),
            candidates: Vec::new(),
            views: Vec::new(),
            checked: Vec::new(),
            taken: None,
            is_met_again: false,
        });
    }

    /// Takes the base table that the column `set` of the target belongs to; without one, the first.
    fn choose_base(
        &mut self,
        rel: &mut Rel,
        known: &ObjectName,
        set: Option<&str>,
        request: TargetRequest,
    ) -> Result<Taken> {
        let candidates = request.candidates;
        let own = self.scope().tables.iter().filter(|t| t.matches(known));
        let named = |(name, _): &&(String, ColId)| set.is_some_and(|s| names_equal(name, s));
        let column = own.flat_map(|t| &t.columns).find(named).map(|(_, id)| *id);
        let is_base = |scan: &TableScan| candidates.iter().any(|c| c.scanned == scan.columns);
        let has_it = |scan: &TableScan| {
            let mut of_scan = candidates.iter().filter(|c| c.scanned == scan.columns);
            of_scan.any(|c| column.is_some_and(|id| c.columns.contains(&id)))
        };
        let (key, stamp) = self.locator()?;
        let scan = match base_scan(rel, &has_it).is_some() {
            true => base_scan(rel, &has_it),
            false => base_scan(rel, &is_base),
        };
        let scan = scan.ok_or_else(|| not_updatable(&known.name.text))?;
        scan.target = Some((key, stamp));
        let scanned = scan.columns.clone();
        let mut places = candidates.into_iter().enumerate();
        let chosen = places.find(|(_, c)| c.scanned == scanned);
        let (place, chosen) = chosen.ok_or_else(|| not_updatable(&known.name.text))?;
        let around = request.views.iter().filter(|v| v.inside.contains(&place));
        let (locks, forced_index, force_seek) = table_hints(&chosen.table, &request.hints)?;
        scan.hints = scan.hints.with(locks);
        scan.forced_index = forced_index.or(scan.forced_index);
        scan.force_seek |= force_seek;
        if scan.hints.nolock {
            return Err(crate::messages::error(1065, &[]));
        }
        Ok(Taken {
            table: chosen.table,
            columns: chosen.columns,
            key,
            stamp,
            joined: has_join(rel),
            views: around.map(|v| (v.database, v.object)).collect(),
            check: view_check(request.checked, scanned),
        })
    }

    /// Number of tables that may be the target so far.
    pub(super) fn target_candidates(&self) -> usize {
        self.target.as_ref().map_or(0, |t| t.candidates.len())
    }

    /// A view or inline function was bound; the candidates since `first` are in it.
    pub(super) fn note_view(&mut self, first: usize, database: DatabaseId, object: i32) {
        if let Some(request) = &mut self.target {
            request.views.push(MetView {
                database,
                object,
                inside: first..request.candidates.len(),
            });
        }
    }

    /// Number of views that have been noted by `note_checked`.
    pub(super) fn checked_views(&self) -> usize {
        self.target.as_ref().map_or(0, |t| t.checked.len())
    }

    /// A view WITH CHECK OPTION was bound. It stands for those noted since `before`, which stand in it.
    pub(super) fn note_checked(&mut self, before: usize, view: &Rel) {
        if let Some(request) = &mut self.target
            && matches!(request.wanted, Wanted::Any)
        {
            request.checked.truncate(before);
            request.checked.push(view.clone());
        }
    }

    /// Columns for the key and stamp of a row.
    pub(crate) fn locator(&mut self) -> Result<(ColId, ColId)> {
        let hidden = |data_type| ColumnInfo {
            ty: Type::new(data_type, true),
            name: String::new(),
            qualified: String::new(),
            identity: None,
            rowguid: false,
            computed: true,
            null_literal: false,
        };
        let key = self.new_column(hidden(DataType::VarBinary(Len(1700))))?;
        let stamp = self.new_column(hidden(DataType::UniqueIdentifier))?;
        Ok((key, stamp))
    }

    /// Binds one source of FROM. Only the one that has the target's name may hold the target; inside others the same name
    /// means something else.
    pub(super) fn with_request<T>(
        &mut self,
        source: &TableSource,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let waits =
            |r: &&mut TargetRequest| r.taken.is_none() && matches!(r.wanted, Wanted::Inside(_));
        let Some(request) = self.target.as_mut().filter(waits) else {
            return bind(self);
        };
        let is_named = match &request.wanted {
            Wanted::Inside(shown) => shown.is_of(source),
            _ => false,
        };
        if !is_named {
            let held = self.target.take();
            let bound = bind(self);
            self.target = held;
            return bound;
        }
        let inside = std::mem::replace(&mut request.wanted, Wanted::Any);
        let bound = bind(self);
        // It may hold no table at all; no other source does then.
        if let Some(request) = &mut self.target {
            request.wanted = inside;
        }
        bound
    }

    /// Name in FROM of the table that was taken, with its schema unless it is an alias.
    fn name_of_target(&mut self) -> ObjectName {
        let taken = self.target.as_ref().and_then(|t| t.taken.as_ref());
        let taken = taken.map(|t| t.columns.clone()).unwrap_or_default();
        let own = |t: &&ScopeEntry| t.columns.iter().any(|(_, id)| taken.contains(id));
        let entry = self.scope().tables.iter().find(own);
        let name = entry.map_or("", |e| e.name.as_str());
        ObjectName {
            schema: entry.and_then(|e| e.schema.as_deref()).map(Ident::new),
            ..ObjectName::bare(Ident::new(name))
        }
    }

    /// The request for a table of FROM that is known by its own name, while a query inside FROM is bound: a table in there is
    /// another one.
    pub(super) fn hold_object(&mut self) -> Option<TargetRequest> {
        self.target
            .take_if(|r| matches!(r.wanted, Wanted::Object(..)))
    }

    /// Hints behind the target's name, for the scan that has just been taken for it.
    pub(super) fn target_hints(&self) -> &[TableHint] {
        self.target.as_ref().map_or(&[], |request| &request.hints)
    }

    /// Called by every scan: the columns for key and stamp when it is the target.
    pub(super) fn take_target(
        &mut self,
        table: &TableRef,
        columns: &[ColId],
    ) -> Result<Option<(ColId, ColId)>> {
        let Some(request) = &mut self.target else {
            return Ok(None);
        };
        let object = (table.database.id().0, table.object_id);
        match request.wanted {
            Wanted::Object(database, id) if request.taken.is_some() => {
                request.is_met_again |= object == (database, id);
                return Ok(None);
            }
            _ if request.taken.is_some() => return Ok(None),
            Wanted::Object(database, id) if object == (database, id) => {}
            Wanted::Any => {
                request.candidates.push(Candidate {
                    table: table.clone(),
                    scanned: columns.to_vec(),
                    columns: columns.to_vec(),
                });
                return Ok(None);
            }
            _ => return Ok(None),
        }
        let (key, stamp) = self.locator()?;
        if let Some(request) = &mut self.target {
            request.taken = Some(Taken {
                table: table.clone(),
                columns: columns.to_vec(),
                key,
                stamp,
                joined: false,
                views: Vec::new(),
                check: None,
            });
        }
        Ok(Some((key, stamp)))
    }

    /// Replaces a scan's columns by those with virtual computed columns, where it is the target or may be.
    pub(super) fn note_target_columns(&mut self, scanned: &[ColId], columns: &[ColId]) {
        let Some(request) = &mut self.target else {
            return;
        };
        if let Some(taken) = request.taken.as_mut().filter(|t| t.columns == scanned) {
            taken.columns = columns.to_vec();
        }
        let mut candidates = request.candidates.iter_mut();
        if let Some(candidate) = candidates.find(|c| c.scanned == scanned) {
            candidate.columns = columns.to_vec();
        }
    }
}

/// The first scan that fits and whose rows reach the top as they are.
fn base_scan<'r>(rel: &'r mut Rel, fits: &dyn Fn(&TableScan) -> bool) -> Option<&'r mut TableScan> {
    match rel {
        Rel::Table(scan) => fits(scan).then_some(&mut **scan),
        Rel::Filter { .. }
        | Rel::Compute { .. }
        | Rel::Window { .. }
        | Rel::Sort { .. }
        | Rel::Top(_)
        | Rel::Join(_) => rel
            .inputs_mut()
            .into_iter()
            .find_map(|input| base_scan(input, fits)),
        _ => None,
    }
}

/// That the views show a row of the scan that produces `row`. Views that do not hold the scan say nothing of it.
fn view_check(views: Vec<Rel>, row: Vec<ColId>) -> Option<ViewCheck> {
    let mut conditions = Vec::new();
    for mut view in views {
        if put_row(&mut view, &row) {
            match plain_conditions(&view) {
                Some(plain) => conditions.extend(plain),
                None => conditions.push(Scalar::condition(Kind::Subquery(Box::new(Subquery {
                    rel: view,
                    kind: SubqueryKind::Exists,
                })))),
            }
        }
    }
    (!conditions.is_empty()).then(|| ViewCheck {
        condition: Scalar::condition(Kind::And(conditions)),
        row,
    })
}

/// Puts one given row in the place of a scan; its columns come from outside then. Outer joins give that row or none.
/// False where the scan is not.
fn put_row(rel: &mut Rel, row: &[ColId]) -> bool {
    match rel {
        Rel::Table(scan) if scan.columns == row => {
            *rel = Rel::One;
            true
        }
        Rel::Join(join) => {
            let in_left = put_row(&mut join.left, row);
            let in_right = !in_left && put_row(&mut join.right, row);
            join.kind = match join.kind {
                JoinKind::Left if in_right => JoinKind::Inner,
                JoinKind::Full if in_left => JoinKind::Left,
                JoinKind::Full if in_right => {
                    std::mem::swap(&mut join.left, &mut join.right);
                    JoinKind::Left
                }
                kind => kind,
            };
            in_left || in_right
        }
        Rel::Filter { .. } | Rel::Compute { .. } | Rel::Window { .. } | Rel::Sort { .. } => {
            let mut inputs = rel.inputs_mut().into_iter();
            inputs.any(|input| put_row(input, row))
        }
        _ => false,
    }
}

/// The conditions of a query over one row that has nothing but conditions.
fn plain_conditions(rel: &Rel) -> Option<Vec<Scalar>> {
    match rel {
        Rel::One => Some(Vec::new()),
        Rel::Filter { input, condition } => {
            let mut conditions = plain_conditions(input)?;
            conditions.push(condition.clone());
            Some(conditions)
        }
        _ => None,
    }
}

fn has_join(rel: &Rel) -> bool {
    any(rel, &|r| matches!(r, Rel::Join(_)))
}

fn any(rel: &Rel, is: &dyn Fn(&Rel) -> bool) -> bool {
    is(rel) || rel.inputs().into_iter().any(|input| any(input, is))
}

/// Does each row of a view or common table expression stand for one row of a table? Errors 4403 and 4405.
fn check_updatable(rel: &Rel, name: &str, deletes: bool) -> Result<()> {
    match rel {
        Rel::Filter { input, .. }
        | Rel::Compute { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Window { input, .. } => check_updatable(input, name, deletes),
        Rel::Top(top) => check_updatable(&top.input, name, deletes),
        // A row goes from one table; which columns an UPDATE may name is found out later.
        Rel::Join(_) if deletes => Err(crate::messages::error(4405, &[&name])),
        Rel::Aggregate(_) | Rel::Distinct { .. } | Rel::Set(_) => {
            Err(crate::messages::error(4403, &[&name]))
        }
        _ => Ok(()),
    }
}

/// The name of a source that is no join.
fn shown(source: &TableSource) -> Option<Shown> {
    let alias = |alias: &Ident| Shown {
        name: ObjectName::bare(alias.clone()),
        is_alias: true,
    };
    match source {
        TableSource::Table(table) => Some(match &table.alias {
            Some(name) => alias(name),
            None => Shown {
                name: table.name.clone(),
                is_alias: false,
            },
        }),
        TableSource::Variable { alias: name, .. } | TableSource::Derived { alias: name, .. } => {
            name.as_ref().map(alias)
        }
        _ => None,
    }
}

/// Gathers the sources that a target name means: by its last part when it has no other, otherwise as it is written.
fn exposed_as<'s>(
    source: &'s TableSource,
    name: &ObjectName,
    found: &mut Vec<(Shown, &'s TableSource)>,
) {
    match source {
        TableSource::Join(join) => {
            exposed_as(&join.left, name, found);
            exposed_as(&join.right, name, found);
        }
        TableSource::Apply { left, right, .. } => {
            exposed_as(left, name, found);
            exposed_as(right, name, found);
        }
        _ => {
            let fits = |shown: &Shown| {
                let same_last = names_equal(&shown.name.name.text, &name.name.text);
                same_last && name.is_bare() || !shown.is_alias && same_name(&shown.name, name)
            };
            found.extend(shown(source).filter(fits).map(|shown| (shown, source)));
        }
    }
}

/// Name of the table or view that the target of a change means. `None` for common table expressions, derived tables and
/// variables, and where more than one may be meant.
pub(crate) fn target_object<'s>(
    name: &'s ObjectName,
    from: &'s [TableSource],
    with: &With,
) -> Option<&'s ObjectName> {
    let mut exposed = Vec::new();
    let sources = from.iter();
    sources.for_each(|source| exposed_as(source, name, &mut exposed));
    let meant = match exposed.as_slice() {
        [] => name,
        [(_, TableSource::Table(table))] => &table.name,
        _ => return None,
    };
    let is_cte = |c: &daruma_syntax::ast::Cte| {
        meant.is_bare() && names_equal(&c.name.text, &meant.name.text)
    };
    (!with.ctes.iter().any(is_cte)).then_some(meant)
}

/// Are two names the same part by part? A dot in a part is none between parts.
pub(crate) fn same_name(one: &ObjectName, other: &ObjectName) -> bool {
    let same = |one: &Option<Ident>, other: &Option<Ident>| match (one, other) {
        (Some(one), Some(other)) => names_equal(&one.text, &other.text),
        (one, other) => one.is_none() && other.is_none(),
    };
    names_equal(&one.name.text, &other.name.text)
        && same(&one.schema, &other.schema)
        && same(&one.database, &other.database)
        && same(&one.server, &other.server)
}

/// 8154: more than one source of FROM may be meant.
fn ambiguous(name: &ObjectName) -> SqlError {
    crate::messages::error(8154, &[&name.dotted()])
}

fn not_updatable(name: &str) -> SqlError {
    SqlError::new(
        4406,
        16,
        1,
        format!(
            "Update or insert of view or function '{name}' failed because it contains a derived or constant field."
        ),
    )
}
