//! What a statement is about to define, as triggers of definitions hear of it.
//!
//! Theory: events are found before the statement runs, while what it drops is still there, under the locks that it runs under; they
//! are told after it. A name that means nothing gives no event: the statement itself fails. What belongs to the session alone
//! (temporary tables and procedures) gives none.

use super::types;
use crate::host::Host;
use crate::instance::{DatabaseEntry, MASTER};
use crate::session::execution::Execution;
use daruma_base::DatabaseId;
use daruma_catalog::{DatabaseCatalog, Object, ObjectKind, SCHEMA_DBO};
use daruma_syntax::ast::{
    self, AlterRole, DefineMode, DropKind, EventSessionVerb, GrantVerb, Ident, KeyStatement,
    ObjectName, PrincipalStatement, QueryBody, StatementKind, TriggerScope,
};
use std::sync::Arc;

/// An event, and what it is about.
pub(crate) struct Event {
    /// `sys.trigger_event_types.type`.
    pub number: i32,
    pub database: DatabaseId,
    /// `DatabaseName` where that is not the database itself: one that is made or dropped, none of a login.
    pub named: Option<String>,
    /// Elements of EVENT_INSTANCE behind `DatabaseName`, in their order.
    pub parts: Vec<Part>,
}

/// An element of EVENT_INSTANCE.
pub(crate) enum Part {
    Text(&'static str, String),
    /// One that holds others of one name.
    List(&'static str, &'static str, Vec<String>),
}

impl Event {
    fn new(name: &str, database: DatabaseId) -> Option<Event> {
        let number = types::by_name(name)?.number;
        Some(Event {
            number,
            database,
            named: None,
            parts: Vec::new(),
        })
    }

    /// Something of the server's.
    fn of_server(name: &str) -> Option<Event> {
        let event = Event::new(name, MASTER)?;
        Some(event.in_database(""))
    }

    fn in_database(self, name: &str) -> Event {
        let named = Some(name.to_string());
        Event { named, ..self }
    }

    fn text(mut self, name: &'static str, text: &str) -> Event {
        self.parts.push(Part::Text(name, text.to_string()));
        self
    }

    fn list(mut self, name: &'static str, of: &'static str, texts: Vec<String>) -> Event {
        self.parts.push(Part::List(name, of, texts));
        self
    }

    fn object(self, schema: &str, name: &str, kind: &str) -> Event {
        self.text("SchemaName", schema)
            .text("ObjectName", name)
            .text("ObjectType", kind)
    }

    fn principal(self, name: &str, kind: &str) -> Event {
        self.text("ObjectName", name).text("ObjectType", kind)
    }

    fn target(self, name: &str, kind: &str) -> Event {
        self.text("TargetObjectName", name)
            .text("TargetObjectType", kind)
    }
}

impl Execution<'_> {
    /// The events of a statement, whether or not somebody hears of them.
    pub(super) fn events_of(&self, kind: &StatementKind) -> Vec<Event> {
        use StatementKind::*;
        let event = match kind {
            CreateTable(s) => self.placed("CREATE_TABLE", &s.name, "TABLE"),
            Select(query) => {
                into_name(query).and_then(|name| self.placed("CREATE_TABLE", name, "TABLE"))
            }
            AlterTable(s) => self.on_object("ALTER_TABLE", &s.name),
            CreateIndex(s) => self.on_part("CREATE_INDEX", &s.table, &s.name.text, "INDEX"),
            AlterIndex(s) => {
                let name = s.name.as_ref().map_or("", |n| n.text.as_str());
                self.on_part("ALTER_INDEX", &s.table, name, "INDEX")
            }
            DropIndex(s) => {
                let one = |i: &ast::DropIndexItem| {
                    self.on_part("DROP_INDEX", &i.table, &i.name.text, "INDEX")
                };
                return s.indexes.iter().filter_map(one).collect();
            }
            CreateStatistics(s) => {
                self.on_part("CREATE_STATISTICS", &s.table, &s.name.text, "STATISTICS")
            }
            UpdateStatistics(s) => {
                let name = s.names.first().map_or("", |n| n.text.as_str());
                self.on_part("UPDATE_STATISTICS", &s.table, name, "STATISTICS")
            }
            CreateView(s) => self.defined("VIEW", s.mode, &s.name),
            CreateProcedure(s) => self.defined("PROCEDURE", s.mode, &s.name),
            CreateFunction(s) => self.defined("FUNCTION", s.mode, &s.name),
            CreateTrigger(s) => self.trigger_defined(s),
            CreateType(s) => self.placed("CREATE_TYPE", &s.name, "TYPE"),
            CreateSequence(s) => self.placed("CREATE_SEQUENCE", &s.name, "SEQUENCE"),
            AlterSequence(s) => self.on_object("ALTER_SEQUENCE", &s.name),
            CreateSynonym(s) => self.placed("CREATE_SYNONYM", &s.name, "SYNONYM"),
            AlterSchema(s) => self.on_object("ALTER_SCHEMA", &s.object),
            Drop(s) if s.kind == DropKind::MasterKey => {
                Event::new("DROP_MASTER_KEY", self.current_database())
                    .filter(|_| self.may_end(&s.kind, "").is_ok())
            }
            Drop(s) => {
                let one = |name: &ObjectName| self.dropped(s, name);
                return s.names.iter().filter_map(one).collect();
            }
            Principal(s) => self.of_principal(s),
            Grant(s) => self.granted(s),
            CreateDatabase(s) => of_database("CREATE_DATABASE", &s.name.text),
            AlterDatabase(s) => {
                let current = self.state.database.borrow().name();
                let name = s.name.as_ref().map_or(&current, |n| &n.text);
                of_database("ALTER_DATABASE", name)
            }
            Key(s) => of_key(s),
            CreateEndpoint(s) => {
                let event = if s.alter {
                    "ALTER_ENDPOINT"
                } else {
                    "CREATE_ENDPOINT"
                };
                of_server(event, &s.name.text, "ENDPOINT")
            }
            EventSession(s) => {
                let event = match s.verb {
                    EventSessionVerb::Create { .. } => "CREATE_EVENT_SESSION",
                    EventSessionVerb::Drop => "DROP_EVENT_SESSION",
                    _ => "ALTER_EVENT_SESSION",
                };
                of_server(event, &s.name.text, "EVENT SESSION")
            }
            CreateAvailabilityGroup(s) => of_server(
                "CREATE_AVAILABILITY_GROUP",
                &s.name.text,
                "AVAILABILITY GROUP",
            ),
            AlterAvailabilityGroup(s) => of_server(
                "ALTER_AVAILABILITY_GROUP",
                &s.name.text,
                "AVAILABILITY GROUP",
            ),
            Reconfigure { .. } => Event::of_server("ALTER_INSTANCE"),
            _ => None,
        };
        event.into_iter().collect()
    }

    /// Something new that a name gives its place.
    fn placed(&self, event: &str, name: &ObjectName, kind: &str) -> Option<Event> {
        let (database, catalog, schema) = self.place_of(name)?;
        let schema = schema_name(&catalog, schema);
        Some(Event::new(event, database)?.object(&schema, &name.name.text, kind))
    }

    fn place_of(&self, name: &ObjectName) -> Option<(DatabaseId, Arc<DatabaseCatalog>, i32)> {
        if name.is_temporary() {
            return None;
        }
        let database = self.named_database(self.current_database(), name).ok()?;
        let catalog = self.state.catalog(database).ok()?;
        let schema = self.schema_for_creation(&catalog, database, name).ok()?;
        Some((database, catalog, schema))
    }

    /// A module that may be there.
    fn defined(&self, word: &str, mode: DefineMode, name: &ObjectName) -> Option<Event> {
        let (_, catalog, schema) = self.place_of(name)?;
        let is_there = catalog.object_named(schema, &name.name.text).is_some();
        let verb = verb_of(mode, is_there);
        self.placed(&format!("{verb}_{word}"), name, word)
    }

    fn trigger_defined(&self, statement: &ast::CreateTrigger) -> Option<Event> {
        let name = &statement.name.name.text;
        let parent = match &statement.on {
            TriggerScope::Object(parent) => parent,
            TriggerScope::Database => {
                let database = self.current_database();
                let catalog = self.state.catalog(database).ok()?;
                let is_there = catalog.ddl_trigger_named(false, name).is_some();
                let event = format!("{}_TRIGGER", verb_of(statement.mode, is_there));
                return Some(Event::new(&event, database)?.principal(name, "TRIGGER"));
            }
            TriggerScope::AllServer => {
                let catalog = self.state.catalog(MASTER).ok()?;
                let is_there = catalog.ddl_trigger_named(true, name).is_some();
                let event = format!("{}_TRIGGER", verb_of(statement.mode, is_there));
                return of_server(&event, name, "TRIGGER");
            }
        };
        let (database, object) = self.object_of(parent)?;
        let catalog = self.state.catalog(database).ok()?;
        let is_there = catalog.object_named(object.schema_id, name).is_some();
        let event = format!("{}_TRIGGER", verb_of(statement.mode, is_there));
        self.on_part(&event, parent, name, "TRIGGER")
    }

    /// A new schema, which CREATE SCHEMA tells of before it makes anything in it.
    pub(crate) fn event_of_schema(&self, name: &str) -> Option<Event> {
        let made = Event::new("CREATE_SCHEMA", self.current_database())?;
        Some(made.object(name, name, "SCHEMA"))
    }

    fn object_of(&self, name: &ObjectName) -> Option<(DatabaseId, Arc<Object>)> {
        match name.is_temporary() {
            true => None,
            false => self.find_object(name).ok().flatten(),
        }
    }

    /// Something that is there.
    fn on_object(&self, event: &str, name: &ObjectName) -> Option<Event> {
        let (database, object) = self.object_of(name)?;
        self.about(event, database, &object)
    }

    fn about(&self, event: &str, database: DatabaseId, of: &Object) -> Option<Event> {
        let catalog = self.state.catalog(database).ok()?;
        let schema = schema_name(&catalog, of.schema_id);
        let event = Event::new(event, database)?.object(&schema, &of.name, type_of(of));
        let ObjectKind::Trigger(trigger) = &of.kind else {
            return Some(event);
        };
        let parent = catalog.object(trigger.parent)?;
        Some(event.target(&parent.name, type_of(parent)))
    }

    /// An index, statistics or trigger of something.
    fn on_part(&self, event: &str, of: &ObjectName, name: &str, kind: &str) -> Option<Event> {
        let (database, object) = self.object_of(of)?;
        let catalog = self.state.catalog(database).ok()?;
        let schema = schema_name(&catalog, object.schema_id);
        let event = Event::new(event, database)?.object(&schema, name, kind);
        Some(event.target(&object.name, type_of(&object)))
    }

    fn dropped(&self, statement: &ast::Drop, name: &ObjectName) -> Option<Event> {
        let database = self.current_database();
        let text = &name.name.text;
        self.may_end(&statement.kind, text).ok()?;
        let principal = |event: &str, is_role: bool, kind: &str| {
            let catalog = self.state.catalog(database).ok()?;
            let found = catalog.principal_named(text)?;
            let event = Event::new(event, database).filter(|_| found.is_role == is_role)?;
            Some(event.principal(&found.name, kind))
        };
        match &statement.kind {
            DropKind::Trigger if statement.scope == Some(TriggerScope::Database) => {
                let catalog = self.state.catalog(database).ok()?;
                let found = catalog.ddl_trigger_named(false, text)?;
                Some(Event::new("DROP_TRIGGER", database)?.principal(&found.name, "TRIGGER"))
            }
            DropKind::Trigger if statement.scope == Some(TriggerScope::AllServer) => {
                let catalog = self.state.catalog(MASTER).ok()?;
                let found = catalog.ddl_trigger_named(true, text)?;
                of_server("DROP_TRIGGER", &found.name, "TRIGGER")
            }
            DropKind::Table
            | DropKind::View
            | DropKind::Procedure
            | DropKind::Function
            | DropKind::Trigger
            | DropKind::Sequence
            | DropKind::Synonym => {
                let (database, catalog, _) = self.place_of(name)?;
                // A synonym itself, not what it means.
                let object = self.catalog_object(&catalog, database, name)?;
                self.about(&format!("DROP_{}", type_of(&object)), database, &object)
            }
            DropKind::Type => {
                let (database, catalog, _) = self.place_of(name)?;
                let schema = match &name.schema {
                    Some(schema) => catalog.schema_named(&schema.text)?.id,
                    None => SCHEMA_DBO,
                };
                catalog.type_named(schema, text)?;
                let schema = schema_name(&catalog, schema);
                Some(Event::new("DROP_TYPE", database)?.object(&schema, text, "TYPE"))
            }
            DropKind::Schema => {
                let catalog = self.state.catalog(database).ok()?;
                let name = &catalog.schema_named(text)?.name;
                Some(Event::new("DROP_SCHEMA", database)?.object(name, name, "SCHEMA"))
            }
            DropKind::Statistics => {
                let of = ObjectName {
                    server: None,
                    database: None,
                    schema: name.database.clone(),
                    name: name.schema.clone()?,
                    span: name.span,
                };
                self.on_part("DROP_STATISTICS", &of, text, "STATISTICS")
            }
            DropKind::User => principal("DROP_USER", false, "SQL USER"),
            DropKind::Role => principal("DROP_ROLE", true, "ROLE"),
            DropKind::Login => {
                let found = self.state.logins().get(text)?;
                of_server("DROP_LOGIN", &found.name, "LOGIN")
            }
            DropKind::Database => {
                let found = self.state.instance.database_named(text)?;
                of_database("DROP_DATABASE", &found.name())
            }
            DropKind::Certificate => {
                Some(Event::new("DROP_CERTIFICATE", database)?.principal(text, "CERTIFICATE"))
            }
            DropKind::Credential => of_server("DROP_CREDENTIAL", text, "CREDENTIAL"),
            DropKind::Endpoint => of_server("DROP_ENDPOINT", text, "ENDPOINT"),
            DropKind::AvailabilityGroup => {
                of_server("DROP_AVAILABILITY_GROUP", text, "AVAILABILITY GROUP")
            }
            _ => None,
        }
    }

    fn of_principal(&self, statement: &PrincipalStatement) -> Option<Event> {
        use PrincipalStatement::*;
        let database = self.current_database();
        let of = |event: &str, name: &Ident, kind: &str| {
            Some(Event::new(event, database)?.principal(&name.text, kind))
        };
        match statement {
            CreateLogin { name, .. } => of_server("CREATE_LOGIN", &name.text, "LOGIN"),
            AlterLogin { name, .. } => of_server("ALTER_LOGIN", &name.text, "LOGIN"),
            Credential { alter, name, .. } => {
                let event = if *alter {
                    "ALTER_CREDENTIAL"
                } else {
                    "CREATE_CREDENTIAL"
                };
                of_server(event, &name.text, "CREDENTIAL")
            }
            AlterRole {
                name,
                server: true,
                change,
            } => {
                let (event, member) = match change {
                    self::AlterRole::AddMember(member) => ("ADD_SERVER_ROLE_MEMBER", member),
                    self::AlterRole::DropMember(member) => ("DROP_SERVER_ROLE_MEMBER", member),
                    self::AlterRole::Rename(_) => return None,
                };
                let event = of_server(event, &member.text, "LOGIN")?;
                Some(event.text("RoleName", &name.text))
            }
            CreateUser { name, .. } => of("CREATE_USER", name, "SQL USER"),
            AlterUser { name, .. } => of("ALTER_USER", name, "SQL USER"),
            CreateRole {
                name,
                server: false,
                ..
            } => of("CREATE_ROLE", name, "ROLE"),
            AlterRole {
                name,
                server: false,
                change,
            } => match change {
                self::AlterRole::AddMember(member) => {
                    let event = of("ADD_ROLE_MEMBER", member, "SQL USER")?;
                    Some(event.text("RoleName", &name.text))
                }
                self::AlterRole::DropMember(member) => {
                    let event = of("DROP_ROLE_MEMBER", member, "SQL USER")?;
                    Some(event.text("RoleName", &name.text))
                }
                self::AlterRole::Rename(_) => of("ALTER_ROLE", name, "ROLE"),
            },
            AlterAuthorization { on, to } => {
                // A database tells of its owner itself.
                let class = on.class.as_deref().unwrap_or("OBJECT");
                let event = Event::new("ALTER_AUTHORIZATION_DATABASE", database);
                let event = event.filter(|_| class != "DATABASE")?;
                let owner = to.as_ref().map_or("", |t| t.text.as_str());
                let event = event.principal(&on.name.name.text, class);
                Some(event.text("OwnerName", owner))
            }
            _ => None,
        }
    }

    fn granted(&self, grant: &ast::Grant) -> Option<Event> {
        let verb = match grant.verb {
            GrantVerb::Grant => "GRANT",
            GrantVerb::Deny => "DENY",
            GrantVerb::Revoke => "REVOKE",
        };
        let is_server = !self.is_about_database(grant);
        let event = format!("{verb}_{}", if is_server { "SERVER" } else { "DATABASE" });
        let event = event.as_str();
        let database = self.current_database();
        let on = grant.on.as_ref();
        let event = match on.map(|on| on.class.as_deref().unwrap_or("OBJECT")) {
            None if is_server => Event::of_server(event)?.text("ObjectType", "SERVER"),
            Some(class) if is_server => of_server(event, &on?.name.name.text, class)?,
            None => Event::new(event, database)?.text("ObjectType", "DATABASE"),
            Some("OBJECT") => self.on_object(event, &on?.name)?,
            Some(class) => Event::new(event, database)?.principal(&on?.name.name.text, class),
        };
        let user = self.state.rights(database).ok()?;
        let permission = |p: &ast::Permission| p.name.to_lowercase();
        let permissions = grant.permissions.iter().map(permission).collect();
        let grantees = grant.principals.iter().map(|p| p.text.clone()).collect();
        let as_principal = grant.as_principal.as_ref().map_or("", |p| p.text.as_str());
        let has_option = grant.with_grant_option || grant.grant_option_for;
        Some(
            event
                .text("Grantor", &user.user_name)
                .list("Permissions", "Permission", permissions)
                .list("Grantees", "Grantee", grantees)
                .text("AsGrantor", as_principal)
                .text("GrantOption", if has_option { "1" } else { "0" }),
        )
    }

    /// What a procedure of the server does that none of its statements tells of.
    pub(super) fn event_of_call(&self, procedure: &str) -> Option<Event> {
        let event = match procedure {
            "sp_configure" => "ALTER_INSTANCE",
            "sp_addmessage" => "CREATE_MESSAGE",
            "sp_altermessage" => "ALTER_MESSAGE",
            "sp_dropmessage" => "DROP_MESSAGE",
            _ => return None,
        };
        Event::of_server(event)
    }

    /// Another owner of a database.
    pub(crate) fn event_of_owner(&self, entry: &DatabaseEntry, owner: &str) -> Option<Event> {
        let event = Event::new("ALTER_AUTHORIZATION_DATABASE", entry.id())?;
        let event = event.principal(&entry.name(), "DATABASE");
        Some(event.text("OwnerName", owner))
    }

    /// `sp_rename` of an object, a part of one, or a type.
    pub(crate) fn event_of_rename(
        &self,
        database: DatabaseId,
        name: &ObjectName,
        kind: Option<&'static str>,
        new_name: &str,
    ) -> Option<Event> {
        let catalog = self.state.catalog(database).ok()?;
        let text = &name.name.text;
        let event = match kind {
            Some(kind @ ("COLUMN" | "INDEX")) => {
                let of = ObjectName {
                    server: None,
                    database: None,
                    schema: name.database.clone(),
                    name: name.schema.clone()?,
                    span: name.span,
                };
                let object = self.catalog_object(&catalog, database, &of)?;
                let schema = schema_name(&catalog, object.schema_id);
                let event = Event::new("RENAME", database)?.object(&schema, text, kind);
                event.target(&object.name, type_of(&object))
            }
            _ => match self.catalog_object(&catalog, database, name) {
                Some(object) => self.about("RENAME", database, &object)?,
                None => {
                    let schema = name.schema.as_ref().map_or("", |s| s.text.as_str());
                    Event::new("RENAME", database)?.object(schema, text, kind.unwrap_or("OBJECT"))
                }
            },
        };
        Some(event.text("NewObjectName", new_name))
    }

    /// An extended property of something that is shown so.
    pub(crate) fn event_of_property(
        &self,
        event: &str,
        database: DatabaseId,
        (property, of): (&str, &str),
    ) -> Option<Event> {
        let event = Event::new(event, database)?;
        Some(event.principal(of, "").text("PropertyName", property))
    }
}

fn of_server(event: &str, name: &str, kind: &str) -> Option<Event> {
    Some(Event::of_server(event)?.principal(name, kind))
}

/// A database as a whole: a thing of the server's.
fn of_database(event: &str, name: &str) -> Option<Event> {
    Some(Event::new(event, MASTER)?.in_database(name))
}

fn of_key(statement: &KeyStatement) -> Option<Event> {
    let certificate = |event: &str, name: &Ident| {
        Some(Event::new(event, MASTER)?.principal(&name.text, "CERTIFICATE"))
    };
    match statement {
        KeyStatement::CreateMasterKey { .. } => Event::new("CREATE_MASTER_KEY", MASTER),
        KeyStatement::AlterMasterKey(_) => Event::new("ALTER_MASTER_KEY", MASTER),
        KeyStatement::CreateCertificate(s) => certificate("CREATE_CERTIFICATE", &s.name),
        KeyStatement::AlterCertificate { name, .. } => certificate("ALTER_CERTIFICATE", name),
        KeyStatement::OpenMasterKey { .. }
        | KeyStatement::CloseMasterKey
        | KeyStatement::BackupCertificate(_) => None,
    }
}

fn verb_of(mode: DefineMode, is_there: bool) -> &'static str {
    match mode {
        DefineMode::Create => "CREATE",
        DefineMode::Alter => "ALTER",
        DefineMode::CreateOrAlter if is_there => "ALTER",
        DefineMode::CreateOrAlter => "CREATE",
    }
}

fn schema_name(catalog: &DatabaseCatalog, id: i32) -> String {
    catalog.schema(id).map_or(String::new(), |s| s.name.clone())
}

/// What EVENTDATA calls an object; behind `DROP_` it is the name of an event.
fn type_of(object: &Object) -> &'static str {
    match &object.kind {
        ObjectKind::Table(_) => "TABLE",
        ObjectKind::View(_) => "VIEW",
        ObjectKind::Procedure(_) => "PROCEDURE",
        ObjectKind::Function(_) => "FUNCTION",
        ObjectKind::Trigger(_) => "TRIGGER",
        ObjectKind::Sequence(_) => "SEQUENCE",
        ObjectKind::Synonym { .. } => "SYNONYM",
    }
}

/// The table of SELECT INTO.
fn into_name(query: &ast::Query) -> Option<&ObjectName> {
    let mut body = &query.body;
    loop {
        match body {
            QueryBody::Select(select) => return select.into.as_ref().map(|i| &i.table),
            QueryBody::Set { branches, .. } => body = branches.first()?,
        }
    }
}
