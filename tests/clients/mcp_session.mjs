// `doze mcp` with the official SDK's client, as TAP. tests/integration/t0988-mcp.sh prepares it: SDK is the
// directory of the SDK, DOZE_DATA that of a daemon; $HOME and PATH are the test's own.
import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";

const sdk = (path) => import(pathToFileURL(`${process.env.SDK}/dist/esm/${path}`).href);
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { CallToolResultSchema, ListToolsResultSchema, ReadResourceResultSchema } = await sdk("types.js");

let count = 0, failed = 0;

async function test(what, run) {
  count++;
  try {
    await run();
    console.log(`ok ${count} - mcp: ${what}`);
  } catch (e) {
    failed++;
    for (const line of String(e.stack ?? e).split("\n")) console.log("# " + line);
    console.log(`not ok ${count} - mcp: ${what}`);
  }
}

function equal(a, b) {
  if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(`${JSON.stringify(a)} is not ${JSON.stringify(b)}`);
}

function has(text, part) {
  if (!String(text).includes(part)) throw new Error(`${JSON.stringify(text)} does not contain ${JSON.stringify(part)}`);
}

async function rejects(code, promise) {
  try {
    await promise;
  } catch (e) {
    equal(e.code, code);
    return e;
  }
  throw new Error("no error came");
}

const transport = new StdioClientTransport({ command: "doze", args: ["mcp"], env: { ...process.env }, stderr: "inherit" });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);

async function call(name, args = {}, options = {}) {
  return CallToolResultSchema.parse(await client.callTool({ name, arguments: args }, undefined, options));
}
async function good(name, args, options) {
  const r = await call(name, args, options);
  if (r.isError) throw new Error(`${name}: ${r.content[0].text}`);
  return r;
}
async function bad(name, args, text) {
  const r = await call(name, args);
  equal(r.isError, true);
  has(r.content[0].text, text);
}
const run = async (sandbox, command, more = {}, options) =>
  (await good("run_command", { sandbox, command, ...more }, options)).structuredContent;
const gone = async (name) => (await call("get_sandbox", { sandbox: name })).isError;

await test("initialize: name, version, capabilities, instructions", () => {
  equal(client.getServerVersion().name, "doze");
  equal(Object.keys(client.getServerCapabilities()).sort(), ["resources", "tools"]);
  has(client.getInstructions(), "create_sandbox");
});
await test("ping", () => client.ping());
await test("tools: names, schemas and hints", async () => {
  const { tools } = ListToolsResultSchema.parse(await client.listTools());
  equal(tools.map((t) => t.name).sort(), ["create_sandbox", "delete_sandbox", "fork_sandbox", "get_sandbox", "list_files",
    "list_sandboxes", "preview_url", "read_file", "run_command", "sleep_sandbox", "snapshot_sandbox", "wake_sandbox", "write_file"]);
  for (const t of tools) {
    equal([t.inputSchema.type, t.inputSchema.additionalProperties], ["object", false]);
    for (const name of t.inputSchema.required ?? []) if (!t.inputSchema.properties[name]) throw new Error(`${t.name}: ${name}`);
  }
  equal(tools.filter((t) => t.annotations.readOnlyHint).length, 4);
});
await test("create, by default from base", async () => {
  const { structuredContent: s } = await good("create_sandbox", { name: "mcp", env: { COLOR: "red" }, labels: { a: "b" }, timeout: "2h", on_timeout: "pause" });
  equal([s.name, s.state, s.image, s.labels, s.timeout.action], ["mcp", "active", "base", { a: "b" }, "pause"]);
});
await test("create: a name that is taken, an image that is not there, arguments that are wrong", async () => {
  await bad("create_sandbox", { name: "mcp" }, "conflict");
  await bad("create_sandbox", { image: "nosuch" }, "invalid_argument");
  await bad("create_sandbox", { nme: "x" }, "nme: unknown argument");
  await bad("create_sandbox", { name: 5 }, "name: must be of the type string");
  await bad("create_sandbox", { ports: ["x"] }, "ports: must be of the type integer");
  await bad("create_sandbox", { on_timeout: "explode" }, "on_timeout");
});
await test("run: a line, words, output, errors, exit code", async () => {
  const r = await good("run_command", { sandbox: "mcp", command: "echo out $COLOR; echo err >&2; exit 3" });
  equal([r.structuredContent.stdout, r.structuredContent.stderr, r.structuredContent.exit_code], ["out red\n", "err\n", 3]);
  equal(r.content[0].text, "out red\n[stderr]\nerr\n[exit code 3]\n");
  equal((await good("run_command", { sandbox: "mcp", args: ["echo", "$COLOR"] })).structuredContent.stdout, "$COLOR\n");
  await bad("run_command", { sandbox: "mcp", command: "a", args: ["b"] }, "either");
  await bad("run_command", { sandbox: "mcp" }, "either");
  await bad("run_command", { command: "true" }, "sandbox: is missing");
});
await test("run: cwd, env, user, stdin", async () => {
  equal((await run("mcp", "pwd; echo $A; id -u; cat", { cwd: "/tmp", env: { A: "1" }, user: "1000", stdin: "in" })).stdout, "/tmp\n1\n1000\nin");
});
await test("run: a time limit; a signal", async () => {
  const r = await good("run_command", { sandbox: "mcp", command: "sleep 1000", timeout: 0.1 });
  equal(r.structuredContent.timed_out, true);
  has(r.content[0].text, "[killed: the time limit is over]");
  has((await good("run_command", { sandbox: "mcp", command: "kill -9 $$" })).content[0].text, "[ended by signal KILL]");
  await bad("run_command", { sandbox: "mcp", command: "true", timeout: 0 }, "timeout: must be from");
});
await test("run: a program that is not there", () => bad("run_command", { sandbox: "mcp", args: ["nosuch"] }, "no_program"));
await test("run: output that is large is cut, and says so; output that is not UTF-8", async () => {
  const r = await run("mcp", "head -c 100000 /dev/zero | tr '\\0' x", { max_output_bytes: 1000 });
  equal([r.stdout.length, r.truncated], [1000, true]);
  equal((await run("mcp", "printf 'a\\377b'")).stdout, "a\ufffdb");
});
await test("run: progress has the output as it comes, and grows", async () => {
  const seen = [];
  await run("mcp", "echo one; sleep 0.2; echo two; sleep 0.2", {}, { onprogress: (p) => seen.push(p) });
  has(seen.map((p) => p.message).join(""), "one\ntwo\n");
  if (!seen.every((p, i) => i === 0 || p.progress > seen[i - 1].progress)) throw new Error(JSON.stringify(seen));
});
await test("run: in the background", async () => {
  const r = await run("mcp", "sleep 0.1; echo done >/tmp/bg", { background: true });
  has(r.exec_id, "exe_");
  await run("mcp", "while [ ! -e /tmp/bg ]; do sleep 0.1; done");
});
await test("run: many at a time", async () => {
  const all = await Promise.all([...Array(10).keys()].map((i) => run("mcp", `echo ${i}`)));
  equal(all.map((r) => r.stdout), [...Array(10).keys()].map((i) => `${i}\n`));
});
await test("run: a request that is cancelled kills its command, and the server goes on", async () => {
  const stop = new AbortController();
  const waiting = client.callTool({ name: "run_command", arguments: { sandbox: "mcp", command: "echo $$ >/tmp/pid; exec sleep 1000" } },
    undefined, { signal: stop.signal }).then(() => "answered", () => "cancelled");
  await run("mcp", "while [ ! -s /tmp/pid ]; do sleep 0.1; done");
  stop.abort("enough");
  equal(await waiting, "cancelled");
  equal((await run("mcp", "while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.1; done; echo gone")).stdout, "gone\n");
});
await test("files: write, read, parts, base64", async () => {
  equal((await good("write_file", { sandbox: "mcp", path: "/workspace/a/b.txt", content: "grün\n" })).structuredContent.written_bytes, 6);
  const r = await good("read_file", { sandbox: "mcp", path: "/workspace/a/b.txt" });
  equal([r.content[0].text, r.structuredContent.encoding], ["grün\n", "utf-8"]);
  equal((await good("read_file", { sandbox: "mcp", path: "/workspace/a/b.txt", offset: 1, length: 1 })).content[0].text, "r");
  await good("write_file", { sandbox: "mcp", path: "/workspace/bin", content: "AP8Q", encoding: "base64", mode: "0755" });
  const b = (await good("read_file", { sandbox: "mcp", path: "/workspace/bin" })).structuredContent;
  equal([b.content, b.encoding, b.size_bytes], ["AP8Q", "base64", 3]);
});
await test("files: what is wrong is said", async () => {
  await bad("write_file", { sandbox: "mcp", path: "/workspace/bin", content: "x", exclusive: true }, "conflict");
  await bad("write_file", { sandbox: "mcp", path: "/w", content: "*", encoding: "base64" }, "base64");
  await bad("write_file", { sandbox: "mcp", path: "relative", content: "x" }, "path");
  await bad("read_file", { sandbox: "mcp", path: "/nosuch" }, "not_found");
  await bad("read_file", { sandbox: "mcp", path: "/workspace" }, "directory");
});
await test("files: list", async () => {
  const r = (await good("list_files", { sandbox: "mcp", depth: 2 })).structuredContent;
  equal(r.entries.map((e) => e.path).sort(), ["a", "a/b.txt", "bin"]);
  equal((await good("list_files", { sandbox: "mcp", path: "/workspace/a" })).structuredContent.entries.length, 1);
});
await test("a NUL character in a name does not end it: nothing of a shorter name is touched", async () => {
  await good("write_file", { sandbox: "mcp", path: "/workspace/nul", content: "old\0" });
  await bad("write_file", { sandbox: "mcp", path: "/workspace/nul\0x", content: "new" }, "path: must not contain a NUL");
  await bad("delete_sandbox", { sandbox: "mcp\0x" }, "sandbox: must not contain a NUL");
  equal((await good("read_file", { sandbox: "mcp", path: "/workspace/nul" })).structuredContent.size_bytes, 4);
});
await test("files: the largest file of an answer comes whole, also if each of its bytes needs two characters", async () => {
  await run("mcp", "head -c 2097152 /dev/zero | tr '\\0' '\"' >/workspace/quotes");
  const { content } = (await good("read_file", { sandbox: "mcp", path: "/workspace/quotes" })).structuredContent;
  equal([content.length, content === '"'.repeat(2097152)], [2097152, true]);
});
await test("files: a file that is too large is refused with the way out", async () => {
  await run("mcp", "head -c 2097153 /dev/zero >/workspace/large");
  await bad("read_file", { sandbox: "mcp", path: "/workspace/large" }, "offset");
  equal((await good("read_file", { sandbox: "mcp", path: "/workspace/large", offset: 2097152 })).structuredContent.size_bytes, 1);
});
await test("sleep and wake; a command wakes, too, and files do not", async () => {
  equal((await good("sleep_sandbox", { sandbox: "mcp" })).structuredContent.state, "suspended");
  equal((await good("read_file", { sandbox: "mcp", path: "/workspace/a/b.txt" })).content[0].text, "grün\n");
  equal((await good("get_sandbox", { sandbox: "mcp" })).structuredContent.state, "suspended");
  equal((await good("wake_sandbox", { sandbox: "mcp" })).structuredContent.result, "cold");
  await good("sleep_sandbox", { sandbox: "mcp" });
  equal((await run("mcp", "echo up")).stdout, "up\n");
});
await test("fork: copies that go their own way", async () => {
  const { sandboxes } = (await good("fork_sandbox", { sandbox: "mcp", count: 2 })).structuredContent;
  equal(sandboxes.length, 2);
  await run(sandboxes[0].id, "echo changed >/workspace/a/b.txt");
  equal((await good("read_file", { sandbox: "mcp", path: "/workspace/a/b.txt" })).content[0].text, "grün\n");
  for (const s of sandboxes) await good("delete_sandbox", { sandbox: s.id });
});
await test("snapshot, and a sandbox from it", async () => {
  const s = (await good("snapshot_sandbox", { sandbox: "mcp", name: "mcp-snap", expires_in: "1h" })).structuredContent;
  has(s.id, "snap_");
  await good("create_sandbox", { snapshot: "mcp-snap", name: "mcp-two" });
  equal((await good("read_file", { sandbox: "mcp-two", path: "/workspace/a/b.txt" })).content[0].text, "grün\n");
  await good("delete_sandbox", { sandbox: "mcp-two" });
  equal(await gone("mcp-two"), true);
});
await test("preview: open, once more, public", async () => {
  const p = (await good("preview_url", { sandbox: "mcp", port: 8080 })).structuredContent;
  has(p.path, "/8080/");
  has(p.token, "doze_");
  if ((await good("preview_url", { sandbox: "mcp", port: 8080 })).structuredContent.token === p.token) throw new Error("the same token");
  equal((await good("preview_url", { sandbox: "mcp", port: 81, public: true })).structuredContent.token, undefined);
  await bad("preview_url", { sandbox: "mcp", port: 0 }, "port: must be from 1 to 65535");
});
await test("list: filters", async () => {
  equal((await good("list_sandboxes", { label: "a=b" })).structuredContent.sandboxes.map((s) => s.name), ["mcp"]);
  equal((await good("list_sandboxes", { state: "frozen" })).structuredContent.sandboxes, []);
  await bad("list_sandboxes", { state: "nosuch" }, "state");
});
await test("resources: list, templates, read a directory, text and bytes", async () => {
  const { resources } = await client.listResources();
  equal(resources.map((r) => r.name), ["mcp"]);
  const { resourceTemplates } = await client.listResourceTemplates();
  equal(resourceTemplates[0].uriTemplate, "doze://{sandbox}/{+path}");
  const read = async (uri) => ReadResourceResultSchema.parse(await client.readResource({ uri })).contents[0];
  has((await read(resources[0].uri)).text, "large");
  equal((await read("doze://mcp/workspace/a/b.txt")).text, "grün\n");
  equal((await read("doze://mcp/workspace/bin")).blob, "AP8Q");
  await run("mcp", "echo odd >'/workspace/ä b%41'");
  equal((await read("doze://mcp/workspace/%C3%A4%20b%2541")).text, "odd\n");
});
await test("resources: what is not there, and addresses that are wrong", async () => {
  await rejects(-32002, client.readResource({ uri: "doze://mcp/nosuch" }));
  await rejects(-32002, client.readResource({ uri: "doze://nosuch/a" }));
  await rejects(-32602, client.readResource({ uri: "file:///etc/passwd" }));
  await rejects(-32602, client.readResource({ uri: "doze://mcp" }));
  await rejects(-32602, client.readResource({ uri: "doze://mcp/%zz" }));
  await rejects(-32602, client.listResources({ cursor: "nonsense" }));
});
await test("a tool that is not there is an error of the protocol", async () => {
  await rejects(-32602, client.callTool({ name: "nosuch", arguments: {} }));
});
await test("a second server at the same time sees the same sandboxes", async () => {
  const other = new Client({ name: "other", version: "1" });
  await other.connect(new StdioClientTransport({ command: "doze", args: ["mcp"], env: { ...process.env } }));
  has(JSON.stringify(await other.callTool({ name: "list_sandboxes", arguments: {} })), "mcp");
  await other.close();
});

// --- bytes of our own ------------------------------------------------------------------------------

async function raw(lines, { end = true } = {}) {
  const child = spawn("doze", ["mcp"], { stdio: ["pipe", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (d) => { text += d; });
  child.stdin.write(lines.map((l) => (typeof l === "string" ? l : JSON.stringify(l)) + "\n").join(""));
  if (end) child.stdin.end();
  const status = await new Promise((resolve) => child.on("close", (code, signal) => resolve(signal ?? code)));
  return { status, answers: text.split("\n").filter(Boolean).map((l) => JSON.parse(l)) };
}
const hello = (version = "2025-06-18", id = 0) => ({ jsonrpc: "2.0", id, method: "initialize", params: { protocolVersion: version, capabilities: {}, clientInfo: { name: "x", version: "1" } } });

await test("versions: a known one is kept, another gets the newest", async () => {
  for (const [asked, given] of [["2024-11-05", "2024-11-05"], ["2025-03-26", "2025-03-26"], ["2025-06-18", "2025-06-18"], ["1999-01-01", "2025-11-25"]])
    equal((await raw([hello(asked)])).answers[0].result.protocolVersion, given);
});
await test("malformed messages have their codes, and the server goes on", async () => {
  const { answers, status } = await raw(["{", "[]", "5", '{"jsonrpc":"1.0","id":1,"method":"ping"}', '{"jsonrpc":"2.0","id":2}',
    '{"jsonrpc":"2.0","id":null,"method":"ping"}', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', '{"jsonrpc":"2.0","id":3,"method":"tools/list"}',
    '{"jsonrpc":"2.0","method":"notifications/unknown"}', '{"jsonrpc":"2.0","id":9,"result":{}}', "", hello(), '{"jsonrpc":"2.0","id":4,"method":"nosuch"}',
    '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[]}', '{"jsonrpc":"2.0","id":6,"method":"tools/call"}',
    '{"jsonrpc":"2.0","id":"s","method":"ping"}', '\ud800{"jsonrpc":"2.0","id":7,"method":"ping"}']);
  equal(answers.filter((a) => a.error && a.id === null).map((a) => a.error.code), [-32700, -32600, -32600, -32600, -32600, -32600, -32600, -32700]);
  const of = (id) => answers.find((a) => a.id === id);
  equal([of(3).error.code, of(4).error.code, of(5).error.code, of(6).error.code, of("s").result], [-32600, -32601, -32602, -32602, {}]);
  equal(status, 0);
});
await test("ids of requests that run are not used twice", async () => {
  const sleep = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "run_command", arguments: { sandbox: "mcp", command: "sleep 1" } } };
  const { answers } = await raw([hello(), sleep, sleep]);
  equal(answers.map((a) => a.error?.code ?? "result").sort(), [-32600, "result", "result"]);
});
await test("the end of input: requests in progress are finished", async () => {
  const { answers, status } = await raw([hello(), { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "run_command", arguments: { sandbox: "mcp", command: "sleep 0.3; echo late" } } }]);
  equal([answers[1].result.structuredContent.stdout, status], ["late\n", 0]);
});
await test("SIGTERM cancels what runs, and ends the server", async () => {
  const child = spawn("doze", ["mcp"], { stdio: ["pipe", "ignore", "inherit"] });
  child.stdin.write([hello(), { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "run_command", arguments: { sandbox: "mcp", command: "echo $$ >/tmp/pid2; exec sleep 1000" } } }]
    .map((l) => JSON.stringify(l) + "\n").join(""));
  await run("mcp", "while [ ! -s /tmp/pid2 ]; do sleep 0.1; done");
  const over = new Promise((resolve) => child.on("close", (code, signal) => resolve(signal ?? code)));
  child.kill("SIGTERM");
  equal(await over, "SIGTERM");
  equal((await run("mcp", "while kill -0 $(cat /tmp/pid2) 2>/dev/null; do sleep 0.1; done; echo gone")).stdout, "gone\n");
});
await test("delete", async () => {
  equal((await good("delete_sandbox", { sandbox: "mcp" })).structuredContent.deleted, "mcp");
  equal(await gone("mcp"), true);
  await bad("run_command", { sandbox: "mcp", command: "true" }, "not_found");
});
await client.close();
console.log("# the session is over");
process.exit(failed ? 1 : 0);
