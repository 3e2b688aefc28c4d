//! Permissions and principals.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

/// Options of CREATE LOGIN beside the password.
const NEW_LOGIN_OPTIONS: &[&str] = &[
    "SID",
    "DEFAULT_DATABASE",
    "DEFAULT_LANGUAGE",
    "CHECK_EXPIRATION",
    "CHECK_POLICY",
    "CREDENTIAL",
];
/// Options of CREATE LOGIN .. FROM.
const FOREIGN_LOGIN_OPTIONS: &[&str] = &["DEFAULT_DATABASE", "DEFAULT_LANGUAGE", "SID"];
/// Options of ALTER LOGIN beside the password.
const LOGIN_OPTIONS: &[&str] = &[
    "NAME",
    "DEFAULT_DATABASE",
    "DEFAULT_LANGUAGE",
    "CHECK_EXPIRATION",
    "CHECK_POLICY",
    "CREDENTIAL",
];
const NEW_USER_OPTIONS: &[&str] = &[
    "DEFAULT_SCHEMA",
    "DEFAULT_LANGUAGE",
    "SID",
    "PASSWORD",
    "ALLOW_ENCRYPTED_VALUE_MODIFICATIONS",
];
const USER_OPTIONS: &[&str] = &[
    "NAME",
    "DEFAULT_SCHEMA",
    "LOGIN",
    "PASSWORD",
    "OLD_PASSWORD",
    "DEFAULT_LANGUAGE",
    "ALLOW_ENCRYPTED_VALUE_MODIFICATIONS",
];

impl Parser<'_> {
    pub(super) fn grant(&mut self) -> Parse<StatementKind> {
        let verb = match self.eat_any(&[K::GRANT, K::DENY, K::REVOKE]) {
            Some(K::GRANT) => GrantVerb::Grant,
            Some(K::DENY) => GrantVerb::Deny,
            _ => GrantVerb::Revoke,
        };
        let grant_option_for =
            verb == GrantVerb::Revoke && self.eat_words(&[K::GRANT, K::OPTION, K::FOR]);
        if self.at(K::GRANT) {
            return Err(self.unexpected());
        }
        let permissions = self.list(Self::permission)?;
        let on = if self.eat(K::ON) {
            Some(self.securable()?)
        } else {
            None
        };
        if self.eat_any(&[K::TO, K::FROM]).is_none() {
            return Err(self.unexpected());
        }
        let principals = self.list(Self::principal)?;
        let grants = verb == GrantVerb::Grant;
        let with_grant_option = grants && self.eat_words(&[K::WITH, K::GRANT, K::OPTION]);
        let cascade = !grants && self.eat(K::CASCADE);
        let as_principal = if self.eat(K::AS) {
            Some(self.principal()?)
        } else {
            None
        };
        Ok(StatementKind::Grant(Grant {
            verb,
            grant_option_for,
            permissions,
            on,
            principals,
            with_grant_option,
            cascade,
            as_principal,
        }))
    }

    /// A user or role; PUBLIC is reserved and may stand here.
    fn principal(&mut self) -> Parse<Ident> {
        if self.at(K::PUBLIC) {
            self.any_word()
        } else {
            self.ident()
        }
    }

    /// `SELECT`, `VIEW SERVER STATE`, `UPDATE (a, b)`.
    fn permission(&mut self) -> Parse<Permission> {
        let mut name = self.word_upper()?;
        while matches!(self.kind(), TokenKind::Word(word) if !matches!(word, K::ON | K::TO | K::FROM))
        {
            name.push(' ');
            name.push_str(&self.word_upper()?);
        }
        let columns = self.optional_paren_list(Self::ident)?;
        Ok(Permission { name, columns })
    }

    pub(super) fn securable(&mut self) -> Parse<Securable> {
        let class = self.optional_class()?;
        let name = self.object_name()?;
        let columns = self.optional_paren_list(Self::ident)?;
        Ok(Securable {
            class,
            name,
            columns,
        })
    }

    /// `SCHEMA ::`, `XML SCHEMA COLLECTION ::`.
    pub(super) fn optional_class(&mut self) -> Parse<Option<String>> {
        let mut words = 0;
        while words < 4 && matches!(self.kind_at(words), TokenKind::Word(_)) {
            words += 1;
        }
        if words == 0 || !self.symbol_at(words, Symbol::DoubleColon) {
            return Ok(None);
        }
        let mut class = self.word_upper()?;
        while !self.eat_symbol(Symbol::DoubleColon) {
            class.push(' ');
            class.push_str(&self.word_upper()?);
        }
        Ok(Some(class))
    }

    fn principal_statement(statement: PrincipalStatement) -> StatementKind {
        StatementKind::Principal(statement)
    }

    pub(super) fn create_login(&mut self) -> Parse<StatementKind> {
        self.expect(K::LOGIN)?;
        let name = self.ident()?;
        let mut options = Vec::new();
        let source = if self.eat(K::FROM) {
            let source = self.login_source()?;
            if self.eat(K::WITH) {
                options = self.principal_options(FOREIGN_LOGIN_OPTIONS)?;
            }
            source
        } else {
            self.expect_words(&[K::WITH, K::PASSWORD])?;
            let password = self.login_password()?;
            if self.eat_comma() {
                options = self.principal_options(NEW_LOGIN_OPTIONS)?;
            }
            LoginSource::Password(password)
        };
        Ok(Self::principal_statement(PrincipalStatement::CreateLogin {
            name,
            source,
            options,
        }))
    }

    /// `a = 1, b = ON` of a login or user.
    fn principal_options(&mut self, known: &[&str]) -> Parse<Vec<OptionItem>> {
        self.list(|parser| parser.principal_option(known))
    }

    /// One option of these names. Its name says what its value is: a switch, bytes, a string or a name.
    fn principal_option(&mut self, known: &[&str]) -> Parse<OptionItem> {
        let given = self.text_of(self.token(0));
        if !known.iter().any(|name| given.eq_ignore_ascii_case(name)) {
            return Err(self.unexpected());
        }
        let name = self.word_upper()?;
        self.expect_equal()?;
        let value = match name.as_str() {
            "CHECK_POLICY" | "CHECK_EXPIRATION" | "ALLOW_ENCRYPTED_VALUE_MODIFICATIONS" => {
                match self.eat_any(&[K::ON, K::OFF]) {
                    Some(K::ON) => OptionValue::On,
                    Some(_) => OptionValue::Off,
                    None => return Err(self.unexpected()),
                }
            }
            "SID" if self.kind() != TokenKind::Binary => return Err(self.unexpected()),
            "SID" => OptionValue::Expr(Expr::Literal(self.literal()?)),
            "PASSWORD" | "OLD_PASSWORD" => OptionValue::Expr(self.expr()?),
            _ if matches!(self.kind(), TokenKind::String | TokenKind::NationalString) => {
                OptionValue::Expr(Expr::Literal(self.literal()?))
            }
            _ => match self.ident()? {
                name if name.quoted => OptionValue::Name(name),
                name => OptionValue::Word(name.text),
            },
        };
        Ok(OptionItem { name, value })
    }

    fn login_source(&mut self) -> Parse<LoginSource> {
        match self.eat_any(&[K::WINDOWS, K::CERTIFICATE, K::ASYMMETRIC, K::EXTERNAL]) {
            Some(K::WINDOWS) => Ok(LoginSource::Windows),
            Some(K::CERTIFICATE) => self.ident().map(LoginSource::Certificate),
            Some(K::ASYMMETRIC) => {
                self.expect(K::KEY)?;
                self.ident().map(LoginSource::AsymmetricKey)
            }
            Some(_) => self
                .expect(K::PROVIDER)
                .map(|()| LoginSource::ExternalProvider),
            None => Err(self.unexpected()),
        }
    }

    /// After PASSWORD: `= 'x' [HASHED] [MUST_CHANGE]`.
    fn login_password(&mut self) -> Parse<LoginPassword> {
        self.expect_equal()?;
        let value = self.expr()?;
        let mut password = LoginPassword {
            value,
            hashed: false,
            must_change: false,
        };
        while let Some(word) = self.eat_any(&[K::HASHED, K::MUST_CHANGE]) {
            password.hashed |= word == K::HASHED;
            password.must_change |= word == K::MUST_CHANGE;
        }
        Ok(password)
    }

    pub(super) fn alter_login(&mut self) -> Parse<StatementKind> {
        self.expect(K::LOGIN)?;
        let name = self.ident()?;
        let change = match self.eat_any(&[K::ENABLE, K::DISABLE, K::ADD, K::DROP, K::WITH]) {
            Some(K::ENABLE) => AlterLogin::Enable,
            Some(K::DISABLE) => AlterLogin::Disable,
            Some(K::WITH) => self.alter_login_with()?,
            Some(verb) => {
                self.expect(K::CREDENTIAL)?;
                let credential = self.ident()?;
                if verb == K::ADD {
                    AlterLogin::AddCredential(credential)
                } else {
                    AlterLogin::DropCredential(credential)
                }
            }
            None => return Err(self.unexpected()),
        };
        Ok(Self::principal_statement(PrincipalStatement::AlterLogin {
            name,
            change,
        }))
    }

    fn alter_login_with(&mut self) -> Parse<AlterLogin> {
        let (mut password, mut old_password, mut unlock, mut options) =
            (None, None, false, Vec::new());
        self.list(|parser| {
            if parser.eat(K::PASSWORD) {
                let mut new = parser.login_password()?;
                loop {
                    if parser.eat(K::OLD_PASSWORD) {
                        parser.expect_equal()?;
                        old_password = Some(parser.expr()?);
                    } else if parser.eat(K::UNLOCK) {
                        unlock = true;
                    } else if parser.eat(K::MUST_CHANGE) {
                        new.must_change = true;
                    } else {
                        break;
                    }
                }
                password = Some(new);
            } else if parser.eat_words(&[K::NO, K::CREDENTIAL]) {
                options.push(OptionItem {
                    name: "NO CREDENTIAL".to_owned(),
                    value: OptionValue::None,
                });
            } else {
                options.push(parser.principal_option(LOGIN_OPTIONS)?);
            }
            Ok(())
        })?;
        Ok(AlterLogin::With {
            password,
            old_password,
            unlock,
            options,
        })
    }

    pub(super) fn create_user(&mut self) -> Parse<StatementKind> {
        self.expect(K::USER)?;
        let name = self.ident()?;
        let source = if self.eat_any(&[K::FOR, K::FROM]).is_some() {
            self.user_source()?
        } else if self.eat_words(&[K::WITHOUT, K::LOGIN]) {
            UserSource::WithoutLogin
        } else {
            UserSource::Implied
        };
        let options = if self.eat(K::WITH) {
            self.principal_options(NEW_USER_OPTIONS)?
        } else {
            Vec::new()
        };
        Ok(Self::principal_statement(PrincipalStatement::CreateUser {
            name,
            source,
            options,
        }))
    }

    fn user_source(&mut self) -> Parse<UserSource> {
        match self.eat_any(&[K::LOGIN, K::CERTIFICATE, K::ASYMMETRIC, K::EXTERNAL]) {
            Some(K::LOGIN) => self.ident().map(UserSource::Login),
            Some(K::CERTIFICATE) => self.ident().map(UserSource::Certificate),
            Some(K::ASYMMETRIC) => {
                self.expect(K::KEY)?;
                self.ident().map(UserSource::AsymmetricKey)
            }
            Some(_) => self
                .expect(K::PROVIDER)
                .map(|()| UserSource::ExternalProvider),
            None => Err(self.unexpected()),
        }
    }

    pub(super) fn alter_user(&mut self) -> Parse<StatementKind> {
        self.expect(K::USER)?;
        let name = self.ident()?;
        self.expect(K::WITH)?;
        let options = self.principal_options(USER_OPTIONS)?;
        Ok(Self::principal_statement(PrincipalStatement::AlterUser {
            name,
            options,
        }))
    }

    pub(super) fn create_role(&mut self, server: bool) -> Parse<StatementKind> {
        self.expect(K::ROLE)?;
        let name = self.ident()?;
        let owner = if self.eat(K::AUTHORIZATION) {
            Some(self.ident()?)
        } else {
            None
        };
        Ok(Self::principal_statement(PrincipalStatement::CreateRole {
            name,
            server,
            owner,
        }))
    }

    pub(super) fn alter_role(&mut self, server: bool) -> Parse<StatementKind> {
        self.expect(K::ROLE)?;
        let name = self.ident()?;
        let change = match self.eat_any(&[K::ADD, K::DROP, K::WITH]) {
            Some(K::WITH) => {
                self.expect(K::NAME)?;
                self.expect_equal()?;
                AlterRole::Rename(self.ident()?)
            }
            Some(verb) => {
                self.expect(K::MEMBER)?;
                let member = self.principal()?;
                if verb == K::ADD {
                    AlterRole::AddMember(member)
                } else {
                    AlterRole::DropMember(member)
                }
            }
            None => return Err(self.unexpected()),
        };
        Ok(Self::principal_statement(PrincipalStatement::AlterRole {
            name,
            server,
            change,
        }))
    }

    pub(super) fn application_role(&mut self, alter: bool) -> Parse<StatementKind> {
        self.expect_words(&[K::APPLICATION, K::ROLE])?;
        let name = self.ident()?;
        self.expect(K::WITH)?;
        let options = self.loose_options()?;
        Ok(Self::principal_statement(if alter {
            PrincipalStatement::AlterApplicationRole { name, options }
        } else {
            PrincipalStatement::CreateApplicationRole { name, options }
        }))
    }

    pub(super) fn credential(&mut self, alter: bool) -> Parse<StatementKind> {
        let database_scoped = self.eat_words(&[K::DATABASE, K::SCOPED]);
        self.expect(K::CREDENTIAL)?;
        let name = self.ident()?;
        self.expect(K::WITH)?;
        let options = self.loose_options()?;
        let provider = if self.eat_words(&[K::FOR, K::CRYPTOGRAPHIC, K::PROVIDER]) {
            Some(self.ident()?)
        } else {
            None
        };
        let statement = PrincipalStatement::Credential {
            alter,
            database_scoped,
            name,
            options,
            provider,
        };
        Ok(Self::principal_statement(statement))
    }

    pub(super) fn alter_authorization(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::AUTHORIZATION, K::ON])?;
        let on = self.securable()?;
        self.expect(K::TO)?;
        let to = if self.eat_words(&[K::SCHEMA, K::OWNER]) {
            None
        } else {
            Some(self.ident()?)
        };
        Ok(Self::principal_statement(
            PrincipalStatement::AlterAuthorization { on, to },
        ))
    }
}
