//! CHECK_POLICY: what a password must be.

use crate::error::Result;
use crate::messages;

const LENGTH_MIN: usize = 8;
const LENGTH_MAX: usize = 128;
/// Kinds of characters (upper case, lower case, digits, others) that must be there.
const KINDS_MIN: usize = 3;

/// Errors 15116 to 15118.
pub(crate) fn check_policy(login: &str, password: &str) -> Result<()> {
    let length = password.chars().count();
    if length > LENGTH_MAX {
        return Err(messages::error(15117, &[]));
    }
    if length < LENGTH_MIN {
        return Err(messages::error(15116, &[]));
    }
    let kinds = [
        password.chars().any(char::is_uppercase),
        password.chars().any(char::is_lowercase),
        password.chars().any(char::is_numeric),
        password.chars().any(|c| !c.is_alphanumeric()),
    ];
    let names_login =
        login.chars().count() >= 3 && password.to_lowercase().contains(&login.to_lowercase());
    match kinds.iter().filter(|k| **k).count() >= KINDS_MIN && !names_login {
        true => Ok(()),
        false => Err(messages::error(15118, &[])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_passwords_are_refused() {
        let number = |login, password| check_policy(login, password).err().map(|e| e.number);
        assert_eq!(number("ann", "Short1!"), Some(15116));
        assert_eq!(number("ann", "alllowercase"), Some(15118));
        assert_eq!(number("ann", "Secret-Ann-9"), Some(15118));
        assert_eq!(number("ann", "Daruma-2026"), None);
        assert_eq!(number("ann", &"Aa1!".repeat(40)), Some(15117));
    }
}
