//! Scripts from beginning to end, against a server that answers as told.

use super::layout::Layout;
use super::output::{Output, Redirect, Sink};
use super::session::{Flow, Manners, Session};
use crate::sql::Format;
use daruma_client::client::fake::{Answer, PASSWORD, Request, serve};
use daruma_client::client::{Client, EncryptionWish, Options};
use daruma_tds::login::Secret;
use daruma_value::{DataType, Len, Value};
use std::sync::{Arc, Mutex};

/// `rows`: two rows; `bad`: an error; `seven`: that number; else the text comes back as a message.
fn answer(request: Request) -> Answer {
    let Request::Batch(text) = request else {
        return Answer::default();
    };
    match text.trim() {
        "rows" => {
            let rows = [
                vec![Value::Int(1), Value::str("one")],
                vec![Value::Int(22), Value::Null],
            ];
            Answer::default().rows(
                &[("n", DataType::Int), ("name", DataType::VarChar(Len(9)))],
                &rows,
            )
        }
        "insert" => Answer::default().count(1),
        "bad" => Answer::default().message(208, 16, "Invalid object name 'bad'."),
        "seven" => Answer::default().rows(&[("", DataType::Int)], &[vec![Value::Int(7)]]),
        other => Answer::default().message(0, 0, &format!("<{other}>")),
    }
}

fn run_with(script: &str, layout: Layout, manners: Manners) -> (String, Flow) {
    let port = serve(None, answer);
    let options = Options {
        password: Secret::new(PASSWORD),
        encryption: EncryptionWish::Optional,
        ..Options::new("localhost", port)
    };
    let client = Client::connect(&options).expect("connects");
    let memory = Arc::new(Mutex::new(Vec::new()));
    let output = Output {
        results: Sink::Memory(Arc::clone(&memory)),
        errors: None,
        redirect: Redirect::None,
        colour: false,
    };
    let manners = Manners {
        substitute: true,
        terminator: "GO".into(),
        ..manners
    };
    let mut session = Session::new(client, options, output, layout, manners);
    session.variables.set("who", "me");
    let flow = session.script(script.as_bytes()).expect("runs");
    let text = String::from_utf8(memory.lock().expect("text").clone()).expect("text");
    (text, flow)
}

fn run(script: &str) -> (String, Flow) {
    run_with(script, Layout::default(), Manners::default())
}

#[test]
fn batches_run_in_order_and_the_last_without_go() {
    let (text, flow) = run("one\nGO 2\n\nGO\nrows\nGO\ninsert\ngo\n$(who)");
    let expected = "<one>\n<one>\nn  name\n-- ----\n 1 one\n22 NULL\n\n(2 rows affected)\n\n(1 row affected)\n<me>\n";
    assert_eq!(text, expected);
    assert_eq!(flow, Flow::Continue);
}

#[test]
fn errors_have_their_head_line_and_end_the_script_on_request() {
    let (text, flow) = run("bad\nGO\nnext");
    assert_eq!(
        text,
        "Msg 208, Level 16, State 1, Server FAKE, Line 3\nInvalid object name 'bad'.\n<next>\n"
    );
    assert_eq!(flow, Flow::Continue);
    let manners = Manners {
        exit_on_error: true,
        ..Manners::default()
    };
    let (text, flow) = run_with("bad\nGO\nnext", Layout::default(), manners);
    assert!(!text.contains("next"));
    assert_eq!(flow, Flow::Exit(1));
    let manners = Manners {
        exit_class: Some(16),
        ..Manners::default()
    };
    assert_eq!(
        run_with("bad\nGO\nnext", Layout::default(), manners).1,
        Flow::Exit(16)
    );
    assert_eq!(run(":on error exit\nbad\nGO\nnext").1, Flow::Exit(1));
}

#[test]
fn exit_takes_its_code_from_a_query() {
    assert_eq!(run("exit(seven)").1, Flow::Exit(7));
    assert_eq!(run(":exit(insert)").1, Flow::Exit(-100));
    assert_eq!(
        run("one\nGO\nquit\nnever\nGO"),
        ("<one>\n".into(), Flow::Exit(0))
    );
}

#[test]
fn results_for_programs_hold_nothing_else() {
    let csv = Layout {
        format: Format::Csv,
        ..Layout::default()
    };
    assert_eq!(
        run_with("rows\nGO\ninsert\nGO\nbad", csv.clone(), Manners::default()).0,
        "n,name\n1,one\n22,\n"
    );
    assert_eq!(
        run_with(
            "seven\nGO",
            Layout {
                header_rows: -1,
                ..csv
            },
            Manners::default()
        )
        .0,
        "7\n"
    );
}

#[test]
fn scripts_read_scripts_and_set_variables() {
    let path = std::env::temp_dir().join(format!("daruma-sql-{}.sql", std::process::id()));
    std::fs::write(&path, "\u{feff}:setvar who you\nin $(who)\nGO\n").expect("writes");
    let script = format!(
        ":setvar dir \"{}\"\n:r $(dir)\nout $(WHO)\nGO\n:setvar who\n$(who)\nGO",
        path.display()
    );
    let (text, flow) = run(&script);
    std::fs::remove_file(&path).expect("removes");
    assert_eq!(text, "<in you>\n<out you>\n");
    assert_eq!(flow, Flow::Exit(1));
}

#[test]
fn a_script_that_reads_itself_ends() {
    let path = std::env::temp_dir().join(format!("daruma-loop-{}.sql", std::process::id()));
    std::fs::write(&path, format!(":r {}\n", path.display())).expect("writes");
    let flow = run(&format!(":r {}\n", path.display())).1;
    std::fs::remove_file(&path).expect("removes");
    assert_eq!(flow, Flow::Exit(1));
}

#[test]
fn scripts_may_be_in_utf_16() {
    let path = std::env::temp_dir().join(format!("daruma-utf16-{}.sql", std::process::id()));
    let bytes: Vec<u8> = "\u{feff}größe\r\nGO\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    std::fs::write(&path, bytes).expect("writes");
    let (text, _) = run(&format!(":r {}\n", path.display()));
    std::fs::remove_file(&path).expect("removes");
    assert_eq!(text, "<größe>\n");
}

#[derive(clap::Parser)]
#[command(disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    sql: super::SqlArgs,
}

#[test]
fn flags_of_sqlcmd_without_a_meaning_here_are_taken_or_explained() {
    let parse = |line: &str| <Line as clap::Parser>::try_parse_from(line.split(' '));
    assert!(parse("sql -I -R -u -X 1 -f 65001 -Q x").is_ok());
    let args = parse("sql -E -Q x").map(|line| line.sql).expect("parses");
    let told = super::start(&args).map_err(|e| e.to_string());
    assert!(told.is_err_and(|e| e.contains("-U and -P")));
}
