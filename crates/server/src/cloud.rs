//! Objects of a witness in a cloud's storage, reached with the credential that this server has for their URL (CREATE CREDENTIAL), as a backup is.
//!
//! A connection is kept until a call fails: then the credential is read anew. The cluster has no secret, neither in its configuration nor in the witness.

use daruma_cluster::witness::{CloudObject, CloudStore, PutIf};
use daruma_object::{Condition, Folder, ObjectDevices};
use daruma_tsql::instance::Instance;
use daruma_tsql::session::server_credential;
use parking_lot::Mutex;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A call takes so long at most: a node takes a witness for failed after two seconds.
const LIMIT: Duration = Duration::from_millis(1500);

/// See the module.
pub(crate) struct Clouds {
    instance: Weak<Instance>,
    objects: Arc<ObjectDevices>,
    kept: Mutex<Option<(String, Arc<Folder>)>>,
}

impl Clouds {
    pub(crate) fn new(instance: &Arc<Instance>, objects: &Arc<ObjectDevices>) -> Clouds {
        Clouds {
            instance: Arc::downgrade(instance),
            objects: objects.clone(),
            kept: Mutex::default(),
        }
    }

    fn folder(&self, url: &str) -> io::Result<Arc<Folder>> {
        let mut kept = self.kept.lock();
        if let Some((_, folder)) = kept.as_ref().filter(|(of, _)| of == url) {
            return Ok(folder.clone());
        }
        let instance = self.instance.upgrade();
        let instance = instance.ok_or_else(|| io::Error::other("the server stops"))?;
        let inside = format!("{}/", url.trim_end_matches('/'));
        let credential = server_credential(&instance, &inside);
        let credential = credential.map_err(|e| io::Error::other(e.message))?;
        let folder = self.objects.folder(url, credential.as_ref(), LIMIT)?;
        let folder = Arc::new(folder);
        *kept = Some((url.to_string(), folder.clone()));
        Ok(folder)
    }

    fn with<T>(&self, url: &str, call: impl FnOnce(&Folder) -> io::Result<T>) -> io::Result<T> {
        let done = self.folder(url).and_then(|folder| call(&folder));
        if done.is_err() {
            *self.kept.lock() = None;
        }
        done
    }
}

impl CloudStore for Clouds {
    fn get(&self, url: &str, name: &str, bytes_max: usize) -> io::Result<Option<CloudObject>> {
        let found = self.with(url, |folder| folder.get(name, bytes_max))?;
        Ok(found.map(|(bytes, tag)| CloudObject { bytes, tag }))
    }

    fn put(&self, url: &str, name: &str, bytes: &[u8], condition: PutIf<'_>) -> io::Result<bool> {
        let condition = match condition {
            PutIf::Absent => Condition::Absent,
            PutIf::Tagged(tag) => Condition::Tagged(tag),
            PutIf::Always => Condition::None,
        };
        self.with(url, |folder| folder.put(name, bytes, condition))
    }
}
