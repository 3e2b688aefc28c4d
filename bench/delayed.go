package main

import "fmt"

// What an engine must be told so that commits do not wait for the disk, and what makes them durable again. Daruma loses at
// most 10 ms or 1 MiB of log with its defaults, PostgreSQL three times wal_writer_delay (200 ms), MariaDB about a second and
// only if the system goes down, not if the server alone does.
var relaxed = map[string][2][]string{
	"daruma": {
		{"ALTER DATABASE CURRENT SET DELAYED_DURABILITY = FORCED"},
		{"ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED"},
	},
	"postgresql": {
		{"ALTER SYSTEM SET synchronous_commit = off", "SELECT pg_reload_conf()"},
		{"ALTER SYSTEM RESET synchronous_commit", "SELECT pg_reload_conf()"},
	},
	"mariadb": {
		{"SET GLOBAL innodb_flush_log_at_trx_commit = 2"},
		{"SET GLOBAL innodb_flush_log_at_trx_commit = 1"},
	},
}

// delayed measures commits that do not wait for the disk.
func (b *bench) delayed() error {
	return b.commitRuns("delayed", func(e *engine, measure func() error) error {
		statements, known := relaxed[e.name]
		if !known {
			return nil
		}
		run := func(list []string) error {
			for _, statement := range list {
				if _, err := e.db.Exec(statement); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
			return nil
		}
		if err := run(statements[0]); err != nil {
			return err
		}
		err := measure()
		if undo := run(statements[1]); err == nil {
			err = undo
		}
		return err
	})
}
