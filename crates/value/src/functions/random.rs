//! RAND: the numbers that the product gives for a seed, and those that follow.
//!
//! Theory: two linear congruential generators whose difference is the result (L'Ecuyer, Efficient and portable combined random
//! number generators, 1988), with the factors of the paper. RAND with a seed sets the first one alone. Known results, by which
//! this was found: RAND(1) is 0.713591993212924; RAND(100), RAND(), RAND() are 0.715436657367485, 0.28463380767982 and
//! 0.0131039082850364.

const FIRST_MODULUS: i64 = 2_147_483_563;
const FIRST_FACTOR: i64 = 40_014;
/// In the place of a seed of 0, from which the generator would never come away.
const FIRST_SEED: i64 = 12_345;
const SECOND_MODULUS: i64 = 2_147_483_399;
const SECOND_FACTOR: i64 = 40_692;
const SECOND_SEED: i64 = 67_890;
/// One by `FIRST_MODULUS`, to as many digits as the product has.
const SCALE: f64 = 4.656_613e-10;

/// The sequence of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomSequence {
    first: i64,
    second: i64,
}

impl RandomSequence {
    /// The sequence that begins with RAND(seed).
    pub fn from_seed(seed: i32) -> RandomSequence {
        let first = match i64::from(seed).abs() % FIRST_MODULUS {
            0 => FIRST_SEED,
            seed => seed,
        };
        RandomSequence {
            first,
            second: SECOND_SEED,
        }
    }

    /// The next number, above 0 and below 1.
    pub fn draw(&mut self) -> f64 {
        self.first = self.first * FIRST_FACTOR % FIRST_MODULUS;
        self.second = self.second * SECOND_FACTOR % SECOND_MODULUS;
        let difference = match self.first - self.second {
            positive @ 1.. => positive,
            other => other + FIRST_MODULUS - 1,
        };
        difference as f64 * SCALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(number: f64) -> String {
        format!("{number:.15}")
    }

    #[test]
    fn seeds_give_the_numbers_of_the_product() {
        for (seed, number) in [
            (0, "0.943597390424144"),
            (1, "0.713591993212924"),
            (2, "0.713610626184182"),
            (3, "0.713629259155440"),
        ] {
            let mut sequence = RandomSequence::from_seed(seed);
            assert_eq!(digits(sequence.draw()), number, "RAND({seed})");
        }
        let mut sequence = RandomSequence::from_seed(100);
        let numbers = [sequence.draw(), sequence.draw(), sequence.draw()];
        let known = [
            "0.715436657367485",
            "0.284633807679820",
            "0.013103908285036",
        ];
        assert_eq!(numbers.map(digits), known);
    }

    #[test]
    fn every_seed_gives_numbers_between_0_and_1() {
        for seed in [i32::MIN, i32::MIN + 85, -1, i32::MAX, i32::MAX - 84] {
            let mut sequence = RandomSequence::from_seed(seed);
            for _ in 0..1_000 {
                let number = sequence.draw();
                assert!(number > 0.0 && number < 1.0, "{seed}: {number}");
            }
        }
    }
}
