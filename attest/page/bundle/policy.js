import{a,b,c,d}from"./chunk-IOCH4BW3.js";import"./chunk-4KWTLRHW.js";import"./chunk-QKR3PXZI.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
