//! The witness in a real folder, on a disk, and in a cloud's storage: who is paused cannot replace what came in between, and a copy that was put back is refused.

mod clouds;
mod disks;

use daruma_cluster::witness::{FileShare, WitnessAsk, WitnessFault, WitnessOp, WitnessStore};
use daruma_cluster::{ClusterState, NodeState, WitnessPlace};
use daruma_quorum::{
    Ballot, Configuration, MemberId, Members, Message, Register, Version, WITNESS,
};
use std::path::Path;

fn node(n: u8) -> MemberId {
    MemberId::node(n).unwrap()
}

fn register() -> Register {
    let own = NodeState {
        number: 0,
        name: "n".into(),
        address: "h:1".into(),
        fingerprint: [0; 32],
        weight: true,
        left: false,
        gone: false,
    };
    let body = ClusterState::first("c".into(), 9, own).encode();
    let votes = Members::nodes(2).with(WITNESS);
    Register::new(Configuration::first(votes, body))
}

fn ask(path: &Path, me: u8, op: WitnessOp, seen: u64) -> WitnessAsk {
    WitnessAsk {
        id: 1,
        cluster: 9,
        place: WitnessPlace {
            path: path.display().to_string(),
            id: 5,
        },
        me: node(me),
        op,
        seen,
        held: (register().held.version, true),
        alive: false,
        office: None,
    }
}

fn ballot(term: u64) -> Ballot {
    Ballot {
        generation: 0,
        term,
    }
}

fn vote(term: u64) -> WitnessOp {
    WitnessOp::Exchange(Message::RequestVote {
        ballot: ballot(term),
        version: register().held.version,
    })
}

fn is_granted(answer: &Option<Message>) -> bool {
    matches!(answer, Some(Message::Vote { granted: true, .. }))
}

fn made() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let create = ask(folder.path(), 0, WitnessOp::Create(register()), 0);
    let view = FileShare::default().exchange(&create).unwrap();
    assert_eq!(view.n, 1);
    folder
}

#[test]
fn a_vote_is_given_once() {
    let folder = made();
    let mut share = FileShare::default();
    let first = share.exchange(&ask(folder.path(), 0, vote(2), 1)).unwrap();
    assert!(is_granted(&first.answer) && first.n == 2);
    let again = share.exchange(&ask(folder.path(), 0, vote(2), 2)).unwrap();
    assert!(is_granted(&again.answer) && again.n == 2, "nothing changed");
    let other = share.exchange(&ask(folder.path(), 1, vote(2), 1)).unwrap();
    assert!(!is_granted(&other.answer));
    let look = share
        .exchange(&ask(folder.path(), 1, WitnessOp::Look, 2))
        .unwrap();
    assert_eq!((look.ballot, look.n, look.answer), (ballot(2), 2, None));
}

#[test]
fn what_is_newer_is_told() {
    let folder = made();
    let mut share = FileShare::default();
    let mut newer = register().held;
    newer.version = Version {
        ballot: ballot(2),
        index: 3,
    };
    let put = WitnessOp::Exchange(Message::Put {
        configuration: newer.clone(),
        settled: true,
    });
    let stored = share.exchange(&ask(folder.path(), 0, put, 1)).unwrap();
    let version = newer.version;
    assert_eq!(stored.answer, Some(Message::Stored { version }));
    let look = share
        .exchange(&ask(folder.path(), 1, WitnessOp::Look, 1))
        .unwrap();
    assert_eq!(look.newer, Some((newer, true)));
}

/// Between reading and writing another node gets the vote: the one that slept must not.
#[cfg_attr(not(feature = "planted-bugs"), allow(unused_variables))]
fn both_got_the_vote(blind: bool) -> bool {
    let folder = made();
    #[cfg(feature = "planted-bugs")]
    daruma_cluster::plant(Some(daruma_cluster::Bug::WitnessBlindWrite).filter(|_| blind));
    let path = folder.path().to_path_buf();
    let inner = path.join(format!("daruma-{:032x}", 5));
    let mut is_first = true;
    // As if the share had taken the lock from a sleeper whose lease ran out, and given it to another node.
    let pause = move || {
        if !std::mem::take(&mut is_first) {
            return;
        }
        let kept = std::fs::read(inner.join("w.00000000000000000001")).unwrap();
        let record = daruma_cluster::witness::Record::decode(&kept).unwrap();
        let mut other = record;
        let view = other.serve(&ask(&path, 1, vote(2), 1), 0).unwrap();
        assert!(is_granted(&view.answer));
        std::fs::write(inner.join("w.00000000000000000002"), other.encode()).unwrap();
    };
    let mut share = FileShare::with_pause(Box::new(pause));
    let view = share.exchange(&ask(folder.path(), 0, vote(2), 1)).unwrap();
    #[cfg(feature = "planted-bugs")]
    daruma_cluster::plant(None);
    is_granted(&view.answer)
}

#[test]
fn who_slept_does_not_replace_what_came_in_between() {
    assert!(!both_got_the_vote(false));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_blind_write_is_found() {
    assert!(!both_got_the_vote(false));
    assert!(both_got_the_vote(true), "the bug does nothing");
}

#[test]
fn a_copy_that_was_put_back_is_refused() {
    let folder = made();
    let inner = folder.path().join(format!("daruma-{:032x}", 5));
    let copy = tempfile::tempdir().unwrap();
    let files = |from: &Path, to: &Path| {
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    files(&inner, copy.path());
    let mut share = FileShare::default();
    for term in 2..12 {
        assert!(is_granted(
            &share
                .exchange(&ask(folder.path(), 0, vote(term), 1))
                .unwrap()
                .answer
        ));
    }
    let lengths = |n: u64| {
        std::fs::metadata(inner.join(format!("w.{n:020}")))
            .unwrap()
            .len()
    };
    assert_eq!(lengths(2), 0, "old records are cut, and keep their names");
    assert!(lengths(11) > 0);
    // The same file, older content: the count tells.
    std::fs::remove_file(inner.join("w.00000000000000000011")).unwrap();
    let fault = share.exchange(&ask(folder.path(), 0, WitnessOp::Look, 11));
    assert!(
        matches!(fault, Err(WitnessFault::Regressed(_))),
        "{fault:?}"
    );
    // A whole folder put back: its witness.log is another.
    std::fs::remove_dir_all(&inner).unwrap();
    std::fs::create_dir(&inner).unwrap();
    files(copy.path(), &inner);
    let fault = share.exchange(&ask(folder.path(), 1, WitnessOp::Look, 0));
    assert!(
        matches!(fault, Err(WitnessFault::Regressed(_))),
        "{fault:?}"
    );
}

#[test]
fn what_is_no_record_is_refused() {
    let folder = made();
    let inner = folder.path().join(format!("daruma-{:032x}", 5));
    let mut share = FileShare::default();
    let mut foreign = ask(folder.path(), 0, WitnessOp::Look, 0);
    foreign.cluster = 10;
    assert!(matches!(
        share.exchange(&foreign),
        Err(WitnessFault::Foreign(_))
    ));
    std::fs::write(inner.join("w.00000000000000000001"), b"nonsense").unwrap();
    let look = ask(folder.path(), 0, WitnessOp::Look, 0);
    assert!(matches!(
        share.exchange(&look),
        Err(WitnessFault::Foreign(_))
    ));
    std::fs::remove_dir_all(&inner).unwrap();
    assert!(matches!(
        share.exchange(&look),
        Err(WitnessFault::Unknown(_))
    ));
}

/// A node that was frozen with the lock keeps nobody from the witness; what is said without it is said by a write.
#[test]
fn a_lock_that_is_held_stops_nobody() {
    let folder = made();
    let log = folder.path().join(format!("daruma-{:032x}/witness.log", 5));
    let held = std::fs::File::open(log).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut share = FileShare::default();
    let look = ask(folder.path(), 0, WitnessOp::Look, 0);
    let before = share.exchange(&look).unwrap().n;
    assert_eq!(share.exchange(&look).unwrap().n, before + 1);
    let voted = share.exchange(&ask(folder.path(), 0, vote(2), 0)).unwrap();
    assert!(is_granted(&voted.answer));
    assert_eq!(voted.n, before + 2);
    // Free again: a look writes nothing.
    drop(held);
    let view = share.exchange(&ask(folder.path(), 1, WitnessOp::Look, voted.n));
    assert_eq!(view.map(|v| (v.n, v.ballot)), Ok((voted.n, ballot(2))));
}

/// Without the lock a look that was overtaken tells what has come in between.
#[test]
fn a_look_without_the_lock_is_not_overtaken() {
    let folder = made();
    let log = folder.path().join(format!("daruma-{:032x}/witness.log", 5));
    let held = std::fs::File::open(log).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let path = folder.path().to_path_buf();
    let mut first = true;
    let mut share = FileShare::with_pause(Box::new(move || {
        if std::mem::take(&mut first) {
            let other = FileShare::default().exchange(&ask(&path, 1, vote(3), 0));
            assert!(is_granted(&other.unwrap().answer));
        }
    }));
    let view = share
        .exchange(&ask(folder.path(), 0, WitnessOp::Look, 0))
        .unwrap();
    assert_eq!(view.ballot, ballot(3), "it tells what was before the vote");
}
