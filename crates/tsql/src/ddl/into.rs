//! SELECT INTO: a new table with the columns of a query, filled with its rows.

use super::table::Builder;
use crate::dml;
use crate::error::Result;
use crate::executor::{RowBatch, SelectPlan, open};
use crate::host::{Resolved, TableKind, TableRef};
use crate::instance::TEMPDB;
use crate::messages;
use crate::session::Execution;
use daruma_catalog::{ColumnDef, IdentityDef, ObjectKind};
use daruma_syntax::ast::SelectInto;
use std::sync::Arc;

pub(crate) fn select_into(
    ex: &Execution<'_>,
    into: &SelectInto,
    plan: &Arc<SelectPlan>,
) -> Result<u64> {
    let table = create(ex, into, plan)?;
    ex.note_planned();
    let mut stream = open(plan, ex)?;
    let mut next = |batch: &mut RowBatch| stream.next(batch);
    dml::bulk::insert_stream(ex, &table, &mut next)
}

fn create(ex: &Execution<'_>, into: &SelectInto, plan: &SelectPlan) -> Result<TableRef> {
    let name = &into.table;
    let temporary = name.is_temporary();
    let (database, schema_id) = match temporary {
        true => (TEMPDB, daruma_catalog::SCHEMA_DBO),
        false => super::place_for(ex, name)?,
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
    super::put_object(ex, database, object)?;
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
        if column.identity && builder.def.identity.is_none() {
            builder.def.identity = Some(IdentityDef {
                column_id: id,
                seed: 1,
                increment: 1,
                not_for_replication: false,
            });
        }
        builder.def.columns.push(ColumnDef {
            is_identity: builder.def.identity.is_some_and(|i| i.column_id == id),
            ..super::result_column(at, column)
        });
        builder.def.next_column_id = id + 1;
    }
    Ok(())
}
