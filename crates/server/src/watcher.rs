//! Looks after the sockets of statements that run, since their threads cannot.
//!
//! Theory: one thread, one `poll` every few milliseconds over the sockets of requests that have been running since the
//! tick before. A client may send nothing but an attention while it waits for a reply, so what is readable is one (or,
//! in clear text, can be seen to be something else and is left alone), and an end of file is a client that left.
//! The watcher sets the session's cancel flag; the session's own thread reads the packet. Nothing is ever consumed
//! here. The same round closes the sockets of sessions that were killed, and stops what has a deadline: a login whose triggers take too long.
//!
//! Short requests cost two uncontended mutex operations; an idle server lets the watcher sleep.
//!
//! Invariant: a flag is set only while the request it was meant for still runs, because setting it and ending a request
//! both take the slot's mutex.

use daruma_base::CancelFlag;
use daruma_base::cancel::CancelReason;
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(10);
/// Ticks without a running request after which the watcher goes to sleep.
const IDLE_TICKS: u64 = 100;
/// Ticks a killed session has to say so to its client before its socket is closed.
const KILL_GRACE_TICKS: u64 = 100;
/// First byte of an attention packet.
const ATTENTION: u8 = 0x06;

/// One connection, as the watcher and the listener see it.
pub(crate) struct Slot {
    socket: Arc<TcpStream>,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    cancel: Option<CancelFlag>,
    encrypted: bool,
    /// Tick in which the request began; `None` between requests.
    running_since: Option<u64>,
    /// The readable bytes were found not to be an attention.
    is_settled: bool,
    killed_at: Option<u64>,
    /// When what runs is stopped.
    deadline: Option<Instant>,
}

impl Slot {
    /// From now on there is a session to cancel.
    pub(crate) fn set_session(&self, cancel: CancelFlag, encrypted: bool) {
        let mut state = self.state.lock();
        state.cancel = Some(cancel);
        state.encrypted = encrypted;
    }

    /// There is no session any more; what its client is still to hear is not cut off.
    pub(crate) fn end_session(&self) {
        let mut state = self.state.lock();
        state.cancel = None;
        state.killed_at = None;
    }

    /// Tells whether the client has closed its side of the connection, or there is none any more. Also where it has left
    /// something unread behind, as TLS does.
    pub(crate) fn hang_up(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let socket = Arc::downgrade(&self.socket);
        Box::new(move || socket.upgrade().is_none_or(|s| is_hung_up(&s)))
    }

    /// Stops the session: at once between requests, by its flag during one.
    pub(crate) fn kill(&self) {
        let state = self.state.lock();
        if let Some(cancel) = &state.cancel {
            cancel.set(CancelReason::Kill);
        }
        if state.running_since.is_none() {
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state.lock().running_since.is_some()
    }

    fn end_request(&self) {
        let mut state = self.state.lock();
        state.running_since = None;
        state.is_settled = false;
        state.deadline = None;
        if let Some(cancel) = &state.cancel {
            cancel.clear_attention();
        }
    }

    /// Stops what has had its time.
    fn end_overdue(&self) {
        let state = self.state.lock();
        if let Some(cancel) = &state.cancel
            && state.deadline.is_some_and(|at| Instant::now() >= at)
        {
            cancel.set(CancelReason::Kill);
        }
    }

    /// Has it been running since before `tick`, with nothing found yet?
    fn is_watched(&self, tick: u64) -> bool {
        let state = self.state.lock();
        !state.is_settled && state.running_since.is_some_and(|since| since < tick)
    }

    /// Called for a readable socket: finds out why and cancels.
    fn look(&self) {
        let mut state = self.state.lock();
        let Some(cancel) = state
            .cancel
            .as_ref()
            .filter(|_| state.running_since.is_some())
        else {
            return;
        };
        match self.first_byte() {
            FirstByte::End => cancel.set(CancelReason::Kill),
            FirstByte::Is(ATTENTION) => cancel.set(CancelReason::Attention),
            FirstByte::Is(_) if state.encrypted => cancel.set(CancelReason::Attention),
            FirstByte::Is(_) => {}
            FirstByte::NotYet => return,
        }
        state.is_settled = true;
    }

    fn first_byte(&self) -> FirstByte {
        let mut byte = [0];
        match recv(
            &*self.socket,
            &mut byte,
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        ) {
            Ok((_, 0)) => FirstByte::End,
            Ok(_) => FirstByte::Is(byte[0]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => FirstByte::NotYet,
            Err(_) => FirstByte::End,
        }
    }

    /// Closes the socket of a killed session, at once if it is idle. True while there is something left to do.
    fn bury(&self, tick: u64) -> bool {
        let mut state = self.state.lock();
        if state.cancel.as_ref().and_then(CancelFlag::get) != Some(CancelReason::Kill) {
            return false;
        }
        let killed_at = *state.killed_at.get_or_insert(tick);
        let is_over = state.running_since.is_none() || tick >= killed_at + KILL_GRACE_TICKS;
        if is_over {
            let _ = self.socket.shutdown(Shutdown::Both);
        }
        !is_over
    }
}

/// Has the other side closed the connection, as far as is known here?
pub(crate) fn is_hung_up(socket: &TcpStream) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut polled, Some(&now)) {
        Ok(_) => polled.iter().any(|p| !p.revents().is_empty()),
        Err(_) => false,
    }
}

enum FirstByte {
    Is(u8),
    End,
    NotYet,
}

/// All connections, and the thread that watches them.
pub(crate) struct Watcher {
    slots: Mutex<Vec<Arc<Slot>>>,
    tick: AtomicU64,
    is_asleep: AtomicBool,
    is_stopped: AtomicBool,
    wake: Condvar,
    sleep: Mutex<()>,
    /// Signalled when a connection ends.
    ended: Condvar,
}

impl Watcher {
    pub(crate) fn new() -> Watcher {
        Watcher {
            slots: Mutex::default(),
            tick: AtomicU64::new(1),
            is_asleep: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            wake: Condvar::new(),
            sleep: Mutex::new(()),
            ended: Condvar::new(),
        }
    }

    pub(crate) fn add(&self, socket: Arc<TcpStream>) -> Arc<Slot> {
        let slot = Arc::new(Slot {
            socket,
            state: Mutex::default(),
        });
        self.slots.lock().push(slot.clone());
        slot
    }

    pub(crate) fn remove(&self, slot: &Arc<Slot>) {
        self.slots.lock().retain(|s| !Arc::ptr_eq(s, slot));
        self.ended.notify_all();
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.lock().len()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().clone()
    }

    /// Waits until no connection is left, at most for `timeout`.
    pub(crate) fn wait_until_empty(&self, timeout: Duration) -> bool {
        let mut slots = self.slots.lock();
        self.ended
            .wait_while_for(&mut slots, |s| !s.is_empty(), timeout);
        slots.is_empty()
    }

    /// Marks a request as running until the guard is dropped.
    pub(crate) fn begin_request<'a>(&self, slot: &'a Slot) -> RunningRequest<'a> {
        slot.state.lock().running_since = Some(self.tick.load(Ordering::Relaxed));
        if self.is_asleep.load(Ordering::SeqCst) {
            let _guard = self.sleep.lock();
            self.wake.notify_one();
        }
        RunningRequest(slot)
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        let _guard = self.sleep.lock();
        self.wake.notify_one();
    }

    /// Body of the watcher's thread.
    pub(crate) fn run(&self) {
        let mut idle_since = 0;
        while !self.is_stopped.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
            let tick = self.tick.fetch_add(1, Ordering::Relaxed);
            if self.round(tick) {
                idle_since = tick;
            } else if tick > idle_since + IDLE_TICKS {
                self.nap();
                idle_since = self.tick.load(Ordering::Relaxed);
            }
        }
    }

    /// One look at everything. True if something runs.
    fn round(&self, tick: u64) -> bool {
        let slots = self.all();
        slots.iter().for_each(|slot| slot.end_overdue());
        let burying = slots.iter().filter(|s| s.bury(tick)).count();
        let running = slots.iter().filter(|s| s.is_running()).count();
        let watched: Vec<_> = slots.iter().filter(|s| s.is_watched(tick)).collect();
        let mut polled: Vec<_> = watched
            .iter()
            .map(|s| PollFd::new(&*s.socket, PollFlags::IN))
            .collect();
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if !polled.is_empty() && poll(&mut polled, Some(&now)).is_ok() {
            let readable = watched
                .iter()
                .zip(&polled)
                .filter(|(_, p)| !p.revents().is_empty());
            readable.for_each(|(slot, _)| slot.look());
        }
        running + burying > 0
    }

    /// Sleeps until a request begins. One that began just before is seen here, as both sides write before they read.
    fn nap(&self) {
        let mut guard = self.sleep.lock();
        self.is_asleep.store(true, Ordering::SeqCst);
        let is_busy = self.all().iter().any(|s| s.is_running());
        if !is_busy && !self.is_stopped.load(Ordering::SeqCst) {
            self.wake.wait(&mut guard);
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

/// A request that may be cancelled by its client.
pub(crate) struct RunningRequest<'a>(&'a Slot);

impl RunningRequest<'_> {
    /// The readable bytes belong to the request itself (a bulk load): they are not looked at.
    pub(crate) fn reads_socket(&self) {
        self.0.state.lock().is_settled = true;
    }

    /// It is stopped where it has not ended by then.
    pub(crate) fn until(&self, deadline: Option<Instant>) {
        self.0.state.lock().deadline = deadline;
    }

    /// An attention came together with the request.
    pub(crate) fn cancel(&self) {
        if let Some(cancel) = &self.0.state.lock().cancel {
            cancel.set(CancelReason::Attention);
        }
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        self.0.end_request();
    }
}
