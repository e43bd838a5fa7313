/** A store in a folder of files, for Node. */

import { link, mkdir, open, readFile, readdir, stat, unlink } from 'node:fs/promises';
import { HubbubError } from './errors.js';

/** @typedef {import('./store.js').Store} Store */

const ABANDONED = 60_000; // milliseconds after which a draft belongs to a process that has died

/**
 * A store in a folder, with one file for the current version of each record; readable by its owner only.
 *
 * A new version is a new file, which is created under a name that must not exist: of two writers, one fails.
 * @implements {Store}
 */
export class FileStore {
  /** @param {string} folder */
  constructor(folder) {
    this.folder = folder;
  }

  /** @param {string} folder */
  static async open(folder) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    for (const name of await readdir(folder)) {
      const path = `${folder}/${name}`;
      if (name.startsWith('draft-') && Date.now() - (await modified(path)) > ABANDONED) await remove(path);
    }
    return new FileStore(folder);
  }

  /** @type {Store['get']} */
  async get(key) {
    for (;;) {
      const versions = await this.versions(key);
      const version = Math.max(0, ...versions);
      if (!version) return undefined;
      // A process may have died before it deleted the versions that it had replaced.
      for (const old of versions) if (old < version) await remove(this.path(key, old));
      try {
        const text = await readFile(this.path(key, version), 'utf8');
        return { version, value: JSON.parse(text) };
      } catch (error) {
        // Another writer has replaced the version in the meantime.
        if (/** @type {{code?: string}} */ (error).code !== 'ENOENT') throw error;
      }
    }
  }

  /** @type {Store['put']} */
  async put(key, value, version) {
    if (Math.max(0, ...(await this.versions(key))) !== version) return false;
    const draft = `${this.folder}/draft-${crypto.randomUUID()}`;
    const file = await open(draft, 'wx', 0o600);
    try {
      await file.writeFile(JSON.stringify(value));
      await file.sync();
    } finally {
      await file.close();
    }
    try {
      await link(draft, this.path(key, version + 1));
    } catch (error) {
      if (/** @type {{code?: string}} */ (error).code === 'EEXIST') return false;
      throw error;
    } finally {
      await unlink(draft);
    }
    await this.sync();
    const versions = await this.versions(key);
    if (Math.max(...versions) > version + 1) {
      // The version had been replaced twice before this one was created.
      await remove(this.path(key, version + 1));
      return false;
    }
    for (const old of versions) if (old <= version) await remove(this.path(key, old));
    return true;
  }

  /** @type {Store['keys']} */
  async keys(prefix) {
    const names = await readdir(this.folder);
    const found = names.filter((name) => /\.v\d+$/.test(name)).map((name) => decodeURIComponent(name.replace(/\.v\d+$/, '')));
    return [...new Set(found)].filter((key) => key.startsWith(prefix)).sort();
  }

  /** @param {string} key */
  async versions(key) {
    const start = `${encodeURIComponent(key)}.v`;
    const names = await readdir(this.folder);
    const numbers = names.filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
    return numbers.filter((number) => /^\d+$/.test(number)).map(Number);
  }

  /**
   * @param {string} key
   * @param {number} version
   */
  path(key, version) {
    const name = `${encodeURIComponent(key)}.v${version}`;
    if (name.length > 200) throw new HubbubError('the name of a record is too long');
    return `${this.folder}/${name}`;
  }

  /** Flush the folder, so that new names survive a crash. */
  async sync() {
    const folder = await open(this.folder, 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}

/**
 * Return the time of the last change of a file, now if it is gone.
 * @param {string} path
 */
const modified = async (path) => (await stat(path).catch(() => undefined))?.mtimeMs ?? Date.now();

/** @param {string} path */
async function remove(path) {
  try {
    await unlink(path);
  } catch (error) {
    if (/** @type {{code?: string}} */ (error).code !== 'ENOENT') throw error;
  }
}
