//! Sockets and TLS of the page, and the webhook.
//!
//! Theory: a runtime of two threads of its own. A connection has ten seconds for the head of each request, and there are at
//! most 200 of them; the guard bounds the rest of a request. Without TLS it listens on this machine alone, unless told otherwise.

use super::{Peer, router};
use crate::monitor::{MonitorError, MonitorOptions, Shared};
use axum::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value as Json;
use std::fs;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

const CONNECTIONS_MAX: usize = 200;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(5);
const THREADS: usize = 2;

/// A socket that listens, before anything is answered.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
}

/// Listens, or says why not.
pub fn bind(options: &MonitorOptions) -> Result<Bound, MonitorError> {
    let failed = |source| MonitorError::Listen {
        address: options.listen.clone(),
        source,
    };
    let addresses: Vec<SocketAddr> = options.listen.to_socket_addrs().map_err(failed)?.collect();
    let is_local = addresses.iter().all(|address| address.ip().is_loopback());
    let tls = options
        .certificate
        .as_ref()
        .map(|(certificate, key)| tls(certificate, key))
        .transpose()?;
    if !is_local && tls.is_none() && !options.insecure {
        return Err(MonitorError::Insecure {
            address: options.listen.clone(),
        });
    }
    let listener = TcpListener::bind(addresses.as_slice()).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound {
        listener,
        address,
        tls,
    })
}

fn tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, MonitorError> {
    let bad =
        |path: &Path, what: &str| MonitorError::Certificate(format!("{}: {what}", path.display()));
    let read = |path: &Path| fs::read(path).map_err(|error| bad(path, &error.to_string()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.map_err(|_| bad(certificate, "no PEM certificate"))?;
    if chain.is_empty() {
        return Err(bad(certificate, "no PEM certificate"));
    }
    let key_der =
        PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| bad(key, "no PEM private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, key_der)
        })
        .map_err(|error| MonitorError::Certificate(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The page being served.
pub struct Web {
    runtime: Option<Runtime>,
    address: SocketAddr,
}

impl Web {
    /// Begins to answer.
    pub fn start(
        bound: Bound,
        shared: &Arc<Shared>,
        options: &MonitorOptions,
    ) -> Result<Web, MonitorError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(16)
            .thread_name("web")
            .enable_all()
            .build()
            .map_err(MonitorError::Thread)?;
        let address = bound.address;
        let state = super::State::new(shared.clone(), options, address, bound.tls.is_some());
        let app = router(Arc::new(state));
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(bound.listener).map_err(|source| {
                MonitorError::Listen {
                    address: options.listen.clone(),
                    source,
                }
            })?
        };
        let acceptor = bound.tls.map(TlsAcceptor::from);
        runtime.spawn(accept(listener, acceptor, app));
        Ok(Web {
            runtime: Some(runtime),
            address,
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who tells of alerts.
    pub fn teller(&self, webhook: Option<(String, String)>) -> Teller {
        Teller {
            handle: self.runtime.as_ref().map(|r| r.handle().clone()),
            webhook,
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(2));
        }
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    acceptor: Option<TlsAcceptor>,
    app: axum::Router,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // Out of descriptors, most likely: the next try may find one.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let app = app.clone().layer(Extension(Peer(peer.ip())));
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let _place = place;
            match acceptor {
                None => answer(socket, app).await,
                Some(acceptor) => {
                    let shaken = tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(socket)).await;
                    if let Ok(Ok(stream)) = shaken {
                        answer(stream, app).await;
                    }
                }
            }
        });
    }
}

async fn answer<S>(stream: S, app: axum::Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // To find out which version a client speaks would take what time the client takes.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    // A client that leaves in the middle is no news.
    let _ = builder
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
        .await;
}

/// Posts alerts to the configured address.
#[derive(Clone, Debug)]
pub struct Teller {
    handle: Option<Handle>,
    webhook: Option<(String, String)>,
}

impl Teller {
    /// Sends in the background, signed, without following redirects.
    pub fn tell(&self, what: &Json) {
        let (Some(handle), Some((address, secret))) = (&self.handle, &self.webhook) else {
            return;
        };
        let body = what.to_string();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let tag = ring::hmac::sign(&key, body.as_bytes());
        let signature: String = tag.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        let address = address.clone();
        handle.spawn(async move {
            let sent = post(&address, body, &format!("sha256={signature}")).await;
            if let Err(error) = sent {
                eprintln!("daruma monitor: webhook: {error}");
            }
        });
    }
}

async fn post(address: &str, body: String, signature: &str) -> Result<(), reqwest::Error> {
    // Its TLS needs a provider for the process; another one that was first will do as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(WEBHOOK_TIMEOUT)
        .build()?;
    let request = client
        .post(address)
        .header("content-type", "application/json")
        .header("x-daruma-signature", signature)
        .body(body);
    request.send().await?.error_for_status()?;
    Ok(())
}
