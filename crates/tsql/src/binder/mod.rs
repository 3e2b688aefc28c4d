//! Binder: from syntax to a bound tree, every name resolved and every type known.
//!
//! Theory: one [`Binder`] serves one statement. It hands out column numbers, keeps the scopes of nested queries on a
//! stack and asks the host what object names mean. Errors carry the product's numbers; the first one ends the binding.
//!
//! Read next: `tree` (what comes out), `query`, `from`, `expr`, `function`.

mod cte;
mod determinism;
mod expr;
mod for_json;
mod for_xml;
mod for_xml_nested;
mod from;
mod function;
mod group;
mod identity;
mod inline;
pub(crate) mod next_value;
mod open_xml;
mod operand;
mod pivot;
mod query;
mod recursion;
mod scalar;
mod scope;
mod stored;
mod target;
pub mod tree;
pub mod types;
mod user_function;
mod xml;

pub(crate) use expr::{compare, literal, mirrored, with_stack};
pub(crate) use from::defined_view;
pub(crate) use identity::IdentityCall;
pub(crate) use inline::defined_function;
pub use query::{Assignment, BoundQuery, OutColumn};
pub(crate) use scope::{NameScope, ScopeEntry};
pub use scope::{changed_column, check_changed};
pub use stored::insert_hints;
pub use target::{BoundTarget, ViewCheck};
pub(crate) use target::{same_name, target_object};

use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_syntax::ast;
use daruma_value::CollationId;
use scope::CteEntry;
use target::TargetRequest;
use tree::{Coercion, ColId, Kind, Scalar, Type};

/// Views, functions and common table expressions may nest this deep.
const NESTING_MAX: u32 = 32;
/// More columns than this in one statement are refused.
const COLUMNS_MAX: usize = 1 << 20;
/// More nodes than this made by copying alone are refused: copies of copies double with each level of a text.
pub(crate) const COPIED_NODES_MAX: usize = 1 << 20;

/// Seed and increment of an identity column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// The first value.
    pub seed: i128,
    /// What the next value is greater by; never 0.
    pub increment: i128,
}

/// Facts about a column besides its number.
#[derive(Clone, Debug)]
pub struct ColumnInfo {
    pub ty: Type,
    pub name: String,
    /// As messages name it: with its table.
    pub qualified: String,
    /// Of an identity column: how its values go on.
    pub identity: Option<Numbering>,
    /// ROWGUIDCOL.
    pub rowguid: bool,
    /// An expression, not a table's column.
    pub computed: bool,
    /// The literal NULL, which takes any type in a set operation.
    pub null_literal: bool,
}

/// Turns one statement's syntax into a [`tree::Rel`]: names become numbers, every node gets a type.
pub struct Binder<'a> {
    pub(crate) host: &'a dyn Host,
    pub columns: Vec<ColumnInfo>,
    /// Nodes that are copies of others.
    copied: usize,
    pub(crate) scopes: Vec<NameScope>,
    ctes: Vec<CteEntry>,
    /// Where names are looked up: the database of the view being expanded.
    pub(crate) database: Option<DatabaseId>,
    /// Collation of a database, as last asked.
    collation: Option<(DatabaseId, CollationId)>,
    windows: Vec<Vec<(ast::Ident, ast::Window)>>,
    /// WITH XMLNAMESPACES of the statement.
    pub(crate) xml_namespaces: Vec<ast::XmlNamespace>,
    next_work: u32,
    nesting: u32,
    query_depth: u32,
    max_recursion: u32,
    /// Tables bound now may use columns of tables to their left: right side of APPLY.
    lateral: bool,
    /// Off: `= NULL` finds NULLs.
    ansi_nulls: bool,
    /// The query bound next is only asked whether it has rows.
    only_existence: bool,
    /// Hints behind the names of the views and common table expressions that are being expanded.
    outer_hints: Vec<ast::TableHint>,
    /// The text is bound to what it names: no `*`.
    schema_bound: bool,
    /// Meaning of variables in the text of a function.
    parameters: Option<inline::Parameters>,
    /// The same of table variables.
    table_parameters: Option<inline::TableParameters>,
    /// A DEFAULT is being bound: NEWSEQUENTIALID stands nowhere else.
    pub(crate) in_default: bool,
    /// An expression of a table's definition is being bound.
    pub(crate) in_stored_text: bool,
    /// The error of NEXT VALUE FOR in the part of the statement that is being bound; `None` where it may stand.
    pub(crate) next_value_error: Option<i32>,
    /// Functions in whose expression the binder is.
    inlined: Vec<(DatabaseId, i32)>,
    /// Name in FROM of the table that the statement changes.
    changed_name: Option<ast::ObjectName>,
    /// Nodes that may still be bound to put functions in the place of their calls.
    inline_left: usize,
    /// Columns whose values are JSON.
    json_columns: Vec<ColId>,
    /// Columns that nodes() gave, and the documents of their nodes.
    node_columns: Vec<(ColId, Scalar)>,
    target: Option<TargetRequest>,
}

impl<'a> Binder<'a> {
    /// Binds names as `host` resolves them. One binder serves one statement: column numbers are its own.
    pub fn new(host: &'a dyn Host) -> Binder<'a> {
        Binder {
            host,
            columns: Vec::new(),
            copied: 0,
            scopes: Vec::new(),
            ctes: Vec::new(),
            database: None,
            collation: None,
            windows: Vec::new(),
            xml_namespaces: Vec::new(),
            next_work: 0,
            nesting: 0,
            query_depth: 0,
            max_recursion: 100,
            lateral: false,
            ansi_nulls: host.settings().ansi_nulls,
            only_existence: false,
            outer_hints: Vec::new(),
            schema_bound: false,
            parameters: None,
            table_parameters: None,
            in_default: false,
            in_stored_text: false,
            next_value_error: None,
            inlined: Vec::new(),
            changed_name: None,
            inline_left: user_function::INLINED_WORK_MAX,
            json_columns: Vec::new(),
            node_columns: Vec::new(),
            target: None,
        }
    }

    pub(crate) fn new_column(&mut self, info: ColumnInfo) -> Result<ColId> {
        if self.columns.len() >= COLUMNS_MAX {
            return Err(too_complex());
        }
        self.columns.push(info);
        Ok((self.columns.len() - 1) as ColId)
    }

    /// Counts a copy of an expression; error 8623 when there are too many.
    fn note_copy(&mut self, scalar: &Scalar) -> Result<()> {
        self.copied += scalar.size(COPIED_NODES_MAX);
        match self.copied > COPIED_NODES_MAX {
            true => Err(too_complex()),
            false => Ok(()),
        }
    }

    /// A column for an expression.
    pub(crate) fn new_computed(&mut self, name: &str, scalar: &Scalar) -> Result<ColId> {
        let mut ty = scalar.ty;
        if ty.coercion == Coercion::Explicit {
            ty.coercion = Coercion::Implicit;
        }
        let id = self.new_column(ColumnInfo {
            ty,
            name: name.to_string(),
            qualified: name.to_string(),
            identity: None,
            rowguid: false,
            computed: true,
            null_literal: scalar.is_null_literal(),
        })?;
        if self.gives_json(scalar) {
            self.json_columns.push(id);
        }
        Ok(id)
    }

    pub(crate) fn output_column(&self, column: &OutColumn) -> OutputColumn {
        let info = &self.columns[column.id as usize];
        OutputColumn {
            name: column.name.clone(),
            data_type: info.ty.data_type,
            collation: info.ty.collation,
            nullable: info.ty.nullable,
            identity: info.identity.is_some(),
            computed: info.computed,
        }
    }

    /// Collation of texts that are no column's: that of the database whose text is bound.
    pub(crate) fn own_collation(&mut self) -> CollationId {
        let database = self.database.unwrap_or(self.host.current_database());
        match self.collation {
            Some((known, collation)) if known == database => collation,
            _ => {
                let collation = self.host.collation(database);
                self.collation = Some((database, collation));
                collation
            }
        }
    }

    /// Text that begins in this expression takes the collation of the database.
    fn collated(&mut self, mut scalar: Scalar) -> Scalar {
        let ty = scalar.ty;
        if ty.data_type.is_character()
            && ty.coercion == Coercion::Default
            && begins_text(&scalar.kind)
        {
            scalar.ty.collation = self.own_collation();
        }
        scalar
    }

    fn deeper(&mut self) -> Result<()> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(SqlError::new(
                217,
                16,
                1,
                "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32).",
            ));
        }
        Ok(())
    }

    /// Binds an expression over tables given from outside.
    pub(crate) fn scalar_in(&mut self, scope: NameScope, expr: &ast::Expr) -> Result<Scalar> {
        self.scopes.push(scope);
        self.expr(expr)
    }

    pub(crate) fn condition_in(
        &mut self,
        scope: NameScope,
        condition: &ast::Condition,
    ) -> Result<Scalar> {
        self.scopes.push(scope);
        self.condition(condition)
    }
}

/// Text with no text behind it whose collation it could have.
fn begins_text(kind: &Kind) -> bool {
    let textual = |s: &Scalar| s.ty.data_type.is_character();
    match kind {
        Kind::Const(_)
        | Kind::Variable(_)
        | Kind::System { .. }
        | Kind::UserFunction { .. }
        | Kind::XmlMethod { .. } => true,
        Kind::Convert { input, .. } => !textual(input),
        Kind::Call { args, .. } => !args.iter().any(textual),
        _ => false,
    }
}

pub(crate) fn too_complex() -> SqlError {
    SqlError::new(
        8623,
        16,
        1,
        "The query processor ran out of internal resources and could not produce a query plan. This is a rare event and \
         only expected for extremely complex queries or queries that reference a very large number of tables or partitions. \
         Please simplify the query.",
    )
}

pub(crate) fn unsupported(what: &str) -> SqlError {
    crate::messages::not_supported(what)
}
