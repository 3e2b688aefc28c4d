//! Does the server still answer? One thread asks it `sp_server_diagnostics` every few seconds, by a session like any other.
//!
//! What is not answered says more than any answer: whatever a session may hang on, this one hangs on too. An error is an answer.

use daruma_tsql::instance::Instance;
use daruma_tsql::session::run_as_administrator;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// From an answer to the next question: a third of the shortest HEALTH_CHECK_TIMEOUT.
const PAUSE: Duration = Duration::from_secs(5);
/// A stop waits so long for an answer, and then no longer.
const LAST_ANSWER: Duration = Duration::from_secs(5);

/// See the module. Dropped, it asks no more.
#[derive(Default)]
pub(super) struct Diagnosis(Arc<Asked>);

#[derive(Default)]
struct Asked {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    answers: u64,
    /// There is a thread that asks.
    is_asked: bool,
    is_asking: bool,
    is_stopped: bool,
}

impl Diagnosis {
    /// Begins to ask `instance`.
    pub(super) fn begin(&self, instance: &Arc<Instance>) -> std::io::Result<()> {
        let instance = Arc::downgrade(instance);
        self.begin_with(PAUSE, move || {
            if let Some(instance) = instance.upgrade() {
                // Whatever it says, it answers.
                let _ = run_as_administrator(&instance, "master", "EXEC sp_server_diagnostics");
            }
        })
    }

    fn begin_with(
        &self,
        pause: Duration,
        mut question: impl FnMut() + Send + 'static,
    ) -> std::io::Result<()> {
        let asked = self.0.clone();
        asked.state.lock().is_asked = true;
        let thread = std::thread::Builder::new().name("hadr diagnosis".into());
        let begun = thread.spawn(move || {
            let asked = Asking(asked);
            while asked.0.may_ask(pause) {
                question();
                asked.0.answered();
            }
        });
        self.0.state.lock().is_asked &= begun.is_ok();
        begun.map(|_| ())
    }

    /// How often the server has answered. `None`: nobody asks it.
    pub(super) fn answers(&self) -> Option<u64> {
        let state = self.0.state.lock();
        state.is_asked.then_some(state.answers)
    }

    /// Asks no more. A question that nobody answers is left alone.
    pub(super) fn stop(&self) {
        let mut state = self.0.state.lock();
        state.is_stopped = true;
        self.0.changed.notify_all();
        let is_asking = |state: &mut State| state.is_asking;
        self.0
            .changed
            .wait_while_for(&mut state, is_asking, LAST_ANSWER);
    }
}

impl Drop for Diagnosis {
    fn drop(&mut self) {
        self.0.state.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}

/// The thread that asks, while it lives.
struct Asking(Arc<Asked>);

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        (state.is_asked, state.is_asking) = (false, false);
        self.0.changed.notify_all();
    }
}

impl Asked {
    /// Waits for `pause`. `false`: nobody wants to know any more.
    fn may_ask(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        let goes_on = |state: &mut State| !state.is_stopped;
        self.changed.wait_while_for(&mut state, goes_on, pause);
        state.is_asking = !state.is_stopped;
        state.is_asking
    }

    fn answered(&self) {
        let mut state = self.state.lock();
        state.answers += 1;
        state.is_asking = false;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn answers_are_counted_and_a_question_without_one_is_none() {
        let diagnosis = Diagnosis::default();
        let (asked, questions) = channel();
        let (answer, answers) = channel::<()>();
        let begun = diagnosis.begin_with(Duration::ZERO, move || {
            let _ = asked.send(());
            let _ = answers.recv();
        });
        begun.expect("thread");
        for n in 0..3 {
            questions.recv().expect("a question");
            assert_eq!(diagnosis.answers(), Some(n));
            answer.send(()).expect("it waits for the answer");
        }
        questions.recv().expect("a question");
        assert_eq!(diagnosis.answers(), Some(3));
        std::thread::scope(|threads| {
            threads.spawn(|| diagnosis.stop());
            while !diagnosis.0.state.lock().is_stopped {
                std::thread::yield_now();
            }
            drop(answer);
        });
        assert!(questions.recv().is_err(), "nothing is asked after a stop");
        assert_eq!(diagnosis.answers(), None);
    }
}
