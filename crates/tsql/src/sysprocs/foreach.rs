//! sp_MSforeachdb and sp_MSforeachtable: commands with a placeholder, run once for each name that the session may know of.
//!
//! Theory: who calls these is often an administrator, and who gave a name is not. So a name is put into a command as what the
//! place wants (an identifier in brackets, a literal, a comment), with every character that would end it doubled, also in
//! commands that are texts within the command.

use super::define::{Procedure, quoted};
use crate::error::Result;
use crate::messages;
use crate::session::{SystemCall, comment_len, quoted_len};
use daruma_catalog::ObjectKind;

const PARAMETERS: &str = "
    @command1 nvarchar(2000); @replacechar nchar(1) = ?; @command2 nvarchar(2000) = NULL; @command3 nvarchar(2000) = NULL;
    @precommand nvarchar(2000) = NULL; @postcommand nvarchar(2000) = NULL";
const TABLE_PARAMETERS: &str = "
    @command1 nvarchar(2000); @replacechar nchar(1) = ?; @command2 nvarchar(2000) = NULL; @command3 nvarchar(2000) = NULL;
    @whereand nvarchar(2000) = NULL; @precommand nvarchar(2000) = NULL; @postcommand nvarchar(2000) = NULL";

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native("sp_MSforeachdb", PARAMETERS, databases),
    Procedure::native("sp_MSforeachtable", TABLE_PARAMETERS, tables),
];

fn databases(call: &SystemCall<'_, '_>) -> Result<i32> {
    let online = call
        .execution
        .instance()
        .databases()
        .into_iter()
        .filter(|d| d.open().is_ok() && call.execution.state.rights(d.id()).is_ok());
    let names: Vec<Name> = online.map(|d| Name::of_database(&d.name())).collect();
    run_each(call, &names, 4, 5)
}

fn tables(call: &SystemCall<'_, '_>) -> Result<i32> {
    if call.text(4).is_some() {
        return Err(messages::not_supported("@whereand"));
    }
    let catalog = call.host().visible_catalog(call.database)?;
    let mut objects: Vec<_> = catalog
        .objects()
        .filter(|o| matches!(o.kind, ObjectKind::Table(_)))
        .collect();
    objects.sort_by_key(|o| o.id);
    let name = |o: &std::sync::Arc<daruma_catalog::Object>| {
        let schema = catalog
            .schema(o.schema_id)
            .map_or("dbo", |s| s.name.as_str());
        Name::of_table(schema, &o.name)
    };
    let names: Vec<Name> = objects.into_iter().map(name).collect();
    run_each(call, &names, 5, 6)
}

fn run_each(call: &SystemCall<'_, '_>, names: &[Name], before: usize, after: usize) -> Result<i32> {
    let placeholder = call.text(1).and_then(|text| text.chars().next());
    let placeholder = placeholder.unwrap_or('?');
    if SYNTAX.contains(placeholder) {
        return Err(messages::error(
            15600,
            &[&"sp_MSforeachdb or sp_MSforeachtable"],
        ));
    }
    let run = |command: Option<String>| command.map_or(Ok(()), |text| call.run(&text, &[]));
    run(call.text(before))?;
    for name in names {
        for command in [call.text(0), call.text(2), call.text(3)] {
            call.execution.check_cancel()?;
            run(command.map(|text| name.put(&text, placeholder)))?;
        }
    }
    run(call.text(after))?;
    Ok(0)
}

/// Characters that say what others mean, so that no name can be put in their place.
const SYNTAX: &str = "'\"[]-/*\n";

/// Texts in texts that are looked into.
const DEPTH_MAX: usize = 8;

/// A name as commands are given it.
struct Name {
    /// Where it stands alone in quotes or brackets.
    plain: String,
    /// Where it stands in code.
    code: String,
}

/// Kind of a part of a command.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    /// In single or double quotes or in brackets, by the character that ends it.
    Quoted(char),
    LineComment,
    BlockComment,
}

impl Name {
    fn of_database(name: &str) -> Name {
        Name {
            plain: name.to_string(),
            code: quoted(name),
        }
    }

    fn of_table(schema: &str, name: &str) -> Name {
        let both = format!("{}.{}", quoted(schema), quoted(name));
        Name {
            plain: both.clone(),
            code: both,
        }
    }

    /// The command about this name, which stays a name whatever is in it: who gave it does not write commands.
    fn put(&self, command: &str, placeholder: char) -> String {
        self.put_at(command, placeholder, 0)
    }

    fn put_at(&self, command: &str, placeholder: char, depth: usize) -> String {
        let mut out = String::new();
        // A text within a command may be a message, where a word is shown as it is; or a path, where any name is.
        let is_plain = depth > 0 && (is_word(&self.plain) || is_path(command));
        let in_code = if is_plain { &self.plain } else { &self.code };
        for (part, text) in parts(command) {
            match part {
                _ if !text.contains(placeholder) => out.push_str(text),
                Part::Code => out.push_str(&text.replace(placeholder, in_code)),
                Part::Quoted(end) => {
                    out.push_str(&self.put_in_quotes(text, end, placeholder, depth));
                }
                Part::LineComment | Part::BlockComment => {
                    let mild = self.plain.replace(['\n', '\r', '*', '/'], " ");
                    out.push_str(&text.replace(placeholder, &mild));
                }
            }
        }
        out
    }

    fn put_in_quotes(&self, text: &str, end: char, placeholder: char, depth: usize) -> String {
        let (open, inside, close) = inside(text, end);
        let twice = format!("{end}{end}");
        let inside = inside.replace(&twice, &end.to_string());
        let is_alone = inside.chars().eq([placeholder]);
        let put = match end {
            // A text may be run as a command, too.
            '\'' | '"' if depth < DEPTH_MAX && !is_alone => {
                self.put_at(&inside, placeholder, depth + 1)
            }
            _ => inside.replace(placeholder, &self.plain),
        };
        format!("{open}{}{close}", put.replace(end, &twice))
    }
}

/// No command begins like this, though parts of one may.
fn is_path(text: &str) -> bool {
    let begins = text.starts_with('/') || text.starts_with('\\') || text.get(1..3) == Some(":\\");
    begins && !text.starts_with("/*")
}

fn is_word(name: &str) -> bool {
    let is_letter = |c: char| c.is_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Opening character, content and closing character of a quoted part, which may lack its end.
fn inside(text: &str, end: char) -> (&str, &str, &str) {
    let (open, rest) = text.split_at_checked(1).unwrap_or((text, ""));
    match rest.strip_suffix(end) {
        Some(content) => (
            open,
            content,
            rest.strip_prefix(content).unwrap_or_default(),
        ),
        None => (open, rest, ""),
    }
}

/// A command cut into code, quoted parts with their quotes, and comments.
fn parts(command: &str) -> Vec<(Part, &str)> {
    let mut list = Vec::new();
    let mut rest = command;
    while !rest.is_empty() {
        let (part, len) = first_part(rest);
        let (text, behind) = rest.split_at_checked(len).unwrap_or((rest, ""));
        list.push((part, text));
        rest = behind;
    }
    list
}

/// Comment or literal that begins here, unless it is code.
fn beginning(text: &str) -> Option<Part> {
    match text.chars().next()? {
        '[' => Some(Part::Quoted(']')),
        quote @ ('\'' | '"') => Some(Part::Quoted(quote)),
        '-' if text.starts_with("--") => Some(Part::LineComment),
        '/' if text.starts_with("/*") => Some(Part::BlockComment),
        _ => None,
    }
}

fn first_part(text: &str) -> (Part, usize) {
    match beginning(text) {
        Some(part @ Part::Quoted(end)) => (part, quoted_len(text, end)),
        Some(Part::LineComment) => {
            let end = text.find('\n').map_or(text.len(), |at| at + 1);
            (Part::LineComment, end)
        }
        Some(Part::BlockComment) => (Part::BlockComment, comment_len(text)),
        Some(Part::Code) | None => {
            let begins = |at: &usize| text.get(*at..).is_some_and(|t| beginning(t).is_some());
            let end = text.char_indices().map(|(at, _)| at).find(begins);
            (Part::Code, end.unwrap_or(text.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn a_name_stays_a_name_wherever_it_is_put() {
        let evil = "z] ; drop login a;--'\"\n*/x";
        for (command, expected) in [
            ("use [?]; x", "use [z]] ; drop login a;--'\"\n*/x]; x"),
            ("use ?; x", "use [z]] ; drop login a;--'\"\n*/x]; x"),
            ("print '?' x", "print 'z] ; drop login a;--''\"\n*/x' x"),
            (
                "print \"?\" x",
                "print \"z] ; drop login a;--'\"\"\n*/x\" x",
            ),
            ("-- ?\nx", "-- z] ; drop login a;--'\"   x\nx"),
            ("/* ? */ x", "/* z] ; drop login a;--'\"   x */ x"),
            (
                "exec ('use [?]; x')",
                "exec ('use [z]] ; drop login a;--''\"\n*/x]; x')",
            ),
            (
                "exec ('use ?; x')",
                "exec ('use [z]] ; drop login a;--''\"\n*/x]; x')",
            ),
            (
                "exec ('select [a]/8 from ?.sys.x')",
                "exec ('select [a]/8 from [z]] ; drop login a;--''\"\n*/x].sys.x')",
            ),
            (
                "exec ('/**// ?')",
                "exec ('/**// [z]] ; drop login a;--''\"\n*/x]')",
            ),
            (
                "exec ('print ''?''')",
                "exec ('print ''z] ; drop login a;--''''\"\n*/x''')",
            ),
        ] {
            let put = Name::of_database(evil).put(command, '?');
            assert_eq!(put, expected, "{command}");
        }
    }

    #[test]
    fn plain_names_are_put_as_they_are() {
        let put = |name: &str, command: &str| Name::of_database(name).put(command, '?');
        assert_eq!(put("d", "print 'in ? now'"), "print 'in d now'");
        assert_eq!(
            put("my-db", "backup database [?] to disk = 'c:\\b\\?.bak'"),
            "backup database [my-db] to disk = 'c:\\b\\my-db.bak'"
        );
        assert_eq!(put("my-db", "exec ('use x?')"), "exec ('use x[my-db]')");
        assert_eq!(put("d", "select ?.dbo.t"), "select [d].dbo.t");
        let table = Name::of_table("s", "a'b");
        assert_eq!(
            table.put("select count(*) from ?; print '?'", '?'),
            "select count(*) from [s].[a'b]; print '[s].[a''b]'"
        );
        assert_eq!(
            table.put("exec sp_help '?", '?'),
            "exec sp_help '[s].[a''b]"
        );
    }
}
