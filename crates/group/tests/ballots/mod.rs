//! Replicas that agree among themselves on who has everything, while somebody outside promotes whomever he likes, whenever he likes.
//!
//! Theory: one random walk is one seed. Votes and logs are durable, all else is lost in a crash; messages are lost, doubled, late and in any order.
//! A log is a list of entries, and a message carries it whole. What is looked for does not depend on who is right: whatever is acknowledged must
//! be where it was acknowledged first, in the log of whoever acts in the newest epoch, from then on. One that was passed over and has not heard of it may
//! let sessions come, and acknowledges nothing that the newest lacks.
//!
//! A promotion by force gives up what its replica lacks, and whoever orders it has stopped the other primaries before; what is acknowledged after it is kept as
//! ever. Nobody but the founder begins with a vote, and servers forget theirs, as those that leave the group and join it again, while one leads that nobody passed over.

use daruma_group::commit::{
    Call, FIRST_WORD, Listing, ReplicaId, Replicas, Vote, Voters, Word, newest_word, next_epoch,
};

const DATABASE: u128 = 1;
/// Messages under way, beyond which the oldest are lost.
const UNDER_WAY_MAX: usize = 40;

type Entry = (u64, u32);

/// Random numbers of one seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap_or(0)
    }
}

/// What one walk did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    pub reigns: usize,
    pub acknowledged: usize,
    pub shrunk: usize,
    pub forced: usize,
    pub forgotten: usize,
}

#[derive(Clone)]
enum Body {
    Call(u64, Call),
    Answer(u64, Call, Vote),
    Log(u64, Vec<Entry>),
    Ack(u64, usize),
}

#[derive(Clone)]
struct Message {
    from: usize,
    to: usize,
    body: Body,
}

struct Reign {
    epoch: u64,
    members: Replicas,
    acks: Vec<usize>,
    /// A word that is not agreed to yet, the question's number, and who has it.
    saying: Option<(u64, Word, Replicas)>,
}

struct Candidate {
    ask: u64,
    epoch: u64,
    promised: Replicas,
    votes: Vec<Vote>,
    /// By force, it is a word of its own that they are to keep.
    forced: bool,
}

struct Node {
    vote: Option<Vote>,
    /// The epoch of the log that it follows or leads.
    follows: u64,
    log: Vec<Entry>,
    listing: Listing,
    reign: Option<Reign>,
    candidate: Option<Candidate>,
}

struct World {
    random: Random,
    voters: Voters,
    /// Nodes from this one on have the configuration and no data.
    data: usize,
    nodes: Vec<Node>,
    under_way: Vec<Message>,
    asks: u64,
    entries: u32,
    acknowledged: Vec<Entry>,
    /// The newest epoch in which somebody has acted.
    newest: u64,
    walk: Walk,
}

fn id(at: usize) -> ReplicaId {
    let number = u8::try_from(at).unwrap_or(u8::MAX);
    ReplicaId::new(number).expect("a replica")
}

/// One walk of so many steps, of replicas of which the last few have no data. `Err`: what was lost.
pub fn walk(data: usize, without: usize, steps: usize, seed: u64) -> Result<Walk, String> {
    let mut world = World::new(data, without, seed);
    for step in 0..steps {
        world
            .step()
            .map_err(|e| format!("seed {seed}, step {step}: {e}"))?;
    }
    Ok(world.walk)
}

impl World {
    fn new(data: usize, without: usize, seed: u64) -> World {
        let count = data + without;
        let first = Vote::first(id(0));
        let node = |at: usize| Node {
            vote: (at == 0).then_some(first),
            follows: 0,
            log: Vec::new(),
            listing: Listing::new(id(at)),
            reign: None,
            candidate: None,
        };
        let mut world = World {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            voters: Voters((0..count).map(id).collect()),
            data,
            nodes: (0..count).map(node).collect(),
            under_way: Vec::new(),
            asks: 0,
            entries: 0,
            acknowledged: Vec::new(),
            newest: 0,
            walk: Walk::default(),
        };
        world.lead(0, first.word.epoch, None);
        world
    }

    fn node(&mut self, at: usize) -> &mut Node {
        &mut self.nodes[at]
    }

    fn step(&mut self) -> Result<(), String> {
        let at = self.random.below(self.nodes.len());
        match self.random.below(100) {
            0..=54 => self.deliver(),
            55..=57 => self.lose(),
            58 if self.random.below(3) == 0 => self.promote(at),
            59 if self.random.below(3) == 0 => self.crash(at),
            60 if self.random.below(8) == 0 => self.force(at),
            61 if self.random.below(4) == 0 => self.rejoin(at),
            58..=69 => self.append(at),
            70..=79 => self.ship(at),
            80..=85 => self.join(at),
            86..=91 => self.leave(at),
            _ => self.say(at),
        }
        self.check()
    }

    fn send(&mut self, from: usize, to: usize, body: Body) {
        if self.under_way.len() >= UNDER_WAY_MAX {
            self.under_way.remove(0);
        }
        self.under_way.push(Message { from, to, body });
    }

    fn send_all(&mut self, from: usize, body: &Body) {
        for to in (0..self.nodes.len()).filter(|to| *to != from) {
            self.send(from, to, body.clone());
        }
    }

    fn lose(&mut self) {
        if !self.under_way.is_empty() {
            let at = self.random.below(self.under_way.len());
            self.under_way.remove(at);
        }
    }

    fn deliver(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let at = self.random.below(self.under_way.len());
        let is_doubled = self.random.below(8) == 0;
        let message = match is_doubled {
            true => self.under_way[at].clone(),
            false => self.under_way.remove(at),
        };
        let Message { from, to, body } = message;
        match body {
            Body::Call(ask, call) => {
                if let Some(vote) = self.vote(to, call) {
                    self.send(to, from, Body::Answer(ask, call, vote));
                }
            }
            Body::Answer(ask, call, vote) => self.answered(to, from, ask, call, vote),
            Body::Log(epoch, log) => self.followed(to, from, epoch, log),
            Body::Ack(epoch, length) => {
                if let Some(reign) = self.node(to).reign.as_mut().filter(|r| r.epoch == epoch) {
                    reign.acks[from] = reign.acks[from].max(length);
                }
            }
        }
    }

    /// The vote after the call, granted or not.
    fn vote(&mut self, at: usize, call: Call) -> Option<Vote> {
        let node = self.node(at);
        node.vote = Vote::after(node.vote, call, node.follows).or(node.vote);
        let vote = node.vote?;
        self.give_way(at, vote.promised);
        Some(vote)
    }

    /// Its own vote, where it grants the call.
    fn own_vote(&mut self, at: usize, call: Call) -> Option<Vote> {
        self.vote(at, call).filter(|vote| vote.grants(call))
    }

    /// A primary that has promised another epoch, or hears that somebody has, leads no more.
    fn give_way(&mut self, at: usize, promised: u64) {
        let node = self.node(at);
        if node.reign.as_ref().is_some_and(|r| r.epoch < promised) {
            node.reign = None;
            node.listing.end();
        }
    }

    fn answered(&mut self, at: usize, from: usize, ask: u64, call: Call, vote: Vote) {
        let voters = self.voters;
        self.give_way(at, vote.promised);
        if !vote.grants(call) {
            return;
        }
        let node = self.node(at);
        if let Some(candidate) = node.candidate.as_mut().filter(|c| c.ask == ask) {
            candidate.promised = candidate.promised.with(id(from));
            candidate.votes.push(vote);
            let forced = candidate.forced;
            let is_enough = voters.is_promised(candidate.promised);
            match forced {
                _ if !is_enough => {}
                true => self.decide_by_force(at),
                false => self.decide(at),
            }
        } else if let Some(reign) = &mut node.reign
            && let Some((of, word, by)) = &mut reign.saying
            && *of == ask
        {
            *by = by.with(id(from));
            if voters.is_agreed(*by) {
                node.listing.agreed(*word);
                reign.saying = None;
            }
        }
    }

    // --- who leads

    fn promote(&mut self, at: usize) {
        if at >= self.data {
            return;
        }
        let Some(epoch) = self.epoch_of(at) else {
            return;
        };
        if self.ask_all(at, epoch, Call::Promise(epoch), false) {
            let own = Replicas::NONE.with(id(at));
            if self.voters.is_promised(own) {
                self.decide(at);
            }
        }
    }

    /// By force: it leads when enough keep a word that lists it alone.
    fn force(&mut self, at: usize) {
        if at >= self.data {
            return;
        }
        let Some(epoch) = self.epoch_of(at) else {
            return;
        };
        let word = Word::claim(epoch, id(at));
        if self.ask_all(at, epoch, Call::Keep(word), true) {
            let own = Replicas::NONE.with(id(at));
            if self.voters.is_promised(own) {
                self.decide_by_force(at);
            }
        }
    }

    fn epoch_of(&self, at: usize) -> Option<u64> {
        let node = &self.nodes[at];
        let promised = node.vote.map_or(0, |vote| vote.promised);
        next_epoch(promised.max(node.follows), id(at))
    }

    /// `false`: it refuses itself.
    fn ask_all(&mut self, at: usize, epoch: u64, call: Call, forced: bool) -> bool {
        let Some(vote) = self.own_vote(at, call) else {
            return false;
        };
        self.asks += 1;
        let ask = self.asks;
        self.node(at).candidate = Some(Candidate {
            ask,
            epoch,
            promised: Replicas::NONE.with(id(at)),
            votes: vec![vote],
            forced,
        });
        self.send_all(at, &Body::Call(ask, call));
        true
    }

    fn decide_by_force(&mut self, at: usize) {
        let node = self.node(at);
        let Some(candidate) = node.candidate.take() else {
            return;
        };
        let promised = node.vote.map_or(0, |vote| vote.promised);
        if node.follows > candidate.epoch || promised > candidate.epoch {
            return;
        }
        // Whoever orders it stops the others before, and what this one lacks is given up.
        let others = (0..self.nodes.len()).filter(|other| *other != at);
        for other in others.collect::<Vec<_>>() {
            let node = &self.nodes[other];
            if node.reign.is_some() || node.candidate.is_some() {
                self.crash(other);
            }
        }
        let log = &self.nodes[at].log;
        let both = self.acknowledged.iter().zip(log);
        let kept = both.take_while(|(a, b)| a == b).count();
        self.acknowledged.truncate(kept);
        self.walk.forced += 1;
        let alone = Replicas::NONE.with(id(at));
        self.lead(at, candidate.epoch, Some(alone));
    }

    /// It leaves the group and joins it again, while one leads whom nobody passed over: its vote, its copy and what was sent to it are gone.
    fn rejoin(&mut self, at: usize) {
        let reigns: Vec<u64> = self
            .nodes
            .iter()
            .filter_map(|n| n.reign.as_ref().map(|r| r.epoch))
            .collect();
        let promised = self.nodes.iter().filter_map(|n| n.vote);
        let promised = promised.map(|vote| vote.promised).max();
        let leads = self.nodes[at].reign.is_some();
        let epoch = match reigns.as_slice() {
            [epoch] if !leads && promised == Some(*epoch) => *epoch,
            _ => return,
        };
        // The primary takes it off its list before, or waits for it as long as it is away.
        let is_listed = |n: &Node| {
            let records = n.reign.as_ref().is_some_and(|r| r.members.contains(id(at)));
            records || n.listing.most().contains(id(at))
        };
        if self.nodes.iter().any(|n| n.reign.is_some() && is_listed(n)) {
            return;
        }
        self.under_way.retain(|m| m.from != at && m.to != at);
        for node in &mut self.nodes {
            // Nobody asks for so long.
            node.candidate = None;
            if let Some(reign) = &mut node.reign {
                reign.acks[at] = 0;
            }
        }
        let node = self.node(at);
        let had = node.vote.take();
        node.log.clear();
        // Of the reign it hears as it joins.
        node.follows = epoch;
        node.listing = Listing::new(id(at));
        self.walk.forgotten += usize::from(had.is_some());
    }

    fn decide(&mut self, at: usize) {
        let node = self.node(at);
        let Some(candidate) = node.candidate.take() else {
            return;
        };
        let word = newest_word(&candidate.votes).filter(|word| !word.is_claim());
        let listed = word.map_or(Replicas::NONE, |word| word.replicas);
        let promised = node.vote.map_or(0, |vote| vote.promised);
        let is_late = node.follows > candidate.epoch || promised > candidate.epoch;
        if listed.contains(id(at)) && !is_late {
            self.lead(at, candidate.epoch, Some(listed));
        }
    }

    fn lead(&mut self, at: usize, epoch: u64, read: Option<Replicas>) {
        self.walk.reigns += 1;
        let count = self.nodes.len();
        let node = self.node(at);
        node.follows = epoch;
        node.log.push((epoch, 0));
        match read {
            Some(listed) => node.listing.begin_read(epoch, listed),
            None => node.listing.begin(epoch, Replicas::NONE, FIRST_WORD),
        }
        node.listing.speak();
        node.reign = Some(Reign {
            epoch,
            members: Replicas::NONE.with(id(at)),
            acks: vec![0; count],
            saying: None,
        });
    }

    fn crash(&mut self, at: usize) {
        let node = self.node(at);
        node.reign = None;
        node.candidate = None;
        node.listing = Listing::new(id(at));
    }

    // --- its log

    fn append(&mut self, at: usize) {
        self.entries += 1;
        let entry = self.entries;
        let node = self.node(at);
        if let Some(reign) = &node.reign {
            node.log.push((reign.epoch, entry));
        }
    }

    fn ship(&mut self, at: usize) {
        let node = &self.nodes[at];
        let Some(reign) = &node.reign else { return };
        let body = Body::Log(reign.epoch, node.log.clone());
        for to in (0..self.data).filter(|to| *to != at) {
            self.send(at, to, body.clone());
        }
    }

    /// Nothing older is taken than what is followed, or led.
    fn followed(&mut self, at: usize, from: usize, epoch: u64, log: Vec<Entry>) {
        let node = self.node(at);
        if epoch < node.follows || node.reign.as_ref().is_some_and(|r| r.epoch >= epoch) {
            return;
        }
        if node.reign.take().is_some() {
            node.listing.end();
        }
        if epoch > node.follows || log.len() > node.log.len() {
            node.follows = epoch;
            node.log = log;
        }
        let length = node.log.len();
        self.send(at, from, Body::Ack(epoch, length));
    }

    // --- who has everything

    fn join(&mut self, at: usize) {
        let data = self.data;
        let node = self.node(at);
        let Some(reign) = &mut node.reign else { return };
        let length = node.log.len();
        let complete = (0..data).filter(|r| reign.acks[*r] == length);
        reign.members = complete.map(id).fold(reign.members, Replicas::with);
    }

    fn leave(&mut self, at: usize) {
        let gone = self.random.below(self.data);
        let node = self.node(at);
        let Some(reign) = &mut node.reign else { return };
        if gone == at || !reign.members.contains(id(gone)) {
            return;
        }
        let wanted = node.listing.fewer(DATABASE).unwrap_or(reign.members);
        let wanted = wanted.intersection(reign.members).without(id(gone));
        if node.listing.may_list(DATABASE, wanted) {
            reign.members = wanted;
            self.walk.shrunk += 1;
        }
    }

    /// As the server does: who has everything is told, and what waits for it is looked at again.
    fn say(&mut self, at: usize) {
        self.asks += 1;
        let ask = self.asks;
        let voters = self.voters;
        let node = self.node(at);
        let Some(reign) = &mut node.reign else { return };
        if let Some(wanted) = node.listing.fewer(DATABASE) {
            let wanted = wanted.intersection(reign.members);
            if node.listing.may_list(DATABASE, wanted) {
                reign.members = wanted;
                self.walk.shrunk += 1;
            }
        }
        let node = self.node(at);
        let Some(reign) = &mut node.reign else { return };
        let fewer = node.listing.fewer(DATABASE).unwrap_or(reign.members);
        let complete = reign.members.intersection(fewer).with(id(at));
        node.listing.widen(complete);
        let epoch = reign.epoch;
        if node.listing.is_told(complete) {
            // Those that may lack it are told it again.
            if let Some(word) = node.vote.map(|vote| vote.word).filter(|w| w.epoch == epoch) {
                self.send_all(at, &Body::Call(ask, Call::Keep(word)));
            }
            return;
        }
        let again = reign.saying.map(|(_, word, _)| word);
        let again = again.filter(|w| w.replicas == complete && node.listing.is_last(*w));
        let said = again.or_else(|| node.listing.say(epoch, complete));
        let Some(word) = said else {
            return;
        };
        reign.saying = Some((ask, word, Replicas::NONE.with(id(at))));
        if self.own_vote(at, Call::Keep(word)).is_none() {
            return;
        }
        self.send_all(at, &Body::Call(ask, Call::Keep(word)));
        let own = Replicas::NONE.with(id(at));
        if voters.is_agreed(own) {
            let node = self.node(at);
            node.listing.agreed(word);
            if let Some(reign) = &mut node.reign {
                reign.saying = None;
            }
        }
    }

    // --- the promise

    fn check(&mut self) -> Result<(), String> {
        let acting = self.nodes.iter().filter_map(Node::acts);
        self.newest = acting.fold(self.newest, u64::max);
        for (at, node) in self.nodes.iter().enumerate() {
            let (Some(epoch), Some(reign)) = (node.acts(), &node.reign) else {
                continue;
            };
            let others = reign.members.iter().filter(|r| *r != id(at));
            let acks = others.map(|r| reign.acks[usize::from(r.number())]);
            let covered = acks.fold(node.log.len(), usize::min);
            let known = self.acknowledged.len();
            let has = match epoch == self.newest {
                true => known,
                false => known.min(covered),
            };
            if node.log.get(..has) != Some(&self.acknowledged[..has]) {
                return Err(format!(
                    "node {at} acts in epoch {epoch} with {:?}, covered to {covered}, and {:?} was acknowledged",
                    node.log, self.acknowledged
                ));
            }
            if covered > known {
                self.acknowledged = node.log[..covered].to_vec();
                self.walk.acknowledged += covered - known;
            }
        }
        Ok(())
    }
}

impl Node {
    /// The epoch in which it acknowledges, and lets sessions come.
    fn acts(&self) -> Option<u64> {
        let reign = self.reign.as_ref()?;
        self.listing.acts().filter(|epoch| *epoch == reign.epoch)
    }
}
