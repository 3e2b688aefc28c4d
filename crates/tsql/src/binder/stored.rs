//! Stored tables in FROM: their scan, its hints, the columns computed above it and the filters of its indexes.

use super::scope::{NameScope, ScopeEntry, UsedObject};
use super::tree::*;
use super::{Binder, ColumnInfo, Numbering, types, unsupported};
use crate::access::TableAccess;
use crate::error::Result;
use crate::host::{LockHints, TableKind, TableRef};
use daruma_catalog::names_equal;
use daruma_syntax::ast::{Ident, TableHint};
use daruma_syntax::{ParseOptions, parse_condition, parse_expression};

impl Binder<'_> {
    /// A stored table. `schema` is `None` when the table is known by its alias only.
    pub(super) fn scan(
        &mut self,
        table: TableRef,
        alias: &str,
        qualified: &str,
        schema: Option<Option<String>>,
        hints: &[TableHint],
    ) -> Result<Rel> {
        let access = TableAccess::new(&table)?;
        let mut columns = Vec::with_capacity(table.def.columns.len());
        let numbering = table.def.identity.map(|i| Numbering {
            seed: i.seed,
            increment: i.increment,
        });
        for column in &table.def.columns {
            let ty = Type {
                data_type: column.data_type,
                nullable: column.nullable,
                collation: column.collation,
                coercion: Coercion::Implicit,
            };
            columns.push(self.new_column(ColumnInfo {
                ty,
                name: column.name.clone(),
                qualified: format!("{qualified}.{}", column.name),
                identity: numbering.filter(|_| column.is_identity),
                rowguid: column.is_rowguid,
                computed: column.computed.is_some(),
                null_literal: false,
            })?);
        }
        let target = self.take_target(&table, &columns)?;
        let more: &[TableHint] = match target {
            Some(_) => self.target_hints(),
            None => &[],
        };
        let (locks, forced_index, force_seek) = match more.is_empty() && self.outer_hints.is_empty()
        {
            true => table_hints(&table, hints)?,
            false => table_hints(&table, &[hints, more, self.outer_hints.as_slice()].concat())?,
        };
        if target.is_some() && locks.nolock {
            return Err(crate::messages::error(1065, &[]));
        }
        let filters = self.index_filters(&table, &columns)?;
        let scan = TableScan {
            access,
            alias: alias.to_string(),
            columns: columns.clone(),
            filters,
            hints: locks,
            forced_index,
            force_seek,
            target,
            locator: None,
            pin: None,
        };
        let names = |c: &[ColId]| {
            table
                .def
                .columns
                .iter()
                .zip(c)
                .map(|(d, id)| (d.name.clone(), *id))
                .collect::<Vec<_>>()
        };
        let scanned = columns.clone();
        let (rel, columns) = self.add_computed(scan, columns)?;
        if scanned != columns {
            self.note_target_columns(&scanned, &columns);
        }
        let database = schema.as_ref().map(|_| table.database.name());
        let schema = schema.map(|s| s.unwrap_or_else(|| table.schema_name.clone()));
        self.add_table(ScopeEntry {
            name: alias.to_string(),
            schema,
            database,
            columns: names(&columns),
            used: used_table(&table),
        })?;
        Ok(rel)
    }

    /// Virtual computed columns are computed above the scan, under numbers of their own.
    fn add_computed(
        &mut self,
        scan: TableScan,
        mut columns: Vec<ColId>,
    ) -> Result<(Rel, Vec<ColId>)> {
        let def = scan.access.table.def.clone();
        let mut items = Vec::new();
        for (ordinal, column) in def.columns.iter().enumerate() {
            let Some(computed) = column.computed.as_ref().filter(|c| !c.persisted) else {
                continue;
            };
            let inner: Vec<_> = def
                .columns
                .iter()
                .zip(&columns)
                .map(|(d, id)| (d.name.clone(), *id))
                .collect();
            let expr = parse_expression(&computed.definition, &ParseOptions::default())
                .map_err(super::from::stored_text)?;
            let entry = ScopeEntry {
                name: scan.access.table.name.clone(),
                schema: None,
                database: None,
                columns: inner,
                used: None,
            };
            let database = match scan.access.table.kind {
                TableKind::User => Some(scan.access.table.database.id()),
                _ => None,
            };
            let outer = std::mem::replace(&mut self.database, database);
            let stored = std::mem::replace(&mut self.in_stored_text, true);
            self.host.enter_stored_text();
            let scalar =
                self.of_stored_text(|b| b.scalar_in(NameScope::of_tables(vec![entry]), &expr));
            self.host.leave_stored_text();
            self.database = outer;
            self.in_stored_text = stored;
            let scalar = scalar?;
            let scalar = types::convert(scalar, column.data_type)?;
            let mut info = self.columns[columns[ordinal] as usize].clone();
            info.ty.nullable = scalar.ty.nullable;
            let id = self.new_column(info)?;
            columns[ordinal] = id;
            items.push((id, scalar));
        }
        Ok((Rel::Table(Box::new(scan)).compute(items), columns))
    }

    /// Filters of indexes over the columns of the scan.
    fn index_filters(
        &mut self,
        table: &TableRef,
        columns: &[ColId],
    ) -> Result<Vec<(usize, Vec<Scalar>)>> {
        let mut filters = Vec::new();
        for (position, index) in table.def.indexes.iter().enumerate() {
            let Some(text) = &index.filter else {
                continue;
            };
            let condition = parse_condition(text, &ParseOptions::default())
                .map_err(super::from::stored_text)?;
            let names = table.def.columns.iter().map(|c| c.name.clone());
            let entry = ScopeEntry {
                name: table.name.clone(),
                schema: None,
                database: None,
                columns: names.zip(columns.iter().copied()).collect(),
                used: None,
            };
            let scope = NameScope::of_tables(vec![entry]);
            let bound = self.of_stored_text(|b| b.condition_in(scope, &condition))?;
            let mut parts = Vec::new();
            bound.conjuncts(&mut parts);
            filters.push((position, parts));
        }
        Ok(filters)
    }
}

/// Hints of the table that INSERT fills: none of them chooses an index, reads less than the rows that are there, or
/// loads a file.
pub fn insert_hints(table: &TableRef, hints: &[TableHint]) -> Result<LockHints> {
    let (locks, index, seek) = table_hints(table, hints)?;
    let refused = |what: &str| Err(unsupported(&format!("{what} on the target of INSERT")));
    match locks {
        _ if index.is_some() || seek => refused("An index hint"),
        locks if locks.nolock => Err(crate::messages::error(1065, &[])),
        locks if locks.readpast => refused("READPAST"),
        locks => Ok(locks),
    }
}

/// A hint of OPTION (TABLE HINT ..) chooses a way to read. One of locks has an effect only where the table itself has it too, and so
/// does not stand alone there.
pub(super) fn refuse_lock_hint(hint: &TableHint) -> Result<()> {
    match hint {
        TableHint::Word(word) if !matches!(word.as_str(), "FORCESEEK" | "FORCESCAN") => {
            Err(unsupported(&format!("{word} in TABLE HINT")))
        }
        _ => Ok(()),
    }
}

/// What hints ask for: locks, an index, a seek.
pub(super) fn table_hints(
    table: &TableRef,
    hints: &[TableHint],
) -> Result<(LockHints, Option<usize>, bool)> {
    let mut locks = LockHints::default();
    let (mut forced, mut seek) = (None, false);
    for hint in hints {
        match hint {
            TableHint::Word(word) => match word.to_ascii_uppercase().as_str() {
                "NOLOCK" | "READUNCOMMITTED" => locks.nolock = true,
                "UPDLOCK" => locks.updlock = true,
                "XLOCK" => locks.xlock = true,
                "HOLDLOCK" | "SERIALIZABLE" => locks.holdlock = true,
                "REPEATABLEREAD" => locks.repeatableread = true,
                "TABLOCK" => locks.tablock = true,
                "TABLOCKX" => locks.tablockx = true,
                "READPAST" => locks.readpast = true,
                "READCOMMITTEDLOCK" => locks.readcommittedlock = true,
                "NOWAIT" => locks.nowait = true,
                "FORCESEEK" => seek = true,
                "READCOMMITTED" => locks.readcommitted = true,
                "NOEXPAND" => {
                    return Err(crate::messages::error(8171, &[&"noexpand", &table.name]));
                }
                word @ ("SNAPSHOT" | "KEEPIDENTITY" | "KEEPDEFAULTS" | "IGNORE_CONSTRAINTS"
                | "IGNORE_TRIGGERS") => {
                    return Err(unsupported(&format!("The table hint {word} here")));
                }
                // ROWLOCK, PAGLOCK and FORCESCAN ask for what is done anyway, or may be. The parser knows no others.
                _ => {}
            },
            TableHint::Index(names) => {
                if let Some(name) = names.first() {
                    forced = Some(index_named(table, name)?);
                }
            }
            TableHint::ForceSeek { index, .. } => {
                forced = Some(index_named(table, index)?);
                seek = true;
            }
            TableHint::SpatialWindowMaxCells(_) => {
                return Err(crate::messages::error(
                    8171,
                    &[&"spatial_window_max_cells", &table.name],
                ));
            }
        }
    }
    // Contradictions: no locks and locks, or passing rows while the whole table is locked.
    let locking = locks.holdlock || locks.repeatableread || locks.updlock || locks.xlock;
    if locks.nolock && (locking || locks.readpast || locks.tablock || locks.tablockx) {
        return Err(crate::messages::error(1047, &[]));
    }
    Ok((locks, forced, seek))
}

/// Index hint: a name or a number, where 0 means the table itself. Error 308.
fn index_named(table: &TableRef, name: &Ident) -> Result<usize> {
    if !name.quoted && name.text == "0" {
        return Ok(0);
    }
    let number = if name.quoted {
        None
    } else {
        name.text.parse::<i32>().ok()
    };
    let matches = |i: &daruma_catalog::IndexDef| match number {
        Some(n) => i.id == n,
        None => i.name.as_ref().is_some_and(|n| names_equal(n, &name.text)),
    };
    let shown = format!("{}.{}", table.schema_name, table.name);
    let found = table.def.indexes.iter().position(matches);
    found.ok_or_else(|| match number {
        Some(number) => crate::messages::error(307, &[&number, &shown]),
        None => crate::messages::error(308, &[&name.text, &shown]),
    })
}

fn used_table(table: &TableRef) -> Option<UsedObject> {
    (table.kind == TableKind::User).then(|| UsedObject {
        database: table.database.id(),
        object: table.object_id,
        columns: table.def.columns.iter().map(|c| c.id).collect(),
    })
}
