//! The check of who may ask what, and the headers of every answer.
//!
//! | checked | against |
//! |---|---|
//! | Host is an address, or a name the page is called by | a name that was bound to this address by somebody else (DNS rebinding) |
//! | Origin and Sec-Fetch-Site of everything but GET | requests that another site makes with the cookie |
//! | the session's cookie | strangers |

use super::session::{self, Role, Session};
use super::{Failure, Peer, State, ask};
use axum::extract::{RawQuery, Request, State as With};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Form, Json};
use serde::Deserialize;
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/// Answered without a session.
const OPEN: [&str; 4] = [
    "/healthz",
    "/login",
    "/assets/style.css",
    "/assets/icon.svg",
];

/// Longest time from the head of a request to its answer: for a body that does not come, or a repository that does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Passes a request on, or refuses it.
pub async fn guard(With(state): With<Arc<State>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_string();
    let mut response = match admit(&state, &mut request, &path).await {
        Ok(()) => match timeout(ANSWER_TIMEOUT, next.run(request)).await {
            Ok(response) => response,
            Err(_) => {
                Failure::new(StatusCode::REQUEST_TIMEOUT, "This took too long.").into_response()
            }
        },
        Err(refused) => refused,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Without any referrer a browser would not say where a form comes from either.
        (REFERRER_POLICY, "same-origin"),
        (X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn admit(state: &Arc<State>, request: &mut Request, path: &str) -> Result<(), Response> {
    let refuse = |status: StatusCode, words: &str| Err(Failure::new(status, words).into_response());
    if !is_known_host(state, request.headers()) {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "The page is not known by this name. Give it with --host-name.",
        );
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && !is_own_origin(state, request.headers()) {
        return refuse(StatusCode::FORBIDDEN, "This came from another site.");
    }
    if OPEN.contains(&path) {
        return Ok(());
    }
    if path == "/metrics" && has_token(state, request.headers()) {
        return Ok(());
    }
    let Some(session) = session_of(state, request.headers()).await else {
        return Err(match path {
            "/" => (
                StatusCode::SEE_OTHER,
                [(LOCATION, login_address(request.uri().query()))],
            )
                .into_response(),
            _ => Failure::new(StatusCode::UNAUTHORIZED, "Log in first.").into_response(),
        });
    };
    let own_pages = path == "/logout";
    if changes && !own_pages && session.role < Role::Admin {
        return refuse(
            StatusCode::FORBIDDEN,
            "This needs the role monitor_admin in the repository.",
        );
    }
    request.extensions_mut().insert(session);
    Ok(())
}

/// The login page, which brings one back to where one wanted to go.
fn login_address(query: Option<&str>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=&:.-_".contains(c);
    match query.filter(|q| !q.is_empty() && q.len() < 500 && q.chars().all(plain)) {
        Some(query) => format!("/login?{query}"),
        None => "/login".into(),
    }
}

/// An address, or a name that is known.
fn is_known_host(state: &State, headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let name = host_name(host).to_lowercase();
    name.parse::<IpAddr>().is_ok() || state.hosts.contains(&name)
}

/// `name` of `name:port`, `[::1]:port`.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// From this page itself.
fn is_own_origin(state: &State, headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text(HeaderName::from_static("sec-fetch-site"));
    if site.is_some_and(|site| site != "same-origin") {
        return false;
    }
    let scheme = if state.is_tls { "https" } else { "http" };
    match (text(ORIGIN), text(HOST)) {
        (Some(origin), Some(host)) => origin == format!("{scheme}://{host}"),
        _ => false,
    }
}

fn has_token(state: &State, headers: &HeaderMap) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let given = given.and_then(|v| v.strip_prefix("Bearer "));
    match (&state.metrics_token, given) {
        (Some(token), Some(given)) => {
            // Compared by hash, so that time says nothing of how much was right.
            use sha2::{Digest, Sha256};
            Sha256::digest(token.as_bytes()) == Sha256::digest(given.as_bytes())
        }
        _ => false,
    }
}

/// Name of the cookie: one that a browser takes over TLS alone, where there is TLS.
const fn cookie_name(is_tls: bool) -> &'static str {
    if is_tls {
        "__Host-daruma-monitor"
    } else {
        "daruma-monitor"
    }
}

fn cookie<'h>(state: &State, headers: &'h HeaderMap) -> Option<&'h str> {
    let name = cookie_name(state.is_tls);
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

async fn session_of(state: &Arc<State>, headers: &HeaderMap) -> Option<Session> {
    let token = cookie(state, headers)?.to_string();
    let (mut session, due) = state.sessions.get(&token)?;
    if due {
        let (held, login) = (state.clone(), session.login.clone());
        let found = ask(move || Ok(session::role_of(&held.shared.repository, &login)?)).await;
        match found {
            Ok(Some(role)) => {
                state.sessions.set_role(&session.login, role);
                session.role = role;
            }
            Ok(None) => {
                state.sessions.close_login(&session.login);
                return None;
            }
            // The repository is away: nobody knows better.
            Err(_) => {}
        }
    }
    Some(session)
}

fn set_cookie(state: &State, token: &str, age_s: u32) -> String {
    let secure = if state.is_tls { "; Secure" } else { "" };
    format!(
        "{}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age_s}{secure}",
        cookie_name(state.is_tls)
    )
}

/// What the login form sends.
#[derive(Deserialize)]
pub struct LoginForm {
    login: String,
    password: String,
}

/// `POST /login`.
pub async fn log_in(
    With(state): With<Arc<State>>,
    Extension(Peer(peer)): Extension<Peer>,
    RawQuery(query): RawQuery,
    Form(form): Form<LoginForm>,
) -> Response {
    let again = |why: &str| {
        // The fragment shows the reason without a script.
        let to = format!("{}#{why}", login_address(query.as_deref()));
        (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
    };
    if !state.sessions.may_try(peer, &form.login) {
        return again("often");
    }
    let (held, name) = (state.clone(), form.login.clone());
    let tried = ask(move || Ok(session::try_login(&held, &name, &form.password)?)).await;
    let role = match tried {
        Ok(Some(role)) => role,
        Ok(None) => {
            eprintln!(
                "daruma monitor: login of {:?} from {peer} refused",
                form.login
            );
            return again("wrong");
        }
        Err(_) => return again("away"),
    };
    state.sessions.right(peer, &form.login);
    let Some(token) = state.sessions.open(&form.login, role) else {
        return again("away");
    };
    let back = login_address(query.as_deref()).replacen("/login", "/", 1);
    (
        StatusCode::SEE_OTHER,
        [
            (LOCATION, back),
            (SET_COOKIE, set_cookie(&state, &token, 43_200)),
        ],
    )
        .into_response()
}

/// `POST /logout`.
pub async fn log_out(With(state): With<Arc<State>>, headers: HeaderMap) -> Response {
    if let Some(token) = cookie(&state, &headers) {
        state.sessions.close(token);
    }
    (
        [(SET_COOKIE, set_cookie(&state, "", 0))],
        Json(json!({"ok": true})),
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_their_ports() {
        for (host, name) in [
            ("localhost:8080", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:8080", "::1"),
            ("127.0.0.1:1", "127.0.0.1"),
        ] {
            assert_eq!(host_name(host), name);
        }
    }

    #[test]
    fn a_login_brings_back_to_this_page_only() {
        assert_eq!(
            login_address(Some("server=1&from=2026-11-24T06:00:00Z")),
            "/login?server=1&from=2026-11-24T06:00:00Z"
        );
        assert_eq!(login_address(Some("//evil.example")), "/login");
        assert_eq!(login_address(Some("a=<script>")), "/login");
        assert_eq!(login_address(None), "/login");
    }
}
