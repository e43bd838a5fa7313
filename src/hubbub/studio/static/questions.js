// The editor of several questions.
import { $, el, typed } from './common.js';
import { state } from './state.js';

const KINDS = { choice: 'one of', flag: 'yes or no', number: 'a number: mean', scale: 'a number: distribution' };
const EMPTY = {
  choice: { labels: ['a', 'b', 'c'] }, flag: {}, number: { low: 0, high: 100 }, scale: { low: 0, high: 100, buckets: 64 },
};

/** Show the questions; ``changed`` gets the new list after every edit. */
export function editor(changed) {
  const list = state.questions;
  const replace = (place, one) => changed(list.map((other, i) => (i === place ? one : other)));
  $('questions').replaceChildren(...list.map((one, place) => row(one, place, replace, () => {
    changed(list.filter((_, i) => i !== place));
    $('add').focus();
  }, list.length > 1)));
  $('add').disabled = list.length >= 12;
}

/** A bound that was typed; nonsense changes nothing. */
const bound = (value, before) => (Number.isFinite(typed(value)) ? typed(value) : before);

function row(one, place, replace, remove, removable) {
  const label = (what) => `Question ${place + 1}: ${what}`;
  const text = (value, what, set) => {
    const input = el('input', { type: 'text', value });
    input.setAttribute('aria-label', label(what));
    input.addEventListener('change', () => set(input.value));
    return input;
  };
  const kind = el('select', {}, ...Object.entries(KINDS).map(([value, name]) => el('option', { value, textContent: name })));
  kind.value = one.kind;
  kind.setAttribute('aria-label', label('kind'));
  kind.addEventListener('change', () => replace(place, { name: one.name, kind: kind.value, ...EMPTY[kind.value] }));
  const gone = el('button', { type: 'button', textContent: '×', disabled: !removable });
  gone.setAttribute('aria-label', label('remove'));
  gone.addEventListener('click', remove);
  const details = el('div', { className: 'row' });
  if (one.kind === 'choice') {
    details.append(text(one.labels.join(', '), 'answers, separated by commas',
      (value) => replace(place, { ...one, labels: value.split(',').map((each) => each.trim()).filter(Boolean) })));
  } else if (one.kind !== 'flag') {
    details.append(text(String(one.low), 'lowest', (value) => replace(place, { ...one, low: bound(value, one.low) })), 'to',
      text(String(one.high), 'highest', (value) => replace(place, { ...one, high: bound(value, one.high) })));
  }
  return el('li', {}, el('div', { className: 'row' }, text(one.name, 'name', (name) => replace(place, { ...one, name })), gone),
    el('div', { className: 'row' }, kind), ...(details.childNodes.length ? [details] : []));
}

/** A question with a name that no other one has. */
export function fresh() {
  const names = new Set(state.questions.map((one) => one.name));
  let number = state.questions.length + 1;
  while (names.has(`question ${number}`)) number += 1;
  return { name: `question ${number}`, kind: 'flag' };
}
