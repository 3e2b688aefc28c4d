//! Documents that a session has prepared for OPENXML, by their handles.
//!
//! Invariants
//! 1. A session holds no more than `DOCUMENTS_MAX` documents, and no more memory for them than `BYTES_MAX`: error 6624.
//! 2. A handle means one document; it is not given again while the session lasts, but by a reset.

use super::Execution;
use crate::error::Result;
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

/// Prepared documents of a session.
#[derive(Default)]
pub struct XmlDocuments {
    all: RefCell<HashMap<i32, Arc<Prepared>>>,
    bytes: Cell<usize>,
    given: Cell<i32>,
}

impl XmlDocuments {
    /// Keeps a document: error 6624 where there are too many.
    pub fn add(&self, document: Prepared) -> Result<i32> {
        let bytes = self.bytes.get() + document.bytes();
        let mut all = self.all.borrow_mut();
        let last = self.given.get();
        let next = last.checked_add(if last == 0 { 1 } else { HANDLE_STEP });
        let Some(handle) = next.filter(|_| all.len() < DOCUMENTS_MAX && bytes <= BYTES_MAX) else {
            return Err(messages::error(6624, &[]));
        };
        self.given.set(handle);
        self.bytes.set(bytes);
        all.insert(handle, Arc::new(document));
        Ok(handle)
    }

    /// Lets go of a document: error 8179 where there is none.
    pub fn remove(&self, handle: i64) -> Result<()> {
        let known = i32::try_from(handle).ok();
        match known.and_then(|handle| self.all.borrow_mut().remove(&handle)) {
            Some(document) => {
                let left = self.bytes.get().saturating_sub(document.bytes());
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
    /// Those of the session.
    pub(crate) fn xml_documents(&self) -> &XmlDocuments {
        &self.state.xml_documents
    }

    /// The document of a handle: error 8179.
    pub(crate) fn prepared_document(&self, handle: i64) -> Result<Arc<Prepared>> {
        let all = self.state.xml_documents.all.borrow();
        let known = i32::try_from(handle).ok();
        let found = known.and_then(|handle| all.get(&handle)).cloned();
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
        let all = XmlDocuments::default();
        let handles: Vec<i32> = (0..DOCUMENTS_MAX)
            .map(|_| all.add(document()).expect("room"))
            .collect();
        assert_eq!(handles.get(..3), Some(&[1, 3, 5][..]));
        let refused = all.add(document()).map_err(|e| e.number);
        assert_eq!(refused, Err(6624));
        all.remove(3).expect("it is there");
        assert_eq!(all.remove(3).map_err(|e| e.number), Err(8179));
        assert_eq!(all.remove(i64::MAX).map_err(|e| e.number), Err(8179));
        assert!(all.add(document()).is_ok());
        all.clear();
        assert_eq!((all.bytes.get(), all.add(document()).ok()), (0, Some(1)));
    }
}
