//! Requests that took a while and have ended: the last of them, for `sys.dm_exec_completed_requests`.
//!
//! Theory: always on. A short request costs one comparison; one that took a tenth of a second or more is put into a ring of fixed
//! length, with its waits. Sequence numbers only grow, so that a reader who comes often enough misses none and sees none twice.

use daruma_base::DatabaseId;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that are kept.
const KEPT: usize = 500;
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 8 * 1024;
/// The shortest request that is kept, in 100 ns.
pub const LEAST_100NS: i64 = 1_000_000;

/// A request from its start to its end.
#[derive(Clone, Debug)]
pub struct CompletedRequest {
    pub sequence: u64,
    pub spid: i32,
    pub start_utc: i64,
    /// In 100 ns.
    pub duration: i64,
    pub cpu_us: u64,
    pub logical_reads: u64,
    pub physical_reads: u64,
    pub writes: u64,
    pub rows: u64,
    /// Waits of all kinds but WAITFOR, in ns.
    pub wait_ns: u64,
    pub log_wait_ns: u64,
    pub lock_wait_ns: u64,
    pub io_wait_ns: u64,
    pub error: i32,
    pub database: Option<DatabaseId>,
    pub login: String,
    pub program: String,
    pub host: String,
    pub text: Arc<str>,
}

#[derive(Default)]
struct Ring {
    last: u64,
    requests: VecDeque<Arc<CompletedRequest>>,
}

/// The ring.
#[derive(Default)]
pub struct CompletedRequests(Mutex<Ring>);

impl CompletedRequests {
    /// Adds a request, which gets the next number; the oldest goes when there are too many.
    pub fn add(&self, mut request: CompletedRequest) {
        if request.text.len() > TEXT_BYTES_MAX {
            let mut end = TEXT_BYTES_MAX;
            while !request.text.is_char_boundary(end) {
                end -= 1;
            }
            request.text = request.text.get(..end).unwrap_or_default().into();
        }
        let mut ring = self.0.lock();
        ring.last += 1;
        request.sequence = ring.last;
        if ring.requests.len() >= KEPT {
            ring.requests.pop_front();
        }
        ring.requests.push_back(Arc::new(request));
    }

    /// Those that are kept, the oldest first.
    pub fn all(&self) -> Vec<Arc<CompletedRequest>> {
        self.0.lock().requests.iter().cloned().collect()
    }
}
