//! The join token: where the primary is, which certificate it has, what the group is called. It is JSON in hexadecimal after a
//! word that says its version; nothing in it is secret.

use daruma_client::value::hex;
use serde_json::{Value, json};

const VERSION: &str = "daruma-group-1-";
/// A longer one is none of ours.
const CHARS_MAX: usize = 4_096;

/// What `daruma group create` tells those who join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub group: String,
    /// The primary's @@SERVERNAME.
    pub server: String,
    /// The primary as -S takes it.
    pub address: String,
    /// SHA-256 of the certificate of its endpoint, in hexadecimal.
    pub fingerprint: String,
}

impl Token {
    /// As it is printed.
    pub fn encode(&self) -> String {
        let Token {
            group,
            server,
            address,
            fingerprint,
        } = self;
        let all = json!({ "group": group, "server": server, "address": address, "fingerprint": fingerprint });
        let digits = hex(all.to_string().as_bytes()).to_lowercase();
        format!("{VERSION}{}", digits.trim_start_matches("0x"))
    }

    /// `None`: it is no token, or one of another version.
    pub fn decode(text: &str) -> Option<Token> {
        let digits = text.trim().strip_prefix(VERSION)?;
        if digits.len() > CHARS_MAX || digits.len() % 2 != 0 {
            return None;
        }
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let all: Value = serde_json::from_slice(&bytes?).ok()?;
        let field = |name: &str| Some(all.get(name)?.as_str()?.to_string());
        Some(Token {
            group: field("group")?,
            server: field("server")?,
            address: field("address")?,
            fingerprint: field("fingerprint")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back() {
        let token = Token {
            group: "shöp".into(),
            server: "alpha".into(),
            address: "alpha,1433".into(),
            fingerprint: "AB".into(),
        };
        let text = token.encode();
        assert_eq!(Token::decode(&text), Some(token));
        assert_eq!(Token::decode(&text[1..]), None);
        assert_eq!(Token::decode(&text[..text.len() - 2]), None);
        assert_eq!(Token::decode("daruma-group-1-zz"), None);
        assert_eq!(
            Token::decode("daruma-group-1-7b7d"),
            None,
            "fields are missing"
        );
    }
}
