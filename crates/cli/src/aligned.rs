//! Columns of text for people.

/// Prints lines of as many cells each in aligned columns, and an empty line.
pub fn print_aligned<L: AsRef<[String]>>(lines: &[L]) {
    let mut widths = Vec::new();
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
        println!("{}", cells.join("  ").trim_end());
    }
    println!();
}
