//! Server configuration options, as `sp_configure`, `sys.configurations` and the reference of the book show them: each is defined once, in
//! [`OPTIONS`], with what it is about.
//!
//! A changed value waits as `value` until RECONFIGURE makes it the `value_in_use` (options that need a restart keep
//! the old one until then).

use crate::error::Result;
use crate::messages;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Megabytes of log that a primary keeps for a replica that is away; 0: all that it lacks. Not one of the product's.
pub const ABSENT_REPLICA_LOG: &str = "log kept for absent replicas (MB)";
/// Megabytes of log that may be on their way to synchronous replicas before writers of more wait; 0: any amount. Not one of the product's.
pub const UNACKNOWLEDGED_LOG: &str = "unacknowledged log (MB)";
/// Megabytes that a primary sends of a copy in a second (automatic seeding); 0: as many as the link takes. Not one of the product's.
pub const SEEDING_RATE: &str = "automatic seeding (MB/s)";
/// Threads that revert aborted transactions of one database at the same time.
pub const CLEANER_THREADS: &str = "ADR Cleaner Thread Count";
/// Threads that revert aborted transactions at the very most: more would only wait for each other's log.
pub const REVERTERS_MAX: usize = 4;

/// One option with its limits.
#[derive(Clone, Copy, Debug)]
pub struct ConfigurationOption {
    pub id: i32,
    pub name: &'static str,
    pub minimum: i64,
    pub maximum: i64,
    pub default: i64,
    pub is_dynamic: bool,
    pub is_advanced: bool,
    /// Something here depends on it. Others are taken, since scripts set them, and change nothing.
    pub is_obeyed: bool,
    /// The description of `sys.configurations`.
    pub about: &'static str,
}

const OBEYED: bool = true;
const NOTED: bool = false;

#[expect(clippy::too_many_arguments, reason = "a line of the table")]
const fn option(
    id: i32,
    name: &'static str,
    minimum: i64,
    maximum: i64,
    default: i64,
    is_dynamic: bool,
    is_advanced: bool,
    is_obeyed: bool,
    about: &'static str,
) -> ConfigurationOption {
    ConfigurationOption {
        id,
        name,
        minimum,
        maximum,
        default,
        is_dynamic,
        is_advanced,
        is_obeyed,
        about,
    }
}

/// The options known, by id.
#[rustfmt::skip]
pub const OPTIONS: &[ConfigurationOption] = &[
    option(101, "recovery interval (min)", 0, 32_767, 0, true, true, NOTED, "Longest recovery that checkpoints aim at, in minutes; the database's TARGET_RECOVERY_TIME counts here"),
    option(102, "allow updates", 0, 1, 0, true, false, NOTED, "Changes of system tables; they are never allowed"),
    option(103, "user connections", 0, 32_767, 0, false, true, OBEYED, "Most connections at a time; 0: as many as the server takes"),
    option(106, "locks", 5_000, 2_147_483_647, 0, false, true, NOTED, "Locks that are kept ready; memory alone bounds them here"),
    option(107, "open objects", 0, 2_147_483_647, 0, false, true, NOTED, "Objects that may be open; memory alone bounds them here"),
    option(109, "fill factor (%)", 0, 100, 0, false, true, NOTED, "How full pages of new indexes are; pages split in the middle here"),
    option(115, "nested triggers", 0, 1, 1, true, false, OBEYED, "1: what an AFTER trigger changes fires triggers"),
    option(116, "allow server trigger recursion", 0, 1, 1, true, false, NOTED, "1: triggers of the server may fire themselves; there are none here"),
    option(117, "remote access", 0, 1, 1, false, false, NOTED, "Procedures that other servers run here; there are no linked servers here"),
    option(124, "default language", 0, 9_999, 0, true, false, OBEYED, "Language of logins that are made from now on"),
    option(503, "max worker threads", 128, 65_535, 0, true, true, NOTED, "Threads for requests; each connection has its own here"),
    option(505, "network packet size (B)", 512, 32_767, 4_096, true, true, NOTED, "Size of packets; the client's wish counts here"),
    option(518, "show advanced options", 0, 1, 0, true, false, OBEYED, "1: sp_configure shows and changes all options"),
    option(542, "remote proc trans", 0, 1, 0, true, false, NOTED, "1: procedures of other servers run in distributed transactions; there are no linked servers here"),
    option(1505, "index create memory (KB)", 704, 2_147_483_647, 0, true, true, NOTED, "Memory for building an index; what there is counts here"),
    option(1519, "remote login timeout (s)", 0, 2_147_483_647, 10, true, false, NOTED, "How long to wait for another server's login; there are no linked servers here"),
    option(1520, "remote query timeout (s)", 0, 2_147_483_647, 600, true, false, NOTED, "How long to wait for another server's rows; there are no linked servers here"),
    option(1531, "cursor threshold", -1, 2_147_483_647, -1, true, true, NOTED, "Rows from which on a keyset is built beside the batch; never here"),
    option(1534, "user options", 0, 32_767, 0, true, false, OBEYED, "SET options that sessions begin with, as a sum of bits"),
    option(1535, "affinity mask", -2_147_483_648, 2_147_483_647, 0, true, true, NOTED, "Processors that the server uses; the system chooses here"),
    option(1536, "max text repl size (B)", -1, 2_147_483_647, 65_536, true, false, NOTED, "Longest value that replication takes; there is none here"),
    option(1538, "cost threshold for parallelism", 0, 32_767, 5, true, true, NOTED, "Cost from which on plans are parallel; statements have one thread here"),
    option(1539, "max degree of parallelism", 0, 32_767, 0, true, true, NOTED, "Threads of a statement; statements have one here"),
    option(1540, "min memory per query (KB)", 512, 2_147_483_647, 1_024, true, true, NOTED, "Least memory of a query; it takes what it needs here"),
    option(1541, "query wait (s)", -1, 2_147_483_647, -1, true, true, OBEYED, "How long a statement waits for memory; -1: 300 seconds"),
    option(1543, "min server memory (MB)", 0, 2_147_483_647, 0, true, true, NOTED, "Memory that the server does not give back; it keeps none back here"),
    option(1544, "max server memory (MB)", 128, 2_147_483_647, 2_147_483_647, true, true, OBEYED, "Most memory of the server, beside pages, whose share is that of its start"),
    option(1545, "query governor cost limit", 0, 2_147_483_647, 0, true, true, OBEYED, "Cost from which on queries are refused; 0 alone"),
    option(1562, "clr enabled", 0, 1, 0, true, false, NOTED, "1: assemblies may run; there are none here"),
    option(1568, "default trace enabled", 0, 1, 1, true, true, NOTED, "1: the default trace runs; there is none here"),
    option(1569, "blocked process threshold (s)", 0, 86_400, 0, true, true, NOTED, "Seconds after which a session that is blocked is reported; there is no such report here"),
    option(1579, "backup compression default", 0, 1, 1, true, false, OBEYED, "1: backups are compressed unless they say otherwise"),
    option(1581, "optimize for ad hoc workloads", 0, 1, 0, true, true, NOTED, "1: a plan is kept from its second use on; statistics of plans decide here"),
    option(1583, "contained database authentication", 0, 1, 0, true, false, OBEYED, "1: users with passwords in databases; 0 alone"),
    option(1584, "backup checksum default", 0, 1, 0, true, false, NOTED, "1: backups have checksums unless they say otherwise; they always have here"),
    option(1588, "ADR cleaner retry timeout (min)", 0, 32_767, 15, true, true, NOTED, "How long the version cleaner tries to get a lock; it needs none here"),
    option(1590, "ADR Preallocation Factor", 0, 32_767, 4, true, true, NOTED, "Pages of the version store that are kept ready; the store grows as it needs here"),
    option(1598, CLEANER_THREADS, 1, 32_767, REVERTERS_MAX as i64, true, true, OBEYED, "Threads that revert aborted transactions of a database beside the background one"),
    option(16_384, "Agent XPs", 0, 1, 0, true, true, NOTED, "1: procedures of the agent may be run; there is no agent here"),
    option(16_386, "Database Mail XPs", 0, 1, 0, true, true, NOTED, "1: mail can be sent; none is sent here"),
    option(16_387, "SMO and DMO XPs", 0, 1, 1, true, true, NOTED, "1: procedures of the management objects may be run; they always may here"),
    option(16_388, "Ole Automation Procedures", 0, 1, 0, true, true, NOTED, "1: OLE objects can be used; there are none here"),
    option(16_390, "xp_cmdshell", 0, 1, 0, true, true, OBEYED, "1: commands of the system can be run; 0 alone"),
    option(16_391, "Ad Hoc Distributed Queries", 0, 1, 0, true, true, NOTED, "1: OPENROWSET and OPENDATASOURCE of other servers; there are none here"),
    option(20_001, ABSENT_REPLICA_LOG, 0, 2_147_483_647, 0, true, true, OBEYED, "Megabytes of log that a primary keeps for a replica that is away; 0: all that it lacks"),
    option(20_002, UNACKNOWLEDGED_LOG, 0, 2_147_483_647, 8, true, true, OBEYED, "Megabytes of log that synchronous replicas may lack before sessions that write more wait; 0: any amount"),
    option(20_003, SEEDING_RATE, 0, 2_147_483_647, 0, true, true, OBEYED, "Megabytes of a copy that a primary sends to a new replica in a second; 0: as many as the link takes"),
];

/// Values of one option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigurationValue {
    pub value: i64,
    pub value_in_use: i64,
}

/// The options of sp_configure; values are in `master` and here, both changed by RECONFIGURE.
#[derive(Debug)]
pub struct Configuration {
    values: RwLock<BTreeMap<&'static str, ConfigurationValue>>,
}

impl Configuration {
    /// `stored`: values that differ from the defaults.
    pub fn new(stored: &BTreeMap<String, i64>) -> Configuration {
        let initial = |o: &ConfigurationOption| {
            let value = stored.get(o.name).copied().unwrap_or(o.default);
            (
                o.name,
                ConfigurationValue {
                    value,
                    value_in_use: value,
                },
            )
        };
        Configuration {
            values: RwLock::new(OPTIONS.iter().map(initial).collect()),
        }
    }

    /// Value of an option, by its name in any case.
    pub fn get(&self, name: &str) -> Option<ConfigurationValue> {
        self.values.read().get(find(name)?.name).copied()
    }

    /// Value in use, 0 for unknown options.
    pub fn in_use(&self, name: &str) -> i64 {
        self.get(name).map_or(0, |v| v.value_in_use)
    }

    /// Value in use of an option in megabytes, as bytes; `u64::MAX` where it is 0, which stands for no bound.
    pub fn bytes_in_use(&self, name: &str) -> u64 {
        match u64::try_from(self.in_use(name)) {
            Ok(megabytes) if megabytes > 0 => megabytes.saturating_mul(1 << 20),
            _ => u64::MAX,
        }
    }

    /// Sets the configured value; gives the option and its old value.
    pub fn set(&self, name: &str, value: i64) -> Result<(&'static ConfigurationOption, i64)> {
        let option = find_prefix(name)?;
        if value < option.minimum || value > option.maximum {
            return Err(messages::error(15129, &[&value, &option.name]));
        }
        let mut values = self.values.write();
        let slot = values.entry(option.name).or_insert(ConfigurationValue {
            value,
            value_in_use: value,
        });
        let old = std::mem::replace(&mut slot.value, value);
        Ok((option, old))
    }

    /// RECONFIGURE.
    pub fn install(&self) {
        let mut values = self.values.write();
        for option in OPTIONS.iter().filter(|o| o.is_dynamic) {
            if let Some(slot) = values.get_mut(option.name) {
                slot.value_in_use = slot.value;
            }
        }
    }
}

fn find(name: &str) -> Option<&'static ConfigurationOption> {
    OPTIONS.iter().find(|o| o.name.eq_ignore_ascii_case(name))
}

/// An option by name or unique beginning of its name, as `sp_configure` takes it.
pub fn find_prefix(name: &str) -> Result<&'static ConfigurationOption> {
    if let Some(option) = find(name) {
        return Ok(option);
    }
    let lower = name.to_ascii_lowercase();
    let mut found = OPTIONS
        .iter()
        .filter(|o| o.name.to_ascii_lowercase().starts_with(&lower));
    match (found.next(), found.next()) {
        (Some(option), None) => Ok(option),
        (Some(_), Some(_)) => Err(messages::error(15124, &[&name])),
        _ => Err(messages::error(15123, &[&name])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_change_nothing_are_said_to() {
        let compatibility = include_str!("../../../../COMPAT.md");
        let row = compatibility
            .lines()
            .find(|line| line.starts_with("| Server, sp_configure |"));
        let row = row.expect("a row");
        for option in OPTIONS {
            let is_said = row.contains(option.name);
            assert_ne!(is_said, option.is_obeyed, "{}", option.name);
            assert!(!option.about.is_empty() && option.about.len() <= 255);
        }
    }

    #[test]
    fn options_are_there_once_and_begin_within_their_limits() {
        for (at, option) in OPTIONS.iter().enumerate() {
            let others = OPTIONS.iter().skip(at + 1);
            assert!(
                others
                    .into_iter()
                    .all(|o| o.id > option.id && o.name != option.name),
                "{}",
                option.name
            );
            // 0 is "as the server thinks" also where the least value is above it.
            let begins = option.default == 0 || option.default >= option.minimum;
            assert!(
                begins && option.default <= option.maximum,
                "{}",
                option.name
            );
        }
    }
}
