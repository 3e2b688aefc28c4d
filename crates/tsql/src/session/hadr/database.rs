//! ALTER DATABASE .. SET HADR: a database of this server joins a group, leaves it, rests or goes on.

use crate::error::Result;
use crate::instance::DatabaseEntry;
use crate::instance::hadr::{DatabaseAct, ReplicaRole};
use crate::messages;
use crate::session::Execution;
use daruma_catalog::GroupDef;
use daruma_syntax::ast::HadrChange;
use std::sync::Arc;

/// Does what SET HADR asks, through the service.
pub(crate) fn set_hadr(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    change: &HadrChange,
) -> Result<()> {
    let (hadr, name) = (&ex.instance().hadr, entry.name());
    if entry.is_system() {
        return Err(messages::error(35249, &[&name]));
    }
    let joined = || {
        let group = hadr.group_of_database(&name);
        group.ok_or_else(|| messages::error(35242, &[&name]))
    };
    let (group, act) = match change {
        HadrChange::Join(group) => (group_to_join(ex, &name, &group.text)?, DatabaseAct::Join),
        HadrChange::Off => (joined()?, DatabaseAct::Leave),
        HadrChange::Suspend => (joined()?, DatabaseAct::Suspend),
        HadrChange::Resume => (joined()?, DatabaseAct::Resume),
    };
    let moves = matches!(act, DatabaseAct::Join | DatabaseAct::Leave);
    let service = hadr.service();
    if moves && service.role(group.group_id) == ReplicaRole::Primary {
        return Err(messages::error(35240, &[&name, &group.name]));
    }
    if !moves {
        return service.act_on_database(&group, &name, act);
    }
    hadr.groups.change(group.id, |def| {
        service.act_on_database(def, &name, act)?;
        let database = def.databases.iter_mut();
        let mut named = database.filter(|d| daruma_catalog::names_equal(&d.name, &name));
        if let Some(database) = named.next() {
            database.is_joined = act == DatabaseAct::Join;
        }
        Ok(())
    })?;
    Ok(())
}

fn group_to_join(ex: &Execution<'_>, database: &str, group: &str) -> Result<Arc<GroupDef>> {
    let hadr = &ex.instance().hadr;
    let found = hadr.group(group);
    let found =
        found.ok_or_else(|| messages::error(15151, &[&"find", &"availability group", &group]))?;
    match hadr.group_of_database(database) {
        Some(other) if other.id != found.id => {
            Err(messages::error(35244, &[&database, &found.name]))
        }
        _ => Ok(found),
    }
}
