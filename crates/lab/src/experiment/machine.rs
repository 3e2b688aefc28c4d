//! What a measurement was taken on.

use std::fs;

/// `AMD EPYC, 2 cores, 24 GiB memory, Linux 6.18`.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = field(&cpu, "model name").unwrap_or(std::env::consts::ARCH);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = field(&memory, "MemTotal").and_then(|t| t.split_whitespace().next()?.parse().ok());
    let gib = kib.map_or(0.0, |kib: f64| kib / f64::from(1 << 20));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{model}, {cores} cores, {gib:.0} GiB memory, Linux {}",
        release.trim()
    )
}

/// The first `name : value` line's value.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC\nmodel name\t: other\n";
        assert_eq!(field(text, "model name"), Some("AMD EPYC"));
        assert_eq!(field(text, "flags"), None);
    }
}
