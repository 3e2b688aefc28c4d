//! Columns of text for people.

use std::io::Write;

/// Prints lines of as many cells each in aligned columns, and an empty line.
pub fn print_aligned<L: AsRef<[String]>>(lines: &[L]) {
    let mut widths = Vec::new();
    let mut text = String::new();
    for line in lines {
        for (at, cell) in line.as_ref().iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(at) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    for line in lines {
        let cells = line.as_ref().iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text.push('\n');
    // A reader that has seen enough is none of our business.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
