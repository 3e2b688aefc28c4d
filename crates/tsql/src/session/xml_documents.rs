//! Documents that a session has prepared for OPENXML, by their handles.
//!
//! Invariants
//! 1. A session holds no more than `DOCUMENTS_MAX` documents, and no more memory for them than `BYTES_MAX`; all sessions
//!    together no more than their part of the server's (`WorkMemory::keep_document`): error 6624.
//! 2. A handle means one document; it is not given again while the session lasts, but by a reset.

use super::Execution;
use crate::error::Result;
use crate::instance::{KeptDocument, WorkMemory};
use crate::messages;
use daruma_xml::Prepared;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// Documents of a session.
const DOCUMENTS_MAX: usize = 1024;
/// Memory of a session's documents.
const BYTES_MAX: usize = 128 << 20;
/// Handles are odd numbers, as the product's.
const HANDLE_STEP: i32 = 2;

struct Held {
    document: Arc<Prepared>,
    /// Its place among those of all sessions.
    _kept: KeptDocument,
}

/// Prepared documents of a session.
#[derive(Default)]
pub struct XmlDocuments {
    all: RefCell<HashMap<i32, Held>>,
    bytes: Cell<usize>,
    given: Cell<i32>,
}

impl XmlDocuments {
    /// Keeps a document: error 6624 where there are too many.
    pub fn add(&self, document: Prepared, memory: &Arc<WorkMemory>) -> Result<i32> {
        let own = document.bytes();
        let bytes = self.bytes.get() + own;
        let mut all = self.all.borrow_mut();
        let last = self.given.get();
        let next = last.checked_add(if last == 0 { 1 } else { HANDLE_STEP });
        let next = next.filter(|_| all.len() < DOCUMENTS_MAX && bytes <= BYTES_MAX);
        let Some((handle, kept)) = next.zip(memory.keep_document(own)) else {
            return Err(messages::error(6624, &[]));
        };
        self.given.set(handle);
        self.bytes.set(bytes);
        let held = Held {
            document: Arc::new(document),
            _kept: kept,
        };
        all.insert(handle, held);
        Ok(handle)
    }

    /// Lets go of a document: error 8179 where there is none.
    pub fn remove(&self, handle: i64) -> Result<()> {
        let known = i32::try_from(handle).ok();
        match known.and_then(|handle| self.all.borrow_mut().remove(&handle)) {
            Some(held) => {
                let left = self.bytes.get().saturating_sub(held.document.bytes());
                self.bytes.set(left);
                Ok(())
            }
            None => Err(messages::error(8179, &[&handle])),
        }
    }

    /// Lets go of all.
    pub fn clear(&self) {
        self.all.borrow_mut().clear();
        self.bytes.set(0);
        self.given.set(0);
    }
}

impl Execution<'_> {
    /// Keeps a document for the session: error 6624.
    pub(crate) fn keep_document(&self, document: Prepared) -> Result<i32> {
        let memory = &self.state.instance.memory;
        self.state.xml_documents.add(document, memory)
    }

    /// Lets go of a document of the session: error 8179.
    pub(crate) fn remove_document(&self, handle: i64) -> Result<()> {
        self.state.xml_documents.remove(handle)
    }

    /// The document of a handle: error 8179.
    pub(crate) fn prepared_document(&self, handle: i64) -> Result<Arc<Prepared>> {
        let all = self.state.xml_documents.all.borrow();
        let known = i32::try_from(handle).ok();
        let found = known.and_then(|handle| all.get(&handle));
        let found = found.map(|held| held.document.clone());
        found.ok_or_else(|| messages::error(8179, &[&handle]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_xml::Meter;

    struct Free;

    impl Meter for Free {
        fn goes_on(&self, _: usize) -> bool {
            true
        }
    }

    fn document() -> Prepared {
        Prepared::parse("<a/>", None, &Free).expect("a document")
    }

    #[test]
    fn a_session_holds_so_many_documents() {
        let (all, memory) = (XmlDocuments::default(), WorkMemory::new(None));
        let add = || all.add(document(), &memory);
        let handles: Vec<i32> = (0..DOCUMENTS_MAX).map(|_| add().expect("room")).collect();
        assert_eq!(handles.get(..3), Some(&[1, 3, 5][..]));
        let refused = add().map_err(|e| e.number);
        assert_eq!(refused, Err(6624));
        all.remove(3).expect("it is there");
        assert_eq!(all.remove(3).map_err(|e| e.number), Err(8179));
        assert_eq!(all.remove(i64::MAX).map_err(|e| e.number), Err(8179));
        assert!(add().is_ok());
        all.clear();
        assert_eq!((all.bytes.get(), add().ok()), (0, Some(1)));
    }

    #[test]
    fn documents_of_all_sessions_hold_an_eighth_of_the_memory() {
        let of_one = i64::try_from(document().bytes()).expect("few bytes");
        let bound = u64::try_from(of_one * 8 * 3).expect("positive");
        let memory = WorkMemory::new(Some(bound));
        let (first, second) = (XmlDocuments::default(), XmlDocuments::default());
        let add = |to: &XmlDocuments| to.add(document(), &memory).map_err(|e| e.number);
        assert_eq!([&first, &first, &second].map(add), [Ok(1), Ok(3), Ok(1)]);
        assert_eq!([&first, &second].map(add), [Err(6624), Err(6624)]);
        first.remove(1).expect("it is there");
        assert_eq!([&second, &first].map(add), [Ok(3), Err(6624)]);
        // A session that ends lets go of its own.
        drop(second);
        assert_eq!([&first, &first].map(add), [Ok(5), Ok(7)]);
    }
}
