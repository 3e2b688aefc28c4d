// Top SQL, blocking, compare, quick report, events, alerts, settings.
import { el, json, send, query, number, bytes, duration, percent, clock, table, statement, range, say, tell } from "./base.js";
import { Chart, WAITS } from "./charts.js";

const stretch = (r) => query({ server: r.server, from: Math.round(r.from), to: Math.round(r.to) });
const empty = (words) => el("p", { class: "card empty" }, words);
const unit = (figure, value) => {
  if (value === null || value === undefined) return "–";
  if (figure.unit === "B") return bytes(value);
  if (figure.unit === "B/s") return `${bytes(value)}/s`;
  if (figure.unit === "ms") return duration(value);
  return `${number(value)}${figure.unit ? `\u2009${figure.unit}` : ""}`;
};
const total = (figure, value) => (value === null ? "–" : figure.unit === "B/s" ? bytes(value) : figure.unit === "ms/s" ? duration(value) : number(value));

// ---- Top SQL

export async function topSql(main, app) {
  let least = 100, running = false, filter = "", done = [];
  const list = el("div", { class: "card" });
  const show = () => {
    const match = (r) => !filter || `${r.text || ""} ${r.database} ${r.login} ${r.application || ""}`.toLowerCase().includes(filter);
    if (running) {
      const rows = (app.live?.requests || []).filter((r) => r.application !== "DarumaMonitor" && match(r));
      list.replaceChildren(rows.length ? table("What runs now", [
        { name: "Running", of: (r) => r.elapsed_ms, show: (r) => duration(r.elapsed_ms) }, { name: "Session", of: (r) => r.session }, { name: "State", of: (r) => r.status, left: true }, { name: "Waits for", of: (r) => r.wait_type, left: true }, { name: "Blocked by", of: (r) => r.blocked_by, show: (r) => r.blocked_by || "" },
        { name: "CPU", of: (r) => r.cpu_ms, show: (r) => duration(r.cpu_ms) }, { name: "Reads", of: (r) => r.reads, show: (r) => number(r.reads) }, { name: "Database", of: (r) => r.database, left: true }, { name: "Login", of: (r) => r.login, left: true }, { name: "Statement", of: (r) => r.text || r.command, text: true, show: (r) => statement(r.text || r.command) }], rows) : el("p", { class: "empty" }, "Nothing runs at this moment but the monitor's own question."));
      return;
    }
    const rows = done.filter(match);
    list.replaceChildren(rows.length ? table(`${rows.length} completed between ${clock(app.from)} and ${clock(app.to)}${rows.length >= 1000 ? ", the longest" : ""}`, [
      { name: "Ended", of: (r) => r.ended, show: (r) => clock(r.ended) }, { name: "Started", of: (r) => r.started, show: (r) => clock(r.started) }, { name: "Duration", of: (r) => r.duration_us, show: (r) => duration(r.duration_us / 1000) }, { name: "CPU", of: (r) => r.cpu_us, show: (r) => duration(r.cpu_us / 1000) }, { name: "Reads", of: (r) => r.reads, show: (r) => number(r.reads) }, { name: "Writes", of: (r) => r.writes, show: (r) => number(r.writes) },
      { name: "Waits", of: (r) => r.wait_ms, show: (r) => [r.executions > 1 ? `${number(r.executions)} times` : "", waits(r)].filter(Boolean).join(", ") }, { name: "Database", of: (r) => r.database, left: true }, { name: "Login", of: (r) => r.login, left: true },
      { name: "Statement", of: (r) => r.text, text: true, show: (r) => statement(r.text) }, { name: "", of: () => 0, show: (r) => el("span", { class: "buttons" }, r.has_plan ? el("button", { onclick: () => plans(r), title: "How the server runs this statement" }, "Plan") : null, el("button", { onclick: () => app.zoom(r.started - 1000, r.ended + 1000), title: "Show the time of this statement" }, "Set range")) }], rows, { sort: 2 }) : el("p", { class: "empty" }, done.length ? "No statement matches the filter." : "No statement that ran as long as this ended in this range."));
  };
  const waits = (r) => [["log", r.log_wait_ms], ["lock", r.lock_wait_ms], ["disk", r.io_wait_ms]].filter(([, v]) => v > 0).map(([n, v]) => `${n} ${duration(v)}`).join(", ") || (r.wait_ms ? duration(r.wait_ms) : "");
  const plans = async (r) => {
    const all = await json(`/api/plans?${query({ server: app.server, text: r.text_id })}`);
    tell(all.length > 1 ? `${all.length} plans, the newest first` : "Plan", el("pre", { class: "plan" }, r.text), ...all.map((p) => el("section", {}, el("p", { class: "dim" }, `first seen ${clock(p.seen, true)}`), el("pre", { class: "plan", tabindex: "0" }, p.tree))));
  };
  const load = async () => { done = await json(`/api/statements?${stretch(app)}&least_ms=${least}`); show(); };
  const which = ["Completed", "Running"].map((name) => el("button", { "aria-pressed": String((name === "Running") === running), onclick: () => { running = name === "Running"; which.forEach((b) => b.setAttribute("aria-pressed", String((b.textContent === "Running") === running))); show(); } }, name));
  main.replaceChildren(el("div", { class: "bar" }, el("h2", {}, "Top SQL"), which, el("label", {}, "at least ", el("select", { onchange: (event) => { least = Number(event.target.value); load(); } }, [[0, "any time"], [100, "100 ms"], [1000, "1 s"], [10000, "10 s"]].map(([v, n]) => el("option", { value: v, selected: v === least }, n)))), el("input", { type: "search", placeholder: "Filter", "aria-label": "Filter", oninput: (event) => { filter = event.target.value.toLowerCase(); show(); } }), el("span", { class: "dim" }, app.me.masks ? "literals are replaced by ?" : "literals are shown")), list);
  await load();
  let last = Date.now();
  return { beat: (live) => { if (running) { show(); return; } if (app.isLive() && Date.now() - last > 10000 && !list.contains(document.activeElement)) { last = Date.now(); const width = app.to - app.from; app.to = live.now; app.from = live.now - width; load().catch(() => {}); } } };
}

// ---- Blocking

export async function blocking(main, app) {
  const box = el("div"), said = el("span", { class: "dim" });
  main.replaceChildren(el("div", { class: "bar" }, el("h2", {}, "Blocking"), said), box);
  const node = (request, all, seen) => {
    const children = all.filter((r) => r.blocked_by === request.session && !seen.has(r.session)), head = !request.blocked_by;
    children.forEach((child) => seen.add(child.session));
    return el("li", { class: head ? "head" : null }, el("div", {}, el("div", { class: "what" }, el("b", {}, `Session ${request.session}`), head ? el("span", { class: "tag bad" }, "HEAD") : el("span", { class: "tag" }, `${request.wait_type || "waits"} ${duration(request.wait_ms)}`), el("span", {}, head && !request.wait_type && request.status === "sleeping" ? `idle in a transaction for ${duration(request.elapsed_ms)}` : `${request.command.toLowerCase()}, ${duration(request.elapsed_ms)}`), el("span", { class: "dim" }, [request.login, request.application, request.host, request.database].filter(Boolean).join(" · ")), request.resource ? el("span", { class: "dim" }, request.resource) : null), request.text ? el("pre", {}, request.text) : null),
      children.length ? el("ul", {}, children.map((child) => node(child, all, seen))) : null);
  };
  const show = (rows, words) => {
    const there = new Set(rows.map((r) => r.session)), blockers = new Set(rows.map((r) => r.blocked_by));
    const heads = rows.filter((r) => (blockers.has(r.session) && (!r.blocked_by || !there.has(r.blocked_by)))), seen = new Set(heads.map((h) => h.session));
    const waiting = rows.filter((r) => r.blocked_by).length;
    said.textContent = words;
    box.replaceChildren(waiting === 0 ? empty("Nobody waits for anybody.") : el("ul", { class: "tree", "aria-label": "Blocking tree" }, heads.map((h) => node(h, rows, seen))));
    return waiting;
  };
  let told = 0;
  const now = (live) => { const waiting = show(live.requests, `live, ${live.requests.filter((r) => r.blocked_by).length} waiting`); if (waiting !== told) { told = waiting; say(waiting ? `${waiting} sessions are blocked` : "Nobody is blocked any more"); } };
  if (app.isLive()) { if (app.live) now(app.live); else box.replaceChildren(empty("Looking …")); } else {
    const rows = await json(`/api/blocking?${query({ server: app.server, at: Math.round(app.to) })}`);
    show(rows, rows.length ? `as it was at ${clock(rows[0].at, true)}` : `in the minute before ${clock(app.to, true)}`);
  }
  return { beat: (live) => { if (app.isLive()) now(live); } };
}

// ---- Compare

const WORDS = { better: "better", worse: "worse", differs: "differs", same: "no difference", "too-short": "too short to judge", small: "too little for a per cent", absent: "absent" };

export async function compare(main, app) {
  const chosen = (which) => { const s = app[which]; return s ? `${clock(s.from, true)} – ${clock(s.to)}, ${duration(s.to - s.from)}` : "not chosen"; };
  const picker = (which) => el("div", { class: "card" }, el("h3", {}, which.toUpperCase()), el("p", { class: "dim" }, chosen(which)), el("select", { "aria-label": `Stretch ${which.toUpperCase()}`, onchange: (event) => { const b = app.baselines.find((x) => String(x.id) === event.target.value); if (b) app.go({ [which]: { server: b.server, from: b.from, to: b.to } }); } },
    el("option", { value: "" }, "take a baseline …"), app.baselines.map((b) => el("option", { value: b.id, selected: app[which] && b.from === app[which].from && b.to === app[which].to }, `${b.name} (${duration(b.to - b.from)})`))));
  const bar = el("div", { class: "bar" }, el("h2", {}, "Compare"), app.a && app.b ? el("button", { onclick: () => app.go({ a: app.b, b: app.a }) }, "Swap A and B") : null);
  main.replaceChildren(bar, el("div", { class: "two" }, picker("a"), picker("b")));
  if (!app.a || !app.b) { main.append(empty("Choose two stretches: take a baseline above, or select a stretch on the dashboard and use it as A or B.")); return {}; }
  const { a, b } = app;
  const answer = await json(`/api/compare?${query({ a_server: a.server, a_from: Math.round(a.from), a_to: Math.round(a.to), b_server: b.server, b_from: Math.round(b.from), b_to: Math.round(b.to) })}`);
  const row = (name) => answer.rows.find((r) => r.a.name === name), sum = (names, side) => names.reduce((all, n) => all + (row(n)?.[side].total || 0), 0);
  const disk = ["wait_log", "wait_data_read", "wait_other_disk"];
  const cards = [
    ["Duration", a.to - a.from, b.to - b.from, duration, "of the stretch"],
    ["Disk waits", sum(disk, "a"), sum(disk, "b"), duration, "in total"],
    ["Log waits", sum(["wait_log"], "a"), sum(["wait_log"], "b"), duration, "in total"],
    ["Log flushes", row("log_flushes")?.a.average ?? 0, row("log_flushes")?.b.average ?? 0, (v) => `${number(v)}/s`, "by second"],
  ];
  const bars = (va, vb, show) => el("div", { class: "pair" }, ...[["A", va, "var(--c0)"], ["B", vb, "var(--c2)"]].flatMap(([n, v, c]) => [el("b", {}, n), el("div", { class: "track" }, el("div", { style: { width: `${Math.max(0.5, (v / Math.max(va, vb, 1e-9)) * 100)}%`, height: "100%", background: c, borderRadius: "3px" } })), el("span", {}, show(v))]));
  main.append(el("div", { class: "two", id: "headline" }, cards.map(([name, va, vb, show, words]) => el("div", { class: "card" }, el("h3", {}, name, " ", el("span", { class: "dim" }, words)), el("div", { class: `big ${va > 0 && Math.abs(vb / va - 1) > 0.005 ? (vb < va ? "better" : "worse") : ""}` }, va > 0 ? percent((vb / va - 1) * 100) : "–"), bars(va, vb, show)))));

  // Charts over each other, both from second 0.
  const [da, db] = await Promise.all([range(a.server, a.from, a.to), range(b.server, b.from, b.to)]);
  const width = Math.max(a.to - a.from, b.to - b.from), grid = el("div", { class: "charts" });
  const lines = [["All waits", (d) => d.t.map((_, i) => WAITS.reduce((all, [n]) => (Number.isFinite(d.f[n][i]) ? (all ?? 0) + d.f[n][i] : all), null)), (v) => `${number(v)} ms/s`, "ms per s"], ["Log waits", (d) => d.f.wait_log.map((v) => (Number.isFinite(v) ? v : null)), (v) => `${number(v)} ms/s`, "ms per s"], ["Log flushes", (d) => d.f.log_flushes.map((v) => (Number.isFinite(v) ? v : null)), (v) => `${number(v)}/s`, "per s"], ["Transactions", (d) => d.f.transactions.map((v) => (Number.isFinite(v) ? v : null)), (v) => `${number(v)}/s`, "per s"]];
  const joined = (of) => { const [ta, tb] = [da.t.map((t) => t - a.from / 1000), db.t.map((t) => t - b.from / 1000)]; return uPlot.join([[ta, of(da)], [tb, of(db)]]); };
  const drawn = lines.map(([title, of, show, words], at) => {
    const [t, va, vb] = joined(of);
    // Times of the two differ; a line goes over the other's, and breaks only at its own holes.
    const spec = { id: `compare-${at}`, title, unit: words, show, relative: true, series: [{ label: "A", colour: "--c0", of: () => fill(va) }, { label: "B", colour: "--c2", of: () => fill(vb) }] };
    const chart = new Chart(spec, {}, "compare");
    chart.set({ t, from: 0, to: width, step_ms: Math.max(da.step_ms, db.step_ms), f: {} }); grid.append(chart.node); return chart;
  });
  main.append(grid); drawn.forEach((chart) => chart.show());

  const effect = (r) => Math.abs(r.percent ?? 0);
  const judged = (r) => el("span", { class: r.judgement === "better" || r.judgement === "worse" ? r.judgement : "dim" }, WORDS[r.judgement] || r.judgement);
  main.append(el("section", { class: "card" },
    el("p", { class: "dim" }, `${answer.compared} figures were compared; at 95 % about one in twenty differs by chance. Coverage: A ${cover(answer.a)}, B ${cover(answer.b)}. One stretch each shows that these two differ, not why.`),
    table("Figures, the largest effect first. B against A.", [
      { name: "Figure", of: (r) => r.a.title, left: true }, { name: "A", of: (r) => r.a.average, show: (r) => unit(r.a, r.a.average) }, { name: "B", of: (r) => r.b.average, show: (r) => unit(r.b, r.b.average) }, { name: "A in total", of: (r) => r.a.total ?? 0, show: (r) => total(r.a, r.a.total) }, { name: "B in total", of: (r) => r.b.total ?? 0, show: (r) => total(r.b, r.b.total) },
      { name: "Rate", of: effect, show: (r) => el("span", { class: r.judgement === "better" || r.judgement === "worse" ? r.judgement : null }, percent(r.percent)) }, { name: "Total", of: (r) => Math.abs(r.percent_total ?? 0), show: (r) => percent(r.percent_total) }, { name: "95 %", of: (r) => r.interval?.[0] ?? 0, show: (r) => (r.interval ? `${percent(r.interval[0])} … ${percent(r.interval[1])}` : "") }, { name: "", of: (r) => r.judgement, left: true, show: judged }], answer.rows, { sort: 5 })));
  return { leave: () => drawn.forEach((chart) => chart.drop()), redraw: () => drawn.forEach((chart) => chart.draw()) };
}
const cover = (s) => `${Math.min(100, (s.covered_ms / (s.to - s.from)) * 100).toFixed(0)} % (${s.samples} samples of ${duration(s.step_ms)})`;
/** Values that are missing because only the other stretch has a time there take the one before; holes and the end stay. */
function fill(values) {
  let last = null, end = values.length - 1;
  while (end >= 0 && values[end] === undefined) end -= 1;
  return values.map((v, at) => { if (v !== undefined) last = v; return at > end ? null : v === undefined ? last : v; });
}

// ---- Quick report

export async function report(main, app) {
  const r = await json(`/api/report?${stretch(app)}`), s = r.summary, all = r.waits.reduce((sum, w) => sum + w.ms, 0) || 1;
  const link = (kind) => `/report.${kind}?${stretch(app)}`;
  main.replaceChildren(el("div", { class: "bar" }, el("h2", {}, "Quick report"), el("a", { href: link("html"), id: "report-html" }, "HTML file"), el("a", { href: link("csv"), id: "report-csv" }, "CSV"), app.admin() ? el("button", { onclick: () => app.newBaseline(s.from, s.to) }, "New baseline…") : null, el("button", { onclick: () => app.go({ a: { server: app.server, from: s.from, to: s.to } }) }, "Use as A"), el("button", { onclick: () => app.go({ b: { server: app.server, from: s.from, to: s.to }, view: "compare" }) }, "Use as B")),
    el("p", { class: "dim" }, `${r.server}: ${clock(s.from, true)} to ${clock(s.to, true)}, ${duration(s.to - s.from)}. Samples for ${Math.min(100, (s.covered_ms / (s.to - s.from)) * 100).toFixed(1)} % of it, ${s.samples} of ${duration(s.step_ms)}. Literals are ${r.masked ? "replaced by ?" : "shown"}.`));
  if (s.samples === 0) { main.append(empty("There are no samples in this stretch.")); return {}; }
  main.append(el("section", { class: "card", id: "report-waits" }, r.waits.length ? table("Waits, the longest first", [{ name: "Type", of: (w) => w.name, left: true }, { name: "Class", of: (w) => w.class, left: true }, { name: "Time", of: (w) => w.ms, show: (w) => duration(w.ms) }, { name: "Share", of: (w) => w.ms, show: (w) => el("span", {}, el("span", { class: "share", style: { width: `${(w.ms / all) * 60}px` } }), `${((w.ms / all) * 100).toFixed(1)}\u2009%`) }, { name: "Waits", of: (w) => w.tasks, show: (w) => number(w.tasks) }, { name: "Each", of: (w) => w.ms / Math.max(w.tasks, 1), show: (w) => (w.tasks ? duration(w.ms / w.tasks) : "–") }, { name: "Signal", of: (w) => w.signal_ms, show: (w) => duration(w.signal_ms) }], r.waits, { sort: 2 }) : el("p", { class: "empty" }, "Nothing waited.")));
  main.append(el("section", { class: "card", id: "report-figures" }, table("Figures", [{ name: "Figure", of: (f) => f.title, left: true }, { name: "Total", of: (f) => f.total ?? 0, show: (f) => total(f, f.total) }, { name: "Average", of: (f) => f.average ?? 0, show: (f) => unit(f, f.average) }, { name: "Least", of: (f) => f.min ?? 0, show: (f) => unit(f, f.min) }, { name: "Most", of: (f) => f.max ?? 0, show: (f) => unit(f, f.max) }, { name: "Deviation", of: (f) => f.deviation ?? 0, show: (f) => unit(f, f.deviation) }, { name: "95th percentile", of: (f) => f.p95 ?? 0, show: (f) => unit(f, f.p95) }], s.figures.filter((f) => f.n > 0 && (f.max !== 0 || f.min !== 0)), { sort: -1 })));
  if (r.statements.length) main.append(el("section", { class: "card" }, table("Statements, the longest first", [{ name: "Started", of: (q) => q.started, show: (q) => clock(q.started) }, { name: "Duration", of: (q) => q.duration_us, show: (q) => duration(q.duration_us / 1000) }, { name: "CPU", of: (q) => q.cpu_us, show: (q) => duration(q.cpu_us / 1000) }, { name: "Reads", of: (q) => q.reads, show: (q) => number(q.reads) }, { name: "Writes", of: (q) => q.writes, show: (q) => number(q.writes) }, { name: "Statement", of: (q) => q.text, text: true, show: (q) => statement(q.text) }], r.statements, { sort: 1 })));
  if (r.events.length) main.append(el("section", { class: "card" }, eventTable(r.events)));
  return {};
}

// ---- Events, alerts, settings

const eventTable = (rows, act) => table("Events", [{ name: "At", of: (e) => e.at, show: (e) => clock(e.at, true) }, { name: "Took", of: (e) => (e.until ? e.until - e.at : -1), show: (e) => (e.until ? duration(e.until - e.at) : "") }, { name: "Kind", of: (e) => e.kind, left: true, show: (e) => el("span", { class: e.severity >= 17 ? "worse" : null }, e.kind) }, { name: "What", of: (e) => e.words, text: true, show: (e) => e.words }, ...(act ? [{ name: "", of: () => 0, show: act }] : [])], rows);

export async function events(main, app) {
  const box = el("div");
  let kind = "";
  main.replaceChildren(el("div", { class: "bar" }, el("h2", {}, "Events"), el("label", {}, "kind ", el("select", { id: "event-kind", onchange: (event) => { kind = event.target.value; show(); } }))), box);
  let rows = [];
  const show = () => {
    const kinds = [...new Set(rows.map((e) => e.kind))].sort(), select = document.getElementById("event-kind");
    select.replaceChildren(el("option", { value: "" }, "all"), ...kinds.map((k) => el("option", { value: k, selected: k === kind }, k)));
    const shown = rows.filter((e) => !kind || e.kind === kind);
    box.replaceChildren(shown.length ? el("div", { class: "card" }, eventTable(shown, (e) => el("button", { onclick: () => app.around(e) }, "Show"))) : empty("Nothing happened in this range that the monitor takes note of: starts and recovery, backups and restores, failovers, errors of severity 17 and up, growths of logs, deadlocks, lost connections, changes of configuration or databases, cleared statistics."));
  };
  const load = async () => { rows = await json(`/api/events?${stretch(app)}`); show(); };
  await load();
  let last = Date.now();
  return { beat: (live) => { if (app.isLive() && Date.now() - last > 5000 && !box.contains(document.activeElement)) { last = Date.now(); app.from += live.now - app.to; app.to = live.now; load().catch(() => {}); } } };
}

export async function alerts(main, app) {
  const [rows, rules, figures] = await Promise.all([json("/api/alerts"), json("/api/rules"), json("/api/figures")]);
  const title = (name) => figures.find((f) => f.name === name)?.title || name, again = () => app.show();
  main.replaceChildren(el("div", { class: "bar" }, el("h2", {}, "Alerts")),
    rows.length ? el("section", { class: "card" }, table("Alerts, the newest first", [{ name: "Raised", of: (x) => x.raised, show: (x) => clock(x.raised, true) }, { name: "State", of: (x) => (x.cleared ? 1 : 0), left: true, show: (x) => (x.cleared ? `over after ${duration(x.cleared - x.raised)}` : el("span", { class: "worse" }, "raised")) }, { name: "Rule", of: (x) => x.name, left: true }, { name: "What", of: (x) => x.words, text: true, show: (x) => x.words }, { name: "", of: () => 0, show: (x) => el("button", { onclick: () => app.go({ server: x.server, view: "dash", last: null, from: x.raised - 300000, to: x.raised + 300000 }) }, "Show") }], rows)) : empty("No alert was ever raised."),
    el("section", { class: "card" }, table("Rules", [{ name: "Name", of: (x) => x.name, left: true }, { name: "Figure", of: (x) => title(x.figure), left: true }, { name: "Above", of: (x) => x.above, show: (x) => number(x.above) }, { name: "For", of: (x) => x.for_s, show: (x) => `${x.for_s} s` }, { name: "", of: (x) => (x.enabled ? 0 : 1), show: (x) => (app.admin() ? el("span", {}, el("button", { onclick: async () => { await send("POST", "/api/rules", { ...x, enabled: !x.enabled }); again(); } }, x.enabled ? "Switch off" : "Switch on"), " ", el("button", { onclick: async () => { await send("DELETE", `/api/rules/${x.id}`); again(); } }, "Remove")) : x.enabled ? "on" : "off") }], rules, { sort: -1 }),
      app.admin() ? el("form", { class: "line", onsubmit: async (event) => { event.preventDefault(); const f = new FormData(event.target); await send("POST", "/api/rules", { name: f.get("name"), figure: f.get("figure"), above: Number(f.get("above")), for_s: Number(f.get("for_s")), enabled: true }); again(); } }, el("label", {}, "Name", el("input", { name: "name", required: true, maxlength: "128" })), el("label", {}, "Figure", el("select", { name: "figure" }, figures.map((f) => el("option", { value: f.name }, `${f.title}${f.unit ? `, ${f.unit}` : ""}`)))), el("label", {}, "Above", el("input", { name: "above", type: "number", step: "any", required: true })), el("label", {}, "For seconds", el("input", { name: "for_s", type: "number", min: "0", max: "86400", value: "30", required: true })), el("button", { class: "primary" }, "Add rule")) : null));
  return {};
}

export async function settings(main, app) {
  const s = await json("/api/settings"), runs = s.purge_runs;
  const each = (delayed, of) => { const rows = runs.filter((r) => r.delayed === delayed && r.rows > 0); const n = rows.reduce((a, r) => a + r.rows, 0); return n ? (rows.reduce((a, r) => a + of(r), 0) / n) * 100000 : null; };
  const saved = [["Flushes", (r) => r.flushes], ["Log waits, ms", (r) => r.wait_ms], ["Time, ms", (r) => r.ended - r.started]].map(([name, of]) => ({ name, durable: each(false, of), delayed: each(true, of) }));
  main.replaceChildren(el("div", { class: "bar" }, el("h2", {}, "Settings"), el("span", { class: "dim" }, `Literals of statements are ${s.masks ? "replaced by ? when they are collected" : "kept"}.`)),
    s.purge_error ? el("p", { class: "card worse", role: "alert" }, `The purge failed: ${s.purge_error}`) : null,
    el("section", { class: "card" }, table("What is kept for how many days", [{ name: "Table", of: (x) => x[0], left: true }, { name: "Days", of: (x) => x[1], show: (x) => (app.admin() ? el("input", { type: "number", min: "1", max: "36500", value: x[1], "aria-label": `Days of ${x[0]}`, onchange: async (event) => { try { await send("POST", "/api/settings", { table: x[0], days: Number(event.target.value) }); say("Kept."); } catch (error) { event.target.setCustomValidity(error.message); event.target.reportValidity(); } } }) : x[1]) }], Object.entries(s.keep_days), { sort: -1, cards: false })),
    el("section", { class: "card" }, table("What delayed commits save the purge, for each 100,000 rows. Every tenth run is durable.", [{ name: "", of: (x) => x.name, left: true }, { name: "Durable", of: (x) => x.durable ?? 0, show: (x) => number(x.durable) }, { name: "Delayed", of: (x) => x.delayed ?? 0, show: (x) => number(x.delayed) }, { name: "Saved", of: () => 0, show: (x) => (x.durable ? percent((x.delayed / x.durable - 1) * 100) : "–") }], saved, { sort: -1, cards: false })),
    runs.length ? el("section", { class: "card" }, table("Runs of the purge, the newest first", [{ name: "Started", of: (x) => x.started, show: (x) => clock(x.started, true) }, { name: "Table", of: (x) => x.table, left: true }, { name: "Rows", of: (x) => x.rows, show: (x) => number(x.rows) }, { name: "Commits", of: (x) => x.commits, show: (x) => `${x.commits} ${x.delayed ? "delayed" : "durable"}` }, { name: "Flushes", of: (x) => x.flushes }, { name: "Log waits", of: (x) => x.wait_ms, show: (x) => duration(x.wait_ms) }, { name: "Took", of: (x) => x.ended - x.started, show: (x) => duration(x.ended - x.started) }], runs)) : null);
  return {};
}
