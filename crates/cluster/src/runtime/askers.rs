//! Threads that ask witnesses: a question to one that hangs keeps no question to another waiting.
//!
//! | witness | asked by |
//! |---|---|
//! | in a folder, in a cloud's storage | a thread for each: a request that comes late is refused there by its name or its tag |
//! | on a disk | one thread for all disks |
//!
//! A write on a disk that hangs in the kernel may land whenever the disk comes back, over whatever this node has written there meanwhile, by whatever path. So no
//! other question goes to a disk before that one has ended; and as long as the thread is there it holds the lock on the node's folder, so that
//! no later life of the node writes either. A process that is killed keeps the lock until its last thread has gone.
//!
//! A question that has waited for too long is answered without being put: who asked has given it up.

use crate::state::WitnessKind;
use crate::witness::{WitnessAsk, WitnessFault, WitnessOp, WitnessStore, WitnessView};
use daruma_base::DiskFile;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Questions to a witness that wait.
const ASKS_MAX: usize = 4;
/// Threads, those that hang among them.
const THREADS_MAX: usize = 6;
/// A question waits so long for those before it: less than the node waits for the answer.
const WAIT_MAX: Duration = Duration::from_millis(1500);
/// One to make a witness, for which an administrator waits.
const CREATE_WAIT_MAX: Duration = Duration::from_secs(5);

/// What became of a question.
pub(super) type Answer = Result<WitnessView, WitnessFault>;

/// How threads do their work.
pub(super) struct Ways {
    pub store: Box<dyn Fn() -> Box<dyn WitnessStore + Send> + Send>,
    /// Told of each answer; `false`: nobody wants any more.
    pub tell: Arc<dyn Fn(u64, Answer) -> bool + Send + Sync>,
    /// The lock on the node's folder.
    pub lock: Arc<dyn DiskFile>,
}

/// See the module. Dropped, its threads end as soon as they have nothing to do; nobody waits for them.
pub(super) struct Askers {
    ways: Ways,
    threads: Vec<Asker>,
}

struct Asker {
    of: Asked,
    asks: SyncSender<(WitnessAsk, Instant)>,
    /// Questions that have not been answered.
    open: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    One(u128),
    Disks,
}

fn unknown(why: &str) -> Answer {
    Err(WitnessFault::Unknown(why.into()))
}

impl Askers {
    pub(super) fn new(ways: Ways) -> Askers {
        Askers {
            ways,
            threads: Vec::new(),
        }
    }

    /// Puts a question. Its answer is told, whatever becomes of it.
    pub(super) fn ask(&mut self, ask: WitnessAsk) {
        let id = ask.id;
        if let Err(why) = self.pass_on(ask) {
            (self.ways.tell)(id, unknown(why));
        }
    }

    fn pass_on(&mut self, ask: WitnessAsk) -> Result<(), &'static str> {
        let of = match ask.place.kind() {
            WitnessKind::Disk => Asked::Disks,
            WitnessKind::Share | WitnessKind::Cloud => Asked::One(ask.place.id),
        };
        let wait = match ask.op {
            WitnessOp::Create(_) => CREATE_WAIT_MAX,
            WitnessOp::Look | WitnessOp::Exchange(_) => WAIT_MAX,
        };
        let asker = self.asker(of)?;
        asker.open.fetch_add(1, Ordering::AcqRel);
        let sent = asker.asks.try_send((ask, Instant::now() + wait));
        sent.map_err(|_| {
            asker.open.fetch_sub(1, Ordering::AcqRel);
            "it hangs"
        })
    }

    fn asker(&mut self, of: Asked) -> Result<&Asker, &'static str> {
        if !self.threads.iter().any(|t| t.of == of) {
            self.threads.retain(|t| t.open.load(Ordering::Acquire) > 0);
            if self.threads.len() >= THREADS_MAX {
                return Err("too many witnesses hang");
            }
            let asker = Asker::start(of, &self.ways).map_err(|_| "there is no thread for it")?;
            self.threads.push(asker);
        }
        let found = self.threads.iter().find(|t| t.of == of);
        found.ok_or("there is no thread for it")
    }
}

impl Asker {
    fn start(of: Asked, ways: &Ways) -> std::io::Result<Asker> {
        let (asks, asked) = sync_channel(ASKS_MAX);
        let open = Arc::new(AtomicUsize::new(0));
        let (counted, tell) = (open.clone(), ways.tell.clone());
        let store = (ways.store)();
        let lock = (of == Asked::Disks).then(|| ways.lock.clone());
        // Never waited for: a witness that hangs would keep the server from stopping.
        let builder = Builder::new().name("cluster witness".into());
        builder.spawn(move || {
            answer_all(store, &asked, &counted, &*tell);
            drop(lock);
        })?;
        Ok(Asker { of, asks, open })
    }
}

fn answer_all(
    mut store: Box<dyn WitnessStore + Send>,
    asked: &Receiver<(WitnessAsk, Instant)>,
    open: &AtomicUsize,
    tell: &dyn Fn(u64, Answer) -> bool,
) {
    while let Ok((ask, until)) = asked.recv() {
        let answer = match Instant::now() < until {
            true => store.exchange(&ask),
            false => unknown("a question before has hung"),
        };
        open.fetch_sub(1, Ordering::AcqRel);
        if !tell(ask.id, answer) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::WitnessPlace;
    use daruma_base::OpenMode;
    use daruma_quorum::{MemberId, Version};
    use parking_lot::Mutex;
    use std::sync::Weak;
    use std::sync::mpsc::{Sender, channel};

    /// A witness that hangs in each question until it is let go.
    struct Hangs(Arc<Mutex<Receiver<()>>>);

    impl WitnessStore for Hangs {
        fn exchange(&mut self, ask: &WitnessAsk) -> Answer {
            if ask.place.path.contains("hangs") {
                // Let go, or given up by the test.
                let _ = self.0.lock().recv();
            }
            unknown("it was asked")
        }
    }

    struct Bed {
        askers: Askers,
        lock: Weak<dyn DiskFile>,
        answers: Receiver<(u64, Answer)>,
        let_go: Sender<()>,
    }

    fn bed(folder: &std::path::Path) -> Bed {
        let disk = daruma_platform::env().disk;
        let lock = disk.open(&folder.join("lock"), OpenMode::CreatePrivate);
        let lock = lock.expect("a lock");
        let ((let_go, may_go), (told, answers)) = (channel(), channel());
        let may_go = Arc::new(Mutex::new(may_go));
        Bed {
            lock: Arc::downgrade(&lock),
            askers: Askers::new(Ways {
                store: Box::new(move || Box::new(Hangs(may_go.clone()))),
                tell: Arc::new(move |id, answer| told.send((id, answer)).is_ok()),
                lock,
            }),
            answers,
            let_go,
        }
    }

    fn ask(id: u64, place: WitnessPlace) -> WitnessAsk {
        WitnessAsk {
            id,
            cluster: 9,
            place,
            me: MemberId::node(0).expect("a node"),
            op: WitnessOp::Look,
            seen: 0,
            held: (Version::default(), true),
            alive: false,
            office: None,
        }
    }

    fn share(path: &str, id: u128) -> WitnessPlace {
        let path = path.to_string();
        WitnessPlace { path, id }
    }

    /// Or a write that hangs lands over what the node's next life has written.
    #[test]
    fn a_disk_that_hangs_keeps_the_nodes_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let Bed {
            mut askers,
            lock,
            answers,
            let_go,
        } = bed(folder.path());
        askers.ask(ask(1, WitnessPlace::on_disk("/hangs", 5)));
        drop(askers);
        assert!(lock.upgrade().is_some(), "the next life may write");
        let_go.send(()).expect("it waits");
        assert_eq!(answers.recv().expect("an answer").0, 1);
        // It ends when the thread has seen that nobody asks any more.
        while lock.upgrade().is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_share_that_hangs_keeps_no_other_waiting_and_no_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bed = bed(folder.path());
        bed.askers.ask(ask(1, share("/hangs", 5)));
        bed.askers.ask(ask(2, share("/other", 6)));
        assert_eq!(bed.answers.recv().expect("an answer").0, 2);
        bed.askers.ask(ask(3, WitnessPlace::on_disk("/disk", 7)));
        assert_eq!(bed.answers.recv().expect("an answer").0, 3);
        // What waits for the one that hangs is bounded, as is what hangs.
        for id in 10..20 {
            bed.askers.ask(ask(id, share("/hangs", 5)));
        }
        let refused = bed.answers.try_iter().count();
        assert!(refused >= 9 - ASKS_MAX, "{refused}");
        for n in 0..2 * THREADS_MAX as u64 {
            bed.askers
                .ask(ask(30 + n, share("/hangs", 30 + u128::from(n))));
        }
        assert!(bed.askers.threads.len() <= THREADS_MAX);
        assert!(bed.answers.try_iter().count() >= THREADS_MAX);
    }

    /// One write at a time reaches disks, as one that hangs may be on the same disk by another path.
    #[test]
    fn a_disk_that_hangs_keeps_the_node_from_other_disks() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bed = bed(folder.path());
        bed.askers.ask(ask(1, WitnessPlace::on_disk("/hangs", 5)));
        bed.askers.ask(ask(2, WitnessPlace::on_disk("/other", 6)));
        bed.askers.ask(ask(3, share("/share", 7)));
        assert_eq!(bed.answers.recv().expect("an answer").0, 3);
        assert!(bed.answers.try_recv().is_err(), "it was asked beside");
        bed.let_go.send(()).expect("it waits");
        let told: Vec<u64> = bed.answers.iter().take(2).map(|(id, _)| id).collect();
        assert_eq!(told, [1, 2]);
    }
}
