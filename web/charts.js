// The charts of the page Overview. They show what `GET /api/v1/history` answers, and the page has the same figures as a table.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./charts.css";
import { definitions } from "./chart_figures.js";

const REFRESH_MILLISECONDS = 10_000;
const overview = document.querySelector("[data-history]");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

// A colour of the style sheet, which differs between the light and the dark scheme.
const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// One chart: a picture with a summary for screen readers, and a legend below it.
class Chart {
  #definition;
  #plot;
  #legend;
  #uplot = null;
  #series = [];
  #times = [];
  #step = 60;
  #values = [];

  constructor(figure) {
    this.#definition = definitions[figure.dataset.chart];
    this.#plot = figure.querySelector(".chart-plot");
    this.#legend = figure.querySelector(".chart-legend");
    new ResizeObserver(() => this.#uplot?.setSize(this.#size())).observe(this.#plot);
  }

  show(history) {
    const before = this.#series.map((series) => series.label).join();
    this.#series = this.#definition.series(history);
    this.#times = history.points.map((point) => Date.parse(point.start) / 1000);
    this.#step = history.step_seconds;
    this.#values = drawn(this.#series);
    const data = [this.#times, ...this.#values];
    if (this.#uplot && before === this.#series.map((series) => series.label).join()) {
      this.#uplot.setData(data);
    } else {
      this.#uplot?.destroy();
      this.#uplot = new uPlot(this.#options(), data, this.#plot);
    }
    this.#plot.setAttribute("aria-label", this.#summary(history));
    this.#showLegend(null);
  }

  redraw() {
    this.#uplot?.redraw(false);
    this.#showLegend(null);
  }

  #size() {
    return { width: Math.max(this.#plot.clientWidth, 200), height: Math.max(this.#plot.clientHeight, 120) };
  }

  #options() {
    const scales = { x: { time: true, range: (chart) => [chart.data[0][0], chart.data[0].at(-1) + this.#step] } };
    const axes = [this.#axis({ values: (_, ticks) => ticks.map((tick) => clock.format(tick * 1000)) })];
    for (const [index, axis] of this.#definition.axes.entries()) {
      scales[axis.scale] = { range: (_, least, most) => [0, Math.max(most ?? 0, axis.least) * 1.05] };
      const values = (_, ticks) => ticks.map((tick) => (tick === null ? "" : axis.format(tick)));
      const onRight = index > 0;
      axes.push(this.#axis({
        values, scale: axis.scale, incrs: axis.increments, label: axis.label, labelSize: 18, labelFont: this.#font(), labelGap: 0,
        size: 52, side: onRight ? 1 : 3, grid: { show: !onRight, stroke: colour("--line"), width: 1 },
      }));
    }
    return {
      ...this.#size(),
      scales,
      axes,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "overview" }, points: { size: 7 } },
      hooks: { setCursor: [(chart) => this.#showLegend(chart.cursor.idx ?? null)] },
      series: [{}, ...this.#series.map((series) => this.#uplotSeries(series))],
    };
  }

  #font() {
    return `12px ${getComputedStyle(document.body).fontFamily}`;
  }

  #axis(options) {
    return {
      stroke: colour("--dim"), font: this.#font(), grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1, size: 4 }, gap: 4, size: 34, ...options,
    };
  }

  #uplotSeries({ label, colour: name, kind, scale, dash }) {
    const common = { label, scale, stroke: colour(name) };
    if (kind === "bars") {
      const paths = uPlot.paths.bars({ size: [0.9, Infinity], align: 1 });
      return { ...common, width: 0, fill: colour(name), paths, points: { show: false } };
    }
    const paths = kind === "steps" ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    return { ...common, width: 2, dash, paths, points: { show: kind === "points", size: 5, fill: colour(name) } };
  }

  // The values at the cursor, or in short those of the whole time.
  #showLegend(index) {
    const items = this.#series.map((series) => {
      const item = element("li");
      const swatch = element("span", series.kind === "bars" ? "swatch" : "swatch line");
      swatch.style.borderColor = colour(series.colour)();
      if (series.kind === "bars") swatch.style.backgroundColor = colour(series.colour)();
      if (series.dash) swatch.style.borderTopStyle = "dashed";
      const value = index === null ? null : series.values[index];
      const text = index === null ? series.total : value === null || value === undefined ? "–" : series.format(value);
      item.append(swatch, `${series.label} `, element("b", "", text));
      return item;
    });
    const time = index === null ? null : whole.format(this.#times[index] * 1000);
    if (time) items.push(element("li", "dim", time));
    this.#legend.replaceChildren(...items);
  }

  #summary(history) {
    const parts = this.#series.map((series) => `${series.label}: ${series.total}`);
    return `${this.#definition.title}, last ${history.span}. ${parts.join("; ") || "No figures"}.`;
  }
}

// Bars are stacked: each covers the ones before it, from the highest to the lowest.
function drawn(all) {
  const bars = all.filter((series) => series.kind === "bars");
  return all.map((series) => {
    if (series.kind !== "bars") return series.values;
    const below = bars.slice(bars.indexOf(series));
    return series.values.map((_, index) => below.reduce((sum, other) => sum + (other.values[index] ?? 0), 0));
  });
}

function start() {
  const charts = [...overview.querySelectorAll("[data-chart]")].map((figure) => new Chart(figure));
  const problem = overview.querySelector(".chart-problem");
  let timer = null;
  let folded = false;

  function show(history) {
    const isEmpty = history.points.every((point) => point.added === 0 && Object.values(point.finished).every((count) => count === 0));
    document.getElementById("no-figures")?.toggleAttribute("hidden", !isEmpty);
    overview.toggleAttribute("hidden", isEmpty);
    if (isEmpty) return;
    for (const chart of charts) chart.show(history);
    // The table says the same. It stays where the reader has opened it.
    const table = document.getElementById("figures");
    if (table && !folded) table.open = false;
    folded = true;
  }

  async function refresh() {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const answer = await fetch(overview.dataset.history, { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      show(await answer.json());
      problem.textContent = "";
    } catch (error) {
      problem.textContent = `Could not read the figures (${error.message}). Trying again.`;
    }
    clearTimeout(timer);
    timer = setTimeout(refresh, REFRESH_MILLISECONDS);
  }

  document.addEventListener("visibilitychange", refresh);
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
    matchMedia(query).addEventListener("change", () => charts.forEach((chart) => chart.redraw()));
  }
  refresh();
}

if (overview) start();
