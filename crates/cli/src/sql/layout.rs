//! Results as text: aligned table, CSV, JSON, one value on a line.
//!
//! A table's widths come from its first rows, which are held back until enough have come or the result ends; later
//! rows that are wider push their line out of the columns rather than lose anything.

use clap::ValueEnum;
use daruma_client::value::{self, NULL};
use daruma_tds::token::Column;
use daruma_value::Value;
use std::io::{self, Write};
use std::sync::Arc;
use unicode_width::UnicodeWidthStr;

const SAMPLE_ROWS_MAX: usize = 1000;
const SAMPLE_BYTES_MAX: usize = 1 << 20;
/// Values of `max` types are cut here in tables, unless `-y` says otherwise.
const LARGE_WIDTH_DEFAULT: usize = 256;

/// How result sets are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Aligned columns, as sqlcmd shows them but as wide as needed
    #[default]
    Table,
    /// Comma separated, quoted by RFC 4180; NULL is an empty field, empty text is ""
    Csv,
    /// An array of objects for each result
    Json,
    /// Every value on its own line, for wide rows
    List,
}

/// How results are laid out.
#[derive(Clone, Debug)]
pub struct Layout {
    pub format: Format,
    /// Between columns; by format if not given.
    pub separator: Option<String>,
    /// `-h`: rows between repeated headers; 0 for one header, below 0 for none.
    pub header_rows: i64,
    /// `-W`: no padding.
    pub trim: bool,
    /// `-w`: lines are folded at this many characters.
    pub fold_width: Option<usize>,
    /// `-y`: cut of `max` types; 0 for none.
    pub large_width: Option<usize>,
    /// `-Y`: cut of other character types; 0 for none.
    pub text_width: Option<usize>,
    /// `-k`: control characters become blanks.
    pub no_control: bool,
    /// Dim NULLs and rules.
    pub colour: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            format: Format::Table,
            separator: None,
            header_rows: 0,
            trim: false,
            fold_width: None,
            large_width: None,
            text_width: None,
            no_control: false,
            colour: false,
        }
    }
}

impl Layout {
    /// Are row counts and messages part of the output, or would they spoil it?
    pub const fn is_for_people(&self) -> bool {
        matches!(self.format, Format::Table | Format::List)
    }
}

/// Writes one result.
pub struct ResultWriter<'a> {
    layout: &'a Layout,
    columns: Arc<[Column]>,
    names: Vec<String>,
    rows: u64,
    table: Table,
}

#[derive(Default)]
struct Table {
    widths: Vec<usize>,
    held: Vec<Vec<Cell>>,
    held_bytes: usize,
    begun: bool,
}

struct Cell {
    text: String,
    null: bool,
}

impl<'a> ResultWriter<'a> {
    /// `index`: how many results came before.
    pub fn begin(
        layout: &'a Layout,
        columns: Arc<[Column]>,
        index: u64,
        out: &mut dyn Write,
    ) -> io::Result<ResultWriter<'a>> {
        let names = column_names(&columns, layout.format);
        let widths = names.iter().map(|name| name.width().max(1)).collect();
        let writer = ResultWriter {
            layout,
            columns,
            names,
            rows: 0,
            table: Table {
                widths,
                ..Table::default()
            },
        };
        match layout.format {
            Format::Csv => {
                if index > 0 {
                    writeln!(out)?;
                }
                if layout.header_rows >= 0 {
                    let fields: Vec<String> = writer
                        .names
                        .iter()
                        .map(|name| writer.csv_field(name))
                        .collect();
                    writeln!(out, "{}", fields.join(writer.separator()))?;
                }
            }
            Format::Json => write!(out, "[")?,
            Format::Table | Format::List => {}
        }
        Ok(writer)
    }

    /// Adds a row; a table keeps some rows back to find out how wide they are.
    pub fn row(&mut self, row: &[Value], out: &mut dyn Write) -> io::Result<()> {
        match self.layout.format {
            Format::Csv => self.csv_row(row, out)?,
            Format::Json => self.json_row(row, out)?,
            Format::List => self.list_row(row, out)?,
            Format::Table => return self.table_row(row, out),
        }
        self.rows += 1;
        Ok(())
    }

    /// Lets out the rows held back, since something else has to be said in between.
    pub fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.layout.format {
            Format::Table if !self.table.held.is_empty() => self.release(out),
            _ => Ok(()),
        }
    }

    /// Writes what is still held back.
    pub fn end(mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.layout.format {
            Format::Table => self.release(out),
            Format::Json if self.rows > 0 => writeln!(out, "\n]"),
            Format::Json => writeln!(out, "]"),
            Format::Csv | Format::List => Ok(()),
        }
    }

    fn separator(&self) -> &str {
        let default = if self.layout.format == Format::Csv {
            ","
        } else {
            " "
        };
        self.layout.separator.as_deref().unwrap_or(default)
    }

    fn csv_row(&self, row: &[Value], out: &mut dyn Write) -> io::Result<()> {
        for (at, value) in row.iter().enumerate() {
            if at > 0 {
                out.write_all(self.separator().as_bytes())?;
            }
            if !value.is_null() {
                out.write_all(self.csv_field(&value::text(value)).as_bytes())?;
            }
        }
        writeln!(out)
    }

    /// Empty text is quoted, so that it is not taken for NULL.
    fn csv_field(&self, text: &str) -> String {
        if text.is_empty() || text.contains(['"', '\n', '\r']) || text.contains(self.separator()) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.into()
        }
    }

    fn json_row(&self, row: &[Value], out: &mut dyn Write) -> io::Result<()> {
        out.write_all(if self.rows > 0 { b",\n  {" } else { b"\n  {" })?;
        for (at, (name, value)) in self.names.iter().zip(row).enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(
                out,
                "{comma}{}: {}",
                value::quoted(name),
                value::json(value)
            )?;
        }
        out.write_all(b"}")
    }

    fn list_row(&self, row: &[Value], out: &mut dyn Write) -> io::Result<()> {
        let width = self.table.widths.iter().copied().max().unwrap_or(0);
        writeln!(
            out,
            "{}",
            self.dim(&format!(
                "-- row {} {}",
                self.rows + 1,
                "-".repeat(width.max(20))
            ))
        )?;
        for (name, value) in self.names.iter().zip(row) {
            let shown = if value.is_null() {
                self.dim(NULL)
            } else {
                value::text(value)
            };
            writeln!(out, "{}{} {shown}", name, " ".repeat(width - name.width()))?;
        }
        Ok(())
    }

    fn table_row(&mut self, row: &[Value], out: &mut dyn Write) -> io::Result<()> {
        let cells: Vec<Cell> = row
            .iter()
            .zip(self.columns.iter())
            .map(|(value, column)| self.cell(value, column))
            .collect();
        if self.table.begun {
            return self.write_row(&cells, out);
        }
        for (width, cell) in self.table.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.text.width());
        }
        self.table.held_bytes += cells.iter().map(|cell| cell.text.len()).sum::<usize>();
        self.table.held.push(cells);
        if self.table.held.len() >= SAMPLE_ROWS_MAX || self.table.held_bytes >= SAMPLE_BYTES_MAX {
            self.release(out)?;
        }
        Ok(())
    }

    /// Header and held rows; from now on rows go straight out.
    fn release(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.table.begun {
            self.table.begun = true;
            if self.layout.header_rows >= 0 {
                self.write_header(out)?;
            }
        }
        for cells in std::mem::take(&mut self.table.held) {
            self.write_row(&cells, out)?;
        }
        Ok(())
    }

    fn write_header(&self, out: &mut dyn Write) -> io::Result<()> {
        let names: Vec<String> = self
            .names
            .iter()
            .zip(&self.table.widths)
            .map(|(name, width)| self.padded(name, *width))
            .collect();
        let rules: Vec<String> = self
            .names
            .iter()
            .zip(&self.table.widths)
            .map(|(name, width)| {
                "-".repeat(if self.layout.trim {
                    name.width().max(1)
                } else {
                    *width
                })
            })
            .collect();
        self.write_line(
            names.join(self.separator()).trim_end_matches(' ').into(),
            out,
        )?;
        let rules = rules.join(self.separator());
        self.write_line(self.dim(&rules), out)
    }

    fn write_row(&mut self, cells: &[Cell], out: &mut dyn Write) -> io::Result<()> {
        let every = u64::try_from(self.layout.header_rows).unwrap_or(0);
        if every > 0 && self.rows > 0 && self.rows.is_multiple_of(every) {
            writeln!(out)?;
            self.write_header(out)?;
        }
        self.rows += 1;
        let mut line = String::new();
        for (at, ((cell, width), column)) in cells
            .iter()
            .zip(&self.table.widths)
            .zip(self.columns.iter())
            .enumerate()
        {
            if at > 0 {
                line.push_str(self.separator());
            }
            let shown = if cell.null {
                self.dim(&cell.text)
            } else {
                cell.text.clone()
            };
            let gap = if self.layout.trim {
                0
            } else {
                width.saturating_sub(cell.text.width())
            };
            let last = at + 1 == cells.len();
            match value::is_numeric(column) {
                true => line.extend([" ".repeat(gap), shown]),
                // Blanks at the end of a line help nobody.
                false if last => line.push_str(&shown),
                false => line.extend([shown, " ".repeat(gap)]),
            }
        }
        self.write_line(line, out)
    }

    fn write_line(&self, line: String, out: &mut dyn Write) -> io::Result<()> {
        let Some(width) = self.layout.fold_width.filter(|width| *width > 0) else {
            return writeln!(out, "{line}");
        };
        let chars: Vec<char> = line.chars().collect();
        if chars.is_empty() {
            return writeln!(out);
        }
        for chunk in chars.chunks(width) {
            writeln!(out, "{}", chunk.iter().collect::<String>())?;
        }
        Ok(())
    }

    fn cell(&self, value: &Value, column: &Column) -> Cell {
        if value.is_null() {
            return Cell {
                text: NULL.into(),
                null: true,
            };
        }
        let mut text = value::text(value);
        let limit = match (value::is_large(column), value::has_length(column)) {
            (true, _) => self.layout.large_width.unwrap_or(LARGE_WIDTH_DEFAULT),
            (false, true) => self.layout.text_width.unwrap_or(0),
            (false, false) => 0,
        };
        if limit > 0
            && let Some((at, _)) = text.char_indices().nth(limit)
        {
            text.truncate(at);
        }
        if self.layout.trim {
            text.truncate(text.trim_end_matches(' ').len());
        }
        // A line break would tear the columns apart; alone on its line a value may keep it.
        let tears = self.columns.len() > 1 && !self.layout.trim;
        if (self.layout.no_control || tears) && text.contains(char::is_control) {
            text = text.replace("\r\n", " ").replace(char::is_control, " ");
        }
        Cell { text, null: false }
    }

    fn padded(&self, text: &str, width: usize) -> String {
        let gap = if self.layout.trim {
            0
        } else {
            width.saturating_sub(text.width())
        };
        format!("{text}{}", " ".repeat(gap))
    }

    fn dim(&self, text: &str) -> String {
        if self.layout.colour {
            format!("\x1b[2m{text}\x1b[0m")
        } else {
            text.into()
        }
    }
}

/// JSON needs a name for every member, and each its own.
fn column_names(columns: &[Column], format: Format) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        let mut name = column.name.clone();
        if format == Format::Json {
            if name.is_empty() {
                name = format!("column{}", at + 1);
            }
            while names.contains(&name) {
                name = format!("{name}_{}", at + 1);
            }
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_tds::{TdsVersion, WireCollation};
    use daruma_value::{DataType, Len};

    fn column(name: &str, data_type: DataType) -> Column {
        Column::new(
            name,
            data_type,
            true,
            WireCollation::DEFAULT,
            TdsVersion::V7_4,
        )
    }

    fn write(layout: &Layout, columns: &[Column], rows: &[Vec<Value>]) -> String {
        let mut out = Vec::new();
        let mut writer = ResultWriter::begin(layout, columns.into(), 0, &mut out).expect("begins");
        for row in rows {
            writer.row(row, &mut out).expect("writes");
        }
        writer.end(&mut out).expect("ends");
        String::from_utf8(out).expect("text")
    }

    fn sample() -> (Vec<Column>, Vec<Vec<Value>>) {
        let columns = vec![
            column("id", DataType::Int),
            column("name", DataType::NVarChar(Len(50))),
        ];
        let rows = vec![
            vec![Value::Int(1), Value::str("plain")],
            vec![Value::Int(200), Value::Null],
            vec![Value::Int(-3), Value::str("a,\"b\"\nc")],
            vec![Value::Int(4), Value::str("")],
        ];
        (columns, rows)
    }

    #[test]
    fn tables_are_as_wide_as_their_content() {
        let (columns, rows) = sample();
        let text = write(&Layout::default(), &columns, &rows);
        assert_eq!(
            text,
            "id  name\n--- -------\n  1 plain\n200 NULL\n -3 a,\"b\" c\n  4 \n"
        );
    }

    #[test]
    fn trimmed_tables_have_no_padding() {
        let (columns, rows) = sample();
        let layout = Layout {
            trim: true,
            separator: Some("|".into()),
            ..Layout::default()
        };
        assert_eq!(
            write(&layout, &columns, &rows[..2]),
            "id|name\n--|----\n1|plain\n200|NULL\n"
        );
    }

    #[test]
    fn headers_repeat_or_stay_away() {
        let (columns, rows) = sample();
        let layout = Layout {
            header_rows: 1,
            trim: true,
            ..Layout::default()
        };
        assert_eq!(
            write(&layout, &columns, &rows[..2]),
            "id name\n-- ----\n1 plain\n\nid name\n-- ----\n200 NULL\n"
        );
        let layout = Layout {
            header_rows: -1,
            ..layout
        };
        assert_eq!(write(&layout, &columns, &rows[..2]), "1 plain\n200 NULL\n");
    }

    #[test]
    fn rows_after_the_sample_keep_their_content() {
        let columns = [column("n", DataType::Int)];
        let mut rows = vec![vec![Value::Int(1)]; SAMPLE_ROWS_MAX + 1];
        rows.push(vec![Value::Int(123_456)]);
        let text = write(&Layout::default(), &columns, &rows);
        assert_eq!(text.lines().count(), 2 + SAMPLE_ROWS_MAX + 2);
        assert_eq!(text.lines().last(), Some("123456"));
    }

    #[test]
    fn large_values_are_cut_in_tables() {
        let columns = [column("t", DataType::NVARCHAR_MAX)];
        let rows = [vec![Value::str("x".repeat(300))]];
        let length = |layout: &Layout| write(layout, &columns, &rows).lines().last().map(str::len);
        assert_eq!(length(&Layout::default()), Some(256));
        assert_eq!(
            length(&Layout {
                large_width: Some(0),
                ..Layout::default()
            }),
            Some(300)
        );
        assert_eq!(
            length(&Layout {
                fold_width: Some(100),
                ..Layout::default()
            }),
            Some(56)
        );
        assert_eq!(
            length(&Layout {
                format: Format::Csv,
                ..Layout::default()
            }),
            Some(300)
        );
    }

    #[test]
    fn csv_tells_null_from_empty() {
        let (columns, rows) = sample();
        let layout = Layout {
            format: Format::Csv,
            ..Layout::default()
        };
        assert_eq!(
            write(&layout, &columns, &rows),
            "id,name\n1,plain\n200,\n-3,\"a,\"\"b\"\"\nc\"\n4,\"\"\n"
        );
    }

    #[test]
    fn json_is_read_back() {
        let columns = [
            column("", DataType::Int),
            column("a", DataType::Money),
            column("a", DataType::VarChar(Len(9))),
        ];
        let rows = [
            vec![Value::Int(1), Value::Money(25_000), Value::str("x\t")],
            vec![Value::Null, Value::Null, Value::Null],
        ];
        let layout = Layout {
            format: Format::Json,
            ..Layout::default()
        };
        let read: serde_json::Value =
            serde_json::from_str(&write(&layout, &columns, &rows)).expect("JSON");
        let expected = serde_json::json!([{"column1": 1, "a": 2.5, "a_3": "x\t"}, {"column1": null, "a": null, "a_3": null}]);
        assert_eq!(read, expected);
        let none: serde_json::Value =
            serde_json::from_str(&write(&layout, &columns, &[])).expect("JSON");
        assert_eq!(none, serde_json::json!([]));
    }

    #[test]
    fn lists_have_a_line_for_each_value() {
        let (columns, rows) = sample();
        let layout = Layout {
            format: Format::List,
            ..Layout::default()
        };
        let text = write(&layout, &columns, &rows[..1]);
        assert_eq!(text, "-- row 1 --------------------\nid   1\nname plain\n");
    }
}
