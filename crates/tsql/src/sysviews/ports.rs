//! `dm_tcp_listener_states`: where the server listens: for sessions, at its own port and those of availability group listeners, and for
//! other servers.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::instance::hadr::PortKind;

pub(super) const VIEWS: &[View] = &[View::sys("dm_tcp_listener_states", COLUMNS, ports)];

const COLUMNS: &str = "
    listener_id int; ip_address nvarchar(48); is_ipv4 bit; port int; type tinyint; type_desc nvarchar(20);
    state tinyint; state_desc nvarchar(16); start_time datetime";

fn ports(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let ports = source.instance()?.hadr.service().open_ports();
    for (id, port) in (1..).zip(ports) {
        let (kind, name) = match port.kind {
            PortKind::Sessions => (0, "TSQL"),
            PortKind::Mirroring => (2, "Database Mirroring"),
        };
        rows.add()
            .set("listener_id", id)
            .set("ip_address", port.address.ip().to_string())
            .set("is_ipv4", port.address.is_ipv4())
            .set("port", port.address.port())
            .set("type", kind)
            .set("type_desc", name)
            .set("state", 0)
            .set("state_desc", "ONLINE")
            .set("start_time", source.time(port.since_utc));
    }
    Ok(())
}
