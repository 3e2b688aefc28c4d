//! Texts without their literals, for people who may see what runs but not with which values.
//!
//! Theory: the lexer finds strings, numbers and binaries; each becomes `?`, and comments go. What stands after PASSWORD, SECRET
//! or IDENTITY is a string and goes with the others. A text that cannot be read to its end, because a string is not closed for
//! example, keeps its first word only: what looks like code there may be the inside of a literal.

use crate::lexer::{TokenKind, Tokens};

/// The text with `?` for every literal, comments and repeated white space gone.
pub fn mask_literals(text: &str) -> String {
    let tokens = Tokens::of(text, true, None);
    if !tokens.errors.is_empty() {
        return first_word(text, &tokens);
    }
    let mut masked = String::with_capacity(text.len().min(1 << 16));
    let mut last_end = 0;
    for token in &tokens.list {
        let (start, end) = (token.start as usize, token.end as usize);
        if token.kind == TokenKind::End {
            break;
        }
        if start > last_end && !masked.is_empty() {
            let gap = text.get(last_end..start).unwrap_or_default();
            masked.push(if gap.contains('\n') { '\n' } else { ' ' });
        }
        match token.kind {
            TokenKind::String
            | TokenKind::NationalString
            | TokenKind::Integer
            | TokenKind::Decimal
            | TokenKind::Float
            | TokenKind::Money
            | TokenKind::Binary => masked.push('?'),
            // Double quotes may hold a string, depending on a setting that is not known here.
            TokenKind::Quoted if text.get(start..).is_some_and(|t| t.starts_with('"')) => {
                masked.push('?');
            }
            _ => masked.push_str(text.get(start..end).unwrap_or_default()),
        }
        last_end = end;
    }
    masked
}

fn first_word(text: &str, tokens: &Tokens) -> String {
    let word = tokens
        .list
        .first()
        .filter(|token| matches!(token.kind, TokenKind::Word(_)));
    let word = word.and_then(|token| text.get(token.start as usize..token.end as usize));
    format!("{} ...", word.unwrap_or_default())
        .trim()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_go() {
        assert_eq!(
            mask_literals(
                "SELECT * FROM dbo.t /* who */ WHERE a = 'x''y' AND b IN (1, 2.5, 0xFF, $3) -- secret"
            ),
            "SELECT * FROM dbo.t WHERE a = ? AND b IN (?, ?, ?, ?)"
        );
        assert_eq!(
            mask_literals("CREATE LOGIN l WITH PASSWORD = N'Secret-1'"),
            "CREATE LOGIN l WITH PASSWORD = ?"
        );
        assert_eq!(
            mask_literals("SELECT [a b], \"secret\", @x\n  FROM t"),
            "SELECT [a b], ?, @x\nFROM t"
        );
    }

    #[test]
    fn an_unclosed_literal_hides_everything_but_the_first_word() {
        assert_eq!(mask_literals("INSERT t VALUES ('secret"), "INSERT ...");
        assert_eq!(mask_literals("/* secret"), "...");
        assert_eq!(mask_literals(""), "");
    }
}
