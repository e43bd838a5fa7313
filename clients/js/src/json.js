/** Canonical JSON (RFC 8785), a strict parser, and typed readers of JSON objects. */

import { WireError, check } from './errors.js';

/** @typedef {null | boolean | number | string | Real | Json[] | {[key: string]: Json}} Json */

/** A number that is written with a fraction or an exponent: never a whole number, even if its value is one. */
export class Real {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

const TOKEN = /"(?:[^"\\]|\\.)*"|:|-?\d+(\.\d+)?([eE][+-]?\d+)?/g;
const MARK = '\ud800'; // a lone surrogate, which no text may contain

/**
 * Parse JSON strictly: no duplicate keys, no number out of range, UTF-8 without lone surrogates.
 *
 * JSON.parse sees neither duplicate keys nor the difference of 1 and 1.0. So real numbers become marked strings, colons
 * are counted, and the result is parsed again: there must be as many keys as colons. The text must be JSON before, or the
 * search for the end of an open string would take quadratic time.
 * @param {string | Uint8Array} source
 * @param {string} what
 * @returns {Json}
 */
export function parse(source, what) {
  let pairs = 1;
  /** @type {Json} */
  let value;
  try {
    const text = typeof source === 'string' ? source : new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(source);
    JSON.parse(text);
    const marked = text.replace(TOKEN, (token, fraction, exponent) => {
      if (token === ':') pairs++;
      else if (token[0] === '"') must(!/\p{Surrogate}/u.test(JSON.parse(token)), 'not contain lone surrogates');
      else {
        const real = fraction || exponent;
        must(Number.isFinite(Number(token)) && (real || token.length < 20), 'not have a number out of range');
        if (real) return JSON.stringify(MARK + token);
      }
      return token;
    });
    value = JSON.parse(marked, function (_, one) {
      if (!Array.isArray(this)) pairs--;
      return typeof one === 'string' && one[0] === MARK ? new Real(Number(one.slice(1))) : one;
    });
  } catch (error) {
    if (error instanceof WireError) throw error;
    throw new WireError(`${what} must be JSON in UTF-8`);
  }
  must(!pairs, 'not have a duplicate key');
  return value;

  /**
   * @param {unknown} condition
   * @param {string} message
   */
  function must(condition, message) {
    check(condition, `${what} must ${message}`);
  }
}

/**
 * Return the canonical text of a value: sorted keys, no spaces, shortest numbers.
 * @param {Json} value
 * @returns {string}
 */
export function canonical(value) {
  if (value instanceof Real) return JSON.stringify(value.value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const entries = Object.keys(value).sort();
  return `{${entries.map((key) => `${JSON.stringify(key)}:${canonical(/** @type {Json} */ (value[key]))}`).join(',')}}`;
}

/** A JSON object with exactly the given keys, read one typed entry at a time. */
export class Fields {
  /**
   * @param {Json | undefined} value
   * @param {string} what
   * @param {...string} keys
   */
  constructor(value, what, ...keys) {
    check(
      isObject(value) && Object.keys(value).length === keys.length && keys.every((key) => Object.hasOwn(value, key)),
      `${what} must have exactly the keys ${keys.join(', ')}`,
    );
    this.entries = value;
    this.what = what;
  }

  /**
   * Read a JSON object from a text.
   * @param {string | Uint8Array} text
   * @param {string} what
   * @param {...string} keys
   */
  static parse(text, what, ...keys) {
    return new Fields(parse(text, what), what, ...keys);
  }

  /**
   * Return an entry of any type.
   * @param {string} key
   * @returns {Json}
   */
  get(key) {
    return /** @type {Json} */ (this.entries[key]);
  }

  /**
   * @template {Json} T
   * @param {string} key
   * @param {string} kind
   * @param {(value: Json) => value is T} test
   * @returns {T}
   */
  typed(key, kind, test) {
    const value = this.get(key);
    check(test(value), `'${key}' of ${this.what} must be ${kind}`);
    return value;
  }

  /**
   * Check the entry `format`, which names the kind of document.
   * @param {string} kind
   * @param {number} version
   */
  format(kind, version = 2) {
    this.choice('format', [`hubbub ${kind} ${version}`]);
  }

  /** @param {string} key */
  text(key) {
    return this.typed(key, 'a string', isText);
  }

  /**
   * Return one of several strings.
   * @template {string} T
   * @param {string} key
   * @param {readonly T[]} choices
   */
  choice(key, choices) {
    return this.typed(key, `one of ${choices.join(', ')}`, /** @type {(value: Json) => value is T} */ (
      (value) => choices.includes(/** @type {T} */ (value))
    ));
  }

  /** @param {string} key */
  truth(key) {
    return this.typed(key, 'true or false', /** @type {(value: Json) => value is boolean} */ (
      (value) => typeof value === 'boolean'
    ));
  }

  /** @param {string} key */
  list(key) {
    return this.typed(key, 'a list', /** @type {(value: Json) => value is Json[]} */ (Array.isArray));
  }

  /** @param {string} key */
  texts(key) {
    return this.typed(key, 'a list of strings', /** @type {(value: Json) => value is string[]} */ (
      (value) => Array.isArray(value) && value.every(isText)
    ));
  }

  /**
   * Return a whole number of [low, high].
   * @param {string} key
   * @param {number} [low]
   * @param {number} [high]
   */
  whole(key, low = 0, high = Infinity) {
    return whole(this.get(key), `'${key}' of ${this.what}`, low, high);
  }

  /**
   * Return whole numbers of [low, high].
   * @param {string} key
   * @param {number} low
   * @param {number} high
   */
  wholes(key, low, high) {
    return this.list(key).map((one) => whole(one, `'${key}' of ${this.what}`, low, high));
  }

  /**
   * Return a number of [low, high].
   * @param {string} key
   * @param {number} [low]
   * @param {number} [high]
   */
  real(key, low = -Infinity, high = Infinity) {
    return real(this.get(key), `'${key}' of ${this.what}`, low, high);
  }

  /**
   * Return a number that is at least 0, or infinity for the string "inf".
   * @param {string} key
   */
  limit(key) {
    return this.get(key) === 'inf' ? Infinity : this.real(key, 0);
  }
}

/**
 * Return true if a value is a JSON object.
 * @param {unknown} value
 * @returns {value is {[key: string]: Json}}
 */
export function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Real);
}

/**
 * Return true if all items of a list differ.
 * @param {unknown[]} list
 */
export const distinct = (list) => new Set(list).size === list.length;

/** @type {(value: Json) => value is string} */
const isText = (value) => typeof value === 'string';

/**
 * Return a whole number of [low, high].
 * @param {Json | undefined} value
 * @param {string} what
 * @param {number} low
 * @param {number} high
 */
export function whole(value, what, low, high) {
  check(
    Number.isSafeInteger(value) && Number(value) >= low && Number(value) <= high,
    `${what} must be a whole number of [${low}, ${high}]`,
  );
  return Number(value);
}

/**
 * Return a number of [low, high].
 * @param {Json | undefined} value
 * @param {string} what
 * @param {number} low
 * @param {number} high
 */
export function real(value, what, low, high) {
  const number = value instanceof Real ? value.value : value;
  check(typeof number === 'number' && number >= low && number <= high, `${what} must be a number of [${low}, ${high}]`);
  return number;
}
