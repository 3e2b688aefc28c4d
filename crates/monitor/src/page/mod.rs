//! The page and its interface.
//!
//! | module | what it is |
//! |---|---|
//! | [`serve`] | sockets, TLS, webhook |
//! | [`session`] | logins and sessions |
//! | [`guard`] | who may ask what: host, origin, session; the headers of every answer |
//! | [`assets`] | the files of the page, kept in the program |
//! | [`api`] | figures, statements, blocking, events for the page |
//! | [`people`] | baselines, rules, settings |
//! | [`report`] | the quick report as a page, CSV and one HTML file |
//! | [`metrics`] | `/metrics` for Prometheus |
//!
//! Invariants
//! 1. Without a session nothing is answered but `/healthz` and what the login page is made of.
//! 2. A GET changes nothing. Everything else needs the page's own origin.
//! 3. A request never asks a watched server.

pub mod api;
pub mod assets;
pub mod guard;
pub mod metrics;
pub mod people;
pub mod report;
pub mod serve;
pub mod session;

use crate::monitor::{MonitorOptions, Shared};
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router, middleware};
use daruma_client::client::ClientError;
use serde_json::json;
use session::Sessions;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Largest body that is read.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// What every handler needs.
#[derive(Debug)]
pub struct State {
    pub shared: Arc<Shared>,
    pub sessions: Sessions,
    pub is_tls: bool,
    pub address: SocketAddr,
    /// Names by which the page may be called, beside addresses.
    hosts: Vec<String>,
    metrics_token: Option<String>,
}

impl State {
    /// For a page that listens there.
    pub fn new(
        shared: Arc<Shared>,
        options: &MonitorOptions,
        address: SocketAddr,
        is_tls: bool,
    ) -> State {
        let mut hosts = vec!["localhost".to_string()];
        let own = rustix::system::uname();
        hosts.push(own.nodename().to_string_lossy().to_lowercase());
        hosts.extend(options.hosts.iter().map(|host| host.to_lowercase()));
        if let Some((host, _)) = options.listen.rsplit_once(':') {
            hosts.push(host.to_lowercase());
        }
        State {
            shared,
            sessions: Sessions::default(),
            is_tls,
            address,
            hosts,
            metrics_token: options.metrics_token.clone(),
        }
    }
}

/// Every address of the page.
pub fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/", get(assets::index))
        .route("/login", get(assets::login).post(guard::log_in))
        .route("/logout", post(guard::log_out))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics::scrape))
        .route("/assets/{*path}", get(assets::file))
        .route("/api/me", get(api::me))
        .route("/api/servers", get(api::servers))
        .route("/api/figures", get(api::figures))
        .route("/api/range", get(api::range))
        .route("/api/live", get(api::live))
        .route("/api/statements", get(api::statements))
        .route("/api/plans", get(api::plans))
        .route("/api/blocking", get(api::blocking))
        .route("/api/events", get(api::events))
        .route("/api/report", get(report::json))
        .route("/report.csv", get(report::csv))
        .route("/report.html", get(report::html))
        .route("/api/compare", get(api::compare))
        .route(
            "/api/baselines",
            get(people::baselines).post(people::make_baseline),
        )
        .route("/api/baselines/{id}", delete(people::drop_baseline))
        .route("/api/alerts", get(people::alerts))
        .route("/api/rules", get(people::rules).post(people::put_rule))
        .route("/api/rules/{id}", delete(people::drop_rule))
        .route(
            "/api/settings",
            get(people::settings).post(people::put_setting),
        )
        .fallback(|| async { Failure::new(StatusCode::NOT_FOUND, "There is nothing here.") })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(state.clone(), guard::guard))
        .with_state(state)
}

/// Alive: the program answers. Whether the servers do is for those who are logged in.
async fn healthz() -> &'static str {
    "ok\n"
}

/// An answer that says what is wrong.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    words: String,
}

impl Failure {
    /// With a sentence for the one who asked.
    pub fn new(status: StatusCode, words: impl Into<String>) -> Failure {
        Failure {
            status,
            words: words.into(),
        }
    }

    /// A question that makes no sense.
    pub fn bad(words: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, words)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("The repository does not answer: {error}"),
        )
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.words}))).into_response()
    }
}

/// Runs a question to the repository away from the threads that serve everybody.
pub async fn ask<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The question could not be worked on.",
        )),
    }
}
