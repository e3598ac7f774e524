import{S as e}from"./chunk-UYJ465XS.js";import"./chunk-GG3LZMWE.js";export{e as verifyEvidence};
