//! SELECT INTO: a new table with the columns of a query, filled with its rows.

use super::table::Builder;
use crate::binder::IdentityCall;
use crate::dml;
use crate::error::Result;
use crate::executor::{RowBatch, SelectPlan, open};
use crate::host::{Resolved, TableKind, TableRef};
use crate::instance::TEMPDB;
use crate::messages;
use crate::session::Execution;
use daruma_catalog::{ColumnDef, IdentityDef, ObjectKind, Put};
use daruma_syntax::ast::{SelectInto, SelectItem};
use daruma_value::DataType;
use std::sync::Arc;

pub(crate) fn select_into(
    ex: &Execution<'_>,
    (into, items): (&SelectInto, &[SelectItem]),
    plan: &Arc<SelectPlan>,
) -> Result<u64> {
    let mut numbers = Numbers::find(items, plan, &into.table.name.text)?;
    let table = create(ex, into, plan)?;
    ex.note_planned();
    let mut stream = open(plan, ex)?;
    let mut next = |batch: &mut RowBatch| {
        let is_more = stream.next(batch)?;
        match &mut numbers {
            Some(numbers) if is_more => numbers.put(batch)?,
            _ => {}
        }
        Ok(is_more)
    };
    dml::bulk::insert_stream(ex, &table, &mut next)
}

/// The column that IDENTITY(type, seed, increment) makes.
struct Numbers {
    /// Its place among the columns.
    at: usize,
    data_type: DataType,
    next: i128,
    increment: i128,
}

impl Numbers {
    /// Errors 8108 and 8109: a table has one identity column.
    fn find(items: &[SelectItem], plan: &SelectPlan, table: &str) -> Result<Option<Numbers>> {
        let call = |item: &SelectItem| match item {
            SelectItem::Expr { expr, .. } => IdentityCall::of(expr),
            _ => None,
        };
        let mut calls = items.iter().filter_map(call);
        let Some(call) = calls.next() else {
            return Ok(None);
        };
        let call = call?;
        if calls.next().is_some() {
            return Err(messages::error(8109, &[&table]));
        }
        let Some((at, _)) = plan.numbering() else {
            // Of a set operation, where it is a column like others.
            return Err(messages::error(177, &[]));
        };
        let numbered = &plan.columns()[at];
        if !numbered.computed {
            return Err(messages::error(8108, &[&table, &numbered.name]));
        }
        Ok(Some(Numbers {
            at,
            data_type: numbered.data_type,
            next: call.seed,
            increment: call.increment,
        }))
    }

    fn put(&mut self, batch: &mut RowBatch) -> Result<()> {
        for row in 0..batch.len() {
            let value = dml::identity_value(self.next, self.data_type)?;
            if let Some(cell) = batch.row_mut(row).get_mut(self.at) {
                *cell = value;
            }
            self.next = self.next.saturating_add(self.increment);
        }
        Ok(())
    }
}

fn create(ex: &Execution<'_>, into: &SelectInto, plan: &SelectPlan) -> Result<TableRef> {
    let name = &into.table;
    let temporary = name.is_temporary();
    let (database, schema_id) = match temporary {
        true => (TEMPDB, daruma_catalog::SCHEMA_DBO),
        false => {
            // Definitions are locked already.
            super::place_for(ex, name)?
        }
    };
    if temporary && ex.state.temp_name_in_use(&name.name.text) {
        return Err(messages::error_state(2714, 6, &[&name.name.text]));
    }
    if !temporary {
        super::reserve_name(ex, database, schema_id, &name.name.text)?;
    }
    let kind = if temporary {
        TableKind::Temporary
    } else {
        TableKind::User
    };
    let mut builder = Builder::new(ex, database, schema_id, kind, &name.name.text)?;
    if !temporary {
        builder.def.filegroup =
            super::table::named_filegroup(ex, database, into.filegroup.as_ref())?;
    }
    define(&mut builder, plan)?;
    let heap = builder.heap();
    builder.def.indexes.push(heap);
    builder.create_trees()?;
    let open = ex.instance().open_database(database)?;
    if temporary {
        let table = TableRef {
            database: open.storage,
            object_id: builder.table_id,
            schema_name: "dbo".to_string(),
            name: builder.table_name.clone(),
            def: Arc::new(builder.def),
            kind,
            table_type: None,
        };
        ex.state.add_temp(table.clone());
        return Ok(table);
    }
    let object = super::new_object(
        ex,
        builder.table_id,
        schema_id,
        &name.name.text,
        ObjectKind::Table(Arc::new(builder.def)),
    );
    super::put_object(ex, database, Put::new(object))?;
    match ex.resolve_name(database, name)? {
        Resolved::Table(table) => Ok(table),
        _ => Err(messages::error(208, &[&name.dotted()])),
    }
}

fn define(builder: &mut Builder<'_, '_>, plan: &SelectPlan) -> Result<()> {
    for (at, column) in plan.columns().iter().enumerate() {
        if column.name.is_empty() {
            return Err(messages::error_state(1038, 5, &[]));
        }
        if builder.def.column_named(&column.name).is_some() {
            return Err(messages::error_state(
                2705,
                3,
                &[&column.name, &builder.table_name],
            ));
        }
        let id = at as i32 + 1;
        if let Some((_, numbering)) = plan.numbering().filter(|(which, _)| *which == at) {
            builder.def.identity = Some(IdentityDef {
                column_id: id,
                seed: numbering.seed,
                increment: numbering.increment,
                not_for_replication: false,
            });
        }
        let made = ColumnDef {
            is_identity: builder.def.identity.is_some_and(|i| i.column_id == id),
            ..super::result_column(at, column)
        };
        builder.check_padding(&made)?;
        builder.def.columns.push(made);
        builder.def.next_column_id = id + 1;
    }
    Ok(())
}
