/** Bytes: hexadecimal digits, concatenation, numbers and digests. */

import { check } from './errors.js';

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */

const utf8 = new TextEncoder();

/**
 * Return bytes as lower-case hexadecimal digits.
 * @param {Uint8Array} data
 */
export const hex = (data) => Array.from(data, (one) => one.toString(16).padStart(2, '0')).join('');

/**
 * Return the bytes of lower-case hexadecimal digits.
 * @param {unknown} text
 * @param {number} [size] expected number of bytes
 * @param {string} [what]
 * @returns {Bytes}
 */
export function unhex(text, size, what = 'the text') {
  const bytes = typeof text === 'string' && /^([0-9a-f]{2})*$/.test(text) ? (text.match(/../g) ?? []) : undefined;
  check(
    bytes && bytes.length === (size ?? bytes.length),
    `${what} must be ${size ?? 'any number of'} bytes in lower-case hexadecimal`,
  );
  return Uint8Array.from(bytes, (byte) => parseInt(byte, 16));
}

/**
 * Concatenate bytes; text is encoded as UTF-8.
 * @param {...(Uint8Array | string)} parts
 * @returns {Bytes}
 */
export function concat(...parts) {
  const all = parts.map((part) => (typeof part === 'string' ? utf8.encode(part) : part));
  const result = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of all) {
    result.set(part, at);
    at += part.length;
  }
  return result;
}

/**
 * Return true if two byte arrays are equal.
 * @param {Uint8Array} one
 * @param {Uint8Array} two
 */
export const equal = (one, two) => one.length === two.length && one.every((byte, i) => byte === two[i]);

/**
 * Return bytes as a number, the most significant first.
 * @param {Uint8Array} data
 */
export const toNumber = (data) => BigInt(`0x0${hex(data)}`);

/**
 * Return a number as bytes, the most significant first.
 * @param {bigint} value
 * @param {number} size
 */
export const fromNumber = (value, size) => unhex(value.toString(16).padStart(2 * size, '0'), size, 'a number');

/**
 * Return two bytes of a number, the most significant first.
 * @param {number} value
 */
export const uint16 = (value) => Uint8Array.of(value >> 8, value & 255);

/**
 * Return the SHA-256 of bytes or text.
 * @param {Uint8Array | string} data
 * @returns {Promise<Bytes>}
 */
export const sha256 = (data) => toBytes(crypto.subtle.digest('SHA-256', concat(data)));

/**
 * Return the bytes of a buffer that WebCrypto computes.
 * @param {Promise<ArrayBuffer>} buffer
 */
export const toBytes = async (buffer) => new Uint8Array(await buffer);

/**
 * Import a key for one use, or a public key for none.
 * @param {Bytes} data
 * @param {string | HmacImportParams} algorithm
 * @param {...KeyUsage} uses
 */
export const importKey = (data, algorithm, ...uses) => crypto.subtle.importKey('raw', data, algorithm, false, uses);
