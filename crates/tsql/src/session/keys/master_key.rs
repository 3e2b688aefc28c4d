//! The master key of master.
//!
//! Theory: 32 random bytes, kept encrypted by the service master key and by each of its passwords. The first opens it without
//! anybody's doing; OPEN MASTER KEY opens it by a password for a session, as after master came from another server.

use super::Execution;
use crate::error::Result;
use crate::instance::{MasterKey, keys};
use crate::messages;
use crate::session::access::check_policy;
use daruma_catalog::{DatabaseKeyDef, KeyEncryption};
use daruma_syntax::ast::{AlterMasterKey, KeyProtector};

const ID: i32 = keys::MASTER_KEY_ID;
const OWNER: &str = keys::MASTER_KEY_OWNER;

impl Execution<'_> {
    fn master_key_def(&self) -> Result<std::sync::Arc<DatabaseKeyDef>> {
        let def = self.instance().hadr.master_key.by_id(ID);
        def.ok_or_else(|| messages::error(15581, &[]))
    }

    /// The key's bytes: as the session opened it, or by the service master key. Error 15581 without either.
    fn master_key_bytes(&self) -> Result<Vec<u8>> {
        let def = self.master_key_def()?;
        if let Some((guid, bytes)) = &*self.state.open_master_key.borrow()
            && *guid == def.guid
        {
            return Ok(bytes.clone());
        }
        self.instance().master_key_bytes()
    }

    /// The key that private keys are encrypted with; error 15581 when it cannot be opened.
    pub(crate) fn master_key(&self) -> Result<MasterKey> {
        MasterKey::from_bytes(&self.master_key_bytes()?)
    }

    fn seal_by_service(&self, bytes: &[u8]) -> Result<String> {
        let instance = self.instance();
        let service = MasterKey::load_or_create(instance.env(), instance.data_dir())?;
        keys::seal(instance.env().random.as_ref(), &service, OWNER, bytes)
    }

    fn seal_by_password(&self, password: &str, bytes: &[u8]) -> Result<String> {
        check_policy("", password)?;
        let random = self.instance().env().random.clone();
        keys::seal_by_password(random.as_ref(), OWNER, password, bytes)
    }

    pub(super) fn create_master_key(&self, password: Option<&str>) -> Result<()> {
        let Some(password) = password else {
            return Err(messages::not_supported(
                "CREATE MASTER KEY without a password",
            ));
        };
        let instance = self.instance();
        if instance.hadr.master_key.by_id(ID).is_some() {
            return Err(messages::error(15578, &[]));
        }
        let random = instance.env().random.as_ref();
        let bytes = keys::fresh_key(random);
        let mut guid = [0; 16];
        random.fill(&mut guid);
        let by_password = vec![self.seal_by_password(password, &bytes)?];
        let by_service = Some(self.seal_by_service(&bytes)?);
        let now = instance.now_utc();
        instance.hadr.master_key.create(ID, |id| match id {
            ID => Ok(DatabaseKeyDef {
                guid,
                by_service,
                by_password,
                created_utc: now,
                modified_utc: now,
            }),
            // Another session was quicker.
            _ => Err(messages::error(15578, &[])),
        })?;
        Ok(())
    }

    pub(super) fn alter_master_key(&self, change: &AlterMasterKey) -> Result<()> {
        let AlterMasterKey::Encryption { add, by } = change else {
            return Err(messages::not_supported("ALTER MASTER KEY REGENERATE"));
        };
        let bytes = self.master_key_bytes()?;
        let (add, now) = (*add, self.instance().now_utc());
        let sealed = match (add, by) {
            (false, _) => None,
            (true, KeyProtector::ServiceMasterKey) => Some(self.seal_by_service(&bytes)?),
            (true, KeyProtector::Password(p)) => Some(self.seal_by_password(p, &bytes)?),
        };
        let changed = self.instance().hadr.master_key.change(ID, |def| {
            match by {
                KeyProtector::ServiceMasterKey => def.by_service = sealed,
                KeyProtector::Password(_) if add => def.by_password.extend(sealed),
                KeyProtector::Password(password) => {
                    let left = |s: &String| keys::open_by_password(OWNER, password, s).is_none();
                    let before = def.by_password.len();
                    def.by_password.retain(left);
                    // The last password stays: without one a lost service key would be the end.
                    if def.by_password.len() == before || def.by_password.is_empty() {
                        return Err(messages::error(15313, &[]));
                    }
                }
            }
            def.modified_utc = now;
            Ok(())
        })?;
        changed.map(drop).ok_or_else(|| messages::error(15581, &[]))
    }

    pub(super) fn open_master_key(&self, password: &str) -> Result<()> {
        let def = self.master_key_def()?;
        let open = |sealed: &String| keys::open_by_password(OWNER, password, sealed);
        let opened = def.by_password.iter().find_map(open);
        let bytes = opened.ok_or_else(|| messages::error(15313, &[]))?;
        *self.state.open_master_key.borrow_mut() = Some((def.guid, bytes));
        Ok(())
    }

    pub(super) fn close_master_key(&self) -> Result<()> {
        match self.state.open_master_key.borrow_mut().take() {
            Some(_) => Ok(()),
            None => Err(messages::error(15581, &[])),
        }
    }

    pub(super) fn drop_master_key(&self) -> Result<()> {
        let hadr = &self.instance().hadr;
        self.master_key_def()
            .map_err(|_| messages::error(15151, &[&"drop", &"master key", &"dbo"]))?;
        hadr.master_key.remove(ID, || {
            let uses = |c: &daruma_catalog::CertificateDef| {
                let key = c.private_key.as_ref();
                key.is_some_and(|key| key.by == KeyEncryption::MasterKey)
            };
            match hadr.certificates.find(uses) {
                Some(c) => Err(messages::error(
                    15580,
                    &[&"master key", &"certificate", &c.name],
                )),
                None => Ok(()),
            }
        })?;
        *self.state.open_master_key.borrow_mut() = None;
        Ok(())
    }
}
