//! FOR JSON PATH and AUTO: the rows of a query as one text.
//!
//! Theory: the names of the columns make one template for all rows when the query is bound. A row is one call with the
//! template and its values, and all rows are joined in their order by an aggregate. What an expression gives as JSON
//! (JSON_QUERY, JSON_MODIFY, a query FOR JSON) goes into it as it is.
//!
//! AUTO over several tables: a level for each of them, in the order in which the select list names them, as of FOR XML AUTO; what is
//! computed belongs to the table named before. [`JSON_NESTED`] compares rows with each other.

use super::for_xml::{join, literal};
use super::query::{BoundQuery, OutColumn};
use super::tree::*;
use super::{Binder, unsupported};
use crate::error::Result;
use crate::messages;
use daruma_syntax::ast::{Expr, ForJsonMode, Literal, OptionItem, OptionValue, TableSource};
use daruma_value::functions::json::{ARRAY, JSON_NESTED, JSON_ROW, MODIFY_WITH_JSON, OBJECT};
use daruma_value::functions::{XML_LEVEL, XML_PART, XML_ROW};
use daruma_value::json::put_key;
use daruma_value::{DataType, Value};

/// Name of the only column at the top of a statement.
const COLUMN: &str = "JSON_F52E2B61-18A1-11d1-B105-00805F49916B";

#[derive(Default)]
struct Directives {
    root: Option<String>,
    shows_null: bool,
    is_bare: bool,
}

impl Directives {
    fn read(items: &[OptionItem]) -> Result<Directives> {
        let mut read = Directives::default();
        for item in items {
            match item.name.as_str() {
                "ROOT" => {
                    read.root = Some(match &item.value {
                        OptionValue::Expr(Expr::Literal(Literal::String { text, .. })) => {
                            text.clone()
                        }
                        _ => "root".to_string(),
                    });
                }
                "INCLUDE_NULL_VALUES" => read.shows_null = true,
                "WITHOUT_ARRAY_WRAPPER" => read.is_bare = true,
                other => return Err(unsupported(&format!("FOR JSON with {other}"))),
            }
        }
        match read.root.is_some() && read.is_bare {
            true => Err(messages::error(13620, &[])),
            false => Ok(read),
        }
    }
}

/// A property of each row's object.
enum Property {
    Column(ColId),
    Object(Vec<(String, Property)>),
}

impl Binder<'_> {
    pub(super) fn for_json(
        &mut self,
        bound: BoundQuery,
        mode: ForJsonMode,
        from: Option<&[TableSource]>,
        directives: &[OptionItem],
    ) -> Result<BoundQuery> {
        let directives = Directives::read(directives)?;
        let mut levels = Vec::new();
        if mode == ForJsonMode::Auto {
            match from {
                None | Some([]) => return Err(messages::error(13604, &[])),
                Some([TableSource::Join(_) | TableSource::Apply { .. }] | [_, _, ..]) => {
                    levels = self.json_levels(&bound.columns);
                }
                Some(_) => {}
            }
        }
        let (rel, mut whole) = match levels.as_slice() {
            [_, _, ..] => self.nested_rows(bound.rel, &levels, directives.shows_null)?,
            _ => {
                let tree = tree_of(&bound.columns, mode)?;
                let text = self.json_row(&tree, directives.shows_null);
                self.joined_rows(bound.rel, text, ",", COLUMN)?
            }
        };
        if !directives.is_bare {
            let mut open = "[".to_string();
            let mut close = "]".to_string();
            if let Some(root) = &directives.root {
                let mut key = String::new();
                put_key(&mut key, root);
                open = format!("{{{key}[");
                close.push('}');
            }
            whole = join(join(literal(&open), whole)?, literal(&close))?;
        }
        let outer = self.new_computed(COLUMN, &whole)?;
        // What has no brackets may be several objects, which is no JSON.
        if !directives.is_bare {
            self.json_columns.push(outer);
        }
        Ok(BoundQuery {
            rel: rel.compute(vec![(outer, whole)]),
            columns: vec![OutColumn {
                name: COLUMN.into(),
                id: outer,
            }],
            assignments: Vec::new(),
        })
    }

    /// Tables by the names they have in FROM, in the order of their first columns, and what each has.
    fn json_levels(&self, columns: &[OutColumn]) -> Vec<(String, Vec<OutColumn>)> {
        let mut levels: Vec<(String, Vec<OutColumn>)> = Vec::new();
        let first = columns.iter().find_map(|c| self.table_of(c.id));
        let mut last = 0;
        for column in columns {
            let table = self.table_of(column.id);
            if let Some(table) = table.or(first.clone().filter(|_| levels.is_empty())) {
                last = match levels.iter().position(|(name, _)| *name == table) {
                    Some(known) => known,
                    None => {
                        levels.push((table, Vec::new()));
                        levels.len() - 1
                    }
                };
            }
            if let Some((_, own)) = levels.get_mut(last) {
                own.push(column.clone());
            }
        }
        levels
    }

    /// All rows as one text, each level an array of objects in the one above. Error 13601 where a table is called as a column is that it
    /// would lie beside.
    fn nested_rows(
        &mut self,
        rel: Rel,
        levels: &[(String, Vec<OutColumn>)],
        shows_null: bool,
    ) -> Result<(Rel, Scalar)> {
        let mut row = literal("");
        let mut keys: Vec<String> = Vec::new();
        for (at, (_, columns)) in levels.iter().enumerate() {
            let tree = tree_of(columns, ForJsonMode::Auto)?;
            if let Some((inner, _)) = levels.get(at + 1) {
                if tree.iter().any(|(name, _)| name == inner) {
                    return Err(messages::error(13601, &[inner]));
                }
                let mut key = String::new();
                put_key(&mut key, inner);
                keys.push(key);
            }
            row = join(row, literal(&XML_LEVEL.to_string()))?;
            row = join(row, self.json_row(&tree, shows_null))?;
        }
        let (rel, rows) = self.joined_rows(rel, row, &XML_ROW.to_string(), COLUMN)?;
        let keys = literal(&keys.join(&XML_PART.to_string()));
        let mut whole = self.call_by_name(JSON_NESTED, vec![rows, keys])?;
        whole.ty.collation = self.own_collation();
        whole.ty.coercion = Coercion::Default;
        Ok((rel, whole))
    }

    /// The text of a row: never NULL.
    fn json_row(&self, tree: &[(String, Property)], shows_null: bool) -> Scalar {
        let mut args = vec![
            literal(""),
            Scalar::constant(Value::Int(shows_null.into()), DataType::Int),
        ];
        let mut template = String::new();
        self.put_template(tree, &mut template, &mut args);
        args[0] = literal(&template);
        let kind = Kind::Call {
            name: JSON_ROW.into(),
            args,
        };
        Scalar::new(kind, Type::new(DataType::NVARCHAR_MAX, false))
    }

    fn put_template(
        &self,
        tree: &[(String, Property)],
        template: &mut String,
        args: &mut Vec<Scalar>,
    ) {
        template.push('{');
        for (at, (name, property)) in tree.iter().enumerate() {
            if at > 0 {
                template.push(',');
            }
            put_key(template, name);
            match property {
                Property::Object(inner) => self.put_template(inner, template, args),
                Property::Column(id) => {
                    let quote = if self.json_columns.contains(id) {
                        "\""
                    } else {
                        ""
                    };
                    template.push_str(&format!("{quote}{}{quote}", args.len()));
                    args.push(self.column(*id));
                }
            }
        }
        template.push('}');
    }

    /// Is the value JSON, which is no string in other JSON?
    pub(super) fn gives_json(&self, scalar: &Scalar) -> bool {
        match &scalar.kind {
            Kind::Call { name, .. } => {
                matches!(
                    &**name,
                    "JSON_QUERY" | "JSON_MODIFY" | MODIFY_WITH_JSON | OBJECT | ARRAY
                )
            }
            Kind::Subquery(sub) => {
                matches!(&sub.kind, SubqueryKind::Scalar(id) if self.json_columns.contains(id))
            }
            _ => false,
        }
    }
}

/// The objects that names with points describe; AUTO knows no such names. Errors 13601, 13603, 13605.
fn tree_of(columns: &[OutColumn], mode: ForJsonMode) -> Result<Vec<(String, Property)>> {
    let mut tree = Vec::new();
    for column in columns {
        let name = column.name.as_str();
        if name.is_empty() {
            return Err(messages::error(13605, &[]));
        }
        let path: Vec<&str> = match mode {
            ForJsonMode::Path => name.split('.').collect(),
            ForJsonMode::Auto => vec![name],
        };
        if path.iter().any(|part| part.is_empty()) {
            return Err(messages::error(13603, &[&name]));
        }
        add(&mut tree, &path, column.id, name)?;
    }
    Ok(tree)
}

fn add(tree: &mut Vec<(String, Property)>, path: &[&str], id: ColId, whole: &str) -> Result<()> {
    let conflict = || messages::error(13601, &[&whole]);
    let Some((first, rest)) = path.split_first() else {
        return Ok(());
    };
    let last = tree.len().checked_sub(1);
    let known = tree
        .iter_mut()
        .enumerate()
        .find(|(_, (name, _))| name == first);
    match (known, rest.is_empty()) {
        // An object goes on where it ended: its columns stand side by side.
        (Some((at, (_, Property::Object(inner)))), false) if Some(at) == last => {
            add(inner, rest, id, whole)
        }
        (Some(_), _) => Err(conflict()),
        (None, true) => {
            tree.push((first.to_string(), Property::Column(id)));
            Ok(())
        }
        (None, false) => {
            let mut inner = Vec::new();
            add(&mut inner, rest, id, whole)?;
            tree.push((first.to_string(), Property::Object(inner)));
            Ok(())
        }
    }
}
