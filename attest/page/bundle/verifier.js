import"./chunk-4KWTLRHW.js";import{N as a}from"./chunk-4456RU6W.js";import"./chunk-7QXGPAHJ.js";import"./chunk-GG3LZMWE.js";export{a as verifyEvidence};
