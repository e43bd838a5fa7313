/** Everything: the core, and the client with its journal, ledger and tokens. */

import './overflow.js';
import './questions.js';

export * from './core.js';
export { system } from './coins.js';
export { Client } from './client.js';
export { BrowserStore } from './store.js';
export { AlreadyCharged, BudgetExceeded, charge, total } from './ledger.js';
export { roundAt } from './series.js';
export { PendingToken, challenge } from './tokens.js';
