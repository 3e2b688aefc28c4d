package main

import (
	"fmt"
	"strings"
	"time"
)

// Commits of one session without round trips: a loop inside the server, every row its own durable transaction. It shows the
// commit path by itself, beside the rate at which the same disk syncs a block of 4 KiB, measured just before.

// What makes the loop, and the call that runs it `commitsEachLoop` times from key %[1]d on.
var commitLoops = map[string]struct{ create, call string }{
	"daruma": {
		create: `CREATE PROCEDURE commit_loop @id bigint, @count int AS
SET NOCOUNT ON
DECLARE @i int = 0
WHILE @i < @count BEGIN INSERT commits VALUES (@id + @i, 1, REPLICATE('f', 100)); SET @i += 1 END`,
		call: "EXEC commit_loop %[1]d, %[2]d",
	},
	"postgresql": {
		create: `CREATE PROCEDURE commit_loop(first bigint, rounds int) LANGUAGE plpgsql AS $$
BEGIN FOR i IN 0 .. rounds - 1 LOOP INSERT INTO commits VALUES (first + i, 1, repeat('f', 100)); COMMIT; END LOOP; END $$`,
		call: "CALL commit_loop(%[1]d, %[2]d)",
	},
	"mariadb": {
		create: `CREATE PROCEDURE commit_loop(IN first BIGINT, IN rounds INT)
BEGIN DECLARE i INT DEFAULT 0; WHILE i < rounds DO INSERT INTO commits VALUES (first + i, 1, REPEAT('f', 100)); SET i = i + 1; END WHILE; END`,
		call: "CALL commit_loop(%[1]d, %[2]d)",
	},
}

const commitsEachLoop = 500

func (b *bench) loop() error {
	made := map[string]bool{}
	return b.turns("loop_commits_1", b.o.leanRounds, func(e *engine, _ int) error {
		loop, known := commitLoops[e.product]
		if !known {
			return nil
		}
		if !made[e.name] {
			if _, err := e.db.Exec(loop.create); err != nil {
				return err
			}
			made[e.name] = true
		}
		if _, err := e.db.Exec(e.dialect.emptyCommits); err != nil {
			return err
		}
		rawBefore, err := syncRate(e.folder)
		if err != nil {
			return err
		}
		rate, note, err := b.runLoop(e, loop.call)
		if err != nil {
			return err
		}
		rawAfter, err := syncRate(e.folder)
		if err != nil {
			return err
		}
		raw := (rawBefore + rawAfter) / 2
		b.record("loop_commits_1", e.name, "/s", true, rate, note)
		b.record("loop_commits_of_raw", e.name, "share", true, rate/raw, fmt.Sprintf("raw sync rate %.0f /s", raw))
		return nil
	})
}

// runLoop gives the rate of commits, with what they cost, and checks that they are there.
func (b *bench) runLoop(e *engine, call string) (float64, string, error) {
	done, before, started := 0, costNow(e), time.Now()
	for ; time.Since(started) < b.o.leanSeconds; done += commitsEachLoop {
		if _, err := e.db.Exec(fmt.Sprintf(call, done+1, commitsEachLoop)); err != nil {
			return 0, "", err
		}
	}
	rate := float64(done) / time.Since(started).Seconds()
	note := strings.TrimPrefix(before.per(e, done), "; ")
	var count, sum int64
	if err := e.db.QueryRow(e.dialect.commitSums).Scan(&count, &sum); err != nil {
		return 0, "", err
	}
	if count != int64(done) || sum != count {
		return 0, "", fmt.Errorf("%d commits acknowledged, %d rows, sum %d", done, count, sum)
	}
	return rate, note, nil
}
