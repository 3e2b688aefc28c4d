//! Memory of a running request: what it holds, what it asks for, and the wait while others have it.
//!
//! Theory: `instance::memory` decides. A request that is to wait looks again now and then, for nobody tells when memory is freed; it holds
//! what it has meanwhile, and its locks. Error 8645 ends a wait that takes too long (`query wait (s)`), 701 a request that nobody
//! else's end would help.

use super::Execution;
use crate::error::Result;
use crate::instance::{Asking, Shortage, WorkMemory};
use crate::messages;
use daruma_base::WaitKind;
use daruma_value::Value;
use std::result::Result as Outcome;
use std::sync::Arc;
use std::time::Duration;

/// Values from this size on are large: memory is asked for before they are copied.
const LARGE_VALUE_BYTES: usize = 64 << 10;
/// A request that waits looks again so often.
const LOOK: Duration = Duration::from_millis(5);
/// How long it waits where `query wait (s)` does not say.
const WAIT_MAX: Duration = Duration::from_secs(300);

impl Execution<'_> {
    /// Bytes that the request has allocated so far and holds.
    pub(super) fn held_bytes(&self) -> i64 {
        daruma_base::memory::thread_bytes() - self.bytes_before
    }

    /// Memory for a copy of a value.
    #[inline]
    pub(super) fn check_copy(&self, value: &Value) -> Result<()> {
        match value.outside_bytes() {
            bytes if bytes < LARGE_VALUE_BYTES => Ok(()),
            bytes => crate::host::Host::check_memory(self, bytes),
        }
    }

    /// Asks for memory, and waits where others are to go on first: errors 701 and 8645.
    pub(super) fn with_room<T>(
        &self,
        ask: impl Fn(&Arc<WorkMemory>, Asking<'_>) -> Outcome<T, Shortage>,
    ) -> Result<T> {
        let instance = &self.state.instance;
        let now = || instance.env().clock.monotonic();
        let asking = || Asking {
            session: self.state.entry.spid,
            held: self.held_bytes(),
            now: &now,
        };
        // Plans help where memory is used up; who waits for his turn leaves them to those that use them.
        let ask = || match ask(&instance.memory, asking()) {
            Err(Shortage::Full) if instance.plans.give_back() => ask(&instance.memory, asking()),
            answer => answer,
        };
        match ask() {
            Ok(room) => Ok(room),
            Err(Shortage::Full) => Err(messages::error(701, &[&"default"])),
            Err(Shortage::Crowded) => self.wait_for_room(ask),
        }
    }

    #[cold]
    fn wait_for_room<T>(&self, ask: impl Fn() -> Outcome<T, Shortage>) -> Result<T> {
        let (instance, clock) = (&self.state.instance, &self.state.instance.env().clock);
        self.state.entry.activity.lock().waits_for_memory = true;
        let start = clock.monotonic();
        let longest = match instance.configuration.in_use("query wait (s)") {
            seconds @ 0.. => Duration::from_secs(seconds.unsigned_abs()),
            _ => WAIT_MAX,
        };
        let result = loop {
            if let Err(error) = self.state.check_cancel() {
                break Err(error);
            }
            match ask() {
                Ok(room) => break Ok(room),
                Err(Shortage::Full) => break Err(messages::error(701, &[&"default"])),
                Err(Shortage::Crowded) => {}
            }
            if clock.monotonic().saturating_sub(start) >= longest {
                break Err(messages::error(8645, &[&"default", &2]));
            }
            clock.sleep(LOOK);
        };
        instance.memory.stop_waiting(self.state.entry.spid);
        self.state.entry.activity.lock().waits_for_memory = false;
        let waited = clock.monotonic().saturating_sub(start);
        let waits = instance.engine().waits();
        waits.record(WaitKind::ResourceSemaphore, waited);
        result
    }
}
