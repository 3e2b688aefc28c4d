package main

import (
	"fmt"
	"strings"
)

// The statements of one product. All tables have the same columns, keys and indexes; amounts are the product's decimal type
// (money where T-SQL has it; SQLite has none and holds doubles).
type dialect struct {
	sales                       []string // CREATE statements for a sales table named %[1]s
	createCommon                []string
	updatePlus, updateMinus     string
	commit, commitSums          string
	point                       string
	salesSums                   string // of the table %[1]s
	scanSum, scanGroup          string
	joinTerritory, joinCategory string
	emptyCommits                string
	mark                        func(int) string
}

func question(int) string { return "?" }

func dollar(n int) string { return fmt.Sprintf("$%d", n) }

func at(n int) string { return fmt.Sprintf("@p%d", n) }

// parameters is a list of n parameter markers.
func (d dialect) parameters(n int) string {
	marks := make([]string, n)
	for index := range marks {
		marks[index] = d.mark(index + 1)
	}
	return strings.Join(marks, ", ")
}

const salesColumns = 11

func build(d dialect, types map[string]string, options, keyOptions string) dialect {
	replace := func(text string) string {
		for name, kind := range types {
			text = strings.ReplaceAll(text, "{"+name+"}", kind)
		}
		return text
	}
	d.sales = []string{replace(`CREATE TABLE %[1]s (SalesOrderID {int} NOT NULL, SalesOrderDetailID {int} NOT NULL, CarrierTrackingNumber {text25} NULL,
 OrderQty {small} NOT NULL, ProductID {int} NOT NULL, SpecialOfferID {int} NOT NULL, UnitPrice {money} NOT NULL,
 UnitPriceDiscount {money} NOT NULL, LineTotal {total} NOT NULL, rowguid {guid} NOT NULL, ModifiedDate {time} NOT NULL,
 CONSTRAINT PK_%[1]s PRIMARY KEY (SalesOrderID, SalesOrderDetailID))`) + options,
		`CREATE UNIQUE INDEX AK_%[1]s_rowguid ON %[1]s (rowguid)`,
		`CREATE INDEX IX_%[1]s_ProductID ON %[1]s (ProductID)`}
	for _, table := range []string{
		`CREATE TABLE headers (SalesOrderID {int} NOT NULL, CustomerID {int} NOT NULL, TerritoryID {int} NOT NULL, OrderDate {time} NOT NULL,
 SubTotal {money} NOT NULL, CONSTRAINT PK_headers PRIMARY KEY (SalesOrderID))`,
		`CREATE TABLE customers (CustomerID {int} NOT NULL, TerritoryID {int} NOT NULL, CONSTRAINT PK_customers PRIMARY KEY (CustomerID))`,
		`CREATE TABLE products (ProductID {int} NOT NULL, SubcategoryID {int} NULL, Name {text50} NOT NULL, ListPrice {money} NOT NULL,
 CONSTRAINT PK_products PRIMARY KEY (ProductID))`,
		`CREATE TABLE commits (id {big} NOT NULL, n {int} NOT NULL, filler {text100} NOT NULL, CONSTRAINT PK_commits PRIMARY KEY (id))`,
	} {
		d.createCommon = append(d.createCommon, replace(table)+keyOptions)
	}
	d.createCommon = append(d.createCommon, `CREATE INDEX IX_headers_CustomerID ON headers (CustomerID)`)
	d.commit = "INSERT INTO commits VALUES (" + d.parameters(3) + ")"
	d.commitSums = "SELECT COUNT(*), COALESCE(SUM(n), 0) FROM commits"
	d.point = fmt.Sprintf("SELECT OrderQty, ProductID FROM sales WHERE SalesOrderID = %s AND SalesOrderDetailID = %s", d.mark(1), d.mark(2))
	d.salesSums = "SELECT COUNT(*), SUM(OrderQty), SUM(UnitPrice), SUM(LineTotal), COUNT(CarrierTrackingNumber) FROM %[1]s"
	d.scanSum = "SELECT COUNT(*), SUM(OrderQty), SUM(LineTotal), MIN(UnitPrice), MAX(UnitPrice) FROM sales"
	d.scanGroup = "SELECT ProductID, COUNT(*), SUM(OrderQty), SUM(LineTotal) FROM sales GROUP BY ProductID ORDER BY ProductID"
	d.joinTerritory = `SELECT c.TerritoryID, COUNT(*), SUM(s.OrderQty), SUM(s.LineTotal) FROM sales s INNER JOIN headers h ON h.SalesOrderID = s.SalesOrderID
 INNER JOIN customers c ON c.CustomerID = h.CustomerID GROUP BY c.TerritoryID ORDER BY c.TerritoryID`
	d.joinCategory = `SELECT p.SubcategoryID, COUNT(*), SUM(s.OrderQty), SUM(s.LineTotal) FROM sales s INNER JOIN products p ON p.ProductID = s.ProductID
 INNER JOIN headers h ON h.SalesOrderID = s.SalesOrderID WHERE p.ListPrice > 1000 GROUP BY p.SubcategoryID ORDER BY p.SubcategoryID`
	d.emptyCommits = "DELETE FROM commits"
	return d
}

func updates(plus, minus string) (string, string) {
	const text = "UPDATE sales SET CarrierTrackingNumber = %s, OrderQty = OrderQty %s 1, UnitPrice = UnitPrice %[2]s 1, UnitPriceDiscount = UnitPriceDiscount %[2]s 1"
	return fmt.Sprintf(text, plus, "+"), fmt.Sprintf(text, minus, "-")
}

var (
	tsql, postgres, mariadb, sqlite dialect
)

func init() {
	plus, minus := updates("'x' + CarrierTrackingNumber", "SUBSTRING(CarrierTrackingNumber, 2, 100)")
	tsql = build(dialect{mark: at, updatePlus: plus, updateMinus: minus}, map[string]string{"int": "int", "small": "smallint", "big": "bigint",
		"money": "money", "total": "decimal(38, 6)", "guid": "uniqueidentifier", "time": "datetime", "text25": "nvarchar(25)",
		"text50": "nvarchar(50)", "text100": "varchar(100)"}, "", "")

	plus, minus = updates("'x' || CarrierTrackingNumber", "SUBSTRING(CarrierTrackingNumber, 2, 100)")
	postgres = build(dialect{mark: dollar, updatePlus: plus, updateMinus: minus},
		map[string]string{"int": "int", "small": "smallint", "big": "bigint", "money": "numeric(19, 4)", "total": "numeric(38, 6)", "guid": "uuid",
			"time": "timestamp(3)", "text25": "varchar(25)", "text50": "varchar(50)", "text100": "varchar(100)"}, "", "")

	plus, minus = updates("CONCAT('x', CarrierTrackingNumber)", "SUBSTRING(CarrierTrackingNumber, 2, 100)")
	mariadb = build(dialect{mark: question, updatePlus: plus, updateMinus: minus}, map[string]string{"int": "int", "small": "smallint", "big": "bigint",
		"money": "decimal(19, 4)", "total": "decimal(38, 6)", "guid": "uuid", "time": "datetime(3)", "text25": "varchar(25)",
		"text50": "varchar(50)", "text100": "varchar(100)"}, " ENGINE=InnoDB", " ENGINE=InnoDB")

	plus, minus = updates("'x' || CarrierTrackingNumber", "SUBSTR(CarrierTrackingNumber, 2, 100)")
	sqlite = build(dialect{mark: question, updatePlus: plus, updateMinus: minus}, map[string]string{"int": "INTEGER", "small": "INTEGER", "big": "INTEGER",
		"money": "REAL", "total": "REAL", "guid": "BLOB", "time": "TEXT", "text25": "TEXT", "text50": "TEXT", "text100": "TEXT"},
		" WITHOUT ROWID", " WITHOUT ROWID")
}
