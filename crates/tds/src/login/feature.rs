//! FeatureExt: optional features a client asks for, and the server's acknowledgement of some.

use crate::wire::Reader;
use crate::{Result, TdsError};

/// Feature numbers.
pub mod feature_id {
    /// The client can reconnect and set its session up again.
    pub const SESSION_RECOVERY: u8 = 0x01;
    /// Authentication by token.
    pub const FEDERATED_AUTH: u8 = 0x02;
    /// Always Encrypted.
    pub const COLUMN_ENCRYPTION: u8 = 0x04;
    /// Distributed transactions of the cloud product.
    pub const GLOBAL_TRANSACTIONS: u8 = 0x05;
    /// The client may be sent to a read-only failover partner.
    pub const READ_ONLY_FAILOVER: u8 = 0x08;
    /// Sensitivity labels beside the columns of results.
    pub const DATA_CLASSIFICATION: u8 = 0x09;
    /// The client understands collations that encode `varchar` in UTF-8.
    pub const UTF8_SUPPORT: u8 = 0x0A;
    /// The client may keep the server's address.
    pub const DNS_CACHING: u8 = 0x0B;
    /// The client understands the type json.
    pub const JSON: u8 = 0x0D;
    /// The client understands the type vector.
    pub const VECTOR: u8 = 0x0E;
    /// The client describes itself in JSON.
    pub const USER_AGENT: u8 = 0x10;
}

const TERMINATOR: u8 = 0xFF;
const FEATURES_MAX: usize = 64;

/// One entry of the request or of the acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// One of `feature_id`, or one that is not known here.
    pub id: u8,
    /// In a form of the feature's own.
    pub data: Vec<u8>,
}

impl Feature {
    pub(crate) fn decode_list(reader: &mut Reader<'_>) -> Result<Vec<Feature>> {
        let mut features = Vec::new();
        loop {
            let id = reader.u8("feature id")?;
            if id == TERMINATOR {
                return Ok(features);
            }
            if features.len() == FEATURES_MAX {
                let found = FEATURES_MAX + 1;
                return Err(TdsError::TooLong {
                    what: "features",
                    limit: FEATURES_MAX,
                    found,
                });
            }
            let length = usize::try_from(reader.u32("feature length")?).unwrap_or(usize::MAX);
            let data = reader.take(length, "feature data")?.to_vec();
            features.push(Feature { id, data });
        }
    }

    pub(crate) fn encode_list(features: &[Feature], out: &mut Vec<u8>) {
        for feature in features {
            out.push(feature.id);
            let length = u32::try_from(feature.data.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&feature.data);
        }
        out.push(TERMINATOR);
    }
}
