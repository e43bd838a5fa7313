/**
 * The ledger of a device: the total (ε, δ) of all collections of one person, and a lifetime budget.
 *
 * Every collection is covered by a measure on privacy losses, computed from the certified points of its plan. Covers are
 * composed on grids whose step is a power of two. Masses are whole numbers of 2⁻⁸⁰, rounded up, and convolutions are
 * exact: one product of two long integers (Kronecker's substitution). Every approximation moves mass to higher losses or
 * enlarges it, so a total is never below the exact one.
 */

import { HubbubError, demand } from './errors.js';
import { ceilOfProduct } from './fakes.js';

/**
 * @typedef {import('./plan.js').Plan} Plan
 * @typedef {[number, number][]} Curve certified points (ε, δ)
 * @typedef {{name: string, rounds: number, curve: Curve}} Charge
 * @typedef {{epsilon: number, delta: number}} Budget
 */

const BITS = 80n;
const ONE = 1n << BITS;
const FINENESS = 16; // steps per standard deviation of one collection
const MOST = 1024; // points beyond which a composition doubles its step
const NEGLIGIBLE = ONE >> 66n; // mass that a composition may move upwards at either end
const WIDEN = 1e-12; // relative error of exponentials and sums of floats, and much more
const UNIT = 2 ** -53;
const REACH = 600; // losses beyond this count as infinite

/** A charge would bring the total of the ledger above its budget; nothing was charged. */
export class BudgetExceeded extends HubbubError {
  name = 'BudgetExceeded';
}
/** The ledger has charged this collection before; nothing was charged. */
export class AlreadyCharged extends HubbubError {
  name = 'AlreadyCharged';
}

/**
 * Return the charges after one more collection; throws beyond the budget, or if the collection is charged already.
 * @param {Charge[]} charges
 * @param {Plan} plan
 * @param {string} collection
 * @param {Budget} [budget]
 * @returns {Charge[]}
 */
export function charge(charges, plan, collection, budget) {
  const name = `${plan.id}/${collection}`;
  if (charges.some((one) => one.name === name)) throw new AlreadyCharged('already charged');
  const after = [...charges, { name, rounds: 1, curve: plan.curve }];
  if (!budget) return after;
  const { epsilon, delta } = budget;
  demand(epsilon >= 0 && epsilon < Infinity && delta >= 0 && delta < 1, 'the budget must have ε ≥ 0 and δ in [0, 1)');
  const spent = total(after, delta);
  if (!(spent <= epsilon)) {
    throw new BudgetExceeded(`ε would be ${spent} at δ = ${delta}, above ${epsilon}`);
  }
  return after;
}

/**
 * Return the ε of all collections together at a δ; errs upwards.
 * @param {Charge[]} charges
 * @param {number} delta
 */
export function total(charges, delta) {
  const pure = pureSum(charges);
  if (delta === 0 || pure === 0) return pure;
  /** @type {Map<string, {curve: Curve, rounds: number}>} */
  const groups = new Map();
  for (const { curve, rounds } of charges) {
    const name = JSON.stringify(curve);
    groups.set(name, { curve, rounds: rounds + (groups.get(name)?.rounds ?? 0) });
  }
  const covers = [...groups.values()].map(({ curve, rounds }) => Cover.of(curve).power(rounds));
  // Fine grids first: on a coarse grid, many small losses would become large.
  while (covers.length > 1) {
    covers.sort((one, two) => one.step - two.step);
    const [one, two] = /** @type {[Cover, Cover]} */ (covers.splice(0, 2));
    covers.push(one.compose(two));
  }
  return Math.min(/** @type {Cover} */ (covers[0]).epsilon(delta), pure);
}

/**
 * Return the sum of the pure ε of all rounds, rounded up; ∞ if a collection has none.
 * @param {Charge[]} charges
 */
const pureSum = (charges) =>
  charges.reduce((sum, { rounds, curve }) => {
    const pure = curve.find(([, delta]) => delta === 0)?.[0] ?? Infinity;
    return pure ? roundUp(sum + roundUp(rounds * pure)) : sum;
  }, 0);

/**
 * Return a larger float than one that is at least 0, by one or two units in the last place.
 * @param {number} value
 */
const roundUp = (value) => value * (1 + 2 * UNIT) + Number.MIN_VALUE;

/** Masses in units of 2⁻⁸⁰ at the losses step·first, step·(first + 1), …, and at an infinite loss. */
class Cover {
  /**
   * @param {number} step
   * @param {number} first
   * @param {bigint[]} masses
   * @param {bigint} infinite
   */
  constructor(step, first, masses, infinite) {
    // Move the far tails upwards: the upper to +∞, the lower to the lowest node kept.
    let stop = masses.length;
    let moved = 0n;
    while (stop > 1 && (moved + at(masses, stop - 1) <= NEGLIGIBLE || step * (first + stop - 1) > REACH)) {
      moved += at(masses, --stop);
    }
    infinite += moved;
    let start = 0;
    moved = 0n;
    while (start < stop - 1 && moved + at(masses, start) <= NEGLIGIBLE) moved += at(masses, start++);
    this.step = step;
    this.first = first + start;
    this.masses = masses.slice(start, stop);
    this.masses[0] = at(this.masses, 0) + moved;
    this.infinite = infinite;
  }

  /**
   * Return the cover of one collection with these certified points.
   * @param {Curve} curve
   */
  static of(curve) {
    const { atoms, infinite } = atomsOf(curve);
    const finite = atoms.filter(({ loss }) => loss <= REACH).map(({ loss, mass }) => ({ loss: Math.max(loss, -REACH), mass }));
    const beyond = atoms.reduce((sum, { loss, mass }) => sum + (loss > REACH ? mass : 0), 0) * (1 + WIDEN);
    const losses = finite.map(({ loss }) => loss);
    const spread = Math.sqrt(finite.reduce((sum, { loss, mass }) => sum + mass * loss * loss, 0));
    const width = Math.max(...losses) - Math.min(...losses);
    const wanted = Math.max(spread / FINENESS, width / (4 * MOST), 1e-12);
    const step = 2 ** (Math.floor(Math.log2(wanted)) + Number(wanted === width / (4 * MOST)));
    const units = finite.map(({ loss, mass }) => ({ loss, mass: toUnits(mass) }));
    return spreadOver(step, units, toUnits(infinite) + toUnits(beyond));
  }

  /**
   * Return the cover of both, on the coarser grid.
   * @param {Cover} other
   * @returns {Cover}
   */
  compose(other) {
    const step = Math.max(this.step, other.step);
    if (this.step !== other.step) return this.coarser(step).compose(other.coarser(step));
    const masses = convolve(this.masses, other.masses).map(ceilUnits);
    const infinite = ceilUnits(this.infinite * (sumOf(other.masses) + other.infinite) + other.infinite * sumOf(this.masses));
    const whole = new Cover(step, this.first + other.first, masses, infinite);
    return whole.masses.length <= MOST ? whole : whole.coarser(2 * step);
  }

  /**
   * Return the cover on a grid of larger steps.
   * @param {number} step
   */
  coarser(step) {
    if (step === this.step) return this;
    const atoms = this.masses.map((mass, i) => ({ loss: this.step * (this.first + i), mass })).filter(({ mass }) => mass);
    return spreadOver(step, atoms, this.infinite);
  }

  /**
   * Return the cover of several collections, by repeated squaring.
   * @param {number} times
   */
  power(times) {
    /** @type {Cover} */
    let result = this;
    for (const digit of times.toString(2).slice(1)) {
      result = result.compose(result);
      if (digit === '1') result = result.compose(this);
    }
    return result;
  }

  /**
   * Return δ(ε) = Σ_{l > ε} μ(l)·(1 − e^(ε−l)) + μ(∞), at most 1; errs upwards.
   * @param {number} epsilon
   */
  delta(epsilon) {
    let sum = 0;
    for (let i = this.masses.length - 1; i >= 0; i--) {
      const loss = this.step * (this.first + i);
      if (loss <= epsilon) break;
      sum += (Number(this.masses[i]) / Number(ONE)) * -Math.expm1(epsilon - loss);
    }
    return Math.min(1, (sum + Number(this.infinite) / Number(ONE)) * (1 + WIDEN));
  }

  /**
   * Return an ε with δ(ε) ≤ δ, close to the smallest; ∞ if there is none.
   * @param {number} delta
   */
  epsilon(delta) {
    let low = 0;
    let high = Math.max(0, this.step * (this.first + this.masses.length));
    if (this.delta(high) > delta) return Infinity;
    if (this.delta(low) <= delta) return low;
    while (high - low > 1e-6 * high) {
      const middle = (low + high) / 2;
      if (this.delta(middle) <= delta) high = middle;
      else low = middle;
    }
    return high;
  }
}

/**
 * Return losses with their masses, and the mass of an infinite loss, that cover a collection in both orders.
 *
 * H_{1/x}(P‖Q) = 1 − 1/x + H_x(Q‖P)/x gives the points of negative losses. The masses are those of the vertices of the
 * lower convex hull of (0, 1) and (e^loss, u), rounded up.
 * @param {Curve} curve
 */
function atomsOf(curve) {
  const mirrored = curve
    .filter(([epsilon]) => epsilon > 0)
    .map(([epsilon, delta]) => [-epsilon, (Math.exp(-epsilon) * delta - Math.expm1(-epsilon)) * (1 + 8 * UNIT)])
    .reverse();
  const points = /** @type {Curve} */ ([...mirrored, ...curve]);
  let least = 1;
  const nodes = points.map(([loss, delta]) => ({ loss, u: (least = Math.min(least, delta)) }));
  /** @typedef {{loss: number, u: number}} Node */
  /** @type {(v: Node, b: Node) => number} */
  const right = (v, b) => (b.loss - v.loss < REACH ? (v.u - b.u) / Math.expm1(b.loss - v.loss) : 0);
  /** @type {{node: Node, left: number}[]} */
  const hull = [];
  for (const b of nodes) {
    for (let last; (last = hull.at(-1)) && last.left < right(last.node, b); ) hull.pop();
    const before = hull.at(-1)?.node;
    hull.push({ node: b, left: before ? (before.u - b.u) / -Math.expm1(before.loss - b.loss) : 1 - b.u });
  }
  const atoms = hull.map(({ node, left }, i) => {
    const next = hull[i + 1];
    const taken = next ? right(node, next.node) : 0;
    return { loss: node.loss, mass: left - taken + 8 * UNIT * (left + taken) };
  });
  return { atoms, infinite: least };
}

/**
 * Return atoms on a grid: one of loss l between the nodes a and b gives the share (1 − e^(a−l))/(1 − e^(a−b)) to b.
 * @param {number} step
 * @param {{loss: number, mass: bigint}[]} atoms
 * @param {bigint} infinite
 */
function spreadOver(step, atoms, infinite) {
  const nodes = atoms.map(({ loss }) => Math.floor(loss / step));
  const first = nodes.length ? Math.min(...nodes) : 0;
  const masses = Array.from({ length: nodes.length ? Math.max(...nodes) - first + 2 : 1 }, () => 0n);
  const whole = Math.expm1(-step);
  atoms.forEach(({ loss, mass }, i) => {
    const node = /** @type {number} */ (nodes[i]);
    const place = node - first;
    const distance = loss - step * node;
    const share = distance ? Math.min(1, Math.expm1(-distance) / whole) : 0;
    if (!distance) {
      masses[place] = at(masses, place) + mass;
      return;
    }
    // The shares are rounded up by more than their error.
    masses[place + 1] = at(masses, place + 1) + ceilUnits(mass * toUnits(Math.min(1, share + 16 * UNIT)));
    masses[place] = at(masses, place) + ceilUnits(mass * toUnits(Math.min(1, 1 - share + 16 * UNIT)));
  });
  return new Cover(step, first, masses, infinite);
}

/**
 * Return the exact convolution of two rows of whole numbers, by one product of two long integers.
 * @param {bigint[]} a
 * @param {bigint[]} b
 */
function convolve(a, b) {
  const digits = (widest(a) + widest(b) + Math.min(a.length, b.length).toString(16).length) || 1;
  const count = a.length + b.length - 1;
  const product = (join(a, digits) * join(b, digits)).toString(16).padStart(digits * count, '0');
  return Array.from({ length: count }, (_, i) => {
    const end = product.length - digits * i;
    return BigInt(`0x${product.slice(end - digits, end)}`);
  });
}

/** @param {bigint[]} row */
const widest = (row) => row.reduce((most, one) => (one > most ? one : most), 0n).toString(16).length;

/**
 * @param {bigint[]} row
 * @param {number} digits
 */
const join = (row, digits) => BigInt(`0x${row.map((one) => one.toString(16).padStart(digits, '0')).reverse().join('')}`);

/** @param {bigint[]} row */
const sumOf = (row) => row.reduce((sum, one) => sum + one, 0n);

/**
 * Return a mass in units, rounded up.
 * @param {number} mass
 */
const toUnits = (mass) => ceilOfProduct(Math.max(mass, 0), ONE);

/**
 * Divide a product of two masses by the unit, rounded up.
 * @param {bigint} value
 */
const ceilUnits = (value) => (value + ONE - 1n) >> BITS;

/**
 * @param {bigint[]} row
 * @param {number} i
 */
const at = (row, i) => /** @type {bigint} */ (row[i]);
