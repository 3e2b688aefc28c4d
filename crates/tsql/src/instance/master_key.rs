//! The service master key: what secrets in master are encrypted with.
//!
//! Theory: master goes into backups and may be copied; the key does not. It lies in a file of the data directory that only the
//! server's own user may read, made with the first secret. A secret is AES-256-GCM ciphertext that opens only for the row it was
//! written for. A lost file costs the secrets, and nothing else: they are given again with ALTER CREDENTIAL.

use crate::error::Result;
use crate::messages;
use daruma_base::{Env, OpenMode, Random};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "service_master.key";
const MAGIC: &[u8; 8] = b"DRMSMK01";
const KEY_BYTES: usize = 32;
const FILE_BYTES: usize = MAGIC.len() + KEY_BYTES;

/// Where the key is, and where it is made.
pub(super) fn files(data_dir: &Path) -> [PathBuf; 2] {
    let path = data_dir.join(FILE);
    [path.with_extension("new"), path]
}

pub(crate) struct MasterKey(LessSafeKey);

impl MasterKey {
    /// The server's key, made now if there is none.
    pub fn load_or_create(env: &Env, data_dir: &Path) -> Result<MasterKey> {
        let path = data_dir.join(FILE);
        let create = || {
            if !env.disk.exists(&path)? {
                write_new(env, data_dir, &path)?;
            }
            read(env, &path)
        };
        create().map_err(|e| messages::error(5123, &[&e, &path.display()]))
    }

    /// The server's key. Without it no secret can be read.
    pub fn load(env: &Env, data_dir: &Path) -> Result<MasterKey> {
        read(env, &data_dir.join(FILE)).map_err(|_| unreadable())
    }

    /// A key of these bytes: 32.
    pub fn from_bytes(bytes: &[u8]) -> Result<MasterKey> {
        let key = UnboundKey::new(&AES_256_GCM, bytes).map_err(|_| unreadable())?;
        Ok(MasterKey(LessSafeKey::new(key)))
    }

    /// Encrypts a secret for the row that `owner` names.
    pub fn seal(&self, random: &dyn Random, owner: &str, secret: &str) -> Result<String> {
        let mut nonce = [0; NONCE_LEN];
        random.fill(&mut nonce);
        let mut bytes = secret.as_bytes().to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal_in_place_append_tag(unique, Aad::from(owner.as_bytes()), &mut bytes)
            .map_err(|_| unreadable())?;
        let all = nonce.iter().chain(&bytes);
        Ok(all.map(|b| format!("{b:02X}")).collect())
    }

    /// The secret that was sealed for `owner`; one of another owner, or damaged, is an error.
    pub fn open(&self, owner: &str, sealed: &str) -> Result<String> {
        let plain = from_hex(sealed).and_then(|bytes| {
            let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let mut rest = rest.to_vec();
            let aad = Aad::from(owner.as_bytes());
            let plain = self.0.open_in_place(nonce, aad, &mut rest).ok()?;
            String::from_utf8(plain.to_vec()).ok()
        });
        plain.ok_or_else(unreadable)
    }
}

fn unreadable() -> crate::error::SqlError {
    messages::error(15466, &[])
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect()
}

/// Beside its name first: a crash leaves no half a key.
fn write_new(env: &Env, data_dir: &Path, path: &Path) -> io::Result<()> {
    let mut content = [0; FILE_BYTES];
    let (magic, key) = content.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    env.random.fill(key);
    let beside = path.with_extension("new");
    if env.disk.exists(&beside)? {
        env.disk.remove(&beside)?;
    }
    let file = env.disk.open(&beside, OpenMode::CreatePrivate)?;
    file.write_at(&content, 0)?;
    file.sync_data()?;
    env.disk.rename(&beside, path)?;
    env.disk.sync_dir(data_dir)
}

fn read(env: &Env, path: &Path) -> io::Result<MasterKey> {
    let file = env.disk.open(path, OpenMode::ReadOnly)?;
    let mut content = [0; FILE_BYTES];
    file.read_at(&mut content, 0)?;
    let key = content.strip_prefix(MAGIC);
    let key = key.and_then(|key| UnboundKey::new(&AES_256_GCM, key).ok());
    let key = key.ok_or(io::ErrorKind::InvalidData)?;
    Ok(MasterKey(LessSafeKey::new(key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_sim::{SimDisk, SimRandom};

    #[test]
    fn a_secret_opens_with_its_key_for_its_owner_only() {
        let env = |seed| daruma_sim::env(&SimDisk::new(seed), seed);
        let (one, two, dir) = (env(1), env(2), Path::new("/data"));
        assert!(MasterKey::load(&one, dir).is_err());
        let key = MasterKey::load_or_create(&one, dir).expect("a key");
        let sealed = key
            .seal(&SimRandom::new(3), "c", "Geheimnis")
            .expect("seals");
        assert!(!sealed.contains("Geheimnis"));
        let again = MasterKey::load_or_create(&one, dir).expect("the same key");
        assert_eq!(again.open("c", &sealed).expect("opens"), "Geheimnis");
        assert!(again.open("d", &sealed).is_err());
        assert!(again.open("c", &sealed[2..]).is_err());
        assert!(again.open("c", "no hex").is_err());
        let other = MasterKey::load_or_create(&two, dir).expect("another key");
        assert!(other.open("c", &sealed).is_err());
    }
}
