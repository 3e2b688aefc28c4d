//! A node's file: every crash leaves the old register or the new one, a whole node or none, and bytes that are none are refused.
#![cfg(not(feature = "planted-bugs"))]

mod departure;

use daruma_base::Disk;
use daruma_cluster::witness::Counts;
use daruma_cluster::{Packet, Store, Stored};
use daruma_quorum::{Ballot, Configuration, MemberId, Members, Message, Register};
use daruma_sim::{Faults, SimDisk};
use std::path::Path;
use std::sync::Arc;

fn stored(term: u64) -> Stored {
    let held = Configuration::first(Members::nodes(3), Arc::from(&b"body"[..]));
    let mut register = Register::new(held);
    register.ballot = Ballot {
        generation: 0,
        term,
    };
    register.voted_for = MemberId::node(2);
    Stored {
        me: MemberId::node(1).unwrap(),
        register,
        seen: Counts::of(vec![(7, term), (8, 1)]).unwrap(),
    }
}

#[test]
fn what_is_saved_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = daruma_platform::env().disk;
    let store = Store::new(disk.clone(), folder.path());
    assert_eq!(store.load().unwrap(), None);
    for term in 2..5 {
        store.save(&stored(term)).unwrap();
        assert_eq!(store.load().unwrap(), Some(stored(term)));
    }
    let path = folder.path().join("register");
    let mut bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        assert!(store.load().is_err(), "byte {at}");
        bytes[at] ^= 0x10;
    }
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(store.load().is_err());
    store.forget_node().unwrap();
    assert_eq!(store.load().unwrap(), None);
}

/// Cuts the power at each call in turn; what was not synced survives in any subset.
#[test]
fn every_crash_leaves_one_or_the_other() {
    let folder = Path::new("cluster");
    let mut found_old = 0;
    for (seed, at) in (0..20).flat_map(|seed| (0..8).map(move |at| (seed, at))) {
        let disk = SimDisk::new(seed);
        disk.create_dir_all(folder).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        let store = Store::new(disk.clone(), folder);
        store.save(&stored(2)).unwrap();
        disk.set_faults(Faults {
            stop_at: Some(disk.calls() + at),
            ..Faults::default()
        });
        let saved = store.save(&stored(3)).is_ok();
        disk.crash();
        let found = store.load().unwrap().expect("one of them");
        match saved {
            true => assert_eq!(found, stored(3), "seed {seed}, call {at}"),
            false => assert!(found == stored(2) || found == stored(3)),
        }
        found_old += u32::from(found == stored(2));
    }
    assert!(found_old > 20, "{found_old} crashes came too late");
}

#[test]
fn a_server_that_is_stopped_while_it_forgets_its_node_is_a_node_or_none() {
    let (nodes, none) = departure::each_stop().unwrap();
    assert!(nodes > 10 && none > 10, "{nodes} nodes, {none} none");
}

#[test]
fn packets_are_themselves_or_refused() {
    let held = stored(2).register.held;
    let packet = Packet::Core(Message::Put {
        configuration: held,
        settled: true,
    });
    let bytes = packet.encode();
    assert_eq!(Packet::decode(&bytes), Ok(packet));
    for length in 0..bytes.len() {
        assert!(Packet::decode(&bytes[..length]).is_err());
    }
    for first in 0..=255 {
        // Anything but a panic.
        let mut bytes = bytes.clone();
        bytes[0] = first;
        let _ = Packet::decode(&bytes);
        bytes.truncate(20);
        let _ = Packet::decode(&bytes);
    }
}
