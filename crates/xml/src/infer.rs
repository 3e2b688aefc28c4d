//! What type an expression has before it runs, and whether it may stand where it does.
//!
//! Theory: documents are untyped, so that what can be known is the kind of a node and how many values there are at most.
//! That decides much: `value()` takes one value, and a path is many unless it says otherwise, `(/a/b)[1]`. Errors 2203 to
//! 2396 come from here, as the product finds them when it compiles the statement.

use crate::ast::*;
use crate::atom::{Arithmetic, AtomType};
use crate::function::Function;
use crate::query::Method;
use crate::{Result, error, with_stack};
use std::fmt;

/// The context of a query, as messages write it.
const DOCUMENT: &str =
    "document { (element(*,xdt:untyped) ? & text ? & comment ? & processing-instruction ?) * }";

/// How many values an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    None,
    One,
    AtMostOne,
    Many,
}

impl Count {
    /// For each of these, so many.
    fn times(self, each: Count) -> Count {
        match (self, each) {
            (Count::None, _) | (_, Count::None) => Count::None,
            (Count::One, other) | (other, Count::One) => other,
            (Count::AtMostOne, Count::AtMostOne) => Count::AtMostOne,
            _ => Count::Many,
        }
    }

    fn or_none(self) -> Count {
        if self == Count::One {
            Count::AtMostOne
        } else {
            self
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Atom(AtomType),
    Document,
    Element(String),
    Attribute(String),
    Text,
    Comment,
    Instruction,
    /// A node of any kind.
    Node,
    /// Anything.
    Any,
}

impl Item {
    fn is_node(&self) -> bool {
        !matches!(self, Item::Atom(_) | Item::Any) || *self == Item::Atom(AtomType::Fragment)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Type {
    pub item: Item,
    pub count: Count,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == Count::None {
            return f.write_str("empty");
        }
        match &self.item {
            Item::Atom(atom) => f.write_str(atom.name()),
            Item::Document => return f.write_str(DOCUMENT),
            Item::Element(name) => write!(f, "element({name},xdt:untyped)"),
            Item::Attribute(name) => write!(f, "attribute({name},xdt:untypedAtomic)"),
            Item::Text => f.write_str("text"),
            Item::Comment => f.write_str("comment"),
            Item::Instruction => f.write_str("processing-instruction"),
            Item::Node => f.write_str("node()"),
            Item::Any => f.write_str("item()"),
        }?;
        f.write_str(match self.count {
            Count::AtMostOne => " ?",
            Count::Many => " *",
            _ => "",
        })
    }
}

impl Type {
    fn new(item: Item, count: Count) -> Type {
        Type { item, count }
    }

    fn atom(of: AtomType, count: Count) -> Type {
        Type::new(Item::Atom(of), count)
    }

    fn one(of: AtomType) -> Type {
        Type::atom(of, Count::One)
    }

    fn is_many(&self) -> bool {
        self.count == Count::Many
    }

    /// After `data()`.
    fn atomized(&self) -> Type {
        let of = match &self.item {
            Item::Atom(AtomType::Fragment) => AtomType::Untyped,
            Item::Atom(of) => *of,
            Item::Comment | Item::Instruction => AtomType::String,
            _ => AtomType::Untyped,
        };
        Type::atom(of, self.count)
    }

    fn atom_type(&self) -> AtomType {
        match self.atomized().item {
            Item::Atom(of) => of,
            _ => AtomType::Untyped,
        }
    }

    /// This or that.
    fn or(self, other: Type) -> Type {
        let count = match (self.count, other.count) {
            (a, b) if a == b => a,
            (Count::Many, _) | (_, Count::Many) => Count::Many,
            _ => Count::AtMostOne,
        };
        if self.count == Count::None {
            return Type::new(other.item, count);
        }
        if other.count == Count::None {
            return Type::new(self.item, count);
        }
        Type::new(common(self.item, other.item), count)
    }
}

fn common(a: Item, b: Item) -> Item {
    match (a, b) {
        (a, b) if a == b => a,
        (Item::Element(_), Item::Element(_)) => Item::Element("*".into()),
        (Item::Attribute(_), Item::Attribute(_)) => Item::Attribute("*".into()),
        (Item::Atom(a), Item::Atom(b)) if a.is_number() && b.is_number() => {
            Item::Atom(AtomType::Double)
        }
        (Item::Atom(_), Item::Atom(_)) => Item::Atom(AtomType::Untyped),
        (a, b) if a.is_node() && b.is_node() => Item::Node,
        _ => Item::Any,
    }
}

/// Looks through expressions.
pub(crate) struct Checker<'q> {
    pub externals: &'q [AtomType],
    pub variables: Vec<Type>,
    /// What the expression is asked of: a document, or a node that nodes() gave.
    pub context: Item,
    /// What is looked at is the direct source of an insert: the only place for a value of type `xml`.
    is_source: bool,
}

impl Checker<'_> {
    /// One for externals of these types; `is_node`: it is asked of a node that nodes() gave.
    pub fn new(externals: &[AtomType], slots: usize, is_node: bool) -> Checker<'_> {
        Checker {
            externals,
            variables: vec![Type::new(Item::Any, Count::Many); slots],
            context: if is_node { Item::Node } else { Item::Document },
            is_source: false,
        }
    }

    /// A query of the method.
    pub fn query(&mut self, method: Method, expr: &Expr) -> Result<()> {
        let context = self.context.clone();
        let found = self.infer(expr, &context)?;
        match method {
            Method::Value if found.is_many() => error(2389, &[&"value()", &found.atomized()]),
            Method::Query if matches!(found.item, Item::Attribute(_)) => error(2396, &[]),
            Method::Nodes if !found.item.is_node() && found.count != Count::None => {
                error(2374, &[&"nodes()"])
            }
            _ => Ok(()),
        }
    }

    /// A statement of modify.
    pub fn change(&mut self, change: &Change) -> Result<()> {
        let context = self.context.clone();
        match change {
            Change::Insert {
                what,
                place,
                target,
            } => {
                self.is_source = is_direct(what);
                let what = self.infer(what, &context)?;
                self.is_source = false;
                let target = self.infer(target, &context)?;
                if target.is_many() {
                    return error(2226, &[&target]);
                }
                if !what.item.is_node() && what.count != Count::None {
                    return error(2207, &[&what]);
                }
                if matches!(what.item, Item::Attribute(_))
                    && matches!(place, Place::Before | Place::After)
                {
                    return error(2258, &[&what]);
                }
                let is_inside = matches!(place, Place::Into | Place::First | Place::Last);
                match (&target.item, is_inside) {
                    (Item::Element(_) | Item::Document | Item::Node, true) => Ok(()),
                    (_, true) => error(2240, &[&target]),
                    (Item::Document | Item::Attribute(_) | Item::Atom(_) | Item::Any, false) => {
                        error(2249, &[&target])
                    }
                    _ => Ok(()),
                }
            }
            Change::Delete(what) => {
                let what = self.infer(what, &context)?;
                let may_go = what.item.is_node() && what.item != Item::Document;
                match may_go || what.count == Count::None {
                    true => Ok(()),
                    false => error(2264, &[&what]),
                }
            }
            Change::Replace { target, with } => {
                let target = self.infer(target, &context)?;
                self.infer(with, &context)?;
                if is_made(with) {
                    return error(9310, &[]);
                }
                if target.is_many() {
                    return error(2337, &[&target]);
                }
                match &target.item {
                    Item::Attribute(_) | Item::Text => Ok(()),
                    _ => error(2356, &[&target]),
                }
            }
        }
    }

    fn infer(&mut self, expr: &Expr, context: &Item) -> Result<Type> {
        with_stack(|| self.infer_here(expr, context))
    }

    fn infer_here(&mut self, expr: &Expr, context: &Item) -> Result<Type> {
        Ok(match expr {
            Expr::Literal(atom) => Type::one(atom.atom_type()),
            Expr::Sequence(all) => self.sequence(all, context)?,
            Expr::Variable(slot) => match self.variables.get(*slot) {
                Some(known) => known.clone(),
                None => Type::new(Item::Any, Count::Many),
            },
            Expr::Context => Type::new(context.clone(), Count::One),
            Expr::Root => Type::new(Item::Document, Count::One),
            Expr::Path(left, right) => {
                let left = self.infer(left, context)?;
                if !left.item.is_node() && left.item != Item::Any && left.count != Count::None {
                    return error(2374, &[&"/"]);
                }
                let right = self.infer(right, &left.item)?;
                Type::new(right.item, left.count.times(right.count))
            }
            Expr::Step {
                axis,
                test,
                predicates,
            } => {
                let mut found = step(*axis, test, context);
                for predicate in predicates {
                    found = self.filtered(found, predicate)?;
                }
                found
            }
            Expr::Filter(base, predicate) => {
                let base = self.infer(base, context)?;
                self.filtered(base, predicate)?
            }
            Expr::Or(a, b) | Expr::And(a, b) => {
                self.condition(a, context)?;
                self.condition(b, context)?;
                Type::one(AtomType::Boolean)
            }
            Expr::General(op, a, b) => {
                let (a, b) = (self.infer(a, context)?, self.infer(b, context)?);
                comparable(op.name(true), &a, &b)?;
                Type::one(AtomType::Boolean)
            }
            Expr::Value(op, a, b) => {
                let (a, b) = (self.infer(a, context)?, self.infer(b, context)?);
                single(op.name(false), &a)?;
                single(op.name(false), &b)?;
                comparable(op.name(false), &a, &b)?;
                Type::atom(AtomType::Boolean, Count::AtMostOne)
            }
            Expr::Order(order, a, b) => {
                let name = match order {
                    Order::Same => "is",
                    Order::Before => "<<",
                    Order::After => ">>",
                };
                for side in [a, b] {
                    let side = self.infer(side, context)?;
                    if side.is_many() {
                        return error(2389, &[&name, &side]);
                    }
                    if !side.item.is_node() && side.count != Count::None {
                        return error(2374, &[&name]);
                    }
                }
                Type::atom(AtomType::Boolean, Count::AtMostOne)
            }
            Expr::Arithmetic(op, a, b) => {
                let (a, b) = (self.infer(a, context)?, self.infer(b, context)?);
                arithmetic(*op, &a, &b)?
            }
            Expr::Negate(operand) => {
                let operand = self.infer(operand, context)?;
                let zero = Type::one(AtomType::Integer);
                arithmetic(Arithmetic::Subtract, &zero, &operand)?
            }
            Expr::If(condition, then, otherwise) => {
                self.condition(condition, context)?;
                let (then, otherwise) =
                    (self.infer(then, context)?, self.infer(otherwise, context)?);
                unmixed(&then, &otherwise)?;
                then.or(otherwise)
            }
            Expr::Flwor(flwor) => self.flwor(flwor, context)?,
            Expr::Quantified {
                bindings, holds, ..
            } => {
                for (slot, over) in bindings {
                    let over = self.infer(over, context)?;
                    self.set(*slot, Type::new(over.item, Count::One));
                }
                self.condition(holds, context)?;
                Type::one(AtomType::Boolean)
            }
            Expr::Call(function, args) => self.call(*function, args, context)?,
            Expr::Cast(operand, to) => {
                let operand = self.infer(operand, context)?;
                single(&format!("cast as {}", to.name()), &operand)?;
                Type::atom(*to, Count::AtMostOne)
            }
            Expr::InstanceOf(operand, _, _) => {
                self.infer(operand, context)?;
                Type::one(AtomType::Boolean)
            }
            Expr::Element(made) => {
                let attributes = made.attributes.iter().flat_map(|(_, parts)| parts);
                for part in attributes.chain(&made.content) {
                    if let Part::Expr(inner) = part {
                        self.infer(inner, context)?;
                    }
                }
                Type::new(Item::Element(made.name.local.clone()), Count::One)
            }
            Expr::Attribute(name, value) => {
                self.infer(value, context)?;
                Type::new(Item::Attribute(name.local.clone()), Count::One)
            }
            Expr::Text(value) => {
                let value = self.infer(value, context)?;
                let count = if value.count == Count::One {
                    Count::One
                } else {
                    Count::AtMostOne
                };
                Type::new(Item::Text, count)
            }
            Expr::Comment(_) => Type::new(Item::Comment, Count::One),
            Expr::Instruction(..) => Type::new(Item::Instruction, Count::One),
            Expr::External(place) => match self.externals.get(*place) {
                Some(AtomType::Fragment) if !self.is_source => return error(9342, &[]),
                Some(AtomType::Fragment) => Type::new(Item::Node, Count::Many),
                Some(of) => Type::atom(*of, Count::AtMostOne),
                None => Type::atom(AtomType::Untyped, Count::AtMostOne),
            },
        })
    }

    fn set(&mut self, slot: usize, of: Type) {
        if let Some(place) = self.variables.get_mut(slot) {
            *place = of;
        }
    }

    fn sequence(&mut self, all: &[Expr], context: &Item) -> Result<Type> {
        let mut whole: Option<Type> = None;
        for part in all {
            let part = self.infer(part, context)?;
            whole = Some(match whole {
                None => part,
                Some(before) if before.count == Count::None => part,
                Some(before) if part.count == Count::None => before,
                Some(before) => {
                    unmixed(&before, &part)?;
                    Type::new(common(before.item, part.item), Count::Many)
                }
            });
        }
        Ok(whole.unwrap_or(Type::new(Item::Any, Count::None)))
    }

    fn filtered(&mut self, base: Type, predicate: &Expr) -> Result<Type> {
        let found = self.infer(predicate, &base.item)?;
        let of = found.atom_type();
        let is_position = matches!(found.item, Item::Atom(of) if of.is_number());
        let fits = found.item.is_node()
            || found.count == Count::None
            || found.item == Item::Any
            || is_position && !found.is_many()
            || of == AtomType::Boolean && !found.is_many();
        if !fits {
            return error(2203, &[&found]);
        }
        let count = match is_position {
            true if base.count == Count::None => Count::None,
            true => Count::AtMostOne,
            false => base.count.or_none(),
        };
        Ok(Type::new(base.item, count))
    }

    fn condition(&mut self, expr: &Expr, context: &Item) -> Result<()> {
        let found = self.infer(expr, context)?;
        check_condition(&found)
    }

    fn flwor(&mut self, flwor: &Flwor, context: &Item) -> Result<Type> {
        let mut count = Count::One;
        for clause in &flwor.clauses {
            match clause {
                Clause::For(slot, over) => {
                    let over = self.infer(over, context)?;
                    count = count.times(over.count);
                    self.set(*slot, Type::new(over.item, Count::One));
                }
                Clause::Let(slot, value) => {
                    let value = self.infer(value, context)?;
                    self.set(*slot, value);
                }
            }
        }
        if let Some(filter) = &flwor.filter {
            self.condition(filter, context)?;
            count = count.or_none();
        }
        for (key, _) in &flwor.order {
            let key = self.infer(key, context)?;
            single("order by", &key)?;
        }
        let result = self.infer(&flwor.result, context)?;
        Ok(Type::new(result.item, count.times(result.count)))
    }

    fn call(&mut self, function: Function, args: &[Expr], context: &Item) -> Result<Type> {
        use Function::*;
        let mut types = Vec::with_capacity(args.len());
        for arg in args {
            types.push(self.infer(arg, context)?);
        }
        let takes_many = matches!(
            function,
            Avg | Count | Data | DistinctValues | Empty | Max | Min | Not | Sum
        );
        let name = format!("{}()", function.name());
        if !takes_many && let Some(many) = types.iter().find(|t| t.is_many()) {
            let takes_items = matches!(function, String | LocalName | NamespaceUri);
            return match takes_items {
                true => error(2389, &[&name, many]),
                false => error(2389, &[&name, &many.atomized()]),
            };
        }
        let first = types
            .first()
            .cloned()
            .unwrap_or(Type::new(Item::Any, self::Count::None));
        if matches!(function, LocalName | NamespaceUri)
            && !first.item.is_node()
            && first.count != self::Count::None
        {
            return error(2374, &[&name]);
        }
        if function == Not {
            check_condition(&first)?;
        }
        let number = match first.atom_type() {
            AtomType::Untyped => AtomType::Double,
            other => other,
        };
        Ok(match function {
            Avg | Min | Max => Type::atom(number, self::Count::AtMostOne),
            Sum => Type::one(number),
            Ceiling | Floor | Round => Type::atom(number, first.count.or_none()),
            Count | Last | Position | StringLength => Type::one(AtomType::Integer),
            Data => first.atomized(),
            DistinctValues => Type::new(first.atomized().item, first.count),
            Empty | Contains | False | Not | True => Type::one(AtomType::Boolean),
            Number => Type::one(AtomType::Double),
            Concat | LocalName | LowerCase | NamespaceUri | String | Substring | UpperCase => {
                Type::one(AtomType::String)
            }
        })
    }
}

/// Is it a value of SQL, or are there some side by side with other things?
fn is_direct(expr: &Expr) -> bool {
    match expr {
        Expr::External(_) => true,
        Expr::Sequence(all) => all.iter().any(is_direct),
        _ => false,
    }
}

/// Does a constructor stand there?
fn is_made(expr: &Expr) -> bool {
    match expr {
        Expr::Element(_)
        | Expr::Attribute(..)
        | Expr::Text(_)
        | Expr::Comment(_)
        | Expr::Instruction(..) => true,
        Expr::Sequence(all) => all.iter().any(is_made),
        _ => false,
    }
}

fn step(axis: Axis, test: &Test, context: &Item) -> Type {
    let named = |n: &Option<String>| n.clone().unwrap_or("*".into());
    let item = match (test, axis) {
        (Test::Name { local, .. }, Axis::Attribute) => Item::Attribute(named(local)),
        (Test::Name { local, .. }, _) => Item::Element(named(local)),
        (Test::Node, Axis::Attribute) => Item::Attribute("*".into()),
        (Test::Node, Axis::Own) => context.clone(),
        (Test::Node, _) => Item::Node,
        (Test::Text, _) => Item::Text,
        (Test::Comment, _) => Item::Comment,
        (Test::Instruction(_), _) => Item::Instruction,
    };
    let is_one_name = matches!(
        test,
        Test::Name {
            namespace: Some(_),
            local: Some(_)
        }
    );
    let count = match axis {
        Axis::Attribute if is_one_name => Count::AtMostOne,
        Axis::Own if *test == Test::Node => Count::One,
        Axis::Own | Axis::Parent => Count::AtMostOne,
        _ => Count::Many,
    };
    Type::new(item, count)
}

/// Error 2210 where nodes stand beside atoms.
fn unmixed(a: &Type, b: &Type) -> Result<()> {
    let is_known = |t: &Type| t.item != Item::Any && t.count != Count::None;
    if !is_known(a) || !is_known(b) || a.item.is_node() == b.item.is_node() {
        return Ok(());
    }
    match a.item.is_node() {
        true => error(2210, &[b, a]),
        false => error(2210, &[a, b]),
    }
}

fn single(name: &str, of: &Type) -> Result<()> {
    match of.is_many() {
        true => error(2389, &[&name, &of.atomized()]),
        false => Ok(()),
    }
}

/// Error 2234 for values that never compare.
fn comparable(name: &str, a: &Type, b: &Type) -> Result<()> {
    let (x, y) = (a.atom_type(), b.atom_type());
    let is_known = |t: &Type| t.item != Item::Any && t.count != Count::None;
    let fits = x == y
        || x == AtomType::Untyped
        || y == AtomType::Untyped
        || x.is_number() && y.is_number()
        || !is_known(a)
        || !is_known(b);
    match fits {
        true => Ok(()),
        false => error(2234, &[&name, &a.atomized(), &b.atomized()]),
    }
}

fn arithmetic(op: Arithmetic, a: &Type, b: &Type) -> Result<Type> {
    single(op.name(), a)?;
    single(op.name(), b)?;
    let fits = |t: AtomType| t.is_number() || t == AtomType::Untyped;
    for side in [a, b] {
        if !fits(side.atom_type()) && side.item != Item::Any {
            return error(9308, &[&op.name(), &side.atomized()]);
        }
    }
    let of = match (a.atom_type(), b.atom_type()) {
        _ if op == Arithmetic::Whole => AtomType::Integer,
        (AtomType::Integer, AtomType::Integer) if op != Arithmetic::Divide => AtomType::Integer,
        (AtomType::Integer | AtomType::Decimal, AtomType::Integer | AtomType::Decimal) => {
            AtomType::Decimal
        }
        _ => AtomType::Double,
    };
    let count = match (a.count, b.count) {
        (Count::None, _) | (_, Count::None) => Count::None,
        _ => Count::AtMostOne,
    };
    Ok(Type::atom(of, count))
}

/// Error 2204 for what is neither true nor false.
fn check_condition(found: &Type) -> Result<()> {
    let is_boolean = found.item == Item::Atom(AtomType::Boolean) && !found.is_many();
    match is_boolean
        || found.item.is_node()
        || found.item == Item::Any
        || found.count == Count::None
    {
        true => Ok(()),
        false => error(2204, &[found]),
    }
}
