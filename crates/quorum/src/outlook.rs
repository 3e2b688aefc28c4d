//! Outlook: which losses the cluster survives from here, told by the same rules that run it.
//!
//! A loss is survived when what is left has a quorum of the present votes, or comes to one by changes that hold a quorum
//! of the votes before and after, each in turn.

use crate::policy::{Situation, Witness, wanted_votes};
use crate::votes::{MemberId, Members, WITNESS};

/// One member that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loss {
    /// A node that answers, or the witness.
    pub member: MemberId,
    /// A node that leaves hands its vote over first, if it can; one that crashes does not. A witness never leaves cleanly.
    pub clean: bool,
}

/// What the cluster survives.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Outlook {
    /// Each single loss, and whether the cluster stays up.
    pub one: Vec<(Loss, bool)>,
    /// Each loss that is survived and then another, with time for the votes to follow.
    pub one_then_another: Vec<(Loss, Loss, bool)>,
    /// Each two crashes at the same moment.
    pub two_at_once: Vec<(MemberId, MemberId, bool)>,
}

/// Tells the outlook of a cluster that is up and at rest in this situation.
pub fn outlook(now: &Situation) -> Outlook {
    let mut outlook = Outlook::default();
    for first in losses(now) {
        let after = lose(now, first);
        outlook.one.push((first, after.is_some()));
        let Some(after) = after else { continue };
        for second in losses(&after) {
            outlook
                .one_then_another
                .push((first, second, lose(&after, second).is_some()));
        }
    }
    let members: Vec<MemberId> = now.answering().iter().collect();
    for (i, first) in members.iter().enumerate() {
        for second in &members[i + 1..] {
            let gone = Members::NONE.with(*first).with(*second);
            outlook
                .two_at_once
                .push((*first, *second, at_rest(without(now, gone)).is_some()));
        }
    }
    outlook
}

/// The situation after a loss, when the votes have followed; `None` if the cluster is down.
pub(crate) fn lose(now: &Situation, loss: Loss) -> Option<Situation> {
    let leaving = Members::NONE.with(loss.member).only_nodes();
    let mut now = *now;
    if loss.clean {
        now.left = now.left.union(leaving);
        // The node answers until its vote is gone; whether it is then gone or not, it stops.
        now = at_rest(now)?;
    }
    at_rest(without(&now, Members::NONE.with(loss.member)))
}

/// Every loss that can happen now.
fn losses(now: &Situation) -> Vec<Loss> {
    let mut losses: Vec<Loss> = now
        .answering()
        .iter()
        .map(|member| Loss {
            member,
            clean: false,
        })
        .collect();
    losses.extend(now.reachable.iter().map(|member| Loss {
        member,
        clean: true,
    }));
    losses
}

fn without(now: &Situation, gone: Members) -> Situation {
    let mut after = *now;
    after.reachable = now.reachable.difference(gone);
    if gone.contains(WITNESS) && now.witness == Witness::Usable {
        after.witness = Witness::Failed;
    }
    after
}

/// Lets the votes follow until nothing changes any more. `None`: no quorum.
pub(crate) fn at_rest(mut now: Situation) -> Option<Situation> {
    // Each round either ends or moves votes towards what is reachable; twice the members is more than it can take.
    for _ in 0..2 * u16::BITS {
        if !now.answering().is_majority_of(now.votes) {
            return None;
        }
        if !now.reachable.contains(now.leader) || now.left.contains(now.leader) {
            now.leader = now
                .reachable
                .intersection(now.votes)
                .difference(now.left)
                .iter()
                .next()?;
        }
        match wanted_votes(&now) {
            Some(votes) if votes != now.votes && now.answering().is_majority_of(votes) => {
                now.votes = votes
            }
            _ => return Some(now),
        }
    }
    Some(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::WitnessRules;

    fn cluster(nodes: u8, witness: Witness, rules: WitnessRules) -> Situation {
        let all = Members::nodes(nodes);
        let start = Situation {
            weighted: all,
            reachable: all,
            left: Members::NONE,
            votes: all,
            leader: MemberId::node(0).unwrap(),
            witness,
            dynamic_quorum: true,
            lower_priority: None,
            rules,
        };
        at_rest(start).unwrap()
    }

    /// How many of the crashes of nodes in a column are survived: none, some or all.
    fn verdict(survived: impl Iterator<Item = bool>) -> &'static str {
        let all: Vec<bool> = survived.collect();
        match all.iter().filter(|s| **s).count() {
            0 => "no",
            n if n == all.len() => "yes",
            _ => "some",
        }
    }

    /// The published table of what two to five nodes survive.
    #[test]
    fn crashes_of_nodes_are_survived_as_the_table_says() {
        let rows = [
            (2, Witness::None, ["some", "no", "no"]),
            (2, Witness::Usable, ["yes", "no", "no"]),
            (3, Witness::None, ["yes", "some", "no"]),
            (3, Witness::Usable, ["yes", "yes", "no"]),
            (4, Witness::None, ["yes", "yes", "some"]),
            (4, Witness::Usable, ["yes", "yes", "yes"]),
            (5, Witness::None, ["yes", "yes", "yes"]),
        ];
        for (nodes, witness, expected) in rows {
            let o = outlook(&cluster(nodes, witness, WitnessRules::Windows));
            let node = |l: &Loss| !l.clean && l.member != WITNESS;
            let one = verdict(o.one.iter().filter(|(l, _)| node(l)).map(|(_, s)| *s));
            let then = o
                .one_then_another
                .iter()
                .filter(|(a, b, _)| node(a) && node(b));
            let then = verdict(then.map(|(_, _, s)| *s));
            let both = o
                .two_at_once
                .iter()
                .filter(|(a, b, _)| *a != WITNESS && *b != WITNESS);
            let both = verdict(both.map(|(_, _, s)| *s));
            assert_eq!([one, then, both], expected, "{nodes} nodes, {witness:?}");
        }
    }

    #[test]
    fn a_node_that_leaves_cleanly_costs_nothing_later() {
        let witness = MemberId::node(1).unwrap();
        let leave = Loss {
            member: witness,
            clean: true,
        };
        let share = Loss {
            member: WITNESS,
            clean: false,
        };
        let told = |rules| {
            let after = lose(&cluster(2, Witness::Usable, rules), leave)
                .expect("one node and the share are two of three");
            lose(&after, share).is_some()
        };
        assert!(
            told(WitnessRules::CleanLeave),
            "the vote went with the node"
        );
        assert!(!told(WitnessRules::Windows), "one of three is no majority");
    }

    #[test]
    fn the_share_first_and_then_the_voteless_node_is_survived() {
        let after = lose(
            &cluster(2, Witness::Usable, WitnessRules::Windows),
            Loss {
                member: WITNESS,
                clean: false,
            },
        )
        .unwrap();
        assert_eq!(after.votes.count(), 1);
        let voteless = Members::nodes(2)
            .difference(after.votes)
            .iter()
            .next()
            .unwrap();
        assert!(
            lose(
                &after,
                Loss {
                    member: voteless,
                    clean: false
                }
            )
            .is_some()
        );
        let voter = after.votes.iter().next().unwrap();
        assert!(
            lose(
                &after,
                Loss {
                    member: voter,
                    clean: false
                }
            )
            .is_none()
        );
    }

    #[test]
    fn without_node_weight_the_share_does_not_matter() {
        let only_first = Situation {
            weighted: Members::nodes(1),
            ..cluster(2, Witness::Usable, WitnessRules::Windows)
        };
        let start = at_rest(only_first).unwrap();
        assert_eq!(start.votes, Members::nodes(1));
        let second = MemberId::node(1).unwrap();
        let after = lose(
            &start,
            Loss {
                member: second,
                clean: false,
            },
        )
        .unwrap();
        assert!(
            lose(
                &after,
                Loss {
                    member: WITNESS,
                    clean: false
                }
            )
            .is_some()
        );
    }
}
