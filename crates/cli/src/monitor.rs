//! `daruma monitor`: watches servers, keeps what it saw, shows it in a browser. Also the monitor inside `daruma serve`.
//!
//! Without `--repository` the history is kept by a server of the program's own in `--data`; its logins are those of the page.

use clap::Args;
use daruma_client::client::{EncryptionWish, Options, Trust};
use daruma_client::connect::{ConnectArgs, ConnectError, EncryptLevel, parse_server};
use daruma_monitor::{Monitor, MonitorError, MonitorOptions};
use daruma_server::program::{Program, ProgramOptions};
use daruma_server::{EncryptionPolicy, LogCompression, ServerError};
use daruma_tds::login::Secret;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use thiserror::Error;

/// Login by which the monitor reaches a server inside its own process.
const SERVICE_LOGIN: &str = "##DarumaMonitor##";
/// Memory of the server that keeps the history: the least that a server takes.
const MEMORY_BYTES: u64 = 96 << 20;

/// Watch servers and show what they do and did in a browser.
///
/// Everything is asked over TDS: Daruma and SQL Server alike. The page asks for a login of the server that keeps the history:
/// the one in --data (login sa, password from MSSQL_SA_PASSWORD or made and written to the file sa-password there), or the one that --repository names.
#[derive(Args, Debug)]
pub struct MonitorArgs {
    /// Server to watch, as HOST, HOST,PORT or tcp:HOST,PORT; may be given more than once
    #[arg(
        short = 'S',
        long,
        value_name = "SERVER",
        env = "SQLCMDSERVER",
        required = true,
        hide_env_values = true
    )]
    server: Vec<String>,

    /// Login name for the watched servers
    #[arg(
        short = 'U',
        long,
        value_name = "LOGIN",
        env = "SQLCMDUSER",
        default_value = "sa",
        hide_env_values = true
    )]
    user: String,

    /// Password for the watched servers; asked for if missing
    #[arg(
        short = 'P',
        long,
        value_name = "PASSWORD",
        env = "SQLCMDPASSWORD",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    password: Option<String>,

    /// Trust the servers' certificates whatever they are
    #[arg(short = 'C', long)]
    trust_server_certificate: bool,

    /// Trust the certificates in this PEM file and those they vouch for
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Encryption: optional (login only), mandatory or strict (TDS 8.0)
    #[arg(
        short = 'N',
        long,
        value_name = "LEVEL",
        default_value = "mandatory",
        hide_possible_values = true
    )]
    encrypt: EncryptLevel,

    /// Server that keeps the history, with the same login; without it one of the monitor's own does
    #[arg(long, value_name = "SERVER", conflicts_with = "data")]
    repository: Option<String>,

    /// Folder of the monitor's own server for the history
    #[arg(long, value_name = "DIR", default_value = "./daruma-monitor")]
    data: PathBuf,

    #[command(flatten)]
    page: PageArgs,

    /// Address and port of the page; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
}

/// Options of the page, for `daruma monitor` and `daruma serve --monitor`.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Monitor's page")]
pub struct PageArgs {
    /// Certificate chain (PEM) of the page; beyond this machine the server's own is taken without it
    #[arg(long, value_name = "FILE", requires = "monitor_key")]
    monitor_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "monitor_cert")]
    monitor_key: Option<PathBuf>,

    /// Listen beyond this machine without TLS
    #[arg(long)]
    insecure_listen: bool,

    /// Another name by which browsers call the page; may be given more than once
    #[arg(long, value_name = "NAME")]
    host_name: Vec<String>,

    /// Show literals of statements; without it they are replaced by ? before anything is kept
    #[arg(long)]
    show_literals: bool,

    /// File with the token that a scrape of /metrics brings (Authorization: Bearer)
    #[arg(long, value_name = "FILE")]
    metrics_token: Option<PathBuf>,

    /// Address that alerts are posted to
    #[arg(long, value_name = "URL", requires = "webhook_secret")]
    webhook: Option<String>,

    /// File with the secret that signs what is posted (HMAC-SHA256, X-Daruma-Signature)
    #[arg(long, value_name = "FILE")]
    webhook_secret: Option<PathBuf>,
}

/// Why the monitor did not start, or ended badly.
#[derive(Debug, Error)]
pub enum MonitorFailure {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

impl PageArgs {
    /// Options of a monitor that watches `servers` and keeps its history on `repository`.
    fn options(
        &self,
        servers: Vec<Options>,
        repository: Options,
        listen: &str,
    ) -> Result<MonitorOptions, MonitorFailure> {
        let secret = |path: &PathBuf| match fs::read_to_string(path) {
            Ok(text) => Ok(text.trim().to_string()),
            Err(source) => Err(MonitorFailure::File {
                path: path.clone(),
                source,
            }),
        };
        let webhook = match (&self.webhook, &self.webhook_secret) {
            (Some(address), Some(path)) => Some((address.clone(), secret(path)?)),
            _ => None,
        };
        Ok(MonitorOptions {
            servers,
            repository,
            listen: listen.to_string(),
            certificate: self.monitor_cert.clone().zip(self.monitor_key.clone()),
            insecure: self.insecure_listen,
            hosts: self.host_name.clone(),
            mask: !self.show_literals,
            metrics_token: self.metrics_token.as_ref().map(secret).transpose()?,
            webhook,
        })
    }
}

/// `daruma monitor`.
pub fn run(args: &MonitorArgs) -> ExitCode {
    match watch(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("daruma: {error}");
            ExitCode::FAILURE
        }
    }
}

fn watch(args: &MonitorArgs) -> Result<(), MonitorFailure> {
    // Before anything is opened, so that a signal during the start is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(MonitorFailure::Signals)?;
    let servers = connections(args)?;
    let (own, repository) = match &args.repository {
        Some(name) => {
            let first = servers
                .first()
                .cloned()
                .unwrap_or_else(|| Options::new("localhost", 1433));
            let (host, port) = parse_server(name).map_err(ConnectError::from)?;
            (
                None,
                Options {
                    host,
                    port,
                    ..first
                },
            )
        }
        None => {
            let program = own_server(args)?;
            let options = inside(&program, EncryptionPolicy::On)?;
            (Some(program), options)
        }
    };
    let mut options = args.page.options(servers, repository, &args.listen)?;
    if options.certificate.is_none() && !is_loopback(&args.listen) && !options.insecure {
        options.certificate = own.as_ref().and_then(Program::certificate);
    }
    let scheme = if options.certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let monitor = Monitor::start(&options)?;
    if let Some(made) = own.as_ref().and_then(Program::made_password) {
        eprintln!("password of sa for the page: in {}", made.file().display());
    }
    if let Some(address) = monitor.address() {
        eprintln!("ready {scheme}://{address}/");
    }
    signals.forever().next();
    monitor.stop();
    match own {
        Some(program) => Ok(program.stop()?),
        None => Ok(()),
    }
}

/// How to reach each watched server; a missing password is asked for once.
fn connections(args: &MonitorArgs) -> Result<Vec<Options>, MonitorFailure> {
    let mut password = args.password.clone().map(Secret::new);
    let mut servers = Vec::new();
    for server in &args.server {
        let connect = ConnectArgs {
            server: Some(server.clone()),
            user: args.user.clone(),
            // Only the first may ask.
            password: password
                .as_ref()
                .map(|_| String::new())
                .or(args.password.clone()),
            trust_server_certificate: args.trust_server_certificate,
            ca: args.ca.clone(),
            encrypt: args.encrypt,
            login_timeout: 5,
        };
        let mut options = connect.options("DarumaMonitor")?;
        match &password {
            Some(known) => options.password = known.clone(),
            None => password = Some(options.password.clone()),
        }
        servers.push(options);
    }
    Ok(servers)
}

fn own_server(args: &MonitorArgs) -> Result<Program, MonitorFailure> {
    let given = std::env::var("MSSQL_SA_PASSWORD").ok();
    let options = ProgramOptions {
        data_dir: std::path::absolute(&args.data).unwrap_or_else(|_| args.data.clone()),
        listen: "127.0.0.1:0".into(),
        folders: Default::default(),
        server_name: None,
        trace_flags: Vec::new(),
        log_compression: LogCompression::default(),
        without_logon_triggers: false,
        sa_password: given.filter(|password| !password.is_empty()),
        memory_bytes: Some(MEMORY_BYTES),
        encryption: EncryptionPolicy::On,
        certificate: None,
        limits: Vec::new(),
        log_echo: None,
    };
    Ok(Program::start(&options)?)
}

/// How the monitor reaches a server in its own process: as a login of its own, whatever the certificate is called.
fn inside(program: &Program, encryption: EncryptionPolicy) -> Result<Options, MonitorFailure> {
    let address = program.address();
    let host = match address.ip() {
        ip if ip.is_unspecified() => "localhost".to_string(),
        ip => ip.to_string(),
    };
    Ok(Options {
        user: SERVICE_LOGIN.into(),
        password: Secret::new(program.service_login(SERVICE_LOGIN)?),
        encryption: match encryption {
            EncryptionPolicy::Off | EncryptionPolicy::On => EncryptionWish::Optional,
            EncryptionPolicy::Required => EncryptionWish::Mandatory,
            EncryptionPolicy::Strict => EncryptionWish::Strict,
        },
        trust: Trust::Anyone,
        ..Options::new(host, address.port())
    })
}

/// Does an address lie on this machine alone?
fn is_loopback(listen: &str) -> bool {
    use std::net::ToSocketAddrs;
    let resolved = listen.to_socket_addrs();
    resolved.is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()))
}

/// `daruma serve --monitor`: the monitor of a server in the same process, which also keeps its history. Gives its address as text.
pub fn beside(
    program: &Program,
    page: &PageArgs,
    listen: &str,
    encryption: EncryptionPolicy,
) -> Result<(Monitor, String), MonitorFailure> {
    let server = inside(program, encryption)?;
    let mut options = page.options(vec![server.clone()], server, listen)?;
    if options.certificate.is_none() && !is_loopback(listen) && !options.insecure {
        options.certificate = program.certificate();
    }
    let scheme = if options.certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let monitor = Monitor::start(&options)?;
    let address = monitor
        .address()
        .map_or(listen.to_string(), |a| a.to_string());
    Ok((monitor, format!("{scheme}://{address}/")))
}
