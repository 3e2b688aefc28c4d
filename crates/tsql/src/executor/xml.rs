//! Methods of the type `xml` at run time.
//!
//! Theory: the document is a text; its tree is made for the call and kept by the execution as long as calls ask for the same
//! text. What the query gives is converted as CAST would do it, from the forms that XML has for dates, booleans and bytes.
//!
//! Invariant: a query asks the host now and then whether it may go on, and before it takes memory.

use super::context::Ctx;
use crate::error::{Result, SqlError};
use crate::host::{Host, VirtualTable, cancelled};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::json::base64;
use daruma_value::xml::is_allowed;
use daruma_value::{CollationId, DataType, Decimal, Len, Value, ValueError};
use daruma_xml::{Atom, AtomType, Document, Error, Given, Meter, Method, Namespace, NodeId, Query};
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Rows between two looks at the memory.
const LOOK_ROWS: usize = 256;
/// Trees that an execution keeps: of the document that is asked, and of one beside it.
const KEPT_TREES: usize = 2;

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
}

impl PartialEq for XmlMethod {
    fn eq(&self, other: &XmlMethod) -> bool {
        let own = |m: &XmlMethod| (m.query.method(), m.has_node, m.to);
        own(self) == own(other)
            && self.text == other.text
            && self.namespaces == other.namespaces
            && self.given == other.given
    }
}

impl XmlMethod {
    /// The value for these arguments: document, node, and what the query takes. NULL of NULL, but modify's error 5302.
    pub fn call(&self, args: &[Value], collation: CollationId, cx: &Ctx<'_>) -> Result<Value> {
        let Some(Value::Str(text)) = args.first() else {
            return match self.query.method() {
                Method::Modify => Err(messages::error(5302, &[&"modify()", &self.target])),
                _ => Ok(Value::Null),
            };
        };
        let Some((node, given)) = self.taken(args, cx.host)? else {
            return Ok(Value::Null);
        };
        let meter = HostMeter::new(cx.host);
        let document = cx.documents.tree(text, &meter)?;
        let (query, document) = (&self.query, &*document);
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

    /// Node and values for the query; `None`: there is no node.
    fn taken(
        &self,
        args: &[Value],
        host: &dyn Host,
    ) -> Result<Option<(Option<NodeId>, Vec<Given>)>> {
        let mut rest = args.iter().skip(1);
        let node = match self.has_node {
            false => None,
            true => {
                let place = rest.next().and_then(Value::as_i64);
                let Some(node) = place.and_then(|n| NodeId::try_from(n).ok()) else {
                    return Ok(None);
                };
                Some(node)
            }
        };
        let meter = HostMeter::new(host);
        let given = rest
            .zip(&self.given)
            .map(|(value, of)| given(value, *of, &meter).map_err(|e| meter.told(e, &self.owner)));
        Ok(Some((node, given.collect::<Result<_>>()?)))
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

fn given(value: &Value, of: DataType, meter: &HostMeter<'_>) -> daruma_xml::Result<Given> {
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

/// Trees of texts, newest last.
#[derive(Default)]
pub struct Documents(RefCell<Vec<(String, Rc<Document>)>>);

impl Documents {
    fn tree(&self, text: &str, meter: &HostMeter<'_>) -> Result<Rc<Document>> {
        let known = self
            .0
            .borrow()
            .iter()
            .find(|(known, _)| known == text)
            .map(|(_, tree)| tree.clone());
        if let Some(tree) = known {
            return Ok(tree);
        }
        let tree = Document::parse(text, meter).map_err(|e| meter.told(e, ""))?;
        let tree = Rc::new(tree);
        let mut kept = self.0.borrow_mut();
        if kept.len() >= KEPT_TREES {
            kept.remove(0);
        }
        kept.push((text.to_string(), tree.clone()));
        Ok(tree)
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

    fn rows(&self, host: &dyn Host, _: DatabaseId, arguments: &[Value]) -> Result<Vec<Vec<Value>>> {
        let (Some(Value::Str(text)), Some((node, given))) =
            (arguments.first(), self.method.taken(arguments, host)?)
        else {
            return Ok(Vec::new());
        };
        let meter = HostMeter::new(host);
        let told = |e| meter.told(e, &self.method.owner);
        let document = Document::parse(text, &meter).map_err(told)?;
        let nodes = self
            .method
            .query
            .nodes(&document, node, &given, &meter)
            .map_err(told)?;
        let mut rows = Vec::new();
        for node in nodes {
            if rows.len() % LOOK_ROWS == 0 {
                host.check_memory(LOOK_ROWS * size_of::<Value>())?;
            }
            rows.push(vec![Value::BigInt(i64::from(node))]);
        }
        Ok(rows)
    }
}
