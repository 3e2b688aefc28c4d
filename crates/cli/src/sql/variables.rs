//! Scripting variables: `$(name)` in a script stands for their text.
//!
//! Order of sources, the first that has the name wins: `:setvar` and `-v`, then the environment.

use std::collections::BTreeMap;

/// Scripting variables; names do not distinguish case, the environment stands behind them.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// By name in upper case.
    values: BTreeMap<String, String>,
}

impl Variables {
    /// Gives a variable a value.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.values.insert(name.to_uppercase(), value.into());
    }

    /// Removes a variable; one of the environment shows again.
    pub fn unset(&mut self, name: &str) {
        self.values.remove(&name.to_uppercase());
    }

    /// The value of a variable, the environment's if it was never set.
    pub fn get(&self, name: &str) -> Option<String> {
        let own = self.values.get(&name.to_uppercase()).cloned();
        own.or_else(|| std::env::var(name).ok())
    }

    /// All that were set here, by name.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Letters, digits and `-_`; what else stands between the parentheses is no variable.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// `name=value` as `-v` takes it.
pub fn parse_assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_name(name) => Ok((name.into(), unquoted(value).into())),
        _ => Err(format!("expected NAME=VALUE, found {text}")),
    }
}

/// Without the double quotes around it.
pub fn unquoted(value: &str) -> &str {
    value
        .strip_prefix('"')
        .and_then(|v| v.strip_suffix('"'))
        .unwrap_or(value)
}
