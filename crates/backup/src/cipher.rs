//! Encryption of backup sets: AES-GCM for every frame, under a key of the set's own.
//!
//! Theory: each set has a random data key. It lies in the description of the set, wrapped by a key that is derived from
//! a password (argon2id) or from a key file (HKDF) with a salt of the set's own; unwrapping it is the check of the key,
//! so a wrong one is told before anything else is read. Pages and log are encrypted; descriptions, labels and indexes
//! are not, so that a backup can be listed without its key. The description is authenticated, and says how many frames
//! each family has; each frame is authenticated together with its own header, which holds its set, family and number.
//!
//! Invariants
//! 1. A nonce is family and number of a frame, and no two frames of a set share both. Mirrors hold the same bytes.
//! 2. A key-encryption key is used once: it depends on a random salt.
//! 3. What an envelope asks of argon2 is bounded: it comes from outside.

use crate::error::{BackupError, Result};
use crate::frame::{Header, SEAL_BYTES};
use argon2::{Algorithm as Argon2Algorithm, Argon2, Params, Version};
use daruma_base::Random;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::{digest, hkdf};
use serde::{Deserialize, Serialize};

/// A key file holds at least as much; it should come from a source of randomness.
pub const KEY_FILE_BYTES_MIN: usize = 32;
/// A key file holds at most as much; a longer one is some other file, named by mistake.
pub const KEY_FILE_BYTES_MAX: usize = 4096;
const SALT_BYTES: usize = 16;
const THUMBPRINT_BYTES: usize = 20;
/// RFC 9106, second recommended option, with one lane.
const KDF: Kdf = Kdf {
    memory_kib: 64 << 10,
    passes: 3,
    lanes: 1,
};
const KDF_MAX: Kdf = Kdf {
    memory_kib: 1 << 20,
    passes: 16,
    lanes: 16,
};
/// Number in the nonce of a set's description; frames count from 0.
const DESCRIPTION_NUMBER: u64 = u64::MAX;

/// The algorithms of the product that are not obsolete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    Aes128,
    Aes256,
}

impl Algorithm {
    /// As the product spells it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Aes128 => "AES_128",
            Algorithm::Aes256 => "AES_256",
        }
    }

    /// The algorithm that ALGORITHM = `name` means, in any case.
    pub fn named(name: &str) -> Option<Algorithm> {
        let mut all = [Algorithm::Aes128, Algorithm::Aes256].into_iter();
        all.find(|a| a.name().eq_ignore_ascii_case(name))
    }

    fn aead(self) -> &'static ring::aead::Algorithm {
        match self {
            Algorithm::Aes128 => &AES_128_GCM,
            Algorithm::Aes256 => &AES_256_GCM,
        }
    }

    fn key(self, bytes: &[u8]) -> Option<LessSafeKey> {
        let bytes = bytes.get(..self.aead().key_len())?;
        UnboundKey::new(self.aead(), bytes)
            .ok()
            .map(LessSafeKey::new)
    }
}

/// Secret that opens a backup.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    Password(String),
    KeyFile(Vec<u8>),
}

/// How a backup is to be encrypted.
#[derive(Clone)]
pub struct Encryption {
    pub algorithm: Algorithm,
    pub secret: Secret,
}

/// Cost of a guess at the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kdf {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// The encrypted data key of a set, and what it takes to open it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub algorithm: Algorithm,
    salt: [u8; SALT_BYTES],
    /// Of a password; a key file needs none.
    kdf: Option<Kdf>,
    /// Says which key file it is; of a password it says nothing.
    pub thumbprint: [u8; THUMBPRINT_BYTES],
    wrapped: Vec<u8>,
}

impl Envelope {
    /// `EncryptorType` of HEADERONLY.
    pub fn encryptor(&self) -> &'static str {
        match self.kdf {
            Some(_) => "PASSWORD",
            None => "KEY FILE",
        }
    }
}

/// Why a set cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyProblem {
    /// The set needs a password, and none or a wrong one was given.
    Password,
    /// The set needs the key file with this thumbprint.
    KeyFile { thumbprint: [u8; THUMBPRINT_BYTES] },
    /// A key was given for a set that is not encrypted: it may be another one than was meant.
    NotEncrypted,
    /// The key file has the wrong size.
    KeyFileBytes(usize),
}

fn problem(problem: KeyProblem) -> BackupError {
    BackupError::Key(problem)
}

/// The data key of one set.
pub struct Cipher(LessSafeKey);

impl Cipher {
    /// A new data key, and its envelope.
    pub fn create(
        random: &dyn Random,
        encryption: &Encryption,
        set: u64,
    ) -> Result<(Cipher, Envelope)> {
        let mut salt = [0; SALT_BYTES];
        random.fill(&mut salt);
        let kdf = matches!(encryption.secret, Secret::Password(_)).then_some(KDF);
        let algorithm = encryption.algorithm;
        let mut data_key = [0; 32];
        random.fill(&mut data_key);
        let cipher = algorithm.key(&data_key).ok_or_else(unusable)?;
        let outer = derive(&encryption.secret, &salt, kdf)?;
        let outer_key = algorithm.key(&outer.key).ok_or_else(unusable)?;
        let mut wrapped = data_key.to_vec();
        outer_key
            .seal_in_place_append_tag(
                wrap_nonce(),
                Aad::from(wrap_aad(set, algorithm)),
                &mut wrapped,
            )
            .map_err(|_| unusable())?;
        let envelope = Envelope {
            algorithm,
            salt,
            kdf,
            thumbprint: outer.thumbprint,
            wrapped,
        };
        Ok((Cipher(cipher), envelope))
    }

    /// Opens the envelope of a set. `None` for a set that is not encrypted, if no secret is given either.
    pub fn unlock(
        envelope: Option<&Envelope>,
        secret: Option<&Secret>,
        set: u64,
    ) -> Result<Option<Cipher>> {
        let (envelope, secret) = match (envelope, secret) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(problem(KeyProblem::NotEncrypted)),
            (Some(envelope), None) => return Err(problem(envelope.wanted())),
            (Some(envelope), Some(secret)) => (envelope, secret),
        };
        if matches!(secret, Secret::Password(_)) != envelope.kdf.is_some() {
            return Err(problem(envelope.wanted()));
        }
        let outer = derive(secret, &envelope.salt, envelope.kdf)?;
        let aad = Aad::from(wrap_aad(set, envelope.algorithm));
        let mut wrapped = envelope.wrapped.clone();
        let outer_key = envelope.algorithm.key(&outer.key).ok_or_else(unusable)?;
        let data_key = outer_key
            .open_in_place(wrap_nonce(), aad, &mut wrapped)
            .map_err(|_| problem(envelope.wanted()))?;
        let key = envelope.algorithm.key(data_key).ok_or_else(unusable)?;
        Ok(Some(Cipher(key)))
    }

    /// Encrypts a payload in place and puts the seal into its header. Once for each family and number of a set.
    pub fn seal(&self, header: &mut Header, payload: &mut [u8]) -> Result<()> {
        let nonce = nonce(header.family, header.number);
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(header.sealed_part()), payload)
            .map_err(|_| unusable())?;
        header.seal.copy_from_slice(tag.as_ref());
        Ok(())
    }

    /// Decrypts a payload in place. False when it was not encrypted with this key, as this frame.
    pub fn open(&self, header: &Header, payload: &mut [u8]) -> bool {
        let nonce = nonce(header.family, header.number);
        let aad = Aad::from(header.sealed_part());
        let opened =
            self.0
                .open_in_place_separate_tag(nonce, aad, header.seal.into(), payload, 0..);
        opened.is_ok()
    }

    /// The seal of a description that stays readable.
    pub fn sign(&self, description: &[u8]) -> Result<[u8; SEAL_BYTES]> {
        let nonce = nonce(0, DESCRIPTION_NUMBER);
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(description), &mut [])
            .map_err(|_| unusable())?;
        let mut seal = [0; SEAL_BYTES];
        seal.copy_from_slice(tag.as_ref());
        Ok(seal)
    }

    /// Was this description sealed with this key and not changed since?
    pub fn vouches_for(&self, description: &[u8], seal: &[u8; SEAL_BYTES]) -> bool {
        let nonce = nonce(0, DESCRIPTION_NUMBER);
        let aad = Aad::from(description);
        self.0
            .open_in_place_separate_tag(nonce, aad, (*seal).into(), &mut [], 0..)
            .is_ok()
    }
}

impl Envelope {
    fn wanted(&self) -> KeyProblem {
        match self.kdf {
            Some(_) => KeyProblem::Password,
            None => KeyProblem::KeyFile {
                thumbprint: self.thumbprint,
            },
        }
    }
}

fn unusable() -> BackupError {
    BackupError::Unusable("the key of the backup cannot be used".into())
}

fn nonce(family: u16, number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..2].copy_from_slice(&family.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// The only nonce of a key-encryption key.
fn wrap_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn wrap_aad(set: u64, algorithm: Algorithm) -> Vec<u8> {
    [&set.to_le_bytes()[..], algorithm.name().as_bytes()].concat()
}

/// A key-encryption key.
struct Outer {
    key: [u8; 32],
    thumbprint: [u8; THUMBPRINT_BYTES],
}

fn derive(secret: &Secret, salt: &[u8], kdf: Option<Kdf>) -> Result<Outer> {
    let mut key = [0; 32];
    let print_of = match secret {
        Secret::Password(password) => {
            let kdf = kdf.unwrap_or(KDF);
            stretch(password.as_bytes(), salt, kdf, &mut key)?;
            // Another salt, another print: it must not tell that two backups have one password.
            digest::digest(&digest::SHA256, &key)
        }
        Secret::KeyFile(content) => {
            if !(KEY_FILE_BYTES_MIN..=KEY_FILE_BYTES_MAX).contains(&content.len()) {
                return Err(problem(KeyProblem::KeyFileBytes(content.len())));
            }
            let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(content);
            let expanded = extracted.expand(&[b"backup key"], hkdf::HKDF_SHA256);
            expanded
                .and_then(|k| k.fill(&mut key))
                .map_err(|_| unusable())?;
            digest::digest(
                &digest::SHA256,
                &[&b"backup key file"[..], content].concat(),
            )
        }
    };
    let mut thumbprint = [0; THUMBPRINT_BYTES];
    let print = print_of.as_ref().iter();
    thumbprint
        .iter_mut()
        .zip(print)
        .for_each(|(to, from)| *to = *from);
    Ok(Outer { key, thumbprint })
}

fn stretch(password: &[u8], salt: &[u8], kdf: Kdf, key: &mut [u8]) -> Result<()> {
    let bounded = kdf.memory_kib <= KDF_MAX.memory_kib
        && kdf.passes <= KDF_MAX.passes
        && kdf.lanes <= KDF_MAX.lanes;
    let params = Params::new(kdf.memory_kib, kdf.passes, kdf.lanes, Some(key.len()));
    let Some(params) = params.ok().filter(|_| bounded) else {
        return Err(BackupError::Unusable(
            "the description of the backup asks too much of its password".into(),
        ));
    };
    Argon2::new(Argon2Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password, salt, key)
        .map_err(|_| unusable())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Kind;
    use daruma_sim::SimRandom;

    fn key_file(byte: u8) -> Secret {
        Secret::KeyFile(vec![byte; 40])
    }

    fn create(algorithm: Algorithm, secret: Secret) -> (Cipher, Envelope) {
        let encryption = Encryption { algorithm, secret };
        Cipher::create(&SimRandom::new(1), &encryption, 7).expect("a key")
    }

    fn refusal(envelope: Option<&Envelope>, secret: Option<&Secret>, set: u64) -> KeyProblem {
        match Cipher::unlock(envelope, secret, set) {
            Err(BackupError::Key(problem)) => problem,
            other => panic!("opened, or {:?}", other.err()),
        }
    }

    #[test]
    fn a_frame_opens_as_itself_only() {
        for algorithm in [Algorithm::Aes128, Algorithm::Aes256] {
            let (_, envelope) = create(algorithm, key_file(1));
            let unlocked = Cipher::unlock(Some(&envelope), Some(&key_file(1)), 7);
            let cipher = unlocked.expect("the right key").expect("encrypted");
            let plain = b"a page or a piece of log".to_vec();
            let mut payload = plain.clone();
            let mut header = Header::plain(Kind::Pages, 2, 1, 7, &plain);
            header.number = 5;
            cipher.seal(&mut header, &mut payload).expect("seals");
            assert_ne!(payload, plain);
            for change in [
                |h: &mut Header| h.number += 1,
                |h: &mut Header| h.family += 1,
                |h: &mut Header| h.position += 1,
                |h: &mut Header| h.kind = Kind::Log,
                |h: &mut Header| h.plain_bytes += 1,
                |h: &mut Header| h.seal[3] ^= 1,
            ] {
                let mut other = header;
                change(&mut other);
                assert!(!cipher.open(&other, &mut payload.clone()), "{other:?}");
            }
            let mut bad = payload.clone();
            bad[4] ^= 1;
            assert!(!cipher.open(&header, &mut bad));
            assert!(cipher.open(&header, &mut payload));
            assert_eq!(payload, plain);
        }
    }

    #[test]
    fn a_wrong_key_is_told_as_such() {
        let (cipher, envelope) = create(Algorithm::Aes256, key_file(1));
        let wanted = KeyProblem::KeyFile {
            thumbprint: envelope.thumbprint,
        };
        assert_eq!(refusal(Some(&envelope), None, 7), wanted);
        assert_eq!(refusal(Some(&envelope), Some(&key_file(2)), 7), wanted);
        assert_eq!(refusal(Some(&envelope), Some(&key_file(1)), 8), wanted);
        let short = Secret::KeyFile(vec![1; 31]);
        assert_eq!(
            refusal(Some(&envelope), Some(&short), 7),
            KeyProblem::KeyFileBytes(31)
        );
        assert_eq!(
            refusal(None, Some(&key_file(1)), 7),
            KeyProblem::NotEncrypted
        );
        let seal = cipher.sign(b"description").expect("signs");
        assert!(cipher.vouches_for(b"description", &seal));
        assert!(!cipher.vouches_for(b"descriptioN", &seal));
    }

    #[test]
    fn a_password_opens_its_own_set() {
        let password = |text: &str| Secret::Password(text.into());
        let (_, envelope) = create(Algorithm::Aes256, password("right"));
        assert_eq!(
            refusal(Some(&envelope), Some(&password("wrong")), 7),
            KeyProblem::Password
        );
        assert!(Cipher::unlock(Some(&envelope), Some(&password("right")), 7).is_ok());
        let mut greedy = envelope;
        greedy.kdf = Some(Kdf {
            memory_kib: u32::MAX,
            ..KDF
        });
        let refused = Cipher::unlock(Some(&greedy), Some(&password("right")), 7);
        assert!(matches!(refused, Err(BackupError::Unusable(_))));
    }
}
