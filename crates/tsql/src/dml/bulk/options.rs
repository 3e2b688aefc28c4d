//! Options of BULK INSERT.

use super::errors;
use super::fields::Layout;
use super::format::FormatField;
use crate::error::{Result, SqlError};
use daruma_syntax::ast::{Expr, Literal, OptionItem, OptionValue};

/// As given, with the product's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkOptions {
    pub field_terminator: Option<String>,
    pub row_terminator: Option<String>,
    pub first_row: u64,
    pub last_row: u64,
    /// Rows of a batch; 0 for all.
    pub batch_size: u64,
    pub csv: bool,
    pub quote: char,
    /// Windows code page of the file.
    pub code_page: u16,
    pub wide: bool,
    pub keep_identity: bool,
    pub keep_nulls: bool,
    pub max_errors: u64,
    pub check_constraints: bool,
    pub fire_triggers: bool,
    /// Where refused rows go.
    pub error_file: Option<String>,
    pub format_file: Option<String>,
}

const CODE_PAGE_ANSI: u16 = 1252;
const CODE_PAGE_OEM: u16 = 437;

impl Default for BulkOptions {
    fn default() -> BulkOptions {
        BulkOptions {
            field_terminator: None,
            row_terminator: None,
            first_row: 1,
            last_row: 0,
            batch_size: 0,
            csv: false,
            quote: '"',
            code_page: CODE_PAGE_ANSI,
            wide: false,
            keep_identity: false,
            keep_nulls: false,
            max_errors: 10,
            check_constraints: false,
            fire_triggers: false,
            error_file: None,
            format_file: None,
        }
    }
}

impl BulkOptions {
    /// Reads WITH; an option that is not known is error 155.
    pub fn parse(items: &[OptionItem]) -> Result<BulkOptions> {
        let mut options = BulkOptions::default();
        items.iter().try_for_each(|item| options.take(item))?;
        Ok(options)
    }

    fn take(&mut self, item: &OptionItem) -> Result<()> {
        match item.name.to_ascii_uppercase().as_str() {
            "FIELDTERMINATOR" => self.field_terminator = Some(text(item)?),
            "ROWTERMINATOR" => self.row_terminator = Some(text(item)?),
            "FIRSTROW" => self.first_row = number(item)?.max(1),
            "LASTROW" => self.last_row = number(item)?,
            "BATCHSIZE" => self.batch_size = number(item)?,
            "MAXERRORS" => self.max_errors = number(item)?,
            "FORMAT" => match text(item)?.to_ascii_uppercase().as_str() {
                "CSV" => self.csv = true,
                _ => return Err(errors::bad_value("FORMAT")),
            },
            "FIELDQUOTE" => {
                self.quote = ascii(&text(item)?).ok_or_else(|| errors::bad_value("FIELDQUOTE"))?
            }
            "CODEPAGE" => self.code_page = code_page(&text(item)?)?,
            "DATAFILETYPE" => match text(item)?.to_ascii_lowercase().as_str() {
                "char" => self.wide = false,
                "widechar" => self.wide = true,
                _ => return Err(errors::bad_value("DATAFILETYPE")),
            },
            "ERRORFILE" => self.error_file = Some(text(item)?),
            "FORMATFILE" => self.format_file = Some(text(item)?),
            "KEEPIDENTITY" => self.keep_identity = item.is_on(),
            "KEEPNULLS" => self.keep_nulls = item.is_on(),
            "CHECK_CONSTRAINTS" => self.check_constraints = item.is_on(),
            "FIRE_TRIGGERS" => self.fire_triggers = item.is_on(),
            // Hints about locking, sizes and order: keys are sorted anyway.
            "TABLOCK" | "ROWS_PER_BATCH" | "KILOBYTES_PER_BATCH" | "ORDER" => {}
            other => return Err(errors::bad_option(other)),
        }
        Ok(())
    }

    /// How a file with this many columns is cut, unless a format file says it for each.
    pub fn layout(&self, columns: usize, fields: Vec<FormatField>) -> Layout {
        let default_field = if self.csv { "," } else { "\\t" };
        let field = unescape(self.field_terminator.as_deref().unwrap_or(default_field));
        let row = unescape(self.row_terminator.as_deref().unwrap_or("\\n"));
        Layout {
            columns,
            trim_cr: row == "\n",
            field_end: self.encode(&field),
            row_end: self.encode(&row),
            quote: self.csv.then_some(self.quote as u8),
            wide: self.wide,
            fields,
        }
    }

    fn encode(&self, terminator: &str) -> Vec<u8> {
        match self.wide {
            true => encode_wide(terminator),
            false => daruma_value::convert::encode_code_page(terminator, self.code_page),
        }
    }

    /// A field's bytes as text.
    pub fn decode(&self, bytes: &[u8], wide: bool) -> Option<String> {
        if wide {
            let units = bytes.chunks(2).map(|pair| {
                u16::from_le_bytes([
                    pair.first().copied().unwrap_or(0),
                    pair.get(1).copied().unwrap_or(0),
                ])
            });
            return char::decode_utf16(units)
                .collect::<std::result::Result<String, _>>()
                .ok();
        }
        match self.code_page {
            65001 => std::str::from_utf8(bytes).ok().map(str::to_string),
            page => Some(daruma_value::convert::decode_code_page(bytes, page)),
        }
    }
}

fn encode_wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A terminator as a format file writes it.
pub fn terminator(text: &str, wide: bool) -> Vec<u8> {
    let text = unescape(text);
    match wide {
        true => encode_wide(&text),
        false => daruma_value::convert::encode_code_page(&text, CODE_PAGE_ANSI),
    }
}

/// Escapes of terminators: `\t`, `\n`, `\r`, `\0`, `\\`, and bytes as `0x0a`.
fn unescape(text: &str) -> String {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
        && !hex.is_empty()
        && let Some(bytes) = super::hex_bytes(hex)
    {
        return bytes.into_iter().map(char::from).collect();
    }
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
    out
}

fn ascii(text: &str) -> Option<char> {
    let mut chars = text.chars();
    let first = chars.next().filter(char::is_ascii)?;
    chars.next().is_none().then_some(first)
}

fn code_page(name: &str) -> Result<u16> {
    match name.to_ascii_uppercase().as_str() {
        "ACP" | "RAW" => Ok(CODE_PAGE_ANSI),
        "OEM" => Ok(CODE_PAGE_OEM),
        digits => digits.parse().map_err(|_| errors::bad_value("CODEPAGE")),
    }
}

fn text(item: &OptionItem) -> Result<String> {
    match &item.value {
        OptionValue::Expr(Expr::Literal(Literal::String { text, .. })) => Ok(text.clone()),
        OptionValue::Expr(Expr::Literal(Literal::Integer(digits))) => Ok(digits.clone()),
        OptionValue::Word(word) => Ok(word.clone()),
        _ => Err(bad(item)),
    }
}

fn number(item: &OptionItem) -> Result<u64> {
    text(item)?.parse().map_err(|_| bad(item))
}

fn bad(item: &OptionItem) -> SqlError {
    errors::bad_value(&item.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: &str) -> OptionItem {
        let text = value.to_string();
        let value = OptionValue::Expr(Expr::Literal(Literal::String {
            text,
            national: false,
        }));
        OptionItem {
            name: name.to_string(),
            value,
        }
    }

    #[test]
    fn terminators_are_unescaped() {
        let options = BulkOptions::parse(&[
            option("FIELDTERMINATOR", "+|"),
            option("ROWTERMINATOR", "&|\\n"),
        ])
        .unwrap();
        let layout = options.layout(3, Vec::new());
        assert_eq!(
            (layout.field_end.as_slice(), layout.row_end.as_slice()),
            (&b"+|"[..], &b"&|\n"[..])
        );
        assert!(!layout.trim_cr);
        let options = BulkOptions::parse(&[option("ROWTERMINATOR", "0x0a")]).unwrap();
        assert_eq!(options.layout(1, Vec::new()).row_end, b"\n");
        assert_eq!(options.layout(1, Vec::new()).field_end, b"\t");
    }

    #[test]
    fn csv_has_its_own_defaults() {
        let options =
            BulkOptions::parse(&[option("FORMAT", "CSV"), option("CODEPAGE", "65001")]).unwrap();
        let layout = options.layout(2, Vec::new());
        assert_eq!(
            (layout.field_end.as_slice(), layout.quote),
            (&b","[..], Some(b'"'))
        );
        assert!(layout.trim_cr);
        assert_eq!(options.decode("ä".as_bytes(), false).as_deref(), Some("ä"));
        assert_eq!(options.decode(&[0xFF], false), None);
    }

    #[test]
    fn unknown_options_are_refused() {
        assert_eq!(
            BulkOptions::parse(&[option("NOSUCH", "1")])
                .unwrap_err()
                .number,
            155
        );
    }
}
