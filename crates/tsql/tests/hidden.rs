//! What a session must not know of is in no system view, function or procedure. Everything to be kept from `ann` is called
//! `hidden` something; what she may guess the name of is called otherwise, and its parts are hidden.

mod common;

use common::{Client, Server};

const SETUP: &[&str] = &[
    "CREATE DATABASE d; CREATE DATABASE closed; CREATE DATABASE hidden_database",
    "CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026'; CREATE LOGIN hidden_login WITH PASSWORD = 'Daruma-2026'; \
     CREATE CREDENTIAL hidden_credential WITH IDENTITY = 'hidden_identity', SECRET = 'hidden_secret'; \
     USE master; DENY VIEW ANY DATABASE TO ann; GRANT CREATE ANY DATABASE TO hidden_login",
    "USE closed; CREATE TABLE dbo.hidden_away (id int); INSERT dbo.hidden_away VALUES (1)",
    "USE d; CREATE USER ann FOR LOGIN ann; CREATE USER hidden_user FOR LOGIN hidden_login; CREATE ROLE hidden_role; \
     ALTER ROLE hidden_role ADD MEMBER hidden_user; CREATE TYPE dbo.hidden_type FROM varchar(20) NOT NULL; \
     CREATE TYPE dbo.guessed_type FROM decimal(17, 3)",
    "CREATE TABLE dbo.guessed (hidden_id int IDENTITY (41470011, 17) CONSTRAINT hidden_pk PRIMARY KEY, hidden_a int CONSTRAINT hidden_default DEFAULT 41470012, \
     hidden_b AS hidden_a + 41470013, CONSTRAINT hidden_check CHECK (hidden_a <> 41470014)); \
     CREATE INDEX hidden_index ON dbo.guessed (hidden_a) WHERE hidden_a > 41470015; \
     CREATE TABLE dbo.hidden_child (id int CONSTRAINT hidden_fk REFERENCES dbo.guessed); \
     INSERT dbo.guessed (hidden_a) VALUES (1)",
    "CREATE VIEW dbo.guessed_view AS SELECT hidden_a FROM dbo.guessed",
    "CREATE PROCEDURE dbo.guessed_procedure @hidden_parameter int AS SELECT 'hidden_text' AS hidden_column",
    "CREATE TRIGGER dbo.guessed_trigger ON dbo.guessed AFTER INSERT AS PRINT 'hidden_text'",
    "CREATE SEQUENCE dbo.hidden_sequence AS int START WITH 41470016; CREATE SYNONYM dbo.hidden_synonym FOR dbo.guessed; \
     CREATE STATISTICS hidden_statistics ON dbo.guessed (hidden_a); \
     EXEC sp_addextendedproperty 'hidden_note', 'hidden_value', 'schema', 'dbo', 'table', 'guessed'; \
     EXEC sp_addextendedproperty 'hidden_note', 'hidden_value', 'schema', 'dbo', 'table', 'guessed', 'constraint', 'hidden_check'; \
     EXEC sp_addextendedproperty 'hidden_note', 'hidden_value', 'user', 'hidden_user'; \
     EXEC sp_addextendedproperty 'hidden_note', 'hidden_value', 'schema', 'dbo', 'type', 'hidden_type'; \
     GRANT SELECT ON dbo.guessed TO hidden_user",
    // Of these she sees that they are there, and not what is in them.
    "CREATE TABLE dbo.shown (id int CONSTRAINT df DEFAULT 41470017, a AS id + 41470018, CONSTRAINT ck CHECK (id <> 41470019)); \
     ALTER TABLE dbo.shown ADD b int CONSTRAINT uq UNIQUE; CREATE INDEX ix ON dbo.shown (id) WHERE id > 41470020; \
     GRANT SELECT ON dbo.shown TO ann",
    "CREATE PROCEDURE dbo.shown_procedure AS SELECT 'hidden_text' AS one",
    "CREATE VIEW dbo.shown_view AS SELECT 'hidden_text' AS one",
    "CREATE TRIGGER dbo.shown_trigger ON dbo.shown AFTER INSERT AS PRINT 'hidden_text'",
    "GRANT EXECUTE ON dbo.shown_procedure TO ann; GRANT SELECT ON dbo.shown_view TO ann",
];

/// Numbers that only texts and counters of what is hidden have.
const SECRETS: &[&str] = &[
    "hidden_", "41470011", "41470012", "41470013", "41470014", "41470015", "41470016", "41470017",
    "41470018", "41470019", "41470020",
];

struct Prepared {
    server: Server,
    /// Keeps a transaction, locks and a temporary table.
    other: Client,
}

fn prepared() -> Prepared {
    let server = Server::with_setup(SETUP);
    let mut other = server.connect_as("hidden_login", "d");
    other.done(
        "BEGIN TRAN; EXEC sp_getapplock 'hidden_lock', 'Exclusive'; CREATE TABLE #hidden_temporary (hidden_id int IDENTITY); \
         SELECT hidden_a FROM dbo.guessed -- hidden_text",
    );
    Prepared { server, other }
}

fn found_in(out: &str) -> Option<&'static str> {
    let lower = out.to_lowercase();
    SECRETS.iter().copied().find(|s| lower.contains(s))
}

/// Views and functions of the registry, with arguments for functions.
fn queries(server: &Server) -> Vec<String> {
    let mut list = Vec::new();
    for (schema, table) in server.instance.registry().tables() {
        let name = table.name();
        match *table.arguments().end() {
            0 if name == "fn_helpcollations" => {}
            0 => list.push(format!("SELECT * FROM {schema}.{name}")),
            count => {
                let nulls = vec!["NULL"; count].join(", ");
                list.push(format!("SELECT * FROM {schema}.{name}({nulls})"));
            }
        }
    }
    list
}

#[test]
fn no_view_shows_what_is_hidden() {
    let Prepared { server, other } = prepared();
    let mut ann = server.connect_as("ann", "d");
    let mut leaks = Vec::new();
    for database in ["d", "tempdb", "master"] {
        ann.done(&format!("USE {database}"));
        for text in queries(&server) {
            if let Some(secret) = found_in(&ann.run(&text)) {
                leaks.push(format!("{secret} in {database}: {text}"));
            }
        }
    }
    drop(other);
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

#[test]
fn no_function_of_other_databases_and_sessions_tells_of_them() {
    let Prepared { server, other } = prepared();
    let mut admin = server.connect();
    admin.done("USE d; GRANT VIEW DATABASE STATE TO ann");
    let spid = other.session.spid();
    let handle = admin.scalar(&format!(
        "SELECT CONVERT(varchar(100), sql_handle, 1) FROM sys.sysprocesses WHERE spid = {spid}"
    ));
    let closed = admin.scalar("SELECT DB_ID('closed')");
    let mut ann = server.connect_as("ann", "d");
    for (text, expected) in [
        (
            format!("SELECT * FROM sys.dm_exec_input_buffer({spid}, 0)"),
            None,
        ),
        (
            format!("SELECT * FROM sys.dm_exec_sql_text({handle})"),
            Some(300),
        ),
        (
            format!("SELECT * FROM sys.dm_db_log_info({closed})"),
            Some(262),
        ),
        (
            format!("SELECT * FROM sys.dm_db_log_stats({closed})"),
            Some(262),
        ),
        (
            format!(
                "SELECT * FROM sys.dm_db_index_physical_stats({closed}, NULL, NULL, NULL, NULL)"
            ),
            Some(262),
        ),
        (
            "SELECT COUNT(*) FROM sys.dm_db_log_info(NULL) WHERE database_id <> DB_ID()"
                .to_string(),
            None,
        ),
        (
            "SELECT COUNT(*) FROM sys.dm_db_version_store_pins WHERE database_id <> DB_ID()"
                .to_string(),
            None,
        ),
        (
            "SELECT * FROM closed.sys.dm_db_partition_stats".to_string(),
            Some(916),
        ),
        (
            "SELECT * FROM master.sys.dm_db_partition_stats".to_string(),
            Some(262),
        ),
        ("SELECT * FROM sys.syslockinfo".to_string(), Some(300)),
    ] {
        let out = ann.run(&text);
        assert_eq!(found_in(&out), None, "{text}\n{out}");
        match expected {
            Some(number) => assert!(out.contains(&format!("Msg {number},")), "{text}\n{out}"),
            None => assert!(
                out.contains("(0 rows") || out.contains("\n0\n"),
                "{text}\n{out}"
            ),
        }
    }
    drop(other);
}

#[test]
fn functions_about_what_is_hidden_give_null() {
    let Prepared { server, other } = prepared();
    let mut admin = server.connect_to("d");
    let id = admin.scalar("SELECT OBJECT_ID('dbo.guessed')");
    let check = admin.scalar("SELECT OBJECT_ID('dbo.hidden_check')");
    let view = admin.scalar("SELECT OBJECT_ID('dbo.guessed_view')");
    let type_id = admin.scalar("SELECT TYPE_ID('dbo.guessed_type')");
    let closed = admin.scalar("SELECT DB_ID('closed')");
    let temporary =
        admin.scalar("SELECT object_id FROM tempdb.sys.tables WHERE name LIKE '#hidden%'");
    let shown = admin.scalar("SELECT OBJECT_ID('dbo.shown_procedure')");
    let mut ann = server.connect_as("ann", "d");
    for expression in [
        "OBJECT_ID('dbo.guessed')".to_string(),
        "OBJECT_ID('dbo.guessed', 'U')".to_string(),
        "OBJECT_ID('dbo.hidden_check')".to_string(),
        "OBJECT_ID('dbo.guessed_trigger')".to_string(),
        "OBJECT_ID('closed.dbo.hidden_away')".to_string(),
        format!("OBJECT_NAME({id})"),
        format!("OBJECT_NAME({check})"),
        format!("OBJECT_NAME(1, {closed})"),
        format!("OBJECT_NAME({temporary})"),
        format!("OBJECT_SCHEMA_NAME({id})"),
        format!("OBJECT_DEFINITION({view})"),
        format!("OBJECT_DEFINITION({shown})"),
        format!("OBJECTPROPERTY({id}, 'TableHasIdentity')"),
        format!("OBJECTPROPERTYEX({id}, 'BaseType')"),
        format!("COL_NAME({id}, 1)"),
        format!("COL_NAME({view}, 1)"),
        format!("COL_NAME({temporary}, 1)"),
        "COL_LENGTH('dbo.guessed', 'hidden_a')".to_string(),
        format!("COLUMNPROPERTY({id}, 'hidden_id', 'IsIdentity')"),
        format!("INDEXPROPERTY({id}, 'hidden_index', 'IsUnique')"),
        format!("INDEXKEY_PROPERTY({id}, 1, 1, 'ColumnId')"),
        "INDEX_COL('dbo.guessed', 1, 1)".to_string(),
        "IDENT_CURRENT('dbo.guessed')".to_string(),
        "IDENT_SEED('dbo.guessed')".to_string(),
        "IDENT_INCR('dbo.guessed')".to_string(),
        "IDENT_CURRENT('dbo.hidden_synonym')".to_string(),
        "TYPE_ID('dbo.guessed_type')".to_string(),
        format!("TYPE_NAME({type_id})"),
        "TYPEPROPERTY('dbo.guessed_type', 'Precision')".to_string(),
        "DB_ID('closed')".to_string(),
        format!("DB_NAME({closed})"),
        "DATABASEPROPERTYEX('closed', 'Status')".to_string(),
        "IS_ROLEMEMBER('hidden_role', 'hidden_user')".to_string(),
    ] {
        assert_eq!(
            ann.scalar(&format!("SELECT {expression}")),
            "NULL",
            "{expression}"
        );
    }
    drop(other);
}

#[test]
fn who_may_know_is_told() {
    let Prepared { server, other } = prepared();
    let mut admin = server.connect_to("d");
    let id = admin.scalar("SELECT OBJECT_ID('dbo.guessed')");
    admin.done("GRANT VIEW DEFINITION TO ann; USE master; GRANT VIEW ANY DATABASE TO ann; USE d");
    let mut ann = server.connect_as("ann", "d");
    for (expression, expected) in [
        ("OBJECT_ID('dbo.guessed')".to_string(), id.clone()),
        (format!("COL_NAME({id}, 2)"), "hidden_a".to_string()),
        (
            "IDENT_CURRENT('dbo.guessed')".to_string(),
            "41470011".to_string(),
        ),
        (
            "IDENT_SEED('dbo.guessed')".to_string(),
            "41470011".to_string(),
        ),
        ("DB_NAME(DB_ID('closed'))".to_string(), "closed".to_string()),
        (
            "TYPE_NAME(TYPE_ID('dbo.guessed_type'))".to_string(),
            "guessed_type".to_string(),
        ),
        (
            "LEFT(OBJECT_DEFINITION(OBJECT_ID('dbo.shown_view')), 11)".to_string(),
            "CREATE VIEW".to_string(),
        ),
        (
            "(SELECT definition FROM sys.check_constraints WHERE name = 'ck')".to_string(),
            "([id]<>(41470019))".to_string(),
        ),
        (
            "(SELECT name FROM sys.database_principals WHERE name = 'hidden_role')".to_string(),
            "hidden_role".to_string(),
        ),
    ] {
        let found = ann.scalar(&format!("SELECT {expression}"));
        assert_eq!(
            found.replace(' ', ""),
            expected.replace(' ', ""),
            "{expression}"
        );
    }
    drop(other);
}

#[test]
fn no_procedure_shows_what_is_hidden() {
    let Prepared { server, other } = prepared();
    let mut ann = server.connect_as("ann", "d");
    let mut leaks = Vec::new();
    for text in [
        "EXEC sp_MSforeachtable 'PRINT ''?'''",
        "EXEC sp_MSforeachdb 'PRINT ''?'''",
        "EXEC sp_describe_first_result_set N'SELECT * FROM dbo.guessed'",
        "EXEC sp_describe_undeclared_parameters N'UPDATE dbo.guessed SET hidden_a = @p'",
        "EXEC sp_tables",
        "EXEC sp_tables @table_type = \"'SYSTEM TABLE'\"",
        "EXEC sp_columns 'guessed'",
        "EXEC sp_columns '%'",
        "EXEC sp_columns_100 '%', @fUsePattern = 1",
        "EXEC sp_statistics 'guessed'",
        "EXEC sp_statistics_100 'guessed'",
        "EXEC sp_pkeys 'guessed'",
        "EXEC sp_fkeys @pktable_name = 'guessed'",
        "EXEC sp_special_columns 'guessed'",
        "EXEC sp_stored_procedures",
        "EXEC sp_sproc_columns 'guessed_procedure'",
        "EXEC sp_sproc_columns_100 '%'",
        "EXEC sp_databases",
        "EXEC sp_table_privileges '%'",
        "EXEC sp_column_privileges 'guessed'",
        "EXEC sp_help",
        "EXEC sp_help 'dbo.guessed'",
        "EXEC sp_help 'dbo.shown'",
        "EXEC sp_help 'dbo.guessed_type'",
        "EXEC sp_helptext 'dbo.guessed_view'",
        "EXEC sp_helptext 'dbo.shown_view'",
        "EXEC sp_helptext 'dbo.shown_trigger'",
        "EXEC sp_helpindex 'dbo.guessed'",
        "EXEC sp_helpconstraint 'dbo.guessed'",
        "EXEC sp_helpconstraint 'dbo.shown'",
        "EXEC sp_helptrigger 'dbo.guessed'",
        "EXEC sp_helpstats 'dbo.guessed', 'ALL'",
        "EXEC sp_spaceused 'dbo.guessed'",
        "EXEC sp_tablecollations_100 'dbo.guessed'",
        "EXEC sp_helplogins",
        "EXEC sp_helpuser",
        "EXEC sp_helprole",
        "EXEC sp_helprolemember",
        "EXEC sp_helpsrvrolemember",
        "EXEC sp_helpdb",
        "EXEC sp_who",
        "EXEC sp_who2",
        "EXEC sp_lock",
        "EXEC sp_readerrorlog",
        "EXEC sp_updatestats",
        "DBCC SHOW_STATISTICS ('dbo.guessed', hidden_a)",
        "DBCC OPENTRAN",
        "SELECT * FROM fn_listextendedproperty(NULL, 'schema', 'dbo', 'table', 'guessed', NULL, NULL)",
        "SELECT * FROM fn_listextendedproperty(NULL, 'schema', 'dbo', 'table', 'guessed', 'constraint', NULL)",
        "SELECT * FROM fn_listextendedproperty(NULL, 'user', NULL, NULL, NULL, NULL, NULL)",
    ] {
        let out = ann.run(text);
        if let Some(secret) = found_in(&out) {
            leaks.push(format!("{secret}: {text}\n{out}"));
        }
    }
    drop(other);
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

#[test]
fn who_may_read_a_table_is_told_about_it_without_further_rights() {
    let Prepared { server, other } = prepared();
    let mut ann = server.connect_as("ann", "d");
    for text in [
        "EXEC sp_tables 'shown'",
        "EXEC sp_columns 'shown'",
        "EXEC sp_statistics 'shown'",
        "EXEC sp_pkeys 'shown'",
        "EXEC sp_fkeys 'shown'",
        "EXEC sp_spaceused 'dbo.shown'",
        "EXEC sp_helpindex 'dbo.shown'",
        "EXEC sp_describe_first_result_set N'SELECT id, a FROM dbo.shown'",
        "SELECT * FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'shown'",
    ] {
        ann.done(text);
    }
    let out = ann.run("EXEC sp_statistics 'shown'");
    assert!(out.contains("| uq |") && out.contains("| ix |"), "{out}");
    drop(other);
}

#[test]
fn a_database_that_may_be_entered_is_known() {
    let Prepared { server, other } = prepared();
    let mut ann = server.connect_as("ann", "master");
    assert_eq!(
        ann.scalar("SELECT name FROM d.sys.tables WHERE name LIKE 'sh%'"),
        "shown"
    );
    assert_eq!(ann.scalar("SELECT DB_NAME(DB_ID('d'))"), "d");
    assert!(ann.done("EXEC sp_helpdb 'd'").contains("Recovery=FULL"));
    drop(other);
}
