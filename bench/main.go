// Command bench compares Daruma with PostgreSQL, MariaDB and SQLite on the same table, indexes and statements.
//
// All engines are started on scratch folders and driven by this one program through database/sql with prepared statements, so
// the load generator costs the same for each. SQLite runs inside the program, without a round trip. Within one run the engines
// take turns (A B C D, A B C D, ...); while one is measured, the processes of the others are stopped, so that their background
// work cannot disturb it. Every workload checks its results; a wrong sum ends the benchmark.
//
// Theory of use: bench/run.sh installs the peers and calls this; the numbers are ratios within one run on one machine.
// Read next: workloads.go (what is measured), engine.go (settings), report.go (output).
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type options struct {
	root, out, daruma, before, darumaArgs, only, engines string
	quick, keepRunning                                   bool
	rounds, pairs, sessions, iterations                  int
	seconds                                              time.Duration
	leanRounds                                           int
	leanSeconds                                          time.Duration
	cap                                                  time.Duration
}

func parseOptions() options {
	var o options
	flag.StringVar(&o.root, "root", "..", "the project's root folder, for the sample data")
	flag.StringVar(&o.out, "out", "results", "folder for results.json and results.md")
	flag.StringVar(&o.daruma, "daruma", "", "Daruma's binary; without it only the peers run")
	flag.StringVar(&o.before, "before", "", "binary of another build of Daruma, measured as the engine 'before'")
	flag.StringVar(&o.darumaArgs, "daruma-args", "", "further arguments for 'daruma serve', separated by blanks")
	flag.StringVar(&o.only, "only", "", "run only the workloads whose name contains one of these, separated by commas")
	flag.StringVar(&o.engines, "engines", "daruma,postgresql,mariadb,sqlite", "engines to run, separated by commas")
	flag.BoolVar(&o.quick, "quick", false, "small numbers: some minutes instead of half an hour")
	flag.IntVar(&o.leanRounds, "lean-rounds", 0, "turns of each lean workload instead of 9 (6 if quick)")
	flag.BoolVar(&o.keepRunning, "keep-running", false, "do not stop the processes of engines that wait for their turn")
	flag.Parse()
	o.rounds, o.pairs, o.sessions, o.iterations, o.seconds, o.cap = 3, 2, 10, 10, 4*time.Second, 180*time.Second
	if o.quick {
		o.rounds, o.pairs, o.sessions, o.iterations, o.seconds, o.cap = 2, 1, 4, 2, time.Second, 45*time.Second
	}
	// Many short turns: what a disk and a shared processor give changes within a minute.
	o.leanSeconds = max(time.Second, o.seconds/2)
	if o.leanRounds <= 0 {
		o.leanRounds = 3 * o.rounds
	}
	if o.before != "" {
		o.engines += ",before"
	}
	return o
}

func main() {
	log.SetFlags(log.Ltime)
	if err := run(parseOptions()); err != nil {
		log.Fatal(err)
	}
}

func run(o options) error {
	data, err := loadData(filepath.Join(o.root, "crates/lab/data/adventureworks"))
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "daruma-bench-")
	if err != nil {
		return err
	}
	if err := os.Chmod(scratch, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(scratch)

	var engines []*engine
	stopAll := func() {
		for _, e := range engines {
			e.stop()
		}
	}
	defer stopAll()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		stopAll()
		os.RemoveAll(scratch)
		os.Exit(130)
	}()

	results := newResults(o)
	for name := range strings.SplitSeq(o.engines, ",") {
		if name == "daruma" && o.daruma == "" {
			continue
		}
		e, err := newEngine(name, filepath.Join(scratch, name), o)
		if err != nil {
			return err
		}
		log.Printf("%s: start", name)
		engines = append(engines, e)
		if err := e.install(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := e.start(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		results.Engines = append(results.Engines, engineInfo{Name: name, Version: e.version, Settings: e.settings})
		if err := e.freeze(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := runWorkloads(o, data, engines, results); err != nil {
		return err
	}
	if err := results.write(o.out); err != nil {
		return err
	}
	if failed := results.failed(); len(failed) > 0 {
		return fmt.Errorf("failed, see the report: %s", strings.Join(failed, ", "))
	}
	return nil
}
