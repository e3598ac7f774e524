import{S as e}from"./chunk-BSR24Y4W.js";import"./chunk-3YDEZJ24.js";export{e as verifyEvidence};
