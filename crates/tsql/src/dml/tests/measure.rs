//! Figures of the statement that counts: the pair of full-table updates over 121,317 order lines.
//! Run with `cargo test --release -p daruma-tsql -- --ignored --nocapture measure`.

use super::fixture::*;
use crate::dml::bulk::{BulkColumn, BulkTarget};
use crate::dml::inserter::InsertOptions;
use daruma_catalog::ReferentialAction::NoAction;
use daruma_value::{DataType, DateTime, Len, Value};
use std::time::Instant;

const ROWS: i32 = 121_317;

/// Time this thread has spent on a processor: on a busy machine the clock on the wall says little.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

fn order_lines() -> TestHost {
    let host = TestHost::new();
    let product = TableBuilder::new("Product")
        .column("id", INT, false)
        .primary(&[0])
        .create(&host);
    TableBuilder::new("SalesOrderDetail")
        .column("SalesOrderID", INT, false)
        .column("SalesOrderDetailID", INT, false)
        .column("CarrierTrackingNumber", DataType::NVarChar(Len(25)), true)
        .column("OrderQty", DataType::SmallInt, false)
        .column("ProductID", INT, false)
        .column("SpecialOfferID", INT, false)
        .column("UnitPrice", DataType::Money, false)
        .column("UnitPriceDiscount", DataType::Money, false)
        .column(
            "LineTotal",
            DataType::Decimal {
                precision: 38,
                scale: 6,
            },
            true,
        )
        .computed(
            "(isnull(([UnitPrice]*((1.0)-[UnitPriceDiscount]))*[OrderQty],(0.0)))",
            false,
        )
        .column("rowguid", DataType::UniqueIdentifier, false)
        .column("ModifiedDate", DataType::DateTime, false)
        .primary(&[0, 1])
        .index(&[9], true, false)
        .index(&[4], false, false)
        .check("CK_OrderQty", "([OrderQty]>(0))", Some(4))
        .check("CK_UnitPrice", "([UnitPrice]>=(0.00))", Some(7))
        .check(
            "CK_UnitPriceDiscount",
            "([UnitPriceDiscount]>=(0.00))",
            Some(8),
        )
        .foreign_key("FK_Product", &[4], &product, &[0], NoAction, NoAction)
        .create(&host);
    host.ok("insert Product values (1), (2), (3)");
    let table = host.table("SalesOrderDetail");
    let given = table.def.columns.iter().filter(|c| c.computed.is_none());
    let columns: Vec<_> = given
        .map(|c| BulkColumn {
            name: c.name.clone(),
            data_type: c.data_type,
        })
        .collect();
    let target = BulkTarget::new(&host, &table, &columns, InsertOptions::STATEMENT).unwrap();
    let started = cpu_ns();
    let mut bulk = target.begin(&host).unwrap();
    for n in 0..ROWS {
        let tracking = if n % 2 == 0 {
            Value::str(format!("4911-403C-{:02X}", n % 256))
        } else {
            Value::Null
        };
        let mut guid = [0; 16];
        guid[..4].copy_from_slice(&(n.wrapping_mul(-1_640_531_535)).to_le_bytes());
        let mut row = [
            Value::Int(43_659 + n / 4),
            Value::Int(n + 1),
            tracking,
            Value::SmallInt((n % 10) as i16 + 1),
            Value::Int(n % 3 + 1),
            Value::Int(1),
            Value::Money(20_249_940),
            Value::Money(0),
            Value::Guid(guid),
            Value::DateTime(DateTime {
                days: 40_692,
                ticks: 0,
            }),
        ];
        bulk.push(&mut row).unwrap();
    }
    bulk.finish().unwrap();
    host.commit();
    let each = (cpu_ns() - started) as f64 / f64::from(ROWS);
    println!("insert with 3 indexes: {each:.0} ns of processor a row");
    host
}

#[test]
#[ignore = "a measurement"]
fn measure_update_pairs() {
    let host = order_lines();
    for round in 0..5 {
        for sql in [
            "update SalesOrderDetail set CarrierTrackingNumber = 'x' + CarrierTrackingNumber, OrderQty = OrderQty + 1, UnitPrice = UnitPrice + 1, UnitPriceDiscount = UnitPriceDiscount + 1",
            "update SalesOrderDetail set CarrierTrackingNumber = substring(CarrierTrackingNumber, 2, 100), OrderQty = OrderQty - 1, UnitPrice = UnitPrice - 1, UnitPriceDiscount = UnitPriceDiscount - 1",
        ] {
            let (started, cpu) = (Instant::now(), cpu_ns());
            assert_eq!(host.ok(sql), ROWS as u64);
            let (wall, cpu) = (started.elapsed(), cpu_ns() - cpu);
            host.commit();
            let each = cpu as f64 / f64::from(ROWS);
            println!(
                "round {round}: {each:.0} ns of processor a row, {:.1} ms on the wall",
                wall.as_secs_f64() * 1e3
            );
        }
    }
}

/// Processor time of one statement with its plan at hand, without the commit.
#[test]
#[ignore = "a measurement"]
fn measure_single_rows() {
    const TIMES: i32 = 20_000;
    let host = TestHost::new();
    host.variables
        .borrow_mut()
        .insert("@id".to_string(), (INT, Value::Int(0)));
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .column("n", INT, true)
        .default("((7))")
        .primary(&[0])
        .index(&[1], false, false)
        .check("CK_n", "([n]>=(0))", Some(3))
        .create(&host);
    for sql in [
        "insert t (id, name) values (@id, 'some text')",
        "update t set n = n + 1 where id = @id",
        "update t set name = 'other' where id = @id",
        "delete t where id = @id",
    ] {
        let plan = host.plan(sql);
        let started = cpu_ns();
        for id in 0..TIMES {
            host.variables
                .borrow_mut()
                .insert("@id".to_string(), (INT, Value::Int(id)));
            assert_eq!(crate::dml::execute(&plan, &host, None).unwrap(), 1);
        }
        println!("{sql}: {} ns", (cpu_ns() - started) / TIMES as u64);
        host.commit();
    }
}
