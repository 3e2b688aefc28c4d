//! ALTER AVAILABILITY GROUP.

use super::create::{REPLICAS_MAX, check_data, check_modes};
use super::options::{
    change_listener, cluster_type, group_option, listener, not_recognized, replica_option,
};
use super::{Execution, group_missing};
use crate::error::Result;
use crate::instance::hadr::GroupAct;
use crate::messages;
use daruma_catalog::{ClusterType, GroupDef, names_equal};
use daruma_syntax::ast::{
    AlterAvailabilityGroup, AvailabilityGroupAction as Action, ListenerSpec, OptionItem,
    ReplicaSpec,
};
use daruma_value::Value;

const FIRST_ID: i32 = 1;
/// Of the session context.
const MANAGER_KEY: &str = "external_cluster";

impl Execution<'_> {
    pub(crate) fn alter_group(&self, statement: &AlterAvailabilityGroup) -> Result<()> {
        let name = statement.name.text.as_str();
        if let Action::Join(options) = &statement.action {
            return self.join_group(name, options);
        }
        let group = self.group_to("alter", name)?;
        match &statement.action {
            Action::Set(options) if is_become_secondary(options) => {
                self.act(&group, GroupAct::BecomeSecondary)
            }
            Action::Failover => self.promote(&group, GroupAct::Failover),
            Action::ForceFailoverAllowDataLoss => self.promote(&group, GroupAct::ForceFailover),
            Action::Offline => self.act(&group, GroupAct::Offline),
            Action::Online => self.act(&group, GroupAct::Online),
            Action::RestartListener(listener) => {
                let has_it = |l: &daruma_catalog::ListenerDef| names_equal(&l.dns_name, listener);
                match group.listener.as_ref().is_some_and(has_it) {
                    true => self.act(&group, GroupAct::RestartListener),
                    false => Err(listener_missing(listener)),
                }
            }
            Action::GrantCreateAnyDatabase => self.let_create(&group, true),
            Action::DenyCreateAnyDatabase => self.let_create(&group, false),
            Action::JoinGroups(_) => Err(messages::not_supported("DISTRIBUTED")),
            change => self.change_group(&group, change),
        }
    }

    /// Error 15151 for a group that is not there, or that the session may not change.
    pub(crate) fn may_change_group(&self, statement: &AlterAvailabilityGroup) -> Result<()> {
        let name = statement.name.text.as_str();
        match &statement.action {
            Action::Join(_) => self.may_join(name),
            _ => self.group_to("alter", name).map(|_| ()),
        }
    }

    fn may_join(&self, name: &str) -> Result<()> {
        match self.state.server_rights().has("CREATE AVAILABILITY GROUP") {
            true => Ok(()),
            false => Err(group_missing("alter", name)),
        }
    }

    /// Where a manager outside decides, nobody else promotes by mistake: its sessions say that they are its own.
    fn promote(&self, group: &GroupDef, act: GroupAct) -> Result<()> {
        let is_external = group.options.cluster_type == ClusterType::External;
        match is_external && !self.is_external_manager() {
            true => Err(messages::error(47104, &[&group.name])),
            false => self.act(group, act),
        }
    }

    /// `sp_set_session_context @key = N'external_cluster', @value = N'yes'`.
    fn is_external_manager(&self) -> bool {
        let context = self.state.session_context.borrow();
        let value = context.get(MANAGER_KEY).map(|(value, _)| value);
        let value = match value {
            Some(Value::Variant(variant)) => Some(&variant.value),
            value => value,
        };
        matches!(value, Some(Value::Str(word)) if word.eq_ignore_ascii_case("yes"))
    }

    fn act(&self, group: &GroupDef, act: GroupAct) -> Result<()> {
        self.instance().hadr.service().act_on_group(group, act)
    }

    /// JOIN: this server becomes a secondary, with the definition that the primary has.
    fn join_group(&self, name: &str, options: &[OptionItem]) -> Result<()> {
        self.may_join(name)?;
        let mut wanted = ClusterType::Wsfc;
        for item in options {
            match item.is("CLUSTER_TYPE") {
                true => wanted = cluster_type(item)?,
                false => return Err(not_recognized(&item.name, "JOIN")),
            }
        }
        let hadr = &self.instance().hadr;
        hadr.groups.create(FIRST_ID, |id| {
            if hadr.group(name).is_some() {
                return Err(messages::error(41042, &[&name]));
            }
            let group = hadr.service().join_group(name, wanted)?;
            Ok(GroupDef { id, ..group })
        })?;
        Ok(())
    }

    /// GRANT and DENY CREATE ANY DATABASE are about this server alone.
    fn let_create(&self, group: &GroupDef, may: bool) -> Result<()> {
        let changed = self.instance().hadr.groups.change(group.id, |def| {
            def.creates_databases = may;
            Ok(())
        })?;
        changed
            .map(drop)
            .ok_or_else(|| group_missing("alter", &group.name))
    }

    fn change_group(&self, group: &GroupDef, change: &Action) -> Result<()> {
        let hadr = &self.instance().hadr;
        let now = self.instance().now_utc();
        let service = hadr.service();
        let alter = |def: &mut GroupDef| {
            self.needs_primary(def)?;
            let before = def.clone();
            self.apply(def, change, now)?;
            def.sequence_number += 1;
            def.modified_utc = now;
            service.alter_group(&before, def)
        };
        let changed = hadr
            .groups
            .change_then(group.id, alter, |before, after, is_stored| {
                service.settle_group(before, after, is_stored);
            })?;
        changed
            .map(drop)
            .ok_or_else(|| group_missing("alter", &group.name))
    }

    fn apply(&self, def: &mut GroupDef, change: &Action, now: i64) -> Result<()> {
        match change {
            Action::Set(options) => options.iter().try_for_each(|item| {
                if item.is("CLUSTER_TYPE") {
                    return Err(not_recognized("CLUSTER_TYPE", "ALTER AVAILABILITY GROUP"));
                }
                let name = def.name.clone();
                group_option(&mut def.options, &name, item)
            }),
            Action::AddDatabases(names) => names.iter().try_for_each(|name| {
                if def.database(&name.text).is_some_and(|d| d.is_joined) {
                    return Err(messages::error(35280, &[&name.text, &def.name]));
                }
                let database = self.new_group_database(def, name)?;
                def.databases.retain(|d| !names_equal(&d.name, &name.text));
                def.databases.push(database);
                Ok(())
            }),
            Action::RemoveDatabases(names) => names.iter().try_for_each(|name| {
                let count = def.databases.len();
                def.databases.retain(|d| !names_equal(&d.name, &name.text));
                match def.databases.len() == count {
                    true => Err(messages::error(35281, &[&name.text, &def.name])),
                    false => Ok(()),
                }
            }),
            Action::AddReplicas(specs) => self.add_replicas(def, specs),
            Action::ModifyReplicas(specs) => specs
                .iter()
                .try_for_each(|spec| self.modify_replica(def, spec, now)),
            Action::RemoveReplicas(servers) => servers
                .iter()
                .try_for_each(|server| self.remove_replica(def, server)),
            Action::AddListener(spec) => {
                if def.listener.is_some() {
                    return Err(messages::not_supported("several listeners"));
                }
                def.listener = Some(listener(spec, self.random_guid())?);
                Ok(())
            }
            Action::ModifyListener(spec) => modify_listener(def, spec),
            Action::RemoveListener(name) => {
                let found = def.listener.take();
                match found.is_some_and(|l| names_equal(&l.dns_name, name)) {
                    true => Ok(()),
                    false => Err(listener_missing(name)),
                }
            }
            other => Err(messages::not_supported(&other.to_string())),
        }
    }

    fn add_replicas(&self, def: &mut GroupDef, specs: &[ReplicaSpec]) -> Result<()> {
        let (had, adds) = (def.replicas.len(), specs.len());
        if had + adds > REPLICAS_MAX {
            return Err(messages::error(
                35223,
                &[&adds, &def.name, &had, &REPLICAS_MAX],
            ));
        }
        specs.iter().try_for_each(|spec| {
            if def.replica(&spec.server).is_some() {
                return Err(messages::error(35282, &[&spec.server, &def.name]));
            }
            let replica = self.new_replica(def, spec)?;
            def.replicas.push(replica);
            Ok(())
        })
    }

    fn modify_replica(&self, def: &mut GroupDef, spec: &ReplicaSpec, now: i64) -> Result<()> {
        let group = def.clone();
        let replica = def
            .replicas
            .iter_mut()
            .find(|r| names_equal(&r.server, &spec.server));
        let missing = || messages::error(15151, &[&"alter", &"availability replica", &spec.server]);
        let replica = replica.ok_or_else(missing)?;
        let before = replica.availability_mode;
        for item in &spec.options {
            replica_option(replica, item)?;
        }
        replica.modified_utc = now;
        check_modes(&group, replica)?;
        let is_own = names_equal(&replica.server, self.server_name());
        check_data(&group, Some(before), replica, is_own)
    }

    fn remove_replica(&self, def: &mut GroupDef, server: &str) -> Result<()> {
        if def.replica(server).is_none() {
            return Err(messages::error(35283, &[&server, &def.name]));
        }
        if names_equal(server, self.server_name()) {
            return Err(messages::error(35284, &[&server, &def.name]));
        }
        def.replicas.retain(|r| !names_equal(&r.server, server));
        // Nobody is sent where nobody is any more.
        for replica in &mut def.replicas {
            for place in &mut replica.read_only_routing {
                place.retain(|name| !names_equal(name, server));
            }
            replica.read_only_routing.retain(|place| !place.is_empty());
        }
        Ok(())
    }
}

fn modify_listener(def: &mut GroupDef, spec: &ListenerSpec) -> Result<()> {
    let found = def.listener.as_mut();
    let listener = found
        .filter(|l| names_equal(&l.dns_name, &spec.name))
        .ok_or_else(|| listener_missing(&spec.name))?;
    spec.options
        .iter()
        .try_for_each(|item| change_listener(listener, item))
}

fn listener_missing(name: &str) -> crate::error::SqlError {
    messages::error(15151, &[&"alter", &"availability group listener", &name])
}

/// `SET (ROLE = SECONDARY)`.
fn is_become_secondary(options: &[OptionItem]) -> bool {
    matches!(options, [one] if one.is("ROLE") && one.value.is("SECONDARY"))
}
