/** The device: encode one person's answer, flip it, and return the payloads of its messages. */

import { coins, system, uniform } from './coins.js';
import { demand } from './errors.js';
import { need } from './extensions.js';
import { fixedFakes } from './plan.js';

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
    const answers = schema.questions.encode(value, (numerator) => coins(1, numerator, source) === 1n);
    return schema.attributes.reduce((sum, one, i) => sum | (1n << BigInt(one.start + Number(answers[i]))), 0n);
  }
  if (schema.width === 1 && typeof value === 'boolean') return BigInt(value);
  const labels = schema.kind === 'one_hot' ? [value] : value;
  demand(Array.isArray(labels), 'the value must be a list of labels');
  let record = 0n;
  for (const label of labels) {
    const place = schema.labels.indexOf(label);
    demand(place >= 0, 'the value must contain only labels of the schema');
    const bit = 1n << BigInt(place);
    demand(!(record & bit), 'the value must contain each label at most once');
    record |= bit;
  }
  demand(labels.length <= schema.maxSet, `the value must contain at most ${schema.maxSet} labels`);
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
  if (fakes !== undefined) checkShare(plan, fakes);
  const noise = /** @type {Noise} */ (protocol.noise[0]);
  if (schema.questions) return mixed(answers(record, plan, source), plan, source);
  const count = fakes ?? numberOfFakes(plan, source);
  const { width } = schema;
  if (protocol.release === 'category') {
    return [toPayload(category(place(record), width, noise.flip, source), plan.payload)];
  }
  const sent = Array.from({ length: protocol.k }, () => record);
  for (let i = 0; i < count; i++) sent.push(fake(schema, source));
  const flipped = sent.map((one) => one ^ coins(width, noise.flip, source));
  return mixed(protocol.release === 'bits' ? flipped.flatMap((one) => setBits(one)) : flipped, plan, source);
}

/**
 * Return the messages of a survey: for each attribute its category, its flipped bits, or it among fakes.
 * @param {bigint} record
 * @param {Plan} plan
 * @param {Source} source
 */
function answers(record, { schema, protocol }, source) {
  return schema.attributes.flatMap(({ start, size }, i) => {
    const { flip, m } = /** @type {Noise} */ (protocol.noise[i]);
    const bits = (record >> BigInt(start)) & ((1n << BigInt(size)) - 1n);
    const first = BigInt(start);
    if (protocol.release === 'category') return [first + category(place(bits), size, flip, source)];
    if (flip) return setBits(bits ^ coins(size, flip, source)).map((one) => first + one);
    const sent = [first + BigInt(place(bits))];
    for (let left = drawn(m, source); left > 0; left--) sent.push(first + uniform(BigInt(size), source));
    return sent;
  });
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
 * @param {Plan} plan
 * @param {Source} source
 */
function numberOfFakes(plan, source) {
  const total = fixedFakes(plan);
  demand(total % plan.n === 0, `fakes must be given if n = ${plan.n} does not divide their total ${total}`);
  return total / plan.n || drawn(/** @type {Noise} */ (plan.protocol.noise[0]).m, source);
}

/**
 * Draw the number of fakes of one person; those of the shuffler are none of the device's.
 * @param {Noise['m']} m
 * @param {Source} source
 */
function drawn(m, source) {
  return typeof m === 'number' || !m.byUsers ? 0 : need('draw')(m, source);
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
  demand(!random, 'fakes must be omitted, because this plan does not fix the total number of fakes');
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
const place = (bits) => bits.toString(2).length - 1;

/**
 * Return the indices of the set bits, in order.
 * @param {bigint} bits
 */
function setBits(bits) {
  const digits = bits.toString(2);
  /** @type {bigint[]} */
  const found = [];
  for (let i = digits.length - 1; i >= 0; i--) if (digits[i] === '1') found.push(BigInt(digits.length - 1 - i));
  return found;
}
