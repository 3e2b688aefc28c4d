//! Comparing text and building sort keys.
//!
//! Theory: ICU gives the order. Text that is all ASCII under a collation of the root locale takes a short way: each
//! ASCII character has one primary weight and nothing else that counts while case does not, so the primaries decide.
//! The weights are read out of ICU's own sort keys once, and the short way writes the very bytes ICU would write:
//! both kinds of key may meet in one index.

use super::CollationId;
use super::table::{Info, info, slot_count};
use icu_collator::options::{CaseLevel, CollatorOptions, Strength};
use icu_collator::preferences::CollationCaseFirst;
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, OnceLock};

/// Version of the order itself: ICU4X data release and our own key format. Recorded in every database.
pub const COLLATION_VERSION: u32 = 2_040_001;

/// What a comparison under one collation needs.
#[derive(Clone, Copy)]
struct Rules {
    collator: &'static CollatorBorrowed<'static>,
    /// Case and everything below does not count, and the locale does not tailor ASCII.
    ascii_by_primary: bool,
    /// Keys have a level for accents.
    secondary: bool,
}

/// Orders two strings; trailing blanks do not count.
pub fn compare(left: &str, right: &str, collation: CollationId) -> Ordering {
    let (left, right) = (trim(left), trim(right));
    match rules(collation) {
        None => left.as_bytes().cmp(right.as_bytes()),
        Some(rules) => {
            if rules.ascii_by_primary && left.is_ascii() && right.is_ascii() {
                ascii().compare(left.as_bytes(), right.as_bytes())
            } else {
                rules.collator.compare(left, right)
            }
        }
    }
}

/// Are the strings equal under the collation?
pub fn equal(left: &str, right: &str, collation: CollationId) -> bool {
    left == right || compare(left, right, collation) == Ordering::Equal
}

/// Appends bytes whose memcmp order is the collation's order. Linguistic keys hold no zero byte.
pub fn sort_key(text: &str, collation: CollationId, out: &mut Vec<u8>) {
    let text = trim(text);
    match rules(collation) {
        None => out.extend_from_slice(text.as_bytes()),
        Some(rules) => {
            if rules.ascii_by_primary && text.is_ascii() {
                ascii().write_key(text.as_bytes(), rules.secondary, out);
            } else {
                let Ok(()) = rules.collator.write_sort_key_to(text, out);
            }
        }
    }
}

/// Do two single characters count as the same?
pub(super) fn same_char(left: char, right: char, collation: CollationId) -> bool {
    left == right || compare_chars(left, right, collation) == Ordering::Equal
}

/// Orders two characters by themselves; unlike `compare`, a blank is not dropped.
pub(super) fn compare_chars(left: char, right: char, collation: CollationId) -> Ordering {
    let Some(rules) = rules(collation) else {
        return left.cmp(&right);
    };
    if rules.ascii_by_primary && left.is_ascii() && right.is_ascii() {
        let weights = &ascii().weights;
        let of = |c: char| weights.get(c as usize).map_or(0, |w| w.primary);
        return of(left).cmp(&of(right));
    }
    let (mut a, mut b) = ([0; 4], [0; 4]);
    rules
        .collator
        .compare(left.encode_utf8(&mut a), right.encode_utf8(&mut b))
}

fn trim(text: &str) -> &str {
    text.trim_end_matches(' ')
}

/// `None` for the binary collations.
fn rules(id: CollationId) -> Option<Rules> {
    static DEFAULT: LazyLock<Rules> = LazyLock::new(|| load(info(CollationId::DEFAULT)));
    if id == CollationId::DEFAULT {
        return Some(*DEFAULT);
    }
    let info = info(id);
    if info.sensitivity.binary {
        return None;
    }
    static SLOTS: OnceLock<Box<[OnceLock<Rules>]>> = OnceLock::new();
    let slots = SLOTS.get_or_init(|| (0..slot_count()).map(|_| OnceLock::new()).collect());
    let slot = slots.get(usize::from(info.id.0))?;
    Some(*slot.get_or_init(|| load(info)))
}

fn load(info: &Info) -> Rules {
    let s = info.sensitivity;
    let mut options = CollatorOptions::default();
    options.strength = Some(match (s.case || s.kana || s.width, s.accent) {
        (true, true) => Strength::Tertiary,
        (true, false) => Strength::Primary,
        (false, true) => Strength::Secondary,
        (false, false) => Strength::Primary,
    });
    options.case_level = Some(if s.case && !s.accent {
        CaseLevel::On
    } else {
        CaseLevel::Off
    });
    let strength = options.strength;
    Rules {
        collator: collator(info.locale, options, info.upper_first),
        ascii_by_primary: info.locale == "und"
            && options.case_level != Some(CaseLevel::On)
            && strength != Some(Strength::Tertiary),
        secondary: strength == Some(Strength::Secondary),
    }
}

/// One collator for each locale and choice of options, kept for ever.
fn collator(
    locale: &'static str,
    options: CollatorOptions,
    upper_first: bool,
) -> &'static CollatorBorrowed<'static> {
    type Key = (&'static str, u8, bool, bool);
    static COLLATORS: LazyLock<Mutex<HashMap<Key, &'static CollatorBorrowed<'static>>>> =
        LazyLock::new(Mutex::default);
    let strength = options.strength.map_or(0, |s| s as u8);
    let key = (
        locale,
        strength,
        options.case_level == Some(CaseLevel::On),
        upper_first,
    );
    let mut collators = COLLATORS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    collators.entry(key).or_insert_with(|| {
        let parsed = locale
            .parse::<icu_locale_core::Locale>()
            .unwrap_or(icu_locale_core::Locale::UNKNOWN);
        let mut preferences = CollatorPreferences::from(&parsed);
        if upper_first {
            preferences.case_first = Some(CollationCaseFirst::Upper);
        }
        let made = CollatorBorrowed::try_new(preferences, options)
            .or_else(|_| CollatorBorrowed::try_new(CollatorPreferences::default(), options));
        match made {
            Ok(collator) => Box::leak(Box::new(collator)),
            Err(error) => unreachable!("the root collator is compiled in: {error}"),
        }
    })
}

/// Weight of one ASCII character at the primary level of the root collation.
#[derive(Clone, Copy, Default)]
struct Weight {
    /// Up to four bytes, most significant first; 0 for the characters that do not count at all.
    primary: u32,
    /// The lead byte is left out of a key while it repeats.
    compressible: bool,
}

struct Ascii {
    weights: [Weight; 128],
}

/// Key bytes between two runs with different compressible lead bytes, as ICU writes them.
const COMPRESSION_LOW: u8 = 0x03;
const COMPRESSION_HIGH: u8 = 0xFF;
const LEVEL_SEPARATOR: u8 = 0x01;

fn ascii() -> &'static Ascii {
    static ASCII: LazyLock<Ascii> = LazyLock::new(Ascii::load);
    &ASCII
}

impl Ascii {
    fn load() -> Ascii {
        let mut options = CollatorOptions::default();
        options.strength = Some(Strength::Primary);
        let primary = collator("und", options, false);
        let key = |text: &str| {
            let mut out = Vec::new();
            let Ok(()) = primary.write_sort_key_to(text, &mut out);
            out
        };
        let mut weights = [Weight::default(); 128];
        for (code, weight) in (0u8..).zip(weights.iter_mut()) {
            let c = char::from(code).to_string();
            let once = key(&c);
            let twice = key(&c.repeat(2));
            let bytes: Vec<u8> = once
                .iter()
                .copied()
                .take_while(|b| *b > LEVEL_SEPARATOR)
                .collect();
            let primary = bytes
                .iter()
                .chain([0; 4].iter())
                .take(4)
                .fold(0, |w, b| (w << 8) | u32::from(*b));
            *weight = Weight {
                primary,
                compressible: twice.len() < once.len() + bytes.len(),
            };
        }
        Ascii { weights }
    }

    fn weight(&self, byte: u8) -> Weight {
        self.weights
            .get(usize::from(byte))
            .copied()
            .unwrap_or_default()
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
        let rest = |text| <[u8]>::get(text, common..).unwrap_or_default().iter();
        let mut left = rest(left)
            .map(|b| self.weight(*b).primary)
            .filter(|w| *w != 0);
        let mut right = rest(right)
            .map(|b| self.weight(*b).primary)
            .filter(|w| *w != 0);
        loop {
            match (left.next(), right.next()) {
                (Some(a), Some(b)) if a == b => {}
                (a, b) => return a.cmp(&b),
            }
        }
    }

    fn write_key(&self, text: &[u8], secondary: bool, out: &mut Vec<u8>) {
        let mut run = 0u32;
        let mut count = 0usize;
        for byte in text {
            let Weight {
                primary,
                compressible,
            } = self.weight(*byte);
            if primary == 0 {
                continue;
            }
            count += 1;
            let [lead, rest @ ..] = primary.to_be_bytes();
            if !compressible || lead != run.to_be_bytes()[0] {
                if run != 0 {
                    out.push(if primary < run {
                        COMPRESSION_LOW
                    } else {
                        COMPRESSION_HIGH
                    });
                }
                out.push(lead);
                run = if compressible { primary } else { 0 };
            }
            out.extend(rest.iter().take_while(|b| **b != 0));
        }
        if secondary {
            write_common_secondaries(count, out);
        }
    }
}

/// The secondary level of text without accents: only the length of the run of common weights, as ICU packs it.
fn write_common_secondaries(count: usize, out: &mut Vec<u8>) {
    const LOW: u8 = 0x05;
    const MIDDLE: u8 = 0x25;
    const RUN_MAX: usize = 0x21;
    out.push(LEVEL_SEPARATOR);
    if let Some(rest) = count.checked_sub(1) {
        out.extend(std::iter::repeat_n(MIDDLE, rest / RUN_MAX));
        out.push(LOW + (rest % RUN_MAX) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: &[&str] = &[
        "SQL_Latin1_General_CP1_CI_AS",
        "SQL_Latin1_General_CP1_CS_AS",
        "SQL_Latin1_General_CP1_CI_AI",
        "Latin1_General_100_CS_AI",
        "Latin1_General_100_CS_AS_KS_WS",
        "Latin1_General_BIN2",
        "Danish_Norwegian_CI_AS",
        "Japanese_CI_AS",
    ];

    fn id(name: &str) -> CollationId {
        CollationId::from_name(name).expect(name)
    }

    fn key(text: &str, collation: CollationId) -> Vec<u8> {
        let mut out = Vec::new();
        sort_key(text, collation, &mut out);
        out
    }

    fn icu_key(text: &str, collation: CollationId) -> Vec<u8> {
        let mut out = Vec::new();
        let Ok(()) = rules(collation)
            .expect("linguistic")
            .collator
            .write_sort_key_to(trim(text), &mut out);
        out
    }

    #[test]
    fn ascii_keys_and_order_are_icus_for_all_pairs() {
        for collation in [CollationId::DEFAULT, id("SQL_Latin1_General_CP1_CI_AI")] {
            let collator = rules(collation).expect("linguistic").collator;
            for a in 0..128u8 {
                for b in 0..128u8 {
                    let (x, y) = (char::from(a).to_string(), char::from(b).to_string());
                    assert_eq!(
                        compare(&x, &y, collation),
                        collator.compare(trim(&x), trim(&y)),
                        "{x:?} {y:?}"
                    );
                    let pair = format!("{x}{y}");
                    assert_eq!(key(&pair, collation), icu_key(&pair, collation), "{pair:?}");
                }
            }
        }
    }

    /// Fails when the collation data changed: raise COLLATION_VERSION, then bless the number.
    #[test]
    fn version_names_this_very_order() {
        let mut keys = Vec::new();
        for name in NAMES {
            for c in (0..0x3100).filter_map(char::from_u32) {
                sort_key(c.encode_utf8(&mut [0; 4]), id(name), &mut keys);
                keys.push(0);
            }
        }
        assert_eq!(
            (COLLATION_VERSION, crate::compare::hash_bytes(&keys)),
            (2_040_001, 10_183_990_183_862_583_852)
        );
    }

    #[test]
    fn everyday_order() {
        let d = CollationId::DEFAULT;
        assert_eq!(compare("abc  ", "ABC", d), Ordering::Equal);
        assert_eq!(compare("résumé", "resume", d), Ordering::Greater);
        assert!(equal("résumé", "RESUME", id("Latin1_General_CI_AI")));
        assert!(!equal("a", "A", id("Latin1_General_CS_AS")));
        assert!(!equal("a", "A", id("Latin1_General_CS_AI")));
        assert!(equal("á", "a", id("Latin1_General_CS_AI")));
        assert_eq!(
            compare("a", "A", id("Latin1_General_CS_AS")),
            Ordering::Less
        );
        assert_eq!(
            compare("a", "A", id("SQL_Latin1_General_CP1_CS_AS")),
            Ordering::Greater
        );
        assert_eq!(compare("_a", "1", d), Ordering::Less);
        assert_eq!(compare("Z", "a", CollationId::BIN2), Ordering::Less);
        assert!(equal("x  ", "x", CollationId::BIN2));
    }

    proptest! {
        #[test]
        fn ascii_text_has_icus_key(text in "[ -~\\x00-\\x1f]{0,12}|[a-z -]{0,120}") {
            prop_assert_eq!(key(&text, CollationId::DEFAULT), icu_key(&text, CollationId::DEFAULT));
        }

        #[test]
        fn keys_agree_with_compare(a in "[aAbBéÉ ß\u{301}_1-]{0,5}|\\PC{0,6}", b in "[aAbBéÉ ß\u{301}_1-]{0,5}|\\PC{0,6}") {
            for name in NAMES {
                let c = id(name);
                prop_assert_eq!(compare(&a, &b, c), key(&a, c).cmp(&key(&b, c)), "{}", name);
                prop_assert!(c.is_binary() || !key(&a, c).contains(&0));
            }
        }
    }
}
