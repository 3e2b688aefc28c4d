//! A node's certificate and its key, and those by which new nodes ask to be let in.
//!
//! A certificate is a name for a key: names, dates and authorities in it say nothing. Others know its SHA-256.
//!
//! | found beside no register | means |
//! |---|---|
//! | nothing, or `identity.joining` | the server never was a node: one that was cut short while it joined is the same when it asks again |
//! | `identity` | it was one, and what it promised is lost: it must not come back as that node |

use crate::codec::{CodecError, Reader, Writer, seal, unseal};
use daruma_base::{Disk, OpenMode};
use daruma_group::transport::{Fingerprint, Identity};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{self, ErrorKind};
use std::path::Path;

const MAGIC: &[u8; 8] = b"DARUMAI1";
const FILE: &str = "identity";
const JOINING_FILE: &str = "identity.joining";
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

    /// That of the node whose folder it is. `None`: there is none.
    pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> io::Result<Option<Pair>> {
        Pair::read_file(disk, &folder.join(FILE))
    }

    fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Option<Pair>> {
        let file = match disk.open(path, OpenMode::ReadOnly) {
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

    /// Makes one for a server that is to become a node, or takes the one of an attempt that was cut short.
    pub(crate) fn keep(disk: &dyn Disk, folder: &Path) -> io::Result<Pair> {
        if let Some(found) = Pair::read_file(disk, &folder.join(JOINING_FILE))? {
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
        disk.rename(&beside, &folder.join(JOINING_FILE))?;
        disk.sync_dir(folder)?;
        Ok(pair)
    }

    /// The server is a node from here on, as its register is on disk: whoever finds the one without the other knows what is lost.
    pub(crate) fn settle(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        match disk.rename(&folder.join(JOINING_FILE), &folder.join(FILE)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
            Ok(()) => disk.sync_dir(folder),
        }
    }

    /// The server is no node any more.
    pub(crate) fn forget(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        match disk.remove(&folder.join(FILE)) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => disk.sync_dir(folder),
        }
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
