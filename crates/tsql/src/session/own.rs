//! Batches that the server runs for itself.

use super::Session;
use crate::error::{Result, SqlError};
use crate::instance::{Instance, LoginInfo};
use crate::sink::{Done, EnvChange, OutputColumn, Sink};
use daruma_value::Value;
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
    let mut sink = Errors(None);
    session.execute_batch(batch, &mut sink);
    session.close();
    sink.0.map_or(Ok(()), Err)
}

/// Keeps the first error and nothing else.
struct Errors(Option<SqlError>);

impl Sink for Errors {
    fn columns(&mut self, _: &[OutputColumn]) -> Result<()> {
        Ok(())
    }
    fn row(&mut self, _: &[Value]) -> Result<()> {
        Ok(())
    }
    fn done(&mut self, _: Done) -> Result<()> {
        Ok(())
    }
    fn message(&mut self, message: &SqlError) -> Result<()> {
        if message.class > 10 {
            self.0.get_or_insert_with(|| message.clone());
        }
        Ok(())
    }
    fn env_change(&mut self, _: EnvChange) -> Result<()> {
        Ok(())
    }
    fn return_status(&mut self, _: i32) -> Result<()> {
        Ok(())
    }
    fn return_value(&mut self, _: u16, _: &str, _: &OutputColumn, _: &Value) -> Result<()> {
        Ok(())
    }
    fn function_value(&mut self, _: &OutputColumn, _: &Value) -> Result<()> {
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
