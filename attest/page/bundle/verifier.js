import"./chunk-4KWTLRHW.js";import{ma as a}from"./chunk-XTNGHWF7.js";export{a as verifyEvidence};
