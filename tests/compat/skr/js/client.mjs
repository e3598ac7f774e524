// Azure's SDK for JavaScript: makes a key and releases it, with settings on standard input and outcomes on standard
// output. Names under "localhost" lead to this machine, since not every resolver says so.

import dns from "node:dns";
import { text } from "node:stream/consumers";

const lookup = dns.lookup;
dns.lookup = (host, options, callback) =>
  lookup(host.endsWith(".localhost") ? "127.0.0.1" : host, options, callback);

const { KeyClient } = await import("@azure/keyvault-keys");

const settings = JSON.parse(await text(process.stdin));
const asked = [];
const credential = {
  getToken(scopes, options) {
    asked.push([scopes, options.tenantId]);
    return Promise.resolve({ token: settings.token, expiresOnTimestamp: Date.now() + 600_000 });
  },
};
const client = new KeyClient(settings.vault, credential, { retryOptions: { maxRetries: 1 } });

async function outcome(work) {
  try {
    return { value: await work() };
  } catch (error) {
    return { error: error.name, status: error.statusCode, text: error.message };
  }
}

const policy = { encodedPolicy: new TextEncoder().encode(settings.policy) };
const options = { exportable: true, releasePolicy: policy };
const made = await outcome(async () => {
  const key = await client.createRsaKey("from-js", { ...options, hsm: true });
  return { id: key.id, version: key.properties.version, n: Buffer.from(key.key.n).toString("base64") };
});
const released = [];
for (const algorithm of settings.algorithms) {
  for (const version of [undefined, made.value?.version]) {
    released.push(
      await outcome(async () => {
        const more = { nonce: "a nonce", ...(algorithm ? { algorithm } : {}), ...(version ? { version } : {}) };
        return (await client.releaseKey("from-js", settings.target, more)).value;
      }),
    );
  }
}
const refused = await outcome(() => client.releaseKey("from-js", settings.expired));
const missing = await outcome(() => client.getKey("nosuch"));
console.log(JSON.stringify({ asked, made, released, refused, missing }));
