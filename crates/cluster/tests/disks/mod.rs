//! The witness on a disk: nodes that are paused and killed between any two reads and writes of theirs, in orders drawn by seeds; and a real file.

use daruma_cluster::witness::{
    DISK_BYTES, Device, DiskWitness, WitnessAsk, WitnessFault, WitnessOp, WitnessStore,
    WitnessView, exchange_on_disk,
};
use daruma_cluster::{ClusterState, NodeState, WitnessPlace};
use daruma_quorum::{Ballot, Configuration, MemberId, Members, Message, Register, WITNESS};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const NODES: usize = 3;
const CLUSTER: u128 = 9;
const ID: u128 = 5;
/// Questions of each node.
const ASKS: u64 = 6;

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
    let body = ClusterState::first("c".into(), CLUSTER, own).encode();
    let votes = Members::nodes(2).with(WITNESS);
    Register::new(Configuration::first(votes, body))
}

fn ask(path: &str, me: usize, op: WitnessOp, seen: u64) -> WitnessAsk {
    WitnessAsk {
        id: 1,
        cluster: CLUSTER,
        place: WitnessPlace::on_disk(path, ID),
        me: MemberId::node(me as u8).unwrap(),
        op,
        seen,
        held: (register().held.version, true),
        alive: false,
        office: None,
    }
}

fn vote(term: u64) -> WitnessOp {
    WitnessOp::Exchange(Message::RequestVote {
        ballot: Ballot {
            generation: 0,
            term,
        },
        version: register().held.version,
    })
}

fn granted(view: &WitnessView) -> Option<u64> {
    match view.answer {
        Some(Message::Vote {
            granted: true,
            ballot,
            ..
        }) => Some(ballot.term),
        _ => None,
    }
}

/// Whose step it is, of threads that each wait before every step.
#[derive(Default)]
struct Steps {
    inner: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    waits: [bool; NODES],
    ended: [bool; NODES],
    turn: Option<usize>,
    bytes: BTreeMap<u64, Vec<u8>>,
}

const PIECE: usize = 4096;

impl Steps {
    /// Waits for this node's turn, then does one thing with the disk.
    fn step<T>(&self, me: usize, act: impl FnOnce(&mut BTreeMap<u64, Vec<u8>>) -> T) -> T {
        let mut inner = self.inner.lock().unwrap();
        inner.waits[me] = true;
        self.changed.notify_all();
        inner = self
            .changed
            .wait_while(inner, |i| i.turn != Some(me))
            .unwrap();
        inner.waits[me] = false;
        inner.turn = None;
        act(&mut inner.bytes)
    }

    fn end(&self, me: usize) {
        self.inner.lock().unwrap().ended[me] = true;
        self.changed.notify_all();
    }

    /// Gives turns until all have ended.
    fn drive(&self, mut draw: impl FnMut(usize) -> usize) {
        loop {
            let inner = self.inner.lock().unwrap();
            let all = 0..NODES;
            let mut inner = self
                .changed
                .wait_while(inner, |i| {
                    i.turn.is_some() || !all.clone().all(|n| i.waits[n] || i.ended[n])
                })
                .unwrap();
            let ready: Vec<usize> = all.filter(|n| inner.waits[*n]).collect();
            if ready.is_empty() {
                return;
            }
            inner.turn = Some(ready[draw(ready.len())]);
            self.changed.notify_all();
        }
    }
}

/// One node's way to the disk, which ends after so many steps, as in a crash.
struct Paced {
    steps: Arc<Steps>,
    me: usize,
    left: u32,
}

impl Paced {
    fn alive(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::Other)?;
        Ok(())
    }
}

impl Device for Paced {
    fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.alive()?;
        // What is read together was not written together.
        let mut all = Vec::new();
        let half = (length / 2).next_multiple_of(PIECE);
        for (from, length) in [(0, half), (half, length - half)] {
            let pieces = (0..length / PIECE).map(|n| offset + (from + n * PIECE) as u64);
            let pieces: Vec<u64> = pieces.collect();
            if pieces.is_empty() {
                continue;
            }
            all.extend(self.steps.step(self.me, |disk| {
                let piece = |at: &u64| disk.get(at).cloned().unwrap_or_else(|| vec![0; PIECE]);
                pieces.iter().flat_map(piece).collect::<Vec<u8>>()
            }));
        }
        Ok(all)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // A piece is written whole or not at all; several come one by one.
        for (n, piece) in bytes.chunks(PIECE).enumerate() {
            self.alive()?;
            let at = offset + (n * PIECE) as u64;
            self.steps
                .step(self.me, |disk| disk.insert(at, piece.to_vec()));
        }
        Ok(())
    }

    fn identity(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn wait(&mut self, _: Duration) {}
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// What one node was told: when, and what.
type Told = Vec<(u64, u64, WitnessView)>;

/// Three nodes ask for votes and look, and each dies now and then; why it was wrong, if it was.
fn play(seed: u64) -> Result<usize, String> {
    let steps = Arc::new(Steps::default());
    let clock = Arc::new(Mutex::new(0u64));
    #[cfg(feature = "planted-bugs")]
    let bug = planted::BUG.get();
    let nodes = (0..NODES).map(|me| {
        let (steps, clock) = (steps.clone(), clock.clone());
        std::thread::spawn(move || {
            #[cfg(feature = "planted-bugs")]
            daruma_cluster::plant(bug);
            let told = ask_all(&steps, &clock, me, seed);
            steps.end(me);
            told
        })
    });
    let nodes: Vec<_> = nodes.collect();
    let mut draws = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    // Runs of steps of one node, so that the others sleep for long.
    let mut stays = 0;
    let mut last = 0;
    steps.drive(|ready| {
        if stays == 0 {
            last = random(&mut draws) as usize;
            stays = random(&mut draws) % 12;
        } else {
            stays -= 1;
        }
        last % ready
    });
    let told = nodes.into_iter().map(|n| n.join().unwrap());
    check(&told.collect::<Result<Vec<Told>, String>>()?)
}

fn ask_all(steps: &Arc<Steps>, clock: &Mutex<u64>, me: usize, seed: u64) -> Result<Told, String> {
    let mut draws = (seed + 1).wrapping_mul(0x2545_F491_4F6C_DD1D + me as u64) | 1;
    let mut told = Vec::new();
    let now = || {
        let mut clock = clock.lock().unwrap();
        *clock += 1;
        *clock
    };
    let mut seen = 0;
    for n in 0..ASKS {
        let op = match (n, random(&mut draws) % 3) {
            (0, _) => WitnessOp::Create(register()),
            (_, 0) => WitnessOp::Look,
            // Terms that others ask for as well.
            (n, _) => vote(2 + n / 2),
        };
        let left = match random(&mut draws) % 3 {
            0 => (random(&mut draws) % 40) as u32,
            _ => u32::MAX,
        };
        let mut device = Paced {
            steps: steps.clone(),
            me,
            left,
        };
        let mut ask = ask("/d", me, op, seen);
        ask.alive = random(&mut draws).is_multiple_of(4);
        let begun = now();
        match exchange_on_disk(&mut device, &ask) {
            Ok(view) => {
                seen = view.n;
                told.push((begun, now(), view));
            }
            Err(WitnessFault::Regressed(why)) => return Err(format!("it went back: {why}")),
            Err(_) => {}
        }
    }
    Ok(told)
}

fn check(told: &[Told]) -> Result<usize, String> {
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    let mut states = BTreeMap::new();
    for (me, (_, _, view)) in told
        .iter()
        .enumerate()
        .flat_map(|(me, t)| t.iter().map(move |t| (me, t)))
    {
        if let Some(term) = granted(view)
            && *votes.entry(term).or_insert(me) != me
        {
            return Err(format!("two have the vote of term {term}"));
        }
        let state = (view.ballot, view.version);
        if *states.entry(view.n).or_insert(state) != state {
            return Err(format!("two records {}", view.n));
        }
    }
    let all: Vec<_> = told.iter().flatten().collect();
    for (_, ended, view) in &all {
        let mut later = all.iter().filter(|(begun, _, _)| begun > ended);
        if let Some((_, _, other)) = later.find(|(_, _, o)| o.n < view.n) {
            return Err(format!("record {} after {}", other.n, view.n));
        }
    }
    Ok(all.len())
}

fn games() -> u64 {
    let set = std::env::var("DARUMA_DISK_GAMES").ok();
    set.and_then(|g| g.parse().ok()).unwrap_or(60)
}

#[test]
fn a_record_stands_once_whoever_sleeps_and_dies() {
    let mut answers = 0;
    for seed in 0..games() {
        answers += play(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    // Most questions are answered, however often somebody else was faster.
    assert!(answers as u64 > games() * ASKS, "{answers}");
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use super::play;
    use daruma_cluster::Bug;
    use std::cell::Cell;

    thread_local! {
        pub static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    fn is_found(bug: Bug) {
        BUG.set(Some(bug));
        let found = (0..5000).find_map(|seed| {
            let why = play(seed).err()?;
            Some(format!("seed {seed}: {why}"))
        });
        BUG.set(None);
        println!("{bug:?}: {}", found.expect("the bug is not found"));
    }

    #[test]
    fn a_blind_write_is_found() {
        is_found(Bug::DiskBlindWrite);
    }

    #[test]
    fn proposals_that_are_passed_over_are_found() {
        is_found(Bug::DiskForgetsProposals);
    }

    #[test]
    fn an_old_copy_that_is_believed_is_found() {
        assert!(super::old_copy_is_refused());
        daruma_cluster::plant(Some(Bug::OldWitnessAccepted));
        let refused = super::old_copy_is_refused();
        daruma_cluster::plant(None);
        assert!(!refused, "the bug does nothing");
    }
}

// --- a real file

fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::File::create_new(&path)
        .and_then(|f| f.set_len(DISK_BYTES))
        .unwrap();
    let path = path.display().to_string();
    (folder, path)
}

fn told(path: &str, me: usize, op: WitnessOp, seen: u64) -> Result<WitnessView, WitnessFault> {
    DiskWitness::default().exchange(&ask(path, me, op, seen))
}

#[test]
fn a_vote_is_given_once() {
    let (_folder, path) = file();
    let made = told(&path, 0, WitnessOp::Create(register()), 0).unwrap();
    assert_eq!(made.n, 1);
    let again = told(&path, 1, WitnessOp::Create(register()), 0).unwrap();
    assert_eq!(again.n, 1, "one that is there is not made again");
    let first = told(&path, 0, vote(2), 1).unwrap();
    assert_eq!((granted(&first), first.n), (Some(2), 2));
    let again = told(&path, 0, vote(2), 2).unwrap();
    assert_eq!((granted(&again), again.n), (Some(2), 2), "nothing changed");
    let other = told(&path, 1, vote(2), 1).unwrap();
    assert_eq!(granted(&other), None);
    let look = told(&path, 2, WitnessOp::Look, 2).unwrap();
    assert_eq!((look.ballot.term, look.n), (2, 2));
}

#[test]
fn a_leader_that_reaches_it_is_seen_by_the_others() {
    let (_folder, path) = file();
    let before = told(&path, 0, WitnessOp::Create(register()), 0).unwrap();
    let mut alive = ask(&path, 1, WitnessOp::Look, 1);
    alive.alive = true;
    let counted = DiskWitness::default().exchange(&alive).unwrap();
    assert_ne!(counted.alive, before.alive);
    let seen = told(&path, 0, WitnessOp::Look, 1).unwrap();
    assert_eq!((seen.alive, seen.n), (counted.alive, 1));
}

/// A record that grew over many pieces is there as it was written, in both copies in turn.
#[test]
fn a_long_configuration_is_kept_whole() {
    let (_folder, path) = file();
    told(&path, 0, WitnessOp::Create(register()), 0).unwrap();
    for index in 3..6 {
        let mut newer = register().held;
        newer.version.ballot.term = 2;
        newer.version.index = index;
        newer.body = vec![b'x'; 100_000 + index as usize].into();
        let put = WitnessOp::Exchange(Message::Put {
            configuration: newer.clone(),
            settled: true,
        });
        told(&path, 0, put, 1).unwrap();
        let look = told(&path, 1, WitnessOp::Look, 1).unwrap();
        assert_eq!(look.newer, Some((newer, true)));
    }
}

fn old_copy_is_refused() -> bool {
    let (_folder, path) = file();
    told(&path, 0, WitnessOp::Create(register()), 0).unwrap();
    let copy = std::fs::read(&path).unwrap();
    let n = told(&path, 0, vote(2), 1).unwrap().n;
    // In place, as a disk is restored.
    std::fs::write(&path, copy).unwrap();
    let fault = told(&path, 0, WitnessOp::Look, n);
    matches!(fault, Err(WitnessFault::Regressed(_)))
}

#[test]
fn a_disk_that_was_restored_is_refused() {
    assert!(old_copy_is_refused());
}

#[test]
fn a_file_in_the_place_of_another_is_refused() {
    let (folder, path) = file();
    told(&path, 0, WitnessOp::Create(register()), 0).unwrap();
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    let fault = told(&path, 0, WitnessOp::Look, 0);
    assert!(
        matches!(fault, Err(WitnessFault::Regressed(_))),
        "{fault:?}"
    );
}

#[test]
fn what_is_no_witness_is_left_alone() {
    let is_foreign = |path: &str, op: WitnessOp| {
        let before = std::fs::read(path).unwrap();
        let fault = told(path, 0, op, 0);
        assert!(matches!(fault, Err(WitnessFault::Foreign(_))), "{fault:?}");
        assert!(std::fs::read(path).unwrap() == before, "it was written to");
    };
    let create = || WitnessOp::Create(register());
    let (_folder, path) = file();
    is_foreign(&path, WitnessOp::Look);
    // Somebody's data, where file systems leave their marks.
    for at in [0, 1024, 65_536] {
        let mut bytes = vec![0; DISK_BYTES as usize];
        bytes[at] = 1;
        std::fs::write(&path, bytes).unwrap();
        is_foreign(&path, create());
    }
    // A witness of another cluster, and another witness of this one.
    let (_folder, path) = file();
    let mut other = ask(&path, 0, create(), 0);
    other.cluster = 10;
    DiskWitness::default().exchange(&other).unwrap();
    is_foreign(&path, create());
    let (_folder, path) = file();
    let mut earlier = ask(&path, 0, create(), 0);
    earlier.place = WitnessPlace::on_disk(&path, ID + 1);
    DiskWitness::default().exchange(&earlier).unwrap();
    is_foreign(&path, vote(2));
    assert_eq!(told(&path, 0, create(), 0).map(|v| v.n), Ok(1));
}

/// A path is a name, and a disk has several.
#[test]
fn the_witness_in_office_is_not_made_over_by_another_path() {
    let (folder, path) = file();
    told(&path, 0, WitnessOp::Create(register()), 0).unwrap();
    told(&path, 0, vote(2), 1).unwrap();
    let before = std::fs::read(&path).unwrap();
    let other = folder.path().join("other").display().to_string();
    std::os::unix::fs::symlink(&path, &other).unwrap();
    let mut over = ask(&other, 0, WitnessOp::Create(register()), 0);
    over.place.id = ID + 1;
    over.office = Some(ID);
    let fault = DiskWitness::default().exchange(&over);
    assert!(matches!(fault, Err(WitnessFault::Foreign(_))), "{fault:?}");
    assert!(std::fs::read(&path).unwrap() == before, "it was written to");
    // One that the cluster has no longer may go.
    over.office = Some(ID + 2);
    assert_eq!(DiskWitness::default().exchange(&over).map(|v| v.n), Ok(1));
}

#[test]
fn damage_is_refused() {
    let (_folder, path) = file();
    told(&path, 0, WitnessOp::Create(register()), 0).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // The head, the node's block, its record: whichever copy it is in.
    for at in [20, 4096 + 20, (1 << 20) + (256 << 10) + 20] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, bytes).unwrap();
        let fault = told(&path, 0, WitnessOp::Look, 0);
        assert!(
            matches!(fault, Err(WitnessFault::Foreign(_))),
            "{at}: {fault:?}"
        );
    }
}

#[test]
fn a_disk_that_is_too_small_or_none_is_unknown() {
    let (folder, path) = file();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|f| f.set_len(DISK_BYTES - 1))
        .unwrap();
    for path in [
        path,
        folder.path().display().to_string(),
        "/dev/null".to_string(),
        format!("{}/none", folder.path().display()),
    ] {
        let fault = told(&path, 0, WitnessOp::Create(register()), 0);
        assert!(matches!(fault, Err(WitnessFault::Unknown(_))), "{fault:?}");
    }
    assert!(!folder.path().join("none").exists(), "nothing is made");
}
