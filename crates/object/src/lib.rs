//! Object storage, Azure blobs and S3, through one library: backup devices, and small objects that are put under conditions (`folder`).
//!
//! ```text
//! s3://host[:port]/bucket/key                        identity any, secret ACCESS_KEY:SECRET_KEY
//! https://account.blob.core.windows.net/container/blob   identity SHARED ACCESS SIGNATURE, secret the signature,
//! http(s)://host:port/account/container/blob             or identity the account, secret its key
//! ```
//! Theory: a family is one object, written as a multipart upload whose parts are the pieces of the writer: several are
//! under way at once, and the object appears only when the last call completes it, so a backup that was killed leaves
//! no object. The library repeats what failed for a passing reason.
//!
//! The engine works on threads with blocking calls; the library wants an async runtime, which lives here, is started
//! with the first URL, and is seen by nobody else. Plain HTTP is spoken to loopback addresses only.

mod folder;

pub use folder::{Condition, Folder};

use daruma_backup::{BackupError, Credential, Device, Source, Target, UrlDevices};
use object_store::aws::AmazonS3Builder;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    ClientOptions, MultipartId, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Bytes of a read: more than one has latency for.
const READ_BYTES: u64 = 4 << 20;
/// Bytes of a part: at most 10,000 parts make an S3 object, so a family may have 160 GB.
const PART_BYTES: usize = 16 << 20;
const RUNTIME_THREADS: usize = 2;

trait Store: ObjectStore + MultipartStore {}
impl<T: ObjectStore + MultipartStore> Store for T {}

/// Makes devices of URLs.
pub struct ObjectDevices {
    runtime: Mutex<Option<Arc<Runtime>>>,
}

impl ObjectDevices {
    /// Devices whose runtime starts when the first of them is opened.
    pub fn new() -> ObjectDevices {
        ObjectDevices {
            runtime: Mutex::new(None),
        }
    }

    fn runtime(&self) -> io::Result<Arc<Runtime>> {
        let mut runtime = self.runtime.lock();
        if let Some(running) = &*runtime {
            return Ok(running.clone());
        }
        let started = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("object-storage")
            .enable_all()
            .build()?;
        Ok(runtime.insert(Arc::new(started)).clone())
    }
}

impl Default for ObjectDevices {
    fn default() -> ObjectDevices {
        ObjectDevices::new()
    }
}

impl UrlDevices for ObjectDevices {
    fn device(
        &self,
        url: &str,
        credential: Option<&Credential>,
    ) -> Result<Arc<dyn Device>, BackupError> {
        let open_error = |source| BackupError::Open {
            device: url.to_string(),
            source,
        };
        let runtime = self.runtime().map_err(open_error)?;
        let (store, path) = connect(url, credential, None).map_err(open_error)?;
        Ok(Arc::new(ObjectDevice {
            url: url.to_string(),
            object: Arc::new(Object {
                runtime,
                store,
                path,
            }),
        }))
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.to_string())
}

/// Scheme, host with port, and the parts of the path.
struct Parts<'a> {
    scheme: &'a str,
    host: &'a str,
    path: Vec<&'a str>,
}

fn split(url: &str) -> Option<Parts<'_>> {
    let (scheme, rest) = url.split_once("://")?;
    let (host, path) = rest.split_once('/')?;
    let path: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    (!host.is_empty()).then_some(Parts { scheme, host, path })
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let inside = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    // A name that looks like an address is whatever its owner makes of it.
    let address = inside.unwrap_or(name).parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|a| a.is_loopback())
}

/// `limit`: how long a request may take, which is not repeated then.
fn connect(
    url: &str,
    credential: Option<&Credential>,
    limit: Option<Duration>,
) -> io::Result<(Arc<dyn Store>, Path)> {
    let parts = split(url).ok_or_else(|| invalid("this is no URL of an object"))?;
    let credential = credential.ok_or_else(|| invalid("no credential fits this URL"))?;
    if parts.scheme == "http" && !is_loopback(parts.host) {
        return Err(invalid("plain HTTP is for loopback addresses only"));
    }
    // Someone may have chosen a provider for the process before: any will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match parts.scheme.to_ascii_lowercase().as_str() {
        "s3" => s3(&parts, credential, limit),
        "https" | "http" => azure(&parts, credential, limit),
        _ => Err(invalid("URLs begin with s3:// or https://")),
    }
}

/// How requests are made that may not take longer than this.
fn bounded(limit: Duration) -> (ClientOptions, RetryConfig) {
    let client = ClientOptions::new()
        .with_timeout(limit)
        .with_connect_timeout(limit);
    let retry = RetryConfig {
        max_retries: 0,
        retry_timeout: limit,
        ..RetryConfig::default()
    };
    (client, retry)
}

fn s3(
    parts: &Parts<'_>,
    credential: &Credential,
    limit: Option<Duration>,
) -> io::Result<(Arc<dyn Store>, Path)> {
    let [bucket, key @ ..] = parts.path.as_slice() else {
        return Err(invalid("the URL names no bucket"));
    };
    let (access, secret) = credential
        .secret
        .split_once(':')
        .ok_or_else(|| invalid("the secret of an S3 credential is ACCESS_KEY:SECRET_KEY"))?;
    let scheme = if is_loopback(parts.host) {
        "http"
    } else {
        "https"
    };
    let mut builder = AmazonS3Builder::new();
    if let Some((client, retry)) = limit.map(bounded) {
        builder = builder.with_client_options(client).with_retry(retry);
    }
    let store = builder
        .with_endpoint(format!("{scheme}://{}", parts.host))
        .with_bucket_name(*bucket)
        .with_region(region_of(parts.host))
        .with_access_key_id(access)
        .with_secret_access_key(secret)
        .with_allow_http(scheme == "http")
        .with_virtual_hosted_style_request(false)
        .build()
        .map_err(io::Error::other)?;
    Ok((Arc::new(store), object_path(key)?))
}

/// `s3.REGION.amazonaws.com` names its region; other servers do not care.
fn region_of(host: &str) -> &str {
    let region = host.strip_prefix("s3.").and_then(|h| h.split('.').next());
    region
        .filter(|_| host.contains(".amazonaws.com"))
        .unwrap_or("us-east-1")
}

fn azure(
    parts: &Parts<'_>,
    credential: &Credential,
    limit: Option<Duration>,
) -> io::Result<(Arc<dyn Store>, Path)> {
    let (account, endpoint, rest) = match parts.host.split_once(".blob.") {
        Some((account, _)) => (
            account,
            format!("{}://{}", parts.scheme, parts.host),
            parts.path.as_slice(),
        ),
        None => {
            let [account, rest @ ..] = parts.path.as_slice() else {
                return Err(invalid("the URL names no account"));
            };
            let endpoint = format!("{}://{}/{account}", parts.scheme, parts.host);
            (*account, endpoint, rest)
        }
    };
    let [container, blob @ ..] = rest else {
        return Err(invalid("the URL names no container"));
    };
    let mut builder = MicrosoftAzureBuilder::new();
    if let Some((client, retry)) = limit.map(bounded) {
        builder = builder.with_client_options(client).with_retry(retry);
    }
    let builder = builder
        .with_account(account)
        .with_container_name(*container)
        .with_endpoint(endpoint)
        .with_allow_http(parts.scheme == "http");
    let shared = credential
        .identity
        .eq_ignore_ascii_case("SHARED ACCESS SIGNATURE");
    let builder = match shared {
        true => builder.with_config(
            AzureConfigKey::SasKey,
            credential.secret.trim_start_matches('?'),
        ),
        false => builder.with_access_key(&credential.secret),
    };
    let store = builder.build().map_err(io::Error::other)?;
    Ok((Arc::new(store), object_path(blob)?))
}

fn object_path(parts: &[&str]) -> io::Result<Path> {
    match parts.is_empty() {
        true => Err(invalid("the URL names no object")),
        false => Path::parse(parts.join("/")).map_err(io::Error::other),
    }
}

/// One object, reached from threads that may block.
struct Object {
    runtime: Arc<Runtime>,
    store: Arc<dyn Store>,
    path: Path,
}

impl Object {
    fn wait<T>(&self, work: impl Future<Output = object_store::Result<T>>) -> io::Result<T> {
        self.runtime.block_on(work).map_err(io_error)
    }
}

fn io_error(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

struct ObjectDevice {
    url: String,
    object: Arc<Object>,
}

impl Device for ObjectDevice {
    fn name(&self) -> &str {
        &self.url
    }

    fn device_type(&self) -> u8 {
        9
    }

    fn exists(&self) -> io::Result<bool> {
        match self.object.wait(self.object.store.head(&self.object.path)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn source(&self) -> io::Result<Arc<dyn Source>> {
        let found = self
            .object
            .wait(self.object.store.head(&self.object.path))?;
        Ok(Arc::new(ObjectSource {
            object: self.object.clone(),
            len: found.size,
        }))
    }

    fn create(&self) -> io::Result<Arc<dyn Target>> {
        let object = &self.object;
        let upload = object.wait(object.store.create_multipart(&object.path))?;
        Ok(Arc::new(ObjectTarget {
            object: object.clone(),
            upload,
            parts: Mutex::default(),
        }))
    }

    fn append(&self, _len: u64) -> io::Result<Arc<dyn Target>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "an object cannot be appended to: use WITH FORMAT or another name",
        ))
    }

    fn piece_bytes(&self) -> usize {
        PART_BYTES
    }
}

struct ObjectSource {
    object: Arc<Object>,
    len: u64,
}

impl Source for ObjectSource {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let range = offset..offset + buf.len() as u64;
        let object = &self.object;
        let bytes = object.wait(object.store.get_range(&object.path, range))?;
        if bytes.len() != buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buf.copy_from_slice(&bytes);
        Ok(())
    }

    fn piece_bytes(&self) -> u64 {
        READ_BYTES
    }
}

/// A multipart upload.
struct ObjectTarget {
    object: Arc<Object>,
    upload: MultipartId,
    parts: Mutex<BTreeMap<u32, PartId>>,
}

impl Target for ObjectTarget {
    fn write(&self, bytes: &[u8], _offset: u64, piece: u32) -> io::Result<()> {
        let object = &self.object;
        let payload = PutPayload::from(bytes.to_vec());
        let part = object.wait(object.store.put_part(
            &object.path,
            &self.upload,
            piece as usize,
            payload,
        ))?;
        self.parts.lock().insert(piece, part);
        Ok(())
    }

    /// Parts are durable when they are acknowledged.
    fn seal(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn publish(&self) -> io::Result<()> {
        let parts = std::mem::take(&mut *self.parts.lock());
        let parts: Vec<PartId> = parts.into_values().collect();
        let object = &self.object;
        let done = object
            .store
            .complete_multipart(&object.path, &self.upload, parts);
        object.wait(done).map(|_| ())
    }

    fn abort(&self) {
        let object = &self.object;
        // An upload that stays is no object; the storage drops it by its own rules.
        let _ = object.wait(object.store.abort_multipart(&object.path, &self.upload));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parts = split("s3://127.0.0.1:5555/bucket/dir/x.bak").expect("a URL");
        assert_eq!((parts.scheme, parts.host), ("s3", "127.0.0.1:5555"));
        assert_eq!(parts.path, ["bucket", "dir", "x.bak"]);
        for here in [
            parts.host,
            "localhost",
            "LOCALHOST:1",
            "127.8.9.1",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(is_loopback(here), "{here}");
        }
        for there in [
            "127-0-0-1.example:80",
            "127.evil.example",
            "127.0.0.1.evil.example:80",
            "localhost.evil.example",
            "127.0.0.1:80@evil.example",
            "127.0.0.1@evil.example:80",
            "[::2]:80",
        ] {
            assert!(!is_loopback(there), "{there}");
        }
        assert_eq!(region_of("s3.eu-west-3.amazonaws.com"), "eu-west-3");
        assert_eq!(region_of("storage.example:9000"), "us-east-1");
        assert!(split("no url").is_none());
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        let credential = Credential {
            identity: "a".into(),
            secret: "b2s=".into(),
        };
        let connect = |url, credential| super::connect(url, credential, None);
        let refused = connect("http://example.com/a/c/b", Some(&credential));
        assert!(refused.is_err_and(|e| e.to_string().contains("loopback")));
        assert!(connect("http://127.0.0.1:1/a/c/b", Some(&credential)).is_ok());
        assert!(connect("http://127.0.0.1:1/a/c", Some(&credential)).is_err());
        assert!(connect("https://x.blob.core.windows.net/c/b", None).is_err());
    }
}
