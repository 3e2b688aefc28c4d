//! Plans as XML: each document is read as its readers read it, and holds its elements in the order of the product's schema.

mod common;

use common::calls::{arg, int, output, request, text};
use common::{Client, Server};
use daruma_value::xml::{Attribute, Events, read};
use daruma_value::{DataType, Value, ValueError};

/// An element as a reader sees it.
#[derive(Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
}

impl Element {
    fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(n, _)| n == name);
        found.map_or("", |(_, value)| value)
    }

    fn each(&self, visit: &mut dyn FnMut(&Element)) {
        visit(self);
        self.children.iter().for_each(|c| c.each(visit));
    }

    fn all(&self, name: &str) -> Vec<&Element> {
        let mut found: Vec<&Element> = Vec::new();
        if self.name == name {
            found.push(self);
        }
        found.extend(self.children.iter().flat_map(|c| c.all(name)));
        found
    }

    fn child(&self, name: &str) -> &Element {
        let found = self.children.iter().find(|c| c.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {}", self.name))
    }
}

#[derive(Default)]
struct Reader(Vec<Element>);

impl Events for Reader {
    fn start(&mut self, name: &str, attributes: &[Attribute<'_>]) -> Result<(), ValueError> {
        let attributes = attributes.iter();
        self.0.push(Element {
            name: name.to_string(),
            attributes: attributes
                .map(|a| (a.name.to_string(), a.value.to_string()))
                .collect(),
            children: Vec::new(),
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), ValueError> {
        if self.0.len() > 1 {
            let child = self.0.pop().expect("an element is open");
            self.0
                .last_mut()
                .expect("and one around it")
                .children
                .push(child);
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), ValueError> {
        panic!("text in a plan: {text}")
    }

    fn comment(&mut self, text: &str) -> Result<(), ValueError> {
        panic!("comment in a plan: {text}")
    }

    fn instruction(&mut self, target: &str, _: &str) -> Result<(), ValueError> {
        panic!("instruction in a plan: {target}")
    }
}

/// The document's root, every element of it looked at.
fn parsed(document: &str) -> Element {
    let mut reader = Reader::default();
    let outcome = read(document, true, true, &mut reader);
    assert!(outcome.is_ok(), "{outcome:?} in {document}");
    let root = reader.0.pop().expect("a root");
    assert_eq!(root.name, "ShowPlanXML");
    root.each(&mut |e| check(e, document));
    let mut ids = Vec::new();
    root.all("StmtSimple").iter().for_each(|s| {
        ids = s
            .all("RelOp")
            .iter()
            .map(|r| r.attribute("NodeId").to_string())
            .collect();
        let expected: Vec<String> = (0..ids.len()).map(|n| n.to_string()).collect();
        assert_eq!(
            ids, expected,
            "operators are numbered from the root: {document}"
        );
    });
    root
}

/// Attributes without which an element is none.
const NEEDED: &[(&str, &[&str])] = &[
    ("ShowPlanXML", &["xmlns", "Version", "Build"]),
    (
        "StmtSimple",
        &["StatementText", "StatementId", "StatementType"],
    ),
    (
        "StmtCond",
        &["StatementText", "StatementId", "StatementType"],
    ),
    ("StmtUseDb", &["Database"]),
    (
        "RelOp",
        &[
            "AvgRowSize",
            "EstimateCPU",
            "EstimateIO",
            "EstimateRebinds",
            "EstimateRewinds",
            "EstimateRows",
            "LogicalOp",
            "NodeId",
            "Parallel",
            "PhysicalOp",
            "EstimatedTotalSubtreeCost",
        ],
    ),
    ("Filter", &["StartupExpression"]),
    ("NestedLoops", &["Optimized"]),
    ("Sort", &["Distinct"]),
    ("TopSort", &["Distinct", "Rows"]),
    ("TableScan", &["Ordered"]),
    ("IndexScan", &["Ordered"]),
    ("OrderByColumn", &["Ascending"]),
    ("ColumnReference", &["Column"]),
    ("Const", &["ConstValue"]),
    ("Compare", &["CompareOp"]),
    ("Logical", &["Operation"]),
    ("Arithmetic", &["Operation"]),
    ("Intrinsic", &["FunctionName"]),
    ("Convert", &["DataType", "Style", "Implicit"]),
    ("Aggregate", &["AggType", "Distinct"]),
    ("Prefix", &["ScanType"]),
    ("StartRange", &["ScanType"]),
    ("EndRange", &["ScanType"]),
];

/// Children in the order in which they must stand; `+` and `?`, `*` as in a pattern, bare ones once.
const CHILDREN: &[(&str, &[&str])] = &[
    ("ShowPlanXML", &["BatchSequence"]),
    ("BatchSequence", &["Batch+"]),
    ("Batch", &["Statements+"]),
    ("StmtSimple", &["QueryPlan?", "StoredProc?"]),
    ("StmtCond", &["Condition", "Then", "Else?"]),
    ("StmtUseDb", &[]),
    ("Condition", &["QueryPlan?", "ScalarOperator?"]),
    ("QueryPlan", &["RelOp", "ParameterList?"]),
    ("Filter", &["DefinedValues?", "RelOp", "Predicate"]),
    ("ComputeScalar", &["DefinedValues?", "RelOp"]),
    (
        "NestedLoops",
        &["Predicate?", "OuterReferences?", "RelOp", "RelOp"],
    ),
    (
        "Merge",
        &[
            "InnerSideJoinColumns?",
            "OuterSideJoinColumns?",
            "Residual?",
            "RelOp",
            "RelOp",
        ],
    ),
    (
        "Hash",
        &[
            "DefinedValues?",
            "HashKeysBuild?",
            "HashKeysProbe?",
            "ProbeResidual?",
            "RelOp+",
        ],
    ),
    ("Sort", &["OrderBy", "RelOp"]),
    ("TopSort", &["OrderBy", "RelOp"]),
    ("OrderBy", &["OrderByColumn+"]),
    ("StreamAggregate", &["DefinedValues?", "GroupBy?", "RelOp"]),
    (
        "Top",
        &[
            "TieColumns?",
            "OffsetExpression?",
            "TopExpression?",
            "RelOp",
        ],
    ),
    ("WindowAggregate", &["RelOp"]),
    ("Concat", &["RelOp", "RelOp+"]),
    ("Spool", &["RelOp?"]),
    ("TableScan", &["DefinedValues?", "Object+", "Predicate?"]),
    (
        "IndexScan",
        &["DefinedValues?", "Object+", "SeekPredicates?", "Predicate*"],
    ),
    (
        "TableValuedFunction",
        &["DefinedValues?", "Object?", "ParameterList?"],
    ),
    ("Update", &["Object+", "RelOp"]),
    ("ScalarInsert", &["Object+"]),
    ("SeekPredicates", &["SeekPredicateNew+"]),
    ("SeekPredicateNew", &["SeekKeys+"]),
    ("SeekKeys", &["Prefix?", "StartRange?", "EndRange?"]),
    ("Prefix", &["RangeColumns", "RangeExpressions"]),
    ("Predicate", &["ScalarOperator"]),
    ("Compare", &["ScalarOperator+"]),
    ("Logical", &["ScalarOperator+"]),
    ("IF", &["Condition", "Then", "Else"]),
];

fn check(element: &Element, document: &str) {
    let name = element.name.as_str();
    for (_, needed) in NEEDED.iter().filter(|(n, _)| *n == name) {
        for attribute in *needed {
            let has = element.attributes.iter().any(|(n, _)| n == attribute);
            assert!(has, "{name} without {attribute}: {document}");
        }
    }
    let mut children: Vec<&str> = element.children.iter().map(|c| c.name.as_str()).collect();
    if name == "RelOp" {
        // The operator's own element stands last; before it what every operator has.
        let own = children.pop().unwrap_or_default();
        let heads: &[&str] = &["OutputList", "RunTimeInformation?"];
        assert!(
            in_order(&children, heads),
            "{children:?} before {own}: {document}"
        );
        let known = CHILDREN.iter().any(|(n, _)| *n == own) || own == "ConstantScan";
        assert!(known, "operator {own}: {document}");
    }
    if name == "ScalarOperator" {
        assert_eq!(
            children.len(),
            1,
            "{children:?} in an expression: {document}"
        );
    }
    for (_, order) in CHILDREN.iter().filter(|(n, _)| *n == name) {
        assert!(
            in_order(&children, order),
            "{name} of {children:?}: {document}"
        );
    }
}

/// Do the names follow the pattern, all of them?
fn in_order(mut names: &[&str], pattern: &[&str]) -> bool {
    for part in pattern {
        let name = part.trim_end_matches(['?', '+', '*']);
        let here = names.iter().take_while(|n| **n == name).count();
        let taken = match part.chars().last() {
            Some('?') => here.min(1),
            Some('*') => here,
            Some('+') if here > 0 => here,
            Some('+') => return false,
            _ if here > 0 => 1,
            _ => return false,
        };
        names = &names[taken..];
    }
    names.is_empty()
}

const TABLES: &str =
    "CREATE TABLE t (id int NOT NULL CONSTRAINT pk PRIMARY KEY, a int NULL, b varchar(20) NULL)
    CREATE INDEX ix ON t (a)
    CREATE TABLE h (x int NULL, y nvarchar(10) NULL)";

fn client() -> (Server, Client) {
    let server = Server::with_setup(&["CREATE DATABASE d"]);
    let mut client = server.connect_to("d");
    client.done(TABLES);
    (server, client)
}

/// The one document that a batch is shown as.
fn shown(client: &mut Client, batch: &str) -> Element {
    let out = client.run(batch);
    parsed(document_of(&out, batch))
}

fn document_of<'o>(out: &'o str, batch: &str) -> &'o str {
    let lines: Vec<&str> = out.lines().collect();
    match lines.as_slice() {
        // What USE says comes first.
        [
            ..,
            "Microsoft SQL Server 2005 XML Showplan",
            document,
            "(1 row affected)",
        ] if lines.len() == 3 || batch.starts_with("USE") => document,
        _ => panic!("{batch}: {out}"),
    }
}

/// Statements whose plans together have every operator.
const STATEMENTS: &[&str] = &[
    "SELECT 1 AS one",
    "SELECT * FROM t WHERE id = 1",
    "SELECT * FROM t WHERE id IN (1, 2, 3) AND a > 5",
    "SELECT a FROM t WHERE a BETWEEN 1 AND 9 ORDER BY a DESC",
    "SELECT b FROM t WITH (INDEX (ix)) WHERE a = 3 AND b LIKE 'x%'",
    "SELECT * FROM h WHERE x IS NULL OR NOT (y = N'<\"&>''')",
    "SELECT TOP (3) b FROM t ORDER BY b",
    "SELECT TOP (3) PERCENT WITH TIES b FROM t ORDER BY b",
    "SELECT b FROM t ORDER BY b OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY",
    "SELECT t.b, h.y FROM t JOIN h ON h.x = t.id",
    "SELECT t.b, h.y FROM t JOIN h ON h.x = t.id AND t.a + h.x > 1 OPTION (HASH JOIN)",
    "SELECT t.b, u.b FROM t JOIN t u ON u.id = t.id OPTION (MERGE JOIN)",
    "SELECT t.b, u.b FROM t JOIN t u ON u.id = t.a OPTION (LOOP JOIN)",
    "SELECT t.b, h.y FROM t FULL JOIN h ON h.x = t.a",
    "SELECT a, COUNT(*) AS n, SUM(DISTINCT id) AS s FROM t GROUP BY a HAVING COUNT(*) > 1",
    "SELECT y, MAX(x) AS m FROM h GROUP BY y",
    "SELECT DISTINCT y FROM h",
    "SELECT y, x, GROUPING(y) AS g FROM h GROUP BY ROLLUP (y, x)",
    "SELECT x, ROW_NUMBER() OVER (PARTITION BY y ORDER BY x) AS n FROM h",
    "SELECT id FROM t UNION ALL SELECT x FROM h",
    "SELECT id FROM t EXCEPT SELECT x FROM h",
    "SELECT id FROM t INTERSECT SELECT x FROM h",
    "SELECT v.a FROM (VALUES (1, 'a'), (2, 'b')) v (a, b)",
    "WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT n FROM r",
    "SELECT (SELECT MAX(x) FROM h WHERE h.x < t.id) AS m FROM t",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM h WHERE h.x = t.a) OR id = (SELECT MIN(x) FROM h)",
    "SELECT CASE WHEN a > 1 THEN 'x' WHEN a < 0 THEN b END AS c, ~a AS d, -a AS e, UPPER(b) AS f FROM t",
    "SELECT name FROM sys.objects WHERE object_id = 3",
    "SELECT value FROM STRING_SPLIT('a,b', ',')",
    "DECLARE @x int = 5 SELECT * FROM t WHERE a = @x",
    "INSERT t VALUES (1, 2, 'x')",
    "INSERT h SELECT id, b FROM t",
    "UPDATE t SET a = a + 1 WHERE id > 3",
    "UPDATE h SET y = (SELECT MAX(b) FROM t)",
    "DELETE h WHERE x = 1",
    "MERGE t USING h ON h.x = t.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (x, 1, 'n');",
    "IF EXISTS (SELECT 1 FROM t) SELECT 1 AS a ELSE PRINT 'none'",
    "WHILE 1 = 1 BEGIN DELETE h BREAK END",
    "BEGIN TRY SELECT 1 AS a END TRY BEGIN CATCH THROW END CATCH",
    "USE d EXEC sp_who EXEC ('SELECT 1')",
    "SELECT id INTO copy FROM t",
];

#[test]
fn each_plan_is_a_document_of_the_schema() {
    let (_server, mut client) = client();
    client.done("SET SHOWPLAN_XML ON");
    let mut documents = String::new();
    for statement in STATEMENTS {
        let out = client.run(statement);
        let document = document_of(&out, statement);
        parsed(document);
        documents.push_str(document);
        documents.push('\n');
    }
    if let Ok(path) = std::env::var("DARUMA_PLANS") {
        std::fs::write(path, documents).expect("write documents");
    }
}

#[test]
fn nothing_of_a_shown_batch_runs() {
    let (_server, mut client) = client();
    client.done("INSERT t VALUES (1, 1, 'x')");
    client.done("SET SHOWPLAN_XML ON");
    for batch in [
        "DELETE t",
        "IF 1 = 1 DELETE t",
        "DECLARE @n int = 1 / 0",
        "DECLARE @n int SET @n = 1 / 0",
        "EXEC ('DELETE t')",
        "EXEC sp_rename 't', 'u'",
        "DROP TABLE t",
        "BEGIN TRAN DELETE t",
    ] {
        shown(&mut client, batch);
    }
    client.done("SET SHOWPLAN_XML OFF");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM t"), "1");
    assert_eq!(client.scalar("SELECT @@TRANCOUNT"), "0");
}

#[test]
fn requests_of_clients_are_shown() {
    let (_server, mut client) = client();
    client.done("INSERT t VALUES (1, 1, 'x')");
    client.done("SET SHOWPLAN_XML ON");
    let parameter = arg("@id", Value::Int(1), DataType::Int);
    let query = vec![
        text("SELECT b FROM t WHERE id = @id"),
        text("@id int"),
        parameter,
    ];
    let out = client.rpc(request(10, query));
    let found: Vec<&str> = out
        .lines()
        .filter(|l| l.starts_with("<ShowPlanXML"))
        .collect();
    let [document] = found.as_slice() else {
        panic!("one document: {out}");
    };
    let root = parsed(document);
    let seek = root.all("RelOp")[0];
    assert_eq!(seek.attribute("PhysicalOp"), "Clustered Index Seek");
    let parameters = root.all("ParameterList")[0];
    assert_eq!(
        parameters.child("ColumnReference").attribute("Column"),
        "@id"
    );
    // What would run something that has no plan is refused.
    let cursor = vec![output(int(0)), text("SELECT b FROM t"), int(1), int(1)];
    let out = client.rpc(request(2, cursor));
    assert_eq!(common::errors(&out), [40517], "{out}");
    client.done("SET SHOWPLAN_XML OFF");
    client.done("SET SHOWPLAN_TEXT ON");
    let mut rename = request(0, vec![text("t"), text("u")]);
    rename.procedure = daruma_tsql::session::RpcProcedure::Name("sp_rename".into());
    let out = client.rpc(rename);
    assert_eq!(common::errors(&out), [40517], "{out}");
    client.done("SET SHOWPLAN_TEXT OFF");
    assert_eq!(client.scalar("SELECT b FROM t"), "x");
}

#[test]
fn costs_and_executions_add_up() {
    let (_server, mut client) = client();
    client.done("INSERT h SELECT value, 'y' FROM GENERATE_SERIES(1, 100)");
    client.done("INSERT t SELECT value, value, 'x' FROM GENERATE_SERIES(1, 1000)");
    client.done("SET SHOWPLAN_XML ON");
    let root = shown(
        &mut client,
        "SELECT t.b FROM h JOIN t ON t.id = h.x OPTION (LOOP JOIN)",
    );
    let number = |e: &Element, name: &str| e.attribute(name).parse::<f64>().expect("a number");
    let [join, outer, inner] = root.all("RelOp")[..] else {
        panic!("three operators");
    };
    assert_eq!(join.attribute("PhysicalOp"), "Nested Loops");
    assert_eq!(number(outer, "EstimateRows"), 100.0);
    assert_eq!(number(inner, "EstimateRebinds"), 99.0);
    let own: f64 = [join, outer, inner]
        .iter()
        .map(|e| number(e, "EstimateCPU"))
        .sum();
    let whole = number(join, "EstimatedTotalSubtreeCost");
    assert!((own - whole).abs() <= whole * 1e-4, "{own} of {whole}");
    let statement = root.all("StmtSimple")[0];
    assert_eq!(number(statement, "StatementSubTreeCost"), whole);
}

#[test]
fn names_and_literals_are_escaped() {
    let (_server, mut client) = client();
    client.done("CREATE TABLE [a\"<b>&]]] ([c'\"&<] nvarchar(40) NULL)");
    client.done("SET SHOWPLAN_XML ON");
    let batch = "SELECT [c'\"&<] FROM [a\"<b>&]]] WHERE [c'\"&<] = N'<x a=\"1\">&amp;\u{1}\t'";
    let root = shown(&mut client, batch);
    let object = root.all("Object")[0];
    assert_eq!(object.attribute("Table"), "[a\"<b>&]]]");
    assert_eq!(root.all("ColumnReference")[0].attribute("Column"), "c'\"&<");
    let text = root.all("StmtSimple")[0].attribute("StatementText");
    assert_eq!(text, batch.replace('\u{1}', "?"));
}

#[test]
fn deep_and_long_texts_have_bounds() {
    let (_server, mut client) = client();
    client.done("SET SHOWPLAN_XML ON");
    let deep = format!(
        "SELECT {}a{} AS c FROM t",
        "UPPER(".repeat(90),
        ")".repeat(90)
    );
    shown(&mut client, &deep);
    let list: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    shown(
        &mut client,
        &format!("SELECT id FROM t WHERE a + 1 IN ({})", list.join(",")),
    );
    let terms = vec!["a"; 500].join(" + ");
    shown(&mut client, &format!("SELECT {terms} AS c FROM t"));
}

#[test]
fn kept_plans_are_documents() {
    let (_server, mut client) = client();
    client.done("INSERT t VALUES (1, 1, 'x')");
    client.done(
        "CREATE PROCEDURE p @a int AS IF @a > 0 SELECT b FROM t WHERE id = @a UPDATE t SET a = 2",
    );
    client.done("EXEC p 1");
    client.done("SELECT b FROM t /* one */ WHERE id = 1 SELECT a FROM t");
    let plans = |like: &str, columns: &str| {
        format!(
            "SELECT {columns} FROM sys.dm_exec_cached_plans c
            CROSS APPLY sys.dm_exec_sql_text(c.plan_handle) x CROSS APPLY sys.dm_exec_query_plan(c.plan_handle) p
            WHERE x.text LIKE '{like}'"
        )
    };
    let procedure = client.scalar(&plans("CREATE PROCEDURE p%", "p.query_plan"));
    let root = parsed(&procedure);
    let kinds: Vec<&str> = root
        .all("StmtSimple")
        .iter()
        .map(|s| s.attribute("StatementType"))
        .collect();
    assert_eq!(kinds, ["SELECT", "UPDATE"]);
    assert_eq!(
        root.all("StmtCond")[0].attribute("StatementText"),
        "IF @a > 0"
    );
    // As the type that it is.
    let asked = "p.query_plan.value('declare default element namespace \"http://schemas.microsoft.com/sqlserver/2004/07/showplan\";
        (//RelOp/@PhysicalOp)[1]', 'nvarchar(60)')";
    let found = client.scalar(&plans("SELECT b FROM t /* one%", asked));
    assert_eq!(found, "Clustered Index Seek");
    let second = client.scalar(
        "SELECT p.query_plan FROM sys.dm_exec_query_stats s CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) x
        CROSS APPLY sys.dm_exec_text_query_plan(s.plan_handle, s.statement_start_offset, s.statement_end_offset) p
        WHERE x.text LIKE 'SELECT b FROM t /* one */%' AND s.statement_start_offset > 0",
    );
    let texts: Vec<String> = parsed(&second)
        .all("StmtSimple")
        .iter()
        .map(|s| s.attribute("StatementText").to_string())
        .collect();
    assert_eq!(texts, ["SELECT a FROM t"]);
}

#[test]
fn hashes_are_of_shapes() {
    let (_server, mut client) = client();
    for batch in [
        "SELECT b /* h */ FROM t WHERE id = 1",
        "select b /* h */  from t where id = 22",
        "SELECT b /* h */ FROM t WHERE a = 1",
    ] {
        client.done(batch);
    }
    let counted = |column: &str| {
        format!(
            "SELECT COUNT(DISTINCT s.{column}) FROM sys.dm_exec_query_stats s
            CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) x WHERE x.text LIKE '%b /* h *'+'/%'"
        )
    };
    assert_eq!(client.scalar(&counted("query_hash")), "2");
    assert_eq!(client.scalar(&counted("query_plan_hash")), "2");
}

fn shown_behind(client: &mut Client, batch: &str) {
    let out = client.run(batch);
    assert!(out.contains("<ShowPlanXML"), "{out}");
}

#[test]
fn plans_ask_for_rights() {
    let (server, mut admin) = client();
    admin.done(
        "CREATE LOGIN ann WITH PASSWORD = 'Secret-1' CREATE USER ann GRANT SELECT ON h TO ann",
    );
    let mut ann = server.connect_as("ann", "d");
    ann.done("SET SHOWPLAN_XML ON");
    let out = ann.run("SELECT x FROM h");
    assert_eq!(common::errors(&out), [262], "{out}");
    assert!(!out.contains("<ShowPlanXML"), "{out}");
    admin.done("GRANT SHOWPLAN TO ann");
    shown(&mut ann, "SELECT x FROM h");
    let out = ann.run("SELECT b FROM t");
    assert_eq!(common::errors(&out), [229], "{out}");
    ann.done("SET SHOWPLAN_XML OFF");
    ann.done("SET STATISTICS XML ON");
    shown_behind(&mut ann, "SELECT x FROM h");
    admin.done("REVOKE SHOWPLAN TO ann");
    let out = ann.run("SELECT x FROM h");
    assert_eq!(common::errors(&out), [262], "{out}");
    ann.done("SET STATISTICS XML OFF");
    ann.done("SELECT x FROM h");
    let out = ann.run("SELECT * FROM sys.dm_exec_query_plan(0x06)");
    assert!(!common::errors(&out).is_empty(), "{out}");
}

#[test]
fn what_operators_did_stands_in_the_plan() {
    let (_server, mut client) = client();
    client.done("INSERT h SELECT value, 'y' FROM GENERATE_SERIES(1, 5)");
    client.done("INSERT t SELECT value, value, 'x' FROM GENERATE_SERIES(3, 100)");
    client.done("SET STATISTICS XML ON");
    let mut counted = |batch: &str| {
        let out = client.run(batch);
        let documents = out.lines().filter(|l| l.starts_with("<ShowPlanXML"));
        let documents: Vec<Element> = documents.map(parsed).collect();
        let [root] = documents.as_slice() else {
            panic!("one plan: {out}");
        };
        let counts = |relop: &&Element| {
            let thread = relop
                .child("RunTimeInformation")
                .child("RunTimeCountersPerThread");
            let number = |name: &str| thread.attribute(name).parse::<u64>().expect("a number");
            (number("ActualRows"), number("ActualExecutions"))
        };
        root.all("RelOp").iter().map(counts).collect::<Vec<_>>()
    };
    let asked = counted(
        "SELECT h.x FROM h CROSS APPLY (SELECT TOP (1) b FROM t WHERE id >= h.x ORDER BY id) q",
    );
    assert!(asked.contains(&(5, 1)), "{asked:?}");
    assert!(
        asked.iter().any(|(_, executions)| *executions == 5),
        "{asked:?}"
    );
    let hashed = counted("SELECT t.b FROM h JOIN t ON t.id = h.x OPTION (HASH JOIN)");
    assert_eq!(hashed.first(), Some(&(3, 1)));
    assert_eq!(
        counted("UPDATE t SET a = 0 WHERE id = 7"),
        [(1, 1), (1, 1), (1, 1)]
    );
    assert_eq!(counted("DELETE t WHERE id > 98").first(), Some(&(2, 1)));
    assert_eq!(counted("INSERT h VALUES (9, 'z'), (10, 'z')"), [(2, 1)]);
    assert_eq!(
        counted("DECLARE @n int SELECT @n = MAX(x) FROM h").first(),
        Some(&(1, 1))
    );
    client.done("CREATE PROCEDURE p AS SELECT x FROM h");
    let out = client.run("INSERT h (x) EXEC p");
    assert!(!out.contains("Msg"), "{out}");
    client.done("SET STATISTICS XML OFF");
    assert_eq!(
        client.run("SELECT x FROM h WHERE x = 4 AND y = 'y'"),
        "x\n4\n(1 row affected)\n"
    );
}
