//! Probes: `reached!("name")` marks a branch that is rarely taken, so that a simulation can prove it went there.
//!
//! Without the feature `probes` the macro is nothing at all. With it, each thread counts for itself: a simulation is
//! one thread, and its counts are its own.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// How often each probe was reached.
pub type Reached = BTreeMap<&'static str, u64>;

thread_local! {
    static REACHED: RefCell<Reached> = const { RefCell::new(BTreeMap::new()) };
}

/// Counts one visit. Called through [`crate::reached!`].
pub fn reach(name: &'static str) {
    REACHED.with_borrow_mut(|r| *r.entry(name).or_insert(0) += 1);
}

/// Takes the counts of the calling thread and starts again at none.
pub fn take() -> Reached {
    REACHED.take()
}

/// Marks a rarely taken branch.
#[cfg(feature = "probes")]
#[macro_export]
macro_rules! reached {
    ($name:literal) => {
        $crate::probe::reach($name)
    };
}

/// Marks a rarely taken branch (probes are off: nothing).
#[cfg(not(feature = "probes"))]
#[macro_export]
macro_rules! reached {
    ($name:literal) => {};
}
