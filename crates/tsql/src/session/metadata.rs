//! Functions about definitions: OBJECT_ID and family.

use super::execution::Execution;
use super::functions::{identity, int, text};
use crate::ddl::result_column;
use crate::error::Result;
use crate::host::{Host, TableRef};
use daruma_base::DatabaseId;
use daruma_catalog::{
    ConstraintKind, CounterId, DatabaseCatalog, IndexDef, IndexKind, Object, ObjectKind, Reached,
    SCHEMA_DBO, TableDef, names_equal,
};
use daruma_syntax::ast::ObjectName;
use daruma_syntax::{ParseOptions, parse_object_name};
use daruma_value::{DataType, Value, VariantValue};
use std::sync::Arc;

impl Execution<'_> {
    pub(crate) fn metadata_function(&self, name: &str, args: &[Value]) -> Result<Option<Value>> {
        let database = self.current_database();
        Ok(Some(match name {
            "db_id" => self.db_id(args),
            "db_name" => self.db_name(args),
            "object_id" => self.object_id_function(args),
            "object_name" => self.named_object(args, |_, _, name| Value::str(name)),
            "object_schema_name" => {
                self.named_object(args, |catalog, schema, _| schema_name(catalog, schema))
            }
            "object_definition" => self.object_definition(database, args)?,
            "schema_id" => {
                let name = text(args, 0).unwrap_or("dbo");
                self.state
                    .catalog(database)?
                    .schema_named(name)
                    .map_or(Value::Null, |s| Value::Int(s.id))
            }
            "schema_name" => match args.first() {
                None => Value::str("dbo"),
                Some(_) => int(args, 0).map_or(Ok(Value::Null), |id| {
                    self.visible(database).map(|c| schema_name(&c, id))
                })?,
            },
            "type_id" => self.type_id(text(args, 0).unwrap_or_default())?,
            "type_name" => self.type_name_function(int(args, 0).unwrap_or(0))?,
            "typeproperty" => self.type_property(args)?,
            "col_name" => self.with_table(args, |table| {
                let id = int(args, 1).unwrap_or(0);
                table
                    .column(id)
                    .map_or(Value::Null, |c| Value::str(&c.name))
            })?,
            "col_length" => self.col_length(args)?,
            "columnproperty" => self.column_property(args)?,
            "objectproperty" => self.object_property(args)?.map_or(Value::Null, Value::Int),
            "objectpropertyex" => self.object_property_ex(args)?,
            "indexproperty" => self.index_property(args)?,
            "index_col" => self.index_col(args)?,
            "indexkey_property" => self.index_key_property(args)?,
            "ident_current" => {
                self.ident(args, |execution, table| execution.current_identity(table))?
            }
            "ident_seed" => self.ident(args, |_, table| table.def.identity.map(|i| i.seed))?,
            "ident_incr" => self.ident(args, |_, table| table.def.identity.map(|i| i.increment))?,
            "file_id" | "file_idex" | "file_name" | "filegroup_id" | "filegroup_name"
            | "fileproperty" => self.file_function(name, args),
            _ => return Ok(None),
        }))
    }

    fn db_id(&self, args: &[Value]) -> Value {
        match args.first() {
            None => Value::Int(i32::from(self.current_database().0)),
            Some(_) => {
                let entry = text(args, 0).and_then(|name| self.state.instance.database_named(name));
                let entry = entry.filter(|e| self.knows_database(e.id()));
                entry.map_or(Value::Null, |e| Value::Int(i32::from(e.id().0)))
            }
        }
    }

    fn db_name(&self, args: &[Value]) -> Value {
        let id = match args.first() {
            None => Some(self.current_database()),
            Some(_) => database_argument(args, 0),
        };
        let entry = id.and_then(|id| self.state.instance.database(id));
        let entry = entry.filter(|e| self.knows_database(e.id()));
        entry.map_or(Value::Null, |e| Value::str(e.name()))
    }

    fn object_id_function(&self, args: &[Value]) -> Value {
        let wanted = text(args, 0).unwrap_or_default();
        let kind = text(args, 1).map(|k| k.trim().to_ascii_uppercase());
        let Ok(name) = parse_object_name(wanted, &ParseOptions::default()) else {
            return Value::Null;
        };
        self.object_id(&name, kind.as_deref())
            .map_or(Value::Null, Value::Int)
    }

    fn object_id(&self, name: &ObjectName, kind: Option<&str>) -> Option<i32> {
        let fits = |code: &str| kind.is_none_or(|k| k == code.trim());
        if name.is_temporary() {
            let in_tempdb = self.current_database() == crate::instance::TEMPDB
                || name.database.as_ref().is_some_and(|d| d.is("tempdb"));
            let text = &name.name.text;
            let table = self.state.temp_table(text).map(|t| t.object_id);
            let module = self.state.temp_module(text).map(|m| m.id);
            let table = table.filter(|_| fits("U"));
            let found = table.or(module.filter(|_| fits("P")));
            return found.filter(|_| in_tempdb);
        }
        let database = self.named_database(self.current_database(), name).ok()?;
        let catalog = self.visible(database).ok()?;
        if let Some(object) = self.catalog_object(&catalog, database, name) {
            return fits(object.type_code()).then_some(object.id);
        }
        let path = self.search_path(&catalog, database, name);
        let constraint = path
            .iter()
            .find_map(|s| catalog.constraint_named(*s, &name.name.text));
        if let Some(constraint) = constraint {
            return fits(constraint.kind.type_code()).then_some(constraint.id);
        }
        let schema = name.schema.as_ref().map_or("sys", |s| s.text.as_str());
        let registry = self.state.instance.registry();
        let object = crate::sysviews::system_object(registry, schema, &name.name.text)?;
        fits(object.type_code).then_some(object.id)
    }

    /// Applies `read` to (catalog, schema, name) of the object or constraint with the id in the first argument.
    fn named_object(
        &self,
        args: &[Value],
        read: impl Fn(&DatabaseCatalog, i32, &str) -> Value,
    ) -> Value {
        let Some(id) = int(args, 0) else {
            return Value::Null;
        };
        let database = match args.get(1) {
            Some(_) => database_argument(args, 1),
            None => Some(self.current_database()),
        };
        let Some(database) = database else {
            return Value::Null;
        };
        let Ok(catalog) = self.visible(database) else {
            return Value::Null;
        };
        if let Some(object) = catalog.object(id) {
            return read(&catalog, object.schema_id, &object.name);
        }
        if let Some(constraint) = catalog.constraint(id) {
            let schema = catalog
                .object(constraint.table)
                .map_or(SCHEMA_DBO, |t| t.schema_id);
            return read(
                &catalog,
                schema,
                catalog.constraint_name(id).unwrap_or_default(),
            );
        }
        if let Some(table) = self.temporary_by_id(id) {
            return read(&catalog, SCHEMA_DBO, &table.name);
        }
        let registry = self.state.instance.registry();
        let found = crate::sysviews::system_object_by_id(registry, id);
        found.map_or(Value::Null, |o| read(&catalog, o.schema_id, &o.name))
    }

    fn temporary_by_id(&self, id: i32) -> Option<TableRef> {
        let table = self.state.instance.temp_tables.lock().get(&id).cloned();
        table.filter(|t| self.knows_temporary(t))
    }

    fn object_definition(&self, database: DatabaseId, args: &[Value]) -> Result<Value> {
        let catalog = self.visible(database)?;
        let object = int(args, 0).and_then(|id| catalog.object(id).cloned());
        Ok(object
            .and_then(|o| definition_of(&o).map(Value::str))
            .unwrap_or(Value::Null))
    }

    fn type_id(&self, name: &str) -> Result<Value> {
        let Ok(name) = parse_object_name(name, &ParseOptions::default()) else {
            return Ok(Value::Null);
        };
        let schema = name.schema.as_ref().map(|s| s.text.as_str());
        let visible = self.visible(self.current_database())?;
        Ok(match self.resolve_type_name(schema, &name.name.text, &[]) {
            Ok((_, _, Some(id))) if hides_type(&visible, id) => Value::Null,
            Ok((_, _, Some(id))) => Value::Int(id),
            Ok((data_type, ..)) => Value::Int(user_type_id(data_type)),
            Err(_) => Value::Null,
        })
    }

    fn type_name_function(&self, id: i32) -> Result<Value> {
        if id == super::types::SYSNAME_TYPE_ID {
            return Ok(Value::str("sysname"));
        }
        let catalog = self.visible(self.current_database())?;
        if let Some(def) = catalog.type_by_id(id) {
            return Ok(Value::str(&def.name));
        }
        let found = BUILT_IN_TYPES
            .iter()
            .find(|(name, _)| built_in_id(name) == Some(id));
        Ok(found.map_or(Value::Null, |(name, _)| Value::str(name)))
    }

    fn type_property(&self, args: &[Value]) -> Result<Value> {
        let (Some(name), Some(property)) = (text(args, 0), text(args, 1)) else {
            return Ok(Value::Null);
        };
        let Ok((data_type, nullable, id)) = self.resolve_type_name(None, name, &[]) else {
            return Ok(Value::Null);
        };
        let visible = self.visible(self.current_database())?;
        if id.is_some_and(|id| hides_type(&visible, id)) {
            return Ok(Value::Null);
        }
        Ok(match property.to_ascii_lowercase().as_str() {
            "precision" => Value::Int(i32::from(data_type.precision())),
            "scale" => Value::Int(i32::from(data_type.scale())),
            "allowsnull" => Value::Int(i32::from(nullable.unwrap_or(true))),
            _ => Value::Null,
        })
    }

    /// Applies `read` to the table whose id is the first argument.
    fn with_table(&self, args: &[Value], read: impl Fn(&TableDef) -> Value) -> Result<Value> {
        let Some(id) = int(args, 0) else {
            return Ok(Value::Null);
        };
        if let Some(table) = self.temporary_by_id(id) {
            return Ok(read(&table.def));
        }
        let catalog = self.visible(self.current_database())?;
        Ok(match catalog.object(id).map(|o| &o.kind) {
            Some(ObjectKind::Table(def)) => read(def),
            Some(ObjectKind::View(module)) => read(&TableDef {
                columns: module.columns.clone(),
                ..TableDef::default()
            }),
            Some(_) => Value::Null,
            None => self.with_system_view(id, read),
        })
    }

    fn with_system_view(&self, id: i32, read: impl Fn(&TableDef) -> Value) -> Value {
        let registry = self.state.instance.registry();
        let object = crate::sysviews::system_object_by_id(registry, id);
        let Some(table) = object.and_then(|o| o.table) else {
            return Value::Null;
        };
        let columns = table.columns().iter().enumerate();
        read(&TableDef {
            columns: columns.map(|(at, c)| result_column(at, c)).collect(),
            ..TableDef::default()
        })
    }

    fn col_length(&self, args: &[Value]) -> Result<Value> {
        let (Some(table), Some(column)) = (text(args, 0), text(args, 1)) else {
            return Ok(Value::Null);
        };
        let Ok(name) = parse_object_name(table, &ParseOptions::default()) else {
            return Ok(Value::Null);
        };
        let Some(id) = self.object_id(&name, None) else {
            return Ok(Value::Null);
        };
        self.with_table(&[Value::Int(id)], |def| {
            def.column_named(column)
                .map_or(Value::Null, |c| Value::SmallInt(c.data_type.max_length()))
        })
    }

    fn column_property(&self, args: &[Value]) -> Result<Value> {
        let (Some(column), Some(property)) = (text(args, 1), text(args, 2)) else {
            return Ok(Value::Null);
        };
        let flag = |b: bool| Value::Int(i32::from(b));
        self.with_table(args, |def| {
            let Some(c) = def.column_named(column) else {
                return Value::Null;
            };
            match property.to_ascii_lowercase().as_str() {
                "allowsnull" => flag(c.nullable),
                "columnid" => Value::Int(c.id),
                "isidentity" => flag(c.is_identity),
                "iscomputed" => flag(c.computed.is_some()),
                "isrowguidcol" => flag(c.is_rowguid),
                "issparse" => flag(c.is_sparse),
                "isidnotforrepl" => {
                    flag(c.is_identity && def.identity.is_some_and(|i| i.not_for_replication))
                }
                "precision" => Value::Int(match c.data_type.declared_len() {
                    Some(len) if len.is_max() => -1,
                    Some(len) => i32::from(len.0),
                    None => i32::from(c.data_type.precision()),
                }),
                "scale" => Value::Int(i32::from(c.data_type.scale())),
                "charmaxlen" => match c.data_type.declared_len() {
                    Some(len) if len.is_max() => Value::Int(-1),
                    Some(len) => Value::Int(i32::from(len.0)),
                    None => Value::Null,
                },
                "isfulltextindexed"
                | "ishidden"
                | "iscolumnset"
                | "generatedalwaystype"
                | "isoutparam"
                | "iscursortype" => Value::Int(0),
                "isindexable" | "isdeterministic" | "isprecise" | "usesansitrim" => Value::Int(1),
                _ => Value::Null,
            }
        })
    }

    fn object_property(&self, args: &[Value]) -> Result<Option<i32>> {
        let (Some(id), Some(property)) = (int(args, 0), text(args, 1)) else {
            return Ok(None);
        };
        let catalog = self.visible(self.current_database())?;
        let property = property.to_ascii_lowercase();
        if let Some(constraint) = catalog.constraint(id) {
            return Ok(constraint_property(constraint.kind, &property).map(i32::from));
        }
        let system = id < 0;
        let Some(object) = catalog.object(id) else {
            return Ok(match (system, property.as_str()) {
                (true, "ismsshipped" | "isview" | "issystemtable") => Some(1),
                (true, "isusertable" | "isprocedure") => Some(0),
                _ => None,
            });
        };
        Ok(object_flag(&catalog, object, &property))
    }

    fn object_property_ex(&self, args: &[Value]) -> Result<Value> {
        let catalog = self.visible(self.current_database())?;
        if text(args, 1).is_some_and(|p| p.eq_ignore_ascii_case("BaseType")) {
            let object = int(args, 0).and_then(|id| catalog.object(id).cloned());
            return Ok(object.map_or(Value::Null, |o| {
                let data_type = DataType::Char(daruma_value::Len(2));
                Value::Variant(Box::new(VariantValue {
                    data_type,
                    value: Value::str(o.type_code()),
                }))
            }));
        }
        Ok(self.object_property(args)?.map_or(Value::Null, |n| {
            Value::Variant(Box::new(VariantValue {
                data_type: DataType::Int,
                value: Value::Int(n),
            }))
        }))
    }

    fn index_property(&self, args: &[Value]) -> Result<Value> {
        let (Some(index), Some(property)) = (text(args, 1), text(args, 2)) else {
            return Ok(Value::Null);
        };
        self.with_table(args, |def| {
            let found = def
                .indexes
                .iter()
                .find(|i| i.name.as_deref().is_some_and(|n| names_equal(n, index)));
            found.map_or(Value::Null, |i| {
                index_flag(i, &property.to_ascii_lowercase())
            })
        })
    }

    fn index_col(&self, args: &[Value]) -> Result<Value> {
        let Some(Ok(name)) = text(args, 0).map(|t| parse_object_name(t, &ParseOptions::default()))
        else {
            return Ok(Value::Null);
        };
        let Some(id) = self.object_id(&name, None) else {
            return Ok(Value::Null);
        };
        let (index, key) = (int(args, 1).unwrap_or(0), int(args, 2).unwrap_or(0));
        self.with_table(&[Value::Int(id)], |def| {
            let column = def
                .index(index)
                .and_then(|i| i.key.get((key - 1).max(0) as usize))
                .and_then(|k| def.column(k.column_id));
            column.map_or(Value::Null, |c| Value::str(&c.name))
        })
    }

    fn index_key_property(&self, args: &[Value]) -> Result<Value> {
        let (index, key) = (int(args, 1).unwrap_or(0), int(args, 2).unwrap_or(0));
        let property = text(args, 3).unwrap_or_default().to_ascii_lowercase();
        self.with_table(args, |def| {
            let column = def
                .index(index)
                .and_then(|i| i.key.get((key - 1).max(0) as usize));
            match (column, property.as_str()) {
                (Some(c), "columnid") => Value::Int(c.column_id),
                (Some(c), "isdescending") => Value::Int(i32::from(c.descending)),
                _ => Value::Null,
            }
        })
    }

    fn ident(
        &self,
        args: &[Value],
        read: impl Fn(&Self, &TableRef) -> Option<i128>,
    ) -> Result<Value> {
        let Some(Ok(name)) = text(args, 0).map(|t| parse_object_name(t, &ParseOptions::default()))
        else {
            return Ok(Value::Null);
        };
        let table = self.visible_table(&name)?;
        Ok(identity(table.and_then(|t| read(self, &t))))
    }

    /// A table that the session may know of.
    fn visible_table(&self, name: &ObjectName) -> Result<Option<TableRef>> {
        if name.is_temporary() {
            return Ok(self.state.temp_table(&name.name.text));
        }
        let Some(id) = self.object_id(name, Some("U")) else {
            return Ok(None);
        };
        let database = self.named_database(self.current_database(), name)?;
        self.table_by_id(database, id).map(Some)
    }

    fn current_identity(&self, table: &TableRef) -> Option<i128> {
        let identity = table.def.identity?;
        Some(match self.reached_identity(table) {
            None => identity.seed,
            Some(reached) if reached.is_given => reached.last,
            Some(reached) => reached.last.saturating_add(identity.increment),
        })
    }

    /// How far the identity values are; `None` when none was given since the table was made or truncated, nor the first one named.
    pub(super) fn reached_identity(&self, table: &TableRef) -> Option<Reached> {
        let id = CounterId::Identity(table.object_id);
        match table.kind {
            crate::host::TableKind::User => {
                let open = self
                    .state
                    .instance
                    .open_database(table.database.id())
                    .ok()?;
                open.catalog.reached(id)
            }
            _ => self.state.instance.temp_counters.lock().get(&id).copied(),
        }
    }

    fn file_function(&self, name: &str, args: &[Value]) -> Value {
        let Some(entry) = self.state.instance.database(self.current_database()) else {
            return Value::Null;
        };
        let def = entry.def();
        let file = |wanted: &str| {
            def.files
                .iter()
                .find(|f| names_equal(&f.logical_name, wanted))
        };
        match name {
            "file_id" => text(args, 0)
                .and_then(file)
                .map_or(Value::Null, |f| Value::SmallInt(f.id as i16)),
            "file_idex" => text(args, 0)
                .and_then(file)
                .map_or(Value::Null, |f| Value::Int(i32::from(f.id))),
            "file_name" => {
                let id = int(args, 0).unwrap_or(0);
                let found = def.files.iter().find(|f| i32::from(f.id) == id);
                found.map_or(Value::Null, |f| Value::str(&f.logical_name))
            }
            "filegroup_id" => {
                let found = text(args, 0).and_then(|n| def.filegroup_named(n));
                found.map_or(Value::Null, |g| Value::Int(i32::from(g.id)))
            }
            "filegroup_name" => {
                let id = int(args, 0).unwrap_or(0);
                let found = def.filegroups.iter().find(|g| i32::from(g.id) == id);
                found.map_or(Value::Null, |g| Value::str(&g.name))
            }
            _ => self.file_property(&entry, args),
        }
    }

    fn file_property(&self, entry: &crate::instance::DatabaseEntry, args: &[Value]) -> Value {
        let Ok(open) = entry.open() else {
            return Value::Null;
        };
        let wanted = text(args, 0).unwrap_or_default();
        let files = open.storage.files();
        let Some(file) = files
            .iter()
            .find(|f| names_equal(&f.spec.logical_name, wanted))
        else {
            return Value::Null;
        };
        match text(args, 1)
            .unwrap_or_default()
            .to_ascii_lowercase()
            .as_str()
        {
            "spaceused" => Value::Int(i32::try_from(file.used_pages).unwrap_or(i32::MAX)),
            "islogfile" => Value::Int(i32::from(file.spec.filegroup == 0)),
            "isprimaryfile" => Value::Int(i32::from(file.spec.id == 1)),
            "isreadonly" => Value::Int(0),
            _ => Value::Null,
        }
    }
}

/// Is it an alias type that the session may not know of?
fn hides_type(visible: &DatabaseCatalog, id: i32) -> bool {
    id != super::types::SYSNAME_TYPE_ID && visible.type_by_id(id).is_none()
}

/// The CREATE statement of a module, unless it is kept back.
pub fn definition_of(object: &Object) -> Option<&str> {
    let text = match &object.kind {
        ObjectKind::View(m) | ObjectKind::Procedure(m) | ObjectKind::Function(m) => &m.definition,
        ObjectKind::Trigger(t) => &t.module.definition,
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn schema_name(catalog: &DatabaseCatalog, id: i32) -> Value {
    catalog
        .schema(id)
        .map_or(Value::Null, |s| Value::str(&s.name))
}

fn database_argument(args: &[Value], index: usize) -> Option<DatabaseId> {
    u16::try_from(int(args, index)?).ok().map(DatabaseId)
}

/// Built-in types by `sys.types.name` with their `user_type_id` where it differs from `system_type_id`.
pub const BUILT_IN_TYPES: &[(&str, Option<i32>)] = &[
    ("image", None),
    ("text", None),
    ("uniqueidentifier", None),
    ("date", None),
    ("time", None),
    ("datetime2", None),
    ("datetimeoffset", None),
    ("tinyint", None),
    ("smallint", None),
    ("int", None),
    ("smalldatetime", None),
    ("real", None),
    ("money", None),
    ("datetime", None),
    ("float", None),
    ("sql_variant", None),
    ("ntext", None),
    ("bit", None),
    ("decimal", None),
    ("numeric", Some(108)),
    ("smallmoney", None),
    ("bigint", None),
    ("hierarchyid", Some(128)),
    ("geometry", Some(129)),
    ("geography", Some(130)),
    ("varbinary", None),
    ("varchar", None),
    ("binary", None),
    ("char", None),
    ("timestamp", None),
    ("nvarchar", None),
    ("nchar", None),
    ("xml", None),
];

fn built_in_id(name: &str) -> Option<i32> {
    let (_, own) = BUILT_IN_TYPES.iter().find(|(n, _)| *n == name)?;
    match own {
        Some(id) => Some(*id),
        None => super::types::named_type(name, &[])?.ok().map(user_type_id),
    }
}

/// `sys.types.user_type_id` of a built-in type.
pub fn user_type_id(data_type: DataType) -> i32 {
    match data_type {
        DataType::HierarchyId => 128,
        DataType::Geometry => 129,
        DataType::Geography => 130,
        other => i32::from(other.system_type_id()),
    }
}

fn constraint_property(kind: ConstraintKind, property: &str) -> Option<bool> {
    Some(match property {
        "isconstraint" => true,
        "isprimarykey" => kind == ConstraintKind::PrimaryKey,
        "isuniquecnst" => kind == ConstraintKind::Unique,
        "isforeignkey" => kind == ConstraintKind::ForeignKey,
        "ischeckcnst" => kind == ConstraintKind::Check,
        "isdefaultcnst" | "isdefault" => kind == ConstraintKind::Default,
        "isusertable" | "isview" | "isprocedure" | "istrigger" | "ismsshipped" => false,
        _ => return None,
    })
}

fn object_flag(catalog: &DatabaseCatalog, object: &Arc<Object>, property: &str) -> Option<i32> {
    let kind = &object.kind;
    let table = match kind {
        ObjectKind::Table(def) => Some(def),
        _ => None,
    };
    let has = |test: fn(&TableDef) -> bool| table.is_some_and(|t| test(t));
    let module = crate::sysviews::module_of(object);
    let flag = match property {
        "isusertable" | "istable" => table.is_some(),
        "isview" => matches!(kind, ObjectKind::View(_)),
        "isprocedure" => matches!(kind, ObjectKind::Procedure(_)),
        "execisinsteadoftrigger" => matches!(kind, ObjectKind::Trigger(t) if t.instead_of),
        "execisaftertrigger" => matches!(kind, ObjectKind::Trigger(t) if !t.instead_of),
        "execisinserttrigger" => matches!(kind, ObjectKind::Trigger(t) if t.on_insert),
        "execisupdatetrigger" => matches!(kind, ObjectKind::Trigger(t) if t.on_update),
        "execisdeletetrigger" => matches!(kind, ObjectKind::Trigger(t) if t.on_delete),
        "execistriggerdisabled" => matches!(kind, ObjectKind::Trigger(t) if t.disabled),
        "istrigger" => matches!(kind, ObjectKind::Trigger(_)),
        "isscalarfunction" => object.type_code() == "FN",
        "isinlinefunction" => object.type_code() == "IF",
        "istablefunction" => matches!(object.type_code(), "IF" | "TF"),
        "isdeterministic" => {
            let function = module.and_then(|m| m.function);
            function.is_some_and(|f| f.is_deterministic)
        }
        "ismsshipped"
        | "issystemtable"
        | "isconstraint"
        | "isprimarykey"
        | "isencrypted"
        | "isreplproc"
        | "isextendedproc"
        | "isrule"
        | "isdefault"
        | "tableisfake"
        | "tabletemporaltype"
        | "tablehasactivefulltextindex" => false,
        "tablehasprimarykey" => has(|t| {
            t.indexes
                .iter()
                .any(|i| i.constraint.as_ref().is_some_and(|c| c.is_primary_key))
        }),
        "tablehasuniquecnst" => has(|t| {
            t.indexes
                .iter()
                .any(|i| i.constraint.as_ref().is_some_and(|c| !c.is_primary_key))
        }),
        "tablehasforeignkey" => has(|t| !t.foreign_keys.is_empty()),
        "tablehasforeignref" => !catalog.referencing(object.id).is_empty(),
        "tablehascheckcnst" => has(|t| !t.checks.is_empty()),
        "tablehasdefaultcnst" => has(|t| t.columns.iter().any(|c| c.default.is_some())),
        "tablehasidentity" => has(|t| t.identity.is_some()),
        "tablehasclustindex" => has(|t| {
            t.indexes
                .first()
                .is_some_and(|i| i.kind == IndexKind::Clustered)
        }),
        "tablehasnonclustindex" => {
            has(|t| t.indexes.iter().any(|i| i.kind == IndexKind::Nonclustered))
        }
        "tablehasindex" | "isindexed" => {
            has(|t| t.indexes.iter().any(|i| i.kind != IndexKind::Heap))
        }
        "tablehasrowguidcol" => has(|t| t.columns.iter().any(|c| c.is_rowguid)),
        "tablehastimestamp" => has(|t| {
            t.columns
                .iter()
                .any(|c| c.data_type == DataType::RowVersion)
        }),
        "tablehastextimage" => has(|t| t.columns.iter().any(|c| c.data_type.is_large())),
        "isansinullson" | "execisansinullson" => module.is_none_or(|m| m.ansi_nulls),
        "isquotedidenton" | "execisquotedidenton" => module.is_none_or(|m| m.quoted_identifier),
        "isschemabound" => module.is_some_and(|m| m.schema_bound),
        "ownerid" => return Some(1),
        "schemaid" => return Some(object.schema_id),
        _ => return None,
    };
    Some(i32::from(flag))
}

fn index_flag(index: &IndexDef, property: &str) -> Value {
    let flag = match property {
        "indexid" => return Value::Int(index.id),
        "indexfillfactor" => return Value::Int(i32::from(index.fill_factor)),
        "indexdepth" => return Value::Int(1),
        "isunique" => index.unique,
        "isclustered" => index.kind == IndexKind::Clustered,
        "isdisabled" => index.disabled,
        "ispadindex"
        | "isstatistics"
        | "isautostatistics"
        | "ishypothetical"
        | "isfulltextkey"
        | "ispagelockdisallowed"
        | "isrowlockdisallowed"
        | "iscolumnstore" => false,
        _ => return Value::Null,
    };
    Value::Int(i32::from(flag))
}
