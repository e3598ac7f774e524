import"./chunk-4KWTLRHW.js";import{ma as a}from"./chunk-PNVDMZ6K.js";export{a as verifyEvidence};
