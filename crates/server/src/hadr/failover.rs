//! A failover: this server becomes the primary of all databases of a group.
//!
//! Theory: the file of the group says first that a failover has begun. What a crash or a failure cuts short is then neither lost nor half
//! done: a forced one counts from that moment, and a planned one as soon as a judge has granted it a database.
//!
//! | cut short | at the next start |
//! |---|---|
//! | before the file says so | nothing has happened |
//! | forced | the databases that are not led yet are forced once more |
//! | planned, all databases granted | it is completed |
//! | planned, some granted | those are led; FAILOVER goes on with the others |
//!
//! Another replica's later reign ends it in any case.
//!
//! Databases whose claims are granted take no more log, all of them, before the first is promoted; those that others have to ask how a prepared
//! transaction ended come first.

use super::group::Group;
use super::part::{DatabasePart, PartState};
use super::reign::{Failover, Numbers};
use super::warrant::Warrant;
use daruma_base::Lsn;
use daruma_catalog::AvailabilityMode;
use daruma_group::commit::Record;
use daruma_group::replica::{Claim, Following};
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::hadr::Availability;
use daruma_tsql::messages;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A judge that has not answered by then does not answer.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(30);

impl Group {
    /// Makes this server the primary. Without force it fails before anything is done where something could be lost.
    pub(super) fn fail_over(self: &Arc<Self>, forced: bool) -> Result<()> {
        let def = self.def();
        if self.is_removed() {
            return Err(not_online(&def.name));
        }
        let own = self.replica(self.me.number());
        if own.is_some_and(|r| r.availability_mode == AvailabilityMode::ConfigurationOnly) {
            // It would lead no database.
            return Err(messages::error(41142, &[&def.name]));
        }
        if self.reverts() {
            // Nor by force: what its files hold is no state of the database.
            return Err(match forced {
                true => not_online(&def.name),
                false => messages::error(41142, &[&def.name]),
            });
        }
        if let Some(warrant) = &self.warrant {
            return match warrant.ballots() {
                Some(ballots) => self.take_office_by_vote(warrant, ballots, forced),
                None => self.fail_over_in_cluster(warrant, forced),
            };
        }
        if self.is_primary() && !forced {
            return Err(messages::error(41122, &[&def.name]));
        }
        if !(forced || self.is_ready()) {
            return Err(messages::error(41142, &[&def.name]));
        }
        match forced {
            true => {
                self.begin_forced(Numbers::ANY)?;
                self.force_all(Numbers::ANY)
            }
            false => {
                self.keep(|kept| kept.failover = Some(Failover::Planned))?;
                self.take_all()
            }
        }
    }

    /// SET (ROLE = SECONDARY): this server leads the group no more, until a failover makes it or another the primary. What others wait for
    /// is on their disks; nothing more is acknowledged.
    pub(super) fn become_secondary(self: &Arc<Self>) -> Result<()> {
        let ballots = self.warrant.as_ref().map(|w| w.ballots());
        if ballots.is_some_and(|ballots| ballots.is_none()) {
            return Err(messages::not_supported(
                "ROLE = SECONDARY with CLUSTER_TYPE = WSFC",
            ));
        }
        self.is_offline.store(false, Ordering::Release);
        // Whatever this server takes itself for: the manager has been told that it leads nothing.
        if ballots.flatten().is_some() {
            self.resign();
        }
        if self.is_removed() || !self.is_primary() {
            return Ok(());
        }
        let reign = self.reign().id;
        self.keep(|kept| {
            kept.resigned = Some(reign);
            kept.failover = None;
        })?;
        self.common.log(&format!(
            "The local availability replica of availability group '{}' is a secondary, by order of an administrator. \
             {} makes a primary, here or elsewhere.",
            self.def().name,
            match ballots {
                Some(_) => "FAILOVER",
                None => "FORCE_FAILOVER_ALLOW_DATA_LOSS",
            }
        ));
        self.resign();
        Ok(())
    }

    /// OFFLINE, where a manager outside decides: this server leads nothing, and is RESOLVING until it is told what to be.
    pub(super) fn go_offline(self: &Arc<Self>) -> Result<()> {
        if self.warrant.as_ref().is_none_or(|w| w.ballots().is_none()) {
            return Err(messages::not_supported("OFFLINE"));
        }
        self.is_offline.store(true, Ordering::Release);
        self.resign();
        Ok(())
    }

    fn resign(self: &Arc<Self>) {
        match &self.warrant {
            Some(warrant) => {
                if let Some(ballots) = warrant.ballots() {
                    self.leave_office(warrant, ballots);
                }
            }
            None => self.dismiss_all(),
        }
    }

    fn fail_over_in_cluster(self: &Arc<Self>, warrant: &Warrant, forced: bool) -> Result<()> {
        let name = self.def().name.clone();
        if warrant.leads().is_some() && !forced {
            return Err(messages::error(41122, &[&name]));
        }
        if !(forced || self.is_ready()) {
            return Err(messages::error(41142, &[&name]));
        }
        self.ask_for_office(warrant, forced)
    }

    /// Goes on with what was cut short. Where a cluster decides, it says again who leads.
    pub(super) fn go_on(self: &Arc<Self>) {
        let done = match self.failover().filter(|_| self.warrant.is_none()) {
            None => return,
            Some(Failover::Forced) => self.force_all(Numbers::ANY),
            Some(Failover::Planned) if self.leads_all() => self.complete(),
            Some(Failover::Planned) => return,
        };
        if let Err(error) = done {
            self.common.log(&format!(
                "A failover of availability group '{}' that was cut short could not go on: {error}",
                self.def().name
            ));
        }
    }

    fn is_ready(&self) -> bool {
        let def = self.def();
        let parts = self.parts.lock().clone();
        let joined = def
            .databases
            .iter()
            .all(|d| parts.iter().any(|p| p.id == d.group_database_id));
        joined && parts.iter().all(|p| self.may_take_over(p))
    }

    fn may_take_over(&self, part: &DatabasePart) -> bool {
        match &part.state {
            PartState::Followed { followed, .. } => {
                part.could_be_led()
                    && followed.following() == Following::Primary
                    && followed.record().members.contains(self.me)
            }
            // A failover that was cut short goes on.
            PartState::Led { .. } => true,
            PartState::Down => false,
        }
    }

    fn leads_all(&self) -> bool {
        let parts = self.parts.lock();
        !parts.is_empty() && parts.iter().all(|p| p.role().is_some())
    }

    // --- planned

    fn take_all(self: &Arc<Self>) -> Result<()> {
        let parts = self.parts.lock().clone();
        let mut granted = Vec::new();
        let mut refused = false;
        for part in parts {
            let PartState::Followed { followed, .. } = &part.state else {
                continue;
            };
            let id = u128::from_be_bytes(self.common.random_id());
            match followed.promote(id, Claim::Judged, JUDGE_TIMEOUT) {
                Ok(record) => granted.push(Granted {
                    part,
                    record,
                    acknowledged: None,
                }),
                // A judge that did not answer may have granted it: the file goes on saying what was begun, until somebody's reign begins.
                Err(_) => {
                    refused = true;
                    break;
                }
            }
        }
        self.promote_all(granted);
        match refused {
            true => Err(messages::error(41142, &[&self.def().name])),
            false => self.complete(),
        }
    }

    fn complete(self: &Arc<Self>) -> Result<()> {
        let (id, me) = (self.common.random_id(), self.me.number());
        let reign = self.reign().next(id, me, false);
        self.keep(|kept| {
            kept.reign = reign;
            kept.failover = None;
        })?;
        self.connect();
        self.announce();
        Ok(())
    }

    // --- forced

    /// The reign is this server's, if none has begun that comes after it.
    pub(super) fn begin_forced(&self, numbers: Numbers) -> Result<()> {
        let (id, me) = (self.common.random_id(), self.me.number());
        let mut is_begun = false;
        self.keep(|kept| is_begun = kept.begin_forced(id, me, numbers))?;
        match is_begun {
            true => Ok(()),
            false => Err(not_online(&self.def().name)),
        }
    }

    /// What can be led is led, and told to the others, also where one of the databases fails.
    pub(super) fn force_all(self: &Arc<Self>, numbers: Numbers) -> Result<()> {
        let parts = self.parts.lock().clone();
        let claimed = parts.iter().take_while(|_| self.is_still_owner());
        let granted = claimed
            .filter_map(|part| self.force(part, numbers))
            .collect();
        if self.is_still_owner() {
            self.promote_all(granted);
        }
        self.connect();
        self.announce();
        let failed = self.parts.lock().iter().any(|p| p.role().is_none());
        match failed {
            false => self.keep(|kept| kept.failover = None),
            true => Err(not_online(&self.def().name)),
        }
    }

    fn force(self: &Arc<Self>, part: &DatabasePart, numbers: Numbers) -> Option<Granted> {
        let PartState::Followed { followed, .. } = &part.state else {
            return None;
        };
        let id = u128::from_be_bytes(self.common.random_id());
        // The cluster may name another before this reign counts.
        let known = followed.quorum().min(followed.here());
        let acknowledged = self.warrant.as_ref().map(|_| known);
        let part = part.clone();
        let Numbers { least, most } = numbers;
        match followed.promote(id, Claim::Forced { least, most }, JUDGE_TIMEOUT) {
            Ok(record) => Some(Granted {
                part,
                record,
                acknowledged,
            }),
            Err(Some(_)) if followed.failure().is_none() => {
                self.common.log(&format!(
                    "Database '{}' is followed: another replica leads it by now.",
                    part.entry.name()
                ));
                None
            }
            Err(_) => {
                self.down(&part, "its log could not be hardened");
                None
            }
        }
    }

    // --- the databases

    fn promote_all(self: &Arc<Self>, granted: Vec<Granted>) {
        let mut ready: Vec<Ready> = granted.into_iter().filter_map(|g| self.finish(g)).collect();
        while !ready.is_empty() {
            let is_asked = |guid: &u64| ready.iter().any(|r| r.guid == *guid);
            let asks_nobody = |r: &Ready| !r.asks.iter().any(|g| *g != r.guid && is_asked(g));
            // Two that ask each other cannot be: one primary wrote what is prepared, and its lowest database decides.
            let first = ready.iter().position(asks_nobody).unwrap_or(0);
            let next = ready.remove(first);
            if let Err(error) = self.promote(&next.granted) {
                self.down(&next.granted.part, &error.message);
            }
        }
    }

    /// Ends redo, and learns whom the database has to ask.
    fn finish(self: &Arc<Self>, granted: Granted) -> Option<Ready> {
        let PartState::Followed {
            secondary, copy, ..
        } = &granted.part.state
        else {
            return None;
        };
        let stopped = copy.stop();
        self.node.remove(granted.part.number());
        self.set_availability(&granted.part.entry, Availability::Resolving);
        let asks = match stopped {
            Some(why) => Err(why),
            None => secondary.finish_redo().map_err(|e| e.to_string()),
        };
        match asks {
            Ok(asks) => Some(Ready {
                guid: secondary.guid(),
                asks,
                granted,
            }),
            Err(why) => {
                self.down(&granted.part, &why);
                None
            }
        }
    }

    fn promote(self: &Arc<Self>, granted: &Granted) -> Result<()> {
        let Granted {
            part,
            record,
            acknowledged,
        } = granted;
        let PartState::Followed { secondary, .. } = &part.state else {
            return Ok(());
        };
        let storage = secondary.promote_as(record.epoch.number, record.epoch.id)?;
        self.set_restoring(&part.entry, false)?;
        self.common.instance.show_database(&part.entry, &storage)?;
        let file = self.standing(part.id)?;
        self.begin_reign(part.id, &part.entry, file, &storage, *record, *acknowledged)
    }
}

/// A database that this server may lead.
struct Granted {
    part: DatabasePart,
    record: Record,
    /// See `Led::begin`.
    acknowledged: Option<Lsn>,
}

/// One that takes no more log.
struct Ready {
    granted: Granted,
    guid: u64,
    /// Guids of those that decide about what is prepared here.
    asks: BTreeSet<u64>,
}

/// Not all databases could be led; the error log has the reasons.
pub(super) fn not_online(group: &str) -> SqlError {
    let text = format!(
        "Failed to bring availability group '{group}' online.  The operation timed out. If this is a Windows Server Failover Clustering (WSFC) \
         availability group, verify that the local WSFC node is online. Then verify that the availability group resource exists in the WSFC cluster. \
         If the problem persists, you might need to drop the availability group and create it again."
    );
    SqlError::new(41131, 16, 1, text)
}
