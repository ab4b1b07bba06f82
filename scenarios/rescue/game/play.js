"use strict";
/* The game: one run after the other, shown block by block, an act at a decision point, and what came of it. */

const data = JSON.parse(document.getElementById("game").textContent);
const COUNT = data.runs.length, PANELS = 4, STORE = `trainwreck-rescue-${data.id}`, PACE = 160; // ms a block
const part = (name) => document.querySelector(`[data-part="${name}"]`);
const control = (name) => document.querySelector(`[data-control="${name}"]`);

// What is kept over a reload: the acts of runs that are over (null for none), and how far the one under way is.
// seen: rows of steps before it are shown; act: {step, action}; passed: the last decision point that was passed.
const CLEAN = { begun: false, acts: [], seen: 0, act: null, passed: 0, asked: [] };
let state = { ...CLEAN };
let run = null, truth = null, panels = [], timer = 0, over = false;
const truths = []; // of the runs that are over

function store() {
  try {
    localStorage.setItem(STORE, JSON.stringify(state));
  } catch { /* a browser that keeps nothing plays on, and a reload starts from the first run */ }
}

function restore() {
  try {
    const found = JSON.parse(localStorage.getItem(STORE));
    if (found && found.begun && found.acts.length <= COUNT) state = { ...CLEAN, ...found };
  } catch { /* as above */ }
}

function show(...names) {
  for (const name of ["start", "run", "choice", "told", "end"]) part(name).hidden = !names.includes(name);
}

function header() {
  const done = state.acts.length;
  part("progress").textContent = state.begun && done < COUNT + (over ? 1 : 0) ? `run ${done + (over ? 0 : 1)} of ${COUNT}` : `${COUNT} runs`;
  part("tally").textContent = truths.length ? `net ${signed(truths.reduce((sum, one, i) => sum + scoreOf(one, state.acts[i]).net, 0))} nats` : "";
}

/* Courses */

const option = () => (state.act ? run.options[state.act.step][state.act.action] : null);
const none = { steps: [], signals: {} };

/** Curves of the course that is taken as parts: up to a step, and from it on. */
function course() {
  const taken = option();
  if (!taken) return { begins: Infinity, own: none };
  return { begins: taken.begins, own: taken.own === null ? none : run.own[taken.own] };
}

function rowsOf(curve, signal, low, high) {
  const steps = [], values = [];
  (curve.signals[signal] || []).forEach((value, i) => {
    if (value === null || curve.steps[i] < low || curve.steps[i] >= high) return; // not logged, or not shown
    steps.push(curve.steps[i]);
    values.push(readNumber(value));
  });
  return { steps, values };
}

function ownLine(signal, high) {
  const { begins, own } = course();
  const before = rowsOf(run.untouched, signal, 0, Math.min(begins, high)), after = rowsOf(own, signal, begins, high);
  return { steps: [...before.steps, ...after.steps], values: [...before.values, ...after.values] };
}

/** The step before which the course ends. */
function end() {
  const { begins, own } = course();
  const last = begins === Infinity ? run.untouched.steps.at(-1) : (own.steps.at(-1) ?? begins - 1);
  return last + 1;
}

const nextPoint = () => (state.act ? undefined : run.points.find((point) => point > state.passed));

function lines(signal) {
  const { begins } = course(), found = [];
  if (over && truth.twin) found.push({ id: "twin", name: "its twin", ink: "twin", ...rowsOf(truth.twin, signal, 0, Infinity) });
  if (over && truth.oracle) found.push({ id: "oracle", name: "oracle", ink: "oracle", ...rowsOf(truth.oracle.rows, signal, 0, Infinity) });
  if (over && state.act) found.push({ id: "untouched", name: "untouched", ink: "untouched", ...rowsOf(run.untouched, signal, begins, Infinity) });
  if (!over && state.act && begins < state.act.step) found.push({ id: "gone", name: "before the rollback", ink: "gone", ...rowsOf(run.untouched, signal, begins, state.act.step) });
  found.push({ id: "run", name: "this run", ink: "run", ...ownLine(signal, over ? Infinity : state.seen) });
  return found;
}

function drawPanels() {
  const markers = over ? clocks(truth) : [];
  if (state.act) markers.push({ label: "you", name: "your act", step: state.act.step, ink: "you" });
  for (const panel of panels) {
    panel.chart.setSeries(lines(panel.signal.name));
    panel.chart.setMarkers(markers);
    panel.chart.setDomain([0, run.planned]);
    if (over) panel.chart.setLog(panel.signal.log && wild(lines(panel.signal.name)));
    panel.chart.setNote(run.untouched.signals[panel.signal.name] ? "" : "not logged in this run");
  }
}

function buildPanels() {
  panels = data.signals.slice(0, PANELS).map((signal) => {
    const host = document.createElement("div");
    host.className = "panel";
    part("panels").append(host);
    const chart = new Chart(host, {
      label: signal.title, unit: signal.unit, height: 190,
      onHover: (step) => panels.forEach((other) => other.chart !== chart && other.chart.hover(step)),
    });
    return { signal, chart };
  });
}

/* Playing */

function reveal(step) {
  const point = nextPoint();
  state.seen = Math.min(step, point ?? Infinity, end());
  drawPanels();
  part("step").textContent = `step ${state.seen}`;
  if (point !== undefined && state.seen >= point) return decide(point);
  if (state.seen >= end()) return finish();
  store();
}

function play() {
  if (timer || over || !part("choice").hidden) return;
  control("play").textContent = "Pause";
  control("play").setAttribute("aria-pressed", "true");
  timer = setInterval(() => reveal(state.seen + data.block), PACE);
}

function pause() {
  clearInterval(timer);
  timer = 0;
  control("play").textContent = "Play";
  control("play").setAttribute("aria-pressed", "false");
}

function decide(point) {
  pause();
  store();
  part("where").textContent = `Decision ${run.points.indexOf(point) + 1} of ${run.points.length}, before step ${point}: what do you do?`;
  part("answer").textContent = state.asked.includes(point) ? run.asked[point] : "";
  part("controls").hidden = true;
  show("run", "choice");
  part("where").focus({ preventScroll: true });
  part("choice").scrollIntoView({ block: "nearest" });
}

function goOn(words) {
  part("controls").hidden = false;
  show("run");
  part("said").textContent = words;
  control("play").focus({ preventScroll: true });
}

function leave() {
  state.passed = nextPoint();
  goOn("Left alone.");
  reveal(state.seen);
}

function ask() {
  const point = nextPoint();
  if (!state.asked.includes(point)) state.asked.push(point);
  part("answer").textContent = run.asked[point];
  store();
}

function act(action) {
  const point = nextPoint();
  state.act = { step: point, action };
  const taken = option();
  const words = data.choices.find((one) => one.action === action).words;
  goOn(`${words}.${taken.note ? ` Nothing came of it: ${taken.note}.` : ""}`);
  reveal(taken.begins);
}

async function finish() {
  if (over) return;
  pause();
  over = true;
  truth = await inflatedJson(data.truths[state.acts.length]);
  truths.push(truth);
  state.acts.push(state.act);
  const act = state.act;
  drawPanels();
  [state.seen, state.act, state.passed, state.asked] = [0, null, 0, []];
  store();
  state.act = act; // of the run that is shown, until the next one begins
  part("controls").hidden = true;
  fill(part("telling"), told(truth, act, data.choices));
  control("next").textContent = state.acts.length < COUNT ? "Next run" : "To the result";
  show("run", "told");
  part("said").textContent = "";
  header();
  control("next").focus({ preventScroll: true });
  part("told").querySelector("[data-verdict]").scrollIntoView({ block: "nearest" });
}

async function begin() {
  const at = state.acts.length;
  over = false;
  truth = null;
  if (at >= COUNT) return result();
  run = await inflatedJson(data.runs[at]);
  part("said").textContent = "";
  part("controls").hidden = false;
  panels.forEach((panel) => panel.chart.setLog(false));
  show("run");
  header();
  reveal(Math.max(state.seen, state.act ? option().begins : data.block));
}

function result() {
  run = null;
  show("end");
  fill(part("standing"), standing(truths, state.acts, data.choices));
  header();
}

function fresh() {
  try {
    localStorage.removeItem(STORE);
  } catch { /* nothing was kept */ }
  truths.length = 0;
  state = { ...CLEAN, acts: [], asked: [] };
  show("start");
  header();
}

/* Controls */

const going = () => run && !over && part("choice").hidden && !part("run").hidden;
const does = {
  begin: () => { state = { ...CLEAN, begun: true, acts: [], asked: [] }; begin(); },
  play: () => (timer ? pause() : going() && play()),
  step: () => { pause(); if (going()) reveal(state.seen + data.block); },
  skip: () => { pause(); if (going()) reveal(Infinity); },
  next: () => { if (over) { state.act = null; begin(); } },
  fresh: () => { if (window.confirm("Forget these runs and start over?")) fresh(); },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-control], [data-action]");
  if (button?.dataset.control) does[button.dataset.control]?.();
  if (button?.dataset.action) choose(button.dataset.action);
});

function choose(action) {
  if (part("choice").hidden) return;
  if (action === "continue") leave();
  else if (action === "ask") ask();
  else act(action);
}

document.addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, svg")) return;
  if ([" ", "Enter"].includes(event.key) && target.closest("button, summary, a")) return;
  const key = event.key.toLowerCase();
  const offered = part("choice").hidden ? null : document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const keys = over ? { n: does.next } : { " ": does.play, arrowright: does.step, e: does.skip };
  if (offered) choose(offered.dataset.action);
  else if (keys[key] && !part("run").hidden && part("choice").hidden) keys[key]();
  else return;
  event.preventDefault();
});

window.addEventListener("pagehide", () => { if (!over) store(); });

(async () => {
  restore();
  buildPanels();
  const price = (one) => (one.action.startsWith("roll_back") ? "50 steps again" : one.price ? `${one.price} of a run` : "free");
  fill(part("choices"),
    html`<button type="button" class="go" data-action="continue" data-key="c"><kbd>C</kbd> <span>Go on untouched</span></button>`,
    html`<button type="button" class="ask" data-action="ask" data-key="d"><kbd>D</kbd> <span>Diagnose: ask playbook</span> <small>free</small></button>`,
    data.choices.map((one) => html`<button type="button" data-action="${one.action}" data-key="${one.key.toLowerCase()}"><kbd>${one.key}</kbd> <span>${one.words}</span> <small>${price(one)}</small></button>`));
  for (const packed of data.truths.slice(0, state.acts.length)) truths.push(await inflatedJson(packed));
  if (state.begun) await begin();
  else show("start");
  header();
  document.body.dataset.ready = "yes";
})();
