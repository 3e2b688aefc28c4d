//! Running batches and commands: what `daruma sql` does, apart from where its input comes from.

use super::help;
use super::layout::{Format, Layout, ResultWriter};
use super::output::{Output, Sink};
use super::script::{Batcher, Command, Step};
use super::variables::Variables;
use clap::ValueEnum;
use daruma_client::client::{Client, ClientError, Event, Options, Reply, message_text};
use daruma_client::connect::parse_server;
use daruma_client::value;
use daruma_tds::login::Secret;
use daruma_tds::token::ServerMessage;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Scripts that read each other go no deeper.
const READ_DEPTH_MAX: u32 = 32;
/// A line of a script is not longer than this.
const LINE_BYTES_MAX: u64 = 1 << 30;

/// State in RAISERROR that ends the whole script.
const STATE_QUIT: u8 = 127;
const EXIT_CANCELLED: i32 = 130;

/// What a line of input leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Exit(i32),
}

/// How errors and timings are treated.
#[derive(Clone, Debug, Default)]
pub struct Manners {
    /// `-b`, `:on error exit`
    pub exit_on_error: bool,
    /// `-V`: errors of at least this class end the script, with the class as exit code.
    pub exit_class: Option<u8>,
    /// `-m`: messages below this class are not shown; -1 shows the head lines of all.
    pub class_shown_min: i16,
    pub echo: bool,
    pub timing: bool,
    pub statistics: bool,
    pub interactive: bool,
    pub substitute: bool,
    pub terminator: String,
}

/// A connection, what is shown of its results, and what the user has set.
pub struct Session {
    pub client: Option<Client>,
    pub options: Options,
    pub variables: Variables,
    pub layout: Layout,
    pub output: Output,
    pub manners: Manners,
    pub semicolon: bool,
    cancel: Arc<AtomicBool>,
    /// True while nothing runs: Ctrl-C ends the program then.
    idle: Arc<AtomicBool>,
    depth: u32,
}

/// What a batch came to.
#[derive(Debug, Default)]
struct Outcome {
    class_max: u8,
    quit: bool,
    results: u64,
    first_value: Option<i32>,
}

impl Session {
    /// A session over an open connection.
    pub fn new(
        client: Client,
        options: Options,
        output: Output,
        layout: Layout,
        manners: Manners,
    ) -> Session {
        let cancel = Arc::new(AtomicBool::new(false));
        let mut session = Session {
            client: None,
            options,
            variables: Variables::default(),
            layout,
            output,
            manners,
            semicolon: false,
            cancel,
            idle: Arc::new(AtomicBool::new(true)),
            depth: 0,
        };
        session.adopt(client);
        session
    }

    /// Ctrl-C cancels what runs; a second one, or one while nothing runs, ends the program.
    pub fn catch_interrupts(&self) -> io::Result<()> {
        use signal_hook::consts::SIGINT;
        use signal_hook::flag::{register, register_conditional_shutdown};
        register_conditional_shutdown(SIGINT, EXIT_CANCELLED, Arc::clone(&self.idle))?;
        register_conditional_shutdown(SIGINT, EXIT_CANCELLED, Arc::clone(&self.cancel))?;
        register(SIGINT, Arc::clone(&self.cancel)).map(drop)
    }

    fn adopt(&mut self, mut client: Client) {
        client.set_cancel_flag(Arc::clone(&self.cancel));
        self.client = Some(client);
    }

    /// Runs a script to its end.
    pub fn script(&mut self, input: impl BufRead) -> io::Result<Flow> {
        let mut batcher = self.batcher();
        match self.read_lines(input, &mut batcher)? {
            Flow::Continue => {
                let rest = batcher.take();
                self.batch(&rest, 1)
            }
            exit => Ok(exit),
        }
    }

    /// A batcher with the session's terminator.
    pub fn batcher(&self) -> Batcher {
        Batcher::new(&self.manners.terminator, self.manners.substitute)
    }

    /// One line of a script or of the shell.
    pub fn line(&mut self, batcher: &mut Batcher, line: &str) -> io::Result<Flow> {
        if self.manners.echo {
            writeln!(
                self.output.results,
                "{}",
                line.trim_end_matches(['\n', '\r'])
            )?;
        }
        match batcher.line(line, &self.variables) {
            Step::More if self.semicolon && batcher.ends_with_semicolon() => {
                let batch = batcher.take();
                self.batch(&batch, 1)
            }
            Step::More => Ok(Flow::Continue),
            Step::Go { batch, count } => self.batch(&batch, count),
            Step::Command(command) => self.command(command, batcher),
            Step::Undefined(name) => self.fatal(&format!("'{name}' scripting variable not defined.")),
            Step::BadGo => self.fatal("A fatal scripting error occurred.\nIncorrect syntax was encountered while parsing GO."),
        }
    }

    /// An error in the script itself ends it; the shell goes on.
    fn fatal(&mut self, text: &str) -> io::Result<Flow> {
        self.complain(text)?;
        Ok(if self.manners.interactive {
            Flow::Continue
        } else {
            Flow::Exit(1)
        })
    }

    /// Shows an error of the shell's own.
    pub fn complain(&mut self, text: &str) -> io::Result<()> {
        let away = !self.layout.is_for_people() || !self.manners.interactive;
        self.output.message(text, true, away)
    }

    /// Runs a batch `count` times.
    pub fn batch(&mut self, text: &str, count: u32) -> io::Result<Flow> {
        if text.trim().is_empty() {
            return Ok(Flow::Continue);
        }
        let begun = Instant::now();
        for _ in 0..count {
            let outcome = match self.run(text)? {
                Ok(outcome) => outcome,
                Err(flow) => return Ok(flow),
            };
            if let Some(exit) = self.exit_code(&outcome) {
                self.output.results.flush()?;
                return Ok(Flow::Exit(exit));
            }
        }
        self.report_time(begun.elapsed(), count)?;
        self.output.results.flush()?;
        Ok(Flow::Continue)
    }

    fn exit_code(&self, outcome: &Outcome) -> Option<i32> {
        if outcome.quit {
            return Some(1);
        }
        match self.manners.exit_class {
            Some(least) if outcome.class_max >= least => return Some(outcome.class_max.into()),
            _ => {}
        }
        (self.manners.exit_on_error && outcome.class_max > 10).then_some(1)
    }

    /// One run of one batch. The inner error says how to go on after the connection failed or the batch was cancelled.
    fn run(&mut self, text: &str) -> io::Result<Result<Outcome, Flow>> {
        if let Err(error) = self.reconnect() {
            return self.failed(&error).map(Err);
        }
        let Some(client) = &mut self.client else {
            return Ok(Err(Flow::Exit(1)));
        };
        self.cancel.store(false, Ordering::Relaxed);
        self.idle.store(false, Ordering::Relaxed);
        let mut outcome = Outcome::default();
        let printer = Printer {
            layout: &self.layout,
            output: &mut self.output,
            manners: &self.manners,
        };
        let done = match client.batch(text) {
            Ok(reply) => printer.print(reply, &mut outcome),
            Err(error) => Err(Failure::Client(error)),
        };
        self.idle.store(true, Ordering::Relaxed);
        match done {
            Ok(()) => Ok(Ok(outcome)),
            Err(Failure::Io(error)) => Err(error),
            Err(Failure::Client(error)) => self.failed(&error).map(Err),
        }
    }

    /// A lost connection is made anew with the next batch of the shell.
    fn reconnect(&mut self) -> Result<(), ClientError> {
        if self.client.is_none() {
            let client = Client::connect(&self.options)?;
            self.adopt(client);
        }
        Ok(())
    }

    fn failed(&mut self, error: &ClientError) -> io::Result<Flow> {
        let text = match error {
            ClientError::Cancelled => "Query cancelled by user.".to_string(),
            ClientError::QueryTimeout { .. } => "Timeout expired.".to_string(),
            other => other.to_string(),
        };
        self.complain(&text)?;
        if error.is_fatal()
            && let Some(lost) = self.client.take()
        {
            self.options.database = lost.database().to_string();
        }
        self.output.results.flush()?;
        Ok(match error {
            _ if self.manners.interactive => Flow::Continue,
            ClientError::Cancelled => Flow::Exit(EXIT_CANCELLED),
            ClientError::QueryTimeout { .. } if !self.manners.exit_on_error => Flow::Continue,
            _ => Flow::Exit(1),
        })
    }

    fn report_time(&mut self, elapsed: Duration, count: u32) -> io::Result<()> {
        let milliseconds = elapsed.as_secs_f64() * 1000.0;
        if self.manners.timing {
            self.output.message(
                &format!("Time: {}", time_text(elapsed)),
                false,
                !self.layout.is_for_people(),
            )?;
        }
        if self.manners.statistics {
            let packet = self.client.as_ref().map_or(0, Client::packet_bytes);
            let average = milliseconds / f64::from(count.max(1));
            let rate = if average > 0.0 { 1000.0 / average } else { 0.0 };
            let text = format!(
                "\nNetwork packet size (bytes): {packet}\n{count} xact[s]:\nClock Time (ms.): total {milliseconds:9.0}  avg {average:8.2} ({rate:.2} xacts per sec.)"
            );
            self.output
                .message(&text, false, !self.layout.is_for_people())?;
        }
        Ok(())
    }

    fn command(&mut self, command: Command, batcher: &mut Batcher) -> io::Result<Flow> {
        match command {
            Command::Read(path) => return self.read(&path, batcher),
            Command::SetVar(name, Some(value)) => self.variables.set(&name, value),
            Command::SetVar(name, None) => self.variables.unset(&name),
            Command::ListVar => {
                let list: Vec<String> = self
                    .variables
                    .list()
                    .map(|(name, value)| format!("{name} = \"{value}\""))
                    .collect();
                self.say(&list.join("\n"))?;
            }
            Command::Out(name) => {
                self.output.results.flush()?;
                match Sink::named(&name) {
                    Ok(sink) => self.output.results = sink,
                    Err(error) => return self.fatal(&format!("cannot write {name}: {error}")),
                }
            }
            Command::ErrorOut(name) => match Sink::named(&name) {
                Ok(sink) => self.output.errors = Some(sink),
                Err(error) => return self.fatal(&format!("cannot write {name}: {error}")),
            },
            Command::OnErrorExit(exit) => self.manners.exit_on_error = exit,
            Command::Reset => drop(batcher.take()),
            Command::List => {
                let text = batcher.text().trim_end().to_string();
                self.say(&text)?;
            }
            Command::Help => self.say(help::COMMANDS.trim())?,
            Command::Quit => return Ok(Flow::Exit(0)),
            Command::Exit(query) => return self.exit(query, batcher),
            Command::Connect(text) => return self.connect(&text),
            Command::Timing => {
                self.manners.timing = !self.manners.timing;
                self.say(if self.manners.timing {
                    "Timing is on."
                } else {
                    "Timing is off."
                })?;
            }
            Command::Format(name) => match Format::from_str(&name, true) {
                Ok(format) => self.layout.format = format,
                Err(_) => return self.fatal("expected table, csv, json or list after :format"),
            },
            Command::Semicolon => {
                self.semicolon = !self.semicolon;
                self.say(if self.semicolon {
                    "A semicolon at the end of a line runs the batch."
                } else {
                    "GO runs the batch."
                })?;
            }
            Command::Tables(pattern) => return self.batch(&help::tables_query(&pattern), 1),
            Command::NotSupported(name) => return self.fatal(&format!("{name} is not supported.")),
            Command::Wrong(text) => {
                return self.fatal(&format!("A fatal scripting error occurred.\nIncorrect syntax was encountered while parsing '{text}'. :help lists the commands."));
            }
        }
        Ok(Flow::Continue)
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.output
            .message(text, false, !self.layout.is_for_people())?;
        self.output.results.flush()
    }

    /// `:r`: the lines of a file take the place of the command.
    fn read(&mut self, path: &str, batcher: &mut Batcher) -> io::Result<Flow> {
        let file = match open_script(Path::new(path)) {
            Ok(file) if self.depth < READ_DEPTH_MAX => file,
            Ok(_) => {
                return self.fatal(&format!(
                    "'{path}': scripts read each other more than {READ_DEPTH_MAX} deep"
                ));
            }
            Err(error) => return self.fatal(&format!("'{path}': Invalid filename. {error}")),
        };
        self.depth += 1;
        let flow = self.read_lines(file, batcher);
        self.depth -= 1;
        flow
    }

    fn read_lines(&mut self, mut input: impl BufRead, batcher: &mut Batcher) -> io::Result<Flow> {
        let mut bytes = Vec::new();
        let mut first = true;
        loop {
            bytes.clear();
            if (&mut input)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut bytes)?
                == 0
            {
                return Ok(Flow::Continue);
            }
            let flow = self.line(batcher, &decode(&bytes, first))?;
            first = false;
            if flow != Flow::Continue {
                return Ok(flow);
            }
        }
    }

    /// `:exit`, `:exit()`, `:exit(query)`: nothing, the batch, or the batch and the query; its first value is the code.
    fn exit(&mut self, query: Option<String>, batcher: &mut Batcher) -> io::Result<Flow> {
        let Some(query) = query else {
            return Ok(Flow::Exit(0));
        };
        let text = format!("{}{query}", batcher.take());
        if text.trim().is_empty() {
            return Ok(Flow::Exit(0));
        }
        let outcome = match self.run(&text)? {
            Ok(outcome) => outcome,
            Err(_) => return Ok(Flow::Exit(1)),
        };
        self.output.results.flush()?;
        let code = self.exit_code(&outcome).or(outcome.first_value);
        Ok(Flow::Exit(code.unwrap_or(-100)))
    }

    /// `:connect SERVER [-l seconds] [-U login [-P password]]`
    fn connect(&mut self, text: &str) -> io::Result<Flow> {
        let mut options = self.options.clone();
        let mut words = text.split_whitespace();
        let server = words.next().unwrap_or_default();
        match parse_server(server) {
            Ok((host, port)) => (options.host, options.port) = (host, port),
            Err(error) => return self.fatal(&error.to_string()),
        }
        while let Some(flag) = words.next() {
            match (flag, words.next()) {
                ("-U", Some(user)) => options.user = user.into(),
                ("-P", Some(password)) => options.password = Secret::new(password),
                ("-l", Some(seconds)) if seconds.parse::<u64>().is_ok() => {
                    options.login_timeout = seconds
                        .parse()
                        .ok()
                        .and_then(daruma_client::connect::seconds);
                }
                _ => {
                    return self
                        .fatal(":connect takes SERVER [-l SECONDS] [-U LOGIN [-P PASSWORD]]");
                }
            }
        }
        options.database = String::new();
        match Client::connect(&options) {
            Ok(client) => {
                self.options = options;
                self.adopt(client);
                self.say(&format!(
                    "Sqlcmd: Successfully connected to server '{server}'."
                ))?;
                Ok(Flow::Continue)
            }
            Err(error) => self.fatal(&error.to_string()),
        }
    }
}

enum Failure {
    Io(io::Error),
    Client(ClientError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// Writes one reply.
struct Printer<'a> {
    layout: &'a Layout,
    output: &'a mut Output,
    manners: &'a Manners,
}

impl Printer<'_> {
    fn print(mut self, mut reply: Reply<'_>, outcome: &mut Outcome) -> Result<(), Failure> {
        let mut writer: Option<ResultWriter<'_>> = None;
        let ended = loop {
            let next = match reply.poll_event() {
                Ok(Poll::Ready(event)) => Ok(event),
                // While the server works, all that it has said is shown.
                Ok(Poll::Pending) => {
                    self.output.results.flush()?;
                    reply.next_event()
                }
                Err(error) => Err(error),
            };
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => break Ok(()),
                Err(error) => break Err(Failure::Client(error)),
            };
            match event {
                Event::Columns(columns) => {
                    if let Some(last) = writer.take() {
                        last.end(&mut self.output.results)?;
                    }
                    if !columns.is_empty() {
                        writer = Some(ResultWriter::begin(
                            self.layout,
                            columns,
                            outcome.results,
                            &mut self.output.results,
                        )?);
                        outcome.results += 1;
                    }
                }
                Event::Row(row) => {
                    if outcome.first_value.is_none() {
                        outcome.first_value = Some(
                            row.first()
                                .and_then(|value| value::text(value).parse().ok())
                                .unwrap_or(-101),
                        );
                    }
                    if let Some(writer) = &mut writer {
                        writer.row(&row, &mut self.output.results)?;
                    }
                }
                Event::Message(message) => {
                    outcome.class_max = outcome.class_max.max(message.class);
                    outcome.quit |= message.is_error() && message.state == STATE_QUIT;
                    if let Some(writer) = &mut writer {
                        writer.flush(&mut self.output.results)?;
                    }
                    self.message(&message)?;
                }
                Event::Done(done) => {
                    if let Some(last) = writer.take() {
                        last.end(&mut self.output.results)?;
                    }
                    if let Some(count) = done.count().filter(|_| self.layout.is_for_people()) {
                        let rows = if count == 1 { "row" } else { "rows" };
                        writeln!(self.output.results, "\n({count} {rows} affected)")?;
                    }
                }
                Event::ReturnStatus(_) | Event::ReturnValue(_) => {}
            }
        };
        if let Some(last) = writer {
            last.end(&mut self.output.results)?;
        }
        ended
    }

    fn message(&mut self, message: &ServerMessage) -> io::Result<()> {
        let least = self.manners.class_shown_min;
        if i16::from(message.class) < least {
            return Ok(());
        }
        let text = if message.is_error() || least < 0 {
            message_text(message)
        } else {
            message.text.clone()
        };
        self.output
            .message(&text, message.is_error(), !self.layout.is_for_people())
    }
}

/// A script in UTF-8, or in UTF-16 with the mark that other editors put in front of it.
pub fn open_script(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut input = BufReader::new(File::open(path)?);
    let unit: fn([u8; 2]) -> u16 = match input.fill_buf()? {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return Ok(Box::new(input)),
    };
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let units = bytes
        .as_chunks::<2>()
        .0
        .iter()
        .skip(1)
        .map(|pair| unit(*pair));
    let text: String = char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    Ok(Box::new(Cursor::new(text)))
}

/// A line of UTF-8, without the mark some editors put in front. Broken bytes become replacement characters.
fn decode(line: &[u8], first: bool) -> String {
    let line = if first {
        line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
    } else {
        line
    };
    String::from_utf8_lossy(line).into_owned()
}

fn time_text(elapsed: Duration) -> String {
    let milliseconds = elapsed.as_secs_f64() * 1000.0;
    match elapsed.as_secs() {
        0..10 => format!("{milliseconds:.3} ms"),
        10..60 => format!("{:.3} s", milliseconds / 1000.0),
        seconds => format!(
            "{}:{:02}:{:02} ({:.3} s)",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            milliseconds / 1000.0
        ),
    }
}
