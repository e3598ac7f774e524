/** The encrypted channel in the page; it interoperates with `attest.channel`. */

import { part } from "../verifier/parts";
import type { Offer } from "./offer";
import type { ChannelRecord } from "./record";

export { Channel } from "./channel";
export { askForKeys } from "./offer";
export type { Offer, Way } from "./offer";
export type { ChannelRecord } from "./record";
export type { ChannelAnswer, ChannelRequest } from "./request";
export { KEM_HYBRID, KEM_X25519, spokenKems } from "./algorithms";
export type { Fields } from "./bhttp";

/** Make the record of an offer, as `record.ts` does, whose code is fetched for it. */
export async function recordOf(offer: Offer, affirmed: boolean, kems?: readonly number[]): Promise<ChannelRecord> {
  const record = await part(import("./record"));
  return record.recordOf(offer, affirmed, kems);
}
