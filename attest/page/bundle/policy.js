import{a,b,c,d}from"./chunk-UQ2I7GGI.js";import"./chunk-SJYAB5FW.js";import"./chunk-3TZQE4XC.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
