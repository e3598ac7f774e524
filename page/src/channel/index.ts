/** The encrypted channel in the page; it interoperates with `attest.channel`. */

// Whoever uses it verifies first; what both need is one file this way.
import "../verifier/api";

export { Channel, askForKeys, recordOf } from "./channel";
export type { ChannelAnswer, ChannelRecord, ChannelRequest, Offer, Way } from "./channel";
export { KEM_HYBRID, KEM_X25519, spokenKems } from "./hpke";
export type { Fields } from "./bhttp";
