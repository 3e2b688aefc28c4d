//! sp_MSforeachdb and sp_MSforeachtable: commands with a placeholder, run once for each name that the session may know of.

use super::define::{Procedure, quoted};
use crate::error::Result;
use crate::session::SystemCall;
use daruma_catalog::ObjectKind;

const PARAMETERS: &str = "
    @command1 nvarchar(2000); @replacechar nchar(1) = ?; @command2 nvarchar(2000) = NULL; @command3 nvarchar(2000) = NULL;
    @precommand nvarchar(2000) = NULL; @postcommand nvarchar(2000) = NULL";
const TABLE_PARAMETERS: &str = "
    @command1 nvarchar(2000); @replacechar nchar(1) = ?; @command2 nvarchar(2000) = NULL; @command3 nvarchar(2000) = NULL;
    @whereand nvarchar(2000) = NULL; @precommand nvarchar(2000) = NULL; @postcommand nvarchar(2000) = NULL";

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native("sp_MSforeachdb", PARAMETERS, databases),
    Procedure::native("sp_MSforeachtable", TABLE_PARAMETERS, tables),
];

fn databases(call: &SystemCall<'_, '_>) -> Result<i32> {
    let online = call
        .execution
        .instance()
        .databases()
        .into_iter()
        .filter(|d| d.open().is_ok() && call.execution.state.rights(d.id()).is_ok());
    let names: Vec<String> = online.map(|d| d.name()).collect();
    run_each(call, &names, 4, 5)
}

fn tables(call: &SystemCall<'_, '_>) -> Result<i32> {
    let catalog = call.host().visible_catalog(call.database)?;
    let mut objects: Vec<_> = catalog
        .objects()
        .filter(|o| matches!(o.kind, ObjectKind::Table(_)))
        .collect();
    objects.sort_by_key(|o| o.id);
    let name = |o: &std::sync::Arc<daruma_catalog::Object>| {
        let schema = catalog
            .schema(o.schema_id)
            .map_or("dbo", |s| s.name.as_str());
        format!("{}.{}", quoted(schema), quoted(&o.name))
    };
    let names: Vec<String> = objects.into_iter().map(name).collect();
    run_each(call, &names, 5, 6)
}

fn run_each(
    call: &SystemCall<'_, '_>,
    names: &[String],
    before: usize,
    after: usize,
) -> Result<i32> {
    let placeholder = call.text(1).unwrap_or_else(|| "?".to_string());
    let run = |command: Option<String>| command.map_or(Ok(()), |text| call.run(&text, &[]));
    run(call.text(before))?;
    for name in names {
        for command in [call.text(0), call.text(2), call.text(3)] {
            call.execution.check_cancel()?;
            run(command.map(|text| text.replace(&placeholder, name)))?;
        }
    }
    run(call.text(after))?;
    Ok(0)
}
