//! Bodies of the records that end a transaction or prepare its end: `Commit` and `Prepare`.
//!
//! ```text
//! Commit   time i64 | if it decides: salt u64, count u16, guids of the other databases u64 each | earlier ids u48 each
//! Prepare  time i64 | coordinator: guid u64, database u16, transaction u48, salt u64 | earlier ids u48 each
//! ```
//! Earlier ids are those that the transaction had before savepoints (`txn`); they end with it.

use super::record::Record;
use crate::bytes::*;
use crate::unit::{Decision, Unit};
use daruma_base::TxnId;

const TIME_BYTES: usize = 8;

/// Body of a `Commit` record; one with a decision is marked by `record::mark_deciding` as well.
pub fn write_commit(
    out: &mut Vec<u8>,
    utc_100ns: i64,
    decision: Option<&Decision>,
    earlier: impl Iterator<Item = TxnId>,
) {
    out.put_u64(utc_100ns as u64);
    if let Some(decision) = decision {
        decision.write(out);
    }
    earlier.for_each(|id| out.put_u48(id.0));
}

/// Body of a `Prepare` record.
pub fn write_prepare(
    out: &mut Vec<u8>,
    utc_100ns: i64,
    unit: &Unit,
    earlier: impl Iterator<Item = TxnId>,
) {
    out.put_u64(utc_100ns as u64);
    unit.write(out);
    earlier.for_each(|id| out.put_u48(id.0));
}

/// Decision of a `Commit` record for other databases, and the transaction's earlier ids. `None` for damage.
pub fn parse_commit<'a>(
    record: &Record<'a>,
) -> Option<(Option<Decision>, impl Iterator<Item = TxnId> + use<'a>)> {
    let mut reader = Reader::new(record.body.get(TIME_BYTES..)?);
    let decision = match record.decides {
        true => Some(Decision::read(&mut reader, record.txn)?),
        false => None,
    };
    let taken = decision.as_ref().map_or(0, Decision::encoded_bytes);
    Some((decision, ids(record.body.get(TIME_BYTES + taken..)?)))
}

/// The unit that a `Prepare` record belongs to, and the transaction's earlier ids. `None` for damage.
pub fn parse_prepare(body: &[u8]) -> Option<(Unit, impl Iterator<Item = TxnId> + '_)> {
    let unit = Unit::read(&mut Reader::new(body.get(TIME_BYTES..)?))?;
    Some((unit, ids(body.get(TIME_BYTES + Unit::BYTES..)?)))
}

fn ids(bytes: &[u8]) -> impl Iterator<Item = TxnId> + '_ {
    let ids = bytes.chunks_exact(6);
    ids.map(|id| TxnId(get_u48(id, 0)))
}

#[cfg(test)]
mod tests {
    use super::super::record::{self, Kind};
    use super::*;
    use daruma_base::Lsn;

    fn body(kind: Kind, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        record::start(&mut out, kind, TxnId(9), Lsn(5));
        write(&mut out);
        record::finish(&mut out);
        out
    }

    #[test]
    fn commits_read_back_with_and_without_a_decision() {
        let decision = Decision {
            txn: TxnId(9),
            salt: 77,
            others: vec![3, 4],
        };
        for decision in [None, Some(decision)] {
            let earlier = [TxnId(5), TxnId(7)];
            let bytes = body(Kind::Commit, |out| {
                if decision.is_some() {
                    record::mark_deciding(out);
                }
                write_commit(out, -1, decision.as_ref(), earlier.into_iter());
            });
            let record = Record::parse(&bytes).expect("a record");
            let (found, ids) = parse_commit(&record).expect("a body");
            assert_eq!((found, ids.collect::<Vec<_>>()), (decision, earlier.into()));
        }
    }

    #[test]
    fn prepares_read_back_and_short_ones_are_damage() {
        let unit = Unit {
            coordinator: 1,
            database: 2,
            txn: TxnId(3),
            salt: 4,
        };
        let bytes = body(Kind::Prepare, |out| {
            write_prepare(out, 8, &unit, [TxnId(1)].into_iter())
        });
        let record = Record::parse(&bytes).expect("a record");
        let (found, ids) = parse_prepare(record.body).expect("a body");
        assert_eq!((found, ids.collect::<Vec<_>>()), (unit, vec![TxnId(1)]));
        for len in 0..TIME_BYTES + Unit::BYTES {
            assert!(parse_prepare(&record.body[..len]).is_none());
        }
    }
}
