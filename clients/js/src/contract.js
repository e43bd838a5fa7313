/** Contracts and key lists: a plan and the terms of its collection, signed by both operators, and the keys to seal to. */

import { concat, hex, importKey, sha256, unhex } from './bytes.js';
import { ExpiredKeys, FalseClaim, check, demand, own } from './errors.js';
import { need } from './extensions.js';
import { Fields, canonical, distinct } from './json.js';
import { readPlan } from './plan.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./json.js').Json} Json
 * @typedef {import('./plan.js').Plan} Plan
 * @typedef {{kind: 'open' | 'ticket' | 'token', issuer: string, key: Bytes, size: number}} Admission
 * @typedef {import('./series.js').Series} Series
 * @typedef {{analyzer: string, shuffler: string}} Operators Public identities in hexadecimal digits.
 *
 * @typedef {object} Contract One collection: its plan, batch size, time span, suite, admission and operators.
 * @property {string} id the task in hexadecimal digits
 * @property {Bytes} task 16 bytes that identify the contract
 * @property {Plan} plan
 * @property {number} minBatchSize
 * @property {number} slots
 * @property {number} epoch seconds of an epoch
 * @property {number} taskStart
 * @property {number} taskEnd
 * @property {1 | 2} suite
 * @property {Admission} admission
 * @property {Operators} operators
 * @property {Series | null} series
 * @property {boolean} exported whether the analyzer keeps the shuffled messages of every batch in a folder
 *
 * @typedef {{id: number, suite: number, key: Bytes, state: string}} PublicKey
 * @typedef {{analyzer: PublicKey, shuffler: PublicKey, listed: number[]}} Keys The keys to seal with, and the ids of all that the shuffler has.
 */

/** The smallest batch size that a client accepts, except in tests. */
export const MIN_BATCH_SIZE = 100;
const MAX_CONTRACT_SIZE = 1 << 24;
const MAX_BUNDLE_SIZE = 2 ** 20;
const MAX_EPOCH = 2 ** 40;
const CLOCK_TOLERANCE = 86_400;
const ROLES = /** @type {const} */ (['analyzer', 'shuffler']);
const TERMS = ['min_batch_size', 'slots', 'epoch', 'task_start', 'task_end', 'suite'];
const ISSUER = /^[a-z0-9]([a-z0-9.:-]{0,198}[a-z0-9])?$/;
/** Bytes of an encapsulated key and of a public key, by suite. */
const ENCAPSULATED = [0, 32, 1120];
const PUBLIC = [0, 32, 1216];

/**
 * Read a signed contract, verify both signatures, and check every term that does not need the mathematics.
 *
 * Anyone can sign with an identity of their own: compare `operators` with the identities you expect, or remember them
 * from the first contract ({@link checkOperators}).
 * @param {string | Uint8Array} text
 * @param {{task?: string, operators?: Operators, minBatchSize?: number}} [expected]
 * @returns {Promise<Contract>}
 */
export async function readContract(text, expected) {
  const { task: expectedTask, operators, minBatchSize = MIN_BATCH_SIZE } = own(expected);
  check(text.length <= MAX_CONTRACT_SIZE, 'a contract must have at most 16 MiB');
  const signed = Fields.parse(text, 'the signed contract', 'contract', 'signatures');
  const agreed = signed.get('contract');
  const exported = /** @type {{export?: Json} | null} */ (agreed)?.export === true;
  const names = [...TERMS, ...ROLES, ...(exported ? ['export'] : [])];
  const read = new Fields(agreed, 'the contract', 'format', 'plan', 'admission', 'series', ...names);
  read.format('contract');
  const plan = await readPlan(read.get('plan'));
  const body = canonical(read.entries);
  const task = (await sha256(body)).slice(0, 16);
  const taskStart = read.whole('task_start', 0, MAX_EPOCH);
  /** @type {Contract} */
  const contract = {
    id: hex(task),
    task,
    plan,
    minBatchSize: read.whole('min_batch_size', plan.n, 1e10),
    slots: read.whole('slots', 1, 2 ** 16),
    epoch: read.whole('epoch', 1, 1e9),
    taskStart,
    taskEnd: read.whole('task_end', taskStart + 1, MAX_EPOCH),
    suite: /** @type {1 | 2} */ (read.whole('suite', 1, 2)),
    admission: readAdmission(read.get('admission')),
    operators: /** @type {Operators} */ (Object.fromEntries(ROLES.map((role) => [role, read.text(role)]))),
    series: null,
    exported,
  };
  if (read.get('series') !== null) contract.series = need('series')(read.get('series'), contract);
  checkTerms(contract);
  const signatures = signed.get('signatures');
  check(
    // Whatever is no object has no signature, and fails below.
    Object.keys(signatures ?? [0]).every((one) => ROLES.includes(/** @type {'analyzer'} */ (one))),
    'only its operators may sign a contract',
  );
  for (const role of ROLES) {
    const { [role]: signature = '00'.repeat(64) } = /** @type {{[role: string]: Json}} */ (signatures);
    await verify(contract.operators[role], 'contract', body, signature);
  }
  demand(
    contract.minBatchSize >= (minBatchSize ?? NaN),
    `min_batch_size must be at least ${minBatchSize}`,
  );
  if (expectedTask !== undefined && expectedTask !== contract.id) throw new FalseClaim('the contract has another task');
  if (operators) checkOperators(contract, operators);
  return contract;
}

/**
 * Throw unless the operators of a contract are the expected ones.
 * @param {Contract} contract
 * @param {Operators} expected
 */
export function checkOperators(contract, expected) {
  for (const role of ROLES) {
    if (contract.operators[role] !== expected[role]) throw new FalseClaim(`the contract names another ${role}`);
  }
}

/** @param {Contract} contract */
function checkTerms({ plan, slots, suite, admission, operators }) {
  check(operators.analyzer !== operators.shuffler, 'the operators must be different');
  const { honest } = plan.guarantee;
  check(
    admission.kind !== 'open' || honest <= 1 || plan.honestFraction < 1,
    `open admission must not need ${honest} honest users`,
  );
  const { noise, k, release } = plan.protocol;
  if (release === 'bits' || plan.schema.questions || noise[0]?.m !== 0) need('checkSlots')(plan, slots);
  else check(slots === k, `slots must be ${k}`);
  check(bundleSize(suite, slots, plan.payload, admission.size) <= MAX_BUNDLE_SIZE, 'a bundle must have at most 1 MiB');
}

/**
 * Return the bytes of a bundle.
 * @param {number} suite
 * @param {number} slots
 * @param {number} payload
 * @param {number} admission
 */
export function bundleSize(suite, slots, payload, admission) {
  const encapsulated = Number(ENCAPSULATED[suite]);
  return 24 + encapsulated + admission + slots * (2 + encapsulated + 2 + payload + 16) + 16;
}

/**
 * @param {Json} value
 * @returns {Admission}
 */
export function readAdmission(value) {
  const kind = /** @type {{kind?: Json} | null} */ (value)?.kind;
  const keys = { open: [], ticket: ['issuer'], token: ['issuer', 'key'] };
  check(typeof kind === 'string' && Object.hasOwn(keys, kind), 'admission must have a known kind');
  const known = /** @type {Admission['kind']} */ (kind);
  const read = new Fields(value, 'the admission', 'kind', ...keys[known]);
  const issuer = known === 'open' ? '' : read.text('issuer');
  check(known === 'open' || ISSUER.test(issuer), 'the issuer must be a host name');
  const key = known === 'token' ? need('tokenKey')(read.get('key')) : new Uint8Array();
  return { kind: known, issuer, key, size: { open: 16, ticket: 32, token: 354 }[known] };
}

/**
 * Throw a {@link FalseClaim} unless the holder of a public key signed this body as a document of this kind.
 * @param {string} identity
 * @param {string} kind
 * @param {string} body
 * @param {Json} signature
 */
export async function verify(identity, kind, body, signature) {
  const signed = unhex(signature, 64, 'the signature');
  const publicKey = unhex(identity, 32, 'the identity');
  let good = false;
  try {
    const key = await importKey(publicKey, 'Ed25519', 'verify');
    good = await crypto.subtle.verify('Ed25519', key, signed, concat(`hubbub/2 ${kind}\0`, body));
  } catch (error) {
    // An unsupported algorithm is not a false claim of the operator.
    if (/** @type {Error} */ (error).name === 'NotSupportedError') throw error;
  }
  if (!good) throw new FalseClaim(`the ${kind} is not signed by its operator`);
}

/**
 * Read the key document of a task, verify both lists and their dates, and return the keys to seal with.
 * @param {string | Uint8Array} text
 * @param {Contract} contract
 * @param {number} now seconds since 1970
 * @returns {Promise<Keys>}
 */
export async function readKeys(text, { operators, suite }, now) {
  const read = Fields.parse(text, 'the key document', ...ROLES, 'analyzer_key_id');
  const [analyzer = [], shuffler = []] = await Promise.all(
    ROLES.map((role) => readKeyList(read.get(role), operators[role], role, now)),
  );
  const id = read.whole('analyzer_key_id');
  const used = analyzer.find((key) => key.id === id);
  check(used?.suite === suite, `analyzer_key_id must name a key of suite ${suite}`);
  const active = shuffler.find((key) => key.state === 'active' && key.suite === suite);
  check(active, `the shuffler has no active key of suite ${suite}`);
  return { analyzer: used, shuffler: active, listed: shuffler.map((key) => key.id) };
}

/**
 * Read a signed key list; throws unless the operator with this identity signed it for `role` and it is valid now.
 * @param {Json} value
 * @param {string} identity
 * @param {string} role
 * @param {number} [now] seconds since 1970
 * @returns {Promise<PublicKey[]>}
 */
export async function readKeyList(value, identity, role, now) {
  const signed = new Fields(value, 'the signed document', 'body', 'signature');
  await verify(identity, 'key list', canonical(signed.get('body')), signed.get('signature'));
  const read = new Fields(signed.get('body'), 'the key list', 'format', 'role', 'issued', 'expires', 'keys');
  read.format('key list');
  check(read.text('role') === role, `the key list must be that of the ${role}`);
  const keys = read.list('keys').map(readKey);
  check(distinct(keys.map((key) => key.id)), 'key ids must be distinct');
  for (const suite of [1, 2]) {
    const active = keys.filter((key) => key.state === 'active' && key.suite === suite);
    check(active.length < 2, 'a suite must have one active key');
  }
  const issued = read.whole('issued');
  const expires = read.whole('expires', issued + 1);
  if (now !== undefined && !(issued - CLOCK_TOLERANCE <= now && now < expires)) {
    throw new ExpiredKeys(`the key list of the ${role} is not valid now`);
  }
  return keys;
}

/** @param {Json} value */
function readKey(value) {
  const read = new Fields(value, 'a key', 'id', 'suite', 'public', 'state');
  const suite = read.whole('suite', 1, 2);
  return {
    id: read.whole('id', 0, 2 ** 16 - 1),
    suite,
    key: unhex(read.text('public'), PUBLIC[suite], 'the public key'),
    state: read.choice('state', ['pending', 'active', 'expired']),
  };
}
