//! Replies that wait for a commit while their session's thread reads on.
//!
//! Theory: the thread that ends the commit (`daruma_tsql::session::LateCommit`) sends the reply as well. It has replies of
//! others to send, so it never waits for a client: what the socket does not take at once a thread of its own sends.
//!
//! A client whose commit fails so late is told nothing, for nobody knows what became of it: the connection ends, and the error
//! log says why.
//!
//! Invariant: until `settle` returns the session's thread neither writes to the socket nor runs a request.

use crate::output::{KEPT_BYTES, Output};
use crate::service::{LateCommit, Service};
use parking_lot::{Condvar, Mutex};
use rustix::net::{SendFlags, send};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;

/// The late replies of one connection, one at a time.
pub(crate) struct LateReply {
    socket: Arc<TcpStream>,
    service: Arc<dyn Service>,
    spid: i32,
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Default)]
struct State {
    is_under_way: bool,
    /// Kept for the next reply.
    spare: Vec<u8>,
}

impl LateReply {
    pub(crate) fn new(
        socket: &Arc<TcpStream>,
        service: &Arc<dyn Service>,
        spid: i32,
    ) -> Arc<LateReply> {
        Arc::new(LateReply {
            socket: socket.clone(),
            service: service.clone(),
            spid,
            state: Mutex::default(),
            settled: Condvar::new(),
        })
    }

    /// Waits until the last reply is out, or has failed.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock();
        self.settled.wait_while(&mut state, |s| s.is_under_way);
    }

    /// Takes the reply in `output` and sends it when `commit` is hard. When it will never be, the connection ends: its client
    /// cannot know what became of the transaction, nor can anybody before the database has been recovered.
    pub(crate) fn send_after(self: &Arc<Self>, commit: LateCommit, output: &mut Output) {
        let spare = {
            let mut state = self.state.lock();
            state.is_under_way = true;
            std::mem::take(&mut state.spare)
        };
        let sending = Sending {
            late: self.clone(),
            bytes: output.take_finished(spare),
            is_sent: false,
        };
        commit.when_hard(move |result| match result {
            Ok(()) => sending.send(),
            Err(error) => sending.late.log_end(&error.message),
        });
    }

    /// Notes why the connection ends without a word to its client.
    fn log_end(&self, why: &str) {
        let text = format!("The session is ended, because its commit did not end well: {why}");
        self.service.write_log(&format!("spid{}", self.spid), &text);
    }
}

/// One reply. Dropped unsent it ends the connection.
struct Sending {
    late: Arc<LateReply>,
    bytes: Vec<u8>,
    is_sent: bool,
}

impl Sending {
    fn send(mut self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let taken = match send(&*self.late.socket, &self.bytes, flags) {
            Ok(taken) => taken,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
            Err(_) => return,
        };
        if taken == self.bytes.len() {
            self.is_sent = true;
            return;
        }
        let late = self.late.clone();
        let sender = thread::Builder::new()
            .name("late reply".into())
            .spawn(move || self.send_rest(taken));
        // Dropped, and the connection with it, if there is no thread to be had.
        if let Err(error) = sender {
            late.log_end(&format!(
                "no thread to send the rest of the reply: {error}."
            ));
        }
    }

    /// For a client that reads slowly, within the time that it has for each write.
    fn send_rest(mut self, taken: usize) {
        let rest = self.bytes.get(taken..).unwrap_or_default();
        self.is_sent = (&*self.late.socket).write_all(rest).is_ok();
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_sent {
            if thread::panicking() {
                self.late.log_end("a system assertion check has failed.");
            }
            let _ = self.late.socket.shutdown(Shutdown::Both);
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        let mut state = self.late.state.lock();
        state.spare = std::mem::take(&mut self.bytes);
        state.is_under_way = false;
        self.late.settled.notify_one();
    }
}
