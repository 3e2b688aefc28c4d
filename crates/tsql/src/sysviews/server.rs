//! The server itself: configuration, messages, languages, machine.

use super::define::{Rows, View, nothing};
use super::source::Source;
use crate::error::Result;
use crate::instance::{Instance, MASTER, OPTIONS, PRODUCT_VERSION};
use crate::messages;
use daruma_base::memory;
use daruma_value::collation::all_names;

pub(super) const VIEWS: &[View] = &[
    View::sys("configurations", CONFIGURATIONS, configurations),
    View::sys("messages", MESSAGES, all_messages),
    View::sys("syslanguages", LANGUAGES, languages),
    View::sys("syscharsets", CHARSETS, charsets),
    View::sys("servers", SERVERS, servers),
    View::sys("sysservers", SYSSERVERS, sysservers),
    View::sys("endpoints", ENDPOINTS, endpoints),
    View::sys("tcp_endpoints", TCP_ENDPOINTS, tcp_endpoints),
    View::sys(
        "time_zone_info",
        "name sysname; current_utc_offset nvarchar(6); is_currently_dst bit",
        time_zones,
    ),
    View::function(
        "fn_helpcollations",
        (0, 0),
        "name sysname; description nvarchar(1000)",
        collations,
    ),
    View::sys("dm_os_host_info", HOST, host),
    View::sys("dm_os_sys_info", SYS_INFO, sys_info),
    View::sys("dm_os_windows_info", WINDOWS, nothing),
    View::sys("dm_server_services", SERVICES, services),
    View::sys("dm_os_schedulers", SCHEDULERS, schedulers),
    View::sys("dm_os_process_memory", PROCESS_MEMORY, process_memory),
    View::sys("dm_os_memory_clerks", MEMORY_CLERKS, memory_clerks),
    View::sys("dm_os_sys_memory", SYS_MEMORY, nothing),
];

const CONFIGURATIONS: &str = "
    configuration_id int; name nvarchar(35); value sql_variant?; minimum sql_variant?; maximum sql_variant?;
    value_in_use sql_variant?; description nvarchar(255); is_dynamic bit; is_advanced bit";

fn configurations(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let configuration = &source.instance()?.configuration;
    for option in OPTIONS {
        let Some(values) = configuration.get(option.name) else {
            continue;
        };
        rows.add()
            .set("configuration_id", option.id)
            .set("name", option.name)
            .set("value", values.value)
            .set("minimum", option.minimum)
            .set("maximum", option.maximum)
            .set("value_in_use", values.value_in_use)
            .set("description", option.about)
            .set("is_dynamic", option.is_dynamic)
            .set("is_advanced", option.is_advanced);
    }
    Ok(())
}

const MESSAGES: &str = "message_id int; language_id smallint = 1033; severity tinyint?; is_event_logged bit?; text nvarchar(2048)";

fn all_messages(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for message in messages::all() {
        rows.add()
            .set("message_id", message.number)
            .set("severity", message.severity)
            .set("is_event_logged", message.severity >= 19)
            .set("text", message.text);
    }
    for set in source.host.catalog(MASTER)?.messages() {
        for message in &set.list {
            rows.add()
                .set("message_id", set.number)
                .set("language_id", message.language)
                .set("severity", message.severity)
                .set("is_event_logged", message.is_logged)
                .set("text", message.text.as_str());
        }
    }
    Ok(())
}

const LANGUAGES: &str = "
    langid smallint; dateformat nchar(3); datefirst tinyint; upgrade int?; name sysname; alias sysname?; months nvarchar(372)?;
    shortmonths nvarchar(132)?; days nvarchar(217)?; lcid int; msglangid smallint";

fn languages(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.add()
        .set("dateformat", "mdy")
        .set("datefirst", 7)
        .set("upgrade", 0)
        .set("name", "us_english")
        .set("alias", "English")
        .set(
            "months",
            "January,February,March,April,May,June,July,August,September,October,November,December",
        )
        .set(
            "shortmonths",
            "Jan,Feb,Mar,Apr,May,Jun,Jul,Aug,Sep,Oct,Nov,Dec",
        )
        .set(
            "days",
            "Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday",
        )
        .set("lcid", 1_033)
        .set("msglangid", 1_033);
    Ok(())
}

const CHARSETS: &str = "
    type smallint; id tinyint; csid tinyint; status smallint?; name sysname; description nvarchar(255)?;
    binarydefinition varbinary(6000)?; definition image?";

fn charsets(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.add()
        .set("type", 1_001)
        .set("id", 1)
        .set("name", "iso_1")
        .set(
            "description",
            "ISO 8859-1 (Latin-1), Western European 8-bit character set.",
        );
    rows.add()
        .set("type", 2_001)
        .set("id", 52)
        .set("csid", 1)
        .set("name", "nocase_iso")
        .set(
            "description",
            "Case-insensitive dictionary sort order for Western European languages.",
        );
    Ok(())
}

const SERVERS: &str = "
    server_id int; name sysname; product sysname = SQL Server; provider sysname = SQLNCLI; data_source nvarchar(4000)?;
    location nvarchar(4000)?; provider_string nvarchar(4000)?; catalog sysname?; connect_timeout int?; query_timeout int?;
    is_linked bit; is_remote_login_enabled bit = 1; is_rpc_out_enabled bit = 1; is_data_access_enabled bit;
    is_collation_compatible bit; uses_remote_collation bit = 1; collation_name sysname?; lazy_schema_validation bit;
    is_system bit; is_publisher bit; is_subscriber bit?; is_distributor bit?; is_nonsql_subscriber bit?;
    is_remote_proc_transaction_promotion_enabled bit? = 0; modify_date datetime; is_rda_server bit? = 0";

fn servers(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    let name = &instance.options().server_name;
    rows.add()
        .set("name", name)
        .set("data_source", name)
        .set("modify_date", source.time(instance.started_utc()));
    Ok(())
}

const SYSSERVERS: &str = "
    srvid smallint?; srvstatus smallint?; srvname sysname; srvproduct nvarchar(128) = SQL Server;
    providername nvarchar(128) = SQLOLEDB; datasource nvarchar(4000)?; location nvarchar(4000)?;
    providerstring nvarchar(4000)?; schemadate datetime; topologyx int?; topologyy int?; catalog sysname?;
    srvcollation sysname?; connecttimeout int?; querytimeout int?; srvnetname char(30)?; isremote bit? = 1; rpc bit = 1";

fn sysservers(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    let name = &instance.options().server_name;
    rows.add()
        .set("srvid", 0)
        .set("srvname", name)
        .set("datasource", name)
        .set("schemadate", source.time(instance.started_utc()))
        .set("srvnetname", name);
    Ok(())
}

macro_rules! endpoint_columns {
    () => {
        "name sysname; endpoint_id int; principal_id int? = 1; protocol tinyint = 2; protocol_desc nvarchar(60)? = TCP;
        type tinyint = 2; type_desc nvarchar(60)? = TSQL; state tinyint? = 0; state_desc nvarchar(60)? = STARTED;
        is_admin_endpoint bit;"
    };
}
const ENDPOINTS: &str = endpoint_columns!();
const TCP_ENDPOINTS: &str = concat!(
    endpoint_columns!(),
    "port int = 1433; is_dynamic_port bit; ip_address nvarchar(45)?"
);

fn default_endpoint(rows: &mut Rows<'_>) {
    rows.add()
        .set("name", "TSQL Default TCP")
        .set("endpoint_id", 4);
}

fn endpoints(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    default_endpoint(rows);
    for endpoint in super::keys::user_endpoints(source)? {
        super::keys::user_endpoint(&endpoint, rows);
    }
    Ok(())
}

fn tcp_endpoints(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    default_endpoint(rows);
    for endpoint in super::keys::user_endpoints(source)? {
        super::keys::user_endpoint(&endpoint, rows);
        rows.set("port", endpoint.port)
            .set("ip_address", endpoint.address.clone());
    }
    Ok(())
}

fn time_zones(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.add()
        .set("name", "UTC")
        .set("current_utc_offset", "+00:00");
    Ok(())
}

fn collations(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (id, name) in all_names() {
        rows.add()
            .set("name", name)
            .set("description", id.description());
    }
    Ok(())
}

const HOST: &str = "
    host_platform nvarchar(256); host_distribution nvarchar(256); host_release nvarchar(256);
    host_service_pack_level nvarchar(256); host_sku int?; os_language_version int; host_architecture nvarchar(256)";

fn host(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.add()
        .set("host_platform", platform())
        .set(
            "host_distribution",
            &source.instance()?.options().host_description,
        )
        .set("host_architecture", architecture());
    Ok(())
}

/// `Windows` or `Linux`, as the product says; other systems by their own name.
fn platform() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "windows" => "Windows",
        other => other,
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "X64",
        "aarch64" => "Arm64",
        other => other,
    }
}

const SYS_INFO: &str = "
    cpu_ticks bigint; ms_ticks bigint; cpu_count int; hyperthread_ratio int = 1; physical_memory_kb bigint;
    virtual_memory_kb bigint; committed_kb bigint; committed_target_kb bigint; visible_target_kb bigint;
    stack_size_in_bytes int = 2093056; os_quantum bigint = 4; os_error_mode int = 5; os_priority_class int? = 32;
    max_workers_count int = 512; scheduler_count int; scheduler_total_count int; deadlock_monitor_serial_number int;
    sqlserver_start_time_ms_ticks bigint; sqlserver_start_time datetime; affinity_type int = 2;
    affinity_type_desc varchar(60) = AUTO; process_kernel_time_ms bigint; process_user_time_ms bigint;
    time_source int = 1; time_source_desc nvarchar(60) = MULTIMEDIA_TIMER; virtual_machine_type int;
    virtual_machine_type_desc nvarchar(60) = NONE; softnuma_configuration int; softnuma_configuration_desc nvarchar(60) = OFF;
    process_physical_affinity nvarchar(3072); sql_memory_model int = 1; sql_memory_model_desc nvarchar(60) = CONVENTIONAL;
    socket_count int = 1; cores_per_socket int; numa_node_count int = 1; container_type int;
    container_type_desc nvarchar(60) = NONE";

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn sys_info(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    let running_ms = (instance.now_utc() - instance.started_utc()) / 10_000;
    let pool_kb = i64::try_from(instance.options().buffer_pool_pages).unwrap_or(0) * 8;
    let target_kb = memory_target(instance).map_or(pool_kb, kib);
    rows.add()
        .set("cpu_ticks", running_ms)
        .set("ms_ticks", running_ms)
        .set("cpu_count", processors())
        .set("physical_memory_kb", target_kb)
        .set("committed_kb", kib(memory::total_bytes()))
        .set("committed_target_kb", target_kb)
        .set("visible_target_kb", target_kb)
        .set("scheduler_count", processors())
        .set("scheduler_total_count", processors())
        .set("sqlserver_start_time", source.time(instance.started_utc()))
        .set("cores_per_socket", processors());
    if let Some((kernel, user)) = instance.processor_ms.get().and_then(|ask| ask()) {
        rows.set("process_kernel_time_ms", kernel)
            .set("process_user_time_ms", user);
    }
    Ok(())
}

const WINDOWS: &str = "
    windows_release nvarchar(256); windows_service_pack_level nvarchar(256); windows_sku int?; os_language_version int";

const SERVICES: &str = "
    servicename nvarchar(256); startup_type int? = 2; startup_type_desc nvarchar(256)? = Automatic; status int? = 4;
    status_desc nvarchar(256)? = Running; process_id int?; last_startup_time datetimeoffset(7)?; service_account nvarchar(256)?;
    filename nvarchar(256)?; is_clustered nvarchar(1)? = N; cluster_nodename nvarchar(256)?;
    instant_file_initialization_enabled nvarchar(1)? = N";

fn services(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.add()
        .set(
            "servicename",
            format!("SQL Server (MSSQLSERVER) {PRODUCT_VERSION}"),
        )
        .set(
            "last_startup_time",
            source.time(source.instance()?.started_utc()),
        );
    Ok(())
}

const SCHEDULERS: &str = "
    scheduler_address varbinary(8); parent_node_id int; scheduler_id int; cpu_id smallint; status nvarchar(60) = VISIBLE ONLINE;
    is_online bit = 1; is_idle bit; preemptive_switches_count int; context_switches_count int; idle_switches_count int;
    current_tasks_count int; runnable_tasks_count int; current_workers_count int; active_workers_count int;
    work_queue_count bigint; pending_disk_io_count int; load_factor int; yield_count int";

fn schedulers(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for id in 0..processors() {
        rows.add().set("scheduler_id", id).set("cpu_id", id);
    }
    Ok(())
}

const PROCESS_MEMORY: &str = "
    physical_memory_in_use_kb bigint; large_page_allocations_kb bigint; locked_page_allocations_kb bigint;
    total_virtual_address_space_kb bigint; virtual_address_space_reserved_kb bigint;
    virtual_address_space_committed_kb bigint; virtual_address_space_available_kb bigint; page_fault_count bigint;
    memory_utilization_percentage int; available_commit_limit_kb bigint; process_physical_memory_low bit;
    process_virtual_memory_low bit";

fn kib(bytes: i64) -> i64 {
    bytes.max(0) / 1_024
}

/// Bytes that pages and everything else may take together; `None` without a bound.
fn memory_target(instance: &Instance) -> Option<i64> {
    let pages = i64::try_from(instance.options().buffer_pool_pages * 8_192).ok()?;
    instance.memory.bound()?.checked_add(pages)
}

fn process_memory(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    let total = memory::total_bytes();
    let used =
        memory_target(instance).map_or(0, |target| total.saturating_mul(100) / target.max(1));
    rows.add()
        .set("physical_memory_in_use_kb", kib(total))
        .set("virtual_address_space_committed_kb", kib(total))
        .set("memory_utilization_percentage", used.clamp(0, 100))
        .set("process_physical_memory_low", instance.memory.is_short());
    Ok(())
}

const MEMORY_CLERKS: &str = "
    memory_clerk_address varbinary(8) = 0x; type nvarchar(60); name nvarchar(256) = Default; memory_node_id smallint;
    pages_kb bigint; virtual_memory_reserved_kb bigint; virtual_memory_committed_kb bigint; awe_allocated_kb bigint;
    shared_memory_reserved_kb bigint; shared_memory_committed_kb bigint; page_size_in_bytes bigint = 8192;
    page_allocator_address varbinary(8) = 0x; host_address varbinary(8) = 0x; parent_memory_broker_type nvarchar(60)?";

/// Together they are all that the process has allocated.
fn memory_clerks(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    let plans = i64::try_from(instance.plans.bytes()).unwrap_or(i64::MAX);
    let clerks = [
        ("MEMORYCLERK_SQLBUFFERPOOL", memory::page_bytes()),
        ("CACHESTORE_SQLCP", plans),
        ("MEMORYCLERK_SQLGENERAL", memory::work_bytes() - plans),
    ];
    for (name, bytes) in clerks {
        rows.add().set("type", name).set("pages_kb", kib(bytes));
    }
    Ok(())
}

const SYS_MEMORY: &str = "
    total_physical_memory_kb bigint; available_physical_memory_kb bigint; total_page_file_kb bigint;
    available_page_file_kb bigint; system_cache_kb bigint; kernel_paged_pool_kb bigint; kernel_nonpaged_pool_kb bigint;
    system_high_memory_signal_state bit; system_low_memory_signal_state bit; system_memory_state_desc nvarchar(256)";
