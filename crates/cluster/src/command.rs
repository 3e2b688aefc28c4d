//! What administrators and groups want of the cluster, and what becomes of it.

use crate::state::{ClusterState, GROUPS_MAX, GroupId, GroupState, NodeState, WitnessPlace};
use daruma_quorum::{MEMBERS_MAX, MemberId, Members, WITNESS};
use serde::{Deserialize, Serialize};

/// A forced quorum raises epochs by so much: more owners than the nodes that were given up may have named meanwhile.
const FORCED_STEP: u64 = 1 << 16;

/// A wish. The leader carries it out; any node passes it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// What `daruma cluster show` tells.
    Show,
    /// A node that showed the join certificate.
    AddNode {
        name: String,
        address: String,
        fingerprint: [u8; 32],
    },
    /// The node is no member any more.
    Evict {
        node: u8,
    },
    /// The node that asks leaves for good: its vote goes in the same change, and the member when it is silent. Done when those who stay
    /// know that it has settled, so that nobody needs anything of the node.
    Leave,
    /// Could the node that asks leave, once the groups that it owns have gone where they may go by themselves? Nothing is changed.
    MayLeave,
    NodeWeight {
        node: u8,
        weight: bool,
    },
    /// LowerQuorumPriorityNodeID.
    Priority {
        node: Option<u8>,
    },
    DynamicQuorum {
        on: bool,
    },
    WindowsRules {
        on: bool,
    },
    /// A witness in a new place, or none.
    SetWitness {
        place: Option<WitnessPlace>,
    },
    /// The certificate by which nodes join from now on.
    SetJoin {
        fingerprint: Option<[u8; 32]>,
    },
    /// A group that begins on the node that asks.
    CreateGroup {
        group: GroupId,
        name: String,
        automatic: Vec<u8>,
    },
    /// The owner has ended the group.
    DropGroup {
        group: GroupId,
        epoch: u64,
    },
    /// The owner's word: who has everything, and where the group may go by itself. `said` counts its words in this epoch: an earlier
    /// one that comes late is refused.
    SetGroup {
        group: GroupId,
        epoch: u64,
        said: u64,
        in_sync: Vec<u8>,
        automatic: Vec<u8>,
    },
    /// The owner has stopped to act, for good in this epoch. `to`: a node of `in_sync`, or whoever comes first.
    Release {
        group: GroupId,
        epoch: u64,
        to: Option<u8>,
    },
    /// The owner was restarted and wants an epoch of its own.
    Reclaim {
        group: GroupId,
        epoch: u64,
    },
    /// By order of an administrator: the node that asks becomes the owner, whatever it lacks.
    Take {
        group: GroupId,
        epoch: u64,
    },
}

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Done,
    /// The node's number and the configuration that it begins with, as bytes.
    Added {
        number: u8,
        configuration: Vec<u8>,
    },
    /// What [`Command::Show`] asked for, as JSON.
    Shown(String),
    Refused(String),
    /// Nobody leads, or the leader was lost on the way: it may have happened, or happen yet.
    Unknown(String),
}

impl Outcome {
    /// `Err`: why it is not so, as far as is known.
    pub fn agreed(self) -> Result<(), String> {
        match self {
            Outcome::Refused(why) | Outcome::Unknown(why) => Err(why),
            Outcome::Done | Outcome::Added { .. } | Outcome::Shown(_) => Ok(()),
        }
    }
}

/// The next step of a wish.
#[derive(Debug)]
pub(crate) enum Step {
    /// It is so.
    Done,
    /// This state is to be agreed on.
    Propose(ClusterState),
    /// This state, and the votes of those who have weight in it, are to be agreed on together.
    ProposeVotes(ClusterState),
    /// A change of votes has to come first.
    Wait,
    Refused(String),
}

fn refused(text: impl Into<String>) -> Step {
    Step::Refused(text.into())
}

impl Command {
    /// A wish that may take the lead from whoever carries it out: who asks says it to the next leader, who goes on with it.
    pub(crate) fn is_said_again(&self) -> bool {
        matches!(self, Command::Evict { .. } | Command::Leave)
    }

    /// What has to be done next, given what the cluster has agreed on. A step that was done twice is done once.
    pub(crate) fn step(&self, from: MemberId, state: &ClusterState, votes: Members) -> Step {
        let mut next = state.clone();
        match self {
            Command::Show | Command::MayLeave => return Step::Done,
            Command::AddNode {
                name,
                address,
                fingerprint,
            } => return add_node(next, name, address, *fingerprint),
            Command::Evict { node } => return evict(next, *node, votes),
            Command::Leave => return leave(next, from),
            Command::NodeWeight { node, weight } => {
                let Some(node) = next.node_mut(*node).filter(|n| !n.gone) else {
                    return no_node(*node);
                };
                node.weight = *weight;
                if next.weighted().is_empty() {
                    return refused("a cluster in which no node may vote could never act");
                }
            }
            Command::Priority { node } => {
                if let Some(number) = node.filter(|n| state.node(*n).is_none()) {
                    return no_node(number);
                }
                next.lower_priority = *node;
            }
            Command::DynamicQuorum { on } => next.dynamic_quorum = *on,
            Command::WindowsRules { on } => next.windows_rules = *on,
            Command::SetWitness { place } => {
                if state.witness != *place && votes.contains(WITNESS) {
                    return Step::Wait;
                }
                next.witness.clone_from(place);
            }
            Command::SetJoin { fingerprint } => next.join = *fingerprint,
            Command::CreateGroup {
                group,
                name,
                automatic,
            } => return create_group(next, from, *group, name, automatic),
            Command::DropGroup { group, epoch } => {
                let is_there = next.group(group).is_some();
                if is_there && owned(&mut next, group, *epoch, from).is_none() {
                    return refused("another epoch of the group has begun");
                }
                next.groups.retain(|g| g.id != *group);
            }
            Command::SetGroup {
                group,
                epoch,
                said,
                in_sync,
                automatic,
            } => match owned(&mut next, group, *epoch, from) {
                Some(found) if found.said > *said => return refused("a later word has come"),
                Some(found) => {
                    found.said = *said;
                    found.in_sync = state.listable(in_sync);
                    found.automatic = state.listable(automatic);
                }
                None => return refused("another epoch of the group has begun"),
            },
            Command::Release { group, epoch, to } => {
                return release(next, group, *epoch, *to, from);
            }
            Command::Reclaim { group, epoch } => match owned(&mut next, group, *epoch, from) {
                Some(found) => found.pass_to(from.number()),
                // It has been done, or somebody else owns the group.
                None => return Step::Done,
            },
            Command::Take { .. } if state.is_gone(from) => return refused(LEFT),
            Command::Take { group, epoch } => match next.group_mut(group) {
                Some(found) if found.epoch == *epoch => found.pass_to(from.number()),
                Some(found) if found.owner == Some(from.number()) => return Step::Done,
                Some(_) => return refused("another epoch of the group has begun"),
                None => return refused("the cluster does not know the group"),
            },
        }
        match next == *state {
            true => Step::Done,
            false => Step::Propose(next),
        }
    }
}

impl GroupState {
    /// Another owner, or the same one anew. Nodes that have everything go on having it until the new owner acknowledges something,
    /// before which it says who has that: so there is somebody to name if it dies first. One that lacks something, and acts by an
    /// administrator's word, makes all others lack what is only there.
    pub(crate) fn pass_to(&mut self, node: u8) {
        self.epoch += 1;
        self.owner = Some(node);
        self.said = 0;
        if !self.in_sync.contains(&node) {
            self.in_sync = vec![node];
        }
    }

    /// Nobody is known to have everything, and no epoch that was given before counts: nobody acts before an administrator says who.
    pub(crate) fn orphan(&mut self) {
        self.epoch = self.epoch.saturating_add(FORCED_STEP);
        self.owner = None;
        self.in_sync.clear();
        self.said = 0;
    }
}

const LEFT: &str = "the node has left the cluster for good";

fn no_node(number: u8) -> Step {
    refused(format!("node {number} is no member"))
}

fn owned<'a>(
    state: &'a mut ClusterState,
    group: &GroupId,
    epoch: u64,
    from: MemberId,
) -> Option<&'a mut GroupState> {
    let found = state.group_mut(group)?;
    (found.epoch == epoch && found.owner == Some(from.number())).then_some(found)
}

fn add_node(mut next: ClusterState, name: &str, address: &str, fingerprint: [u8; 32]) -> Step {
    let known = |n: &&NodeState| n.fingerprint == fingerprint;
    if next.nodes.iter().any(|n| known(&n)) {
        return Step::Done;
    }
    if next.named(name).is_some() {
        return refused(format!(
            "a node called {name} is a member; evict it first if it is gone for good"
        ));
    }
    if next.next_number >= MEMBERS_MAX {
        return refused("numbers of nodes are used up: a cluster gives out 15 in its life");
    }
    next.nodes.push(NodeState {
        number: next.next_number,
        name: name.to_string(),
        address: address.to_string(),
        fingerprint,
        weight: true,
        left: false,
        gone: false,
    });
    next.next_number += 1;
    match ClusterState::decode(&next.encode()) {
        Some(_) => Step::Propose(next),
        None => refused("a name or an address is too long"),
    }
}

/// The vote goes first, the member then.
fn evict(mut next: ClusterState, number: u8, votes: Members) -> Step {
    let has_vote = MemberId::node(number).is_some_and(|n| votes.contains(n));
    if next.groups.iter().any(|g| g.owner == Some(number)) {
        return refused("the node owns an availability group; move or drop it first");
    }
    let others = next.weighted().iter().any(|n| n.number() != number);
    let Some(node) = next.node_mut(number) else {
        return Step::Done;
    };
    if !others {
        return refused("no other node may vote");
    }
    if has_vote {
        if node.left && !node.weight {
            return Step::Wait;
        }
        (node.left, node.weight) = (true, false);
        return Step::Propose(next);
    }
    next.remove_node(number);
    Step::Propose(next)
}

/// Vote and member go in one change; only the entry stays until the node is silent, so that it hears what became of it.
fn leave(mut next: ClusterState, from: MemberId) -> Step {
    let number = from.number();
    let owned = next.groups.iter().find(|g| g.owner == Some(number));
    if let Some(group) = owned {
        return refused(format!(
            "the node owns availability group '{}', and no other node can take it now; move or drop it first",
            group.name
        ));
    }
    let others = next.weighted().without(from);
    let Some(node) = next.node_mut(number) else {
        return Step::Done;
    };
    if node.gone {
        return Step::Done;
    }
    if others.is_empty() {
        return refused("no other node may vote: a cluster without this node could never act");
    }
    (node.left, node.weight, node.gone) = (true, false, true);
    next.forget_node(number);
    Step::ProposeVotes(next)
}

fn create_group(
    mut next: ClusterState,
    from: MemberId,
    group: GroupId,
    name: &str,
    automatic: &[u8],
) -> Step {
    if next.is_gone(from) {
        return refused(LEFT);
    }
    if let Some(found) = next.group(&group) {
        return match found.owner == Some(from.number()) {
            true => Step::Done,
            false => refused("another node owns the group"),
        };
    }
    if next.groups.len() >= GROUPS_MAX {
        return refused(format!("a cluster has at most {GROUPS_MAX} groups"));
    }
    next.groups.push(GroupState {
        id: group,
        name: name.to_string(),
        epoch: 1,
        owner: Some(from.number()),
        in_sync: vec![from.number()],
        said: 0,
        automatic: automatic.to_vec(),
    });
    match ClusterState::decode(&next.encode()) {
        Some(_) => Step::Propose(next),
        None => refused("the cluster's state would be too long"),
    }
}

fn release(
    mut next: ClusterState,
    group: &GroupId,
    epoch: u64,
    to: Option<u8>,
    from: MemberId,
) -> Step {
    let Some(found) = owned(&mut next, group, epoch, from) else {
        return Step::Done;
    };
    match to {
        Some(to) if !found.in_sync.contains(&to) => {
            return refused("the node is not known to have everything");
        }
        Some(to) => found.pass_to(to),
        None => {
            found.epoch += 1;
            found.owner = None;
            found.said = 0;
        }
    }
    Step::Propose(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = [7; 16];

    fn member(number: u8) -> MemberId {
        MemberId::node(number).expect("a node")
    }

    /// Node 1 owns a group that node 2 may take.
    fn state() -> ClusterState {
        let node = |number: u8| NodeState {
            number,
            name: format!("n{number}"),
            address: "h:1".into(),
            fingerprint: [number; 32],
            weight: true,
            left: false,
            gone: false,
        };
        let mut state = ClusterState::first("c".into(), 1, node(1));
        state.nodes.push(node(2));
        state.next_number = 3;
        state.groups.push(GroupState {
            id: GROUP,
            name: "g".into(),
            epoch: 3,
            owner: Some(1),
            in_sync: vec![1, 2],
            said: 0,
            automatic: vec![2],
        });
        state
    }

    /// Or the owner would say it again without end.
    #[test]
    fn an_owner_finds_what_it_has_said_beside_a_node_that_left_for_good() {
        let Step::ProposeVotes(mut state) = Command::Leave.step(member(2), &state(), Members::NONE)
        else {
            panic!("it may leave");
        };
        for said in 1..4 {
            // As `hadr::listing` does.
            let group = state.groups[0].clone();
            let (in_sync, automatic) = (state.listable(&[1, 2, 9]), state.listable(&[2]));
            let is_known = group.in_sync == in_sync && group.automatic == automatic;
            assert_eq!((is_known, in_sync.as_slice()), (true, [1].as_slice()));
            let word = Command::SetGroup {
                group: GROUP,
                epoch: 3,
                said,
                in_sync: vec![1, 2, 9],
                automatic: vec![2],
            };
            match word.step(member(1), &state, Members::NONE) {
                Step::Propose(next) => state = next,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn only_the_owner_of_this_epoch_ends_a_group() {
        let group = GROUP;
        let (owner, other) = (member(1), member(2));
        let state = state();
        let end = |from, group, epoch| {
            let votes = Members::default();
            Command::DropGroup { group, epoch }.step(from, &state, votes)
        };
        assert!(matches!(end(owner, group, 2), Step::Refused(_)));
        assert!(matches!(end(other, group, 3), Step::Refused(_)));
        assert!(matches!(end(owner, group, 3), Step::Propose(next) if next.groups.is_empty()));
        assert!(
            matches!(end(owner, [8; 16], 3), Step::Done),
            "it has been done"
        );
    }
}
