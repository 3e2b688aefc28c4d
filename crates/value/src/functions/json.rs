//! JSON functions, and the rows of FOR JSON.
//!
//! Theory: what is JSON already must not become a string in JSON, and only the binder knows which expression gives JSON. So
//! such functions have a second form, whose name no statement can write without quotes, and rows a template that says it
//! of each value.

use super::{Call, FunctionDef, Signature, XML_LEVEL, XML_PART, XML_ROW};
use crate::json::{self, Kind, Node, Path, base64};
use crate::{DataType, Len, Value, ValueError};

/// JSON_MODIFY with a value that is JSON.
pub const MODIFY_WITH_JSON: &str = "JSON_MODIFY WITH JSON";
/// A row of FOR JSON: a template, whether NULLs are shown, and the values.
pub const JSON_ROW: &str = "FOR JSON ROW";

/// The rows of FOR JSON AUTO over several tables, put into each other: rows, and the keys of all levels but the first. Marks are those
/// of [`super::XML_NESTED`], which no JSON holds either: each row has a mark and an object for each level.
pub const JSON_NESTED: &str = "FOR JSON NESTED";

/// JSON_OBJECT and JSON_ARRAY: a text of `0` and `1` that says whether NULLs are shown and then, of each value, whether it
/// is JSON; the values follow, of an object each behind its key.
pub const OBJECT: &str = "JSON_OBJECT";
/// See [`OBJECT`].
pub const ARRAY: &str = "JSON_ARRAY";

const MAX: fn(&Signature<'_>) -> Result<DataType, ValueError> = |_| Ok(DataType::NVARCHAR_MAX);
const INT: fn(&Signature<'_>) -> Result<DataType, ValueError> = |s| {
    s.check_text(0)?;
    Ok(DataType::Int)
};

pub(super) const FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("ISJSON", 1..=2, INT, is_json),
    FunctionDef::new(
        "JSON_VALUE",
        2..=2,
        |s| {
            s.check_text(0)?;
            s.check_text(1)?;
            Ok(DataType::NVarChar(Len(4000)))
        },
        json_value,
    ),
    FunctionDef::new("JSON_QUERY", 1..=2, query_type, json_query),
    FunctionDef::new("JSON_PATH_EXISTS", 2..=2, INT, path_exists),
    FunctionDef::new("JSON_MODIFY", 3..=3, query_type, json_modify).sees_null(),
    FunctionDef::new(MODIFY_WITH_JSON, 3..=3, query_type, json_modify).sees_null(),
    FunctionDef::new(JSON_ROW, 2..=2050, MAX, json_row).sees_null(),
    FunctionDef::new(JSON_NESTED, 2..=2, MAX, json_nested),
    FunctionDef::new(OBJECT, 1..=2048, MAX, json_object).sees_null(),
    FunctionDef::new(ARRAY, 1..=2048, MAX, json_array).sees_null(),
];

/// An object goes on while it and all around it are as in the row before; the innermost is each row's own.
fn json_nested(c: &Call<'_>) -> Result<Value, ValueError> {
    let (rows, keys) = (c.text(0)?, c.text(1)?);
    let keys: Vec<&str> = keys.split(XML_PART).collect();
    // Of an object no more than its brackets, its key and a comma come to it.
    let added = rows.matches(XML_LEVEL).count();
    let longest = keys.iter().map(|key| key.len() + 4).max().unwrap_or(4);
    c.take(rows.len() + added.saturating_mul(longest))?;
    let mut out = String::with_capacity(rows.len());
    let mut open: Vec<&str> = Vec::new();
    for row in rows.split(XML_ROW) {
        let levels: Vec<&str> = row.split(XML_LEVEL).skip(1).collect();
        let same = levels.iter().zip(&open).take_while(|(l, o)| l == o);
        let kept = same.count().min(levels.len().saturating_sub(1));
        if open.len() > kept {
            close_objects(&mut out, &mut open, kept);
            out.push(',');
        }
        for (at, level) in levels.into_iter().enumerate().skip(kept) {
            if at > kept {
                if !out.ends_with('{') {
                    out.push(',');
                }
                out.push_str(keys.get(at - 1).copied().unwrap_or("\"\":"));
                out.push('[');
            }
            out.push_str(level.strip_suffix('}').unwrap_or(level));
            open.push(level);
        }
    }
    close_objects(&mut out, &mut open, 0);
    c.give_text(out)
}

/// Ends the objects behind the first `kept`, and the arrays that nothing more comes to.
fn close_objects(out: &mut String, open: &mut Vec<&str>, kept: usize) {
    while open.len() > kept {
        open.pop();
        out.push('}');
        if open.len() > kept {
            out.push(']');
        }
    }
}

fn query_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    s.check_text(0)?;
    if s.types.len() > 1 {
        s.check_text(1)?;
    }
    Ok(DataType::NVARCHAR_MAX)
}

fn is_json(c: &Call<'_>) -> Result<Value, ValueError> {
    let text = c.text(0)?;
    let kind = json::parse(&text).ok().map(|node| node.kind);
    let wanted = c.text(1)?;
    let is_it = kind.is_some_and(|kind| {
        let is_container = matches!(kind, Kind::Array | Kind::Object);
        match wanted.to_ascii_uppercase().as_str() {
            "VALUE" => true,
            "SCALAR" => !is_container && matches!(kind, Kind::Number | Kind::String),
            "ARRAY" => kind == Kind::Array,
            "OBJECT" => kind == Kind::Object,
            _ => is_container,
        }
    });
    Ok(Value::Int(is_it.into()))
}

fn path_exists(c: &Call<'_>) -> Result<Value, ValueError> {
    let path = Path::parse(&c.text(1)?)?;
    let text = c.text(0)?;
    let found = json::parse_container(&text).map(|root| path.find(root).is_some());
    Ok(Value::Int(found.unwrap_or(false).into()))
}

/// The text of a scalar value; nothing for NULL, and for objects and arrays unless the path is strict.
pub fn scalar_of(node: Option<Node<'_>>, is_strict: bool) -> Result<Option<String>, ValueError> {
    match node {
        Some(node) if node.is_container() && is_strict => Err(ValueError::new(13623, 2, &[])),
        Some(node) if node.is_container() || node.kind == Kind::Null => Ok(None),
        Some(node) => Ok(Some(node.content().into_owned())),
        None => Ok(None),
    }
}

/// The text of an object or array; nothing for other values unless the path is strict.
pub fn container_of(node: Option<Node<'_>>, is_strict: bool) -> Result<Option<&str>, ValueError> {
    match node {
        Some(node) if node.is_container() => Ok(Some(node.text)),
        Some(_) if is_strict => Err(ValueError::new(13624, 2, &[])),
        _ => Ok(None),
    }
}

fn json_value(c: &Call<'_>) -> Result<Value, ValueError> {
    const UNITS_MAX: usize = 4000;
    let path = Path::parse(&c.text(1)?)?;
    let text = c.text(0)?;
    let found = path.look(json::parse_container(&text)?)?;
    let Some(found) = scalar_of(found, path.is_strict)? else {
        return Ok(Value::Null);
    };
    match found.encode_utf16().count() > UNITS_MAX {
        true if path.is_strict => Err(ValueError::new(13625, 1, &[])),
        true => Ok(Value::Null),
        false => c.give_text(found),
    }
}

fn json_query(c: &Call<'_>) -> Result<Value, ValueError> {
    let text = c.text(0)?;
    let path = match c.args.len() {
        1 => Path::default(),
        _ => Path::parse(&c.text(1)?)?,
    };
    let found = path.look(json::parse_container(&text)?)?;
    match container_of(found, path.is_strict)? {
        Some(found) => {
            c.take(found.len())?;
            c.give_text(found)
        }
        None => Ok(Value::Null),
    }
}

fn json_modify(c: &Call<'_>) -> Result<Value, ValueError> {
    if c.value(0).is_null() || c.value(1).is_null() {
        return Ok(Value::Null);
    }
    let path = Path::parse(&c.text(1)?)?;
    let text = c.text(0)?;
    let mut value = String::new();
    put(c, 2, c.name == MODIFY_WITH_JSON, &mut value)?;
    c.take(text.len() + value.len() * 6)?;
    let value = Some(value.as_str()).filter(|_| !c.value(2).is_null());
    c.give_text(json::modify(&text, &path, value)?)
}

/// Writes an argument as JSON.
fn put(c: &Call<'_>, at: usize, is_json: bool, out: &mut String) -> Result<(), ValueError> {
    /// Text of dates as ISO 8601 has it, of floats with all their digits, of money with four.
    const ISO: i32 = 126;
    const FLOAT: i32 = 2;
    const MONEY: i32 = 2;
    let (value, data_type) = (c.value(at), c.type_of(at));
    let (value, data_type) = match value {
        Value::Variant(inner) => (&inner.value, inner.data_type),
        value => (value, data_type),
    };
    if let (Value::Bytes(bytes), false) = (value, data_type == DataType::HierarchyId) {
        json::put_string(out, &base64::encode(bytes));
        return Ok(());
    }
    if let Value::Str(text) = value {
        match is_json {
            true => out.push_str(text),
            false => json::put_string(out, text),
        }
        return Ok(());
    }
    use DataType::*;
    let style = match data_type {
        Date
        | Time { .. }
        | DateTime
        | SmallDateTime
        | DateTime2 { .. }
        | DateTimeOffset { .. } => Some(ISO),
        Float | Real => Some(FLOAT),
        DataType::Money | SmallMoney => Some(MONEY),
        _ => None,
    };
    let context = &c.context.convert;
    let shown = crate::convert::convert(value, data_type, NVARCHAR_MAX, style, context)?;
    let text = match &shown {
        Value::Str(text) => text.as_str(),
        _ => "",
    };
    json::put_value(out, value, data_type, text);
    Ok(())
}

const NVARCHAR_MAX: DataType = DataType::NVARCHAR_MAX;

/// The template is an object whose values are the places of values: numbers from 2, in quotes for those that are JSON.
fn json_row(c: &Call<'_>) -> Result<Value, ValueError> {
    let template = c.text(0)?;
    let template = json::parse(&template)?;
    let is_shown = c.int(1)? != 0;
    let held: usize = c.args.iter().map(Value::outside_bytes).sum();
    c.take(held)?;
    let mut out = String::new();
    put_row(c, template, is_shown, &mut out)?;
    c.give_text(out)
}

fn json_object(c: &Call<'_>) -> Result<Value, ValueError> {
    let mut out = "{".to_string();
    let places = (2..c.args.len()).step_by(2);
    put_list(c, places, &mut out, |out, at| {
        let key = match c.value(at - 1) {
            // A key must be there, whatever becomes of its value.
            Value::Null => return Err(ValueError::new(1023, 1, &[&(at - 1), &"json_object"])),
            _ => c.text(at - 1)?,
        };
        json::put_key(out, &key);
        Ok(())
    })?;
    out.push('}');
    c.give_text(out)
}

fn json_array(c: &Call<'_>) -> Result<Value, ValueError> {
    let mut out = "[".to_string();
    put_list(c, 1..c.args.len(), &mut out, |_, _| Ok(()))?;
    out.push(']');
    c.give_text(out)
}

fn put_list(
    c: &Call<'_>,
    places: impl Iterator<Item = usize>,
    out: &mut String,
    put_key: impl Fn(&mut String, usize) -> Result<(), ValueError>,
) -> Result<(), ValueError> {
    let flags = c.text(0)?;
    let flag = |at: usize| flags.as_bytes().get(at) == Some(&b'1');
    let held: usize = c.args.iter().map(Value::outside_bytes).sum();
    c.take(held)?;
    let start = out.len();
    for (n, at) in places.enumerate() {
        if c.value(at).is_null() && !flag(0) {
            continue;
        }
        if out.len() > start {
            out.push(',');
        }
        put_key(out, at)?;
        put(c, at, flag(n + 1), out)?;
    }
    Ok(())
}

/// False when nothing is in the object, which is then left out by the one around it.
fn put_row(
    c: &Call<'_>,
    object: Node<'_>,
    shows_null: bool,
    out: &mut String,
) -> Result<bool, ValueError> {
    out.push('{');
    let mut is_first = true;
    for (key, node) in object.members() {
        let start = out.len();
        if !is_first {
            out.push(',');
        }
        json::put_key(out, &key);
        let is_there = match node.kind {
            Kind::Object => put_row(c, node, shows_null, out)?,
            kind => {
                let at = node.content().parse().unwrap_or(usize::MAX);
                put(c, at, kind == Kind::String, out)?;
                shows_null || !c.value(at).is_null()
            }
        };
        match is_there {
            true => is_first = false,
            false => out.truncate(start),
        }
    }
    out.push('}');
    Ok(!is_first)
}
