//! Code pages of `varchar` data.
//!
//! Windows pages come from `encoding_rs`; the two DOS pages of the oldest SQL collations are tables here.
//! Characters that a page lacks are written as `?`.

use compact_str::CompactString;
use encoding_rs::{EncoderResult, Encoding};

/// How `char`, `varchar` and `text` bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CodePage {
    /// Collations named `_UTF8`.
    Utf8,
    /// A page that `encoding_rs` knows.
    Windows(&'static Encoding),
    /// The upper 128 characters.
    Dos(&'static str),
}

const CP437: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒ\
    áíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐\
    └┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀\
    αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{A0}";

const CP850: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒ\
    áíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐\
    └┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀\
    ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{AD}±‗¾¶§÷¸°¨·¹³²■\u{A0}";

impl CodePage {
    /// Windows-1252, which unknown pages are read as.
    pub const LATIN1: CodePage = CodePage::Windows(encoding_rs::WINDOWS_1252);

    /// The page with this Windows number; unknown ones read as 1252.
    pub fn from_number(number: u16) -> CodePage {
        use encoding_rs as e;
        CodePage::Windows(match number {
            437 => return CodePage::Dos(CP437),
            850 => return CodePage::Dos(CP850),
            65001 => return CodePage::Utf8,
            874 => e::WINDOWS_874,
            932 => e::SHIFT_JIS,
            936 => e::GBK,
            949 => e::EUC_KR,
            950 => e::BIG5,
            1250 => e::WINDOWS_1250,
            1251 => e::WINDOWS_1251,
            1253 => e::WINDOWS_1253,
            1254 => e::WINDOWS_1254,
            1255 => e::WINDOWS_1255,
            1256 => e::WINDOWS_1256,
            1257 => e::WINDOWS_1257,
            1258 => e::WINDOWS_1258,
            _ => e::WINDOWS_1252,
        })
    }

    /// The text of bytes in this page; what is no text becomes U+FFFD.
    pub fn decode(self, bytes: &[u8]) -> CompactString {
        // Of every page, and at once; the lossy way goes from character to character.
        match std::str::from_utf8(bytes) {
            Ok(text) if self == CodePage::Utf8 || text.is_ascii() => return text.into(),
            _ => {}
        }
        match self {
            CodePage::Utf8 => CompactString::from_utf8_lossy(bytes),
            CodePage::Windows(encoding) => {
                CompactString::from(encoding.decode_without_bom_handling(bytes).0)
            }
            CodePage::Dos(upper) => bytes.iter().map(|byte| dos_char(upper, *byte)).collect(),
        }
    }

    /// Appends `text` in this page.
    pub fn encode(self, text: &str, out: &mut Vec<u8>) {
        match self {
            _ if text.is_ascii() => out.extend_from_slice(text.as_bytes()),
            CodePage::Utf8 => out.extend_from_slice(text.as_bytes()),
            CodePage::Windows(encoding) => encode_windows(encoding, text, out),
            CodePage::Dos(upper) => out.extend(text.chars().map(|c| dos_byte(upper, c))),
        }
    }
}

fn dos_char(upper: &str, byte: u8) -> char {
    if byte.is_ascii() {
        return char::from(byte);
    }
    upper
        .chars()
        .nth(usize::from(byte - 0x80))
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn dos_byte(upper: &str, c: char) -> u8 {
    if c.is_ascii() {
        return c as u8;
    }
    let position = upper.chars().position(|candidate| candidate == c);
    position
        .and_then(|index| u8::try_from(index + 0x80).ok())
        .unwrap_or(b'?')
}

fn encode_windows(encoding: &'static Encoding, text: &str, out: &mut Vec<u8>) {
    let mut encoder = encoding.new_encoder();
    let mut rest = text;
    loop {
        out.reserve(rest.len().max(16) * 2);
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, out, true);
        rest = rest.get(read..).unwrap_or_default();
        match result {
            EncoderResult::InputEmpty => return,
            EncoderResult::OutputFull => {}
            EncoderResult::Unmappable(_) => out.push(b'?'),
        }
    }
}
