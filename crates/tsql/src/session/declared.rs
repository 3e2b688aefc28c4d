//! Variables that are declared where control does not come.
//!
//! Theory: a batch or module has every variable whose DECLARE stands before the statement that runs, in a branch that was not taken
//! too: in the product DECLARE makes the variable when the text is compiled, and gives it a value when it runs. Here it does both when
//! it runs; so before a statement those are made that a branch, a TRY or a GOTO has passed over. Texts in which nothing can be passed
//! over have no such places.

use super::execution::Execution;
use crate::error::Result;
use daruma_syntax::ast::{
    Declaration, DeclarationKind, FunctionBody, ModuleBody, Statement, StatementKind,
};

/// Where in the text the DECLAREs stand that control may pass over, first to last.
pub fn passed_over(statements: &[Statement]) -> Vec<usize> {
    let mut found = Found::default();
    found.list(statements, false);
    match found.has_goto {
        true => found.all,
        false => found.in_branches,
    }
}

#[derive(Default)]
struct Found {
    all: Vec<usize>,
    in_branches: Vec<usize>,
    has_goto: bool,
}

impl Found {
    fn list(&mut self, statements: &[Statement], in_branch: bool) {
        statements.iter().for_each(|s| self.add(s, in_branch));
    }

    fn add(&mut self, statement: &Statement, in_branch: bool) {
        match &statement.kind {
            StatementKind::Declare(_) | StatementKind::DeclareTable(_) => {
                self.all.push(statement.span.start);
                if in_branch {
                    self.in_branches.push(statement.span.start);
                }
            }
            StatementKind::Goto(_) => self.has_goto = true,
            kind => {
                let branches = is_branch(kind);
                parts(kind, &mut |part| self.add(part, in_branch || branches));
            }
        }
    }
}

/// May control leave out a part of it?
fn is_branch(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::If(_) | StatementKind::While(_) | StatementKind::TryCatch(_)
    )
}

/// The statements directly within one, in the order of the text.
fn parts<'s>(kind: &'s StatementKind, f: &mut dyn FnMut(&'s Statement)) {
    let module = |body: &'s ModuleBody| match body {
        ModuleBody::Statements(list) => list.as_slice(),
        ModuleBody::External(_) => &[],
    };
    match kind {
        StatementKind::Block(body) | StatementKind::Atomic { body, .. } => body.iter().for_each(f),
        StatementKind::If(s) => {
            f(&s.then);
            s.otherwise.iter().for_each(|s| f(s));
        }
        StatementKind::While(s) => f(&s.body),
        StatementKind::TryCatch(s) => s.body.iter().chain(&s.handler).for_each(f),
        StatementKind::CreateProcedure(s) => module(&s.body).iter().for_each(f),
        StatementKind::CreateTrigger(s) => module(&s.body).iter().for_each(f),
        StatementKind::CreateFunction(s) => {
            if let FunctionBody::Statements(body) = &s.body {
                body.iter().for_each(f);
            }
        }
        _ => {}
    }
}

/// The DECLARE that stands there.
fn declare_at(statement: &Statement, place: usize) -> Option<&Statement> {
    if !(statement.span.start..statement.span.end).contains(&place) {
        return None;
    }
    match &statement.kind {
        StatementKind::Declare(_) | StatementKind::DeclareTable(_) => Some(statement),
        kind => {
            let mut found = None;
            parts(kind, &mut |part| {
                found = found.or_else(|| declare_at(part, place));
            });
            found
        }
    }
}

impl Execution<'_> {
    /// Makes the variables whose DECLARE stands before a place of the running text, and did not run.
    pub(super) fn declare_passed(&self, place: usize) -> Result<()> {
        loop {
            let next = self.state.frames.borrow_mut().last_mut().and_then(|frame| {
                let at = frame.next_passed(place)?;
                frame.passed += 1;
                Some((frame.batch.clone(), at))
            });
            let Some((batch, at)) = next else {
                return Ok(());
            };
            let declare = batch.statements.iter().find_map(|s| declare_at(s, at));
            match declare.map(|s| &s.kind) {
                Some(StatementKind::Declare(list)) => {
                    list.iter().try_for_each(|d| self.declare_valueless(d))?;
                }
                Some(StatementKind::DeclareTable(d)) => {
                    self.declare_table(&d.name, &d.definition)?;
                }
                _ => {}
            }
        }
    }

    fn declare_valueless(&self, declaration: &Declaration) -> Result<()> {
        let name = &declaration.name;
        match &declaration.kind {
            DeclarationKind::Scalar { data_type, .. } => {
                self.declare_scalar(name, data_type, None).map(|_| ())
            }
            DeclarationKind::Table(definition) => self.declare_table(name, definition),
            DeclarationKind::Cursor => self.declare_cursor_variable(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_syntax::{ParseOptions, parse_batch};

    fn places(text: &str) -> Vec<usize> {
        passed_over(&parse_batch(text, &ParseOptions::default()).unwrap())
    }

    #[test]
    fn every_place_is_found_again() {
        let text = "IF 1 = 0 BEGIN DECLARE @a int END ELSE WHILE 1 = 0 DECLARE @b TABLE (c int) BEGIN TRY DECLARE @d int END TRY BEGIN CATCH DECLARE @e int END CATCH";
        let statements = parse_batch(text, &ParseOptions::default()).unwrap();
        let places = passed_over(&statements);
        assert_eq!(places.len(), 4);
        for place in places {
            let found = statements.iter().find_map(|s| declare_at(s, place));
            assert_eq!(found.map(|s| s.span.start), Some(place));
        }
    }

    #[test]
    fn what_always_runs_is_never_passed_over() {
        assert!(places("DECLARE @a int; BEGIN DECLARE @b int END").is_empty());
        assert_eq!(places("IF 1 = 1 DECLARE @a int"), [9]);
        assert_eq!(places("CREATE PROC p AS WHILE 1 = 1 DECLARE @a int"), [29]);
        assert_eq!(
            places("DECLARE @a int; GOTO x; DECLARE @b TABLE (c int); x:"),
            [0, 24]
        );
    }
}
