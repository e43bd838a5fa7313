/**
 * The upload of one answer: randomized once, sealed, and sent until it is known to be stored.
 *
 * The randomized messages and the sealed bundle are in the journal before the first attempt. A bundle is sent unchanged
 * until there is a response; only the problem `outdated-keys`, if the signed key lists confirm it, makes the uploader seal
 * the same messages again, with the same ticket, token or id, which is spent once. A lost response, a crash, a key rotation
 * or a proxy that lies therefore never counts an answer twice. Refusals are not signed: none of them makes the journal
 * forget an answer before its round is over by the contract and by the device's clock.
 */

import { concat, hex, unhex } from './bytes.js';
import { system } from './coins.js';
import { readKeys } from './contract.js';
import { HubbubError, InvalidInput, NoResponse, demand, own } from './errors.js';
import { sealBundle } from './sealing.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./contract.js').Contract} Contract
 * @typedef {import('./store.js').Store} Store
 *
 * @typedef {object} Answer An entry of the journal; after it is settled, only round and state are left.
 * @property {number} round
 * @property {string} state `waiting`, `stored`, `uncertain`, or the name of the problem for which it was refused last
 * @property {string[]} [messages] randomized payloads in hexadecimal digits
 * @property {string | null} [admission] ticket, token or random id
 * @property {string | null} [bundle]
 * @property {number[]} [sealedTo] the ids of the keys, of analyzer and shuffler, that the bundle is sealed to
 * @property {boolean} [again] whether the answer was sent in an earlier bundle, too
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
const GRACE = 300; // seconds
const OLDER = hex(concat('HBB2')); // how bundles of the version before begin
const LOCAL = /^(localhost|127(\.\d+){3}|\[::1\])$/;
// Nothing that distinguishes one device from another.
const QUIET = /** @type {RequestInit} */ ({
  credentials: 'omit',
  referrerPolicy: 'no-referrer',
  cache: 'no-store',
  redirect: 'error',
});

/** @type {(milliseconds: number) => Promise<void>} */
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A request was refused; its message is the name of the problem. */
export class Refused extends HubbubError {
  name = 'Refused';
}

/**
 * Return the address of a service without a slash at its end; throws unless it is https, or on this machine.
 * @param {string} url
 */
export function addressOf(url) {
  const base = globalThis.location?.href;
  const { protocol, hostname } = URL.canParse(url, base) ? new URL(url, base) : { protocol: '', hostname: '' };
  demand(protocol === 'https:' || (protocol === 'http:' && LOCAL.test(hostname)), 'a service needs https, unless it is on this machine');
  return url.replace(/\/$/, '');
}

/**
 * Return true if the signed lists show that a bundle sealed to other keys is not taken any more.
 *
 * The word of a proxy or relay is not enough: it could have an answer sealed as often as it likes.
 * @param {import('./contract.js').Keys} keys
 * @param {number[]} before the ids of the keys of analyzer and shuffler
 */
export function supersede({ analyzer, shuffler, listed }, [first = 0, second = 0]) {
  return analyzer.id > first || (analyzer.id === first && !listed.includes(second) && shuffler.id > second);
}

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
    if (this.transport.issuer) addressOf(this.transport.issuer);
    this.base = `${addressOf(transport.shuffler)}/v1/tasks/${contract.id}`;
  }

  /**
   * Send an answer until it is stored or refused; returns its state. An answer that was refused before is tried again.
   * @param {string} key
   * @returns {Promise<string>}
   */
  async send(key) {
    try {
      return await this.sendAnswer(key);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return this.refuse(key, error.message);
    }
  }

  /** @param {string} key */
  async sendAnswer(key) {
    for (let outdated = 0; outdated < this.attempts; ) {
      const { value: answer, version } = await this.read(key);
      const { admission, bundle, messages, state, again, sealedTo = [] } = own(answer);
      if (!messages && !bundle) return state;
      /** @type {(change: object) => Promise<boolean>} If another tab has changed the answer in the meantime, that one counts. */
      const put = (change) => this.journal.put(key, { ...answer, ...change }, version);
      if (admission === '') {
        // An earlier version gave no ids: another bundle of this answer could count again.
        if (bundle) await this.settle(key, 'uncertain');
        else await put({ admission: hex(system(16)) });
      } else if (bundle?.startsWith(OLDER)) {
        await put({ bundle: null, again: true });
      } else if (messages && typeof admission !== 'string') {
        await this.admit(key, answer, version);
      } else if (!bundle) {
        await put(await this.sealed(answer, await this.fetchKeys()));
      } else {
        const { problem } = await this.post(`${this.base}/bundles`, 'application/hubbub-bundle', unhex(bundle), (status) => status === 201);
        if (!problem || (problem === 'token-spent' && again)) {
          await this.settle(key, 'stored');
        } else if (problem !== 'outdated-keys' || !messages) {
          // Without its messages, the answer is uncertain.
          throw new Refused(messages ? problem : state);
        } else if (++outdated < this.attempts) {
          const keys = await this.fetchKeys();
          if (supersede(keys, sealedTo)) await put({ ...(await this.sealed(answer, keys)), again: true });
          // A proxy says so, and the signed lists do not: the bundle may be stored.
          else await (this.transport.pause ?? sleep)(FIRST_PAUSE * 2 ** (outdated - 1));
        }
      }
    }
    throw new NoResponse('the answer is refused for outdated keys that the signed lists still have');
  }

  /**
   * Record a refusal; the answer is forgotten only if its round has been over for a while by this clock.
   * @param {string} key
   * @param {string} state
   */
  async refuse(key, state) {
    const { taskStart, taskEnd, epoch, series } = this.contract;
    for (;;) {
      const { value, version } = await this.read(key);
      const { round, bundle, messages } = own(value);
      if (!messages && !bundle) return value.state;
      const end = series ? taskStart + round * series.roundEpochs : taskEnd;
      const over = this.now() >= (end + 1) * epoch + GRACE;
      // Of an uncertain answer only the bundle is kept, which may be sent again; nothing else may be.
      const kept = over ? { round } : state === 'uncertain' ? { round, bundle } : value;
      if (await this.journal.put(key, { ...kept, state }, version)) return state;
    }
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
      const settled = !value.messages && !value.bundle;
      if (settled || (await this.journal.put(key, { round: value.round, state }, version))) return;
    }
  }

  /**
   * Return what the journal keeps about a new bundle of an answer.
   * @param {Answer} answer
   * @param {import('./contract.js').Keys} current
   */
  async sealed(answer, current) {
    const { bundle, keys } = await this.seal(answer, unhex(answer.admission ?? ''), current);
    return { bundle: hex(bundle), sealedTo: [keys.analyzer.id, keys.shuffler.id] };
  }

  /**
   * @param {Answer} answer
   * @param {Bytes} admission
   * @param {import('./contract.js').Keys} keys
   */
  async seal({ messages = [], round }, admission, keys) {
    const payloads = messages.map((one) => unhex(one));
    return { bundle: await sealBundle(payloads, admission, this.contract, keys, { round, kem: this.transport.kem }), keys };
  }

  /** Return the keys to seal with. */
  async fetchKeys() {
    const { problem, body } = await this.request(`${this.base}/keys`, {}, (status, { 0: first }) => status === 200 && first === BRACE);
    if (problem === 'unknown-task') throw new InvalidInput('the shuffler has no such task');
    if (problem) throw new NoResponse(`no keys: ${problem}`);
    return this.readKeys(body);
  }

  /**
   * @param {Bytes} text
   * @returns {Promise<import('./contract.js').Keys>}
   */
  readKeys(text) {
    return readKeys(text, this.contract, this.now());
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
