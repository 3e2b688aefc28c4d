//! What is not a whole backup is never taken for one.

mod common;

use common::*;
use daruma_backup::*;
use daruma_base::{Disk, OpenMode};
use daruma_sim::SimRandom;
use daruma_storage::RecoveryModel;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn small_backup(seed: u64, names: &[&str]) -> (World, History) {
    let world = World::new(seed, 300);
    let history = History::new(&world, "d", RecoveryModel::Full);
    history.run(&SimRandom::new(seed), 25);
    full(&world, &history.db, names).expect("a backup");
    (world, history)
}

fn check(world: &World, names: &[&str], position: u32) -> Result<()> {
    let set = world.media(names)?.set(position)?;
    verify(&set, 2, &mut |_| Ok(()))
}

#[test]
fn any_changed_byte_and_any_missing_end_is_found() {
    let names = ["/one", "/two"];
    let (world, _history) = small_backup(1, &names);
    check(&world, &names, 1).expect("is whole");
    for (name, other) in [("/one", "/two"), ("/two", "/one")] {
        let path = Path::new(name);
        let len = world.disk.len_of(path).expect("a file");
        // Every byte of the first and last kilobytes, and a sample of those between.
        let middle = (2_000..len.saturating_sub(6_000)).step_by(977);
        for at in (0..2_000.min(len))
            .chain(middle)
            .chain(len.saturating_sub(6_000)..len)
        {
            world.disk.flip(path, at, 1 << (at % 8));
            let found = check(&world, &[other, name], 1);
            assert!(
                found.is_err(),
                "a flipped bit of byte {at} of {name} ({len} bytes)"
            );
            world.disk.flip(path, at, 1 << (at % 8));
        }
        for cut in [1, 63, 64, 65, 1_000, len / 2, len - 1] {
            let copy = world
                .disk
                .open(path, daruma_base::OpenMode::ReadOnly)
                .expect("opens");
            let mut bytes = vec![0; (len - cut) as usize];
            copy.read_at(&mut bytes, 0).expect("reads");
            let _ = world.disk.remove(Path::new("/cut"));
            let file = world
                .disk
                .open(Path::new("/cut"), daruma_base::OpenMode::CreateNew)
                .expect("creates");
            file.write_at(&bytes, 0).expect("writes");
            assert!(
                check(&world, &[other, "/cut"], 1).is_err(),
                "{cut} bytes cut off {name}"
            );
        }
    }
    check(&world, &names, 1).expect("is whole again");
}

#[test]
fn stripes_of_other_backups_are_refused() {
    let (world, history) = small_backup(2, &["/a1", "/a2"]);
    full(&world, &history.db, &["/b1", "/b2"]).expect("a backup");
    assert!(matches!(
        world.media(&["/a1", "/b2"]).map(|_| ()),
        Err(BackupError::ForeignFamily { .. })
    ));
    assert!(matches!(
        world.media(&["/a1", "/a1"]).map(|_| ()),
        Err(BackupError::RepeatedFamily { family: 1, .. })
    ));
    assert!(matches!(
        world.media(&["/a2"]).map(|_| ()),
        Err(BackupError::FamiliesMissing {
            expected: 2,
            found: 1
        })
    ));
    check(&world, &["/b2", "/b1"], 1).expect("in any order");
}

/// A mirror takes the place of a damaged family.
#[test]
fn a_mirror_stands_in() {
    let world = World::new(3, 300);
    let history = History::new(&world, "d", RecoveryModel::Simple);
    history.run(&SimRandom::new(3), 25);
    let mut destination = world.destination(&["/m1", "/m2"]);
    destination.mirrors = vec![world.devices(&["/n1", "/n2"])];
    let (label, tuning) = (MediaLabel::default(), tuning());
    let request = request(
        &world,
        &history.db,
        &destination,
        &label,
        &tuning,
        BackupKind::Full,
    );
    take_full(request, &mut |_| Ok(())).expect("a backup");
    let len = world.disk.len_of(Path::new("/m1")).expect("a file");
    world.disk.flip(Path::new("/m1"), len / 2, 8);
    assert!(check(&world, &["/m1", "/m2"], 1).is_err());
    check(&world, &["/m1", "/n1", "/m2"], 1).expect("the mirror is whole");
    check(&world, &["/n1", "/m2"], 1).expect("families may come from different mirrors");
}

/// A device whose n-th call fails.
struct Faulty {
    inner: Arc<dyn Device>,
    calls: Arc<AtomicU64>,
    fail_at: u64,
}

struct FaultyTarget {
    inner: Arc<dyn Target>,
    calls: Arc<AtomicU64>,
    fail_at: u64,
}

fn admit(calls: &AtomicU64, fail_at: u64) -> std::io::Result<()> {
    match calls.fetch_add(1, Ordering::AcqRel) == fail_at {
        true => Err(std::io::Error::other("simulated I/O error")),
        false => Ok(()),
    }
}

impl Device for Faulty {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn device_type(&self) -> u8 {
        self.inner.device_type()
    }
    fn exists(&self) -> std::io::Result<bool> {
        admit(&self.calls, self.fail_at)?;
        self.inner.exists()
    }
    fn source(&self) -> std::io::Result<Arc<dyn Source>> {
        admit(&self.calls, self.fail_at)?;
        self.inner.source()
    }
    fn create(&self) -> std::io::Result<Arc<dyn Target>> {
        admit(&self.calls, self.fail_at)?;
        Ok(Arc::new(FaultyTarget {
            inner: self.inner.create()?,
            calls: self.calls.clone(),
            fail_at: self.fail_at,
        }))
    }
    fn append(&self, len: u64) -> std::io::Result<Arc<dyn Target>> {
        self.inner.append(len)
    }
}

impl Target for FaultyTarget {
    fn write(&self, bytes: &[u8], offset: u64, piece: u32) -> std::io::Result<()> {
        admit(&self.calls, self.fail_at)?;
        self.inner.write(bytes, offset, piece)
    }
    fn seal(&self, len: u64) -> std::io::Result<()> {
        admit(&self.calls, self.fail_at)?;
        self.inner.seal(len)
    }
    fn publish(&self) -> std::io::Result<()> {
        self.inner.publish()
    }
    fn abort(&self) {
        self.inner.abort();
    }
}

/// An error at each call in turn: the backup fails, and the one before it, of the same name, is still there.
#[test]
fn a_failed_backup_leaves_the_one_before() {
    let names = ["/x1", "/x2"];
    let (world, history) = small_backup(4, &names);
    let set_of = |world: &World| {
        world
            .media(&names)
            .and_then(|m| m.set_info(1))
            .expect("a set")
            .set
    };
    let before = set_of(&world);
    let mut failures = 0;
    for fail_at in 0.. {
        let calls = Arc::new(AtomicU64::new(0));
        let mut destination = world.destination(&names);
        destination.overwrite = true;
        for device in &mut destination.devices {
            *device = Arc::new(Faulty {
                inner: device.clone(),
                calls: calls.clone(),
                fail_at,
            });
        }
        let (label, tuning) = (MediaLabel::default(), tuning());
        let request = request(
            &world,
            &history.db,
            &destination,
            &label,
            &tuning,
            BackupKind::Full,
        );
        let taken = take_full(request, &mut |_| Ok(()));
        check(&world, &names, 1).expect("a whole backup, old or new");
        if taken.is_ok() {
            assert!(calls.load(Ordering::Acquire) <= fail_at);
            assert_ne!(set_of(&world), before);
            break;
        }
        failures += 1;
        assert_eq!(set_of(&world), before, "failed at call {fail_at}");
        for name in ["/x1.partial", "/x2.partial"] {
            assert!(
                !world.disk.exists(Path::new(name)).expect("looks"),
                "{name} is left"
            );
        }
    }
    assert!(failures > 8, "{failures} failures");
}

/// A backup killed while it appends a second set: the first set stays usable, and the next backup goes on behind it.
#[test]
fn a_killed_append_does_not_count() {
    for seed in 0..6 {
        let (world, history) = small_backup(seed, &["/k"]);
        let whole = world.disk.len_of(Path::new("/k")).expect("a file");
        full(&world, &history.db, &["/k"]).expect("a second set");
        check(&world, &["/k"], 2).expect("is whole");
        let both = world.disk.len_of(Path::new("/k")).expect("a file");
        let cut = whole + (both - whole) * (seed + 1) / 8;
        let file = world
            .disk
            .open(Path::new("/k"), daruma_base::OpenMode::ReadWrite)
            .expect("opens");
        file.set_len(cut).expect("cuts");
        drop(file);
        check(&world, &["/k"], 1).expect("the first set is whole");
        assert!(matches!(
            check(&world, &["/k"], 2),
            Err(BackupError::NoSet { .. })
        ));
        let third = full(&world, &history.db, &["/k"]).expect("goes on");
        assert_eq!(third.position, 2);
        check(&world, &["/k"], 1).expect("the first set is whole");
        check(&world, &["/k"], 2).expect("the new one too");
    }
}

/// Restore from a damaged set fails and says so; what it wrote can be removed.
#[test]
fn a_restore_checks_what_it_writes() {
    let (world, _history) = small_backup(9, &["/r"]);
    let len = world.disk.len_of(Path::new("/r")).expect("a file");
    world.disk.flip(Path::new("/r"), len / 3, 1);
    let set = world
        .media(&["/r"])
        .expect("a label")
        .set(1)
        .expect("a description");
    let restored = restore_full(&world.env, &set, &files("n"), 2, &mut |_| Ok(()));
    assert!(matches!(restored, Err(BackupError::Damaged { .. })));
}

/// Bytes of a frame before its payload.
const FRAME_HEADER_BYTES: usize = 64;
/// Kind of the frame that describes a set.
const SET_END: u8 = 6;

/// Gives the description of each set the file format of an older release.
fn make_older(bytes: &mut [u8]) {
    let mut rest = bytes;
    while rest.len() >= FRAME_HEADER_BYTES {
        let (header, behind) = rest.split_at_mut(FRAME_HEADER_BYTES);
        let stored = u32::from_le_bytes(header[36..40].try_into().expect("four bytes"));
        let (payload, next) = behind.split_at_mut(stored as usize);
        if header[8] == SET_END {
            let field = b"\"file_format\":";
            let at = payload.windows(field.len()).position(|w| w == field);
            payload[at.expect("a format") + field.len()] = b'1';
            header[40..44].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
            let sum = crc32c::crc32c(&header[8..]);
            header[4..8].copy_from_slice(&sum.to_le_bytes());
        }
        rest = next;
    }
}

/// Its files could not be opened, but it can be listed, and so replaced or deleted.
#[test]
fn a_set_of_an_older_release_is_described_and_its_content_refused() {
    let (world, _history) = small_backup(7, &["/now"]);
    let path = Path::new("/now");
    let file = world.disk.open(path, OpenMode::ReadOnly).expect("opens");
    let mut bytes = vec![0; world.disk.len_of(path).expect("a file") as usize];
    file.read_at(&mut bytes, 0).expect("reads");
    make_older(&mut bytes);
    let older = world.disk.open(Path::new("/older"), OpenMode::CreateNew);
    older.and_then(|f| f.write_at(&bytes, 0)).expect("writes");
    let media = world.media(&["/older"]).expect("a medium");
    let info = media.set_info(1).expect("is described");
    assert_eq!((info.position, info.origin.file_format), (1, 1));
    let refused = media.set(1).map(drop);
    assert!(matches!(refused, Err(BackupError::OtherRelease { .. })));
}
