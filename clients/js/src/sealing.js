/** Bundles: every message sealed to the analyzer, all slots of one person together to the shuffler, at a fixed size. */

import { concat, uint16 } from './bytes.js';
import { demand } from './errors.js';
import { need } from './extensions.js';
import { X25519, createContext, seal } from './hpke.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./contract.js').Contract} Contract
 * @typedef {import('./contract.js').Keys} Keys
 * @typedef {import('./hpke.js').Kem} Kem
 */

const VERSION = 2;

/**
 * Seal the messages of one person, with fillers for unused slots, and the admission.
 * @param {Uint8Array[]} messages
 * @param {Uint8Array} admission
 * @param {Contract} contract
 * @param {Keys} keys
 * @param {{round?: number, kem?: Kem}} [options] suite 2 needs the mechanism of `hubbub-client/xwing`
 * @returns {Promise<Bytes>}
 */
export async function sealBundle(messages, admission, contract, keys, { round = 1, kem } = {}) {
  const { plan, slots, suite } = contract;
  const used = kem ?? X25519;
  demand(used.publicSize === keys.shuffler.key.length, `suite ${suite} needs another kem`);
  demand(admission.length === contract.admission.size, `an admission must have ${contract.admission.size} bytes`);
  demand(
    messages.length <= slots && messages.every((one) => one.length === plan.payload),
    `a bundle has ${slots} slots of ${plan.payload} bytes`,
  );
  const context = contract.series ? await need('roundContext')(contract.task, round) : contract.task;
  const inner = uint16(keys.analyzer.id);
  const outer = uint16(keys.shuffler.id);
  const slot = await createContext(used, concat('hubbub/2 slot', context, inner));
  const bundle = await createContext(used, concat('hubbub/3 bundle', context, outer));
  const sealed = await Promise.all(
    Array.from({ length: slots }, (_, i) => {
      const message = messages[i] ?? new Uint8Array(plan.payload);
      return seal(slot, keys.analyzer.key, concat(Uint8Array.of(VERSION, Number(i < messages.length)), message));
    }),
  );
  const plain = concat(admission, ...sealed.flatMap((one) => [inner, one]));
  const header = concat('HBB3', Uint8Array.of(suite, 0), outer, context);
  return concat(header, await seal(bundle, keys.shuffler.key, plain));
}
