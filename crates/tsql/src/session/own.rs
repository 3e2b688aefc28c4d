//! Batches that the server runs for itself.

use super::Session;
use super::settings::initial_of_client;
use crate::error::Result;
use crate::instance::{Instance, LoginInfo};
use crate::sink::Discard;
use std::sync::Arc;

/// Runs a batch in a database, by a session of its own that is the administrator's. Rows go nowhere; the first error is the result.
pub fn run_as_administrator(instance: &Arc<Instance>, database: &str, batch: &str) -> Result<()> {
    // The administrator may have another name by now.
    let administrator = instance.logins.administrator();
    let login = LoginInfo {
        login: administrator.map_or("sa".to_string(), |sa| sa.name.clone()),
        program: "Daruma".to_string(),
        database: database.to_string(),
        ansi_defaults: true,
        ..LoginInfo::default()
    };
    let mut session = Session::new(instance, login)?;
    // `user options` are about clients; these batches are written for none.
    let own = initial_of_client(&session.state.entry.login);
    session.state.settings.replace(own);
    session.state.is_own.set(true);
    let mut sink = Discard::default();
    session.execute_batch(batch, &mut sink);
    session.close();
    sink.first_error.map_or(Ok(()), Err)
}
