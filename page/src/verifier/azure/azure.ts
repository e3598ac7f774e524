/** The format that is fetched once evidence of an Azure confidential VM is met. */

export { readAzure } from "./verify";
