//! Names, ids, wire bytes and code pages of the collations.
//!
//! Theory: ids below 256 are the SQL collations, listed one by one; the rest is `256 + family * 64 + flavour`, where a
//! family is a Windows collation name with its version and a flavour the choice of sensitivities. Ids are stored on
//! disk: both lists only grow at the end.

use super::CollationId;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Which differences between strings count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Sensitivity {
    pub case: bool,
    pub accent: bool,
    pub kana: bool,
    pub width: bool,
    /// `_BIN` or `_BIN2`: compare code points; the other fields mean nothing.
    pub binary: bool,
}

pub(super) struct Info {
    pub id: CollationId,
    pub name: String,
    pub locale: &'static str,
    pub lcid: u32,
    pub wire: [u8; 5],
    pub code_page: u16,
    pub sensitivity: Sensitivity,
    pub supplementary: bool,
    /// `_CP1_CS_AS` of the SQL collations puts upper case first.
    pub upper_first: bool,
}

const FAMILY_FIRST: u16 = 256;
const FLAVOURS_PER_FAMILY: u16 = 64;

/// SQL collations: name, locale, LCID, sort id, code page, sensitivity (case, accent), upper first. Append only.
const SQL_COLLATIONS: &[(&str, &str, u32, u8, u16, bool, bool, bool)] = &[
    (
        "SQL_Latin1_General_CP1_CI_AS",
        "und",
        0x409,
        52,
        1252,
        false,
        true,
        false,
    ),
    // Id 1 is CollationId::BIN2, defined below by its Windows name.
    ("", "", 0, 0, 0, false, false, false),
    (
        "SQL_Latin1_General_CP1_CS_AS",
        "und",
        0x409,
        51,
        1252,
        true,
        true,
        true,
    ),
    (
        "SQL_Latin1_General_CP1_CI_AI",
        "und",
        0x409,
        54,
        1252,
        false,
        false,
        false,
    ),
    (
        "SQL_Latin1_General_Pref_CP1_CI_AS",
        "und",
        0x409,
        53,
        1252,
        false,
        true,
        true,
    ),
    (
        "SQL_Latin1_General_CP437_CS_AS",
        "und",
        0x409,
        31,
        437,
        true,
        true,
        true,
    ),
    (
        "SQL_Latin1_General_CP437_CI_AS",
        "und",
        0x409,
        32,
        437,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_Pref_CP437_CI_AS",
        "und",
        0x409,
        33,
        437,
        false,
        true,
        true,
    ),
    (
        "SQL_Latin1_General_CP437_CI_AI",
        "und",
        0x409,
        34,
        437,
        false,
        false,
        false,
    ),
    (
        "SQL_Latin1_General_CP850_CS_AS",
        "und",
        0x409,
        41,
        850,
        true,
        true,
        true,
    ),
    (
        "SQL_Latin1_General_CP850_CI_AS",
        "und",
        0x409,
        42,
        850,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_Pref_CP850_CI_AS",
        "und",
        0x409,
        43,
        850,
        false,
        true,
        true,
    ),
    (
        "SQL_Latin1_General_CP850_CI_AI",
        "und",
        0x409,
        44,
        850,
        false,
        false,
        false,
    ),
    (
        "SQL_1xCompat_CP850_CI_AS",
        "und",
        0x409,
        49,
        850,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1250_CS_AS",
        "und",
        0x409,
        81,
        1250,
        true,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1250_CI_AS",
        "und",
        0x409,
        82,
        1250,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1251_CS_AS",
        "und",
        0x409,
        105,
        1251,
        true,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1251_CI_AS",
        "und",
        0x409,
        106,
        1251,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1253_CS_AS",
        "und",
        0x409,
        113,
        1253,
        true,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1253_CI_AS",
        "und",
        0x409,
        114,
        1253,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1253_CI_AI",
        "und",
        0x409,
        124,
        1253,
        false,
        false,
        false,
    ),
    (
        "SQL_Latin1_General_CP1254_CS_AS",
        "tr",
        0x41F,
        129,
        1254,
        true,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1254_CI_AS",
        "tr",
        0x41F,
        130,
        1254,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1255_CS_AS",
        "und",
        0x409,
        137,
        1255,
        true,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1255_CI_AS",
        "und",
        0x409,
        138,
        1255,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1256_CS_AS",
        "und",
        0x409,
        145,
        1256,
        true,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1256_CI_AS",
        "und",
        0x409,
        146,
        1256,
        false,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1257_CS_AS",
        "und",
        0x409,
        153,
        1257,
        true,
        true,
        false,
    ),
    (
        "SQL_Latin1_General_CP1257_CI_AS",
        "und",
        0x409,
        154,
        1257,
        false,
        true,
        false,
    ),
    (
        "SQL_Scandinavian_CP850_CI_AS",
        "da",
        0x409,
        58,
        850,
        false,
        true,
        false,
    ),
    (
        "SQL_Scandinavian_CP850_CS_AS",
        "da",
        0x409,
        59,
        850,
        true,
        true,
        false,
    ),
    (
        "SQL_Croatian_CP1250_CI_AS",
        "hr",
        0x41A,
        88,
        1250,
        false,
        true,
        false,
    ),
    (
        "SQL_Czech_CP1250_CI_AS",
        "cs",
        0x405,
        84,
        1250,
        false,
        true,
        false,
    ),
    (
        "SQL_Hungarian_CP1250_CI_AS",
        "hu",
        0x40E,
        86,
        1250,
        false,
        true,
        false,
    ),
    (
        "SQL_Polish_CP1250_CI_AS",
        "pl",
        0x415,
        90,
        1250,
        false,
        true,
        false,
    ),
    (
        "SQL_Romanian_CP1250_CI_AS",
        "ro",
        0x418,
        92,
        1250,
        false,
        true,
        false,
    ),
    (
        "SQL_Slovak_CP1250_CI_AS",
        "sk",
        0x41B,
        94,
        1250,
        false,
        true,
        false,
    ),
    (
        "SQL_Slovenian_CP1250_CI_AS",
        "sl",
        0x424,
        96,
        1250,
        false,
        true,
        false,
    ),
    (
        "SQL_Ukrainian_CP1251_CI_AS",
        "uk",
        0x422,
        108,
        1251,
        false,
        true,
        false,
    ),
    (
        "SQL_SwedishStd_Pref_CP1_CI_AS",
        "sv",
        0x40B,
        185,
        1252,
        false,
        true,
        true,
    ),
    (
        "SQL_Danish_Pref_CP1_CI_AS",
        "da",
        0x406,
        183,
        1252,
        false,
        true,
        true,
    ),
    (
        "SQL_Icelandic_Pref_CP1_CI_AS",
        "is",
        0x40F,
        186,
        1252,
        false,
        true,
        true,
    ),
];

/// Windows collations: name, ICU locale, LCID, version (0 = 80, 1 = 90, 2 = 100, 3 = 140), code page. Append only.
const FAMILIES: &[(&str, &str, u32, u8, u16)] = &[
    ("Latin1_General", "und", 0x409, 0, 1252),
    ("Latin1_General_100", "und", 0x409, 2, 1252),
    ("Danish_Norwegian", "da", 0x406, 0, 1252),
    ("Danish_Greenlandic_100", "da", 0x406, 2, 1252),
    ("Norwegian_100", "nb", 0x414, 2, 1252),
    ("Finnish_Swedish", "sv", 0x40B, 0, 1252),
    ("Finnish_Swedish_100", "sv", 0x40B, 2, 1252),
    ("French", "fr", 0x40C, 0, 1252),
    ("French_100", "fr", 0x40C, 2, 1252),
    ("German_PhoneBook", "de-u-co-phonebk", 0x10407, 0, 1252),
    ("German_PhoneBook_100", "de-u-co-phonebk", 0x10407, 2, 1252),
    ("Icelandic", "is", 0x40F, 0, 1252),
    ("Icelandic_100", "is", 0x40F, 2, 1252),
    ("Modern_Spanish", "es", 0xC0A, 0, 1252),
    ("Modern_Spanish_100", "es", 0xC0A, 2, 1252),
    ("Traditional_Spanish", "es-u-co-trad", 0x40A, 0, 1252),
    ("Traditional_Spanish_100", "es-u-co-trad", 0x40A, 2, 1252),
    ("Albanian", "sq", 0x41C, 0, 1250),
    ("Albanian_100", "sq", 0x41C, 2, 1250),
    ("Croatian", "hr", 0x41A, 0, 1250),
    ("Croatian_100", "hr", 0x41A, 2, 1250),
    ("Czech", "cs", 0x405, 0, 1250),
    ("Czech_100", "cs", 0x405, 2, 1250),
    ("Hungarian", "hu", 0x40E, 0, 1250),
    ("Hungarian_100", "hu", 0x40E, 2, 1250),
    ("Polish", "pl", 0x415, 0, 1250),
    ("Polish_100", "pl", 0x415, 2, 1250),
    ("Romanian", "ro", 0x418, 0, 1250),
    ("Romanian_100", "ro", 0x418, 2, 1250),
    ("Slovak", "sk", 0x41B, 0, 1250),
    ("Slovak_100", "sk", 0x41B, 2, 1250),
    ("Slovenian", "sl", 0x424, 0, 1250),
    ("Slovenian_100", "sl", 0x424, 2, 1250),
    ("Cyrillic_General", "ru", 0x419, 0, 1251),
    ("Cyrillic_General_100", "ru", 0x419, 2, 1251),
    ("Ukrainian", "uk", 0x422, 0, 1251),
    ("Ukrainian_100", "uk", 0x422, 2, 1251),
    ("Macedonian_FYROM_90", "mk", 0x42F, 1, 1251),
    ("Greek", "el", 0x408, 0, 1253),
    ("Greek_100", "el", 0x408, 2, 1253),
    ("Turkish", "tr", 0x41F, 0, 1254),
    ("Turkish_100", "tr", 0x41F, 2, 1254),
    ("Azeri_Latin_100", "az", 0x42C, 2, 1254),
    ("Hebrew", "he", 0x40D, 0, 1255),
    ("Hebrew_100", "he", 0x40D, 2, 1255),
    ("Arabic", "ar", 0x401, 0, 1256),
    ("Arabic_100", "ar", 0x401, 2, 1256),
    ("Estonian", "et", 0x425, 0, 1257),
    ("Estonian_100", "et", 0x425, 2, 1257),
    ("Latvian", "lv", 0x426, 0, 1257),
    ("Latvian_100", "lv", 0x426, 2, 1257),
    ("Lithuanian", "lt", 0x427, 0, 1257),
    ("Lithuanian_100", "lt", 0x427, 2, 1257),
    ("Vietnamese", "vi", 0x42A, 0, 1258),
    ("Vietnamese_100", "vi", 0x42A, 2, 1258),
    ("Thai", "th", 0x41E, 0, 874),
    ("Thai_100", "th", 0x41E, 2, 874),
    ("Japanese", "ja", 0x411, 0, 932),
    ("Japanese_90", "ja", 0x411, 1, 932),
    ("Japanese_XJIS_100", "ja", 0x411, 2, 932),
    ("Japanese_XJIS_140", "ja", 0x411, 3, 932),
    (
        "Japanese_Bushu_Kakusu_100",
        "ja-u-co-unihan",
        0x10411,
        2,
        932,
    ),
    ("Japanese_Unicode", "ja", 0x10411, 0, 932),
    ("Chinese_PRC", "zh", 0x804, 0, 936),
    ("Chinese_PRC_90", "zh", 0x804, 1, 936),
    ("Chinese_PRC_Stroke", "zh-u-co-stroke", 0x20804, 0, 936),
    ("Chinese_Simplified_Pinyin_100", "zh", 0x804, 2, 936),
    (
        "Chinese_Simplified_Stroke_Order_100",
        "zh-u-co-stroke",
        0x20804,
        2,
        936,
    ),
    (
        "Chinese_Taiwan_Stroke",
        "zh-Hant-u-co-stroke",
        0x404,
        0,
        950,
    ),
    (
        "Chinese_Taiwan_Stroke_90",
        "zh-Hant-u-co-stroke",
        0x404,
        1,
        950,
    ),
    (
        "Chinese_Traditional_Stroke_Count_100",
        "zh-Hant-u-co-stroke",
        0x404,
        2,
        950,
    ),
    (
        "Chinese_Traditional_Bopomofo_100",
        "zh-Hant-u-co-zhuyin",
        0x30404,
        2,
        950,
    ),
    (
        "Chinese_Hong_Kong_Stroke_90",
        "zh-Hant-u-co-stroke",
        0xC04,
        1,
        950,
    ),
    ("Korean_Wansung", "ko", 0x412, 0, 949),
    ("Korean_90", "ko", 0x412, 1, 949),
    ("Korean_100", "ko", 0x412, 2, 949),
    ("Indic_General_90", "hi", 0x439, 1, 1252),
    ("Indic_General_100", "hi", 0x439, 2, 1252),
];

const FLAG_IGNORE_CASE: u32 = 1 << 20;
const FLAG_IGNORE_ACCENT: u32 = 1 << 21;
const FLAG_IGNORE_KANA: u32 = 1 << 22;
const FLAG_IGNORE_WIDTH: u32 = 1 << 23;
const FLAG_BINARY: u32 = 1 << 24;
const FLAG_BINARY2: u32 = 1 << 25;
const FLAG_UTF8: u32 = 1 << 26;

/// The part of a Windows collation's name after the family, by flavour number: bits 0-3 are the sensitivities,
/// then plain, `_SC` and `_SC_UTF8` blocks of 16, then the binary ones.
#[derive(Clone, Copy)]
struct Flavour(u16);

impl Flavour {
    const BIN: Flavour = Flavour(48);
    const BIN2: Flavour = Flavour(49);
    const BIN2_UTF8: Flavour = Flavour(50);
    const COUNT: u16 = 51;

    fn sensitivity(self) -> Sensitivity {
        if self.0 >= Flavour::BIN.0 {
            return Sensitivity {
                case: true,
                accent: true,
                kana: true,
                width: true,
                binary: true,
            };
        }
        let bit = |n: u16| self.0 & (1 << n) != 0;
        Sensitivity {
            case: bit(0),
            accent: bit(1),
            kana: bit(2),
            width: bit(3),
            binary: false,
        }
    }

    fn is_utf8(self) -> bool {
        (32..48).contains(&self.0) || self.0 == Flavour::BIN2_UTF8.0
    }

    fn suffix(self) -> String {
        match self.0 {
            48 => "_BIN".into(),
            49 => "_BIN2".into(),
            50 => "_BIN2_UTF8".into(),
            _ => {
                let s = self.sensitivity();
                format!(
                    "_{}_{}{}{}{}",
                    if s.case { "CS" } else { "CI" },
                    if s.accent { "AS" } else { "AI" },
                    if s.kana { "_KS" } else { "" },
                    if s.width { "_WS" } else { "" },
                    ["", "_SC", "_SC_UTF8"]
                        .get(usize::from(self.0 / 16))
                        .unwrap_or(&""),
                )
            }
        }
    }

    /// `_SC` and UTF-8 exist from version 90 on, `_SC` is implied by version 140.
    fn exists_in(self, version: u8) -> bool {
        match self.0 / 16 {
            0 => true,
            1 => version == 1 || version == 2,
            2 => version == 1 || version == 2,
            _ => self.0 < Flavour::BIN2_UTF8.0 || version >= 1,
        }
    }

    fn flags(self) -> u32 {
        let mut flags = if self.is_utf8() { FLAG_UTF8 } else { 0 };
        if self.0 == Flavour::BIN.0 {
            return flags | FLAG_BINARY;
        }
        if self.0 >= Flavour::BIN2.0 {
            return flags | FLAG_BINARY2;
        }
        let s = self.sensitivity();
        for (sensitive, flag) in [
            (s.case, FLAG_IGNORE_CASE),
            (s.accent, FLAG_IGNORE_ACCENT),
            (s.kana, FLAG_IGNORE_KANA),
            (s.width, FLAG_IGNORE_WIDTH),
        ] {
            if !sensitive {
                flags |= flag;
            }
        }
        flags
    }
}

impl Info {
    fn sql(index: usize) -> Option<Info> {
        let (name, locale, lcid, sort_id, code_page, case, accent, upper_first) =
            *SQL_COLLATIONS.get(index)?;
        if name.is_empty() {
            return None;
        }
        let sensitivity = Sensitivity {
            case,
            accent,
            kana: false,
            width: false,
            binary: false,
        };
        let mut bits = lcid | FLAG_IGNORE_KANA | FLAG_IGNORE_WIDTH;
        if !case {
            bits |= FLAG_IGNORE_CASE;
        }
        if !accent {
            bits |= FLAG_IGNORE_ACCENT;
        }
        Some(Info {
            id: CollationId(index as u16),
            name: name.to_string(),
            locale,
            lcid,
            wire: wire(bits, sort_id),
            code_page,
            sensitivity,
            supplementary: false,
            upper_first: upper_first && case,
        })
    }

    fn windows(family: usize, flavour: Flavour) -> Option<Info> {
        let (base, locale, lcid, version, code_page) = *FAMILIES.get(family)?;
        if !flavour.exists_in(version) {
            return None;
        }
        let id = if family == 0 && flavour.0 == Flavour::BIN2.0 {
            CollationId::BIN2
        } else {
            CollationId(FAMILY_FIRST + family as u16 * FLAVOURS_PER_FAMILY + flavour.0)
        };
        Some(Info {
            id,
            name: format!("{base}{}", flavour.suffix()),
            locale,
            lcid,
            wire: wire(lcid | flavour.flags() | (u32::from(version) << 28), 0),
            code_page: if flavour.is_utf8() { 65001 } else { code_page },
            sensitivity: flavour.sensitivity(),
            supplementary: version == 3 || (16..48).contains(&flavour.0) || flavour.is_utf8(),
            upper_first: false,
        })
    }

    /// The sentence of `sys.fn_helpcollations`.
    pub fn description(&self) -> String {
        let base = self
            .name
            .split('_')
            .take_while(|p| !matches!(*p, "CI" | "CS" | "BIN" | "BIN2"))
            .collect::<Vec<_>>();
        let s = self.sensitivity;
        if s.binary {
            return format!("{}, binary sort", base.join("-"));
        }
        let word = |on: bool, what: &str| {
            if on {
                format!("{what}-sensitive")
            } else {
                format!("{what}-insensitive")
            }
        };
        format!(
            "{}, {}, {}, {}, {}",
            base.join("-"),
            word(s.case, "case"),
            word(s.accent, "accent"),
            word(s.kana, "kanatype"),
            word(s.width, "width"),
        )
    }
}

fn wire(bits: u32, sort_id: u8) -> [u8; 5] {
    let [a, b, c, d] = bits.to_le_bytes();
    [a, b, c, d, sort_id]
}

struct Table {
    /// Position by id, so that a lookup is one index.
    by_id: Vec<Option<Box<Info>>>,
    by_name: HashMap<String, CollationId>,
    by_wire: HashMap<[u8; 5], CollationId>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(build)
}

fn build() -> Table {
    let sql = (0..SQL_COLLATIONS.len()).filter_map(Info::sql);
    let windows = (0..FAMILIES.len()).flat_map(|family| {
        (0..Flavour::COUNT).filter_map(move |flavour| Info::windows(family, Flavour(flavour)))
    });
    let mut table = Table {
        by_id: Vec::new(),
        by_name: HashMap::new(),
        by_wire: HashMap::new(),
    };
    for info in sql.chain(windows) {
        let slot = usize::from(info.id.0);
        if table.by_id.len() <= slot {
            table.by_id.resize_with(slot + 1, || None);
        }
        table
            .by_name
            .insert(info.name.to_ascii_lowercase(), info.id);
        // Plain and _SC share their bytes: the first wins.
        table.by_wire.entry(info.wire).or_insert(info.id);
        if let Some(place) = table.by_id.get_mut(slot) {
            *place = Some(Box::new(info));
        }
    }
    table
}

/// The collation with this id; an unknown id (a file of a newer release) behaves as the default.
pub(super) fn info(id: CollationId) -> &'static Info {
    let table = table();
    match table.by_id.get(usize::from(id.0)) {
        Some(Some(info)) => info,
        _ => match table.by_id.first() {
            Some(Some(info)) => info,
            _ => unreachable!("the default collation is always built"),
        },
    }
}

/// One more than the highest id.
pub(super) fn slot_count() -> usize {
    table().by_id.len()
}

pub(super) fn by_name(name: &str) -> Option<CollationId> {
    table()
        .by_name
        .get(name.to_ascii_lowercase().as_str())
        .copied()
}

pub(super) fn by_wire(bytes: [u8; 5]) -> Option<CollationId> {
    table().by_wire.get(&bytes).copied()
}

/// Every supported collation, for `fn_helpcollations`.
pub fn all_names() -> impl Iterator<Item = (CollationId, &'static str)> {
    table()
        .by_id
        .iter()
        .flatten()
        .map(|info| (info.id, info.name.as_str()))
}
