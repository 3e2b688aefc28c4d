//! Findings of storage and rows in the product's words and numbers.

use super::report::Place;
use crate::error::SqlError;
use crate::messages;
use daruma_base::PageId;
use daruma_catalog::TableDef;
use daruma_storage::{Finding, FindingKind};

/// Every allocation unit here holds rows and the values that were moved out of them.
const UNIT: &str = "In-row data";

/// A table or index by the names that messages use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'n> {
    pub table: &'n str,
    pub object: i32,
    pub index: &'n str,
    pub index_id: i32,
}

/// `other` is the second owner of a page that is used twice.
pub(super) fn finding(
    finding: &Finding,
    place: Place,
    other: Place,
    database: u16,
) -> Vec<SqlError> {
    let page = finding.page;
    let Place {
        object,
        index,
        partition,
        ..
    } = place;
    let at = |number: i32, more: &[&dyn std::fmt::Display]| {
        let mut args: Vec<&dyn std::fmt::Display> =
            vec![&object, &index, &partition, &partition, &UNIT];
        args.extend_from_slice(more);
        messages::error(number, &args)
    };
    let none = PageId::NONE;
    match &finding.kind {
        FindingKind::Unreadable {
            test,
            expected,
            found,
        } => vec![
            at(8939, &[&page, test, expected, found]),
            at(8928, &[&page]),
        ],
        FindingKind::Foreign => vec![messages::error(
            2533,
            &[&page, &object, &index, &partition, &partition, &UNIT],
        )],
        FindingKind::Level { found, expected } => vec![at(8931, &[&page, found, expected, &none])],
        FindingKind::KeyOrder { slot } => vec![at(2511, &[&page, &slot.saturating_sub(1), slot])],
        FindingKind::KeyRange {
            level,
            parent,
            parent_slot,
            ..
        } => vec![at(8933, &[&page, level, parent, parent_slot])],
        FindingKind::Chain { next, expected } => {
            vec![at(8936, &[&page, next, expected, &page])]
        }
        FindingKind::Entry { slot, what } => vec![at(8944, &[&page, slot, what, &0, &0])],
        FindingKind::BlobLength { .. } => {
            let id = page.to_u64();
            vec![at(8961, &[&page, &0, &id, &none, &0])]
        }
        FindingKind::UsedTwice { .. } => {
            let mut args: Vec<&dyn std::fmt::Display> = vec![&page, &database];
            args.extend_from_slice(&[&object, &index, &partition, &partition, &UNIT]);
            let Place {
                object,
                index,
                partition,
                ..
            } = &other;
            args.extend_from_slice(&[object, index, partition, partition, &UNIT]);
            vec![messages::error(8910, &args)]
        }
        FindingKind::MarkedFree { map } => {
            vec![messages::error(8948, &[&page, map, &"0", &"40"])]
        }
        FindingKind::Leak { map } => {
            vec![messages::error(
                8906,
                &[&page, &database, map, map, &"ALLOCATED"],
            )]
        }
    }
}

pub(super) fn missing_entry(
    named: Named<'_>,
    row: (PageId, usize),
    identified_by: &str,
    values: &str,
) -> Vec<SqlError> {
    let Named {
        table,
        object,
        index,
        index_id,
    } = named;
    let (page, slot) = row;
    vec![
        messages::error(8951, &[&table, &object, &index, &index_id]),
        messages::error(
            8955,
            &[&page.file, &page.page, &slot, &identified_by, &values],
        ),
    ]
}

pub(super) fn extra_entry(
    named: Named<'_>,
    entry: (PageId, usize),
    identified_by: &str,
    values: &str,
) -> Vec<SqlError> {
    let Named {
        table,
        object,
        index,
        index_id,
    } = named;
    let (page, slot) = entry;
    vec![
        messages::error(8952, &[&table, &object, &index, &index_id]),
        messages::error(
            8956,
            &[&page.file, &page.page, &slot, &identified_by, &values],
        ),
    ]
}

pub(super) fn bad_value(place: Place, def: &TableDef, column: usize) -> Vec<SqlError> {
    let Some(column) = def.columns.get(column) else {
        return Vec::new();
    };
    let data_type = column.data_type.to_string();
    let Place {
        object,
        index,
        partition,
        page,
        slot,
    } = place;
    vec![messages::error_state(
        2570,
        2,
        &[
            &page,
            &slot,
            &object,
            &index,
            &partition,
            &partition,
            &UNIT,
            &column.name,
            &data_type,
        ],
    )]
}

pub(super) fn unexpected_null(place: Place, def: &TableDef, column: usize) -> Vec<SqlError> {
    let Some(column) = def.columns.get(column) else {
        return Vec::new();
    };
    let Place {
        object,
        index,
        partition,
        page,
        slot,
    } = place;
    vec![messages::error(
        8970,
        &[
            &object,
            &index,
            &partition,
            &partition,
            &UNIT,
            &page,
            &slot,
            &column.name,
        ],
    )]
}
