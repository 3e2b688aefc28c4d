//! `ShowPlanXML`: the statements of a text around the operators of their plans.
//!
//! Theory: the text's tree says which statements there are; their plans are found by where a statement begins. A statement without a
//! plan is there with its text. Branches and loops are `StmtCond`, whichever way they would go; BEGIN, TRY and labels leave no
//! element of their own.
//!
//! Deeper than [`DEPTH_MAX`], a document is no value of the type `xml`, in the product neither.

use super::operators;
use super::xml::Writer;
use super::{Picture, plan_hash, query_hash};
use crate::binder::with_stack;
use crate::executor::{ActualRows, KeptPlan};
use crate::instance::{Batch, PRODUCT_VERSION};
use daruma_syntax::ast::{
    DeclarationKind, ExecuteTarget, FunctionBody, ModuleBody, Statement, StatementKind,
};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

const NAMESPACE: &str = "http://schemas.microsoft.com/sqlserver/2004/07/showplan";
/// Version of the product's schema that the elements are of.
const SCHEMA_VERSION: &str = "1.564";
/// Levels of elements that a value of the type `xml` may have.
const DEPTH_MAX: usize = 128;

/// Plans of a text's statements, by where a statement begins in it.
#[derive(Clone, Default)]
pub struct Plans {
    by_start: HashMap<usize, Arc<dyn KeptPlan>>,
    actual: Option<Rc<ActualRows>>,
}

impl Plans {
    /// Adds the plan of the statement, or of the condition, that begins there.
    pub fn add(&mut self, start: usize, plan: Arc<dyn KeptPlan>) {
        self.by_start.insert(start, plan);
    }

    /// The one plan of a statement that has run, with what its operators did.
    pub fn of_run(start: usize, plan: Arc<dyn KeptPlan>, actual: Rc<ActualRows>) -> Plans {
        Plans {
            by_start: HashMap::from([(start, plan)]),
            actual: Some(actual),
        }
    }

    fn picture(&self, statement: &Statement) -> Option<Picture<'_>> {
        let plan = self.by_start.get(&statement.span.start)?;
        Some(plan.picture()?.with_actual(self.actual.as_deref()))
    }
}

/// A plan as XML.
pub struct Document {
    /// The document, without an XML declaration.
    pub text: String,
    depth: usize,
}

impl Document {
    /// Can it be a value of the type `xml`?
    pub fn is_value(&self) -> bool {
        self.depth <= DEPTH_MAX
    }
}

/// The document of a batch's statements, or only of the one that begins at `only`. `None` when there is no such statement, or when it
/// would be too long.
pub fn document(batch: &Batch, plans: &Plans, only: Option<usize>) -> Option<Document> {
    let mut writer = Statements {
        text: &batch.text,
        plans,
        only,
        w: Writer::default(),
        count: 0,
    };
    let w = &mut writer.w;
    w.open("ShowPlanXML");
    w.attribute("xmlns", NAMESPACE);
    w.attribute("Version", SCHEMA_VERSION);
    w.attribute("Build", PRODUCT_VERSION);
    for element in ["BatchSequence", "Batch", "Statements"] {
        w.open(element);
    }
    writer.list(&batch.statements);
    for _ in 0..4 {
        writer.w.close();
    }
    if writer.count == 0 {
        return None;
    }
    let (text, depth) = writer.w.finish()?;
    Some(Document { text, depth })
}

struct Statements<'a> {
    text: &'a str,
    plans: &'a Plans,
    only: Option<usize>,
    w: Writer,
    /// Statements written.
    count: u32,
}

impl Statements<'_> {
    fn list(&mut self, list: &[Statement]) {
        list.iter().for_each(|s| with_stack(|| self.statement(s)));
    }

    fn statement(&mut self, statement: &Statement) {
        let is_meant = self.only.is_none_or(|start| start == statement.span.start);
        match &statement.kind {
            StatementKind::Block(body) | StatementKind::Atomic { body, .. } => self.list(body),
            StatementKind::TryCatch(s) => {
                self.list(&s.body);
                self.list(&s.handler);
            }
            StatementKind::If(s) if is_meant => {
                self.branch(statement, &s.then, s.otherwise.as_deref());
            }
            StatementKind::While(s) if is_meant => self.branch(statement, &s.body, None),
            StatementKind::If(s) => {
                self.list(std::slice::from_ref(&*s.then));
                let otherwise = s.otherwise.as_deref();
                self.list(otherwise.map(std::slice::from_ref).unwrap_or_default());
            }
            StatementKind::While(s) => self.list(std::slice::from_ref(&*s.body)),
            _ => match module_body(&statement.kind) {
                // The text of a module whose statements have plans stands for the module.
                Some(body) if !self.plans.by_start.is_empty() => self.list(body),
                _ if is_meant => self.simple(statement),
                _ => {}
            },
        }
    }

    /// IF or WHILE.
    fn branch(&mut self, statement: &Statement, then: &Statement, otherwise: Option<&Statement>) {
        let all = self.text;
        let condition = all.get(statement.span.start..then.span.start);
        let picture = self.plans.picture(statement);
        let kind = match picture {
            Some(_) => "COND WITH QUERY",
            None => "COND",
        };
        let only = self.only.take();
        self.begin(
            "StmtCond",
            condition.unwrap_or_default().trim_end(),
            kind,
            picture.as_ref(),
        );
        self.w.open("Condition");
        if let Some(picture) = &picture {
            self.query_plan(picture);
        }
        self.w.close();
        for (element, branch) in [("Then", Some(then)), ("Else", otherwise)] {
            if let Some(branch) = branch {
                self.w.open(element);
                self.w.open("Statements");
                self.list(std::slice::from_ref(branch));
                self.w.close();
                self.w.close();
            }
        }
        self.w.close();
        self.only = only;
    }

    fn simple(&mut self, statement: &Statement) {
        let Some(kind) = type_name(&statement.kind) else {
            return;
        };
        let text = statement.span.text(self.text);
        if let StatementKind::Use(name) = &statement.kind {
            self.begin("StmtUseDb", text, kind, None);
            self.w.attribute("Database", &format!("[{}]", name.text));
            return self.w.close();
        }
        let picture = self.plans.picture(statement);
        self.begin("StmtSimple", text, kind, picture.as_ref());
        if let Some(picture) = &picture {
            self.query_plan(picture);
        }
        self.w.close();
    }

    fn begin(
        &mut self,
        element: &'static str,
        text: &str,
        kind: &str,
        picture: Option<&Picture<'_>>,
    ) {
        self.count += 1;
        let id = self.count.to_string();
        let w = &mut self.w;
        w.open(element);
        w.attribute("StatementCompId", &id);
        w.attribute("StatementId", &id);
        w.attribute("StatementText", text);
        w.attribute("StatementType", kind);
        if let Some(picture) = picture {
            let (rows, cost) = operators::estimate(picture);
            w.number("StatementEstRows", rows);
            w.number("StatementSubTreeCost", cost);
            w.attribute("StatementOptmLevel", "FULL");
            w.attribute("QueryHash", &format!("0x{:016X}", query_hash(text)));
            w.attribute("QueryPlanHash", &format!("0x{:016X}", plan_hash(picture)));
        }
    }

    fn query_plan(&mut self, picture: &Picture<'_>) {
        let w = &mut self.w;
        w.open("QueryPlan");
        w.attribute("DegreeOfParallelism", "1");
        operators::draw(picture, w);
        let variables = picture.variables();
        if !variables.is_empty() {
            w.open("ParameterList");
            for name in variables {
                w.empty("ColumnReference", &[("Column", name)]);
            }
            w.close();
        }
        w.close();
    }
}

fn module_body(kind: &StatementKind) -> Option<&[Statement]> {
    let body = match kind {
        StatementKind::CreateProcedure(s) => &s.body,
        StatementKind::CreateTrigger(s) => &s.body,
        StatementKind::CreateFunction(s) => match &s.body {
            FunctionBody::Statements(list) => return Some(list),
            _ => return None,
        },
        _ => return None,
    };
    match body {
        ModuleBody::Statements(list) => Some(list),
        ModuleBody::External(_) => None,
    }
}

/// The product's name of a kind of statement; `None` of one that leaves nothing to show.
pub fn type_name(kind: &StatementKind) -> Option<&'static str> {
    Some(match kind {
        StatementKind::Label(_) | StatementKind::DeclareTable(_) => return None,
        StatementKind::Declare(list) => {
            let gives = |kind: &DeclarationKind| {
                matches!(kind, DeclarationKind::Scalar { value: Some(_), .. })
            };
            match list.iter().any(|d| gives(&d.kind)) {
                true => "ASSIGN",
                false => return None,
            }
        }
        StatementKind::Select(query) => match crate::session::into_of(query) {
            Some(_) => "SELECT INTO",
            None => "SELECT",
        },
        StatementKind::Insert(_) => "INSERT",
        StatementKind::Update(_) => "UPDATE",
        StatementKind::Delete(_) => "DELETE",
        StatementKind::Merge(_) => "MERGE",
        StatementKind::BulkInsert(_) | StatementKind::InsertBulk(_) => "BULK INSERT",
        StatementKind::Truncate(_) => "TRUNCATE TABLE",
        StatementKind::Set(set) if set.is_of_variable() => "ASSIGN",
        StatementKind::Set(_) => "SET ON/OFF",
        StatementKind::Use(_) => "USE DATABASE",
        StatementKind::Execute(exec) => match exec.target {
            ExecuteTarget::Text { .. } => "EXECUTE STRING",
            _ => "EXECUTE PROC",
        },
        StatementKind::Print(_) => "PRINT",
        StatementKind::RaisError(_) => "RAISERROR",
        StatementKind::Throw(_) => "THROW",
        StatementKind::Return(_) => "RETURN",
        StatementKind::Break => "BREAK",
        StatementKind::Continue => "CONTINUE",
        StatementKind::Goto(_) => "GOTO",
        StatementKind::WaitFor(_) => "WAITFOR",
        StatementKind::DeclareCursor(_) => "DECLARE CURSOR",
        StatementKind::Open(_) => "OPEN CURSOR",
        StatementKind::Fetch(_) => "FETCH CURSOR",
        StatementKind::Close(_) => "CLOSE CURSOR",
        StatementKind::Deallocate(_) => "DEALLOCATE CURSOR",
        StatementKind::BeginTransaction(_) => "BEGIN TRANSACTION",
        StatementKind::Commit(_) => "COMMIT TRANSACTION",
        StatementKind::Rollback(_) => "ROLLBACK TRANSACTION",
        StatementKind::SaveTransaction(_) => "SAVE TRANSACTION",
        StatementKind::CreateTable(_) => "CREATE TABLE",
        StatementKind::AlterTable(_) => "ALTER TABLE",
        StatementKind::CreateIndex(_) => "CREATE INDEX",
        StatementKind::CreateStatistics(_) => "CREATE STATISTICS",
        StatementKind::UpdateStatistics(_) => "UPDATE STATISTICS",
        StatementKind::CreateView(_) => "CREATE VIEW",
        StatementKind::CreateProcedure(_) => "CREATE PROCEDURE",
        StatementKind::CreateFunction(_) => "CREATE FUNCTION",
        StatementKind::CreateTrigger(_) => "CREATE TRIGGER",
        StatementKind::Drop(_) | StatementKind::DropIndex(_) => "DROP OBJECT",
        StatementKind::Dbcc(_) => "DBCC",
        _ => "UNKNOWN",
    })
}
