//! Which expressions always give the same value for the same row, whoever asks and whenever: those alone may be kept in
//! an index or in the row.
//!
//! Source of the rules: the product's documentation, "Deterministic and nondeterministic functions".

use super::tree::*;
use daruma_value::temporal::DatePart;
use daruma_value::{DataType, Value, functions};

/// Functions of the value room whose results depend on language, DATEFORMAT or the build.
const SETTING_DEPENDENT: &[&str] = &["DATENAME", "FORMAT", "ISDATE", "PARSE", "TRY_PARSE"];

impl Scalar {
    /// Does it give the same value for the same row, always? Variables and subqueries never count as
    /// such.
    pub fn is_deterministic(&self) -> bool {
        !self.any(&|s| match &s.kind {
            Kind::UserFunction { function, .. } => {
                !function.def().is_some_and(|def| def.is_deterministic)
            }
            Kind::System { .. } | Kind::NextValue(_) | Kind::Variable(_) | Kind::Subquery(_) => {
                true
            }
            Kind::Call { name, args } => call_varies(name, args),
            // Texts that are dates by SET DATEFORMAT alone.
            Kind::XmlMethod { call, .. } => call.to.is_temporal(),
            Kind::Convert { input, style, .. } => {
                conversion_varies(input.ty.data_type, s.ty.data_type, style.as_deref())
            }
            _ => false,
        })
    }
}

fn call_varies(name: &str, args: &[Scalar]) -> bool {
    let part = match args.first().map(|a| &a.kind) {
        Some(Kind::Const(Value::Str(part))) if name == "DATEPART" => DatePart::parse(part),
        _ => None,
    };
    SETTING_DEPENDENT.contains(&name)
        || functions::lookup(name).is_none_or(|f| !f.is_deterministic)
        // They count from SET DATEFIRST.
        || matches!(part, Some(DatePart::Week | DatePart::WeekDay))
}

/// Between text and dates the style decides; without one the language and SET DATEFORMAT do.
fn conversion_varies(from: DataType, to: DataType, style: Option<&Scalar>) -> bool {
    let crosses = from.is_character() && is_temporal(to) || is_temporal(from) && to.is_character();
    let from_variant = from == DataType::Variant && to != DataType::Variant;
    crosses && !style.is_some_and(is_fixed_style) || from_variant
}

fn is_fixed_style(style: &Scalar) -> bool {
    let number = match &style.kind {
        Kind::Const(Value::Int(n)) => *n,
        _ => return false,
    };
    match number {
        20 | 21 => true,
        106 | 107 | 109 | 113 => false,
        _ => number > 100,
    }
}

fn is_temporal(data_type: DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Date | Time { .. } | DateTime | SmallDateTime | DateTime2 { .. } | DateTimeOffset { .. }
    )
}
