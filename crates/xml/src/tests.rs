//! Queries over a small shop, what makes no sense, bounds, and random queries that must not panic.

use super::*;
use proptest::prelude::*;
use std::cell::Cell;

/// Lets everything go on.
struct Free;

impl Meter for Free {
    fn goes_on(&self, _: usize) -> bool {
        true
    }
}

/// Lets so many questions pass.
struct Few(Cell<u32>);

impl Meter for Few {
    fn goes_on(&self, _: usize) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() > 0
    }
}

const SHOP: &str = r#"<shop xmlns:p="urn:p"><item id="1" p:k="x"><name>Tea</name><price>2.50</price></item><item id="2"><name>Milk</name><price>1.20</price></item><item id="10"><name>Jam</name><price>4</price></item><!--end--></shop>"#;

fn run(document: &str, text: &str) -> Result<String> {
    let document = Document::parse(document, &Free)?;
    let query = Query::parse(Method::Query, text, &[])?;
    query.check(&[], false)?;
    query.query(&document, None, &[], &Free)
}

fn modified(document: &str, text: &str) -> Result<String> {
    let document = Document::parse(document, &Free)?;
    let query = Query::parse(Method::Modify, text, &[])?;
    query.check(&[], false)?;
    query.modify(&document, &[], &Free)
}

fn number(found: Result<String>) -> i32 {
    match found {
        Err(Error::Query { number, .. }) => number,
        Err(Error::Document(error)) => error.number(),
        Err(Error::Stopped) => -1,
        Ok(_) => 0,
    }
}

#[track_caller]
fn check(text: &str, wanted: &str) {
    assert_eq!(run(SHOP, text).as_deref(), Ok(wanted), "{text}");
}

#[test]
fn paths_and_predicates() {
    check("/shop/item[1]/name", "<name>Tea</name>");
    check("//item[@id=\"2\"]/name/text()", "Milk");
    check("(//name)[last()]", "<name>Jam</name>");
    check("count(/shop/*)", "3");
    check("data(//item/@id)", "1 2 10");
    check("/shop/item[price > 2]/name/text()", "TeaJam");
    check("//name[. = 'Jam']/../price", "<price>4</price>");
    check("/shop/item[position() = 2]/@*/..//name/text()", "Milk");
    check("string((//item/attribute::id)[1])", "1");
    check("count(//node())", "17");
    check("/shop/comment()", "<!--end-->");
    check(
        "/shop/self::shop/child::item[3]/descendant-or-self::price/text()",
        "4",
    );
    check(
        "declare namespace q=\"urn:p\"; string((//item/@q:k)[1])",
        "x",
    );
    check("local-name((/shop/item/@*)[2])", "k");
    check("namespace-uri((/shop/item/@*)[2])", "urn:p");
    check("//item[not(@id = (\"1\", \"2\"))]/name/text()", "Jam");
    check("/shop/item[name and price < 2]/name/text()", "Milk");
    check("//*:name[1]/text()", "TeaMilkJam");
    check("(: a (: nested :) comment :) 1 + 1", "2");
}

#[test]
fn expressions() {
    check("1 + 2 * 3 - 4", "3");
    check("7 div 2", "3.5");
    check("7 mod 4", "3");
    check("7 idiv 2", "3");
    check("-(2) + 1", "-1");
    check("1.50 + 1", "2.5");
    check("1 div 0", "");
    check("xs:int('12') + 1", "13");
    check("xs:int('twelve')", "");
    check("'a' eq 'a'", "true");
    check("xs:date('2026-03-01') lt xs:date('2026-03-02')", "true");
    check("if (count(//item) > 2) then 'many' else 'few'", "many");
    check("some $i in //item satisfies $i/price > 3", "true");
    check("every $i in //item satisfies $i/price > 3", "false");
    check(
        "for $i in //item order by $i/name[1] return string($i/name[1])",
        "Jam Milk Tea",
    );
    check(
        "for $i in //item let $n := $i/name where $i/price > 2 order by number($i/@id) descending return data($n)",
        "Jam Tea",
    );
    check(
        "for $a in (1, 2), $b in (10, 20) return $a * $b",
        "10 20 20 40",
    );
    check("(//item)[1] is (//item)[1]", "true");
    check("(//item)[1] << (//item)[2]", "true");
    check("1 cast as xs:string", "1");
    check("'1' instance of xs:string", "true");
    check("()", "");
}

#[test]
fn functions() {
    check("sum(//price)", "7.7");
    check("max(//item/@id)", "10");
    check("min(//price)", "1.2");
    check("avg((1, 2))", "1.5");
    check("concat('a', 'b', 'c')", "abc");
    check("contains('abc', 'bc')", "true");
    check("substring('abcde', 2, 3)", "bcd");
    check("substring('abcde', 0, 3)", "ab");
    check("string-length('abc')", "3");
    check("upper-case('aé')", "AÉ");
    check("lower-case('AB')", "ab");
    check("round(2.5)", "3");
    check("floor(-1.5)", "-2");
    check("ceiling(1.2e0)", "2");
    check("number('x')", "NaN");
    check("distinct-values((1, 2, 1, 1.0))", "1 2");
    check("empty(//nothing)", "true");
    check("not(true())", "false");
    check("count(distinct-values(//item/name))", "3");
    check("1e7", "1.0E7");
}

#[test]
fn constructors() {
    check(
        "<a b=\"{1 + 1}\">{//item[1]/name}</a>",
        "<a b=\"2\"><name>Tea</name></a>",
    );
    check("<a> <b/> x{{y}} </a>", "<a><b/> x{y} </a>");
    check("<a>{1, 2, 'x'}</a>", "<a>1 2 x</a>");
    check("<a>{(//item)[1]/@id}</a>", "<a id=\"1\"/>");
    check(
        "for $i in //item return <n v=\"{$i/@id}\"/>",
        "<n v=\"1\"/><n v=\"2\"/><n v=\"10\"/>",
    );
    check(
        "element x {attribute y {1}, text {'z'}}",
        "<x y=\"1\">z</x>",
    );
    check(
        "<p:a xmlns:p=\"urn:a\"><p:b/></p:a>",
        "<p:a xmlns:p=\"urn:a\"><p:b/></p:a>",
    );
    check(
        "declare default element namespace \"urn:d\"; <a><b/></a>",
        "<a xmlns=\"urn:d\"><b/></a>",
    );
    check(
        "<a>&lt;<![CDATA[&]]><!--c--></a>",
        "<a>&lt;&amp;<!--c--></a>",
    );
    check("(<a><b>1</b></a>)/b/text()", "1");
    assert_eq!(
        run("<p:a xmlns:p=\"u\"><p:b/></p:a>", "/*/*").as_deref(),
        Ok("<p:b xmlns:p=\"u\"/>")
    );
    check(
        "<p:x xmlns:p=\"u\">{<q xmlns:p=\"v\" p:k=\"1\"/>/@*}</p:x>",
        "<p:x xmlns:p=\"u\" xmlns:p1=\"v\" p1:k=\"1\"/>",
    );
}

#[test]
fn what_makes_no_sense_has_a_number() {
    for (text, wanted) in [
        ("/a/", 9341),
        ("/a[", 9341),
        ("/a/@", 2256),
        ("/a[1, 2]", 9303),
        ("for $i /a return 1", 2205),
        ("let $i = 1 return $i", 2205),
        ("comment {1}", 9326),
        ("declare namespace xml=\"u\"; 1", 2206),
        ("declare namespace 1=\"u\"; 1", 2223),
        ("declare namespace p=u; 1", 2225),
        ("1 cast as nothing", 2231),
        ("for $x in 1, y in 2 return 1", 2241),
        ("<?p d", 2272),
        ("<a><![CDATA[x</a>", 2273),
        ("<!x>", 2280),
        ("'&nope;'", 2282),
        ("'&#0;'", 2285),
        ("'&#xFFFE;'", 2285),
        ("'&#+65;'", 2285),
        ("'&#x+41;'", 2285),
        ("'&#;'", 2285),
        ("<?xml d?>", 2294),
        ("(: x", 2340),
        ("<a b='<'/>", 2350),
        ("1/a", 2374),
        ("<a>}</a>", 2209),
        ("processing-instruction {1}", 9325),
        ("element {'x'} {1}", 9315),
        ("if (true()) then 1 else <a/>", 2210),
        ("1 2", 2370),
        ("foo(1)", 2395),
        ("contains('a')", 2236),
        ("count(1, 2)", 2238),
        ("q:a", 2229),
        ("$x", 2227),
        ("position()", 2371),
        ("following-sibling::a", 9335),
        ("sideways::a", 2392),
        ("1 to 2", 9335),
        ("a | b", 9335),
        ("/a/@b", 2396),
        ("'a' = 1", 2234),
        ("'a' + 1", 9308),
        ("(1, <a/>)", 2210),
        ("if (1) then 2 else 3", 2204),
        ("/a['x']", 2203),
        ("//a + 1", 2389),
        ("string(//a)", 2389),
        ("if (true()) then 1", 2355),
        ("for $x in 1", 9332),
        ("'abc", 2274),
        ("<a></b>", 2267),
        ("<a b='1' b='2'/>", 2271),
        ("1a", 2342),
        ("xs:nothing(1)", 2395),
        ("1 cast as xs:nothing", 2232),
        ("  ", 6306),
        ("<a>\u{1}</a>", 2333),
        ("<!--a--b-->", 2350),
    ] {
        assert_eq!(number(run("<a/>", text)), wanted, "{text}");
    }
    for (text, wanted) in [
        ("/a/b", 2389),
        ("(/a/b)[1]", 0),
        ("/a[1]/b[1]", 0),
        ("//@x", 2389),
        ("count(//a)", 0),
    ] {
        let query = Query::parse(Method::Value, text, &[]);
        let found = query
            .and_then(|q| q.check(&[], false))
            .map(|()| String::new());
        assert_eq!(number(found), wanted, "{text}");
    }
}

#[test]
fn documents_change() {
    for (text, wanted) in [
        ("insert <c/> into (/a)[1]", "<a><b x=\"1\">t</b><c/></a>"),
        (
            "insert <c/> as first into (/a)[1]",
            "<a><c/><b x=\"1\">t</b></a>",
        ),
        (
            "insert <c/> before (/a/b)[1]",
            "<a><c/><b x=\"1\">t</b></a>",
        ),
        (
            "insert (<c/>, <d/>) after (/a/b)[1]",
            "<a><b x=\"1\">t</b><c/><d/></a>",
        ),
        (
            "insert attribute y {2} into (/a/b)[1]",
            "<a><b x=\"1\" y=\"2\">t</b></a>",
        ),
        (
            "insert attribute y {2} as first into (/a/b)[1]",
            "<a><b x=\"1\" y=\"2\">t</b></a>",
        ),
        (
            "insert text {'u'} into (/a/b)[1]",
            "<a><b x=\"1\">tu</b></a>",
        ),
        ("insert <c/> into (/nothing)[1]", "<a><b x=\"1\">t</b></a>"),
        ("delete /a/b", "<a/>"),
        ("delete //@x", "<a><b>t</b></a>"),
        ("delete //text()", "<a><b x=\"1\"/></a>"),
        (
            "replace value of (/a/b/@x)[1] with 1 + 1",
            "<a><b x=\"2\">t</b></a>",
        ),
        (
            "replace value of (/a/b/text())[1] with 'a<b'",
            "<a><b x=\"1\">a&lt;b</b></a>",
        ),
        (
            "replace value of (/a/b/text())[1] with ()",
            "<a><b x=\"1\"/></a>",
        ),
        (
            "replace value of (/a/b/@x)[1] with if (/a/b = 't') then 'yes' else 'no'",
            "<a><b x=\"yes\">t</b></a>",
        ),
    ] {
        assert_eq!(
            modified("<a><b x=\"1\">t</b></a>", text).as_deref(),
            Ok(wanted),
            "{text}"
        );
    }
    let many = modified(
        "<a m='1' n='2' o='3'/>",
        "insert (attribute z {9}, attribute y {8}) into (/a)[1]",
    );
    assert_eq!(
        many.as_deref(),
        Ok("<a m=\"1\" z=\"9\" n=\"2\" y=\"8\" o=\"3\"/>")
    );
    for (text, wanted) in [
        ("insert <c/> into /a", 2226),
        ("insert 1 into (/a)[1]", 2207),
        ("insert <c/> as third into (/a)[1]", 2351),
        ("insert <c/> into <d/>", 2359),
        ("insert <c/> into (/a/@x)[1]", 2240),
        ("insert <c/> after (/a/@x)[1]", 2249),
        ("insert attribute x {1} before (/a/b)[1]", 2258),
        ("insert attribute x {1} into (/a/b)[1]", 6308),
        ("replace value of (/a/@x)[1] with <b/>", 9310),
        ("replace value of (/a/@x)[1]", 2205),
        ("count(/a)", 6305),
        ("delete /", 2264),
        ("replace value of /a/b/text() with 1", 2337),
        ("replace value of (/a/b)[1] with 1", 2356),
        ("rename /a", 6305),
        ("insert <c/> under (/a)[1]", 2248),
    ] {
        let found = modified("<a><b x=\"1\">t</b></a>", text);
        assert_eq!(number(found), wanted, "{text}");
    }
}

#[test]
fn what_is_too_deep_is_an_error() {
    let deep = |open: &str, inside: &str, close: &str| {
        format!("{}{inside}{}", open.repeat(5_000), close.repeat(5_000))
    };
    assert_eq!(number(run("<a/>", &deep("(", "1", ")"))), 2363);
    assert_eq!(number(run("<a/>", &deep("<a>", "", "</a>"))), 2363);
    assert_eq!(number(run("<a/>", &deep("-", "1", ""))), 2363);
    assert_eq!(number(run("<a/>", &deep("a[", "1", "]"))), 2363);
    assert_eq!(number(run("<a/>", &deep("1 + ", "1", ""))), 2363);
    assert_eq!(number(run("<a/>", &deep("a/", "a", ""))), 2363);
    assert_eq!(
        number(run("<a/>", &deep("if (true()) then ", "1", " else 1"))),
        2363
    );
    assert_eq!(number(run(&deep("<a>", "", "</a>"), "1")), 6335);
    let document = format!("{}{}", "<a>".repeat(120), "</a>".repeat(120));
    let wrapped = format!("{}{{/*}}{}", "<b>".repeat(20), "</b>".repeat(20));
    assert_eq!(number(run(&document, &wrapped)), 6335);
}

#[test]
fn a_meter_that_says_no_ends_a_run() {
    let document = format!("<a>{}</a>", "<b/>".repeat(500));
    let document = Document::parse(&document, &Free).expect("document");
    let text = "count(for $a in //b, $b in //b, $c in //b return 1)";
    let query = Query::parse(Method::Query, text, &[]).expect("query");
    let meter = Few(Cell::new(10));
    assert_eq!(
        query.query(&document, None, &[], &meter),
        Err(Error::Stopped)
    );
    // Each `let` doubles the text.
    let doubled: String = (0..40)
        .map(|n| format!("let $t{} := concat($t{n}, $t{n}) ", n + 1))
        .collect();
    let text = format!("let $t0 := 'aaaaaaaa' {doubled} return string-length($t40)");
    let query = Query::parse(Method::Query, &text, &[]).expect("query");
    let meter = Few(Cell::new(10));
    assert_eq!(
        query.query(&document, None, &[], &meter),
        Err(Error::Stopped)
    );
    let large = format!("<a>{}</a>", "<b/>".repeat(100_000));
    assert!(matches!(
        Document::parse(&large, &Few(Cell::new(2))),
        Err(Error::Stopped)
    ));
}

#[test]
fn externals_and_nodes() {
    let document = Document::parse(SHOP, &Free).expect("document");
    let text = "/shop/item[@id = sql:variable(\"@id\")]";
    let query = Query::parse(Method::Nodes, text, &[]).expect("query");
    assert_eq!(query.externals(), [External::Variable("@id".into())]);
    query.check(&[AtomType::Integer], false).expect("types");
    let given = [Given::Atom(Atom::Integer(10))];
    let nodes = query.nodes(&document, None, &given, &Free).expect("nodes");
    assert_eq!(nodes.len(), 1);
    let query = Query::parse(Method::Value, "name[1]", &[]).expect("query");
    query.check(&[], true).expect("types");
    let found = query.value(&document, nodes.first().copied(), &[], &Free);
    assert_eq!(found, Ok(Some(Atom::Untyped("Jam".into()))));
    let made = Query::parse(Method::Nodes, "<a/>", &[]).expect("query");
    let found = made.nodes(&document, None, &[], &Free);
    assert_eq!(number(found.map(|_| String::new())), 2373);
    // A place that the document does not have gives nothing.
    assert_eq!(query.value(&document, Some(1 << 30), &[], &Free), Ok(None));
}

/// Pieces that queries are made of, so that some of what is put together has a meaning.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "/",
        "//",
        "a",
        "b",
        "@x",
        "*",
        ".",
        "..",
        "[",
        "]",
        "(",
        ")",
        "1",
        "2.5",
        "'t'",
        "=",
        "<",
        "<<",
        "eq",
        "and",
        "or",
        "+",
        "-",
        "div",
        "for $v in ",
        "let $v := ",
        "return ",
        "$v",
        "where ",
        "order by ",
        "if (",
        ") then ",
        " else ",
        "some $v in ",
        " satisfies ",
        "<a>",
        "</a>",
        "<b x=\"",
        "\"/>",
        "{",
        "}",
        "count(",
        "string(",
        "last()",
        "position()",
        "text()",
        "node()",
        "sum(",
        "data(",
        ",",
        "::",
        "self",
        "xs:int(",
        "not(",
        "&lt;",
        "(:",
        ":)",
        "insert ",
        " into ",
        "delete ",
        "replace value of ",
        " with ",
        " as first",
        " cast as xs:int",
        "declare namespace p=\"u\";",
        "p:a",
        "sql:variable(\"@x\")",
        "substring(",
        "avg(",
        "distinct-values(",
        "é",
    ];
    prop::sample::select(pieces.to_vec()).prop_map(str::to_string)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn no_query_panics(pieces in prop::collection::vec(piece(), 0..24)) {
        let text: String = pieces.join(" ");
        let document = Document::parse("<a x='1'><b x='2'>t<a/></b><!--c--><?p d?></a>", &Free).expect("document");
        for method in [Method::Query, Method::Modify, Method::Nodes, Method::Value] {
            let Ok(query) = Query::parse(method, &text, &[]) else {
                continue;
            };
            let types = vec![AtomType::Integer; query.externals().len()];
            let given = vec![Given::Atom(Atom::Integer(1)); query.externals().len()];
            let checked = query.check(&types, false);
            // What the check refuses must not panic either.
            let meter = Few(Cell::new(200));
            let _ = query.nodes(&document, None, &given, &meter);
            let _ = query.value(&document, None, &given, &meter);
            let shown = query.query(&document, None, &given, &meter);
            if let (Method::Query, Ok(shown), Ok(())) = (method, shown, &checked) {
                prop_assert!(Document::parse(&shown, &Free).is_ok(), "{} gave {}", text, shown);
            }
            if let (Method::Modify, Ok(shown), Ok(())) =
                (method, query.modify(&document, &given, &meter), &checked)
            {
                prop_assert!(Document::parse(&shown, &Free).is_ok(), "{} gave {}", text, shown);
            }
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,80}", pieces in prop::collection::vec(piece(), 0..12)) {
        for text in [text, pieces.concat()] {
            let _ = Document::parse(&text, &Free);
            let _ = Query::parse(Method::Query, &text, &[]);
            let _ = Query::parse(Method::Modify, &text, &[]);
        }
    }
}

/// Each of these once cost a server: time that doubles with each level, or a stack.
#[test]
fn what_is_nested_costs_no_more_than_its_length() {
    let nots = format!("{}true(){}", "not(".repeat(80), ")".repeat(80));
    check(&nots, "true");
    let mut text = String::from("let $v0 := <a/> ");
    for n in 1..40 {
        let (open, close) = ("<a>".repeat(20), "</a>".repeat(20));
        text += &format!("let $v{n} := {open}{{$v{}}}{close} ", n - 1);
    }
    text += "return $v39";
    assert_eq!(number(run("<a/>", &text)), 6335);
    let attributes: String = (0..5_000).map(|n| format!("a{n}=\"\" ")).collect();
    assert_eq!(number(run("<a/>", &format!("<a {attributes}/>"))), 2363);
}

#[test]
fn the_meter_is_asked_whatever_the_document_is_made_of() {
    for part in ["<a b=\"\"/>", "<a/>", "<a b=\"\" c=\"\"/>", "<!---->"] {
        let found = Document::parse(&part.repeat(50_000), &Few(Cell::new(3)));
        assert!(found.is_err(), "{part}");
    }
    let many: String = (0..20_000)
        .map(|n| format!(" xmlns:p{n}=\"u\" p{n}:x{n}=\"\""))
        .collect();
    let text = format!("<a{many}/>");
    let document = Document::parse(&text, &Free).expect("a document");
    let query = Query::parse(Method::Query, "/*", &[]).expect("a query");
    let written = query.query(&document, None, &[], &Few(Cell::new(20)));
    assert_eq!(written, Err(Error::Stopped));
}

#[test]
fn types_that_may_be_nothing_and_short_times() {
    check("() instance of xs:integer?", "true");
    check("1 instance of xs:integer?", "true");
    check("() instance of xs:integer", "false");
    check("xs:time(\"10:20:30\")", "10:20:30");
    assert_eq!(
        number(run("<a/>", "<a>{attribute xmlns {\"u\"}}</a>")),
        2229
    );
}

#[test]
fn blanks_that_were_meant_stay() {
    let document = "<a b=\"&#x09;&#x0A;&#x0D;\">&#x20;<c>1&#x0D;2</c></a>";
    assert_eq!(run(document, "/a").as_deref(), Ok(document));
    assert_eq!(modified(document, "delete /a/d").as_deref(), Ok(document));
    check("<a>{' '}</a>", "<a>&#x20;</a>");
    check("<a>&#x20;</a>", "<a>&#x20;</a>");
    check("' '", "&#x20;");
    // The ends of lines of a query are one, however it was sent.
    check("<a>1\r\n2\r3</a>", "<a>1\n2\n3</a>");
    check("<a>&#xD;</a>", "<a>&#x0D;</a>");
}

#[test]
fn a_path_gives_each_node_once_and_in_order() {
    let document = "<r><a><c>1</c></a><b><c>2</c></b></r>";
    for (text, wanted) in [
        ("/r/(b, a)", "<a><c>1</c></a><b><c>2</c></b>"),
        ("/r/(b/c, a/c, b/c)", "<c>1</c><c>2</c>"),
        ("(//b, //a)/c", "<c>1</c><c>2</c>"),
        ("(//a, //a)/c", "<c>1</c>"),
        ("count(//c/../..)", "1"),
        ("count(/r/(a, a))", "1"),
    ] {
        assert_eq!(run(document, text).as_deref(), Ok(wanted), "{text}");
    }
}

/// A text that is told in one piece is looked at too.
#[test]
fn what_a_query_writes_has_a_bound_up_to_its_end() {
    struct Small;
    impl Meter for Small {
        fn goes_on(&self, bytes: usize) -> bool {
            bytes < 200_000
        }
    }
    let document = format!("<a>{}</a>", "x".repeat(150_000));
    let document = Document::parse(&document, &Free).expect("a document");
    for text in ["/a/text()", "data(/a)", "<b>{/a/text()}</b>", "(/a, 1)"] {
        let query = Query::parse(Method::Query, text, &[]).expect("a query");
        assert!(query.query(&document, None, &[], &Small).is_ok(), "{text}");
    }
    for text in ["(data(/a), data(/a))", "(/a/text(), /a/text())"] {
        let query = Query::parse(Method::Query, text, &[]).expect("a query");
        let found = query.query(&document, None, &[], &Small);
        assert_eq!(found, Err(Error::Stopped), "{text}");
    }
}

#[test]
fn a_prepared_document_has_rows_and_edges() {
    let text = "<r xmlns:p='urn:p'>\n <a k='1' p:k='2'>x<b/>y</a>\n <a><k>3</k></a><!--c--></r>";
    let declares = "<n xmlns:q='urn:p'/>";
    let prepared = Prepared::parse(text, Some(declares), &Free).expect("a document");
    let pattern = |text: &str| prepared.pattern(text).expect("a pattern");
    let rows = |text: &str| prepared.nodes(&pattern(text), None, &Free).expect("rows");
    let all = rows("/r/a");
    let of = |row: usize, text: &str| {
        prepared
            .cell(&pattern(text), all[row], false, &Free)
            .expect("a cell")
    };
    let shown = |text: &str| Some(Found::Text(text.to_string()));
    assert_eq!(all.len(), 2);
    assert_eq!(of(0, "@k"), shown("1"));
    assert_eq!(of(0, "@q:k"), shown("2"));
    assert_eq!(of(0, "text()"), shown("x"));
    assert_eq!(of(0, "."), shown("xy"));
    assert_eq!(of(1, "k"), shown("3"));
    assert_eq!(of(1, "@k"), None);
    assert_eq!(of(1, "@mp:localname"), shown("a"));
    assert_eq!(of(1, "@mp:parentid"), Some(Found::Number(0)));
    assert_eq!(of(1, "k/@mp:parentlocalname"), shown("a"));
    assert_eq!(of(0, "@mp:prev"), None);
    assert_eq!(of(1, "@mp:prev"), of(0, "@mp:id"));
    assert_eq!(of(0, "@q:k/@mp:namespaceuri"), shown("urn:p"));
    assert_eq!(of(1, "@mp:xmltext"), shown("<a><k>3</k></a>"));
    let named = |row: usize, name: &str, mapping| {
        prepared
            .named(name, all[row], mapping, false, &Free)
            .expect("a cell")
    };
    assert_eq!(named(0, "k", Mapping::Attributes), shown("1"));
    assert_eq!(named(0, "q:k", Mapping::Attributes), shown("2"));
    assert_eq!(named(1, "k", Mapping::Attributes), None);
    assert_eq!(named(1, "k", Mapping::Elements), shown("3"));
    assert_eq!(named(1, "k", Mapping::Both), shown("3"));
    assert_eq!(named(1, "zz:k", Mapping::Both), None);

    let edges = prepared.edges(&rows("/"), &Free).expect("edges");
    let lines: Vec<String> = edges
        .iter()
        .map(|e| {
            format!(
                "{} {:?} {} {} {:?} {:?}",
                e.id, e.parent, e.kind, e.local, e.previous, e.text
            )
        })
        .collect();
    assert_eq!(edges.len(), 13, "{lines:#?}");
    assert!(
        edges
            .iter()
            .all(|e| e.parent.is_none_or(|p| edges.iter().any(|o| o.id == p)))
    );
    let ids: std::collections::HashSet<i64> = edges.iter().map(|e| e.id).collect();
    assert_eq!(ids.len(), edges.len());
    assert_eq!(
        prepared.edges(&rows("/r/a"), &Free).expect("edges").len(),
        11
    );

    for text in ["", "<a/><b/>", "x<a/>", "<a>", "plain"] {
        assert!(Prepared::parse(text, None, &Free).is_err(), "{text}");
    }
    for text in ["/a[", "sql:variable(\"@x\")", "q2:a", ""] {
        assert!(prepared.pattern(text).is_err(), "{text}");
    }
}

#[test]
fn edges_are_looked_at_whatever_their_number() {
    struct Never;
    impl Meter for Never {
        fn goes_on(&self, _: usize) -> bool {
            false
        }
    }
    // An attribute is two edges: behind a comment and an element their number stays even.
    let attributes: String = (0..3000).map(|n| format!(" k{n}='v'")).collect();
    let many = format!("<!--c--><r{attributes}/>");
    // Few edges, each of which repeats what is long.
    let long = format!(
        "<r xmlns='{}'>{}</r>",
        "u".repeat(10_000),
        "<a/>".repeat(100)
    );
    for text in [many, long] {
        let prepared = Prepared::parse(&text, None, &Free).expect("a document");
        assert_eq!(prepared.edges(&[0], &Never).err(), Some(Error::Stopped));
        assert!(prepared.edges(&[0], &Free).is_ok());
    }
}

#[test]
fn a_prepared_document_counts_what_patterns_may_name() {
    let uri = "u".repeat(1000);
    let declared: String = (0..100).map(|n| format!(" xmlns:p{n}='{uri}'")).collect();
    let bytes = |declares: &str| {
        let prepared = Prepared::parse("<a/>", Some(declares), &Free);
        prepared.expect("a document").bytes()
    };
    assert!(bytes(&format!("<n{declared}/>")) >= bytes("<n/>") + 100 * 1000);
}

#[test]
fn the_node_before_is_the_one_that_edges_tell() {
    let text = "<!--c--><r xmlns:p='u' k='1'>t<a m='1'><b/><b><c/>x</b></a><a/><?i d?>y<a n='2'/></r><!--e-->";
    let prepared = Prepared::parse(text, None, &Free).expect("a document");
    let pattern = prepared.pattern("@mp:prev").expect("a pattern");
    let edges = prepared.edges(&[0], &Free).expect("edges");
    let root = edges.iter().find(|e| e.local == "r").map(|e| e.id);
    assert_eq!(root, Some(0));
    let mut compared = 0;
    for edge in edges.iter().filter(|e| e.kind != 2 && e.id != 0) {
        let Ok(node) = NodeId::try_from(edge.id) else {
            continue;
        };
        // The text of an attribute has no place in the document.
        if edges
            .iter()
            .any(|e| e.kind == 2 && Some(e.id) == edge.parent)
        {
            continue;
        }
        let found = prepared.cell(&pattern, node, false, &Free).expect("a cell");
        assert_eq!(found, edge.previous.map(Found::Number), "{edge:?}");
        compared += 1;
    }
    assert_eq!(compared, 12);
}
