// The state of the page: what the controls say, what the address says after “#”, and what the studio is asked.

export const START = {
  kind: 'one', d: 12, k: 3, n: 100000, eps: 1, delta: 6, rounds: 1, trust: 'shuffling', clear: false, compromised: 0, drop: 0,
  joint: false, family: '', shape: 'few', low: 0, high: 100, measure: 'mean', bytes: 64,
  questions: [
    { name: 'colour', kind: 'choice', labels: ['red', 'green', 'blue'] },
    { name: 'dark mode', kind: 'flag' },
    { name: 'load time', kind: 'scale', low: 0, high: 4000, buckets: 64 },
  ],
};

const between = (low, high) => (value) => (Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : undefined);
const integer = (low, high) => (value) => between(low, high)(Math.round(value));
const oneOf = (...values) => (value) => (values.includes(value) ? value : undefined);
const RANGES = {
  kind: oneOf('one', 'few', 'any', 'number', 'several', 'strings'), bytes: oneOf(16, 32, 64, 128, 256), d: integer(2, 2000), k: integer(1, 50), n: integer(10, 1e9),
  eps: between(0.01, 20), delta: integer(3, 12), rounds: integer(1, 1000), compromised: integer(0, 90), drop: integer(0, 90),
  trust: oneOf('nobody', 'shuffling', 'shuffler-noise'), shape: oneOf('even', 'few', 'rare', 'own'),
  measure: oneOf('mean', 'spread'), low: between(-1e12, 1e12), high: between(-1e12, 1e12),
  family: (value) => (/^[a-z-]{0,40}$/.test(value) ? value : undefined),
  clear: (value) => Boolean(value), joint: (value) => Boolean(value),
};

export const state = structuredClone(START);

/** Take over values that are within their ranges; others are left as they are. */
export function change(values) {
  for (const [key, value] of Object.entries(values)) {
    const legal = key === 'questions' ? checkedQuestions(value) : RANGES[key]?.(value);
    if (legal !== undefined) state[key] = legal;
  }
  if (!(state.low < state.high)) state.high = state.low + 1;
}

/** A text, or a number as one; what else an address holds is no text. */
const words = (value) => (typeof value === 'string' || typeof value === 'number' ? String(value) : '');
const real = (value) => (typeof value === 'string' || typeof value === 'number' ? Number(value) : NaN);

function checkedQuestions(value) {
  if (!Array.isArray(value) || value.length === 0 || value.length > 12) return undefined;
  const made = value.map((one) => {
    const name = words(one?.name).slice(0, 60), [low, high] = [real(one?.low), real(one?.high)];
    const bounds = Number.isFinite(low) && Number.isFinite(high) && low < high ? { low, high } : { low: 0, high: 100 };
    if (one?.kind === 'choice') return { name, kind: 'choice', labels: [].concat(one.labels ?? []).map(words).slice(0, 100) };
    if (one?.kind === 'number') return { name, kind: 'number', ...bounds };
    if (one?.kind === 'scale') return { name, kind: 'scale', ...bounds, buckets: integer(2, 1024)(real(one.buckets)) ?? 64 };
    return { name, kind: 'flag' };
  });
  return made;
}

/** Read the state from the address; unknown and illegal entries are ignored. */
export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const values = structuredClone(START);
  for (const [key, text] of given) {
    if (!Object.hasOwn(START, key)) continue;
    if (key === 'questions') {
      try { values.questions = JSON.parse(text); } catch { /* the address was cut off: the example stays */ }
    } else if (typeof START[key] === 'number') values[key] = Number(text);
    else if (typeof START[key] === 'boolean') values[key] = text === '1';
    else values[key] = text;
  }
  if (values.shape === 'own') values.shape = START.shape;
  change(START);
  change(values);
}

/** Write into the address what differs from the start. */
export function write() {
  const given = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (JSON.stringify(value) === JSON.stringify(START[key]) || (key === 'shape' && value === 'own')) continue; // pasted lines are no part of a link
    given.set(key, key === 'questions' ? JSON.stringify(value) : typeof value === 'boolean' ? '1' : String(value));
  }
  history.replaceState(null, '', `${location.pathname}#${given}`);
}

export const isSurvey = () => state.kind === 'number' || state.kind === 'several';
export const isText = () => state.kind === 'strings';

function questions() {
  if (state.kind === 'several') return state.questions;
  const { low, high } = state;
  if (state.measure === 'mean') return [{ name: 'number', kind: 'number', low, high }];
  return [{ name: 'number', kind: 'scale', low, high, buckets: 64 }];
}

/** What the studio is asked. */
export const inquiry = () => ({
  kind: isSurvey() ? 'survey' : state.kind, d: isText() ? state.bytes : state.d, k: Math.min(state.k, state.d),
  questions: isSurvey() ? questions() : [], n: state.n, epsilon: state.eps, delta: Number(`1e-${state.delta}`),
  rounds: state.rounds, trust: state.trust, clear: state.trust === 'shuffling' && state.clear, compromised: state.compromised,
  joint: !isSurvey() && !isText() && state.joint,
});
