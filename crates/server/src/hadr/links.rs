//! Connections of a group: who makes them, who is let in, and what is said on them beside log.
//!
//! Theory: of two replicas the one with the lower number connects, and the primary connects to everybody: who has not joined yet
//! connects to nobody. A secondary that has heard of the primary for no session timeout connects to it as well: it may have been removed from
//! the group while it was away, and is told so. What comes twice by that does no harm; the newer connection carries the log.

use super::group::{Group, Task};
use super::seed::SeedServer;
use super::wire::Definition;
use daruma_catalog::names_equal;
use daruma_group::commit::ReplicaId;
use daruma_group::transport::{Dialer, EndpointConfig, Handler, Link, LinkError, Target, Wanted};
use daruma_group::wire::{Hello, Message, Purpose};
use std::net::ToSocketAddrs;
use std::sync::{Arc, Weak};
use std::time::Instant;

impl Group {
    /// Keeps a thread for each other replica that may have to be connected to.
    pub(super) fn connect(self: &Arc<Self>) {
        let others = self.others();
        let mut dialers = self.dialers.lock();
        let gone = dialers.extract_if(.., |(to, _)| !others.contains(to));
        let gone: Vec<_> = gone.collect();
        for to in others {
            if dialers.iter().any(|(known, _)| *known == to) {
                continue;
            }
            let group = Arc::downgrade(self);
            let target = move || group.upgrade().map_or(Ok(None), |g| g.target(to));
            let handler = Arc::new(Links(Arc::downgrade(self)));
            match Dialer::start(Box::new(target), handler) {
                Ok(dialer) => dialers.push((to, dialer)),
                Err(error) => self.common.log(&format!(
                    "No thread to connect to replica {} of a group: {error}.",
                    to.number()
                )),
            }
        }
        dialers.iter().for_each(|(_, dialer)| dialer.hurry());
        drop(dialers);
        // Their threads may be about to look at the others.
        drop(gone);
    }

    fn target(&self, to: ReplicaId) -> Wanted {
        if self.is_stopped() || self.is_removed() {
            return Ok(None);
        }
        let is_connected = self.node.is_connected(to);
        let is_alone = to.number() == self.reign().primary && self.is_alone(is_connected);
        let is_mine = self.me < to || self.is_primary() || is_alone;
        match is_mine && !is_connected {
            true => self.address_of(to),
            false => Ok(None),
        }
    }

    /// Has the primary been away for as long as its session lasts?
    fn is_alone(&self, is_connected: bool) -> bool {
        let mut since = self.alone_since.lock();
        if is_connected {
            *since = None;
            return false;
        }
        since.get_or_insert_with(Instant::now).elapsed() >= self.session_timeout()
    }

    /// Where a replica's endpoint is.
    pub(super) fn address_of(&self, to: ReplicaId) -> Wanted {
        let Some(replica) = self.replica(to.number()) else {
            return Ok(None);
        };
        let config = self.config().ok_or("the endpoint is not started")?;
        let (_, pinned) = self
            .common
            .identity()
            .ok_or("the endpoint is not started")?;
        let url = &replica.endpoint_url;
        let host = url
            .get(..6)
            .filter(|scheme| scheme.eq_ignore_ascii_case("tcp://"))
            .and_then(|_| url.get(6..));
        let host = host.ok_or_else(|| format!("{url} is no address"))?;
        let found = host.to_socket_addrs().map_err(|e| format!("{host}: {e}"))?;
        let address = found.into_iter().next();
        let address = address.ok_or_else(|| format!("{host} has no address"))?;
        Ok(Some(Target {
            address,
            to,
            pinned,
            config,
        }))
    }

    pub(super) fn config(&self) -> Option<EndpointConfig> {
        self.common
            .config(self.number(), self.me, self.session_timeout())
    }

    /// Who has one of the certificates that are believed says which replica it is.
    pub(super) fn admit(
        self: &Arc<Self>,
        hello: &Hello,
    ) -> Result<(EndpointConfig, Arc<dyn Handler>), String> {
        let is_member = self.is_member(hello.replica, &hello.name);
        let config = self.config().ok_or("the endpoint is not started")?;
        match hello.purpose {
            Purpose::Member if !is_member && self.is_primary() => {
                Ok((config, Arc::new(Farewell(Arc::downgrade(self)))))
            }
            _ if !is_member => Err("the server is no replica of this group".into()),
            Purpose::Member => Ok((config, Arc::new(Links(Arc::downgrade(self))))),
            Purpose::Seed if self.is_primary() => {
                Ok((config, Arc::new(SeedServer::new(Arc::downgrade(self)))))
            }
            Purpose::Seed => Err("copies are made by the primary".into()),
        }
    }

    fn is_member(&self, number: ReplicaId, name: &str) -> bool {
        let replica = self.replica(number.number());
        number != self.me && replica.is_some_and(|r| names_equal(&r.server, name))
    }

    /// Tells everybody what the group is now, if that is this server's to say.
    pub(super) fn announce(&self) {
        let links = self.node.connections();
        links.iter().for_each(|(_, link)| self.announce_to(link));
    }

    fn announce_to(&self, link: &Arc<Link>) {
        if !self.is_primary() {
            return;
        }
        // As it is stored; one that begins is not, yet.
        let groups = &self.common.instance.hadr.groups;
        let stored = groups.find(|g| g.group_id == self.id());
        let group = stored.unwrap_or_else(|| self.def());
        let definition = Definition {
            group: (*group).clone(),
            reign: self.reign(),
        };
        match definition.encode() {
            Some(definition) => link.send(Message::Define { definition }),
            None => self
                .common
                .log("The definition of an availability group is too long to be sent."),
        }
    }
}

/// A connection of a server that was removed from the group: it is told what the group is now.
struct Farewell(Weak<Group>);

impl Handler for Farewell {
    fn connected(&self, link: &Arc<Link>) {
        if let Some(group) = self.0.upgrade() {
            group.announce_to(link);
        }
        link.send(Message::Bye {
            reason: "the server is no replica of this group".into(),
        });
    }

    fn received(&self, _: &Arc<Link>, _: Message) -> Result<(), LinkError> {
        Ok(())
    }

    fn closed(&self, _: &Arc<Link>, _: &LinkError) {}
}

/// What happens on a group's connections.
struct Links(Weak<Group>);

impl Handler for Links {
    fn connected(&self, link: &Arc<Link>) {
        let Some(group) = self.0.upgrade() else {
            return link.close();
        };
        let peer = link.peer();
        if group.is_stopped() || !group.is_member(peer.replica, &peer.name) {
            return link.close();
        }
        group.announce_to(link);
        if let Some(ballots) = group.warrant.as_ref().and_then(|w| w.ballots()) {
            ballots.connected(peer.replica);
        }
        group.node.connected(link);
    }

    fn received(&self, link: &Arc<Link>, message: Message) -> Result<(), LinkError> {
        let Some(group) = self.0.upgrade() else {
            return Err(LinkError::Closed);
        };
        if !group.node.has(link) {
            return Err(LinkError::Protocol("no replica of this group".into()));
        }
        match message {
            Message::Define { definition } => {
                let definition = Definition::decode(&definition)
                    .ok_or_else(|| LinkError::Protocol("a definition that is none".into()))?;
                if !group.may_be(definition.reign) {
                    let why = "a reign that is too far ahead of all that is known";
                    return Err(LinkError::Protocol(why.into()));
                }
                if definition.reign < group.reign() {
                    // It does not know yet that another is the primary.
                    group.announce_to(link);
                    return Ok(());
                }
                group.take_definition(definition);
                Ok(())
            }
            Message::Poll { ask, call } => {
                group.polled(link, ask, call);
                Ok(())
            }
            Message::Voted { ask, vote } => {
                group.voted(link.peer().replica, ask, vote);
                Ok(())
            }
            message => match group.repairs.received(link, message) {
                Some(message) => group.node.received(link, message),
                None => Ok(()),
            },
        }
    }

    fn closed(&self, link: &Arc<Link>, why: &LinkError) {
        if let Some(group) = self.0.upgrade() {
            group.node.closed(link, why);
            group.tell(Task::Do(Box::new(|group| group.connect())));
        }
    }
}
