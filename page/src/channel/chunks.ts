/**
 * Messages in chunks (draft-ietf-ohai-chunked-ohttp-08).
 *
 *     body     prefix ‖ { v(len(c)) ‖ c }* ‖ 00 ‖ f
 *
 * The counter of the nonces keeps the order, the AAD of the last chunk the end.
 */

import { type Bytes, NO_BYTES, concat } from "../verifier/bytes";
import { need } from "../verifier/errors";
import { type Cursor, varint } from "./cursor";
import { type CountedAead, TAG_BYTES } from "./hpke";

const SMALLEST_BYTES = 256;
const PIECE_BYTES = 16384;
const MAX_CHUNKS = 65536;
const FINAL = "final";

/** The bucket of a length: 256, 512, … 16384, then multiples of 16384. */
function paddedLength(length: number): number {
  let bucket = SMALLEST_BYTES;
  while (bucket < length) bucket += Math.min(bucket, PIECE_BYTES);
  return bucket;
}

/** Seal a message as full pieces and a padded last one, so that lengths say nothing but the bucket. */
export async function* sealed({ seal }: CountedAead, message: AsyncIterable<Bytes>): AsyncGenerator<Bytes, void, void> {
  let buffer = NO_BYTES;
  let length = 0;
  for await (const data of message) {
    buffer = concat(buffer, data);
    length += data.length;
    // The last piece stays, even where it is full: an empty final chunk would tell such lengths apart.
    for (; buffer.length > PIECE_BYTES; buffer = buffer.slice(PIECE_BYTES)) {
      const chunk = await seal(buffer.slice(0, PIECE_BYTES));
      yield concat(varint(chunk.length), chunk);
    }
  }
  const padding = new Uint8Array(paddedLength(length) - length);
  yield concat(varint(0), await seal(concat(buffer, padding), FINAL));
}

/** Open chunks as they arrive. After one refusal everything is refused: the counter went on. */
export async function* opened({ open }: CountedAead, chunks: Cursor): AsyncGenerator<Bytes, void, void> {
  const most = PIECE_BYTES + TAG_BYTES;
  let isFinal = false;
  for (let count = 1; !isFinal; count++) {
    // (1) A length: 0 announces the final chunk, and no other chunk is empty (section 3).
    const length = await chunks.integer();
    isFinal = length === 0;
    need(isFinal || (length > TAG_BYTES && length <= most), "malformed", "channel-chunk-invalid", most, length);
    // (2) The chunk; the final one goes on to the end, and may be empty.
    const chunk = isFinal
      ? concat(await chunks.take(TAG_BYTES), await chunks.rest(PIECE_BYTES))
      : await chunks.take(length);
    need(chunk.length <= most, "malformed", "channel-chunk-invalid", most, chunk.length);
    need(count <= MAX_CHUNKS, "malformed", "channel-too-long", MAX_CHUNKS);
    yield open(chunk, isFinal ? FINAL : "");
  }
}
