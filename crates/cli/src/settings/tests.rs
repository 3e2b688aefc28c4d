//! Tests of the settings and of their file.

use super::*;

fn with(variables: &[(&str, &str)]) -> Result<Settings, String> {
    with_file(None, variables)
}

fn with_file(file: Option<&str>, variables: &[(&str, &str)]) -> Result<Settings, String> {
    let of = |name: &str| {
        let found = variables.iter().find(|(n, _)| *n == name);
        found.map(|(_, value)| (*value).to_string())
    };
    let file = file
        .map(|text| ConfFile::parse("mssql.conf".into(), text.to_string()))
        .transpose()?;
    let names = variables.iter().map(|(name, _)| (*name).to_string());
    read(file.as_ref(), of, names)
}

#[test]
fn what_a_container_is_started_with_is_taken() {
    let settings = with(&[
        ("ACCEPT_EULA", "Y"),
        ("SA_PASSWORD", "old"),
        ("MSSQL_PID", "Developer"),
        ("MSSQL_IP_ADDRESS", "0.0.0.0"),
        ("MSSQL_MEMORY_LIMIT_MB", "2048"),
        ("MSSQL_COLLATION", "sql_latin1_general_cp1_ci_as"),
        ("MSSQL_LCID", "1033"),
        ("MSSQL_ENABLE_HADR", "1"),
        ("MSSQL_AGENT_ENABLED", "false"),
    ])
    .expect("taken");
    assert_eq!(
        settings,
        Settings {
            sa_password: Some("old".into()),
            address: Some("0.0.0.0".into()),
            memory_bytes: Some(2 << 30),
            ..Settings::default()
        }
    );
}

#[test]
fn the_newer_name_of_the_password_wins_and_an_empty_one_says_nothing() {
    let both = [("SA_PASSWORD", "old"), ("MSSQL_SA_PASSWORD", "new")];
    let password = |variables: &[(&str, &str)]| with(variables).expect("taken").sa_password;
    assert_eq!(password(&both).as_deref(), Some("new"));
    let empty = [("SA_PASSWORD", "old"), ("MSSQL_SA_PASSWORD", "")];
    assert_eq!(password(&empty).as_deref(), Some("old"));
}

#[test]
fn what_cannot_be_done_is_refused_or_told() {
    for (name, value) in [
        ("MSSQL_COLLATION", "Latin1_General_100_CS_AS"),
        ("MSSQL_LCID", "1031"),
        ("MSSQL_MEMORY_LIMIT_MB", "much"),
        ("MSSQL_MEMORY_LIMIT_MB", "0"),
        ("MSSQL_MEMORY_LIMIT_MB", "99999999999999999"),
        ("MSSQL_MEMORY_LIMIT_MB", "95"),
        ("MSSQL_TCP_PORT", "70000"),
        ("MSSQL_TCP_PORT", "+1433"),
        ("MSSQL_IP_ADDRESS", "999.0.0.1"),
        ("MSSQL_IP_ADDRESS", "somewhere"),
        ("MSSQL_IP_ADDRESS", "10.0.0.1:1433"),
        ("MSSQL_ENABLE_HADR", "maybe"),
        ("MSSQL_AGENT_ENABLED", "perhaps"),
        ("MSSQL_PID", "Ultimate"),
        ("MSSQL_PID", "AAAAA-BBBBB-CCCCC-DDDDD"),
        ("DARUMA_SERVER_NAME", "a b"),
        ("DARUMA_LOG_COMPRESSION", "most"),
        ("DARUMA_MONITOR", "8080"),
    ] {
        let refused = with(&[(name, value)]).expect_err(name);
        assert!(refused.contains(name), "{refused}");
    }
    let told = with(&[
        ("MSSQL_AGENT_ENABLED", "True"),
        ("MSSQL_RPC_PORT", "135"),
        ("MSSQL_ENABLE_HADR", "0"),
        ("MSSQL_MEMORY_LIMIT_MB", "99999999"),
        ("MSSQL_PID", "aaaaa-11111-CCCCC-22222-eeeee"),
        ("MSSQL_IP_ADDRESS", "[::1]"),
    ]);
    let notes = told.expect("taken").notes;
    let known = [
        "memory: 99999999 megabytes",
        "Agent",
        "always there",
        "MSSQL_RPC_PORT",
    ];
    let told = known
        .iter()
        .zip(&notes)
        .all(|(part, note)| note.contains(part));
    assert!(told && notes.len() == known.len(), "{notes:?}");
}

#[test]
fn variables_win_over_the_file() {
    let file = "# a comment\n[network]\ntcpport = 14330\nipaddress=10.0.0.1\n\n[Memory]\nMemoryLimitMB = 512\n[traceflag]\ntraceflag0 = 1222\ntraceflag7 = 3604\n";
    let settings = with_file(Some(file), &[("MSSQL_TCP_PORT", "15000")]).expect("taken");
    assert_eq!(
        settings,
        Settings {
            address: Some("10.0.0.1".into()),
            port: Some(15000),
            memory_bytes: Some(512 << 20),
            trace_flags: vec![1222, 3604],
            ..Settings::default()
        }
    );
}

#[test]
fn files_that_say_what_cannot_be_are_refused_with_what_to_do() {
    for (file, told) in [
        ("[network]\ntcpprot = 1\n", "daruma conf list"),
        ("[network]\ntcpport = 1\nTCPPORT = 2\n", "twice"),
        ("[network]\ntcpport =\n", "no value"),
        ("tcpport = 1\n", "before any [section]"),
        ("[network\ntcpport = 1\n", "line 1"),
        ("[network]\ntcpport 1\n", "line 2"),
        ("[network]\ntlscert = /a.pem\n", "set both or neither"),
        (
            "[filelocation]\nerrorlogfile = /logs/e\n",
            "set filelocation.defaultdatadir",
        ),
        ("[language]\nlcid = 1031\n", "1033"),
        ("[network]\nforceencryption = perhaps\n", "neither 1 nor 0"),
        (
            "[telemetry]\ncustomerfeedback = no idea\n",
            "neither 1 nor 0",
        ),
        (
            "[coredump]\ncoredumptype = huge\n",
            "none of mini, miniplus",
        ),
        ("[traceflag]\ntraceflag0 = 0\n", "trace flag"),
    ] {
        let refused = with_file(Some(file), &[]).expect_err(file);
        assert!(
            refused.contains(told) && refused.contains("network.tlscert")
                || refused.contains(told) && refused.contains("mssql.conf"),
            "{refused}"
        );
    }
}

#[test]
fn a_file_is_changed_where_it_must_be_and_nowhere_else() {
    let text = "; kept\n[network]\n# kept too\ntcpport = 1433\n\n[memory]\nmemorylimitmb = 512\n";
    let mut file = ConfFile::parse("mssql.conf".into(), text.to_string()).expect("parses");
    file.set("network.tcpport", "1500");
    file.set("Network.ipaddress", "::1");
    file.set("traceflag.traceflag0", "1222");
    assert!(file.unset("memory.memorylimitmb") && !file.unset("memory.memorylimitmb"));
    assert_eq!(
        file.text(),
        "; kept\n[network]\n# kept too\ntcpport = 1500\nipaddress = ::1\n\n[memory]\n\n[traceflag]\ntraceflag0 = 1222\n"
    );
    let again = ConfFile::parse("mssql.conf".into(), file.text()).expect("parses");
    let names: Vec<&str> = again.entries().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "network.tcpport",
            "network.ipaddress",
            "traceflag.traceflag0"
        ]
    );
}

#[test]
fn names_are_there_once_and_in_the_documentation() {
    let documented = include_str!("../../../../docs/container.md");
    let mut names = Vec::new();
    for setting in TABLE {
        let all = setting.variables.iter().chain([&setting.name]);
        for name in all.filter(|name| !name.is_empty()) {
            assert!(documented.contains(&format!("`{name}`")), "{name}");
            assert!(!names.contains(name), "{name} is there twice");
            names.push(name);
        }
    }
}

/// Options of `daruma serve` that a file or a variable has no name for: what a file is, and what belongs to one start.
const COMMAND_LINE_ONLY: [&str; 4] = ["config", "print-log", "without-logon-triggers", "help"];

#[test]
fn options_and_settings_name_each_other() {
    use clap::Args;
    let serve = crate::serve::ServeArgs::augment_args(clap::Command::new("serve"));
    let is_page = |arg: &clap::Arg| arg.get_help_heading() == Some("Monitor's page");
    let names = |arg: &clap::Arg| {
        let long = arg.get_long().map(|long| format!("--{long}"));
        long.or(arg.get_short().map(|short| format!("-{short}")))
    };
    let shown = serve.get_arguments().filter(|arg| !arg.is_hide_set());
    let options: Vec<String> = shown
        .filter(|arg| !is_page(arg))
        .filter_map(names)
        .collect();
    let named = |option: &String| {
        let closed = [format!("({option})"), format!("({option} required)")];
        let all = TABLE.iter().map(|setting| setting.about);
        all.into_iter()
            .any(|about| closed.iter().any(|c| about.contains(c.as_str())))
    };
    let lacking: Vec<&String> = options
        .iter()
        .filter(|option| !named(option) && !COMMAND_LINE_ONLY.contains(&&option[2..]))
        .collect();
    assert!(lacking.is_empty(), "no setting for {lacking:?}");
    for setting in TABLE {
        let option = setting.about.split("(-").nth(1);
        let Some(option) = option.and_then(|rest| rest.split([' ', ')']).next()) else {
            continue;
        };
        let option = format!("-{option}");
        assert!(options.contains(&option), "{option} is no option");
    }
}
