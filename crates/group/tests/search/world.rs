//! Three nodes, a judge, and what is between them.

use daruma_base::Lsn;
use daruma_group::commit::{
    Epoch, EpochId, Follower, FollowerInput, FollowerOutput, History, Primary, PrimaryInput,
    PrimaryOutput, Record, ReplicaConfig, ReplicaId, Replicas, Reply, Request, Role, Rules,
};
use std::collections::{BTreeMap, VecDeque};

const NODES: usize = 3;
/// First of the marks that begin an epoch in a log.
const BEGIN: u8 = 100;

/// How often each thing may happen.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Budget {
    pub appends: u8,
    pub breaks: u8,
    pub losses: u8,
    pub crashes: u8,
    pub promotions: u8,
    pub repeats: u8,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
enum Message {
    Lead(EpochId, History),
    Blocks {
        epoch: EpochId,
        first: usize,
        entries: Vec<u8>,
        quorum: Lsn,
    },
    Ack {
        epoch: EpochId,
        received: Lsn,
        here: Lsn,
    },
    Depose {
        promised: EpochId,
        led: bool,
    },
}

#[derive(Clone, Debug, Hash)]
enum Standing {
    Primary(Primary),
    Follower(Follower),
}

#[derive(Clone, Debug, Hash)]
struct Node {
    standing: Standing,
    promised: EpochId,
    history: History,
    log: Vec<u8>,
    here: usize,
    /// What pages and readers may have seen.
    floor: Lsn,
    /// Its log acknowledges by itself.
    alone: bool,
    /// Its log holds back who writes much.
    holds_back: bool,
}

/// A connection from a primary to a follower.
#[derive(Clone, Debug, Hash, Default)]
struct Link {
    down: VecDeque<Message>,
    up: VecDeque<Message>,
    /// Fed up to here, once the follower has told its position.
    next: Option<usize>,
    told_quorum: Lsn,
}

#[derive(Clone, Debug, Hash)]
pub struct World {
    nodes: Vec<Node>,
    links: BTreeMap<(usize, usize), Link>,
    judge: Record,
    requests: Vec<(usize, Request)>,
    replies: Vec<(usize, Reply)>,
    /// The log of each epoch as its primary had it.
    reigns: BTreeMap<EpochId, Vec<u8>>,
    /// Acknowledged: what each position holds.
    acked: BTreeMap<usize, u8>,
    next_entry: u8,
    next_epoch: u8,
    required: u8,
    budget: Budget,
}

/// A step that leads from one world to the next, told for people.
type Step = (String, Result<World, String>);

fn id(node: usize) -> ReplicaId {
    ReplicaId::new(node as u8).unwrap()
}

fn at(index: usize) -> Lsn {
    Lsn(index as u64)
}

fn rules(me: usize, required: u8) -> Rules {
    let others = (0..NODES).filter(|n| *n != me);
    Rules {
        synchronous: true,
        required,
        window_bytes: 1,
        leased: false,
        replicas: others
            .map(|n| ReplicaConfig {
                replica: id(n),
                synchronous: true,
            })
            .collect(),
    }
}

impl World {
    /// One node leads, the others have nothing.
    pub fn fresh(budget: Budget) -> World {
        World::requiring(0, budget)
    }

    /// Commits need so many synchronized secondaries.
    fn requiring(required: u8, budget: Budget) -> World {
        let epoch = EpochId {
            number: 1,
            id: 1000,
        };
        let log = vec![BEGIN];
        let first = Epoch {
            name: epoch,
            start: Lsn::NONE,
        };
        let judge = Record::first(epoch, id(0));
        let none = EpochId::default();
        let follower = |n: usize| Node {
            standing: Standing::Follower(Follower::new(
                id(n),
                none,
                History::default(),
                Lsn::NONE,
                Lsn::NONE,
            )),
            promised: none,
            history: History::default(),
            log: Vec::new(),
            here: 0,
            floor: Lsn::NONE,
            alone: false,
            holds_back: false,
        };
        let mut nodes: Vec<Node> = (0..NODES).map(follower).collect();
        nodes[0] = Node {
            standing: Standing::Primary(Primary::new(
                id(0),
                judge,
                at(1),
                Lsn::NONE,
                rules(0, required),
            )),
            promised: epoch,
            history: History::new(vec![first]).unwrap(),
            log: log.clone(),
            here: 1,
            floor: Lsn::NONE,
            alone: false,
            holds_back: false,
        };
        let mut world = World {
            nodes,
            links: BTreeMap::new(),
            judge,
            requests: Vec::new(),
            replies: Vec::new(),
            reigns: BTreeMap::from([(epoch, log)]),
            acked: BTreeMap::new(),
            next_entry: 0,
            next_epoch: 1,
            required,
            budget,
        };
        world.log_moved(0).unwrap();
        world
    }

    /// All three hold the same log and are listed, and nothing is under way.
    pub fn joined(budget: Budget) -> World {
        World::joined_requiring(0, budget)
    }

    /// The same, and commits need so many synchronized secondaries.
    #[allow(dead_code)]
    pub fn joined_requiring(required: u8, budget: Budget) -> World {
        let mut world = World::requiring(required, budget);
        world.connect(0, 1);
        world.connect(0, 2);
        world.settle();
        assert_eq!(world.judge.members.count(), 3, "{world:#?}");
        world
    }

    fn settle(&mut self) {
        while let Some(next) = self.quiet_step() {
            *self = next;
        }
    }

    /// Once everybody is connected anew and nothing more goes wrong, commits go on.
    #[allow(dead_code)]
    pub(super) fn check_that_commits_go_on(&self) -> Result<(), String> {
        let leads = |n: &Node| matches!(&n.standing, Standing::Primary(p) if p.epoch() == self.judge.epoch && p.lacks_secondaries());
        let Some(p) = self.nodes.iter().position(leads) else {
            return Ok(());
        };
        let mut world = self.clone();
        for f in (0..NODES).filter(|f| *f != p) {
            if world.links.contains_key(&(p, f)) {
                world.disconnect(p, f)?;
            }
            world.connect(p, f);
        }
        world.settle();
        match world.nodes.iter().any(leads) {
            true => Err(format!("{p} waits for secondaries for ever: {world:?}")),
            false => Ok(()),
        }
    }

    /// A step that no fault is needed for, if there is one.
    fn quiet_step(&self) -> Option<World> {
        let mut steps = Vec::new();
        self.deliveries(&mut steps);
        self.judgements(&mut steps);
        self.syncs(&mut steps);
        self.feeds(&mut steps);
        steps.into_iter().next().map(|(_, next)| next.unwrap())
    }

    pub(super) fn next(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.deliveries(&mut steps);
        self.judgements(&mut steps);
        self.syncs(&mut steps);
        self.hearings(&mut steps);
        self.feeds(&mut steps);
        self.appends(&mut steps);
        self.connections(&mut steps);
        self.losses(&mut steps);
        self.crashes(&mut steps);
        self.promotions(&mut steps);
        self.repeats(&mut steps);
        steps
    }

    fn try_step(
        &self,
        steps: &mut Vec<Step>,
        told: String,
        change: impl FnOnce(&mut World) -> Result<(), String>,
    ) {
        let mut world = self.clone();
        let done = change(&mut world)
            .and_then(|()| world.check())
            .map(|()| world);
        steps.push((told, done));
    }

    fn deliveries(&self, steps: &mut Vec<Step>) {
        for (&(p, f), link) in &self.links {
            if let Some(message) = link.down.front() {
                self.try_step(steps, format!("{f} gets from {p}: {message:?}"), |w| {
                    let message = w.link(p, f).down.pop_front().unwrap();
                    w.follower_gets(p, f, message)
                });
            }
            if let Some(message) = link.up.front() {
                self.try_step(steps, format!("{p} gets from {f}: {message:?}"), |w| {
                    let message = w.link(p, f).up.pop_front().unwrap();
                    w.primary_gets(p, f, &message)
                });
            }
        }
    }

    fn follower_gets(&mut self, p: usize, f: usize, message: Message) -> Result<(), String> {
        let (input, entries) = match message {
            Message::Lead(epoch, history) => (FollowerInput::Lead { epoch, history }, Vec::new()),
            Message::Blocks {
                epoch,
                first,
                entries,
                quorum,
            } => {
                let (first, end) = (at(first), at(first + entries.len()));
                match entries.is_empty() {
                    true => (FollowerInput::Quorum { epoch, quorum }, entries),
                    false => (
                        FollowerInput::Blocks {
                            epoch,
                            first,
                            end,
                            quorum,
                        },
                        entries,
                    ),
                }
            }
            other => return Err(format!("{other:?} is no message to a follower")),
        };
        if let Standing::Primary(primary) = &self.nodes[f].standing {
            return self.primary_is_led(p, f, primary.epoch(), &input);
        }
        self.step_follower(f, Some(p), input, &entries)
    }

    /// Somebody leads a primary: the one with the older epoch gives way.
    fn primary_is_led(
        &mut self,
        p: usize,
        f: usize,
        own: EpochId,
        input: &FollowerInput,
    ) -> Result<(), String> {
        let FollowerInput::Lead { epoch, .. } = input else {
            return Ok(());
        };
        if epoch.number > own.number {
            return self.step_primary(f, PrimaryInput::Led(*epoch));
        }
        let answer = Message::Depose {
            promised: own,
            led: true,
        };
        self.link(p, f).up.push_back(answer);
        Ok(())
    }

    fn primary_gets(&mut self, p: usize, f: usize, message: &Message) -> Result<(), String> {
        match *message {
            Message::Ack {
                epoch,
                received,
                here,
            } => {
                let link = self.link(p, f);
                if link.next.is_none() {
                    link.next = Some(received.0 as usize);
                    self.step_primary(p, PrimaryInput::Up(id(f)))?;
                }
                self.step_primary(
                    p,
                    PrimaryInput::Ack {
                        from: id(f),
                        epoch,
                        here,
                    },
                )
            }
            Message::Depose {
                promised,
                led: true,
            } => self.step_primary(p, PrimaryInput::Led(promised)),
            Message::Depose { led: false, .. } => self.step_primary(p, PrimaryInput::Lost(id(f))),
            ref other => Err(format!("{other:?} is no message to a primary")),
        }
    }

    fn judgements(&self, steps: &mut Vec<Step>) {
        for (i, (node, request)) in self.requests.iter().enumerate() {
            self.try_step(
                steps,
                format!("the judge gets from {node}: {request:?}"),
                |w| {
                    let (node, request) = w.requests.remove(i);
                    let reply = w.judge.answer(request);
                    w.put_reply(node, reply);
                    Ok(())
                },
            );
        }
        for (i, (node, reply)) in self.replies.iter().enumerate() {
            self.try_step(steps, format!("{node} is told {reply:?}"), |w| {
                let (node, reply) = w.replies.remove(i);
                match &w.nodes[node].standing {
                    Standing::Primary(_) => w.step_primary(node, PrimaryInput::Judge(reply)),
                    Standing::Follower(_) => {
                        w.step_follower(node, None, FollowerInput::Judge(reply), &[])
                    }
                }
            });
        }
    }

    fn syncs(&self, steps: &mut Vec<Step>) {
        for n in (0..NODES).filter(|n| self.nodes[*n].here < self.nodes[*n].log.len()) {
            self.try_step(steps, format!("{n} syncs"), |w| w.sync(n));
        }
    }

    /// A machine hears of what its log has acknowledged by itself.
    fn hearings(&self, steps: &mut Vec<Step>) {
        for (n, node) in self.nodes.iter().enumerate() {
            let late = matches!(&node.standing, Standing::Primary(p) if node.alone && p.quorum() < at(node.here));
            if late {
                self.try_step(steps, format!("{n} hears of its log"), |w| w.log_moved(n));
            }
        }
    }

    fn sync(&mut self, n: usize) -> Result<(), String> {
        let node = &mut self.nodes[n];
        node.here = node.log.len();
        let here = at(node.here);
        match node.standing {
            Standing::Primary(_) => {
                if self.nodes[n].alone {
                    // The log's own word; the machine may hear of it much later.
                    self.acknowledge(n, here)?;
                    return Ok(());
                }
                self.log_moved(n)
            }
            Standing::Follower(_) => {
                let led_by = self.leader_of(n);
                self.step_follower(n, led_by, FollowerInput::Synced(here), &[])
            }
        }
    }

    /// The connection on which a follower acknowledges: that of the primary that it promised to follow.
    fn leader_of(&self, f: usize) -> Option<usize> {
        let promised = self.nodes[f].promised;
        (0..NODES).find(|p| {
            let leads =
                matches!(&self.nodes[*p].standing, Standing::Primary(m) if m.epoch() == promised);
            leads && self.links.contains_key(&(*p, f))
        })
    }

    fn feeds(&self, steps: &mut Vec<Step>) {
        for (&(p, f), link) in &self.links {
            let (Standing::Primary(primary), Some(next)) = (&self.nodes[p].standing, link.next)
            else {
                continue;
            };
            let limit = primary.feed_limit(id(f)).0 as usize;
            if next < limit || link.told_quorum < primary.quorum() {
                self.try_step(steps, format!("{p} feeds {f}"), |w| {
                    w.feed(p, f, next, limit.max(next));
                    Ok(())
                });
            }
        }
    }

    fn feed(&mut self, p: usize, f: usize, next: usize, limit: usize) {
        let Standing::Primary(primary) = &self.nodes[p].standing else {
            unreachable!("a primary feeds");
        };
        let (epoch, quorum) = (primary.epoch(), primary.quorum());
        let entries = self.nodes[p].log[next..limit].to_vec();
        let link = self.link(p, f);
        link.next = Some(limit);
        link.told_quorum = quorum;
        link.down.push_back(Message::Blocks {
            epoch,
            first: next,
            entries,
            quorum,
        });
    }

    fn appends(&self, steps: &mut Vec<Step>) {
        for n in 0..NODES {
            let open =
                matches!(&self.nodes[n].standing, Standing::Primary(p) if p.role() == Role::Open);
            if open && self.budget.appends > 0 {
                self.try_step(steps, format!("{n} appends {}", self.next_entry), |w| {
                    w.budget.appends -= 1;
                    let entry = w.next_entry;
                    w.next_entry += 1;
                    w.append(n, entry)
                });
            }
        }
    }

    fn append(&mut self, n: usize, entry: u8) -> Result<(), String> {
        let node = &mut self.nodes[n];
        node.log.push(entry);
        let epoch = node.promised;
        self.reigns.insert(epoch, node.log.clone());
        self.log_moved(n)
    }

    fn log_moved(&mut self, n: usize) -> Result<(), String> {
        let (end, here) = (at(self.nodes[n].log.len()), at(self.nodes[n].here));
        self.step_primary(n, PrimaryInput::Log { end, here })
    }

    fn connections(&self, steps: &mut Vec<Step>) {
        for p in 0..NODES {
            let leads = matches!(&self.nodes[p].standing, Standing::Primary(_));
            for f in (0..NODES).filter(|f| *f != p) {
                let linked = self.links.contains_key(&(p, f));
                if leads && !linked {
                    self.try_step(steps, format!("{p} connects to {f}"), |w| {
                        w.connect(p, f);
                        Ok(())
                    });
                }
                if linked && self.budget.breaks > 0 {
                    self.try_step(steps, format!("the connection of {p} to {f} breaks"), |w| {
                        w.budget.breaks -= 1;
                        w.disconnect(p, f)
                    });
                }
            }
        }
    }

    fn connect(&mut self, p: usize, f: usize) {
        let Standing::Primary(primary) = &self.nodes[p].standing else {
            unreachable!("a primary connects");
        };
        let lead = Message::Lead(primary.epoch(), self.nodes[p].history.clone());
        let link = Link {
            down: VecDeque::from([lead]),
            ..Link::default()
        };
        self.links.insert((p, f), link);
    }

    fn disconnect(&mut self, p: usize, f: usize) -> Result<(), String> {
        self.links.remove(&(p, f));
        if let Standing::Primary(_) = self.nodes[p].standing {
            self.step_primary(p, PrimaryInput::Down(id(f)))?;
        }
        let follows = matches!(self.nodes[f].standing, Standing::Follower(_));
        if follows && self.leader_of(f).is_none() {
            self.step_follower(f, None, FollowerInput::Down, &[])?;
        }
        Ok(())
    }

    fn losses(&self, steps: &mut Vec<Step>) {
        if self.budget.losses == 0 {
            return;
        }
        for p in 0..NODES {
            let Standing::Primary(primary) = &self.nodes[p].standing else {
                continue;
            };
            for r in primary.waited().iter() {
                self.try_step(steps, format!("{p} gives up {r:?}"), |w| {
                    w.budget.losses -= 1;
                    w.step_primary(p, PrimaryInput::Lost(r))
                });
            }
        }
    }

    fn crashes(&self, steps: &mut Vec<Step>) {
        if self.budget.crashes == 0 {
            return;
        }
        for n in 0..NODES {
            self.try_step(steps, format!("{n} crashes and starts"), |w| {
                w.budget.crashes -= 1;
                w.restart(n)
            });
        }
    }

    /// The process ends; what was not synced is gone.
    fn restart(&mut self, n: usize) -> Result<(), String> {
        let node = &mut self.nodes[n];
        node.log.truncate(node.here);
        let quorum = match &node.standing {
            Standing::Primary(_) if node.alone => at(node.here),
            Standing::Primary(p) => p.quorum(),
            Standing::Follower(f) => f.may_apply(),
        };
        node.floor = node.floor.max(quorum);
        let history = node.history.up_to(at(node.here));
        let follower = Follower::new(id(n), node.promised, history, at(node.here), node.floor);
        node.standing = Standing::Follower(follower);
        node.alone = false;
        node.holds_back = false;
        let gone: Vec<_> = self
            .links
            .keys()
            .copied()
            .filter(|(p, f)| *p == n || *f == n)
            .collect();
        gone.into_iter()
            .try_for_each(|(p, f)| self.disconnect(p, f))
    }

    fn promotions(&self, steps: &mut Vec<Step>) {
        if self.budget.promotions == 0 {
            return;
        }
        for n in (0..NODES).filter(|n| matches!(self.nodes[*n].standing, Standing::Follower(_))) {
            self.try_step(steps, format!("{n} stands"), |w| {
                w.budget.promotions -= 1;
                if w.nodes[n].here < w.nodes[n].log.len() {
                    w.sync(n)?;
                }
                let to = EpochId {
                    number: w.nodes[n].promised.number + 1,
                    id: u128::from(1000 + u16::from(w.next_epoch)),
                };
                w.next_epoch += 1;
                w.step_follower(n, None, FollowerInput::Promote { to, forced: false }, &[])
            });
        }
    }

    fn repeats(&self, steps: &mut Vec<Step>) {
        if self.budget.repeats == 0 {
            return;
        }
        for n in 0..NODES {
            self.try_step(steps, format!("{n} asks the judge again"), |w| {
                w.budget.repeats -= 1;
                match w.nodes[n].standing {
                    Standing::Primary(_) => w.step_primary(n, PrimaryInput::AskAgain),
                    Standing::Follower(_) => w.step_follower(n, None, FollowerInput::AskAgain, &[]),
                }
            });
        }
    }

    fn step_primary(&mut self, n: usize, input: PrimaryInput) -> Result<(), String> {
        let Standing::Primary(primary) = &mut self.nodes[n].standing else {
            return Ok(());
        };
        for output in primary.step(input) {
            match output {
                PrimaryOutput::Ask(request) => self.put_request(n, request),
                PrimaryOutput::Raise(to) => self.acknowledge(n, to)?,
                PrimaryOutput::Open => {
                    // What a primary found in its log when it began becomes visible with it.
                    let opens_at = self.nodes[n].history.last().unwrap().start;
                    self.acknowledge(n, Lsn(opens_at.0 + 1))?;
                }
                PrimaryOutput::Alone => {
                    let here = at(self.nodes[n].here);
                    self.acknowledge(n, here)?;
                    self.nodes[n].alone = true;
                }
                PrimaryOutput::Wait => {
                    let shown = at(self.nodes[n].here);
                    self.nodes[n].alone = false;
                    self.step_primary(n, PrimaryInput::Waiting(shown))?;
                }
                PrimaryOutput::HoldBack(are_held) => self.nodes[n].holds_back = are_held,
                PrimaryOutput::Tell(_) => {}
                PrimaryOutput::Fence(_) => self.restart(n)?,
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, n: usize, to: Lsn) -> Result<(), String> {
        let log = &self.nodes[n].log;
        for (i, entry) in log.iter().take(to.0 as usize).enumerate() {
            let before = self.acked.insert(i, *entry);
            if before.is_some_and(|b| b != *entry) {
                return Err(format!(
                    "{n} shows {entry} where {before:?} was acknowledged"
                ));
            }
        }
        Ok(())
    }

    fn step_follower(
        &mut self,
        n: usize,
        from: Option<usize>,
        input: FollowerInput,
        entries: &[u8],
    ) -> Result<(), String> {
        let Standing::Follower(follower) = &mut self.nodes[n].standing else {
            return Ok(());
        };
        for output in follower.step(input) {
            self.carry_out(n, from, output, entries)?;
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        n: usize,
        from: Option<usize>,
        output: FollowerOutput,
        entries: &[u8],
    ) -> Result<(), String> {
        let node = &mut self.nodes[n];
        match output {
            FollowerOutput::Persist(epoch) => node.promised = epoch,
            FollowerOutput::Cut(to) => {
                node.log.truncate(to.0 as usize);
                node.here = node.here.min(node.log.len());
                node.history = node.history.up_to(to);
            }
            FollowerOutput::Adopt(history) => node.history = history,
            FollowerOutput::Append => node.log.extend(entries),
            FollowerOutput::Acknowledge {
                epoch,
                received,
                here,
            } => {
                self.check_acknowledged(n, epoch, here)?;
                let message = Message::Ack {
                    epoch,
                    received,
                    here,
                };
                self.say(from, n, message);
            }
            FollowerOutput::Depose { promised, led } => {
                self.say(from, n, Message::Depose { promised, led });
            }
            FollowerOutput::Rejoin(fork) => {
                return Err(format!(
                    "{n} cannot cut at {fork:?}: {:?} may be applied",
                    node.floor
                ));
            }
            FollowerOutput::Ask(request) => self.put_request(n, request),
            FollowerOutput::Lead(record) => self.lead(n, record)?,
            FollowerOutput::Remain(_) => {}
        }
        Ok(())
    }

    fn say(&mut self, p: Option<usize>, f: usize, message: Message) {
        if let Some(link) = p.and_then(|p| self.links.get_mut(&(p, f))) {
            link.up.push_back(message);
        }
    }

    fn lead(&mut self, n: usize, record: Record) -> Result<(), String> {
        let node = &mut self.nodes[n];
        let Standing::Follower(follower) = &node.standing else {
            unreachable!("a follower becomes primary");
        };
        let quorum = follower.may_apply();
        let start = at(node.log.len());
        let epoch = Epoch {
            name: record.epoch,
            start,
        };
        node.history = follower.history().followed_by(epoch);
        let primary = Primary::new(
            id(n),
            record,
            Lsn(start.0 + 1),
            quorum,
            rules(n, self.required),
        );
        node.standing = Standing::Primary(primary);
        let begin = BEGIN + (record.epoch.id - 1000) as u8;
        self.append(n, begin)
    }

    fn check_acknowledged(&self, n: usize, epoch: EpochId, here: Lsn) -> Result<(), String> {
        let node = &self.nodes[n];
        let here = here.0 as usize;
        if here > node.here {
            return Err(format!(
                "{n} acknowledges {here}, and {} is hard",
                node.here
            ));
        }
        let reign = self.reigns.get(&epoch).map_or(&[][..], Vec::as_slice);
        match reign.get(..here) == node.log.get(..here) {
            true => Ok(()),
            false => Err(format!(
                "{n} acknowledges {here} of {epoch:?} {reign:?} and has {:?}",
                node.log
            )),
        }
    }

    fn check(&self) -> Result<(), String> {
        for member in self.judge.members.iter() {
            let node = &self.nodes[member.number() as usize];
            let hard = &node.log[..node.here];
            let missing = self
                .acked
                .iter()
                .find(|(i, entry)| hard.get(**i) != Some(entry));
            if let Some(missing) = missing {
                return Err(format!(
                    "{member:?} may be promoted and lacks {missing:?}: {hard:?}"
                ));
            }
        }
        for (n, node) in self.nodes.iter().enumerate() {
            let Standing::Primary(primary) = &node.standing else {
                continue;
            };
            let others = self.judge.members.without(id(n));
            let present = primary.epoch() == self.judge.epoch;
            if present && !others.is_subset_of(primary.waited()) {
                return Err(format!("{n} does not wait for all of {others:?}"));
            }
            // Nobody's word could ever end their wait.
            if node.holds_back && primary.waited() == Replicas::NONE && !primary.lacks_secondaries()
            {
                return Err(format!("{n} holds writers back for nobody"));
            }
            if !node.holds_back
                && primary.waited() != Replicas::NONE
                && primary.role() == Role::Open
            {
                return Err(format!("{n} holds nobody back from {:?}", primary.waited()));
            }
        }
        Ok(())
    }

    fn link(&mut self, p: usize, f: usize) -> &mut Link {
        self.links.get_mut(&(p, f)).expect("a connection")
    }

    /// What is under way to the judge and from it is a set, so that orders that make no difference are one state.
    fn put_request(&mut self, n: usize, request: Request) {
        if !self.requests.contains(&(n, request)) {
            self.requests.push((n, request));
            self.requests.sort_by_key(|r| format!("{r:?}"));
        }
    }

    fn put_reply(&mut self, n: usize, reply: Reply) {
        if !self.replies.contains(&(n, reply)) {
            self.replies.push((n, reply));
            self.replies.sort_by_key(|r| format!("{r:?}"));
        }
    }
}
