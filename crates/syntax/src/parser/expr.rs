//! Scalar expressions, by precedence climbing.
//!
//! Binding, tightest first: postfix (`COLLATE`, `AT TIME ZONE`, methods); sign and `~`; `* / %`; `+ - & ^ | << >> ||`.
//! Comparison and everything looser belongs to conditions.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parse<Expr> {
        self.nested(Self::sum)
    }

    /// `DEFAULT` or an expression.
    pub(super) fn expr_or_default(&mut self) -> Parse<Expr> {
        if self.eat(K::DEFAULT) {
            Ok(Expr::Default)
        } else {
            self.expr()
        }
    }

    pub(super) fn expr_list(&mut self) -> Parse<Vec<Expr>> {
        self.paren_list(Self::expr)
    }

    pub(super) fn sum(&mut self) -> Parse<Expr> {
        let first = self.mark();
        let left = self.product()?;
        self.sum_after(left, first)
    }

    /// Goes on with the operators after a left side which is known already.
    pub(super) fn sum_after(&mut self, mut left: Expr, first: crate::lexer::Token) -> Parse<Expr> {
        left = self.product_after(left, first)?;
        while let Some(op) = self.sum_operator() {
            self.advance();
            let right = self.product()?;
            self.grow()?;
            left = Expr::Binary {
                op,
                left: Box::new(left),
                right: Box::new(right),
                span: self.span_from(first),
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Parse<Expr> {
        let first = self.mark();
        let left = self.unary()?;
        self.product_after(left, first)
    }

    fn product_after(&mut self, mut left: Expr, first: crate::lexer::Token) -> Parse<Expr> {
        while let Some(op) = self.product_operator() {
            self.advance();
            let right = self.unary()?;
            self.grow()?;
            left = Expr::Binary {
                op,
                left: Box::new(left),
                right: Box::new(right),
                span: self.span_from(first),
            };
        }
        Ok(left)
    }

    fn sum_operator(&self) -> Option<BinaryOp> {
        let TokenKind::Symbol(symbol) = self.kind() else {
            return None;
        };
        Some(match symbol {
            Symbol::Plus => BinaryOp::Add,
            Symbol::Minus => BinaryOp::Subtract,
            Symbol::Ampersand => BinaryOp::BitAnd,
            Symbol::Pipe => BinaryOp::BitOr,
            Symbol::Caret => BinaryOp::BitXor,
            Symbol::ShiftLeft => BinaryOp::ShiftLeft,
            Symbol::ShiftRight => BinaryOp::ShiftRight,
            Symbol::DoublePipe => BinaryOp::Concat,
            _ => return None,
        })
    }

    fn product_operator(&self) -> Option<BinaryOp> {
        match self.kind() {
            TokenKind::Symbol(Symbol::Star) => Some(BinaryOp::Multiply),
            TokenKind::Symbol(Symbol::Slash) => Some(BinaryOp::Divide),
            TokenKind::Symbol(Symbol::Percent) => Some(BinaryOp::Modulo),
            _ => None,
        }
    }

    fn unary(&mut self) -> Parse<Expr> {
        let op = match self.kind() {
            TokenKind::Symbol(Symbol::Plus) => UnaryOp::Plus,
            TokenKind::Symbol(Symbol::Minus) => UnaryOp::Minus,
            TokenKind::Symbol(Symbol::Tilde) => UnaryOp::BitNot,
            _ => return self.postfix_expr(),
        };
        self.advance();
        let operand = self.nested(Self::unary)?;
        Ok(Expr::Unary {
            op,
            expr: Box::new(operand),
        })
    }

    fn postfix_expr(&mut self) -> Parse<Expr> {
        let primary = self.primary()?;
        self.postfix(primary)
    }

    /// `COLLATE`, `AT TIME ZONE` and methods after a value.
    pub(super) fn postfix(&mut self, mut expr: Expr) -> Parse<Expr> {
        loop {
            if self.eat(K::COLLATE) {
                let collation = self.collation_name()?;
                expr = Expr::Collate {
                    expr: Box::new(expr),
                    collation,
                };
            } else if self.eat_words(&[K::AT, K::TIME, K::ZONE]) {
                let zone = self.primary()?;
                expr = Expr::AtTimeZone {
                    expr: Box::new(expr),
                    zone: Box::new(zone),
                };
            } else if self.at_symbol(Symbol::Dot) && self.takes_methods(&expr) && self.ident_at(1) {
                self.advance();
                expr = self.method_or_property(expr)?;
            } else {
                return Ok(expr);
            }
            self.grow()?;
        }
    }

    pub(super) fn optional_collation(&mut self) -> Parse<Option<Ident>> {
        if self.eat(K::COLLATE) {
            self.collation_name().map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn collation_name(&mut self) -> Parse<Ident> {
        if self.eat(K::DATABASE_DEFAULT) {
            return Ok(Ident::new("DATABASE_DEFAULT"));
        }
        self.ident()
    }

    fn takes_methods(&self, expr: &Expr) -> bool {
        !matches!(expr, Expr::Literal(_) | Expr::Unary { .. })
    }

    fn method_or_property(&mut self, target: Expr) -> Parse<Expr> {
        let name = self.ident()?;
        let target = Box::new(target);
        if !self.at_symbol(Symbol::LeftParen) {
            return Ok(Expr::Property {
                target,
                property: name,
            });
        }
        Ok(Expr::Method {
            target,
            method: name,
            args: self.call_args()?,
        })
    }

    /// `(a, b)` or `()`.
    pub(super) fn call_args(&mut self) -> Parse<Vec<Expr>> {
        self.expect_open()?;
        if self.eat_symbol(Symbol::RightParen) {
            return Ok(Vec::new());
        }
        let args = self.list(Self::expr_or_default)?;
        self.expect_close()?;
        Ok(args)
    }

    fn primary(&mut self) -> Parse<Expr> {
        match self.kind() {
            TokenKind::Variable | TokenKind::Global => Ok(self.variable_expr()),
            TokenKind::Symbol(Symbol::LeftParen) => self.parenthesized(),
            TokenKind::Symbol(Symbol::LeftBrace) => self.odbc_escape(),
            TokenKind::Symbol(Symbol::DoubleColon) => self.old_system_function(),
            TokenKind::Dollar => self.dollar_word(),
            TokenKind::Quoted => self.named(),
            TokenKind::Word(keyword) => self.word_expr(keyword),
            _ => self.literal().map(Expr::Literal),
        }
    }

    pub(super) fn variable_expr(&mut self) -> Expr {
        let token = self.advance();
        let (name, span) = (self.text_of(token).to_owned(), self.span_from(token));
        match token.kind {
            TokenKind::Global => Expr::Global { name, span },
            _ => Expr::Variable { name, span },
        }
    }

    /// `(expr)` or `(SELECT ...)`. A query may itself begin with a parenthesis: `((SELECT 1) UNION SELECT 2)`.
    fn parenthesized(&mut self) -> Parse<Expr> {
        self.expect_open()?;
        let mut expr = if self.at_query() {
            Expr::Subquery(Box::new(self.query()?))
        } else {
            self.expr()?
        };
        if self.at_set_operator()
            && let Expr::Subquery(query) = expr
        {
            expr = Expr::Subquery(Box::new(self.query_after(*query)?));
        }
        self.expect_close()?;
        Ok(expr)
    }

    pub(super) fn literal(&mut self) -> Parse<Literal> {
        let token = self.token(0);
        let text = self.text_of(token);
        let literal = match token.kind {
            TokenKind::Integer => Literal::Integer(text.to_owned()),
            TokenKind::Decimal => Literal::Decimal(text.to_owned()),
            TokenKind::Float => Literal::Float(text.to_owned()),
            TokenKind::Money => Literal::Money(
                text.chars()
                    .filter(|ch| ch.is_ascii_digit() || *ch == '.')
                    .collect(),
            ),
            TokenKind::Binary => Literal::Binary(binary_value(text)),
            TokenKind::String => Literal::String {
                text: self.content_of(token),
                national: false,
            },
            TokenKind::NationalString => Literal::String {
                text: self.content_of(token),
                national: true,
            },
            TokenKind::Word(K::NULL) => Literal::Null,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(literal)
    }

    /// `{fn name(..)}`, `{d '..'}`, `{t '..'}`, `{ts '..'}`, `{guid '..'}`.
    pub(super) fn odbc_escape(&mut self) -> Parse<Expr> {
        self.expect_symbol(Symbol::LeftBrace)?;
        let expr = if self.eat(K::FN) {
            match self.nested(Self::odbc_function)? {
                Expr::Function(mut call) => {
                    call.odbc = true;
                    Expr::Function(call)
                }
                other => other,
            }
        } else {
            let word = self.token(0);
            let kind = match self.text_of(word).to_ascii_lowercase().as_str() {
                "d" => OdbcLiteral::Date,
                "t" => OdbcLiteral::Time,
                "ts" => OdbcLiteral::Timestamp,
                "guid" => OdbcLiteral::Guid,
                _ => return Err(self.unexpected()),
            };
            self.advance();
            Expr::Literal(Literal::Odbc {
                kind,
                text: self.string()?,
            })
        };
        self.expect_symbol(Symbol::RightBrace)?;
        Ok(expr)
    }

    /// Names such as USER, LEFT, CONVERT and CURRENT_TIMESTAMP are reserved yet legal here.
    fn odbc_function(&mut self) -> Parse<Expr> {
        let keyword = self.keyword();
        if !keyword.is_reserved() {
            return self.primary();
        }
        let first = self.mark();
        let name = self.any_word()?;
        self.call(ObjectName::bare(name), first, false)
    }

    fn old_system_function(&mut self) -> Parse<Expr> {
        let first = self.mark();
        self.expect_symbol(Symbol::DoubleColon)?;
        let name = self.object_name()?;
        self.call(name, first, true)
    }

    fn dollar_word(&mut self) -> Parse<Expr> {
        let token = self.token(0);
        let pseudo = match self.text_of(token).to_ascii_lowercase().as_str() {
            "$action" => PseudoColumn::Action,
            "$identity" => PseudoColumn::Identity,
            "$rowguid" => PseudoColumn::RowGuid,
            "$cuid" => PseudoColumn::Cuid,
            "$node_id" | "$nodeid" | "$edge_id" | "$edgeid" | "$from_id" | "$to_id" => {
                return self.column_ref().map(Expr::Column);
            }
            "$partition" => {
                self.advance();
                return self.partition_call(None);
            }
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Expr::Pseudo(pseudo))
    }

    fn partition_call(&mut self, database: Option<Ident>) -> Parse<Expr> {
        self.expect_symbol(Symbol::Dot)?;
        let function = self.ident()?;
        self.expect_open()?;
        let arg = Box::new(self.expr()?);
        self.expect_close()?;
        Ok(Expr::Partition {
            database,
            function,
            arg,
        })
    }

    fn word_expr(&mut self, keyword: K) -> Parse<Expr> {
        let called = self.symbol_at(1, Symbol::LeftParen);
        if let Some(niladic) = niladic(keyword)
            && !called
        {
            self.advance();
            return Ok(Expr::Niladic(niladic));
        }
        match keyword {
            K::NULL => self.literal().map(Expr::Literal),
            K::CASE => self.case(),
            K::NEXT if self.at_words(&[K::NEXT, K::VALUE, K::FOR]) => self.next_value(),
            K::IDENTITYCOL => self.pseudo(PseudoColumn::Identity),
            K::ROWGUIDCOL => self.pseudo(PseudoColumn::RowGuid),
            K::DISTINCT | K::ALL => Err(self.unexpected()),
            _ if called => self.built_in(keyword),
            _ => self.named(),
        }
    }

    fn pseudo(&mut self, column: PseudoColumn) -> Parse<Expr> {
        self.advance();
        Ok(Expr::Pseudo(column))
    }

    /// Calls with a grammar of their own, and reserved words which are functions before a parenthesis.
    fn built_in(&mut self, keyword: K) -> Parse<Expr> {
        match keyword {
            K::CAST | K::TRY_CAST => self.cast(keyword == K::TRY_CAST),
            K::CONVERT | K::TRY_CONVERT => self.convert(keyword == K::TRY_CONVERT),
            K::PARSE | K::TRY_PARSE => self.parse_call(keyword == K::TRY_PARSE),
            K::COALESCE => {
                self.advance();
                self.expr_list().map(Expr::Coalesce)
            }
            K::NULLIF => self.null_if(),
            K::IIF => self.iif(),
            K::TRIM => self.trim(),
            K::LEFT
            | K::RIGHT
            | K::IDENTITY
            | K::SCHEMA
            | K::DATABASE
            | K::USER
            | K::SYSTEM_USER
            | K::SESSION_USER
            | K::CURRENT_USER
            | K::CURRENT_TIMESTAMP
            | K::CURRENT_DATE => {
                let first = self.mark();
                let name = self.any_word()?;
                self.call(ObjectName::bare(name), first, false)
            }
            _ => self.named(),
        }
    }

    /// A column, a function call, or a static method.
    fn named(&mut self) -> Parse<Expr> {
        let first = self.mark();
        let parts = self.name_parts_of_value()?;
        if self.kind() == TokenKind::Dollar {
            let database = parts.into_iter().next().flatten();
            self.advance();
            return self.partition_call(database);
        }
        if self.at_symbol(Symbol::DoubleColon) {
            return self.static_method(parts, first);
        }
        if self.at_symbol(Symbol::LeftParen) {
            let name = self.object_name_of(parts, first)?;
            self.note_name(&name);
            return self.call(name, first, false);
        }
        self.column_of(parts, first).map(Expr::Column)
    }

    /// Like `name_parts`, and stops before `$partition` after a dot.
    fn name_parts_of_value(&mut self) -> Parse<Vec<Option<Ident>>> {
        let mut parts = vec![Some(self.ident()?)];
        while self.at_symbol(Symbol::Dot) {
            self.advance();
            if self.at_symbol(Symbol::Dot) {
                parts.push(None);
            } else if self.at_partition_word() {
                return Ok(parts);
            } else if self.kind() == TokenKind::Dollar {
                let token = self.advance();
                parts.push(Some(Ident::new(self.text_of(token))));
            } else if let Some(name) = self.eat_any(&[K::IDENTITYCOL, K::ROWGUIDCOL]) {
                parts.push(Some(Ident::new(if name == K::IDENTITYCOL {
                    "IDENTITYCOL"
                } else {
                    "ROWGUIDCOL"
                })));
            } else {
                parts.push(Some(self.ident()?));
            }
        }
        Ok(parts)
    }

    fn at_partition_word(&self) -> bool {
        self.kind() == TokenKind::Dollar
            && self
                .text_of(self.token(0))
                .eq_ignore_ascii_case("$partition")
    }

    pub(super) fn column_of(
        &mut self,
        mut parts: Vec<Option<Ident>>,
        first: crate::lexer::Token,
    ) -> Parse<ColumnRef> {
        let span = self.span_from(first);
        let Some(Some(name)) = parts.pop() else {
            return Err(self.unexpected());
        };
        let table = match parts.last() {
            None => None,
            Some(_) => Some(self.object_name_of(parts, first)?),
        };
        Ok(ColumnRef { table, name, span })
    }

    pub(super) fn column_ref(&mut self) -> Parse<ColumnRef> {
        let first = self.mark();
        if self.kind() == TokenKind::Dollar {
            let token = self.advance();
            let name = Ident::new(self.text_of(token));
            return Ok(ColumnRef {
                table: None,
                name,
                span: self.span_from(first),
            });
        }
        if let Some(keyword) = self.eat_any(&[K::IDENTITYCOL, K::ROWGUIDCOL]) {
            let name = Ident::new(if keyword == K::IDENTITYCOL {
                "IDENTITYCOL"
            } else {
                "ROWGUIDCOL"
            });
            return Ok(ColumnRef {
                table: None,
                name,
                span: self.span_from(first),
            });
        }
        let parts = self.name_parts()?;
        self.column_of(parts, first)
    }

    fn static_method(
        &mut self,
        parts: Vec<Option<Ident>>,
        first: crate::lexer::Token,
    ) -> Parse<Expr> {
        let name = self.object_name_of(parts, first)?;
        let of = TypeName {
            database: name.database,
            schema: name.schema,
            name: name.name,
            args: Vec::new(),
            span: name.span,
        };
        self.expect_symbol(Symbol::DoubleColon)?;
        let method = self.any_word()?;
        let args = if self.at_symbol(Symbol::LeftParen) {
            Some(self.call_args()?)
        } else {
            None
        };
        Ok(Expr::StaticMethod { of, method, args })
    }

    fn call(&mut self, name: ObjectName, first: crate::lexer::Token, system: bool) -> Parse<Expr> {
        self.function_call(name, first, system)
            .map(|call| Expr::Function(Box::new(call)))
    }

    /// The arguments and everything that may follow a function's name.
    pub(super) fn function_call(
        &mut self,
        name: ObjectName,
        first: crate::lexer::Token,
        system: bool,
    ) -> Parse<FunctionCall> {
        self.expect_open()?;
        let mut call = FunctionCall {
            name,
            args: Vec::new(),
            star: false,
            distinct: false,
            within_group: Vec::new(),
            nulls: None,
            over: None,
            odbc: false,
            system,
            span: self.span_from(first),
        };
        if self.at_symbol(Symbol::Star) && self.symbol_at(1, Symbol::RightParen) {
            self.advance();
            call.star = true;
        } else if !self.at_symbol(Symbol::RightParen) {
            call.distinct = self.eat(K::DISTINCT);
            if !call.distinct {
                self.eat(K::ALL);
            }
            if call.is_json_object() {
                let members = self.list(Self::json_member)?;
                call.args = members.into_iter().flatten().collect();
            } else if !self.at_null_clause(&call) {
                call.args = self.list(Self::function_arg)?;
            }
        }
        call.nulls = self.null_treatment().or(self.on_null(&call));
        self.expect_close()?;
        self.call_suffix(&mut call)?;
        call.span = self.span_from(first);
        Ok(call)
    }

    /// `key : value`
    fn json_member(&mut self) -> Parse<[Expr; 2]> {
        let key = self.expr()?;
        self.expect_symbol(Symbol::Colon)?;
        Ok([key, self.expr()?])
    }

    /// `NULL ON NULL` or `ABSENT ON NULL`, of the functions that make JSON.
    fn at_null_clause(&self, call: &FunctionCall) -> bool {
        call.makes_json() && self.at_any(&[K::NULL, K::ABSENT]) && self.keyword_at(1) == K::ON
    }

    fn on_null(&mut self, call: &FunctionCall) -> Option<NullTreatment> {
        if !self.at_null_clause(call) {
            return None;
        }
        if self.eat_words(&[K::NULL, K::ON, K::NULL]) {
            return Some(NullTreatment::NullOnNull);
        }
        self.eat_words(&[K::ABSENT, K::ON, K::NULL])
            .then_some(NullTreatment::AbsentOnNull)
    }

    fn function_arg(&mut self) -> Parse<Expr> {
        self.expr_or_default()
    }

    fn null_treatment(&mut self) -> Option<NullTreatment> {
        if self.eat_words(&[K::IGNORE, K::NULLS]) {
            return Some(NullTreatment::Ignore);
        }
        self.eat_words(&[K::RESPECT, K::NULLS])
            .then_some(NullTreatment::Respect)
    }

    fn call_suffix(&mut self, call: &mut FunctionCall) -> Parse<()> {
        if self.eat_words(&[K::WITHIN, K::GROUP]) {
            self.expect_open()?;
            self.expect_words(&[K::ORDER, K::BY])?;
            call.within_group = self.list(Self::order_item)?;
            self.expect_close()?;
        }
        call.nulls = self.null_treatment().or(call.nulls);
        if self.eat(K::OVER) {
            call.over = Some(self.nested(Self::window)?);
        }
        Ok(())
    }

    /// After OVER: `(PARTITION BY .. ORDER BY .. ROWS ..)` or the name of a window.
    pub(super) fn window(&mut self) -> Parse<Window> {
        if !self.at_symbol(Symbol::LeftParen) {
            return Ok(Window {
                name: Some(self.ident()?),
                ..Window::default()
            });
        }
        self.expect_open()?;
        let mut window = Window::default();
        if self.at_ident() && !self.at_any(&[K::PARTITION, K::ROWS, K::RANGE]) {
            window.name = Some(self.ident()?);
        }
        if self.eat_words(&[K::PARTITION, K::BY]) {
            window.partition_by = self.list(Self::expr)?;
        }
        if self.eat_words(&[K::ORDER, K::BY]) {
            window.order_by = self.list(Self::order_item)?;
        }
        if let Some(unit) = self.eat_any(&[K::ROWS, K::RANGE]) {
            let unit = if unit == K::ROWS {
                FrameUnit::Rows
            } else {
                FrameUnit::Range
            };
            window.frame = Some(self.frame(unit)?);
        }
        self.expect_close()?;
        Ok(window)
    }

    fn frame(&mut self, unit: FrameUnit) -> Parse<Frame> {
        if self.eat(K::BETWEEN) {
            let start = self.frame_bound()?;
            self.expect(K::AND)?;
            let end = Some(self.frame_bound()?);
            return Ok(Frame { unit, start, end });
        }
        Ok(Frame {
            unit,
            start: self.frame_bound()?,
            end: None,
        })
    }

    fn frame_bound(&mut self) -> Parse<FrameBound> {
        if self.eat_words(&[K::CURRENT, K::ROW]) {
            return Ok(FrameBound::CurrentRow);
        }
        if self.eat(K::UNBOUNDED) {
            return match self.eat_any(&[K::PRECEDING, K::FOLLOWING]) {
                Some(K::PRECEDING) => Ok(FrameBound::UnboundedPreceding),
                Some(_) => Ok(FrameBound::UnboundedFollowing),
                None => Err(self.unexpected()),
            };
        }
        let count = Box::new(self.expr()?);
        match self.eat_any(&[K::PRECEDING, K::FOLLOWING]) {
            Some(K::PRECEDING) => Ok(FrameBound::Preceding(count)),
            Some(_) => Ok(FrameBound::Following(count)),
            None => Err(self.unexpected()),
        }
    }

    fn cast(&mut self, is_try: bool) -> Parse<Expr> {
        let first = self.advance();
        self.expect_open()?;
        let expr = Box::new(self.expr()?);
        self.expect(K::AS)?;
        let to = self.type_name()?;
        self.expect_close()?;
        Ok(Expr::Cast {
            expr,
            to,
            is_try,
            span: self.span_from(first),
        })
    }

    fn convert(&mut self, is_try: bool) -> Parse<Expr> {
        let first = self.advance();
        self.expect_open()?;
        let to = self.type_name()?;
        self.expect_symbol(Symbol::Comma)?;
        let expr = Box::new(self.expr()?);
        let style = if self.eat_comma() {
            Some(Box::new(self.expr()?))
        } else {
            None
        };
        self.expect_close()?;
        Ok(Expr::Convert {
            to,
            expr,
            style,
            is_try,
            span: self.span_from(first),
        })
    }

    fn parse_call(&mut self, is_try: bool) -> Parse<Expr> {
        let first = self.advance();
        self.expect_open()?;
        let expr = Box::new(self.expr()?);
        self.expect(K::AS)?;
        let to = self.type_name()?;
        let culture = if self.eat(K::USING) {
            Some(Box::new(self.expr()?))
        } else {
            None
        };
        self.expect_close()?;
        Ok(Expr::Parse {
            expr,
            to,
            culture,
            is_try,
            span: self.span_from(first),
        })
    }

    fn null_if(&mut self) -> Parse<Expr> {
        self.advance();
        self.expect_open()?;
        let left = Box::new(self.expr()?);
        self.expect_symbol(Symbol::Comma)?;
        let right = Box::new(self.expr()?);
        self.expect_close()?;
        Ok(Expr::NullIf(left, right))
    }

    fn iif(&mut self) -> Parse<Expr> {
        self.advance();
        self.expect_open()?;
        let condition = Box::new(self.condition()?);
        self.expect_symbol(Symbol::Comma)?;
        let then = Box::new(self.expr()?);
        self.expect_symbol(Symbol::Comma)?;
        let otherwise = Box::new(self.expr()?);
        self.expect_close()?;
        Ok(Expr::Iif {
            condition,
            then,
            otherwise,
        })
    }

    fn trim(&mut self) -> Parse<Expr> {
        let first = self.mark();
        let name = self.ident()?;
        self.expect_open()?;
        let side = match self.eat_any(&[K::LEADING, K::TRAILING, K::BOTH]) {
            Some(K::LEADING) => Some(TrimSide::Leading),
            Some(K::TRAILING) => Some(TrimSide::Trailing),
            Some(_) => Some(TrimSide::Both),
            None => None,
        };
        let value = self.expr()?;
        if self.eat(K::FROM) {
            let from = Box::new(self.expr()?);
            self.expect_close()?;
            return Ok(Expr::Trim {
                side,
                characters: Some(Box::new(value)),
                from,
            });
        }
        self.expect_close()?;
        if side.is_some() {
            return Ok(Expr::Trim {
                side,
                characters: None,
                from: Box::new(value),
            });
        }
        Ok(Expr::Function(Box::new(FunctionCall {
            name: ObjectName::bare(name),
            args: vec![value],
            star: false,
            distinct: false,
            within_group: Vec::new(),
            nulls: None,
            over: None,
            odbc: false,
            system: false,
            span: self.span_from(first),
        })))
    }

    fn case(&mut self) -> Parse<Expr> {
        self.expect(K::CASE)?;
        let operand = if self.at(K::WHEN) {
            None
        } else {
            Some(self.expr()?)
        };
        let mut whens = Vec::new();
        while self.eat(K::WHEN) {
            let when = match operand {
                Some(_) => When::Value(self.expr()?),
                None => When::Condition(self.condition()?),
            };
            self.expect(K::THEN)?;
            whens.push(CaseWhen {
                when,
                then: self.expr()?,
            });
        }
        if whens.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = if self.eat(K::ELSE) {
            Some(self.expr()?)
        } else {
            None
        };
        self.expect(K::END)?;
        Ok(Expr::Case(Box::new(Case {
            operand,
            whens,
            otherwise,
        })))
    }

    fn next_value(&mut self) -> Parse<Expr> {
        let first = self.mark();
        self.expect_words(&[K::NEXT, K::VALUE, K::FOR])?;
        self.takes_next_value = true;
        let sequence = self.object_name()?;
        let mut over = Vec::new();
        if self.eat(K::OVER) {
            self.expect_open()?;
            self.expect_words(&[K::ORDER, K::BY])?;
            over = self.list(Self::order_item)?;
            self.expect_close()?;
        }
        Ok(Expr::NextValueFor {
            sequence,
            over,
            span: self.span_from(first),
        })
    }

    /// A number with an optional sign, for seeds and option values.
    pub(super) fn signed_number(&mut self) -> Parse<Expr> {
        let op = match self.kind() {
            TokenKind::Symbol(Symbol::Minus) => Some(UnaryOp::Minus),
            TokenKind::Symbol(Symbol::Plus) => Some(UnaryOp::Plus),
            _ => None,
        };
        if op.is_some() {
            self.advance();
        }
        if !matches!(
            self.kind(),
            TokenKind::Integer | TokenKind::Decimal | TokenKind::Float | TokenKind::Money
        ) {
            return Err(self.unexpected());
        }
        let number = Expr::Literal(self.literal()?);
        Ok(match op {
            Some(op) => Expr::Unary {
                op,
                expr: Box::new(number),
            },
            None => number,
        })
    }
}

fn niladic(keyword: K) -> Option<Niladic> {
    Some(match keyword {
        K::CURRENT_TIMESTAMP => Niladic::CurrentTimestamp,
        K::CURRENT_DATE => Niladic::CurrentDate,
        K::CURRENT_USER => Niladic::CurrentUser,
        K::SESSION_USER => Niladic::SessionUser,
        K::SYSTEM_USER => Niladic::SystemUser,
        K::USER => Niladic::User,
        _ => return None,
    })
}

/// Bytes of `0x..`; an odd digit count gets a leading zero.
fn binary_value(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .skip(2)
        .filter_map(|byte| (byte as char).to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    let (head, pairs) = digits.split_at(digits.len() % 2);
    head.iter()
        .copied()
        .chain(pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]))
        .collect()
}
