//! Catalog rows: kinds, keys and encoding.
//!
//! A key is one kind byte and an id (big-endian, so that rows lie in id order) or a name. A payload is one form byte,
//! then JSON: in place, or in a blob when it is too long for a page.

use crate::alone::Alone;
use crate::error::{CatalogError, Result};
use daruma_base::Lsn;
use daruma_storage::{
    Batch, BlobRef, Database, Durability, Isolation, ReadView, ScanSpec, Txn, WriteOutcome,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub(crate) const KIND_OBJECT: u8 = 1;
pub(crate) const KIND_SCHEMA: u8 = 2;
pub(crate) const KIND_TYPE: u8 = 3;
pub(crate) const KIND_PRINCIPAL: u8 = 4;
pub(crate) const KIND_COUNTER: u8 = 5;
pub(crate) const KIND_STATISTICS: u8 = 6;
pub(crate) const KIND_PERMISSIONS: u8 = 7;
pub(crate) const KIND_PROPERTIES: u8 = 8;
pub(crate) const KIND_MESSAGES: u8 = 9;
pub(crate) const KIND_DDL_TRIGGER: u8 = 10;
pub(crate) const KIND_DATABASE: u8 = 20;
pub(crate) const KIND_LOGIN: u8 = 21;
pub(crate) const KIND_CONFIGURATION: u8 = 22;
pub(crate) const KIND_DATABASE_KEY: u8 = 23;
pub(crate) const KIND_CERTIFICATE: u8 = 24;
pub(crate) const KIND_ENDPOINT: u8 = 25;
pub(crate) const KIND_GROUP: u8 = 26;
pub(crate) const KIND_EVENT_SESSION: u8 = 27;
pub(crate) const KIND_MARK: u8 = 30;

const FORM_INLINE: u8 = 0;
const FORM_BLOB: u8 = 1;
/// Longer rows move to a blob.
const INLINE_BYTES_MAX: usize = 7_000;
/// Others can change a row between our read and our write this many times before we give up.
const ATTEMPTS_MAX: usize = 100;

pub(crate) fn id_key(kind: u8, id: i32) -> Vec<u8> {
    let mut key = vec![kind];
    // The sign bit is flipped so that negative ids sort first.
    key.extend_from_slice(&((id as u32) ^ 0x8000_0000).to_be_bytes());
    key
}

/// Key of the extended properties of something.
pub(crate) fn properties_key(class: u8, major: i32) -> Vec<u8> {
    let mut key = vec![KIND_PROPERTIES, class];
    key.extend_from_slice(&((major as u32) ^ 0x8000_0000).to_be_bytes());
    key
}

pub(crate) fn name_row_key(kind: u8, name: &str) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(crate::name_key(name).as_bytes());
    key
}

/// Inserts or replaces a row.
pub(crate) fn put<T: Serialize>(txn: &Txn, key: &[u8], value: &T) -> Result<()> {
    let db = txn.database();
    let json = serde_json::to_vec(value).map_err(|e| bad(key, e))?;
    let payload = if json.len() <= INLINE_BYTES_MAX {
        let mut payload = vec![FORM_INLINE];
        payload.extend_from_slice(&json);
        payload
    } else {
        let mut payload = vec![FORM_BLOB];
        payload.extend_from_slice(&db.put_blob(txn, &json)?.to_bytes());
        payload
    };
    let tree = db.tree(db.catalog_tree())?;
    for _ in 0..ATTEMPTS_MAX {
        let Some(old) = tree.get(&txn.view(Isolation::Current), key)? else {
            return Ok(tree.insert(txn, key, &payload)?);
        };
        if tree.update(txn, key, old.stamp, &payload)? == WriteOutcome::Done {
            return free_blob(txn, &old.payload);
        }
    }
    Err(CatalogError::Contended { key: key.to_vec() })
}

/// Deletes a row if it is there.
pub(crate) fn delete(txn: &Txn, key: &[u8]) -> Result<()> {
    let db = txn.database();
    let tree = db.tree(db.catalog_tree())?;
    for _ in 0..ATTEMPTS_MAX {
        let Some(old) = tree.get(&txn.view(Isolation::Current), key)? else {
            return Ok(());
        };
        if tree.delete(txn, key, old.stamp)? == WriteOutcome::Done {
            return free_blob(txn, &old.payload);
        }
    }
    Err(CatalogError::Contended { key: key.to_vec() })
}

/// A digest of all rows but those of counters and statistics, and of who wrote them, and the position of the log that it is of.
pub(crate) fn fingerprint(db: &Arc<Database>) -> Result<(u64, Lsn)> {
    let alone = Alone::new(db);
    let txn = alone.begin();
    let tree = db.tree(db.catalog_tree())?;
    let view = txn.view(Isolation::Snapshot);
    let mut scan = tree.scan(&view, ScanSpec::all());
    let (mut batch, mut digest) = (Batch::new(), DefaultHasher::new());
    while scan.next(&mut batch)? {
        for i in 0..batch.len() {
            let key = batch.key(i);
            if !matches!(key.first(), Some(&(KIND_COUNTER | KIND_STATISTICS))) {
                (key, batch.payload(i), batch.stamp(i).txn.0).hash(&mut digest);
            }
        }
    }
    txn.commit(Durability::Delayed)?;
    Ok((digest.finish(), view.position().unwrap_or(Lsn::NONE)))
}

/// All rows of one kind, in key order.
pub(crate) fn read_all<T: DeserializeOwned>(txn: &Txn, kind: u8) -> Result<Vec<(Vec<u8>, T)>> {
    let db = txn.database();
    let tree = db.tree(db.catalog_tree())?;
    // What is moved out of a row is read after the row: as long as the snapshot lives, nobody frees it.
    let _kept = txn.view(Isolation::ReadCommittedSnapshot);
    // Beside redo all kinds are read as of one moment.
    let isolation = match db.is_secondary() {
        true => Isolation::Snapshot,
        false => Isolation::Current,
    };
    let mut scan = tree.scan(&txn.view(isolation), ScanSpec::prefix(vec![kind]));
    let mut batch = Batch::new();
    let mut rows = Vec::new();
    while scan.next(&mut batch)? {
        for i in 0..batch.len() {
            let value = decode(db, batch.key(i), batch.payload(i))?;
            rows.push((batch.key(i).to_vec(), value));
        }
    }
    Ok(rows)
}

fn decode<T: DeserializeOwned>(db: &Arc<Database>, key: &[u8], payload: &[u8]) -> Result<T> {
    match payload.split_first() {
        Some((&FORM_INLINE, json)) => serde_json::from_slice(json).map_err(|e| bad(key, e)),
        Some((&FORM_BLOB, rest)) => {
            let blob = blob_ref(rest).ok_or_else(|| bad(key, "short blob reference"))?;
            serde_json::from_slice(&db.get_blob(blob)?).map_err(|e| bad(key, e))
        }
        _ => Err(bad(key, "unknown form")),
    }
}

/// Values of rows that were moved out of their page.
pub(crate) fn blobs(
    db: &Arc<Database>,
    view: &ReadView,
    each: &mut dyn FnMut(BlobRef),
) -> Result<()> {
    let mut scan = db.tree(db.catalog_tree())?.scan(view, ScanSpec::all());
    let mut batch = Batch::new();
    while scan.next(&mut batch)? {
        for i in 0..batch.len() {
            if let Some((&FORM_BLOB, rest)) = batch.payload(i).split_first()
                && let Some(blob) = blob_ref(rest)
            {
                each(blob);
            }
        }
    }
    Ok(())
}

fn free_blob(txn: &Txn, payload: &[u8]) -> Result<()> {
    match payload.split_first() {
        Some((&FORM_BLOB, rest)) => match blob_ref(rest) {
            Some(blob) => Ok(txn.database().free_blob(txn, blob)?),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn blob_ref(bytes: &[u8]) -> Option<BlobRef> {
    bytes.try_into().ok().map(BlobRef::from_bytes)
}

fn bad(key: &[u8], what: impl std::fmt::Display) -> CatalogError {
    CatalogError::BadRow {
        key: key.to_vec(),
        what: what.to_string(),
    }
}
