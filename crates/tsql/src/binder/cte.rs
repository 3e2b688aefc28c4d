//! Common table expressions: plain ones bound where they are named, recursive ones as an anchor and a step.

use super::scope::CteEntry;
use super::tree::*;
use super::{Binder, BoundQuery, OutColumn, recursion, types};
use crate::error::{Result, SqlError};
use daruma_catalog::names_equal;
use daruma_syntax::ast::{self, Ident, QueryBody, SetOp, TableSource};
use daruma_value::DataType;
use std::sync::Arc;

impl Binder<'_> {
    pub(super) fn cte(&mut self, position: usize, alias: Option<&Ident>) -> Result<Rel> {
        let entry = self.ctes[position].clone();
        let alias = alias.unwrap_or(&entry.cte.name).clone();
        if let Some((id, columns)) = entry.work {
            let mut bound = Vec::new();
            for (name, old) in &columns {
                let info = self.columns[*old as usize].clone();
                bound.push(OutColumn {
                    name: name.clone(),
                    id: self.new_column(info)?,
                });
            }
            let rel = Rel::WorkTable {
                id,
                columns: bound.iter().map(|c| c.id).collect(),
            };
            let bound = BoundQuery {
                rel,
                columns: bound,
                assignments: Vec::new(),
            };
            return self.exposed(bound, &alias.text, &alias.text, None);
        }
        let visible = self.ctes[..entry.visible].to_vec();
        let cte = entry.cte;
        let bound = match &cte.query.body {
            QueryBody::Set { op, branches }
                if branches.iter().any(|b| mentions(b, &cte.name.text)) =>
            {
                if *op != SetOp::UnionAll {
                    return Err(SqlError::new(
                        252,
                        16,
                        1,
                        format!(
                            "Recursive common table expression '{}' does not contain a top-level UNION ALL operator.",
                            cte.name.text
                        ),
                    ));
                }
                self.isolated(visible, |b| b.recursive(&cte, branches))?
            }
            _ => self.isolated(visible, |b| b.query(&cte.query, true))?,
        };
        self.check_select(&bound)?;
        let bound = self.renamed(bound, &cte.name.text, &cte.columns)?;
        self.exposed(bound, &alias.text, &alias.text, None)
    }

    fn check_select(&self, bound: &BoundQuery) -> Result<()> {
        if bound.assignments.is_empty() {
            return Ok(());
        }
        Err(SqlError::new(
            141,
            15,
            1,
            "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
        ))
    }

    fn recursive(&mut self, cte: &Arc<ast::Cte>, branches: &[QueryBody]) -> Result<BoundQuery> {
        let name = &cte.name.text;
        let query = |body: &QueryBody| ast::Query {
            with: ast::With::default(),
            body: body.clone(),
            order_by: Vec::new(),
            offset: None,
            fetch: None,
            for_clause: None,
            options: Vec::new(),
        };
        let (steps, anchors): (Vec<_>, Vec<_>) = branches.iter().partition(|b| mentions(b, name));
        if anchors.is_empty() {
            return Err(SqlError::new(
                246,
                16,
                1,
                format!("No anchor member was specified for recursive query \"{name}\"."),
            ));
        }
        let mut bound = Vec::new();
        for anchor in anchors {
            bound.push(self.query(&query(anchor), true)?);
        }
        let anchor = if bound.len() == 1 {
            bound.remove(0)
        } else {
            self.combine(SetOp::UnionAll, bound)?
        };
        let anchor = self.renamed(anchor, name, &cte.columns)?;
        let mut columns = Vec::new();
        for column in &anchor.columns {
            let mut info = self.columns[column.id as usize].clone();
            info.ty.nullable = true;
            info.identity = None;
            columns.push(OutColumn {
                name: column.name.clone(),
                id: self.new_column(info)?,
            });
        }
        self.next_work += 1;
        let id = self.next_work;
        let names: Vec<_> = columns.iter().map(|c| (c.name.clone(), c.id)).collect();
        let visible = self.ctes.len();
        self.ctes.push(CteEntry {
            cte: cte.clone(),
            visible,
            work: Some((id, names)),
        });
        let mut bound = Vec::new();
        for step in steps {
            recursion::check_step(name, step)?;
            let step = self.query(&query(step), true)?;
            recursion::check_bound(name, &step.rel)?;
            bound.push(self.step_types(name, step, &columns)?);
        }
        self.ctes.pop();
        let step = if bound.len() == 1 {
            bound.remove(0)
        } else {
            self.combine(SetOp::UnionAll, bound)?
        };
        let ids = |q: &BoundQuery| q.columns.iter().map(|c| c.id).collect::<Vec<_>>();
        let (anchor_ids, step_ids) = (ids(&anchor), ids(&step));
        let rel = Rel::Recursive(Box::new(Recursive {
            id,
            anchor: (anchor.rel, anchor_ids),
            step: (step.rel, step_ids),
            columns: columns.iter().map(|c| c.id).collect(),
            max_recursion: self.max_recursion,
        }));
        Ok(BoundQuery {
            rel,
            columns,
            assignments: Vec::new(),
        })
    }

    /// Brings a recursive member to the anchor's types: errors 205, 240.
    fn step_types(
        &mut self,
        name: &str,
        step: BoundQuery,
        anchor: &[OutColumn],
    ) -> Result<BoundQuery> {
        if step.columns.len() != anchor.len() {
            return Err(SqlError::new(
                205,
                16,
                1,
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions \
                 in their target lists.",
            ));
        }
        let mut items = Vec::new();
        let mut columns = Vec::new();
        for (column, wanted) in step.columns.into_iter().zip(anchor) {
            let to = self.columns[wanted.id as usize].ty.data_type;
            let info = &self.columns[column.id as usize];
            if !takes(to, info.ty.data_type) && !info.null_literal {
                return Err(SqlError::new(
                    240,
                    16,
                    1,
                    format!(
                        "Types don't match between the anchor and the recursive part in column \"{}\" of recursive query \
                         \"{name}\".",
                        wanted.name
                    ),
                ));
            }
            let scalar = types::convert(self.branch_scalar(column.id), to)?;
            let id = match scalar.as_column() {
                Some(id) => id,
                None => {
                    let id = self.new_computed(&column.name, &scalar)?;
                    items.push((id, scalar));
                    id
                }
            };
            columns.push(OutColumn {
                name: column.name,
                id,
            });
        }
        Ok(BoundQuery {
            rel: step.rel.compute(items),
            columns,
            assignments: Vec::new(),
        })
    }

    fn branch_scalar(&self, id: ColId) -> Scalar {
        if self.columns[id as usize].null_literal {
            Scalar::null(DataType::Int)
        } else {
            self.column(id)
        }
    }
}

/// Is every value of type `from` one of type `to`, which is the same but for lengths and digits?
fn takes(to: DataType, from: DataType) -> bool {
    use DataType::{DateTime2, DateTimeOffset, Decimal, Time};
    match (to, from) {
        (
            Decimal { precision, scale },
            Decimal {
                precision: digits,
                scale: places,
            },
        ) => precision - scale >= digits - places && scale >= places,
        (Time { scale }, Time { scale: places })
        | (DateTime2 { scale }, DateTime2 { scale: places })
        | (DateTimeOffset { scale }, DateTimeOffset { scale: places }) => scale >= places,
        _ => to.name() == from.name() && to.declared_len() >= from.declared_len(),
    }
}

/// Does FROM of a query body name the table `name`? That makes a common table expression recursive.
pub(super) fn mentions(body: &QueryBody, name: &str) -> bool {
    match body {
        QueryBody::Select(select) => select.from.iter().any(|s| source_mentions(s, name)),
        QueryBody::Set { branches, .. } => branches.iter().any(|b| mentions(b, name)),
    }
}

pub(super) fn source_mentions(source: &TableSource, name: &str) -> bool {
    match source {
        TableSource::Table(table) => {
            table.name.is_bare() && names_equal(&table.name.name.text, name)
        }
        TableSource::Join(join) => {
            source_mentions(&join.left, name) || source_mentions(&join.right, name)
        }
        TableSource::Apply { left, right, .. } => {
            source_mentions(left, name) || source_mentions(right, name)
        }
        TableSource::Derived { query, .. } => mentions(&query.body, name),
        TableSource::Pivot(pivot) => source_mentions(&pivot.source, name),
        TableSource::Unpivot(unpivot) => source_mentions(&unpivot.source, name),
        _ => false,
    }
}
