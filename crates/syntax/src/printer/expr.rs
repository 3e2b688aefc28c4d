//! Scalar expressions, with parentheses where precedence needs them.

use super::{Clause, Commas, Flag, Quote};
use crate::ast::*;
use std::fmt::{self, Display, Formatter, Write};

/// How tightly an expression binds; a place prints looser ones in parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Sum,
    Product,
    Sign,
    Postfix,
}

fn binding(expr: &Expr) -> Binding {
    match expr {
        Expr::Binary { op, .. } => operator(*op).1,
        Expr::Unary { .. } => Binding::Sign,
        _ => Binding::Postfix,
    }
}

fn operator(op: BinaryOp) -> (&'static str, Binding) {
    match op {
        BinaryOp::Multiply => ("*", Binding::Product),
        BinaryOp::Divide => ("/", Binding::Product),
        BinaryOp::Modulo => ("%", Binding::Product),
        BinaryOp::Add => ("+", Binding::Sum),
        BinaryOp::Subtract => ("-", Binding::Sum),
        BinaryOp::BitAnd => ("&", Binding::Sum),
        BinaryOp::BitOr => ("|", Binding::Sum),
        BinaryOp::BitXor => ("^", Binding::Sum),
        BinaryOp::ShiftLeft => ("<<", Binding::Sum),
        BinaryOp::ShiftRight => (">>", Binding::Sum),
        BinaryOp::Concat => ("||", Binding::Sum),
    }
}

/// An expression at a place which needs at least this binding.
struct Bound<'a>(&'a Expr, Binding);

impl Display for Bound<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if binding(self.0) < self.1 {
            write!(f, "({})", self.0)
        } else {
            self.0.fmt(f)
        }
    }
}

impl Display for BinaryOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(operator(*self).0)
    }
}

impl Display for AssignOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AssignOp::Set => f.write_str("="),
            AssignOp::Compound(op) => write!(f, "{op}="),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Literal(literal) => literal.fmt(f),
            Expr::Column(column) => column.fmt(f),
            Expr::Variable { name, .. } | Expr::Global { name, .. } => f.write_str(name),
            Expr::Unary { op, expr } => write_unary(f, *op, expr),
            Expr::Binary {
                op, left, right, ..
            } => write_binary(f, *op, left, right),
            Expr::Function(call) => call.fmt(f),
            Expr::Niladic(niladic) => niladic.fmt(f),
            Expr::Cast {
                expr, to, is_try, ..
            } => write!(f, "{}CAST({expr} AS {to})", try_prefix(*is_try)),
            Expr::Convert {
                to,
                expr,
                style,
                is_try,
                ..
            } => {
                write!(f, "{}CONVERT({to}, {expr}", try_prefix(*is_try))?;
                if let Some(style) = style {
                    write!(f, ", {style}")?;
                }
                f.write_char(')')
            }
            Expr::Parse {
                expr,
                to,
                culture,
                is_try,
                ..
            } => {
                write!(
                    f,
                    "{}PARSE({expr} AS {to}{})",
                    try_prefix(*is_try),
                    Clause("USING", culture)
                )
            }
            Expr::Case(case) => case.fmt(f),
            Expr::Iif {
                condition,
                then,
                otherwise,
            } => write!(f, "IIF({condition}, {then}, {otherwise})"),
            Expr::Coalesce(args) => write!(f, "COALESCE({})", Commas(args)),
            Expr::NullIf(left, right) => write!(f, "NULLIF({left}, {right})"),
            Expr::Subquery(query) => write!(f, "({query})"),
            Expr::Collate { expr, collation } => {
                write!(f, "{} COLLATE {collation}", Bound(expr, Binding::Postfix))
            }
            Expr::AtTimeZone { expr, zone } => write_at_time_zone(f, expr, zone),
            Expr::NextValueFor { sequence, over, .. } => {
                write!(f, "NEXT VALUE FOR {sequence}")?;
                if over.is_empty() {
                    Ok(())
                } else {
                    write!(f, " OVER (ORDER BY {})", Commas(over))
                }
            }
            Expr::Method {
                target,
                method,
                args,
            } => write!(f, "{}.{method}({})", Target(target), Commas(args)),
            Expr::Property { target, property } => write!(f, "{}.{property}", Target(target)),
            Expr::StaticMethod { of, method, args } => {
                write!(f, "{of}::{method}")?;
                match args {
                    Some(args) => write!(f, "({})", Commas(args)),
                    None => Ok(()),
                }
            }
            Expr::Trim {
                side,
                characters,
                from,
            } => write_trim(f, *side, characters.as_deref(), from),
            Expr::Pseudo(column) => f.write_str(match column {
                PseudoColumn::Action => "$action",
                PseudoColumn::Identity => "$identity",
                PseudoColumn::RowGuid => "$rowguid",
                PseudoColumn::Cuid => "$cuid",
            }),
            Expr::Partition {
                database,
                function,
                arg,
            } => {
                if let Some(database) = database {
                    write!(f, "{database}.")?;
                }
                write!(f, "$PARTITION.{function}({arg})")
            }
            Expr::Default => f.write_str("DEFAULT"),
        }
    }
}

/// The value before a dot. A plain name would swallow the method, and a postfix word would take it for its own.
struct Target<'a>(&'a Expr);

impl Display for Target<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bare = matches!(
            self.0,
            Expr::Variable { .. }
                | Expr::Global { .. }
                | Expr::Function(_)
                | Expr::Method { .. }
                | Expr::Property { .. }
                | Expr::StaticMethod { args: Some(_), .. }
                | Expr::Cast { .. }
                | Expr::Convert { .. }
                | Expr::Subquery(_)
        );
        if bare {
            self.0.fmt(f)
        } else {
            write!(f, "({})", self.0)
        }
    }
}

fn try_prefix(is_try: bool) -> &'static str {
    if is_try { "TRY_" } else { "" }
}

fn write_unary(f: &mut Formatter<'_>, op: UnaryOp, operand: &Expr) -> fmt::Result {
    let sign = match op {
        UnaryOp::Plus => '+',
        UnaryOp::Minus => '-',
        UnaryOp::BitNot => '~',
    };
    // Two minus signs in a row would begin a comment.
    write!(f, "{sign}{}", Bound(operand, Binding::Postfix))
}

fn write_binary(f: &mut Formatter<'_>, op: BinaryOp, left: &Expr, right: &Expr) -> fmt::Result {
    let (sign, level) = operator(op);
    let tighter = if level == Binding::Sum {
        Binding::Product
    } else {
        Binding::Sign
    };
    write!(f, "{} {sign} {}", Bound(left, level), Bound(right, tighter))
}

fn write_at_time_zone(f: &mut Formatter<'_>, expr: &Expr, zone: &Expr) -> fmt::Result {
    write!(f, "{} AT TIME ZONE ", Bound(expr, Binding::Postfix))?;
    match zone {
        Expr::Literal(_) | Expr::Variable { .. } | Expr::Function(_) | Expr::Subquery(_) => {
            zone.fmt(f)
        }
        Expr::Column(_) => zone.fmt(f),
        other => write!(f, "({other})"),
    }
}

fn write_trim(
    f: &mut Formatter<'_>,
    side: Option<TrimSide>,
    characters: Option<&Expr>,
    from: &Expr,
) -> fmt::Result {
    f.write_str("TRIM(")?;
    f.write_str(match side {
        Some(TrimSide::Leading) => "LEADING ",
        Some(TrimSide::Trailing) => "TRAILING ",
        Some(TrimSide::Both) => "BOTH ",
        None => "",
    })?;
    match characters {
        Some(characters) => write!(f, "{characters} FROM {from})"),
        None => write!(f, "{from})"),
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::Integer(digits) | Literal::Decimal(digits) | Literal::Float(digits) => {
                f.write_str(digits)
            }
            Literal::Money(digits) => write!(f, "${digits}"),
            Literal::Binary(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
            Literal::String { text, national } => {
                write!(f, "{}{}", if *national { "N" } else { "" }, Quote(text))
            }
            Literal::Odbc { kind, text } => {
                let word = match kind {
                    OdbcLiteral::Date => "d",
                    OdbcLiteral::Time => "t",
                    OdbcLiteral::Timestamp => "ts",
                    OdbcLiteral::Guid => "guid",
                };
                write!(f, "{{{word} {}}}", Quote(text))
            }
        }
    }
}

impl Display for Niladic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Niladic::CurrentTimestamp => "CURRENT_TIMESTAMP",
            Niladic::CurrentDate => "CURRENT_DATE",
            Niladic::CurrentUser => "CURRENT_USER",
            Niladic::SessionUser => "SESSION_USER",
            Niladic::SystemUser => "SYSTEM_USER",
            Niladic::User => "USER",
        })
    }
}

impl Display for FunctionCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.odbc {
            f.write_str("{fn ")?;
        }
        if self.system {
            f.write_str("::")?;
        }
        write!(f, "{}(", self.name)?;
        if self.star {
            f.write_char('*')?;
        }
        if self.distinct {
            f.write_str("DISTINCT ")?;
        }
        let on_null = match self.nulls {
            Some(NullTreatment::NullOnNull) => " NULL ON NULL",
            Some(NullTreatment::AbsentOnNull) => " ABSENT ON NULL",
            _ => "",
        };
        if self.is_json_object() {
            for (at, member) in self.args.chunks(2).enumerate() {
                let comma = if at > 0 { ", " } else { "" };
                match member {
                    [key, value] => write!(f, "{comma}{key} : {value}")?,
                    _ => write!(f, "{comma}{}", Commas(member))?,
                }
            }
            write!(f, "{on_null})")?;
        } else {
            write!(f, "{}{on_null})", Commas(&self.args))?;
        }
        if !self.within_group.is_empty() {
            write!(f, " WITHIN GROUP (ORDER BY {})", Commas(&self.within_group))?;
        }
        f.write_str(match self.nulls {
            Some(NullTreatment::Ignore) => " IGNORE NULLS",
            Some(NullTreatment::Respect) => " RESPECT NULLS",
            _ => "",
        })?;
        if let Some(window) = &self.over {
            write!(f, " OVER {window}")?;
        }
        if self.odbc { f.write_char('}') } else { Ok(()) }
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let (Some(name), true) = (&self.name, self.only_named()) {
            return name.fmt(f);
        }
        f.write_char('(')?;
        let mut gap = "";
        if let Some(name) = &self.name {
            name.fmt(f)?;
            gap = " ";
        }
        if !self.partition_by.is_empty() {
            write!(f, "{gap}PARTITION BY {}", Commas(&self.partition_by))?;
            gap = " ";
        }
        if !self.order_by.is_empty() {
            write!(f, "{gap}ORDER BY {}", Commas(&self.order_by))?;
            gap = " ";
        }
        if let Some(frame) = &self.frame {
            write!(f, "{gap}{frame}")?;
        }
        f.write_char(')')
    }
}

impl Window {
    fn only_named(&self) -> bool {
        self.partition_by.is_empty() && self.order_by.is_empty() && self.frame.is_none()
    }
}

impl Display for Frame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.unit {
            FrameUnit::Rows => "ROWS ",
            FrameUnit::Range => "RANGE ",
        })?;
        match &self.end {
            Some(end) => write!(f, "BETWEEN {} AND {end}", self.start),
            None => self.start.fmt(f),
        }
    }
}

impl Display for FrameBound {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FrameBound::UnboundedPreceding => f.write_str("UNBOUNDED PRECEDING"),
            FrameBound::Preceding(count) => write!(f, "{count} PRECEDING"),
            FrameBound::CurrentRow => f.write_str("CURRENT ROW"),
            FrameBound::Following(count) => write!(f, "{count} FOLLOWING"),
            FrameBound::UnboundedFollowing => f.write_str("UNBOUNDED FOLLOWING"),
        }
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("CASE")?;
        if let Some(operand) = &self.operand {
            write!(f, " {operand}")?;
        }
        for when in &self.whens {
            match &when.when {
                When::Value(value) => write!(f, " WHEN {value}")?,
                When::Condition(condition) => write!(f, " WHEN {condition}")?,
            }
            write!(f, " THEN {}", when.then)?;
        }
        write!(f, "{} END", Clause("ELSE", &self.otherwise))
    }
}

impl Display for OrderItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.expr, Flag("DESC", self.descending))
    }
}

impl Display for SchemaColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}{}",
            self.name,
            self.data_type,
            Clause("COLLATE", &self.collation)
        )?;
        if let Some(path) = &self.path {
            write!(f, " {}", Quote(path))?;
        }
        write!(f, "{}", Flag("AS JSON", self.as_json))
    }
}

impl Display for IndexColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, Flag("DESC", self.descending))
    }
}

/// A row of VALUES.
pub(super) struct Row<'a>(pub &'a [Expr]);

impl Display for Row<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "({})", Commas(self.0))
    }
}
