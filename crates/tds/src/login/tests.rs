//! LOGIN7 both ways.

use super::*;
use proptest::prelude::*;

fn login(version: TdsVersion) -> Login7 {
    Login7 {
        packet_bytes: 8000,
        host_name: "workstation".into(),
        user_name: "sa".into(),
        password: Secret::new("pä$s"),
        app_name: "app".into(),
        server_name: "server".into(),
        library_name: "lib".into(),
        language: "us_english".into(),
        database: "AdventureWorks2019".into(),
        client_id: [1, 2, 3, 4, 5, 6],
        ..Login7::new(version)
    }
}

#[test]
fn password_bytes() {
    assert_eq!(Secret::new("a").to_wire(), [0xB3, 0xA5]);
    assert_eq!(Secret::from_wire(&[0xB3, 0xA5]).unwrap().reveal(), "a");
    assert_eq!(format!("{:?}", Secret::new("a")), "***");
}

#[test]
fn round_trip_in_every_version() {
    use TdsVersion::*;
    for version in [V7_1, V7_1Rev1, V7_2, V7_3A, V7_3B, V7_4, V8_0] {
        let sent = login(version);
        assert_eq!(Login7::decode(&sent.encode().unwrap()).unwrap(), sent);
    }
}

#[test]
fn features_travel_with_7_4_only() {
    let features = vec![
        Feature {
            id: feature_id::UTF8_SUPPORT,
            data: vec![],
        },
        Feature {
            id: 9,
            data: vec![1],
        },
    ];
    let mut sent = login(TdsVersion::V7_4);
    sent.features = features.clone();
    sent.option_flags3 = option3::EXTENSION;
    let got = Login7::decode(&sent.encode().unwrap()).unwrap();
    assert_eq!(got, sent);
    assert!(got.feature(9).is_some() && got.feature(1).is_none());
    sent.version = TdsVersion::V7_2;
    assert!(
        Login7::decode(&sent.encode().unwrap())
            .unwrap()
            .features
            .is_empty()
    );
}

#[test]
fn sspi_round_trip() {
    let mut sent = login(TdsVersion::V7_4);
    sent.option_flags2 |= option2::INTEGRATED_SECURITY;
    sent.sspi = vec![0x60; 300];
    let got = Login7::decode(&sent.encode().unwrap()).unwrap();
    assert!(got.wants_integrated_security());
    assert_eq!(got.sspi, sent.sspi);
}

#[test]
fn offsets_outside_are_refused() {
    let mut bytes = login(TdsVersion::V7_4).encode().unwrap();
    bytes[36..38].copy_from_slice(&60_000_u16.to_le_bytes());
    assert!(matches!(
        Login7::decode(&bytes),
        Err(crate::TdsError::Overrun {
            what: "host name",
            ..
        })
    ));
}

#[test]
fn other_versions_are_refused() {
    let mut bytes = login(TdsVersion::V7_4).encode().unwrap();
    bytes[4..8].copy_from_slice(&0x7000_0000_u32.to_le_bytes());
    let refused = Login7::decode(&bytes);
    assert_eq!(
        refused,
        Err(crate::TdsError::UnsupportedVersion { found: 0x7000_0000 })
    );
}

#[test]
fn every_cut_is_an_error() {
    let mut sent = login(TdsVersion::V7_4);
    sent.features = vec![Feature {
        id: 0x0A,
        data: vec![],
    }];
    let bytes = sent.encode().unwrap();
    for end in 0..bytes.len() {
        assert!(Login7::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
}

proptest! {
    #[test]
    fn damaged_bytes_never_panic(at in 0_usize..300, with in any::<[u8; 4]>()) {
        let mut bytes = login(TdsVersion::V7_4).encode().unwrap();
        for (index, byte) in with.into_iter().enumerate() {
            if let Some(room) = bytes.get_mut(at + index) {
                *room = byte;
            }
        }
        let _ = Login7::decode(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Login7::decode(&bytes);
    }
}
