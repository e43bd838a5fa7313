/** The errors of the client; their names and their tree are those of the Python library. */

/** Base class of all errors that the client raises deliberately. */
export class HubbubError extends Error {
  name = 'HubbubError';
}
/** An argument lies outside its domain. */
export class InvalidInput extends HubbubError {
  name = 'InvalidInput';
}
/** Bytes or JSON violate their format. */
export class WireError extends InvalidInput {
  name = 'WireError';
}
/** A document is not what it claims to be: a signature, a task or an operator is wrong. */
export class FalseClaim extends HubbubError {
  name = 'FalseClaim';
}
/** A key list is out of date: its keys may no longer exist. */
export class ExpiredKeys extends FalseClaim {
  name = 'ExpiredKeys';
}
/** A randomness source returned fewer bytes than requested. */
export class EntropyFailure extends HubbubError {
  name = 'EntropyFailure';
}
/** A request without a final response: it may have been processed or not. */
export class NoResponse extends HubbubError {
  name = 'NoResponse';
}

/**
 * Throw a {@link WireError} unless a condition holds.
 * @param {unknown} condition
 * @param {string} message
 * @returns {asserts condition}
 */
export function check(condition, message) {
  if (!condition) throw new WireError(message);
}

/**
 * Throw an {@link InvalidInput} unless a condition holds.
 * @param {unknown} condition
 * @param {string} message
 * @returns {asserts condition}
 */
export function demand(condition, message) {
  if (!condition) throw new InvalidInput(message);
}

/**
 * Return options without those they inherit: another script of the page may have changed Object.prototype.
 * @template {object} T
 * @param {T} [options]
 * @returns {T}
 */
export const own = (options) => Object.assign(Object.create(null), options);
