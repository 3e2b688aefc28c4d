// Drives the monitor's page with the system's Chromium: page.mjs PAGE SERVER BINARY OUT
import { chromium } from "playwright-core";
import { spawn, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";

const [page_, server, binary, out] = process.argv.slice(2);
const password = process.env.MSSQL_SA_PASSWORD, axe = `${out}/node_modules/axe-core/axe.min.js`;
const flags = ["sql", "-S", server, "-U", "sa", "-C", "-b"];
const env = { ...process.env, SQLCMDPASSWORD: password };
const sql = (text) => execFileSync(binary, [...flags, "-Q", text], { env, encoding: "utf8" });
/** A statement that goes on; gives its process. */
const background = (text) => spawn(binary, [...flags, "-Q", text], { env, stdio: "ignore" });

sql("CREATE DATABASE Shop; ALTER DATABASE Shop SET DELAYED_DURABILITY = ALLOWED");
sql("USE Shop; CREATE TABLE t (a int NOT NULL PRIMARY KEY, b varchar(100) NOT NULL); CREATE TABLE purge (a int IDENTITY PRIMARY KEY, b char(200) NOT NULL);");
const load = background("USE Shop; DECLARE @n int = 0; WHILE @n < 1000000 BEGIN INSERT purge VALUES ('x'); IF @n % 7 = 0 DELETE TOP (20) purge; IF @n % 400 = 0 WAITFOR DELAY '00:00:00.300'; SET @n += 1; END");

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const results = [];
const check = async (name, work) => {
  try { await work(); results.push([true, name]); console.log(`PASS ${name}`); } catch (error) { results.push([false, name]); console.log(`FAIL ${name}: ${error.message.split("\n").slice(0, 6).join("\n  ")}`); await page.screenshot({ path: `${out}/failed-${results.length}.png` }).catch(() => {}); }
};
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", acceptDownloads: true });
const page = await context.newPage();
page.setDefaultTimeout(30000);
const complaints = [], foreign = [];
page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("request", (request) => { if (!request.url().startsWith(page_) && !request.url().startsWith("data:") && !request.url().startsWith("blob:")) foreign.push(request.url()); });

const logIn = async (where) => {
  await where.fill("input[name=login]", "sa");
  await where.fill("input[name=password]", password);
  await where.keyboard.press("Enter");
  await where.waitForSelector("#chart-waits canvas");
};
/** Drags over a part of a chart; gives the selected time in ms. */
const drag = async (chart, from, to) => {
  const over = page.locator(`#chart-${chart} .u-over`);
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + box.height / 2, { steps: 8 });
  await page.mouse.up();
  await page.waitForSelector("#menu:not([hidden])");
};
/** Waits until something that the page can find out is so. */
const until = async (what, is, argument, patience = 60000) => {
  const end = Date.now() + patience;
  while (!(await page.evaluate(is, argument))) { assert.ok(Date.now() < end, `${what} did not come`); await page.waitForTimeout(250); }
};
const ticks = (n) => until(`${n} samples`, async (n) => (await (await fetch("/api/live?server=1")).json()).ticks.length >= n, n, 180000);
/** The dashboard over the last seconds. */
const lately = async (seconds, more = "") => {
  const to = Date.now() - 3000;
  await page.goto(`${page_}?server=1&from=${new Date(to - seconds * 1000).toISOString()}&to=${new Date(to).toISOString()}${more}`);
  await page.waitForSelector("#chart-waits canvas");
};
const ran = (part) => until(part, async (part) => { const to = Date.now() + 5000; return (await (await fetch(`/api/statements?server=1&from=${to - 600000}&to=${to}&least_ms=1000`)).json()).some((r) => (r.text || "").includes(part)); }, part);

await check("a stranger sees the login page alone", async () => {
  await page.goto(page_);
  await page.waitForSelector("input[name=password]");
  await page.screenshot({ path: `${out}/login-light-1280.png` });
  await page.fill("input[name=login]", "sa"); await page.fill("input[name=password]", "wrong"); await page.keyboard.press("Enter");
  await page.waitForSelector("#wrong:target");
  assert.ok(await page.isVisible("#wrong"));
});
await check("log in", async () => { await logIn(page); await page.waitForSelector("#state.up"); });
await check("a minute of samples", async () => { await ticks(75); await lately(60); });
await check("drag selects the same instants on all charts", async () => {
  await drag("waits", 0.3, 0.7);
  const widths = await page.$$eval(".charts .plot .u-select", (nodes) => nodes.map((n) => Math.round(n.getBoundingClientRect().width / n.parentNode.getBoundingClientRect().width * 1000)));
  const drawn = widths.filter((w) => w > 0);
  assert.ok(drawn.length >= 6, `${drawn.length} charts show it`);
  assert.ok(Math.max(...drawn) - Math.min(...drawn) <= 12, drawn.join());
  await page.screenshot({ path: `${out}/selection-light-1280.png` });
});
await check("quick report of the selection, as HTML file that opens by itself", async () => {
  await page.click("#menu >> text=Quick report");
  await page.waitForSelector("#report-waits table");
  assert.ok(await page.locator("#report-waits td", { hasText: "WRITELOG" }).count() > 0);
  await page.screenshot({ path: `${out}/report-light-1280.png` });
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#report-html")]);
  const path = await file.path();
  const text = readFileSync(path, "utf8");
  assert.ok(text.includes("<pre id=samples>") && !text.includes("<script"));
  const alone = await context.newPage();
  await alone.setContent(text); assert.ok(await alone.isVisible("text=WRITELOG")); await alone.close();
});
await check("a baseline of a stretch, by name", async () => {
  await page.click("text=New baseline…");
  await page.fill("dialog input[name=name]", "durable");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.querySelector("dialog").open);
  await page.click("nav >> text=Dashboard");
  await page.waitForSelector("#chart-flushes canvas");
  assert.ok(await page.locator("#range option", { hasText: "durable" }).count() === 1);
});
await check("two stretches side by side", async () => {
  await lately(60);
  await drag("flushes", 0.1, 0.45); await page.click("#menu >> text=Use as A");
  await page.waitForSelector("#chart-flushes canvas");
  await drag("flushes", 0.5, 0.9); await page.click("#menu >> text=Use as B");
  await page.click("nav >> text=Compare");
  await page.waitForSelector("#headline .big");
  await page.waitForSelector("#chart-compare-2 canvas");
  assert.ok(await page.locator("td", { hasText: "Log flushes" }).count() > 0);
  await page.screenshot({ path: `${out}/compare-light-1280.png`, fullPage: true });
});
await check("a blocked session comes and goes", async () => {
  sql("USE Shop; INSERT t VALUES (1, 'x')");
  await page.click("nav >> text=Blocking"); await page.click("#range >> text=15m");
  await page.waitForSelector("text=Nobody waits for anybody.");
  const head = background("USE Shop; BEGIN TRAN; UPDATE t SET b = 'secret one' WHERE a = 1; WAITFOR DELAY '00:00:08'; COMMIT");
  await page.waitForTimeout(500);
  const waiter = background("USE Shop; UPDATE t SET b = 'secret two' WHERE a = 1");
  await page.waitForSelector(".tree .head", { timeout: 6000 });
  await page.waitForSelector(".tree ul >> text=LCK_M_");
  await page.waitForFunction(() => document.querySelector(".tree ul pre")?.textContent.includes("UPDATE t SET b = ?"));
  assert.ok(!(await page.textContent("main")).includes("secret"));
  await page.screenshot({ path: `${out}/blocking-light-1280.png` });
  await page.waitForSelector("text=Nobody waits for anybody.", { timeout: 20000 });
  head.kill(); waiter.kill();
});
await check("what ran: the statement that waited, and its time", async () => {
  await page.click("nav >> text=Top SQL");
  await ran("UPDATE t SET b = ?");
  await page.click("#range >> text=15m");
  await page.waitForSelector("td.text >> text=UPDATE t");
  await page.screenshot({ path: `${out}/top-sql-light-1280.png` });
  await page.locator("tr", { hasText: "UPDATE t SET b" }).first().locator("text=Set range").click();
  assert.match(page.url(), /from=/);
});
await check("keyboard: move, select, report", async () => {
  await page.goto(page_); await page.waitForSelector("#chart-waits canvas");
  await page.focus("#chart-waits .plot");
  await page.keyboard.press("End");
  for (let n = 0; n < 6; n += 1) await page.keyboard.press("Shift+ArrowLeft");
  await page.waitForSelector("#menu:not([hidden])");
  await page.keyboard.press("r");
  await page.waitForSelector("#report-figures table");
  await page.goBack(); await page.waitForSelector("#chart-waits canvas");
  await page.keyboard.press("?"); await page.waitForSelector("dialog[open]"); await page.keyboard.press("Escape");
});
await check("a slow statement has its plan", async () => {
  sql("USE Shop; CREATE TABLE p (a int NOT NULL PRIMARY KEY, b varchar(40) NOT NULL); INSERT p SELECT TOP (1500) ROW_NUMBER() OVER (ORDER BY (SELECT 1)), 'x' FROM sys.all_columns AS l CROSS JOIN sys.all_columns AS r");
  const slow = "USE Shop; SELECT COUNT(*) AS n FROM p AS l CROSS JOIN p AS r WHERE l.b <> 'secret three' AND l.a + r.a > 3";
  for (let n = 0; n < 3; n += 1) { sql(slow); await page.waitForTimeout(4000); }
  await until("its plan", async () => { const to = Date.now() + 5000; return (await (await fetch(`/api/statements?server=1&from=${to - 600000}&to=${to}&least_ms=0`)).json()).some((r) => r.has_plan && r.text.includes("CROSS JOIN p")); });
  await page.goto(`${page_}?view=sql`);
  await page.selectOption("main select", "0");
  await page.locator("tr", { hasText: "CROSS JOIN p" }).locator("text=Plan").first().click();
  await page.waitForSelector("dialog pre.plan >> text=Nested Loops");
  assert.ok(!(await page.textContent("dialog")).includes("secret"));
  await page.screenshot({ path: `${out}/plan-light-1280.png` });
  await page.keyboard.press("Escape");
});
await check("what the server did stands in lanes below the waits, and one leads there", async () => {
  sql(`BACKUP DATABASE Shop TO DISK = '${out}/shop.bak' WITH INIT`);
  await until("the backup as an event", async () => { const to = Date.now() + 5000; return (await (await fetch(`/api/events?server=1&from=${to - 600000}&to=${to}`)).json()).some((e) => e.kind === "backup"); });
  await page.goto(page_); await page.waitForSelector("#lanes .lane >> text=Backups"); await page.waitForSelector("#lanes .lane >> text=Starts");
  await page.locator("#lanes button.span").last().focus(); await page.keyboard.press("Enter");
  await page.waitForSelector("#lanes p >> text=backup of Shop");
  await page.screenshot({ path: `${out}/lanes-light-1280.png` });
  await page.click("#lanes p button");
  assert.match(page.url(), /from=/);
  await page.click("nav >> text=Events"); await page.waitForSelector("td >> text=backup of Shop");
});
await check("markup in a column's, a database's or a login's name stays text", async () => {
  const image = "<img src=x onerror=alert(1)>";
  sql(`CREATE DATABASE [${image}]`);
  sql(`CREATE LOGIN [${image}] WITH PASSWORD = '${password}', DEFAULT_DATABASE = [${image}]; ALTER SERVER ROLE sysadmin ADD MEMBER [${image}]`);
  execFileSync(binary, ["sql", "-S", server, "-U", image, "-C", "-b", "-Q", `EXEC sp_executesql N'WAITFOR DELAY ''00:00:01.200''; SELECT 1 AS [${image}]'`], { env });
  await page.goto(`${page_}?view=sql`);
  await ran("sp_executesql");
  await page.click("#range >> text=15m");
  await page.waitForSelector("td >> text=<img src=x");
  assert.equal(await page.locator("main img").count(), 0);
  await page.goto(`${page_}?view=events`); await page.waitForSelector("td >> text=<img src=x");
  assert.equal(await page.locator("main img").count(), 0);
  const [html, csv] = await page.evaluate(async () => { const to = Date.now(), of = async (kind) => (await fetch(`/report.${kind}?server=1&from=${to - 600000}&to=${to}`)).text(); return [await of("html"), await of("csv")]; });
  assert.ok(!html.includes("<img") && html.includes("&lt;img"), "the file");
  assert.ok(csv.split("\n").every((line) => !/^[=+@-]/.test(line)), "the CSV");
});
await check("a hundred changes of the range leave nothing behind", async () => {
  await lately(60);
  const cdp = await context.newCDPSession(page);
  const kept = async () => { await page.waitForTimeout(1500); await cdp.send("HeapProfiler.collectGarbage"); const { usedSize } = await cdp.send("Runtime.getHeapUsage"); return [usedSize, await page.locator("main canvas").count()]; };
  const turn = async (n) => { for (let i = 0; i < n; i += 1) { await page.keyboard.press(i % 2 ? "+" : "-"); await page.locator("#chart-waits canvas").waitFor(); } };
  await turn(20); const [before, canvases] = await kept();
  await turn(100); const [after, now] = await kept();
  assert.ok(now <= canvases + 2, `${canvases} canvases, then ${now}`);
  assert.ok(after < before * 1.3 + 4e6, `${(before / 1e6).toFixed(1)} MB, then ${(after / 1e6).toFixed(1)} MB`);
});
await check("the keyboard alone compares two stretches", async () => {
  await lately(60);
  const part = async (key, steps, take) => {
    await page.focus("#chart-flushes .plot"); await page.keyboard.press(key);
    for (let n = 0; n < steps; n += 1) await page.keyboard.press(key === "Home" ? "Shift+ArrowRight" : "Shift+ArrowLeft");
    await page.waitForSelector("#menu:not([hidden])"); await page.keyboard.press(take);
  };
  await part("Home", 12, "a"); await page.waitForSelector("#chart-flushes canvas");
  await part("End", 12, "c"); await page.waitForSelector("#headline .big");
});
for (const view of ["dash", "sql", "blocking", "compare", "report", "events", "alerts", "settings"]) {
  await check(`axe finds nothing serious on ${view}`, async () => {
    // The policy of the page keeps foreign scripts out, this one too: a context of its own leaves it aside.
    const apart = await browser.newContext({ viewport: { width: 1280, height: 900 }, bypassCSP: true, storageState: await context.storageState() });
    const looked = await apart.newPage();
    for (const colorScheme of ["light", "dark"]) {
      await looked.emulateMedia({ colorScheme });
      await looked.goto(`${page_}?view=${view}&last=15m`); await looked.waitForSelector(view === "dash" ? "#chart-waits canvas" : "main > *"); await looked.waitForTimeout(1500);
      await looked.addScriptTag({ path: axe });
      const found = await looked.evaluate(async () => (await axe.run()).violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(" | ")}`));
      assert.deepEqual(found, [], colorScheme);
    }
    await apart.close();
  });
}
for (const [scheme, width, height] of [["light", 1280, 900], ["dark", 1280, 900], ["light", 390, 844], ["dark", 390, 844]]) {
  await check(`${scheme} at ${width}: no view is wider than the page`, async () => {
    await page.emulateMedia({ colorScheme: scheme }); await page.setViewportSize({ width, height });
    for (const view of ["dash", "sql", "blocking", "compare", "report", "events", "alerts", "settings"]) {
      await page.goto(`${page_}?view=${view}&last=15m`);
      await page.waitForSelector(view === "dash" ? "#chart-waits canvas" : "main > *");
      await page.waitForTimeout(400);
      const [wide, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      await page.screenshot({ path: `${out}/${view}-${scheme}-${width}.png` });
      assert.ok(wide <= inner, `${view} is ${wide} wide`);
    }
  });
}
await check("no request left the origin and no policy was broken", async () => {
  assert.deepEqual(foreign, []);
  // The refused login and answers that were cut off by a change of page are expected.
  assert.deepEqual(complaints.filter((c) => !/Failed to load resource|net::ERR/.test(c)), []);
});

load.kill();
await browser.close();
const failed = results.filter(([ok]) => !ok).length;
console.log(`${results.length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
