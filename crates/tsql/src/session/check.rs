//! Faults of a batch that are found before it runs: variables that nobody declared, or that were declared twice, labels, and GOTO
//! to none.
//!
//! The product compiles a whole batch before its first statement runs, so these errors must come before any effect.
//! References are found in the text (outside of strings, comments and quoted names); declarations and the names of
//! EXEC arguments, which look like variables, in the tree. Parameters are known only when the batch runs.

use crate::error::SqlError;
use crate::messages;
use daruma_catalog::name_key;
use daruma_syntax::ast::{
    DmlTarget, Execute, ExecuteTarget, FunctionBody, FunctionReturns, InsertSource, ModuleBody,
    Parameter, SetStatement, Statement, StatementKind,
};
use std::collections::HashSet;

/// A use of a variable that the batch itself does not declare, or a second declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    pub name: String,
    pub line: i32,
    pub kind: SuspectKind,
    /// The procedure, function or trigger that the text defines.
    pub module: Option<String>,
}

/// Fault of a name or a statement, found before anything runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspectKind {
    Scalar,
    /// Stands where a table must.
    Table,
    Twice,
    /// A label that stands twice.
    Label,
    /// GOTO to a label that is not there.
    Goto,
    /// USE in a module.
    Use,
    /// A table-valued parameter that is changed.
    ReadOnly,
    /// SET SHOWPLAN_* beside other statements.
    Showplan,
}

impl Suspect {
    /// The error with the line it stands on.
    pub fn error(&self) -> SqlError {
        let name: &str = &self.name;
        let mut error = match self.kind {
            SuspectKind::Scalar => messages::error_state(137, 2, &[&name]),
            SuspectKind::Table => messages::error_state(1087, 2, &[&name]),
            SuspectKind::Twice => messages::error(134, &[&name]),
            SuspectKind::Label => messages::error(132, &[&name]),
            SuspectKind::Goto => messages::error(133, &[&name]),
            SuspectKind::Use => use_in_module(),
            SuspectKind::Showplan => messages::error(1067, &[]),
            SuspectKind::ReadOnly => messages::error(10700, &[&name]),
        };
        error.line = self.line;
        error.procedure.clone_from(&self.module);
        error
    }
}

/// The names in a module are those of its database.
pub(crate) fn use_in_module() -> SqlError {
    let (what, place) = (
        "a USE database statement",
        "a procedure, function or trigger",
    );
    messages::error(154, &[&what, &place])
}

/// All suspects of a batch, in the order of the text.
pub fn suspects(text: &str, statements: &[Statement]) -> Vec<Suspect> {
    let mut names = Names {
        may_show_plans: statements.len() == 1,
        ..Names::default()
    };
    names.list(statements);
    let known = |name: &str| names.declared.contains(name) || names.arguments.contains(name);
    let mut found: Vec<Suspect> = references(text)
        .into_iter()
        .filter(|s| !known(&name_key(&s.name)))
        .collect();
    found.append(&mut names.twice);
    found.append(&mut names.nowhere());
    found.sort_by_key(|s| s.line);
    if let Some(module) = statements.first().and_then(module_name) {
        let name = |suspect: &mut Suspect| suspect.module = Some(module.to_string());
        found.iter_mut().for_each(name);
    }
    found
}

fn module_name(statement: &Statement) -> Option<&str> {
    let name = match &statement.kind {
        StatementKind::CreateProcedure(s) => &s.name,
        StatementKind::CreateFunction(s) => &s.name,
        StatementKind::CreateTrigger(s) => &s.name,
        _ => return None,
    };
    Some(&name.name.text)
}

/// Value of the last SET QUOTED_IDENTIFIER of the text, wherever it stands: the session has it when the batch has been
/// read. In the text of a module it says nothing.
pub fn quotes_set(statements: &[Statement]) -> Option<bool> {
    statements.iter().rev().find_map(quotes_set_by)
}

fn quotes_set_by(statement: &Statement) -> Option<bool> {
    match &statement.kind {
        StatementKind::Set(SetStatement::Switch { options, on }) => {
            let is_it = |o: &String| matches!(o.as_str(), "QUOTED_IDENTIFIER" | "ANSI_DEFAULTS");
            options.iter().any(is_it).then_some(*on)
        }
        StatementKind::Block(body) => quotes_set(body),
        StatementKind::If(s) => {
            let otherwise = s.otherwise.as_ref().and_then(|s| quotes_set_by(s));
            otherwise.or_else(|| quotes_set_by(&s.then))
        }
        StatementKind::While(s) => quotes_set_by(&s.body),
        StatementKind::TryCatch(s) => quotes_set(&s.handler).or_else(|| quotes_set(&s.body)),
        _ => None,
    }
}

/// Can there be passwords or keys in the text of these statements?
pub fn may_hold_secrets(statements: &[Statement]) -> bool {
    statements.iter().any(may_hold_secret)
}

fn may_hold_secret(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Principal(_)
        | StatementKind::Key(_)
        | StatementKind::Backup(_)
        | StatementKind::Restore(_) => true,
        StatementKind::Execute(exec) => takes_password(&exec.target),
        StatementKind::Block(body) => may_hold_secrets(body),
        StatementKind::If(s) => {
            may_hold_secret(&s.then) || s.otherwise.as_ref().is_some_and(|s| may_hold_secret(s))
        }
        StatementKind::While(s) => may_hold_secret(&s.body),
        StatementKind::TryCatch(s) => may_hold_secrets(&s.body) || may_hold_secrets(&s.handler),
        _ => false,
    }
}

/// Is it a procedure of the server that is given a password?
fn takes_password(target: &ExecuteTarget) -> bool {
    match target {
        ExecuteTarget::Procedure { name, .. } => ["sp_addlogin", "sp_password"]
            .iter()
            .any(|p| name.name.is(p)),
        _ => false,
    }
}

#[derive(Default)]
struct Names {
    declared: HashSet<String>,
    arguments: HashSet<String>,
    labels: HashSet<String>,
    gotos: Vec<(String, u32)>,
    in_module: bool,
    /// The statement at hand is the batch.
    may_show_plans: bool,
    /// Table-valued parameters.
    read_only: HashSet<String>,
    /// Wrong in themselves, whatever else the text says.
    twice: Vec<Suspect>,
}

impl Names {
    fn declare(&mut self, name: &str, line: u32) {
        if !self.declared.insert(name_key(name)) {
            self.again(name, line, SuspectKind::Twice);
        }
    }

    fn label(&mut self, name: &str, line: u32) {
        if !self.labels.insert(name_key(name)) {
            self.again(name, line, SuspectKind::Label);
        }
    }

    fn again(&mut self, name: &str, line: u32, kind: SuspectKind) {
        let (name, line) = (name.to_string(), i32::try_from(line).unwrap_or(i32::MAX));
        self.twice.push(Suspect {
            name,
            line,
            kind,
            module: None,
        });
    }

    /// A label that GOTO names and that is nowhere.
    fn nowhere(&mut self) -> Vec<Suspect> {
        let gotos = std::mem::take(&mut self.gotos).into_iter();
        let missing = gotos.filter(|(name, _)| !self.labels.contains(&name_key(name)));
        missing
            .map(|(name, line)| Suspect {
                name,
                line: i32::try_from(line).unwrap_or(i32::MAX),
                kind: SuspectKind::Goto,
                module: None,
            })
            .collect()
    }

    fn list(&mut self, statements: &[Statement]) {
        statements.iter().for_each(|s| self.statement(s));
    }

    fn statement(&mut self, statement: &Statement) {
        let is_batch = std::mem::take(&mut self.may_show_plans);
        match &statement.kind {
            StatementKind::Set(SetStatement::Switch { options, .. })
                if !is_batch && options.iter().any(|o| o.starts_with("SHOWPLAN_")) =>
            {
                self.again("", statement.span.line, SuspectKind::Showplan);
            }
            StatementKind::Block(body) | StatementKind::Atomic { body, .. } => self.list(body),
            StatementKind::If(s) => {
                self.statement(&s.then);
                if let Some(otherwise) = &s.otherwise {
                    self.statement(otherwise);
                }
            }
            StatementKind::While(s) => self.statement(&s.body),
            StatementKind::TryCatch(s) => {
                self.list(&s.body);
                self.list(&s.handler);
            }
            StatementKind::Declare(list) => {
                list.iter().for_each(|d| self.declare(&d.name, d.span.line));
            }
            StatementKind::Goto(name) => {
                let line = statement.span.line;
                self.gotos.push((name.text.clone(), line));
            }
            StatementKind::Use(name) if self.in_module => {
                self.again(&name.text, statement.span.line, SuspectKind::Use);
            }
            StatementKind::Label(name) => self.label(&name.text, statement.span.line),
            StatementKind::DeclareTable(d) => self.declare(&d.name, d.span.line),
            StatementKind::Execute(execute) => self.execute(execute),
            StatementKind::Insert(insert) => {
                self.changed(&insert.target, statement.span.line);
                if let InsertSource::Execute(execute) = &insert.source {
                    self.execute(execute);
                }
            }
            StatementKind::Update(s) => self.changed(&s.target, statement.span.line),
            StatementKind::Delete(s) => self.changed(&s.target, statement.span.line),
            StatementKind::Merge(s) => self.changed(&s.target, statement.span.line),
            StatementKind::CreateProcedure(s) => {
                self.parameters(&s.parameters, statement);
                self.module(&s.body);
            }
            StatementKind::CreateTrigger(s) => self.module(&s.body),
            StatementKind::CreateFunction(s) => {
                self.parameters(&s.parameters, statement);
                if let FunctionReturns::TableVariable { name, .. } = &s.returns {
                    self.declare(name, statement.span.line);
                }
                if let FunctionBody::Statements(body) = &s.body {
                    self.list(body);
                }
            }
            _ => {}
        }
    }

    fn module(&mut self, body: &ModuleBody) {
        if let ModuleBody::Statements(list) = body {
            self.in_module = true;
            self.list(list);
        }
    }

    fn parameters(&mut self, parameters: &[Parameter], statement: &Statement) {
        parameters
            .iter()
            .for_each(|p| self.declare(&p.name, statement.span.line));
        let tables = parameters.iter().filter(|p| p.read_only);
        self.read_only.extend(tables.map(|p| name_key(&p.name)));
    }

    fn changed(&mut self, target: &DmlTarget, line: u32) {
        if let DmlTarget::Variable { name, .. } = target
            && self.read_only.contains(&name_key(name))
        {
            self.again(name, line, SuspectKind::ReadOnly);
        }
    }

    fn execute(&mut self, execute: &Execute) {
        let names = execute.args.iter().filter_map(|a| a.name.as_deref());
        self.arguments.extend(names.map(name_key));
    }
}

/// Every `@name` of the text that stands for a variable.
fn references(text: &str) -> Vec<Suspect> {
    let bytes = text.as_bytes();
    let (mut at, mut line) = (0, 1);
    let mut word = "";
    let mut found = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        let len = match byte {
            b'\n' => {
                line += 1;
                1
            }
            b'\'' | b'"' => quoted_len(rest, byte as char),
            b'[' => quoted_len(rest, ']'),
            b'-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => comment_len(rest),
            b'@' => {
                let name = leading_word(rest);
                if !name.starts_with("@@") && name.len() > 1 {
                    found.push(Suspect {
                        name: name.to_string(),
                        line,
                        kind: kind_after(word),
                        module: None,
                    });
                }
                word = name;
                name.len()
            }
            _ if is_word(rest) => {
                word = leading_word(rest);
                word.len()
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        let passed = bytes.get(at..at + len).unwrap_or_default();
        if len > 1 {
            line += passed.iter().filter(|b| **b == b'\n').count() as i32;
        }
        at += len.max(1);
    }
    found
}

/// A variable after one of these words is a table.
fn kind_after(word: &str) -> SuspectKind {
    match ["FROM", "JOIN", "INTO", "INSERT"]
        .iter()
        .any(|w| w.eq_ignore_ascii_case(word))
    {
        true => SuspectKind::Table,
        false => SuspectKind::Scalar,
    }
}

fn is_word(rest: &str) -> bool {
    rest.chars()
        .next()
        .is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '#' | '$'))
}

fn leading_word(rest: &str) -> &str {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '#' | '$' | '@');
    let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or(rest)
}

/// Length of a quoted piece with its quotes; doubled closing quotes stay inside.
pub(crate) fn quoted_len(rest: &str, close: char) -> usize {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == close && chars.next_if(|(_, next)| *next == close).is_none() {
            return at + c.len_utf8();
        }
    }
    rest.len()
}

/// Length of a comment; comments nest.
pub(crate) fn comment_len(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0_u32);
    while let Some(piece) = rest.get(at..).filter(|p| !p.is_empty()) {
        if piece.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if piece.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += piece.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_syntax::{ParseOptions, parse_batch};

    fn names(text: &str) -> Vec<(String, i32)> {
        let statements = parse_batch(text, &ParseOptions::default()).unwrap();
        suspects(text, &statements)
            .into_iter()
            .map(|s| (s.name, s.line))
            .collect()
    }

    #[test]
    fn undeclared_names_are_found_with_their_lines() {
        assert_eq!(
            names("DECLARE @a int\nSELECT @A, @b\nSET @c = 1"),
            [("@b".into(), 2), ("@c".into(), 3)]
        );
        assert_eq!(
            names("SELECT @@ROWCOUNT, '@x', [@y] -- @z\n/* @w /* @v */ @u */"),
            []
        );
        assert_eq!(names("EXEC p @x = 1, @y = @z"), [("@z".into(), 1)]);
        assert_eq!(
            names("CREATE PROC p @a int AS DECLARE @b int; SELECT @a, @b"),
            []
        );
        assert_eq!(
            names("DECLARE @a int\nIF 1 = 1 DECLARE @a int"),
            [("@a".into(), 2)]
        );
        assert_eq!(names("SELECT 'it''s @x', N'a\nb', @q"), [("@q".into(), 2)]);
    }

    #[test]
    fn labels_are_there_before_anything_runs() {
        let text = "GOTO there\nIF 1 = 1 BEGIN Here: GOTO HERE END\nGOTO nowhere\nThere: PRINT 'x'";
        assert_eq!(names(text), [("nowhere".into(), 3)]);
        assert_eq!(
            names("CREATE PROC p AS a: GOTO a; GOTO b"),
            [("b".into(), 1)]
        );
    }

    #[test]
    fn tables_and_scalars_have_their_own_errors() {
        let text = "SELECT * FROM @t WHERE a = @s";
        let statements = parse_batch(text, &ParseOptions::default()).unwrap();
        let numbers: Vec<i32> = suspects(text, &statements)
            .iter()
            .map(|s| s.error().number)
            .collect();
        assert_eq!(numbers, [1087, 137]);
    }
}
