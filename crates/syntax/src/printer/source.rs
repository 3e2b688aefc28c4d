//! Table sources and hints.

use super::expr::Row;
use super::{Clause, Commas, Parens, Quote};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

/// ` AS alias (columns)`.
struct Alias<'a>(&'a Option<Ident>, &'a [Ident]);

impl Display for Alias<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Clause("AS", self.0), Parens(self.1))
    }
}

/// ` WITH (hints)`.
pub(super) struct Hints<'a>(pub &'a [TableHint]);

impl Display for Hints<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " WITH ({})", Commas(self.0))
        }
    }
}

/// The right side of a join: another join in parentheses.
struct Right<'a>(&'a TableSource);

impl Display for Right<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            TableSource::Join(_)
            | TableSource::Apply { .. }
            | TableSource::Pivot(_)
            | TableSource::Unpivot(_) => {
                write!(f, "({})", self.0)
            }
            source => source.fmt(f),
        }
    }
}

impl Display for TableSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TableSource::Table(table) => table.fmt(f),
            TableSource::Variable {
                name, alias, hints, ..
            } => {
                write!(f, "{name}{}{}", Clause("AS", alias), Hints(hints))
            }
            TableSource::Function(function) => function.fmt(f),
            TableSource::MethodRows {
                target,
                method,
                args,
                alias,
                columns,
            } => {
                write!(
                    f,
                    "{target}.{method}({}){}",
                    Commas(args),
                    Alias(alias, columns)
                )
            }
            TableSource::Derived {
                query,
                alias,
                columns,
                ..
            } => write!(f, "({query}){}", Alias(alias, columns)),
            TableSource::Values {
                rows,
                alias,
                columns,
                ..
            } => {
                let rows: Vec<Row<'_>> = rows.iter().map(|row| Row(row)).collect();
                write!(f, "(VALUES {}){}", Commas(&rows), Alias(alias, columns))
            }
            TableSource::Modification {
                statement,
                alias,
                columns,
            } => {
                write!(f, "({statement}){}", Alias(alias, columns))
            }
            TableSource::Join(join) => join.fmt(f),
            TableSource::Apply { left, right, outer } => {
                write!(
                    f,
                    "{left} {} APPLY {}",
                    if *outer { "OUTER" } else { "CROSS" },
                    Right(right)
                )
            }
            TableSource::Pivot(pivot) => {
                let Pivot {
                    source,
                    aggregate,
                    column,
                    values,
                    alias,
                } = pivot.as_ref();
                let values = Commas(values);
                write!(
                    f,
                    "{source} PIVOT ({aggregate} FOR {column} IN ({values})){}",
                    Clause("AS", alias)
                )
            }
            TableSource::Unpivot(unpivot) => {
                let Unpivot {
                    source,
                    value,
                    column,
                    columns,
                    alias,
                } = unpivot.as_ref();
                let columns = Commas(columns);
                write!(
                    f,
                    "{source} UNPIVOT ({value} FOR {column} IN ({columns})){}",
                    Clause("AS", alias)
                )
            }
            TableSource::Rowset(rowset) => rowset.fmt(f),
        }
    }
}

impl Display for Join {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            JoinKind::Inner => "INNER ",
            JoinKind::Left => "LEFT ",
            JoinKind::Right => "RIGHT ",
            JoinKind::Full => "FULL ",
            JoinKind::Cross => "CROSS ",
        };
        let hint = match self.hint {
            Some(JoinHint::Loop) => "LOOP ",
            Some(JoinHint::Hash) => "HASH ",
            Some(JoinHint::Merge) => "MERGE ",
            Some(JoinHint::Remote) => "REMOTE ",
            None => "",
        };
        write!(
            f,
            "{} {kind}{hint}JOIN {}{}",
            self.left,
            Right(&self.right),
            Clause("ON", &self.on)
        )
    }
}

impl Display for TableRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        if let Some(time) = &self.system_time {
            write!(f, " FOR SYSTEM_TIME {time}")?;
        }
        write!(
            f,
            "{}{}{}",
            Clause("AS", &self.alias),
            Clause("TABLESAMPLE", &self.sample),
            Hints(&self.hints)
        )
    }
}

impl Display for TableFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (
            self.call.name.name.is("CHANGETABLE"),
            self.call.args.split_first(),
        ) {
            (true, Some((word, rest))) => write!(f, "{}({word} {})", self.call.name, Commas(rest))?,
            _ => self.call.fmt(f)?,
        }
        if !self.schema.is_empty() {
            write!(f, " WITH ({})", Commas(&self.schema))?;
        }
        write!(
            f,
            "{}{}",
            Alias(&self.alias, &self.columns),
            Hints(&self.hints)
        )
    }
}

impl Display for SystemTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SystemTime::AsOf(time) => write!(f, "AS OF {time}"),
            SystemTime::FromTo(low, high) => write!(f, "FROM {low} TO {high}"),
            SystemTime::Between(low, high) => write!(f, "BETWEEN {low} AND {high}"),
            SystemTime::ContainedIn(low, high) => write!(f, "CONTAINED IN ({low}, {high})"),
            SystemTime::All => f.write_str("ALL"),
        }
    }
}

impl Display for TableSample {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let system = if self.system { "SYSTEM " } else { "" };
        let unit = if self.unit == SampleUnit::Rows {
            "ROWS"
        } else {
            "PERCENT"
        };
        write!(f, "{system}({} {unit})", self.amount)?;
        match &self.repeatable {
            Some(seed) => write!(f, " REPEATABLE ({seed})"),
            None => Ok(()),
        }
    }
}

impl Display for TableHint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TableHint::Word(word) => f.write_str(word),
            TableHint::Index(indexes) => write!(f, "INDEX ({})", Commas(indexes)),
            TableHint::ForceSeek { index, columns } => {
                write!(f, "FORCESEEK ({index}{})", Parens(columns))
            }
            TableHint::SpatialWindowMaxCells(count) => {
                write!(f, "SPATIAL_WINDOW_MAX_CELLS = {count}")
            }
        }
    }
}

impl Display for Rowset {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Rowset::OpenQuery {
                server,
                query,
                alias,
                columns,
            } => {
                write!(
                    f,
                    "OPENQUERY({server}, {}){}",
                    Quote(query),
                    Alias(alias, columns)
                )
            }
            Rowset::OpenRowset {
                args,
                schema,
                alias,
                columns,
            } => {
                write!(f, "OPENROWSET({})", Commas(args))?;
                if !schema.is_empty() {
                    write!(f, " WITH ({})", Commas(schema))?;
                }
                Alias(alias, columns).fmt(f)
            }
            Rowset::OpenDataSource {
                provider,
                init,
                name,
                alias,
            } => {
                let (provider, init) = (Quote(provider), Quote(init));
                write!(
                    f,
                    "OPENDATASOURCE({provider}, {init}).{name}{}",
                    Clause("AS", alias)
                )
            }
            Rowset::OpenXml {
                args,
                schema,
                table,
                alias,
            } => {
                write!(f, "OPENXML({})", Commas(args))?;
                if !schema.is_empty() {
                    write!(f, " WITH ({})", Commas(schema))?;
                }
                write!(f, "{}{}", Clause("WITH", table), Clause("AS", alias))
            }
        }
    }
}

impl Display for RowsetArg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            RowsetArg::Value(value) => value.fmt(f),
            RowsetArg::Bulk(files) => match files.as_slice() {
                [file] => write!(f, "BULK {}", Quote(file)),
                files => {
                    let files: Vec<Quote<'_>> = files.iter().map(|file| Quote(file)).collect();
                    write!(f, "BULK ({})", Commas(&files))
                }
            },
            RowsetArg::Word(word) => f.write_str(word),
            RowsetArg::Option(option) => option.fmt(f),
            RowsetArg::Object(name) => name.fmt(f),
            RowsetArg::Connection(pieces) => {
                for (index, piece) in pieces.iter().enumerate() {
                    write!(f, "{}{}", if index > 0 { ";" } else { "" }, Quote(piece))?;
                }
                Ok(())
            }
        }
    }
}
