/** Warnings of what a result does not show, although the evidence is genuine: as `attest/results/cautions.py`. */

import type { Caution, ItemResult, Result } from "./api";

const PRODUCTS_WITH_PUBLIC_KEYS: readonly string[] = ["Milan"];
const NO_FRESHNESS = {
  code: "freshness-not-evaluated",
  message: "no nonce was compared: the evidence may be of any age, or replayed",
};
const NO_POLICY = {
  code: "policy-not-judged",
  message: "no policy was applied: the evidence is genuine, but its machine was not appraised",
};

/** The warnings of verified evidence, each code once: that of a document names its machines. */
export function warningsOf({
  items,
  freshness,
  warnings = [],
}: Pick<Result, "items" | "freshness" | "warnings">): readonly Caution[] {
  const found = new Map<string, Caution>();
  const stale = freshness === "not evaluated" ? [NO_FRESHNESS] : [];
  for (const caution of [...warnings, ...items.flatMap(ofItem), ...ofValues(items), ...stale, NO_POLICY]) {
    if (!found.has(caution.code)) found.set(caution.code, caution);
  }
  return [...found.values()];
}

/** Values without a known meaning that were accepted by name; those of an Azure VM's CPU stand under `snp`. */
function ofValues(items: readonly ItemResult[]): Caution[] {
  const named = items.flatMap(({ name, claims }) => {
    const values = notUnderstood(claims);
    return values.length ? [`${name}: ${values.join(", ")}`] : [];
  });
  const what = "values without a known meaning were accepted, because the policy names them";
  return named.length ? [{ code: "value-not-understood", message: `${what}: ${named.join("; ")}` }] : [];
}

/** The names of the values in an item's claims. */
export function notUnderstood(claims: ItemResult["claims"]): readonly string[] {
  const { not_understood: values = [] } = { ...claims, ...(claims.snp as ItemResult["claims"] | undefined) };
  return values as readonly string[];
}

function ofItem({ claims }: ItemResult): Caution[] {
  // The report of an Azure VM's CPU stands under `snp`.
  const inner = claims.snp;
  const isNested = typeof inner === "object" && inner !== null && "product" in inner;
  const product = isNested ? inner.product : claims.product;
  if (typeof product !== "string" || !PRODUCTS_WITH_PUBLIC_KEYS.includes(product)) return [];
  const what = `report keys of ${product} were extracted by software, as published (arXiv 2605.12990)`;
  return [{ code: "report-keys-extracted", message: `${what}: any of its reports may be forged` }];
}
