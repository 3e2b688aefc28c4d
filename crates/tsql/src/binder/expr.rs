//! Expressions and conditions: names, types, conversions.
//!
//! Theory: the tree is bounded by the parser, so plain recursion is safe. Aggregates and window functions stay in the
//! expression as nodes; the query that owns the expression takes them out.

use super::Binder;
use super::next_value::CONDITIONAL;
use super::operand::{Operand, in_list};
use super::tree::*;
use super::types;
use crate::error::{Result, SqlError};
use crate::host::{VariableType, check_cancel};
use daruma_syntax::ast::{
    self, CompareOp, Condition, Expr, Literal, OdbcLiteral, Quantifier, UnaryOp, When,
};
use daruma_value::convert::{decode_code_page, encode_code_page};
use daruma_value::functions::is_known_culture;
use daruma_value::types::BinaryOp;
use daruma_value::{CollationId, DataType, Decimal, Len, Value};

impl Binder<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Scalar> {
        let bound = with_stack(|| self.expr_here(expr))?;
        Ok(self.collated(bound))
    }

    fn expr_here(&mut self, expr: &Expr) -> Result<Scalar> {
        check_cancel(self.host)?;
        match expr {
            Expr::Literal(found) => {
                let bound = literal(found)?;
                Ok(self.in_code_page(bound))
            }
            Expr::Column(column) => self.resolve_column(column),
            Expr::Variable { name, .. } => self.variable(name),
            Expr::Global { name, .. } => self.global(name),
            Expr::Unary { op, expr } => {
                let operand = self.expr(expr)?;
                unary(*op, operand)
            }
            Expr::Binary {
                op, left, right, ..
            } => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                self.binary(*op, left, right)
            }
            Expr::Function(call) => self.function(call),
            Expr::Niladic(niladic) => self.niladic(*niladic),
            Expr::Cast {
                expr, to, is_try, ..
            } => {
                let input = self.expr(expr)?;
                self.cast(input, to, None, *is_try)
            }
            Expr::Convert {
                to,
                expr,
                style,
                is_try,
                ..
            } => {
                let input = self.expr(expr)?;
                let style = style.as_ref().map(|s| self.expr(s)).transpose()?;
                self.cast(input, to, style, *is_try)
            }
            Expr::Parse {
                expr,
                to,
                is_try,
                culture,
                ..
            } => {
                self.check_parse_culture(culture.as_deref())?;
                let input = self.expr(expr)?;
                self.cast(input, to, None, *is_try)
            }
            Expr::Case(_) | Expr::Iif { .. } | Expr::Coalesce(_) | Expr::NullIf(..) => {
                self.without_next_value(CONDITIONAL, |b| b.conditional(expr))
            }
            Expr::Subquery(query) => self.scalar_subquery(query),
            Expr::Collate { expr, collation } => {
                let input = self.expr(expr)?;
                self.collate(input, &collation.text)
            }
            Expr::AtTimeZone { expr, zone } => {
                let args = vec![self.expr(expr)?, self.expr(zone)?];
                self.at_time_zone(args)
            }
            Expr::NextValueFor { sequence, over, .. } => match over.is_empty() {
                true => self.next_value(sequence),
                false => Err(super::unsupported("NEXT VALUE FOR with OVER")),
            },
            Expr::Trim {
                side,
                characters,
                from,
            } => self.trim(*side, characters.as_deref(), from),
            Expr::Pseudo(pseudo) => self.pseudo(*pseudo),
            Expr::Default => Err(SqlError::new(
                156,
                15,
                1,
                "Incorrect syntax near the keyword 'DEFAULT'.",
            )),
            Expr::Method {
                target,
                method,
                args,
            } => self.method(target, method, args),
            Expr::Property { target, .. } => Err(no_method(self.expr(target)?.ty.data_type.name())),
            Expr::StaticMethod { method, .. } => Err(no_method(&method.text)),
            Expr::Partition { function, .. } => Err(SqlError::new(
                208,
                16,
                1,
                format!("Invalid object name '{}'.", function.text),
            )),
        }
    }

    /// PARSE reads the forms of one culture.
    fn check_parse_culture(&self, culture: Option<&Expr>) -> Result<()> {
        match culture {
            None => self.check_language("en-US"),
            Some(Expr::Literal(Literal::String { text, .. })) if is_known_culture(text) => Ok(()),
            Some(Expr::Literal(Literal::String { text, .. })) => Err(unknown_culture(text)),
            Some(_) => Err(super::unsupported(
                "PARSE with a culture that is no literal",
            )),
        }
    }

    /// Error 9818 where the session's language shows names and forms otherwise than `as_in`, a culture or a language.
    pub(super) fn check_language(&self, as_in: &str) -> Result<()> {
        let language = self.host.settings().language;
        let culture = crate::host::culture_of(language);
        match culture.starts_with(as_in) {
            true => Ok(()),
            false => Err(unknown_culture(culture)),
        }
    }

    /// A literal without N holds what the code page of its database has, and is as long as its bytes.
    fn in_code_page(&mut self, scalar: Scalar) -> Scalar {
        let Kind::Const(Value::Str(text)) = &scalar.kind else {
            return scalar;
        };
        if text.is_ascii() || scalar.ty.data_type.is_unicode() {
            return scalar;
        }
        let page = self.own_collation().code_page();
        let bytes = encode_code_page(text, page);
        let data_type = DataType::VarChar(types::literal_len(bytes.len(), 8000));
        let text = decode_code_page(&bytes, page);
        Scalar::constant(Value::str(&text), data_type)
    }

    pub(super) fn text(&self, text: &str, national: bool) -> Scalar {
        text_literal(text, national)
    }

    fn variable(&mut self, name: &str) -> Result<Scalar> {
        if let Some(parameters) = &self.parameters {
            let key = daruma_catalog::name_key(name);
            let found = parameters.iter().find(|(k, _)| *k == key);
            let found = found.map(|(_, scalar)| scalar.clone());
            let scalar = found.ok_or_else(|| undeclared(name))?;
            self.note_copy(&scalar)?;
            return Ok(scalar);
        }
        match self.host.variable_type(name) {
            Some(VariableType::Scalar(data_type)) => Ok(Scalar::new(
                Kind::Variable(name.to_lowercase().into()),
                Type::new(data_type, true),
            )),
            Some(VariableType::Cursor) => Err(crate::messages::error(16949, &[&name])),
            _ => Err(undeclared(name)),
        }
    }

    fn global(&self, name: &str) -> Result<Scalar> {
        let lower = name.to_lowercase();
        match self.host.system_function_type(&lower) {
            Some(data_type) => {
                let kind = Kind::System {
                    name: lower.into(),
                    args: Vec::new(),
                };
                Ok(Scalar::new(kind, Type::new(data_type, true)))
            }
            None => Err(undeclared(name)),
        }
    }

    pub(super) fn binary(
        &mut self,
        op: ast::BinaryOp,
        left: Scalar,
        right: Scalar,
    ) -> Result<Scalar> {
        let op = match op {
            ast::BinaryOp::Add | ast::BinaryOp::Concat => BinaryOp::Add,
            ast::BinaryOp::Subtract => BinaryOp::Subtract,
            ast::BinaryOp::Multiply => BinaryOp::Multiply,
            ast::BinaryOp::Divide => BinaryOp::Divide,
            ast::BinaryOp::Modulo => BinaryOp::Modulo,
            ast::BinaryOp::BitAnd => BinaryOp::BitAnd,
            ast::BinaryOp::BitOr => BinaryOp::BitOr,
            ast::BinaryOp::BitXor => BinaryOp::BitXor,
            ast::BinaryOp::ShiftLeft => return self.call_by_name("LEFT_SHIFT", vec![left, right]),
            ast::BinaryOp::ShiftRight => {
                return self.call_by_name("RIGHT_SHIFT", vec![left, right]);
            }
        };
        types::binary(op, left, right)
    }

    /// A type as written: alias types too. Lengths default to 30 in CAST and CONVERT, 1 elsewhere.
    pub(super) fn type_name(&self, name: &ast::TypeName, default_length: u16) -> Result<DataType> {
        let arguments: Vec<i64> = name
            .args
            .iter()
            .map(|a| match a {
                ast::TypeArg::Number(n) => i64::from(*n),
                _ => -1,
            })
            .collect();
        let schema = name.schema.as_ref().map(|s| s.text.as_str());
        let (data_type, ..) = self
            .host
            .resolve_type(schema, &name.name.text, &arguments)
            .map_err(|error| in_cast(error, name, &arguments))?;
        if !arguments.is_empty() {
            return Ok(data_type);
        }
        let named = |text: &str| name.name.is(text);
        Ok(match data_type {
            DataType::Char(Len(1)) if named("char") || named("character") => {
                DataType::Char(Len(default_length))
            }
            DataType::VarChar(Len(1)) if named("varchar") => DataType::VarChar(Len(default_length)),
            DataType::NChar(Len(1)) if named("nchar") => DataType::NChar(Len(default_length)),
            DataType::NVarChar(Len(1)) if named("nvarchar") => {
                DataType::NVarChar(Len(default_length))
            }
            DataType::Binary(Len(1)) if named("binary") => DataType::Binary(Len(default_length)),
            DataType::VarBinary(Len(1)) if named("varbinary") => {
                DataType::VarBinary(Len(default_length))
            }
            other => other,
        })
    }

    fn cast(
        &mut self,
        input: Scalar,
        to: &ast::TypeName,
        style: Option<Scalar>,
        is_try: bool,
    ) -> Result<Scalar> {
        let to = self.type_name(to, 30)?;
        // A NULL that was given a type is no bare NULL any more, which would take any type.
        if input.is_null_literal() {
            let mut null = Scalar::null(to);
            null.ty.collation = self.own_collation();
            return Ok(types::make_convert(null, to, false));
        }
        daruma_value::types::check_explicit(input.ty.data_type, to)?;
        let style = style
            .map(|s| types::convert(s, DataType::Int))
            .transpose()?;
        let mut scalar = types::make_convert(input, to, false);
        scalar.ty.nullable |= is_try || style.as_ref().is_some_and(|s| s.ty.nullable);
        if let Kind::Convert {
            style: place,
            is_try: flag,
            ..
        } = &mut scalar.kind
        {
            *place = style.map(Box::new);
            *flag = is_try;
        }
        Ok(scalar)
    }

    pub(super) fn collate(&mut self, input: Scalar, name: &str) -> Result<Scalar> {
        let collation = match name.to_ascii_lowercase().as_str() {
            "database_default" => Some(self.own_collation()),
            "catalog_default" => Some(CollationId::DEFAULT),
            _ => CollationId::from_name(name),
        };
        let Some(collation) = collation else {
            return Err(SqlError::new(
                448,
                16,
                1,
                format!("Invalid collation '{name}'."),
            ));
        };
        if !input.ty.data_type.is_character() {
            return Err(SqlError::new(
                447,
                16,
                0,
                format!(
                    "Expression type {} is invalid for COLLATE clause.",
                    input.ty.data_type.name()
                ),
            ));
        }
        let input = in_page_of(input, collation);
        let ty = Type {
            collation,
            coercion: Coercion::Explicit,
            ..input.ty
        };
        Ok(Scalar::new(Kind::Collate(Box::new(input)), ty))
    }

    /// Values of which one is chosen.
    fn conditional(&mut self, expr: &Expr) -> Result<Scalar> {
        match expr {
            Expr::Case(case) => self.case(case),
            Expr::Iif {
                condition,
                then,
                otherwise,
            } => {
                let when = self.condition(condition)?;
                let (then, otherwise) = (self.expr(then)?, self.expr(otherwise)?);
                case_of(vec![(when, then)], Some(otherwise))
            }
            Expr::Coalesce(list) => {
                let mut args = list
                    .iter()
                    .map(|e| self.expr(e))
                    .collect::<Result<Vec<_>>>()?;
                if args.iter().all(Scalar::is_null_literal) {
                    return Err(daruma_value::ValueError::new(4127, 1, &[]).into());
                }
                let nullable = args.iter().all(|a| a.ty.nullable);
                let ty = types::unify(&mut args)?.nullable(nullable);
                Ok(Scalar::new(Kind::Coalesce(args), ty))
            }
            Expr::NullIf(a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                if a.is_null_literal() {
                    return Err(daruma_value::ValueError::new(4151, 1, &[]).into());
                }
                let ty = a.ty.nullable(true);
                let operand = Operand::new(a);
                let when = compare(CompareOp::Equal, operand.again(), b)?;
                let kind = Kind::Case {
                    whens: vec![(when, Scalar::null(ty.data_type))],
                    otherwise: Some(Box::new(operand.again())),
                };
                Ok(operand.around(Scalar::new(kind, ty)))
            }
            other => self.expr(other),
        }
    }

    fn case(&mut self, case: &ast::Case) -> Result<Scalar> {
        let operand = case.operand.as_ref().map(|e| self.expr(e)).transpose()?;
        let operand = operand.map(Operand::new);
        let mut whens = Vec::with_capacity(case.whens.len());
        for when in &case.whens {
            let condition = match (&when.when, &operand) {
                (When::Condition(condition), _) => self.condition(condition)?,
                (When::Value(value), Some(operand)) => {
                    let value = self.expr(value)?;
                    self.compare(CompareOp::Equal, operand.again(), value)?
                }
                (When::Value(_), None) => {
                    return Err(SqlError::new(102, 15, 1, "Incorrect syntax near 'WHEN'."));
                }
            };
            whens.push((condition, self.expr(&when.then)?));
        }
        let otherwise = case.otherwise.as_ref().map(|e| self.expr(e)).transpose()?;
        let chosen = case_of(whens, otherwise)?;
        Ok(match operand {
            Some(operand) => operand.around(chosen),
            None => chosen,
        })
    }

    fn scalar_subquery(&mut self, query: &ast::Query) -> Result<Scalar> {
        let bound = self.subquery(query)?;
        let [column] = bound.columns.as_slice() else {
            return Err(one_column());
        };
        let ty = self.column(column.id).ty.nullable(true);
        let kind = SubqueryKind::Scalar(column.id);
        Ok(Scalar::new(
            Kind::Subquery(Box::new(Subquery {
                rel: bound.rel,
                kind,
            })),
            ty,
        ))
    }

    pub(super) fn condition(&mut self, condition: &Condition) -> Result<Scalar> {
        with_stack(|| self.condition_here(condition))
    }

    fn condition_here(&mut self, condition: &Condition) -> Result<Scalar> {
        let negate = |negated: bool, s: Scalar| if negated { s.negate() } else { s };
        Ok(match condition {
            Condition::And(list) => Scalar::condition(Kind::And(
                list.iter()
                    .map(|c| self.condition(c))
                    .collect::<Result<_>>()?,
            )),
            Condition::Or(list) => Scalar::condition(Kind::Or(
                list.iter()
                    .map(|c| self.condition(c))
                    .collect::<Result<_>>()?,
            )),
            Condition::Not(inner) => self.condition(inner)?.negate(),
            Condition::Compare { op, left, right } => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                self.compare(*op, left, right)?
            }
            Condition::Quantified {
                op,
                left,
                quantifier,
                query,
            } => {
                let left = self.expr(left)?;
                match quantifier {
                    Quantifier::Any => self.any_subquery(*op, left, query)?,
                    Quantifier::All => self.any_subquery(opposite(*op), left, query)?.negate(),
                }
            }
            Condition::IsNull { expr, negated } => {
                let expr = match self.node_column(expr) {
                    Some(node) => node,
                    None => self.expr(expr)?,
                };
                negate(*negated, Scalar::condition(Kind::IsNull(Box::new(expr))))
            }
            Condition::IsDistinct {
                left,
                right,
                negated,
            } => {
                let (left, right) =
                    types::comparable(self.expr(left)?, self.expr(right)?, "is distinct from")?;
                negate(
                    *negated,
                    Scalar::condition(Kind::IsDistinct(Box::new(left), Box::new(right))),
                )
            }
            Condition::Like {
                expr,
                pattern,
                escape,
                negated,
            } => {
                let escape = escape.as_ref().map(|e| self.expr(e)).transpose()?;
                let (expr, pattern) = (self.expr(expr)?, self.expr(pattern)?);
                negate(*negated, like(expr, pattern, escape)?)
            }
            Condition::InList {
                expr,
                list,
                negated,
            } => {
                let expr = self.expr(expr)?;
                let list = list
                    .iter()
                    .map(|e| self.expr(e))
                    .collect::<Result<Vec<_>>>()?;
                let found = match self.ansi_nulls {
                    true => in_list(expr, list)?,
                    false => self.in_list_with_nulls(expr, list)?,
                };
                negate(*negated, found)
            }
            Condition::InQuery {
                expr,
                query,
                negated,
            } => {
                let expr = self.expr(expr)?;
                negate(*negated, self.any_subquery(CompareOp::Equal, expr, query)?)
            }
            Condition::Between {
                expr,
                low,
                high,
                negated,
            } => {
                let operand = Operand::new(self.expr(expr)?);
                let (low, high) = (self.expr(low)?, self.expr(high)?);
                let both = vec![
                    compare(CompareOp::GreaterOrEqual, operand.again(), low)?,
                    compare(CompareOp::LessOrEqual, operand.again(), high)?,
                ];
                let both = operand.around(Scalar::condition(Kind::And(both)));
                negate(*negated, both)
            }
            Condition::Exists(query) => {
                let rel = self.exists_subquery(query)?;
                Scalar::condition(Kind::Subquery(Box::new(Subquery {
                    rel,
                    kind: SubqueryKind::Exists,
                })))
            }
            Condition::UpdatedColumn(column) => {
                let call = Scalar::new(
                    Kind::System {
                        name: "update()".into(),
                        args: vec![self.text(&column.text, true)],
                    },
                    Type::new(DataType::Bit, false),
                );
                compare(
                    CompareOp::Equal,
                    call,
                    Scalar::constant(Value::Bit(true), DataType::Bit),
                )?
            }
            Condition::FullText(_) => {
                return Err(SqlError::new(
                    7609,
                    17,
                    5,
                    "Full-Text Search is not installed, or a full-text component cannot be loaded.",
                ));
            }
            Condition::Predicate(call) => {
                let call = self.function(call)?;
                compare(
                    CompareOp::Equal,
                    call,
                    Scalar::constant(Value::Bit(true), DataType::Bit),
                )?
            }
        })
    }

    /// `left op right`. With ANSI_NULLS OFF a NULL that is written, or that a variable holds, equals a NULL.
    fn compare(&self, op: CompareOp, left: Scalar, right: Scalar) -> Result<Scalar> {
        let is_given = |s: &Scalar| s.is_null_literal() || matches!(s.kind, Kind::Variable(_));
        let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
        if self.ansi_nulls || !is_equality || !(is_given(&left) || is_given(&right)) {
            return compare(op, left, right);
        }
        let (left, right) = types::comparable(left, right, compare_name(op))?;
        let distinct = Scalar::condition(Kind::IsDistinct(Box::new(left), Box::new(right)));
        Ok(match op {
            CompareOp::Equal => distinct.negate(),
            _ => distinct,
        })
    }

    fn in_list_with_nulls(&self, expr: Scalar, list: Vec<Scalar>) -> Result<Scalar> {
        let operand = Operand::new(expr);
        let equal = |member| self.compare(CompareOp::Equal, operand.again(), member);
        let equal = list.into_iter().map(equal).collect::<Result<Vec<_>>>()?;
        Ok(operand.around(Scalar::condition(Kind::Or(equal))))
    }

    fn any_subquery(&mut self, op: CompareOp, expr: Scalar, query: &ast::Query) -> Result<Scalar> {
        let bound = self.subquery(query)?;
        let [column] = bound.columns.as_slice() else {
            return Err(one_column());
        };
        let value = self.column(column.id);
        let (expr, value) = types::comparable(expr, value, compare_name(op))?;
        let kind = SubqueryKind::Any {
            op: normal(op),
            expr: Box::new(expr),
            value: Box::new(value),
        };
        // Asked for each row, it ends at the first one that answers; asked once, a smaller set is kept.
        let rel = match bound.rel {
            rel if rel.outer_columns().is_empty() => rel,
            Rel::Distinct { input, .. } => *input,
            rel => rel,
        };
        Ok(Scalar::condition(Kind::Subquery(Box::new(Subquery {
            rel,
            kind,
        }))))
    }
}

/// Trees are bounded, but frames differ in size between builds: a thread with little room left goes on in a new segment.
pub(crate) fn with_stack<T>(f: impl FnOnce() -> T) -> T {
    const LEFT_MIN_BYTES: usize = 256 << 10;
    const SEGMENT_BYTES: usize = 2 << 20;
    stacker::maybe_grow(LEFT_MIN_BYTES, SEGMENT_BYTES, f)
}

/// A literal with its type.
pub(crate) fn literal(literal: &Literal) -> Result<Scalar> {
    Ok(match literal {
        Literal::Null => Scalar::null(DataType::Int),
        Literal::Integer(digits) => match digits.parse::<i32>() {
            Ok(n) => Scalar::constant(Value::Int(n), DataType::Int),
            Err(_) => decimal_literal(digits)?,
        },
        Literal::Decimal(digits) => decimal_literal(digits)?,
        Literal::Float(digits) => match digits.parse::<f64>() {
            Ok(n) if n.is_finite() => Scalar::constant(Value::Float(n), DataType::Float),
            _ => {
                return Err(SqlError::new(
                    168,
                    15,
                    1,
                    format!(
                        "The floating point value '{digits}' is out of the range of computer representation (8 bytes)."
                    ),
                ));
            }
        },
        Literal::Money(digits) => {
            let digits = if digits.is_empty() { "0" } else { digits };
            let money = Decimal::parse(digits, 38, 4)
                .ok()
                .and_then(|d| i64::try_from(d.unscaled()).ok());
            let money = money.ok_or_else(|| daruma_value::ValueError::new(236, 1, &[]))?;
            Scalar::constant(Value::Money(money), DataType::Money)
        }
        Literal::Binary(bytes) => Scalar::constant(
            Value::Bytes(bytes.clone()),
            DataType::VarBinary(types::literal_len(bytes.len(), 8000)),
        ),
        Literal::String { text, national } => text_literal(text, *national),
        Literal::Odbc { kind, text } => {
            let to = match kind {
                OdbcLiteral::Guid => DataType::UniqueIdentifier,
                _ => DataType::DateTime,
            };
            types::convert(text_literal(text, false), to)?
        }
    })
}

/// Text of a code page becomes text of another one: what that lacks is lost, what takes more bytes there has room.
fn in_page_of(input: Scalar, collation: CollationId) -> Scalar {
    let page = collation.code_page();
    if input.ty.data_type.is_unicode() || input.ty.collation.code_page() == page {
        return input;
    }
    let bytes_per_char = match page {
        65001 => 3,
        932 | 936 | 949 | 950 => 2,
        _ => 1,
    };
    let grown = |len: Len| Len((len.0.saturating_mul(bytes_per_char)).min(8000));
    let to = match input.ty.data_type {
        DataType::Char(len) => DataType::Char(len),
        DataType::VarChar(len) if !len.is_max() => DataType::VarChar(grown(len)),
        _ => DataType::VARCHAR_MAX,
    };
    let mut unicode = types::make_convert(input, DataType::NVARCHAR_MAX, true);
    unicode.ty.collation = collation;
    types::make_convert(unicode, to, true)
}

fn unknown_culture(culture: &str) -> SqlError {
    daruma_value::ValueError::new(9818, 1, &[&culture]).into()
}

fn text_literal(text: &str, national: bool) -> Scalar {
    let units = text.chars().map(char::len_utf16).sum::<usize>();
    let data_type = if national {
        DataType::NVarChar(types::literal_len(units, 4000))
    } else {
        DataType::VarChar(types::literal_len(units, 8000))
    };
    Scalar::constant(Value::str(text), data_type)
}

fn decimal_literal(digits: &str) -> Result<Scalar> {
    match Decimal::parse_literal(digits) {
        Ok(d) => Ok(Scalar::constant(Value::Decimal(d), d.data_type())),
        Err(_) => Err(SqlError::new(
            1007,
            15,
            1,
            format!(
                "The number '{digits}' is out of the range for numeric representation (maximum precision 38)."
            ),
        )),
    }
}

fn unary(op: UnaryOp, operand: Scalar) -> Result<Scalar> {
    let t = operand.ty.data_type;
    let wrong = |name: &str| Err(daruma_value::ValueError::invalid_operand(t, name).into());
    match op {
        UnaryOp::Plus => Ok(operand),
        UnaryOp::Minus => {
            if let Kind::Const(value) = &operand.kind
                && !value.is_null()
                && t.is_numeric()
                && t != DataType::TinyInt
            {
                return Ok(Scalar::constant(
                    daruma_value::arithmetic::negate(value, t)?,
                    t,
                ));
            }
            if !t.is_numeric() || t == DataType::Bit {
                return wrong("minus");
            }
            // A tinyint has no sign: its negation is a smallint.
            let operand = match t {
                DataType::TinyInt => types::make_convert(operand, DataType::SmallInt, true),
                _ => operand,
            };
            let ty = operand.ty;
            Ok(Scalar::new(Kind::Negate(Box::new(operand)), ty))
        }
        UnaryOp::BitNot => {
            if !t.is_integer() {
                return wrong("'~'");
            }
            let ty = operand.ty;
            Ok(Scalar::new(Kind::BitNot(Box::new(operand)), ty))
        }
    }
}

/// CASE with results brought to their common type: error 8133 when all are NULL.
pub(super) fn case_of(whens: Vec<(Scalar, Scalar)>, otherwise: Option<Scalar>) -> Result<Scalar> {
    let (conditions, mut results): (Vec<_>, Vec<_>) = whens.into_iter().unzip();
    let has_else = otherwise.is_some();
    results.extend(otherwise);
    if results.iter().all(Scalar::is_null_literal) {
        return Err(daruma_value::ValueError::new(8133, 1, &[]).into());
    }
    let mut ty = types::unify(&mut results)?;
    let otherwise = if has_else {
        results.pop().map(Box::new)
    } else {
        None
    };
    ty.nullable |= !has_else;
    Ok(Scalar::new(
        Kind::Case {
            whens: conditions.into_iter().zip(results).collect(),
            otherwise,
        },
        ty,
    ))
}

/// `left op right` as a condition.
pub(crate) fn compare(op: CompareOp, left: Scalar, right: Scalar) -> Result<Scalar> {
    let (left, right) = types::comparable(left, right, compare_name(op))?;
    Ok(Scalar::condition(Kind::Compare {
        op: normal(op),
        left: Box::new(left),
        right: Box::new(right),
    }))
}

fn like(expr: Scalar, pattern: Scalar, escape: Option<Scalar>) -> Result<Scalar> {
    let textual = |s: Scalar| {
        if s.ty.data_type.is_character() {
            Ok(s)
        } else {
            types::convert(s, DataType::VarChar(Len(8000)))
        }
    };
    let (expr, pattern) = (textual(expr)?, textual(pattern)?);
    let escape = escape.map(textual).transpose()?.map(Box::new);
    let (mut expr, pattern) = types::comparable(expr, pattern, "like")?;
    if expr.is_null_literal() {
        expr = Scalar::null(DataType::VarChar(Len(1)));
    }
    Ok(Scalar::condition(Kind::Like {
        expr: Box::new(expr),
        pattern: Box::new(pattern),
        escape,
    }))
}

/// `!<` and `!>` are other ways to write `>=` and `<=`.
pub(crate) fn normal(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::NotLess => CompareOp::GreaterOrEqual,
        CompareOp::NotGreater => CompareOp::LessOrEqual,
        other => other,
    }
}

pub(crate) fn opposite(op: CompareOp) -> CompareOp {
    match normal(op) {
        CompareOp::Equal => CompareOp::NotEqual,
        CompareOp::NotEqual => CompareOp::Equal,
        CompareOp::Less => CompareOp::GreaterOrEqual,
        CompareOp::GreaterOrEqual => CompareOp::Less,
        CompareOp::Greater => CompareOp::LessOrEqual,
        _ => CompareOp::Greater,
    }
}

/// The operator with its sides exchanged.
pub(crate) fn mirrored(op: CompareOp) -> CompareOp {
    match normal(op) {
        CompareOp::Less => CompareOp::Greater,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
        CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
        other => other,
    }
}

fn compare_name(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Equal => "equal to",
        CompareOp::NotEqual => "not equal to",
        CompareOp::Less => "less than",
        CompareOp::LessOrEqual | CompareOp::NotGreater => "less than or equal to",
        CompareOp::Greater => "greater than",
        CompareOp::GreaterOrEqual | CompareOp::NotLess => "greater than or equal to",
    }
}

fn undeclared(name: &str) -> SqlError {
    SqlError::new(
        137,
        15,
        2,
        format!("Must declare the scalar variable \"{name}\"."),
    )
}

fn one_column() -> SqlError {
    SqlError::new(
        116,
        16,
        1,
        "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
    )
}

fn no_method(owner: &str) -> SqlError {
    crate::messages::error(258, &[&owner])
}

/// CAST and CONVERT have messages of their own for types that make no sense.
fn in_cast(error: SqlError, name: &ast::TypeName, arguments: &[i64]) -> SqlError {
    let text = &name.name.text;
    let first = arguments.first().copied().unwrap_or_default();
    match error.number {
        2715 if name.schema.is_none() => crate::messages::error(243, &[text]),
        2716 => crate::messages::error(291, &[text]),
        2750 => crate::messages::error(1001, &[&1, &first]),
        131 => {
            crate::messages::error_state(131, 3, &[&first, &"convert specification", text, &8_000])
        }
        _ => error,
    }
}
