import{a,b,c,d}from"./chunk-QRGWL3KT.js";import"./chunk-5F42ZEUU.js";import"./chunk-BNU2FSVN.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
