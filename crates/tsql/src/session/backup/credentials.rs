//! CREATE, ALTER and DROP CREDENTIAL: names and secrets for backup devices in object storage.
//!
//! They are kept with master's own definition, the secrets encrypted with the service master key.

use crate::error::Result;
use crate::instance::{DatabaseEntry, Instance, MASTER, MasterKey};
use crate::messages;
use crate::session::Execution;
use crate::session::login_options::option_text;
use daruma_backup::Credential;
use daruma_catalog::{DatabaseDef, names_equal};
use daruma_syntax::ast::OptionItem;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const PREFIX: &str = "DARUMA CREDENTIAL ";

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub id: i32,
    pub name: String,
    pub identity: String,
    /// Encrypted for this name.
    secret: String,
    pub created_utc: i64,
    pub modified_utc: i64,
}

/// All credentials of the server, by name.
pub(crate) fn all(instance: &Instance) -> Vec<Stored> {
    let master = instance.database(MASTER);
    master.map_or_else(Vec::new, |master| kept_in(&master.def()))
}

fn kept_in(def: &DatabaseDef) -> Vec<Stored> {
    let texts = def
        .options
        .iter()
        .filter(|(key, _)| key.starts_with(PREFIX));
    texts
        .filter_map(|(_, text)| serde_json::from_str(text).ok())
        .collect()
}

fn named(all: Vec<Stored>, name: &str) -> Option<Stored> {
    all.into_iter().find(|c| names_equal(&c.name, name))
}

fn key_of(name: &str) -> String {
    format!("{PREFIX}{}", name.to_lowercase())
}

/// Errors 15247 and 15151 without the right to make, change or drop credentials.
pub(crate) fn check_right(ex: &Execution<'_>, verb: &str, name: &str) -> Result<()> {
    match ex.state.server_rights().has("ALTER ANY CREDENTIAL") {
        true => Ok(()),
        false if verb == "create" => Err(messages::error(15247, &[])),
        false => Err(messages::error(15151, &[&verb, &"credential", &name])),
    }
}

pub(crate) fn put(
    ex: &Execution<'_>,
    alter: bool,
    name: &str,
    options: &[OptionItem],
) -> Result<()> {
    let instance = ex.instance();
    let master = master(ex)?;
    ex.change_database(&master, |def| {
        check_right(ex, if alter { "alter" } else { "create" }, name)?;
        let all = kept_in(def);
        let next_id = all.iter().map(|c| c.id).max().unwrap_or(65_535) + 1;
        let before = named(all, name);
        match (&before, alter) {
            (None, true) => {
                return Err(messages::error(15151, &[&"alter", &"credential", &name]));
            }
            (Some(_), false) => return Err(messages::error(15028, &[&name])),
            _ => {}
        }
        let now = instance.now_utc();
        let secret = option_text(options, "SECRET").unwrap_or_default();
        let key = MasterKey::load_or_create(instance.env(), instance.data_dir())?;
        let stored = Stored {
            id: before.as_ref().map_or(next_id, |b| b.id),
            name: name.to_string(),
            identity: option_text(options, "IDENTITY").unwrap_or_default(),
            secret: key.seal(instance.env().random.as_ref(), &owner(name), &secret)?,
            created_utc: before.map_or(now, |b| b.created_utc),
            modified_utc: now,
        };
        let text = serde_json::to_string(&stored).unwrap_or_default();
        def.options.insert(key_of(name), text);
        Ok(())
    })
}

pub(crate) fn remove(ex: &Execution<'_>, name: &str) -> Result<()> {
    let master = master(ex)?;
    ex.change_database(&master, |def| {
        check_right(ex, "drop", name)?;
        match def.options.remove(&key_of(name)) {
            Some(_) => Ok(()),
            None => Err(messages::error(15151, &[&"drop", &"credential", &name])),
        }
    })
}

fn master(ex: &Execution<'_>) -> Result<Arc<DatabaseEntry>> {
    let master = ex.instance().database(MASTER);
    master.ok_or_else(|| messages::error(911, &[&"master"]))
}

/// The credential for a URL: the one that is named, or the one whose name the URL begins with, the longest of them.
pub(super) fn for_url(
    ex: &Execution<'_>,
    url: &str,
    name: Option<&str>,
) -> Result<Option<Credential>> {
    let found = match name {
        // Its name says which URLs it is for. Sent elsewhere it would be given away.
        Some(name)
            if !is_prefix(name, url) && !ex.state.server_rights().has("ALTER ANY CREDENTIAL") =>
        {
            return Err(messages::error(15151, &[&"find", &"credential", &name]));
        }
        Some(name) => named(all(ex.instance()), name),
        None => longest(ex.instance(), url),
    };
    let opened = found.map(|c| open(ex.instance(), c));
    opened.transpose()
}

/// The credential for a URL that the server itself uses: the one whose name the URL begins with, the longest of them.
pub fn server_credential(instance: &Instance, url: &str) -> Result<Option<Credential>> {
    let found = longest(instance, url).map(|c| open(instance, c));
    found.transpose()
}

fn longest(instance: &Instance, url: &str) -> Option<Stored> {
    let fitting = all(instance).into_iter();
    let fitting = fitting.filter(|c| is_prefix(&c.name, url));
    fitting.max_by_key(|c| c.name.len())
}

fn open(instance: &Instance, stored: Stored) -> Result<Credential> {
    let key = MasterKey::load(instance.env(), instance.data_dir())?;
    Ok(Credential {
        secret: key.open(&owner(&stored.name), &stored.secret)?,
        identity: stored.identity,
    })
}

/// The row for which a secret is encrypted.
fn owner(name: &str) -> String {
    format!("credential {}", name.to_lowercase())
}

/// Whole path elements only: `s3://h/bucket` is no prefix of `s3://h/bucket2/x`.
fn is_prefix(name: &str, url: &str) -> bool {
    let name = name.trim_end_matches('/');
    url.get(..name.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(name))
        && url[name.len()..].starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::is_prefix;

    #[test]
    fn a_name_fits_whole_elements_of_a_url() {
        assert!(is_prefix("s3://h/bucket", "s3://h/bucket/x.bak"));
        assert!(is_prefix("S3://h/bucket/", "s3://h/bucket/x.bak"));
        assert!(!is_prefix("s3://h/bucket", "s3://h/bucket2/x.bak"));
        assert!(!is_prefix("s3://h/bucket/x.bak", "s3://h/bucket"));
    }
}
