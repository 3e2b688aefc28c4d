//! Writes the first inputs of targets whose bytes are not easily written by hand: `cargo run -p daruma-fuzz --example seeds`.

use daruma_tds::login::{Login7, Secret};
use daruma_tds::prelogin::{Encryption, Prelogin};
use daruma_tds::request::{
    BulkEncoder, Headers, ParamValue, RpcCall, RpcParam, RpcRequest, RpcTarget, SortColumn,
    SqlBatch, TableColumn, TableValue, TransactionRequest,
};
use daruma_tds::token::{
    Column, Done, DoneKind, EnvChange, RowEncoder, ServerMessage, put_column_metadata,
    put_return_status,
};
use daruma_tds::types::TypeInfo;
use daruma_tds::{TdsVersion, WireCollation};
use daruma_value::row::{ColumnSpec, RowLayout};
use daruma_value::{DataType, Len, Value};
use std::error::Error;
use std::fs;
use std::path::Path;

type Outcome = Result<(), Box<dyn Error>>;

const VERSION: TdsVersion = TdsVersion::V7_4;
/// Numbers of `VERSION` and of the message types in the first bytes of `tds_server`.
const CHOICE: u8 = 3;

fn main() -> Outcome {
    server()?;
    client()?;
    rows()
}

fn keep(target: &str, name: &str, bytes: &[u8]) -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), bytes)?)
}

fn keep_message(name: &str, kind: u8, body: &[u8]) -> Outcome {
    keep("tds_server", name, &[&[CHOICE, kind], body].concat())
}

fn values() -> Vec<(DataType, Value)> {
    vec![
        (DataType::Int, Value::Int(-7)),
        (DataType::NVarChar(Len(20)), Value::str("text")),
        (DataType::VARCHAR_MAX, Value::str("long text")),
        (DataType::VarBinary(Len(20)), Value::Bytes(vec![1, 2, 3])),
        (DataType::Bit, Value::Bit(true)),
        (DataType::Float, Value::Float(1.5)),
        (DataType::Money, Value::Money(12345)),
        (DataType::UniqueIdentifier, Value::Guid([7; 16])),
        (DataType::BigInt, Value::Null),
    ]
}

fn columns() -> Vec<Column> {
    let column = |(number, (data_type, _)): (usize, (DataType, Value))| {
        Column::new(
            format!("c{number}"),
            data_type,
            true,
            WireCollation::DEFAULT,
            VERSION,
        )
    };
    values().into_iter().enumerate().map(column).collect()
}

fn server() -> Outcome {
    let prelogin = Prelogin {
        encryption: Some(Encryption::On),
        mars: Some(false),
        ..Prelogin::default()
    };
    keep_message("prelogin", 0x12, &prelogin.encode())?;
    let mut login = Login7::new(VERSION);
    login.user_name = "sa".into();
    login.password = Secret::new("secret");
    login.app_name = "seeds".into();
    keep_message("login", 0x10, &login.encode()?)?;
    let mut body = Vec::new();
    SqlBatch::new("SELECT 1", 0).encode(VERSION, &mut body);
    keep_message("batch", 0x01, &body)?;
    body.clear();
    let mut call = RpcCall::new(RpcTarget::Name("p".into()));
    for (number, (data_type, value)) in values().into_iter().enumerate() {
        let type_info = TypeInfo::for_column(data_type, true, WireCollation::DEFAULT, VERSION);
        call.params.push(RpcParam {
            name: format!("@p{number}"),
            is_output: number == 1,
            is_default: false,
            value: ParamValue::Scalar { type_info, value },
        });
    }
    RpcRequest::new(call, 0).encode(VERSION, &mut body)?;
    keep_message("rpc", 0x03, &body)?;
    keep_message("rpc-table", 0x03, &call_with_table()?)?;
    body.clear();
    TransactionRequest::Save { name: "t".into() }.encode(&Headers::new(0), VERSION, &mut body);
    keep_message("save", 0x0E, &body)?;
    body.clear();
    let encoder = BulkEncoder::start(&columns(), VERSION, &mut body);
    let row: Vec<Value> = values().into_iter().map(|(_, value)| value).collect();
    encoder.row(&row, &mut body)?;
    encoder.finish(&mut body);
    keep_message("bulk", 0x07, &body)
}

/// A table-valued parameter with all that it may have: an order, columns in another one, one left to its default.
fn call_with_table() -> Result<Vec<u8>, Box<dyn Error>> {
    const DEFAULT: u16 = 0x200;
    let types = values().into_iter().map(|(data_type, _)| data_type);
    let column = |(number, data_type)| TableColumn {
        name: String::new(),
        user_type: 0,
        flags: if number == 3 { DEFAULT } else { 0 },
        type_info: TypeInfo::nullable(data_type, WireCollation::DEFAULT),
    };
    let mut table = TableValue {
        schema: "dbo".into(),
        type_name: "T".into(),
        columns: types.enumerate().map(column).collect(),
        sort: vec![SortColumn {
            column: 1,
            is_descending: false,
            is_unique: true,
        }],
        column_order: (1..=9).rev().collect(),
        ..TableValue::default()
    };
    let row: Vec<Value> = values().into_iter().map(|(_, value)| value).collect();
    table.push(&row)?;
    table.push(&vec![Value::Null; row.len()])?;
    let mut call = RpcCall::new(RpcTarget::Name("p".into()));
    call.params.push(RpcParam {
        name: "@t".into(),
        is_output: false,
        is_default: false,
        value: ParamValue::Table(Box::new(table)),
    });
    let mut body = Vec::new();
    RpcRequest::new(call, 0).encode(VERSION, &mut body)?;
    Ok(body)
}

fn client() -> Outcome {
    let mut reply = vec![CHOICE];
    let message = ServerMessage {
        number: 208,
        state: 1,
        class: 16,
        text: "Invalid object name 't'.".into(),
        server: "S".into(),
        procedure: String::new(),
        line: 1,
    };
    message.encode(VERSION, &mut reply);
    EnvChange::Database {
        new: "d".into(),
        old: "master".into(),
    }
    .encode(VERSION, &mut reply);
    Done::new(DoneKind::Done, 0, 0).encode(VERSION, &mut reply);
    keep("tds_client", "messages", &reply)?;
    let columns = columns();
    let mut reply = vec![CHOICE];
    put_column_metadata(&columns, VERSION, &mut reply);
    let encoder = RowEncoder::new(&columns, VERSION);
    let row: Vec<Value> = values().into_iter().map(|(_, value)| value).collect();
    encoder.encode(&row, &mut reply)?;
    encoder.encode(&vec![Value::Null; row.len()], &mut reply)?;
    put_return_status(0, &mut reply);
    Done::new(DoneKind::Done, 0, 0).encode(VERSION, &mut reply);
    keep("tds_client", "rows", &reply)
}

fn rows() -> Outcome {
    // Places of the types in the list of the target.
    let (choices, types): (Vec<u8>, Vec<DataType>) = [
        (3, DataType::Int),
        (19, DataType::VarChar(Len(20))),
        (11, DataType::Float),
        (25, DataType::VARBINARY_MAX),
    ]
    .into_iter()
    .unzip();
    let columns: Vec<_> = types.into_iter().map(ColumnSpec::new).collect();
    let layout = RowLayout::new(&columns);
    let whole = [
        Value::Int(3),
        Value::str("abc"),
        Value::Float(2.5),
        Value::Bytes(vec![9; 30]),
    ];
    for (name, values) in [
        ("whole", whole),
        (
            "nulls",
            [Value::Null, Value::Null, Value::Null, Value::Null],
        ),
    ] {
        let mut row = Vec::new();
        layout
            .encode(&values, &mut row)
            .map_err(|error| format!("{error:?}"))?;
        keep("row", name, &[&[3], choices.as_slice(), &row].concat())?;
    }
    Ok(())
}
