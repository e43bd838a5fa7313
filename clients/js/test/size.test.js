/** The sizes that the README states: minified by esbuild, compressed by gzip. Needs the development dependencies. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const esbuild = await import('esbuild').catch(() => undefined);
const LIMITS = { core: 8650, index: 16_750 };

/** @param {string} entry */
async function size(entry) {
  const { outputFiles } = await esbuild.build({
    entryPoints: [fileURLToPath(new URL(`../src/${entry}.js`, import.meta.url))],
    bundle: true,
    minify: true,
    format: 'esm',
    write: false,
  });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

for (const [entry, limit] of Object.entries(LIMITS)) {
  test(`the size of ${entry} is at most ${limit} bytes`, { skip: !esbuild && 'needs esbuild: npm install' }, async (t) => {
    const found = await size(entry);
    t.diagnostic(`${found} bytes`);
    assert.ok(found <= limit, `${found} bytes`);
    const stated = readFileSync(new URL('../README.md', import.meta.url), 'utf8').match(/(\d+) (\d+) bytes, everything (\d+) (\d+)/);
    const [core, everything] = [Number(stated[1] + stated[2]), Number(stated[3] + stated[4])];
    assert.ok(Math.abs(found - (entry === 'core' ? core : everything)) <= 40, `the README states ${core} and ${everything}`);
  });
}
