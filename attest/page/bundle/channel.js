import{a,b,c,d,e,f}from"./chunk-3GQJ6FGB.js";import"./chunk-G4Z7CLLM.js";export{f as Channel,a as KEM_HYBRID,b as KEM_X25519,d as askForKeys,e as recordOf,c as spokenKems};
