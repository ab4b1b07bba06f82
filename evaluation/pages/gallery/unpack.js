"use strict";
/* The way back from what pack.py wrote. */

/** The columns of a run's bytes, with the codes of each: an array a row of the signal. twin: what this gave for the
    run that it is compared with, or nothing. */
function columnsOf(bytes, twin) {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const columns = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const found = {};
  let start = 4 + size;
  for (const column of columns) {
    const { name, rows, steps } = column;
    const size = rows * steps;
    const all = [];
    for (let row = 0; row < rows; row++) {
      const codes = new Int32Array(steps), other = column.twin ? twin[name].codes[row] : null;
      for (let step = 0, last = 0, before = 0; step < steps; step++) {
        const at = start + row * steps + step;
        const folded = bytes[at] | (bytes[at + size] << 8) | (bytes[at + 2 * size] << 16);
        last += folded & 1 ? -(folded + 1) / 2 : folded / 2;
        if (other && step < other.length) {
          last += other[step] - before;
          before = other[step];
        }
        codes[step] = last;
      }
      all.push(codes);
    }
    found[name] = { ...column, codes: all };
    start += 3 * size;
  }
  return found;
}

/** The number of a code with so many bits of mantissa; null for a gap. */
function numberOf(code, bits) {
  const size = Math.abs(code), infinite = 0xff << bits;
  if (size > infinite) return size === infinite + 1 ? NaN : null;
  numberOf.bits[0] = size << (23 - bits);
  return code < 0 ? -numberOf.number[0] : numberOf.number[0];
}
numberOf.bits = new Uint32Array(1);
numberOf.number = new Float32Array(numberOf.bits.buffer);

/** A column as {steps, rows: [[numbers] ...]}, one array of numbers a row of the signal. */
function numbersOf({ codes, bits, every, steps }) {
  const rows = codes.map((row) => Array.from(row, (code) => numberOf(code, bits)));
  return { steps: Array.from({ length: steps }, (_, i) => i * every), rows };
}
