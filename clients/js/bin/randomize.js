#!/usr/bin/env node
/** Randomize values as CSV from standard input, and write their messages to standard output: for `hubbub audit`. */

import { readFileSync, realpathSync, writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { InvalidInput, payloads, readPlan, system } from '../src/index.js';
import { encodeMessage } from '../src/wire.js';

const SEPARATOR = ';';
const TRUE = ['1', 'true', 'yes'];
const FALSE = ['0', 'false', 'no'];
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

/**
 * Return the rows of CSV (RFC 4180).
 * @param {string} text
 */
export function parseCsv(text) {
  /** @type {string[][]} */
  const rows = [];
  /** @type {string[]} */
  let row = [];
  const cell = /(?:"((?:[^"]|"")*)"|([^,"\r\n]*))(,|\r?\n|$)/y;
  while (cell.lastIndex < text.length) {
    const found = cell.exec(text);
    if (!found) throw new InvalidInput('the values must be CSV');
    row.push(found[1] === undefined ? String(found[2]) : found[1].replaceAll('""', '"'));
    if (found[3] === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

/**
 * Return a value of a row, in the form that the schema needs.
 * @param {string[]} row
 * @param {string[]} names names of the columns
 * @param {import('../src/plan.js').Schema} schema
 */
export function valueOf(row, names, schema) {
  const [first = ''] = row;
  if (schema.questions) {
    const { named } = schema.questions;
    return Object.fromEntries(row.map((text, i) => [names[i], answerOf(text, named.get(String(names[i]))?.kind)]));
  }
  if (schema.kind === 'one_hot') return first;
  if (names.length === schema.width && names.every((name, i) => name === schema.labels[i])) {
    return schema.labels.filter((_, i) => row[i] === '1');
  }
  return first ? first.split(SEPARATOR) : [];
}

/**
 * @param {string} text
 * @param {string | undefined} kind
 */
function answerOf(text, kind) {
  if (text === '') return null;
  if (kind === 'choice') return text;
  if (kind !== 'flag') {
    if (!NUMBER.test(text)) throw new InvalidInput('a number must be written in decimal digits');
    return Number(text);
  }
  const word = text.toLowerCase();
  if (!TRUE.includes(word) && !FALSE.includes(word)) throw new InvalidInput('a flag must be true or false');
  return TRUE.includes(word);
}

/** Return a source that reads another one in large blocks, because single draws are small. */
export function buffered(/** @type {import('../src/coins.js').Source} */ source, size = 65536) {
  let data = new Uint8Array();
  return (/** @type {number} */ count) => {
    if (count > data.length) data = new Uint8Array(source(Math.max(size, count)));
    const taken = data.subarray(0, count);
    data = data.subarray(count);
    return taken;
  };
}

/**
 * Return the messages of all values of a CSV.
 * @param {string} text
 * @param {import('../src/plan.js').Plan} plan
 * @param {typeof payloads} [send]
 * @param {import('../src/coins.js').Source} [source]
 */
export function randomize(text, plan, send = payloads, source = buffered(system)) {
  const [names = [], ...rows] = parseCsv(text);
  return rows.flatMap((row) =>
    send(valueOf(row, names, plan.schema), plan, { source }).map((one) => encodeMessage(one, plan)),
  );
}

/** @param {Uint8Array[]} messages */
export function write(messages) {
  const data = Buffer.concat(messages);
  for (let at = 0; at < data.length; ) at += writeSync(1, data, at);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const path = process.argv[2];
  if (!path) {
    console.error('usage: hubbub-randomize PLAN < values.csv > messages');
    process.exit(2);
  }
  write(randomize(readFileSync(0, 'utf8'), await readPlan(readFileSync(path))));
}
