//! A node's certificate and its key, and those by which new nodes ask to be let in.
//!
//! A certificate is a name for a key: names, dates and authorities in it say nothing. Others know its SHA-256.

use crate::codec::{CodecError, Reader, Writer, seal, unseal};
use daruma_base::{Disk, OpenMode};
use daruma_group::transport::{Fingerprint, Identity};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{self, ErrorKind};
use std::path::Path;

const MAGIC: &[u8; 8] = b"DARUMAI1";
const FILE: &str = "identity";
/// Bytes of a certificate or of a key.
pub(crate) const PART_BYTES_MAX: usize = 8 << 10;

/// A certificate and its key, in DER.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl Pair {
    /// A new one, that nobody knows of.
    pub(crate) fn make() -> Result<Pair, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed(vec!["daruma cluster".to_string()])?;
        Ok(Pair {
            certificate: made.cert.der().to_vec(),
            key: made.signing_key.serialize_der(),
        })
    }

    pub(crate) fn identity(&self) -> Identity {
        let certificate = CertificateDer::from(self.certificate.clone());
        let key = PrivateKeyDer::Pkcs8(self.key.clone().into());
        Identity::new(certificate, key)
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// What lies in the folder. `None`: nothing.
    pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> io::Result<Option<Pair>> {
        let file = match disk.open(&folder.join(FILE), OpenMode::ReadOnly) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        if length > 3 * PART_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        file.read_at(&mut bytes, 0)?;
        let pair = decode(&bytes).map_err(|e| io::Error::new(ErrorKind::InvalidData, e));
        pair.map(Some)
    }

    /// Makes one that stays in the folder, or takes the one that is there: who begins again after a crash is the same node.
    pub(crate) fn keep(disk: &dyn Disk, folder: &Path) -> io::Result<Pair> {
        if let Some(found) = Pair::load(disk, folder)? {
            return Ok(found);
        }
        let pair = Pair::make().map_err(io::Error::other)?;
        let beside = folder.join(format!("{FILE}.new"));
        match disk.remove(&beside) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = disk.open(&beside, OpenMode::CreatePrivate)?;
        file.write_at(&encode(&pair), 0)?;
        file.sync_data()?;
        drop(file);
        disk.rename(&beside, &folder.join(FILE))?;
        disk.sync_dir(folder)?;
        Ok(pair)
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.bytes(&self.certificate);
        w.bytes(&self.key);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Pair, CodecError> {
        Ok(Pair {
            certificate: r.bytes(PART_BYTES_MAX)?.to_vec(),
            key: r.bytes(PART_BYTES_MAX)?.to_vec(),
        })
    }
}

fn encode(pair: &Pair) -> Vec<u8> {
    let mut w = Writer::default();
    pair.write(&mut w);
    seal(MAGIC, w)
}

fn decode(bytes: &[u8]) -> Result<Pair, CodecError> {
    let mut r = unseal(MAGIC, bytes)?;
    let pair = Pair::read(&mut r)?;
    r.end()?;
    Ok(pair)
}
