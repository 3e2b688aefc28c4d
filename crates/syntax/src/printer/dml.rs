//! Statements which change rows.

use super::expr::Row;
use super::option::WithOptions;
use super::query::QueryOptions;
use super::source::Hints;
use super::{Clause, Commas, Flag, Parens, Quote};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for DataModification {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            DataModification::Insert(insert) => insert.fmt(f),
            DataModification::Update(update) => update.fmt(f),
            DataModification::Delete(delete) => delete.fmt(f),
            DataModification::Merge(merge) => merge.fmt(f),
        }
    }
}

impl Display for DmlTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            DmlTarget::Table { name, hints } => write!(f, "{name}{}", Hints(hints)),
            DmlTarget::Variable { name, .. } => f.write_str(name),
            DmlTarget::Rowset(rowset) => rowset.fmt(f),
        }
    }
}

fn write_verb(f: &mut Formatter<'_>, with: &With, verb: &str, top: &Option<Top>) -> fmt::Result {
    write!(f, "{with}{verb}")?;
    match top {
        Some(top) => write!(f, " {top}"),
        None => Ok(()),
    }
}

impl Display for Insert {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_verb(f, &self.with, "INSERT", &self.top)?;
        write!(f, " INTO {}{}", self.target, Parens(&self.columns))?;
        write_output(f, &self.output)?;
        match &self.source {
            InsertSource::Values(rows) => {
                let rows: Vec<Row<'_>> = rows.iter().map(|row| Row(row)).collect();
                write!(f, " VALUES {}", Commas(&rows))?;
            }
            InsertSource::Query(query) => write!(f, " {query}")?,
            InsertSource::Execute(execute) => write!(f, " {execute}")?,
            InsertSource::DefaultValues => f.write_str(" DEFAULT VALUES")?,
        }
        QueryOptions(&self.options).fmt(f)
    }
}

fn write_output(f: &mut Formatter<'_>, output: &Option<Output>) -> fmt::Result {
    let Some(output) = output else { return Ok(()) };
    if let Some(into) = &output.into {
        write!(
            f,
            " OUTPUT {} INTO {}{}",
            Commas(&into.items),
            into.target,
            Parens(&into.columns)
        )?;
    }
    if output.items.is_empty() {
        Ok(())
    } else {
        write!(f, " OUTPUT {}", Commas(&output.items))
    }
}

impl Display for OutputTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            OutputTarget::Table(name) => name.fmt(f),
            OutputTarget::Variable(name) => f.write_str(name),
        }
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_verb(f, &self.with, "UPDATE", &self.top)?;
        write!(f, " {} SET {}", self.target, Commas(&self.assignments))?;
        write_output(f, &self.output)?;
        write_from(f, &self.from)?;
        write!(
            f,
            "{}{}",
            Clause("WHERE", &self.filter),
            QueryOptions(&self.options)
        )
    }
}

fn write_from(f: &mut Formatter<'_>, from: &[TableSource]) -> fmt::Result {
    if from.is_empty() {
        Ok(())
    } else {
        write!(f, " FROM {}", Commas(from))
    }
}

impl Display for DmlFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            DmlFilter::Where(condition) => condition.fmt(f),
            DmlFilter::CurrentOf(cursor) => write!(f, "CURRENT OF {cursor}"),
        }
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Assignment::Column { column, op, value } => write!(f, "{column} {op} {value}"),
            Assignment::Variable {
                variable,
                op,
                value,
            } => write!(f, "{variable} {op} {value}"),
            Assignment::Both {
                variable,
                column,
                op,
                value,
            } => write!(f, "{variable} = {column} {op} {value}"),
            Assignment::Method {
                column,
                method,
                args,
            } => write!(f, "{column}.{method}({})", Commas(args)),
        }
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_verb(f, &self.with, "DELETE", &self.top)?;
        write!(f, " FROM {}", self.target)?;
        write_output(f, &self.output)?;
        write_from(f, &self.from)?;
        write!(
            f,
            "{}{}",
            Clause("WHERE", &self.filter),
            QueryOptions(&self.options)
        )
    }
}

impl Display for Merge {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_verb(f, &self.with, "MERGE", &self.top)?;
        write!(
            f,
            " INTO {}{} USING {} ON {}",
            self.target,
            Clause("AS", &self.alias),
            self.source,
            self.on
        )?;
        self.clauses
            .iter()
            .try_for_each(|clause| write!(f, " {clause}"))?;
        write_output(f, &self.output)?;
        QueryOptions(&self.options).fmt(f)
    }
}

impl Display for MergeClause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.when {
            MergeWhen::Matched => "WHEN MATCHED",
            MergeWhen::NotMatchedByTarget => "WHEN NOT MATCHED BY TARGET",
            MergeWhen::NotMatchedBySource => "WHEN NOT MATCHED BY SOURCE",
        })?;
        write!(f, "{} THEN ", Clause("AND", &self.condition))?;
        match &self.action {
            MergeAction::Update(assignments) => write!(f, "UPDATE SET {}", Commas(assignments)),
            MergeAction::Delete => f.write_str("DELETE"),
            MergeAction::Insert {
                columns,
                values: Some(values),
            } => {
                write!(f, "INSERT{} VALUES {}", Parens(columns), Row(values))
            }
            MergeAction::Insert {
                columns,
                values: None,
            } => write!(f, "INSERT{} DEFAULT VALUES", Parens(columns)),
        }
    }
}

impl Display for Truncate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "TRUNCATE TABLE {}", self.table)?;
        for (index, (low, high)) in self.partitions.iter().enumerate() {
            f.write_str(if index == 0 {
                " WITH (PARTITIONS ("
            } else {
                ", "
            })?;
            write!(f, "{low}{}", Clause("TO", high))?;
        }
        f.write_str(if self.partitions.is_empty() { "" } else { "))" })
    }
}

fn write_bulk_options(
    f: &mut Formatter<'_>,
    options: &[OptionItem],
    order: &[OrderItem],
) -> fmt::Result {
    match (options, order) {
        (options, []) => WithOptions(options).fmt(f),
        ([], order) => write!(f, " WITH (ORDER ({}))", Commas(order)),
        (options, order) => write!(f, " WITH ({}, ORDER ({}))", Commas(options), Commas(order)),
    }
}

impl Display for BulkInsert {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "BULK INSERT {} FROM {}", self.table, Quote(&self.file))?;
        write_bulk_options(f, &self.options, &self.order)
    }
}

impl Display for InsertBulk {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "INSERT BULK {}{}", self.table, Parens(&self.columns))?;
        write_bulk_options(f, &self.options, &self.order)
    }
}

impl Display for InsertBulkColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}{}",
            self.name,
            self.data_type,
            Clause("COLLATE", &self.collation)
        )
    }
}

impl Display for TextPointer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.verb {
            TextVerb::Read => "READTEXT",
            TextVerb::Write => "WRITETEXT",
            TextVerb::Update => "UPDATETEXT",
        })?;
        write!(
            f,
            "{} {} {}",
            Flag("BULK", self.bulk),
            self.column,
            self.pointer
        )?;
        write!(f, "{}", Flag("WITH LOG", self.with_log))?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))?;
        write!(f, "{}", Flag("HOLDLOCK", self.hold_lock))
    }
}
