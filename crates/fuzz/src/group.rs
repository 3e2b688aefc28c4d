//! Messages between replicas.

use daruma_group::compress::unpack;
use daruma_group::wire::{Message, VERSION, decode, encode, frame};

/// First byte: which message; the rest: its body. Head and checksum are put right first, or nothing behind them would ever be reached.
pub fn message(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else {
        return;
    };
    // Bytes as they come, too.
    let _ = decode(bytes);
    let framed = frame(*kind, body);
    let Ok(Some((message, length))) = decode(&framed) else {
        return;
    };
    let mut again = Vec::new();
    encode(VERSION, &message, &mut again);
    assert_eq!(framed.get(..length), Some(&again[..]), "{message:?}");
    if let Message::Block { block, .. } = &message
        && let Ok(plain) = unpack(block)
    {
        assert_eq!(plain.len(), block.plain_bytes as usize);
    }
}
