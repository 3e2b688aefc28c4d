package main

import (
	"fmt"
	"time"
)

// What an engine must be told so that commits do not wait for the disk, and what makes them durable again, each with a
// question and the answer when it holds. Daruma loses at most 10 ms or 1 MiB of log with its defaults, PostgreSQL three times
// wal_writer_delay (200 ms), MariaDB about a second and only if the system goes down, not if the server alone does.
type commitSetting struct {
	statements []string
	question   string
	answer     string
}

var relaxed = map[string][2]commitSetting{
	"daruma": {
		{[]string{"ALTER DATABASE CURRENT SET DELAYED_DURABILITY = FORCED"}, darumaDurability, "FORCED"},
		{[]string{"ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED"}, darumaDurability, "DISABLED"},
	},
	"postgresql": {
		{[]string{"ALTER SYSTEM SET synchronous_commit = off", "SELECT pg_reload_conf()"}, "SHOW synchronous_commit", "off"},
		{[]string{"ALTER SYSTEM RESET synchronous_commit", "SELECT pg_reload_conf()"}, "SHOW synchronous_commit", "on"},
	},
	"mariadb": {
		{[]string{"SET GLOBAL innodb_flush_log_at_trx_commit = 2"}, "SELECT @@innodb_flush_log_at_trx_commit", "2"},
		{[]string{"SET GLOBAL innodb_flush_log_at_trx_commit = 1"}, "SELECT @@innodb_flush_log_at_trx_commit", "1"},
	},
}

const darumaDurability = "SELECT delayed_durability_desc FROM sys.databases WHERE database_id = DB_ID()"

// settle makes the setting and waits until the engine says that it holds: PostgreSQL's sessions read it a little later.
func (c commitSetting) settle(e *engine) error {
	for _, statement := range c.statements {
		if _, err := e.db.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	var told string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err := e.db.QueryRow(c.question).Scan(&told); err != nil {
			return fmt.Errorf("%s: %w", c.question, err)
		}
		if told == c.answer {
			return nil
		}
	}
	return fmt.Errorf("%s: %q instead of %q", c.question, told, c.answer)
}

// delayed measures commits that do not wait for the disk.
func (b *bench) delayed() error {
	return b.commitRuns("delayed", whileRelaxed)
}

// whileRelaxed measures an engine with commits that do not wait for the disk.
func whileRelaxed(e *engine, measure func() error) error {
	settings, known := relaxed[e.product]
	if !known {
		return nil
	}
	if err := settings[0].settle(e); err != nil {
		return err
	}
	err := measure()
	if undo := settings[1].settle(e); err == nil {
		err = undo
	}
	return err
}
