//! Framing: what is written in pieces of any size is read back whole.

use super::*;
use crate::TdsError;
use proptest::prelude::*;

fn write_message(body: &[u8], packet_bytes: usize) -> Vec<u8> {
    let mut writer = MessageWriter::new(PacketType::Reply, packet_bytes, 51);
    let mut out = Vec::new();
    for piece in body.chunks(700) {
        writer.buffer().extend_from_slice(piece);
        writer.drain_full(&mut out);
    }
    writer.finish(&mut out);
    out
}

fn read_messages(bytes: &[u8], step: usize) -> Vec<Message> {
    let mut reader = PacketReader::new(PACKET_BYTES_MAX);
    let mut assembler = MessageAssembler::new(1 << 20);
    let mut messages = Vec::new();
    for piece in bytes.chunks(step) {
        reader.feed(piece);
        while let Some(packet) = reader.next_packet().unwrap() {
            messages.extend(assembler.push(&packet).unwrap());
        }
    }
    messages
}

#[test]
fn full_packets_but_for_the_last() {
    let body: Vec<u8> = (0..1504_u32).map(|n| n as u8).collect();
    let bytes = write_message(&body, 512);
    let mut reader = PacketReader::new(512);
    reader.feed(&bytes);
    let mut seen = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        seen.push((
            packet.header.length,
            packet.header.status,
            packet.header.packet_id,
        ));
    }
    assert_eq!(seen, [(512, 0, 1), (512, 0, 2), (504, 1, 3)]);
}

#[test]
fn exact_multiple_ends_with_a_full_packet() {
    let bytes = write_message(&[7; 1008], 512);
    assert_eq!(bytes.len(), 1024);
    assert_eq!(read_messages(&bytes, 9).len(), 1);
}

#[test]
fn empty_message_is_one_header() {
    assert_eq!(write_message(&[], 4096), [4, 1, 0, 8, 0, 51, 1, 0]);
}

#[test]
fn partial_drain_is_not_the_end() {
    let mut writer = MessageWriter::new(PacketType::Reply, 4096, 1);
    let mut out = Vec::new();
    writer.buffer().extend_from_slice(b"now");
    writer.drain_partial(&mut out);
    assert!(read_messages(&out, 100).is_empty());
    writer.buffer().extend_from_slice(b"later");
    writer.finish(&mut out);
    assert_eq!(read_messages(&out, 100)[0].body, b"nowlater");
}

#[test]
fn reset_is_marked_on_the_first_packet_only() {
    let mut writer = MessageWriter::new(PacketType::Batch, 512, 0);
    writer.set_reset(Some(Reset::Full));
    writer.buffer().extend_from_slice(&[1; 600]);
    let mut out = Vec::new();
    writer.finish(&mut out);
    assert_eq!((out[1], out[513]), (status::RESET, status::EOM));
    assert_eq!(read_messages(&out, 512)[0].reset, Some(Reset::Full));
}

#[test]
fn given_up_message_has_no_body() {
    let bytes = [1, 0, 0, 9, 0, 0, 1, 0, 65, 1, 3, 0, 9, 0, 0, 2, 0, 66];
    let messages = read_messages(&bytes, 4);
    assert!(messages[0].ignored && messages[0].body.is_empty());
}

#[test]
fn attention_interrupts_a_message() {
    let bytes = [1, 0, 0, 9, 0, 0, 1, 0, 65, 6, 1, 0, 8, 0, 0, 1, 0];
    let messages = read_messages(&bytes, 100);
    assert_eq!(messages[0].packet_type, PacketType::Attention);
    assert!(messages[0].body.is_empty());
}

#[test]
fn limits_hold() {
    let mut reader = PacketReader::new(512);
    reader.feed(&[1, 1, 2, 1, 0, 0, 1, 0]);
    assert!(matches!(
        reader.next_packet(),
        Err(TdsError::TooLong { .. })
    ));
    let mut reader = PacketReader::new(512);
    reader.feed(&[1, 1, 0, 7, 0, 0, 1, 0]);
    assert!(matches!(
        reader.next_packet(),
        Err(TdsError::Unexpected { .. })
    ));
    let mut assembler = MessageAssembler::new(2);
    let header = Header {
        packet_type: PacketType::Batch,
        status: 0,
        length: 11,
        spid: 0,
        packet_id: 1,
    };
    let refused = assembler.push(&Packet {
        header,
        payload: b"abc",
    });
    assert!(matches!(
        refused,
        Err(TdsError::TooLong {
            limit: 2,
            found: 3,
            ..
        })
    ));
}

#[test]
fn unread_bytes_can_be_taken_back() {
    let mut reader = PacketReader::new(4096);
    reader.feed(&[0x12, 1, 0, 9, 0, 0, 1, 0, 0xFF, 0x16, 3, 1]);
    assert!(reader.next_packet().unwrap().is_some());
    assert_eq!(reader.take_unread(), [0x16, 3, 1]);
}

#[test]
fn packet_size_is_bounded_and_a_multiple_of_four() {
    let granted: Vec<usize> = [0, 1, 4095, 8000, 40_000]
        .map(negotiate_packet_bytes)
        .to_vec();
    assert_eq!(granted, [4096, 512, 4092, 8000, 32_764]);
}

proptest! {
    #[test]
    fn any_body_survives(len in 0_usize..9000, packet_bytes in 512_usize..5000, step in 1_usize..6000) {
        let body: Vec<u8> = (0..len).map(|n| (n * 31 % 251) as u8).collect();
        let messages = read_messages(&write_message(&body, packet_bytes), step);
        prop_assert_eq!(messages.len(), 1);
        prop_assert_eq!(&messages[0].body, &body);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut reader = PacketReader::new(PACKET_BYTES_MAX);
        let mut assembler = MessageAssembler::new(4096);
        reader.feed(&bytes);
        while let Ok(Some(packet)) = reader.next_packet() {
            let _ = assembler.push(&packet);
        }
    }
}
