/** The core: plan and contract, randomization, sealing and upload. */

export { EntropyFailure, ExpiredKeys, FalseClaim, HubbubError, InvalidInput, NoResponse, WireError } from './errors.js';
export { hex, unhex } from './bytes.js';
export { canonical, parse } from './json.js';
export { readPlan } from './plan.js';
export { encode, payloads } from './device.js';
export { readContract, checkOperators, readKeys } from './contract.js';
export { sealBundle } from './sealing.js';
export { Uploader } from './uploader.js';
