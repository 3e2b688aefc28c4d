//! A set of pages in one bit each, so that a check of a large database needs little memory: 16 MiB for a terabyte.

use daruma_base::PageId;
use std::collections::BTreeMap;

/// Pages of a database, a bit each.
#[derive(Debug, Default)]
pub struct PageSet {
    files: BTreeMap<u16, Vec<u64>>,
    count: u64,
}

impl PageSet {
    /// Adds a page. False when it was there already.
    pub fn insert(&mut self, page: PageId) -> bool {
        let words = self.files.entry(page.file).or_default();
        let (at, mask) = place(page);
        if words.len() <= at {
            words.resize(at + 1, 0);
        }
        let Some(word) = words.get_mut(at) else {
            return false;
        };
        let is_new = *word & mask == 0;
        *word |= mask;
        self.count += u64::from(is_new);
        is_new
    }

    /// Takes a page out. False when it was not there.
    pub fn remove(&mut self, page: PageId) -> bool {
        let (at, mask) = place(page);
        let words = self.files.get_mut(&page.file);
        let Some(word) = words.and_then(|words| words.get_mut(at)) else {
            return false;
        };
        let was_there = *word & mask != 0;
        *word &= !mask;
        self.count -= u64::from(was_there);
        was_there
    }

    /// Is the page in the set?
    pub fn contains(&self, page: PageId) -> bool {
        let (at, mask) = place(page);
        let word = self.files.get(&page.file).and_then(|words| words.get(at));
        word.is_some_and(|word| word & mask != 0)
    }

    /// Pages in the set.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// All pages, in order.
    pub fn iter(&self) -> impl Iterator<Item = PageId> {
        self.files.iter().flat_map(|(file, words)| {
            words.iter().enumerate().flat_map(move |(at, word)| {
                let bits = (0..64).filter(move |bit| word & (1 << bit) != 0);
                bits.map(move |bit| PageId::new(*file, at as u32 * 64 + bit))
            })
        })
    }
}

fn place(page: PageId) -> (usize, u64) {
    (page.page as usize / 64, 1 << (page.page % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_once_and_in_order() {
        let mut set = PageSet::default();
        let pages = [(3, 64), (1, 700_000), (1, 0), (1, 63)].map(|(f, p)| PageId::new(f, p));
        assert!(pages.iter().all(|p| set.insert(*p)));
        assert!(!set.insert(pages[1]));
        assert!(set.contains(pages[0]) && !set.contains(PageId::new(3, 65)));
        assert!(!set.contains(PageId::new(9, 1)));
        assert!(!set.remove(PageId::new(9, 1)) && !set.remove(PageId::new(3, 65)));
        assert!(set.remove(pages[0]) && !set.remove(pages[0]) && set.len() == 3);
        assert!(set.insert(pages[0]));
        let mut sorted = pages.to_vec();
        sorted.sort_by_key(|p| (p.file, p.page));
        assert_eq!(set.iter().collect::<Vec<_>>(), sorted);
        assert_eq!(set.len(), 4);
    }
}
