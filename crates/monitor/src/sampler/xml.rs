//! Bits of XML whose shape is known: what a server sends is looked through for a few places, and the rest is passed over.
//!
//! Invariant: nothing is too long or too strange for it; what is not there is `None`.

/// What stands between two marks.
pub fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(from)?;
    Some(rest.split_once(to)?.0)
}

/// The value of an attribute in the head of an element.
pub fn attribute(head: &str, name: &str) -> Option<String> {
    let mut rest = head;
    while let Some(at) = rest.find(name) {
        let (before, from) = rest.split_at_checked(at)?;
        let behind = from.get(name.len()..)?;
        if (before.is_empty() || before.ends_with(char::is_whitespace)) && behind.starts_with('=') {
            let quote = behind.chars().nth(1)?;
            let value = behind.get(2..)?;
            return Some(plain(value.split(quote).next()?));
        }
        rest = behind;
    }
    None
}

/// Text of XML as what it means.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.trim();
    while let Some((before, behind)) = rest.split_once('&') {
        plain.push_str(before);
        let meant = behind.split_once(';').and_then(|(name, behind)| {
            let c = match name {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                "apos" => '\'',
                _ => {
                    let digits = name.strip_prefix('#')?;
                    let number = match digits.strip_prefix(['x', 'X']) {
                        Some(hex) => u32::from_str_radix(hex, 16),
                        None => digits.parse(),
                    };
                    char::from_u32(number.ok()?)?
                }
            };
            Some((c, behind))
        });
        rest = match meant {
            Some((c, behind)) => {
                plain.push(c);
                behind
            }
            None => {
                plain.push('&');
                behind
            }
        };
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_entities() {
        assert_eq!(plain("&#x41;&#66;&x;&"), "AB&x;&");
        let head = r#"RelOp NodeId="0" LogicalNodeId="7" Id='a &lt; b'"#;
        assert_eq!(attribute(head, "NodeId").as_deref(), Some("0"));
        assert_eq!(attribute(head, "Id").as_deref(), Some("a < b"));
        assert_eq!(attribute(head, "Name"), None);
        assert_eq!(attribute("a=", "a"), None);
        assert_eq!(between("<a>x</a>", "<a>", "</a>"), Some("x"));
        assert_eq!(between("<a>x", "<a>", "</a>"), None);
    }
}
