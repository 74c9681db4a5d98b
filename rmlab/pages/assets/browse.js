// The reader of scored trajectories: a table of all attempts, of which only the rows in sight are in the page, and one attempt.
"use strict";

const ROW_HEIGHT = 26;
const ALL_COLUMNS = [
  { name: "task", title: "task", of: (i) => table.task[i], first: 1 },
  { name: "policy", title: "policy", of: (i) => table.policy[i], first: 1 },
  { name: "attempt", title: "att.", long: "attempt", number: true, of: (i) => table.attempt[i], first: 1 },
  { name: "score", title: "score", number: true, of: (i) => table.score[i], show: (v) => v.toFixed(4), first: -1 },
  { name: "label", title: "label", of: (i) => table.label[i], show: (v) => (v ? "resolved" : "unresolved"), first: -1 },
  { name: "error", title: "off by", number: true, of: (i) => error(i), show: (v) => v.toFixed(4), first: -1 },
  { name: "turns", title: "turns", number: true, of: (i) => table.turns[i], first: -1 },
  { name: "tokens", title: "tokens", number: true, of: (i) => table.tokens[i], show: (v) => v.toLocaleString("en"), first: -1 },
];

const byId = (id) => document.getElementById(id);
const block = (name) => (byId("data-" + name) ? JSON.parse(byId("data-" + name).textContent) : null);
const about = block("about");
const COLUMNS = ALL_COLUMNS.filter((column) => about.columns.includes(column.name));
let table = { id: [], task: [], policy: [], attempt: [], score: [], label: [], turns: [], tokens: [] };
const embedded = new Map((block("details") || []).map((one) => [one.id, one]));
let order = [];
let sorted = { name: "error", direction: -1 };
let chosen = -1;
let asking = null;

function error(i) {
  return table.score[i] === null || table.label[i] === null ? null : Math.abs(table.score[i] - table.label[i]);
}

function make(tag, kind, text) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  if (text !== undefined) node.textContent = text;
  return node;
}

function header() {
  for (const column of COLUMNS) {
    const cell = make("th", column.number ? "number" : column.name);
    const button = make("button", "", column.title);
    button.type = "button";
    if (column.long) button.setAttribute("aria-label", column.long);
    button.addEventListener("click", () => {
      sorted = { name: column.name, direction: sorted.name === column.name ? -sorted.direction : column.first };
      arrange();
    });
    cell.append(button);
    cell.id = "column-" + column.name;
    cell.scope = "col";
    byId("head").append(cell);
  }
}

function arrange() {
  const column = COLUMNS.find((one) => one.name === sorted.name);
  const wanted = byId("filter").value.trim().toLowerCase();
  const mistakes = byId("mistakes").checked;
  const keep = [];
  for (let i = 0; i < table.id.length; i++) {
    if (mistakes && !(error(i) > 0.5)) continue;
    if (wanted && !(table.task[i] + " " + table.policy[i] + " " + table.id[i]).toLowerCase().includes(wanted)) continue;
    keep.push(i);
  }
  const value = keep.length ? new Map(keep.map((i) => [i, column.of(i)])) : new Map();
  keep.sort((a, b) => {
    const x = value.get(a), y = value.get(b);
    if (x === y) return a - b;
    if (x === null) return 1; // what is not known stands last, whichever way the column is sorted
    if (y === null) return -1;
    return (x < y ? -1 : 1) * sorted.direction;
  });
  order = keep;
  for (const one of COLUMNS) {
    const cell = byId("column-" + one.name);
    if (one === column) cell.setAttribute("aria-sort", sorted.direction > 0 ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  }
  const loading = table.id.length < about.count ? " (reading on)" : "";
  byId("shown").textContent = order.length.toLocaleString("en") + " of " + about.count.toLocaleString("en") + loading;
  byId("head").closest("table").setAttribute("aria-rowcount", order.length + 1);
  draw();
}

function draw() {
  const scroll = byId("scroll");
  const first = Math.max(Math.floor(scroll.scrollTop / ROW_HEIGHT) - 10, 0);
  const last = Math.min(first + Math.ceil(scroll.clientHeight / ROW_HEIGHT) + 30, order.length);
  const rows = [spacer(first)];
  for (let place = first; place < last; place++) rows.push(row(place));
  rows.push(spacer(order.length - last));
  byId("rows").replaceChildren(...rows);
}

function spacer(count) {
  const node = make("tr", "spacer");
  const cell = make("td"); // of one column: a hidden column that it spans would take room
  cell.style.height = count * ROW_HEIGHT + "px";
  node.append(cell);
  return node;
}

function row(place) {
  const i = order[place];
  const node = make("tr", (error(i) > 0.5 ? "mistake" : "") + (i === chosen ? " chosen" : ""));
  node.setAttribute("aria-rowindex", place + 2);
  if (i === chosen) node.setAttribute("aria-selected", "true");
  for (const column of COLUMNS) {
    const value = column.of(i);
    const cell = make("td", (column.number ? "number " : "") + column.name);
    cell.textContent = value === null ? "-" : column.show ? column.show(value) : visible(String(value));
    if (!column.number) cell.title = cell.textContent;
    node.append(cell);
  }
  node.addEventListener("click", () => choose(place, true));
  return node;
}

function choose(place, read) {
  if (!order.length) return;
  place = Math.min(Math.max(place, 0), order.length - 1);
  chosen = order[place];
  const scroll = byId("scroll");
  const head = byId("head").offsetHeight;
  const top = place * ROW_HEIGHT;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (top + ROW_HEIGHT + head > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + ROW_HEIGHT + head - scroll.clientHeight;
  draw();
  if (read) open(chosen);
}

async function open(i) {
  const id = table.id[i];
  if (embedded.has(id)) return show(i, embedded.get(id));
  if (!about.served) return show(i, null);
  if (asking) asking.abort();
  asking = new AbortController();
  try {
    const answer = await fetch("/attempt?id=" + encodeURIComponent(id), { signal: asking.signal });
    show(i, answer.ok ? await answer.json() : null);
  } catch (problem) {
    if (problem.name !== "AbortError") byId("reader").replaceChildren(make("p", "dim", "The server does not answer: is it still running?"));
  }
}

function show(i, details) {
  const reader = byId("reader");
  const parts = [make("h2", "", visible(table.task[i]))];
  const score = table.score[i], label = table.label[i];
  const verdict = (score === null ? "not scored" : "score " + score.toFixed(4)) + ", " +
    (label === null ? "unlabelled" : label ? "resolved" : "unresolved");
  parts.push(make("p", error(i) > 0.5 ? "verdict wrong" : "verdict", verdict + (error(i) > 0.5 ? ": the verifier is wrong" : "")));
  const facts = { policy: table.policy[i], attempt: table.attempt[i], ...(details ? details.facts : {}), id: table.id[i] };
  parts.push(make("p", "dim facts", Object.entries(facts).filter(([, v]) => v !== null && v !== "").map(([k, v]) => k + " " + visible(String(v))).join(" · ")));
  if (!details) {
    parts.push(make("p", "dim", about.served ? "This attempt has no trajectory here." :
      "The turns of this attempt are not in this file: rmlab browse SCORES TRAJECTORIES --serve has all."));
    reader.replaceChildren(...parts);
    return;
  }
  const after = new Map(details.turns.map(([end, value]) => [end, value]));
  if (after.size) parts.push(course(details.turns));
  const links = make("p", "links");
  const jump = (name, target) => {
    const button = make("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => target().scrollIntoView());
    links.append(button);
  };
  parts.push(links);
  const turns = details.messages.map(([role, content], number) => {
    const section = make("section", "turn " + role);
    const head = make("h3", "", number + 1 + " " + role);
    if (after.has(number + 1)) {
      const value = after.get(number + 1);
      head.append(make("span", "after", value === null ? "does not fit" : "score after this turn " + value.toFixed(4)));
    }
    section.append(head, highlighted(content, "message"));
    return section;
  });
  parts.push(...turns);
  const patch = make("section", "patch");
  patch.append(make("h3", "", "patch"), details.patch === null || details.patch === "" ? make("p", "dim", "There is no patch.") :
    highlighted(details.patch, "diff"));
  parts.push(patch);
  jump("first turn", () => turns[0] || patch);
  jump("last turn", () => turns[turns.length - 1] || patch);
  jump("patch", () => patch);
  reader.replaceChildren(...parts);
  reader.scrollTop = 0;
}

// The scores after every turn as a line from 0 to 1.
function course(turns) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const known = turns.filter(([, value]) => value !== null);
  svg.setAttribute("viewBox", "0 0 320 64");
  svg.setAttribute("class", "course");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "Score after every turn: " + known.map(([, value]) => value.toFixed(2)).join(", "));
  const at = (k) => 34 + (known.length > 1 ? (k / (known.length - 1)) * 276 : 138);
  const height = (value) => 56 - value * 48;
  const add = (tag, attributes, text) => {
    const node = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    svg.append(node);
  };
  for (const value of [0, 0.5, 1]) {
    add("path", { d: `M34 ${height(value)}H310`, class: "grid" });
    add("text", { x: 28, y: height(value) + 4 }, String(value));
  }
  add("polyline", { points: known.map(([, value], k) => `${at(k)},${height(value)}`).join(" "), class: "line" });
  known.forEach(([, value], k) => add("circle", { cx: at(k), cy: height(value), r: 3 }));
  return svg;
}

function turn(step) {
  const reader = byId("reader");
  const sections = [...reader.querySelectorAll("section")];
  const top = reader.getBoundingClientRect().top;
  const now = sections.findIndex((one) => one.getBoundingClientRect().bottom > top + 20);
  const next = sections[Math.min(Math.max(now + step, 0), sections.length - 1)];
  if (next) next.scrollIntoView();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.tagName === "INPUT" && event.target.type === "search") {
    if (event.key === "Escape" || event.key === "Enter") byId("scroll").focus();
    else return;
    event.preventDefault();
    return;
  }
  const place = order.indexOf(chosen);
  const page = Math.max(Math.floor(byId("scroll").clientHeight / ROW_HEIGHT) - 2, 1);
  const inTable = document.activeElement === byId("scroll") || document.activeElement === document.body;
  const moves = { j: 1, k: -1, ...(inTable ? { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -order.length, End: order.length } : {}) };
  if (event.key in moves) choose(place < 0 ? 0 : place + moves[event.key], false);
  else if (event.key === "Enter" && inTable && order.length) {
    if (place < 0) choose(0, true); // nothing in sight is chosen yet: the first, which is the worst
    else open(chosen);
    byId("reader").focus({ preventScroll: false });
  } else if (event.key === "n") turn(1);
  else if (event.key === "p") turn(-1);
  else if (event.key === "/") byId("filter").focus();
  else if (event.key === "Escape") byId("scroll").focus();
  else return;
  event.preventDefault();
}

async function load() {
  if (!about.served) {
    table = block("rows");
    arrange();
    return;
  }
  while (table.id.length < about.count) {
    const answer = await fetch("/rows?from=" + table.id.length);
    const rows = await answer.json();
    if (!rows.id.length) break;
    for (const name of Object.keys(table)) table[name] = table[name].concat(rows[name]);
    arrange();
  }
}

header();
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", () => { byId("scroll").scrollTop = 0; arrange(); });
byId("mistakes").addEventListener("change", () => { byId("scroll").scrollTop = 0; arrange(); });
byId("scroll").addEventListener("scroll", () => requestAnimationFrame(draw));
window.addEventListener("resize", draw);
document.addEventListener("keydown", keys);
load();
