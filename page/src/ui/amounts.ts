/** Times and moments, in the language of the page. */

const language = (): string => document.documentElement.lang;
const MINUTE = 60;

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
