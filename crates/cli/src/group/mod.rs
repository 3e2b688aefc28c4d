//! `daruma group`: an availability group in three commands, over ordinary statements.
//!
//! Theory: everything is done with the statements that a script would have: a master key and a certificate for each server, an
//! endpoint, a login for the other's certificate, the group. What is there already is kept, so a command that was cut short
//! is run again. A join token says where the primary is, which certificate it has and what the group is called; it holds no
//! secret, so who joins needs a login of the primary as well.
//!
//! Map: `token`, `text` (names and strings in statements), `make` (create and join), `peers` (other replicas, which get to know who joins),
//! `status`.

mod make;
mod peers;
mod status;
mod text;
mod token;

use clap::{Args, Subcommand};
use daruma_client::client::{Client, ClientError};
use daruma_client::connect::{ConnectArgs, ConnectError};
use daruma_value::Value;
use serde_json::json;
use std::process::ExitCode;

/// Set up and run availability groups
#[derive(Args, Debug)]
pub struct GroupArgs {
    #[command(subcommand)]
    command: GroupCommand,
}

#[derive(Subcommand, Debug)]
enum GroupCommand {
    /// Make a group with this server as its primary, and print the token by which others join
    #[command(after_help = EXAMPLES)]
    Create(CreateArgs),
    /// Make this server a secondary of the group that a token tells of
    Join(JoinArgs),
    /// Show groups, their replicas and how far their databases are
    Status(StatusArgs),
    /// Make this server the primary of a group
    Failover(FailoverArgs),
}

const EXAMPLES: &str = "\
Examples:
  daruma group create shop --database Shop -S alpha -C --endpoint tcp://alpha:5022
      on the first server; prints a token
  daruma group join TOKEN -S beta -C --endpoint tcp://beta:5022
      on each of the others
  daruma group status -S alpha -C";

/// Options of `daruma group create`.
#[derive(Args, Debug)]
pub struct CreateArgs {
    #[command(flatten)]
    connect: ConnectArgs,

    /// Name of the group
    #[arg(value_name = "NAME")]
    group: String,

    /// Database of the group; may be given several times
    #[arg(help_heading = "Options", long, value_name = "NAME")]
    database: Vec<String>,

    #[command(flatten)]
    replica: ReplicaArgs,

    /// Where others reach this server with -S [default: what -S says here]
    #[arg(help_heading = "Options", long, value_name = "HOST,PORT")]
    address: Option<String>,

    /// Print JSON
    #[arg(help_heading = "Options", long)]
    json: bool,
}

/// What both servers say of themselves.
#[derive(Args, Debug)]
struct ReplicaArgs {
    /// Where the other replicas reach this one: tcp://HOST:PORT
    #[arg(help_heading = "Options", long, value_name = "URL")]
    endpoint: String,

    /// Commits do not wait for the replica
    #[arg(help_heading = "Options", long)]
    asynchronous: bool,

    /// Let sessions read while the replica is a secondary
    #[arg(help_heading = "Options", long)]
    readable: bool,
}

/// Options of `daruma group join`.
#[derive(Args, Debug)]
pub struct JoinArgs {
    #[command(flatten)]
    connect: ConnectArgs,

    /// What `daruma group create` printed
    #[arg(value_name = "TOKEN")]
    token: String,

    #[command(flatten)]
    replica: ReplicaArgs,

    /// A replica beside the primary, as -S reaches it, which gets to know this server so that it may lead the group; may be given
    /// several times [default: each at the host of its endpoint]
    #[arg(help_heading = "Options", long, value_name = "HOST,PORT")]
    peer: Vec<String>,

    /// Login on the primary and the other replicas [default: -U]
    #[arg(help_heading = "Options", long, value_name = "LOGIN")]
    primary_user: Option<String>,

    /// Print JSON
    #[arg(help_heading = "Options", long)]
    json: bool,
}

/// Options of `daruma group status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    connect: ConnectArgs,

    /// Only this group
    #[arg(value_name = "NAME")]
    group: Option<String>,

    /// Print JSON
    #[arg(help_heading = "Options", long)]
    json: bool,
}

/// Options of `daruma group failover`.
#[derive(Args, Debug)]
pub struct FailoverArgs {
    #[command(flatten)]
    connect: ConnectArgs,

    /// Name of the group
    #[arg(value_name = "NAME")]
    group: String,

    /// Also when commits that were acknowledged may be lost
    #[arg(help_heading = "Options", long)]
    force: bool,

    /// Print JSON
    #[arg(help_heading = "Options", long)]
    json: bool,
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{step}: {error}")]
    Step { step: String, error: ClientError },
    #[error("the token is not one of `daruma group create`")]
    Token,
    #[error("'{0}' is no tcp://HOST:PORT")]
    Url(String),
    #[error("the server at {address} has another certificate than the token tells of")]
    Certificate { address: String },
    #[error("the server at {address} has another certificate than the primary knows")]
    PeerCertificate { address: String },
    #[error("{name}, the server at {address}, is no replica of the group beside the primary")]
    Stranger { address: String, name: String },
    #[error(
        "{name} is a replica and has to know this server, but is not reached at {address} (--peer HOST,PORT says where it is): {why}"
    )]
    Absent {
        name: String,
        address: String,
        why: String,
    },
    #[error("{0} did not say what it was asked")]
    Answer(&'static str),
}

/// A connection, and what was done over it.
pub(crate) struct Server {
    client: Client,
    steps: Vec<String>,
}

impl Server {
    fn new(client: Client) -> Server {
        Server {
            client,
            steps: Vec::new(),
        }
    }

    /// Runs a statement; `step` says in a few words what for.
    fn run(&mut self, step: &str, text: &str) -> Result<(), GroupError> {
        self.ask(step, text)?;
        self.steps.push(step.to_string());
        Ok(())
    }

    fn ask(&mut self, step: &str, text: &str) -> Result<Vec<Vec<Value>>, GroupError> {
        let failed = |error| GroupError::Step {
            step: step.to_string(),
            error,
        };
        self.client.query(text).map_err(failed)
    }

    /// The first value of the answer as text.
    fn one(&mut self, what: &'static str, text: &str) -> Result<String, GroupError> {
        let rows = self.ask(what, text)?;
        match rows.first().and_then(|row| row.first()) {
            Some(value) if !value.is_null() => Ok(daruma_client::value::text(value)),
            _ => Err(GroupError::Answer(what)),
        }
    }
}

/// `daruma group`.
pub fn run(args: &GroupArgs) -> ExitCode {
    let done = match &args.command {
        GroupCommand::Create(args) => create(args),
        GroupCommand::Join(args) => join(args),
        GroupCommand::Status(args) => status::run(args),
        GroupCommand::Failover(args) => failover(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("daruma group: {error}");
            ExitCode::FAILURE
        }
    }
}

fn create(args: &CreateArgs) -> Result<(), GroupError> {
    let mut server = Server::new(args.connect.connect("daruma group")?);
    let default = args.connect.server.as_deref().unwrap_or("localhost");
    let address = args.address.as_deref().unwrap_or(default);
    let token = make::create(&mut server, args, address)?;
    let (text, steps) = (token.encode(), &server.steps);
    match args.json {
        true => println!(
            "{}",
            json!({ "group": token.group, "server": token.server, "token": text, "steps": steps })
        ),
        false => {
            steps.iter().for_each(|step| eprintln!("{step}"));
            println!("{text}");
        }
    }
    Ok(())
}

fn join(args: &JoinArgs) -> Result<(), GroupError> {
    let token = token::Token::decode(&args.token).ok_or(GroupError::Token)?;
    let mut own = Server::new(args.connect.connect("daruma group")?);
    // Arguments show in the list of processes; the primary's password comes by the environment alone.
    let password = std::env::var("DARUMA_PRIMARY_PASSWORD").ok();
    let to_primary = ConnectArgs {
        server: Some(token.address.clone()),
        user: args
            .primary_user
            .clone()
            .unwrap_or(args.connect.user.clone()),
        password: password.or(args.connect.password.clone()),
        ..args.connect.clone()
    };
    let mut primary = Server::new(to_primary.connect("daruma group")?);
    let own_name = own.one("the server's name", "SELECT @@SERVERNAME")?;
    let mut peers = peers::connect(&mut primary, &own_name, &token.group, &to_primary, args)?;
    make::join(&mut own, &own_name, &mut primary, &mut peers, &token, args)?;
    let of_peers = || peers.iter().flat_map(|peer| &peer.server.steps);
    match args.json {
        true => println!(
            "{}",
            json!({ "group": token.group, "steps": own.steps, "primary_steps": primary.steps, "peer_steps": of_peers().collect::<Vec<_>>() })
        ),
        false => own
            .steps
            .iter()
            .chain(&primary.steps)
            .chain(of_peers())
            .for_each(|step| eprintln!("{step}")),
    }
    Ok(())
}

fn failover(args: &FailoverArgs) -> Result<(), GroupError> {
    let mut server = Server::new(args.connect.connect("daruma group")?);
    let how = match args.force {
        true => "FORCE_FAILOVER_ALLOW_DATA_LOSS",
        false => "FAILOVER",
    };
    let group = text::name(&args.group);
    server.run(
        "the server is the primary",
        &format!("ALTER AVAILABILITY GROUP {group} {how}"),
    )?;
    match args.json {
        true => println!("{}", json!({ "group": args.group, "forced": args.force })),
        false => println!("{} is led from here", args.group),
    }
    Ok(())
}
