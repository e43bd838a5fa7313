/** Functions that the browser tests call: vectors, people who answer, and timings. */

import * as hubbub from '../../src/index.js';
import { FILES, cases } from '../cases.js';

const { BrowserStore, Client, payloads, readContract, readKeys, sealBundle, unhex } = hubbub;
const json = async (path) => (await fetch(path)).json();

/** Run all vectors, and return the number of those that agree and the messages of the others. */
async function vectors() {
  const files = Object.fromEntries(await Promise.all(FILES.map(async (name) => [name, await json(`/vectors/${name}.json`)])));
  const failed = [];
  let passed = 0;
  for (const { name, run } of cases(files)) {
    try {
      await run();
      passed++;
    } catch (error) {
      failed.push(`${name}: ${error.message}`);
    }
  }
  return { passed, failed };
}

/** Let people answer, each with a store of their own, and return how many answers are in each state. */
async function people(first, last, shuffler, suite2 = false) {
  const contract = await (await fetch('/contract.json')).text();
  const tickets = await json('/tickets.json');
  const kem = suite2 ? (await import('/client/src/xwing.js')).XWing : undefined;
  const states = {};
  for (let person = first; person < last; person++) {
    const store = await BrowserStore.open(`person-${person}`);
    let state;
    try {
      const terms = { contract, operators: 'first-use', store, shuffler, minBatchSize: 1, attempts: 3, timeout: 5000 };
      const client = await Client.open({ ...terms, ...(kem && { kem }) });
      state = await client.answer(String(person), { admission: unhex(tickets[person]) });
    } catch (error) {
      state = error.name;
    }
    store.close();
    states[state] = (states[state] ?? 0) + 1;
  }
  return states;
}

/** Return the median milliseconds of randomizing, sealing and packing one answer. */
async function timing(runs) {
  const contract = await readContract(await (await fetch('/contract.json')).text(), { minBatchSize: 1 });
  const keys = await readKeys(await (await fetch(`/relay/v1/tasks/${contract.id}/keys`)).text(), contract, Date.now() / 1000);
  const admission = new Uint8Array(contract.admission.size);
  const took = [];
  for (let i = 0; i < runs; i++) {
    const start = performance.now();
    await sealBundle(payloads('0', contract.plan).slice(0, contract.slots), admission, contract, keys);
    took.push(performance.now() - start);
  }
  took.sort((one, two) => one - two);
  return { median: took[runs >> 1], p95: took[Math.floor(0.95 * runs)], slots: contract.slots };
}

/** Let a service worker answer. */
async function inServiceWorker(person, shuffler) {
  const registration = await navigator.serviceWorker.register('worker.js', { type: 'module' });
  const worker = registration.active ?? registration.waiting ?? registration.installing;
  const { port1, port2 } = new MessageChannel();
  const answer = new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
  worker.postMessage({ person, shuffler }, [port2]);
  return answer;
}

Object.assign(window, { vectors, people, timing, inServiceWorker, hubbub, ready: true });
