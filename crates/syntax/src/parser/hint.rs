//! Hints of tables and queries: which there are, and how they are written.
//!
//! Theory: what a hint asks for is the binder's business; that it exists is decided here, so that no misspelt hint is taken for one that
//! has no effect. An unknown hint of a table is error 321, of a query 102 as any other word, of USE HINT 10715.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

/// Hints of a table, but for SPATIAL_WINDOW_MAX_CELLS. With one of them a parenthesis behind a table is a list of hints.
const TABLE_HINTS: &[K] = &[
    K::NOLOCK,
    K::READUNCOMMITTED,
    K::READCOMMITTED,
    K::READCOMMITTEDLOCK,
    K::REPEATABLEREAD,
    K::SERIALIZABLE,
    K::SNAPSHOT,
    K::HOLDLOCK,
    K::UPDLOCK,
    K::XLOCK,
    K::ROWLOCK,
    K::PAGLOCK,
    K::TABLOCK,
    K::TABLOCKX,
    K::READPAST,
    K::NOWAIT,
    K::NOEXPAND,
    K::FORCESEEK,
    K::FORCESCAN,
    K::INDEX,
    K::KEEPIDENTITY,
    K::KEEPDEFAULTS,
    K::IGNORE_CONSTRAINTS,
    K::IGNORE_TRIGGERS,
];

/// Hints of a query that are followed by a number.
const NUMBER_HINTS: &[&str] = &[
    "FAST",
    "MAXDOP",
    "MAXRECURSION",
    "MAX_GRANT_PERCENT",
    "MIN_GRANT_PERCENT",
    "QUERYTRACEON",
];

/// Hints of a query that are words alone. PARAMETERIZATION is not among them: only plan guides have it.
const WORD_HINTS: &[&str] = &[
    "CONCAT UNION",
    "DISABLE EXTERNALPUSHDOWN",
    "DISABLE SCALEOUTEXECUTION",
    "EXPAND VIEWS",
    "FORCE EXTERNALPUSHDOWN",
    "FORCE ORDER",
    "FORCE SCALEOUTEXECUTION",
    "HASH GROUP",
    "HASH JOIN",
    "HASH UNION",
    "IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX",
    "KEEP PLAN",
    "KEEP UNION",
    "KEEPFIXED PLAN",
    "LOOP JOIN",
    "MERGE JOIN",
    "MERGE UNION",
    "NO_PERFORMANCE_SPOOL",
    "ORDER GROUP",
    "RECOMPILE",
    "ROBUST PLAN",
];

/// One word more than a hint has shows that it is none.
const HINT_WORDS_MAX: usize = 3;

/// Names of USE HINT: those of SQL Server 2022, and those that later versions have and that change no result.
const USE_HINTS: &[&str] = &[
    "ASSUME_FULL_INDEPENDENCE_FOR_FILTER_ESTIMATES",
    "ASSUME_JOIN_PREDICATE_DEPENDS_ON_FILTERS",
    "ASSUME_MIN_SELECTIVITY_FOR_FILTER_ESTIMATES",
    "ASSUME_PARTIAL_CORRELATION_FOR_FILTER_ESTIMATES",
    "DISABLE_BATCH_MODE_ADAPTIVE_JOINS",
    "DISABLE_BATCH_MODE_MEMORY_GRANT_FEEDBACK",
    "DISABLE_CE_FEEDBACK",
    "DISABLE_DEFERRED_COMPILATION_TV",
    "DISABLE_DOP_FEEDBACK",
    "DISABLE_INTERLEAVED_EXECUTION_TVF",
    "DISABLE_MEMORY_GRANT_FEEDBACK_PERSISTENCE",
    "DISABLE_OPTIMIZED_NESTED_LOOP",
    "DISABLE_OPTIMIZED_PLAN_FORCING",
    "DISABLE_OPTIMIZER_ROWGOAL",
    "DISABLE_PARAMETER_SENSITIVE_PLAN_OPTIMIZATION",
    "DISABLE_PARAMETER_SNIFFING",
    "DISABLE_RESULT_SET_CACHE",
    "DISABLE_ROW_MODE_MEMORY_GRANT_FEEDBACK",
    "DISABLE_TSQL_SCALAR_UDF_INLINING",
    "DISALLOW_BATCH_MODE",
    "ENABLE_HIST_AMENDMENT_FOR_ASC_KEYS",
    "ENABLE_PARALLEL_PLAN_PREFERENCE",
    "ENABLE_QUERY_OPTIMIZER_HOTFIXES",
    "FORCE_DEFAULT_CARDINALITY_ESTIMATION",
    "FORCE_LEGACY_CARDINALITY_ESTIMATION",
    "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_100",
    "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_110",
    "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_120",
    "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_130",
    "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_140",
    "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_150",
    "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_160",
    "QUERY_OPTIMIZER_COMPATIBILITY_LEVEL_170",
    "QUERY_PLAN_PROFILE",
];

impl Parser<'_> {
    /// `WITH (...)`, or the old `(NOLOCK)`. WITH without a parenthesis here is most likely a forgotten semicolon.
    pub(super) fn optional_table_hints(&mut self) -> Parse<Vec<TableHint>> {
        if self.at_old_hints() {
            return self.table_hints();
        }
        if self.eat(K::HOLDLOCK) {
            return Ok(vec![TableHint::Word("HOLDLOCK".to_owned())]);
        }
        if !self.at(K::WITH) {
            return Ok(Vec::new());
        }
        if self.symbol_at(1, Symbol::LeftParen) {
            self.advance();
            return self.table_hints();
        }
        let next = self.token(1);
        if self.ident_at(1) && self.keyword_at(1) != K::XMLNAMESPACES && self.keyword_at(2) == K::AS
        {
            return Err(SyntaxError::cte_needs_semicolon(
                next.line,
                &self.content_of(next),
            ));
        }
        Ok(Vec::new())
    }

    pub(super) fn at_old_hints(&self) -> bool {
        if !self.at_symbol(Symbol::LeftParen) || !TABLE_HINTS.contains(&self.keyword_at(1)) {
            return false;
        }
        match self.kind_at(2) {
            TokenKind::Symbol(Symbol::RightParen | Symbol::Comma) => true,
            TokenKind::Symbol(Symbol::LeftParen | Symbol::Equal) => {
                matches!(self.keyword_at(1), K::INDEX | K::FORCESEEK)
            }
            _ => TABLE_HINTS.contains(&self.keyword_at(2)),
        }
    }

    fn table_hints(&mut self) -> Parse<Vec<TableHint>> {
        self.expect_open()?;
        let mut hints = vec![self.table_hint()?];
        while !self.eat_symbol(Symbol::RightParen) {
            self.eat_comma();
            hints.push(self.table_hint()?);
        }
        Ok(hints)
    }

    pub(super) fn table_hint(&mut self) -> Parse<TableHint> {
        if self.eat(K::INDEX) {
            return self.index_hint();
        }
        if self.at(K::FORCESEEK) && self.symbol_at(1, Symbol::LeftParen) {
            self.advance();
            self.expect_open()?;
            let index = self.index_designator()?;
            let columns = self.optional_paren_list(Self::ident)?;
            self.expect_close()?;
            return Ok(TableHint::ForceSeek { index, columns });
        }
        let (token, is_known) = (self.token(0), TABLE_HINTS.contains(&self.keyword()));
        let word = self.word_upper()?;
        if word == "SPATIAL_WINDOW_MAX_CELLS" {
            self.expect_equal()?;
            return self.small_number().map(TableHint::SpatialWindowMaxCells);
        }
        match is_known {
            true => Ok(TableHint::Word(word)),
            false => Err(SyntaxError::unknown_table_hint(
                token.line,
                self.text_of(token),
            )),
        }
    }

    fn index_hint(&mut self) -> Parse<TableHint> {
        if !self.eat_equal() {
            return self
                .paren_list(Self::index_designator)
                .map(TableHint::Index);
        }
        if self.at_symbol(Symbol::LeftParen) {
            return self
                .paren_list(Self::index_designator)
                .map(TableHint::Index);
        }
        Ok(TableHint::Index(vec![self.index_designator()?]))
    }

    /// An index name or number.
    fn index_designator(&mut self) -> Parse<Ident> {
        if self.kind() == TokenKind::Integer {
            let token = self.advance();
            return Ok(Ident {
                text: self.text_of(token).to_owned(),
                quoted: false,
            });
        }
        self.ident()
    }

    /// `OPTION (...)` if it stands here.
    pub(super) fn query_options(&mut self) -> Parse<Vec<QueryHint>> {
        if !self.eat(K::OPTION) {
            return Ok(Vec::new());
        }
        self.paren_list(Self::query_hint)
    }

    fn query_hint(&mut self) -> Parse<QueryHint> {
        if self.eat_words(&[K::OPTIMIZE, K::FOR]) {
            return self.optimize_for();
        }
        if self.eat_words(&[K::USE, K::HINT]) {
            return self.paren_list(Self::use_hint).map(QueryHint::UseHint);
        }
        if self.eat_words(&[K::USE, K::PLAN]) {
            return self.string().map(QueryHint::UsePlan);
        }
        if self.eat_words(&[K::TABLE, K::HINT]) {
            return self.table_hint_option();
        }
        if self.eat(K::LABEL) {
            self.expect_equal()?;
            return self.string().map(QueryHint::Label);
        }
        let is_word = |n: &usize| matches!(self.kind_at(*n), TokenKind::Word(_));
        let words: Vec<_> = (0..HINT_WORDS_MAX)
            .take_while(is_word)
            .map(|n| self.text_of(self.token(n)).to_ascii_uppercase())
            .collect();
        let name = words.join(" ");
        let is_number = NUMBER_HINTS.contains(&name.as_str());
        if !is_number && !WORD_HINTS.contains(&name.as_str()) {
            return Err(self.unexpected());
        }
        for _ in &words {
            self.advance();
        }
        if !is_number {
            return Ok(QueryHint::Word(name));
        }
        self.eat_equal();
        if !matches!(self.kind(), TokenKind::Integer | TokenKind::Decimal) {
            return Err(self.unexpected());
        }
        let value = self.signed_number()?;
        Ok(QueryHint::Number { name, value })
    }

    /// A name of USE HINT. Error 10715 for one that nobody knows.
    fn use_hint(&mut self) -> Parse<String> {
        let token = self.token(0);
        let name = self.string()?;
        match USE_HINTS.iter().any(|h| h.eq_ignore_ascii_case(&name)) {
            true => Ok(name),
            false => Err(SyntaxError::unknown_use_hint(token.line, &name)),
        }
    }

    fn optimize_for(&mut self) -> Parse<QueryHint> {
        if self.eat(K::UNKNOWN) {
            return Ok(QueryHint::OptimizeFor(Vec::new()));
        }
        let variables = self.paren_list(|parser| {
            let variable = parser.variable()?;
            if parser.eat(K::UNKNOWN) {
                return Ok((variable, None));
            }
            parser.expect_equal()?;
            Ok((variable, Some(parser.expr()?)))
        })?;
        Ok(QueryHint::OptimizeFor(variables))
    }

    fn table_hint_option(&mut self) -> Parse<QueryHint> {
        self.expect_open()?;
        let object = self.object_name()?;
        let mut hints = Vec::new();
        while self.eat_comma() {
            hints.push(self.table_hint()?);
        }
        self.expect_close()?;
        Ok(QueryHint::TableHint { object, hints })
    }
}
