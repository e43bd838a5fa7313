/** Bodies and slots of strings: everybody who holds a string makes the same bytes, which only the analyzer can open. */

import { x25519 } from '@noble/curves/ed25519.js';
import { concat, importKey, toBytes, uint16, unhex } from './bytes.js';
import { demand } from './errors.js';
import { X25519, createContext, encapsulateWith, expand, labeled, seal } from './hpke.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 *
 * @typedef {{maxBytes: number, cut: boolean}} Texts The longest string, in bytes of UTF-8, and whether longer ones are cut.
 */

const VERSION = 2;
export const PREFIX = 3; // kind, length
/** The ASN.1 prefix of a private key of X25519 (RFC 8410), which WebCrypto does not import as raw bytes. */
const PKCS8 = unhex('302e020100300506032b656e04220420');

/**
 * Return the body of a string, or of nothing for null: its kind, its length, the string and zeros.
 * @param {unknown} value
 * @param {Texts} texts
 * @returns {Bytes}
 */
export function encodeString(value, { maxBytes, cut }) {
  if (value === null) return new Uint8Array(PREFIX + maxBytes);
  demand(typeof value === 'string' && !/\p{Surrogate}/u.test(value), 'the value must be valid text, or null for nothing');
  let data = concat(/** @type {string} */ (value));
  let kind = 1;
  if (data.length > maxBytes) {
    demand(cut, `the value must have at most ${maxBytes} bytes in UTF-8`);
    let end = maxBytes;
    // Not within a character.
    while ((Number(data[end]) & 0xc0) === 0x80) end--;
    data = data.slice(0, end);
    kind = 2;
  }
  return concat(Uint8Array.of(kind), uint16(data.length), data, new Uint8Array(maxBytes - data.length));
}

/**
 * Return what the function is applied to: the kind and the string, without padding.
 * @param {Uint8Array} body
 */
export const messageOf = (body) => concat(body.slice(0, 1), body.slice(PREFIX, PREFIX + 256 * Number(body[1]) + Number(body[2])));

/**
 * Return the only slot of a string under a key of the analyzer, given the output of the function.
 * @param {Bytes} body
 * @param {Bytes} output
 * @param {{task: Bytes}} contract
 * @param {{id: number, key: Bytes}} analyzer
 */
export async function sealString(body, output, { task }, analyzer) {
  const info = concat('hubbub/2 string', task, uint16(analyzer.id));
  const plain = concat(Uint8Array.of(VERSION), body);
  const mac = await importKey(output, { name: 'HMAC', hash: 'SHA-256' }, 'sign');
  const coins = await toBytes(crypto.subtle.sign('HMAC', mac, concat(info, analyzer.key, plain)));
  return concat(uint16(analyzer.id), await sealWith(coins, analyzer.key, info, plain));
}

/**
 * Seal with the ephemeral key that DeriveKeyPair of RFC 9180 derives from coins.
 * @param {Bytes} coins
 * @param {Bytes} publicKey
 * @param {Bytes} info
 * @param {Bytes} plain
 */
async function sealWith(coins, publicKey, info, plain) {
  const suite = concat('KEM', uint16(X25519.id));
  const input = await importKey(concat('HPKE-v1', suite, 'dkp_prk', coins), 'HKDF', 'deriveBits');
  const secret = await expand(input, new Uint8Array(), labeled(suite, 'sk', new Uint8Array(), 32), 32);
  const privateKey = await crypto.subtle.importKey('pkcs8', concat(PKCS8, secret), 'X25519', false, ['deriveBits']);
  const ephemeral = await crypto.subtle.importKey('raw', new Uint8Array(x25519.getPublicKey(secret)), 'X25519', true, []);
  const kem = { ...X25519, encapsulate: (/** @type {Bytes} */ to) => encapsulateWith({ privateKey, publicKey: ephemeral }, to) };
  return seal(await createContext(kem, info), publicKey, plain);
}
