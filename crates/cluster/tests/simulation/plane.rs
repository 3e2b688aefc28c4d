//! The data of the group: on each node a log, and the machines of `daruma_group::commit` that lead or follow it, as `server::hadr` runs them.
//!
//! A log is a list of entries, and a position the number of entries below it. What is not synced is lost in a crash, or kept by chance.
//! Messages between two nodes come in order, or the connection breaks. Clients write wherever sessions may come.
//!
//! Checked: whoever opens has everything that was acknowledged; one at most is open; the cluster lists no replica that the record does not;
//! no page has what is cut off; after a calm all have the same.

use super::{Event, GROUP, World, ms};
use daruma_base::Lsn;
use daruma_cluster::{Command, GroupState, Outcome};
use daruma_group::commit::{
    Epoch, EpochId, Follower, FollowerInput, FollowerOutput, History, Listing, Primary,
    PrimaryInput, PrimaryOutput, Record, ReplicaConfig, ReplicaId, Replicas, Reply, Role, Rules,
    Word,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const DATABASE: u128 = 1;
const SESSION_TIMEOUT: Duration = Duration::from_millis(1000);
/// The cluster that has not answered by then may do so yet.
const WISH_TIMEOUT: Duration = Duration::from_secs(10);
/// As `server::hadr` counts: see `least_number` there.
const EPOCH_BITS: u32 = 32;
const FORCED_STEP: u64 = 1 << 16;

/// The epoch that wrote it, and what; 0 is an epoch's first record.
type Entry = (u128, u64);

#[derive(Clone, Debug)]
pub enum Message {
    Lead(EpochId, History, Record),
    Ack {
        epoch: EpochId,
        received: Lsn,
        here: Lsn,
    },
    Blocks {
        epoch: EpochId,
        first: Lsn,
        quorum: Lsn,
        entries: Vec<Entry>,
    },
    Listed(Record),
    Depose {
        promised: EpochId,
        led: bool,
    },
    Rejoin,
}

/// A connection, and the lives of the processes that have it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    number: u64,
    lives: (u32, u32),
}

/// Messages come in the order in which they were sent.
#[derive(Default)]
struct Stream {
    sent: u64,
    come: u64,
    early: BTreeMap<u64, Message>,
}

struct Standing {
    promised: EpochId,
    history: History,
    record: Record,
}

struct Following {
    machine: Follower,
    /// Whom it follows, on which connection.
    link: Option<(usize, u64)>,
    parted: bool,
}

struct Leading {
    machine: Primary,
    history: History,
    heard: BTreeMap<usize, Duration>,
    /// What was sent, on which connection.
    shipped: BTreeMap<usize, (u64, usize)>,
    /// Ends and values of commits that nobody has acknowledged.
    waiting: Vec<(usize, u64)>,
}

enum Part {
    Follows(Following),
    Leads(Box<Leading>),
}

struct Site {
    life: u32,
    log: Vec<Entry>,
    hard: usize,
    /// Pages have the log up to here.
    applied: usize,
    standing: Standing,
    listing: Listing,
    word: Option<(Word, u64, Duration)>,
    part: Part,
    links: BTreeMap<usize, u64>,
}

/// See the module.
pub struct Plane {
    sites: Vec<Site>,
    links: BTreeMap<(usize, usize), Link>,
    next_link: u64,
    /// What is under way from one to another, by connection.
    streams: BTreeMap<(usize, usize, u64), Stream>,
    pub acknowledged: Vec<u64>,
    next_value: u64,
    next_id: u128,
    pub opened: u64,
    pub parted: u64,
    failure: Option<String>,
}

fn replica(i: usize) -> ReplicaId {
    ReplicaId::new(i as u8).expect("few nodes")
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

fn lsn(position: usize) -> Lsn {
    Lsn(position as u64)
}

fn position(lsn: Lsn) -> usize {
    lsn.0 as usize
}

impl Plane {
    pub fn new(nodes: usize) -> Plane {
        let first = EpochId { number: 1, id: 1 };
        let start = Epoch {
            name: first,
            start: Lsn(0),
        };
        let site = |i| {
            let standing = Standing {
                promised: first,
                history: History::new(vec![start]).expect("one epoch"),
                record: Record::first(first, replica(0)),
            };
            Site {
                life: 0,
                log: vec![(1, 0)],
                hard: 1,
                applied: 1,
                listing: Listing::new(replica(i)),
                word: None,
                part: follows(i, &standing, 1, Lsn::NONE),
                standing,
                links: BTreeMap::new(),
            }
        };
        Plane {
            sites: (0..nodes).map(site).collect(),
            links: BTreeMap::new(),
            next_link: 1,
            streams: BTreeMap::new(),
            acknowledged: Vec::new(),
            next_value: 1,
            next_id: 2,
            opened: 0,
            parted: 0,
            failure: None,
        }
    }

    fn link(&self, world: &World, a: usize, b: usize) -> Option<u64> {
        let link = self.links.get(&pair(a, b))?;
        let (a, b) = pair(a, b);
        let lives = (world.nodes[a].life, world.nodes[b].life);
        let stands = world.is_up(a) && world.is_up(b) && link.lives == lives;
        stands.then_some(link.number)
    }

    /// One has everything, and sessions may come there.
    pub fn open(&self, world: &World) -> Option<usize> {
        (0..self.sites.len()).find(|i| self.is_open(world, *i))
    }

    fn is_open(&self, world: &World, i: usize) -> bool {
        let site = &self.sites[i];
        let Part::Leads(leading) = &site.part else {
            return false;
        };
        let is_alive = world.is_up(i) && world.nodes[i].life == site.life;
        is_alive && leading.machine.role() == Role::Open && self.stands(world, i)
    }

    fn stands(&self, world: &World, i: usize) -> bool {
        let acts = self.sites[i].listing.acts();
        acts.is_some() && acts == world.acts(i)
    }

    /// All follow the one that is open, and the cluster lists them.
    pub fn is_whole(&self, world: &World) -> bool {
        let Some(primary) = self.open(world) else {
            return false;
        };
        let all: Replicas = (0..self.sites.len()).map(replica).collect();
        let Part::Leads(leading) = &self.sites[primary].part else {
            return false;
        };
        let listed = group(world, primary).is_some_and(|g| g.in_sync.len() == self.sites.len());
        listed && leading.machine.record().members == all && leading.waiting.is_empty()
    }

    /// What each node has, for a test that fails.
    pub fn tell_all(&self, world: &World) -> String {
        let site = |i: usize| {
            let site = &self.sites[i];
            let part = match &site.part {
                Part::Follows(f) => format!(
                    "follows {:?} on {:?}, parted {}, promised {:?}",
                    f.machine.is_following(),
                    f.link,
                    f.parted,
                    f.machine.promised().number
                ),
                Part::Leads(l) => format!(
                    "leads, {:?}, record {:?}, waited {:?}, quorum {:?}, shipped {:?}",
                    l.machine.role(),
                    l.machine.record(),
                    l.machine.waited(),
                    l.machine.quorum(),
                    l.shipped
                ),
            };
            format!(
                "\n{i}: log {} hard {} applied {}, links {:?}, {:?}, word {:?}: {part}",
                site.log.len(),
                site.hard,
                site.applied,
                site.links,
                site.listing,
                site.word
            )
        };
        let up = (0..self.sites.len()).filter(|i| world.is_up(*i));
        up.map(site).collect()
    }

    /// What an administrator does with logs that part from the primary's.
    pub fn resume(&mut self, world: &World) {
        let Some(primary) = self.open(world) else {
            return;
        };
        for i in (0..self.sites.len()).filter(|i| *i != primary) {
            let (log, standing) = {
                let from = &self.sites[primary];
                let standing = Standing {
                    promised: EpochId::default(),
                    history: from.standing.history.clone(),
                    record: Record::first(EpochId::default(), replica(primary)),
                };
                (from.log[..from.hard].to_vec(), standing)
            };
            let site = &mut self.sites[i];
            let Part::Follows(Following { parted: true, .. }) = &site.part else {
                continue;
            };
            // Seeded anew.
            (site.hard, site.applied) = (log.len(), log.len());
            site.part = follows(i, &standing, log.len(), Lsn::NONE);
            (site.log, site.standing) = (log, standing);
            self.links.remove(&pair(i, primary));
        }
    }

    /// Everything that was acknowledged is in each log.
    pub fn compare(&self) -> Result<(), String> {
        for i in 0..self.sites.len() {
            self.has_everything(i)?;
        }
        Ok(())
    }

    fn has_everything(&self, i: usize) -> Result<(), String> {
        let has: BTreeSet<u64> = self.sites[i].log.iter().map(|e| e.1).collect();
        let mut lost = self.acknowledged.iter().filter(|v| !has.contains(v));
        match lost.next() {
            Some(value) => Err(format!("node {i} lacks {value}, which was acknowledged")),
            None => Ok(()),
        }
    }

    fn fail(&mut self, world: &World, what: String) {
        let text = format!("at {:?} {what}", world.now);
        self.failure.get_or_insert(text);
    }

    // --- time

    pub fn tick(&mut self, world: &mut World, i: usize) -> Result<(), String> {
        if self.sites[i].life != world.nodes[i].life {
            self.restart(world, i);
        }
        self.look_at_links(world, i);
        if world.dice.one_in(2) {
            self.sync(world, i);
        }
        self.follow_owner(world, i)?;
        self.tell_cluster(world, i)?;
        self.lead_on(world, i);
        self.report(world, i);
        self.check(world)
    }

    /// A process begins with what its disk has.
    fn restart(&mut self, world: &mut World, i: usize) {
        let site = &mut self.sites[i];
        let unsynced = (site.log.len() - site.hard) as u64;
        let kept = site.hard + world.dice.below(unsynced + 1) as usize;
        site.log.truncate(kept);
        site.hard = kept;
        site.life = world.nodes[i].life;
        site.listing = Listing::new(replica(i));
        site.word = None;
        site.links.clear();
        let least = match site.standing.record.primary == replica(i) {
            true => Lsn::MAX,
            false => Lsn::NONE,
        };
        site.part = follows(i, &site.standing, kept, least);
    }

    fn look_at_links(&mut self, world: &mut World, i: usize) {
        for (peer, number) in self.sites[i].links.clone() {
            if self.link(world, i, peer) == Some(number) {
                continue;
            }
            self.sites[i].links.remove(&peer);
            match &mut self.sites[i].part {
                Part::Follows(following) => {
                    if following.link == Some((peer, number)) {
                        following.link = None;
                        following.machine.step(FollowerInput::Down);
                    }
                }
                Part::Leads(leading) => {
                    leading.shipped.remove(&peer);
                    self.step(world, i, PrimaryInput::Down(replica(peer)));
                }
            }
        }
        // A primary, as far as it knows, connects to the others.
        for peer in (0..self.sites.len()).filter(|p| *p != i) {
            let leads = matches!(self.sites[i].part, Part::Leads(_));
            let reaches = !world.cut.contains(&(i, peer)) && !world.cut.contains(&(peer, i));
            let runs = world.is_up(peer) && world.nodes[peer].life == self.sites[peer].life;
            let wakes = world.nodes[peer].paused_until <= world.now;
            let is_new = self.link(world, i, peer).is_none();
            if leads && reaches && runs && wakes && is_new && world.dice.one_in(3) {
                self.connect(world, i, peer);
            }
        }
    }

    fn connect(&mut self, world: &mut World, i: usize, peer: usize) {
        let number = self.next_link;
        self.next_link += 1;
        let (a, b) = pair(i, peer);
        let lives = (world.nodes[a].life, world.nodes[b].life);
        self.links.insert((a, b), Link { number, lives });
        for (here, there) in [(i, peer), (peer, i)] {
            // What came before on another connection has ended.
            self.look_at_links_of(world, here, there);
            self.sites[here].links.insert(there, number);
            match &self.sites[here].part {
                Part::Leads(_) => self.tell(world, here, there),
                Part::Follows(_) => self.greet(world, here, there),
            }
        }
    }

    /// In no epoch: nobody is followed yet.
    fn greet(&mut self, world: &mut World, i: usize, peer: usize) {
        if let Part::Follows(Following { machine, .. }) = &self.sites[i].part {
            let ack = Message::Ack {
                epoch: EpochId::default(),
                received: machine.end(),
                here: machine.here(),
            };
            self.send(world, i, peer, ack);
        }
    }

    fn look_at_links_of(&mut self, world: &mut World, here: usize, there: usize) {
        if self.sites[here].links.remove(&there).is_none() {
            return;
        }
        match &mut self.sites[here].part {
            Part::Follows(following) => {
                if following.link.is_some_and(|(peer, _)| peer == there) {
                    following.link = None;
                    following.machine.step(FollowerInput::Down);
                }
            }
            Part::Leads(leading) => {
                leading.shipped.remove(&there);
                self.step(world, here, PrimaryInput::Down(replica(there)));
            }
        }
    }

    fn tell(&mut self, world: &mut World, i: usize, peer: usize) {
        if let Part::Leads(leading) = &self.sites[i].part {
            let record = leading.machine.record();
            let lead = Message::Lead(record.epoch, leading.history.clone(), record);
            self.send(world, i, peer, lead);
        }
    }

    fn send(&mut self, world: &mut World, from: usize, to: usize, message: Message) {
        let Some(number) = self.link(world, from, to) else {
            return;
        };
        if self.sites[from].links.get(&to) != Some(&number) {
            return;
        }
        let breaks = world.cut.contains(&(from, to)) || world.dice.one_in(2000);
        if breaks {
            self.links.remove(&pair(from, to));
            return;
        }
        let delay = ms(1 + world.dice.below(world.net.delay_max.as_millis() as u64));
        let stream = self.streams.entry((from, to, number)).or_default();
        stream.sent += 1;
        let event = Event::Data(from, to, number, stream.sent, message);
        world.push(world.now + delay, event);
    }

    fn sync(&mut self, world: &mut World, i: usize) {
        let end = self.sites[i].log.len();
        self.sites[i].hard = end;
        match &self.sites[i].part {
            Part::Leads(_) => {
                let (end, here) = (lsn(end), lsn(end));
                self.step(world, i, PrimaryInput::Log { end, here });
            }
            Part::Follows(following) => {
                let from = following.link.map(|(peer, _)| peer);
                self.follow(world, i, from, FollowerInput::Synced(lsn(end)), None, None);
            }
        }
    }

    // --- the owner, as `server::hadr::owner` and `listing` have it

    fn follow_owner(&mut self, world: &mut World, i: usize) -> Result<(), String> {
        let leads = self.sites[i].listing.leads();
        match (world.acts(i), leads) {
            (Some(now), Some(mine)) if now == mine => {}
            (Some(now), _) => self.take_office(world, i, now)?,
            (None, Some(mine)) => {
                let lapsed =
                    group(world, i).is_some_and(|g| g.owner == Some(i as u8) && g.epoch == mine);
                if !lapsed {
                    self.step_down(world, i);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn step_down(&mut self, world: &mut World, i: usize) {
        self.sites[i].listing.end();
        if matches!(self.sites[i].part, Part::Leads(_)) {
            self.step(world, i, PrimaryInput::Dismiss);
        }
    }

    fn take_office(&mut self, world: &mut World, i: usize, epoch: u64) -> Result<(), String> {
        self.step_down(world, i);
        self.sync(world, i);
        let listed = group(world, i).map(|g| (replicas(&g.in_sync), g.said));
        let id = self.next_id;
        self.next_id += 1;
        let nodes = self.sites.len();
        let site = &mut self.sites[i];
        let Part::Follows(following) = &mut site.part else {
            return Err(format!("node {i} leads twice"));
        };
        let highest = site
            .standing
            .promised
            .number
            .max(site.standing.record.epoch.number);
        let number = highest.saturating_add(FORCED_STEP).max(epoch << EPOCH_BITS);
        let to = EpochId { number, id };
        let end = lsn(site.log.len());
        let known = following.machine.quorum().min(following.machine.here());
        let history = following.machine.history();
        let promote = FollowerInput::Promote { to, forced: true };
        let mut granted = None;
        let mut inputs = VecDeque::from([promote]);
        while let Some(input) = inputs.pop_front() {
            for output in following.machine.step(input) {
                match output {
                    FollowerOutput::Persist(promised) => site.standing.promised = promised,
                    FollowerOutput::Ask(request) => {
                        let reply: Reply = site.standing.record.answer(request);
                        inputs.push_back(FollowerInput::Judge(reply));
                    }
                    FollowerOutput::Lead(record) => granted = Some(record),
                    other => return Err(format!("a forced node wants {other:?}")),
                }
            }
        }
        let record = granted.ok_or("a forced claim is granted")?;
        let name = record.epoch;
        let history = history.followed_by(Epoch { name, start: end });
        site.standing = Standing {
            promised: name,
            history: history.clone(),
            record,
        };
        site.log.push((id, 0));
        site.hard = site.log.len();
        // Recovery writes pages.
        site.applied = site.hard;
        let opens_at = lsn(site.hard);
        let rules = rules(i, nodes);
        let others = (0..nodes).filter(|n| *n != i);
        site.part = Part::Leads(Box::new(Leading {
            machine: Primary::new(replica(i), record, opens_at, known, rules),
            history,
            heard: others.map(|n| (n, world.now)).collect(),
            shipped: BTreeMap::new(),
            waiting: Vec::new(),
        }));
        site.listing.forget(DATABASE);
        let (listed, said) = listed.unwrap_or_default();
        site.listing.begin(epoch, listed, said);
        site.listing.speak();
        for peer in self.sites[i].links.clone().into_keys() {
            self.tell(world, i, peer);
        }
        self.sync(world, i);
        Ok(())
    }

    /// A planned failover, as the owner is asked for it.
    pub fn release(&mut self, world: &mut World, i: usize, to: usize) -> Result<(), String> {
        let Some(epoch) = self.sites[i].listing.leads() else {
            return Ok(());
        };
        self.step_down(world, i);
        let to = Some(to as u8);
        let group = GROUP;
        world.wish(i, Command::Release { group, epoch, to })?;
        Ok(())
    }

    fn tell_cluster(&mut self, world: &mut World, i: usize) -> Result<(), String> {
        if let Some((word, id, since)) = self.sites[i].word {
            match world.outcomes.get(&id) {
                None if world.now < since + WISH_TIMEOUT => return Ok(()),
                Some(Outcome::Done) => {
                    self.sites[i].listing.agreed(word);
                    self.ask_again(world, i);
                }
                _ => {}
            }
            self.sites[i].word = None;
            return Ok(());
        }
        let Some(epoch) = world
            .acts(i)
            .filter(|e| self.sites[i].listing.speaks() == Some(*e))
        else {
            return Ok(());
        };
        let complete = self.have_everything(i);
        let site = &mut self.sites[i];
        site.listing.widen(complete);
        let known = group(world, i);
        let is_known = known.is_some_and(|g| g.epoch == epoch && replicas(&g.in_sync) == complete);
        let is_said = is_known && site.listing.most() == complete;
        if is_said && site.listing.has_word() {
            return Ok(());
        }
        if is_said {
            site.listing.confirm(epoch, complete);
            self.ask_again(world, i);
            return Ok(());
        }
        let Some(word) = site.listing.say(epoch, complete) else {
            return Ok(());
        };
        let id = world.wish(
            i,
            Command::SetGroup {
                group: GROUP,
                epoch,
                said: word.said,
                in_sync: complete.iter().map(ReplicaId::number).collect(),
                automatic: (0..self.sites.len() as u8).collect(),
            },
        )?;
        self.sites[i].word = Some((word, id, world.now));
        Ok(())
    }

    fn ask_again(&mut self, world: &mut World, i: usize) {
        if matches!(self.sites[i].part, Part::Leads(_)) {
            self.step(world, i, PrimaryInput::AskAgain);
        }
    }

    fn have_everything(&self, i: usize) -> Replicas {
        let site = &self.sites[i];
        let me = Replicas::NONE.with(replica(i));
        let Part::Leads(leading) = &site.part else {
            return me;
        };
        let listed = leading.machine.record().members;
        let fewer = site.listing.fewer(DATABASE);
        let complete = fewer.map_or(listed, |fewer| listed.intersection(fewer));
        complete.union(me)
    }

    // --- a primary, as `daruma_group::replica::Led` runs it

    fn step(&mut self, world: &mut World, i: usize, input: PrimaryInput) {
        let stands = self.stands(world, i);
        let mut inputs = VecDeque::from([PrimaryInput::Stand(stands), input]);
        while let Some(input) = inputs.pop_front() {
            let site = &mut self.sites[i];
            let Part::Leads(leading) = &mut site.part else {
                return;
            };
            for output in leading.machine.step(input) {
                let site = &mut self.sites[i];
                let Part::Leads(leading) = &mut site.part else {
                    return;
                };
                match output {
                    PrimaryOutput::Ask(request) => {
                        let daruma_group::commit::Request::Change { members, .. } = request else {
                            continue;
                        };
                        if site.listing.may_list(DATABASE, members) {
                            let reply = site.standing.record.answer(request);
                            inputs.push_back(PrimaryInput::Judge(reply));
                        }
                    }
                    PrimaryOutput::Raise(quorum) => {
                        let done = position(quorum);
                        site.applied = site.applied.max(done);
                        let acknowledged = leading.waiting.iter().filter(|(end, _)| *end <= done);
                        self.acknowledged
                            .extend(acknowledged.map(|(_, value)| value));
                        leading.waiting.retain(|(end, _)| *end > done);
                    }
                    PrimaryOutput::Open => {
                        self.opened += 1;
                        if let Err(what) = self.has_everything(i) {
                            self.fail(world, format!("{what}, and opens"));
                        }
                    }
                    PrimaryOutput::Tell(record) => {
                        for peer in self.sites[i].links.clone().into_keys() {
                            self.send(world, i, peer, Message::Listed(record));
                        }
                    }
                    PrimaryOutput::Fence(_) => {
                        // The process closes the database, and follows.
                        site.log.truncate(site.hard);
                        let known = site.hard;
                        site.part = follows(i, &site.standing, known, lsn(known));
                        for peer in self.sites[i].links.clone().into_keys() {
                            self.greet(world, i, peer);
                        }
                    }
                    PrimaryOutput::HoldBack(_) => {}
                    PrimaryOutput::Alone | PrimaryOutput::Wait => {
                        self.fail(world, format!("node {i} acknowledges without a lease"));
                    }
                }
            }
        }
    }

    fn lead_on(&mut self, world: &mut World, i: usize) {
        self.look_at_clocks(world, i);
        if self.is_open(world, i) && world.dice.one_in(2) {
            let site = &mut self.sites[i];
            let Part::Leads(leading) = &mut site.part else {
                return;
            };
            for _ in 0..=world.dice.below(3) {
                site.log.push((leading.machine.epoch().id, self.next_value));
                leading.waiting.push((site.log.len(), self.next_value));
                self.next_value += 1;
            }
            let (end, here) = (lsn(site.log.len()), lsn(site.hard));
            self.step(world, i, PrimaryInput::Log { end, here });
        }
        for peer in 0..self.sites.len() {
            self.ship(world, i, peer);
        }
    }

    fn look_at_clocks(&mut self, world: &mut World, i: usize) {
        let Part::Leads(leading) = &self.sites[i].part else {
            return;
        };
        let now = world.now;
        let heard = leading.heard.clone().into_iter();
        for (peer, _) in heard.filter(|(_, at)| *at + SESSION_TIMEOUT < now) {
            self.step(world, i, PrimaryInput::Lost(replica(peer)));
        }
        if world.dice.one_in(10) {
            self.ask_again(world, i);
        }
    }

    fn ship(&mut self, world: &mut World, i: usize, peer: usize) {
        let number = self.sites[i].links.get(&peer).copied();
        let site = &mut self.sites[i];
        let Part::Leads(leading) = &mut site.part else {
            return;
        };
        let Some((link, sent)) = leading.shipped.get(&peer).copied() else {
            return;
        };
        if number != Some(link) {
            return;
        }
        let limit = position(leading.machine.feed_limit(replica(peer))).min(site.log.len());
        let most = sent + 1 + world.dice.below(40) as usize;
        let to = most.min(limit).max(sent);
        let blocks = Message::Blocks {
            epoch: leading.machine.epoch(),
            first: lsn(sent),
            quorum: leading.machine.quorum(),
            entries: site.log[sent..to].to_vec(),
        };
        leading.shipped.insert(peer, (link, to));
        self.send(world, i, peer, blocks);
    }

    // --- a secondary, as `daruma_group::replica::Followed` runs it

    fn report(&mut self, world: &mut World, i: usize) {
        let Part::Follows(following) = &self.sites[i].part else {
            return;
        };
        let machine = &following.machine;
        if let (Some((peer, _)), true) = (following.link, machine.is_following()) {
            let ack = Message::Ack {
                epoch: machine.promised(),
                received: machine.end(),
                here: machine.here(),
            };
            self.send(world, i, peer, ack);
        }
    }

    fn follow(
        &mut self,
        world: &mut World,
        i: usize,
        from: Option<usize>,
        input: FollowerInput,
        entries: Option<&[Entry]>,
        record: Option<Record>,
    ) {
        let number = from.and_then(|peer| self.sites[i].links.get(&peer).copied());
        let site = &mut self.sites[i];
        let Part::Follows(following) = &mut site.part else {
            return;
        };
        let mut says = Vec::new();
        let mut failures = Vec::new();
        for output in following.machine.step(input) {
            match output {
                FollowerOutput::Persist(promised) => site.standing.promised = promised,
                FollowerOutput::Cut(at) => {
                    let at = position(at);
                    if at < site.applied {
                        let applied = site.applied;
                        failures.push(format!("node {i} cuts at {at}, pages have {applied}"));
                    }
                    site.log.truncate(at);
                    site.hard = site.hard.min(at);
                }
                FollowerOutput::Adopt(history) => {
                    site.standing.history = history;
                    if let Some(record) = record {
                        site.standing.record = record;
                    }
                    following.link = from.zip(number);
                    following.parted = false;
                }
                FollowerOutput::Append => site.log.extend(entries.unwrap_or_default()),
                FollowerOutput::Acknowledge {
                    epoch,
                    received,
                    here,
                } => says.push(Message::Ack {
                    epoch,
                    received,
                    here,
                }),
                FollowerOutput::Depose { promised, led } => {
                    says.push(Message::Depose { promised, led });
                }
                FollowerOutput::Rejoin(_) => {
                    following.parted = true;
                    self.parted += 1;
                    says.push(Message::Rejoin);
                }
                other => failures.push(format!("a secondary wants {other:?}")),
            }
        }
        if following.machine.is_following() {
            let may = position(following.machine.may_apply());
            site.applied = site.applied.max(may.min(site.hard));
        }
        failures.into_iter().for_each(|what| self.fail(world, what));
        if let Some(peer) = from {
            says.into_iter()
                .for_each(|message| self.send(world, i, peer, message));
        }
    }

    // --- messages

    pub fn receive(
        &mut self,
        world: &mut World,
        from: usize,
        to: usize,
        number: u64,
        place: u64,
        message: Message,
    ) -> Result<(), String> {
        let stream = self.streams.entry((from, to, number)).or_default();
        stream.early.insert(place, message);
        loop {
            let stream = self.streams.entry((from, to, number)).or_default();
            let Some(message) = stream.early.remove(&(stream.come + 1)) else {
                return Ok(());
            };
            stream.come += 1;
            self.take(world, from, to, number, message)?;
        }
    }

    fn take(
        &mut self,
        world: &mut World,
        from: usize,
        to: usize,
        number: u64,
        message: Message,
    ) -> Result<(), String> {
        let is_same = world.nodes[to].life == self.sites[to].life;
        let stands = self.link(world, from, to) == Some(number) && is_same;
        if !stands || self.sites[to].links.get(&from) != Some(&number) {
            return Ok(());
        }
        match self.sites[to].part {
            Part::Leads(_) => self.receive_as_primary(world, from, to, number, message),
            Part::Follows(_) => self.receive_as_secondary(world, from, to, message),
        }
        self.check(world)
    }

    fn receive_as_primary(
        &mut self,
        world: &mut World,
        from: usize,
        to: usize,
        number: u64,
        message: Message,
    ) {
        let Part::Leads(leading) = &mut self.sites[to].part else {
            return;
        };
        leading.heard.insert(from, world.now);
        let own = leading.machine.epoch();
        match message {
            Message::Ack {
                epoch,
                received,
                here,
            } => {
                if epoch != own {
                    leading.shipped.remove(&from);
                    return self.tell(world, to, from);
                }
                if leading.shipped.get(&from).is_none_or(|(l, _)| *l != number) {
                    leading.shipped.insert(from, (number, position(received)));
                    self.step(world, to, PrimaryInput::Up(replica(from)));
                }
                let from = replica(from);
                self.step(world, to, PrimaryInput::Ack { from, epoch, here });
            }
            Message::Depose {
                promised,
                led: true,
            } => self.step(world, to, PrimaryInput::Led(promised)),
            Message::Depose { led: false, .. } | Message::Rejoin => {
                self.step(world, to, PrimaryInput::Lost(replica(from)));
            }
            Message::Lead(epoch, ..) => match epoch.number > own.number {
                true => self.step(world, to, PrimaryInput::Led(epoch)),
                false => {
                    let (promised, led) = (own, true);
                    self.send(world, to, from, Message::Depose { promised, led });
                }
            },
            Message::Blocks { .. } | Message::Listed(_) => {}
        }
    }

    fn receive_as_secondary(
        &mut self,
        world: &mut World,
        from: usize,
        to: usize,
        message: Message,
    ) {
        let site = &mut self.sites[to];
        let Part::Follows(following) = &mut site.part else {
            return;
        };
        match message {
            Message::Lead(epoch, history, record) => {
                let own = site.standing.record;
                let is_listed = own.primary == replica(to) && own.members.contains(replica(from));
                let is_later = own.epoch.number < epoch.number;
                if is_listed && is_later && !following.machine.is_following() {
                    following.machine.let_go(lsn(site.applied));
                }
                let input = FollowerInput::Lead { epoch, history };
                self.follow(world, to, Some(from), input, None, Some(record));
            }
            Message::Blocks {
                epoch,
                first,
                quorum,
                entries,
            } => {
                // Each entry is a block: those that are here are passed over.
                let here = position(following.machine.end()).saturating_sub(position(first));
                let known = here.min(entries.len());
                let (first, entries) = (lsn(position(first) + known), &entries[known..]);
                let end = lsn(position(first) + entries.len());
                let input = match entries.is_empty() {
                    true => FollowerInput::Quorum { epoch, quorum },
                    false => FollowerInput::Blocks {
                        epoch,
                        first,
                        end,
                        quorum,
                    },
                };
                self.follow(world, to, Some(from), input, Some(entries), None);
            }
            Message::Listed(record) => {
                let known = site.standing.record;
                if record.epoch == known.epoch && record.sequence > known.sequence {
                    site.standing.record = record;
                }
            }
            Message::Ack { .. } | Message::Depose { .. } | Message::Rejoin => {}
        }
    }

    // --- what must be so

    fn check(&mut self, world: &World) -> Result<(), String> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let open: Vec<usize> = (0..self.sites.len())
            .filter(|i| self.is_open(world, *i))
            .collect();
        if open.len() > 1 {
            return Err(format!("at {:?} nodes {open:?} are open", world.now));
        }
        for i in open {
            self.check_list(world, i)?;
        }
        Ok(())
    }

    /// Whoever the cluster may name is one for whom commits wait.
    fn check_list(&self, world: &World, i: usize) -> Result<(), String> {
        let site = &self.sites[i];
        let Part::Leads(leading) = &site.part else {
            return Ok(());
        };
        let members = leading.machine.record().members;
        // What something newer has replaced is nobody's to act on.
        let is_of_now = |n: &usize| {
            let held = &world.machine(*n).register().held;
            let last = world.chain.last();
            last == Some(&held.origin) || last == Some(&held.base)
        };
        let nodes = (0..self.sites.len()).filter(|n| world.is_up(*n));
        for node in nodes.filter(is_of_now) {
            let known = group(world, node).filter(|g| Some(g.epoch) == site.listing.acts());
            let listed = known.map_or(Replicas::NONE, |g| replicas(&g.in_sync));
            if !listed.is_subset_of(members) {
                return Err(format!(
                    "at {:?} node {node} lists {listed:?}, and the record of node {i} {members:?}",
                    world.now
                ));
            }
        }
        Ok(())
    }
}

fn follows(i: usize, standing: &Standing, end: usize, least: Lsn) -> Part {
    let history = standing.history.up_to(lsn(end));
    let machine = Follower::new(replica(i), standing.promised, history, lsn(end), least);
    Part::Follows(Following {
        machine,
        link: None,
        parted: false,
    })
}

fn rules(me: usize, nodes: usize) -> Rules {
    let others = (0..nodes).filter(|n| *n != me);
    Rules {
        synchronous: true,
        required: 0,
        window_bytes: 8,
        leased: true,
        replicas: others
            .map(|n| ReplicaConfig {
                replica: replica(n),
                synchronous: true,
            })
            .collect(),
    }
}

fn group(world: &World, i: usize) -> Option<GroupState> {
    world.machine(i).state().group(&GROUP).cloned()
}

fn replicas(nodes: &[u8]) -> Replicas {
    nodes.iter().filter_map(|n| ReplicaId::new(*n)).collect()
}
