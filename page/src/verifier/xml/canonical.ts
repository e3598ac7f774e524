/**
 * Canonical XML of an element, inclusive and without comments: the bytes that are hashed and signed.
 *
 * 1.0 and 1.1 give the same for what `parse.ts` accepts, which has no attribute of the namespace `xml:`.
 *
 * Spec: Canonical XML 1.1, section 2.3.
 */

import { type Bytes, utf8 } from "../bytes";
import type { Scope, XmlElement } from "./parse";

const TEXT: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#xD;" };
const VALUE: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  '"': "&quot;",
  "\t": "&#x9;",
  "\n": "&#xA;",
  "\r": "&#xD;",
};

/**
 * Write an element with all that it inherits.
 *
 * @param apex the element; namespaces that its ancestors declare are written with it.
 * @param without a child that is left out, as the enveloped-signature transform does; the text behind it stays.
 */
export function canonical(apex: XmlElement, without?: XmlElement): Bytes {
  const parts: string[] = [];
  write(apex, new Map(), without, parts);
  return utf8(parts.join(""));
}

function write(element: XmlElement, outer: Scope, without: XmlElement | undefined, parts: string[]): void {
  parts.push("<", element.written);
  if (element.scope !== outer) {
    for (const prefix of [...element.scope.keys()].sort()) {
      const uri = element.scope.get(prefix) ?? "";
      // An empty default namespace is written only where it takes another one away.
      if ((outer.get(prefix) ?? "") !== uri) parts.push(prefix ? ` xmlns:${prefix}="` : ' xmlns="', value(uri), '"');
    }
  }
  // By namespace, then by name; all of it is ASCII, so the order of code units is that of code points.
  const attributes = [...element.attributes.values()].sort((a, b) => order(a.uri, b.uri) || order(a.local, b.local));
  for (const attribute of attributes) parts.push(" ", attribute.written, '="', value(attribute.value), '"');
  parts.push(">");
  for (const node of element.nodes) {
    if (typeof node === "string") parts.push(node.replace(/[&<>\r]/g, (character) => TEXT[character] as string));
    else if (node !== without) write(node, element.scope, without, parts);
  }
  parts.push("</", element.written, ">");
}

function order(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

function value(text: string): string {
  return text.replace(/[&<"\t\n\r]/g, (character) => VALUE[character] as string);
}
