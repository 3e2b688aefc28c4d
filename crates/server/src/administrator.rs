//! The password of `sa`: given at the start, there from an earlier one, or made.
//!
//! Theory: what a server prints is kept by service managers and container engines, and read by more people than may administer it.
//! A made password is therefore written to a file of the data folder, which its owner alone can read, and nowhere else. The file is
//! hard before the login has the password: a crash between the two makes another one, and never locks everybody out.

use crate::error::ServerError;
use crate::tls::{remove, write_private};
use daruma_base::Random;
use daruma_tsql::instance::Instance;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// In the data folder; its only line is the password.
pub const PASSWORD_FILE: &str = "sa-password";
/// Letters of a made password; none that look alike.
const LETTERS: &[u8; 56] = b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CHARS: usize = 20;

/// A password that was made at this start, and the file that has it.
#[derive(Clone)]
pub struct MadePassword {
    file: PathBuf,
    text: String,
}

/// Without the password.
impl fmt::Debug for MadePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadePassword")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl MadePassword {
    /// The file that has it, in the data folder.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The password, for logins of this process; it is not to be shown.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A given password is set; without one and without an old one, a password is made and written to a file in `data_dir`.
pub(crate) fn set_password(
    instance: &Instance,
    data_dir: &Path,
    given: Option<&str>,
    random: &dyn Random,
) -> Result<Option<MadePassword>, ServerError> {
    let file = data_dir.join(PASSWORD_FILE);
    instance.keep_file(&file);
    let logins = &instance.logins;
    // It may have another name by now.
    let name = logins
        .administrator()
        .map_or("sa".to_string(), |sa| sa.name.clone());
    match given {
        Some(given) => {
            let is_set = logins
                .administrator()
                .is_some_and(|sa| logins.has_password(&name) && logins.verify(&sa, given));
            if !is_set {
                logins.set_password(&name, given)?;
            }
            // What it says is no password any more; a crash may have come between the two.
            remove(&file)?;
            Ok(None)
        }
        None if logins.has_password(&name) => Ok(None),
        None => {
            let text = make_password(random);
            write_private(&file, format!("{text}\n").as_bytes())?;
            sync_folder(data_dir)?;
            logins.set_password(&name, &text)?;
            Ok(Some(MadePassword { file, text }))
        }
    }
}

/// Names in the folder are durable when this returns.
fn sync_folder(folder: &Path) -> Result<(), ServerError> {
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| ServerError::WriteFile {
        path: folder.to_path_buf(),
        source,
    })
}

/// Letters and digits by chance.
pub(crate) fn make_password(random: &dyn Random) -> String {
    let letters = LETTERS.len() as u64;
    let letter = |_| {
        let index = usize::try_from(random.u64() % letters).unwrap_or(0);
        LETTERS.get(index).map_or('x', |byte| char::from(*byte))
    };
    (0..CHARS).map(letter).collect()
}
