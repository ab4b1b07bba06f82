"use strict";
/* The metrics of evaluation/scoring/metrics, for one set of first alarms: {first: step or null, named: [...]} a run.
   `trainwreck quiz grade` gives the same numbers with intervals. */

const FAILING = ["failing", "compound"];
const LOGGING = "logging"; // family of causes that are in the log alone

const isFailing = (truth) => truth.measured && FAILING.includes(truth.kind) && truth.visible !== null;
const isNegative = (truth) => truth.measured && (truth.kind === "healthy" || truth.kind === "look-alike");

/** Whether a stop names the log of a healthy run that is logged wrongly: no false alarm. */
const isExcused = (truth, names, familyOf) =>
  truth.kind === "look-alike" && truth.families.includes(LOGGING) && names.length > 0 && (names[0] === LOGGING || familyOf(names[0]) === LOGGING);

/** An answer, {truth, first, named}, as it counts. */
const counted = (run, familyOf) => (isExcused(run.truth, run.named, familyOf) ? { ...run, first: null } : run);

/** Metric 2: under the fault, and while the run can still be saved. */
const inTime = (truth, first) => first !== null && truth.onset <= first && first < truth.no_return;

/** Metric 6, steps: what an alarm on a failing run gains, and on another run loses. */
function gained(truth, first, scale) {
  const cost = scale.cost * truth.planned;
  if (isNegative(truth)) return first === null ? 0 : -cost;
  if (!isFailing(truth) || first === null) return 0;
  return first < truth.onset ? -cost : truth.planned - Math.max(first, truth.visible) - scale.response * truth.planned;
}

/** The same in per cent of the run, for one run: the points of a stop. */
const points = (truth, first, scale) => (100 * gained(truth, first, scale)) / truth.planned;

/** Metric 5: 2 for a cause that is right, 1 for its family alone, 0 for neither; of the first name. */
function named(truth, names, familyOf) {
  if (!names.length) return 0;
  if (truth.causes.includes(names[0])) return 2;
  return truth.families.includes(familyOf(names[0])) ? 1 : 0;
}

/** What the first name gains, in points: what a false alarm costs where it is a cause of the run, as much less where it
    is wrong. Nothing for its family alone, for a cause that these signals do not tell from it, and for no name. */
function namingPoints(truth, first, names, scale, familyOf) {
  if (!isFailing(truth) || first === null || first < truth.onset || !names.length || names[0] === "unknown") return 0;
  const right = named(truth, names, familyOf);
  if (right === 1 || truth.within.includes(names[0])) return 0;
  return (right === 2 ? 100 : -100) * scale.cost;
}

/** All points of one answer: {truth, first, named}. */
const answerPoints = (run, scale, familyOf) => points(run.truth, counted(run, familyOf).first, scale) + namingPoints(run.truth, run.first, run.named, scale, familyOf);

const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

/** Mean over the groups of runs (by cause, or by family) of the mean of each. */
function macro(runs, group, value) {
  const groups = new Map();
  for (const run of runs) {
    const key = run.truth[group].join("+");
    groups.set(key, [...(groups.get(key) || []), value(run)]);
  }
  return mean([...groups.values()].map(mean));
}

/** A row of the table. results: one {truth, first, named} for each run. */
function scored(results, scale, familyOf) {
  results = results.map((run) => counted(run, familyOf));
  const failing = results.filter((run) => isFailing(run.truth)), negative = results.filter((run) => isNegative(run.truth));
  const stopped = (kind) => mean(negative.filter((run) => run.truth.kind === kind).map((run) => (run.first === null ? 0 : 1)));
  const found = (run) => inTime(run.truth, run.first);
  const gain = mean(failing.map((run) => gained(run.truth, run.first, scale)));
  const loss = mean(negative.map((run) => -gained(run.truth, run.first, scale)));
  let skill = null;
  if (scale.blind !== null && gain !== null && loss !== null) {
    const utility = scale.prevalence * gain - (1 - scale.prevalence) * loss;
    skill = (utility - scale.blind) / (scale.ceiling - scale.blind);
  }
  return {
    recall: mean(failing.map((run) => (found(run) ? 1 : 0))),
    stopped: stopped("healthy"),
    stopped_look_alike: stopped("look-alike"),
    delay: mean(failing.filter(found).map((run) => Math.max(0, run.first - run.truth.onset))),
    skill,
    top1: macro(failing, "causes", (run) => (found(run) && named(run.truth, run.named, familyOf) === 2 ? 1 : 0)),
    family: macro(failing, "families", (run) => (found(run) && named(run.truth, run.named, familyOf) > 0 ? 1 : 0)),
    points: results.reduce((sum, run) => sum + answerPoints(run, scale, familyOf), 0),
  };
}
