/** Values without a known meaning, in places that vendors extend: as `attest.evidence.tolerances`. */

/** A value in evidence. */
export interface UnknownValue {
  /** As a policy names it: `36:0300`, a type of opaque data and its bytes, or `spl4:3`, a level in a certificate. */
  readonly name: string;
  /** Refuse it: no policy names it. */
  readonly refuse: () => never;
}

/** Reasons by the names of values that a policy accepts. */
export type NamedValues = ReadonlyMap<string, string>;

/** Require every value to be named exactly; return the facts of the accepted ones, or nothing. */
export function requireNamed(values: readonly UnknownValue[], named: NamedValues): string | undefined {
  for (const { name, refuse } of values) if (!named.has(name)) refuse();
  return values.length
    ? `not understood, and accepted: ${values.map(({ name }) => `${name} (${named.get(name)!})`).join("; ")}`
    : undefined;
}

/** The names of values as a claim, which is absent without any. */
export const valueNames = (values: readonly UnknownValue[]): readonly string[] | undefined =>
  values.length ? values.map(({ name }) => name) : undefined;
