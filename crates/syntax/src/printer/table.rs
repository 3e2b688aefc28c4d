//! Tables, indexes, statistics, and the small schema objects.

use super::option::{StatisticsOptions, WithOptions};
use super::{Clause, Commas, Flag, Parens, Quote};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

pub(super) fn nullability(nullable: Option<bool>) -> &'static str {
    match nullable {
        Some(true) => " NULL",
        Some(false) => " NOT NULL",
        None => "",
    }
}

fn clustering(clustered: Option<bool>) -> &'static str {
    match clustered {
        Some(true) => " CLUSTERED",
        Some(false) => " NONCLUSTERED",
        None => "",
    }
}

/// `CONSTRAINT name ` before a constraint.
struct Named<'a>(&'a Option<Ident>);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "CONSTRAINT {name} "),
            None => Ok(()),
        }
    }
}

impl Display for CreateTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE TABLE {}", self.name)?;
        let file_table = self.as_kind.as_deref().filter(|kind| *kind == "FILETABLE");
        if let Some(kind) = file_table {
            write!(f, " AS {kind}")?;
        }
        if !self.definition.is_empty() {
            write!(f, " {}", self.definition)?;
        }
        if let (Some(kind), None) = (&self.as_kind, file_table) {
            write!(f, " AS {kind}")?;
        }
        write!(f, "{}", Clause("ON", &self.storage))?;
        write!(f, "{}", Clause("TEXTIMAGE_ON", &self.text_image_on))?;
        write!(
            f,
            "{}{}",
            Clause("FILESTREAM_ON", &self.filestream_on),
            WithOptions(&self.options)
        )
    }
}

impl TableDefinition {
    fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.constraints.is_empty() && self.indexes.is_empty()
    }

    /// The elements without parentheses, as ALTER TABLE ADD lists them.
    fn elements(&self) -> Vec<String> {
        let columns = self.columns.iter().map(ToString::to_string);
        let period = self
            .period
            .iter()
            .map(|(start, end)| format!("PERIOD FOR SYSTEM_TIME ({start}, {end})"));
        let constraints = self.constraints.iter().map(ToString::to_string);
        let indexes = self.indexes.iter().map(ToString::to_string);
        columns
            .chain(period)
            .chain(constraints)
            .chain(indexes)
            .collect()
    }
}

impl Display for TableDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "({})", self.elements().join(", "))
    }
}

impl Display for DataSpace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.column {
            Some(column) => write!(f, "{}({column})", self.name),
            None => self.name.fmt(f),
        }
    }
}

impl Display for ColumnDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        match &self.kind {
            ColumnKind::Data(data_type) => write!(f, " {data_type}")?,
            ColumnKind::Untyped => {}
            ColumnKind::Computed { expr, persisted } => {
                write!(f, " AS {expr}{}", Flag("PERSISTED", *persisted))?
            }
        }
        write!(
            f,
            "{}{}",
            Clause("COLLATE", &self.collation),
            Flag("FILESTREAM", self.filestream)
        )?;
        write!(f, "{}", Flag("SPARSE", self.sparse))?;
        write!(
            f,
            "{}",
            Flag("COLUMN_SET FOR ALL_SPARSE_COLUMNS", self.column_set)
        )?;
        if let Some(words) = &self.generated {
            write!(f, " GENERATED ALWAYS AS {words}")?;
        }
        write!(f, "{}", Flag("HIDDEN", self.hidden))?;
        if let Some(function) = &self.masked {
            write!(f, " MASKED WITH (FUNCTION = {})", Quote(function))?;
        }
        if !self.encrypted.is_empty() {
            write!(f, " ENCRYPTED WITH ({})", Commas(&self.encrypted))?;
        }
        if let Some(identity) = &self.identity {
            write!(f, " {identity}")?;
        }
        f.write_str(nullability(self.nullable))?;
        write!(f, "{}", Flag("ROWGUIDCOL", self.rowguidcol))?;
        if let Some(default) = &self.default {
            write!(f, " {default}")?;
        }
        self.constraints
            .iter()
            .try_for_each(|constraint| write!(f, " {constraint}"))?;
        if let Some(index) = &self.index {
            write!(f, " {index}")?;
        }
        Ok(())
    }
}

impl Display for Identity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("IDENTITY")?;
        if let Some(seed) = &self.seed {
            write!(f, "({seed}")?;
            if let Some(increment) = &self.increment {
                write!(f, ", {increment}")?;
            }
            f.write_str(")")?;
        }
        write!(
            f,
            "{}",
            Flag("NOT FOR REPLICATION", self.not_for_replication)
        )
    }
}

impl Display for DefaultConstraint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}DEFAULT {}{}",
            Named(&self.name),
            self.expr,
            Flag("WITH VALUES", self.with_values)
        )
    }
}

impl Display for ColumnConstraint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Named(&self.name).fmt(f)?;
        match &self.kind {
            ColumnConstraintKind::Key(key) => key.fmt(f),
            ColumnConstraintKind::Check {
                condition,
                not_for_replication,
            } => write_check(f, condition, *not_for_replication),
            ColumnConstraintKind::References(references) => references.fmt(f),
        }
    }
}

fn write_check(
    f: &mut Formatter<'_>,
    condition: &Condition,
    not_for_replication: bool,
) -> fmt::Result {
    write!(
        f,
        "CHECK{} ({condition})",
        Flag("NOT FOR REPLICATION", not_for_replication)
    )
}

impl Display for TableConstraint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Named(&self.name).fmt(f)?;
        match &self.kind {
            TableConstraintKind::Key(key) => key.fmt(f),
            TableConstraintKind::Check {
                condition,
                not_for_replication,
            } => write_check(f, condition, *not_for_replication),
            TableConstraintKind::ForeignKey {
                columns,
                references,
            } => {
                write!(f, "FOREIGN KEY{} {references}", Parens(columns))
            }
            TableConstraintKind::Default {
                expr,
                column,
                with_values,
            } => {
                write!(
                    f,
                    "DEFAULT {expr} FOR {column}{}",
                    Flag("WITH VALUES", *with_values)
                )
            }
            TableConstraintKind::Connection(text) => write!(f, "CONNECTION {text}"),
        }
    }
}

impl Display for KeyConstraint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.primary {
            "PRIMARY KEY"
        } else {
            "UNIQUE"
        })?;
        write!(
            f,
            "{}{}",
            clustering(self.clustered),
            Flag("HASH", self.hash)
        )?;
        write!(f, "{}{}", Parens(&self.columns), WithOptions(&self.options))?;
        write!(
            f,
            "{}{}",
            Clause("ON", &self.storage),
            Flag("NOT ENFORCED", self.not_enforced)
        )
    }
}

impl Display for References {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "REFERENCES {}{}", self.table, Parens(&self.columns))?;
        write!(
            f,
            "{}{}",
            Clause("ON DELETE", &self.on_delete),
            Clause("ON UPDATE", &self.on_update)
        )?;
        write!(
            f,
            "{}",
            Flag("NOT FOR REPLICATION", self.not_for_replication)
        )
    }
}

impl Display for ReferentialAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReferentialAction::NoAction => "NO ACTION",
            ReferentialAction::Cascade => "CASCADE",
            ReferentialAction::SetNull => "SET NULL",
            ReferentialAction::SetDefault => "SET DEFAULT",
        })
    }
}

impl Display for InlineIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "INDEX {}{}{}",
            self.name,
            Flag("UNIQUE", self.unique),
            clustering(self.clustered)
        )?;
        write!(
            f,
            "{}{}",
            Flag("COLUMNSTORE", self.columnstore),
            Flag("HASH", self.hash)
        )?;
        Parens(&self.columns).fmt(f)?;
        write_index_tail(f, &self.include, &self.filter, &self.options, &self.storage)
    }
}

fn write_index_tail(
    f: &mut Formatter<'_>,
    include: &[Ident],
    filter: &Option<Condition>,
    options: &[OptionItem],
    storage: &Option<DataSpace>,
) -> fmt::Result {
    if !include.is_empty() {
        write!(f, " INCLUDE ({})", Commas(include))?;
    }
    write!(
        f,
        "{}{}{}",
        Clause("WHERE", filter),
        WithOptions(options),
        Clause("ON", storage)
    )
}

impl Display for AlterTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER TABLE {} {}", self.name, self.action)
    }
}

fn check_prefix(check: Option<bool>) -> &'static str {
    match check {
        Some(true) => "WITH CHECK ",
        Some(false) => "WITH NOCHECK ",
        None => "",
    }
}

/// Names, or ALL for an empty list.
struct AllOr<'a>(&'a [Ident]);

impl Display for AllOr<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            f.write_str("ALL")
        } else {
            Commas(self.0).fmt(f)
        }
    }
}

fn enabling(enable: bool) -> &'static str {
    if enable { "ENABLE" } else { "DISABLE" }
}

impl Display for AlterTableAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AlterTableAction::Add { check, definition } => {
                write!(
                    f,
                    "{}ADD {}",
                    check_prefix(*check),
                    definition.elements().join(", ")
                )
            }
            AlterTableAction::AlterColumn(column) => column.fmt(f),
            AlterTableAction::Drop(drops) => write!(f, "DROP {}", Commas(drops)),
            AlterTableAction::CheckConstraint {
                validate,
                enable,
                names,
            } => {
                let word = if *enable { "CHECK" } else { "NOCHECK" };
                write!(
                    f,
                    "{}{word} CONSTRAINT {}",
                    check_prefix(*validate),
                    AllOr(names)
                )
            }
            AlterTableAction::Trigger { enable, names } => {
                write!(f, "{} TRIGGER {}", enabling(*enable), AllOr(names))
            }
            AlterTableAction::ChangeTracking { enable, options } => {
                write!(
                    f,
                    "{} CHANGE_TRACKING{}",
                    enabling(*enable),
                    WithOptions(options)
                )
            }
            AlterTableAction::Switch {
                partition,
                target,
                target_partition,
                options,
            } => {
                write!(f, "SWITCH{} TO {target}", Clause("PARTITION", partition))?;
                write!(
                    f,
                    "{}{}",
                    Clause("PARTITION", target_partition),
                    WithOptions(options)
                )
            }
            AlterTableAction::Set(options) => write!(f, "SET ({})", Commas(options)),
            AlterTableAction::Rebuild { partition, options } => {
                write!(
                    f,
                    "REBUILD{}{}",
                    Clause("PARTITION =", partition),
                    WithOptions(options)
                )
            }
            AlterTableAction::AlterIndex { name, options } => {
                write!(f, "ALTER INDEX {name} REBUILD{}", WithOptions(options))
            }
        }
    }
}

impl Display for AlterColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER COLUMN {} ", self.name)?;
        match &self.change {
            AlterColumnChange::Type {
                data_type,
                collation,
                nullable,
                sparse,
            } => {
                write!(
                    f,
                    "{data_type}{}{}",
                    Clause("COLLATE", collation),
                    Flag("SPARSE", *sparse)
                )?;
                f.write_str(nullability(*nullable))?;
            }
            AlterColumnChange::Property {
                add,
                property,
                mask,
            } => {
                write!(f, "{} {property}", if *add { "ADD" } else { "DROP" })?;
                if let Some(function) = mask {
                    write!(f, " WITH (FUNCTION = {})", Quote(function))?;
                }
            }
        }
        WithOptions(&self.options).fmt(f)
    }
}

impl Display for AlterTableDrop {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AlterTableDrop::Column { name, if_exists } => {
                write!(f, "COLUMN{} {name}", Flag("IF EXISTS", *if_exists))
            }
            AlterTableDrop::Constraint {
                name,
                if_exists,
                options,
            } => {
                write!(
                    f,
                    "CONSTRAINT{} {name}{}",
                    Flag("IF EXISTS", *if_exists),
                    WithOptions(options)
                )
            }
            AlterTableDrop::Period => f.write_str("PERIOD FOR SYSTEM_TIME"),
        }
    }
}

impl Display for CreateIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CREATE{}{} ",
            Flag("UNIQUE", self.unique),
            clustering(self.clustered)
        )?;
        f.write_str(match &self.kind {
            IndexKind::Rowstore => "INDEX",
            IndexKind::Columnstore { .. } => "COLUMNSTORE INDEX",
            IndexKind::Xml { primary: true, .. } => "PRIMARY XML INDEX",
            IndexKind::Xml { primary: false, .. } => "XML INDEX",
            IndexKind::Spatial { .. } => "SPATIAL INDEX",
        })?;
        write!(
            f,
            " {} ON {}{}",
            self.name,
            self.table,
            Parens(&self.columns)
        )?;
        match &self.kind {
            IndexKind::Columnstore { order } if !order.is_empty() => {
                write!(f, " ORDER{}", Parens(order))?
            }
            IndexKind::Xml {
                using: Some(using),
                purpose,
                ..
            } => {
                write!(f, " USING XML INDEX {using}{}", Clause("FOR", purpose))?;
            }
            IndexKind::Spatial { using: Some(using) } => write!(f, " USING {using}")?,
            _ => {}
        }
        write_index_tail(f, &self.include, &self.filter, &self.options, &self.storage)?;
        write!(f, "{}", Clause("FILESTREAM_ON", &self.filestream_on))
    }
}

impl Display for AlterIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "ALTER INDEX {name} ON {} ", self.table)?,
            None => write!(f, "ALTER INDEX ALL ON {} ", self.table)?,
        }
        match &self.action {
            AlterIndexAction::Rebuild { partition, options } => {
                write!(
                    f,
                    "REBUILD{}{}",
                    Clause("PARTITION =", partition),
                    WithOptions(options)
                )
            }
            AlterIndexAction::Reorganize { partition, options } => {
                write!(
                    f,
                    "REORGANIZE{}{}",
                    Clause("PARTITION =", partition),
                    WithOptions(options)
                )
            }
            AlterIndexAction::Disable => f.write_str("DISABLE"),
            AlterIndexAction::Set(options) => write!(f, "SET ({})", Commas(options)),
            AlterIndexAction::Resume(options) => write!(f, "RESUME{}", WithOptions(options)),
            AlterIndexAction::Pause => f.write_str("PAUSE"),
            AlterIndexAction::Abort => f.write_str("ABORT"),
        }
    }
}

impl Display for DropIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DROP INDEX{} {}",
            Flag("IF EXISTS", self.if_exists),
            Commas(&self.indexes)
        )
    }
}

impl Display for DropIndexItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ON {}{}",
            self.name,
            self.table,
            WithOptions(&self.options)
        )
    }
}

impl Display for CreateStatistics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CREATE STATISTICS {} ON {}{}",
            self.name,
            self.table,
            Parens(&self.columns)
        )?;
        write!(
            f,
            "{}{}",
            Clause("WHERE", &self.filter),
            StatisticsOptions(&self.options)
        )
    }
}

impl Display for UpdateStatistics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "UPDATE STATISTICS {}{}{}",
            self.table,
            Parens(&self.names),
            StatisticsOptions(&self.options)
        )
    }
}

impl Display for SwitchTrigger {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} TRIGGER ", enabling(self.enable))?;
        if self.triggers.is_empty() {
            f.write_str("ALL")?;
        }
        write!(f, "{} ON {}", Commas(&self.triggers), self.on)
    }
}

impl Display for CreateSchema {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("CREATE SCHEMA")?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        write!(f, "{}", Clause("AUTHORIZATION", &self.owner))?;
        self.elements
            .iter()
            .try_for_each(|element| write!(f, " {element}"))
    }
}

impl Display for AlterSchema {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER SCHEMA {} TRANSFER ", self.name)?;
        if let Some(class) = &self.class {
            write!(f, "{class}::")?;
        }
        self.object.fmt(f)
    }
}

impl Display for CreateType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE TYPE {}", self.name)?;
        match &self.kind {
            TypeKind::Alias {
                base,
                nullable,
                default,
            } => {
                write!(
                    f,
                    " FROM {base}{}{}",
                    nullability(*nullable),
                    Clause("DEFAULT", default)
                )
            }
            TypeKind::Table {
                definition,
                options,
            } => write!(f, " AS TABLE {definition}{}", WithOptions(options)),
            TypeKind::External(name) => write!(f, " EXTERNAL NAME {name}"),
        }
    }
}

impl Display for CreateSequence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CREATE SEQUENCE {}{}",
            self.name,
            Clause("AS", &self.data_type)
        )?;
        self.options
            .iter()
            .try_for_each(|option| write!(f, " {option}"))
    }
}

impl Display for AlterSequence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER SEQUENCE {}", self.name)?;
        self.options
            .iter()
            .try_for_each(|option| write!(f, " {option}"))
    }
}

impl Display for SequenceOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SequenceOption::StartWith(value) => write!(f, "START WITH {value}"),
            SequenceOption::Restart(value) => write!(f, "RESTART{}", Clause("WITH", value)),
            SequenceOption::IncrementBy(value) => write!(f, "INCREMENT BY {value}"),
            SequenceOption::MinValue(Some(value)) => write!(f, "MINVALUE {value}"),
            SequenceOption::MinValue(None) => f.write_str("NO MINVALUE"),
            SequenceOption::MaxValue(Some(value)) => write!(f, "MAXVALUE {value}"),
            SequenceOption::MaxValue(None) => f.write_str("NO MAXVALUE"),
            SequenceOption::Cycle(true) => f.write_str("CYCLE"),
            SequenceOption::Cycle(false) => f.write_str("NO CYCLE"),
            SequenceOption::Cache(SequenceCache::Default) => f.write_str("CACHE"),
            SequenceOption::Cache(SequenceCache::Size(size)) => write!(f, "CACHE {size}"),
            SequenceOption::Cache(SequenceCache::None) => f.write_str("NO CACHE"),
        }
    }
}

impl Display for CreateSynonym {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE SYNONYM {} FOR {}", self.name, self.target)
    }
}

impl Display for CreateXmlSchemaCollection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (verb, word) = if self.add {
            ("ALTER", "ADD")
        } else {
            ("CREATE", "AS")
        };
        write!(
            f,
            "{verb} XML SCHEMA COLLECTION {} {word} {}",
            self.name, self.schema
        )
    }
}

impl Display for Drop {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP {}{}", self.kind, Flag("IF EXISTS", self.if_exists))?;
        if !self.names.is_empty() {
            write!(f, " {}", Commas(&self.names))?;
        }
        write!(f, "{}", Clause("ON", &self.scope))?;
        if self.options.is_empty() {
            Ok(())
        } else {
            write!(f, " WITH {}", Commas(&self.options))
        }
    }
}

impl Display for DropKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DropKind::Table => "TABLE",
            DropKind::View => "VIEW",
            DropKind::Procedure => "PROCEDURE",
            DropKind::Function => "FUNCTION",
            DropKind::Trigger => "TRIGGER",
            DropKind::Type => "TYPE",
            DropKind::Schema => "SCHEMA",
            DropKind::Sequence => "SEQUENCE",
            DropKind::Synonym => "SYNONYM",
            DropKind::Database => "DATABASE",
            DropKind::Statistics => "STATISTICS",
            DropKind::Default => "DEFAULT",
            DropKind::Rule => "RULE",
            DropKind::Aggregate => "AGGREGATE",
            DropKind::Assembly => "ASSEMBLY",
            DropKind::XmlSchemaCollection => "XML SCHEMA COLLECTION",
            DropKind::PartitionFunction => "PARTITION FUNCTION",
            DropKind::PartitionScheme => "PARTITION SCHEME",
            DropKind::Login => "LOGIN",
            DropKind::User => "USER",
            DropKind::Role => "ROLE",
            DropKind::ServerRole => "SERVER ROLE",
            DropKind::ApplicationRole => "APPLICATION ROLE",
            DropKind::Credential => "CREDENTIAL",
            DropKind::Certificate => "CERTIFICATE",
            DropKind::MasterKey => "MASTER KEY",
            DropKind::SymmetricKey => "SYMMETRIC KEY",
            DropKind::AsymmetricKey => "ASYMMETRIC KEY",
            DropKind::Endpoint => "ENDPOINT",
            DropKind::AvailabilityGroup => "AVAILABILITY GROUP",
        })
    }
}
