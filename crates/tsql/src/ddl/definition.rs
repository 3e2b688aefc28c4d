//! Texts of defaults, checks and computed columns as `sys.*_constraints.definition` shows them.
//!
//! The product keeps expressions in a spelling of its own: names in brackets, numbers in parentheses, functions in
//! lower case, no blanks around operators, and parentheses around the whole.

use daruma_syntax::ast::{
    BinaryOp, Condition, Expr, FunctionCall, Ident, Literal, Niladic, NullTreatment, TypeArg,
    TypeName, UnaryOp,
};

/// `(expr)`.
pub(crate) fn expression(expr: &Expr) -> String {
    format!("({})", expr_text(expr))
}

/// `(condition)`.
pub(crate) fn condition(condition: &Condition) -> String {
    format!("({})", condition_text(condition))
}

/// The filter of an index. Unlike a check it keeps its lists.
pub(crate) fn filter(condition: &Condition) -> String {
    let parts: Vec<String> = match condition {
        Condition::And(parts) => parts.iter().map(filter_part).collect(),
        part => vec![filter_part(part)],
    };
    format!("({})", parts.join(" AND "))
}

fn filter_part(part: &Condition) -> String {
    match part {
        Condition::InList { expr, list, .. } if list.len() > 1 => {
            let items: Vec<String> = list.iter().map(expr_text).collect();
            format!("{} IN ({})", expr_text(expr), items.join(", "))
        }
        Condition::And(parts) => {
            let parts: Vec<String> = parts.iter().map(filter_part).collect();
            parts.join(" AND ")
        }
        part => condition_text(part),
    }
}

fn expr_text(expr: &Expr) -> String {
    match expr {
        Expr::Literal(literal) => literal_text(literal),
        Expr::Column(column) => bracket(&column.name),
        Expr::Unary { op, expr } => match (op, &**expr) {
            (
                UnaryOp::Minus,
                Expr::Literal(Literal::Integer(n) | Literal::Decimal(n) | Literal::Float(n)),
            ) => format!("(-{n})"),
            (UnaryOp::Minus, other) => format!("-{}", expr_text(other)),
            (UnaryOp::Plus, other) => expr_text(other),
            (UnaryOp::BitNot, other) => format!("~{}", expr_text(other)),
        },
        Expr::Binary {
            op, left, right, ..
        } => {
            format!(
                "{}{}{}",
                operand(*op, left, false),
                operator(*op),
                operand(*op, right, true)
            )
        }
        Expr::Function(call) => function_text(call),
        Expr::Niladic(niladic) => niladic_text(*niladic).to_string(),
        Expr::Cast {
            expr,
            to,
            is_try: false,
            ..
        } => format!("CONVERT({},{})", type_text(to), expr_text(expr)),
        Expr::Convert {
            to,
            expr,
            style,
            is_try: false,
            ..
        } => match style {
            Some(style) => format!(
                "CONVERT({},{},{})",
                type_text(to),
                expr_text(expr),
                expr_text(style)
            ),
            None => format!("CONVERT({},{})", type_text(to), expr_text(expr)),
        },
        Expr::Coalesce(list) => format!("coalesce({})", list_text(list)),
        Expr::NullIf(a, b) => format!("nullif({},{})", expr_text(a), expr_text(b)),
        Expr::NextValueFor { sequence, .. } => {
            format!("NEXT VALUE FOR {}", bracketed_name(sequence))
        }
        other => other.to_string(),
    }
}

/// `[decimal](10,2)`.
fn type_text(name: &TypeName) -> String {
    let args: Vec<String> = name
        .args
        .iter()
        .map(|a| match a {
            TypeArg::Number(n) => n.to_string(),
            _ => "max".to_string(),
        })
        .collect();
    match args.as_slice() {
        [] => format!("[{}]", name.name.text.to_ascii_lowercase()),
        list => format!(
            "[{}]({})",
            name.name.text.to_ascii_lowercase(),
            list.join(",")
        ),
    }
}

fn literal_text(literal: &Literal) -> String {
    match literal {
        Literal::Null => "NULL".to_string(),
        // A number that is no int is numeric, and shown with a point.
        Literal::Integer(n) if n.parse::<i32>().is_err() => format!("({n}.)"),
        Literal::Decimal(n) if n.starts_with('.') => format!("(0{n})"),
        Literal::Integer(n) | Literal::Decimal(n) | Literal::Float(n) => format!("({n})"),
        Literal::Money(n) => format!("(${n})"),
        other => Expr::Literal(other.clone()).to_string(),
    }
}

fn function_text(call: &FunctionCall) -> String {
    let plain = !call.star && !call.distinct && call.over.is_none() && call.within_group.is_empty();
    if !plain {
        return Expr::Function(Box::new(call.clone())).to_string();
    }
    let name = match call.name.is_bare() {
        true => call.name.name.text.to_ascii_lowercase(),
        false => bracketed_name(&call.name),
    };
    // The first argument of these is a date part, not a column.
    let has_part = [
        "datepart",
        "dateadd",
        "datediff",
        "datename",
        "datediff_big",
    ]
    .contains(&name.as_str());
    let args: Vec<String> = call
        .args
        .iter()
        .enumerate()
        .map(|(at, arg)| match arg {
            Expr::Column(column) if at == 0 && has_part => column.name.text.to_ascii_lowercase(),
            other => expr_text(other),
        })
        .collect();
    let on_null = match call.nulls {
        Some(NullTreatment::NullOnNull) => " NULL ON NULL",
        Some(NullTreatment::AbsentOnNull) => " ABSENT ON NULL",
        _ => "",
    };
    let listed = match call.is_json_object() {
        true => {
            let members = args.chunks(2).map(|member| member.join(":"));
            members.collect::<Vec<_>>().join(",")
        }
        false => args.join(","),
    };
    format!("{name}({listed}{on_null})")
}

fn niladic_text(niladic: Niladic) -> &'static str {
    match niladic {
        Niladic::CurrentTimestamp => "getdate()",
        Niladic::CurrentDate => "CURRENT_DATE",
        Niladic::CurrentUser | Niladic::User => "user_name()",
        Niladic::SessionUser => "session_user",
        Niladic::SystemUser => "suser_sname()",
    }
}

fn list_text(list: &[Expr]) -> String {
    let parts: Vec<String> = list.iter().map(expr_text).collect();
    parts.join(",")
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::Concat => "||",
    }
}

fn precedence(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => 2,
        _ => 1,
    }
}

/// Parentheses where the tree needs them.
fn operand(parent: BinaryOp, expr: &Expr, right: bool) -> String {
    match expr {
        Expr::Binary { op, .. }
            if precedence(*op) < precedence(parent)
                || (right && precedence(*op) == precedence(parent)) =>
        {
            format!("({})", expr_text(expr))
        }
        _ => expr_text(expr),
    }
}

fn condition_text(condition: &Condition) -> String {
    match condition {
        Condition::And(list) => joined(list, " AND ", |c| {
            matches!(
                c,
                Condition::Or(_) | Condition::InList { negated: false, .. }
            )
        }),
        Condition::Or(list) => joined(list, " OR ", |_| false),
        Condition::Not(inner) => format!("NOT ({})", condition_text(inner)),
        Condition::Compare { op, left, right } => {
            format!("{}{}{}", expr_text(left), op.text(), expr_text(right))
        }
        Condition::IsNull { expr, negated } => {
            format!("{} IS {}NULL", expr_text(expr), not(*negated))
        }
        Condition::Like {
            expr,
            pattern,
            escape,
            negated,
        } => {
            let escape = escape
                .as_ref()
                .map_or(String::new(), |e| format!(" ESCAPE {}", expr_text(e)));
            let text = format!("{} like {}{escape}", expr_text(expr), expr_text(pattern));
            if *negated {
                format!("NOT {text}")
            } else {
                text
            }
        }
        // The product spells lists and ranges out.
        Condition::InList {
            expr,
            list,
            negated,
        } => {
            let parts: Vec<String> = list
                .iter()
                .rev()
                .map(|v| format!("{}={}", expr_text(expr), expr_text(v)))
                .collect();
            let text = parts.join(" OR ");
            if *negated {
                format!("NOT ({text})")
            } else {
                text
            }
        }
        Condition::Between {
            expr,
            low,
            high,
            negated,
        } => {
            let e = expr_text(expr);
            match negated {
                false => format!("{e}>={} AND {e}<={}", expr_text(low), expr_text(high)),
                true => format!("NOT ({e}>={} AND {e}<={})", expr_text(low), expr_text(high)),
            }
        }
        other => other.to_string(),
    }
}

fn joined(list: &[Condition], word: &str, needs_parens: impl Fn(&Condition) -> bool) -> String {
    let text = |c: &Condition| match needs_parens(c) {
        true => format!("({})", condition_text(c)),
        false => condition_text(c),
    };
    list.iter().map(text).collect::<Vec<_>>().join(word)
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn bracket(name: &Ident) -> String {
    format!("[{}]", name.text.replace(']', "]]"))
}

pub(crate) fn bracketed_name(name: &daruma_syntax::ast::ObjectName) -> String {
    let parts = [&name.server, &name.database, &name.schema];
    let mut text: Vec<String> = parts.into_iter().flatten().map(bracket).collect();
    text.push(bracket(&name.name));
    text.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_syntax::{ParseOptions, parse_condition, parse_expression};

    fn e(text: &str) -> String {
        expression(&parse_expression(text, &ParseOptions::default()).unwrap())
    }

    fn c(text: &str) -> String {
        condition(&parse_condition(text, &ParseOptions::default()).unwrap())
    }

    #[test]
    fn expressions_take_the_products_spelling() {
        assert_eq!(e("0"), "((0))");
        assert_eq!(e("-1"), "((-1))");
        assert_eq!(e("'it''s'"), "('it''s')");
        assert_eq!(e("N'a\\\\\n\nb'"), "(N'a\\\\\n\nb')");
        assert_eq!(e("GETDATE()"), "(getdate())");
        assert_eq!(e("a + b*2"), "([a]+[b]*(2))");
        assert_eq!(e("(a + b)*2"), "(([a]+[b])*(2))");
        assert_eq!(
            e("CAST(a AS decimal(10,2))"),
            "(CONVERT([decimal](10,2),[a]))"
        );
        assert_eq!(e("CONVERT(int, a)"), "(CONVERT([int],[a]))");
        assert_eq!(e("DATEADD(day, 1, d)"), "(dateadd(day,(1),[d]))");
    }

    #[test]
    fn conditions_take_the_products_spelling() {
        assert_eq!(c("a > 0 and b <= 5"), "([a]>(0) AND [b]<=(5))");
        assert_eq!(c("a between 1 and 5"), "([a]>=(1) AND [a]<=(5))");
        assert_eq!(c("s in ('x','y')"), "([s]='y' OR [s]='x')");
        assert_eq!(c("a is not null"), "([a] IS NOT NULL)");
    }
}
