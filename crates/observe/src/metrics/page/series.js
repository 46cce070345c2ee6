// The series of each chart: names, and the value of a point.
//
// A chart has a fixed number of colors, so of many clients those with the highest sum of the window
// are drawn. A name keeps its color while it is drawn.
import { bytesPerSecond, count, part, perSecond, time } from "./units.js";

// Colors of page.css; one more, the last, is for all others together.
const COLORS = 8;

const rate = (point, amount) => (amount ?? 0) / (point.seconds || 1);

// How a row may be measured. Without requests there is no latency, and the line has a gap.
const MEASURES = {
  requests: {
    title: "Requests/s", format: perSecond, value: (row, point) => rate(point, row?.requests),
  },
  read: {
    title: "Read/s", format: bytesPerSecond, value: (row, point) => rate(point, row?.read_bytes),
  },
  written: {
    title: "Written/s",
    format: bytesPerSecond,
    value: (row, point) => rate(point, row?.written_bytes),
  },
  p50: { title: "p50", format: time, value: (row) => (row?.requests ? row.p50_ns : null) },
  p99: { title: "p99", format: time, value: (row) => (row?.requests ? row.p99_ns : null) },
  average: {
    title: "Average", format: time, value: (row) => (row?.requests ? row.average_ns : null),
  },
  busy: {
    title: "Busy",
    format: part,
    value: (row) => (row?.workers_ns ? row.busy_ns / row.workers_ns : 0),
  },
  classRequests: {
    title: "Requests/s", format: perSecond, value: (row, point) => rate(point, row?.operations),
  },
  throttled: {
    title: "Throttled/s", format: perSecond, value: (row, point) => rate(point, row?.throttled),
  },
  held: {
    title: "Held",
    format: time,
    value: (row) => (row?.throttled ? row.throttled_ns / row.throttled : null),
  },
  waiting: { title: "Waiting", format: count, value: (row) => row?.waiting ?? 0 },
};

const measures = (...names) => names.map((name) => MEASURES[name]);
const OF_PARTY = measures("requests", "read", "written", "p50", "p99", "average");

// Charts by the id of their section. `rows` names the rows of a point that are its series; others
// have fixed ones. Stacked series lie on top of each other, up to `all`. Of times, the axis is
// logarithmic: p50 and p99 may be a thousand times apart.
export const CHARTS = {
  throughput: {
    format: bytesPerSecond,
    fixed: [
      ["read", (point) => rate(point, point.total.read_bytes)],
      ["written", (point) => rate(point, point.total.written_bytes)],
    ],
  },
  latency: {
    format: time,
    fixed: [
      ["p50", (point) => (point.total.requests ? point.total.p50_ns : null)],
      ["p99", (point) => (point.total.requests ? point.total.p99_ns : null)],
    ],
  },
  operations: {
    rows: "operations",
    measures: measures("requests"),
    stacked: true,
    all: (point) => rate(point, point.total.requests),
  },
  commands: { rows: "operations", measures: measures("p99", "p50", "average") },
  phases: {
    phases: true,
    format: part,
    stacked: true,
    // A little more than all, which a sum of parts may exceed by its last digit.
    highest: 1.01,
    all: (point) => (phasesOf(point).size ? 1 : 0),
  },
  clients: { rows: "clients", measures: [...OF_PARTY, MEASURES.busy] },
  shares: { rows: "shares", measures: OF_PARTY },
  users: { rows: "users", measures: OF_PARTY },
  classes: {
    rows: "classes",
    measures: measures("classRequests", "read", "written", "throttled", "held", "waiting"),
  },
};

const phasesOf = (point) => {
  point.phases ??= shares(point.total.phases_ns ?? {});
  return point.phases;
};

function shares(ns) {
  const sum = Object.values(ns).reduce((all, it) => all + it, 0) || 1;
  return new Map(Object.entries(ns).map(([phase, it]) => [phase, it / sum]));
}

// Returns the series as [name, value of a point], a place for each color: null if it is free.
export function seriesOf(chart, measure, points, before) {
  if (chart.fixed) return chart.fixed;
  const read = (name) => (chart.phases
    ? (point) => phasesOf(point).get(name) ?? 0
    : (point) => measure.value(point[chart.rows].get(name), point));
  const kept = places(busiest(chart, points), before.map((it) => it?.[0]));
  const series = kept.map((name) => (name === undefined ? null : [name, read(name)]));
  const named = series.filter(Boolean);
  const rest = (point) => named.reduce((left, [, value]) => left - value(point), chart.all(point));
  return chart.all ? [...series, ["others", (point) => Math.max(0, rest(point))]] : series;
}

// The names with the highest sums: of requests, or of time for phases.
function busiest(chart, points) {
  const sums = new Map();
  const add = (name, amount) => sums.set(name, (sums.get(name) ?? 0) + amount);
  for (const point of points) {
    if (chart.phases) phasesOf(point).forEach((amount, phase) => add(phase, amount));
    else point[chart.rows].forEach((row, name) => add(name, row.requests ?? row.operations));
  }
  return [...sums].sort((a, b) => b[1] - a[1]).slice(0, COLORS).map(([name]) => name);
}

// Puts names into places; those that were there before stay in theirs.
function places(names, before) {
  const wanted = new Set(names);
  const kept = Array.from({ length: COLORS }, (_, at) => (
    wanted.has(before[at]) ? before[at] : undefined
  ));
  kept.forEach((name) => wanted.delete(name));
  const rest = [...wanted];
  return kept.map((name) => name ?? rest.shift());
}
