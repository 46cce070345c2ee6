// Draws what /data.json has: a point for each second. Asks nobody but the server it came from, and
// writes names as text only.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [600, 190, 62, 18, 8];
const COLORS = 8;

const byId = (id) => document.getElementById(id);

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function html(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function scaled(amount, step, units) {
  let unit = 0;
  while (amount >= step && unit + 1 < units.length) { amount /= step; unit += 1; }
  const digits = amount !== 0 && amount < 10 ? 1 : 0;
  return `${amount.toFixed(digits)} ${units[unit]}`.trim();
}
const bytes = (amount) => scaled(amount, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const rate = (amount) => scaled(amount, 1000, ["", "k", "M"]);
const time = (ns) => scaled(ns / 1000, 1000, ["µs", "ms", "s"]);
const share = (part) => `${Math.round(part * 100)} %`;

// `series` are [name, value of a point] pairs. Stacked ones lie on top of each other.
function chart(id, points, series, format, stacked, most) {
  const values = points.map((point) => series.map(([, value]) => value(point) || 0));
  if (stacked) values.forEach((row) => row.forEach((it, at) => { row[at] = it + (at ? row[at - 1] : 0); }));
  const top = most || Math.max(1e-9, ...values.flat()) * 1.05;
  const x = (at) => LEFT + (WIDTH - LEFT) * (points.length < 2 ? 1 : at / (points.length - 1));
  const y = (value) => TOP + (HEIGHT - BOTTOM - TOP) * (1 - Math.min(1, value / top));
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  for (const part of [0, 0.5, 1]) {
    const at = y(top * part);
    svg.append(element("line", { x1: LEFT, x2: WIDTH, y1: at, y2: at, class: "grid" }));
    svg.append(element("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end", class: "axis" }, format(top * part)));
  }
  const first = points[0].unix_s - points[points.length - 1].unix_s;
  svg.append(element("text", { x: LEFT, y: HEIGHT - 3, class: "axis" }, `${Math.round(first)} s`));
  svg.append(element("text", { x: WIDTH, y: HEIGHT - 3, "text-anchor": "end", class: "axis" }, "now"));
  for (let at = series.length - 1; at >= 0; at -= 1) {
    const line = values.map((row, index) => `${x(index).toFixed(1)},${y(row[at]).toFixed(1)}`);
    const color = at % COLORS;
    if (stacked) {
      const area = [`${LEFT},${y(0)}`, ...line, `${WIDTH},${y(0)}`].join(" ");
      svg.append(element("polygon", { points: area, class: `f${color}` }));
    } else {
      svg.append(element("polyline", { points: line.join(" "), class: `curve l${color}` }));
    }
  }
  const legend = html("ul", undefined, "legend");
  series.forEach(([name], at) => {
    const entry = html("li");
    entry.append(html("i", undefined, `f${at % COLORS}`), name);
    legend.append(entry);
  });
  byId(id).replaceChildren(svg, legend);
}

function table(id, titles, rows) {
  const head = html("tr");
  titles.forEach((title) => head.append(html("th", title)));
  const lines = rows.map((cells) => {
    const line = html("tr");
    cells.forEach((cell) => line.append(html("td", cell)));
    return line;
  });
  if (rows.length === 0) {
    const none = html("tr");
    const cell = html("td", "none", "none");
    cell.colSpan = titles.length;
    none.append(cell);
    lines.push(none);
  }
  byId(id).replaceChildren(head, ...lines);
}

// The names that most was counted for, most first; the rest is left out beyond the colors.
function names(points, rows, key, amount) {
  const sums = new Map();
  points.forEach((point) => rows(point).forEach((row) => {
    sums.set(row[key], (sums.get(row[key]) || 0) + amount(row));
  }));
  return [...sums].sort((a, b) => b[1] - a[1]).slice(0, COLORS).map(([name]) => name);
}

function draw({ points, recent, error }) {
  if (points.length === 0 || error) byId("now").textContent = error || "No figures yet.";
  if (points.length === 0) return;
  const last = points[points.length - 1];
  // Tables are about the last few seconds: one alone may have nothing of what happens all the time.
  const now = recent || last;
  const per = (point, amount) => amount / (point.seconds || 1);
  if (!error) {
    byId("now").textContent = `${rate(per(last, last.total.requests))} requests/s, `
      + `${last.clients_count} clients, ${last.sessions ?? "?"} sessions, ${bytes(last.memory_bytes)} in memory`
      + (last.remark ? `. ${last.remark}` : "");
  }
  chart("throughput", points, [
    ["read", (it) => per(it, it.total.read_bytes)],
    ["written", (it) => per(it, it.total.written_bytes)],
  ], (amount) => `${bytes(amount)}/s`);
  const kinds = names(points, (it) => it.operations, "operation", (it) => it.requests);
  const of = (point, name) => point.operations.find((it) => it.operation === name);
  chart("operations", points, kinds.map((name) => [
    name, (it) => per(it, of(it, name)?.requests || 0),
  ]), (amount) => `${rate(amount)}/s`, true);
  chart("latency", points, [
    ["p50", (it) => it.total.p50_ns],
    ["p99", (it) => it.total.p99_ns],
  ], time);
  const spent = (point) => Object.entries(point.total.phases_ns || {}).map(([phase, ns]) => ({ phase, ns }));
  const phases = names(points, spent, "phase", (it) => it.ns);
  const sum = (point) => spent(point).reduce((all, it) => all + it.ns, 0) || 1;
  chart("phases", points, phases.map((name) => [
    name, (it) => (it.total.phases_ns?.[name] || 0) / sum(it),
  ]), share, true, 1);
  const figures = (it) => [
    rate(per(now, it.requests)), `${bytes(per(now, it.read_bytes))}/s`, `${bytes(per(now, it.written_bytes))}/s`,
  ];
  table("clients", ["Client", "User", "Requests/s", "Read", "Written", "Average", "p99", "Busy", "Most of their time goes to"],
    now.clients.map((it) => [
      it.client, it.user, ...figures(it), time(it.average_ns), time(it.p99_ns),
      share(it.busy_ns / Math.max(1, it.workers_ns)), it.time_goes_to || "",
    ]));
  table("shares", ["Share", "Requests/s", "Read", "Written", "Average", "p99"],
    now.shares.map((it) => [it.share, ...figures(it), time(it.average_ns), time(it.p99_ns)]));
  table("classes", ["Class", "Requests/s", "Read", "Written", "Held for", "Waiting"],
    now.classes.map((it) => [
      it.class, rate(per(now, it.operations)), `${bytes(per(now, it.read_bytes))}/s`,
      `${bytes(per(now, it.written_bytes))}/s`, time(it.held ? it.held_ns / it.held : 0), String(it.waiting),
    ]));
}

async function refresh() {
  try {
    draw(await (await fetch("data.json")).json());
  } catch (error) {
    byId("now").textContent = `No answer: ${error.message}`;
  }
  setTimeout(refresh, 1000);
}

refresh();
