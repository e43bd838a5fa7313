/**
 * Strings that nobody listed: everybody who holds a string sends the same bytes, made with an evaluation by the analyzer.
 *
 * The string is blinded, evaluated through the relay (RFC 9497, VOPRF), and sealed with an ephemeral key that is derived from the output.
 * Needs the optional peer `@noble/curves`. The journal holds the string until it is stored: there is nothing to randomize.
 */

import { p256_oprf as p256 } from '@noble/curves/nist.js';
import { ristretto255_oprf as ristretto } from '@noble/curves/ed25519.js';
import './fakes.js';
import { concat, hex, sha256, uint16, unhex } from './bytes.js';
import { Client } from './client.js';
import { system } from './coins.js';
import { MIN_BATCH_SIZE, bundleSize, checkOperators, readAdmission, readKeys, verify } from './contract.js';
import { FalseClaim, NoResponse, check, demand, own } from './errors.js';
import { need } from './extensions.js';
import { X25519, createContext, seal } from './hpke.js';
import { Fields, canonical, isObject, parse } from './json.js';
import { PARTS, checkOdds, readCurve, readGuarantee } from './plan.js';
import { PREFIX, encodeString, messageOf, sealString } from './slots.js';
import { Refused, Uploader, supersede } from './uploader.js';

export { encodeString, sealString } from './slots.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./json.js').Json} Json
 * @typedef {import('./contract.js').Contract} Contract
 * @typedef {import('./contract.js').Keys} Keys
 * @typedef {import('./plan.js').Plan} Plan
 * @typedef {import('./uploader.js').Answer & {evaluation?: string[]}} StringAnswer With input, blind and blinded element.
 *
 * @typedef {import('./slots.js').Texts} Texts
 * @typedef {{group: string, relay: string, evaluations: number, perClient: number}} Terms
 * @typedef {Contract & {texts: Texts, strings: Terms}} StringContract
 * @typedef {Keys & {tag: Bytes}} StringKeys With the tag key.
 */

const ROLES = /** @type {const} */ (['analyzer', 'shuffler']);
const TERMS = ['min_batch_size', 'slots', 'epoch', 'task_start', 'task_end', 'suite'];
const HOST = /^[a-z0-9]([a-z0-9.:-]{0,198}[a-z0-9])?$/;
const TYPE = 'application/hubbub-evaluation';
const PROOF = 64;
const MAX_EPOCH = 2 ** 40;
const GROUPS = /** @type {const} */ ({
  'ristretto255-SHA512': { voprf: ristretto.voprf, element: 32 },
  'P256-SHA256': { voprf: p256.voprf, element: 33 },
});

/** @param {string} name */
function groupOf(name) {
  check(Object.hasOwn(GROUPS, name), 'the group must be a known one');
  return GROUPS[/** @type {keyof typeof GROUPS} */ (name)];
}

/**
 * Read a plan for strings, and check what needs no recomputation of the guarantee.
 * @param {Json} value
 * @returns {Promise<{plan: Plan, texts: Texts}>}
 */
async function readStringPlan(value) {
  const read = new Fields(value, 'the plan', 'format', 'id', ...PARTS);
  read.format('plan', 3);
  const schema = new Fields(read.get('schema'), 'the schema', 'kind', 'max_bytes', 'cut');
  schema.choice('kind', ['strings']);
  const texts = { maxBytes: schema.whole('max_bytes', 1, 4096), cut: schema.truth('cut') };
  const protocol = new Fields(read.get('protocol'), 'the protocol', 'noise', 'k', 'release');
  protocol.choice('release', ['strings']);
  protocol.whole('k', 1, 1);
  const noise = protocol.list('noise').map((one) => {
    const fields = new Fields(one, 'the noise', 'flip', 'm');
    return { flip: BigInt(fields.whole('flip', 0, 0)), m: need('readFakes')(fields.get('m')) };
  });
  check(noise.length === 1 && !noise[0]?.m.byUsers, "strings need the shuffler's fakes");
  const n = read.whole('n', 1, 1e10);
  const honestFraction = read.real('honest_fraction', Number.MIN_VALUE, 1);
  read.real('stderr', Number.MIN_VALUE, 1e300);
  const claim = /** @type {{[name: string]: Json}} */ (read.get('guarantee'));
  const { relay, ...assumptions } = own(/** @type {{[name: string]: Json}} */ (claim?.['assumptions']));
  check(relay === true, 'the guarantee must rest on a relay');
  const total = new Fields(read.get('total'), 'the total', 'epsilon', 'delta');
  checkOdds(read.get('odds'));
  const { id, ...content } = read.entries;
  check(hex(await sha256(canonical(content))) === id, 'the id of the plan must be its digest');
  const size = PREFIX + texts.maxBytes;
  /** @type {Plan} */
  const plan = {
    id: read.text('id'),
    schema: { kind: 'bits', labels: [], width: 0, maxSet: 1, questions: null, attributes: [] },
    n,
    honestFraction,
    protocol: { noise, k: 1, release: 'records' },
    guarantee: readGuarantee({ ...claim, assumptions: { ...assumptions } }, n),
    rounds: read.whole('rounds', 1, 1e6),
    total: { epsilon: total.limit('epsilon'), delta: total.real('delta', 0, 1) },
    curve: readCurve(read.list('curve')),
    payload: size,
    limit: 1n << BigInt(8 * size),
  };
  return { plan, texts };
}

/** @param {Json} value */
function readTerms(value) {
  const read = new Fields(value, 'the terms of strings', 'group', 'relay', 'evaluations', 'per_client');
  const terms = {
    group: read.text('group'),
    relay: read.text('relay'),
    evaluations: read.whole('evaluations', 1, 1e12),
    perClient: read.whole('per_client', 1, 100),
  };
  groupOf(terms.group);
  check(HOST.test(terms.relay), 'the relay must be a host name');
  return terms;
}

/**
 * Read a signed contract for strings, verify both signatures, and check every term that does not need the mathematics.
 * @param {string | Uint8Array} text
 * @param {{task?: string, operators?: import('./contract.js').Operators, minBatchSize?: number}} [expected]
 * @returns {Promise<StringContract>}
 */
export async function readStringContract(text, expected) {
  const { task: expectedTask, operators, minBatchSize = MIN_BATCH_SIZE } = own(expected);
  check(text.length <= 1 << 24, 'a contract must have at most 16 MiB');
  const signed = Fields.parse(text, 'the signed contract', 'contract', 'signatures');
  const names = ['format', 'plan', 'admission', 'series', 'strings', ...TERMS, ...ROLES];
  const read = new Fields(signed.get('contract'), 'the contract', ...names);
  read.format('contract');
  const { plan, texts } = await readStringPlan(read.get('plan'));
  const body = canonical(read.entries);
  const task = (await sha256(body)).slice(0, 16);
  const taskStart = read.whole('task_start', 0, MAX_EPOCH);
  check(read.get('series') === null, 'a contract for strings has a single round');
  /** @type {StringContract} */
  const contract = {
    id: hex(task),
    task,
    plan,
    texts,
    minBatchSize: read.whole('min_batch_size', plan.n, 1e10),
    slots: read.whole('slots', 1, 1),
    epoch: read.whole('epoch', 1, 1e9),
    taskStart,
    taskEnd: read.whole('task_end', taskStart + 1, MAX_EPOCH),
    suite: /** @type {1} */ (read.whole('suite', 1, 1)),
    admission: readAdmission(read.get('admission')),
    operators: { analyzer: read.text('analyzer'), shuffler: read.text('shuffler') },
    series: null,
    exported: false,
    strings: readTerms(read.get('strings')),
  };
  check(contract.operators.analyzer !== contract.operators.shuffler, 'the operators must be different');
  check(contract.admission.kind !== 'open' || plan.guarantee.honest <= 1, 'open admission must not need honest users');
  check(bundleSize(1, 1, plan.payload - 1, contract.admission.size) <= 2 ** 20, 'a bundle must have at most 1 MiB');
  const signatures = new Fields(signed.get('signatures'), 'the signatures', ...ROLES);
  for (const role of ROLES) await verify(contract.operators[role], 'contract', body, signatures.get(role));
  demand(contract.minBatchSize >= (minBatchSize ?? NaN), `min_batch_size must be at least ${minBatchSize}`);
  if (expectedTask !== undefined && expectedTask !== contract.id) throw new FalseClaim('the contract has another task');
  if (operators) checkOperators(contract, operators);
  return contract;
}

/**
 * Read the key document of a task of strings: the keys to seal with, and the tag key against which evaluations are checked.
 * @param {string | Uint8Array} text
 * @param {StringContract} contract
 * @param {number} now seconds since 1970
 * @returns {Promise<StringKeys>}
 */
export async function readStringKeys(text, contract, now) {
  const document = parse(text, 'the key document');
  check(isObject(document), 'the key document must be an object');
  const { tags, ...rest } = /** @type {{[name: string]: Json}} */ (document);
  const keys = await readKeys(canonical(rest), contract, now);
  const signed = new Fields(tags ?? null, 'the signed document', 'body', 'signature');
  await verify(contract.operators.analyzer, 'tag keys', canonical(signed.get('body')), signed.get('signature'));
  const read = new Fields(signed.get('body'), 'the tag keys', 'format', 'task', 'group', 'keys');
  read.format('tag keys');
  const right = read.text('task') === contract.id && read.text('group') === contract.strings.group;
  if (!right) throw new FalseClaim('the tag keys are those of another task');
  const tagKeys = read.list('keys').map((one) => new Fields(one, 'a tag key', 'id', 'public'));
  const found = tagKeys.filter((one) => one.whole('id', 1, 2 ** 16 - 1) === keys.analyzer.id);
  check(found.length === 1, "the tag keys must include the analyzer's key in use");
  const size = groupOf(contract.strings.group).element;
  const tag = unhex(/** @type {Fields} */ (found[0]).text('public'), size, 'a public tag key');
  return { ...keys, tag };
}

/** An uploader that has strings evaluated before it seals them. */
class StringUploader extends Uploader {
  /**
   * The blind is in the journal since the answer was recorded. If the analyzer's key changes, the same blinded string is evaluated
   * again: the analyzer learns that somebody asked twice, and nothing else.
   * @type {Uploader['seal']}
   */
  async seal(answer, given, keys) {
    const { messages = [], evaluation, sealedTo = [] } = /** @type {StringAnswer} */ (answer);
    const contract = /** @type {StringContract} */ (this.contract);
    demand(evaluation?.length === 3 && messages.length === 1, 'the answer is not one of a collection of strings');
    const asked = /** @type {string[]} */ (evaluation).map((one) => unhex(one));
    for (let attempt = 0; attempt < this.attempts && supersede(keys, sealedTo); attempt++) {
      const used = /** @type {StringKeys} */ (keys);
      const output = await this.evaluate(asked, given, used);
      if (output) return { bundle: await bundle(unhex(messages[0]), output, given, contract, used), keys };
      keys = await this.fetchKeys();
    }
    throw new NoResponse('the keys changed during every attempt');
  }

  /** @type {Uploader['readKeys']} */
  readKeys(text) {
    return readStringKeys(text, /** @type {StringContract} */ (this.contract), this.now());
  }

  /**
   * Return the output of the function for a blinded input, or undefined if the analyzer no longer has the key.
   * @param {Bytes[]} evaluation input, blind and blinded element
   * @param {Bytes} admission
   * @param {StringKeys} keys
   */
  async evaluate([input, blind, blinded], admission, { analyzer, tag }) {
    const { admission: terms, strings } = /** @type {StringContract} */ (this.contract);
    const { voprf, element } = groupOf(strings.group);
    // The analyzer never sees the id of an answer.
    const proof = terms.kind === 'open' ? new Uint8Array() : admission.slice(-terms.size);
    const body = concat(uint16(analyzer.id), proof, /** @type {Bytes} */ (blinded));
    /** @type {import('./uploader.js').Success} */
    const succeeds = (status, data) => status === 200 && data.length === element + PROOF;
    const { problem, body: made } = await this.post(`${this.base}/evaluations`, TYPE, body, succeeds);
    if (problem === 'outdated-keys') return undefined;
    if (problem) throw new Refused(problem);
    const [given, shown] = [made.slice(0, element), made.slice(element)];
    try {
      return new Uint8Array(voprf.finalize(/** @type {Bytes} */ (input), /** @type {Bytes} */ (blind), given, /** @type {Bytes} */ (blinded), tag, shown));
    } catch {
      throw new FalseClaim("the proof of the evaluation is not valid for the analyzer's tag key");
    }
  }
}

/**
 * Return the bundle of a string, or of nothing.
 * @param {Bytes} body
 * @param {Bytes} output
 * @param {Bytes} admission
 * @param {StringContract} contract
 * @param {StringKeys} keys
 */
async function bundle(body, output, admission, contract, keys) {
  const { task, suite } = contract;
  // Who has nothing to say sends bytes of the same form that equal no other.
  const slot = await sealString(body, body[0] ? output : concat(system(32)), contract, keys.analyzer);
  const outer = uint16(keys.shuffler.id);
  const context = await createContext(X25519, concat('hubbub/3 bundle', task, outer));
  const plain = concat(admission.slice(0, contract.admission.size), slot);
  return concat('HBB3', Uint8Array.of(suite, 0), outer, task, await seal(context, keys.shuffler.key, plain));
}

/** One person's string for one contract; `shuffler` is the URL of the relay. */
export class StringClient extends Client {
  /**
   * @param {StringContract} contract
   * @param {import('./store.js').Store} store
   * @param {import('./uploader.js').Transport} transport
   * @param {import('./ledger.js').Budget} [budget]
   */
  constructor(contract, store, transport, budget) {
    super(contract, store, transport, budget);
    this.uploader = new StringUploader(contract, store, transport);
  }

  /**
   * Read and check a contract for strings; nothing is sent.
   * @param {import('./client.js').Options & import('./uploader.js').Transport} options
   */
  static async open(options) {
    const { contract: text, operators, store, budget, task, minBatchSize, name, ...transport } = own(options);
    demand(operators && operators !== 'first-use', 'operators must be their identities');
    const contract = await readStringContract(text, { task, minBatchSize });
    checkOperators(contract, /** @type {import('./contract.js').Operators} */ (operators));
    return new StringClient(contract, store, transport, budget);
  }

  /**
   * Store a string, or null for nothing, in the journal, with the blind of its evaluation.
   * @param {unknown} value
   * @param {{admission?: Uint8Array, code?: string, round?: number}} [options]
   *   a token, or a ticket followed by the one for evaluations
   */
  async record(value, options) {
    const { admission = this.newId(), code } = own(options);
    const { texts, strings, admission: terms, epoch, taskStart, taskEnd } = /** @type {StringContract} */ (this.contract);
    demand(code === undefined, 'strings need the token itself');
    const key = this.key(1);
    if (await this.store.get(key)) return key;
    const time = this.uploader.now() / epoch;
    demand(time >= taskStart && time < taskEnd, 'the collection is not open');
    const size = terms.size * (terms.kind === 'ticket' ? 2 : 1);
    demand(admission.length === size, `the answer needs a ${terms.kind} of ${size} bytes`);
    const body = encodeString(value, texts);
    // Who has nothing to say asks as everybody does.
    const input = body[0] ? messageOf(body) : system(32);
    const { blind, blinded } = groupOf(strings.group).voprf.blind(input);
    await this.charge(1);
    const evaluation = [input, blind, blinded].map((one) => hex(one));
    const entry = { round: 1, state: 'waiting', messages: [hex(body)], bundle: null, admission: hex(admission), evaluation };
    await this.store.put(key, entry, 0);
    return key;
  }
}
