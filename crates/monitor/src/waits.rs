//! Classes of wait types, and which of them are idle.
//!
//! Theory: a page shows a dozen classes and not hundreds of types. The list is applied when a type is first seen and kept in
//! the repository's table `wait_type`, where it can be corrected. A type that no rule knows is Other.

/// What waits of a kind are for. The number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Cpu,
    Threads,
    Lock,
    Log,
    DataRead,
    OtherDisk,
    Latch,
    Memory,
    Network,
    Parallel,
    Replica,
    Transaction,
    Other,
}

impl Class {
    /// All classes, in the order of their figures.
    pub const ALL: [Class; 13] = [
        Class::Cpu,
        Class::Threads,
        Class::Lock,
        Class::Log,
        Class::DataRead,
        Class::OtherDisk,
        Class::Latch,
        Class::Memory,
        Class::Network,
        Class::Parallel,
        Class::Replica,
        Class::Transaction,
        Class::Other,
    ];

    /// Its number in the repository.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The class of a number; Other for one that is unknown.
    pub fn of_number(number: u8) -> Class {
        Class::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Class::Other)
    }

    /// Column of the class in a tick.
    pub const fn figure(self) -> &'static str {
        match self {
            Class::Cpu => "wait_cpu",
            Class::Threads => "wait_threads",
            Class::Lock => "wait_lock",
            Class::Log => "wait_log",
            Class::DataRead => "wait_data_read",
            Class::OtherDisk => "wait_other_disk",
            Class::Latch => "wait_latch",
            Class::Memory => "wait_memory",
            Class::Network => "wait_network",
            Class::Parallel => "wait_parallel",
            Class::Replica => "wait_replica",
            Class::Transaction => "wait_transaction",
            Class::Other => "wait_other",
        }
    }

    /// Its name on the page and as a label of a metric.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Cpu => "processor",
            Class::Threads => "no worker",
            Class::Lock => "lock",
            Class::Log => "log",
            Class::DataRead => "data read",
            Class::OtherDisk => "other disk",
            Class::Latch => "latch",
            Class::Memory => "memory",
            Class::Network => "network",
            Class::Parallel => "parallel",
            Class::Replica => "replica",
            Class::Transaction => "transaction",
            Class::Other => "other",
        }
    }

    /// Is its time spent on a device? Figure 6 of a purge compares these together.
    pub const fn is_disk(self) -> bool {
        matches!(self, Class::Log | Class::DataRead | Class::OtherDisk)
    }
}

/// Whole names.
const NAMED: &[(&str, Class)] = &[
    ("SOS_SCHEDULER_YIELD", Class::Cpu),
    ("THREADPOOL", Class::Threads),
    ("WRITELOG", Class::Log),
    ("LOGBUFFER", Class::Log),
    ("LOGMGR", Class::Log),
    ("LOGMGR_FLUSH", Class::Log),
    ("LOGMGR_RESERVE_APPEND", Class::Log),
    ("LOG_RATE_GOVERNOR", Class::Log),
    ("POOL_LOG_RATE_GOVERNOR", Class::Log),
    ("INSTANCE_LOG_RATE_GOVERNOR", Class::Log),
    ("IO_COMPLETION", Class::OtherDisk),
    ("ASYNC_IO_COMPLETION", Class::OtherDisk),
    ("WRITE_COMPLETION", Class::OtherDisk),
    ("IO_RETRY", Class::OtherDisk),
    ("IO_QUEUE_LIMIT", Class::OtherDisk),
    ("BACKUPIO", Class::OtherDisk),
    ("BACKUPBUFFER", Class::OtherDisk),
    ("CMEMTHREAD", Class::Memory),
    ("ASYNC_NETWORK_IO", Class::Network),
    ("NET_WAITFOR_PACKET", Class::Network),
    ("CXPACKET", Class::Parallel),
    ("CXCONSUMER", Class::Parallel),
    ("EXCHANGE", Class::Parallel),
];

/// Beginnings of names.
const FAMILIES: &[(&str, Class)] = &[
    ("LCK_M_", Class::Lock),
    ("PAGEIOLATCH_", Class::DataRead),
    ("PAGELATCH_", Class::Latch),
    ("LATCH_", Class::Latch),
    ("RESOURCE_SEMAPHORE", Class::Memory),
    ("CXSYNC_", Class::Parallel),
    ("HADR_", Class::Replica),
    ("PVS_", Class::Transaction),
    ("XACT_", Class::Transaction),
    ("DTC", Class::Transaction),
    ("TRAN_MARKLATCH_", Class::Transaction),
];

/// Threads that wait for work: their time says nothing.
const IDLE: &[&str] = &[
    "LAZYWRITER_SLEEP",
    "DISPATCHER_QUEUE_SEMAPHORE",
    "FT_IFTS_SCHEDULER_IDLE_WAIT",
    "FT_IFTSHC_MUTEX",
    "LOGMGR_QUEUE",
    "REQUEST_FOR_DEADLOCK_SEARCH",
    "WAITFOR",
    "WAITFOR_TASKSHUTDOWN",
    "SP_SERVER_DIAGNOSTICS_SLEEP",
    "ONDEMAND_TASK_QUEUE",
    "SOS_WORK_DISPATCHER",
    "CHECKPOINT_QUEUE",
    "DIRTY_PAGE_POLL",
    "CHKPT",
    "KSOURCE_WAKEUP",
    "HADR_FILESTREAM_IOMGR_IOCOMPLETION",
    "HADR_LOGCAPTURE_WAIT",
    "HADR_WORK_QUEUE",
    "HADR_TIMER_TASK",
    "HADR_NOTIFICATION_DEQUEUE",
    "HADR_CLUSAPI_CALL",
    "REDO_THREAD_PENDING_WORK",
    "UCS_SESSION_REGISTRATION",
    "PREEMPTIVE_SP_SERVER_DIAGNOSTICS",
    "PREEMPTIVE_HADR_LEASE_MECHANISM",
    "PREEMPTIVE_XE_GETTARGETSTATE",
    "WAIT_XTP_OFFLINE_CKPT_NEW_LOG",
    "WAIT_XTP_HOST_WAIT",
    "VDI_CLIENT_OTHER",
    "PVS_PREALLOCATE",
];

const IDLE_FAMILIES: &[&str] = &[
    "SLEEP_",
    "BROKER_",
    "CLR_",
    "SQLTRACE_",
    "XE_",
    "QDS_",
    "PWAIT_",
    "DBMIRROR",
];

/// Class of a wait type.
pub fn class(wait_type: &str) -> Class {
    let named = NAMED.iter().find(|(name, _)| *name == wait_type);
    let family = || {
        FAMILIES
            .iter()
            .find(|(start, _)| wait_type.starts_with(start))
    };
    named
        .or_else(family)
        .map_or(Class::Other, |(_, class)| *class)
}

/// Is it the wait of a thread that has nothing to do?
pub fn is_idle(wait_type: &str) -> bool {
    let redo = wait_type.starts_with("PARALLEL_REDO_") && wait_type != "PARALLEL_REDO_FLOW_CONTROL";
    redo || IDLE.contains(&wait_type)
        || IDLE_FAMILIES
            .iter()
            .any(|start| wait_type.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_classes() {
        for (name, expected) in [
            ("WRITELOG", Class::Log),
            ("LCK_M_SCH_M", Class::Lock),
            ("PAGEIOLATCH_EX", Class::DataRead),
            ("PAGELATCH_EX", Class::Latch),
            ("RESOURCE_SEMAPHORE_QUERY_COMPILE", Class::Memory),
            ("HADR_SYNC_COMMIT", Class::Replica),
            ("SOMETHING_NEW", Class::Other),
        ] {
            assert_eq!(class(name), expected, "{name}");
        }
        assert!(is_idle("SLEEP_TASK") && is_idle("PARALLEL_REDO_DRAIN_WORKER"));
        assert!(!is_idle("WRITELOG") && !is_idle("PARALLEL_REDO_FLOW_CONTROL"));
    }

    #[test]
    fn every_class_has_its_figure() {
        for class in Class::ALL {
            assert!(crate::figures::index(class.figure()).is_some());
            assert_eq!(Class::of_number(class.number()), class);
        }
    }
}
