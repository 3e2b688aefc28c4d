//! Tables, indexes, statistics, and the small schema objects.

use super::{Condition, Expr, Ident, ObjectName, OptionItem, Span, Statement, TypeName};

/// `CREATE TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    pub name: ObjectName,
    pub definition: TableDefinition,
    /// `AS FILETABLE`, `AS NODE`, `AS EDGE`.
    pub as_kind: Option<String>,
    pub storage: Option<DataSpace>,
    pub text_image_on: Option<Ident>,
    pub filestream_on: Option<Ident>,
    pub options: Vec<OptionItem>,
}

/// What stands between the parentheses of CREATE TABLE, DECLARE @t TABLE, CREATE TYPE and RETURNS @t TABLE.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TableDefinition {
    pub columns: Vec<ColumnDefinition>,
    pub constraints: Vec<TableConstraint>,
    pub indexes: Vec<InlineIndex>,
    /// `PERIOD FOR SYSTEM_TIME (a, b)`.
    pub period: Option<(Ident, Ident)>,
}

/// `ON filegroup` or `ON scheme(column)`.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSpace {
    pub name: Ident,
    pub column: Option<Ident>,
}

/// A column as CREATE TABLE defines it.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    pub name: Ident,
    pub kind: ColumnKind,
    /// NULL or NOT NULL if written.
    pub nullable: Option<bool>,
    pub identity: Option<Identity>,
    pub collation: Option<Ident>,
    pub default: Option<DefaultConstraint>,
    /// PRIMARY KEY, UNIQUE, CHECK and REFERENCES written at the column.
    pub constraints: Vec<ColumnConstraint>,
    pub index: Option<InlineIndex>,
    pub rowguidcol: bool,
    pub sparse: bool,
    pub filestream: bool,
    pub hidden: bool,
    /// `GENERATED ALWAYS AS ROW START`, as upper-case words after AS.
    pub generated: Option<String>,
    /// `MASKED WITH (FUNCTION = '..')`.
    pub masked: Option<String>,
    /// `XML COLUMN_SET FOR ALL_SPARSE_COLUMNS`.
    pub column_set: bool,
    /// `ENCRYPTED WITH (...)`.
    pub encrypted: Vec<OptionItem>,
    pub span: Span,
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnKind {
    Data(TypeName),
    /// A column without a type, which only `timestamp` may be.
    Untyped,
    Computed {
        expr: Expr,
        persisted: bool,
    },
}

/// `IDENTITY (seed, increment)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Literals with sign; both missing means (1, 1).
    pub seed: Option<Expr>,
    pub increment: Option<Expr>,
    pub not_for_replication: bool,
}

/// `DEFAULT` of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultConstraint {
    pub name: Option<Ident>,
    pub expr: Expr,
    /// `WITH VALUES` in ALTER TABLE.
    pub with_values: bool,
}

/// A constraint behind a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnConstraint {
    pub name: Option<Ident>,
    pub kind: ColumnConstraintKind,
}

/// What a column's constraint demands.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnConstraintKind {
    Key(KeyConstraint),
    Check {
        condition: Condition,
        not_for_replication: bool,
    },
    References(References),
}

/// A constraint of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableConstraint {
    pub name: Option<Ident>,
    pub kind: TableConstraintKind,
    pub span: Span,
}

/// What a table's constraint demands.
#[derive(Clone, Debug, PartialEq)]
pub enum TableConstraintKind {
    Key(KeyConstraint),
    Check {
        condition: Condition,
        not_for_replication: bool,
    },
    ForeignKey {
        columns: Vec<Ident>,
        references: References,
    },
    /// `DEFAULT expr FOR column`, in ALTER TABLE ADD.
    Default {
        expr: Expr,
        column: Ident,
        with_values: bool,
    },
    /// `CONNECTION (a TO b)` of edge tables, as text.
    Connection(String),
}

/// PRIMARY KEY or UNIQUE.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyConstraint {
    pub primary: bool,
    pub clustered: Option<bool>,
    /// `HASH` of memory-optimised tables.
    pub hash: bool,
    /// Empty at a column.
    pub columns: Vec<IndexColumn>,
    pub options: Vec<OptionItem>,
    pub storage: Option<DataSpace>,
    pub not_enforced: bool,
}

/// `REFERENCES` of a foreign key.
#[derive(Clone, Debug, PartialEq)]
pub struct References {
    pub table: ObjectName,
    /// Empty means the primary key.
    pub columns: Vec<Ident>,
    pub on_delete: Option<ReferentialAction>,
    pub on_update: Option<ReferentialAction>,
    pub not_for_replication: bool,
}

/// `ON DELETE` or `ON UPDATE` of a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    NoAction,
    Cascade,
    SetNull,
    SetDefault,
}

/// A key column of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexColumn {
    pub name: Ident,
    pub descending: bool,
}

/// `INDEX ix [UNIQUE] [CLUSTERED] (a, b) INCLUDE (..) WHERE .. WITH (..) ON fg` in a table definition.
#[derive(Clone, Debug, PartialEq)]
pub struct InlineIndex {
    pub name: Ident,
    pub unique: bool,
    pub clustered: Option<bool>,
    pub columnstore: bool,
    /// `HASH` of memory-optimised tables.
    pub hash: bool,
    pub columns: Vec<IndexColumn>,
    pub include: Vec<Ident>,
    pub filter: Option<Condition>,
    pub options: Vec<OptionItem>,
    pub storage: Option<DataSpace>,
}

/// `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    pub name: ObjectName,
    pub action: AlterTableAction,
}

/// What an ALTER TABLE does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTableAction {
    /// `[WITH CHECK | NOCHECK] ADD` columns and constraints.
    Add {
        check: Option<bool>,
        definition: TableDefinition,
    },
    AlterColumn(AlterColumn),
    Drop(Vec<AlterTableDrop>),
    /// `[WITH CHECK | NOCHECK] CHECK | NOCHECK CONSTRAINT {ALL | names}`; empty names mean ALL.
    CheckConstraint {
        validate: Option<bool>,
        enable: bool,
        names: Vec<Ident>,
    },
    /// `ENABLE | DISABLE TRIGGER {ALL | names}`; empty names mean ALL.
    Trigger {
        enable: bool,
        names: Vec<Ident>,
    },
    /// `ENABLE | DISABLE CHANGE_TRACKING`.
    ChangeTracking {
        enable: bool,
        options: Vec<OptionItem>,
    },
    Switch {
        partition: Option<Expr>,
        target: ObjectName,
        target_partition: Option<Expr>,
        options: Vec<OptionItem>,
    },
    Set(Vec<OptionItem>),
    /// `REBUILD [PARTITION = n | ALL] [WITH (...)]`.
    Rebuild {
        partition: Option<Expr>,
        options: Vec<OptionItem>,
    },
    AlterIndex {
        name: Ident,
        options: Vec<OptionItem>,
    },
}

/// `ALTER TABLE .. ALTER COLUMN`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterColumn {
    pub name: Ident,
    pub change: AlterColumnChange,
    /// `WITH (ONLINE = ON)`.
    pub options: Vec<OptionItem>,
}

/// What an ALTER COLUMN changes.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterColumnChange {
    Type {
        data_type: TypeName,
        collation: Option<Ident>,
        nullable: Option<bool>,
        sparse: bool,
    },
    /// `ADD | DROP ROWGUIDCOL | PERSISTED | NOT FOR REPLICATION | SPARSE | HIDDEN | MASKED`.
    Property {
        add: bool,
        property: String,
        mask: Option<String>,
    },
}

/// What an `ALTER TABLE .. DROP` drops.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTableDrop {
    Column {
        name: Ident,
        if_exists: bool,
    },
    /// With or without the word CONSTRAINT.
    Constraint {
        name: Ident,
        if_exists: bool,
        options: Vec<OptionItem>,
    },
    Period,
}

/// `CREATE INDEX`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    pub name: Ident,
    pub table: ObjectName,
    pub kind: IndexKind,
    pub unique: bool,
    pub clustered: Option<bool>,
    pub columns: Vec<IndexColumn>,
    pub include: Vec<Ident>,
    pub filter: Option<Condition>,
    pub options: Vec<OptionItem>,
    pub storage: Option<DataSpace>,
    pub filestream_on: Option<Ident>,
}

/// What an index is.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexKind {
    Rowstore,
    Columnstore {
        order: Vec<IndexColumn>,
    },
    /// `PRIMARY XML`, or a secondary one `USING XML INDEX p FOR PATH`.
    Xml {
        primary: bool,
        using: Option<Ident>,
        purpose: Option<String>,
    },
    Spatial {
        using: Option<String>,
    },
}

/// `ALTER INDEX`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterIndex {
    /// `None` is ALL.
    pub name: Option<Ident>,
    pub table: ObjectName,
    pub action: AlterIndexAction,
}

/// What an ALTER INDEX does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterIndexAction {
    Rebuild {
        partition: Option<Expr>,
        options: Vec<OptionItem>,
    },
    Reorganize {
        partition: Option<Expr>,
        options: Vec<OptionItem>,
    },
    Disable,
    Set(Vec<OptionItem>),
    Resume(Vec<OptionItem>),
    Pause,
    Abort,
}

/// `DROP INDEX`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropIndex {
    pub if_exists: bool,
    pub indexes: Vec<DropIndexItem>,
}

/// `ix ON t WITH (..)`, or the old `t.ix`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropIndexItem {
    pub name: Ident,
    pub table: ObjectName,
    pub options: Vec<OptionItem>,
}

/// `CREATE STATISTICS`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateStatistics {
    pub name: Ident,
    pub table: ObjectName,
    pub columns: Vec<Ident>,
    pub filter: Option<Condition>,
    pub options: Vec<OptionItem>,
}

/// `UPDATE STATISTICS`.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateStatistics {
    pub table: ObjectName,
    /// Index or statistics names; empty means all.
    pub names: Vec<Ident>,
    pub options: Vec<OptionItem>,
}

/// `ENABLE TRIGGER` or `DISABLE TRIGGER`.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchTrigger {
    pub enable: bool,
    /// Empty means ALL.
    pub triggers: Vec<ObjectName>,
    pub on: TriggerScope,
}

/// What a trigger belongs to.
#[derive(Clone, Debug, PartialEq)]
pub enum TriggerScope {
    Object(ObjectName),
    Database,
    AllServer,
}

/// `CREATE SCHEMA`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSchema {
    /// `None` for `CREATE SCHEMA AUTHORIZATION owner`.
    pub name: Option<Ident>,
    pub owner: Option<Ident>,
    /// Tables, views and grants written inside.
    pub elements: Vec<Statement>,
}

/// `ALTER SCHEMA s TRANSFER [class ::] object`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterSchema {
    pub name: Ident,
    pub class: Option<String>,
    pub object: ObjectName,
}

/// `CREATE TYPE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateType {
    pub name: ObjectName,
    pub kind: TypeKind,
}

/// What a type is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    Alias {
        base: TypeName,
        nullable: Option<bool>,
        default: Option<Expr>,
    },
    Table {
        definition: TableDefinition,
        options: Vec<OptionItem>,
    },
    /// `EXTERNAL NAME assembly.class`.
    External(ObjectName),
}

/// `CREATE SEQUENCE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSequence {
    pub name: ObjectName,
    pub data_type: Option<TypeName>,
    pub options: Vec<SequenceOption>,
}

/// `ALTER SEQUENCE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterSequence {
    pub name: ObjectName,
    pub options: Vec<SequenceOption>,
}

/// An option of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceOption {
    StartWith(Expr),
    /// `RESTART` or `RESTART WITH n`.
    Restart(Option<Expr>),
    IncrementBy(Expr),
    /// `None` for NO MINVALUE.
    MinValue(Option<Expr>),
    MaxValue(Option<Expr>),
    Cycle(bool),
    /// `CACHE n`, `CACHE` or `NO CACHE`.
    Cache(SequenceCache),
}

/// `CACHE` of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceCache {
    Default,
    Size(Expr),
    None,
}

/// `CREATE SYNONYM`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSynonym {
    pub name: ObjectName,
    pub target: ObjectName,
}

/// `CREATE` or `ALTER XML SCHEMA COLLECTION`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateXmlSchemaCollection {
    pub name: ObjectName,
    /// True for `ALTER ... ADD`.
    pub add: bool,
    pub schema: Expr,
}

/// `DROP kind [IF EXISTS] a, b`.
#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    pub kind: DropKind,
    pub if_exists: bool,
    pub names: Vec<ObjectName>,
    /// `ON DATABASE`, `ON ALL SERVER` of triggers.
    pub scope: Option<TriggerScope>,
    /// Whatever else may follow, as options: `WITH NO DEPENDENTS`.
    pub options: Vec<OptionItem>,
}

/// What a DROP drops.
#[derive(Clone, Debug, PartialEq)]
pub enum DropKind {
    Table,
    View,
    Procedure,
    Function,
    Trigger,
    Type,
    Schema,
    Sequence,
    Synonym,
    Database,
    Statistics,
    Default,
    Rule,
    Aggregate,
    Assembly,
    XmlSchemaCollection,
    PartitionFunction,
    PartitionScheme,
    Login,
    User,
    Role,
    ServerRole,
    ApplicationRole,
    Credential,
    Certificate,
    MasterKey,
    SymmetricKey,
    AsymmetricKey,
    Endpoint,
    AvailabilityGroup,
}
