/** Published vectors of the cryptography, and seals that the golden files of the services contain. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { hex, unhex } from '../src/bytes.js';
import { X25519, createContext, encapsulateWith, schedule, seal } from '../src/hpke.js';
import { PendingToken, encodePss } from '../src/tokens.js';
import { verifyToken } from '../src/wire.js';

const golden = (name) => JSON.parse(readFileSync(new URL(`../../../tests/service/golden/${name}.json`, import.meta.url), 'utf8'));

function keyPair(secret, shared) {
  const [d, x] = [secret, shared].map((text) => Buffer.from(text, 'hex').toString('base64url'));
  const algorithm = { name: 'X25519' };
  return Promise.all([
    crypto.subtle.importKey('jwk', { kty: 'OKP', crv: 'X25519', d, x }, algorithm, false, ['deriveBits']),
    crypto.subtle.importKey('jwk', { kty: 'OKP', crv: 'X25519', x }, algorithm, true, []),
  ]).then(([privateKey, publicKey]) => ({ privateKey, publicKey }));
}

test('HPKE: RFC 9180, A.1.1', async () => {
  const vector = golden('hpke').rfc9180;
  const { encapsulated, secret } = await encapsulateWith(await keyPair(vector.skE, vector.enc), unhex(vector.pkR));
  assert.equal(hex(encapsulated), vector.enc);
  assert.equal(hex(secret), vector.shared_secret);
  const { key, nonce } = await schedule(await createContext(X25519, unhex(vector.info)), secret);
  assert.equal(hex(key), vector.key);
  assert.equal(hex(nonce), vector.base_nonce);
});

test('HPKE refuses public keys of low order', async () => {
  const context = await createContext(X25519, new Uint8Array());
  for (const key of ['00'.repeat(32), `01${'00'.repeat(31)}`]) {
    await assert.rejects(seal(context, unhex(key), new Uint8Array(1)), { name: 'WireError' });
  }
});

test('tokens: RFC 9578, A.2', async () => {
  const { vectors, pkS } = golden('rfc9578');
  assert.equal(vectors.length, 5);
  for (const one of vectors) {
    const key = unhex(pkS);
    const challenged = unhex(one.token_challenge);
    const data = (name) => unhex(one[name]);
    const pending = new PendingToken(key, challenged, Uint8Array.from([...data('nonce'), ...data('salt'), ...data('blind')]));
    assert.equal(hex(await pending.request()), one.token_request);
    const token = await pending.finalize(data('token_response'));
    assert.equal(hex(token), one.token);
    assert.ok(await verifyToken(token, key, challenged));
    for (const place of [1, 10, 40, 80, 200]) {
      const wrong = token.slice();
      wrong[place] ^= 1;
      assert.equal(await verifyToken(wrong, key, challenged), false);
    }
  }
});

test('the encoding of PSS has 2047 bits', async () => {
  for (let i = 0; i < 20; i++) {
    const encoded = await encodePss(Uint8Array.of(i), new Uint8Array(48));
    assert.ok(encoded < 1n << 2047n);
    assert.equal(encoded & 255n, 0xbcn);
  }
});
