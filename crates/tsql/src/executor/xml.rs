//! Methods of the type `xml` at run time.
//!
//! Theory: a document is a text; its tree is made once and kept by the execution under a number. What nodes() gives is that
//! number with the place of the node, so a method of a node finds the tree without the text, whatever the variable holds by
//! now that the text came from. Trees of texts that the row itself gives go when others need their place, and are made again;
//! those of what may change, as a variable, are pinned: they stay as long as the execution, and their memory is the request's, which
//! ends with 701 where it has no more. There may be many, so they are found by number and by text without a search.
//! What the query gives is converted as CAST would do it, from the forms that XML has for dates, booleans and bytes.
//!
//! Invariants
//! 1. A query asks the host now and then whether it may go on, and before it takes memory.
//! 2. A number means one document: it is never given again in an execution.

use super::context::Ctx;
use super::expr::Expr;
use crate::error::{Result, SqlError};
use crate::host::{Host, LazyRows, VirtualTable, cancelled};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::json::base64;
use daruma_value::xml::is_allowed;
use daruma_value::{CollationId, DataType, Decimal, Len, Value, ValueError};
use daruma_xml::{Atom, AtomType, Document, Error, Given, Meter, Method, Namespace, NodeId, Query};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Memory of trees that an execution keeps although they could be made again, with their texts.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// And their number: a text is compared with all of them.
const KEPT_MAX: usize = 64;
/// So many of these stay, however large they are: of the document that is asked, and of one beside it.
const KEPT_MIN: usize = 2;
/// Bits of the place of a node; above them stands the number of its document.
const PLACE_BITS: u32 = 32;

/// A method with its query, parsed and checked.
#[derive(Clone, Debug)]
pub struct XmlMethod {
    pub query: Query,
    pub text: String,
    pub namespaces: Vec<Namespace>,
    /// Method with what it is called on, as errors of queries name it.
    pub owner: String,
    /// Variable or column, as error 5302 names it.
    pub target: String,
    /// The second argument is the place of a node.
    pub has_node: bool,
    /// Types of what the query takes from SQL.
    pub given: Vec<DataType>,
    pub to: DataType,
    /// Its rows are nodes of a document that nobody could give again.
    pub is_pinned: bool,
}

/// Document, place of the node in it, and values from SQL.
type Taken = (Known, Option<NodeId>, Vec<Given>);

/// A node as a value: the number of its document, and its place there.
#[derive(Clone, Copy)]
struct NodeRef {
    document: u32,
    place: NodeId,
}

impl NodeRef {
    fn from_i64(value: i64) -> Option<NodeRef> {
        let value = u64::try_from(value).ok()?;
        Some(NodeRef {
            document: u32::try_from(value >> PLACE_BITS).ok()?,
            place: u32::try_from(value & u64::from(u32::MAX)).ok()?,
        })
    }

    fn to_value(self) -> Value {
        let value = u64::from(self.document) << PLACE_BITS | u64::from(self.place);
        Value::BigInt(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl PartialEq for XmlMethod {
    fn eq(&self, other: &XmlMethod) -> bool {
        let own = |m: &XmlMethod| (m.query.method(), m.has_node, m.to, m.is_pinned);
        own(self) == own(other)
            && self.text == other.text
            && self.namespaces == other.namespaces
            && self.given == other.given
    }
}

impl XmlMethod {
    /// The value for these arguments: document, node, and what the query takes. NULL of NULL, but modify's error 5302.
    pub fn eval(
        &self,
        args: &[Expr],
        row: &[Value],
        collation: CollationId,
        cx: &Ctx<'_>,
    ) -> Result<Value> {
        let Some((document, node, given)) = self.taken(args, row, cx)? else {
            return match self.query.method() {
                Method::Modify => Err(messages::error(5302, &[&"modify()", &self.target])),
                _ => Ok(Value::Null),
            };
        };
        let meter = HostMeter::new(cx.host);
        let (query, document) = (&self.query, &*document.tree);
        let told = |e| meter.told(e, &self.owner);
        match query.method() {
            Method::Value => {
                let found = query.value(document, node, &given, &meter).map_err(told)?;
                found.map_or(Ok(Value::Null), |atom| self.sql_value(&atom, collation, cx))
            }
            Method::Exist => {
                let found = query.exist(document, node, &given, &meter).map_err(told)?;
                Ok(Value::Bit(found))
            }
            Method::Modify => {
                let changed = query.modify(document, &given, &meter).map_err(told)?;
                Ok(Value::str(changed))
            }
            Method::Query | Method::Nodes => {
                let found = query.query(document, node, &given, &meter).map_err(told)?;
                Ok(Value::str(found))
            }
        }
    }

    /// Document, node and values for the query; `None`: there is no document or no node.
    fn taken(&self, args: &[Expr], row: &[Value], cx: &Ctx<'_>) -> Result<Option<Taken>> {
        let mut args = args.iter();
        let text = args.next();
        let text = || text.map_or(Ok(Cow::Owned(Value::Null)), |text| text.get(row, cx));
        let node = match (self.has_node, args.as_slice()) {
            (true, [node, rest @ ..]) => {
                args = rest.iter();
                match node.eval(row, cx)?.as_i64().and_then(NodeRef::from_i64) {
                    Some(node) => Some(node),
                    None => return Ok(None),
                }
            }
            _ => None,
        };
        let meter = HostMeter::new(cx.host);
        let document = match node {
            Some(node) => cx.documents.numbered(node.document, text, &meter)?,
            None => match &*text()? {
                Value::Str(text) => Some(cx.documents.of_text(text, self.is_pinned, &meter)?),
                _ => None,
            },
        };
        let Some(document) = document else {
            return Ok(None);
        };
        let mut given = Vec::with_capacity(self.given.len());
        for (arg, of) in args.zip(&self.given) {
            let value = arg.get(row, cx)?;
            given.push(given_of(&value, *of, &meter).map_err(|e| meter.told(e, &self.owner))?);
        }
        Ok(Some((document, node.map(|n| n.place), given)))
    }

    fn sql_value(&self, atom: &Atom, collation: CollationId, cx: &Ctx<'_>) -> Result<Value> {
        let context = ConvertContext {
            collation,
            ..cx.convert
        };
        let to = self.to;
        let is_number = to.is_numeric();
        let plain = |value: Value, from: DataType| convert(&value, from, to, None, &context);
        let converted = match atom {
            Atom::Boolean(b) if is_number => plain(Value::Bit(*b), DataType::Bit),
            Atom::Integer(n) if is_number => match Decimal::parse(&n.to_string(), 38, 0) {
                Ok(d) => plain(Value::Decimal(d), d.data_type()),
                Err(_) => Err(ValueError::expression_overflow(to)),
            },
            Atom::Decimal(d) if is_number => plain(Value::Decimal(*d), d.data_type()),
            Atom::Double(d) if is_number => plain(Value::Float(*d), DataType::Float),
            other => {
                let text = other.text();
                let _promise = cx.promise(text.len())?;
                if to.is_binary() {
                    let bytes = base64::decode(text.trim());
                    let bytes =
                        bytes.ok_or_else(|| ValueError::conversion(DataType::NVARCHAR_MAX, to))?;
                    return Ok(plain(Value::Bytes(bytes), DataType::VarBinary(Len::MAX))?);
                }
                let is_shown = to.is_character();
                let text = if is_shown { &*text } else { text.trim() };
                let as_written = plain(Value::str(text), DataType::NVARCHAR_MAX);
                match as_written {
                    // Dates of XML may have a zone.
                    Err(_) if to.is_temporal() => convert(
                        &Value::str(text),
                        DataType::NVARCHAR_MAX,
                        to,
                        Some(127),
                        &context,
                    )
                    .or(as_written),
                    other => other,
                }
            }
        };
        Ok(converted?)
    }
}

/// The type that a query sees of a value of SQL; `None`: it may not use it.
pub fn atom_type(of: DataType) -> Option<AtomType> {
    use DataType::*;
    Some(match of {
        Bit => AtomType::Boolean,
        TinyInt | SmallInt | Int | BigInt => AtomType::Integer,
        Decimal { .. } | SmallMoney | Money => AtomType::Decimal,
        Real | Float => AtomType::Double,
        Date => AtomType::Date,
        Time { .. } => AtomType::Time,
        SmallDateTime | DateTime | DateTime2 { .. } | DateTimeOffset { .. } => AtomType::DateTime,
        Xml => AtomType::Fragment,
        Char(_) | VarChar(_) | NChar(_) | NVarChar(_) | UniqueIdentifier | Binary(_)
        | VarBinary(_) => AtomType::String,
        _ => return None,
    })
}

fn given_of(value: &Value, of: DataType, meter: &HostMeter<'_>) -> daruma_xml::Result<Given> {
    if value.is_null() {
        return Ok(Given::Nothing);
    }
    let context = ConvertContext::default();
    let wanted = atom_type(of).unwrap_or(AtomType::String);
    let shown =
        |style: Option<i32>| match convert(value, of, DataType::NVARCHAR_MAX, style, &context) {
            Ok(Value::Str(text)) => Atom::string(&*text),
            _ => Atom::string(""),
        };
    let atom = match (value, wanted) {
        (Value::Str(text), AtomType::Fragment) => {
            return Ok(Given::Fragment(Document::parse(text, meter)?));
        }
        (Value::Float(d), _) => Atom::Double(*d),
        (Value::Real(d), _) => Atom::Double(f64::from(*d)),
        (Value::Bit(b), _) => Atom::Boolean(*b),
        (Value::Decimal(d), _) => Atom::Decimal(*d),
        (Value::Bytes(bytes), _) => Atom::string(base64::encode(bytes)),
        (Value::Money(_) | Value::SmallMoney(_), _) => shown(Some(2)),
        (_, AtomType::Date | AtomType::DateTime | AtomType::Time) => shown(Some(126)),
        _ => shown(None),
    };
    let text = atom.text();
    if let Some(at) = text.chars().position(|c| !is_allowed(c)) {
        return Err(ValueError::new(9420, 1, &[&1, &(at + 1)]).into());
    }
    // What its type does not hold stays text.
    Ok(Given::Atom(atom.cast(wanted).unwrap_or(atom)))
}

/// A document of an execution.
#[derive(Clone)]
struct Known {
    number: u32,
    tree: Rc<Document>,
}

struct Kept {
    known: Known,
    text: Rc<str>,
    bytes: usize,
}

/// Documents of an execution.
#[derive(Default)]
pub struct Documents {
    /// Those that can be made again; those used last at the end.
    kept: RefCell<Vec<Kept>>,
    pinned: RefCell<Pinned>,
    last: Cell<u32>,
}

/// Documents that stay.
#[derive(Default)]
struct Pinned {
    by_number: HashMap<u32, Known>,
    by_text: HashMap<Rc<str>, u32>,
}

impl Pinned {
    fn of_text(&self, text: &str) -> Option<Known> {
        self.numbered(*self.by_text.get(text)?)
    }

    fn numbered(&self, number: u32) -> Option<Known> {
        self.by_number.get(&number).cloned()
    }

    fn add(&mut self, text: Rc<str>, known: Known) {
        self.by_text.insert(text, known.number);
        self.by_number.insert(known.number, known);
    }
}

impl Documents {
    /// The document of a text.
    fn of_text(&self, text: &str, is_pinned: bool, meter: &HostMeter<'_>) -> Result<Known> {
        if let Some(known) = self.pinned.borrow().of_text(text) {
            return Ok(known);
        }
        if let Some(known) = self.used(|kept| *kept.text == *text) {
            if is_pinned && let Some(last) = self.kept.borrow_mut().pop() {
                self.pinned.borrow_mut().add(last.text, last.known);
            }
            return Ok(known);
        }
        // Numbers that fit into a value with a place.
        let number = self.last.get().saturating_add(1).min(i32::MAX as u32);
        if number == self.last.get() {
            return Err(messages::error(701, &[&"default"]));
        }
        self.last.set(number);
        self.make(number, text, is_pinned, meter)
    }

    /// The document of a node, which is made again of its text if it is gone.
    fn numbered<'a>(
        &self,
        number: u32,
        text: impl FnOnce() -> Result<Cow<'a, Value>>,
        meter: &HostMeter<'_>,
    ) -> Result<Option<Known>> {
        if let Some(known) = self.pinned.borrow().numbered(number) {
            return Ok(Some(known));
        }
        if let Some(known) = self.used(|kept| kept.known.number == number) {
            return Ok(Some(known));
        }
        match &*text()? {
            Value::Str(text) => self.make(number, text, false, meter).map(Some),
            _ => Ok(None),
        }
    }

    fn used(&self, is_it: impl Fn(&Kept) -> bool) -> Option<Known> {
        let mut all = self.kept.borrow_mut();
        let at = all.iter().rposition(is_it)?;
        let found = all.remove(at);
        let known = found.known.clone();
        all.push(found);
        Some(known)
    }

    fn make(
        &self,
        number: u32,
        text: &str,
        is_pinned: bool,
        meter: &HostMeter<'_>,
    ) -> Result<Known> {
        #[cfg(test)]
        parses::count();
        if !meter.goes_on(text.len() * 2) {
            return Err(meter.told(Error::Stopped, ""));
        }
        let tree = Document::parse(text, meter).map_err(|e| meter.told(e, ""))?;
        let known = Known {
            number,
            tree: Rc::new(tree),
        };
        if is_pinned {
            self.pinned.borrow_mut().add(text.into(), known.clone());
            return Ok(known);
        }
        let bytes = known.tree.bytes() + text.len();
        self.make_room(bytes);
        self.kept.borrow_mut().push(Kept {
            known: known.clone(),
            text: text.into(),
            bytes,
        });
        Ok(known)
    }

    /// Lets go of those that can be made again and were used longest ago.
    fn make_room(&self, bytes: usize) {
        let mut all = self.kept.borrow_mut();
        let mut count = all.len() + 1;
        let mut sum = bytes + all.iter().map(|kept| kept.bytes).sum::<usize>();
        all.retain(|kept| {
            let is_much = sum > KEPT_BYTES_MAX && count > KEPT_MIN || count > KEPT_MAX;
            if is_much {
                (count, sum) = (count - 1, sum - kept.bytes);
            }
            !is_much
        });
    }
}

/// Asks the host whether a query goes on, and keeps what it said.
pub struct HostMeter<'h> {
    host: &'h dyn Host,
    refused: RefCell<Option<SqlError>>,
}

impl HostMeter<'_> {
    /// One for one call.
    pub fn new(host: &dyn Host) -> HostMeter<'_> {
        HostMeter {
            host,
            refused: RefCell::default(),
        }
    }

    /// The error of a query: what the host said, if that was it.
    pub fn told(&self, error: Error, owner: &str) -> SqlError {
        match self.refused.take() {
            Some(refused) => refused,
            None => told(error, owner),
        }
    }
}

impl Meter for HostMeter<'_> {
    fn goes_on(&self, bytes: usize) -> bool {
        let found = cancelled(self.host.cancel()).and_then(|()| self.host.check_memory(bytes));
        let goes_on = found.is_ok();
        if let Err(error) = found {
            self.refused.replace(Some(error));
        }
        goes_on
    }
}

/// An error of a query with the method that it is the argument of.
pub fn told(error: Error, owner: &str) -> SqlError {
    match error {
        Error::Document(error) => error.into(),
        Error::Stopped => messages::error(701, &[&"default"]),
        Error::Query { number, args } => {
            let prefix = format!("XQuery [{owner}]: ");
            let is_prefixed = messages::find(number).is_some_and(|m| m.text.starts_with("%s"));
            let mut all: Vec<&dyn Display> = Vec::with_capacity(args.len() + 1);
            if is_prefixed {
                all.push(&prefix);
            }
            all.extend(args.iter().map(|arg| arg as &dyn Display));
            messages::error(number, &all)
        }
    }
}

/// nodes() as a table function: its rows are places of nodes.
pub struct XmlNodes {
    method: XmlMethod,
    columns: Vec<OutputColumn>,
    arguments: usize,
}

impl XmlNodes {
    /// `column`: the name of its only one.
    pub fn new(method: XmlMethod, column: &str, arguments: usize) -> XmlNodes {
        let column = OutputColumn {
            name: column.into(),
            data_type: DataType::BigInt,
            collation: CollationId::DEFAULT,
            nullable: true,
            identity: false,
            computed: true,
        };
        XmlNodes {
            method,
            columns: vec![column],
            arguments,
        }
    }
}

impl VirtualTable for XmlNodes {
    fn name(&self) -> &str {
        "nodes"
    }

    fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    fn arguments(&self) -> RangeInclusive<usize> {
        self.arguments..=self.arguments
    }

    fn nodes(&self) -> Option<&XmlNodes> {
        Some(self)
    }

    fn rows(&self, _: &dyn Host, _: DatabaseId, _: &[Value]) -> Result<Vec<Vec<Value>>> {
        // Its rows mean something beside the documents of an execution only.
        Ok(Vec::new())
    }
}

impl XmlNodes {
    /// The nodes for these arguments, which are those of the method.
    pub fn of_document(&self, args: &[Expr], cx: &Ctx<'_>) -> Result<LazyRows> {
        let Some((document, node, given)) = self.method.taken(args, &[], cx)? else {
            return Ok(Box::new(std::iter::empty()));
        };
        let meter = HostMeter::new(cx.host);
        let told = |e| meter.told(e, &self.method.owner);
        let query = &self.method.query;
        let nodes = query.nodes(&document.tree, node, &given, &meter);
        let row = move |place| {
            let node = NodeRef {
                document: document.number,
                place,
            };
            Ok(vec![node.to_value()])
        };
        Ok(Box::new(nodes.map_err(told)?.into_iter().map(row)))
    }
}

/// How often this thread made a tree.
#[cfg(test)]
pub mod parses {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// Since the last call.
    pub fn take() -> u64 {
        COUNT.replace(0)
    }
}
