"use strict";
/* What a run and all runs came to, as markup. Scores are those that were trained; here they are added and compared. */

const plain = (value, digits = 2) => (value === null || value === undefined ? "-" : Number.isFinite(readNumber(value)) ? readNumber(value).toFixed(digits).replace(/^-(0\.?0*)$/, "$1") : "not finite");
const signed = (value) => (value > 0.005 ? "+" : "") + plain(value);
const KINDS = { failing: "a failing run", compound: "a failing run with two causes", healthy: "a healthy run", "look-alike": "a look-alike: healthy, and resembles a failure" };
const isFailing = (truth) => truth.kind in KINDS && !["healthy", "look-alike"].includes(truth.kind);

/** The score of a run for an act {step, action}, or for none. */
const scoreOf = (truth, act) => (act ? truth.scores[act.step][act.action] : truth.untouched);

/** The act with the highest net of all that could be chosen; null where none is better than to go on untouched. */
function bestAct(truth) {
  let best = null;
  for (const [step, row] of Object.entries(truth.scores)) {
    for (const [action, one] of Object.entries(row)) {
      if (one.net > Math.max(0.005, best ? scoreOf(truth, best).net : 0)) best = { step: Number(step), action };
    }
  }
  return best;
}

function actText(act, choices) {
  if (!act) return "nothing";
  return `${choices.find((one) => one.action === act.action).words} (step ${act.step})`;
}

/** The verdict on a run, in a line: class and text. */
function verdict(truth, act) {
  const mine = scoreOf(truth, act);
  if (!isFailing(truth)) {
    if (!act) return ["good", "Right: there was nothing to save, and you left it alone."];
    if (mine.harmed) return ["bad", act.action === "stop" ? "A healthy run, and you ended it." : "A healthy run, and it ended worse than untouched."];
    return mine.net < -0.005 ? ["bad", "A healthy run: no harm done, but it cost you."] : ["good", "A healthy run: you acted, and it did no harm."];
  }
  if (!act) return ["bad", "The run failed, and you left it alone."];
  if (mine.within) return ["good", "Saved: it ended as its twin did."];
  if (mine.net > 0.005) return ["good", "Saved in part."];
  return ["bad", mine.net < -0.005 ? "Worse than doing nothing." : "That changed nothing."];
}

function clocks(truth) {
  const found = [];
  if (truth.onset !== null && truth.kind !== "healthy") found.push({ label: "s", name: "onset", step: truth.onset, ink: "s" });
  if (isFailing(truth)) {
    found.push({ label: "v", name: "visible", step: truth.visible, ink: "v" });
    found.push({ label: "p", name: "point of no return", step: truth.no_return, ink: "p" });
  }
  return found;
}

/** Everything that is told at the end of a run. */
function told(truth, act, choices) {
  const mine = scoreOf(truth, act), [mood, text] = verdict(truth, act), best = bestAct(truth);
  const rows = [["you", act ? actText(act, choices) : "nothing", mine], ["untouched", "nothing", truth.untouched]];
  rows.push(["best of the choices here", actText(best, choices), scoreOf(truth, best)]);
  if (truth.oracle) rows.push(["oracle", `the proven cure (step ${truth.oracle.at})`, truth.oracle]);
  const cells = rows.map(([name, what, one], i) => html`<tr class="${i === 0 ? "mine" : ""}" data-row="${name}"><th>${name}</th><td class="words">${what}</td><td>${plain(one.final, 3)}</td><td>${plain(one.saved)}</td><td>${plain(one.spent, 3)}</td><td data-net>${signed(one.net)}</td><td>${one.ended === "stopped" ? "stopped" : one.within ? "yes" : "no"}</td></tr>`);
  return together(
    html`<p class="verdict ${mood}" data-verdict>${text} Net ${signed(mine.net)} nats.</p>`,
    html`<p>It was <b>${KINDS[truth.kind] ?? truth.kind}</b>${truth.causes.length ? html`; cause: <b>${truth.causes.join(" and ")}</b>` : ""}. Its twin ended at a validation loss of ${plain(truth.twin_final, 3)}; a whole run is worth ${plain(truth.worth)} nats.</p>`,
    html`<div class="scroll"><table><thead><tr><th>course</th><th class="words">what was done</th><th>final loss</th><th>saved</th><th>spent</th><th>net</th><th>as the twin</th></tr></thead><tbody>${cells}</tbody></table></div>`,
    every(truth, act, choices), truth.pages.map(pageOf));
}

/** Net of every choice at every decision point. */
function every(truth, act, choices) {
  const points = Object.keys(truth.scores), best = bestAct(truth);
  const is = (one, step, action) => one && one.action === action && String(one.step) === step;
  const rows = choices.map(({ action, words }) => html`<tr><th>${words}</th>${points.map((step) => html`<td class="${is(best, step, action) ? "best " : ""}${is(act, step, action) ? "mine" : ""}">${signed(truth.scores[step][action].net)}</td>`)}</tr>`);
  return html`<details><summary>Net of every choice</summary><div class="scroll"><table data-every><thead><tr><th>choice</th>${points.map((step) => html`<th>at step ${step}</th>`)}</tr></thead><tbody>${rows}</tbody></table></div></details>`;
}

function pageOf(page) {
  const sections = page.sections.map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`);
  return html`<details open><summary>${page.id}: ${page.title}</summary><p class="note">family: ${page.family}</p><dl>${sections}</dl></details>`;
}

/** All runs, and their sum. */
function standing(truths, acts, choices) {
  const net = (of) => truths.reduce((sum, truth, i) => sum + of(truth, acts[i]), 0);
  const oracle = (truth) => truth.oracle?.net ?? 0, mine = (truth, act) => scoreOf(truth, act).net;
  const rows = truths.map((truth, i) => html`<tr><th>${i + 1}: ${truth.causes.join(" and ") || truth.pages[0]?.id || truth.kind}</th><td class="words">${truth.kind}</td><td class="words">${actText(acts[i], choices)}</td><td>${signed(mine(truth, acts[i]))}</td><td>${signed(scoreOf(truth, bestAct(truth)).net)}</td><td>${signed(oracle(truth))}</td></tr>`);
  const failing = truths.map((truth, i) => [truth, acts[i]]).filter(([truth]) => isFailing(truth));
  const fine = truths.map((truth, i) => [truth, acts[i]]).filter(([truth]) => !isFailing(truth));
  const recoverable = failing.reduce((sum, [truth]) => sum + truth.recoverable, 0), saved = failing.reduce((sum, [truth, act]) => sum + mine(truth, act), 0);
  const harmed = fine.filter(([truth, act]) => scoreOf(truth, act).harmed).length;
  return together(
    html`<p>Recovered <b>${plain(recoverable ? saved / recoverable : null)}</b> of the failing runs (1 is all, at no cost). Harmed <b>${harmed}</b> of ${fine.length} healthy runs and look-alikes.</p>`,
    html`<div class="scroll"><table data-standing><thead><tr><th>run</th><th class="words">kind</th><th class="words">you did</th><th>your net</th><th>best choice</th><th>oracle</th></tr></thead><tbody>${rows}`,
    html`<tr class="mine"><th>sum</th><td></td><td></td><td data-sum>${signed(net(mine))}</td><td>${signed(net((truth) => scoreOf(truth, bestAct(truth)).net))}</td><td>${signed(net(oracle))}</td></tr></tbody></table></div>`);
}
