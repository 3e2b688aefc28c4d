//! Queries.

use super::{Clause, Commas, Flag, Parens, Quote};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.with, self.body)?;
        if !self.order_by.is_empty() {
            write!(f, " ORDER BY {}", Commas(&self.order_by))?;
        }
        if let Some(offset) = &self.offset {
            write!(f, " OFFSET {offset} ROWS")?;
        }
        if let Some(fetch) = &self.fetch {
            write!(f, " FETCH NEXT {fetch} ROWS ONLY")?;
        }
        if let Some(clause) = &self.for_clause {
            write!(f, " FOR {clause}")?;
        }
        QueryOptions(&self.options).fmt(f)
    }
}

/// ` OPTION (...)`, or nothing.
pub(super) struct QueryOptions<'a>(pub &'a [QueryHint]);

impl Display for QueryOptions<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " OPTION ({})", Commas(self.0))
        }
    }
}

impl Display for With {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        f.write_str("WITH ")?;
        if !self.xml_namespaces.is_empty() {
            let comma = if self.ctes.is_empty() { " " } else { ", " };
            write!(f, "XMLNAMESPACES ({}){comma}", Commas(&self.xml_namespaces))?;
        }
        if self.ctes.is_empty() {
            Ok(())
        } else {
            write!(f, "{} ", Commas(&self.ctes))
        }
    }
}

impl Display for XmlNamespace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.prefix {
            Some(prefix) => write!(f, "{} AS {prefix}", Quote(&self.uri)),
            None => write!(f, "DEFAULT {}", Quote(&self.uri)),
        }
    }
}

impl Display for Cte {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{} AS ({})",
            self.name,
            Parens(&self.columns),
            self.query
        )
    }
}

impl Display for QueryBody {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (op, branches) = match self {
            QueryBody::Select(select) => return select.fmt(f),
            QueryBody::Set { op, branches } => (op, branches),
        };
        for (index, branch) in branches.iter().enumerate() {
            if index > 0 {
                write!(f, " {op} ")?;
            }
            match branch {
                QueryBody::Select(select) => select.fmt(f)?,
                set => write!(f, "({set})")?,
            }
        }
        Ok(())
    }
}

impl Display for SetOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SetOp::UnionAll => "UNION ALL",
            SetOp::Union => "UNION",
            SetOp::Except => "EXCEPT",
            SetOp::Intersect => "INTERSECT",
        })
    }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT")?;
        write!(f, "{}", Flag("DISTINCT", self.distinct))?;
        if let Some(top) = &self.top {
            write!(f, " {top}")?;
        }
        write!(f, " {}", Commas(&self.items))?;
        if let Some(into) = &self.into {
            write!(f, " INTO {}{}", into.table, Clause("ON", &into.filegroup))?;
        }
        if !self.from.is_empty() {
            write!(f, " FROM {}", Commas(&self.from))?;
        }
        write!(f, "{}", Clause("WHERE", &self.filter))?;
        write!(f, "{}", Clause("GROUP BY", &self.group_by))?;
        write!(f, "{}", Clause("HAVING", &self.having))?;
        for (index, (name, window)) in self.windows.iter().enumerate() {
            let word = if index == 0 { " WINDOW" } else { "," };
            write!(f, "{word} {name} AS ")?;
            match &window.name {
                Some(base)
                    if window.partition_by.is_empty()
                        && window.order_by.is_empty()
                        && window.frame.is_none() =>
                {
                    write!(f, "({base})")?;
                }
                _ => window.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl Display for Top {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.count {
            Expr::Subquery(query) => write!(f, "TOP ({query})")?,
            count => write!(f, "TOP ({count})")?,
        }
        write!(
            f,
            "{}{}",
            Flag("PERCENT", self.percent),
            Flag("WITH TIES", self.with_ties)
        )
    }
}

impl Display for SelectItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SelectItem::Wildcard {
                qualifier: Some(qualifier),
                ..
            } => write!(f, "{qualifier}.*"),
            SelectItem::Wildcard {
                qualifier: None, ..
            } => f.write_str("*"),
            SelectItem::Expr { expr, alias } => write!(f, "{expr}{}", Clause("AS", alias)),
            SelectItem::Assign {
                variable,
                op,
                value,
            } => write!(f, "{variable} {op} {value}"),
        }
    }
}

impl Display for GroupBy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.all { "ALL " } else { "" })?;
        write!(f, "{}", Commas(&self.items))?;
        f.write_str(match self.with {
            Some(GroupByWith::Rollup) => " WITH ROLLUP",
            Some(GroupByWith::Cube) => " WITH CUBE",
            None => "",
        })
    }
}

impl Display for GroupingElement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            GroupingElement::Expr(expr) => expr.fmt(f),
            GroupingElement::Composite(items) => write!(f, "({})", Commas(items)),
            GroupingElement::Rollup(items) => write!(f, "ROLLUP ({})", Commas(items)),
            GroupingElement::Cube(items) => write!(f, "CUBE ({})", Commas(items)),
            GroupingElement::Sets(items) => write!(f, "GROUPING SETS ({})", Commas(items)),
        }
    }
}

impl Display for ForClause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let directives = match self {
            ForClause::Browse => return f.write_str("BROWSE"),
            ForClause::Xml {
                mode,
                element,
                directives,
            } => {
                f.write_str(match mode {
                    ForXmlMode::Raw => "XML RAW",
                    ForXmlMode::Auto => "XML AUTO",
                    ForXmlMode::Explicit => "XML EXPLICIT",
                    ForXmlMode::Path => "XML PATH",
                })?;
                if let Some(element) = element {
                    write!(f, " ({})", Quote(element))?;
                }
                directives
            }
            ForClause::Json { mode, directives } => {
                f.write_str(if *mode == ForJsonMode::Auto {
                    "JSON AUTO"
                } else {
                    "JSON PATH"
                })?;
                directives
            }
        };
        for directive in directives {
            match &directive.value {
                OptionValue::Expr(value) => write!(f, ", {} ({value})", directive.name)?,
                _ => write!(f, ", {}", directive.name)?,
            }
        }
        Ok(())
    }
}

impl Display for QueryHint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            QueryHint::Number { name, value } if name.contains("GRANT_PERCENT") => {
                write!(f, "{name} = {value}")
            }
            QueryHint::Number { name, value } => write!(f, "{name} {value}"),
            QueryHint::Word(words) => f.write_str(words),
            QueryHint::OptimizeFor(variables) if variables.is_empty() => {
                f.write_str("OPTIMIZE FOR UNKNOWN")
            }
            QueryHint::OptimizeFor(variables) => {
                f.write_str("OPTIMIZE FOR (")?;
                for (index, (name, value)) in variables.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    match value {
                        Some(value) => write!(f, "{name} = {value}")?,
                        None => write!(f, "{name} UNKNOWN")?,
                    }
                }
                f.write_str(")")
            }
            QueryHint::UseHint(names) => {
                let names: Vec<Quote<'_>> = names.iter().map(|name| Quote(name)).collect();
                write!(f, "USE HINT ({})", Commas(&names))
            }
            QueryHint::UsePlan(plan) => write!(f, "USE PLAN N{}", Quote(plan)),
            QueryHint::Label(label) => write!(f, "LABEL = {}", Quote(label)),
            QueryHint::TableHint { object, hints } => {
                write!(f, "TABLE HINT ({object}")?;
                hints.iter().try_for_each(|hint| write!(f, ", {hint}"))?;
                f.write_str(")")
            }
        }
    }
}
