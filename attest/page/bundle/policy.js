import{a,b,c,d}from"./chunk-UDEPZPXB.js";import"./chunk-4KWTLRHW.js";import"./chunk-A4GBO5ZP.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
