//! Backup and restore: full, differential and log backups of a working database, striped over several devices.
//!
//! Theory: a backup is a set of frames, each with its own checksum, dealt out to as many device files as the caller
//! names. Every file ends with an index of its frames, the description of the set and a directory; without those it
//! is no backup, so a backup that was killed can never be taken for a whole one. Restore reads the description first,
//! then all frames in parallel and in any order; each frame names its set, its file and its number, and the index
//! holds its checksum, so a frame that is missing, foreign, moved or changed is found before it counts.
//!
//! A few threads read, check and compress a frame each, others write: while one waits for a device another computes. How many
//! compute and write at once is bounded, so that sessions keep the processor and the disk.
//!
//! Map: `frame` (bytes), `meta` (descriptions), `codec` (compression), `cipher` (encryption), `device` (files), `writer` and `pump` (one
//! backup), `queue` (its writes under way), `media` and `reader` (reading it back), `take` and `page_frame` (what goes into a
//! backup), `restore`, `pages` (single ones), `level` and `governor` (defaults by measurement, and care for others), `chain`
//! (which backup may follow which), `origin` (which release wrote it). The bytes are in docs/backup-format.md.
//!
//! This crate knows pages, log blocks and files; it has never heard of SQL.

mod chain;
mod cipher;
mod codec;
mod device;
mod error;
mod frame;
mod governor;
mod level;
mod media;
mod meta;
mod origin;
mod page_frame;
mod pages;
mod pump;
mod queue;
mod reader;
mod restore;
mod tail;
mod take;
mod writer;

pub use chain::{ChainError, RestoreState};
pub use cipher::{Algorithm, Encryption, Envelope, KEY_FILE_BYTES_MAX, KeyProblem, Secret};
pub use codec::Compression;
pub use device::{
    Credential, Device, DiskDevice, Gate, NulDevice, Source, Target, UrlDevices, is_backup,
};
pub use error::{BackupError, Result};
pub use media::{MediaSet, open_device};
pub use meta::{BackupKind, FileMeta, MediaInfo, Random16, SetInfo};
pub use origin::Origin;
pub use pages::restore_pages;
pub use pump::{Cancelled, Progress, Tick};
pub use reader::SetReader;
pub use restore::{
    Files, begin_differential, restore_differential, restore_full, restore_log, verify, write_boot,
};
pub use take::{Request, Taken, take_differential, take_full, take_log};
pub use writer::{Destination, MediaLabel, Tuning};
