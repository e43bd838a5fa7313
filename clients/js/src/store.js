/**
 * Stores: small records that survive crashes, each changed only by comparing its version.
 *
 * Two tabs, or two processes, may work on one record: a change succeeds only if nobody else has changed the record
 * since it was read. A change is durable when its promise is fulfilled.
 */

import { HubbubError } from './errors.js';

/**
 * @typedef {{version: number, value: any}} Stored
 * @typedef {object} Store
 * @property {(key: string) => Promise<Stored | undefined>} get
 * @property {(key: string, value: any, version: number) => Promise<boolean>} put
 *   Store a value if the record still has this version, 0 if it does not exist; returns false otherwise.
 * @property {(prefix: string) => Promise<string[]>} keys
 */

const TABLE = 'records';

/**
 * A store in IndexedDB, for pages and workers.
 * @implements {Store}
 */
export class BrowserStore {
  /** @param {IDBDatabase} database */
  constructor(database) {
    this.database = database;
    // Another tab with a newer version of the page must not wait for this one.
    database.onversionchange = () => database.close();
  }

  /** @param {string} [name] one database per person */
  static async open(name = 'hubbub') {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
    return new BrowserStore(await done(request));
  }

  /** @type {Store['get']} */
  get(key) {
    return done(this.database.transaction(TABLE).objectStore(TABLE).get(key));
  }

  /** @type {Store['put']} */
  put(key, value, version) {
    // Strict: the record is on the disk before anything that depends on it is sent.
    const transaction = this.database.transaction(TABLE, 'readwrite', { durability: 'strict' });
    const table = transaction.objectStore(TABLE);
    const request = table.get(key);
    let changed = false;
    request.onsuccess = () => {
      changed = (request.result?.version ?? 0) === version;
      if (changed) table.put({ version: version + 1, value }, key);
    };
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(changed);
      transaction.onabort = () => reject(new HubbubError(`the store cannot be written: ${transaction.error?.name}`));
    });
  }

  /** @type {Store['keys']} */
  async keys(prefix) {
    const table = this.database.transaction(TABLE).objectStore(TABLE);
    return /** @type {string[]} */ (await done(table.getAllKeys(IDBKeyRange.bound(prefix, `${prefix}\uffff`))));
  }

  close() {
    this.database.close();
  }
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(new HubbubError(`the store cannot be read: ${request.error?.name}`));
  });
