import test from 'node:test';
import { readFileSync } from 'node:fs';
import { FILES, cases } from './cases.js';

const folder = new URL('../../../src/hubbub/vectors/', import.meta.url);
const vectors = Object.fromEntries(FILES.map((name) => [name, JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8'))]));

for (const { name, run } of cases(vectors)) test(name, run);
