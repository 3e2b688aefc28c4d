//! Sources of the views: the host, the database they are seen from, and lists that several views share.

use super::define::Cell;
use super::names::{SystemObject, system_objects};
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::{DatabaseEntry, Instance, LoginList, OpenDatabase, TEMPDB};
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{
    ConstraintKind, DatabaseCatalog, Object, ObjectKind, SCHEMA_DBO, SCHEMA_SYS, TableDef,
    constraints_of,
};
use daruma_value::temporal::{DAYS_TO_1900, Moment, TICKS_PER_DAY};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// Days from 1900-01-01 to 1970-01-01.
const DAYS_1900_TO_1970: i32 = 25_567;
/// Hidden tables behind table types have ids from here on.
const TABLE_TYPE_IDS: i32 = 2_000_000_000;

const DATABASE_STATE: &str = "VIEW DATABASE STATE";

/// Everything a view may look at.
pub(crate) struct Source<'a> {
    pub host: &'a dyn Host,
    pub database: DatabaseId,
    pub arguments: &'a [Value],
    offset_minutes: i16,
}

/// A table with its identity: of the catalog, temporary, or behind a table type.
pub(crate) struct Table {
    pub id: i32,
    pub schema_id: i32,
    pub name: String,
    pub created_utc: i64,
    pub modified_utc: i64,
    pub def: Arc<TableDef>,
    pub is_type: bool,
}

/// A line of `sys.objects`.
pub(crate) struct ObjectLine {
    pub id: i32,
    pub name: String,
    pub schema_id: i32,
    pub parent_id: i32,
    pub type_code: &'static str,
    pub created_utc: i64,
    pub modified_utc: i64,
    pub is_ms_shipped: bool,
}

impl<'a> Source<'a> {
    /// For one reading of a view, in one database, with these arguments.
    pub fn new(host: &'a dyn Host, database: DatabaseId, arguments: &'a [Value]) -> Source<'a> {
        Source {
            host,
            database,
            arguments,
            offset_minutes: host.now().1,
        }
    }

    /// The server; an error where there is none, as in tests of the binder alone.
    pub fn instance(&self) -> Result<&'a Arc<Instance>> {
        self.host
            .instance()
            .ok_or_else(|| SqlError::new(208, 16, 1, "There is no server to look at."))
    }

    /// Logins, as the session has changed them.
    pub fn logins(&self) -> Result<LoginList> {
        match self.host.logins() {
            Some(logins) => Ok(logins),
            None => Ok(self.instance()?.logins.list()),
        }
    }

    /// Definitions of the database the view is seen from.
    pub fn catalog(&self) -> Result<Arc<DatabaseCatalog>> {
        self.host.visible_catalog(self.database)
    }

    /// The database the view is read in, open.
    pub fn open(&self) -> Result<OpenDatabase> {
        self.instance()?.open_database(self.database)
    }

    /// The same, in whatever state it is.
    pub fn entry(&self) -> Result<Arc<DatabaseEntry>> {
        let entry = self.instance()?.database(self.database);
        entry.ok_or_else(|| messages::error(2520, &[&self.database.0]))
    }

    /// Databases that the session may know of.
    pub fn databases(&self) -> Result<Vec<Arc<DatabaseEntry>>> {
        let mut list = self.instance()?.databases();
        list.retain(|d| self.host.sees_database(d.id()));
        Ok(list)
    }

    /// Databases whose files the session may know of.
    pub fn databases_with_files(&self) -> Result<Vec<Arc<DatabaseEntry>>> {
        const EVERY: [&str; 3] = [
            "CREATE ANY DATABASE",
            "ALTER ANY DATABASE",
            "VIEW ANY DEFINITION",
        ];
        let every = EVERY.iter().any(|p| self.host.has_server_permission(p));
        let mut list = self.instance()?.databases();
        list.retain(|d| every || self.host.has_database_permission(d.id(), "CONTROL"));
        Ok(list)
    }

    /// Databases whose state the session may see.
    pub fn databases_with_state(&self) -> Result<Vec<Arc<DatabaseEntry>>> {
        let mut list = self.instance()?.databases();
        list.retain(|d| self.may_see_state(d));
        Ok(list)
    }

    fn may_see_state(&self, entry: &DatabaseEntry) -> bool {
        self.host
            .has_database_permission(entry.id(), DATABASE_STATE)
    }

    /// Databases that an argument names and whose state the session may see: all when it is absent or NULL, none when
    /// there is no such one.
    pub fn databases_of_argument(&self, position: usize) -> Result<Vec<Arc<DatabaseEntry>>> {
        if matches!(self.arguments.get(position), None | Some(Value::Null)) {
            return self.databases_with_state();
        }
        let wanted = self.integer_argument(position);
        let all = self.instance()?.databases();
        let named = all
            .into_iter()
            .find(|d| wanted == Some(i64::from(d.id().0)));
        match named {
            Some(entry) if !self.may_see_state(&entry) => {
                let refused = messages::error(262, &[&DATABASE_STATE, &entry.name()]);
                Err(refused.followed(messages::error(297, &[])))
            }
            named => Ok(named.into_iter().collect()),
        }
    }

    /// An argument as a number, from text too, as the product converts it.
    pub fn integer_argument(&self, position: usize) -> Option<i64> {
        match self.arguments.get(position)? {
            Value::Bit(b) => Some(i64::from(*b)),
            Value::TinyInt(n) => Some(i64::from(*n)),
            Value::SmallInt(n) => Some(i64::from(*n)),
            Value::Int(n) => Some(i64::from(*n)),
            Value::BigInt(n) => Some(*n),
            Value::Str(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// An instant as the server's local time; 0 is "never".
    pub fn time(&self, utc_100ns: i64) -> Cell {
        match utc_100ns {
            0 => Cell::Null,
            at => Cell::Moment(self.moment(at)),
        }
    }

    /// An instant as UTC.
    pub fn utc(&self, utc_100ns: i64) -> Cell {
        let offset = i64::from(self.offset_minutes) * 600_000_000;
        Cell::Moment(self.moment(utc_100ns.saturating_sub(offset)))
    }

    /// An instant as the server's clock shows it.
    pub fn moment(&self, utc_100ns: i64) -> Option<Moment> {
        let local = i128::from(utc_100ns) + i128::from(self.offset_minutes) * 600_000_000;
        let start = i128::from(DAYS_TO_1900 + DAYS_1900_TO_1970) * i128::from(TICKS_PER_DAY);
        Moment::from_total_ticks(start + local)
    }

    /// Tables of the database: users', temporary ones in tempdb, and those behind table types.
    pub fn tables(&self) -> Result<Vec<Table>> {
        let catalog = self.catalog()?;
        let mut list: Vec<Table> = sorted_objects(&catalog)
            .iter()
            .filter_map(|o| user_table(o))
            .collect();
        if self.database == TEMPDB {
            list.extend(self.temporary_tables()?);
        }
        for def in catalog.types() {
            if let Some(table) = &def.table {
                list.push(Table {
                    id: table_type_object_id(def.id),
                    schema_id: SCHEMA_SYS,
                    name: format!("TT_{}_{:08X}", def.name, def.id),
                    created_utc: self.instance()?.started_utc(),
                    modified_utc: self.instance()?.started_utc(),
                    def: table.clone(),
                    is_type: true,
                });
            }
        }
        Ok(list)
    }

    fn temporary_tables(&self) -> Result<Vec<Table>> {
        let instance = self.instance()?;
        let started = instance.started_utc();
        let tables = instance.temp_tables.lock();
        let table = |t: &crate::host::TableRef| Table {
            id: t.object_id,
            schema_id: SCHEMA_DBO,
            name: temporary_name(&t.name, t.object_id),
            created_utc: started,
            modified_utc: started,
            def: t.def.clone(),
            is_type: false,
        };
        Ok(tables
            .values()
            .filter(|t| self.host.sees_temporary(t))
            .map(table)
            .collect())
    }

    /// Lines of `sys.objects`: the database's own objects and their constraints.
    pub fn objects(&self) -> Result<Vec<ObjectLine>> {
        let catalog = self.catalog()?;
        let mut list = Vec::new();
        for table in self.tables()? {
            table_lines(&table, &mut list);
        }
        for object in sorted_objects(&catalog) {
            if !matches!(object.kind, ObjectKind::Table(_)) {
                list.push(object_line(&object));
            }
        }
        Ok(list)
    }

    /// Lines of `sys.system_objects`.
    pub fn system_objects(&self) -> Result<Vec<SystemObject>> {
        Ok(system_objects(self.instance()?.registry()))
    }
}

/// A definition's text, unless it is kept from the session.
pub(crate) fn shown_text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Objects by id, so that views have a steady order.
pub(crate) fn sorted_objects(catalog: &DatabaseCatalog) -> Vec<Arc<Object>> {
    let mut list: Vec<Arc<Object>> = catalog.objects().cloned().collect();
    list.sort_by_key(|o| o.id);
    list
}

/// `object_id` of the hidden table behind a table type.
pub(crate) fn table_type_object_id(type_id: i32) -> i32 {
    TABLE_TYPE_IDS.saturating_add(type_id)
}

fn user_table(object: &Object) -> Option<Table> {
    let ObjectKind::Table(def) = &object.kind else {
        return None;
    };
    Some(Table {
        id: object.id,
        schema_id: object.schema_id,
        name: object.name.clone(),
        created_utc: object.created_utc,
        modified_utc: object.modified_utc,
        def: def.clone(),
        is_type: false,
    })
}

/// Name of a `#table` in tempdb: padded with underscores to 116 characters, then 12 hexadecimal digits.
fn temporary_name(name: &str, id: i32) -> String {
    match name.starts_with("##") {
        true => name.to_string(),
        false => format!("{name:_<116}{:012X}", id.unsigned_abs()),
    }
}

fn table_lines(table: &Table, list: &mut Vec<ObjectLine>) {
    let line = |id, name: String, parent_id, type_code| ObjectLine {
        id,
        name,
        schema_id: table.schema_id,
        parent_id,
        type_code,
        created_utc: table.created_utc,
        modified_utc: table.modified_utc,
        is_ms_shipped: false,
    };
    list.push(line(
        table.id,
        table.name.clone(),
        0,
        if table.is_type { "TT" } else { "U " },
    ));
    for (constraint, name) in constraints_of(table.id, &table.def) {
        let code = match constraint.kind {
            ConstraintKind::PrimaryKey => "PK",
            ConstraintKind::Unique => "UQ",
            ConstraintKind::Check => "C ",
            ConstraintKind::Default => "D ",
            ConstraintKind::ForeignKey => "F ",
        };
        list.push(line(constraint.id, name.to_string(), table.id, code));
    }
}

fn object_line(object: &Object) -> ObjectLine {
    let parent_id = match &object.kind {
        ObjectKind::Trigger(trigger) => trigger.parent,
        _ => 0,
    };
    ObjectLine {
        id: object.id,
        name: object.name.clone(),
        schema_id: object.schema_id,
        parent_id,
        type_code: object.type_code(),
        created_utc: object.created_utc,
        modified_utc: object.modified_utc,
        is_ms_shipped: false,
    }
}

/// `type_desc` for a code of `sys.objects.type`.
pub(crate) fn type_description(code: &str) -> &'static str {
    match code.trim_end() {
        "U" => "USER_TABLE",
        "V" => "VIEW",
        "P" => "SQL_STORED_PROCEDURE",
        "X" => "EXTENDED_STORED_PROCEDURE",
        "FN" => "SQL_SCALAR_FUNCTION",
        "IF" => "SQL_INLINE_TABLE_VALUED_FUNCTION",
        "TF" => "SQL_TABLE_VALUED_FUNCTION",
        "TR" => "SQL_TRIGGER",
        "SO" => "SEQUENCE_OBJECT",
        "SN" => "SYNONYM",
        "PK" => "PRIMARY_KEY_CONSTRAINT",
        "UQ" => "UNIQUE_CONSTRAINT",
        "C" => "CHECK_CONSTRAINT",
        "D" => "DEFAULT_CONSTRAINT",
        "F" => "FOREIGN_KEY_CONSTRAINT",
        "TT" => "TYPE_TABLE",
        _ => "INTERNAL_TABLE",
    }
}

/// `user_type_id` of a built-in type: the system type's id, except for CLR types, which share one.
pub(crate) fn user_type_id(data_type: DataType, alias: Option<i32>) -> i32 {
    match (alias, data_type) {
        (Some(id), _) => id,
        (None, DataType::HierarchyId) => 128,
        (None, DataType::Geometry) => 129,
        (None, DataType::Geography) => 130,
        (None, other) => i32::from(other.system_type_id()),
    }
}
