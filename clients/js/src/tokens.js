/**
 * Privacy Pass tokens of type 2, Blind RSA with 2048 bits (RFC 9474, 9577, 9578): the part of the client.
 *
 * The issuer signs a number that is uniformly random, whatever the token, and so cannot recognize the token later.
 */

import { concat, fromNumber, hex, sha256, toBytes, toNumber, uint16, unhex } from './bytes.js';
import { system } from './coins.js';
import { check } from './errors.js';
import { loaded } from './extensions.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./coins.js').Source} Source
 */

const TYPE = Uint8Array.of(0, 2);
const [NONCE, SALT, HASH] = [32, 48, 48];
/** Bytes of the issuer's modulus and of its signatures. */
export const MODULUS = 256;
const EXPONENT = 65537n;
/** SubjectPublicKeyInfo of an RSASSA-PSS key of 2048 bits: the bytes before and after the modulus (RFC 9578, 6.5). */
const KEY_START =
  '30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108300b0609608648' +
  '016503040202a2030201300382010f003082010a0282010100';
const KEY_END = '0203010001';

/**
 * Return the modulus of a key.
 * @param {Uint8Array} key
 */
export const modulusOf = (key) => key.slice(KEY_START.length / 2, -KEY_END.length / 2);

/**
 * Return the TokenChallenge of a task: type, issuer name, redemption context, empty origin (RFC 9577, section 2.1).
 * @param {string} issuer
 * @param {Uint8Array} task
 */
export async function challenge(issuer, task) {
  const context = await sha256(concat('hubbub/2 admission', task));
  return concat(TYPE, uint16(issuer.length), issuer, Uint8Array.of(context.length), context, uint16(0));
}

/** The secrets of a token that is being requested; keep them, or the issued token is lost. */
export class PendingToken {
  /**
   * @param {Bytes} key SubjectPublicKeyInfo of the issuer's key, as the contract states it
   * @param {Bytes} challenged
   * @param {Bytes} secrets nonce, salt and blinding factor
   */
  constructor(key, challenged, secrets) {
    check(secrets.length === NONCE + SALT + MODULUS, 'the secrets of a token have the wrong length');
    this.key = key;
    this.challenged = challenged;
    this.secrets = secrets;
    this.modulus = toNumber(modulusOf(key));
    this.factor = toNumber(secrets.subarray(NONCE + SALT));
  }

  /**
   * Draw new secrets.
   * @param {Bytes} key
   * @param {Bytes} challenged
   * @param {Source} [source]
   */
  static generate(key, challenged, source = system) {
    const modulus = toNumber(modulusOf(key));
    for (;;) {
      // Rejection, because a remainder would make small factors more likely and the request would depend on them.
      const factor = source(MODULUS);
      const value = toNumber(factor);
      if (value > 0n && value < modulus && inverse(value, modulus)) {
        return new PendingToken(key, challenged, concat(source(NONCE), source(SALT), factor));
      }
    }
  }

  /** Return the signed part of the token. */
  async input() {
    return concat(TYPE, this.secrets.subarray(0, NONCE), await sha256(this.challenged), await sha256(this.key));
  }

  /** Return the encoded message, whose signature the issuer makes without seeing it. */
  async encoded() {
    return encodePss(await this.input(), this.secrets.subarray(NONCE, NONCE + SALT));
  }

  /** Return the TokenRequest; it is a function of the secrets, so a repeated request gets the same response. */
  async request() {
    const encoded = await this.encoded();
    check(inverse(encoded, this.modulus), "the message divides the issuer's key");
    const blinded = (encoded * power(this.factor, EXPONENT, this.modulus)) % this.modulus;
    return concat(TYPE, (await sha256(this.key)).subarray(-1), fromNumber(blinded, MODULUS));
  }

  /**
   * Return the token from the issuer's response; throws if the response is not a valid signature.
   * @param {Uint8Array} response
   */
  async finalize(response) {
    const blinded = toNumber(response);
    const unblinded = (blinded * inverse(this.factor, this.modulus)) % this.modulus;
    // The salt is known, so that encoding the message again verifies the signature.
    const valid = power(unblinded, EXPONENT, this.modulus) === (await this.encoded());
    check(valid && response.length === MODULUS && blinded < this.modulus, "the issuer's response is not a valid signature");
    return concat(await this.input(), fromNumber(unblinded, MODULUS));
  }
}

/** @param {Uint8Array} data */
const sha384 = (data) => toBytes(crypto.subtle.digest('SHA-384', concat(data)));

/**
 * Return EMSA-PSS-ENCODE of a message with SHA-384 and MGF1, of 2047 bits (RFC 8017, section 9.1.1).
 * @param {Bytes} message
 * @param {Bytes} salt
 */
export async function encodePss(message, salt) {
  const digest = await sha384(concat(new Uint8Array(8), await sha384(message), salt));
  const block = concat(new Uint8Array(MODULUS - salt.length - HASH - 2), Uint8Array.of(1), salt);
  for (let start = 0, counter = 0; start < block.length; start += HASH, counter++) {
    const mask = await sha384(concat(digest, Uint8Array.of(0, 0, 0, counter)));
    block.subarray(start, start + HASH).forEach((byte, i, part) => (part[i] = byte ^ Number(mask[i])));
  }
  block[0] = Number(block[0]) & 0x7f;
  return toNumber(concat(block, digest, Uint8Array.of(0xbc)));
}

/**
 * @param {bigint} base
 * @param {bigint} exponent
 * @param {bigint} modulus
 */
function power(base, exponent, modulus) {
  let result = 1n;
  for (const digit of exponent.toString(2)) {
    result = (result * result) % modulus;
    if (digit === '1') result = (result * base) % modulus;
  }
  return result;
}

/**
 * Return the inverse of a number modulo another one, or 0 if there is none (extended Euclid).
 * @param {bigint} value
 * @param {bigint} modulus
 */
function inverse(value, modulus) {
  let [rest, last] = [modulus, value % modulus];
  let [before, factor] = [0n, 1n];
  while (last) {
    const quotient = rest / last;
    [rest, last] = [last, rest - quotient * last];
    [before, factor] = [factor, before - quotient * factor];
  }
  return rest === 1n ? (before + modulus) % modulus : 0n;
}


loaded.tokenKey = (value) => {
  const key = unhex(value, 342, "the issuer's key");
  const modulus = modulusOf(key);
  check(
    KEY_START + hex(modulus) + KEY_END === value && Number(modulus[0]) > 127 && Number(modulus.at(-1)) % 2,
    "the issuer's key must be RSASSA-PSS with 2048 bits",
  );
  return key;
};
