package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"
	_ "github.com/microsoft/go-mssqldb"
)

// An engine under test: how to install, start and reach it, and its way of writing the statements.
// Durable settings and a cache of 1 GiB for all; everything else is the product's default unless said in `settings`.
type engine struct {
	name, folder, settings, version string
	product                         string // the name, but for another build of Daruma
	dialect                         dialect
	load                            func(context.Context, *engine, *dataset, string) error
	install                         func() error
	launch                          func() (*process, error)
	source                          func(database string) string // the driver's connection string
	driver                          string
	versionQuery                    string
	stopSignal                      syscall.Signal
	keepRunning                     bool
	// Drives the product by a lean load generator of its own; see lean.go.
	lean func(kind string, sessions, rows int, length time.Duration) (leanRun, error)
	// Sessions that may write at the same time; 0 is no limit.
	writers int

	server *process
	db     *sql.DB
}

func newEngine(name, folder string, o options) (*engine, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	e := &engine{name: name, product: name, folder: folder, keepRunning: o.keepRunning, stopSignal: syscall.SIGTERM}
	switch name {
	case "daruma":
		e.daruma(port, o.daruma, o)
	case "before":
		e.product = "daruma"
		e.daruma(port, o.before, o)
	case "postgresql":
		return e, e.postgresql(port)
	case "mariadb":
		e.mariadb(port)
	case "sqlite":
		e.sqlite()
	default:
		return nil, fmt.Errorf("unknown engine %s", name)
	}
	return e, nil
}

func (e *engine) daruma(port int, server string, o options) {
	const password = "Bench-pass-1"
	e.dialect, e.load, e.driver = tsql, loadDaruma, "sqlserver"
	e.settings = "durable commits"
	if o.darumaArgs != "" {
		e.settings += ", " + o.darumaArgs
	}
	e.versionQuery = "SELECT @@VERSION"
	e.source = func(database string) string {
		return fmt.Sprintf("sqlserver://sa:%s@127.0.0.1:%d?database=%s&encrypt=disable&packet+size=16384", password, port, database)
	}
	e.lean = darumaLoad(o.daruma, password, port)
	e.install = func() error { return nil }
	e.launch = func() (*process, error) {
		arguments := append([]string{"serve", "--data", filepath.Join(e.folder, "data"), "--listen", "127.0.0.1:" + strconv.Itoa(port)},
			strings.Fields(o.darumaArgs)...)
		binary, err := filepath.Abs(server)
		if err != nil {
			return nil, err
		}
		return launch(e.folder, "", []string{"MSSQL_SA_PASSWORD=" + password}, binary, arguments...)
	}
}

func (e *engine) postgresql(port int) error {
	bin := "/usr/lib/postgresql/15/bin"
	runAs := ""
	if os.Getuid() == 0 {
		runAs = "postgres"
		account, err := user.Lookup(runAs)
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		if err := os.Chown(e.folder, uid, gid); err != nil {
			return err
		}
	}
	e.dialect, e.load, e.driver = postgres, loadPostgres, "pgx"
	e.settings = "data checksums, shared_buffers=1GB, fsync=on, synchronous_commit=on, full_page_writes=on, max_wal_size=8GB, work_mem=64MB"
	e.versionQuery = "SHOW server_version"
	e.stopSignal = syscall.SIGINT
	e.source = func(database string) string {
		if database == "master" {
			database = "postgres"
		}
		return fmt.Sprintf("postgres://bench@127.0.0.1:%d/%s?sslmode=disable", port, database)
	}
	data := filepath.Join(e.folder, "data")
	e.lean = postgresLoad(bin, e.folder, port)
	e.install = func() error {
		return runTool(e.folder, runAs, bin+"/initdb", "-D", data, "-k", "-U", "bench", "--auth=trust", "--locale=C.UTF-8", "-E", "UTF8")
	}
	e.launch = func() (*process, error) {
		arguments := []string{"-D", data}
		for _, setting := range []string{"listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", port), "unix_socket_directories=", "shared_buffers=1GB",
			"fsync=on", "full_page_writes=on", "wal_buffers=16MB", "min_wal_size=1GB", "max_wal_size=8GB",
			"work_mem=64MB", "maintenance_work_mem=256MB", "effective_cache_size=12GB", "random_page_cost=1.1", "max_connections=200"} {
			arguments = append(arguments, "-c", setting)
		}
		return launch(e.folder, runAs, nil, bin+"/postgres", arguments...)
	}
	return nil
}

func (e *engine) mariadb(port int) {
	e.dialect, e.load, e.driver = mariadb, loadMariaDB, "mysql"
	e.settings = "innodb_buffer_pool_size=1G, innodb_flush_log_at_trx_commit=1, doublewrite, O_DIRECT, innodb_log_file_size=4G, binlog off"
	e.versionQuery = "SELECT VERSION()"
	e.source = func(database string) string {
		if database == "master" {
			database = "mysql"
		}
		return fmt.Sprintf("bench:bench@tcp(127.0.0.1:%d)/%s?parseTime=true&allowAllFiles=true", port, database)
	}
	data := filepath.Join(e.folder, "data")
	e.lean = mariadbLoad(e.folder, port)
	e.install = func() error {
		if err := runTool(e.folder, "", "mariadb-install-db", "--no-defaults", "--user=root", "--auth-root-authentication-method=normal",
			"--skip-test-db", "--datadir="+data); err != nil {
			return err
		}
		// The file is run at every start, a statement a line.
		account := "FLUSH PRIVILEGES;\nCREATE OR REPLACE USER bench@'127.0.0.1' IDENTIFIED BY 'bench';\nGRANT ALL ON *.* TO bench@'127.0.0.1';\n"
		return os.WriteFile(filepath.Join(e.folder, "init.sql"), []byte(account), 0o644)
	}
	e.launch = func() (*process, error) {
		return launch(e.folder, "", nil, "mariadbd", "--no-defaults", "--user=root", "--datadir="+data, "--bind-address=127.0.0.1",
			fmt.Sprintf("--port=%d", port), "--socket="+filepath.Join(e.folder, "socket"), "--skip-name-resolve", "--local-infile=1",
			"--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1", "--innodb-flush-method=O_DIRECT",
			"--innodb-log-file-size=4G", "--innodb-log-buffer-size=16M", "--innodb-io-capacity=2000", "--innodb-lock-wait-timeout=3600",
			"--max-connections=200", "--performance-schema=0", "--character-set-server=utf8mb4", "--skip-log-bin",
			"--init-file="+filepath.Join(e.folder, "init.sql"))
	}
}

func (e *engine) sqlite() {
	e.dialect, e.load, e.driver = sqlite, loadSQLite, "sqlite3"
	e.settings = "in process, journal_mode=WAL, synchronous=FULL, cache 1 GiB, page 4 KiB"
	e.versionQuery = "SELECT sqlite_version()"
	e.writers = 1
	e.source = func(string) string {
		return "file:" + filepath.Join(e.folder, "bench.db") +
			"?_journal_mode=WAL&_synchronous=FULL&_cache_size=-1048576&_busy_timeout=600000&_txlock=immediate"
	}
	e.install = func() error { return nil }
}

// begin starts the server process, if the engine has one, and waits until it answers. Without a database of its own it
// returns a connection to the product's first database.
func (e *engine) begin() (*sql.DB, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	started := time.Now()
	db, err := sql.Open(e.driver, e.source("master"))
	if err != nil {
		return nil, 0, err
	}
	ask := func() error {
		var one int
		return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	}
	if e.launch == nil {
		return db, time.Since(started), ask()
	}
	if e.server, err = e.launch(); err != nil {
		return nil, 0, err
	}
	if err := e.server.until(ctx, ask); err != nil {
		return nil, 0, fmt.Errorf("%w; see %s", err, tail(filepath.Join(e.folder, "server.log")))
	}
	return db, time.Since(started), nil
}

// start makes the engine ready for the workloads: server up, database made, version known.
func (e *engine) start() error {
	master, _, err := e.begin()
	if err != nil {
		return err
	}
	defer master.Close()
	if err := master.QueryRow(e.versionQuery).Scan(&e.version); err != nil {
		return err
	}
	e.version, _, _ = strings.Cut(e.version, "\n")
	if e.launch != nil {
		if _, err := master.Exec("CREATE DATABASE bench"); err != nil {
			return err
		}
	}
	e.db, err = sql.Open(e.driver, e.source("bench"))
	if err != nil {
		return err
	}
	e.db.SetMaxOpenConns(100)
	e.db.SetMaxIdleConns(100)
	for _, statement := range e.dialect.createCommon {
		if _, err := e.db.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (e *engine) stop() {
	if e.db != nil {
		e.db.Close()
		e.db = nil
	}
	if e.server != nil {
		e.server.stop(e.stopSignal)
		e.server = nil
	}
}

// freeze and thaw give an engine its turn.
func (e *engine) freeze() error {
	if e.server != nil && !e.keepRunning {
		e.server.signal(syscall.SIGSTOP)
	}
	return nil
}

func (e *engine) thaw() error {
	if e.server == nil {
		return nil
	}
	select {
	case <-e.server.done:
		return errors.New("the server ended: " + tail(filepath.Join(e.folder, "server.log")))
	default:
	}
	if !e.keepRunning {
		e.server.signal(syscall.SIGCONT)
	}
	return e.db.Ping()
}

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
