//! What an experiment found, as data: shown on the terminal, as `report.html`, and kept in `results.json`.
//!
//! | module | makes |
//! |---|---|
//! | [`chart`] | SVG from bars and lines |
//! | [`html`] | the page, self-contained |
//! | [`text`] | the terminal's tables |
//!
//! Invariant: nothing is computed here. A figure that was not measured is `None` and shown as a dash.

pub mod chart;
pub mod html;
pub mod text;

use chart::Chart;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything an experiment found. It grows while the experiment runs and is written at its end, also at an early
/// one.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub experiment: String,
    pub title: String,
    /// What was asked, in two sentences.
    pub lead: String,
    pub source: Source,
    /// Server, machine, options, date.
    pub facts: Vec<(String, String)>,
    /// What could not be measured, and why.
    pub notices: Vec<String>,
    pub figures: Vec<Figure>,
    pub sections: Vec<Section>,
    pub checks: Vec<Check>,
    /// What programs read.
    pub data: BTreeMap<String, serde_json::Value>,
}

/// Where the published figures come from.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Source {
    pub text: String,
    /// What machine and product they were measured with.
    pub setting: String,
}

/// One key figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub name: String,
    pub value: String,
    /// The published figure or the target it stands beside.
    pub beside: String,
    /// Was the target met? Said in words as well as by colour.
    pub verdict: Verdict,
}

/// Whether a figure met its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    Bad,
    /// Nothing to compare with.
    Plain,
}

impl Verdict {
    /// `Good` for a target that was met.
    pub const fn of(good: bool) -> Verdict {
        if good { Verdict::Good } else { Verdict::Bad }
    }
}

/// A heading with what stands under it, in order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Section {
    pub title: String,
    pub blocks: Vec<Block>,
}

/// One piece of a section.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    Text(String),
    Notice(String),
    Table(Table),
    Chart(Chart),
    /// Statements, as they were run.
    Code(String),
}

/// Cells as text; the caller writes the numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    pub title: String,
    /// The first column names the row and stands on the left, the others are figures.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
    pub note: String,
}

/// One line of a table, with as many cells as it has columns.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub cells: Vec<String>,
    /// Not measured here but taken from the source.
    pub published: bool,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            title: title.into(),
            columns: columns.iter().map(|c| (*c).to_string()).collect(),
            ..Table::default()
        }
    }

    /// Adds a row of what was measured here.
    pub fn measured(&mut self, cells: Vec<String>) {
        self.rows.push(Row {
            cells,
            published: false,
        });
    }

    /// Adds a row of the source's figures, which is shown as such.
    pub fn published(&mut self, cells: &[&str]) {
        self.rows.push(Row {
            cells: cells.iter().map(|c| (*c).to_string()).collect(),
            published: true,
        });
    }
}

/// Something that must hold, and whether it did.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub what: String,
    pub expected: String,
    pub found: String,
    pub passed: bool,
}

impl Report {
    /// Begins a section; what is added to it stands after everything before.
    pub fn section(&mut self, title: impl Into<String>) -> &mut Section {
        self.sections.push(Section {
            title: title.into(),
            blocks: Vec::new(),
        });
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }

    /// Adds a key figure. Those with a verdict are the targets that the exit code speaks of.
    pub fn figure(
        &mut self,
        name: impl Into<String>,
        value: impl Into<String>,
        beside: impl Into<String>,
        verdict: Verdict,
    ) {
        self.figures.push(Figure {
            name: name.into(),
            value: value.into(),
            beside: beside.into(),
            verdict,
        });
    }

    /// Adds a check, which passes when both texts are equal; tells whether it did.
    pub fn check(
        &mut self,
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> bool {
        let (expected, found) = (expected.into(), found.into());
        let passed = expected == found;
        self.checks.push(Check {
            what: what.into(),
            expected,
            found,
            passed,
        });
        passed
    }

    /// Targets that were missed, and all that there are.
    pub fn missed(&self) -> (usize, usize) {
        let with = |verdict| self.figures.iter().filter(|f| f.verdict == verdict).count();
        let missed = with(Verdict::Bad);
        (missed, missed + with(Verdict::Good))
    }

    /// Adds a fact about the run, such as the server's version.
    pub fn fact(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.facts.push((name.into(), value.into()));
    }

    /// Checks whose texts differ. One is enough for exit code 1.
    pub fn failed_checks(&self) -> usize {
        self.checks.iter().filter(|check| !check.passed).count()
    }

    /// Keeps a value for `results.json`; one of the same name is replaced.
    pub fn keep(&mut self, name: impl Into<String>, value: serde_json::Value) {
        self.data.insert(name.into(), value);
    }
}

impl Section {
    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a paragraph that tells what could not be measured.
    pub fn notice(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Notice(text.into()));
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a chart.
    pub fn chart(&mut self, chart: impl Into<Chart>) {
        self.blocks.push(Block::Chart(chart.into()));
    }

    /// Adds statements, as they were run.
    pub fn code(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Code(text.into()));
    }
}
