//! RPC: calls of procedures, by name or number, several in one message.
//!
//! A parameter begins with the length of its name, which is never 0xFF or 0xFE (nor, before 7.2, 0x80): those bytes
//! end a call instead, so one byte of look-ahead tells them apart.

use super::{Headers, TableValue};
use crate::types::{Place, TypeInfo, ValueEncoder, WireCollation, decode_value, type_token};
use crate::wire::{Reader, put_b_varchar, put_us_varchar};
use crate::{Result, TdsError, TdsVersion};
use daruma_value::{DataType, Value};

/// The product's bound on parameters of one call (error 8003).
pub const PARAMETERS_MAX: usize = 2100;
/// Four quoted parts of 128 characters, and some.
const NAME_UNITS_MAX: u16 = 1046;

const BY_NUMBER: u16 = u16::MAX;
const NO_EXEC: u8 = 0xFE;
const BY_REFERENCE: u8 = 0x01;
const DEFAULT_VALUE: u8 = 0x02;
const ENCRYPTED: u8 = 0x08;

/// Bits of `RpcCall::options`.
pub mod rpc_option {
    /// The plan is made anew for this call.
    pub const RECOMPILE: u16 = 0x1;
    /// The client keeps the columns of an earlier run and wants none sent.
    pub const NO_METADATA: u16 = 0x2;
    /// The client says that the columns are those of an earlier run.
    pub const REUSE_METADATA: u16 = 0x4;
}

/// Procedures that have a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ProcId {
    Cursor = 1,
    CursorOpen = 2,
    CursorPrepare = 3,
    CursorExecute = 4,
    CursorPrepExec = 5,
    CursorUnprepare = 6,
    CursorFetch = 7,
    CursorOption = 8,
    CursorClose = 9,
    ExecuteSql = 10,
    Prepare = 11,
    Execute = 12,
    PrepExec = 13,
    PrepExecRpc = 14,
    Unprepare = 15,
}

const PROCEDURES: [(ProcId, &str); 15] = [
    (ProcId::Cursor, "sp_cursor"),
    (ProcId::CursorOpen, "sp_cursoropen"),
    (ProcId::CursorPrepare, "sp_cursorprepare"),
    (ProcId::CursorExecute, "sp_cursorexecute"),
    (ProcId::CursorPrepExec, "sp_cursorprepexec"),
    (ProcId::CursorUnprepare, "sp_cursorunprepare"),
    (ProcId::CursorFetch, "sp_cursorfetch"),
    (ProcId::CursorOption, "sp_cursoroption"),
    (ProcId::CursorClose, "sp_cursorclose"),
    (ProcId::ExecuteSql, "sp_executesql"),
    (ProcId::Prepare, "sp_prepare"),
    (ProcId::Execute, "sp_execute"),
    (ProcId::PrepExec, "sp_prepexec"),
    (ProcId::PrepExecRpc, "sp_prepexecrpc"),
    (ProcId::Unprepare, "sp_unprepare"),
];

impl ProcId {
    /// The procedure with this number.
    pub fn from_number(number: u16) -> Option<ProcId> {
        PROCEDURES
            .iter()
            .map(|(id, _)| *id)
            .find(|id| *id as u16 == number)
    }

    /// By bare name, in any case.
    pub fn from_name(name: &str) -> Option<ProcId> {
        PROCEDURES
            .iter()
            .find(|(_, known)| known.eq_ignore_ascii_case(name))
            .map(|(id, _)| *id)
    }

    /// The procedure's name.
    pub fn name(self) -> &'static str {
        PROCEDURES
            .iter()
            .find(|(id, _)| *id == self)
            .map_or("", |(_, name)| name)
    }
}

/// What an RPC request calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcTarget {
    /// By number: names need not be sent or resolved.
    Id(ProcId),
    /// As the client wrote it: possibly qualified and quoted.
    Name(String),
}

/// An RPC request: one call or several.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcRequest {
    /// The transaction that all calls run in.
    pub headers: Headers,
    /// In the order sent; each ends with its own DONEPROC.
    pub calls: Vec<RpcCall>,
}

/// One call and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcCall {
    /// What is called.
    pub target: RpcTarget,
    /// `rpc_option` bits.
    pub options: u16,
    /// At most [`PARAMETERS_MAX`].
    pub params: Vec<RpcParam>,
    /// The client wants the call checked but not run.
    pub is_no_exec: bool,
}

/// A parameter of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcParam {
    /// With its `@`; empty for a positional parameter.
    pub name: String,
    /// The client wants the value back as RETURNVALUE.
    pub is_output: bool,
    /// The client leaves the value to the procedure's default.
    pub is_default: bool,
    /// For an output parameter, what goes in.
    pub value: ParamValue,
}

/// A parameter's value: one value or a table.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    Scalar { type_info: TypeInfo, value: Value },
    Table(Box<TableValue>),
}

impl RpcCall {
    /// A call without parameters.
    pub fn new(target: RpcTarget) -> RpcCall {
        RpcCall {
            target,
            options: 0,
            params: Vec::new(),
            is_no_exec: false,
        }
    }

    /// Adds an input parameter.
    pub fn with(mut self, name: &str, data_type: DataType, value: Value) -> RpcCall {
        self.params.push(RpcParam::input(name, data_type, value));
        self
    }

    /// Adds an output parameter.
    pub fn with_output(mut self, name: &str, data_type: DataType, value: Value) -> RpcCall {
        self.params.push(RpcParam {
            is_output: true,
            ..RpcParam::input(name, data_type, value)
        });
        self
    }
}

impl RpcParam {
    /// A parameter that brings a value in.
    pub fn input(name: &str, data_type: DataType, value: Value) -> RpcParam {
        let type_info = TypeInfo::nullable(data_type, WireCollation::DEFAULT);
        let value = ParamValue::Scalar { type_info, value };
        RpcParam {
            name: name.into(),
            is_output: false,
            is_default: false,
            value,
        }
    }

    /// The table, if the parameter is one.
    pub const fn table(&self) -> Option<&TableValue> {
        match &self.value {
            ParamValue::Table(table) => Some(table),
            ParamValue::Scalar { .. } => None,
        }
    }

    /// The value, if the parameter is no table.
    pub const fn scalar(&self) -> Option<&Value> {
        match &self.value {
            ParamValue::Scalar { value, .. } => Some(value),
            ParamValue::Table(_) => None,
        }
    }
}

const fn separator(version: TdsVersion) -> u8 {
    if version.has_wide_fields() {
        0xFF
    } else {
        0x80
    }
}

impl RpcRequest {
    /// A request of one call in this transaction (0 for none).
    pub fn new(call: RpcCall, transaction: u64) -> RpcRequest {
        RpcRequest {
            headers: Headers::new(transaction),
            calls: vec![call],
        }
    }

    /// Reads the message's payload.
    pub fn decode(body: &[u8], version: TdsVersion) -> Result<RpcRequest> {
        let mut reader = Reader::new(body);
        let headers = Headers::decode(&mut reader, version)?;
        let mut calls = Vec::new();
        while !reader.is_empty() || calls.is_empty() {
            calls.push(decode_call(&mut reader, version)?);
        }
        Ok(RpcRequest { headers, calls })
    }

    /// Appends the message body. On failure `out` is as before.
    pub fn encode(&self, version: TdsVersion, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let written = self.put(version, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn put(&self, version: TdsVersion, out: &mut Vec<u8>) -> Result<()> {
        self.headers.encode(version, out);
        for (index, call) in self.calls.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|n| self.calls.get(n));
            // What says that a call is not to be executed separates it from the next.
            if before.is_some_and(|call| !call.is_no_exec) {
                out.push(separator(version));
            }
            put_call(call, out)?;
        }
        Ok(())
    }
}

fn decode_call(reader: &mut Reader<'_>, version: TdsVersion) -> Result<RpcCall> {
    let target = decode_target(reader)?;
    let mut call = RpcCall {
        options: reader.u16("RPC options")?,
        ..RpcCall::new(target)
    };
    loop {
        match reader.peek() {
            None => return Ok(call),
            Some(byte) if byte == separator(version) => {
                reader.u8("RPC separator")?;
                return Ok(call);
            }
            Some(NO_EXEC) => {
                reader.u8("RPC separator")?;
                call.is_no_exec = true;
                return Ok(call);
            }
            Some(_) if call.params.len() < PARAMETERS_MAX => {
                call.params.push(decode_param(reader)?)
            }
            Some(_) => {
                let found = PARAMETERS_MAX + 1;
                return Err(TdsError::TooLong {
                    what: "RPC parameters",
                    limit: PARAMETERS_MAX,
                    found,
                });
            }
        }
    }
}

fn decode_target(reader: &mut Reader<'_>) -> Result<RpcTarget> {
    let length = reader.u16("procedure name")?;
    if length == BY_NUMBER {
        let number = reader.u16("procedure number")?;
        let expected = "1 to 15";
        let unknown = TdsError::Unexpected {
            what: "procedure number",
            expected,
            found: number.into(),
        };
        return ProcId::from_number(number)
            .map(RpcTarget::Id)
            .ok_or(unknown);
    }
    if length > NAME_UNITS_MAX {
        let (limit, found) = (usize::from(NAME_UNITS_MAX), usize::from(length));
        return Err(TdsError::TooLong {
            what: "procedure name",
            limit,
            found,
        });
    }
    reader
        .utf16(usize::from(length), "procedure name")
        .map(RpcTarget::Name)
}

fn decode_param(reader: &mut Reader<'_>) -> Result<RpcParam> {
    let name = reader.b_varchar("parameter name")?;
    let status = reader.u8("parameter status")?;
    if status & ENCRYPTED != 0 {
        let expected = "no column encryption, which was not granted";
        return Err(TdsError::Unexpected {
            what: "parameter status",
            expected,
            found: status.into(),
        });
    }
    let value = match reader.u8("parameter type")? {
        type_token::TABLE => ParamValue::Table(Box::new(TableValue::decode(reader)?)),
        token => {
            let type_info = TypeInfo::decode_after_token(token, reader, Place::Parameter)?;
            let value = decode_value(&type_info, Place::Parameter, reader)?;
            ParamValue::Scalar { type_info, value }
        }
    };
    let (is_output, is_default) = (status & BY_REFERENCE != 0, status & DEFAULT_VALUE != 0);
    Ok(RpcParam {
        name,
        is_output,
        is_default,
        value,
    })
}

fn put_call(call: &RpcCall, out: &mut Vec<u8>) -> Result<()> {
    match &call.target {
        RpcTarget::Id(id) => {
            out.extend_from_slice(&BY_NUMBER.to_le_bytes());
            out.extend_from_slice(&(*id as u16).to_le_bytes());
        }
        RpcTarget::Name(name) => {
            let (limit, found) = (usize::from(NAME_UNITS_MAX), name.encode_utf16().count());
            if found > limit {
                return Err(TdsError::TooLong {
                    what: "procedure name",
                    limit,
                    found,
                });
            }
            put_us_varchar(out, name);
        }
    }
    out.extend_from_slice(&call.options.to_le_bytes());
    for param in &call.params {
        put_param(param, out)?;
    }
    if call.is_no_exec {
        out.push(NO_EXEC);
    }
    Ok(())
}

fn put_param(param: &RpcParam, out: &mut Vec<u8>) -> Result<()> {
    put_b_varchar(out, &param.name);
    let output = if param.is_output { BY_REFERENCE } else { 0 };
    let default = if param.is_default { DEFAULT_VALUE } else { 0 };
    out.push(output | default);
    match &param.value {
        ParamValue::Table(table) => table.encode(out),
        ParamValue::Scalar { type_info, value } => {
            type_info.encode(Place::Parameter, out);
            ValueEncoder::new(type_info, Place::Parameter).encode(value, out)
        }
    }
}
