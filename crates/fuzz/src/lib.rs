//! What fuzzing runs: one function for each decoder of bytes from outside, and small inputs that reach far into it.
//!
//! | module | decoders |
//! |---|---|
//! | [`wire`] | TDS: packets, login and requests as the server reads them, tokens as a client does |
//! | [`language`] | T-SQL: no text panics, what is printed parses to the same again |
//! | [`disk`] | pages and log blocks, backup files |
//! | [`group`] | messages between replicas, packed log blocks |
//! | [`xml`] | documents of the type `xml`, and queries over them |
//! | [`values`] | fields of BULK INSERT, conversions, stored rows |
//!
//! Theory: a target takes any bytes and returns; a panic, an allocation out of proportion or a claim that does not hold is a
//! finding. `fuzz/` gives the targets to libFuzzer, which is guided by coverage; `tests/replay.rs` runs the inputs kept in
//! `fuzz/corpus` and mutations of them ([`mutate`]) on the stable toolchain.

pub mod disk;
pub mod group;
pub mod language;
pub mod mutate;
pub mod values;
pub mod wire;
pub mod xml;

/// A decoder of foreign bytes, and what runs it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// Every target, by the name that `cargo xtask fuzz` takes.
pub const TARGETS: &[Target] = &[
    target("tds_server", wire::server),
    target("tds_client", wire::client),
    target("parser", language::parser),
    target("page", daruma_storage::hostile::page),
    target("log", daruma_storage::hostile::log),
    target("backup", disk::backup),
    target("group", group::message),
    target("csv", values::csv),
    target("convert", values::convert),
    target("row", values::row),
    target("xml", xml::xml),
];

/// Runs the target of that name.
pub fn run(name: &str, bytes: &[u8]) {
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => (target.run)(bytes),
        None => panic!("no target {name}"),
    }
}
