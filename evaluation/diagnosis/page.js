"use strict";
/* The curves of the run, and the labelled runs that it is like, each on the axes of its loss. */

const drawn = JSON.parse(document.getElementById("drawn").textContent);
const markers = drawn.since === null ? [] : [{ step: drawn.since, label: "since", name: "wrong since", ink: "v" }];
const charts = [];

function draw(host, label, unit, series) {
  const read = series.map((one) => ({ ...one, values: one.values.map(readNumber) }));
  const chart = new Chart(host, {
    label, unit, series: read, markers, domain: drawn.domain, log: wild(read), height: 200,
    onHover: (step) => charts.forEach((other) => other !== chart && other.hover(step)),
    onZoom: (low, high) => charts.forEach((other) => other !== chart && other.zoom(low, high)),
  });
  charts.push(chart);
}

for (const one of drawn.own) draw(document.querySelector("[data-part=own]"), one.label, one.unit, one.series);
drawn.near.forEach((series, i) => draw(document.querySelector(`[data-near="${i}"]`), "loss, mapped", "as logged", series));
