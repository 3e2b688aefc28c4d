//! Conditions: predicates joined by NOT, AND, OR.
//!
//! Theory: after an opening parenthesis nobody can know whether a scalar or a condition follows, so both are read by the
//! same functions as an `Operand`, and what it turned out to be decides how to go on. No text is read twice.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, Token, TokenKind};

enum Operand {
    Scalar(Expr),
    Condition(Condition),
}

impl Parser<'_> {
    pub(super) fn condition(&mut self) -> Parse<Condition> {
        let operand = self.nested(Self::disjunction)?;
        self.as_condition(operand)
    }

    fn as_condition(&self, operand: Operand) -> Parse<Condition> {
        match operand {
            Operand::Condition(condition) => Ok(condition),
            Operand::Scalar(_) if self.at_symbol(Symbol::StarEqual) => Err(self.unexpected()),
            Operand::Scalar(_) => {
                // At the end of the batch the last token is named.
                let near = if self.at_end() {
                    self.last_token()
                } else {
                    self.token(0)
                };
                Err(SyntaxError::not_a_condition(
                    near.line,
                    &self.content_of(near),
                ))
            }
        }
    }

    fn disjunction(&mut self) -> Parse<Operand> {
        let first = self.conjunction()?;
        if !self.at(K::OR) {
            return Ok(first);
        }
        let mut branches = Vec::new();
        push_or(&mut branches, self.as_condition(first)?);
        while self.eat(K::OR) {
            let next = self.conjunction()?;
            push_or(&mut branches, self.as_condition(next)?);
        }
        Ok(Operand::Condition(Condition::Or(branches)))
    }

    fn conjunction(&mut self) -> Parse<Operand> {
        let first = self.negation()?;
        if !self.at(K::AND) {
            return Ok(first);
        }
        let mut branches = Vec::new();
        push_and(&mut branches, self.as_condition(first)?);
        while self.eat(K::AND) {
            let next = self.negation()?;
            push_and(&mut branches, self.as_condition(next)?);
        }
        Ok(Operand::Condition(Condition::And(branches)))
    }

    fn negation(&mut self) -> Parse<Operand> {
        if !self.eat(K::NOT) {
            return self.predicate();
        }
        let operand = self.nested(Self::negation)?;
        let condition = self.as_condition(operand)?;
        Ok(Operand::Condition(Condition::Not(Box::new(condition))))
    }

    fn predicate(&mut self) -> Parse<Operand> {
        let condition = match self.keyword() {
            K::EXISTS => self.exists()?,
            K::UPDATE => self.updated_column()?,
            K::CONTAINS | K::FREETEXT => self.full_text()?,
            K::REGEXP_LIKE if self.symbol_at(1, Symbol::LeftParen) => self.regexp_like()?,
            _ => return self.predicate_on_scalar(),
        };
        Ok(Operand::Condition(condition))
    }

    fn predicate_on_scalar(&mut self) -> Parse<Operand> {
        let first = self.mark();
        let left = if self.at_symbol(Symbol::LeftParen) {
            match self.parenthesized_operand()? {
                Operand::Condition(condition) => return Ok(Operand::Condition(condition)),
                Operand::Scalar(scalar) => {
                    let scalar = self.postfix(scalar)?;
                    self.sum_after(scalar, first)?
                }
            }
        } else {
            self.sum()?
        };
        self.predicate_tail(left)
    }

    fn parenthesized_operand(&mut self) -> Parse<Operand> {
        self.expect_open()?;
        let mut operand = if self.at_query() {
            Operand::Scalar(Expr::Subquery(Box::new(self.query()?)))
        } else {
            self.nested(Self::disjunction)?
        };
        if self.at_set_operator()
            && let Operand::Scalar(Expr::Subquery(query)) = operand
        {
            operand = Operand::Scalar(Expr::Subquery(Box::new(self.query_after(*query)?)));
        }
        self.expect_close()?;
        Ok(operand)
    }

    /// Whatever makes a condition of the scalar just read; without it the scalar stays one.
    fn predicate_tail(&mut self, left: Expr) -> Parse<Operand> {
        if let Some(op) = self.eat_comparison() {
            return self.comparison(left, op).map(Operand::Condition);
        }
        let condition = match self.keyword() {
            K::IS => self.is_predicate(left)?,
            K::NOT if matches!(self.keyword_at(1), K::LIKE | K::IN | K::BETWEEN) => {
                self.advance();
                self.matching(left, true)?
            }
            K::LIKE | K::IN | K::BETWEEN => self.matching(left, false)?,
            _ => return Ok(Operand::Scalar(left)),
        };
        Ok(Operand::Condition(condition))
    }

    /// Comparison signs, also those written with blanks inside: `< =`, `> =`, `< >`, `! =`.
    pub(super) fn eat_comparison(&mut self) -> Option<CompareOp> {
        let TokenKind::Symbol(symbol) = self.kind() else {
            return None;
        };
        let equal_follows = self.symbol_at(1, Symbol::Equal);
        let (op, tokens) = match symbol {
            Symbol::Equal => (CompareOp::Equal, 1),
            Symbol::NotEqual => (CompareOp::NotEqual, 1),
            Symbol::Less if equal_follows => (CompareOp::LessOrEqual, 2),
            Symbol::Less if self.symbol_at(1, Symbol::Greater) => (CompareOp::NotEqual, 2),
            Symbol::Less => (CompareOp::Less, 1),
            Symbol::Greater if equal_follows => (CompareOp::GreaterOrEqual, 2),
            Symbol::Greater => (CompareOp::Greater, 1),
            Symbol::LessOrEqual => (CompareOp::LessOrEqual, 1),
            Symbol::GreaterOrEqual => (CompareOp::GreaterOrEqual, 1),
            Symbol::NotLess => (CompareOp::NotLess, 1),
            Symbol::NotGreater => (CompareOp::NotGreater, 1),
            Symbol::Bang if equal_follows => (CompareOp::NotEqual, 2),
            Symbol::Bang if self.symbol_at(1, Symbol::Less) => (CompareOp::NotLess, 2),
            Symbol::Bang if self.symbol_at(1, Symbol::Greater) => (CompareOp::NotGreater, 2),
            _ => return None,
        };
        (0..tokens).for_each(|_| {
            self.advance();
        });
        Some(op)
    }

    fn comparison(&mut self, left: Expr, op: CompareOp) -> Parse<Condition> {
        let Some(word) = self.eat_any(&[K::ALL, K::ANY, K::SOME]) else {
            return Ok(Condition::Compare {
                op,
                left,
                right: self.sum()?,
            });
        };
        let quantifier = if word == K::ALL {
            Quantifier::All
        } else {
            Quantifier::Any
        };
        let query = Box::new(self.parenthesized_query()?);
        Ok(Condition::Quantified {
            op,
            left,
            quantifier,
            query,
        })
    }

    fn is_predicate(&mut self, left: Expr) -> Parse<Condition> {
        self.expect(K::IS)?;
        let negated = self.eat(K::NOT);
        if self.eat_words(&[K::DISTINCT, K::FROM]) {
            return Ok(Condition::IsDistinct {
                left,
                right: self.sum()?,
                negated,
            });
        }
        self.expect(K::NULL)?;
        Ok(Condition::IsNull {
            expr: left,
            negated,
        })
    }

    fn matching(&mut self, expr: Expr, negated: bool) -> Parse<Condition> {
        match self.advance().kind {
            TokenKind::Word(K::LIKE) => self.like(expr, negated),
            TokenKind::Word(K::IN) => self.in_predicate(expr, negated),
            _ => {
                let low = self.sum()?;
                self.expect(K::AND)?;
                let high = self.sum()?;
                Ok(Condition::Between {
                    expr,
                    low,
                    high,
                    negated,
                })
            }
        }
    }

    fn like(&mut self, expr: Expr, negated: bool) -> Parse<Condition> {
        let pattern = self.sum()?;
        let escape = if self.eat(K::ESCAPE) {
            Some(self.sum()?)
        } else if self.at_symbol(Symbol::LeftBrace) && self.keyword_at(1) == K::ESCAPE {
            self.advance();
            self.advance();
            let escape = self.sum()?;
            self.expect_symbol(Symbol::RightBrace)?;
            Some(escape)
        } else {
            None
        };
        Ok(Condition::Like {
            expr,
            pattern,
            escape,
            negated,
        })
    }

    /// A subquery in more parentheses than needed is still the set to search.
    fn in_predicate(&mut self, expr: Expr, negated: bool) -> Parse<Condition> {
        self.expect_open()?;
        if self.at_query() {
            let query = Box::new(self.query()?);
            self.expect_close()?;
            return Ok(Condition::InQuery {
                expr,
                query,
                negated,
            });
        }
        let mut list = self.list(Self::expr)?;
        if self.at_set_operator()
            && list.len() == 1
            && let Some(Expr::Subquery(query)) = list.pop()
        {
            list.push(Expr::Subquery(Box::new(self.query_after(*query)?)));
        }
        self.expect_close()?;
        match list.pop() {
            Some(Expr::Subquery(query)) if list.is_empty() => Ok(Condition::InQuery {
                expr,
                query,
                negated,
            }),
            last => {
                list.extend(last);
                Ok(Condition::InList {
                    expr,
                    list,
                    negated,
                })
            }
        }
    }

    fn exists(&mut self) -> Parse<Condition> {
        self.expect(K::EXISTS)?;
        let query = self.parenthesized_query()?;
        Ok(Condition::Exists(Box::new(query)))
    }

    fn updated_column(&mut self) -> Parse<Condition> {
        self.expect(K::UPDATE)?;
        self.expect_open()?;
        let column = self.ident()?;
        self.expect_close()?;
        Ok(Condition::UpdatedColumn(column))
    }

    fn full_text(&mut self) -> Parse<Condition> {
        let freetext = self.eat(K::FREETEXT);
        if !freetext {
            self.expect(K::CONTAINS)?;
        }
        self.expect_open()?;
        let columns = self.full_text_columns()?;
        self.expect_symbol(Symbol::Comma)?;
        let search = self.expr()?;
        let language = if self.eat_comma() {
            self.expect(K::LANGUAGE)?;
            Some(self.expr()?)
        } else {
            None
        };
        self.expect_close()?;
        Ok(Condition::FullText(FullText {
            freetext,
            columns,
            search,
            language,
        }))
    }

    fn full_text_columns(&mut self) -> Parse<Vec<ColumnRef>> {
        if self.eat_symbol(Symbol::Star) {
            return Ok(Vec::new());
        }
        if !self.at_symbol(Symbol::LeftParen) {
            return Ok(vec![self.column_ref()?]);
        }
        if self.symbol_at(1, Symbol::Star) {
            self.advance();
            self.advance();
            self.expect_close()?;
            return Ok(Vec::new());
        }
        self.paren_list(Self::column_ref)
    }

    fn regexp_like(&mut self) -> Parse<Condition> {
        let first: Token = self.mark();
        let name = self.object_name()?;
        let call = self.function_call(name, first, false)?;
        Ok(Condition::Predicate(Box::new(call)))
    }
}

fn push_or(branches: &mut Vec<Condition>, condition: Condition) {
    match condition {
        Condition::Or(inner) => branches.extend(inner),
        other => branches.push(other),
    }
}

fn push_and(branches: &mut Vec<Condition>, condition: Condition) {
    match condition {
        Condition::And(inner) => branches.extend(inner),
        other => branches.push(other),
    }
}
