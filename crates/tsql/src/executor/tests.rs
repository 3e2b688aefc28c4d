//! Queries against an in-memory fixture.
