/** The demonstration: answer one question, see the bits that leave, and watch the collection. */

import { BrowserStore, Client, encode, unhex } from '../src/index.js';

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const text = async (path) => (await fetch(path)).text();

/** Show the rows of a table. */
function show(id, rows) {
  const body = element(id).querySelector('tbody');
  body.replaceChildren(
    ...rows.map((cells) => {
      const row = document.createElement('tr');
      row.append(...cells.map((cell) => Object.assign(document.createElement('td'), { textContent: cell })));
      return row;
    }),
  );
  element(id).hidden = false;
}

const store = await BrowserStore.open('hubbub-demo');
const client = await Client.open({
  contract: await text('/contract.json'),
  shuffler: '/relay',
  operators: JSON.parse(await text('/operators.json')),
  store,
  budget: { epsilon: 10, delta: 1e-3 },
});
const { contract } = client;
const { plan } = contract;
const { labels } = plan.schema;
const flip = (100 * Number(plan.protocol.noise[0].flip)) / 2 ** 48;
element('terms').textContent =
  `Every bit of your answer is flipped with a probability of ${flip.toFixed(1)} % on this device. Batches have at least ` +
  `${contract.minBatchSize} people; the guarantee is ε = ${plan.guarantee.epsilon.toPrecision(3)} at ` +
  `δ = ${plan.guarantee.delta.toPrecision(2)}.`;

element('labels').append(
  ...labels.map((label) => {
    const input = Object.assign(document.createElement('input'), { type: 'radio', name: 'answer', value: label, required: true });
    const line = document.createElement('label');
    line.append(input, ` ${label}`);
    return line;
  }),
);

/** Show the true and the sent bits of a record, from the randomized messages in the journal. */
async function showBits(value) {
  const entry = await store.get(client.key(1));
  if (!entry?.value.messages) return;
  const sent = unhex(entry.value.messages[0]);
  const record = encode(value, plan.schema);
  show('bits', labels.map((label, i) => [label, (record >> BigInt(i)) & 1n ? '1' : '0', (sent[i >> 3] >> (i & 7)) & 1 ? '1' : '0']));
}

async function showBundle() {
  const entry = await store.get(client.key(1));
  const bundle = entry?.value.bundle;
  if (bundle) element('bundle').textContent = `Sealed: ${bundle.length / 2} bytes, ${bundle.slice(0, 64)}…`;
}

const states = { stored: 'Your answer is stored by the shuffler, sealed. It is never counted twice.', waiting: 'Your answer waits for a connection.' };
const showState = async () => {
  const state = await client.state();
  if (state) element('state').textContent = states[state] ?? `Your answer was refused: ${state}.`;
  element('question').querySelector('button').disabled = Boolean(state);
};

element('question').addEventListener('submit', async (event) => {
  event.preventDefault();
  const value = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('answer'));
  element('question').querySelector('button').disabled = true;
  const { ticket } = JSON.parse(await text('/ticket.json'));
  await client.record(value, { admission: unhex(ticket) });
  await showBits(value);
  const { fetch } = globalThis;
  client.uploader.transport.fetch = async (...request) => {
    await showBundle();
    return fetch(...request);
  };
  await client.resume().catch(() => {});
  await showState();
});

/** Show the last released batch. */
async function watch() {
  const result = await fetch('/results.json').then((response) => response.json()).catch(() => null);
  if (result?.table) {
    element('collection').textContent = `The last batch has ${result.people} people.`;
    const { item, value, low, high } = result.table;
    show('results', item.map((label, i) => [label, value[i].toFixed(0), `${low[i].toFixed(0)} to ${high[i].toFixed(0)}`]));
  }
  setTimeout(watch, 2000);
}

addEventListener('online', () => client.resume().then(showState, () => {}));
if ((await client.state()) === 'waiting') await client.resume().catch(() => {});
await showState();
watch();
