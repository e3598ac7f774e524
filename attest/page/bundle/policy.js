import{a,b,c,d}from"./chunk-HAS6XSH5.js";import"./chunk-3OQITQXU.js";import"./chunk-6NLJTLEE.js";export{a as appraise,b as loadPolicy,d as propose,c as rows};
