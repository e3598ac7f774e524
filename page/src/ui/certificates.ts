/** Each certificate of the chain of proof. */

import type { CertificateResult } from "../verifier/api";
import { byId, download, el, put } from "./dom";
import { say } from "./strings";

let shown = "";

/**
 * One list for each item of evidence, from its certificate up to the pinned root. Unchanged lists stay in the document,
 * so that the next check does not move the focus or the scroll position.
 */
export function showCertificates(all: readonly CertificateResult[]): void {
  const { saveChain, noClaims } = say();
  const told = JSON.stringify(all);
  if (shown === told) return;
  shown = told;
  const lists = [...new Set(all.map(({ item }) => item))].flatMap((item) => {
    const chain = all.filter((each) => each.item === item);
    const pem = chain.map((each) => each.pem ?? "").join("");
    return [
      el("h3", {}, item),
      el("ol", {}, ...chain.map(certificate)),
      el("button", { click: () => download(`${item}.pem`, pem) }, saveChain(item)),
    ];
  });
  put(byId("chains"), ...(lists.length ? lists : [noClaims]));
}

function certificate(one: CertificateResult): HTMLElement {
  const { certificate: words, pinned } = say();
  const { not_before: from, not_after: to = "" } = one;
  const rows: readonly (readonly [string, string | undefined])[] = [
    [words.issuer, one.issuer],
    [words.serial, one.serial],
    [words.valid, from && words.until(from, to)],
    [words.sha256, one.sha256],
    [words.key, one.key_sha256],
  ];
  // In full: a person compares them with what another tool says.
  const told = rows.map(([name, value]) => value !== undefined && el("small", {}, `${name} `, el("code", {}, value)));
  return el("li", {}, one.subject, one.pinned && el("strong", {}, ` ${pinned}`), ...told);
}
