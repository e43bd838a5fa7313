/** The questions of a survey, and how answers become categories; the order of all operations is that of Python. */

import { concat, hex } from './bytes.js';
import { coins, uniform } from './coins.js';
import { permuted, place, response, setBits } from './device.js';
import { check, demand } from './errors.js';
import { loaded, need } from './extensions.js';
import { Fields, canonical, distinct, isObject, real, whole } from './json.js';

/**
 * @typedef {import('./json.js').Json} Json
 * @typedef {import('./coins.js').Source} Source
 * @typedef {(numerator: bigint) => boolean} Coin True with probability exactly numerator/2⁴⁸.
 * @typedef {object} Question One question: its attributes, and the categories of an answer.
 * @property {string} name
 * @property {string} kind
 * @property {number[]} sizes number of categories of each attribute
 * @property {(answer: unknown, coin: Coin) => number[]} encode
 * @property {string[]} names questions of a cross-table
 */

const KEYS = {
  choice: ['labels', 'missing'],
  flag: ['missing'],
  scale: ['edges', 'low', 'high', 'buckets', 'missing', 'unit', 'levels'],
  number: ['low', 'high', 'missing', 'variance', 'unit', 'digits'],
  cross: ['names'],
};
const GRID = 2 ** 48;
const MAX_SIZE = 1e150;
const MAX_TEXT = 200; // characters of a name or a label
const PRINTABLE = /^(?:[^\p{C}\p{Z}]| )*$/u;

/** The questions of a survey in order. */
export class Questions {
  /**
   * @param {Json[]} items
   * @param {string[]} derived names of the questions whose answers follow from a cross-table alone
   */
  constructor(items, derived) {
    check(items.length > 0 && items.length <= 1000, 'a survey must have 1 to 1000 questions');
    this.all = items.map((item, i) => readQuestion(item, `question ${i + 1} of the schema`));
    this.derived = derived;
    check(distinct(this.all.map((one) => one.name)), 'the names of questions must be distinct');
    this.named = new Map(this.all.map((one) => [one.name, one]));
    this.asked = this.all.filter((one) => one.kind !== 'cross');
    check(this.asked.length, 'a survey must have a question');
    const tables = this.all.filter((one) => one.kind === 'cross');
    check(distinct(tables.map((one) => canonical([...one.names].sort()))), 'tables must be of different questions');
    for (const one of tables) one.sizes = [this.cells(one)];
    const inTables = new Set(tables.flatMap((one) => one.names));
    // Sorted by code points, as in Python; JavaScript compares UTF-16 units.
    const keys = derived.map((name) => hex(concat(name)));
    check(
      keys.every((key, i) => !i || String(keys[i - 1]) < key) &&
        derived.every((name) => inTables.has(name) && this.named.get(name)?.kind !== 'scale'),
      'derived must name, sorted, choices and flags of tables',
    );
    /** Number of categories of every attribute. */
    this.sizes = this.all.flatMap((one) => (derived.includes(one.name) ? [] : one.sizes));
  }

  /**
   * Return the number of cells of a cross-table.
   * @param {Question} cross
   */
  cells(cross) {
    const sides = cross.names.map((name) => this.named.get(name));
    check(
      sides.every((side) => side && /^(choice|flag|scale)$/.test(side.kind)),
      'a table must name choices, flags and scales',
    );
    const cells = sides.reduce((product, side) => product * /** @type {number} */ (side?.sizes.at(-1)), 1);
    return whole(cells, 'the number of cells', 4, 1e6);
  }

  /**
   * Return the category of every attribute of one person; a question without an entry has no answer.
   * @param {unknown} answers
   * @param {Coin} coin
   */
  encode(answers, coin) {
    // Entries of a form or a map would be none, and so missing answers.
    const plain = isObject(answers) && !Object.getPrototypeOf(Object.getPrototypeOf(answers) ?? answers);
    demand(plain, 'the answers must be a plain object');
    const left = new Map(Object.entries(answers));
    const found = new Map(
      this.asked.map((one) => {
        const value = left.get(one.name);
        left.delete(one.name);
        return [one.name, one.encode(value, coin)];
      }),
    );
    demand(!left.size, 'the answers must be to questions of the survey');
    return this.all.flatMap((one) => {
      if (one.kind !== 'cross') return this.derived.includes(one.name) ? [] : /** @type {number[]} */ (found.get(one.name));
      let cell = 0;
      for (const name of one.names) {
        cell = cell * Number(this.named.get(name)?.sizes.at(-1)) + Number(found.get(name)?.at(-1));
      }
      return [cell];
    });
  }
}

/**
 * @param {Json} item
 * @param {string} what
 * @returns {Question}
 */
function readQuestion(item, what) {
  const kind = /** @type {{kind?: Json} | null} */ (item)?.kind;
  check(typeof kind === 'string' && Object.hasOwn(KEYS, kind), `${what} must have a known kind`);
  const known = /** @type {keyof typeof KEYS} */ (kind);
  const read = new Fields(item, what, 'name', 'kind', ...KEYS[known]);
  const name = read.text('name');
  check(name.trim(), `${what} must have a name`);
  checkPrintable(name, MAX_TEXT);
  if ('unit' in read.entries) checkPrintable(read.text('unit'), 20);
  const missing = known !== 'cross' && read.truth('missing');
  const answer = `the answer to '${name}'`;
  const { absent = [], encode, ...rest } = READERS[known](read, Number(missing), answer);
  return {
    name,
    kind,
    names: [],
    ...rest,
    encode(value, coin) {
      if (value !== null && value !== undefined && !Number.isNaN(value)) return encode(value, coin);
      demand(missing, `${answer} must have a value`);
      return absent;
    },
  };
}

/**
 * Throw unless a text is printable, as Python defines it, and has at most this number of characters.
 * @param {string} text
 * @param {number} most
 */
const checkPrintable = (text, most) =>
  check(PRINTABLE.test(text) && [...text].length <= most, `texts must have at most ${most} printable characters`);

/**
 * @typedef {object} Answers The sizes of a question's attributes, the categories of a missing answer and of a given one.
 * @property {number[]} sizes
 * @property {number[]} [absent]
 * @property {string[]} [names]
 * @property {Question['encode']} encode
 */

/** @type {{[kind in keyof typeof KEYS]: (read: Fields, missing: number, answer: string) => Answers}} */
const READERS = {
  choice(read, missing, answer) {
    const labels = read.texts('labels');
    check(labels.length > 1 && distinct([...labels, '']), 'labels must be distinct texts');
    for (const label of labels) checkPrintable(label, MAX_TEXT);
    check(!missing || !labels.includes('no answer'), "labels must not contain 'no answer'");
    return {
      sizes: [labels.length + missing],
      absent: [labels.length],
      encode(value) {
        const place = labels.indexOf(/** @type {string} */ (value));
        demand(place >= 0, `${answer} must be one of ${labels.length} labels`);
        return [place];
      },
    };
  },
  flag(_, missing, answer) {
    return {
      sizes: [2 + missing],
      absent: [2],
      encode(value) {
        demand(typeof value === 'boolean', `${answer} must be true or false`);
        return [Number(value)];
      },
    };
  },
  scale(read, missing, answer) {
    const edges = readEdges(read);
    const buckets = edges.length - 1;
    const levels = read.wholes('levels', 1, 2 ** 16);
    const good = levels.every((width, i) => {
      const next = levels[i + 1];
      return next === undefined ? width === 1 : width > next && width % next === 0;
    });
    const [widest = 1] = levels;
    check(good && widest < buckets, 'levels must descend to 1, each a multiple of the next');
    const widths = levels.length ? levels : [1];
    const padded = Math.ceil(buckets / widest) * widest;
    /** @type {(bucket: number) => number[]} */
    const blocks = (bucket) => widths.map((width) => Math.floor(bucket / width));
    return {
      sizes: blocks(padded).map((size) => size + missing),
      absent: blocks(padded),
      encode(value) {
        const given = number(value, answer);
        return blocks(clip(edges.findLastIndex((edge) => edge <= given), 0, buckets - 1));
      },
    };
  },
  number(read, missing, answer) {
    const [low, high] = readRange(read);
    const variance = read.truth('variance');
    const digits = read.wholes('digits', 2, 1024);
    const radices = digits.length ? digits : [4, 4, 4, 4];
    const levels = radices.reduce((product, radix) => product * radix, 1);
    check(levels <= 2 ** 40, 'the product of digits must be at most 2^40');
    const each = variance ? [...radices, ...radices] : radices;
    return {
      sizes: missing ? [2, ...each] : each,
      absent: [1, ...each.map(() => 0)],
      encode(value, coin) {
        const share = (clip(number(value, answer), low, high) - low) / (high - low);
        const shares = variance ? [share, (2 * share - 1) * (2 * share - 1)] : [share];
        const found = shares.flatMap((one) => split(rounded(one, levels, coin), radices));
        return missing ? [0, ...found] : found;
      },
    };
  },
  cross(read) {
    const names = read.texts('names');
    check(names.length >= 2 && names.length <= 8 && distinct(names), 'a cross-table must have 2 to 8 names');
    return { sizes: [], names, encode: () => [] };
  },
};

/**
 * Return the edges of a scale; equal buckets are written by their bounds.
 * @param {Fields} read
 */
function readEdges(read) {
  const given = read.list('edges').map((edge) => bound(edge, 'an edge'));
  const edges = given.length ? given : spaced(...readRange(read), read.whole('buckets', 2, 2 ** 16));
  if (given.length) {
    const bounds = [read.real('low'), read.real('high'), read.whole('buckets')];
    check(
      bounds.every((one) => one === 0) && given.length > 2 && given.length < 2 ** 16 + 2,
      'a scale must have 3 to 65537 edges, or bounds and buckets',
    );
    const equal = spaced(Number(given[0]), Number(given.at(-1)), given.length - 1);
    check(equal.some((edge, i) => edge !== given[i]), 'edges must be omitted for equal buckets');
  }
  check(edges.every((edge, i) => !i || Number(edges[i - 1]) < edge), 'edges must ascend');
  return edges;
}

/** @param {Fields} read */
function readRange(read) {
  const low = bound(read.get('low'), 'low');
  const high = bound(read.get('high'), 'high');
  check(low < high && high - low >= 1 / MAX_SIZE, 'high must be above low');
  return /** @type {const} */ ([low, high]);
}

/**
 * @param {Json} value
 * @param {string} what
 */
const bound = (value, what) => real(value, what, -MAX_SIZE, MAX_SIZE);

/**
 * Return equally spaced edges; the order of the operations is part of the format.
 * @param {number} low
 * @param {number} high
 * @param {number} buckets
 */
const spaced = (low, high, buckets) =>
  Array.from({ length: buckets + 1 }, (_, i) => (i === buckets ? high : low + ((high - low) * i) / buckets));

/**
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
const clip = (value, low, high) => Math.min(Math.max(value, low), high);

/**
 * Return one of the two nearest levels, the higher one with the chance that keeps the expectation, to 2⁻⁴⁸.
 * @param {number} share
 * @param {number} levels
 * @param {Coin} coin
 */
function rounded(share, levels, coin) {
  const place = share * (levels - 1);
  const lower = Math.min(Math.trunc(place), levels - 1);
  const chance = Math.trunc((place - lower) * GRID);
  return lower + Number(chance > 0 && coin(BigInt(chance)));
}

/**
 * Return the digits of a level, lowest first.
 * @param {number} level
 * @param {number[]} radices
 */
function split(level, radices) {
  return radices.map((radix) => {
    const digit = level % radix;
    level = (level - digit) / radix;
    return digit;
  });
}

/**
 * @param {unknown} value
 * @param {string} answer
 */
function number(value, answer) {
  demand(typeof value === 'number', `${answer} must be a number`);
  return value;
}


loaded.survey = (value) => {
  const read = new Fields(value, 'the schema', 'kind', 'questions', 'derived');
  const questions = new Questions(read.list('questions'), read.texts('derived'));
  let width = 0;
  const attributes = questions.sizes.map((size) => ({ start: (width += size) - size, size }));
  check(width >= 2 && width <= 1e7, 'a survey must have 2 to 10,000,000 categories');
  return { kind: 'survey', labels: [], width, maxSet: attributes.length, questions, attributes };
};

/** The messages of a survey in random order: for each attribute its category, its flipped bits, or it among fakes. */
loaded.answers = (record, { schema, protocol }, source) =>
  permuted(
    schema.attributes.flatMap(({ start, size }, i) => {
      const { flip, m } = /** @type {import('./plan.js').Noise} */ (protocol.noise[i]);
      const bits = (record >> BigInt(start)) & ((1n << BigInt(size)) - 1n);
      const first = BigInt(start);
      const answer = place(bits);
      if (protocol.release === 'category') {
        return [first + response(answer, size, flip, source)];
      }
      if (flip) return setBits(bits ^ coins(size, flip, source)).map((one) => first + one);
      const sent = [first + answer];
      for (let left = need('draw')(m, source); left > 0; left--) sent.push(first + uniform(BigInt(size), source));
      return sent;
    }),
    source,
  );
