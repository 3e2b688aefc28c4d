//! What the version store takes: a filegroup of its own, and inserts, updates and deletes that stay open.

use super::{Lab, LabError, Mode, RecoveryArgs, file_pages, fresh, insert_statement};
use crate::figures;
use crate::report::{Section, Table};
use crate::sql::{Ask, quoted};
use serde_json::json;

const PAGE_BYTES: f64 = 8192.0;

/// Measures the pages that versions of inserts, updates and deletes take while their transaction is open.
pub fn run(lab: &mut Lab, args: &RecoveryArgs) -> Result<(), LabError> {
    let mode = Mode::Accelerated;
    let rows = args.rows();
    let mut client = fresh(lab, mode, true)?;
    let mut watcher = lab.client(mode.database())?;
    let mut table = Table::new(
        "",
        &[
            "Open transaction",
            "Rows",
            "Version store",
            "Bytes/row",
            "Its file",
            "Data file",
        ],
    );
    let mut data = Vec::new();
    let steps = [
        ("nothing", String::new(), 0),
        ("inserts", insert_statement(rows), rows),
        (
            "updates of one column",
            "UPDATE t11 SET c1 = NEWID()".to_string(),
            rows,
        ),
        ("deletes", "DELETE t11".to_string(), rows),
    ];
    for (name, text, count) in steps {
        lab.check_interrupt()?;
        lab.step(format!("version store space: {name}"));
        if !text.is_empty() {
            client.execute(&format!("BEGIN TRANSACTION; {text}"))?;
        }
        let kb = watcher.number(&format!(
            "SELECT persistent_version_store_size_kb FROM sys.dm_tran_persistent_version_store_stats \
             WHERE database_id = DB_ID({})",
            quoted(mode.database())
        ))?;
        let bytes = kb.map_or(f64::NAN, |kb| kb * 1024.0);
        let store = file_pages(&mut watcher, mode.database(), "VersionStoreFG")? * PAGE_BYTES;
        let main = file_pages(&mut watcher, mode.database(), mode.database())? * PAGE_BYTES;
        table.measured(vec![
            name.into(),
            figures::grouped(count as f64),
            figures::bytes(bytes),
            figures::optional((count > 0).then(|| bytes / count as f64)),
            figures::bytes(store),
            figures::bytes(main),
        ]);
        data.push(json!({"step": name, "rows": count, "store_bytes": bytes, "store_file_bytes": store, "data_file_bytes": main}));
        // Inserted rows stay for the steps after; what those do is taken back, so that each meets the same table.
        if name == "inserts" {
            client.execute("COMMIT")?;
        } else if !text.is_empty() {
            client.execute("ROLLBACK")?;
        }
    }
    let left = watcher.text("SELECT COUNT_BIG(*) FROM t11")?;
    lab.report
        .check("version store run: rows at the end", rows.to_string(), left);
    let mut section = Section {
        title: "Space of the version store".into(),
        ..Section::default()
    };
    section.text(
        "A filegroup of its own holds the versions. The published run saw no visible growth for ten million inserts: an \
         insert needs no version.",
    );
    section.table(table);
    lab.report.keep("version_space", json!(data));
    lab.publish(section);
    drop((client, watcher));
    lab.drop_database(mode.database())
}
