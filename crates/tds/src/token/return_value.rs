//! RETURNSTATUS and RETURNVALUE: what a procedure gives back besides rows.

use super::column::{decode_user_type, put_user_type};
use super::token_byte;
use crate::types::{Place, TypeInfo, ValueEncoder, decode_value};
use crate::wire::{Reader, put_b_varchar};
use crate::{Result, TdsVersion};
use daruma_value::Value;

/// Values of `ReturnValue::status`.
pub mod return_status_flag {
    /// The value of a parameter marked OUTPUT.
    pub const OUTPUT_PARAMETER: u8 = 1;
    /// The value of a scalar function that was called by RPC.
    pub const FUNCTION_RESULT: u8 = 2;
}

/// RETURNSTATUS: the integer of RETURN.
pub fn put_return_status(status: i32, out: &mut Vec<u8>) {
    out.push(token_byte::RETURN_STATUS);
    out.extend_from_slice(&status.to_le_bytes());
}

/// The value of an output parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ReturnValue {
    /// Position of the parameter in the call, from 0.
    pub ordinal: u16,
    /// As the client wrote it; empty for a positional parameter.
    pub name: String,
    /// One of `return_status_flag`.
    pub status: u8,
    /// As in [`super::Column`].
    pub user_type: u32,
    /// `column_flag` bits.
    pub flags: u16,
    /// How the value is encoded.
    pub type_info: TypeInfo,
    /// NULL fits every type.
    pub value: Value,
}

impl ReturnValue {
    /// An output parameter.
    pub fn output(
        ordinal: u16,
        name: impl Into<String>,
        type_info: TypeInfo,
        value: Value,
    ) -> ReturnValue {
        let status = return_status_flag::OUTPUT_PARAMETER;
        ReturnValue {
            ordinal,
            name: name.into(),
            status,
            user_type: 0,
            flags: 0,
            type_info,
            value,
        }
    }

    /// The value of a scalar function.
    pub fn of_function(type_info: TypeInfo, value: Value) -> ReturnValue {
        ReturnValue {
            status: return_status_flag::FUNCTION_RESULT,
            ..ReturnValue::output(0, "", type_info, value)
        }
    }

    /// Appends the token. On failure `out` is as before.
    pub fn encode(&self, version: TdsVersion, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.push(token_byte::RETURN_VALUE);
        out.extend_from_slice(&self.ordinal.to_le_bytes());
        put_b_varchar(out, &self.name);
        out.push(self.status);
        put_user_type(self.user_type, version, out);
        out.extend_from_slice(&self.flags.to_le_bytes());
        self.type_info.encode(Place::Column, out);
        let written = ValueEncoder::new(&self.type_info, Place::Column).encode(&self.value, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    pub(super) fn decode(version: TdsVersion, reader: &mut Reader<'_>) -> Result<ReturnValue> {
        let ordinal = reader.u16("RETURNVALUE ordinal")?;
        let name = reader.b_varchar("RETURNVALUE name")?;
        let status = reader.u8("RETURNVALUE status")?;
        let user_type = decode_user_type(reader, version)?;
        let flags = reader.u16("RETURNVALUE flags")?;
        let type_info = TypeInfo::decode(reader, Place::Column)?;
        let value = decode_value(&type_info, Place::Column, reader)?;
        Ok(ReturnValue {
            ordinal,
            name,
            status,
            user_type,
            flags,
            type_info,
            value,
        })
    }
}
