//! Slow, salted password hashes: argon2id as a PHC string.
//!
//! A hash takes 7 MiB and some milliseconds by design. So that a burst of logins cannot take all memory and every
//! core, only a few are made at the same time; the others queue.
//!
//! A password that was right once is remembered, in memory alone, as a digest keyed with a secret of this process. So a
//! storm of connections pays for one slow hash, while a guess pays for one each time: what is not remembered is verified
//! the slow way. The digest is kept under the stored hash, which changes with the password; a login that is dropped or
//! given another password is never looked up under the old one again.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use daruma_tsql::error::{Result, SqlError};
use parking_lot::{Condvar, Mutex};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Memory of one hash, in KiB. With five passes as strong as the usual 19 MiB with two.
const MEMORY_KIB: u32 = 7 * 1024;
const PASSES: u32 = 5;
const LANES: u32 = 1;
/// Hashes made at the same time.
const TOGETHER_MAX: usize = 4;
/// The product's bound on a password, in characters.
const PASSWORD_CHARS_MAX: usize = 128;
/// Passwords remembered; beyond it all are forgotten.
const REMEMBERED_MAX: usize = 1_024;

type Digest32 = [u8; 32];

/// Hashes passwords with Argon2id: 7 MiB, five passes, one lane, at most four at a time.
pub struct Argon2Hasher {
    argon2: Argon2<'static>,
    running: Mutex<usize>,
    ended: Condvar,
    secret: Digest32,
    /// Digests of right passwords by stored hash.
    remembered: Mutex<HashMap<String, Digest32>>,
}

impl Argon2Hasher {
    /// `secret`: random bytes that nobody else knows and that end with the process.
    pub fn new(secret: [u8; 32]) -> Argon2Hasher {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None).unwrap_or_default();
        Argon2Hasher {
            argon2: Argon2::new(Algorithm::Argon2id, Version::V0x13, params),
            running: Mutex::new(0),
            ended: Condvar::new(),
            secret,
            remembered: Mutex::default(),
        }
    }

    /// HMAC-SHA-256 over the stored hash and the password.
    fn digest(&self, password: &str, hash: &str) -> Digest32 {
        let padded = |pad: u8| {
            let mut block = [pad; 64];
            block.iter_mut().zip(self.secret).for_each(|(b, s)| *b ^= s);
            block
        };
        let inner = Sha256::new()
            .chain_update(padded(0x36))
            .chain_update((hash.len() as u64).to_le_bytes())
            .chain_update(hash)
            .chain_update(password)
            .finalize();
        let outer = Sha256::new().chain_update(padded(0x5C));
        outer.chain_update(inner).finalize().into()
    }

    fn is_remembered(&self, hash: &str, digest: &Digest32) -> bool {
        let remembered = self.remembered.lock();
        remembered.get(hash).is_some_and(|known| {
            let differing = known.iter().zip(digest).fold(0, |d, (a, b)| d | (a ^ b));
            differing == 0
        })
    }

    fn remember(&self, hash: &str, digest: Digest32) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(hash.to_string(), digest);
    }

    fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut running = self.running.lock();
        while *running >= TOGETHER_MAX {
            self.ended.wait(&mut running);
        }
        *running += 1;
        drop(running);
        let done = work();
        *self.running.lock() -= 1;
        self.ended.notify_one();
        done
    }

    /// A hash in PHC form with a salt of its own. More than 128 characters are error 103.
    pub fn hash_password(&self, password: &str) -> Result<String> {
        if password.chars().count() > PASSWORD_CHARS_MAX {
            return Err(SqlError::new(
                103,
                15,
                4,
                "The password is too long. Maximum length is 128.",
            ));
        }
        let hashed = self.in_turn(|| self.argon2.hash_password(password.as_bytes()));
        // Its parameters and salt are ours, so memory alone can fail it.
        hashed
            .map(|h| h.to_string())
            .map_err(|e| SqlError::new(701, 17, 1, format!("The password cannot be hashed: {e}.")))
    }

    /// False also for text that is no hash.
    pub fn verify_password(&self, password: &str, hash: &str) -> bool {
        let Ok(parsed) = PasswordHash::new(hash) else {
            return false;
        };
        let digest = self.digest(password, hash);
        if self.is_remembered(hash, &digest) {
            return true;
        }
        let is_right = self.in_turn(|| {
            self.argon2
                .verify_password(password.as_bytes(), &parsed)
                .is_ok()
        });
        if is_right {
            self.remember(hash, digest);
        }
        is_right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_fits_and_salts_differ() {
        let hasher = Argon2Hasher::new([1; 32]);
        let hash = hasher.hash_password("Daruma-1!").expect("hashes");
        assert!(hash.starts_with("$argon2id$v=19$m=7168,t=5,p=1$"), "{hash}");
        assert_ne!(hash, hasher.hash_password("Daruma-1!").expect("hashes"));
        assert!(hasher.verify_password("Daruma-1!", &hash));
        assert!(!hasher.verify_password("daruma-1!", &hash));
        assert!(!hasher.verify_password("", ""));
    }

    #[test]
    fn what_was_right_once_is_remembered_and_nothing_else() {
        let hasher = Argon2Hasher::new([7; 32]);
        let hash = hasher.hash_password("right").expect("hashes");
        let other = hasher.hash_password("other").expect("hashes");
        assert!(!hasher.verify_password("wrong", &hash));
        assert!(hasher.remembered.lock().is_empty());
        assert!(hasher.verify_password("right", &hash));
        assert!(hasher.is_remembered(&hash, &hasher.digest("right", &hash)));
        assert!(!hasher.is_remembered(&hash, &hasher.digest("wrong", &hash)));
        assert!(hasher.verify_password("right", &hash));
        // A new password has a new hash: the old one opens nothing.
        assert!(!hasher.verify_password("right", &other));
        let elsewhere = Argon2Hasher::new([8; 32]);
        assert_ne!(
            hasher.digest("right", &hash),
            elsewhere.digest("right", &hash)
        );
    }

    #[test]
    fn a_crowd_takes_turns() {
        let hasher = Argon2Hasher::new([1; 32]);
        let hash = hasher.hash_password("x").expect("hashes");
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..TOGETHER_MAX * 3)
                .map(|_| scope.spawn(|| hasher.verify_password("x", &hash)))
                .collect();
            assert!(threads.into_iter().all(|t| t.join().expect("no panic")));
        });
        assert_eq!(*hasher.running.lock(), 0);
    }
}
