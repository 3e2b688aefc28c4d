//! Control flow, declarations, cursors, calls, transactions, SET.

use super::{Clause, Commas, Flag, Quote, switch};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for RaisError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (Some(severity), Some(state)) = (&self.severity, &self.state) else {
            return write!(f, "RAISERROR {} {}", Commas(&self.args), self.message);
        };
        write!(f, "RAISERROR ({}, {severity}, {state}", self.message)?;
        self.args.iter().try_for_each(|arg| write!(f, ", {arg}"))?;
        f.write_str(")")?;
        let flags = [
            ("LOG", self.log),
            ("NOWAIT", self.no_wait),
            ("SETERROR", self.set_error),
        ];
        let words: Vec<&str> = flags
            .into_iter()
            .filter(|(_, set)| *set)
            .map(|(word, _)| word)
            .collect();
        if words.is_empty() {
            Ok(())
        } else {
            write!(f, " WITH {}", words.join(", "))
        }
    }
}

impl Display for WaitFor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            WaitFor::Delay(delay) => write!(f, "WAITFOR DELAY {delay}"),
            WaitFor::Time(time) => write!(f, "WAITFOR TIME {time}"),
            WaitFor::Broker(text) => write!(f, "WAITFOR {text}"),
        }
    }
}

impl Display for Execute {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("EXEC ")?;
        if let Some(status) = &self.status {
            write!(f, "{status} = ")?;
        }
        match &self.target {
            ExecuteTarget::Procedure { name, number } => {
                name.fmt(f)?;
                if let Some(number) = number {
                    write!(f, ";{number}")?;
                }
                self.write_args(f)?;
            }
            ExecuteTarget::Variable(name) => {
                f.write_str(name)?;
                self.write_args(f)?;
            }
            ExecuteTarget::Text { text, as_user, at } => {
                write!(f, "({text}")?;
                self.args.iter().try_for_each(|arg| write!(f, ", {arg}"))?;
                f.write_str(")")?;
                if let Some(principal) = as_user {
                    write!(
                        f,
                        " AS {} = {}",
                        if principal.login { "LOGIN" } else { "USER" },
                        principal.name
                    )?;
                }
                write!(f, "{}", Clause("AT", at))?;
            }
        }
        self.write_options(f)
    }
}

impl Execute {
    fn write_args(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.args.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", Commas(&self.args))
        }
    }

    fn write_options(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.recompile, &self.result_sets) {
            (false, None) => Ok(()),
            (true, None) => f.write_str(" WITH RECOMPILE"),
            (false, Some(sets)) => write!(f, " WITH RESULT SETS {sets}"),
            (true, Some(sets)) => write!(f, " WITH RECOMPILE, RESULT SETS {sets}"),
        }
    }
}

impl Display for ExecuteArg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name} = ")?;
        }
        write!(f, "{}{}", self.value, Flag("OUTPUT", self.output))
    }
}

impl Display for ResultSets {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ResultSets::Undefined => f.write_str("UNDEFINED"),
            ResultSets::None => f.write_str("NONE"),
            ResultSets::Defined(sets) => write!(f, "({})", Commas(sets)),
        }
    }
}

impl Display for ResultSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ResultSet::Columns(columns) => write!(f, "({})", Commas(columns)),
            ResultSet::AsObject(name) => write!(f, "AS OBJECT {name}"),
            ResultSet::AsType(name) => write!(f, "AS TYPE {name}"),
            ResultSet::AsForXml => f.write_str("AS FOR XML"),
        }
    }
}

impl Display for ResultColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}{}",
            self.name,
            self.data_type,
            Clause("COLLATE", &self.collation)
        )?;
        f.write_str(super::table::nullability(self.nullable))
    }
}

impl Display for Declaration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            DeclarationKind::Scalar { data_type, value } => {
                write!(f, "{} {data_type}{}", self.name, Clause("=", value))
            }
            DeclarationKind::Cursor => write!(f, "{} CURSOR", self.name),
            DeclarationKind::Table(definition) => write!(f, "{} TABLE {definition}", self.name),
        }
    }
}

impl Display for DeclareCursor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DECLARE {}{} CURSOR{}",
            self.name,
            Flag("INSENSITIVE", self.insensitive),
            self.definition
        )
    }
}

impl Display for CursorDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scope {
            Some(CursorScope::Local) => " LOCAL",
            Some(CursorScope::Global) => " GLOBAL",
            None => "",
        })?;
        f.write_str(match self.scroll {
            Some(CursorScroll::ForwardOnly) => " FORWARD_ONLY",
            Some(CursorScroll::Scroll) => " SCROLL",
            None => "",
        })?;
        f.write_str(match self.kind {
            Some(CursorKind::Static) => " STATIC",
            Some(CursorKind::Keyset) => " KEYSET",
            Some(CursorKind::Dynamic) => " DYNAMIC",
            Some(CursorKind::FastForward) => " FAST_FORWARD",
            None => "",
        })?;
        f.write_str(match self.concurrency {
            Some(CursorConcurrency::ReadOnly) => " READ_ONLY",
            Some(CursorConcurrency::ScrollLocks) => " SCROLL_LOCKS",
            Some(CursorConcurrency::Optimistic) => " OPTIMISTIC",
            None => "",
        })?;
        write!(
            f,
            "{} FOR {}",
            Flag("TYPE_WARNING", self.type_warning),
            self.query
        )?;
        match &self.update {
            Some(CursorUpdate::ReadOnly) => f.write_str(" FOR READ ONLY"),
            Some(CursorUpdate::Update(columns)) if columns.is_empty() => f.write_str(" FOR UPDATE"),
            Some(CursorUpdate::Update(columns)) => write!(f, " FOR UPDATE OF {}", Commas(columns)),
            None => Ok(()),
        }
    }
}

impl Display for Fetch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.direction {
            FetchDirection::Next => f.write_str("FETCH NEXT")?,
            FetchDirection::Prior => f.write_str("FETCH PRIOR")?,
            FetchDirection::First => f.write_str("FETCH FIRST")?,
            FetchDirection::Last => f.write_str("FETCH LAST")?,
            FetchDirection::Absolute(row) => write!(f, "FETCH ABSOLUTE {row}")?,
            FetchDirection::Relative(rows) => write!(f, "FETCH RELATIVE {rows}")?,
        }
        write!(f, " FROM {}", self.cursor)?;
        if self.into.is_empty() {
            Ok(())
        } else {
            write!(f, " INTO {}", self.into.join(", "))
        }
    }
}

impl Display for SetStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SetStatement::Variable {
                name, op, value, ..
            } => write!(f, "SET {name} {op} {value}"),
            SetStatement::Cursor { name, definition } => {
                write!(f, "SET {name} = CURSOR{definition}")
            }
            SetStatement::Method { name, method, args } => {
                write!(f, "SET {name}.{method}({})", Commas(args))
            }
            SetStatement::Property {
                name,
                property,
                value,
            } => write!(f, "SET {name}.{property} = {value}"),
            SetStatement::Switch { options, on } => {
                write!(f, "SET {} {}", options.join(", "), switch(*on))
            }
            SetStatement::Statistics { options, on } => {
                write!(f, "SET STATISTICS {} {}", options.join(", "), switch(*on))
            }
            SetStatement::Value { option, value } => write!(f, "SET {option} {value}"),
            SetStatement::TransactionIsolation(level) => {
                write!(f, "SET TRANSACTION ISOLATION LEVEL {level}")
            }
            SetStatement::IdentityInsert { table, on } => {
                write!(f, "SET IDENTITY_INSERT {table} {}", switch(*on))
            }
            SetStatement::Offsets { keywords, on } => {
                write!(f, "SET OFFSETS {} {}", keywords.join(", "), switch(*on))
            }
        }
    }
}

impl Display for SetValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SetValue::Expr(expr) => expr.fmt(f),
            SetValue::Word(word) => word.fmt(f),
        }
    }
}

impl Display for IsolationLevel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IsolationLevel::ReadUncommitted => "READ UNCOMMITTED",
            IsolationLevel::ReadCommitted => "READ COMMITTED",
            IsolationLevel::RepeatableRead => "REPEATABLE READ",
            IsolationLevel::Snapshot => "SNAPSHOT",
            IsolationLevel::Serializable => "SERIALIZABLE",
        })
    }
}

impl Display for BeginTransaction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.distributed {
            "BEGIN DISTRIBUTED TRANSACTION"
        } else {
            "BEGIN TRANSACTION"
        })?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.mark {
            Some(mark) if mark.is_empty() => f.write_str(" WITH MARK"),
            Some(mark) => write!(f, " WITH MARK {}", Quote(mark)),
            None => Ok(()),
        }
    }
}

impl Display for Commit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("COMMIT TRANSACTION")?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match self.delayed_durability {
            Some(on) => write!(f, " WITH (DELAYED_DURABILITY = {})", switch(on)),
            None => Ok(()),
        }
    }
}

impl Display for ExecuteAs {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "EXECUTE AS {}{}",
            self.context,
            Flag("WITH NO REVERT", self.no_revert)
        )?;
        write!(f, "{}", Clause("WITH COOKIE INTO", &self.cookie))
    }
}

impl Display for ExecuteContext {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ExecuteContext::Caller => f.write_str("CALLER"),
            ExecuteContext::SelfUser => f.write_str("SELF"),
            ExecuteContext::Owner => f.write_str("OWNER"),
            ExecuteContext::Login(name) => write!(f, "LOGIN = {name}"),
            ExecuteContext::User(name) => write!(f, "USER = {name}"),
            ExecuteContext::Name(name) => write!(f, "{}", Quote(name)),
        }
    }
}
