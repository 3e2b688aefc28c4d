//! Collations by id: the order and equality of text.

use serde::{Deserialize, Serialize};

/// Index into the table of supported collations. 0 is the server default, `SQL_Latin1_General_CP1_CI_AS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct CollationId(pub u16);

impl CollationId {
    /// `SQL_Latin1_General_CP1_CI_AS`.
    pub const DEFAULT: CollationId = CollationId(0);
    /// `Latin1_General_BIN2`, used for catalog names that compare byte by byte.
    pub const BIN2: CollationId = CollationId(1);
}
