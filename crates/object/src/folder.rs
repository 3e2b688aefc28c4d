//! Small objects below a URL, read whole and put whole, under a condition that the storage keeps to.

use crate::{Object, ObjectDevices, Store, connect, io_error};
use daruma_backup::Credential;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectStore, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What an object must be to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition<'a> {
    /// There is none of the name.
    Absent,
    /// It has this tag, as it was read.
    Tagged(&'a str),
    /// Anything.
    None,
}

/// Objects below a URL.
pub struct Folder {
    runtime: Arc<Runtime>,
    store: Arc<dyn Store>,
    path: Path,
}

impl ObjectDevices {
    /// The objects below this URL. A request that takes longer than `limit` has failed, and is not repeated.
    pub fn folder(
        &self,
        url: &str,
        credential: Option<&Credential>,
        limit: Duration,
    ) -> io::Result<Folder> {
        let runtime = self.runtime()?;
        let inside = format!("{}/x", url.trim_end_matches('/'));
        let (store, path) = connect(&inside, credential, Some(limit))?;
        let parts: Vec<_> = path.parts().collect();
        let above = parts.len().saturating_sub(1);
        Ok(Folder {
            runtime,
            store,
            path: parts.into_iter().take(above).collect(),
        })
    }
}

impl Folder {
    fn object(&self, name: &str) -> Object {
        Object {
            runtime: self.runtime.clone(),
            store: self.store.clone(),
            path: self.path.clone().join(name),
        }
    }

    /// The object of this name, and the tag that it has until it is put anew. `None`: there is none. One of more than `bytes_max` bytes is
    /// `InvalidData`.
    pub fn get(&self, name: &str, bytes_max: usize) -> io::Result<Option<(Vec<u8>, String)>> {
        let object = self.object(name);
        let read = async {
            let found = object
                .store
                .get_opts(&object.path, GetOptions::default())
                .await?;
            let (size, tag) = (found.meta.size, found.meta.e_tag.clone());
            match size > bytes_max as u64 {
                true => Ok((None, tag)),
                false => Ok((Some(found.bytes().await?), tag)),
            }
        };
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
        match object.wait(read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
            Ok((None, _)) => Err(invalid("the object is too long")),
            Ok((_, None)) => Err(invalid("the object has no tag")),
            Ok((Some(bytes), Some(tag))) => Ok(Some((bytes.to_vec(), tag))),
        }
    }

    /// Puts the object: it is durable when this returns `true`. `false`: the condition is not met. After an error it may be put, or may yet be.
    pub fn put(&self, name: &str, bytes: &[u8], condition: Condition<'_>) -> io::Result<bool> {
        let object = self.object(name);
        let mode = match condition {
            Condition::Absent => PutMode::Create,
            Condition::None => PutMode::Overwrite,
            Condition::Tagged(tag) => PutMode::Update(UpdateVersion {
                e_tag: Some(tag.to_string()),
                version: None,
            }),
        };
        let payload = PutPayload::from(bytes.to_vec());
        let options = PutOptions::from(mode);
        let put = object.store.put_opts(&object.path, payload, options);
        match self.runtime.block_on(put) {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            // What was to be replaced is gone.
            Err(Error::NotFound { .. }) if matches!(condition, Condition::Tagged(_)) => Ok(false),
            Err(error) => Err(io_error(error)),
        }
    }
}
