//! Limits as clients meet them, over connections of a whole server: each is an error with the product's number, and the
//! connection and the server go on.

mod common;

use common::{Client, Mode, PASSWORD, client, login, program_options, run};
use daruma_server::EncryptionPolicy;
use daruma_server::program::Program;
use daruma_tds::TdsVersion;
use std::path::Path;

fn start(data_dir: &Path) -> Program {
    let mut options = program_options(data_dir, EncryptionPolicy::Off);
    // The clients' memory, and that of the tests beside, counts as the server's here.
    options.memory_bytes = Some(4 << 30);
    Program::start(&options).expect("starts")
}

fn numbers(client: &mut Client, text: &str) -> Vec<i32> {
    client.batch(text).expect("answers").error_numbers()
}

fn works(client: &mut Client) {
    assert_eq!(run(client, "select 1").rows().len(), 1);
}

#[test]
fn statements_beyond_a_limit_spare_the_connection() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut c = client(&program);
    run(&mut c, "create table big (id int)");
    run(
        &mut c,
        "create procedure again @n int as begin if @n > 0 begin set @n = @n - 1; exec again @n end end",
    );
    let fixed = "create table f (a char(8000), b char(60))".to_string();
    let nested = format!("select {}1{}", "(".repeat(1_000), ")".repeat(1_000));
    let columns = format!("select 1{}", ", 1".repeat(4_096));
    let rows = format!("insert big values (1){}", ", (1)".repeat(1_000));
    let tables = format!(
        "select 1 from big t0{}",
        (1..3_000)
            .map(|n| format!(", big t{n}"))
            .collect::<String>()
    );
    let cases: [(&str, &[i32]); 6] = [
        (&fixed, &[1701]),
        (&nested, &[191]),
        (&columns, &[1056]),
        (&rows, &[10738]),
        (&tables, &[106]),
        ("exec again 40", &[217]),
    ];
    for (text, expected) in cases {
        let shown: String = text.chars().take(60).collect();
        assert_eq!(numbers(&mut c, text), expected, "{shown}");
        works(&mut c);
    }
    // As large as may be.
    run(&mut c, "create table g (a char(8000), b char(50))");
    run(&mut c, "exec again 30");
    drop(c);
    program.stop().expect("stops");
}

#[test]
fn a_batch_of_too_many_words_is_refused_before_it_is_held() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut c = client(&program);
    let list = format!("select 1 where 1 in (0{})", ",1".repeat(3_000_000));
    assert_eq!(numbers(&mut c, &list), [701]);
    works(&mut c);
    let list = format!("select 1 where 1 in (0{})", ",1".repeat(200_000));
    assert_eq!(run(&mut c, &list).rows().len(), 1);
    drop(c);
    program.stop().expect("stops");
}

#[test]
fn planning_can_be_cancelled() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let (mut c, mut bystander) = (client(&program), client(&program));
    run(&mut c, "create table a (k int primary key, v int)");
    run(&mut c, "insert a values (1, 1), (2, 2), (3, 3)");
    let join = format!(
        "select count(*) from a t0{}",
        (1..12)
            .map(|n| format!(
                " join a t{n} on t{n}.v = t{}.v + t0.k and t{n}.k <> t{}.v",
                n - 1,
                n - 1
            ))
            .collect::<String>()
    );
    let list = format!(
        "select count(*) from a where v in (0{})",
        (1..400_000).map(|n| format!(", {n}")).collect::<String>()
    );
    let tables = format!(
        "select count(*) from a t0{}",
        (1..200)
            .map(|n| format!(" join a t{n} on t{n}.k = t{}.k", n - 1))
            .collect::<String>()
    );
    for text in [&join, &list, &tables] {
        // At any time: before, while and after it is planned.
        for _ in 0..3 {
            c.send_batch(text).expect("sends");
            c.attention().expect("sends");
            let answer = c.receive_cancelled().expect("answers");
            assert_eq!(answer.error_numbers(), [0; 0]);
            works(&mut c);
            works(&mut bystander);
        }
        assert_eq!(run(&mut c, text).rows().len(), 1);
    }
    drop((c, bystander));
    program.stop().expect("stops");
}

#[test]
fn user_connections_bound_the_crowd() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut c = client(&program);
    run(
        &mut c,
        "exec sp_configure 'show advanced options', 1; reconfigure",
    );
    run(
        &mut c,
        "exec sp_configure 'user connections', 5; reconfigure",
    );
    drop(c);
    program.stop().expect("stops");
    // As in the product, the option is in use after a restart.
    let program = start(dir.path());
    let mut inside: Vec<Client> = (0..5).map(|_| client(&program)).collect();
    for _ in 0..20 {
        let login = login("sa", PASSWORD, TdsVersion::V7_4);
        let refused = Client::log_in(program.address(), Mode::Plain, &login);
        assert!(refused.is_err(), "a sixth connection");
    }
    inside.iter_mut().for_each(works);
    let log = program.instance().log.read(0).expect("reads");
    let told = log.iter().filter(|l| l.text.contains("17809")).count();
    assert_eq!(told, 20);
    drop(inside);
    program.stop().expect("stops");
}

#[test]
fn a_client_that_leaves_while_it_is_answered_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut c = client(&program);
    run(&mut c, "create table t (id int primary key)");
    for _ in 0..5 {
        let mut gone = client(&program);
        gone.send_batch(
            "begin tran; insert t values (1); \
             select a.name, b.name from sys.all_columns a cross join sys.all_columns b",
        )
        .expect("sends");
        gone.receive_packet().expect("a packet before the end");
        drop(gone);
        // Its transaction goes with it: the row waits for that and is free.
        assert_eq!(run(&mut c, "select count(*) from t").rows().len(), 1);
        run(&mut c, "insert t values (1); delete t");
    }
    drop(c);
    program.stop().expect("stops");
}
