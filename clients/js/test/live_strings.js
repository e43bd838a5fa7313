/** People with strings at a live system, for tests: `node test/live_strings.js FOLDER OPTIONS < contract.json`, with JSON options. */

import { readFileSync } from 'node:fs';
import { unhex } from '../src/index.js';
import { FileStore } from '../src/node.js';
import { StringClient } from '../src/strings.js';

const { relay, operators, people, forge } = JSON.parse(process.argv[3]);
const contract = readFileSync(0);

/** Somebody between client and analyzer: alters the proof of an evaluation. */
const forged = async (url, options) => {
  const response = await fetch(url, options);
  if (!url.endsWith('/evaluations')) return response;
  const body = new Uint8Array(await response.arrayBuffer());
  body[body.length - 2] ^= 1;
  return new Response(body, { status: response.status });
};

for (const { name, value, admission } of people) {
  const store = await FileStore.open(`${process.argv[2]}/${name}`);
  const terms = { contract, operators, store, shuffler: relay, minBatchSize: 1, ...(forge && { fetch: forged }) };
  const client = await StringClient.open(terms);
  let state;
  try {
    state = await client.answer(value, { admission: unhex(admission) });
  } catch (error) {
    state = error.name;
  }
  console.log(JSON.stringify({ name, state, journal: await client.state() }));
}
