//! Access paths: which index a table is read through.
//!
//! Theory: every index is a candidate. Conditions on its leading columns become a key range: equalities first, then one
//! range. The cost is the entries read, plus a lookup for each row when the index lacks a column, plus a sort when the
//! caller would like an order that the index does not give.

use super::Planner;
use super::compile::fold;
use super::cost::{self, LOOKUP, SEEK};
use super::implication::implied;
use crate::access::IndexAccess;
use crate::binder::mirrored;
use crate::binder::tree::*;
use crate::error::{Result, SqlError};
use crate::executor::expr::Cond;
use crate::executor::plan::*;
use crate::host::{Access, LockHints};
use daruma_storage::LockMode;
use daruma_syntax::ast::CompareOp;
use daruma_value::collation::LikePattern;
use daruma_value::{CollationId, DataType, Value};
use std::sync::Arc;

/// IN lists longer than this are not turned into seeks.
const LIST_MAX: usize = 1000;

/// How a table would be read.
#[derive(Clone)]
pub struct Path {
    pub index: usize,
    parts: Vec<Part>,
    low: Option<(Scalar, bool)>,
    high: Option<(Scalar, bool)>,
    /// Positions of conditions that the key range makes true by itself.
    covered: Vec<usize>,
    pub cost: f64,
    /// Rows that come out, after all conditions.
    pub rows: f64,
    lookup: bool,
    backward: bool,
    pub ordered: bool,
    /// The index may lack rows.
    impossible: bool,
}

#[derive(Clone)]
enum Part {
    One(Scalar),
    List(Vec<Scalar>),
    Null,
}

impl Path {
    /// To the one row that a scan is pinned to.
    fn pinned(ordered: bool) -> Path {
        Path {
            index: 0,
            parts: Vec::new(),
            low: None,
            high: None,
            covered: Vec::new(),
            cost: SEEK,
            rows: 1.0,
            lookup: false,
            backward: false,
            ordered,
            impossible: false,
        }
    }

    /// Does the seek use a condition that looks at `outer` columns?
    pub(super) fn uses(&self, conditions: &[Scalar], outer: &ColSet) -> bool {
        self.covered
            .iter()
            .filter_map(|i| conditions.get(*i))
            .any(|c| !c.column_set().is_disjoint(outer))
    }
}

/// A condition as an index sees it.
enum Use<'s> {
    Equal(&'s Scalar),
    List(Vec<Scalar>),
    Null,
    Low(Scalar, bool),
    High(Scalar, bool),
    /// A range that the condition implies but is not implied by.
    Prefix(Scalar, Scalar),
}

impl Planner<'_> {
    /// Best way to read `scan` under `conditions`, where columns of other tables are known values.
    pub(super) fn best_path(
        &mut self,
        scan: &TableScan,
        conditions: &[Scalar],
        required: &ColSet,
        want: &[(ColId, bool)],
        limit: Option<f64>,
    ) -> Path {
        if scan.pin.is_some() {
            return Path::pinned(want.is_empty());
        }
        let rows = self.table_rows(scan);
        let mut best: Option<Path> = None;
        for index in 0..scan.access.layouts.indexes.len() {
            if scan.forced_index.is_some_and(|f| f != index) {
                continue;
            }
            let Some(access) = scan.access.layouts.indexes.get(index) else {
                continue;
            };
            if access.def.disabled {
                continue;
            }
            let filter = scan.filter_of(index);
            // Rows that the query wants must not be missing.
            if !filter.iter().all(|part| implied(conditions, part)) {
                continue;
            }
            let path = self.path(scan, index, access, conditions, required, want, limit, rows);
            if best.as_ref().is_none_or(|b| path.cost < b.cost) {
                best = Some(path);
            }
        }
        // A hint that names an index which does not hold all rows: `scan_node` refuses.
        best.unwrap_or(Path {
            index: scan.forced_index.unwrap_or(0),
            impossible: scan.forced_index.is_some(),
            parts: Vec::new(),
            low: None,
            high: None,
            covered: Vec::new(),
            cost: rows,
            rows,
            lookup: false,
            backward: false,
            ordered: want.is_empty(),
        })
    }

    fn path(
        &mut self,
        scan: &TableScan,
        index: usize,
        access: &IndexAccess,
        conditions: &[Scalar],
        required: &ColSet,
        want: &[(ColId, bool)],
        limit: Option<f64>,
        rows: f64,
    ) -> Path {
        let filter = scan.filter_of(index);
        let mut path = Path {
            index,
            impossible: false,
            parts: Vec::new(),
            low: None,
            high: None,
            covered: Vec::new(),
            cost: 0.0,
            rows,
            lookup: false,
            backward: false,
            ordered: false,
        };
        let mut seeks = 1.0;
        let mut used: Vec<&Scalar> = Vec::new();
        'key: for key in &access.key {
            let Some(id) = scan.columns.get(key.ordinal).copied() else {
                break;
            };
            let produced = scan.columns.as_slice();
            for (position, condition) in conditions.iter().enumerate() {
                let part = match usable(condition, id, key.data_type, key.collation, produced) {
                    Some(Use::Equal(value)) => Part::One(value.clone()),
                    Some(Use::Null) => Part::Null,
                    Some(Use::List(list)) if list.len() <= LIST_MAX && seeks == 1.0 => {
                        seeks = list.len() as f64;
                        Part::List(list)
                    }
                    _ => continue,
                };
                used.push(condition);
                path.parts.push(part);
                path.covered.push(position);
                continue 'key;
            }
            for (position, condition) in conditions.iter().enumerate() {
                match usable(condition, id, key.data_type, key.collation, produced) {
                    Some(Use::Low(value, inclusive)) if path.low.is_none() => {
                        path.low = Some((value, inclusive));
                        path.covered.push(position);
                        used.push(condition);
                    }
                    Some(Use::High(value, inclusive)) if path.high.is_none() => {
                        path.high = Some((value, inclusive));
                        path.covered.push(position);
                        used.push(condition);
                    }
                    Some(Use::Prefix(low, high)) if path.low.is_none() && path.high.is_none() => {
                        path.low = Some((low, true));
                        path.high = Some((high, true));
                        used.push(condition);
                    }
                    _ => {}
                }
            }
            break;
        }
        // Entries of a filtered index satisfy its filter: what follows from it need not be tested.
        for (position, condition) in conditions.iter().enumerate() {
            let known = !filter.is_empty() && implied(filter, condition);
            if known && !path.covered.contains(&position) {
                path.covered.push(position);
            }
        }
        let new_parts = filter.iter().filter(|part| !used.contains(part));
        let fraction = self.together(used.iter().copied().chain(new_parts));
        let whole = access.def.unique && path.parts.len() == access.key.len();
        let read = if whole {
            seeks
        } else {
            (rows * fraction).max(1.0)
        };
        let all: f64 = self.together(conditions);
        path.rows = if whole {
            seeks.min(rows)
        } else {
            (rows * all).max(rows.min(1.0) * 0.01)
        };
        let tested: Vec<&Scalar> = match filter.is_empty() {
            true => conditions.iter().collect(),
            false => untested(conditions, filter),
        };
        path.lookup = !access.is_primary() && !self.covers(scan, access, &tested, required);
        path.ordered = ordered(scan, access, &path, want).is_some();
        path.backward = ordered(scan, access, &path, want) == Some(true);
        // With a limit above and the order at hand, only the first rows are read.
        let read = match limit {
            Some(limit) if path.ordered => read.min((limit / all.max(1e-6)).max(1.0)),
            _ => read,
        };
        let width = if access.is_primary() {
            1.0
        } else {
            cost::NARROW
        };
        let lookups = if path.lookup { read * LOOKUP } else { 0.0 };
        let seek = if path.parts.is_empty() && path.low.is_none() && path.high.is_none() {
            0.0
        } else {
            SEEK * seeks
        };
        let sort = if path.ordered || want.is_empty() {
            0.0
        } else {
            cost::sort(path.rows)
        };
        path.cost = seek + read * width + lookups + sort;
        if scan.force_seek && seek == 0.0 {
            path.cost += 1e12;
        }
        path
    }

    fn covers(
        &self,
        scan: &TableScan,
        access: &IndexAccess,
        conditions: &[&Scalar],
        required: &ColSet,
    ) -> bool {
        if scan.located().is_some() {
            return false;
        }
        let used = |id: &ColId| {
            required.contains(id) || conditions.iter().any(|c| c.column_set().contains(id))
        };
        scan.columns
            .iter()
            .enumerate()
            .all(|(ordinal, id)| !used(id) || access.position(ordinal).is_some())
    }

    /// Makes the scan physical.
    pub(super) fn scan_node(
        &mut self,
        scan: &TableScan,
        conditions: &[Scalar],
        required: &ColSet,
        path: Path,
    ) -> Result<Node> {
        let access = scan.access.index(path.index)?.clone();
        let no_seek = path.parts.is_empty() && path.low.is_none() && path.high.is_none();
        if path.impossible || scan.force_seek && no_seek {
            return Err(no_plan());
        }
        let residual: Vec<&Scalar> = conditions
            .iter()
            .enumerate()
            .filter(|(i, _)| !path.covered.contains(i))
            .map(|(_, c)| c)
            .collect();
        let mut schema: Vec<ColId> = scan
            .columns
            .iter()
            .copied()
            .filter(|id| required.contains(id))
            .collect();
        let mut needed = ColSet::new();
        let (leaf, rest): (Vec<&Scalar>, Vec<&Scalar>) = residual
            .into_iter()
            .partition(|c| leaf_use(c, scan, &access).is_some());
        rest.iter().for_each(|c| c.columns(&mut needed));
        for id in &scan.columns {
            if needed.contains(id) && !schema.contains(id) {
                schema.push(*id);
            }
        }
        let target = scan
            .located()
            .filter(|(key, stamp)| required.contains(key) || required.contains(stamp));
        if let Some((key, stamp)) = target {
            schema.extend([key, stamp]);
        }
        let outputs: Vec<ScanOutput> = schema
            .iter()
            .map(|id| output_of(scan, &access, *id))
            .collect();
        let in_index = |id: &ColId| match schema.iter().position(|c| c == id) {
            Some(at) => matches!(outputs.get(at), Some(ScanOutput::Index(_))),
            None => true,
        };
        let (first, second): (Vec<&Scalar>, Vec<&Scalar>) = rest
            .into_iter()
            .partition(|c| c.column_set().iter().all(in_index));
        let mut early = ColSet::new();
        first.iter().for_each(|c| c.columns(&mut early));
        let filter = self.all(&first, &schema)?;
        let lookup_filter = self.all(&second, &schema)?;
        let lookup_needed = |output: &ScanOutput| {
            matches!(output, ScanOutput::Table(_))
                || path.lookup && matches!(output, ScanOutput::Key | ScanOutput::Stamp)
        };
        let (mut early_at, mut late_at, mut looked_up) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (id, output)) in schema.iter().zip(&outputs).enumerate() {
            if lookup_needed(output) {
                looked_up.push(at);
            } else if early.contains(id) && filter.is_some() {
                early_at.push(at);
            } else {
                late_at.push(at);
            }
        }
        let mut leaf_conditions = Vec::new();
        for condition in leaf {
            if let Some((position, op, value, money)) = leaf_use(condition, scan, &access) {
                leaf_conditions.push(LeafCond {
                    position,
                    op,
                    value: self.expr(value, &[])?,
                    money,
                });
            }
        }
        let seek = self.seek(&path)?;
        let order = node_order(scan, &access, &path, &schema);
        let mut hints = scan.hints;
        let row_locking = row_locking(&hints, scan.target.is_some());
        hints.by_row = row_locking.is_some();
        hints.by_key = scan.pin.is_some() || seek.as_ref().is_some_and(|s| s.names_keys(&access));
        let view = match scan.target.is_some() {
            true if scan.hints == LockHints::default() => Access::Target,
            true => Access::HintedTarget(hints),
            false => Access::Read(hints),
        };
        let node = ScanNode {
            access: scan.access.clone(),
            index: path.index,
            view,
            seek,
            backward: path.backward,
            outputs,
            leaf: leaf_conditions,
            filter,
            early: early_at,
            late: late_at,
            lookup: path.lookup || !looked_up.is_empty(),
            lookup_filter,
            looked_up,
            alias: scan.alias.clone(),
            row_locking,
            pin: scan.pin.clone(),
        };
        Ok(Node {
            op: Op::Scan(Arc::new(node)),
            schema,
            rows: path.rows,
            cost: path.cost,
            order,
        })
    }

    fn all(&mut self, conditions: &[&Scalar], schema: &[ColId]) -> Result<Option<Cond>> {
        let mut parts = Vec::with_capacity(conditions.len());
        for condition in conditions {
            parts.push(self.cond(condition, schema)?);
        }
        Ok(match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(Cond::And(parts)),
        })
    }

    fn seek(&mut self, path: &Path) -> Result<Option<Seek>> {
        if path.parts.is_empty() && path.low.is_none() && path.high.is_none() {
            return Ok(None);
        }
        let mut equal = Vec::with_capacity(path.parts.len());
        for part in &path.parts {
            equal.push(match part {
                Part::One(value) => SeekKey::One(self.expr(value, &[])?),
                Part::List(list) => SeekKey::List(self.exprs(list, &[])?),
                Part::Null => SeekKey::Null,
            });
        }
        let mut bound = |end: &Option<(Scalar, bool)>| -> Result<Option<SeekBound>> {
            match end {
                Some((value, inclusive)) => Ok(Some(SeekBound {
                    value: self.expr(value, &[])?,
                    inclusive: *inclusive,
                })),
                None => Ok(None),
            }
        };
        let (low, high) = (bound(&path.low)?, bound(&path.high)?);
        Ok(Some(Seek { equal, low, high }))
    }
}

/// Conditions that the filter of the index does not make true by itself.
fn untested<'s>(conditions: &'s [Scalar], filter: &[Scalar]) -> Vec<&'s Scalar> {
    conditions
        .iter()
        .filter(|condition| !implied(filter, condition))
        .collect()
}

/// How a scan with these hints locks its rows, if one by one.
fn row_locking(hints: &LockHints, is_target: bool) -> Option<RowLocking> {
    if !hints.locks_rows() || hints.tablock || hints.tablockx {
        return None;
    }
    let mode = match hints {
        h if h.xlock => Some(LockMode::Exclusive),
        h if h.updlock || is_target => Some(LockMode::Update),
        h if h.repeatableread => Some(LockMode::Shared),
        _ => None,
    };
    Some(RowLocking {
        mode,
        skip: hints.readpast,
    })
}

fn output_of(scan: &TableScan, access: &IndexAccess, id: ColId) -> ScanOutput {
    if let Some((key, stamp)) = scan.located() {
        if id == key {
            return ScanOutput::Key;
        }
        if id == stamp {
            return ScanOutput::Stamp;
        }
    }
    let ordinal = scan
        .columns
        .iter()
        .position(|c| *c == id)
        .unwrap_or(usize::MAX);
    match access.position(ordinal) {
        Some(position) => ScanOutput::Index(position),
        None => ScanOutput::Table(
            scan.access
                .primary()
                .position(ordinal)
                .unwrap_or(usize::MAX),
        ),
    }
}

/// Can a comparand of this type be made a key of the column without a change of meaning?
fn fits_key(column: DataType, collation: CollationId, value: &Scalar) -> bool {
    let t = value.ty.data_type;
    let old = |t| {
        matches!(
            t,
            DataType::Date
                | DataType::SmallDateTime
                | DataType::DateTime
                | DataType::DateTime2 { .. }
        )
    };
    if column.is_character() {
        return t.is_character() && value.ty.collation == collation;
    }
    if matches!(column, DataType::Float | DataType::Real) {
        return matches!(t, DataType::Float | DataType::Real) && t == column
            || t.is_exact_numeric();
    }
    column.is_exact_numeric() && t.is_exact_numeric()
        || old(column) && old(t)
        || column.is_binary() && t.is_binary()
        || column.name() == t.name()
}

/// How a condition bounds column `id`, if its other side does not look at this table.
fn usable<'s>(
    condition: &'s Scalar,
    id: ColId,
    data_type: DataType,
    collation: CollationId,
    own: &[ColId],
) -> Option<Use<'s>> {
    let outside = |s: &Scalar| {
        !s.is_volatile()
            && s.column_set().iter().all(|c| !own.contains(c))
            && !s.any(&|n| matches!(n.kind, Kind::Subquery(_)))
    };
    match &condition.kind {
        Kind::Compare { op, left, right } => {
            let (op, value) = if left.as_column() == Some(id) && outside(right) {
                (*op, right)
            } else if right.as_column() == Some(id) && outside(left) {
                (mirrored(*op), left)
            } else {
                return None;
            };
            // The comparison's collation is on both sides; an index ordered by another one is of no use.
            if data_type.is_character() && left.ty.collation != collation {
                return None;
            }
            if !fits_key(data_type, collation, value) {
                return None;
            }
            let value_of = || (**value).clone();
            match op {
                CompareOp::Equal => Some(Use::Equal(value)),
                CompareOp::Greater => Some(Use::Low(value_of(), false)),
                CompareOp::GreaterOrEqual | CompareOp::NotLess => Some(Use::Low(value_of(), true)),
                CompareOp::Less => Some(Use::High(value_of(), false)),
                CompareOp::LessOrEqual | CompareOp::NotGreater => Some(Use::High(value_of(), true)),
                CompareOp::NotEqual => None,
            }
        }
        Kind::InList { expr, list } if expr.as_column() == Some(id) => {
            let same = !data_type.is_character() || expr.ty.collation == collation;
            let all = list
                .iter()
                .all(|v| outside(v) && fits_key(data_type, collation, v));
            (same && all).then(|| Use::List(list.clone()))
        }
        // `c = 1 OR c = 2` is a list as well.
        Kind::Or(parts) => {
            let mut list = Vec::with_capacity(parts.len());
            for part in parts {
                match usable(part, id, data_type, collation, own)? {
                    Use::Equal(value) => list.push(value.clone()),
                    Use::List(values) => list.extend(values),
                    _ => return None,
                }
            }
            Some(Use::List(list))
        }
        Kind::IsNull(expr) if expr.as_column() == Some(id) => Some(Use::Null),
        Kind::Like {
            expr,
            pattern,
            escape: None,
        } if expr.as_column() == Some(id) && expr.ty.collation == collation => {
            like_range(pattern, collation, data_type)
        }
        _ => None,
    }
}

/// The range of texts that start with a pattern's literal prefix.
fn like_range<'s>(
    pattern: &Scalar,
    collation: CollationId,
    data_type: DataType,
) -> Option<Use<'s>> {
    let Some(Value::Str(text)) = fold(pattern) else {
        return None;
    };
    // Linguistic collations other than the default may contract characters across the prefix's end.
    if collation != CollationId::DEFAULT && !collation.is_binary() || !data_type.is_character() {
        return None;
    }
    let pattern = LikePattern::new(&text, None, collation, false).ok()?;
    let prefix = pattern.literal_prefix();
    // The order leaves out control characters, and combines others beyond ASCII.
    if prefix.is_empty() || !prefix.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return None;
    }
    let last = if collation.is_binary() {
        char::MAX
    } else {
        '\u{FFFF}'
    };
    let constant = |s: String| Scalar::constant(Value::str(s), DataType::NVARCHAR_MAX);
    Some(Use::Prefix(
        constant(prefix.clone()),
        constant(format!("{prefix}{last}")),
    ))
}

/// An integer or money column of the index against a value fixed for the scan.
fn leaf_use<'s>(
    condition: &'s Scalar,
    scan: &TableScan,
    access: &IndexAccess,
) -> Option<(usize, CompareOp, &'s Scalar, bool)> {
    let Kind::Compare { op, left, right } = &condition.kind else {
        return None;
    };
    let (op, column, value) = match (left.as_column(), right.as_column()) {
        (Some(id), _) if scan.columns.contains(&id) => (*op, id, right),
        (_, Some(id)) if scan.columns.contains(&id) => (mirrored(*op), id, left),
        _ => return None,
    };
    if value.column_set().iter().any(|c| scan.columns.contains(c))
        || value.is_volatile()
        || value.any(&|n| {
            matches!(
                n.kind,
                Kind::Subquery(_)
                    | Kind::System { .. }
                    | Kind::UserFunction { .. }
                    | Kind::XmlMethod { .. }
            )
        })
    {
        return None;
    }
    let ordinal = scan.columns.iter().position(|c| *c == column)?;
    let data_type = scan.access.def().columns.get(ordinal)?.data_type;
    let position = access.position(ordinal)?;
    let money = |t| matches!(t, DataType::Money | DataType::SmallMoney);
    let t = value.ty.data_type;
    if data_type.is_integer() && t.is_integer() {
        return Some((position, op, value, false));
    }
    (money(data_type) && money(t)).then_some((position, op, value, true))
}

/// Does the path give the wanted order? `Some(true)`: read backwards.
fn ordered(
    scan: &TableScan,
    access: &IndexAccess,
    path: &Path,
    want: &[(ColId, bool)],
) -> Option<bool> {
    if want.is_empty() {
        return Some(false);
    }
    if path.parts.iter().any(|p| matches!(p, Part::List(_))) {
        return None;
    }
    let whole = order_key(scan, access);
    let mut keys = whole.iter().skip(path.parts.len());
    let mut backward: Option<bool> = None;
    let fixed: Vec<ColId> = access
        .key
        .iter()
        .take(path.parts.len())
        .filter_map(|k| scan.columns.get(k.ordinal).copied())
        .collect();
    for (id, descending) in want {
        if fixed.contains(id) {
            continue;
        }
        let key = match keys.next() {
            Some(key) => key,
            // All key columns of a unique index passed: nothing left to order.
            None if access.def.unique || unique_by_locator(scan, access) => {
                return Some(backward.unwrap_or(false));
            }
            None => return None,
        };
        if scan.columns.get(key.ordinal) != Some(id) {
            return None;
        }
        let reverse = key.descending != *descending;
        if *backward.get_or_insert(reverse) != reverse {
            return None;
        }
    }
    Some(backward.unwrap_or(false))
}

/// Does the clustered key at the end make the entries unique? The row number of a heap is no column.
fn unique_by_locator(scan: &TableScan, access: &IndexAccess) -> bool {
    let primary = scan.access.primary();
    !access.is_primary() && primary.def.unique && !primary.key.is_empty()
}

/// Columns by which an index is ordered: its key, and the clustered key that ends it when it is not unique.
fn order_key<'a>(
    scan: &'a TableScan,
    access: &'a IndexAccess,
) -> Vec<&'a crate::access::KeyColumn> {
    let mut keys: Vec<_> = access.key.iter().collect();
    if !access.is_primary() && !access.def.unique {
        let own = |k: &&crate::access::KeyColumn| access.key.iter().all(|o| o.ordinal != k.ordinal);
        keys.extend(scan.access.primary().key.iter().filter(own));
    }
    keys
}

/// Order of the rows that come out, as far as its columns are among them.
fn node_order(
    scan: &TableScan,
    access: &IndexAccess,
    path: &Path,
    schema: &[ColId],
) -> Vec<(ColId, bool)> {
    if path.parts.iter().any(|p| matches!(p, Part::List(_))) {
        return Vec::new();
    }
    let mut order = Vec::new();
    // Columns that the seek fixes order nothing; callers leave them out as well (`constants`).
    for key in order_key(scan, access).into_iter().skip(path.parts.len()) {
        match scan.columns.get(key.ordinal).copied() {
            Some(id) if schema.contains(&id) => order.push((id, key.descending != path.backward)),
            _ => break,
        }
    }
    order
}

fn no_plan() -> SqlError {
    SqlError::new(
        8622,
        16,
        1,
        "Query processor could not produce a query plan because of the hints defined in this query. Resubmit the query without \
         specifying any hints and without using SET FORCEPLAN.",
    )
}
