import{a,b,c,d}from"./chunk-QS5ID7U4.js";import"./chunk-J23JDXA7.js";import"./chunk-BF5GGAM3.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
