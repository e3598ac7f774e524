import"./chunk-4KWTLRHW.js";import{ma as a}from"./chunk-KE5F27QS.js";export{a as verifyEvidence};
