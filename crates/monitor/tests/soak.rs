//! Half an hour of two servers in the repository, faster than it passes: what is read is what was written. A whole day of ten is
//! `daruma lab soak`.

mod common;

use daruma_monitor::figures::{COUNT, index};
use daruma_monitor::repository::Repository;
use daruma_monitor::simulated::{FLUSHES, HOUR_MS, STATEMENT_EVERY, questions, write};

#[test]
fn what_is_read_is_what_was_written_at_every_width() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = common::server(dir.path());
    let repository = Repository::open(&common::options(&program)).expect("opens");
    let from = daruma_monitor::sql::now() / HOUR_MS * HOUR_MS - 2 * HOUR_MS;
    write(&repository, 2, from, 1_800, |_| true).expect("writes");
    let at = index("log_flushes").expect("a figure");
    for (start, end) in [(0, 1_800), (60, 960), (7, 1_234), (600, 601)] {
        let stretch = repository
            .stretch(2, from + start * 1_000, from + end * 1_000)
            .expect("reads");
        let sum: f64 = stretch.rows.iter().map(|row| row.value[at]).sum();
        assert_eq!(sum, FLUSHES * (end - start) as f64, "{start} to {end}");
        assert!(
            stretch
                .rows
                .iter()
                .all(|row| row.value.len() == COUNT && row.value[at] > 0.0)
        );
    }
    let asked = questions(&repository, 2, from, from + 1_800_000).expect("reads");
    assert_eq!(asked.len(), 40);
    let statements = repository.statements(1, from, from + 1_800_000, 0);
    assert_eq!(
        statements.expect("reads").len() as i64,
        1_800 / STATEMENT_EVERY
    );
    program.stop().expect("stops");
}
