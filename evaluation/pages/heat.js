"use strict";
/* A heat map over steps: a row a layer, head or position. Needs scale.js and drawing.js before it, and palette.css.

   const heat = new Heat(host, {
     label: "layer_grad_norm", unit: "1",
     rows: ["embedding", "layer 1", "head"],        // from the bottom up
     steps: [0, 2, 4], values: [[..], [..], [..]],  // an array a row, as many as steps; null is a gap
     log: true,                                     // colours by the logarithm
     diverging: false,                              // colours around 1 (log) or 0: less is blue, more is orange
     markers: [{step, label, name, ink}], domain: [0, 300], onHover, onZoom,      // as in chart.js
   });
   heat.hover(step or null); heat.zoom(low, high); heat.reset(); heat.setMarkers(markers); heat.remove()
   heat.setValues(steps, values, log)               for runs under way; log as it is where it is left out

   What is NaN or infinite, or not positive under a logarithm, has a colour of its own, named in the key.
   The keyboard is that of a chart; up and down choose a row. */

const ROW_HEIGHT = [10, 22]; // units: least and most
// Cividis (Nunez, Anderton and Renslow 2018), thinned: dark to bright, the same order for colour-blind readers.
const RISING = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const AROUND = ["#0b3c6f", "#2f6ea8", "#7fb2d9", "#d5e5ef", "#f3f1ec", "#f6d8bd", "#eb9f5f", "#c4651e", "#7a350a"];
const BROKEN = "#e5007d";

const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

/** Red, green and blue of a share from 0 to 1 along some colours. */
function blend(colours, share) {
  const place = Math.min(1, Math.max(0, share)) * (colours.length - 1), low = Math.min(colours.length - 2, Math.floor(place));
  const [a, b] = [channels(colours[low]), channels(colours[low + 1])];
  return a.map((part, i) => Math.round(part + (b[i] - part) * (place - low)));
}

/** Names of the rows of a signal with so many numbers a step. axis: of the schema; blocks: layers of the model. */
function rowNames(axis, count, blocks) {
  if (axis === "layers") return Array.from({ length: count }, (_, i) => (i === 0 ? "embedding" : i === count - 1 ? "head" : `layer ${i}`));
  if (axis === "blocks") return Array.from({ length: count }, (_, i) => `layer ${i + 1}`);
  if (axis === "heads") return Array.from({ length: count }, (_, i) => `layer ${Math.floor((i * blocks) / count) + 1} head ${(i % (count / blocks)) + 1}`);
  if (axis === "positions") return Array.from({ length: count }, (_, i) => `${i + 1}/${count}`);
  if (axis === "ages") return Array.from({ length: count }, (_, i) => (i < 2 ? `${i + 1}` : `${2 ** (i - 1) + 1}-${2 ** i}`));
  if (axis === "groups") return ["matrices", "embedding", "head", "vectors"];
  return Array.from({ length: count }, (_, i) => `rank ${i}`);
}

class Heat {
  constructor(host, options) {
    Object.assign(this, { markers: [], domain: null, unit: "", log: false, diverging: false }, options);
    this.range = this.cursor = null;
    this.row = null;
    this._scale();
    this._build(host);
    this._legend();
    this._listen();
    this.observer = new ResizeObserver(() => this._later());
    this.observer.observe(this.root);
    this.printing = drawnForPaper(this);
    this.draw();
  }

  hover(step) { this.cursor = step; this._drawCursor(); }
  zoom(low, high) { this.range = high > low ? [low, high] : null; this._later(); }
  reset() { this.zoom(0, 0); }
  setMarkers(markers) { this.markers = markers; this._later(); }

  setValues(steps, values, log = this.log) {
    Object.assign(this, { steps, values, log });
    this._scale();
    this._legend();
    this._later();
  }

  remove() {
    this.observer.disconnect();
    this.printing.abort();
    cancelAnimationFrame(this.waiting);
    this.root.remove();
  }

  draw() {
    cancelAnimationFrame(this.waiting);
    this.waiting = 0;
    this.width = Math.max(200, Math.round(this.root.clientWidth || 600));
    this.each = Math.min(ROW_HEIGHT[1], Math.max(ROW_HEIGHT[0], Math.round(150 / this.rows.length)));
    this.left = Math.min(this.width * 0.3, 12 + 6.2 * Math.max(...this.rows.map((name) => name.length)));
    this.right = this.width - MARGIN.right;
    this.x = scaleOf(...this._steps(), false);
    this.placed = placedMarkers(this);
    this.top = topFor(this.placed);
    this.bottom = this.top + this.each * this.rows.length;
    const full = this.bottom + MARGIN.bottom;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${full}`);
    this.svg.setAttribute("height", full);
    fill(this.plot, this._frame(), drawMarkers(this));
    this.resetButton.hidden = !this.range;
    this._paint();
    this._drawCursor();
  }

  /** The ends of the colours; around a middle both are as far from it. */
  _scale() {
    let low = Infinity, high = -Infinity;
    for (const row of this.values) {
      for (const value of row) {
        if (value === null || !Number.isFinite(value) || (this.log && value <= 0)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (low > high) [low, high] = this.log ? [1, 1] : [0, 0];
    if (this.diverging) {
      const far = this.log ? Math.max(high, 1 / low, 1.001) : Math.max(high, -low, 1e-12);
      [low, high] = this.log ? [1 / far, far] : [-far, far];
    }
    this.colours = scaleOf(low, high, this.log);
  }

  _colour(value) {
    if (value === null) return null;
    if (!Number.isFinite(value) || (this.log && value <= 0)) return channels(BROKEN);
    return blend(this.diverging ? AROUND : RISING, this.colours.at(value));
  }

  _build(host) {
    this.root = document.createElement("figure");
    this.root.className = "chart heat";
    fill(this.root,
      html`<figcaption><span>${this.label} <small></small></span>`,
      html`<span class="tools"><button type="button" data-do="reset" hidden>whole run</button></span></figcaption>`,
      html`<canvas aria-hidden="true"></canvas><svg tabindex="0" role="slider" aria-label="${this.label}, step"><g class="plot"></g><g class="over"></g></svg>`,
      html`<p class="readout"></p>`);
    const find = (selector) => this.root.querySelector(selector);
    Object.assign(this, {
      canvas: find("canvas"), svg: find("svg"), plot: find(".plot"), over: find(".over"), readout: find(".readout"),
      resetButton: find("[data-do=reset]"), key: find("figcaption small"),
    });
    this.svg.style.position = "relative";
    host.append(this.root);
  }

  _legend() {
    const bar = (this.diverging ? AROUND : RISING).join(",");
    fill(this.key, html`${written(this.colours.low)} <span class="key"></span> `, `${written(this.colours.high)}${this.unit ? `, ${this.unit}` : ""}`,
      this._anyBroken() ? html`; <span class="key"></span> not finite${this.log ? ", or 0 and less" : ""}` : "");
    const [scale, broken] = this.key.querySelectorAll(".key");
    scale.style.background = `linear-gradient(to right,${bar})`;
    if (broken) Object.assign(broken.style, { width: ".8rem", background: BROKEN });
  }

  _anyBroken() {
    return this.values.some((row) => row.some((value) => value !== null && (!Number.isFinite(value) || (this.log && value <= 0))));
  }

  _listen() {
    this.root.addEventListener("click", (event) => { if (event.target.dataset?.do === "reset") this._readerZoom(0, 0); });
    this.svg.addEventListener("pointermove", (event) => this._pointed(event));
    this.svg.addEventListener("pointerdown", (event) => this._pointed(event));
    this.svg.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "mouse") return; // what a finger chose stays
      this.row = null;
      this._readerHover(null);
    });
    this.svg.addEventListener("dblclick", () => this._readerZoom(0, 0));
    this.svg.addEventListener("keydown", (event) => this._key(event));
  }

  _pointed(event) {
    const box = this.svg.getBoundingClientRect();
    const row = Math.floor((this.bottom - ((event.clientY - box.top) / box.height) * Number(this.svg.getAttribute("height"))) / this.each);
    this.row = row >= 0 && row < this.rows.length ? row : null;
    const share = (((event.clientX - box.left) / box.width) * this.width - this.left) / (this.right - this.left);
    const [low, high] = this._steps();
    this._readerHover(Math.min(high, Math.max(low, low + share * (high - low))));
  }

  _key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = this._steps(), from = this.cursor ?? low, by = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: from - by, ArrowRight: from + by, Home: low, End: high };
    const last = this.rows.length - 1;
    if (event.key in moves) this._readerHover(Math.min(high, Math.max(low, moves[event.key])));
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const up = event.key === "ArrowUp";
      this.row = this.row === null ? (up ? 0 : last) : Math.min(last, Math.max(0, this.row + (up ? 1 : -1)));
      this._readerHover(from);
    } else if (event.key === "Escape" || event.key === "0") this._readerZoom(0, 0);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  _readerHover(step) {
    this.hover(step === null ? null : Math.round(step));
    this.onHover?.(this.cursor);
  }

  _readerZoom(low, high) {
    this.zoom(low, high);
    this.onZoom?.(low, high);
  }

  _later() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => this.draw());
  }

  _steps() { return this.range || this.domain || [this.steps[0] ?? 0, Math.max(1, this.steps[this.steps.length - 1] ?? 1)]; }

  _across(step) { return this.left + this.x.at(step) * (this.right - this.left); }

  _paint() {
    const wide = Math.max(1, Math.round(this.right - this.left)), [low, high] = this._steps();
    Object.assign(this.canvas, { width: wide, height: this.rows.length });
    const share = (part) => `${(100 * part) / this.width}%`;
    const top = this.root.querySelector("figcaption").getBoundingClientRect().height + this.top;
    Object.assign(this.canvas.style, { left: share(this.left), width: share(wide), top: `${top}px`, height: `${this.bottom - this.top}px` });
    const context = this.canvas.getContext("2d"), image = context.createImageData(wide, this.rows.length);
    const last = this.steps.length ? this.steps[this.steps.length - 1] : -1;
    for (let across = 0; across < wide; across++) {
      const step = low + ((across + 0.5) / wide) * (high - low);
      if (step < (this.steps[0] ?? 0) - 1 || step > last + 1) continue;
      const column = nearest(this.steps, step);
      for (let row = 0; row < this.rows.length; row++) {
        const colour = this._colour(this.values[row][column]);
        if (colour) image.data.set([...colour, 255], 4 * ((this.rows.length - 1 - row) * wide + across));
      }
    }
    context.putImageData(image, 0, 0);
  }

  _frame() {
    const every = Math.ceil(12 / this.each);
    const names = this.rows.map((name, row) => row % every ? "" :
      html`<text x="${this.left - 4}" y="${(this.bottom - (row + 0.5) * this.each + 4).toFixed(1)}" text-anchor="end">${name}</text>`);
    const steps = this.x.ticks().map((step) => html`<text x="${this._across(step).toFixed(1)}" y="${this.bottom + 14}" text-anchor="middle">${step}</text>`);
    const axis = html`<text class="axis" x="0" y="${this.bottom + 14}">step</text>`;
    return together(names, steps, axis, html`<rect class="frame" x="${this.left}" y="${this.top}" width="${this.right - this.left}" height="${this.bottom - this.top}"/>`);
  }

  _drawCursor() {
    const [low, high] = this._steps(), column = this.cursor === null ? -1 : nearest(this.steps, this.cursor);
    const over = [];
    if (this.cursor !== null && this.cursor >= low && this.cursor <= high) {
      const x = this._across(this.cursor).toFixed(1);
      over.push(html`<path class="cursor" d="M${x} ${this.top}V${this.bottom}"/>`);
      if (this.row !== null) over.push(html`<rect class="frame" x="${this.left}" y="${this.bottom - (this.row + 1) * this.each}" width="${this.right - this.left}" height="${this.each}"/>`);
    }
    fill(this.over, over);
    const text = column < 0 ? "" : this._said(column);
    this.readout.textContent = text;
    this.svg.setAttribute("aria-valuemin", low);
    this.svg.setAttribute("aria-valuemax", high);
    this.svg.setAttribute("aria-valuenow", this.cursor ?? low);
    this.svg.setAttribute("aria-valuetext", text || "no step chosen");
  }

  _said(column) {
    const at = this.steps[column] === this.cursor ? "" : ` (of step ${this.steps[column]})`;
    const one = (row) => `${this.rows[row]} ${written(this.values[row][column])}`;
    if (this.row !== null) return `step ${this.cursor}${at}: ${one(this.row)}`;
    if (this.rows.length <= 6) return `step ${this.cursor}${at}: ${this.rows.map((_, row) => one(row)).join(", ")}`;
    const finite = this.values.map((row) => row[column]).filter(Number.isFinite);
    const ends = finite.length ? `${written(Math.min(...finite))} to ${written(Math.max(...finite))}` : "nothing finite";
    return `step ${this.cursor}${at}: ${ends}`;
  }
}
