//! The purge: the article's kind of job, old rows deleted in chunks, in four dynamic statements.
//!
//! A monitoring database keeps measurements by counter, details, time stamps and events by category. A procedure deletes
//! what is older than a moment: by counter and chunk, then details without a measurement, then time stamps, then events by
//! category, each chunk its own transaction, through sp_executesql and EXEC as printed. The delayed variant differs by the
//! words `BEGIN TRANSACTION [DelayedDurabilityOn]` and `COMMIT TRANSACTION [...] WITH (DELAYED_DURABILITY = ON)`.

use super::super::LabError;
use crate::sql::Ask;
use daruma_client::client::Client;

/// Counters that measurements are spread over; the purge goes through them one by one.
pub const COUNTERS: u64 = 20;
/// Categories that events are spread over.
pub const CATEGORIES: u64 = 8;

/// Rows of each table, before the purge; half of them are old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    pub measurements: u64,
}

impl Volume {
    fn stamps(self) -> u64 {
        (self.measurements / COUNTERS).max(1)
    }

    fn events(self) -> u64 {
        self.stamps().max(CATEGORIES)
    }
}

const TABLES: [&str; 4] = [
    "CREATE TABLE PerformanceAnalysisData (CounterID int NOT NULL, Timestamp int NOT NULL, InstanceID int NOT NULL, \
     Value float NOT NULL, Note varchar(60) NOT NULL, CONSTRAINT PK_Data PRIMARY KEY (CounterID, Timestamp))",
    "CREATE TABLE PerformanceAnalysisDataDetail (Timestamp int NOT NULL, CounterID int NOT NULL, Text varchar(80) NOT NULL, \
     CONSTRAINT PK_Detail PRIMARY KEY (Timestamp, CounterID))",
    "CREATE TABLE PerformanceAnalysisTimestamp (Timestamp int NOT NULL CONSTRAINT PK_Timestamp PRIMARY KEY, At datetime2 NOT NULL)",
    "CREATE TABLE EventLog (CategoryID int NOT NULL, Timestamp int NOT NULL, Text varchar(200) NOT NULL, \
     CONSTRAINT PK_Event PRIMARY KEY (CategoryID, Timestamp))",
];

/// Empty tables, numbers, and the two procedures.
pub fn create(client: &mut Client) -> Result<(), LabError> {
    for text in TABLES {
        client.execute(text)?;
    }
    for (name, delayed) in [("PurgeDurable", false), ("PurgeDelayed", true)] {
        client.execute(&procedure(name, delayed))?;
    }
    Ok(())
}

/// The same rows every time.
pub fn fill(client: &mut Client, volume: Volume) -> Result<(), LabError> {
    for table in [
        "PerformanceAnalysisData",
        "PerformanceAnalysisDataDetail",
        "PerformanceAnalysisTimestamp",
        "EventLog",
    ] {
        client.execute(&format!("TRUNCATE TABLE {table}"))?;
    }
    let stamps = volume.stamps();
    let numbers = format!(
        "WITH d (d) AS (SELECT d FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS v (d)), \
         s (n) AS (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d \
         FROM d AS a, d AS b, d AS c, d AS e, d AS f, d AS g \
         WHERE a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d < {stamps})"
    );
    client.execute(&format!(
        "{numbers} INSERT PerformanceAnalysisTimestamp SELECT n, DATEADD(second, 10 * n, '2017-01-01') FROM s"
    ))?;
    for counter in 0..COUNTERS {
        client.execute(&format!(
            "INSERT PerformanceAnalysisData SELECT {counter}, Timestamp, Timestamp % 7, Timestamp * 1.5, \
             'measured by the agent every ten seconds' FROM PerformanceAnalysisTimestamp"
        ))?;
    }
    client.execute(
        "INSERT PerformanceAnalysisDataDetail SELECT Timestamp, 1, 'what was behind the measurement' FROM PerformanceAnalysisTimestamp",
    )?;
    let each = volume.events() / CATEGORIES;
    for category in 0..CATEGORIES {
        client.execute(&format!(
            "INSERT EventLog SELECT {category}, Timestamp, REPLICATE('event ', 12) FROM PerformanceAnalysisTimestamp \
             WHERE Timestamp % {CATEGORIES} = {category} AND Timestamp < {each} * {CATEGORIES}"
        ))?;
    }
    client.execute("CHECKPOINT")?;
    Ok(())
}

/// Rows older than this go: half of them.
pub const fn boundary(volume: Volume) -> u64 {
    volume.measurements / COUNTERS / 2
}

/// How many rows each table has, and a sum over them.
pub fn sums(client: &mut Client) -> Result<String, LabError> {
    let mut parts = Vec::new();
    for table in [
        "PerformanceAnalysisData",
        "PerformanceAnalysisDataDetail",
        "PerformanceAnalysisTimestamp",
        "EventLog",
    ] {
        parts.push(client.text(&format!(
            "SELECT CONCAT(COUNT_BIG(*), ':', SUM(CAST(Timestamp AS bigint))) FROM {table}"
        ))?);
    }
    Ok(parts.join(" "))
}

/// One call of the purge's procedure, which deletes `chunk` old rows in each transaction.
pub fn call(delayed: bool, volume: Volume, chunk: u64) -> String {
    let name = if delayed {
        "PurgeDelayed"
    } else {
        "PurgeDurable"
    };
    format!(
        "EXEC {name} @PurgeBeforeTimestamp = {}, @Chunk = {chunk}",
        boundary(volume)
    )
}

/// The procedure; `delayed` adds what the article adds.
pub fn procedure(name: &str, delayed: bool) -> String {
    let begin = |suffix: &str| match delayed {
        true => format!("BEGIN TRANSACTION [DelayedDurabilityOn{suffix}]"),
        false => String::new(),
    };
    let commit = |suffix: &str| match delayed {
        true => format!(
            "COMMIT TRANSACTION [DelayedDurabilityOn{suffix}] WITH (DELAYED_DURABILITY = ON)"
        ),
        false => String::new(),
    };
    format!(
        "CREATE PROCEDURE {name} @PurgeBeforeTimestamp int, @Chunk int AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @DynamicSQL nvarchar(max), @SQLParams nvarchar(400), @DeleteRowCount int, @DeleteRowCountTotal int = 0;
    DECLARE @CounterID int = 0, @CategoryID int = 0;
    SET @SQLParams = N'@Chunk int, @Timestamp int, @CounterID int';
    SET @DynamicSQL = N'DELETE TOP (@Chunk) FROM PerformanceAnalysisData WHERE CounterID = @CounterID AND Timestamp < @Timestamp';
    WHILE @CounterID < {COUNTERS}
    BEGIN
        SET @DeleteRowCount = 1;
        WHILE @DeleteRowCount > 0
        BEGIN
            {begin1}
            EXEC sp_executesql @DynamicSQL, @SQLParams, @Chunk = @Chunk, @Timestamp = @PurgeBeforeTimestamp, @CounterID = @CounterID
            SET @DeleteRowCount = @@rowcount
            SET @DeleteRowCountTotal = @DeleteRowCountTotal + @DeleteRowCount
            {commit1}
        END
        SET @CounterID = @CounterID + 1
    END
    SET @DynamicSQL = N'DELETE TOP (' + CAST(@Chunk AS nvarchar(20)) + N') FROM PerformanceAnalysisDataDetail WHERE Timestamp < ' \
+ CAST(@PurgeBeforeTimestamp AS nvarchar(20));
    SET @DeleteRowCount = 1;
    WHILE @DeleteRowCount > 0
    BEGIN
        {begin2}
        EXEC (@DynamicSQL)
        SET @DeleteRowCount = @@rowcount
        SET @DeleteRowCountTotal = @DeleteRowCountTotal + @DeleteRowCount
        {commit2}
    END
    SET @SQLParams = N'@Chunk int, @Timestamp int';
    SET @DynamicSQL = N'DELETE TOP (@Chunk) FROM PerformanceAnalysisTimestamp WHERE Timestamp < @Timestamp';
    SET @DeleteRowCount = 1;
    WHILE @DeleteRowCount > 0
    BEGIN
        {begin3}
        EXEC sp_executesql @DynamicSQL, @SQLParams, @Chunk = @Chunk, @Timestamp = @PurgeBeforeTimestamp
        SET @DeleteRowCount = @@rowcount
        SET @DeleteRowCountTotal = @DeleteRowCountTotal + @DeleteRowCount
        {commit3}
    END
    SET @SQLParams = N'@Chunk int, @PurgeBeforeTimestamp int, @CategoryID int';
    SET @DynamicSQL = N'DELETE TOP (@Chunk) FROM EventLog WHERE CategoryID = @CategoryID AND Timestamp < @PurgeBeforeTimestamp';
    WHILE @CategoryID < {CATEGORIES}
    BEGIN
        SET @DeleteRowCount = 1;
        WHILE @DeleteRowCount > 0
        BEGIN
            {begin4}
            EXEC sp_executesql @DynamicSQL, @SQLParams, @Chunk = @Chunk, @PurgeBeforeTimestamp = @PurgeBeforeTimestamp, @CategoryID = @CategoryID
            SET @DeleteRowCount = @@rowcount
            SET @DeleteRowCountTotal = @DeleteRowCountTotal + @DeleteRowCount
            {commit4}
        END
        SET @CategoryID = @CategoryID + 1
    END
    SELECT @DeleteRowCountTotal AS deleted
END",
        begin1 = begin(""),
        commit1 = commit(""),
        begin2 = begin("2"),
        commit2 = commit("2"),
        begin3 = begin("3"),
        commit3 = commit("3"),
        begin4 = begin("4"),
        commit4 = commit("4"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delayed_variant_wraps_four_transactions() {
        let delayed = procedure("p", true);
        assert_eq!(delayed.matches("WITH (DELAYED_DURABILITY = ON)").count(), 4);
        assert_eq!(delayed.matches("BEGIN TRANSACTION [").count(), 4);
        assert!(!procedure("p", false).contains("TRANSACTION"));
    }

    #[test]
    fn half_of_the_rows_are_old() {
        let volume = Volume {
            measurements: 100_000,
        };
        assert_eq!((volume.stamps(), boundary(volume)), (5000, 2500));
    }
}
