/**
 * Parts that the core uses if they are loaded, so that pages that do not need them stay small.
 *
 * `questions.js` reads surveys, `series.js` rounds, `fakes.js` draws fakes, `overflow.js` checks the slots of plans with fakes or single
 * bits, `tokens.js` checks the keys of token issuers. `index.js` loads all of them.
 */

import { demand } from './errors.js';

/**
 * @typedef {import('./json.js').Json} Json
 * @typedef {import('./coins.js').Source} Source
 * @typedef {import('./plan.js').Plan} Plan
 * @typedef {object} Extensions
 * @property {(value: Json) => import('./plan.js').Schema} [survey]
 * @property {(record: bigint, plan: Plan, source: Source) => bigint[]} [answers]
 * @property {(value: Json) => import('./plan.js').Fakes} [readFakes]
 * @property {(value: Json, contract: import('./contract.js').Contract) => import('./series.js').Series} [series]
 * @property {(task: Uint8Array, round: number) => Promise<import('./bytes.js').Bytes>} [roundContext]
 * @property {(m: import('./plan.js').Noise['m'], source: Source) => number} [draw]
 * @property {(plan: Plan, given: number | undefined, source: Source) => bigint[]} [fakes]
 * @property {(plan: Plan, slots: number) => void} [checkSlots]
 * @property {(value: Json) => import('./bytes.js').Bytes} [tokenKey]
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
  demand(part, `import 'hubbub-client' for ${name}`);
  return part;
}
