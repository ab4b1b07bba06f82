"use strict";
/* The page: which scenarios the filters leave, which one is open, and what its controls do. */

const page = (id) => document.getElementById(id);
const store = { alarms: "frozen", twin: true, cured: true }; // what stays from one scenario to the next
let facts = null, open = null;

const ready = inflatedJson(page("facts").textContent).then((found) => {
  facts = found;
  page("facts").textContent = "";
});

/* Filters */

const cards = [...document.querySelectorAll(".card")];
const wordsOf = new Map();

function searchable(card) {
  const id = card.dataset.id;
  if (!facts) return card.textContent.toLowerCase();
  if (!wordsOf.has(id)) {
    const one = facts.scenarios[id];
    wordsOf.set(id, [id, id.replaceAll("_", " "), one.title, one.family, ...one.symptoms, ...one.sources, ...one.text.map(([, text]) => text)].join(" ").toLowerCase());
  }
  return wordsOf.get(id);
}

function filter() {
  const terms = page("search").value.toLowerCase().split(/\s+/).filter(Boolean), symptom = page("symptom").value, family = page("family").value;
  let count = 0;
  for (const card of cards) {
    const text = searchable(card);
    const fits = terms.every((word) => text.includes(word)) && (!symptom || card.dataset.tags.split(" ").includes(symptom)) &&
      (!family || card.closest(".family").dataset.family === family);
    card.hidden = !fits;
    count += fits;
  }
  for (const section of document.querySelectorAll(".family[data-family]")) section.hidden = !section.querySelector(".card:not([hidden])");
  if (page("unproven")) page("unproven").hidden = terms.length > 0 || symptom !== "" || family !== "";
  page("count").textContent = `${count} shown`;
  page("none").hidden = count > 0;
}

const inView = () => cards.filter((card) => !card.hidden).map((card) => card.dataset.id);

page("filters").addEventListener("input", filter);
page("filters").addEventListener("submit", (event) => event.preventDefault());
page("filters").addEventListener("reset", () => setTimeout(filter));
page("clear-too").addEventListener("click", () => page("filters").reset());

/* The pictures on each card: the run and its twin, in the loss and in the most diagnostic signal */

const clearest = (scenario) => scenario.runs.find((run) => run.severity === "clear") ?? scenario.runs[0];

async function drawCards() {
  for (const card of cards) {
    const scenario = facts.scenarios[card.dataset.id], { run, twin } = clearest(scenario);
    const before = new Set(unpacked.keys()), columns = await runsOf({ run, twin });
    for (const svg of card.querySelectorAll("svg")) {
      const name = svg.dataset.signal, { axis } = facts.signals[name];
      const series = INKS.filter((role) => columns[role]?.[name]).map((role) => ({ id: role, ink: role, ...curveOf(columns[role][name], axis) }));
      svg.setAttribute("viewBox", SKETCH);
      fill(svg, sketch(series, wild(series)));
      const own = series.find((one) => one.id === "faulty"), broken = own ? own.values.findIndex((value) => value !== null && !Number.isFinite(value)) : -1;
      if (broken >= 0) svg.parentNode.querySelector("[data-broken]").textContent = `${written(own.values[broken])} from step ${own.steps[broken]}`;
    }
    card.querySelector("[data-steps]").textContent = `steps 0 to ${Math.max(...Object.values(columns).map((all) => all.loss.steps - 1))}`;
    for (const id of unpacked.keys()) if (!before.has(id)) unpacked.delete(id); // all of them at once take much memory
  }
  document.body.dataset.drawn = "cards";
}

/* One scenario */

// The layers' part in a signal of the whole run: what the heat map shows first.
const LAYERS_OF = {
  lr: "layer_update_ratio", skipped: "layer_update_ratio", log_z: "activation_max", output_max: "activation_max", head_entropy: "attention_entropy",
  position_loss: "attention_entropy", age_loss: "attention_entropy", nonfinite_weights: "layer_weight_max",
};

class OpenScenario {
  constructor(scenario) {
    this.scenario = scenario;
    this.run = clearest(scenario);
    this.picked = { line: null, layers: null, role: "faulty", profile: null, beside: scenario.imitates.find((id) => facts.scenarios[id]) ?? "" };
    this.host = page("exhibit");
    this.exhibits = [];
  }

  find(name) { return this.host.querySelector(`[data-part="${name}"]`); }

  async draw() {
    const { scenario, run } = this, all = inView(), place = all.indexOf(scenario.id);
    const step = (by, text) => (place >= 0 && all[place + by] ? html`<a href="#${all[place + by]}">${text} ${all[place + by]}</a>` : "");
    this.remove();
    fill(this.host,
      html`<header><nav class="way no-print" aria-label="Scenarios"><a href="#">&larr; all scenarios</a>${step(-1, "previous:")}${step(1, "next:")}</nav>`,
      html`<h2 tabindex="-1">${scenario.id}</h2><p>${scenario.title}</p><div class="tags">${tagsHtml(scenario, run)}</div></header>`,
      html`<div class="controls no-print" role="group" aria-label="What the charts show">${this._controls()}</div>`,
      html`<div class="columns" data-part="story"><div class="pair" data-part="pair"><div class="curves" data-part="own"></div></div><div class="more" data-part="more"></div>`,
      html`<div class="words">${alikeHtml(scenario)}${textHtml(scenario)}<h3>This run</h3>${factsHtml(scenario, run)}${symptomsHtml(scenario)}${injectedHtml(scenario)}</div></div>`,
      html`<div class="columns"><div><h3>The playbook</h3>${rulesHtml(scenario, run)}</div><div><h3>Detectors</h3>${alarmsHtml(scenario, run)}</div></div>`);
    const columns = await runsOf(run);
    if (open !== this) return; // the reader has gone on meanwhile
    this.own = this._exhibit(this.find("own"), scenario, run, columns);
    this._lines(this.own, this.find("own"));
    this._more();
    await this._besideDraw();
    this._listen();
    this.host.dataset.drawn = scenario.id;
  }

  _exhibit(host, scenario, run, columns) {
    const one = new Exhibit(host, scenario, run, columns);
    for (const role of ["twin", "cured"]) if (!store[role]) one.show(role, false);
    this.exhibits.push(one);
    return one;
  }

  _controls() {
    const { scenario, run } = this, option = (value, text, chosen) => html`<option value="${value}"${value === chosen ? " selected" : ""}>${text}</option>`;
    const toggle = (role) => (run[role] ? html`<label><input type="checkbox" data-control="${role}"${store[role] ? " checked" : ""}><span class="swatch ink-${role}"></span>${role}</label>` : "");
    const own = html`<span><span class="swatch ink-faulty"></span> ${scenario.kind === "look-alike" ? "look-alike" : "faulty"}</span>`;
    const severities = scenario.runs.length < 2 ? "" :
      html`<label>Severity <select data-control="severity">${scenario.runs.map((one) => option(one.severity, one.severity || "none", run.severity))}</select></label>`;
    const alarms = html`<label>Alarms <select data-control="alarms">${facts.calibration ? option("frozen", `threshold at ${100 * facts.budget} %`, store.alarms) : ""}${option("default", "published default", store.alarms)}${option("none", "none", store.alarms)}</select></label>`;
    const imitated = scenario.imitates.filter((id) => facts.scenarios[id]);
    const beside = imitated.length ? html`<label>Beside it <select data-control="beside">${imitated.map((id) => option(id, id, this.picked.beside))}${option("", "nothing", this.picked.beside)}</select></label>` : "";
    return together(own, toggle("twin"), toggle("cured"), severities, alarms, beside);
  }

  _alarms(run) {
    const kind = facts.calibration ? store.alarms : store.alarms === "none" ? "none" : "default";
    if (kind === "none") return [];
    return run.alarms.map((one) => ({ name: one.detector, steps: kind === "default" ? one.default : one.frozen === null ? [] : [one.frozen] }));
  }

  /** Loss, gradient norm and the most diagnostic signal; the third can be any. */
  _lines(exhibit, host) {
    const { scenario, run } = exhibit;
    fill(host, html`<h3>${scenario.id}${exhibit === this.own ? "" : " (what it is taken for)"}</h3>`);
    exhibit.first = exhibit.line(host, "loss", this._alarms(run));
    exhibit.line(host, "grad_norm");
    const names = exhibit.names("scalar", "layers", "blocks", "heads", "positions", "ages", "ranks", "groups");
    const third = scenario.telling === "loss" || scenario.telling === "grad_norm" ? "validation_loss" : scenario.telling;
    const chosen = names.includes(third) ? third : names[0];
    const pick = document.createElement("p");
    pick.className = "pick no-print";
    fill(pick, html`<label>Signal <select data-control="line">${names.map((name) => html`<option${name === chosen ? " selected" : ""}>${name}</option>`)}</select></label>`,
      html`<span class="note">${scenario.telling === chosen ? "the most diagnostic signal" : `the most diagnostic signal: ${scenario.telling}`}</span>`);
    const slot = document.createElement("div");
    host.append(pick, slot);
    let chart = exhibit.line(slot, chosen);
    pick.addEventListener("change", (event) => {
      exhibit.drop(chart);
      chart = exhibit.line(slot, event.target.value);
    });
  }

  /** Heat maps and loss by position, of the scenario's own run. */
  _more() {
    const host = this.find("more"), one = this.own, layers = one.names("layers", "blocks", "ranks");
    const telling = this.scenario.telling, chosen = layers.includes(telling) ? telling : LAYERS_OF[telling] ?? "layer_grad_norm";
    const roles = [["faulty", one.own()], ["twin", "twin"], ["cured", "cured"]].filter(([role]) => one.columns[role]);
    if (one.columns.twin) roles.push(["over", `${one.own()} against twin`]);
    const options = (all, value) => all.map(([name, text]) => html`<option value="${name}"${name === value ? " selected" : ""}>${text}</option>`);
    const profiles = one.names("positions", "ages");
    fill(host,
      html`<h3>Layers, positions, heads</h3>`,
      html`<p class="pick no-print"><label>Layers <select data-control="layers">${options(layers.map((name) => [name, name]), chosen)}</select></label>`,
      html`<label>of <select data-control="role">${options(roles, "faulty")}</select></label></p><div data-part="layers"></div>`,
      html`<p class="pick no-print"><label>Loss by <select data-control="profile">${options(profiles.map((name) => [name, name === "age_loss" ? "age in the document" : "position in the row"]), telling === "age_loss" ? "age_loss" : "position_loss")}</select></label>`,
      html`<span class="note">follows the step under the pointer</span></p><div data-part="profile"></div><div data-part="heads"></div>`);
    const drawn = { layers: [], profile: [], heads: [] };
    const again = (part, make) => {
      for (const chart of drawn[part]) one.drop(chart);
      this.find(part).textContent = "";
      drawn[part] = make(this.find(part)).filter(Boolean);
      if (!drawn[part].length) fill(this.find(part), html`<p class="note">This run has no such signal.</p>`);
    };
    const value = (control) => host.querySelector(`[data-control="${control}"]`).value;
    const heats = () => {
      again("layers", (slot) => [one.heat(slot, value("layers"), value("role"))]);
      again("heads", (slot) => (one.has("head_entropy") ? [one.heat(slot, "head_entropy", value("role"))] : []));
    };
    const profile = () => again("profile", (slot) => (profiles.length ? [one.profileChart(slot, value("profile"))] : []));
    heats();
    profile();
    host.addEventListener("change", (event) => (event.target.dataset.control === "profile" ? profile() : heats()));
  }

  async _besideDraw() {
    this.other?.remove();
    this.exhibits = this.exhibits.filter((one) => one !== this.other);
    this.other = null;
    this.find("beside")?.remove();
    this.find("story").classList.remove("paired");
    const scenario = facts.scenarios[this.picked.beside];
    if (!scenario) return;
    const run = clearest(scenario), columns = await runsOf(run);
    if (open !== this || this.picked.beside !== scenario.id) return;
    const host = document.createElement("div");
    host.className = "curves";
    host.dataset.part = "beside";
    this.find("pair").append(host);
    this.find("story").classList.add("paired");
    this.other = this._exhibit(host, scenario, run, columns);
    this._lines(this.other, host);
  }

  _listen() {
    this.host.querySelector(".controls").addEventListener("change", async (event) => {
      const { control } = event.target.dataset, { value, checked } = event.target;
      if (control === "twin" || control === "cured") this.show(control, checked);
      if (control === "alarms") {
        store.alarms = value;
        for (const one of this.exhibits) one.first.setAlarms(this._alarms(one.run));
      }
      if (control === "severity") {
        this.run = this.scenario.runs.find((run) => run.severity === value);
        await this.draw();
        this.host.querySelector(`[data-control="severity"]`).focus();
      }
      if (control === "beside") {
        this.picked.beside = value;
        await this._besideDraw();
      }
    });
  }

  show(role, shown) {
    store[role] = shown;
    const box = this.host.querySelector(`[data-control="${role}"]`);
    if (box) box.checked = shown;
    for (const one of this.exhibits) one.show(role, shown);
  }

  remove() {
    for (const one of this.exhibits) one.remove();
    this.exhibits = [];
    this.other = null;
    delete this.host.dataset.drawn;
  }
}

/* Which one the address names */

let lastId = "", lastScroll = 0;

async function route() {
  await ready;
  const id = decodeURIComponent(location.hash.slice(1)), scenario = Object.hasOwn(facts.scenarios, id) ? facts.scenarios[id] : null;
  if (!open && scenario) lastScroll = scrollY;
  open?.remove();
  open = scenario ? new OpenScenario(scenario) : null;
  page("overview").hidden = Boolean(scenario);
  page("exhibit").hidden = !scenario;
  document.title = scenario ? `${id} - Trainwreck gallery` : "Trainwreck gallery";
  if (scenario) {
    lastId = id;
    await open.draw();
    page("exhibit").querySelector("h2")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  } else {
    page("exhibit").textContent = "";
    scrollTo(0, lastScroll);
    document.querySelector(`.card[data-id="${CSS.escape(lastId)}"] a`)?.focus({ preventScroll: true });
  }
}

function go(by) {
  const all = inView(), place = open ? all.indexOf(open.scenario.id) + by : 0;
  if (all[place]) location.hash = all[place];
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea, dialog")) return;
  const does = {
    "/": () => { if (open) location.hash = ""; setTimeout(() => page("search").focus()); },
    n: () => go(1), p: () => go(-1), o: () => { location.hash = ""; },
    t: () => open?.show("twin", !store.twin), c: () => open?.show("cured", !store.cured), "?": () => page("help").showModal(),
  };
  if (!does[event.key]) return;
  event.preventDefault();
  does[event.key]();
});
page("help-open").addEventListener("click", () => page("help").showModal());
addEventListener("hashchange", route);
ready.then(filter);
route().then(drawCards);
