//! Numbers for people: medians, percentages, and lengths of time that read well.

use std::time::Duration;

/// The middle value; of two middle ones their mean. `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = sorted.get(sorted.len() / 2 - 1).copied().unwrap_or(upper);
    Some(lower.midpoint(upper))
}

/// The least value that this share of all values (0 to 1) does not exceed. `None` for no values.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied()
}

/// Smallest and largest value.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
}

/// `a / b`, where that means something.
pub fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) if b > 0.0 => Some(a / b),
        _ => None,
    }
}

/// Three significant digits, thousands in groups: `0.0123`, `4.56`, `78.9`, `1,234`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".into();
    }
    if size == 0.0 {
        return "0".into();
    }
    if size >= 100.0 {
        return grouped(value);
    }
    let digits = if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else if size >= 0.1 {
        3
    } else if size >= 0.001 {
        4
    } else {
        6
    };
    format!("{value:.digits$}")
}

/// The number, or a dash for one that was not measured.
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), number)
}

/// A whole number with commas between thousands.
pub fn grouped(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(plain.len() + plain.len() / 3 + 1);
    if value <= -0.5 {
        text.push('-');
    }
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12 ms`, `3.4 s`, `2:41 min`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        "-".into()
    } else if value < 0.0005 {
        format!("{:.0} µs", value * 1e6)
    } else if value < 1.0 {
        format!("{} ms", number(value * 1e3))
    } else if value < 120.0 {
        format!("{} s", number(value))
    } else {
        let whole = value.round();
        format!("{:.0}:{:02.0} min", (whole / 60.0).floor(), whole % 60.0)
    }
}

/// How the figures beside came about: `One run`, `Medians of 3 runs`.
pub fn medians(runs: usize) -> String {
    match runs {
        1 => "One run".into(),
        runs => format!("Medians of {runs} runs"),
    }
}

/// `1 row`, `1,000 rows`: a number with its noun.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count as f64))
}

/// `m:ss.ffff`, the form in which SQLQueryStress shows a run's length.
pub fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let fraction = duration.subsec_micros() / 100;
    format!("{}:{:02}.{fraction:04}", seconds / 60, seconds % 60)
}

/// `640 B`, `12.3 KiB`, `1.20 GiB`.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut at) = (value, 0);
    // From 1,000 on, so that figures beside each other have one unit: 0.980 MiB, not 1,004 KiB.
    while value.abs() >= 1000.0 && at + 1 < units.len() {
        value /= 1024.0;
        at += 1;
    }
    let unit = units.get(at).copied().unwrap_or_default();
    format!("{} {unit}", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 7.0]), Some(7.0));
        assert_eq!(range(&[2.0, 9.0, 4.0]), Some((2.0, 9.0)));
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), Some(99.0));
        assert_eq!(percentile(&[3.0, 1.0], 0.99), Some(3.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(ratio(Some(3.0), Some(2.0)), Some(1.5));
        assert_eq!(ratio(Some(3.0), Some(0.0)), None);
    }

    #[test]
    fn numbers_read_well() {
        let texts: Vec<String> = [0.0, 0.01234, 0.5, 4.567, 78.94, 1_234_567.0, -1234.0]
            .into_iter()
            .map(number)
            .collect();
        assert_eq!(
            texts,
            [
                "0",
                "0.0123",
                "0.500",
                "4.57",
                "78.9",
                "1,234,567",
                "-1,234"
            ]
        );
        assert_eq!(grouped(999.0), "999");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(161.33), "2:41 min");
        assert_eq!(clock(Duration::from_millis(161_334)), "2:41.3340");
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(bytes(1004.0 * 1024.0), "0.980 MiB");
    }

    #[test]
    fn one_is_not_several() {
        assert_eq!(counted(1, "session"), "1 session");
        assert_eq!(counted(1000, "row"), "1,000 rows");
        assert_eq!(medians(1), "One run");
    }
}
