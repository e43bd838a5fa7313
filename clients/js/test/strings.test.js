/** Strings, which need the optional peer: golden slots byte for byte, proofs, and whole uploads against a small analyzer. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { concat, hex, uint16, unhex } from '../src/bytes.js';

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
