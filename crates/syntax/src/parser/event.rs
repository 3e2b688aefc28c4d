//! CREATE, ALTER and DROP EVENT SESSION.
//!
//! Theory: a predicate is no condition of the language. Its sources are names with a package before them, its values constants,
//! and comparators may be written as calls; a parenthesis always opens a group or a constant.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn create_event_session(&mut self) -> Parse<StatementKind> {
        let (name, on_database) = self.event_session_name()?;
        let changes = self.event_session_changes()?;
        if changes.is_empty() {
            return Err(self.unexpected());
        }
        let options = self.optional_with_options()?;
        let verb = EventSessionVerb::Create { changes, options };
        Ok(event_session(name, on_database, verb))
    }

    pub(super) fn alter_event_session(&mut self) -> Parse<StatementKind> {
        let (name, on_database) = self.event_session_name()?;
        if self.eat(K::STATE) {
            self.expect_equal()?;
            let verb = match self.word_upper()?.as_str() {
                "START" => EventSessionVerb::Start,
                "STOP" => EventSessionVerb::Stop,
                _ => {
                    self.at -= 1;
                    return Err(self.unexpected());
                }
            };
            return Ok(event_session(name, on_database, verb));
        }
        let changes = self.event_session_changes()?;
        let options = self.optional_with_options()?;
        if changes.is_empty() && options.is_empty() {
            return Err(self.unexpected());
        }
        let verb = EventSessionVerb::Alter { changes, options };
        Ok(event_session(name, on_database, verb))
    }

    pub(super) fn drop_event_session(&mut self) -> Parse<StatementKind> {
        let (name, on_database) = self.event_session_name()?;
        Ok(event_session(name, on_database, EventSessionVerb::Drop))
    }

    fn event_session_name(&mut self) -> Parse<(Ident, bool)> {
        self.expect_words(&[K::EVENT, K::SESSION])?;
        let name = self.ident()?;
        self.expect(K::ON)?;
        match self.eat_any(&[K::SERVER, K::DATABASE]) {
            Some(found) => Ok((name, found == K::DATABASE)),
            None => Err(self.unexpected()),
        }
    }

    fn event_session_changes(&mut self) -> Parse<Vec<EventSessionChange>> {
        let mut changes = Vec::new();
        loop {
            if !self.at_event_part() {
                return match changes.is_empty() {
                    true => Ok(changes),
                    false => Err(self.unexpected()),
                };
            }
            changes.push(match self.at(K::ADD) {
                true => self.added_event_part()?,
                false => self.dropped_event_part()?,
            });
            if !self.eat_comma() && !self.at_event_part() {
                return Ok(changes);
            }
        }
    }

    /// At `ADD EVENT`, `DROP TARGET` and the like? `DROP EVENT SESSION` is the next statement.
    fn at_event_part(&self) -> bool {
        let is_part = matches!(self.keyword_at(1), K::EVENT | K::TARGET);
        let is_session = self.at(K::DROP) && self.keyword_at(2) == K::SESSION;
        self.at_any(&[K::ADD, K::DROP]) && is_part && !is_session
    }

    fn dropped_event_part(&mut self) -> Parse<EventSessionChange> {
        self.expect(K::DROP)?;
        if self.eat(K::EVENT) {
            return self.event_name().map(EventSessionChange::DropEvent);
        }
        self.expect(K::TARGET)?;
        self.event_name().map(EventSessionChange::DropTarget)
    }

    fn added_event_part(&mut self) -> Parse<EventSessionChange> {
        self.expect(K::ADD)?;
        if self.eat(K::EVENT) {
            return self.event_spec().map(EventSessionChange::AddEvent);
        }
        self.expect(K::TARGET)?;
        let mut target = EventTargetSpec {
            name: self.event_name()?,
            settings: Vec::new(),
        };
        if self.eat_symbol(Symbol::LeftParen) {
            self.expect(K::SET)?;
            target.settings = self.list(Self::event_setting)?;
            self.expect_close()?;
        }
        Ok(EventSessionChange::AddTarget(target))
    }

    fn event_spec(&mut self) -> Parse<EventSpec> {
        let mut event = EventSpec {
            name: self.event_name()?,
            settings: Vec::new(),
            actions: Vec::new(),
            predicate: None,
        };
        if !self.eat_symbol(Symbol::LeftParen) {
            return Ok(event);
        }
        if self.eat(K::SET) {
            event.settings = self.list(Self::event_setting)?;
        }
        if self.eat(K::ACTION) {
            event.actions = self.paren_list(Self::event_name)?;
        }
        if self.eat(K::WHERE) {
            event.predicate = Some(self.event_predicate()?);
        }
        self.expect_close()?;
        Ok(event)
    }

    fn event_name(&mut self) -> Parse<EventName> {
        let mut parts = vec![self.any_word()?];
        while parts.len() < 3 && self.eat_symbol(Symbol::Dot) {
            parts.push(self.any_word()?);
        }
        let Some(name) = parts.pop() else {
            return Err(self.unexpected());
        };
        let package = parts.pop();
        let module = parts.pop();
        Ok(EventName {
            module,
            package,
            name,
        })
    }

    fn event_setting(&mut self) -> Parse<EventSetting> {
        let name = self.any_word()?;
        self.expect_equal()?;
        let value = self.event_value()?;
        Ok(EventSetting { name, value })
    }

    /// A constant, maybe in parentheses.
    fn event_value(&mut self) -> Parse<EventValue> {
        if self.eat_symbol(Symbol::LeftParen) {
            let value = self.nested(Self::event_value)?;
            self.expect_close()?;
            return Ok(value);
        }
        let sign = match self.kind() {
            TokenKind::Symbol(Symbol::Minus) => "-",
            _ => "",
        };
        if !sign.is_empty() {
            self.advance();
        }
        match self.kind() {
            TokenKind::Integer => {
                let token = self.advance();
                Ok(EventValue::Number(format!("{sign}{}", self.text_of(token))))
            }
            _ if sign.is_empty() => self.string().map(EventValue::Text),
            _ => Err(self.unexpected()),
        }
    }

    /// `WHERE` of an event, without its word.
    pub(super) fn event_predicate(&mut self) -> Parse<EventPredicate> {
        self.nested(|parser| {
            let mut branches = Vec::new();
            loop {
                match parser.event_conjunction()? {
                    EventPredicate::Or(inner) => branches.extend(inner),
                    other => branches.push(other),
                }
                if !parser.eat(K::OR) {
                    return Ok(one_or(branches, EventPredicate::Or));
                }
            }
        })
    }

    fn event_conjunction(&mut self) -> Parse<EventPredicate> {
        let mut branches = Vec::new();
        loop {
            match self.event_negation()? {
                EventPredicate::And(inner) => branches.extend(inner),
                other => branches.push(other),
            }
            if !self.eat(K::AND) {
                return Ok(one_or(branches, EventPredicate::And));
            }
        }
    }

    fn event_negation(&mut self) -> Parse<EventPredicate> {
        if self.eat(K::NOT) {
            let inner = self.nested(Self::event_negation)?;
            return Ok(EventPredicate::Not(Box::new(inner)));
        }
        if self.eat_symbol(Symbol::LeftParen) {
            let inner = self.event_predicate()?;
            self.expect_close()?;
            return Ok(inner);
        }
        self.event_comparison()
    }

    fn event_comparison(&mut self) -> Parse<EventPredicate> {
        let source = self.event_name()?;
        if self.eat_symbol(Symbol::LeftParen) {
            let comparator = source;
            let source = self.event_name()?;
            self.expect_symbol(Symbol::Comma)?;
            let value = self.event_value()?;
            self.expect_close()?;
            return Ok(EventPredicate::Call {
                comparator,
                source,
                value,
            });
        }
        let negated = self.eat_words(&[K::NOT, K::LIKE]);
        if negated || self.eat(K::LIKE) {
            return match self.event_value()? {
                EventValue::Text(pattern) => Ok(EventPredicate::Like {
                    source,
                    pattern,
                    negated,
                }),
                EventValue::Number(_) => Err(self.unexpected()),
            };
        }
        let Some(op) = self.eat_comparison() else {
            return Err(self.unexpected());
        };
        let value = self.event_value()?;
        Ok(EventPredicate::Compare { source, op, value })
    }
}

fn event_session(name: Ident, on_database: bool, verb: EventSessionVerb) -> StatementKind {
    StatementKind::EventSession(EventSession {
        name,
        on_database,
        verb,
    })
}

fn one_or(
    mut branches: Vec<EventPredicate>,
    many: fn(Vec<EventPredicate>) -> EventPredicate,
) -> EventPredicate {
    match (branches.len(), branches.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            branches.extend(last);
            many(branches)
        }
    }
}
