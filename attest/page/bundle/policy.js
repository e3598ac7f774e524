import{a,b,c,d}from"./chunk-QFTYCMYH.js";import"./chunk-4KWTLRHW.js";import"./chunk-C2JMAFMK.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
