//! CREATE and DROP AVAILABILITY GROUP, and what is asked of replicas and databases that are added to one.

use super::options::{default_group, group_option, listener, replica_option};
use super::{Execution, class, group_missing};
use crate::error::Result;
use crate::instance::hadr::{ReplicaRole, not_enabled};
use crate::messages;
use daruma_catalog::*;
use daruma_storage::RecoveryModel;
use daruma_syntax::ast::{CreateAvailabilityGroup, Ident, OptionItem, ReplicaSpec};

/// Replicas of a group.
pub(super) const REPLICAS_MAX: usize = 9;
/// Longest name of a server.
const SERVER_CHARS_MAX: usize = 128;
const FIRST_ID: i32 = 1;
/// What every replica has to say besides ENDPOINT_URL.
const REQUIRED: [&str; 2] = ["AVAILABILITY_MODE", "FAILOVER_MODE"];

impl Execution<'_> {
    /// CREATE AVAILABILITY GROUP: this server becomes its primary.
    pub(crate) fn create_group(&self, statement: &CreateAvailabilityGroup) -> Result<()> {
        self.may_create_group()?;
        let instance = self.instance();
        let groups = &instance.hadr.groups;
        groups.create(FIRST_ID, |id| {
            let group = self.new_group(id, statement)?;
            instance.hadr.service().create_group(&group)?;
            Ok(group)
        })?;
        Ok(())
    }

    /// Error 15247.
    pub(crate) fn may_create_group(&self) -> Result<()> {
        match self.state.server_rights().has("CREATE AVAILABILITY GROUP") {
            true => Ok(()),
            false => Err(messages::error(15247, &[])),
        }
    }

    fn new_group(&self, id: i32, statement: &CreateAvailabilityGroup) -> Result<GroupDef> {
        let name = statement.name.text.as_str();
        let now = self.instance().now_utc();
        let mut group = GroupDef {
            id,
            group_id: self.random_guid(),
            name: name.to_string(),
            options: default_group(),
            replicas: Vec::new(),
            databases: Vec::new(),
            listener: None,
            sequence_number: 1,
            created_utc: now,
            modified_utc: now,
            creates_databases: false,
        };
        // What others may say depends on it.
        let (kind, others): (Vec<_>, Vec<_>) = statement
            .options
            .iter()
            .partition(|item| item.is("CLUSTER_TYPE"));
        for item in kind.into_iter().chain(others) {
            group_option(&mut group.options, name, item)?;
        }
        let count = statement.replicas.len();
        if count > REPLICAS_MAX {
            return Err(messages::error(35233, &[&count, &name, &REPLICAS_MAX]));
        }
        for spec in &statement.replicas {
            if group.replica(&spec.server).is_some() {
                return Err(messages::error(35235, &[&spec.server]));
            }
            let replica = self.new_replica(&group, spec)?;
            group.replicas.push(replica);
        }
        if group.replica(self.server_name()).is_none() {
            return Err(messages::error(35237, &[&name]));
        }
        for database in &statement.databases {
            if group.database(&database.text).is_some() {
                return Err(messages::error(35234, &[&database.text]));
            }
            let database = self.new_group_database(&group, database)?;
            group.databases.push(database);
        }
        let listening = statement.listener.as_ref();
        group.listener = listening
            .map(|spec| listener(spec, self.random_guid()))
            .transpose()?;
        if self.instance().hadr.group(name).is_some() {
            return Err(messages::error(41042, &[&name]));
        }
        Ok(group)
    }

    pub(super) fn server_name(&self) -> &str {
        &self.instance().options().server_name
    }

    /// A replica as REPLICA ON describes it.
    pub(super) fn new_replica(&self, group: &GroupDef, spec: &ReplicaSpec) -> Result<ReplicaDef> {
        let length = spec.server.chars().count();
        if length == 0 || length > SERVER_CHARS_MAX {
            return Err(messages::error(35230, &[&SERVER_CHARS_MAX]));
        }
        if !spec.options.iter().any(|o| o.is("ENDPOINT_URL")) {
            return Err(messages::error(35236, &[&spec.server]));
        }
        let says = |name: &str| spec.options.iter().any(|o| o.is(name));
        let has_no_data = spec.options.iter().any(is_configuration_only);
        let is_said = |name: &&str| says(name) || (has_no_data && *name == "FAILOVER_MODE");
        if !REQUIRED.iter().all(is_said) {
            return Err(messages::error(102, &[&spec.server]));
        }
        let now = self.instance().now_utc();
        let rights = self.state.server_rights();
        let is_free = |number: &u8| group.replicas.iter().all(|r| r.number != *number);
        let mut replica = ReplicaDef {
            replica_id: self.random_guid(),
            number: (0..=u8::MAX).find(is_free).unwrap_or(0),
            server: spec.server.clone(),
            owner_sid: rights.login.as_ref().map_or(vec![1], |l| l.sid.clone()),
            endpoint_url: String::new(),
            availability_mode: AvailabilityMode::Asynchronous,
            failover_mode: match group.options.cluster_type {
                ClusterType::External => FailoverMode::External,
                _ => FailoverMode::Manual,
            },
            seeding_mode: SeedingMode::Manual,
            backup_priority: 50,
            session_timeout_s: 10,
            secondary_connections: SecondaryConnections::No,
            primary_connections: PrimaryConnections::All,
            read_only_routing_url: None,
            read_write_routing_url: None,
            read_only_routing: Vec::new(),
            created_utc: now,
            modified_utc: now,
        };
        for item in &spec.options {
            replica_option(&mut replica, item)?;
        }
        check_modes(group, &replica)?;
        let is_own = names_equal(&replica.server, self.server_name());
        check_data(group, None, &replica, is_own)?;
        Ok(replica)
    }

    /// A database of this server that is to be one of the group.
    pub(super) fn new_group_database(
        &self,
        group: &GroupDef,
        database: &Ident,
    ) -> Result<GroupDatabaseDef> {
        let instance = self.instance();
        let (name, group_name) = (&database.text, &group.name);
        let entry = instance.database_named(name);
        let entry = entry.filter(|e| self.knows_database(e.id()));
        let entry = entry.ok_or_else(|| messages::error(35238, &[name, group_name]))?;
        if entry.is_system() {
            return Err(messages::error(35249, &[name]));
        }
        if instance.hadr.group_of_database(name).is_some() {
            return Err(messages::error(35244, &[name, group_name]));
        }
        let settings = entry.open()?.storage.settings();
        if settings.recovery_model != RecoveryModel::Full {
            return Err(messages::error(1465, &[name]));
        }
        if settings.read_only {
            return Err(messages::error(1466, &[name]));
        }
        Ok(GroupDatabaseDef {
            group_database_id: self.random_guid(),
            name: entry.name(),
            is_joined: true,
        })
    }

    pub(super) fn drop_group(&self, name: &str) -> Result<()> {
        // Nobody waits, and nobody waits for him, who may not.
        self.group_to("drop", name)?;
        let hadr = &self.instance().hadr;
        let service = hadr.service();
        if !service.is_enabled() {
            return Err(not_enabled());
        }
        let missing = || group_missing("drop", name);
        let fits = |g: &GroupDef| names_equal(&g.name, name);
        let may = |id| self.may_alter_group(id);
        let picked = self.leave(&hadr.groups, class::AVAILABILITY_GROUP, fits, may)?;
        let (group, _mark) = picked.ok_or_else(missing)?;
        // Its definition goes first: a crash leaves databases that are in no group, and not a group that cannot be started.
        let is_gone = hadr
            .groups
            .remove_then(group.id, |now| service.drop_group(now))?;
        match is_gone {
            true => Ok(()),
            false => Err(missing()),
        }
    }

    /// Error 35251 unless this server is the primary of the group.
    pub(super) fn needs_primary(&self, group: &GroupDef) -> Result<()> {
        match self.instance().hadr.service().role(group.group_id) {
            ReplicaRole::Primary => Ok(()),
            _ => Err(messages::error(35251, &[])),
        }
    }
}

fn is_configuration_only(item: &OptionItem) -> bool {
    item.is("AVAILABILITY_MODE") && item.value.is("CONFIGURATION_ONLY")
}

/// May a replica begin to have no data, or end it? `before`: what it has so far, if it is a replica already. What was set by an earlier build stays.
pub(super) fn check_data(
    group: &GroupDef,
    before: Option<AvailabilityMode>,
    replica: &ReplicaDef,
    is_own: bool,
) -> Result<()> {
    let has_none = |mode: AvailabilityMode| mode == AvailabilityMode::ConfigurationOnly;
    let after = has_none(replica.availability_mode);
    let why = match (before.map(has_none), group.options.cluster_type) {
        (Some(before), _) if before == after => return Ok(()),
        (None, _) if !after => return Ok(()),
        _ if after && is_own => "CONFIGURATION_ONLY for the primary's own replica",
        (_, ClusterType::Wsfc) if after => "CONFIGURATION_ONLY with CLUSTER_TYPE = WSFC",
        (Some(_), ClusterType::External) => {
            "a change to or from CONFIGURATION_ONLY with CLUSTER_TYPE = EXTERNAL"
        }
        _ => return Ok(()),
    };
    Err(messages::not_supported(why))
}

/// Who fails over is a matter of the cluster's type; an asynchronous replica never does by itself.
pub(super) fn check_modes(group: &GroupDef, replica: &ReplicaDef) -> Result<()> {
    let fits = match (group.options.cluster_type, replica.failover_mode) {
        (ClusterType::Wsfc, FailoverMode::External) => false,
        (ClusterType::External, mode) => mode == FailoverMode::External,
        (ClusterType::None, mode) => mode == FailoverMode::Manual,
        (ClusterType::Wsfc, FailoverMode::Automatic) => {
            replica.availability_mode == AvailabilityMode::Synchronous
        }
        (ClusterType::Wsfc, FailoverMode::Manual) => true,
    };
    match fits {
        true => Ok(()),
        false => Err(messages::not_supported(
            "FAILOVER_MODE with this CLUSTER_TYPE and AVAILABILITY_MODE",
        )),
    }
}
