//! The target `ring_buffer`: the last events, in memory.

use super::running::Collected;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

/// Memory of a buffer when nothing else is asked for, in KB.
pub const MEMORY_KB: i64 = 4_096;
/// Memory that may be asked for at most, in KB.
pub const MEMORY_KB_MAX: i64 = 256 << 10;
/// Events of a buffer when nothing else is asked for.
pub const EVENTS: i64 = 1_000;
/// What an event costs besides its text.
const HEAD_BYTES: usize = 64;

/// A ring of events, bounded by their number and bytes.
pub struct Ring {
    bytes_max: usize,
    events_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    events: VecDeque<Arc<Collected>>,
    bytes: usize,
    total: u64,
}

impl Ring {
    /// An empty ring. No number of events is 0: the memory alone bounds it.
    pub fn new(bytes_max: usize, events_max: usize) -> Ring {
        Ring {
            bytes_max,
            events_max,
            held: Mutex::default(),
        }
    }

    /// Adds an event; the oldest go when there are too many. One that is longer than the ring goes at once.
    pub fn add(&self, event: &Arc<Collected>) {
        let mut held = self.held.lock();
        held.total += 1;
        held.bytes += event.xml.len() + HEAD_BYTES;
        held.events.push_back(event.clone());
        while held.bytes > self.bytes_max
            || (self.events_max > 0 && held.events.len() > self.events_max)
        {
            let Some(oldest) = held.events.pop_front() else {
                return;
            };
            held.bytes -= oldest.xml.len() + HEAD_BYTES;
        }
    }

    /// `target_data` of the product: all events, the oldest first.
    pub fn to_xml(&self) -> String {
        let (events, bytes, total) = {
            let held = self.held.lock();
            let events: Vec<_> = held.events.iter().cloned().collect();
            (events, held.bytes, held.total)
        };
        let mut xml = String::with_capacity(bytes + 200);
        let _ = write!(
            xml,
            "<RingBufferTarget truncated=\"0\" processingTime=\"0\" totalEventsProcessed=\"{total}\" eventCount=\"{}\" droppedCount=\"0\" memoryUsed=\"{bytes}\">",
            events.len()
        );
        events.iter().for_each(|event| xml.push_str(&event.xml));
        xml.push_str("</RingBufferTarget>");
        xml
    }
}
