//! A search through every order of events of a group of three: messages wait without bound, connections break, clocks run out at any
//! moment, processes die and lose what they had not synced, nodes are promoted, and the judge's replies come late or twice.
//!
//! Properties, after every event:
//! * what was acknowledged is hard, at its place, on every member that the judge lists (so on whoever is promoted);
//! * who may be promoted is waited for by the primary of the judge's epoch;
//! * a position is acknowledged for an epoch only by a log that equals that epoch's;
//! * no log is cut below what may have been applied;
//! * commits that need synchronized secondaries go on once everybody is connected anew.
//!
//! A log is a list of numbers, each appended once in the world's history; a position is an index. States are kept as 64-bit hashes.

mod world;

pub use world::{Budget, World};

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Visits every state that `budget` allows. Returns their number, or what was violated.
#[allow(dead_code)]
pub fn visit_all(start: World) -> Result<usize, String> {
    let mut seen = HashSet::from([hash_of(&start)]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        world.check_that_commits_go_on()?;
        for (told, next) in world.next() {
            let next = next.map_err(|e| format!("{told}: {e}"))?;
            if seen.insert(hash_of(&next)) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

/// Looks for a violation, the shortest first, in at most `states_max` states. Returns the events that lead to it.
#[allow(dead_code)]
pub fn find(start: World, states_max: usize) -> Option<Vec<String>> {
    let mut came: HashMap<u64, (u64, String)> = HashMap::new();
    let mut seen = HashSet::from([hash_of(&start)]);
    let mut open = VecDeque::from([start]);
    while let Some(world) = open.pop_front() {
        let here = hash_of(&world);
        for (told, next) in world.next() {
            let next = match next {
                Ok(next) => next,
                Err(violation) => return Some(path(&came, here, format!("{told}: {violation}"))),
            };
            let there = hash_of(&next);
            if seen.len() < states_max && seen.insert(there) {
                came.insert(there, (here, told));
                open.push_back(next);
            }
        }
    }
    None
}

fn path(came: &HashMap<u64, (u64, String)>, mut at: u64, last: String) -> Vec<String> {
    let mut events = vec![last];
    while let Some((before, told)) = came.get(&at) {
        events.push(told.clone());
        at = *before;
    }
    events.reverse();
    events
}
