package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Point queries and commits once more, each product driven by a lean load generator in its own protocol: pgbench for
// PostgreSQL, sysbench for MariaDB, the example `load` of crates/lab for Daruma. The Go drivers differ in what they cost
// the client, which on a small machine takes processor time away from the server; these cost little and about the same.
// All use prepared statements over loopback TCP and one thread for up to 8 sessions, two for more (sysbench has one for
// each session).

// A run of a load generator: operations done, operations a second, processor time of the client.
type leanRun struct {
	operations int
	rate       float64
	client     time.Duration
}

const leanFiller = 100

func (b *bench) lean() error {
	if err := b.leanTables(); err != nil {
		return err
	}
	for _, n := range []int{1, 8} {
		if err := b.leanTurn(fmt.Sprintf("lean_point_%d", n), "point", n); err != nil {
			return err
		}
	}
	for _, n := range []int{1, 4, 16, 64} {
		if err := b.leanTurn(fmt.Sprintf("lean_commits_%d", n), "commits", n); err != nil {
			return err
		}
	}
	for _, n := range []int{1, 4, 16, 64} {
		if err := b.leanTurn(fmt.Sprintf("lean_delayed_%d", n), "delayed", n); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) leanTables() error {
	for _, e := range b.engines {
		if e.lean == nil {
			continue
		}
		if err := e.thaw(); err != nil {
			return err
		}
		for _, text := range []string{
			"CREATE TABLE points (id int NOT NULL PRIMARY KEY, a int NOT NULL, b int NOT NULL)",
			"INSERT INTO points SELECT SalesOrderDetailID, SalesOrderDetailID % 1000, -SalesOrderDetailID FROM sales",
		} {
			if _, err := e.db.Exec(text); err != nil {
				return fmt.Errorf("%s: %s: %w", e.name, text, err)
			}
		}
		if e.name == "postgresql" {
			if _, err := e.db.Exec("VACUUM ANALYZE points"); err != nil {
				return err
			}
		}
		if err := e.freeze(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) leanTurn(name, kind string, sessions int) error {
	if !b.o.selected(name) {
		return nil
	}
	return b.turns(name, b.o.leanRounds, func(e *engine, round int) error {
		if e.lean == nil {
			return nil
		}
		if _, err := e.db.Exec(e.dialect.emptyCommits); err != nil {
			return err
		}
		raw := 0.0
		if kind == "commits" && sessions == 1 {
			var err error
			if raw, err = syncRate(e.folder); err != nil {
				return err
			}
		}
		before := costNow(e)
		run, err := b.runLean(e, kind, sessions)
		if err != nil {
			return err
		}
		now := costNow(e)
		if kind != "point" {
			var count, sum int64
			if err := e.db.QueryRow(e.dialect.commitSums).Scan(&count, &sum); err != nil {
				return err
			}
			if count != int64(run.operations) {
				return fmt.Errorf("%d commits acknowledged, %d rows", run.operations, count)
			}
		}
		each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(run.operations, 1)) }
		note := fmt.Sprintf("; CPU for each: server %.1f us, client %.1f us", each(now.server-before.server), each(run.client))
		if raw > 0 {
			note += fmt.Sprintf("; %.2f of the raw sync rate of %.0f /s", run.rate/raw, raw)
		}
		b.record(name, e.name, "/s", true, run.rate, note)
		b.record(name+"_processor", e.name, "us", false, each(now.server-before.server), "of the server, for each")
		return nil
	})
}

// runLean runs an engine's load generator; delayed commits are the same load under another setting.
func (b *bench) runLean(e *engine, kind string, sessions int) (leanRun, error) {
	var run leanRun
	measure := func() (err error) {
		run, err = e.lean(strings.Replace(kind, "delayed", "commits", 1), sessions, len(b.data.lines), b.o.leanSeconds)
		return err
	}
	var err error
	if kind == "delayed" {
		err = whileRelaxed(e, measure)
	} else {
		err = measure()
	}
	return run, err
}

// syncRate says how often a second a block of 4 KiB can be written into an existing file and synced.
func syncRate(folder string) (float64, error) {
	file, err := os.Create(filepath.Join(folder, "sync-rate"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	const blocks = 1024
	block := bytes.Repeat([]byte{7}, 4096)
	for range blocks {
		if _, err := file.Write(block); err != nil {
			return 0, err
		}
	}
	if err := file.Sync(); err != nil {
		return 0, err
	}
	started, count := time.Now(), 0
	for ; time.Since(started) < time.Second; count++ {
		block[0] = byte(count)
		if _, err := file.WriteAt(block, int64(count%blocks)*4096); err != nil {
			return 0, err
		}
		if err := fdatasync(file); err != nil {
			return 0, err
		}
	}
	return float64(count) / time.Since(started).Seconds(), nil
}

// leanTool runs a load generator and gives what it printed and its processor time.
func leanTool(environment []string, name string, arguments ...string) (string, time.Duration, error) {
	command := exec.Command(name, arguments...)
	command.Env = append(os.Environ(), environment...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return "", 0, fmt.Errorf("%s: %w: %s%s", name, err, out.String(), errs.String())
	}
	state := command.ProcessState
	return out.String(), state.UserTime() + state.SystemTime(), nil
}

func leanThreads(sessions int) string {
	if sessions > 8 {
		return "2"
	}
	return "1"
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// darumaLoad drives any build of Daruma by the example `load`, which lies beside the binary of the build that is measured.
func darumaLoad(binary, password string, port int) func(string, int, int, time.Duration) (leanRun, error) {
	tool := filepath.Join(filepath.Dir(binary), "examples", "load")
	return func(kind string, sessions, rows int, length time.Duration) (leanRun, error) {
		workload := map[string]string{"point": "point", "commits": "insert"}[kind]
		text, client, err := leanTool([]string{"SQLCMDPASSWORD=" + password}, tool, "-S", fmt.Sprintf("127.0.0.1,%d", port), "-N", "optional",
			"--database", "bench", "--workload", workload, "--sessions", strconv.Itoa(sessions), "--threads", leanThreads(sessions),
			"--seconds", seconds(length), "--rows", strconv.Itoa(rows))
		if err != nil {
			return leanRun{}, err
		}
		var told struct {
			Operations int     `json:"operations"`
			PerSecond  float64 `json:"per_second"`
		}
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			return leanRun{}, fmt.Errorf("load said %q: %w", text, err)
		}
		return leanRun{told.Operations, told.PerSecond, client}, nil
	}
}

var (
	pgbenchDone  = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	pgbenchRate  = regexp.MustCompile(`tps = ([\d.]+)`)
	sysbenchDone = regexp.MustCompile(`transactions:\s+(\d+)\s+\(([\d.]+) per sec`)
)

const pgbenchPoint = "\\set id random(1, %d)\nSELECT a, b FROM points WHERE id = :id\n"
const pgbenchCommit = "\\set i :i + 1\n\\set id :client_id * 100000000 + :i\nINSERT INTO commits (id, n, filler) VALUES (:id, :client_id, '%s')\n"

func postgresLoad(bin, folder string, port int) func(string, int, int, time.Duration) (leanRun, error) {
	return func(kind string, sessions, rows int, length time.Duration) (leanRun, error) {
		text := fmt.Sprintf(pgbenchPoint, rows)
		if kind == "commits" {
			text = fmt.Sprintf(pgbenchCommit, strings.Repeat("f", leanFiller))
		}
		script := filepath.Join(folder, kind+".sql")
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			return leanRun{}, err
		}
		// pgbench counts whole seconds.
		whole := strconv.Itoa(max(1, int(length.Seconds())))
		out, client, err := leanTool(nil, bin+"/pgbench", "-n", "-M", "prepared", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "bench",
			"-c", strconv.Itoa(sessions), "-j", leanThreads(sessions), "-T", whole, "-D", "i=0", "-f", script, "bench")
		if err != nil {
			return leanRun{}, err
		}
		done, rate := pgbenchDone.FindStringSubmatch(out), pgbenchRate.FindStringSubmatch(out)
		if done == nil || rate == nil {
			return leanRun{}, errors.New("pgbench said " + out)
		}
		return leanRun{int(number(done[1])), float(rate[1]), client}, nil
	}
}

const sysbenchScript = `function thread_init()
  connection = sysbench.sql.driver():connect()
  if kind == "point" then
    statement = connection:prepare("SELECT a, b FROM points WHERE id = ?")
    id = statement:bind_create(sysbench.sql.type.INT)
    statement:bind_param(id)
  else
    statement = connection:prepare("INSERT INTO commits (id, n, filler) VALUES (?, ?, ?)")
    id = statement:bind_create(sysbench.sql.type.BIGINT)
    n = statement:bind_create(sysbench.sql.type.INT)
    filler = statement:bind_create(sysbench.sql.type.VARCHAR, 100)
    statement:bind_param(id, n, filler)
    n:set(sysbench.tid)
    filler:set(string.rep("f", 100))
  end
  key = sysbench.tid * 100000000
end

function event()
  if kind == "point" then
    id:set(math.random(1, rows))
    local result = statement:execute()
    if result.nrows ~= 1 then error("no row") end
    result:free()
  else
    key = key + 1
    id:set(key)
    statement:execute()
  end
end
`

func mariadbLoad(folder string, port int) func(string, int, int, time.Duration) (leanRun, error) {
	return func(kind string, sessions, rows int, length time.Duration) (leanRun, error) {
		script := filepath.Join(folder, kind+".lua")
		text := fmt.Sprintf("kind = %q\nrows = %d\n", kind, rows) + sysbenchScript
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			return leanRun{}, err
		}
		out, client, err := leanTool(nil, "sysbench", script, "--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-port="+strconv.Itoa(port),
			"--mysql-user=bench", "--mysql-password=bench", "--mysql-db=bench", "--mysql-ssl=off", "--db-ps-mode=auto",
			"--threads="+strconv.Itoa(sessions), "--time="+strconv.Itoa(max(1, int(length.Seconds()))), "run")
		if err != nil {
			return leanRun{}, err
		}
		done := sysbenchDone.FindStringSubmatch(out)
		if done == nil {
			return leanRun{}, errors.New("sysbench said " + out)
		}
		return leanRun{int(number(done[1])), float(done[2]), client}, nil
	}
}
