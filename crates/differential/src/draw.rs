//! Random choices that can be made again, and made simpler.
//!
//! Theory: a generator draws numbers; what it drew is kept as a tree whose nodes are the parts that it built. The same tree
//! gives the same statement. A part replaced by an empty node gives the simplest such part, because a draw from nothing is 0 and
//! every generator puts its simplest form first; a part replaced by one of its own parts of the same kind, or a list without
//! one of its items, gives a smaller statement that is valid as well. So reducing needs no knowledge of SQL
//! (internal reduction, as in Hypothesis: MacIver and Donaldson, ECOOP 2020).
//!
//! Read next: `reduce`, `generate`.

/// SplitMix64: the same numbers for the same seed, everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to `seed` (SplitMix64).
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 evenly distributed bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    /// 0 to `n - 1`; 0 for `n` = 0.
    pub fn below(&mut self, n: u32) -> u32 {
        u32::try_from(self.next() % u64::from(n.max(1))).unwrap_or(0)
    }
}

const fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A seed for part `n` of what `seed` names.
pub const fn seed_of(seed: u64, n: u64) -> u64 {
    mixed(seed.wrapping_add(mixed(n.wrapping_add(0x9E37_79B9_7F4A_7C15))))
}

/// A number that was drawn, or a part with choices of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Value(u32),
    Part(Part),
}

/// What was drawn for one part of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub label: &'static str,
    pub choices: Vec<Choice>,
}

/// Where numbers come from: chance, or an earlier tree. What was drawn is kept either way.
#[derive(Debug)]
pub struct Draw {
    random: Option<Random>,
    /// Open parts of the tree that is repeated, with the place of the next choice.
    input: Vec<(Part, usize)>,
    output: Vec<Part>,
}

impl Draw {
    /// Draws by chance, and keeps what it drew.
    pub fn fresh(seed: u64) -> Draw {
        Draw {
            random: Some(Random::new(seed)),
            input: Vec::new(),
            output: vec![Part::default()],
        }
    }

    /// Draws what the tree says, so that a reduced tree gives a reduced statement.
    pub fn again(tree: Part) -> Draw {
        Draw {
            random: None,
            input: vec![(tree, 0)],
            output: vec![Part::default()],
        }
    }

    /// What was drawn from the beginning.
    pub fn tree(mut self) -> Part {
        assert!(self.output.len() == 1, "every part is closed");
        self.output.pop().unwrap_or_default()
    }

    /// 0 to `n - 1`.
    pub fn below(&mut self, n: u32) -> u32 {
        let value = match &mut self.random {
            Some(random) => random.below(n),
            None => self.again_below(n),
        };
        self.record(Choice::Value(value));
        value
    }

    fn again_below(&mut self, n: u32) -> u32 {
        let Some((part, at)) = self.input.last_mut() else {
            return 0;
        };
        match part.choices.get(*at) {
            Some(Choice::Value(value)) => {
                *at += 1;
                (*value).min(n.saturating_sub(1))
            }
            _ => 0,
        }
    }

    /// Begins a part that can be reduced as one.
    pub fn open(&mut self, label: &'static str) {
        if self.random.is_none() {
            let next = self.next_part(label);
            self.input.push((next, 0));
        }
        self.output.push(Part {
            label,
            choices: Vec::new(),
        });
    }

    fn next_part(&mut self, label: &'static str) -> Part {
        let Some((part, at)) = self.input.last_mut() else {
            return Part::default();
        };
        match part.choices.get(*at) {
            Some(Choice::Part(next)) if next.label == label => {
                *at += 1;
                next.clone()
            }
            _ => Part::default(),
        }
    }

    /// Ends the innermost part.
    pub fn close(&mut self) {
        if self.random.is_none() {
            self.input.pop();
        }
        if let Some(done) = self.output.pop() {
            self.record(Choice::Part(done));
        }
    }

    /// How many items the list has that was just opened: as many as it had, or by chance.
    pub fn items(&mut self, least: u32, most: u32) -> u32 {
        match &mut self.random {
            Some(random) => least + random.below(most - least + 1),
            None => {
                let parts = self.input.last().map_or(0, |(part, _)| part.choices.len());
                u32::try_from(parts).unwrap_or(most).clamp(least, most)
            }
        }
    }

    fn record(&mut self, choice: Choice) {
        if let Some(part) = self.output.last_mut() {
            part.choices.push(choice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nested sums: the simplest is 0.
    fn sum(draw: &mut Draw, depth: u32) -> String {
        draw.open("sum");
        let out = match draw.below(if depth == 0 { 1 } else { 3 }) {
            0 => draw.below(10).to_string(),
            _ => {
                draw.open("list");
                let n = draw.items(1, 3);
                let items: Vec<String> = (0..n).map(|_| sum(draw, depth - 1)).collect();
                draw.close();
                format!("({})", items.join("+"))
            }
        };
        draw.close();
        out
    }

    #[test]
    fn a_tree_gives_the_same_again_and_an_empty_one_the_simplest() {
        for seed in 0..200 {
            let mut draw = Draw::fresh(seed);
            let first = sum(&mut draw, 4);
            let tree = draw.tree();
            let mut again = Draw::again(tree.clone());
            assert_eq!(sum(&mut again, 4), first);
            assert_eq!(again.tree(), tree);
        }
        assert_eq!(sum(&mut Draw::again(Part::default()), 4), "0");
    }

    #[test]
    fn seeds_of_parts_differ() {
        assert_ne!(seed_of(1, 1), seed_of(1, 2));
        assert_ne!(seed_of(1, 1), seed_of(2, 1));
    }
}
