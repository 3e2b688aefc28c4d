//! TDS from both sides.

use daruma_tds::login::Login7;
use daruma_tds::packet::{
    LOGIN_BYTES_MAX, MessageAssembler, PACKET_BYTES_MAX, PacketReader, PacketType,
};
use daruma_tds::prelogin::Prelogin;
use daruma_tds::request::{BulkDecoder, ParamValue, RpcRequest, SqlBatch, TransactionRequest};
use daruma_tds::token::TokenDecoder;
use daruma_tds::{TdsError, TdsVersion};
use daruma_value::{DataType, Value};

const VERSIONS: [TdsVersion; 5] = [
    TdsVersion::V7_1,
    TdsVersion::V7_2,
    TdsVersion::V7_3B,
    TdsVersion::V7_4,
    TdsVersion::V8_0,
];

fn version(choice: u8) -> TdsVersion {
    VERSIONS[usize::from(choice) % VERSIONS.len()]
}

/// First byte: version; second: 0 for a stream of packets, else the type of one message whose body follows.
pub fn server(bytes: &[u8]) {
    let [choice, kind, rest @ ..] = bytes else {
        return;
    };
    let version = version(*choice);
    match kind {
        0 => stream(rest, version),
        kind => {
            if let Ok(kind) = PacketType::from_byte(*kind) {
                message(kind, rest, version);
            }
        }
    }
}

fn stream(bytes: &[u8], version: TdsVersion) {
    let mut reader = PacketReader::new(PACKET_BYTES_MAX);
    let mut assembler = MessageAssembler::new(LOGIN_BYTES_MAX);
    for chunk in bytes.chunks(100) {
        reader.feed(chunk);
        while let Ok(Some(packet)) = reader.next_packet() {
            match assembler.push(&packet) {
                Ok(Some(whole)) => message(whole.packet_type, &whole.body, version),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }
}

fn message(kind: PacketType, body: &[u8], version: TdsVersion) {
    match kind {
        PacketType::Prelogin => drop(Prelogin::decode(body).map(|p| p.instance_name())),
        PacketType::Login => drop(Login7::decode(body)),
        PacketType::Batch => drop(SqlBatch::decode(body, version)),
        PacketType::Rpc => rpc(body, version),
        PacketType::TransactionManager => drop(TransactionRequest::decode(body, version)),
        PacketType::Bulk => assert_eq!(
            bulk(body, body.len(), version),
            bulk(body, 7, version),
            "packets do not matter"
        ),
        _ => {}
    }
}

/// What was read can be written, and is read as the same.
fn rpc(body: &[u8], version: TdsVersion) {
    let Ok(request) = RpcRequest::decode(body, version) else {
        return;
    };
    tables(&request);
    let mut written = Vec::new();
    if request.encode(version, &mut written).is_err() {
        return;
    }
    match RpcRequest::decode(&written, version) {
        Ok(again) => assert_eq!(
            format!("{:?}", unpadded(again)),
            format!("{:?}", unpadded(request))
        ),
        Err(error) => panic!("{error} in what was written of {request:?}"),
    }
}

/// Rows of tables are read again one by one.
fn tables(request: &RpcRequest) {
    let params = request.calls.iter().flat_map(|call| &call.params);
    for table in params.filter_map(|param| param.table()) {
        let mut count = 0;
        let read = table.each_row(|row| {
            assert_eq!(row.len(), table.columns.len());
            count += 1;
            Ok::<(), TdsError>(())
        });
        assert_eq!(read, Ok(()), "rows were read once");
        assert_eq!(count, table.rows.len());
    }
}

/// Values of fixed length may be sent without their padding, and are written with it.
fn unpadded(mut request: RpcRequest) -> RpcRequest {
    for param in request.calls.iter_mut().flat_map(|call| &mut call.params) {
        match &mut param.value {
            ParamValue::Scalar { type_info, value } => unpad(type_info.data_type(), value),
            // Its rows stay in the bytes that they were sent in.
            ParamValue::Table(_) => {}
        }
    }
    request
}

fn unpad(data_type: DataType, value: &mut Value) {
    match (data_type, value) {
        (DataType::Char(_) | DataType::NChar(_), Value::Str(text)) => {
            text.truncate(text.trim_end_matches(' ').len());
        }
        (DataType::Binary(_), Value::Bytes(bytes)) => {
            let end = bytes.iter().rposition(|byte| *byte != 0);
            bytes.truncate(end.map_or(0, |last| last + 1));
        }
        _ => {}
    }
}

fn bulk(body: &[u8], packet_bytes: usize, version: TdsVersion) -> Vec<String> {
    let mut decoder = BulkDecoder::new(version);
    let mut events = Vec::new();
    let pieces = body.chunks(packet_bytes.max(1));
    let count = pieces.len();
    for (number, piece) in pieces.enumerate() {
        decoder.feed(piece, number + 1 == count);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(format!("{event:?}")),
                Ok(None) => break,
                Err(_) => return events,
            }
        }
    }
    events
}

/// First byte: version; the rest a reply, which reads the same whole and in small packets.
pub fn client(bytes: &[u8]) {
    let [choice, reply @ ..] = bytes else {
        return;
    };
    let version = version(*choice);
    let whole = tokens(reply, reply.len(), version);
    assert_eq!(whole, tokens(reply, 11, version), "packets do not matter");
}

fn tokens(reply: &[u8], packet_bytes: usize, version: TdsVersion) -> Vec<String> {
    let mut decoder = TokenDecoder::new(version);
    let mut tokens = Vec::new();
    let pieces = reply.chunks(packet_bytes.max(1));
    let count = pieces.len();
    for (number, piece) in pieces.enumerate() {
        decoder.feed(piece, number + 1 == count);
        loop {
            match decoder.next_token() {
                Ok(Some(token)) => tokens.push(format!("{token:?}")),
                Ok(None) => break,
                Err(_) => return tokens,
            }
        }
    }
    tokens
}
