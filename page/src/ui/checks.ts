/** What was checked: every check with its outcome, the claims, and the certificates. */

import type { CheckResult } from "../verifier/api";
import { showCertificates } from "./certificates";
import { byId, code, el, put } from "./dom";
import { say } from "./strings";
import type { State } from "./state";
import { joined } from "./moments";
import { sign } from "./status";
import { sentence, worstFirst } from "./words";

export function showChecks(state: State): void {
  const { result } = state;
  const { nothingYet, noClaims } = say();
  const checks = result ? worstFirst(withoutFollowUps(result.checks)) : [];
  put(byId("checks"), ...(checks.length ? checks.map(line) : [el("li", {}, nothingYet)]));
  showCertificates(result?.certificates ?? []);
  byId("claims").textContent = result?.items.length ? JSON.stringify(result.items, null, 1) : noClaims;
}

/** A signature that does not hold: what other checks read was not signed, so that they say nothing. */
const SIGNED = /\.(?:\w*signature|report_data)$/;

function withoutFollowUps(checks: readonly CheckResult[]): CheckResult[] {
  const cause = checks.find(({ id, outcome }) => outcome === "fail" && SIGNED.test(id));
  if (!cause) return [...checks];
  return checks.map((check) =>
    check.outcome === "fail" && check.id !== cause.id && (check.item === cause.item || check.item === undefined)
      ? { ...check, outcome: "not evaluated", expected: "", got: say().followUp }
      : check,
  );
}

/** Documents that a reader can open, by the beginning of their names in a clause. */
const DOCUMENTS: readonly (readonly [RegExp, (number: string) => string])[] = [
  [/AMD (5\d{4})/, (number) => `https://docs.amd.com/v/u/en-US/${number}`],
  [/RFC (\d+)/, (number) => `https://www.rfc-editor.org/rfc/rfc${number}`],
  [/NVIDIA nvtrust/, () => "https://github.com/NVIDIA/nvtrust"],
  [/Intel PCS/, () => "https://api.portal.trustedservices.intel.com/content/documentation.html"],
  [/Intel (?:SGX|TDX|DCAP)/, () => "https://github.com/intel/confidential-computing.tee.dcap"],
  [/TCG|TPM 2\.0/, () => "https://trustedcomputinggroup.org/resources/"],
  [/DMTF (DSP\d+)/, (number) => `https://www.dmtf.org/dsp/${number}`],
  [/Microsoft Azure/, () => "https://learn.microsoft.com/azure/confidential-computing/"],
];

/** The parts of a clause that are documents for everybody, as links. */
function references(clause: string): HTMLElement[] {
  return clause.split("; ").flatMap((part) => {
    const [pattern, address] = DOCUMENTS.find(([known]) => known.test(part)) ?? [];
    const number = pattern?.exec(part)?.[1] ?? "";
    return address ? [el("a", { href: address(number), target: "_blank", rel: "noopener noreferrer" }, part)] : [];
  });
}

function line({ id, outcome, expected, got, clause, item }: CheckResult): HTMLElement {
  const told = outcome !== "pass" && expected ? say().expectedGot(expected, got) : got;
  const links = references(clause).flatMap((link) => [" ", link]);
  return el("li", {}, sign(outcome), ` ${sentence(id)}`, el("small", {}, code(joined(item, id)), ` ${told}`, ...links));
}
