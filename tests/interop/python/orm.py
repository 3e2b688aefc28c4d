"""SQLAlchemy over pymssql and over pyodbc: what an application on an ORM does on its first day. orm.py {pymssql|pyodbc}

Creates tables from classes, inserts with generated keys, queries with joins and paging, uses savepoints, and reflects the tables back.
Prints PASS or FAIL with the step's name; the exit code says whether all passed.
"""

import datetime
import decimal
import sys
import urllib.parse

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

import drivers


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.Unicode(50), unique=True)
    note: Mapped[str | None] = mapped_column(sa.UnicodeText)
    orders: Mapped[list["Order"]] = relationship(back_populates="customer")


class Order(Base):
    __tablename__ = "customer_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customer.id"), index=True)
    total: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(12, 2))
    placed: Mapped[datetime.datetime] = mapped_column(sa.DateTime, server_default=sa.func.current_timestamp())
    paid: Mapped[bool] = mapped_column(sa.Boolean, default=False)
    customer: Mapped[Customer] = relationship(back_populates="orders")


def engine(driver, database):
    if driver == "pymssql":
        url = sa.URL.create("mssql+pymssql", drivers.USER, drivers.PASSWORD, drivers.HOST, drivers.PORT, database)
    else:
        text = (f"Driver={drivers.microsoft_driver()};Server=tcp:{drivers.HOST},{drivers.PORT};UID={drivers.USER};PWD={{{drivers.PASSWORD}}};"
                f"Database={database};Encrypt=yes;TrustServerCertificate=yes")
        url = "mssql+pyodbc:///?odbc_connect=" + urllib.parse.quote_plus(text)
    return sa.create_engine(url)


class Steps:
    def __init__(self, driver):
        self.driver = driver
        self.database = "interop_orm_" + driver

    def database_made(self):
        with engine(self.driver, "master").connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text(f"IF DB_ID(N'{self.database}') IS NOT NULL DROP DATABASE {self.database}"))
            connection.execute(sa.text(f"CREATE DATABASE {self.database}"))
        self.engine = engine(self.driver, self.database)

    def create_all(self):
        Base.metadata.create_all(self.engine)
        Base.metadata.create_all(self.engine)

    def insert(self):
        with Session(self.engine) as session:
            session.add_all([Customer(name=f"Kundin {number}", note="ü" * number,
                                      orders=[Order(total=decimal.Decimal(number) * 10) for _ in range(number)]) for number in range(1, 6)])
            session.commit()

    def query(self):
        with Session(self.engine) as session:
            rows = session.execute(sa.select(Customer.name, sa.func.count(Order.id), sa.func.sum(Order.total)).join(Order)
                                   .group_by(Customer.name).order_by(sa.desc(sa.func.sum(Order.total)))).all()
            assert [tuple(row) for row in rows][:2] == [("Kundin 5", 5, decimal.Decimal("250.00")), ("Kundin 4", 4, decimal.Decimal("160.00"))], rows
            page = session.scalars(sa.select(Customer).order_by(Customer.id).offset(1).limit(2).options(selectinload(Customer.orders))).all()
            assert [(one.name, len(one.orders)) for one in page] == [("Kundin 2", 2), ("Kundin 3", 3)], page

    def update_delete(self):
        with Session(self.engine) as session:
            one = session.scalars(sa.select(Customer).where(Customer.name == "Kundin 1")).one()
            one.note = None
            for order in list(one.orders):
                session.delete(order)
            session.commit()
            assert session.scalar(sa.select(sa.func.count()).select_from(Order)) == 14

    def savepoint(self):
        with Session(self.engine) as session:
            session.add(Customer(name="kept"))
            session.flush()
            try:
                with session.begin_nested():
                    session.add(Customer(name="kept"))
                    session.flush()
            except sa.exc.IntegrityError:
                pass
            else:
                raise AssertionError("the duplicate was accepted")
            session.commit()
            assert session.scalar(sa.select(sa.func.count()).where(Customer.name == "kept")) == 1

    def reflect(self):
        found = sa.MetaData()
        found.reflect(self.engine)
        assert sorted(found.tables) == ["customer", "customer_order"], sorted(found.tables)
        order = found.tables["customer_order"]
        assert [column.name for column in order.primary_key] == ["id"]
        assert [key.target_fullname for key in order.foreign_keys] == ["customer.id"]
        assert isinstance(order.c.total.type, sa.Numeric) and order.c.total.type.scale == 2
        inspector = sa.inspect(self.engine)
        assert any(index["column_names"] == ["customer_id"] for index in inspector.get_indexes("customer_order"))
        assert inspector.has_table("customer") and not inspector.has_table("nothing")

    def drop_all(self):
        Base.metadata.drop_all(self.engine)
        assert sa.inspect(self.engine).get_table_names() == []


def main():
    steps = Steps(sys.argv[1])
    passed = failed = 0
    for name in ("database_made", "create_all", "insert", "query", "update_delete", "savepoint", "reflect", "drop_all"):
        try:
            getattr(steps, name)()
        except Exception as caught:  # noqa: BLE001 - every failure of any kind is the step's result
            failed += 1
            print(f"FAIL {name}: {type(caught).__name__}: {str(caught)[:400]}".replace("\n", " | "))
        else:
            passed += 1
            print("PASS", name)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
