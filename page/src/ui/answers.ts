/** An answer as it is shown: whose words it is, and each citation as a link to its passage. */

import { el, put } from "./dom";
import { type Told, textOf } from "./events";
import { say } from "./strings";

type Data = Told["data"];
let answers = 0;

const objects = (value: unknown): readonly Data[] =>
  (Array.isArray(value) ? value : []).filter((one): one is Data => typeof one === "object" && one !== null);

/** Name, and page or section if the document has them. Text from a document keeps its own direction. */
function placeOf(data: Data): HTMLElement {
  const page = textOf(data, "page");
  const section = textOf(data, "section");
  const parts = section ? [", ", el("bdi", {}, section)] : [];
  return el("span", {}, el("bdi", {}, textOf(data, "name")), page ? say().page_(page) : "", ...parts);
}

/** The different places of citations, in their order. */
function placesOf(citations: readonly Data[]): readonly (HTMLElement | string)[] {
  const places = new Map(citations.map(placeOf).map((place) => [place.textContent, place]));
  return [...places.values()].flatMap((place, index) => (index ? ["; ", place] : [place]));
}

/** True for words of a language model; everything else is quoted. */
const isWritten = ({ kind }: Data): boolean => kind === "written" || kind === "generated";

function modelText({ model }: Data): string {
  const { unnamedModel, modelWhere, modelWeights, writtenBy } = say();
  const found = (typeof model === "object" && model ? model : {}) as Data;
  const of = (key: string, unstated: string): string => (textOf(found, key) === "" ? unstated : textOf(found, key));
  return `${writtenBy(of("name", unnamedModel))} (${of("where", modelWhere)}; ${of("weights", modelWeights)})`;
}

const plain = (text: string): string => text.replace(/\s+/g, " ").trim();

export class AnswerView {
  private readonly label = el("p", { class: "label" });
  private readonly text = el("div", { class: "answer-text", dir: "auto" });
  private readonly cited = el("ul", { class: "cited" });
  private readonly list = el("ol");
  private readonly passages = el("details", { hidden: true }, el("summary", {}, say().passages), this.list);
  private readonly shown = new Map<string, { readonly place: HTMLElement; readonly text: string }>();
  private readonly number = ++answers;

  get parts(): readonly HTMLElement[] {
    return [this.label, this.text, this.cited, this.passages];
  }

  passage(data: Data): void {
    const number = textOf(data, "number");
    const text = textOf(data, "text");
    const place = el(
      "li",
      { id: `passage-${this.number}-${number}`, tabindex: "-1" },
      el("small", {}, `${say().passage(number)}: `, placeOf(data)),
      el("span", { dir: "auto" }, text),
    );
    this.passages.hidden = false;
    this.list.append(place);
    this.shown.set(number, { place, text: plain(text) });
  }

  /** A piece of words of a language model, as they come. */
  piece(data: Data): void {
    this.label.textContent ||= modelText(data);
    this.label.className = "label written";
    this.text.append(textOf(data, "delta"));
  }

  answer(data: Data): void {
    const { notFound, quotedFrom } = say();
    if (data.known === false) {
      this.label.textContent = "";
      put(this.text, el("p", {}, notFound));
      return;
    }
    const citations = objects(data.citations);
    const written = isWritten(data);
    this.label.className = written ? "label written" : "label quoted";
    put(this.label, ...(written ? [modelText(data)] : [`${quotedFrom} `, ...placesOf(citations)]));
    put(
      this.text,
      ...textOf(data, "text")
        .split("\n")
        .filter(Boolean)
        .map((line) => this.line(line, written)),
    );
    put(this.cited, ...citations.map((one) => el("li", {}, this.link(textOf(one, "number")), " ", placeOf(one))));
  }

  /** A line with its marks as links; what is quoted is looked up in its passage. */
  private line(text: string, written: boolean): HTMLElement {
    const parts = text.split(/(\[\d{1,3}\])/);
    const shown = parts.map((part) => {
      const number = /^\[(\d+)\]$/.exec(part)?.[1];
      return number === undefined ? part : this.link(number);
    });
    if (written) return el("p", { dir: "auto" }, ...shown);
    const quoted = text.replace(/\s*\[\d+\]\s*$/, "");
    const sources = this.sourcesOf(/\[(\d+)\]\s*$/.exec(text)?.[1]);
    const isThere = quoted
      .split(/\s*(?:\[…\]| – )\s*/)
      .every((one) => sources.some((source) => source.includes(plain(one))));
    return el(
      "blockquote",
      { dir: "auto" },
      ...shown,
      !isThere && el("small", { class: "warning" }, `! ${say().notVerbatim}`),
    );
  }

  /** The text of the passage that a line names, or of all where it names none. */
  private sourcesOf(number: string | undefined): readonly string[] {
    if (number === undefined) return [...this.shown.values()].map(({ text }) => text);
    const found = this.shown.get(number);
    return found ? [found.text] : [];
  }

  /** A link to a passage that was shown; a number without one is no citation. */
  private link(number: string): HTMLElement {
    const found = this.shown.get(number);
    if (!found) return el("del", { title: say().unknownPassage(number) }, `[${number}]`);
    const go = (event: Event): void => {
      event.preventDefault();
      this.passages.open = true;
      found.place.focus();
      found.place.scrollIntoView({ block: "nearest" });
    };
    const name = say().passage(number);
    return el("a", { href: `#${found.place.id}`, "aria-label": name, click: go }, `[${number}]`);
  }
}
