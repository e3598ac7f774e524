import"./chunk-4KWTLRHW.js";import{la as a}from"./chunk-COJSV6U7.js";export{a as verifyEvidence};
