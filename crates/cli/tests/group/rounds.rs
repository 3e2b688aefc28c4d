//! Kills and failovers in random order under load; every acknowledged commit is looked for after each.
//!
//! Few rounds by default; `tests/group/run.sh` asks for more (DARUMA_GROUP_ROUNDS, DARUMA_GROUP_SEED).

use super::servers::*;
use super::{Load, check};

const ROUNDS: u64 = 4;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Numbers that depend on the seed alone (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

const JOINED: &str = "SELECT COUNT(*) FROM sys.dm_hadr_database_replica_states WHERE is_local = 0 AND synchronization_state_desc = 'SYNCHRONIZED'";

/// Waits until both have all; a copy that was refused is made anew, as the error log asks.
fn settle(primary: &Server, secondary: &Server) {
    let until = std::time::Instant::now() + LONG;
    while primary.value(JOINED).as_deref() != Some("1") {
        assert!(
            std::time::Instant::now() < until,
            "never synchronized\n--- primary {}\n{}\n--- secondary {}\n{}",
            primary.name,
            primary.log(),
            secondary.name,
            secondary.log()
        );
        if secondary.log().contains("follows no more") {
            // What was said before the restart is in an older log.
            secondary.sql("ALTER DATABASE d SET HADR OFF; DROP DATABASE d");
            primary.wait_for(JOINED, "1");
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn kills_and_failovers_in_any_order_lose_nothing_that_was_acknowledged() {
    let rounds = number("DARUMA_GROUP_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("DARUMA_GROUP_SEED").unwrap_or(1);
    let mut random = Random(seed);
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (mut primary, mut secondary) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    acquaint(root, &[&primary, &secondary]);
    create_database(&primary);
    create_group(root, &primary, &secondary, "SYNCHRONOUS_COMMIT");
    settle(&primary, &secondary);
    let mut acknowledged = Vec::new();
    for round in 0..rounds {
        let first = u32::try_from(round).expect("a round") * 1_000_000 + 1;
        let load = Load::begin([primary.port, secondary.port], first);
        std::thread::sleep(std::time::Duration::from_millis(200 + random.below(400)));
        let deed = random.below(4);
        match deed {
            0 => {
                secondary.kill();
                std::thread::sleep(std::time::Duration::from_millis(random.below(500)));
                secondary.run();
            }
            1 => {
                primary.kill();
                primary.run();
                primary.wait_for(OWN_ROLE, "PRIMARY");
            }
            2 => {
                secondary.sql("ALTER AVAILABILITY GROUP g FAILOVER");
                std::mem::swap(&mut primary, &mut secondary);
            }
            _ => {
                primary.kill();
                secondary.sql("ALTER AVAILABILITY GROUP g FORCE_FAILOVER_ALLOW_DATA_LOSS");
                secondary.wait_for(OWN_ROLE, "PRIMARY");
                primary.run();
                std::mem::swap(&mut primary, &mut secondary);
            }
        }
        primary.wait_for(OWN_ROLE, "PRIMARY");
        settle(&primary, &secondary);
        acknowledged.extend(load.end());
        println!(
            "seed {seed} round {round} deed {deed}: {} commits",
            acknowledged.len()
        );
        check(&primary, &acknowledged);
        let count = primary.patient_value(COUNT);
        secondary.wait_for(COUNT, &count);
        check(&secondary, &acknowledged);
    }
    assert!(!acknowledged.is_empty());
}
