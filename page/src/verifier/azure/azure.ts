/** The format that is fetched once evidence of an Azure confidential VM is met. */

import "../shared";

export { readAzure } from "./verify";
