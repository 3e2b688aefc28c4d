//! What the cluster agreed on beside votes: the body of a configuration. Nodes, witness, options, and who owns which group.
//!
//! It is JSON, so that a person can read a node's file and the witness' record.

use crate::codec::BODY_BYTES_MAX;
use daruma_group::transport::Fingerprint;
use daruma_quorum::{MEMBERS_MAX, MemberId, Members};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Letters of a name or an address.
pub const TEXT_CHARS_MAX: usize = 128;
/// Letters of a path.
pub const PATH_BYTES_MAX: usize = 1024;
/// Groups of a cluster.
pub const GROUPS_MAX: usize = 256;

/// Id of an availability group.
pub type GroupId = [u8; 16];

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterState {
    pub name: String,
    pub id: u128,
    /// In the order of their numbers.
    pub nodes: Vec<NodeState>,
    /// Numbers below were given away once, and are not given again.
    pub next_number: u8,
    pub witness: Option<WitnessPlace>,
    pub dynamic_quorum: bool,
    /// LowerQuorumPriorityNodeID.
    pub lower_priority: Option<u8>,
    /// Votes exactly as Windows has them.
    pub windows_rules: bool,
    /// SHA-256 of the certificate by which new nodes ask to be let in.
    pub join: Option<[u8; 32]>,
    pub groups: Vec<GroupState>,
}

/// A node as the cluster knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeState {
    pub number: u8,
    pub name: String,
    /// Where its cluster service listens, `host:port`.
    pub address: String,
    /// SHA-256 of its certificate.
    pub fingerprint: [u8; 32],
    /// NodeWeight.
    pub weight: bool,
    /// It left cleanly and has not come back.
    pub left: bool,
    /// It left for good: it never votes again, and is no member any more as soon as it is silent.
    #[serde(default)]
    pub gone: bool,
}

/// Where the witness' record is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessPlace {
    /// The folder that the nodes share, as each of them reaches it; `disk:` and the path for a disk; a URL for a cloud's storage.
    pub path: String,
    /// Drawn at random by each `set-witness`: a witness that forgot is another witness.
    pub id: u128,
}

/// What a witness' record is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WitnessKind {
    /// A folder.
    Share,
    /// A block device, or a file in its place.
    Disk,
    /// An object in S3 or Azure.
    Cloud,
}

const DISK_SCHEME: &str = "disk:";
const CLOUD_SCHEMES: [&str; 3] = ["s3://", "https://", "http://"];

/// Is this the URL of a place in a cloud's storage?
pub fn is_cloud(path: &str) -> bool {
    CLOUD_SCHEMES.iter().any(|scheme| path.starts_with(scheme))
}

impl WitnessPlace {
    /// A block device, or a file in its place.
    pub fn on_disk(path: &str, id: u128) -> WitnessPlace {
        let path = format!("{DISK_SCHEME}{path}");
        WitnessPlace { path, id }
    }

    /// What the record is kept in.
    pub fn kind(&self) -> WitnessKind {
        match self.path.as_str() {
            path if path.starts_with(DISK_SCHEME) => WitnessKind::Disk,
            path if is_cloud(path) => WitnessKind::Cloud,
            _ => WitnessKind::Share,
        }
    }

    /// Is it a URL with more than a place in it: a signature, or a name and its password?
    pub fn may_hold_a_secret(&self) -> bool {
        self.kind() == WitnessKind::Cloud && self.path.contains(['?', '#', '@'])
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        self.path.strip_prefix(DISK_SCHEME).unwrap_or(&self.path)
    }
}

/// Who may lead an availability group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupState {
    pub id: GroupId,
    pub name: String,
    /// Counts owners: a node acts for the group under one epoch only.
    pub epoch: u64,
    pub owner: Option<u8>,
    /// Nodes that have everything that was acknowledged.
    pub in_sync: Vec<u8>,
    /// Counts what the owner has said of `in_sync` in this epoch, so that what comes late does not count.
    #[serde(default)]
    pub said: u64,
    /// Nodes to which the group may move by itself, the preferred first.
    pub automatic: Vec<u8>,
}

impl ClusterState {
    /// The state of a cluster that begins with one node.
    pub fn first(name: String, id: u128, node: NodeState) -> ClusterState {
        ClusterState {
            name,
            id,
            next_number: node.number + 1,
            nodes: vec![node],
            witness: None,
            dynamic_quorum: true,
            lower_priority: None,
            windows_rules: false,
            join: None,
            groups: Vec::new(),
        }
    }

    /// As the body of a configuration.
    pub fn encode(&self) -> Arc<[u8]> {
        // Numbers, texts and lists of them are always JSON.
        Arc::from(serde_json::to_vec(self).unwrap_or_default())
    }

    /// `None`: it is no state, or one that breaks a bound.
    pub fn decode(body: &[u8]) -> Option<ClusterState> {
        if body.len() > BODY_BYTES_MAX {
            return None;
        }
        let state: ClusterState = serde_json::from_slice(body).ok()?;
        state.is_sound().then_some(state)
    }

    fn is_sound(&self) -> bool {
        let ordered = self
            .nodes
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.number < b.number));
        let numbers = self
            .nodes
            .iter()
            .all(|n| n.number < self.next_number && n.number < MEMBERS_MAX);
        let texts = self.nodes.iter().flat_map(|n| [&n.name, &n.address]);
        let short = texts
            .chain([&self.name])
            .all(|t| (1..=TEXT_CHARS_MAX).contains(&t.chars().count()));
        let place = self
            .witness
            .as_ref()
            .is_none_or(|w| w.path.len() <= PATH_BYTES_MAX);
        ordered && numbers && short && place && self.groups.len() <= GROUPS_MAX
    }

    /// A node by its number.
    pub fn node(&self, number: u8) -> Option<&NodeState> {
        self.nodes.iter().find(|n| n.number == number)
    }

    /// The same, to be changed.
    pub fn node_mut(&mut self, number: u8) -> Option<&mut NodeState> {
        self.nodes.iter_mut().find(|n| n.number == number)
    }

    /// Has the node left for good?
    pub fn is_gone(&self, member: MemberId) -> bool {
        self.node(member.number()).is_some_and(|n| n.gone)
    }

    /// A node by its name.
    pub fn named(&self, name: &str) -> Option<&NodeState> {
        self.nodes
            .iter()
            .find(|n| n.name.eq_ignore_ascii_case(name))
    }

    /// Those of the nodes that may be listed for a group: members that have not left for good. Owners say no others, and no others are taken
    /// from them, so that what was said is found as it was said.
    pub fn listable(&self, nodes: &[u8]) -> Vec<u8> {
        let may = |n: &&u8| self.node(**n).is_some_and(|node| !node.gone);
        nodes.iter().filter(may).copied().collect()
    }

    /// A node by its certificate.
    pub fn with_certificate(&self, fingerprint: Fingerprint) -> Option<MemberId> {
        let found = self.nodes.iter().find(|n| n.fingerprint == fingerprint.0)?;
        MemberId::node(found.number)
    }

    /// Takes a node out. Its number is not given again.
    pub(crate) fn remove_node(&mut self, number: u8) {
        self.nodes.retain(|n| n.number != number);
        self.forget_node(number);
    }

    /// Nothing is expected of the node any more: neither that it loses its vote first nor that it takes a group.
    pub(crate) fn forget_node(&mut self, number: u8) {
        self.lower_priority = self.lower_priority.filter(|n| *n != number);
        for group in &mut self.groups {
            group.in_sync.retain(|n| *n != number);
            group.automatic.retain(|n| *n != number);
        }
    }

    /// A group by its id.
    pub fn group(&self, id: &GroupId) -> Option<&GroupState> {
        self.groups.iter().find(|g| g.id == *id)
    }

    /// The same, to be changed.
    pub fn group_mut(&mut self, id: &GroupId) -> Option<&mut GroupState> {
        self.groups.iter_mut().find(|g| g.id == *id)
    }

    /// All nodes.
    pub fn members(&self) -> Members {
        self.those(|_| true)
    }

    /// Nodes with NodeWeight 1.
    pub fn weighted(&self) -> Members {
        self.those(|n| n.weight)
    }

    /// Nodes that left cleanly.
    pub fn left(&self) -> Members {
        self.those(|n| n.left)
    }

    /// Nodes that left for good.
    pub fn gone(&self) -> Members {
        self.those(|n| n.gone)
    }

    fn those(&self, wanted: impl Fn(&NodeState) -> bool) -> Members {
        let found = self.nodes.iter().filter(|n| wanted(n));
        found.filter_map(|n| MemberId::node(n.number)).collect()
    }
}
