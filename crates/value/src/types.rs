//! How types combine: precedence, common types, operator results, and which conversions exist.
//!
//! Theory: of two operands the type of lower precedence is converted to the other, if an implicit conversion exists.
//! Within one family the result is wide enough for both.

use crate::decimal::{self, DecimalOp, PRECISION_MAX};
use crate::{DataType, Len, ValueError};

/// How a value of one type may become another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionKind {
    /// Happens by itself.
    Implicit,
    /// Only by CAST or CONVERT.
    Explicit,
    Disallowed,
}

/// Arithmetic, bitwise and comparison operators with two operands; `+` joins strings too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
}

impl BinaryOp {
    /// The operator's name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            BinaryOp::Add => "add",
            BinaryOp::Subtract => "subtract",
            BinaryOp::Multiply => "multiply",
            BinaryOp::Divide => "divide",
            BinaryOp::Modulo => "modulo",
            BinaryOp::BitAnd => "'&'",
            BinaryOp::BitOr => "'|'",
            BinaryOp::BitXor => "'^'",
        }
    }

    const fn is_bitwise(self) -> bool {
        matches!(self, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor)
    }

    const fn decimal_op(self) -> DecimalOp {
        match self {
            BinaryOp::Subtract => DecimalOp::Subtract,
            BinaryOp::Multiply => DecimalOp::Multiply,
            BinaryOp::Divide => DecimalOp::Divide,
            BinaryOp::Modulo => DecimalOp::Modulo,
            _ => DecimalOp::Add,
        }
    }
}

/// Longest declared length of `varchar` and `varbinary`, and of `nvarchar`.
const BYTES_MAX: u16 = 8000;
const UNITS_MAX: u16 = 4000;

/// Rank of a type: the operand of higher rank decides.
pub const fn precedence(data_type: DataType) -> u8 {
    use DataType::*;
    match data_type {
        HierarchyId | Geography | Geometry => 32,
        Variant => 31,
        Xml => 30,
        DateTimeOffset { .. } => 29,
        DateTime2 { .. } => 28,
        DateTime => 27,
        SmallDateTime => 26,
        Date => 25,
        Time { .. } => 24,
        Float => 23,
        Real => 22,
        Decimal { .. } => 21,
        Money => 20,
        SmallMoney => 19,
        BigInt => 18,
        Int => 17,
        SmallInt => 16,
        TinyInt => 15,
        Bit => 14,
        NText => 13,
        Text => 12,
        Image => 11,
        RowVersion => 10,
        UniqueIdentifier => 9,
        NVarChar(_) => 8,
        NChar(_) => 7,
        VarChar(_) => 6,
        Char(_) => 5,
        VarBinary(_) => 4,
        Binary(_) => 3,
    }
}

/// The type of CASE, COALESCE, UNION and of both sides of a comparison.
pub fn common_type(left: DataType, right: DataType) -> Result<DataType, ValueError> {
    if left == right {
        return Ok(left);
    }
    if let Some(joined) = join_within_family(left, right) {
        return Ok(joined);
    }
    let (low, high) = if precedence(left) < precedence(right) {
        (left, right)
    } else {
        (right, left)
    };
    match conversion_kind(low, high) {
        ConversionKind::Implicit => Ok(high),
        ConversionKind::Explicit => Err(ValueError::implicit_not_allowed(low, high)),
        ConversionKind::Disallowed => Err(ValueError::type_clash(low, high)),
    }
}

/// Common type of any number of types; `None` for no type at all.
pub fn common_type_of(
    types: impl IntoIterator<Item = DataType>,
) -> Result<Option<DataType>, ValueError> {
    types
        .into_iter()
        .try_fold(None, |common, next| match common {
            None => Ok(Some(next)),
            Some(common) => common_type(common, next).map(Some),
        })
}

fn join_within_family(left: DataType, right: DataType) -> Option<DataType> {
    use DataType::*;
    if let (Some(a), Some(b)) = (string_shape(left), string_shape(right))
        && a.binary == b.binary
    {
        let wide = a.wide || b.wide;
        return Some(
            StringShape {
                wide,
                varying: a.varying || b.varying,
                binary: a.binary,
                len: a.len.max(b.len),
            }
            .data_type(),
        );
    }
    Some(match (left, right) {
        (Decimal { .. }, other) | (other, Decimal { .. }) => {
            let (p1, s1) = exact_shape(left)?;
            let (p2, s2) = exact_shape(right)?;
            if !other.is_exact_numeric() {
                return None;
            }
            let integral = (p1 - s1).max(p2 - s2);
            let scale = s1.max(s2).min(PRECISION_MAX - integral);
            Decimal {
                precision: integral + scale,
                scale,
            }
        }
        (Time { scale: a }, Time { scale: b }) => Time { scale: a.max(b) },
        (DateTime2 { scale: a }, DateTime2 { scale: b } | Time { scale: b })
        | (Time { scale: a }, DateTime2 { scale: b }) => DateTime2 { scale: a.max(b) },
        (
            DateTimeOffset { scale: a },
            DateTimeOffset { scale: b } | DateTime2 { scale: b } | Time { scale: b },
        )
        | (DateTime2 { scale: a } | Time { scale: a }, DateTimeOffset { scale: b }) => {
            DateTimeOffset { scale: a.max(b) }
        }
        _ => return None,
    })
}

/// A character or binary type taken apart.
#[derive(Clone, Copy)]
struct StringShape {
    wide: bool,
    varying: bool,
    binary: bool,
    len: Len,
}

fn string_shape(data_type: DataType) -> Option<StringShape> {
    use DataType::*;
    let (wide, varying, binary, len) = match data_type {
        Char(len) => (false, false, false, len),
        VarChar(len) => (false, true, false, len),
        NChar(len) => (true, false, false, len),
        NVarChar(len) => (true, true, false, len),
        Binary(len) => (false, false, true, len),
        VarBinary(len) => (false, true, true, len),
        _ => return None,
    };
    Some(StringShape {
        wide,
        varying,
        binary,
        len,
    })
}

impl StringShape {
    fn data_type(self) -> DataType {
        let limit = if self.wide { UNITS_MAX } else { BYTES_MAX };
        let len = if self.len.is_max() {
            Len::MAX
        } else {
            Len(self.len.0.clamp(1, limit))
        };
        match (self.binary, self.wide, self.varying || len.is_max()) {
            (true, _, true) => DataType::VarBinary(len),
            (true, _, false) => DataType::Binary(len),
            (false, true, true) => DataType::NVarChar(len),
            (false, true, false) => DataType::NChar(len),
            (false, false, true) => DataType::VarChar(len),
            (false, false, false) => DataType::Char(len),
        }
    }
}

/// Precision and scale of an exact number as decimal arithmetic sees it.
pub const fn exact_shape(data_type: DataType) -> Option<(u8, u8)> {
    use DataType::*;
    Some(match data_type {
        Bit => (1, 0),
        TinyInt => (3, 0),
        SmallInt => (5, 0),
        Int => (10, 0),
        BigInt => (19, 0),
        SmallMoney => (10, 4),
        Money => (19, 4),
        Decimal { precision, scale } => (precision, scale),
        _ => return None,
    })
}

/// Type of `left + right` for two strings or two binaries.
pub fn concat_type(left: DataType, right: DataType) -> Option<DataType> {
    let (a, b) = (
        string_shape(unlimited(left))?,
        string_shape(unlimited(right))?,
    );
    if a.binary != b.binary {
        return None;
    }
    let len = if a.len.is_max() || b.len.is_max() {
        Len::MAX
    } else {
        Len(a.len.0.saturating_add(b.len.0).min(BYTES_MAX))
    };
    Some(
        StringShape {
            wide: a.wide || b.wide,
            varying: a.varying || b.varying,
            binary: a.binary,
            len,
        }
        .data_type(),
    )
}

/// The `max` type that stands for an old large type.
pub const fn unlimited(data_type: DataType) -> DataType {
    match data_type {
        DataType::Text => DataType::VARCHAR_MAX,
        DataType::NText | DataType::Xml => DataType::NVARCHAR_MAX,
        DataType::Image => DataType::VARBINARY_MAX,
        DataType::RowVersion => DataType::Binary(Len(8)),
        other => other,
    }
}

/// Result type of an operator, or the error the product gives.
pub fn binary_result_type(
    op: BinaryOp,
    left: DataType,
    right: DataType,
) -> Result<DataType, ValueError> {
    for operand in [left, right] {
        if operand.is_large()
            && !matches!(
                operand,
                DataType::VarChar(_) | DataType::NVarChar(_) | DataType::VarBinary(_)
            )
            || matches!(operand, DataType::Variant | DataType::HierarchyId)
        {
            return Err(match op {
                _ if left == right => ValueError::invalid_operand(operand, op.name()),
                _ => ValueError::incompatible_operands(left, right, op.name()),
            });
        }
    }
    if op.is_bitwise() {
        return bitwise_type(op, left, right);
    }
    if op == BinaryOp::Add
        && let Some(joined) = concat_type(left, right)
    {
        return Ok(joined);
    }
    if left.is_temporal() || right.is_temporal() {
        return temporal_type(op, left, right);
    }
    if !left.is_numeric() && !right.is_numeric() {
        let same_kind = left.name() == right.name();
        return Err(if same_kind {
            ValueError::invalid_operand(left, op.name())
        } else {
            ValueError::incompatible_operands(left, right, op.name())
        });
    }
    if left == DataType::UniqueIdentifier || right == DataType::UniqueIdentifier {
        return Err(ValueError::type_clash(left, right));
    }
    numeric_type(op, left, right)
}

/// The type that an operand must be converted to before `arithmetic::evaluate`: text and bytes beside a number or a
/// date become what the other side is, everything else stays.
pub fn operand_type(operand: DataType, other: DataType, result: DataType) -> DataType {
    let joins =
        concat_type(operand, other).is_some() && !result.is_numeric() && !result.is_temporal();
    if operand.is_numeric() || operand.is_temporal() || joins {
        return operand;
    }
    match other {
        DataType::DateTime | DataType::SmallDateTime => result,
        DataType::Decimal { .. } => other,
        _ => result,
    }
}

fn numeric_type(op: BinaryOp, left: DataType, right: DataType) -> Result<DataType, ValueError> {
    use DataType::*;
    let high = if precedence(left) < precedence(right) {
        right
    } else {
        left
    };
    match high {
        Float | Real if op == BinaryOp::Modulo => {
            Err(ValueError::incompatible_operands(left, right, op.name()))
        }
        Bit => Err(ValueError::invalid_operand(Bit, op.name())),
        Decimal { precision, scale } => {
            // Text beside a decimal is converted to the decimal's own type.
            let shape = |t| exact_shape(t).unwrap_or((precision, scale));
            let (precision, scale) =
                decimal::result_type(op.decimal_op(), shape(left), shape(right));
            Ok(Decimal { precision, scale })
        }
        other => Ok(other),
    }
}

fn bitwise_type(op: BinaryOp, left: DataType, right: DataType) -> Result<DataType, ValueError> {
    let (a, b) = (left.is_integer(), right.is_integer());
    let binary = |t| matches!(t, DataType::Binary(_) | DataType::VarBinary(_));
    let text = |t: DataType| t.is_character();
    match (a, b) {
        (true, true) => Ok(if precedence(left) < precedence(right) {
            right
        } else {
            left
        }),
        (true, false) if binary(right) || text(right) => Ok(left),
        (false, true) if binary(left) || text(left) => Ok(right),
        _ if left.name() == right.name() => Err(ValueError::invalid_operand(left, op.name())),
        _ => Err(ValueError::incompatible_operands(left, right, op.name())),
    }
}

/// Only `datetime` and `smalldatetime` take part in arithmetic: they add as numbers of days.
fn temporal_type(op: BinaryOp, left: DataType, right: DataType) -> Result<DataType, ValueError> {
    use DataType::*;
    let old = |t| matches!(t, DateTime | SmallDateTime);
    let days = |t: DataType| t.is_numeric() || t.is_character() || old(t);
    if !matches!(op, BinaryOp::Add | BinaryOp::Subtract) {
        let operand = if left.is_temporal() { left } else { right };
        let other = if left.is_temporal() { right } else { left };
        return Err(if old(operand) && other.is_numeric() {
            ValueError::implicit_not_allowed(operand, other)
        } else {
            clash(op, left, right)
        });
    }
    match (old(left), old(right)) {
        (true, true) => Ok(if left == SmallDateTime && right == SmallDateTime {
            SmallDateTime
        } else {
            DateTime
        }),
        (true, false) if days(right) => Ok(left),
        (false, true) if days(left) => Ok(right),
        _ => Err(clash(op, left, right)),
    }
}

fn clash(op: BinaryOp, left: DataType, right: DataType) -> ValueError {
    if left.name() == right.name() {
        ValueError::invalid_operand(left, op.name())
    } else if left.is_numeric() {
        ValueError::type_clash(right, left)
    } else if right.is_numeric() {
        ValueError::type_clash(left, right)
    } else {
        ValueError::incompatible_operands(left, right, op.name())
    }
}

/// Types that convert alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Binary,
    Text,
    WideText,
    OldDateTime,
    Date,
    Time,
    NewDateTime,
    Exact,
    Approximate,
    Money,
    RowVersion,
    Guid,
    Image,
    LargeText,
    LargeWideText,
    Variant,
    Xml,
    Opaque,
}

fn family(data_type: DataType) -> Family {
    use DataType::*;
    match data_type {
        Binary(_) | VarBinary(_) => Family::Binary,
        Char(_) | VarChar(_) => Family::Text,
        NChar(_) | NVarChar(_) => Family::WideText,
        DateTime | SmallDateTime => Family::OldDateTime,
        Date => Family::Date,
        Time { .. } => Family::Time,
        DateTime2 { .. } | DateTimeOffset { .. } => Family::NewDateTime,
        Bit | TinyInt | SmallInt | Int | BigInt | Decimal { .. } => Family::Exact,
        Real | Float => Family::Approximate,
        Money | SmallMoney => Family::Money,
        RowVersion => Family::RowVersion,
        UniqueIdentifier => Family::Guid,
        Image => Family::Image,
        Text => Family::LargeText,
        NText => Family::LargeWideText,
        Variant => Family::Variant,
        Xml => Family::Xml,
        HierarchyId | Geography | Geometry => Family::Opaque,
    }
}

/// The conversion chart.
pub fn conversion_kind(from: DataType, to: DataType) -> ConversionKind {
    use ConversionKind::*;
    use Family as F;
    if from.name() == to.name() {
        return Implicit;
    }
    match (family(from), family(to)) {
        (F::Binary, F::Approximate | F::LargeText | F::LargeWideText) => Disallowed,
        (F::Binary, F::Date | F::Time | F::NewDateTime) => Explicit,
        (F::Binary, _) => Implicit,
        (F::Text | F::WideText, F::Binary | F::RowVersion) => Explicit,
        (F::WideText, F::Image) => Disallowed,
        (F::Text | F::WideText, _) => Implicit,
        (
            F::OldDateTime,
            F::Text
            | F::WideText
            | F::OldDateTime
            | F::Date
            | F::Time
            | F::NewDateTime
            | F::Variant,
        ) => Implicit,
        (F::OldDateTime, F::Binary | F::Exact | F::Approximate | F::Money | F::RowVersion) => {
            Explicit
        }
        (F::Date, F::Time) | (F::Time, F::Date) => Disallowed,
        (F::Date | F::Time | F::NewDateTime, F::Binary) => Explicit,
        (
            F::Date | F::Time | F::NewDateTime,
            F::Text
            | F::WideText
            | F::OldDateTime
            | F::Date
            | F::Time
            | F::NewDateTime
            | F::Variant,
        ) => Implicit,
        (F::Money, F::Text | F::WideText) => Explicit,
        (F::Approximate, F::RowVersion) => Disallowed,
        (
            F::Exact | F::Approximate | F::Money,
            F::Binary
            | F::Text
            | F::WideText
            | F::OldDateTime
            | F::Exact
            | F::Approximate
            | F::Money
            | F::RowVersion
            | F::Variant,
        ) => Implicit,
        (F::RowVersion, F::Binary | F::Text | F::OldDateTime | F::Exact | F::Money | F::Image) => {
            Implicit
        }
        (F::Guid, F::Binary | F::Text | F::WideText | F::Variant) => Implicit,
        (F::Image, F::Binary | F::RowVersion) => Implicit,
        (F::LargeText, F::Text | F::WideText | F::LargeWideText | F::Xml) => Implicit,
        (F::LargeWideText, F::Text | F::WideText | F::LargeText | F::Xml) => Implicit,
        (
            F::Variant,
            F::RowVersion | F::Image | F::LargeText | F::LargeWideText | F::Xml | F::Opaque,
        ) => Disallowed,
        (F::Variant, _) => Explicit,
        (F::Xml, F::Binary | F::Text | F::WideText) => Explicit,
        (F::Opaque, F::Binary | F::Text | F::WideText) => Explicit,
        _ => Disallowed,
    }
}

/// May a value of `from` be stored into `to` without CAST? The error is the product's.
pub fn check_implicit(from: DataType, to: DataType) -> Result<(), ValueError> {
    match conversion_kind(from, to) {
        ConversionKind::Implicit => Ok(()),
        ConversionKind::Explicit => Err(ValueError::implicit_not_allowed(from, to)),
        ConversionKind::Disallowed => Err(ValueError::type_clash(from, to)),
    }
}

/// May CAST turn `from` into `to`?
pub fn check_explicit(from: DataType, to: DataType) -> Result<(), ValueError> {
    match conversion_kind(from, to) {
        ConversionKind::Disallowed => Err(ValueError::explicit_not_allowed(from, to)),
        _ => Ok(()),
    }
}

/// May values of the type be compared, sorted and grouped? (`text`, `ntext`, `image`, `xml` may not.)
pub const fn is_comparable(data_type: DataType) -> bool {
    !matches!(
        data_type,
        DataType::Text
            | DataType::NText
            | DataType::Image
            | DataType::Xml
            | DataType::Geography
            | DataType::Geometry
    )
}

/// Type of a comparison's operands, or error 402.
pub fn comparison_type(
    left: DataType,
    right: DataType,
    operator: &str,
) -> Result<DataType, ValueError> {
    let spoils = |t| !is_comparable(t);
    if spoils(left) || spoils(right) {
        return Err(ValueError::incompatible_operands(left, right, operator));
    }
    match (left, right) {
        (DataType::Date, DataType::Time { .. }) | (DataType::Time { .. }, DataType::Date) => {
            Err(ValueError::incompatible_operands(left, right, operator))
        }
        _ => common_type(left, right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::*;

    const fn dec(precision: u8, scale: u8) -> DataType {
        Decimal { precision, scale }
    }

    #[test]
    fn common_types() {
        for (a, b, expected) in [
            (Int, BigInt, BigInt),
            (Int, VarChar(Len(10)), Int),
            (VarChar(Len(10)), NVarChar(Len(5)), NVarChar(Len(10))),
            (Char(Len(3)), Char(Len(5)), Char(Len(5))),
            (Char(Len(3)), VarChar(Len::MAX), VARCHAR_MAX),
            (dec(10, 2), dec(8, 4), dec(12, 4)),
            (dec(5, 2), Int, dec(12, 2)),
            (dec(38, 10), dec(38, 2), dec(38, 2)),
            (Money, dec(5, 2), dec(19, 4)),
            (Float, dec(5, 2), Float),
            (Date, DateTime, DateTime),
            (
                DateTime2 { scale: 3 },
                DateTime2 { scale: 7 },
                DateTime2 { scale: 7 },
            ),
            (VarChar(Len(10)), DateTime, DateTime),
            (Int, DateTime, DateTime),
            (UniqueIdentifier, VarChar(Len(36)), UniqueIdentifier),
            (Bit, Int, Int),
        ] {
            assert_eq!(common_type(a, b), Ok(expected), "{a} {b}");
            assert_eq!(common_type(b, a), Ok(expected), "{b} {a}");
        }
        assert_eq!(
            common_type(Date, Int).map_err(|e| e.to_string()),
            Err("Operand type clash: int is incompatible with date".into())
        );
        assert_eq!(
            common_type(UniqueIdentifier, Int).map_err(|e| e.number()),
            Err(206)
        );
    }

    const VARCHAR_MAX: DataType = DataType::VARCHAR_MAX;

    #[test]
    fn operators() {
        use BinaryOp::*;
        for (op, a, b, expected) in [
            (Add, Int, SmallInt, Int),
            (Add, VarChar(Len(10)), VarChar(Len(5)), VarChar(Len(15))),
            (Add, VarChar(Len(8000)), VarChar(Len(5)), VarChar(Len(8000))),
            (
                Add,
                NVarChar(Len(3000)),
                VarChar(Len(5000)),
                NVarChar(Len(4000)),
            ),
            (Add, VarChar(Len(10)), Int, Int),
            (Add, DateTime, Int, DateTime),
            (Subtract, DateTime, DateTime, DateTime),
            (Multiply, dec(10, 2), Int, dec(21, 2)),
            (Divide, Int, Int, Int),
            (Multiply, Money, Money, Money),
            (Multiply, Money, Int, Money),
            (Multiply, Money, Float, Float),
            (BitAnd, Int, TinyInt, Int),
        ] {
            assert_eq!(binary_result_type(op, a, b), Ok(expected), "{op:?} {a} {b}");
        }
        for (op, a, b, number) in [
            (Subtract, VarChar(Len(1)), VarChar(Len(1)), 8117),
            (Add, Bit, Bit, 8117),
            (Add, Date, Int, 206),
            (Add, DateTime, Date, 402),
            (Add, VarChar(Len(1)), VarBinary(Len(1)), 402),
            (Modulo, Float, Int, 402),
            (Add, Text, VarChar(Len(1)), 402),
            (BitAnd, Float, Int, 402),
        ] {
            assert_eq!(
                binary_result_type(op, a, b).map_err(|e| e.number()),
                Err(number),
                "{op:?} {a} {b}"
            );
        }
    }

    #[test]
    fn operands() {
        for (operand, other, result, expected) in [
            (VarChar(Len(5)), Int, Int, Int),
            (VarChar(Len(5)), dec(5, 2), dec(6, 2), dec(5, 2)),
            (Int, dec(5, 2), dec(13, 2), Int),
            (VarChar(Len(5)), DateTime, DateTime, DateTime),
            (Int, DateTime, DateTime, Int),
            (
                VarChar(Len(5)),
                NVarChar(Len(5)),
                NVarChar(Len(10)),
                VarChar(Len(5)),
            ),
        ] {
            assert_eq!(
                operand_type(operand, other, result),
                expected,
                "{operand} {other}"
            );
        }
    }

    #[test]
    fn chart() {
        use ConversionKind::*;
        for (from, to, kind) in [
            (Int, VarChar(Len(5)), Implicit),
            (VarChar(Len(5)), VarBinary(Len(5)), Explicit),
            (Money, NVarChar(Len(5)), Explicit),
            (DateTime, Int, Explicit),
            (Date, Int, Disallowed),
            (UniqueIdentifier, Int, Disallowed),
            (Variant, Int, Explicit),
            (Int, Variant, Implicit),
            (Float, RowVersion, Disallowed),
        ] {
            assert_eq!(conversion_kind(from, to), kind, "{from} {to}");
        }
        assert_eq!(
            check_implicit(VarChar(Len(5)), VarBinary(Len(5))).map_err(|e| e.to_string()),
            Err("Implicit conversion from data type varchar to varbinary is not allowed. Use the CONVERT function to run this query.".into())
        );
        assert_eq!(check_explicit(Date, Int).map_err(|e| e.number()), Err(529));
    }
}
