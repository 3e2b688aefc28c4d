// Charts: what is drawn, and how one is drawn, moved over and selected on.
import { el, number, bytes, duration, clock, say } from "./base.js";

const nul = (values) => values.map((v) => (Number.isFinite(v) ? v : null));
const one = (name, by = 1) => (d) => d.f[name].map((v) => (Number.isFinite(v) ? v * by : null));
/** A quotient of two rates; empty where nothing happened. */
const quotient = (a, b) => (d) => d.f[a].map((v, i) => (Number.isFinite(v) && d.f[b][i] > 0 ? v / d.f[b][i] : null));

export const WAITS = [
  ["wait_cpu", "processor", "--w-cpu"], ["wait_threads", "no worker", "--bad"], ["wait_lock", "lock", "--w-lock"], ["wait_log", "log", "--w-log"],
  ["wait_data_read", "data read", "--w-read"], ["wait_other_disk", "other disk", "--w-disk"], ["wait_latch", "latch", "--w-latch"], ["wait_memory", "memory", "--w-memory"],
  ["wait_network", "network", "--w-network"], ["wait_parallel", "parallel", "--c4"], ["wait_replica", "replica", "--w-replica"], ["wait_transaction", "transaction", "--c5"], ["wait_other", "other", "--w-other"],
];
const ms = (v) => duration(v), plain = (v) => number(v), rate = (v) => `${number(v)}/s`, bps = (v) => `${bytes(v)}/s`, pct = (v) => `${number(v)}\u2009%`;

/** Lanes of the events below the waits: word, colour, kinds of events. */
export const LANES = [
  ["Starts", "--accent", ["restart"]], ["Recovery", "--c3", ["recovery"]], ["Failover", "--bad", ["failover", "replica"]], ["Errors", "--bad", ["error"]], ["Deadlock", "--c1", ["deadlock"]],
  ["Backups", "--c2", ["backup"]], ["Restores", "--c5", ["restore"]], ["Log grew", "--w-log", ["log growth"]], ["Config", "--link", ["configuration", "database"]], ["Monitor", "--ghost", ["lost", "seen", "cleared", "interval"]],
];
export const laneOf = (kind) => LANES.find(([, , kinds]) => kinds.includes(kind)) || LANES.at(-1);

/** Every chart of the dashboard. */
export const CHARTS = [
  { id: "waits", title: "Waits by class", unit: "ms per s", show: (v) => `${number(v)} ms/s`, stack: true, wide: true, height: 260, series: WAITS.map(([name, label, colour]) => ({ label, colour, of: one(name) })) },
  { id: "cpu", title: "Processor", unit: "% of a core", show: pct, series: [{ label: "server", of: one("cpu_ms", 0.1) }] },
  { id: "memory", title: "Memory", unit: "bytes", show: bytes, series: [{ label: "server", of: one("memory_bytes") }] },
  { id: "sessions", title: "Sessions", unit: "", show: plain, series: [{ label: "running", of: one("sessions_running") }, { label: "in a transaction", of: one("open_transactions") }, { label: "sleeping", of: one("sessions_sleeping"), dash: [4, 4] }] },
  { id: "batches", title: "Batches and transactions", unit: "per s", show: rate, series: [{ label: "batches", of: one("batches") }, { label: "transactions", of: one("transactions") }, { label: "writing", of: one("write_transactions") }, { label: "delayed", of: one("delayed_commits"), dash: [5, 3] }] },
  { id: "flushes", title: "Log flushes", unit: "per s", show: rate, series: [{ label: "flushes", of: one("log_flushes") }] },
  { id: "flushbytes", title: "Bytes per flush", unit: "bytes", show: bytes, series: [{ label: "bytes per flush", of: quotient("log_bytes", "log_flushes") }] },
  { id: "flushtime", title: "Flush and commit time", unit: "ms", show: ms, series: [{ label: "per flush", of: quotient("log_flush_ms", "log_flushes") }, { label: "per waiting commit", of: quotient("commit_wait_ms", "commit_waits"), dash: [5, 3] }] },
  { id: "logbytes", title: "Log written", unit: "bytes per s", show: bps, series: [{ label: "log", of: one("log_bytes") }] },
  { id: "datatime", title: "Data file latency", unit: "ms", show: ms, series: [{ label: "read", of: quotient("data_read_ms", "data_reads") }, { label: "write", of: quotient("data_write_ms", "data_writes") }] },
  { id: "databytes", title: "Data file throughput", unit: "bytes per s", show: bps, series: [{ label: "read", of: one("data_read_bytes") }, { label: "written", of: one("data_write_bytes") }] },
  { id: "blocked", title: "Blocked sessions", unit: "", show: plain, step: true, series: [{ label: "blocked", of: one("blocked"), colour: "--c1" }] },
  { id: "blockedlong", title: "Longest block", unit: "", show: ms, series: [{ label: "longest wait", of: one("blocked_longest_ms"), colour: "--c1" }] },
  { id: "locks", title: "Lock waits, deadlocks", unit: "per s", show: rate, series: [{ label: "lock waits", of: one("lock_waits") }, { label: "deadlocks", of: one("deadlocks"), colour: "--c1" }] },
  { id: "versions", title: "Version store", unit: "bytes", show: bytes, series: [{ label: "versions", of: one("version_store_bytes") }] },
  { id: "pin", title: "Oldest keeper of versions", unit: "", show: ms, series: [{ label: "age", of: one("version_pin_ms") }] },
  { id: "risk", title: "Commits at risk", unit: "", show: plain, step: true, series: [{ label: "commits", of: one("risk_commits"), colour: "--c3" }] },
  { id: "riskage", title: "Oldest commit at risk", unit: "", show: ms, series: [{ label: "age", of: one("risk_age_ms"), colour: "--c3" }] },
  { id: "logused", title: "Log used", unit: "%", show: pct, series: [{ label: "used", of: one("log_used_percent") }] },
  { id: "backup", title: "Backup or restore", unit: "%", show: pct, series: [{ label: "done", of: one("backup_percent") }] },
  { id: "queues", title: "Replica queues", unit: "bytes", show: bytes, series: [{ label: "to send", of: one("send_queue_bytes") }, { label: "to redo", of: one("redo_queue_bytes") }] },
  { id: "lag", title: "Replica lag", unit: "", show: ms, series: [{ label: "lag", of: one("replica_lag_ms") }] },
  { id: "cost", title: "What the monitor costs", unit: "% of a core", show: pct, series: [{ label: "at the server", of: one("session_cpu_ms", 0.1) }, { label: "here", of: one("monitor_cpu_ms", 0.1) }] },
  { id: "answer", title: "Answer time of a sample", unit: "", show: ms, series: [{ label: "answer", of: one("answer_ms") }] },
];

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";
const PALETTE = ["--c0", "--c2", "--c3", "--c4", "--c5"];

/** Time below an axis: seconds where ticks are close, the date where a day begins. */
export function stamp(s, ticks) {
  const at = new Date(s * 1000), two = (n) => String(n).padStart(2, "0"), step = ticks.length > 1 ? ticks[1] - ticks[0] : 60;
  if (step >= 86400 || (at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0)) return `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${two(at.getHours())}:${two(at.getMinutes())}${step < 60 ? `:${two(at.getSeconds())}` : ""}`;
}

/** Nearest value of another stretch for each time, as far as a step away. */
export function shifted(t, ghostT, values, step) {
  let at = 0;
  return t.map((time) => {
    while (at + 1 < ghostT.length && Math.abs(ghostT[at + 1] - time) <= Math.abs(ghostT[at] - time)) at += 1;
    return ghostT.length && Math.abs(ghostT[at] - time) <= step * 1.5 && Number.isFinite(values[at]) ? values[at] : null;
  });
}

/** One chart with its caption and legend. `on` has select(from, to), events(), hover(). */
export class Chart {
  constructor(spec, on, sync = "all") {
    this.spec = spec; this.on = on; this.sync = sync; this.off = new Set(); this.raw = []; this.data = null; this.ghost = null;
    this.says = el("span", { class: "says" });
    this.legend = el("div", { class: "legend" });
    this.plot = el("div", { class: "plot", tabindex: "0", role: "img", "aria-label": spec.title });
    this.node = el("figure", { class: `card${spec.wide ? " wide" : ""}`, id: `chart-${spec.id}` }, el("figcaption", {}, el("h3", {}, spec.title), el("span", { class: "dim" }, spec.unit ? `${spec.unit}` : ""), this.says), this.plot, this.legend);
    this.seen = false;
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("contextmenu", (event) => { if (this.on.menu) { event.preventDefault(); this.on.menu(event); } });
    // A selection is told to every chart of the group; only the one it was made on acts.
    this.plot.addEventListener("pointerdown", () => { Chart.current = this; }, true);
  }
  /** Are there values at all? */
  has(data) { return this.spec.series.some((s) => s.of(data).some((v) => v !== null)); }
  set(data, ghost) {
    this.data = data; this.ghost = ghost; this.raw = this.spec.series.map((s) => (data ? s.of(data) : []));
    if (this.seen) this.draw();
  }
  show() { if (!this.seen) { this.seen = true; this.draw(); } }
  drop() { this.u?.destroy(); this.u = null; this.watch?.disconnect(); }
  /** Series that are drawn: those with values, of a stack only those that count for something. */
  used() { return this.spec.series.map((s, i) => i).filter((i) => this.raw[i].some((v) => v !== null && (!this.spec.stack || v > 0))); }
  columns() {
    const t = this.data.t, used = this.used(), shown = used.filter((i) => !this.off.has(i));
    let columns;
    if (this.spec.stack) {
      // Sums from the bottom, drawn from the top; where nothing was sampled, the hole stays.
      const sums = []; let below = t.map(() => 0);
      for (const i of shown) { below = below.map((sum, at) => (this.raw[i][at] === null ? null : (sum ?? 0) + this.raw[i][at])); sums.push(below); }
      this.order = [...shown].reverse(); columns = sums.reverse();
    } else { this.order = shown; columns = shown.map((i) => this.raw[i]); }
    const ghosts = [];
    if (this.ghost) {
      const shift = this.data.from / 1000 - this.ghost.from / 1000, times = this.ghost.t.map((x) => x + shift), step = Math.max(this.ghost.step_ms, this.data.step_ms) / 1000;
      if (this.spec.stack) {
        const all = this.ghost.t.map((_, at) => shown.reduce((sum, i) => { const v = this.spec.series[i].of(this.ghost)[at]; return v === null ? sum : (sum ?? 0) + v; }, null));
        ghosts.push(shifted(t, times, all.map((v) => (v === null ? NaN : v)), step));
      } else for (const i of shown.slice(0, 1)) ghosts.push(shifted(t, times, this.spec.series[i].of(this.ghost).map((v) => (v === null ? NaN : v)), step));
    }
    return [t, ...columns, ...ghosts];
  }
  draw() {
    if (!this.data || !this.seen) return;
    const columns = this.columns(), key = `${this.order.join()}|${columns.length}|${document.documentElement.dataset.theme || ""}`;
    const scale = { min: this.data.from / 1000, max: this.data.to / 1000 };
    if (this.u && this.key_ === key) { this.u.batch(() => { this.u.setData(columns, false); this.u.setScale("x", scale); }); this.u.redraw(true, true); } else this.build(columns, key, scale);
    this.tell(null);
  }
  build(columns, key, scale) {
    this.u?.destroy(); this.key_ = key;
    const { spec } = this, ink = colour("--dim"), line = colour("--line"), count = this.order.length;
    const series = [{}, ...this.order.map((i) => { const s = spec.series[i], c = colour(s.colour || PALETTE[i % PALETTE.length]);
      return { label: s.label, stroke: c, width: spec.stack ? 0.5 : 1.5, fill: spec.stack ? c : undefined, dash: s.dash, points: { show: false }, spanGaps: false, paths: spec.step ? uPlot.paths.stepped({ align: -1 }) : undefined }; })];
    while (series.length < columns.length) series.push({ label: "base", stroke: colour("--ghost"), width: 1.5, dash: [3, 3], points: { show: false } });
    const options = {
      width: Math.max(this.plot.clientWidth, 200), height: spec.height || 150, legend: { show: false }, series,
      cursor: { sync: { key: this.sync, scales: ["x", null] }, drag: { x: true, y: false, setScale: false, dist: 5 }, bind: { dblclick: () => () => { this.on.reset?.(); return null; } }, points: { size: 6 }, y: false },
      scales: { x: { time: !spec.relative, range: () => [this.data.from / 1000, this.data.to / 1000] }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "11px system-ui, sans-serif", size: 26, space: 70, values: spec.relative ? (u, ticks) => ticks.map((s) => duration(s * 1000)) : (u, ticks) => ticks.map((s) => stamp(s, ticks)) },
        { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif", size: 62, space: 34, values: (u, ticks) => ticks.map((v) => spec.show(v).replace("/s", "").replace(" ms", "")) }],
      hooks: {
        setCursor: [(u) => this.tell(u.cursor.idx)],
        setSelect: [(u) => { if (Chart.current !== this || u.select.width <= 0) return; this.on.select?.(u.posToVal(u.select.left, "x") * 1000, u.posToVal(u.select.left + u.select.width, "x") * 1000, this); }],
        draw: [(u) => this.flags(u)],
      },
    };
    this.plot.replaceChildren(); this.u = new uPlot(options, columns, this.plot); this.u.setScale("x", scale);
    if (!this.watch) { this.watch = new ResizeObserver(() => { const width = this.plot.clientWidth; if (this.u && width > 0 && width !== this.u.width) this.u.setSize({ width, height: spec.height || 150 }); }); this.watch.observe(this.plot); }
  }
  /** Events as thin lines, those that took a while as bands. */
  flags(u) {
    const { ctx } = u, events = this.on.events?.() || [];
    ctx.save();
    for (const event of events) {
      const at = (ms) => u.valToPos(ms / 1000, "x", true), left = u.bbox.left, right = left + u.bbox.width, x = at(event.at), end = at(event.until || event.at);
      if (end < left || x > right) continue;
      ctx.fillStyle = colour(event.severity >= 17 ? "--bad" : laneOf(event.kind)[1]);
      if (end - x > 2) { ctx.globalAlpha = 0.12; ctx.fillRect(Math.max(x, left), u.bbox.top, Math.min(end, right) - Math.max(x, left), u.bbox.height); }
      if (x < left) continue;
      ctx.globalAlpha = 0.75; ctx.fillRect(x - 0.5 * devicePixelRatio, u.bbox.top, devicePixelRatio, u.bbox.height);
      if (this.spec.wide) { ctx.beginPath(); ctx.arc(x, u.bbox.top + 5 * devicePixelRatio, 4 * devicePixelRatio, 0, 7); ctx.fill(); }
    }
    ctx.restore();
  }
  /** Legend with the values under the cursor, or averages. */
  tell(at) {
    const used = this.used(), inside = at !== null && at !== undefined, { spec } = this;
    const mean = (values) => { let sum = 0, n = 0, most = null; for (const v of values) if (v !== null) { sum += v; n += 1; most = most === null || v > most ? v : most; } return n ? { mean: sum / n, most } : { mean: null, most: null }; };
    const stats = used.map((i) => ({ i, ...mean(this.raw[i]) }));
    if (spec.stack) stats.sort((a, b) => (b.mean ?? 0) - (a.mean ?? 0));
    if (this.legend.childElementCount !== stats.length || this.told !== stats.map((s) => s.i).join()) {
      this.told = stats.map((s) => s.i).join();
      this.legend.replaceChildren(...stats.map(({ i }) => { const s = spec.series[i]; const button = el("button", { type: "button", "aria-pressed": String(!this.off.has(i)), title: "Show or hide" }, el("i", { style: { background: colour(s.colour || PALETTE[i % PALETTE.length]) } }), s.label, el("b"));
        button.addEventListener("click", () => { if (this.off.has(i)) this.off.delete(i); else this.off.add(i); button.classList.toggle("off", this.off.has(i)); button.setAttribute("aria-pressed", String(!this.off.has(i))); this.draw(); }); return button; }));
    }
    stats.forEach(({ i, mean: m }, n) => { this.legend.children[n].lastChild.textContent = inside ? spec.show(this.raw[i][at]) : `⌀ ${spec.show(m)}`; });
    if (inside) this.says.textContent = clock(this.data.t[at] * 1000);
    else { const first = stats[0]; this.says.textContent = first && first.most !== null ? `most ${spec.show(first.most)}${spec.stack ? ` ${spec.series[first.i].label}` : ""}` : ""; }
    this.plot.setAttribute("aria-label", `${spec.title}. ${stats.slice(0, 3).map((s) => `${spec.series[s.i].label}: mean ${spec.show(s.mean)}, most ${spec.show(s.most)}`).join("; ") || "no values"}. Arrow keys move, Shift selects.`);
  }
  /** Arrows move the cursor, with Shift they select. */
  key(event) {
    if (!this.u || !["ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const t = this.data.t, now = this.u.cursor.idx ?? t.length - 1, big = Math.max(1, Math.round(t.length / 20));
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - big, PageDown: now + big, Home: 0, End: t.length - 1 }[event.key];
    const at = Math.max(0, Math.min(t.length - 1, to));
    if (event.shiftKey) { this.anchor ??= now; } else { this.anchor = undefined; }
    this.u.setCursor({ left: this.u.valToPos(t[at], "x"), top: 10 });
    this.tell(at);
    say(`${clock(t[at] * 1000)}: ${this.used().map((i) => `${this.spec.series[i].label} ${this.spec.show(this.raw[i][at])}`).slice(0, 4).join(", ")}`);
    if (this.anchor !== undefined && this.anchor !== at) {
      const [a, b] = [t[Math.min(this.anchor, at)], t[Math.max(this.anchor, at)]];
      this.mark(a * 1000, b * 1000); this.on.select?.(a * 1000, b * 1000, this, true);
    }
  }
  /** Shows a selection without telling anybody. */
  mark(from, to) {
    if (!this.u) return;
    const left = this.u.valToPos(from / 1000, "x"), right = this.u.valToPos(to / 1000, "x");
    this.u.setSelect(from < to ? { left, width: right - left, top: 0, height: this.u.over.clientHeight } : { left: 0, width: 0, top: 0, height: 0 }, false);
  }
}

export { nul };
