//! T-SQL over a disk that loses power: sessions take turns statement by statement in one thread, the machine stops at some
//! write, recovery follows, and what is there is compared with what was acknowledged.
//!
//! Theory: every transaction leaves `parts` as it goes and signs the `journal` last, so each is known to be there whole or
//! not at all, and the journal tells which survived. A trigger notes every change of an account, so tables, indexes,
//! triggers and constraints must agree in every state that recovery leaves. DBCC CHECKDB and CHECKCONSTRAINTS judge the
//! rest. Commits are durable or delayed, by option of the database and by their own clause.
//!
//! | DELAYED_DURABILITY | COMMIT | must survive |
//! |---|---|---|
//! | DISABLED | any | once acknowledged |
//! | ALLOWED | plain | once acknowledged, and all before it |
//! | ALLOWED | delayed | once a later one is hard, or after a flush or checkpoint |
//! | FORCED | any | the same |
//!
//! `DARUMA_TSQL_SIM_SEEDS=1000 cargo test -p daruma-tsql --test simulation` runs so many seeds.

mod common;

use common::{Client, Server};
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_tsql::session::RequestEnd;
use std::collections::BTreeMap;
use std::sync::Arc;

const SESSIONS: u64 = 4;
const ACCOUNTS: u64 = 30;
/// Errors of sessions that meet each other or a constraint, or find an object made or gone.
const EXPECTED: [&str; 11] = [
    "1222", "1205", "547", "3960", "3961", "3964", "1913", "2714", "3701", "2705", "3998",
];

const SCHEMA: [&str; 8] = [
    "CREATE TABLE branches (id int NOT NULL CONSTRAINT pk_branches PRIMARY KEY)",
    "CREATE TABLE accounts (id int NOT NULL CONSTRAINT pk_accounts PRIMARY KEY,
         amount int NOT NULL CONSTRAINT ck_amount CHECK (amount >= 0), filler varchar(300) NOT NULL,
         branch int NOT NULL CONSTRAINT fk_branch REFERENCES branches (id))",
    "CREATE INDEX ix_amount ON accounts (amount) INCLUDE (branch)",
    "CREATE TABLE audit (n bigint IDENTITY CONSTRAINT pk_audit PRIMARY KEY, account int NOT NULL, delta int NOT NULL)",
    "CREATE TABLE journal (number int NOT NULL CONSTRAINT pk_journal PRIMARY KEY, parts int NOT NULL)",
    "CREATE TABLE parts (number int NOT NULL, part int NOT NULL, CONSTRAINT pk_parts PRIMARY KEY (number, part))",
    "CREATE TABLE items (k int NOT NULL, v nvarchar(max) NULL)",
    "CREATE INDEX ix_items ON items (k)",
];
const TRIGGER: &str = "CREATE TRIGGER noted ON accounts AFTER UPDATE AS
    INSERT audit (account, delta) SELECT i.id, i.amount - d.amount FROM inserted i JOIN deleted d ON d.id = i.id";

/// A transaction under way.
struct Open {
    number: i64,
    parts: i64,
    /// Parts when the savepoint was set.
    saved: Option<i64>,
    left: u64,
}

struct Seat {
    client: Client,
    open: Option<Open>,
    /// Its last commits of requests may be late.
    late: bool,
}

/// A commit in its order.
struct Commit {
    number: i64,
    hard: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Delayed {
    Disabled,
    Allowed,
    Forced,
}

struct World {
    random: SimRandom,
    disk: Arc<SimDisk>,
    server: Option<Server>,
    seats: Vec<Seat>,
    commits: Vec<Commit>,
    next_number: i64,
    next_name: u64,
    delayed: Delayed,
    commits_checked: usize,
}

/// The number of the first error in what a client saw.
fn error_of(out: &str) -> Option<&str> {
    let at = out
        .lines()
        .find(|l| l.starts_with("Msg ") && !l.contains("Level 0,") && !l.contains("Level 10,"))?;
    at.strip_prefix("Msg ")?.split(',').next()
}

impl World {
    fn new(seed: u64) -> World {
        let server = Server::with_seed(seed);
        let mut c = server.connect();
        c.run("CREATE DATABASE d");
        let mut c = server.connect_to("d");
        for batch in SCHEMA.iter().chain([&TRIGGER]) {
            assert_eq!(c.run(batch), "", "{batch}");
        }
        c.run("INSERT branches VALUES (1), (2), (3)");
        for id in 0..ACCOUNTS {
            c.run(&format!(
                "INSERT accounts VALUES ({id}, 1000, REPLICATE('f', 200), {})",
                1 + id % 3
            ));
        }
        c.run("CHECKPOINT");
        c.session.close();
        World {
            random: SimRandom::new(seed ^ 0x75A1),
            disk: server.disk.clone(),
            server: Some(server),
            seats: Vec::new(),
            commits: Vec::new(),
            next_number: 1,
            next_name: 1,
            delayed: Delayed::Disabled,
            commits_checked: 0,
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("the machine is up")
    }

    fn stopped(&self) -> bool {
        self.disk.is_stopped()
    }

    fn pick<'t>(&self, texts: &[&'t str]) -> &'t str {
        texts[self.random.below(texts.len() as u64) as usize]
    }

    // --- an epoch -----------------------------------------------------------------------------------------------

    fn epoch(&mut self) {
        self.options();
        for _ in 0..SESSIONS {
            let mut client = self.server().connect_to("d");
            client.run("SET LOCK_TIMEOUT 0; SET NOCOUNT ON");
            if self.random.below(4) == 0 {
                client.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT");
            }
            let late = self.random.below(2) == 0;
            client.session.set_late_commits(late);
            self.seats.push(Seat {
                client,
                open: None,
                late,
            });
        }
        self.disk.set_faults(Faults {
            stop_at: Some(self.disk.calls() + 1 + self.random.below(150)),
            ..Faults::default()
        });
        for _ in 0..60 + self.random.below(200) {
            if self.stopped() {
                break;
            }
            self.step();
        }
        self.fall();
    }

    /// Options of the database for this epoch, set while nobody works.
    fn options(&mut self) {
        let (delayed, text) = match self.random.below(3) {
            0 => (Delayed::Disabled, "DISABLED"),
            1 => (Delayed::Allowed, "ALLOWED"),
            _ => (Delayed::Forced, "FORCED"),
        };
        let mode = self.pick(&["ON", "OFF"]);
        let versions = self.pick(&["ON", "OFF"]);
        let mut c = self.server().connect();
        for batch in [
            format!("ALTER DATABASE d SET DELAYED_DURABILITY = {text}"),
            format!("ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = {mode}"),
            format!("ALTER DATABASE d SET READ_COMMITTED_SNAPSHOT {versions}"),
            "ALTER DATABASE d SET ALLOW_SNAPSHOT_ISOLATION ON".to_string(),
        ] {
            let out = c.run(&batch);
            assert_eq!(error_of(&out), None, "{batch}: {out}");
        }
        c.session.close();
        self.delayed = delayed;
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => self.background(),
            1 => self.hardening("CHECKPOINT"),
            2 => self.hardening("EXEC sys.sp_flush_log"),
            _ => {
                let at = self.random.below(SESSIONS) as usize;
                self.turn(at);
            }
        }
    }

    fn background(&self) {
        let open = self
            .server()
            .instance
            .database_named("d")
            .expect("is there")
            .open();
        let result = open.expect("is open").storage.background_step();
        assert!(result.is_ok() || self.stopped(), "{result:?}");
    }

    fn hardening(&mut self, batch: &str) {
        let out = self.server().connect_to("d").run(batch);
        if error_of(&out).is_none() {
            self.commits.iter_mut().for_each(|c| c.hard = true);
        } else {
            assert!(self.stopped(), "{batch}: {out}");
        }
    }

    /// One statement of one session.
    fn turn(&mut self, at: usize) {
        let Some(open) = self.seats[at].open.as_mut() else {
            return self.begin(at);
        };
        if open.left == 0 {
            return self.end(at);
        }
        open.left -= 1;
        match self.random.below(14) {
            0..=4 => self.transfer(at),
            5..=6 => self.part(at),
            7 => self.save(at),
            8 => self.back(at),
            9..=10 => self.write_items(at),
            11 => self.define(at),
            _ => self.run(at, "DELETE TOP (3) FROM items WHERE k % 5 = 0"),
        }
    }

    fn begin(&mut self, at: usize) {
        let number = self.next_number;
        self.next_number += 1;
        let left = 1 + self.random.below(6);
        if self.ask(at, "BEGIN TRAN").is_some() {
            self.seats[at].open = Some(Open {
                number,
                parts: 0,
                saved: None,
                left,
            });
        }
    }

    /// Runs a batch. Nothing when it failed, which only the expected errors and the end of the machine excuse.
    fn ask(&mut self, at: usize, batch: &str) -> Option<String> {
        let client = &mut self.seats[at].client;
        let out = client.run(batch);
        // The commit before it could not be made hard.
        let is_over = client.ended == RequestEnd::Disconnect;
        let Some(error) = error_of(&out).filter(|_| !is_over) else {
            assert!(!is_over || self.stopped(), "{batch}: {out}");
            return (!is_over).then_some(out);
        };
        if self.stopped() {
            return None;
        }
        assert!(EXPECTED.contains(&error), "{batch}: {out}");
        if self.seats[at].client.scalar("SELECT @@TRANCOUNT") == "0" {
            self.seats[at].open = None;
        }
        None
    }

    fn run(&mut self, at: usize, batch: &str) {
        self.ask(at, batch);
    }

    fn transfer(&mut self, at: usize) {
        let (from, to) = (self.random.below(ACCOUNTS), self.random.below(ACCOUNTS));
        let amount = self.random.below(400);
        if from != to {
            let filler = self.random.below(300);
            let batch = format!(
                "UPDATE accounts SET amount = amount + CASE id WHEN {from} THEN -{amount} ELSE {amount} END,
                 filler = REPLICATE('m', {filler}) WHERE id IN ({from}, {to})"
            );
            self.run(at, &batch);
        }
    }

    fn part(&mut self, at: usize) {
        let Some(open) = &self.seats[at].open else {
            return;
        };
        let (number, part) = (open.number, open.parts);
        let done = self.ask(at, &format!("INSERT parts VALUES ({number}, {part})"));
        if let (Some(_), Some(open)) = (done, &mut self.seats[at].open) {
            open.parts += 1;
        }
    }

    fn save(&mut self, at: usize) {
        let done = self.ask(at, "SAVE TRAN here");
        if let (Some(_), Some(open)) = (done, &mut self.seats[at].open) {
            open.saved = Some(open.parts);
        }
    }

    fn back(&mut self, at: usize) {
        let saved = self.seats[at].open.as_ref().and_then(|o| o.saved);
        if let Some(parts) = saved {
            let done = self.ask(at, "ROLLBACK TRAN here");
            if let (Some(_), Some(open)) = (done, &mut self.seats[at].open) {
                open.parts = parts;
            }
        }
    }

    fn write_items(&mut self, at: usize) {
        let k = self.random.below(60);
        let long = self.random.below(12_000);
        let batch = match self.random.below(4) {
            0 => format!(
                "UPDATE items SET v = REPLICATE(CAST(N'u' AS nvarchar(max)), {long}) WHERE k = {k}"
            ),
            1 => format!(
                "INSERT items (k, v) SELECT TOP ({}) ROW_NUMBER() OVER (ORDER BY (SELECT 1)) % 60, N'many' FROM sys.all_columns",
                self.random.below(200)
            ),
            _ => {
                format!(
                    "INSERT items (k, v) VALUES ({k}, REPLICATE(CAST(N'i' AS nvarchar(max)), {long}))"
                )
            }
        };
        self.run(at, &batch);
    }

    fn define(&mut self, at: usize) {
        let name = self.next_name;
        self.next_name += 1;
        let batch = match self.random.below(6) {
            0 => format!("CREATE TABLE extra{name} (id int PRIMARY KEY, v varchar(100)); INSERT extra{name} SELECT k, 'x' FROM (SELECT DISTINCT k FROM items) AS s"),
            1 => "DECLARE @n nvarchar(200) = (SELECT MIN(name) FROM sys.tables WHERE name LIKE 'extra%'); IF @n IS NOT NULL EXEC (N'DROP TABLE ' + @n)".to_string(),
            2 => format!("CREATE INDEX ix{name} ON items (k DESC) INCLUDE (v)"),
            3 => "DECLARE @n nvarchar(200) = (SELECT MIN(name) FROM sys.indexes WHERE object_id = OBJECT_ID('items') AND name LIKE 'ix[0-9]%'); IF @n IS NOT NULL EXEC (N'DROP INDEX ' + @n + N' ON items')".to_string(),
            4 => format!("ALTER TABLE items ADD c{name} int NOT NULL CONSTRAINT df{name} DEFAULT {name}"),
            _ => format!("CREATE UNIQUE INDEX uq{name} ON parts (part, number) WHERE part > 0"),
        };
        self.run(at, &batch);
    }

    /// Signs and commits, or rolls back.
    fn end(&mut self, at: usize) {
        let Some(open) = &self.seats[at].open else {
            return;
        };
        let (number, parts) = (open.number, open.parts);
        if self.random.below(5) == 0 {
            self.run(at, "IF @@TRANCOUNT > 0 ROLLBACK");
            self.seats[at].open = None;
            return;
        }
        let signed = self.ask(at, &format!("INSERT journal VALUES ({number}, {parts})"));
        if signed.is_none() {
            return;
        }
        let asked = self.random.below(2) == 0;
        let clause = if asked {
            " WITH (DELAYED_DURABILITY = ON)"
        } else {
            ""
        };
        let seat = &mut self.seats[at];
        seat.open = None;
        let out = seat.client.run(&format!("COMMIT TRAN{clause}"));
        // A late commit is waited for now, or by the session before it does anything else.
        let is_left = seat.late && self.random.below(2) == 0;
        let late = match is_left {
            true => None,
            false => seat.client.session.take_late_commit(),
        };
        let is_hard = late.is_none_or(|commit| commit.wait().is_ok());
        match error_of(&out) {
            None if is_hard && !is_left => self.committed(number, asked),
            None if is_left => self.commits.push(Commit {
                number,
                hard: false,
            }),
            // Whether it committed is known only after recovery.
            _ if self.stopped() => self.commits.push(Commit {
                number,
                hard: false,
            }),
            _ => panic!("COMMIT: {out}"),
        }
    }

    fn committed(&mut self, number: i64, asked: bool) {
        let hard = match self.delayed {
            Delayed::Disabled => true,
            Delayed::Allowed => !asked,
            Delayed::Forced => false,
        };
        self.commits.push(Commit { number, hard });
        if hard {
            self.commits.iter_mut().for_each(|c| c.hard = true);
        }
    }

    // --- stop and recovery --------------------------------------------------------------------------------------

    fn fall(&mut self) {
        self.disk.stop();
        self.seats.clear();
        self.server = None;
        match self.random.below(4) {
            0 => self.disk.restart(),
            _ => self.disk.crash(),
        }
        self.server = Some(Server::over(self.disk.clone()));
        self.verify();
    }

    fn verify(&mut self) {
        let mut c = self.server().connect_to("d");
        self.survivors(&mut c);
        let holds = |c: &mut Client, query: &str| assert_eq!(c.scalar(query), "0", "{query}");
        holds(&mut c, "SELECT SUM(amount) - 30000 FROM accounts");
        holds(
            &mut c,
            "SELECT SUM(amount) - 30000 FROM accounts WITH (INDEX (ix_amount))",
        );
        holds(
            &mut c,
            "SELECT COUNT(*) FROM accounts a WHERE amount <> 1000 + ISNULL((SELECT SUM(delta) FROM audit WHERE account = a.id), 0)",
        );
        holds(
            &mut c,
            "SELECT COUNT(*) FROM journal j WHERE parts <> (SELECT COUNT(*) FROM parts p WHERE p.number = j.number)",
        );
        holds(
            &mut c,
            "SELECT COUNT(*) FROM parts p WHERE NOT EXISTS (SELECT 1 FROM journal j WHERE j.number = p.number)",
        );
        assert_eq!(c.run("DBCC CHECKDB WITH NO_INFOMSGS"), "");
        assert_eq!(c.run("DBCC CHECKCONSTRAINTS WITH NO_INFOMSGS"), "");
        c.session.close();
        if self.random.below(2) == 0 {
            self.settle();
        }
    }

    /// Once everything that was left to do is done, every page is accounted for.
    fn settle(&self) {
        let open = self
            .server()
            .instance
            .database_named("d")
            .expect("is there")
            .open();
        let storage = open.expect("is open").storage;
        while storage.background_step().expect("no faults") {}
        let out = self
            .server()
            .connect()
            .run("DBCC CHECKDB (d) WITH NO_INFOMSGS");
        assert_eq!(out, "");
    }

    /// Those that survived are the first of the commits, and at least the hard ones.
    fn survivors(&mut self, c: &mut Client) {
        let out = c.run("SELECT number, parts FROM journal ORDER BY number");
        let found: BTreeMap<i64, ()> = out
            .lines()
            .filter_map(|l| Some((l.split(" | ").next()?.parse().ok()?, ())))
            .collect();
        let kept = self
            .commits
            .iter()
            .take_while(|c| found.contains_key(&c.number))
            .count();
        for lost in &self.commits[kept..] {
            assert!(
                !lost.hard,
                "the durable commit of transaction {} is lost",
                lost.number
            );
            assert!(
                !found.contains_key(&lost.number),
                "transaction {} survived, an earlier commit did not",
                lost.number
            );
        }
        assert_eq!(
            found.len(),
            kept,
            "a transaction that never committed is there"
        );
        self.commits.truncate(kept);
        self.commits.iter_mut().for_each(|c| c.hard = true);
        self.commits_checked += kept;
    }
}

fn live(seed: u64) -> (u64, usize) {
    let mut world = World::new(seed);
    for _ in 0..3 {
        world.epoch();
    }
    (world.disk.trace(), world.commits_checked)
}

fn seeds() -> u64 {
    let asked = std::env::var("DARUMA_TSQL_SIM_SEEDS").ok();
    asked.and_then(|v| v.parse().ok()).unwrap_or(3)
}

#[test]
fn sessions_survive_power_loss_at_any_write() {
    let mut checked = 0;
    for seed in 0..seeds() {
        println!("seed {seed}");
        checked += live(seed).1;
    }
    assert!(checked > 0, "no commit was checked");
}
