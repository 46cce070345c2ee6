// The tables below the charts: the last few seconds, one row for each name. One second alone may
// have nothing of what happens all the time.
import { html } from "./chart.js";
import { bytesPerSecond, count, part, time } from "./units.js";

const per = (now, amount) => amount / (now.seconds || 1);

const traffic = (row, now) => [
  count(per(now, row.requests ?? row.operations)),
  bytesPerSecond(per(now, row.read_bytes)),
  bytesPerSecond(per(now, row.written_bytes)),
];

const latency = (row) => [time(row.average_ns), time(row.p50_ns), time(row.p99_ns)];

// Titles of `choro top`, and the cells of a row. Columns of text are aligned to the left. A table is
// in the section of its name, if it names no other.
const TABLES = {
  operations: {
    section: "commands",
    titles: ["Operation", "Requests/s", "Read/s", "Written/s", "Average", "p50", "p99"],
    cells: (row, now) => [row.operation, ...traffic(row, now), ...latency(row)],
  },
  clients: {
    titles: [
      "Client", "User", "Requests/s", "Read/s", "Written/s", "Average", "p50", "p99", "Busy",
      "Time goes to",
    ],
    text: [1, 9],
    cells: (row, now) => [
      row.client, row.user, ...traffic(row, now), ...latency(row),
      part(row.busy_ns / Math.max(1, row.workers_ns)), row.time_goes_to ?? "",
    ],
  },
  shares: {
    titles: ["Share", "Requests/s", "Read/s", "Written/s", "Average", "p50", "p99"],
    cells: (row, now) => [row.share, ...traffic(row, now), ...latency(row)],
  },
  users: {
    titles: ["User", "Requests/s", "Read/s", "Written/s", "Average", "p50", "p99"],
    cells: (row, now) => [row.user, ...traffic(row, now), ...latency(row)],
  },
  classes: {
    titles: [
      "Class", "Requests/s", "Read/s", "Written/s", "Throttled/s", "Held", "Waiting",
    ],
    cells: (row, now) => [
      row.class, ...traffic(row, now), count(per(now, row.throttled)),
      time(row.throttled ? row.throttled_ns / row.throttled : 0), String(row.waiting),
    ],
  },
};

// Puts an empty table below the chart of each kind of rows.
export function placeTables() {
  for (const [kind, { titles, section: id = kind }] of Object.entries(TABLES)) {
    const section = document.getElementById(id);
    const frame = html("div", "table");
    // A table that is wider than the screen is scrolled by keys, too.
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", `${section.querySelector("h2").textContent}: last seconds`);
    const [table, head, body] = [html("table"), html("thead"), html("tbody")];
    head.append(line("th", titles, kind));
    head.querySelectorAll("th").forEach((cell) => { cell.scope = "col"; });
    table.append(head, body);
    frame.append(table);
    section.append(frame);
  }
}

export function fillTables(now) {
  for (const [kind, { titles, cells, section = kind }] of Object.entries(TABLES)) {
    const lines = now[kind].map((row) => line("td", cells(row, now), kind));
    if (lines.length === 0) {
      const none = html("td", "none", "none");
      none.colSpan = titles.length;
      lines.push(html("tr"));
      lines[0].append(none);
    }
    document.querySelector(`#${section} tbody`).replaceChildren(...lines);
  }
}

function line(cell, texts, kind) {
  const made = html("tr");
  const isText = (at) => TABLES[kind].text?.includes(at);
  made.append(...texts.map((text, at) => html(cell, isText(at) ? "text" : "", text)));
  return made;
}
