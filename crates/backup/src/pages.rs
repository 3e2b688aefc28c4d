//! Restoring single pages: their content in a backup, rolled forward by the log of that and the following backups.

use crate::chain::RestoreState;
use crate::error::{BackupError, Result};
use crate::frame::Kind;
use crate::meta::BackupKind;
use crate::reader::SetReader;
use crate::restore::{each_run, log_chunk, plan_log};
use crate::take::PAGE_BYTES;
use daruma_base::{Lsn, PageId};
use daruma_storage::PageRoll;

/// Takes pages from a full backup (without `state`), or what a following differential or log backup says of them.
pub fn restore_pages(
    set: &SetReader,
    roll: &mut PageRoll,
    state: Option<RestoreState>,
) -> Result<RestoreState> {
    let info = set.info();
    if let Some(state) = &state {
        state.check_rolled(info).map_err(BackupError::Chain)?;
    }
    let adds_nothing = |state: &RestoreState| {
        info.kind == BackupKind::Differential && info.last_lsn <= state.end_lsn
    };
    // The log of its path has come further.
    let state = match state {
        Some(state) if adds_nothing(&state) => return Ok(state),
        state => state,
    };
    let from = match (&state, info.kind) {
        (Some(state), BackupKind::Log) => state.end_lsn,
        _ => info.first_lsn,
    };
    let mut next = state.unwrap_or_else(|| RestoreState::after_full(info));
    if info.kind != BackupKind::Log {
        take_pages(set, roll)?;
    }
    let plan = plan_log(set, Lsn(from), None)?;
    set.in_order(Kind::Log, |content| {
        roll.apply(&plan.trim(log_chunk(content.plain)?)?)?;
        Ok(true)
    })?;
    next.applied(info, info.last_lsn, false);
    Ok(next)
}

fn take_pages(set: &SetReader, roll: &mut PageRoll) -> Result<()> {
    let wanted: Vec<u64> = roll.ids().into_iter().map(PageId::to_u64).collect();
    let may_hold = |first: u64, last: u64| wanted.iter().any(|p| (first..=last).contains(p));
    set.in_order_where(Kind::Pages, may_hold, |content| {
        each_run(content.plain, |file, run, pages| {
            for (page, bytes) in (run.first..).zip(pages.chunks_exact(PAGE_BYTES)) {
                let id = PageId::new(file, page);
                if wanted.contains(&id.to_u64()) && set.is_known_damage(file, page) {
                    return Err(BackupError::DamagedPage { file, page });
                }
                roll.put(id, bytes)?;
            }
            Ok(())
        })?;
        Ok(true)
    })
}
