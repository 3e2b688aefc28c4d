//! Keys and indexes of a table under construction: their columns, names, filters, and their place among the others.

use super::table::{Builder, could_not_create, filegroup};
use super::{filter, names, storage_options};
use crate::error::Result;
use crate::host::Host;
use crate::messages;
use daruma_catalog::{IndexColumn, IndexDef, IndexKind, KeyConstraintDef, names_equal};
use daruma_storage::TreeId;
use daruma_syntax::ast::{
    self, ColumnConstraintKind, Condition, Ident, KeyConstraint, TableConstraintKind,
    TableDefinition,
};
use daruma_value::DataType;

/// Key columns of an index.
pub(super) const KEY_COLUMNS_MAX: usize = 32;

impl Builder<'_, '_> {
    pub(super) fn add_keys(&mut self, definition: &TableDefinition) -> Result<()> {
        let mut keys: Vec<(Option<&Ident>, &KeyConstraint, Option<&Ident>)> = Vec::new();
        for column in &definition.columns {
            for constraint in &column.constraints {
                if let ColumnConstraintKind::Key(key) = &constraint.kind {
                    keys.push((constraint.name.as_ref(), key, Some(&column.name)));
                }
            }
        }
        for constraint in &definition.constraints {
            if let TableConstraintKind::Key(key) = &constraint.kind {
                keys.push((constraint.name.as_ref(), key, None));
            }
        }
        if keys.iter().filter(|(_, k, _)| k.primary).count() > 1 {
            return Err(messages::error(8110, &[&self.written]));
        }
        let inline_clustered = definition
            .indexes
            .iter()
            .chain(definition.columns.iter().filter_map(|c| c.index.as_ref()));
        let taken = inline_clustered.clone().any(|i| i.clustered == Some(true))
            || keys.iter().any(|(_, k, _)| k.clustered == Some(true));
        if keys
            .iter()
            .filter(|(_, k, _)| k.clustered == Some(true))
            .count()
            > 1
        {
            return Err(messages::error(8112, &[&self.written]));
        }
        for (_, key, column) in keys.iter().filter(|(_, key, _)| key.primary) {
            self.refuse_written_null(definition, key, *column)?;
        }
        for (name, key, column) in keys {
            let clustered = key.clustered.unwrap_or(key.primary && !taken);
            self.add_key(name, key, column, clustered)?;
        }
        Ok(())
    }

    /// Adds the index of a PRIMARY KEY or UNIQUE constraint.
    pub fn add_key(
        &mut self,
        name: Option<&Ident>,
        key: &KeyConstraint,
        column: Option<&Ident>,
        clustered: bool,
    ) -> Result<i32> {
        let what = if key.primary { "PRIMARY KEY" } else { "UNIQUE" };
        if key.primary && self.primary_key().is_some() {
            return Err(messages::error(1779, &[&self.written]));
        }
        let columns = match column {
            Some(name) if key.columns.is_empty() => vec![ast::IndexColumn {
                name: name.clone(),
                descending: false,
            }],
            _ => key.columns.clone(),
        };
        let key_columns = self.key_columns(&columns, what, name.map_or("", |n| &n.text))?;
        if key.primary {
            self.refuse_nullable(&key_columns)?;
        }
        let id = self.new_id()?;
        let prefix = if key.primary { "PK" } else { "UQ" };
        let text = match name {
            Some(name) => self.constraint_name(&name.text)?,
            None => names::key(prefix, &self.table_name, id),
        };
        let mut made = self.index(Some(text), clustered, key_columns);
        made.unique = true;
        made.constraint = Some(KeyConstraintDef {
            id,
            is_primary_key: key.primary,
            is_system_named: name.is_none(),
        });
        storage_options::apply(&mut made, &key.options, self.taker)?;
        if key.storage.is_some() {
            made.filegroup = filegroup(self.ex, self.database, key.storage.as_ref())?;
        }
        self.push_index(made)
    }

    fn primary_key(&self) -> Option<&IndexDef> {
        self.def
            .indexes
            .iter()
            .find(|i| i.constraint.as_ref().is_some_and(|c| c.is_primary_key))
    }

    /// Columns of a new primary key must not be nullable; those whose nullability nobody wrote become NOT NULL.
    /// A primary key makes its columns NOT NULL, unless they say NULL: error 8111.
    fn refuse_written_null(
        &self,
        definition: &TableDefinition,
        key: &KeyConstraint,
        column: Option<&Ident>,
    ) -> Result<()> {
        let listed = key.columns.iter().map(|c| &c.name);
        let own = column.filter(|_| key.columns.is_empty());
        let mut names = listed.chain(own);
        let says_null = |name: &Ident| {
            let mut columns = definition.columns.iter();
            columns.any(|c| names_equal(&c.name.text, &name.text) && c.nullable == Some(true))
        };
        match names.any(says_null) {
            true => Err(could_not_create(messages::error(8111, &[&self.written]))),
            false => Ok(()),
        }
    }

    fn refuse_nullable(&mut self, key: &[IndexColumn]) -> Result<()> {
        let new_table = self.def.indexes.is_empty();
        for part in key {
            let Some(column) = self.def.columns.iter_mut().find(|c| c.id == part.column_id) else {
                continue;
            };
            if column.nullable && column.computed.is_some() {
                let refused = messages::error(1711, &[&column.name, &self.written]);
                return Err(could_not_create(refused));
            }
            if column.nullable && !new_table {
                return Err(could_not_create(messages::error(8111, &[&self.written])));
            }
            column.nullable = false;
        }
        Ok(())
    }

    /// Key columns as the definition keeps them: at most 32 (1904), each known, once, and of a type that can be a
    /// key.
    pub fn key_columns(
        &self,
        columns: &[ast::IndexColumn],
        what: &str,
        name: &str,
    ) -> Result<Vec<IndexColumn>> {
        if columns.len() > KEY_COLUMNS_MAX {
            return Err(messages::error(
                1904,
                &[
                    &"index",
                    &name,
                    &self.written,
                    &columns.len(),
                    &"index",
                    &KEY_COLUMNS_MAX,
                ],
            ));
        }
        let mut made: Vec<IndexColumn> = Vec::new();
        for column in columns {
            let name = &column.name.text;
            let found = self
                .def
                .column_named(name)
                .ok_or_else(|| could_not_create(messages::error(1911, &[name])))?;
            if made.iter().any(|k| k.column_id == found.id) {
                return Err(messages::error(1909, &[&what, name]));
            }
            if found.data_type.is_large()
                || matches!(
                    found.data_type,
                    DataType::Xml | DataType::Geography | DataType::Geometry
                )
            {
                return Err(could_not_create(messages::error(
                    1919,
                    &[name, &self.written],
                )));
            }
            self.check_indexable(found).map_err(could_not_create)?;
            made.push(IndexColumn {
                column_id: found.id,
                descending: column.descending,
            });
        }
        Ok(made)
    }

    /// An index definition without tree; its id is the next free one.
    pub fn index(&self, name: Option<String>, clustered: bool, key: Vec<IndexColumn>) -> IndexDef {
        IndexDef {
            id: if clustered { 1 } else { self.next_index_id() },
            name,
            kind: if clustered {
                IndexKind::Clustered
            } else {
                IndexKind::Nonclustered
            },
            tree: TreeId(daruma_base::PageId::NONE),
            unique: false,
            constraint: None,
            key,
            included: Vec::new(),
            filter: None,
            fill_factor: 0,
            ignore_dup_key: false,
            disabled: false,
            filegroup: self.def.filegroup,
        }
    }

    fn next_index_id(&self) -> i32 {
        self.def
            .indexes
            .iter()
            .map(|i| i.id)
            .max()
            .map_or(2, |id| (id + 1).max(2))
    }

    /// Puts an index in its place: the clustered one first. Errors 1902 and 1913.
    pub fn push_index(&mut self, made: IndexDef) -> Result<i32> {
        if let Some(name) = &made.name {
            let same = self
                .def
                .indexes
                .iter()
                .any(|i| i.name.as_deref().is_some_and(|n| names_equal(n, name)));
            if same {
                return Err(messages::error(1913, &[name, &"table", &self.written]));
            }
        }
        if made.kind == IndexKind::Clustered {
            if let Some(other) = self
                .def
                .indexes
                .iter()
                .find(|i| i.kind == IndexKind::Clustered)
            {
                let name = other.name.clone().unwrap_or_default();
                return Err(messages::error_state(
                    1902,
                    3,
                    &[&"table", &self.written, &name],
                ));
            }
            self.def.indexes.retain(|i| i.kind != IndexKind::Heap);
            self.def.indexes.insert(0, made);
            return Ok(1);
        }
        let id = made.id;
        self.def.indexes.push(made);
        Ok(id)
    }

    /// A table without clustered index is a heap.
    pub(super) fn add_storage(&mut self) -> Result<()> {
        let clustered = self
            .def
            .indexes
            .first()
            .is_some_and(|i| i.kind == IndexKind::Clustered);
        if !clustered {
            self.def.indexes.insert(0, self.heap());
        }
        Ok(())
    }

    /// A table's rows without a clustered index; its id is 0.
    pub fn heap(&self) -> IndexDef {
        IndexDef {
            id: 0,
            kind: IndexKind::Heap,
            ..self.index(None, false, Vec::new())
        }
    }

    pub(super) fn add_plain_indexes(&mut self, definition: &TableDefinition) -> Result<()> {
        let at_columns = definition
            .columns
            .iter()
            .filter_map(|c| c.index.as_ref().map(|i| (i, Some(&c.name))));
        let at_table = definition.indexes.iter().map(|i| (i, None));
        for (inline, column) in at_columns.chain(at_table) {
            self.add_inline_index(inline, column)?;
        }
        Ok(())
    }

    /// INDEX inside CREATE TABLE; gives the index's id.
    pub fn add_inline_index(
        &mut self,
        inline: &ast::InlineIndex,
        column: Option<&Ident>,
    ) -> Result<i32> {
        if inline.columnstore || inline.hash {
            return Err(messages::not_supported("columnstore and hash indexes"));
        }
        let columns = match column {
            Some(name) if inline.columns.is_empty() => vec![ast::IndexColumn {
                name: name.clone(),
                descending: false,
            }],
            _ => inline.columns.clone(),
        };
        let key = self.key_columns(&columns, "index", &inline.name.text)?;
        let mut made = self.index(
            Some(inline.name.text.clone()),
            inline.clustered == Some(true),
            key,
        );
        made.unique = inline.unique;
        made.included = self.included(&inline.include, &made)?;
        storage_options::apply(&mut made, &inline.options, self.taker)?;
        self.set_filter(&mut made, inline.filter.as_ref())?;
        self.push_index(made)
    }

    /// Gives a new index its filter. Error 10618 with IGNORE_DUP_KEY.
    pub fn set_filter(&self, made: &mut IndexDef, filter: Option<&Condition>) -> Result<()> {
        let Some(condition) = filter else {
            return Ok(());
        };
        let name = made.name.clone().unwrap_or_default();
        if made.ignore_dup_key {
            let catalog = self.ex.catalog(self.database)?;
            let schema = catalog.schema(self.schema_id).map_or("dbo", |s| &s.name);
            let table = format!("{schema}.{}", self.table_name);
            return Err(messages::error(10618, &[&"create", &name, &table]));
        }
        made.filter = Some(filter::checked(self, &name, condition)?);
        Ok(())
    }

    /// INCLUDE columns: known, once, and not of the key.
    pub fn included(&self, names: &[Ident], index: &IndexDef) -> Result<Vec<i32>> {
        if !names.is_empty() && index.kind == IndexKind::Clustered {
            return Err(messages::error(10601, &[]));
        }
        let mut ids = Vec::new();
        for name in names {
            let column = self
                .def
                .column_named(&name.text)
                .ok_or_else(|| messages::error(1911, &[&name.text]))?;
            if ids.contains(&column.id) || index.key.iter().any(|k| k.column_id == column.id) {
                return Err(messages::error(1909, &[&"index", &name.text]));
            }
            self.check_indexable(column)?;
            ids.push(column.id);
        }
        Ok(ids)
    }
}
