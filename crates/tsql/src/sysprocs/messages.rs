//! sp_addmessage, sp_altermessage and sp_dropmessage: messages of users beside those of the server.
//!
//! They are rows of master, changed in the caller's transaction. A session that changes one holds its lock until then, so that two who add
//! languages to the same message do not lose each other's.

use super::define::{Procedure, integer};
use crate::error::Result;
use crate::host::Host;
use crate::instance::MASTER;
use crate::messages;
use crate::session::{ENGLISH, SystemCall, message_language};
use daruma_catalog::{Change, MessageDef, MessageSet, Put};

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native(
        "sp_addmessage",
        "@msgnum int = NULL; @severity smallint = NULL; @msgtext nvarchar(255) = NULL; @lang sysname = NULL;
         @with_log varchar(5) = FALSE; @replace varchar(7) = NULL",
        add,
    ),
    Procedure::native(
        "sp_altermessage",
        "@message_id int = NULL; @parameter sysname = NULL; @parameter_value varchar(5) = NULL",
        alter,
    ),
    Procedure::native(
        "sp_dropmessage",
        "@msgnum int = NULL; @lang sysname = NULL",
        remove,
    ),
];

/// Messages of users have numbers above this one.
const LAST_OF_SERVER: i64 = 50_000;
/// Every session has the messages in memory, in the catalog of master.
const MESSAGES_MAX: usize = 50_000;

fn add(call: &SystemCall<'_, '_>) -> Result<i32> {
    let (Some(number), Some(severity), Some(text)) =
        (integer(call, 0), integer(call, 1), call.text(2))
    else {
        return Err(messages::error(15071, &[]));
    };
    let number = user_number(number).ok_or_else(|| messages::error(15040, &[]))?;
    let severity = u8::try_from(severity).ok().filter(|s| (1..=25).contains(s));
    let severity = severity.ok_or_else(|| messages::error(15041, &[]))?;
    let (language, name) = language(call, 3)?;
    let is_logged = match call.text(4) {
        None => false,
        Some(text) => flag(&text).ok_or_else(|| messages::error(15271, &[]))?,
    };
    if is_logged && !call.execution.state.server_rights().has("CONTROL SERVER") {
        return Err(messages::error(15247, &[]));
    }
    if is_logged && language != ENGLISH {
        call.message(messages::error(15042, &[]))?;
    }
    let replaces = call.text(5);
    let wants_replace = |text: &String| text.eq_ignore_ascii_case("replace");
    if replaces.as_ref().is_some_and(|text| !wants_replace(text)) {
        return Err(messages::error(15043, &[]));
    }
    let new = MessageDef {
        language,
        severity,
        is_logged,
        text,
    };
    change(call, number, |list| {
        let known = list.iter().any(|m| m.language == language);
        if known && replaces.is_none() {
            return Err(messages::error(15043, &[]));
        }
        put(list, new, &name)
    })
}

/// Severity and logging are the same in all languages: those of us_english.
fn put(list: &mut Vec<MessageDef>, mut new: MessageDef, name: &str) -> Result<()> {
    if new.language == ENGLISH {
        for other in list.iter_mut() {
            (other.severity, other.is_logged) = (new.severity, new.is_logged);
        }
    } else {
        let english = list.iter().find(|m| m.language == ENGLISH);
        let english = english.ok_or_else(|| messages::error(15279, &[&name]))?;
        if english.severity != new.severity {
            return Err(messages::error(15304, &[&name, &english.severity]));
        }
        new.is_logged = english.is_logged;
    }
    list.retain(|m| m.language != new.language);
    list.push(new);
    list.sort_by_key(|m| m.language);
    Ok(())
}

fn alter(call: &SystemCall<'_, '_>) -> Result<i32> {
    let parameter = call.text(1).unwrap_or_default();
    if !parameter.eq_ignore_ascii_case("WITH_LOG") {
        return Err(messages::error(15176, &[]));
    }
    let value = call.text(2).and_then(|text| flag(&text));
    let value = value.ok_or_else(|| messages::error(15277, &[]))?;
    let Some(number) = integer(call, 0) else {
        return Err(messages::error_state(290, 2, &[&"ErrorMessage", &"Lock"]));
    };
    let Some(user) = user_number(number) else {
        return match i32::try_from(number).ok().and_then(messages::find) {
            Some(_) => Err(messages::not_supported(
                "sp_altermessage of a message of the server",
            )),
            None => Err(messages::error(15179, &[&number])),
        };
    };
    change(call, user, |list| {
        if list.is_empty() {
            return Err(messages::error(15179, &[&user]));
        }
        list.iter_mut().for_each(|m| m.is_logged = value);
        Ok(())
    })
}

fn remove(call: &SystemCall<'_, '_>) -> Result<i32> {
    let number = integer(call, 0).ok_or_else(|| messages::error(15177, &[]))?;
    let number = user_number(number).ok_or_else(|| messages::error(15178, &[]))?;
    let all = call
        .text(1)
        .is_some_and(|lang| lang.eq_ignore_ascii_case("all"));
    let language = match all {
        true => None,
        false => Some(language(call, 1)?.0),
    };
    change(call, number, |list| {
        let before = list.len();
        match language {
            None => list.clear(),
            Some(ENGLISH) if before > 1 => return Err(messages::error(15280, &[])),
            Some(language) => list.retain(|m| m.language != language),
        }
        match list.len() == before {
            true => Err(messages::error(15179, &[&number])),
            false => Ok(()),
        }
    })
}

fn user_number(number: i64) -> Option<i32> {
    i32::try_from(number)
        .ok()
        .filter(|_| number > LAST_OF_SERVER)
}

fn flag(text: &str) -> Option<bool> {
    match text.trim_end().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The language of an argument and its name; without one, the session's.
fn language(call: &SystemCall<'_, '_>, index: usize) -> Result<(i16, String)> {
    let session = || call.execution.state.settings.borrow().language.to_string();
    let name = call.text(index).unwrap_or_else(session);
    match message_language(&name) {
        Some(id) => Ok((id, name)),
        None => Err(messages::error(15033, &[&name])),
    }
}

/// Changes the list of one message's languages.
fn change(
    call: &SystemCall<'_, '_>,
    number: i32,
    work: impl FnOnce(&mut Vec<MessageDef>) -> Result<()>,
) -> Result<i32> {
    let ex = call.execution;
    ex.atomic(|| {
        let open = ex.instance().open_database(MASTER)?;
        // No object has a number that is negative.
        ex.lock_schema(&open.storage, -number)?;
        let catalog = ex.catalog(MASTER)?;
        let known = catalog.message(number);
        if known.is_none() && catalog.messages().len() >= MESSAGES_MAX {
            return Err(messages::not_supported("more than 50000 messages of users"));
        }
        let mut list = known.map_or(Vec::new(), |set| set.list.clone());
        work(&mut list)?;
        let set = MessageSet { number, list };
        ex.state
            .change(MASTER, Change::PutMessages(Put::of(known, set)))
    })?;
    Ok(0)
}
