//! Bound expressions to compiled ones: columns become positions or parameters, constants are folded.

use super::Planner;
use super::remembered::{Memory, memory_of};
use crate::binder::tree::*;
use crate::binder::with_stack;
use crate::error::Result;
use crate::executor::expr::{Cond, Expr, SubqueryCall};
use crate::executor::function::ScalarFunction;
use crate::executor::plan::Subplan;
use daruma_syntax::ast::CompareOp;
use daruma_value::collation::LikePattern;
use daruma_value::compare::write_key;
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{DataType, Value, arithmetic, functions};
use std::collections::HashSet;

/// After this many levels an expression looks how much stack is left when it is evaluated.
const DEEP_LEVELS: u32 = 32;
/// IN lists longer than this are looked up by hash.
const IN_SET_MIN: usize = 16;

impl Planner<'_> {
    /// Compiles over rows of `schema`; other columns are parameters.
    pub fn expr(&mut self, scalar: &Scalar, schema: &[ColId]) -> Result<Expr> {
        self.depth += 1;
        let deep = self.depth.is_multiple_of(DEEP_LEVELS);
        let compiled = with_stack(|| self.expr_here(scalar, schema));
        self.depth -= 1;
        Ok(if deep {
            Expr::Deep(Box::new(compiled?))
        } else {
            compiled?
        })
    }

    fn expr_here(&mut self, scalar: &Scalar, schema: &[ColId]) -> Result<Expr> {
        if let Some(value) = fold(scalar) {
            return Ok(Expr::Const(value));
        }
        let ty = scalar.ty;
        Ok(match &scalar.kind {
            Kind::Const(value) => Expr::Const(value.clone()),
            Kind::Column(id) => match schema.iter().position(|c| c == id) {
                Some(position) => Expr::Slot(position),
                None => Expr::Param(self.parameter(*id)),
            },
            Kind::Variable(name) => Expr::Variable(self.variable(name)),
            Kind::Convert {
                input,
                style,
                is_try,
                ..
            } => Expr::Convert {
                from: input.ty.data_type,
                to: ty.data_type,
                style: style
                    .as_ref()
                    .map(|s| self.expr(s, schema).map(Box::new))
                    .transpose()?,
                is_try: *is_try,
                collation: ty.collation,
                input: Box::new(self.expr(input, schema)?),
            },
            Kind::Arith { op, left, right } => Expr::Arith {
                op: *op,
                left: Box::new(self.expr(left, schema)?),
                right: Box::new(self.expr(right, schema)?),
                result: ty.data_type,
            },
            Kind::Concat(left, right) => Expr::Concat {
                left: Box::new(self.expr(left, schema)?),
                right: Box::new(self.expr(right, schema)?),
                result: ty.data_type,
            },
            Kind::Negate(input) => Expr::Negate(Box::new(self.expr(input, schema)?), ty.data_type),
            Kind::BitNot(input) => Expr::BitNot(Box::new(self.expr(input, schema)?), ty.data_type),
            Kind::Collate(input) => self.expr(input, schema)?,
            Kind::Case { whens, otherwise } => {
                let mut compiled = Vec::with_capacity(whens.len());
                for (when, then) in whens {
                    compiled.push((self.cond(when, schema)?, self.expr(then, schema)?));
                }
                let otherwise = otherwise
                    .as_ref()
                    .map(|o| self.expr(o, schema).map(Box::new))
                    .transpose()?;
                Expr::Case {
                    whens: compiled,
                    otherwise,
                }
            }
            Kind::Coalesce(list) => Expr::Coalesce(self.exprs(list, schema)?),
            Kind::IsNullFn(a, b) => {
                Expr::Coalesce(vec![self.expr(a, schema)?, self.expr(b, schema)?])
            }
            Kind::Call { name, args } => self.call(name, args, ty, schema)?,
            Kind::System { name, args } => Expr::System {
                name: name.clone(),
                args: self.exprs(args, schema)?,
            },
            Kind::UserFunction {
                function,
                name,
                args,
            } => Expr::UserFunction {
                function: function.clone(),
                name: name.clone(),
                args: self.exprs(args, schema)?,
            },
            Kind::XmlMethod { call, args } => Expr::Call {
                function: ScalarFunction::Xml {
                    method: call.clone(),
                    collation: ty.collation,
                },
                args: self.exprs(args, schema)?,
            },
            Kind::NextValue(name) => Expr::NextValue(name.clone()),
            Kind::Let { value, body } => Expr::Let {
                value: Box::new(self.expr(value, schema)?),
                body: Box::new(self.expr(body, schema)?),
            },
            Kind::Local => Expr::Local,
            Kind::Subquery(sub) => match &sub.kind {
                SubqueryKind::Scalar(column) => {
                    Expr::Subquery(Box::new(self.subplan(&sub.rel, &[*column], schema)?))
                }
                _ => Expr::Cond(Box::new(self.cond(scalar, schema)?)),
            },
            Kind::Aggregate(_) | Kind::Window(_) | Kind::Grouping(_) => {
                return Err(crate::binder::too_complex());
            }
            _ => Expr::Cond(Box::new(self.cond(scalar, schema)?)),
        })
    }

    /// Compiles each over rows with the columns of `schema`.
    pub fn exprs(&mut self, list: &[Scalar], schema: &[ColId]) -> Result<Vec<Expr>> {
        list.iter().map(|s| self.expr(s, schema)).collect()
    }

    fn call(&mut self, name: &str, args: &[Scalar], ty: Type, schema: &[ColId]) -> Result<Expr> {
        let compiled = self.exprs(args, schema)?;
        let from = args.first().map_or(DataType::Int, |a| a.ty.data_type);
        let function = match (functions::lookup(name), ty.data_type) {
            (Some(def), result) => {
                let types = args.iter().map(|a| a.ty.data_type).collect();
                ScalarFunction::Value {
                    def,
                    types,
                    result,
                    collation: call_collation(args, ty),
                }
            }
            (None, DataType::DateTimeOffset { scale }) => {
                ScalarFunction::AtTimeZone { from, scale }
            }
            _ => return Err(crate::binder::too_complex()),
        };
        Ok(Expr::Call {
            function,
            args: compiled,
        })
    }

    /// Compiles a condition; comparisons of constants are decided here.
    pub fn cond(&mut self, scalar: &Scalar, schema: &[ColId]) -> Result<Cond> {
        Ok(match &scalar.kind {
            Kind::Compare { op, left, right } => {
                if let (Some(l), Some(r)) = (fold(left), fold(right)) {
                    let order = daruma_value::compare(&l, &r, left.ty.collation);
                    return Ok(Cond::Const(
                        order.map(|o| crate::executor::expr::holds(*op, o)),
                    ));
                }
                Cond::Compare {
                    op: *op,
                    left: self.expr(left, schema)?,
                    right: self.expr(right, schema)?,
                    collation: left.ty.collation,
                }
            }
            Kind::And(parts) => Cond::And(
                parts
                    .iter()
                    .map(|p| self.cond(p, schema))
                    .collect::<Result<_>>()?,
            ),
            Kind::Or(parts) => Cond::Or(
                parts
                    .iter()
                    .map(|p| self.cond(p, schema))
                    .collect::<Result<_>>()?,
            ),
            Kind::Not(inner) => Cond::Not(Box::new(self.cond(inner, schema)?)),
            Kind::IsNull(expr) => Cond::IsNull(self.expr(expr, schema)?),
            Kind::IsDistinct(a, b) => {
                Cond::IsDistinct(self.expr(a, schema)?, self.expr(b, schema)?, a.ty.collation)
            }
            Kind::Like {
                expr,
                pattern,
                escape,
            } => self.like(expr, pattern, escape.as_deref(), schema)?,
            Kind::InList { expr, list } => self.in_list(expr, list, schema)?,
            Kind::Let { value, body } => Cond::Let {
                value: self.expr(value, schema)?,
                body: Box::new(self.cond(body, schema)?),
            },
            Kind::Subquery(sub) => match &sub.kind {
                SubqueryKind::Exists => Cond::Exists(self.subplan(&sub.rel, &[], schema)?),
                SubqueryKind::Any { op, expr, value } => {
                    let needed: Vec<ColId> = value
                        .column_set()
                        .intersection(&sub.rel.produced())
                        .copied()
                        .collect();
                    let call = self.subplan(&sub.rel, &needed, schema)?;
                    let inner = self
                        .subplans
                        .get(call.subplan)
                        .map(|s| s.node.schema.clone())
                        .unwrap_or_default();
                    Cond::Any {
                        op: *op,
                        expr: self.expr(expr, schema)?,
                        value: self.expr(value, &inner)?,
                        collation: expr.ty.collation,
                        call,
                    }
                }
                SubqueryKind::Scalar(_) => self.truth(scalar, schema)?,
            },
            _ => self.truth(scalar, schema)?,
        })
    }

    /// A bit value as a condition.
    fn truth(&mut self, scalar: &Scalar, schema: &[ColId]) -> Result<Cond> {
        Ok(Cond::Compare {
            op: CompareOp::Equal,
            left: self.expr(scalar, schema)?,
            right: Expr::Const(Value::Bit(true)),
            collation: scalar.ty.collation,
        })
    }

    fn like(
        &mut self,
        expr: &Scalar,
        pattern: &Scalar,
        escape: Option<&Scalar>,
        schema: &[ColId],
    ) -> Result<Cond> {
        let collation = expr.ty.collation;
        let trailing_blanks_ignored =
            !pattern.ty.data_type.is_unicode() && !expr.ty.data_type.is_unicode();
        let compiled = match (fold(pattern), escape.map(fold)) {
            (Some(Value::Str(text)), None) => Some(LikePattern::new(
                &text,
                None,
                collation,
                trailing_blanks_ignored,
            )?),
            (Some(Value::Str(text)), Some(Some(Value::Str(escape)))) => Some(LikePattern::new(
                &text,
                Some(&escape),
                collation,
                trailing_blanks_ignored,
            )?),
            _ => None,
        };
        Ok(Cond::Like {
            expr: self.expr(expr, schema)?,
            pattern: self.expr(pattern, schema)?,
            escape: escape.map(|e| self.expr(e, schema)).transpose()?,
            collation,
            compiled,
            trailing_blanks_ignored,
        })
    }

    fn in_list(&mut self, expr: &Scalar, list: &[Scalar], schema: &[ColId]) -> Result<Cond> {
        let collation = expr.ty.collation;
        let constants: Option<Vec<Value>> = list.iter().map(fold).collect();
        let float = |t: DataType| matches!(t, DataType::Float | DataType::Real | DataType::Variant);
        if let Some(constants) = constants
            && constants.len() >= IN_SET_MIN
            && !float(expr.ty.data_type)
            && !list.iter().any(|l| float(l.ty.data_type))
        {
            let mut keys = HashSet::with_capacity(constants.len());
            let mut has_null = false;
            for value in &constants {
                if value.is_null() {
                    has_null = true;
                    continue;
                }
                let mut key = Vec::new();
                write_key(value, collation, &mut key);
                keys.insert(key);
            }
            return Ok(Cond::InSet {
                expr: self.expr(expr, schema)?,
                keys,
                has_null,
                collation,
            });
        }
        Ok(Cond::InList {
            expr: self.expr(expr, schema)?,
            list: self.exprs(list, schema)?,
            collation,
        })
    }

    /// Plans a subquery that is evaluated in place.
    fn subplan(&mut self, rel: &Rel, columns: &[ColId], schema: &[ColId]) -> Result<SubqueryCall> {
        let required: ColSet = columns.iter().copied().collect();
        let outer = rel.outer_columns();
        let node = self.repeated(!outer.is_empty(), |p| p.node(rel, &required))?;
        let mut bind = Vec::new();
        let mut reads = Vec::new();
        for id in &outer {
            let slot = self.parameter(*id);
            reads.push(slot);
            if let Some(position) = schema.iter().position(|c| c == id) {
                bind.push((Expr::Slot(position), slot));
            }
        }
        let column = columns
            .first()
            .and_then(|c| node.schema.iter().position(|s| s == c))
            .unwrap_or(0);
        let (key, is_volatile) = match memory_of(rel, &outer) {
            Memory::Columns => (Vec::new(), false),
            Memory::Parts(parts) => {
                let key = parts.into_iter().map(|part| self.expr(part, &[]));
                (key.collect::<Result<_>>()?, false)
            }
            Memory::Volatile => (Vec::new(), true),
        };
        self.subplans.push(Subplan {
            node,
            reads,
            key,
            is_volatile,
        });
        Ok(SubqueryCall {
            subplan: self.subplans.len() - 1,
            bind,
            column,
        })
    }
}

/// Collation that a function works under: the strongest of its text arguments. That of its result may be another one by now: a
/// comparison gives it the collation that both sides are compared under.
fn call_collation(args: &[Scalar], ty: Type) -> daruma_value::CollationId {
    let texts = args.iter().map(|arg| arg.ty);
    let texts = texts.filter(|ty| ty.data_type.is_character());
    let strongest = texts.reduce(|best, ty| match ty.coercion > best.coercion {
        true => ty,
        false => best,
    });
    strongest.unwrap_or(ty).collation
}

/// Value of an expression of constants alone. Errors are left for run time, where they may never be reached.
pub fn fold(scalar: &Scalar) -> Option<Value> {
    match &scalar.kind {
        Kind::Const(value) => Some(value.clone()),
        Kind::Collate(input) => fold(input),
        Kind::Convert {
            input,
            style: None,
            is_try: false,
            ..
        } if !reads_settings(input, scalar.ty.data_type) => {
            let value = fold(input)?;
            let context = ConvertContext {
                collation: scalar.ty.collation,
                ..ConvertContext::default()
            };
            convert(
                &value,
                input.ty.data_type,
                scalar.ty.data_type,
                None,
                &context,
            )
            .ok()
        }
        Kind::Arith { op, left, right } => {
            let (left, right) = (fold(left)?, fold(right)?);
            arithmetic::evaluate(*op, &left, &right, scalar.ty.data_type).ok()
        }
        Kind::Negate(input) => arithmetic::negate(&fold(input)?, scalar.ty.data_type).ok(),
        _ => None,
    }
}

/// Does the conversion depend on SET DATEFORMAT?
fn reads_settings(input: &Scalar, to: DataType) -> bool {
    let plain = matches!(&input.kind, Kind::Const(Value::Str(text)) if is_iso_date(text, to));
    input.ty.data_type.is_character() && to.is_temporal() && !plain
}

/// A text that gives the same date under every DATEFORMAT: `20240131`, and but for the old types `2024-01-31` as well.
fn is_iso_date(text: &str, to: DataType) -> bool {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '9' } else { c })
        .collect();
    let dashed = shape.starts_with("9999-99-99")
        && matches!(shape.as_bytes().get(10), None | Some(b' ' | b'T'));
    let old = matches!(to, DataType::DateTime | DataType::SmallDateTime);
    shape == "99999999"
        || shape.starts_with("99999999 ")
        || dashed && (!old || shape.as_bytes().get(10) == Some(&b'T'))
}
