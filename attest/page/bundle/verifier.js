import"./chunk-4KWTLRHW.js";import{L as a}from"./chunk-OOMMN67P.js";import"./chunk-VNJP2C3A.js";import"./chunk-VNNOU2ER.js";export{a as verifyEvidence};
