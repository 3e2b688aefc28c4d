//! `varchar` code pages: what a character becomes as bytes, and back.
//!
//! Theory: text is UTF-8 inside the engine; code pages matter where bytes are counted, shown or sent. Characters that
//! a page lacks become `?`. Single-byte pages decode every byte, so that bytes survive a round trip.

use encoding_rs::{BIG5, EUC_KR, Encoding, GBK, SHIFT_JIS, WINDOWS_874};
use std::borrow::Cow;

const UTF8: u16 = 65001;

/// Upper halves (0x80 to 0xFF) of the two DOS pages.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";
const CP850: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐└┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";

enum Page {
    Utf8,
    Dos(&'static str),
    Other(&'static Encoding),
}

fn page(code_page: u16) -> Page {
    match code_page {
        UTF8 => Page::Utf8,
        437 => Page::Dos(CP437),
        850 => Page::Dos(CP850),
        874 => Page::Other(WINDOWS_874),
        932 => Page::Other(SHIFT_JIS),
        936 => Page::Other(GBK),
        949 => Page::Other(EUC_KR),
        950 => Page::Other(BIG5),
        1250 => Page::Other(encoding_rs::WINDOWS_1250),
        1251 => Page::Other(encoding_rs::WINDOWS_1251),
        1253 => Page::Other(encoding_rs::WINDOWS_1253),
        1254 => Page::Other(encoding_rs::WINDOWS_1254),
        1255 => Page::Other(encoding_rs::WINDOWS_1255),
        1256 => Page::Other(encoding_rs::WINDOWS_1256),
        1257 => Page::Other(encoding_rs::WINDOWS_1257),
        1258 => Page::Other(encoding_rs::WINDOWS_1258),
        _ => Page::Other(encoding_rs::WINDOWS_1252),
    }
}

/// Text as bytes of a code page; `?` for what it lacks.
pub fn encode_code_page(text: &str, code_page: u16) -> Vec<u8> {
    if text.is_ascii() {
        return text.as_bytes().to_vec();
    }
    match page(code_page) {
        Page::Utf8 => text.as_bytes().to_vec(),
        Page::Dos(upper) => text
            .chars()
            .map(|c| dos_byte(c, upper).unwrap_or(b'?'))
            .collect(),
        Page::Other(encoding) => {
            let mut out = Vec::with_capacity(text.len());
            let mut buffer = [0; 4];
            for c in text.chars() {
                match encoding.encode(c.encode_utf8(&mut buffer)) {
                    (bytes, _, false) => out.extend_from_slice(&bytes),
                    _ => out.push(b'?'),
                }
            }
            out
        }
    }
}

fn dos_byte(c: char, upper: &str) -> Option<u8> {
    if c.is_ascii() {
        return Some(c as u8);
    }
    upper.chars().position(|u| u == c).map(|at| at as u8 | 0x80)
}

/// Bytes of a code page as text.
pub fn decode_code_page(bytes: &[u8], code_page: u16) -> String {
    match page(code_page) {
        Page::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Page::Dos(upper) => bytes
            .iter()
            .map(|b| {
                if b.is_ascii() {
                    char::from(*b)
                } else {
                    upper.chars().nth(usize::from(b & 0x7F)).unwrap_or('?')
                }
            })
            .collect(),
        Page::Other(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
    }
}

/// Bytes that one character takes in a code page; 1 for what it lacks.
pub fn encoded_len(c: char, code_page: u16) -> usize {
    if c.is_ascii() {
        return 1;
    }
    match code_page {
        UTF8 => c.len_utf8(),
        932 | 936 | 949 | 950 => {
            let mut buffer = [0; 4];
            encode_code_page(c.encode_utf8(&mut buffer), code_page).len()
        }
        _ => 1,
    }
}

/// The text with every character that the code page lacks replaced by `?`.
pub(super) fn representable(text: &str, code_page: u16) -> Cow<'_, str> {
    if text.is_ascii() || code_page == UTF8 {
        return Cow::Borrowed(text);
    }
    let mut buffer = [0; 4];
    let keeps = |c: char| {
        let mut inner = [0; 4];
        c.is_ascii() || encode_code_page(c.encode_utf8(&mut inner), code_page) != b"?"
    };
    if text.chars().all(keeps) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| {
                if keeps(c) {
                    &*c.encode_utf8(&mut buffer)
                } else {
                    "?"
                }
                .to_string()
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dos_pages_have_128_characters() {
        assert_eq!((CP437.chars().count(), CP850.chars().count()), (128, 128));
    }

    #[test]
    fn single_byte_pages_round_trip() {
        let all: Vec<u8> = (0..=255).collect();
        for page in [437, 850, 1252, 1250, 1251] {
            let text = decode_code_page(&all, page);
            assert_eq!(text.chars().count(), 256, "{page}");
            assert_eq!(encode_code_page(&text, page), all, "{page}");
        }
    }

    #[test]
    fn lengths_and_losses() {
        assert_eq!(encode_code_page("€é中", 1252), b"\x80\xE9?");
        assert_eq!(
            (
                encoded_len('中', 936),
                encoded_len('中', UTF8),
                encoded_len('é', 1252)
            ),
            (2, 3, 1)
        );
        assert_eq!(representable("é中", 1252), "é?");
        assert_eq!(
            decode_code_page(&encode_code_page("日本", 932), 932),
            "日本"
        );
    }
}
