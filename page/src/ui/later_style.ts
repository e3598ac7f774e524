/** The style of the parts that are fetched when a person turns to them. */

import text from "./later.css";

let isAdopted = false;

export function adoptLaterStyle(): void {
  if (isAdopted) return;
  isAdopted = true;
  const style = new CSSStyleSheet();
  style.replaceSync(text);
  document.adoptedStyleSheets.push(style);
}
