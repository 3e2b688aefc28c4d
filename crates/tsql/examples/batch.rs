//! Runs SQL files (batches separated by GO) against a server in memory and prints what a client would see.
//!
//! `cargo run -p daruma-tsql --example batch -- FILE...`

#[path = "../tests/common/mod.rs"]
mod common;

use common::Server;

fn main() {
    let server = Server::new();
    let mut client = server.connect();
    for file in std::env::args().skip(1) {
        let script = match std::fs::read_to_string(&file) {
            Ok(script) => script,
            Err(error) => {
                eprintln!("{file}: {error}");
                std::process::exit(1);
            }
        };
        for batch in script
            .split_inclusive('\n')
            .fold(vec![String::new()], gather)
        {
            print!("{}", client.run(&batch));
        }
    }
}

/// Adds a line to the last batch; GO begins the next.
fn gather(mut batches: Vec<String>, line: &str) -> Vec<String> {
    match (line.trim().eq_ignore_ascii_case("GO"), batches.last_mut()) {
        (false, Some(last)) => last.push_str(line),
        _ => batches.push(String::new()),
    }
    batches
}
