/**
 * A policy with the files that it needs, as one text to keep: the policy alone, or a JSON list of texts that it begins.
 */

export function partsOf(kept: string): readonly string[] {
  try {
    const parts: unknown = JSON.parse(kept);
    if (Array.isArray(parts) && parts.every((part) => typeof part === "string")) return parts;
  } catch {
    // It is told what is wrong with it when it is read as a policy.
  }
  return [kept];
}

const isPolicy = (text: string): boolean => text.includes('"attest.policy/1"');

/**
 * Put together what a person gives: a policy, and perhaps documents of reference values, their signatures, and keys.
 */
export function together(texts: readonly string[]): string {
  const parts = [...texts.filter(isPolicy), ...texts.filter((text) => !isPolicy(text))];
  return parts.length > 1 || parts[0]?.startsWith("[") ? JSON.stringify(parts) : (parts[0] ?? "");
}

/** The same as files, each with the option of the command line that takes it. */
export const filesOf = (kept: string): { readonly option: string; readonly name: string; readonly part: string }[] =>
  partsOf(kept).map((part, i) => {
    const option = i ? optionOf(part) : "policy";
    return { option, name: `${option}${i || ""}.json`, part };
  });

/** The option that takes a file beside a policy: a key is PEM, everything else is JSON. */
function optionOf(part: string): string {
  if (!/^\s*\{/.test(part)) return "references-key";
  return part.includes('"attest.policy-sig') ? "references-signature" : "references";
}
