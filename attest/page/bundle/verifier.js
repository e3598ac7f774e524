import"./chunk-4KWTLRHW.js";import{da as a}from"./chunk-C5X4KYHW.js";export{a as verifyEvidence};
