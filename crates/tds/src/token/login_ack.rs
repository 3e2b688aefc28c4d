//! LOGINACK and FEATUREEXTACK: the login is granted, and so are some features.

use super::token_byte;
use crate::login::Feature;
use crate::wire::{Reader, end_u16_length, put_b_varchar, start_u16_length};
use crate::{Result, TdsVersion};

const INTERFACE_TSQL: u8 = 1;

/// The server's yes to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginAck {
    /// The version both sides speak from now on.
    pub version: TdsVersion,
    /// Clients look for [`LoginAck::PROGRAM`] and refuse others.
    pub program: String,
    /// Major version of the product, which decides what SQL clients dare to send.
    pub major: u8,
    /// Minor version of the product.
    pub minor: u8,
    /// Build of the product; high byte first on the wire.
    pub build: u16,
}

impl LoginAck {
    /// Clients look for this program name.
    pub const PROGRAM: &'static str = "Microsoft SQL Server";

    /// Appends the token.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(token_byte::LOGIN_ACK);
        let length = start_u16_length(out);
        out.push(INTERFACE_TSQL);
        out.extend_from_slice(&self.version.ack_value().to_be_bytes());
        put_b_varchar(out, &self.program);
        out.extend_from_slice(&[self.major, self.minor]);
        out.extend_from_slice(&self.build.to_be_bytes());
        end_u16_length(out, length);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<LoginAck> {
        let length = usize::from(reader.u16("LOGINACK length")?);
        let mut content = reader.sub(length, "LOGINACK")?;
        content.u8("LOGINACK interface")?;
        Ok(LoginAck {
            version: TdsVersion::from_ack(content.u32_be("LOGINACK version")?)?,
            program: content.b_varchar("LOGINACK program")?,
            major: content.u8("LOGINACK major")?,
            minor: content.u8("LOGINACK minor")?,
            build: content.u16_be("LOGINACK build")?,
        })
    }
}

/// FEATUREEXTACK. Acknowledge only what was asked; clients leave a server that offers more.
pub fn put_feature_ack(features: &[Feature], out: &mut Vec<u8>) {
    out.push(token_byte::FEATURE_EXT_ACK);
    Feature::encode_list(features, out);
}
