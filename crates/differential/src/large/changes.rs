//! Changes of many rows, and scripts that keep rows of their own: temporary tables, table variables, cursors.
//!
//! Theory: a change runs in a transaction that is rolled back. Before that its table is read whole, and counted through each index; the
//! reference is asked for the same counts as often.

use super::queries::{Maker, Statement};
use super::tables::{CHANGED, COLUMNS};
use crate::text::{Text, fill, fill_two};

type Make = fn(&mut Maker<'_>) -> Text;

const CHANGES: [(&str, Make); 5] = [
    ("INSERT .. SELECT", |m| m.insert()),
    ("UPDATE FROM", |m| m.update()),
    ("UPDATE FROM", |m| m.update()),
    ("DELETE FROM", |m| m.delete()),
    ("MERGE", |m| m.merge()),
];

const SCRIPTS: [(&str, Make); 4] = [
    ("temporary table", |m| m.temporary()),
    ("temporary table", |m| m.temporary()),
    ("table variable", |m| m.variable()),
    ("cursor", |m| m.cursor()),
];

/// What tells whether an index has the rows of its table.
const COUNTS: &str =
    "COUNT(*), COUNT(m), SUM(CAST(id AS bigint)), SUM(CAST(q AS bigint)), MIN(s), MAX(w)";

impl Maker<'_> {
    /// A query, a change, or a script.
    pub fn statement(&mut self) -> Statement {
        match self.random.below(8) {
            0 => {
                let (kind, make) = CHANGES[self.below(CHANGES.len())];
                let change = make(self);
                self.read_back(kind, &change)
            }
            1 => {
                let (kind, make) = SCRIPTS[self.below(SCRIPTS.len())];
                Statement {
                    kind,
                    text: make(self),
                    is_ordered: false,
                }
            }
            _ => self.query(),
        }
    }

    fn read_back(&self, kind: &'static str, change: &Text) -> Statement {
        let mut text = fill_two(
            "SET NOCOUNT ON; BEGIN TRAN;\n$0;\n",
            "BEGIN;\n$0;\n",
            &[change],
        );
        text.push(&Text::same(&format!("SELECT {COLUMNS} FROM t{CHANGED};\n")));
        for index in self.tables.changed_indexes() {
            text.push(&Text::two(
                &format!("SELECT {COUNTS} FROM t{CHANGED} WITH (INDEX({index}));\n"),
                &format!("SELECT {COUNTS} FROM t{CHANGED};\n"),
            ));
        }
        text.push(&Text::same("ROLLBACK"));
        Statement {
            kind,
            text,
            is_ordered: false,
        }
    }

    fn insert(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("a"));
        let pattern = match self.random.below(3) {
            0 => {
                "INSERT INTO t3 SELECT a.id + 1000000, a.u, a.f, a.m, a.q, a.n, a.s, a.w, a.dt FROM $0 a WHERE $1"
            }
            1 => {
                "INSERT INTO t3 SELECT MIN(a.id) + 1000000, MAX(a.u), a.f, a.m, COUNT(*), MAX(a.n), MIN(a.s), 'w', MAX(a.dt) FROM $0 a WHERE $1 \
                  GROUP BY a.f, a.m"
            }
            _ => {
                "INSERT INTO t3 SELECT c.id + 1000000, c.u, c.f, c.m, a.q, a.n, c.s, a.w, c.dt FROM t3 c JOIN $0 a ON a.u = c.id WHERE $1"
            }
        };
        fill(pattern, &[&table, &condition])
    }

    fn update(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("c"));
        let set = Text::same(self.one_of(&[
            "m = b.q, s = b.s",
            "q = b.id, w = 'changed'",
            "f = 3, dt = b.dt, m = c.m + 1",
            "s = NULL, n = c.n + 1",
        ]));
        let on = Text::same(self.one_of(&["c.q = b.u", "c.m = b.u", "c.id = b.u"]));
        match self.random.below(3) {
            0 => fill_two(
                "UPDATE c SET $0 OUTPUT inserted.id, inserted.m, inserted.s FROM t3 c JOIN $1 b ON $2 WHERE $3",
                "UPDATE t3 AS c SET $0 FROM $1 b WHERE $2 AND $3 RETURNING c.id, c.m, c.s",
                &[&set, &table, &on, &condition],
            ),
            1 => fill_two(
                "UPDATE t3 SET id = id + 1000000, s = REPLICATE('y', 60), m = q WHERE f IS NULL OR f <> 2",
                "UPDATE t3 SET id = id + 1000000, s = REPEAT('y', 60), m = q WHERE f IS NULL OR f <> 2",
                &[],
            ),
            _ => fill_two(
                "UPDATE c SET $0 FROM t3 c JOIN $1 b ON $2 WHERE $3",
                "UPDATE t3 AS c SET $0 FROM $1 b WHERE $2 AND $3",
                &[&set, &table, &on, &condition],
            ),
        }
    }

    fn delete(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("c"));
        match self.random.below(3) {
            0 => fill_two(
                "DELETE c OUTPUT deleted.id, deleted.w FROM t3 c JOIN $0 b ON c.q = b.u WHERE $1",
                "DELETE FROM t3 c USING $0 b WHERE c.q = b.u AND $1 RETURNING c.id, c.w",
                &[&table, &condition],
            ),
            1 => fill_two(
                "DELETE c FROM t3 c WHERE $1 AND NOT EXISTS (SELECT 1 FROM $0 b WHERE b.s = c.s)",
                "DELETE FROM t3 c WHERE $1 AND NOT EXISTS (SELECT 1 FROM $0 b WHERE b.s = c.s)",
                &[&table, &condition],
            ),
            _ => fill_two(
                "DELETE c FROM t3 c JOIN $0 b ON b.m = c.m WHERE $1",
                "DELETE FROM t3 c USING $0 b WHERE b.m = c.m AND $1",
                &[&table, &condition],
            ),
        }
    }

    fn merge(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("b"));
        let on = Text::same(self.one_of(&["c.id = b.u", "c.u = b.u"]));
        let matched = Text::same(self.one_of(&[
            "WHEN MATCHED AND c.f = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET m = b.q, s = b.s",
            "WHEN MATCHED AND c.f <> 1 THEN UPDATE SET q = b.id, w = b.w",
            "",
        ]));
        fill(
            "MERGE INTO t3 AS c USING (SELECT * FROM $0 b WHERE $1) AS b ON $2 $3 \
             WHEN NOT MATCHED THEN INSERT (id, u, m, q, s, w) VALUES (b.id + 2000000, b.u + 1000000, b.m, b.q, b.s, b.w)",
            &[&table, &condition, &on, &matched],
        )
    }

    fn temporary(&mut self) -> Text {
        let (table, other, condition) = (self.table(), self.table(), self.condition("a"));
        let key = Text::same(self.one_of(&["m", "q", "s", "w"]));
        let index = Text::same(self.one_of(&[
            "",
            "CREATE INDEX tx ON $t (k)",
            "CREATE INDEX tx ON $t (k, id)",
        ]));
        let index = Text::two(&index.ms.replace("$t", "#x"), &index.pg.replace("$t", "x"));
        let read = match self.random.below(3) {
            0 => "SELECT k, COUNT(*), COUNT(DISTINCT s) FROM $t GROUP BY k",
            1 => "SELECT x.id, x.k, b.w FROM $t x JOIN $o b ON b.u = x.id",
            _ => {
                "SELECT k, c FROM (SELECT k, id, COUNT(*) OVER (PARTITION BY k) AS c FROM $t) z WHERE c > 3"
            }
        };
        let read = Text::two(
            &read.replace("$t", "#x").replace("$o", &other.ms),
            &read.replace("$t", "x").replace("$o", &other.pg),
        );
        fill_two(
            "SET NOCOUNT ON; DROP TABLE IF EXISTS #x; SELECT a.id, a.$0 AS k, a.s INTO #x FROM $1 a WHERE $2;\n$3;\n$4;\nDROP TABLE #x",
            "DROP TABLE IF EXISTS x; CREATE TEMP TABLE x AS SELECT a.id, a.$0 AS k, a.s FROM $1 a WHERE $2;\n$3;\n$4;\nDROP TABLE x",
            &[&key, &table, &condition, &index, &read],
        )
    }

    fn variable(&mut self) -> Text {
        let (table, other, condition) = (self.table(), self.table(), self.condition("a"));
        let keyed = Text::same(self.one_of(&["id int PRIMARY KEY", "id int", "id int INDEX x"]));
        fill_two(
            "SET NOCOUNT ON; DECLARE @t TABLE ($3, m int, s varchar(900));\nINSERT @t SELECT a.id, a.m, a.s FROM $0 a WHERE $2;\n\
             DELETE @t WHERE m % 5 = 1;\nSELECT t.m, COUNT(*), MAX(t.s), COUNT(b.id) FROM @t t LEFT JOIN $1 b ON b.u = t.id GROUP BY t.m",
            "SELECT t.m, COUNT(*), MAX(t.s), COUNT(b.id) FROM (SELECT a.id, a.m, a.s FROM $0 a WHERE $2) t LEFT JOIN $1 b ON b.u = t.id \
             WHERE (t.m % 5 = 1) IS NOT TRUE GROUP BY t.m",
            &[&table, &other, &condition, &keyed],
        )
    }

    fn cursor(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("a"));
        let kind = Text::same(self.one_of(&["STATIC", "KEYSET", "FAST_FORWARD", "DYNAMIC"]));
        fill_two(
            "SET NOCOUNT ON; DECLARE c CURSOR LOCAL $2 FOR SELECT a.id, a.s FROM $0 a WHERE $1;\n\
             DECLARE @n int = 0, @i bigint = 0, @l bigint = 0, @id int, @s varchar(900);\nOPEN c; FETCH NEXT FROM c INTO @id, @s;\n\
             WHILE @@FETCH_STATUS = 0 BEGIN SELECT @n += 1, @i += @id, @l += LEN(ISNULL(@s, '')); FETCH NEXT FROM c INTO @id, @s END;\n\
             CLOSE c; DEALLOCATE c; SELECT @n, @i, @l",
            "SELECT COUNT(*), COALESCE(SUM(a.id), 0), COALESCE(SUM(LENGTH(a.s)), 0) FROM $0 a WHERE $1",
            &[&table, &condition, &kind],
        )
    }
}
