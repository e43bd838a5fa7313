/** Series: contracts that the same people answer once in every round, under one total guarantee. */

import { concat, sha256, uint16 } from './bytes.js';
import { check } from './errors.js';
import { loaded } from './extensions.js';
import { Fields } from './json.js';

/** @typedef {{rounds: number, roundEpochs: number, total: {epsilon: number, delta: number}}} Series */

loaded.series = (value, { taskStart, taskEnd, admission }) => {
  const read = new Fields(value, 'the series', 'rounds', 'round_epochs', 'total');
  const total = new Fields(read.get('total'), 'the total', 'epsilon', 'delta');
  const delta = total.real('delta', 0, 1);
  check(delta < 1, 'δ of the total must be below 1');
  const rounds = read.whole('rounds', 1, 10_000);
  const roundEpochs = read.whole('round_epochs', 1, 1e9);
  check(taskEnd - taskStart === rounds * roundEpochs, 'task_end must end the last round');
  check(admission.kind !== 'token', 'a series must not admit by token');
  return {
    rounds,
    roundEpochs,
    total: { epsilon: total.real('epsilon', 0, Number.MAX_VALUE), delta },
  };
};

loaded.roundContext = async (task, round) =>
  (await sha256(concat('hubbub/2 round', task, uint16(round >>> 16), uint16(round & 0xffff)))).slice(0, 16);

/**
 * Return the number of the round at a time, from 1; times outside the task belong to the nearest round.
 * @param {import('./contract.js').Contract} contract
 * @param {number} time seconds since 1970
 */
export function roundAt({ epoch, taskStart, series }, time) {
  if (!series) return 1;
  const number = Math.floor((Math.floor(time / epoch) - taskStart) / series.roundEpochs) + 1;
  return Math.min(Math.max(number, 1), series.rounds);
}
