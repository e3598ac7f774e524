/** A page that is not whole: a part of it is missing, or was changed on the way. Nothing can be accepted or sent. */

import { byId, el, put } from "./dom";
import { sayFirst } from "./strings";

export function showIncomplete(): void {
  const { unfinished, reload } = sayFirst();
  byId("decide").replaceChildren();
  const place = byId("failure");
  if (place.querySelector("#reload")) return;
  put(place, el("p", {}, unfinished), el("button", { id: "reload", click: () => location.reload() }, reload));
  place.hidden = false;
}
