//! A frame of pages, put together in place: `runs u32, then for each file u16, first page u32, pages u16; then the pages`.
//!
//! Theory: pages are read to where they are compressed from. How long the table of runs becomes is known only when all are
//! read, so there is room for the longest before the pages, and the table is written so that it ends where they begin.

use crate::take::PAGE_BYTES;
use daruma_storage::PageRun;

const COUNT_BYTES: usize = 4;
const RUN_BYTES: usize = 8;

/// The buffer of one thread.
#[derive(Default)]
pub struct PageFrame {
    bytes: Vec<u8>,
    /// Where the pages begin and end.
    begin: usize,
    end: usize,
    runs: Vec<(u16, PageRun)>,
}

impl PageFrame {
    /// Begins a frame of at most so many pages.
    pub fn clear(&mut self, pages_max: u32) {
        let pages = pages_max as usize;
        self.begin = COUNT_BYTES + pages * RUN_BYTES;
        self.end = self.begin;
        self.runs.clear();
        self.bytes.resize(self.begin + pages * PAGE_BYTES, 0);
    }

    /// Where the next pages are to be read.
    pub fn space(&mut self, pages: u32) -> &mut [u8] {
        &mut self.bytes[self.end..self.end + pages as usize * PAGE_BYTES]
    }

    /// Keeps these pages of the run that was read into `space`.
    pub fn keep(&mut self, file: u16, run: PageRun, is_wanted: impl Fn(u32, &[u8]) -> bool) {
        let mut from = self.end;
        for page in run.first..run.first + run.count {
            let bytes = from..from + PAGE_BYTES;
            from = bytes.end;
            if !is_wanted(page, &self.bytes[bytes.clone()]) {
                continue;
            }
            if bytes.start != self.end {
                self.bytes.copy_within(bytes, self.end);
            }
            self.end += PAGE_BYTES;
            self.note(file, page);
        }
    }

    fn note(&mut self, file: u16, page: u32) {
        match self.runs.last_mut() {
            Some((f, run)) if *f == file && run.first + run.count == page => run.count += 1,
            _ => self.runs.push((
                file,
                PageRun {
                    first: page,
                    count: 1,
                },
            )),
        }
    }

    /// The runs of the pages kept.
    pub fn runs(&self) -> &[(u16, PageRun)] {
        &self.runs
    }

    /// The frame, with its table.
    pub fn finish(&mut self) -> &[u8] {
        let start = self.begin - COUNT_BYTES - self.runs.len() * RUN_BYTES;
        let (count, table) = self.bytes[start..self.begin].split_at_mut(COUNT_BYTES);
        count.copy_from_slice(&(self.runs.len() as u32).to_le_bytes());
        for (entry, (file, run)) in table.chunks_exact_mut(RUN_BYTES).zip(&self.runs) {
            entry[..2].copy_from_slice(&file.to_le_bytes());
            entry[2..6].copy_from_slice(&run.first.to_le_bytes());
            entry[6..].copy_from_slice(&(run.count as u16).to_le_bytes());
        }
        &self.bytes[start..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore::each_run;

    #[test]
    fn kept_pages_come_back_and_others_do_not() {
        let mut frame = PageFrame::default();
        for round in 0..2u8 {
            frame.clear(8);
            for (file, first, count) in [(1, 10, 3), (1, 13, 2), (3, 40, 3)] {
                let run = PageRun { first, count };
                let pages = frame.space(count).chunks_exact_mut(PAGE_BYTES);
                (first..)
                    .zip(pages)
                    .for_each(|(page, bytes)| bytes.fill(page as u8 + round));
                frame.keep(file, run, |page, _| page != 11 && page != 40);
            }
            let mut found = Vec::new();
            each_run(frame.finish(), |file, run, pages| {
                let first = pages.chunks_exact(PAGE_BYTES).map(|p| p[0] - round);
                found.push((file, run.first, first.collect::<Vec<_>>()));
                Ok(())
            })
            .expect("reads");
            assert_eq!(
                found,
                [
                    (1, 10, vec![10]),
                    (1, 12, vec![12, 13, 14]),
                    (3, 41, vec![41, 42])
                ]
            );
        }
    }
}
