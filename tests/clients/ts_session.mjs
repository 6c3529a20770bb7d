// The TypeScript client in real sessions, as TAP. tests/integration/t0986-typescript.sh prepares what this
// needs; the variables are those of python_session.py.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, unlinkSync, writeFileSync, openSync } from "node:fs";
import net from "node:net";
import { randomBytes } from "node:crypto";

import * as doze from "doze";
import {
  Client, CommandError, ConflictError, ConnectError, DozeError, GoneError, InvalidArgumentError, InvalidTransitionError,
  NotFoundError, Sandbox, SandboxInstance, SandboxUnavailableError, Snapshot, SuspendingSandboxEnv, TimeoutError,
  UnauthenticatedError, Volume, attachSandbox, createSandboxEnv, init, registerSandbox, unregisterSandbox, withIdleSuspend,
} from "doze";

const env = process.env, root = env.LIB_ROOT;
let count = 0, failed = 0;

async function test(what, run, skip) {
  count++;
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("no end within 120 s")), 120_000); });
  try {
    if (!skip) await Promise.race([run(), late]);
    console.log(`ok ${count} - typescript: ${what}${skip ? ` # SKIP ${skip}` : ""}`);
  } catch (e) {
    failed++;
    for (const line of String(e?.stack ?? e).split("\n")) console.log("# " + line);
    console.log(`not ok ${count} - typescript: ${what}`);
  } finally {
    clearTimeout(timer);
  }
}
function equal(a, b) {
  if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(`${JSON.stringify(a)} is not ${JSON.stringify(b)}`);
}
function has(text, part) {
  if (!String(text).includes(part)) throw new Error(`${JSON.stringify(text)} does not contain ${JSON.stringify(part)}`);
}
async function rejects(kinds, what) {
  try {
    await (typeof what === "function" ? what() : what);
  } catch (e) {
    if ([kinds].flat().some((k) => e instanceof k)) return e;
    throw e;
  }
  throw new Error("no error came");
}
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
async function until(what) {
  for (let i = 0; i < 3000; i++) {
    if (await what()) return;
    await sleep(20);
  }
  throw new Error("never");
}
const collect = async (list) => {
  const all = [];
  for await (const item of list) all.push(item);
  return all;
};
async function killDaemon() {
  const pid = Number(readFileSync(env.DAEMON_PID, "utf8"));
  process.kill(pid, "SIGKILL");
  await until(() => !existsSync(`/proc/${pid}`) || readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")[2] === "Z");
}
function startDaemon() {
  const [program, ...args] = env.DAEMON.split(" ");
  const log = openSync("daemon.log", "a");
  const child = spawn(program, args, { stdio: ["ignore", log, log] });
  child.unref();
  writeFileSync(env.DAEMON_PID, String(child.pid));
}

// A daemon may take longer on a busy machine than a client waits for it.
async function untilReady() {
  const ready = (resolve) => {
    const s = net.connect(env.DIRECT.slice(5), () => s.write("GET /readyz HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n"));
    s.on("data", (d) => resolve(String(d).startsWith("HTTP/1.1 200")));
    s.on("error", () => resolve(false));
    s.on("close", () => resolve(false));
  };
  await until(() => new Promise(ready));
}

// --- errors ---------------------------------------------------------------------------------------

await test("each code of errors.md has a class, and no class has another code", () => {
  const codes = new Set([...readFileSync(`${root}/docs/guide/errors.md`, "utf8").matchAll(/^\| `([a-z_]+)` \| \d+ \|/gm)].map((m) => m[1].toUpperCase()));
  equal([...codes].sort(), Object.keys(doze.ERRORS).sort());
  for (const kind of Object.values(doze.ERRORS)) equal(doze[kind.name] === kind, true);
});
await test("what is wrong has its class, its code in upper case, and its field", async () => {
  const e = await rejects(InvalidArgumentError, Sandbox.create({ image: "nosuch" }));
  equal([e.code, e.status, e.retry, e.name], ["INVALID_ARGUMENT", 400, false, "InvalidArgumentError"]);
  has(e.message, "nosuch");
  equal(typeof e.requestId, "string");
  equal((await rejects(NotFoundError, Sandbox.connect("nosuch"))).code, "NOT_FOUND");
  equal((await rejects(InvalidArgumentError, Sandbox.create({ memory: "x" }))).field, "memory");
  equal((await rejects(InvalidArgumentError, Sandbox.create({ onTimeout: "x", timeoutMs: 5 }))).field, "onTimeout");
  await rejects(InvalidArgumentError, async () => new Client({ url: "ftp://x" }));
  await rejects(InvalidArgumentError, async () => new Client({ url: "http://x:99999" }));
});

// --- commands ---------------------------------------------------------------------------------------

const box = await Sandbox.create({ metadata: { purpose: "test", n: 1 }, labels: { suite: "ts" }, env: { COLOR: "red" } });

await test("a command: its output, its errors, its exit code", async () => {
  const r = await box.commands.run("echo out; echo err >&2; exit 3");
  equal([r.stdout, r.stderr, r.exitCode, r.signal, r.truncated], ["out\n", "err\n", 3, null, false]);
});
await test("words are not interpreted, a line is", async () => {
  equal((await box.commands.run(["echo", "$COLOR", "a b"])).stdout, "$COLOR a b\n");
  equal((await box.commands.run("echo $COLOR")).stdout, "red\n");
});
await test("cwd, env and user", async () => {
  equal((await box.commands.run("pwd; echo $A; id -u", { cwd: "/tmp", env: { A: "b c" }, user: "1000" })).stdout, "/tmp\nb c\n1000\n");
});
await test("stdin as text and as bytes; other bytes are refused by name", async () => {
  equal((await box.commands.run(["cat"], { stdin: "grün\n" })).stdout, "grün\n");
  equal((await box.commands.run(["cat"], { stdin: Buffer.from("x") })).stdout, "x");
  equal((await rejects(InvalidArgumentError, box.commands.run(["cat"], { stdin: Buffer.from([255]) }))).field, "stdin");
  equal((await rejects(InvalidArgumentError, box.commands.run(["cat"], { stdin: true }))).field, "stdin");
});
await test("output that is not UTF-8 is kept byte for byte", async () => {
  const r = await box.commands.run("printf '\\377\\000a'");
  equal([...r.stdoutBytes], [255, 0, 97]);
  equal(r.stdout, "\ufffd\0a");
});
await test("a command that takes too long is killed, and says so", async () => {
  const r = await box.commands.run("sleep 1000", { timeoutMs: 100 });
  equal([r.timedOut, r.exitCode, r.signal], [true, null, "KILL"]);
});
await test("check throws, and the error has the result", async () => {
  const e = await rejects(CommandError, box.commands.run("echo why >&2; exit 2", { check: true }));
  equal([e.result.exitCode, e.code], [2, "COMMAND_FAILED"]);
  has(e.message, "why");
  await box.commands.run("true", { check: true });
});
await test("a program that does not exist has its reason", async () => {
  equal((await rejects(NotFoundError, box.commands.run(["nosuchprogram"]))).reason, "no_program");
});
await test("callbacks get the output while the command runs", async () => {
  const out = [], err = [];
  const r = await box.commands.run("mkfifo /tmp/fifo; echo first; cat /tmp/fifo; echo e >&2; exit 4", {
    onStdout: async (t) => { out.push(t); if (t.includes("first")) await box.commands.run("echo second >/tmp/fifo"); },
    onStderr: (t) => err.push(t),
  });
  equal([out.join(""), err.join(""), r.exitCode, r.stdout], ["first\nsecond\n", "e\n", 4, "first\nsecond\n"]);
});
await test("a character that two pieces share arrives whole", async () => {
  let out = "";
  await box.commands.run("printf '\\303'; sleep 0.2; printf '\\251\\n'", { onStdout: (t) => { out += t; } });
  equal(out, "é\n");
});
await test("large output is complete with callbacks", async () => {
  let seen = 0;
  const r = await box.commands.run("i=0; while [ $i -lt 30 ]; do head -c 100000 /dev/zero; i=$((i+1)); done", { onStdout: (t) => { seen += t.length; } });
  equal([seen, r.stdoutBytes.length, r.truncated], [3000000, 3000000, false]);
});
await test("a background command: loop over its output, result at the end", async () => {
  const handle = await box.commands.run("for i in 1 2 3; do echo $i; done; exit 5", { background: true });
  equal((await collect(handle)).map((o) => o.text).join(""), "1\n2\n3\n");
  equal([handle.result.exitCode, (await handle.wait()).exitCode], [5, 5]);
  has(handle.execId, "exe_");
});
await test("stdin of a background command: write, read, close", async () => {
  const handle = await box.commands.run(["cat"], { background: true, stdin: true });
  await handle.sendStdin("one\n");
  equal((await handle.next(20000)).text, "one\n");
  await handle.sendStdin(Buffer.from([254]));
  equal([...(await handle.next(20000)).data], [254]);
  await handle.closeStdin();
  equal([...(await handle.wait({ timeoutMs: 20000 })).stdoutBytes], [...Buffer.from("one\n"), 254]);
});
await test("a large input arrives complete", async () => {
  const handle = await box.commands.run("wc -c", { background: true, stdin: true });
  await handle.sendStdin(Buffer.alloc(700001));
  await handle.closeStdin();
  equal((await handle.wait({ timeoutMs: 60000 })).stdout.trim(), "700001");
});
await test("waiting ends after its time; the command continues, and can be killed once", async () => {
  const handle = await box.commands.run("sleep 1000", { background: true });
  equal((await rejects(TimeoutError, handle.wait({ timeoutMs: 50 }))).code, "TIMEOUT");
  equal((await handle.info()).state, "running");
  equal(await handle.kill(), true);
  const r = await handle.wait({ timeoutMs: 20000 });
  equal([r.exitCode, r.signal, await handle.kill()], [null, "KILL", false]);
});
await test("signals by name", async () => {
  const handle = await box.commands.run("trap 'echo got; exit 7' USR1; echo up; while :; do sleep 0.1; done", { background: true });
  await handle.next(20000);
  await handle.signal("USR1");
  equal((await handle.wait({ timeoutMs: 20000 })).exitCode, 7);
});
await test("a call that is aborted ends, and the client stays usable", async () => {
  const stop = new AbortController();
  const call = box.commands.run("sleep 1000", { signal: stop.signal });
  setTimeout(() => stop.abort(), 100);
  equal((await rejects(Error, call)).name, "AbortError");
  equal((await box.commands.run("echo on")).stdout, "on\n");
});
await test("a call with callbacks that is aborted, or whose callback throws, ends with that error, and its command is killed", async () => {
  const ended = () => until(async () => (await box.commands.list(1))[0].signal === "KILL");
  const stop = new AbortController();
  const call = box.commands.run("echo up; exec sleep 1000", { signal: stop.signal, onStdout: () => stop.abort() });
  equal((await rejects(Error, call)).name, "AbortError");
  await ended();
  const endless = "while :; do echo x; done";
  await rejects(RangeError, box.commands.run(endless, { onStdout: () => { throw new RangeError("mine"); } }));
  await ended();
  const before = (await box.commands.list(1))[0].exec_id;
  await rejects(Error, box.commands.run("echo never", { signal: AbortSignal.abort(), onStdout: () => {} }));
  equal((await box.commands.list(1))[0].exec_id, before);
});
await test("times: none of 0 or less, which would be no limit; one longer than Node's timers is not over at once", async () => {
  for (const timeoutMs of [0, -1, NaN, Infinity]) await rejects(InvalidArgumentError, box.commands.run("true", { timeoutMs }));
  await rejects(InvalidArgumentError, (async () => box.createSnapshot({ expiresInMs: 0 }))());
  await rejects(InvalidArgumentError, init({ sandbox: box, idleSuspendMs: 2 ** 31 }).then(async (a) => (await a.session()).sandbox));
  const handle = await box.commands.run("sleep 0.2; echo late", { background: true });
  equal((await handle.wait({ timeoutMs: 2 ** 31 })).stdout, "late\n");
});
await test("stdin of 1 MiB, and no more; a character that the end cuts off reaches a callback", async () => {
  equal((await box.commands.run(["wc", "-c"], { stdin: "x".repeat(1 << 20) })).stdout.trim(), String(1 << 20));
  equal((await rejects(InvalidArgumentError, box.commands.run(["cat"], { stdin: "x".repeat((1 << 20) + 1) }))).field, "stdin");
  let text = "";
  await box.commands.run("printf 'a\\342\\202'", { onStdout: (t) => { text += t; } });
  equal(text, "a\ufffd");
});
await test("the list of commands, and a handle from an id that replays the output", async () => {
  const handle = await box.commands.run("echo again; exit 6", { background: true });
  await handle.wait({ timeoutMs: 20000 });
  const r = await box.commands.connect(handle.execId).wait({ timeoutMs: 20000 });
  equal([r.stdout, r.exitCode], ["again\n", 6]);
  const newest = await box.commands.list(1);
  equal([newest.length, newest[0].exec_id, newest[0].state], [1, handle.execId, "ended"]);
});
await test("a terminal: its size, keys, and a new size", async () => {
  const pty = await box.pty.create({ cols: 100, rows: 30, cmd: ["/bin/sh"] });
  await pty.sendStdin("stty size; [ -t 0 ] && echo is$((1+1))tty\n");
  let text = "";
  while (!text.includes("is2tty")) text += (await pty.next(20000)).text;
  has(text, "30 100");
  await pty.resize(120, 40);
  await pty.sendStdin("stty size; exit 9\n");
  const r = await pty.wait({ timeoutMs: 20000 });
  has(r.stdout, "40 120");
  equal(r.exitCode, 9);
});

// --- files --------------------------------------------------------------------------------------------

await test("write and read text, bytes, and a stream", async () => {
  await box.files.write("/workspace/deep/er/a.txt", "grün");
  equal(await box.files.read("/workspace/deep/er/a.txt"), "grün");
  const data = randomBytes(300000);
  await box.files.write("/workspace/b", data);
  equal(data.equals(await box.files.readBytes("/workspace/b")), true);
  equal(data.equals(Buffer.concat(await collect(box.files.readStream("/workspace/b")))), true);
});
await test("write from a stream", async () => {
  async function* pieces() {
    for (let i = 0; i < 40; i++) yield Buffer.alloc(10000, i);
  }
  await box.files.write("/workspace/c", pieces());
  equal((await box.files.readBytes("/workspace/c")).length, 400000);
});
await test("a stream that fails throws its own error, and a long one warns of nothing", async () => {
  const warnings = [];
  const warned = (w) => warnings.push(w.message);
  process.on("warning", warned);
  const pieces = async function* (fails) {
    for (let i = 0; i < 400; i++) yield Buffer.alloc(65536);
    if (fails) throw new RangeError("mine");
  };
  equal((await rejects(RangeError, box.files.write("/workspace/failed", pieces(true)))).message, "mine");
  await box.files.write("/workspace/long", pieces(false));
  await sleep(0);
  process.off("warning", warned);
  equal([warnings, await box.files.exists("/workspace/failed")], [[], false]);
  await box.files.remove("/workspace/long");
});
await test("mode, exclusive, and what getInfo says", async () => {
  await box.files.write("/workspace/run", "#!/bin/sh\necho ran\n", { mode: 0o755 });
  equal((await box.commands.run(["/workspace/run"])).stdout, "ran\n");
  await rejects(ConflictError, box.files.write("/workspace/run", "x", { exclusive: true }));
  const info = await box.files.getInfo("/workspace/run");
  equal([info.name, info.type, info.size, info.mode], ["run", "file", 19, "0755"]);
  await rejects(NotFoundError, box.files.getInfo("/workspace/nosuch"));
});
await test("exists: a file, a directory, nothing; a relative path is an error", async () => {
  equal(await Promise.all(["/workspace/run", "/workspace", "/", "/workspace/no"].map((p) => box.files.exists(p))), [true, true, true, false]);
  await rejects(InvalidArgumentError, box.files.exists("workspace"));
});
await test("list: entries with absolute paths, and deeper", async () => {
  const names = new Map((await box.files.list("/workspace", { depth: 3 })).map((f) => [f.path, f.type]));
  equal([names.get("/workspace/deep"), names.get("/workspace/deep/er/a.txt")], ["directory", "file"]);
});
await test("makeDir, rename, remove", async () => {
  await box.files.makeDir("/workspace/x/y");
  await rejects(ConflictError, box.files.makeDir("/workspace/x/y", { parents: false }));
  await box.files.write("/workspace/x/f", "1");
  await box.files.rename("/workspace/x/f", "/workspace/x/y/g");
  await box.files.write("/workspace/x/f", "2");
  await rejects(ConflictError, box.files.rename("/workspace/x/f", "/workspace/x/y/g"));
  await box.files.rename("/workspace/x/f", "/workspace/x/y/g", { replace: true });
  await rejects(DozeError, box.files.remove("/workspace/x", { recursive: false }));
  await box.files.remove("/workspace/x");
  equal(await box.files.exists("/workspace/x"), false);
});
await test("names with any character", async () => {
  const name = "/workspace/ä b?c&d=e#f%41+";
  await box.files.write(name, "odd");
  equal([await box.files.read(name), (await box.commands.run(["cat", name])).stdout], ["odd", "odd"]);
});
await test("watch: changes as they happen, and an end of waiting", async () => {
  const watch = await box.files.watch("/workspace", { recursive: true });
  await box.commands.run("mkdir /workspace/w && echo 1 >/workspace/w/f && rm /workspace/w/f");
  const seen = [];
  while (!seen.includes("remove /workspace/w/f")) {
    const e = await watch.next(20000);
    seen.push(`${e.event} ${e.path}`);
  }
  has(seen, "create /workspace/w");
  await rejects(TimeoutError, watch.next(50));
  await box.files.makeDir("/workspace/later");
  equal((await watch.next(20000)).path, "/workspace/later");
  watch.close();
});
await test("archives in both directions", async () => {
  const data = await box.files.readTar("/workspace/deep");
  await box.files.makeDir("/tmp/copy");
  equal((await box.files.writeTar("/tmp/copy", data)) > 0, true);
  has((await box.commands.run("find /tmp/copy")).stdout, "a.txt");
});
await test("SQL over the file", async () => {
  const rows = await box.sql("select 1 + 1 as two");
  equal([rows.columns, rows.rows], [["two"], [[2]]]);
});

// --- life -----------------------------------------------------------------------------------------------

await test("information: metadata, labels, capabilities", async () => {
  const info = await box.getInfo();
  equal([info.id, info.metadata, info.labels, info.state, info.image], [box.id, { purpose: "test", n: 1 }, { suite: "ts" }, "active", "base"]);
});
await test("hibernate keeps processes; resume of its snapshot wakes the same sandbox", async () => {
  const handle = await box.commands.run("i=0; while read x; do i=$((i+1)); echo $i; done", { background: true, stdin: true });
  await handle.sendStdin("a\n");
  equal((await handle.next(20000)).text, "1\n");
  const snapshot = await box.hibernate();
  equal(await box.isRunning(), false);
  equal([(await Sandbox.resume(snapshot.id)).id, await box.isRunning()], [box.id, true]);
  await handle.sendStdin("b\n");
  equal((await handle.next(20000)).text, "2\n");
  await handle.closeStdin();
  equal((await handle.wait({ timeoutMs: 20000 })).stdout, "1\n2\n");
});
await test("a command wakes it; files do not", async () => {
  await box.pause();
  equal([await box.files.exists("/workspace/run"), await box.isRunning()], [true, false]);
  equal((await box.commands.run("echo awake")).stdout, "awake\n");
  equal((await box.wake()).result, "warm");
});
await test("with autoResume off a command is refused, and says why", async () => {
  const quiet = await Sandbox.create({ autoResume: false });
  await quiet.hibernate();
  const e = await rejects(SandboxUnavailableError, quiet.commands.run("true"));
  equal([e.reason, e.code], ["asleep", "SANDBOX_UNAVAILABLE"]);
  await quiet.wake();
  equal((await quiet.update({ auto_resume: true })).auto_resume, true);
  await quiet.kill();
});
await test("timeouts: set, seen, cleared; pause and destroy", async () => {
  const timed = await Sandbox.create({ timeoutMs: 3600000, onTimeout: "pause" });
  equal((await timed.getInfo()).timeout.action, "pause");
  await timed.setTimeout(null);
  equal((await timed.getInfo()).timeout, null);
  await timed.setTimeout(150, "pause");
  await until(async () => (await timed.getInfo()).state === "suspended");
  await timed.wake();
  await timed.setTimeout(150);
  await until(async () => !(await timed.isRunning()));
  await rejects([NotFoundError, GoneError], timed.commands.run("true"));
});
await test("kill, once and again; what is gone says so", async () => {
  const short = await Sandbox.create();
  equal([await short.kill(), await short.kill()], [true, false]);
  await rejects([NotFoundError, GoneError], short.getInfo());
});
await test("disposal kills", async () => {
  const short = await Sandbox.create({ start: false });
  await short[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
  equal(await short.kill(), false);
});
await test("hold, freeze and the way back; a wrong order is refused by its class", async () => {
  const cold = await Sandbox.create();
  equal((await cold.hold(60000)).hold_until !== null, true);
  equal((await cold.unhold()).hold_until, null);
  await rejects(InvalidTransitionError, cold.freeze());
  await cold.hibernate();
  equal((await cold.freeze()).state, "frozen");
  equal((await cold.commands.run("echo thawed")).stdout, "thawed\n");
  equal([(await cold.archive()).state, (await cold.revive()).state], ["archived", "active"]);
  await cold.kill();
});
await test("a snapshot starts many", async () => {
  await box.files.write("/workspace/state", "baseline");
  const snapshot = await box.createSnapshot({ name: "ts-base" });
  await box.files.write("/workspace/state", "later");
  const one = await Sandbox.create({ snapshotId: snapshot.id }), two = await Sandbox.resume("ts-base", { name: "ts-two" });
  equal([await one.files.read("/workspace/state"), await two.files.read("/workspace/state"), (await two.getInfo()).name], ["baseline", "baseline", "ts-two"]);
  await Promise.all([one.kill(), two.kill()]);
  has((await Snapshot.list()).map((s) => s.name), "ts-base");
  await Snapshot.delete("ts-base");
  await rejects(NotFoundError, Snapshot.delete(snapshot.id));
});
await test("a fork continues by itself; a checkpoint is attached any number of times; a clone has the files", async () => {
  const child = await box.fork();
  await child.files.write("/workspace/state", "child");
  equal(await box.files.read("/workspace/state"), "later");
  await child.kill();
  equal((await box.forkMany(2)).length, 2);
  const point = await box.checkpoint("before");
  await box.files.write("/workspace/state", "after");
  const one = await point.attach(), two = await point.attach({ name: "ts-named" });
  equal([await one.files.read("/workspace/state"), (await two.getInfo()).name], ["later", "ts-named"]);
  await point.delete();
  await rejects(NotFoundError, point.attach());
  await box.hibernate();
  const copy = await box.clone("ts-clone");
  equal(await copy.files.read("/workspace/state"), "after");
  await Promise.all([one, two, copy].map((s) => s.kill()));
});
await test("lists: filters, pages, and one by one", async () => {
  const made = await Promise.all([...Array(5)].map(() => Sandbox.create({ start: false, labels: { page: "y" } })));
  const pages = Sandbox.list({ label: "page=y", limit: 2 }), sizes = [];
  while (pages.hasNext) sizes.push((await pages.nextItems()).length);
  equal([sizes, await pages.nextItems()], [[2, 2, 1], []]);
  equal((await collect(Sandbox.list({ label: "page", limit: 2 }))).map((s) => s.id).sort(), made.map((s) => s.id).sort());
  await Promise.all(made.map((s) => s.kill()));
});
await test("update changes name, labels and metadata; events tell its life", async () => {
  const info = await box.update({ name: "ts-box", labels: { a: "b" }, metadata: { x: [1] } });
  equal([info.name, info.labels, info.metadata, (await Sandbox.connect("ts-box")).id], ["ts-box", { a: "b" }, { x: [1] }, box.id]);
  const types = (await box.events()).map((e) => e.type);
  equal(types[0], "registered");
  has(types, "suspended");
});
await test("an idempotency key makes one sandbox of two calls", async () => {
  const a = await Sandbox.create({ idempotencyKey: "ts-once", start: false }), b = await Sandbox.create({ idempotencyKey: "ts-once", start: false });
  equal(a.id, b.id);
  await a.kill();
});
await test("a volume is shared by sandboxes that follow each other", async () => {
  equal((await Volume.create("ts-data", "64MiB")).size_bytes, 64 << 20);
  const one = await Sandbox.create({ volumes: { "/data": "ts-data" } });
  await one.commands.run("printf kept >/data/x", { check: true });
  equal((await Volume.get("ts-data")).leases.map((l) => l.sandbox_id), [one.id]);
  await one.kill();
  const two = await Sandbox.create({ volumes: [{ name: "ts-data", path: "/d", mode: "ro" }] });
  equal((await two.commands.run("cat /d/x")).stdout, "kept");
  await two.kill();
  has((await Volume.list()).map((v) => v.name), "ts-data");
  await Volume.delete("ts-data");
});
await test("ports: open, list, the URL of the preview, tokens, close", async () => {
  const web = await Sandbox.create({ ports: [8080, { target: 9000, public: true }] });
  equal((await web.ports.list()).map((p) => [p.target, p.public]), [[8080, false], [9000, true]]);
  await web.ports.open(81);
  await rejects(ConflictError, web.ports.open(81));
  has(await web.ports.url(81), "81-");
  await rejects(NotFoundError, web.ports.url(82));
  equal(typeof (await web.ports.createToken(81, "review")).token, "string");
  equal((await web.ports.listTokens(81)).map((t) => [t.name, t.token]), [["review", undefined]]);
  await web.ports.revokeToken(81, "review");
  await web.ports.close(81);
  await web.kill();
});
await test("many commands at once", async () => {
  const all = await Promise.all([...Array(50).keys()].map((i) => box.commands.run(["echo", String(i)])));
  equal(all.map((r) => r.stdout), [...Array(50).keys()].map((i) => `${i}\n`));
});
await test("SandboxInstance: memory in MB, protocols in upper case, delete by name", async () => {
  const s = await SandboxInstance.create({ name: "ts-instance", image: "base", memory: 512, ports: [{ target: 3000, protocol: "HTTP" }], labels: { env: "dev" } });
  equal(s instanceof SandboxInstance, true);
  const info = await s.getInfo();
  equal([info.name, info.memory_bytes, info.ports[0].target], ["ts-instance", 512000000, 3000]);
  await SandboxInstance.delete("ts-instance");
  await rejects([NotFoundError, GoneError], s.getInfo());
});

// --- agents, sessions, environments ---------------------------------------------------------------------

await test("init, session, shell: each session has a sandbox, and the name finds it again", async () => {
  const agent = await init({ sandbox: "base" });
  const one = await agent.session("one"), two = await agent.session("two");
  await one.shell("echo 1 >/workspace/n");
  equal([(await two.shell("ls /workspace")).stdout, (await (await agent.session("one")).shell("cat /workspace/n")).stdout], ["", "1\n"]);
  const id = (await one.sandbox).sandbox.id;
  await agent.cleanup();
  await rejects([NotFoundError, GoneError], Sandbox.connect(id));
});
await test("session.fork and attach: branches that do not see each other", async () => {
  const agent = await init({ sandbox: "base" }), session = await agent.session("experiment");
  await session.shell("echo common >/workspace/f");
  equal((await session.sandbox).capabilities, { suspend: true, resume: true, fork: true });
  const fork = await session.fork("after-install");
  const [a, b] = await Promise.all([fork.attach(), fork.attach()]);
  await Promise.all([a.shell("echo a >>/workspace/f"), b.shell("echo b >>/workspace/f")]);
  equal([(await a.shell("cat /workspace/f")).stdout, (await b.shell("cat /workspace/f")).stdout, (await session.shell("cat /workspace/f")).stdout],
    ["common\na\n", "common\nb\n", "common\n"]);
  await a.cleanup();
  equal((await session.shell("echo alive")).stdout, "alive\n");
  await Promise.all([b.cleanup(), agent.cleanup()]);
});
await test("sandboxRef and attachSandbox: shared, not owned; after the owner's cleanup, SANDBOX_UNAVAILABLE", async () => {
  const owner = await (await init()).session("orchestrator");
  await owner.shell("echo x >/workspace/shared");
  const ref = await owner.sandboxRef();
  equal((await owner.sandboxRef()).id, ref.id);
  const worker = await (await init({ sandbox: attachSandbox(ref) })).session("worker-1"), second = await (await init({ sandbox: attachSandbox(ref) })).session();
  equal((await worker.shell("cat /workspace/shared")).stdout, "x\n");
  await second.shell("true");
  await worker.cleanup();
  equal((await owner.shell("echo still")).stdout, "still\n");
  await rejects(SandboxUnavailableError, worker.shell("true"));
  await owner.cleanup();
  const e = await rejects(SandboxUnavailableError, second.shell("true"));
  equal(e.code, "SANDBOX_UNAVAILABLE");
  has(e.message, "no longer alive (owner cleanup ran)");
  await rejects(SandboxUnavailableError, (await (await init({ sandbox: attachSandbox(ref) })).session()).shell("true"));
});
await test("registerSandbox, unregisterSandbox", async () => {
  const inner = await createSandboxEnv("base");
  const ref = registerSandbox(inner, { id: "mine" });
  await rejects(DozeError, async () => registerSandbox(inner, { id: "mine" }));
  const attached = await attachSandbox(ref)();
  equal((await attached.exec("echo in")).stdout, "in\n");
  equal([unregisterSandbox("mine"), unregisterSandbox("mine")], [true, false]);
  await rejects(SandboxUnavailableError, attached.exec("true"));
  await inner.cleanup();
});
await test("idleSuspendMs: suspended when idle, resumed by the next use", async () => {
  const session = await (await init({ sandbox: "base", idleSuspendMs: 150 })).session();
  equal((await session.shell("echo a >/tmp/a; echo up")).stdout, "up\n");
  const e = await session.sandbox;
  equal(e instanceof SuspendingSandboxEnv, true);
  await until(() => e.suspended);
  equal((await e.inner.sandbox.getInfo()).state, "suspended");
  equal((await session.shell("cat /tmp/a")).stdout, "a\n");
  await session.cleanup();
});
await test("autoResumeOnAccess false: a use while suspended fails, resume() allows it", async () => {
  const e = await createSandboxEnv("base", { idleSuspendMs: 60000, autoResumeOnAccess: false });
  await e.suspend();
  equal((await rejects(SandboxUnavailableError, e.exec("true"))).code, "SANDBOX_UNAVAILABLE");
  await e.resume();
  equal((await e.exec("echo back")).stdout, "back\n");
  await e.cleanup();
  await rejects(SandboxUnavailableError, e.exec("true"));
});
await test("a command that runs longer than idleSuspendMs is not idle", async () => {
  const e = await createSandboxEnv("base", { idleSuspendMs: 100 });
  equal((await e.exec("sleep 0.5; echo done")).stdout, "done\n");
  await e.cleanup();
});
await test("files of an environment; what cannot be suspended is returned unchanged", async () => {
  const e = await createSandboxEnv(await Sandbox.create());
  await e.mkdir("/workspace/d");
  await e.writeFile("/workspace/d/f", "text");
  equal([await e.readFile("/workspace/d/f"), await e.exists("/workspace/d/g"), (await e.readDir("/workspace/d")).length, (await e.readFileBytes("/workspace/d/f")).length], ["text", false, 1, 4]);
  await e.rm("/workspace/d");
  equal(withIdleSuspend(e, {}) === e, true);
  const local = { capabilities: {}, exec: async () => 1 };
  equal(withIdleSuspend(local, { idleSuspendMs: 5 }) === local, true);
  await rejects(SandboxUnavailableError, async () => new SuspendingSandboxEnv(local, { idleSuspendMs: 5 }));
  await e.cleanup();
});
await test("a forked environment suspends by itself, too", async () => {
  const e = await createSandboxEnv("base", { idleSuspendMs: 60000 });
  await e.exec("echo x >/tmp/x");
  const other = await e.fork();
  equal([other instanceof SuspendingSandboxEnv, (await other.exec("cat /tmp/x")).stdout], [true, "x\n"]);
  await Promise.all([other.cleanup(), e.cleanup()]);
});
await test("the timer of idleSuspendMs does not keep the process alive", async () => {
  const child = spawn(process.execPath, ["--input-type=module", "-e",
    'import { withIdleSuspend } from "doze"; withIdleSuspend({ capabilities: { suspend: true, resume: true }, suspend() {}, resume() {} }, { idleSuspendMs: 3600000 });']);
  equal(await new Promise((resolve) => child.on("close", resolve)), 0);
});

// --- other addresses, native programs ----------------------------------------------------------------------

await test("TCP with a token: another tenant; a wrong token is refused", async () => {
  const client = new Client({ url: env.TCP, token: env.TOKEN });
  await rejects(NotFoundError, Sandbox.connect(box.id, { client }));
  const mine = await Sandbox.create({ client });
  equal([(await mine.commands.run("echo tcp")).stdout, (await mine.getInfo()).tenant], ["tcp\n", "acme"]);
  equal((await collect(Sandbox.list({ client }))).map((s) => s.id), [mine.id]);
  await mine.kill();
  await rejects(UnauthenticatedError, Sandbox.create({ client: new Client({ url: env.TCP, token: "doze_" + "0".repeat(64) }) }));
  client.close();
});
await test("nothing listens: an error at once, which says where", async () => {
  const e = await rejects(ConnectError, Sandbox.create({ client: new Client({ url: "unix:/nonexistent/doze.sock" }) }));
  has(e.message, "/nonexistent");
  equal(e.sent, false);
});
await test("a daemon that never answers, and answers that are not HTTP or cut off: errors, not hangs", async () => {
  const answers = [null, "hello\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 500 Oh\r\nConnection: close\r\n\r\n<html>", ""];
  for (const answer of answers) {
    const server = net.createServer((s) => { s.on("error", () => {}); s.once("data", () => { if (answer !== null) s.end(answer); }); });
    await new Promise((resolve) => server.listen("odd.sock", resolve));
    const client = new Client({ url: "unix:odd.sock", requestTimeoutMs: answer === null ? 100 : 20000 });
    const e = await rejects(DozeError, Sandbox.create({ client }));
    if (answer === null) equal(e.code, "TIMEOUT");
    client.close();
    server.close();
    if (existsSync("odd.sock")) unlinkSync("odd.sock");
  }
});
await test("native programs: commands, files, hibernate, fork", async () => {
  const s = await Sandbox.create({ image: env.LINUX });
  equal((await s.commands.run("echo $((6 * 7)); uname -s", { check: true })).stdout, "42\nLinux\n");
  await s.files.write("/workspace/n", "native");
  const handle = await s.commands.run("read a; echo $a; read a; echo $a", { background: true, stdin: true });
  await handle.sendStdin("1\n");
  equal((await handle.next(60000)).text, "1\n");
  await s.hibernate();
  await handle.sendStdin("2\n");
  equal((await handle.wait({ timeoutMs: 60000 })).stdout, "1\n2\n");
  const child = await s.fork();
  equal((await child.commands.run("cat /workspace/n")).stdout, "native");
  await Promise.all([child.kill(), s.kill()]);
}, env.LINUX ? null : "there is no image of native programs");

// --- faults ---------------------------------------------------------------------------------------------------

const direct = new Client({ url: env.DIRECT });

await test("the daemon is killed and started again: what was stored is there, and the client goes on", async () => {
  const s = await Sandbox.create({ durability: "strict", client: direct });
  await s.files.write("/workspace/kept", "kept");
  await killDaemon();
  setTimeout(startDaemon, 300);
  equal(await s.files.read("/workspace/kept").catch(async (e) => { // waits for the new daemon, ten seconds
    if (!(e instanceof ConnectError)) throw e;
    await untilReady();
    return s.files.read("/workspace/kept");
  }), "kept");
  equal((await s.commands.run("cat /workspace/kept")).stdout, "kept");
});
await test("a command that is interrupted by the daemon's end is an error, soon, and not run twice", async () => {
  const s = await Sandbox.create({ client: direct });
  const call = rejects(ConnectError, s.commands.run("echo x >>/workspace/runs; sleep 1000"));
  await until(() => s.files.exists("/workspace/runs"));
  await killDaemon();
  equal((await call).sent, true);
  startDaemon();
  await untilReady();
  await until(async () => (await s.files.read("/workspace/runs")) === "x\n");
});
await test("output that is followed goes on with the next daemon, or ends with an error; nothing hangs", async () => {
  const s = await Sandbox.create({ client: direct });
  const handle = await s.commands.run("echo up; sleep 1; echo end", { background: true });
  equal((await handle.next(20000)).text, "up\n");
  await killDaemon();
  startDaemon();
  await untilReady();
  try {
    equal((await handle.wait({ timeoutMs: 60000 })).stdout, "up\nend\n");
  } catch (e) {
    if (!(e instanceof SandboxUnavailableError) || !["memory_lost", "crashed"].includes(e.reason)) throw e;
  }
  equal((await s.commands.run("echo again")).stdout, "again\n");
});
await test("no daemon runs: the client starts one, and after its end another", async () => {
  env.DOZE_DATA = env.OWN_DATA;
  delete env.DOZE_URL;
  const pid = () => Number(readFileSync(`${env.OWN_DATA}/daemon.lock`, "utf8").match(/\d+/)[0]);
  const s = await Sandbox.create();
  equal((await s.commands.run("echo started")).stdout, "started\n");
  const first = pid();
  process.kill(first, "SIGKILL");
  await until(() => !existsSync(`/proc/${first}`));
  equal((await s.commands.run("echo again")).stdout, "again\n");
  const second = pid();
  process.kill(second, "SIGTERM");
  await until(() => !existsSync(`/proc/${second}`));
  env.DOZE_AUTOSTART = "0";
  has((await rejects(ConnectError, Sandbox.create())).message, "DOZE_AUTOSTART");
  env.DOZE_PROGRAM = "/nonexistent/doze";
  has((await rejects(ConnectError, Sandbox.create())).message, "PATH");
});
console.log("# the session is over");
process.exit(failed ? 1 : 0);
