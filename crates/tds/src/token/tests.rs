//! Tokens: worked bytes, both directions in every version, streams cut anywhere.

use super::*;
use crate::login::Feature;
use crate::types::{TypeInfo, WireCollation};
use crate::{TdsError, TdsVersion};
use daruma_value::{DataType, Len, Value};
use proptest::prelude::*;
use std::sync::Arc;

use TdsVersion::*;
const VERSIONS: [TdsVersion; 7] = [V7_1, V7_1Rev1, V7_2, V7_3A, V7_3B, V7_4, V8_0];

fn column(name: &str, data_type: DataType, nullable: bool, version: TdsVersion) -> Column {
    Column::new(name, data_type, nullable, WireCollation::DEFAULT, version)
}

/// All tokens of a message that arrives in pieces of `step` bytes.
fn read(bytes: &[u8], version: TdsVersion, step: usize) -> Result<Vec<Token>, TdsError> {
    let mut decoder = TokenDecoder::new(version);
    let mut tokens = Vec::new();
    let mut pieces = bytes.chunks(step).peekable();
    while let Some(piece) = pieces.next() {
        decoder.feed(piece, pieces.peek().is_none());
        while let Some(token) = decoder.next_token()? {
            tokens.push(token);
        }
    }
    assert!(decoder.is_finished() || bytes.is_empty());
    Ok(tokens)
}

fn message(class: u8) -> ServerMessage {
    ServerMessage {
        number: 208,
        state: 1,
        class,
        text: "Invalid object name 'x'.".into(),
        server: "DARUMA".into(),
        procedure: "p".into(),
        line: 3,
    }
}

#[test]
fn select_1_as_a() {
    let columns = [Column {
        flags: column_flag::COMPUTED,
        ..column("a", DataType::Int, false, V7_4)
    }];
    let mut out = Vec::new();
    put_column_metadata(&columns, V7_4, &mut out);
    RowEncoder::new(&columns, V7_4)
        .encode(&[Value::Int(1)], &mut out)
        .unwrap();
    Done::counted(DoneKind::Done, 0, command::SELECT, 1).encode(V7_4, &mut out);
    #[rustfmt::skip]
    let expected = [
        0x81, 1, 0, 0, 0, 0, 0, 0x20, 0, 0x38, 1, b'a', 0,
        0xD1, 1, 0, 0, 0,
        0xFD, 0x10, 0, 0xC1, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(out, expected);
}

#[test]
fn envchange_bytes() {
    let bytes = |change: EnvChange| {
        let mut out = Vec::new();
        change.encode(V7_4, &mut out);
        out
    };
    let begin = bytes(EnvChange::BeginTransaction { descriptor: 5 });
    assert_eq!(begin, [0xE3, 0x0B, 0, 8, 8, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
    let commit = bytes(EnvChange::CommitTransaction { descriptor: 5 });
    assert_eq!(commit, [0xE3, 0x0B, 0, 9, 0, 8, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(EnvChange::ResetDone), [0xE3, 3, 0, 0x12, 0, 0]);
    let collation = bytes(EnvChange::Collation {
        new: WireCollation::DEFAULT,
        old: None,
    });
    assert_eq!(collation, [0xE3, 8, 0, 7, 5, 9, 4, 0xD0, 0, 0x34, 0]);
}

#[test]
fn old_versions_are_not_told_of_transactions() {
    let mut out = Vec::new();
    EnvChange::BeginTransaction { descriptor: 5 }.encode(V7_1, &mut out);
    EnvChange::Routing(Routing {
        port: 1,
        server: "s".into(),
    })
    .encode(V7_3B, &mut out);
    assert!(out.is_empty());
}

#[test]
fn error_bytes() {
    let mut out = Vec::new();
    let error = ServerMessage {
        text: "x".into(),
        server: "s".into(),
        procedure: String::new(),
        ..message(16)
    };
    error.encode(V7_4, &mut out);
    assert_eq!(
        out,
        [
            0xAA, 18, 0, 208, 0, 0, 0, 1, 16, 1, 0, b'x', 0, 1, b's', 0, 0, 3, 0, 0, 0
        ]
    );
    out.clear();
    error.encode(V7_1, &mut out);
    assert_eq!(
        out,
        [
            0xAA, 16, 0, 208, 0, 0, 0, 1, 16, 1, 0, b'x', 0, 1, b's', 0, 0, 3, 0
        ]
    );
}

#[test]
fn class_tells_info_from_error() {
    let mut out = Vec::new();
    message(10).encode(V7_4, &mut out);
    message(11).encode(V7_4, &mut out);
    assert_eq!(
        read(&out, V7_4, 1000).unwrap(),
        [Token::Info(message(10)), Token::Error(message(11))]
    );
}

#[test]
fn long_message_is_cut_to_fit() {
    let mut out = Vec::new();
    let long = ServerMessage {
        text: "é".repeat(40_000),
        server: "s".repeat(300),
        ..message(0)
    };
    long.encode(V7_4, &mut out);
    let tokens = read(&out, V7_4, 4096).unwrap();
    let [Token::Info(read)] = tokens.as_slice() else {
        panic!("{tokens:?}")
    };
    assert_eq!(
        (read.text.chars().count(), read.server.len()),
        (16_000, 255)
    );
}

/// One token of each kind, with a version's own layout.
fn everything(version: TdsVersion) -> (Vec<u8>, Vec<Token>) {
    let mut out = Vec::new();
    let env_changes = vec![
        EnvChange::Database {
            new: "AdventureWorks".into(),
            old: "master".into(),
        },
        EnvChange::Language {
            new: "us_english".into(),
            old: String::new(),
        },
        EnvChange::PacketSize {
            new: 8000,
            old: 4096,
        },
        EnvChange::Collation {
            new: WireCollation::DEFAULT,
            old: Some(WireCollation::NONE),
        },
        EnvChange::BeginTransaction { descriptor: 9 },
        EnvChange::CommitTransaction { descriptor: 9 },
        EnvChange::RollbackTransaction { descriptor: 9 },
        EnvChange::TransactionEnded { descriptor: 9 },
        EnvChange::MirrorPartner {
            server: "other".into(),
        },
        EnvChange::UserInstance {
            name: "inst".into(),
        },
        EnvChange::ResetDone,
        EnvChange::Routing(Routing {
            port: 1434,
            server: "replica".into(),
        }),
        EnvChange::Other {
            kind: 6,
            data: vec![0, 0],
        },
    ];
    let mut expected = Vec::new();
    for change in env_changes {
        let before = out.len();
        change.encode(version, &mut out);
        if out.len() > before {
            expected.push(Token::EnvChange(change));
        }
    }
    message(16).encode(version, &mut out);
    expected.push(Token::Error(message(16)));
    let ack = LoginAck {
        version,
        program: LoginAck::PROGRAM.into(),
        major: 16,
        minor: 0,
        build: 1000,
    };
    ack.encode(&mut out);
    expected.push(Token::LoginAck(ack));
    let features = vec![Feature {
        id: 0x0A,
        data: vec![1],
    }];
    put_feature_ack(&features, &mut out);
    expected.push(Token::FeatureAck(features));
    put_return_status(-6, &mut out);
    expected.push(Token::ReturnStatus(-6));
    let info = TypeInfo::nullable(DataType::NVarChar(Len(30)), WireCollation::DEFAULT);
    let value = ReturnValue::output(2, "@out", info, Value::str("given back"));
    value.encode(version, &mut out).unwrap();
    expected.push(Token::ReturnValue(value));
    put_order(&[2, 1], &mut out);
    expected.push(Token::Order(vec![2, 1]));
    let tables = vec![vec!["dbo.t".to_string()]];
    put_table_names(&tables, version, &mut out);
    expected.push(Token::TableNames(tables));
    let infos = vec![
        ColInfo {
            column: 1,
            table: 1,
            status: col_info_status::KEY,
            base_name: None,
        },
        ColInfo {
            column: 2,
            table: 1,
            status: col_info_status::DIFFERENT_NAME,
            base_name: Some("base".into()),
        },
    ];
    put_col_info(&infos, &mut out);
    expected.push(Token::ColInfo(infos));
    for kind in [DoneKind::InProc, DoneKind::Proc, DoneKind::Done] {
        let done = Done::counted(kind, done_status::MORE, command::UPDATE, 70_000);
        done.encode(version, &mut out);
        expected.push(Token::Done(done));
    }
    (out, expected)
}

#[test]
fn every_token_in_every_version() {
    for version in VERSIONS {
        let (bytes, expected) = everything(version);
        for step in [1, 7, 4096] {
            assert_eq!(
                read(&bytes, version, step).unwrap(),
                expected,
                "{version:?} in steps of {step}"
            );
        }
    }
}

#[test]
fn a_stream_cut_anywhere_ends_in_an_error_or_between_tokens() {
    let (bytes, expected) = everything(V7_4);
    let mut whole = 0;
    for end in 1..bytes.len() {
        if let Ok(tokens) = read(&bytes[..end], V7_4, 50) {
            assert_eq!(tokens, expected[..tokens.len()]);
            whole += 1;
        }
    }
    assert_eq!(whole, expected.len() - 1);
}

fn wide_columns(version: TdsVersion) -> Vec<Column> {
    let mut columns: Vec<Column> = (0..20)
        .map(|n| column(&format!("c{n}"), DataType::NVARCHAR_MAX, true, version))
        .chain((0..5).map(|n| column(&format!("i{n}"), DataType::Int, n % 2 == 0, version)))
        .collect();
    columns.push(Column {
        table: vec!["dbo".into(), "t".into()],
        ..column("txt", DataType::Text, true, version)
    });
    columns.push(column("rv", DataType::RowVersion, false, version));
    columns
}

fn wide_row(nulls: bool) -> Vec<Value> {
    let text = |n: usize| {
        if nulls && !n.is_multiple_of(3) {
            Value::Null
        } else {
            Value::str(format!("text {n}"))
        }
    };
    let mut row: Vec<Value> = (0..20).map(text).collect();
    row.extend((0..5).map(|n| {
        if nulls && n % 2 == 0 {
            Value::Null
        } else {
            Value::Int(n)
        }
    }));
    row.push(if nulls {
        Value::Null
    } else {
        Value::str("long ago")
    });
    row.push(Value::Bytes(vec![0, 0, 0, 0, 0, 0, 7, 0xD1]));
    row
}

#[test]
fn rows_with_and_without_nulls_in_every_version() {
    for version in VERSIONS {
        let columns = wide_columns(version);
        let mut out = Vec::new();
        put_column_metadata(&columns, version, &mut out);
        let encoder = RowEncoder::new(&columns, version);
        let first_row = out.len();
        encoder.encode(&wide_row(false), &mut out).unwrap();
        let second_row = out.len();
        encoder.encode(&wide_row(true), &mut out).unwrap();
        assert_eq!(out[first_row], token_byte::ROW);
        assert_eq!(
            out[second_row],
            if version.has_nbc_row() {
                token_byte::NBC_ROW
            } else {
                token_byte::ROW
            }
        );
        let tokens = read(&out, version, 333).unwrap();
        let [
            Token::Columns(read_columns),
            Token::Row(first),
            Token::Row(second),
        ] = tokens.as_slice()
        else {
            panic!("{tokens:?}");
        };
        assert_eq!((first, second), (&wide_row(false), &wide_row(true)));
        assert_eq!(read_columns[26].data_type(), DataType::RowVersion);
        assert_eq!(read_columns.len(), columns.len());
        if version.has_wide_fields() {
            assert_eq!(**read_columns, *columns);
        }
    }
}

#[test]
fn bitmap_has_the_lowest_bit_first() {
    let columns: Vec<Column> = (0..9)
        .map(|_| column("", DataType::NVARCHAR_MAX, true, V7_4))
        .collect();
    let mut row = vec![Value::Null; 9];
    row[1] = Value::str("");
    let mut out = Vec::new();
    RowEncoder::new(&columns, V7_4)
        .encode(&row, &mut out)
        .unwrap();
    assert_eq!(out[..3], [token_byte::NBC_ROW, 0b1111_1101, 0b1]);
}

#[test]
fn bad_row_leaves_no_trace() {
    let columns = [
        column("a", DataType::Int, false, V7_4),
        column("b", DataType::Int, true, V7_4),
    ];
    let encoder = RowEncoder::new(&columns, V7_4);
    let mut out = vec![9];
    let refused = encoder.encode(&[Value::Null, Value::Int(1)], &mut out);
    assert_eq!(refused, Err(TdsError::NullNotAllowed.in_column(0)));
    let refused = encoder.encode(&[Value::Int(1), Value::BigInt(1 << 40)], &mut out);
    assert_eq!(
        refused,
        Err(TdsError::OutOfRange { expected: "int" }.in_column(1))
    );
    let refused = encoder.encode(&[], &mut out);
    assert_eq!(
        refused,
        Err(TdsError::ColumnCount {
            expected: 2,
            found: 0
        })
    );
    assert_eq!(out, [9]);
}

#[test]
fn null_of_a_fixed_column_is_refused_in_a_bitmap_row_too() {
    let mut columns: Vec<Column> = (0..3)
        .map(|_| column("", DataType::NVARCHAR_MAX, true, V7_4))
        .collect();
    columns.push(column("a", DataType::Int, false, V7_4));
    let refused = RowEncoder::new(&columns, V7_4).encode(&vec![Value::Null; 4], &mut Vec::new());
    assert_eq!(refused, Err(TdsError::NullNotAllowed.in_column(3)));
}

#[test]
fn no_metadata_reads_as_no_columns() {
    let mut out = Vec::new();
    put_no_metadata(&mut out);
    assert_eq!(
        read(&out, V7_4, 10).unwrap(),
        [Token::Columns(Arc::from([]))]
    );
}

#[test]
fn decoder_follows_the_acknowledged_version() {
    let mut out = Vec::new();
    let ack = LoginAck {
        version: V7_1Rev1,
        program: "x".into(),
        major: 8,
        minor: 0,
        build: 0,
    };
    ack.encode(&mut out);
    assert_eq!(out[4..8], [0x71, 0, 0, 1]);
    Done::new(DoneKind::Done, 0, 0).encode(V7_1Rev1, &mut out);
    assert_eq!(read(&out, V7_4, 100).unwrap().len(), 2);
    out.clear();
    LoginAck {
        version: V7_1,
        ..ack
    }
    .encode(&mut out);
    assert_eq!(out[4..8], [7, 1, 0, 0]);
}

#[test]
fn large_values_arrive_in_pieces() {
    let columns = [column("v", DataType::VARBINARY_MAX, true, V7_4)];
    let value = Value::Bytes((0..3_000_000_u32).map(|n| n as u8).collect());
    let mut out = Vec::new();
    put_column_metadata(&columns, V7_4, &mut out);
    RowEncoder::new(&columns, V7_4)
        .encode(std::slice::from_ref(&value), &mut out)
        .unwrap();
    Done::attention().encode(V7_4, &mut out);
    let tokens = read(&out, V7_4, 4088).unwrap();
    assert_eq!(tokens[1], Token::Row(vec![value]));
    assert_eq!(tokens[2], Token::Done(Done::attention()));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 1..200), old in any::<bool>()) {
        let mut decoder = TokenDecoder::new(if old { V7_1 } else { V7_4 });
        decoder.feed(&bytes, true);
        while let Ok(Some(_)) = decoder.next_token() {}
    }

    #[test]
    fn damaged_streams_never_panic(at in 0_usize..700, with in any::<u8>()) {
        let (mut bytes, _) = everything(V7_4);
        put_column_metadata(&wide_columns(V7_4), V7_4, &mut bytes);
        RowEncoder::new(&wide_columns(V7_4), V7_4).encode(&wide_row(true), &mut bytes).unwrap();
        let at = at % bytes.len();
        bytes[at] = with;
        let mut decoder = TokenDecoder::new(V7_4);
        decoder.feed(&bytes, true);
        while let Ok(Some(_)) = decoder.next_token() {}
    }

    #[test]
    fn any_row_survives(ints in proptest::collection::vec(any::<Option<i64>>(), 1..40), text in "\\PC{0,40}") {
        let mut columns: Vec<Column> = ints.iter().map(|_| column("i", DataType::BigInt, true, V7_4)).collect();
        columns.push(column("t", DataType::NVarChar(Len(100)), false, V7_4));
        let mut row: Vec<Value> = ints.iter().map(|n| n.map_or(Value::Null, Value::BigInt)).collect();
        row.push(Value::str(&text));
        let mut out = Vec::new();
        put_column_metadata(&columns, V7_4, &mut out);
        RowEncoder::new(&columns, V7_4).encode(&row, &mut out).unwrap();
        prop_assert_eq!(&read(&out, V7_4, 64).unwrap()[1], &Token::Row(row));
    }
}
