//! Runs an expression over a document.
//!
//! Theory: an expression gives a sequence, which is a list. Nodes are named by their document and place; documents that
//! constructors make live as long as the run. Steps give nodes in document order, and paths keep it, each node once. What
//! cannot be computed is the empty sequence.
//!
//! Invariant: each value that is made is a step, and each thousandth step asks the meter; texts of some size ask before.

use crate::ast::*;
use crate::atom::{Atom, AtomType, arithmetic};
use crate::document::{Builder, Document, Kind, NodeId, ROOT};
use crate::function::Function;
use crate::query::Given;
use crate::{Error, Meter, Result, with_stack};
use daruma_value::Decimal;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Deref;
use std::rc::Rc;

/// Steps between two questions to the meter.
const LOOK_STEPS: usize = 1 << 10;
/// Texts from this size on are asked for before they are made.
const LARGE_BYTES: usize = 64 << 10;

/// A value of a sequence: a node by document and place, or an atom.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Node(u32, NodeId),
    Atom(Atom),
}

/// A document of the run.
pub(crate) enum Shared<'a> {
    Given(&'a Document),
    Made(Rc<Document>),
}

impl Deref for Shared<'_> {
    type Target = Document;

    fn deref(&self) -> &Document {
        match self {
            Shared::Given(document) => document,
            Shared::Made(document) => document,
        }
    }
}

/// The item that an expression is asked of.
pub(crate) struct Focus {
    item: Item,
    position: usize,
    size: usize,
}

/// One run of a query.
pub(crate) struct Run<'a> {
    main: &'a Document,
    given: &'a [Given],
    made: RefCell<Vec<Rc<Document>>>,
    variables: RefCell<Vec<Rc<Vec<Item>>>>,
    meter: &'a dyn Meter,
    steps: Cell<usize>,
}

impl<'a> Run<'a> {
    /// A run over a document, with values from SQL and so many variables.
    pub fn new(
        main: &'a Document,
        given: &'a [Given],
        slots: usize,
        meter: &'a dyn Meter,
    ) -> Run<'a> {
        Run {
            main,
            given,
            made: RefCell::default(),
            variables: RefCell::new(vec![Rc::default(); slots]),
            meter,
            steps: Cell::new(0),
        }
    }

    /// Document 0 is the one that the query is about; those that SQL gave follow, then those that were made.
    pub fn document(&self, of: u32) -> Shared<'a> {
        let at = of as usize;
        if let Some(Given::Fragment(document)) = at.checked_sub(1).and_then(|at| self.given.get(at))
        {
            return Shared::Given(document);
        }
        let made = at.checked_sub(1 + self.given.len());
        match made.and_then(|at| self.made.borrow().get(at).cloned()) {
            Some(document) => Shared::Made(document),
            None => Shared::Given(self.main),
        }
    }

    fn keep(&self, document: Document) -> u32 {
        let mut made = self.made.borrow_mut();
        made.push(Rc::new(document));
        (self.given.len() + made.len()) as u32
    }

    fn step(&self, steps: usize) -> Result<()> {
        let before = self.steps.get();
        self.steps.set(before.wrapping_add(steps));
        match before / LOOK_STEPS == self.steps.get() / LOOK_STEPS || self.meter.goes_on(0) {
            true => Ok(()),
            false => Err(Error::Stopped),
        }
    }

    /// Before a text of this size is made.
    fn take(&self, bytes: usize) -> Result<()> {
        self.step(1 + bytes / 64)?;
        match bytes < LARGE_BYTES
            || bytes <= daruma_value::LARGE_BYTES_MAX && self.meter.goes_on(bytes)
        {
            true => Ok(()),
            false => Err(Error::Stopped),
        }
    }

    /// The expression of a node of the document.
    pub fn top(&self, expr: &Expr, context: NodeId) -> Result<Vec<Item>> {
        if !self.main.has(context) {
            return Ok(Vec::new());
        }
        let focus = Focus {
            item: Item::Node(0, context),
            position: 1,
            size: 1,
        };
        self.eval(expr, &focus)
    }

    fn eval(&self, expr: &Expr, focus: &Focus) -> Result<Vec<Item>> {
        self.step(1)?;
        with_stack(|| self.eval_here(expr, focus))
    }

    fn eval_here(&self, expr: &Expr, focus: &Focus) -> Result<Vec<Item>> {
        let atom = |a: Atom| Ok(vec![Item::Atom(a)]);
        let boolean = |b: bool| Ok(vec![Item::Atom(Atom::Boolean(b))]);
        let perhaps = |a: Option<Atom>| Ok(a.map(Item::Atom).into_iter().collect());
        match expr {
            Expr::Literal(value) => atom(value.clone()),
            Expr::Sequence(all) => {
                let mut items = Vec::new();
                for part in all {
                    items.append(&mut self.eval(part, focus)?);
                }
                Ok(items)
            }
            Expr::Variable(slot) => {
                let known = self
                    .variables
                    .borrow()
                    .get(*slot)
                    .cloned()
                    .unwrap_or_default();
                self.step(known.len())?;
                Ok(known.to_vec())
            }
            Expr::Context => Ok(vec![focus.item.clone()]),
            Expr::Root => Ok(match focus.item {
                Item::Node(of, _) => vec![Item::Node(of, ROOT)],
                Item::Atom(_) => Vec::new(),
            }),
            Expr::Path(left, right) => self.path(left, right, focus),
            Expr::Step {
                axis,
                test,
                predicates,
            } => {
                let Item::Node(of, id) = focus.item else {
                    return Ok(Vec::new());
                };
                let mut items = self.along(*axis, test, of, id)?;
                for predicate in predicates {
                    items = self.filter(items, predicate)?;
                }
                Ok(items)
            }
            Expr::Filter(base, predicate) => {
                let items = self.eval(base, focus)?;
                self.filter(items, predicate)
            }
            Expr::Or(a, b) => boolean(self.holds(a, focus)? || self.holds(b, focus)?),
            Expr::And(a, b) => boolean(self.holds(a, focus)? && self.holds(b, focus)?),
            Expr::General(op, a, b) => {
                let (a, b) = (self.atoms(a, focus)?, self.atoms(b, focus)?);
                for left in &a {
                    self.step(b.len())?;
                    if b.iter()
                        .any(|right| left.compare(right).is_some_and(|o| op.holds(o)))
                    {
                        return boolean(true);
                    }
                }
                boolean(false)
            }
            Expr::Value(op, a, b) => {
                let (Some(a), Some(b)) = (self.atom(a, focus)?, self.atom(b, focus)?) else {
                    return Ok(Vec::new());
                };
                perhaps(a.compare(&b).map(|o| Atom::Boolean(op.holds(o))))
            }
            Expr::Order(order, a, b) => {
                let (a, b) = (self.eval(a, focus)?, self.eval(b, focus)?);
                let (Some(Item::Node(d, a)), Some(Item::Node(e, b))) = (a.first(), b.first())
                else {
                    return Ok(Vec::new());
                };
                let found = (d, a).cmp(&(e, b));
                boolean(match order {
                    Order::Same => found.is_eq(),
                    Order::Before => found.is_lt(),
                    Order::After => found.is_gt(),
                })
            }
            Expr::Arithmetic(op, a, b) => {
                let (Some(a), Some(b)) = (self.atom(a, focus)?, self.atom(b, focus)?) else {
                    return Ok(Vec::new());
                };
                perhaps(arithmetic(*op, &a, &b))
            }
            Expr::Negate(operand) => {
                let minus = Atom::Integer(-1);
                let operand = self.atom(operand, focus)?;
                perhaps(
                    operand.and_then(|o| arithmetic(crate::atom::Arithmetic::Multiply, &minus, &o)),
                )
            }
            Expr::If(condition, then, otherwise) => match self.holds(condition, focus)? {
                true => self.eval(then, focus),
                false => self.eval(otherwise, focus),
            },
            Expr::Flwor(flwor) => self.flwor(flwor, focus),
            Expr::Quantified {
                every,
                bindings,
                holds,
            } => boolean(self.quantified(*every, bindings, holds, focus)?),
            Expr::Call(function, args) => self.call(*function, args, focus),
            Expr::Cast(operand, to) => {
                perhaps(self.atom(operand, focus)?.and_then(|a| a.cast(*to)))
            }
            Expr::InstanceOf(operand, of, is_optional) => {
                let items = self.eval(operand, focus)?;
                let is_it = |item: &Item| matches!(item, Item::Atom(a) if a.atom_type() == *of);
                boolean(match items.len() {
                    0 => *is_optional,
                    count => count == 1 && items.iter().all(is_it),
                })
            }
            Expr::Element(made) => {
                let mut builder = Builder::new();
                self.construct(made, focus, &mut builder)?;
                Ok(vec![Item::Node(self.keep(builder.finish()), 1)])
            }
            Expr::Attribute(name, value) => {
                let value = self.joined(&[Part::Expr((**value).clone())], Some(focus))?;
                let mut builder = Builder::new();
                builder.attribute(name, &value);
                Ok(vec![Item::Node(self.keep(builder.finish()), 1)])
            }
            Expr::Text(value) => {
                let value = self.joined(&[Part::Expr((**value).clone())], Some(focus))?;
                if value.is_empty() {
                    return Ok(Vec::new());
                }
                let mut builder = Builder::new();
                builder.text(&value);
                Ok(vec![Item::Node(self.keep(builder.finish()), 1)])
            }
            Expr::Comment(text) => {
                let mut builder = Builder::new();
                builder.comment(text);
                Ok(vec![Item::Node(self.keep(builder.finish()), 1)])
            }
            Expr::Instruction(target, data) => {
                let mut builder = Builder::new();
                builder.instruction(target, data);
                Ok(vec![Item::Node(self.keep(builder.finish()), 1)])
            }
            Expr::External(place) => Ok(match self.given.get(*place) {
                Some(Given::Atom(atom)) => vec![Item::Atom(atom.clone())],
                Some(Given::Fragment(document)) => {
                    let of = *place as u32 + 1;
                    document
                        .children(ROOT)
                        .map(|id| Item::Node(of, id))
                        .collect()
                }
                Some(Given::Nothing) | None => Vec::new(),
            }),
        }
    }

    fn path(&self, left: &Expr, right: &Expr, focus: &Focus) -> Result<Vec<Item>> {
        let left = self.eval(left, focus)?;
        let size = left.len();
        let mut items = Vec::new();
        for (at, item) in left.into_iter().enumerate() {
            let inner = Focus {
                item,
                position: at + 1,
                size,
            };
            items.append(&mut self.eval(right, &inner)?);
        }
        // A step from one node gives its nodes in order.
        if size > 1 || !matches!(right, Expr::Step { .. }) {
            in_order(&mut items);
        }
        Ok(items)
    }

    fn along(&self, axis: Axis, test: &Test, of: u32, id: NodeId) -> Result<Vec<Item>> {
        let document = self.document(of);
        let fits = |n: &NodeId| is_wanted(&document, *n, test, axis == Axis::Attribute);
        let range = |from: NodeId| {
            let has_children = matches!(document.kind(id), Kind::Document | Kind::Element);
            let end = if has_children { document.end(id) } else { from };
            (from..end).filter(|n| !document.is_beside(*n))
        };
        let found: Vec<NodeId> = match axis {
            Axis::Child => document.children(id).filter(fits).collect(),
            Axis::Attribute => document.attributes(id).filter(fits).collect(),
            Axis::Own => Some(id).into_iter().filter(fits).collect(),
            Axis::Parent => document.parent(id).into_iter().filter(fits).collect(),
            Axis::Descendant => range(id + 1).filter(fits).collect(),
            Axis::DescendantOrSelf => {
                let own = Some(id).into_iter();
                own.chain(range(id + 1)).filter(fits).collect()
            }
        };
        let passed = match axis {
            Axis::Descendant | Axis::DescendantOrSelf => document.end(id) - id,
            _ => 0,
        };
        self.step(found.len() + passed as usize / 16)?;
        Ok(found.into_iter().map(|n| Item::Node(of, n)).collect())
    }

    fn filter(&self, items: Vec<Item>, predicate: &Expr) -> Result<Vec<Item>> {
        if let Expr::Literal(Atom::Integer(wanted)) = predicate {
            let at = usize::try_from(*wanted).ok().and_then(|n| n.checked_sub(1));
            return Ok(at
                .and_then(|at| items.into_iter().nth(at))
                .into_iter()
                .collect());
        }
        let size = items.len();
        let mut kept = Vec::new();
        for (at, item) in items.into_iter().enumerate() {
            let focus = Focus {
                item,
                position: at + 1,
                size,
            };
            let found = self.eval(predicate, &focus)?;
            let is_kept = match &found[..] {
                [Item::Atom(atom)] if atom.atom_type().is_number() => {
                    atom.to_double() == Some(focus.position as f64)
                }
                items => is_true(items),
            };
            if is_kept {
                kept.push(focus.item);
            }
        }
        Ok(kept)
    }

    fn holds(&self, expr: &Expr, focus: &Focus) -> Result<bool> {
        Ok(is_true(&self.eval(expr, focus)?))
    }

    /// The text of a node without a type, an atom as it is.
    pub fn atomized(&self, item: &Item) -> Result<Atom> {
        match item {
            Item::Atom(atom) => Ok(atom.clone()),
            Item::Node(of, id) => {
                let document = self.document(*of);
                self.take(document.string_bytes(*id))?;
                let text = document.string(*id);
                Ok(match document.kind(*id) {
                    Kind::Comment | Kind::Instruction => Atom::string(text),
                    _ => Atom::Untyped(text.into()),
                })
            }
        }
    }

    fn atoms(&self, expr: &Expr, focus: &Focus) -> Result<Vec<Atom>> {
        let items = self.eval(expr, focus)?;
        items.iter().map(|item| self.atomized(item)).collect()
    }

    fn atom(&self, expr: &Expr, focus: &Focus) -> Result<Option<Atom>> {
        let items = self.eval(expr, focus)?;
        items.first().map(|item| self.atomized(item)).transpose()
    }

    fn set(&self, slot: usize, items: Vec<Item>) {
        if let Some(place) = self.variables.borrow_mut().get_mut(slot) {
            *place = Rc::new(items);
        }
    }

    fn flwor(&self, flwor: &Flwor, focus: &Focus) -> Result<Vec<Item>> {
        let mut rows: Vec<(Vec<Key>, Vec<Item>)> = Vec::new();
        self.rows(flwor, 0, focus, &mut rows)?;
        if !flwor.order.is_empty() {
            self.step(rows.len())?;
            rows.sort_by(|(a, _), (b, _)| {
                let pairs = a.iter().zip(b).zip(&flwor.order);
                let each = pairs.map(|((a, b), (_, descending))| match descending {
                    true => b.cmp(a),
                    false => a.cmp(b),
                });
                each.fold(Ordering::Equal, Ordering::then)
            });
        }
        Ok(rows.into_iter().flat_map(|(_, items)| items).collect())
    }

    fn rows(
        &self,
        flwor: &Flwor,
        at: usize,
        focus: &Focus,
        rows: &mut Vec<(Vec<Key>, Vec<Item>)>,
    ) -> Result<()> {
        match flwor.clauses.get(at) {
            Some(Clause::For(slot, over)) => {
                for item in self.eval(over, focus)? {
                    self.set(*slot, vec![item]);
                    with_stack(|| self.rows(flwor, at + 1, focus, rows))?;
                }
                Ok(())
            }
            Some(Clause::Let(slot, value)) => {
                let value = self.eval(value, focus)?;
                self.set(*slot, value);
                with_stack(|| self.rows(flwor, at + 1, focus, rows))
            }
            None => {
                if let Some(filter) = &flwor.filter
                    && !self.holds(filter, focus)?
                {
                    return Ok(());
                }
                let mut keys = Vec::with_capacity(flwor.order.len());
                for (key, _) in &flwor.order {
                    keys.push(Key::of(self.atom(key, focus)?));
                }
                let items = self.eval(&flwor.result, focus)?;
                self.step(items.len())?;
                rows.push((keys, items));
                Ok(())
            }
        }
    }

    fn quantified(
        &self,
        every: bool,
        bindings: &[(usize, Expr)],
        holds: &Expr,
        focus: &Focus,
    ) -> Result<bool> {
        let Some(((slot, over), rest)) = bindings.split_first() else {
            return self.holds(holds, focus);
        };
        for item in self.eval(over, focus)? {
            self.set(*slot, vec![item]);
            if with_stack(|| self.quantified(every, rest, holds, focus))? != every {
                return Ok(!every);
            }
        }
        Ok(every)
    }

    // --- Constructors

    fn construct(&self, made: &Constructor, focus: &Focus, builder: &mut Builder) -> Result<()> {
        builder.check_depth()?;
        builder.start(&made.name);
        for (prefix, namespace) in &made.declarations {
            builder.declaration(prefix, namespace);
        }
        for (name, parts) in &made.attributes {
            let value = self.joined(parts, Some(focus))?;
            self.step(made.attributes.len())?;
            builder.attribute(name, &value);
        }
        for part in &made.content {
            match part {
                Part::Text(text) => builder.text(text),
                Part::Expr(Expr::Element(inner)) => {
                    with_stack(|| self.construct(inner, focus, builder))?;
                }
                Part::Expr(expr) => {
                    let items = self.eval(expr, focus)?;
                    self.put(&items, builder)?;
                }
            }
        }
        builder.end();
        self.step(1)
    }

    /// Puts values into the element that is open: error 2396 for an attribute behind other content.
    pub fn put(&self, items: &[Item], builder: &mut Builder) -> Result<()> {
        let mut is_after_atom = false;
        for item in items {
            match item {
                Item::Atom(atom) => {
                    self.take(atom.bytes())?;
                    if is_after_atom {
                        builder.text(" ");
                    }
                    builder.text(&atom.text());
                }
                Item::Node(of, id) => {
                    let document = self.document(*of);
                    let nodes = document.end(*id).saturating_sub(*id) as usize;
                    self.take(nodes * 32 + document.string_bytes(*id))?;
                    if document.kind(*id) == Kind::Attribute && builder.has_content() {
                        return crate::error(2396, &[]);
                    }
                    builder.copy(&document, *id)?;
                }
            }
            is_after_atom = matches!(item, Item::Atom(_));
        }
        Ok(())
    }

    /// The text of an attribute: values of an expression are told apart by blanks.
    pub fn joined(&self, parts: &[Part], focus: Option<&Focus>) -> Result<String> {
        let mut text = String::new();
        let top = Focus {
            item: Item::Node(0, ROOT),
            position: 1,
            size: 1,
        };
        for part in parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Expr(expr) => {
                    for (at, atom) in self.atoms(expr, focus.unwrap_or(&top))?.iter().enumerate() {
                        self.take(text.len() + atom.bytes())?;
                        if at > 0 {
                            text.push(' ');
                        }
                        text.push_str(&atom.text());
                    }
                }
            }
        }
        Ok(text)
    }

    // --- Functions

    fn call(&self, function: Function, args: &[Expr], focus: &Focus) -> Result<Vec<Item>> {
        let one = |a: Atom| Ok(vec![Item::Atom(a)]);
        let perhaps = |a: Option<Atom>| Ok(a.map(Item::Atom).into_iter().collect());
        let arg = |at: usize| args.get(at).unwrap_or(&Expr::Context);
        let text = |at: usize| -> Result<std::sync::Arc<str>> {
            Ok(self.atom(arg(at), focus)?.map_or("".into(), |a| a.text()))
        };
        match function {
            Function::True => one(Atom::Boolean(true)),
            Function::False => one(Atom::Boolean(false)),
            Function::Position => one(Atom::Integer(focus.position as i128)),
            Function::Last => one(Atom::Integer(focus.size as i128)),
            Function::Not => one(Atom::Boolean(!self.holds(arg(0), focus)?)),
            Function::Empty => one(Atom::Boolean(self.eval(arg(0), focus)?.is_empty())),
            Function::Count => one(Atom::Integer(self.eval(arg(0), focus)?.len() as i128)),
            Function::Data => {
                let atoms = self.atoms(arg(0), focus)?;
                Ok(atoms.into_iter().map(Item::Atom).collect())
            }
            Function::DistinctValues => {
                let mut seen = HashSet::new();
                let mut atoms = self.atoms(arg(0), focus)?;
                self.step(atoms.len())?;
                atoms.retain(|a| seen.insert(Key::of(Some(a.clone())).hashed()));
                Ok(atoms.into_iter().map(Item::Atom).collect())
            }
            Function::String => one(Atom::String(text(0)?)),
            Function::Number => {
                let number = self.atom(arg(0), focus)?.and_then(|a| a.to_double());
                one(Atom::Double(number.unwrap_or(f64::NAN)))
            }
            Function::StringLength => one(Atom::Integer(text(0)?.chars().count() as i128)),
            Function::Contains => one(Atom::Boolean(text(0)?.contains(&*text(1)?))),
            Function::UpperCase => one(Atom::string(text(0)?.to_uppercase())),
            Function::LowerCase => one(Atom::string(text(0)?.to_lowercase())),
            Function::Concat => {
                let mut whole = String::new();
                for at in 0..args.len() {
                    let part = text(at)?;
                    self.take(whole.len() + part.len())?;
                    whole.push_str(&part);
                }
                one(Atom::string(whole))
            }
            Function::Substring => {
                let whole = text(0)?;
                let number = |at: usize| -> Result<Option<f64>> {
                    Ok(self.atom(arg(at), focus)?.and_then(|a| a.to_double()))
                };
                let Some(start) = number(1)? else {
                    return one(Atom::string(""));
                };
                let start = rounded(start);
                let end = match args.len() {
                    2 => f64::INFINITY,
                    _ => start + rounded(number(2)?.unwrap_or(f64::NAN)),
                };
                let inside = |at: usize| (at + 1) as f64 >= start && ((at + 1) as f64) < end;
                let kept = whole.chars().enumerate().filter(|(at, _)| inside(*at));
                one(Atom::string(kept.map(|(_, c)| c).collect::<String>()))
            }
            Function::LocalName | Function::NamespaceUri => {
                let items = self.eval(arg(0), focus)?;
                let Some(Item::Node(of, id)) = items.first() else {
                    return one(Atom::string(""));
                };
                let document = self.document(*of);
                let name = document.name(*id);
                one(Atom::string(name.map_or("", |n| match function {
                    Function::LocalName => &*n.local,
                    _ => &*n.namespace,
                })))
            }
            Function::Floor | Function::Ceiling | Function::Round => {
                let number = self.atom(arg(0), focus)?;
                let number = number.and_then(|a| match a.atom_type() {
                    AtomType::Untyped => a.cast(AtomType::Double),
                    _ => Some(a),
                });
                perhaps(number.and_then(|n| whole_number(function, n)))
            }
            Function::Sum | Function::Avg | Function::Min | Function::Max => {
                let atoms = self.atoms(arg(0), focus)?;
                self.step(atoms.len())?;
                perhaps(folded(function, atoms))
            }
        }
    }
}

/// The effective boolean value.
fn is_true(items: &[Item]) -> bool {
    match items {
        [] => false,
        [Item::Node(..), ..] => true,
        [Item::Atom(atom)] => match atom {
            Atom::Boolean(b) => *b,
            Atom::Untyped(text) | Atom::String(text) => !text.is_empty(),
            Atom::Double(d) => *d != 0.0 && !d.is_nan(),
            Atom::Integer(n) => *n != 0,
            Atom::Decimal(d) => !d.is_zero(),
            Atom::Temporal { .. } => false,
        },
        _ => false,
    }
}

/// Nodes in document order, each once; what holds atoms stays.
fn in_order(items: &mut Vec<Item>) {
    let place = |item: &Item| match item {
        Item::Node(of, id) => Some((*of, *id)),
        Item::Atom(_) => None,
    };
    if items.iter().all(|item| place(item).is_some()) {
        items.sort_by_key(place);
        items.dedup_by_key(|item| place(item));
    }
}

fn is_wanted(document: &Document, id: NodeId, test: &Test, of_attributes: bool) -> bool {
    let kind = document.kind(id);
    match test {
        Test::Node => kind != Kind::Namespace,
        Test::Text => kind == Kind::Text,
        Test::Comment => kind == Kind::Comment,
        Test::Instruction(target) => {
            let fits = |t: &String| document.name(id).is_some_and(|n| n.local == *t);
            kind == Kind::Instruction && target.as_ref().is_none_or(fits)
        }
        Test::Name { namespace, local } => {
            let wanted = if of_attributes {
                Kind::Attribute
            } else {
                Kind::Element
            };
            kind == wanted
                && document.name(id).is_some_and(|name| {
                    namespace.as_ref().is_none_or(|n| *n == name.namespace)
                        && local.as_ref().is_none_or(|l| *l == name.local)
                })
        }
    }
}

/// Half goes up.
fn rounded(number: f64) -> f64 {
    (number + 0.5).floor()
}

fn whole_number(function: Function, number: Atom) -> Option<Atom> {
    Some(match number {
        Atom::Integer(_) => number,
        Atom::Double(d) => Atom::Double(match function {
            Function::Floor => d.floor(),
            Function::Ceiling => d.ceil(),
            _ => rounded(d),
        }),
        Atom::Decimal(d) => Atom::Decimal(match function {
            Function::Floor => d.floor(),
            Function::Ceiling => d.ceiling(),
            _ => d.checked_add(Decimal::new(5, 1, 1)).ok()?.floor(),
        }),
        _ => return None,
    })
}

/// Sum, average, smallest and largest; text without a type counts as a double.
fn folded(function: Function, atoms: Vec<Atom>) -> Option<Atom> {
    let typed = |a: Atom| match a.atom_type() {
        AtomType::Untyped => a.cast(AtomType::Double),
        _ => Some(a),
    };
    let count = atoms.len() as i128;
    let mut atoms = atoms.into_iter();
    let Some(first) = atoms.next() else {
        return (function == Function::Sum).then_some(Atom::Integer(0));
    };
    let mut whole = typed(first)?;
    for next in atoms {
        let next = typed(next)?;
        whole = match function {
            Function::Min if next.compare(&whole)?.is_lt() => next,
            Function::Max if next.compare(&whole)?.is_gt() => next,
            Function::Min | Function::Max => whole,
            _ => arithmetic(crate::atom::Arithmetic::Add, &whole, &next)?,
        };
    }
    match function {
        Function::Avg => arithmetic(
            crate::atom::Arithmetic::Divide,
            &whole,
            &Atom::Integer(count),
        ),
        Function::Sum if !whole.atom_type().is_number() => None,
        _ => Some(whole),
    }
}

/// What `order by` sorts by: a total order over values of all types, nothing first.
#[derive(Clone, Debug)]
enum Key {
    Nothing,
    Number(f64),
    Text(std::sync::Arc<str>),
    Boolean(bool),
    Instant(i64),
}

impl Key {
    fn of(atom: Option<Atom>) -> Key {
        match atom {
            None => Key::Nothing,
            Some(Atom::Untyped(text) | Atom::String(text)) => Key::Text(text),
            Some(Atom::Boolean(b)) => Key::Boolean(b),
            Some(Atom::Temporal { instant, .. }) => Key::Instant(instant),
            Some(number) => Key::Number(number.to_double().unwrap_or(f64::NAN)),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Key::Nothing => 0,
            Key::Number(_) => 1,
            Key::Text(_) => 2,
            Key::Boolean(_) => 3,
            Key::Instant(_) => 4,
        }
    }

    fn cmp(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Number(a), Key::Number(b)) => a.total_cmp(b),
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            (Key::Boolean(a), Key::Boolean(b)) => a.cmp(b),
            (Key::Instant(a), Key::Instant(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    /// Equal values have equal ones.
    fn hashed(&self) -> (u8, std::sync::Arc<str>) {
        let text = match self {
            Key::Nothing => "".into(),
            // Zero has two signs.
            Key::Number(n) => (n + 0.0).to_string().into(),
            Key::Text(text) => text.clone(),
            Key::Boolean(b) => b.to_string().into(),
            Key::Instant(n) => n.to_string().into(),
        };
        (self.rank(), text)
    }
}
