//! The product's base tables, as `sys.objects` and `sys.columns` list them in every database.
//!
//! Theory: nobody can read these tables, and here they do not exist: definitions lie in the catalog tree. But scripts take
//! `sys.columns`, crossed with itself, for a source of rows, and count on the several hundred columns that an empty
//! database has. So the tables are listed, with names and columns of the product; the types are near enough.

use super::define::{Rows, Shape};
use super::source::Source;
use crate::error::Result;
use daruma_catalog::SCHEMA_SYS;
use std::sync::LazyLock;

/// Id, name and columns.
const TABLES: &[(i32, &str, &str)] = &[
    (
        3,
        "sysrscols",
        "rsid bigint; rscolid int; hbcolid int; rcmodified bigint; ti int; cid int; ordkey smallint; maxinrowlen smallint; status int; offset int; nullbit int; bitpos smallint; colguid varbinary(16)?; ordlock int",
    ),
    (
        5,
        "sysrowsets",
        "rowsetid bigint; ownertype tinyint; idmajor int; idminor int; numpart int; status int; fgidfs smallint; rcrows bigint; cmprlevel tinyint; fillfact tinyint; maxnullbit smallint; maxleaf int; maxint smallint; minleaf smallint; minint smallint; rsguid varbinary(16)?; lockres varbinary(8)?; scope_id int",
    ),
    (
        6,
        "sysclones",
        "id int; subid int; partid int; version int; segid int; cloneid int; rowsetid bigint; dbfragid int; status int",
    ),
    (
        7,
        "sysallocunits",
        "auid bigint; type tinyint; ownerid bigint; status int; fgid smallint; pgfirst binary(6); pgroot binary(6); pgfirstiam binary(6); pcused bigint; pcdata bigint; pcreserved bigint",
    ),
    (
        8,
        "sysfiles1",
        "status int; fileid smallint; name nchar(128); filename nchar(260)",
    ),
    (
        9,
        "sysseobjvalues",
        "id bigint; subid bigint; valclass tinyint; valnum int; value sql_variant?; imageval varbinary(max)?",
    ),
    (
        17,
        "syspriorities",
        "priority_id int; name sysname; service_contract_id int?; local_service_id int?; remote_service_name nvarchar(256)?; priority tinyint",
    ),
    (
        18,
        "sysdbfrag",
        "dbid int; fragid int; name sysname; brickid int; pruid int; status int",
    ),
    (
        19,
        "sysfgfrag",
        "fgid int; fgfragid int; dbfragid int; phfgid int; status int",
    ),
    (
        20,
        "sysdbfiles",
        "dbfragid int; fileid int; fileguid uniqueidentifier; pname nvarchar(260)?",
    ),
    (
        21,
        "syspru",
        "brickid int; dbid int; pruid int; fragid int; status int",
    ),
    (
        22,
        "sysbrickfiles",
        "brickid int; dbid int; pruid int; fileid int; grpid int; status int; filetype tinyint; filestate tinyint; size int; maxsize int; growth int; lname sysname; pname nvarchar(260); createlsn binary(10)?; droplsn binary(10)?; fileguid uniqueidentifier?; internalstatus int; readonlylsn binary(10)?; readwritelsn binary(10)?; readonlybaselsn binary(10)?; firstupdatelsn binary(10)?; lastupdatelsn binary(10)?; backuplsn binary(10)?; diffbaselsn binary(10)?; diffbaseguid uniqueidentifier?; diffbasetime datetime; diffbaseseclsn binary(10)?; redostartlsn binary(10)?; redotargetlsn binary(10)?; forkguid uniqueidentifier?; forklsn binary(10)?; forkvc bigint; redostartforkguid uniqueidentifier?",
    ),
    (
        23,
        "sysphfg",
        "dbfragid int; phfgid int; fgid int; type char(2); fgguid uniqueidentifier?; lgfgid int?; status int; name sysname",
    ),
    (
        24,
        "sysprufiles",
        "dbfragid int; fileid int; grpid int; status int; filetype tinyint; filestate tinyint; size int; maxsize int; growth int; lname sysname; pname nvarchar(260); createlsn binary(10)?; droplsn binary(10)?; fileguid uniqueidentifier?; internalstatus int; readonlylsn binary(10)?; readwritelsn binary(10)?; readonlybaselsn binary(10)?; firstupdatelsn binary(10)?; lastupdatelsn binary(10)?; backuplsn binary(10)?; diffbaselsn binary(10)?; diffbaseguid uniqueidentifier?; diffbasetime datetime; diffbaseseclsn binary(10)?; redostartlsn binary(10)?; redotargetlsn binary(10)?; forkguid uniqueidentifier?; forklsn binary(10)?; forkvc bigint; redostartforkguid uniqueidentifier?",
    ),
    (
        25,
        "sysftinds",
        "id int; indid int; status int; crtype char(1); crstart datetime?; crend datetime?; crrows bigint; crerrors int; crschver binary(8); crtsnext binary(8)?; sensitivity tinyint; bXVTDocidUseBaseT tinyint; batchsize int; nextdocid bigint; fgid int",
    ),
    (
        27,
        "sysowners",
        "id int; name sysname; type char(1); sid varbinary(85)?; password varbinary(256)?; dfltsch sysname?; status int; created datetime; modified datetime; deflanguage sysname?; tenantid uniqueidentifier?",
    ),
    (
        29,
        "sysprivs",
        "class tinyint; id int; subid int; grantee int; grantor int; type char(4); state char(1)",
    ),
    (
        34,
        "sysschobjs",
        "id int; name sysname; nsid int; nsclass tinyint; status int; type char(2); pid int; pclass tinyint; intprop int; created datetime; modified datetime; status2 int",
    ),
    (
        40,
        "syscsrowgroups",
        "hobt_id bigint; segment_id int; version int; ds_hobtid bigint?; row_count int; status int; flags int; compressed_reason int; generation bigint; created_time datetime?; closed_time datetime?; container_id smallint; blob_id binary(16); metadata_offset int; metadata_size int",
    ),
    (
        41,
        "syscolpars",
        "id int; number smallint; colid int; name sysname?; xtype tinyint; utype int; length smallint; prec tinyint; scale tinyint; collationid int; status int; maxinrow smallint; xmlns int; dflt int; chk int; idtval varbinary(64)?",
    ),
    (
        44,
        "sysnsobjs",
        "class tinyint; id int; name sysname; nsid int; status int; intprop int; created datetime; modified datetime",
    ),
    (
        46,
        "syscerts",
        "id int; name sysname; issuer varbinary(884); snum varbinary(32); thumbprint varbinary(32); pkey varbinary(4700)?; encrtype char(2); cert varbinary(max); status int; lastpkeybackup datetime?",
    ),
    (
        49,
        "sysxprops",
        "class tinyint; id int; subid int; name sysname; value sql_variant?",
    ),
    (
        50,
        "sysscalartypes",
        "id int; schid int; name sysname; xtype tinyint; length smallint; prec tinyint; scale tinyint; collationid int; status int; created datetime; modified datetime; dflt int; chk int",
    ),
    (
        51,
        "systypedsubobjs",
        "class tinyint; idmajor int; subid int; name sysname?; xtype tinyint; utype int; length smallint; prec tinyint; scale tinyint; collationid int; status int; intprop int",
    ),
    (
        54,
        "sysidxstats",
        "id int; indid int; name sysname?; status int; intprop int; fillfact tinyint; type tinyint; tinyprop tinyint; dataspace int; lobds int; rowset bigint",
    ),
    (
        55,
        "sysiscols",
        "idmajor int; idminor int; subid int; status int; intprop int; tinyprop1 tinyint; tinyprop2 tinyint; tinyprop3 tinyint; tinyprop4 tinyint",
    ),
    (
        58,
        "sysbinobjs",
        "class tinyint; id int; nsid int; name nvarchar(128); status int; type char(2); intprop int; created datetime; modified datetime",
    ),
    (
        59,
        "sysaudacts",
        "class tinyint; id int; subid int; grantee int; audit_spec_id int; type char(4); state char(1)",
    ),
    (
        60,
        "sysobjvalues",
        "valclass tinyint; objid int; subobjid int; valnum int; value sql_variant?; imageval varbinary(max)?",
    ),
    (
        64,
        "sysclsobjs",
        "class tinyint; id int; name sysname; status int; type char(2); intprop int; created datetime; modified datetime",
    ),
    (
        65,
        "sysrowsetrefs",
        "class tinyint; objid int; indexid int; rowsetnum int; rowsetid bigint; status int",
    ),
    (
        67,
        "sysremsvcbinds",
        "id int; name sysname; scid int; remsvc nvarchar(256)?; status int",
    ),
    (
        68,
        "sysxmitqueue",
        "dlgid uniqueidentifier; finitiator bit; tosvc nvarchar(256)?; tobrkrinst nvarchar(128)?; fromsvc nvarchar(256)?; frombrkrinst nvarchar(128)?; svccontr nvarchar(256)?; msgseqnum bigint; msgtype nvarchar(256)?; unackmfn int; status int; enqtime datetime; rsndtime datetime?; dlgerr int; msgid uniqueidentifier; hdrpartlen smallint; hdrseclen smallint; msgenc tinyint; msgbodylen int; msgbody varbinary(max)?",
    ),
    (
        69,
        "sysrts",
        "id int; name sysname; remsvc nvarchar(256)?; brkrinst nvarchar(128)?; addr nvarchar(256)?; miraddr nvarchar(256)?; lifetime datetime?",
    ),
    (
        71,
        "sysconvgroup",
        "id uniqueidentifier; service_id int; status int; refcount int",
    ),
    (
        72,
        "sysdesend",
        "handle uniqueidentifier; diagid uniqueidentifier; initiator tinyint; sendseq bigint; sendxact binary(6)",
    ),
    (
        73,
        "sysdercv",
        "diagid uniqueidentifier; initiator tinyint; handle uniqueidentifier; rcvseq bigint; rcvfrag int; status int; state char(2); lifetime datetime; contract int; svcid int; convgroup uniqueidentifier; sysseq bigint; enddlgseq bigint; firstoorder bigint; lastoorder bigint; lastoorderfr int; dlgtimer datetime?; dlgopened datetime; princid int; outseskey varbinary(4096)?; outseskeyid uniqueidentifier; farprincid int; inseskey varbinary(4096)?; inseskeyid uniqueidentifier; farsvc nvarchar(256)?; farbrkrinst nvarchar(128)?; priority tinyint",
    ),
    (
        74,
        "syssingleobjrefs",
        "class tinyint; depid int; depsubid int; indepid int; indepsubid int; status int",
    ),
    (
        75,
        "sysmultiobjrefs",
        "class tinyint; depid int; depsubid int; indepid int; indepsubid int; status int",
    ),
    (
        78,
        "sysguidrefs",
        "class tinyint; id int; subid int; guid uniqueidentifier; status int",
    ),
    (
        82,
        "sysfoqueues",
        "id int; lsn binary(10)?; epoch int?; csn bigint?; created datetime",
    ),
    (
        84,
        "syschildinsts",
        "lsid varbinary(85); iname sysname; ipipename nvarchar(260); pid int?; status int; crdate datetime; modate datetime; sysdbpath nvarchar(260)",
    ),
    (
        85,
        "syscompfragments",
        "cprelid int; fragid int; fragobjid int; ts binary(8); status int; datasize bigint; itemcnt bigint; rowcnt bigint",
    ),
    (
        90,
        "sysftstops",
        "stoplistid int; stopword nvarchar(64)?; lcid int; status tinyint",
    ),
    (
        91,
        "sysftproperties",
        "property_list_id int; property_id int; property_name nvarchar(256); guid_identifier uniqueidentifier; int_identifier int; string_description nvarchar(512)?",
    ),
    (
        92,
        "sysxmitbody",
        "msgref bigint; count int; msgbody varbinary(max)?",
    ),
    (
        93,
        "sysfos",
        "id int; tgid int; low varbinary(512); high varbinary(512)?; rowcnt bigint?; size bigint?; csn bigint?; epoch int?; status char(1)?; history varbinary(6000)?; created datetime; modified datetime",
    ),
    (
        94,
        "sysqnames",
        "qid int; hash int; nid int; name nvarchar(4000)",
    ),
    (
        95,
        "sysxmlcomponent",
        "id int; xsdid int; uriord int; qual tinyint; nameid int; symspace char(1); nmscope int; kind char(1); deriv char(1); status int; enum char(1); defval nvarchar(4000)?",
    ),
    (
        96,
        "sysxmlfacet",
        "compid int; ord int; kind char(2); status smallint; dflt nvarchar(4000)?",
    ),
    (
        97,
        "sysxmlplacement",
        "placingid int; ordinal int; placedid int; status int; minoccur int; maxoccur int; defval nvarchar(4000)?",
    ),
    (
        98,
        "sysobjkeycrypts",
        "class int; id int; thumbprint varbinary(32); type char(4); crypto varbinary(max); status int",
    ),
    (
        99,
        "sysasymkeys",
        "id int; name sysname; thumbprint varbinary(64); bitlength int; algorithm char(2); modified datetime; pkey varbinary(4700)?; encrtype char(2); pukey varbinary(max)",
    ),
    (
        100,
        "syssqlguides",
        "id int; name sysname; scopetype tinyint; scopeid int; hash varbinary(20)?; status int; created datetime; modified datetime; batchtext varbinary(max)?; paramorhinttext varbinary(max)?",
    ),
    (
        101,
        "sysbinsubobjs",
        "class tinyint; idmajor int; subid int; name nvarchar(128); status int; intprop int",
    ),
    (
        102,
        "syssoftobjrefs",
        "depclass tinyint; depid int; indepclass tinyint; indepname sysname; indepschema sysname?; indepdb sysname?; indepserver sysname?; number int; status int",
    ),
];

static SHAPES: LazyLock<Vec<(i32, Shape)>> = LazyLock::new(|| {
    let shape = |(id, _, columns): &(i32, &str, &'static str)| (*id, Shape::new(columns));
    TABLES.iter().map(shape).collect()
});

/// Lines of `sys.objects`.
pub(super) fn objects(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let created = source.entry()?.def().created_utc;
    for (id, name, _) in TABLES {
        rows.add()
            .set("name", *name)
            .set("object_id", *id)
            .set("schema_id", SCHEMA_SYS)
            .set("type", "S ")
            .set("type_desc", "SYSTEM_TABLE")
            .set("create_date", source.time(created))
            .set("modify_date", source.time(created))
            .set("is_ms_shipped", true);
    }
    Ok(())
}

/// Lines of `sys.columns`.
pub(super) fn columns(rows: &mut Rows<'_>) {
    for (id, shape) in SHAPES.iter() {
        for (at, column) in shape.columns.iter().enumerate() {
            super::columns::system_column_row(*id, at + 1, column, rows);
        }
    }
}
