//! The parser: text to expressions, names resolved on the way.
//!
//! Theory: recursive descent with precedence climbing; the scanner is asked for what may come next. Forms of XQuery that the
//! product does not have are refused with its error 9335. Expressions nest no deeper than `NESTING_MAX`: each level is
//! counted, and long chains of operators and steps count as levels too, since those who walk the tree go down there.

mod construct;
mod operator;

use self::operator::{Operator, operator};
use crate::ast::*;
use crate::atom::AtomType;
use crate::document::{Name, XML_NAMESPACE};
use crate::function::Function;
use crate::lexer::Scanner;
use crate::query::{External, Namespace};
use crate::{NESTING_MAX, Result, error, with_stack};

const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
const FUNCTIONS: &str = "http://www.w3.org/2004/07/xpath-functions";
const TYPES: &str = "http://www.w3.org/2004/07/xpath-datatypes";
const SQL: &str = "urn:schemas-microsoft-com:xml-sql";

/// Axes of XPath that the product does not have.
const OTHER_AXES: &[&str] = &[
    "ancestor",
    "ancestor-or-self",
    "following",
    "following-sibling",
    "namespace",
    "preceding",
    "preceding-sibling",
];

pub(crate) struct Parser<'t> {
    at: Scanner<'t>,
    /// Prefix and namespace, innermost last; the empty prefix is that of elements.
    namespaces: Vec<(String, String)>,
    /// Variables that can be seen, with their slots.
    scope: Vec<(String, usize)>,
    pub slots: usize,
    pub externals: Vec<External>,
    nesting: usize,
    predicates: usize,
}

impl<'t> Parser<'t> {
    /// One for a text, with what WITH XMLNAMESPACES declares.
    pub fn new(text: &'t str, namespaces: &[Namespace]) -> Parser<'t> {
        let known = [
            ("xml", XML_NAMESPACE),
            ("xs", SCHEMA),
            ("xsi", INSTANCE),
            ("fn", FUNCTIONS),
            ("xdt", TYPES),
            ("sql", SQL),
        ];
        let known = known.map(|(prefix, uri)| (prefix.to_string(), uri.to_string()));
        let own = namespaces.iter().map(|n| (n.prefix.clone(), n.uri.clone()));
        Parser {
            at: Scanner { rest: text },
            namespaces: known.into_iter().chain(own).collect(),
            scope: Vec::new(),
            slots: 0,
            externals: Vec::new(),
            nesting: 0,
            predicates: 0,
        }
    }

    /// A whole query.
    pub fn query(&mut self) -> Result<Expr> {
        self.prolog()?;
        let expr = self.expr()?;
        self.end()?;
        Ok(expr)
    }

    /// A whole statement of modify.
    pub fn change(&mut self) -> Result<Change> {
        self.prolog()?;
        let change = if self.at.eat_word("insert")? {
            let what = self.single()?;
            let place = self.place()?;
            Change::Insert {
                what,
                place,
                target: self.single()?,
            }
        } else if self.at.eat_word("delete")? {
            Change::Delete(self.expr()?)
        } else if self.at.eat_words(&["replace", "value", "of"])? {
            let target = self.single()?;
            if !self.at.eat_word("with")? {
                return error(2205, &[&"with"]);
            }
            Change::Replace {
                target,
                with: self.single()?,
            }
        } else {
            // What is a query, but changes nothing, has an error of its own.
            self.expr()?;
            self.end()?;
            return error(6305, &[]);
        };
        self.end()?;
        Ok(change)
    }

    fn place(&mut self) -> Result<Place> {
        if self.at.eat_word("as")? {
            let place = match (self.at.eat_word("first")?, self.at.eat_word("last")?) {
                (true, _) => Place::First,
                (_, true) => Place::Last,
                _ => return error(2351, &[]),
            };
            return match self.at.eat_word("into")? {
                true => Ok(place),
                false => error(9303, &[&self.at.near(), &"into"]),
            };
        }
        for (word, place) in [
            ("into", Place::Into),
            ("before", Place::Before),
            ("after", Place::After),
        ] {
            if self.at.eat_word(word)? {
                return Ok(place);
            }
        }
        error(2248, &[&self.at.near()])
    }

    fn end(&mut self) -> Result<()> {
        self.at.blanks()?;
        match self.at.rest.is_empty() {
            true => Ok(()),
            false => error(2370, &[&self.at.near()]),
        }
    }

    fn prolog(&mut self) -> Result<()> {
        loop {
            if self.at.eat_words(&["declare", "namespace"])? {
                self.at.blanks()?;
                let prefix = self.at.name()?.to_string();
                self.at.expect("=")?;
                let uri = self.at.string()?;
                if prefix == "xml" || prefix == "xmlns" {
                    return error(2206, &[]);
                }
                self.namespaces.push((prefix, uri));
            } else if self
                .at
                .eat_words(&["declare", "default", "element", "namespace"])?
                || self.at.eat_words(&["declare", "default", "namespace"])?
            {
                let uri = self.at.string()?;
                self.namespaces.push((String::new(), uri));
            } else {
                return Ok(());
            }
            self.at.expect(";")?;
        }
    }

    fn namespace(&self, prefix: &str) -> Result<String> {
        let found = self
            .namespaces
            .iter()
            .rev()
            .find(|(known, _)| known == prefix);
        match found {
            Some((_, uri)) => Ok(uri.clone()),
            None if prefix.is_empty() => Ok(String::new()),
            None => error(2229, &[&prefix]),
        }
    }

    fn name_of(&self, prefix: &str, local: &str, is_attribute: bool) -> Result<Name> {
        let namespace = match is_attribute && prefix.is_empty() {
            true => String::new(),
            false => self.namespace(prefix)?,
        };
        Ok(Name {
            prefix: prefix.into(),
            namespace,
            local: local.into(),
        })
    }

    /// One level deeper.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting >= NESTING_MAX {
            return error(2363, &[]);
        }
        self.nesting += 1;
        let result = with_stack(|| f(self));
        self.nesting -= 1;
        result
    }

    /// Counts a link of a chain; the chain gives its levels back when it ends.
    fn link(&mut self, links: &mut usize) -> Result<()> {
        if self.nesting >= NESTING_MAX {
            return error(2363, &[]);
        }
        self.nesting += 1;
        *links += 1;
        Ok(())
    }

    fn expr(&mut self) -> Result<Expr> {
        let first = self.single()?;
        self.at.blanks()?;
        if !self.at.rest.starts_with(',') {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.at.eat(",")? {
            all.push(self.single()?);
        }
        Ok(Expr::Sequence(all))
    }

    fn single(&mut self) -> Result<Expr> {
        self.deeper(|p| {
            if p.at.at_word_and_variable("for")? || p.at.at_word_and_variable("let")? {
                return p.flwor();
            }
            for (word, every) in [("some", false), ("every", true)] {
                if p.at.at_word_and_variable(word)? {
                    p.at.eat_word(word)?;
                    return p.quantified(every);
                }
            }
            let mut ahead = p.at.clone();
            if ahead.eat_word("if")? && ahead.eat("(")? {
                p.at = ahead;
                return p.conditional();
            }
            p.binary(0)
        })
    }

    fn conditional(&mut self) -> Result<Expr> {
        let condition = self.expr()?;
        self.at.expect(")")?;
        if !self.at.eat_word("then")? {
            return error(9303, &[&self.at.near(), &"then"]);
        }
        let then = self.single()?;
        if !self.at.eat_word("else")? {
            return error(2355, &[]);
        }
        let otherwise = self.single()?;
        Ok(Expr::If(
            Box::new(condition),
            Box::new(then),
            Box::new(otherwise),
        ))
    }

    fn variable_name(&mut self) -> Result<String> {
        if !self.at.eat("$")? {
            return error(2241, &[]);
        }
        let (prefix, local) = self.at.qualified_name()?;
        Ok(if prefix.is_empty() {
            local.into()
        } else {
            format!("{prefix}:{local}")
        })
    }

    /// Makes the variable seen from here on.
    fn declare(&mut self, name: String) -> usize {
        let slot = self.slots;
        self.slots += 1;
        self.scope.push((name, slot));
        slot
    }

    fn flwor(&mut self) -> Result<Expr> {
        let (seen, mut links) = (self.scope.len(), 0);
        let mut clauses = Vec::new();
        loop {
            if self.at.at_word_and_variable("for")? {
                self.at.eat_word("for")?;
                loop {
                    self.link(&mut links)?;
                    let name = self.variable_name()?;
                    for word in ["at", "as"] {
                        if self.at.at_word(word)? {
                            return error(9335, &[&word]);
                        }
                    }
                    if !self.at.eat_word("in")? {
                        return error(2205, &[&"in"]);
                    }
                    let over = self.single()?;
                    clauses.push(Clause::For(self.declare(name), over));
                    if !self.at.eat(",")? {
                        break;
                    }
                }
            } else if self.at.at_word_and_variable("let")? {
                self.at.eat_word("let")?;
                loop {
                    self.link(&mut links)?;
                    let name = self.variable_name()?;
                    if !self.at.eat(":=")? {
                        return error(2205, &[&":="]);
                    }
                    let value = self.single()?;
                    clauses.push(Clause::Let(self.declare(name), value));
                    if !self.at.eat(",")? {
                        break;
                    }
                }
            } else {
                break;
            }
        }
        let filter = match self.at.eat_word("where")? {
            true => Some(self.single()?),
            false => None,
        };
        let mut order = Vec::new();
        if self.at.eat_words(&["stable", "order", "by"])? || self.at.eat_words(&["order", "by"])? {
            loop {
                let key = self.single()?;
                let descending = self.at.eat_word("descending")?;
                if !descending {
                    self.at.eat_word("ascending")?;
                }
                order.push((key, descending));
                if !self.at.eat(",")? {
                    break;
                }
            }
        }
        if !self.at.eat_word("return")? {
            let near = self.at.near();
            return match filter.is_some() || !order.is_empty() {
                true => error(9303, &[&near, &"return"]),
                false => error(9332, &[&near]),
            };
        }
        let result = self.single()?;
        self.scope.truncate(seen);
        self.nesting -= links;
        Ok(Expr::Flwor(Box::new(Flwor {
            clauses,
            filter,
            order,
            result,
        })))
    }

    fn quantified(&mut self, every: bool) -> Result<Expr> {
        let (seen, mut links) = (self.scope.len(), 0);
        let mut bindings = Vec::new();
        loop {
            self.link(&mut links)?;
            let name = self.variable_name()?;
            if !self.at.eat_word("in")? {
                return error(9303, &[&self.at.near(), &"in"]);
            }
            let over = self.single()?;
            bindings.push((self.declare(name), over));
            if !self.at.eat(",")? {
                break;
            }
        }
        if !self.at.eat_word("satisfies")? {
            return error(9303, &[&self.at.near(), &"satisfies"]);
        }
        let holds = Box::new(self.single()?);
        self.scope.truncate(seen);
        self.nesting -= links;
        Ok(Expr::Quantified {
            every,
            bindings,
            holds,
        })
    }

    /// Operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8) -> Result<Expr> {
        let mut links = 0;
        let mut left = self.unary()?;
        loop {
            let mut ahead = self.at.clone();
            let Some((operator, strength)) = operator(&mut ahead)? else {
                break;
            };
            if strength < least {
                break;
            }
            self.at = ahead;
            self.link(&mut links)?;
            left = match operator {
                Operator::CastAs | Operator::InstanceOf => {
                    let to = self.type_name()?;
                    // A cast means the same: nothing stays nothing.
                    let is_optional = self.at.eat("?")?;
                    match operator {
                        Operator::CastAs => Expr::Cast(Box::new(left), to),
                        _ => Expr::InstanceOf(Box::new(left), to, is_optional),
                    }
                }
                _ => {
                    let right = self.deeper(|p| p.binary(strength + 1))?;
                    let (left, right) = (Box::new(left), Box::new(right));
                    match operator {
                        Operator::Or => Expr::Or(left, right),
                        Operator::And => Expr::And(left, right),
                        Operator::General(c) => Expr::General(c, left, right),
                        Operator::Value(c) => Expr::Value(c, left, right),
                        Operator::Order(o) => Expr::Order(o, left, right),
                        Operator::Arithmetic(a) => Expr::Arithmetic(a, left, right),
                        Operator::CastAs | Operator::InstanceOf => *left,
                    }
                }
            };
        }
        self.nesting -= links;
        Ok(left)
    }

    fn type_name(&mut self) -> Result<AtomType> {
        self.at.blanks()?;
        let (prefix, local) = self.at.qualified_name()?;
        let namespace = self.namespace(prefix)?;
        match AtomType::named(local).filter(|_| namespace == SCHEMA || namespace == TYPES) {
            Some(found) => Ok(found),
            None if prefix.is_empty() => error(2231, &[&local]),
            None => error(2232, &[&prefix, &local]),
        }
    }

    fn unary(&mut self) -> Result<Expr> {
        if self.at.eat("-")? {
            let operand = self.deeper(Self::unary)?;
            return Ok(Expr::Negate(Box::new(operand)));
        }
        if self.at.eat("+")? {
            return self.deeper(Self::unary);
        }
        self.path()
    }

    fn path(&mut self) -> Result<Expr> {
        let mut links = 0;
        let mut left = if self.at.eat("//")? {
            self.below(Expr::Root)?
        } else if self.at.eat("/")? {
            if !self.at_step()? {
                return Ok(Expr::Root);
            }
            Expr::Path(Box::new(Expr::Root), Box::new(self.step()?))
        } else {
            self.step()?
        };
        loop {
            if self.at.eat("//")? {
                self.link(&mut links)?;
                left = self.below(left)?;
            } else if self.at.eat("/")? {
                self.link(&mut links)?;
                left = Expr::Path(Box::new(left), Box::new(self.step()?));
            } else {
                self.nesting -= links;
                return Ok(left);
            }
        }
    }

    /// The step behind `//`.
    fn below(&mut self, left: Expr) -> Result<Expr> {
        let step = self.step()?;
        let left = Box::new(left);
        // Without predicates, which count among brothers, the descendants are the same in one step.
        if let Expr::Step {
            axis: Axis::Child,
            test,
            predicates,
        } = &step
            && predicates.is_empty()
        {
            let axis = Axis::Descendant;
            let step = Expr::Step {
                axis,
                test: test.clone(),
                predicates: Vec::new(),
            };
            return Ok(Expr::Path(left, Box::new(step)));
        }
        let all = Expr::Step {
            axis: Axis::DescendantOrSelf,
            test: Test::Node,
            predicates: Vec::new(),
        };
        let all = Expr::Path(left, Box::new(all));
        Ok(Expr::Path(Box::new(all), Box::new(step)))
    }

    fn at_step(&mut self) -> Result<bool> {
        self.at.blanks()?;
        let is_sign = self.at.rest.starts_with(['@', '*', '.', '(', '$']);
        Ok(is_sign || self.at.starts_name())
    }

    fn step(&mut self) -> Result<Expr> {
        self.at.blanks()?;
        if self.at.eat_here("..") {
            return self.predicates_of(Axis::Parent, Test::Node);
        }
        if self.at.eat_here("@") {
            let test = self.node_test(true)?;
            return self.predicates_of(Axis::Attribute, test);
        }
        if let Some(axis) = self.axis()? {
            let test = self.node_test(axis == Axis::Attribute)?;
            return self.predicates_of(axis, test);
        }
        if self.at_primary()? {
            let mut primary = self.primary()?;
            let mut links = 0;
            while self.at.eat("[")? {
                self.link(&mut links)?;
                let predicate = self.predicate()?;
                primary = Expr::Filter(Box::new(primary), Box::new(predicate));
            }
            self.nesting -= links;
            return Ok(primary);
        }
        if !self.at.starts_name() && !self.at.rest.starts_with('*') {
            return error(9341, &[&self.at.near()]);
        }
        let test = self.node_test(false)?;
        self.predicates_of(Axis::Child, test)
    }

    fn predicates_of(&mut self, axis: Axis, test: Test) -> Result<Expr> {
        let mut predicates = Vec::new();
        while self.at.eat("[")? {
            predicates.push(self.predicate()?);
        }
        Ok(Expr::Step {
            axis,
            test,
            predicates,
        })
    }

    fn predicate(&mut self) -> Result<Expr> {
        self.predicates += 1;
        let predicate = self.single()?;
        self.predicates -= 1;
        self.at.expect("]")?;
        Ok(predicate)
    }

    /// `name::`
    fn axis(&mut self) -> Result<Option<Axis>> {
        let mut ahead = self.at.clone();
        if !ahead.starts_name() {
            return Ok(None);
        }
        let name = ahead.name()?;
        ahead.blanks()?;
        if !ahead.eat_here("::") {
            return Ok(None);
        }
        let axis = match name {
            "child" => Axis::Child,
            "descendant" => Axis::Descendant,
            "descendant-or-self" => Axis::DescendantOrSelf,
            "parent" => Axis::Parent,
            "attribute" => Axis::Attribute,
            "self" => Axis::Own,
            other if OTHER_AXES.contains(&other) => return error(9335, &[&other]),
            other => return error(2392, &[&other]),
        };
        self.at = ahead;
        self.at.blanks()?;
        Ok(Some(axis))
    }

    fn node_test(&mut self, is_attribute: bool) -> Result<Test> {
        self.at.blanks()?;
        if self.at.eat_here("*") {
            if self.at.eat_here(":") {
                let local = Some(self.at.name()?.to_string());
                return Ok(Test::Name {
                    namespace: None,
                    local,
                });
            }
            return Ok(Test::Name {
                namespace: None,
                local: None,
            });
        }
        if !self.at.starts_name() {
            return error(2256, &[&self.at.near()]);
        }
        let (prefix, local) = self.at.qualified_name()?;
        if prefix.is_empty() {
            if self.at.eat_here(":*") {
                let namespace = Some(self.namespace(local)?);
                return Ok(Test::Name {
                    namespace,
                    local: None,
                });
            }
            let mut ahead = self.at.clone();
            if is_kind(local) && ahead.eat("(")? {
                self.at = ahead;
                return self.kind_test(local);
            }
        }
        let name = self.name_of(prefix, local, is_attribute)?;
        Ok(Test::Name {
            namespace: Some(name.namespace),
            local: Some(name.local),
        })
    }

    fn kind_test(&mut self, kind: &str) -> Result<Test> {
        let test = match kind {
            "node" => Test::Node,
            "text" => Test::Text,
            "comment" => Test::Comment,
            _ => {
                self.at.blanks()?;
                let target = match self.at.rest.starts_with(')') {
                    true => None,
                    false if self.at.starts_name() => Some(self.at.name()?.to_string()),
                    false => Some(self.at.string()?),
                };
                Test::Instruction(target)
            }
        };
        self.at.expect(")")?;
        Ok(test)
    }

    /// Anything but a step along an axis.
    fn at_primary(&mut self) -> Result<bool> {
        if self.at.at_literal() || self.at.rest.starts_with(['$', '(', '.', '<']) {
            return Ok(true);
        }
        let mut ahead = self.at.clone();
        if !ahead.starts_name() {
            return Ok(false);
        }
        let (prefix, local) = ahead.qualified_name()?;
        ahead.blanks()?;
        if ahead.rest.starts_with('(') && !ahead.rest.starts_with("(:") {
            return Ok(!(prefix.is_empty() && is_kind(local)));
        }
        Ok(prefix.is_empty() && self.computed_constructor()?.is_some())
    }

    fn primary(&mut self) -> Result<Expr> {
        if self.at.at_literal() {
            return Ok(Expr::Literal(self.at.literal()?));
        }
        match self.at.peek() {
            Some('$') => {
                let name = self.variable_name()?;
                let found = self.scope.iter().rev().find(|(known, _)| *known == name);
                match found {
                    Some((_, slot)) => Ok(Expr::Variable(*slot)),
                    None => error(2227, &[&format!("${name}")]),
                }
            }
            Some('(') => {
                self.at.next();
                if self.at.eat(")")? {
                    return Ok(Expr::Sequence(Vec::new()));
                }
                let inside = self.expr()?;
                self.at.expect(")")?;
                Ok(inside)
            }
            Some('.') => {
                self.at.next();
                Ok(Expr::Context)
            }
            Some('<') => self.direct(),
            _ => match self.computed_constructor()? {
                Some((what, at_name)) => {
                    self.at = at_name;
                    self.computed(what)
                }
                None => self.call(),
            },
        }
    }

    fn call(&mut self) -> Result<Expr> {
        let (prefix, local) = self.at.qualified_name()?;
        let namespace = match prefix {
            "" => FUNCTIONS.to_string(),
            _ => self.namespace(prefix)?,
        };
        self.at.expect("(")?;
        if namespace == SQL {
            return self.external(local);
        }
        let mut args = Vec::new();
        if !self.at.eat(")")? {
            loop {
                args.push(self.single()?);
                if !self.at.eat(",")? {
                    break;
                }
            }
            self.at.expect(")")?;
        }
        if (namespace == SCHEMA || namespace == TYPES)
            && let Some(to) = AtomType::named(local)
        {
            return match <[Expr; 1]>::try_from(args) {
                Ok([operand]) => Ok(Expr::Cast(Box::new(operand), to)),
                Err(args) if args.is_empty() => error(2236, &[&format!("{local}()")]),
                Err(_) => error(2238, &[&format!("{local}()")]),
            };
        }
        let found = Function::named(local).filter(|_| namespace == FUNCTIONS);
        let Some((function, low, high)) = found else {
            return error(2395, &[&format!("{{{namespace}}}"), &local]);
        };
        if args.len() < low {
            return error(2236, &[&format!("{local}()")]);
        }
        if args.len() > high {
            return error(2238, &[&format!("{local}()")]);
        }
        if matches!(function, Function::Position | Function::Last) && self.predicates == 0 {
            return error(2371, &[&format!("{local}()")]);
        }
        if args.is_empty()
            && matches!(
                function,
                Function::String
                    | Function::Number
                    | Function::StringLength
                    | Function::LocalName
                    | Function::NamespaceUri
            )
        {
            args.push(Expr::Context);
        }
        Ok(Expr::Call(function, args))
    }

    /// `sql:variable("@x")` and `sql:column("t.c")`.
    fn external(&mut self, local: &str) -> Result<Expr> {
        let name = self.at.string()?;
        self.at.expect(")")?;
        let external = match local {
            "variable" => External::Variable(name),
            "column" => External::Column(name),
            other => return error(2395, &[&format!("{{{SQL}}}"), &other]),
        };
        let place = match self.externals.iter().position(|e| *e == external) {
            Some(known) => known,
            None => {
                self.externals.push(external);
                self.externals.len() - 1
            }
        };
        Ok(Expr::External(place))
    }
}

fn is_kind(name: &str) -> bool {
    matches!(name, "node" | "text" | "comment" | "processing-instruction")
}
