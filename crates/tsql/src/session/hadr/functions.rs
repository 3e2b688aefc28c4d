//! System functions of certificates and groups.

use super::Execution;
use crate::host::Host;
use crate::instance::MASTER;
use crate::instance::hadr::{ReplicaRole, ReplicaState};
use daruma_catalog::{BackupPreference, GroupDef, names_equal};
use daruma_value::Value;

impl Execution<'_> {
    /// `None`: it is no function of these.
    pub(crate) fn hadr_function(&self, name: &str, args: &[Value]) -> Option<Value> {
        let text = match args.first() {
            Some(Value::Str(text)) => Some(text.as_str()),
            _ => None,
        };
        let hadr = &self.instance().hadr;
        Some(match name {
            "cert_id" => {
                let found = text.filter(|_| self.sees_certificates());
                let found = found.and_then(|name| hadr.certificate(name));
                found.map_or(Value::Null, |c| Value::Int(c.id))
            }
            "certencoded" => {
                let id = match args.first() {
                    Some(Value::Int(id)) if self.sees_certificates() => Some(*id),
                    _ => None,
                };
                let found = id.and_then(|id| hadr.certificates.by_id(id));
                found.map_or(Value::Null, |c| Value::Bytes(c.der.clone()))
            }
            "fn_hadr_is_primary_replica" => {
                let group = text.and_then(|name| self.group_of(name));
                group.map_or(Value::Null, |group| {
                    let role = hadr.service().role(group.group_id);
                    Value::Bit(role == ReplicaRole::Primary)
                })
            }
            "fn_hadr_backup_is_preferred_replica" => {
                let group = text.and_then(|name| self.group_of(name));
                Value::Bit(group.is_none_or(|group| {
                    let replicas = hadr.service().replicas();
                    let best = preferred(&group, &replicas);
                    best.is_none_or(|server| names_equal(server, self.server_name()))
                }))
            }
            // There are no distributed groups.
            "fn_hadr_distributed_ag_replica" | "fn_hadr_distributed_ag_database_replica" => {
                Value::Null
            }
            _ => return None,
        })
    }

    fn group_of(&self, database: &str) -> Option<std::sync::Arc<GroupDef>> {
        let hadr = &self.instance().hadr;
        let entry = self.instance().database_named(database)?;
        match self.knows_database(entry.id()) {
            true => hadr.group_of_database(database),
            false => None,
        }
    }

    fn sees_certificates(&self) -> bool {
        self.current_database() == MASTER && self.state.server_rights().has("VIEW ANY DEFINITION")
    }
}

/// The server that is to take backups: of those connected that the group prefers, the one of highest priority; of equal
/// ones the first by name. `None`: nobody is known to be there.
fn preferred<'g>(group: &'g GroupDef, states: &[ReplicaState]) -> Option<&'g str> {
    let candidates = |role: Option<ReplicaRole>| {
        let fits = |s: &&ReplicaState| {
            s.group_id == group.group_id && s.is_connected && role.is_none_or(|r| s.role == Some(r))
        };
        let replicas = states.iter().filter(fits).filter_map(|state| {
            let found = group.replicas.iter();
            let mut found = found.filter(|r| r.replica_id == state.replica_id);
            found.next().filter(|r| r.backup_priority > 0)
        });
        replicas
            .min_by_key(|r| (u8::MAX - r.backup_priority, r.server.to_lowercase()))
            .map(|r| r.server.as_str())
    };
    let (primary, secondary) = (ReplicaRole::Primary, ReplicaRole::Secondary);
    match group.options.backup_preference {
        BackupPreference::Primary => candidates(Some(primary)),
        BackupPreference::SecondaryOnly => candidates(Some(secondary)),
        BackupPreference::Secondary => {
            candidates(Some(secondary)).or_else(|| candidates(Some(primary)))
        }
        BackupPreference::None => candidates(None),
    }
}
