//! The article's own figures, as printed: SQL Server 2022, Mainzer Datenfabrik, 13 August 2024.

use crate::report::Source;

/// The article, and what it says of its machine.
pub fn source() -> Source {
    Source {
        text: "Published figures: \"SQL Server Accelerated Database Recovery - Setup und Metriken\", Mainzer Datenfabrik, \
               13 August 2024."
            .into(),
        setting: "Measured there with SQL Server 2022 on a machine that is not described; absolute times of two machines \
                  do not compare, ratios do."
            .into(),
    }
}

/// One row of the table of the 10 x 10 runs.
pub struct Timing {
    pub database: &'static str,
    pub cpu_s: f64,
    pub actual_s: f64,
    pub total_s: f64,
    pub total: &'static str,
    pub client_s: f64,
}

const fn timing(
    database: &'static str,
    cpu_s: f64,
    actual_s: f64,
    total_s: f64,
    total: &'static str,
    client_s: f64,
) -> Timing {
    Timing {
        database,
        cpu_s,
        actual_s,
        total_s,
        total,
        client_s,
    }
}

/// The article's four databases, in its order.
pub const TIMINGS: [Timing; 4] = [
    timing(
        "AW2019_150",
        1.4734,
        15.7428,
        161.3345,
        "2:41.3345",
        15.7525,
    ),
    timing(
        "AW2019_150_AR",
        2.1439,
        23.5571,
        241.4231,
        "4:01.4231",
        23.5682,
    ),
    timing(
        "AW2019_160",
        1.5852,
        16.9908,
        174.9946,
        "2:54.9946",
        16.9940,
    ),
    timing(
        "AW2019_160_AR",
        2.2920,
        24.9560,
        255.1796,
        "4:15.1796",
        24.9644,
    ),
];

/// Mean of an update, the same for all four databases.
pub const LOGICAL_READS: &str = "4,955.98";

/// 50 pairs in one transaction, and its rollback, in seconds.
pub const ROLLBACK: [(&str, f64, f64); 4] = [
    ("AW2019_150", 39.0, 36.0),
    ("AW2019_150_AR", 77.0, 0.0),
    ("AW2019_160", 40.0, 36.0),
    ("AW2019_160_AR", 77.0, 0.0),
];

/// Analysis, redo and undo in ms, and the whole recovery in s.
pub const RECOVERY: [(&str, f64, f64, f64, f64); 4] = [
    ("AW2019_150", 661.0, 11397.0, 31671.0, 45.0),
    ("AW2019_150_AR", 6872.0, 18375.0, 193.0, 27.0),
    ("AW2019_160", 3733.0, 15089.0, 25752.0, 46.0),
    ("AW2019_160_AR", 5398.0, 19713.0, 99.0, 27.0),
];

/// File, pages at first, pages after the runs.
pub const SIZES_WITHOUT_FILEGROUP: [(&str, u64, u64); 8] = [
    ("AW2019_150.mdf", 25600, 33792),
    ("AW2019_150_log.ldf", 9216, 17408),
    ("AW2019_150_AR.mdf", 25600, 115_712),
    ("AW2019_150_AR_log.ldf", 9216, 33792),
    ("AW2019_160.mdf", 25600, 33792),
    ("AW2019_160_log.ldf", 9216, 17408),
    ("AW2019_160_AR.mdf", 25600, 115_712),
    ("AW2019_160_AR_log.ldf", 9216, 33792),
];

/// The same with a filegroup for the version store.
pub const SIZES_WITH_FILEGROUP: [(&str, u64, u64); 10] = [
    ("AW2019_150.mdf", 25600, 33792),
    ("AW2019_150_log.ldf", 9216, 17408),
    ("AW2019_150_AR.mdf", 25600, 107_520),
    ("AW2019_150_AR_log.ldf", 9216, 25600),
    ("VS_AW2019_150_AR.ndf", 8192, 8192),
    ("AW2019_160.mdf", 25600, 33792),
    ("AW2019_160_log.ldf", 9216, 17408),
    ("AW2019_160_AR.mdf", 25600, 115_712),
    ("AW2019_160_AR_log.ldf", 9216, 25600),
    ("VS_AW2019_160_AR.ndf", 8192, 8192),
];
