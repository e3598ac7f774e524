/** The encrypted channel in the page; it interoperates with `attest.channel`. */

import "../verifier/shared";

export { Channel, askForKeys, recordOf } from "./channel";
export type { ChannelAnswer, ChannelRecord, ChannelRequest, Offer, Way } from "./channel";
export { KEM_HYBRID, KEM_X25519, spokenKems } from "./hpke";
export type { Fields } from "./bhttp";
