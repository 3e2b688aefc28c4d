//! Nodes as they run: threads, files, certificates and loopback sockets; processes that are killed and paused.
//!
//! What is waited for may take as long as a slow machine takes; that it comes is what is tested.
#![cfg(not(feature = "planted-bugs"))]

use daruma_cluster::{
    Cluster, ClusterError, ClusterOptions, ClusterView, Command, GroupId, Newcomer, Outcome,
    Request, Response, SetupError, Timing, WitnessPlace, ask, create, join,
};
use daruma_group::transport::Identity;
use daruma_group::transport::{EndpointConfig, Fingerprint, dial_for};
use daruma_group::wire::{Codecs, Purpose};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::PrivateKeyDer;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const GROUP: GroupId = [5; 16];
const PATIENCE: Duration = Duration::from_secs(300);

/// Until this is so.
fn wait<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = is_so() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: not in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An address that is free now.
fn address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn newcomer(n: usize) -> Newcomer {
    Newcomer {
        name: format!("n{n}"),
        address: address(),
    }
}

fn options(folder: &Path) -> ClusterOptions {
    ClusterOptions {
        env: daruma_platform::env(),
        folder: folder.to_path_buf(),
        // A loaded machine is not to be taken for a lost node.
        timing: Timing {
            suspicion: Duration::from_secs(5),
            lease: Duration::from_secs(6),
            ..Timing::default()
        },
        listen: None,
        cloud: None,
        log: Arc::new(|text| eprintln!("{text}")),
    }
}

fn start(folder: &Path) -> Cluster {
    let started = Cluster::start(options(folder)).expect("it starts");
    started.expect("a member")
}

/// Folders of a cluster, whose nodes the test runs in one way or another.
struct Folders {
    root: TempDir,
}

impl Folders {
    fn new() -> Folders {
        Folders {
            root: tempfile::tempdir().expect("a folder"),
        }
    }

    fn of(&self, n: usize) -> PathBuf {
        self.root.path().join(format!("node{n}/cluster"))
    }

    fn share(&self) -> String {
        let share = self.root.path().join("share");
        std::fs::create_dir_all(&share).expect("a share");
        share.to_str().expect("a path").to_string()
    }
}

fn leads(view: &ClusterView) -> bool {
    view.leader.as_ref() == Some(&view.told_by)
}

fn done(cluster: &Cluster, command: Command) {
    wait("a wish that is carried out", || {
        match cluster.wish(command.clone()) {
            Outcome::Done => Some(()),
            Outcome::Unknown(_) => None,
            other => panic!("{command:?}: {other:?}"),
        }
    });
}

fn votes(view: &ClusterView) -> u8 {
    view.nodes.iter().map(|n| n.dynamic_weight).sum::<u8>() + view.witness_dynamic_weight
}

/// A cluster of threads in this process.
fn three() -> (Folders, Vec<Cluster>) {
    let folders = Folders::new();
    let env = daruma_platform::env();
    let token = create(&env, &folders.of(0), "c", &newcomer(0)).expect("a cluster");
    let mut nodes = vec![start(&folders.of(0))];
    for n in 1..3 {
        wait("a leader", || nodes[0].view().filter(leads));
        let number = join(&env, &folders.of(n), &token.encode(), &newcomer(n)).expect("let in");
        assert_eq!(usize::from(number), n);
        nodes.push(start(&folders.of(n)));
    }
    wait("three votes", || {
        nodes[0].view().filter(|v| leads(v) && votes(v) == 3)
    });
    (folders, nodes)
}

#[test]
fn three_join_and_two_go_on() {
    let (folders, mut nodes) = three();
    let name = |n: usize| format!("n{n}");
    let first = wait("everybody sees the leader", || {
        let leads = |n: &usize| {
            let mut views = nodes.iter().filter_map(Cluster::view);
            views.all(|v| v.leader == Some(name(*n)) && votes(&v) == 3)
        };
        (0..3).find(leads)
    });
    // The leader is gone, without a word.
    nodes.remove(first).stop();
    let next = wait("another leader", || {
        nodes.iter().find_map(|n| n.view().filter(leads))
    });
    assert_ne!(next.leader, Some(name(first)));
    done(&nodes[0], Command::Priority { node: Some(0) });
    nodes.insert(first, start(&folders.of(first)));
    wait("what was agreed on meanwhile", || {
        (nodes[first].state().lower_priority == Some(0)).then_some(())
    });
    wait("three votes again", || {
        nodes
            .iter()
            .find_map(|n| n.view().filter(|v| leads(v) && votes(v) == 3))
    });
}

/// What an administrator is told who has a node leave for good.
fn departs(folder: &Path) -> Result<(), String> {
    match ask(folder, &Request::Depart).expect("a node that runs") {
        Response::Departed => Ok(()),
        Response::Failed(why) => Err(why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_that_may_not_leave_hands_nothing_over() {
    let (folders, mut nodes) = three();
    done(&nodes[0], Command::DynamicQuorum { on: false });
    nodes.remove(2).stop();
    wait("one is missed", || {
        let mut views = nodes.iter().filter_map(Cluster::view);
        views.find(|v| leads(v) && v.nodes.iter().any(|n| n.name == "n2" && n.state == "Down"))
    });
    let handed_over = Arc::new(AtomicU32::new(0));
    let counted = handed_over.clone();
    nodes[0].hands_over_by(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    wait("a refusal", || {
        let why = departs(&folders.of(0)).expect_err("it may not leave");
        why.contains("no quorum").then_some(())
    });
    assert_eq!(handed_over.load(Ordering::Relaxed), 0);
    assert_eq!(nodes[0].failed(), None);
    // One at a time: what hands over may take long.
    nodes.push(start(&folders.of(2)));
    done(&nodes[0], Command::DynamicQuorum { on: true });
    wait("three votes again", || {
        let mut views = nodes.iter().filter_map(Cluster::view);
        views.find(|v| leads(v) && votes(v) == 3)
    });
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let (begun, may_go_on) = (Mutex::new(begun), Mutex::new(may_go_on));
    nodes[0].hands_over_by(move || {
        let _ = begun.lock().expect("unpoisoned").send(());
        let _ = may_go_on.lock().expect("unpoisoned").recv();
    });
    std::thread::scope(|scope| {
        // A leader that has heard nobody for a moment refuses.
        let first = scope.spawn(|| wait("it leaves", || departs(&folders.of(0)).ok()));
        has_begun.recv_timeout(PATIENCE).expect("it hands over");
        let second = departs(&folders.of(0));
        assert!(second.is_err_and(|why| why.contains("already")));
        drop(go_on);
        first.join().expect("no panic");
    });
    assert_eq!(handed_over.load(Ordering::Relaxed), 0);
}

#[test]
fn one_of_three_agrees_on_nothing() {
    let (_folders, nodes) = three();
    let (alone, others) = nodes.split_first().expect("three");
    std::thread::scope(|both| {
        for node in others {
            both.spawn(|| node.stop());
        }
    });
    wait("a leader that steps down", || {
        alone.view().filter(|v| v.leader.is_none() && !v.quorum)
    });
    let outcome = alone.wish(Command::Priority { node: Some(1) });
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert_eq!(alone.state().lower_priority, None);
}

#[test]
fn who_has_no_word_stays_outside() {
    let folders = Folders::new();
    let env = daruma_platform::env();
    let first = newcomer(0);
    let token = create(&env, &folders.of(0), "c", &first).expect("a cluster");
    let node = start(&folders.of(0));
    wait("a leader", || node.view().filter(leads));
    assert!(matches!(
        create(&env, &folders.of(0), "d", &newcomer(9)),
        Err(SetupError::Member)
    ));

    // A certificate that nobody knows.
    let made = rcgen::generate_simple_self_signed(vec!["x".into()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = EndpointConfig {
        group: node.state().id,
        me: daruma_group::commit::ReplicaId::new(0).expect("a place"),
        name: "x".into(),
        identity: Identity::new(made.cert.der().clone(), key),
        members: Vec::new(),
        codecs: Codecs::OURS,
        window_bytes: 1,
        session_timeout: Duration::from_secs(5),
        handshake_timeout: Duration::from_secs(20),
    };
    let mine = Fingerprint(node.state().nodes[0].fingerprint);
    let to = daruma_group::commit::ReplicaId::new(1).expect("a place");
    let at = first.address.parse().expect("an address");
    let link = dial_for(at, to, &[mine], &config, Purpose::Member);
    assert!(link.is_err(), "a stranger was let in");

    // A token that another has replaced, and one that asks for a name that is taken.
    let newer = node.make_token().expect("a token");
    let late = join(&env, &folders.of(1), &token.encode(), &newcomer(1));
    assert!(
        matches!(late, Err(SetupError::Unreachable { .. })),
        "{late:?}"
    );
    let taken = Newcomer {
        name: "N0".into(),
        address: address(),
    };
    let refused = join(&env, &folders.of(1), &newer.encode(), &taken);
    assert!(
        matches!(refused, Err(SetupError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(node.state().nodes.len(), 1);

    // One that was cut short after the cluster had agreed is the same node when it asks again.
    let second = newcomer(1);
    let number = join(&env, &folders.of(1), &newer.encode(), &second).expect("let in");
    let (register, identity) = (
        folders.of(1).join("register"),
        folders.of(1).join("identity"),
    );
    std::fs::remove_file(&register).expect("a register");
    std::fs::rename(&identity, folders.of(1).join("identity.joining")).expect("an identity");
    let again = join(&env, &folders.of(1), &newer.encode(), &second).expect("let in again");
    assert_eq!(number, again);
    assert_eq!(node.state().nodes.len(), 2);

    // One that was a node, and has lost what it promised, is none again: neither by joining nor by a start.
    std::fs::remove_file(&register).expect("a register");
    let lost = join(&env, &folders.of(1), &newer.encode(), &second);
    assert!(matches!(lost, Err(SetupError::Lost)), "{lost:?}");
    let anew = create(&env, &folders.of(1), "d", &second);
    assert!(matches!(anew, Err(SetupError::Lost)));
    let started = Cluster::start(options(&folders.of(1)));
    assert!(matches!(started, Err(ClusterError::Lost(_))));
}

#[test]
fn a_node_whose_file_cannot_be_written_ends() {
    let folders = Folders::new();
    let env = daruma_platform::env();
    create(&env, &folders.of(0), "c", &newcomer(0)).expect("a cluster");
    let node = start(&folders.of(0));
    wait("a leader", || node.view().filter(leads));
    done(
        &node,
        Command::CreateGroup {
            group: GROUP,
            name: "g".into(),
            automatic: vec![0],
        },
    );
    wait("a lease", || node.owned(&GROUP));
    std::fs::remove_dir_all(folders.of(0)).expect("a folder");
    let outcome = node.wish(Command::Priority { node: Some(0) });
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert!(node.failed().is_some());
    assert_eq!(node.owned(&GROUP), None, "it acts no more");
    assert_eq!(node.view(), None);
}

// --- processes

/// A node as a process of its own: this test's program, told where the files are.
struct Process(Child);

impl Process {
    fn start(folder: &Path) -> Process {
        let program = std::env::current_exe().expect("this program");
        let child = std::process::Command::new(program)
            .args(["--exact", "node_process", "--ignored", "--nocapture"])
            .env("DARUMA_CLUSTER_FOLDER", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        Process(child)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).expect("a signal");
    }

    fn kill(mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("gone");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a node until standard input ends, which it does with the test.
#[test]
#[ignore = "the process that other tests start"]
fn node_process() {
    let Some(folder) = std::env::var_os("DARUMA_CLUSTER_FOLDER") else {
        return;
    };
    let node = start(Path::new(&folder));
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    node.stop();
}

fn shown(folder: &Path) -> Option<ClusterView> {
    match ask(folder, &Request::Show) {
        Ok(Response::Shown(view)) => Some(view),
        _ => None,
    }
}

fn wished(folder: &Path, command: &Command) {
    wait("a wish that is carried out", || {
        match ask(folder, &Request::Wish(command.clone())) {
            Ok(Response::Outcome(Outcome::Done)) => Some(()),
            Ok(Response::Outcome(Outcome::Refused(why))) => panic!("{command:?}: {why}"),
            _ => None,
        }
    });
}

/// The epoch in which the node acts for the group.
fn acts(folder: &Path) -> Option<u64> {
    match ask(folder, &Request::Acts(GROUP)) {
        Ok(Response::Acts(epoch)) => epoch,
        _ => None,
    }
}

/// Two processes and a share, with a group that the first owns and both have.
fn two_and_a_share() -> (Folders, Vec<Option<Process>>) {
    let folders = Folders::new();
    let env = daruma_platform::env();
    let token = create(&env, &folders.of(0), "c", &newcomer(0)).expect("a cluster");
    let mut nodes = vec![Some(Process::start(&folders.of(0)))];
    wait("a leader", || shown(&folders.of(0)).filter(leads));
    join(&env, &folders.of(1), &token.encode(), &newcomer(1)).expect("let in");
    nodes.push(Some(Process::start(&folders.of(1))));
    let place = Some(WitnessPlace {
        path: folders.share(),
        id: 99,
    });
    wished(&folders.of(0), &Command::SetWitness { place });
    wished(
        &folders.of(0),
        &Command::CreateGroup {
            group: GROUP,
            name: "g".into(),
            automatic: vec![0, 1],
        },
    );
    wait("three votes", || {
        shown(&folders.of(1)).filter(|v| v.leader.is_some() && votes(v) == 3)
    });
    let epoch = wait("an owner", || acts(&folders.of(0)));
    in_sync(&folders, 0, epoch);
    (folders, nodes)
}

fn in_sync(folders: &Folders, owner: usize, epoch: u64) {
    wished(
        &folders.of(owner),
        &Command::SetGroup {
            group: GROUP,
            epoch,
            said: 1,
            in_sync: vec![0, 1],
            automatic: vec![0, 1],
        },
    );
}

#[test]
fn the_other_takes_over_from_one_that_was_killed() {
    let (folders, mut nodes) = two_and_a_share();
    let mut owner = 0;
    let mut last = wait("an owner", || acts(&folders.of(0)));
    for _ in 0..4 {
        nodes[owner].take().expect("it runs").kill();
        let other = 1 - owner;
        let epoch = wait("the other acts", || acts(&folders.of(other)));
        assert!(epoch > last, "{epoch} after {last}");
        nodes[owner] = Some(Process::start(&folders.of(owner)));
        wait("three votes again", || {
            shown(&folders.of(owner)).filter(|v| v.leader.is_some() && votes(v) == 3)
        });
        assert_eq!(acts(&folders.of(owner)), None, "the old owner acts again");
        assert_eq!(acts(&folders.of(other)), Some(epoch));
        in_sync(&folders, other, epoch);
        (owner, last) = (other, epoch);
    }
}

#[test]
fn one_that_slept_does_not_act_when_it_wakes() {
    let (folders, nodes) = two_and_a_share();
    let first = wait("an owner", || acts(&folders.of(0)));
    let sleeper = nodes[0].as_ref().expect("it runs");
    sleeper.signal(Signal::STOP);
    let second = wait("the other acts", || acts(&folders.of(1)));
    assert!(second > first);
    sleeper.signal(Signal::CONT);
    for _ in 0..50 {
        let (zero, one) = (acts(&folders.of(0)), acts(&folders.of(1)));
        assert_eq!(zero, None, "the sleeper acts, and {one:?}");
    }
    wait("three votes again", || {
        shown(&folders.of(0)).filter(|v| v.leader.is_some() && votes(v) == 3)
    });
    assert_eq!(acts(&folders.of(0)), None);
    assert_eq!(acts(&folders.of(1)), Some(second));
}

#[test]
fn a_quorum_is_forced_by_hand_only() {
    let (folders, mut nodes) = two_and_a_share();
    let share = folders.root.path().join("share");
    nodes[0].take().expect("it runs").kill();
    let epoch = wait("the other acts", || acts(&folders.of(1)));
    // The share as well: one of two, with the witness' vote standing.
    std::fs::rename(&share, folders.root.path().join("gone")).expect("a share");
    wait("no quorum", || {
        shown(&folders.of(1)).filter(|v| v.leader.is_none() && !v.quorum)
    });
    wait("nobody acts", || {
        acts(&folders.of(1)).is_none().then_some(())
    });
    assert_eq!(
        ask(&folders.of(1), &Request::Force).ok(),
        Some(Response::Forced)
    );
    let view = wait("it leads", || shown(&folders.of(1)).filter(leads));
    let group = &view.groups[0];
    assert_eq!((group.owner.as_deref(), group.in_sync.len()), (None, 0));
    assert!(group.epoch >= epoch + (1 << 16));
    assert_eq!(acts(&folders.of(1)), None, "nobody has said so");
    let take = Command::Take {
        group: GROUP,
        epoch: group.epoch,
    };
    wished(&folders.of(1), &take);
    let forced = wait("it acts again", || acts(&folders.of(1)));
    assert_eq!(forced, group.epoch + 1);
    // The other follows what was forced, though it was owner once.
    nodes[0] = Some(Process::start(&folders.of(0)));
    wait("it follows", || {
        shown(&folders.of(0)).filter(|v| v.leader.as_deref() == Some("n1"))
    });
    assert_eq!(acts(&folders.of(0)), None);
}

#[test]
fn who_leaves_in_order_gives_its_vote_away() {
    let (folders, mut nodes) = two_and_a_share();
    wait("its vote is given away", || {
        match ask(&folders.of(0), &Request::Leave) {
            Ok(Response::Left(true)) => Some(()),
            _ => None,
        }
    });
    nodes[0].take().expect("it runs").kill();
    let view = wait("one vote", || {
        shown(&folders.of(1)).filter(|v| leads(v) && votes(v) == 1)
    });
    assert_eq!(view.nodes[0].dynamic_weight, 0);
    std::fs::rename(
        folders.root.path().join("share"),
        folders.root.path().join("gone"),
    )
    .expect("a share");
    wished(&folders.of(1), &Command::Priority { node: Some(0) });
    wait("it acts", || acts(&folders.of(1)));
}
