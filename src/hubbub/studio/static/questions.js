// The editor of several questions. Its fields stay in place while they are edited, so that the keyboard keeps its own.
import { $, el, typed } from './common.js';
import { state } from './state.js';

const KINDS = { choice: 'one of', flag: 'yes or no', number: 'a number: mean', scale: 'a number: distribution' };
const EMPTY = {
  choice: { labels: ['a', 'b', 'c'] }, flag: {}, number: { low: 0, high: 100 }, scale: { low: 0, high: 100, buckets: 64 },
};
/** Labels in one line, separated by commas; one that holds a comma is quoted as in a CSV file. */
const joined = (labels) => labels.map((one) => (/[",]/.test(one) ? `"${one.replaceAll('"', '""')}"` : one)).join(', ');
const split = (text) => [...text.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^,]*))\s*(?:,|$)/g)].map(([, quoted, plain]) => (quoted?.replaceAll('""', '"') ?? plain).trim()).filter(Boolean);
/** The fields of each kind: a name, the text of a question, and the question with another text. */
const LABELS = ['answers, separated by commas', (one) => joined(one.labels), (one, text) => ({ ...one, labels: split(text) })];
const BOUNDS = [['lowest', (one) => String(one.low), (one, text) => ({ ...one, low: bound(text, one.low) })],
  ['highest', (one) => String(one.high), (one, text) => ({ ...one, high: bound(text, one.high) })]];
const FIELDS = { choice: [LABELS], flag: [], number: BOUNDS, scale: BOUNDS };
const NAME = ['name', (one) => one.name, (one, name) => ({ ...one, name })];

/** A bound that was typed; nonsense changes nothing. */
const bound = (text, before) => (Number.isFinite(typed(text)) ? typed(text) : before);

let rows = [];

/** Show the questions; ``changed`` gets the new list after every edit. */
export function editor(changed) {
  if (rows.length !== state.questions.length) {
    rows = state.questions.map((_, place) => row(place, changed));
    $('questions').replaceChildren(...rows.map((one) => one.item));
  }
  for (const one of rows) one.update();
  $('add').disabled = rows.length >= 12;
}

function row(place, changed) {
  const now = () => state.questions[place];
  const label = (what) => `Question ${place + 1}: ${what}`;
  const replace = (one) => changed(state.questions.map((other, i) => (i === place ? one : other)));
  const field = ([what, get, put]) => {
    const input = el('input', { type: 'text' });
    input.setAttribute('aria-label', label(what));
    input.addEventListener('change', () => replace(put(now(), input.value)));
    return { input, update: () => { if (document.activeElement !== input) input.value = get(now()); } };
  };
  const kind = el('select', {}, ...Object.entries(KINDS).map(([value, name]) => el('option', { value, textContent: name })));
  kind.setAttribute('aria-label', label('kind'));
  kind.addEventListener('change', () => replace({ name: now().name, kind: kind.value, ...EMPTY[kind.value] }));
  const gone = el('button', { type: 'button', textContent: '×' });
  gone.setAttribute('aria-label', label('remove'));
  gone.addEventListener('click', () => {
    changed(state.questions.filter((_, i) => i !== place));
    $('add').focus();
  });
  const name = field(NAME), details = el('div', { className: 'row' });
  let drawn = null, fields = [];
  function update() {
    name.update();
    kind.value = now().kind;
    gone.disabled = state.questions.length <= 1;
    if (drawn !== now().kind) {
      drawn = now().kind;
      fields = FIELDS[drawn].map(field);
      details.replaceChildren(...fields.flatMap((one, i) => (i ? ['to', one.input] : [one.input])));
      details.hidden = !fields.length;
    }
    for (const one of fields) one.update();
  }
  return { update, item: el('li', {}, el('div', { className: 'row' }, name.input, gone), el('div', { className: 'row' }, kind), details) };
}

/** A question with a name that no other one has. */
export function fresh() {
  const names = new Set(state.questions.map((one) => one.name));
  let number = state.questions.length + 1;
  while (names.has(`question ${number}`)) number += 1;
  return { name: `question ${number}`, kind: 'flag' };
}
