/** The comparison with other evidence, in words. */

import { NO_BYTES } from "../../verifier/bytes";
import { judge, policyOf } from "../judge";
import { byId, code, el, put, short } from "../dom";
import { problemLine, rowName } from "../words";
import { type Change, type Comparison, type Rest, compared } from "./comparison";
import { type Examination, filesOf, verifiedFiles } from "./examination";
import { type Chosen, chosenOf } from "./sorting";
import { words } from "./words";

let other: readonly Chosen[] = [];

/** Take the files of the other evidence; makers' statements of the first count for both. */
export async function compareWith(examination: Examination, files: readonly File[]): Promise<void> {
  other = await Promise.all(files.map(chosenOf));
  await showComparison(examination);
}

/** Compare again what was chosen, after the first has changed. */
export async function showComparison(examination: Examination): Promise<void> {
  if (!other.length) return;
  const place = byId("compared");
  try {
    put(place, ...(await told(examination)));
  } catch (error) {
    put(place, el("p", { class: "refused" }, words().compared.refused(problemLine(error))));
  }
}

async function told({ state, files, question, memory }: Examination): Promise<Node[]> {
  const { compared: said } = words();
  const no = (text: string): Node[] => [el("p", { class: "refused" }, text)];
  if (!filesOf(other, "evidence").length) return no(said.noEvidence);
  const { result, rows, at } = state;
  if (!result || result.error || at === undefined) return no(said.firstMissing);
  const endorsements = filesOf(files, "endorsement").map((one) => ({ ...one, file: new File([NO_BYTES], one.name) }));
  // It answers another nonce, and that nonce is not known here.
  const asked = { ...question, nonce: undefined, at };
  const text = memory.get("policy");
  const second = await verifiedFiles([...other, ...endorsements], asked, await policyOf(text));
  if (second.error) return no(said.refused(problemLine({ ...second.error, name: "" })));
  const judged = await judge(second, undefined, at);
  const found = compared({ result, rows }, { result: second, rows: judged.rows });
  return [second.simulated && el("p", { class: "warning" }, said.simulated), ...shown(found)].filter(
    (node) => node !== false,
  );
}

function shown({ isSame, isSameChip, changes, rest }: Comparison): Node[] {
  const { compared: said } = words();
  if (isSame) return [el("p", {}, said.same)];
  const chip = isSameChip === undefined ? [] : [el("p", {}, isSameChip ? said.chip.same : said.chip.other)];
  const title = changes.length ? said.differ(changes.length) : said.equal;
  return [
    ...chip,
    el("p", {}, title),
    el("ul", { id: "changes", class: "rows" }, ...changes.map(changeOf)),
    el(
      "details",
      { id: "rest" },
      el("summary", {}, said.rest(rest.length)),
      el("ul", { class: "rows" }, ...rest.map(restOf)),
    ),
  ];
}

function changeOf(change: Change): HTMLElement {
  return el("li", {}, el("strong", {}, rowName(change.row)), el("p", {}, sentenceOf(change)), ...sides(change));
}

/** How the second differs from the first. */
function sentenceOf({ first, second, older, newer }: Change): string {
  const { compared: said } = words();
  if (first === undefined) return said.onlySecond;
  if (second === undefined) return said.onlyFirst;
  const parts = (found: Change["older"]): string =>
    found.map(({ name, before, now }) => said.change(name, before, now)).join(", ");
  if (older.length && newer.length) return said.mixed(parts(older), parts(newer));
  if (older.length) return said.older(parts(older));
  return newer.length ? said.newer(parts(newer)) : said.other;
}

function sides({ first, second }: Pick<Change, "first" | "second">): HTMLElement[] {
  const { compared: said } = words();
  const list = el("dl", {});
  if (first !== undefined) list.append(el("dt", {}, said.first), el("dd", {}, code(first)));
  if (second !== undefined) list.append(el("dt", {}, said.second), el("dd", {}, code(second)));
  return [list];
}

function restOf([path, first, second]: Rest): HTMLElement {
  const { claims } = words();
  const name = claims[path.split(".").pop() ?? ""];
  const title = name !== undefined && el("strong", {}, `${name} `);
  return el("li", {}, title, code(short(path)), ...sides({ first, second }));
}
