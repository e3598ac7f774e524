import{a,b,c,d}from"./chunk-LGFYQWX4.js";import"./chunk-RNHR3PSV.js";import"./chunk-Y5KJJHR7.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
