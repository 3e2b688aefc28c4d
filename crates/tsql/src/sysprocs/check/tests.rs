//! Findings in storage, rows and definitions come out with the product's numbers.

use super::definitions::references;
use super::report::Place;
use super::words;
use crate::error::SqlError;
use daruma_base::PageId;
use daruma_catalog::{ColumnDef, DatabaseCatalog, Object, ObjectKind, TableDef};
use daruma_storage::{Finding, FindingKind};
use daruma_value::{CollationId, DataType};

fn page(page: u32) -> PageId {
    PageId { file: 1, page }
}

fn told(kind: FindingKind) -> Vec<SqlError> {
    let finding = Finding {
        kind,
        page: page(77),
        owner: None,
    };
    let place = |object, index| Place {
        object,
        index,
        ..Place::default()
    };
    words::finding(&finding, place(100, 1), place(200, 2), 5)
}

#[test]
fn each_finding_has_its_number_and_names_its_page() {
    let what = "too short".to_string();
    let kinds = [
        (FindingKind::Foreign, 2533),
        (
            FindingKind::Level {
                found: 2,
                expected: 1,
            },
            8931,
        ),
        (FindingKind::KeyOrder { slot: 4 }, 2511),
        (
            FindingKind::KeyRange {
                slot: 4,
                level: 0,
                parent: page(9),
                parent_slot: 3,
            },
            8933,
        ),
        (
            FindingKind::Chain {
                next: page(8),
                expected: page(9),
            },
            8936,
        ),
        (FindingKind::Entry { slot: 4, what }, 8944),
        (FindingKind::UsedTwice { other: page(9) }, 8910),
        (FindingKind::MarkedFree { map: page(2) }, 8948),
        (FindingKind::Leak { map: page(2) }, 8906),
    ];
    for (kind, number) in kinds {
        let shown = format!("{kind:?}");
        let errors = told(kind);
        let [error] = errors.as_slice() else {
            panic!("{shown}: {errors:?}")
        };
        assert_eq!(error.number, number, "{shown}");
        assert!(error.message.contains("(1:77)"), "{}", error.message);
        assert!(!error.message.contains('%'), "{}", error.message);
    }
}

#[test]
fn both_owners_of_a_page_are_named() {
    let errors = told(FindingKind::UsedTwice { other: page(9) });
    let text = &errors[0].message;
    assert!(text.contains("object ID 100, index ID 1"), "{text}");
    assert!(text.contains("object ID 200, index ID 2"), "{text}");
}

#[test]
fn a_value_outside_of_its_row_is_told_by_its_first_page() {
    let errors = told(FindingKind::BlobLength { bytes: 9, pages: 1 });
    assert_eq!(errors[0].number, 8961);
    let id = page(77).to_u64().to_string();
    assert!(errors[0].message.contains(&id), "{}", errors[0].message);
}

#[test]
fn a_null_where_none_may_be_names_its_row_and_column() {
    let column = ColumnDef {
        id: 1,
        name: "a".to_string(),
        data_type: DataType::Int,
        user_type_id: None,
        nullable: false,
        collation: CollationId::DEFAULT,
        default: None,
        computed: None,
        is_identity: false,
        is_rowguid: false,
        is_sparse: false,
        missing_value: None,
    };
    let def = TableDef {
        columns: vec![column],
        ..TableDef::default()
    };
    let place = Place {
        page: page(77),
        slot: 3,
        ..Place::default()
    };
    let errors = words::unexpected_null(place, &def, 0);
    assert_eq!(errors[0].number, 8970);
    let text = &errors[0].message;
    assert!(text.contains("(1:77)") && text.contains("'a'"), "{text}");
    assert!(words::unexpected_null(place, &def, 1).is_empty());
}

#[test]
fn a_reference_that_leads_nowhere_names_both_sides() {
    let object = Object {
        id: 1000,
        schema_id: 77,
        name: "lost".to_string(),
        created_utc: 0,
        modified_utc: 0,
        kind: ObjectKind::Synonym {
            target: "[dbo].[t]".to_string(),
        },
    };
    let mut found = Vec::new();
    references(&DatabaseCatalog::default(), &object, &[1], &mut found);
    let errors: Vec<SqlError> = found.iter().map(|d| d.told()).collect();
    let [error] = errors.as_slice() else {
        panic!("one reference is missing")
    };
    assert_eq!(error.number, 8992);
    let text = &error.message;
    assert!(text.contains("Msg 3853, State 1"), "{text}");
    assert!(text.contains("schema_id=77"), "{text}");
    assert!(text.contains("object_id=1000"), "{text}");
}
