/**
 * A reader of the XML that RIMs are written in: elements, attributes, text and namespaces, and nothing else.
 *
 * The reader of the browser is not used: it resolves, repairs and keeps what no RIM has, and each browser does it in
 * its own way. This one refuses document types, entities, comments, CDATA and processing instructions before it begins,
 * and bounds what a document may cost: each step below looks at each character at most twice.
 *
 * Spec: XML 1.0; Namespaces in XML 1.0; specs/nvidia-gpu.md, section 9.3.
 */

import { type Bytes, utf8Text } from "../bytes";
import { MAX_RIM_BYTES, malformed } from "../rim_form";

/** A RIM of 64 records has 87 elements. */
const MAX_ELEMENTS = 256;
/** A RIM has 5 levels. */
const MAX_DEPTH = 8;
/** Of one element: a record has 6 besides its digests. */
const MAX_ATTRIBUTES = 80;
/** In scope of one element, RIMs have 6. */
const MAX_NAMESPACES = 16;

/** Prefix to namespace, of everything in scope; the default namespace has the prefix "". */
export type Scope = ReadonlyMap<string, string>;

/** One element. What a name means is its namespace, a space, and the name without its prefix. */
export interface XmlElement {
  /** Its name as it stands in the document (`ns0:Meta`). */
  readonly written: string;
  readonly tag: string;
  /** Values by what the names mean, in canonical order. */
  readonly attributes: ReadonlyMap<string, string>;
  /** The attributes as canonical XML writes them. */
  readonly stated: string;
  readonly scope: Scope;
  /** Children and text. */
  readonly nodes: (XmlElement | string)[];
}

const DECLARATION = /^(?:\uFEFF|<\?xml version=(["'])1\.0\1(?: encoding=(["'])[Uu][Tt][Ff]-8\2)? ?\?>)/;
const NO_BLANK = /[^ \t\r\n]/;
const NO_CHARACTER = /[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u;
/** Text, and behind it an end tag, or a start tag with all its attributes. */
const NAME = "(?:[A-Za-z_][\\w.-]*:)?[A-Za-z_][\\w.-]*";
const BLANK = "[ \\t\\n]";
const STATED = `${BLANK}+${NAME}${BLANK}*=${BLANK}*(?:"[^<"]*"|'[^<']*')`;
const TAG = new RegExp(`([^<]*)<(?:/([\\w.:-]+)|(${NAME})((?:${STATED})*))${BLANK}*(/?)>`, "gy");
/** One attribute of those that `TAG` found to be well formed. */
const ATTRIBUTE = /([\w.:-]+)\s*=\s*(["'])(.*?)\2/gs;
/** Relative names of namespaces have no canonical form, and only the default one can be taken away. */
const RESERVED_URI = "http://www\\.w3\\.org/(?:XML/1998/namespace|2000/xmlns/)";
const ABSOLUTE_URI = "[A-Za-z][\\w+.-]*:[\\w.~:/?#[\\]@!$&'()*+,;=%-]*";
const DECLARED = new RegExp(`^(?:xmlns=|xmlns(?!:xml(?:ns)?=)[^=]*=(?!${RESERVED_URI}$)${ABSOLUTE_URI})$`);
/** Result of the expressions; a group without a match is undefined, which is read only for `end` and `empty`. */
type Groups = Iterable<readonly [string, string, string, string, string, string]>;
const NAMES: Readonly<Record<string, string>> = {
  "&": "amp",
  "<": "lt",
  ">": "gt",
  '"': "quot",
  "'": "apos",
  "\t": "#x9",
  "\n": "#xA",
  "\r": "#xD",
};

/**
 * Read one document.
 *
 * @param xml UTF-8, at most `MAX_RIM_BYTES`.
 * @throws AttestError `rim-malformed`.
 */
export function parseXml(xml: Bytes): XmlElement {
  const source = plainText(xml);
  const tree = new Tree();
  let at = 0;
  for (const [whole, data, end, written, stated, empty] of source.matchAll(TAG) as Groups) {
    at += whole.length;
    tree.addText(data);
    if (end) tree.close(end, empty !== "");
    else tree.open(written, stated, empty !== "");
  }
  if (NO_BLANK.test(source.slice(at))) malformed();
  return tree.root();
}

/** A document that is being read. */
class Tree {
  /** It is never closed: its name is empty. */
  private readonly document = elementOf("", "", new Map());
  private readonly openElements = [this.document];
  private count = 0;

  /** Add text in front of a tag; outside of the root there is only white space. */
  addText(data: string): void {
    const forbidden = this.openElements.length < 2 ? NO_BLANK : /]]>/;
    if (forbidden.test(data)) malformed();
    this.parent().nodes.push(unescaped(data));
  }

  open(written: string, stated: string, isEmpty: boolean): void {
    const parent = this.parent();
    const element = elementOf(written, stated, parent.scope);
    parent.nodes.push(element);
    this.count += 1;
    if (this.openElements.length > MAX_DEPTH || this.count > MAX_ELEMENTS) malformed();
    if (!isEmpty) this.openElements.push(element);
  }

  close(written: string, isEmpty: boolean): void {
    if (written !== this.parent().written || isEmpty) malformed();
    this.openElements.pop();
  }

  root(): XmlElement {
    const [root, ...more] = elements(this.document);
    if (!root || more.length || this.openElements.length > 1) malformed();
    return root;
  }

  private parent(): XmlElement {
    return this.openElements.at(-1)!;
  }
}

/** The child elements. */
export function elements(element: XmlElement): XmlElement[] {
  return element.nodes.filter((node) => typeof node !== "string");
}

/** The element and all below it. */
export function descendants(element: XmlElement): XmlElement[] {
  return [element, ...elements(element).flatMap(descendants)];
}

/** Character data directly inside, wherever it stands. */
export function text(element: XmlElement): string {
  return element.nodes.filter((node) => typeof node === "string").join("");
}

/** True if there is nothing but white space between the children. */
export function isBlank(element: XmlElement): boolean {
  return !NO_BLANK.test(text(element));
}

/** Refuse, before anything is read, what a RIM never has and parsers were broken with. */
function plainText(xml: Bytes): string {
  const content = (xml.length <= MAX_RIM_BYTES ? utf8Text(xml) : undefined)?.replace(DECLARATION, "");
  // In well-formed XML a bare < begins a tag, and with ! or ? behind it one of the things that are refused here.
  if (content === undefined || /<[!?]/.test(content) || NO_CHARACTER.test(content)) malformed();
  return content.replace(/\r\n?/g, "\n");
}

/** Read a start tag: what it means, and what its namespace declarations bring into scope. */
function elementOf(written: string, stated: string, outer: Scope): XmlElement {
  const scope = new Map(outer);
  const declared = new Set<string>();
  const given: [written: string, value: string][] = [];
  for (const [, name, , raw] of stated.matchAll(ATTRIBUTE) as Groups) {
    const value = unescaped(raw.replace(/[\t\n]/g, " "));
    if (!/^xmlns(?::|$)/.test(name)) {
      given.push([name, value]);
      continue;
    }
    if (declared.has(name) || !DECLARED.test(`${name}=${value}`)) malformed();
    declared.add(name);
    scope.set(name.slice(6), value);
  }
  // An attribute without a prefix is in no namespace. A space is below all that names are made of, and so is the comma
  // that sorting puts behind them: this orders by namespace, then by name.
  const sorted = given.map(([name, value]) => [meaning(name, scope, ""), name, value] as const).sort();
  const attributes = new Map(sorted.map(([name, , value]) => [name, value]));
  if (attributes.size < given.length || given.length > MAX_ATTRIBUTES || scope.size > MAX_NAMESPACES) malformed();
  return {
    written,
    tag: meaning(written, scope, scope.get("") ?? ""),
    attributes,
    stated: sorted.map(([, name, value]) => ` ${name}="${escaped(value)}"`).join(""),
    scope,
    nodes: [],
  };
}

function meaning(written: string, scope: Scope, unprefixed: string): string {
  const [name, prefix] = written.split(":").reverse();
  // The prefix `xml` is never in scope here: its attributes are where canonical XML 1.0 and 1.1 differ.
  return `${(prefix === undefined ? unprefixed : scope.get(prefix)) ?? malformed()} ${name}`;
}

/** Expand character references and the five entities that XML has by itself. */
function unescaped(data: string): string {
  return data.replace(/&(?:(#x[\dA-Fa-f]+|#\d+|lt|gt|amp|quot|apos);)?/g, (_, name: string | undefined) => {
    const number = name?.startsWith("#") ? Number(name.replace("#", "0")) : -1;
    if (name === undefined || number > 0x10ffff) return malformed();
    if (number < 0) return Object.keys(NAMES).find((character) => NAMES[character] === name)!; // one of the five
    const found = String.fromCodePoint(number);
    return NO_CHARACTER.test(found) ? malformed() : found;
  });
}

// -- Canonical XML 1.1, section 2.3, inclusive and without comments; 1.0 gives the same without attributes of `xml:`

/**
 * Write an element with all that it inherits: what is hashed and signed.
 *
 * @param apex the element; namespaces that its ancestors declare are written with it.
 * @param without a child that is left out, as the enveloped-signature transform does; the text behind it stays.
 */
export function canonical(apex: XmlElement, without?: XmlElement, outer: Scope = new Map()): string {
  const { written, scope, stated, nodes } = apex;
  const spaces = [...scope].sort().map(([prefix, uri]) =>
    // An empty default namespace is written only where it takes another one away.
    (outer.get(prefix) ?? "") === uri ? "" : ` xmlns${prefix && `:${prefix}`}="${escaped(uri)}"`,
  );
  const inside = nodes.map((node) => {
    if (typeof node === "string") return escaped(node, /[&<>\r]/g);
    return node === without ? "" : canonical(node, without, scope);
  });
  return `<${written}${spaces.join("")}${stated}>${inside.join("")}</${written}>`;
}

function escaped(data: string, special = /[&<"\t\n\r]/g): string {
  return data.replace(special, (character) => `&${NAMES[character]};`);
}
