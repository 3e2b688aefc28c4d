//! A small server, a monitor of it, and a browser's half of HTTP.

#![allow(dead_code, reason = "each test program uses its own part")]

use daruma_client::client::{Client, EncryptionWish, Options};
use daruma_client::value;
use daruma_monitor::{Monitor, MonitorOptions};
use daruma_server::program::{Program, ProgramOptions};
use daruma_server::{EncryptionPolicy, LogCompression};
use daruma_tds::login::Secret;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The password of `sa`.
pub const PASSWORD: &str = "Monitor-in-a-test-1";
/// How long something may take that is sure to come.
const PATIENCE: Duration = Duration::from_secs(300);

/// A server on a free port.
pub fn server(data_dir: &Path) -> Program {
    let options = ProgramOptions {
        data_dir: data_dir.to_path_buf(),
        listen: "127.0.0.1:0".into(),
        folders: Default::default(),
        server_name: None,
        trace_flags: Vec::new(),
        log_compression: LogCompression::default(),
        without_logon_triggers: false,
        sa_password: Some(PASSWORD.into()),
        memory_bytes: Some(96 << 20),
        encryption: EncryptionPolicy::Off,
        certificate: None,
        limits: Vec::new(),
        log_echo: None,
    };
    Program::start(&options).expect("the server starts")
}

/// How to log in there.
pub fn options(program: &Program) -> Options {
    Options {
        password: Secret::new(PASSWORD),
        encryption: EncryptionWish::Optional,
        ..Options::new("127.0.0.1", program.address().port())
    }
}

/// A connection to it.
pub fn client(program: &Program) -> Client {
    Client::connect(&options(program)).expect("connects")
}

/// A monitor that watches it and keeps its history there.
pub fn monitor(program: &Program) -> Monitor {
    Monitor::start(&MonitorOptions::new(options(program))).expect("the monitor starts")
}

/// Flushes of all logs since the server's start.
pub fn log_flushes(client: &mut Client) -> f64 {
    let rows = client
        .query("SELECT cntr_value FROM sys.dm_os_performance_counters WHERE counter_name = 'Log Flushes/sec' AND instance_name = '_Total'")
        .expect("counts");
    value::text(&rows[0][0]).parse().expect("a number")
}

/// Waits for something that must come.
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// A header's value; empty without it.
    pub fn header(&self, name: &str) -> &str {
        let line = self
            .head
            .lines()
            .find(|line| line.to_lowercase().starts_with(&format!("{name}:")));
        line.and_then(|line| line.split_once(':'))
            .map_or("", |(_, value)| value.trim())
    }
}

/// A browser that keeps one cookie.
pub struct Page {
    port: u16,
    pub cookie: String,
    pub origin: String,
    pub host: String,
}

impl Page {
    /// At a monitor.
    pub fn of(monitor: &Monitor) -> Page {
        let port = monitor.address().expect("listens").port();
        let mut page = Page {
            port,
            cookie: String::new(),
            origin: String::new(),
            host: String::new(),
        };
        page.origin = page.own_origin();
        page.host = page.own_host();
        page
    }

    /// Its own origin.
    pub fn own_origin(&self) -> String {
        format!("http://{}", self.own_host())
    }

    /// Its own name.
    pub fn own_host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// GET.
    pub fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, "application/json", "")
    }

    /// POST of JSON.
    pub fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send("POST", path, "application/json", body)
    }

    /// GET of JSON that is there.
    pub fn json(&mut self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// The login form.
    pub fn log_in(&mut self, login: &str, password: &str) -> Answer {
        let body = format!("login={login}&password={password}");
        let answer = self.send("POST", "/login", "application/x-www-form-urlencoded", &body);
        if let Some(cookie) = answer
            .header("set-cookie")
            .split(';')
            .next()
            .filter(|c| !c.is_empty())
        {
            self.cookie = cookie.to_string();
        }
        answer
    }

    /// Logs in as `sa`.
    pub fn sign_in(&mut self) {
        assert_eq!(self.log_in("sa", PASSWORD).header("location"), "/");
    }

    fn send(&mut self, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("connects");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\nCookie: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.host,
            self.origin,
            self.cookie,
            body.len()
        );
        socket.write_all(request.as_bytes()).expect("sends");
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).expect("reads");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .expect("a status");
        Answer {
            status,
            head: head.to_string(),
            body: body.to_string(),
        }
    }
}

/// Stands before a server and keeps its answers back.
pub struct Proxy {
    pub port: u16,
    state: Arc<Held>,
}

#[derive(Default)]
struct Held {
    ms: AtomicU64,
    /// A question was sent whose answer has not begun.
    asked: AtomicBool,
    /// A connection that sends these bytes gets no answer any more.
    silent: Mutex<Vec<u8>>,
}

impl Proxy {
    /// On a free port; it ends with the test.
    pub fn before(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(Held::default());
        let held = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else {
                    return;
                };
                let [question, answer] = [&client, &server].map(|s| s.try_clone().expect("a copy"));
                let (up, down) = (held.clone(), held.clone());
                let is_silent = Arc::new(AtomicBool::new(false));
                let hush = is_silent.clone();
                std::thread::spawn(move || {
                    pass(question, server, |bytes| {
                        up.asked.store(true, Ordering::SeqCst);
                        let part = up.silent.lock().expect("whole");
                        if !part.is_empty() && bytes.windows(part.len()).any(|w| w == *part) {
                            hush.store(true, Ordering::SeqCst);
                        }
                        true
                    });
                });
                std::thread::spawn(move || {
                    pass(answer, client, |_| {
                        if down.asked.swap(false, Ordering::SeqCst) {
                            let ms = down.ms.load(Ordering::SeqCst);
                            std::thread::sleep(Duration::from_millis(ms));
                        }
                        !is_silent.load(Ordering::SeqCst)
                    });
                });
            }
        });
        Proxy { port, state }
    }

    /// Each answer is kept back for so long from now on.
    pub fn slow(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).expect("not for ever");
        self.state.ms.store(ms, Ordering::SeqCst);
    }

    /// A connection that asks something with this text gets no answer any more.
    pub fn silence(&self, text: &str) {
        let bytes = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        *self.state.silent.lock().expect("whole") = bytes;
    }
}

/// Hands on what `before` lets through.
fn pass(mut from: TcpStream, mut to: TcpStream, mut before: impl FnMut(&[u8]) -> bool) {
    let mut bytes = vec![0; 256 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if before(&bytes[..count]) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
