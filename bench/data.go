package main

import (
	"compress/gzip"
	"crypto/md5"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A line of Sales.SalesOrderDetail. Amounts are kept as text, so that every engine gets exactly the same decimal digits.
type salesLine struct {
	order, detail, quantity, product, offer int64
	tracking                                *string
	price, discount, total                  string
	rowguid                                 [16]byte
	modified                                time.Time
}

type header struct {
	order, customer, territory int64
	ordered                    time.Time
	subTotal                   string
}

type customer struct{ id, territory int64 }

type product struct {
	id, subcategory int64 // subcategory 0 stands for NULL
	name, listPrice string
}

type dataset struct {
	lines     []salesLine
	headers   []header
	customers []customer
	products  []product
	quantity  int64
	total     float64
	price     float64
}

const timeLayout = "2006-01-02 15:04:05"

// eachRow calls visit with a function that reads a column by name, for every row of a table's file.
func eachRow(folder, table string, visit func(get func(string) string) error) error {
	file, err := os.Open(filepath.Join(folder, table+".csv.gz"))
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	reader := csv.NewReader(unzipped)
	head, err := reader.Read()
	if err != nil {
		return err
	}
	position := map[string]int{}
	for index, name := range head {
		position[name] = index
	}
	records, err := reader.ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	for _, record := range records {
		if err := visit(func(name string) string { return record[position[name]] }); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return nil
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return value
}

// rowguid is not in the file: it is derived from the key, so that every run and every engine has the same values.
func rowguid(detail int64) [16]byte {
	guid := md5.Sum(strconv.AppendInt(nil, detail, 10))
	guid[6] = guid[6]&0x0f | 0x40
	guid[8] = guid[8]&0x3f | 0x80
	return guid
}

func guidText(g [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", g[0:4], g[4:6], g[6:8], g[8:10], g[10:])
}

func loadData(folder string) (*dataset, error) {
	data := &dataset{}
	err := eachRow(folder, "Sales.SalesOrderDetail", func(get func(string) string) error {
		modified, err := time.Parse(timeLayout, get("ModifiedDate"))
		if err != nil {
			return err
		}
		line := salesLine{order: number(get("SalesOrderID")), detail: number(get("SalesOrderDetailID")), quantity: number(get("OrderQty")),
			product: number(get("ProductID")), offer: number(get("SpecialOfferID")), price: get("UnitPrice"),
			discount: get("UnitPriceDiscount"), total: get("LineTotal"), modified: modified}
		if tracking := get("CarrierTrackingNumber"); tracking != "" {
			line.tracking = &tracking
		}
		line.rowguid = rowguid(line.detail)
		data.quantity += line.quantity
		total, err := strconv.ParseFloat(line.total, 64)
		if err != nil {
			return err
		}
		price, err := strconv.ParseFloat(line.price, 64)
		data.total += total
		data.price += price
		data.lines = append(data.lines, line)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = eachRow(folder, "Sales.SalesOrderHeader", func(get func(string) string) error {
		ordered, err := time.Parse(timeLayout, get("OrderDate"))
		data.headers = append(data.headers, header{order: number(get("SalesOrderID")), customer: number(get("CustomerID")),
			territory: number(get("TerritoryID")), ordered: ordered, subTotal: get("SubTotal")})
		return err
	})
	if err != nil {
		return nil, err
	}
	err = eachRow(folder, "Sales.Customer", func(get func(string) string) error {
		data.customers = append(data.customers, customer{id: number(get("CustomerID")), territory: number(get("TerritoryID"))})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachRow(folder, "Production.Product", func(get func(string) string) error {
		data.products = append(data.products, product{id: number(get("ProductID")), subcategory: number(get("ProductSubcategoryID")),
			name: get("Name"), listPrice: get("ListPrice")})
		return nil
	})
	return data, err
}
