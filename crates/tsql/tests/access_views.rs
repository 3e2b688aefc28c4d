//! Every system view and table-valued system function of the registry: who has not the right that its rule asks for gets
//! the rule's errors, who has it reads the view, and who may see only himself sees nobody else.

mod common;

use common::{Client, Server, errors};
use daruma_tsql::session::{ViewRule, rule_of};

fn prepared() -> Server {
    Server::with_setup(&[
        "CREATE DATABASE d; CREATE LOGIN ann WITH PASSWORD = 'Daruma-2026'; CREATE LOGIN ben WITH PASSWORD = 'Daruma-2026'",
        "USE d; CREATE USER ann FOR LOGIN ann; CREATE USER ben FOR LOGIN ben; CREATE TABLE dbo.t (id int PRIMARY KEY)",
    ])
}

/// The views with a rule that passes, as queries.
fn views(server: &Server, wanted: impl Fn(ViewRule) -> bool) -> Vec<(ViewRule, String)> {
    let mut list = Vec::new();
    for (schema, table) in server.instance.registry().tables() {
        let name = table.name();
        let rule = rule_of(schema, name).expect("every view has a rule");
        let arguments = match *table.arguments().end() {
            0 if table.name().starts_with("fn_") => "()".to_string(),
            0 => String::new(),
            count => format!("({})", vec!["NULL"; count].join(", ")),
        };
        if wanted(rule) {
            list.push((rule, format!("SELECT * FROM {schema}.{name}{arguments}")));
        }
    }
    assert!(!list.is_empty());
    list
}

fn refusal(rule: ViewRule) -> &'static [i32] {
    match rule {
        ViewRule::Public | ViewRule::Filtered | ViewRule::OwnSession => &[],
        ViewRule::ServerState => &[300, 297],
        ViewRule::DatabaseState => &[262, 297],
        ViewRule::Owner => &[229],
    }
}

/// All of them are read without an error.
fn reads(client: &mut Client, list: &[(ViewRule, String)]) {
    for (rule, text) in list {
        let out = client.run(text);
        assert!(errors(&out).is_empty(), "{rule:?} {text}: {out}");
    }
}

#[test]
fn without_a_right_each_view_answers_as_its_rule_says() {
    let server = prepared();
    let mut ann = server.connect_as("ann", "d");
    for (rule, text) in views(&server, |_| true) {
        let out = ann.run(&text);
        assert_eq!(errors(&out), refusal(rule), "{rule:?} {text}: {out}");
    }
}

#[test]
fn a_right_opens_the_views_that_ask_for_it_and_no_others() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let mut ann = server.connect_as("ann", "d");
    let refused = |ann: &mut Client, wanted: fn(ViewRule) -> bool| {
        for (rule, text) in views(&server, wanted) {
            assert_eq!(errors(&ann.run(&text)), refusal(rule), "{text}");
        }
    };
    admin.done("GRANT VIEW DATABASE STATE TO ann");
    reads(&mut ann, &views(&server, |r| r == ViewRule::DatabaseState));
    refused(&mut ann, |r| {
        matches!(r, ViewRule::ServerState | ViewRule::Owner)
    });
    admin.done("REVOKE VIEW DATABASE STATE FROM ann; ALTER ROLE db_owner ADD MEMBER ann");
    reads(
        &mut ann,
        &views(&server, |r| {
            matches!(r, ViewRule::DatabaseState | ViewRule::Owner)
        }),
    );
    refused(&mut ann, |r| r == ViewRule::ServerState);
    admin.done("ALTER ROLE db_owner DROP MEMBER ann; USE master; GRANT VIEW SERVER STATE TO ann");
    reads(&mut ann, &views(&server, |r| r != ViewRule::Owner));
    refused(&mut ann, |r| r == ViewRule::Owner);
    admin.done("REVOKE VIEW SERVER STATE FROM ann");
    refused(&mut ann, |_| true);
}

#[test]
fn sessions_see_themselves() {
    let server = prepared();
    let mut admin = server.connect_to("d");
    let ben = server.connect_as("ben", "d");
    let (other, mut ann) = (ben.session.spid(), server.connect_as("ann", "d"));
    let own = ann.session.spid();
    for (_, text) in views(&server, |r| r == ViewRule::OwnSession) {
        let text = match text.contains('(') {
            true => text
                .replace("NULL, NULL", &format!("{other}, 0"))
                .replace('*', &format!("{other} AS id")),
            false => text.replace(
                '*',
                if text.contains("sysprocesses") {
                    "spid"
                } else {
                    "session_id"
                },
            ),
        };
        let out = ann.run(&text);
        let seen = |id: i32| out.lines().any(|l| l == id.to_string());
        assert!(!seen(other), "{text}: {out}");
        assert!(seen(own) || text.contains('('), "{text}: {out}");
    }
    admin.done("USE master; GRANT VIEW SERVER STATE TO ann");
    let out = ann.run("SELECT session_id FROM sys.dm_exec_sessions");
    assert!(out.lines().any(|l| l == other.to_string()), "{out}");
    drop(ben);
}
