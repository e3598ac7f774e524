/** Server-sent events, as they arrive over the channel. */

const MAX_EVENT = 4 * 1024 * 1024;

export interface Told {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Read events out of pieces of bytes; whoever gets no `answer`, `stored` or `refused` in the end was cut off. */
export async function* eventsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Told, void, void> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of pieces) {
    text += decoder.decode(piece, { stream: true });
    if (text.length > MAX_EVENT) throw new SyntaxError("an event is too long");
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    // Lines that begin with a colon fill up, so that lengths tell less.
    for (const block of blocks) if (!/^(?::.*\n?)*$/.test(block)) yield eventOf(block);
  }
}

function eventOf(block: string): Told {
  const lines = new Map(
    block.split("\n").map((line) => [line.split(": ", 1)[0] ?? "", line.slice(line.indexOf(": ") + 2)]),
  );
  const data: unknown = JSON.parse(lines.get("data") ?? "null");
  if (typeof data !== "object" || !data) throw new SyntaxError("an event without data");
  return { event: lines.get("event") ?? "", data: data as Told["data"] };
}

/** Text of a member, whatever it is. */
export const textOf = (data: Readonly<Record<string, unknown>>, name: string): string => {
  const value = data[name];
  return typeof value === "string" || typeof value === "number" ? `${value}` : "";
};
