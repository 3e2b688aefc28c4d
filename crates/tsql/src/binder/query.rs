//! SELECT, set operations, common table expressions: from syntax to operators.
//!
//! Theory: a SELECT becomes, from the bottom: FROM, filter, (group keys, aggregation, HAVING), window functions, computed
//! columns, DISTINCT, sort, TOP. Each step reads only column numbers made below it.

use super::group::GroupState;
use super::identity::IdentityCall;
use super::next_value::{CLAUSE, NESTED, SET_OPERATOR};
use super::scope::{Clause, CteEntry, NameScope};
use super::stored::refuse_lock_hint;
use super::tree::*;
use super::{Binder, Numbering, too_complex, types};
use crate::error::{Result, SqlError};
use crate::host::VariableType;
use crate::messages;
use daruma_catalog::names_equal;
use daruma_syntax::ast::{
    self, AssignOp, Expr, Literal, OrderItem, Query, QueryBody, QueryHint, Select, SelectItem,
    SetOp,
};
use daruma_value::DataType;
use std::sync::Arc;

const SELECT_COLUMNS_MAX: usize = 4096;
/// Queries within queries, those of views included.
const QUERY_DEPTH_MAX: u32 = 250;

/// A query with its result columns in order.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    pub rel: Rel,
    pub columns: Vec<OutColumn>,
    /// `SELECT @v = ..`: evaluated for each row, in order.
    pub assignments: Vec<Assignment>,
}

/// A column that a query gives its reader.
#[derive(Clone, Debug)]
pub struct OutColumn {
    pub name: String,
    pub id: ColId,
}

/// `SELECT @v = value`: evaluated row by row, in order.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub variable: String,
    pub value: Scalar,
}

/// Clauses that follow a query body.
struct Tail<'q> {
    order_by: &'q [OrderItem],
    offset: Option<&'q Expr>,
    fetch: Option<&'q Expr>,
}

/// A select list entry before it becomes a column.
struct Item {
    name: String,
    scalar: Scalar,
    /// Of a call of IDENTITY.
    numbers: Option<Numbering>,
}

/// A sort key before it becomes a column: an output column or an expression.
enum OrderKey {
    Item(usize),
    Expr(Scalar),
}

impl Binder<'_> {
    /// A statement's query.
    pub fn statement(&mut self, query: &Query) -> Result<BoundQuery> {
        for hint in &query.options {
            self.hint(hint)?;
        }
        self.query(query, false)
    }

    /// Errors 304, 310 and 1042 for a number out of its range. Locks that only OPTION asks for would not be taken: they are refused.
    pub(super) fn hint(&mut self, hint: &QueryHint) -> Result<()> {
        match hint {
            QueryHint::Number { name, value } => self.number_hint(name, value),
            QueryHint::TableHint { hints, .. } => hints.iter().try_for_each(refuse_lock_hint),
            _ => Ok(()),
        }
    }

    fn number_hint(&mut self, name: &str, value: &Expr) -> Result<()> {
        let (Expr::Literal(Literal::Integer(digits)) | Expr::Literal(Literal::Decimal(digits))) =
            value
        else {
            return Ok(());
        };
        let small = digits.parse::<u32>().ok().filter(|n| *n <= 32_767);
        match (name, small) {
            ("MAXRECURSION", Some(n)) => self.max_recursion = n,
            ("MAXRECURSION", None) => return Err(messages::error(310, &[digits, &32_767])),
            ("MAXDOP", _) => messages::check_processors(digits.parse().unwrap_or(i64::MAX))?,
            ("MAX_GRANT_PERCENT" | "MIN_GRANT_PERCENT", _) => {
                let percent = digits.parse::<f64>();
                if !percent.is_ok_and(|p| p <= 100.0) {
                    return Err(messages::error(1042, &[&name.to_ascii_lowercase()]));
                }
            }
            ("FAST", None) if digits.parse::<i32>().is_err() => {
                return Err(messages::error(102, &[&"FAST"]));
            }
            _ => {}
        }
        Ok(())
    }

    /// A subquery used as a value.
    pub(super) fn subquery(&mut self, query: &Query) -> Result<BoundQuery> {
        let windows = self.windows.len();
        let lateral = std::mem::replace(&mut self.lateral, false);
        let bound = self.query(query, true);
        self.lateral = lateral;
        self.windows.truncate(windows);
        bound
    }

    /// EXISTS: what is selected does not matter, nor its order.
    pub(super) fn exists_subquery(&mut self, query: &Query) -> Result<Rel> {
        self.only_existence = true;
        let bound = self.subquery(query);
        self.only_existence = false;
        Ok(bound?.rel.for_existence())
    }

    pub(super) fn query(&mut self, query: &Query, nested: bool) -> Result<BoundQuery> {
        let held = self.hold_object();
        let bound = super::with_stack(|| match nested {
            true => self.without_next_value(NESTED, |b| b.query_here(query, true)),
            false => self.query_here(query, false),
        });
        if held.is_some() {
            self.target = held;
        }
        bound
    }

    fn query_here(&mut self, query: &Query, nested: bool) -> Result<BoundQuery> {
        self.query_depth += 1;
        if self.query_depth > QUERY_DEPTH_MAX {
            return Err(too_complex());
        }
        let ctes = self.ctes.len();
        self.add_ctes(&query.with)?;
        let tail = Tail {
            order_by: &query.order_by,
            offset: query.offset.as_ref(),
            fetch: query.fetch.as_ref(),
        };
        if nested
            && !query.order_by.is_empty()
            && query.offset.is_none()
            && query.for_clause.is_none()
            && !has_top(&query.body)
        {
            return Err(SqlError::new(
                1033,
                15,
                1,
                "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common table \
                 expressions, unless TOP, OFFSET or FOR XML is also specified.",
            ));
        }
        let bound = match &query.body {
            QueryBody::Select(select) => self.select(select, &tail),
            QueryBody::Set { op, branches } => self
                .set_query(*op, branches)
                .and_then(|b| self.order_set(b, &tail)),
        };
        self.ctes.truncate(ctes);
        self.query_depth -= 1;
        if nested && bound.as_ref().is_ok_and(|b| !b.assignments.is_empty()) {
            return Err(crate::messages::error(102, &[&"="]));
        }
        match &query.for_clause {
            None | Some(ast::ForClause::Browse) => bound,
            Some(ast::ForClause::Xml {
                mode,
                element,
                directives,
            }) => self.for_xml(bound?, *mode, element.as_deref(), directives),
            Some(ast::ForClause::Json { mode, directives }) => {
                let from = match &query.body {
                    QueryBody::Select(select) => Some(select.from.as_slice()),
                    QueryBody::Set { .. } => None,
                };
                self.for_json(bound?, *mode, from, directives)
            }
        }
    }

    /// WITH of a statement or a query: its common table expressions, and its namespaces. Error 239 when a name stands twice.
    pub(super) fn add_ctes(&mut self, with: &ast::With) -> Result<()> {
        if !with.xml_namespaces.is_empty() {
            self.xml_namespaces.clone_from(&with.xml_namespaces);
        }
        for (at, cte) in with.ctes.iter().enumerate() {
            let mut before = with.ctes.iter().take(at);
            if before.any(|c| names_equal(&c.name.text, &cte.name.text)) {
                return Err(crate::messages::error(239, &[&cte.name.text]));
            }
            let visible = self.ctes.len();
            self.ctes.push(CteEntry {
                cte: Arc::new(cte.clone()),
                visible,
                work: None,
            });
        }
        Ok(())
    }

    fn body(&mut self, body: &QueryBody) -> Result<BoundQuery> {
        match body {
            QueryBody::Select(select) => self.select(
                select,
                &Tail {
                    order_by: &[],
                    offset: None,
                    fetch: None,
                },
            ),
            QueryBody::Set { op, branches } => self.set_query(*op, branches),
        }
    }

    fn set_query(&mut self, op: SetOp, branches: &[QueryBody]) -> Result<BoundQuery> {
        // The branches are compared with each other.
        self.only_existence = false;
        let bound = branches
            .iter()
            .map(|branch| self.without_next_value(SET_OPERATOR, |b| b.body(branch)))
            .collect::<Result<Vec<_>>>()?;
        if bound.iter().any(|b| !b.assignments.is_empty()) {
            return Err(SqlError::new(
                194,
                15,
                1,
                "A SELECT INTO statement cannot contain a SELECT statement that assigns values to a variable.",
            ));
        }
        self.combine(op, bound)
    }

    /// Joins branches under a set operator: error 205.
    pub(super) fn combine(&mut self, op: SetOp, mut bound: Vec<BoundQuery>) -> Result<BoundQuery> {
        let width = bound.first().map_or(0, |b| b.columns.len());
        if bound.iter().any(|b| b.columns.len() != width) {
            return Err(SqlError::new(
                205,
                16,
                1,
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions \
                 in their target lists.",
            ));
        }
        let mut columns = Vec::with_capacity(width);
        let mut branch_ids: Vec<Vec<ColId>> = vec![Vec::new(); bound.len()];
        let mut conversions: Vec<Vec<(ColId, Scalar)>> = vec![Vec::new(); bound.len()];
        for position in 0..width {
            let mut scalars: Vec<Scalar> = bound
                .iter()
                .map(|b| self.branch_column(b.columns[position].id))
                .collect();
            let ty = types::unify(&mut scalars)?;
            let operator = operator_name(op);
            if ty.coercion == Coercion::None
                && let Some(error) = types::branch_conflict(&scalars, operator, position + 1)
            {
                return Err(error);
            }
            if op != SetOp::UnionAll && !daruma_value::types::is_comparable(ty.data_type) {
                return Err(SqlError::new(
                    421,
                    16,
                    1,
                    format!(
                        "The {} data type cannot be selected as DISTINCT because it is not comparable.",
                        ty.data_type.name()
                    ),
                ));
            }
            for (branch, scalar) in scalars.into_iter().enumerate() {
                let id = match scalar.as_column() {
                    Some(id) => id,
                    None => {
                        let id = self.new_computed("", &scalar)?;
                        conversions[branch].push((id, scalar));
                        id
                    }
                };
                branch_ids[branch].push(id);
            }
            let name = bound[0].columns[position].name.clone();
            let mut info = self.columns[bound[0].columns[position].id as usize].clone();
            info.ty = ty;
            info.identity = None;
            info.rowguid = false;
            info.computed = true;
            info.null_literal = bound
                .iter()
                .all(|b| self.columns[b.columns[position].id as usize].null_literal);
            let id = self.new_column(info)?;
            columns.push(OutColumn { name, id });
        }
        let branches = bound
            .drain(..)
            .zip(conversions)
            .zip(branch_ids)
            .map(|((b, items), ids)| (b.rel.compute(items), ids))
            .collect();
        let rel = Rel::Set(Box::new(SetRel {
            op,
            branches,
            columns: columns.iter().map(|c| c.id).collect(),
        }));
        Ok(BoundQuery {
            rel,
            columns,
            assignments: Vec::new(),
        })
    }

    fn branch_column(&self, id: ColId) -> Scalar {
        if self.columns[id as usize].null_literal {
            Scalar::null(DataType::Int)
        } else {
            self.column(id)
        }
    }

    /// ORDER BY and OFFSET over a set operation: error 104.
    fn order_set(&mut self, bound: BoundQuery, tail: &Tail<'_>) -> Result<BoundQuery> {
        let mut keys = Vec::new();
        for (position, item) in tail.order_by.iter().enumerate() {
            let column = match &item.expr {
                Expr::Literal(Literal::Integer(digits)) => {
                    Some(output_position(digits, position, bound.columns.len())?)
                }
                Expr::Column(c) if c.table.is_none() => bound
                    .columns
                    .iter()
                    .position(|o| names_equal(&o.name, &c.name.text)),
                Expr::Column(c) => self.qualified_output(&bound, c),
                _ => None,
            };
            let Some(column) = column else {
                return Err(SqlError::new(
                    104,
                    16,
                    1,
                    "ORDER BY items must appear in the select list if the statement contains a UNION, INTERSECT or EXCEPT \
                     operator.",
                ));
            };
            keys.push(SortKey {
                column: bound.columns[column].id,
                descending: item.descending,
            });
        }
        let rel = self.sort_and_limit(bound.rel, keys, None, tail)?;
        Ok(BoundQuery { rel, ..bound })
    }

    /// The output column that is this column of a table of the first query.
    fn qualified_output(&self, bound: &BoundQuery, column: &ast::ColumnRef) -> Option<usize> {
        let qualifier = &column.table.as_ref()?.name.text;
        let named = |o: &OutColumn| {
            let info = self.columns.get(o.id as usize)?;
            let (table, name) = info.qualified.rsplit_once('.')?;
            let table = table.rsplit_once('.').map_or(table, |(_, last)| last);
            Some(names_equal(table, qualifier) && names_equal(name, &column.name.text))
        };
        bound.columns.iter().position(|o| named(o) == Some(true))
    }

    fn sort_and_limit(
        &mut self,
        mut rel: Rel,
        keys: Vec<SortKey>,
        top: Option<&ast::Top>,
        tail: &Tail<'_>,
    ) -> Result<Rel> {
        let order: Vec<ColId> = keys.iter().map(|k| k.column).collect();
        if !keys.is_empty() {
            rel = Rel::Sort {
                input: Box::new(rel),
                keys,
            };
        }
        if let Some(top) = top {
            if top.with_ties && order.is_empty() {
                return Err(SqlError::new(
                    1062,
                    15,
                    1,
                    "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.",
                ));
            }
            if tail.offset.is_some() {
                return Err(SqlError::new(
                    10741,
                    15,
                    2,
                    "A TOP can not be used in the same query or sub-query as a OFFSET.",
                ));
            }
            return self.top(rel, top, order);
        }
        if tail.offset.is_some() || tail.fetch.is_some() {
            let count = tail
                .fetch
                .map(|e| self.row_count(e, DataType::BigInt))
                .transpose()?;
            let offset = tail
                .offset
                .map(|e| self.row_count(e, DataType::BigInt))
                .transpose()?;
            rel = Rel::Top(Box::new(Top {
                input: rel,
                count,
                percent: false,
                ties: None,
                offset,
            }));
        }
        Ok(rel)
    }

    pub(super) fn top(&mut self, rel: Rel, top: &ast::Top, order: Vec<ColId>) -> Result<Rel> {
        let t = if top.percent {
            DataType::Float
        } else {
            DataType::BigInt
        };
        let count = self.row_count(&top.count, t)?;
        let ties = top.with_ties.then_some(order);
        Ok(Rel::Top(Box::new(Top {
            input: rel,
            count: Some(count),
            percent: top.percent,
            ties,
            offset: None,
        })))
    }

    /// Row count of TOP, OFFSET and FETCH.
    fn row_count(&mut self, expr: &Expr, data_type: DataType) -> Result<Scalar> {
        let bound = self.without_next_value(CLAUSE, |b| b.expr(expr))?;
        let fits = match (data_type, bound.ty.data_type) {
            // A whole number that is too long for an int is written as a decimal.
            (DataType::BigInt, DataType::Decimal { scale: 0, .. }) => {
                matches!(bound.kind, Kind::Const(_))
            }
            (DataType::BigInt, own) => own.is_integer(),
            (_, own) => own.is_numeric(),
        };
        if !fits && !bound.is_null_literal() {
            return Err(crate::messages::error(1060, &[]));
        }
        types::convert(bound, data_type)
    }

    fn select(&mut self, select: &Select, tail: &Tail<'_>) -> Result<BoundQuery> {
        self.scopes.push(NameScope::default());
        self.windows.push(select.windows.clone());
        let bound = self.select_inside(select, tail);
        self.windows.pop();
        self.scopes.pop();
        bound
    }

    fn select_inside(&mut self, select: &Select, tail: &Tail<'_>) -> Result<BoundQuery> {
        let only_existence = std::mem::take(&mut self.only_existence);
        let grouped = select.group_by.is_some() || select.having.is_some();
        self.scope().clause = Clause::From;
        let mut rel = self.without_next_value(CLAUSE, |b| b.from(&select.from))?;
        self.scope().clause = Clause::Where;
        if let Some(filter) = &select.filter {
            let condition = self.without_next_value(CLAUSE, |b| b.condition(filter))?;
            check_where(&condition)?;
            rel = rel.filter(Some(condition));
        }
        self.scope().clause = Clause::Lists;
        // EXISTS (SELECT * .. GROUP BY ..): the star stands for no columns that would have to be grouped.
        let list: &[SelectItem] = match only_existence && grouped && is_star(&select.items) {
            true => &[],
            false => &select.items,
        };
        let into = select.into.is_some();
        let (mut items, mut assignments) = match select.distinct {
            true => self.without_next_value(SET_OPERATOR, |b| b.select_list(list, into))?,
            false => {
                let is_limited = select.top.is_some() || tail.offset.is_some();
                let is_ordered = !tail.order_by.is_empty();
                self.of_rows(is_limited, is_ordered, |b| b.select_list(list, into))?
            }
        };
        let having = select.having.as_ref();
        let having = having.map(|h| self.without_next_value(CLAUSE, |b| b.condition(h)));
        let mut having = having.transpose()?;
        having.as_ref().map_or(Ok(()), check_no_window)?;
        let mut order = self.without_next_value(CLAUSE, |b| b.order_keys(tail.order_by, &items))?;
        let group_by = select.group_by.as_ref();
        let of_subqueries = std::mem::take(&mut self.scope().aggregates);
        let aggregated = !of_subqueries.is_empty()
            || group_by.is_some()
            || having.is_some()
            || items.iter().any(|i| has_aggregate(&i.scalar))
            || assignments.iter().any(|a| has_aggregate(&a.value))
            || order
                .iter()
                .any(|(k, _)| matches!(k, OrderKey::Expr(e) if has_aggregate(e)));
        if aggregated {
            let own = rel.produced();
            let mut state =
                self.without_next_value(CLAUSE, |b| GroupState::new(b, own, group_by))?;
            state.add_aggregates(of_subqueries);
            for item in &mut items {
                state.rewrite(self, &mut item.scalar, "select list", 8120)?;
            }
            for assignment in &mut assignments {
                state.rewrite(self, &mut assignment.value, "select list", 8120)?;
            }
            if let Some(having) = &mut having {
                state.rewrite(self, having, "HAVING clause", 8121)?;
            }
            for (key, _) in &mut order {
                if let OrderKey::Expr(expr) = key {
                    state.rewrite(self, expr, "ORDER BY clause", 8127)?;
                }
            }
            rel = state.finish(rel).filter(having);
        }
        let mut calls = Vec::new();
        for item in &mut items {
            self.take_windows(&mut item.scalar, &mut calls)?;
        }
        for (key, _) in &mut order {
            if let OrderKey::Expr(expr) = key {
                self.take_windows(expr, &mut calls)?;
            }
        }
        for assignment in &mut assignments {
            self.take_windows(&mut assignment.value, &mut calls)?;
        }
        if !calls.is_empty() {
            rel = Rel::Window {
                input: Box::new(rel),
                calls,
            };
        }
        let items_of = items.iter_mut().map(|item| &mut item.scalar);
        let values_of = assignments.iter_mut().map(|a| &mut a.value);
        let mut lists: Vec<&mut Scalar> = items_of.chain(values_of).collect();
        rel = self.share_next_values(rel, &mut lists)?;
        self.finish_select(select, tail, rel, items, order, assignments)
    }

    fn finish_select(
        &mut self,
        select: &Select,
        tail: &Tail<'_>,
        rel: Rel,
        items: Vec<Item>,
        order: Vec<(OrderKey, bool)>,
        assignments: Vec<Assignment>,
    ) -> Result<BoundQuery> {
        let mut computed: Vec<(ColId, Scalar)> = Vec::new();
        let mut columns = Vec::with_capacity(items.len());
        // A column of a query around this one is a value here: it has its own name, and none where there is no row.
        let has_outer = self.scopes.len() > 1 || self.lateral || self.parameters.is_some();
        let own = has_outer.then(|| rel.produced());
        let is_own = |id: &ColId| own.as_ref().is_none_or(|own| own.contains(id));
        for item in &items {
            let id = match item.scalar.as_column().filter(is_own) {
                Some(id) => id,
                None => {
                    let id = self.new_computed(&item.name, &item.scalar)?;
                    self.columns[id as usize].identity = item.numbers;
                    computed.push((id, item.scalar.clone()));
                    id
                }
            };
            columns.push(OutColumn {
                name: item.name.clone(),
                id,
            });
        }
        let mut keys: Vec<SortKey> = Vec::new();
        for (key, descending) in order {
            let column = match key {
                OrderKey::Item(position) => columns[position].id,
                OrderKey::Expr(expr) => match items.iter().position(|i| i.scalar.is_same(&expr)) {
                    Some(position) => columns[position].id,
                    None if select.distinct => {
                        return Err(SqlError::new(
                            145,
                            15,
                            1,
                            "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.",
                        ));
                    }
                    None if matches!(expr.kind, Kind::Const(_)) => continue,
                    None => match expr.as_column().filter(is_own) {
                        Some(id) => id,
                        None => {
                            let id = self.new_computed("", &expr)?;
                            computed.push((id, expr));
                            id
                        }
                    },
                },
            };
            if !keys.iter().any(|k| k.column == column) {
                self.check_sortable(column)?;
                keys.push(SortKey { column, descending });
            }
        }
        let mut rel = rel.compute(computed);
        if select.distinct {
            let mut ids: Vec<ColId> = Vec::new();
            for column in &columns {
                let data_type = self.columns[column.id as usize].ty.data_type;
                if !daruma_value::types::is_comparable(data_type) {
                    return Err(SqlError::new(
                        421,
                        16,
                        1,
                        format!(
                            "The {} data type cannot be selected as DISTINCT because it is not comparable.",
                            data_type.name()
                        ),
                    ));
                }
                if !ids.contains(&column.id) {
                    ids.push(column.id);
                }
            }
            rel = Rel::Distinct {
                input: Box::new(rel),
                columns: ids,
            };
        }
        let rel = self.sort_and_limit(rel, keys, select.top.as_ref(), tail)?;
        Ok(BoundQuery {
            rel,
            columns,
            assignments,
        })
    }

    fn check_sortable(&self, column: ColId) -> Result<()> {
        let data_type = self.columns[column as usize].ty.data_type;
        if daruma_value::types::is_comparable(data_type) {
            return Ok(());
        }
        Err(SqlError::new(
            306,
            16,
            2,
            "The text, ntext, and image data types cannot be compared or sorted, except when using IS NULL or LIKE operator.",
        ))
    }

    fn select_list(
        &mut self,
        list: &[SelectItem],
        is_into: bool,
    ) -> Result<(Vec<Item>, Vec<Assignment>)> {
        let (mut items, mut assignments) = (Vec::new(), Vec::new());
        for item in list {
            match item {
                SelectItem::Wildcard { .. } if self.schema_bound => {
                    return Err(crate::messages::error_state(1054, 6, &[&"*"]));
                }
                SelectItem::Wildcard { qualifier, .. } => {
                    for (name, id) in self.expand_wildcard(qualifier.as_ref())? {
                        self.check_no_node(id)?;
                        items.push(Item {
                            name,
                            scalar: self.column(id),
                            numbers: None,
                        });
                    }
                }
                SelectItem::Expr { expr, alias } => {
                    let numbers = IdentityCall::of(expr).filter(|_| is_into).transpose()?;
                    let scalar = match &numbers {
                        Some(call) => call.seed(alias.as_ref().map_or("", |a| &a.text))?,
                        None => self.expr(expr)?,
                    };
                    let name = match (alias, expr) {
                        (Some(alias), _) => alias.text.clone(),
                        (None, Expr::Column(column)) => match scalar.as_column() {
                            Some(id) if !self.columns[id as usize].name.is_empty() => {
                                self.columns[id as usize].name.clone()
                            }
                            _ => column.name.text.clone(),
                        },
                        (None, Expr::Pseudo(_)) => scalar
                            .as_column()
                            .map_or(String::new(), |id| self.columns[id as usize].name.clone()),
                        _ => String::new(),
                    };
                    items.push(Item {
                        name,
                        scalar,
                        numbers: numbers.map(|n| n.numbering()),
                    });
                }
                SelectItem::Assign {
                    variable,
                    op,
                    value,
                } => {
                    let value = self.expr(value)?;
                    assignments.push(self.assignment(variable, *op, value)?);
                }
            }
        }
        if items.len() + assignments.len() > SELECT_COLUMNS_MAX {
            return Err(messages::error(1056, &[&SELECT_COLUMNS_MAX]));
        }
        if !items.is_empty() && !assignments.is_empty() {
            return Err(SqlError::new(
                141,
                15,
                1,
                "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
            ));
        }
        Ok((items, assignments))
    }

    /// `@v op= value`, converted to the variable's type: error 137.
    pub(super) fn assignment(
        &mut self,
        variable: &str,
        op: AssignOp,
        value: Scalar,
    ) -> Result<Assignment> {
        let Some(VariableType::Scalar(data_type)) = self.host.variable_type(variable) else {
            return Err(SqlError::new(
                137,
                15,
                1,
                format!("Must declare the scalar variable \"{variable}\"."),
            ));
        };
        let value = match op {
            AssignOp::Set => value,
            AssignOp::Compound(op) => {
                let own = Scalar::new(
                    Kind::Variable(variable.to_lowercase().into()),
                    Type::new(data_type, true),
                );
                self.binary(op, own, value)?
            }
        };
        Ok(Assignment {
            variable: variable.to_lowercase(),
            value: types::convert(value, data_type)?,
        })
    }

    fn order_keys(
        &mut self,
        order_by: &[OrderItem],
        items: &[Item],
    ) -> Result<Vec<(OrderKey, bool)>> {
        let mut keys = Vec::with_capacity(order_by.len());
        for (position, item) in order_by.iter().enumerate() {
            let key = match &item.expr {
                Expr::Literal(Literal::Integer(digits)) => {
                    OrderKey::Item(output_position(digits, position, items.len())?)
                }
                Expr::Column(column) if column.table.is_none() => {
                    match self.alias(&column.name.text, items)? {
                        Some(position) => OrderKey::Item(position),
                        None => OrderKey::Expr(self.expr(&item.expr)?),
                    }
                }
                Expr::Collate { expr, collation } => match &**expr {
                    Expr::Column(column) if column.table.is_none() => {
                        match self.alias(&column.name.text, items)? {
                            Some(position) => OrderKey::Expr(
                                self.collate(items[position].scalar.clone(), &collation.text)?,
                            ),
                            None => OrderKey::Expr(self.expr(&item.expr)?),
                        }
                    }
                    _ => OrderKey::Expr(self.expr(&item.expr)?),
                },
                expr => OrderKey::Expr(self.expr(expr)?),
            };
            keys.push((key, item.descending));
        }
        Ok(keys)
    }

    /// Select list entry with this name: error 209 when different ones share it.
    fn alias(&self, name: &str, items: &[Item]) -> Result<Option<usize>> {
        let mut found: Option<usize> = None;
        for (position, item) in items
            .iter()
            .enumerate()
            .filter(|(_, i)| names_equal(&i.name, name))
        {
            match found {
                Some(first) if items[first].scalar != item.scalar => {
                    return Err(SqlError::new(
                        209,
                        16,
                        1,
                        format!("Ambiguous column name '{name}'."),
                    ));
                }
                Some(_) => {}
                None => found = Some(position),
            }
        }
        Ok(found)
    }

    fn take_windows(
        &mut self,
        scalar: &mut Scalar,
        calls: &mut Vec<(ColId, WindowCall)>,
    ) -> Result<()> {
        if !matches!(scalar.kind, Kind::Window(_)) {
            let mut failed = Ok(());
            scalar.for_each_child_mut(&mut |child| {
                if failed.is_ok() {
                    failed = self.take_windows(child, calls);
                }
            });
            return failed;
        }
        let Kind::Window(call) = &scalar.kind else {
            return Ok(());
        };
        let inner = |s: &Scalar| s.any(&|n| matches!(n.kind, Kind::Window(_)));
        if call
            .args
            .iter()
            .chain(&call.partition)
            .chain(call.order.iter().map(|(s, _)| s))
            .any(inner)
        {
            return Err(SqlError::new(
                4109,
                15,
                1,
                "Windowed functions cannot be used in the context of another windowed function or aggregate.",
            ));
        }
        if let Some((id, _)) = calls.iter().find(|(_, known)| *known == **call) {
            scalar.kind = Kind::Column(*id);
            return Ok(());
        }
        // The column is made while the call still stands there: what it is made of decides whether it is a bare NULL.
        let id = self.new_computed("", scalar)?;
        if let Kind::Window(call) = std::mem::replace(&mut scalar.kind, Kind::Column(id)) {
            calls.push((id, *call));
        }
        Ok(())
    }
}

fn operator_name(op: SetOp) -> &'static str {
    match op {
        SetOp::Union => "UNION",
        SetOp::UnionAll => "UNION ALL",
        SetOp::Intersect => "INTERSECT",
        SetOp::Except => "EXCEPT",
    }
}

fn is_star(items: &[SelectItem]) -> bool {
    matches!(
        items,
        [SelectItem::Wildcard {
            qualifier: None,
            ..
        }]
    )
}

fn has_top(body: &QueryBody) -> bool {
    matches!(body, QueryBody::Select(s) if s.top.is_some())
}

fn has_aggregate(scalar: &Scalar) -> bool {
    scalar.any(&|s| matches!(s.kind, Kind::Aggregate(_) | Kind::Grouping(_)))
}

pub(super) fn check_where(condition: &Scalar) -> Result<()> {
    if condition.any(&|s| matches!(s.kind, Kind::Aggregate(_))) {
        return Err(SqlError::new(
            147,
            15,
            1,
            "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a HAVING clause or a \
             select list, and the column being aggregated is an outer reference.",
        ));
    }
    check_no_window(condition)
}

fn check_no_window(condition: &Scalar) -> Result<()> {
    match condition.any(&|s| matches!(s.kind, Kind::Window(_))) {
        true => Err(messages::error(4108, &[])),
        false => Ok(()),
    }
}

/// ORDER BY with a number: error 108.
fn output_position(digits: &str, _position: usize, columns: usize) -> Result<usize> {
    match digits.parse::<usize>() {
        Ok(n) if (1..=columns).contains(&n) => Ok(n - 1),
        _ => Err(SqlError::new(
            108,
            16,
            1,
            format!(
                "The ORDER BY position number {digits} is out of range of the number of items in the select list."
            ),
        )),
    }
}
