"""Interop scenarios over one Python driver: client.py {pymssql|pytds|pyodbc|freetds-odbc|mssql-python}.

Every scenario prints PASS, FAIL or SKIP with its name; the exit code says whether all passed.
The server's address and password come from the environment (see ../README.md).
"""

import datetime
import decimal
import sys
import traceback
import uuid

from drivers import Skip, driver

TEXT = "Grüße, 日本語 and 😀"


class Suite:
    def __init__(self, name):
        self.driver = driver(name)
        self.database = "interop_" + name.replace("-", "_")
        self.counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
        self.connection = None

    def run(self, name, scenario, *arguments):
        try:
            scenario(*arguments)
        except Skip as reason:
            self.say("SKIP", name, str(reason))
        except Exception as caught:  # noqa: BLE001 - every failure of any kind is the scenario's result
            where = traceback.extract_tb(caught.__traceback__)[-1]
            self.say("FAIL", name, f"{type(caught).__name__}: {caught} (line {where.lineno})".replace("\n", " | "))
        else:
            self.say("PASS", name)

    def say(self, verdict, name, why=""):
        self.counts[verdict] += 1
        print(verdict, name + (": " + why if why else ""), flush=True)

    # -- helpers ------------------------------------------------------------------------------------------------

    def open(self, database=None, encryption=None, **more):
        if encryption is None:
            encryption = self.usual_encryption
        return self.driver.connect(database or self.database, encryption=encryption, **more)

    def execute(self, text, *parameters, connection=None):
        cursor = (connection or self.connection).cursor()
        if parameters:
            cursor.execute(self.driver.sql(text), tuple(parameters))
        else:
            cursor.execute(text)
        return cursor

    def rows(self, text, *parameters, connection=None):
        cursor = self.execute(text, *parameters, connection=connection)
        found = [tuple(row) for row in cursor.fetchall()]
        cursor.close()
        return found

    def scalar(self, text, *parameters, connection=None):
        return self.rows(text, *parameters, connection=connection)[0][0]

    def expect_error(self, action, number, severity, state, line, fragment):
        """What the driver tells of the error must be right; what it does not tell is not compared."""
        try:
            cursor = action()
            while cursor is not None and cursor.nextset():
                pass
        except Skip:
            raise
        except Exception as caught:  # noqa: BLE001 - the drivers' error classes have no common root
            error = self.driver.error(caught)
            if error is None:
                raise
        else:
            raise AssertionError(f"error {number} was not raised")
        wanted = {"number": number, "severity": severity, "state": state, "line": line}
        for field, want in wanted.items():
            got = getattr(error, field)
            if want is not None and got is not None and got != want:
                raise AssertionError(f"{field}: got {got}, want {want} ({error})")
        if fragment.lower() not in error.text.lower():
            raise AssertionError(f"message lacks {fragment!r}: {error}")
        return error

    # -- scenarios ----------------------------------------------------------------------------------------------

    def connect(self, encryption):
        connection = self.driver.connect("master", encryption=encryption)
        assert self.scalar("SELECT 6 * 7", connection=connection) == 42
        connection.close()

    def setup(self):
        connection = self.driver.connect("master", encryption=self.usual_encryption)
        self.execute(f"IF DB_ID(N'{self.database}') IS NOT NULL DROP DATABASE {self.database}", connection=connection).close()
        self.execute(f"CREATE DATABASE {self.database}", connection=connection).close()
        connection.close()
        self.connection = self.open()
        for text in (
            "CREATE TABLE dbo.accounts (id int NOT NULL CONSTRAINT PK_accounts PRIMARY KEY, balance int NOT NULL)",
            "CREATE TABLE dbo.prepared (id int NOT NULL PRIMARY KEY, name nvarchar(50) NOT NULL)",
            "CREATE TABLE dbo.large_values (size int NOT NULL PRIMARY KEY, t nvarchar(max), b varbinary(max))",
            "CREATE TABLE dbo.every_type (id int NOT NULL PRIMARY KEY, c_bit bit, c_small smallint, c_big bigint, c_dec decimal(38,10),"
            " c_money money, c_float float, c_date date, c_time time(6), c_datetime datetime, c_datetime2 datetime2(6), c_char char(5),"
            " c_varchar varchar(50), c_nvarchar nvarchar(50), c_nmax nvarchar(max), c_varbinary varbinary(50), c_guid uniqueidentifier)",
        ):
            self.execute(text).close()

    def batch(self):
        assert self.scalar("SELECT DB_NAME()") == self.database
        assert self.scalar("SET NOCOUNT ON\nDECLARE @i int = 0, @sum bigint = 0\nWHILE @i < 100 BEGIN SET @i = @i + 1; "
                           "SET @sum = @sum + @i END\nSET NOCOUNT OFF SELECT @sum") == 5050

    def types(self):
        values = (
            1, True, -32768, -9223372036854775808, decimal.Decimal("1234567890123456789012345678.0123456789"),
            decimal.Decimal("-922337203685477.5807"), 1 / 3, datetime.date(2024, 2, 29), datetime.time(23, 59, 58, self.driver.time_microseconds),
            datetime.datetime(2024, 2, 29, 23, 59, 58, 123000), datetime.datetime(2024, 2, 29, 23, 59, 58, self.driver.microseconds), "abc",
            "varchar", TEXT, TEXT * 300, self.driver.binary(b"\x00\x01\xff"), uuid.UUID("6F9619FF-8B86-D011-B42D-00C04FC964FF"),
        )
        self.execute("INSERT dbo.every_type VALUES (" + ", ".join("?" * len(values)) + ")", *values).close()
        got = self.rows("SELECT * FROM dbo.every_type WHERE id = ?", 1)[0]
        for index, (want, have) in enumerate(zip(values, got)):
            if index == 11:
                want = "abc  "
            if isinstance(want, bool):
                have = bool(have)
            if isinstance(have, bytearray):
                have = bytes(have)
            if isinstance(want, uuid.UUID) and not isinstance(have, uuid.UUID):
                have = uuid.UUID(have)
            if isinstance(want, datetime.datetime) and isinstance(have, str):
                have = datetime.datetime.fromisoformat(have[:26])
            if isinstance(want, datetime.time) and isinstance(have, str):
                have = datetime.time.fromisoformat(have[:15])
            if isinstance(want, datetime.date) and isinstance(have, str):
                have = datetime.date.fromisoformat(have)
            assert have == want, f"column {index}: got {have!r}, want {want!r}"

    def nulls(self):
        self.execute("INSERT dbo.every_type (id, c_nvarchar, c_big, c_float) VALUES (?, ?, ?, ?)", 2, None, None, None).close()
        row = self.rows("SELECT * FROM dbo.every_type WHERE id = 2")[0]
        assert row[0] == 2 and all(value is None for value in row[1:]), row
        assert self.scalar("SELECT COUNT(*) FROM dbo.every_type WHERE c_nvarchar IS NULL AND id = 2") == 1

    def large(self, size):
        text = "0123456789abcdeé" * (size // 16)
        data = bytes((0, 1, 2, 3, 4, 5, 6, 255)) * (size // 8)
        self.execute("INSERT dbo.large_values VALUES (?, ?, ?)", size, text, self.driver.binary(data)).close()
        got_text, got_data, text_bytes, data_bytes = self.rows(
            "SELECT t, b, DATALENGTH(t), DATALENGTH(b) FROM dbo.large_values WHERE size = ?", size)[0]
        assert (text_bytes, data_bytes) == (2 * size, size), (text_bytes, data_bytes)
        assert got_text == text, f"text differs, {len(got_text)} characters"
        assert bytes(got_data) == data, f"data differs, {len(got_data)} bytes"

    def tx_commit(self):
        self.driver.set_autocommit(self.connection, False)
        try:
            self.execute("INSERT dbo.accounts VALUES (1, 100), (2, 200)").close()
            assert self.scalar("SELECT @@TRANCOUNT") == 1
            self.connection.commit()
        finally:
            self.connection.rollback()
            self.driver.set_autocommit(self.connection, True)
        other = self.open()
        assert self.scalar("SELECT SUM(balance) FROM dbo.accounts", connection=other) == 300
        other.close()

    def tx_rollback(self):
        self.driver.set_autocommit(self.connection, False)
        try:
            self.execute("UPDATE dbo.accounts SET balance = balance + 5").close()
            self.execute("DELETE dbo.accounts WHERE id = 2").close()
            self.connection.rollback()
            assert self.scalar("SELECT SUM(balance) FROM dbo.accounts") == 300
        finally:
            self.connection.rollback()
            self.driver.set_autocommit(self.connection, True)

    def tx_savepoint(self):
        for text in ("BEGIN TRANSACTION", "INSERT dbo.accounts VALUES (10, 1)", "SAVE TRANSACTION half",
                     "INSERT dbo.accounts VALUES (11, 1)", "UPDATE dbo.accounts SET balance = 7 WHERE id = 10",
                     "ROLLBACK TRANSACTION half", "INSERT dbo.accounts VALUES (12, 1)", "COMMIT"):
            self.execute(text).close()
        found = self.rows("SELECT id, balance FROM dbo.accounts WHERE id >= 10 ORDER BY id")
        assert found == [(10, 1), (12, 1)], found

    def isolation(self):
        names = {1: "READ UNCOMMITTED", 2: "READ COMMITTED", 3: "REPEATABLE READ", 4: "SERIALIZABLE", 5: "SNAPSHOT"}
        for number in (1, 3, 4, 5, 2):
            self.execute(f"SET TRANSACTION ISOLATION LEVEL {names[number]}").close()
            got = self.scalar("SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID")
            assert got == number, (names[number], got)

    def error_208(self):
        error = self.expect_error(lambda: self.execute("\nSELECT * FROM dbo.no_such_table"), 208, 16, 1, 2,
                                  "Invalid object name 'dbo.no_such_table'.")
        assert error.sqlstate in (None, "42S02"), error.sqlstate

    def error_2627(self):
        error = self.expect_error(lambda: self.execute("INSERT dbo.accounts VALUES (1, 1)"), 2627, 14, 1, 1,
                                  "Violation of PRIMARY KEY constraint 'PK_accounts'")
        assert error.sqlstate in (None, "23000"), error.sqlstate

    def error_8134(self):
        self.expect_error(lambda: self.rows("\n\nSELECT 1 / 0"), 8134, 16, 1, 3, "Divide by zero error encountered.")

    def error_throw(self):
        self.expect_error(lambda: self.execute("\nTHROW 51234, N'thrown here', 7"), 51234, 16, 7, 2, "thrown here")
        self.expect_error(lambda: self.execute("BEGIN TRY DECLARE @x int = 1 / 0 END TRY BEGIN CATCH THROW END CATCH"),
                          8134, 16, 1, 1, "Divide by zero")
        assert self.scalar("SELECT 1") == 1

    def prints(self):
        seen = self.driver.messages(self.connection, "PRINT N'first'; RAISERROR(N'second %d', 10, 1, 2)")
        assert [text.strip() for text in seen] == ["first", "second 2"], seen

    def multi_results(self):
        cursor = self.execute("SELECT 1 AS a; SELECT N'x' AS b, 2 AS c WHERE 1 = 0; SELECT 3 AS d UNION ALL SELECT 4")
        shape = []
        while True:
            if cursor.description:
                columns = "+".join(column[0] for column in cursor.description)
                shape.append(f"{columns}:{len(cursor.fetchall())}")
            if not cursor.nextset():
                break
        cursor.close()
        assert shape == ["a:1", "b+c:0", "d:2"], shape

    def row_counts(self):
        self.execute("CREATE TABLE dbo.counted (id int NOT NULL)").close()
        counts = []
        for text in ("INSERT dbo.counted VALUES (1),(2),(3),(4)", "UPDATE dbo.counted SET id = id + 1 WHERE id > 2",
                     "DELETE dbo.counted WHERE id = 99", "DELETE TOP (1) dbo.counted"):
            cursor = self.execute(text)
            counts.append(cursor.rowcount)
            cursor.close()
        assert counts == [4, 2, 0, 1], counts

    def procedure(self):
        self.execute("""CREATE PROCEDURE dbo.add_up @a int, @b int = 10, @sum int OUTPUT, @text nvarchar(50) OUTPUT AS
BEGIN SET NOCOUNT ON; SET @sum = @a + @b; SET @text = @text + N'!'; SELECT @a AS a; RETURN @a * 2 END""").close()
        count, total, text, status = self.driver.call(self.connection)
        assert (count, total, text) == (1, 15, "hello!"), (count, total, text)
        assert status in (None, 10), status

    def table_values(self):
        self.execute("CREATE TYPE dbo.items AS TABLE (id int NOT NULL PRIMARY KEY CHECK (id > 0), name nvarchar(20) NULL)").close()
        self.execute("CREATE PROCEDURE dbo.count_items @items dbo.items READONLY AS "
                     "SELECT COUNT(*), COUNT(name), SUM(id) FROM @items").close()
        rows = [(number + 1, "some" if number % 3 == 0 else None) for number in range(3000)]
        found = [tuple(row) for row in self.driver.table(self.connection, rows)]
        assert found == [(3000, 1000, 4501500)], found

    def prepared(self):
        cursor = self.connection.cursor()
        insert = self.driver.sql("INSERT dbo.prepared VALUES (?, ?)")
        for number in range(300):
            cursor.execute(insert, (number, f"row {number}"))
        cursor.executemany(insert, [(number, f"row {number}") for number in range(300, 500)])
        lookup = self.driver.sql("SELECT name FROM dbo.prepared WHERE id = ?")
        for number in range(500):
            cursor.execute(lookup, (number,))
            assert cursor.fetchone()[0] == f"row {number}", number
        cursor.close()

    def cancel(self):
        connection = self.open()
        self.execute("BEGIN TRANSACTION", connection=connection).close()
        self.execute("INSERT dbo.accounts VALUES (500, 1)", connection=connection).close()
        self.driver.cancel(connection, "WAITFOR DELAY '00:00:30'")
        found = self.rows("SELECT @@TRANCOUNT, (SELECT COUNT(*) FROM dbo.accounts WHERE id = 500)", connection=connection)
        assert found == [(1, 1)], found
        self.execute("ROLLBACK", connection=connection).close()
        connection.close()

    def pooling(self):
        """Many short connections one after the other; none sees what the one before it has set."""
        for _ in range(10):
            connection = self.open()
            found = self.rows("SELECT @@LOCK_TIMEOUT, DB_NAME(), OBJECT_ID(N'tempdb..#kept')", connection=connection)
            assert found == [(-1, self.database, None)], found
            self.execute("SET LOCK_TIMEOUT 1234", connection=connection).close()
            self.execute("CREATE TABLE #kept (id int)", connection=connection).close()
            connection.close()

    def bulk(self):
        self.execute("CREATE TABLE dbo.bulk_rows (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL, price decimal(10,2), "
                     "made datetime2(6), data varbinary(max))").close()
        made = datetime.datetime(2020, 1, 2, 3, 4, 5)
        rows = [(number, None if number % 10 == 0 else f"name {number}", decimal.Decimal(number) / 100, made, bytes([number % 256]))
                for number in range(5000)]
        self.driver.bulk(self.connection, "dbo.bulk_rows" if self.driver.mark == "?" else "bulk_rows",
                         ["id", "name", "price", "made", "data"], rows)
        found = self.rows("SELECT COUNT(*), COUNT(name), SUM(price), COUNT(DISTINCT data), MIN(made) FROM dbo.bulk_rows")[0]
        assert found[:4] == (5000, 4500, decimal.Decimal("124975.00"), 256), found

    def login_failed(self):
        self.expect_error(lambda: self.driver.connect("master", encryption=self.usual_encryption, user="sa", password="not the password")
                          .cursor(), 18456, 14, 1, None, "Login failed for user 'sa'.")

    def unknown_database(self):
        try:
            self.driver.connect("no_such_database", encryption=self.usual_encryption)
        except Skip:
            raise
        except Exception as caught:  # noqa: BLE001 - the drivers' error classes have no common root
            text = str(caught)
            assert any(part in text for part in ("4060", "Cannot open database", "18456", "Login failed")), text
        else:
            raise AssertionError("a connection to an unknown database was made")

    def all(self):
        for name, encryption in (("connect_plain", "off"), ("connect_login_only_tls", "login"), ("connect_tls", "on"),
                                 ("connect_strict", "strict")):
            self.run(name, self.connect, encryption)
        self.usual_encryption = "on"
        try:
            self.driver.connect("master", encryption="on").close()
        except Exception:  # noqa: BLE001 - then connect_tls has said so already
            self.usual_encryption = "off"
        self.run("setup", self.setup)
        if self.connection is not None:
            for name in ("batch", "types", "nulls"):
                self.run(name, getattr(self, name))
            for name, size in (("large_8k", 8192), ("large_1m", 1 << 20), ("large_20m", 20 << 20)):
                self.run(name, self.large, size)
            for name in ("tx_commit", "tx_rollback", "tx_savepoint", "isolation", "error_208", "error_2627", "error_8134",
                         "error_throw", "prints", "multi_results", "row_counts", "procedure", "table_values", "prepared", "cancel",
                         "pooling", "bulk"):
                self.run("print" if name == "prints" else name, getattr(self, name))
        self.run("login_failed", self.login_failed)
        self.run("unknown_database", self.unknown_database)
        passed, failed, skipped = (self.counts[key] for key in ("PASS", "FAIL", "SKIP"))
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(Suite(sys.argv[1]).all())
