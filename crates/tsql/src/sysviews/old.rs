//! The names of SQL Server 2000: `sysobjects` and its family, and `spt_values`.

use super::columns::{BUILT_IN, built_in_ids, collation_name, each_column};
use super::databases::files_of;
use super::define::{Rows, View};
use super::objects::module_of;
use super::principals::{FIXED_ROLES, visible_logins};
use super::source::{Source, shown_text, sorted_objects, user_type_id};
use crate::error::Result;
use crate::instance::OPTIONS;
use daruma_catalog::ObjectKind;
use daruma_value::CollationId;

pub(super) const VIEWS: &[View] = &[
    View::sys("sysobjects", SYSOBJECTS, sysobjects),
    View::sys("syscolumns", SYSCOLUMNS, syscolumns),
    View::sys("sysdatabases", SYSDATABASES, sysdatabases),
    View::sys("sysusers", SYSUSERS, sysusers),
    View::sys("sysindexes", SYSINDEXES, sysindexes),
    View::sys(
        "sysindexkeys",
        "id int; indid smallint; colid smallint; keyno smallint?",
        sysindexkeys,
    ),
    View::sys("systypes", SYSTYPES, systypes),
    View::sys("sysfiles", SYSFILES, sysfiles),
    View::sys("sysaltfiles", SYSALTFILES, sysaltfiles),
    View::sys(
        "sysfilegroups",
        "groupid smallint?; allocpolicy smallint; status int?; groupname sysname",
        sysfilegroups,
    ),
    View::sys("syscomments", SYSCOMMENTS, syscomments),
    View::sys(
        "sysforeignkeys",
        "constid int; fkeyid int?; rkeyid int?; fkey smallint?; rkey smallint?; keyno smallint?",
        sysforeignkeys,
    ),
    View::sys(
        "sysconfigures",
        "value int?; config int; comment nvarchar(255); status smallint?",
        sysconfigures,
    ),
    View::sys(
        "syscurconfigs",
        "value int?; config smallint; comment nvarchar(255); status smallint?",
        sysconfigures,
    ),
    View::sys("syslogins", SYSLOGINS, syslogins),
    View::new(
        "dbo",
        "spt_values",
        "name nvarchar(35)?; number int; type nchar(3); low int?; high int?; status int? = 0",
        spt_values,
    ),
];

const SYSOBJECTS: &str = "
    name sysname; id int; xtype char(2); uid smallint?; info smallint?; status int?; base_schema_ver int?; replinfo int?;
    parent_obj int; crdate datetime; ftcatid smallint? = 0; schema_ver int? = 0; stats_schema_ver int? = 0; type char(2)?;
    userstat smallint?; sysstat smallint?; indexdel smallint? = 0; refdate datetime; version int? = 0; deltrig int? = 0;
    instrig int? = 0; updtrig int? = 0; seltrig int? = 0; category int? = 0; cache smallint? = 0";

fn sysobjects(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for line in source.objects()? {
        let old_type = match line.type_code {
            "PK" | "UQ" => "K ",
            code => code,
        };
        rows.add()
            .set("name", &line.name)
            .set("id", line.id)
            .set("xtype", line.type_code)
            .set("uid", line.schema_id)
            .set("status", 0)
            .set("parent_obj", line.parent_id)
            .set("crdate", source.time(line.created_utc))
            .set("type", old_type)
            .set("userstat", line.type_code == "U ")
            .set("refdate", source.time(line.created_utc));
    }
    for object in source.system_objects()? {
        rows.add()
            .set("name", &object.name)
            .set("id", object.id)
            .set("xtype", object.type_code)
            .set("uid", object.schema_id);
        rows.set("type", object.type_code).set("category", 2);
    }
    Ok(())
}

const SYSCOLUMNS: &str = "
    name sysname?; id int; xtype tinyint; typestat tinyint?; xusertype smallint?; length smallint; xprec tinyint;
    xscale tinyint; colid smallint?; xoffset smallint? = 0; bitpos tinyint? = 0; reserved tinyint? = 0; colstat smallint?;
    cdefault int; domain int; number smallint? = 0; colorder smallint?; autoval varbinary(8000)?; offset smallint? = 0;
    collationid int?; language int? = 0; status tinyint?; type tinyint; usertype smallint?; printfmt varchar(255)?;
    prec smallint?; scale int?; iscomputed int?; isoutparam int? = 0; isnullable int?; collation sysname?; tdscollation binary(5)?";

fn syscolumns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_column(source, |object, column, _| {
        let data_type = column.data_type;
        let shown_length =
            data_type
                .declared_len()
                .map_or(i32::from(data_type.precision()), |len| {
                    if len.is_max() { -1 } else { i32::from(len.0) }
                });
        rows.add()
            .set("name", &column.name)
            .set("id", object)
            .set("xtype", data_type.system_type_id())
            .set("xusertype", user_type_id(data_type, column.user_type_id))
            .set("length", data_type.max_length())
            .set("xprec", data_type.precision())
            .set("xscale", data_type.scale())
            .set("colid", column.id)
            .set("colstat", column.is_identity)
            .set("cdefault", column.default.as_ref().map_or(0, |d| d.id))
            .set("colorder", column.id)
            .set(
                "status",
                if column.is_identity { 0x80 } else { 0 } + if column.nullable { 8 } else { 0 },
            )
            .set("type", data_type.system_type_id())
            .set("usertype", user_type_id(data_type, column.user_type_id))
            .set("prec", shown_length)
            .set(
                "scale",
                data_type
                    .is_numeric()
                    .then_some(i32::from(data_type.scale())),
            )
            .set("iscomputed", column.computed.is_some())
            .set("isnullable", column.nullable)
            .set("collation", collation_name(data_type, column.collation))
            .set(
                "tdscollation",
                data_type
                    .is_character()
                    .then(|| column.collation.wire_bytes().to_vec()),
            );
    })
}

const SYSDATABASES: &str = "
    name sysname; dbid smallint?; sid varbinary(85)?; mode smallint? = 0; status int?; status2 int? = 0; crdate datetime;
    reserved datetime?; category int? = 0; cmptlevel tinyint; filename nvarchar(260)?; version smallint? = 957";

fn sysdatabases(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for entry in source.databases()? {
        let def = entry.def();
        let primary = files_of(&entry).into_iter().find(|f| f.id == 1);
        rows.add()
            .set("name", &def.name)
            .set("dbid", def.id)
            .set("sid", vec![1])
            .set("status", if entry.open().is_ok() { 65_536 } else { 512 })
            .set("crdate", source.time(def.created_utc))
            .set("cmptlevel", def.compatibility_level)
            .set("filename", primary.map(|f| f.path));
    }
    Ok(())
}

const SYSUSERS: &str = "
    uid smallint?; status smallint? = 0; name sysname?; sid varbinary(85)?; roles varbinary(2048)?; createdate datetime;
    updatedate datetime; altuid smallint?; password varbinary(256)?; gid smallint? = 0; environ varchar(255)?;
    hasdbaccess int?; islogin int?; isntname int? = 0; isntgroup int? = 0; isntuser int? = 0; issqluser int?;
    isaliased int? = 0; issqlrole int?; isapprole int? = 0";

fn sysusers(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    const FIXED: [(i32, &str, bool); 5] = [
        (0, "public", true),
        (1, "dbo", false),
        (2, "guest", false),
        (3, "INFORMATION_SCHEMA", false),
        (4, "sys", false),
    ];
    let created = source.entry()?.def().created_utc;
    let catalog = source.catalog()?;
    let stored = catalog
        .principals()
        .map(|p| (p.id, p.name.as_str(), p.is_role));
    let roles = FIXED_ROLES.iter().map(|(id, name)| (*id, *name, true));
    for (id, name, is_role) in FIXED.into_iter().chain(stored).chain(roles) {
        rows.add()
            .set("uid", id)
            .set("name", name)
            .set("createdate", source.time(created))
            .set("updatedate", source.time(created))
            .set("hasdbaccess", !is_role && id != 2)
            .set("islogin", !is_role)
            .set("issqluser", !is_role)
            .set("issqlrole", is_role);
        if id == 1 {
            rows.set("sid", vec![1]);
        }
    }
    Ok(())
}

const SYSINDEXES: &str = "
    id int; status int?; first binary(6)?; indid smallint?; root binary(6)?; minlen smallint? = 0; keycnt smallint?;
    groupid smallint?; dpages int?; reserved int?; used int?; rowcnt bigint?; rowmodctr int? = 0; reserved3 tinyint? = 0;
    reserved4 tinyint? = 0; xmaxlen smallint? = 0; maxirow smallint? = 0; OrigFillFactor tinyint?; StatVersion tinyint? = 0;
    reserved2 int? = 0; FirstIAM binary(6)?; impid smallint? = 0; lockflags smallint? = 0; pgmodctr int? = 0;
    keys varbinary(1088)?; name sysname?; statblob image?; maxlen int? = 8000; rows int?";

fn sysindexes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let open = source.open()?;
    for table in source.tables()? {
        for index in &table.def.indexes {
            let (count, pages) = match open.storage.tree(index.tree) {
                Ok(tree) => (tree.approximate_count(), tree.approximate_pages()),
                Err(_) => (0, 0),
            };
            let key = index.constraint.as_ref();
            let mut status = if index.unique { 2 } else { 0 } + if index.id == 1 { 16 } else { 0 };
            status += key.map_or(0, |k| if k.is_primary_key { 2_048 } else { 4_096 });
            rows.add()
                .set("id", table.id)
                .set("status", status)
                .set("indid", index.id)
                .set("keycnt", index.key.len())
                .set("groupid", index.filegroup)
                .set("dpages", pages)
                .set("reserved", pages)
                .set("used", pages)
                .set("rowcnt", count)
                .set("OrigFillFactor", index.fill_factor)
                .set("name", index.name.as_ref())
                .set("rows", count);
        }
    }
    Ok(())
}

fn sysindexkeys(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables()? {
        for index in &table.def.indexes {
            for (at, key) in index.key.iter().enumerate() {
                rows.add()
                    .set("id", table.id)
                    .set("indid", index.id)
                    .set("colid", key.column_id)
                    .set("keyno", at + 1);
            }
        }
    }
    Ok(())
}

const SYSTYPES: &str = "
    name sysname; xtype tinyint; status tinyint?; xusertype smallint?; length smallint; xprec tinyint; xscale tinyint;
    tdefault int; domain int; uid smallint?; reserved smallint? = 0; collationid int?; usertype smallint?; variable bit?;
    allownulls bit?; type tinyint; printfmt varchar(255)?; prec smallint?; scale tinyint?; collation sysname?";

fn systypes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    let built_in = BUILT_IN.iter().map(|(name, t)| {
        let (system, user) = built_in_ids(name, *t);
        (*name, *t, system, user, 4, *name != "sysname")
    });
    let aliases = catalog.types().filter(|t| t.table.is_none());
    let aliases = aliases.map(|t| {
        (
            t.name.as_str(),
            t.data_type,
            t.data_type.system_type_id(),
            t.id,
            t.schema_id,
            t.nullable,
        )
    });
    for (name, data_type, system, user, schema, nullable) in built_in.chain(aliases) {
        rows.add()
            .set("name", name)
            .set("xtype", system)
            .set("status", 0)
            .set("xusertype", user)
            .set("length", data_type.max_length())
            .set("xprec", data_type.precision())
            .set("xscale", data_type.scale())
            .set("uid", schema)
            .set("usertype", user)
            .set(
                "variable",
                matches!(data_type.name(), "varchar" | "nvarchar" | "varbinary"),
            )
            .set("allownulls", nullable)
            .set("type", system)
            .set("prec", data_type.precision())
            .set("scale", data_type.is_numeric().then_some(data_type.scale()))
            .set("collation", collation_name(data_type, CollationId::DEFAULT));
    }
    Ok(())
}

const SYSFILES: &str = "
    fileid smallint?; groupid smallint?; size int; maxsize int; growth int; status int?; perf int? = 0; name sysname;
    filename nvarchar(260)?";
const SYSALTFILES: &str = "
    fileid smallint?; groupid smallint?; size int; maxsize int; growth int; status int?; perf int? = 0; dbid smallint?;
    name sysname; filename nvarchar(260)?";

fn sysfiles(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    file_rows(&*source.entry()?, rows);
    Ok(())
}

fn sysaltfiles(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    source
        .databases_with_files()?
        .iter()
        .for_each(|entry| file_rows(entry, rows));
    Ok(())
}

fn file_rows(entry: &crate::instance::DatabaseEntry, rows: &mut Rows<'_>) {
    for file in files_of(entry) {
        let status =
            2 + if file.is_log() { 0x40 } else { 0 } + if file.percent { 0x10_0000 } else { 0 };
        rows.add()
            .set("fileid", file.id)
            .set("groupid", file.filegroup)
            .set("size", file.size_pages)
            .set("maxsize", file.max_pages.map_or(-1, |p| p as i64))
            .set("growth", file.growth)
            .set("status", status)
            .set_if_present("dbid", entry.id().0)
            .set("name", &file.name)
            .set("filename", &file.path);
    }
}

fn sysfilegroups(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for group in &source.entry()?.def().filegroups {
        let status = if group.is_default { 0x10 } else { 0 } + if group.read_only { 8 } else { 0 };
        rows.add()
            .set("groupid", group.id)
            .set("status", status)
            .set("groupname", &group.name);
    }
    Ok(())
}

const SYSCOMMENTS: &str = "
    id int; number smallint? = 0; colid smallint; status smallint = 0; ctext varbinary(8000)?; texttype smallint? = 2;
    language smallint? = 0; encrypted bit; compressed bit; text nvarchar(4000)?";

/// Long texts continue in further rows.
fn syscomments(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in sorted_objects(&*source.catalog()?) {
        let Some(module) = module_of(&object) else {
            continue;
        };
        if shown_text(&module.definition).is_none() {
            rows.add().set("id", object.id).set("colid", 1);
        }
        let characters: Vec<char> = module.definition.chars().collect();
        for (at, part) in characters.chunks(4_000).enumerate() {
            rows.add()
                .set("id", object.id)
                .set("colid", at + 1)
                .set("text", part.iter().collect::<String>());
        }
    }
    for table in source.tables()? {
        let defaults = table
            .def
            .columns
            .iter()
            .filter_map(|c| c.default.as_ref())
            .map(|d| (d.id, &d.definition));
        for (id, text) in table
            .def
            .checks
            .iter()
            .map(|c| (c.id, &c.definition))
            .chain(defaults)
        {
            rows.add()
                .set("id", id)
                .set("colid", 1)
                .set("text", shown_text(text));
        }
    }
    Ok(())
}

fn sysforeignkeys(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in sorted_objects(&*source.catalog()?) {
        let ObjectKind::Table(def) = &object.kind else {
            continue;
        };
        for key in &def.foreign_keys {
            for (at, (from, to)) in key.columns.iter().zip(&key.referenced_columns).enumerate() {
                rows.add()
                    .set("constid", key.id)
                    .set("fkeyid", object.id)
                    .set("rkeyid", key.referenced_table)
                    .set("fkey", *from)
                    .set("rkey", *to)
                    .set("keyno", at + 1);
            }
        }
    }
    Ok(())
}

fn sysconfigures(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for option in OPTIONS {
        let value = source.instance()?.configuration.in_use(option.name);
        let status = i32::from(option.is_dynamic) + 2 * i32::from(option.is_advanced);
        rows.add()
            .set("value", value)
            .set("config", option.id)
            .set("comment", option.about)
            .set("status", status);
    }
    Ok(())
}

const SYSLOGINS: &str = "
    sid varbinary(85)?; status smallint? = 9; createdate datetime; updatedate datetime; accdate datetime; totcpu int? = 0;
    totio int? = 0; spacelimit int? = 0; timelimit int? = 0; resultlimit int? = 0; name sysname; dbname sysname?;
    password sysname?; language sysname?; denylogin int? = 0; hasaccess int? = 1; isntname int? = 0; isntgroup int? = 0;
    isntuser int? = 0; sysadmin int?; securityadmin int? = 0; serveradmin int? = 0; setupadmin int? = 0;
    processadmin int? = 0; diskadmin int? = 0; dbcreator int? = 0; bulkadmin int? = 0; loginname nvarchar(128)";

fn syslogins(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for login in visible_logins(source)? {
        rows.add()
            .set("sid", login.sid.clone())
            .set("createdate", source.time(login.created_utc))
            .set("updatedate", source.time(login.modified_utc))
            .set("name", &login.name)
            .set("dbname", &login.default_database)
            .set("language", &login.default_language)
            .set("hasaccess", !login.disabled)
            .set("sysadmin", login.is_sysadmin())
            .set("loginname", &login.name);
    }
    Ok(())
}

/// The numbers 0 to 2047, for which scripts use this table.
fn spt_values(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for number in 0..2_048 {
        rows.add()
            .set("number", number)
            .set("type", "P")
            .set("low", number / 8 + 1)
            .set("high", 1 << (number % 8));
    }
    Ok(())
}
