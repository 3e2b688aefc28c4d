//! One run: a database, its sessions, the faults of each epoch, the stops between them, and a last damage to find.
//!
//! | an epoch ends by | what is left |
//! |---|---|
//! | power loss, at a planned I/O or between two steps | synced bytes, any part of the rest |
//! | death of the process | everything written |
//! | a clean stop | everything; recovery must find nothing to do |
//!
//! Recovery itself meets faults and stops, up to three times; the last attempt has none and must succeed.
//!
//! Beside the stops of an epoch its disk is photographed before many of its calls. The power fails on each picture (or the
//! process dies), its database is recovered like any other, and must hold what the history had promised until then; the
//! epoch goes on as if nothing had been. So one rich state is left by many stops, and each is checked.

mod recovery;

use crate::backups::{Backup, Chain, Copying};
use crate::model::*;
use crate::report::Stats;
use crate::session::{Ctx, Failure, Open, Outcome};
use crate::verify;
use daruma_base::{DatabaseId, PageId, probe};
use daruma_sim::{FaultKind, Faults, Image, Rates, SimDisk, SimRandom};
use daruma_storage::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) const DATA: &str = "/t.mdf";
pub(crate) const LOG: &str = "/t_log.ldf";
pub(crate) const DB: DatabaseId = DatabaseId(5);
const ACCOUNT_COUNT: u64 = 40;
/// What the accounts add up to in every committed state.
pub const ACCOUNTS_SUM: i64 = 40 * 1000;
const SESSIONS_MAX: u64 = 7;
const PAGE_BYTES: usize = 8192;
/// Of so many calls that write, one is preceded by a picture; drawn for each epoch.
const PICTURES_ONE_IN: [u64; 4] = [2, 4, 8, 16];
/// Of so many seeds one has a data file that never grows, of this size.
const CROWDED_ONE_IN: u64 = 8;
const CROWDED_PAGES: u64 = 256;
/// Log backups behind one backup.
const LOG_BACKUPS_MAX: usize = 6;
/// A transaction that met others so often gives up.
const STUCK_MAX: u32 = 4;

/// How recovery works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Classic,
    Accelerated,
    /// Starts in either and is switched while it runs.
    Both,
}

/// What was wrong, and where in the run.
#[derive(Clone, Debug)]
pub struct Violation(pub String);

type Checked<T = ()> = std::result::Result<T, Violation>;

fn broken<T>(what: impl Into<String>) -> Checked<T> {
    Err(Violation(what.into()))
}

struct Session {
    owner: Arc<Owner>,
    open: Option<Open>,
}

/// The engine over the disk. Dropped as a whole when the machine stops.
struct Up {
    engine: Arc<Engine>,
    db: Arc<Database>,
    sessions: Vec<Session>,
    /// A backup under way, or one that log backups may follow.
    copying: Option<Copying>,
    chain: Option<Chain>,
}

/// A database with its first rows, closed.
pub(crate) struct Started {
    pub disk: Arc<SimDisk>,
    pub history: History,
    pub next_number: u64,
    pub next_table: u32,
}

pub(crate) fn started(seed: u64, mode: Mode) -> std::result::Result<Started, Violation> {
    let mut world = World::new(seed, mode);
    world.create()?;
    if let Some(up) = world.up.take() {
        let closed = up.db.close();
        closed.map_err(|e| Violation(format!("closing: {e}")))?;
    }
    let World {
        disk,
        history,
        next_number,
        next_table,
        ..
    } = world;
    Ok(Started {
        disk,
        history,
        next_number,
        next_table,
    })
}

struct World {
    disk: Arc<SimDisk>,
    random: SimRandom,
    seed: u64,
    mode: Mode,
    pool_pages: usize,
    up: Option<Up>,
    history: History,
    next_number: u64,
    next_table: u32,
    stats: Stats,
    /// Faults injected when the epoch began: errors need a reason.
    faults_before: u64,
    /// Those of them that are worse than a slow or a full disk.
    harmful_before: u64,
    sync_errors_before: u64,
    /// The disk may be full in this epoch.
    tight: bool,
    /// The data file never grows: transactions live side by side on full pages.
    crowded: bool,
    /// Draws when pictures are taken and what becomes of them: whether they are must not change the history.
    lens: SimRandom,
    /// A world that began with a picture of another.
    is_picture: bool,
    /// The last full backup, for differentials.
    full: Option<Arc<Backup>>,
    trace: Option<fn(&str)>,
}

/// Runs one seed. `trace` is told what happens, for whoever looks for the cause of a violation.
pub fn run(seed: u64, mode: Mode, trace: Option<fn(&str)>) -> (Stats, Checked) {
    probe::take();
    let mut world = World::new(seed, mode);
    world.trace = trace;
    let result = catch_unwind(AssertUnwindSafe(|| world.live()));
    let result = result.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        broken(format!("panic: {}", text.unwrap_or_default()))
    });
    world.stop_machine();
    let mut stats = std::mem::take(&mut world.stats);
    stats.runs = 1;
    stats.take_faults(world.disk.fault_counts());
    stats.reached = probe::take();
    stats.trace ^= world.disk.trace();
    let result = result.and_then(|()| takes_back_in_its_room(&stats));
    (stats, result)
}

/// What is taken back has its room where it was: on a disk with no more of it the database would be lost otherwise.
fn takes_back_in_its_room(stats: &Stats) -> Checked {
    #[cfg(feature = "planted-bugs")]
    if planted(Bug::BuryForLosers) {
        // Its harm shows only where nothing keeps room.
        return Ok(());
    }
    match stats.reached.get("tree.split.to_take_back") {
        Some(times) => broken(format!("to take changes back took pages, {times} times")),
        None => Ok(()),
    }
}

pub(crate) fn specs() -> Vec<FileSpec> {
    specs_of(false)
}

/// A data file of a crowded world never grows.
fn specs_of(crowded: bool) -> Vec<FileSpec> {
    let spec = |id, filegroup, path: &str, size_pages, growth| FileSpec {
        id,
        filegroup,
        logical_name: path.into(),
        path: PathBuf::from(path),
        size_pages,
        growth: Growth::Pages(growth),
        max_pages: None,
    };
    let data = match crowded {
        true => spec(1, 1, DATA, CROWDED_PAGES, 0),
        false => spec(1, 1, DATA, 256, 64),
    };
    vec![data, spec(2, 0, LOG, 130, 64)]
}

impl World {
    fn new(seed: u64, mode: Mode) -> World {
        let random = SimRandom::new(seed ^ 0x00DA_204A);
        let pool_pages = [64, 96, 256, 1024][random.below(4) as usize];
        World {
            disk: SimDisk::new(seed),
            random,
            seed,
            mode,
            pool_pages,
            up: None,
            history: History::default(),
            next_number: 1,
            next_table: FIRST_FREE,
            stats: Stats::default(),
            faults_before: 0,
            harmful_before: 0,
            sync_errors_before: 0,
            tight: false,
            crowded: seed % CROWDED_ONE_IN == 5,
            lens: SimRandom::new(seed ^ 0x1E45),
            is_picture: false,
            full: None,
            trace: None,
        }
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        if let Some(trace) = self.trace {
            trace(&text());
        }
    }

    fn live(&mut self) -> Checked {
        self.create()?;
        for epoch in 0..3 + self.random.below(6) {
            let at = |Violation(what)| Violation(format!("epoch {epoch}: {what}"));
            let one_in = PICTURES_ONE_IN[self.lens.below(PICTURES_ONE_IN.len() as u64) as usize];
            self.disk.take_images(one_in, self.lens.next());
            self.epoch().map_err(at)?;
        }
        self.disk.take_images(0, 0);
        self.last_damage()
    }

    fn engine(&self) -> Arc<Engine> {
        // The logs of these seeds grow to whatever size before writers make checkpoints themselves.
        let grows = self.seed % 4 == 3;
        let config = EngineConfig {
            buffer_pool_pages: self.pool_pages,
            log_bytes_wanted: if grows { u64::MAX } else { 0 },
            ..EngineConfig::default()
        };
        Engine::new(daruma_sim::env(&self.disk, self.seed), config)
    }

    // --- the first state ----------------------------------------------------------------------------------------

    fn create(&mut self) -> Checked {
        let accelerated = match self.mode {
            Mode::Classic => false,
            Mode::Accelerated => true,
            Mode::Both => self.random.below(2) == 0,
        };
        let settings = Settings {
            accelerated_recovery: accelerated,
            ..Settings::default()
        };
        let engine = self.engine();
        let db = engine.create_database(DB, "t", specs_of(self.crowded), settings);
        let db = db.map_err(|e| Violation(format!("creating: {e}")))?;
        self.come_up(engine, db);
        self.fill()
    }

    fn come_up(&mut self, engine: Arc<Engine>, db: Arc<Database>) {
        let sessions = (0..2 + self.random.below(SESSIONS_MAX - 1))
            .map(|n| {
                let owner = Owner::new(100 + n, Default::default());
                owner.lock_timeout_ms.store(0, Ordering::Relaxed);
                Session { owner, open: None }
            })
            .collect();
        self.up = Some(Up {
            engine,
            db,
            sessions,
            copying: None,
            chain: None,
        });
    }

    fn fill(&mut self) -> Checked {
        let (number, result, open) = self.with_session(0, |ctx, owner, number| {
            let mut open = Open::new(ctx, owner, number);
            let mut step = || -> std::result::Result<(), Failure> {
                open.create_table_with(ctx, ACCOUNTS, 2)?;
                open.create_table_with(ctx, JOURNAL, 0)?;
                open.create_table_with(ctx, ITEMS, 2)?;
                open.fill_accounts(ctx, ACCOUNT_COUNT)?;
                open.sign(ctx)?;
                Ok(open.txn.commit(Durability::Full)?)
            };
            let result = step();
            (number, result, open)
        });
        if let Err(failure) = result {
            return broken(format!("filling: {failure:?}"));
        }
        self.history.commit(number, open.changes, true);
        self.release(0);
        Ok(())
    }

    fn with_session<R>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Ctx<'_>, &Arc<Owner>, u64) -> R,
    ) -> R {
        let Some(up) = &self.up else {
            unreachable!("the machine is up")
        };
        let mut ctx = Ctx {
            db: &up.db,
            random: &self.random,
            history: &self.history,
            stats: &mut self.stats,
            next_table: &mut self.next_table,
            crowded: self.crowded,
        };
        let number = self.next_number;
        self.next_number += 1;
        act(&mut ctx, &up.sessions[at].owner, number)
    }

    fn release(&self, at: usize) {
        if let Some(up) = &self.up {
            up.engine.release_locks(&up.sessions[at].owner);
        }
    }

    // --- epochs -------------------------------------------------------------------------------------------------

    fn epoch(&mut self) -> Checked {
        self.plan_faults();
        let steps = 40 + self.random.below(260);
        for _ in 0..steps {
            if self.is_down() {
                break;
            }
            self.pictured(World::step)?;
        }
        self.stands_on_a_full_disk()?;
        self.read_after_the_fence()?;
        match self.random.below(8) {
            0 if !self.is_down() => self.pictured(World::stop_cleanly)?,
            1 if self.counted(FaultKind::SyncError) == self.sync_errors_before => self.fall(false),
            _ => self.fall(true),
        }
        self.pictured(World::recover)?;
        self.pictured(World::verify)
    }

    /// Does something, and recovers every picture that was taken meanwhile.
    fn pictured(&mut self, act: fn(&mut World) -> Checked) -> Checked {
        let hard = self.history.hard();
        act(self)?;
        let images = self.disk.images();
        if images.is_empty() {
            return Ok(());
        }
        // What a recovery has brought back is hard, and the rest never comes back.
        let past = self.history.as_of(hard.min(self.history.commit_count()));
        for image in images {
            let call = image.call;
            let at = |Violation(what)| Violation(format!("stopped before call {call}: {what}"));
            self.recover_picture(image, past.clone()).map_err(at)?;
        }
        Ok(())
    }

    /// The machine stops as in the picture, and is recovered.
    fn recover_picture(&mut self, image: Image, history: History) -> Checked {
        let seed = self.lens.next();
        let mut world = World::new(seed, self.mode);
        world.disk = image.into_disk(seed);
        (world.history, world.is_picture, world.trace) = (history, true, self.trace);
        world.crowded = self.crowded;
        let is_synced = self.counted(FaultKind::SyncError) == self.sync_errors_before;
        world.fall(!is_synced || world.random.below(6) > 0);
        let result = world.recover().and_then(|()| world.verify());
        world.stats.pictures = 1;
        self.take_in(world);
        result
    }

    fn counted(&self, kind: FaultKind) -> u64 {
        self.disk.fault_counts().get(kind)
    }

    /// Faults injected that are worse than a slow or a full disk.
    fn harmful_faults(&self) -> u64 {
        let harmless = self.counted(FaultKind::DiskFull) + self.counted(FaultKind::SlowCall);
        self.disk.fault_counts().total() - harmless
    }

    fn rates(&self) -> Rates {
        let mut rates = Rates::default();
        let some = |most: u64| self.random.below(most + 1) as u32;
        for _ in 0..1 + self.random.below(3) {
            match self.random.below(8) {
                0 => rates.read_error = some(300),
                1 => rates.write_error = some(1500),
                2 => rates.sync_error = some(1500),
                3 => rates.grow_error = some(60_000),
                4 | 5 => rates.slow = some(20_000),
                6 => rates.flipped_read = some(8_000),
                _ => rates.misdirected_read = some(4_000),
            }
        }
        rates
    }

    fn plan_faults(&mut self) {
        self.faults_before = self.disk.fault_counts().total();
        self.harmful_before = self.harmful_faults();
        self.sync_errors_before = self.counted(FaultKind::SyncError);
        let mut faults = Faults::default();
        self.tight = self.random.below(10) == 0;
        if self.tight {
            let room = self.random.below(400) * 8192;
            faults.capacity_bytes = Some(self.disk.used_bytes() + room);
        }
        // On some disks nothing but room is wanting.
        let is_only_full = self.tight && self.random.below(2) == 0;
        if self.random.below(3) > 0 && !is_only_full {
            faults.rates = self.rates();
        }
        if self.random.below(4) > 0 && !is_only_full {
            faults.stop_at = Some(self.disk.calls() + self.random.below(260));
        }
        self.tell(|| format!("epoch with {faults:?}"));
        self.disk.set_faults(faults);
    }

    fn is_down(&self) -> bool {
        self.disk.is_stopped()
            || self
                .up
                .as_ref()
                .is_none_or(|up| up.db.state() != DatabaseState::Online)
    }

    /// Something went wrong that only a fault excuses.
    fn excuse(&self, error: &StorageError) -> Checked {
        let space = matches!(
            error,
            StorageError::LogFull { .. } | StorageError::FilegroupFull { .. }
        );
        let injected = self.disk.is_stopped()
            || self.disk.fault_counts().total() > self.faults_before
            || (space && (self.tight || self.crowded));
        if injected {
            Ok(())
        } else {
            broken(format!("an error without a fault: {error}"))
        }
    }

    fn step(&mut self) -> Checked {
        self.stats.steps += 1;
        let Some(up) = &self.up else { return Ok(()) };
        let db = up.db.clone();
        if up.copying.is_some() && self.random.below(5) == 0 {
            return self.back_up(&db);
        }
        match self.random.below(100) {
            0..=6 => self.excused(db.background_step().map(|_| ())),
            7 => self.checkpointed(&db, Database::checkpoint),
            8 => {
                let result = db.flush_log();
                if result.is_ok() {
                    self.history.harden();
                }
                self.excused(result)
            }
            9 => self.check_under_way(&db),
            10 if self.mode == Mode::Both => self.switch_mode(&db),
            11..=13 => self.write_some_pages(&db),
            14 => self.place_some_versions(&db),
            15 => self.checkpointed(&db, Database::fuzzy_checkpoint),
            16 => self.back_up(&db),
            _ => self.session_step(),
        }
    }

    /// One that lets go of nothing and finds no room is not written, and makes nothing hard.
    fn checkpointed(
        &mut self,
        db: &Arc<Database>,
        checkpoint: fn(&Database) -> daruma_storage::Result<()>,
    ) -> Checked {
        let end = db.log_stats().end_lsn;
        let result = checkpoint(db);
        if result.is_ok() && db.hardened_lsn() >= end {
            self.history.harden();
        }
        self.excused(result)
    }

    /// A disk that is full, and does nothing else wrong, refuses work and ends no database: what ends transactions has its room.
    fn stands_on_a_full_disk(&self) -> Checked {
        let is_suspect = |up: &Up| up.db.state() == DatabaseState::Suspect;
        let Some(up) = self.up.as_ref().filter(|up| is_suspect(up)) else {
            return Ok(());
        };
        let failure = up.db.failure().unwrap_or_default();
        let is_excused = self.harmful_faults() > self.harmful_before;
        let is_full = self.tight || self.crowded;
        match is_full && !self.disk.is_stopped() && !is_excused {
            true => broken(format!("fenced on a full disk: {failure}")),
            false => Ok(()),
        }
    }

    /// A database whose log has failed must not answer: what is in memory was perhaps never logged.
    fn read_after_the_fence(&self) -> Checked {
        let Some(up) = self
            .up
            .as_ref()
            .filter(|up| up.db.state() == DatabaseState::Suspect)
        else {
            return Ok(());
        };
        let txn = up.db.begin(&Owner::new(99, Default::default()));
        let view = txn.view(Isolation::ReadCommittedSnapshot);
        let tree = up.db.tree(up.db.catalog_tree());
        match tree.and_then(|tree| tree.scan(&view, ScanSpec::all()).next(&mut Batch::new())) {
            Ok(_) => broken("a database whose log has failed answers"),
            Err(_) => Ok(()),
        }
    }

    fn excused(&self, result: daruma_storage::Result<()>) -> Checked {
        result.or_else(|e| self.excuse(&e))
    }

    /// A few pages of all that are dirty, as if the others were in use.
    fn write_some_pages(&mut self, db: &Arc<Database>) -> Checked {
        let (skip, limit) = (self.random.below(40), 1 + self.random.below(3));
        let written = db.write_some_pages(skip as usize, limit as usize);
        self.tell(|| format!("pages from dirty page {skip} on: {written:?} written"));
        self.stats.pages_written_singly += *written.as_ref().unwrap_or(&0) as u64;
        self.excused(written.map(|_| ()))
    }

    /// Versions of some transactions get pages, those of others do not yet.
    fn place_some_versions(&mut self, db: &Arc<Database>) -> Checked {
        let (skip, limit) = (self.random.below(8), 1 + self.random.below(3));
        let placed = db.place_some_versions(skip as usize, limit as usize);
        self.tell(|| format!("chunks of versions from {skip} on: {placed:?} placed"));
        self.stats.chunks_placed += *placed.as_ref().unwrap_or(&0) as u64;
        self.excused(placed.map(|_| ()))
    }

    /// One step of a backup: it begins, copies some pages, or ends; or the log is backed up behind it.
    fn back_up(&mut self, db: &Arc<Database>) -> Checked {
        let Some(up) = &mut self.up else {
            return Ok(());
        };
        let (copying, chain) = (up.copying.take(), up.chain.take());
        let result = match (copying, chain) {
            (None, Some(chain)) => self.back_up_log(db, chain),
            (None, None) => self.begin_backup(db),
            (Some(copying), _) if copying.is_done() => self.end_backup(copying),
            (Some(mut copying), _) => {
                let copied = copying.go_on(&self.random).map_err(Failure::Storage);
                if let (Some(up), true) = (&mut self.up, copied.is_ok()) {
                    up.copying = Some(copying);
                }
                copied
            }
        };
        match result {
            Ok(()) => Ok(()),
            Err(Failure::Storage(error)) => self.excuse(&error),
            Err(Failure::Wrong(what)) => broken(what),
            Err(Failure::Conflict) => broken("a backup met a lock"),
        }
    }

    fn begin_backup(&mut self, db: &Arc<Database>) -> Outcome {
        let base = self.full.clone().filter(|_| self.random.below(3) > 0);
        self.tell(|| format!("a backup begins, differential: {}", base.is_some()));
        let copying = Copying::begin(db, base).map_err(Failure::Storage)?;
        self.history.harden();
        if let Some(up) = &mut self.up {
            up.copying = Some(copying);
        }
        Ok(())
    }

    fn end_backup(&mut self, copying: Copying) -> Outcome {
        let ended = copying.end(self.history.now());
        self.tell(|| format!("a backup ends: {:?}", ended.as_ref().err()));
        let chain = ended.map_err(Failure::Storage)?;
        self.history.harden();
        self.restore(&chain, "a backup")?;
        match chain.backup.base {
            None => {
                self.full = Some(chain.backup.clone());
                self.stats.full_backups += 1;
            }
            Some(_) => self.stats.differentials += 1,
        }
        if let Some(up) = &mut self.up {
            up.chain = Some(chain);
        }
        Ok(())
    }

    fn back_up_log(&mut self, db: &Arc<Database>, mut chain: Chain) -> Outcome {
        let backed_up = chain.back_up_log(db, self.history.now());
        self.tell(|| format!("the log is backed up: {backed_up:?}"));
        backed_up.map_err(Failure::Storage)?;
        self.history.harden();
        self.stats.log_backups += 1;
        self.restore(&chain, "a backup and log behind it")?;
        // Its hold of the log goes with it.
        let goes_on = chain.logs.len() < LOG_BACKUPS_MAX && self.random.below(3) > 0;
        if let (Some(up), true) = (&mut self.up, goes_on) {
            up.chain = Some(chain);
        }
        Ok(())
    }

    /// What was backed up comes back on another disk, whatever happens to its recovery.
    fn restore(&mut self, chain: &Chain, what: &str) -> Outcome {
        let seed = self.lens.next();
        let restored = chain.restore(seed);
        let (disk, cancelled) =
            restored.map_err(|e| Failure::Wrong(format!("{what} cannot be restored: {e}")))?;
        self.stats.restores_cancelled += cancelled;
        let mut world = World::new(seed, self.mode);
        (world.disk, world.trace) = (disk, self.trace);
        world.crowded = self.crowded;
        (world.history, world.is_picture) = (History::from(chain.state.clone()), true);
        world.disk.restart();
        let result = world.recover().and_then(|()| world.verify());
        self.take_in(world);
        result.map_err(|Violation(found)| Failure::Wrong(format!("restored from {what}: {found}")))
    }

    /// Counts what happened to another world.
    fn take_in(&mut self, mut world: World) {
        world.stop_machine();
        world.stats.take_faults(world.disk.fault_counts());
        let trace = self.stats.trace.rotate_left(1) ^ world.disk.trace();
        self.stats.add(&world.stats);
        self.stats.trace = trace;
    }

    fn check_under_way(&mut self, db: &Arc<Database>) -> Checked {
        let before = self.disk.fault_counts().total();
        let result = verify::structure_under_way(db, self.history.now());
        // A page that cannot be read is a finding: say so only when every page could be.
        if self.disk.fault_counts().total() > before || self.is_down() {
            return Ok(());
        }
        result.map_err(Violation)
    }

    fn switch_mode(&mut self, db: &Arc<Database>) -> Checked {
        for at in 0..self.up.as_ref().map_or(0, |up| up.sessions.len()) {
            self.finish(at, true)?;
        }
        if self.is_down() {
            return Ok(());
        }
        let mut settings = db.settings();
        settings.accelerated_recovery = !settings.accelerated_recovery;
        self.stats.mode_switches += 1;
        self.excused(db.set_settings(settings))
    }

    // --- sessions -----------------------------------------------------------------------------------------------

    fn session_step(&mut self) -> Checked {
        let Some(up) = &mut self.up else {
            return Ok(());
        };
        let at = self.random.below(up.sessions.len() as u64) as usize;
        let Some(mut open) = up.sessions[at].open.take() else {
            let open = self.with_session(at, Open::new);
            if let Some(up) = &mut self.up {
                up.sessions[at].open = Some(open);
            }
            return Ok(());
        };
        if open.left == 0 || open.stuck > STUCK_MAX {
            if let Some(up) = &mut self.up {
                up.sessions[at].open = Some(open);
            }
            let give_up = self.random.below(5) == 0;
            return self.finish(at, give_up);
        }
        open.left -= 1;
        let result = self.with_session(at, |ctx, _, _| open.statement(ctx));
        if let Some(up) = &mut self.up {
            up.sessions[at].open = Some(open);
        }
        self.judge(at, result)
    }

    /// What a failed statement means for its transaction.
    fn judge(&mut self, at: usize, result: std::result::Result<(), Failure>) -> Checked {
        match result {
            Ok(()) => Ok(()),
            Err(Failure::Wrong(what)) => broken(what),
            Err(Failure::Conflict) => {
                self.stats.conflicts += 1;
                if let Some(open) = self
                    .up
                    .as_mut()
                    .and_then(|up| up.sessions[at].open.as_mut())
                {
                    open.stuck += 1;
                    open.left += 1;
                }
                Ok(())
            }
            Err(Failure::Storage(error)) => {
                self.excuse(&error)?;
                if self.random.below(2) == 0 {
                    self.finish(at, true)?;
                }
                Ok(())
            }
        }
    }

    /// Ends a transaction: commits it (hard or delayed), takes it back, or just lets it go.
    fn finish(&mut self, at: usize, give_up: bool) -> Checked {
        let taken = self.up.as_mut().and_then(|up| up.sessions[at].open.take());
        let Some(mut open) = taken else {
            return Ok(());
        };
        if self.is_down() {
            return Ok(());
        }
        let signed = if give_up || open.stuck > STUCK_MAX {
            Err(Failure::Conflict)
        } else {
            self.with_session(at, |ctx, _, _| open.sign(ctx))
        };
        match signed {
            Ok(()) => self.commit(open)?,
            Err(Failure::Wrong(what)) => return broken(what),
            Err(Failure::Conflict) => self.roll_back(open)?,
            Err(Failure::Storage(error)) => {
                self.excuse(&error)?;
                self.roll_back(open)?;
            }
        }
        self.release(at);
        Ok(())
    }

    fn commit(&mut self, open: Open) -> Checked {
        self.tell(|| format!("transaction {} commits", open.number));
        let durability = if self.random.below(4) == 0 {
            Durability::Delayed
        } else {
            Durability::Full
        };
        let Open {
            txn,
            number,
            changes,
            ..
        } = open;
        match txn.commit(durability) {
            Ok(()) if changes.is_empty() => Ok(()),
            Ok(()) => {
                self.stats.commits += 1;
                self.stats.delayed_commits += u64::from(durability == Durability::Delayed);
                let hard = durability == Durability::Full;
                self.history.commit(number, changes, hard);
                Ok(())
            }
            Err(error) => {
                self.excuse(&error)?;
                if self.is_down() {
                    // Whether it committed is known only after recovery.
                    self.history.commit(number, changes, false);
                    return Ok(());
                }
                let result = txn.rollback();
                self.excused(result)
            }
        }
    }

    fn roll_back(&mut self, open: Open) -> Checked {
        self.stats.rollbacks += 1;
        if self.random.below(4) == 0 {
            // A session that is gone: its transaction takes itself back.
            drop(open);
            return Ok(());
        }
        let result = open.txn.rollback();
        drop(open);
        self.excused(result)
    }

    // --- stops and recoveries -----------------------------------------------------------------------------------

    fn stop_machine(&mut self) {
        self.disk.stop();
        self.up = None;
    }

    /// The machine loses power, or only the process dies.
    fn fall(&mut self, power: bool) {
        self.stop_machine();
        self.tell(|| format!("stopped, power lost: {power}"));
        if power {
            self.disk.crash();
        } else {
            self.disk.kill();
        }
    }

    fn stop_cleanly(&mut self) -> Checked {
        self.disk.set_faults(Faults::default());
        for at in 0..self.up.as_ref().map_or(0, |up| up.sessions.len()) {
            self.finish(at, true)?;
        }
        if let Some(mut up) = self.up.take() {
            (up.copying, up.chain) = (None, None);
            let closed = up.db.close();
            closed.map_err(|e| Violation(format!("closing without faults: {e}")))?;
        }
        self.history.harden();
        self.stats.clean_stops += 1;
        let (engine, db, report) = self.open().map_err(|e| Violation(e.to_string()))?;
        // In a full file what is to be reverted may wait for room for its versions.
        if report.needed && !self.crowded {
            return broken("recovery was needed after a clean stop");
        }
        self.come_up(engine, db);
        self.stop_machine();
        self.disk.restart();
        Ok(())
    }

    fn verify(&mut self) -> Checked {
        let Some(up) = &self.up else { return Ok(()) };
        let db = up.db.clone();
        let survivors = verify::survivors(&db).map_err(Violation)?;
        let kept = self.history.survive(&survivors).map_err(Violation)?;
        self.stats.commits_checked += kept as u64;
        verify::content(&db, self.history.now(), &mut self.stats).map_err(Violation)?;
        // Not always: what is left to do must also survive the next stop.
        let (times, of) = if self.is_picture { (1, 4) } else { (2, 3) };
        if self.random.below(of) < times {
            verify::structure(&db, self.history.now(), &mut self.stats)
                .map_err(|what| Violation(format!("{what}{}", self.headers_of(&what))))?;
        }
        Ok(())
    }

    /// What the pages that a finding names say of themselves on disk.
    fn headers_of(&self, what: &str) -> String {
        let content = self.disk.content_of(Path::new(DATA)).unwrap_or_default();
        let header = |number: usize| {
            let page = content.get(number * PAGE_BYTES..)?.get(..32)?;
            let (kind, level, lsn, tree) = (page[4], page[5], &page[8..16], &page[24..30]);
            Some(format!(
                "; on disk, page {number} is of type {kind}, level {level}, LSN {lsn:02x?}, tree {tree:02x?}"
            ))
        };
        what.split("(1:")
            .skip(1)
            .filter_map(|rest| rest.split(')').next()?.parse().ok())
            .filter_map(header)
            .collect()
    }

    // --- damage -------------------------------------------------------------------------------------------------

    /// The disk's last lies, behind the engine's back: a byte rots, a write loses its way. Each must be noticed, and hurt only
    /// the page that it hit.
    fn last_damage(&mut self) -> Checked {
        let Some(mut up) = self.up.take() else {
            return Ok(());
        };
        (up.copying, up.chain) = (None, None);
        let state = self.history.now().clone();
        let pages = verify::structure(&up.db, &state, &mut self.stats).map_err(Violation)?;
        verify::content(&up.db, &state, &mut self.stats).map_err(Violation)?;
        let closed = up.db.close();
        closed.map_err(|e| Violation(format!("closing without faults: {e}")))?;
        drop(up);
        self.disk.restart();
        if pages.is_empty() {
            return Ok(());
        }
        self.rot(&pages, &state)?;
        self.lose_the_way(&pages, &state)
    }

    fn any(&self, pages: &[PageId]) -> PageId {
        pages[self.random.below(pages.len() as u64) as usize]
    }

    /// One bit of one page in use.
    fn rot(&mut self, pages: &[PageId], state: &State) -> Checked {
        let page = self.any(pages);
        let at = place_of(page) + self.random.below(PAGE_BYTES as u64);
        let mask = 1u8 << self.random.below(8);
        self.disk.flip(Path::new(DATA), at, mask);
        let is_repaired = self.damaged(state, page).map_err(|Violation(what)| {
            Violation(format!("after damage at byte {at} of page {page}: {what}"))
        })?;
        if !is_repaired {
            self.disk.flip(Path::new(DATA), at, mask);
        }
        Ok(())
    }

    /// A page in use is overwritten with another page, or with a piece of the log.
    fn lose_the_way(&mut self, pages: &[PageId], state: &State) -> Checked {
        let (page, other) = (self.any(pages), self.any(pages));
        let blocks = self.disk.len_of(Path::new(LOG)).unwrap_or(0) / PAGE_BYTES as u64;
        let (path, from) = match self.random.below(4) {
            0 if blocks > 0 => (LOG, self.random.below(blocks) * PAGE_BYTES as u64),
            _ => (DATA, place_of(other)),
        };
        if (path, from) == (DATA, place_of(page)) {
            return Ok(());
        }
        let (from, to) = ((Path::new(path), from), (Path::new(DATA), place_of(page)));
        if !self.disk.misdirect(from, to, PAGE_BYTES) {
            return Ok(());
        }
        let told = |Violation(what)| {
            let from = from.1;
            Violation(format!(
                "after a write of byte {from} of {path} hit page {page}: {what}"
            ))
        };
        self.damaged(state, page).map_err(told).map(|_| ())
    }

    /// Opens the database with a page that is not what it was. True if it came back from the doublewrite area.
    fn damaged(&mut self, state: &State, page: PageId) -> Checked<bool> {
        let (engine, db, report) = match self.open() {
            Ok(opened) => opened,
            // Opening may need the page itself.
            Err(error) if error.is_damage() => {
                self.stats.damage_found += 1;
                self.disk.restart();
                return Ok(false);
            }
            Err(error) => return broken(error.to_string()),
        };
        let is_repaired = report.torn_pages_restored > 0;
        let result = match is_repaired {
            true => verify::content(&db, state, &mut self.stats),
            false => verify::damaged(&db, state, page),
        };
        match is_repaired {
            true => self.stats.damage_repaired += 1,
            false => self.stats.damage_found += 1,
        }
        drop((engine, db));
        self.disk.restart();
        result.map(|()| is_repaired).map_err(Violation)
    }
}

/// Where a page lies in its file, in bytes.
fn place_of(page: PageId) -> u64 {
    u64::from(page.page) * PAGE_BYTES as u64
}
