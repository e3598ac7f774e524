import"./chunk-4KWTLRHW.js";import{ma as a}from"./chunk-C2JMAFMK.js";export{a as verifyEvidence};
