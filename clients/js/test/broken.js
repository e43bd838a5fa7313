/** Clients with a defect each, which an audit must find: `node test/broken.js DEFECT PLAN < values.csv`. */

import { readFileSync } from 'node:fs';
import { encode, payloads, readPlan } from '../src/index.js';
import { randomize, write } from '../bin/randomize.js';
import { counter } from './cases.js';

const [defect, path] = process.argv.slice(2);
const plan = await readPlan(readFileSync(path));
const text = readFileSync(0, 'utf8');

/** Send the lowest bit as it is. */
function unflipped(value, ...rest) {
  const bit = Number(encode(value, plan.schema) & 1n);
  return payloads(value, ...rest).map((one) => {
    one[0] = (one[0] & 254) | bit;
    return one;
  });
}

if (defect === 'unflipped') {
  write(randomize(text, plan, unflipped));
} else if (defect === 'weaker') {
  for (const noise of plan.protocol.noise) noise.flip = (noise.flip * 95n) / 100n;
  write(randomize(text, plan));
} else if (defect === 'attribute') {
  // The second attribute of a survey is hardly ever flipped.
  plan.protocol.noise[1].flip = 1n;
  write(randomize(text, plan));
} else if (defect === 'seeded') {
  // The same bytes at every start; long runs repeat them.
  const stream = await counter(4096);
  const block = stream(4096 * 32);
  let at = 0;
  const source = (size) => {
    if (at + size > block.length) at = 0;
    return block.slice(at, (at += size));
  };
  write(randomize(text, plan, payloads, source));
} else {
  throw new Error(`unknown defect ${defect}`);
}
