import java.math.BigDecimal;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Properties;

/**
 * Interop scenarios over JDBC: {@code Interop mssql-jdbc} for Microsoft's driver, {@code Interop jtds} for jTDS (TDS 7.1).
 *
 * <p>Every scenario prints PASS, FAIL or SKIP with its name; the exit code says whether all passed. The server's address and
 * password come from the environment (see ../README.md).
 */
public final class Interop {
    private static final String TEXT = "Grüße, 日本語 and 😀";

    private final boolean microsoft;
    private final String database;
    private String encryption;
    private Connection connection;
    private int passed;
    private int failed;
    private int skipped;

    private interface Scenario {
        void run() throws Exception;
    }

    private static final class Skip extends Exception {
        Skip(String reason) {
            super(reason);
        }
    }

    private Interop(String driver) {
        microsoft = driver.equals("mssql-jdbc");
        database = microsoft ? "interop_jdbc" : "interop_jtds";
        encryption = microsoft ? "true" : "off";
    }

    private static String environment(String name, String fallback) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? fallback : value;
    }

    private Connection open(String to, String encrypt, String password) throws SQLException, Skip {
        String host = environment("DARUMA_HOST", "127.0.0.1");
        String port = environment("DARUMA_PORT", "1433");
        Properties properties = new Properties();
        properties.setProperty("user", environment("DARUMA_USER", "sa"));
        properties.setProperty("password", password);
        if (!microsoft) {
            properties.setProperty("ssl", encrypt);
            properties.setProperty("loginTimeout", "20");
            return DriverManager.getConnection("jdbc:jtds:sqlserver://" + host + ":" + port + "/" + to, properties);
        }
        properties.setProperty("databaseName", to);
        properties.setProperty("encrypt", encrypt);
        properties.setProperty("loginTimeout", "20");
        if (encrypt.equals("strict")) {
            String certificate = environment("DARUMA_CERT", "");
            if (certificate.isEmpty()) {
                throw new Skip("no certificate file is known");
            }
            properties.setProperty("serverCertificate", certificate);
        } else {
            properties.setProperty("trustServerCertificate", "true");
        }
        return DriverManager.getConnection("jdbc:sqlserver://" + host + ":" + port, properties);
    }

    private Connection open(String to) throws SQLException, Skip {
        return open(to, encryption, environment("DARUMA_PASSWORD", ""));
    }

    private void run(String name, Scenario scenario) {
        try {
            scenario.run();
            passed++;
            System.out.println("PASS " + name);
        } catch (Skip reason) {
            skipped++;
            System.out.println("SKIP " + name + ": " + reason.getMessage());
        } catch (Throwable caught) {
            failed++;
            String number = caught instanceof SQLException error ? " (number " + error.getErrorCode() + ")" : "";
            System.out.println("FAIL " + name + ": " + String.valueOf(caught).replace('\n', ' ') + number);
        }
    }

    private static void expect(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    private void execute(String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(text);
        }
    }

    private String scalar(String text) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(text)) {
            if (!rows.next()) {
                throw new AssertionError("no row: " + text);
            }
            return rows.getString(1);
        }
    }

    private void connects(String encrypt) throws Exception {
        try (Connection made = open("master", encrypt, environment("DARUMA_PASSWORD", ""));
                Statement statement = made.createStatement(); ResultSet rows = statement.executeQuery("SELECT 6 * 7")) {
            rows.next();
            expect("product", rows.getInt(1), 42);
        }
    }

    private void setup() throws Exception {
        try (Connection master = open("master"); Statement statement = master.createStatement()) {
            statement.execute("IF DB_ID(N'" + database + "') IS NOT NULL DROP DATABASE " + database);
            statement.execute("CREATE DATABASE " + database);
        }
        connection = open(database);
        execute("CREATE TABLE dbo.accounts (id int NOT NULL CONSTRAINT PK_accounts PRIMARY KEY, balance int NOT NULL)");
        execute("CREATE TABLE dbo.prepared (id int NOT NULL PRIMARY KEY, name nvarchar(50) NOT NULL)");
        execute("CREATE TABLE dbo.large_values (size int NOT NULL PRIMARY KEY, t nvarchar(max), b varbinary(max))");
    }

    private void types() throws Exception {
        execute("CREATE TABLE dbo.every_type (id int NOT NULL PRIMARY KEY, c_bit bit, c_tiny tinyint, c_small smallint, c_big bigint,"
                + " c_dec decimal(38,10), c_money money, c_real real, c_float float, c_datetime datetime, c_char char(5), c_varchar varchar(50),"
                + " c_nvarchar nvarchar(50), c_nmax nvarchar(max), c_varbinary varbinary(50), c_vmax varbinary(max), c_guid uniqueidentifier,"
                + " c_date date, c_datetime2 datetime2(7), c_time time(7))");
        byte[] data = new byte[9000];
        Arrays.fill(data, (byte) 7);
        java.sql.Timestamp moment = java.sql.Timestamp.valueOf("2024-02-29 23:59:58.123");
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT dbo.every_type VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
            insert.setInt(1, 1);
            insert.setBoolean(2, true);
            insert.setShort(3, (short) 255);
            insert.setShort(4, Short.MIN_VALUE);
            insert.setLong(5, Long.MIN_VALUE);
            insert.setBigDecimal(6, new BigDecimal("1234567890123456789012345678.0123456789"));
            insert.setBigDecimal(7, new BigDecimal("-922337203685.4775"));
            insert.setFloat(8, 1.5f);
            insert.setDouble(9, 1.0 / 3);
            insert.setTimestamp(10, moment);
            insert.setString(11, "abc");
            insert.setString(12, "varchar");
            insert.setString(13, TEXT);
            insert.setString(14, TEXT.repeat(300));
            insert.setBytes(15, new byte[] {0, 1, -1});
            insert.setBytes(16, data);
            insert.setString(17, "6F9619FF-8B86-D011-B42D-00C04FC964FF");
            insert.setDate(18, java.sql.Date.valueOf("2024-02-29"));
            insert.setTimestamp(19, moment);
            insert.setString(20, "23:59:58.1234567");
            expect("row count", insert.executeUpdate(), 1);
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT * FROM dbo.every_type WHERE id = ?")) {
            select.setInt(1, 1);
            try (ResultSet row = select.executeQuery()) {
                expect("row", row.next(), true);
                expect("bit", row.getBoolean(2), true);
                expect("tinyint", row.getShort(3), (short) 255);
                expect("smallint", row.getShort(4), Short.MIN_VALUE);
                expect("bigint", row.getLong(5), Long.MIN_VALUE);
                expect("decimal", row.getBigDecimal(6), new BigDecimal("1234567890123456789012345678.0123456789"));
                expect("money", row.getBigDecimal(7), new BigDecimal("-922337203685.4775"));
                expect("real", row.getFloat(8), 1.5f);
                expect("float", row.getDouble(9), 1.0 / 3);
                expect("datetime", row.getTimestamp(10), moment);
                expect("char", row.getString(11), "abc  ");
                expect("varchar", row.getString(12), "varchar");
                expect("nvarchar", row.getString(13), TEXT);
                expect("nvarchar(max)", row.getString(14), TEXT.repeat(300));
                expect("varbinary", Arrays.toString(row.getBytes(15)), "[0, 1, -1]");
                expect("varbinary(max)", Arrays.equals(row.getBytes(16), data), true);
                expect("uniqueidentifier", row.getString(17), "6F9619FF-8B86-D011-B42D-00C04FC964FF");
                expect("date", row.getString(18), "2024-02-29");
                expect("datetime2", row.getString(19).substring(0, 23), "2024-02-29 23:59:58.123");
                expect("time", row.getString(20), "23:59:58.1234567");
            }
        }
    }

    /** jTDS is older than the national character types of JDBC. */
    private int textType() {
        return microsoft ? Types.NVARCHAR : Types.VARCHAR;
    }

    private void nulls() throws Exception {
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT dbo.every_type (id, c_bit, c_big, c_nvarchar, c_vmax, c_datetime, c_dec) VALUES (2, ?, ?, ?, ?, ?, ?)")) {
            insert.setNull(1, Types.BIT);
            insert.setNull(2, Types.BIGINT);
            insert.setNull(3, textType());
            insert.setNull(4, Types.VARBINARY);
            insert.setNull(5, Types.TIMESTAMP);
            insert.setNull(6, Types.DECIMAL);
            insert.executeUpdate();
        }
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT * FROM dbo.every_type WHERE id = 2")) {
            row.next();
            for (int column = 2; column <= row.getMetaData().getColumnCount(); column++) {
                expect(row.getMetaData().getColumnName(column), row.getObject(column), null);
            }
        }
    }

    private void large(int size) throws Exception {
        String text = "0123456789abcdeé".repeat(size / 16);
        byte[] data = new byte[size];
        for (int index = 0; index < size; index++) {
            data[index] = (byte) (index * 31);
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT dbo.large_values VALUES (?, ?, ?)")) {
            insert.setInt(1, size);
            insert.setString(2, text);
            insert.setBytes(3, data);
            insert.executeUpdate();
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT t, b, DATALENGTH(t), DATALENGTH(b) FROM dbo.large_values WHERE size = ?")) {
            select.setInt(1, size);
            try (ResultSet row = select.executeQuery()) {
                row.next();
                expect("text", row.getString(1).equals(text), true);
                expect("data", Arrays.equals(row.getBytes(2), data), true);
                expect("text bytes", row.getLong(3), 2L * size);
                expect("data bytes", row.getLong(4), (long) size);
            }
        }
    }

    private void commit() throws Exception {
        connection.setAutoCommit(false);
        try {
            execute("INSERT dbo.accounts VALUES (1, 100), (2, 200)");
            expect("@@TRANCOUNT", scalar("SELECT @@TRANCOUNT"), "1");
            connection.commit();
            execute("UPDATE dbo.accounts SET balance = 0");
            connection.rollback();
        } finally {
            connection.setAutoCommit(true);
        }
        expect("sum", scalar("SELECT SUM(balance) FROM dbo.accounts"), "300");
    }

    private void rollback() throws Exception {
        connection.setAutoCommit(false);
        try {
            execute("UPDATE dbo.accounts SET balance = balance + 5; DELETE dbo.accounts WHERE id = 2");
            connection.rollback();
        } finally {
            connection.setAutoCommit(true);
        }
        expect("sum", scalar("SELECT SUM(balance) FROM dbo.accounts"), "300");
    }

    private void savepoint() throws Exception {
        connection.setAutoCommit(false);
        try {
            execute("INSERT dbo.accounts VALUES (10, 1)");
            Savepoint half = connection.setSavepoint("half");
            execute("INSERT dbo.accounts VALUES (11, 1)");
            execute("UPDATE dbo.accounts SET balance = 7 WHERE id = 10");
            connection.rollback(half);
            execute("INSERT dbo.accounts VALUES (12, 1)");
            connection.commit();
        } finally {
            connection.setAutoCommit(true);
        }
        expect("rows", scalar("SELECT COUNT(*) FROM dbo.accounts WHERE id IN (10, 12) AND balance = 1"), "2");
        expect("undone", scalar("SELECT COUNT(*) FROM dbo.accounts WHERE id = 11"), "0");
    }

    private void isolation() throws Exception {
        int[] levels = {Connection.TRANSACTION_READ_UNCOMMITTED, Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE,
            Connection.TRANSACTION_READ_COMMITTED};
        String[] numbers = {"1", "3", "4", "2"};
        for (int index = 0; index < levels.length; index++) {
            connection.setTransactionIsolation(levels[index]);
            expect("level", scalar("SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID"), numbers[index]);
        }
    }

    private void expectError(String text, int number, int state, int line, String fragment) throws Exception {
        try {
            execute(text);
        } catch (SQLException caught) {
            expect("number of " + caught.getMessage(), caught.getErrorCode(), number);
            if (!caught.getMessage().contains(fragment)) {
                throw new AssertionError("message lacks " + fragment + ": " + caught.getMessage());
            }
            if (caught instanceof com.microsoft.sqlserver.jdbc.SQLServerException detailed) {
                var error = detailed.getSQLServerError();
                expect("state", error.getErrorState(), state);
                expect("line", (int) error.getLineNumber(), line);
            }
            return;
        }
        throw new AssertionError("error " + number + " was not raised");
    }

    private void errorThrow() throws Exception {
        expectError("\nTHROW 51234, N'thrown here', 7", 51234, 7, 2, "thrown here");
        expectError("BEGIN TRY DECLARE @x int = 1 / 0 END TRY BEGIN CATCH THROW END CATCH", 8134, 1, 1, "Divide by zero");
        expect("connection after errors", scalar("SELECT 1"), "1");
    }

    private void prints() throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("PRINT N'first'; RAISERROR(N'second %d', 10, 1, 2)");
            List<String> seen = new ArrayList<>();
            for (SQLWarning warning = statement.getWarnings(); warning != null; warning = warning.getNextWarning()) {
                seen.add(warning.getMessage());
            }
            expect("messages", seen, List.of("first", "second 2"));
        }
    }

    private void resultSets() throws Exception {
        try (Statement statement = connection.createStatement()) {
            List<String> shape = new ArrayList<>();
            boolean rows = statement.execute("SELECT 1 AS a; SELECT N'x' AS b, 2 AS c WHERE 1 = 0; SELECT 3 AS d UNION ALL SELECT 4");
            while (rows || statement.getUpdateCount() != -1) {
                if (rows) {
                    try (ResultSet set = statement.getResultSet()) {
                        int count = 0;
                        while (set.next()) {
                            count++;
                        }
                        shape.add(set.getMetaData().getColumnLabel(1) + set.getMetaData().getColumnCount() + ":" + count);
                    }
                }
                rows = statement.getMoreResults();
            }
            expect("result sets", shape, List.of("a1:1", "b2:0", "d1:2"));
        }
    }

    /** Result sets of cursors that the server keeps: in pieces, and forth and back. */
    private void cursors() throws Exception {
        execute("CREATE TABLE dbo.walked (n int PRIMARY KEY, t nvarchar(40) NULL)");
        execute("INSERT dbo.walked SELECT value, IIF(value % 3 = 0, NULL, CONCAT(N'row ', value)) FROM GENERATE_SERIES(1, 300)");
        try (PreparedStatement statement = connection.prepareStatement("SELECT n, t FROM dbo.walked WHERE n > ? ORDER BY n",
                ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY)) {
            statement.setFetchSize(7);
            for (int from : new int[] {0, 100}) {
                statement.setInt(1, from);
                try (ResultSet rows = statement.executeQuery()) {
                    expect("columns", rows.getMetaData().getColumnCount(), 2);
                    int count = 0;
                    while (rows.next()) {
                        count++;
                        expect("row", rows.getInt(1), from + count);
                        expect("text", rows.getString(2), (from + count) % 3 == 0 ? null : "row " + (from + count));
                    }
                    expect("rows", count, 300 - from);
                    for (int n = 300; n > from; n--) {
                        expect("previous", rows.previous() ? rows.getInt(1) : -1, n);
                    }
                    expect("before the first", rows.previous(), false);
                    expect("last", rows.last() ? rows.getInt(1) : -1, 300);
                    expect("absolute", rows.absolute(50) ? rows.getInt(1) : -1, from + 50);
                    expect("from the end", rows.absolute(-3) ? rows.getInt(1) : -1, 298);
                    expect("relative", rows.relative(-20) ? rows.getInt(1) : -1, 278);
                    expect("first", rows.first() ? rows.getInt(1) : -1, from + 1);
                    expect("beyond", rows.absolute(1000), false);
                    rows.beforeFirst();
                    expect("from the front", rows.next() ? rows.getInt(1) : -1, from + 1);
                }
            }
        }
        if (microsoft) {
            inPieces();
        }
    }

    private void inPieces() throws Exception {
        // The driver's own type: what selectMethod=cursor makes of a plain result set.
        int forward = 2004;
        try (Statement statement = connection.createStatement(forward, ResultSet.CONCUR_READ_ONLY);
                Statement other = connection.createStatement(forward, ResultSet.CONCUR_READ_ONLY)) {
            statement.setFetchSize(16);
            try (ResultSet rows = statement.executeQuery("SELECT n FROM dbo.walked ORDER BY n DESC");
                    ResultSet beside = other.executeQuery("SELECT n FROM dbo.walked ORDER BY n")) {
                for (int n = 1; n <= 300; n++) {
                    expect("down", rows.next() ? rows.getInt(1) : -1, 301 - n);
                    expect("up", beside.next() ? beside.getInt(1) : -1, n);
                }
                expect("end", rows.next() || beside.next(), false);
            }
            // No query: it runs at once.
            try (ResultSet rows = statement.executeQuery("DECLARE @n int = 5; SELECT @n")) {
                expect("direct", rows.next() ? rows.getInt(1) : -1, 5);
            }
        }
    }

    private void rowCounts() throws Exception {
        execute("CREATE TABLE dbo.counted (id int NOT NULL)");
        List<Integer> counts = new ArrayList<>();
        try (Statement statement = connection.createStatement()) {
            for (String text : List.of("INSERT dbo.counted VALUES (1),(2),(3),(4)", "UPDATE dbo.counted SET id = id + 1 WHERE id > 2",
                    "DELETE dbo.counted WHERE id = 99", "DELETE TOP (1) dbo.counted")) {
                counts.add(statement.executeUpdate(text));
            }
        }
        expect("row counts", counts, List.of(4, 2, 0, 1));
    }

    /** A scalar function: its value is where a procedure has its status. */
    private void function() throws Exception {
        execute("CREATE FUNCTION dbo.shout (@text nvarchar(50), @times int) RETURNS nvarchar(200) AS "
                + "BEGIN RETURN REPLICATE(@text, @times) + N'!' END");
        execute("CREATE FUNCTION dbo.thrice (@n int) RETURNS int AS BEGIN DECLARE @r int = @n * 3 RETURN @r END");
        try (CallableStatement call = connection.prepareCall("{? = call dbo.shout(?, ?)}")) {
            call.registerOutParameter(1, textType());
            call.setString(2, "ab");
            call.setInt(3, 3);
            call.execute();
            expect("text", call.getString(1), "ababab!");
        }
        try (CallableStatement call = connection.prepareCall("{? = call dbo.thrice(?)}")) {
            call.registerOutParameter(1, Types.INTEGER);
            for (int n = 0; n < 5; n++) {
                call.setInt(2, n);
                call.execute();
                expect("number", call.getInt(1), n * 3);
            }
        }
    }

    private void procedure() throws Exception {
        execute("CREATE PROCEDURE dbo.add_up @a int, @b int = 10, @sum int OUTPUT, @text nvarchar(50) OUTPUT AS "
                + "BEGIN SET NOCOUNT ON; SET @sum = @a + @b; SET @text = @text + N'!'; SELECT @a AS a; RETURN @a * 2 END");
        try (CallableStatement call = connection.prepareCall("{? = call dbo.add_up(?, ?, ?, ?)}")) {
            call.registerOutParameter(1, Types.INTEGER);
            call.setInt(2, 5);
            call.setInt(3, 10);
            call.registerOutParameter(4, Types.INTEGER);
            call.setString(5, "hello");
            call.registerOutParameter(5, textType());
            expect("has rows", call.execute(), true);
            try (ResultSet rows = call.getResultSet()) {
                expect("row", rows.next(), true);
                expect("a", rows.getInt(1), 5);
            }
            while (call.getMoreResults() || call.getUpdateCount() != -1) {
                continue;
            }
            expect("return value", call.getInt(1), 10);
            expect("sum", call.getInt(4), 15);
            expect("text", call.getString(5), "hello!");
        }
    }

    /** Rows as one parameter; jTDS has no such type. */
    private void tableValues() throws Exception {
        if (!microsoft) {
            throw new Skip("not offered by jTDS");
        }
        execute("CREATE TYPE dbo.items AS TABLE (id int NOT NULL PRIMARY KEY CHECK (id > 0), name nvarchar(20) NULL)");
        execute("CREATE PROCEDURE dbo.count_items @items dbo.items READONLY AS SELECT COUNT(*), COUNT(name), SUM(id) FROM @items");
        com.microsoft.sqlserver.jdbc.SQLServerDataTable table = new com.microsoft.sqlserver.jdbc.SQLServerDataTable();
        table.addColumnMetadata("id", Types.INTEGER);
        table.addColumnMetadata("name", Types.NVARCHAR);
        for (int id = 0; id < 3000; id++) {
            table.addRow(id + 1, id % 3 == 0 ? "some" : null);
        }
        for (String text : new String[] {"{call dbo.count_items(?)}", "SELECT COUNT(*), COUNT(name), SUM(id) FROM ?"}) {
            try (PreparedStatement call = connection.prepareStatement(text)) {
                com.microsoft.sqlserver.jdbc.SQLServerPreparedStatement typed =
                        call.unwrap(com.microsoft.sqlserver.jdbc.SQLServerPreparedStatement.class);
                typed.setStructured(1, "dbo.items", table);
                try (ResultSet row = call.executeQuery()) {
                    expect("row", row.next(), true);
                    expect("rows", row.getInt(1), 3000);
                    expect("names", row.getInt(2), 1000);
                    expect("sum", row.getInt(3), 4501500);
                }
            }
        }
    }

    private void prepared() throws Exception {
        try (PreparedStatement insert = connection.prepareStatement("INSERT dbo.prepared VALUES (?, ?)")) {
            for (int id = 0; id < 250; id++) {
                insert.setInt(1, id);
                insert.setString(2, "row " + id);
                insert.executeUpdate();
            }
            for (int id = 250; id < 500; id++) {
                insert.setInt(1, id);
                insert.setString(2, "row " + id);
                insert.addBatch();
            }
            expect("batch", insert.executeBatch().length, 250);
        }
        try (PreparedStatement lookup = connection.prepareStatement("SELECT name FROM dbo.prepared WHERE id = ?")) {
            for (int id = 0; id < 500; id++) {
                lookup.setInt(1, id);
                try (ResultSet row = lookup.executeQuery()) {
                    expect("row", row.next(), true);
                    expect("name", row.getString(1), "row " + id);
                }
            }
        }
        try (Statement statement = connection.createStatement()) {
            execute("CREATE TABLE dbo.keyed (id int IDENTITY(7,1) PRIMARY KEY, name nvarchar(20))");
            statement.executeUpdate("INSERT dbo.keyed (name) VALUES (N'x')", Statement.RETURN_GENERATED_KEYS);
            try (ResultSet keys = statement.getGeneratedKeys()) {
                expect("key row", keys.next(), true);
                expect("generated key", keys.getInt(1), 7);
            }
        }
    }

    private void cancel() throws Exception {
        connection.setAutoCommit(false);
        try {
            execute("INSERT dbo.accounts VALUES (500, 1)");
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                statement.execute("WAITFOR DELAY '00:00:30'");
                throw new AssertionError("the statement ended without being cancelled");
            } catch (SQLException expected) {
                expect("still open", connection.isClosed(), false);
            }
            expect("row kept", scalar("SELECT COUNT(*) FROM dbo.accounts WHERE id = 500 AND @@TRANCOUNT = 1"), "1");
            connection.rollback();
        } finally {
            connection.setAutoCommit(true);
        }
    }

    private void pooling() throws Exception {
        for (int round = 0; round < 10; round++) {
            try (Connection one = open(database); Statement statement = one.createStatement()) {
                try (ResultSet row = statement.executeQuery("SELECT @@LOCK_TIMEOUT, DB_NAME(), OBJECT_ID(N'tempdb..#kept')")) {
                    row.next();
                    expect("lock timeout", row.getInt(1), -1);
                    expect("database", row.getString(2), database);
                    expect("temporary table", row.getObject(3), null);
                }
                statement.execute("SET LOCK_TIMEOUT 1234");
                statement.execute("CREATE TABLE #kept (id int)");
                expect("isValid", !microsoft || one.isValid(10), true);
            }
        }
    }

    private void metadata() throws Exception {
        try (ResultSet tables = connection.getMetaData().getTables(null, "dbo", "accounts", null)) {
            expect("table", tables.next(), true);
            expect("name", tables.getString("TABLE_NAME"), "accounts");
        }
        try (ResultSet keys = connection.getMetaData().getPrimaryKeys(database, "dbo", "accounts")) {
            expect("key", keys.next(), true);
            expect("column", keys.getString("COLUMN_NAME"), "id");
        }
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = connection.getMetaData().getColumns(null, "dbo", "accounts", null)) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
            }
        }
        expect("columns", columns, List.of("id int", "balance int"));
    }

    private void bulk() throws Exception {
        if (!microsoft) {
            throw new Skip("jTDS has no bulk copy");
        }
        execute("CREATE TABLE dbo.bulk_rows (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL, price decimal(10,2), made datetime2, data varbinary(max))");
        execute("CREATE TABLE dbo.bulk_source (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL, price decimal(10,2), made datetime2, data varbinary(max))");
        try (PreparedStatement insert = connection.prepareStatement("INSERT dbo.bulk_source VALUES (?, ?, ?, '2020-01-02T03:04:05', 0x07)")) {
            for (int id = 0; id < 1000; id++) {
                insert.setInt(1, id);
                insert.setString(2, id % 10 == 0 ? null : "name " + id);
                insert.setBigDecimal(3, BigDecimal.valueOf(id, 2));
                insert.addBatch();
            }
            insert.executeBatch();
        }
        try (Connection reader = open(database); Statement statement = reader.createStatement();
                ResultSet source = statement.executeQuery("SELECT * FROM dbo.bulk_source");
                var copy = new com.microsoft.sqlserver.jdbc.SQLServerBulkCopy(connection)) {
            copy.setDestinationTableName("dbo.bulk_rows");
            copy.writeToServer(source);
        }
        expect("rows", scalar("SELECT COUNT(*) FROM dbo.bulk_rows"), "1000");
        expect("names", scalar("SELECT COUNT(name) FROM dbo.bulk_rows"), "900");
        expect("sum", scalar("SELECT SUM(price) FROM dbo.bulk_rows"), "4995.00");
    }

    private void loginFailed() throws Exception {
        try {
            open("master", encryption, "not the password").close();
        } catch (SQLException caught) {
            expect("number of " + caught.getMessage(), caught.getErrorCode(), 18456);
            return;
        }
        throw new AssertionError("logged in with a wrong password");
    }

    private void unknownDatabase() throws Exception {
        try {
            open("no_such_database").close();
        } catch (SQLException caught) {
            for (Throwable one = caught; one instanceof SQLException error; one = error.getNextException()) {
                if (error.getErrorCode() == 4060) {
                    return;
                }
            }
            throw new AssertionError("want 4060, got " + caught.getErrorCode() + " " + caught.getMessage());
        }
        throw new AssertionError("a connection to an unknown database was made");
    }

    private int all() {
        if (microsoft) {
            run("connect_plain", () -> connects("false"));
            run("connect_tls", () -> connects("true"));
            run("connect_strict", () -> connects("strict"));
        } else {
            run("connect_plain", () -> connects("off"));
            run("connect_tls", () -> { throw new Skip("jTDS speaks TLS versions that current Java no longer offers"); });
        }
        run("setup", this::setup);
        if (connection != null) {
            run("batch", () -> {
                expect("database", scalar("SELECT DB_NAME()"), database);
                expect("sum", scalar("SET NOCOUNT ON DECLARE @i int = 0, @sum bigint = 0\n"
                        + "WHILE @i < 100 BEGIN SET @i = @i + 1; SET @sum = @sum + @i END\nSET NOCOUNT OFF SELECT @sum"), "5050");
            });
            run("types", this::types);
            run("nulls", this::nulls);
            run("large_8k", () -> large(8192));
            run("large_1m", () -> large(1 << 20));
            run("large_20m", () -> large(20 << 20));
            run("tx_commit", this::commit);
            run("tx_rollback", this::rollback);
            run("tx_savepoint", this::savepoint);
            run("isolation", this::isolation);
            run("error_208", () -> expectError("\nSELECT * FROM dbo.no_such_table", 208, 1, 2, "Invalid object name 'dbo.no_such_table'"));
            run("error_2627", () -> expectError("INSERT dbo.accounts VALUES (1, 1)", 2627, 1, 1, "PRIMARY KEY"));
            run("error_8134", () -> expectError("\n\nDECLARE @x int = 1 / 0", 8134, 1, 3, "Divide by zero"));
            run("error_throw", this::errorThrow);
            run("print", this::prints);
            run("multi_results", this::resultSets);
            run("row_counts", this::rowCounts);
            run("cursors", this::cursors);
            run("procedure", this::procedure);
            run("function", this::function);
            run("table_values", this::tableValues);
            run("prepared", this::prepared);
            run("cancel", this::cancel);
            run("pooling", this::pooling);
            run("metadata", this::metadata);
            run("bulk", this::bulk);
        }
        run("login_failed", this::loginFailed);
        run("unknown_database", this::unknownDatabase);
        System.out.println(passed + " passed, " + failed + " failed, " + skipped + " skipped");
        return failed > 0 ? 1 : 0;
    }

    public static void main(String[] arguments) {
        System.exit(new Interop(arguments[0]).all());
    }
}
