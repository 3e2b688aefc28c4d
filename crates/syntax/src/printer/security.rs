//! Permissions and principals.

use super::option::LooseOptions;
use super::{Clause, Commas, Flag, Parens};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for Grant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (verb, preposition) = match self.verb {
            GrantVerb::Grant => ("GRANT", "TO"),
            GrantVerb::Deny => ("DENY", "TO"),
            GrantVerb::Revoke => ("REVOKE", "FROM"),
        };
        write!(
            f,
            "{verb}{} {}",
            Flag("GRANT OPTION FOR", self.grant_option_for),
            Commas(&self.permissions)
        )?;
        write!(
            f,
            "{} {preposition} {}",
            Clause("ON", &self.on),
            Commas(&self.principals)
        )?;
        write!(f, "{}", Flag("WITH GRANT OPTION", self.with_grant_option))?;
        write!(
            f,
            "{}{}",
            Flag("CASCADE", self.cascade),
            Clause("AS", &self.as_principal)
        )
    }
}

impl Display for Permission {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, Parens(&self.columns))
    }
}

impl Display for PrincipalStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PrincipalStatement::CreateLogin {
                name,
                source,
                options,
            } => write_create_login(f, name, source, options),
            PrincipalStatement::AlterLogin { name, change } => {
                write!(f, "ALTER LOGIN {name} {change}")
            }
            PrincipalStatement::CreateUser {
                name,
                source,
                options,
            } => {
                write!(f, "CREATE USER {name}{source}{}", LooseOptions(options))
            }
            PrincipalStatement::AlterUser { name, options } => {
                write!(f, "ALTER USER {name}{}", LooseOptions(options))
            }
            PrincipalStatement::CreateRole {
                name,
                server,
                owner,
            } => {
                write!(
                    f,
                    "CREATE {} {name}{}",
                    role_words(*server),
                    Clause("AUTHORIZATION", owner)
                )
            }
            PrincipalStatement::AlterRole {
                name,
                server,
                change,
            } => {
                write!(f, "ALTER {} {name} {change}", role_words(*server))
            }
            PrincipalStatement::CreateApplicationRole { name, options } => {
                write!(f, "CREATE APPLICATION ROLE {name}{}", LooseOptions(options))
            }
            PrincipalStatement::AlterApplicationRole { name, options } => {
                write!(f, "ALTER APPLICATION ROLE {name}{}", LooseOptions(options))
            }
            PrincipalStatement::Credential {
                alter,
                database_scoped,
                name,
                options,
                provider,
            } => {
                let verb = if *alter { "ALTER" } else { "CREATE" };
                write!(
                    f,
                    "{verb}{} CREDENTIAL {name}",
                    Flag("DATABASE SCOPED", *database_scoped)
                )?;
                write!(
                    f,
                    "{}{}",
                    LooseOptions(options),
                    Clause("FOR CRYPTOGRAPHIC PROVIDER", provider)
                )
            }
            PrincipalStatement::AlterAuthorization { on, to } => match to {
                Some(to) => write!(f, "ALTER AUTHORIZATION ON {on} TO {to}"),
                None => write!(f, "ALTER AUTHORIZATION ON {on} TO SCHEMA OWNER"),
            },
        }
    }
}

fn role_words(server: bool) -> &'static str {
    if server { "SERVER ROLE" } else { "ROLE" }
}

fn write_create_login(
    f: &mut Formatter<'_>,
    name: &Ident,
    source: &LoginSource,
    options: &[OptionItem],
) -> fmt::Result {
    write!(f, "CREATE LOGIN {name}")?;
    match source {
        LoginSource::Password(password) => {
            write!(f, " WITH PASSWORD = {password}")?;
            return options
                .iter()
                .try_for_each(|option| write!(f, ", {option}"));
        }
        LoginSource::Windows => f.write_str(" FROM WINDOWS")?,
        LoginSource::Certificate(certificate) => write!(f, " FROM CERTIFICATE {certificate}")?,
        LoginSource::AsymmetricKey(key) => write!(f, " FROM ASYMMETRIC KEY {key}")?,
        LoginSource::ExternalProvider => f.write_str(" FROM EXTERNAL PROVIDER")?,
    }
    LooseOptions(options).fmt(f)
}

impl Display for LoginPassword {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}{}",
            self.value,
            Flag("HASHED", self.hashed),
            Flag("MUST_CHANGE", self.must_change)
        )
    }
}

impl Display for AlterLogin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AlterLogin::Enable => f.write_str("ENABLE"),
            AlterLogin::Disable => f.write_str("DISABLE"),
            AlterLogin::AddCredential(name) => write!(f, "ADD CREDENTIAL {name}"),
            AlterLogin::DropCredential(name) => write!(f, "DROP CREDENTIAL {name}"),
            AlterLogin::With {
                password,
                old_password,
                unlock,
                options,
            } => {
                let mut words: Vec<String> = Vec::new();
                if let Some(password) = password {
                    let old = Clause("OLD_PASSWORD =", old_password);
                    words.push(format!(
                        "PASSWORD = {password}{old}{}",
                        Flag("UNLOCK", *unlock)
                    ));
                }
                words.extend(options.iter().map(ToString::to_string));
                write!(f, "WITH {}", words.join(", "))
            }
        }
    }
}

impl Display for UserSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            UserSource::Implied => Ok(()),
            UserSource::Login(name) => write!(f, " FOR LOGIN {name}"),
            UserSource::WithoutLogin => f.write_str(" WITHOUT LOGIN"),
            UserSource::Certificate(name) => write!(f, " FOR CERTIFICATE {name}"),
            UserSource::AsymmetricKey(name) => write!(f, " FOR ASYMMETRIC KEY {name}"),
            UserSource::ExternalProvider => f.write_str(" FROM EXTERNAL PROVIDER"),
        }
    }
}

impl Display for AlterRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AlterRole::AddMember(name) => write!(f, "ADD MEMBER {name}"),
            AlterRole::DropMember(name) => write!(f, "DROP MEMBER {name}"),
            AlterRole::Rename(name) => write!(f, "WITH NAME = {name}"),
        }
    }
}
