// Builds the bundles: node build.mjs [FOLDER]; by default into ../attest/page/bundle. The same sources give the same bytes.

import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = resolve(process.argv[2] ?? join(here, "../attest/page/bundle"));
const compiler = join(here, "node_modules/typescript/bin/tsc");

/** Entry point of each bundle; each is one ES module that imports nothing. */
const bundles = { "verifier.js": "src/verifier/index.ts" };

mkdirSync(folder, { recursive: true });
for (const [name, entry] of Object.entries(bundles)) {
  await build({
    absWorkingDir: here,
    entryPoints: [entry],
    outfile: join(folder, name),
    bundle: true,
    charset: "utf8",
    format: "esm",
    legalComments: "none",
    minify: true,
    target: "es2022",
  });
}

// The public types stand in one file that imports nothing, so its declarations are the library's.
const scratch = mkdtempSync(join(tmpdir(), "page-types-"));
try {
  const settings = ["--project", here, "--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", scratch];
  execFileSync(process.execPath, [compiler, ...settings], { stdio: "inherit" });
  writeFileSync(join(folder, "verifier.d.ts"), readFileSync(join(scratch, "verifier/api.d.ts")));
} finally {
  rmSync(scratch, { recursive: true });
}

const names = readdirSync(folder).filter((name) => name !== "manifest.json" && !name.endsWith(".py")).sort();
const digests = names.map((name) => [name, createHash("sha256").update(readFileSync(join(folder, name))).digest("hex")]);
writeFileSync(join(folder, "manifest.json"), `${JSON.stringify({ schema: "attest.page/1", sha256: Object.fromEntries(digests) }, null, 2)}\n`);
