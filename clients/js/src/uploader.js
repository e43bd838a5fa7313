/**
 * The upload of one answer: randomized once, sealed, and sent until it is known to be stored.
 *
 * The randomized messages and the sealed bundle are in the journal before the first attempt. A bundle is sent unchanged
 * until there is a response; only the problem `outdated-keys`, which says that it was not stored, makes the uploader seal
 * the same messages again, with the same admission. A lost response, a crash or a key rotation therefore never counts an
 * answer twice.
 */

import { concat, hex, unhex } from './bytes.js';
import { system } from './coins.js';
import { readKeys } from './contract.js';
import { HubbubError, InvalidInput, NoResponse, own } from './errors.js';
import { sealBundle } from './sealing.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./contract.js').Contract} Contract
 * @typedef {import('./store.js').Store} Store
 *
 * @typedef {object} Answer An entry of the journal; after it is settled, only round and state are left.
 * @property {number} round
 * @property {string} state `waiting`, `stored`, `uncertain`, or the name of the problem for which it was refused
 * @property {string[]} [messages] randomized payloads in hexadecimal digits
 * @property {string | null} [admission]
 * @property {string | null} [bundle]
 * @property {string} [pending] the secrets of a token that is being requested
 * @property {string} [code] the code by which the issuer knows the account
 *
 * @typedef {object} Transport
 * @property {string} shuffler URL of the shuffler, or of a relay on the page's own origin
 * @property {string} [issuer] URL of the issuer of tokens, or of a relay
 * @property {typeof fetch} [fetch]
 * @property {number} [attempts] attempts per request; afterwards the journal keeps the answer for the next run
 * @property {number} [timeout] milliseconds after which a request counts as lost
 * @property {(milliseconds: number) => Promise<void>} [pause]
 * @property {() => number} [now] seconds since 1970
 * @property {import('./hpke.js').Kem} [kem]
 *
 * @typedef {(status: number, body: Bytes) => boolean} Success
 */

// The name of a problem becomes the state of an answer, so those of answers that are not refused are none.
const PROBLEM = /^urn:hubbub:problem:(?!stored$|waiting$)([a-z-]{1,40})$/;
const ATTEMPTS = 12;
const TIMEOUT = 30_000;
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 60_000;
const LONGEST_WAIT = 3600; // seconds that a service may ask for
const BRACE = 123; // first byte of a JSON object
const MAX_RESPONSE = 2 ** 20; // bytes; no service of hubbub sends more
// Nothing that distinguishes one device from another.
const QUIET = /** @type {RequestInit} */ ({
  credentials: 'omit',
  referrerPolicy: 'no-referrer',
  cache: 'no-store',
  redirect: 'error',
});

/** @type {(milliseconds: number) => Promise<void>} */
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Sends the answers of a journal to the shuffler of a contract. */
export class Uploader {
  /**
   * @param {Contract} contract
   * @param {Store} journal
   * @param {Transport} transport
   */
  constructor(contract, journal, transport) {
    this.contract = contract;
    this.journal = journal;
    this.transport = own(transport);
    this.attempts = this.transport.attempts ?? ATTEMPTS;
    this.base = `${transport.shuffler.replace(/\/$/, '')}/v1/tasks/${contract.id}`;
  }

  /**
   * Send an answer until it is stored or refused; returns its final state.
   * @param {string} key
   * @returns {Promise<string>}
   */
  async send(key) {
    for (let resealed = 0; resealed < this.attempts; ) {
      const { value: answer, version } = await this.read(key);
      if (answer.state !== 'waiting') return answer.state;
      if (typeof answer.admission !== 'string') {
        await this.admit(key, answer, version);
      } else if (typeof answer.bundle !== 'string') {
        const bundle = await this.seal(answer, answer.admission);
        // If another tab has sealed the answer in the meantime, that bundle is the one to send.
        await this.journal.put(key, { ...answer, bundle }, version);
      } else {
        const body = unhex(answer.bundle);
        const { problem } = await this.post(`${this.base}/bundles`, 'application/hubbub-bundle', body, (status) => status === 201);
        if (problem === 'outdated-keys') {
          resealed++;
          await this.journal.put(key, { ...answer, bundle: null }, version);
        } else {
          await this.settle(key, problem || 'stored');
        }
      }
    }
    throw new HubbubError('the keys changed during every attempt');
  }

  /**
   * Obtain the admission that an answer waits for.
   * @param {string} _key
   * @param {Answer} _answer
   * @param {number} _version
   * @returns {Promise<void>}
   */
  async admit(_key, _answer, _version) {
    throw new InvalidInput('the answer waits for a token');
  }

  /**
   * Set the final state of an answer, and delete everything else about it.
   * @param {string} key
   * @param {string} state
   */
  async settle(key, state) {
    for (;;) {
      const { value, version } = await this.read(key);
      if (value.state !== 'waiting' || (await this.journal.put(key, { round: value.round, state }, version))) return;
    }
  }

  /**
   * @param {Answer} answer
   * @param {string} admission
   */
  async seal({ messages = [], round }, admission) {
    const { problem, body } = await this.request(`${this.base}/keys`, {}, (status, { 0: first }) => status === 200 && first === BRACE);
    if (problem === 'unknown-task') throw new InvalidInput('the shuffler has no such task');
    if (problem) throw new NoResponse(`no keys: ${problem}`);
    const keys = await readKeys(body, this.contract, this.now());
    const payloads = messages.map((one) => unhex(one));
    return hex(await sealBundle(payloads, unhex(admission), this.contract, keys, { round, kem: this.transport.kem }));
  }

  /** Return the time in seconds since 1970. */
  now() {
    return this.transport.now?.() ?? Date.now() / 1000;
  }

  /**
   * @param {string} key
   * @returns {Promise<{value: Answer, version: number}>}
   */
  async read(key) {
    const found = await this.journal.get(key);
    if (!found) throw new InvalidInput('there is no such answer');
    return found;
  }

  /**
   * Send bytes until there is a final response.
   * @param {string} url
   * @param {string} type
   * @param {Bytes} body
   * @param {Success} succeeds
   * @param {{[name: string]: string}} [headers]
   */
  post(url, type, body, succeeds, headers) {
    return this.request(url, { method: 'POST', headers: { 'content-type': type, ...headers }, body }, succeeds);
  }

  /**
   * Repeat a request until it succeeds, or a service of hubbub refuses it; pauses double, with full jitter.
   *
   * Everything else, such as the page of a hotel's network, counts as no response.
   * @param {string} url
   * @param {RequestInit} options
   * @param {Success} succeeds
   * @returns {Promise<{problem: string, body: Bytes}>} the name of the problem is empty after success
   */
  async request(url, options, succeeds) {
    const { fetch: send = fetch, timeout = TIMEOUT, pause = sleep } = this.transport;
    let reason = '';
    let wait = 0;
    for (let attempt = 0; attempt < this.attempts; attempt++) {
      if (attempt) {
        const share = new DataView(system(4).buffer).getUint32(0) / 2 ** 32;
        await pause(wait + share * Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)));
      }
      wait = 0;
      try {
        const response = await send(url, { ...QUIET, ...options, signal: AbortSignal.timeout(timeout) });
        const body = await bodyOf(response);
        const { status } = response;
        if (succeeds(status, body)) return { problem: '', body };
        const problem = problemOf(body);
        if (problem && isFinal(status)) return { problem, body };
        const seconds = response.headers.get('retry-after') ?? '';
        if (/^\d+$/.test(seconds)) wait = 1000 * Math.min(Number(seconds), LONGEST_WAIT);
        reason = `status ${status} ${problem}`;
      } catch (error) {
        reason = /** @type {Error} */ (error).name;
      }
    }
    throw new NoResponse(`no final response: ${reason}`);
  }
}

/**
 * Return the body of a response; throws if it is longer than any of a service.
 * @param {Response} response
 */
async function bodyOf({ body }) {
  const reader = body?.getReader();
  const parts = [];
  let size = 0;
  for (let part; (part = (await reader?.read())?.value); parts.push(part)) {
    size += part.length;
    if (size > MAX_RESPONSE) {
      await reader?.cancel();
      throw new NoResponse('the response is too long');
    }
  }
  return concat(...parts);
}

/**
 * Return true if the service refuses for good; other problems may be gone later.
 * @param {number} status
 */
const isFinal = (status) => status >= 400 && status < 500 && ![408, 425, 429].includes(status);

/**
 * Return the name of the problem that a service states; empty if the response is not that of a service of hubbub.
 * @param {Uint8Array} body
 */
function problemOf(body) {
  try {
    const { type } = JSON.parse(new TextDecoder().decode(body));
    return (typeof type === 'string' && PROBLEM.exec(type)?.[1]) || '';
  } catch {
    return '';
  }
}
