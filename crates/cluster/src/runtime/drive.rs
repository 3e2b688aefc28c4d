//! The thread that drives the machine.

use super::askers::Askers;
use super::links::Links;
use super::{ClusterError, Input, Next, Shared, elapsed};
use crate::command::Outcome;
pub(super) use crate::machine::TICK;
use crate::machine::{Action, Machine, Owned};
use crate::store::{Store, Stored};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Why a node that left for good has ended.
pub(super) const LEFT: &str = "this server has left the cluster";

/// See the module.
pub(super) struct Driver {
    pub shared: Arc<Shared>,
    pub links: Arc<Links>,
    pub machine: Machine,
    pub store: Store,
    pub askers: Askers,
}

impl Driver {
    pub(super) fn start(self) -> Result<JoinHandle<()>, ClusterError> {
        let builder = Builder::new().name("cluster".into());
        builder
            .spawn(move || self.run())
            .map_err(ClusterError::Thread)
    }

    fn run(mut self) {
        let mut tick_at = elapsed();
        loop {
            let wait = tick_at.saturating_sub(elapsed());
            let actions = match self.shared.inbox.next(wait) {
                Next::Stop => return,
                Next::Nothing => Vec::new(),
                Next::Input(Input::Forget) => return self.forget(),
                Next::Input(input) => self.step(input),
            };
            let mut done = self.finish(actions);
            let now = elapsed();
            if done.is_ok() && tick_at <= now {
                let actions = self.machine.tick(now);
                done = self.finish(actions);
            }
            // Each step may have changed what it is for.
            tick_at = self.machine.next_tick();
            if let Err(error) = done {
                return self.end(&error);
            }
        }
    }

    /// Whoever is answered finds what was agreed on.
    fn finish(&mut self, actions: Vec<Action>) -> io::Result<()> {
        let answers = self.carry_out(actions)?;
        self.publish();
        for (id, outcome) in answers {
            if let Some(told) = self.shared.answers.lock().remove(&id) {
                // Who asked may have gone.
                let _ = told.send(outcome);
            }
        }
        Ok(())
    }

    fn step(&mut self, input: Input) -> Vec<Action> {
        let now = elapsed();
        match input {
            Input::Packet(from, packet) => self.machine.receive(now, from, packet),
            Input::Witness(id, result) => self.machine.witnessed(now, id, result),
            Input::Wish(id, command) => self.machine.wish(now, id, command),
            Input::Leave => self.machine.leave(now),
            Input::Force => self.machine.force(now),
            // The loop ends with it.
            Input::Forget => Vec::new(),
            Input::View(told) => {
                // Who asked may have gone.
                let _ = told.send(self.machine.view());
                Vec::new()
            }
        }
    }

    /// Does what a step wants. One write serves it all, as the register is what the whole step has left.
    fn carry_out(&mut self, actions: Vec<Action>) -> io::Result<Vec<(u64, Outcome)>> {
        let mut is_written = false;
        let mut answers = Vec::new();
        for action in actions {
            match action {
                Action::Persist if is_written => {}
                Action::Persist => {
                    self.store.save(&Stored {
                        me: self.machine.me(),
                        register: self.machine.register().clone(),
                        seen: self.machine.seen().clone(),
                    })?;
                    is_written = true;
                }
                Action::Send(to, packet) => self.links.send(to, &packet),
                Action::Witness(ask) => self.askers.ask(ask),
                Action::Answer(id, outcome) => answers.push((id, outcome)),
                Action::Settled(_) => {}
                Action::Note(text) => self.shared.say(&text),
            }
        }
        Ok(answers)
    }

    fn publish(&self) {
        let state = self.machine.state();
        let owned = self.machine.owned(elapsed());
        let has_left = self.machine.has_left();
        let (has_changed, has_moved) = {
            let mut published = self.shared.published.lock();
            let has_changed = !Arc::ptr_eq(&published.state, state);
            let has_moved = !is_same(&published.owned, &owned);
            published.state = state.clone();
            published.owned = owned;
            published.has_left = has_left;
            (has_changed, has_moved)
        };
        if has_changed {
            self.links.follow();
        }
        if has_changed || has_moved {
            self.shared.tell_news();
        }
    }

    /// What is on disk is not known any more, so nothing is said any more: a start finds out.
    fn end(self, error: &io::Error) {
        let why = format!("the node's file could not be written: {error}");
        self.shared.say(&format!(
            "The node of the cluster has ended, until the server is started again: {why}."
        ));
        self.cease(why);
    }

    /// The cluster has agreed that this node left for good, and nobody needs what it promised.
    fn forget(self) {
        let forgotten = self.store.forget_node();
        match forgotten {
            Ok(()) => {
                self.shared.say("This server has left the cluster.");
                self.cease(LEFT.into());
            }
            Err(error) => self.end(&error),
        }
    }

    fn cease(self, why: String) {
        {
            let mut published = self.shared.published.lock();
            published.owned.clear();
            published.failed = Some(why);
        }
        self.shared.tell_news();
        self.shared.inbox.stop();
        self.shared.answers.lock().clear();
        self.links.stop_in_background();
    }
}

/// Are these the same groups in the same epochs, whenever the leases end?
fn is_same(before: &[Owned], now: &[Owned]) -> bool {
    let all = |owned: &[Owned]| owned.iter().map(|o| (o.group, o.epoch)).collect::<Vec<_>>();
    all(before) == all(now)
}
