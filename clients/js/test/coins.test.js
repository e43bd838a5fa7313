/** The distribution of everything that a device draws, by χ² tests, each with a control that must fail. */

import assert from 'node:assert/strict';
import { createCipheriv } from 'node:crypto';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import '../src/index.js';
import { coins, system, uniform } from '../src/coins.js';
import { binomial, ceilOfProduct, poisson } from '../src/fakes.js';
import { payloads } from '../src/device.js';
import { readPlan } from '../src/plan.js';

const LEVEL = 1e-6;

/** A reproducible source of good randomness: AES-CTR under a key made of a number. */
function stream(seed) {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, seed), Buffer.alloc(16));
  let data = Buffer.alloc(0);
  return (size) => {
    if (data.length < size) data = cipher.update(Buffer.alloc(Math.max(size, 65536)));
    const taken = Uint8Array.from(data.subarray(0, size));
    data = data.subarray(size);
    return taken;
  };
}

/** P[χ² with `degrees` degrees of freedom ≥ x], by Wilson and Hilferty (1931). */
function tail(x, degrees) {
  const a = 2 / (9 * degrees);
  const z = ((x / degrees) ** (1 / 3) - (1 - a)) / Math.sqrt(a);
  return 0.5 * erfc(z / Math.SQRT2);
}

/** Complementary error function (Numerical Recipes, section 6.2). */
function erfc(x) {
  const t = 1 / (1 + 0.5 * Math.abs(x));
  const terms = [1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
  const value = t * Math.exp(-x * x - 1.26551223 + terms.reduceRight((sum, term) => t * (term + sum), 0));
  return x >= 0 ? value : 2 - value;
}

/** Return the p-value of counts under expected probabilities; rare cells are merged. */
function pValue(counts, probabilities) {
  const n = counts.reduce((sum, one) => sum + one, 0);
  let [statistic, cells, count, expected] = [0, 0, 0, 0];
  const close = () => {
    statistic += (count - expected) ** 2 / expected;
    cells++;
    [count, expected] = [0, 0];
  };
  counts.forEach((one, i) => {
    count += one;
    expected += n * probabilities[i];
    if (expected >= 10 && i < counts.length - 1) close();
  });
  if (expected > 0) close();
  return tail(statistic, cells - 1);
}

/** Count draws by value; the last cell holds all larger ones. */
function histogram(draw, runs, cells) {
  const counts = Array.from({ length: cells }, () => 0);
  for (let i = 0; i < runs; i++) counts[Math.min(Number(draw()), cells - 1)]++;
  return counts;
}

/** Complete a list of probabilities by that of all larger values. */
const completed = (list) => [...list, Math.max(0, 1 - list.reduce((sum, one) => sum + one, 0))];

function check(name, draw, wrong, probabilities, runs = 20_000) {
  test(name, () => {
    const p = pValue(histogram(draw, runs, probabilities.length), probabilities);
    assert.ok(p > LEVEL, `p = ${p}`);
    const control = pValue(histogram(wrong, runs, probabilities.length), probabilities);
    assert.ok(control < LEVEL, `the control passes with p = ${control}`);
  });
}

/** Probabilities of all patterns of three independent bits. */
const patterns = (q) => Array.from({ length: 8 }, (_, i) => [0, 1, 2].reduce((product, bit) => product * ((i >> bit) & 1 ? q : 1 - q), 1));

for (const [seed, q] of [0.5 - 2 ** -48, 0.3, 0.1, 0.01].entries()) {
  const numerator = BigInt(Math.round(q * 2 ** 48));
  const weaker = (numerator * 9n) / 10n;
  const [one, two] = [stream(seed), stream(seed)];
  const runs = q > 0.02 ? 20_000 : 150_000;
  check(`three coins of probability ${q}`, () => coins(3, numerator, one), () => coins(3, weaker, two), patterns(q), runs);
}

test('coins use all 48 digits', () => {
  // The first 47 random digits leave the coin undecided: the last digit of the probability decides.
  const undecided = (last) => {
    let digit = 0;
    return (size) => {
      const data = new Uint8Array(size);
      for (let i = 0; i < 10; i++, digit++) if (digit === 47 ? last : 0) data[i >> 3] |= 1 << (i & 7);
      return data;
    };
  };
  assert.equal(coins(1, 1n, undecided(1)), 0n);
  const all = (size) => new Uint8Array(size).fill(255);
  assert.equal(coins(5, 1n, all), 31n);
  assert.equal(coins(5, 0n, all), 0n);
  assert.equal(coins(5, (1n << 48n) - 1n, (size) => new Uint8Array(size)), 0n);
});

const below = 100n;
const [u1, u2] = [stream(10), stream(10)];
check('uniform numbers', () => uniform(below, u1), () => BigInt(u2(1)[0]) % below, Array.from({ length: 100 }, () => 0.01));

const choose = (n, k) => Array.from({ length: k }, (_, i) => (n - i) / (i + 1)).reduce((product, one) => product * one, 1);
const binomials = (n, q) => Array.from({ length: n + 1 }, (_, k) => choose(n, k) * q ** k * (1 - q) ** (n - k));
const [b1, b2] = [stream(11), stream(11)];
check('binomial numbers', () => binomial(6, 0.3, b1), () => binomial(6, 0.27, b2), binomials(6, 0.3));

const poissons = (rate, most) => {
  const list = [Math.exp(-rate)];
  for (let k = 1; k < most; k++) list.push((list[k - 1] * rate) / k);
  return completed(list);
};
for (const [seed, rate] of [0.2, 1, 2.5].entries()) {
  const [one, two] = [stream(20 + seed), stream(20 + seed)];
  check(`Poisson numbers of rate ${rate}`, () => poisson(rate, one), () => poisson(0.8 * rate, two), poissons(rate, 12), 25_000);
}

test('products are rounded up exactly', () => {
  assert.equal(ceilOfProduct(0.5, 1n << 48n), 1n << 47n);
  assert.equal(ceilOfProduct(0.1, 1n << 48n), 28147497671066n);
  assert.equal(ceilOfProduct(Number.MIN_VALUE, 1n << 48n), 1n);
  assert.equal(ceilOfProduct(2 ** 60, 3n), 3n << 60n);
  assert.equal(ceilOfProduct(1.5, 1n << 48n, 2n), 3n << 46n);
});

const good = JSON.parse(readFileSync(new URL('../../../src/hubbub/vectors/good.json', import.meta.url), 'utf8'));
const planOf = async (name) => readPlan(good.find((one) => one.name === name).plan);

test('randomized response has its distribution', async () => {
  const plan = await planOf('category');
  const q = Number(plan.protocol.noise[0].flip) / 2 ** 48;
  const expected = [q, q, q, q, 1 - 4 * q];
  const source = stream(30);
  const draw = () => payloads('4', plan, { source })[0][0];
  assert.ok(pValue(histogram(draw, 40_000, 5), expected) > LEVEL);
  assert.ok(pValue(histogram(draw, 40_000, 5), [q * 1.05, q * 1.05, q * 1.05, q * 1.05, 1 - 4.2 * q]) < LEVEL);
});

test('fakes of limited records are uniform, and hidden among the messages', async () => {
  const plan = await planOf('fake and flip');
  const { schema } = plan;
  plan.protocol = { ...plan.protocol, noise: [{ flip: 0n, m: 200 }] };
  const source = stream(31);
  const legal = 1 + 11 + 55 + 165;
  const places = [0, 0, 0];
  const sizes = [0, 0, 0, 0];
  for (let i = 0; i < 20_000; i++) {
    const sent = payloads(['0', '5', '10'], plan, { source }).map((one) => one[0] | (one[1] << 8));
    const own = (1 << 0) | (1 << 5) | (1 << 10);
    if (sent.filter((one) => one === own).length === 1) places[sent.indexOf(own)]++;
    for (const one of sent) if (one !== own) sizes[one.toString(2).replaceAll('0', '').length]++;
  }
  assert.equal(schema.maxSet, 3);
  assert.ok(pValue(places, [1 / 3, 1 / 3, 1 / 3]) > LEVEL);
  const others = legal - 1;
  assert.ok(pValue(sizes, [1 / others, 11 / others, 55 / others, 164 / others]) > LEVEL);
  assert.ok(pValue(sizes, [1 / others, 15 / others, 55 / others, 160 / others]) < LEVEL);
});

test('a source that returns too few bytes is refused', () => {
  assert.throws(() => coins(8, 1n, () => new Uint8Array(3)), { name: 'EntropyFailure' });
  assert.throws(() => uniform(10n, () => []), { name: 'EntropyFailure' });
});

test('the randomness of the system fills large requests', () => {
  const data = system(200_000);
  const counts = Array.from({ length: 256 }, () => 0);
  for (const byte of data) counts[byte]++;
  assert.ok(pValue(counts, counts.map(() => 1 / 256)) > 1e-12);
});
