/** A person at a live system, for tests: `node test/live.js FOLDER OPTIONS < contract.json`, with JSON options. */

import { readFileSync } from 'node:fs';
import { Client, NoResponse, unhex } from '../src/index.js';
import { FileStore } from '../src/node.js';

const { shuffler, issuer, suite, people, attempts } = JSON.parse(process.argv[3]);
const contract = readFileSync(0);
const kem = suite === 2 ? (await import('../src/xwing.js')).XWing : undefined;

for (const { name, value, ticket, code, round } of people) {
  const store = await FileStore.open(`${process.argv[2]}/${name}`);
  const terms = { contract, operators: 'first-use', store, shuffler, minBatchSize: 1, ...(issuer && { issuer }), ...(kem && { kem }), ...(attempts && { attempts }) };
  const client = await Client.open(terms);
  const admission = ticket === undefined ? undefined : unhex(ticket);
  const given = { ...(admission && { admission }), ...(code && { code }), ...(round && { round }) };
  const state = await client.answer(value, given).catch((error) => {
    if (!(error instanceof NoResponse)) throw error;
    return client.state();
  });
  console.log(JSON.stringify({ name, state }));
}
