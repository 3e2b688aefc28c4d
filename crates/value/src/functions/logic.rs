//! Functions of choice, tests, identifiers and hashes.

use super::{Call, FunctionDef, Signature, string};
use crate::compare::{compare, hash_bytes, write_key};
use crate::convert::{encode_code_page, parse_money};
use crate::types::{common_type, common_type_of};
use crate::{DataType, Len, Value, ValueError, VariantValue};
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use sha2::Digest;
use std::cmp::Ordering;
use std::io::{Read, Write};

/// How much is decompressed before it is asked whether there is memory for more.
const PLAIN_STEP_BYTES: usize = 1 << 20;

pub(super) const FUNCTIONS: &[FunctionDef] = &[
    // The binder folds CASE-like forms itself; these give their types and serve when it does not.
    FunctionDef::new("ISNULL", 2..=2, isnull_type, isnull).sees_null(),
    FunctionDef::new("COALESCE", 1..=254, all_common, coalesce).sees_null(),
    FunctionDef::new("NULLIF", 2..=2, |s| Ok(s.at(0)), nullif).sees_null(),
    FunctionDef::new("IIF", 3..=3, |s| common_type(s.at(1), s.at(2)), iif).sees_null(),
    FunctionDef::new("CHOOSE", 2..=255, choose_type, choose).sees_null(),
    FunctionDef::new("GREATEST", 1..=254, all_common, |c| {
        extreme(c, Ordering::Greater)
    })
    .sees_null(),
    FunctionDef::new("LEAST", 1..=254, all_common, |c| extreme(c, Ordering::Less)).sees_null(),
    FunctionDef::new("ISNUMERIC", 1..=1, |_| Ok(DataType::Int), isnumeric).sees_null(),
    FunctionDef::new(
        "NEWID",
        0..=0,
        |_| Ok(DataType::UniqueIdentifier),
        |c| Ok(Value::Guid(c.context.host.new_guid())),
    )
    .volatile(),
    FunctionDef::new(
        "NEWSEQUENTIALID",
        0..=0,
        |_| Ok(DataType::UniqueIdentifier),
        |c| Ok(Value::Guid(c.context.host.sequential_guid())),
    )
    .volatile(),
    FunctionDef::new("CHECKSUM", 1..=255, |_| Ok(DataType::Int), checksum).sees_null(),
    FunctionDef::new(
        "BINARY_CHECKSUM",
        1..=255,
        |_| Ok(DataType::Int),
        binary_checksum,
    )
    .sees_null(),
    FunctionDef::new("HASHBYTES", 2..=2, hashbytes_type, hashbytes),
    FunctionDef::new("COMPRESS", 1..=1, compress_type, compress),
    FunctionDef::new("DECOMPRESS", 1..=1, decompress_type, decompress),
    FunctionDef::new(
        "SQL_VARIANT_PROPERTY",
        2..=2,
        |_| Ok(DataType::Variant),
        variant_property,
    ),
];

fn isnull_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    crate::types::check_implicit(s.at(1), s.at(0))?;
    Ok(s.at(0))
}

fn all_common(s: &Signature<'_>) -> Result<DataType, ValueError> {
    Ok(common_type_of(s.types.iter().copied())?.unwrap_or(DataType::Int))
}

fn choose_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    s.check(0, DataType::Int)?;
    Ok(common_type_of(s.types.iter().copied().skip(1))?.unwrap_or(DataType::Int))
}

fn hashbytes_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    match s.at(1) {
        t if t.is_binary() => Ok(DataType::VarBinary(Len(8000))),
        _ => string::check_all_text(s).map(|()| DataType::VarBinary(Len(8000))),
    }
}

fn compress_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    use DataType::{Image, NText, Text, Xml};
    match s.at(0) {
        Image | NText | Text | Xml => Err(s.invalid(0)),
        t if t.is_character() || t.is_binary() => Ok(DataType::VARBINARY_MAX),
        _ => Err(s.invalid(0)),
    }
}

fn decompress_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    match s.at(0).is_binary() {
        true => Ok(DataType::VARBINARY_MAX),
        false => Err(s.invalid(0)),
    }
}

fn isnull(c: &Call<'_>) -> Result<Value, ValueError> {
    let chosen = usize::from(c.value(0).is_null());
    c.as_type(chosen, c.result)
}

fn coalesce(c: &Call<'_>) -> Result<Value, ValueError> {
    match c.args.iter().position(|v| !v.is_null()) {
        Some(position) => c.as_type(position, c.result),
        None => Ok(Value::Null),
    }
}

fn nullif(c: &Call<'_>) -> Result<Value, ValueError> {
    let common = common_type(c.type_of(0), c.type_of(1))?;
    let order = compare(
        &c.as_type(0, common)?,
        &c.as_type(1, common)?,
        c.collation(),
    );
    if order == Some(Ordering::Equal) {
        Ok(Value::Null)
    } else {
        Ok(c.value(0).clone())
    }
}

fn iif(c: &Call<'_>) -> Result<Value, ValueError> {
    let condition = matches!(c.value(0), Value::Bit(true));
    c.as_type(if condition { 1 } else { 2 }, c.result)
}

fn choose(c: &Call<'_>) -> Result<Value, ValueError> {
    if c.value(0).is_null() {
        return Ok(Value::Null);
    }
    match usize::try_from(c.int(0)?) {
        Ok(position) if position >= 1 && position < c.args.len() => c.as_type(position, c.result),
        _ => Ok(Value::Null),
    }
}

/// GREATEST and LEAST skip NULLs.
fn extreme(c: &Call<'_>, wanted: Ordering) -> Result<Value, ValueError> {
    let mut best = Value::Null;
    for position in 0..c.args.len() {
        let value = c.as_type(position, c.result)?;
        if value.is_null() {
            continue;
        }
        if best.is_null() || compare(&value, &best, c.collation()) == Some(wanted) {
            best = value;
        }
    }
    Ok(best)
}

/// 1 for numbers and for text that converts to some numeric type, lone signs included.
fn isnumeric(c: &Call<'_>) -> Result<Value, ValueError> {
    let numeric = match c.value(0) {
        Value::Null => false,
        Value::Str(text) => is_numeric_text(text),
        Value::Bit(_) => true,
        other => other.as_f64().is_some(),
    };
    Ok(Value::Int(i32::from(numeric)))
}

fn is_numeric_text(text: &str) -> bool {
    /// Blanks that are numbers of their own in the product, which a space is not.
    const NUMERIC_BLANKS: [char; 6] = ['\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}'];
    let blanks = text;
    let text = text.trim();
    if text.is_empty() {
        return blanks.contains(NUMERIC_BLANKS);
    }
    let float_like = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E' | b'd' | b'D'));
    // An exponent may be written with a D, as for a float of double precision.
    let is_float = || {
        let text = text.replace(['d', 'D'], "e");
        text.parse::<f64>().is_ok_and(f64::is_finite)
    };
    parse_money(text).is_ok() || float_like && is_float()
}

/// Equal values under the collation have equal checksums.
fn checksum(c: &Call<'_>) -> Result<Value, ValueError> {
    let mut total = 0u32;
    for value in c.args {
        let part = match value {
            Value::Int(v) => v.cast_unsigned(),
            other => {
                let mut key = Vec::new();
                write_key(other, c.collation(), &mut key);
                hash_bytes(&key) as u32
            }
        };
        total = total.rotate_left(4) ^ part;
    }
    Ok(Value::Int(total.cast_signed()))
}

/// Each byte shifts the sum by four bits, as the product does for text.
fn binary_checksum(c: &Call<'_>) -> Result<Value, ValueError> {
    let fold = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0u32, |sum, b| sum.rotate_left(4) ^ u32::from(*b))
    };
    let mut total = 0u32;
    for (position, value) in c.args.iter().enumerate() {
        let part = match value {
            Value::Null => continue,
            Value::Str(_) | Value::Bytes(_) => fold(&raw_bytes(c, position)?),
            other => match other.as_i64() {
                Some(number) => {
                    number as u32
                        ^ if (-(1i64 << 31)..1 << 31).contains(&number) {
                            0
                        } else {
                            (number >> 32) as u32
                        }
                }
                None => {
                    let mut key = Vec::new();
                    write_key(other, c.collation(), &mut key);
                    fold(&key)
                }
            },
        };
        total = total.rotate_left(4) ^ part;
    }
    Ok(Value::Int(total.cast_signed()))
}

/// The bytes the product stores for a string: code page or UTF-16.
fn raw_bytes(c: &Call<'_>, position: usize) -> Result<Vec<u8>, ValueError> {
    Ok(match c.value(position) {
        Value::Bytes(bytes) => bytes.clone(),
        _ => {
            let text = c.text(position)?;
            if c.type_of(position).is_unicode() {
                text.encode_utf16().flat_map(u16::to_le_bytes).collect()
            } else {
                encode_code_page(&text, c.collation().code_page())
            }
        }
    })
}

fn hashbytes(c: &Call<'_>) -> Result<Value, ValueError> {
    let bytes = raw_bytes(c, 1)?;
    let hash = match c.text(0)?.to_ascii_uppercase().as_str() {
        "MD5" => md5::Md5::digest(&bytes).to_vec(),
        "SHA" | "SHA1" => sha1::Sha1::digest(&bytes).to_vec(),
        "SHA2_256" => sha2::Sha256::digest(&bytes).to_vec(),
        "SHA2_512" => sha2::Sha512::digest(&bytes).to_vec(),
        _ => return Ok(Value::Null),
    };
    Ok(Value::Bytes(hash))
}

/// GZIP, with the header that the product writes.
fn compress(c: &Call<'_>) -> Result<Value, ValueError> {
    let bytes = raw_bytes(c, 0)?;
    c.take(bytes.len())?;
    let header = GzBuilder::new().operating_system(0);
    let mut encoder = header.write(Vec::new(), Compression::fast());
    let written = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    // A buffer in memory takes all that there is memory for.
    written
        .map(Value::Bytes)
        .map_err(|_| ValueError::no_memory())
}

/// What stands behind the first GZIP member is not looked at. Error 8114 for bytes that are none.
fn decompress(c: &Call<'_>) -> Result<Value, ValueError> {
    let Value::Bytes(bytes) = c.value(0) else {
        return Ok(Value::Null);
    };
    let mut decoder = GzDecoder::new(bytes.as_slice());
    let mut plain = Vec::new();
    loop {
        // A few bytes can hold very many.
        c.take(plain.len() + PLAIN_STEP_BYTES)?;
        let mut step = decoder.by_ref().take(PLAIN_STEP_BYTES as u64);
        match step.read_to_end(&mut plain) {
            Ok(0) => return Ok(Value::Bytes(plain)),
            Ok(_) => {}
            Err(_) => return Err(ValueError::new(8114, 5, &[&"gzip", &"varbinary"])),
        }
    }
}

fn variant_property(c: &Call<'_>) -> Result<Value, ValueError> {
    let (data_type, value) = match c.value(0) {
        Value::Variant(inner) => (inner.data_type, &inner.value),
        other => (c.type_of(0), other),
    };
    let number = |n: i32| {
        Value::Variant(Box::new(VariantValue {
            data_type: DataType::Int,
            value: Value::Int(n),
        }))
    };
    let text = |t: &str| {
        Value::Variant(Box::new(VariantValue {
            data_type: DataType::SYSNAME,
            value: Value::str(t),
        }))
    };
    Ok(match c.text(1)?.to_ascii_lowercase().as_str() {
        "basetype" => text(data_type.name()),
        "precision" => number(i32::from(data_type.precision())),
        "scale" => number(i32::from(data_type.scale())),
        "maxlength" => number(i32::from(data_type.max_length())),
        "totalbytes" => {
            let stored = match value {
                Value::Str(t) if data_type.is_unicode() => t.encode_utf16().count() * 2,
                Value::Str(t) => t.chars().count(),
                Value::Bytes(b) => b.len(),
                _ => usize::try_from(data_type.max_length()).unwrap_or(0),
            };
            number(i32::try_from(stored + 2).unwrap_or(i32::MAX))
        }
        "collation" if data_type.is_character() => text(c.collation().name()),
        _ => Value::Null,
    })
}
