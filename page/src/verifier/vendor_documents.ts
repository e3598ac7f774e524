/** Documents of Intel and NVIDIA beside certificates and lists, fetched when the first of it is met. */

export { parsePcsAnswer } from "./intel/document";
export { parseOcsp } from "./ocsp_answers";
export { readRimAnswer } from "./rims";
