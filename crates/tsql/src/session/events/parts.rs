//! Events and targets of a session: names to definitions.

use crate::error::{Result, SqlError};
use crate::instance::events::check_event;
use crate::instance::events::words::{
    ACTIONS, ActionInfo, EVENTS, OTHER_ACTIONS, OTHER_ATTRIBUTES, OTHER_EVENTS, OTHER_TARGETS,
    TARGETS,
};
use crate::messages;
use daruma_catalog::{EventDef, EventSessionDef, EventSettingValue, EventTargetDef};
use daruma_syntax::ast::{
    EventName, EventSessionChange, EventSetting, EventSpec, EventTargetSpec, EventValue,
};

/// The module that the product's own events are of, when a name tells it.
const MODULE: &str = "ce79811f-1a80-40e1-8f5d-7445a3f375e7";
/// Longest predicate.
const PREDICATE_CHARS_MAX: usize = 3_000;

/// Adds or removes a part.
pub(super) fn apply(def: &mut EventSessionDef, change: &EventSessionChange) -> Result<()> {
    match change {
        EventSessionChange::AddEvent(spec) => {
            let event = new_event(def, spec)?;
            def.events.push(event);
        }
        EventSessionChange::AddTarget(spec) => {
            let target = new_target(def, spec)?;
            def.targets.push(target);
        }
        EventSessionChange::DropEvent(name) => {
            let before = def.events.len();
            def.events.retain(|e| !is(name, "sqlserver", &e.name));
            if def.events.len() == before {
                return Err(messages::error(25653, &[&"event", &plain(name)]));
            }
        }
        EventSessionChange::DropTarget(name) => {
            let before = def.targets.len();
            def.targets.retain(|t| !is(name, "package0", &t.name));
            if def.targets.len() == before {
                return Err(messages::error(25653, &[&"target", &plain(name)]));
            }
        }
    }
    Ok(())
}

/// The name without brackets, for messages.
fn plain(name: &EventName) -> String {
    match &name.package {
        Some(package) => format!("{}.{}", package.text, name.name.text),
        None => name.name.text.clone(),
    }
}

/// Is it this object of this package? A package is always told.
fn is(name: &EventName, package: &str, object: &str) -> bool {
    let of_module = name.module.as_ref();
    of_module.is_none_or(|m| m.text.eq_ignore_ascii_case(MODULE))
        && name
            .package
            .as_ref()
            .is_some_and(|p| p.text.eq_ignore_ascii_case(package))
        && name.name.text.eq_ignore_ascii_case(object)
}

/// What the product has and this server does not is refused by name; what neither has is not found.
fn missing(what: &str, name: &EventName, others: &[&str]) -> SqlError {
    let text = name.name.text.as_str();
    match others.iter().any(|o| o.eq_ignore_ascii_case(text)) {
        true => messages::not_supported(&plain(name)),
        false => messages::error(25623, &[&what, &plain(name)]),
    }
}

fn new_event(def: &EventSessionDef, spec: &EventSpec) -> Result<EventDef> {
    let found = EVENTS
        .iter()
        .find(|info| is(&spec.name, "sqlserver", info.name));
    let info = found.ok_or_else(|| missing("event", &spec.name, OTHER_EVENTS))?;
    if def.events.iter().any(|e| e.name == info.name) {
        return Err(messages::error(25625, &[&"event", &plain(&spec.name)]));
    }
    let attribute = info.optional.map(|(attribute, _)| attribute);
    let known = attribute.map(|a| (a, true));
    let settings = settings("event", &spec.name, &spec.settings, known.as_slice())?;
    for (name, value) in &settings {
        if !matches!(value, EventSettingValue::Number(0 | 1)) {
            let full = plain(&spec.name);
            return Err(messages::error(
                25641,
                &[&"event", &full, name, &"It is 0 or 1."],
            ));
        }
    }
    let predicate = spec.predicate.as_ref().map(ToString::to_string);
    if predicate
        .as_ref()
        .is_some_and(|p| p.chars().count() > PREDICATE_CHARS_MAX)
    {
        let full = plain(&spec.name);
        return Err(messages::error(25716, &[&full, &PREDICATE_CHARS_MAX]));
    }
    let event = EventDef {
        id: def.next_part(),
        name: info.name.to_string(),
        settings,
        actions: actions(&spec.actions)?,
        predicate,
    };
    check_event(&event)?;
    Ok(event)
}

fn actions(names: &[EventName]) -> Result<Vec<String>> {
    let mut actions: Vec<String> = Vec::new();
    for name in names {
        let fits = |info: &&ActionInfo| is(name, info.package, info.name);
        let info = ACTIONS.iter().find(fits);
        let info = info.ok_or_else(|| missing("action", name, OTHER_ACTIONS))?;
        if actions.iter().any(|known| known == info.name) {
            return Err(messages::error(25625, &[&"action", &plain(name)]));
        }
        actions.push(info.name.to_string());
    }
    Ok(actions)
}

fn new_target(def: &EventSessionDef, spec: &EventTargetSpec) -> Result<EventTargetDef> {
    let found = TARGETS
        .iter()
        .find(|info| is(&spec.name, "package0", info.name));
    let info = found.ok_or_else(|| missing("target", &spec.name, OTHER_TARGETS))?;
    if def.targets.iter().any(|t| t.name == info.name) {
        return Err(messages::error(25625, &[&"target", &plain(&spec.name)]));
    }
    Ok(EventTargetDef {
        id: def.next_part(),
        name: info.name.to_string(),
        settings: settings("target", &spec.name, &spec.settings, info.attributes)?,
    })
}

/// `known` are the attributes there are, and whether each is a number.
fn settings(
    what: &str,
    owner: &EventName,
    given: &[EventSetting],
    known: &[(&str, bool)],
) -> Result<Vec<(String, EventSettingValue)>> {
    let full = plain(owner);
    let mut settings: Vec<(String, EventSettingValue)> = Vec::new();
    for EventSetting { name, value } in given {
        let name = name.text.as_str();
        let Some((known, is_number)) = known.iter().find(|(k, _)| k.eq_ignore_ascii_case(name))
        else {
            return Err(
                match OTHER_ATTRIBUTES
                    .iter()
                    .any(|o| o.eq_ignore_ascii_case(name))
                {
                    true => messages::not_supported(name),
                    false => messages::error(25629, &[&what, &full, &name]),
                },
            );
        };
        if settings.iter().any(|(other, _)| other == known) {
            return Err(messages::error(25650, &[&what, &full, &name]));
        }
        let value = match (value, is_number) {
            (EventValue::Number(digits), true) => {
                digits.parse().ok().map(EventSettingValue::Number)
            }
            (EventValue::Text(text), false) => Some(EventSettingValue::Text(text.clone())),
            _ => None,
        };
        let wanted = if *is_number {
            "uint64"
        } else {
            "unicode_string_ptr"
        };
        let mismatch = || messages::error(25651, &[&what, &full, &name, &wanted]);
        settings.push((known.to_string(), value.ok_or_else(mismatch)?));
    }
    Ok(settings)
}
