"use strict";
/* The labels shown after an answer, and the table at the end, as markup. Numbers come from scores.js. */

const percent = (value) => (value === null ? "-" : `${Math.round(100 * value)} %`);
const plain = (value, digits = 2) => (value === null || value === undefined ? "-" : value.toFixed(digits));
const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(0);

const KINDS = {
  failing: "A failing run", compound: "A failing run, with two causes", healthy: "A healthy run", latent: "A run with a fault that did it no harm",
  "look-alike": "A look-alike: healthy, and resembles a failure", cured: "A run that was cured",
};

/** The verdict on an answer, in a line. */
function verdict(truth, answer, familyOf) {
  const stopped = answer.said === "stop";
  if (stopped && isExcused(truth, answer.named, familyOf)) return ["good", "Right: the run was fine, and its log is wrong."];
  if (isNegative(truth) || ["healthy", "look-alike", "cured", "latent"].includes(truth.kind)) {
    return stopped ? ["bad", `A false alarm at step ${answer.step}: this run was fine.`] : ["good", "Right: nothing to stop here."];
  }
  if (!stopped) return ["bad", "Missed: this run failed."];
  if (answer.step < truth.onset) return ["bad", `Too early: at step ${answer.step} nothing was wrong yet. The fault began at ${truth.onset}.`];
  const late = answer.step - truth.onset;
  if (answer.step < truth.no_return) return ["good", `In time: ${late} steps after the onset, and ${truth.no_return - answer.step} before the point of no return.`];
  return ["bad", `Too late: ${late} steps after the onset; by then the cure would not have brought the run back.`];
}

function namingLine(truth, answer, familyOf) {
  if (!truth.causes.length || answer.said !== "stop") return "";
  if (!answer.named.length) return "You named no cause.";
  const right = named(truth, answer.named, familyOf);
  const later = answer.named.slice(1).find((name) => truth.causes.includes(name));
  if (right === 2) return `You named ${answer.named[0]}: right.`;
  if (later) return `You named ${later}, which is right, but not first.`;
  if (answer.named.some((name) => truth.within.includes(name))) return `You named ${answer.named[0]}: not the cause, but one that these signals do not tell from it.`;
  return right === 1 ? `You named ${answer.named[0]}: the family is right.` : `You named ${answer.named[0]}: wrong.`;
}

function clocks(truth) {
  if (truth.onset === null) return [];
  const found = [[truth.causes.length ? "s" : "event", truth.causes.length ? "onset" : "onset", truth.onset, truth.causes.length ? "the fault begins" : "what looks like a fault begins"]];
  if (truth.visible !== null) found.push(["v", "visible", truth.visible, `first seen in ${truth.shows.map(([name, step]) => `${name} (${step})`).join(", ") || "no outcome signal"}`]);
  if (truth.causes.length && truth.kind !== "look-alike" && truth.visible !== null) {
    found.push(["p", "point of no return", truth.no_return, truth.no_return_measured ? "the last step at which the cure still saves the run" : "not measured: the end of the run"]);
  }
  return found;
}

function pointsLine(truth, answer, scale, familyOf) {
  if (!truth.measured) return "A calibration run, which gives no points.";
  const naming = namingPoints(truth, answer.step, answer.named, scale, familyOf);
  return `${signed(points(truth, isExcused(truth, answer.named, familyOf) ? null : answer.step, scale))} points${naming ? `, and ${signed(naming)} for the cause` : ""}.`;
}

/** The cause that was guessed, where it is not the truth and there is a run of it; of a family the first that has one. */
function guessed(truth, answer, examples, familyOf) {
  const first = answer.named[0];
  if (!first || truth.causes.includes(first)) return null;
  const found = first in examples ? first : Object.keys(examples).sort().find((name) => familyOf(name) === first);
  return found === undefined || truth.causes.includes(found) ? null : found;
}

/** The labels of a run, compared with the answer. */
function revealed(truth, answer, scale, familyOf) {
  const [tone, line] = verdict(truth, answer, familyOf);
  const pages = truth.pages.map((page) =>
    together(html`<section class="page"><h3>${page.id}: ${page.title}</h3><p class="note">Family: ${page.family}. Most diagnostic signal: ${page.telling}.</p><dl>`,
    page.sections.map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`), html`</dl></section>`));
  const detectors = truth.detectors.filter((one) => !one.bar);
  const silent = detectors.filter((one) => one.first === null).map((one) => one.name);
  const rows = detectors.filter((one) => one.first !== null).sort((a, b) => a.first - b.first).map((one) => {
    const judged = isFailing(truth) ? (one.first < truth.onset ? "too early" : inTime(truth, one.first) ? "in time" : "too late") : "false alarm";
    return html`<tr><th scope="row">${one.name}</th><td>${one.first}</td><td>${judged}</td><td class="words">${one.causes.join(", ") || "-"}</td></tr>`;
  });
  const times = clocks(truth).map(([, name, step, why]) => html`<tr><th scope="row">${name}</th><td>${step}</td><td class="words">${why}</td></tr>`);
  const outcome = truth.gap === null || !truth.twin ? "" : ` It ended ${plain(truth.gap, 3)} nats from its twin.`;
  return together(
    html`<p class="verdict ${tone}" data-verdict>${line}</p><p data-naming>${namingLine(truth, answer, familyOf)}</p>`,
    html`<p><b data-truth>${KINDS[truth.kind] || truth.kind}${truth.causes.length ? `: ${truth.causes.join(" and ")}` : truth.pages.length ? `: ${truth.pages[0].id}` : ""}</b>`,
    `${truth.severity ? `, ${truth.severity}` : ""}.${outcome} `,
    html`<span data-points>${pointsLine(truth, answer, scale, familyOf)}</span></p>`,
    (truth.twin ? html`<p class="note">In the charts: this run as a line, its healthy twin (the same seed without the fault) dashed.${isFailing(truth) && answer.said !== "stop" ? " A healthy run, which was your guess, would have looked like the twin." : ""}</p>` : ""),
    html`<div data-part="guess"></div>`,
    (times.length ? html`<table><caption>Onset, visible step and point of no return</caption><tbody>${times}</tbody></table>` : ""),
    (truth.within.length ? html`<p class="note">These signals do not tell it from: ${truth.within.join(", ")}.</p>` : ""), pages,
    html`<details open><summary>What each detector did, at its published default</summary>`,
    (rows.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="alarms of each detector"><table data-detectors><thead><tr><th scope="col">detector</th><th scope="col">alarm</th><th scope="col">it was</th><th scope="col">named</th></tr></thead><tbody>${rows}</tbody></table></div>` : ""),
    html`<p data-silent>${silent.length ? `No alarm: ${silent.join(", ")}.` : "All of them alarmed."}</p></details>`
  );
}

/** The table at the end: [name, scores] a row, best first. mine: the player's name. */
function standingTable(rows, mine) {
  const order = [...rows].sort((a, b) => (b[1].recall ?? -1) - (a[1].recall ?? -1) || (b[1].skill ?? -Infinity) - (a[1].skill ?? -Infinity) || a[0].localeCompare(b[0]));
  const body = order.map(([name, one]) =>
    together(html`<tr${name === mine ? html` class="mine"` : ""}><th scope="row">${name}</th><td>${percent(one.recall)}</td><td>${percent(one.stopped)}</td><td>${percent(one.stopped_look_alike)}</td>`,
    html`<td>${plain(one.delay, 1)}</td><td>${plain(one.skill)}</td><td>${percent(one.top1)}</td><td>${percent(one.family)}</td><td>${signed(one.points)}</td></tr>`));
  const heads = ["", "found in time", "healthy runs stopped", "look-alikes stopped", "steps late", "W*", "cause right", "family right", "points"];
  return html`<div class="scroll" tabindex="0" role="region" aria-label="result"><table data-standing><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead><tbody>${body}</tbody></table></div>`;
}
