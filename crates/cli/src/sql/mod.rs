//! `daruma sql`: scripts and an interactive shell, with sqlcmd's flags.
//!
//! | input | how it is read |
//! |---|---|
//! | `-Q`, `-q` | the text is a script; after `-q` the shell begins |
//! | `-i` | each file is a script |
//! | a terminal | the shell |
//! | anything else on standard input | a script |
//!
//! Read next: `script` cuts input into batches, `session` runs them, `layout` writes results.

mod help;
mod layout;
mod output;
mod script;
mod session;
mod shell;
mod variables;

#[cfg(test)]
mod tests;

pub use layout::Format;

use clap::parser::ValueSource;
use clap::{ArgAction, Args, Command, CommandFactory, FromArgMatches, Parser};
use daruma_client::client::Client;
use daruma_client::connect::{ConnectArgs, EncryptLevel, seconds};
use layout::Layout;
use output::{Output, Redirect, Sink};
use session::{Flow, Manners, Session, open_script};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run T-SQL: an interactive shell, a query or a script
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true, after_help = help::EXAMPLES)]
pub struct SqlArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,

    /// Database to begin in
    #[arg(
        short = 'd',
        long,
        value_name = "DATABASE",
        env = "SQLCMDDBNAME",
        hide_env_values = true
    )]
    pub database: Option<String>,

    /// Run this and leave
    #[arg(help_heading = "Input", short = 'Q', long, value_name = "TEXT", conflicts_with_all = ["initial_query", "input_file"])]
    pub query: Option<String>,

    /// Run this and stay
    #[arg(
        help_heading = "Input",
        short = 'q',
        long,
        value_name = "TEXT",
        conflicts_with = "input_file"
    )]
    pub initial_query: Option<String>,

    /// Run the script in this file; may be given again
    #[arg(help_heading = "Input", short = 'i', long, value_name = "FILE", num_args = 1.., value_delimiter = ',')]
    pub input_file: Vec<PathBuf>,

    /// Write results to this file
    #[arg(help_heading = "Output", short = 'o', long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,

    /// Layout of results
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        help_heading = "Output"
    )]
    pub format: Format,

    /// Column separator
    #[arg(
        short = 's',
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        help_heading = "Output"
    )]
    pub column_separator: Option<String>,

    /// Leave out padding and trailing blanks
    #[arg(short = 'W', long, help_heading = "Output")]
    pub trim: bool,

    /// Rows between headers; -1 for no header
    #[arg(
        short = 'h',
        long,
        value_name = "ROWS",
        default_value_t = 0,
        allow_negative_numbers = true,
        help_heading = "Output"
    )]
    pub headers: i64,

    /// Fold lines at this width
    #[arg(short = 'w', long, value_name = "CHARACTERS", help_heading = "Output")]
    pub screen_width: Option<usize>,

    /// Cut values of max types at this width, 0 for never (256 in tables)
    #[arg(short = 'y', long, value_name = "CHARACTERS", help_heading = "Output")]
    pub variable_width: Option<usize>,

    /// Cut other text at this width
    #[arg(short = 'Y', long, value_name = "CHARACTERS", help_heading = "Output")]
    pub fixed_width: Option<usize>,

    /// Replace control characters by blanks
    #[arg(short = 'k', long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "0", help_heading = "Output")]
    pub remove_control: Option<u8>,

    /// Send errors (0) or all messages (1) to standard error
    #[arg(short = 'r', long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "0", value_parser = clap::value_parser!(u8).range(0..=1), help_heading = "Output")]
    pub errors_to_stderr: Option<u8>,

    /// Show messages of this class and above; -1 with all heads
    #[arg(
        short = 'm',
        long,
        value_name = "CLASS",
        default_value_t = 0,
        allow_negative_numbers = true,
        help_heading = "Output"
    )]
    pub error_level: i16,

    /// Show the input
    #[arg(short = 'e', long, help_heading = "Output")]
    pub echo: bool,

    /// Show how long each batch takes
    #[arg(long, help_heading = "Output")]
    pub time: bool,

    /// Show packet size and throughput after each batch
    #[arg(short = 'p', long, value_name = "FORM", num_args = 0..=1, default_missing_value = "0", help_heading = "Output")]
    pub print_statistics: Option<u8>,

    /// Stop at the first error, with exit code 1
    #[arg(help_heading = "Options", short = 'b', long)]
    pub exit_on_error: bool,

    /// Stop at an error of this class or above, with the class as exit code
    #[arg(help_heading = "Options", short = 'V', long, value_name = "CLASS")]
    pub severity_level: Option<u8>,

    /// Seconds a query may take
    #[arg(
        help_heading = "Options",
        short = 't',
        long,
        value_name = "SECONDS",
        default_value_t = 0
    )]
    pub query_timeout: u64,

    /// Variables for $(NAME)
    #[arg(help_heading = "Input", short = 'v', long = "variable", value_name = "NAME=VALUE", num_args = 1.., value_parser = variables::parse_assignment)]
    pub variables: Vec<(String, String)>,

    /// Leave $(NAME) as it is
    #[arg(help_heading = "Input", short = 'x', long)]
    pub no_variables: bool,

    /// Word that ends a batch
    #[arg(
        help_heading = "Input",
        short = 'c',
        long,
        value_name = "WORD",
        default_value = "GO"
    )]
    pub batch_terminator: String,

    /// Let a semicolon at the end of a line run the batch
    #[arg(help_heading = "Input", long)]
    pub semicolon: bool,

    /// Packet size to ask for
    #[arg(
        short = 'a',
        long,
        value_name = "BYTES",
        default_value_t = 0,
        help_heading = "Connection"
    )]
    pub packet_size: u32,

    /// Name of this machine for the server
    #[arg(
        short = 'H',
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        help_heading = "Connection"
    )]
    pub workstation: String,

    /// ReadOnly or ReadWrite
    #[arg(
        short = 'K',
        long,
        value_name = "INTENT",
        default_value = "ReadWrite",
        hide_default_value = true,
        help_heading = "Connection"
    )]
    pub application_intent: String,

    /// Accepted for sqlcmd's sake: identifiers in quotes always work
    #[arg(short = 'I', long, hide = true)]
    pub quoted_identifiers: bool,

    /// Accepted for sqlcmd's sake: text is UTF-8
    #[arg(short = 'f', long, value_name = "CODEPAGE", hide = true)]
    pub codepage: Option<String>,

    /// Accepted for sqlcmd's sake: output is Unicode
    #[arg(short = 'u', long, hide = true)]
    pub unicode: bool,

    /// Accepted for sqlcmd's sake: there are no regional settings
    #[arg(short = 'R', long, hide = true)]
    pub regional: bool,

    /// Accepted for sqlcmd's sake: there are no commands of the system
    #[arg(short = 'X', long, num_args = 0..=1, default_missing_value = "0", hide = true)]
    pub no_system_commands: Option<u8>,

    /// Not available, and told so
    #[arg(short = 'E', long, hide = true)]
    pub trusted_connection: bool,

    /// Show this help
    #[arg(long, short = '?', action = ArgAction::HelpShort, help_heading = "Options")]
    pub help: Option<bool>,
}

/// The program under sqlcmd's name: the same flags without a command before them.
#[derive(Parser)]
#[command(name = "sqlcmd", disable_help_flag = true, max_term_width = 100)]
struct Sqlcmd {
    #[command(flatten)]
    args: SqlArgs,
}

impl SqlArgs {
    /// Runs one script as `sa`, and stops at the first error.
    pub fn for_script(server: &str, password: &str, script: &Path) -> SqlArgs {
        let flags = ["sqlcmd", "-C", "-b", "-S", server, "-U", "sa"].map(OsString::from);
        let mut args = Sqlcmd::parse_from(flags).args;
        args.connect.password = Some(password.to_string());
        args.input_file = vec![script.to_path_buf()];
        // What the caller's environment says is not meant for this server.
        args.database = None;
        args
    }
}

/// Runs the command; messages have been shown when it returns.
pub fn run(args: &SqlArgs) -> ExitCode {
    exit_code(exit_code_of(args, "daruma"))
}

/// Runs the command as sqlcmd, with the arguments of this process.
pub fn run_as_sqlcmd() -> ExitCode {
    let matches = Sqlcmd::command().get_matches();
    let mut args = match Sqlcmd::from_arg_matches(&matches) {
        Ok(sqlcmd) => sqlcmd.args,
        Err(error) => error.exit(),
    };
    if is_of_tools_17() && matches.value_source("encrypt") == Some(ValueSource::DefaultValue) {
        args.connect.encrypt = EncryptLevel::Optional;
    }
    exit_code(exit_code_of(&args, "Sqlcmd: Error"))
}

/// The definition of sqlcmd's flags.
pub fn as_sqlcmd() -> Command {
    Sqlcmd::command()
}

/// Does the program lie where Microsoft's tools before version 18 lie? They encrypt the login only, unless told otherwise, and nobody
/// tells them to trust a certificate.
fn is_of_tools_17() -> bool {
    let called = std::env::current_exe().ok();
    let folder = called.as_deref().and_then(Path::parent);
    folder.is_some_and(|folder| folder.ends_with("mssql-tools/bin"))
}

/// Runs the command and gives its exit code; what fails is told after `name`.
pub fn exit_code_of(args: &SqlArgs, name: &str) -> i32 {
    match start(args) {
        Ok(code) => code,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(failure) => {
            eprintln!("{name}: {failure}");
            1
        }
    }
}

/// The shell sees the lowest eight bits of a code, but never success for one that is not 0.
fn exit_code(code: i32) -> ExitCode {
    match (code, (code & 0xFF) as u8) {
        (0, _) => ExitCode::SUCCESS,
        (_, 0) => ExitCode::FAILURE,
        (_, low) => ExitCode::from(low),
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Connect(#[from] daruma_client::connect::ConnectError),
    #[error(transparent)]
    Client(#[from] daruma_client::client::ClientError),
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Output(#[from] io::Error),
    #[error(
        "Windows authentication (-E) is not available: log in with -U and -P, or SQLCMDUSER and SQLCMDPASSWORD"
    )]
    Trusted,
    #[error("the shell cannot use this terminal: {0}")]
    Terminal(#[from] rustyline::error::ReadlineError),
}

fn start(args: &SqlArgs) -> Result<i32, Failure> {
    if args.trusted_connection {
        return Err(Failure::Trusted);
    }
    let mut options = args.connect.options("daruma sql")?;
    options.database = args.database.clone().unwrap_or_default();
    options.query_timeout = seconds(args.query_timeout);
    options.packet_bytes = args.packet_size;
    options.workstation.clone_from(&args.workstation);
    options.read_only = args.application_intent.eq_ignore_ascii_case("ReadOnly");
    let client = Client::connect(&options)?;
    let interactive =
        args.query.is_none() && args.input_file.is_empty() && io::stdin().is_terminal();
    let mut session = Session::new(
        client,
        options,
        output(args)?,
        layout(args),
        manners(args, interactive),
    );
    session.semicolon = args.semicolon;
    for (name, value) in &args.variables {
        session.variables.set(name, value.as_str());
    }
    session.catch_interrupts()?;
    let flow = match (args.query.as_ref(), args.initial_query.as_ref()) {
        (Some(query), _) | (None, Some(query)) => session.script(query.as_bytes())?,
        (None, None) => files(args, &mut session)?,
    };
    match flow {
        Flow::Exit(code) => Ok(code),
        Flow::Continue if interactive => Ok(shell::run(session)?),
        Flow::Continue if args.query.is_some() || !args.input_file.is_empty() => Ok(0),
        Flow::Continue => match session.script(io::stdin().lock())? {
            Flow::Exit(code) => Ok(code),
            Flow::Continue => Ok(0),
        },
    }
}

fn files(args: &SqlArgs, session: &mut Session) -> Result<Flow, Failure> {
    for path in &args.input_file {
        let input = open_script(path).map_err(|source| Failure::Open {
            path: path.clone(),
            source,
        })?;
        let flow = session.script(input)?;
        if flow != Flow::Continue {
            return Ok(flow);
        }
    }
    Ok(Flow::Continue)
}

fn output(args: &SqlArgs) -> Result<Output, Failure> {
    let results = match &args.output_file {
        Some(path) => {
            let file = File::create(path).map_err(|source| Failure::Open {
                path: path.clone(),
                source,
            })?;
            Sink::File(io::BufWriter::new(file))
        }
        None => Sink::stdout(),
    };
    let redirect = match args.errors_to_stderr {
        None => Redirect::None,
        Some(0) => Redirect::Errors,
        Some(_) => Redirect::All,
    };
    Ok(Output {
        results,
        errors: None,
        redirect,
        colour: colour(args),
    })
}

fn layout(args: &SqlArgs) -> Layout {
    Layout {
        format: args.format,
        separator: args.column_separator.clone(),
        header_rows: args.headers,
        trim: args.trim,
        fold_width: args.screen_width,
        large_width: args.variable_width,
        text_width: args.fixed_width,
        no_control: args.remove_control.is_some(),
        colour: colour(args),
    }
}

fn manners(args: &SqlArgs, interactive: bool) -> Manners {
    Manners {
        exit_on_error: args.exit_on_error,
        exit_class: args.severity_level,
        class_shown_min: args.error_level,
        echo: args.echo,
        timing: args.time,
        statistics: args.print_statistics.is_some(),
        interactive,
        substitute: !args.no_variables,
        terminator: args.batch_terminator.clone(),
    }
}

/// For eyes only, and not for those who set NO_COLOR.
fn colour(args: &SqlArgs) -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    wanted && args.output_file.is_none() && !args.trim && io::stdout().is_terminal()
}
