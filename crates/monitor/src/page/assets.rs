//! The files of the page, kept in the program; each is sent compressed, with a tag that changes when it does.

use super::Failure;
use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;
use std::collections::HashMap;
use std::io::Write;
use std::sync::OnceLock;

#[derive(RustEmbed)]
#[folder = "assets"]
struct Files;

struct Asset {
    plain: Vec<u8>,
    zipped: Vec<u8>,
    tag: String,
    kind: &'static str,
}

/// All files, compressed once.
fn files() -> &'static HashMap<String, Asset> {
    static FILES: OnceLock<HashMap<String, Asset>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files = HashMap::new();
        for name in Files::iter() {
            let Some(file) = Files::get(&name) else {
                continue;
            };
            let plain = file.data.into_owned();
            let tag: String = file
                .metadata
                .sha256_hash()
                .iter()
                .take(12)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let asset = Asset {
                zipped: gzip(&plain),
                tag: format!("\"{tag}\""),
                kind: kind(&name),
                plain,
            };
            files.insert(name.into_owned(), asset);
        }
        files
    })
}

/// Compressed, or as it is where memory is short.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let done = encoder.write_all(bytes).and_then(|()| encoder.finish());
    done.unwrap_or_default()
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

/// Does the other side take compressed answers?
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("gzip"))
}

fn send(name: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = files().get(name) else {
        return Failure::new(StatusCode::NOT_FOUND, "There is no such file.").into_response();
    };
    let known = headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let common = [
        (ETAG, asset.tag.clone()),
        (CONTENT_TYPE, asset.kind.to_string()),
        (CACHE_CONTROL, "private, no-cache".to_string()),
    ];
    if known == Some(asset.tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    if takes_gzip(headers) && !asset.zipped.is_empty() {
        let body = Body::from(asset.zipped.clone());
        return (common, [(CONTENT_ENCODING, "gzip")], body).into_response();
    }
    (common, Body::from(asset.plain.clone())).into_response()
}

/// `GET /`.
pub async fn index(headers: HeaderMap) -> Response {
    send("index.html", &headers)
}

/// `GET /login`.
pub async fn login(headers: HeaderMap) -> Response {
    send("login.html", &headers)
}

/// `GET /assets/..`.
pub async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    send(&path, &headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_files_are_there_and_ask_nobody_else() {
        for name in [
            "index.html",
            "login.html",
            "style.css",
            "app.js",
            "uplot.js",
            "uplot-LICENSE.txt",
        ] {
            let asset = files().get(name);
            let text = String::from_utf8_lossy(&asset.expect(name).plain).into_owned();
            let is_ours = !name.starts_with("uplot");
            if is_ours {
                let plain = text.replace("http://www.w3.org/", "");
                assert!(
                    !plain.contains("http://") && !plain.contains("https://"),
                    "{name}"
                );
                assert!(!plain.contains("innerHTML"), "{name}: texts enter as text");
            }
        }
    }
}
