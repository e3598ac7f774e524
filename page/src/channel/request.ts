/** A request that is sealed, and its answer. */

import type { Bytes } from "../verifier/bytes";
import type { Fields } from "./bhttp";

export interface ChannelRequest {
  readonly method: string;
  readonly path: string;
  /** Without `date` and `attest-evidence`, which are added. */
  readonly fields?: Fields;
  readonly content?: Blob | Bytes;
  /** Sends the sealed request in place of `Way.fetch`, whose options it is given: one that shows its progress. */
  readonly carrier?: typeof fetch;
}

export interface ChannelAnswer {
  readonly status: number;
  readonly fields: Fields;
  /** Authentic and in order; throws `channel-truncated` where it was cut. */
  readonly content: AsyncGenerator<Bytes, void, void>;
  /** The key that the request went to. */
  readonly key: { readonly id: number; readonly digest: string };
}
