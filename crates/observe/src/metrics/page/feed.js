// The points of the charts, one for each second, as the server has them: all of them once, then the
// latest ones. Asks nobody but the server it came from.

// The kinds of rows of a point, with the member that names a row.
const ROWS = {
  operations: "operation", clients: "client", shares: "share", users: "user", classes: "class",
};

// As many as the server keeps; it may be restarted, so the page has a limit of its own.
const POINTS_MAX = 900;

export class Feed {
  points = [];
  recent = null;
  error = null;

  // Takes what is new. A gap, as after a pause, means to begin anew.
  async refresh() {
    const last = this.points.at(-1);
    const latest = last ? await ask("latest.json") : null;
    const follows = latest && latest.server === this.server
      && (latest.points.length === 0 || latest.points[0].number <= last.number + 1);
    const answer = follows ? latest : await ask("data.json");
    if (!follows) this.points = [];
    const after = this.points.at(-1)?.number ?? -1;
    this.points.push(...answer.points.filter((it) => it.number > after).map(indexed));
    this.points.splice(0, this.points.length - POINTS_MAX);
    this.server = answer.server;
    this.recent = answer.recent;
    this.error = answer.error;
  }
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}

// Rows by name, since each chart looks for its own in every point.
function indexed(point) {
  for (const [kind, name] of Object.entries(ROWS)) {
    point[kind] = new Map(point[kind].map((row) => [row[name], row]));
  }
  return point;
}
