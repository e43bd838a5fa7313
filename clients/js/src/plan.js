/** Plans: schema, protocol and guarantee, read with every check that needs no recomputation of the guarantee. */

import { hex, sha256 } from './bytes.js';
import { check } from './errors.js';
import { need } from './extensions.js';
import { Fields, canonical, distinct, parse, real } from './json.js';

/**
 * @typedef {import('./json.js').Json} Json
 * @typedef {{distribution: 'binomial' | 'poisson' | 'laplace' | 'gaussian', scale: number, shift: number, byUsers: boolean}} Fakes
 * @typedef {{flip: bigint, m: number | Fakes}} Noise The noise of one attribute of a survey, or of all bits.
 * @typedef {{start: number, size: number}} Attribute Categories of which a record has exactly one.
 *
 * @typedef {object} Schema The labels of a record's bits, and which records are legal.
 * @property {'bits' | 'one_hot' | 'at_most' | 'survey'} kind
 * @property {string[]} labels empty for surveys, whose labels follow from the questions
 * @property {number} width
 * @property {number} maxSet
 * @property {import('./questions.js').Questions | null} questions
 * @property {Attribute[]} attributes
 *
 * @typedef {object} Plan The agreement between all parties.
 * @property {string} id SHA-256 of the canonical JSON
 * @property {Schema} schema
 * @property {number} n minimum batch size, in people
 * @property {number} honestFraction
 * @property {{noise: Noise[], k: number, release: 'records' | 'bits' | 'category'}} protocol
 * @property {{epsilon: number, delta: number, honest: number}} guarantee
 * @property {number} rounds
 * @property {{epsilon: number, delta: number}} total
 * @property {[number, number][]} curve certified points (ε, δ) of one round
 * @property {number} payload bytes of a payload
 * @property {bigint} limit exclusive upper bound of a payload read as a number
 */

const HALF_GRID = 2 ** 47;
/** The entries of a plan besides its format and its id. */
export const PARTS = ['schema', 'n', 'honest_fraction', 'protocol', 'guarantee', 'stderr', 'rounds', 'total', 'curve', 'odds'];
const ODDS = ['round', 'total', 'local', 'local_total'];
const RELEASES = /** @type {const} */ (['records', 'bits', 'category']);

/**
 * Read a plan from JSON, or from a JSON value that {@link parse} returned; its id must be the digest of its content.
 * @param {string | Uint8Array | Json} source
 * @returns {Promise<Plan>}
 */
export async function readPlan(source) {
  const value = typeof source === 'string' || source instanceof Uint8Array ? parse(source, 'the plan') : source;
  const read = new Fields(value, 'the plan', 'format', 'id', ...PARTS);
  read.format('plan', 3);
  const schema = readSchema(read.get('schema'));
  const protocol = readProtocol(read.get('protocol'));
  checkProtocol(protocol, schema);
  const n = read.whole('n', 1, 1e10);
  const honestFraction = read.real('honest_fraction', Number.MIN_VALUE, 1);
  read.real('stderr', Number.MIN_VALUE, 1e300);
  const total = new Fields(read.get('total'), 'the total', 'epsilon', 'delta');
  checkOdds(read.get('odds'));
  const index = protocol.release !== 'records';
  const { width } = schema;
  /** @type {Plan} */
  const plan = {
    id: read.text('id'),
    schema,
    n,
    honestFraction,
    protocol,
    guarantee: readGuarantee(read.get('guarantee'), n),
    rounds: read.whole('rounds', 1, 1e6),
    total: { epsilon: total.limit('epsilon'), delta: total.real('delta', 0, 1) },
    curve: readCurve(read.list('curve')),
    payload: index ? (width <= 2 ** 8 ? 1 : width <= 2 ** 16 ? 2 : 4) : Math.ceil(width / 8),
    limit: index ? BigInt(width) : 1n << BigInt(width),
  };
  const { id, ...content } = read.entries;
  check(hex(await sha256(canonical(content))) === id, 'the id of the plan must be its digest');
  return plan;
}

/**
 * Check the certified success rates of a guess, which a device does not use.
 * @param {Json} value
 */
export function checkOdds(value) {
  const read = new Fields(value, 'the odds', ...ODDS);
  for (const name of ODDS) read.real(name, 0.5, 1);
}

/**
 * @param {Json} value
 * @returns {Schema}
 */
function readSchema(value) {
  if (/** @type {{kind?: Json} | null} */ (value)?.kind === 'survey') return need('survey')(value);
  const read = new Fields(value, 'the schema', 'kind', 'labels', 'max_set');
  const kind = read.choice('kind', /** @type {const} */ (['bits', 'one_hot', 'at_most']));
  const labels = read.texts('labels');
  const width = labels.length;
  const exclusive = kind === 'one_hot';
  check(width > Number(exclusive) && distinct(labels), 'labels must be distinct');
  const maxSet = read.whole('max_set', kind === 'bits' ? width : 1, exclusive ? 1 : width);
  return { kind, labels, width, maxSet, questions: null, attributes: exclusive ? [{ start: 0, size: width }] : [] };
}

/** @param {Json} value */
function readProtocol(value) {
  const read = new Fields(value, 'the protocol', 'noise', 'k', 'release');
  const release = read.choice('release', RELEASES);
  const noise = read.list('noise').map(readNoise);
  const k = read.whole('k', 1, 1e6);
  for (const { flip, m } of noise) {
    const clear = !flip;
    check(!clear || m !== 0, 'q must be above 0 without fakes');
    check(release !== 'category' || (!clear && m === 0 && k === 1), 'a category has no copies and fakes');
    check(k === 1 || (!clear && (typeof m === 'number' || m.byUsers)), "k must be 1 for clear records or the shuffler's fakes");
  }
  return { noise, k, release };
}

/**
 * @param {Json} value
 * @returns {Noise}
 */
function readNoise(value) {
  const read = new Fields(value, 'the noise', 'flip', 'm');
  const flip = BigInt(read.whole('flip', 0, HALF_GRID - 1));
  if (typeof read.get('m') === 'number') return { flip, m: read.whole('m', 0, 1e12) };
  return { flip, m: need('readFakes')(read.get('m')) };
}

/**
 * @param {Plan['protocol']} protocol
 * @param {Schema} schema
 */
function checkProtocol({ noise, k, release }, { questions, attributes }) {
  const expected = questions ? attributes.length : 1;
  check(noise.length === expected, `the protocol must have ${expected} entries of noise`);
  if (questions) {
    const apart = noise.every(({ flip, m }) => (flip ? m === 0 : typeof m === 'object'));
    check(
      k === 1 && release !== 'records' && apart,
      'a survey must have bits or categories, flipped or among fakes',
    );
  }
  if (release !== 'category') return;
  check(attributes.length, 'a category needs a one-hot schema');
  attributes.forEach(({ size }, i) => {
    const flip = /** @type {Noise} */ (noise[i]).flip;
    check(flip * BigInt(size) < 1n << 48n, `q must be below 1/${size}`);
  });
}

/**
 * @param {Json} value
 * @param {number} n
 */
export function readGuarantee(value, n) {
  const what = 'the guarantee';
  const keys = ['epsilon', 'delta', 'lower_bound', 'solved', 'basis', 'method', 'n', 'assumptions'];
  const read = new Fields(value, what, ...keys);
  read.limit('lower_bound');
  read.choice('solved', ['epsilon', 'delta']);
  read.choice('basis', ['exact', 'proven']);
  read.text('method');
  read.whole('n', n, n);
  const held = ['honest', 'shuffler', 'fakes', 'view', 'collusion_epsilon', 'count_epsilon'];
  const assumptions = new Fields(read.get('assumptions'), 'the assumptions', ...held);
  assumptions.truth('shuffler');
  assumptions.truth('fakes');
  assumptions.text('view');
  assumptions.limit('collusion_epsilon');
  assumptions.limit('count_epsilon');
  return { epsilon: read.limit('epsilon'), delta: read.real('delta', 0, 1), honest: assumptions.whole('honest', 1) };
}

/**
 * Read certified points (ε, δ), of which ε increases and δ does not.
 * @param {Json[]} list
 * @returns {[number, number][]}
 */
export function readCurve(list) {
  check(list.length >= 1 && list.length <= 64, 'the curve must have 1 to 64 points');
  let [before, above] = [-1, 1];
  return list.map((pair) => {
    const [first, second, more] = Array.isArray(pair) ? pair : [];
    const epsilon = real(first, 'ε of the curve', 0, Number.MAX_VALUE);
    const delta = real(second, 'δ of the curve', 0, above);
    check(more === undefined && epsilon > before, 'the curve must have pairs with ascending ε');
    [before, above] = [epsilon, delta];
    return /** @type {[number, number]} */ ([epsilon, delta]);
  });
}

/**
 * Return the total number of fakes if the plan fixes it, otherwise 0.
 * @param {Plan} plan
 */
export const fixedFakes = ({ protocol: { noise } }) => (typeof noise[0]?.m === 'number' ? noise[0].m : 0);

