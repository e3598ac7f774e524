import"./chunk-4KWTLRHW.js";import{ma as a}from"./chunk-2J5TJ2PF.js";export{a as verifyEvidence};
