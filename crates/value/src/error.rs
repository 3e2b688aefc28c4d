//! Errors of the type system, each with SQL Server's number, level, state and exact text.
//!
//! Theory: an error keeps its arguments apart from its template, so that callers can add what only they know (a column
//! name, a line) or test for a number; `Display` joins both as the product does.

use crate::{DataType, LARGE_BYTES_MAX};
use compact_str::{CompactString, ToCompactString};
use std::fmt;

/// A failed conversion, computation or check on values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    number: i32,
    level: u8,
    state: u8,
    args: Vec<CompactString>,
}

impl std::error::Error for ValueError {}

/// Longest text shown inside a message; the product cuts there too.
const ARGUMENT_CHARS_MAX: usize = 128;

/// Message text by number; `{}` takes the arguments in order.
const TEMPLATES: &[(i32, &str)] = &[
    (155, "'{}' is not a recognized {} option."),
    (174, "The {} function requires {} argument(s)."),
    (189, "The {} function requires {} to {} arguments."),
    (195, "'{}' is not a recognized built-in function name."),
    (206, "Operand type clash: {} is incompatible with {}"),
    (
        220,
        "Arithmetic overflow error for data type {}, value = {}.",
    ),
    (232, "Arithmetic overflow error for type {}, value = {}."),
    (
        234,
        "There is insufficient result space to convert a money value to {}.",
    ),
    (
        235,
        "Cannot convert a char value to money. The char value has incorrect syntax.",
    ),
    (
        236,
        "The conversion from char data type to money resulted in a money overflow error.",
    ),
    (
        241,
        "Conversion failed when converting date and/or time from character string.",
    ),
    (
        242,
        "The conversion of a {} data type to a {} data type resulted in an out-of-range value.",
    ),
    (
        244,
        "The conversion of the {} value '{}' overflowed an {} column. Use a larger integer column.",
    ),
    (
        245,
        "Conversion failed when converting the {} value '{}' to data type {}.",
    ),
    (
        248,
        "The conversion of the {} value '{}' overflowed an int column.",
    ),
    (
        256,
        "The data type {} is invalid for the {} function. Allowed types are: char/varchar, nchar/nvarchar, and binary/varbinary.",
    ),
    (
        257,
        "Implicit conversion from data type {} to {} is not allowed. Use the CONVERT function to run this query.",
    ),
    (258, "Cannot call methods on {}."),
    (
        281,
        "{} is not a valid style number when converting from {} to a character string.",
    ),
    (
        289,
        "Cannot construct data type {}, some of the arguments have values which are not valid.",
    ),
    (
        291,
        "CAST or CONVERT: invalid attributes specified for type '{}'",
    ),
    (
        292,
        "There is insufficient result space to convert a smallmoney value to {}.",
    ),
    (
        293,
        "Cannot convert char value to smallmoney. The char value has incorrect syntax.",
    ),
    (
        294,
        "The conversion from char data type to smallmoney data type resulted in a smallmoney overflow error.",
    ),
    (
        295,
        "Conversion failed when converting character string to smalldatetime data type.",
    ),
    (
        296,
        "The conversion of {} data type to smalldatetime data type resulted in an out-of-range smalldatetime value.",
    ),
    (
        298,
        "The conversion from datetime data type to smalldatetime data type resulted in a smalldatetime overflow error.",
    ),
    (
        402,
        "The data types {} and {} are incompatible in the {} operator.",
    ),
    (
        403,
        "Invalid operator for data type. Operator equals {}, type equals {}.",
    ),
    (
        506,
        "The invalid escape character \"{}\" was specified in a LIKE predicate.",
    ),
    (517, "Adding a value to a '{}' column caused an overflow."),
    (
        529,
        "Explicit conversion from data type {} to {} is not allowed.",
    ),
    (
        535,
        "The {} function resulted in an overflow. The number of dateparts separating two date/time instances is too large. Try to use {} with a less precise datepart.",
    ),
    (536, "Invalid length parameter passed to the {} function."),
    (
        537,
        "Invalid length parameter passed to the LEFT or SUBSTRING function.",
    ),
    (
        701,
        "There is insufficient system memory in resource pool 'default' to run this query.",
    ),
    (1023, "Invalid parameter {} specified for {}."),
    (
        2628,
        "String or binary data would be truncated in table '{}', column '{}'. Truncated value: '{}'.",
    ),
    (
        2717,
        "The size ({}) given to the {} exceeds the maximum allowed ({}).",
    ),
    (3623, "An invalid floating point operation occurred."),
    (
        4127,
        "At least one of the arguments to COALESCE must be an expression that is not the NULL constant.",
    ),
    (
        4151,
        "The type of the first argument to NULLIF cannot be the NULL constant because the type of the first argument has to be known.",
    ),
    (
        5302,
        "Mutator '{}' on '{}' cannot be called on a null value.",
    ),
    (
        6335,
        "XML datatype instance has too many levels of nested nodes. Maximum allowed depth is {} levels.",
    ),
    (
        6359,
        "Parsing XML with internal subset DTDs not allowed. Use CONVERT with style option 2 to enable limited internal subset DTD support.",
    ),
    (
        6522,
        "A .NET Framework error occurred during execution of user-defined routine or aggregate \"{}\": {}",
    ),
    (
        6805,
        "FOR XML EXPLICIT stack overflow occurred. Circular parent tag relationships are not allowed.",
    ),
    (
        6806,
        "Undeclared tag ID {} is used in a FOR XML EXPLICIT query.",
    ),
    (
        6833,
        "Parent tag ID {} is not among the open tags. FOR XML EXPLICIT requires parent tags to be opened first. Check the ordering of the result set.",
    ),
    (
        6841,
        "FOR XML could not serialize the data for node '{}' because it contains a character ({}) which is not allowed in XML. To retrieve this data using FOR XML, convert it to binary, varbinary or image data type and use the BINARY BASE64 directive.",
    ),
    (7116, "Offset {} is not in the range of available LOB data."),
    (
        7119,
        "Attempting to grow LOB beyond maximum allowed size of {} bytes.",
    ),
    (
        7135,
        "Deletion length {} is not in the range of available text, ntext, or image data.",
    ),
    (8114, "Error converting data type {} to {}."),
    (
        8115,
        "Arithmetic overflow error converting {} to data type {}.",
    ),
    (
        8116,
        "Argument data type {} is invalid for argument {} of {} function.",
    ),
    (8117, "Operand data type {} is invalid for {} operator."),
    (
        8133,
        "At least one of the result expressions in a CASE specification must be an expression other than the NULL constant.",
    ),
    (8134, "Divide by zero error encountered."),
    (8152, "String or binary data would be truncated."),
    (
        8169,
        "Conversion failed when converting from a character string to uniqueidentifier.",
    ),
    (
        8170,
        "Insufficient result space to convert uniqueidentifier value to char.",
    ),
    (
        9400,
        "XML parsing: line {}, character {}, unexpected end of input",
    ),
    (
        9402,
        "XML parsing: line {}, character {}, unable to switch the encoding",
    ),
    (
        9410,
        "XML parsing: line {}, character {}, whitespace expected",
    ),
    (
        9411,
        "XML parsing: line {}, character {}, semicolon expected",
    ),
    (9412, "XML parsing: line {}, character {}, '>' expected"),
    (
        9413,
        "XML parsing: line {}, character {}, A string literal was expected",
    ),
    (9414, "XML parsing: line {}, character {}, equal expected"),
    (
        9415,
        "XML parsing: line {}, character {}, well formed check: no '<' in attribute value",
    ),
    (
        9416,
        "XML parsing: line {}, character {}, hexadecimal digit expected",
    ),
    (
        9417,
        "XML parsing: line {}, character {}, decimal digit expected",
    ),
    (
        9420,
        "XML parsing: line {}, character {}, illegal xml character",
    ),
    (
        9421,
        "XML parsing: line {}, character {}, illegal name character",
    ),
    (
        9422,
        "XML parsing: line {}, character {}, incorrect document syntax",
    ),
    (
        9424,
        "XML parsing: line {}, character {}, incorrect comment syntax",
    ),
    (
        9426,
        "XML parsing: line {}, character {}, incorrect ATTLIST declaration syntax",
    ),
    (
        9427,
        "XML parsing: line {}, character {}, incorrect DOCTYPE declaration syntax",
    ),
    (
        9428,
        "XML parsing: line {}, character {}, incorrect ELEMENT declaration syntax",
    ),
    (
        9429,
        "XML parsing: line {}, character {}, incorrect ENTITY declaration syntax",
    ),
    (
        9436,
        "XML parsing: line {}, character {}, end tag does not match start tag",
    ),
    (
        9437,
        "XML parsing: line {}, character {}, duplicate attribute",
    ),
    (
        9438,
        "XML parsing: line {}, character {}, text/xmldecl not at the beginning of input",
    ),
    (
        9441,
        "XML parsing: line {}, character {}, incorrect xml declaration syntax",
    ),
    (
        9444,
        "XML parsing: line {}, character {}, well formed check: pes in internal subset",
    ),
    (
        9446,
        "XML parsing: line {}, character {}, well formed check: no recursion",
    ),
    (
        9447,
        "XML parsing: line {}, character {}, entity content not well formed",
    ),
    (
        9448,
        "XML parsing: line {}, character {}, well formed check: undeclared entity",
    ),
    (
        9450,
        "XML parsing: line {}, character {}, well formed check: no external entity references",
    ),
    (
        9455,
        "XML parsing: line {}, character {}, illegal qualified name character",
    ),
    (
        9456,
        "XML parsing: line {}, character {}, multiple colons in qualified name",
    ),
    (
        9459,
        "XML parsing: line {}, character {}, undeclared prefix",
    ),
    (
        9807,
        "The input character string does not follow style {}, either change the input character string or use a different style.",
    ),
    (
        9809,
        "The style {} is not supported for conversions from {} to {}.",
    ),
    (
        9810,
        "The datepart {} is not supported by date function {} for data type {}.",
    ),
    (
        9812,
        "The timezone provided to builtin function {} is invalid.",
    ),
    (
        9813,
        "The timezone provided to builtin function {} would cause the datetimeoffset to overflow the range of valid date range in either UTC or local time.",
    ),
    (
        9818,
        "The culture parameter '{}' provided in the function call is not supported.",
    ),
    (
        9828,
        "The second and third arguments of the TRANSLATE built-in function must contain an equal number of characters.",
    ),
    (
        9834,
        "Invalid bucket width value passed to {} function. Only positive values are allowed.",
    ),
    (
        13607,
        "JSON path is not properly formatted. Unexpected character '{}' is found at position {}.",
    ),
    (
        13608,
        "Property cannot be found on the specified JSON path.",
    ),
    (
        13609,
        "JSON text is not properly formatted. Unexpected character '{}' is found at position {}.",
    ),
    (
        13611,
        "Value referenced by JSON path is not an array or object and cannot be opened with OPENJSON.",
    ),
    (13619, "Unsupported JSON path found in argument {} of {}."),
    (
        13623,
        "Scalar value cannot be found in the specified JSON path.",
    ),
    (
        13624,
        "Object or array cannot be found in the specified JSON path.",
    ),
    (
        13625,
        "String value in the specified JSON path would be truncated.",
    ),
    (
        40517,
        "Keyword or statement option '{}' is not supported in this version of SQL Server.",
    ),
];

impl ValueError {
    /// Level 16, as every error here.
    pub fn new(number: i32, state: u8, args: &[&dyn fmt::Display]) -> ValueError {
        let args = args
            .iter()
            .map(|a| shorten(&a.to_compact_string()))
            .collect();
        ValueError {
            number,
            level: 16,
            state,
            args,
        }
    }

    /// Number of the message.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Severity of the message.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// State of the message.
    pub fn state(&self) -> u8 {
        self.state
    }

    /// What is put into the message's text.
    pub fn args(&self) -> &[CompactString] {
        &self.args
    }

    /// 258: the type has no methods.
    pub fn no_methods(data_type: DataType) -> ValueError {
        ValueError {
            level: 15,
            ..ValueError::new(258, 1, &[&data_type.name()])
        }
    }

    /// 206: the two types can never meet.
    pub fn type_clash(from: DataType, to: DataType) -> ValueError {
        ValueError::new(206, 2, &[&from.name(), &to.name()])
    }

    /// 257: only CAST or CONVERT may do this.
    pub fn implicit_not_allowed(from: DataType, to: DataType) -> ValueError {
        ValueError::new(257, 3, &[&from.name(), &to.name()])
    }

    /// 529: not even CAST may do this.
    pub fn explicit_not_allowed(from: DataType, to: DataType) -> ValueError {
        ValueError::new(529, 2, &[&from.name(), &to.name()])
    }

    /// 8115 with both type names.
    pub fn overflow(from: &str, to: DataType) -> ValueError {
        let state = if matches!(to, DataType::Decimal { .. }) {
            8
        } else {
            2
        };
        ValueError::new(8115, state, &[&from, &to.error_name()])
    }

    /// 8115 as computed expressions report it.
    pub fn expression_overflow(to: DataType) -> ValueError {
        ValueError::new(8115, 2, &[&"expression", &to.error_name()])
    }

    /// 8114.
    pub fn conversion(from: DataType, to: DataType) -> ValueError {
        ValueError::new(8114, 5, &[&from.error_name(), &to.error_name()])
    }

    /// 245: text that is no number.
    pub fn bad_text(from: DataType, text: &str, to: DataType) -> ValueError {
        ValueError::new(245, 1, &[&from.name(), &text, &to.name()])
    }

    /// 241: text that is no date or time.
    pub fn bad_datetime_text() -> ValueError {
        ValueError::new(241, 1, &[])
    }

    /// 242: a date that the target cannot hold.
    pub fn datetime_out_of_range(from: DataType, to: DataType) -> ValueError {
        ValueError::new(242, 3, &[&from.name(), &to.name()])
    }

    /// 8134.
    pub fn divide_by_zero() -> ValueError {
        ValueError::new(8134, 1, &[])
    }

    /// 3623.
    pub fn invalid_float() -> ValueError {
        ValueError::new(3623, 1, &[])
    }

    /// 402: no such operator between these types.
    pub fn incompatible_operands(left: DataType, right: DataType, operator: &str) -> ValueError {
        ValueError::new(402, 1, &[&left.name(), &right.name(), &operator])
    }

    /// 8117: this operator does not take the type.
    pub fn invalid_operand(data_type: DataType, operator: &str) -> ValueError {
        ValueError::new(8117, 1, &[&data_type.name(), &operator])
    }

    /// 8116: this function does not take the type at that place.
    pub fn invalid_argument(data_type: DataType, position: usize, function: &str) -> ValueError {
        ValueError::new(
            8116,
            1,
            &[&data_type.name(), &position, &function.to_ascii_lowercase()],
        )
    }

    /// 7119: an expression builds more than a large value may hold.
    pub fn too_large() -> ValueError {
        ValueError::new(7119, 1, &[&LARGE_BYTES_MAX])
    }

    /// 701: the server has no memory for what an expression builds.
    pub fn no_memory() -> ValueError {
        ValueError::new(701, 123, &[])
    }

    /// 8152: the value does not fit and nobody knows the column.
    pub fn truncated() -> ValueError {
        ValueError::new(8152, 14, &[])
    }

    /// 2628: the value does not fit the named column.
    pub fn truncated_column(table: &str, column: &str, value: &str) -> ValueError {
        ValueError::new(2628, 1, &[&table, &column, &value])
    }

    /// Is this one of the errors that `TRY_CAST`, `TRY_CONVERT` and `TRY_PARSE` turn into NULL?
    pub fn is_try_null(&self) -> bool {
        !matches!(self.number, 206 | 257 | 529 | 701 | 8116 | 281 | 291)
    }
}

fn shorten(text: &str) -> CompactString {
    match text.char_indices().nth(ARGUMENT_CHARS_MAX) {
        Some((end, _)) => CompactString::new(text.get(..end).unwrap_or_default()),
        None => CompactString::new(text),
    }
}

fn template(number: i32) -> &'static str {
    TEMPLATES
        .iter()
        .find(|(n, _)| *n == number)
        .map_or("Error {}.", |(_, t)| *t)
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut args = self.args.iter();
        let mut pieces = template(self.number).split("{}");
        if let Some(first) = pieces.next() {
            f.write_str(first)?;
        }
        for piece in pieces {
            match args.next() {
                Some(arg) => f.write_str(arg)?,
                None => write!(f, "{}", self.number)?,
            }
            f.write_str(piece)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_products() {
        let e = ValueError::bad_text(DataType::VarChar(crate::Len(5)), "abc", DataType::Int);
        assert_eq!(
            e.to_string(),
            "Conversion failed when converting the varchar value 'abc' to data type int."
        );
        assert_eq!((e.number(), e.level(), e.state()), (245, 16, 1));
        let e = ValueError::overflow(
            "varchar",
            DataType::Decimal {
                precision: 5,
                scale: 2,
            },
        );
        assert_eq!(
            e.to_string(),
            "Arithmetic overflow error converting varchar to data type numeric."
        );
        assert_eq!(
            ValueError::divide_by_zero().to_string(),
            "Divide by zero error encountered."
        );
    }

    #[test]
    fn templates_are_unique_and_sorted() {
        assert!(TEMPLATES.windows(2).all(|w| w[0].0 < w[1].0));
    }
}
