//! The witness in a cloud's storage, which is a map here: whoever sleeps between reading and writing is refused, whatever the network does.

use super::{ask, is_granted, node, register, vote};
use daruma_cluster::witness::{
    CloudObject, CloudStore, CloudWitness, PutIf, WitnessAsk, WitnessFault, WitnessOp,
    WitnessStore, WitnessView,
};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

const URL: &str = "https://account.blob.core.windows.net/witnesses/main";

type Event = Box<dyn FnOnce(&Arc<Storage>) + Send>;

/// A storage, and what goes wrong with it.
#[derive(Default)]
struct Storage {
    objects: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    puts: Mutex<u64>,
    /// Happens before the next put of the record.
    before_put: Mutex<Option<Event>>,
    /// Puts whatever the condition says.
    is_careless: bool,
    /// Each request takes so long.
    takes: Duration,
    /// Requests under way: what counts waits until the record is asked for as well.
    together: Option<Barrier>,
    /// The answer to the next put of the record is lost.
    loses_answer: Mutex<bool>,
    myself: Mutex<std::sync::Weak<Storage>>,
}

impl Storage {
    fn new(is_careless: bool) -> Arc<Storage> {
        let storage = Arc::new(Storage {
            is_careless,
            ..Storage::default()
        });
        *storage.myself.lock().unwrap() = Arc::downgrade(&storage);
        storage
    }

    fn record(&self) -> Vec<u8> {
        let objects = self.objects.lock().unwrap();
        objects[&format!("daruma-{:032x}", 5)].0.clone()
    }

    fn delay(&self, name: &str) {
        std::thread::sleep(self.takes);
        if let Some(barrier) = self.together.as_ref().filter(|_| !name.contains("trial")) {
            barrier.wait();
        }
    }

    fn replace(&self, change: impl FnOnce(&mut BTreeMap<String, (Vec<u8>, u64)>, &str)) {
        let name = format!("daruma-{:032x}", 5);
        change(&mut self.objects.lock().unwrap(), &name);
    }
}

impl CloudStore for Storage {
    fn get(&self, url: &str, name: &str, bytes_max: usize) -> io::Result<Option<CloudObject>> {
        assert_eq!(url, URL);
        self.delay(name);
        let objects = self.objects.lock().unwrap();
        let Some((bytes, tag)) = objects.get(name) else {
            return Ok(None);
        };
        match bytes.len() > bytes_max {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, "too long")),
            false => Ok(Some(CloudObject {
                bytes: bytes.clone(),
                tag: tag.to_string(),
            })),
        }
    }

    fn put(&self, url: &str, name: &str, bytes: &[u8], condition: PutIf<'_>) -> io::Result<bool> {
        assert_eq!(url, URL);
        self.delay(name);
        let is_record = name == format!("daruma-{:032x}", 5);
        let before = self.before_put.lock().unwrap().take_if(|_| is_record);
        let myself = self.myself.lock().unwrap().upgrade();
        if let (Some(event), Some(storage)) = (before, myself) {
            event(&storage);
        }
        let mut objects = self.objects.lock().unwrap();
        let tag = objects.get(name).map(|(_, tag)| tag.to_string());
        let is_met = match condition {
            PutIf::Absent => tag.is_none(),
            PutIf::Tagged(wanted) => tag.as_deref() == Some(wanted),
            PutIf::Always => true,
        };
        if !is_met && !self.is_careless {
            return Ok(false);
        }
        let mut puts = self.puts.lock().unwrap();
        *puts += 1;
        objects.insert(name.to_string(), (bytes.to_vec(), *puts));
        match is_record && std::mem::take(&mut *self.loses_answer.lock().unwrap()) {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(true),
        }
    }
}

fn cloud_ask(me: u8, op: WitnessOp, seen: u64) -> WitnessAsk {
    ask(Path::new(URL), me, op, seen)
}

fn told(
    storage: &Arc<Storage>,
    me: u8,
    op: WitnessOp,
    seen: u64,
) -> Result<WitnessView, WitnessFault> {
    CloudWitness::new(Some(storage.clone())).exchange(&cloud_ask(me, op, seen))
}

fn made() -> Arc<Storage> {
    let storage = Storage::new(false);
    let view = told(&storage, 0, WitnessOp::Create(register()), 0).unwrap();
    assert_eq!(view.n, 1);
    storage
}

#[test]
fn a_vote_is_given_once() {
    let storage = made();
    let again = told(&storage, 1, WitnessOp::Create(register()), 0).unwrap();
    assert_eq!(again.n, 1, "one that is there is not made again");
    let first = told(&storage, 0, vote(2), 1).unwrap();
    assert!(is_granted(&first.answer) && first.n == 2);
    let again = told(&storage, 0, vote(2), 2).unwrap();
    assert!(is_granted(&again.answer) && again.n == 2, "nothing changed");
    let other = told(&storage, 1, vote(2), 1).unwrap();
    assert!(!is_granted(&other.answer));
    assert_eq!(cloud_ask(0, vote(2), 1).me, node(0));
}

/// Between reading and writing another node gets the vote: the one that slept must not.
fn both_got_the_vote() -> bool {
    let storage = made();
    let other = Arc::new(Mutex::new(false));
    let got = other.clone();
    let event: Event = Box::new(move |storage| {
        let view = told(storage, 1, vote(2), 1).unwrap();
        *got.lock().unwrap() = is_granted(&view.answer);
    });
    *storage.before_put.lock().unwrap() = Some(event);
    let slept = told(&storage, 0, vote(2), 1).unwrap();
    assert!(*other.lock().unwrap(), "it came first");
    is_granted(&slept.answer)
}

#[test]
fn whoever_slept_is_refused() {
    assert!(!both_got_the_vote());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_blind_write_is_found() {
    daruma_cluster::plant(Some(daruma_cluster::Bug::CloudBlindWrite));
    let both = both_got_the_vote();
    daruma_cluster::plant(None);
    assert!(both, "the bug does nothing");
}

#[test]
fn a_put_whose_answer_was_lost_is_unknown_and_stands() {
    let storage = made();
    *storage.loses_answer.lock().unwrap() = true;
    let lost = told(&storage, 0, vote(2), 1);
    assert!(matches!(lost, Err(WitnessFault::Unknown(_))), "{lost:?}");
    let other = told(&storage, 1, vote(2), 1).unwrap();
    assert!(!is_granted(&other.answer));
    let again = told(&storage, 0, vote(2), 1).unwrap();
    assert!(is_granted(&again.answer) && again.n == 2);
}

#[test]
fn a_storage_without_conditions_is_refused() {
    let storage = Storage::new(true);
    let refused = told(&storage, 0, WitnessOp::Create(register()), 0);
    assert!(
        matches!(refused, Err(WitnessFault::Foreign(_))),
        "{refused:?}"
    );
    assert_eq!(storage.objects.lock().unwrap().len(), 1, "the trial alone");
}

/// Leases would be lost again and again.
#[test]
fn a_storage_that_is_too_slow_for_leases_is_refused() {
    let storage = Arc::new(Storage {
        takes: Duration::from_millis(310),
        ..Storage::default()
    });
    let refused = told(&storage, 0, WitnessOp::Create(register()), 0);
    assert!(
        matches!(&refused, Err(WitnessFault::Foreign(why)) if why.contains("ms to answer")),
        "{refused:?}"
    );
    assert!(
        !storage
            .objects
            .lock()
            .unwrap()
            .contains_key(&format!("daruma-{:032x}", 5))
    );
}

/// A round waits for one request, not for two: this ends only if both are under way.
#[test]
fn a_leader_counts_and_reads_at_once() {
    let made = made();
    let objects = std::mem::take(&mut *made.objects.lock().unwrap());
    let storage = Arc::new(Storage {
        objects: Mutex::new(objects),
        together: Some(Barrier::new(2)),
        ..Storage::default()
    });
    let mut look = cloud_ask(1, WitnessOp::Look, 1);
    look.alive = true;
    let mut leader = CloudWitness::new(Some(storage.clone()));
    assert_eq!(leader.exchange(&look).map(|v| v.n), Ok(1));
    assert_eq!(told(&storage, 0, WitnessOp::Look, 1).map(|v| v.n), Ok(1));
}

#[test]
fn an_old_copy_and_what_is_no_record_are_refused() {
    let storage = made();
    let old = storage.record();
    let n = told(&storage, 0, vote(2), 1).unwrap().n;
    let new = storage.record();
    storage.replace(|objects, name| drop(objects.insert(name.into(), (old, 99))));
    let fault = told(&storage, 0, WitnessOp::Look, n);
    assert!(
        matches!(fault, Err(WitnessFault::Regressed(_))),
        "{fault:?}"
    );
    for bytes in [Vec::new(), vec![7; 100], vec![7; 200 << 10], {
        let mut damaged = new;
        damaged[30] ^= 1;
        damaged
    }] {
        storage.replace(|objects, name| drop(objects.insert(name.into(), (bytes, 100))));
        let fault = told(&storage, 0, WitnessOp::Look, n);
        assert!(matches!(fault, Err(WitnessFault::Foreign(_))), "{fault:?}");
    }
    storage.replace(|objects, name| drop(objects.remove(name)));
    let fault = told(&storage, 0, WitnessOp::Look, n);
    assert!(matches!(fault, Err(WitnessFault::Foreign(_))), "{fault:?}");
    let fault = CloudWitness::new(None).exchange(&cloud_ask(0, WitnessOp::Look, 0));
    assert!(matches!(fault, Err(WitnessFault::Unknown(_))), "{fault:?}");
}

#[test]
fn a_leader_that_reaches_it_is_seen_by_the_others() {
    let storage = made();
    let before = told(&storage, 0, WitnessOp::Look, 1).unwrap().alive;
    let mut leader = CloudWitness::new(Some(storage.clone()));
    let mut seen = vec![before];
    for _ in 0..3 {
        let mut look = cloud_ask(1, WitnessOp::Look, 1);
        look.alive = true;
        leader.exchange(&look).unwrap();
        seen.push(told(&storage, 0, WitnessOp::Look, 1).unwrap().alive);
    }
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
}
