/** The device: encode one person's answer, flip it, and return the payloads of its messages. */

import { coin, coins, system, uniform } from './coins.js';
import { demand } from './errors.js';
import { need } from './extensions.js';

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
    demand(place >= 0, 'the value must have labels of the schema only');
    const bit = 1n << BigInt(place);
    demand(!(record & bit), 'the value must have distinct labels');
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
export function payloads(value, plan, { fakes, source = system } = {}) {
  const { schema, protocol } = plan;
  const record = encode(value, schema, source);
  const noise = /** @type {Noise} */ (protocol.noise[0]);
  if (schema.questions) {
    demand(fakes === undefined, 'fakes must be omitted for a survey');
    return need('answers')(record, plan, source).map((one) => toPayload(one, plan.payload));
  }
  const others = noise.m === 0 && fakes === undefined ? [] : need('fakes')(plan, fakes, source);
  const { width } = schema;
  if (protocol.release === 'category') {
    return [toPayload(category(place(record), width, noise.flip, source), plan.payload)];
  }
  const sent = [...Array.from({ length: protocol.k }, () => record), ...others];
  const flipped = sent.map((one) => one ^ coins(width, noise.flip, source));
  return mixed(protocol.release === 'bits' ? flipped.flatMap((one) => setBits(one)) : flipped, plan, source);
}

/**
 * Return payloads in random order: it must not tell the record from the fakes, nor one copy from another.
 * @param {bigint[]} messages
 * @param {Plan} plan
 * @param {Source} source
 */
function mixed(messages, plan, source) {
  for (let last = messages.length - 1; last > 0; last--) {
    const other = Number(uniform(BigInt(last + 1), source));
    const kept = /** @type {bigint} */ (messages[last]);
    messages[last] = /** @type {bigint} */ (messages[other]);
    messages[other] = kept;
  }
  return messages.map((one) => toPayload(one, plan.payload));
}

/**
 * Return a number as bytes, the least significant first.
 * @param {bigint} value
 * @param {number} size
 * @returns {Bytes}
 */
function toPayload(value, size) {
  const data = new Uint8Array(size);
  const digits = value.toString(16).padStart(2 * size, '0');
  for (let i = 0; i < size; i++) data[size - 1 - i] = parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  return data;
}

/**
 * Return a category by randomized response: every other one has probability flip/2⁴⁸.
 * @param {number} true_
 * @param {number} size
 * @param {bigint} flip
 * @param {Source} source
 */
function category(true_, size, flip, source) {
  if (!coins(1, BigInt(size - 1) * flip, source)) return BigInt(true_);
  const other = uniform(BigInt(size - 1), source);
  return other + BigInt(other >= BigInt(true_));
}

/**
 * Return the index of the only bit that is set.
 * @param {bigint} bits
 */
export const place = (bits) => bits.toString(2).length - 1;

/**
 * Return the indices of the set bits, in order.
 * @param {bigint} bits
 */
export function setBits(bits) {
  const digits = bits.toString(2);
  /** @type {bigint[]} */
  const found = [];
  for (let i = digits.length - 1; i >= 0; i--) if (digits[i] === '1') found.push(BigInt(digits.length - 1 - i));
  return found;
}
