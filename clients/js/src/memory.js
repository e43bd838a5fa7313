/** A store in memory, for tests. */

/** @typedef {import('./store.js').Store} Store */

/**
 * A store that is lost with the process; for tests.
 * @implements {Store}
 */
export class MemoryStore {
  /** @type {Map<string, {version: number, text: string}>} */
  records = new Map();

  /** @type {Store['get']} */
  async get(key) {
    const found = this.records.get(key);
    return found && { version: found.version, value: JSON.parse(found.text) };
  }

  /** @type {Store['put']} */
  async put(key, value, version) {
    if ((this.records.get(key)?.version ?? 0) !== version) return false;
    this.records.set(key, { version: version + 1, text: JSON.stringify(value) });
    return true;
  }

  /** @type {Store['keys']} */
  async keys(prefix) {
    return [...this.records.keys()].filter((key) => key.startsWith(prefix));
  }
}
