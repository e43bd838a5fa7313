// The page Explore: asks the studio for quick curves, then for certificates, and follows the chosen plan.
import { $, Refused, ask, asked, atMost, copy, download, el, ofHundred, stream, typed, whole } from './common.js';
import { collected, errors, ladder, precision } from './charts.js';
import { editor, fresh } from './questions.js';
import { cards, status, steady, table, verdict } from './result.js';
import { change, inquiry, isSurvey, isText, read, state, write } from './state.js';

const log = (low, high, steps) => ({
  value: (step) => low * (high / low) ** (step / steps), step: (value) => Math.round(steps * Math.log(value / low) / Math.log(high / low)),
});
const digits = (value, count) => Number(value.toPrecision(count));
const SLIDERS = {
  n: { ...log(100, 1e7, 100), round: (value) => digits(value, 2), show: whole },
  eps: { ...log(0.05, 10, 100), round: (value) => digits(value, 2), show: (value) => String(value) },
  d: { ...log(2, 2000, 100), round: Math.round, show: whole },
  k: { value: Number, step: Number, round: Math.round, show: whole },
  rounds: { ...log(1, 365, 20), round: Math.round, show: whole },
};
const EXAMPLE = 'coffee, 52\ntea, 31\nwater, 11\nneither, 6';

const NOTHING = { families: [], central: { here: null, by_epsilon: [] }, problem: null };
const MOST_EPSILON = 20;
const FEWER_HONEST = 1.25; // that of hubbub.planner.search

let outline = NOTHING;
let shown; // the plan that the page shows: it is what can be taken along, whatever was chosen since
let answered = 0; // the generation of the outline: certificates of another state must not be shown with this one
let waiting = false, found = {}, simulated = null, attacked = null, problem = '', // of the simulation
  form = 'command', generation = Date.now(), control = new AbortController();
const timings = [];
Object.defineProperty(window, 'studio', { value: { timings, state } });

// What is shown.

const certified = () => outline.families.filter((one) => one.allowed && found[one.family]?.state === 'certified').map((one) => found[one.family]).sort((a, b) => a.curve - b.curve);
/** The protocol that is shown unless another is chosen: fewer honest users are worth some error, as in hubbub plan. */
const preferred = (plans) => [...plans].filter((one) => one.curve <= FEWER_HONEST * plans[0].curve).sort((a, b) => a.honest - b.honest || a.curve - b.curve)[0];
const chosen = () => certified().find((one) => one.family === state.family) ?? preferred(certified());
const guessed = () => outline.families.filter((one) => one.allowed && one.about !== null).sort((a, b) => a.about - b.about)[0];
/** A protocol whose certificate was late, and that may be more precise than the one shown. */
const better = (each, one) => each.allowed && found[each.family]?.state === 'late' && (!one || each.about === null || each.about < one.curve);
/** The name of the protocol that was chosen, if it is not the one shown because it cannot be. */
const missed = (one) => (one && one.family !== state.family && settled() && !waiting ? outline.families.find((each) => each.family === state.family)?.name : undefined);
const settled = () => outline.families.every((one) => found[one.family] && !found[one.family].preliminary);

let frame = 0;
function draw() {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(drawNow);
}

function drawNow() {
  cancelAnimationFrame(frame);
  frame = 0;
  if (answered !== generation) return;
  $('main').classList.remove('stale');
  const one = shown = chosen(), about = settled() && !waiting ? undefined : guessed();
  const late = outline.families.some((each) => better(each, one));
  steady(!one && about !== undefined);
  verdict(one, { about, late, missed: missed(one), problem: outline.problem });
  cards(one, about, outline.central.here);
  const common = { families: outline.families, found, chosen: one?.family, people: state.n, mean: meanOf() };
  const { here, by_epsilon: curve } = outline.central;
  const edge = precision($('by-epsilon'), { ...common, axis: 'by_epsilon', here: state.eps, central: curve, label: 'Error of each protocol against ε; the table has the figures' });
  const flat = here === null ? [] : [[100, here], [1e7, here]];
  precision($('by-people'), { ...common, axis: 'by_people', here: state.n, central: flat, label: 'Error of each protocol against the number of people; the table has the figures' });
  $('central-hint').hidden = here === null;
  $('survey-hint').hidden = state.kind !== 'several';
  $('edge-hint').hidden = !edge;
  $('edge-unit').textContent = meanOf() === null ? 'the crowd' : 'the range';
  table(outline.families, found, one, waiting, (family) => set({ family }, choose));
  status(outline.families, found, waiting);
  $('problem').textContent = outline.problem ?? '';
  $('problem').hidden = outline.problem === null;
  take(one);
}

/** The range of a number whose mean is wanted: its curves are errors of the mean, not of people. */
const meanOf = () => (state.kind === 'number' && state.measure === 'mean' ? state.high - state.low : null);

const REST = ['sim', 'sim-problem', 'ladder', 'drop-text', 'sentences'];

/** Hide what belongs to another state, at its place, until it is replaced. */
function outdate() {
  simulated = attacked = null;
  problem = followed = '';
  for (const id of REST) $(id).classList.add('outdated');
}

function drawRest() {
  const one = shown;
  for (const id of REST) {
    $(id).replaceChildren();
    $(id).classList.remove('outdated');
  }
  for (const name of ['role', 'aria-label']) $('ladder').removeAttribute(name);
  for (const panel of one && simulated ? simulated.panels : []) {
    const named = { ...panel, rows: panel.rows.map((row) => ({ ...row, label: isSurvey() ? row.label : label(Number(row.label)) })) };
    const [left, right] = [el('div', { className: 'chart' }), el('div', { className: 'chart' })];
    const more = isText() ? `: ${whole(panel.shown)} of ${whole(panel.held)} texts are shown` : panel.left_out ? `, the ${panel.rows.length} most frequent of ${whole(panel.left_out + panel.rows.length)}` : '';
    $('sim').append(el('div', { className: 'pair' },
      el('figure', {}, el('figcaption', { textContent: `${panel.name || 'counts'}${more}` }), left),
      el('figure', {}, el('figcaption', { textContent: `${panel.name ? `${panel.name}: ` : ''}error, magnified` }), right)));
    collected(left, named, `Simulated estimates of ${panel.name || 'all answers'} with intervals beside the truth`);
    errors(right, named, `Errors of the simulated estimates of ${panel.name || 'all answers'}`);
  }
  $('sim-problem').textContent = problem;
  if (one && attacked) drawAttacks(one);
  $('sentences').replaceChildren(...(one && !one.preliminary ? one.sentences : []).map((text) => el('li', { textContent: text })));
}

function drawAttacks(one) {
  const planned = attacked.planned, steps = attacked.steps.filter((each) => one.shuffler ? each.compromised >= planned : each.compromised === planned);
  const planning = (each) => (one.honest <= 1 ? '' : each.compromised > planned ? ', more than planned' : ', as planned');
  const who = (each, place) => {
    if (each.compromised === 0) return 'whoever sees the results';
    return `${place ? '… and' : 'a reader who'} controls ${each.compromised} % of users${planning(each)}`;
  };
  const rows = steps.map((each, place) => ({ who: who(each, place), guess: each.guess }));
  if (isText()) rows.push({ who: 'the shuffler, about a rare text that it suspects', guess: 1 });
  else if (one.shuffler) {
    rows.push({ who: 'the shuffler, if it sees no results', guess: 0.5 });
    rows.push({ who: 'the shuffler, if it reads results and fills the batch', guess: attacked.together });
  }
  const all = isText() ? 'relay, shuffler and analyzer together' : one.shuffler ? 'shuffler and analyzer together' : 'everybody else together';
  ladder($('ladder'), [...rows, { who: all, guess: attacked.together }]);
  const left = attacked.dropped, people = whole(attacked.people);
  if (!left) $('drop-text').textContent = 'Move the slider to see what changes if fewer people answer than planned.';
  else if (!one.shuffler) $('drop-text').textContent = `${people} are left. The protection needs no crowd and stays as it is.`;
  else {
    const loss = left.epsilon === null ? 'unlimited' : atMost(left.epsilon);
    $('drop-text').textContent = `${people} are left: fewer than the batch needs, so the shuffler releases nothing. If the batch were released anyway, ε would be ${loss}, and up to ${ofHundred(left.guess)} of 100 guesses would be right. To be sure of a result, plan for ${people} people.`;
  }
}

function take(one) {
  const last = Boolean(one) && !one.preliminary; // a preliminary plan is certified, but commands make the last one
  const texts = last ? { command: one.command, python: one.python, plan: JSON.stringify(JSON.parse(one.plan), null, 2) } : {};
  $('take').textContent = texts[form] ?? (one ? 'A slightly more precise plan is being certified.' : 'Nothing is certified yet.');
  for (const id of ['copy', 'save', 'report']) $(id).disabled = !last;
}

// What is asked.

let running = 0;
/** Run something and say so, for screen readers, until all that runs is done. */
async function busy(task) {
  running += 1;
  $('main').setAttribute('aria-busy', 'true');
  try {
    await task();
  } finally {
    if (frame) drawNow(); // whoever waits for the end of it must not read what was there before
    running -= 1;
    $('main').setAttribute('aria-busy', String(running > 0));
  }
}

const renew = () => busy(renewed);

async function renewed() {
  control.abort();
  following.abort(); // its answer would be drawn beside a plan of the new state
  control = new AbortController();
  for (const id of ['goal-text', 'take-problem']) $(id).textContent = '';
  const { signal } = control, begun = performance.now(), mine = generation += 1;
  const note = (what) => timings.push({ what, ms: performance.now() - begun });
  const body = inquiry();
  try {
    const early = asked('preliminary', { inquiry: body }, signal);
    early.catch(() => {}); // the same trouble comes with the outline, or when it is waited for
    const curves = await ask('outline', body, signal);
    online();
    outline = { ...NOTHING, ...curves };
    answered = mine;
    found = {};
    waiting = false;
    outdate();
    drawNow();
    if (outline.problem !== null) {
      drawRest();
      return;
    }
    note('curves');
    await showEarly(early, mine, note);
    await certify(body, mine, signal, note);
    if (mine !== generation) return;
    $('said').textContent = $('verdict').textContent;
    const late = outline.families.map((one) => one.family).filter((family) => found[family].state === 'late' || found[family].preliminary);
    await Promise.all([follow(), late.length ? again(body, mine, signal, late) : null]);
    if (!late.length || mine !== generation) return;
    await follow();
    if (mine === generation) $('said').textContent = $('verdict').textContent;
  } catch (error) {
    trouble(error, renew);
  }
}

/** Show a first certified plan, which may be a preliminary one. */
async function showEarly(early, mine, note) {
  const one = await early;
  if (mine !== generation || one.state !== 'certified') return;
  found[one.family] = one;
  drawNow();
  note('verdict');
}

async function certify(body, mine, signal, note) {
  const order = [...outline.families].sort((a, b) => b.allowed - a.allowed || (a.about ?? Infinity) - (b.about ?? Infinity));
  let first = !certified().length;
  const families = order.map((one) => one.family);
  await stream('certify', { generation: mine, inquiry: body, families, patient: false }, signal, (one) => {
    const before = found[one.family];
    if (mine !== generation || (before?.preliminary && (one.state === 'late' || !one.state))) return;
    found[one.family] = one.state ? one : { ...one, state: 'failed' };
    if (first && certified().length) {
      first = false;
      drawNow();
      note('verdict');
    } else draw();
  });
  if (mine !== generation) return;
  for (const one of outline.families) found[one.family] ??= { family: one.family, state: 'late' };
  waiting = outline.families.some((one) => found[one.family].state === 'late'); // they are asked for again
  drawNow();
  note('certified');
}

/** Ask again, with more patience, for what was late. */
async function again(body, mine, signal, families) {
  try {
    await stream('certify', { generation: mine, inquiry: body, families, patient: true }, signal, (one) => {
      if (mine !== generation || !one.state) return;
      found[one.family] = one;
      draw();
    });
  } finally {
    if (mine === generation) waiting = false;
  }
  drawNow();
}

const choose = () => busy(() => follow());

let following = new AbortController(), followed = '';
async function follow(again = false) {
  const one = chosen();
  following.abort(); // what was asked before belongs to another choice, also if this one is shown already
  draw();
  if (!one || one.preliminary) { // the studio simulates and attacks only what it would also give away
    outdate();
    drawRest();
    return;
  }
  const people = pasted(), key = JSON.stringify([one.id, people, state.drop]);
  if (key === followed && !again) return;
  following = new AbortController();
  const { signal } = following;
  try {
    const [drawn, left] = await Promise.all([
      people ? asked('simulate', { plan: one.id, ...people }, signal) : { error: 'No line could be read: write a name, a comma and a number.' }, asked('attack', { plan: one.id, compromised: state.compromised, dropped: state.drop }, signal)]);
    if (signal.aborted || drawn.stale || left.stale) return;
    followed = drawn.panels && left.steps ? key : '';
    simulated = drawn.panels ? drawn : null;
    attacked = left.steps ? left : null;
    problem = drawn.error ?? (drawn.late ? 'The simulation takes too long; try again.' : warning());
    online();
    drawRest();
    if (!left.steps) $('drop-text').textContent = left.error ?? 'The attacks take too long to compute; try again.';
  } catch (error) {
    if (refused(error)) {
      outdate();
      problem = error.message;
      drawRest();
    } else trouble(error, renew);
  }
}

/** The studio has answered, and would answer the same again. */
const refused = (error) => error instanceof Refused && error.status !== 404 && error.status < 500;

let retry = 0;
function trouble(error, again) {
  if (error.name === 'AbortError') return;
  if (refused(error)) {
    answered = generation;
    outline = { ...NOTHING, problem: error.message };
    found = {};
    outdate();
    drawNow();
    drawRest();
    return;
  }
  if (error instanceof Refused && error.status === 404) followed = '';
  else {
    $('offline').textContent = 'The studio does not answer. If it was stopped, start it again with hubbub studio: this page then continues.';
    $('offline').hidden = false;
    if (answered !== generation) {
      $('main').classList.add('stale'); // what is shown belongs to another state
      for (const id of ['copy', 'save', 'report']) $(id).disabled = true;
    }
  }
  clearTimeout(retry);
  retry = setTimeout(again, 700);
}

function online() {
  clearTimeout(retry);
  $('offline').hidden = true;
}

// People who answer, chosen or pasted.

/** Pasted lines: a name, which may hold commas, and a number, which may have commas between thousands and a percent sign. */
const GROUPED = /[,;\t] {0,9}([1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?)$/;
const SEPARATED = /[,;\t]/;
const BETWEEN = /\d,\d+(\.\d*)?$/; // a comma between two digits: decimals, thousands, or a name and a number

/** A pasted line as its name and its number; null if it has none, or may be read in two ways. */
function pastedLine(text) {
  const line = text.trimEnd().replace(/%$/, '').trimEnd(), end = line.slice(-40), grouped = GROUPED.exec(end); // no number is longer
  const at = grouped ? line.length - grouped[0].length : Math.max(line.lastIndexOf(','), line.lastIndexOf(';'), line.lastIndexOf('\t'));
  const name = line.slice(0, at), number = typed(grouped ? grouped[1] : line.slice(at + 1));
  return at < 0 || !(number >= 0 && number < Infinity) || (!grouped && BETWEEN.test(end) && SEPARATED.test(name)) ? null : [name, number];
}

let known = { text: '', lines: [] };
/** All pasted lines, read once: blank ones are undefined. */
function pastedLines() {
  const text = $('own').value;
  if (known.text !== text) known = { text, lines: text.split('\n').map((line) => (line.trim() ? pastedLine(line) : undefined)) };
  return known.lines;
}
const lines = () => pastedLines().filter(Boolean);
const unread = () => pastedLines().map((line, place) => (line === null ? place + 1 : 0)).filter(Boolean);
const label = (place) => (state.shape === 'own' && lines()[place]?.[0].trim()) || `${isText() ? 'text' : 'answer'} ${place + 1}`;

function warning() {
  if (state.shape !== 'own' || isSurvey()) return '';
  const skipped = unread(), large = state.kind !== 'one' && !isText() && lines().some((line) => line[1] > 100);
  if (skipped.length) return `Left out, for want of exactly one number of at least 0 at the end: line${skipped.length > 1 ? 's' : ''} ${skipped.slice(0, 10).join(', ')}${skipped.length > 10 ? ', …' : ''}.`;
  return large ? 'Percentages above 100 count as 100.' : '';
}

/** What the simulated people answer; null if nothing of what was pasted can be read. */
function pasted() {
  if (state.shape !== 'own') return { shape: state.shape, shares: [], rows: '' };
  if (isSurvey()) return { shape: 'few', shares: [], rows: $('own').value.trim() };
  if (!lines().length) return null;
  const given = lines().map((line) => line[1]), total = given.reduce((sum, one) => sum + one, 0) || 1;
  // Whoever may give several answers: shares of the people for each of them, or percentages, which add up to nothing.
  const unit = state.kind === 'one' || isText() ? total : given.every((one) => one <= 1) ? 1 : 100;
  const shares = Array.from({ length: isText() ? given.length : state.d }, (_, i) => (given[i] ?? 0) / unit);
  return { shape: 'few', shares, rows: '' };
}

function paste() {
  const own = state.shape === 'own';
  $('own-row').hidden = !own;
  $('own-label').textContent = isSurvey() ? `A header with the names of the questions, then a line of answers for each person, all separated by commas` : state.kind === 'one' || isText() ? 'A line for each answer: its name, a comma, and the number or share of people'
    : 'A line for each answer: its name, a comma, and the percentage of people who give it';
  if (own && !isSurvey()) {
    if (!$('own').value) $('own').value = EXAMPLE;
    if (!isText()) change({ d: Math.max(2, lines().length) });
  }
}

// Controls.

function show() {
  for (const [id, slider] of Object.entries(SLIDERS)) {
    $(id).value = slider.step(state[id]);
    $(id).setAttribute('aria-valuetext', slider.show(state[id]));
    if (document.activeElement !== $(`${id}-text`)) $(`${id}-text`).value = slider.show(state[id]);
  }
  for (const id of ['kind', 'measure', 'shape', 'delta', 'compromised', 'drop', 'low', 'high', 'bytes']) $(id).value = state[id];
  for (const id of ['clear', 'joint']) $(id).checked = state[id];
  for (const one of document.querySelectorAll('[name=trust]')) one.checked = one.value === state.trust;
  for (const one of document.querySelectorAll('[data-kinds]')) one.hidden = !one.dataset.kinds.split(' ').includes(state.kind);
  $('clear-row').hidden = state.trust !== 'shuffling';
  $('delta-out').textContent = `1 in ${whole(10 ** state.delta)}`;
  $('delta').setAttribute('aria-valuetext', $('delta-out').textContent);
  for (const id of ['compromised', 'drop']) $(`${id}-out`).textContent = `${state[id]} %`;
  document.querySelector('.solve').hidden = isSurvey();
  if (state.kind === 'several') editor((questions) => { set({ questions, family: '' }); });
}

function set(values, then = renew) {
  change(values);
  write();
  show();
  then();
}

/** Say beside a field, until it is edited, what it expects; it shows again what it had. */
function complain(input, what = 'a number') {
  input.setCustomValidity(`Please write ${what}, with a point for decimals: 0.5`);
  input.reportValidity();
  input.addEventListener('input', () => input.setCustomValidity(''), { once: true });
}

for (const [id, slider] of Object.entries(SLIDERS)) {
  $(id).addEventListener('input', () => {
    const step = Number($(id).value), value = slider.round(slider.value(step));
    // Neighbouring steps may round to one number: a key must move on all the same.
    const stuck = value === state[id] && step !== slider.step(state[id]);
    const unit = id === 'eps' || id === 'n' ? 10 ** (Math.floor(Math.log10(value)) - 1) : 1;
    set({ [id]: stuck ? slider.round(value + unit * Math.sign(step - slider.step(value))) : value });
  });
  $(`${id}-text`).addEventListener('change', (event) => {
    const value = typed(event.target.value);
    set(value > 0 ? { [id]: value } : {});
    event.target.value = slider.show(state[id]);
    if (!(value > 0)) complain(event.target, 'a number above 0');
  });
}
for (const id of ['delta', 'compromised', 'bytes']) $(id).addEventListener('input', () => set({ [id]: Number($(id).value) }));
for (const id of ['low', 'high']) {
  $(id).addEventListener('change', () => {
    const value = typed($(id).value);
    set({ [id]: value });
    if (Number.isNaN(value)) complain($(id));
  });
}
for (const id of ['clear', 'joint']) $(id).addEventListener('change', () => set({ [id]: $(id).checked }));
for (const id of ['kind', 'measure']) $(id).addEventListener('change', () => { change({ [id]: $(id).value, family: '', shape: 'few' }); paste(); set({}); });
for (const one of document.querySelectorAll('[name=trust]')) one.addEventListener('change', () => set({ trust: one.value, family: '' }));
$('drop').addEventListener('input', () => set({ drop: Number($('drop').value) }, choose));
$('shape').addEventListener('change', () => {
  const before = state.d;
  change({ shape: $('shape').value });
  paste();
  set({}, state.d === before ? choose : renew);
});
$('own').addEventListener('change', () => { paste(); set({}, isSurvey() ? choose : renew); });
$('again').addEventListener('click', () => busy(() => follow(true)));
$('add').addEventListener('click', () => set({ questions: [...state.questions, fresh()] }));
$('controls').addEventListener('submit', (event) => event.preventDefault());
$('skip').addEventListener('click', (event) => { event.preventDefault(); $('main').focus(); });

$('solve').addEventListener('click', async () => {
  const margin = typed($('goal').value);
  if (!(margin > 0)) {
    $('goal').focus();
    $('goal-text').textContent = 'Please write a number of people above 0, such as 20 or 2.5.';
    return;
  }
  $('solve').disabled = true;
  $('goal-text').textContent = 'searching…';
  await busy(async () => {
    try {
      const text = await solved(margin);
      if (text !== null) $('goal-text').textContent = text;
    } finally {
      $('solve').disabled = false;
    }
  });
});

/** Find the ε for a margin and choose it; return what to say, or null if another state was chosen meanwhile. */
async function solved(margin) {
  const mine = generation;
  try {
    const answer = await asked('solve', { inquiry: inquiry(), margin }, control.signal);
    if (mine !== generation) return null;
    if (!answer.epsilon) return answer.reason ?? answer.error ?? 'This takes too long; try again.';
    if (answer.epsilon > MOST_EPSILON) return `This needs ε = ${answer.epsilon}, which protects nobody; this page goes up to ${MOST_EPSILON}.`;
    set({ eps: answer.epsilon, family: '' });
    return `ε = ${answer.epsilon} is enough.`;
  } catch (error) {
    if (mine !== generation) return null;
    return error instanceof Refused ? error.message : 'The studio does not answer.';
  }
}

const tabs = [...document.querySelectorAll('[role=tab]')];
function pick(tab) {
  for (const one of tabs) {
    one.setAttribute('aria-selected', String(one === tab));
    one.tabIndex = one === tab ? 0 : -1;
  }
  form = tab.dataset.form;
  $('take').setAttribute('aria-labelledby', tab.id);
  take(shown);
}
tabs.forEach((tab, place) => {
  tab.addEventListener('click', () => pick(tab));
  tab.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const other = tabs[(place + step + tabs.length) % tabs.length];
    other.focus();
    pick(other);
  });
});
$('copy').addEventListener('click', () => copy($('copy'), $('take').textContent, $('take')));
$('link').addEventListener('click', () => copy($('link'), location.href));
$('save').addEventListener('click', () => download('plan.json', 'application/json', shown.plan));
$('report').addEventListener('click', () => busy(async () => {
  const others = Object.values(found).filter((one) => one.state === 'certified' && !one.preliminary).map((one) => one.id);
  $('take-problem').textContent = '';
  try {
    const answer = await asked('report', { plan: shown.id, others });
    if (answer.html) download('report.html', 'text/html', answer.html);
    else $('take-problem').textContent = answer.error ?? 'The report was not made; please try again.';
  } catch (error) {
    trouble(error, renew);
  }
}));

addEventListener('hashchange', () => { read(); paste(); show(); renew(); });
let wait = 0;
addEventListener('resize', () => { clearTimeout(wait); wait = setTimeout(() => { drawNow(); if (followed) drawRest(); }, 120); });
read();
paste();
show();
renew();
