//! The join token: where a member listens, which certificate it has, and the certificate with its key by which new nodes ask to be
//! let in. Its holder may add a node, until the next token is made: it is a secret.

use crate::codec::{CodecError, Writer, seal, unseal};
use crate::identity::Pair;
use crate::state::TEXT_CHARS_MAX;
use std::fmt::Write as _;

const MAGIC: &[u8; 8] = b"DARUMAT1";
const WORD: &str = "daruma-cluster-1-";
/// A longer one is none of ours.
const CHARS_MAX: usize = 16 << 10;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(crate) cluster: u128,
    /// Of the member that made it.
    pub(crate) address: String,
    /// SHA-256 of that member's certificate.
    pub(crate) fingerprint: [u8; 32],
    pub(crate) join: Pair,
}

impl Token {
    /// As it is printed.
    pub fn encode(&self) -> String {
        let mut w = Writer::default();
        w.u128(self.cluster);
        w.bytes(self.address.as_bytes());
        w.bytes(&self.fingerprint);
        self.join.write(&mut w);
        let mut text = WORD.to_string();
        for byte in seal(MAGIC, w) {
            // A string takes everything.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// From what was typed.
    pub fn decode(text: &str) -> Result<Token, CodecError> {
        let bad = CodecError("join token");
        let digits = text.trim().strip_prefix(WORD).ok_or(bad)?;
        if digits.len() > CHARS_MAX || !digits.len().is_multiple_of(2) {
            return Err(bad);
        }
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.ok_or(bad)?;
        let mut r = unseal(MAGIC, &bytes)?;
        let token = Token {
            cluster: r.u128()?,
            address: String::from_utf8(r.bytes(4 * TEXT_CHARS_MAX)?.to_vec()).map_err(|_| bad)?,
            fingerprint: <[u8; 32]>::try_from(r.bytes(32)?).map_err(|_| bad)?,
            join: Pair::read(&mut r)?,
        };
        r.end()?;
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_and_nothing_else_does() {
        let token = Token {
            cluster: 7,
            address: "hällo:5".into(),
            fingerprint: [3; 32],
            join: Pair::make().expect("a certificate"),
        };
        let text = token.encode();
        assert!(Token::decode(&format!(" {text}\n")).is_ok_and(|t| t == token));
        for cut in 0..text.len() {
            assert!(Token::decode(&text[..cut]).is_err(), "{cut}");
        }
        let mut other = text.clone();
        other.replace_range(40..41, if &text[40..41] == "0" { "1" } else { "0" });
        assert!(Token::decode(&other).is_err());
        assert!(Token::decode("daruma-cluster-1-ä").is_err());
    }
}
