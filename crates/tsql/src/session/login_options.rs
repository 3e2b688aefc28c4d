//! Options of logins: what CREATE LOGIN and ALTER LOGIN say behind WITH.

use super::execution::Execution;
use crate::error::Result;
use crate::messages;
use daruma_catalog::LoginDef;
use daruma_syntax::ast;

/// Length of the SID of a login with a password.
pub(super) const SID_BYTES: usize = 16;

impl Execution<'_> {
    /// DEFAULT_DATABASE, if it was given. Error 15010 unless there is such a database.
    pub(super) fn default_database(&self, options: &[ast::OptionItem]) -> Result<Option<String>> {
        match option_text(options, "DEFAULT_DATABASE") {
            Some(name) if self.state.instance.database_named(&name).is_none() => {
                Err(messages::error(15010, &[&name]))
            }
            given => Ok(given),
        }
    }

    /// Options of ALTER LOGIN.
    pub(super) fn set_login_options(
        &self,
        login: &mut LoginDef,
        options: &[ast::OptionItem],
    ) -> Result<()> {
        if let Some(database) = self.default_database(options)? {
            login.default_database = database;
        }
        if let Some(language) = default_language(options)? {
            login.default_language = language;
        }
        if let Some(on) = option_switch(options, "CHECK_POLICY") {
            login.check_policy = on;
            // Without a policy nothing expires.
            login.check_expiration &= on;
        }
        if let Some(on) = option_switch(options, "CHECK_EXPIRATION") {
            check_expiration(login.check_policy, on)?;
            login.check_expiration = on;
        }
        if let Some(new_name) = option_text(options, "NAME") {
            let taken = self.state.logins().get(&new_name);
            if taken.is_some_and(|l| l.id != login.id) {
                return Err(messages::error(15025, &[&new_name]));
            }
            login.name = new_name;
        }
        Ok(())
    }
}

/// Text of an option's value: a word, a name or a string.
pub(crate) fn option_text(options: &[ast::OptionItem], name: &str) -> Option<String> {
    let item = options.iter().find(|o| o.is(name))?;
    match &item.value {
        ast::OptionValue::Word(word) => Some(word.clone()),
        ast::OptionValue::Name(name) => Some(name.text.clone()),
        ast::OptionValue::Expr(ast::Expr::Column(column)) => Some(column.name.text.clone()),
        ast::OptionValue::Expr(ast::Expr::Literal(ast::Literal::String { text, .. })) => {
            Some(text.clone())
        }
        _ => None,
    }
}

/// ON or OFF.
pub(super) fn option_switch(options: &[ast::OptionItem], name: &str) -> Option<bool> {
    let item = options.iter().find(|o| o.is(name))?;
    match &item.value {
        ast::OptionValue::On | ast::OptionValue::None => Some(true),
        ast::OptionValue::Off => Some(false),
        _ => None,
    }
}

/// SID of a new login, if it was given. Error 15419 for another length than that of logins with a password.
pub(super) fn given_sid(options: &[ast::OptionItem]) -> Result<Option<Vec<u8>>> {
    match options.iter().find(|o| o.is("SID")).map(|o| &o.value) {
        None => Ok(None),
        Some(ast::OptionValue::Expr(ast::Expr::Literal(ast::Literal::Binary(sid))))
            if sid.len() == SID_BYTES =>
        {
            Ok(Some(sid.clone()))
        }
        Some(_) => Err(messages::error(15419, &[])),
    }
}

/// DEFAULT_LANGUAGE, if it was given. Error 15033 unless there is such a language.
pub(super) fn default_language(options: &[ast::OptionItem]) -> Result<Option<String>> {
    let Some(given) = option_text(options, "DEFAULT_LANGUAGE") else {
        return Ok(None);
    };
    let name = super::language_name(&given);
    let name = name.ok_or_else(|| messages::error(15033, &[&given]))?;
    Ok(Some(name.to_string()))
}

/// Error 15128: who must change a password is under the policy by which it expires.
pub(super) fn check_must_change(must_change: bool, expires: bool) -> Result<()> {
    match must_change && !expires {
        true => Err(messages::error(15128, &[])),
        false => Ok(()),
    }
}

/// Error 15122: passwords of a login expire by the policy that it is under.
pub(super) fn check_expiration(has_policy: bool, expires: bool) -> Result<()> {
    match expires && !has_policy {
        true => Err(messages::error(15122, &[])),
        false => Ok(()),
    }
}

/// CREDENTIAL, which no login has.
pub(super) fn refuse_credential(options: &[ast::OptionItem]) -> Result<()> {
    match options.iter().any(|o| o.is("CREDENTIAL")) {
        true => Err(messages::not_supported("CREDENTIAL")),
        false => Ok(()),
    }
}
