//! Connections between replicas: TCP, mutual TLS 1.3, lanes, windows and clocks.
//!
//! Theory: each replica shows a certificate, and knows the fingerprint of everybody else's: no authority, no names. A side without
//! the right one is turned away in the handshake, before a byte of this protocol is spoken. Threads block, as in the rest of
//! the server; a connection has one that reads and one that writes.
//!
//! The writer pulls: control messages first, then blocks of the databases in turn (`lanes`), as many as the receiver has granted. So
//! nothing is queued that memory must hold, and no database waits behind another's bulk load.
//!
//! A slow peer is a window that stays shut, and its own two threads; a malicious one gets an error and is cut off. Neither holds
//! a lock that another connection needs.
//!
//! Read next: `tls`, `lanes`, `link`, `endpoint`, `dialer`, docs/decisions/2026-11-24-replicas-pin-certificates.md.

mod dialer;
mod endpoint;
mod lanes;
mod link;
mod tls;

pub use dialer::{Dialer, Target, Wanted};
pub use endpoint::{Door, Endpoint, EndpointConfig, Member, dial, dial_for};
pub use lanes::{Pull, Source};
pub use link::{Handler, Link, LinkCounts, LinkError, Peer};
pub use tls::{Fingerprint, Identity, PinError};

#[cfg(test)]
mod tests;
