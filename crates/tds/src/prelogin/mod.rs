//! PRELOGIN: version, encryption and a few options, agreed before anything else.
//!
//! Layout: options of five bytes (token, offset, length; big-endian), 0xFF, then their data. The client's and the
//! server's message have the same form; a server answers with a packet of type `Reply`.

mod encryption;

#[cfg(test)]
mod tests;

pub use encryption::{Encryption, EncryptionPlan, ServerEncryption, negotiate};

use crate::wire::{Reader, codepage::CodePage};
use crate::{Result, TdsError};

const VERSION: u8 = 0x00;
const ENCRYPTION: u8 = 0x01;
const INSTANCE: u8 = 0x02;
const THREAD_ID: u8 = 0x03;
const MARS: u8 = 0x04;
const TRACE_ID: u8 = 0x05;
const FED_AUTH_REQUIRED: u8 = 0x06;
const NONCE: u8 = 0x07;
const TERMINATOR: u8 = 0xFF;

/// One option each is known; a client has no reason to send more.
const OPTIONS_MAX: usize = 32;

/// Product version as PRELOGIN carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ProductVersion {
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// Build; big-endian on the wire.
    pub build: u16,
    /// Revision of the build; little-endian on the wire, unlike the rest.
    pub sub_build: u16,
}

/// PRELOGIN of either side; an option that was not sent is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Prelogin {
    /// Of the sender: the client's library, or the server.
    pub version: ProductVersion,
    /// What the client wishes, or the server decided. A message without it means "not supported".
    pub encryption: Option<Encryption>,
    /// Client: the instance's name. Server: empty for "this is it".
    pub instance: Option<Vec<u8>>,
    /// Clients send four bytes, servers none.
    pub thread_id: Option<Option<u32>>,
    /// The client wishes several requests at a time on the connection; this server answers no.
    pub mars: Option<bool>,
    /// Connection and activity id (36 bytes) by which a client finds its login in traces.
    pub trace_id: Option<Vec<u8>>,
    /// 1: a client that can shall authenticate by token.
    pub fed_auth_required: Option<u8>,
    /// Signed by a federated client to prove its token.
    pub nonce: Option<[u8; 32]>,
}

impl Prelogin {
    /// Reads a message's body. Unknown options are passed over; more than 32, or one that points outside the body, is
    /// an error.
    pub fn decode(body: &[u8]) -> Result<Prelogin> {
        let mut prelogin = Prelogin::default();
        let mut options = Reader::new(body);
        for _ in 0..=OPTIONS_MAX {
            let token = options.u8("PRELOGIN option")?;
            if token == TERMINATOR {
                return Ok(prelogin);
            }
            let offset = usize::from(options.u16_be("PRELOGIN option offset")?);
            let length = usize::from(options.u16_be("PRELOGIN option length")?);
            let mut data = Reader::new(body).sub(body.len(), "PRELOGIN")?;
            data.take(offset, "PRELOGIN option offset")?;
            prelogin.set(token, data.sub(length, "PRELOGIN option data")?)?;
        }
        Err(TdsError::TooLong {
            what: "PRELOGIN options",
            limit: OPTIONS_MAX,
            found: OPTIONS_MAX + 1,
        })
    }

    fn set(&mut self, token: u8, mut data: Reader<'_>) -> Result<()> {
        match token {
            VERSION => self.version = decode_version(&mut data)?,
            ENCRYPTION => self.encryption = Some(Encryption::from_byte(data.u8("ENCRYPTION")?)?),
            INSTANCE => {
                let name = data.take_rest();
                self.instance = Some(
                    name.split(|byte| *byte == 0)
                        .next()
                        .unwrap_or_default()
                        .to_vec(),
                );
            }
            THREAD_ID if data.is_empty() => self.thread_id = Some(None),
            THREAD_ID => self.thread_id = Some(Some(data.u32_be("THREADID")?)),
            MARS => self.mars = Some(data.u8("MARS")? != 0),
            TRACE_ID => self.trace_id = Some(data.take_rest().to_vec()),
            FED_AUTH_REQUIRED => self.fed_auth_required = Some(data.u8("FEDAUTHREQUIRED")?),
            NONCE => self.nonce = Some(data.array("NONCE")?),
            _ => {}
        }
        Ok(())
    }

    /// The reply every client accepts: no instance check, no MARS, nothing else.
    pub fn reply(version: ProductVersion, encryption: Encryption) -> Prelogin {
        Prelogin {
            version,
            encryption: Some(encryption),
            instance: Some(Vec::new()),
            thread_id: Some(None),
            mars: Some(false),
            ..Prelogin::default()
        }
    }

    /// The body of a PRELOGIN message.
    pub fn encode(&self) -> Vec<u8> {
        let options = self.options();
        let mut offset = options.len() * 5 + 1;
        let mut body = Vec::with_capacity(64);
        for (token, data) in &options {
            body.push(*token);
            body.extend_from_slice(&u16::try_from(offset).unwrap_or(u16::MAX).to_be_bytes());
            body.extend_from_slice(&u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
            offset += data.len();
        }
        body.push(TERMINATOR);
        for (_, data) in &options {
            body.extend_from_slice(data);
        }
        body
    }

    fn options(&self) -> Vec<(u8, Vec<u8>)> {
        let mut options = vec![(VERSION, encode_version(self.version))];
        if let Some(encryption) = self.encryption {
            options.push((ENCRYPTION, vec![encryption as u8]));
        }
        if let Some(name) = &self.instance {
            let mut data = name.clone();
            data.push(0);
            options.push((INSTANCE, data));
        }
        if let Some(id) = self.thread_id {
            options.push((
                THREAD_ID,
                id.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
            ));
        }
        if let Some(on) = self.mars {
            options.push((MARS, vec![u8::from(on)]));
        }
        if let Some(id) = &self.trace_id {
            options.push((TRACE_ID, id.clone()));
        }
        if let Some(flag) = self.fed_auth_required {
            options.push((FED_AUTH_REQUIRED, vec![flag]));
        }
        if let Some(nonce) = self.nonce {
            options.push((NONCE, nonce.to_vec()));
        }
        options
    }

    /// The instance a client asks for, as text.
    pub fn instance_name(&self) -> String {
        let name = self.instance.as_deref().unwrap_or_default();
        CodePage::LATIN1.decode(name).into()
    }
}

fn decode_version(data: &mut Reader<'_>) -> Result<ProductVersion> {
    Ok(ProductVersion {
        major: data.u8("VERSION major")?,
        minor: data.u8("VERSION minor")?,
        build: data.u16_be("VERSION build")?,
        sub_build: data.u16("VERSION sub-build")?,
    })
}

fn encode_version(version: ProductVersion) -> Vec<u8> {
    let mut data = vec![version.major, version.minor];
    data.extend_from_slice(&version.build.to_be_bytes());
    data.extend_from_slice(&version.sub_build.to_le_bytes());
    data
}
