//! Requests both ways, in old and new layouts.

use super::*;
use crate::token::{Column, Done, DoneKind, RowEncoder, put_column_metadata};
use crate::types::{TypeInfo, WireCollation};
use crate::{TdsError, TdsVersion};
use daruma_value::{DataType, Len, Value};
use proptest::prelude::*;

use TdsVersion::*;

fn executesql() -> RpcRequest {
    let call = RpcCall::new(RpcTarget::Id(ProcId::ExecuteSql))
        .with("", DataType::NVARCHAR_MAX, Value::str("select @a, @b"))
        .with(
            "",
            DataType::NVarChar(Len(4000)),
            Value::str("@a int, @b nvarchar(10) output"),
        )
        .with("@a", DataType::Int, Value::Int(7))
        .with_output("@b", DataType::NVarChar(Len(10)), Value::Null);
    RpcRequest::new(call, 42)
}

fn encoded(request: &RpcRequest, version: TdsVersion) -> Vec<u8> {
    let mut out = Vec::new();
    request.encode(version, &mut out).unwrap();
    out
}

#[test]
fn usual_headers() {
    let mut out = Vec::new();
    SqlBatch::new("a", 0x0102).encode(V7_4, &mut out);
    let expected = [
        0x16, 0, 0, 0, 0x12, 0, 0, 0, 2, 0, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'a', 0,
    ];
    assert_eq!(out, expected);
    out.clear();
    SqlBatch::new("a", 0).encode(V7_1, &mut out);
    assert_eq!(out, [b'a', 0]);
}

#[test]
fn batch_round_trip() {
    for version in [V7_1, V7_2, V7_4, V8_0] {
        let batch = SqlBatch {
            headers: Headers::default(),
            text: "select N'ü\u{1F600}'".into(),
        };
        let mut out = Vec::new();
        batch.encode(version, &mut out);
        assert_eq!(SqlBatch::decode(&out, version).unwrap(), batch);
    }
}

#[test]
fn all_headers_are_read() {
    let headers = Headers {
        transaction: 3,
        outstanding_requests: 2,
        trace_activity: Some(vec![5; 20]),
        query_notification: Some(vec![6; 8]),
    };
    let batch = SqlBatch {
        headers,
        text: String::new(),
    };
    let mut out = Vec::new();
    batch.encode(V7_4, &mut out);
    assert_eq!(SqlBatch::decode(&out, V7_4).unwrap(), batch);
    for end in 0..out.len() {
        assert!(SqlBatch::decode(&out[..end], V7_4).is_err(), "cut at {end}");
    }
}

#[test]
fn odd_or_headless_batches_are_refused() {
    assert!(SqlBatch::decode(b"abc", V7_1).is_err());
    assert!(SqlBatch::decode(&[3, 0, 0, 0], V7_4).is_err());
    assert!(SqlBatch::decode(&[4, 0, 0, 0], V7_4).is_ok());
}

#[test]
fn worked_rpc_bytes() {
    let mut body = vec![0x16, 0, 0, 0, 0x12, 0, 0, 0, 2, 0];
    body.extend([0; 8]);
    body.extend([1, 0, 0, 0]);
    body.extend([
        4, 0, b'f', 0, b'o', 0, b'o', 0, b'3', 0, 0, 0, 0, 2, 0x26, 2, 0,
    ]);
    let request = RpcRequest::decode(&body, V7_4).unwrap();
    let [call] = request.calls.as_slice() else {
        panic!("{request:?}")
    };
    assert_eq!(call.target, RpcTarget::Name("foo3".into()));
    let [param] = call.params.as_slice() else {
        panic!("{call:?}")
    };
    assert!(param.is_default && !param.is_output && param.name.is_empty());
    assert_eq!(param.scalar(), Some(&Value::Null));
    assert_eq!(encoded(&request, V7_4), body);
}

#[test]
fn rpc_round_trip_and_every_cut() {
    let request = executesql();
    let bytes = encoded(&request, V7_4);
    assert_eq!(RpcRequest::decode(&bytes, V7_4).unwrap(), request);
    // A call may end after any parameter; a cut elsewhere is an error.
    let whole: Vec<usize> = (0..bytes.len())
        .filter(|end| RpcRequest::decode(&bytes[..*end], V7_4).is_ok())
        .collect();
    assert_eq!(whole.len(), 4);
}

#[test]
fn several_calls_in_one_message() {
    for version in [V7_1, V7_4] {
        let mut request = RpcRequest {
            headers: Headers::default(),
            ..executesql()
        };
        let named =
            RpcCall::new(RpcTarget::Name("dbo.p".into())).with("@x", DataType::Int, Value::Int(1));
        request.calls = vec![
            named.clone(),
            named.clone(),
            RpcCall {
                params: vec![],
                ..named
            },
        ];
        let mut bytes = encoded(&request, version);
        assert_eq!(RpcRequest::decode(&bytes, version).unwrap(), request);
        bytes.push(if version == V7_1 { 0x80 } else { 0xFF });
        assert_eq!(
            RpcRequest::decode(&bytes, version).unwrap(),
            request,
            "a separator may end the message"
        );
    }
}

#[test]
fn no_exec_call() {
    let mut request = executesql();
    request.calls[0].is_no_exec = true;
    let bytes = encoded(&request, V7_4);
    assert!(RpcRequest::decode(&bytes, V7_4).unwrap().calls[0].is_no_exec);
    // It stands between two calls in place of what separates others.
    request.calls.push(request.calls[0].clone());
    let mut bytes = Vec::new();
    request.encode(V7_4, &mut bytes).unwrap();
    assert_eq!(RpcRequest::decode(&bytes, V7_4).unwrap(), request);
}

#[test]
fn procedures_by_name_and_number() {
    for number in 1..=15 {
        let id = ProcId::from_number(number).unwrap();
        assert_eq!(ProcId::from_name(&id.name().to_uppercase()), Some(id));
        assert_eq!(id as u16, number);
    }
    assert_eq!(ProcId::from_number(16), None);
}

#[test]
fn too_many_parameters() {
    let mut call = RpcCall::new(RpcTarget::Name("p".into()));
    for _ in 0..=PARAMETERS_MAX {
        call = call.with("", DataType::TinyInt, Value::TinyInt(0));
    }
    let bytes = encoded(&RpcRequest::new(call, 0), V7_4);
    let refused = RpcRequest::decode(&bytes, V7_4);
    assert!(matches!(
        refused,
        Err(TdsError::TooLong {
            what: "RPC parameters",
            limit: 2100,
            found: 2101
        })
    ));
}

fn table() -> TableValue {
    let column = |data_type, flags| TableColumn {
        name: String::new(),
        user_type: 0,
        flags,
        type_info: TypeInfo::nullable(data_type, WireCollation::DEFAULT),
    };
    let mut table = TableValue {
        schema: "dbo".into(),
        type_name: "IntList".into(),
        columns: vec![
            column(DataType::Int, 0),
            column(DataType::Int, 0x200),
            column(DataType::NVARCHAR_MAX, 0),
        ],
        sort: vec![SortColumn {
            column: 1,
            is_descending: true,
            is_unique: true,
        }],
        column_order: vec![3, 1, 2],
        ..TableValue::default()
    };
    for row in table_rows() {
        table.push(&row).unwrap();
    }
    table
}

fn table_rows() -> [Vec<Value>; 2] {
    [
        vec![Value::Int(1), Value::Null, Value::str("one")],
        vec![Value::Null, Value::Null, Value::Null],
    ]
}

fn with_table(table: TableValue) -> RpcRequest {
    let mut request = executesql();
    let value = ParamValue::Table(Box::new(table));
    let param = RpcParam {
        name: "@t".into(),
        is_output: false,
        is_default: false,
        value,
    };
    request.calls[0].params.push(param);
    request
}

#[test]
fn table_value_round_trip() {
    let empty = TableValue {
        is_null: true,
        type_name: "T".into(),
        ..TableValue::default()
    };
    for table in [table(), empty] {
        let request = with_table(table.clone());
        let read = RpcRequest::decode(&encoded(&request, V7_4), V7_4).unwrap();
        assert_eq!(read.calls[0].params[4].table(), Some(&table));
    }
}

#[test]
fn rows_of_a_table_are_read_one_by_one() {
    let mut rows = Vec::new();
    let read = table().each_row(|row| {
        rows.push(row.clone());
        Ok::<(), TdsError>(())
    });
    assert_eq!(read, Ok(()));
    assert_eq!(rows, table_rows());
    let refused = table().each_row(|_| Err(TdsError::OutOfRange { expected: "x" }));
    assert!(refused.is_err());
    let mut narrow = table();
    assert!(narrow.push(&[Value::Int(1)]).is_err());
    assert!(
        narrow
            .push(&[Value::str("no number"), Value::Null, Value::Null])
            .is_err()
    );
    assert_eq!(narrow, table());
}

#[test]
fn rows_without_columns_are_refused() {
    let mut empty = table();
    empty.columns.clear();
    empty.rows = TableRows::default();
    empty.column_order.clear();
    let mut bytes = encoded(&with_table(empty), V7_4);
    assert!(RpcRequest::decode(&bytes, V7_4).is_ok());
    bytes.pop();
    bytes.extend([1, 0]);
    let refused = RpcRequest::decode(&bytes, V7_4);
    assert!(
        matches!(refused, Err(TdsError::TooLong { limit: 0, .. })),
        "{refused:?}"
    );
}

#[test]
fn rows_that_cost_nothing_are_bounded() {
    let mut wide = table();
    wide.columns = vec![wide.columns[1].clone(); 1024];
    wide.rows = TableRows::default();
    let mut bytes = encoded(&with_table(wide), V7_4);
    bytes.pop();
    bytes.extend([1; 10_000]);
    bytes.push(0);
    let refused = RpcRequest::decode(&bytes, V7_4);
    assert!(
        matches!(
            refused,
            Err(TdsError::TooLong {
                what: "table rows",
                limit: 4096,
                ..
            })
        ),
        "{refused:?}"
    );
}

#[test]
fn transaction_requests_round_trip() {
    let begin = Begin {
        isolation: Isolation::Snapshot,
        name: "tx".into(),
    };
    let requests = [
        TransactionRequest::Begin(begin.clone()),
        TransactionRequest::Commit {
            name: String::new(),
            next: Some(begin),
        },
        TransactionRequest::Commit {
            name: "tx".into(),
            next: None,
        },
        TransactionRequest::Rollback {
            name: "save".into(),
            next: None,
        },
        TransactionRequest::Save {
            name: "save".into(),
        },
        TransactionRequest::GetDtcAddress { data: vec![] },
        TransactionRequest::Propagate { data: vec![1, 2] },
        TransactionRequest::Promote,
    ];
    for request in requests {
        let mut out = Vec::new();
        request.encode(&Headers::new(8), V7_4, &mut out);
        assert_eq!(
            TransactionRequest::decode(&out, V7_4).unwrap(),
            (Headers::new(8), request.clone())
        );
        let cuts =
            (0..out.len()).filter(|end| TransactionRequest::decode(&out[..*end], V7_4).is_ok());
        let optional_data = matches!(
            request,
            TransactionRequest::GetDtcAddress { .. } | TransactionRequest::Propagate { .. }
        );
        assert_eq!(cuts.count(), usize::from(optional_data), "{request:?}");
    }
    let unknown = [
        0x16, 0, 0, 0, 0x12, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 77, 0,
    ];
    assert!(TransactionRequest::decode(&unknown, V7_4).is_err());
}

fn bulk_columns(version: TdsVersion) -> Vec<Column> {
    let column =
        |name: &str, data_type| Column::new(name, data_type, true, WireCollation::DEFAULT, version);
    let mut text = column("note", DataType::NText);
    text.table = vec!["dbo.t".into()];
    vec![
        column("id", DataType::Int),
        column("name", DataType::NVarChar(Len(20))),
        text,
    ]
}

fn bulk_events(bytes: &[u8], version: TdsVersion, step: usize) -> Result<Vec<BulkEvent>, TdsError> {
    let mut decoder = BulkDecoder::new(version);
    let mut events = Vec::new();
    let mut pieces = bytes.chunks(step).peekable();
    while let Some(piece) = pieces.next() {
        decoder.feed(piece, pieces.peek().is_none());
        while let Some(event) = decoder.next_event()? {
            events.push(event);
        }
    }
    assert!(decoder.is_finished());
    Ok(events)
}

#[test]
fn bulk_load_round_trip() {
    for version in [V7_1, V7_4] {
        let columns = bulk_columns(version);
        let rows = [
            vec![Value::Int(1), Value::str("eins"), Value::str("note")],
            vec![Value::Null, Value::Null, Value::Null],
        ];
        let mut out = Vec::new();
        let encoder = BulkEncoder::start(&columns, version, &mut out);
        for row in &rows {
            encoder.row(row, &mut out).unwrap();
        }
        encoder.finish(&mut out);
        for step in [1, 13, 4096] {
            let events = bulk_events(&out, version, step).unwrap();
            let expected = [
                BulkEvent::Columns(columns.clone().into()),
                BulkEvent::Row(rows[0].clone()),
                BulkEvent::Row(rows[1].clone()),
                BulkEvent::Done,
            ];
            assert_eq!(events, expected);
        }
    }
}

#[test]
fn bulk_load_takes_bitmap_rows() {
    let columns: Vec<Column> = bulk_columns(V7_4).into_iter().take(2).collect();
    let mut out = Vec::new();
    put_column_metadata(&columns, V7_4, &mut out);
    RowEncoder::new(&columns, V7_4)
        .encode(&[Value::Null, Value::Null], &mut out)
        .unwrap();
    assert_eq!(out[out.len() - 2], crate::token::token_byte::NBC_ROW);
    assert_eq!(
        bulk_events(&out, V7_4, 5).unwrap()[1],
        BulkEvent::Row(vec![Value::Null; 2])
    );
}

#[test]
fn bulk_load_must_begin_with_columns() {
    assert!(bulk_events(&[0xD1, 0], V7_4, 10).is_err());
    let mut out = Vec::new();
    BulkEncoder::start(&bulk_columns(V7_4), V7_4, &mut out);
    out.push(0xAA);
    assert!(bulk_events(&out, V7_4, 10).is_err());
}

#[test]
fn empty_bulk_message_has_no_events() {
    let mut decoder = BulkDecoder::new(V7_4);
    decoder.feed(&[], true);
    assert_eq!(decoder.next_event(), Ok(None));
    assert!(decoder.is_finished());
    let mut done = Vec::new();
    Done::new(DoneKind::Done, 0, 0).encode(V7_4, &mut done);
    assert_eq!(bulk_events(&done, V7_4, 99).unwrap(), [BulkEvent::Done]);
}

proptest! {
    #[test]
    fn random_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), old in any::<bool>()) {
        let version = if old { V7_1 } else { V7_4 };
        let _ = SqlBatch::decode(&bytes, version);
        let _ = RpcRequest::decode(&bytes, version);
        let _ = TransactionRequest::decode(&bytes, version);
        let mut decoder = BulkDecoder::new(version);
        decoder.feed(&bytes, true);
        while let Ok(Some(_)) = decoder.next_event() {}
    }

    #[test]
    fn damaged_calls_never_panic(at in 0_usize..500, with in any::<u8>()) {
        let mut bytes = encoded(&with_table(table()), V7_4);
        let at = at % bytes.len();
        bytes[at] = with;
        let _ = RpcRequest::decode(&bytes, V7_4);
    }

    #[test]
    fn damaged_bulk_never_panics(at in 0_usize..300, with in any::<u8>()) {
        let columns = bulk_columns(V7_4);
        let mut bytes = Vec::new();
        let encoder = BulkEncoder::start(&columns, V7_4, &mut bytes);
        encoder.row(&[Value::Int(1), Value::str("x"), Value::str("y")], &mut bytes).unwrap();
        encoder.finish(&mut bytes);
        let at = at % bytes.len();
        bytes[at] = with;
        let mut decoder = BulkDecoder::new(V7_4);
        decoder.feed(&bytes, true);
        while let Ok(Some(_)) = decoder.next_event() {}
    }
}
