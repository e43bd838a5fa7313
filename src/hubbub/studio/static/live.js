// The live page: follows a stream of states, and draws the window that was chosen. Only text is ever put into the page.
import { columns, half, points, pooledChart, seriesChart } from "./live-charts.js";

const QUIET = 400; // milliseconds between two drawings that nobody asked for
const RETRY = 1500; // milliseconds until a studio that did not answer is asked again
const PAGE = 25; // rows of the table
const find = id => document.getElementById(id);
// Windows and pages end at a bucket, or follow the newest one if it is 0. A step to the next one before or after a bucket is
// taken by the studio, which knows the buckets that are missing; it stays until it was answered.
const state = { overview: null, task: "", question: "", size: 50, end: 0, step: {}, bottom: 0, turn: {}, drawn: 0, shown: null, rows: [] };
let asked = 0, waiting = null, lastDrawing = 0, pending = false, again = false, stream = null;
const SILENT = "The studio does not answer. The page shows the last known state, and reconnects by itself.";

const count = value => value.toLocaleString("en-US", { maximumFractionDigits: 6 });
const percent = value => `${(100 * value).toFixed(Math.abs(value) < 0.1 ? 2 : 1)} %`;
const clock = seconds => new Date(1000 * seconds).toISOString().slice(11, 19);
const moment = seconds => new Date(1000 * seconds).toISOString().slice(0, 19).replace("T", " ");
const when = seconds => moment(seconds).slice(0, 10) === new Date().toISOString().slice(0, 10) ? clock(seconds) : moment(seconds); // an hour of another day needs its date
const real = value => value === null || value === undefined ? "?"
  : value && Math.abs(value) < 1e-3 ? Number(value.toPrecision(3)).toExponential() : count(Number(value.toPrecision(Math.abs(value) < 1e4 ? 3 : 4)));
const upwards = value => { // certified figures are rounded up, so that nobody is promised too much
  if (!Number.isFinite(value) || value <= 0) return real(value);
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  return real(Math.ceil(value / unit - 1e-6) * unit);
};
const guessed = one => `${(Math.ceil(1000 * guess(one.epsilon ?? Infinity, one.delta ?? 0) - 1e-9) / 10).toFixed(1)} %`;
const guess = (epsilon, delta) => (1 + delta * Math.exp(-epsilon)) / (1 + Math.exp(-epsilon));
const figure = (value, unit) => value === null ? "?" : unit === "people" ? percent(value) : `${real(value)}${unit ? ` ${unit}` : ""}`;

function element(name, text = "", className = "") {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** A button that cannot be used keeps the focus: a disabled one would lose it, and with it the place on the page. */
const enable = (id, yes) => { if (find(id).getAttribute("aria-disabled") !== String(!yes)) find(id).setAttribute("aria-disabled", String(!yes)); };
const press = (id, action) => find(id).addEventListener("click", event => { if (event.currentTarget.getAttribute("aria-disabled") !== "true") action(); });

function put(id, text) { if (find(id).textContent !== text) find(id).textContent = text; }

class Unreachable extends Error {}
class Refused extends Error {}

async function fetched(path, query = {}) {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== 0));
  const response = await fetch(`/api/live/${path}?${given}`).catch(() => { throw new Unreachable(); });
  if (!response.ok) throw new Refused(`status ${response.status}`);
  return response.json().catch(() => { throw new Unreachable(); });
}

// --- the stream -------------------------------------------------------------------------------------------------------

// A browser has six connections to a host: tabs that nobody sees leave theirs to the others, and catch up when they are seen.
function follow() {
  stream?.close();
  stream = null;
  if (document.visibilityState === "hidden") return;
  const mine = stream = new EventSource("/api/live/events");
  stream.addEventListener("overview", event => { offline(""); show(JSON.parse(event.data)); });
  stream.addEventListener("alive", event => asOf(JSON.parse(event.data)));
  stream.addEventListener("open", () => offline(""));
  stream.addEventListener("error", () => {
    offline(SILENT);
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (mine === stream) follow(); }, RETRY);
  });
}

function offline(text) {
  find("offline").hidden = !text;
  find("main").classList.toggle("stale", Boolean(text));
  put("offline", text);
}

function asOf(seconds) { put("clock", seconds ? `as of ${when(seconds)} UTC` : "not read yet"); }

function current() { return state.overview?.tasks.find(one => one.task === state.task) ?? state.overview?.tasks[0]; }

function show(overview) {
  state.overview = overview;
  find("collection").hidden = !overview.tasks.length;
  asOf(overview.as_of);
  list("problems", overview.problems.map(one => [`The ${one.what}, since ${when(one.since)} UTC:`, one.text]));
  list("alerts", overview.alerts.map(one => [`${one.severity === "page" ? "Alert" : "Warning"} from the ${one.role}:`, `${one.text} (run book: ${one.name})`]));
  find("alerts").hidden = !overview.alerts.length;
  put("source", overview.source);
  const task = current();
  if (!task) {
    put("headline", overview.problems.length ? "The collection cannot be read." : overview.as_of ? "The token gives access to no collection: start the studio with one that does." : "The collection is being read…");
    return;
  }
  if (state.task && state.task !== task.task) Object.assign(state, { end: 0, step: {}, bottom: 0, turn: {} }); // the one that was shown is gone
  state.task = task.task;
  chooseFrom("task", overview.tasks.map(one => one.task), state.task, one => one.slice(0, 8), "tasks", 2);
  // A studio that has just started knows no questions yet: the one that was chosen stays.
  if (task.questions.length && !task.questions.includes(state.question)) state.question = task.questions[0];
  chooseFrom("question", task.questions, state.question, one => one, "asked", 2);
  headline(task);
  cards(task, overview);
  missing(task);
  soon();
}

function list(id, rows) {
  const place = find(id), made = rows.map(([strong, text]) => {
    const item = element("li");
    item.append(element("b", strong), " ", text);
    return item;
  });
  if (place.textContent !== made.map(one => one.textContent).join("")) place.replaceChildren(...made);
}

function chooseFrom(id, values, chosen, name, frame, least) {
  const select = find(id);
  if ([...select.options].map(one => one.value).join("\n") !== values.join("\n"))
    select.replaceChildren(...values.map(value => { const one = element("option", name(value)); one.value = value; return one; }));
  if (select.value !== chosen) select.value = chosen;
  find(frame).hidden = values.length < least;
}

function headline(task) {
  // Rounds may hold the same people: what is added over them are responses, of which a person gives one in each.
  const rounds = task.rounds_released, place = find("headline");
  const strong = element("b", rounds > 1 ? `${count(task.responses)} responses` : `${count(task.people)} people`);
  const least = task.min_batch_size ? `, each of at least ${count(task.min_batch_size)}${rounds > 1 ? " people" : ""}` : "";
  const rest = ` in ${count(task.committed)} ${task.committed === 1 ? "batch" : "batches"}`
    + `${rounds > 1 ? ` over ${count(rounds)} rounds` : ""}${least}.${rounds > 1 ? " A person may have responded once in every round." : ""}`;
  const loading = task.batches < task.listed ? ` ${count(task.batches)} of ${count(task.listed)} batches are read.` : "";
  if (!task.batches && !task.listed) put("headline", "No batch yet: one is released when an epoch ends and enough people have answered.");
  else if (place.textContent !== strong.textContent + rest + loading) place.replaceChildren(strong, rest + loading);
}

function cards(task, overview) {
  const waits = task.waiting, last = task.newest, spent = task.spent, total = task.total;
  put("waiting", !waits ? "not known" : waits.high === null ? `at least ${count(waits.low)}`
    : waits.low === 0 ? `fewer than ${count(waits.high + 1)}` : `${count(waits.low)} to ${count(waits.high)}`);
  bar("fill", waits?.needed ? waits.low / waits.needed : 0);
  find("fill").hidden = !waits?.needed;
  put("waiting-words", waits ? `${waits.needed ? `of ${count(waits.needed)} needed, ` : ""}as of the end of the last epoch`
    + `${task.epoch ? ` (${count(task.epoch)}\u00a0s)` : ""}` : "the shuffler's figures cannot be read");
  put("last", !last ? "none yet" : last.state === "committed" ? `${count(last.people)} people` : last.state);
  put("last-words", !last ? "" : last.state !== "committed" ? `batch ${count(last.bucket)}: ${last.reason ?? "no reason is known"}`
    : `batch ${count(last.bucket)}, released ${when(last.released)} UTC; ε = ${upwards(last.epsilon)}, δ = ${upwards(last.delta)} achieved: a guess between two answers of one person is right `
    + `at most ${guessed(last).replace(" ", "\u00a0")} of the time`);
  put("spent", spent ? `ε = ${upwards(spent.epsilon)}` : "not known");
  bar("spending", spent && total?.epsilon ? spent.epsilon / total.epsilon : 0);
  put("spent-words", spent && total ? `of ${upwards(total.epsilon)} at δ = ${upwards(total.delta)}: ${count(spent.rounds)} of ${count(total.rounds)} `
    + `${total.rounds === 1 ? "round" : "rounds"}, for a person who answered in each. A guess between two answers of such a person is right at most ${guessed(spent).replace(" ", "\u00a0")} of the time` : "");
  const known = overview.services, roles = ["analyzer", "shuffler"], pages = overview.alerts.filter(one => one.severity === "page").length;
  put("health", pages ? `${pages} ${pages === 1 ? "alert" : "alerts"}` : overview.alerts.length ? "needs a look"
    : roles.every(role => known[role]) ? "healthy" : roles.some(role => known[role]) ? "partly known" : "not known");
  const made = roles.map(role => element("li", `${role}: ${known[role] === undefined ? "no operations address is known" : known[role] ? "ready" : "not ready"}`, known[role] ? "ok" : "no"));
  if (find("services").textContent !== made.map(one => one.textContent).join("")) find("services").replaceChildren(...made);
}

function bar(id, share) {
  const svg = d3.create("svg").attr("viewBox", "0 0 100 1").attr("preserveAspectRatio", "none");
  svg.append("rect").attr("width", 100 * Math.min(Math.max(share, 0), 1)).attr("height", 1);
  find(id).replaceChildren(svg.node());
}

function missing(task) {
  const lost = task.withheld_batches.map(one => [`Batch ${count(one.bucket)} was withheld (${count(one.bundles)} people):`, one.reason ?? "no reason is known"]);
  list("withheld", [...lost, ...task.gaps.map(one => ["Gap:", one.text])]);
  const last = (shown, all, what) => shown < all ? [`the last ${shown} of ${count(all)} ${what}`] : [];
  const more = [...last(lost.length, task.withheld, "withheld"), ...last(task.gaps.length, task.gaps_known, "gaps")];
  put("missing-title", `Withheld batches and gaps${more.length ? ` (${more.join(", ")})` : ""}`);
  find("missing").hidden = !lost.length && !task.gaps.length;
}

// --- drawing ----------------------------------------------------------------------------------------------------------

// A drawing that nobody asked for waits until the one in progress is done: if each of them gave up the one before, answers
// that take longer than the time between two batches would never be drawn.
function soon(least = 0) {
  if (pending) again = true;
  else waiting ??= setTimeout(() => { waiting = null; if (pending) again = true; else draw(); }, Math.max(least, lastDrawing + QUIET - performance.now()));
}

async function draw() {
  const task = current();
  if (!task) return;
  const mine = ++asked;
  lastDrawing = performance.now();
  pending = true;
  let least = 0;
  const { step, turn } = state, wide = columns(find("series").clientWidth);
  try {
    const [view, table] = await Promise.all([
      fetched("view", { task: task.task, question: state.question, size: state.size, last: state.end, ...step, points: Math.min(240, 80 * wide) }),
      fetched("batches", { task: task.task, last: state.bottom, ...turn, count: PAGE }),
    ]);
    if (mine !== asked) return;
    state.shown = view.window;
    state.end = settled(state.end, step, view.window, view.window.last);
    state.bottom = settled(state.bottom, turn, table, table.rows[0]?.bucket ?? 0);
    state.step = state.turn = {};
    series(view, task);
    pooled(view, task);
    rows(table, task);
    controls();
    remember();
    find("main").dataset.drawn = ++state.drawn;
    if (stream?.readyState === EventSource.OPEN) offline("");
  } catch (error) {
    if (!(error instanceof Unreachable || error instanceof Refused)) throw error;
    if (mine === asked && error instanceof Unreachable) {
      offline(SILENT);
      [again, least] = [document.visibilityState !== "hidden", RETRY];
    }
  } finally {
    if (mine === asked) {
      const wanted = again;
      pending = again = false;
      if (wanted) soon(least);
    }
  }
}

/** Where a window or a page ends from now on: after a step, where it led to; at the newest batch, wherever that is. */
const settled = (end, step, found, last) => !found.newer && last ? 0 : Object.keys(step).length ? last : end;

function series(view, task) {
  const shown = view.series, lost = view.withheld.time;
  const place = find("series"), shares = shown.figures.every(one => one.unit === "people");
  const top = shares ? Math.max(0.05, ...shown.figures.flatMap(one => one.high.filter(Number.isFinite))) : null;
  // What has not changed stays: who reads the page by ear, or has marked a text, would lose the place with every epoch.
  const key = JSON.stringify([view.task, shown, view.withheld, view.figures_of_question, state.end, strings(task), place.clientWidth]);
  if (state.charts === key) return;
  state.charts = key;
  const width = (place.clientWidth - 14.4 * (columns(place.clientWidth) - 1)) / columns(place.clientWidth) - 26;
  const made = shown.figures.map(one => {
    const frame = element("figure"), caption = element("figcaption"), end = one.value.length - 1;
    const newest = end < 0 ? "" : one.unit === "people" ? `${figure(one.value[end], one.unit)} ± ${points(figure(half(one.low[end], one.high[end]), one.unit))}`
      : `${figure(one.value[end], one.unit)} (${real(one.low[end])} to ${real(one.high[end])})`;
    caption.append(element("b", one.label), element("span", newest));
    frame.append(caption, seriesChart(one, shown, { width: Math.max(180, Math.floor(width)), top, lost, label: `${one.label}: ${newest} at the end of the window` }));
    return frame;
  });
  place.replaceChildren(...made);
  const of = view.figures_of_question > shown.figures.length ? ` The ${shown.figures.length} largest of ${count(view.figures_of_question)} answers are shown.` : "";
  const each = shown.per_point > 1 ? `each point is the mean of up to ${count(shown.per_point)} batches` : "each point is one batch";
  put("series-words", strings(task) ? "Each batch shows different strings, so there is no line to draw. List them with hubbub results."
    : !shown.first.length ? lost.length ? "All batches of this window were withheld." : "No batch is in this window."
    : `${shares ? "Shares of the people" : "Figures"} of batches ${count(shown.first[0])} to ${count(shown.last.at(-1))}: ${each}, and the band is its 95 % interval. `
    + `Time is UTC.${lost.length ? " Dashed lines are withheld batches." : ""}${of}`);
  put("window", state.end ? "past batches are shown; new ones do not move the window" : "");
}

/** A task with results and no questions collects strings that nobody listed. */
const strings = task => task.committed > 0 && !task.questions.length;

function pooled(view, task) {
  const found = view.pooled, place = find("pooled"), key = JSON.stringify([found, place.clientWidth]);
  if (state.pooled === key) return;
  state.pooled = key;
  place.replaceChildren(...(found.rows.length ? [pooledChart(found.rows, Math.max(260, Math.floor(place.clientWidth)), figure)] : []));
  put("pooled-title", task.rounds > 1 && found.round ? `All batches of round ${found.round} together` : "All batches together");
  const left = strings(task) ? " Counts of strings are not added up: how many people hold a string is unknown in batches that do not show it."
    : found.left_out ? ` Left out, because their results lack what pooling needs: ${count(found.left_out)} ${found.left_out === 1 ? "batch" : "batches"}.` : "";
  put("pooled-words", found.rows.length ? `${count(found.people)} people in ${count(found.batches)} ${found.batches === 1 ? "batch" : "batches"}`
    + `, with 95 % intervals.${task.rounds > 1 ? " Rounds are not added up: the same people may be in several." : ""}${left}` : `Nothing to pool yet.${left}`);
}

function rows(page, task) {
  const found = page.rows, key = JSON.stringify([found, page.older, page.newer, task.batches, task.spent]);
  if (state.table === key) return;
  state.table = key;
  put("spent-head", task.spent?.delta ? `ε spent so far, at δ = ${upwards(task.spent.delta)}` : "ε spent so far");
  find("rows").replaceChildren(...found.map(one => {
    const row = element("tr", "", one.state === "withheld" ? "withheld" : ""), good = one.state === "committed";
    const cells = [[count(one.bucket)], [moment(one.released), "when"], [good ? count(one.people) : count(one.bundles), "num"], [good ? upwards(one.epsilon) : "", "num"],
      [good ? upwards(one.delta) : "", "num"], [good ? guessed(one) : "", "num"], [String(one.round), "num"], [upwards(one.spent), "num"], [one.state]];
    row.append(...cells.map(([text, className = ""]) => element("td", text, className)));
    return row;
  }));
  enable("older", page.older);
  enable("younger", page.newer);
  put("rows-words", found.length ? `batches ${count(found.at(-1).bucket)} to ${count(found[0].bucket)}: ${count(found.length)} of ${count(task.batches)}` : "");
  state.rows = found;
}

function controls() {
  enable("earlier", state.size && state.shown.older);
  enable("later", state.end);
  enable("newest", state.end);
  if (find("size").value !== String(state.size)) find("size").value = String(state.size);
}

// --- choices ----------------------------------------------------------------------------------------------------------

function remember() {
  const given = { task: state.overview.tasks.length > 1 ? state.task : "", question: state.question, size: state.size === 50 ? "" : state.size, end: state.end || "" };
  const text = new URLSearchParams(Object.entries(given).filter(([, value]) => value !== "")).toString();
  if (location.hash.slice(1) !== text) history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

function recall() {
  const given = new URLSearchParams(location.hash.slice(1)), whole = name => /^\d{1,15}$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null;
  state.task = given.get("task") ?? "";
  state.question = given.get("question") ?? "";
  state.end = whole("end") ?? 0;
  if ([0, 50, 200, 1000].includes(whole("size"))) state.size = whole("size");
}

function start() {
  recall();
  find("size").value = String(state.size);
  find("size").addEventListener("change", event => {
    state.size = Number(event.target.value);
    state.step = {};
    if (!state.size) state.end = 0;
    draw();
  });
  find("question").addEventListener("change", event => { state.question = event.target.value; draw(); });
  find("task").addEventListener("change", event => { Object.assign(state, { task: event.target.value, end: 0, step: {}, bottom: 0, turn: {} }); show(state.overview); });
  press("earlier", () => { state.step = { before: state.shown.first }; draw(); });
  press("later", () => { state.step = { after: state.shown.last || state.end }; draw(); });
  press("newest", () => { Object.assign(state, { end: 0, step: {} }); draw(); });
  press("older", () => { state.turn = { before: state.rows.at(-1).bucket }; draw(); });
  press("younger", () => { state.turn = { after: state.rows[0]?.bucket ?? state.bottom }; draw(); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; soon(); } });
  fetched("overview").then(found => {
    if (found.connected) return;
    find("idle").hidden = false;
    stream?.close();
    put("headline", "No collection is connected.");
    put("clock", "");
    offline("");
  }, () => undefined).finally(() => {
    if (!find("idle").hidden) return;
    document.addEventListener("visibilitychange", follow);
    follow();
  });
}

start();
