//! How long a node may wait for its next tick, if nothing comes before.
//!
//! Theory: whatever is under way is looked at every [`TICK`]. A node to which nothing happens waits for the next thing that it has to do at a certain
//! time (a round, a question for a lease), or that it would have to notice (a member that falls silent), and for half a round at most: all other
//! times (votes that come back, a witness that is voted in again) are longer by far.
//!
//! Invariant: time alone takes no node from rest to something under way, but for what has a time here.

use super::lead::Lead;
use super::{Machine, place};
use std::time::Duration;

/// Between two looks at the clock, while anything is under way.
pub(crate) const TICK: Duration = Duration::from_millis(25);

impl Machine {
    /// When [`Machine::tick`] is due, on the clock of its callers.
    pub fn next_tick(&self) -> Duration {
        let soon = self.ticked + TICK;
        if self.is_under_way() {
            return soon;
        }
        let late = self.ticked + self.timing.round() / 2;
        let silence = match &self.lead {
            Some(lead) => self.next_of_leader(lead),
            None => self.next_candidacy(),
        };
        let me = self.me().number();
        let owns = self.state.groups.iter().any(|g| g.owner == Some(me));
        let lease = owns.then(|| self.next_lease());
        // What is due and cannot be done is no reason to look without end.
        silence
            .min(lease.unwrap_or(late))
            .clamp(soon, late.max(soon))
    }

    fn is_under_way(&self) -> bool {
        let waits = !self.wishes.is_empty() || self.leaving || self.watch.is_under_way();
        let works = |lead: &Lead| lead.is_under_way(self.now, &self.timing);
        let elects = match &self.lead {
            Some(lead) => works(lead),
            None => !self.hears_leader(),
        };
        waits || elects || !self.node.register().settled
    }

    /// The next round, or the moment in which a member that says nothing more is missed.
    fn next_of_leader(&self, lead: &Lead) -> Duration {
        let others = self.state.members().without(self.me());
        let heard = others
            .iter()
            .filter_map(|m| self.heard.get(place(m)).copied().flatten());
        let missed = heard.map(|at| at + self.timing.suspicion);
        let missed = missed.filter(|at| *at > self.now);
        let round = lead.next_round(self.timing.round() / 2);
        missed.fold(round, Duration::min)
    }
}
