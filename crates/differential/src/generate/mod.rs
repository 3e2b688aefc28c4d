//! Random statements in both dialects.
//!
//! Theory: both dialects get the same statement, built part by part, so the generator keeps to what both define alike: every
//! statement has one right answer, and no right statement fails. So numbers carry a bound and are kept small before they
//! could overflow; a divisor is never 0; a scalar subquery gives one row; TOP sorts by every column it gives; a window
//! function that tells rows apart sorts by a unique key; NULLs are placed explicitly; texts have no blanks, no other
//! than ASCII letters, and one binary collation.
//!
//! Invariants
//! 1. The simplest form of every part is its first choice and draws a bounded number of choices (`draw`).
//! 2. Names of columns stand for themselves; every alias is used once in a statement.
//!
//! | module | what it makes |
//! |---|---|
//! | `literal` | values, each with two other ones |
//! | `scalar` | expressions of each type |
//! | `predicate` | conditions |
//! | `aggregate` | aggregates and window functions |
//! | `source` | what stands behind FROM |
//! | `query` | SELECT, set operations, common table expressions |
//! | `change` | INSERT, UPDATE, DELETE, MERGE |
//! | `risky` | what may fail, and then has to fail alike |

mod aggregate;
mod change;
mod literal;
mod predicate;
mod query;
mod risky;
mod scalar;
mod source;

use crate::draw::{Draw, Part};
use crate::text::{Param, Text, fill, fill_two};

/// Types that the generator tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Int,
    Dec,
    Float,
    Str,
    Date,
    Stamp,
}

/// The types that values and columns have.
pub const TYPES: [Ty; 6] = [Ty::Int, Ty::Str, Ty::Dec, Ty::Date, Ty::Float, Ty::Stamp];

/// What an integer is declared as, which decides what T-SQL lets one do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Bit,
    Tiny,
    Small,
    Int,
    Big,
}

/// An expression with what is known of it.
#[derive(Clone, Debug)]
pub struct Expr {
    pub text: Text,
    pub ty: Ty,
    pub width: Width,
    /// No value is larger, sign aside.
    pub most: u64,
    /// Digits and decimal places by the rules of T-SQL.
    pub digits: (u32, u32),
    /// A column and nothing else.
    pub bare: bool,
    /// The same column as an earlier one, under another name.
    pub again: bool,
}

impl Expr {
    /// An expression of a type, with the least that can be said of it.
    pub fn new(ty: Ty, text: Text) -> Expr {
        Expr {
            text,
            ty,
            width: Width::Int,
            most: 0,
            digits: (10, 0),
            bare: false,
            again: false,
        }
    }

    /// An integer of at most `most`.
    pub fn int(text: Text, most: u64) -> Expr {
        Expr {
            most,
            ..Expr::new(Ty::Int, text)
        }
    }

    /// A decimal of at most `most`, with precision and scale.
    pub fn dec(text: Text, most: u64, digits: (u32, u32)) -> Expr {
        Expr {
            most,
            digits,
            ..Expr::new(Ty::Dec, text)
        }
    }

    /// The same value where one of another type makes it one of that.
    fn taken_as(self, ty: Ty) -> Expr {
        Expr {
            ty,
            digits: self.as_digits(),
            width: Width::Int,
            bare: false,
            ..self
        }
    }

    fn column(&self, name: &str) -> Expr {
        Expr {
            text: Text::same(name),
            bare: true,
            ..self.clone()
        }
    }

    /// Digits as a decimal number, whatever it is.
    fn as_digits(&self) -> (u32, u32) {
        match (self.ty, self.width) {
            (Ty::Dec, _) => self.digits,
            (_, Width::Big) => (19, 0),
            _ => (10, 0),
        }
    }

    /// An integer that both calculate with as int or bigint: products of smallint are too large for one soon.
    fn wide(self) -> Expr {
        match (self.ty, self.width) {
            (Ty::Int, Width::Bit | Width::Tiny | Width::Small) => Expr {
                text: fill_two("CAST($0 AS int)", "CAST($0 AS integer)", &[&self.text]),
                width: Width::Int,
                bare: false,
                ..self
            },
            _ => self,
        }
    }

    /// A decimal number of 19 digits, 4 of them behind the point.
    fn fixed(self) -> Expr {
        match self.ty == Ty::Dec && self.digits.0 > 19 {
            true => Expr::dec(
                fill_two(
                    "CAST($0 AS decimal(19, 4))",
                    "CAST($0 AS numeric(19, 4))",
                    &[&self.text],
                ),
                self.most + 1,
                (19, 4),
            ),
            false => self,
        }
    }

    /// An integer below `limit`.
    fn small(self, limit: u64) -> Expr {
        match self.most > limit {
            true => Expr {
                text: fill(&format!("($0 % {limit})"), &[&self.text]),
                most: limit,
                bare: false,
                ..self
            },
            false => self,
        }
    }
}

/// What a part of a statement may refer to.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub local: Vec<Expr>,
    /// Columns of the queries around.
    pub outer: Vec<Expr>,
    /// Columns that together are unique; empty when none are known to be.
    pub key: Vec<Expr>,
    /// Of `local`, what a subquery may refer to.
    pub shown: Vec<Expr>,
    pub subqueries: bool,
}

impl Scope {
    fn of(local: Vec<Expr>, outer: &[Expr], key: Vec<Expr>) -> Scope {
        Scope {
            shown: local.clone(),
            local,
            outer: outer.to_vec(),
            key,
            subqueries: true,
        }
    }

    /// The same for an argument of an aggregate.
    fn inside_aggregate(&self) -> Scope {
        Scope {
            outer: Vec::new(),
            subqueries: false,
            ..self.clone()
        }
    }

    fn for_subquery(&self) -> Vec<Expr> {
        self.shown.iter().chain(&self.outer).cloned().collect()
    }
}

/// A query with the types of its columns, which are called c0, c1 and so on.
#[derive(Clone, Debug)]
pub struct Query {
    pub text: Text,
    pub columns: Vec<Expr>,
    /// Has an ORDER BY of its own.
    sorts: bool,
    /// Its rows have one order.
    pub ordered: bool,
}

/// What is sent, and what is compared.
#[derive(Clone, Debug)]
pub enum Kind {
    Query {
        ordered: bool,
    },
    /// Changes a table; does it give rows that both dialects give?
    Change {
        table: usize,
        output: Output,
    },
}

/// What is compared after the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    None,
    Rows,
    /// Only T-SQL gives rows; all layouts have to give the same.
    OneSided,
}

/// A statement in both dialects, and the draws that made it.
#[derive(Clone, Debug)]
pub struct Statement {
    pub text: Text,
    pub params: Vec<Param>,
    pub kind: Kind,
    pub tree: Part,
}

/// A table for the generator: how many rows it has, and its columns.
#[derive(Clone, Debug)]
pub struct TableShape {
    pub rows: usize,
}

/// A collation that takes upper and lower case for the same.
const FOLDED: &str = "Latin1_General_CI_AS";

/// Rows that a FROM may give by estimate.
const ROWS_MAX: u64 = 3_000;

/// Makes one statement from draws.
pub struct Gen<'a> {
    pub draw: Draw,
    params: Vec<Param>,
    tables: &'a [TableShape],
    aliases: usize,
    /// Common table expressions so far, with their columns.
    shared: Vec<(String, Vec<Expr>, u64)>,
    needs_recursion: bool,
}

impl Gen<'_> {
    /// The statement that the choices lead to.
    pub fn statement(draw: Draw, tables: &[TableShape]) -> Statement {
        let mut generator = Gen {
            draw,
            params: Vec::new(),
            tables,
            aliases: 0,
            shared: Vec::new(),
            needs_recursion: false,
        };
        let (text, kind) = match generator.draw.below(28) {
            24.. => generator.change(),
            23 => (generator.risky(), Kind::Query { ordered: false }),
            _ => {
                let query = generator.top_query();
                let ordered = query.ordered;
                (query.text, Kind::Query { ordered })
            }
        };
        Statement {
            text,
            params: generator.params,
            kind,
            tree: generator.draw.tree(),
        }
    }
}

impl<'a> Gen<'a> {
    fn part<T>(&mut self, label: &'static str, make: impl FnOnce(&mut Gen<'a>) -> T) -> T {
        self.draw.open(label);
        let made = make(self);
        self.draw.close();
        made
    }

    /// Items of a list, each a part of its own.
    fn list<T>(
        &mut self,
        least: u32,
        most: u32,
        mut make: impl FnMut(&mut Gen<'a>, u32) -> T,
    ) -> Vec<T> {
        self.part("list", |g| {
            let count = g.draw.items(least, most);
            (0..count).map(|n| g.part("item", |g| make(g, n))).collect()
        })
    }

    /// True once in `n` times.
    fn seldom(&mut self, n: u32) -> bool {
        self.draw.below(n) == n - 1
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        let at = self.draw.below(u32::try_from(list.len()).unwrap_or(1));
        list[at as usize]
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("a{}", self.aliases)
    }
}
