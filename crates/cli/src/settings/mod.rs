//! Settings that SQL Server takes from its container's environment and from `mssql.conf`, so that whoever starts that starts this by
//! changing a name.
//!
//! Theory: each is defined once, in [`TABLE`], with what becomes of it. The file is read first, then the variables, then the options of
//! the command line; the later one wins. What cannot do here what it does there is refused, or, if nobody is misled about their data,
//! told as a note; what changes nothing that can be seen is taken in silence. A file is written for this server, so a name that is
//! unknown there is an error; an environment is inherited, so one there is a note. A value that a setting cannot have is an error, also
//! where nothing depends on it here: it was meant to do something.
//!
//! Source: "Configure SQL Server settings with environment variables on Linux" and "Configure SQL Server on Linux with the mssql-conf
//! tool", Microsoft Learn.

mod file;

pub use file::ConfFile;

use crate::serve::{Compression, parse_server_name};
use clap::ValueEnum;
use daruma_server::program::{MEMORY_BYTES_MIN, local_time_zone, machine_bytes};
use std::net::IpAddr;
use std::path::PathBuf;

/// What file and variables say, as far as they say it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub sa_password: Option<String>,
    /// Without a port.
    pub address: Option<String>,
    pub port: Option<u16>,
    pub data_dir: Option<PathBuf>,
    /// Of the logs of new databases.
    pub log_dir: Option<PathBuf>,
    pub backup_dir: Option<PathBuf>,
    pub memory_bytes: Option<u64>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub force_encryption: Option<bool>,
    pub trace_flags: Vec<i32>,
    /// Scripts for a new data folder.
    pub init_scripts: Option<PathBuf>,
    pub server_name: Option<String>,
    pub log_compression: Option<Compression>,
    /// Address and port of the monitor's page.
    pub monitor: Option<String>,
    /// What to tell whoever starts the server.
    pub notes: Vec<String>,
}

/// One setting: its names, and what becomes of it.
pub struct Setting {
    /// In `mssql.conf`, as SECTION.NAME; empty where there is none.
    pub name: &'static str,
    /// In the environment; the first that has a value counts.
    pub variables: &'static [&'static str],
    pub about: &'static str,
    what: What,
}

enum What {
    Take(fn(&mut Settings, &str) -> Result<(), String>),
    /// The only value that is right here.
    Only(&'static str),
    /// Why not, and what to do instead.
    Refuse(&'static str),
    /// A switch that is as it is: what is said when somebody wants it on, and when off.
    Switch {
        on: Option<&'static str>,
        off: Option<&'static str>,
    },
    /// One of these; nothing that can be seen depends on which.
    OneOf(&'static [&'static str]),
    /// Any value is right, and nothing that can be seen depends on it.
    Silent,
}

/// A switch on which nothing depends.
const EITHER: What = What::Switch {
    on: None,
    off: None,
};

/// Editions of SQL Server, as `MSSQL_PID` names them.
const EDITIONS: &[&str] = &[
    "Evaluation",
    "Developer",
    "StandardDeveloper",
    "EnterpriseDeveloper",
    "Express",
    "Web",
    "Standard",
    "Enterprise",
    "EnterpriseCore",
];
/// Least value of `memory.memorylimitmb`.
const MEMORY_MEGABYTES_MIN: u64 = MEMORY_BYTES_MIN >> 20;

/// The file of the Debian package.
pub const CONF_FILE: &str = "/etc/daruma/daruma.conf";
/// SQL Server's file, in the folder that people mount into its container.
pub const PRODUCT_CONF_FILE: &str = "/var/opt/mssql/mssql.conf";
/// SQL Server's program, and in the container this one.
pub const PRODUCT_PROGRAM: &str = "/opt/mssql/bin/sqlservr";

/// What counts where neither an option nor a setting says otherwise.
#[derive(Debug)]
pub struct Defaults {
    /// Read where it exists.
    pub config: Option<&'static str>,
    pub data_dir: &'static str,
    pub address: &'static str,
    /// Scripts for a new data folder, where this folder exists.
    pub init_scripts: Option<&'static str>,
}

impl Defaults {
    /// Of `daruma serve`: a folder and an address that are nobody else's.
    pub const OWN: Defaults = Defaults {
        config: None,
        data_dir: "./daruma-data",
        address: "127.0.0.1",
        init_scripts: None,
    };
    /// Of the program under the name `sqlservr`: those of SQL Server's container.
    pub const PRODUCT: Defaults = Defaults {
        config: Some(PRODUCT_CONF_FILE),
        data_dir: "/var/opt/mssql/data",
        address: "0.0.0.0",
        init_scripts: Some("/docker-entrypoint-initdb.d"),
    };
}

/// Is there something at this path, or something that keeps this process from seeing it?
pub fn is_there(path: &str) -> bool {
    !matches!(std::path::Path::new(path).try_exists(), Ok(false))
}

/// Names of trace flags end with any number.
const TRACE_FLAG: &str = "traceflag.traceflag";
const fn setting(
    name: &'static str,
    variables: &'static [&'static str],
    about: &'static str,
    what: What,
) -> Setting {
    Setting {
        name,
        variables,
        about,
        what,
    }
}

/// All of them.
#[rustfmt::skip]
pub const TABLE: &[Setting] = &[
    setting("", &["MSSQL_SA_PASSWORD", "SA_PASSWORD"], "password of sa; without one the first start makes one, in the file sa-password of the data folder",
        What::Take(|s, v| { s.sa_password = Some(v.to_string()); Ok(()) })),
    setting("network.ipaddress", &["MSSQL_IP_ADDRESS"], "IP address to listen on (--listen); without it 127.0.0.1, under the name sqlservr 0.0.0.0",
        What::Take(|s, v| { s.address = Some(address(v)?); Ok(()) })),
    setting("network.tcpport", &["MSSQL_TCP_PORT"], "port to listen on (--listen), 0 = a free one; without it 1433",
        What::Take(|s, v| { s.port = Some(port(v)?); Ok(()) })),
    setting("network.tlscert", &[], "certificate chain, PEM (--tls-cert); needs network.tlskey",
        What::Take(|s, v| { s.tls_cert = Some(v.into()); Ok(()) })),
    setting("network.tlskey", &[], "private key of the certificate, PEM (--tls-key); needs network.tlscert",
        What::Take(|s, v| { s.tls_key = Some(v.into()); Ok(()) })),
    setting("network.forceencryption", &[], "1 = clients without encryption are refused (--encrypt required)",
        What::Take(|s, v| { s.force_encryption = Some(switch(v)?); Ok(()) })),
    setting("network.tlsprotocols", &[], "refused: TLS 1.2 and 1.3 are offered",
        What::Refuse("TLS 1.2 and 1.3 are offered and nothing older; unset it")),
    setting("network.tlsciphers", &[], "refused: only ciphers of TLS 1.2 and 1.3 that are held to be safe are offered",
        What::Refuse("the ciphers are those that are held to be safe; unset it")),
    setting("memory.memorylimitmb", &["MSSQL_MEMORY_LIMIT_MB"], "memory of the server in megabytes (--memory), at least 96",
        What::Take(|s, v| {
            let (bytes, machine) = (megabytes(v)?, machine_bytes());
            if bytes > machine {
                s.notes.push(format!("memory: {v} megabytes are more than the {} that this machine, or the control group of the server, has", machine >> 20));
            }
            s.memory_bytes = Some(bytes);
            Ok(())
        })),
    setting("filelocation.defaultdatadir", &["MSSQL_DATA_DIR"], "data folder: system databases, error log and new databases (--data)",
        What::Take(|s, v| { s.data_dir = Some(v.into()); Ok(()) })),
    setting("filelocation.defaultlogdir", &["MSSQL_LOG_DIR"], "folder of the logs of new databases, where CREATE DATABASE names none; without it the data folder",
        What::Take(|s, v| { s.log_dir = Some(v.into()); Ok(()) })),
    setting("filelocation.defaultbackupdir", &["MSSQL_BACKUP_DIR"], "folder of backups to and from disk whose path is relative; without it the data folder",
        What::Take(|s, v| { s.backup_dir = Some(v.into()); Ok(()) })),
    setting("filelocation.defaultdumpdir", &["MSSQL_DUMP_DIR"], "taken: dumps are never written", What::Silent),
    setting("filelocation.masterdatafile", &[], "refused: master lies in the data folder",
        What::Refuse("master lies in the data folder; unset it, and set filelocation.defaultdatadir")),
    setting("filelocation.masterlogfile", &[], "refused: master lies in the data folder",
        What::Refuse("master lies in the data folder; unset it, and set filelocation.defaultdatadir")),
    setting("filelocation.errorlogfile", &[], "refused: the error log lies in the data folder",
        What::Refuse("the error log lies in the data folder; unset it, and set filelocation.defaultdatadir")),
    setting("errorlog.numerrorlogs", &[], "only 6: so many older error logs are kept", What::Only("6")),
    setting("", &["MSSQL_COLLATION"], "only SQL_Latin1_General_CP1_CI_AS: columns and databases may have other collations, the server has this one",
        What::Only("SQL_Latin1_General_CP1_CI_AS")),
    setting("language.lcid", &["MSSQL_LCID"], "only 1033: messages and dates are in US English", What::Only("1033")),
    setting("sqlagent.enabled", &["MSSQL_AGENT_ENABLED"], "told at the start that no jobs run",
        What::Switch { on: Some("there is no SQL Server Agent, jobs do not run"), off: None }),
    setting("hadr.hadrenabled", &["MSSQL_ENABLE_HADR"], "told at the start, when 0, that availability groups are always there",
        What::Switch { on: None, off: Some("availability groups are always there, they cannot be switched off") }),
    setting("eula.accepteula", &["ACCEPT_EULA"], "taken: there is no licence to accept", What::Silent),
    setting("", &["MSSQL_PID"], "an edition or a product key; there is none to choose, all has no limits",
        What::Take(|_, v| edition(v))),
    setting("", &["TZ"], "time zone of GETDATE(), as Europe/Berlin; without it the machine's",
        What::Silent),
    setting("telemetry.customerfeedback", &[], "taken, true or false: nothing is ever sent", EITHER),
    setting("coredump.captureminiandfull", &[], "taken, true or false: dumps are never written", EITHER),
    setting("coredump.coredumptype", &[], "taken (mini, miniplus, filtered, full): dumps are never written",
        What::OneOf(&["mini", "miniplus", "filtered", "full"])),
    setting("traceflag.traceflag0", &[], "trace flag that is on from the start (-T); traceflag1, traceflag2 and so on for more",
        What::Take(|s, v| { s.trace_flags.push(trace_flag(v)?); Ok(()) })),
    setting("daruma.initscripts", &["DARUMA_INIT_SCRIPTS"], "our own: folder of scripts for a new data folder (--init-scripts)",
        What::Take(|s, v| { s.init_scripts = Some(v.into()); Ok(()) })),
    setting("daruma.servername", &["DARUMA_SERVER_NAME"], "our own: what the server is called (--server-name); without it the host's name",
        What::Take(|s, v| { s.server_name = Some(parse_server_name(v)?); Ok(()) })),
    setting("daruma.logcompression", &["DARUMA_LOG_COMPRESSION"], "our own: compression of the log to replicas (--log-compression): automatic, 2014 or 2016",
        What::Take(|s, v| { s.log_compression = Some(compression(v)?); Ok(()) })),
    setting("daruma.monitor", &["DARUMA_MONITOR"], "our own: address and port of the monitor's page (--monitor)",
        What::Take(|s, v| { s.monitor = Some(page(v)?); Ok(()) })),
];

/// The setting that a configuration file means by a name, whatever its case.
pub fn named(name: &str) -> Option<&'static Setting> {
    let name = name.to_ascii_lowercase();
    let name = match name.strip_prefix(TRACE_FLAG) {
        Some(number) if number.parse::<u32>().is_ok() => "traceflag.traceflag0",
        _ => &name,
    };
    TABLE
        .iter()
        .find(|setting| setting.name == name && !name.is_empty())
}

impl Setting {
    /// Does to the settings what a value says; `label` is how whoever gave it calls it.
    fn apply(&self, settings: &mut Settings, label: &str, value: &str) -> Result<(), String> {
        match &self.what {
            What::Take(take) => {
                take(settings, value).map_err(|why| format!("{label}: '{value}' {why}"))
            }
            What::Only(only) if value.eq_ignore_ascii_case(only) => Ok(()),
            What::Only(_) => Err(format!(
                "{label}: '{value}' is not supported; {}",
                self.about
            )),
            What::Refuse(instead) => Err(format!("{label} is not supported: {instead}")),
            What::Switch { on, off } => {
                let is_on = switch(value).map_err(|why| format!("{label}: '{value}' {why}"))?;
                let note = if is_on { on } else { off };
                settings
                    .notes
                    .extend(note.map(|note| format!("{label}: {note}")));
                Ok(())
            }
            What::OneOf(all) if all.iter().any(|one| one.eq_ignore_ascii_case(value)) => Ok(()),
            What::OneOf(all) => Err(format!("{label}: '{value}' is none of {}", all.join(", "))),
            What::Silent => Ok(()),
        }
    }

    /// Is this value one that `daruma serve` would take? Gives what that would say of it.
    pub fn check(&self, name: &str, value: &str) -> Result<Vec<String>, String> {
        let mut settings = Settings::default();
        self.apply(&mut settings, name, value)?;
        Ok(settings.notes)
    }
}

/// Reads the file, then the variables by `of`, which gives the value of a name; `names` are those that there are.
pub fn read(
    file: Option<&ConfFile>,
    of: impl Fn(&str) -> Option<String>,
    names: impl Iterator<Item = String>,
) -> Result<Settings, String> {
    let mut settings = Settings::default();
    if let Some(file) = file {
        for (name, value) in file.entries() {
            let label = format!("{}: {name}", file.path().display());
            let setting = named(name).ok_or_else(|| unknown(&label))?;
            setting.apply(&mut settings, &label, value)?;
        }
    }
    for setting in TABLE {
        let given = |name: &&str| of(name).filter(|value| !value.is_empty());
        let given = |name: &'static str| given(&name).map(|value| (name, value));
        let first = setting.variables.iter().find_map(|name| given(name));
        if let Some((name, value)) = first {
            setting.apply(&mut settings, name, &value)?;
        }
    }
    let known = |name: &String| TABLE.iter().any(|s| s.variables.contains(&name.as_str()));
    let mut others: Vec<String> = names
        .filter(|name| name.starts_with("MSSQL_") && !known(name))
        .collect();
    others.sort();
    let told = others.iter().map(|name| format!("{name} has no effect"));
    settings.notes.extend(told);
    match settings.tls_cert.is_some() == settings.tls_key.is_some() {
        true => Ok(settings),
        false => {
            Err("network.tlscert and network.tlskey belong together: set both or neither".into())
        }
    }
}

/// What to say of a name that is not in the table.
pub fn unknown(label: &str) -> String {
    format!("{label} is no setting: 'daruma conf list' shows those that there are")
}

/// The file, and the variables of this process.
pub fn of_this_process(file: Option<&ConfFile>) -> Result<Settings, String> {
    for name in TABLE.iter().flat_map(|setting| setting.variables) {
        if std::env::var_os(name).is_some_and(|value| value.to_str().is_none()) {
            return Err(format!(
                "{name} is not UTF-8: write it in UTF-8, or unset it"
            ));
        }
    }
    local_time_zone().map_err(|why| {
        format!(
            "TZ: '{}' is no time zone of this machine ({why}): name one as in /usr/share/zoneinfo, install those (tzdata), or unset it",
            std::env::var("TZ").unwrap_or_default()
        )
    })?;
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    read(file, |name| std::env::var(name).ok(), names)
}

fn address(text: &str) -> Result<String, String> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    if inner.unwrap_or(text).parse::<IpAddr>().is_ok() {
        return Ok(text.to_string());
    }
    let has_port = text
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Err(match has_port {
        true => "names a port as well; that is network.tcpport, or MSSQL_TCP_PORT",
        false => "is not an IP address like 0.0.0.0 or ::; --listen takes a name as well",
    }
    .to_string())
}

fn port(text: &str) -> Result<u16, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let port = text.parse().ok().filter(|_| digits);
    port.ok_or_else(|| "is not a port from 0 to 65535".to_string())
}

/// Five groups of five letters or digits are a key.
fn edition(text: &str) -> Result<(), String> {
    let is_group =
        |group: &str| group.len() == 5 && group.bytes().all(|b| b.is_ascii_alphanumeric());
    let is_key = text.split('-').count() == 5 && text.split('-').all(is_group);
    let is_edition = EDITIONS.iter().any(|name| name.eq_ignore_ascii_case(text));
    match is_key || is_edition {
        true => Ok(()),
        false => Err(format!(
            "is neither a product key nor one of {}; all has no limits here, so that it can be left out",
            EDITIONS.join(", ")
        )),
    }
}

fn compression(text: &str) -> Result<Compression, String> {
    Compression::from_str(text, true).map_err(|_| "is none of automatic, 2014 and 2016".to_string())
}

fn page(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match port.is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        true => Ok(text.to_string()),
        false => Err("is not ADDRESS:PORT".to_string()),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" => Ok(true),
        "0" | "false" | "off" | "no" => Ok(false),
        _ => Err("is neither 1 nor 0".to_string()),
    }
}

fn trace_flag(text: &str) -> Result<i32, String> {
    let flag = text.parse().ok().filter(|flag| (1..=32767).contains(flag));
    flag.ok_or_else(|| "is not a trace flag from 1 to 32767".to_string())
}

fn megabytes(text: &str) -> Result<u64, String> {
    let megabytes = text.trim().parse::<u64>().ok();
    let bytes = megabytes.and_then(|mb| mb.checked_mul(1 << 20));
    let bytes = bytes.ok_or_else(|| "is not a number of megabytes".to_string())?;
    match bytes < MEMORY_BYTES_MIN {
        true => Err(format!(
            "is less than the {MEMORY_MEGABYTES_MIN} megabytes that a server needs"
        )),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests;
