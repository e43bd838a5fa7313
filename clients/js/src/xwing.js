/** X-Wing (ML-KEM-768 and X25519), the mechanism of suite 2; needs the optional peer `@noble/post-quantum`. */

import { ml_kem768_x25519 as xwing } from '@noble/post-quantum/hybrid.js';

/** @type {import('./hpke.js').Kem} */
export const XWing = {
  id: 0x647a,
  publicSize: 1216,
  async encapsulate(publicKey) {
    const { cipherText, sharedSecret } = xwing.encapsulate(publicKey);
    return { encapsulated: new Uint8Array(cipherText), secret: new Uint8Array(sharedSecret) };
  },
};
