package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
	mssql "github.com/microsoft/go-mssqldb"
)

// Each product's own fastest way of loading rows from a client, in one transaction, into a table with its indexes in place.

var columnNames = []string{"SalesOrderID", "SalesOrderDetailID", "CarrierTrackingNumber", "OrderQty", "ProductID", "SpecialOfferID", "UnitPrice",
	"UnitPriceDiscount", "LineTotal", "rowguid", "ModifiedDate"}

func loadDaruma(ctx context.Context, e *engine, data *dataset, table string) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statement, err := tx.PrepareContext(ctx, mssql.CopyIn(table, mssql.BulkOptions{Tablock: true}, columnNames...))
	if err != nil {
		return err
	}
	for index := range data.lines {
		line := &data.lines[index]
		var tracking any
		if line.tracking != nil {
			tracking = *line.tracking
		}
		if _, err := statement.ExecContext(ctx, line.order, line.detail, tracking, line.quantity, line.product, line.offer, line.price,
			line.discount, line.total, line.rowguid[:], line.modified); err != nil {
			return err
		}
	}
	if _, err := statement.ExecContext(ctx); err != nil {
		return err
	}
	if err := statement.Close(); err != nil {
		return err
	}
	return tx.Commit()
}

// numeric reads plain decimal digits.
func numeric(text string) pgtype.Numeric {
	whole, fraction, _ := strings.Cut(text, ".")
	digits, _ := new(big.Int).SetString(whole+fraction, 10)
	return pgtype.Numeric{Int: digits, Exp: int32(-len(fraction)), Valid: digits != nil}
}

func loadPostgres(ctx context.Context, e *engine, data *dataset, table string) error {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	names := make([]string, len(columnNames))
	for index, name := range columnNames {
		names[index] = strings.ToLower(name)
	}
	return conn.Raw(func(raw any) error {
		native := raw.(*stdlib.Conn).Conn()
		_, err := native.CopyFrom(ctx, pgx.Identifier{table}, names, pgx.CopyFromSlice(len(data.lines), func(index int) ([]any, error) {
			line := &data.lines[index]
			return []any{line.order, line.detail, line.tracking, line.quantity, line.product, line.offer, numeric(line.price),
				numeric(line.discount), numeric(line.total), line.rowguid, line.modified}, nil
		}))
		return err
	})
}

func loadMariaDB(ctx context.Context, e *engine, data *dataset, table string) error {
	mysql.RegisterReaderHandler("sales", func() io.Reader {
		reader, writer := io.Pipe()
		go func() {
			var text []byte
			for index := range data.lines {
				line := &data.lines[index]
				tracking := `\N`
				if line.tracking != nil {
					tracking = *line.tracking
				}
				text = fmt.Appendf(text, "%d\t%d\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", line.order, line.detail, tracking, line.quantity,
					line.product, line.offer, line.price, line.discount, line.total, guidText(line.rowguid), line.modified.Format(timeLayout))
				if len(text) > 1<<16 {
					if _, err := writer.Write(text); err != nil {
						return
					}
					text = text[:0]
				}
			}
			_, _ = writer.Write(text)
			writer.Close()
		}()
		return reader
	})
	defer mysql.DeregisterReaderHandler("sales")
	_, err := e.db.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::sales' INTO TABLE "+table)
	return err
}

func loadSQLite(ctx context.Context, e *engine, data *dataset, table string) error {
	return insertRows(ctx, e, "INSERT INTO "+table+" VALUES ("+e.dialect.parameters(salesColumns)+")", len(data.lines), func(index int) []any {
		line := &data.lines[index]
		return []any{line.order, line.detail, line.tracking, line.quantity, line.product, line.offer, float(line.price), float(line.discount),
			float(line.total), line.rowguid[:], line.modified.Format(timeLayout)}
	})
}

func float(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

// insertRows inserts with one prepared statement in one transaction.
func insertRows(ctx context.Context, e *engine, text string, count int, row func(int) []any) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statement, err := tx.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer statement.Close()
	for index := range count {
		if _, err := statement.ExecContext(ctx, row(index)...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// loadSmallTables fills the tables that the joins need besides the sales lines.
func loadSmallTables(ctx context.Context, e *engine, data *dataset) error {
	insert := func(table string, columns, count int, row func(int) []any) error {
		return insertRows(ctx, e, "INSERT INTO "+table+" VALUES ("+e.dialect.parameters(columns)+")", count, row)
	}
	err := insert("headers", 5, len(data.headers), func(index int) []any {
		h := data.headers[index]
		return []any{h.order, h.customer, h.territory, h.ordered.Format(timeLayout), h.subTotal}
	})
	if err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	err = insert("customers", 2, len(data.customers), func(index int) []any {
		return []any{data.customers[index].id, data.customers[index].territory}
	})
	if err != nil {
		return fmt.Errorf("customers: %w", err)
	}
	err = insert("products", 4, len(data.products), func(index int) []any {
		p := data.products[index]
		return []any{p.id, sql.NullInt64{Int64: p.subcategory, Valid: p.subcategory != 0}, p.name, p.listPrice}
	})
	if err != nil {
		return fmt.Errorf("products: %w", err)
	}
	return nil
}
