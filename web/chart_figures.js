// What each chart shows of a history: its axes, and its series with their values, colours and units.

const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

export function formatSeconds(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${precise.format(seconds * 1000)} ms`;
  if (seconds < 120) return `${precise.format(seconds)} s`;
  if (seconds < 7200) return `${precise.format(seconds / 60)} min`;
  return `${precise.format(seconds / 3600)} h`;
}

const formatCount = (count) => number.format(count);
const perMinute = (rate) => `${number.format(rate)}/min`;
const words = (name) => name.replaceAll("_", " ");

const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);
const most = (values) => values.reduce((highest, value) => Math.max(highest, value ?? 0), 0);
const last = (values) => values.findLast((value) => value !== null && value !== undefined);
const tasks = (count) => `${whole.format(count)} ${count === 1 ? "task" : "tasks"}`;

// Counts of each period as rates. The last period is not over yet.
function rates(history, counts) {
  const now = Date.parse(history.time);
  return counts.map((count, index) => {
    const elapsed = (now - Date.parse(history.points[index].start)) / 60_000;
    return count / Math.max(1, Math.min(history.step_seconds / 60, elapsed));
  });
}

// A part of a stack of bars, which counts tasks.
function bars(history, label, colour, counts) {
  const values = rates(history, counts);
  return { label, colour, kind: "bars", scale: "tasks", values, format: perMinute, total: tasks(sum(counts)) };
}

function finished({ points }, ...statuses) {
  return points.map((point) => sum(statuses.map((status) => point.finished[status])));
}

const failureColours = ["--chart-3", "--chart-4", "--chart-5", "--chart-6", "--chart-1", "--chart-2"];

// The most frequent reasons first. The others share the last colour.
function failures(history) {
  const totals = new Map();
  for (const point of history.points) {
    for (const [reason, count] of Object.entries(point.failures)) totals.set(reason, (totals.get(reason) ?? 0) + count);
  }
  const reasons = [...totals.keys()].sort((one, other) => totals.get(other) - totals.get(one) || one.localeCompare(other));
  const own = reasons.length > failureColours.length ? failureColours.length - 1 : reasons.length;
  const counts = (chosen) => history.points.map((point) => sum(chosen.map((reason) => point.failures[reason])));
  const series = reasons.slice(0, own).map((reason, index) => {
    const label = reason === "exited" ? "exit code" : words(reason);
    return bars(history, label, failureColours[index], counts([reason]));
  });
  if (own < reasons.length) series.push(bars(history, "other reasons", failureColours[own], counts(reasons.slice(own))));
  return series;
}

// A line of the values that a period has. Periods without them leave a gap.
function line(label, colour, values, options) {
  return { label, colour, kind: "line", values, ...options };
}

const latest = (values, format) => {
  const value = last(values);
  return value === undefined ? "not known" : `${format(value)} now, at most ${format(most(values))}`;
};

const load = (history, field) => history.points.map((point) => point.load?.[field] ?? null);
const runTime = (history, field) => history.points.map((point) => point.run_time?.[field] ?? null);

const decades = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const counts = decades.flatMap((decade) => [decade, 2 * decade, 5 * decade]);
const spans = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1].flatMap((decade) => [decade, 2 * decade, 5 * decade])
  .concat([1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800]);

export const definitions = {
  throughput: {
    title: "Tasks finished per minute",
    axes: [{ scale: "tasks", label: "tasks/min", least: 1, format: formatCount, increments: counts }],
    series: (history) => [
      bars(history, "success", "--chart-2", finished(history, "success")),
      bars(history, "failed", "--chart-3", finished(history, "run_failed", "compile_failed")),
      bars(history, "system error", "--chart-5", finished(history, "system_error")),
      bars(history, "cancelled", "--chart-4", finished(history, "cancelled")),
      line("added", "--chart-1", rates(history, history.points.map((point) => point.added)), {
        kind: "steps", scale: "tasks", format: perMinute, total: tasks(sum(history.points.map((point) => point.added))),
      }),
    ],
  },
  queue: {
    title: "Queue",
    axes: [
      { scale: "tasks", label: "tasks", least: 1, format: formatCount, increments: counts },
      { scale: "age", label: "age of the oldest", least: 1, format: formatSeconds, increments: spans },
    ],
    series: (history) => {
      const [length, age] = [load(history, "queued"), load(history, "oldest_queued_seconds")];
      return [
        line("waiting tasks", "--chart-1", length, { scale: "tasks", format: formatCount, total: latest(length, formatCount) }),
        line("age of the oldest", "--chart-4", age, { scale: "age", dash: [6, 4], format: formatSeconds, total: latest(age, formatSeconds) }),
      ];
    },
  },
  run_time: {
    title: "Run time of tasks",
    axes: [{ scale: "time", label: "run time", least: 0, format: formatSeconds, increments: spans }],
    series: (history) => {
      const named = [["mean", "mean_seconds", "--chart-1"], ["median", "p50_seconds", "--chart-2", [2, 3]], ["95 %", "p95_seconds", "--chart-3", [6, 4]]];
      return named.map(([label, field, colour, dash]) => {
        const values = runTime(history, field);
        return line(label, colour, values, { kind: "points", scale: "time", dash, format: formatSeconds, total: latest(values, formatSeconds) });
      });
    },
  },
  failures: {
    title: "Failed tasks by reason",
    axes: [{ scale: "tasks", label: "tasks/min", least: 1, format: formatCount, increments: counts }],
    series: failures,
  },
  slots: {
    title: "Slots in use",
    axes: [{ scale: "slots", label: "slots", least: 1, format: formatCount, increments: counts }],
    series: (history) => {
      const [used, all] = [load(history, "slots_used"), load(history, "slots")];
      return [
        line("in use", "--chart-1", used, { scale: "slots", format: formatCount, total: latest(used, formatCount) }),
        line("slots", "--chart-4", all, { kind: "steps", scale: "slots", dash: [6, 4], format: formatCount, total: latest(all, formatCount) }),
      ];
    },
  },
};
