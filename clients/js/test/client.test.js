/** The client: one answer per person, checks before anything is sent, the ledger, and the stores. */

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { BudgetExceeded, Client, FalseClaim, NoResponse, WireError, hex, unhex } from '../src/index.js';
import { MemoryStore } from '../src/memory.js';
import { FileStore } from '../src/node.js';

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../../src/hubbub/vectors/${name}.json`, import.meta.url), 'utf8'));
const contracts = Object.fromEntries(vectors('contracts').map((one) => [one.why, one.contract]));
const [{ documents, ticket, now }] = vectors('uploads');
const admission = unhex(ticket);

/** A shuffler that counts what it stores, by the key shares of bundles. */
class Shuffler {
  stored = new Set();
  requests = [];
  document = documents[0];
  offline = false;

  fetch = async (url, options) => {
    this.requests.push(url);
    if (this.offline) throw new TypeError('Failed to fetch');
    if (url.endsWith('/keys')) return new Response(this.document);
    const bundle = hex(options.body);
    const outdated = parseInt(bundle.slice(12, 16), 16) !== (this.document === documents[0] ? 7 : 8);
    if (outdated && !this.stored.has(bundle)) {
      return new Response(JSON.stringify({ type: 'urn:hubbub:problem:outdated-keys' }), { status: 409 });
    }
    this.stored.add(bundle);
    return new Response(null, { status: 201 });
  };
}

const open = (shuffler, options = {}) =>
  Client.open({
    contract: contracts['by ticket'],
    operators: 'first-use',
    store: new MemoryStore(),
    shuffler: 'https://shuffler.example/',
    fetch: shuffler.fetch,
    now: () => now,
    pause: async () => {},
    attempts: 2,
    ...options,
  });

test('an answer is stored once, however often it is given', async () => {
  const shuffler = new Shuffler();
  const client = await open(shuffler);
  assert.equal(await client.state(), undefined);
  assert.equal(await client.answer('red', { admission }), 'stored');
  assert.equal(await client.answer('blue', { admission }), 'stored');
  assert.equal(await client.answer('red'), 'stored');
  assert.equal(shuffler.stored.size, 1);
  assert.deepEqual(await client.resume(), { 1: 'stored' });
});

test('an answer that is given offline is sent later, by another process', async () => {
  const shuffler = new Shuffler();
  const store = new MemoryStore();
  const client = await open(shuffler, { store });
  shuffler.offline = true;
  await assert.rejects(client.answer('red', { admission }), NoResponse);
  assert.equal(await client.state(), 'waiting');
  const { value } = await store.get(client.key(1));
  assert.equal(value.bundle, null);
  shuffler.offline = false;
  assert.deepEqual(await (await open(shuffler, { store })).resume(), { 1: 'stored' });
  assert.equal(shuffler.stored.size, 1);
});

test('two tabs that answer and seal again at the same time send one bundle', async () => {
  for (let i = 0; i < 20; i++) {
    const shuffler = new Shuffler();
    const store = new MemoryStore();
    const tabs = await Promise.all([open(shuffler, { store }), open(shuffler, { store }), open(shuffler, { store })]);
    shuffler.document = documents[0];
    await tabs[0].record('red', { admission });
    const { fetch } = shuffler;
    let posts = 0;
    shuffler.fetch = fetch;
    for (const tab of tabs) {
      tab.uploader.transport.fetch = async (url, options) => {
        // The keys change after the bundles are sealed.
        if (url.endsWith('/bundles') && posts++ === 0) shuffler.document = documents[1];
        await new Promise((resolve) => setTimeout(resolve, Math.floor(3 * ((i * 7 + posts) % 5))));
        return fetch(url, options);
      };
    }
    const states = await Promise.all(tabs.map((tab) => tab.answer('red', { admission })));
    assert.deepEqual(states, ['stored', 'stored', 'stored']);
    assert.equal(shuffler.stored.size, 1);
  }
});

test('nothing is sent for a contract that is refused', async () => {
  const shuffler = new Shuffler();
  const small = vectors('contracts').filter((one) => one.error);
  for (const { contract } of small) await assert.rejects(open(shuffler, { contract }));
  await assert.rejects(open(shuffler, { task: '00'.repeat(16) }), FalseClaim);
  await assert.rejects(open(shuffler, { minBatchSize: 1000 }), { name: 'InvalidInput' });
  await assert.rejects(open(shuffler, { operators: { analyzer: '00'.repeat(32), shuffler: '00'.repeat(32) } }), FalseClaim);
  assert.deepEqual(shuffler.requests, []);
});

test('nothing is uploaded with keys that are refused', async () => {
  for (const vector of vectors('keylists').filter((one) => one.error)) {
    const shuffler = new Shuffler();
    shuffler.document = vector.keys;
    const client = await open(shuffler);
    await assert.rejects(client.answer('red', { admission }));
    assert.ok(shuffler.requests.every((url) => url.endsWith('/keys')), vector.why);
  }
});

test('operators are remembered from the first contract', async () => {
  const shuffler = new Shuffler();
  const store = new MemoryStore();
  const client = await open(shuffler, { store });
  await open(shuffler, { store, contract: contracts['suite 2'] });
  const { operators } = client.contract;
  await store.put('operators/other', { ...operators, shuffler: operators.analyzer }, 0);
  await assert.rejects(open(shuffler, { store, name: 'other' }), FalseClaim);
  await open(shuffler, { store, operators });
});

test('an answer needs the admission of its contract', async () => {
  const client = await open(new Shuffler());
  await assert.rejects(client.record('red'), { name: 'InvalidInput' });
  await assert.rejects(client.record('red', { admission: new Uint8Array(31) }), { name: 'InvalidInput' });
  await assert.rejects(client.record('red', { code: 'a code' }), { name: 'InvalidInput' });
  assert.equal(await client.state(), undefined);
});

test('an invalid answer is neither charged nor stored, and its error does not contain it', async () => {
  const client = await open(new Shuffler(), { budget: { epsilon: 10, delta: 1e-2 } });
  for (const value of ['mauve', ['red'], null, 7, { red: true }]) {
    await assert.rejects(client.record(value, { admission }), (error) => error.name === 'InvalidInput' && !/mauve/.test(error.message));
  }
  assert.equal(await client.spent(), 0);
});

test('the ledger refuses beyond the budget of a lifetime', async () => {
  const shuffler = new Shuffler();
  const store = new MemoryStore();
  const budget = { epsilon: 7, delta: 1e-2 };
  const contract = contracts['a series'];
  const client = await open(shuffler, { store, contract, budget });
  await client.record('red', { admission, round: 1 });
  await client.record('red', { admission, round: 1 });
  const once = await client.spent();
  assert.ok(once >= 2 && once <= 3.1, `${once}`);
  await client.record('red', { admission, round: 2 });
  const twice = await client.spent();
  assert.ok(twice > once && twice <= 6.01, `${twice}`);
  await assert.rejects(client.record('red', { admission, round: 3 }), BudgetExceeded);
  assert.equal(await client.state(3), undefined);
  assert.equal(await client.spent(), twice);
  // A program that was stopped between the charge and the journal may go on.
  const other = new MemoryStore();
  await other.put('ledger', (await store.get('ledger')).value.slice(0, 1), 0);
  const resumed = await open(shuffler, { store: other, contract, budget: { epsilon: 3, delta: 1e-2 } });
  await resumed.record('red', { admission, round: 1 });
  assert.equal(await resumed.state(1), 'waiting');
});

test('a response that is not of a service of hubbub is no answer', async () => {
  const shuffler = new Shuffler();
  const client = await open(shuffler);
  await client.record('red', { admission });
  const { fetch } = shuffler;
  for (const status of [202, 302, 403, 404, 500]) {
    client.uploader.transport.fetch = (url, options) =>
      url.endsWith('/keys') ? fetch(url, options) : Promise.resolve(new Response('<html>', { status }));
    await assert.rejects(client.resume(), NoResponse);
    assert.equal(await client.state(), 'waiting');
  }
});

test('documents that are not JSON are refused', async () => {
  for (const contract of ['', '{}', '[]', 'null', '"x"', '{"contract":1,"signatures":2}', new Uint8Array([255])]) {
    await assert.rejects(open(new Shuffler(), { contract }), WireError);
  }
});

function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'hubbub-'));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

test('a store of files keeps the last version, and nothing else', async (t) => {
  const path = folder(t);
  const store = await FileStore.open(join(path, 'store'));
  assert.equal(await store.get('answer/a/1'), undefined);
  assert.equal(await store.put('answer/a/1', { messages: ['ff'] }, 0), true);
  assert.equal(await store.put('answer/a/1', { messages: [] }, 0), false);
  assert.deepEqual(await store.get('answer/a/1'), { version: 1, value: { messages: ['ff'] } });
  assert.equal(await store.put('answer/a/1', { state: 'stored' }, 1), true);
  assert.equal(await store.put('answer/a/10', 1, 0), true);
  assert.deepEqual(await store.get('answer/a/1'), { version: 2, value: { state: 'stored' } });
  assert.deepEqual(await store.keys('answer/'), ['answer/a/1', 'answer/a/10']);
  const names = readdirSync(store.folder);
  assert.equal(names.length, 2);
  for (const name of names) assert.equal(statSync(join(store.folder, name)).mode & 0o777, 0o600);
});

test('a store of files deletes what a process left behind when it died', async (t) => {
  const path = folder(t);
  const store = await FileStore.open(path);
  await store.put('a', 2, 0);
  writeFileSync(join(path, 'a.v7'), '7');
  writeFileSync(join(path, 'draft-old'), 'secret');
  utimesSync(join(path, 'draft-old'), 1, 1);
  writeFileSync(join(path, 'draft-new'), 'being written');
  assert.deepEqual(await (await FileStore.open(path)).get('a'), { version: 7, value: 7 });
  assert.deepEqual(readdirSync(path).sort(), ['a.v7', 'draft-new']);
});

test('a problem cannot pretend that an answer is stored, or still waits', async () => {
  const shuffler = new Shuffler();
  const client = await open(shuffler);
  await client.record('red', { admission });
  const { fetch } = shuffler;
  for (const name of ['stored', 'waiting', '', 'Stored', 'x'.repeat(41)]) {
    const body = JSON.stringify({ type: `urn:hubbub:problem:${name}` });
    client.uploader.transport.fetch = (url, options) =>
      url.endsWith('/keys') ? fetch(url, options) : Promise.resolve(new Response(body, { status: 403 }));
    await assert.rejects(client.resume(), NoResponse);
    assert.equal((await client.store.get(client.key(1))).value.messages.length, 1);
  }
});

test('of many writers to a store of files one succeeds', async (t) => {
  const store = await FileStore.open(folder(t));
  let won = 0;
  for (let version = 0; version < 20; version++) {
    const results = await Promise.all([1, 2, 3, 4].map((writer) => store.put('a', { writer, version }, version)));
    won += results.filter(Boolean).length;
    assert.equal((await store.get('a')).version, version + 1);
  }
  assert.equal(won, 20);
  // A writer that read a version which was replaced twice must not succeed.
  writeFileSync(join(store.folder, 'a.v25'), '{}');
  assert.equal(await store.put('a', {}, 23), false);
});

test('a client with a store of files resumes after its process ended', async (t) => {
  const path = folder(t);
  const shuffler = new Shuffler();
  const first = await open(shuffler, { store: await FileStore.open(path) });
  await first.record('blue', { admission });
  const second = await open(shuffler, { store: await FileStore.open(path) });
  assert.deepEqual(await second.resume(), { 1: 'stored' });
  const left = readdirSync(path).map((name) => readFileSync(join(path, name), 'utf8')).join('');
  assert.doesNotMatch(left, /messages|bundle|admission/);
});
