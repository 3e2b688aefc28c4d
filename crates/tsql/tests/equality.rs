//! Both recovery modes are one database: the same random history on a classic and on an accelerated one gives the same answers.
//!
//! Theory: recovery decides how something is taken back, never what. So whatever a client can see must be equal after every
//! statement: rows, counts, errors and their texts, what each open transaction sees of itself, what everybody sees of the
//! committed state, and what is there after a power failure. Sessions take turns statement by statement; who would wait gets
//! error 1222 instead, in both. Statements fail in the middle, savepoints nest, definitions come and go inside of transactions.
//! In the accelerated database rollback is a mark (for every size, in half of the histories), and marks are reverted at
//! random moments only.
//!
//! A difference prints its seed and the history that led to it. `DARUMA_EQUALITY_SEED=17` repeats one history,
//! `DARUMA_EQUALITY_SEEDS=200` runs so many: `cargo test -p daruma-tsql --test equality`.

mod common;

use common::{Client, Server};
use daruma_sim::SimRandom;

const SESSIONS: usize = 3;
const STEPS: u64 = 100;
/// Histories of a run that nobody asked more of.
const SEEDS: u64 = 3;
/// Rows of the larger table: one statement over them writes more log than a statement keeps in memory for its rollback.
const ROWS: u64 = 1_500;

const SCHEMA: [&str; 9] = [
    "CREATE TABLE big (id int NOT NULL CONSTRAINT pk_big PRIMARY KEY, v int NOT NULL CONSTRAINT ck_v CHECK (v < 100000),
         filler varchar(600) NOT NULL)",
    "CREATE INDEX ix_big ON big (v) INCLUDE (id)",
    "CREATE TABLE parents (id int NOT NULL CONSTRAINT pk_parents PRIMARY KEY, name varchar(50) NOT NULL)",
    "CREATE TABLE children (n int IDENTITY CONSTRAINT pk_children PRIMARY KEY,
         parent int NOT NULL CONSTRAINT fk_parent REFERENCES parents (id) ON DELETE CASCADE, v int NULL)",
    "CREATE UNIQUE INDEX uq_children ON children (v) WHERE v IS NOT NULL",
    "CREATE TABLE heap (k int NOT NULL, v nvarchar(max) NULL)",
    "CREATE INDEX ix_heap ON heap (k)",
    "CREATE TABLE notes (n bigint IDENTITY CONSTRAINT pk_notes PRIMARY KEY, parent int NOT NULL, was varchar(50) NULL)",
    "CREATE TRIGGER noted ON parents AFTER UPDATE AS
     BEGIN
         IF @@ROWCOUNT = 0 RETURN;
         INSERT notes (parent, was) SELECT id, name FROM deleted ORDER BY id;
         IF EXISTS (SELECT 1 FROM inserted WHERE name = 'forbidden') THROW 50001, 'forbidden', 1;
     END",
];

/// What everybody sees of the tables that are always there.
const STATE: &str = "SELECT id / 50 AS part, COUNT(*) AS n, SUM(CAST(v AS bigint) * id) AS v, SUM(CAST(LEN(filler) AS bigint) * id) AS l,
        MIN(filler) AS low, MAX(LEFT(filler, 1)) AS high FROM big GROUP BY id / 50 ORDER BY part;
    SELECT COUNT(*) AS n, SUM(CAST(v AS bigint)) AS v FROM big WITH (INDEX (ix_big));
    SELECT id, name FROM parents ORDER BY id;
    SELECT n, parent, v FROM children ORDER BY n;
    SELECT k, LEN(v) AS l, LEFT(v, 2) AS f FROM heap ORDER BY k, l, f;
    SELECT n, parent, was FROM notes ORDER BY n;
    SELECT t.name, c.name, c.max_length FROM sys.tables t JOIN sys.columns c ON c.object_id = t.object_id ORDER BY t.name, c.column_id;
    SELECT t.name, i.name, i.is_unique FROM sys.indexes i JOIN sys.tables t ON t.object_id = i.object_id ORDER BY t.name, i.name";

struct Side {
    name: &'static str,
    server: Option<Server>,
    clients: Vec<Client>,
    reader: Option<Client>,
    marks_everything: bool,
}

impl Side {
    fn new(seed: u64, is_accelerated: bool, options: &[String]) -> Side {
        let server = Server::with_seed(seed);
        let mut c = server.connect();
        c.run("CREATE DATABASE d");
        for option in options {
            assert_eq!(
                c.run(&format!("ALTER DATABASE d SET {option}")),
                "",
                "{option}"
            );
        }
        if is_accelerated {
            c.run("ALTER DATABASE d SET ACCELERATED_DATABASE_RECOVERY = ON");
        }
        let mut c = server.connect_to("d");
        for batch in SCHEMA {
            assert_eq!(c.run(batch), "", "{batch}");
        }
        c.session.close();
        Side {
            name: if is_accelerated {
                "accelerated"
            } else {
                "classic"
            },
            server: Some(server),
            clients: Vec::new(),
            reader: None,
            marks_everything: is_accelerated && seed.is_multiple_of(2),
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("is up")
    }

    fn storage(&self) -> std::sync::Arc<daruma_storage::Database> {
        let entry = self.server().instance.database_named("d");
        entry.and_then(|e| e.open().ok()).expect("is open").storage
    }

    fn connect(&mut self) {
        if self.marks_everything {
            self.storage().set_undo_at_once_bytes(0);
        }
        let connect = || {
            let mut client = self.server().connect_to("d");
            client.run("SET LOCK_TIMEOUT 0");
            client
        };
        let (clients, reader) = ((0..SESSIONS).map(|_| connect()).collect(), connect());
        (self.clients, self.reader) = (clients, Some(reader));
    }

    fn fall(&mut self, is_clean: bool) {
        let mut clients = std::mem::take(&mut self.clients);
        clients.extend(self.reader.take());
        let server = self.server.take().expect("is up");
        self.server = Some(match is_clean {
            true => {
                clients.into_iter().for_each(|c| c.session.close());
                server.restart()
            }
            false => {
                server.disk.stop();
                drop(clients);
                server.crash()
            }
        });
        self.connect();
    }

    fn read(&mut self, query: &str) -> String {
        self.reader.as_mut().expect("is connected").run(query)
    }
}

struct World {
    seed: u64,
    random: SimRandom,
    sides: [Side; 2],
    history: Vec<String>,
    next_name: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let random = SimRandom::new(seed ^ 0xE9A1);
        let versions = if random.below(3) == 0 { "OFF" } else { "ON" };
        let options = [
            format!("READ_COMMITTED_SNAPSHOT {versions}"),
            "ALLOW_SNAPSHOT_ISOLATION ON".to_string(),
        ];
        let mut sides = [false, true].map(|on| Side::new(seed, on, &options));
        sides.iter_mut().for_each(Side::connect);
        let mut world = World {
            seed,
            random,
            sides,
            history: Vec::new(),
            next_name: 0,
        };
        for batch in [
            format!("INSERT big SELECT value, value % 50, REPLICATE('a', 200) FROM GENERATE_SERIES(1, {ROWS})"),
            "INSERT parents SELECT value, 'first' FROM GENERATE_SERIES(1, 20)".to_string(),
            "INSERT children (parent, v) SELECT id, id FROM parents ORDER BY id".to_string(),
            "INSERT heap SELECT value % 40, REPLICATE(CAST(N'h' AS nvarchar(max)), value) FROM GENERATE_SERIES(1, 80)".to_string(),
            "CHECKPOINT".to_string(),
        ] {
            world.ask(0, &batch);
        }
        world
    }

    fn below(&self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn pick<'t>(&self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len() as u64) as usize]
    }

    /// Both sides do it, and answer the same.
    fn ask(&mut self, session: usize, batch: &str) {
        self.history.push(format!("{session}: {batch}"));
        let answers = [0, 1].map(|side: usize| self.sides[side].clients[session].run(batch));
        self.same(batch, &answers);
    }

    fn same(&self, what: &str, answers: &[String; 2]) {
        if answers[0] == answers[1] {
            return;
        }
        let lines = answers[0].lines().zip(answers[1].lines());
        let first = lines
            .clone()
            .position(|(a, b)| a != b)
            .unwrap_or(lines.count());
        let shown = answers.each_ref().map(|a| {
            let lines: Vec<&str> = a.lines().skip(first).take(5).collect();
            lines.join("\n")
        });
        let recent = self.history.len().saturating_sub(60);
        panic!(
            "seed {}: {what}\ndiffers from line {first} on\n{}:\n{}\n{}:\n{}\nhistory:\n{}",
            self.seed,
            self.sides[0].name,
            shown[0],
            self.sides[1].name,
            shown[1],
            self.history[recent..].join("\n")
        );
    }

    /// What everybody sees is equal.
    fn compare(&mut self) {
        let answers = [0, 1].map(|side: usize| self.sides[side].read(STATE));
        self.same("the committed state", &answers);
        for table in self.extra_tables() {
            let query = format!("SELECT * FROM {table} ORDER BY 1, 2");
            let answers = [0, 1].map(|side: usize| self.sides[side].read(&query));
            self.same(&query, &answers);
        }
    }

    fn extra_tables(&mut self) -> Vec<String> {
        let names = self.sides[0]
            .read("SELECT name FROM sys.tables WHERE name LIKE 'extra%' ORDER BY name");
        let lines = names.lines().filter(|l| l.starts_with("extra"));
        lines.map(str::to_string).collect()
    }

    // --- steps --------------------------------------------------------------------------------------------------

    fn step(&mut self) {
        let session = self.below(SESSIONS as u64) as usize;
        match self.below(100) {
            0..=13 => self.begin_or_save(session),
            14..=29 => self.end(session),
            30..=45 => self.write_big(session),
            46..=58 => self.write_parents(session),
            59..=67 => self.write_heap(session),
            68..=77 => self.define(session),
            78..=84 => self.fail(session),
            85..=90 => self.look(session),
            91 => self.fall(),
            _ => self.background(),
        }
        self.compare();
    }

    fn begin_or_save(&mut self, session: usize) {
        let batch = match self.below(6) {
            0 => "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN",
            1 => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRAN",
            2 => "SET XACT_ABORT ON; IF @@TRANCOUNT = 0 BEGIN TRAN",
            3 => "SET XACT_ABORT OFF; IF @@TRANCOUNT = 0 BEGIN TRAN",
            4 => "IF @@TRANCOUNT = 0 BEGIN TRAN; SAVE TRAN one",
            _ => "IF @@TRANCOUNT > 0 SAVE TRAN two",
        };
        self.ask(session, batch);
    }

    fn end(&mut self, session: usize) {
        let batch = match self.below(9) {
            0..=2 => "WHILE @@TRANCOUNT > 0 COMMIT",
            3 | 4 => "IF @@TRANCOUNT > 0 ROLLBACK",
            5 | 6 => "ROLLBACK TRAN one",
            7 => "ROLLBACK TRAN two",
            _ => "COMMIT",
        };
        self.ask(session, batch);
    }

    fn write_big(&mut self, session: usize) {
        let (low, high) = (self.below(ROWS), self.below(ROWS));
        let (low, high) = (low.min(high), low.max(high));
        let key = self.below(ROWS * 2);
        let length = self.below(600);
        let batch = match self.below(8) {
            0 => format!("UPDATE big SET v = v + 1, filler = REPLICATE('u', {length})"),
            1 => format!("UPDATE big SET v = v + 3 WHERE id BETWEEN {low} AND {high}"),
            2 => format!("DELETE big WHERE id BETWEEN {low} AND {high} AND id % 3 = 0"),
            3 => format!("DELETE big WHERE id = {key}"),
            4 => format!(
                "INSERT big SELECT value, value % 90, REPLICATE('m', {length}) FROM GENERATE_SERIES({low}, {high}) WHERE value NOT IN (SELECT id FROM big)"
            ),
            5 => format!("UPDATE big SET id = id + {} WHERE id = {key}", ROWS * 2),
            6 => format!(
                "UPDATE big SET filler = REPLICATE('x', {length}) OUTPUT inserted.id, deleted.v WHERE id = {key}"
            ),
            _ => format!("INSERT big VALUES ({key}, {low}, REPLICATE('i', {length}))"),
        };
        self.ask(session, &batch);
    }

    fn write_parents(&mut self, session: usize) {
        let (key, other) = (self.below(30), self.below(40));
        let name = self.pick(&["second", "third", "forbidden"]);
        let batch = match self.below(8) {
            0 => format!("INSERT parents VALUES ({key}, 'new')"),
            1 => format!("INSERT children (parent, v) VALUES ({key}, {other})"),
            2 => format!(
                "INSERT children (parent, v) SELECT id, NULL FROM parents WHERE id > {key} ORDER BY id"
            ),
            3 => format!("DELETE parents WHERE id = {key}"),
            4 => format!("UPDATE parents SET name = '{name}' WHERE id BETWEEN {key} AND {other}"),
            5 => format!("UPDATE children SET v = v + 1 WHERE parent < {key}"),
            6 => format!("UPDATE children SET parent = {other} WHERE parent = {key}"),
            _ => format!("DELETE children WHERE v = {other} OR parent = {key}"),
        };
        self.ask(session, &batch);
    }

    fn write_heap(&mut self, session: usize) {
        let (key, length) = (self.below(60), self.below(15_000));
        let batch = match self.below(4) {
            0 => format!(
                "INSERT heap VALUES ({key}, REPLICATE(CAST(N'i' AS nvarchar(max)), {length}))"
            ),
            1 => format!(
                "UPDATE heap SET v = REPLICATE(CAST(N'u' AS nvarchar(max)), {length}) WHERE k = {key}"
            ),
            2 => format!("UPDATE heap SET k = k + 1, v = v + N'.' WHERE k > {key}"),
            _ => format!("DELETE heap WHERE k = {key}"),
        };
        self.ask(session, &batch);
    }

    fn define(&mut self, session: usize) {
        let name = self.next_name;
        self.next_name += 1;
        let some = self.below(self.next_name);
        let batch = match self.below(11) {
            0 => format!(
                "CREATE TABLE extra{name} (a int NOT NULL CONSTRAINT pk_extra{name} PRIMARY KEY, b varchar(30) NULL)"
            ),
            1 => format!(
                "SELECT id AS a, LEFT(filler, 30) AS b INTO extra{name} FROM big WHERE id % 4 = 0"
            ),
            2 => format!("DROP TABLE IF EXISTS extra{some}"),
            3 => format!(
                "INSERT extra{some} (a, b) SELECT value, 'later' FROM GENERATE_SERIES(5000, 5040)"
            ),
            4 => format!("CREATE INDEX ix{name} ON big (filler) INCLUDE (v)"),
            5 => format!("DROP INDEX IF EXISTS ix{some} ON big"),
            6 => format!(
                "ALTER TABLE extra{some} ADD c{name} int NOT NULL CONSTRAINT df{name} DEFAULT {name}"
            ),
            7 => format!(
                "ALTER TABLE extra{some} ALTER COLUMN b varchar({})",
                30 + name
            ),
            8 => format!("TRUNCATE TABLE extra{some}"),
            9 => format!("CREATE UNIQUE INDEX uq{name} ON extra{some} (b)"),
            _ => "TRUNCATE TABLE notes".to_string(),
        };
        self.ask(session, &batch);
    }

    /// Statements that fail after they have done much, and what follows in the same batch.
    fn fail(&mut self, session: usize) {
        let key = 1 + self.below(ROWS);
        let batch = match self.below(7) {
            0 => format!("UPDATE big SET v = v + CASE WHEN id = (SELECT MAX(id) FROM big) THEN 200000 ELSE 1 END, filler = REPLICATE('c', {})", key % 600),
            1 => format!("INSERT big SELECT value, 1, 'd' FROM GENERATE_SERIES({}, {}) ORDER BY value", ROWS * 3, ROWS * 3 + key),
            2 => format!("BEGIN TRY UPDATE big SET filler = REPLICATE('t', 9), v = 100 / (id - {key}); END TRY BEGIN CATCH SELECT ERROR_NUMBER() AS n, XACT_STATE() AS s; END CATCH"),
            3 => "BEGIN TRY BEGIN TRAN; UPDATE parents SET name = 'forbidden'; COMMIT; END TRY BEGIN CATCH SELECT ERROR_NUMBER() AS n, XACT_STATE() AS s; IF XACT_STATE() <> 0 ROLLBACK; END CATCH".to_string(),
            4 => "UPDATE big SET id = 7 WHERE id IN (8, 9)".to_string(),
            5 => format!("DELETE big WHERE id > {key}; INSERT parents VALUES (1, 'twice'); SELECT @@TRANCOUNT AS t, COUNT(*) AS n FROM big"),
            _ => format!("DECLARE @i int = 0; WHILE @i < 60 BEGIN UPDATE big SET v = v + 1 WHERE id = {key} + @i; INSERT heap VALUES (@i, N'loop'); SET @i += 1; END; SELECT 1 / 0 AS z"),
        };
        self.ask(session, &batch);
    }

    /// What a session sees, of itself too.
    fn look(&mut self, session: usize) {
        let key = self.below(ROWS);
        let batch = match self.below(4) {
            0 => "SELECT COUNT(*) AS n, SUM(CAST(v AS bigint)) AS v, MIN(filler) AS f FROM big".to_string(),
            1 => format!("SELECT id, v, LEFT(filler, 3) AS f FROM big WHERE id BETWEEN {key} AND {key} + 20 ORDER BY id"),
            2 => "SELECT p.id, p.name, COUNT(c.n) AS n FROM parents p LEFT JOIN children c ON c.parent = p.id GROUP BY p.id, p.name ORDER BY p.id".to_string(),
            _ => "SELECT @@TRANCOUNT AS t, XACT_STATE() AS x; SELECT k, COUNT(*) AS n FROM heap GROUP BY k ORDER BY k".to_string(),
        };
        self.ask(session, &batch);
    }

    fn fall(&mut self) {
        let is_clean = self.below(4) == 0;
        let what = if is_clean { "restart" } else { "power failure" };
        self.history.push(format!("--- {what}"));
        self.sides.iter_mut().for_each(|side| side.fall(is_clean));
    }

    /// What nobody is to notice.
    fn background(&mut self) {
        match self.below(4) {
            0 => self.ask(0, "IF @@TRANCOUNT = 0 CHECKPOINT"),
            1 => self.ask(
                1,
                "IF @@TRANCOUNT = 0 EXEC sys.sp_persistent_version_cleanup",
            ),
            2 => self.ask(
                2,
                "IF @@TRANCOUNT = 0 EXEC sys.sp_persistent_version_cleanup NULL, 1, 3",
            ),
            _ => {
                self.history.push("--- background work".to_string());
                for side in &self.sides {
                    side.storage().background_step().expect("no faults");
                }
            }
        }
    }

    /// Nothing is open and nothing is left to do: still the same, and sound.
    fn finish(&mut self) {
        for session in 0..SESSIONS {
            self.ask(session, "IF @@TRANCOUNT > 0 ROLLBACK");
        }
        for side in &mut self.sides {
            while side.storage().background_step().expect("no faults") {}
            let found = side.read("DBCC CHECKDB WITH NO_INFOMSGS");
            assert_eq!(found, "", "seed {}, {}", self.seed, side.name);
        }
        self.compare();
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn both_modes_answer_every_history_alike() {
    let seeds = match from_environment("DARUMA_EQUALITY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_environment("DARUMA_EQUALITY_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.finish();
    }
}
