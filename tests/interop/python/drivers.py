"""One adapter per Python driver: how to connect, what an error carries, how to cancel, how to load in bulk.

The scenarios (scenarios.py) speak to these alone, so that every driver runs the same list. A capability that a driver
does not have raises Skip with the reason.
"""

import os
import re

HOST = os.environ.get("DARUMA_HOST", "127.0.0.1")
PORT = int(os.environ.get("DARUMA_PORT", "1433"))
USER = os.environ.get("DARUMA_USER", "sa")
PASSWORD = os.environ.get("DARUMA_PASSWORD", "")
CERTIFICATE = os.environ.get("DARUMA_CERT", "")

LONG_RESULT = ("WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 30000) SELECT i, REPLICATE('x', 500) FROM n "
               "OPTION (MAXRECURSION 0)")


class Skip(Exception):
    """The driver cannot do this; the text says why."""


class ServerError:
    """What a driver tells of a server error; None where it does not say."""

    def __init__(self, text, number=None, severity=None, state=None, line=None, sqlstate=None):
        self.text, self.number, self.severity = text, number, severity
        self.state, self.line, self.sqlstate = state, line, sqlstate

    def __str__(self):
        return f"{self.number} class {self.severity} state {self.state} line {self.line}: {self.text}"


class Driver:
    """Defaults shared by the adapters. `mark` is the parameter marker."""

    mark = "?"
    # What the driver passes of the fractions of a second in a datetime2 and in a time.
    microseconds = 123456
    time_microseconds = 123456

    def connect(self, database, encryption="on", user=USER, password=PASSWORD, autocommit=True):
        raise NotImplementedError

    def sql(self, text):
        """Question marks become the driver's own parameter marker."""
        return text.replace("?", self.mark)

    def set_autocommit(self, connection, on):
        connection.autocommit = on

    def messages(self, connection, text):
        raise Skip("the driver does not hand out messages")

    def call(self, connection):
        """Calls dbo.add_up(5, default) and returns (rows, sum, text, return value)."""
        raise Skip("the driver has no output parameters")

    def bulk(self, connection, table, columns, rows):
        raise Skip("the driver has no bulk copy")

    def table(self, connection, rows):
        """What dbo.count_items gives for rows that are one parameter."""
        raise Skip("not offered")

    def cancel(self, connection, text):
        """Runs the text and cancels it on the way; raises when it was not cancelled."""
        raise Skip("the driver cannot cancel")

    def binary(self, value):
        """What the driver wants as a binary parameter."""
        return value


class PyMssql(Driver):
    """FreeTDS's DB-Library. Puts parameters into the text itself; errors come with details from its low level."""

    mark = "%s"
    microseconds = 123000  # more than milliseconds do not pass its own way of writing a datetime

    def __init__(self):
        import pymssql

        self.module = pymssql

    def connect(self, database, encryption="on", user=USER, password=PASSWORD, autocommit=True):
        if encryption == "strict":
            raise Skip("not offered by pymssql")
        level = {"off": "off", "login": "request", "on": "require"}[encryption]
        return self.module.connect(server=HOST, port=str(PORT), user=user, password=password, database=database,
                                   autocommit=autocommit, encryption=level, login_timeout=20, tds_version="7.4")

    def set_autocommit(self, connection, on):
        connection.autocommit(on)

    def error(self, caught):
        inner = caught.args[0] if caught.args else None
        number, text = (inner if isinstance(inner, tuple) else (caught.args + (b"",))[:2])
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        severity = re.search(r"severity (\d+)", text)
        state = re.search(r"state (\d+)", text)
        return ServerError(text, number, int(severity[1]) if severity else None, int(state[1]) if state else None)

    def messages(self, connection, text):
        seen = []
        connection._conn.set_msghandler(
            lambda state, severity, server, procedure, line, message: seen.append(message.decode("utf-8")))
        try:
            connection._conn.execute_non_query(text)
        finally:
            connection._conn.set_msghandler(None)
        return seen

    def call(self, connection):
        # Its own output parameters are read before the rows, and so are empty when the procedure has any.
        return call_by_text(connection, "%d")

    def bulk(self, connection, table, columns, rows):
        connection.bulk_copy(table, rows)
        connection.commit()

    def cancel(self, connection, text):
        """Leaves a long result half read and cancels it. A timeout would not do: the driver then closes the connection."""
        cursor = connection.cursor()
        cursor.execute(LONG_RESULT)
        if cursor.fetchone()[0] != 1:
            raise AssertionError("the first row is missing")
        connection._conn.cancel()


class PyTds(Driver):
    """python-tds: the protocol in Python, with TLS by way of OpenSSL when it is given the certificate."""

    mark = "%s"

    def __init__(self):
        import pytds

        self.module = pytds

    def binary(self, value):
        return self.module.Binary(value)

    def connect(self, database, encryption="on", user=USER, password=PASSWORD, autocommit=True):
        if encryption == "strict":
            raise Skip("not offered by python-tds")
        tls = {}
        if encryption != "off":
            if not CERTIFICATE:
                raise Skip("python-tds needs the server's certificate and none is known")
            tls = {"cafile": CERTIFICATE, "validate_host": False, "enc_login_only": encryption == "login"}
        return self.module.connect(dsn=HOST, port=PORT, user=user, password=password, database=database,
                                   autocommit=autocommit, login_timeout=20, **tls)

    def error(self, caught):
        return ServerError(str(caught), getattr(caught, "number", None), getattr(caught, "severity", None),
                           getattr(caught, "state", None), getattr(caught, "line", None))

    def messages(self, connection, text):
        cursor = connection.cursor()
        cursor.execute(text)
        return [str(message[1].args[0] if message[1].args else message[1]) for message in cursor.messages]

    def call(self, connection):
        cursor = connection.cursor()
        outcome = cursor.callproc("dbo.add_up", (
            5, self.module.default, self.module.output(param_type="int"), self.module.output("hello", "nvarchar(50)")))
        rows = cursor.fetchall()
        while cursor.nextset():
            pass
        cursor._session.complete_rpc()
        # get_proc_outputs() counts wrongly when parameters without output come first.
        outputs = {ordinal: parameter.value for ordinal, parameter in cursor._session.output_params.items()}
        assert len(outcome) == 4
        return len(rows), outputs[2], outputs[3], cursor.get_proc_return_status()

    def bulk(self, connection, table, columns, rows):
        from pytds.tds_base import Column
        from pytds.tds_types import DecimalType, DateTime2Type, IntType, NVarCharType, VarBinaryMaxType

        kinds = {"id": IntType(), "name": NVarCharType(40), "price": DecimalType(10, 2), "made": DateTime2Type(),
                 "data": VarBinaryMaxType()}
        described = [Column(name, type=kinds[name], flags=Column.fNullable) for name in columns]
        connection.cursor().copy_to(data=rows, table_or_view=table, schema="dbo", columns=described)
        connection.commit()

    def table(self, connection, rows):
        from pytds.tds_base import Column
        from pytds.tds_types import IntType, NVarCharType

        columns = [Column("id", type=IntType()), Column("name", type=NVarCharType(20), flags=Column.fNullable)]
        table = self.module.TableValuedParam("dbo.items", columns=columns, rows=rows)
        cursor = connection.cursor()
        cursor.callproc("dbo.count_items", (table,))
        return cursor.fetchall()

    def cancel(self, connection, text):
        """Leaves a long result half read, cancels it, and lets the caller go on."""
        cursor = connection.cursor()
        cursor.execute(LONG_RESULT)
        if cursor.fetchone()[0] != 1:
            raise AssertionError("the first row is missing")
        cursor.cancel()
        cursor.close()


class Odbc(Driver):
    """pyodbc over a driver of the ODBC manager. The number is at the end of the message, state and line are not told."""

    time_microseconds = 0

    def __init__(self, name):
        import pyodbc

        self.module = pyodbc
        self.name = name
        if name == "freetds":
            self.microseconds = 123000
            self.driver = "/usr/lib/x86_64-linux-gnu/odbc/libtdsodbc.so"
            if os.uname().machine == "aarch64":
                self.driver = "/usr/lib/aarch64-linux-gnu/odbc/libtdsodbc.so"
        else:
            self.driver = microsoft_driver()

    def connect(self, database, encryption="on", user=USER, password=PASSWORD, autocommit=True):
        if self.name == "freetds":
            level = {"off": "off", "login": "request", "on": "require"}.get(encryption)
            if level is None:
                raise Skip("not offered by this version of FreeTDS")
            extra = f"TDS_Version=7.4;Encryption={level};ClientCharset=UTF-8;Port={PORT};Server={HOST}"
        else:
            level = {"off": "no", "login": "no", "on": "yes", "strict": "strict"}[encryption]
            extra = f"Server=tcp:{HOST},{PORT};Encrypt={level}"
            if encryption == "strict":
                if not CERTIFICATE:
                    raise Skip("no certificate file is known")
                extra += f";ServerCertificate={CERTIFICATE}"
            else:
                extra += ";TrustServerCertificate=yes"
        return self.module.connect(f"Driver={self.driver};{extra};UID={user};PWD={{{password}}};Database={database}",
                                   autocommit=autocommit, timeout=20)

    def error(self, caught):
        text = str(caught.args[-1])
        number = re.search(r"\((\d+)\) \(SQL", text)
        return ServerError(text, int(number[1]) if number else None, sqlstate=caught.args[0])

    def messages(self, connection, text):
        cursor = connection.cursor()
        cursor.execute(text)
        seen = [message for _, message in cursor.messages]
        while cursor.nextset():
            seen += [message for _, message in cursor.messages]
        return [message.rsplit("]", 1)[-1] for message in seen]

    def call(self, connection):
        return call_by_text(connection, "?")

    def bulk(self, connection, table, columns, rows):
        if self.name == "freetds":
            raise Skip("array parameters are not offered over this driver")
        cursor = connection.cursor()
        cursor.fast_executemany = True
        cursor.executemany(f"INSERT {table} VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()

    def table(self, connection, rows):
        if self.name == "freetds":
            raise Skip("table-valued parameters are not offered by FreeTDS")
        return connection.cursor().execute("{CALL dbo.count_items (?)}", [rows]).fetchall()

    def cancel(self, connection, text):
        connection.timeout = 1
        try:
            connection.cursor().execute(text)
        except self.module.Error as caught:
            if "HYT00" not in str(caught.args) and "HY008" not in str(caught.args) and "08S01" in str(caught.args):
                raise
            return
        finally:
            connection.timeout = 0
        raise AssertionError("the statement ended without being cancelled")


class MssqlPython(Driver):
    """Microsoft's Python driver over its ODBC driver. Tells the text of an error, not its number."""

    def __init__(self):
        import mssql_python

        self.module = mssql_python

    def connect(self, database, encryption="on", user=USER, password=PASSWORD, autocommit=True):
        level = {"off": "no", "login": "no", "on": "yes", "strict": "strict"}[encryption]
        text = f"Server=tcp:{HOST},{PORT};Database={database};UID={user};PWD={{{password}}};Encrypt={level}"
        if encryption == "strict":
            if not CERTIFICATE:
                raise Skip("no certificate file is known")
            text += f";ServerCertificate={CERTIFICATE}"
        else:
            text += ";TrustServerCertificate=yes"
        return self.module.connect(text, autocommit=autocommit)

    def error(self, caught):
        return ServerError(str(caught))

    def messages(self, connection, text):
        cursor = connection.cursor()
        cursor.execute(text)
        seen = list(cursor.messages)
        while cursor.nextset():
            seen += cursor.messages
        return list(dict.fromkeys(message.rsplit("]", 1)[-1] for _, message in seen))

    call = Odbc.call

    def bulk(self, connection, table, columns, rows):
        connection.cursor().bulkcopy(table, rows)

    def cancel(self, connection, text):
        connection.timeout = 1
        cursor = connection.cursor()
        try:
            cursor.execute(text)
        except self.module.Error:
            return
        finally:
            connection.timeout = 0
        raise AssertionError("the statement ended without being cancelled")


def call_by_text(connection, mark):
    """Calls dbo.add_up by a batch, for drivers without output parameters of their own."""
    cursor = connection.cursor()
    cursor.execute(f"SET NOCOUNT ON; DECLARE @s int, @t nvarchar(50) = N'hello', @r int; "
                   f"EXEC @r = dbo.add_up {mark}, DEFAULT, @s OUTPUT, @t OUTPUT; SELECT @s, @t, @r; SET NOCOUNT OFF", (5,))
    rows = cursor.fetchall()
    cursor.nextset()
    total, text, status = cursor.fetchone()
    return len(rows), total, text, status


def microsoft_driver():
    """The shared library that the package mssql-python-odbc ships for this system."""
    import pathlib

    import mssql_python_odbc

    root = pathlib.Path(mssql_python_odbc.__file__).parent / "libs" / "linux" / "debian_ubuntu"
    machine = {"aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    found = sorted(path for path in root.rglob("libmsodbcsql*.so*") if machine in path.parts)
    if not found:
        raise Skip("the package holds no driver for this machine")
    return str(found[0])


def driver(name):
    return {
        "pymssql": PyMssql,
        "pytds": PyTds,
        "pyodbc": lambda: Odbc("microsoft"),
        "freetds-odbc": lambda: Odbc("freetds"),
        "mssql-python": MssqlPython,
    }[name]()
