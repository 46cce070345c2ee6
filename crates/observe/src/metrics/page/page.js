// The page: draws what the feed has each second, and keeps all charts in one window of time.
import { Chart } from "./chart.js";
import { Feed } from "./feed.js";
import { CHARTS } from "./series.js";
import { fillTables, placeTables } from "./tables.js";
import { startTheme } from "./theme.js";
import { bytes, count } from "./units.js";

const INTERVAL_MS = 1000;

// The shortest window that can be zoomed to.
const SPAN_MIN_MS = 5000;

const byId = (id) => document.getElementById(id);
const feed = new Feed();

// A window that was zoomed to, else the last `span` seconds; and the row that is pointed at.
const view = { zoom: null, span: 300, row: null, paused: false };

const charts = Object.entries(CHARTS).map(([id, chart]) => (
  new Chart(byId(id), chart, { select, zoom })
));

function range() {
  if (view.zoom) return view.zoom;
  const last = feed.points.at(-1);
  const end = last ? last.unix_s * 1000 : Date.now();
  return [end - view.span * 1000, end];
}

function draw() {
  if (feed.points.length > 0) charts.forEach((chart) => chart.draw(feed.points, range()));
}

// Points all charts at a row; at none if it is null.
function select(row) {
  view.row = row;
  charts.forEach((chart) => chart.select(row));
}

// Shows a window of time in all charts; the last seconds if it is null.
function zoom(to) {
  view.zoom = to;
  byId("reset").disabled = to === null;
  draw();
}

// Zooms by a factor, around the pointed row or the middle.
function zoomBy(factor) {
  const [from, to] = range();
  const point = view.row === null ? null : feed.points[view.row];
  const middle = point ? point.unix_s * 1000 : (from + to) / 2;
  const half = Math.max(SPAN_MIN_MS, (to - from) * factor) / 2;
  zoom([middle - half, middle + half]);
}

// Moves the pointed row within the window, and says its values.
function step(chart, rows) {
  const [from, to] = range();
  const within = feed.points.map((it, row) => ({ ms: it.unix_s * 1000, row }))
    .filter(({ ms }) => ms >= from && ms <= to);
  if (within.length === 0) return;
  const [first, last] = [within[0].row, within.at(-1).row];
  const row = (view.row ?? last) + rows;
  select(Math.min(last, Math.max(first, row)));
  byId("spoken").textContent = chart.words(view.row);
}

function onKey(event, chart) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const actions = {
    ArrowLeft: () => step(chart, event.shiftKey ? -10 : -1),
    ArrowRight: () => step(chart, event.shiftKey ? 10 : 1),
    Home: () => step(chart, -Infinity),
    End: () => step(chart, Infinity),
    "+": () => zoomBy(0.5),
    "=": () => zoomBy(0.5),
    "-": () => zoomBy(2),
    0: () => zoom(null),
    Escape: () => { select(null); zoom(null); },
  };
  if (!actions[event.key]) return;
  actions[event.key]();
  event.preventDefault();
}

function showNow() {
  const last = feed.points.at(-1);
  byId("error").textContent = feed.error ?? last?.remark ?? "";
  if (!last) {
    byId("now").textContent = "No figures yet.";
    return;
  }
  const requests = last.total.requests / (last.seconds || 1);
  byId("now").textContent = `${count(requests)} requests/s, ${last.clients_count} clients, `
    + `${last.sessions ?? "?"} sessions, ${bytes(last.memory_bytes)} in memory`;
}

// A pointed row stays at its second when older points leave.
async function refresh() {
  const pointed = feed.points[view.row]?.number;
  try {
    await feed.refresh();
  } catch (error) {
    byId("error").textContent = `No answer: ${error.message}`;
    return;
  }
  const row = feed.points.findIndex((it) => it.number === pointed);
  view.row = row < 0 ? null : row;
  charts.forEach((chart) => { chart.selected = view.row; });
  showNow();
  draw();
  if (feed.recent) fillTables(feed.recent);
}

// Nobody looks at a hidden page, so it asks for nothing.
async function run() {
  try {
    if (!document.hidden && !view.paused) await refresh();
  } finally {
    setTimeout(run, INTERVAL_MS);
  }
}

charts.forEach((chart) => {
  chart.plot.addEventListener("keydown", (event) => onKey(event, chart));
  chart.plot.addEventListener("blur", () => select(null));
});
byId("span").addEventListener("change", () => {
  view.span = Number(byId("span").value);
  zoom(null);
});
byId("reset").addEventListener("click", () => zoom(null));
byId("pause").addEventListener("click", () => {
  view.paused = !view.paused;
  byId("pause").setAttribute("aria-pressed", String(view.paused));
});
view.span = Number(byId("span").value);
placeTables();
startTheme(byId("theme"), draw);
run();
