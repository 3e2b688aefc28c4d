//! Inline table-valued functions: the query of the function in the place of the call, its arguments in that of the parameters.
//!
//! Theory: a parameter is an expression, bound where the call stands, that the variables of the function's text mean; it
//! may name columns of tables to the left (APPLY). Otherwise such a function is bound as a view is.

use super::tree::*;
use super::user_function::{too_few, too_many};
use super::{Binder, OutColumn, types, unsupported};
use crate::error::Result;
use crate::host::TableRef;
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_catalog::{ModuleDef, Object, ObjectKind, ParameterDef, name_key};
use daruma_syntax::ast::{self, Ident, StatementKind};
use daruma_syntax::{ParseOptions, parse_batch};
use daruma_value::DataType;
use std::sync::Arc;

/// Parameters by the key of their names.
pub(super) type Parameters = Vec<(String, Scalar)>;
/// Table-valued ones.
pub(super) type TableParameters = Vec<(String, TableRef)>;

/// The query of an inline function, and its parameters as written.
pub(crate) fn defined_function(module: &ModuleDef) -> Option<(ast::Query, Vec<ast::Parameter>)> {
    let options = ParseOptions {
        quoted_identifier: module.quoted_identifier,
    };
    let batch = parse_batch(&module.definition, &options).ok()?;
    batch.into_iter().find_map(|s| match s.kind {
        StatementKind::CreateFunction(function) => match function.body {
            ast::FunctionBody::Query(query) => Some((*query, function.parameters)),
            _ => None,
        },
        _ => None,
    })
}

impl Binder<'_> {
    /// Parameters of which only the types are known: a function that is being defined.
    pub fn declare_parameters(&mut self, parameters: &[ParameterDef]) -> Result<()> {
        let database = self.database;
        let database = database.unwrap_or_else(|| self.host.current_database());
        let (mut scalars, mut tables) = (Vec::new(), Vec::new());
        for parameter in parameters {
            let key = name_key(&parameter.name);
            match parameter.table_type() {
                Some(id) => {
                    let table = self.host.bare_table(&parameter.name, (database, id))?;
                    tables.push((key, table));
                }
                None => scalars.push((key, unknown(parameter.data_type))),
            }
        }
        self.parameters = Some(scalars);
        self.table_parameters = Some(tables);
        Ok(())
    }

    /// Names and types of what the query of a function gives.
    pub fn function_columns(&mut self, query: &ast::Query) -> Result<Vec<OutputColumn>> {
        let bound = self.statement(query)?;
        if !bound.assignments.is_empty() {
            return Err(messages::error(199, &[]));
        }
        let columns: &[OutColumn] = &bound.columns;
        Ok(columns.iter().map(|c| self.output_column(c)).collect())
    }

    pub(super) fn inline_function(
        &mut self,
        call: &ast::TableFunction,
        database: DatabaseId,
        object: &Arc<Object>,
        alias: &str,
    ) -> Result<Rel> {
        let ObjectKind::Function(module) = &object.kind else {
            return Err(messages::error(208, &[&object.name]));
        };
        let Some((query, parameters)) = defined_function(module) else {
            return Err(unsupported("A user-defined table-valued function"));
        };
        let (given, name) = (&call.call.args, &call.call.name);
        if given.len() < parameters.len() {
            return Err(too_few(name, 3));
        }
        if given.len() > parameters.len() {
            return Err(too_many(name, 3));
        }
        let mut bound = Vec::with_capacity(given.len());
        let mut tables = Vec::new();
        for ((written, def), arg) in parameters.iter().zip(&module.parameters).zip(given) {
            if let Some(id) = def.table_type() {
                let table = self.given_table(arg, (database, id))?;
                let table = table.ok_or_else(|| unsupported("DEFAULT for a table"))?;
                tables.push((name_key(&def.name), table));
                continue;
            }
            let scalar = match (arg, &written.default) {
                (ast::Expr::Default, Some(default)) => self.of_stored_text(|b| b.expr(default))?,
                (ast::Expr::Default, None) => unknown(def.data_type),
                (arg, _) => self.table_argument(arg)?,
            };
            let scalar = match scalar.is_null_literal() {
                true => unknown(def.data_type),
                false => types::convert(scalar, def.data_type)?,
            };
            bound.push((name_key(&def.name), scalar));
        }
        let collation = self.host.collation(database);
        for (_, scalar) in bound
            .iter_mut()
            .filter(|(_, s)| s.ty.data_type.is_character())
        {
            scalar.ty.collation = collation;
            scalar.ty.coercion = Coercion::Default;
        }
        let outer = self.database.replace(database);
        let schema_bound = std::mem::replace(&mut self.schema_bound, false);
        let ansi_nulls = std::mem::replace(&mut self.ansi_nulls, module.ansi_nulls);
        let parameters = self.parameters.replace(bound);
        let outer_tables = self.table_parameters.replace(tables);
        self.host.enter_view(database, object);
        let candidates = self.target_candidates();
        let bound = self.of_stored_text(|b| b.query(&query, true));
        self.table_parameters = outer_tables;
        self.host.leave_view();
        self.database = outer;
        self.schema_bound = schema_bound;
        self.ansi_nulls = ansi_nulls;
        self.parameters = parameters;
        let bound = bound?;
        self.note_view(candidates, database, object.id);
        self.named(bound, Some(&Ident::new(alias)), &call.columns)
    }
}

/// A NULL of its type, which says no more of it than a variable does.
fn unknown(data_type: DataType) -> Scalar {
    let kind = Kind::Convert {
        input: Box::new(Scalar::null(data_type)),
        style: None,
        is_try: false,
        implicit: true,
    };
    Scalar::new(kind, Type::new(data_type, true))
}
