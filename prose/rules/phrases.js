/** A rule for textlint: the phrases of `phrases.yaml` do not occur in prose. Code, addresses and HTML are no prose. */

import { readFileSync } from "node:fs";
import { parse } from "yaml";

const MASK = "\u25ae";
/** What may stand between the end of a sentence and the first word of the next: blanks, and the marks of emphasis. */
const BEGINNING = `(?<=(?:^|[.!?:;]\\s|[.!?]${MASK}+\\s)[\\s${MASK}]*)`;

const entries = parse(readFileSync(new URL("../phrases.yaml", import.meta.url), "utf8"));

export const phrases = entries.map(({ id, find, begins, instead }) => ({
  id,
  instead,
  pattern: new RegExp(begins ? `${BEGINNING}(?:${begins})` : `\\b(?:${find})\\b`, begins ? "g" : "gi"),
}));

/** Copy the words of a node over a masked text of the same length. */
function reveal(node, base, text, masked) {
  if (node.type === "Str") {
    for (let at = node.range[0] - base; at < node.range[1] - base; at++) {
      masked[at] = /\s/.test(text[at]) ? " " : text[at];
    }
  }
  for (const child of node.children ?? []) {
    reveal(child, base, text, masked);
  }
}

export default function (context) {
  const { Syntax, RuleError, report, getSource, locator } = context;

  function check(node) {
    const text = getSource(node);
    const masked = Array.from({ length: text.length }, (_, at) => (/\s/.test(text[at]) ? " " : MASK));
    reveal(node, node.range[0], text, masked);
    const words = masked.join("");
    for (const { id, instead, pattern } of phrases) {
      for (const found of words.matchAll(pattern)) {
        const range = [found.index, found.index + found[0].length];
        report(node, new RuleError(`"${found[0].trim()}" (${id}): ${instead}`, { padding: locator.range(range) }));
      }
    }
  }

  return { [Syntax.Paragraph]: check, [Syntax.Header]: check, [Syntax.TableCell]: check };
}
