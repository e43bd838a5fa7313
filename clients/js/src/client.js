/** The client: one person's answers to one contract, each randomized once and counted once. */

import { hex, unhex } from './bytes.js';
import { system } from './coins.js';
import { checkOperators, readContract } from './contract.js';
import { payloads } from './device.js';
import { NoResponse, demand, own } from './errors.js';
import { AlreadyCharged, charge, total } from './ledger.js';
import { roundAt } from './series.js';
import { MODULUS, PendingToken, challenge } from './tokens.js';
import { Refused, Uploader, addressOf } from './uploader.js';

/**
 * @typedef {import('./bytes.js').Bytes} Bytes
 * @typedef {import('./contract.js').Contract} Contract
 * @typedef {import('./contract.js').Operators} Operators
 * @typedef {import('./ledger.js').Budget} Budget
 * @typedef {import('./store.js').Store} Store
 * @typedef {import('./uploader.js').Transport} Transport
 *
 * @typedef {object} Options
 * @property {string | Uint8Array} contract the signed contract
 * @property {Operators | 'first-use'} operators
 *   the identities of both operators, or `first-use` to remember those of the first contract
 * @property {Store} store journal, ledger and remembered operators of one person
 * @property {Budget} [budget] the most that all collections of this person may cost
 * @property {string} [task] the expected task
 * @property {number} [minBatchSize] the smallest batch that the person accepts
 * @property {string} [name] name under which operators are remembered, by default the URL of the shuffler
 */

/** @type {import('./uploader.js').Success} */
const isSignature = (status, body) => status === 200 && body.length === MODULUS;

/** An uploader that requests the tokens that answers wait for. */
class TokenUploader extends Uploader {
  /** @type {Uploader['admit']} */
  async admit(key, answer, version) {
    const { issuer } = this.transport;
    const { pending, code, ...rest } = answer;
    if (issuer === undefined || pending === undefined) return super.admit(key, answer, version);
    const token = await pendingToken(this.contract, unhex(pending));
    const url = `${addressOf(issuer)}/token-request`;
    const headers = { authorization: `Bearer ${code}` };
    const request = await token.request();
    const { problem, body } = await this.post(url, 'application/private-token-request', request, isSignature, headers);
    if (problem) throw new Refused(problem);
    await this.journal.put(key, { ...rest, admission: hex(await token.finalize(body)) }, version);
  }
}

/**
 * Return a token that is being requested, with new secrets or those of the journal.
 * @param {Contract} contract
 * @param {Bytes} [secrets]
 */
async function pendingToken({ admission: { key, issuer }, task }, secrets) {
  const challenged = await challenge(issuer, task);
  return secrets ? new PendingToken(key, challenged, secrets) : PendingToken.generate(key, challenged);
}

/** One person's answers to one contract. */
export class Client {
  /**
   * @param {Contract} contract
   * @param {Store} store
   * @param {Transport} transport
   * @param {Budget} [budget]
   */
  constructor(contract, store, transport, budget) {
    this.contract = contract;
    this.store = store;
    this.budget = budget;
    /** @type {Promise<{[round: number]: string}> | undefined} */
    this.resuming = undefined;
    this.uploader = new TokenUploader(contract, store, transport);
  }

  /**
   * Read and check a contract; nothing is sent.
   * @param {Options & Transport} options
   */
  static async open(options) {
    const { contract: text, operators, store, budget, task, minBatchSize, name, ...transport } = own(options);
    demand(operators, "operators must be their identities or 'first-use'");
    const contract = await readContract(text, { task, minBatchSize });
    if (operators !== 'first-use') checkOperators(contract, operators);
    else await remember(store, `operators/${name ?? transport.shuffler.replace(/\/$/, '')}`, contract);
    return new Client(contract, store, transport, budget);
  }

  /** The number of the current round; 1 without a series. */
  get round() {
    return roundAt(this.contract, this.uploader.now());
  }

  /**
   * Answer the current round, and return the state of the answer: `stored`, `uncertain`, or why it was refused.
   *
   * A person who has answered the round already is not counted again: the first answer is sent on, and its state is
   * returned. Throws {@link NoResponse} while the shuffler cannot be reached; {@link Client.resume} continues.
   * @param {unknown} value one label, a list of labels, or an object from questions to answers
   * @param {{admission?: Uint8Array, code?: string, round?: number}} [options]
   *   a ticket or token, or the code for which the issuer gives a token
   */
  async answer(value, options) {
    return this.uploader.send(await this.record(value, options));
  }

  /**
   * Randomize an answer and store it in the journal, without sending it; works without a connection.
   * @param {unknown} value
   * @param {{admission?: Uint8Array, code?: string, round?: number}} [options]
   * @returns {Promise<string>} its key in the journal
   */
  async record(value, options) {
    const { admission, code, round = this.round } = own(options);
    const { plan, slots, admission: terms, series, epoch, taskStart, taskEnd } = this.contract;
    const rounds = series?.rounds ?? 1;
    demand(Number.isInteger(round) && round > 0 && round <= rounds, `the round must be one of 1 to ${rounds}`);
    const key = this.key(round);
    if (await this.store.get(key)) return key;
    const time = this.uploader.now() / epoch;
    demand(time >= taskStart && time < taskEnd, 'the collection is not open');
    const byCode = code !== undefined && terms.kind === 'token';
    demand(code === undefined || byCode, 'a code needs admission by token');
    const proof = admission ?? this.newId();
    demand(byCode || proof.length === terms.size, `the answer needs a ${terms.kind} of ${terms.size} bytes`);
    const messages = payloads(value, plan).slice(0, slots).map(hex);
    await this.charge(round);
    // If another tab has stored an answer in the meantime, that one counts.
    const entry = { round, state: 'waiting', messages, bundle: null, admission: byCode ? null : hex(proof) };
    const pending = byCode && { pending: hex((await pendingToken(this.contract)).secrets), code };
    await this.store.put(key, { ...entry, ...pending }, 0);
    return key;
  }

  /**
   * Send all answers to this contract that wait in the journal, and return their states by round.
   *
   * An answer that cannot be sent does not stop the others; its error is thrown at the end. Calls at the same time
   * share their requests.
   * @returns {Promise<{[round: number]: string}>}
   */
  resume() {
    return (this.resuming ??= this.sendAll().finally(() => (this.resuming = undefined)));
  }

  /** @returns {Promise<{[round: number]: string}>} */
  async sendAll() {
    /** @type {{[round: number]: string}} */
    const states = {};
    let failure;
    for (const key of await this.store.keys(this.key(''))) {
      try {
        states[Number(key.split('/')[2])] = await this.uploader.send(key);
      } catch (error) {
        failure ??= error;
        if (error instanceof NoResponse) break;
      }
    }
    if (failure) throw failure;
    return states;
  }

  /**
   * Return the state of the answer to a round, or undefined if there is none.
   * @param {number} [round]
   * @returns {Promise<string | undefined>}
   */
  async state(round = this.round) {
    return (await this.store.get(this.key(round)))?.value.state;
  }

  /**
   * Return the ε that all collections of this person have cost so far, at the δ of the budget or a given one.
   * @param {number} [delta]
   */
  async spent(delta = this.budget?.delta ?? 0) {
    return total((await this.store.get('ledger'))?.value ?? [], delta);
  }

  /** Return a random id for an answer without a ticket or token, which is spent in their place. */
  newId() {
    return system(this.contract.admission.kind === 'open' ? 16 : 0);
  }

  /** @param {number | ''} round */
  key(round) {
    return `answer/${this.contract.id}/${round}`;
  }

  /**
   * Charge the ledger for a round, before its answer is stored; refuses beyond the budget, if there is one.
   * @param {number} round
   */
  async charge(round) {
    // Repeated only after another tab has charged the ledger.
    for (;;) {
      const found = await this.store.get('ledger');
      try {
        const charges = charge(found?.value ?? [], this.contract.plan, `${this.contract.id}/${round}`, this.budget);
        if (await this.store.put('ledger', charges, found?.version ?? 0)) return;
      } catch (error) {
        // The journal has no answer: the program was stopped after it had charged this one.
        if (error instanceof AlreadyCharged) return;
        throw error;
      }
    }
  }
}

/**
 * Compare the operators of a contract with the remembered ones, and remember them if there are none.
 * @param {Store} store
 * @param {string} key
 * @param {Contract} contract
 */
async function remember(store, key, contract) {
  await store.put(key, contract.operators, 0);
  checkOperators(contract, (await store.get(key))?.value ?? {});
}

