//! DONE, DONEPROC, DONEINPROC: the end of a statement, a procedure, a statement inside one.

use super::token_byte;
use crate::wire::Reader;
use crate::{Result, TdsVersion};

/// Bits of `Done::status`.
pub mod done_status {
    /// No bit is set: this token ends the reply, without an error and without a count.
    pub const FINAL: u16 = 0;
    /// Something follows in this reply.
    pub const MORE: u16 = 0x01;
    /// The statement failed; an ERROR token stands before this one.
    pub const ERROR: u16 = 0x02;
    /// A transaction of the session is open when the token is sent.
    pub const IN_TRANSACTION: u16 = 0x04;
    /// DONEPROC only: it ends one call of a request with several, and not the last.
    pub const RPC_IN_BATCH: u16 = 0x80;
    /// `row_count` is valid.
    pub const COUNT: u16 = 0x10;
    /// Answers an attention.
    pub const ATTENTION: u16 = 0x20;
    /// In place of `ERROR` when the client must throw away the rows it has of this result.
    pub const SERVER_ERROR: u16 = 0x100;
}

/// Values of `Done::command`.
pub mod command {
    /// No statement: what ends a login, an attention, or a refused request.
    pub const NONE: u16 = 0;
    /// SET, and every other statement that has no number of its own.
    pub const SET: u16 = 0xBE;
    /// SELECT; the count is that of the rows sent.
    pub const SELECT: u16 = 0xC1;
    /// SELECT .. INTO; the count is that of the rows written.
    pub const SELECT_INTO: u16 = 0xC2;
    /// INSERT. Clients take an update count from this, UPDATE, DELETE and MERGE.
    pub const INSERT: u16 = 0xC3;
    /// DELETE, TRUNCATE TABLE not among them.
    pub const DELETE: u16 = 0xC4;
    /// UPDATE, UPDATE STATISTICS not among them.
    pub const UPDATE: u16 = 0xC5;
    /// CREATE TABLE, of a `#table` too.
    pub const CREATE_TABLE: u16 = 0xC6;
    /// DROP TABLE, of a `#table` too.
    pub const DROP_TABLE: u16 = 0xC7;
    /// CREATE INDEX.
    pub const CREATE_INDEX: u16 = 0xC8;
    /// DROP INDEX.
    pub const DROP_INDEX: u16 = 0xC9;
    /// CREATE DATABASE.
    pub const CREATE_DATABASE: u16 = 0xCB;
    /// DROP DATABASE.
    pub const DROP_DATABASE: u16 = 0xCC;
    /// GRANT.
    pub const GRANT: u16 = 0xCD;
    /// REVOKE.
    pub const REVOKE: u16 = 0xCE;
    /// CREATE VIEW.
    pub const CREATE_VIEW: u16 = 0xCF;
    /// DROP VIEW.
    pub const DROP_VIEW: u16 = 0xD0;
    /// ROLLBACK, whole or to a savepoint.
    pub const ROLLBACK: u16 = 0xD2;
    /// BEGIN TRANSACTION.
    pub const BEGIN: u16 = 0xD4;
    /// COMMIT.
    pub const COMMIT: u16 = 0xD5;
    /// ALTER TABLE.
    pub const ALTER_TABLE: u16 = 0xD8;
    /// CREATE TRIGGER.
    pub const CREATE_TRIGGER: u16 = 0xDD;
    /// CREATE PROCEDURE.
    pub const CREATE_PROCEDURE: u16 = 0xDE;
    /// DROP PROCEDURE.
    pub const DROP_PROCEDURE: u16 = 0xDF;
    /// EXECUTE of a procedure or of a text.
    pub const EXECUTE: u16 = 0xE0;
    /// DROP TRIGGER.
    pub const DROP_TRIGGER: u16 = 0xE1;
    /// Any DBCC command.
    pub const DBCC: u16 = 0xE6;
    /// BULK INSERT, and the end of a bulk load message.
    pub const BULK_INSERT: u16 = 0xF0;
    /// PRINT.
    pub const PRINT: u16 = 0xF7;
    /// MERGE; the count adds up the rows inserted, updated and deleted.
    pub const MERGE: u16 = 0x117;
}

/// Which of the three tokens ends a statement or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DoneKind {
    /// Ends a statement of a batch, or a reply as a whole.
    Done = token_byte::DONE,
    /// Ends a procedure that an RPC request or EXECUTE called.
    Proc = token_byte::DONE_PROC,
    /// Ends a statement inside a procedure.
    InProc = token_byte::DONE_IN_PROC,
}

/// The end of a statement, of a procedure, or of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which of the three tokens is written.
    pub kind: DoneKind,
    /// `done_status` bits.
    pub status: u16,
    /// One of `command`.
    pub command: u16,
    /// Rows sent or changed; it counts only with `done_status::COUNT`. Versions before 7.2 carry 32 bits of it.
    pub row_count: u64,
}

impl Done {
    /// The end without a count.
    pub const fn new(kind: DoneKind, status: u16, command: u16) -> Done {
        Done {
            kind,
            status,
            command,
            row_count: 0,
        }
    }

    /// The end with a count.
    pub const fn counted(kind: DoneKind, status: u16, command: u16, row_count: u64) -> Done {
        Done {
            kind,
            status: status | done_status::COUNT,
            command,
            row_count,
        }
    }

    /// What answers an attention.
    pub const fn attention() -> Done {
        Done::new(DoneKind::Done, done_status::ATTENTION, command::NONE)
    }

    /// Does something follow in this reply?
    pub const fn has_more(&self) -> bool {
        self.status & done_status::MORE != 0
    }

    /// Did the statement fail?
    pub const fn is_error(&self) -> bool {
        self.status & (done_status::ERROR | done_status::SERVER_ERROR) != 0
    }

    /// Does it answer an attention?
    pub const fn is_attention(&self) -> bool {
        self.status & done_status::ATTENTION != 0
    }

    /// The count, where it means something.
    pub const fn count(&self) -> Option<u64> {
        if self.status & done_status::COUNT != 0 {
            Some(self.row_count)
        } else {
            None
        }
    }

    /// Appends the token.
    pub fn encode(&self, version: TdsVersion, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&self.command.to_le_bytes());
        if version.has_wide_fields() {
            out.extend_from_slice(&self.row_count.to_le_bytes());
        } else {
            out.extend_from_slice(
                &u32::try_from(self.row_count)
                    .unwrap_or(u32::MAX)
                    .to_le_bytes(),
            );
        }
    }
}

/// What follows the token byte.
pub(crate) fn decode_done(
    kind: DoneKind,
    version: TdsVersion,
    reader: &mut Reader<'_>,
) -> Result<Done> {
    let status = reader.u16("DONE status")?;
    let command = reader.u16("DONE command")?;
    let row_count = match version.has_wide_fields() {
        true => reader.u64("DONE count")?,
        false => u64::from(reader.u32("DONE count")?),
    };
    Ok(Done {
        kind,
        status,
        command,
        row_count,
    })
}
