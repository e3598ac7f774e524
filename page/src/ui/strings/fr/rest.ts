/** Tout ce que dit la page après sa première question au service. */

import type { Rest } from "../en/rest";
import { checks } from "./checks";
import { documents } from "./documents";
import { view } from "./view";

export const rest: Rest = { ...checks, ...documents, ...view };
