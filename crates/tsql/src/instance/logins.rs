//! Logins with SQL authentication. How passwords are hashed is handed in: this room stores opaque text.

use crate::error::Result;
use crate::messages;
use daruma_catalog::{Catalog, LoginDef, names_equal};
use parking_lot::RwLock;
use std::sync::Arc;

/// Slow, salted hashing of passwords.
pub trait PasswordHasher: Send + Sync {
    fn hash(&self, password: &str) -> Result<String>;
    fn verify(&self, password: &str, hash: &str) -> bool;
}

pub struct Logins {
    list: RwLock<Vec<Arc<LoginDef>>>,
    catalog: Arc<Catalog>,
    hasher: Arc<dyn PasswordHasher>,
}

impl Logins {
    pub fn load(catalog: Arc<Catalog>, hasher: Arc<dyn PasswordHasher>) -> Result<Logins> {
        let list = catalog.logins()?.into_iter().map(Arc::new).collect();
        Ok(Logins {
            list: RwLock::new(list),
            catalog,
            hasher,
        })
    }

    pub fn all(&self) -> Vec<Arc<LoginDef>> {
        self.list.read().clone()
    }

    pub fn get(&self, name: &str) -> Option<Arc<LoginDef>> {
        self.list
            .read()
            .iter()
            .find(|l| names_equal(&l.name, name))
            .cloned()
    }

    /// The login, if name and password are right and it may connect. A wrong name costs as much time as a wrong
    /// password, so that names cannot be found out.
    pub fn authenticate(&self, name: &str, password: &str) -> Option<Arc<LoginDef>> {
        let login = self.get(name);
        let hash = login
            .as_ref()
            .map_or(String::new(), |l| l.password_hash.clone());
        let hash = match hash.is_empty() {
            false => hash,
            true => self
                .get("sa")
                .map_or(String::new(), |sa| sa.password_hash.clone()),
        };
        let right = self.hasher.verify(password, &hash);
        login.filter(|l| right && !l.disabled && !l.password_hash.is_empty())
    }

    pub fn has_password(&self, name: &str) -> bool {
        self.get(name).is_some_and(|l| !l.password_hash.is_empty())
    }

    /// Creates a login; error 15025 when there is one of the name.
    pub fn create(
        &self,
        name: &str,
        password: &str,
        database: &str,
        language: &str,
        now_utc: i64,
        sid: Vec<u8>,
    ) -> Result<()> {
        if self.get(name).is_some() {
            return Err(messages::error(15025, &[&name]));
        }
        let id = self
            .list
            .read()
            .iter()
            .map(|l| l.id)
            .max()
            .map_or(1, |id| (id + 1).max(260));
        self.put(LoginDef {
            id,
            name: name.to_string(),
            sid,
            password_hash: self.hasher.hash(password)?,
            default_database: database.to_string(),
            default_language: language.to_string(),
            disabled: false,
            created_utc: now_utc,
            modified_utc: now_utc,
            roles: Vec::new(),
        })
    }

    pub fn set_password(&self, name: &str, password: &str) -> Result<()> {
        let mut login = self.existing(name, "alter")?;
        login.password_hash = self.hasher.hash(password)?;
        self.put(login)
    }

    pub fn verify(&self, login: &LoginDef, password: &str) -> bool {
        self.hasher.verify(password, &login.password_hash)
    }

    /// A copy to change and [`Logins::put`] back; error 15151 when there is none.
    pub fn existing(&self, name: &str, verb: &str) -> Result<LoginDef> {
        let login = self
            .get(name)
            .ok_or_else(|| messages::error(15151, &[&verb, &"login", &name]))?;
        Ok((*login).clone())
    }

    pub fn put(&self, login: LoginDef) -> Result<()> {
        self.catalog.put_login(&login)?;
        let mut list = self.list.write();
        list.retain(|l| l.id != login.id);
        list.push(Arc::new(login));
        list.sort_by_key(|l| l.id);
        Ok(())
    }

    pub fn remove(&self, name: &str) -> Result<()> {
        let login = self.existing(name, "drop")?;
        if login.id == 1 {
            return Err(messages::error(15151, &[&"drop", &"login", &name]));
        }
        self.catalog.delete_login(login.id)?;
        self.list.write().retain(|l| l.id != login.id);
        Ok(())
    }
}
