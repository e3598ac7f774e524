/** Everything that the page says after its first question to the service. */

import { type Checks, checks } from "./checks";
import { type Documents, documents } from "./documents";
import { type View, view } from "./view";

export type Rest = Checks & Documents & View;
export const rest: Rest = { ...checks, ...documents, ...view };
