//! Identifiers, object names, variables, data types, and small constants.

use super::{Parse, Parser};
use crate::ast::{Ident, ObjectName, TypeArg, TypeName, XmlFacet};
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn at_ident(&self) -> bool {
        self.ident_at(0)
    }

    pub(super) fn ident_at(&self, ahead: usize) -> bool {
        match self.kind_at(ahead) {
            TokenKind::Word(keyword) => !keyword.is_reserved(),
            TokenKind::Quoted => true,
            _ => false,
        }
    }

    pub(super) fn at_string(&self) -> bool {
        matches!(self.kind(), TokenKind::String | TokenKind::NationalString)
    }

    /// A name with two signs may be a variable too: old procedures declare such parameters.
    pub(super) fn at_variable(&self) -> bool {
        matches!(self.kind(), TokenKind::Variable | TokenKind::Global)
    }

    pub(super) fn ident(&mut self) -> Parse<Ident> {
        if !self.at_ident() {
            return Err(self.unexpected());
        }
        self.any_word()
    }

    /// An identifier, or a reserved word where the grammar leaves no doubt (option names, `TO PUBLIC`).
    pub(super) fn any_word(&mut self) -> Parse<Ident> {
        let token = self.token(0);
        match token.kind {
            TokenKind::Word(_) => {
                self.advance();
                Ok(Ident {
                    text: self.text_of(token).to_owned(),
                    quoted: false,
                })
            }
            TokenKind::Quoted => {
                let text = self.content_of(token);
                if text.is_empty() {
                    return Err(SyntaxError::empty_name(token.line));
                }
                self.advance();
                Ok(Ident { text, quoted: true })
            }
            _ => Err(self.unexpected()),
        }
    }

    /// An identifier or a string standing for one: aliases, file names, principals.
    pub(super) fn ident_or_string(&mut self) -> Parse<Ident> {
        if !self.at_string() {
            return self.ident();
        }
        let line = self.token(0).line;
        let text = self.string()?;
        if text.is_empty() {
            return Err(SyntaxError::empty_name(line));
        }
        Ok(Ident { text, quoted: true })
    }

    pub(super) fn ident_list(&mut self) -> Parse<Vec<Ident>> {
        self.paren_list(Self::ident)
    }

    pub(super) fn string(&mut self) -> Parse<String> {
        if !self.at_string() {
            return Err(self.unexpected());
        }
        let token = self.advance();
        Ok(self.content_of(token))
    }

    pub(super) fn variable(&mut self) -> Parse<String> {
        if !self.at_variable() {
            return Err(self.unexpected());
        }
        let token = self.advance();
        Ok(self.text_of(token).to_owned())
    }

    /// A plain number that fits 32 bits.
    pub(super) fn small_number(&mut self) -> Parse<u32> {
        let token = self.token(0);
        let number = match token.kind {
            TokenKind::Integer => self.text_of(token).parse().ok(),
            _ => None,
        };
        match number {
            Some(number) => {
                self.advance();
                Ok(number)
            }
            None => Err(self.unexpected()),
        }
    }

    /// One to four parts. Inner parts may be empty: `db..t`, `server...t`.
    pub(super) fn object_name(&mut self) -> Parse<ObjectName> {
        let first = self.mark();
        let parts = self.name_parts()?;
        let name = self.object_name_of(parts, first)?;
        self.note_name(&name);
        Ok(name)
    }

    pub(super) fn note_name(&mut self, name: &ObjectName) {
        if let Some(names) = &mut self.names {
            names.push(name.clone());
        }
    }

    /// Parts separated by dots, missing ones as `None`; the last is always there.
    pub(super) fn name_parts(&mut self) -> Parse<Vec<Option<Ident>>> {
        let mut parts = Vec::with_capacity(2);
        loop {
            if self.at_symbol(Symbol::Dot) {
                parts.push(None);
                self.advance();
                continue;
            }
            parts.push(Some(self.ident()?));
            if !self.at_symbol(Symbol::Dot) || !self.name_goes_on() {
                return Ok(parts);
            }
            self.advance();
        }
    }

    /// After a dot: another part, another dot, or something which is no part of the name (`t.*`).
    fn name_goes_on(&self) -> bool {
        !self.symbol_at(1, Symbol::Star)
    }

    pub(super) fn object_name_of(
        &self,
        mut parts: Vec<Option<Ident>>,
        first: crate::lexer::Token,
    ) -> Parse<ObjectName> {
        if parts.len() > 4 {
            let name = parts
                .iter()
                .map(|part| part.as_ref().map_or("", |part| &part.text))
                .collect::<Vec<_>>()
                .join(".");
            return Err(SyntaxError::too_many_prefixes(first.line, &name, 3));
        }
        let Some(Some(name)) = parts.pop() else {
            return Err(self.unexpected());
        };
        let mut part = || parts.pop().flatten();
        let (schema, database, server) = (part(), part(), part());
        Ok(ObjectName {
            server,
            database,
            schema,
            name,
            span: self.span_from(first),
        })
    }

    /// A data type: built-in of one or several words, alias, or table type.
    pub(super) fn type_name(&mut self) -> Parse<TypeName> {
        let first = self.mark();
        let (database, schema, name) = self.type_base()?;
        let mut args = if self.at_symbol(Symbol::LeftParen) {
            self.type_args()?
        } else {
            Vec::new()
        };
        let name = self.with_varying(name);
        if args.is_empty() && self.at_symbol(Symbol::LeftParen) {
            args = self.type_args()?;
        }
        Ok(TypeName {
            database,
            schema,
            name,
            args,
            span: self.span_from(first),
        })
    }

    fn type_base(&mut self) -> Parse<(Option<Ident>, Option<Ident>, Ident)> {
        if self.eat_words(&[K::DOUBLE, K::PRECISION]) {
            return Ok((None, None, Ident::new("float")));
        }
        if self.eat(K::NATIONAL) {
            let short = match self.eat_any(&[K::CHAR, K::CHARACTER, K::TEXT]) {
                Some(K::TEXT) => "ntext",
                Some(_) => "nchar",
                None => return Err(self.unexpected()),
            };
            return Ok((None, None, Ident::new(short)));
        }
        let first = self.mark();
        let parts = self.name_parts()?;
        let name = self.object_name_of(parts, first)?;
        if name.server.is_some() {
            return Err(SyntaxError::too_many_prefixes(
                first.line,
                &name.dotted(),
                2,
            ));
        }
        Ok((name.database, name.schema, name.name))
    }

    /// `char varying(n)`, `binary varying(n)`.
    fn with_varying(&mut self, name: Ident) -> Ident {
        if !self.at(K::VARYING) || name.quoted {
            return name;
        }
        let varying = match name.text.to_ascii_lowercase().as_str() {
            "char" | "character" => "varchar",
            "nchar" => "nvarchar",
            "binary" => "varbinary",
            _ => return name,
        };
        self.advance();
        Ident::new(varying)
    }

    fn type_args(&mut self) -> Parse<Vec<TypeArg>> {
        self.paren_list(Self::type_arg)
    }

    fn type_arg(&mut self) -> Parse<TypeArg> {
        match self.kind() {
            TokenKind::Integer => self.small_number().map(TypeArg::Number),
            TokenKind::Word(K::MAX) => {
                self.advance();
                Ok(TypeArg::Max)
            }
            _ => {
                let facet = match self.keyword() {
                    K::CONTENT if self.ident_at(1) => Some(XmlFacet::Content),
                    K::DOCUMENT if self.ident_at(1) => Some(XmlFacet::Document),
                    _ => None,
                };
                if facet.is_some() {
                    self.advance();
                }
                if !self.at_ident() {
                    return Err(self.unexpected());
                }
                Ok(TypeArg::XmlSchema {
                    facet,
                    collection: self.object_name()?,
                })
            }
        }
    }
}
