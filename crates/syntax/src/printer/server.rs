//! Statements about the server.

use super::option::{LooseOptions, WithOptions};
use super::{Clause, Commas, Parens, Quote};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for Kill {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.target {
            KillTarget::Session(session) => write!(f, "KILL {session}")?,
            KillTarget::QueryNotification(None) => {
                f.write_str("KILL QUERY NOTIFICATION SUBSCRIPTION ALL")?
            }
            KillTarget::QueryNotification(Some(id)) => {
                write!(f, "KILL QUERY NOTIFICATION SUBSCRIPTION {id}")?
            }
            KillTarget::StatsJob(job) => write!(f, "KILL STATS JOB {job}")?,
        }
        f.write_str(match (self.status_only, self.outcome) {
            (true, _) => " WITH STATUSONLY",
            (false, Some(KillOutcome::Commit)) => " WITH COMMIT",
            (false, Some(KillOutcome::Rollback)) => " WITH ROLLBACK",
            (false, None) => "",
        })
    }
}

impl Display for Dbcc {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DBCC {}{}{}",
            self.name,
            Parens(&self.args),
            LooseOptions(&self.options)
        )
    }
}

impl Display for CreateEndpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verb = if self.alter { "ALTER" } else { "CREATE" };
        write!(
            f,
            "{verb} ENDPOINT {}{}",
            self.name,
            Clause("AUTHORIZATION", &self.owner)
        )?;
        write!(f, "{}", Clause("STATE =", &self.state))?;
        write!(
            f,
            "{}{}",
            Clause("AS", &self.transport),
            Clause("FOR", &self.payload)
        )
    }
}

impl Display for CreateAvailabilityGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CREATE AVAILABILITY GROUP {}{}",
            self.name,
            WithOptions(&self.options)
        )?;
        if self.is_distributed() {
            write!(f, " AVAILABILITY GROUP ON {}", Commas(&self.replicas))?;
        } else {
            f.write_str(" FOR")?;
            if !self.databases.is_empty() {
                write!(f, " DATABASE {}", Commas(&self.databases))?;
            }
            write!(f, " REPLICA ON {}", Commas(&self.replicas))?;
        }
        write!(f, "{}", Clause("LISTENER", &self.listener))
    }
}

impl CreateAvailabilityGroup {
    fn is_distributed(&self) -> bool {
        self.options.iter().any(|option| option.is("DISTRIBUTED"))
    }
}

impl Display for ReplicaSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "N{}{}", Quote(&self.server), WithOptions(&self.options))
    }
}

impl Display for ListenerSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "N{}{}", Quote(&self.name), Parens(&self.options))
    }
}

impl Display for AlterAvailabilityGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER AVAILABILITY GROUP {} {}", self.name, self.action)
    }
}

impl Display for AvailabilityGroupAction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use AvailabilityGroupAction as Action;
        match self {
            Action::Set(options) => write!(f, "SET ({})", Commas(options)),
            Action::AddDatabases(names) => write!(f, "ADD DATABASE {}", Commas(names)),
            Action::RemoveDatabases(names) => write!(f, "REMOVE DATABASE {}", Commas(names)),
            Action::AddReplicas(replicas) => write!(f, "ADD REPLICA ON {}", Commas(replicas)),
            Action::ModifyReplicas(replicas) => write!(f, "MODIFY REPLICA ON {}", Commas(replicas)),
            Action::RemoveReplicas(servers) => {
                let servers: Vec<Quote<'_>> = servers.iter().map(|server| Quote(server)).collect();
                write!(f, "REMOVE REPLICA ON {}", Commas(&servers))
            }
            Action::Join(options) => write!(f, "JOIN{}", WithOptions(options)),
            Action::JoinGroups(groups) => {
                write!(f, "JOIN AVAILABILITY GROUP ON {}", Commas(groups))
            }
            Action::GrantCreateAnyDatabase => f.write_str("GRANT CREATE ANY DATABASE"),
            Action::DenyCreateAnyDatabase => f.write_str("DENY CREATE ANY DATABASE"),
            Action::Failover => f.write_str("FAILOVER"),
            Action::ForceFailoverAllowDataLoss => f.write_str("FORCE_FAILOVER_ALLOW_DATA_LOSS"),
            Action::Offline => f.write_str("OFFLINE"),
            Action::Online => f.write_str("ONLINE"),
            Action::AddListener(listener) => write!(f, "ADD LISTENER {listener}"),
            Action::ModifyListener(listener) => write!(f, "MODIFY LISTENER {listener}"),
            Action::RestartListener(name) => write!(f, "RESTART LISTENER {}", Quote(name)),
            Action::RemoveListener(name) => write!(f, "REMOVE LISTENER {}", Quote(name)),
        }
    }
}
