//! Bars and lines as SVG.
//!
//! A writer of its own, because colours have to come from the page's style sheet (light and dark), every mark has a tooltip,
//! and nothing may depend on fonts being measured: bars lie, so that names of any length stand beside them, and numbers
//! stand at their ends. Coordinates are those of a 720 wide view box; the page scales it.

use super::html::escape;
use crate::figures;
use serde::Serialize;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
/// Room for names to the left of bars.
const NAMES: f64 = 190.0;
/// Room for numbers to the right of the longest bar.
const NUMBERS: f64 = 92.0;
const BAR: f64 = 17.0;
const BAR_GAP: f64 = 3.0;
const GROUP_GAP: f64 = 14.0;
const LINE_HEIGHT: f64 = 300.0;
/// More marks than this say nothing more.
const POINTS_MAX: usize = 5000;

/// What [`super::Block::Chart`] holds; drawn as SVG on the page and left out on the terminal.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Chart {
    Bars(Bars),
    Lines(Lines),
}

impl From<Bars> for Chart {
    fn from(bars: Bars) -> Chart {
        Chart::Bars(bars)
    }
}

impl From<Lines> for Chart {
    fn from(lines: Lines) -> Chart {
        Chart::Lines(lines)
    }
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Seconds,
    Bytes,
    Times,
    Percent,
    Number,
}

impl Unit {
    /// At an axis: round numbers without the digits that say nothing.
    fn tick(self, value: f64) -> String {
        if value == 0.0 {
            return "0".into();
        }
        if self == Unit::Number && value.abs() >= 10_000.0 {
            let (part, name) = if value.abs() >= 1e6 {
                (1e6, "M")
            } else {
                (1e3, "k")
            };
            return format!("{} {name}", Unit::Number.tick(value / part));
        }
        if self == Unit::Seconds && value >= 120.0 {
            return format!("{} s", figures::grouped(value));
        }
        let (number, unit) = match self.write(value).split_once(' ') {
            Some((number, unit)) => (number.to_string(), format!(" {unit}")),
            None => (self.write(value), String::new()),
        };
        if !number.contains('.') || number.contains(':') {
            return format!("{number}{unit}");
        }
        let short = number.trim_end_matches('0').trim_end_matches('.');
        format!("{short}{unit}")
    }

    /// The distance of ticks that are round when written.
    fn step(self, span: f64) -> f64 {
        if self != Unit::Bytes || span < 1024.0 {
            return nice_step(span);
        }
        let base = 1024f64.powf((span.ln() / 1024f64.ln()).floor());
        nice_step(span / base) * base
    }

    /// The number with its unit, as it stands at the end of a bar.
    pub fn write(self, value: f64) -> String {
        match self {
            Unit::Seconds => figures::seconds(value),
            Unit::Bytes => figures::bytes(value),
            Unit::Times => format!("{} ×", figures::number(value)),
            Unit::Percent => format!("{} %", figures::number(value)),
            Unit::Number => figures::number(value),
        }
    }
}

/// Where a series comes from; published ones are drawn pale with a dashed edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Measured,
    Published,
}

/// Groups of lying bars: one group for each name, one bar in it for each series.
#[derive(Clone, Debug, Serialize)]
pub struct Bars {
    pub title: String,
    pub unit: Unit,
    pub log: bool,
    pub names: Vec<String>,
    pub series: Vec<BarSeries>,
    /// A line across all bars, such as a target.
    pub mark: Option<(String, f64)>,
    pub note: String,
}

/// One bar in each group.
#[derive(Clone, Debug, Serialize)]
pub struct BarSeries {
    pub name: String,
    pub kind: Kind,
    /// Colour: series of one colour belong together.
    pub colour: usize,
    pub values: Vec<Option<f64>>,
}

impl BarSeries {
    /// `values` in the order of [`Bars::names`]; `None` leaves the bar out.
    pub fn new(name: &str, kind: Kind, colour: usize, values: Vec<Option<f64>>) -> BarSeries {
        BarSeries {
            name: name.into(),
            kind,
            colour,
            values,
        }
    }
}

/// Series over a common horizontal axis, each a line through its points.
#[derive(Clone, Debug, Serialize)]
pub struct Lines {
    pub title: String,
    pub x_title: String,
    pub y_title: String,
    pub x_unit: Unit,
    pub y_unit: Unit,
    pub x_log: bool,
    pub y_log: bool,
    pub series: Vec<LineSeries>,
    pub note: String,
}

/// One line; points in the order of their x.
#[derive(Clone, Debug, Serialize)]
pub struct LineSeries {
    pub name: String,
    pub kind: Kind,
    pub colour: usize,
    pub points: Vec<(f64, f64)>,
}

impl Chart {
    /// Heading of the chart.
    pub fn title(&self) -> &str {
        match self {
            Chart::Bars(bars) => &bars.title,
            Chart::Lines(lines) => &lines.title,
        }
    }

    /// Sentence under the chart; may be empty.
    pub fn note(&self) -> &str {
        match self {
            Chart::Bars(bars) => &bars.note,
            Chart::Lines(lines) => &lines.note,
        }
    }

    /// Name, colour and kind of each series, for the legend.
    pub fn legend(&self) -> Vec<(&str, usize, Kind)> {
        match self {
            Chart::Bars(bars) => bars
                .series
                .iter()
                .map(|s| (s.name.as_str(), s.colour, s.kind))
                .collect(),
            Chart::Lines(lines) => lines
                .series
                .iter()
                .map(|s| (s.name.as_str(), s.colour, s.kind))
                .collect(),
        }
    }

    /// An `<svg>` element 720 units wide; its colours are names of the page's style sheet.
    pub fn svg(&self) -> String {
        match self {
            Chart::Bars(bars) => bars_svg(bars),
            Chart::Lines(lines) => lines_svg(lines),
        }
    }
}

/// Values onto a stretch of the view box.
#[derive(Clone, Debug)]
struct Scale {
    log: bool,
    unit: Unit,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// `None`: no value that can be drawn.
    fn over(
        values: impl Iterator<Item = f64>,
        log: bool,
        unit: Unit,
        (from, to): (f64, f64),
    ) -> Option<Scale> {
        let drawn = values.filter(|v| v.is_finite() && (!log || *v > 0.0));
        let (low, high) = drawn.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return None;
        }
        let (low, high) = if log {
            let (low, high) = (low.log10().floor(), high.log10().ceil());
            (10f64.powf(low), 10f64.powf(high.max(low + 1.0)))
        } else {
            let step = unit.step(high.max(0.0) - low.min(0.0));
            (
                (low.min(0.0) / step).floor() * step,
                ((high.max(0.0) / step).ceil() * step).max(step),
            )
        };
        Some(Scale {
            log,
            unit,
            low,
            high,
            from,
            to,
        })
    }

    fn at(&self, value: f64) -> f64 {
        let part = if self.log {
            let (low, high) = (self.low.log10(), self.high.log10());
            (value.max(self.low).log10() - low) / (high - low)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (low, high) = (
                self.low.log10().round() as i32,
                self.high.log10().round() as i32,
            );
            let every = ((high - low) / 7 + 1).max(1);
            return (low..=high)
                .step_by(usize::try_from(every).unwrap_or(1))
                .map(|power| 10f64.powi(power))
                .collect();
        }
        let step = self.unit.step(self.high - self.low);
        let count = ((self.high - self.low) / step).round() as usize;
        (0..=count.min(20))
            .map(|n| self.low + step * n as f64)
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that five to ten steps make the span.
fn nice_step(span: f64) -> f64 {
    if !(span.is_finite() && span > 0.0) {
        return 1.0;
    }
    let raw = span / 6.0;
    let power = 10f64.powf(raw.log10().floor());
    let factor = match raw / power {
        f if f <= 1.0 => 1.0,
        f if f <= 2.0 => 2.0,
        f if f <= 5.0 => 5.0,
        _ => 10.0,
    };
    factor * power
}

fn class(colour: usize, kind: Kind) -> String {
    let published = if kind == Kind::Published { " pub" } else { "" };
    format!("c{}{published}", colour % 6)
}

fn open(height: f64, title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    )
}

fn empty(title: &str) -> String {
    let mut svg = open(60.0, title);
    svg.push_str("<text class=\"axis\" x=\"360\" y=\"34\" text-anchor=\"middle\">nothing was measured</text></svg>");
    svg
}

fn bars_svg(bars: &Bars) -> String {
    let values = bars.series.iter().flat_map(|s| s.values.iter().flatten());
    let values = values.copied().chain(bars.mark.iter().map(|m| m.1));
    let Some(scale) = Scale::over(values, bars.log, bars.unit, (NAMES, WIDTH - NUMBERS)) else {
        return empty(&bars.title);
    };
    let group = bars.series.len() as f64 * (BAR + BAR_GAP) + GROUP_GAP;
    let top = if bars.mark.is_some() { 20.0 } else { 6.0 };
    let bottom = top + group * bars.names.len() as f64;
    let mut svg = open(bottom + 24.0, &bars.title);
    for tick in scale.ticks() {
        let x = scale.at(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/><text class=\"axis\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            escape(&bars.unit.tick(tick))
        );
    }
    let mut numbers = String::new();
    for (row, name) in bars.names.iter().enumerate() {
        let y = top + group * row as f64 + GROUP_GAP / 2.0;
        let middle = y + (group - GROUP_GAP) / 2.0 + 4.0;
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
            NAMES - 10.0,
            escape(name)
        );
        for (at, series) in bars.series.iter().enumerate() {
            let y = y + at as f64 * (BAR + BAR_GAP);
            bar(&mut svg, &mut numbers, bars, series, &scale, (row, name, y));
        }
    }
    if let Some((name, value)) = &bars.mark {
        let x = scale.at(*value);
        // The name stays inside of the picture.
        let half = text_width(name) / 2.0 + 4.0;
        let _ = write!(
            svg,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/><text class=\"marktext\" x=\"{:.1}\" y=\"12\" text-anchor=\"middle\">{}</text>",
            top - 4.0,
            x.max(half).min(WIDTH - half),
            escape(name)
        );
    }
    svg.push_str(&numbers);
    svg.push_str("</svg>");
    svg
}

/// A bar, and its number apart.
fn bar(
    svg: &mut String,
    numbers: &mut String,
    bars: &Bars,
    series: &BarSeries,
    scale: &Scale,
    (row, name, y): (usize, &str, f64),
) {
    let text_y = y + BAR - 4.5;
    let Some(value) = series.values.get(row).copied().flatten() else {
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{text_y:.1}\">–</text>",
            NAMES + 5.0
        );
        return;
    };
    let zero = if scale.log { NAMES } else { scale.at(0.0) };
    let end = scale.at(value);
    // A bar of nothing is a hairline, so that it is seen to be there.
    let (x, width) = (zero.min(end), (end - zero).abs().max(1.5));
    let shown = bars.unit.write(value);
    let _ = write!(
        svg,
        "<rect class=\"bar {}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2.5\"><title>{}: {} = {}</title></rect>",
        class(series.colour, series.kind),
        escape(name),
        escape(&series.name),
        escape(&shown)
    );
    let mark = bars.mark.as_ref().map(|(_, value)| scale.at(*value));
    let _ = write!(
        numbers,
        "<text class=\"value\" x=\"{:.1}\" y=\"{text_y:.1}\">{}</text>",
        beside(x + width + 6.0, &shown, mark),
        escape(&shown)
    );
}

/// Where a number stands that would begin at `x`: right of the mark, if it would lie on it.
fn beside(x: f64, text: &str, mark: Option<f64>) -> f64 {
    match mark {
        Some(mark) if x - 3.0 < mark && mark < x + text_width(text) + 3.0 => mark + 6.0,
        _ => x,
    }
}

/// About as wide as a text of the chart can be, since no font is measured.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.8
}

fn lines_svg(lines: &Lines) -> String {
    let points = || lines.series.iter().flat_map(|s| s.points.iter());
    let (left, right, top, bottom) = (76.0, WIDTH - 22.0, 14.0, LINE_HEIGHT - 46.0);
    let x_scale = Scale::over(
        points().map(|p| p.0),
        lines.x_log,
        lines.x_unit,
        (left, right),
    );
    let y_scale = Scale::over(
        points().map(|p| p.1),
        lines.y_log,
        lines.y_unit,
        (bottom, top),
    );
    let (Some(x_scale), Some(y_scale)) = (x_scale, y_scale) else {
        return empty(&lines.title);
    };
    let mut svg = open(LINE_HEIGHT, &lines.title);
    for tick in y_scale.ticks() {
        let y = y_scale.at(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 4.0,
            escape(&lines.y_unit.tick(tick))
        );
    }
    for tick in x_scale.ticks() {
        let x = x_scale.at(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"/><text class=\"axis\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            escape(&lines.x_unit.tick(tick))
        );
    }
    let _ = write!(
        svg,
        "<text class=\"axistitle\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text class=\"axistitle\" transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(left, right),
        LINE_HEIGHT - 8.0,
        escape(&lines.x_title),
        f64::midpoint(top, bottom),
        escape(&lines.y_title)
    );
    for series in &lines.series {
        line(&mut svg, lines, series, &x_scale, &y_scale);
    }
    svg.push_str("</svg>");
    svg
}

fn line(svg: &mut String, lines: &Lines, series: &LineSeries, x_scale: &Scale, y_scale: &Scale) {
    let drawn = |(x, y): &&(f64, f64)| {
        x.is_finite() && y.is_finite() && (!lines.x_log || *x > 0.0) && (!lines.y_log || *y > 0.0)
    };
    let points: Vec<_> = series
        .points
        .iter()
        .filter(drawn)
        .take(POINTS_MAX)
        .collect();
    let class = class(series.colour, series.kind);
    let path: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{:.1},{:.1}", x_scale.at(*x), y_scale.at(*y)))
        .collect();
    if points.len() > 1 {
        let _ = write!(
            svg,
            "<polyline class=\"line {class}\" points=\"{}\"/>",
            path.join(" ")
        );
    }
    let radius = if points.len() > 80 { 2.0 } else { 4.0 };
    for (x, y) in points {
        let _ = write!(
            svg,
            "<circle class=\"dot {class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}: {} at {}</title></circle>",
            x_scale.at(*x),
            y_scale.at(*y),
            escape(&series.name),
            escape(&lines.y_unit.write(*y)),
            escape(&lines.x_unit.write(*x))
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values: Vec<Option<f64>>, log: bool) -> Bars {
        Bars {
            title: "<t>".into(),
            unit: Unit::Seconds,
            log,
            names: vec!["a & b".into(); values.len()],
            series: vec![BarSeries {
                name: "\"on\"".into(),
                kind: Kind::Measured,
                colour: 0,
                values,
            }],
            mark: None,
            note: String::new(),
        }
    }

    #[test]
    fn a_number_never_lies_on_the_mark() {
        assert_eq!(beside(100.0, "0.94 ×", Some(110.0)), 116.0);
        assert_eq!(beside(100.0, "0.94 ×", Some(300.0)), 100.0);
        assert_eq!(beside(100.0, "0.94 ×", Some(90.0)), 100.0);
        assert_eq!(beside(100.0, "0.94 ×", None), 100.0);
    }

    #[test]
    fn nothing_has_no_unit_at_an_axis() {
        assert_eq!(Unit::Seconds.tick(0.0), "0");
        assert_eq!(Unit::Bytes.tick(0.0), "0");
    }

    #[test]
    fn ticks_say_no_more_than_they_must() {
        assert_eq!(Unit::Times.tick(0.5), "0.5 ×");
        assert_eq!(Unit::Seconds.tick(1.0), "1 s");
        assert_eq!(Unit::Seconds.tick(1000.0), "1,000 s");
        assert_eq!(Unit::Number.tick(20_000.0), "20 k");
        assert_eq!(Unit::Number.tick(1.5e6), "1.5 M");
        assert_eq!(Unit::Percent.tick(20.0), "20 %");
    }

    #[test]
    fn steps_are_nice() {
        let steps: Vec<f64> = [6.0, 7.0, 25.0, 60.0, 0.6]
            .into_iter()
            .map(nice_step)
            .collect();
        assert_eq!(steps[..4], [1.0, 2.0, 5.0, 10.0]);
        assert!((steps[4] - 0.1).abs() < 1e-12);
        assert_eq!(nice_step(0.0), 1.0);
    }

    #[test]
    fn scales_cover_their_values() {
        let over =
            |values: [f64; 2], log, unit| Scale::over(values.into_iter(), log, unit, (0.0, 100.0));
        let linear = over([3.0, 17.0], false, Unit::Number).expect("a scale");
        assert_eq!((linear.at(0.0), linear.at(linear.high)), (0.0, 100.0));
        assert!(linear.ticks().len() > 2 && linear.high >= 17.0);
        let log = over([0.02, 300.0], true, Unit::Number).expect("a scale");
        assert_eq!((log.low, log.high), (0.01, 1000.0));
        assert_eq!(log.at(0.0), 0.0);
        assert!(over([f64::NAN, 0.0], true, Unit::Number).is_none());
        let mebibytes = over([0.0, 41.0 * 1_048_576.0], false, Unit::Bytes).expect("a scale");
        let ticks: Vec<String> = mebibytes
            .ticks()
            .into_iter()
            .map(|t| Unit::Bytes.tick(t))
            .collect();
        assert_eq!(
            ticks,
            ["0", "10 MiB", "20 MiB", "30 MiB", "40 MiB", "50 MiB"]
        );
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let svg = bars_svg(&bars(vec![Some(2.0), None], false));
        assert_eq!(svg.matches("<rect").count(), 1);
        assert!(svg.contains(">–</text>"));
        assert!(bars_svg(&bars(vec![None], true)).contains("nothing was measured"));
    }

    #[test]
    fn names_are_escaped() {
        let svg = bars_svg(&bars(vec![Some(2.0)], true));
        assert!(
            svg.contains("a &amp; b") && svg.contains("&quot;on&quot;"),
            "{svg}"
        );
        assert!(!svg.contains("<t>"), "{svg}");
    }

    #[test]
    fn lines_pass_over_what_a_logarithm_cannot_show() {
        let lines = Lines {
            title: "t".into(),
            x_title: "x".into(),
            y_title: "y".into(),
            x_unit: Unit::Number,
            y_unit: Unit::Seconds,
            x_log: true,
            y_log: true,
            series: vec![LineSeries {
                name: "s".into(),
                kind: Kind::Measured,
                colour: 1,
                points: vec![(0.0, 1.0), (10.0, 1.0), (100.0, 2.0), (1000.0, 0.0)],
            }],
            note: String::new(),
        };
        let svg = lines_svg(&lines);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("<polyline").count(), 1);
    }
}
