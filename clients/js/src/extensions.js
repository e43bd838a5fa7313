/**
 * Parts that the core uses if they are loaded, so that pages that do not need them stay small.
 *
 * `questions.js` reads surveys, `fakes.js` draws fakes, `overflow.js` checks the slots of plans with fakes or single
 * bits, `tokens.js` checks the keys of token issuers. `index.js` loads all of them.
 */

import { demand } from './errors.js';

/**
 * @typedef {object} Extensions
 * @property {(questions: import('./json.js').Json[], derived: string[]) => import('./questions.js').Questions} [survey]
 * @property {(m: import('./plan.js').Noise['m'], source: import('./coins.js').Source) => number} [draw]
 * @property {(plan: import('./plan.js').Plan, given: number | undefined, source: import('./coins.js').Source) => bigint[]} [fakes]
 * @property {(plan: import('./plan.js').Plan, slots: number) => void} [checkSlots]
 * @property {(key: Uint8Array) => void} [checkTokenKey]
 */

/** @type {Extensions} */
export const loaded = {};

/**
 * Return a part; throws if it is not loaded.
 * @template {keyof Extensions} K
 * @param {K} name
 * @returns {NonNullable<Extensions[K]>}
 */
export function need(name) {
  const part = loaded[name];
  demand(part, `the core has no '${name}': import 'hubbub-client'`);
  return part;
}
