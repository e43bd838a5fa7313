/** All vectors as test cases that need neither Node nor a browser, so that both run the same ones. */

import {
  Client,
  NoResponse,
  PendingToken,
  challenge,
  hex,
  payloads,
  readContract,
  readKeys,
  readPlan,
  total,
  unhex,
} from '../src/index.js';
import { sha256 } from '../src/bytes.js';
import { MemoryStore } from '../src/memory.js';
import { decodeBatch, decodeMessage, encodeBatch, encodeMessage, spentId, verifyToken } from '../src/wire.js';

/** Names of the files of vectors. */
export const FILES = ['good', 'bad', 'ledgers', 'plans', 'surveys', 'answers', 'contracts', 'keylists', 'tokens', 'uploads'];

/**
 * Return the counter stream: block i is the SHA-256 of i as eight little-endian bytes.
 * @param {number} blocks
 */
export async function counter(blocks = 256) {
  const parts = [];
  for (let i = 0; i < blocks; i++) {
    const block = new DataView(new ArrayBuffer(8));
    block.setUint32(0, i, true);
    parts.push(...(await sha256(new Uint8Array(block.buffer))));
  }
  let at = 0;
  return (size) => {
    if (at + size > parts.length) throw new Error('the stream is too short');
    return Uint8Array.from(parts.slice(at, (at += size)));
  };
}

function same(found, expected, what) {
  const [one, two] = [found, expected].map((value) => JSON.stringify(value));
  if (one !== two) throw new Error(`${what}: ${one?.slice(0, 200)} instead of ${two?.slice(0, 200)}`);
}

/** Run a function, and compare the name of the error that it throws, null for none. */
async function throwing(run, expected, what) {
  let error = null;
  try {
    await run();
  } catch (caught) {
    error = caught;
  }
  // A subclass of the expected error will do.
  if (expected === null ? error : !kinds(error).includes(expected)) {
    throw new Error(`${what}: ${error ? `${error.name}: ${error.message}` : 'accepted'} instead of ${expected ?? 'accepted'}`);
  }
}

/** Return the name of an error and those of the classes it inherits from. */
function kinds(error) {
  const names = [];
  for (let kind = error?.constructor; kind && kind !== Error; kind = Object.getPrototypeOf(kind)) names.push(new kind('').name);
  return names;
}

/**
 * Return all test cases.
 * @param {Record<string, any[]>} vectors
 * @returns {{name: string, run: () => Promise<void>}[]}
 */
export function cases(vectors) {
  const plans = new Map();
  const planOf = async (name) => {
    if (!plans.has(name)) plans.set(name, await readPlan(vectors.good.find((one) => one.name === name).plan));
    return plans.get(name);
  };
  const byTicket = () => readContract(vectors.contracts.find((one) => one.why === 'by ticket').contract);
  const found = [];
  const add = (name, run) => found.push({ name, run });
  for (const vector of [...vectors.good, ...vectors.answers]) {
    add(`messages: ${vector.name}`, async () => {
      const plan = await readPlan(vector.plan);
      same(plan.id, vector.id, 'id');
      const source = await counter();
      const sent = vector.values.map((value) => payloads(value, plan, { source }));
      same(sent.map((user) => user.map((one) => hex(encodeMessage(one, plan)))), vector.messages, 'messages');
      const reports = await decodeBatch(unhex(vector.batch), plan);
      same(reports.payloads.map(hex), sent.flat().map(hex), 'payloads of the batch');
      same(hex(await encodeBatch(reports, plan)), vector.batch, 'batch');
    });
  }
  for (const vector of vectors.surveys) {
    add(`survey: ${vector.name}`, async () => {
      const plan = await readPlan(vector.plan);
      same(plan.id, vector.id, 'id');
      same(plan.schema.questions.sizes, vector.sizes, 'sizes');
      const source = await counter(1024);
      const sent = vector.answers.map((value) => payloads(value, plan, { source }).map(hex));
      same(sent, vector.payloads, 'payloads');
    });
  }
  for (const vector of vectors.bad) {
    add(`bad ${vector.what}: ${vector.plan}, ${vector.why}`, async () => {
      const plan = await planOf(vector.plan);
      const decode = vector.what === 'message' ? decodeMessage : decodeBatch;
      await throwing(() => decode(unhex(vector.data), plan), vector.error, vector.why);
    });
  }
  for (const vector of vectors.ledgers) {
    add(`ledger: ${JSON.stringify(vector.history)}`, async () => {
      const charges = [];
      for (const { plan, rounds } of vector.history) charges.push({ name: '', rounds, curve: (await planOf(plan)).curve });
      const epsilon = total(charges, vector.delta);
      if (!(vector.at_least <= epsilon && epsilon <= vector.at_most)) {
        throw new Error(`ε = ${epsilon}, not in [${vector.at_least}, ${vector.at_most}]`);
      }
    });
  }
  for (const vector of vectors.plans) {
    add(`plan: ${vector.why}`, () => throwing(() => readPlan(vector.plan), vector.error, vector.why));
  }
  for (const vector of vectors.contracts) {
    add(`contract: ${vector.why}`, async () => {
      let id = null;
      await throwing(async () => (id = (await readContract(vector.contract)).id), vector.error, vector.why);
      same(id, vector.id, 'id');
    });
  }
  for (const vector of vectors.keylists) {
    add(`key list: ${vector.why}`, async () => {
      const contract = await byTicket();
      let ids = null;
      const read = async () => {
        const keys = await readKeys(vector.keys, contract, vector.now);
        ids = [keys.analyzer.id, keys.shuffler.id];
      };
      await throwing(read, vector.error, vector.why);
      same(ids, vector.ids, 'ids');
    });
  }
  for (const vector of vectors.tokens) {
    add(`token of ${vector.issuer}`, async () => {
      const key = unhex(vector.key);
      const challenged = await challenge(vector.issuer, unhex(vector.task));
      same(hex(challenged), vector.challenge, 'challenge');
      const pending = new PendingToken(key, challenged, unhex(vector.secrets));
      same(hex(await pending.request()), vector.request, 'request');
      const token = await pending.finalize(unhex(vector.response));
      same(hex(token), vector.token, 'token');
      same(await spentId(token), vector.spent_id, 'spent id');
      same(await verifyToken(token, key, challenged), true, 'verification');
      same(await verifyToken(token, key, await challenge('another', unhex(vector.task))), false, 'another challenge');
      for (const bad of vector.bad_responses) await throwing(() => pending.finalize(unhex(bad.response)), bad.error, bad.why);
    });
  }
  for (const vector of vectors.uploads) add(`upload: ${vector.name}`, () => upload(vector, vectors));
  return found;
}

/** Play the replies of a shuffler, and compare the requests, the pauses and the final state. */
async function upload(vector, vectors) {
  const replies = [...vector.replies];
  const requests = [];
  const bundles = [];
  const pauses = [];
  let crash = () => {};
  const fetch = (url, options) => {
    const reply = replies.shift();
    if (!reply) throw new Error('a request too many');
    if (options.method === 'POST') {
      const bundle = hex(options.body);
      if (!bundles.includes(bundle)) bundles.push(bundle);
      requests.push(`bundle ${bundles.indexOf(bundle) + 1}`);
    } else {
      requests.push('keys');
    }
    if (reply.lost) return Promise.reject(new TypeError('Failed to fetch'));
    if (reply.crash) return new Promise(() => crash());
    if ('keys' in reply) return Promise.resolve(new Response(vector.documents[reply.keys], { status: 200 }));
    const body = reply.problem ? JSON.stringify({ type: `urn:hubbub:problem:${reply.problem}`, status: reply.status }) : (reply.body ?? '');
    const headers = reply.retry_after ? { 'retry-after': String(reply.retry_after) } : {};
    return Promise.resolve(new Response(body, { status: reply.status, headers }));
  };
  const { contract } = vectors.contracts.find((one) => one.why === 'by ticket');
  const store = new MemoryStore();
  const open = () =>
    Client.open({
      contract,
      operators: 'first-use',
      store,
      shuffler: 'https://shuffler.example',
      attempts: vector.attempts,
      now: () => vector.now,
      pause: async (milliseconds) => void pauses.push(milliseconds / 1000),
      fetch,
    });
  const first = await open();
  await first.record('red', { admission: unhex(vector.ticket) });
  for (let runs = 0; runs < 9 && replies.length; runs++) {
    const client = await open();
    const died = new Promise((resolve) => (crash = resolve));
    const outcome = await Promise.race([client.resume(), died]).catch((error) => error);
    if (outcome instanceof Error && !(outcome instanceof NoResponse)) throw outcome;
  }
  same(requests, vector.requests, 'requests');
  same(await first.state(), vector.state, 'state');
  same(pauses.length, vector.pauses.length, 'number of pauses');
  vector.pauses.forEach(([low, high], i) => {
    if (!(pauses[i] >= low && pauses[i] <= high)) throw new Error(`a pause of ${pauses[i]} s is not in [${low}, ${high}]`);
  });
  const { value } = await store.get(first.key(1));
  // Refusals are not signed: only what is stored is forgotten before the round is over.
  if (vector.state === 'stored') same(Object.keys(value).sort(), ['round', 'state'], 'entries left in the journal');
  else same(typeof value.bundle, 'string', 'a bundle left in the journal');
}
