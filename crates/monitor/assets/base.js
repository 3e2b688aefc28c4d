// Elements, numbers, times and questions to the server.

/** Makes an element; texts enter as text, never as markup. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const $ = (id) => document.getElementById(id);

/** Says something to those who do not see the page. */
let saying = 0;
export function say(words) {
  clearTimeout(saying);
  saying = setTimeout(() => { $("says").textContent = words; }, 250);
}

/** Asks the server; a session that has ended leads to the login. */
export async function ask(address, options = {}) {
  const change = options.method && options.method !== "GET";
  const answer = await fetch(address, {
    ...options,
    headers: change ? { "content-type": "application/json", ...options.headers } : options.headers,
  });
  if (answer.status === 401) { location.assign("/login" + location.search); throw new Error("The session has ended."); }
  if (!answer.ok) {
    const words = await answer.json().then((body) => body.error, () => answer.statusText);
    throw new Error(words || `The server answered ${answer.status}.`);
  }
  return answer;
}

export const json = async (address, options) => (await ask(address, options)).json();
export const send = (method, address, body) => json(address, { method, body: body === undefined ? undefined : JSON.stringify(body) });
export const query = (values) => new URLSearchParams(Object.entries(values).filter(([, v]) => v !== undefined && v !== null)).toString();

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
/** Three digits that matter. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100000) return compact(value);
  if (size >= 100 || value === 0) return grouped.format(value).replaceAll(",", "\u2009");
  if (Number.isInteger(value)) return String(value);
  return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
}
function compact(value) {
  const size = Math.abs(value);
  for (const [unit, by] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (size >= by) return `${(value / by).toPrecision(3)}\u2009${unit}`;
  return String(value);
}
export function bytes(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let at = 0;
  while (Math.abs(value) >= 1024 && at < 5) { value /= 1024; at += 1; }
  return `${value >= 100 || at === 0 ? value.toFixed(0) : value.toPrecision(3)}\u2009${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][at]}`;
}
/** Three digits, of a whole number none behind the point. */
const three = (value) => value.toPrecision(3).replace(/\.0+$/, "");
/** Milliseconds in the unit that suits. */
export function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 1) return `${(ms * 1000).toFixed(0)}\u2009µs`;
  if (ms < 1000) return `${three(ms)}\u2009ms`;
  if (ms < 60000) return `${three(ms / 1000)}\u2009s`;
  const s = Math.round(ms / 1000), h = Math.floor(s / 3600), d = Math.floor(h / 24);
  if (d > 0) return `${d} d ${h % 24} h`;
  return h > 0 ? `${h} h ${Math.floor(s / 60) % 60} min` : `${Math.floor(s / 60)} min ${s % 60} s`;
}
export const percent = (value) => (value === null || value === undefined || !Number.isFinite(value) ? "–" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(Math.abs(value) < 10 ? 1 : 0)}\u2009%`);
const two = (n) => String(n).padStart(2, "0");
/** Time of the viewer's zone; with the date when it is another day. */
export function clock(ms, withDate = false) {
  const at = new Date(ms), today = new Date();
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withDate || at.toDateString() !== today.toDateString() ? `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}` : time;
}
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
export const iso = (ms) => new Date(ms).toISOString();

/** Columns of a range: `t` in seconds and every figure, NaN for a hole. */
export async function range(server, from, to) {
  const answer = await ask(`/api/range?${query({ server, from: Math.round(from), to: Math.round(to) })}`);
  return decode(await answer.arrayBuffer());
}
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const column = (at) => new Float64Array(buffer, 4 + length + at * head.n * 8, head.n);
  const data = { ...head, t: Array.from(column(0)), f: {} };
  head.figures.forEach((name, at) => { data.f[name] = Array.from(column(at + 1)); });
  return data;
}

/** A table whose columns sort: `columns` are {name, of, show, left, text}. */
export function table(caption, columns, rows, { sort = 0, down = true, cards = true, row = null } = {}) {
  const body = el("tbody");
  let by = sort, falling = down;
  const heads = columns.map((column, at) => !column.name ? el("td") : el("th", { class: column.left || column.text ? "l" : null, scope: "col" },
    el("button", { type: "button", onclick: () => { falling = by === at ? !falling : !column.left; by = at; fill(); } }, column.name)));
  function fill() {
    heads.forEach((head, at) => { if (at === by) head.setAttribute("aria-sort", falling ? "descending" : "ascending"); else head.removeAttribute("aria-sort"); });
    const of = columns[by]?.of;
    const sorted = !of ? rows : [...rows].sort((a, b) => { const x = of(a), y = of(b); const order = x < y ? -1 : x > y ? 1 : 0; return falling ? -order : order; });
    body.replaceChildren(...sorted.map((item) => {
      const line = el("tr", {}, columns.map((column) => {
        const shown = column.show ? column.show(item) : column.of(item);
        return el("td", { class: column.text ? "text" : column.left ? "l" : null, "data-l": column.name || null }, shown instanceof Node ? shown : String(shown ?? ""));
      }));
      if (row) row(line, item);
      return line;
    }));
  }
  fill();
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, el("table", { class: cards ? "cards" : null }, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), body));
}

/** A dialog that only shows something. */
export function tell(title, ...content) {
  const box = $("dialog");
  box.classList.add("wide");
  box.addEventListener("close", () => box.classList.remove("wide"), { once: true });
  box.replaceChildren(el("h2", {}, title), ...content, el("div", { class: "buttons" }, el("button", { onclick: () => box.close(), autofocus: true }, "Close")));
  box.showModal();
}

/** A statement that opens to its whole length. */
export function statement(text) {
  if (!text) return el("span", { class: "dim" }, "no text");
  const button = el("button", { type: "button", "aria-expanded": "false", onclick: () => { const open = button.parentNode.classList.toggle("open"); button.setAttribute("aria-expanded", open); } }, text);
  return button;
}
