"use strict";
/* The parts of a chart as markup of SVG. `chart` is a Chart or a Heat, whose places they use. Needs scale.js. */

const MARGIN = { left: 46, right: 12, top: 16, bottom: 20 };
const ALARM_ROW = 12;
const LABEL_ROW = 12;
const PAPER = "180mm"; // of the 210 of A4
const CLOCK_NAMES = { s: "onset", v: "visible", p: "point of no return" }; // what a marker with such a label is called

/** Axes, grid and numbers. */
function drawFrame(chart) {
  const middle = (chart.bottom + chart.top) / 2;
  const across = chart.x.ticks().map((step) => {
    const x = chart._across(step).toFixed(1);
    return html`<path class="grid" d="M${x} ${chart.top}V${chart.bottom}"/><text x="${x}" y="${chart.bottom + 14}" text-anchor="middle">${chart.tickText(step)}</text>`;
  });
  const up = chart.y.ticks().map((value) => {
    const y = chart._up(value).toFixed(1);
    return html`<path class="grid" d="M${MARGIN.left} ${y}H${chart.right}"/><text x="${MARGIN.left - 4}" y="${Number(y) + 4}" text-anchor="end">${written(value)}</text>`;
  });
  const name = html`<text class="axis" x="0" y="${chart.bottom + 14}">${chart.xName}</text>`;
  const empty = chart._shown().some((one) => one.steps.length) ? "" : html`<text x="${chart.width / 2}" y="${middle}" text-anchor="middle">nothing to show</text>`;
  return together(across, up, name, html`<path class="frame" d="M${MARGIN.left} ${chart.top}V${chart.bottom}H${chart.right}"/>`, empty);
}

/** A series: its line, and a dot where a value has no neighbour. */
function drawLine(chart, one) {
  let path = "", open = false;
  const points = pointsOf(chart, one), dots = [];
  points.forEach(([x, y], i) => {
    if (y === null) { open = false; return; }
    path += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    if (!open && (points[i + 1]?.[1] ?? null) === null) dots.push(html`<circle class="dot" cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="1.8"/>`);
    open = true;
  });
  return html`<g class="ink-${one.ink}" data-series="${one.id}"><path class="line ink-${one.ink}" d="${path}"/>${dots}</g>`;
}

/** Places of the values within the steps shown and one on either side; null where no line can be drawn. */
function pointsOf(chart, one) {
  const [low, high] = chart._steps(), points = [];
  for (let i = 0; i < one.steps.length; i++) {
    if ((one.steps[i + 1] ?? Infinity) < low || (one.steps[i - 1] ?? -Infinity) > high) continue;
    const value = one.values[i];
    const drawn = value !== null && Number.isFinite(value) && !(chart.log && value <= 0);
    points.push([chart._across(one.steps[i]), drawn ? chart._up(value) : null]);
  }
  return m4(points, chart.right - MARGIN.left);
}

/** Marks at the edge for what is no number on this axis, at most one every five units, with what the first one is, in a row of text. */
function drawBroken(chart, one, row) {
  const [low, high] = chart._steps(), marks = [];
  let last = -Infinity, first = null;
  one.steps.forEach((step, i) => {
    const value = one.values[i];
    if (step < low || step > high || value === null || (Number.isFinite(value) && !(chart.log && value <= 0))) return;
    const x = chart._across(step);
    if (x - last < 5) return;
    last = x;
    const under = !Number.isNaN(value) && !(value === Infinity), y = under ? chart.bottom - 4 : chart.top + 4, tip = under ? y + 4 : y - 4;
    first ??= { x, y, text: Number.isFinite(value) ? "0 or less" : `${written(value)} from step ${step}` };
    if (Number.isNaN(value)) marks.push(html`<path class="broken" d="M${x - 3} ${y - 3}l6 6m0 -6l-6 6"/>`);
    else marks.push(html`<path class="broken solid" d="M${x - 4} ${2 * y - tip}h8L${x} ${tip}z"/>`);
  });
  if (!first) return "";
  const right = last + 8 + 7 * first.text.length < chart.right;
  const text = html`<text class="named" x="${(right ? last + 8 : first.x - 8).toFixed(1)}" y="${first.y + 4 + row * LABEL_ROW}" text-anchor="${right ? "start" : "end"}">${first.text}</text>`;
  return html`<g class="ink-${one.ink}" data-broken="${one.id}">${marks}${text}</g>`;
}

/** Markers within the steps shown, with the place of each name: rows above the plot, as many as keep them apart. */
function placedMarkers(chart) {
  const [low, high] = chart._steps(), ends = [];
  return chart.markers.filter((one) => one.step !== null && one.step >= low && one.step <= high)
    .sort((a, b) => a.step - b.step).map((one) => {
      const x = chart._across(one.step), text = CLOCK_NAMES[one.label] ?? one.label, wide = 7 * text.length + 6;
      const left = x + wide > chart.width, start = left ? x - wide : x;
      let row = ends.findIndex((end) => end < start);
      if (row < 0) row = ends.length;
      ends[row] = start + wide;
      return { ...one, x, text, left, row };
    });
}

/** How far the names of markers push the plot down. */
const topFor = (placed) => MARGIN.top + LABEL_ROW * Math.max(0, ...placed.map((one) => one.row));

/** Vertical lines with their names, as `placedMarkers` gave them. Also for a heat map. */
function drawMarkers(chart) {
  return chart.placed.map(({ x, text, left, row, ...one }) => {
    const y = MARGIN.top - 5 + row * LABEL_ROW, across = x.toFixed(1);
    return together(html`<g class="ink-${one.ink || "s"}" data-marker="${one.label}"><title>${one.name || text}: step ${one.step}</title>`,
      html`<path class="marker" d="M${across} ${y + 2}V${chart.bottom}"/>`,
      html`<text class="named" x="${(left ? x - 3 : x + 3).toFixed(1)}" y="${y}" text-anchor="${left ? "end" : "start"}">${text}</text></g>`);
  });
}

/** A row of ticks for each detector, named beside them. */
function drawAlarms(chart) {
  const [low, high] = chart._steps();
  return chart.rows.map((one, row) => {
    const y = chart.bottom + MARGIN.bottom + row * ALARM_ROW + 2, seen = one.steps.filter((step) => step >= low && step <= high);
    const xs = (seen.length ? seen : [low]).map((step) => chart._across(step));
    const ticks = seen.map((step, i) => html`<path class="alarm" d="M${xs[i].toFixed(1)} ${y - 7}l4 8h-8z"/>`);
    const wide = 6 * one.name.length + 8, right = xs[xs.length - 1] + wide < chart.width;
    const x = right ? xs[xs.length - 1] + 7 : Math.max(0, xs[0] - 7);
    const end = right || xs[0] < wide ? "start" : "end";
    const name = seen.length ? one.name : `${one.name}: step ${one.steps[0]}`;
    return together(html`<g data-alarm="${one.name}"><title>${one.name}: alarm at step ${one.steps.join(", ")}</title>${ticks}`,
      html`<text class="alarm" x="${(end === "start" && !right ? 2 : x).toFixed(1)}" y="${y + 1}" text-anchor="${end}">${name}</text></g>`);
  });
}

/** Draw a chart or heat map as wide as the column of an A4 page while it is printed, when no observer of its size is told.
    Returns an AbortController that ends it. */
function drawnForPaper(chart) {
  const ended = new AbortController();
  const as = (width) => () => {
    chart.root.style.width = width;
    chart.draw();
  };
  addEventListener("beforeprint", as(PAPER), { signal: ended.signal });
  addEventListener("afterprint", as(""), { signal: ended.signal });
  return ended;
}
