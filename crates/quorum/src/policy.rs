//! Vote policy: which votes the leader should propose, as a pure function of what it sees.
//!
//! | rule | text |
//! |---|---|
//! | P1 | Reachable nodes with NodeWeight 1 that have not left vote. With a usable witness votes are not adjusted below three: voters that failed keep theirs until there are two. The witness votes if the nodes that vote are even. |
//! | P2 | No usable witness and an even number: one node loses its vote, the one that LowerQuorumPriorityNodeID names, or else the highest that does not lead. |
//! | P3 | Only votes of which a majority is reachable now are proposed: a vote given to the dead could stop the cluster. |
//!
//! Safety does not depend on this room: whatever it wants becomes true only by a quorum of the old votes and of the new.
//! Source of the rules: Microsoft's documents of cluster quorum in Windows Server 2012 R2 (dynamic quorum, dynamic witness).

use crate::planted::{Bug, planted};
use crate::votes::{MemberId, Members, WITNESS};

/// The witness as the leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Witness {
    /// None is configured.
    #[default]
    None,
    /// It answers.
    Usable,
    /// It is configured and does not answer, or has forgotten what it knew.
    Failed,
}

/// What becomes of the vote of a node that leaves cleanly while there is a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum WitnessRules {
    /// It gives its vote away in the same change, so that what stays needs nobody else.
    #[default]
    CleanLeave,
    /// Votes stay at three as if it had failed: exactly as Windows does.
    Windows,
}

/// What the leader knows when it asks for the votes that it should propose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Situation {
    /// Nodes with NodeWeight 1.
    pub weighted: Members,
    /// Nodes that answer, the leader among them.
    pub reachable: Members,
    /// Nodes that left cleanly and have not come back.
    pub left: Members,
    /// Votes of the settled configuration (DynamicWeight and WitnessDynamicWeight 1).
    pub votes: Members,
    /// The node that asks.
    pub leader: MemberId,
    /// The witness as the leader sees it.
    pub witness: Witness,
    /// DynamicQuorum: 0 leaves the nodes' votes alone, only the witness' vote moves.
    pub dynamic_quorum: bool,
    /// LowerQuorumPriorityNodeID.
    pub lower_priority: Option<MemberId>,
    /// What becomes of a clean leave beside a witness.
    pub rules: WitnessRules,
}

impl Situation {
    /// Members that answer, the witness too.
    pub fn answering(&self) -> Members {
        match self.witness {
            Witness::Usable => self.reachable.with(WITNESS),
            Witness::None | Witness::Failed => self.reachable,
        }
    }
}

/// The votes to propose; `None` where nothing sensible can be proposed and the present votes should stand.
pub fn wanted_votes(s: &Situation) -> Option<Members> {
    let nodes = match s.dynamic_quorum {
        true => voting_nodes(s),
        false => s.weighted,
    };
    let votes = balance(s, nodes);
    let reachable = s.answering().is_majority_of(votes) || planted(Bug::VotesForTheAbsent);
    (reachable && !votes.is_empty()).then_some(votes)
}

/// P1: nodes that vote, before the number is made odd.
fn voting_nodes(s: &Situation) -> Members {
    if planted(Bug::VotesForTheAbsent) {
        return s.weighted;
    }
    let present = s.reachable.intersection(s.weighted).difference(s.left);
    if s.witness != Witness::Usable {
        return present;
    }
    let failed = s
        .votes
        .only_nodes()
        .intersection(s.weighted)
        .difference(present);
    let kept = match s.rules {
        WitnessRules::CleanLeave => failed.difference(s.left),
        WitnessRules::Windows => failed,
    };
    let room = 2u32.saturating_sub(present.count()) as usize;
    kept.iter().take(room).fold(present, Members::with)
}

/// P1's end and P2: an odd number of votes.
fn balance(s: &Situation, nodes: Members) -> Members {
    let even = nodes.count().is_multiple_of(2);
    match (even, s.witness) {
        (false, _) => nodes,
        (true, Witness::Usable) if !nodes.is_empty() => nodes.with(WITNESS),
        (true, _) if s.dynamic_quorum => lower_one(s, nodes),
        (true, _) => nodes,
    }
}

fn lower_one(s: &Situation, nodes: Members) -> Members {
    let named = s.lower_priority.filter(|n| nodes.contains(*n));
    let loser = named.or_else(|| nodes.without(s.leader).iter().next_back());
    loser.map_or(nodes, |n| nodes.without(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> MemberId {
        MemberId::node(n).unwrap()
    }

    fn set(numbers: &[u8], witness: bool) -> Members {
        let nodes: Members = numbers.iter().map(|n| node(*n)).collect();
        if witness { nodes.with(WITNESS) } else { nodes }
    }

    fn healthy(nodes: u8, witness: Witness) -> Situation {
        let all = Members::nodes(nodes);
        Situation {
            weighted: all,
            reachable: all,
            left: Members::NONE,
            votes: all,
            leader: node(0),
            witness,
            dynamic_quorum: true,
            lower_priority: None,
            rules: WitnessRules::CleanLeave,
        }
    }

    #[test]
    fn a_witness_votes_beside_an_even_number_of_nodes_only() {
        assert_eq!(
            wanted_votes(&healthy(2, Witness::Usable)),
            Some(set(&[0, 1], true))
        );
        assert_eq!(
            wanted_votes(&healthy(3, Witness::Usable)),
            Some(set(&[0, 1, 2], false))
        );
        assert_eq!(
            wanted_votes(&healthy(2, Witness::Failed)),
            Some(set(&[0], false))
        );
    }

    #[test]
    fn the_named_node_loses_its_vote_even_if_it_leads() {
        let s = Situation {
            lower_priority: Some(node(0)),
            ..healthy(4, Witness::None)
        };
        assert_eq!(wanted_votes(&s), Some(set(&[1, 2, 3], false)));
        assert_eq!(
            wanted_votes(&healthy(4, Witness::None)),
            Some(set(&[0, 1, 2], false))
        );
    }

    #[test]
    fn beside_a_witness_a_failed_node_keeps_its_vote_and_one_that_left_does_not() {
        let failed = Situation {
            reachable: set(&[0], false),
            votes: set(&[0, 1], true),
            ..healthy(2, Witness::Usable)
        };
        assert_eq!(wanted_votes(&failed), Some(set(&[0, 1], true)));
        let left = Situation {
            left: set(&[1], false),
            ..failed
        };
        assert_eq!(wanted_votes(&left), Some(set(&[0], false)));
        let windows = Situation {
            rules: WitnessRules::Windows,
            ..left
        };
        assert_eq!(wanted_votes(&windows), Some(set(&[0, 1], true)));
    }

    #[test]
    fn nobody_votes_without_node_weight() {
        let s = Situation {
            weighted: set(&[0], false),
            ..healthy(2, Witness::Usable)
        };
        assert_eq!(wanted_votes(&s), Some(set(&[0], false)));
        let nobody = Situation {
            weighted: Members::NONE,
            ..healthy(2, Witness::Usable)
        };
        assert_eq!(wanted_votes(&nobody), None);
    }

    #[test]
    fn without_dynamic_quorum_only_the_witness_moves() {
        let s = Situation {
            dynamic_quorum: false,
            reachable: set(&[0, 1, 2], false),
            ..healthy(4, Witness::Usable)
        };
        assert_eq!(wanted_votes(&s), Some(set(&[0, 1, 2, 3], true)));
        let failed = Situation {
            witness: Witness::Failed,
            ..s
        };
        assert_eq!(wanted_votes(&failed), Some(set(&[0, 1, 2, 3], false)));
        let minority = Situation {
            reachable: set(&[0], false),
            ..failed
        };
        assert_eq!(wanted_votes(&minority), None);
    }
}
