/** A service worker that answers for a person. */

import { BrowserStore, Client, unhex } from '../../src/index.js';

self.addEventListener('message', (event) => {
  const { person, shuffler } = event.data;
  const [port] = event.ports;
  const answer = async () => {
    const contract = await (await fetch('/contract.json')).text();
    const tickets = await (await fetch('/tickets.json')).json();
    const store = await BrowserStore.open(`person-${person}`);
    const client = await Client.open({ contract, operators: 'first-use', store, shuffler, minBatchSize: 1 });
    return client.answer(String(person), { admission: unhex(tickets[person]) });
  };
  event.waitUntil(answer().then((state) => port.postMessage(state), (error) => port.postMessage(`${error.name}: ${error.message}`)));
});
