/** Suite 2, which needs the optional peer. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { hex, unhex } from '../src/bytes.js';

const golden = (name) => JSON.parse(readFileSync(new URL(`../../../tests/service/golden/${name}.json`, import.meta.url), 'utf8'));
const peer = await import('@noble/post-quantum/hybrid.js').catch(() => undefined);

test('X-Wing: sizes and decapsulation', { skip: !peer && 'needs @noble/post-quantum' }, async () => {
  const { ml_kem768_x25519: xwing } = peer;
  const { XWing } = await import('../src/xwing.js');
  const vector = golden('hpke').xwing;
  const { publicKey, secretKey } = xwing.keygen(unhex(vector.seed));
  assert.equal(hex(publicKey.subarray(-32)), vector.pk_end);
  assert.equal(hex(xwing.decapsulate(unhex(vector.ct.join('')), secretKey)), vector.ss);
  const { encapsulated, secret } = await XWing.encapsulate(new Uint8Array(publicKey));
  assert.equal(encapsulated.length, 1120);
  assert.equal(hex(xwing.decapsulate(encapsulated, secretKey)), hex(secret));
});
