//! Meaning of a name in FROM, EXEC or a DDL statement.

use super::execution::Execution;
use super::trigger::TriggerTable;
use crate::error::Result;
use crate::host::{Host, Resolved};
use crate::instance::parsed;
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{DatabaseCatalog, Object, ObjectKind, SCHEMA_DBO, SCHEMA_SYS, SchemaId};
use daruma_syntax::ast::ObjectName;
use daruma_syntax::{ParseOptions, parse_object_name};
use std::sync::Arc;

/// Synonyms that point to synonyms: at most this many.
const SYNONYM_DEPTH_MAX: u32 = 8;

impl Execution<'_> {
    pub(crate) fn resolve_name(&self, database: DatabaseId, name: &ObjectName) -> Result<Resolved> {
        self.resolve_deep(database, name, 0)
    }

    fn resolve_deep(
        &self,
        database: DatabaseId,
        name: &ObjectName,
        depth: u32,
    ) -> Result<Resolved> {
        self.refuse_server(name)?;
        if name.is_temporary() {
            if self.in_function() {
                return Err(messages::error(2772, &[]));
            }
            self.note_private();
            let table = self.state.temp_table(&name.name.text);
            return table.map(Resolved::Table).ok_or_else(|| unknown(name));
        }
        if name.is_bare()
            && let Some(table) = self.trigger_table(&name.name.text)
        {
            self.note_private();
            return Ok(Resolved::Virtual(table));
        }
        let database = self.named_database(database, name)?;
        let schema_text = name.schema.as_ref().map(|s| s.text.as_str());
        if let Some(table) = self.virtual_table(schema_text, &name.name.text) {
            self.check_system_view(schema_text.unwrap_or("sys"), table.as_ref(), database)?;
            return Ok(Resolved::Virtual(table));
        }
        let catalog = self.state.catalog(database)?;
        let object = self
            .catalog_object(&catalog, database, name)
            .ok_or_else(|| unknown(name))?;
        self.note_object(database, object.id);
        if !matches!(object.kind, ObjectKind::Synonym { .. }) {
            self.note_use(database, &object)?;
        }
        match &object.kind {
            ObjectKind::Table(_) => match self.table_ref(database, &catalog, &object)? {
                Some(table) => Ok(Resolved::Table(table)),
                None => Err(unknown(name)),
            },
            ObjectKind::View(_) => Ok(Resolved::View { database, object }),
            ObjectKind::Function(_) => Ok(Resolved::Function { database, object }),
            ObjectKind::Synonym { target } if depth < SYNONYM_DEPTH_MAX => {
                let target = parsed(parse_object_name(target, &ParseOptions::default()))?;
                self.resolve_deep(database, &target, depth + 1)
            }
            _ => Err(unknown(name)),
        }
    }

    /// System views: by schema, or (old names) without one.
    fn virtual_table(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Option<Arc<dyn crate::host::VirtualTable>> {
        let registry = self.state.instance.registry();
        match schema {
            Some(schema) if schema.eq_ignore_ascii_case("dbo") => registry
                .table("dbo", name)
                .or_else(|| old_name(registry, name)),
            Some(schema) => registry.table(schema, name),
            None => old_name(registry, name),
        }
        .cloned()
    }

    pub(crate) fn refuse_server(&self, name: &ObjectName) -> Result<()> {
        match &name.server {
            Some(server) if !server.is(&self.state.instance.options().server_name) => {
                Err(messages::error(7202, &[&server.text]))
            }
            _ => Ok(()),
        }
    }

    /// The database a name is in.
    pub(crate) fn named_database(
        &self,
        current: DatabaseId,
        name: &ObjectName,
    ) -> Result<DatabaseId> {
        let Some(database) = &name.database else {
            return Ok(current);
        };
        let entry = self.state.instance.database_named(&database.text);
        let entry = entry.ok_or_else(|| unknown(name))?;
        entry.open()?;
        if entry.id() != current {
            self.state.rights(entry.id())?;
            self.state.visit(&entry)?;
            // They may have changed while it waited.
            self.state.rights(entry.id())?;
            // A plan that was kept would be a way in for those who come when it is another's.
            if entry.is_single_user() {
                self.note_private();
            }
        }
        Ok(entry.id())
    }

    /// Schemas to look in, in order.
    pub(crate) fn search_path(
        &self,
        catalog: &DatabaseCatalog,
        database: DatabaseId,
        name: &ObjectName,
    ) -> Vec<SchemaId> {
        if let Some(schema) = &name.schema {
            let named = catalog.schema_named(&schema.text);
            return named.map(|s| s.id).into_iter().collect();
        }
        let mut path = vec![SCHEMA_DBO];
        if let Some(first) = self.first_schema(database)
            && first != SCHEMA_DBO
        {
            path.insert(0, first);
        }
        path
    }

    /// Where names without a schema are looked for before dbo. In the text of a view or module that is its own schema, so
    /// that it means the same for everybody; elsewhere the default schema of whoever acts.
    fn first_schema(&self, database: DatabaseId) -> Option<SchemaId> {
        let own = match self.state.access.text_in() {
            Some((of, schema)) => (of == database).then_some(schema),
            None => self.module_schema(database),
        };
        if own.is_some() {
            return own;
        }
        self.note_default_schema();
        let schema = self.state.default_schema(database)?;
        if database != self.current_database() {
            // Plans are kept by the default schema of the current database.
            self.note_private();
        }
        Some(schema)
    }

    /// Where the running procedure or trigger finds what it names in the database, if that is where its names are meant. One
    /// of master that runs elsewhere has no schema there.
    fn module_schema(&self, database: DatabaseId) -> Option<SchemaId> {
        let frames = self.state.frames.borrow();
        let frame = frames.last()?;
        let is_module = frame.kind.is_module();
        let schema = match frame.home == database {
            true => frame.schema_id,
            false => SCHEMA_DBO,
        };
        (is_module && frame.database == database).then_some(schema)
    }

    pub(crate) fn catalog_object(
        &self,
        catalog: &DatabaseCatalog,
        database: DatabaseId,
        name: &ObjectName,
    ) -> Option<Arc<Object>> {
        let path = self.search_path(catalog, database, name);
        path.iter()
            .find_map(|schema| catalog.object_named(*schema, &name.name.text))
            .cloned()
    }

    /// Any object by name, through synonyms, with its database.
    pub(crate) fn find_object(
        &self,
        name: &ObjectName,
    ) -> Result<Option<(DatabaseId, Arc<Object>)>> {
        let mut name = name.clone();
        let mut database = self.current_database();
        for _ in 0..=SYNONYM_DEPTH_MAX {
            self.refuse_server(&name)?;
            if let Some(named) = &name.database
                && self.state.instance.database_named(&named.text).is_none()
            {
                return Ok(None);
            }
            database = self.named_database(database, &name)?;
            let catalog = self.state.catalog(database)?;
            let Some(object) = self.catalog_object(&catalog, database, &name) else {
                return Ok(None);
            };
            match &object.kind {
                ObjectKind::Synonym { target } => {
                    name = parsed(parse_object_name(target, &ParseOptions::default()))?
                }
                _ => return Ok(Some((database, object))),
            }
        }
        Ok(None)
    }

    /// `inserted` and `deleted` inside a trigger, and not in the texts of views that it reads.
    fn trigger_table(&self, name: &str) -> Option<Arc<TriggerTable>> {
        if self.state.access.text_in().is_some() {
            return None;
        }
        let frames = self.state.frames.borrow();
        let rows = frames.last()?.trigger.as_ref()?;
        TriggerTable::named(rows, name).map(Arc::new)
    }

    /// Schema id of a user schema by name; error 2760.
    pub(crate) fn schema_for_creation(
        &self,
        catalog: &DatabaseCatalog,
        database: DatabaseId,
        name: &ObjectName,
    ) -> Result<SchemaId> {
        match &name.schema {
            None => Ok(self.state.default_schema(database).unwrap_or(SCHEMA_DBO)),
            Some(schema) => match catalog.schema_named(&schema.text) {
                Some(found) if found.id != SCHEMA_SYS => Ok(found.id),
                _ => Err(messages::error(2760, &[&schema.text])),
            },
        }
    }
}

fn old_name<'r>(
    registry: &'r crate::instance::Registry,
    name: &str,
) -> Option<&'r Arc<dyn crate::host::VirtualTable>> {
    let old = name.to_ascii_lowercase();
    match old.get(..3) {
        Some("sys" | "fn_") => registry.table("sys", name),
        Some("spt") => registry.table("dbo", name),
        _ => None,
    }
}

fn unknown(name: &ObjectName) -> crate::error::SqlError {
    messages::error(208, &[&name.dotted()])
}
