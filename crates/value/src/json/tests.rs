//! Texts, paths and changes; random texts never panic.

use super::*;
use proptest::prelude::*;

fn at(text: &str) -> Vec<String> {
    let error = parse(text).unwrap_err();
    error.args().iter().map(ToString::to_string).collect()
}

fn found(text: &str, path: &str) -> Option<String> {
    let path = Path::parse(path).unwrap();
    path.find(parse(text).unwrap()).map(|n| n.text.to_string())
}

#[test]
fn faults_are_told_by_place() {
    for (text, found, place) in [
        ("", ".", "0"),
        ("{\"a\":1", ".", "6"),
        ("{\"a\" 1}", "1", "5"),
        ("[1,]", "]", "3"),
        ("{,}", ",", "1"),
        ("[01]", "1", "2"),
        ("[1.]", "]", "3"),
        ("[tru]", "]", "4"),
        ("[\"\\x\"]", "x", "3"),
        ("[\"\u{1F600}\" x]", "x", "6"),
        ("{} x", "x", "3"),
        ("nan", "a", "1"),
    ] {
        assert_eq!(at(text), [found, place], "{text}");
    }
    assert!(parse_container(" 12 ").is_err());
    assert!(parse_container("\n[ ]\t").is_ok());
}

#[test]
fn nesting_has_a_bound() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse(&nested(DEPTH_MAX)).is_ok());
    assert!(parse(&nested(DEPTH_MAX + 1)).is_err());
    assert!(parse(&"[".repeat(1 << 20)).is_err());
}

#[test]
fn paths_lead_to_texts() {
    let text = r#"{ "a": 1.50, "b c": [ {"x": "\u0041\/"}, null ], "a": 2, "": true }"#;
    assert_eq!(found(text, "$.a").as_deref(), Some("1.50"));
    assert_eq!(
        found(text, "lax $.\"b c\"[0].x").as_deref(),
        Some(r#""\u0041\/""#)
    );
    assert_eq!(found(text, "strict $.\"b c\"[1] ").as_deref(), Some("null"));
    assert_eq!(found(text, "$.\"\"").as_deref(), Some("true"));
    for nowhere in ["$.A", "$[0]", "$.a.b", "$.\"b c\"[2]"] {
        assert_eq!(found(text, nowhere), None, "{nowhere}");
    }
    let node = parse(text).unwrap();
    let keys: Vec<String> = node.members().map(|(k, _)| k.into_owned()).collect();
    assert_eq!(keys, ["a", "b c", "a", ""]);
    let x = Path::parse("$.\"b c\"[0].x").unwrap().find(node).unwrap();
    assert_eq!(x.content(), "A/");
    assert_eq!(
        parse(r#""\ud83d\ude00\ud83d""#).unwrap().content(),
        "\u{1F600}\u{FFFD}"
    );
}

#[test]
fn wrong_paths_are_told_by_place() {
    for (path, found, place) in [
        ("", ".", "0"),
        ("a", "a", "0"),
        ("$a", "a", "1"),
        ("$.", ".", "2"),
        ("$[x]", "x", "2"),
        ("$[99999999999999999999999]", "9", "2"),
        ("$.a b", " ", "3"),
        ("$.\"a", ".", "4"),
        ("strict$.a", "s", "0"),
    ] {
        let error = Path::parse(path).unwrap_err();
        let args: Vec<&str> = error.args().iter().map(|a| a.as_str()).collect();
        assert_eq!(args, [found, place], "{path}");
    }
}

#[test]
fn changes_keep_the_rest() {
    let change = |text: &str, path: &str, value: Option<&str>| {
        modify(text, &Path::parse(path).unwrap(), value).map_err(|e| e.number())
    };
    let ok = |text: &str| Ok(text.to_string());
    let text = r#"{"a": 1, "b": [1, 2] , "c": {}}"#;
    assert_eq!(
        change(text, "$.a", Some("9")),
        ok(r#"{"a": 9, "b": [1, 2] , "c": {}}"#)
    );
    assert_eq!(
        change(text, "$.b[1]", None),
        ok(r#"{"a": 1, "b": [1, null] , "c": {}}"#)
    );
    assert_eq!(
        change(text, "$.c.d", Some("\"x\"")),
        ok(r#"{"a": 1, "b": [1, 2] , "c": {"d":"x"}}"#)
    );
    assert_eq!(
        change(text, "$.z", Some("0")),
        ok(r#"{"a": 1, "b": [1, 2] , "c": {},"z":0}"#)
    );
    assert_eq!(
        change(text, "append $.b", Some("3")),
        ok(r#"{"a": 1, "b": [1, 2,3] , "c": {}}"#)
    );
    assert_eq!(
        change(text, "append $.n", Some("3")),
        ok(r#"{"a": 1, "b": [1, 2] , "c": {},"n":[3]}"#)
    );
    assert_eq!(change(text, "$.a", None), ok(r#"{ "b": [1, 2] , "c": {}}"#));
    assert_eq!(change(text, "$.b", None), ok(r#"{"a": 1 , "c": {}}"#));
    assert_eq!(change(text, "$.c", None), ok(r#"{"a": 1, "b": [1, 2]}"#));
    assert_eq!(change(r#"{"a":1}"#, "$.a", None), ok("{}"));
    assert_eq!(
        change(text, "strict $.a", None),
        ok(r#"{"a": null, "b": [1, 2] , "c": {}}"#)
    );
    for unchanged in ["$.x.y", "$[0]", "$.b[7]", "append $.a"] {
        assert_eq!(change(text, unchanged, Some("1")), ok(text), "{unchanged}");
    }
    assert_eq!(change(text, "strict $.z", Some("1")), Err(13608));
    assert_eq!(change(text, "append strict $.a", Some("1")), Err(13624));
    assert_eq!(change(text, "$", Some("1")), Err(13619));
    assert_eq!(change("[1]", "append $", Some("2")), ok("[1,2]"));
    assert_eq!(change("1", "$.a", Some("2")), Err(13609));
}

#[test]
fn strings_are_escaped_and_read_back() {
    let mut out = String::new();
    put_string(&mut out, "a\"\\/\u{8}\n\u{1}\u{e4}");
    assert_eq!(out, "\"a\\\"\\\\\\/\\b\\n\\u0001\u{e4}\"");
    assert_eq!(parse(&out).unwrap().content(), "a\"\\/\u{8}\n\u{1}\u{e4}");
}

proptest! {
    #[test]
    fn any_text_is_checked(text in "[\\[\\]{}:,\"\\\\ 0-9.eE+truefalsn\u{e4}-]{0,40}", path in "[$.\\[\\]a0\" strict]{0,12}") {
        // What a library reads is read here too, and the other way round.
        let ours = parse(&text).is_ok();
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        // A number too large for a float is one here.
        let differs = theirs.as_ref().is_err_and(|e| e.to_string().contains("number out of range") || e.to_string().contains("surrogate"));
        prop_assert!(differs || ours == theirs.is_ok(), "{text}");
        if let (Ok(node), Ok(path)) = (parse(&text), Path::parse(&path)) {
            let _ = path.find(node);
            if let Ok(changed) = modify(&text, &path, Some("1")) {
                prop_assert!(parse(&changed).is_ok(), "{changed}");
            }
            if let Ok(changed) = modify(&text, &path, None) {
                prop_assert!(parse(&changed).is_ok(), "{changed}");
            }
        }
    }

    #[test]
    fn strings_go_and_come(text in ".{0,30}") {
        let mut out = String::new();
        put_string(&mut out, &text);
        prop_assert_eq!(parse(&out).unwrap().content().into_owned(), text);
    }
}
