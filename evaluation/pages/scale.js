"use strict";
/* From values to places, and numbers to words. Plain functions, which all charts use. */

/** A number as a reader wants it: four significant digits, powers of ten for the very large and small. */
function written(value) {
  if (value === null || value === undefined) return "no value";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2).replace(/\.?0*e\+?/, "e") : String(Number(value.toPrecision(4)));
}

/** What stands in JSON for numbers that it does not have; see numbers.py. */
const NUMBERS = { nan: NaN, inf: Infinity, "-inf": -Infinity };
const readNumber = (value) => (typeof value === "string" ? NUMBERS[value] : value);

/** About `count` round numbers from low to high. */
function roundNumbers(low, high, count = 5) {
  const span = high - low || 1;
  let step = 10 ** Math.floor(Math.log10(span / count));
  step *= [1, 2, 5, 10].find((factor) => span / (step * factor) <= count + 0.5) || 10;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** Powers of ten from low to high, thinned to `count`; round numbers where there are not two of them. */
function powers(low, high, count = 6) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  if (last - first < 1) return roundNumbers(low, high, 4).filter((value) => value > 0);
  const apart = Math.ceil((last - first + 1) / count);
  const found = [];
  for (let power = first; power <= last; power += apart) found.push(Number(`1e${power}`));
  return found;
}

/** Linear or logarithmic: `at(value)` is its place from 0 at `low` to 1 at `high`. Of a log scale both are positive. */
function scaleOf(low, high, log) {
  if (log) {
    const a = Math.log(low), b = Math.log(high);
    return { low, high, log, at: (value) => (b > a ? (Math.log(value) - a) / (b - a) : 0.5), ticks: () => powers(low, high) };
  }
  return { low, high, log, at: (value) => (high > low ? (value - low) / (high - low) : 0.5), ticks: () => roundNumbers(low, high) };
}

/** Index of the entry of ascending `steps` that is nearest to `step`; -1 where there is none. */
function nearest(steps, step) {
  let low = 0, high = steps.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1;
    else high = middle;
  }
  return low > 0 && step - steps[low - 1] <= steps[low] - step ? low - 1 : low;
}

/** Of the points [x, y], ascending in x, the first, lowest, highest and last of each unit of x (M4, Jugel et al. 2014):
    drawn with lines one unit wide they give the picture of all. Points whose y is null break the line and stay. */
function m4(points, columns) {
  if (points.length <= 4 * columns) return points;
  const kept = [];
  let column = [];
  const flush = () => {
    const known = column.filter((point) => point[1] !== null);
    if (known.length) {
      const low = known.reduce((a, b) => (b[1] < a[1] ? b : a)), high = known.reduce((a, b) => (b[1] > a[1] ? b : a));
      const chosen = new Set([known[0], low, high, known[known.length - 1]]);
      kept.push(...column.filter((point) => point[1] === null || chosen.has(point)));
    } else if (column.length) kept.push(column[0]);
    column = [];
  };
  for (const point of points) {
    if (column.length && Math.floor(point[0]) !== Math.floor(column[0][0])) flush();
    column.push(point);
  }
  flush();
  return kept;
}

/** Whether the values of some series range so far that their logarithm is the better picture. */
function wild(series) {
  const values = series.flatMap((one) => one.values).filter(Number.isFinite);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return low > 0 && high > 12 * low;
}
