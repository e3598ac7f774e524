/** Elements without any HTML: what a service says becomes text, whatever it looks like. */

type Child = Node | string | false | undefined;
type Property = string | boolean | undefined | ((event: Event) => void);

/** Make an element; a function is a listener, `true` an attribute without a value, `false` and undefined none. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Readonly<Record<string, Property>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  put(made, ...children);
  return made;
}

/** Put children in the place of those that an element has. */
export function put(place: Element, ...children: readonly Child[]): void {
  place.replaceChildren(...children.filter((child) => typeof child === "object" || typeof child === "string"));
}

/** Find an element that the document has, of its kind. */
export function byId(id: string): HTMLElement;
export function byId<T extends HTMLElement>(id: string, kind: new () => T): T;
export function byId(id: string, kind: new () => HTMLElement = HTMLElement): HTMLElement {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new TypeError(`no element ${id}`);
  return found;
}

/** Shorten in the middle what nobody compares by eye; the whole stands in its title and in the raw claims. */
export function short(text: string): string {
  return text.length > 40 && !text.includes(" ") ? `${text.slice(0, 12)}…${text.slice(-12)}` : text;
}

/** A value as code, whole for whoever points at it. */
export function code(text: string): HTMLElement {
  return el("code", { title: short(text) === text ? undefined : text }, short(text));
}

/** Hand a file to the person. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text]));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
