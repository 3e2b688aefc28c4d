// Command crash kills the server under load, again and again, and checks after every restart that nothing was lost.
//
// Several writers keep a journal of what they asked for and what the server acknowledged. At a random moment the server gets
// SIGKILL, sometimes once more while it recovers. After the restart:
//
//  1. every acknowledged transaction is there, whole;
//  2. a transaction whose acknowledgement never came is there whole or not at all;
//  3. a transaction that was rolled back, or was open when the server died, has left nothing;
//  4. every account's balance is its start plus what the surviving transfers say, and the total has not changed;
//  5. the secondary index holds the same rows as the table.
//
// What is in doubt after a crash is settled by what the first check finds; from then on it must stay so.
// Randomness comes from one seed, which is printed; timing still differs between runs.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

const (
	password      = "Crash-loop-1!"
	accounts      = 100
	startBalance  = 1000
	openRows      = 2000 // rows that the transaction which never commits keeps changing
	journalLimit  = 150_000
	restartLimit  = 120 * time.Second
	statementTime = 60 * time.Second
)

type settings struct {
	binary, folder string
	seconds        int
	writers        int
	seed           uint64
}

func main() {
	log.SetFlags(log.Ltime)
	var s settings
	flag.StringVar(&s.binary, "server", "", "the server's binary")
	flag.StringVar(&s.folder, "folder", "", "folder for the data (otherwise a scratch folder that is deleted)")
	flag.IntVar(&s.seconds, "seconds", 60, "how long to go on")
	flag.IntVar(&s.writers, "writers", 8, "writing sessions")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "start of the random numbers")
	flag.Parse()
	violations, err := run(s)
	if err != nil {
		log.Fatal(err)
	}
	if violations > 0 {
		os.Exit(1)
	}
}

type loop struct {
	settings
	random   *rand.Rand
	port     int
	server   *exec.Cmd
	ended    chan struct{}
	logPath  string
	writers  []*writer
	baseline []int64
	kills    int
	checks   int64
	// Commits that the checks have seen, each once.
	acknowledged int64
	inDoubt      int
	longest      time.Duration

	mutex      sync.Mutex // the writers add violations too
	violations []string
}

func run(s settings) (int, error) {
	if s.folder == "" {
		folder, err := os.MkdirTemp("", "daruma-crash-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(folder)
		s.folder = folder
	}
	l := &loop{settings: s, random: rand.New(rand.NewPCG(s.seed, 1)), logPath: filepath.Join(s.folder, "server.log")}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	l.port = listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	defer l.kill()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	var stop atomic.Bool
	go func() { <-interrupted; stop.Store(true) }()

	log.Printf("seed %d, %d writers, %d seconds", s.seed, l.settings.writers, s.seconds)
	if _, err := l.start(); err != nil {
		return 0, err
	}
	if err := l.create(); err != nil {
		return 0, err
	}
	for index := range l.settings.writers {
		l.writers = append(l.writers, &writer{loop: l, id: index + 1, random: rand.New(rand.NewPCG(s.seed, uint64(index)+2))})
	}
	until := time.Now().Add(time.Duration(s.seconds) * time.Second)
	for round := 1; !stop.Load() && (round == 1 || time.Now().Before(until)); round++ {
		if err := l.round(round); err != nil {
			return 0, err
		}
		if len(l.violations) > 0 {
			break
		}
	}
	for _, text := range l.violations {
		fmt.Println("VIOLATION", text)
	}
	if len(l.violations) > 0 {
		fmt.Printf("seed %d; the server's last lines:\n%s\n", s.seed, l.serverLog())
	}
	fmt.Printf("crash loop: %d kills, %d commits acknowledged and checked after every later restart (%d checks), %d in doubt at a kill, "+
		"longest restart %.2f s, %d violations\n", l.kills, l.acknowledged, l.checks, l.inDoubt, l.longest.Seconds(), len(l.violations))
	return len(l.violations), nil
}

func (l *loop) round(round int) error {
	moment := time.Duration(200+l.random.IntN(2300)) * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, w := range l.writers {
		group.Go(func() { w.work(ctx) })
	}
	group.Go(func() { l.neverCommits(ctx) })
	if l.random.IntN(3) == 0 {
		group.Go(func() { l.checkpoints(ctx) })
	}
	select {
	case <-time.After(moment):
	case <-l.ended:
		cancel()
		group.Wait()
		l.violate("the server ended by itself after %v", moment)
		return nil
	}
	l.kill()
	l.kills++
	cancel()
	group.Wait()

	note := ""
	if l.random.IntN(4) == 0 {
		if err := l.launch(); err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(l.random.IntN(150)) * time.Millisecond):
		case <-l.ended:
		}
		l.kill()
		l.kills++
		note = ", killed again while starting"
	}
	took, err := l.start()
	if err != nil {
		l.violate("the server does not start again: %v", err)
		return nil
	}
	l.longest = max(l.longest, took)
	before := l.checks
	if err := l.verify(); err != nil {
		l.violate("the check failed: %v", err)
		return nil
	}
	if l.serverPanicked() {
		l.violate("the server panicked")
	}
	log.Printf("round %d: killed after %.2f s%s, ready after %.2f s, %d commits checked", round, moment.Seconds(), note, took.Seconds(), l.checks-before)
	return nil
}

func (l *loop) violate(format string, arguments ...any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.violations = append(l.violations, fmt.Sprintf(format, arguments...))
}

// ------------------------------------------------------------------------------------------------ the server

func (l *loop) launch() error {
	output, err := os.OpenFile(l.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	command := exec.Command(l.binary, "serve", "--data", filepath.Join(l.folder, "data"), "--listen", fmt.Sprintf("127.0.0.1:%d", l.port))
	command.Env = append(os.Environ(), "MSSQL_SA_PASSWORD="+password)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	l.server, l.ended = command, ended
	return nil
}

// start launches the server and waits for its first answer to a query of the database.
func (l *loop) start() (time.Duration, error) {
	started := time.Now()
	if err := l.launch(); err != nil {
		return 0, err
	}
	for {
		db := l.open("master")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		var state string
		err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(state_desc), 'NONE') FROM sys.databases WHERE name = 'crash'").Scan(&state)
		cancel()
		db.Close()
		if err == nil && (state == "NONE" || state == "ONLINE") {
			return time.Since(started), nil
		}
		select {
		case <-l.ended:
			return 0, errors.New("it ended: " + l.serverLog())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Since(started) > restartLimit {
			return 0, fmt.Errorf("no answer within %v: %v, state %s", restartLimit, err, state)
		}
	}
}

func (l *loop) kill() {
	if l.server == nil {
		return
	}
	_ = l.server.Process.Kill()
	<-l.ended
	l.server = nil
}

func (l *loop) serverLog() string {
	text, _ := os.ReadFile(l.logPath)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

func (l *loop) serverPanicked() bool {
	file, err := os.Open(l.logPath)
	if err != nil {
		return false
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if strings.Contains(scanner.Text(), "panicked at") {
			return true
		}
	}
	return false
}

func (l *loop) open(database string) *sql.DB {
	db, err := sql.Open("sqlserver", fmt.Sprintf("sqlserver://sa:%s@127.0.0.1:%d?database=%s&encrypt=disable&dial+timeout=10&disableretry=true",
		"Crash-loop-1%21", l.port, database))
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func (l *loop) create() error {
	master := l.open("master")
	defer master.Close()
	if _, err := master.Exec("CREATE DATABASE crash"); err != nil {
		return err
	}
	db := l.open("crash")
	defer db.Close()
	for _, text := range []string{
		"CREATE TABLE dbo.accounts (id int NOT NULL PRIMARY KEY, balance bigint NOT NULL)",
		"CREATE TABLE dbo.rows (writer int NOT NULL, seq bigint NOT NULL, part int NOT NULL, filler varchar(400) NOT NULL, PRIMARY KEY (writer, seq, part))",
		"CREATE INDEX IX_rows_seq ON dbo.rows (seq)",
		"CREATE TABLE dbo.transfers (writer int NOT NULL, seq bigint NOT NULL, source int NOT NULL, target int NOT NULL, amount int NOT NULL, PRIMARY KEY (writer, seq))",
		"CREATE TABLE dbo.untouched (id int NOT NULL PRIMARY KEY, n int NOT NULL, filler char(200) NOT NULL)",
		fmt.Sprintf("DECLARE @i int = 0; SET NOCOUNT ON; WHILE @i < %d BEGIN INSERT dbo.accounts VALUES (@i, %d); SET @i = @i + 1 END", accounts, startBalance),
		fmt.Sprintf("DECLARE @i int = 0; SET NOCOUNT ON; BEGIN TRANSACTION; WHILE @i < %d BEGIN INSERT dbo.untouched VALUES (@i, 0, 'x'); SET @i = @i + 1 END; COMMIT", openRows),
	} {
		if _, err := db.Exec(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	l.baseline = make([]int64, accounts)
	for index := range l.baseline {
		l.baseline[index] = startBalance
	}
	return nil
}

// neverCommits changes every row of a table in a transaction that is open when the server dies, now and then rolled back.
func (l *loop) neverCommits(ctx context.Context) {
	db := l.open("crash")
	defer db.Close()
	for round := 0; ctx.Err() == nil; round++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return
		}
		for range 3 {
			if _, err := tx.ExecContext(ctx, "UPDATE dbo.untouched SET n = n + 1, filler = 'changed'"); err != nil {
				l.unexpected(err)
				return
			}
		}
		if round%4 != 3 {
			if err := tx.Rollback(); err != nil {
				return
			}
			continue
		}
		<-ctx.Done()
		_ = tx.Rollback()
	}
}

func (l *loop) checkpoints(ctx context.Context) {
	db := l.open("crash")
	defer db.Close()
	for ctx.Err() == nil {
		if _, err := db.ExecContext(ctx, "CHECKPOINT"); err != nil {
			l.unexpected(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ----------------------------------------------------------------------------------------------- the writers

type outcome uint8

const (
	unknown outcome = iota // asked for, no answer
	present
	absent
)

type kind uint8

const (
	single   kind = iota // one row, its own transaction
	several              // rows in one transaction
	transfer             // two updates and a row
	undone               // rows, then ROLLBACK
	kinds
)

// An operation in the journal. Its sequence number is its position plus the writer's base.
type operation struct {
	kind    kind
	rows    int
	source  int
	target  int
	amount  int
	outcome outcome
	counted bool
}

type writer struct {
	loop    *loop
	id      int
	random  *rand.Rand
	base    int64
	journal []operation
}

func (w *writer) work(ctx context.Context) {
	db := w.loop.open("crash")
	defer db.Close()
	db.SetMaxOpenConns(1)
	for ctx.Err() == nil {
		op := operation{kind: kind(w.random.IntN(int(kinds))), rows: 1}
		switch op.kind {
		case several, undone:
			op.rows = 2 + w.random.IntN(6)
		case transfer:
			op.source = w.random.IntN(accounts)
			op.target = (op.source + 1 + w.random.IntN(accounts-1)) % accounts
			op.amount = 1 + w.random.IntN(20)
		}
		w.journal = append(w.journal, op)
		entry := &w.journal[len(w.journal)-1]
		seq := w.base + int64(len(w.journal)-1)
		err := w.perform(ctx, db, *entry, seq)
		switch {
		case err == nil && op.kind == undone:
			entry.outcome = absent
		case err == nil:
			entry.outcome = present
		case refused(err):
			entry.outcome = absent // the server said that it undid the transaction
		default:
			w.loop.unexpected(err)
			return // the connection is gone and the outcome unknown
		}
	}
}

// refused says whether the server itself ended the transaction: deadlock victim, update conflict, lock timeout.
func refused(err error) bool {
	var server mssql.Error
	return errors.As(err, &server) && (server.Number == 1205 || server.Number == 3960)
}

// unexpected records an error that the server itself sent; a broken connection is what a kill is about.
func (l *loop) unexpected(err error) {
	var server mssql.Error
	if errors.As(err, &server) && !refused(err) {
		l.violate("the server answered with error %d: %s", server.Number, server.Message)
	}
}

func (w *writer) perform(ctx context.Context, db *sql.DB, op operation, seq int64) error {
	filler := strings.Repeat("abcdefgh", 1+w.random.IntN(40))
	insert := func(q interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}, part int) error {
		_, err := q.ExecContext(ctx, "INSERT dbo.rows VALUES (@p1, @p2, @p3, @p4)", w.id, seq, part, filler)
		return err
	}
	if op.kind == single {
		return insert(db, 0)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if op.kind == transfer {
		for _, step := range []struct {
			text      string
			arguments []any
		}{
			{"UPDATE dbo.accounts SET balance = balance - @p2 WHERE id = @p1", []any{op.source, op.amount}},
			{"UPDATE dbo.accounts SET balance = balance + @p2 WHERE id = @p1", []any{op.target, op.amount}},
			{"INSERT dbo.transfers VALUES (@p1, @p2, @p3, @p4, @p5)", []any{w.id, seq, op.source, op.target, op.amount}},
		} {
			if _, err := tx.ExecContext(ctx, step.text, step.arguments...); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
	for part := range op.rows {
		if err := insert(tx, part); err != nil {
			return err
		}
	}
	if op.kind == undone {
		return tx.Rollback()
	}
	return tx.Commit()
}

// ------------------------------------------------------------------------------------------------- the check

type key struct {
	writer int
	seq    int64
}

func (l *loop) verify() error {
	db := l.open("crash")
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), statementTime)
	defer cancel()
	parts := map[key]int{}
	var total, sum int64
	rows, err := db.QueryContext(ctx, "SELECT writer, seq, part FROM dbo.rows")
	if err != nil {
		return err
	}
	for rows.Next() {
		var k key
		var part int
		if err := rows.Scan(&k.writer, &k.seq, &part); err != nil {
			return err
		}
		parts[k]++
		total++
		sum += k.seq
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	var indexed int64
	var indexedSum sql.NullInt64
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*), SUM(seq) FROM dbo.rows WHERE seq >= 0").Scan(&indexed, &indexedSum); err != nil {
		return err
	}
	if indexed != total || indexedSum.Int64 != sum {
		l.violate("index holds %d rows with sum %d, table %d rows with sum %d", indexed, indexedSum.Int64, total, sum)
	}

	type moved struct{ source, target, amount int }
	transfers := map[key]moved{}
	rows, err = db.QueryContext(ctx, "SELECT writer, seq, source, target, amount FROM dbo.transfers")
	if err != nil {
		return err
	}
	balances := append([]int64(nil), l.baseline...)
	for rows.Next() {
		var k key
		var m moved
		if err := rows.Scan(&k.writer, &k.seq, &m.source, &m.target, &m.amount); err != nil {
			return err
		}
		transfers[k] = m
		balances[m.source] -= int64(m.amount)
		balances[m.target] += int64(m.amount)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}

	known := 0
	for _, w := range l.writers {
		for index := range w.journal {
			op := &w.journal[index]
			k := key{w.id, w.base + int64(index)}
			found := parts[k]
			want := op.rows
			if op.kind == transfer {
				want = 1
				found = 0
				if m, in := transfers[k]; in {
					found = 1
					if m != (moved{op.source, op.target, op.amount}) {
						l.violate("transfer %v has other values: %v, asked %v", k, m, *op)
					}
				}
			}
			if found > 0 {
				known++
			}
			switch {
			case op.outcome == unknown && op.kind == undone && found != 0:
				l.violate("%v was never committed and has left %d rows", k, found)
			case op.outcome == unknown && found != 0 && found != want:
				l.violate("%v, in doubt, is there in part: %d of %d rows", k, found, want)
			case op.outcome == present && found != want:
				l.violate("%v was acknowledged and has %d of %d rows", k, found, want)
			case op.outcome == absent && found != 0:
				l.violate("%v was rolled back and has left %d rows", k, found)
			}
			if op.outcome == unknown {
				l.inDoubt++
				op.outcome = absent
				if found == want {
					op.outcome = present
				}
			}
			if op.outcome == present {
				l.checks++
				if !op.counted {
					op.counted = true
					l.acknowledged++
				}
			}
		}
	}
	if known != len(parts)+len(transfers) {
		l.violate("%d transactions are stored, the journals know %d of them", len(parts)+len(transfers), known)
	}
	if err := l.verifyBalances(ctx, db, balances); err != nil {
		return err
	}
	var changed int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM dbo.untouched WHERE n <> 0 OR filler <> 'x'").Scan(&changed); err != nil {
		return err
	}
	if changed != 0 {
		l.violate("%d rows show a transaction that never committed", changed)
	}
	if len(parts)+len(transfers) > journalLimit && len(l.violations) == 0 {
		return l.forget(ctx, db, balances)
	}
	return nil
}

func (l *loop) verifyBalances(ctx context.Context, db *sql.DB, want []int64) error {
	rows, err := db.QueryContext(ctx, "SELECT id, balance FROM dbo.accounts ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	var total int64
	count := 0
	for rows.Next() {
		var id int
		var balance int64
		if err := rows.Scan(&id, &balance); err != nil {
			return err
		}
		if id != count || id >= len(want) || balance != want[id] {
			l.violate("account %d has %d, its transfers say %d", id, balance, want[min(id, len(want)-1)])
		}
		total += balance
		count++
	}
	if count != accounts || total != accounts*startBalance {
		l.violate("%d accounts with %d in all, want %d with %d", count, total, accounts, accounts*startBalance)
	}
	return rows.Err()
}

// forget empties the checked tables, so that runs of hours stay small.
func (l *loop) forget(ctx context.Context, db *sql.DB, balances []int64) error {
	for _, text := range []string{"TRUNCATE TABLE dbo.rows", "TRUNCATE TABLE dbo.transfers"} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	l.baseline = balances
	for _, w := range l.writers {
		w.base += int64(len(w.journal))
		w.journal = w.journal[:0]
	}
	return nil
}
