//! WITH of an event session.

use crate::error::{Result, SqlError};
use crate::messages;
use daruma_catalog::EventSessionDef;
use daruma_syntax::ast::{Expr, Literal, OptionItem, OptionValue};

/// Memory of a session, in KB.
const MEMORY_KB_MIN: u32 = 32;
const MEMORY_KB_MAX: u32 = 256 << 10;

/// Error 25707 for what only a session that does not run may change.
pub(super) fn check_running(options: &[OptionItem]) -> Result<()> {
    match options.iter().find(|o| !o.is("STARTUP_STATE")) {
        Some(option) => Err(messages::error(25707, &[&option.name])),
        None => Ok(()),
    }
}

/// Changes a definition. Errors 102 and 25702 (names), 25703 (values), 25632, 25633 and 25640 (sizes).
pub(super) fn apply(def: &mut EventSessionDef, options: &[OptionItem]) -> Result<()> {
    for (at, option) in options.iter().enumerate() {
        let before = options.get(..at).unwrap_or_default();
        if before.iter().any(|o| o.is(&option.name)) {
            return Err(messages::error(25702, &[&option.name]));
        }
        apply_one(def, option)?;
    }
    match def.max_event_kb != 0 && def.max_event_kb < def.max_memory_kb {
        true => Err(messages::error(25640, &[])),
        false => Ok(()),
    }
}

fn apply_one(def: &mut EventSessionDef, option: &OptionItem) -> Result<()> {
    let bad = || messages::error(25703, &[&option.name]);
    let unsupported = |value: &str| {
        let what = format!("{} = {}", option.name, value.to_uppercase());
        Err(messages::not_supported(&what))
    };
    let word = match &option.value {
        OptionValue::Word(word) => word.to_uppercase(),
        _ => String::new(),
    };
    match option.name.to_uppercase().as_str() {
        "MAX_MEMORY" => match kilobytes(option)? {
            ..MEMORY_KB_MIN => return Err(messages::error(25632, &[])),
            kb if kb > MEMORY_KB_MAX => return Err(messages::error(25633, &[])),
            kb => def.max_memory_kb = kb,
        },
        "MAX_EVENT_SIZE" => match kilobytes(option)? {
            kb if kb > MEMORY_KB_MAX => return Err(messages::error(25633, &[])),
            kb => def.max_event_kb = kb,
        },
        "EVENT_RETENTION_MODE" => match word.as_str() {
            "ALLOW_SINGLE_EVENT_LOSS" => def.loses_several = false,
            "ALLOW_MULTIPLE_EVENT_LOSS" => def.loses_several = true,
            "NO_EVENT_LOSS" => return unsupported(&word),
            _ => return Err(bad()),
        },
        "MAX_DISPATCH_LATENCY" => {
            def.dispatch_latency_s = match &option.value {
                OptionValue::Quantity { amount, unit } if unit == "SECONDS" => {
                    amount.parse().map_err(|_| bad())?
                }
                OptionValue::Word(_) if word == "INFINITE" => 0,
                _ => return Err(bad()),
            }
        }
        "MEMORY_PARTITION_MODE" => match word.as_str() {
            "NONE" => {}
            "PER_NODE" | "PER_CPU" => return unsupported(&word),
            _ => return Err(bad()),
        },
        "MAX_DURATION" => match word.as_str() {
            "UNLIMITED" => {}
            _ => return unsupported("a time"),
        },
        "TRACK_CAUSALITY" => match option.value {
            OptionValue::Off => {}
            OptionValue::On => return unsupported("ON"),
            _ => return Err(bad()),
        },
        "STARTUP_STATE" => match option.value {
            OptionValue::On => def.starts_with_server = true,
            OptionValue::Off => def.starts_with_server = false,
            _ => return Err(bad()),
        },
        other => return Err(messages::error(102, &[&other])),
    }
    Ok(())
}

fn kilobytes(option: &OptionItem) -> Result<u32> {
    let bad = || -> SqlError { messages::error(25703, &[&option.name]) };
    let (amount, factor) = match &option.value {
        OptionValue::Quantity { amount, unit } if unit == "KB" => (amount, 1),
        OptionValue::Quantity { amount, unit } if unit == "MB" => (amount, 1_024),
        OptionValue::Expr(Expr::Literal(Literal::Integer(amount))) => (amount, 1),
        _ => return Err(bad()),
    };
    let amount: u32 = amount.parse().map_err(|_| bad())?;
    Ok(amount.saturating_mul(factor))
}
