//! A cluster in one thread: simulated time, network, disks and witness.
//!
//! Faults: crashes (also between the actions of a step), pauses, links cut one way and both, loss, delay, a witness that is gone,
//! slow or out of a node's reach, clean stops, changes of options. Clocks of nodes differ in offset, and in rate by 1 %.
//!
//! Checked after each event: at most one node acts for a group; a node acts in an epoch that nobody else, and no earlier life of its
//! own, has acted in; configurations that settled form one chain, and each is on the disks of a quorum when it settles.

mod plane;

use daruma_cluster::witness::{Counts, Record, WitnessAsk, WitnessFault, WitnessOp, WitnessView};
use daruma_cluster::{
    Action, ClusterState, Command, GroupId, Machine, NodeState, Outcome, Packet, Timing,
    WitnessPlace,
};
use daruma_quorum::{Configuration, MemberId, Members, Register, Version, WITNESS};
use plane::{Message, Plane};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

pub const GROUP: GroupId = [7; 16];
const TICK: Duration = Duration::from_millis(25);

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Numbers by chance, from a seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

enum Event {
    Tick(usize, u32),
    Packet(usize, usize, Packet),
    /// The question reaches the share.
    Share(usize, u32, WitnessAsk),
    Reply(usize, u32, u64, Result<WitnessView, WitnessFault>),
    /// Of the group's data, on a connection of this number, in this place.
    Data(usize, usize, u64, u64, Message),
}

struct Place {
    machine: Option<Machine>,
    life: u32,
    paused_until: Duration,
    register: Register,
    seen: Counts,
    offset: Duration,
    /// Local microseconds in a million of real ones.
    rate: u64,
    /// Told to stop: until when it may take.
    leaving: Option<Duration>,
    /// The wish by which it leaves for good.
    departing: Option<u64>,
    /// It has left for good: nothing of it is on disk any more.
    departed: bool,
}

/// How the network behaves.
#[derive(Clone, Copy)]
pub struct Net {
    pub delay_max: Duration,
    /// One in so many is late by up to `late_max`; 0: none.
    pub late_one_in: u64,
    pub late_max: Duration,
    pub lost_one_in: u64,
}

pub const FAIR: Net = Net {
    delay_max: Duration::from_millis(20),
    late_one_in: 0,
    late_max: Duration::ZERO,
    lost_one_in: 50,
};
pub const LATE: Net = Net {
    delay_max: Duration::from_millis(20),
    late_one_in: 4,
    late_max: Duration::from_millis(900),
    lost_one_in: 20,
};

/// Members are given up long before leases end, so that only the fence keeps owners apart.
pub fn hasty() -> Timing {
    Timing {
        suspicion: ms(150),
        ..Timing::default()
    }
}

pub struct World {
    pub now: Duration,
    pub dice: Dice,
    net: Net,
    nodes: Vec<Place>,
    queue: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    events: BTreeMap<usize, Event>,
    next_event: usize,
    cut: BTreeSet<(usize, usize)>,
    pub share_up: bool,
    share_cut: BTreeSet<usize>,
    pub share_slow: bool,
    /// Each answer of the share takes so long.
    pub share_takes: Option<Duration>,
    /// A witness whose answers never come.
    pub share_hangs: Option<u128>,
    pub records: BTreeMap<u128, Record>,
    alive: u64,
    chain: Vec<Version>,
    epochs: BTreeMap<u64, (usize, u32)>,
    wish: u64,
    pub outcomes: BTreeMap<u64, Outcome>,
    pub steps: u64,
    pub data_plane: bool,
    /// The group's data; without it an owner says what it pleases.
    pub plane: Option<Plane>,
    /// Nodes may crash in the middle of a step.
    storms: bool,
    /// The next step in which this node settles something ends in a crash after its write.
    pub cut_short: Option<usize>,
    timing: Timing,
    pub failovers: u64,
    /// A quorum was forced, and no administrator has given the group to anybody since.
    orphaned: bool,
}

pub fn member(i: usize) -> MemberId {
    MemberId::node(i as u8).unwrap()
}

impl World {
    /// A cluster that runs, with a group that the first node owns.
    pub fn new(count: usize, witness: bool, net: Net, timing: Timing, seed: u64) -> World {
        let node = |n: usize| NodeState {
            number: n as u8,
            name: format!("n{n}"),
            address: format!("h{n}:1"),
            fingerprint: [n as u8; 32],
            weight: true,
            left: false,
            gone: false,
        };
        let mut state = ClusterState::first("sim".into(), 1, node(0));
        state.nodes = (0..count).map(node).collect();
        state.next_number = count as u8;
        if witness {
            state.witness = Some(WitnessPlace {
                path: "/share".into(),
                id: 100,
            });
        }
        let all = Members::nodes(count as u8);
        let votes = match (count.is_multiple_of(2), witness) {
            (true, true) => all.union(Members::WITNESS),
            (true, false) => all.without(member(count - 1)),
            (false, _) => all,
        };
        let register = Register::new(Configuration::first(votes, state.encode()));
        let mut dice = Dice::new(seed);
        let nodes: Vec<Place> = (0..count)
            .map(|_| Place {
                machine: None,
                life: 0,
                paused_until: Duration::ZERO,
                register: register.clone(),
                seen: Counts::default(),
                offset: Duration::from_secs(dice.below(1_000_000)),
                rate: 990_000 + dice.below(20_001),
                leaving: None,
                departing: None,
                departed: false,
            })
            .collect();
        let mut records = BTreeMap::new();
        if witness {
            let record = Record {
                cluster: 1,
                id: 100,
                n: 1,
                beside: 0,
                register: register.clone(),
                writer: 0,
            };
            records.insert(100, record);
        }
        let mut world = World {
            now: Duration::ZERO,
            dice,
            net,
            nodes,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            cut: BTreeSet::new(),
            share_up: true,
            share_cut: BTreeSet::new(),
            share_slow: false,
            share_takes: None,
            share_hangs: None,
            records,
            alive: 0,
            chain: vec![register.held.origin],
            epochs: BTreeMap::new(),
            wish: 1,
            outcomes: BTreeMap::new(),
            steps: 0,
            data_plane: false,
            plane: None,
            storms: false,
            cut_short: None,
            timing,
            failovers: 0,
            orphaned: false,
        };
        (0..count).for_each(|i| world.start(i));
        world
    }

    /// The same with a group, led by whoever leads the cluster first.
    pub fn with_group(
        count: usize,
        witness: bool,
        net: Net,
        timing: Timing,
        seed: u64,
    ) -> Result<World, String> {
        let mut world = World::new(count, witness, net, timing, seed);
        world.run_until(ms(60_000), |w| w.leader().is_some())?;
        let leader = world.leader().ok_or("no leader at the start")?;
        world.wish(
            leader,
            Command::CreateGroup {
                group: GROUP,
                name: "g".into(),
                automatic: (0..count as u8).collect(),
            },
        )?;
        world.data_plane = true;
        world.run(ms(4000))?;
        Ok(world)
    }

    fn local(&self, i: usize) -> Duration {
        let node = &self.nodes[i];
        let micros = self.now.as_micros() as u64 / 1000 * node.rate / 1000;
        node.offset + Duration::from_micros(micros)
    }

    fn push(&mut self, at: Duration, event: Event) {
        let key = self.next_event;
        self.next_event += 1;
        self.events.insert(key, event);
        self.queue.push(Reverse((at, key as u64, key)));
    }

    // --- faults

    pub fn start(&mut self, i: usize) {
        if self.nodes[i].machine.is_some() || self.nodes[i].departed {
            return;
        }
        let seed = self.dice.below(u64::MAX);
        let now = self.local(i);
        let timing = self.timing;
        let node = &mut self.nodes[i];
        node.life += 1;
        (node.leaving, node.departing) = (None, None);
        node.machine = Machine::new(
            member(i),
            node.register.clone(),
            node.seen.clone(),
            timing,
            seed,
            now,
        );
        let life = node.life;
        self.push(self.now, Event::Tick(i, life));
    }

    pub fn crash(&mut self, i: usize) {
        self.nodes[i].machine = None;
    }

    /// SIGTERM: the node gives its vote away, if it can, and stops.
    pub fn leave(&mut self, i: usize) -> Result<(), String> {
        let (now, until) = (self.local(i), self.now + ms(3000));
        let node = &mut self.nodes[i];
        let Some(machine) = &mut node.machine else {
            return Ok(());
        };
        node.leaving.get_or_insert(until);
        let actions = machine.leave(now);
        self.act(i, actions)
    }

    /// `daruma cluster leave`: said again until there is an answer.
    pub fn depart(&mut self, i: usize) -> Result<(), String> {
        if self.is_up(i) {
            let id = self.wish(i, Command::Leave)?;
            self.nodes[i].departing = Some(id);
        }
        Ok(())
    }

    fn follow_departure(&mut self, i: usize) -> Result<(), String> {
        let asked = self.nodes[i].departing;
        match asked.and_then(|id| self.outcomes.get(&id)) {
            Some(Outcome::Done) => {
                self.crash(i);
                self.nodes[i].departed = true;
                Ok(())
            }
            Some(Outcome::Unknown(_)) => self.depart(i),
            Some(_) => {
                self.nodes[i].departing = None;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn pause(&mut self, i: usize, length: Duration) {
        self.nodes[i].paused_until = self.now + length;
    }

    pub fn cut(&mut self, from: usize, to: usize) {
        self.cut.insert((from, to));
    }

    pub fn isolate(&mut self, i: usize) {
        for other in 0..self.nodes.len() {
            self.cut.insert((i, other));
            self.cut.insert((other, i));
        }
    }

    pub fn cut_share(&mut self, i: usize) {
        self.share_cut.insert(i);
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        self.share_cut.clear();
        self.share_up = true;
        self.share_slow = false;
    }

    /// By order of an administrator, when all others are gone: what only they knew is lost.
    pub fn force(&mut self, i: usize) -> Result<(), String> {
        let now = self.local(i);
        let Some(machine) = &mut self.nodes[i].machine else {
            return Ok(());
        };
        let (origin, base) = {
            let held = &machine.register().held;
            (held.origin, held.base)
        };
        let known = self.chain.iter().rposition(|v| [origin, base].contains(v));
        self.chain.truncate(known.map_or(0, |at| at + 1));
        if self.chain.last() != Some(&origin) {
            self.chain.push(origin);
        }
        self.orphaned = true;
        let actions = machine.force(now);
        self.act(i, actions)
    }

    /// An administrator gives the group to this node.
    pub fn take(&mut self, i: usize) -> Result<u64, String> {
        let group = self.machine(i).state().group(&GROUP);
        let epoch = group.ok_or("the group is gone")?.epoch;
        self.orphaned = false;
        let group = GROUP;
        self.wish(i, Command::Take { group, epoch })
    }

    pub fn wish(&mut self, i: usize, command: Command) -> Result<u64, String> {
        let (id, now) = (self.wish, self.local(i));
        self.wish += 1;
        if let Some(machine) = &mut self.nodes[i].machine {
            let actions = machine.wish(now, id, command);
            self.act(i, actions)?;
        }
        Ok(id)
    }

    // --- what is seen

    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    pub fn has_departed(&self, i: usize) -> bool {
        self.nodes[i].departed
    }

    /// Those who have not left for good.
    pub fn remaining(&self) -> usize {
        self.nodes.iter().filter(|n| !n.departed).count()
    }

    pub fn is_up(&self, i: usize) -> bool {
        self.nodes[i].machine.is_some()
    }

    fn is_leaving(&self, i: usize) -> bool {
        self.nodes[i].leaving.is_some()
    }

    pub fn machine(&self, i: usize) -> &Machine {
        self.nodes[i].machine.as_ref().unwrap()
    }

    /// The leader with the highest ballot.
    pub fn leader(&self) -> Option<usize> {
        let leads = |i: &usize| self.nodes[*i].machine.as_ref().is_some_and(Machine::leads);
        let leaders = (0..self.nodes.len()).filter(leads);
        leaders.max_by_key(|i| self.machine(*i).register().ballot)
    }

    /// Votes that have settled, as the leader has them.
    pub fn votes(&self) -> Option<Members> {
        self.leader().map(|i| self.machine(i).register().held.new)
    }

    /// Whoever acts for the group.
    pub fn owner(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|i| self.acts(*i).is_some())
    }

    fn acts(&self, i: usize) -> Option<u64> {
        let node = &self.nodes[i];
        if node.paused_until > self.now {
            return None;
        }
        let owned = node.machine.as_ref()?.owned(self.local(i));
        owned.iter().find(|o| o.group == GROUP).map(|o| o.epoch)
    }

    // --- time

    pub fn run(&mut self, length: Duration) -> Result<(), String> {
        let until = self.now + length;
        while let Some(Reverse((at, _, key))) = self.queue.peek().copied() {
            if at > until {
                break;
            }
            self.queue.pop();
            self.now = self.now.max(at);
            if let Some(event) = self.events.remove(&key) {
                self.happen(event)?;
            }
        }
        self.now = until;
        Ok(())
    }

    /// Runs until this is so, at most so long.
    pub fn run_until(
        &mut self,
        most: Duration,
        is_so: impl Fn(&World) -> bool,
    ) -> Result<bool, String> {
        let until = self.now + most;
        while self.now < until {
            if is_so(self) {
                return Ok(true);
            }
            self.run(ms(50))?;
        }
        Ok(is_so(self))
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        self.steps += 1;
        let to = match &event {
            Event::Tick(i, _)
            | Event::Packet(_, i, _)
            | Event::Reply(i, _, _, _)
            | Event::Data(_, i, ..) => Some(*i),
            Event::Share(..) => None,
        };
        if let Some(i) = to {
            // A paused process finds everything that has come when it goes on.
            let paused = self.nodes[i].paused_until;
            if paused > self.now {
                self.push(paused, event);
                return Ok(());
            }
        }
        match event {
            Event::Tick(i, life) => self.tick(i, life),
            Event::Packet(from, to, packet) => {
                let now = self.local(to);
                let Some(machine) = &mut self.nodes[to].machine else {
                    return Ok(());
                };
                // As on the wire.
                let packet = Packet::decode(&packet.encode()).map_err(|e| e.to_string())?;
                let actions = machine.receive(now, member(from), packet);
                self.act(to, actions)
            }
            Event::Share(i, life, ask) => {
                self.reach_share(i, life, ask);
                Ok(())
            }
            Event::Reply(i, life, id, result) => {
                let now = self.local(i);
                let node = &mut self.nodes[i];
                let Some(machine) = node.machine.as_mut().filter(|_| node.life == life) else {
                    return Ok(());
                };
                let actions = machine.witnessed(now, id, result);
                self.act(i, actions)
            }
            Event::Data(from, to, link, place, message) => {
                self.with_plane(|plane, world| plane.receive(world, from, to, link, place, message))
            }
        }
    }

    fn tick(&mut self, i: usize, life: u32) -> Result<(), String> {
        let now = self.local(i);
        let node = &mut self.nodes[i];
        let Some(machine) = node.machine.as_mut().filter(|_| node.life == life) else {
            return Ok(());
        };
        let actions = machine.tick(now);
        self.act(i, actions)?;
        self.push(self.now + TICK, Event::Tick(i, life));
        self.follow_departure(i)?;
        if self.plane.is_some() && self.is_up(i) {
            self.with_plane(|plane, world| plane.tick(world, i))?;
        } else if self.data_plane && self.dice.one_in(20) {
            self.replicate(i)?;
        }
        let node = &mut self.nodes[i];
        let has_left = node
            .machine
            .as_ref()
            .is_some_and(|m| m.has_left().is_some());
        if node
            .leaving
            .is_some_and(|until| has_left || until <= self.now)
        {
            node.machine = None;
        }
        Ok(())
    }

    /// Does something with the group's data, if there is any.
    pub fn with_plane(
        &mut self,
        work: impl FnOnce(&mut Plane, &mut World) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(mut plane) = self.plane.take() else {
            return Ok(());
        };
        let done = work(&mut plane, self);
        self.plane = Some(plane);
        done
    }

    /// The owner brings the others up to date, and says so.
    fn replicate(&mut self, i: usize) -> Result<(), String> {
        let Some(epoch) = self.acts(i) else {
            return Ok(());
        };
        let up: Vec<u8> = (0..self.nodes.len())
            .filter(|n| self.is_up(*n) && !self.cut.contains(&(i, *n)))
            .map(|n| n as u8)
            .collect();
        let group = self.machine(i).state().group(&GROUP).cloned();
        if group.is_some_and(|g| g.in_sync == up) {
            return Ok(());
        }
        self.wish(
            i,
            Command::SetGroup {
                group: GROUP,
                epoch,
                said: self.wish,
                in_sync: up,
                automatic: (0..self.nodes.len() as u8).collect(),
            },
        )?;
        Ok(())
    }

    fn reach_share(&mut self, i: usize, life: u32, ask: WitnessAsk) {
        if self.share_hangs == Some(ask.place.id) {
            return;
        }
        let delay = match (self.share_takes, self.share_slow) {
            (Some(always), _) => always,
            (None, true) => ms(200 + self.dice.below(1500)),
            (None, false) => ms(1 + self.dice.below(20)),
        };
        if !self.share_up || self.share_cut.contains(&i) {
            let fault = WitnessFault::Unknown("cut off".into());
            self.push(
                self.now + ms(500),
                Event::Reply(i, life, ask.id, Err(fault)),
            );
            return;
        }
        if ask.alive {
            self.alive += 1;
        }
        if let WitnessOp::Create(register) = &ask.op {
            let record = Record {
                cluster: ask.cluster,
                id: ask.place.id,
                n: 1,
                beside: 0,
                register: register.clone(),
                writer: ask.me.number(),
            };
            self.records.entry(ask.place.id).or_insert(record);
        }
        let result = match self.records.get_mut(&ask.place.id) {
            None => Err(WitnessFault::Unknown("no record".into())),
            Some(record) => {
                // As in its file.
                let bytes = record.encode();
                *record = Record::decode(&bytes).expect("what was written");
                record.serve(&ask, self.alive)
            }
        };
        self.push(self.now + delay, Event::Reply(i, life, ask.id, result));
    }

    /// Does what a node wants. In a storm a step may be cut short by a crash.
    fn act(&mut self, i: usize, actions: Vec<Action>) -> Result<(), String> {
        let life = self.nodes[i].life;
        let mut is_written = false;
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            if self.is_cut_short(i, is_written, &action) {
                self.crash(i);
                // A step is written whole: what it has on disk has settled, though this node tells nobody.
                for left in std::iter::once(action)
                    .chain(actions)
                    .filter(|_| is_written)
                {
                    if let Action::Settled(configuration) = left {
                        self.settle(i, &configuration)?;
                    }
                }
                return self.check();
            }
            match action {
                Action::Persist => {
                    let node = &mut self.nodes[i];
                    if let Some(machine) = &node.machine {
                        node.register = machine.register().clone();
                        node.seen = machine.seen().clone();
                    }
                    is_written = true;
                }
                Action::Send(to, packet) => self.post(i, usize::from(to.number()), packet),
                Action::Witness(ask) => {
                    let delay = ms(1 + self.dice.below(10));
                    self.push(self.now + delay, Event::Share(i, life, ask));
                }
                Action::Answer(id, outcome) => drop(self.outcomes.insert(id, outcome)),
                Action::Settled(configuration) => self.settle(i, &configuration)?,
                Action::Note(_) => {}
            }
        }
        self.check()
    }

    fn is_cut_short(&mut self, i: usize, is_written: bool, action: &Action) -> bool {
        let settles = matches!(action, Action::Settled(_));
        let wanted = self.cut_short == Some(i) && is_written && settles;
        if wanted {
            self.cut_short = None;
        }
        wanted || (self.storms && self.dice.one_in(20_000))
    }

    fn post(&mut self, from: usize, to: usize, packet: Packet) {
        if to >= self.nodes.len() || self.cut.contains(&(from, to)) {
            return;
        }
        if self.dice.one_in(self.net.lost_one_in) {
            return;
        }
        let mut delay = ms(1 + self.dice.below(self.net.delay_max.as_millis() as u64));
        if self.net.late_one_in > 0 && self.dice.one_in(self.net.late_one_in) {
            delay = ms(self.dice.below(self.net.late_max.as_millis() as u64));
        }
        if self.dice.one_in(100) {
            self.push(
                self.now + delay * 2,
                Event::Packet(from, to, packet.clone()),
            );
        }
        self.push(self.now + delay, Event::Packet(from, to, packet));
    }

    // --- what must be so

    fn check(&mut self) -> Result<(), String> {
        let acting: Vec<(usize, u64)> = (0..self.nodes.len())
            .filter_map(|n| Some((n, self.acts(n)?)))
            .collect();
        if acting.len() > 1 {
            return Err(format!("at {:?} nodes {acting:?} act", self.now));
        }
        if self.orphaned && !acting.is_empty() {
            return Err(format!(
                "at {:?} {acting:?} act after a forced quorum, and nobody said so",
                self.now
            ));
        }
        for (n, epoch) in acting {
            let who = (n, self.nodes[n].life);
            let first = *self.epochs.entry(epoch).or_insert(who);
            if first != who {
                return Err(format!("{who:?} acts in epoch {epoch} of {first:?}"));
            }
            self.failovers = self.failovers.max(epoch);
        }
        Ok(())
    }

    fn settle(&mut self, i: usize, configuration: &Configuration) -> Result<(), String> {
        let told = |what: &str| {
            let Configuration {
                version,
                origin,
                base,
                ..
            } = configuration;
            format!(
                "at {:?} node {i} settles {version:?}, which is {origin:?} on {base:?}: {what}",
                self.now
            )
        };
        let holders = self.holders(configuration);
        if !configuration.has_quorum(holders, false) {
            return Err(told(&format!("only {holders:?} have it on disk")));
        }
        // A leader that was passed may learn late that its rewrite of something older had settled.
        if self.chain.contains(&configuration.origin) {
            return Ok(());
        }
        let last = *self.chain.last().expect("the first has settled");
        if configuration.base != last {
            return Err(told(&format!("{last:?} has settled last")));
        }
        self.chain.push(configuration.origin);
        Ok(())
    }

    /// Members on whose disks this configuration is, or what came after it.
    fn holders(&self, configuration: &Configuration) -> Members {
        let has = |register: &Register| register.held.version >= configuration.version;
        let is_holder = |n: &usize| !self.nodes[*n].departed && has(&self.nodes[*n].register);
        let nodes = (0..self.nodes.len()).filter(is_holder);
        let nodes: Members = nodes.map(member).collect();
        let state = ClusterState::decode(&configuration.body).expect("what was proposed");
        let record = state.witness.and_then(|w| self.records.get(&w.id));
        match record.is_some_and(|r| has(&r.register)) {
            true => nodes.with(WITNESS),
            false => nodes,
        }
    }
}

/// A node that was cut off while the group went on without it is all that is left, and its quorum is forced.
pub fn forced(nodes: usize, witness: bool, seed: u64) -> Result<World, String> {
    let told = |e: String| format!("seed {seed}, {nodes} nodes, witness {witness}: {e}");
    force_what_is_left(nodes, witness, seed).map_err(told)
}

fn force_what_is_left(nodes: usize, witness: bool, seed: u64) -> Result<World, String> {
    let mut world = World::with_group(nodes, witness, FAIR, Timing::default(), seed)?;
    let owner = world.owner().ok_or("nobody owns the group")?;
    let others: Vec<usize> = (0..nodes).filter(|i| *i != owner).collect();
    let left = others[world.dice.below(others.len() as u64) as usize];
    let in_sync = |w: &World| {
        let group = w.machine(left).state().group(&GROUP);
        group.is_some_and(|g| g.in_sync.contains(&(left as u8)))
    };
    world.run_until(ms(20_000), in_sync)?;
    world.isolate(left);
    world.cut_share(left);
    let pause = ms(1000 + world.dice.below(4000));
    world.run(pause)?;
    if world.dice.one_in(2) {
        // The group moves among those who will be gone.
        world.crash(owner);
        world.run(ms(5000))?;
    }
    others
        .iter()
        .chain([&owner])
        .filter(|i| **i != left)
        .for_each(|i| world.crash(*i));
    // Nobody acts any more by an earlier word.
    world.run(ms(2000))?;
    world.heal();
    world.share_up = !world.dice.one_in(2);
    world.force(left)?;
    world.run(ms(6000))?;
    world.take(left)?;
    if !world.run_until(ms(20_000), |w| w.owner() == Some(left))? {
        return Err("the group does not come to whom it was given".into());
    }
    calm(&mut world)?;
    Ok(world)
}

/// Faults by chance, and quiet times after which everything must work.
pub struct Plan {
    pub nodes: usize,
    pub witness: bool,
    pub net: Net,
    pub timing: Timing,
    pub faults: u64,
    pub seed: u64,
    /// Members leave for good, down to two.
    pub departures: bool,
}

/// Runs a plan; the number of faults, or what was broken.
pub fn storm(plan: &Plan) -> Result<World, String> {
    let told = |e: String| {
        format!(
            "seed {}, {} nodes, witness {}: {e}",
            plan.seed, plan.nodes, plan.witness
        )
    };
    let mut world = World::with_group(plan.nodes, plan.witness, plan.net, plan.timing, plan.seed)
        .map_err(told)?;
    let mut places = 100;
    for n in 0..plan.faults {
        world.storms = true;
        match plan.departures && world.dice.one_in(30) && world.remaining() > 2 {
            true => {
                let i = world.dice.below(world.count() as u64) as usize;
                world.depart(i).map_err(told)?;
            }
            false => fault(&mut world, plan.witness, &mut places).map_err(told)?,
        }
        let pause = match world.dice.one_in(3) {
            true => 20,
            false => 1500,
        };
        let pause = ms(world.dice.below(pause));
        world.run(pause).map_err(told)?;
        if n % 40 == 39 {
            calm(&mut world).map_err(told)?;
        }
    }
    calm(&mut world).map_err(told)?;
    Ok(world)
}

fn fault(world: &mut World, witness: bool, places: &mut u128) -> Result<(), String> {
    let i = world.dice.below(world.count() as u64) as usize;
    let j = world.dice.below(world.count() as u64) as usize;
    match world.dice.below(17) {
        0 | 1 => world.crash(i),
        2..=5 => world.start(i),
        6 => world.leave(i)?,
        7 => world.isolate(i),
        8 => world.cut(i, j),
        9 => {
            world.cut(i, j);
            world.cut(j, i);
        }
        10 | 11 => world.heal(),
        12 => {
            let length = ms(world.dice.below(4000));
            world.pause(i, length);
        }
        13 => world.share_up = !world.share_up,
        14 if world.dice.one_in(2) => world.share_slow = !world.share_slow,
        14 => world.cut_share(i),
        15 => {
            let on = world.dice.one_in(3);
            world.wish(i, Command::WindowsRules { on })?;
        }
        _ if witness => {
            *places += 1;
            let place = WitnessPlace {
                path: format!("/share{places}"),
                id: *places,
            };
            world.wish(i, Command::SetWitness { place: Some(place) })?;
        }
        _ => {
            let node = (!world.dice.one_in(3)).then_some(j as u8);
            world.wish(i, Command::Priority { node })?;
        }
    }
    Ok(())
}

/// Everything is healed: soon one node leads and one acts.
fn calm(world: &mut World) -> Result<(), String> {
    world.heal();
    world.storms = false;
    for i in 0..world.count() {
        if world.is_leaving(i) {
            world.crash(i);
        }
        world.start(i);
    }
    let works = |w: &World| w.leader().is_some() && w.owner().is_some();
    if !world.run_until(ms(20_000), works)? {
        let told = (0..world.count()).filter(|i| world.is_up(*i)).map(|i| {
            let register = world.machine(i).register();
            let held = &register.held;
            let groups = &world.machine(i).state().groups;
            format!(
                "\n{i}: {:?} voted {:?}, holds {:?} {:?}>{:?} settled {}, {:?}",
                register.ballot,
                register.voted_for,
                held.version,
                held.old,
                held.new,
                register.settled,
                groups
                    .first()
                    .map(|g| (g.epoch, g.owner, g.in_sync.clone()))
            )
        });
        return Err(format!(
            "20 s after everything was healed: leader {:?}, owner {:?}; {}",
            world.leader(),
            world.owner(),
            told.collect::<String>()
        ));
    }
    Ok(())
}

/// The same with the group's data: nodes crash, pause and are cut off while clients write, and the group is moved by order.
pub fn groups(plan: &Plan) -> Result<World, String> {
    let told = |e: String| {
        format!(
            "seed {}, {} nodes, witness {}: {e}",
            plan.seed, plan.nodes, plan.witness
        )
    };
    run_groups(plan).map_err(told)
}

fn run_groups(plan: &Plan) -> Result<World, String> {
    let mut world = World::with_group(plan.nodes, plan.witness, plan.net, plan.timing, plan.seed)?;
    world.plane = Some(Plane::new(plan.nodes));
    whole(&mut world)?;
    let mut places = 100;
    for n in 0..plan.faults {
        world.storms = true;
        match world.dice.one_in(8) {
            true => move_by_order(&mut world)?,
            false => fault(&mut world, plan.witness, &mut places)?,
        }
        let pause = match world.dice.one_in(3) {
            true => 20,
            false => 1500,
        };
        let pause = ms(world.dice.below(pause));
        world.run(pause)?;
        if n % 20 == 19 {
            calm(&mut world)?;
            whole(&mut world)?;
        }
    }
    Ok(world)
}

/// ALTER AVAILABILITY GROUP FAILOVER, on a node that may or may not have everything.
fn move_by_order(world: &mut World) -> Result<(), String> {
    let to = world.dice.below(world.count() as u64) as usize;
    match world.owner() {
        Some(owner) if owner != to => {
            world.with_plane(|plane, world| plane.release(world, owner, to))
        }
        _ => Ok(()),
    }
}

/// Everything is healed: soon all have everything, and the cluster knows it.
fn whole(world: &mut World) -> Result<(), String> {
    let is_whole = |w: &World| w.plane.as_ref().is_some_and(|plane| plane.is_whole(w));
    for _ in 0..10 {
        if world.run_until(ms(4000), is_whole)? {
            return world.with_plane(|plane, _| plane.compare());
        }
        world.with_plane(|plane, world| {
            plane.resume(world);
            Ok(())
        })?;
    }
    let groups = world.leader().map(|i| &world.machine(i).state().groups);
    let data = world.plane.as_ref().map(|plane| plane.tell_all(world));
    Err(format!(
        "40 s after everything was healed: owner {:?}, {groups:?}{}",
        world.owner(),
        data.unwrap_or_default()
    ))
}
