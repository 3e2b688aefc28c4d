// Interop scenarios over go-mssqldb, the driver behind the Go sqlcmd, Grafana and Terraform.
//
// Every scenario prints PASS, FAIL or SKIP with its name; the exit code says whether all passed.
// The server's address and password come from the environment (see ../README.md).
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/golang-sql/civil"
	"github.com/golang-sql/sqlexp"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/shopspring/decimal"
)

const database = "interop_go"

func env(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// dsn builds a connection string; later options replace earlier ones.
func dsn(user, password, db string, options ...string) string {
	query := url.Values{}
	query.Set("database", db)
	query.Set("encrypt", "true")
	query.Set("TrustServerCertificate", "true")
	query.Set("dial timeout", "10")
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		query.Set(key, value)
	}
	address := url.URL{
		Scheme:   "sqlserver",
		User:     url.UserPassword(user, password),
		Host:     env("DARUMA_HOST", "127.0.0.1") + ":" + env("DARUMA_PORT", "1433"),
		RawQuery: query.Encode(),
	}
	return address.String()
}

func saDSN(db string, options ...string) string {
	return dsn(env("DARUMA_USER", "sa"), os.Getenv("DARUMA_PASSWORD"), db, options...)
}

func open(source string) (*sql.DB, error) {
	db, err := sql.Open("sqlserver", source)
	if err != nil {
		return nil, err
	}
	if err := db.Ping(); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

type skipped struct{ reason string }

func (s skipped) Error() string { return s.reason }

type tally struct{ passed, failed, skipped int }

func (t *tally) run(name string, scenario func() error) {
	err := func() (err error) {
		defer func() {
			if caught := recover(); caught != nil {
				err = fmt.Errorf("panic: %v", caught)
			}
		}()
		return scenario()
	}()
	var skip skipped
	switch {
	case err == nil:
		t.passed++
		fmt.Println("PASS", name)
	case errors.As(err, &skip):
		t.skipped++
		fmt.Printf("SKIP %s: %v\n", name, skip.reason)
	default:
		t.failed++
		fmt.Printf("FAIL %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " | "))
	}
}

func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

func scalar[T any](q interface {
	QueryRow(string, ...any) *sql.Row
}, text string, args ...any) (T, error) {
	var value T
	err := q.QueryRow(text, args...).Scan(&value)
	return value, err
}

// expectError checks number, class and state of a server error, and its line where lineNo is not zero.
func expectError(err error, number int32, class, state uint8, lineNo int32) error {
	var server mssql.Error
	if !errors.As(err, &server) {
		return fmt.Errorf("want error %d, got %v", number, err)
	}
	if server.Number != number || server.Class != class || (state != 0 && server.State != state) {
		return fmt.Errorf("want %d class %d state %d, got %d class %d state %d (%s)",
			number, class, state, server.Number, server.Class, server.State, server.Message)
	}
	if lineNo != 0 && server.LineNo != lineNo {
		return fmt.Errorf("error %d: want line %d, got %d", number, lineNo, server.LineNo)
	}
	return nil
}

func connect(options ...string) func() error {
	return func() error {
		db, err := open(saDSN("master", options...))
		if err != nil {
			return err
		}
		defer db.Close()
		value, err := scalar[int](db, "SELECT 6 * 7")
		if err != nil {
			return err
		}
		return expect("product", value, 42)
	}
}

func strict() error {
	certificate := os.Getenv("DARUMA_CERT")
	if certificate == "" {
		return skipped{"no certificate file is known"}
	}
	return connect("encrypt=strict", "TrustServerCertificate=false", "certificate="+certificate, "hostNameInCertificate=localhost")()
}

func setup() error {
	master, err := open(saDSN("master"))
	if err != nil {
		return err
	}
	defer master.Close()
	_, err = master.Exec(fmt.Sprintf("IF DB_ID(N'%[1]s') IS NOT NULL DROP DATABASE %[1]s; CREATE DATABASE %[1]s", database))
	return err
}

func batch(db *sql.DB) error {
	var name, version string
	if err := db.QueryRow("SELECT DB_NAME(), @@VERSION").Scan(&name, &version); err != nil {
		return err
	}
	if err := expect("database", name, database); err != nil {
		return err
	}
	if version == "" {
		return errors.New("@@VERSION is empty")
	}
	total, err := scalar[int64](db, `DECLARE @i int = 0, @sum bigint = 0
WHILE @i < 100 BEGIN SET @i = @i + 1; SET @sum = @sum + @i END
SELECT @sum`)
	if err != nil {
		return err
	}
	return expect("sum", total, int64(5050))
}

func types(db *sql.DB) error {
	// A pooled connection keeps its temporary tables only until it is reset, so the whole scenario runs on one.
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.ExecContext(ctx, `CREATE TABLE dbo.every_type (
 id int NOT NULL PRIMARY KEY, c_bit bit, c_tiny tinyint, c_small smallint, c_big bigint, c_dec decimal(38,10), c_num numeric(9,2),
 c_money money, c_smallmoney smallmoney, c_real real, c_float float, c_date date, c_time time(7), c_datetime datetime,
 c_smalldatetime smalldatetime, c_datetime2 datetime2(7), c_offset datetimeoffset(7), c_char char(5), c_varchar varchar(50),
 c_nchar nchar(5), c_nvarchar nvarchar(50), c_nmax nvarchar(max), c_binary binary(4), c_varbinary varbinary(50), c_vmax varbinary(max),
 c_guid uniqueidentifier)`)
	if err != nil {
		return err
	}
	var guid mssql.UniqueIdentifier
	if err := guid.Scan("6F9619FF-8B86-D011-B42D-00C04FC964FF"); err != nil {
		return err
	}
	moment := time.Date(2024, 2, 29, 23, 59, 58, 123456700, time.UTC)
	zoned := time.Date(2024, 2, 29, 23, 59, 58, 123456700, time.FixedZone("", 5*3600+1800))
	rounded := time.Date(2024, 2, 29, 23, 59, 58, 123000000, time.UTC)
	text := "Grüße, 日本語 and 😀"
	big := decimal.RequireFromString("1234567890123456789012345678.0123456789")
	_, err = conn.ExecContext(ctx, `INSERT dbo.every_type VALUES (@p1,@p2,@p3,@p4,@p5,@p6,@p7,@p8,@p9,@p10,@p11,@p12,@p13,@p14,@p15,@p16,@p17,
 @p18,@p19,@p20,@p21,@p22,@p23,@p24,@p25,@p26)`,
		1, true, int64(255), int64(-32768), int64(-9223372036854775808), big.String(), "-1234567.89",
		"922337203685477.5807", "-214748.3648", float32(1.5), float64(1)/3, civil.DateOf(moment), civil.TimeOf(moment),
		mssql.DateTime1(rounded), time.Date(2024, 2, 29, 23, 58, 0, 0, time.UTC), moment, mssql.DateTimeOffset(zoned),
		mssql.VarChar("abc"), mssql.VarChar("varchar"), "xyz", text, strings.Repeat(text, 300),
		[]byte{1, 2, 3, 4}, []byte{0, 255}, bytes.Repeat([]byte{7}, 9000), guid)
	if err != nil {
		return err
	}
	var (
		bit                                  bool
		tiny, small, bigint                  int64
		dec, num, money, smallmoney          string
		real32, float                        float64
		date, clock, dt, sdt, dt2, dto       time.Time
		char, varchar, nchar, nvarchar, nmax string
		binary, varbinary, vmax              []byte
		gotGUID                              mssql.UniqueIdentifier
	)
	err = conn.QueryRowContext(ctx, `SELECT c_bit,c_tiny,c_small,c_big,c_dec,c_num,c_money,c_smallmoney,c_real,c_float,c_date,c_time,c_datetime,
 c_smalldatetime,c_datetime2,c_offset,c_char,c_varchar,c_nchar,c_nvarchar,c_nmax,c_binary,c_varbinary,c_vmax,c_guid
 FROM dbo.every_type WHERE id = @p1`, 1).Scan(&bit, &tiny, &small, &bigint, &dec, &num, &money, &smallmoney, &real32, &float,
		&date, &clock, &dt, &sdt, &dt2, &dto, &char, &varchar, &nchar, &nvarchar, &nmax, &binary, &varbinary, &vmax, &gotGUID)
	if err != nil {
		return err
	}
	return errors.Join(
		expect("bit", bit, true), expect("tinyint", tiny, 255), expect("smallint", small, -32768),
		expect("bigint", bigint, -9223372036854775808), expect("decimal", dec, big.String()), expect("numeric", num, "-1234567.89"),
		expect("money", money, "922337203685477.5807"), expect("smallmoney", smallmoney, "-214748.3648"),
		expect("real", real32, 1.5), expect("float", float, float64(1)/3),
		expect("date", date.Format("2006-01-02"), "2024-02-29"), expect("time", clock.Format("15:04:05.0000000"), "23:59:58.1234567"),
		expect("datetime", dt.Format("2006-01-02 15:04:05.000"), "2024-02-29 23:59:58.123"),
		expect("smalldatetime", sdt.Format("2006-01-02 15:04"), "2024-02-29 23:58"),
		expect("datetime2", dt2.Format("2006-01-02 15:04:05.0000000"), "2024-02-29 23:59:58.1234567"),
		expect("datetimeoffset", dto.Format("2006-01-02 15:04:05.0000000 -07:00"), "2024-02-29 23:59:58.1234567 +05:30"),
		expect("char", char, "abc  "), expect("varchar", varchar, "varchar"), expect("nchar", nchar, "xyz  "),
		expect("nvarchar", nvarchar, text), expect("nvarchar(max)", nmax, strings.Repeat(text, 300)),
		expect("binary", string(binary), "\x01\x02\x03\x04"), expect("varbinary", string(varbinary), "\x00\xff"),
		expect("varbinary(max)", string(vmax), strings.Repeat("\x07", 9000)), expect("uniqueidentifier", gotGUID, guid))
}

func nulls(db *sql.DB) error {
	_, err := db.Exec("INSERT dbo.every_type (id, c_nvarchar, c_big, c_date, c_vmax) VALUES (2, @p1, @p2, @p3, @p4)",
		sql.NullString{}, sql.NullInt64{}, sql.NullTime{}, []byte(nil))
	if err != nil {
		return err
	}
	rows, err := db.Query("SELECT * FROM dbo.every_type WHERE id = 2")
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]any, len(columns))
	targets := make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	if !rows.Next() {
		return fmt.Errorf("no row: %v", rows.Err())
	}
	if err := rows.Scan(targets...); err != nil {
		return err
	}
	for i, value := range values[1:] {
		if value != nil {
			return fmt.Errorf("column %s is %v, not NULL", columns[i+1], value)
		}
	}
	isNull, err := scalar[int](db, "SELECT CASE WHEN @p1 IS NULL THEN 1 ELSE 0 END", nil)
	if err != nil {
		return err
	}
	return expect("NULL parameter", isNull, 1)
}

func large(db *sql.DB, size int) func() error {
	return func() error {
		text := strings.Repeat("0123456789abcdeé", size/16)
		data := bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 255}, size/8)
		if _, err := db.Exec("INSERT dbo.large_values VALUES (@p1, @p2, @p3)", size, text, data); err != nil {
			return err
		}
		var gotText string
		var gotData []byte
		var textBytes, dataBytes int64
		err := db.QueryRow("SELECT t, b, DATALENGTH(t), DATALENGTH(b) FROM dbo.large_values WHERE size = @p1", size).
			Scan(&gotText, &gotData, &textBytes, &dataBytes)
		if err != nil {
			return err
		}
		return errors.Join(expect("text length", textBytes, int64(size*2)), expect("data length", dataBytes, int64(size)),
			expect("text equal", gotText == text, true), expect("data equal", bytes.Equal(gotData, data), true))
	}
}

func transactionCommit(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Exec("INSERT dbo.accounts VALUES (1, 100), (2, 200)"); err != nil {
		return err
	}
	open, err := scalar[int](tx, "SELECT @@TRANCOUNT")
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	sum, err := scalar[int](db, "SELECT SUM(balance) FROM dbo.accounts")
	return errors.Join(err, expect("@@TRANCOUNT", open, 1), expect("sum", sum, 300))
}

func transactionRollback(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Exec("UPDATE dbo.accounts SET balance = balance + 5; DELETE dbo.accounts WHERE id = 2; INSERT dbo.accounts VALUES (3, 1)"); err != nil {
		return err
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	sum, err := scalar[int](db, "SELECT SUM(balance) FROM dbo.accounts")
	return errors.Join(err, expect("sum", sum, 300))
}

func savepoint(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	for _, text := range []string{
		"INSERT dbo.accounts VALUES (10, 1)", "SAVE TRANSACTION half", "INSERT dbo.accounts VALUES (11, 1)",
		"UPDATE dbo.accounts SET balance = 7 WHERE id = 10", "ROLLBACK TRANSACTION half", "INSERT dbo.accounts VALUES (12, 1)"} {
		if _, err := tx.Exec(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	count, err := scalar[int](db, "SELECT COUNT(*) FROM dbo.accounts WHERE id IN (10, 12) AND balance = 1")
	if err != nil {
		return err
	}
	lost, err := scalar[int](db, "SELECT COUNT(*) FROM dbo.accounts WHERE id = 11")
	return errors.Join(err, expect("kept rows", count, 2), expect("rows undone", lost, 0))
}

func isolation(db *sql.DB) error {
	for level, number := range map[sql.IsolationLevel]int{
		sql.LevelReadUncommitted: 1, sql.LevelReadCommitted: 2, sql.LevelRepeatableRead: 3, sql.LevelSerializable: 4} {
		tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
		if err != nil {
			return err
		}
		got, err := scalar[int](tx, "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID")
		if err != nil {
			return err
		}
		if err := errors.Join(tx.Rollback(), expect("level", got, number)); err != nil {
			return err
		}
	}
	return nil
}

func errorDuplicate(db *sql.DB) error {
	_, err := db.Exec("INSERT dbo.accounts VALUES (1, 1)")
	if err := expectError(err, 2627, 14, 1, 1); err != nil {
		return err
	}
	if !strings.Contains(err.Error(), "PRIMARY KEY") {
		return fmt.Errorf("message does not name the constraint: %v", err)
	}
	return nil
}

func errorThrow(db *sql.DB) error {
	_, err := db.Exec("SELECT 1;\n\nTHROW 51234, N'thrown', 7;")
	if err := expectError(err, 51234, 16, 7, 3); err != nil {
		return err
	}
	_, err = db.Exec("BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH THROW END CATCH")
	return expectError(err, 8134, 16, 1, 1)
}

func errorOf(db *sql.DB, text string, number int32, class, state uint8, line int32) func() error {
	return func() error {
		_, err := db.Exec(text)
		return expectError(err, number, class, state, line)
	}
}

// messages collects what PRINT and RAISERROR below class 11 send, through the driver's message queue.
func messages(db *sql.DB) error {
	var queue sqlexp.ReturnMessage
	ctx := context.Background()
	rows, err := db.QueryContext(ctx, "PRINT N'first'; RAISERROR(N'second %d', 10, 1, 2)", &queue)
	if err != nil {
		return err
	}
	defer rows.Close()
	var seen []string
	for active := true; active; {
		switch message := queue.Message(ctx).(type) {
		case sqlexp.MsgNotice:
			seen = append(seen, message.Message.String())
		case sqlexp.MsgError:
			return message.Error
		case sqlexp.MsgNext:
			for rows.Next() {
			}
		case sqlexp.MsgNextResultSet:
			active = rows.NextResultSet()
		}
	}
	return expect("messages", strings.Join(seen, ","), "first,second 2")
}

func resultSets(db *sql.DB) error {
	rows, err := db.Query("SELECT 1 AS a; SELECT N'x' AS b, 2 AS c WHERE 1 = 0; SELECT 3 AS d UNION ALL SELECT 4")
	if err != nil {
		return err
	}
	defer rows.Close()
	var shape []string
	for more := true; more; more = rows.NextResultSet() {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		count := 0
		for rows.Next() {
			count++
		}
		shape = append(shape, fmt.Sprintf("%s:%d", strings.Join(columns, "+"), count))
	}
	return errors.Join(rows.Err(), expect("result sets", strings.Join(shape, " "), "a:1 b+c:0 d:2"))
}

func rowCounts(db *sql.DB) error {
	if _, err := db.Exec("CREATE TABLE dbo.counted (id int NOT NULL)"); err != nil {
		return err
	}
	var counts []int64
	for _, text := range []string{"INSERT dbo.counted VALUES (1),(2),(3),(4)", "UPDATE dbo.counted SET id = id + 1 WHERE id > 2",
		"DELETE dbo.counted WHERE id = 99", "DELETE TOP (1) dbo.counted"} {
		result, err := db.Exec(text)
		if err != nil {
			return err
		}
		count, err := result.RowsAffected()
		if err != nil {
			return err
		}
		counts = append(counts, count)
	}
	return errors.Join(expect("row counts", fmt.Sprint(counts), "[4 2 0 1]"))
}

func procedure(db *sql.DB) error {
	_, err := db.Exec(`CREATE PROCEDURE dbo.add_up @a int, @b int = 10, @sum int OUTPUT, @text nvarchar(50) OUTPUT AS
BEGIN SET NOCOUNT ON; SET @sum = @a + @b; SET @text = @text + N'!'; SELECT @a AS a; RETURN @a * 2 END`)
	if err != nil {
		return err
	}
	var status mssql.ReturnStatus
	sum := 0
	text := "hello"
	rows, err := db.Query("dbo.add_up", sql.Named("a", 5), sql.Named("sum", sql.Out{Dest: &sum}),
		sql.Named("text", sql.Out{Dest: &text, In: true}), &status)
	if err != nil {
		return err
	}
	count := 0
	for rows.Next() {
		count++
	}
	// Output parameters are there only after the rows have been read to the end.
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	return errors.Join(expect("rows", count, 1), expect("sum", sum, 15), expect("text", text, "hello!"),
		expect("return value", int(status), 10))
}

type item struct {
	ID   int32
	Name *string
}

// tableValues sends rows to a procedure, to a statement and to a function, and hears what the type refuses.
func tableValues(db *sql.DB) error {
	for _, text := range []string{
		"CREATE TYPE dbo.items AS TABLE (id int NOT NULL PRIMARY KEY CHECK (id > 0), name nvarchar(20) NULL)",
		"CREATE PROCEDURE dbo.count_items @items dbo.items READONLY AS SELECT COUNT(*), COUNT(name), SUM(id) FROM @items",
		"CREATE FUNCTION dbo.last_item (@items dbo.items READONLY) RETURNS int AS BEGIN RETURN (SELECT MAX(id) FROM @items) END",
	} {
		if _, err := db.Exec(text); err != nil {
			return err
		}
	}
	name := "some"
	var rows []item
	for id := range int32(3000) {
		one := item{ID: id + 1}
		if id%3 == 0 {
			one.Name = &name
		}
		rows = append(rows, one)
	}
	table := mssql.TVP{TypeName: "dbo.items", Value: rows}
	var count, named, sum int
	if err := db.QueryRow("dbo.count_items", sql.Named("items", table)).Scan(&count, &named, &sum); err != nil {
		return fmt.Errorf("procedure: %w", err)
	}
	found := fmt.Sprint(count, named, sum)
	text := "SELECT COUNT(*), COUNT(name), dbo.last_item(@p1) FROM @p1"
	if err := db.QueryRow(text, table).Scan(&count, &named, &sum); err != nil {
		return fmt.Errorf("statement: %w", err)
	}
	_, err := db.Exec("dbo.count_items", sql.Named("items", mssql.TVP{TypeName: "dbo.items", Value: []item{{ID: 1}, {ID: 1}}}))
	twice := expectError(err, 2627, 14, 1, 0)
	_, err = db.Exec("dbo.count_items", sql.Named("items", mssql.TVP{TypeName: "dbo.items", Value: []item{{ID: -1}}}))
	var server mssql.Error
	if !errors.As(err, &server) || server.Number != 547 {
		return fmt.Errorf("want 547, got %v", err)
	}
	return errors.Join(twice, expect("procedure", found, "3000 1000 4501500"), expect("statement", fmt.Sprint(count, named, sum), "3000 1000 3000"))
}

func prepared(db *sql.DB) error {
	statement, err := db.Prepare("INSERT dbo.prepared VALUES (@p1, @p2)")
	if err != nil {
		return err
	}
	defer statement.Close()
	for i := range 500 {
		if _, err := statement.Exec(i, fmt.Sprintf("row %d", i)); err != nil {
			return fmt.Errorf("execution %d: %w", i, err)
		}
	}
	lookup, err := db.Prepare("SELECT name FROM dbo.prepared WHERE id = @p1")
	if err != nil {
		return err
	}
	defer lookup.Close()
	for i := range 500 {
		var name string
		if err := lookup.QueryRow(i).Scan(&name); err != nil {
			return fmt.Errorf("lookup %d: %w", i, err)
		}
		if want := fmt.Sprintf("row %d", i); name != want {
			return fmt.Errorf("lookup %d: %s", i, name)
		}
	}
	return nil
}

func cancel(db *sql.DB) error {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN TRANSACTION; INSERT dbo.accounts VALUES (500, 1)"); err != nil {
		return err
	}
	// Not a deadline: the driver takes its error for one of the network and drops the connection.
	limited, stop := context.WithCancel(ctx)
	defer stop()
	time.AfterFunc(300*time.Millisecond, stop)
	_, err = conn.ExecContext(limited, "WAITFOR DELAY '00:00:30'")
	if err == nil {
		return errors.New("WAITFOR was not cancelled")
	}
	var open, kept int
	if err := conn.QueryRowContext(ctx, "SELECT @@TRANCOUNT, (SELECT COUNT(*) FROM dbo.accounts WHERE id = 500)").Scan(&open, &kept); err != nil {
		return fmt.Errorf("connection after cancel: %w", err)
	}
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return errors.Join(err, expect("transaction open after cancel", open, 1), expect("row kept", kept, 1))
}

// pooling checks that a connection taken from the pool again has lost its session's state.
func pooling() error {
	db, err := open(saDSN(database))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	before, err := scalar[int](db, "SET LOCK_TIMEOUT 1234; CREATE TABLE #kept (id int); SELECT CAST(@@SPID AS int)")
	if err != nil {
		return err
	}
	var after, timeout int
	var object sql.NullInt64
	var name string
	err = db.QueryRow("SELECT CAST(@@SPID AS int), @@LOCK_TIMEOUT, OBJECT_ID(N'tempdb..#kept'), DB_NAME()").Scan(&after, &timeout, &object, &name)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	failures := make(chan error, 8)
	shared, err := open(saDSN(database))
	if err != nil {
		return err
	}
	defer shared.Close()
	for worker := range 8 {
		group.Go(func() {
			for i := range 25 {
				value, err := scalar[int](shared, "SELECT @p1 + @p2", worker, i)
				if err == nil {
					err = expect("sum", value, worker+i)
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return errors.Join(<-failures, expect("session id", after, before), expect("lock timeout", timeout, -1),
		expect("temporary table gone", object.Valid, false), expect("database", name, database))
}

func bulk(db *sql.DB) error {
	if _, err := db.Exec("CREATE TABLE dbo.bulk_rows (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL, price decimal(10,2), made datetime2, data varbinary(max))"); err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	statement, err := tx.Prepare(mssql.CopyIn("dbo.bulk_rows", mssql.BulkOptions{}, "id", "name", "price", "made", "data"))
	if err != nil {
		return err
	}
	moment := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 5000 {
		var name any
		if i%10 != 0 {
			name = fmt.Sprintf("name %d", i)
		}
		if _, err := statement.Exec(i, name, float64(i)/100, moment, []byte{byte(i)}); err != nil {
			return err
		}
	}
	if _, err := statement.Exec(); err != nil {
		return err
	}
	if err := errors.Join(statement.Close(), tx.Commit()); err != nil {
		return err
	}
	var count, named int
	var sum string
	if err := db.QueryRow("SELECT COUNT(*), COUNT(name), SUM(price) FROM dbo.bulk_rows").Scan(&count, &named, &sum); err != nil {
		return err
	}
	return errors.Join(expect("rows", count, 5000), expect("names", named, 4500), expect("sum", sum, "124975.00"))
}

func loginFailed() error {
	_, err := open(dsn("sa", "not the password", "master"))
	return expectError(err, 18456, 14, 1, 0)
}

func unknownDatabase() error {
	_, err := open(saDSN("no_such_database"))
	var server mssql.Error
	if !errors.As(err, &server) {
		return fmt.Errorf("want a server error, got %v", err)
	}
	for _, one := range append(server.All, server) {
		if one.Number == 4060 {
			return nil
		}
	}
	return fmt.Errorf("want 4060, got %d (%s)", server.Number, server.Message)
}

func main() {
	var results tally
	results.run("connect_plain", connect("encrypt=disable"))
	results.run("connect_login_only_tls", connect("encrypt=false"))
	results.run("connect_tls", connect("encrypt=true"))
	results.run("connect_strict", strict)
	results.run("setup", setup)
	db, err := open(saDSN(database, "encrypt="+env("DARUMA_ENCRYPT", "true")))
	if err == nil {
		defer db.Close()
		_, err = db.Exec(`CREATE TABLE dbo.accounts (id int NOT NULL CONSTRAINT PK_accounts PRIMARY KEY, balance int NOT NULL);
CREATE TABLE dbo.prepared (id int NOT NULL PRIMARY KEY, name nvarchar(50) NOT NULL);
CREATE TABLE dbo.large_values (size int NOT NULL PRIMARY KEY, t nvarchar(max), b varbinary(max))`)
	}
	results.run("tables", func() error { return err })
	if err == nil {
		on := func(scenario func(*sql.DB) error) func() error { return func() error { return scenario(db) } }
		results.run("batch", on(batch))
		results.run("types", on(types))
		results.run("nulls", on(nulls))
		results.run("large_8k", large(db, 8192))
		results.run("large_1m", large(db, 1<<20))
		results.run("large_20m", large(db, 20<<20))
		results.run("tx_commit", on(transactionCommit))
		results.run("tx_rollback", on(transactionRollback))
		results.run("tx_savepoint", on(savepoint))
		results.run("isolation", on(isolation))
		results.run("error_208", errorOf(db, "SELECT 1\nSELECT * FROM dbo.no_such_table", 208, 16, 1, 2))
		results.run("error_2627", on(errorDuplicate))
		results.run("error_8134", errorOf(db, "\n\nSELECT 1 / 0", 8134, 16, 1, 3))
		results.run("error_throw", on(errorThrow))
		results.run("print", on(messages))
		results.run("multi_results", on(resultSets))
		results.run("row_counts", on(rowCounts))
		results.run("procedure", on(procedure))
		results.run("table_values", on(tableValues))
		results.run("prepared", on(prepared))
		results.run("cancel", on(cancel))
		results.run("pooling", pooling)
		results.run("bulk", on(bulk))
	}
	results.run("login_failed", loginFailed)
	results.run("unknown_database", unknownDatabase)
	fmt.Printf("%d passed, %d failed, %d skipped\n", results.passed, results.failed, results.skipped)
	if results.failed > 0 {
		os.Exit(1)
	}
}
