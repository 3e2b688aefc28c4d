//! The sample database's files, which are part of the program.
//!
//! `create.sql` says in its head how the files map to tables; `schema.tsv` describes every column.

use daruma_value::{DataType, Len};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read;

/// Rows of all files.
pub const ROWS_TOTAL: u64 = 700_861;

const LOAD_MARK: &str = "\n-- LOAD DATA HERE";
const SCRIPT: &str = include_str!("../../data/adventureworks/create.sql");
const SCHEMA: &str = include_str!("../../data/adventureworks/schema.tsv");

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../data/adventureworks/", $name, ".csv.gz")))),*]
    };
}

/// By table; compressed.
const FILES: &[(&str, &[u8])] = files![
    "HumanResources.Department",
    "HumanResources.Employee",
    "HumanResources.EmployeeDepartmentHistory",
    "HumanResources.EmployeePayHistory",
    "HumanResources.Shift",
    "Person.Address",
    "Person.AddressType",
    "Person.BusinessEntity",
    "Person.BusinessEntityAddress",
    "Person.BusinessEntityContact",
    "Person.ContactType",
    "Person.CountryRegion",
    "Person.EmailAddress",
    "Person.Person",
    "Person.PersonPhone",
    "Person.PhoneNumberType",
    "Person.StateProvince",
    "Production.BillOfMaterials",
    "Production.Culture",
    "Production.Location",
    "Production.Product",
    "Production.ProductCategory",
    "Production.ProductCostHistory",
    "Production.ProductDescription",
    "Production.ProductInventory",
    "Production.ProductListPriceHistory",
    "Production.ProductModel",
    "Production.ProductModelProductDescriptionCulture",
    "Production.ProductProductPhoto",
    "Production.ProductReview",
    "Production.ProductSubcategory",
    "Production.ScrapReason",
    "Production.TransactionHistory",
    "Production.TransactionHistoryArchive",
    "Production.UnitMeasure",
    "Production.WorkOrder",
    "Production.WorkOrderRouting",
    "Purchasing.ProductVendor",
    "Purchasing.PurchaseOrderDetail",
    "Purchasing.PurchaseOrderHeader",
    "Purchasing.ShipMethod",
    "Purchasing.Vendor",
    "Sales.CountryRegionCurrency",
    "Sales.Currency",
    "Sales.CurrencyRate",
    "Sales.Customer",
    "Sales.SalesOrderDetail",
    "Sales.SalesOrderHeader",
    "Sales.SalesOrderHeaderSalesReason",
    "Sales.SalesPerson",
    "Sales.SalesPersonQuotaHistory",
    "Sales.SalesReason",
    "Sales.SalesTaxRate",
    "Sales.SalesTerritory",
    "Sales.SalesTerritoryHistory",
    "Sales.ShoppingCartItem",
    "Sales.SpecialOffer",
    "Sales.SpecialOfferProduct",
    "Sales.Store",
];

/// The two parts of the script, before and after the data.
pub fn scripts() -> (&'static str, &'static str) {
    SCRIPT.split_once(LOAD_MARK).unwrap_or((SCRIPT, ""))
}

/// One table's file.
#[derive(Clone, Debug)]
pub struct TableData {
    pub schema: &'static str,
    pub table: &'static str,
    pub has_identity: bool,
    columns: BTreeMap<&'static str, ColumnData>,
    compressed: &'static [u8],
}

#[derive(Clone, Copy, Debug)]
struct ColumnData {
    data_type: Option<DataType>,
}

impl TableData {
    /// `[Schema].[Table]`
    pub fn quoted(&self) -> String {
        format!("[{}].[{}]", self.schema, self.table)
    }

    /// The rows, as text with a header line.
    pub fn reader(&self) -> csv::Reader<impl Read + use<>> {
        csv::Reader::from_reader(GzDecoder::new(self.compressed))
    }

    /// The type a column of the file is loaded as; `None` if the table computes it.
    pub fn data_type(&self, column: &str) -> Option<DataType> {
        self.columns.get(column).and_then(|column| column.data_type)
    }
}

/// All files in an order in which parents come before children, as the script creates the tables.
pub fn tables() -> Vec<TableData> {
    let mut by_name: BTreeMap<String, TableData> = FILES
        .iter()
        .filter_map(|(name, bytes)| Some((name.to_string(), table(name, bytes)?)))
        .collect();
    for line in SCHEMA.lines().skip(1) {
        let fields: Vec<&'static str> = line.split('\t').collect();
        let &[schema, table, _, column, sql_type, identity, ..] = fields.as_slice() else {
            continue;
        };
        if let Some(data) = by_name.get_mut(&format!("{schema}.{table}")) {
            data.has_identity |= identity == "1";
            data.columns.insert(
                column,
                ColumnData {
                    data_type: parse_type(sql_type),
                },
            );
        }
    }
    let created = scripts()
        .0
        .lines()
        .filter_map(|line| line.trim().strip_prefix("CREATE TABLE "));
    let names = created.map(|rest| rest.trim_end_matches([' ', '(']).replace(['[', ']'], ""));
    names.filter_map(|name| by_name.remove(&name)).collect()
}

fn table(name: &'static str, compressed: &'static [u8]) -> Option<TableData> {
    let (schema, table) = name.split_once('.')?;
    Some(TableData {
        schema,
        table,
        has_identity: false,
        columns: BTreeMap::new(),
        compressed,
    })
}

/// As the script declares the columns: types that need methods are plain text and bytes. `None` for computed columns.
fn parse_type(text: &str) -> Option<DataType> {
    use DataType as D;
    let (name, arguments) = text.split_once('(').map_or((text, ""), |(name, rest)| {
        (name, rest.trim_end_matches(')'))
    });
    let len = || match arguments {
        "max" => Len::MAX,
        number => Len(number.trim().parse().unwrap_or(1)),
    };
    let number = |at: usize| {
        arguments
            .split(',')
            .nth(at)
            .and_then(|n| n.trim().parse::<u8>().ok())
    };
    Some(match name {
        _ if text.starts_with("computed:") => return None,
        "bit" => D::Bit,
        "tinyint" => D::TinyInt,
        "smallint" => D::SmallInt,
        "int" => D::Int,
        "bigint" => D::BigInt,
        "decimal" | "numeric" => D::Decimal {
            precision: number(0).unwrap_or(18),
            scale: number(1).unwrap_or(0),
        },
        "money" => D::Money,
        "smallmoney" => D::SmallMoney,
        "real" => D::Real,
        "float" => D::Float,
        "date" => D::Date,
        "time" => D::Time {
            scale: number(0).unwrap_or(7),
        },
        "datetime" => D::DateTime,
        "datetime2" => D::DateTime2 {
            scale: number(0).unwrap_or(7),
        },
        "char" => D::Char(len()),
        "varchar" => D::VarChar(len()),
        "nchar" => D::NChar(len()),
        "nvarchar" => D::NVarChar(len()),
        "xml" => D::NVARCHAR_MAX,
        "binary" => D::Binary(len()),
        "varbinary" => D::VarBinary(len()),
        "hierarchyid" => D::VarBinary(Len(892)),
        "geography" => D::VARBINARY_MAX,
        "uniqueidentifier" => D::UniqueIdentifier,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_its_table_and_every_column_its_type() {
        let tables = tables();
        assert_eq!(tables.len(), FILES.len());
        for table in &tables {
            let headers = table.reader().headers().expect("a header").clone();
            for column in &headers {
                assert!(
                    table.columns.contains_key(column),
                    "{}.{column}",
                    table.quoted()
                );
            }
        }
    }

    #[test]
    fn types_are_those_of_the_script() {
        let tables = tables();
        let find = |name: &str| {
            tables
                .iter()
                .find(|table| table.quoted() == name)
                .expect("the table")
        };
        let detail = find("[Sales].[SalesOrderDetail]");
        assert_eq!(detail.data_type("LineTotal"), None);
        assert_eq!(detail.data_type("UnitPrice"), Some(DataType::Money));
        assert!(detail.has_identity);
        assert_eq!(
            find("[HumanResources].[Employee]").data_type("OrganizationNode"),
            Some(DataType::VarBinary(Len(892)))
        );
        assert_eq!(
            find("[Production].[WorkOrderRouting]").data_type("ActualResourceHrs"),
            Some(DataType::Decimal {
                precision: 9,
                scale: 4
            })
        );
        assert!(!find("[Person].[Person]").has_identity);
    }

    #[test]
    fn parents_come_first() {
        let tables = tables();
        let at = |name: &str| {
            tables
                .iter()
                .position(|table| table.table == name)
                .expect("the table")
        };
        assert!(at("SalesOrderHeader") < at("SalesOrderDetail"));
        assert!(at("BusinessEntity") < at("Person"));
    }

    #[test]
    fn the_script_has_two_parts() {
        let (before, after) = scripts();
        assert!(before.contains("CREATE TABLE Sales.SalesOrderDetail"));
        assert!(after.contains("INDEX") && !after.contains("CREATE TABLE"));
    }
}
