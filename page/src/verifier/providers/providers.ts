/** The code that is fetched once a service's document is met. */

export { verifyDocument } from "./verify";
