/** Random numbers of fakes, exact in whole numbers: binomial and Poisson. */

import { coins, draw } from './coins.js';
import { loaded } from './extensions.js';

/** @typedef {import('./coins.js').Source} Source */

/** Probabilities are whole multiples of 1/GRID. */
export const GRID = 1n << 48n;

/**
 * Return the number of ones among the binary digits of a number.
 * @param {bigint} value
 */
const countOnes = (value) => value.toString(2).replaceAll('0', '').length;

/**
 * Return a Binomial(trials, chance) number; the chance is rounded up to the grid, which only adds noise.
 * @param {number} trials
 * @param {number} chance
 * @param {Source} source
 */
export function binomial(trials, chance, source) {
  const numerator = ceilOfProduct(chance, GRID);
  return numerator >= GRID || !trials ? trials : countOnes(coins(trials, numerator, source));
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
    const word = draw(source, 16);
    total += edges.filter((edge) => word >= edge).length;
  }
  const keep = ceilOfProduct(rate, GRID, BigInt(whole));
  return keep >= GRID || !total ? total : countOnes(coins(total, keep, source));
}

/** @type {bigint[] | undefined} */
let edges;

/** Return ⌊2¹²⁸·P[Poisson(1) ≤ k]⌋ for k = 0, 1, …, as the Python device computes it. */
function poissonEdges() {
  let inverse = 0n;
  let term = 1n << 192n;
  for (let k = 1n; k < 60n; k++) {
    inverse += term;
    // Division rounds towards −∞.
    term = term > 0n ? -((term + k - 1n) / k) : -term / k;
  }
  const found = [];
  let total = 0n;
  term = inverse;
  for (let k = 1n; k < 60n; k++) {
    total += term;
    found.push(total >> 64n);
    term /= k;
    if (!(term >> 64n)) break;
  }
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

loaded.draw = ({ distribution, scale, shift }, source) =>
  distribution === 'poisson' ? poisson(scale, source) : binomial(shift, scale, source);
