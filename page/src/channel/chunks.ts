/**
 * Messages in chunks (draft-ietf-ohai-chunked-ohttp-08).
 *
 *     body     prefix ‖ { v(len(c)) ‖ c }* ‖ 00 ‖ f
 *
 * The counter of the nonces keeps the order, the AAD of the last chunk the end.
 */

import { type Bytes, concat } from "../verifier/bytes";
import { fail } from "../verifier/errors";
import { varint } from "./bhttp";
import { type CountedAead, TAG_BYTES } from "./hpke";

const PIECE_BYTES = 16384;
const SMALLEST_BYTES = 256;
const MAX_CHUNKS = 65536;
const FINAL = "final";
const CLAUSE = "draft-ietf-ohai-chunked-ohttp-08";

/** The bucket of a length: 256, 512, … 16384, then multiples of 16384. */
export function paddedLength(length: number): number {
  if (length > PIECE_BYTES) return Math.ceil(length / PIECE_BYTES) * PIECE_BYTES;
  let bucket = SMALLEST_BYTES;
  while (bucket < length) bucket *= 2;
  return bucket;
}

/** Seal a message as full pieces and a padded last one, so that lengths say nothing but the bucket. */
export async function* sealed(aead: CountedAead, message: Iterable<Bytes> | AsyncIterable<Bytes>): AsyncGenerator<Bytes, void, void> {
  let [buffer, length]: [Bytes, number] = [new Uint8Array(0), 0];
  for await (const data of message) {
    buffer = concat(buffer, data);
    length += data.length;
    // The last piece stays, even where it is full: an empty final chunk would tell such lengths apart.
    for (; buffer.length > PIECE_BYTES; buffer = buffer.slice(PIECE_BYTES)) {
      const chunk = await aead.seal(buffer.slice(0, PIECE_BYTES));
      yield concat(varint(chunk.length), chunk);
    }
  }
  const padding = new Uint8Array(paddedLength(length) - length);
  yield concat(Uint8Array.of(0), await aead.seal(concat(buffer, padding), FINAL));
}

/** Opens chunks as they arrive. After one refusal everything is refused: the counter went on. */
export class ChunkOpener {
  private buffer: Bytes = new Uint8Array(0);
  private length: number | undefined;
  private count = 0;

  constructor(private readonly aead: CountedAead) {}

  /** Take more bytes, and return the pieces that they complete. */
  async feed(data: Bytes): Promise<Bytes[]> {
    this.buffer = concat(this.buffer, data);
    const pieces: Bytes[] = [];
    for (;;) {
      this.length ??= this.readLength();
      if (this.length === 0 && this.buffer.length > PIECE_BYTES + TAG_BYTES) invalid(this.buffer.length);
      if (!this.length || this.buffer.length < this.length) return pieces;
      const sealed = this.buffer.slice(0, this.length);
      this.buffer = this.buffer.slice(this.length);
      this.length = undefined;
      pieces.push(await this.open(sealed, ""));
    }
  }

  /** Say that the content ended, and return the last piece; without one the message was cut: `channel-truncated`. */
  async finish(): Promise<Bytes> {
    if (this.length !== 0 || this.buffer.length < TAG_BYTES) fail("verification", "channel-truncated", "", { clause: CLAUSE });
    return this.open(this.buffer, FINAL);
  }

  /** Take a length: 0 announces the final chunk, and no other chunk is empty (section 3). */
  private readLength(): number | undefined {
    const first = this.buffer[0] ?? 0;
    const size = 1 << (first >> 6);
    if (this.buffer.length < size) return undefined;
    const length = this.buffer.slice(1, size).reduce((number, byte) => number * 256 + byte, first & 0x3f);
    if (length && !(length > TAG_BYTES && length <= PIECE_BYTES + TAG_BYTES)) invalid(length);
    this.buffer = this.buffer.slice(size);
    return length;
  }

  private open(sealed: Bytes, aad: string): Promise<Bytes> {
    if (++this.count > MAX_CHUNKS) fail("malformed", "channel-too-long", "", { expected: `at most ${MAX_CHUNKS} chunks`, clause: CLAUSE });
    return this.aead.open(sealed, aad);
  }
}

function invalid(length: number): never {
  return fail("malformed", "channel-chunk-invalid", "", { got: `${length} bytes`, clause: CLAUSE });
}
