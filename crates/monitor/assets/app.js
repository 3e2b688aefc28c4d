// The page: where one is (the address), what is shown, and what is asked for.
import { $, el, ask, json, send, query, range, clock, duration, number, zone, say } from "./base.js";
import { dashboard } from "./dashboard.js";
import { topSql, blocking, compare, report, events, alerts, settings } from "./views.js";

const VIEWS = { dash: ["Dashboard", dashboard], sql: ["Top SQL", topSql], blocking: ["Blocking", blocking], compare: ["Compare", compare], report: ["Report", report], events: ["Events", events], alerts: ["Alerts", alerts], settings: ["Settings", settings] };
const LASTS = { "15m": 15, "1h": 60, "6h": 360, "1d": 1440, "7d": 10080 };

/** All that views share. */
export const app = { me: null, servers: [], server: null, view: "dash", last: "15m", from: 0, to: 0, a: null, b: null, base: null, selection: null, live: null, data: null, ghost: null, events: [], baselines: [], shown: null, skew: 0 };

const now = () => Date.now() + app.skew;
app.isLive = () => app.last !== null;
app.admin = () => app.me?.admin;

// ---- the address

function read() {
  const p = new URLSearchParams(location.search);
  const pair = (text) => { const [s, f, t] = (text || "").split("_").map(Number); return s && f && t ? { server: s, from: f, to: t } : null; };
  app.server = Number(p.get("server")) || app.servers[0]?.id;
  app.view = p.get("view") in VIEWS ? p.get("view") : "dash";
  const from = Date.parse(p.get("from")), to = Date.parse(p.get("to"));
  if (from < to) { app.last = null; app.from = from; app.to = to; } else { app.last = p.get("last") in LASTS ? p.get("last") : "15m"; settle(); }
  app.a = pair(p.get("a")); app.b = pair(p.get("b")); app.base = pair(p.get("base"));
}
function settle() { app.to = now(); app.from = app.to - LASTS[app.last] * 60000; }
function address(changes = {}) {
  const pair = (r) => (r ? `${r.server}_${Math.round(r.from)}_${Math.round(r.to)}` : undefined);
  const state = { ...app, ...changes };
  const time = state.last ? { last: state.last } : { from: new Date(state.from).toISOString(), to: new Date(state.to).toISOString() };
  return `?${query({ server: state.server, view: state.view === "dash" ? undefined : state.view, ...time, base: pair(state.base), a: pair(state.a), b: pair(state.b) })}`;
}
/** Goes somewhere; the browser's Back leads here again. */
app.go = (changes) => { Object.assign(app, changes); if (changes.last) settle(); app.select(null); history.pushState(null, "", address()); show(); };
app.zoom = (from, to) => app.go({ last: null, from: Math.round(from), to: Math.round(to) });
/** The dashboard around an event. */
app.around = (e) => { const until = e.until || e.at, room = Math.max(60000, (until - e.at) / 2); app.go({ view: "dash", last: null, from: Math.round(e.at - room), to: Math.round(until + room) }); };
app.reset = () => app.go({ last: "15m" });
addEventListener("popstate", () => { read(); show(); });

// ---- the stretch that is selected

app.select = (from, to, chart, byKey) => {
  app.selection = from === null ? null : { server: app.server, from, to };
  const menu = $("menu");
  if (!app.selection) { menu.hidden = true; app.shown?.mark?.(0, 0); return; }
  app.shown?.mark?.(from, to);
  const take = (which) => () => { app.go({ [which]: app.selection }); };
  menu.replaceChildren(
    el("span", {}, `${clock(from)} – ${clock(to)}, ${duration(to - from)}`),
    el("button", { onclick: () => app.zoom(from, to) }, "Zoom"),
    el("button", { onclick: () => { app.go({ last: null, from, to, view: "report" }); } }, "Quick report"),
    app.admin() ? el("button", { onclick: () => newBaseline(from, to) }, "New baseline…") : null,
    el("button", { onclick: take("a") }, "Use as A"), el("button", { onclick: take("b") }, "Use as B"),
    el("button", { onclick: () => app.go({ last: null, from, to, view: "sql" }) }, "Top SQL"),
    el("button", { onclick: () => { location.assign(`/report.csv?${query({ server: app.server, from: Math.round(from), to: Math.round(to) })}`); } }, "CSV"),
    el("button", { onclick: () => app.select(null), "aria-label": "Drop the selection" }, "✕"),
  );
  menu.hidden = false;
  const box = (chart?.node || $("main")).getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(box.left + 60, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.max(8, Math.min(box.top + 44, innerHeight - menu.offsetHeight - 60))}px`;
  if (!byKey) say(`Selected ${duration(to - from)}`);
};

export function dialog(title, fields, done) {
  const box = $("dialog"), words = el("p", { class: "worse", role: "alert", hidden: true });
  const form = el("form", { method: "dialog", onsubmit: async (event) => { event.preventDefault(); try { await done(new FormData(form)); box.close(); } catch (error) { words.textContent = error.message; words.hidden = false; } } },
    el("h2", {}, title), fields, words, el("div", { class: "buttons" }, el("button", { type: "button", onclick: () => box.close() }, "Cancel"), el("button", { class: "primary" }, "Keep")));
  box.replaceChildren(form); box.showModal();
}
function newBaseline(from, to) {
  const server = app.server;
  dialog("New baseline", [el("p", { class: "dim" }, `${clock(from, true)} to ${clock(to, true)}, ${duration(to - from)}`), el("label", {}, "Name", el("input", { name: "name", required: true, maxlength: "128", autofocus: true }))], async (form) => {
    await send("POST", "/api/baselines", { server, name: form.get("name"), from: String(Math.round(from)), to: String(Math.round(to)) });
    app.baselines = await json("/api/baselines"); rangeBar(); say("The baseline is kept."); if (app.view === "compare") show();
  });
}
app.newBaseline = newBaseline;

// ---- bars

function nav() {
  const raised = app.status?.alerts || 0;
  $("nav").replaceChildren(...Object.entries(VIEWS).map(([view, [name]]) => el("a", { href: address({ view }), "aria-current": view === app.view ? "page" : null, onclick: (event) => { if (event.ctrlKey || event.metaKey) return; event.preventDefault(); app.go({ view }); } },
    name, view === "alerts" && raised ? el("span", { class: "count" }, raised) : null)));
}
function rangeBar() {
  const local = (ms) => { const d = new Date(ms - new Date(ms).getTimezoneOffset() * 60000); return d.toISOString().slice(0, 19); };
  const from = el("input", { type: "datetime-local", step: "1", value: local(app.from), "aria-label": "From" }), to = el("input", { type: "datetime-local", step: "1", value: local(app.to), "aria-label": "To" });
  const bases = el("select", { "aria-label": "Baseline behind the charts", onchange: (event) => app.go({ base: pick(event.target.value) }) }, el("option", { value: "" }, "no baseline"), el("option", { value: "before" }, "the time before"), el("option", { value: "day" }, "a day before"), el("option", { value: "week" }, "a week before"),
    app.baselines.filter((b) => b.server === app.server).map((b) => el("option", { value: b.id, selected: app.base && app.base.from === b.from && app.base.to === b.to }, b.name)));
  const pick = (value) => {
    const width = app.to - app.from, back = { before: width, day: 86400000, week: 604800000 }[value], known = app.baselines.find((b) => String(b.id) === value);
    return back ? { server: app.server, from: app.from - back, to: app.to - back } : known ? { server: known.server, from: known.from, to: known.to } : null;
  };
  if (app.base && bases.selectedIndex === 0) bases.append(el("option", { selected: true, value: "kept" }, `from ${clock(app.base.from)}`));
  $("range").replaceChildren(
    ...Object.keys(LASTS).map((last) => el("button", { class: app.last === last ? "on" : null, "aria-pressed": String(app.last === last), onclick: () => app.go({ last }) }, last)),
    el("span", { class: "fields" }, from, " – ", to, " ", el("button", { onclick: () => { const f = Date.parse(from.value), t = Date.parse(to.value); if (f < t) app.zoom(f, t); } }, "Show")),
    app.isLive() ? el("span", { class: "tag" }, "live") : el("button", { onclick: app.reset }, "Go live"),
    bases, el("span", { class: "about", id: "about" }, ""),
  );
  about();
}
function about() {
  const node = $("about"), d = app.data;
  if (!node) return;
  const server = app.live?.server || app.servers.find((s) => s.id === app.server), parts = [];
  if (d) {
    parts.push(`step ${duration(d.step_ms)}`);
    // Just after the start of a live stretch the first samples are still on their way.
    const asked = Math.min(d.to, now()) - d.from;
    parts.push(`coverage ${Math.min(100, (d.covered_ms / Math.max(asked, 1)) * 100).toFixed(0)} %`);
    if (d.first && d.first - d.from > Math.max(2 * d.step_ms, 3000)) parts.push(`samples since ${clock(d.first)}`);
  }
  if (server && Number.isFinite(server.cost_percent)) parts.push(`cost ${number(server.cost_percent)} % of a core`);
  node.textContent = [...parts, zone()].join(" · ");
}
app.about = about;

const STATES = { connecting: "connecting", up: "up", late: "answers late", frozen: "frozen: connected, no answer", refused: "refuses the login", unreachable: "unreachable" };
function state(server, repository) {
  if (!server) return;
  const node = $("state");
  node.className = `state ${server.state}`;
  const since = server.state === "up" || server.state === "late" ? `up ${duration(now() - server.started)}` : STATES[server.state];
  node.textContent = `${server.state === "late" ? "late, " : ""}${since}`;
  node.title = server.version || "";
  const words = [];
  if (["frozen", "refused", "unreachable"].includes(server.state)) words.push(`${server.name} ${STATES[server.state]} for ${duration(server.since_s * 1000 || server.age_ms || 0)}${server.error ? `: ${server.error.split("\n").pop()}` : ""}. What is shown is the last that was seen.`);
  if (repository?.error) words.push(`Not stored since ${server.stored_until ? clock(server.stored_until) : "the start"}: ${repository.error}${repository.dropped ? ` ${repository.dropped} samples were lost.` : ""}`);
  $("notice").hidden = words.length === 0;
  $("notice").textContent = words.join(" ");
  document.title = `${server.state === "up" ? "" : `${STATES[server.state]}: `}${server.name} – Daruma monitor`;
}

// ---- what is shown

let asked = 0;
async function show() {
  const mine = ++asked;
  if (app.isLive()) settle();
  $("server").value = String(app.server);
  nav(); rangeBar();
  const main = $("main");
  app.shown?.leave?.();
  app.shown = null;
  try {
    const shown = await VIEWS[app.view][1](main, app);
    if (mine !== asked) { shown?.leave?.(); return; }
    app.shown = shown;
  } catch (error) {
    if (mine === asked) main.replaceChildren(el("p", { class: "card empty", role: "alert" }, error.message, " ", el("button", { onclick: show }, "Try again")));
  }
  about();
}
app.show = show;

/** Samples of the shown range, with those of the baseline and the events in it. */
app.load = async () => {
  const { server, from, to, base } = app;
  const width = to - from;
  const [data, ghost, happened] = await Promise.all([range(server, from, to), base ? range(base.server, base.from, base.from + width) : null, json(`/api/events?${query({ server, from: Math.round(from), to: Math.round(to) })}`)]);
  if (server !== app.server || from !== app.from || to !== app.to) throw new Error("The range has changed meanwhile.");
  app.data = data; app.ghost = ghost; app.events = happened;
  about();
  return data;
};

// ---- once a second

let missed = 0;
async function beat() {
  try {
    const last = app.data?.step_ms === 1000 && app.data.t.length ? Math.round(app.data.t.at(-1) * 1000) : now() - 5000;
    const live = await json(`/api/live?${query({ server: app.server, after: last })}`);
    app.skew = live.now - Date.now();
    app.live = live; app.status = live; missed = 0;
    state(live.server, live.repository);
    app.shown?.beat?.(live);
    const count = document.querySelector("#nav .count")?.textContent || "0";
    if (String(live.alerts || 0) !== count) nav();
  } catch (error) {
    missed += 1;
    if (missed > 2) { $("notice").hidden = false; $("notice").textContent = `The monitor itself does not answer: ${error.message}`; }
  }
  setTimeout(beat, document.hidden ? 5000 : 1000);
}

// ---- keys

const KEYS = { l: ["live", () => app.reset()], "0": ["the range as it was opened", () => app.reset()], "+": ["zoom in", () => scale(0.5)], "-": ["zoom out", () => scale(2)], b: ["keep the selection as a baseline", () => app.selection && app.admin() && newBaseline(app.selection.from, app.selection.to)], r: ["quick report", () => { const s = app.selection || app; app.go({ last: null, from: s.from, to: s.to, view: "report" }); }], a: ["take as A", () => app.selection && app.go({ a: app.selection })], c: ["take as B", () => app.selection && app.go({ b: app.selection, view: app.a ? "compare" : app.view })], t: ["tables instead of charts", () => app.shown?.tables?.()], "/": ["filter", () => document.querySelector("input[type=search]")?.focus()], "?": ["this help", help] };
function scale(by) { const s = app.selection; if (by < 1 && s) return app.zoom(s.from, s.to); const middle = (app.from + app.to) / 2, half = ((app.to - app.from) / 2) * by; return app.zoom(middle - half, Math.min(middle + half, now())); }
function help() {
  const box = $("dialog");
  box.replaceChildren(el("h2", {}, "Keys and mouse"), el("dl", { class: "keys" }, ...Object.entries(KEYS).flatMap(([key, [words]]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, words)]), el("dt", {}, el("kbd", {}, "←"), " ", el("kbd", {}, "→")), el("dd", {}, "move in a chart; with Shift, select"), el("dt", {}, "drag"), el("dd", {}, "select on all charts"), el("dt", {}, "double click"), el("dd", {}, "live again"), el("dt", {}, el("kbd", {}, "Esc")), el("dd", {}, "drop the selection")), el("div", { class: "buttons" }, el("button", { onclick: () => box.close(), autofocus: true }, "Close")));
  box.showModal();
}
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !$("dialog").open) { app.select(null); return; }
  if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = KEYS[event.key.toLowerCase()];
  if (action) { event.preventDefault(); action[1](); }
});

// ---- light and dark

function theme(value) { if (value) document.documentElement.dataset.theme = value; else delete document.documentElement.dataset.theme; app.shown?.redraw?.(); }
$("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem("theme", dark ? "light" : "dark"); theme(dark ? "light" : "dark");
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.shown?.redraw?.());
theme(localStorage.getItem("theme"));

$("logout").addEventListener("click", async () => { await ask("/logout", { method: "POST" }); location.assign("/login"); });
$("server").addEventListener("change", (event) => app.go({ server: Number(event.target.value), base: null }));

// ---- start

async function start() {
  try {
    const [me, status, baselines] = await Promise.all([json("/api/me"), json("/api/servers"), json("/api/baselines").catch(() => [])]);
    Object.assign(app, { me, servers: status.servers, status, baselines, skew: me.now - Date.now() });
    $("me").textContent = me.login;
    $("server").replaceChildren(...status.servers.map((s) => el("option", { value: s.id }, s.name === s.endpoint ? s.name : `${s.name} (${s.endpoint})`)));
    read();
    if (!app.servers.some((s) => s.id === app.server)) app.server = app.servers[0]?.id;
    state(status.servers.find((s) => s.id === app.server), status.repository);
    await show();
    beat();
  } catch (error) { $("main").replaceChildren(el("p", { class: "card empty", role: "alert" }, error.message, " ", el("button", { onclick: start }, "Try again"))); }
}
start();
