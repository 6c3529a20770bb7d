// SPDX-License-Identifier: MIT
//
// disk_agentfs.mjs - the peer of bench_disk: does with agentfs-sdk what each line of
// its input asks for, and answers "ok". Arguments: the SDK's module, a database.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , sdk, path] = process.argv;
const { AgentFS } = await import(pathToFileURL(sdk));
const agent = await AgentFS.open({ path });
const fs = agent.fs;
const FILES = 1000;
const BIG = 16 << 20;
const kilo = Buffer.alloc(1024, "k");
const page = Buffer.alloc(4096, "p");
let made = 0;
let seed = 1;
const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
const name = (i) => `/w/d${i % 20}/f${i}`;
let big;

const verbs = {
  async setup() {
    await fs.mkdir("/w");
    await fs.mkdir("/new");
    for (let i = 0; i < 20; i++) await fs.mkdir(`/w/d${i}`);
    for (let i = 0; i < FILES; i++) await fs.writeFile(name(i), kilo);
    await fs.writeFile("/big", Buffer.alloc(BIG, "b"));
    big = await fs.open("/big");
  },
  async create(n) {
    for (let i = 0; i < n; i++) await fs.writeFile(`/new/f${made++}`, kilo);
  },
  async stat(n) {
    for (let i = 0; i < n; i++) await fs.stat(name(random(FILES)));
  },
  async read(n) {
    for (let i = 0; i < n; i++) await fs.readFile(name(random(FILES)));
  },
  async pread(n) {
    for (let i = 0; i < n; i++) await big.pread(random(BIG / 4096) * 4096, 4096);
  },
  async pwrite(n) {
    for (let i = 0; i < n; i++) await big.pwrite(random(BIG / 4096) * 4096, page);
  },
  async seqwrite(n) {
    await fs.writeFile(`/new/s${made++}`, Buffer.alloc(n * 65536, "s"));
  },
  async unlink(n) {
    for (let i = 0; i < n; i++) await fs.unlink(`/new/f${--made}`);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, n] = line.split(" ");
  try {
    await verbs[verb](Number(n));
    process.stdout.write("ok\n");
  } catch (e) {
    process.stdout.write(`failed ${verb}: ${e.message}\n`);
  }
}
await agent.close();
