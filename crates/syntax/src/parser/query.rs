//! Queries: WITH, SELECT, set operations, GROUP BY, ORDER BY, FOR, OPTION.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn at_query(&self) -> bool {
        self.at_any(&[K::SELECT, K::WITH])
    }

    pub(super) fn at_set_operator(&self) -> bool {
        self.at_any(&[K::UNION, K::EXCEPT, K::INTERSECT])
    }

    pub(super) fn query(&mut self) -> Parse<Query> {
        self.nested(|parser| {
            let with = parser.optional_with()?;
            parser.query_with(with)
        })
    }

    pub(super) fn parenthesized_query(&mut self) -> Parse<Query> {
        self.expect_open()?;
        let query = self.query()?;
        self.expect_close()?;
        Ok(query)
    }

    pub(super) fn query_with(&mut self, with: With) -> Parse<Query> {
        let body = self.query_body()?;
        self.query_tail(with, body)
    }

    /// Goes on after a query in parentheses which turns out to be the left branch of a set operation.
    pub(super) fn query_after(&mut self, left: Query) -> Parse<Query> {
        let body = self.intersect_after(left.body)?;
        let body = self.union_after(body)?;
        self.query_tail(left.with, body)
    }

    fn query_tail(&mut self, with: With, body: QueryBody) -> Parse<Query> {
        let mut query = Query {
            with,
            body,
            order_by: Vec::new(),
            offset: None,
            fetch: None,
            for_clause: None,
            options: Vec::new(),
        };
        if self.eat_words(&[K::ORDER, K::BY]) {
            query.order_by = self.list(Self::order_item)?;
            self.offset_fetch(&mut query)?;
        }
        if self.at(K::FOR) && matches!(self.keyword_at(1), K::XML | K::JSON | K::BROWSE) {
            self.advance();
            query.for_clause = Some(self.for_clause()?);
        }
        query.options = self.query_options()?;
        Ok(query)
    }

    fn offset_fetch(&mut self, query: &mut Query) -> Parse<()> {
        if !self.eat(K::OFFSET) {
            return Ok(());
        }
        query.offset = Some(self.expr()?);
        self.expect_row_word()?;
        if self.at(K::FETCH)
            && matches!(self.keyword_at(1), K::NEXT | K::FIRST)
            && !self.keyword_at(2).eq(&K::FROM)
        {
            self.advance();
            self.advance();
            query.fetch = Some(self.expr()?);
            self.expect_row_word()?;
            self.expect(K::ONLY)?;
        }
        Ok(())
    }

    fn expect_row_word(&mut self) -> Parse<()> {
        match self.eat_any(&[K::ROW, K::ROWS]) {
            Some(_) => Ok(()),
            None => Err(self.unexpected()),
        }
    }

    pub(super) fn optional_with(&mut self) -> Parse<With> {
        if self.eat(K::WITH) {
            self.with_clause()
        } else {
            Ok(With::default())
        }
    }

    /// After WITH.
    pub(super) fn with_clause(&mut self) -> Parse<With> {
        let mut with = With::default();
        if self.eat(K::XMLNAMESPACES) {
            with.xml_namespaces = self.paren_list(Self::xml_namespace)?;
            if !self.eat_comma() {
                return Ok(with);
            }
        }
        with.ctes = self.list(Self::cte)?;
        Ok(with)
    }

    fn xml_namespace(&mut self) -> Parse<XmlNamespace> {
        if self.eat(K::DEFAULT) {
            return Ok(XmlNamespace {
                uri: self.string()?,
                prefix: None,
            });
        }
        let uri = self.string()?;
        self.expect(K::AS)?;
        Ok(XmlNamespace {
            uri,
            prefix: Some(self.ident()?),
        })
    }

    fn cte(&mut self) -> Parse<Cte> {
        let first = self.mark();
        let name = self.ident()?;
        let columns = self.optional_paren_list(Self::ident)?;
        self.expect(K::AS)?;
        let query = self.parenthesized_query()?;
        Ok(Cte {
            name,
            columns,
            query,
            span: self.span_from(first),
        })
    }

    fn query_body(&mut self) -> Parse<QueryBody> {
        let left = self.intersection()?;
        self.union_after(left)
    }

    fn union_after(&mut self, mut left: QueryBody) -> Parse<QueryBody> {
        loop {
            let op = match self.eat_any(&[K::UNION, K::EXCEPT]) {
                Some(K::EXCEPT) => SetOp::Except,
                Some(_) if self.eat(K::ALL) => SetOp::UnionAll,
                Some(_) => SetOp::Union,
                None => return Ok(left),
            };
            let right = self.intersection()?;
            left = self.combine(op, left, right)?;
        }
    }

    fn intersection(&mut self) -> Parse<QueryBody> {
        let left = self.query_primary()?;
        self.intersect_after(left)
    }

    fn intersect_after(&mut self, mut left: QueryBody) -> Parse<QueryBody> {
        while self.eat(K::INTERSECT) {
            let right = self.query_primary()?;
            left = self.combine(SetOp::Intersect, left, right)?;
        }
        Ok(left)
    }

    /// Runs of one operator stay one flat node.
    fn combine(&mut self, op: SetOp, left: QueryBody, right: QueryBody) -> Parse<QueryBody> {
        match left {
            QueryBody::Set {
                op: same,
                mut branches,
            } if same == op => {
                branches.push(right);
                Ok(QueryBody::Set { op, branches })
            }
            left => {
                self.grow()?;
                Ok(QueryBody::Set {
                    op,
                    branches: vec![left, right],
                })
            }
        }
    }

    fn query_primary(&mut self) -> Parse<QueryBody> {
        if !self.eat_symbol(Symbol::LeftParen) {
            return self
                .select()
                .map(|select| QueryBody::Select(Box::new(select)));
        }
        let body = self.nested(Self::query_body)?;
        self.expect_close()?;
        Ok(body)
    }

    fn select(&mut self) -> Parse<Select> {
        let first = self.mark();
        self.expect(K::SELECT)?;
        let distinct = self.eat(K::DISTINCT);
        if !distinct {
            self.eat(K::ALL);
        }
        let top = self.optional_top()?;
        let items = self.list(Self::select_item)?;
        let into = if self.eat(K::INTO) {
            Some(self.select_into()?)
        } else {
            None
        };
        let from = if self.eat(K::FROM) {
            self.list(Self::table_source)?
        } else {
            Vec::new()
        };
        let filter = if self.eat(K::WHERE) {
            Some(self.condition()?)
        } else {
            None
        };
        let group_by = if self.eat_words(&[K::GROUP, K::BY]) {
            Some(self.group_by()?)
        } else {
            None
        };
        let having = if self.eat(K::HAVING) {
            Some(self.condition()?)
        } else {
            None
        };
        let windows = self.window_clause()?;
        Ok(Select {
            distinct,
            top,
            items,
            into,
            from,
            filter,
            group_by,
            having,
            windows,
            span: self.span_from(first),
        })
    }

    fn window_clause(&mut self) -> Parse<Vec<(Ident, Window)>> {
        if !(self.at(K::WINDOW) && self.ident_at(1) && self.keyword_at(2) == K::AS) {
            return Ok(Vec::new());
        }
        self.advance();
        self.list(|parser| {
            let name = parser.ident()?;
            parser.expect(K::AS)?;
            if !parser.at_symbol(Symbol::LeftParen) {
                return Err(parser.unexpected());
            }
            Ok((name, parser.nested(Self::window)?))
        })
    }

    pub(super) fn optional_top(&mut self) -> Parse<Option<Top>> {
        if !self.eat(K::TOP) {
            return Ok(None);
        }
        let count = if self.eat_symbol(Symbol::LeftParen) {
            let count = self.top_count()?;
            self.expect_close()?;
            count
        } else if self.at_variable() {
            let token = self.advance();
            Expr::Variable {
                name: self.text_of(token).to_owned(),
                span: self.span_from(token),
            }
        } else {
            self.signed_number()?
        };
        let percent = self.eat(K::PERCENT);
        let with_ties = self.eat_words(&[K::WITH, K::TIES]);
        Ok(Some(Top {
            count,
            percent,
            with_ties,
        }))
    }

    /// Inside the parentheses of TOP, which double as those of a subquery.
    fn top_count(&mut self) -> Parse<Expr> {
        if self.at_query() {
            return self.query().map(|query| Expr::Subquery(Box::new(query)));
        }
        self.expr()
    }

    fn select_into(&mut self) -> Parse<SelectInto> {
        let table = self.object_name()?;
        let filegroup = if self.eat(K::ON) {
            Some(self.filegroup_name()?)
        } else {
            None
        };
        Ok(SelectInto { table, filegroup })
    }

    pub(super) fn select_item(&mut self) -> Parse<SelectItem> {
        if self.at_wildcard() {
            return self.wildcard();
        }
        if self.at_variable()
            && let Some(op) = self.assign_op_at(1)
        {
            let variable = self.variable()?;
            self.advance();
            return Ok(SelectItem::Assign {
                variable,
                op,
                value: self.expr()?,
            });
        }
        if self.at_alias() && self.symbol_at(1, Symbol::Equal) {
            let alias = Some(self.ident_or_string()?);
            self.advance();
            return Ok(SelectItem::Expr {
                expr: self.expr()?,
                alias,
            });
        }
        let expr = self.expr()?;
        let alias = self.optional_alias()?;
        Ok(SelectItem::Expr { expr, alias })
    }

    /// `=`, `+=` and so on at this place.
    pub(super) fn assign_op_at(&self, ahead: usize) -> Option<AssignOp> {
        let TokenKind::Symbol(symbol) = self.kind_at(ahead) else {
            return None;
        };
        Some(match symbol {
            Symbol::Equal => AssignOp::Set,
            Symbol::PlusEqual => AssignOp::Compound(BinaryOp::Add),
            Symbol::MinusEqual => AssignOp::Compound(BinaryOp::Subtract),
            Symbol::StarEqual => AssignOp::Compound(BinaryOp::Multiply),
            Symbol::SlashEqual => AssignOp::Compound(BinaryOp::Divide),
            Symbol::PercentEqual => AssignOp::Compound(BinaryOp::Modulo),
            Symbol::AmpersandEqual => AssignOp::Compound(BinaryOp::BitAnd),
            Symbol::PipeEqual => AssignOp::Compound(BinaryOp::BitOr),
            Symbol::DoublePipeEqual => AssignOp::Compound(BinaryOp::Concat),
            Symbol::CaretEqual => AssignOp::Compound(BinaryOp::BitXor),
            _ => return None,
        })
    }

    pub(super) fn expect_assign_op(&mut self) -> Parse<AssignOp> {
        match self.assign_op_at(0) {
            Some(op) => {
                self.advance();
                Ok(op)
            }
            None => Err(self.unexpected()),
        }
    }

    fn at_wildcard(&self) -> bool {
        let mut ahead = 0;
        while ahead < 8 {
            if self.symbol_at(ahead, Symbol::Star) {
                return true;
            }
            if self.ident_at(ahead) {
                ahead += 1;
            }
            if !self.symbol_at(ahead, Symbol::Dot) {
                return false;
            }
            ahead += 1;
        }
        false
    }

    fn wildcard(&mut self) -> Parse<SelectItem> {
        let first = self.mark();
        let mut parts = Vec::new();
        while !self.at_symbol(Symbol::Star) {
            parts.push(if self.at_ident() {
                Some(self.ident()?)
            } else {
                None
            });
            self.expect_symbol(Symbol::Dot)?;
        }
        let qualifier = if parts.is_empty() {
            None
        } else {
            Some(self.object_name_of(parts, first)?)
        };
        self.advance();
        Ok(SelectItem::Wildcard {
            qualifier,
            span: self.span_from(first),
        })
    }

    pub(super) fn at_alias(&self) -> bool {
        self.at_ident() || self.at_string()
    }

    /// `AS x`, `x` or `'x'`.
    pub(super) fn optional_alias(&mut self) -> Parse<Option<Ident>> {
        if self.eat(K::AS) || self.at_alias() {
            return self.ident_or_string().map(Some);
        }
        Ok(None)
    }

    pub(super) fn order_item(&mut self) -> Parse<OrderItem> {
        let expr = self.expr()?;
        let descending = self.eat(K::DESC);
        if !descending {
            self.eat(K::ASC);
        }
        Ok(OrderItem { expr, descending })
    }

    fn group_by(&mut self) -> Parse<GroupBy> {
        let all = self.eat(K::ALL);
        let items = self.list(Self::grouping_element)?;
        let with = if self.eat_words(&[K::WITH, K::ROLLUP]) {
            Some(GroupByWith::Rollup)
        } else if self.eat_words(&[K::WITH, K::CUBE]) {
            Some(GroupByWith::Cube)
        } else {
            None
        };
        Ok(GroupBy { all, items, with })
    }

    fn grouping_element(&mut self) -> Parse<GroupingElement> {
        self.nested(|parser| match parser.keyword() {
            K::ROLLUP if parser.symbol_at(1, Symbol::LeftParen) => {
                parser.advance();
                parser
                    .paren_list(Self::grouping_element)
                    .map(GroupingElement::Rollup)
            }
            K::CUBE if parser.symbol_at(1, Symbol::LeftParen) => {
                parser.advance();
                parser
                    .paren_list(Self::grouping_element)
                    .map(GroupingElement::Cube)
            }
            K::GROUPING if parser.keyword_at(1) == K::SETS => {
                parser.advance();
                parser.advance();
                parser
                    .paren_list(Self::grouping_element)
                    .map(GroupingElement::Sets)
            }
            _ if parser.at_symbol(Symbol::LeftParen) => parser.grouping_parenthesis(),
            _ => parser.expr().map(GroupingElement::Expr),
        })
    }

    /// `()`, `(a, b)`, or an expression which begins with a parenthesis.
    fn grouping_parenthesis(&mut self) -> Parse<GroupingElement> {
        let first = self.mark();
        self.expect_open()?;
        if self.eat_symbol(Symbol::RightParen) {
            return Ok(GroupingElement::Composite(Vec::new()));
        }
        if self.at_any(&[K::ROLLUP, K::CUBE]) || self.at_words(&[K::GROUPING, K::SETS]) {
            let element = self.grouping_element()?;
            self.expect_close()?;
            return Ok(element);
        }
        let mut items = if self.at_query() {
            vec![Expr::Subquery(Box::new(self.query()?))]
        } else {
            self.list(Self::expr)?
        };
        self.expect_close()?;
        match items.pop() {
            Some(only) if items.is_empty() => {
                let left = self.postfix(only)?;
                self.sum_after(left, first).map(GroupingElement::Expr)
            }
            last => {
                items.extend(last);
                Ok(GroupingElement::Composite(items))
            }
        }
    }

    fn for_clause(&mut self) -> Parse<ForClause> {
        match self.eat_any(&[K::BROWSE, K::XML, K::JSON]) {
            Some(K::BROWSE) => Ok(ForClause::Browse),
            Some(K::XML) => self.for_xml(),
            Some(_) => self.for_json(),
            None => Err(self.unexpected()),
        }
    }

    fn for_xml(&mut self) -> Parse<ForClause> {
        let mode = match self.eat_any(&[K::RAW, K::AUTO, K::EXPLICIT, K::PATH]) {
            Some(K::RAW) => ForXmlMode::Raw,
            Some(K::AUTO) => ForXmlMode::Auto,
            Some(K::EXPLICIT) => ForXmlMode::Explicit,
            Some(_) => ForXmlMode::Path,
            None => return Err(self.unexpected()),
        };
        let element = if self.eat_symbol(Symbol::LeftParen) {
            let element = self.string()?;
            self.expect_close()?;
            Some(element)
        } else {
            None
        };
        Ok(ForClause::Xml {
            mode,
            element,
            directives: self.for_directives()?,
        })
    }

    fn for_json(&mut self) -> Parse<ForClause> {
        let mode = match self.eat_any(&[K::AUTO, K::PATH]) {
            Some(K::AUTO) => ForJsonMode::Auto,
            Some(_) => ForJsonMode::Path,
            None => return Err(self.unexpected()),
        };
        Ok(ForClause::Json {
            mode,
            directives: self.for_directives()?,
        })
    }

    /// `, ROOT ('x'), TYPE, ELEMENTS XSINIL, BINARY BASE64`.
    fn for_directives(&mut self) -> Parse<Vec<OptionItem>> {
        let mut directives = Vec::new();
        while self.eat_comma() {
            let mut name = self.word_upper()?;
            let second = match name.as_str() {
                "BINARY" => self.eat(K::BASE64).then_some("BASE64"),
                "ELEMENTS" if self.eat(K::XSINIL) => Some("XSINIL"),
                "ELEMENTS" => self.eat(K::ABSENT).then_some("ABSENT"),
                _ => None,
            };
            if let Some(second) = second {
                name = format!("{name} {second}");
            }
            let value = if self.eat_symbol(Symbol::LeftParen) {
                let value = self.string()?;
                self.expect_close()?;
                OptionValue::Expr(Expr::Literal(Literal::String {
                    text: value,
                    national: false,
                }))
            } else {
                OptionValue::None
            };
            directives.push(OptionItem { name, value });
        }
        Ok(directives)
    }
}
