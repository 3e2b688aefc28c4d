//! Which release wrote a backup, and in what formats: one that this release does not know is refused before anything else in it is believed.
//! What an older release wrote can be listed, replaced and deleted, and is restored where its files could be opened.
//!
//! Theory: the first bytes of a medium name the format of its frames, the description of a set those of what is in it. Both are looked at
//! before the rest is read, which a later release may have written with another meaning; what is restored from pages of another format
//! would be files that say they have this release's.

use crate::error::{BackupError, Result};
use crate::frame;
use daruma_storage::{FILE_FORMAT, LOG_FORMAT};
use serde::{Deserialize, Serialize};

/// Format of a set: its frames, how they are compressed and encrypted, and its description.
const SET_FORMAT: u32 = 1;
/// Longest name of a release that is repeated in an error.
const RELEASE_CHARS_MAX: usize = 40;

/// Release that wrote a set, and formats of what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// As `daruma --version` shows it.
    pub release: String,
    /// Of frames and description.
    pub set_format: u32,
    /// Of the data files that the pages are from.
    pub file_format: u32,
    /// Of the log.
    pub log_format: u32,
}

impl Origin {
    /// What this release writes.
    pub fn of_this_release() -> Origin {
        Origin {
            release: env!("CARGO_PKG_VERSION").to_string(),
            set_format: SET_FORMAT,
            file_format: FILE_FORMAT,
            log_format: LOG_FORMAT,
        }
    }

    /// Can this release read what is in the set? Its own format and older ones; of files and log its own alone, as it opens no others.
    pub fn check(&self) -> Result<()> {
        let own = Origin::of_this_release();
        let is_own = self.file_format == own.file_format && self.log_format == own.log_format;
        self.check_description()?;
        self.known(is_own)
    }

    /// Can it read what the set says of itself? No release that is yet to come has written it.
    pub fn check_description(&self) -> Result<()> {
        let own = Origin::of_this_release();
        let is_later = self.set_format > own.set_format
            || self.file_format > own.file_format
            || self.log_format > own.log_format;
        self.known(!is_later)
    }

    fn known(&self, is_known: bool) -> Result<()> {
        match is_known {
            true => Ok(()),
            false => Err(BackupError::OtherRelease {
                found: self.text(),
                own: Origin::of_this_release().text(),
            }),
        }
    }

    fn text(&self) -> String {
        let release: String = self.release.chars().take(RELEASE_CHARS_MAX).collect();
        format!(
            "{release} (formats: backup {}, file {}, log {})",
            self.set_format, self.file_format, self.log_format
        )
    }
}

/// Sets that do not say it are older than the first change of a format.
impl Default for Origin {
    fn default() -> Origin {
        Origin {
            release: "0.1.0".to_string(),
            set_format: 1,
            file_format: 4,
            log_format: 3,
        }
    }
}

/// The part of a set's description that is read first.
#[derive(Deserialize)]
pub(crate) struct OriginOnly {
    #[serde(default)]
    pub origin: Origin,
}

/// Error about a medium with these first bytes, if they are those of another format.
pub(crate) fn other_medium(first: [u8; 4]) -> Option<BackupError> {
    let format = frame::medium_format(first).filter(|format| *format != frame::MEDIUM_FORMAT)?;
    let own = Origin::of_this_release().release;
    Some(BackupError::OtherRelease {
        found: format!("unknown (format of the medium {format})"),
        own: format!("{own} (format of the medium {})", frame::MEDIUM_FORMAT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_other_releases_are_refused_by_their_numbers() {
        let own = Origin::of_this_release();
        own.check().expect("our own");
        Origin::default().check().expect("sets of 0.1.0");
        let release = "9.9.9".to_string();
        for other in [
            Origin {
                set_format: own.set_format + 1,
                release: release.clone(),
                ..own.clone()
            },
            Origin {
                file_format: own.file_format + 1,
                release: release.clone(),
                ..own.clone()
            },
            Origin {
                file_format: own.file_format - 1,
                release: release.clone(),
                ..own.clone()
            },
            Origin {
                log_format: own.log_format + 1,
                release,
                ..own.clone()
            },
        ] {
            let refused = other.check().expect_err("another format").to_string();
            assert!(refused.contains("9.9.9 (formats: backup "), "{refused}");
        }
    }

    #[test]
    fn the_first_bytes_of_a_medium_tell_its_format() {
        // A text may begin so, too.
        for none in [b"DBK1", b"MZ\0\0", b"DBKA", b"DBK "] {
            assert!(other_medium(*none).is_none());
        }
        let refused = other_medium(*b"DBK2").expect("another format").to_string();
        assert!(refused.contains("format of the medium 2"), "{refused}");
    }
}
