//! T-SQL text.

use daruma_syntax::{
    ParseOptions, parse_batch, parse_condition, parse_expression, parse_object_name,
    parse_parameter_definitions, parse_type, print_batch,
};

/// No text panics or recurses without bound; a batch that parses prints to one that parses to the same.
pub fn parser(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for quoted_identifier in [true, false] {
        let options = ParseOptions { quoted_identifier };
        batch(&text, &options);
        drop(parse_expression(&text, &options));
        drop(parse_condition(&text, &options));
        drop(parse_type(&text, &options));
        drop(parse_object_name(&text, &options));
        drop(parse_parameter_definitions(&text, &options));
    }
}

fn batch(text: &str, options: &ParseOptions) {
    let Ok(statements) = parse_batch(text, options) else {
        return;
    };
    let printed = print_batch(&statements);
    // Names are printed in brackets or double quotes, which need the option to be names again.
    let options = ParseOptions {
        quoted_identifier: true,
    };
    match parse_batch(&printed, &options) {
        Ok(again) => assert!(again == statements, "means something else:\n{printed}"),
        Err(errors) => panic!("{}:\n{printed}", errors[0]),
    }
}
