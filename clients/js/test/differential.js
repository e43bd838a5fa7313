/** Compare messages and slots with those of another implementation, given as JSON on standard input; prints differences. */

import { readFileSync } from 'node:fs';
import '../src/index.js';
import { hex } from '../src/bytes.js';
import { payloads } from '../src/device.js';
import { checkSlots } from '../src/overflow.js';
import { readPlan } from '../src/plan.js';
import { counter } from './cases.js';

const { slots, cases } = JSON.parse(readFileSync(0, 'utf8'));
const BLOCKS = 2000;
const bytes = (await counter(BLOCKS))(32 * BLOCKS);

/** @param {() => void} run */
const accepts = (run) => {
  try {
    run();
    return true;
  } catch (error) {
    if (error.name !== 'WireError') throw error;
    return false;
  }
};

const different = [];
for (const one of cases) {
  const plan = await readPlan(one.plan);
  let at = 0;
  const source = (size) => bytes.slice(at, (at += size));
  const sent = one.values.map((value) => payloads(value, plan, { source }).map(hex));
  const allowed = slots.filter((count) => accepts(() => checkSlots(plan, count)));
  const same = JSON.stringify([plan.id, sent, allowed]) === JSON.stringify([one.id, one.sent, one.allowed]);
  if (!same) different.push({ plan: one.plan, values: one.values, sent, allowed });
}
console.log(JSON.stringify({ cases: cases.length, different }));
