//! What `daruma cluster show` and the views tell.

use super::Machine;
use crate::state::WitnessKind;
use daruma_quorum::{MemberId, Members, WITNESS, Witness, outlook};
use serde::{Deserialize, Serialize};

/// The cluster as one node sees it; only a leader sees all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    pub name: String,
    pub id: String,
    /// Who tells this.
    pub told_by: String,
    pub leader: Option<String>,
    /// Is there a quorum, as far as this node knows?
    pub quorum: bool,
    pub dynamic_quorum: bool,
    pub lower_priority: Option<String>,
    pub windows_rules: bool,
    pub witness: Option<WitnessSeen>,
    pub witness_dynamic_weight: u8,
    pub nodes: Vec<NodeView>,
    pub groups: Vec<GroupView>,
    /// Losses, one by one and two by two. Empty where nobody leads.
    pub losses: Vec<LossView>,
    pub survives_any: u32,
}

/// The witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessSeen {
    pub kind: WitnessKind,
    pub path: String,
    pub state: String,
}

/// A row of the article's second table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    pub number: u8,
    pub name: String,
    pub address: String,
    pub dynamic_weight: u8,
    pub node_weight: u8,
    pub state: String,
}

/// Who leads a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    pub name: String,
    pub epoch: u64,
    pub owner: Option<String>,
    pub in_sync: Vec<String>,
    pub automatic: Vec<String>,
}

/// A loss, and whether the cluster survives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossView {
    /// `Robin crashes`, `Robin leaves, then the witness fails`, `Robin and the witness at once`.
    pub loss: String,
    /// Members that are lost.
    pub count: u32,
    pub survived: bool,
    /// Everybody crashes or fails, and nobody leaves in order.
    pub crash: bool,
}

impl Machine {
    /// What this node knows now.
    pub fn view(&self) -> ClusterView {
        let state = self.state();
        let register = self.register();
        let votes = match register.settled {
            true => register.held.new,
            false => register.held.old,
        };
        let name = |m: MemberId| self.name_of(m);
        let leader = match self.leads() {
            true => Some(self.me()),
            false => self.follow.leader.filter(|_| self.is_in_quorum()),
        };
        let weight = |m: Option<MemberId>| u8::from(m.is_some_and(|m| votes.contains(m)));
        let names = |numbers: &[u8]| {
            let members = numbers.iter().filter_map(|n| MemberId::node(*n));
            members.map(name).collect()
        };
        let losses = match self.leads() {
            true => self.losses(),
            false => Vec::new(),
        };
        ClusterView {
            name: state.name.clone(),
            id: format!("{:032x}", state.id),
            told_by: name(self.me()),
            leader: leader.map(name),
            quorum: self.is_in_quorum(),
            dynamic_quorum: state.dynamic_quorum,
            lower_priority: state.lower_priority.and_then(MemberId::node).map(name),
            windows_rules: state.windows_rules,
            witness: state.witness.as_ref().map(|w| WitnessSeen {
                kind: w.kind(),
                path: w.path().into(),
                state: match self.witness() {
                    Witness::Usable => "Online".into(),
                    Witness::Failed | Witness::None => "Failed".into(),
                },
            }),
            witness_dynamic_weight: u8::from(votes.contains(WITNESS)),
            nodes: state
                .nodes
                .iter()
                .map(|n| NodeView {
                    number: n.number,
                    name: n.name.clone(),
                    address: n.address.clone(),
                    dynamic_weight: weight(MemberId::node(n.number)),
                    node_weight: u8::from(n.weight),
                    state: self.state_of(n.number),
                })
                .collect(),
            groups: state
                .groups
                .iter()
                .map(|g| GroupView {
                    name: g.name.clone(),
                    epoch: g.epoch,
                    owner: g.owner.and_then(MemberId::node).map(name),
                    in_sync: names(&g.in_sync),
                    automatic: names(&g.automatic),
                })
                .collect(),
            survives_any: survives_any(&losses),
            losses,
        }
    }

    fn name_of(&self, member: MemberId) -> String {
        match self.state().node(member.number()) {
            Some(node) => node.name.clone(),
            None if member == WITNESS => "the witness".into(),
            None => format!("node {}", member.number()),
        }
    }

    fn state_of(&self, number: u8) -> String {
        let node = MemberId::node(number);
        let is_own = node == Some(self.me());
        let heard = node.is_some_and(|m| self.has_been_heard(m, self.timing.suspicion));
        match is_own || heard {
            true => "Up".into(),
            false => "Down".into(),
        }
    }

    fn losses(&self) -> Vec<LossView> {
        let situation = self.situation();
        let present = situation.answering();
        let outlook = outlook(&situation);
        let verb = |m: MemberId, clean: bool| match (m == WITNESS, clean) {
            (true, _) => "the witness fails".to_string(),
            (false, true) => format!("{} leaves", self.name_of(m)),
            (false, false) => format!("{} crashes", self.name_of(m)),
        };
        let known = |m: MemberId| Members::NONE.with(m).intersection(present).count() > 0;
        let one = outlook.one.iter().map(|(l, survived)| LossView {
            loss: verb(l.member, l.clean),
            count: 1,
            survived: *survived,
            crash: !l.clean,
        });
        let then = outlook
            .one_then_another
            .iter()
            .map(|(a, b, survived)| LossView {
                loss: format!(
                    "{}, then {}",
                    verb(a.member, a.clean),
                    verb(b.member, b.clean)
                ),
                count: 2,
                survived: *survived,
                crash: !a.clean && !b.clean,
            });
        let both = outlook.two_at_once.iter();
        let both = both
            .filter(|(a, b, _)| known(*a) && known(*b))
            .map(|(a, b, survived)| LossView {
                loss: format!("{} and {} at once", self.name_of(*a), self.name_of(*b)),
                count: 2,
                survived: *survived,
                crash: true,
            });
        one.chain(then).chain(both).collect()
    }
}

/// How many losses are survived whichever they are, of those that were looked at.
fn survives_any(losses: &[LossView]) -> u32 {
    let all = |count: u32| {
        let mut of = losses.iter().filter(|l| l.count == count).peekable();
        of.peek().is_some() && of.all(|l| l.survived)
    };
    match (all(1), all(2)) {
        (true, true) => 2,
        (true, false) => 1,
        (false, _) => 0,
    }
}
