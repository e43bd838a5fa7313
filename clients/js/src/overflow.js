/**
 * The number of slots of a bundle, checked against the messages of a plan.
 *
 * A person may have more messages than a bundle has slots; the price (1 + e^ε)·n·P[messages > slots] is added to δ. The
 * probability is bounded by Chernoff, exp(K(t) − t(slots + 1)) for every t > 0, with K the cumulant generating function
 * of the messages of a person with the most bits set. Errs upwards. The Python library has the proof.
 */

import { check } from './errors.js';
import { GRID, ceilOfProduct } from './fakes.js';
import { loaded } from './extensions.js';
import { fixedFakes } from './plan.js';

/**
 * @typedef {import('./plan.js').Plan} Plan
 * @typedef {import('./plan.js').Noise} Noise
 * @typedef {(t: number) => number} Cumulant
 * @typedef {{low: number, high: number, cumulant: Cumulant}} Messages The fewest and most messages, and their K.
 */

const MAX_DELTA_SHARE = 1e-3; // largest part of δ that overflow may cost
const ROUNDING = 1e-9; // relative amount by which an exponent is rounded outwards
const MAX_EXPONENT = 700;
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/**
 * Throw unless bundles with this number of slots carry the messages of the plan's clients.
 * @param {Plan} plan
 * @param {number} slots
 */
export function checkSlots(plan, slots) {
  const { low, high, cumulant } = messages(plan);
  if (low === high) return check(slots === low, `slots must be ${low}`);
  check(slots <= high, `slots must be at most ${high}`);
  if (slots === high) return;
  const { epsilon, delta } = plan.guarantee;
  const [t, value] = minimize((one) => cumulant(one) - one * (slots + 1));
  const tail = Math.min(0, value + ROUNDING * (Math.abs(cumulant(t)) + t * (slots + 1)));
  const price = Math.log(plan.n) + epsilon + Math.log1p(Math.exp(-epsilon)) + tail;
  const cost = Math.exp(price + ROUNDING * Math.abs(price)) || Number.MIN_VALUE;
  check(cost <= MAX_DELTA_SHARE * delta, `slots must be more than ${slots}`);
}

/**
 * @param {Plan} plan
 * @returns {Messages}
 */
function messages(plan) {
  const { schema, protocol } = plan;
  const [first] = /** @type {[Noise]} */ (protocol.noise);
  if (schema.questions) return sum(schema.attributes.map(({ size }, i) => answer(plan, /** @type {Noise} */ (protocol.noise[i]), size)));
  const total = fixedFakes(plan);
  check(total % plan.n === 0, `m must be a multiple of n = ${plan.n}`);
  const { width, maxSet } = schema;
  const q = Number(first.flip) / 2 ** 48;
  const bits = protocol.release === 'bits';
  const own = bits ? flipped(width, maxSet, q) : one;
  const fake = !bits ? one : 2 * maxSet <= width ? own : anyBits(width);
  const drawn = fakes(first.m, total / plan.n, fake);
  const most = bits ? (first.flip ? width : maxSet) : 1;
  const least = bits && !(!first.flip && schema.kind === 'one_hot') ? 0 : 1;
  const found = {
    low: least * (protocol.k + drawn.low),
    high: most * (protocol.k + drawn.high),
    /** @type {Cumulant} */
    cumulant: (t) => protocol.k * own(t) + drawn.cumulant(t),
  };
  // Fillers are not hidden among fakes: their number is that of all slots minus the messages of the users.
  const hidden = typeof first.m === 'object' && !first.m.byUsers;
  check(!hidden || found.low === found.high, "clients must send equally many messages with the shuffler's fakes");
  return found;
}

/**
 * Return the messages for one attribute of a survey.
 * @param {Plan} plan
 * @param {Noise} noise
 * @param {number} size
 * @returns {Messages}
 */
function answer({ protocol }, { flip, m }, size) {
  if (protocol.release === 'category') return { low: 1, high: 1, cumulant: one };
  if (flip) return { low: 0, high: size, cumulant: flipped(size, 1, Number(flip) / 2 ** 48) };
  return sum([{ low: 1, high: 1, cumulant: one }, fakes(m, 0, one)]);
}

/**
 * Return the fakes of one person, whose messages have the cumulant `fake`: F·G(t) if their number F is fixed,
 * N·ln(1 + c(e^G − 1)) for Binomial(N, c), λ(e^G − 1) for Poisson(λ), none if the shuffler draws them.
 * @param {Noise['m']} m
 * @param {number} fixed
 * @param {Cumulant} fake
 * @returns {Messages}
 */
function fakes(m, fixed, fake) {
  if (typeof m === 'number' || !m.byUsers) return { low: fixed, high: fixed, cumulant: (t) => fixed * fake(t) };
  const whole = m.distribution === 'poisson' ? Math.ceil(m.scale) : 1;
  // Devices round the chance up to their grid.
  const chance = whole * Math.min(1, Number(ceilOfProduct(m.scale, GRID, BigInt(whole))) / 2 ** 48);
  if (m.distribution === 'poisson') return { low: 0, high: Infinity, cumulant: (t) => chance * Math.expm1(fake(t)) };
  return { low: chance === 1 ? m.shift : 0, high: m.shift, cumulant: (t) => m.shift * thinned(chance, fake(t)) };
}

/** @param {Messages[]} parts */
const sum = (parts) => ({
  low: parts.reduce((total, part) => total + part.low, 0),
  high: parts.reduce((total, part) => total + part.high, 0),
  /** @type {Cumulant} */
  cumulant: (t) => parts.reduce((total, part) => total + part.cumulant(t), 0),
});

/** @type {Cumulant} */
const one = (t) => t;

/**
 * Return ln(1 + c(e^g − 1)) for any g ≥ 0.
 * @param {number} chance
 * @param {number} g
 */
const thinned = (chance, g) =>
  g < 30 ? Math.log1p(chance * Math.expm1(g)) : g + Math.log(chance + (1 - chance) * Math.exp(-g));

/**
 * Return K of the set bits of a flipped record of which `ones` are set.
 * @param {number} width
 * @param {number} ones
 * @param {number} q
 * @returns {Cumulant}
 */
const flipped = (width, ones, q) => (t) =>
  ones * (t + Math.log1p(q * Math.expm1(-t))) + (width - ones) * Math.log1p(q * Math.expm1(t));

/**
 * Return K of the set bits of a uniform record.
 * @param {number} width
 * @returns {Cumulant}
 */
const anyBits = (width) => (t) => width * (t + Math.log1p(0.5 * Math.expm1(-t)));

/**
 * Return the minimizer of a unimodal function on (0, 700] and its value, by golden-section search (Kiefer 1953).
 * @param {Cumulant} f
 * @returns {[number, number]}
 */
function minimize(f) {
  let low = 0;
  let high = MAX_EXPONENT;
  for (let i = 0; i < 90; i++) {
    const left = high - GOLDEN * (high - low);
    const right = low + GOLDEN * (high - low);
    if (f(left) <= f(right)) high = right;
    else low = left;
  }
  return [high, f(high)];
}

loaded.checkSlots = checkSlots;
