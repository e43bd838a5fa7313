/** The device: encode one person's answer, flip it, and return the payloads of its messages. */

import { fromNumber } from './bytes.js';
import { coin, coins, system, uniform } from './coins.js';
import { demand, own } from './errors.js';
import { need } from './extensions.js';

const STEPS = 1n << 48n; // largest product of the ranges of steps that share a random number

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./coins.js').Source} Source
 * @typedef {import('./plan.js').Plan} Plan
 * @typedef {import('./plan.js').Schema} Schema
 * @typedef {import('./plan.js').Noise} Noise
 */

/**
 * Return a record as a number whose bit i is label i.
 *
 * One-hot schemas take one label, surveys an object from questions to answers, all others a list of labels; schemas of
 * a single bit also take a boolean. The numbers of surveys are rounded at random.
 * @param {unknown} value
 * @param {Schema} schema
 * @param {Source} [source]
 */
export function encode(value, schema, source = system) {
  if (schema.questions) {
    const answers = schema.questions.encode(value, (numerator) => coin(numerator, source));
    return schema.attributes.reduce((sum, one, i) => sum | (1n << BigInt(one.start + Number(answers[i]))), 0n);
  }
  if (schema.width === 1 && typeof value === 'boolean') return BigInt(value);
  const labels = schema.kind === 'one_hot' ? [value] : value;
  demand(Array.isArray(labels), 'the value must be a list of labels');
  let record = 0n;
  for (const label of labels) {
    const place = schema.labels.indexOf(label);
    const bit = place < 0 ? 0n : 1n << BigInt(place);
    demand(bit & ~record, 'the value must have distinct labels of the schema');
    record |= bit;
  }
  demand(labels.length <= schema.maxSet, `the value must have at most ${schema.maxSet} labels`);
  return record;
}

/**
 * Return the payloads of all messages of one person, in random order, each of `plan.payload` bytes.
 *
 * If the plan fixes the total number m of fakes, a device adds m/n, or `fakes`; n must divide m unless it is given.
 * @param {unknown} value
 * @param {Plan} plan
 * @param {{fakes?: number, source?: Source}} [options]
 * @returns {Bytes[]}
 */
export function payloads(value, plan, options) {
  const { fakes, source = system } = own(options);
  const { schema, protocol } = plan;
  const record = encode(value, schema, source);
  const noise = /** @type {Noise} */ (protocol.noise[0]);
  return messagesOf().map((one) => fromNumber(one, plan.payload).reverse());

  function messagesOf() {
    if (schema.questions) {
      demand(fakes === undefined, 'fakes must be omitted for a survey');
      return need('answers')(record, plan, source);
    }
    const others = noise.m === 0 && fakes === undefined ? [] : need('fakes')(plan, fakes, source);
    const { width } = schema;
    if (protocol.release === 'category') {
      return [response(place(record), width, noise.flip, source)];
    }
    const sent = [...Array(protocol.k).fill(record), ...others].map((one) => one ^ coins(width, noise.flip, source));
    return permuted(protocol.release === 'bits' ? sent.flatMap(setBits) : sent, source);
  }
}

/**
 * Put messages into uniform random order, several steps of Fisher and Yates for each random number.
 *
 * It must not tell the answers from the fakes, nor one copy from another.
 * @param {bigint[]} messages
 * @param {Source} source
 */
export function permuted(messages, source) {
  for (let last = messages.length - 1; last > 0; ) {
    const first = last;
    let product = 1n;
    while (last > 0 && product <= STEPS / BigInt(last + 1)) product *= BigInt(last-- + 1);
    let value = uniform(product, source);
    for (let at = first; at > last; at--) {
      const other = Number(value % BigInt(at + 1));
      [messages[at], messages[other]] = /** @type {[bigint, bigint]} */ ([messages[other], messages[at]]);
      value /= BigInt(at + 1);
    }
  }
  return messages;
}

/**
 * Return a category of `size` by randomized response: every other one has probability flip/2⁴⁸.
 * @param {bigint} answer
 * @param {number} size
 * @param {bigint} flip
 * @param {Source} source
 */
export function response(answer, size, flip, source) {
  const others = BigInt(size - 1);
  if (!coin(others * flip, source)) return answer;
  const other = uniform(others, source);
  return other + BigInt(other >= answer);
}

/**
 * Return the index of the only bit that is set.
 * @param {bigint} bits
 */
export const place = (bits) => BigInt(bits.toString(2).length - 1);

/**
 * Return the indices of the set bits, in order.
 * @param {bigint} bits
 */
export function setBits(bits) {
  return [...bits.toString(2)].reverse().flatMap((digit, i) => (digit === '1' ? [BigInt(i)] : []));
}
