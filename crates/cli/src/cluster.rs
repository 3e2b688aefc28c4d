//! `daruma cluster`: a server as a node of a cluster.
//!
//! Theory: a server becomes a node by files in its data folder, while it does not run; from its next start on it is one. Everything
//! else is said to a node that runs, over a socket in that folder: who may read the folder may say it. Any node passes it on to the leader.

use clap::{Args, Subcommand, ValueEnum};
use daruma_cli::aligned::print_aligned;
use daruma_cluster::{
    ClusterView, Command, ControlError, LossView, Newcomer, Outcome, Request, Response, SetupError,
    WitnessKind, WitnessPlace, ask, create, folder_in, is_cloud, join,
};
use daruma_server::program::host_name;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make this server a node of a cluster, and run the cluster
#[derive(Args, Debug)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,

    /// Folder of the server on this machine
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "MSSQL_DATA_DIR",
        default_value = "./daruma-data"
    )]
    data: PathBuf,
}

#[derive(Subcommand, Debug)]
enum ClusterCommand {
    /// Make a cluster with this server, which does not run now, as its first node; print the token by which others join
    #[command(after_help = EXAMPLES)]
    Create {
        /// Name of the cluster
        name: String,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Make this server, which does not run now, a node of the cluster that a token tells of
    Join {
        /// What `daruma cluster create` or `token` printed
        token: String,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Print a new join token; earlier ones are void
    Token,
    /// Show nodes, votes, and which losses the cluster survives
    #[command(visible_alias = "status")]
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give the cluster a witness in a folder, on a disk or in a cloud's storage that all nodes reach by this path or URL, or none
    SetWitness {
        /// The folder, the disk, `s3://HOST/BUCKET/..` or `https://ACCOUNT.blob.core.windows.net/CONTAINER/..` (CREATE CREDENTIAL on
        /// each node says with what), or `none`
        #[arg(value_name = "PATH")]
        path: String,
        /// It is a block device, or a file in its place: its first 9 MiB are the witness' from now on
        #[arg(long)]
        disk: bool,
    },
    /// Let a node vote (1), or never (0)
    NodeWeight {
        node: String,
        #[arg(value_parser = clap::value_parser!(u8).range(0..=1))]
        weight: u8,
    },
    /// Name the node that loses its vote first where votes would be even, or `none`
    Priority { node: String },
    /// Let votes follow the nodes that are there, or not
    DynamicQuorum { state: OnOff },
    /// Count votes exactly as Windows does: a node that stops in order keeps its vote beside a witness
    WindowsRules { state: OnOff },
    /// Take a node out of the cluster
    Evict { node: String },
    /// Take this server, which runs, out of the cluster for good: its groups go to others, its vote goes, and it is no node any more
    Leave,
    /// Make a quorum of this node alone, when the others are gone for good: what only they know is lost
    ForceQuorum {
        /// The others do not run, and will not before they can reach this node
        #[arg(long)]
        the_others_are_gone: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  daruma cluster create main --data /var/daruma --address alpha:5023
      on the first server; prints a token. Then: daruma serve --data /var/daruma
  daruma cluster join TOKEN --data /var/daruma --address beta:5023
      on each of the others, before they are started
  daruma cluster set-witness /mnt/share --data /var/daruma
  daruma cluster set-witness --disk /dev/disk/by-id/shared --data /var/daruma
  daruma cluster set-witness https://account.blob.core.windows.net/witnesses/main --data /var/daruma
  daruma cluster show --data /var/daruma";

/// What a node says of itself.
#[derive(Args, Debug)]
struct NodeArgs {
    /// Where the other nodes reach this one, and where it listens
    #[arg(long, value_name = "HOST:PORT")]
    address: String,

    /// What the node is called in the cluster [default: the host's name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
enum ClusterFailure {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("refused: {0}")]
    Refused(String),
    #[error("not known whether it was done: {0}")]
    Unknown(String),
    #[error("{0} is no node of the cluster")]
    NoNode(String),
    #[error("{0} is neither an absolute path nor a URL: every node must reach the witness by it")]
    Path(String),
    #[error(
        "this takes the word of the others away for good; say --the-others-are-gone if they are"
    )]
    NotSure,
    #[error("the node said something else than it was asked")]
    Answer,
}

/// `daruma cluster`.
pub fn run(args: &ClusterArgs) -> ExitCode {
    match carry_out(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("daruma cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(args: &ClusterArgs) -> Result<(), ClusterFailure> {
    let node = Node {
        folder: folder_in(&args.data),
    };
    match &args.command {
        ClusterCommand::Create { name, node: own } => {
            let env = daruma_server::program::environment();
            let token = create(&env, &node.folder, name, &own.newcomer())?;
            eprintln!("the server is a node of {name} from its next start on");
            println!("{}", token.encode());
            Ok(())
        }
        ClusterCommand::Join { token, node: own } => {
            let env = daruma_server::program::environment();
            let number = join(&env, &node.folder, token, &own.newcomer())?;
            println!("the server is node {number} of the cluster from its next start on");
            Ok(())
        }
        ClusterCommand::Token => match node.ask(&Request::Token)? {
            Response::Token(token) => {
                println!("{token}");
                Ok(())
            }
            _ => Err(ClusterFailure::Answer),
        },
        ClusterCommand::Show { json } => node.show(*json),
        ClusterCommand::SetWitness { path, disk } => node.set_witness(path, *disk),
        ClusterCommand::NodeWeight { node: name, weight } => {
            let number = node.number(name)?;
            node.wish(Command::NodeWeight {
                node: number,
                weight: *weight == 1,
            })
        }
        ClusterCommand::Priority { node: name } => {
            let number = match name.eq_ignore_ascii_case("none") {
                true => None,
                false => Some(node.number(name)?),
            };
            node.wish(Command::Priority { node: number })
        }
        ClusterCommand::DynamicQuorum { state } => node.wish(Command::DynamicQuorum {
            on: *state == OnOff::On,
        }),
        ClusterCommand::WindowsRules { state } => node.wish(Command::WindowsRules {
            on: *state == OnOff::On,
        }),
        ClusterCommand::Evict { node: name } => {
            let number = node.number(name)?;
            node.wish(Command::Evict { node: number })
        }
        ClusterCommand::Leave => match node.ask(&Request::Depart)? {
            Response::Departed => {
                println!("the server has left the cluster and is no node any more");
                Ok(())
            }
            _ => Err(ClusterFailure::Answer),
        },
        ClusterCommand::ForceQuorum {
            the_others_are_gone: false,
        } => Err(ClusterFailure::NotSure),
        ClusterCommand::ForceQuorum { .. } => match node.ask(&Request::Force)? {
            Response::Forced => {
                println!("this node alone is the quorum now; the others follow it when they come");
                Ok(())
            }
            _ => Err(ClusterFailure::Answer),
        },
    }
}

impl NodeArgs {
    fn newcomer(&self) -> Newcomer {
        Newcomer {
            name: self.node.clone().unwrap_or_else(host_name),
            address: self.address.clone(),
        }
    }
}

/// A node that runs on this machine.
struct Node {
    folder: PathBuf,
}

impl Node {
    fn ask(&self, request: &Request) -> Result<Response, ClusterFailure> {
        match ask(&self.folder, request)? {
            Response::Failed(why) => Err(ClusterFailure::Refused(why)),
            response => Ok(response),
        }
    }

    fn wish(&self, command: Command) -> Result<(), ClusterFailure> {
        match self.ask(&Request::Wish(command))? {
            Response::Outcome(Outcome::Done) => Ok(()),
            Response::Outcome(Outcome::Refused(why)) => Err(ClusterFailure::Refused(why)),
            Response::Outcome(Outcome::Unknown(why)) => Err(ClusterFailure::Unknown(why)),
            _ => Err(ClusterFailure::Answer),
        }
    }

    fn view(&self) -> Result<ClusterView, ClusterFailure> {
        match self.ask(&Request::Show)? {
            Response::Shown(view) => Ok(view),
            _ => Err(ClusterFailure::Answer),
        }
    }

    fn number(&self, name: &str) -> Result<u8, ClusterFailure> {
        let view = self.view()?;
        let named = view
            .nodes
            .iter()
            .find(|n| n.name.eq_ignore_ascii_case(name));
        named
            .map(|n| n.number)
            .ok_or_else(|| ClusterFailure::NoNode(name.to_string()))
    }

    fn set_witness(&self, path: &str, disk: bool) -> Result<(), ClusterFailure> {
        let place = match path {
            "none" if !disk => None,
            path if !path.starts_with('/') && (disk || !is_cloud(path)) => {
                return Err(ClusterFailure::Path(path.to_string()));
            }
            path => {
                let mut id = [0; 16];
                daruma_server::program::environment().random.fill(&mut id);
                let id = u128::from_le_bytes(id);
                Some(match disk {
                    true => WitnessPlace::on_disk(path, id),
                    false => WitnessPlace {
                        path: path.to_string(),
                        id,
                    },
                })
            }
        };
        self.wish(Command::SetWitness { place })
    }

    fn show(&self, as_json: bool) -> Result<(), ClusterFailure> {
        let view = self.view()?;
        match as_json {
            true => println!("{}", json!(view)),
            false => print(&view),
        }
        Ok(())
    }
}

fn print(view: &ClusterView) {
    let on = |on: bool| if on { "1" } else { "0" };
    println!("Name            {}", view.name);
    println!(
        "Leader          {}",
        view.leader.as_deref().unwrap_or("none known")
    );
    println!("Quorum          {}", if view.quorum { "yes" } else { "no" });
    println!("DynamicQuorum   {}", on(view.dynamic_quorum));
    if view.windows_rules {
        println!("WindowsRules    1");
    }
    if let Some(node) = &view.lower_priority {
        println!("LowerPriority   {node}");
    }
    if let Some(witness) = &view.witness {
        let kind = match witness.kind {
            WitnessKind::Share => "",
            WitnessKind::Disk => "disk ",
            WitnessKind::Cloud => "cloud ",
        };
        println!("Witness         {kind}{} ({})", witness.path, witness.state);
    }
    println!("WitnessDynamicWeight {}\n", view.witness_dynamic_weight);
    let head = [
        "NodeName",
        "DynamicWeight",
        "NodeWeight",
        "State",
        "Address",
    ]
    .map(String::from);
    let rows = view.nodes.iter().map(|n| {
        [
            n.name.clone(),
            n.dynamic_weight.to_string(),
            n.node_weight.to_string(),
            n.state.clone(),
            n.address.clone(),
        ]
    });
    let lines: Vec<_> = std::iter::once(head).chain(rows).collect();
    print_aligned(&lines);
    for group in &view.groups {
        let owner = group.owner.as_deref().unwrap_or("nobody");
        println!(
            "group {} is led by {owner} in epoch {}",
            group.name, group.epoch
        );
    }
    losses(&view.losses, view.survives_any);
}

fn losses(losses: &[LossView], survives_any: u32) {
    if losses.is_empty() {
        println!("Which losses are survived only a leader can tell.");
        return;
    }
    println!("Survives any {survives_any} losses. Not survived:");
    let fatal = losses.iter().filter(|l| !l.survived);
    let fatal: Vec<&str> = fatal.map(|l| l.loss.as_str()).collect();
    match fatal.is_empty() {
        true => println!("  none of one or two"),
        false => fatal.iter().for_each(|loss| println!("  {loss}")),
    }
}
