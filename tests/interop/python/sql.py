"""Runs the files sql/*.sqlt against the server and compares the answers: sql.py [FILE ...].

A file is a list of blocks with an empty line between them. A block is a batch, a line `---`, and what the server must answer:

    rows as values with | between them (NULL, bytes as 0x..., `*` for any value), with a line `==` before each further result set
    Msg number, Level class, State state[, Procedure name], Line line      and, where it matters, the message on the next line
    > text of a PRINT or of a low-severity message

Known differences from the product lie in sql/open and run only when that file is named.
An empty string is shown as ''. A batch may hold empty lines, the answer may not. Each file runs over one python-tds connection in a
database of its own. Prints PASS or FAIL for each block, named by file and line.
"""

import datetime
import decimal
import pathlib
import sys
import uuid

from drivers import PyTds

# The warning that an aggregate has left out NULLs; it says nothing about the answer.
NULLS_ELIMINATED = 8153
# Codes of money, smallmoney and the nullable type of both.
MONEY = (60, 122, 110)
FOLDER = pathlib.Path(__file__).parent.parent / "sql"


def blocks(path):
    """Yields (line, batch, expected lines)."""
    lines = path.read_text(encoding="utf-8").split("\n")
    position = 0
    while position < len(lines):
        if not lines[position].strip():
            position += 1
            continue
        start = position
        end = lines.index("---", start)
        stop = end + 1
        while stop < len(lines) and lines[stop] != "":
            stop += 1
        yield start + 1, "\n".join(lines[start:end]), lines[end + 1:stop]
        position = stop


def shown(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (bytes, bytearray)):
        return "0x" + bytes(value).hex().upper()
    if isinstance(value, uuid.UUID):
        return str(value).upper()
    if value == "":
        return "''"
    if isinstance(value, datetime.time):
        return value.strftime("%H:%M:%S") + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")
    if isinstance(value, datetime.datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        return text + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")
    return str(value)


def decimals(value, description):
    """python-tds drops a decimal's trailing zeros; the column's scale says how many there were (money tells none and has four)."""
    if isinstance(value, decimal.Decimal):
        scale = 4 if description[1] in MONEY else description[5]
        return f"{value:.{scale}f}"
    return shown(value)


def error_line(caught):
    procedure = getattr(caught, "procname", "")
    name = f", Procedure {procedure.rsplit('.', 1)[-1]}" if procedure else ""
    return f"Msg {caught.number}, Level {caught.severity}, State {caught.state}{name}, Line {caught.line}"


def answer(driver, connection, batch):
    """What the server says to a batch, as lines; the text of an error follows its Msg line."""
    found, sets = [], 0
    cursor = connection.cursor()
    messages = []

    def collect():
        for _, message in cursor.messages or []:
            messages.append(message)

    latest = None
    try:
        cursor.execute(batch)
        while True:
            # The driver keeps the description of the last result set when a statement without rows follows.
            described = cursor._session.res_info
            if described is not None and described is not latest:
                latest = described
                if sets:
                    found.append("==")
                sets += 1
                found += ["|".join(map(decimals, row, cursor.description)) for row in cursor.fetchall()]
            collect()
            if not cursor.nextset():
                break
    except driver.module.Error as caught:
        if not getattr(caught, "number", 0):
            raise
        found += [error_line(caught), caught.args[0] if caught.args else str(caught)]
    seen = []
    for message in messages:
        if message not in seen:
            seen.append(message)
            if getattr(message, "number", 0) == NULLS_ELIMINATED:
                continue
            if not getattr(message, "number", 0) or getattr(message, "severity", 0) <= 10:
                found.append("> " + str(message.args[0]))
    return found


def alike(want, got):
    """Compares; the text of an error counts only where the file gives it, and `*` stands for any value."""
    got = list(got)
    for index, line in enumerate(want):
        if line.startswith("Msg ") and (index + 1 == len(want) or want[index + 1].startswith(("Msg ", ">", "=="))):
            if index + 1 < len(got) and got[index].startswith("Msg "):
                del got[index + 1]
    if len(want) != len(got):
        return False
    return all(same(line, have) for line, have in zip(want, got))


def same(want, have):
    parts = want.split("|")
    if "*" in parts:
        given = have.split("|")
        return len(parts) == len(given) and all(part in ("*", value) for part, value in zip(parts, given))
    return want == have


def main():
    driver = PyTds()
    paths = [pathlib.Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.sqlt"))
    passed = failed = 0
    for path in paths:
        database = f"sqlt_{path.stem}"
        master = driver.connect("master", encryption="off")
        master.cursor().execute(f"IF DB_ID(N'{database}') IS NOT NULL DROP DATABASE {database}")
        master.cursor().execute(f"CREATE DATABASE {database}")
        master.close()
        connection = driver.connect(database, encryption="off")
        for line, batch, want in blocks(path):
            try:
                got = answer(driver, connection, batch)
            except Exception as caught:  # noqa: BLE001 - a broken connection is this block's result
                got = [f"{type(caught).__name__}: {caught}"]
                try:
                    connection = driver.connect(database, encryption="off")
                except Exception:  # noqa: BLE001 - the next block says so
                    pass
            if alike(want, got):
                passed += 1
                print(f"PASS {path.stem}:{line}")
            else:
                failed += 1
                print(f"FAIL {path.stem}:{line}: {batch.split(chr(10))[0][:100]} || want {want} || got {got}")
        connection.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
