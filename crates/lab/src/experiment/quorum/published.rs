//! What the article and Microsoft's documents say, and where this cluster is known to do otherwise.

use self::Who::{Share, Voteless, Voter};
use crate::report::Source;
use serde::Serialize;

/// The article, and what it says of its machines.
pub fn source() -> Source {
    Source {
        text: "Published: \"Dynamic Quorum and Dynamic Witness in Windows 2012 R2\", 28 July 2017 (the cluster ASTCL-DUO of the nodes Batman and \
               Robin); Microsoft's table of the losses that clusters of Windows Server survive (\"Understanding cluster and pool quorum\")."
            .into(),
        setting: "The article's tables are pictures: what stands in them is taken from its sentences. Behaviour is compared, not time."
            .into(),
    }
}

/// What a step of the article shows: Get-Cluster, Get-ClusterNode, and whether the cluster goes on. DynamicQuorum is 1 and Batman is up
/// with both weights 1 all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub witness_dynamic_weight: u8,
    pub robin_dynamic_weight: u8,
    pub robin_node_weight: u8,
    pub robin_is_up: bool,
    pub goes_on: bool,
}

/// What is done in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Both nodes vote and there is a share.
    Begin,
    /// Robin's service is stopped, as an administrator does it.
    StopRobin,
    /// The share is turned off.
    ShareOff,
    /// The share is back, Robin is started again, and its vote taken away.
    Again,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub name: &'static str,
    pub act: Act,
    pub published: Shown,
    /// Where this cluster does otherwise: what it shows, and why.
    pub ours: Option<(Shown, &'static str)>,
    /// The same by Windows' rules.
    pub by_windows_rules: Option<(Shown, &'static str)>,
}

impl Step {
    /// What is expected here.
    pub fn expected(&self, windows_rules: bool) -> Shown {
        self.known(windows_rules).map_or(self.published, |k| k.0)
    }

    /// Why that is not what was published.
    pub fn why(&self, windows_rules: bool) -> Option<&'static str> {
        self.known(windows_rules).map(|k| k.1)
    }

    fn known(&self, windows_rules: bool) -> Option<(Shown, &'static str)> {
        match windows_rules {
            true => self.by_windows_rules,
            false => self.ours,
        }
    }
}

const fn shown(witness: u8, robin: (u8, u8), robin_is_up: bool, goes_on: bool) -> Shown {
    Shown {
        witness_dynamic_weight: witness,
        robin_dynamic_weight: robin.0,
        robin_node_weight: robin.1,
        robin_is_up,
        goes_on,
    }
}

const GIVEN_AWAY: &str = "A node that is stopped in order gives its vote away (clean leave), so Batman alone is one of one; Windows keeps \
     the vote beside a witness.";
const NEEDS_NOBODY: &str = "Robin's vote went when it was stopped, so Batman needs neither it nor the share; in the article one of \
     three was left, and the cluster stopped.";
const ODD: &str = "The article's sentence says that the witness' weight became 1. Its reason, an odd number of votes that needs no witness, and \
     that nothing happens when the share goes, mean 0.";

/// The article's two scenarios.
pub const STEPS: [Step; 6] = [
    Step {
        name: "1a: both nodes vote, and a share",
        act: Act::Begin,
        published: shown(1, (1, 1), true, true),
        ours: None,
        by_windows_rules: None,
    },
    Step {
        name: "1b: Robin's service is stopped",
        act: Act::StopRobin,
        published: shown(1, (1, 1), false, true),
        ours: Some((shown(0, (0, 1), false, true), GIVEN_AWAY)),
        by_windows_rules: None,
    },
    Step {
        name: "1c: the share goes, too",
        act: Act::ShareOff,
        published: shown(1, (1, 1), false, false),
        ours: Some((shown(0, (0, 1), false, true), NEEDS_NOBODY)),
        by_windows_rules: None,
    },
    Step {
        name: "2a: Robin is back and has no vote",
        act: Act::Again,
        published: shown(1, (0, 0), true, true),
        ours: Some((shown(0, (0, 0), true, true), ODD)),
        by_windows_rules: Some((shown(0, (0, 0), true, true), ODD)),
    },
    Step {
        name: "2b: Robin's service is stopped",
        act: Act::StopRobin,
        published: shown(1, (0, 0), false, true),
        ours: Some((shown(0, (0, 0), false, true), ODD)),
        by_windows_rules: Some((shown(0, (0, 0), false, true), ODD)),
    },
    Step {
        name: "2c: the share goes, too",
        act: Act::ShareOff,
        published: shown(1, (0, 0), false, true),
        ours: Some((shown(0, (0, 0), false, true), ODD)),
        by_windows_rules: Some((shown(0, (0, 0), false, true), ODD)),
    },
];

/// What is lost: a member of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Who {
    /// A node with a vote, the leader if it has one.
    Voter,
    /// A node that has none just now.
    Voteless,
    /// The witness' folder.
    Share,
}

/// Losses one after the other, each of one member or of several at once. All but the last are survived.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub losses: &'static [&'static [Who]],
    pub survives: bool,
}

/// A row of Microsoft's table, and how it is played: each kind of loss once.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub nodes: usize,
    pub witness: bool,
    /// One loss; one, then another; two at once.
    pub published: [&'static str; 3],
    pub paths: &'static [Path],
}

impl Row {
    /// `3 nodes and a witness`.
    pub fn name(&self) -> String {
        match self.witness {
            true => format!("{} nodes and a witness", self.nodes),
            false => format!("{} nodes", self.nodes),
        }
    }
}

const fn survives(losses: &'static [&'static [Who]]) -> Path {
    Path {
        losses,
        survives: true,
    }
}

const fn ends(losses: &'static [&'static [Who]]) -> Path {
    Path {
        losses,
        survives: false,
    }
}

/// Losses of nodes. Where nobody is left there is nothing to be played.
#[rustfmt::skip]
pub const ROWS: [Row; 8] = [
    Row { nodes: 2, witness: false, published: ["50/50", "no", "no"], paths: &[survives(&[&[Voteless]]), ends(&[&[Voter]])] },
    Row { nodes: 2, witness: true, published: ["yes", "no", "no"], paths: &[survives(&[&[Voter]])] },
    Row { nodes: 3, witness: false, published: ["yes", "50/50", "no"],
        paths: &[survives(&[&[Voter], &[Voteless]]), ends(&[&[Voter], &[Voter]]), ends(&[&[Voter, Voter]])] },
    Row { nodes: 3, witness: true, published: ["yes", "yes", "no"],
        paths: &[survives(&[&[Voter], &[Voter]]), ends(&[&[Voter, Voter]])] },
    Row { nodes: 4, witness: false, published: ["yes", "yes", "50/50"],
        paths: &[survives(&[&[Voter], &[Voter]]), survives(&[&[Voteless], &[Voter]]), survives(&[&[Voter, Voteless]]), ends(&[&[Voter, Voter]])] },
    Row { nodes: 4, witness: true, published: ["yes", "yes", "yes"],
        paths: &[survives(&[&[Voter], &[Voter]]), survives(&[&[Voter, Voter]])] },
    Row { nodes: 5, witness: false, published: ["yes", "yes", "yes"],
        paths: &[survives(&[&[Voter], &[Voter]]), survives(&[&[Voter, Voter]])] },
    Row { nodes: 5, witness: true, published: ["yes", "yes", "yes"],
        paths: &[survives(&[&[Voter], &[Voter]]), survives(&[&[Voter, Voter]])] },
];

/// A share that goes beside two nodes: the order matters, as votes follow only while there is a quorum. A quick
/// run plays the first two.
pub const SHARE_PATHS: [Path; 4] = [
    survives(&[&[Share], &[Voteless]]),
    ends(&[&[Voter], &[Share]]),
    ends(&[&[Share], &[Voter]]),
    ends(&[&[Voter, Share]]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_done_otherwise_is_explained() {
        for step in STEPS {
            for rules in [false, true] {
                let is_same = step.expected(rules) == step.published;
                assert_eq!(is_same, step.why(rules).is_none(), "{}", step.name);
            }
        }
    }

    #[test]
    fn paths_say_what_the_table_says() {
        for row in ROWS {
            let cell = |wanted: fn(&Path) -> bool| {
                let found: Vec<bool> = row
                    .paths
                    .iter()
                    .filter(|p| wanted(p))
                    .map(|p| p.survives)
                    .collect();
                match (found.contains(&true), found.contains(&false)) {
                    (true, true) => "50/50",
                    (true, false) => "yes",
                    _ => "no",
                }
            };
            let then = cell(|p| p.losses.len() == 2);
            let both = cell(|p| p.losses.len() == 1 && p.losses[0].len() == 2);
            assert_eq!(row.published[1..], [then, both], "{}", row.name());
        }
    }
}
