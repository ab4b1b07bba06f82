"use strict";
/* The words of a scenario's page, as markup. `html` escapes what comes from data. */

const coded = (text) => together(text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? html`<code>${part}</code>` : part)));
const words = (name) => String(name).replaceAll("_", " ");
const signed = (value) => (value === null ? "not finite" : `${value >= 0 ? "+" : ""}${written(Number(value.toFixed(4)))}`);
const linked = (id) => (facts.scenarios[id] ? html`<a href="#${id}">${id}</a>` : html`<code>${id}</code>`);

const CLOCKS = {
  s: "onset, first step under the fault", v: "visible, first step at which an outcome leaves the twin",
  p: "point of no return, last step at which the cure saves the run", cure: "cure, first step under the cure",
};

function markersOf(run) {
  const marks = ["s", "v", "p"].map((label) => ({ step: run[label], label, name: CLOCKS[label], ink: label }));
  if (run.p === run.last) marks.pop(); // it can be saved to the end: no line to draw
  return marks.concat({ step: run.cured ? run.cure : null, label: "cure", name: CLOCKS.cure, ink: "cure" });
}

function tagsHtml(scenario, run) {
  const tags = [scenario.family, run.kind, words(run.outcome), `seed ${run.seed}`, run.size, ...scenario.made_of];
  if (run.severity) tags.unshift(run.severity);
  return together(tags.map((tag) => html`<span class="tag">${tag}</span>`));
}

function factsHtml(scenario, run) {
  const lost = run.p === null ? "not measured" : run.p === run.last ? `${run.p}, the last step: it can be saved to the end` : run.p;
  const knobs = Object.entries(run.knobs).map(([name, value]) => `${name} ${value}`).join(", ");
  const rows = [
    ["onset", run.s ?? "none"], ["visible", run.v ?? "never"],
    ...(scenario.kind === "look-alike" ? [] : [["point of no return", lost]]),
    ...(run.cured ? [["cure from", run.cure]] : []),
    ["final loss less the twin's", run.gap === null ? "not finite" : `${signed(run.gap)} ${run.gap_unit} (within ${run.tolerance} counts as none)`],
    ...(run.cured ? [["of the cured run", `${signed(run.cured_gap)} ${run.gap_unit}`]] : []),
    ["shows first in", run.visible.map(([name, step]) => `${name} (${step})`).join(", ") || "nothing"],
    ...(knobs ? [["injected", knobs]] : []),
  ];
  return html`<table class="facts"><tbody>${rows.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table>`;
}

function alarmsHtml(scenario, run) {
  if (!run.alarms.length) return "<p>Of this run no alarms are stored.</p>";
  const since = (step, causes = []) => {
    if (step === null || step === undefined) return "none";
    if (scenario.family === "logging" && causes.length && (causes[0] === "logging" || facts.log_faults.includes(causes[0]))) return `${step}, names the log`;
    if (scenario.kind === "look-alike") return `${step}, a false alarm`;
    return run.s !== null && step < run.s ? `${step}, before the onset` : `${step}${run.v === null ? "" : ` (visible ${step >= run.v ? "+" : "-"} ${Math.abs(step - run.v)})`}`;
  };
  const rows = run.alarms.map((one) =>
    together(html`<tr><th scope="row">${one.detector}${one.failed ? html` <small>failed: ${one.failed}</small>` : ""}</th><td>${since(one.frozen)}</td>`,
    html`<td>${since(one.default[0], one.causes)}${one.default.length > 1 ? `, and ${one.default.length - 1} more` : ""}</td><td>${one.causes.length ? joined(one.causes.slice(0, 3).map(linked), ", ") : "-"}</td></tr>`));
  const frozen = facts.calibration ? `threshold frozen at ${100 * facts.budget} %` : "frozen: no calibration runs";
  return html`<div class="scroll" tabindex="0" role="region" aria-label="alarms of each detector"><table class="facts"><thead><tr><th scope="col">detector</th><th scope="col">${frozen}</th><th scope="col">published default</th><th scope="col">names</th></tr></thead><tbody>${rows}</tbody></table></div>`;
}

/** The playbook's rules that name a scenario, those that name it further down, and others that fired on the run. */
function rulesHtml(scenario, run) {
  const roles = { names: [], also: [], other: [] };
  facts.rules.forEach((rule, place) => {
    const step = run.rules[place];
    const role = rule.cause === scenario.id ? "names" : rule.then.includes(scenario.id) ? "also" : "other";
    if (role === "other" && step === undefined) return;
    const when = step === undefined ? "did not fire on this run" : `fired on this run at step ${step}`;
    roles[role].push(
      together(html`<div class="rule ${step === undefined ? "" : "fired"}"><b>${rule.says}</b> &rarr; ${linked(rule.cause)}`,
      html`${rule.then.length ? together(", then ", joined(rule.then.map(linked), ", ")) : ""}<small>Rule ${place + 1} of ${facts.rules.length}, from `,
      html`&ldquo;${rule.source}&rdquo;; must hold for ${rule.hold} row${rule.hold > 1 ? "s" : ""}; ${when}.</small></div>`));
  });
  const parts = [html`<p class="note">Described in: ${scenario.sources.join("; ") || "no document of the catalogue"}.</p>`];
  if (roles.names.length) parts.push(roles.names);
  else parts.push(html`<p class="note">No rule of the playbook is about ${scenario.kind === "look-alike" ? "a healthy run" : "this cause"}.</p>`);
  if (roles.also.length) parts.push(html`<h4>Rules that think of it later</h4>${roles.also}`);
  if (roles.other.length) parts.push(html`<h4>Other rules that fired here</h4>${roles.other}`);
  return together(parts);
}

function symptomsHtml(scenario) {
  if (!scenario.symptoms.length) return "";
  const shapes = scenario.symptoms.map((name) => {
    const [line, picture] = facts.shapes[name];
    return html`<div class="shape"><p><b>${words(name)}</b>: ${coded(line)}</p>${picture ? html`<pre aria-hidden="true">${picture}</pre>` : ""}</div>`;
  });
  return html`<h3>Shapes to look for</h3>${shapes}`;
}

function textHtml(scenario) {
  return html`<dl class="page">${scenario.text.map(([name, text]) => html`<dt>${name}</dt><dd>${coded(text)}</dd>`)}</dl>`;
}

/** The settings that are not the default of the size, and the lines of the program that the fault changes. */
function injectedHtml(scenario) {
  const one = scenario.injected;
  if (!one) return "";
  const value = (found) => (typeof found === "string" ? found : JSON.stringify(found));
  const rows = one.settings.map((row) => html`<tr><th scope="row"><code>${row.setting}</code></th><td>${value(row.default)}</td><td>${value(row.here)}</td></tr>`);
  const table = rows.length
    ? html`<table class="facts setup"><thead><tr><th scope="col">setting</th><th scope="col">default of size ${one.size}</th><th scope="col">here</th></tr></thead><tbody>${rows}</tbody></table>`
    : html`<p class="note">No setting differs from the default of size ${one.size}.</p>`;
  const signs = { "+": "comes", "-": "goes" };
  const lines = joined(one.lines.map((line) => html`<span class="${signs[line[0]] ?? "stays"}">${line || " "}</span>`), "\n");
  const fault = scenario.kind === "look-alike" ? "deviation" : "fault";
  return together(html`<h3>Setup, as the catalogue has it</h3><p class="note">${one.base}</p>${table}`,
    html`<h3>Lines that the ${fault} changes</h3><p class="note">${one.when} The lines are those of the program that <code>trainwreck reproducer</code> writes.</p>`,
    one.lines.length ? html`<pre class="change" tabindex="0">${lines}</pre>` : html`<p>${one.no_lines}</p>`);
}

function alikeHtml(scenario) {
  const parts = [];
  if (scenario.imitates.length) parts.push(html`<p>Healthy, and taken for: ${joined(scenario.imitates.map(linked), ", ")}.</p>`);
  if (scenario.imitated_by.length) parts.push(html`<p>Healthy runs that look like it: ${joined(scenario.imitated_by.map(linked), ", ")}.</p>`);
  return together(parts);
}
