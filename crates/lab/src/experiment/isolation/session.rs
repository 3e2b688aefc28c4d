//! Sessions that run random transactions over TDS and record what they did and saw.

use super::super::random::Random;
use super::anomaly::Level;
use super::history::{Access, Key, Kind, Outcome, Statement, Transaction, Value};
use crate::sql::{Ask, connect_to};
use daruma_client::client::{Client, ClientError, Options};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// Keys of each kind: few, so that sessions meet.
pub const KEYS: u64 = 4;
const STATEMENTS_MAX: u64 = 6;
/// One transaction in so many is rolled back on purpose.
const ROLLBACK_EVERY: u64 = 6;

/// How the tables of a round are stored; each way takes other locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Clustered,
    HeapWithIndex,
    Heap,
}

impl Shape {
    /// The shapes of tables that runs take turns with.
    pub const ALL: [Shape; 3] = [Shape::Clustered, Shape::HeapWithIndex, Shape::Heap];

    fn key(self, columns: &str) -> String {
        match self {
            Shape::Clustered => format!(", PRIMARY KEY CLUSTERED ({columns})"),
            Shape::HeapWithIndex => format!(", PRIMARY KEY NONCLUSTERED ({columns})"),
            Shape::Heap => String::new(),
        }
    }
}

/// Empty sets, lists and registers.
pub fn create_tables(client: &mut Client, shape: Shape) -> Result<(), ClientError> {
    let (by_number, by_place) = (shape.key("k"), shape.key("k, place, v"));
    client.execute(&format!(
        "DROP TABLE IF EXISTS dbo.lists, dbo.registers, dbo.members; \
         CREATE TABLE dbo.lists (k int NOT NULL, v varchar(max) NOT NULL{by_number}); \
         CREATE TABLE dbo.registers (k int NOT NULL, v bigint NOT NULL{by_number}); \
         CREATE TABLE dbo.members (k int NOT NULL, place int NOT NULL, v bigint NOT NULL{by_place})"
    ))?;
    for k in 0..KEYS {
        client.execute(&format!(
            "INSERT dbo.lists VALUES ({k}, ''); INSERT dbo.registers VALUES ({k}, 0)"
        ))?;
    }
    Ok(())
}

/// What all keys hold.
pub fn last_state(client: &mut Client) -> Result<Vec<(Key, Vec<Value>)>, ClientError> {
    let mut state = Vec::new();
    for kind in [Kind::List, Kind::Register, Kind::Set] {
        for number in 0..KEYS {
            let key = Key { kind, number };
            state.push((key, read(client, key)?));
        }
    }
    Ok(state)
}

/// What the sessions of a round share.
#[derive(Debug, Default)]
pub struct Shared {
    pub clock: AtomicU64,
    pub last_value: AtomicU64,
    pub stop: AtomicBool,
    /// Errors that the server should not have sent.
    pub surprises: Mutex<Vec<String>>,
    /// Deadlock victims and update conflicts.
    pub refused: AtomicU64,
}

impl Shared {
    fn stamp(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, error: &ClientError) {
        let Some(message) = error.server_message() else {
            return;
        };
        // 1205 deadlock victim, 3960 update conflict, 3961 a definition changed since the snapshot: the server took the
        // transaction back.
        if matches!(message.number, 1205 | 3960 | 3961) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if let Ok(mut surprises) = self.surprises.lock() {
            surprises.push(format!("error {}: {}", message.number, message.text));
        }
    }
}

/// One connection with the transactions it has run.
pub struct Session<'a> {
    client: Client,
    random: Random,
    shared: &'a Shared,
    recorded: Vec<Transaction>,
    /// The write of a statement that has not ended well.
    attempted: Option<Access>,
}

/// Runs `count` transactions, or as many as the connection stands; each is announced when it is over.
pub fn work(
    target: &Options,
    level: Level,
    seed: u64,
    count: u64,
    shared: &Shared,
    over: &Sender<()>,
) -> Result<Vec<Transaction>, ClientError> {
    let mut client = connect_to(target, &target.database)?;
    let option = level.option();
    client.execute(&format!(
        "SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL {option}"
    ))?;
    let random = Random::new(seed);
    let mut session = Session {
        client,
        random,
        shared,
        recorded: Vec::new(),
        attempted: None,
    };
    for _ in 0..count {
        if shared.stop.load(Ordering::Relaxed) || session.transaction().is_err() {
            break;
        }
        // Nobody listens any more once the server was killed.
        let _ = over.send(());
    }
    Ok(session.recorded)
}

impl Session<'_> {
    /// An error is the end of the connection.
    fn transaction(&mut self) -> Result<(), ClientError> {
        let begin = self.shared.stamp();
        let mut statements = Vec::new();
        let done = self.run(&mut statements);
        let end = self.shared.stamp();
        let (outcome, result) = match done {
            Ok(outcome) => (outcome, Ok(())),
            Err((outcome, error)) => (outcome, Err(error)),
        };
        self.recorded.push(Transaction {
            begin,
            end,
            outcome,
            statements,
        });
        result
    }

    fn run(&mut self, statements: &mut Vec<Statement>) -> Result<Outcome, (Outcome, ClientError)> {
        let aborted = |error| (Outcome::Aborted, error);
        self.client.execute("BEGIN TRANSACTION").map_err(aborted)?;
        for _ in 0..1 + self.random.below(STATEMENTS_MAX) {
            match self.statement() {
                Ok(statement) => statements.push(statement),
                Err(error) => {
                    self.shared.note(&error);
                    // It may have shown its write to READ UNCOMMITTED before it failed.
                    statements.extend(self.attempted.take().map(|write| vec![write]));
                    return self.take_back().map_err(aborted);
                }
            }
        }
        if self.random.below(ROLLBACK_EVERY) == 0 {
            return self.take_back().map_err(aborted);
        }
        match self.client.execute("COMMIT") {
            Ok(()) => Ok(Outcome::Committed),
            Err(error) => {
                self.shared.note(&error);
                Err((Outcome::InDoubt, error))
            }
        }
    }

    fn take_back(&mut self) -> Result<Outcome, ClientError> {
        self.client.execute("IF @@TRANCOUNT > 0 ROLLBACK")?;
        Ok(Outcome::Aborted)
    }

    fn statement(&mut self) -> Result<Statement, ClientError> {
        match self.random.below(8) {
            0 => self.write(Kind::List),
            1 | 2 => self.write(Kind::Register),
            3 => self.write(Kind::Set),
            4 => self.read_one(Kind::List),
            5 => self.read_one(Kind::Register),
            6 => self.read_one(Kind::Set),
            _ => self.read_registers(),
        }
    }

    fn write(&mut self, kind: Kind) -> Result<Statement, ClientError> {
        let number = self.random.below(KEYS);
        let value = 1 + self.shared.last_value.fetch_add(1, Ordering::Relaxed);
        let text = match kind {
            Kind::List => format!("UPDATE dbo.lists SET v = v + '{value},' WHERE k = {number}"),
            Kind::Register => {
                format!("UPDATE dbo.registers SET v = {value} OUTPUT deleted.v WHERE k = {number}")
            }
            Kind::Set => {
                let place = self.random.below(100);
                format!("INSERT dbo.members VALUES ({number}, {place}, {value})")
            }
        };
        let key = Key { kind, number };
        let write = |before| Access::Write { key, value, before };
        self.attempted = Some(write(None));
        let replaced = self.client.text(&text)?;
        self.attempted = None;
        Ok(vec![write(replaced.parse().ok())])
    }

    fn read_one(&mut self, kind: Kind) -> Result<Statement, ClientError> {
        let key = Key {
            kind,
            number: self.random.below(KEYS),
        };
        let values = read(&mut self.client, key)?;
        Ok(vec![Access::Read { key, values }])
    }

    /// Several registers in one statement.
    fn read_registers(&mut self) -> Result<Statement, ClientError> {
        let first = self.random.below(KEYS - 1);
        let rows = self.client.table(&format!(
            "SELECT k, v FROM dbo.registers WHERE k BETWEEN {first} AND {}",
            first + 1 + self.random.below(KEYS - first - 1)
        ))?;
        let access = |row: &Vec<String>| match row.as_slice() {
            [number, value] => Some(Access::Read {
                key: Key {
                    kind: Kind::Register,
                    number: number.parse().ok()?,
                },
                values: vec![value.parse().ok()?],
            }),
            _ => None,
        };
        Ok(rows.iter().filter_map(access).collect())
    }
}

fn read(client: &mut Client, key: Key) -> Result<Vec<Value>, ClientError> {
    let number = key.number;
    let text = match key.kind {
        Kind::List => format!("SELECT v FROM dbo.lists WHERE k = {number}"),
        Kind::Register => format!("SELECT v FROM dbo.registers WHERE k = {number}"),
        Kind::Set => format!("SELECT v FROM dbo.members WHERE k = {number}"),
    };
    let rows = client.table(&text)?;
    let cells = rows.iter().flatten().flat_map(|cell| cell.split(','));
    Ok(cells.filter_map(|value| value.parse().ok()).collect())
}
