//! Figures, statements, blocking and events for the page.
//!
//! A range travels as columns of 64-bit floats behind a head in JSON: four bytes with the head's length, the head (padded to eight
//! bytes together with the length), then a column of times in seconds and one for each figure of the head. NaN is a hole.

use super::assets::takes_gzip;
use super::session::{Role, Session};
use super::{Failure, State, ask, assets};
use crate::compare::{self, Judgement};
use crate::figures::{COUNT, FIGURES, Kind};
use crate::repository::read::Stretch;
use crate::repository::rollup::Row;
use crate::sampler::difference::{SPAN, Tick};
use crate::sampler::live::Server;
use crate::sql::{now, parse_time};
use axum::extract::{Query, State as With};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Widest range that is answered: ten years.
const RANGE_MS_MAX: i64 = 3_660 * 86_400_000;

/// A server and a stretch of time.
#[derive(Clone, Debug, Deserialize)]
pub struct Range {
    server: i16,
    from: String,
    to: String,
}

impl Range {
    /// The server's number and the stretch in ms, if they make sense.
    pub fn parse(&self, state: &State) -> Result<(i16, i64, i64), Failure> {
        known(state, self.server)?;
        stretch(&self.from, &self.to).map(|(from, to)| (self.server, from, to))
    }
}

/// A stretch of time with an end behind its start.
pub fn stretch(from: &str, to: &str) -> Result<(i64, i64), Failure> {
    match (parse_time(from), parse_time(to)) {
        (Some(from), Some(to)) if from >= 0 && from < to && to - from <= RANGE_MS_MAX => {
            Ok((from, to))
        }
        _ => Err(Failure::bad("From and to are no stretch of time.")),
    }
}

fn known(state: &State, id: i16) -> Result<&Arc<Server>, Failure> {
    state
        .shared
        .server(id)
        .ok_or_else(|| Failure::bad("This server is not watched."))
}

/// `GET /api/me`.
pub async fn me(
    With(state): With<Arc<State>>,
    Extension(session): Extension<Session>,
) -> Json<Value> {
    Json(json!({
        "login": session.login,
        "admin": session.role == Role::Admin,
        "masks": state.shared.masks,
        "now": now(),
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

/// `GET /api/servers`: every watched server with its state.
pub async fn servers(With(state): With<Arc<State>>) -> Json<Value> {
    let stored = state.shared.stored.get();
    let servers: Vec<Value> = state
        .shared
        .servers
        .iter()
        .map(|server| describe(server, stored.until.get(&server.id).copied()))
        .collect();
    Json(json!({
        "servers": servers,
        "alerts": state.shared.alerts.raised(),
        "repository": {"error": stored.error, "waiting": state.shared.outbox.waiting(), "dropped": state.shared.outbox.dropped()},
        "now": now(),
    }))
}

fn describe(server: &Server, stored_until: Option<i64>) -> Value {
    let live = server.live();
    json!({
        "id": server.id,
        "name": live.name,
        "endpoint": server.endpoint,
        "version": live.version,
        "state": live.state(),
        "error": live.error,
        "since_s": live.since.elapsed().as_secs(),
        "age_ms": live.last.map(|last| u64::try_from(last.elapsed().as_millis()).unwrap_or(u64::MAX)),
        "started": live.started,
        "interval_ms": live.interval_ms,
        "cost_percent": live.cost_percent,
        "late": live.late,
        "missing": live.missing,
        "stored_until": stored_until,
    })
}

/// `GET /api/figures`: what the figures are called, and in which unit they come.
pub async fn figures() -> Json<Value> {
    let figures: Vec<Value> = FIGURES
        .iter()
        .map(|figure| {
            json!({"name": figure.name, "title": figure.title, "unit": figure.unit,
                "counter": figure.kind == Kind::Counter, "better": figure.better.name()})
        })
        .collect();
    Json(json!(figures))
}

/// `GET /api/range`: columns of a stretch.
pub async fn range(
    With(state): With<Arc<State>>,
    Query(range): Query<Range>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (server, from, to) = range.parse(&state)?;
    let zip = takes_gzip(&headers);
    let body = ask(move || {
        let stretch = state.shared.repository.range(server, from, to)?;
        let body = columns(&stretch, from, to);
        Ok(if zip { assets::gzip(&body) } else { body })
    })
    .await?;
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    Ok(match zip {
        true => (kind, [(CONTENT_ENCODING, "gzip")], body).into_response(),
        false => (kind, body).into_response(),
    })
}

/// Times in seconds, then each figure as shown; a row of holes where samples are missing.
fn columns(stretch: &Stretch, from: i64, to: i64) -> Vec<u8> {
    let step = stretch.level.step_ms;
    let is_raw = step == 1_000;
    let mut times: Vec<f64> = Vec::with_capacity(stretch.rows.len());
    let mut rows: Vec<Option<&Row>> = Vec::with_capacity(stretch.rows.len());
    let mut before: Option<i64> = None;
    for row in &stretch.rows {
        // The point of a bucket stands at its end, like that of a tick.
        let at = if is_raw { row.at } else { row.at + step };
        let patience = if is_raw {
            row.dt_ms.max(step) * 2 + 1_000
        } else {
            step
        };
        if let Some(before) = before.filter(|before| at - before > patience) {
            times.push((before + step.min(at - before - 1)) as f64 / 1e3);
            rows.push(None);
        }
        times.push(at as f64 / 1e3);
        rows.push((row.flags & SPAN == 0).then_some(row));
        before = Some(at);
    }
    let covered: i64 = stretch.rows.iter().map(|row| row.dt_ms).sum();
    let head = json!({
        "n": times.len(), "step_ms": step, "level": stretch.level.table, "from": from, "to": to, "covered_ms": covered,
        "first": stretch.rows.first().map(|row| row.at),
        "figures": FIGURES.iter().map(|f| f.name).collect::<Vec<_>>(),
    });
    let mut head = head.to_string().into_bytes();
    while !(head.len() + 4).is_multiple_of(8) {
        head.push(b' ');
    }
    let mut body = Vec::with_capacity(head.len() + 4 + times.len() * 8 * (COUNT + 1));
    body.extend(u32::try_from(head.len()).unwrap_or(0).to_le_bytes());
    body.extend(head);
    for time in &times {
        body.extend(time.to_le_bytes());
    }
    for index in 0..COUNT {
        for row in &rows {
            let value = row.map_or(f64::NAN, |row| row.shown(index));
            body.extend(value.to_le_bytes());
        }
    }
    body
}

/// Which server, and since when.
#[derive(Clone, Debug, Deserialize)]
pub struct Since {
    server: i16,
    #[serde(default)]
    after: i64,
}

/// `GET /api/live`: ticks since a moment, and what runs now.
pub async fn live(
    With(state): With<Arc<State>>,
    Query(since): Query<Since>,
) -> Result<Json<Value>, Failure> {
    let server = known(&state, since.server)?;
    let stored = state.shared.stored.get();
    let about = describe(server, stored.until.get(&server.id).copied());
    let live = server.live();
    let ticks: Vec<Value> = live
        .ticks
        .iter()
        .filter(|tick| tick.at > since.after)
        .map(|tick| tick_json(tick))
        .collect();
    Ok(Json(json!({
        "server": about,
        "ticks": ticks,
        "requests": *live.requests,
        "pins": *live.pins,
        "databases": *live.databases,
        "alerts": state.shared.alerts.raised(),
        "repository": {"error": stored.error, "waiting": state.shared.outbox.waiting(), "dropped": state.shared.outbox.dropped()},
        "now": now(),
    })))
}

fn tick_json(tick: &Tick) -> Value {
    let row = Row::of(tick);
    let hole = tick.flags & SPAN != 0;
    let values: Vec<Option<f64>> = (0..COUNT)
        .map(|index| Some(row.shown(index)).filter(|v| !hole && v.is_finite()))
        .collect();
    json!({"at": tick.at, "dt_ms": tick.dt_ms, "flags": tick.flags, "values": values})
}

/// A range, and the shortest statement that counts.
#[derive(Clone, Debug, Deserialize)]
pub struct Statements {
    #[serde(flatten)]
    range: RangeText,
    #[serde(default)]
    least_ms: String,
}

/// As [`Range`], all of it text: numbers do not come through a flattened query.
#[derive(Clone, Debug, Deserialize)]
pub struct RangeText {
    server: String,
    from: String,
    to: String,
}

impl RangeText {
    fn parse(&self, state: &State) -> Result<(i16, i64, i64), Failure> {
        let server = self
            .server
            .parse()
            .map_err(|_| Failure::bad("No such server."))?;
        known(state, server)?;
        stretch(&self.from, &self.to).map(|(from, to)| (server, from, to))
    }
}

/// `GET /api/statements`.
pub async fn statements(
    With(state): With<Arc<State>>,
    Query(question): Query<Statements>,
) -> Result<Json<Value>, Failure> {
    let (server, from, to) = question.range.parse(&state)?;
    let least = question.least_ms.parse().unwrap_or(0);
    let rows = ask(move || {
        Ok(state
            .shared
            .repository
            .statements(server, from, to, least)?)
    })
    .await?;
    Ok(Json(json!(rows)))
}

/// A text of a server's statement.
#[derive(Clone, Debug, Deserialize)]
pub struct Text {
    server: i16,
    text: i64,
}

/// `GET /api/plans`: plans that a text was seen with.
pub async fn plans(
    With(state): With<Arc<State>>,
    Query(question): Query<Text>,
) -> Result<Json<Value>, Failure> {
    known(&state, question.server)?;
    let rows = ask(move || {
        Ok(state
            .shared
            .repository
            .plans(question.server, question.text)?)
    })
    .await?;
    Ok(Json(json!(rows)))
}

/// A server and a moment.
#[derive(Clone, Debug, Deserialize)]
pub struct At {
    server: i16,
    at: String,
}

/// `GET /api/blocking`: the tree as it was.
pub async fn blocking(
    With(state): With<Arc<State>>,
    Query(question): Query<At>,
) -> Result<Json<Value>, Failure> {
    known(&state, question.server)?;
    let at = parse_time(&question.at).ok_or_else(|| Failure::bad("At is no moment."))?;
    let server = question.server;
    let rows = ask(move || Ok(state.shared.repository.blocking(server, at)?)).await?;
    Ok(Json(json!(rows)))
}

/// `GET /api/events`.
pub async fn events(
    With(state): With<Arc<State>>,
    Query(range): Query<Range>,
) -> Result<Json<Value>, Failure> {
    let (server, from, to) = range.parse(&state)?;
    let rows = ask(move || Ok(state.shared.repository.events(server, from, to)?)).await?;
    Ok(Json(json!(rows)))
}

/// Two stretches.
#[derive(Clone, Debug, Deserialize)]
pub struct Compare {
    a_server: i16,
    a_from: String,
    a_to: String,
    b_server: i16,
    b_from: String,
    b_to: String,
}

/// `GET /api/compare`.
pub async fn compare(
    With(state): With<Arc<State>>,
    Query(question): Query<Compare>,
) -> Result<Json<Value>, Failure> {
    known(&state, question.a_server)?;
    known(&state, question.b_server)?;
    let (a_from, a_to) = stretch(&question.a_from, &question.a_to)?;
    let (b_from, b_to) = stretch(&question.b_from, &question.b_to)?;
    let answer = ask(move || {
        let repository = &state.shared.repository;
        let a = repository.stretch(question.a_server, a_from, a_to)?;
        let b = repository.stretch(question.b_server, b_from, b_to)?;
        let (a, b) = (
            compare::summary(&a, a_from, a_to),
            compare::summary(&b, b_from, b_to),
        );
        let mut rows = compare::compare(&a, &b);
        rows.retain(|row| row.judgement != Judgement::Absent);
        let compared = rows.len();
        let about = |s: &compare::Summary| {
            json!({"from": s.from, "to": s.to, "step_ms": s.step_ms, "covered_ms": s.covered_ms, "samples": s.samples})
        };
        Ok(json!({"a": about(&a), "b": about(&b), "compared": compared, "rows": rows}))
    })
    .await?;
    Ok(Json(answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Values;
    use crate::repository::levels::LEVELS;

    fn row(at: i64, dt_ms: i64, flags: u8) -> Row {
        let mut values = Values::default();
        values.set("log_flushes", 3.0);
        Row::of(&Tick {
            at,
            boot: 0,
            dt_ms,
            flags,
            values,
            waits: Vec::new(),
        })
    }

    #[test]
    fn holes_are_rows_without_values() {
        let stretch = Stretch {
            level: LEVELS[0],
            rows: vec![
                row(1_000, 1_000, 0),
                row(2_000, 1_000, 0),
                row(60_000, 1_000, 0),
                row(80_000, 20_000, SPAN),
            ],
        };
        let body = columns(&stretch, 0, 100_000);
        let length = u32::from_le_bytes(body[..4].try_into().expect("four bytes")) as usize;
        let head: Value = serde_json::from_slice(&body[4..4 + length]).expect("JSON");
        assert_eq!(head["n"], 5);
        assert_eq!((4 + length) % 8, 0);
        let at = |column: usize, n: usize| {
            let start = 4 + length + (column * 5 + n) * 8;
            f64::from_le_bytes(body[start..start + 8].try_into().expect("eight bytes"))
        };
        assert_eq!([0, 1, 2, 3].map(|n| at(0, n)), [1.0, 2.0, 3.0, 60.0]);
        let flushes = 1 + crate::figures::index("log_flushes").expect("a figure");
        assert_eq!(at(flushes, 0), 3.0);
        assert!(
            at(flushes, 2).is_nan(),
            "between the second and the sixtieth second"
        );
        assert!(at(flushes, 4).is_nan(), "the span has sums, no point");
        assert_eq!(head["covered_ms"], 23_000);
    }

    #[test]
    fn stretches_that_make_no_sense() {
        assert!(stretch("1000", "2000").is_ok());
        for (from, to) in [
            ("2000", "1000"),
            ("x", "1"),
            ("-5", "10"),
            ("0", "999999999999999"),
        ] {
            assert!(stretch(from, to).is_err(), "{from} {to}");
        }
    }
}
