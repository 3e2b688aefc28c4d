//! `daruma serve`: runs a server until a signal or SHUTDOWN ends it.

use crate::init::{self, InitFailure};
use crate::monitor::{self, MonitorFailure, PageArgs};
use crate::notify;
use crate::settings::{self, ConfFile, Defaults, Settings};
use clap::{Args, ValueEnum};
use daruma_server::program::{DefaultFolders, FolderLimit, Program, ProgramOptions};
use daruma_server::{EncryptionPolicy, LogCompression, ServerError};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

const PORT_DEFAULT: u16 = 1433;

/// Run a database server.
///
/// The password of `sa` is taken from MSSQL_SA_PASSWORD, and other settings from the variables of SQL Server's container or from a
/// file (`daruma conf list` shows all), where no option says otherwise. Without a password, and without an earlier one, a password is made and
/// written to the file `sa-password` in the data folder, which only the server's user and root can read. The server prints one line that begins with `ready` when it accepts connections; SIGTERM and SIGINT make
/// it checkpoint and stop.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Folder of the system databases, the error log and new databases [default: ./daruma-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Settings in the format of mssql.conf; variables and options win over them
    #[arg(long, value_name = "FILE", env = "DARUMA_CONF")]
    config: Option<PathBuf>,

    /// Write what goes to the error log to standard output as well
    #[arg(long)]
    print_log: bool,

    /// Address and port to accept connections on; port 0 takes a free one [default: 127.0.0.1:1433]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,

    /// What the server is called: @@SERVERNAME, and how availability groups name it [default: the host's name]
    #[arg(long, value_name = "NAME", value_parser = parse_server_name)]
    server_name: Option<String>,

    /// Trace flag that is on from the start, for the whole server; may be given several times
    #[arg(short = 'T', value_name = "FLAG", value_parser = clap::value_parser!(i32).range(1..=32767))]
    trace_flags: Vec<i32>,

    /// Compression of the log that goes to replicas: automatic = each block when that is faster; 2014 = always; 2016 = to
    /// asynchronous replicas only. Trace flags 9592 (to synchronous ones as well) and 1462 (not to asynchronous ones) win
    /// [default: automatic]
    #[arg(long, value_enum, value_name = "DEFAULTS")]
    log_compression: Option<Compression>,

    /// Let logins pass without the LOGON triggers: for whoever has shut himself out
    #[arg(long)]
    without_logon_triggers: bool,

    /// Folder of scripts (*.sql, in the order of their names) that `sa` runs in a new data folder before anybody else can connect
    /// [env: DARUMA_INIT_SCRIPTS]
    #[arg(long, value_name = "DIR")]
    init_scripts: Option<PathBuf>,

    /// Memory of the server, in bytes or with K, M or G: three quarters for data pages, the rest for everything else (at least
    /// 32M and 64M) [default: half of what the machine or the control group has, in equal parts]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,

    /// Encryption: off = none; on = as the client wishes, the login always; required = everything; strict = TDS 8.0 only
    /// [default: on]
    #[arg(long, value_enum)]
    encrypt: Option<Encrypt>,

    /// Certificate chain (PEM); without it the server makes a certificate and keeps it in the data folder
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Address and port of the monitor's page for this server, with /metrics and /healthz
    #[arg(long, value_name = "ADDR:PORT")]
    monitor: Option<String>,

    #[command(flatten)]
    page: PageArgs,

    /// Stop when standard input ends: a server that must not outlive the program which started it
    #[arg(long, hide = true)]
    until_input_ends: bool,

    /// Make a folder behave like a slow device, for experiments: bytes and requests each second, and bytes each second of one
    /// request at a time
    #[arg(long, hide = true, value_name = "DIR=BYTES,REQUESTS,STREAM", value_parser = parse_limit)]
    limit_folder: Vec<FolderLimit>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Encrypt {
    Off,
    On,
    Required,
    Strict,
}

impl From<Encrypt> for EncryptionPolicy {
    fn from(encrypt: Encrypt) -> EncryptionPolicy {
        match encrypt {
            Encrypt::Off => EncryptionPolicy::Off,
            Encrypt::On => EncryptionPolicy::On,
            Encrypt::Required => EncryptionPolicy::Required,
            Encrypt::Strict => EncryptionPolicy::Strict,
        }
    }
}

/// Which release's defaults apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    Automatic,
    #[value(name = "2014")]
    Of2014,
    #[value(name = "2016")]
    Of2016,
}

impl From<Compression> for LogCompression {
    fn from(compression: Compression) -> LogCompression {
        match compression {
            Compression::Automatic => LogCompression::Automatic,
            Compression::Of2014 => LogCompression::Of2014,
            Compression::Of2016 => LogCompression::Of2016,
        }
    }
}

/// Why a server did not start, or did not end in good order.
#[derive(Debug, thiserror::Error)]
enum ServeFailure {
    #[error("{0}")]
    Setting(String),
    #[error(transparent)]
    Init(#[from] InitFailure),
    #[error(transparent)]
    Monitor(#[from] MonitorFailure),
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// `daruma serve`: runs the server until it is told to stop.
pub fn run(args: &ServeArgs, defaults: &Defaults) -> ExitCode {
    match serve(args, defaults) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("daruma: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &ServeArgs, defaults: &Defaults) -> Result<(), ServeFailure> {
    // Before anything is opened, so that a signal during recovery is not lost.
    let signals = Signals::new([SIGTERM, SIGINT]).map_err(ServerError::Thread)?;
    // A write beyond the largest file that this process may have is to fail as on a full disk, not to end the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(ServerError::Thread)?;
    let there = |path: Option<&'static str>| path.filter(|p| settings::is_there(p)).map(Path::new);
    let file = args.config.as_deref().or(there(defaults.config));
    let file = file.map(ConfFile::read).transpose();
    let file = file.map_err(ServeFailure::Setting)?;
    let settings = settings::of_this_process(file.as_ref()).map_err(ServeFailure::Setting)?;
    let encrypt = encryption(args, &settings).map_err(ServeFailure::Setting)?;
    settings.notes.iter().for_each(|note| eprintln!("{note}"));
    let scripts = args.init_scripts.clone().or(settings.init_scripts.clone());
    let scripts = scripts.or(there(defaults.init_scripts).map(Path::to_path_buf));
    let monitor = args.monitor.clone().or(settings.monitor.clone());
    let options = options(args, encrypt, settings, defaults);
    let made = match scripts {
        Some(folder) => init::run(&options, &folder)?,
        None => None,
    };
    let program = Program::start(&options)?;
    if let Some(made) = made.as_ref().or(program.made_password()) {
        eprintln!("password of sa: in {}", made.file().display());
    }
    let monitor = match &monitor {
        None => None,
        Some(listen) => {
            let started = monitor::beside(&program, &args.page, listen, encrypt.into())?;
            eprintln!("monitor {}", started.1);
            Some(started.0)
        }
    };
    let address = program.address();
    eprintln!(
        "ready {address} data {} encrypt {encrypt:?}",
        options.data_dir.display()
    );
    notify::ready();
    notify::begin_watchdog(address, matches!(encrypt, Encrypt::Strict))
        .map_err(ServerError::Thread)?;
    let waker = program.waker();
    let handling = move || handle(signals, &waker);
    thread::Builder::new()
        .name("signals".to_string())
        .spawn(handling)
        .map_err(ServerError::Thread)?;
    if args.until_input_ends {
        let waker = program.waker();
        let waiting = move || {
            // Nothing is expected there; an error says as much as the end.
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            waker.wake();
        };
        thread::Builder::new()
            .name("input".to_string())
            .spawn(waiting)
            .map_err(ServerError::Thread)?;
    }
    program.wait();
    notify::stopping();
    drop(monitor);
    if program.ends_at_once() {
        std::process::exit(0);
    }
    Ok(program.stop()?)
}

/// The first signal stops in good order. A second one means it: recovery does the rest at the next start.
fn handle(mut signals: Signals, waker: &daruma_server::Waker) {
    let mut pending = signals.forever();
    if pending.next().is_some() {
        waker.wake();
    }
    if pending.next().is_some() {
        eprintln!("daruma: stopped without a checkpoint");
        std::process::exit(1);
    }
}

/// An option that says less than the settings ask for contradicts them.
fn encryption(args: &ServeArgs, settings: &Settings) -> Result<Encrypt, String> {
    match (args.encrypt, settings.force_encryption) {
        (Some(Encrypt::Off | Encrypt::On), Some(true)) => Err(
            "network.forceencryption asks for encryption and --encrypt allows connections without: remove one of them"
                .to_string(),
        ),
        (Some(encrypt), _) => Ok(encrypt),
        (None, Some(true)) => Ok(Encrypt::Required),
        (None, _) => Ok(Encrypt::On),
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn options(
    args: &ServeArgs,
    encrypt: Encrypt,
    settings: Settings,
    defaults: &Defaults,
) -> ProgramOptions {
    let port = settings.port.unwrap_or(PORT_DEFAULT);
    let data = args.data.clone().or(settings.data_dir);
    let data = data.unwrap_or_else(|| PathBuf::from(defaults.data_dir));
    let certificate = args.tls_cert.clone().zip(args.tls_key.clone());
    let compression = args.log_compression.or(settings.log_compression);
    let listen = match args.listen.as_ref().or(settings.address.as_ref()) {
        None => format!("{}:{port}", defaults.address),
        Some(listen) if has_port(listen) => listen.clone(),
        Some(address) if address.contains(':') && !address.starts_with('[') => {
            format!("[{address}]:{port}")
        }
        Some(address) => format!("{address}:{port}"),
    };
    ProgramOptions {
        // What clients are told of the folder must mean the same to them as to the server.
        data_dir: absolute(data),
        listen,
        folders: DefaultFolders {
            log: settings.log_dir.map(absolute),
            backup: settings.backup_dir.map(absolute),
        },
        server_name: args.server_name.clone().or(settings.server_name),
        trace_flags: [settings.trace_flags, args.trace_flags.clone()].concat(),
        log_compression: compression.unwrap_or(Compression::Automatic).into(),
        without_logon_triggers: args.without_logon_triggers,
        // Read here rather than as an option: arguments show in the list of processes.
        sa_password: settings.sa_password,
        memory_bytes: args.memory.or(settings.memory_bytes),
        encryption: encrypt.into(),
        certificate: certificate.or(settings.tls_cert.zip(settings.tls_key)),
        limits: args.limit_folder.clone(),
        log_echo: args.print_log.then_some(print_line),
    }
}

/// Nobody may be there to read it; that is no reason to stop.
fn print_line(line: &str) {
    let _ = std::io::stdout().write_all(line.as_bytes());
}

/// Does an address end with a port? A bare IPv6 address has colons of its own.
fn has_port(listen: &str) -> bool {
    match listen.rsplit_once(':') {
        Some((host, port)) => {
            port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
        }
        None => false,
    }
}

/// Names that stand in messages, URLs and REPLICA ON without quotes to be doubled.
pub fn parse_server_name(text: &str) -> Result<String, String> {
    const CHARS_MAX: usize = 128;
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '\\');
    match (1..=CHARS_MAX).contains(&text.chars().count()) && text.chars().all(fits) {
        true => Ok(text.to_string()),
        false => Err(format!(
            "'{text}' is no name of 1 to {CHARS_MAX} letters, digits, '-', '_', '.' or '\\'"
        )),
    }
}

fn parse_limit(text: &str) -> Result<FolderLimit, String> {
    let bad = || format!("'{text}' is not DIR=BYTES,REQUESTS,STREAM");
    let (folder, figures) = text.rsplit_once('=').ok_or_else(bad)?;
    let figures: Vec<f64> = figures
        .split(',')
        .filter_map(|figure| figure.parse().ok())
        .filter(|figure: &f64| figure.is_finite() && *figure >= 1.0)
        .collect();
    let [bytes_per_s, requests_per_s, stream_bytes_per_s] = figures.as_slice() else {
        return Err(bad());
    };
    Ok(FolderLimit {
        folder: folder.into(),
        bytes_per_s: *bytes_per_s,
        requests_per_s: *requests_per_s,
        stream_bytes_per_s: *stream_bytes_per_s,
    })
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let upper = text.trim().to_ascii_uppercase();
    let upper = upper
        .strip_suffix("IB")
        .or(upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let (digits, shift) = match upper.char_indices().last() {
        Some((at, 'K')) => (upper.get(..at), 10),
        Some((at, 'M')) => (upper.get(..at), 20),
        Some((at, 'G')) => (upper.get(..at), 30),
        Some((at, 'T')) => (upper.get(..at), 40),
        _ => (Some(upper), 0),
    };
    let number = digits.and_then(|d| d.parse::<u64>().ok());
    let bytes = number.and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("'{text}' is not a number of bytes like 512M or 2G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_suffixes() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("512m"), Ok(512 << 20));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert!(
            parse_bytes("").is_err()
                && parse_bytes("many").is_err()
                && parse_bytes("99999999999T").is_err()
        );
    }

    #[test]
    fn names_of_servers_are_bounded() {
        assert_eq!(
            parse_server_name("db-1.example\\A"),
            Ok("db-1.example\\A".into())
        );
        for bad in ["", "a'b", "a b", &"x".repeat(129)] {
            assert!(parse_server_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_are_three_figures() {
        let limit = parse_limit("/b=c/d=60000000,500,1.5e7").expect("parses");
        assert_eq!(limit.folder, PathBuf::from("/b=c/d"));
        assert_eq!(
            (limit.requests_per_s, limit.stream_bytes_per_s),
            (500.0, 1.5e7)
        );
        assert!(parse_limit("/b=1,2").is_err() && parse_limit("/b=1,2,0").is_err());
        assert!(parse_limit("/b").is_err());
    }

    #[test]
    fn ports_are_recognised() {
        assert!(has_port("0.0.0.0:0") && has_port("[::1]:1433") && has_port("localhost:14330"));
        assert!(!has_port("::1") && !has_port("[::1]") && !has_port("localhost"));
    }
}
