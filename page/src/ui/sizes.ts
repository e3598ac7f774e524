/** Sizes, in the language of the page. */

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;
const THOUSAND = 1000;

export function sizeText(bytes: number): string {
  const step = bytes < THOUSAND ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const unit = UNITS[step] ?? "byte";
  const format = { style: "unit", unit, unitDisplay: unit === "byte" ? "long" : "short" } as const;
  const digits = { maximumFractionDigits: unit === "byte" ? 0 : 1 };
  return new Intl.NumberFormat(document.documentElement.lang, { ...format, ...digits }).format(
    bytes / THOUSAND ** step,
  );
}
