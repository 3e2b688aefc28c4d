//! Definitions that belong to the server and live in master: databases, logins, configuration; and principals.

use daruma_storage::{FileSpec, Growth};
use daruma_value::CollationId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A database as master knows it. What recovery must know lives in the database's own boot page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatabaseDef {
    pub id: u16,
    pub name: String,
    /// Primary file first, then the log, then the others.
    pub files: Vec<FileDef>,
    pub filegroups: Vec<FilegroupDef>,
    pub created_utc: i64,
    pub collation: CollationId,
    pub compatibility_level: u32,
    /// What the owner was called when it became the owner; `owner_sid` says who that is.
    pub owner: String,
    /// SID of the owner's login, which keeps it under another name; `None` in definitions of earlier builds, until the server starts,
    /// and empty where their owner was no login any more.
    #[serde(default)]
    pub owner_sid: Option<Vec<u8>>,
    /// Filegroup of the persistent version store: 1 = PRIMARY.
    pub version_store_filegroup: u16,
    pub user_access: UserAccess,
    pub offline: bool,
    /// Options that are kept and shown, by upper-case name: `AUTO_CLOSE`, `PAGE_VERIFY`, `TRUSTWORTHY`.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// Users that a database admits (`sys.databases.user_access`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserAccess {
    Multi,
    Single,
    Restricted,
}

/// A filegroup of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilegroupDef {
    /// 1 = PRIMARY.
    pub id: u16,
    pub name: String,
    pub is_default: bool,
    pub read_only: bool,
}

impl FilegroupDef {
    /// The filegroup of the primary file and of the catalog.
    pub const PRIMARY: u16 = 1;

    /// Nothing in it may be changed. PRIMARY cannot be so, though earlier versions stored it.
    pub fn keeps_out(&self) -> bool {
        self.read_only && self.id != FilegroupDef::PRIMARY
    }
}

/// A file of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDef {
    /// 1 primary data, 2 log, 3.. others.
    pub id: u16,
    /// 0 for the log.
    pub filegroup: u16,
    pub logical_name: String,
    pub path: PathBuf,
    pub size_pages: u64,
    pub growth: FileGrowth,
    pub max_pages: Option<u64>,
}

/// By how much a file grows when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileGrowth {
    Pages(u32),
    Percent(u8),
}

impl FileDef {
    /// Specification with which the storage engine opens the file.
    pub fn spec(&self) -> FileSpec {
        FileSpec {
            id: self.id,
            filegroup: self.filegroup,
            logical_name: self.logical_name.clone(),
            path: self.path.clone(),
            size_pages: self.size_pages,
            growth: match self.growth {
                FileGrowth::Pages(pages) => Growth::Pages(pages),
                FileGrowth::Percent(percent) => Growth::Percent(percent),
            },
            max_pages: self.max_pages,
        }
    }
}

impl DatabaseDef {
    /// The login is the owner from now on.
    pub fn set_owner(&mut self, login: &LoginDef) {
        self.owner.clone_from(&login.name);
        self.owner_sid = Some(login.sid.clone());
    }

    /// Is this login the owner? Its name says nothing: a login that was dropped or renamed leaves that to anybody.
    pub fn is_owned_by(&self, login: &LoginDef) -> bool {
        self.owner_sid.as_ref() == Some(&login.sid)
    }

    /// Specifications with which the storage engine opens all files.
    pub fn file_specs(&self) -> Vec<FileSpec> {
        self.files.iter().map(FileDef::spec).collect()
    }

    /// The filegroup with this name, whatever its case.
    pub fn filegroup_named(&self, name: &str) -> Option<&FilegroupDef> {
        self.filegroups
            .iter()
            .find(|g| crate::names_equal(&g.name, name))
    }

    /// Id of the filegroup where objects go that name none.
    pub fn default_filegroup(&self) -> u16 {
        let default = self.filegroups.iter().find(|g| g.is_default);
        default.map_or(1, |g| g.id)
    }

    /// The text of an option that was set; `None` when it has its default.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Was the option set to ON?
    pub fn option_is_on(&self, name: &str) -> bool {
        self.option(name) == Some("ON")
    }
}

/// A login with SQL authentication. What the hash looks like is known only to whoever checks passwords.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoginDef {
    /// `sys.server_principals.principal_id`; `sa` is 1.
    pub id: i32,
    pub name: String,
    pub sid: Vec<u8>,
    pub password_hash: String,
    pub default_database: String,
    pub default_language: String,
    pub disabled: bool,
    pub created_utc: i64,
    pub modified_utc: i64,
    /// Fixed server roles, `sysadmin` and so on.
    #[serde(default)]
    pub roles: Vec<String>,
    /// On the server and on other logins.
    #[serde(default)]
    pub permissions: Vec<PermissionDef>,
    /// CHECK_POLICY: new passwords must be strong enough, and failures lock the login for a while.
    #[serde(default)]
    pub check_policy: bool,
    #[serde(default)]
    pub check_expiration: bool,
    /// MUST_CHANGE: the next login has to set a new password.
    #[serde(default)]
    pub must_change: bool,
    /// When the password was set; 0 is unknown.
    #[serde(default)]
    pub password_set_utc: i64,
    /// FROM CERTIFICATE: the certificate it stands for. Such a login has no password and cannot connect.
    #[serde(default)]
    pub certificate_id: Option<i32>,
}

/// A permission given to or kept from a principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDef {
    /// Class of the securable, by the product's numbers: 0 database, 1 object, 3 schema, 4 user or role, 100 server, 101 login.
    pub class: u8,
    /// Id of the object, schema or principal; 0 for database and server.
    pub major: i32,
    /// The column of an object; 0 for the whole of it.
    #[serde(default)]
    pub minor: i32,
    /// Upper case: `SELECT`, `VIEW SERVER STATE`.
    pub permission: String,
    pub state: PermissionState,
    pub grantor: i32,
}

/// How a permission was given or taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PermissionState {
    Grant,
    GrantWithOption,
    Deny,
}

/// All permissions of one principal of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionSet {
    pub grantee: i32,
    pub list: Vec<PermissionDef>,
}

impl LoginDef {
    /// Is the login `sa` or a member of sysadmin?
    pub fn is_sysadmin(&self) -> bool {
        self.id == 1
            || self
                .roles
                .iter()
                .any(|r| r.eq_ignore_ascii_case("sysadmin"))
    }
}

/// A user or role of a database beyond the fixed ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrincipalDef {
    /// From 5; `public`, `dbo`, `guest`, `INFORMATION_SCHEMA` and `sys` are 0 to 4.
    pub id: i32,
    pub name: String,
    pub is_role: bool,
    pub login: Option<String>,
    pub default_schema: String,
    pub members: Vec<String>,
    pub created_utc: i64,
    /// Of the login that the user stands for: outlives a change of its name.
    #[serde(default)]
    pub sid: Option<Vec<u8>>,
    /// Fixed roles it is a member of, by id from 16384.
    #[serde(default)]
    pub fixed_roles: Vec<i32>,
}
