//! CASCADE: what somebody has handed on goes with his right to do so.
//!
//! Theory: an entry that may be handed on is the source of those that its grantee gave of it, on the same securable or on what lies in
//! that, and these of others. When an entry goes, everything goes that comes of it and of nothing else: what its grantor could give without
//! it stays. That is asked from the entries that stay outwards, so that two which were handed on to each other do not hold each other up.
//!
//! Tests: `golden/sql/security/cascade.sqlt`.

use super::rights::{hands_on, reaches};
use super::{DBO, Execution, Securable, class};
use crate::error::Result;
use daruma_base::DatabaseId;
use daruma_catalog::{Change, DatabaseCatalog, PermissionDef, PermissionSet, PermissionState, Put};
use daruma_syntax::ast::GrantVerb;
use std::collections::BTreeSet;

/// An entry, and who has it.
#[derive(Clone, PartialEq)]
pub(super) struct Held {
    pub grantee: i32,
    pub entry: PermissionDef,
}

impl Held {
    fn hands_on(&self, catalog: &DatabaseCatalog, other: &Held) -> bool {
        self.entry.state == PermissionState::GrantWithOption && self.is_source(catalog, other)
    }

    /// Did its grantee give the other one, of what this one is about?
    fn is_source(&self, catalog: &DatabaseCatalog, other: &Held) -> bool {
        let entry = &other.entry;
        entry.grantor == self.grantee
            && securable_of(catalog, entry)
                .is_some_and(|on| reaches(&self.entry, &entry.permission, on, entry.minor))
    }
}

impl Execution<'_> {
    /// Takes what was handed on of entries that are gone, or denies it in the name of `denier` where these were denied. All definitions
    /// are locked.
    pub(super) fn take_what_was_handed_on(
        &self,
        database: DatabaseId,
        verb: GrantVerb,
        gone: &[Held],
        denier: i32,
    ) -> Result<()> {
        let catalog = self.state.catalog(database)?;
        let mut goes = handed_on(&catalog, gone);
        if verb == GrantVerb::Revoke {
            keep_what_has_other_sources(&catalog, &mut goes);
        }
        let grantees: BTreeSet<i32> = goes.iter().map(|held| held.grantee).collect();
        for old in grantees.iter().filter_map(|g| catalog.permissions_of(*g)) {
            let set = without(old, &goes, (verb == GrantVerb::Deny).then_some(denier));
            self.state
                .change(database, Change::PutPermissions(Put::over(old, set)))?;
        }
        Ok(())
    }
}

/// A principal's entries without those that go; with a denier these are denied instead.
fn without(old: &PermissionSet, goes: &[Held], denier: Option<i32>) -> PermissionSet {
    let mut list = Vec::new();
    for entry in &old.list {
        let is_it = |held: &Held| held.grantee == old.grantee && held.entry == *entry;
        let kept = match (goes.iter().any(is_it), denier) {
            (false, _) => entry.clone(),
            (true, None) => continue,
            (true, Some(grantor)) => PermissionDef {
                state: PermissionState::Deny,
                grantor,
                ..entry.clone()
            },
        };
        if !list.contains(&kept) {
            list.push(kept);
        }
    }
    PermissionSet {
        grantee: old.grantee,
        list,
    }
}

/// Everything that comes of these entries.
fn handed_on(catalog: &DatabaseCatalog, gone: &[Held]) -> Vec<Held> {
    let all: Vec<Held> = all_given(catalog).collect();
    let mut found: Vec<Held> = Vec::new();
    let mut sources = gone.to_vec();
    while let Some(source) = sources.pop() {
        for held in &all {
            if source.is_source(catalog, held) && !found.contains(held) {
                found.push(held.clone());
                if held.entry.state == PermissionState::GrantWithOption {
                    sources.push(held.clone());
                }
            }
        }
    }
    found
}

/// Leaves out those whose grantor could give them without any that go.
fn keep_what_has_other_sources(catalog: &DatabaseCatalog, goes: &mut Vec<Held>) {
    let mut staying: Vec<Held> = all_given(catalog).filter(|h| !goes.contains(h)).collect();
    loop {
        let has_source = |held: &Held| {
            let on = securable_of(catalog, &held.entry);
            let owns = on.is_some_and(|on| {
                super::grant::owner_of_securable(catalog, on) == held.entry.grantor
            });
            held.entry.grantor == DBO || owns || staying.iter().any(|s| s.hands_on(catalog, held))
        };
        let kept: Vec<Held> = goes
            .iter()
            .filter(|held| has_source(held))
            .cloned()
            .collect();
        if kept.is_empty() {
            return;
        }
        goes.retain(|held| !kept.contains(held));
        staying.extend(kept);
    }
}

fn all_given(catalog: &DatabaseCatalog) -> impl Iterator<Item = Held> {
    let entries = |set: &PermissionSet| {
        let grantee = set.grantee;
        let held = move |entry: PermissionDef| Held { grantee, entry };
        set.list.clone().into_iter().map(held)
    };
    let all = catalog.permissions().flat_map(move |set| entries(set));
    all.filter(|held| held.entry.state != PermissionState::Deny)
}

/// What an entry is on; `None` where that is gone.
fn securable_of(catalog: &DatabaseCatalog, entry: &PermissionDef) -> Option<Securable> {
    match entry.class {
        class::DATABASE => Some(Securable::Database),
        class::OBJECT => Some(Securable::of(catalog.object(entry.major)?)),
        class::SCHEMA => Some(Securable::Schema(entry.major)),
        class::PRINCIPAL => Some(Securable::Principal(entry.major)),
        _ => None,
    }
}

/// The principal of these whose own entry lets it hand the permission on.
pub(super) fn who_hands_on(
    catalog: &DatabaseCatalog,
    principals: &[i32],
    permission: &str,
    (on, column): (Securable, i32),
) -> Option<i32> {
    let lets = |id: &&i32| {
        let set = catalog.permissions_of(**id);
        set.is_some_and(|s| s.list.iter().any(|e| hands_on(e, permission, on, column)))
    };
    principals.iter().find(lets).copied()
}
