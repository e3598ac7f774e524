import"./chunk-4KWTLRHW.js";import{M as a}from"./chunk-T2GFQBTE.js";import"./chunk-IVMDQ5AY.js";import"./chunk-VNNOU2ER.js";export{a as verifyEvidence};
