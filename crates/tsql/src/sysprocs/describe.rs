//! sp_describe_first_result_set and sp_describe_undeclared_parameters: columns and parameters of a text that is not run.
//!
//! Types of undeclared parameters are taken from the columns they meet: a value of INSERT, an assignment of UPDATE, a
//! comparison in WHERE. One that meets none is taken as text, which converts to anything.

use super::define::{Procedure, send};
use crate::error::{Result, SqlError};
use crate::executor::prepare_select;
use crate::host::Resolved;
use crate::session::SystemCall;
use crate::sink::OutputColumn;
use crate::sysviews::Rows;
use daruma_catalog::name_key;
use daruma_syntax::ast::{
    Assignment, ColumnRef, Condition, DmlFilter, DmlTarget, Expr, Insert, InsertSource, ObjectName,
    Query, QueryBody, Statement, StatementKind, TableSource,
};
use daruma_value::{DataType, Len};
use std::collections::HashMap;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native(
        "sp_describe_first_result_set",
        "@tsql nvarchar(max); @params nvarchar(max) = NULL; @browse_information_mode tinyint = 0",
        first_result_set,
    ),
    Procedure::native(
        "sp_describe_undeclared_parameters",
        "@tsql nvarchar(max); @params nvarchar(max) = NULL",
        undeclared_parameters,
    ),
];

const RESULT_SET: &str = "
    is_hidden bit; column_ordinal int; name sysname?; is_nullable bit; system_type_id int; system_type_name nvarchar(256)?;
    max_length smallint; precision tinyint; scale tinyint; collation_name sysname?; user_type_id int?;
    user_type_database sysname?; user_type_schema sysname?; user_type_name sysname?;
    assembly_qualified_type_name nvarchar(4000)?; xml_collection_id int?; xml_collection_database sysname?;
    xml_collection_schema sysname?; xml_collection_name sysname?; is_xml_document bit; is_case_sensitive bit;
    is_fixed_length_clr_type bit; source_server sysname?; source_database sysname?; source_schema sysname?;
    source_table sysname?; source_column sysname?; is_identity_column bit?; is_part_of_unique_key bit?; is_updateable bit?;
    is_computed_column bit?; is_sparse_column_set bit? = 0; ordinal_in_order_by_list smallint?;
    order_by_is_descending smallint?; order_by_list_length smallint?; tds_type_id int; tds_length int;
    tds_collation_id int?; tds_collation_sort_id tinyint?";

fn first_result_set(call: &SystemCall<'_, '_>) -> Result<i32> {
    let statements = parse(call)?;
    let parameters = call.text(1).unwrap_or_default();
    let query = first_query(&statements);
    let columns = match query {
        None => Vec::new(),
        Some(query) => call.with_parameters(&parameters, || {
            call.execution.with_access(None, || {
                Ok(prepare_select(query, call.host())?.columns().to_vec())
            })
        })?,
    };
    send(call, RESULT_SET, |_, rows| {
        columns
            .iter()
            .enumerate()
            .for_each(|(at, column)| result_row(at + 1, column, rows));
        Ok(())
    })?;
    Ok(0)
}

fn parse(call: &SystemCall<'_, '_>) -> Result<Vec<Statement>> {
    let text = call.text(0).unwrap_or_default();
    match call.execution.parsed_batch(&text) {
        Ok(batch) => Ok(batch.statements.clone()),
        Err(errors) => Err(errors
            .into_iter()
            .next()
            .unwrap_or_else(|| SqlError::new(102, 15, 1, "Incorrect syntax."))),
    }
}

/// The first SELECT that sends rows: assignments send none.
fn first_query(statements: &[Statement]) -> Option<&Query> {
    statements
        .iter()
        .find_map(|statement| match &statement.kind {
            StatementKind::Select(query) => Some(query.as_ref()),
            StatementKind::Block(body) => first_query(body),
            _ => None,
        })
}

fn result_row(ordinal: usize, column: &OutputColumn, rows: &mut Rows<'_>) {
    let data_type = column.data_type;
    rows.add()
        .set("column_ordinal", ordinal)
        .set(
            "name",
            (!column.name.is_empty()).then_some(column.name.as_str()),
        )
        .set("is_nullable", column.nullable)
        .set("system_type_id", data_type.system_type_id())
        .set("system_type_name", data_type.to_string())
        .set("max_length", data_type.max_length())
        .set("precision", data_type.precision())
        .set("scale", data_type.scale())
        .set("is_identity_column", column.identity)
        .set("is_updateable", !column.computed)
        .set("is_computed_column", column.computed)
        .set("tds_type_id", wire_type(data_type))
        .set("tds_length", wire_length(data_type));
    if data_type.is_character() && data_type != DataType::Xml {
        let wire = column.collation.wire_bytes();
        let [a, b, c, d, sort] = wire;
        rows.set("collation_name", column.collation.name())
            .set("is_case_sensitive", column.collation.sensitivity().case)
            .set("tds_collation_id", i32::from_le_bytes([a, b, c, d]))
            .set("tds_collation_sort_id", sort);
    }
}

/// Type number on the wire: numbers have one for each family, with the length beside it.
fn wire_type(data_type: DataType) -> i32 {
    match data_type {
        DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt => 38,
        DataType::Real | DataType::Float => 109,
        DataType::Money | DataType::SmallMoney => 110,
        DataType::DateTime | DataType::SmallDateTime => 111,
        DataType::Decimal { .. } => 106,
        DataType::RowVersion => 173,
        other => i32::from(other.system_type_id()),
    }
}

fn wire_length(data_type: DataType) -> i32 {
    match data_type.max_length() {
        -1 => 65_535,
        n => i32::from(n),
    }
}

const UNDECLARED: &str = "
    parameter_ordinal int; name sysname; suggested_system_type_id int; suggested_system_type_name nvarchar(256)?;
    suggested_max_length smallint; suggested_precision tinyint; suggested_scale tinyint; suggested_user_type_id int?;
    suggested_user_type_database sysname?; suggested_user_type_schema sysname?; suggested_user_type_name sysname?;
    suggested_assembly_qualified_type_name nvarchar(4000)?; suggested_xml_collection_id int?;
    suggested_xml_collection_database sysname?; suggested_xml_collection_schema sysname?;
    suggested_xml_collection_name sysname?; suggested_is_xml_document bit; suggested_is_case_sensitive bit;
    suggested_is_fixed_length_clr_type bit; suggested_is_input bit = 1; suggested_is_output bit;
    formal_parameter_name sysname?; suggested_tds_type_id int; suggested_tds_length int";

fn undeclared_parameters(call: &SystemCall<'_, '_>) -> Result<i32> {
    let statements = parse(call)?;
    let declared = variables_in(&call.text(1).unwrap_or_default());
    let mut suggestions = Suggestions {
        call,
        types: HashMap::new(),
    };
    for statement in &statements {
        let kind = Some(&statement.kind);
        let written = |_: &()| call.execution.written_by_name(&statement.kind);
        call.execution
            .with_access_to_change(kind, || suggestions.statement(statement), written)?;
    }
    let names = variables_in(&call.text(0).unwrap_or_default());
    let names = names.into_iter().filter(|name| !declared.contains(name));
    send(call, UNDECLARED, |_, rows| {
        for (at, name) in names.enumerate() {
            let found = suggestions.types.get(&name_key(&name)).copied();
            let data_type = found.unwrap_or(DataType::NVarChar(Len(4_000)));
            rows.add()
                .set("parameter_ordinal", at + 1)
                .set("name", name)
                .set("suggested_system_type_id", data_type.system_type_id())
                .set("suggested_system_type_name", data_type.to_string())
                .set("suggested_max_length", data_type.max_length())
                .set("suggested_precision", data_type.precision())
                .set("suggested_scale", data_type.scale())
                .set("suggested_tds_type_id", wire_type(data_type))
                .set("suggested_tds_length", wire_length(data_type));
        }
        Ok(())
    })?;
    Ok(0)
}

/// `@names` in a text in order of first appearance; not inside quotes and not `@@names`.
fn variables_in(text: &str) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut rest = text;
    let mut quoted = false;
    while let Some(at) = rest.find(['@', '\'']) {
        let (_, tail) = rest.split_at(at);
        if tail.starts_with('\'') {
            quoted = !quoted;
            rest = tail.get(1..).unwrap_or("");
            continue;
        }
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$');
        let end = tail.find(|c| !is_name(c)).unwrap_or(tail.len());
        let (name, after) = tail.split_at(end);
        let known = list.iter().any(|n| n.eq_ignore_ascii_case(name));
        if !quoted && !name.starts_with("@@") && name.len() > 1 && !known {
            list.push(name.to_string());
        }
        rest = after;
    }
    list
}

/// Types found for parameters, by name.
struct Suggestions<'c, 'e, 'a> {
    call: &'c SystemCall<'e, 'a>,
    types: HashMap<String, DataType>,
}

/// Columns of the tables a statement is about, by name.
type Columns = HashMap<String, DataType>;

impl Suggestions<'_, '_, '_> {
    fn statement(&mut self, statement: &Statement) -> Result<()> {
        match &statement.kind {
            StatementKind::Insert(insert) => self.insert(insert),
            StatementKind::Update(update) => {
                let mut columns = self.target(&update.target)?;
                columns.extend(self.sources(&update.from)?);
                for assignment in &update.assignments {
                    let of =
                        |column: &ColumnRef| columns.get(&name_key(&column.name.text)).copied();
                    match assignment {
                        Assignment::Column { column, value, .. } => self.note(value, of(column)),
                        Assignment::Method { column, args, .. } => {
                            let types =
                                [of(column), Some(DataType::BigInt), Some(DataType::BigInt)];
                            args.iter()
                                .zip(types)
                                .for_each(|(arg, t)| self.note(arg, t));
                        }
                        _ => {}
                    }
                }
                self.filter(update.filter.as_ref(), &columns);
                Ok(())
            }
            StatementKind::Delete(delete) => {
                let mut columns = self.target(&delete.target)?;
                columns.extend(self.sources(&delete.from)?);
                self.filter(delete.filter.as_ref(), &columns);
                Ok(())
            }
            StatementKind::Select(query) => {
                if let QueryBody::Select(select) = &query.body {
                    let columns = self.sources(&select.from)?;
                    if let Some(filter) = &select.filter {
                        self.condition(filter, &columns);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn insert(&mut self, insert: &Insert) -> Result<()> {
        let DmlTarget::Table { name, .. } = &insert.target else {
            return Ok(());
        };
        let ordered = self.table_columns(name)?;
        let by_name: Columns = ordered.iter().map(|(n, t, _)| (n.clone(), *t)).collect();
        let types: Vec<Option<DataType>> = match insert.columns.is_empty() {
            true => ordered
                .iter()
                .filter(|(.., writable)| *writable)
                .map(|(_, t, _)| Some(*t))
                .collect(),
            false => insert
                .columns
                .iter()
                .map(|c| by_name.get(&name_key(&c.name.text)).copied())
                .collect(),
        };
        if let InsertSource::Values(rows) = &insert.source {
            for row in rows {
                row.iter()
                    .zip(&types)
                    .for_each(|(value, data_type)| self.note(value, *data_type));
            }
        }
        Ok(())
    }

    fn note(&mut self, value: &Expr, data_type: Option<DataType>) {
        if let (Expr::Variable { name, .. }, Some(data_type)) = (value, data_type) {
            self.types.entry(name_key(name)).or_insert(data_type);
        }
    }

    fn filter(&mut self, filter: Option<&DmlFilter>, columns: &Columns) {
        if let Some(DmlFilter::Where(condition)) = filter {
            self.condition(condition, columns);
        }
    }

    fn condition(&mut self, condition: &Condition, columns: &Columns) {
        let of = |expr: &Expr| match expr {
            Expr::Column(column) => columns.get(&name_key(&column.name.text)).copied(),
            _ => None,
        };
        match condition {
            Condition::And(list) | Condition::Or(list) => {
                list.iter().for_each(|c| self.condition(c, columns))
            }
            Condition::Not(inner) => self.condition(inner, columns),
            Condition::Compare { left, right, .. } => {
                self.note(left, of(right));
                self.note(right, of(left));
            }
            Condition::Like { expr, pattern, .. } => self.note(pattern, of(expr)),
            Condition::InList { expr, list, .. } => {
                list.iter().for_each(|e| self.note(e, of(expr)))
            }
            _ => {}
        }
    }

    fn target(&self, target: &DmlTarget) -> Result<Columns> {
        match target {
            DmlTarget::Table { name, .. } => match self.table_columns(name) {
                Ok(columns) => Ok(columns.into_iter().map(|(name, t, _)| (name, t)).collect()),
                // The name may be an alias of FROM.
                Err(_) => Ok(Columns::new()),
            },
            _ => Ok(Columns::new()),
        }
    }

    fn sources(&self, sources: &[TableSource]) -> Result<Columns> {
        let mut columns = Columns::new();
        for source in sources {
            if let TableSource::Table(table) = source {
                columns.extend(
                    self.table_columns(&table.name)?
                        .into_iter()
                        .map(|(name, t, _)| (name, t)),
                );
            }
        }
        Ok(columns)
    }

    /// Name, type and "takes values" of each column in order.
    fn table_columns(&self, name: &ObjectName) -> Result<Vec<(String, DataType, bool)>> {
        Ok(match self.call.host().resolve(name)? {
            Resolved::Table(table) => {
                let column = |c: &daruma_catalog::ColumnDef| {
                    (
                        name_key(&c.name),
                        c.data_type,
                        !c.is_identity && c.computed.is_none(),
                    )
                };
                table.def.columns.iter().map(column).collect()
            }
            Resolved::Virtual(table) => table
                .columns()
                .iter()
                .map(|c| (name_key(&c.name), c.data_type, false))
                .collect(),
            _ => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_in_order() {
        let text = "INSERT t VALUES (@P2, '@no', @P1, @@ROWCOUNT, @p2)";
        assert_eq!(variables_in(text), ["@P2", "@P1"]);
        assert_eq!(variables_in("@a int, @b nvarchar(10)"), ["@a", "@b"]);
        assert!(variables_in("SELECT '@x''@y'").is_empty());
    }
}
