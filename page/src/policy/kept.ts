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

// -- files about who built a document; the digest of a policy covers none of them

export const SIGNER = "attest.provenance-signer/1";
const BUNDLE = /"mediaType"\s*:\s*"application\/vnd\.dev\.sigstore\.bundle/;
const TRUSTED_ROOT = /"mediaType"\s*:\s*"application\/vnd\.dev\.sigstore\.trustedroot/;

export const isBundle = (text: string): boolean => BUNDLE.test(text);
export const isTrustedRoot = (text: string): boolean => TRUSTED_ROOT.test(text);
export const isSigner = (text: string): boolean => text.includes(`"${SIGNER}"`);
export const isProvenance = (text: string): boolean => isBundle(text) || isTrustedRoot(text) || isSigner(text);

/** The same without those files: for a link, which names the policy alone by its digest. */
export const withoutProvenance = (kept: string): string =>
  together(partsOf(kept).filter((text) => !isProvenance(text)));

/** A file that counts only beside a policy. */
const isBeside = (text: string): boolean =>
  isProvenance(text) || /"attest\.(?:references|policy-signature)\/1"|-----BEGIN PUBLIC KEY-----/.test(text);

/** Input of a person: files without a policy are added to those that are kept. */
export const completed = (kept: string | undefined, texts: readonly string[]): readonly string[] =>
  kept === undefined || texts.some(isPolicy) || !texts.every(isBeside)
    ? texts
    : [...new Set([...partsOf(kept), ...texts])];

/**
 * Put together what a person gives: a policy, and perhaps documents of reference values, their signatures, and keys.
 */
export function together(texts: readonly string[]): string {
  const parts = [...texts.filter(isPolicy), ...texts.filter((text) => !isPolicy(text))];
  return parts.length > 1 || parts[0]?.startsWith("[") ? JSON.stringify(parts) : (parts[0] ?? "");
}

export interface KeptFile {
  /** Of the commands that judge; undefined for a file that none of them takes. */
  readonly option: string | undefined;
  readonly name: string;
  readonly part: string;
}

/** The same as files, each with the option of the command line that takes it. */
export const filesOf = (kept: string): KeptFile[] =>
  partsOf(kept).map((part, i) => {
    const option = i ? optionOf(part) : "policy";
    return { option, name: `${option ?? "provenance"}${i || ""}.json`, part };
  });

/** These options, as they stand in a command. */
export const optionsOf = (kept: string): readonly string[] =>
  filesOf(kept).flatMap(({ option, name }) => (option === undefined ? [] : [`--${option} ${name}`]));

/** The option that takes a file beside a policy: a key is PEM, everything else is JSON. */
function optionOf(part: string): string | undefined {
  if (isProvenance(part)) return undefined;
  if (!/^\s*\{/.test(part)) return "references-key";
  return part.includes('"attest.policy-sig') ? "references-signature" : "references";
}
