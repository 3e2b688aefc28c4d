//! Documents of the type `xml`, and queries over them.

use daruma_xml::{Atom, AtomType, Document, Given, Meter, Method, Query};
use std::cell::Cell;

/// Questions that a run may ask before it is stopped.
const QUESTIONS: u32 = 64;
/// Largest text that a run may make.
const TEXT_BYTES: usize = 1 << 20;

struct Bounded(Cell<u32>);

impl Meter for Bounded {
    fn goes_on(&self, bytes: usize) -> bool {
        self.0.set(self.0.get() + 1);
        self.0.get() < QUESTIONS && bytes < TEXT_BYTES
    }
}

/// A query, a zero, and a document: what a query makes is a document again, and places that are none give nothing.
pub fn xml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (query, document) = text
        .split_once('\0')
        .unwrap_or((&text, "<a x='1'><b>t</b></a>"));
    let meter = Bounded(Cell::new(0));
    let Ok(document) = Document::parse(document, &meter) else {
        return;
    };
    for method in [
        Method::Query,
        Method::Nodes,
        Method::Value,
        Method::Exist,
        Method::Modify,
    ] {
        let Ok(query) = Query::parse(method, query, &[]) else {
            continue;
        };
        let count = query.externals().len();
        if query.check(&vec![AtomType::Integer; count], false).is_err() {
            continue;
        }
        let given = vec![Given::Atom(Atom::Integer(1)); count];
        let meter = Bounded(Cell::new(0));
        let made = match method {
            Method::Query => query.query(&document, None, &given, &meter),
            Method::Modify => query.modify(&document, &given, &meter),
            Method::Value | Method::Exist | Method::Nodes => {
                let _ = query.value(&document, Some(u32::MAX), &given, &meter);
                let _ = query.value(&document, None, &given, &meter);
                let _ = query.nodes(&document, None, &given, &meter);
                continue;
            }
        };
        if let Ok(made) = made {
            let again = Document::parse(&made, &Bounded(Cell::new(0)));
            assert!(
                !matches!(again, Err(daruma_xml::Error::Document(_))),
                "{made:?} is no document"
            );
        }
    }
}
