/**
 * Hybrid public-key encryption (RFC 9180): base mode, single shot, HKDF-SHA256 and AES-128-GCM, by WebCrypto alone.
 */

import { concat, importKey, toBytes, uint16 } from './bytes.js';
import { check } from './errors.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {object} Kem A key encapsulation mechanism.
 * @property {number} id its number in HPKE
 * @property {number} publicSize bytes of a public key
 * @property {(publicKey: Bytes) => Promise<{encapsulated: Bytes, secret: Bytes}>} encapsulate
 */

const { subtle } = crypto;
const VERSION = 'HPKE-v1';
const EMPTY = new Uint8Array();

/**
 * DHKEM(X25519, HKDF-SHA256), the mechanism of suite 1.
 * @type {Kem}
 */
export const X25519 = {
  id: 0x20,
  publicSize: 32,
  async encapsulate(publicKey) {
    const pair = /** @type {CryptoKeyPair} */ (await subtle.generateKey('X25519', false, ['deriveBits']));
    return encapsulateWith(pair, publicKey);
  },
};

/**
 * Return the encapsulated key and the shared secret of an ephemeral key pair.
 * @param {CryptoKeyPair} pair
 * @param {Bytes} publicKey
 */
export async function encapsulateWith(pair, publicKey) {
  const suite = concat('KEM', uint16(X25519.id));
  const recipient = await importKey(publicKey, 'X25519');
  const encapsulated = await toBytes(subtle.exportKey('raw', pair.publicKey));
  /** @type {Bytes} */
  let shared;
  try {
    shared = await toBytes(subtle.deriveBits({ name: 'X25519', public: recipient }, pair.privateKey, 256));
  } catch {
    shared = EMPTY;
  }
  check(shared.some((byte) => byte), 'the public key is not a valid key of suite 1');
  const key = await importKey(concat(VERSION, suite, 'eae_prk', shared), 'HKDF', 'deriveBits');
  const info = labeled(suite, 'shared_secret', concat(encapsulated, publicKey), 32);
  return { encapsulated, secret: await expand(key, EMPTY, info, 32) };
}

/** @typedef {{kem: Kem, suite: Bytes, input: CryptoKey, context: Bytes}} Context What all seals with one info share. */

/**
 * Return what all seals with the same info share.
 * @param {Kem} kem
 * @param {Bytes} info
 * @returns {Promise<Context>}
 */
export async function createContext(kem, info) {
  const suite = concat('HPKE', uint16(kem.id), uint16(1), uint16(1));
  // An empty salt stands for 32 zero bytes.
  const salt = await importKey(new Uint8Array(32), { name: 'HMAC', hash: 'SHA-256' }, 'sign');
  /** @type {(label: string, data: Bytes) => Promise<Bytes>} */
  const extract = (label, data) => toBytes(subtle.sign('HMAC', salt, concat(VERSION, suite, label, data)));
  const context = concat(Uint8Array.of(0), await extract('psk_id_hash', EMPTY), await extract('info_hash', info));
  const input = await importKey(concat(VERSION, suite, 'secret'), 'HKDF', 'deriveBits');
  return { kem, suite, input, context };
}

/**
 * @param {Bytes} suite
 * @param {string} label
 * @param {Bytes} context
 * @param {number} size
 */
export const labeled = (suite, label, context, size) => concat(uint16(size), VERSION, suite, label, context);

/**
 * Extract with a salt, then expand.
 * @param {CryptoKey} key
 * @param {Bytes} salt
 * @param {Bytes} info
 * @param {number} size
 * @returns {Promise<Bytes>}
 */
export const expand = (key, salt, info, size) =>
  toBytes(subtle.deriveBits({ name: 'HKDF', hash: 'SHA-256', salt, info }, key, 8 * size));

/**
 * Return the key and the nonce of a shared secret.
 * @param {Context} context
 * @param {Bytes} secret
 */
export async function schedule({ suite, input, context }, secret) {
  const key = await expand(input, secret, labeled(suite, 'key', context, 16), 16);
  return { key, nonce: await expand(input, secret, labeled(suite, 'base_nonce', context, 12), 12) };
}

/**
 * Encrypt to a public key; returns the encapsulated key and the ciphertext.
 * @param {Context} context
 * @param {Bytes} publicKey
 * @param {Bytes} plain
 * @returns {Promise<Bytes>}
 */
export async function seal(context, publicKey, plain) {
  const { encapsulated, secret } = await context.kem.encapsulate(publicKey);
  const { key, nonce } = await schedule(context, secret);
  const cipher = await importKey(key, 'AES-GCM', 'encrypt');
  return concat(encapsulated, await toBytes(subtle.encrypt({ name: 'AES-GCM', iv: nonce, tagLength: 128, additionalData: concat() }, cipher, plain)));
}
