/** Strings, which need the optional peer: golden slots byte for byte, proofs, and whole uploads against a small analyzer. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { concat, hex, uint16, unhex } from '../src/bytes.js';
import { canonical } from '../src/json.js';
import { MemoryStore } from '../src/memory.js';
import { supersede } from '../src/uploader.js';

const peer = await import('@noble/curves/ed25519.js').catch(() => undefined);
const options = { skip: !peer && 'needs @noble/curves' };
const golden = JSON.parse(readFileSync(new URL('../../../src/hubbub/vectors/strings.json', import.meta.url), 'utf8'));
const strings = peer && (await import('../src/strings.js'));
const nist = peer && (await import('@noble/curves/nist.js'));

/** @param {string} suite */
const group = (suite) => (suite.startsWith('P256') ? nist.p256_oprf : peer.ristretto255_oprf).voprf;

test('all golden slots, byte for byte', options, async () => {
  assert.ok(golden.length >= 4);
  for (const one of golden) {
    const body = strings.encodeString(one.value, { maxBytes: one.max_bytes, cut: one.cut });
    assert.equal(hex(body), one.body);
    const analyzer = { id: one.key_id, key: unhex(one.public) };
    const slot = await strings.sealString(body, unhex(one.output), { task: unhex(one.task) }, analyzer);
    assert.equal(hex(slot), one.slot);
  }
});

test('outputs of blinded strings are those of the vectors', options, () => {
  for (const one of golden) {
    const voprf = group(one.suite);
    const info = concat('hubbub/2 tags', unhex(one.task), uint16(one.key_id));
    const pair = voprf.deriveKeyPair(unhex(one.tag_seed), info);
    assert.equal(hex(pair.publicKey), one.tag_public);
    const body = unhex(one.body);
    const input = concat(body.slice(0, 1), body.slice(3, 3 + 256 * body[1] + body[2]));
    const { blind, blinded } = voprf.blind(input);
    const { evaluated, proof } = voprf.blindEvaluate(pair.secretKey, pair.publicKey, blinded);
    assert.equal(hex(voprf.finalize(input, blind, evaluated, blinded, pair.publicKey, proof)), one.output);
  }
});

test('bodies of strings', options, () => {
  const { encodeString } = strings;
  assert.equal(hex(encodeString('né', { maxBytes: 4, cut: false })), '0100036ec3a900');
  assert.equal(hex(encodeString('naïve', { maxBytes: 4, cut: true })), '0200046e61c3af');
  assert.equal(hex(encodeString('aaaï', { maxBytes: 4, cut: true })), '02000361616100');
  assert.equal(hex(encodeString(null, { maxBytes: 2, cut: false })), '0000000000');
  for (const wrong of ['12345', '\ud800', 5, undefined, ['a']]) {
    assert.throws(() => encodeString(wrong, { maxBytes: 4, cut: false }), { name: 'InvalidInput' });
  }
});

/** Both services behind a relay that forwards every bundle and says of each that its keys are outdated. */
async function denyingRelay() {
  const [analyzer, shuffler] = await Promise.all([0, 1].map(() => crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])));
  const identity = async (pair) => hex(new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey)));
  const task = new Uint8Array(16).fill(7);
  const suite = 'ristretto255-SHA512';
  const contract = {
    id: hex(task),
    task,
    suite: 1,
    admission: { kind: 'open', size: 16 },
    epoch: 60,
    taskStart: 0,
    taskEnd: 100,
    series: null,
    operators: { analyzer: await identity(analyzer), shuffler: await identity(shuffler) },
    strings: { group: suite },
  };
  const tags = group(suite).generateKeyPair();
  const publicKey = hex(peer.x25519.getPublicKey(new Uint8Array(32).fill(9)));
  const sign = async (pair, kind, fields) => {
    const body = { format: `hubbub ${kind} 2`, ...fields };
    const signature = await crypto.subtle.sign('Ed25519', pair.privateKey, concat(`hubbub/2 ${kind}\0`, canonical(body)));
    return { body, signature: hex(new Uint8Array(signature)) };
  };
  const seen = { bundles: [], evaluations: 0, key: 1 };
  const keyList = (pair, role, ids) => {
    const keys = ids.map((id) => ({ id, suite: 1, public: publicKey, state: id === ids.at(-1) ? 'active' : 'expired' }));
    return sign(pair, 'key list', { role, issued: 1000, expires: 9000, keys });
  };
  const fetch = async (url, { body }) => {
    if (url.endsWith('/keys')) {
      const document = {
        analyzer: await keyList(analyzer, 'analyzer', seen.key === 1 ? [1] : [1, seen.key]),
        shuffler: await keyList(shuffler, 'shuffler', [1]),
        analyzer_key_id: seen.key,
        tags: await sign(analyzer, 'tag keys', { task: contract.id, group: suite, keys: [{ id: seen.key, public: hex(tags.publicKey) }] }),
      };
      return new Response(canonical(document));
    }
    if (url.endsWith('/evaluations')) {
      seen.evaluations++;
      const { evaluated, proof } = group(suite).blindEvaluate(tags.secretKey, tags.publicKey, body.slice(2));
      return new Response(concat(evaluated, proof));
    }
    seen.bundles.push(hex(body));
    return new Response(JSON.stringify({ type: 'urn:hubbub:problem:outdated-keys' }), { status: 409 });
  };
  return { contract, seen, fetch };
}

test('a relay that denies what is stored gets the same bundle again until signed lists show a newer key', options, async () => {
  const { contract, seen, fetch } = await denyingRelay();
  const store = new MemoryStore();
  const transport = { shuffler: 'https://relay.example', fetch, attempts: 3, pause: async () => {}, now: () => 2000 };
  const body = strings.encodeString('lone', { maxBytes: 8, cut: false });
  const input = concat(body.slice(0, 1), 'lone');
  const { blind, blinded } = group('ristretto255-SHA512').blind(input);
  const evaluation = [input, blind, blinded].map((one) => hex(one));
  await store.put('answer', { round: 1, state: 'waiting', messages: [hex(body)], bundle: null, admission: '07'.repeat(16), evaluation }, 0);
  // Also in the next run, with nothing but the journal.
  for (let run = 0; run < 2; run++) {
    const { uploader } = new strings.StringClient(contract, store, transport);
    await assert.rejects(uploader.send('answer'), { name: 'NoResponse' });
  }
  assert.equal(seen.bundles.length, 6);
  assert.equal(new Set(seen.bundles).size, 1);
  assert.equal(seen.evaluations, 1);
  const { uploader } = new strings.StringClient(contract, store, transport);
  for (const key of [2, 1]) {
    // A newer key once, and never an older one.
    seen.key = key;
    await assert.rejects(uploader.send('answer'), { name: 'NoResponse' });
  }
  assert.equal(new Set(seen.bundles).size, 2);
});

test('keys supersede others only by signed lists', () => {
  const keys = (analyzer, shuffler, ...listed) => ({ analyzer: { id: analyzer }, shuffler: { id: shuffler }, listed: [shuffler, ...listed] });
  const before = [2, 4];
  assert.equal(supersede(keys(2, 5, 4), before), false);
  assert.equal(supersede(keys(2, 5), before), true);
  assert.equal(supersede(keys(3, 4), before), true);
  assert.equal(supersede(keys(1, 5), before), false);
  assert.equal(supersede(keys(2, 3), before), false);
  assert.equal(supersede(keys(1, 1), []), true);
});
