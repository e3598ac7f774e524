/** The code that is fetched once a service's document is met. */

import "../shared";

export { verifyDocument } from "./verify";
