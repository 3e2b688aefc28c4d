//! Settings that SQL Server's container takes from its environment, so that whoever starts that starts this by changing a name.
//!
//! Theory: an option of the command line wins over a variable. A variable that cannot do here what it does there is refused, or, if
//! nobody is misled about their data, told as a note; one that changes nothing that can be seen is taken in silence.
//!
//! Source: "Configure SQL Server settings with environment variables on Linux", Microsoft Learn.

use std::path::PathBuf;

/// What the variables say, as far as they say it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub sa_password: Option<String>,
    /// Without a port.
    pub address: Option<String>,
    pub memory_bytes: Option<u64>,
    /// Scripts for a new data folder.
    pub init_scripts: Option<PathBuf>,
    /// What to tell whoever starts the server.
    pub notes: Vec<String>,
}

/// The collation of the server and of new databases.
const COLLATION: &str = "SQL_Latin1_General_CP1_CI_AS";
/// Language of messages and dates: US English.
const LANGUAGE: &str = "1033";
/// Taken in silence: there is no licence to accept and no edition, groups are always there, and no dump is ever written.
const SILENT: [&str; 4] = [
    "ACCEPT_EULA",
    "MSSQL_PID",
    "MSSQL_ENABLE_HADR",
    "MSSQL_DUMP_DIR",
];
/// Read here, or as options of `serve`.
const KNOWN: [&str; 10] = [
    "MSSQL_SA_PASSWORD",
    "MSSQL_IP_ADDRESS",
    "MSSQL_TCP_PORT",
    "MSSQL_DATA_DIR",
    "MSSQL_MEMORY_LIMIT_MB",
    "MSSQL_COLLATION",
    "MSSQL_LCID",
    "MSSQL_LOG_DIR",
    "MSSQL_BACKUP_DIR",
    "MSSQL_AGENT_ENABLED",
];
/// A folder of `*.sql` for the first start.
pub const INIT_SCRIPTS: &str = "DARUMA_INIT_SCRIPTS";

/// Reads the variables by `of`, which gives the value of a name; `names` are those that there are.
pub fn read(
    of: impl Fn(&str) -> Option<String>,
    names: impl Iterator<Item = String>,
) -> Result<Settings, String> {
    let of = |name: &str| of(name).filter(|value| !value.is_empty());
    for (name, only, why) in [
        (
            "MSSQL_COLLATION",
            COLLATION,
            "the server's collation; columns and databases may have others",
        ),
        ("MSSQL_LCID", LANGUAGE, "the server's language"),
    ] {
        if let Some(value) = of(name).filter(|value| !value.eq_ignore_ascii_case(only)) {
            return Err(format!("{name}={value} is not supported: {why} is {only}"));
        }
    }
    for (name, instead) in [
        (
            "MSSQL_LOG_DIR",
            "say LOG ON (FILENAME = '..') in CREATE DATABASE",
        ),
        (
            "MSSQL_BACKUP_DIR",
            "say the whole path in BACKUP and RESTORE",
        ),
    ] {
        if of(name).is_some() {
            return Err(format!("{name} is not supported: unset it, and {instead}"));
        }
    }
    let mut notes = Vec::new();
    if of("MSSQL_AGENT_ENABLED").is_some_and(|value| is_on(&value)) {
        notes
            .push("MSSQL_AGENT_ENABLED: there is no SQL Server Agent, jobs do not run".to_string());
    }
    let mut others: Vec<String> = names
        .filter(|name| name.starts_with("MSSQL_"))
        .filter(|name| !KNOWN.contains(&name.as_str()) && !SILENT.contains(&name.as_str()))
        .collect();
    others.sort();
    notes.extend(others.iter().map(|name| format!("{name} has no effect")));
    Ok(Settings {
        sa_password: of("MSSQL_SA_PASSWORD").or_else(|| of("SA_PASSWORD")),
        address: of("MSSQL_IP_ADDRESS"),
        memory_bytes: of("MSSQL_MEMORY_LIMIT_MB")
            .map(|mb| megabytes(&mb))
            .transpose()?,
        init_scripts: of(INIT_SCRIPTS).map(PathBuf::from),
        notes,
    })
}

/// The variables of this process.
pub fn from_environment() -> Result<Settings, String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    read(|name| std::env::var(name).ok(), names)
}

fn is_on(value: &str) -> bool {
    value == "1" || value.eq_ignore_ascii_case("true")
}

fn megabytes(text: &str) -> Result<u64, String> {
    let bytes = text.trim().parse::<u64>().ok().filter(|mb| *mb > 0);
    let bytes = bytes.and_then(|mb| mb.checked_mul(1 << 20));
    bytes.ok_or_else(|| format!("MSSQL_MEMORY_LIMIT_MB={text} is not a number of megabytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let of = |name: &str| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_string())
        };
        read(of, variables.iter().map(|(name, _)| (*name).to_string()))
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
        assert_eq!(
            with(&both).expect("taken").sa_password.as_deref(),
            Some("new")
        );
        let empty = [("SA_PASSWORD", "old"), ("MSSQL_SA_PASSWORD", "")];
        assert_eq!(
            with(&empty).expect("taken").sa_password.as_deref(),
            Some("old")
        );
    }

    #[test]
    fn what_cannot_be_done_is_refused_or_told() {
        for (name, value) in [
            ("MSSQL_COLLATION", "Latin1_General_100_CS_AS"),
            ("MSSQL_LCID", "1031"),
            ("MSSQL_LOG_DIR", "/logs"),
            ("MSSQL_BACKUP_DIR", "/backups"),
            ("MSSQL_MEMORY_LIMIT_MB", "much"),
            ("MSSQL_MEMORY_LIMIT_MB", "0"),
            ("MSSQL_MEMORY_LIMIT_MB", "99999999999999999"),
        ] {
            let refused = with(&[(name, value)]).expect_err(name);
            assert!(refused.contains(name), "{refused}");
        }
        let told = with(&[("MSSQL_AGENT_ENABLED", "True"), ("MSSQL_RPC_PORT", "135")]);
        let notes = told.expect("taken").notes;
        assert!(
            matches!(notes.as_slice(), [a, b] if a.contains("Agent") && b.contains("MSSQL_RPC_PORT"))
        );
    }
}
