//! The five bytes that say how the bytes of a character type are to be read.

use crate::wire::codepage::CodePage;
use daruma_value::CollationId;

/// LCID with flags, then a sort id. All zero stands for the server's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireCollation(pub [u8; 5]);

const UTF8_FLAG: u32 = 1 << 26;
const LCID_MASK: u32 = 0xF_FFFF;

impl WireCollation {
    /// No collation: of types that are no text.
    pub const NONE: WireCollation = WireCollation([0; 5]);
    /// SQL_Latin1_General_CP1_CI_AS.
    pub const DEFAULT: WireCollation = WireCollation([0x09, 0x04, 0xD0, 0x00, 0x34]);

    /// Code page of `char`, `varchar` and `text` data under this collation.
    pub fn code_page(self) -> CodePage {
        let [a, b, c, d, sort_id] = self.0;
        let bits = u32::from_le_bytes([a, b, c, d]);
        if bits & UTF8_FLAG != 0 {
            return CodePage::Utf8;
        }
        let number = match sort_id {
            0 => lcid_page(bits & LCID_MASK),
            other => sort_id_page(other),
        };
        CodePage::from_number(number)
    }
}

impl From<CollationId> for WireCollation {
    fn from(id: CollationId) -> WireCollation {
        WireCollation(id.wire_bytes())
    }
}

/// Sort ids belong to the collations whose names begin with `SQL_`.
const fn sort_id_page(sort_id: u8) -> u16 {
    match sort_id {
        30..=35 => 437,
        40..=49 | 55..=61 => 850,
        80..=98 => 1250,
        104..=108 => 1251,
        112..=124 => 1253,
        128..=130 => 1254,
        136..=138 => 1255,
        144..=146 => 1256,
        152..=160 => 1257,
        192 | 193 | 200 => 932,
        194 | 195 | 201 => 949,
        196 | 197 | 202 => 950,
        198 | 199 | 203 => 936,
        204..=206 => 874,
        _ => 1252,
    }
}

/// By language; the bits above the first 16 choose among orders of the same language.
const fn lcid_page(lcid: u32) -> u16 {
    match lcid & 0xFFFF {
        0x041E => 874,
        0x0411 => 932,
        0x0804 | 0x1004 => 936,
        0x0412 => 949,
        0x0404 | 0x0C04 | 0x1404 => 950,
        0x0405 | 0x040E | 0x0415 | 0x0418 | 0x041A | 0x041B | 0x041C | 0x0424 | 0x0442 | 0x081A
        | 0x101A | 0x141A | 0x181A => 1250,
        0x0402 | 0x0419 | 0x0422 | 0x0423 | 0x042F | 0x043F | 0x0444 | 0x046D | 0x0485 | 0x082C
        | 0x0843 | 0x0C1A | 0x1C1A | 0x201A => 1251,
        0x0408 => 1253,
        0x041F | 0x042C | 0x0443 => 1254,
        0x040D => 1255,
        0x0401 | 0x0420 | 0x0429 | 0x0480 | 0x048C => 1256,
        0x0425..=0x0427 => 1257,
        0x042A => 1258,
        _ => 1252,
    }
}
