import"./chunk-4KWTLRHW.js";import{ma as a}from"./chunk-QKR3PXZI.js";export{a as verifyEvidence};
