//! Collations by id: the order and equality of text.
//!
//! Theory: a collation is a locale, a choice of which differences count (case, accents, kana, width) and a code page
//! for `varchar` data. The table is generated once from families of names; an id is stored on disk, so families and
//! SQL collations are only ever appended. Linguistic order comes from ICU: *CI_AS* is its secondary strength, *CI_AI*
//! primary, *CS_AS* tertiary, *CS_AI* primary with the case level. Kana and width differ at the tertiary level only,
//! so they count exactly when case does.
//!
//! Invariants
//! 1. `compare`, `equal` and `sort_key` agree for every pair of strings (tests: all ASCII pairs, random Unicode).
//! 2. Trailing blanks never count.
//! 3. Sort keys of linguistic collations change with the ICU data: [`COLLATION_VERSION`] names it, and a database
//!    whose recorded version differs must rebuild its text indexes.
//!
//! Read next: `order`, `like`.

mod case;
mod like;
mod order;
mod search;
mod table;

pub use case::{to_lower, to_upper};
pub use like::{LikePattern, Patience};
pub use order::{COLLATION_VERSION, compare, equal, sort_key};
pub use search::{find, replace};
pub use table::{Sensitivity, all_names};

use serde::{Deserialize, Serialize};

/// Index into the table of supported collations. 0 is the server default, `SQL_Latin1_General_CP1_CI_AS`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct CollationId(pub u16);

impl CollationId {
    /// `SQL_Latin1_General_CP1_CI_AS`.
    pub const DEFAULT: CollationId = CollationId(0);
    /// `Latin1_General_BIN2`, used for catalog names that compare byte by byte.
    pub const BIN2: CollationId = CollationId(1);

    /// Looks a name up without regard to case.
    pub fn from_name(name: &str) -> Option<CollationId> {
        table::by_name(name)
    }

    /// The product's name, such as `Latin1_General_CI_AS`.
    pub fn name(self) -> &'static str {
        &table::info(self).name
    }

    /// The five bytes of the wire: LCID, flags and version in 32 bits little-endian, then the sort id.
    pub fn wire_bytes(self) -> [u8; 5] {
        table::info(self).wire
    }

    /// Finds the collation with these five bytes; all zero means the server's default.
    pub fn from_wire_bytes(bytes: [u8; 5]) -> Option<CollationId> {
        if bytes == [0; 5] {
            return Some(CollationId::DEFAULT);
        }
        table::by_wire(bytes)
    }

    /// Windows code page of `varchar` data; 65001 for UTF-8 collations.
    pub fn code_page(self) -> u16 {
        table::info(self).code_page
    }

    /// The Windows locale that it is for.
    pub fn lcid(self) -> u32 {
        table::info(self).lcid
    }

    /// Compares code points and nothing else?
    pub fn is_binary(self) -> bool {
        table::info(self).sensitivity.binary
    }

    /// Are its `varchar` values UTF-8?
    pub fn is_utf8(self) -> bool {
        self.code_page() == 65001
    }

    /// Do functions count supplementary characters as one (`_SC`, `_UTF8`, version 140)?
    pub fn counts_code_points(self) -> bool {
        table::info(self).supplementary
    }

    /// What it tells apart: case, accents, kana, width.
    pub fn sensitivity(self) -> Sensitivity {
        table::info(self).sensitivity
    }

    /// Description as `fn_helpcollations` shows it.
    pub fn description(self) -> String {
        table::info(self).description()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_bytes_are_the_products() {
        for (name, bytes) in [
            (
                "SQL_Latin1_General_CP1_CI_AS",
                [0x09, 0x04, 0xD0, 0x00, 0x34],
            ),
            (
                "SQL_Latin1_General_CP1_CS_AS",
                [0x09, 0x04, 0xC0, 0x00, 0x33],
            ),
            (
                "SQL_Latin1_General_CP1_CI_AI",
                [0x09, 0x04, 0xF0, 0x00, 0x36],
            ),
            ("Latin1_General_CI_AS", [0x09, 0x04, 0xD0, 0x00, 0x00]),
            ("Latin1_General_CS_AS", [0x09, 0x04, 0xC0, 0x00, 0x00]),
            ("Latin1_General_BIN", [0x09, 0x04, 0x00, 0x01, 0x00]),
            ("Latin1_General_BIN2", [0x09, 0x04, 0x00, 0x02, 0x00]),
            ("Latin1_General_100_CI_AS", [0x09, 0x04, 0xD0, 0x20, 0x00]),
            ("Latin1_General_100_BIN2", [0x09, 0x04, 0x00, 0x22, 0x00]),
            (
                "Latin1_General_100_CI_AS_SC_UTF8",
                [0x09, 0x04, 0xD0, 0x24, 0x00],
            ),
            (
                "Latin1_General_100_BIN2_UTF8",
                [0x09, 0x04, 0x00, 0x26, 0x00],
            ),
        ] {
            let id = CollationId::from_name(name).unwrap_or_else(|| panic!("no collation {name}"));
            assert_eq!(id.wire_bytes(), bytes, "{name}");
            assert_eq!(id.name(), name);
            assert_eq!(
                CollationId::from_wire_bytes(bytes).map(|i| i.wire_bytes()),
                Some(bytes)
            );
        }
        assert_eq!(
            CollationId::from_wire_bytes([0; 5]),
            Some(CollationId::DEFAULT)
        );
        assert_eq!(CollationId::from_wire_bytes([9, 4, 0xD0, 0x24, 0x34]), None);
    }

    #[test]
    fn fixed_ids_and_code_pages() {
        assert_eq!(CollationId::DEFAULT.name(), "SQL_Latin1_General_CP1_CI_AS");
        assert_eq!(CollationId::BIN2.name(), "Latin1_General_BIN2");
        assert_eq!(
            CollationId::from_name("latin1_general_bin2"),
            Some(CollationId::BIN2)
        );
        assert_eq!(CollationId::DEFAULT.code_page(), 1252);
        for (name, page) in [
            ("Japanese_CI_AS", 932),
            ("Cyrillic_General_CI_AS", 1251),
            ("Latin1_General_100_CI_AS_SC_UTF8", 65001),
            ("SQL_Latin1_General_CP850_CI_AS", 850),
            ("Chinese_PRC_CI_AS", 936),
            ("Greek_CI_AI", 1253),
        ] {
            assert_eq!(
                CollationId::from_name(name).map(CollationId::code_page),
                Some(page),
                "{name}"
            );
        }
        assert_eq!(CollationId::from_name("No_Such_CI_AS"), None);
    }

    #[test]
    fn every_name_finds_its_id() {
        for (id, name) in all_names() {
            assert_eq!(CollationId::from_name(name), Some(id));
            assert_eq!(id.name(), name);
        }
        assert!(all_names().count() > 1000);
    }
}
