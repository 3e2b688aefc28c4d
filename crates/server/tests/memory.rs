//! Memory: what one login asks for ends its own statement (701), not the server and not its neighbours.
//!
//! The cases run in a child process whose address space is bounded, so that memory which nobody counts shows as a failed
//! allocation.

mod common;

use common::{Answer, client, program_options};
use daruma_base::memory::work_bytes;
use daruma_server::EncryptionPolicy;
use daruma_server::program::{Program, ProgramOptions};
use daruma_value::Value;
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

/// What everything but pages may take under `--memory 64M`.
const WORK_BYTES: i64 = 64 << 20;
/// A value that was asked for when there was room, packets on their way, what each thread has not told yet.
const SLACK_BYTES: i64 = 48 << 20;
/// What may stay when a statement has ended: plans, definitions, buffers of connections and files.
const KEPT_BYTES: i64 = 4 << 20;
/// Address space of the child in KiB: program, stacks of threads, pages, the bound above, and arenas of the allocator.
const ADDRESS_KIB: &str = "3000000";

/// A server, and the most that its process had allocated besides pages.
struct Watched {
    program: Program,
    most: Arc<AtomicI64>,
    stopped: Arc<AtomicBool>,
    _dir: tempfile::TempDir,
}

impl Watched {
    fn start() -> Watched {
        Watched::by(|_| {})
    }

    fn with_memory(bytes: u64) -> Watched {
        Watched::by(|options| options.memory_bytes = Some(bytes))
    }

    fn by(choose: impl FnOnce(&mut ProgramOptions)) -> Watched {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut options = program_options(dir.path(), EncryptionPolicy::On);
        choose(&mut options);
        let program = Program::start(&options).expect("starts");
        let (most, stopped) = (
            Arc::new(AtomicI64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (seen, ends) = (most.clone(), stopped.clone());
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                seen.fetch_max(work_bytes(), Ordering::Relaxed);
                thread::sleep(Duration::from_micros(500));
            }
        });
        Watched {
            program,
            most,
            stopped,
            _dir: dir,
        }
    }

    /// Runs a text in several sessions at once; each must end with 701 or with its rows, and go on.
    fn case(&self, what: &str, sessions: usize, text: &str, refused: Refused) {
        let before = work_bytes();
        self.most.store(0, Ordering::Relaxed);
        let run = || {
            let mut client = client(&self.program);
            let answer = client.batch(text).expect("answers");
            let next = client.batch("select 1").expect("the session lives");
            assert_eq!(next.rows(), [vec![Value::Int(1)]], "{what}");
            answer
        };
        let answers: Vec<Answer> = thread::scope(|scope| {
            let threads: Vec<_> = (0..sessions).map(|_| scope.spawn(run)).collect();
            threads
                .into_iter()
                .map(|t| t.join().expect("no panic"))
                .collect()
        });
        // The texts that this side sends are in the same process.
        let most = self.most.load(Ordering::Relaxed) - before;
        println!("{what}: {} MiB at most beside {}", most >> 20, before >> 20);
        assert!(
            most < WORK_BYTES + SLACK_BYTES,
            "{what}: {} MiB",
            most >> 20
        );
        for answer in &answers {
            let numbers = answer.error_numbers();
            match refused {
                Refused::Yes => assert!(numbers.contains(&701), "{what}: {numbers:?}"),
                Refused::No => assert_eq!(answer.errors(), [], "{what}"),
                Refused::Either => assert!(
                    numbers.iter().all(|n| *n == 701),
                    "{what}: {:?}",
                    answer.errors()
                ),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Refused {
    Yes,
    No,
    Either,
}

/// Values of a megabyte each, stored one by one and read in one go.
const LARGE_VALUES: &str = "create table v (id int identity primary key, v varchar(max) not null); \
     declare @x varchar(max) = replicate(cast('x' as varchar(max)), 1000000); \
     declare @n int = 0; while @n < 150 begin insert v values (@x + str(@n)); set @n += 1 end; \
     select sum(len(v)) from v";

/// Many rows from nothing.
const ROWS: &str = "sys.all_columns a cross join sys.all_columns b";

#[test]
#[ignore = "runs in a child process"]
fn cases() {
    use Refused::{Either, No, Yes};
    let watched = Watched::start();
    watched.case(
        "rows of a table variable",
        1,
        "declare @t table (a varchar(max)); insert @t select top (100) replicate(cast('x' as varchar(max)), 5000000) \
         from sys.all_columns; select count(*) from @t",
        Either,
    );
    let large = "declare @x varchar(max) = replicate(cast('x' as varchar(max)), 20000000);";
    let copies: String = (0..40)
        .map(|n| format!("declare @v{n} varchar(max) = @x + '';"))
        .collect();
    watched.case("variables", 1, &format!("{large} {copies} select 1"), Yes);
    watched.case(
        "functions",
        12,
        &format!("{large} select len(upper(@x)) + len(reverse(@x))"),
        Either,
    );
    watched.case(
        "one value",
        1,
        "declare @x varchar(max) = replicate(cast('x' as varchar(max)), 250000000); select len(@x)",
        Yes,
    );
    let numbers = format!(
        "(select row_number() over (order by (select 1)) as n from (select top (1000000) 1 as x from {ROWS}) t) w"
    );
    watched.case(
        "distinct values",
        1,
        &format!("select count(distinct n) from {numbers}"),
        Either,
    );
    watched.case(
        "text joined",
        1,
        &format!(
            "select len(string_agg(cast(replicate('x', 100) as varchar(max)), ',')) from {ROWS}"
        ),
        Yes,
    );
    watched.case(
        "a spool",
        1,
        &format!(
            "select count(*) from (select top (10) name from sys.all_objects) x join \
             (select top (500000) a.name + b.name as n from {ROWS}) y on x.name < y.n and y.n like '%q%z'"
        ),
        Either,
    );
    watched.case(
        "an update of a database with accelerated recovery",
        1,
        &format!(
            "create database a; alter database a set accelerated_database_recovery = on; \
             create table a.dbo.t (id int primary key, v int, w char(300)); \
             insert a.dbo.t select n, 1, 'w' from {numbers} where n <= 150000; update a.dbo.t set v = 2, w = 'x'; \
             begin tran; update a.dbo.t set v = 3; update a.dbo.t set v = 4, w = 'y'; rollback; \
             select sum(v) from a.dbo.t; drop database a"
        ),
        Either,
    );
    watched.case(
        "a text that is split",
        1,
        "declare @x varchar(max) = replicate(cast(',' as varchar(max)), 10000000); select count(*) from string_split(@x, ',')",
        Yes,
    );
    watched.case(
        "text joined by long separators",
        1,
        &format!(
            "select len(string_agg(cast('' as varchar(max)), replicate('x', 8000))) from (select top (60000) 1 as n from {ROWS}) t"
        ),
        Yes,
    );
    watched.case(
        "large values that are stored and read",
        1,
        LARGE_VALUES,
        Either,
    );
    watched.case(
        "large values that are sorted",
        1,
        "select count(*) from (select v, row_number() over (order by v, id) as n from v) w where n > 0 and v like '%1'",
        Either,
    );
    watched.case(
        "large values that are joined",
        1,
        "select sum(len(a.v)) from v a join v b on b.v = a.v",
        Either,
    );
    watched.case(
        "large values that are copied",
        1,
        "select v, id into w from v; if object_id('w') is not null select count(distinct v) from w",
        Either,
    );
    let terms = format!("select 1{}", ",1".repeat(1_500_000));
    watched.case("the tree of a long text", 1, &terms, Yes);
    drop(terms);
    let terms = format!("select 1{}", ",1".repeat(1_000_000));
    watched.case("long texts at a time", 4, &terms, Yes);
    drop(terms);
    let literal = format!("select len('{}')", "x".repeat(3_000_000));
    watched.case("a long literal", 1, &literal, Either);
    drop(literal);
    watched.case(
        "nothing special afterwards",
        4,
        "select count(*) from sys.all_objects",
        No,
    );
    watched.stopped.store(true, Ordering::Relaxed);
    assert!(work_bytes() < WORK_BYTES, "{} MiB stay", work_bytes() >> 20);
}

/// Statements that need little, whatever they read: on a server that has refused nothing before, since what a refused one took may
/// stay until a later statement.
#[test]
#[ignore = "runs in a child process"]
fn streams() {
    let watched = Watched::start();
    use Refused::No;
    let numbers = format!(
        "(select row_number() over (order by (select 1)) as n from (select top (1000000) 1 as x from {ROWS}) t) w"
    );
    watched.case(
        "a recursive query that doubles",
        8,
        "with r as (select 1 as n union all select n + 1 from r cross join (values (1), (2)) v(x) where n < 18) \
         select count(*) from r option (maxrecursion 0)",
        No,
    );
    watched.case(
        "captured rows",
        1,
        &format!(
            "create table #t (n nvarchar(300)); insert #t exec ('select top (400000) a.name + b.name from {ROWS}'); \
             insert #t select n + '' from #t"
        ),
        No,
    );
    watched.case(
        "a window over all rows",
        1,
        &format!(
            "select sum(n) from (select row_number() over (order by (select 1)) as n from (select top (3000000) 1 as x from {ROWS}) t) w"
        ),
        No,
    );
    watched.case(
        "many rows written, changed and sorted",
        1,
        &format!(
            "create table big (id int primary key, v int, w char(60)); insert big select n, n % 1000, 'w' from {numbers} where n <= 60000; \
             update big set v = v + 1; create index big_v on big (v, w); \
             select count(*) from (select top (40000) id from big order by w, v) t; delete big; select 1"
        ),
        No,
    );
    watched.case(
        "a series",
        1,
        "select count(*), sum(cast(value as bigint)) from generate_series(1, 2000000)",
        No,
    );
    watched.case("large values that are stored and read", 1, LARGE_VALUES, No);
    watched.stopped.store(true, Ordering::Relaxed);
}

/// What a statement took is given back when it has ended, whatever its end: no later one has to come for that.
#[test]
#[ignore = "runs in a child process"]
fn large_values_in_a_variable() {
    let watched = Watched::start();
    let mut client = client(&watched.program);
    let ended = client.batch("create table #t (a int); insert #t values (1); drop table #t");
    assert_eq!(ended.expect("answers").errors(), []);
    let before = work_bytes();
    for turn in 0..2 {
        let answer = client.batch(
            "declare @t table (a varchar(max)); \
             insert @t select top (20) replicate(cast('x' as varchar(max)), 5000000) from sys.all_columns",
        );
        assert_eq!(answer.expect("answers").errors(), []);
        let mut looks = 0;
        while work_bytes() - before > KEPT_BYTES {
            looks += 1;
            let kept = (work_bytes() - before) >> 20;
            assert!(looks < 600, "turn {turn}: {kept} MiB stay");
            thread::sleep(Duration::from_millis(100));
        }
    }
    watched.stopped.store(true, Ordering::Relaxed);
}

/// Statements of everyday work over a table of 12,000 keys, `~` being the number of the session.
const EVERYDAY: [&str; 12] = [
    "update p~ set g = g + 1, s = s + 'x'; update p~ set s = left(s, 12)",
    "update p~ set id = id + 20000; update p~ set id = id - 20000",
    "merge p~ as d using (select id + 6000 as id, g, s from t) x on d.id = x.id \
     when matched then update set s = x.s when not matched then insert (id, g, s) values (x.id, x.g, x.s) \
     when not matched by source then update set g = 0;",
    "delete p~ where id > 12000",
    "declare @n int; select @n = max(n) from (select row_number() over (order by s, g desc, id) n from t) x",
    "declare @n int, @s varchar(40); select @n = id, @s = s from t order by s desc, g",
    "declare @n int; select @n = count(*) from (select s, count(*) c, max(w) m from t group by s) x",
    "declare @n int; select @n = count(distinct s) + count(distinct w + s) from t",
    "declare @n int; select @n = count(*) from t a join p~ b on a.s = b.s join t c on c.id = b.id option (hash join)",
    "declare @t table (id int primary key, s varchar(40)); insert @t select id, s from t; \
     update @t set s = s + 'q'; declare @n int; select @n = count(*) from @t a join t on t.id = a.id",
    "create table #t (id int primary key, s varchar(40), index ix (s)); insert #t select id, s from t; \
     update #t set s = s + 'q'; drop table #t",
    "declare @n int; select @n = count(*) from t where s in (select s from p~ where g > 0) or g = -1",
];
const EVERYDAY_SESSIONS: usize = 16;
const EVERYDAY_ROUNDS: usize = 1;

/// Many sessions work on tables of some size: each takes what the others leave it, and none is refused.
#[test]
#[ignore = "runs in a child process"]
fn everyday_work() {
    let watched = Watched::start();
    let mut owner = client(&watched.program);
    let mut run = |text: &str| {
        let answer = owner.batch(text).expect("answers");
        assert_eq!(answer.errors(), [], "{text}");
    };
    run("create database d; alter database d set recovery simple");
    run(&format!(
        "use d; create table t (id int primary key, g int not null, s varchar(40) not null, w nvarchar(40)); \
         insert t select n, n % 500, 'row ' + cast(n as varchar(9)), 'some text' \
         from (select top (12000) row_number() over (order by (select 1)) as n from {ROWS}) x"
    ));
    for session in 0..=EVERYDAY_SESSIONS {
        run(&format!(
            "select * into p{session} from t; alter table p{session} add primary key (id)"
        ));
    }
    let of = |text: &str, session: usize| {
        format!(
            "use d; set nocount on; {}",
            text.replace('~', &session.to_string())
        )
    };
    for text in EVERYDAY {
        watched.case(text, 1, &of(text, EVERYDAY_SESSIONS), Refused::No);
    }
    let work = &|session: usize| {
        let mut client = client(&watched.program);
        for turn in 0..EVERYDAY_ROUNDS * EVERYDAY.len() {
            let text = EVERYDAY[(turn + session) % EVERYDAY.len()];
            let answer = client.batch(&of(text, session)).expect("answers");
            assert_eq!(answer.errors(), [], "{text}");
        }
    };
    watched.most.store(0, Ordering::Relaxed);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..EVERYDAY_SESSIONS)
            .map(|session| scope.spawn(move || work(session)))
            .collect();
        threads.into_iter().for_each(|t| t.join().expect("no 701"));
    });
    let most = watched.most.load(Ordering::Relaxed);
    println!("everyday work: {} MiB at most", most >> 20);
    assert!(most < WORK_BYTES + SLACK_BYTES, "{} MiB", most >> 20);
    watched.stopped.store(true, Ordering::Relaxed);
}

#[test]
#[ignore = "runs in a child process"]
fn requests_that_arrive() {
    let watched = Watched::start();
    let before = work_bytes();
    let sender = || {
        let mut client = client(&watched.program);
        // 40 MB of a batch that nobody keeps on this side.
        for number in 0..PACKETS {
            let packet = batch_packet(number, number + 1 == PACKETS);
            client.raw().write_all(&packet).expect("sends");
        }
        let answer = client.receive().expect("answers");
        let next = client.batch("select 1").expect("the session lives");
        assert_eq!(next.rows(), [vec![Value::Int(1)]]);
        answer.error_numbers()
    };
    let answers: Vec<Vec<i32>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(sender)).collect();
        let ended = threads.into_iter().map(|t| t.join().expect("no panic"));
        ended.collect()
    });
    watched.stopped.store(true, Ordering::Relaxed);
    let most = watched.most.load(Ordering::Relaxed) - before;
    println!("requests: {} MiB at most", most >> 20);
    assert!(most < WORK_BYTES + SLACK_BYTES, "{} MiB", most >> 20);
    assert!(answers.iter().flatten().all(|n| *n == 701), "{answers:?}");
    assert!(
        answers.iter().any(|numbers| numbers == &[701]),
        "{answers:?}"
    );
}

/// Texts and plans that are kept stand in nobody's way.
#[test]
#[ignore = "runs in a child process"]
fn texts_that_are_kept() {
    let watched = Watched::start();
    let mut client = client(&watched.program);
    let terms: Vec<String> = (0..300)
        .map(|n| format!("({n} + @@spid) as c{n}"))
        .collect();
    let terms = terms.join(", ");
    watched.most.store(0, Ordering::Relaxed);
    let before = work_bytes();
    for number in 0..1_000 {
        let text = format!("select {number} as n, {terms}");
        assert_eq!(client.batch(&text).expect("answers").errors(), []);
    }
    let kept = work_bytes() - before;
    println!("{} MiB are kept", kept >> 20);
    assert!(kept < WORK_BYTES / 2, "{} MiB are kept", kept >> 20);
    assert_eq!(
        client
            .batch("create table t (a int, b varchar(40))")
            .expect("answers")
            .errors(),
        []
    );
    // The tree of a long text is more than what is given to anybody.
    let row = format!("({}, '{}')", "1 + ".repeat(40) + "1", "x".repeat(30));
    let rows = vec![row; 1_000].join(", ");
    let answer = client
        .batch(&format!("insert t values {rows}"))
        .expect("answers");
    assert_eq!(answer.errors(), []);
    watched.stopped.store(true, Ordering::Relaxed);
}

/// A batch that writes for long holds no more than one that does not: what it wrote is the log's, and its versions the
/// database's.
#[test]
#[ignore = "runs in a child process"]
fn writes_without_end() {
    let watched = Watched::start();
    let mut client = client(&watched.program);
    let numbers =
        format!("(select top (1000) row_number() over (order by (select 1)) as n from {ROWS}) w");
    for (what, recovery) in [("classic", "off"), ("accelerated", "on")] {
        for text in [
            format!(
                "create database {what}; alter database {what} set recovery simple; \
                 alter database {what} set accelerated_database_recovery = {recovery}"
            )
            .as_str(),
            &format!(
                "use {what}; create table t (id int primary key, v int, w char(4000) not null)"
            ),
            // 80 MB of log by statements of 4 MB, then as much by one statement, and again.
            &format!(
                "set nocount on; declare @n int = 0; while @n < 20000 begin \
                 insert t select @n + n, 0, 'w' from {numbers}; set @n += 1000 end"
            ),
            "update t set v = 1, w = replicate('x', 4000)",
            "update t set v = 2, w = replicate('y', 4000) where id <= 10000; delete t where id > 10000",
        ] {
            let answer = client.batch(text).expect("answers");
            assert_eq!(answer.errors(), [], "{what}: {text}");
        }
        let answer = client
            .batch("select count(*), min(v) from t")
            .expect("answers");
        assert_eq!(answer.rows(), [vec![Value::Int(10_000), Value::Int(2)]]);
    }
    watched.stopped.store(true, Ordering::Relaxed);
}

/// What a statement changed may be more than memory holds; its triggers see all of it nevertheless.
#[test]
#[ignore = "runs in a child process"]
fn triggers_of_a_large_change() {
    let watched = Watched::start();
    let mut client = client(&watched.program);
    for text in [
        "create database d; alter database d set recovery simple".to_string(),
        "use d; create table t (id int primary key, v int not null, w char(400) not null); \
         create table seen (rows_before int, rows_after int, pairs int, sum_after bigint)"
            .to_string(),
        "create trigger watches on t after insert, update, delete as begin set nocount on; \
         insert seen select (select count(*) from deleted), (select count(*) from inserted), \
         (select count(*) from inserted i join deleted d on d.id = i.id and d.v = i.v - 1), \
         (select sum(cast(v as bigint)) from inserted) end"
            .to_string(),
        format!(
            "insert t select top (100000) row_number() over (order by (select 1)), 7, 'w' from {ROWS}"
        ),
        "update t set v = v + 1".to_string(),
        "delete t".to_string(),
    ] {
        let answer = client.batch(&text).expect("answers");
        assert_eq!(answer.errors(), [], "{text}");
    }
    let answer = client.batch("select * from seen").expect("answers");
    let (many, none) = (Value::Int(100_000), Value::Int(0));
    let sum = |n: i64| Value::BigInt(n * 100_000);
    assert_eq!(
        answer.rows(),
        [
            vec![none.clone(), many.clone(), none.clone(), sum(7)],
            vec![many.clone(), many.clone(), many.clone(), sum(8)],
            vec![many, none.clone(), none, Value::Null],
        ]
    );
    for text in [
        "create table big (id int primary key, v int not null, w varchar(max) not null); create table lengths (n bigint)",
        "create trigger measures on big after update as begin set nocount on; \
         insert lengths select sum(cast(len(w) as bigint)) from inserted end",
        "declare @n int = 0; while @n < 200 begin \
         insert big values (@n, 0, replicate(cast('x' as varchar(max)), 400000)); set @n += 1 end",
        "update big set v = 1",
    ] {
        let answer = client.batch(text).expect("answers");
        assert_eq!(answer.errors(), [], "{text}");
    }
    let answer = client.batch("select * from lengths").expect("answers");
    assert_eq!(answer.rows(), [vec![Value::BigInt(80_000_000)]]);
    watched.stopped.store(true, Ordering::Relaxed);
}

/// Statements that gather all their rows before they write the first, and rows that are long only once they are computed.
#[test]
#[ignore = "runs in a child process"]
fn changes_that_are_gathered() {
    let watched = Watched::start();
    let mut client = client(&watched.program);
    let mut run = |text: &str| {
        let answer = client.batch(text).expect("answers");
        assert_eq!(answer.errors(), [], "{text}");
        answer.rows().first().cloned().unwrap_or_default()
    };
    run("create database d; alter database d set recovery simple");
    run(
        "use d; create table t (id int primary key, code char(12) not null unique, w char(400) not null); \
         create table child (n int primary key, t int null references t (id) on update cascade on delete cascade, \
         w char(300) not null default 'c', index ix (t))",
    );
    let numbers =
        format!("(select top (60000) row_number() over (order by (select 1)) as n from {ROWS}) n");
    run(&format!(
        "insert t select n, 'c' + cast(n as varchar(9)), 'w' from {numbers}; \
         insert child (n, t) select id, id from t"
    ));
    // Each row takes the key of the next, and each child follows.
    run("update t set id = id + 1, w = 'moved'");
    let sums = "select count(*), min(id), max(id), (select sum(cast(t as bigint)) from child), \
                (select count(*) from child join t on t.id = child.t and t.code = 'c' + cast(child.n as varchar(9))) from t";
    let int = Value::Int;
    let total = Value::BigInt((2..=60_001).sum());
    assert_eq!(
        run(sums),
        [int(60_000), int(2), int(60_001), total, int(60_000)]
    );
    run("update t set code = 'd' + cast(60001 - id as varchar(9)) where id > 1");
    assert_eq!(
        run("select count(*) from t where code = 'd' + cast(60001 - id as varchar(9))"),
        [int(60_000)]
    );
    run(
        "merge t using (select id + 30000 as id, w from t) s on s.id = t.id \
         when matched then update set w = 'both', code = 'm' + cast(t.id as varchar(9)) \
         when not matched then insert values (s.id, 'n' + cast(s.id as varchar(9)), s.w) \
         when not matched by source then delete;",
    );
    assert_eq!(
        run(
            "select count(*), min(id), max(id), sum(iif(w = 'both', 1, 0)), (select count(*) from child) from t"
        ),
        [
            int(60_000),
            int(30_002),
            int(90_001),
            int(30_000),
            int(30_000)
        ]
    );
    assert_eq!(
        run("dbcc checktable ('t') with no_infomsgs; dbcc checktable ('child') with no_infomsgs"),
        []
    );
    run("delete t");
    assert_eq!(run("select count(*) from child"), [int(0)]);

    run(&format!(
        "insert t select n, cast(n as varchar(9)), 'w' from {numbers}"
    ));
    run("declare c scroll cursor for select id, w, w, w from t order by id; open c");
    run(
        "declare @id int, @a varchar(400), @b varchar(400), @c varchar(400); \
         fetch absolute 54321 from c into @id, @a, @b, @c; if @id <> 54321 throw 50000, 'absolute', 1; \
         fetch last from c into @id, @a, @b, @c; if @id <> 60000 throw 50000, 'last', 1; \
         fetch prior from c into @id, @a, @b, @c; if @id <> 59999 throw 50000, 'prior', 1; \
         fetch first from c into @id, @a, @b, @c; if @id <> 1 throw 50000, 'first', 1; \
         fetch prior from c into @id, @a, @b, @c; if @@fetch_status <> -1 throw 50000, 'before', 1; \
         fetch next from c into @id, @a, @b, @c; if @id <> 1 throw 50000, 'next', 1; deallocate c",
    );

    run(
        "create table long (id int identity primary key, a varchar(8000), b varchar(8000), c varchar(max))",
    );
    let long = "replicate('a', 8000) as a, replicate('b', 7000) as b, replicate(cast('c' as varchar(max)), 60000) as c";
    run(&format!(
        "insert long select top (700) {long} from sys.all_columns"
    ));
    run(&format!(
        "insert long select s.a, s.b, s.c from (select top (40) {long}, 1 as one from sys.all_columns) s \
         join (select top (20) 1 as one from sys.all_columns) m on m.one = s.one"
    ));
    // One long value has many partners, and columns of eight kilobytes make rows of 64.
    run(
        "create table doc (id int, body varchar(max)); create table ref (d int); \
         insert doc select top (1000) 2 + row_number() over (order by (select 1)), 'short' from sys.all_columns; \
         insert doc values (1, replicate(cast('x' as varchar(max)), 5000000)); \
         insert ref select top (2000) 1 from sys.all_columns",
    );
    assert_eq!(
        run(
            "select count(*), sum(cast(len(doc.body) as bigint)) from ref join doc on doc.id = ref.d option (hash join)"
        ),
        [int(2_000), Value::BigInt(10_000_000_000)]
    );
    run(
        "create table wide (a varchar(8000), b varchar(8000), c varchar(8000), d varchar(8000), e varchar(8000), f varchar(8000), \
         g varchar(8000), h varchar(8000)); \
         insert wide select top (1000) r, r, r, r, r, r, r, r from (select replicate('r', 8000) as r from sys.all_columns) x",
    );
    assert_eq!(
        run(
            "select count(*), len(max(a) + max(b)), len(max(c)), len(max(d)), len(max(e)), len(max(f)), len(max(g)), len(max(h)) from wide"
        ),
        [1_000, 8_000, 8_000, 8_000, 8_000, 8_000, 8_000, 8_000].map(int)
    );
    run(
        "create table l (id int identity primary key, s varchar(max) not null); \
         insert l select top (700) replicate(cast('s' as varchar(max)), 50000) from sys.all_columns; \
         update l set s = cast(id % 350 as varchar(9)) + s",
    );
    assert_eq!(
        run("select count(*), sum(n) from (select s, count(*) n from l group by s) g"),
        [int(350), int(700)]
    );
    assert_eq!(
        run("select count(*) from (select distinct s from l) g"),
        [int(350)]
    );
    assert_eq!(
        run("select count(*) from (select s from l union select s from l) g"),
        [int(350)]
    );
    assert_eq!(
        run("select count(*) from (select s from l except select s from l where id % 2 = 0) g"),
        [int(175)]
    );
    assert_eq!(
        run("select count(*) from (select s from l intersect select s from l where id <= 300) g"),
        [int(300)]
    );
    assert_eq!(
        run("select count(*), sum(cast(len(a) + len(b) + len(c) as bigint)) from long"),
        [int(1_500), Value::BigInt(1_500 * 75_000)]
    );
    watched.stopped.store(true, Ordering::Relaxed);
}

/// Resident memory of this process.
fn resident_bytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<i64>().ok());
    kilobytes.expect("a number") << 10
}

/// After a statement that took much, resident memory falls again by itself.
#[test]
#[ignore = "runs in a child process"]
fn memory_that_falls() {
    let watched = Watched::with_memory(2 << 30);
    let mut client = client(&watched.program);
    for text in [
        "create table t (id int primary key, n int not null, c char(300) not null)",
        &format!(
            "insert t select n, 0, 'c' from (select top (120000) row_number() over (order by (select 1)) as n from {ROWS}) w"
        ),
        "update t set n = 1 where id <= 2",
    ] {
        assert_eq!(client.batch(text).expect("answers").errors(), []);
    }
    let before = (resident_bytes(), work_bytes());
    watched.most.store(0, Ordering::Relaxed);
    // Values of a subquery that is asked beside another condition are held in memory.
    let answer = client
        .batch(
            "select count(*) from t where n = 5 or c + replicate('k', 800) + cast(id as varchar(9)) in (select c + replicate('k', 800) + cast(id as varchar(9)) from t)",
        )
        .expect("answers");
    assert_eq!(answer.errors(), []);
    assert_eq!(answer.rows(), [vec![Value::Int(120_000)]]);
    let taken = watched.most.load(Ordering::Relaxed) - before.1;
    assert!(taken > 100 << 20, "{} MiB were needed", taken >> 20);
    let bound = before.0 + taken / 2;
    let mut looks = 0;
    while resident_bytes() > bound {
        looks += 1;
        assert!(looks < 600, "{} MiB stay", resident_bytes() >> 20);
        thread::sleep(Duration::from_millis(100));
    }
    watched.stopped.store(true, Ordering::Relaxed);
}

const PACKETS: usize = 10_000;
const PACKET_BYTES: u16 = 4_096;

/// A packet of a batch: `select 1`, and blanks without end.
fn batch_packet(number: usize, is_last: bool) -> Vec<u8> {
    let mut packet = vec![1, u8::from(is_last)];
    packet.extend_from_slice(&PACKET_BYTES.to_be_bytes());
    packet.extend_from_slice(&[0, 0, number as u8, 0]);
    if number == 0 {
        packet.extend_from_slice(&[22, 0, 0, 0, 18, 0, 0, 0, 2, 0]);
        packet.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        packet.extend("select 1".encode_utf16().flat_map(u16::to_le_bytes));
    }
    while packet.len() < usize::from(PACKET_BYTES) {
        packet.extend_from_slice(&[b' ', 0]);
    }
    packet
}

/// Runs an ignored test of this program in a process of its own.
fn in_child(name: &str) {
    let program = std::env::current_exe().expect("this program");
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "ulimit -v {ADDRESS_KIB}; exec \"$0\" --exact {name} --ignored --nocapture"
        ))
        .arg(program)
        .env("MALLOC_ARENA_MAX", "2")
        .status()
        .expect("starts");
    assert!(status.success(), "{name}");
}

#[test]
fn statements_that_take_much_end_alone() {
    in_child("cases");
}

#[test]
fn statements_that_need_little_are_not_refused() {
    in_child("streams");
}

#[test]
fn statements_that_ended_leave_nothing_behind() {
    in_child("large_values_in_a_variable");
}

#[test]
fn sessions_that_work_side_by_side_are_not_refused() {
    in_child("everyday_work");
}

#[test]
fn texts_that_are_kept_leave_room_for_the_next() {
    in_child("texts_that_are_kept");
}

#[test]
fn a_batch_may_write_without_end() {
    in_child("writes_without_end");
}

#[test]
fn triggers_see_all_of_a_large_change() {
    in_child("triggers_of_a_large_change");
}

#[test]
fn statements_that_gather_their_rows_need_no_memory_for_all() {
    in_child("changes_that_are_gathered");
}

#[test]
fn memory_that_was_freed_goes_back_to_the_system() {
    in_child("memory_that_falls");
}

#[test]
fn requests_that_are_received_are_bounded_together() {
    in_child("requests_that_arrive");
}
