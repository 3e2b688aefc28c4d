//! NEWSEQUENTIALID: identifiers that grow while the server runs, so that new rows of an index on them lie side by side.
//!
//! Theory: the bytes that order looks at first are drawn by chance once for each run, the others count from the time of
//! the first use. No two runs share the first ones, so that none has to remember how far the last one counted.

use daruma_base::Env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct SequentialIds(OnceLock<Sequence>);

struct Sequence {
    node: [u8; 8],
    next: AtomicU64,
}

impl SequentialIds {
    /// 16 bytes that are greater, as uniqueidentifiers compare, than those before since the start.
    pub fn next(&self, env: &Env) -> [u8; 16] {
        let sequence = self.0.get_or_init(|| {
            let mut node = [0; 8];
            env.random.fill(&mut node);
            // No network card has the bit.
            node[2] |= 1;
            Sequence {
                node,
                next: AtomicU64::new(env.clock.utc_100ns().unsigned_abs()),
            }
        });
        let count = sequence.next.fetch_add(1, Ordering::Relaxed);
        identifier(sequence.node, count)
    }
}

/// Order looks at the last six bytes first, then at 8 and 9, 6 and 7, 4 and 5, and 0 to 3.
fn identifier(node: [u8; 8], count: u64) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h] = count.to_be_bytes();
    let [i, j, k, l, m, n, o, p] = node;
    [e, f, g, h, c, d, a, b, i, j, k, l, m, n, o, p]
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_value::compare::compare;
    use daruma_value::{CollationId, Value};
    use std::cmp::Ordering::Less;

    #[test]
    fn identifiers_grow_whichever_byte_counts_on() {
        for shift in 0..8 {
            let count = (1_u64 << (8 * shift)).wrapping_mul(255);
            let [low, high] = [count, count + 1].map(|n| Value::Guid(identifier([7; 8], n)));
            let found = compare(&low, &high, CollationId::default());
            assert_eq!(found, Some(Less), "{count}");
        }
    }
}
