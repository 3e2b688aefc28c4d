//! Report of a check: messages or one table of results, counts for each object and for the whole.

use super::super::dbcc::completed;
use super::super::define::send;
use super::options::Options;
use crate::error::{Result, SqlError};
use crate::instance::{DatabaseEntry, LAST_GOOD_CHECK};
use crate::messages;
use crate::session::{SuspectPage, SystemCall, note_suspects};
use daruma_base::{DatabaseId, PageId};
use daruma_storage::{Finding, FindingKind};
use std::time::Duration;

/// Results kept for WITH TABLERESULTS.
const RESULTS_MAX: usize = 10_000;

/// Place that an error is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub object: i32,
    pub index: i32,
    pub partition: u64,
    pub page: PageId,
    pub slot: usize,
}

/// Scope whose errors the last line counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Database,
    Nothing,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    allocation: u64,
    consistency: u64,
}

impl Counts {
    fn total(self) -> u64 {
        self.allocation + self.consistency
    }
}

pub(super) struct Report<'c, 'e, 'a> {
    call: &'c SystemCall<'e, 'a>,
    command: &'static str,
    pub options: Options,
    database: (u16, String),
    total: Counts,
    /// Of the object at hand.
    own: Counts,
    results: Vec<(SqlError, Place)>,
    /// Pages that could not be read: noted when everything is told and no lock of the check is held.
    suspects: Vec<SuspectPage>,
    started: Duration,
}

impl<'c, 'e, 'a> Report<'c, 'e, 'a> {
    /// The messages of one run of a check command over one database.
    pub fn new(
        call: &'c SystemCall<'e, 'a>,
        command: &'static str,
        options: Options,
        entry: &DatabaseEntry,
    ) -> Report<'c, 'e, 'a> {
        Report {
            call,
            command,
            options,
            database: (entry.id().0, entry.name()),
            total: Counts::default(),
            own: Counts::default(),
            results: Vec::new(),
            suspects: Vec::new(),
            started: call.execution.instance().env().clock.monotonic(),
        }
    }

    /// Id of the database that is checked.
    pub fn database_id(&self) -> u16 {
        self.database.0
    }

    /// A page that cannot be read is a suspect one.
    pub fn note_suspect(&mut self, finding: &Finding) {
        if let FindingKind::Unreadable { test, .. } = &finding.kind
            && self.suspects.len() < RESULTS_MAX
        {
            self.suspects.push(SuspectPage {
                page: finding.page,
                checksum: test == "checksum",
            });
        }
    }

    fn say(&mut self, message: SqlError, place: Place) -> Result<()> {
        match self.options.tableresults {
            false => self.call.message(message),
            true if self.results.len() < RESULTS_MAX => {
                self.results.push((message, place));
                Ok(())
            }
            true => Ok(()),
        }
    }

    fn inform(&mut self, message: SqlError, place: Place) -> Result<()> {
        match self.options.no_infomsgs {
            true => Ok(()),
            false => self.say(message, place),
        }
    }

    /// `DBCC results for 'name'.`
    pub fn heading(&mut self, name: &str) -> Result<()> {
        self.inform(messages::error(2536, &[&name]), Place::default())
    }

    /// An object begins: its errors are counted apart.
    pub fn begin(&mut self, name: &str) -> Result<()> {
        self.own = Counts::default();
        match self.command {
            "CHECKALLOC" => Ok(()),
            _ => self.heading(name),
        }
    }

    /// Tells and counts one error; its first message counts.
    pub fn error(
        &mut self,
        messages: Vec<SqlError>,
        place: Place,
        is_allocation: bool,
    ) -> Result<()> {
        if self.own.total() < self.options.errors_max() {
            for message in messages {
                self.say(message, place)?;
            }
        }
        for counts in [&mut self.own, &mut self.total] {
            match is_allocation {
                true => counts.allocation += 1,
                false => counts.consistency += 1,
            }
        }
        Ok(())
    }

    /// The object at hand is done.
    pub fn end(&mut self, name: &str, full_name: &str, id: i32, size: (u64, u64)) -> Result<()> {
        let place = Place {
            object: id,
            ..Place::default()
        };
        if self.command != "CHECKALLOC" {
            let (rows, pages) = size;
            self.inform(messages::error(2593, &[&rows, &pages, &name]), place)?;
        }
        if self.own.total() == 0 {
            return Ok(());
        }
        let (allocation, consistency) = (self.own.allocation, self.own.consistency);
        let command = self.command;
        let told = messages::error(
            8990,
            &[&command, &allocation, &consistency, &full_name, &id],
        );
        self.own = Counts::default();
        self.say(told, place)
    }

    /// Begins the part that belongs to no object.
    pub fn begin_rest(&mut self) {
        self.own = Counts::default();
    }

    /// Ends the errors that belong to no object (8954).
    pub fn end_rest(&mut self) -> Result<()> {
        if self.own.total() == 0 {
            return Ok(());
        }
        let (allocation, consistency) = (self.own.allocation, self.own.consistency);
        let command = self.command;
        let told = messages::error(8954, &[&command, &allocation, &consistency]);
        self.say(told, Place::default())
    }

    /// The last lines, the table of results, and the line in the error log.
    pub fn finish(mut self, subject: Subject) -> Result<i32> {
        let (allocation, consistency) = (self.total.allocation, self.total.consistency);
        let (command, name) = (self.command, self.database.1.clone());
        if subject == Subject::Database {
            let told = messages::error(8989, &[&command, &allocation, &consistency, &name]);
            match self.total.total() {
                0 => self.inform(told, Place::default())?,
                _ => self.say(told, Place::default())?,
            }
        }
        self.log(&name);
        note_suspects(
            self.call.execution.instance(),
            self.database.0,
            &self.suspects,
        );
        if self.options.tableresults {
            self.send_results()?;
        }
        let status = completed(self.call)?;
        // tempdb is another one after each start.
        let lasts = DatabaseId(self.database.0) != crate::instance::TEMPDB;
        if self.command == "CHECKDB" && self.total.total() == 0 && lasts {
            self.note_good();
        }
        Ok(status)
    }

    /// Notes when a check of the whole database found nothing. A check that cannot be noted is no worse: master may be full,
    /// or somebody may be waiting for this session to change the database.
    fn note_good(&self) {
        let instance = self.call.execution.instance();
        let Some(entry) = instance.database(DatabaseId(self.database.0)) else {
            return;
        };
        let now = instance.now_utc();
        let noted = instance.note_in_database(&entry, |def| {
            def.options.insert(LAST_GOOD_CHECK.into(), now.to_string());
        });
        if let Err(error) = noted {
            let name = &self.database.1;
            let text =
                format!("The time of the last good CHECKDB of '{name}' was not noted: {error}");
            let source = format!("spid{}", self.call.execution.spid());
            instance.log.write(&source, &text);
        }
    }

    fn log(&self, name: &str) {
        let execution = self.call.execution;
        let instance = execution.instance();
        let elapsed = instance.env().clock.monotonic();
        let seconds = elapsed.saturating_sub(self.started).as_secs();
        let login = &execution.login();
        let told = messages::error(
            8957,
            &[
                &self.command,
                &name,
                &login,
                &self.total.total(),
                &0,
                &(seconds / 3_600),
                &(seconds / 60 % 60),
                &(seconds % 60),
            ],
        );
        instance
            .log
            .write(&format!("spid{}", execution.spid()), &told.message);
    }

    fn send_results(&self) -> Result<()> {
        send(self.call, RESULTS, |_, rows| {
            for (message, place) in &self.results {
                rows.add()
                    .set("Error", message.number)
                    .set("Level", message.class)
                    .set("State", message.state)
                    .set("MessageText", message.message.clone())
                    .set("DbId", self.database.0)
                    .set("ObjectId", place.object)
                    .set("IndexId", place.index)
                    .set("PartitionId", place.partition)
                    .set("AllocUnitId", place.partition)
                    .set("File", place.page.file)
                    .set("Page", place.page.page)
                    .set("Slot", place.slot);
            }
            Ok(())
        })
    }
}

/// The product's columns, in its order.
const RESULTS: &str = "
    Error int; Level int; State int; MessageText nvarchar(2048); RepairLevel nvarchar(22)?; Status int = 0; DbId int;
    DbFragId int = 1; ObjectId int; IndexId int; PartitionId bigint; AllocUnitId bigint; RidDbId int = 0;
    RidPruId int = 0; File int; Page int; Slot int; RefDbId int = 0; RefPruId int = 0; RefFile int = 0; RefPage int = 0;
    RefSlot int = 0; Allocation int = 1";
