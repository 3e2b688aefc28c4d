//! Extended properties: named values that users attach to definitions.
//!
//! Theory: one row holds all properties of one thing, columns and other parts included, so that they go with it in one
//! step. A value is kept as text with the type it had.

use serde::{Deserialize, Serialize};

use daruma_value::DataType;

/// Class of a thing that has properties, as `sys.extended_properties.class` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PropertyClass {
    Database,
    /// Minor id: the column, or 0.
    Object,
    /// Major id: the module.
    Parameter,
    Schema,
    Principal,
    Type,
    /// Major id: the table.
    Index,
    Filegroup,
    File,
}

impl PropertyClass {
    /// Classes whose major id is an object.
    pub const OF_OBJECT: [PropertyClass; 3] = [
        PropertyClass::Object,
        PropertyClass::Parameter,
        PropertyClass::Index,
    ];

    /// `sys.extended_properties.class`.
    pub const fn number(self) -> u8 {
        match self {
            PropertyClass::Database => 0,
            PropertyClass::Object => 1,
            PropertyClass::Parameter => 2,
            PropertyClass::Schema => 3,
            PropertyClass::Principal => 4,
            PropertyClass::Type => 6,
            PropertyClass::Index => 7,
            PropertyClass::Filegroup => 20,
            PropertyClass::File => 22,
        }
    }

    /// `sys.extended_properties.class_desc`.
    pub const fn description(self) -> &'static str {
        match self {
            PropertyClass::Database => "DATABASE",
            PropertyClass::Object => "OBJECT_OR_COLUMN",
            PropertyClass::Parameter => "PARAMETER",
            PropertyClass::Schema => "SCHEMA",
            PropertyClass::Principal => "DATABASE_PRINCIPAL",
            PropertyClass::Type => "TYPE",
            PropertyClass::Index => "INDEX",
            PropertyClass::Filegroup => "DATASPACE",
            PropertyClass::File => "DATABASE_FILE",
        }
    }
}

/// Properties of one thing and its parts. An empty list takes the row away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PropertySet {
    pub class: PropertyClass,
    pub major: i32,
    pub list: Vec<PropertyDef>,
}

/// An extended property of something in the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PropertyDef {
    pub minor: i32,
    pub name: String,
    /// `None` is NULL.
    pub value: Option<PropertyValue>,
}

/// The value of an extended property: its type and its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PropertyValue {
    pub data_type: DataType,
    pub text: String,
}
