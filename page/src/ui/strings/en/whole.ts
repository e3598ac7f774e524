/** Everything that the page says after its first question to the service. */

import { type Checks, checks } from "./checks";
import { type View, view } from "./view";

export type Strings = Checks & View;
export const whole: Strings = { ...checks, ...view };
