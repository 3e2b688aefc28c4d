//! Proof by faults: the whole storage engine in one thread, on a disk that fails in every way a disk may.
//!
//! Theory: one seed decides everything: which session acts next and what it does, which writes a power loss keeps,
//! which call fails, when the machine stops. Because one thread runs all sessions, the order of commits is known, and
//! a model (`model`) says at every moment what each of them must see. After each stop the database is recovered, again
//! under faults, and compared: it must hold exactly the effects of the first k commits, with k at least the last one
//! that was acknowledged as durable. The idea is FoundationDB's and TigerBeetle's; the faults on every I/O are SQLite's.
//!
//! Files: `backups` (taken at work, restored elsewhere), `model` (what must be there), `session` (what transactions do), `world` (scheduling, faults, stops), `every_io`
//! (one scenario, each of its calls failing in turn), `several` (the same over two databases), `copies` (restored copies beside them), `verify` (the checkers), `report` (counting). Run it: `cargo xtask sim --runs 1000`.
//!
//! Invariant: nothing here reads a clock, an address or a hash map's order: the same seed gives the same run.

mod backups;
mod copies;
mod every_io;
mod model;
mod report;
mod session;
mod several;
mod verify;
mod world;

pub use copies::{Copies, copies};
pub use every_io::{EveryIo, every_io};
pub use report::Stats;
pub use several::{Several, several};
pub use world::{Mode, Violation, run};
