//! CHECKCONSTRAINTS: which rows violate a CHECK or foreign key constraint?
//!
//! Each constraint becomes one query over its table, so what a constraint means is decided in one place. A row is named
//! by the columns that the constraint reads.

use super::super::dbcc::completed;
use super::super::define::{quoted, send};
use super::options::Options;
use crate::error::Result;
use crate::messages;
use crate::session::SystemCall;
use daruma_base::DatabaseId;
use daruma_catalog::{DatabaseCatalog, Object, ObjectId, ObjectKind, TableDef, names_equal};
use daruma_syntax::{ParseOptions, parse_object_name};
use daruma_value::Value;
use std::sync::Arc;

/// Rows shown without ALL_ERRORMSGS.
const ROWS_MAX: usize = 200;

/// One constraint: the query that finds its violators.
struct Constraint {
    table: String,
    name: String,
    columns: Vec<String>,
    condition: String,
}

pub(super) fn checkconstraints(call: &SystemCall<'_, '_>) -> Result<i32> {
    let options = Options::new(call, "CHECKCONSTRAINTS", None)?;
    let database = call.host().current_database();
    let catalog = call.host().catalog(database)?;
    let mut constraints = Vec::new();
    for (table, only) in named_tables(call, &catalog, database)? {
        of_table(
            &catalog,
            &table,
            only,
            options.all_constraints,
            &mut constraints,
        );
    }
    let mut violations = Vec::new();
    for constraint in &constraints {
        call.execution.check_cancel()?;
        let limit = match options.all_errormsgs {
            true => usize::MAX,
            false => ROWS_MAX.saturating_sub(violations.len()),
        };
        if limit > 0 {
            constraint.violations(call, limit, &mut violations)?;
        }
    }
    if !violations.is_empty() {
        send(
            call,
            "Table nvarchar(517); Constraint nvarchar(258); Where nvarchar(max)",
            |_, rows| {
                for [table, constraint, condition] in violations {
                    rows.add()
                        .set("Table", table)
                        .set("Constraint", constraint)
                        .set("Where", condition);
                }
                Ok(())
            },
        )?;
    }
    completed(call)
}

/// The tables that the argument names (a table, a constraint, or nothing for all), and the only constraint wanted.
fn named_tables(
    call: &SystemCall<'_, '_>,
    catalog: &DatabaseCatalog,
    database: DatabaseId,
) -> Result<Vec<(Arc<Object>, Option<ObjectId>)>> {
    let Some(text) = call.text(0) else {
        let is_table = |o: &&Arc<Object>| matches!(o.kind, ObjectKind::Table(_));
        let mut all: Vec<_> = catalog.objects().filter(is_table).cloned().collect();
        all.sort_by_key(|o| o.id);
        return Ok(all.into_iter().map(|o| (o, None)).collect());
    };
    let missing = || messages::error(2501, &[&text]);
    let name = parse_object_name(&text, &ParseOptions::default()).map_err(|_| missing())?;
    if let Some((found, object)) = call.execution.find_object(&name)?
        && found == database
        && matches!(object.kind, ObjectKind::Table(_))
    {
        return Ok(vec![(object, None)]);
    }
    let is_named = |o: &&Arc<Object>| constraint_id(o, &name.name.text).is_some();
    let owner = catalog.objects().find(is_named).ok_or_else(missing)?;
    Ok(vec![(owner.clone(), constraint_id(owner, &name.name.text))])
}

fn constraint_id(object: &Object, name: &str) -> Option<ObjectId> {
    let ObjectKind::Table(def) = &object.kind else {
        return None;
    };
    let checks = def.checks.iter().map(|c| (c.id, &c.name));
    let keys = def.foreign_keys.iter().map(|k| (k.id, &k.name));
    let mut all = checks.chain(keys);
    all.find(|(_, n)| names_equal(n, name)).map(|(id, _)| id)
}

/// Constraints of a table that are enforced, or all of them.
fn of_table(
    catalog: &DatabaseCatalog,
    object: &Object,
    only: Option<ObjectId>,
    all: bool,
    out: &mut Vec<Constraint>,
) {
    let ObjectKind::Table(def) = &object.kind else {
        return;
    };
    let table = full_name(catalog, object);
    let wanted = |id, disabled: bool| only.map_or(all || !disabled, |only| only == id);
    for check in def.checks.iter().filter(|c| wanted(c.id, c.disabled)) {
        out.push(Constraint {
            table: table.clone(),
            name: quoted(&check.name),
            columns: named_columns(def, &check.definition),
            condition: format!("NOT ({})", check.definition),
        });
    }
    for key in def.foreign_keys.iter().filter(|k| wanted(k.id, k.disabled)) {
        let Some(parent) = catalog.object(key.referenced_table) else {
            continue;
        };
        let ObjectKind::Table(parent_def) = &parent.kind else {
            continue;
        };
        let name_of =
            |def: &TableDef, id| def.column(id).map_or(String::new(), |c| quoted(&c.name));
        let own: Vec<String> = key.columns.iter().map(|id| name_of(def, *id)).collect();
        let theirs = key
            .referenced_columns
            .iter()
            .map(|id| name_of(parent_def, *id));
        let joined: Vec<String> = own
            .iter()
            .zip(theirs)
            .map(|(own, their)| format!("[parent_row].{their} = [child_row].{own}"))
            .collect();
        let known: Vec<String> = own.iter().map(|c| format!("{c} IS NOT NULL")).collect();
        out.push(Constraint {
            table: table.clone(),
            name: quoted(&key.name),
            condition: format!(
                "{} AND NOT EXISTS (SELECT 1 FROM {} AS [parent_row] WHERE {})",
                known.join(" AND "),
                full_name(catalog, parent),
                joined.join(" AND ")
            ),
            columns: own,
        });
    }
}

fn full_name(catalog: &DatabaseCatalog, object: &Object) -> String {
    let schema = catalog.schema(object.schema_id);
    let schema = schema.map_or("dbo", |s| s.name.as_str());
    format!("{}.{}", quoted(schema), quoted(&object.name))
}

/// Columns whose names stand in a condition, which is stored with every name in brackets.
fn named_columns(def: &TableDef, condition: &str) -> Vec<String> {
    let folded = condition.to_lowercase();
    let names = def.columns.iter().map(|c| quoted(&c.name));
    names
        .filter(|name| folded.contains(&name.to_lowercase()))
        .collect()
}

impl Constraint {
    fn violations(
        &self,
        call: &SystemCall<'_, '_>,
        limit: usize,
        out: &mut Vec<[String; 3]>,
    ) -> Result<()> {
        let shown = |column: &String| {
            let text = format!("REPLACE(CONVERT(nvarchar(max), {column}), N'''', N'''''')");
            format!(
                "ISNULL(N'{} = ''' + {text} + N'''', N'{} IS NULL')",
                column.replace('\'', "''"),
                column.replace('\'', "''")
            )
        };
        let row: Vec<String> = self.columns.iter().map(shown).collect();
        let row = match row.is_empty() {
            true => "N''".to_string(),
            false => row.join(" + N' AND ' + "),
        };
        let query = format!(
            "SELECT TOP ({}) {row} FROM {} AS [child_row] WHERE {}",
            limit.min(i32::MAX as usize),
            self.table,
            self.condition
        );
        for values in call.rows_of(&query)? {
            let condition = match values.first() {
                Some(Value::Str(text)) => text.to_string(),
                _ => String::new(),
            };
            out.push([self.table.clone(), self.name.clone(), condition]);
        }
        Ok(())
    }
}
