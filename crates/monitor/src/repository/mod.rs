//! The repository: what the monitor saw, as tables of a database on a server.
//!
//! | module | what it is |
//! |---|---|
//! | [`schema`] | tables, procedures |
//! | [`levels`] | seconds to days, and which of them a range is read from |
//! | [`rollup`] | ticks gathered into coarser rows |
//! | [`store`] | the thread that writes samples |
//! | [`read`] | ranges, statements, events, blocking as they were |
//! | [`keep`] | baselines, rules, settings: what people make |
//! | [`purge`] | old samples go |
//!
//! Theory: known over TDS alone, like the servers that are watched. A few connections are shared by whoever reads; the writer and
//! the purge have their own.

pub mod keep;
pub mod levels;
pub mod purge;
pub mod read;
pub mod rollup;
pub mod schema;
pub mod store;

use daruma_client::client::{Client, ClientError, Options};
use parking_lot::Mutex;
use std::time::Duration;

/// Connections that are kept for the next reader.
const POOL_MAX: usize = 4;
/// Longest question of a page.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

/// A way to the repository's server.
#[derive(Debug)]
pub struct Repository {
    options: Options,
    pool: Mutex<Vec<Idle>>,
}

struct Idle(Client);

impl std::fmt::Debug for Idle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Idle")
    }
}

impl Repository {
    /// With these options to connect; makes what is missing of the database.
    pub fn open(options: &Options) -> Result<Repository, ClientError> {
        let options = Options {
            app_name: crate::sampler::APPLICATION.into(),
            query_timeout: Some(QUERY_TIMEOUT),
            ..options.clone()
        };
        let mut client = Client::connect(&Options {
            query_timeout: None,
            ..options.clone()
        })?;
        schema::create(&mut client)?;
        Ok(Repository {
            options: Options {
                database: schema::DATABASE.into(),
                ..options
            },
            pool: Mutex::default(),
        })
    }

    /// A connection of one's own.
    pub fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.options)
    }

    /// Options with which somebody else may try to log in here.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Does something over a shared connection; one that broke is not used again.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let idle = self.pool.lock().pop();
        let mut client = match idle {
            Some(Idle(client)) => client,
            None => self.connect()?,
        };
        let done = work(&mut client);
        let broken = done.as_ref().is_err_and(ClientError::is_fatal);
        let mut pool = self.pool.lock();
        if !broken && pool.len() < POOL_MAX {
            pool.push(Idle(client));
        } else if broken {
            // The others are of the same server, which has likely gone.
            pool.clear();
        }
        done
    }

    /// All rows of a question.
    pub fn query(&self, text: &str) -> Result<Vec<Vec<daruma_value::Value>>, ClientError> {
        match self.with(|client| client.query(text)) {
            // A connection that was kept may have ended meanwhile: a fresh one decides.
            Err(error) if error.is_fatal() => self.with(|client| client.query(text)),
            other => other,
        }
    }

    /// Runs a change. It is not tried again: it may have happened.
    pub fn execute(&self, text: &str) -> Result<(), ClientError> {
        self.with(|client| client.execute(text))
    }
}
