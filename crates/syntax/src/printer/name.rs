//! Identifiers, names and types.

use super::{Commas, Parens};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for Ident {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.quoted {
            write!(f, "[{}]", self.text.replace(']', "]]"))
        } else {
            f.write_str(&self.text)
        }
    }
}

impl Display for ObjectName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let parts = [&self.server, &self.database, &self.schema];
        for part in parts.into_iter().skip_while(|part| part.is_none()) {
            if let Some(part) = part {
                part.fmt(f)?;
            }
            f.write_str(".")?;
        }
        self.name.fmt(f)
    }
}

impl Display for ColumnRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(table) = &self.table {
            write!(f, "{table}.")?;
        }
        self.name.fmt(f)
    }
}

impl Display for TypeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(database) = &self.database {
            write!(f, "{database}.")?;
        }
        if self.database.is_some() || self.schema.is_some() {
            if let Some(schema) = &self.schema {
                schema.fmt(f)?;
            }
            f.write_str(".")?;
        }
        self.name.fmt(f)?;
        if self.args.is_empty() {
            Ok(())
        } else {
            write!(f, "({})", Commas(&self.args))
        }
    }
}

impl Display for TypeArg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TypeArg::Number(number) => number.fmt(f),
            TypeArg::Max => f.write_str("max"),
            TypeArg::XmlSchema {
                facet: None,
                collection,
            } => collection.fmt(f),
            TypeArg::XmlSchema {
                facet: Some(XmlFacet::Content),
                collection,
            } => write!(f, "CONTENT {collection}"),
            TypeArg::XmlSchema {
                facet: Some(XmlFacet::Document),
                collection,
            } => write!(f, "DOCUMENT {collection}"),
        }
    }
}

impl Display for CursorRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            CursorRef::Name { name, global: true } => write!(f, "GLOBAL {name}"),
            CursorRef::Name {
                name,
                global: false,
            } => name.fmt(f),
            CursorRef::Variable(name) => f.write_str(name),
        }
    }
}

impl Display for NameOrVariable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            NameOrVariable::Name(name) => name.fmt(f),
            NameOrVariable::Variable(name) => f.write_str(name),
        }
    }
}

impl Display for TransactionName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TransactionName::Name(name) => name.fmt(f),
            TransactionName::Variable(name) => f.write_str(name),
        }
    }
}

impl Display for Securable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(class) = &self.class {
            write!(f, "{class}::")?;
        }
        write!(f, "{}{}", self.name, Parens(&self.columns))
    }
}

impl Display for TriggerScope {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TriggerScope::Object(name) => name.fmt(f),
            TriggerScope::Database => f.write_str("DATABASE"),
            TriggerScope::AllServer => f.write_str("ALL SERVER"),
        }
    }
}
