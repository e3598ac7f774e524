/** The age of firmware in the list of rows. */

import type { Row } from "../policy/row";
import { firmwareAges } from "../policy/firmware";
import type { Result } from "../verifier/api";
import { el } from "./dom";
import { say } from "./strings";

/** How old firmware is, and what later levels of it fixed, from the table of bulletins. */
export function showAges(list: HTMLElement, rows: readonly Row[], result: Result): void {
  const kinds: Readonly<Record<string, RegExp>> = {
    "snp.tcb": /snp/,
    "tdx.module": /tdx/,
    "gpu.driver_versions": /gpu/,
    "gpu.vbios_versions": /gpu/,
  };
  const { firmwareAge } = say();
  for (const { id } of rows) {
    const kind = kinds[id];
    const part = /driver|vbios/.exec(id)?.[0];
    const ages = kind ? firmwareAges(result, kind).filter(({ component }) => !part || component === part) : [];
    const texts = ages.flatMap(({ component, found, since, later }) => [
      since
        ? firmwareAge.since(component, found, since.published, since.advisory)
        : firmwareAge.unknown(component, found),
      ...later.map(({ level, fixes, published }) => firmwareAge.later(component, level, fixes, published)),
    ]);
    if (ages.length && ages.every(({ later }) => !later.length)) texts.push(firmwareAge.current);
    const place = [...list.children].find((child) => child.id === `row ${id}`);
    if (texts.length) place?.append(el("ul", { class: "ages" }, ...texts.map((text) => el("li", {}, text))));
  }
}
