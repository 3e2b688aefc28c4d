//! Identifiers, object names and type names, as written.

use super::Span;

/// An identifier. `quoted` tells `[order]` or `"order"` from `order`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ident {
    pub text: String,
    pub quoted: bool,
}

impl Ident {
    /// A name that was written without quotes.
    pub fn new(text: impl Into<String>) -> Ident {
        Ident {
            text: text.into(),
            quoted: false,
        }
    }

    /// ASCII case-insensitive comparison, for keywords and built-in names. Catalog names need the collation instead.
    pub fn is(&self, text: &str) -> bool {
        self.text.eq_ignore_ascii_case(text)
    }
}

/// `server.database.schema.name`; left parts may be missing, also in the middle (`tempdb..t`).
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectName {
    pub server: Option<Ident>,
    pub database: Option<Ident>,
    pub schema: Option<Ident>,
    pub name: Ident,
    pub span: Span,
}

impl ObjectName {
    /// A name of one part.
    pub fn bare(name: Ident) -> ObjectName {
        ObjectName {
            server: None,
            database: None,
            schema: None,
            name,
            span: Span::default(),
        }
    }

    /// Has it one part only?
    pub fn is_bare(&self) -> bool {
        self.server.is_none() && self.database.is_none() && self.schema.is_none()
    }

    /// `#name` or `##name`.
    pub fn is_temporary(&self) -> bool {
        self.name.text.starts_with('#')
    }

    /// The name joined by dots without quotes, as messages show it. Inner missing parts stay empty: `db..t`.
    pub fn dotted(&self) -> String {
        let parts = [&self.server, &self.database, &self.schema];
        let mut text = String::new();
        for part in parts.into_iter().skip_while(|part| part.is_none()) {
            if let Some(part) = part {
                text.push_str(&part.text);
            }
            text.push('.');
        }
        text.push_str(&self.name.text);
        text
    }
}

/// A data type, unresolved: it may be built in, an alias type or a table type. Types of several words arrive under their
/// short name (`double precision` as `float`, `national char varying` as `nvarchar`).
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    pub database: Option<Ident>,
    pub schema: Option<Ident>,
    pub name: Ident,
    pub args: Vec<TypeArg>,
    pub span: Span,
}

impl TypeName {
    /// A type of one part, without arguments.
    pub fn bare(name: &str) -> TypeName {
        TypeName {
            database: None,
            schema: None,
            name: Ident::new(name),
            args: Vec::new(),
            span: Span::default(),
        }
    }
}

/// An argument of a type, such as a length.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeArg {
    Number(u32),
    Max,
    /// `xml(CONTENT dbo.collection)`, `xml(DOCUMENT c)` or `xml(c)`.
    XmlSchema {
        facet: Option<XmlFacet>,
        collection: ObjectName,
    },
}

/// `CONTENT` or `DOCUMENT` of a typed xml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlFacet {
    Content,
    Document,
}
