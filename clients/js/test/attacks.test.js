/** Attacks of a malicious shuffler, of other scripts of the page, and of bad luck: nothing leaks, nothing counts twice. */

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { Client, NoResponse, canonical, hex, parse, payloads, readContract, readKeys, readPlan, unhex } from '../src/index.js';
import { valueOf } from '../bin/randomize.js';
import { MemoryStore } from '../src/memory.js';
import { FileStore } from '../src/node.js';

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../../src/hubbub/vectors/${name}.json`, import.meta.url), 'utf8'));
const contracts = Object.fromEntries(vectors('contracts').map((one) => [one.why, one.contract]));
const [{ documents, ticket, now }] = vectors('uploads');
const admission = unhex(ticket);
const stored = () => new Response(null, { status: 201 });

/** Open a client whose shuffler answers with a function of the bundle. */
const open = (answer, options = {}) =>
  Client.open({
    contract: contracts['by ticket'],
    operators: 'first-use',
    store: new MemoryStore(),
    shuffler: 'https://shuffler.example',
    fetch: async (url, init) => (url.endsWith('/keys') ? new Response(documents[0]) : answer(hex(init.body), url, init)),
    now: () => now,
    pause: async () => {},
    attempts: 2,
    ...options,
  });

/** Run a function while Object.prototype has another entry, as after a merge of untrusted JSON by another library. */
async function polluted(entries, run) {
  Object.assign(Object.prototype, entries);
  try {
    return await run();
  } finally {
    for (const name of Object.keys(entries)) delete Object.prototype[name];
  }
}

test('requests carry no credentials and no referrer, and follow no redirect', async () => {
  const seen = [];
  const client = await open((_, url, init) => (seen.push(init), stored()));
  assert.equal(await client.answer('red', { admission }), 'stored');
  for (const { credentials, referrerPolicy, redirect, cache, headers, signal } of seen) {
    assert.deepEqual([credentials, referrerPolicy, redirect, cache], ['omit', 'no-referrer', 'error', 'no-store']);
    assert.deepEqual(headers, { 'content-type': 'application/hubbub-bundle' });
    assert.ok(signal instanceof AbortSignal);
  }
});

test('an endless response counts as none, and is not read to its end', async () => {
  let pulled = 0;
  let cancelled = 0;
  const endless = () =>
    new Response(
      new ReadableStream({
        pull(controller) {
          pulled += 65536;
          controller.enqueue(new Uint8Array(65536).fill(123));
        },
        cancel: () => void cancelled++,
      }),
    );
  const client = await open(stored);
  await client.record('red', { admission });
  client.uploader.transport.fetch = async () => endless();
  await assert.rejects(client.resume(), NoResponse);
  assert.equal(cancelled, 2);
  assert.ok(pulled < 2 * 1.25 * 2 ** 20, `${pulled}`);
  assert.equal(await client.state(), 'waiting');
});

test('the bundle and its size do not depend on the answer or on the number of messages', async () => {
  const sizes = new Set();
  for (const value of ['red', 'green', 'blue']) {
    const client = await open((bundle) => (sizes.add(bundle.length), stored()));
    await client.answer(value, { admission });
  }
  assert.equal(sizes.size, 1);
});

const refusal = (name) => new Response(JSON.stringify({ type: `urn:hubbub:problem:${name}` }), { status: 409 });

test('a proxy that stores an answer and claims outdated keys gets one bundle until the signed lists change', async () => {
  for (const [why, given] of [['open', {}], ['by ticket', { admission }]]) {
    const sent = [];
    let document = documents[0];
    const store = new MemoryStore();
    const options = {
      contract: contracts[why],
      store,
      fetch: async (url, init) => (url.endsWith('/keys') ? new Response(document) : (sent.push(hex(init.body)), refusal('outdated-keys'))),
    };
    const client = await open(stored, options);
    await client.record('red', given);
    const first = (await store.get(client.key(1))).value;
    for (let run = 0; run < 3; run++) await assert.rejects((await open(stored, options)).resume(), { name: 'NoResponse' });
    assert.equal(sent.length, 6);
    assert.equal(new Set(sent).size, 1);
    // With other keys the same answer is sealed again, with the same messages and the same ticket or id.
    document = documents[1];
    await assert.rejects(client.resume(), { name: 'NoResponse' });
    assert.equal(new Set(sent).size, 2);
    const { value } = await store.get(client.key(1));
    assert.deepEqual([value.messages, value.admission, value.again], [first.messages, first.admission, true]);
    assert.equal(value.admission.length, why === 'by ticket' ? 64 : 32);
    // The shuffler has spent the ticket or id with an earlier bundle.
    client.uploader.transport.fetch = async () => refusal('token-spent');
    assert.deepEqual(await client.resume(), { 1: 'stored' });
    assert.deepEqual((await store.get(client.key(1))).value, { round: 1, state: 'stored' });
  }
});

test('every answer has an id of its own', async () => {
  const ids = new Set();
  for (let i = 0; i < 20; i++) {
    const client = await open(stored, { contract: contracts['open'] });
    ids.add((await client.store.get(await client.record('red'))).value.admission);
  }
  assert.equal(ids.size, 20);
});

test('a refusal that nobody signed makes the journal forget nothing before the round is over', async () => {
  for (const name of ['closed-task', 'closed-round', 'series-ended', 'bad-token', 'token-spent', 'uncertain', 'malformed']) {
    let time = now;
    let answer = () => refusal(name);
    const client = await open(() => answer(), { now: () => time });
    assert.equal(await client.answer('red', { admission }), name);
    const { value } = await client.store.get(client.key(1));
    assert.equal(typeof value.bundle, 'string');
    // An uncertain answer is never sealed again.
    assert.equal(value.messages === undefined, name === 'uncertain');
    answer = () => refusal('outdated-keys');
    if (name === 'uncertain') assert.deepEqual(await client.resume(), { 1: 'uncertain' });
    answer = stored;
    assert.deepEqual(await client.resume(), { 1: 'stored' });
    // After the end, by the contract and by the clock of the device, it is forgotten.
    const late = await open(() => refusal(name), { now: () => time });
    await late.record('red', { admission });
    assert.equal(await late.answer('red'), name);
    const { taskEnd, epoch } = late.contract;
    for (const [end, left] of [[epoch + 299, true], [epoch + 300, false]]) {
      time = taskEnd * epoch + end;
      assert.deepEqual(await late.resume(), { 1: name });
      assert.equal('bundle' in (await late.store.get(late.key(1))).value, left);
    }
  }
});

test('answers of an earlier version are sealed again only if a ticket or token is spent with them', async () => {
  const older = `${hex(new TextEncoder().encode('HBB2'))}00`;
  const sent = [];
  const entry = { round: 1, state: 'waiting', messages: ['00'] };
  for (const [why, held, state, again] of [
    ['by ticket', { admission: ticket, bundle: older }, 'stored', 1],
    ['open', { admission: '', bundle: older }, 'uncertain', 0],
    ['open', { admission: '', bundle: null }, 'stored', 1],
  ]) {
    const client = await open((bundle) => (sent.push(bundle), stored()), { contract: contracts[why] });
    await client.store.put(client.key(1), { ...entry, ...held }, 0);
    assert.deepEqual(await client.resume(), { 1: state });
    assert.equal(sent.splice(0).length, again);
  }
});

test('addresses need https, unless they are on this machine', async () => {
  for (const address of ['http://shuffler.example', 'http://127.0.0.1.example', 'http://localhost.example', 'ftp://localhost', '/relay', 'http://127.1.example/']) {
    await assert.rejects(open(stored, { shuffler: address }), { name: 'InvalidInput' });
    await assert.rejects(open(stored, { issuer: address }), { name: 'InvalidInput' });
  }
  for (const address of ['https://s.example/', 'http://127.0.0.1:8401', 'http://localhost:8401/', 'http://[::1]:8401']) {
    await open(stored, { shuffler: address, issuer: address });
  }
});

test('an answer has one round, which must exist', async () => {
  const client = await open(stored);
  for (const round of [0, 2, -1, 1.5, NaN, '1']) {
    await assert.rejects(client.record('red', { admission, round }), { name: 'InvalidInput' });
  }
  const series = await open(stored, { contract: contracts['a series'] });
  const { rounds } = series.contract.series;
  await series.record('red', { admission, round: rounds });
  await assert.rejects(series.record('red', { admission, round: rounds + 1 }), { name: 'InvalidInput' });
});

test('an answer that cannot be sent does not keep others from being sent', async () => {
  const client = await open(stored, { contract: contracts['a series'] });
  await client.record('red', { admission, round: 1 });
  await client.record('red', { admission, round: 2 });
  const { value, version } = await client.store.get(client.key(1));
  await client.store.put(client.key(1), { ...value, admission: 'not hexadecimal' }, version);
  await assert.rejects(client.resume(), { name: 'WireError' });
  assert.deepEqual([await client.state(1), await client.state(2)], ['waiting', 'stored']);
});

test('a connection that comes and goes does not multiply the requests', async () => {
  let posts = 0;
  const client = await open(async () => {
    posts++;
    await new Promise((resolve) => setTimeout(resolve, 5));
    return stored();
  });
  await client.record('red', { admission });
  const states = await Promise.all(Array.from({ length: 20 }, () => client.resume()));
  assert.ok(states.every((one) => one[1] === 'stored'));
  assert.equal(posts, 1);
  assert.deepEqual(await client.resume(), { 1: 'stored' });
});

test('a device with a wrong clock sends nothing', async () => {
  for (const skew of [-7, 400]) {
    const sent = [];
    let time = now;
    const client = await open((bundle) => (sent.push(bundle), stored()), { now: () => time });
    await client.record('red', { admission });
    time += skew * 86_400;
    await assert.rejects(client.resume(), { name: 'ExpiredKeys' });
    assert.equal(await client.state(), 'waiting');
    assert.deepEqual(sent, []);
  }
});

test('a store that is full or lost sends nothing', async () => {
  const sent = [];
  const full = new MemoryStore();
  full.put = async (key) => {
    if (key.startsWith('answer/')) throw new Error('QuotaExceededError');
    return true;
  };
  full.get = async () => undefined;
  const client = await open((bundle) => (sent.push(bundle), stored()), { store: full, operators: await operators() });
  await assert.rejects(client.answer('red', { admission }), /QuotaExceeded/);
  const lost = await open((bundle) => (sent.push(bundle), stored()));
  await lost.record('red', { admission });
  lost.store.records.clear();
  await assert.rejects(lost.uploader.send(lost.key(1)), { name: 'InvalidInput' });
  assert.deepEqual(await lost.resume(), {});
  assert.deepEqual(sent, []);
});

const operators = async () => (await readContract(contracts['by ticket'])).operators;

test('JSON with the names of prototypes changes nothing else', async () => {
  const text = '{"__proto__":{"minBatchSize":1},"constructor":{"prototype":{"fakes":0}},"toString":1}';
  const value = parse(text, 'a text');
  assert.equal({}.minBatchSize, undefined);
  assert.equal({}.fakes, undefined);
  assert.equal(canonical(value), '{"__proto__":{"minBatchSize":1},"constructor":{"prototype":{"fakes":0}},"toString":1}');
  assert.throws(() => parse('{"__proto__":1,"__proto__":2}', 'a text'), { name: 'WireError' });
  const contract = contracts['by ticket'].replace('"contract":', '"__proto__":{"x":1},"contract":');
  await assert.rejects(readContract(contract), { name: 'WireError' });
  const document = documents[0].replace('"analyzer_key_id"', '"__proto__":{},"analyzer_key_id"');
  await assert.rejects(readKeys(document, await readContract(contracts['by ticket']), now), { name: 'WireError' });
});

test('an entry of Object.prototype is no option', async () => {
  const small = contracts['by ticket'];
  await polluted({ minBatchSize: 1, task: '00'.repeat(16) }, () => readContract(small));
  const weak = vectors('contracts').find((one) => one.why === 'a crowd of 99');
  await polluted({ minBatchSize: 1 }, () => assert.rejects(readContract(weak.contract)));
  const good = vectors('good').find((one) => one.name === 'fake and flip');
  const plan = await readPlan(good.plan);
  const count = payloads(good.values[0], plan).length;
  assert.ok(count > 1);
  const fewer = await polluted({ fakes: 0, source: () => new Uint8Array(64) }, () => payloads(good.values[0], plan).length);
  assert.equal(fewer, count);
  const urls = [];
  const entries = { attempts: 1e6, issuer: 'https://evil.example', budget: null, round: 7, admission: 'x', fetch: null };
  const state = await polluted(entries, async () => {
    const client = await open((_, url) => (urls.push(url), stored()));
    return client.answer('red', { admission });
  });
  assert.equal(state, 'stored');
  assert.ok(urls.every((url) => url.startsWith('https://shuffler.example/')));
});

test('the time of randomizing does not depend on the answer, but on the random bytes', () => {
  // The same random bytes are drawn, in the same portions, for every answer.
  const plan = vectors('good').filter((one) => one.values.length && !/fake/.test(one.name));
  return Promise.all(
    plan.map(async (vector) => {
      const read = await readPlan(vector.plan);
      if (read.schema.kind !== 'one_hot') return;
      const drawn = read.schema.labels.map((label) => {
        const sizes = [];
        payloads(label, read, { source: (size) => (sizes.push(size), new Uint8Array(size).fill(0x55)) });
        return sizes.join();
      });
      if (read.protocol.release === 'records') assert.equal(new Set(drawn).size, 1, vector.name);
    }),
  );
});

test('an open string in a document costs no more time than a closed one', () => {
  const text = `{"${'\\"'.repeat(2 ** 19)}`;
  const before = performance.now();
  assert.throws(() => parse(text, 'the document'), { name: 'WireError' });
  assert.throws(() => parse('{1.5:2}', 'the document'), { name: 'WireError' });
  assert.ok(performance.now() - before < 2000);
});

test('answers without a budget are charged too', async () => {
  const store = new MemoryStore();
  const first = await open(stored, { store });
  assert.equal(await first.answer('red', { admission }), 'stored');
  const budget = { epsilon: 100, delta: 1e-3 };
  assert.ok((await (await open(stored, { store, budget })).spent()) > 0);
});

test('an answer outside the time of the collection is neither charged nor stored', async () => {
  const { taskStart, taskEnd, epoch } = (await open(stored)).contract;
  for (const time of [taskStart * epoch - 600, taskEnd * epoch]) {
    const store = new MemoryStore();
    const client = await open(stored, { store, now: () => time });
    await assert.rejects(client.answer('red', { admission }), { name: 'InvalidInput', message: /not open/ });
    assert.deepEqual(await store.keys(''), ['operators/https://shuffler.example']);
  }
});

test('answers of a survey that are no plain object are refused, not taken as missing', async () => {
  const plan = await readPlan(vectors('plans').find((one) => one.why === 'a survey').plan);
  class Getters {
    get colour() {
      return 'red';
    }
  }
  for (const answers of [new Map([['colour', 'red']]), new FormData(), new URLSearchParams('colour=red'), new Getters()]) {
    assert.throws(() => payloads(answers, plan), { name: 'InvalidInput', message: /plain object/ });
  }
});

test('no value of minBatchSize but a number accepts a small crowd', async () => {
  for (const minBatchSize of [null, NaN, {}]) {
    await assert.rejects(readContract(contracts['by ticket'], { minBatchSize }), { name: 'InvalidInput' });
  }
});

test('a slash at the end of its address makes no other shuffler', async () => {
  const store = new MemoryStore();
  await open(stored, { store });
  await open(stored, { store, shuffler: 'https://shuffler.example/' });
  assert.equal((await store.keys('operators/')).length, 1);
});

test('an entry of Object.prototype does not change a ciphertext', async () => {
  const sizes = [];
  const client = () => open((bundle) => (sizes.push(bundle.length), stored()));
  await (await client()).answer('red', { admission });
  const second = await client();
  await polluted({ tagLength: 96 }, () => second.answer('red', { admission }));
  assert.equal(sizes[0], sizes[1]);
});

test('a name that continues another like a version is not one of its versions', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hubbub-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const store = await FileStore.open(folder);
  for (const key of ['operators/https://s/api', 'operators/https://s/api.v2']) {
    assert.ok(await store.put(key, { key }, 0));
    assert.deepEqual((await store.get(key))?.value, { key });
  }
  assert.deepEqual((await store.get('operators/https://s/api'))?.value, { key: 'operators/https://s/api' });
});

test('the program for audits refuses numbers that are none', () => {
  const schema = { questions: { named: new Map([['age', { kind: 'number' }]]) } };
  assert.deepEqual(valueOf(['1e3'], ['age'], schema), { age: 1000 });
  for (const text of ['abc', ' ', '0x64', '100 years']) {
    assert.throws(() => valueOf([text], ['age'], schema), { name: 'InvalidInput' });
  }
});
