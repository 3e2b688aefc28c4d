//! Abstract syntax of a T-SQL batch: what the parser found, with no names resolved.
//!
//! Theory: a batch is a list of statements. Scalars (`Expr`) and conditions (`Condition`) are two types, because T-SQL
//! keeps them apart: a comparison is no value and a value is no condition. Object and type names stay as written; the
//! binder resolves them. Option lists which the engine acts on are typed, all others are `OptionItem`s.
//!
//! Invariants
//! 1. Nodes own their data and compare without positions: `parse(print(ast)) == ast`.
//! 2. The height of every tree is bounded by the parser (`NESTING_MAX`, `TREE_HEIGHT_MAX`), so plain recursion over it is safe.
//!    AND, OR, set operations and concatenated lists are n-ary, so thousands of branches add no height.
//! 3. Names of variables keep their `@`; option and keyword names are upper case; identifiers keep the case written.

mod admin;
mod control;
mod database;
mod dml;
mod event;
mod expr;
mod key;
mod module;
mod name;
mod query;
mod security;
mod table;

pub use admin::*;
pub use control::*;
pub use database::*;
pub use dml::*;
pub use event::*;
pub use expr::*;
pub use key::*;
pub use module::*;
pub use name::*;
pub use query::*;
pub use security::*;
pub use table::*;

/// One statement with its place in the batch. `span.start..span.end` is its source text without a trailing semicolon;
/// `span.line` is the 1-based line which ERROR tokens report.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    pub span: Span,
    pub kind: StatementKind,
}

/// Every statement that the parser knows.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    // Queries and changes of rows
    Select(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
    Truncate(Truncate),
    BulkInsert(BulkInsert),
    /// `INSERT BULK`, which clients send before a bulk load message.
    InsertBulk(InsertBulk),
    /// `READTEXT`, `WRITETEXT`, `UPDATETEXT` on the deprecated text types.
    TextPointer(TextPointer),

    // Control flow
    Block(Vec<Statement>),
    If(If),
    While(While),
    Break,
    Continue,
    Label(Ident),
    Goto(Ident),
    Return(Option<Expr>),
    TryCatch(TryCatch),
    /// `BEGIN ATOMIC WITH (...)` of natively compiled modules.
    Atomic {
        options: Vec<OptionItem>,
        body: Vec<Statement>,
    },
    Throw(Option<Throw>),
    RaisError(RaisError),
    Print(Expr),
    WaitFor(WaitFor),
    Execute(Box<Execute>),
    Declare(Vec<Declaration>),
    DeclareTable(DeclareTable),
    DeclareCursor(Box<DeclareCursor>),
    Set(SetStatement),
    Open(CursorRef),
    Fetch(Fetch),
    Close(CursorRef),
    Deallocate(CursorRef),

    // Transactions
    BeginTransaction(BeginTransaction),
    Commit(Commit),
    Rollback(Option<TransactionName>),
    SaveTransaction(TransactionName),

    // Session
    Use(Ident),
    ExecuteAs(ExecuteAs),
    Revert {
        cookie: Option<String>,
    },

    // Tables and what hangs on them
    CreateTable(Box<CreateTable>),
    AlterTable(Box<AlterTable>),
    CreateIndex(Box<CreateIndex>),
    AlterIndex(AlterIndex),
    DropIndex(DropIndex),
    CreateStatistics(CreateStatistics),
    UpdateStatistics(UpdateStatistics),
    /// `ENABLE TRIGGER` and `DISABLE TRIGGER`.
    SwitchTrigger(SwitchTrigger),
    CreateSchema(CreateSchema),
    AlterSchema(AlterSchema),
    CreateType(CreateType),
    CreateSequence(CreateSequence),
    AlterSequence(AlterSequence),
    CreateSynonym(CreateSynonym),
    CreateXmlSchemaCollection(CreateXmlSchemaCollection),
    /// Every `DROP` without a statement of its own here.
    Drop(Drop),

    // Modules
    CreateView(Box<CreateView>),
    CreateProcedure(Box<CreateProcedure>),
    CreateFunction(Box<CreateFunction>),
    CreateTrigger(Box<CreateTrigger>),

    // Databases
    CreateDatabase(Box<CreateDatabase>),
    AlterDatabase(Box<AlterDatabase>),
    Backup(Box<Backup>),
    Restore(Box<Restore>),

    // Security
    Grant(Grant),
    Principal(PrincipalStatement),
    /// Certificates and master keys.
    Key(KeyStatement),

    // Server
    Checkpoint(Option<Expr>),
    Kill(Kill),
    Shutdown {
        no_wait: bool,
    },
    Reconfigure {
        with_override: bool,
    },
    Dbcc(Dbcc),
    CreateEndpoint(CreateEndpoint),
    EventSession(EventSession),
    CreateAvailabilityGroup(CreateAvailabilityGroup),
    AlterAvailabilityGroup(AlterAvailabilityGroup),
    /// DDL which is understood as a form of words but has no meaning here yet: the object kind, the name and the source
    /// text of the whole statement.
    OtherDdl(OtherDdl),
}

/// Where a node stands in the batch text. All spans are equal, so trees compare by content.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Span {
    /// Byte offset of the first character.
    pub start: usize,
    /// Byte offset after the last character.
    pub end: usize,
    /// 1-based line of the first character.
    pub line: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Span {
    /// The text under the span; empty when the span does not belong to `batch`.
    pub fn text<'a>(&self, batch: &'a str) -> &'a str {
        batch.get(self.start..self.end).unwrap_or("")
    }
}

/// `NAME`, `NAME = value`, `NAME ON`, `NAME (list)`: one entry of an option list. Names of several words are joined by a blank.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionItem {
    pub name: String,
    pub value: OptionValue,
}

/// The value of an option in a list of options.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A bare name.
    None,
    On,
    Off,
    /// A number, string, variable or other expression.
    Expr(Expr),
    /// One or more bare words as written, joined by blanks: `FULL`, `Windows Negotiate`. Compare with `is`.
    Word(String),
    /// A quoted identifier.
    Name(Ident),
    /// A number with a unit: `10 MB`, `60 SECONDS`, `5 PERCENT`.
    Quantity {
        amount: String,
        unit: String,
    },
    /// `(a = 1, b)`.
    List(Vec<OptionItem>),
    /// A value followed by a list: `ON (...)`, `AUTO (...)`.
    Qualified(Box<OptionValue>, Vec<OptionItem>),
}

impl OptionValue {
    /// True for these bare words, in any case.
    pub fn is(&self, words: &str) -> bool {
        matches!(self, OptionValue::Word(found) if found.eq_ignore_ascii_case(words))
    }
}

impl OptionItem {
    /// Is it the option of this name, whatever its case?
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// True for a bare name or `ON`.
    pub fn is_on(&self) -> bool {
        matches!(self.value, OptionValue::None | OptionValue::On)
    }
}

/// How a module comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefineMode {
    Create,
    CreateOrAlter,
    Alter,
}

/// A definition that is parsed only as far as its name, to be refused by it.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherDdl {
    /// Upper-case words, for example `CREATE FULLTEXT CATALOG`.
    pub what: String,
    pub text: String,
}
