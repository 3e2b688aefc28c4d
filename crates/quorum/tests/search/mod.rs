//! A search through every order of events of a small cluster: messages are delayed, repeated, reordered and lost without
//! bound, nodes crash and keep what is on disk.
//!
//! Property: settled configurations form one chain, each built on the settled one before it. States are kept as 64-bit
//! hashes: with ten million of them the chance that two share one is about one in 400,000.

use daruma_quorum::{
    Configuration, MemberId, Members, Message, Node, Output, Register, Role, Version, WITNESS,
};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet};
#[cfg(feature = "planted-bugs")]
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How large a search is.
#[derive(Clone, Debug)]
pub struct Scope {
    pub nodes: u8,
    pub witness: bool,
    /// Highest term in which somebody stands; the cluster begins in term 1.
    pub terms: u64,
    /// Changes of votes that are proposed in all.
    pub changes: u8,
    pub crashes: u8,
    /// Whether nodes take newer configurations from where they see them.
    pub adopts: bool,
    /// What goes wrong beyond what the machine is made for.
    pub harm: Harm,
}

/// Wrong drivers: each breaks a promise that the machine relies on, and must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    None,
    /// Answers leave before the register is on disk.
    ReplyBeforeFlush,
    /// The witness' record is replaced by the one it was created with.
    RestoredWitness,
}

type Sent = (MemberId, MemberId, Message);

#[derive(Clone, Hash)]
struct World {
    nodes: Vec<Node>,
    disk: Vec<Register>,
    witness: Option<Register>,
    sent: BTreeSet<SentKey>,
    /// Origins of what has settled, in order.
    settled: Vec<Version>,
    changes: u8,
    crashes: u8,
}

/// A message in flight: its place in the order is its debug text's hash, so that the set needs no order of messages.
#[derive(Clone, Debug)]
struct SentKey(u64, Arc<Sent>);

impl SentKey {
    fn new(sent: Sent) -> SentKey {
        SentKey(hash_of(&sent), Arc::new(sent))
    }
}

impl PartialEq for SentKey {
    fn eq(&self, other: &SentKey) -> bool {
        self.0 == other.0
    }
}
impl Eq for SentKey {}
impl PartialOrd for SentKey {
    fn partial_cmp(&self, other: &SentKey) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for SentKey {
    fn cmp(&self, other: &SentKey) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl Hash for SentKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn member(number: u8) -> MemberId {
    MemberId::node(number).unwrap()
}

/// A step that leads from one world to the next, told for people.
type Next = (String, Result<World, String>);

impl World {
    fn start(scope: &Scope) -> World {
        let all = Members::nodes(scope.nodes);
        let votes = if scope.witness {
            all.with(WITNESS)
        } else {
            all
        };
        let register = Register::new(Configuration::first(votes, Arc::from(&[][..])));
        let nodes: Vec<Node> = (0..scope.nodes)
            .map(|n| Node::new(member(n), register.clone()))
            .collect();
        World {
            disk: vec![register.clone(); nodes.len()],
            nodes,
            settled: vec![register.held.origin],
            witness: scope.witness.then_some(register),
            sent: BTreeSet::new(),
            changes: 0,
            crashes: 0,
        }
    }

    fn next(&self, scope: &Scope) -> Vec<Next> {
        let mut next = Vec::new();
        for i in 0..self.nodes.len() {
            self.stand(scope, i, &mut next);
            self.propose(scope, i, &mut next);
            self.crash(scope, i, &mut next);
            self.adopt(scope, i, &mut next);
        }
        for sent in &self.sent {
            self.deliver(scope, sent, &mut next);
        }
        self.harm(scope, &mut next);
        next
    }

    fn stand(&self, scope: &Scope, i: usize, next: &mut Vec<Next>) {
        if self.nodes[i].register().ballot.term < scope.terms && self.nodes[i].may_stand() {
            let mut world = self.clone();
            let outputs = world.nodes[i].stand();
            next.push((
                format!("{i} stands"),
                world.carry_out(scope, i, outputs, true),
            ));
        }
    }

    fn propose(&self, scope: &Scope, i: usize, next: &mut Vec<Next>) {
        if self.changes == scope.changes {
            return;
        }
        for votes in alternatives(scope) {
            let mut world = self.clone();
            world.changes += 1;
            if let Some(outputs) = world.nodes[i].propose(votes, Arc::from(&[][..])) {
                next.push((
                    format!("{i} proposes {votes:?}"),
                    world.carry_out(scope, i, outputs, true),
                ));
            }
        }
    }

    fn crash(&self, scope: &Scope, i: usize, next: &mut Vec<Next>) {
        if self.crashes < scope.crashes {
            let mut world = self.clone();
            world.crashes += 1;
            world.nodes[i] = Node::new(self.nodes[i].id(), self.disk[i].clone());
            next.push((format!("{i} crashes and starts"), Ok(world)));
        }
    }

    /// A node looks at what the witness holds, or asks another node that does not lead.
    fn adopt(&self, scope: &Scope, i: usize, next: &mut Vec<Next>) {
        if !scope.adopts {
            return;
        }
        let others = self.disk.iter().enumerate().filter(|(n, _)| *n != i);
        let sources = others.map(|(_, r)| r).chain(&self.witness);
        for register in sources {
            let mut world = self.clone();
            let outputs = world.nodes[i].adopt(&register.held, register.settled);
            if !outputs.is_empty() {
                next.push((
                    format!("{i} adopts {:?}", register.held.version),
                    world.carry_out(scope, i, outputs, true),
                ));
            }
        }
    }

    fn deliver(&self, scope: &Scope, sent: &SentKey, next: &mut Vec<Next>) {
        let (from, to, message) = &*sent.1;
        let told = || format!("{to:?} gets from {from:?}: {message:?}");
        let mut world = self.clone();
        if *to != WITNESS {
            let i = to.number() as usize;
            let outputs = world.nodes[i].receive(*from, message);
            let flushed = scope.harm != Harm::ReplyBeforeFlush;
            if !outputs.is_empty() || world.nodes[i] != self.nodes[i] {
                next.push((told(), world.carry_out(scope, i, outputs, flushed)));
            }
            return;
        }
        let Some(register) = &mut world.witness else {
            return;
        };
        // One exchange: who reads the record and writes it has the answer. A late answer finds a node that no longer asks.
        let Some(answer) = register.answer(*from, message) else {
            return;
        };
        let i = from.number() as usize;
        let outputs = world.nodes[i].receive(WITNESS, &answer);
        next.push((told(), world.carry_out(scope, i, outputs, true)));
    }

    fn harm(&self, scope: &Scope, next: &mut Vec<Next>) {
        if scope.harm == Harm::RestoredWitness {
            let mut world = self.clone();
            world.witness = World::start(scope).witness;
            next.push((
                "the witness is restored from its first copy".into(),
                Ok(world),
            ));
        }
    }

    /// Drops messages that can change nothing any more, so that worlds that differ in them only are one. With a harm registers
    /// go back and such a message could matter again: then the search leaves worlds out, and what it finds is a find all the same.
    fn without_stale(mut self) -> World {
        let sent = std::mem::take(&mut self.sent);
        self.sent = sent.into_iter().filter(|s| !self.is_stale(s)).collect();
        self
    }

    fn is_stale(&self, sent: &SentKey) -> bool {
        let (from, to, message) = &*sent.1;
        let node = self.nodes.get(to.number() as usize);
        let register =
            node.map_or_else(|| self.witness.as_ref().expect("a member"), Node::register);
        let held = &register.held.version;
        match message {
            // Once the vote is given the answer is on its way, or no longer of interest.
            Message::RequestVote { ballot, .. } => {
                *ballot < register.ballot
                    || (*ballot == register.ballot
                        && register.voted_for.is_some()
                        && *to != WITNESS)
            }
            Message::Vote {
                ballot,
                granted,
                newer,
            } => {
                let asks = node.is_some_and(
                    |n| matches!(n.role(), Role::Candidate { votes } if !votes.contains(*from)),
                );
                *ballot != register.ballot || !asks || (!granted && newer.is_none())
            }
            Message::Stored { version } => {
                let counts = node.is_some_and(
                    |n| matches!(n.role(), Role::Leader { stored, .. } if !stored.contains(*from)),
                );
                version != held || register.settled || !counts
            }
            Message::Put {
                configuration: c,
                settled,
            } => {
                let is_known =
                    c.version == *held && (register.settled || !settled) && *to != WITNESS;
                c.version.ballot < register.ballot || c.version < *held || is_known
            }
            Message::Outdated { ballot } => *ballot <= register.ballot,
        }
    }

    fn carry_out(
        mut self,
        scope: &Scope,
        i: usize,
        outputs: Vec<Output>,
        flushed: bool,
    ) -> Result<World, String> {
        let from = self.nodes[i].id();
        for output in outputs {
            match output {
                Output::Persist if flushed => self.disk[i] = self.nodes[i].register().clone(),
                Output::Persist => {}
                Output::Send(to, message) => {
                    assert!(
                        to != WITNESS || scope.witness,
                        "a witness that is not there"
                    );
                    self.sent.insert(SentKey::new((from, to, message)));
                }
                Output::Settled => self.settle(i)?,
            }
        }
        Ok(self)
    }

    fn settle(&mut self, i: usize) -> Result<(), String> {
        let held = &self.nodes[i].register().held;
        // A leader that was passed may learn late that its rewrite of something older had settled.
        if self.settled.contains(&held.origin) {
            return Ok(());
        }
        let last = *self.settled.last().expect("the first has settled");
        if held.base != last {
            return Err(format!(
                "{i} settles {held:?}, and {last:?} has settled before"
            ));
        }
        self.settled.push(held.origin);
        Ok(())
    }
}

/// Votes that are proposed: every odd set with a node in it, as the policy does.
fn alternatives(scope: &Scope) -> Vec<Members> {
    let all = Members::nodes(scope.nodes);
    let members: Vec<MemberId> = if scope.witness {
        all.with(WITNESS)
    } else {
        all
    }
    .iter()
    .collect();
    (1u32..1 << members.len())
        .map(|bits| {
            members
                .iter()
                .enumerate()
                .filter(|(i, _)| bits & 1 << i != 0)
                .map(|(_, m)| *m)
                .collect::<Members>()
        })
        .filter(|votes| votes.count() % 2 == 1 && !votes.only_nodes().is_empty())
        .collect()
}

/// Visits every state, depth first (`tests/core.rs`). Returns their number, or what was violated.
pub fn visit_all(scope: &Scope) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let start = World::start(scope);
    seen.insert(hash_of(&start));
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        for (told, next) in world.next(scope) {
            let next = next.map_err(|e| format!("{told}: {e}"))?.without_stale();
            if seen.insert(hash_of(&next)) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

/// Looks for a violation, the shortest first, in at most `states_max` states. Returns the events that lead to it.
#[cfg(feature = "planted-bugs")]
pub fn find(scope: &Scope, states_max: usize) -> Option<Vec<String>> {
    let start = World::start(scope);
    let mut came: HashMap<u64, (u64, String)> = HashMap::new();
    let mut seen = HashSet::from([hash_of(&start)]);
    let mut open = VecDeque::from([start]);
    while let Some(world) = open.pop_front() {
        let here = hash_of(&world);
        for (told, next) in world.next(scope) {
            let Ok(next) = next else {
                return Some(path(
                    &came,
                    here,
                    format!("{told}: {}", next.err().unwrap_or_default()),
                ));
            };
            let next = next.without_stale();
            let there = hash_of(&next);
            if seen.len() < states_max && seen.insert(there) {
                came.insert(there, (here, told));
                open.push_back(next);
            }
        }
    }
    None
}

#[cfg(feature = "planted-bugs")]
fn path(came: &HashMap<u64, (u64, String)>, mut at: u64, last: String) -> Vec<String> {
    let mut events = vec![last];
    while let Some((before, told)) = came.get(&at) {
        events.push(told.clone());
        at = *before;
    }
    events.reverse();
    events
}
