// Charts by Observable Plot. Its class is fixed, so that the one style it writes has a digest that the page allows.
/* global Plot, d3 */
import { percent, short } from './common.js';

const BASE = { className: 'plot', style: { background: 'transparent' } };
const SYMBOLS = { nobody: 'triangle', shuffling: 'circle', 'shuffler-noise': 'square' };
const colour = (trust) => `var(--t-${trust})`;
/** Large numbers with a letter for thousands, millions and billions, whose letter is G among physicists. */
const lettered = (format) => (value) => d3.format(format)(value).replace('G', 'B');
const compact = lettered('~s');
const plain = (value) => (value === 0 ? '0' : short(value));
const few = (box) => (box.clientWidth < 420 ? 3 : 4);
/** Ticks with as many digits as tell them apart; from ``most`` on with a letter for thousands or millions. */
function ticked(values, most) {
  const [low = 0, high = 0] = d3.extent(values), step = d3.tickStep(low, high, 4) || 1, size = Math.max(Math.abs(low), Math.abs(high));
  if (size < 1e-3) return d3.format('.2~e');
  return size < most ? d3.format(`,.${d3.precisionFixed(step)}f`) : lettered(`.${d3.precisionRound(step, size)}~s`);
}
/** Powers of ten between two values; a logarithmic axis has no others, so that its grid stays quiet. */
const powers = (low, high) => d3.range(Math.ceil(Math.log10(low)), Math.floor(Math.log10(high)) + 1).map((power) => Number(`1e${power}`));

/** Put a chart into its box, which is one image for a screen reader: its parts have no names of their own. */
function place(box, options, label) {
  const svg = Plot.plot({ ...BASE, width: Math.max(240, box.clientWidth), ...options });
  svg.setAttribute('aria-hidden', 'true');
  box.setAttribute('role', 'img');
  box.setAttribute('aria-label', label);
  box.replaceChildren(svg);
}

/**
 * Margins of all families along one axis: quick lines, certified shapes. A mean has a range, in which its error is measured.
 * Returns true if lines leave the chart where the error is as large as the crowd or the range.
 */
export function precision(box, { families, found, chosen, axis, here, central, people, mean, label }) {
  const shown = families.filter((one) => one[axis].length > 0);
  const scaled = (x, y) => (mean === null ? y : y * mean / (axis === 'by_people' ? x : people));
  const points = shown.flatMap((one) => one[axis].map(([x, y]) => ({ x, y: scaled(x, y), ...one })));
  const dots = shown.filter((one) => found[one.family]?.state === 'certified')
    .map((one) => ({ ...one, x: here, y: mean === null ? found[one.family].curve : found[one.family].questions[0].margin, title: found[one.family].name }));
  const all = [...points, ...dots, ...central.map(([, y]) => ({ y }))].map((one) => one.y).filter((y) => y > 0); // a count that is exact 95 of 100 times is drawn at the lower edge
  // Below a tenth of a person, lines would say nothing, and squeeze the others.
  const low = Math.max(mean === null ? 0.1 : 1e-9, d3.min(all) ?? 1), top = Math.max(d3.max(all) ?? 1, 2 * low);
  const own = (one) => one.family === chosen;
  const bottom = low / 1.3;
  const most = mean ?? people, cap = axis === 'by_epsilon' ? Math.min(top, Math.max(most, 4 * low)) : top;
  place(box, {
    height: 250, marginLeft: 46, marginRight: 16, marginBottom: 42,
    x: { type: 'log', label: axis === 'by_epsilon' ? 'ε' : 'people', tickFormat: axis === 'by_epsilon' ? '~g' : compact, ticks: 5 },
    y: { type: 'log', label: mean === null ? '± people' : '± error of the mean', domain: [bottom, cap * 1.2], clamp: true, tickFormat: (value) => (value < 1 ? plain(value) : compact(value)), ticks: powers(bottom, cap * 1.2) },
    symbol: { domain: Object.keys(SYMBOLS), range: Object.values(SYMBOLS) }, r: { type: 'identity' },
    marks: [
      Plot.gridY(powers(bottom, cap * 1.2), { stroke: 'var(--line)', strokeOpacity: 1 }),
      Plot.ruleX([here], { stroke: 'var(--control)', strokeDasharray: '2 4' }),
      Plot.line(central, { x: '0', y: '1', stroke: 'var(--ink)', strokeDasharray: '1 4', strokeLinecap: 'round' }),
      Plot.line(points, {
        x: 'x', y: 'y', z: 'family', stroke: (one) => colour(one.trust), strokeOpacity: (one) => (one.allowed ? 0.9 : 0.35),
        strokeWidth: (one) => (own(one) ? 3 : 1.4),
      }),
      Plot.dot(dots, {
        x: 'x', y: 'y', symbol: 'trust', fill: (one) => colour(one.trust), r: (one) => (own(one) ? 7 : 4.5),
        stroke: 'var(--card)', strokeWidth: 1,
      }),
      Plot.tip(dots, Plot.pointer({ x: 'x', y: 'y', title: (one) => `${one.title}\n± ${short(one.y)}, certified` })),
    ],
    color: { type: 'identity' },
  }, label);
  return cap === most && top > 1.2 * cap;
}

/** Rows by their place, as labels that are cut off may be alike, and an axis that shows them. */
const placed = (panel) => panel.rows.map((row, place) => ({ ...row, place, label: cut(row.label, 18) }));
const labels = (rows) => ({ label: null, domain: rows.map((row) => row.place), tickFormat: (place) => rows[place].label, tickSize: 0 });

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 8)}…${text.slice(-7)}` : text);

/** The truth, an estimate with its interval, and the estimates of other collections. */
export function collected(box, panel, label) {
  const rows = placed(panel);
  const counts = panel.unit === 'people', wide = d3.max(rows, (row) => row.label.length) ?? 4;
  place(box, {
    height: 50 + 22 * rows.length, marginTop: 4, marginLeft: 14 + 6.6 * wide, marginRight: 18, marginBottom: 42,
    x: { label: panel.unit || null, tickFormat: counts ? compact : ticked(rows.flatMap((row) => [row.truth, row.low, row.high]), 1e5), ticks: few(box), nice: true },
    y: labels(rows),
    marks: [
      counts ? Plot.barX(rows, { x: 'truth', y: 'place', fill: 'var(--bar)', insetTop: 3, insetBottom: 3 })
        : Plot.tickX(rows, { x: 'truth', y: 'place', stroke: 'var(--ink)', strokeWidth: 2 }),
      Plot.ruleY(rows, { x1: 'low', x2: 'high', y: 'place', stroke: 'var(--accent)', strokeWidth: 2 }),
      Plot.dot(rows, { x: 'estimate', y: 'place', fill: 'var(--accent)', r: 3.5 }),
    ],
  }, label);
}

export function errors(box, panel, label) {
  const rows = placed(panel);
  const others = rows.flatMap((row) => row.others.map((value) => ({ place: row.place, x: value - row.truth })));
  const wide = d3.max(rows, (row) => row.label.length) ?? 4;
  const shown = ticked([...others.map((one) => one.x), ...rows.flatMap((row) => [row.low - row.truth, row.high - row.truth])], 1e3);
  place(box, {
    height: 50 + 22 * rows.length, marginTop: 4, marginLeft: 14 + 6.6 * wide, marginRight: 18, marginBottom: 42,
    x: { label: panel.unit || null, tickFormat: (value) => (value > 0 ? `+${shown(value)}` : shown(value)), ticks: few(box), nice: true },
    y: labels(rows),
    marks: [
      Plot.ruleX([0], { stroke: 'var(--ink)' }),
      Plot.tickX(others, { x: 'x', y: 'place', stroke: 'var(--control)', strokeOpacity: 0.45, inset: 4 }),
      Plot.ruleY(rows, { x1: (row) => row.low - row.truth, x2: (row) => row.high - row.truth, y: 'place', stroke: 'var(--accent)', strokeWidth: 2 }),
      Plot.dot(rows, { x: (row) => row.estimate - row.truth, y: 'place', fill: 'var(--accent)', r: 3.5 }),
    ],
  }, label);
}

/** Attackers of growing power, and how often each guesses right. */
export function ladder(box, rows) {
  place(box, {
    height: 50 + 40 * rows.length, marginLeft: 10, marginRight: 46, marginTop: 4, marginBottom: 42,
    x: { domain: [50, 100], label: 'right guesses out of 100', ticks: 5, labelOffset: 36 },
    y: { axis: null, domain: rows.map((row) => row.who), padding: 0.1 },
    marks: [
      Plot.barX(rows, {
        x1: 50, x2: (row) => 100 * Math.max(row.guess, 0.503), y: 'who', insetTop: 20, insetBottom: 4,
        fill: (row) => (row.guess > 0.9 ? 'var(--warn)' : 'var(--accent)'),
      }),
      Plot.text(rows, { frameAnchor: 'left', y: 'who', dx: 4, dy: -9, text: 'who', textAnchor: 'start', fill: 'var(--ink)' }),
      Plot.text(rows, { x: (row) => 100 * row.guess, y: 'who', dy: 8, dx: 5, text: (row) => percent(row.guess), textAnchor: 'start', fill: 'var(--ink)' }),
      Plot.ruleX([50], { stroke: 'var(--control)' }),
    ],
    color: { type: 'identity' },
  }, `Right guesses at most: ${rows.map((row) => `${row.who} ${percent(row.guess)}`).join('; ')}`);
}

/** A hundred dots: what a coin guesses right, what the results add, and the rest. */
export function icons(box, right) {
  const svg = d3.create('svg').attr('width', 104).attr('height', 104).attr('role', 'img')
    .attr('aria-label', `Of 100 guesses at most ${right} are right; a coin toss gets 50`);
  svg.selectAll('circle').data(d3.range(100)).join('circle')
    .attr('cx', (i) => 7 + 10 * (i % 10)).attr('cy', (i) => 7 + 10 * Math.floor(i / 10)).attr('r', 3.6)
    .attr('class', (i) => (i < 50 ? 'coin' : i < right ? 'gain' : 'blank'));
  box.replaceChildren(svg.node());
}
