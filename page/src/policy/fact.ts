/** A fact of a machine that a person can accept, and how it is written into a policy. */

import type { ClaimJson } from "../verifier/api";
import { told, type Claims } from "./claims";
import type { Choice, Row } from "./row";

export interface Fact extends Omit<Row, "demanded" | "outcome"> {
  /** Values to write into the policy by place, where undefined clears; the checks of those places evaluate it. */
  readonly write: (choice: Choice, at: string) => Readonly<Record<string, unknown>>;
}

export const fact = (
  id: string,
  value: unknown,
  write: Fact["write"],
  kinds: readonly Choice[] = ["newer", "exact"],
  subject = "",
): Fact => ({ id, subject, reported: told(value), value, kinds, write });

/** A measurement: exactly this value, under the name of the row. */
export function measured(id: string, value: ClaimJson | undefined, kinds: readonly Choice[] = ["exact"]): Fact {
  const name = id.replace(".", "-");
  const exactly = (at: string) => ({
    [`reference_values.${name}`]: { origin: `the page, ${at}`, values: [value] },
    [id]: [name],
  });
  return fact(
    id,
    value,
    (choice, at) =>
      choice === "exact" ? exactly(at) : { [id]: { unchecked: "the signer identifies newer versions" } },
    kinds,
  );
}

export function snpFacts(claims: Claims): Fact[] {
  const product = told(claims.product);
  const tcbs = (choice: Choice): [string, unknown][] =>
    ["", "committed_", "launch_"].flatMap((which): [string, unknown][] => {
      const levels = claims[`${which || "reported_"}tcb`];
      const exact = choice === "exact";
      return [
        [`snp.minimum_${which}tcb`, exact ? undefined : { [product]: levels }],
        [`snp.exact_${which}tcb`, exact ? { [product]: [levels] } : undefined],
      ];
    });
  return [
    measured("snp.measurement", claims.measurement),
    fact(
      "snp.tcb",
      claims.reported_tcb,
      (choice) => ({ "snp.products": [product], ...Object.fromEntries(tcbs(choice)) }),
      undefined,
      product,
    ),
  ];
}
