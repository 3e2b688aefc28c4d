//! PRELOGIN both ways.

use super::*;
use proptest::prelude::*;

const SQL_2022: ProductVersion = ProductVersion {
    major: 16,
    minor: 0,
    build: 1000,
    sub_build: 0,
};

#[test]
fn reply_bytes() {
    let expected = [
        0, 0, 26, 0, 6, 1, 0, 32, 0, 1, 2, 0, 33, 0, 1, 3, 0, 34, 0, 0, 4, 0, 34, 0, 1,
        0xFF, // options
        0x10, 0, 0x03, 0xE8, 0, 0, 1, 0, 0,
    ];
    assert_eq!(Prelogin::reply(SQL_2022, Encryption::On).encode(), expected);
}

#[test]
fn client_message_round_trip() {
    let client = Prelogin {
        version: ProductVersion {
            major: 18,
            minor: 6,
            build: 4,
            sub_build: 1,
        },
        encryption: Some(Encryption::Required),
        instance: Some(b"MSSQLServer".to_vec()),
        thread_id: Some(Some(7)),
        mars: Some(true),
        trace_id: Some(vec![9; 36]),
        fed_auth_required: Some(1),
        nonce: Some([3; 32]),
    };
    let bytes = client.encode();
    assert_eq!(Prelogin::decode(&bytes).unwrap(), client);
    assert_eq!(client.instance_name(), "MSSQLServer");
    for end in 0..bytes.len() {
        assert!(Prelogin::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn endless_options_are_refused() {
    let body = [0x20, 0, 0, 0, 0].repeat(100);
    assert!(matches!(
        Prelogin::decode(&body),
        Err(TdsError::TooLong { .. })
    ));
}

#[test]
fn encryption_matrix() {
    use Encryption::*;
    let row = |client| {
        [
            ServerEncryption::NoCertificate,
            ServerEncryption::Optional,
            ServerEncryption::Forced,
        ]
        .map(|server| negotiate(client, server))
    };
    use EncryptionPlan as P;
    assert_eq!(
        row(Off),
        [
            (NotSupported, P::Plain),
            (Off, P::LoginOnly),
            (Required, P::Full)
        ]
    );
    assert_eq!(
        row(On),
        [(NotSupported, P::Refused), (On, P::Full), (On, P::Full)]
    );
    assert_eq!(
        row(NotSupported),
        [
            (NotSupported, P::Plain),
            (NotSupported, P::Plain),
            (Required, P::Refused)
        ]
    );
    assert_eq!(
        row(Required),
        [(NotSupported, P::Refused), (On, P::Full), (On, P::Full)]
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Prelogin::decode(&bytes);
    }
}
