//! `daruma group status`.

use super::text::string;
use super::{GroupError, Server, StatusArgs};
use crate::aligned::print_aligned;
use daruma_client::value::text;
use daruma_value::Value;
use serde_json::{Map, json};

/// What is shown of each replica, in this order.
const REPLICA: &[&str] = &[
    "group",
    "server",
    "role",
    "connected",
    "health",
    "mode",
    "endpoint",
];
const DATABASE: &[&str] = &[
    "group",
    "server",
    "database",
    "state",
    "suspended",
    "send_queue_kb",
    "redo_queue_kb",
    "lag_seconds",
];

pub(super) fn run(args: &StatusArgs) -> Result<(), GroupError> {
    let mut server = Server::new(args.connect.connect("daruma group")?);
    let of_group = match &args.group {
        Some(group) => format!(" WHERE g.name = {}", string(group)),
        None => String::new(),
    };
    let replicas = server.ask(
        "replicas",
        &format!(
            "SELECT g.name, r.replica_server_name, s.role_desc, s.connected_state_desc, s.synchronization_health_desc, r.availability_mode_desc, r.endpoint_url \
             FROM sys.availability_groups AS g JOIN sys.availability_replicas AS r ON r.group_id = g.group_id \
             LEFT JOIN sys.dm_hadr_availability_replica_states AS s ON s.replica_id = r.replica_id{of_group} ORDER BY 1, 2"
        ),
    )?;
    let databases = server.ask(
        "databases",
        &format!(
            "SELECT g.name, r.replica_server_name, d.database_name, s.synchronization_state_desc, s.suspend_reason_desc, s.log_send_queue_size, s.redo_queue_size, s.secondary_lag_seconds \
             FROM sys.availability_groups AS g JOIN sys.availability_replicas AS r ON r.group_id = g.group_id \
             JOIN sys.availability_databases_cluster AS d ON d.group_id = g.group_id \
             LEFT JOIN sys.dm_hadr_database_replica_states AS s ON s.replica_id = r.replica_id AND s.group_database_id = d.group_database_id{of_group} ORDER BY 1, 3, 2"
        ),
    )?;
    match args.json {
        true => println!(
            "{}",
            json!({ "replicas": objects(REPLICA, &replicas), "databases": objects(DATABASE, &databases) })
        ),
        false => {
            print(REPLICA, &replicas);
            print(DATABASE, &databases);
        }
    }
    Ok(())
}

fn objects(names: &[&str], rows: &[Vec<Value>]) -> Vec<Map<String, serde_json::Value>> {
    let object = |row: &Vec<Value>| {
        let fields = names.iter().zip(row).map(|(name, value)| {
            let value = match value {
                Value::Null => serde_json::Value::Null,
                Value::BigInt(n) => json!(n),
                other => json!(text(other)),
            };
            ((*name).to_string(), value)
        });
        fields.collect()
    };
    rows.iter().map(object).collect()
}

/// Aligned columns under their names.
fn print(names: &[&str], rows: &[Vec<Value>]) {
    let head: Vec<String> = names.iter().map(|n| (*n).to_string()).collect();
    let shown = |value: &Value| match value {
        Value::Null => "-".to_string(),
        other => text(other),
    };
    let body = rows.iter().map(|row| row.iter().map(shown).collect());
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(body).collect();
    print_aligned(&lines);
}
