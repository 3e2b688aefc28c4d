//! ALTER DATABASE SET.

use super::exclusive::exclusive;
use super::{alone_with_name, drop_value, edit};
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::{DatabaseEntry, MASTER, MODEL, MSDB, TEMPDB, close_database};
use crate::messages;
use crate::session::{Execution, restores_pages, take_back_pages};
use daruma_base::DatabaseId;
use daruma_catalog::{DatabaseDef, FilegroupDef, UserAccess};
use daruma_storage as storage;
use daruma_storage::Settings;
use daruma_syntax::ast::{self, DatabaseOption, DatabaseState, OptionValue, Termination};
use std::collections::HashMap;
use std::mem::Discriminant;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Options of our own: how much a crash may cost while commits are delayed.
const DELAYED_MILLISECONDS: &str = "DELAYED_DURABILITY_MILLISECONDS";
const DELAYED_KILOBYTES: &str = "DELAYED_DURABILITY_KILOBYTES";
const MILLISECONDS: RangeInclusive<u32> = 1..=60_000;
const KILOBYTES: RangeInclusive<u32> = 64..=65_536;

const OPTIMIZED_LOCKING: &str = "OPTIMIZED_LOCKING";
/// Of our own as well: where writers of new versions are slowed, and then refused.
const VERSIONS_MAX: &str = "PERSISTENT_VERSION_STORE_MAX_SIZE";

pub(super) fn set_options(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    options: &[DatabaseOption],
    termination: Option<Termination>,
) -> Result<()> {
    refuse_conflicts(options)?;
    // None is set where one of them cannot be.
    options
        .iter()
        .try_for_each(|option| check_option(ex, entry, option))?;
    options
        .iter()
        .try_for_each(|option| set_option(ex, entry, option, termination))
}

/// What can be said against an option without touching the database.
fn check_option(ex: &Execution<'_>, entry: &DatabaseEntry, option: &DatabaseOption) -> Result<()> {
    if let Some(name) = fixed_in_system(entry, option) {
        return Err(not_settable(entry, name));
    }
    if changes_replicas(option) {
        entry_alone(ex, entry)?;
    }
    match option {
        DatabaseOption::CompatibilityLevel(level) => check_level(*level),
        DatabaseOption::Other(item) => check_named(item),
        _ => Ok(()),
    }
}

/// The same of an option that is known by its name alone.
fn check_named(item: &ast::OptionItem) -> Result<()> {
    let is = |name: &str| item.name.eq_ignore_ascii_case(name);
    if is(DELAYED_MILLISECONDS) {
        return bound_value(item, MILLISECONDS).map(drop);
    }
    if is(DELAYED_KILOBYTES) {
        return bound_value(item, KILOBYTES).map(drop);
    }
    if is(VERSIONS_MAX) {
        return version_store_limit(item).map(drop);
    }
    if is(OPTIMIZED_LOCKING) || switches_tuning_off(item) {
        return Ok(());
    }
    if is_mirroring(&item.name) {
        return Err(messages::not_supported("database mirroring"));
    }
    refuse(item)?;
    word_value(item).map(drop)
}

/// Automatic tuning that is not to be done.
fn switches_tuning_off(item: &ast::OptionItem) -> bool {
    let is_off = |i: &ast::OptionItem| matches!(i.value, OptionValue::Off);
    item.name.eq_ignore_ascii_case("AUTOMATIC_TUNING")
        && matches!(&item.value, OptionValue::List(list) if list.iter().all(is_off))
}

/// The value of an option as it is kept. Error 102 for a word that it cannot be.
fn word_value(item: &ast::OptionItem) -> Result<String> {
    let mut value = option_value(&item.value).unwrap_or_else(|| "ON".to_string());
    let is = |name: &str| item.name.eq_ignore_ascii_case(name);
    if let Some((_, words)) = WORDS.iter().find(|(name, _)| is(name)) {
        value.make_ascii_uppercase();
        if !words.contains(&value.as_str()) {
            return Err(messages::error(102, &[&value]));
        }
    }
    Ok(value)
}

/// Error 1052 where one statement gives an option two values, and 1039 where it gives one twice.
fn refuse_conflicts(options: &[DatabaseOption]) -> Result<()> {
    let mut known = HashMap::new();
    for option in options {
        if let Some(other) = known.insert(identity(option), option) {
            return Err(match option == other {
                true => messages::error(1039, &[option]),
                false => messages::error(1052, &[&"ALTER DATABASE", other, option]),
            });
        }
    }
    Ok(())
}

/// Which option it is, whatever its value: its kind, and its name where the kind has many.
fn identity(option: &DatabaseOption) -> (Discriminant<DatabaseOption>, String) {
    let name = match option {
        DatabaseOption::Other(item) => item.name.to_ascii_uppercase(),
        _ => String::new(),
    };
    (std::mem::discriminant(option), name)
}

/// The name of an option that this database of the system has as it is; the tables of the product's documentation about
/// master, model, msdb and tempdb say which.
fn fixed_in_system<'a>(entry: &DatabaseEntry, option: &'a DatabaseOption) -> Option<&'a str> {
    let of = |ids: &[DatabaseId]| ids.contains(&entry.id());
    let (name, is_fixed) = match option {
        DatabaseOption::DelayedDurability(_) => ("DELAYED_DURABILITY", of(&[MASTER, TEMPDB])),
        DatabaseOption::Recovery(_) => ("RECOVERY", of(&[TEMPDB])),
        DatabaseOption::ReadCommittedSnapshot(_) => {
            ("READ_COMMITTED_SNAPSHOT", of(&[MASTER, MSDB, TEMPDB]))
        }
        DatabaseOption::AllowSnapshotIsolation(_) => {
            ("ALLOW_SNAPSHOT_ISOLATION", of(&[MASTER, MSDB]))
        }
        DatabaseOption::ReadOnly(_) => ("READ_ONLY", entry.is_system()),
        DatabaseOption::UserAccess(_) => ("SINGLE_USER", entry.is_system()),
        DatabaseOption::State(_) => ("OFFLINE", entry.is_system()),
        DatabaseOption::Other(item) => {
            let is = |name: &str| item.name.eq_ignore_ascii_case(name);
            let is_fixed = is("TRUSTWORTHY") && of(&[MODEL, TEMPDB])
                || is("DB_CHAINING") && of(&[MASTER, MODEL, TEMPDB])
                || is("AUTO_CLOSE") && of(&[MASTER, TEMPDB])
                || is("AUTO_SHRINK") && of(&[MASTER, TEMPDB])
                || is("CHANGE_TRACKING") && entry.is_system()
                || is("ENCRYPTION") && entry.is_system();
            (item.name.as_str(), is_fixed)
        }
        _ => return None,
    };
    is_fixed.then_some(name)
}

/// Options that one replica of a group cannot have for itself.
fn changes_replicas(option: &DatabaseOption) -> bool {
    matches!(
        option,
        DatabaseOption::Recovery(_)
            | DatabaseOption::ReadOnly(_)
            | DatabaseOption::UserAccess(_)
            | DatabaseOption::State(_)
    )
}

/// Error 1468 while the database is one of a group.
pub(super) fn entry_alone(ex: &Execution<'_>, entry: &DatabaseEntry) -> Result<()> {
    let name = entry.name();
    match ex.instance().hadr.group_of_database(&name) {
        Some(_) => Err(messages::error(1468, &[&name])),
        None => Ok(()),
    }
}

fn set_option(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    option: &DatabaseOption,
    termination: Option<Termination>,
) -> Result<()> {
    match option {
        DatabaseOption::AcceleratedDatabaseRecovery {
            on,
            version_store_filegroup,
        } => {
            let group = version_store_filegroup.as_ref().map(|g| g.text.as_str());
            accelerated_recovery(ex, entry, *on, group, termination)
        }
        DatabaseOption::DelayedDurability(value) => delayed_durability(ex, entry, *value),
        DatabaseOption::Recovery(model) => recovery_model(ex, entry, *model),
        DatabaseOption::TargetRecoveryTime { seconds } => {
            with_settings(ex, entry, |s| s.target_recovery_seconds = *seconds)
        }
        DatabaseOption::ReadCommittedSnapshot(on) => {
            let _alone = exclusive(ex, entry, termination)?;
            with_settings(ex, entry, |s| s.read_committed_snapshot = *on)
        }
        DatabaseOption::AllowSnapshotIsolation(on) => {
            with_settings(ex, entry, |s| s.allow_snapshot = *on)
        }
        DatabaseOption::ReadOnly(on) => {
            let _alone = exclusive(ex, entry, termination)?;
            // Nobody can do it later.
            crate::instance::save_counters(&entry.open()?)?;
            with_settings(ex, entry, |s| s.read_only = *on)
        }
        DatabaseOption::CompatibilityLevel(level) => {
            edit(ex, entry, |def| def.compatibility_level = *level)
        }
        DatabaseOption::PageVerify(verify) => page_verify(ex, entry, *verify),
        DatabaseOption::UserAccess(access) => user_access(ex, entry, *access, termination),
        DatabaseOption::State(state) => set_state(ex, entry, *state, termination),
        DatabaseOption::Hadr(change) => crate::session::set_hadr(ex, entry, change),
        DatabaseOption::Other(item) => named_option(ex, entry, item),
    }
}

/// Options whose value is one of these words.
const WORDS: [(&str, [&str; 2]); 2] = [
    ("CURSOR_DEFAULT", ["LOCAL", "GLOBAL"]),
    ("PARAMETERIZATION", ["SIMPLE", "FORCED"]),
];

/// Options that are known by their names alone; those without effect are kept and shown.
fn named_option(ex: &Execution<'_>, entry: &DatabaseEntry, item: &ast::OptionItem) -> Result<()> {
    let is = |name: &str| item.name.eq_ignore_ascii_case(name);
    if is(DELAYED_MILLISECONDS) {
        let value = bound_value(item, MILLISECONDS)?;
        return with_settings(ex, entry, |s| s.delayed_milliseconds = value);
    }
    if is(DELAYED_KILOBYTES) {
        let value = bound_value(item, KILOBYTES)?;
        return with_settings(ex, entry, |s| s.delayed_kilobytes = value);
    }
    if is(VERSIONS_MAX) {
        let megabytes = version_store_limit(item)?;
        return with_settings(ex, entry, |s| s.version_store_megabytes = megabytes);
    }
    if is(OPTIMIZED_LOCKING) {
        return optimized_locking(ex, entry, item);
    }
    if switches_tuning_off(item) {
        return Ok(());
    }
    let value = word_value(item)?;
    edit(ex, entry, |def| {
        drop_value(def.options.insert(item.name.to_uppercase(), value))
    })
}

fn delayed_durability(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    value: ast::DelayedDurability,
) -> Result<()> {
    with_settings(ex, entry, |s| {
        s.delayed_durability = match value {
            ast::DelayedDurability::Disabled => storage::DelayedDurability::Disabled,
            ast::DelayedDurability::Allowed => storage::DelayedDurability::Allowed,
            ast::DelayedDurability::Forced => storage::DelayedDurability::Forced,
        };
    })
}

fn recovery_model(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    model: ast::RecoveryModel,
) -> Result<()> {
    with_settings(ex, entry, |s| {
        s.recovery_model = match model {
            ast::RecoveryModel::Full => storage::RecoveryModel::Full,
            ast::RecoveryModel::BulkLogged => storage::RecoveryModel::BulkLogged,
            ast::RecoveryModel::Simple => storage::RecoveryModel::Simple,
        };
    })
}

fn check_level(level: u32) -> Result<()> {
    match level {
        100 | 110 | 120 | 130 | 140 | 150 | 160 => Ok(()),
        _ => Err(SqlError::new(
            15048,
            16,
            1,
            "Valid values of the database compatibility level are 100, 110, 120, 130, 140, 150, or 160.",
        )),
    }
}

fn page_verify(ex: &Execution<'_>, entry: &DatabaseEntry, verify: ast::PageVerify) -> Result<()> {
    let text = match verify {
        ast::PageVerify::Checksum => "CHECKSUM",
        ast::PageVerify::TornPageDetection => "TORN_PAGE_DETECTION",
        ast::PageVerify::None => "NONE",
    };
    edit(ex, entry, |def| {
        drop_value(
            def.options
                .insert("PAGE_VERIFY".to_string(), text.to_string()),
        )
    })
}

fn not_settable(entry: &DatabaseEntry, option: &str) -> SqlError {
    messages::error(5058, &[&option, &entry.name()])
}

/// An option of CREATE DATABASE .. WITH: obeyed, or refused (40517).
pub(super) fn set_at_creation(def: &mut DatabaseDef, item: &ast::OptionItem) -> Result<()> {
    let is = |name: &str| item.name.eq_ignore_ascii_case(name);
    let value = option_value(&item.value).unwrap_or_else(|| "ON".to_string());
    let is_switch = ["ON", "OFF"].iter().any(|v| value.eq_ignore_ascii_case(v));
    let is_what_it_is = is("CATALOG_COLLATION") && value.eq_ignore_ascii_case("DATABASE_DEFAULT")
        || is("LEDGER") && value.eq_ignore_ascii_case("OFF");
    if is_what_it_is {
        return Ok(());
    }
    if !(is("TRUSTWORTHY") || is("DB_CHAINING")) || !is_switch {
        return Err(messages::not_supported(&item.name));
    }
    let name = item.name.to_uppercase();
    drop_value(def.options.insert(name, value.to_uppercase()));
    Ok(())
}

/// Options that promise what this server does not do; switching them off is what they are.
pub(super) fn refuse(item: &ast::OptionItem) -> Result<()> {
    let value = option_value(&item.value);
    match is_refused(&item.name, value.as_deref().unwrap_or("ON")) {
        true => Err(messages::not_supported(&item.name)),
        false => Ok(()),
    }
}

fn is_refused(name: &str, value: &str) -> bool {
    const REFUSED: [&str; 19] = [
        "AUTOMATIC_TUNING",
        "CHANGE_TRACKING",
        "CONTAINMENT",
        "DATA_RETENTION",
        "ENABLE_BROKER",
        "ENCRYPTION",
        "ERROR_BROKER_CONVERSATIONS",
        "FILESTREAM",
        "HONOR_BROKER_PRIORITY",
        "LEDGER",
        "NEW_BROKER",
        "NUMERIC_ROUNDABORT",
        "PARTNER",
        "QUERY_STORE",
        "REMOTE_DATA_ARCHIVE",
        "SUPPLEMENTAL_LOGGING",
        "SUSPEND_FOR_SNAPSHOT_BACKUP",
        "TEMPORAL_HISTORY_RETENTION",
        "WITNESS",
    ];
    // Of contained databases alone, whatever the value.
    const CONTAINED: [&str; 5] = [
        "DEFAULT_FULLTEXT_LANGUAGE",
        "DEFAULT_LANGUAGE",
        "NESTED_TRIGGERS",
        "TRANSFORM_NOISE_WORDS",
        "TWO_DIGIT_YEAR_CUTOFF",
    ];
    if CONTAINED.iter().any(|o| name.eq_ignore_ascii_case(o)) {
        return true;
    }
    // All literals of a plan are its own.
    if name.eq_ignore_ascii_case("PARAMETERIZATION") {
        return value.eq_ignore_ascii_case("FORCED");
    }
    let is_off = ["OFF", "NONE"]
        .iter()
        .any(|o| value.eq_ignore_ascii_case(o));
    REFUSED.iter().any(|r| name.eq_ignore_ascii_case(r)) && !is_off
}

/// `PARTNER`, `PARTNER SAFETY`, `WITNESS`.
fn is_mirroring(option: &str) -> bool {
    let first = option.split(' ').next().unwrap_or_default();
    first.eq_ignore_ascii_case("PARTNER") || first.eq_ignore_ascii_case("WITNESS")
}

/// Rows are locked through their transaction in any case; with row versions, those alone that qualify.
fn optimized_locking(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    item: &ast::OptionItem,
) -> Result<()> {
    let on = match option_value(&item.value).as_deref() {
        None | Some("ON") => true,
        Some("OFF") => false,
        Some(other) => return Err(messages::error(102, &[&other])),
    };
    if on && !entry.open()?.storage.settings().accelerated_recovery {
        return Err(messages::error(12133, &[]));
    }
    with_settings(ex, entry, |s| s.optimized_locking = on)
}

/// Megabytes; 0 for no limit.
fn version_store_limit(item: &ast::OptionItem) -> Result<u32> {
    let text = option_value(&item.value).unwrap_or_default();
    if text.eq_ignore_ascii_case("UNLIMITED") {
        return Ok(0);
    }
    let (amount, unit) = text.split_once(' ').unwrap_or((&text, "MB"));
    let factor: u32 = match unit.trim().to_ascii_uppercase().as_str() {
        "MB" => 1,
        "GB" => 1_024,
        "TB" => 1_048_576,
        _ => 0,
    };
    let megabytes = amount
        .parse::<u32>()
        .ok()
        .and_then(|n| n.checked_mul(factor));
    megabytes.filter(|n| *n > 0).ok_or_else(|| {
        let text = format!(
            "The value of option {VERSIONS_MAX} must be a size in MB, GB or TB from 1 MB on, or UNLIMITED."
        );
        SqlError::new(5057, 16, 1, text)
    })
}

fn bound_value(item: &ast::OptionItem, allowed: RangeInclusive<u32>) -> Result<u32> {
    option_value(&item.value)
        .and_then(|text| text.parse().ok())
        .filter(|value| allowed.contains(value))
        .ok_or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            let text = format!(
                "The value of option {} must be a whole number from {least} to {most}.",
                item.name
            );
            SqlError::new(5057, 16, 1, text)
        })
}

pub(super) fn option_value(value: &OptionValue) -> Option<String> {
    Some(match value {
        OptionValue::None => return None,
        OptionValue::On => "ON".to_string(),
        OptionValue::Off => "OFF".to_string(),
        OptionValue::Word(word) => word.clone(),
        OptionValue::Name(name) => name.text.clone(),
        OptionValue::Quantity { amount, unit } => format!("{amount} {unit}"),
        OptionValue::Expr(expr) => expr.to_string(),
        OptionValue::List(_) => "ON".to_string(),
        OptionValue::Qualified(inner, _) => return option_value(inner),
    })
}

fn with_settings(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    change: impl FnOnce(&mut Settings),
) -> Result<()> {
    let open = entry.open()?;
    let _changing = ex.begin_change(entry)?;
    let mut settings = open.storage.settings();
    change(&mut settings);
    Ok(open.storage.set_settings(settings)?)
}

fn accelerated_recovery(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    on: bool,
    filegroup: Option<&str>,
    termination: Option<Termination>,
) -> Result<()> {
    if entry.is_system() {
        return Err(messages::error(12122, &[]));
    }
    let def = entry.def();
    let group = match filegroup {
        None => def.version_store_filegroup,
        Some(name) => def
            .filegroup_named(name)
            .map(|g| g.id)
            .ok_or_else(|| messages::error(1921, &[&"filegroup", &name]))?,
    };
    if on && !can_hold_versions(&def, group) {
        return Err(messages::error(12129, &[&entry.name()]));
    }
    let settings = entry.open()?.storage.settings();
    if !on && settings.optimized_locking {
        return Err(messages::error(12134, &[]));
    }
    if on && settings.accelerated_recovery && group != def.version_store_filegroup {
        return Err(messages::error(12125, &[&entry.name()]));
    }
    let storage = entry.open()?.storage;
    if on && group != def.version_store_filegroup {
        // Versions that can be cleaned are cleaned first, so that the error is left for those still needed.
        while storage.clean_versions()? {
            ex.check_cancel()?;
        }
    }
    let store = storage.version_stats();
    if on && group != def.version_store_filegroup && (store.pages > 0 || store.aborted > 0) {
        return Err(messages::error(12120, &[&entry.name()]));
    }
    if settings.accelerated_recovery != on {
        // Transactions begun before go on as they began, so nobody has to leave, unless a termination clause says so.
        let _alone = match termination {
            Some(_) => Some(exclusive(ex, entry, termination)?),
            None => None,
        };
        with_settings(ex, entry, |s| {
            s.accelerated_recovery = on;
            s.version_store_filegroup = group;
        })?;
        let number = if on { 12123 } else { 12124 };
        ex.instance().log.write(
            &format!("spid{}", ex.spid()),
            &messages::error(number, &[&entry.id().0]).message,
        );
    }
    edit(ex, entry, |def| def.version_store_filegroup = group)
}

/// The version store needs pages: of a filegroup without files, or one that may not be written, it could get none.
fn can_hold_versions(def: &DatabaseDef, filegroup: u16) -> bool {
    let is_read_only = |g: &FilegroupDef| g.id == filegroup && g.read_only;
    def.files.iter().any(|f| f.filegroup == filegroup) && !def.filegroups.iter().any(is_read_only)
}

fn user_access(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    access: ast::UserAccess,
    termination: Option<Termination>,
) -> Result<()> {
    let access = match access {
        ast::UserAccess::Single => UserAccess::Single,
        ast::UserAccess::Restricted => UserAccess::Restricted,
        ast::UserAccess::Multi => UserAccess::Multi,
    };
    match access {
        UserAccess::Single | UserAccess::Restricted => {
            let _alone = exclusive(ex, entry, termination)?;
            edit(ex, entry, |def| def.user_access = access)
        }
        UserAccess::Multi => edit(ex, entry, |def| def.user_access = access),
    }
}

fn set_state(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    state: DatabaseState,
    termination: Option<Termination>,
) -> Result<()> {
    match state {
        DatabaseState::Offline => {
            if ex.current_database() == entry.id() {
                return Err(messages::error(5070, &[&entry.name()]));
            }
            check_not_restoring(entry)?;
            let (_alone, _claim) = alone_with_name(ex, entry, None, termination)?;
            check_not_restoring(entry)?;
            if let Some(open) = entry.take_open() {
                close_database(&open)?;
            }
            edit(ex, entry, |def| def.offline = true)
        }
        DatabaseState::Online => set_online(ex, entry, termination),
        DatabaseState::Emergency => Err(messages::not_supported("EMERGENCY")),
    }
}

/// Error 5052 while the database waits for a restore, 5004 when it stands by meanwhile.
fn check_not_restoring(entry: &DatabaseEntry) -> Result<()> {
    match entry.is_restoring() {
        _ if entry.is_standby() => Err(messages::error(5004, &[])),
        true => Err(messages::error(5052, &[&"ALTER DATABASE", &"Restoring"])),
        false => Ok(()),
    }
}

fn set_online(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    termination: Option<Termination>,
) -> Result<()> {
    if entry.open().is_ok() {
        return Ok(());
    }
    let may_be_online = || match restores_pages(entry) {
        true => Ok(()),
        false => check_not_restoring(entry),
    };
    may_be_online()?;
    // One whose log failed is recovered, as a start of the server would do it.
    let (alone, _claim) = match entry.held() {
        Some(_) => {
            let (alone, claim) = alone_with_name(ex, entry, None, termination)?;
            (Some(alone), claim)
        }
        None => {
            let claimed = ex.instance().claim_names(&[&entry.name()], &ex.patience());
            (None, claimed?)
        }
    };
    // Who had the name meanwhile may have dropped it, restored it, or brought it online.
    drop(ex.begin_change(entry)?);
    if entry.open().is_ok() {
        return Ok(());
    }
    entry.check_recovered()?;
    may_be_online()?;
    if alone.is_none() && entry.held().is_some() {
        return Err(messages::error(5061, &[&entry.name()]));
    }
    if let Some(suspect) = entry.take_open() {
        close_database(&suspect)?;
        entry.set_failed("its log failed".into());
    }
    let was_taken_back = take_back_pages(ex, entry)?;
    let opened = ex.instance().open_watched(&entry.def(), None);
    let (open, _) = opened.inspect_err(|error| {
        if was_taken_back {
            entry.set_failed(error.message.clone());
        }
    })?;
    entry.set_open(open);
    edit(ex, entry, |def| def.offline = false)
}
