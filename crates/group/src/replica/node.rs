//! The databases of a group on one server, and its connections: messages find their database here.
//!
//! A connection may be older than a database's part here: who begins to lead tells its epoch on every connection, and who begins to
//! follow acknowledges there what it has, which makes a primary tell its epoch again.
//!
//! Two connections may stand between two servers: each has connected to the other, or one end of a broken connection has not noticed.
//! The newest counts, until it ends before an older one does.

use super::follow::Followed;
use super::lead::Led;
use crate::commit::ReplicaId;
use crate::transport::{Handler, Link, LinkError};
use crate::wire::Message;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// This server's part in a database.
#[derive(Clone)]
enum Part {
    Led(Arc<Led>),
    Followed(Arc<Followed>),
}

/// See the module.
#[derive(Default)]
pub struct Node {
    parts: Mutex<HashMap<u128, Part>>,
    links: Mutex<Vec<Arc<Link>>>,
}

impl Node {
    /// This server leads the database from now on. Every replica that is connected is told.
    pub fn lead(&self, database: u128, led: Arc<Led>) {
        self.replace(database, Some(Part::Led(led.clone())));
        let links = self.links.lock().clone();
        links.iter().for_each(|link| led.connected(link));
    }

    /// This server follows whoever leads the database.
    pub fn follow(&self, database: u128, followed: Arc<Followed>) {
        self.replace(database, Some(Part::Followed(followed.clone())));
        let links = self.links.lock().clone();
        for link in &links {
            followed.connected(link);
            followed.greet(link);
        }
    }

    /// The database is in the group no longer.
    pub fn remove(&self, database: u128) {
        self.replace(database, None);
    }

    /// The database, if this server leads it or did so last.
    pub fn led(&self, database: u128) -> Option<Arc<Led>> {
        match self.part(database) {
            Some(Part::Led(led)) => Some(led),
            _ => None,
        }
    }

    /// The database, if this server follows.
    pub fn followed(&self, database: u128) -> Option<Arc<Followed>> {
        match self.part(database) {
            Some(Part::Followed(followed)) => Some(followed),
            _ => None,
        }
    }

    /// Is this replica connected?
    pub fn is_connected(&self, replica: ReplicaId) -> bool {
        let links = self.links.lock();
        links.iter().any(|l| l.peer().replica == replica)
    }

    /// Is this connection one of those?
    pub fn has(&self, link: &Arc<Link>) -> bool {
        self.links.lock().iter().any(|l| Arc::ptr_eq(l, link))
    }

    /// Replicas that are connected.
    pub fn connections(&self) -> Vec<(ReplicaId, Arc<Link>)> {
        let links = self.links.lock();
        links
            .iter()
            .map(|l| (l.peer().replica, l.clone()))
            .collect()
    }

    /// Ends the threads of all databases. The standing of each stays in its file.
    pub fn stop(&self) {
        let parts = std::mem::take(&mut *self.parts.lock());
        parts.into_values().for_each(end);
    }

    fn part(&self, database: u128) -> Option<Part> {
        self.parts.lock().get(&database).cloned()
    }

    fn replace(&self, database: u128, part: Option<Part>) {
        let before = {
            let mut parts = self.parts.lock();
            match part {
                Some(part) => parts.insert(database, part),
                None => parts.remove(&database),
            }
        };
        before.into_iter().for_each(end);
    }
}

fn end(part: Part) {
    match part {
        Part::Led(led) => led.stop(),
        Part::Followed(followed) => drop(followed.stop()),
    }
}

impl Handler for Node {
    fn connected(&self, link: &Arc<Link>) {
        self.links.lock().push(link.clone());
        let parts: Vec<Part> = self.parts.lock().values().cloned().collect();
        for part in parts {
            match part {
                Part::Led(led) => led.connected(link),
                Part::Followed(followed) => followed.connected(link),
            }
        }
    }

    fn received(&self, link: &Arc<Link>, message: Message) -> Result<(), LinkError> {
        let database = message.database();
        match database.and_then(|id| self.part(id)) {
            Some(Part::Led(led)) => led.received(link, &message),
            Some(Part::Followed(followed)) => followed.received(link, &message),
            None => Ok(()),
        }
    }

    fn closed(&self, link: &Arc<Link>, _: &LinkError) {
        let left = {
            let mut links = self.links.lock();
            links.retain(|l| !Arc::ptr_eq(l, link));
            let to_it = |l: &&Arc<Link>| l.peer().replica == link.peer().replica;
            links.iter().rfind(to_it).cloned()
        };
        let parts: Vec<Part> = self.parts.lock().values().cloned().collect();
        for part in parts {
            match part {
                Part::Led(led) => led.disconnected(link, left.as_ref()),
                Part::Followed(followed) => followed.disconnected(link),
            }
        }
    }
}
