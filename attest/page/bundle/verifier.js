import"./chunk-4KWTLRHW.js";import{y as a}from"./chunk-6AA6WS3G.js";import"./chunk-SNVMHFJ6.js";import"./chunk-LNEQLFZB.js";export{a as verifyEvidence};
