"use strict";
/* One scenario's curves: three line charts, a heat map over layers, loss by position and entropy by head. */

const AXIS_WORDS = {
  layers: "largest layer", blocks: "largest layer", heads: "spread over heads", positions: "early less late",
  ages: "early less late", ranks: "largest of the ranks", groups: "largest of the groups",
};
const INKS = ["twin", "cured", "faulty"]; // the last is drawn on top
const unpacked = new Map();

/** A run's columns, unpacked once; its twin's first where it is packed against that. */
function columnsOfRun(id) {
  if (!unpacked.has(id)) {
    const script = document.getElementById(`run-${id}`), twin = script.dataset.twin;
    unpacked.set(id, Promise.all([inflated(script.textContent), twin ? columnsOfRun(twin) : null]).then(([bytes, other]) => columnsOf(bytes, other)));
  }
  return unpacked.get(id);
}

/** Role to columns, of the runs that there are. */
async function runsOf(run) {
  const ids = { faulty: run.run, twin: run.twin, cured: run.cured };
  const found = await Promise.all(Object.entries(ids).filter(([, id]) => id).map(async ([role, id]) => [role, await columnsOfRun(id)]));
  return Object.fromEntries(found);
}

/** One curve of a signal: the number itself, or what layers, heads or positions have to say. */
function curveOf(column, axis) {
  const { steps, rows } = numbersOf(column);
  if (axis === "scalar") {
    // Between two evaluations there is nothing to miss: the line goes from one to the next.
    const known = facts.signals[column.name].evaluated ? steps.filter((_, i) => rows[0][i] !== null) : steps;
    return { steps: known, values: known.map((step) => rows[0][step / column.every]) };
  }
  const mean = (values) => {
    const known = values.filter((value) => value !== null && !Number.isNaN(value));
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : NaN;
  };
  const values = steps.map((_, i) => {
    const all = rows.map((row) => row[i]);
    if (axis === "heads") return Math.max(...all) - Math.min(...all);
    if (axis === "positions" || axis === "ages") return mean(all.slice(0, 2)) - mean(all.slice(-2));
    return Math.max(...(axis === "groups" ? all.filter((value) => value !== null && !Number.isNaN(value)) : all));
  });
  return { steps, values };
}

/** The charts of one run in a host; `linked` ones follow each other's step and zoom. */
class Exhibit {
  constructor(host, scenario, run, columns, choice) {
    Object.assign(this, { host, scenario, run, columns, choice, charts: [], shown: new Set(Object.keys(columns)) });
    this.domain = [0, Math.max(...Object.values(columns).map((all) => all.loss.steps - 1))];
  }

  has(name) { return Object.values(this.columns).some((all) => all[name]); }

  /** Signals of some axes that any of the runs has. */
  names(...axes) { return Object.keys(facts.signals).filter((name) => axes.includes(facts.signals[name].axis) && this.has(name)); }

  series(name) {
    return INKS.filter((role) => this.columns[role]?.[name]).map((role) => ({
      id: role, name: role === "faulty" ? this.own() : role, ink: role, hidden: !this.shown.has(role),
      ...curveOf(this.columns[role][name], facts.signals[name].axis),
    }));
  }

  own() { return this.scenario.kind === "look-alike" ? "look-alike" : "faulty"; }

  line(host, name, alarms = []) {
    const signal = facts.signals[name], series = this.series(name), extra = AXIS_WORDS[signal.axis];
    const chart = new Chart(host, {
      label: `${name.replaceAll("_", " ")}${signal.role === "hash" ? ", another than the first rank's" : extra ? `, ${extra}` : ""}`,
      unit: signal.role === "hash" ? "0 or 1" : signal.unit, series, markers: markersOf(this.run), alarms, log: wild(series), height: 190, domain: this.domain,
      onHover: (step) => this.hover(step, chart), onZoom: (low, high) => this.zoom(low, high, chart),
    });
    chart.setDomain(this.domain);
    return this.keep(chart);
  }

  heat(host, name, role) {
    const signal = facts.signals[name], over = role === "over", own = this.columns[over ? "faulty" : role]?.[name];
    if (!own) return null;
    const { steps, rows } = numbersOf(own), blocks = this.columns.faulty.attention_entropy?.rows ?? 1;
    let values = rows;
    if (over) {
      const twin = numbersOf(this.columns.twin[name]).rows;
      values = rows.map((row, k) => row.map((value, i) => {
        const other = twin[k]?.[i] ?? null;
        if (value === null || other === null) return null;
        if (!signal.positive) return value - other;
        return value === other ? 1 : value / other;
      }));
    }
    const what = over ? (signal.positive ? " over the twin's" : " less the twin's") : "";
    const heat = new Heat(host, {
      label: `${name.replaceAll("_", " ")}${what}`, unit: over && signal.positive ? "ratio" : signal.role === "hash" ? "0 or 1" : signal.unit, rows: rowNames(signal.axis, rows.length, blocks),
      steps, values, log: signal.positive && (over || wild([{ values: rows.flat() }])), diverging: over, markers: markersOf(this.run), domain: this.domain,
      onHover: (step) => this.hover(step, heat), onZoom: (low, high) => this.zoom(low, high, heat),
    });
    return this.keep(heat);
  }

  /** Loss by position or age: the mean over the last steps up to `until`. */
  profile(name, until) {
    const WINDOW = 20;
    return INKS.filter((role) => this.columns[role]?.[name]).map((role) => {
      const { steps, rows } = numbersOf(this.columns[role][name]);
      const inside = steps.map((step, i) => (step <= until && step > until - WINDOW ? i : -1)).filter((i) => i >= 0);
      const values = rows.map((row) => {
        const known = inside.map((i) => row[i]).filter((value) => value !== null && !Number.isNaN(value));
        return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
      });
      return { id: role, name: role === "faulty" ? this.own() : role, ink: role, hidden: !this.shown.has(role), steps: values.map((_, i) => i + 1), values };
    });
  }

  profileChart(host, name) {
    const series = this.profile(name, this.domain[1]), names = rowNames(facts.signals[name].axis, series[0].steps.length, 1);
    const chart = new Chart(host, {
      label: name === "age_loss" ? "loss by tokens since the document began" : "loss by position in the row",
      unit: "nats per token", xName: name === "age_loss" ? "age" : "part", series, height: 170,
      tickText: (x) => names[x - 1] ?? "",
    });
    chart.follow = (step) => {
      chart.setSeries(this.profile(name, step ?? this.domain[1]));
      chart.setNote(`mean of the 20 steps up to ${step ?? this.domain[1]}`);
    };
    chart.follow(null);
    return this.keep(chart);
  }

  keep(chart) {
    this.charts.push(chart);
    return chart;
  }

  drop(chart) {
    chart?.remove();
    this.charts = this.charts.filter((one) => one !== chart);
  }

  hover(step, from) {
    for (const chart of this.charts) {
      if (chart.follow) chart.follow(step);
      else if (chart !== from) chart.hover(step);
    }
  }

  zoom(low, high, from) {
    for (const chart of this.charts) if (chart !== from && !chart.follow) chart.zoom(low, high);
  }

  show(role, shown) {
    if (shown) this.shown.add(role);
    else this.shown.delete(role);
    for (const chart of this.charts) chart.show?.(role, shown);
  }

  remove() { for (const chart of [...this.charts]) this.drop(chart); }
}
