//! A row that a statement is making: all that makes its columns takes one value of a sequence.
//!
//! Theory: in the product, too, NEXT VALUE FOR gives one value for each row and sequence, whether the statement names it or a
//! DEFAULT does. The host remembers what it gave until the row is made.

use crate::host::Host;

/// Lasts while a row is made; one within another is part of it.
pub(super) struct MadeRow<'a> {
    host: &'a dyn Host,
    begins: bool,
}

impl<'a> MadeRow<'a> {
    /// Begins a row, unless one is under way.
    pub fn begin(host: &'a dyn Host) -> MadeRow<'a> {
        let begins = host.begin_row();
        MadeRow { host, begins }
    }
}

impl Drop for MadeRow<'_> {
    fn drop(&mut self) {
        if self.begins {
            self.host.end_row();
        }
    }
}
