//! Names of constraints that nobody named: kind, parts of table and column, and digits that make them unique.

use daruma_catalog::ObjectId;

/// `PK__t__3213E83F0EA330E9`: keys carry sixteen digits.
pub(crate) fn key(prefix: &str, table: &str, id: ObjectId) -> String {
    format!("{prefix}__{}__{}", start(table, 8), long_digits(id))
}

/// `DF__t__c__24927208`.
pub(crate) fn column(prefix: &str, table: &str, column: &str, id: ObjectId) -> String {
    format!(
        "{prefix}__{}__{}__{:08X}",
        start(table, 9),
        start(column, 5),
        id as u32
    )
}

/// `CK__t__24927208`.
pub(crate) fn table(prefix: &str, table: &str, id: ObjectId) -> String {
    format!("{prefix}__{}__{:08X}", start(table, 9), id as u32)
}

fn start(name: &str, chars: usize) -> String {
    name.chars().take(chars).collect()
}

/// The id's own digits and eight more that follow from it.
fn long_digits(id: ObjectId) -> String {
    let mixed = (id as u32).wrapping_mul(0x9E37_79B1) ^ 0x5A5A_1234;
    format!("{:08X}{mixed:08X}", id as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_look_like_the_products() {
        assert_eq!(
            column("DF", "Orders", "Status", 0x37A5_467C),
            "DF__Orders__Statu__37A5467C"
        );
        let name = key("PK", "t", 0x3213_E83F);
        assert!(name.starts_with("PK__t__3213E83F"), "{name}");
        assert_eq!(name.len(), 23);
    }
}
