// The dashboard: tiles, the last day, and every chart over one time axis.
import { el, number, bytes, duration, table, clock, range, json, query } from "./base.js";
import { CHARTS, Chart, LANES, WAITS, colour, stamp } from "./charts.js";

const value = (live, names, name) => { const tick = live?.ticks?.at(-1) || live?.newest; const at = names.indexOf(name); return tick && at >= 0 ? tick.values[at] : null; };

/** A figure of the newest tick, large. */
const TILES = [
  ["Processor", (f) => [number(f("cpu_ms") / 10), "% core"], null, "cpu_ms"],
  ["Memory", (f) => split(bytes(f("memory_bytes"))), null, "memory_bytes"],
  ["Blocked", (f) => [number(f("blocked")), f("blocked") > 0 ? duration(f("blocked_longest_ms")) : ""], (f) => f("blocked") > 0, "blocked"],
  ["Batches", (f) => [number(f("batches")), "/s"], null, "batches"],
  ["Transactions", (f) => [number(f("transactions")), "/s"], null, "transactions"],
  ["Log flushes", (f) => [number(f("log_flushes")), "/s"], null, "log_flushes"],
  ["Commit wait", (f) => (f("commit_waits") > 0 ? split(duration(f("commit_wait_ms") / f("commit_waits"))) : ["–", "nobody waited"]), null, "commit_waits"],
  ["Commits at risk", (f) => [number(f("risk_commits")), f("risk_commits") > 0 ? `${bytes(f("risk_bytes"))}, ${duration(f("risk_age_ms"))}` : ""], null, "risk_commits"],
];
const split = (text) => { const at = text.search(/[\s\u2009]/); return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)]; };

export async function dashboard(main, app) {
  const tiles = el("div", { class: "tiles", "aria-label": "Now" }), grid = el("div", { class: "charts" }), absent = el("p", { class: "absent" }), overview = el("div", { class: "card overview" }, el("div", { class: "legend" }, "Waits of the last day, ms per s. Drag to show a stretch."));
  const strip = el("div", { class: "plot" }); overview.append(strip);
  const lanes = el("section", { class: "card wide lanes", "aria-label": "Events in this range", id: "lanes" }), words = el("p", { class: "dim", "aria-live": "polite" });
  main.replaceChildren(tiles, overview, grid, absent);
  const on = { select: (from, to, chart, byKey) => app.select(from, to, chart, byKey), reset: () => app.reset(), events: () => app.events, menu: () => { if (!app.selection) app.select(app.from, app.to); } };
  const charts = CHARTS.map((spec) => new Chart(spec, on));
  const seen = new IntersectionObserver((entries) => { for (const entry of entries) if (entry.isIntersecting) charts.find((c) => c.node === entry.target)?.show(); }, { rootMargin: "300px" });
  let inTables = false, last = 0, day = null, left = false;

  function put() {
    const there = charts.filter((c) => c.has(app.data)), missing = charts.filter((c) => !c.has(app.data));
    const nodes = there.map((c) => c.node);
    if (events() && nodes.length) nodes.splice(nodes.findIndex((n) => n.classList.contains("wide")) + 1, 0, lanes);
    if (nodes.length !== grid.childElementCount || nodes.some((n, i) => grid.children[i] !== n)) { grid.replaceChildren(...nodes); there.forEach((c) => seen.observe(c.node)); }
    for (const chart of there) chart.set(app.data, app.ghost);
    if (there.length === 0) grid.replaceChildren(el("p", { class: "card empty wide" }, "There are no samples in this range. ", el("button", { onclick: () => app.reset() }, "Go live")));
    absent.textContent = missing.length && there.length ? `Without values in this range: ${missing.map((c) => c.spec.title.toLowerCase()).join(", ")}.` : "";
    last = Date.now();
  }
  /** A lane for each kind of event, over the same axis as the waits above; says whether there are any. */
  function events() {
    const shown = app.events.filter((e) => (e.until || e.at) >= app.from && e.at <= app.to), width = app.to - app.from, key = `${Math.round((app.from * 600) / width)} ${width} ${shown.length} ${shown[0]?.at}`;
    const over = charts[0].u?.over;
    const place = over ? { marginLeft: `${over.offsetLeft}px`, width: `${over.offsetWidth}px` } : { marginLeft: "62px", width: "calc(100% - 78px)" };
    if (lanes.dataset.key === key + place.width) return shown.length > 0;
    lanes.dataset.key = key + place.width;
    const focused = [...lanes.querySelectorAll("button")].indexOf(document.activeElement);
    const part = (ms) => Math.max(0, Math.min(100, ((ms - app.from) / (app.to - app.from)) * 100));
    const mark = (e, tint) => el("button", { type: "button", class: e.until ? "span" : "moment", title: `${clock(e.at)}${e.until ? `, ${duration(e.until - e.at)}` : ""}: ${e.words}`, "aria-label": `${e.kind}, ${clock(e.at)}: ${e.words}`, style: { left: `${part(e.at)}%`, width: e.until ? `max(6px, ${part(e.until) - part(e.at)}%)` : "", background: `var(${e.severity >= 17 ? "--bad" : tint})` },
      onclick: () => words.replaceChildren(el("b", {}, `${clock(e.at)} ${e.kind}`), ` ${e.words} `, el("button", { onclick: () => app.around(e) }, "Zoom")) });
    const rows = LANES.map(([name, tint, kinds]) => [name, tint, shown.filter((e) => kinds.includes(e.kind)).slice(0, 300)]).filter(([, , list]) => list.length);
    lanes.replaceChildren(...rows.map(([name, tint, list]) => el("div", { class: "lane" }, el("span", { class: "dim" }, name), el("div", { class: "track", style: place }, list.map((e) => mark(e, tint))))), words);
    if (focused >= 0) lanes.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
    return shown.length > 0;
  }
  function tile() {
    const live = app.live; if (!live) return;
    const names = app.data?.figures || [], f = (name) => value({ ticks: live.ticks, newest: app.newest }, names, name);
    if (live.ticks?.length) app.newest = live.ticks.at(-1);
    const old = live.server.age_ms === null || live.server.age_ms > 3 * live.server.interval_ms;
    tiles.replaceChildren(...TILES.filter(([, , , needs]) => f(needs) !== null && f(needs) !== undefined).map(([name, show, alarm]) => { const [big, small] = show(f); return el("div", { class: `card tile${alarm?.(f) ? " alarm" : ""}${old ? " stale" : ""}` }, el("div", { class: "name" }, name), el("div", { class: "value" }, big, small ? el("small", {}, small) : null)); }));
  }
  async function past() {
    const to = Date.now() + app.skew, data = await range(app.server, to - 86400000, to).catch(() => null);
    if (left) return;
    if (!data || !data.n || strip.clientWidth === 0) { overview.hidden = !data || !data.n; return; }
    const sum = data.t.map((_, i) => WAITS.reduce((all, [name]) => { const v = data.f[name][i]; return Number.isFinite(v) ? (all ?? 0) + v : all; }, null));
    day?.destroy();
    day = new uPlot({ width: strip.clientWidth, height: 64, legend: { show: false }, series: [{}, { stroke: colour("--w-log"), fill: colour("--w-log"), width: 1, points: { show: false } }],
      cursor: { drag: { x: true, y: false, setScale: false, dist: 5 }, y: false }, scales: { x: { range: () => [data.from / 1000, data.to / 1000] }, y: { range: (u, a, b) => [0, b || 1] } },
      axes: [{ stroke: colour("--dim"), grid: { show: false }, ticks: { show: false }, size: 20, font: "11px system-ui, sans-serif", values: (u, at) => at.map((s) => stamp(s, at)) }, { show: false }],
      hooks: { setSelect: [(u) => { if (u.select.width > 0) app.zoom(u.posToVal(u.select.left, "x") * 1000, u.posToVal(u.select.left + u.select.width, "x") * 1000); }],
        draw: [(u) => { const x = (ms) => Math.max(u.bbox.left, Math.min(u.bbox.left + u.bbox.width, u.valToPos(ms / 1000, "x", true))), left = x(app.from), right = x(app.to); u.ctx.save(); u.ctx.globalAlpha = 0.22; u.ctx.fillStyle = colour("--link"); u.ctx.fillRect(left, u.bbox.top, Math.max(right - left, 2 * devicePixelRatio), u.bbox.height); u.ctx.restore(); }] } }, [data.t, sum], strip);
  }
  if (!app.live) app.live = await json(`/api/live?${query({ server: app.server, after: Date.now() + app.skew - 5000 })}`).catch(() => null);
  await app.load();
  put(); tile(); past();
  let told = Date.now();
  /** Events that came meanwhile; the next drawing shows them. */
  const news = async () => { told = Date.now(); const { server, from, to } = app, found = await json(`/api/events?${query({ server, from: Math.round(from), to: Math.round(to) })}`); if (server === app.server) app.events = found; };
  if (app.selection) app.select(app.selection.from, app.selection.to);

  return {
    mark: (from, to) => charts.forEach((c) => c.mark(from, to)),
    redraw: () => { put(); past(); },
    // An answer that comes later draws nothing: a chart that nobody ends stays for ever.
    leave: () => { left = true; seen.disconnect(); charts.forEach((c) => c.drop()); day?.destroy(); },
    /** Figures as a table, for those who do not look at charts. */
    tables: () => {
      inTables = !inTables;
      if (!inTables) { main.replaceChildren(tiles, overview, grid, absent); put(); return; }
      const rows = charts.filter((c) => c.has(app.data)).flatMap((c) => c.spec.series.map((s) => ({ chart: c.spec.title, series: s.label, show: c.spec.show, values: s.of(app.data).filter((v) => v !== null) })).filter((r) => r.values.length));
      const mean = (v) => v.reduce((a, b) => a + b, 0) / v.length;
      main.replaceChildren(el("div", { class: "card" }, table(`${clock(app.from, true)} to ${clock(app.to, true)}`, [{ name: "Chart", of: (r) => r.chart, left: true }, { name: "Series", of: (r) => r.series, left: true }, { name: "Average", of: (r) => mean(r.values), show: (r) => r.show(mean(r.values)) }, { name: "Least", of: (r) => Math.min(...r.values), show: (r) => r.show(Math.min(...r.values)) }, { name: "Most", of: (r) => Math.max(...r.values), show: (r) => r.show(Math.max(...r.values)) }, { name: "Last", of: (r) => r.values.at(-1), show: (r) => r.show(r.values.at(-1)) }], rows)));
    },
    beat: (live) => {
      tile();
      if (!app.isLive() || !app.data || app.selection || inTables) { app.about(); return; }
      if (Date.now() - told > 5000) news().catch(() => {});
      const width = app.to - app.from, to = live.now;
      if (app.data.step_ms > 1000) {
        if (Date.now() - last > Math.min(app.data.step_ms, 60000)) { last = Date.now(); app.from = to - width; app.to = to; app.load().then(put).catch(() => {}); }
        return;
      }
      const { data } = app;
      for (const tick of live.ticks) {
        const at = tick.at / 1000, before = data.t.at(-1);
        if (before !== undefined && at <= before) continue;
        if (before !== undefined && at - before > 3.5) { data.t.push(before + 1); for (const name of data.figures) data.f[name].push(NaN); }
        data.t.push(at); data.covered_ms += tick.dt_ms;
        data.figures.forEach((name, i) => data.f[name].push(tick.values[i] ?? NaN));
      }
      app.from = data.from = to - width; app.to = data.to = to;
      let old = 0; while (old < data.t.length && data.t[old] * 1000 < data.from) old += 1;
      if (old > 0) { data.t.splice(0, old); for (const name of data.figures) data.f[name].splice(0, old); data.covered_ms = Math.min(data.covered_ms, width); }
      put(); app.about();
    },
  };
}
