// One chart: a heading, the drawing, and a legend whose buttons switch series on and off.
//
// The library (dygraphs) draws and zooms. It gets no names: it has places, and this file puts names
// into the legend, as text.
import { seriesOf } from "./series.js";
import { bytesPerSecond, clock, time } from "./units.js";

/* global Dygraph */

// Its own legend sets styles that the page's policy forbids, and names as markup.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

// Without those of touches, which would keep a finger from scrolling the page.
const { mousedown, dblclick } = Dygraph.defaultInteractionModel;
const INTERACTION = { mousedown, dblclick, willDestroyContextMyself: true };

export function html(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export class Chart {
  // `on` has functions for a pointed row (`select`) and for a changed window (`zoom`).
  constructor(section, chart, on) {
    this.chart = chart;
    this.hidden = new Set();
    this.selected = null;
    this.series = [];
    this.title = section.querySelector("h2").textContent;
    this.at = html("span", "at");
    this.measure = chart.measures?.[0];
    const head = html("div", "head");
    head.append(section.querySelector("h2"), ...this.choice(), this.at);
    this.plot = html("div", "plot");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "group");
    this.plot.setAttribute("aria-roledescription", "chart");
    this.plot.setAttribute("aria-label", `${this.title}: arrow keys read values`);
    this.legend = html("ul", "legend");
    this.legend.setAttribute("aria-label", `Series of ${this.title}`);
    this.colors = html("span", "sample");
    this.colors.hidden = true;
    section.append(head, this.plot, this.legend, this.colors);
    this.on = on;
  }

  get format() { return this.measure?.format ?? this.chart.format; }

  // The list of measures, if the chart has several.
  choice() {
    if (!(this.chart.measures?.length > 1)) return [];
    const select = html("select");
    select.setAttribute("aria-label", `Measure of ${this.title}`);
    this.chart.measures.forEach((measure) => select.append(new Option(measure.title)));
    select.addEventListener("change", () => {
      this.measure = this.chart.measures[select.selectedIndex];
      this.draw(this.points, this.range);
    });
    return [select];
  }

  // Draws these points, in a window of time [from, to] in milliseconds.
  draw(points, range) {
    this.points = points;
    this.range = range;
    const within = points.filter((it) => it.unix_s * 1000 >= range[0]);
    this.series = seriesOf(this.chart, this.measure, within, this.series);
    const rows = points.map((point) => [
      new Date(point.unix_s * 1000), ...this.series.map((it) => (it ? it[1](point) : null)),
    ]);
    const options = {
      file: rows,
      labels: ["time", ...this.series.map((_, at) => `s${at}`)],
      visibility: this.series.map((it) => it !== null && !this.hidden.has(it[0])),
      dateWindow: range,
      valueRange: this.format === time ? null : [0, this.chart.highest ?? null],
      logscale: this.format === time,
      axes: { y: { labelsKMG2: this.format === bytesPerSecond } },
      ...this.palette(),
    };
    if (this.library) this.library.updateOptions(options);
    else this.begin(rows, options);
    // The library takes the row that it has already for drawn.
    this.library.setSelection(false);
    this.select(this.selected);
  }

  // Makes the library's chart, with options that stay.
  begin(rows, options) {
    const label = { axisLabelFontSize: 12 };
    this.library = new Dygraph(this.plot, rows, {
      ...options,
      legend: "never",
      resizable: "passive",
      stackedGraph: Boolean(this.chart.stacked),
      fillAlpha: 0.75,
      strokeWidth: 1.6,
      highlightCircleSize: 3.5,
      interactionModel: INTERACTION,
      axes: {
        x: {
          ...label,
          axisTickSize: 7,
          axisLabelWidth: 66,
          pixelsPerLabel: 90,
          axisLabelFormatter: clock,
        },
        y: {
          ...label,
          ...options.axes.y,
          axisLabelWidth: 72,
          pixelsPerLabel: 40,
          axisLabelFormatter: (value) => this.format(value),
        },
      },
      highlightCallback: (event, x, points, row) => this.on.select(row),
      unhighlightCallback: () => this.on.select(null),
      zoomCallback: (from, to) => this.zoomed(from, to),
    });
  }

  // A drag up or down leaves the window of time as it is, and all values stay visible.
  zoomed(from, to) {
    if (!this.library.isZoomed("x")) this.on.zoom(null);
    else if (from === this.range[0] && to === this.range[1]) this.draw(this.points, this.range);
    else this.on.zoom([from, to]);
  }

  // Colors as the style sheet has them now: the canvas knows no variables.
  palette() {
    const style = getComputedStyle(this.colors);
    const line = style.borderTopColor;
    const colors = this.series.map((_, at) => {
      this.colors.className = `sample s${at}`;
      return getComputedStyle(this.colors).color;
    });
    return { colors, gridLineColor: line, axisLineColor: line };
  }

  // Shows the values of a row, of the latest one if it is null.
  select(row) {
    this.selected = row;
    this.library?.setSelection(row ?? false);
    this.fillLegend();
  }

  fillLegend() {
    const shown = this.series.map((it, at) => ({ it, at })).filter(({ it }) => it !== null);
    const names = JSON.stringify(shown.map(({ it, at }) => [it[0], at]));
    // Buttons stay while the names do, so that they keep the keyboard's focus.
    if (names !== this.names) {
      this.names = names;
      this.legend.replaceChildren(...shown.map(({ it, at }) => this.entry(it[0], at)));
    }
    const point = this.points?.[this.selected ?? this.points.length - 1];
    if (!point) return;
    [...this.legend.children].forEach((entry, index) => {
      const [name, value] = shown[index].it;
      const button = entry.firstChild;
      button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      button.querySelector(".value").textContent = this.text(value(point));
    });
    this.at.textContent = this.selected === null ? "now" : clock(point.unix_s * 1000);
  }

  text(value) { return value === null ? "–" : this.format(value); }

  entry(name, at) {
    const button = html("button", `s${at}`);
    button.type = "button";
    button.append(html("i"), html("span", "name", name), html("span", "value"));
    button.addEventListener("click", () => {
      if (!this.hidden.delete(name)) this.hidden.add(name);
      this.draw(this.points, this.range);
    });
    const entry = html("li");
    entry.append(button);
    return entry;
  }

  // The values of a row in words, for screen readers.
  words(row) {
    const point = this.points[row];
    const shown = this.series.filter((it) => it !== null && !this.hidden.has(it[0]));
    const values = shown.map(([name, value]) => `${name} ${this.text(value(point))}`);
    return `${clock(point.unix_s * 1000)}: ${values.join(", ")}`;
  }
}
