/** The exact text of the members of a JSON object, for hashes and signatures over parts of a document. */

import { type Bytes, utf8Text } from "../bytes";

/** Position of a member's value in the text. */
export type Place = readonly [begin: number, end: number];

/** The place of each member of an object that `jsonValue` has read. */
export function rawMembers(data: Bytes): { readonly text: string; readonly places: ReadonlyMap<string, Place> } {
  const text = utf8Text(data)!;
  const places = new Map<string, Place>();
  const tokens = text.matchAll(/[{}[\]]|"[^"\\]*(?:\\.[^"\\]*)*"|[\w.+-]+/g);
  tokens.next();
  for (const name of tokens) {
    // Behind the last member only the closing brace is left.
    if (name[0] === "}") break;
    places.set(JSON.parse(name[0]) as string, valueOf(tokens));
  }
  return { text, places };
}

/** The place of the value that begins with the next token: that token alone, or all up to the closing bracket. */
function valueOf(tokens: IterableIterator<RegExpExecArray>): Place {
  let begin: number | undefined;
  let depth = 0;
  for (;;) {
    const { 0: token, index } = tokens.next().value as RegExpExecArray;
    begin ??= index;
    if (/^[{[]/.test(token)) depth += 1;
    if (/^[}\]]/.test(token)) depth -= 1;
    if (!depth) return [begin, index + token.length];
  }
}
