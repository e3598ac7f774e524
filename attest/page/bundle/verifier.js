import"./chunk-4KWTLRHW.js";import{N as a}from"./chunk-7HKO4M54.js";import"./chunk-7O7PCXNB.js";import"./chunk-BGFEXY33.js";export{a as verifyEvidence};
