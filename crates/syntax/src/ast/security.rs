//! Principals and permissions.

use super::{Expr, Ident, ObjectName, OptionItem};

/// GRANT, DENY and REVOKE.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub verb: GrantVerb,
    /// `REVOKE GRANT OPTION FOR`.
    pub grant_option_for: bool,
    pub permissions: Vec<Permission>,
    pub on: Option<Securable>,
    pub principals: Vec<Ident>,
    /// `WITH GRANT OPTION`.
    pub with_grant_option: bool,
    pub cascade: bool,
    pub as_principal: Option<Ident>,
}

/// GRANT, DENY or REVOKE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantVerb {
    Grant,
    Deny,
    Revoke,
}

/// A permission, with the columns it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Permission {
    /// Upper-case words: `SELECT`, `VIEW SERVER STATE`, `ALL`.
    pub name: String,
    pub columns: Vec<Ident>,
}

/// `[class ::] name (columns)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Securable {
    /// Upper-case words before `::`.
    pub class: Option<String>,
    pub name: ObjectName,
    pub columns: Vec<Ident>,
}

/// CREATE and ALTER of logins, users, roles, credentials; ALTER AUTHORIZATION; ADD SIGNATURE.
#[derive(Clone, Debug, PartialEq)]
pub enum PrincipalStatement {
    CreateLogin {
        name: Ident,
        source: LoginSource,
        options: Vec<OptionItem>,
    },
    AlterLogin {
        name: Ident,
        change: AlterLogin,
    },
    CreateUser {
        name: Ident,
        source: UserSource,
        options: Vec<OptionItem>,
    },
    AlterUser {
        name: Ident,
        options: Vec<OptionItem>,
    },
    CreateRole {
        name: Ident,
        server: bool,
        owner: Option<Ident>,
    },
    AlterRole {
        name: Ident,
        server: bool,
        change: AlterRole,
    },
    CreateApplicationRole {
        name: Ident,
        options: Vec<OptionItem>,
    },
    AlterApplicationRole {
        name: Ident,
        options: Vec<OptionItem>,
    },
    Credential {
        alter: bool,
        database_scoped: bool,
        name: Ident,
        options: Vec<OptionItem>,
        provider: Option<Ident>,
    },
    AlterAuthorization {
        on: Securable,
        to: Option<Ident>,
    },
}

/// How a login proves who it is.
#[derive(Clone, Debug, PartialEq)]
pub enum LoginSource {
    Password(LoginPassword),
    Windows,
    Certificate(Ident),
    AsymmetricKey(Ident),
    ExternalProvider,
}

/// A login's password as CREATE or ALTER LOGIN gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoginPassword {
    pub value: Expr,
    pub hashed: bool,
    pub must_change: bool,
}

/// What an ALTER LOGIN does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterLogin {
    Enable,
    Disable,
    /// `WITH PASSWORD = '..' OLD_PASSWORD = '..' UNLOCK`, `DEFAULT_DATABASE = d`.
    With {
        password: Option<LoginPassword>,
        old_password: Option<Expr>,
        unlock: bool,
        options: Vec<OptionItem>,
    },
    AddCredential(Ident),
    DropCredential(Ident),
}

/// What a user stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum UserSource {
    /// No FOR clause: the login of the same name.
    Implied,
    Login(Ident),
    WithoutLogin,
    Certificate(Ident),
    AsymmetricKey(Ident),
    ExternalProvider,
}

/// What an ALTER ROLE does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterRole {
    AddMember(Ident),
    DropMember(Ident),
    Rename(Ident),
}
