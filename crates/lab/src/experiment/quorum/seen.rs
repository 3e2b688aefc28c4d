//! What `daruma cluster show --json` tells, as far as the experiment reads it.

use serde::{Deserialize, Serialize};

/// A cluster as one of its nodes shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Seen {
    pub name: String,
    pub leader: Option<String>,
    /// Is there a quorum, as far as that node knows?
    pub quorum: bool,
    pub dynamic_quorum: bool,
    pub witness: Option<WitnessSeen>,
    pub witness_dynamic_weight: u8,
    pub nodes: Vec<NodeSeen>,
    #[serde(default)]
    pub groups: Vec<GroupSeen>,
}

/// A group, as far as the cluster knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct GroupSeen {
    pub owner: Option<String>,
    /// Counts owners.
    #[serde(default)]
    pub epoch: u64,
    /// Nodes that have everything that was acknowledged.
    pub in_sync: Vec<String>,
}

/// The witness of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct WitnessSeen {
    /// `Online` or `Failed`.
    pub state: String,
}

/// One node, as the article's second table has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeSeen {
    pub name: String,
    pub dynamic_weight: u8,
    pub node_weight: u8,
    /// `Up` or `Down`.
    pub state: String,
}

impl NodeSeen {
    /// Does it answer?
    pub fn is_up(&self) -> bool {
        self.state == "Up"
    }
}

impl Seen {
    /// A node by its name.
    pub fn node(&self, name: &str) -> Option<&NodeSeen> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// Votes of the nodes, and of the witness.
    pub fn votes(&self) -> Votes {
        Votes {
            nodes: self.nodes.iter().map(|n| u32::from(n.dynamic_weight)).sum(),
            witness: u32::from(self.witness_dynamic_weight),
        }
    }

    /// Does the witness answer?
    pub fn has_witness(&self) -> bool {
        self.witness.as_ref().is_some_and(|w| w.state == "Online")
    }

    /// Nodes that answer.
    pub fn up(&self) -> usize {
        self.nodes.iter().filter(|n| n.is_up()).count()
    }
}

/// How many votes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Votes {
    pub nodes: u32,
    pub witness: u32,
}

impl Votes {
    /// The votes of a cluster in which so many nodes answer and all failures were crashes: with a witness an odd number, never adjusted
    /// below three; without one an odd number of nodes.
    pub fn after(up: usize, has_witness: bool) -> Votes {
        let up = up as u32;
        match has_witness {
            true => {
                let nodes = up.max(2);
                let witness = u32::from(nodes.is_multiple_of(2));
                Votes { nodes, witness }
            }
            false => Votes {
                nodes: up - u32::from(up.is_multiple_of(2) && up > 0),
                witness: 0,
            },
        }
    }

    /// `2 + 1`: nodes and witness.
    pub fn text(self) -> String {
        format!("{} + {}", self.nodes, self.witness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_are_odd_and_a_witness_keeps_three() {
        let of = |up, witness| Votes::after(up, witness).text();
        assert_eq!([of(5, false), of(4, false)], ["5 + 0", "3 + 0"]);
        assert_eq!([of(2, false), of(1, false)], ["1 + 0", "1 + 0"]);
        assert_eq!([of(4, true), of(3, true)], ["4 + 1", "3 + 0"]);
        assert_eq!([of(2, true), of(1, true)], ["2 + 1", "2 + 1"]);
    }

    #[test]
    fn what_a_node_shows_is_read() {
        let text = r#"{"name":"c","id":"0","told_by":"A","leader":"A","quorum":true,"dynamic_quorum":true,"lower_priority":null,
            "windows_rules":false,"witness":{"path":"/s","state":"Online"},"witness_dynamic_weight":1,"nodes":[
            {"number":0,"name":"A","address":"a:1","dynamic_weight":1,"node_weight":1,"state":"Up"},
            {"number":1,"name":"B","address":"b:1","dynamic_weight":1,"node_weight":1,"state":"Down"}],
            "groups":[],"losses":[],"survives_any":0}"#;
        let seen: Seen = serde_json::from_str(text).expect("JSON");
        assert_eq!(seen.votes().text(), "2 + 1");
        assert!(seen.has_witness() && seen.up() == 1);
        assert!(seen.node("B").is_some_and(|n| !n.is_up()));
    }
}
