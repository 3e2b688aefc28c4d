//! PIVOT and UNPIVOT, in terms of aggregation and of rows made beside each row.
//!
//! Theory: PIVOT groups by every column of its source that it does not name, with one aggregate over a CASE for each
//! listed value. UNPIVOT joins each row with a list of (value, column name) and drops the NULLs.

use super::scope::ScopeEntry;
use super::tree::*;
use super::{Binder, expr, types};
use crate::error::{Result, SqlError};
use daruma_catalog::names_equal;
use daruma_syntax::ast::{self, CompareOp};
use daruma_value::{DataType, Value};

impl Binder<'_> {
    /// Binds a source alone and takes its names out of the scope again.
    fn inner_source(&mut self, source: &ast::TableSource) -> Result<(Rel, Vec<ScopeEntry>)> {
        let before = self.scope().tables.len();
        let rel = self.source(source)?;
        let entries = self.scope().tables.split_off(before);
        Ok((rel, entries))
    }

    pub(super) fn pivot(&mut self, pivot: &ast::Pivot) -> Result<Rel> {
        let (rel, entries) = self.inner_source(&pivot.source)?;
        // Columns that are not pivoted group.
        entries.iter().for_each(|e| self.note_all(e));
        self.scopes
            .push(super::NameScope::of_tables(entries.clone()));
        let bound = self.pivot_parts(pivot);
        self.scopes.pop();
        let (column, aggregate) = bound?;
        let mut used = column.column_set();
        if let Some(arg) = &aggregate.arg {
            arg.columns(&mut used);
        }
        let kept: Vec<(String, ColId)> = entries
            .iter()
            .flat_map(|e| &e.columns)
            .filter(|(_, id)| !used.contains(id))
            .cloned()
            .collect();
        let mut aggregates = Vec::new();
        let mut names = kept.clone();
        for value in &pivot.values {
            let constant = self.text(&value.text, true);
            let when = expr::compare(CompareOp::Equal, column.clone(), constant)?;
            let then = aggregate
                .arg
                .clone()
                .unwrap_or(Scalar::constant(Value::Int(1), DataType::Int));
            let ty = then.ty.nullable(true);
            let case = Scalar::new(
                Kind::Case {
                    whens: vec![(when, then)],
                    otherwise: None,
                },
                ty,
            );
            let function = match aggregate.function {
                AggregateFunction::Count | AggregateFunction::CountBig => AggregateFunction::Count,
                other => other,
            };
            let call = Aggregate {
                function,
                arg: Some(case),
                ..aggregate.clone()
            };
            let ty = self.aggregate_type(&call)?;
            let id = self.new_computed(
                &value.text,
                &Scalar::new(Kind::Const(Value::Bit(false)), ty),
            )?;
            aggregates.push((id, call));
            names.push((value.text.clone(), id));
        }
        let rel = Rel::Aggregate(Box::new(Grouping {
            input: rel,
            scalar: kept.is_empty(),
            keys: kept.into_iter().map(|(_, id)| id).collect(),
            aggregates,
            sets: None,
        }));
        self.expose_as(names, pivot.alias.as_ref())?;
        Ok(rel)
    }

    fn pivot_parts(&mut self, pivot: &ast::Pivot) -> Result<(Scalar, Aggregate)> {
        let column = self.resolve_column(&pivot.column)?;
        match self.function(&pivot.aggregate)?.kind {
            Kind::Aggregate(aggregate) => Ok((column, *aggregate)),
            _ => Err(SqlError::new(
                195,
                15,
                1,
                format!(
                    "'{}' is not a recognized aggregate function.",
                    pivot.aggregate.name.name.text
                ),
            )),
        }
    }

    pub(super) fn unpivot(&mut self, unpivot: &ast::Unpivot) -> Result<Rel> {
        let (rel, entries) = self.inner_source(&unpivot.source)?;
        entries.iter().for_each(|e| self.note_all(e));
        self.scopes
            .push(super::NameScope::of_tables(entries.clone()));
        let columns = unpivot
            .columns
            .iter()
            .map(|c| self.resolve_column(c))
            .collect::<Result<Vec<_>>>();
        self.scopes.pop();
        let mut values = columns?;
        let taken: Vec<ColId> = values.iter().filter_map(Scalar::as_column).collect();
        let ty = types::unify(&mut values)?;
        let longest = unpivot
            .columns
            .iter()
            .map(|c| c.name.text.len())
            .max()
            .unwrap_or(1);
        let sample = Scalar::new(Kind::Const(Value::Bit(false)), ty);
        let value_id = self.new_computed(&unpivot.value.text, &sample)?;
        let name_type = DataType::NVarChar(types::literal_len(longest.max(128), 4000));
        let name_id = self.new_computed(
            &unpivot.column.text,
            &Scalar::constant(Value::str(""), name_type),
        )?;
        let row = |(value, column): (Scalar, &ast::ColumnPath)| {
            vec![value, self.text(&column.name.text, true)]
        };
        let rows = values.into_iter().zip(&unpivot.columns).map(row).collect();
        let list = Rel::Values {
            rows,
            columns: vec![value_id, name_id],
        };
        let present = Scalar::condition(Kind::IsNull(Box::new(self.column(value_id)))).negate();
        let joined =
            super::from::join(JoinKind::Inner, rel, list, None, None).filter(Some(present));
        let mut names: Vec<(String, ColId)> = entries
            .iter()
            .flat_map(|e| &e.columns)
            .filter(|(_, id)| !taken.contains(id))
            .cloned()
            .collect();
        names.push((unpivot.value.text.clone(), value_id));
        names.push((unpivot.column.text.clone(), name_id));
        self.expose_as(names, unpivot.alias.as_ref())?;
        Ok(joined)
    }

    fn expose_as(
        &mut self,
        columns: Vec<(String, ColId)>,
        alias: Option<&ast::Ident>,
    ) -> Result<()> {
        let name = alias.map_or(String::new(), |a| a.text.clone());
        for (position, (column, _)) in columns.iter().enumerate() {
            if columns
                .iter()
                .take(position)
                .any(|(n, _)| names_equal(n, column))
            {
                return Err(SqlError::new(
                    8156,
                    16,
                    1,
                    format!("The column '{column}' was specified multiple times for '{name}'."),
                ));
            }
        }
        self.add_table(ScopeEntry {
            name,
            schema: None,
            database: None,
            columns,
            used: None,
        })
    }
}
