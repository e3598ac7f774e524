import{a,b,c,d}from"./chunk-TW6AQDS5.js";import"./chunk-IVMDQ5AY.js";import"./chunk-VNNOU2ER.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
