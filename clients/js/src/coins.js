/**
 * Exact randomness in whole numbers: coins on the grid of 2⁻⁴⁸, and uniform numbers.
 *
 * No float decides anything. Bytes are used in the order of the Python device, so that the same bytes give the same
 * messages.
 */

import { hex } from './bytes.js';
import { EntropyFailure } from './errors.js';

/** @typedef {(size: number) => Uint8Array} Source A source of uniformly random bytes. */

const SLICES = 10;
const CHUNK = 65536; // the most bytes that one call of getRandomValues returns

/**
 * The randomness of the browser or of the operating system.
 * @type {Source}
 */
export function system(size) {
  const data = new Uint8Array(size);
  for (let at = 0; at < size; at += CHUNK) crypto.getRandomValues(data.subarray(at, at + CHUNK));
  return data;
}

/**
 * Return random bytes as a number, the least significant first.
 * @param {Source} source
 * @param {number} size
 */
export function drawNumber(source, size) {
  const data = source(size);
  if (!(data instanceof Uint8Array) || data.length !== size) {
    throw new EntropyFailure(`the entropy source must return ${size} bytes`);
  }
  return BigInt(`0x0${hex(data.slice().reverse())}`);
}

/**
 * Return a number whose bits 0 … width − 1 are independent, each 1 with probability exactly numerator/2⁴⁸.
 *
 * Compares random binary fractions with the probability, digit by digit, until all are decided. With r the complement
 * of the random digit, an undecided bit becomes 1 if the digit of the probability and r are both 1, and stays undecided
 * if both are equal otherwise.
 * @param {number} width
 * @param {bigint} numerator
 * @param {Source} source
 */
export function coins(width, numerator, source) {
  const digits = numerator.toString(2).padStart(48, '0').replace(/0+$/, '');
  const size = Math.ceil((SLICES * width) / 8);
  const step = BigInt(width);
  let ones = 0n;
  let undecided = (1n << step) - 1n;
  for (let start = 0; start < digits.length && undecided; start += SLICES) {
    let noise = drawNumber(source, size);
    for (const digit of digits.slice(start, start + SLICES)) {
      const kept = undecided & noise;
      if (digit === '1') {
        ones |= kept;
        undecided ^= kept;
      } else {
        undecided = kept;
      }
      noise >>= step;
    }
  }
  return ones;
}

/**
 * Return true with probability exactly numerator/2⁴⁸: 48 random digits, as a number, are below the numerator.
 * @param {bigint} numerator
 * @param {Source} source
 */
export const coin = (numerator, source) => drawNumber(source, 6) < numerator;

/**
 * Return a uniform number of [0, below), by rejection.
 * @param {bigint} below
 * @param {Source} source
 */
export function uniform(below, source) {
  const bits = below === 1n ? 0 : (below - 1n).toString(2).length;
  const mask = (1n << BigInt(bits)) - 1n;
  for (;;) {
    const value = drawNumber(source, Math.ceil(bits / 8)) & mask;
    if (value < below) return value;
  }
}
