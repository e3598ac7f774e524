import{a,b,c,d}from"./chunk-235Z4QYB.js";import"./chunk-VNJP2C3A.js";import"./chunk-VNNOU2ER.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
