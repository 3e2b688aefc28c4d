// The monitor while its servers are frozen, killed, away: outage.mjs BINARY FOLDER OUT
//
// Three processes on free loopback ports: a watched server, a server for the history, and `daruma monitor` between them. The page is
// asked over HTTP as a browser asks it; what it shows is looked at in Chromium where that is the point.
import { chromium } from "playwright-core";
import { spawn, execFileSync } from "node:child_process";
import { mkdirSync, openSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";

const [binary, folder, out] = process.argv.slice(2);
const password = process.env.MSSQL_SA_PASSWORD, secret = "planted-secret-4711";
const env = { ...process.env, SQLCMDPASSWORD: password };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const started = [];

/** Starts a process and waits for a word in its log; gives both. */
async function start(name, args, word) {
  const log = join(folder, `${name}.log`);
  writeFileSync(log, "");
  const file = openSync(log, "a"), child = spawn(binary, args, { env, stdio: ["ignore", file, file] });
  started.push(child);
  for (let n = 0; n < 600; n += 1) {
    const found = readFileSync(log, "utf8").match(word);
    if (found) return { child, value: found[1] };
    assert.ok(child.exitCode === null, `${name} ended: ${readFileSync(log, "utf8").slice(-500)}`);
    await sleep(100);
  }
  throw new Error(`${name} did not start`);
}
const gone = (child) => (child.exitCode !== null || child.signalCode !== null ? null : new Promise((done) => child.once("exit", done)));
const serve = (name, port) => start(name, ["serve", "--data", join(folder, name), "--listen", `127.0.0.1:${port}`, "--memory", "200M"], /^ready 127\.0\.0\.1:(\d+)/m);
const at = (port) => ["sql", "-S", `127.0.0.1,${port}`, "-U", "sa", "-C"];
const sql = (port, text) => execFileSync(binary, [...at(port), "-b", "-Q", text], { env, encoding: "utf8" });

const results = [];
const check = async (name, work) => {
  try { await work(); results.push(true); console.log(`PASS ${name}`); } catch (error) { results.push(false); console.log(`FAIL ${name}: ${error.message.split("\n").slice(0, 6).join("\n  ")}`); }
};

mkdirSync(folder, { recursive: true });
let watched = await serve("watched", 0), history = await serve("history", 0);
const ports = { watched: watched.value, history: history.value };
const page = (await start("monitor", ["monitor", "-S", `127.0.0.1,${ports.watched}`, "--repository", `127.0.0.1,${ports.history}`, "-U", "sa", "-C", "--listen", "127.0.0.1:0"], /^ready (http:\/\/\S+)/m)).value;

const origin = page.replace(/\/$/, "");
const login = await fetch(`${origin}/login`, { method: "POST", redirect: "manual", headers: { origin, "content-type": "application/x-www-form-urlencoded" }, body: new URLSearchParams({ login: "sa", password }) });
const cookie = login.headers.getSetCookie()[0].split(";")[0];
const ask = (path) => fetch(origin + path, { headers: { cookie } });
const json = async (path) => { const answer = await ask(path); assert.equal(answer.status, 200, `${path}: ${answer.status}`); return answer.json(); };
const live = () => json("/api/live?server=1");
const state = async () => (await live()).server.state;
const events = async (kind) => { const now = Date.now(); return (await json(`/api/events?server=1&from=${now - 3600000}&to=${now + 60000}`)).filter((e) => e.kind === kind); };
/** Waits until something is so; gives how long that took, in ms. */
const until = async (what, is, patience = 60000) => {
  const begun = Date.now();
  for (;;) {
    if (await is()) return Date.now() - begun;
    assert.ok(Date.now() - begun < patience, `${what} did not come within ${patience / 1000} s`);
    await sleep(100);
  }
};
/** Figures of a stretch by name: columns of numbers, NaN for holes, and `t` in seconds. */
async function range(from, to) {
  const buffer = await (await ask(`/api/range?server=1&from=${Math.round(from)}&to=${Math.round(to)}`)).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true), head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const column = (n) => [...new Float64Array(buffer, 4 + length + n * head.n * 8, head.n)];
  return { ...head, t: column(0), f: Object.fromEntries(head.figures.map((name, n) => [name, column(n + 1)])) };
}
const report = (from, to) => json(`/api/report?server=1&from=${Math.round(from)}&to=${Math.round(to)}`);
const figure = (r, name) => r.summary.figures.find((f) => f.name === name);
/** The server's own totals, with its clock. */
const totals = () => {
  const text = sql(ports.watched, "SET NOCOUNT ON; SELECT CONCAT('|', (SELECT cntr_value FROM sys.dm_os_performance_counters WHERE counter_name = 'Transactions/sec' AND instance_name = '_Total'), '|', (SELECT cntr_value FROM sys.dm_os_performance_counters WHERE counter_name = 'Log Flushes/sec' AND instance_name = '_Total'), '|', (SELECT cntr_value FROM sys.dm_os_performance_counters WHERE counter_name = 'Log Bytes Flushed/sec' AND instance_name = '_Total'), '|', (SELECT wait_time_ms FROM sys.dm_os_wait_stats WHERE wait_type = 'WRITELOG'), '|', DATEDIFF_BIG(millisecond, '1970-01-01', SYSUTCDATETIME()), '|')");
  const [transactions, flushes, bytes, waits, now] = text.match(/\|([\d|]+)\|/)[1].split("|").map(Number);
  return { transactions, flushes, bytes, waits, now };
};
const storedUntil = async () => (await live()).server.stored_until || 0;
const stored = (time) => until("stored", async () => (await storedUntil()) >= time);

await until("the first samples", async () => (await live()).ticks.length >= 5);
sql(ports.watched, "CREATE DATABASE Shop; ALTER DATABASE Shop SET DELAYED_DURABILITY = DISABLED");
sql(ports.watched, "USE Shop; CREATE TABLE t (a int IDENTITY PRIMARY KEY, b varchar(100) NOT NULL)");

await check("a known load: transactions, flushes, bytes and log waits are the server's own", async () => {
  await sleep(2500);
  const before = totals();
  await sleep(1500);
  sql(ports.watched, "USE Shop; SET NOCOUNT ON; DECLARE @n int = 0; WHILE @n < 4000 BEGIN INSERT t VALUES ('x'); SET @n += 1; END");
  await sleep(1500);
  const after = totals();
  await stored(after.now + 1000);
  const r = await report(before.now, after.now);
  for (const [name, key] of [["transactions", "transactions"], ["log_flushes", "flushes"], ["log_bytes", "bytes"], ["commit_wait_ms", "waits"]]) {
    const own = after[key] - before[key], seen = figure(r, name).total;
    assert.ok(own > 1000, `${name}: ${own}`);
    // The sampler's own questions and a quiet tick at either end are the rest.
    assert.ok(Math.abs(seen - own) <= own * 0.01 + 20, `${name}: ${seen} against ${own}`);
  }
});

await check("cleared statistics: an event, no dip and no spike", async () => {
  const from = Date.now();
  sql(ports.watched, "USE Shop; SET NOCOUNT ON; DECLARE @n int = 0; WHILE @n < 300 BEGIN INSERT t VALUES ('x'); SET @n += 1; END");
  sql(ports.watched, "DBCC SQLPERF ('sys.dm_os_wait_stats', CLEAR)");
  await until("the event", async () => (await events("cleared")).length > 0);
  await sleep(3000); await stored(Date.now() - 1500);
  const r = await range(from - 5000, Date.now());
  for (const [name, values] of Object.entries(r.f)) assert.ok(values.every((v) => !(v < 0)), `${name} is negative`);
  assert.ok(Math.max(...r.f.wait_log.filter(Number.isFinite)) < 60000, "a spike");
});

await check("30 waiters below one head, and gone with its COMMIT", async () => {
  sql(ports.watched, "USE Shop; CREATE TABLE hot (a int PRIMARY KEY, b int); INSERT hot VALUES (1, 0)");
  const flags = [...at(ports.watched), "-Q"];
  const head = spawn(binary, [...flags, "USE Shop; BEGIN TRAN; UPDATE hot SET b = 1 WHERE a = 1; WAITFOR DELAY '00:00:25'; COMMIT"], { env, stdio: "ignore" });
  await sleep(700);
  const waiters = Array.from({ length: 30 }, () => spawn(binary, [...flags, "USE Shop; UPDATE hot SET b += 1 WHERE a = 1"], { env, stdio: "ignore" }));
  started.push(head, ...waiters);
  const blocked = async () => (await live()).requests.filter((r) => r.blocked_by);
  await until("the tree", async () => (await blocked()).length === 30, 20000);
  const all = (await live()).requests, there = new Set(all.map((r) => r.session));
  const heads = all.filter((r) => !r.blocked_by && all.some((w) => w.blocked_by === r.session));
  assert.equal(heads.length, 1, "one head");
  assert.ok(all.every((r) => !r.blocked_by || there.has(r.blocked_by)), "nobody waits for a stranger");
  await gone(head);
  const took = await until("nobody waits", async () => (await blocked()).length === 0);
  console.log(`  the tree was gone ${(took / 1000).toFixed(1)} s after the head's end`);
});

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const shown = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
await shown.goto(page);
await shown.fill("input[name=login]", "sa"); await shown.fill("input[name=password]", password); await shown.keyboard.press("Enter");
await shown.waitForSelector("#chart-waits canvas");

await check("frozen for 20 seconds: the page says so, a hole stays, sums are right, metrics answer", async () => {
  const before = totals(), from = Date.now();
  await sleep(2000);
  watched.child.kill("SIGSTOP");
  const said = await until("frozen", async () => (await state()) === "frozen", 10000);
  await shown.waitForSelector("#state.frozen");
  console.log(`  frozen was said after ${(said / 1000).toFixed(1)} s`);
  await shown.screenshot({ path: join(out, "frozen.png") });
  const begun = performance.now(), metrics = await ask("/metrics");
  const took = performance.now() - begun;
  assert.equal(metrics.status, 200); await metrics.text();
  assert.ok(took < 1000, `/metrics took ${took.toFixed(0)} ms`);
  console.log(`  /metrics answered in ${took.toFixed(0)} ms meanwhile`);
  await sleep(Math.max(0, 20000 - said));
  watched.child.kill("SIGCONT");
  await until("up again", async () => (await state()) === "up");
  await sleep(3000);
  const after = totals(); await stored(after.now + 1000);
  const r = await range(from, Date.now()), hole = r.t.some((t, n) => r.f.answer_ms[n] !== r.f.answer_ms[n] && t);
  assert.ok(hole, "a hole in the lines");
  const seen = figure(await report(before.now, after.now), "transactions").total, own = after.transactions - before.transactions;
  assert.ok(Math.abs(seen - own) <= 15 + own * 0.01, `transactions over the hole: ${seen} against ${own}`);
});

await check("killed and started again: unreachable, then a start and its recovery, and nothing negative", async () => {
  const from = Date.now(), before = (await events("restart")).length;
  const load = spawn(binary, [...at(ports.watched), "-Q", "USE Shop; SET NOCOUNT ON; DECLARE @n int = 0; WHILE @n < 100000 BEGIN INSERT t VALUES ('x'); SET @n += 1; END"], { env, stdio: "ignore" });
  started.push(load);
  await sleep(2500);
  watched.child.kill("SIGKILL"); await gone(watched.child);
  await until("unreachable", async () => (await state()) === "unreachable");
  await shown.waitForSelector("#state.unreachable");
  await shown.screenshot({ path: join(out, "unreachable.png") });
  watched = await serve("watched", ports.watched);
  await until("up again", async () => (await state()) === "up");
  await until("the start as an event", async () => (await events("restart")).length === before + 1);
  await until("its recovery", async () => (await events("recovery")).some((e) => e.words.includes("of database Shop: analysis")));
  const recovery = (await events("recovery")).find((e) => e.words.includes("of database Shop"));
  assert.ok(recovery.until >= recovery.at && recovery.at >= from, recovery.words);
  await sleep(3000); await stored(Date.now() - 2000);
  const r = await range(from - 5000, Date.now());
  for (const [name, values] of Object.entries(r.f)) assert.ok(values.every((v) => !(v < 0)), `${name} is negative`);
  await shown.goto(`${page}?last=15m`); await shown.waitForSelector(".lane"); await shown.waitForTimeout(500);
  await shown.screenshot({ path: join(out, "restarted.png") });
});

await check("the history's server away for a while: the page goes on, and nothing is lost", async () => {
  const from = Date.now();
  history.child.kill("SIGTERM"); await gone(history.child);
  await until("not stored", async () => (await json("/api/servers")).repository.error !== null);
  const ticks = (await live()).ticks.length;
  await sleep(12000);
  assert.ok((await live()).ticks.length >= ticks + 8, "samples go on");
  history = await serve("history", ports.history);
  await until("stored again", async () => (await json("/api/servers")).repository.error === null);
  await stored(Date.now() - 1000);
  const r = await range(from, Date.now() - 2000), gaps = r.t.filter((t, n) => n > 0 && t - r.t[n - 1] > 3).length;
  assert.equal(gaps, 0, "seconds are missing");
});

await check("the history's server killed: what was called stored is there", async () => {
  await sleep(4000);
  history.child.kill("SIGKILL"); await gone(history.child);
  const said = await storedUntil();
  history = await serve("history", ports.history);
  const there = sql(ports.history, "SET NOCOUNT ON; SELECT CONCAT('|', DATEDIFF_BIG(millisecond, '1970-01-01', MAX(at)), '|') FROM DarumaMonitor.dbo.tick_1s");
  assert.ok(Number(there.match(/\|(\d+)\|/)[1]) >= said, `${there.trim()} against ${said}`);
  await until("stored again", async () => (await json("/api/servers")).repository.error === null);
});

await check("a planted secret is nowhere in the history's files", async () => {
  sql(ports.watched, `USE Shop; SELECT COUNT(*) AS n FROM t AS a CROSS JOIN (SELECT TOP (300) a FROM t) AS b WHERE a.b <> '${secret}' /* ${secret} */`);
  sql(ports.watched, `USE Shop; EXEC sp_executesql N'WAITFOR DELAY ''00:00:01.2''; SELECT @p AS p', N'@p varchar(60)', @p = '${secret}'`);
  try { sql(ports.watched, `RAISERROR ('${secret}', 19, 1) WITH LOG`); } catch { /* it is meant to fail */ }
  await until("the statement", async () => { const now = Date.now(); return (await json(`/api/statements?server=1&from=${now - 120000}&to=${now + 5000}&least_ms=1000`)).some((s) => s.text.includes("sp_executesql")); });
  await until("the error", async () => (await events("error")).some((e) => e.words.includes("severity 19")));
  await stored(Date.now() - 500);
  sql(ports.history, "CHECKPOINT"); 
  const files = (dir) => readdirSync(dir).flatMap((name) => { const path = join(dir, name); return statSync(path).isDirectory() ? files(path) : [path]; });
  for (const file of files(join(folder, "history"))) {
    const bytes = readFileSync(file);
    for (const coding of ["utf8", "utf16le"]) assert.ok(!bytes.includes(Buffer.from(secret, coding)), `${file} has it as ${coding}`);
  }
});

await browser.close();
for (const child of started) { child.kill("SIGCONT"); child.kill("SIGTERM"); }
for (const child of [watched.child, history.child]) { child.kill("SIGTERM"); await gone(child); }
const failed = results.filter((ok) => !ok).length;
console.log(`${results.length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
