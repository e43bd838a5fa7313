/** The fakes of one person: their number, exactly binomial, Poisson or fixed, and uniform legal records. */

import { coins, drawNumber, uniform } from './coins.js';
import { demand } from './errors.js';
import { loaded } from './extensions.js';
import { Fields } from './json.js';
import { fixedFakes } from './plan.js';

/**
 * @typedef {import('./coins.js').Source} Source
 * @typedef {import('./plan.js').Plan} Plan
 * @typedef {import('./plan.js').Noise} Noise
 * @typedef {import('./plan.js').Schema} Schema
 */

/** The smallest and largest scale of each distribution of fakes; binomial and Poisson scales must also be above 0. */
const SCALES = /** @type {const} */ ({
  binomial: [0, 1],
  poisson: [0, 2 ** 30],
  laplace: [2 ** -10, 2 ** 30],
  gaussian: [2 ** -10, 2 ** 30],
});
const NAMES = /** @type {import('./plan.js').Fakes['distribution'][]} */ (Object.keys(SCALES));
/** Probabilities are whole multiples of 1/GRID. */
export const GRID = 1n << 48n;

/**
 * Return a Binomial(trials, chance/divisor) number; the chance is rounded up to the grid, which only adds noise.
 * @param {number} trials
 * @param {number} chance
 * @param {Source} source
 * @param {number} [divisor]
 */
export function binomial(trials, chance, source, divisor = 1) {
  const numerator = ceilOfProduct(chance, GRID, BigInt(divisor));
  if (numerator >= GRID || !trials) return trials;
  return coins(trials, numerator, source).toString(2).replaceAll('0', '').length;
}

/**
 * Return a Poisson number: the sum of ⌈rate⌉ numbers of rate 1 by inversion, thinned with probability rate/⌈rate⌉.
 *
 * The thinning probability is rounded up to the grid, so there is never less noise than requested.
 * @param {number} rate
 * @param {Source} source
 */
export function poisson(rate, source) {
  const whole = Math.ceil(rate);
  edges ??= poissonEdges();
  let total = 0;
  for (let i = 0; i < whole; i++) {
    const word = drawNumber(source, 16);
    total += edges.filter((edge) => word >= edge).length;
  }
  return binomial(total, rate, source, whole);
}

/** @type {bigint[] | undefined} */
let edges;

/** Return ⌊2¹²⁸·P[Poisson(1) ≤ k]⌋ for k = 0, 1, …, as the Python device computes it. */
function poissonEdges() {
  // In units of 2⁻¹⁹², whose rounding errors are far below 2⁻¹²⁸: first e, then e⁻¹/k!.
  let e = 0n;
  for (let k = 0n, term = 1n << 192n; term; term /= ++k) e += term;
  const found = [];
  let total = 0n;
  for (let k = 1n, term = (1n << 384n) / e; term >> 64n; term /= k++) found.push((total += term) >> 64n);
  return found;
}

/**
 * Return ⌈value·factor/divisor⌉ of a float of at least 0, without rounding in between.
 * @param {number} value
 * @param {bigint} factor
 * @param {bigint} [divisor]
 */
export function ceilOfProduct(value, factor, divisor = 1n) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const raw = view.getBigUint64(0);
  const exponent = Number(raw >> 52n);
  const mantissa = (raw & ((1n << 52n) - 1n)) | (exponent ? 1n << 52n : 0n);
  const power = (exponent || 1) - 1075;
  const numerator = (mantissa * factor) << BigInt(Math.max(power, 0));
  const denominator = divisor << BigInt(Math.max(-power, 0));
  return (numerator + denominator - 1n) / denominator;
}

/**
 * @param {Plan} plan
 * @param {Source} source
 */
function numberOfFakes(plan, source) {
  const total = fixedFakes(plan);
  demand(total % plan.n === 0, 'fakes must be given unless n divides their total');
  return total / plan.n || draw(/** @type {Noise} */ (plan.protocol.noise[0]).m, source);
}

/**
 * Draw the number of fakes of one person; those of the shuffler are none of the device's.
 * @param {Noise['m']} m
 * @param {Source} source
 */
function draw(m, source) {
  if (typeof m === 'number' || !m.byUsers) return 0;
  return m.distribution === 'poisson' ? poisson(m.scale, source) : binomial(m.shift, m.scale, source);
}

/**
 * Throw unless a device may add this number of fakes: a part of the fixed total, and no small one.
 * @param {Plan} plan
 * @param {number} fakes
 */
function checkShare(plan, fakes) {
  const total = fixedFakes(plan);
  const least = plan.honestFraction < 1 ? Math.floor(total / plan.n) : 0;
  const random = plan.protocol.noise.some(({ m }) => typeof m === 'object');
  demand(!random, 'fakes must be omitted unless the plan fixes their total');
  demand(
    Number.isSafeInteger(fakes) && fakes >= least && fakes <= total,
    `fakes must be a whole number of [${least}, ${total}]`,
  );
}

/**
 * Draw a uniform legal record: first the number of set bits, then which ones, by Floyd's algorithm (1987).
 * @param {Schema} schema
 * @param {Source} source
 */
function fake({ kind, width, maxSet, attributes }, source) {
  if (kind === 'bits') return uniform(1n << BigInt(width), source);
  if (attributes.length) return 1n << uniform(BigInt(width), source);
  const counts = [1n];
  for (let i = 1; i <= maxSet; i++) {
    counts.push((/** @type {bigint} */ (counts[i - 1]) * BigInt(width - i + 1)) / BigInt(i));
  }
  let left = uniform(counts.reduce((sum, one) => sum + one), source);
  let size = 0;
  for (let count; left >= (count = /** @type {bigint} */ (counts[size])); size++) left -= count;
  let record = 0n;
  for (let last = width - size; last < width; last++) {
    const bit = 1n << uniform(BigInt(last + 1), source);
    record |= record & bit ? 1n << BigInt(last) : bit;
  }
  return record;
}

loaded.draw = draw;
loaded.fakes = (plan, given, source) => {
  if (given !== undefined) checkShare(plan, given);
  return Array.from({ length: given ?? numberOfFakes(plan, source) }, () => fake(plan.schema, source));
};
loaded.readFakes = (value) => {
  const fakes = new Fields(value, 'the fakes', 'distribution', 'scale', 'shift');
  const distribution = fakes.choice('distribution', NAMES);
  const [low, high] = SCALES[distribution];
  const scale = fakes.real('scale', low || Number.MIN_VALUE, high);
  const shift = fakes.whole('shift', Number(distribution === 'binomial'), 2 ** 40);
  return { distribution, scale, shift, byUsers: low === 0 };
};
