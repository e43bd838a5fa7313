/** For tools: single messages, batches of reports (`.hub` files), and the verification of tokens. */

import { concat, equal, hex, sha256, unhex } from './bytes.js';
import { InvalidInput, check } from './errors.js';
import { fixedFakes } from './plan.js';
import { modulusOf } from './tokens.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./plan.js').Plan} Plan
 * @typedef {{payloads: Bytes[], n: number, fakes: number, shuffled: boolean}} Reports
 */

/** Objects of two different plans are used together. */
export class PlanMismatch extends InvalidInput {
  name = 'PlanMismatch';
}

const HEADER = 20;
const BATCH_HEADER = 72;
const CODES = /** @type {const} */ ({ records: 1, bits: 2, category: 3 });
const MAX_DECLARED = 2 ** 53 - 1;

/**
 * Return a payload if it is one that a client can send: the right size, zero padding, an index below the width.
 * @param {Uint8Array} payload
 * @param {Plan} plan
 */
function checkPayload(payload, plan) {
  check(payload.length === plan.payload, `the length of a payload must be ${plan.payload}, got ${payload.length}`);
  check(BigInt(`0x0${hex(payload.slice().reverse())}`) < plan.limit, 'a payload must be in the range of its plan');
  return new Uint8Array(payload);
}

/** @param {Plan} plan */
const messageHeader = (plan) => concat('HBM', Uint8Array.of(2), unhex(plan.id.slice(0, 32)));

/**
 * Return the message with the given payload.
 * @param {Uint8Array} payload
 * @param {Plan} plan
 */
export const encodeMessage = (payload, plan) => concat(messageHeader(plan), checkPayload(payload, plan));

/**
 * Return the payload of a message.
 * @param {Uint8Array} message
 * @param {Plan} plan
 */
export function decodeMessage(message, plan) {
  const size = HEADER + plan.payload;
  check(message.length === size, `a message of this plan must have ${size} bytes, got ${message.length}`);
  const header = messageHeader(plan);
  check(equal(message.subarray(0, 3), header.subarray(0, 3)), 'a message must start with "HBM"');
  check(message[3] === 2, `the version of a message must be 2, got ${message[3]}`);
  checkPlan(hex(header), hex(message.subarray(0, HEADER)), 'a message');
  return checkPayload(message.subarray(HEADER), plan);
}

/**
 * Return the bytes of a `.hub` file.
 * @param {Reports} reports
 * @param {Plan} plan
 */
export async function encodeBatch({ payloads, n, fakes, shuffled }, plan) {
  const head = new DataView(new ArrayBuffer(BATCH_HEADER));
  const bytes = new Uint8Array(head.buffer);
  bytes.set(concat('HUBB', Uint8Array.of(2, CODES[plan.protocol.release], Number(shuffled), 0)));
  head.setUint32(8, plan.schema.width, true);
  head.setUint32(12, plan.payload, true);
  bytes.set(unhex(plan.id), 16);
  [payloads.length, n, fakes].forEach((count, i) => head.setBigUint64(48 + 8 * i, BigInt(count), true));
  const content = concat(bytes, ...payloads.map((one) => checkPayload(one, plan)));
  return concat(content, await sha256(content));
}

/**
 * Return the reports of a `.hub` file of a plan.
 * @param {Uint8Array} data
 * @param {Plan} plan
 * @returns {Promise<Reports>}
 */
export async function decodeBatch(data, plan) {
  check(data.length >= BATCH_HEADER, `a batch must have at least ${BATCH_HEADER} bytes, got ${data.length}`);
  const bytes = new Uint8Array(data);
  const head = new DataView(bytes.buffer);
  check(equal(bytes.subarray(0, 4), concat('HUBB')), 'a batch must start with "HUBB"');
  const [version, release, shuffled, zero] = bytes.subarray(4, 8);
  check(version === 2, `the version of a batch must be 2, got ${version}`);
  check(Number(release) >= 1 && Number(release) <= 3, `the release of a batch must be 1, 2 or 3, got ${release}`);
  check(Number(shuffled) <= 1, `the flag 'shuffled' of a batch must be 0 or 1, got ${shuffled}`);
  check(zero === 0, 'the reserved byte of a batch must be zero');
  const [messages, n, fakes] = /** @type {[number, number, number]} */ ([48, 56, 64].map((at) => Number(head.getBigUint64(at, true))));
  check(Math.max(messages, n, fakes) <= MAX_DECLARED && n >= Number(shuffled), 'the numbers of a batch must be in range');
  checkPlan(plan.id, hex(bytes.subarray(16, 48)), 'a batch');
  check(
    release === CODES[plan.protocol.release] && head.getUint32(8, true) === plan.schema.width && head.getUint32(12, true) === plan.payload,
    'a batch must have the release, the width and the payload size of its plan',
  );
  check(fakes <= fixedFakes(plan), 'a batch must have at most the fakes of its plan');
  const end = BATCH_HEADER + messages * plan.payload;
  check(bytes.length === end + 32, `a batch of ${messages} messages must have ${end + 32} bytes`);
  check(equal(bytes.subarray(end), await sha256(bytes.subarray(0, end))), 'a batch must end with the SHA-256 of its content');
  const payloads = Array.from({ length: messages }, (_, i) => {
    const start = BATCH_HEADER + i * plan.payload;
    return checkPayload(bytes.subarray(start, start + plan.payload), plan);
  });
  return { payloads, n, fakes, shuffled: shuffled === 1 };
}

/**
 * Throw unless two ids are of one plan.
 * @param {string} expected
 * @param {string} found
 * @param {string} what
 */
function checkPlan(expected, found, what) {
  if (expected !== found) throw new PlanMismatch(`${what} must be of this plan`);
}

/**
 * Return true if the bytes are a token of the key for the challenge.
 * @param {Bytes} token
 * @param {Bytes} key
 * @param {Bytes} challenged
 */
export async function verifyToken(token, key, challenged) {
  const size = 98;
  if (token.length !== size + 256) return false;
  const expected = concat(Uint8Array.of(0, 2), token.subarray(2, 34), await sha256(challenged), await sha256(key));
  if (!equal(token.subarray(0, size), expected)) return false;
  const n = base64url(modulusOf(key));
  const jwk = { kty: 'RSA', alg: 'PS384', n, e: 'AQAB' };
  const algorithm = { name: 'RSA-PSS', hash: 'SHA-384' };
  const imported = await crypto.subtle.importKey('jwk', jwk, algorithm, false, ['verify']);
  const terms = { name: 'RSA-PSS', saltLength: 48 };
  return crypto.subtle.verify(terms, imported, token.subarray(size), token.subarray(0, size));
}

/** @param {Uint8Array} data */
const base64url = (data) =>
  btoa(String.fromCharCode(...data)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

/**
 * Return the id under which a token is spent, in hexadecimal digits.
 * @param {Uint8Array} token
 */
export const spentId = async (token) => hex((await sha256(concat('hubbub/2 token', token.subarray(2, 34)))).subarray(0, 16));
