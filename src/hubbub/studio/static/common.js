// What all pages share: elements, numbers for people, requests to the studio.

export const $ = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export const bold = (text) => el('b', { textContent: text });

/** A number with three digits, as people write it. */
export function short(value) {
  if (value === 0) return '0';
  if (Math.abs(value) < 1e-6 || Math.abs(value) >= 1e13) return Number(value.toPrecision(3)).toExponential();
  const rounded = Number(value.toPrecision(3));
  return rounded.toLocaleString('en', { maximumFractionDigits: 8 });
}

/** A certified loss with three digits, rounded up so that nobody is promised too much. */
export function atMost(value) {
  if (value === 0) return '0';
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  return short(Math.ceil(value / unit - 1e-6) * unit);
}

/** A number with three digits, rounded down, for what happens at most one time in so many. */
export function atLeast(value) {
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  return short(Math.floor(value / unit + 1e-6) * unit);
}

/** A number as people type it, with commas between thousands; NaN if there is none, or if a comma may be a decimal point. */
export function typed(text) {
  const given = text.trim();
  return /^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$/.test(given) ? Number(given.replaceAll(',', '')) : given ? Number(given) : NaN;
}

/** A margin in people: what is smaller than a tenth of a person is right to within that, and zero is zero. */
export const ofPeople = (value) => short(value > 0 ? Math.max(value, 0.1) : value);

export const whole = (value) => Math.round(value).toLocaleString('en');

/** Right guesses of a hundred, rounded up so that nobody is promised too much. */
export const ofHundred = (share) => Math.min(100, Math.ceil(100 * share - 1e-9));

export const percent = (share) => (share > 0.999 ? '100 %' : `${(Math.ceil(1000 * share - 1e-9) / 10).toFixed(1)} %`);

const tab = Array.from(crypto.getRandomValues(new Uint8Array(12)), (one) => one.toString(16).padStart(2, '0')).join('');

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function sent(path, body, signal) {
  const response = await fetch(`/api/${path}`, {
    method: 'POST', signal, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
  });
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Refused(response.status, told.error ?? 'the studio refused the request');
  }
  return response;
}

/** Ask the studio; the tab tells it which work is out of date. */
export const ask = async (path, body, signal) => (await sent(path, body, signal)).json();
export const asked = async (path, body, signal) => ask(path, { tab, ...body }, signal);

/** Read one JSON object for each line of an answer, as they arrive. */
export async function stream(path, body, signal, each) {
  const reader = (await sent(path, { tab, ...body }, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? '')).split('\n');
    rest = lines.pop();
    for (const line of lines) each(JSON.parse(line));
    if (done) return;
  }
}

export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export async function copy(button, text, shown) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Press Ctrl-C';
    if (shown) getSelection().selectAllChildren(shown);
  }
  setTimeout(() => { button.textContent = label; }, 1400);
}
