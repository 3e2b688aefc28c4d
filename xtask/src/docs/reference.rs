//! The reference, made from the code: commands and settings by `daruma manual --markdown`, the rest asked of a server that is started
//! in a scratch folder.

use super::told;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A page of the reference.
pub struct Page {
    pub file: &'static str,
    pub title: &'static str,
    made: Made,
}

enum Made {
    /// Written by the program.
    Itself,
    /// A query, and how its rows become a page below this sentence.
    Asked(&'static str, &'static str, fn(&[Value]) -> String),
}

const MESSAGES: &str = "SELECT message_id, severity, text FROM sys.messages WHERE language_id = 1033 ORDER BY message_id";
const OPTIONS: &str = "SELECT name, CAST(minimum AS bigint) AS minimum, CAST(maximum AS bigint) AS maximum, CAST(value AS bigint) AS value, is_dynamic, description FROM sys.configurations ORDER BY name";
const DYNAMIC: &str = "o.name LIKE 'dm[_]%'";
const STANDARD: &str = "s.name = 'INFORMATION_SCHEMA'";
const CATALOG: &str = "o.name NOT LIKE 'dm[_]%' AND s.name <> 'INFORMATION_SCHEMA'";
/// Its `{which}` is one of the conditions above.
const COLUMNS: &str = "SELECT s.name + '.' + o.name AS object, o.type AS kind, c.name AS name, TYPE_NAME(c.user_type_id) AS type, c.max_length AS bytes, c.is_nullable AS nullable FROM sys.system_objects o JOIN sys.schemas s ON s.schema_id = o.schema_id JOIN sys.system_columns c ON c.object_id = o.object_id WHERE o.type IN ('V', 'IF', 'TF') AND {which} ORDER BY 1, c.column_id";

/// All of them, in the order of the book.
pub const PAGES: &[Page] = &[
    Page {
        file: "commands.md",
        title: "Commands",
        made: Made::Itself,
    },
    Page {
        file: "settings.md",
        title: "Settings",
        made: Made::Itself,
    },
    Page {
        file: "options.md",
        title: "Server options",
        made: Made::Asked(
            "Options of `sp_configure`, as `sys.configurations` shows them.",
            OPTIONS,
            options,
        ),
    },
    Page {
        file: "dynamic-views.md",
        title: "Dynamic management views",
        made: Made::Asked(VIEWS, DYNAMIC, views),
    },
    Page {
        file: "catalog-views.md",
        title: "Catalog views",
        made: Made::Asked(VIEWS, CATALOG, views),
    },
    Page {
        file: "information-schema.md",
        title: "INFORMATION_SCHEMA",
        made: Made::Asked(VIEWS, STANDARD, views),
    },
    Page {
        file: "messages.md",
        title: "Messages",
        made: Made::Asked(
            "Numbers, severities and texts of `sys.messages`, which are SQL Server's. `%d`, `%.*ls` and the like stand for arguments.",
            MESSAGES,
            messages,
        ),
    },
];
const VIEWS: &str = "Columns with their types; `?` marks those that may be NULL. Views of features that are not here are empty ([compatibility](../COMPAT.md)).";
const PASSWORD: &str = "Asked-for-the-b00k";

/// Writes every page into `source/reference`; a page without content is an error. `scratch` is where the server may have its folder.
pub fn write(program: &Path, scratch: &Path, source: &Path) -> Result<(), String> {
    let folder = source.join("reference");
    let itself = Command::new(program)
        .args(["manual", "--markdown"])
        .arg(&folder)
        .status();
    if !itself.map_err(told(program))?.success() {
        return Err(format!("{} manual --markdown failed", program.display()));
    }
    let data = scratch.join("server");
    let server = Server::start(program, &data)?;
    for page in PAGES {
        let path = folder.join(page.file);
        match &page.made {
            Made::Itself if path.is_file() => {}
            Made::Itself => return Err(format!("reference/{} was not written", page.file)),
            Made::Asked(sentence, query, made) => {
                let rows = server.ask(program, &whole(query))?;
                if rows.is_empty() {
                    return Err(format!("reference/{}: the server gave no rows", page.file));
                }
                let text = format!("# {}\n\n{sentence}\n\n{}", page.title, made(&rows));
                super::write(&path, &text)?;
            }
        }
    }
    Ok(())
}

/// A condition becomes the query of columns.
fn whole(query: &str) -> String {
    match query.starts_with("SELECT") {
        true => query.to_string(),
        false => COLUMNS.replace("{which}", query),
    }
}

fn messages(rows: &[Value]) -> String {
    let mut page = String::from("| Number | Severity | Text |\n|---|---|---|\n");
    for row in rows {
        let text = escaped(&cell(row, "text"));
        let _ = writeln!(
            page,
            "| {} | {} | {text} |",
            cell(row, "message_id"),
            cell(row, "severity")
        );
    }
    page
}

fn options(rows: &[Value]) -> String {
    let mut page = String::from(
        "| Option | Least | Most | At first | Counts at once | Meaning |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let of = |name| escaped(&cell(row, name));
        let at_once = match cell(row, "is_dynamic").as_str() {
            "true" | "1" => "yes",
            _ => "no",
        };
        let (name, least, most) = (of("name"), of("minimum"), of("maximum"));
        let (first, about) = (of("value"), of("description"));
        let _ = writeln!(
            page,
            "| {name} | {least} | {most} | {first} | {at_once} | {about} |"
        );
    }
    page
}

fn views(rows: &[Value]) -> String {
    let mut page = String::new();
    let mut last = String::new();
    for row in rows {
        let object = cell(row, "object");
        if object != last {
            let kind = if cell(row, "kind").trim() == "V" {
                ""
            } else {
                " (function)"
            };
            let before = if last.is_empty() { "" } else { "\n\n" };
            let _ = write!(page, "{before}## {}{kind}\n\n", escaped(&object));
        } else {
            page.push_str(", ");
        }
        let _ = write!(page, "`{}` {}", cell(row, "name"), kind_of(row));
        last = object;
    }
    page.push('\n');
    page
}

/// The type of a column, with its length where it has one.
fn kind_of(row: &Value) -> String {
    let kind = cell(row, "type");
    let bytes = cell(row, "bytes").parse::<i64>().unwrap_or(0);
    let length = match kind.as_str() {
        "char" | "varchar" | "binary" | "varbinary" | "nchar" | "nvarchar" if bytes < 0 => {
            "(max)".to_string()
        }
        "char" | "varchar" | "binary" | "varbinary" => format!("({bytes})"),
        "nchar" | "nvarchar" => format!("({})", bytes / 2),
        _ => String::new(),
    };
    let may_be_null = matches!(cell(row, "nullable").as_str(), "true" | "1");
    format!("{kind}{length}{}", if may_be_null { "?" } else { "" })
}

fn cell(row: &Value, name: &str) -> String {
    match row.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Text that Markdown and HTML leave alone, in one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '{' | '}' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A server of our own, which ends with its value, and its folder with it.
struct Server<'s> {
    process: Child,
    address: String,
    folder: &'s Path,
}

impl Server<'_> {
    fn start<'s>(program: &Path, folder: &'s Path) -> Result<Server<'s>, String> {
        let mut process = Command::new(program)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--memory",
                "256M",
                "--data",
            ])
            .arg(folder)
            .env("MSSQL_SA_PASSWORD", PASSWORD)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(told(program))?;
        let said = process.stderr.take().map(BufReader::new);
        let lines = said
            .into_iter()
            .flat_map(|s| s.lines().map_while(Result::ok));
        let ready = lines.into_iter().find_map(|line| {
            let address = line.strip_prefix("ready ")?.split(' ').next()?;
            Some(address.replace(':', ","))
        });
        let mut server = Server {
            process,
            address: String::new(),
            folder,
        };
        server.address = ready.ok_or("the server did not start")?;
        Ok(server)
    }

    /// Rows of a query, each an object with the names of its columns.
    fn ask(&self, program: &Path, query: &str) -> Result<Vec<Value>, String> {
        let output = Command::new(program)
            .args(["sql", "-C", "-b", "-S", &self.address, "-U", "sa"])
            .args(["-d", "master", "--format", "json", "-y", "0", "-Q", query])
            .env("SQLCMDPASSWORD", PASSWORD)
            .output()
            .map_err(told(program))?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!(
                "{query}\n{said}{}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        serde_json::from_str(&said).map_err(|e| format!("{query}: {e}\n{said}"))
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_view_has_its_columns_with_their_types() {
        let column = |name: &str, kind: &str, bytes: i32, nullable: bool| json!({"object": "sys.a_b", "kind": "V ", "name": name, "type": kind, "bytes": bytes, "nullable": nullable});
        let rows = [
            column("id", "int", 4, false),
            column("text", "nvarchar", -1, true),
            column("name", "nvarchar", 256, false),
        ];
        assert_eq!(
            views(&rows),
            "## sys.a\\_b\n\n`id` int, `text` nvarchar(max)?, `name` nvarchar(128)\n"
        );
    }

    #[test]
    fn a_message_is_no_markup() {
        let row = json!({"message_id": 102, "severity": 15, "text": "near '%.*ls' <b> | a\nb"});
        assert!(messages(&[row]).ends_with("| 102 | 15 | near '%.\\*ls' &lt;b&gt; \\| a b |\n"));
    }
}
