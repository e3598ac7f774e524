import"./chunk-4KWTLRHW.js";import{ka as a}from"./chunk-UPJOYFL2.js";export{a as verifyEvidence};
