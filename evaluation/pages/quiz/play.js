"use strict";
/* The quiz: one run after the other, shown row by row, an answer to each, and the export. */

const data = JSON.parse(document.getElementById("quiz").textContent);
const COUNT = data.runs.length, PANELS = 4, STORE = `trainwreck-quiz-${data.quiz_id}`;
const families = new Map(data.choices.map((one) => [one.name, one.family]));
const familyOf = (name) => families.get(name) || name;
const part = (name) => document.querySelector(`[data-part="${name}"]`);
const control = (name) => document.querySelector(`[data-control="${name}"]`);

// What is kept over a reload: who plays, the answers so far, and how much of the run under way was seen.
let state = { player: "", sitting: "", answers: [], seen: 0, seconds: 0 };
let run = null; // {steps, signals} of the run under way, opened
let playing = false, answered = false, speed = data.speed, scale = null, examples = null;
let panels = []; // {select, host, chart}
const truths = []; // of the runs that were answered
const choice = new Choice(part("choice"), data.choices, data.most_named);

function store() {
  try {
    localStorage.setItem(STORE, JSON.stringify(state));
  } catch { /* a browser that keeps nothing plays on, and a reload starts from the first run */ }
}

function restore() {
  try {
    const found = JSON.parse(localStorage.getItem(STORE));
    if (found && found.sitting && found.answers.length <= COUNT) state = found;
  } catch { /* as above */ }
}

function show(...names) {
  for (const name of ["start", "run", "choice", "told", "end"]) part(name).hidden = !names.includes(name);
}

function say(text) { part("said").textContent = text; }

function header() {
  const count = state.answers.length;
  part("progress").textContent = count < COUNT && state.sitting ? `run ${count + (answered ? 0 : 1)} of ${COUNT}` : `${COUNT} runs`;
  control("export").disabled = !count;
  if (!scale || !truths.length) { part("tally").textContent = ""; return; }
  const mine = state.answers.map((answer, i) => ({ truth: truths[i], first: answer.step, named: answer.named }));
  const failing = mine.filter((one) => isFailing(one.truth)), others = mine.filter((one) => isNegative(one.truth));
  const sum = mine.reduce((total, one) => total + answerPoints(one, scale, familyOf), 0);
  part("tally").textContent =
    `in time ${failing.filter((one) => inTime(one.truth, one.first)).length} of ${failing.length}, ` +
    `false alarms ${others.filter((one) => one.first !== null).length} of ${others.length}, ${signed(sum)} points`;
}

/* Curves */

function series(curve, id, name, ink, signal, rows) {
  const steps = [], values = [];
  (curve.signals[signal] || []).slice(0, rows).forEach((value, i) => {
    if (value === null) return; // not logged at this step
    steps.push(curve.steps[i]);
    values.push(readNumber(value));
  });
  return { id, name, ink, steps, values };
}

function domain() {
  const last = answered ? run.steps[run.steps.length - 1] : run.steps[state.seen - 1];
  return [0, answered ? last : Math.max(50, Math.ceil((1.2 * last + 1) / 50) * 50)]; // where the run ends is not to be seen
}

function drawPanel(panel) {
  const signal = data.signals.find((one) => one.name === panel.select.value);
  panel.chart?.remove();
  const lines = [series(run, "run", "this run", "run", signal.name, answered ? Infinity : state.seen)];
  const truth = answered ? truths[state.answers.length - 1] : null;
  if (truth?.twin) lines.unshift(series(truth.twin, "twin", "its twin", "twin", signal.name, Infinity));
  const answer = answered ? state.answers[state.answers.length - 1] : null;
  const markers = truth ? clocks(truth).map(([label, name, step]) => ({ label, name, step, ink: label === "event" ? "s" : label })) : [];
  if (answer && answer.step !== null) markers.push({ label: "you", name: "your stop", step: answer.step, ink: "you" });
  const alarms = truth && panel === panels[0]
    ? truth.detectors.filter((one) => one.first !== null && !one.bar).sort((a, b) => a.first - b.first).map((one) => ({ name: one.name, steps: [one.first] }))
    : [];
  panel.chart = new Chart(panel.host, {
    label: signal.title, unit: signal.unit, series: lines, markers, alarms, log: panel.log, height: 190, domain: domain(),
    onHover: (step) => panels.forEach((other) => other !== panel && other.chart.hover(step)),
  });
  panel.note.textContent = run.signals[signal.name] ? "" : "not logged in this run";
}

function buildPanels() {
  panels.forEach((panel) => panel.chart?.remove());
  part("panels").textContent = "";
  panels = data.signals.slice(0, PANELS).map((first, i) => {
    const host = document.createElement("div");
    host.className = "panel";
    const options = data.signals.map((one) => html`<option value="${one.name}"${one === first ? " selected" : ""} title="${one.meaning}">${one.name.replaceAll("_", " ")}</option>`);
    fill(host, html`<label class="no-print">show <select data-signal="${i}">${options}</select></label> <small></small>`);
    part("panels").append(host);
    const panel = { host, select: host.querySelector("select"), note: host.querySelector("small"), chart: null, log: false };
    panel.select.addEventListener("change", () => drawPanel(panel));
    return panel;
  });
}

function reveal(rows) {
  const before = state.seen;
  state.seen = Math.min(run.steps.length, Math.max(1, rows));
  for (const panel of panels) {
    const fresh = series(run, "run", "", "run", panel.select.value, state.seen), had = series(run, "run", "", "run", panel.select.value, before).steps.length;
    panel.chart.append("run", fresh.steps.slice(had), fresh.values.slice(had));
    panel.chart.setDomain(domain());
  }
  part("step").textContent = `step ${run.steps[state.seen - 1]}`;
  if (state.seen === run.steps.length) {
    pause();
    say("The run has ended here. Stop it at this last row, or say that it was healthy.");
  }
}

/* Playing */

let last = 0, owed = 0;

function frame(now) {
  if (!playing) return;
  owed += Math.min(0.25, (now - last) / 1000) * speed;
  last = now;
  const rows = Math.floor(owed);
  owed -= rows;
  if (rows) reveal(state.seen + rows);
  requestAnimationFrame(frame);
}

function play() {
  if (answered || playing || state.seen >= run.steps.length) return;
  playing = true;
  [last, owed] = [performance.now(), 0];
  say("");
  control("play").textContent = "Pause";
  control("play").setAttribute("aria-pressed", "true");
  requestAnimationFrame(frame);
}

function pause() {
  playing = false;
  control("play").textContent = "Play";
  control("play").setAttribute("aria-pressed", "false");
  store();
}

function setSpeed(rows) {
  speed = rows;
  for (const button of document.querySelectorAll("[data-speed]")) button.setAttribute("aria-pressed", String(Number(button.dataset.speed) === rows));
}

async function begin() {
  const at = state.answers.length;
  if (at >= COUNT) return end();
  answered = false;
  run = await inflatedJson(data.runs[at]);
  show("run");
  part("controls").hidden = false;
  choice.clear(run.four);
  panels.forEach(drawPanel);
  say("");
  reveal(state.seen);
  header();
}

function stop() {
  if (answered || !run) return;
  pause();
  show("run", "choice");
  part("at").textContent = run.steps[state.seen - 1];
  choice.focus();
}

function goOn() {
  show("run");
  control("play").focus();
}

async function answer(said) {
  pause();
  const step = said === "stop" ? run.steps[state.seen - 1] : null;
  const seconds = Math.round(state.seconds);
  state.answers.push({ run: state.answers.length + 1, said, step, named: said === "stop" ? choice.chosen : [], seconds });
  [state.seen, state.seconds] = [0, 0];
  store();
  answered = true;
  part("controls").hidden = true;
  await openTruths();
  const truth = truths[state.answers.length - 1];
  if (truth) panels.forEach(drawPanel);
  fill(part("telling"), truth
    ? revealed(truth, state.answers[state.answers.length - 1], scale, familyOf)
    : html`<p class="verdict" data-verdict>Noted. The answers to this quiz are with whoever made it.</p>`);
  if (truth) drawGuess(truth, state.answers[state.answers.length - 1]);
  control("next").textContent = state.answers.length < COUNT ? "Next run" : "To the result";
  show("run", "told");
  say("");
  header();
  control("next").focus({ preventScroll: true });
  part("told").querySelector("[data-verdict]").scrollIntoView({ block: "nearest" });
}

/** This run beside one of the cause that was named, in the loss and in that cause's most diagnostic signal. */
function drawGuess(truth, answer) {
  const cause = guessed(truth, answer, examples, familyOf);
  if (!cause) return;
  const example = examples[cause], own = truth.causes.join(" and ") || truth.pages[0]?.id || "a healthy run";
  fill(part("guess"), html`<div class="pair" data-guess="${cause}"><section><h3>This run: ${own}</h3></section>`,
    html`<section><h3>Your guess would have looked like this: ${cause}</h3></section></div>`);
  const [left, right] = part("guess").querySelectorAll("section");
  for (const signal of data.signals.filter((one) => one.name in example.signals)) {
    const { name } = signal;
    const lines = [series(run, "run", "this run", "run", name, Infinity)];
    if (truth.twin) lines.unshift(series(truth.twin, "twin", "its twin", "twin", name, Infinity));
    const marks = clocks(truth).slice(0, 1).map(([, text, step]) => ({ label: text, name: text, step, ink: "s" }));
    const guess = [series(example, "guess", cause, "faulty", name, Infinity)], about = { label: signal.title, unit: signal.unit, height: 170 };
    new Chart(left, { ...about, series: lines, markers: marks, log: wild(lines) });
    new Chart(right, { ...about, series: guess, markers: [{ label: "onset", name: "onset", step: example.onset, ink: "s" }], log: wild(guess) });
  }
}

async function openTruths() {
  if (!data.truths) return;
  scale ||= await inflatedJson(data.scale);
  examples ||= await inflatedJson(data.examples);
  while (truths.length < state.answers.length) truths.push(await inflatedJson(data.truths[truths.length]));
}

function end() {
  show("end");
  run = null;
  if (data.truths) {
    const mine = state.answers.map((one, i) => ({ truth: truths[i], first: one.step, named: one.named }));
    const rows = [[state.player, scored(mine, scale, familyOf)]];
    truths[0].detectors.forEach((_, place) => {
      const given = truths.map((truth) => ({ truth, first: truth.detectors[place].first, named: truth.detectors[place].causes }));
      rows.push([truths[0].detectors[place].name, scored(given, scale, familyOf)]);
    });
    fill(part("standing"), standingTable(rows, state.player));
  } else fill(part("standing"), html`<p>All runs are answered. Export the answers and hand the file in.</p>`);
  header();
}

/* The export, and its checksum as answers.py makes it */

function exported() {
  const answers = [...state.answers];
  for (let i = answers.length; i < COUNT; i++) answers.push({ run: i + 1, said: "nothing", step: null, named: [], seconds: 0 });
  const lines = [`${data.quiz_id} ${state.sitting} ${state.player}`];
  for (const one of answers) lines.push(`${one.run} ${one.said} ${one.step ?? ""} ${one.named.join(",")} ${one.seconds}`);
  const { format, version, quiz, quiz_id } = data;
  return { format, version, quiz, quiz_id, player: state.player, sitting: state.sitting, answers, checksum: hex(sha256(bytesOf(lines.join("\n")))) };
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(exported(), null, 2) + "\n"], { type: "application/json" }));
  link.download = `quiz-${data.quiz_id.slice(0, 6)}-${state.player.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "player"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function fresh() {
  try {
    localStorage.removeItem(STORE);
  } catch { /* nothing was kept */ }
  pause();
  truths.length = 0;
  [state, run, answered] = [{ player: "", sitting: "", answers: [], seen: 0, seconds: 0 }, null, false];
  buildPanels();
  show("start");
  header();
}

/* Controls */

const does = {
  play: () => (playing ? pause() : play()),
  step: () => { pause(); if (!answered && run) reveal(state.seen + 1); },
  skip: () => { pause(); if (!answered && run) reveal(state.seen + 10); },
  stop, back: goOn,
  answer: () => answer("stop"),
  healthy: () => { if (!answered && run) answer("healthy"); },
  next: () => { if (answered) begin(); },
  export: save,
  fresh: () => { if (window.confirm("Discard the answers of this sitting and start over?")) fresh(); },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-control], [data-speed]");
  if (button?.dataset.control) does[button.dataset.control]?.();
  if (button?.dataset.speed) setSpeed(Number(button.dataset.speed));
});

document.addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, svg")) return;
  if (event.key === " " && target.closest("button, summary, a")) return;
  if (part("run").hidden || !part("choice").hidden) return;
  const key = event.key.toLowerCase();
  const keys = answered ? { n: does.next } : { " ": does.play, arrowright: event.shiftKey ? does.skip : does.step, s: stop, h: does.healthy };
  const place = Number(key) - 1, speeds = [...document.querySelectorAll("[data-speed]")];
  if (!answered && speeds[place]) setSpeed(Number(speeds[place].dataset.speed));
  else if (keys[key]) keys[key]();
  else return;
  event.preventDefault();
});

document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = document.querySelector("input[name=player]").value.replace(/\s+/g, " ").trim();
  if (!name) return;
  const random = crypto.getRandomValues(new Uint8Array(8));
  state = { player: name, sitting: hex(random), answers: [], seen: 0, seconds: 0 };
  store();
  begin();
});

setInterval(() => { if (run && !answered && !document.hidden) state.seconds += 1; }, 1000);
window.addEventListener("pagehide", store);

(async () => {
  restore();
  buildPanels();
  setSpeed(data.speed);
  if (state.sitting) {
    await openTruths();
    await begin();
  } else show("start");
  header();
  document.body.dataset.ready = "yes";
})();
