//! Constructors: `<a b="..">..</a>`, and `element a {..}`, `attribute b {..}`, `text {..}`.
//!
//! Theory: the computed ones are expressions like others. In direct ones every blank counts, and expressions stand between
//! braces; what an element declares holds in its own attributes too, so those are passed over once before they are read.

use super::Parser;
use crate::ast::*;
use crate::document::Name;
use crate::lexer::Scanner;
use crate::{Result, error};
use daruma_value::xml::declared;

/// Attributes of a constructor: error 2363.
const ATTRIBUTES_MAX: usize = 4096;

impl<'t> Parser<'t> {
    /// `element name {`, `attribute name {` or `text {`: what it makes, and where its name stands. Those that the product
    /// does not have are errors 9315, 9325 and 9326.
    pub(super) fn computed_constructor(&mut self) -> Result<Option<(&'t str, Scanner<'t>)>> {
        let mut ahead = self.at.clone();
        let what = ahead.name()?;
        if matches!(
            what,
            "element" | "attribute" | "comment" | "processing-instruction"
        ) && ahead.eat("{")?
        {
            return match what {
                "comment" => error(9326, &[]),
                "processing-instruction" => error(9325, &[]),
                _ => error(9315, &[]),
            };
        }
        if !matches!(what, "element" | "attribute" | "text") {
            return Ok(None);
        }
        ahead.blanks()?;
        let at_name = ahead.clone();
        if what != "text" {
            if !ahead.starts_name() {
                return Ok(None);
            }
            ahead.qualified_name()?;
            ahead.blanks()?;
        }
        Ok(ahead.rest.starts_with('{').then_some((what, at_name)))
    }

    pub(super) fn computed(&mut self, what: &str) -> Result<Expr> {
        let name = match what {
            "text" => Name::default(),
            _ => {
                let (prefix, local) = self.at.qualified_name()?;
                // A declaration is no attribute.
                if what == "attribute"
                    && (prefix == "xmlns" || prefix.is_empty() && local == "xmlns")
                {
                    return error(2229, &[&"xmlns"]);
                }
                self.name_of(prefix, local, what == "attribute")?
            }
        };
        self.at.expect("{")?;
        let content = match self.at.eat("}")? {
            true => Expr::Sequence(Vec::new()),
            false => {
                let content = self.expr()?;
                self.at.expect("}")?;
                content
            }
        };
        Ok(match what {
            "text" => Expr::Text(Box::new(content)),
            "attribute" => Expr::Attribute(name, Box::new(content)),
            _ => Expr::Element(Box::new(Constructor {
                name,
                declarations: Vec::new(),
                attributes: Vec::new(),
                content: vec![Part::Expr(content)],
            })),
        })
    }

    // --- Direct constructors: from here on blanks count.

    pub(super) fn direct(&mut self) -> Result<Expr> {
        if self.at.eat_here("<!--") {
            let text = self.up_to("-->", 2350)?;
            return match text.contains("--") {
                true => error(2350, &[]),
                false => Ok(Expr::Comment(text)),
            };
        }
        if self.at.eat_here("<?") {
            let target = self.at.name()?.to_string();
            if target.eq_ignore_ascii_case("xml") {
                return error(2294, &[]);
            }
            let data = self.up_to("?>", 2272)?;
            return Ok(Expr::Instruction(target, data.trim_start().to_string()));
        }
        if self.at.rest.starts_with("<!") {
            return error(2280, &[]);
        }
        self.at.next();
        self.deeper(Self::direct_element)
    }

    fn up_to(&mut self, end: &str, number: i32) -> Result<String> {
        match self.at.rest.split_once(end) {
            Some((inside, rest)) => {
                self.at.rest = rest;
                Ok(inside.to_string())
            }
            None => error(number, &[]),
        }
    }

    /// Behind `<`.
    fn direct_element(&mut self) -> Result<Expr> {
        let outer = self.namespaces.len();
        let (prefix, local) = self.at.qualified_name()?;
        let (mut declarations, mut written) = (Vec::new(), Vec::new());
        // What the attributes declare holds in their own expressions too: those are read in a second pass.
        let start = self.at.clone();
        for pass in 0..2 {
            self.at = start.clone();
            (declarations, written) = self.direct_attributes(pass == 0)?;
            if pass == 0 {
                self.namespaces.extend(declarations.iter().cloned());
            }
        }
        let name = self.name_of(prefix, local, false)?;
        let mut attributes = Vec::new();
        for ((prefix, local), parts) in written {
            let name: Name = self.name_of(&prefix, &local, true)?;
            let is_it = |(known, _): &(Name, _)| {
                known.local == name.local && known.namespace == name.namespace
            };
            if attributes.iter().any(is_it) {
                return error(2271, &[&local]);
            }
            if attributes.len() >= ATTRIBUTES_MAX {
                return error(2363, &[]);
            }
            attributes.push((name, parts));
        }
        let content = match self.at.eat_here("/>") {
            true => Vec::new(),
            false => {
                self.at.expect(">")?;
                let content = self.direct_content()?;
                let (end_prefix, end_local) = self.at.qualified_name()?;
                if (end_prefix, end_local) != (prefix, local) {
                    return error(2267, &[&local]);
                }
                self.at.expect(">")?;
                content
            }
        };
        self.namespaces.truncate(outer);
        let made = Constructor {
            name,
            declarations,
            attributes,
            content,
        };
        Ok(Expr::Element(Box::new(made)))
    }

    /// Declarations, and the other attributes. `skips`: expressions are passed over, not read.
    fn direct_attributes(
        &mut self,
        skips: bool,
    ) -> Result<(Vec<(String, String)>, Vec<((String, String), Vec<Part>)>)> {
        let (mut declarations, mut attributes) = (Vec::new(), Vec::new());
        loop {
            let before = self.at.rest.len();
            self.at.rest = self.at.rest.trim_start_matches([' ', '\t', '\r', '\n']);
            let separated = self.at.rest.len() < before;
            if !separated || !self.at.starts_name() {
                return Ok((declarations, attributes));
            }
            let (prefix, local) = self.at.qualified_name()?;
            self.at.expect("=")?;
            self.at.blanks()?;
            let parts = self.attribute_value(skips)?;
            let written = if prefix.is_empty() {
                local.to_string()
            } else {
                format!("{prefix}:{local}")
            };
            match declared(&written) {
                Some(prefix) => {
                    let uri = match &parts[..] {
                        [] => String::new(),
                        [Part::Text(uri)] => uri.clone(),
                        _ => return error(2225, &[]),
                    };
                    declarations.push((prefix.to_string(), uri));
                }
                None => attributes.push(((prefix.to_string(), local.to_string()), parts)),
            }
        }
    }

    fn attribute_value(&mut self, skips: bool) -> Result<Vec<Part>> {
        let Some(quote @ ('"' | '\'')) = self.at.next() else {
            return error(2225, &[]);
        };
        let (mut parts, mut text) = (Vec::new(), String::new());
        loop {
            match self.at.next() {
                Some(c) if c == quote => {
                    if self.at.peek() != Some(quote) {
                        add_text(&mut parts, &mut text);
                        return Ok(parts);
                    }
                    self.at.next();
                    text.push(c);
                }
                Some('&') => text.push(self.at.entity()?),
                Some('<') => return error(2350, &[]),
                Some(c @ ('{' | '}')) if self.at.peek() == Some(c) => {
                    self.at.next();
                    text.push(c);
                }
                Some('{') => {
                    add_text(&mut parts, &mut text);
                    match skips {
                        true => self.skip_expression()?,
                        false => parts.push(Part::Expr(self.enclosed()?)),
                    }
                }
                Some('}') => return error(2209, &[&"}"]),
                Some(c) => text.push(if matches!(c, '\t' | '\n' | '\r') {
                    ' '
                } else {
                    c
                }),
                None => return error(2274, &[&1]),
            }
        }
    }

    /// Passes over an expression, up to its closing brace.
    fn skip_expression(&mut self) -> Result<()> {
        let mut open = 1_usize;
        while open > 0 {
            match self.at.peek() {
                Some('"' | '\'') => {
                    self.at.string()?;
                    continue;
                }
                Some('{') => open += 1,
                Some('}') => open -= 1,
                Some(_) => {}
                None => return error(2209, &[&"<eof>"]),
            }
            self.at.next();
        }
        Ok(())
    }

    /// Behind `{`.
    fn enclosed(&mut self) -> Result<Expr> {
        let expr = self.expr()?;
        self.at.expect("}")?;
        Ok(expr)
    }

    /// What stands between the tags; the end tag is taken up to its name.
    fn direct_content(&mut self) -> Result<Vec<Part>> {
        let (mut parts, mut text) = (Vec::new(), String::new());
        // Blanks alone that are written as such are not meant.
        let mut is_kept = false;
        macro_rules! end_text {
            () => {
                if is_kept {
                    add_text(&mut parts, &mut text);
                }
                text.clear();
                is_kept = false;
            };
        }
        loop {
            if self.at.eat_here("</") {
                if is_kept {
                    add_text(&mut parts, &mut text);
                }
                return Ok(parts);
            }
            if self.at.eat_here("<![CDATA[") {
                text.push_str(&self.up_to("]]>", 2273)?);
                is_kept = true;
            } else if self.at.rest.starts_with('<') {
                end_text!();
                parts.push(Part::Expr(self.direct()?));
            } else {
                match self.at.next() {
                    Some(c @ ('{' | '}')) if self.at.peek() == Some(c) => {
                        self.at.next();
                        text.push(c);
                        is_kept = true;
                    }
                    Some('{') => {
                        end_text!();
                        parts.push(Part::Expr(self.enclosed()?));
                    }
                    Some('}') => return error(2209, &[&"}"]),
                    Some('&') => {
                        text.push(self.at.entity()?);
                        is_kept = true;
                    }
                    Some(c) => {
                        is_kept |= !matches!(c, ' ' | '\t' | '\n' | '\r');
                        text.push(c);
                    }
                    None => return error(2209, &[&"<eof>"]),
                }
            }
        }
    }
}

fn add_text(parts: &mut Vec<Part>, text: &mut String) {
    if !text.is_empty() {
        parts.push(Part::Text(std::mem::take(text)));
    }
}
