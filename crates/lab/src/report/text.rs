//! Tables for the terminal.

use super::{Block, Report, Section, Table, Verdict};
use std::fmt::Write;

/// A section as it is shown while an experiment runs; charts are for the page.
pub fn section(section: &Section) -> String {
    let mut out = format!("\n== {} ==\n", section.title);
    for block in &section.blocks {
        match block {
            Block::Text(text) => {
                let _ = writeln!(out, "{text}");
            }
            Block::Notice(text) => {
                let _ = writeln!(out, "! {text}");
            }
            Block::Table(table) => out.push_str(&self::table(table)),
            Block::Chart(_) | Block::Code(_) => {}
        }
    }
    out
}

/// Key figures and checks.
pub fn summary(report: &Report) -> String {
    let mut out = String::new();
    if !report.figures.is_empty() {
        out.push_str("\n== Key figures ==\n");
    }
    let width = report.figures.iter().map(|f| f.name.chars().count()).max();
    for figure in &report.figures {
        let sign = match figure.verdict {
            Verdict::Good => "+",
            Verdict::Bad => "-",
            Verdict::Plain => " ",
        };
        let missed = if figure.verdict == Verdict::Bad {
            "  MISSED"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "{sign} {:<width$}  {:>12}  {}{missed}",
            figure.name,
            figure.value,
            figure.beside,
            width = width.unwrap_or(0)
        );
    }
    let (missed, targets) = report.missed();
    if targets > 0 {
        let _ = writeln!(out, "\nTargets: {} of {targets} met", targets - missed);
    }
    let failed = report.failed_checks();
    let _ = writeln!(
        out,
        "\nSelf-checks: {} of {} hold",
        report.checks.len() - failed,
        report.checks.len()
    );
    for check in report.checks.iter().filter(|check| !check.passed) {
        let _ = writeln!(
            out,
            "FAILED {}: expected {}, found {}",
            check.what, check.expected, check.found
        );
    }
    out
}

/// The table with columns as wide as their longest cell, in characters.
pub fn table(table: &Table) -> String {
    let mut widths: Vec<usize> = table.columns.iter().map(|c| c.chars().count()).collect();
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(out, "{}", table.title);
    }
    line(&mut out, &widths, &table.columns, "");
    let rule: usize = widths.iter().map(|w| w + 2).sum();
    let _ = writeln!(out, "  {}", "-".repeat(rule.saturating_sub(2)));
    for row in &table.rows {
        let mark = if row.published { "  published" } else { "" };
        line(&mut out, &widths, &row.cells, mark);
    }
    if !table.note.is_empty() {
        let _ = writeln!(out, "  {}", table.note);
    }
    out
}

fn line(out: &mut String, widths: &[usize], cells: &[String], mark: &str) {
    let mut text = String::new();
    for (at, (width, cell)) in widths.iter().zip(cells).enumerate() {
        let _ = if at == 0 {
            write!(text, "  {cell:<width$}")
        } else {
            write!(text, "  {cell:>width$}")
        };
    }
    let _ = writeln!(out, "{}{mark}", text.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut t = Table::new("Times", &["Database", "s"]);
        t.measured(vec!["AW".into(), "1.50".into()]);
        t.published(&["AW", "15.7"]);
        assert_eq!(
            table(&t),
            "Times\n  Database     s\n  --------------\n  AW        1.50\n  AW        15.7  published\n"
        );
    }

    #[test]
    fn a_missed_target_is_called_so() {
        let mut report = Report::default();
        report.figure("updates", "1.36 ×", "target at most 1.05", Verdict::Bad);
        report.figure("redo", "0.90 ×", "target at most 1.0", Verdict::Good);
        let text = summary(&report);
        assert!(text.contains("target at most 1.05  MISSED"), "{text}");
        assert!(text.contains("Targets: 1 of 2 met"), "{text}");
    }

    #[test]
    fn failed_checks_are_named() {
        let mut report = Report::default();
        report.check("rows", "5", "5");
        report.check("sum", "1", "2");
        let text = summary(&report);
        assert!(text.contains("1 of 2 hold"));
        assert!(text.contains("FAILED sum: expected 1, found 2"));
    }
}
