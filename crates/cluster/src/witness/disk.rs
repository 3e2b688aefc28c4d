//! A disk that the nodes share: a block for each node, which that node alone writes. No lock, no reservation.
//!
//! ```text
//! sector 0            which cluster, which witness
//! sector 1 + node     the node's block: what it proposes, and where the record is
//! 1 MiB + 512 KiB x node + 256 KiB x copy    the record of the node's block, in the copy that the block names
//! ```
//! Theory: the witness is a chain of records, and the next one is agreed on as in Disk Paxos (Gafni and Lamport). Whoever wants to write record
//! n + 1 says so in its own block with a ballot, then reads all blocks; finds it that somebody had said so with a higher ballot, it begins again; had
//! somebody proposed a record for n + 1, it proposes that one and not its own. It writes the record into its own block under its ballot, reads all again, and the
//! record stands if still nobody had a higher ballot. Of two nodes the one that reads later sees what the other wrote, so two records can never both
//! stand, whoever is paused, killed or slow, and wherever.
//!
//! Invariants
//! 1. Only its node writes a block; one server at a time is that node (the lock on its data folder), in one thread, which holds that lock as long as it writes.
//! 2. A record is on disk before the block that names it, in the copy that the block named before that does not name.
//! 3. Blocks are read twice until nothing has changed in between: they all were as read at one moment.
//! 4. A block that stands for record n is never replaced by one for less.
//!
//! | found | done |
//! |---|---|
//! | sector 0 is of another witness, before or after | refused: a witness that was made here later has taken the place |
//! | a sector that is neither zero nor whole | refused: a disk writes a sector whole or not at all |
//! | the newest record does not stand yet: its node was killed or sleeps | its writing is finished, by whoever comes |
//! | a count below what the node has seen | refused: restored from an old copy |
//! | anything else in the place of a new witness than zeros or an earlier witness of this cluster | refused: nobody's file system is overwritten |
//! | the witness that the cluster has, in the place of a new one: this disk by another path | refused: it would be overwritten |
//!
//! Assumed of the disk: a write of 512 bytes is whole or not done, what was written and synced is read by everybody from then on, and a write that failed,
//! or was cut short with its machine, is done before that node writes again, or never. The record holds a copy of the newest configuration, and no user data.
//!
//! Read next: `device`.

use super::device::{Device, DirectFile, SECTOR_BYTES};
use super::{
    RECORD_BYTES_MAX, Record, WitnessAsk, WitnessFault, WitnessOp, WitnessStore, WitnessView,
};
use crate::codec::{CodecError, Reader, Writer, seal, unseal};
use crate::planted::{Bug, planted};
use daruma_quorum::{MEMBERS_MAX, Register};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HEAD_MAGIC: &[u8; 8] = b"DARUMAD1";
const BLOCK_MAGIC: &[u8; 8] = b"DARUMAB1";
/// Magic, cluster, witness, checksum.
const HEAD_BYTES: usize = 8 + 16 + 16 + 4;
/// Magic, witness, six counts, two flags, length and checksum of the record, checksum.
const BLOCK_BYTES: usize = 8 + 16 + 6 * 8 + 2 + 2 * 4 + 4;
const BLOCKS: usize = MEMBERS_MAX as usize;
/// Sector 0 and the blocks.
const AREA_BYTES: usize = (1 + BLOCKS) * SECTOR_BYTES;
/// A new witness wants to find zeros here: file systems leave marks in it.
const CLEAR_BYTES: usize = 68 << 10;
const RECORDS_AT: u64 = 1 << 20;
const COPY_BYTES: u64 = 256 << 10;
/// What a witness takes of a disk.
pub const DISK_BYTES: u64 = RECORDS_AT + 2 * COPY_BYTES * BLOCKS as u64;
/// Blocks that others write in between are read again.
const READS_MAX: usize = 64;
/// A write that others were faster with is tried again.
const TRIES_MAX: usize = 32;
/// Nodes that write at the same time let each other go first, each for another time.
const STEP_ASIDE: Duration = Duration::from_millis(3);

/// Witnesses on disks and in files that several machines reach.
#[derive(Default)]
pub struct DiskWitness {
    /// A device stays open, with its path: each time that one is closed which could be written to, the system looks at it anew.
    kept: Option<(PathBuf, DirectFile)>,
}

impl WitnessStore for DiskWitness {
    fn exchange(&mut self, ask: &WitnessAsk) -> Result<WitnessView, WitnessFault> {
        let path = Path::new(ask.place.path());
        let kept = self
            .kept
            .take()
            .filter(|(of, file)| of == path && file.is_device_at(path));
        let mut file = match kept {
            Some((_, file)) => file,
            None => DirectFile::open(path, DISK_BYTES).map_err(|e| unknown("open the disk", &e))?,
        };
        let done = exchange(&mut file, ask);
        let stays = done.is_ok() && file.is_device_at(path);
        self.kept = stays.then(|| (path.to_path_buf(), file));
        done
    }
}

fn unknown(what: &str, error: &io::Error) -> WitnessFault {
    WitnessFault::Unknown(format!("{what}: {error}"))
}

fn foreign(why: &str) -> WitnessFault {
    WitnessFault::Foreign(why.into())
}

/// What a node has written of itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Block {
    /// Counts writes of this block.
    writes: u64,
    /// The number of the record that the node works on, and its ballot for that.
    slot: u64,
    ballot: u64,
    /// The number of the record that is with the block, and the ballot under which it was proposed. 0: none.
    n: u64,
    proposed: u64,
    /// Counted on while the node leads.
    alive: u64,
    /// The record stands.
    stands: bool,
    copy: u8,
    length: u32,
    sum: u32,
}

impl Block {
    fn encode(&self, witness: u128) -> Vec<u8> {
        let mut w = Writer::default();
        w.u128(witness);
        for count in [
            self.writes,
            self.slot,
            self.ballot,
            self.n,
            self.proposed,
            self.alive,
        ] {
            w.u64(count);
        }
        w.flag(self.stands);
        w.u8(self.copy);
        w.u32(self.length);
        w.u32(self.sum);
        let mut sector = seal(BLOCK_MAGIC, w);
        sector.resize(SECTOR_BYTES, 0);
        sector
    }

    /// One of another witness is none.
    fn decode(sector: &[u8], witness: u128) -> Result<Block, CodecError> {
        if sector.iter().all(|b| *b == 0) {
            return Ok(Block::default());
        }
        let sealed = sector.get(..BLOCK_BYTES).ok_or(CodecError("length"))?;
        let mut r = unseal(BLOCK_MAGIC, sealed)?;
        let of = r.u128()?;
        let block = Block {
            writes: r.u64()?,
            slot: r.u64()?,
            ballot: r.u64()?,
            n: r.u64()?,
            proposed: r.u64()?,
            alive: r.u64()?,
            stands: r.flag()?,
            copy: r.u8()?,
            length: r.u32()?,
            sum: r.u32()?,
        };
        r.end()?;
        if block.copy > 1 || block.length as usize > RECORD_BYTES_MAX {
            return Err(CodecError("block"));
        }
        Ok(match of == witness {
            true => block,
            false => Block::default(),
        })
    }
}

/// All blocks as they were at one moment.
struct Seen {
    blocks: Vec<Block>,
}

impl Seen {
    fn newest(&self) -> u64 {
        self.blocks.iter().map(|b| b.n).max().unwrap_or(0)
    }

    fn with_record(&self, n: u64) -> impl Iterator<Item = (usize, &Block)> {
        let all = self.blocks.iter().enumerate();
        all.filter(move |(_, b)| b.n == n && n > 0)
    }

    /// Whose block has the record of this number, if it stands.
    fn standing(&self, n: u64) -> Option<usize> {
        let mut found = self.with_record(n);
        found.find(|(_, b)| b.stands).map(|(at, _)| at)
    }

    /// Whose block has the record of this number that was proposed last.
    fn proposed(&self, n: u64) -> Option<usize> {
        let found = self.with_record(n).max_by_key(|(_, b)| b.proposed);
        found.map(|(at, _)| at)
    }

    fn block(&self, node: usize) -> Block {
        self.blocks.get(node).copied().unwrap_or_default()
    }

    /// Has nobody but this node gone further than its ballot for this record?
    fn is_mine(&self, me: usize, slot: u64, ballot: u64) -> bool {
        let mut others = self.blocks.iter().enumerate().filter(|(at, _)| *at != me);
        !others.any(|(_, b)| {
            b.n > slot || (b.n == slot && b.stands) || (b.slot, b.ballot) > (slot, ballot)
        })
    }
}

/// Carries out a question on a disk.
pub fn exchange(device: &mut dyn Device, ask: &WitnessAsk) -> Result<WitnessView, WitnessFault> {
    Exchange::of(device, ask).run()
}

struct Exchange<'a> {
    device: &'a mut dyn Device,
    ask: &'a WitnessAsk,
    me: usize,
}

impl<'a> Exchange<'a> {
    fn of(device: &'a mut dyn Device, ask: &'a WitnessAsk) -> Exchange<'a> {
        let me = usize::from(ask.me.number());
        Exchange { device, ask, me }
    }

    fn run(mut self) -> Result<WitnessView, WitnessFault> {
        if let WitnessOp::Create(_) = &self.ask.op {
            self.prepare()?;
        }
        if self.ask.alive {
            let seen = self.look()?;
            let mut own = seen.block(self.me);
            own.alive = own.alive.wrapping_add(1);
            self.write(&mut own)?;
        }
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                let turn = u32::from(self.ask.me.number()) + attempt as u32;
                self.device.wait(STEP_ASIDE * turn);
            }
            if let Some(view) = self.attempt()? {
                return Ok(view);
            }
        }
        Err(WitnessFault::Unknown("others were faster".into()))
    }

    /// `None`: somebody else has written in between.
    fn attempt(&mut self) -> Result<Option<WitnessView>, WitnessFault> {
        let seen = self.look()?;
        let newest = seen.newest();
        let Some(holder) = seen.standing(newest) else {
            let own = match (seen.proposed(newest), &self.ask.op) {
                (Some(other), _) => self.record(other, &seen.block(other))?,
                (None, WitnessOp::Create(register)) => Some(self.first(register)?),
                (None, _) => return Err(foreign("there is no record")),
            };
            if let Some(own) = own {
                self.agree(&seen, &own)?;
            }
            return Ok(None);
        };
        let Some(mut record) = self.record(holder, &seen.block(holder))? else {
            return Ok(None);
        };
        if record.beside != self.identity()? {
            return Err(WitnessFault::Regressed(
                "it is another file than the one it was made in".into(),
            ));
        }
        let before = record.n;
        let alive = seen.blocks.iter().map(|b| b.alive);
        let view = record.serve(self.ask, alive.fold(0, u64::wrapping_add))?;
        if record.n == before {
            return Ok(Some(view));
        }
        let standing = self.agree(&seen, &record)?;
        Ok(standing.filter(|s| *s == record).map(|_| view))
    }

    /// Makes a record the one of its number, or the one that somebody had proposed before, which is given back. `None`: somebody else was faster.
    fn agree(&mut self, seen: &Seen, own: &Record) -> Result<Option<Record>, WitnessFault> {
        let slot = own.n;
        let mut mine = seen.block(self.me);
        mine.slot = slot;
        mine.ballot = self.next_ballot(seen, slot);
        self.write(&mut mine)?;
        let seen = self.look()?;
        if !seen.is_mine(self.me, slot, mine.ballot) {
            return Ok(None);
        }
        let proposed = seen.proposed(slot);
        let record = match proposed.filter(|_| !planted(Bug::DiskForgetsProposals)) {
            Some(other) => self.record(other, &seen.block(other))?,
            None => Some(own.clone()),
        };
        let Some(record) = record else {
            return Ok(None);
        };
        self.put(&mut mine, &record)?;
        if !planted(Bug::DiskBlindWrite) && !self.look()?.is_mine(self.me, slot, mine.ballot) {
            return Ok(None);
        }
        mine.stands = true;
        self.write(&mut mine)?;
        Ok(Some(record))
    }

    /// Higher than any that was seen for this record, and no other node's.
    fn next_ballot(&self, seen: &Seen, slot: u64) -> u64 {
        let same = seen.blocks.iter().filter(|b| b.slot == slot);
        let highest = same.map(|b| b.ballot).max().unwrap_or(0);
        let nodes = u64::from(MEMBERS_MAX);
        (highest / nodes + 1) * nodes + self.me as u64
    }

    /// The record of a block; `None` if its node has written another in between.
    fn record(&mut self, node: usize, block: &Block) -> Result<Option<Record>, WitnessFault> {
        let length = (block.length as usize).next_multiple_of(SECTOR_BYTES);
        let read = self.device.read(record_at(node, block.copy), length);
        let mut bytes = read.map_err(|e| unknown("read the record", &e))?;
        bytes.truncate(block.length as usize);
        if crc32c::crc32c(&bytes) == block.sum {
            let record = Record::decode(&bytes);
            return match record {
                Ok(record) if record.n == block.n => Ok(Some(record)),
                Ok(_) => Err(foreign("its record is of another number")),
                Err(e) => Err(WitnessFault::Foreign(format!("its record: {e}"))),
            };
        }
        match self.look()?.block(node) == *block {
            true => Err(foreign("its record is damaged")),
            false => Ok(None),
        }
    }

    /// Writes a record, then the block that names it.
    fn put(&mut self, mine: &mut Block, record: &Record) -> Result<(), WitnessFault> {
        let mut bytes = record.encode();
        let length = bytes.len();
        if length > RECORD_BYTES_MAX {
            return Err(foreign("its record is too long"));
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.resize(length.next_multiple_of(SECTOR_BYTES), 0);
        let copy = 1 - mine.copy;
        let written = self.device.write(record_at(self.me, copy), &bytes);
        written.map_err(|e| unknown("write the record", &e))?;
        mine.n = record.n;
        mine.proposed = mine.ballot;
        mine.stands = false;
        mine.copy = copy;
        mine.length = length as u32;
        mine.sum = sum;
        self.write(mine)
    }

    fn write(&mut self, mine: &mut Block) -> Result<(), WitnessFault> {
        mine.writes += 1;
        let sector = mine.encode(self.ask.place.id);
        let at = SECTOR_BYTES * (1 + self.me);
        let written = self.device.write(at as u64, &sector);
        written.map_err(|e| unknown("write the node's block", &e))
    }

    /// The blocks, if this is the witness that was asked for.
    fn look(&mut self) -> Result<Seen, WitnessFault> {
        let mut read = || {
            let area = self.device.read(0, AREA_BYTES);
            area.map_err(|e| unknown("read the disk", &e))
        };
        let mut last = read()?;
        for _ in 0..READS_MAX {
            let again = read()?;
            if again == last {
                return self.parse(&again);
            }
            last = again;
        }
        Err(WitnessFault::Unknown("others write without end".into()))
    }

    fn parse(&self, area: &[u8]) -> Result<Seen, WitnessFault> {
        let place = &self.ask.place;
        if head(area).ok() != Some((self.ask.cluster, place.id)) {
            return Err(foreign("it is of another cluster or witness"));
        }
        let sectors = area.chunks(SECTOR_BYTES).skip(1);
        let blocks = sectors.map(|s| Block::decode(s, place.id));
        let blocks: Result<Vec<Block>, CodecError> = blocks.collect();
        let damaged = |e: CodecError| WitnessFault::Foreign(format!("a node's block: {e}"));
        Ok(Seen {
            blocks: blocks.map_err(damaged)?,
        })
    }

    /// The disk says from here on that it is this witness.
    fn prepare(&mut self) -> Result<(), WitnessFault> {
        let read = self.device.read(0, CLEAR_BYTES);
        let found = read.map_err(|e| unknown("read the disk", &e))?;
        match head(&found) {
            Ok((cluster, id)) if (cluster, id) == (self.ask.cluster, self.ask.place.id) => {
                return Ok(());
            }
            Ok((cluster, id)) if (cluster, Some(id)) == (self.ask.cluster, self.ask.office) => {
                return Err(foreign(
                    "this disk is the witness already, by another path: take it away with `set-witness none` first",
                ));
            }
            Ok((cluster, _)) if cluster == self.ask.cluster => {}
            Ok(_) => return Err(foreign("it is the witness of another cluster")),
            Err(_) if found.iter().all(|b| *b == 0) => {}
            Err(_) => {
                return Err(foreign(
                    "something else is on it: write zeros over its first 68 KiB if nobody needs that",
                ));
            }
        }
        let mut w = Writer::default();
        w.u128(self.ask.cluster);
        w.u128(self.ask.place.id);
        let mut sector = seal(HEAD_MAGIC, w);
        sector.resize(SECTOR_BYTES, 0);
        let written = self.device.write(0, &sector);
        written.map_err(|e| unknown("write the disk", &e))
    }

    fn first(&self, register: &Register) -> Result<Record, WitnessFault> {
        Ok(Record::first(self.ask, register, self.identity()?))
    }

    fn identity(&self) -> Result<u64, WitnessFault> {
        let found = self.device.identity();
        found.map_err(|e| unknown("look at the disk", &e))
    }
}

/// Cluster and witness.
fn head(area: &[u8]) -> Result<(u128, u128), CodecError> {
    let sealed = area.get(..HEAD_BYTES).ok_or(CodecError("length"))?;
    let mut r: Reader<'_> = unseal(HEAD_MAGIC, sealed)?;
    let found = (r.u128()?, r.u128()?);
    r.end()?;
    Ok(found)
}

fn record_at(node: usize, copy: u8) -> u64 {
    RECORDS_AT + COPY_BYTES * (2 * node as u64 + u64::from(copy))
}
