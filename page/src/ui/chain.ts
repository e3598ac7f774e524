/** The chain of proof as a picture, from the maker's root to the key of the messages. */

import type { CertificateResult } from "../verifier/api";
import { el, put, short } from "./dom";
import { saySeen } from "./strings";
import type { State } from "./state";

const SPACE = "http://www.w3.org/2000/svg";
const BOX = { width: 236, height: 46, gap: 26, between: 24 };

type Shape = Readonly<Record<string, string | number>>;

function shape(tag: string, properties: Shape, ...children: readonly (Node | string)[]): SVGElement {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, `${value}`);
  made.append(...children);
  return made;
}

const path = (kind: string, drawn: string): SVGElement => shape("path", { class: kind, ["d"]: drawn });

function box(x: number, y: number, lines: readonly string[], kind: string): SVGElement {
  const { width, height } = BOX;
  const first = lines.length > 1 ? 19 : 28;
  const texts = lines.map((text, i) => {
    const place = { x: x + width / 2, y: y + first + 16 * i, class: i ? "minor" : "major" };
    return shape("text", place, text.length > 30 ? `${text.slice(0, 29)}…` : text);
  });
  return shape("g", { class: kind }, shape("rect", { x, y, width, height, rx: 8 }), ...texts);
}

/** An arrow down, from the middle of a box to that of another one. */
function arrow(fromX: number, fromY: number, toX: number, toY: number): SVGElement {
  const from = fromX + BOX.width / 2;
  const to = toX + BOX.width / 2;
  const middle = (fromY + toY) / 2;
  const line = `M${from} ${fromY}V${middle}H${to}V${toY - 6}`;
  const head = `M${to - 4} ${toY - 8}l4 6l4 -6z`;
  return shape("g", {}, path("line", line), path("head", head));
}

const row = (index: number): number => index * (BOX.height + BOX.gap) + 2;

/** The certificates of one item from the root down, each above what it signs. */
function column(
  x: number,
  chain: readonly CertificateResult[],
  item: string,
  bottom: number,
  simulated: boolean,
): SVGElement[] {
  const { chain: words } = saySeen();
  const down = [...chain].reverse();
  const first = bottom - down.length;
  const parts = down.flatMap(({ subject, pinned }, i) => {
    const rooted = simulated ? words.simulatedRoot : words.root;
    const made = box(x, row(first + i), pinned ? [subject, rooted] : [subject], pinned ? "root" : "");
    return [made, arrow(x, row(first + i) + BOX.height, x, row(first + i + 1))];
  });
  return [...parts, box(x, row(bottom), [`${words.proof}: ${item}`, words.fresh], "proof")];
}

/** Draw what was verified; without a result there is nothing to draw. */
export function showChain(place: Element, { result, key, simulated }: State): void {
  const { chain: words } = saySeen();
  const all = result?.error ? [] : (result?.certificates ?? []);
  const items = [...new Set(all.map(({ item }) => item))].slice(0, 3);
  if (!items.length) {
    put(place, el("figcaption", {}, words.unfinished));
    return;
  }
  const chains = items.map((item) => all.filter((one) => one.item === item));
  const bottom = Math.max(...chains.map(({ length }) => length));
  const wide = items.length * BOX.width + (items.length - 1) * BOX.between;
  const left = (index: number): number => index * (BOX.width + BOX.between);
  const middle = (wide - BOX.width) / 2;
  const last = row(bottom + 1);
  const parts = chains.flatMap((chain, i) => [
    ...column(left(i), chain, items[i] ?? "", bottom, simulated),
    arrow(left(i), row(bottom) + BOX.height, middle, last),
  ]);
  const end = box(middle, last, [words.key, key ? short(key.digest) : words.belongs], "key");
  const frame = {
    viewBox: `-2 0 ${wide + 4} ${last + BOX.height + 4}`,
    role: "img",
    "aria-label": words.title,
    width: wide,
  };
  put(place, el("figcaption", {}, words.title));
  place.append(shape("svg", frame, ...parts, end));
}
