//! Expressions over one row of a table, prepared from the text the catalog keeps: defaults, computed columns, checks,
//! index filters.

use super::assign::Assign;
use crate::error::{Result, SqlError};
use crate::executor::{
    ConditionEvaluator, ConditionPlan, ScalarEvaluator, ScalarPlan, Scope,
    prepare_stored_condition, prepare_stored_scalar,
};
use crate::host::{Host, TableKind, TableRef};
use daruma_base::DatabaseId;
use daruma_catalog::ColumnDef;
use daruma_syntax::SyntaxError;
use daruma_syntax::ast::{Condition, Expr};
use daruma_syntax::{ParseOptions, parse_condition, parse_expression};
use daruma_value::Value;
use std::cell::RefCell;
use std::rc::Rc;

/// A value computed from a row and converted to the type of its column.
pub struct RowScalar {
    plan: ScalarPlan,
    assign: Assign,
    /// Value of a literal.
    constant: Option<Value>,
}

impl RowScalar {
    /// DEFAULT of a column: reads no row.
    pub fn default(
        host: &dyn Host,
        table: &TableRef,
        definition: &str,
        column: &ColumnDef,
    ) -> Result<RowScalar> {
        RowScalar::prepare(host, table, None, definition, column)
    }

    /// Does it take values of a sequence?
    pub fn takes_next_value(&self) -> bool {
        self.plan.takes_next_value()
    }

    /// Does it call functions of users, which may read the table?
    pub fn calls_functions(&self) -> bool {
        self.plan.calls_functions()
    }

    /// Computed column.
    pub fn over_table(
        host: &dyn Host,
        table: &TableRef,
        definition: &str,
        column: &ColumnDef,
    ) -> Result<RowScalar> {
        RowScalar::prepare(
            host,
            table,
            Some(&Scope::of_table(table, &table.name)),
            definition,
            column,
        )
    }

    fn prepare(
        host: &dyn Host,
        table: &TableRef,
        scope: Option<&Scope>,
        definition: &str,
        column: &ColumnDef,
    ) -> Result<RowScalar> {
        let expr = parse_expression(definition, &ParseOptions::default())
            .map_err(|e| unreadable(definition, &e))?;
        host.enter_stored_text();
        let plan = prepare_stored_scalar(&expr, scope, database_of(table), host);
        host.leave_stored_text();
        let plan = plan?;
        let assign = Assign::new(plan.data_type(), column, host)?;
        let mut scalar = RowScalar {
            plan,
            assign,
            constant: None,
        };
        if is_literal(&expr) {
            // A literal that does not convert fails when it is used, not here.
            scalar.constant = scalar
                .plan
                .eval(&[], host)
                .and_then(|v| scalar.assign.convert(v))
                .ok();
        }
        Ok(scalar)
    }

    /// The value as its column stores it, over a row of the table and of the statement's source.
    pub fn eval<'a>(&'a self, evaluators: &Evaluators<'a>, row: &[Value]) -> Result<Value> {
        match &self.constant {
            Some(value) => Ok(value.clone()),
            None => self.assign.convert(evaluators.eval(&self.plan, row)?),
        }
    }
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) => true,
        Expr::Unary { expr, .. } => is_literal(expr),
        _ => false,
    }
}

/// Where the names in a table's definition are looked up; those of temporary tables mean what they mean around them.
fn database_of(table: &TableRef) -> Option<DatabaseId> {
    (table.kind == TableKind::User).then(|| table.database.id())
}

/// A CHECK or index filter.
pub struct RowCondition {
    pub parsed: Condition,
    plan: ConditionPlan,
}

impl RowCondition {
    /// Reads a stored condition (check, filter) over the columns of its table.
    pub fn over_table(host: &dyn Host, table: &TableRef, definition: &str) -> Result<RowCondition> {
        let condition = parse_condition(definition, &ParseOptions::default())
            .map_err(|e| unreadable(definition, &e))?;
        let scope = Scope::of_table(table, &table.name);
        host.enter_stored_text();
        let plan = prepare_stored_condition(&condition, &scope, database_of(table), host);
        host.leave_stored_text();
        let plan = plan?;
        Ok(RowCondition {
            parsed: condition,
            plan,
        })
    }

    /// Does it call functions of users, which may read the table?
    pub fn calls_functions(&self) -> bool {
        self.plan.calls_functions()
    }

    /// `None` is unknown: a check accepts it, a filter does not.
    pub fn test<'a>(&'a self, evaluators: &Evaluators<'a>, row: &[Value]) -> Result<Option<bool>> {
        evaluators.test(&self.plan, row)
    }
}

/// Expressions under way in one statement: what does not change between rows is read once, at the first.
pub struct Evaluators<'a> {
    host: &'a dyn Host,
    scalars: RefCell<Vec<(*const ScalarPlan, Rc<ScalarEvaluator<'a>>)>>,
    conditions: RefCell<Vec<(*const ConditionPlan, Rc<ConditionEvaluator<'a>>)>>,
}

impl<'a> Evaluators<'a> {
    /// No evaluator yet: each is made when its plan is first evaluated.
    pub fn new(host: &'a dyn Host) -> Evaluators<'a> {
        Evaluators {
            host,
            scalars: RefCell::default(),
            conditions: RefCell::default(),
        }
    }

    /// The value of a plan over a row.
    pub fn eval(&self, plan: &'a ScalarPlan, row: &[Value]) -> Result<Value> {
        let address = std::ptr::from_ref(plan);
        let known = self
            .scalars
            .borrow()
            .iter()
            .find(|(p, _)| *p == address)
            .map(|(_, e)| e.clone());
        let evaluator = match known {
            Some(evaluator) => evaluator,
            None => {
                let made = Rc::new(plan.evaluator(self.host)?);
                self.scalars.borrow_mut().push((address, made.clone()));
                made
            }
        };
        evaluator.eval(row)
    }

    /// True, false, or `None` for unknown.
    pub fn test(&self, plan: &'a ConditionPlan, row: &[Value]) -> Result<Option<bool>> {
        let address = std::ptr::from_ref(plan);
        let known = self
            .conditions
            .borrow()
            .iter()
            .find(|(p, _)| *p == address)
            .map(|(_, e)| e.clone());
        let evaluator = match known {
            Some(evaluator) => evaluator,
            None => {
                let made = Rc::new(plan.evaluator(self.host)?);
                self.conditions.borrow_mut().push((address, made.clone()));
                made
            }
        };
        evaluator.eval(row)
    }
}

/// Text in the catalog was parsed when it was stored; that it fails now is damage.
fn unreadable(definition: &str, errors: &[SyntaxError]) -> SqlError {
    let why = errors.first().map(ToString::to_string).unwrap_or_default();
    crate::access::damaged(&format!("definition {definition} cannot be read: {why}"))
}
