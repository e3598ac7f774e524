/** Sizes, times and moments, in the language of the page. */

const language = (): string => document.documentElement.lang;
const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;
const THOUSAND = 1000;
const MINUTE = 60;

export function sizeText(bytes: number): string {
  const step = bytes < THOUSAND ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const unit = UNITS[step] ?? "byte";
  const format = { style: "unit", unit, unitDisplay: unit === "byte" ? "long" : "short" } as const;
  const digits = { maximumFractionDigits: unit === "byte" ? 0 : 1 };
  return new Intl.NumberFormat(language(), { ...format, ...digits }).format(bytes / THOUSAND ** step);
}

export function timeText(seconds: number): string {
  const inMinutes = seconds >= 2 * MINUTE;
  const amount = inMinutes ? Math.round(seconds / MINUTE) : Math.max(1, Math.round(seconds));
  const unit = inMinutes ? "minute" : "second";
  return new Intl.NumberFormat(language(), { style: "unit", unit, unitDisplay: "long" }).format(amount);
}

export function dateText(moment: string): string {
  const at = new Date(moment);
  if (Number.isNaN(at.getTime())) return "";
  return new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" }).format(at);
}
