package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	mssql "github.com/microsoft/go-mssqldb"
)

// The order matters: what leaves dead rows and long log behind comes last.
func runWorkloads(o options, data *dataset, engines []*engine, results *results) error {
	b := &bench{o: o, data: data, engines: engines, results: results}
	steps := []struct {
		name string
		run  func() error
	}{
		{"startup", b.startup},
		{"bulk_load", b.bulkLoad},
		{"", b.prepare},
		{"point", b.points},
		{"scan", func() error { return b.queries("scan") }},
		{"join", func() error { return b.queries("join") }},
		{"commits", b.commits},
		{"lean", b.lean},
		{"loop", b.loop},
		{"delayed", b.delayed},
		{"update_pair", b.pair},
		{"update_sessions", b.pairSessions},
	}
	for _, step := range steps {
		if step.name != "" && !o.selected(step.name) && !(step.name == "lean" && o.selectsLean()) {
			continue
		}
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (o options) selected(name string) bool {
	if o.only == "" {
		return true
	}
	for part := range strings.SplitSeq(o.only, ",") {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// selectsLean says whether single workloads of the group are named, such as lean_commits_16.
func (o options) selectsLean() bool {
	return strings.HasPrefix(o.only, "lean_") || strings.Contains(o.only, ",lean_")
}

type bench struct {
	o       options
	data    *dataset
	engines []*engine
	results *results
}

// turns gives every engine its turn in every round, each round beginning with another one. An engine that fails a workload is
// out of it, and the reason goes into the results.
func (b *bench) turns(workload string, rounds int, measure func(e *engine, round int) error) error {
	failed := map[string]bool{}
	for round := range rounds {
		for i := range b.engines {
			e := b.engines[(round+i)%len(b.engines)]
			if failed[e.name] {
				continue
			}
			if err := e.thaw(); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			if err := measure(e, round); err != nil {
				log.Printf("%s: %s FAILED: %v", workload, e.name, err)
				b.results.fail(workload, e.name, err)
				failed[e.name] = true
			}
			if err := e.freeze(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) record(workload, engine, unit string, higherIsBetter bool, value float64, note string) {
	log.Printf("%-22s %-11s %12.3f %s %s", workload, engine, value, unit, note)
	b.results.add(workload, engine, unit, higherIsBetter, value, note)
}

// startup measures a second instance of each server, without data of ours: time from starting the program to the first answer,
// and memory afterwards.
func (b *bench) startup() error {
	for _, e := range b.engines {
		if e.launch == nil {
			continue
		}
		empty, err := newEngine(e.name, filepath.Join(filepath.Dir(e.folder), e.name+"-empty"), b.o)
		if err != nil {
			return err
		}
		if err := empty.install(); err != nil {
			return err
		}
		for round := range b.o.rounds + 1 {
			db, took, err := empty.begin()
			if err != nil {
				empty.stop()
				return fmt.Errorf("%s: %w", e.name, err)
			}
			if round > 0 {
				b.record("startup_first_query", e.name, "ms", false, float64(took.Microseconds())/1000, "")
			}
			if round == b.o.rounds {
				memory, err := empty.server.memoryKiB()
				if err != nil {
					return err
				}
				b.record("memory_idle", e.name, "MiB", false, float64(memory)/1024, "proportional set size, all processes")
			}
			db.Close()
			empty.stop()
		}
	}
	return nil
}

func createSales(e *engine, table string) error {
	for _, statement := range e.dialect.sales {
		if _, err := e.db.Exec(fmt.Sprintf(statement, table)); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// checkSales compares a sales table with the data it was made from.
func (b *bench) checkSales(e *engine, table string) error {
	var count, quantity, tracked int64
	var price, total float64
	if err := e.db.QueryRow(fmt.Sprintf(e.dialect.salesSums, table)).Scan(&count, &quantity, &price, &total, &tracked); err != nil {
		return err
	}
	if count != int64(len(b.data.lines)) || quantity != b.data.quantity || tracked != 60919 ||
		math.Abs(total-b.data.total) > 0.01 || math.Abs(price-b.data.price) > 0.01 {
		return fmt.Errorf("wrong sums in %s: %d rows, quantity %d, price %f, total %f, tracked %d", table, count, quantity, price, total, tracked)
	}
	return nil
}

func (b *bench) bulkLoad() error {
	return b.turns("bulk_load", b.o.rounds, func(e *engine, round int) error {
		const table = "loaded"
		if err := createSales(e, table); err != nil {
			return err
		}
		started := time.Now()
		if err := e.load(context.Background(), e, b.data, table); err != nil {
			return err
		}
		took := time.Since(started)
		if err := b.checkSales(e, table); err != nil {
			return err
		}
		b.record("bulk_load", e.name, "s", false, took.Seconds(), "121,317 rows, three indexes in place")
		_, err := e.db.Exec("DROP TABLE " + table)
		return err
	})
}

// prepare builds the tables that the other workloads use.
func (b *bench) prepare() error {
	for _, e := range b.engines {
		if err := e.thaw(); err != nil {
			return err
		}
		err := errors.Join(createSales(e, "sales"))
		if err == nil {
			err = e.load(context.Background(), e, b.data, "sales")
		}
		if err == nil {
			err = b.checkSales(e, "sales")
		}
		if err == nil {
			err = loadSmallTables(context.Background(), e, b.data)
		}
		if err == nil && e.name == "postgresql" {
			_, err = e.db.Exec("VACUUM ANALYZE")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if err := e.freeze(); err != nil {
			return err
		}
	}
	return nil
}

// sessions runs work on n connections at once, counted from the moment when all of them stand, and returns how long it took
// and the first error.
func sessions(e *engine, n int, work func(session int, conn *sql.Conn, started time.Time) error) (time.Duration, error) {
	ctx := context.Background()
	connections := make([]*sql.Conn, n)
	for index := range connections {
		conn, err := e.db.Conn(ctx)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		if err := conn.PingContext(ctx); err != nil {
			return 0, err
		}
		connections[index] = conn
	}
	var group sync.WaitGroup
	failures := make([]error, n)
	started := time.Now()
	for index, conn := range connections {
		group.Go(func() { failures[index] = work(index, conn, started) })
	}
	group.Wait()
	return time.Since(started), errors.Join(failures...)
}

// cost remembers the processor time of server and client, to say what an operation cost each of them.
type cost struct{ server, client time.Duration }

func costNow(e *engine) cost {
	var now cost
	if e.server != nil {
		now.server = e.server.cpuTime()
	}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		now.client = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return now
}

func (before cost) per(e *engine, operations int) string {
	if operations == 0 {
		return ""
	}
	now := costNow(e)
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(operations) }
	return fmt.Sprintf("; CPU for each: server %.1f us, client %.1f us", each(now.server-before.server), each(now.client-before.client))
}

// latencies merges what the sessions measured into a remark with the median and the 99th percentile.
func latencies(all [][]time.Duration) string {
	merged := slices.Concat(all...)
	if len(merged) == 0 {
		return ""
	}
	slices.Sort(merged)
	at := func(q float64) float64 { return float64(merged[int(q*float64(len(merged)-1))].Microseconds()) / 1000 }
	return fmt.Sprintf("p50 %.3f ms, p99 %.3f ms", at(0.5), at(0.99))
}

func (b *bench) points() error {
	for _, n := range []int{1, 8} {
		name := fmt.Sprintf("point_%d", n)
		err := b.turns(name, b.o.rounds, func(e *engine, round int) error {
			taken := make([][]time.Duration, n)
			before := costNow(e)
			elapsed, err := sessions(e, n, func(session int, conn *sql.Conn, started time.Time) error {
				statement, err := conn.PrepareContext(context.Background(), e.dialect.point)
				if err != nil {
					return err
				}
				defer statement.Close()
				position := session * 15013
				for time.Since(started) < b.o.seconds {
					position = (position + 48271) % len(b.data.lines)
					line := &b.data.lines[position]
					var quantity, product int64
					asked := time.Now()
					if err := statement.QueryRow(line.order, line.detail).Scan(&quantity, &product); err != nil {
						return err
					}
					taken[session] = append(taken[session], time.Since(asked))
					if quantity != line.quantity || product != line.product {
						return fmt.Errorf("order %d, line %d: wrong row", line.order, line.detail)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			done := 0
			for _, one := range taken {
				done += len(one)
			}
			b.record(name, e.name, "/s", true, float64(done)/elapsed.Seconds(), latencies(taken)+before.per(e, done))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// groupRow is a row of the grouping queries; the key of the group of NULLs is 0.
type groupRow struct {
	key, count, quantity int64
	total                float64
}

func (b *bench) grouped(key func(*salesLine) (int64, bool)) []groupRow {
	found := map[int64]*groupRow{}
	for index := range b.data.lines {
		line := &b.data.lines[index]
		group, in := key(line)
		if !in {
			continue
		}
		if found[group] == nil {
			found[group] = &groupRow{key: group}
		}
		row := found[group]
		row.count++
		row.quantity += line.quantity
		row.total += float(line.total)
	}
	var rows []groupRow
	for _, row := range found {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b groupRow) int { return int(a.key - b.key) })
	return rows
}

func (b *bench) expected() map[string][]groupRow {
	customers := map[int64]int64{}
	for _, c := range b.data.customers {
		customers[c.id] = c.territory
	}
	territory := map[int64]int64{}
	for _, h := range b.data.headers {
		territory[h.order] = customers[h.customer]
	}
	products := map[int64]product{}
	for _, p := range b.data.products {
		products[p.id] = p
	}
	return map[string][]groupRow{
		"scan_group":     b.grouped(func(l *salesLine) (int64, bool) { return l.product, true }),
		"join_territory": b.grouped(func(l *salesLine) (int64, bool) { return territory[l.order], true }),
		"join_category": b.grouped(func(l *salesLine) (int64, bool) {
			p := products[l.product]
			return p.subcategory, float(p.listPrice) > 1000
		}),
	}
}

func (b *bench) queries(kind string) error {
	expected := b.expected()
	names := map[string][]string{"scan": {"scan_sum", "scan_group"}, "join": {"join_territory", "join_category"}}[kind]
	for _, name := range names {
		err := b.turns(name, b.o.rounds, func(e *engine, round int) error {
			text := map[string]string{"scan_sum": e.dialect.scanSum, "scan_group": e.dialect.scanGroup,
				"join_territory": e.dialect.joinTerritory, "join_category": e.dialect.joinCategory}[name]
			const runs = 5
			best := math.Inf(1)
			for range runs {
				started := time.Now()
				var err error
				if name == "scan_sum" {
					err = b.scanSum(e, text)
				} else {
					err = checkGroups(e, text, expected[name])
				}
				if err != nil {
					return err
				}
				best = min(best, float64(time.Since(started).Microseconds())/1000)
			}
			b.record(name, e.name, "ms", false, best, fmt.Sprintf("best of %d in each round", runs))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) scanSum(e *engine, text string) error {
	var count, quantity int64
	var total, low, high float64
	if err := e.db.QueryRow(text).Scan(&count, &quantity, &total, &low, &high); err != nil {
		return err
	}
	if count != int64(len(b.data.lines)) || quantity != b.data.quantity || math.Abs(total-b.data.total) > 0.01 {
		return fmt.Errorf("wrong sums: %d rows, quantity %d, total %f", count, quantity, total)
	}
	return nil
}

func checkGroups(e *engine, text string, want []groupRow) error {
	rows, err := e.db.Query(text)
	if err != nil {
		return err
	}
	defer rows.Close()
	position := 0
	for rows.Next() {
		var key sql.NullInt64
		var got groupRow
		if err := rows.Scan(&key, &got.count, &got.quantity, &got.total); err != nil {
			return err
		}
		if position >= len(want) {
			return errors.New("too many groups")
		}
		expected := want[position]
		if key.Int64 != expected.key || got.count != expected.count || got.quantity != expected.quantity || math.Abs(got.total-expected.total) > 0.01 {
			return fmt.Errorf("group %d: got %v, want %v", position, got, expected)
		}
		position++
	}
	if position != len(want) {
		return fmt.Errorf("%d groups, want %d", position, len(want))
	}
	return rows.Err()
}

func (b *bench) commits() error {
	return b.commitRuns("commits", func(_ *engine, measure func() error) error { return measure() })
}

// commitRuns measures single-row commits; `around` prepares an engine for it and puts it back.
func (b *bench) commitRuns(workload string, around func(e *engine, measure func() error) error) error {
	filler := strings.Repeat("f", 100)
	var key atomic.Int64
	for _, n := range []int{1, 4, 16, 64} {
		name := fmt.Sprintf("%s_%d", workload, n)
		measure := func(e *engine) error {
			if e.writers > 0 && n > e.writers {
				return nil
			}
			if _, err := e.db.Exec(e.dialect.emptyCommits); err != nil {
				return err
			}
			taken := make([][]time.Duration, n)
			before := costNow(e)
			elapsed, err := sessions(e, n, func(session int, conn *sql.Conn, started time.Time) error {
				statement, err := conn.PrepareContext(context.Background(), e.dialect.commit)
				if err != nil {
					return err
				}
				defer statement.Close()
				for time.Since(started) < b.o.seconds {
					asked := time.Now()
					if _, err := statement.Exec(key.Add(1), session+1, filler); err != nil {
						return err
					}
					taken[session] = append(taken[session], time.Since(asked))
				}
				return nil
			})
			if err != nil {
				return err
			}
			var done, sum, count, got int64
			for session, one := range taken {
				done += int64(len(one))
				sum += int64(len(one)) * int64(session+1)
			}
			used := before.per(e, int(done))
			if err := e.db.QueryRow(e.dialect.commitSums).Scan(&count, &got); err != nil {
				return err
			}
			if count != done || got != sum {
				return fmt.Errorf("%d commits acknowledged, %d rows; sum %d, found %d", done, count, sum, got)
			}
			b.record(name, e.name, "/s", true, float64(done)/elapsed.Seconds(), latencies(taken)+used)
			return nil
		}
		err := b.turns(name, b.o.rounds, func(e *engine, _ int) error {
			return around(e, func() error { return measure(e) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func deadlock(err error) bool {
	var server mssql.Error
	if errors.As(err, &server) {
		return server.Number == 1205
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "40P01"
	}
	var my *mysql.MySQLError
	return errors.As(err, &my) && my.Number == 1213
}

// updateAll runs one of the two statements until it succeeds and counts the deadlocks on the way.
func (b *bench) updateAll(ctx context.Context, conn *sql.Conn, text string, deadlocks *atomic.Int64) error {
	for {
		outcome, err := conn.ExecContext(ctx, text)
		if err == nil {
			count, err := outcome.RowsAffected()
			if err == nil && count != int64(len(b.data.lines)) {
				err = fmt.Errorf("%d rows updated, want %d", count, len(b.data.lines))
			}
			return err
		}
		if ctx.Err() != nil || !deadlock(err) {
			return err
		}
		deadlocks.Add(1)
	}
}

func (b *bench) pair() error {
	return b.turns("update_pair", b.o.leanRounds, func(e *engine, round int) error {
		ctx := context.Background()
		_, err := sessions(e, 1, func(_ int, conn *sql.Conn, _ time.Time) error {
			var deadlocks atomic.Int64
			for range b.o.pairs {
				started := time.Now()
				if err := b.updateAll(ctx, conn, e.dialect.updatePlus, &deadlocks); err != nil {
					return err
				}
				if err := b.updateAll(ctx, conn, e.dialect.updateMinus, &deadlocks); err != nil {
					return err
				}
				b.record("update_pair", e.name, "s", false, time.Since(started).Seconds(), "two UPDATEs of all rows, each its own transaction")
			}
			return b.checkSales(e, "sales")
		})
		return err
	})
}

// pairSessions is the pair from several sessions at once, as written: no locks taken by hand, a deadlock's victim tries again.
func (b *bench) pairSessions() error {
	name := fmt.Sprintf("update_sessions_%dx%d", b.o.sessions, b.o.iterations)
	return b.turns(name, 1, func(e *engine, round int) error {
		ctx, cancel := context.WithTimeout(context.Background(), b.o.cap)
		defer cancel()
		var deadlocks, pairs atomic.Int64
		slowest := make([]time.Duration, b.o.sessions)
		quickest := make([]time.Duration, b.o.sessions)
		elapsed, err := sessions(e, b.o.sessions, func(session int, conn *sql.Conn, _ time.Time) error {
			for range b.o.iterations {
				before := time.Now()
				if err := b.updateAll(ctx, conn, e.dialect.updatePlus, &deadlocks); err != nil {
					return err
				}
				if err := b.updateAll(ctx, conn, e.dialect.updateMinus, &deadlocks); err != nil {
					return err
				}
				took := time.Since(before)
				slowest[session] = max(slowest[session], took)
				if quickest[session] == 0 || took < quickest[session] {
					quickest[session] = took
				}
				pairs.Add(1)
			}
			return nil
		})
		if ctx.Err() != nil {
			b.record(name, e.name, "s", false, elapsed.Seconds(), fmt.Sprintf("NOT FINISHED: %d of %d pairs, %d deadlocks", pairs.Load(),
				b.o.sessions*b.o.iterations, deadlocks.Load()))
			return nil
		}
		if err != nil {
			return err
		}
		b.record(name, e.name, "s", false, elapsed.Seconds(), fmt.Sprintf("%d deadlocks, one iteration %.2f to %.2f s", deadlocks.Load(),
			slices.Min(quickest).Seconds(), slices.Max(slowest).Seconds()))
		return b.checkSales(e, "sales")
	})
}
