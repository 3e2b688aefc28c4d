//! Places between two steps of which nobody may see only the first: a test lets somebody come in there.
//!
//! Outside of the tests of this crate, [`pause`] is nothing.

/// Nothing outside of tests; there, a place at which another thread may be let in.
#[cfg(not(test))]
#[inline(always)]
pub const fn pause(_: &str) {}

#[cfg(test)]
pub use visits::{pause, visit};

#[cfg(test)]
mod visits {
    use std::cell::RefCell;

    type Visitor = Box<dyn Fn(&str)>;

    thread_local! {
        static VISITOR: RefCell<Option<Visitor>> = const { RefCell::new(None) };
    }

    /// From now on the visitor comes to every pause of the calling thread, but not to those that he causes himself.
    pub fn visit(visitor: impl Fn(&str) + 'static) {
        VISITOR.set(Some(Box::new(visitor)));
    }

    pub fn pause(name: &str) {
        if let Some(visitor) = VISITOR.take() {
            visitor(name);
            VISITOR.set(Some(visitor));
        }
    }
}
