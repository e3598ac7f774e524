// The rules of the page's TypeScript. Nothing here is a warning; each exclusion states its reason.

import tseslint from "typescript-eslint";
import page from "./tools/eslint-rules.mjs";

/** Readable source: the build makes it small, nobody else. */
const READABLE = {
  complexity: ["error", 10],
  curly: ["error", "multi-line"],
  eqeqeq: "error",
  "id-length": ["error", { min: 2, exceptions: ["a", "b", "i", "x", "y", "_", "K", "L", "R", "T", "U"] }],
  "max-depth": ["error", 3],
  "max-len": ["error", { code: 120, ignoreUrls: false, ignoreStrings: false, ignoreRegExpLiterals: false }],
  "max-lines": ["error", 400],
  "max-lines-per-function": ["error", 60],
  "max-statements-per-line": ["error", { max: 1 }],
  "no-console": "error",
  "no-else-return": "error",
  "no-implicit-coercion": "error",
  "no-multi-assign": "error",
  "no-nested-ternary": "error",
  "no-param-reassign": "error",
  "no-sequences": "error",
  "no-unneeded-ternary": "error",
  "one-var": ["error", "never"],
  "prefer-const": "error",
  "page/no-parallel-declaration": "error",
};

export default tseslint.config(
  { ignores: ["node_modules/"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" }, plugins: { page }, rules: READABLE },
  {
    files: ["src/**/*.ts"],
    extends: [...tseslint.configs.strictTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    rules: {
      // A number, a truth value and a measurement's digits read in a text as they are.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      // A listener or a callback may be one expression, whose value nobody takes.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_", argsIgnorePattern: "^_" }],
      // `noUncheckedIndexedAccess` makes every index possibly undefined; `!` marks one that was bounded before.
      "@typescript-eslint/no-non-null-assertion": "off",
    },
    languageOptions: { parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname } },
  },
);
