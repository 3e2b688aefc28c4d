//! What views show of a group: of everything on the primary, of itself and the primary's name on a secondary.

use super::group::Group;
use super::part::{DatabasePart, PartState};
use daruma_base::Lsn;
use daruma_catalog::ReplicaDef;
use daruma_group::commit::{ReplicaId, SyncState};
use daruma_group::replica::{Following, Progress};
use daruma_tsql::instance::hadr::{
    DatabaseReplicaState, ReplicaRole, ReplicaState, SuspendReason, SynchronizationState,
};
use std::time::Duration;

/// Error number of an attempt to connect that failed, as views show it.
const CONNECT_ERROR: i32 = 10061;

impl Group {
    pub(super) fn replica_states(&self) -> Vec<ReplicaState> {
        let reign = self.reign();
        let is_primary = self.is_primary();
        let def = self.def();
        let shown = def
            .replicas
            .iter()
            .filter(|r| is_primary || r.number == self.me.number() || r.number == reign.primary);
        shown.map(|r| self.replica_state(r, is_primary)).collect()
    }

    fn replica_state(&self, replica: &ReplicaDef, is_primary: bool) -> ReplicaState {
        let is_own = replica.number == self.me.number();
        let number = ReplicaId::new(replica.number);
        let is_connected = is_own || number.is_some_and(|r| self.node.is_connected(r));
        let role = match (is_own, is_primary) {
            (true, _) => Some(self.role()),
            (false, true) => is_connected.then_some(ReplicaRole::Secondary),
            (false, false) => Some(ReplicaRole::Primary),
        };
        let dialers = self.dialers.lock();
        let dialer = dialers.iter().find(|(to, _)| Some(*to) == number);
        let error = dialer.and_then(|(_, dialer)| dialer.last_error());
        let now = self.common.instance.now_utc();
        ReplicaState {
            group_id: self.id(),
            replica_id: replica.replica_id,
            role,
            is_connected,
            last_connect_error: error
                .filter(|_| !is_connected)
                .map(|text| (CONNECT_ERROR, text, now)),
        }
    }

    pub(super) fn database_states(&self) -> Vec<DatabaseReplicaState> {
        let parts = self.parts.lock().clone();
        parts.iter().flat_map(|p| self.states_of(p)).collect()
    }

    fn states_of(&self, part: &DatabasePart) -> Vec<DatabaseReplicaState> {
        let own = self.replica(self.me.number());
        let Some(own) = own.map(|r| r.replica_id) else {
            return Vec::new();
        };
        let empty = self.empty(part, own);
        match &part.state {
            PartState::Down if self.is_reverting(part.id) => vec![DatabaseReplicaState {
                synchronization: SynchronizationState::Reverting,
                suspended: self.suspended(part, false),
                ..empty
            }],
            PartState::Down => vec![empty],
            PartState::Followed {
                secondary,
                followed,
                ..
            } => {
                let following = followed.following();
                let now = self.common.instance.now_utc();
                let (here, applied) = (followed.here(), secondary.applied());
                let rests = following == Following::Resting;
                let is_listed = followed.record().members.contains(self.me);
                vec![DatabaseReplicaState {
                    synchronization: match following {
                        Following::Primary if is_listed => SynchronizationState::Synchronized,
                        Following::Primary => SynchronizationState::Synchronizing,
                        _ => SynchronizationState::NotSynchronizing,
                    },
                    is_commit_participant: is_listed,
                    suspended: self.suspended(part, rests),
                    last_received: Some((followed.end(), now)),
                    last_hardened: Some((here, now)),
                    last_redone: Some((applied, now)),
                    end_of_log: Some(followed.end()),
                    redo_queue_bytes: here.0.saturating_sub(applied.0),
                    redo_bytes_per_second: followed.redo_rate().bytes_per_second(),
                    ..empty
                }]
            }
            PartState::Led { storage, led, .. } => {
                let stats = storage.log_stats();
                let now = self.common.instance.now_utc();
                let commit = storage.last_commit();
                let last_commit = Some((commit.lsn, commit.utc_100ns)).filter(|c| !c.0.is_none());
                let own = DatabaseReplicaState {
                    is_primary: true,
                    synchronization: SynchronizationState::Synchronized,
                    is_commit_participant: true,
                    suspended: self.suspended(part, false),
                    recovery_lsn: Some(stats.recovery_lsn),
                    truncation_lsn: Some(stats.min_lsn),
                    last_hardened: Some((stats.hardened_lsn, now)),
                    end_of_log: Some(stats.end_lsn),
                    last_commit,
                    ..empty.clone()
                };
                let clock = led.clock();
                let progress = led.progress();
                let others = progress
                    .iter()
                    .filter_map(|p| self.state_of(p, &empty, stats.end_lsn, clock));
                std::iter::once(own).chain(others).collect()
            }
        }
    }

    fn state_of(
        &self,
        progress: &Progress,
        empty: &DatabaseReplicaState,
        end: Lsn,
        clock: Duration,
    ) -> Option<DatabaseReplicaState> {
        let replica = self.replica(progress.replica.number())?;
        let now = self.common.instance.now_utc();
        let ago = |at: Duration| {
            let ago = clock.saturating_sub(at).as_nanos() / 100;
            now - i64::try_from(ago).unwrap_or(0)
        };
        let ack = progress.heard.map(|h| h.ack);
        let heard = progress.heard.map(|h| ago(h.at));
        let at = |lsn: Lsn| heard.map(|time| (lsn, time));
        let sent = progress.sent.or(ack.map(|a| a.received));
        let lag = |a: daruma_group::wire::Ack| end.0.saturating_sub(a.here.0);
        let is_behind = ack.is_some_and(|a| lag(a) > 0);
        Some(DatabaseReplicaState {
            replica_id: replica.replica_id,
            is_primary: false,
            synchronization: match progress.sync {
                SyncState::NotSynchronizing => SynchronizationState::NotSynchronizing,
                SyncState::Synchronizing => SynchronizationState::Synchronizing,
                SyncState::Synchronized => SynchronizationState::Synchronized,
            },
            is_commit_participant: progress.is_participant,
            suspended: progress.rests.then_some(SuspendReason::Partner),
            last_sent: sent.map(|lsn| (lsn, now)),
            last_received: ack.and_then(|a| at(a.received)),
            last_hardened: ack.and_then(|a| at(a.here)),
            last_redone: ack.and_then(|a| at(a.applied)),
            log_send_queue_bytes: sent.map_or(0, |s| end.0.saturating_sub(s.0)),
            log_send_bytes_per_second: progress.rates.send.bytes_per_second(),
            log_block_bytes: Some(progress.counts.plain_bytes),
            log_block_sent_bytes: Some(progress.counts.sent_bytes),
            redo_queue_bytes: ack.map_or(0, |a| a.here.0.saturating_sub(a.applied.0)),
            redo_bytes_per_second: progress.rates.redo.bytes_per_second(),
            // Whoever has everything lags by nothing, however long ago it said so.
            secondary_lag_ms: progress.heard.map(|h| match is_behind {
                true => u64::try_from(clock.saturating_sub(h.at).as_millis()).unwrap_or(u64::MAX),
                false => 0,
            }),
            ..empty.clone()
        })
    }

    fn suspended(&self, part: &DatabasePart, rests: bool) -> Option<SuspendReason> {
        (rests || self.is_suspended(part.id)).then_some(SuspendReason::User)
    }

    fn empty(&self, part: &DatabasePart, replica_id: [u8; 16]) -> DatabaseReplicaState {
        DatabaseReplicaState {
            group_id: self.id(),
            replica_id,
            group_database_id: part.id,
            database_id: part.entry.id(),
            is_primary: false,
            synchronization: SynchronizationState::NotSynchronizing,
            is_commit_participant: false,
            suspended: None,
            recovery_lsn: None,
            truncation_lsn: None,
            last_sent: None,
            last_received: None,
            last_hardened: None,
            last_redone: None,
            last_commit: None,
            end_of_log: None,
            log_send_queue_bytes: 0,
            log_send_bytes_per_second: 0,
            log_block_bytes: None,
            log_block_sent_bytes: None,
            redo_queue_bytes: 0,
            redo_bytes_per_second: 0,
            secondary_lag_ms: None,
        }
    }
}
