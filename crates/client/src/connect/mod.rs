//! Connection flags, the same for every client command: sqlcmd's letters and environment variables.

use crate::client::{Client, ClientError, EncryptionWish, Options, Result, Trust};
use clap::{Args, ValueEnum};
use daruma_tds::login::Secret;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

mod password;

const PORT_DEFAULT: u16 = 1433;

/// The connection flags that all client commands share.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// Server, as HOST, HOST,PORT or tcp:HOST,PORT [default: localhost]
    #[arg(
        short = 'S',
        long,
        value_name = "SERVER",
        env = "SQLCMDSERVER",
        hide_env_values = true
    )]
    pub server: Option<String>,

    /// Login name
    #[arg(
        short = 'U',
        long,
        value_name = "LOGIN",
        env = "SQLCMDUSER",
        default_value = "sa",
        hide_env_values = true
    )]
    pub user: String,

    /// Password; asked for if missing
    #[arg(
        short = 'P',
        long,
        value_name = "PASSWORD",
        env = "SQLCMDPASSWORD",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    pub password: Option<String>,

    /// Trust the server's certificate whatever it is
    #[arg(short = 'C', long)]
    pub trust_server_certificate: bool,

    /// Trust the certificates in this PEM file and those they vouch for
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Encryption: optional (login only), mandatory or strict (TDS 8.0)
    #[arg(short = 'N', long, value_name = "LEVEL", num_args = 0..=1, default_value = "mandatory", default_missing_value = "mandatory", hide_possible_values = true)]
    pub encrypt: EncryptLevel,

    /// Seconds to wait for the login, 0 for as long as it takes
    #[arg(short = 'l', long, value_name = "SECONDS", default_value_t = 15)]
    pub login_timeout: u64,
}

/// Whether the connection is encrypted, in sqlcmd's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EncryptLevel {
    #[value(alias = "o", alias = "no", alias = "false", alias = "disable")]
    Optional,
    #[value(alias = "m", alias = "yes", alias = "true")]
    Mandatory,
    #[value(alias = "s")]
    Strict,
}

impl ConnectArgs {
    /// Everything needed to connect; asks for a missing password if someone sits at the terminal.
    pub fn options(&self, app_name: &str) -> Result<Options, ConnectError> {
        let (host, port) = parse_server(self.server.as_deref().unwrap_or("localhost"))?;
        let password = match &self.password {
            Some(password) => Secret::new(password.as_str()),
            None if io::stdin().is_terminal() => {
                password::ask(&self.user).map_err(ConnectError::Password)?
            }
            None => return Err(ConnectError::NoPassword),
        };
        Ok(Options {
            user: self.user.clone(),
            password,
            encryption: match self.encrypt {
                EncryptLevel::Optional => EncryptionWish::Optional,
                EncryptLevel::Mandatory => EncryptionWish::Mandatory,
                EncryptLevel::Strict => EncryptionWish::Strict,
            },
            trust: match &self.ca {
                _ if self.trust_server_certificate => Trust::Anyone,
                Some(path) => Trust::File(path.clone()),
                // Whoever is content without encryption is not asked whose certificate protects the login: an attacker would do without.
                None if self.encrypt == EncryptLevel::Optional => Trust::Anyone,
                None => Trust::Nobody,
            },
            login_timeout: seconds(self.login_timeout),
            app_name: app_name.into(),
            ..Options::new(host, port)
        })
    }

    /// Connects as the flags say.
    pub fn connect(&self, app_name: &str) -> Result<Client, ConnectError> {
        Ok(Client::connect(&self.options(app_name)?)?)
    }
}

/// Why the connection flags lead to no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("a password is needed: -P PASSWORD, or SQLCMDPASSWORD in the environment")]
    NoPassword,
    #[error("cannot read the password: {0}")]
    Password(io::Error),
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// 0 stands for no limit.
pub fn seconds(count: u64) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(count))
}

/// `host`, `host,port`, `tcp:host,port`; `.` and `(local)` are this machine.
pub fn parse_server(server: &str) -> Result<(String, u16)> {
    let bad = || ClientError::ServerName {
        server: server.into(),
    };
    let address = server.trim();
    let address = address
        .strip_prefix("tcp:")
        .or_else(|| address.strip_prefix("TCP:"))
        .unwrap_or(address);
    let (host, port) = match address.rsplit_once(',') {
        Some((host, port)) => (host.trim(), port.trim().parse().map_err(|_| bad())?),
        None => (address, PORT_DEFAULT),
    };
    if let Some((host, _)) = host.split_once('\\') {
        return Err(ClientError::NamedInstance { host: host.into() });
    }
    let host = match host {
        "." | "(local)" | "(LOCAL)" => "localhost",
        other => other
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(other),
    };
    if host.is_empty() || host.contains([' ', '/']) || port == 0 {
        return Err(bad());
    }
    Ok((host.into(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names() {
        let parsed = |text| parse_server(text).ok();
        assert_eq!(parsed("localhost"), Some(("localhost".into(), 1433)));
        assert_eq!(
            parsed("tcp:db.example, 1500"),
            Some(("db.example".into(), 1500))
        );
        assert_eq!(parsed(".,14330"), Some(("localhost".into(), 14330)));
        assert_eq!(parsed("(local)"), Some(("localhost".into(), 1433)));
        assert_eq!(parsed("::1,1433"), Some(("::1".into(), 1433)));
        assert_eq!(parsed("[::1]"), Some(("::1".into(), 1433)));
        assert!(
            matches!(parse_server("box\\SQLEXPRESS"), Err(ClientError::NamedInstance { host }) if host == "box")
        );
        for wrong in ["", "host,", "host,x", "host,70000", "host,0", "a b"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
