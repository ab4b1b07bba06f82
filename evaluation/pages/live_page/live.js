"use strict";
/* The curves as they come: asks for events after those that it has, and draws what they say. Asked for again, or late,
   it gets everything from the first step on, so a reload loses nothing. */

const facts = JSON.parse(document.getElementById("facts").textContent);
const part = (name) => document.querySelector(`[data-part=${name}]`);
const INKS = ["twin", "cured", "faulty"].filter((role) => role in facts.roles); // the last is drawn on top
const STATES = { waiting: "waiting for the first steps", training: "training", finished: "finished", interrupted: "interrupted", failed: "failed", lost: "no answer" };
const PAUSE = 2000, TRIES = 30; // milliseconds between two tries to reach a command that does not answer, and how many

const marks = facts.marks.map(({ step, label, name }) => ({ step, label, name, ink: label }));
const domain = [0, Math.max(1, facts.steps - 1)];
const charts = [];
const layers = Object.fromEntries(INKS.map((role) => [role, { steps: [], values: [] }]));
let heat = null, state = "waiting", place = 0, reached = 0;

const hover = (step, from) => charts.forEach((chart) => chart !== from && chart.hover(step));
const zoom = (low, high, from) => charts.forEach((chart) => chart !== from && chart.zoom(low, high));

function keep(chart) {
  charts.push(chart);
  return chart;
}

const lines = facts.charts.map((one) => {
  const series = INKS.map((role) => ({ id: role, name: facts.roles[role], ink: role, steps: [], values: [] }));
  const chart = keep(new Chart(part("charts"), {
    label: one.label, unit: one.unit, series, markers: marks, domain, height: 190,
    onHover: (step) => hover(step, chart), onZoom: (low, high) => zoom(low, high, chart),
  }));
  if (one.name === "loss" && facts.floor !== null) chart.setNote(`entropy of the source: ${written(facts.floor)}`);
  return { name: one.name, chart, log: false };
});

/** A heat map of the layers, for one run at a time. It begins with the first steps, which tell how many rows it has. */
function drawLayers() {
  const shown = part("heat")?.querySelector("select").value ?? "faulty", { steps, values } = layers[shown];
  if (!values.length) return;
  const log = facts.telling.positive && wild(values.map((row) => ({ values: row })));
  if (heat) return heat.setValues(steps, values, log);
  const host = document.createElement("div");
  host.dataset.part = "heat";
  fill(host, html`<label class="heat-choice no-print">layers of <select>`,
    ["faulty", "twin", "cured"].filter((role) => role in facts.roles).map((role) => html`<option value="${role}">${facts.roles[role]}</option>`), html`</select></label>`);
  part("charts").append(host);
  host.querySelector("select").addEventListener("change", drawLayers);
  heat = keep(new Heat(host, {
    label: facts.telling.label, unit: facts.telling.unit, rows: rowNames(facts.telling.axis, values.length, facts.telling.layers),
    steps, values, log, markers: marks, domain,
    onHover: (step) => hover(step, heat), onZoom: (low, high) => zoom(low, high, heat),
  }));
}

function block({ role, step, curves, rows }) {
  for (const line of lines) {
    const [steps, values] = curves[line.name];
    line.chart.append(role, steps, values.map(readNumber));
  }
  if (rows) {
    const own = layers[role];
    own.steps.push(...rows[0]);
    rows[1].forEach((row, i) => (own.values[i] ??= []).push(...row.map(readNumber)));
  }
  reached = step;
  say("training", `step ${step} of ${facts.steps}`);
}

/** After some blocks: an axis follows its curves until the reader chooses one. */
function settle() {
  for (const line of lines) if (line.chart.log === line.log) line.chart.setLog(line.log = wild(line.chart.series));
  if (facts.telling.layered) drawLayers();
  part("progress").querySelector("progress").value = reached;
}

function say(now, more) {
  if (more !== undefined) part("step").textContent = more;
  if (now === state) return;
  state = now;
  part("progress").dataset.state = now;
  part("state").textContent = STATES[now];
  document.title = `${STATES[now]}: ${facts.title} - Trainwreck`;
}

const number = (value, sign = "") => (value === null ? "-" : `${sign && value >= 0 ? "+" : ""}${value.toFixed(3)}`);

function verdicts({ signature, signatures }) {
  if (signature === null) return html`<p class="verdict">A look-alike: the run is healthy, so it has no signature.</p>`;
  const all = Object.entries(signatures);
  if (all.length > 1) return all.map(([id, held]) => html`<p class="verdict ${held ? "good" : "bad"}">The signature of ${id} ${held ? "holds" : "does not hold"}.</p>`);
  return html`<p class="verdict ${signature ? "good" : "bad"}">The signature ${signature ? "holds: what the text says to look for is there." : "does not hold: what the text says to look for is not there."}</p>`;
}

function result(found) {
  const rows = found.runs.map((run) =>
    together(html`<tr><th scope="row">${facts.roles[run.role]}</th><td>${run.steps}</td><td>${run.final_loss === null ? "not finite" : number(run.final_loss)}</td>`,
    html`<td>${run.role === "twin" ? "" : number(run.final_gap, "+")}</td></tr>`));
  fill(part("result"), verdicts(found),
    html`<div class="scroll" tabindex="0" role="region" aria-label="final losses"><table><thead><tr><th scope="col">run</th><th scope="col">steps</th><th scope="col">final loss (${found.loss_unit})</th><th scope="col">gap to twin</th></tr></thead><tbody>${rows}</tbody></table></div>`,
    html`<p class="note">Picture: <code>${found.picture}</code>. The final loss is the last on held-out rows.</p>`);
  part("result").hidden = false;
}

const ENDS = {
  finished: ({ facts: found }) => { result(found); say("finished", `${facts.steps} steps; the page stays as it is`); },
  interrupted: () => say("interrupted", reached ? `after step ${reached} of ${facts.steps}` : "before the first step"),
  failed: ({ reason }) => say("failed", reason),
};

async function follow() {
  for (let tries = 0; !(state in ENDS) && tries < TRIES; ) {
    let answer;
    try {
      const response = await fetch(`events?since=${place}`, { cache: "no-store" });
      if (!response.ok) throw new Error(`events: ${response.status}`);
      answer = await response.json();
    } catch {
      say("lost", "the command has ended, or is too busy; trying again");
      tries += 1;
      await new Promise((done) => setTimeout(done, PAUSE));
      continue;
    }
    tries = 0;
    if (answer.id !== facts.stream) return location.reload(); // another run at the same address
    place = answer.next;
    if (state === "lost") say(reached ? "training" : "waiting", reached ? `step ${reached} of ${facts.steps}` : "");
    for (const event of answer.events) event.state ? ENDS[event.state](event) : block(event);
    if (answer.events.length) settle();
    document.body.dataset.place = place;
  }
  if (state === "lost") say("lost", "the command has ended; start it again and reload");
}

for (const box of document.querySelectorAll("[data-role]"))
  box.addEventListener("change", () => lines.forEach(({ chart }) => chart.show(box.dataset.role, box.checked)));
follow();
