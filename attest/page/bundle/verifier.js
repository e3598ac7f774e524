import"./chunk-4KWTLRHW.js";import{M as a}from"./chunk-HJR25CUO.js";import"./chunk-5F42ZEUU.js";import"./chunk-BNU2FSVN.js";export{a as verifyEvidence};
