//! Slow, salted password hashes: argon2id as a PHC string.
//!
//! A hash takes 7 MiB and some milliseconds by design. So that a burst of logins cannot take all memory and every
//! core, only a few are made at the same time; the others queue.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use daruma_tsql::error::{Result, SqlError};
use parking_lot::{Condvar, Mutex};

/// Memory of one hash, in KiB. With five passes as strong as the usual 19 MiB with two.
const MEMORY_KIB: u32 = 7 * 1024;
const PASSES: u32 = 5;
const LANES: u32 = 1;
/// Hashes made at the same time.
const TOGETHER_MAX: usize = 4;
/// The product's bound on a password, in characters.
const PASSWORD_CHARS_MAX: usize = 128;

pub struct Argon2Hasher {
    argon2: Argon2<'static>,
    running: Mutex<usize>,
    ended: Condvar,
}

impl Argon2Hasher {
    pub fn new() -> Argon2Hasher {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None).unwrap_or_default();
        Argon2Hasher {
            argon2: Argon2::new(Algorithm::Argon2id, Version::V0x13, params),
            running: Mutex::new(0),
            ended: Condvar::new(),
        }
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
        self.in_turn(|| {
            self.argon2
                .verify_password(password.as_bytes(), &parsed)
                .is_ok()
        })
    }
}

impl Default for Argon2Hasher {
    fn default() -> Argon2Hasher {
        Argon2Hasher::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_fits_and_salts_differ() {
        let hasher = Argon2Hasher::new();
        let hash = hasher.hash_password("Daruma-1!").expect("hashes");
        assert!(hash.starts_with("$argon2id$v=19$m=7168,t=5,p=1$"), "{hash}");
        assert_ne!(hash, hasher.hash_password("Daruma-1!").expect("hashes"));
        assert!(hasher.verify_password("Daruma-1!", &hash));
        assert!(!hasher.verify_password("daruma-1!", &hash));
        assert!(!hasher.verify_password("", ""));
    }

    #[test]
    fn a_crowd_takes_turns() {
        let hasher = Argon2Hasher::new();
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
