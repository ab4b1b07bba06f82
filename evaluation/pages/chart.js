"use strict";
/* A line chart over steps, in SVG: several series that may grow, markers, alarms, linear and log, hover and zoom.
   Needs scale.js and drawing.js before it, and palette.css for its colours.

   const chart = new Chart(host, {
     label: "loss",                // what it shows: caption, and name for those who can't see it; the names of
                                  // several series are under it, where nothing is read out
     unit: "nats per token",           // beside the caption
     series: [{id: "faulty", name: "faulty", ink: "faulty", steps: [0, 1, 2], values: [4.1, NaN, null], hidden: false}],
     markers: [{step: 120, label: "s", name: "onset", ink: "s"}],      // vertical lines, see CLOCK_NAMES; none for null
     alarms: [{name: "zclip", steps: [131, 160]}],                         // a row of ticks each, below the axis
     log: false, height: 210,
     xName: "step", tickText: (x) => String(x),       // where the axis is of something else
     domain: [0, 300],             // steps of the whole axis; by default those of the series
     onHover: (step) => {}, onZoom: (low, high) => {},                     // by the reader only, never by a method
   });

   steps ascend; values are as many. null (or undefined) is a gap. NaN is a cross and +Inf a triangle at the upper edge,
   -Inf one at the lower edge, as is a value that a log axis can't show. ink: a name for which palette.css has a class
   `.ink-NAME` with --ink: faulty, twin, cured, s, v, p, cure; or any of your own.

   chart.setSeries(series); chart.append(id, steps, values)   append grows a series, for runs under way
   chart.setMarkers(markers); chart.setAlarms(alarms); chart.setDomain([low, high] or null)
   chart.show(id, true or false); chart.setLog(true or false)
   chart.setNote(text)                              beside the caption
   chart.hover(step or null); chart.zoom(low, high); chart.reset()
   chart.at(step) -> [{id, name, step, value}]                what the readout says there
   chart.remove()

   The reader: pointer or finger for the values of the nearest step; drag with a mouse to zoom, or + and -; Escape, 0 or
   a double click for all; arrow keys move the step, by ten with Shift, Home and End; L for linear or log. */

class Chart {
  constructor(host, options) {
    Object.assign(this, { series: [], markers: [], alarms: [], log: false, height: 210, domain: null, unit: "", xName: "step", tickText: String }, options);
    this.range = null; // of steps, where the reader zoomed in
    this.cursor = null;
    this.brush = null;
    this.series = this.series.map(ownSeries);
    this._build(host);
    this._listen();
    this.observer = new ResizeObserver(() => this._later());
    this.observer.observe(this.root);
    this.printing = drawnForPaper(this);
    this.draw();
  }

  setSeries(series) { this.series = series.map(ownSeries); this._later(); }
  setMarkers(markers) { this.markers = markers; this._later(); }
  setAlarms(alarms) { this.alarms = alarms; this._later(); }
  setDomain(domain) { this.domain = domain; this._later(); }
  setLog(log) { this.log = log; this._later(); }

  setNote(text) { this.note.textContent = text; }

  append(id, steps, values) {
    const one = this.series.find((series) => series.id === id);
    if (!one) throw new Error(`chart: no series ${id}`);
    one.steps.push(...steps);
    one.values.push(...values);
    this._later();
  }

  show(id, shown) {
    for (const one of this.series) if (one.id === id) one.hidden = !shown;
    this._later();
  }

  hover(step) { this.cursor = step; this._drawCursor(); }
  zoom(low, high) { this.range = high > low ? [low, high] : null; this._later(); }
  reset() { this.zoom(0, 0); }

  at(step) {
    return this._shown().flatMap((one) => {
      const i = nearest(one.steps, step);
      return i < 0 ? [] : [{ id: one.id, name: one.name, ink: one.ink, step: one.steps[i], value: one.values[i] }];
    });
  }

  remove() {
    this.observer.disconnect();
    this.printing.abort();
    cancelAnimationFrame(this.waiting);
    this.root.remove();
  }

  /** Draw now; changes draw by themselves with the next frame. */
  draw() {
    cancelAnimationFrame(this.waiting);
    this.waiting = 0;
    this.width = Math.max(200, Math.round(this.root.clientWidth || 600));
    this.rows = this.alarms.filter((one) => one.steps.length);
    this.right = this.width - MARGIN.right;
    this.x = scaleOf(...this._steps(), false);
    this.placed = placedMarkers(this);
    this.top = topFor(this.placed);
    this.bottom = this.top + this.height - MARGIN.top - MARGIN.bottom;
    const full = this.bottom + MARGIN.bottom + this.rows.length * ALARM_ROW;
    this.y = this._values();
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${full}`);
    this.svg.setAttribute("height", full);
    this.clip.setAttribute("width", this.right - MARGIN.left);
    this.clip.setAttribute("y", this.top);
    this.clip.setAttribute("height", this.bottom - this.top);
    fill(this.plot, drawFrame(this), drawMarkers(this), drawAlarms(this));
    fill(this.lines, this._shown().map((one) => drawLine(this, one)));
    const broken = [];
    for (const one of this._shown()) broken.push(drawBroken(this, one, broken.filter(Boolean).length));
    fill(this.edges, broken);
    fill(this.names, this._shown().length < 2 ? "" : this._shown().map((one) => html`<span><span class="swatch ink-${one.ink}"></span> ${one.name}</span>`));
    this.logButton.setAttribute("aria-pressed", String(this.log));
    this.resetButton.hidden = !this.range;
    this._drawCursor();
  }

  _build(host) {
    const id = `clip${Chart.count = (Chart.count || 0) + 1}`;
    this.root = document.createElement("figure");
    this.root.className = "chart";
    const unit = this.unit ? html` <small>${this.unit}</small>` : "";
    fill(this.root,
      html`<figcaption><span>${this.label}${unit} <small class="note"></small></span><span class="tools">`,
      html`<button type="button" data-do="log">log</button><button type="button" data-do="in" aria-label="zoom in">+</button>`,
      html`<button type="button" data-do="reset" hidden>whole run</button></span></figcaption>`,
      html`<svg tabindex="0" role="slider" aria-label="${this.label}, ${this.xName}">`,
      html`<clipPath id="${id}"><rect x="${MARGIN.left}"/></clipPath>`,
      html`<g class="plot"></g><g class="lines" clip-path="url(#${id})"></g><g class="edges"></g><g class="over"></g></svg>`,
      html`<p class="readout"></p><p class="names"></p>`);
    const find = (selector) => this.root.querySelector(selector);
    Object.assign(this, {
      svg: find("svg"), clip: find("clipPath rect"), plot: find(".plot"), lines: find(".lines"), edges: find(".edges"),
      over: find(".over"), readout: find(".readout"), names: find(".names"), logButton: find("[data-do=log]"), resetButton: find("[data-do=reset]"), note: find(".note"),
    });
    host.append(this.root);
  }

  _listen() {
    this.root.addEventListener("click", (event) => {
      const does = event.target.dataset?.do;
      if (does === "log") this.setLog(!this.log);
      if (does === "in") this._zoomBy(0.5);
      if (does === "reset") this._readerZoom(0, 0);
    });
    this.svg.addEventListener("pointermove", (event) => {
      const step = this._stepAt(event);
      if (this.brush) {
        this.brush[1] = step;
        this._drawCursor();
      }
      this._readerHover(step);
    });
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) {
        this.brush = [this._stepAt(event), this._stepAt(event)];
        this.svg.setPointerCapture(event.pointerId);
      } else this._readerHover(this._stepAt(event));
    });
    this.svg.addEventListener("pointerup", () => {
      const [a, b] = this.brush || [0, 0];
      this.brush = null;
      if (Math.abs(this._across(a) - this._across(b)) > 8) this._readerZoom(Math.floor(Math.min(a, b)), Math.ceil(Math.max(a, b)));
      else this._drawCursor();
    });
    this.svg.addEventListener("pointercancel", () => { this.brush = null; this._drawCursor(); });
    this.svg.addEventListener("pointerleave", (event) => { if (!this.brush && event.pointerType === "mouse") this._readerHover(null); });
    this.svg.addEventListener("dblclick", () => this._readerZoom(0, 0));
    this.svg.addEventListener("keydown", (event) => this._key(event));
  }

  _key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = this._steps();
    const from = this.cursor === null ? low : this.cursor, by = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: from - by, ArrowDown: from - by, ArrowRight: from + by, ArrowUp: from + by, Home: low, End: high };
    const does = {
      Escape: () => this._readerZoom(0, 0), 0: () => this._readerZoom(0, 0), "+": () => this._zoomBy(0.5),
      "-": () => this._zoomBy(2), l: () => this.setLog(!this.log), L: () => this.setLog(!this.log),
    };
    if (event.key in moves) this._readerHover(Math.min(high, Math.max(low, moves[event.key])));
    else if (event.key in does) does[event.key]();
    else return;
    event.preventDefault();
    event.stopPropagation(); // the page may have keys of its own
  }

  _readerHover(step) {
    this.hover(step === null ? null : Math.round(step));
    this.onHover?.(this.cursor);
  }

  _readerZoom(low, high) {
    this.zoom(low, high);
    this.onZoom?.(low, high);
  }

  _zoomBy(factor) {
    const [first, last] = this._whole(), [low, high] = this._steps();
    const middle = this.cursor ?? (low + high) / 2, half = Math.max(4, ((high - low) * factor) / 2);
    const start = Math.max(first, Math.round(middle - half)), end = Math.min(last, Math.round(middle + half));
    if (start <= first && end >= last) this._readerZoom(0, 0);
    else this._readerZoom(start, end);
  }

  _later() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => this.draw());
  }

  _shown() { return this.series.filter((one) => !one.hidden); }

  _whole() {
    if (this.domain) return this.domain;
    const filled = this.series.filter((one) => one.steps.length);
    if (!filled.length) return [0, 1];
    return [Math.min(...filled.map((one) => one.steps[0])), Math.max(1, ...filled.map((one) => one.steps[one.steps.length - 1]))];
  }

  _steps() { return this.range || this._whole(); }

  _across(step) { return MARGIN.left + this.x.at(step) * (this.right - MARGIN.left); }

  _up(value) {
    if (this.y.log && !(value > 0)) return this.bottom;
    return this.bottom - this.y.at(value) * (this.bottom - this.top);
  }

  _stepAt(event) {
    const box = this.svg.getBoundingClientRect(), [low, high] = this._steps();
    const across = ((event.clientX - box.left) / box.width) * this.width;
    const share = (across - MARGIN.left) / (this.right - MARGIN.left);
    return Math.min(high, Math.max(low, low + share * (high - low)));
  }

  /** The scale over the finite values within the steps shown, with some air. */
  _values() {
    const [first, last] = this._steps();
    let low = Infinity, high = -Infinity;
    for (const one of this._shown()) {
      one.steps.forEach((step, i) => {
        const value = one.values[i];
        if (step < first || step > last || value === null || !Number.isFinite(value) || (this.log && value <= 0)) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      });
    }
    if (low > high) [low, high] = this.log ? [0.1, 1] : [0, 1];
    if (this.log) return scaleOf(low / 1.1, high * 1.1, true);
    const air = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
    return scaleOf(low - air, high + air, false);
  }

  _drawCursor() {
    const [low, high] = this._steps();
    const over = [];
    if (this.brush) {
      const [a, b] = this.brush.map((step) => this._across(step)).sort((p, q) => p - q);
      over.push(html`<rect class="brush" x="${a}" y="${this.top}" width="${b - a}" height="${this.bottom - this.top}"/>`);
    }
    const known = this.cursor === null ? [] : this.at(this.cursor);
    if (this.cursor !== null && this.cursor >= low && this.cursor <= high) {
      const x = this._across(this.cursor).toFixed(1);
      over.push(html`<path class="cursor" d="M${x} ${this.top}V${this.bottom}"/>`);
      for (const one of known) {
        const drawn = one.value !== null && Number.isFinite(one.value) && one.step >= low && one.step <= high;
        if (drawn) over.push(html`<circle class="dot ink-${one.ink}" cx="${this._across(one.step).toFixed(1)}" cy="${this._up(one.value).toFixed(1)}" r="3"/>`);
      }
    }
    fill(this.over, over);
    const parts = known.map((one) => {
      const away = one.step === this.cursor ? "" : ` at ${one.step}`;
      return [one, `${one.name} `, written(one.value) + away];
    });
    fill(this.readout, this.cursor === null ? "" : together(
      `${this.xName} ${this.tickText(this.cursor)}: `, joined(parts.map(([one, name, value]) => html`<span class="ink-${one.ink}">${name}<b>${value}</b></span>`), ", ")));
    this.svg.setAttribute("aria-valuemin", low);
    this.svg.setAttribute("aria-valuemax", high);
    this.svg.setAttribute("aria-valuenow", this.cursor ?? low);
    this.svg.setAttribute("aria-valuetext", this.cursor === null ? `no ${this.xName} chosen` :
      `${this.xName} ${this.tickText(this.cursor)}: ${parts.map(([, name, value]) => name + value).join(", ")}`);
  }
}

/** The lines of some series and nothing else, as the markup of an SVG with the viewBox `SKETCH`. */
function sketch(series, log) {
  const size = { right: MARGIN.left + 120, top: MARGIN.top, bottom: MARGIN.top + 44 };
  const chart = Object.assign(Object.create(Chart.prototype), size, { series: series.map(ownSeries), log, range: null, domain: null });
  chart.x = scaleOf(...chart._steps(), false);
  chart.y = chart._values();
  return together(chart.series.map((one) => drawLine(chart, one)));
}
const SKETCH = `${MARGIN.left} ${MARGIN.top} 120 44`;

/** A series with arrays of its own, so that it can grow and its owner's does not; undefined becomes null. */
function ownSeries(one) {
  const name = one.name ?? one.id;
  return { ink: "", hidden: false, ...one, name, steps: Array.from(one.steps), values: Array.from(one.values, (value) => value ?? null) };
}
