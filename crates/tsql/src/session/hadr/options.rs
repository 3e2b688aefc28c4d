//! Options of groups, replicas and listeners: words to definitions.

use crate::error::{Result, SqlError};
use crate::instance::hadr;
use crate::messages;
use daruma_catalog::*;
use daruma_syntax::ast::{Expr, ListenerSpec, Literal, OptionItem, OptionValue};

const HEALTH_CHECK_MS_MIN: i64 = 15_000;
const SESSION_TIMEOUT_S_MIN: i64 = 5;
/// Longest address of an endpoint.
const URL_CHARS_MAX: usize = 256;
/// Longest name of a listener.
const DNS_NAME_CHARS_MAX: usize = 63;

/// Error 155.
pub(super) fn not_recognized(what: &str, of: &str) -> SqlError {
    messages::error(155, &[&what, &of])
}

/// The words or text of an option.
pub(super) fn word(item: &OptionItem) -> Result<String> {
    match &item.value {
        OptionValue::Word(words) => Ok(words.clone()),
        OptionValue::Name(name) => Ok(name.text.clone()),
        OptionValue::On => Ok("ON".to_string()),
        OptionValue::Off => Ok("OFF".to_string()),
        OptionValue::Expr(Expr::Literal(Literal::String { text, .. })) => Ok(text.clone()),
        _ => Err(messages::error(102, &[&item.name])),
    }
}

/// The number of an option.
pub(super) fn integer(item: &OptionItem) -> Result<i64> {
    match &item.value {
        OptionValue::Expr(Expr::Literal(Literal::Integer(digits))) => digits.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| messages::error(102, &[&item.name]))
}

fn list(item: &OptionItem) -> Result<&[OptionItem]> {
    match &item.value {
        OptionValue::List(items) => Ok(items),
        _ => Err(messages::error(102, &[&item.name])),
    }
}

fn switch(item: &OptionItem) -> Result<bool> {
    match word(item)?.to_uppercase().as_str() {
        "ON" => Ok(true),
        "OFF" => Ok(false),
        _ => Err(messages::error(102, &[&item.name])),
    }
}

pub(super) fn default_group() -> GroupOptions {
    GroupOptions {
        backup_preference: BackupPreference::Secondary,
        failure_condition_level: 3,
        health_check_timeout_ms: 30_000,
        db_failover: false,
        cluster_type: ClusterType::Wsfc,
        required_synchronized_secondaries: 0,
    }
}

/// One option of WITH or SET; `group` is for messages.
pub(super) fn group_option(
    options: &mut GroupOptions,
    group: &str,
    item: &OptionItem,
) -> Result<()> {
    let name = item.name.to_uppercase();
    match name.as_str() {
        "AUTOMATED_BACKUP_PREFERENCE" => {
            options.backup_preference = match word(item)?.to_uppercase().as_str() {
                "PRIMARY" => BackupPreference::Primary,
                "SECONDARY_ONLY" => BackupPreference::SecondaryOnly,
                "SECONDARY" => BackupPreference::Secondary,
                "NONE" => BackupPreference::None,
                other => return Err(not_recognized(other, &name)),
            }
        }
        "FAILURE_CONDITION_LEVEL" => {
            let level = u8::try_from(integer(item)?)
                .ok()
                .filter(|l| (1..=5).contains(l));
            let level = level.ok_or_else(|| messages::error(35228, &[&group, &1, &5]))?;
            options.failure_condition_level = level;
        }
        "HEALTH_CHECK_TIMEOUT" => {
            let ms = integer(item)?;
            let fits = u32::try_from(ms).ok().filter(|_| ms >= HEALTH_CHECK_MS_MIN);
            let ms = fits.ok_or_else(|| messages::error(35229, &[&group, &HEALTH_CHECK_MS_MIN]))?;
            options.health_check_timeout_ms = ms;
        }
        "DB_FAILOVER" => options.db_failover = switch(item)?,
        "CLUSTER_TYPE" => options.cluster_type = cluster_type(item)?,
        "REQUIRED_SYNCHRONIZED_SECONDARIES_TO_COMMIT" => {
            let wanted = integer(item)?;
            let fits = u8::try_from(wanted).ok().filter(|n| *n <= 8);
            let bad = || not_recognized(&wanted.to_string(), &name);
            options.required_synchronized_secondaries = fits.ok_or_else(bad)?;
        }
        // Distributed transactions across servers are not there; what it stands for without them is the default.
        "DTC_SUPPORT" if word(item)?.eq_ignore_ascii_case("NONE") => {}
        "WRITE_LEASE_VALIDITY" if options.cluster_type != ClusterType::External => {
            return Err(messages::error(47116, &[&group]));
        }
        "DTC_SUPPORT"
        | "BASIC"
        | "DISTRIBUTED"
        | "CONTAINED"
        | "REUSE_SYSTEM_DATABASES"
        | "WRITE_LEASE_VALIDITY" => {
            return Err(messages::not_supported(&name));
        }
        _ => return Err(not_recognized(&name, "AVAILABILITY GROUP")),
    }
    Ok(())
}

pub(super) fn cluster_type(item: &OptionItem) -> Result<ClusterType> {
    match word(item)?.to_uppercase().as_str() {
        "WSFC" => Ok(ClusterType::Wsfc),
        "EXTERNAL" => Ok(ClusterType::External),
        "NONE" => Ok(ClusterType::None),
        other => Err(not_recognized(other, "CLUSTER_TYPE")),
    }
}

/// One option of a replica.
pub(super) fn replica_option(replica: &mut ReplicaDef, item: &OptionItem) -> Result<()> {
    let name = item.name.to_uppercase();
    let value = || word(item).map(|w| w.to_uppercase());
    match name.as_str() {
        "ENDPOINT_URL" => replica.endpoint_url = url(&word(item)?)?,
        "AVAILABILITY_MODE" => {
            replica.availability_mode = match value()?.as_str() {
                "SYNCHRONOUS_COMMIT" => AvailabilityMode::Synchronous,
                "ASYNCHRONOUS_COMMIT" => AvailabilityMode::Asynchronous,
                "CONFIGURATION_ONLY" => AvailabilityMode::ConfigurationOnly,
                other => return Err(not_recognized(other, &name)),
            }
        }
        "FAILOVER_MODE" => {
            replica.failover_mode = match value()?.as_str() {
                "AUTOMATIC" => FailoverMode::Automatic,
                "MANUAL" => FailoverMode::Manual,
                "EXTERNAL" => FailoverMode::External,
                other => return Err(not_recognized(other, &name)),
            }
        }
        "SEEDING_MODE" => {
            replica.seeding_mode = match value()?.as_str() {
                "AUTOMATIC" => SeedingMode::Automatic,
                "MANUAL" => SeedingMode::Manual,
                other => return Err(not_recognized(other, &name)),
            }
        }
        "BACKUP_PRIORITY" => {
            let wanted = integer(item)?;
            let fits = u8::try_from(wanted).ok().filter(|p| *p <= 100);
            replica.backup_priority =
                fits.ok_or_else(|| not_recognized(&wanted.to_string(), &name))?;
        }
        "SESSION_TIMEOUT" => {
            let wanted = integer(item)?;
            // The product takes less than five seconds for five.
            let fits = u32::try_from(wanted.max(SESSION_TIMEOUT_S_MIN)).ok();
            replica.session_timeout_s =
                fits.ok_or_else(|| not_recognized(&wanted.to_string(), &name))?;
        }
        "SECONDARY_ROLE" => list(item)?
            .iter()
            .try_for_each(|i| secondary_role(replica, i))?,
        "PRIMARY_ROLE" => list(item)?
            .iter()
            .try_for_each(|i| primary_role(replica, i))?,
        _ => return Err(not_recognized(&name, "AVAILABILITY REPLICA")),
    }
    Ok(())
}

fn secondary_role(replica: &mut ReplicaDef, item: &OptionItem) -> Result<()> {
    match item.name.to_uppercase().as_str() {
        "ALLOW_CONNECTIONS" => {
            replica.secondary_connections = match word(item)?.to_uppercase().as_str() {
                "NO" => SecondaryConnections::No,
                "READ_ONLY" => SecondaryConnections::ReadOnly,
                "ALL" => SecondaryConnections::All,
                other => return Err(not_recognized(other, "ALLOW_CONNECTIONS")),
            }
        }
        "READ_ONLY_ROUTING_URL" => replica.read_only_routing_url = optional_url(item)?,
        other => return Err(not_recognized(other, "SECONDARY_ROLE")),
    }
    Ok(())
}

fn primary_role(replica: &mut ReplicaDef, item: &OptionItem) -> Result<()> {
    match item.name.to_uppercase().as_str() {
        "ALLOW_CONNECTIONS" => {
            replica.primary_connections = match word(item)?.to_uppercase().as_str() {
                "ALL" => PrimaryConnections::All,
                "READ_WRITE" => PrimaryConnections::ReadWrite,
                other => return Err(not_recognized(other, "ALLOW_CONNECTIONS")),
            }
        }
        "READ_ONLY_ROUTING_LIST" => replica.read_only_routing = routing_list(item)?,
        "READ_WRITE_ROUTING_URL" => replica.read_write_routing_url = optional_url(item)?,
        other => return Err(not_recognized(other, "PRIMARY_ROLE")),
    }
    Ok(())
}

/// `('a', 'b')`, `(('a', 'b'), 'c')` or `NONE`.
fn routing_list(item: &OptionItem) -> Result<Vec<Vec<String>>> {
    if let Ok(words) = word(item) {
        return match words.eq_ignore_ascii_case("NONE") {
            true => Ok(Vec::new()),
            false => Err(not_recognized(&words, "READ_ONLY_ROUTING_LIST")),
        };
    }
    let place = |item: &OptionItem| match &item.value {
        OptionValue::List(servers) => servers.iter().map(word).collect(),
        _ => word(item).map(|server| vec![server]),
    };
    list(item)?.iter().map(place).collect()
}

fn optional_url(item: &OptionItem) -> Result<Option<String>> {
    match word(item)? {
        none if none.eq_ignore_ascii_case("NONE") => Ok(None),
        text => url(&text).map(Some),
    }
}

fn url(text: &str) -> Result<String> {
    let fits = text.chars().count() <= URL_CHARS_MAX && hadr::is_url(text);
    match fits {
        true => Ok(text.to_string()),
        false => Err(messages::error(35232, &[&text])),
    }
}

/// `'dns' (WITH IP (('a', 'mask'), ..), PORT = n)`.
pub(super) fn listener(spec: &ListenerSpec, listener_id: [u8; 16]) -> Result<ListenerDef> {
    let length = spec.name.chars().count();
    if length == 0 || length > DNS_NAME_CHARS_MAX {
        return Err(messages::error(35230, &[&DNS_NAME_CHARS_MAX]));
    }
    let mut listener = ListenerDef {
        listener_id,
        dns_name: spec.name.clone(),
        port: 1_433,
        addresses: Vec::new(),
    };
    for item in &spec.options {
        change_listener(&mut listener, item)?;
    }
    Ok(listener)
}

pub(super) fn change_listener(listener: &mut ListenerDef, item: &OptionItem) -> Result<()> {
    match item.name.to_uppercase().as_str() {
        "PORT" => {
            let port = u16::try_from(integer(item)?).ok().filter(|port| *port != 0);
            listener.port = port.ok_or_else(|| not_recognized("PORT", "LISTENER"))?;
        }
        "WITH IP" => {
            let addresses = list(item)?.iter().map(address);
            listener.addresses = addresses.collect::<Result<_>>()?;
        }
        "ADD IP" => listener.addresses.push(address(item)?),
        other if other.starts_with("WITH DHCP") => {
            return Err(messages::not_supported("WITH DHCP"));
        }
        other => return Err(not_recognized(other, "LISTENER")),
    }
    Ok(())
}

/// `('10.0.0.1', '255.0.0.0')` or `('::1')`.
fn address(item: &OptionItem) -> Result<ListenerAddress> {
    let bad = || messages::error(102, &[&"IP"]);
    let words: Vec<String> = list(item)?.iter().map(word).collect::<Result<_>>()?;
    let parsed = |text: &String| text.parse::<std::net::IpAddr>().map_err(|_| bad());
    let (address, mask) = match words.as_slice() {
        [address] => (address, None),
        [address, mask] => (address, Some(mask)),
        _ => return Err(bad()),
    };
    match (parsed(address)?.is_ipv4(), mask) {
        (true, Some(mask)) if parsed(mask)?.is_ipv4() => {}
        (false, None) => {}
        _ => return Err(bad()),
    }
    Ok(ListenerAddress {
        address: address.clone(),
        subnet_mask: mask.cloned(),
    })
}
