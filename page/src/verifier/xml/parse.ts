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
import { malformed } from "./refusal";

/** The largest RIM seen has 26 KiB. */
export const MAX_RIM_BYTES = 256 * 1024;
/** A RIM of 64 records has 87 elements. */
export const MAX_ELEMENTS = 256;
/** A RIM has 5 levels. */
export const MAX_DEPTH = 8;
/** Of one element: a record has 6 besides its digests. */
export const MAX_ATTRIBUTES = 80;
/** In scope of one element, RIMs have 6. */
export const MAX_NAMESPACES = 16;

/** Prefix to namespace, of everything in scope; the default namespace has the prefix "". */
export type Scope = ReadonlyMap<string, string>;

/** A name as written, and what it means. */
export interface XmlName {
  /** As it stands in the document (`ns0:Meta`). */
  readonly written: string;
  readonly uri: string;
  readonly local: string;
}

export interface XmlAttribute extends XmlName {
  readonly value: string;
}

/** One element; text stands among the children. */
export interface XmlElement extends XmlName {
  /** `{namespace}name`. */
  readonly tag: string;
  /** By `name` or `{namespace}name`. */
  readonly attributes: ReadonlyMap<string, XmlAttribute>;
  readonly scope: Scope;
  readonly nodes: readonly (XmlElement | string)[];
}

const DECLARATION = /^<\?xml version=(?:"1\.0"|'1\.0')(?: encoding=(?:"[Uu][Tt][Ff]-8"|'[Uu][Tt][Ff]-8'))? ?\?>/;
const NO_CHARACTER = /[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u;
const XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace";
const XMLNS_NAMESPACE = "http://www.w3.org/2000/xmlns/";
/** Relative names of namespaces have no canonical form. */
const ABSOLUTE = /^[A-Za-z][\w+.-]*:[\w.~:/?#[\]@!$&'()*+,;=%-]*$/;
const NO_REFERENCE = /&(?!(?:#x[\dA-Fa-f]+|#\d+|lt|gt|amp|quot|apos);)/;
const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

/**
 * Read one document.
 *
 * @param xml UTF-8, at most `MAX_RIM_BYTES`.
 * @throws AttestError `rim-malformed`.
 */
export function parseXml(xml: Bytes): XmlElement {
  return new Parser(plainText(xml)).document();
}

/** The child elements. */
export function elements(element: XmlElement): XmlElement[] {
  return element.nodes.filter((node) => typeof node !== "string");
}

/** Character data directly inside, wherever it stands. */
export function text(element: XmlElement): string {
  return element.nodes.filter((node) => typeof node === "string").join("");
}

/** Whether there is nothing but white space between the children. */
export function isBlank(element: XmlElement): boolean {
  return !/[^ \t\r\n]/.test(text(element));
}

/** Refuse, before anything is read, what a RIM never has and parsers were broken with. */
function plainText(xml: Bytes): string {
  if (xml.length > MAX_RIM_BYTES) throw malformed("size");
  const whole = utf8Text(xml);
  if (whole === undefined) throw malformed("UTF-8");
  const content = DECLARATION.test(whole) ? whole.replace(DECLARATION, "") : whole.replace(/^\uFEFF/, "");
  // In well-formed XML a bare < begins a tag, and with ! or ? behind it one of the things that are refused here.
  if (/<[!?]/.test(content) || NO_CHARACTER.test(content)) throw malformed("markup");
  return content.replace(/\r\n?/g, "\n");
}

class Parser {
  #at = 0;
  #count = 0;

  constructor(readonly source: string) {}

  document(): XmlElement {
    this.#take(/[ \t\n]*/y);
    const root = this.#element(1, new Map());
    this.#take(/[ \t\n]*/y);
    if (this.#at !== this.source.length) throw this.#broken();
    return root;
  }

  #broken(): Error {
    return malformed(`character ${this.#at}`);
  }

  /** Take what a sticky pattern matches here; refuse when it matches nothing. */
  #take(pattern: RegExp): RegExpExecArray {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.source);
    if (found === null) throw this.#broken();
    this.#at = pattern.lastIndex;
    return found;
  }

  #element(depth: number, outer: Scope): XmlElement {
    atMost(depth, MAX_DEPTH, "levels");
    atMost(++this.#count, MAX_ELEMENTS, "elements");
    const written = this.#take(/<((?:[A-Za-z_][\w.-]*:)?[A-Za-z_][\w.-]*)/y)[1] as string;
    const { stated, scope, empty } = this.#startTag(outer);
    const name = resolve(written, scope, scope.get("") ?? "");
    const nodes = empty ? [] : this.#content(written, depth, scope);
    return { ...name, tag: expanded(name), attributes: attributesOf(stated, scope), scope, nodes };
  }

  /** Read the rest of a start tag: attributes as written, and what its namespace declarations bring into scope. */
  #startTag(outer: Scope): { stated: Map<string, string>; scope: Scope; empty: boolean } {
    const stated = new Map<string, string>();
    let scope: Map<string, string> | undefined;
    const declared = new Set<string>();
    for (;;) {
      const [, slash, name, , double, single] = this.#take(
        /[ \t\n]*(\/?)>|[ \t\n]+((?:([A-Za-z_][\w.-]*):)?[A-Za-z_][\w.-]*)[ \t\n]*=[ \t\n]*(?:"([^<"]*)"|'([^<']*)')/y,
      );
      if (name === undefined) return { stated, scope: scope ?? outer, empty: slash === "/" };
      if (stated.has(name) || declared.has(name)) throw malformed(name);
      const value = unescaped(((double ?? single) as string).replace(/[\t\n]/g, " "));
      const prefix = /^xmlns(?::(.*))?$/.exec(name);
      if (prefix === null) {
        stated.set(name, value);
        atMost(stated.size, MAX_ATTRIBUTES, "attributes");
      } else {
        declared.add(name);
        scope ??= new Map(outer);
        scope.set(prefix[1] ?? "", namespace(prefix[1], value));
        atMost(scope.size, MAX_NAMESPACES, "namespaces");
      }
    }
  }

  /** Read children and text up to the end tag. */
  #content(written: string, depth: number, scope: Scope): (XmlElement | string)[] {
    const nodes: (XmlElement | string)[] = [];
    for (;;) {
      const [data] = this.#take(/[^<]*/y);
      if (data.includes("]]>")) throw this.#broken();
      if (data !== "") nodes.push(unescaped(data));
      if (!this.source.startsWith("</", this.#at)) {
        nodes.push(this.#element(depth + 1, scope));
      } else if (this.#take(/<\/([\w.:-]+)[ \t\n]*>/y)[1] === written) {
        return nodes;
      } else {
        throw this.#broken();
      }
    }
  }
}

function atMost(size: number, limit: number, what: string): void {
  if (size > limit) throw malformed(what);
}

/** Check what a declaration binds to what; `xml` and `xmlns` are nobody's to bind. */
function namespace(prefix: string | undefined, uri: string): string {
  const reserved = prefix === "xml" || prefix === "xmlns" || uri === XML_NAMESPACE || uri === XMLNS_NAMESPACE;
  const undeclared = prefix === undefined && uri === "";
  if (reserved || !(undeclared || ABSOLUTE.test(uri))) throw malformed("xmlns");
  return uri;
}

function resolve(written: string, scope: Scope, unprefixed: string): XmlName {
  const colon = written.indexOf(":");
  if (colon < 0) return { written, uri: unprefixed, local: written };
  const uri = scope.get(written.slice(0, colon));
  // The prefix `xml` is never in scope here: its attributes are where canonical XML 1.0 and 1.1 differ.
  if (uri === undefined) throw malformed("prefix");
  return { written, uri, local: written.slice(colon + 1) };
}

function expanded(name: XmlName): string {
  return name.uri === "" ? name.local : `{${name.uri}}${name.local}`;
}

/** Resolve attributes; one without a prefix is in no namespace, and two prefixes may mean the same one. */
function attributesOf(stated: ReadonlyMap<string, string>, scope: Scope): ReadonlyMap<string, XmlAttribute> {
  const found = new Map<string, XmlAttribute>();
  for (const [written, value] of stated) {
    const name = resolve(written, scope, "");
    found.set(expanded(name), { ...name, value });
  }
  if (found.size !== stated.size) throw malformed("attributes");
  return found;
}

/** Expand character references and the five entities that XML has by itself. */
function unescaped(data: string): string {
  // An expression with a callback finds every match before it asks about the first.
  if (NO_REFERENCE.test(data)) throw malformed("reference");
  return data.replace(/&(#x?)?(\w+);/g, (_, kind: string | undefined, name: string) => {
    const number = Number.parseInt(name, kind === "#x" ? 16 : 10);
    const found = kind === undefined ? ENTITIES[name] : number <= 0x10ffff ? String.fromCodePoint(number) : undefined;
    if (found === undefined || NO_CHARACTER.test(found)) throw malformed("reference");
    return found;
  });
}
