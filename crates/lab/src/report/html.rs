//! The page: one file that needs nothing from anywhere, in the reader's light or dark.
//!
//! Invariant: every text that is not written in this file goes through [`escape`].

use super::chart::{Chart, Kind};
use super::{Block, Check, Figure, Report, Section, Table, Verdict};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// The doll that stands up again at once.
const DARUMA: &str = "<svg viewBox=\"0 0 64 64\" aria-hidden=\"true\"><path d=\"M32 4C15 4 6 19 6 36c0 15 9 24 26 24s26-9 26-24C58 19 49 4 32 4z\" fill=\"#bf1e2e\"/><path d=\"M32 15c-11 0-17 7-17 15s6 14 17 14 17-6 17-14-6-15-17-15z\" fill=\"#f6e4cf\"/><path d=\"M17 25c3-4 9-5 13-2M34 23c4-3 10-2 13 2\" fill=\"none\" stroke=\"#1d1b19\" stroke-width=\"3\" stroke-linecap=\"round\"/><circle cx=\"24\" cy=\"31\" r=\"4.6\" fill=\"#fff\"/><circle cx=\"40\" cy=\"31\" r=\"4.6\" fill=\"#fff\"/><circle cx=\"24\" cy=\"31\" r=\"2.4\" fill=\"#1d1b19\"/><path d=\"M28 39q4 2.6 8 0\" fill=\"none\" stroke=\"#1d1b19\" stroke-width=\"1.8\" stroke-linecap=\"round\"/><path d=\"M25 49h14M27 54h10\" stroke=\"#e5b64a\" stroke-width=\"2.4\" stroke-linecap=\"round\"/></svg>";

const TOGGLE: &str = "<script>document.getElementById('theme').onclick=function(){var r=document.documentElement,d=r.dataset.theme||(matchMedia('(prefers-color-scheme: dark)').matches?'dark':'light');r.dataset.theme=d==='dark'?'light':'dark'}</script>";

/// Text made harmless inside an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// A sentence: harmless, with what stands between backticks as code.
fn sentence(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let pieces: Vec<&str> = text.split('`').collect();
    // An odd backtick is a backtick.
    if pieces.len().is_multiple_of(2) {
        return escape(text);
    }
    for (n, piece) in pieces.into_iter().enumerate() {
        match n % 2 {
            0 => out.push_str(&escape(piece)),
            _ => {
                let _ = write!(out, "<code>{}</code>", escape(piece));
            }
        }
    }
    out
}

/// The whole page, style, script and charts included: it loads nothing.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(64 << 10);
    let title = escape(&report.title);
    let _ = write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{STYLE}</style></head><body><main><header>{DARUMA}<div class=\"words\"><h1>{title}</h1><p class=\"lead\">{}</p></div><button id=\"theme\" type=\"button\">light / dark</button></header>",
        sentence(&report.lead)
    );
    out.push_str("<ul class=\"facts\">");
    for (name, value) in &report.facts {
        let _ = write!(out, "<li>{} <b>{}</b></li>", escape(name), escape(value));
    }
    out.push_str("</ul>");
    for notice in &report.notices {
        let _ = write!(out, "<p class=\"notice\">{}</p>", sentence(notice));
    }
    if !report.figures.is_empty() {
        out.push_str("<div class=\"cards\">");
        report.figures.iter().for_each(|f| card(&mut out, f));
        out.push_str("</div>");
        targets(&mut out, report);
    }
    report.sections.iter().for_each(|s| section(&mut out, s));
    checks(&mut out, &report.checks);
    let _ = write!(
        out,
        "<footer><p>{}</p><p>{}</p><p>Published figures are drawn pale with a dashed edge. All numbers are also in results.json.</p></footer>{TOGGLE}</main></body></html>",
        escape(&report.source.text),
        escape(&report.source.setting)
    );
    out
}

/// How many targets were met, in a sentence.
fn targets(out: &mut String, report: &Report) {
    let sentence = match report.missed() {
        (_, 0) => return,
        (0, 1) => "The target was met.".to_string(),
        (0, all) => format!("All {all} targets were met."),
        (missed, all) => format!("Targets missed: {missed} of {all}."),
    };
    let _ = write!(out, "<p class=\"tablenote under\">{sentence}</p>");
}

fn card(out: &mut String, figure: &Figure) {
    let (class, word) = match figure.verdict {
        Verdict::Good => (" good", ""),
        Verdict::Bad => (" bad", "<span class=\"word\">missed</span>"),
        Verdict::Plain => ("", ""),
    };
    let _ = write!(
        out,
        "<div class=\"card{class}\">{word}<div class=\"name\">{}</div><div class=\"value\">{}</div><div class=\"beside\">{}</div></div>",
        escape(&figure.name),
        escape(&figure.value),
        escape(&figure.beside)
    );
}

fn section(out: &mut String, section: &Section) {
    let _ = write!(out, "<section><h2>{}</h2>", escape(&section.title));
    for block in &section.blocks {
        match block {
            Block::Text(text) => {
                let _ = write!(out, "<p>{}</p>", sentence(text));
            }
            Block::Notice(text) => {
                let _ = write!(out, "<p class=\"notice\">{}</p>", sentence(text));
            }
            Block::Table(table) => self::table(out, table),
            Block::Chart(chart) => self::chart(out, chart),
            Block::Code(text) => {
                let _ = write!(
                    out,
                    "<details><summary>Statements</summary><pre>{}</pre></details>",
                    escape(text)
                );
            }
        }
    }
    out.push_str("</section>");
}

fn table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"scroll\"><table>");
    if !table.title.is_empty() {
        let _ = write!(out, "<caption>{}</caption>", escape(&table.title));
    }
    out.push_str("<thead><tr>");
    for column in &table.columns {
        let _ = write!(out, "<th>{}</th>", escape(column));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        let (class, tag) = if row.published {
            (" class=\"pub\"", "<span class=\"tag\">published</span>")
        } else {
            ("", "")
        };
        let _ = write!(out, "<tr{class}>");
        for (at, cell) in row.cells.iter().enumerate() {
            let tag = if at == 0 { tag } else { "" };
            let _ = write!(out, "<td>{}{tag}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if !table.note.is_empty() {
        let _ = write!(out, "<p class=\"tablenote\">{}</p>", sentence(&table.note));
    }
}

fn chart(out: &mut String, chart: &Chart) {
    let _ = write!(
        out,
        "<figure><h3>{}</h3><div class=\"legend\">",
        escape(chart.title())
    );
    for (name, colour, kind) in chart.legend() {
        let published = if kind == Kind::Published { " pub" } else { "" };
        // The shape of what is drawn: a bar, or a point on a line.
        let shape = match chart {
            Chart::Bars(_) => "",
            Chart::Lines(_) => " dot",
        };
        let _ = write!(
            out,
            "<span><i class=\"k{}{shape}{published}\"></i>{}</span>",
            colour % 6,
            escape(name)
        );
    }
    let _ = write!(out, "</div>{}", chart.svg());
    if !chart.note().is_empty() {
        let _ = write!(out, "<figcaption>{}</figcaption>", sentence(chart.note()));
    }
    out.push_str("</figure>");
}

fn checks(out: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    let failed = checks.iter().filter(|c| !c.passed).count();
    let (class, verdict) = match failed {
        0 if checks.len() == 1 => ("good", "the one check holds".to_string()),
        0 => ("good", format!("all {} hold", checks.len())),
        _ => ("bad", format!("{failed} of {} failed", checks.len())),
    };
    let _ = write!(
        out,
        "<section><h2>Self-checks</h2><p><span class=\"verdict {class}\">{verdict}</span></p><details{}><summary>All checks</summary><ul class=\"checks\">",
        if failed > 0 || checks.len() <= 12 {
            " open"
        } else {
            ""
        }
    );
    for check in checks {
        let (class, difference) = if check.passed {
            ("", format!(": {}", check.found))
        } else {
            (
                " class=\"bad\"",
                format!(": expected {}, found {}", check.expected, check.found),
            )
        };
        let _ = write!(
            out,
            "<li{class}>{}{}</li>",
            escape(&check.what),
            escape(&difference)
        );
    }
    out.push_str("</ul></details></section>");
}

#[cfg(test)]
mod tests {
    use super::super::chart::{BarSeries, Bars, Unit};
    use super::*;

    const NASTY: &str = "<script>alert(1)</script> & \"x\" 'y'";

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let mut report = Report {
            title: NASTY.into(),
            lead: NASTY.into(),
            notices: vec![NASTY.into()],
            ..Report::default()
        };
        report.source.text = NASTY.into();
        report.source.setting = NASTY.into();
        report.fact(NASTY, NASTY);
        report.figure(NASTY, NASTY, NASTY, Verdict::Good);
        report.check(NASTY, NASTY, "other");
        let mut table = Table::new(NASTY, &[NASTY]);
        table.measured(vec![NASTY.into()]);
        table.note = NASTY.into();
        let section = report.section(NASTY);
        section.text(NASTY);
        section.notice(NASTY);
        section.code(NASTY);
        section.table(table);
        section.chart(Bars {
            title: NASTY.into(),
            unit: Unit::Number,
            log: false,
            names: vec![NASTY.into()],
            series: vec![BarSeries {
                name: NASTY.into(),
                kind: Kind::Published,
                colour: 9,
                values: vec![Some(1.0)],
            }],
            mark: Some((NASTY.into(), 1.0)),
            note: NASTY.into(),
        });
        let page = page(&report);
        assert!(!page.contains("<script>alert"));
        assert_eq!(page.matches("<script>").count(), 1, "the page's own");
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot; &#39;y&#39;")
        );
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = page(&Report::default());
        assert!(!page.contains("http") && !page.contains("src=") && !page.contains("@import"));
    }

    #[test]
    fn a_missed_target_is_said_in_words() {
        let mut report = Report::default();
        report.figure("a", "2 ×", "target at most 1.05", Verdict::Bad);
        report.figure("b", "1 ×", "target at most 1.05", Verdict::Good);
        let page = page(&report);
        assert_eq!(page.matches(">missed<").count(), 1);
        assert!(page.contains("Targets missed: 1 of 2."));
    }

    #[test]
    fn backticks_become_code() {
        assert_eq!(
            sentence("run `daruma lab <x>` first"),
            "run <code>daruma lab &lt;x&gt;</code> first"
        );
        assert_eq!(sentence("one ` only"), "one ` only");
    }

    #[test]
    fn failed_checks_show() {
        let mut report = Report::default();
        report.check("sum of OrderQty", "274914", "274913");
        let page = page(&report);
        assert!(page.contains("1 of 1 failed"));
        assert!(page.contains("expected 274914, found 274913"));
    }
}
