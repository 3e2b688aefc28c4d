//! The quick report: waits, figures, statements and events of a stretch, as JSON for the page, as CSV, and as one HTML file that
//! needs nothing else and can be sent to somebody.
//!
//! The HTML file carries the samples that its sums were made of, so that they can be made again.

use super::api::Range;
use super::{Failure, State, ask};
use crate::compare::{self, Summary};
use crate::figures::{COUNT, FIGURES};
use crate::repository::read::{EventRow, StatementRow, Stretch, WaitSum};
use crate::sql::utc;
use axum::Json;
use axum::extract::{Query, State as With};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::sync::Arc;

/// Statements of a report.
const STATEMENTS_MAX: usize = 50;

/// Everything a report shows.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub server: String,
    pub endpoint: String,
    pub version: String,
    pub summary: Summary,
    pub waits: Vec<WaitSum>,
    pub statements: Vec<StatementRow>,
    pub events: Vec<EventRow>,
    /// Are literals of statements replaced?
    pub masked: bool,
    #[serde(skip)]
    pub stretch: Stretch,
}

/// Gathers a report.
pub fn gather(state: &State, server: i16, from: i64, to: i64) -> Result<Report, Failure> {
    let repository = &state.shared.repository;
    let stretch = repository.stretch(server, from, to)?;
    let mut statements = repository.statements(server, from, to, 0)?;
    statements.truncate(STATEMENTS_MAX);
    let about = state.shared.server(server).map(|server| {
        let live = server.live();
        (
            live.name.clone(),
            server.endpoint.clone(),
            live.version.clone(),
        )
    });
    let (name, endpoint, version) = about.unwrap_or_default();
    Ok(Report {
        server: name,
        endpoint,
        version,
        summary: compare::summary(&stretch, from, to),
        waits: repository.waits(server, from, to)?,
        statements,
        events: repository.events(server, from, to)?,
        masked: state.shared.masks,
        stretch,
    })
}

/// `GET /api/report`.
pub async fn json(
    With(state): With<Arc<State>>,
    Query(range): Query<Range>,
) -> Result<Json<Value>, Failure> {
    let (server, from, to) = range.parse(&state)?;
    let report = ask(move || gather(&state, server, from, to)).await?;
    Ok(Json(serde_json::json!(report)))
}

/// `GET /report.csv`.
pub async fn csv(
    With(state): With<Arc<State>>,
    Query(range): Query<Range>,
) -> Result<Response, Failure> {
    let (server, from, to) = range.parse(&state)?;
    let report = ask(move || gather(&state, server, from, to)).await?;
    Ok((
        [
            (CONTENT_TYPE, "text/csv; charset=utf-8"),
            (
                CONTENT_DISPOSITION,
                "attachment; filename=\"quick-report.csv\"",
            ),
        ],
        csv_text(&report),
    )
        .into_response())
}

/// `GET /report.html`.
pub async fn html(
    With(state): With<Arc<State>>,
    Query(range): Query<Range>,
) -> Result<Response, Failure> {
    let (server, from, to) = range.parse(&state)?;
    let report = ask(move || gather(&state, server, from, to)).await?;
    Ok((
        [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (
                CONTENT_DISPOSITION,
                "attachment; filename=\"quick-report.html\"",
            ),
            (
                CONTENT_SECURITY_POLICY,
                "default-src 'none'; style-src 'unsafe-inline'",
            ),
        ],
        html_text(&report),
    )
        .into_response())
}

/// A cell that no spreadsheet takes for a formula.
fn cell(text: &str) -> String {
    let guarded = match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') => format!("'{text}"),
        _ => text.to_string(),
    };
    match guarded.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", guarded.replace('"', "\"\"")),
        false => guarded,
    }
}

fn plain(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn csv_text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "section,name,unit,n,total,average,min,max,deviation,p95"
    );
    for figure in report.summary.figures.iter().filter(|f| f.n > 0) {
        let _ = writeln!(
            out,
            "figure,{},{},{},{},{},{},{},{},{}",
            cell(&figure.name),
            cell(figure.unit),
            figure.n,
            plain(figure.total),
            plain(figure.average),
            plain(figure.min),
            plain(figure.max),
            plain(figure.deviation),
            plain(figure.p95)
        );
    }
    let _ = writeln!(out, "\nsection,wait type,class,tasks,ms,signal ms");
    for wait in &report.waits {
        let _ = writeln!(
            out,
            "wait,{},{},{},{},{}",
            cell(&wait.name),
            cell(wait.class),
            wait.tasks,
            wait.ms,
            wait.signal_ms
        );
    }
    let _ = writeln!(
        out,
        "\nsection,started,ended,duration ms,cpu ms,reads,writes,rows,executions,database,login,application,text"
    );
    for s in &report.statements {
        let _ = writeln!(
            out,
            "statement,{},{},{},{},{},{},{},{},{},{},{},{}",
            utc(s.started),
            utc(s.ended),
            s.duration_us as f64 / 1e3,
            s.cpu_us as f64 / 1e3,
            s.reads,
            s.writes,
            s.rows,
            s.executions,
            cell(&s.database),
            cell(&s.login),
            cell(&s.application),
            cell(&s.text)
        );
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Three digits that matter, and thin spaces between thousands.
fn shown(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return "\u{2013}".into();
    };
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |s| s);
    let mut grouped = String::new();
    let count = whole.trim_start_matches('-').len();
    for (at, letter) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left % 3 == 0 && left < count + 1 && letter != '-' && left != count {
            grouped.push('\u{2009}');
        }
        grouped.push(letter);
    }
    if !rest.is_empty() {
        grouped.push('.');
        grouped.push_str(rest);
    }
    grouped
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1c2430;\
     background:#fff}h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{color:#566070;margin:.3rem 0}\
     table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{padding:.3rem .6rem;text-align:right;\
     border-bottom:1px solid #e3e7ec}th{font-weight:600;color:#566070;text-align:right}th:first-child,td:first-child{text-align:left}\
     td.t,th.t{text-align:left;font:13px/1.4 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}\
     pre{display:none}.bar{display:inline-block;height:.7em;background:#c0392b;border-radius:2px}\
     @media(prefers-color-scheme:dark){body{background:#12161c;color:#e6eaf0}p,th{color:#9aa5b4}th,td{border-color:#2a323d}}";

fn html_text(report: &Report) -> String {
    let mut out = String::new();
    let summary = &report.summary;
    let covered = summary.covered_ms as f64 / (summary.to - summary.from).max(1) as f64 * 100.0;
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>Quick report: \
         {name}</title><style>{STYLE}</style><h1>{name}</h1><p>{from} to {to} UTC, {seconds} s; samples for {covered:.1} % of it, \
         {n} rows of {step} s. {endpoint}. {version}</p><p>Literals of statements are {masked}.</p>",
        name = escape(&report.server),
        from = utc(summary.from),
        to = utc(summary.to),
        seconds = shown(Some((summary.to - summary.from) as f64 / 1e3)),
        n = summary.samples,
        step = summary.step_ms / 1_000,
        endpoint = escape(&report.endpoint),
        version = escape(&report.version),
        masked = if report.masked {
            "replaced by ?"
        } else {
            "shown"
        },
    );
    waits_html(report, &mut out);
    figures_html(report, &mut out);
    statements_html(report, &mut out);
    if !report.events.is_empty() {
        out.push_str(
            "<h2>Events</h2><table><tr><th>UTC</th><th>Kind</th><th class=t>Words</th></tr>",
        );
        for event in &report.events {
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td class=t>{}</td></tr>",
                utc(event.at),
                escape(&event.kind),
                escape(&event.words)
            );
        }
        out.push_str("</table>");
    }
    samples_html(report, &mut out);
    out
}

fn waits_html(report: &Report, out: &mut String) {
    let all: i64 = report.waits.iter().map(|wait| wait.ms).sum();
    out.push_str(
        "<h2>Waits</h2><table><tr><th>Type</th><th>Class</th><th>ms</th><th>%</th><th>Tasks</th><th>ms per task</th></tr>",
    );
    for wait in report
        .waits
        .iter()
        .filter(|wait| wait.ms > 0 || wait.tasks > 0)
    {
        let share = wait.ms as f64 * 100.0 / all.max(1) as f64;
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{share:.1}</td><td>{}</td><td>{}</td></tr>",
            escape(&wait.name),
            wait.class,
            shown(Some(wait.ms as f64)),
            shown(Some(wait.tasks as f64)),
            shown((wait.tasks > 0).then(|| wait.ms as f64 / wait.tasks as f64))
        );
    }
    out.push_str("</table>");
}

fn figures_html(report: &Report, out: &mut String) {
    out.push_str(
        "<h2>Figures</h2><table><tr><th>Figure</th><th>Unit</th><th>n</th><th>Total</th><th>Average</th><th>Min</th><th>Max</th>\
         <th>Deviation</th><th>95th percentile</th></tr>",
    );
    for figure in report.summary.figures.iter().filter(|f| f.n > 0) {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            figure.title,
            figure.unit,
            figure.n,
            shown(figure.total),
            shown(figure.average),
            shown(figure.min),
            shown(figure.max),
            shown(figure.deviation),
            shown(figure.p95)
        );
    }
    out.push_str("</table>");
}

fn statements_html(report: &Report, out: &mut String) {
    if report.statements.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Statements, the longest first</h2><table><tr><th>Started, UTC</th><th>ms</th><th>CPU ms</th><th>Reads</th><th>Writes</th>\
         <th>Times</th><th class=t>Text</th></tr>",
    );
    for s in &report.statements {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=t>{}</td></tr>",
            utc(s.started),
            shown(Some(s.duration_us as f64 / 1e3)),
            shown(Some(s.cpu_us as f64 / 1e3)),
            shown(Some(s.reads as f64)),
            shown(Some(s.writes as f64)),
            s.executions,
            escape(&s.text)
        );
    }
    out.push_str("</table>");
}

/// The samples themselves, out of sight, as comma-separated values: time (UTC, ms), length (ms), and each figure.
fn samples_html(report: &Report, out: &mut String) {
    out.push_str("<h2>Samples</h2><p>The rows that the sums above were made of are in this file, in the element with the id samples.</p><pre id=samples>");
    let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    let _ = writeln!(out, "at,dt_ms,{}", names.join(","));
    for row in &report.stretch.rows {
        let _ = write!(out, "{},{}", row.at, row.dt_ms);
        for value in row.value.iter().take(COUNT) {
            out.push(',');
            if value.is_finite() {
                let _ = write!(out, "{value}");
            }
        }
        out.push('\n');
    }
    out.push_str("</pre></html>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_no_formulas_and_texts_no_markup() {
        assert_eq!(cell("=1+1"), "'=1+1");
        assert_eq!(cell("@x"), "'@x");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(escape("<script>\"&"), "&lt;script&gt;&quot;&amp;");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(shown(Some(1_234_567.0)), "1\u{2009}234\u{2009}567");
        assert_eq!(shown(Some(-1_234.4)), "-1\u{2009}234");
        assert_eq!(shown(Some(12.34)), "12.3");
        assert_eq!(shown(Some(0.0)), "0");
        assert_eq!(shown(None), "\u{2013}");
    }
}
