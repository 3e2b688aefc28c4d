//! A node as it runs: a thread for its machine, those that ask witnesses, and those of its connections.
//!
//! Theory: one thread drives [`Machine`] and does nothing else. What happens comes to it as an [`Input`]; each step is written before anything
//! of it is said. A thread that asks whether this node may act for a group reads what the last step has left and the clock, so a
//! thread that hangs prolongs no lease.
//!
//! | what | bound |
//! |---|---|
//! | packets that wait for a step | [`INPUTS_MAX`]; the newest are dropped, as a network would |
//! | a witness that hangs | its own thread (`askers`); the machine asks one thing at a time and takes no answer for a failure |
//! | a sync that fails | the node ends: nothing is leased, granted or voted any more until the server is started again |
//!
//! Latches: `Inbox::queue` and `Published` are taken alone; `departing` before any other, and nobody waits for it.
//!
//! Read next: `drive`, `askers`, `links`, `control`.

mod askers;
mod control;
mod drive;
mod links;
mod news;

pub use control::{ControlError, Request, Response, ask};
pub use news::News;

pub(crate) use links::{DIALS, LISTENS, SESSION_TIMEOUT, endpoint_config};

use crate::command::{Command, Outcome};
use crate::identity::Pair;
use crate::machine::{ClusterView, Machine, Owned, Timing};
use crate::packet::Packet;
use crate::setup::SetupError;
use crate::state::{ClusterState, GroupId};
use crate::store::Store;
use crate::token::Token;
use crate::witness::{CloudStore, WitnessFault, WitnessView, Witnesses};
use askers::{Askers, Ways};
use control::Control;
use daruma_base::{DiskFile, Env};
use daruma_quorum::MemberId;
use drive::Driver;
use links::Links;
use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Packets that wait for a step.
const INPUTS_MAX: usize = 4096;
/// Longer than a machine takes for any wish.
const WISH_LIMIT: Duration = Duration::from_secs(25);

/// A node that leaves for good asks again for so long, and waits so long for its own end.
const DEPART_LIMIT: Duration = Duration::from_secs(12);

/// How a node is run.
pub struct ClusterOptions {
    pub env: Env,
    /// Where its files are.
    pub folder: PathBuf,
    pub timing: Timing,
    /// Where to listen, if that is not where the others reach it.
    pub listen: Option<SocketAddr>,
    /// How a witness in a cloud's storage is reached, if such are.
    pub cloud: Option<Arc<dyn CloudStore>>,
    /// The server's error log.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Why a node does not run.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("the folder of the cluster: {0}")]
    Folder(io::Error),
    #[error("{0} holds no state of a cluster")]
    State(PathBuf),
    #[error("the node's certificate is gone, or another than the cluster knows")]
    Certificate,
    #[error(
        "{0} was a node's, and what it promised is lost with its register: evict it, and remove the folder"
    )]
    Lost(PathBuf),
    #[error("where the node listens, {address}: {error}")]
    Listen { address: String, error: io::Error },
    #[error("a thread of the cluster: {0}")]
    Thread(io::Error),
}

/// The node of this server. Dropped, it ends as in a crash.
pub struct Cluster {
    shared: Arc<Shared>,
    links: Arc<Links>,
    control: Control,
    driver: Mutex<Option<JoinHandle<()>>>,
    /// Held by the thread that asks disks as well.
    lock: Arc<dyn DiskFile>,
}

/// What all threads of a node reach.
pub(crate) struct Shared {
    inbox: Inbox,
    published: Mutex<Published>,
    answers: Mutex<BTreeMap<u64, Sender<Outcome>>>,
    next_wish: AtomicU64,
    /// Gives the groups of this node to others.
    hand_over: Mutex<Option<HandOver>>,
    /// Who wants to know that something was published.
    news: Mutex<Vec<Weak<News>>>,
    /// Held by whoever leaves for good.
    departing: Mutex<()>,
    me: MemberId,
    pair: Pair,
    log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// See [`Cluster::hands_over_by`].
type HandOver = Arc<dyn Fn() + Send + Sync>;

/// What the last step has left.
struct Published {
    state: Arc<ClusterState>,
    owned: Vec<Owned>,
    has_left: Option<bool>,
    /// Why the node has ended.
    failed: Option<String>,
}

/// What happens to a node.
enum Input {
    Packet(MemberId, Packet),
    Witness(u64, Result<WitnessView, WitnessFault>),
    Wish(u64, Command),
    View(Sender<ClusterView>),
    Leave,
    Force,
    /// The cluster has agreed that this node left for good.
    Forget,
}

#[derive(Default)]
struct Inbox {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    inputs: VecDeque<Input>,
    stopped: bool,
}

/// What a thread that waits for input finds.
enum Next {
    Input(Input),
    Nothing,
    Stop,
}

impl Inbox {
    /// `false`: it was dropped. That happens to packets, or where the node has ended; what waits otherwise is bounded by those who ask.
    fn push(&self, input: Input) -> bool {
        let mut queue = self.queue.lock();
        let may_go = matches!(input, Input::Packet(..));
        let fits = !queue.stopped && (!may_go || queue.inputs.len() < INPUTS_MAX);
        if fits {
            queue.inputs.push_back(input);
            self.more.notify_one();
        }
        fits
    }

    fn next(&self, wait: Duration) -> Next {
        let mut queue = self.queue.lock();
        if queue.inputs.is_empty() && !queue.stopped {
            self.more.wait_for(&mut queue, wait);
        }
        match queue.inputs.pop_front() {
            _ if queue.stopped => Next::Stop,
            Some(input) => Next::Input(input),
            None => Next::Nothing,
        }
    }

    /// Whoever waits for an answer to what is left learns that there is none.
    fn stop(&self) {
        let left = {
            let mut queue = self.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.inputs)
        };
        drop(left);
        self.more.notify_all();
    }
}

/// Elapsed time of this machine, suspension counted: the clock of leases.
pub(crate) fn elapsed() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Cluster {
    /// Starts the node whose files are in the folder. `None`: the server is no member of a cluster.
    pub fn start(options: ClusterOptions) -> Result<Option<Cluster>, ClusterError> {
        let ClusterOptions {
            env,
            folder,
            timing,
            listen,
            cloud,
            log,
        } = options;
        let store = Store::new(env.disk.clone(), &folder);
        store.finish_forgetting().map_err(ClusterError::Folder)?;
        if store.load().map_err(ClusterError::Folder)?.is_none() {
            let was_node = Pair::load(&*env.disk, &folder).map_err(ClusterError::Folder)?;
            return was_node.map_or(Ok(None), |_| Err(ClusterError::Lost(folder)));
        }
        let lock = store.lock().map_err(ClusterError::Folder)?;
        // Once more: another process may have gone on until now.
        let Some(stored) = store.load().map_err(ClusterError::Folder)? else {
            return Ok(None);
        };
        Pair::settle(&*env.disk, &folder).map_err(ClusterError::Folder)?;
        let me = stored.me;
        let seed = env.random.u64();
        let machine = Machine::new(me, stored.register, stored.seen, timing, seed, elapsed());
        let machine = machine.ok_or_else(|| ClusterError::State(folder.clone()))?;
        let pair = Pair::load(&*env.disk, &folder).map_err(ClusterError::Folder)?;
        let known = machine.state().node(me.number()).map(|n| n.fingerprint);
        let pair = pair
            .filter(|p| known.is_none_or(|k| k == p.fingerprint().0))
            .ok_or(ClusterError::Certificate)?;
        let shared = Arc::new(Shared {
            inbox: Inbox::default(),
            published: Mutex::new(Published {
                state: machine.state().clone(),
                owned: Vec::new(),
                has_left: None,
                failed: None,
            }),
            answers: Mutex::default(),
            next_wish: AtomicU64::new(1),
            hand_over: Mutex::new(None),
            news: Mutex::default(),
            departing: Mutex::new(()),
            me,
            pair,
            log,
        });
        let links = Links::open(&shared, listen)?;
        let cluster = Cluster {
            control: Control::open(&shared, &folder).inspect_err(|_| links.stop())?,
            shared,
            links,
            driver: Mutex::new(None),
            lock,
        };
        let for_witness = cluster.shared.clone();
        let ways = Ways {
            store: Box::new(move || Box::new(Witnesses::new(cloud.clone()))),
            tell: Arc::new(move |id, answer| for_witness.inbox.push(Input::Witness(id, answer))),
            lock: cluster.lock.clone(),
        };
        let driver = Driver {
            shared: cluster.shared.clone(),
            links: cluster.links.clone(),
            machine,
            store,
            askers: Askers::new(ways),
        };
        *cluster.driver.lock() = Some(driver.start()?);
        Ok(Some(cluster))
    }

    /// This node's number.
    pub fn me(&self) -> MemberId {
        self.shared.me
    }

    /// What the newest configuration that this node holds says.
    pub fn state(&self) -> Arc<ClusterState> {
        self.shared.published.lock().state.clone()
    }

    /// Why the node has ended by itself.
    pub fn failed(&self) -> Option<String> {
        self.shared.published.lock().failed.clone()
    }

    /// May this node act for the group now, and until when on the machine's elapsed clock?
    pub fn owned(&self, group: &GroupId) -> Option<Owned> {
        self.shared.owned(group)
    }

    /// For how long from now on this node may act for the group, if it may.
    pub fn holds_for(&self, group: &GroupId) -> Option<Duration> {
        let owned = self.owned(group)?;
        Some(owned.until.saturating_sub(elapsed()))
    }

    /// Tells `news` from now on of each change of [`Cluster::state`] and of the groups that this node may act for. That a lease runs out is
    /// no news: [`Owned::until`] says when.
    pub fn tells(&self, news: &Arc<News>) {
        let mut all = self.shared.news.lock();
        all.retain(|n| n.strong_count() > 0);
        all.push(Arc::downgrade(news));
    }

    /// What this node sees of the cluster. `None`: it has ended.
    pub fn view(&self) -> Option<ClusterView> {
        self.shared.view()
    }

    /// What the leader tells of the cluster, or this node where nobody leads: only a leader sees all.
    pub fn show(&self) -> Option<ClusterView> {
        self.shared.show()
    }

    /// Has a wish carried out, and waits for what becomes of it.
    pub fn wish(&self, command: Command) -> Outcome {
        self.shared.wish(command)
    }

    /// How the server gives its groups away before this node leaves for good. It takes a bounded time.
    pub fn hands_over_by(&self, hand_over: impl Fn() + Send + Sync + 'static) {
        *self.shared.hand_over.lock() = Some(Arc::new(hand_over));
    }

    /// Forces a quorum of this node alone, by order of an administrator who knows that the others are gone.
    pub fn force(&self) {
        self.shared.inbox.push(Input::Force);
    }

    /// Makes a new join token; earlier ones are void.
    pub fn make_token(&self) -> Result<Token, SetupError> {
        self.shared.make_token()
    }

    /// Gives this node's vote away before it stops, for so long. `true`: the cluster has agreed to it.
    pub fn leave(&self, wait: Duration) -> bool {
        self.shared.leave(wait)
    }

    /// Stops at once: to the others it is silent.
    pub fn stop(&self) {
        self.control.stop();
        self.shared.inbox.stop();
        if let Some(driver) = self.driver.lock().take() {
            // A thread that panicked has stopped as well.
            let _ = driver.join();
        }
        self.links.stop();
        self.shared.published.lock().owned.clear();
        self.shared.tell_news();
        self.shared.answers.lock().clear();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn say(&self, text: &str) {
        (self.log)(text);
    }

    fn state(&self) -> Arc<ClusterState> {
        self.published.lock().state.clone()
    }

    fn tell_news(&self) {
        let all = self.news.lock();
        all.iter().filter_map(Weak::upgrade).for_each(|n| n.tell());
    }

    fn owned(&self, group: &GroupId) -> Option<Owned> {
        let published = self.published.lock();
        let found = published.owned.iter().find(|o| o.group == *group).copied();
        found.filter(|o| elapsed() < o.until)
    }

    fn view(&self) -> Option<ClusterView> {
        let (told, view) = channel();
        self.inbox.push(Input::View(told));
        view.recv().ok()
    }

    fn show(&self) -> Option<ClusterView> {
        let mine = self.view()?;
        if mine.leader.is_none() || mine.leader.as_ref() == Some(&mine.told_by) {
            return Some(mine);
        }
        let told = match self.wish(Command::Show) {
            Outcome::Shown(text) => serde_json::from_str(&text).ok(),
            _ => None,
        };
        Some(told.unwrap_or(mine))
    }

    fn wish(&self, command: Command) -> Outcome {
        let id = self.next_wish.fetch_add(1, Ordering::Relaxed);
        let (told, outcome): (_, Receiver<Outcome>) = channel();
        self.answers.lock().insert(id, told);
        let is_taken = self.inbox.push(Input::Wish(id, command));
        if !is_taken {
            self.answers.lock().remove(&id);
        }
        // The machine answers every wish in time; a node that has ended drops the sender.
        let ended = || Outcome::Unknown("the node has ended, or has too much to do".into());
        let outcome = outcome.recv_timeout(WISH_LIMIT);
        self.answers.lock().remove(&id);
        outcome.unwrap_or_else(|_| ended())
    }

    fn make_token(&self) -> Result<Token, SetupError> {
        let state = self.state();
        let unknown = || SetupError::Unknown("this node is no member any more".into());
        let mine = state.node(self.me.number()).ok_or_else(unknown)?;
        let join = Pair::make()?;
        let token = Token {
            cluster: state.id,
            address: mine.address.clone(),
            fingerprint: mine.fingerprint,
            join,
        };
        let fingerprint = Some(token.join.fingerprint().0);
        match self.wish(Command::SetJoin { fingerprint }) {
            Outcome::Refused(why) => Err(SetupError::Refused(why)),
            Outcome::Unknown(why) => Err(SetupError::Unknown(why)),
            Outcome::Done | Outcome::Shown(_) | Outcome::Added { .. } => {
                self.await_join_certificate(fingerprint)?;
                Ok(token)
            }
        }
    }

    /// Who joins comes to this node, which lets nobody in by a token that it has not heard of.
    fn await_join_certificate(&self, wanted: Option<[u8; 32]>) -> Result<(), SetupError> {
        let until = Instant::now() + WISH_LIMIT;
        while self.state().join != wanted {
            if Instant::now() >= until {
                let late = "this node has not heard of the token that was made";
                return Err(SetupError::Unknown(late.into()));
            }
            std::thread::sleep(drive::TICK);
        }
        Ok(())
    }

    /// Leaves the cluster for good. From `Ok` on the server is no node, and its folder says so. Whether it may is asked first, so that a
    /// refusal leaves everything as it was.
    fn depart(&self) -> Result<(), String> {
        let Some(_one_at_a_time) = self.departing.try_lock() else {
            return Err("the server is about to leave already".into());
        };
        self.agree(&Command::MayLeave)?;
        let hand_over = self.hand_over.lock().clone();
        if let Some(hand_over) = hand_over {
            hand_over();
        }
        self.agree(&Command::Leave)?;
        self.inbox.push(Input::Forget);
        let until = Instant::now() + DEPART_LIMIT;
        while self.published.lock().failed.is_none() && Instant::now() < until {
            std::thread::sleep(drive::TICK);
        }
        let failed = self.published.lock().failed.clone();
        match failed.as_deref() {
            Some(drive::LEFT) => Ok(()),
            why => Err(why.unwrap_or("the node has not ended in time").to_string()),
        }
    }

    /// Says a wish again while it is not known what became of it. `Err`: why it is not so.
    fn agree(&self, command: &Command) -> Result<(), String> {
        let until = Instant::now() + DEPART_LIMIT;
        loop {
            match self.wish(command.clone()) {
                Outcome::Refused(why) => return Err(why),
                // A leader that leaves loses the lead on the way: the next one knows.
                Outcome::Unknown(why) if Instant::now() >= until => {
                    return Err(self.not_known(&why));
                }
                Outcome::Unknown(_) => std::thread::sleep(drive::TICK),
                Outcome::Done | Outcome::Shown(_) | Outcome::Added { .. } => return Ok(()),
            }
        }
    }

    /// What to do when nobody has answered.
    fn not_known(&self, why: &str) -> String {
        let hint = match self.state().is_gone(self.me) {
            true => {
                "if another node does not show this one any more, stop the server and remove its folder 'cluster'"
            }
            false => "say it again",
        };
        format!("it is not known whether the cluster has agreed ({why}); {hint}")
    }

    fn leave(&self, wait: Duration) -> bool {
        self.inbox.push(Input::Leave);
        let until = Instant::now() + wait;
        loop {
            let (has_left, ended) = {
                let published = self.published.lock();
                (published.has_left, published.failed.is_some())
            };
            match has_left {
                Some(left) => return left,
                None if ended || Instant::now() >= until => return false,
                None => std::thread::sleep(drive::TICK),
            }
        }
    }
}

/// The folder of a server's cluster in its data folder.
pub fn folder_in(data: &Path) -> PathBuf {
    data.join("cluster")
}
