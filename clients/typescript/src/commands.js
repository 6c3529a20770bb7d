/** Commands of a sandbox: run them, follow their output, write to them. */
import { StringDecoder } from "node:string_decoder";

import { CommandError, ConnectError, NotFoundError, TimeoutError, fromAnswer, invalid } from "./errors.js";
import { sleep, target } from "./http.js";

const KEPT_MAX = 16 << 20;
const STDIN_PIECE = 256 << 10;
const STDIN_MAX = 1 << 20;
const RESTART_MS = 10_000;

/**
 * How a command ended. exitCode is null if a signal ended it; `signal` then names it.
 * @typedef {object} CommandResult
 * @property {string} execId
 * @property {number | null} exitCode
 * @property {string | null} signal
 * @property {string} stdout
 * @property {string} stderr
 * @property {Uint8Array} stdoutBytes
 * @property {Uint8Array} stderrBytes
 * @property {boolean} truncated there was more output than was kept
 * @property {boolean} timedOut
 * @property {string | null} reason
 * @property {number} durationMs
 * @property {number} pid
 */
/**
 * A piece of output; a terminal has only stdout.
 * @typedef {{ stream: "stdout" | "stderr", data: Uint8Array, text: string }} Output
 */
/**
 * @typedef {object} StartOptions
 * @property {string} [cwd]
 * @property {Record<string, string>} [env]
 * @property {string} [user] a name, or UID[:GID]
 * @property {number} [timeoutMs] kill the command after this long; no limit without it
 */
/**
 * @typedef {StartOptions & {
 *   stdin?: string | Uint8Array | boolean,
 *   background?: boolean,
 *   onStdout?: (text: string) => unknown,
 *   onStderr?: (text: string) => unknown,
 *   check?: boolean,
 *   signal?: AbortSignal,
 * }} RunOptions
 */
/** @typedef {string | readonly string[]} Command a string is a line for /bin/sh */

/** A duration of the API, where 0 would mean that there is no limit. @param {number} ms @param {string} [field] */
export function duration(ms, field = "timeoutMs") {
  if (!(ms > 0 && ms < Infinity)) throw invalid(`${field}: must be more than 0, not ${ms}`, field);
  return `${Math.ceil(ms)}ms`;
}

/** @param {Command} cmd @param {StartOptions} options */
function requestOf(cmd, { cwd, env, user, timeoutMs }) {
  /** @type {Record<string, any>} */
  const body = typeof cmd === "string" ? { shell: cmd } : { cmd: cmd.map(String) };
  if (cwd !== undefined) body.cwd = cwd;
  if (env !== undefined) body.env = env;
  if (user !== undefined) body.user = user;
  if (timeoutMs !== undefined) body.timeout = duration(timeoutMs);
  return body;
}

/** @param {any} answer @param {"stdout" | "stderr"} name */
const outputBytes = (answer, name) =>
  answer[`${name}_base64`] === undefined ? Buffer.from(answer[name] ?? "") : Buffer.from(answer[`${name}_base64`], "base64");

/** @param {any} answer @param {Uint8Array} out @param {Uint8Array} err @param {boolean} truncated @returns {CommandResult} */
function resultOf(answer, out, err, truncated) {
  return {
    execId: answer.exec_id, exitCode: answer.exit_code ?? null, signal: answer.signal ?? null,
    stdout: Buffer.from(out).toString(), stderr: Buffer.from(err).toString(), stdoutBytes: out, stderrBytes: err,
    truncated, timedOut: answer.timed_out === true, reason: answer.reason ?? null,
    durationMs: answer.duration_ms ?? 0, pid: answer.pid ?? 0,
  };
}

/** @param {CommandResult} result @param {boolean | undefined} check */
function checked(result, check) {
  if (!check || result.exitCode === 0) return result;
  const how = result.timedOut ? "timed out" : result.signal ? `was ended by signal ${result.signal}` : `exited with ${result.exitCode}`;
  const last = result.stderr.trim().split("\n").pop();
  throw new CommandError(`the command ${how}${last ? `: ${last}` : ""}`, result);
}

/** @param {any} data */
const errorOf = (data) => fromAnswer(0, data?.error ? data : { error: data });

/**
 * A command that runs. Leaving the handle alone does not stop the command. wait() returns its result; a
 * loop over the handle yields its output piece by piece, and `result` is set after the loop. Both
 * continue where the output was read last, also after a lost connection and while the sandbox sleeps.
 * The daemon keeps the last 256 KiB of output that nobody reads.
 */
export class CommandHandle {
  #client;
  /** @type {import("./http.js").Events | null} */ #events;
  #offset = 0;
  #truncated = false;
  #abandoned = false;
  /** @type {Record<string, { pieces: Uint8Array[], size: number, decoder: StringDecoder }>} */
  #kept = {
    stdout: { pieces: [], size: 0, decoder: new StringDecoder("utf8") },
    stderr: { pieces: [], size: 0, decoder: new StringDecoder("utf8") },
  };

  /**
   * @internal
   * @param {import("./http.js").Client} client @param {string} sandboxId @param {string} execId @param {number} [pid]
   * @param {import("./http.js").Events | null} [events]
   */
  constructor(client, sandboxId, execId, pid = 0, events = null) {
    this.#client = client;
    this.sandboxId = sandboxId;
    this.execId = execId;
    this.pid = pid;
    /** @type {CommandResult | null} */
    this.result = null;
    this.#events = events;
  }

  /** @param {string} [rest] @param {Record<string, any>} [query] */
  #path(rest = "", query = {}) {
    return target(`/v1/sandboxes/{}/exec/{}${rest}`, [this.sandboxId, this.execId], query);
  }

  /** @param {import("./http.js").StreamEvent} event @returns {Output} */
  #output({ event, id, data }) {
    const kept = this.#kept[event];
    const bytes = data.base64 === undefined ? Buffer.from(data.text ?? "") : Buffer.from(data.base64, "base64");
    const end = /^\d+$/.test(id) ? Number(id) : this.#offset + bytes.length;
    if (end - bytes.length > this.#offset) this.#truncated = true; // the daemon has dropped what nobody read
    this.#offset = end;
    const room = KEPT_MAX - kept.size;
    if (bytes.length > room) this.#truncated = true;
    kept.pieces.push(bytes.subarray(0, room));
    kept.size += Math.min(bytes.length, room);
    return { stream: /** @type {any} */ (event), data: bytes, text: kept.decoder.write(bytes) };
  }

  /**
   * The next piece of output; null when the command has ended and `result` is set.
   * @param {number | null} [timeoutMs]
   * @returns {Promise<Output | null>}
   */
  async next(timeoutMs = null) {
    const until = timeoutMs === null ? null : Date.now() + timeoutMs;
    let lost = 0;
    while (!this.result) {
      let event;
      try {
        if (this.#abandoned) throw new ConnectError(`the output of ${this.execId} is not followed any more`, true);
        this.#events ??= await this.#client.events("GET", this.#path("/output", { offset: this.#offset }));
        event = await this.#events.next(until === null ? null : Math.max(until - Date.now(), 0));
        if (!event) throw new ConnectError(`the output of ${this.execId} ended before the command did`, true);
      } catch (e) {
        if (e instanceof TimeoutError)
          throw new TimeoutError(`${this.execId} has not ended in time; it continues`, { code: "TIMEOUT", retry: true });
        this.disconnect();
        if (this.#abandoned || !(e instanceof ConnectError)) throw e;
        lost ||= Date.now();
        if (Date.now() - lost > RESTART_MS || (until !== null && Date.now() > until)) throw e;
        await sleep(50);
        continue;
      }
      if (event.event in this.#kept) return this.#output(event);
      if (event.event === "start") {
        this.pid = event.data.pid || this.pid;
      } else if (event.event === "exit") {
        const [out, err] = ["stdout", "stderr"].map((name) => Buffer.concat(this.#kept[name].pieces));
        this.result = resultOf({ ...event.data, pid: this.pid }, out, err, this.#truncated || event.data.truncated === true);
        this.disconnect();
      } else if (event.event === "error") {
        this.disconnect();
        throw errorOf(event.data);
      }
    }
    return null;
  }

  /** @returns {AsyncGenerator<Output>} */
  async *[Symbol.asyncIterator]() {
    for (let piece; (piece = await this.next()); ) yield piece;
  }

  /**
   * Wait until the command has ended. After timeoutMs: TimeoutError, and the command continues.
   * @param {Pick<RunOptions, "onStdout" | "onStderr" | "check"> & { timeoutMs?: number | null }} [options]
   * @returns {Promise<CommandResult>}
   */
  async wait({ onStdout, onStderr, timeoutMs = null, check } = {}) {
    const until = timeoutMs === null ? null : Date.now() + timeoutMs;
    for (;;) {
      const piece = await this.next(until === null ? null : Math.max(until - Date.now(), 0));
      if (!piece) {
        for (const [name, callback] of /** @type {const} */ ([["stdout", onStdout], ["stderr", onStderr]])) {
          const rest = this.#kept[name].decoder.end(); // a character that was cut off by the end
          if (callback && rest) await callback(rest);
        }
        return checked(/** @type {CommandResult} */ (this.result), check);
      }
      const callback = piece.stream === "stdout" ? onStdout : onStderr;
      if (callback && piece.text) await callback(piece.text);
    }
  }

  /** Stop following the output. The command continues. */
  disconnect() {
    this.#events?.close();
    this.#events = null;
  }

  /** @internal Kill a command that only we could follow: it would wait for a reader of its output forever. */
  async abandon() {
    this.#abandoned = true;
    this.disconnect();
    if (!this.result) await this.kill().catch(() => {}); // what ended the call matters more
  }

  /** The daemon's record of it. @returns {Promise<any>} */
  info() {
    return this.#client.json("GET", this.#path());
  }

  /**
   * Write to standard input. The command must have been started with stdin: true, or be a terminal.
   * @param {string | Uint8Array} data
   */
  async sendStdin(data) {
    const bytes = Buffer.from(/** @type {any} */ (data));
    for (let at = 0; at < bytes.length; at += STDIN_PIECE) {
      const response = await this.#client.request("POST", this.#path("/stdin"), {
        body: bytes.subarray(at, at + STDIN_PIECE), headers: { "Content-Type": "application/octet-stream" },
      });
      await this.#client.readAll(response);
    }
  }

  async closeStdin() {
    await this.#client.json("POST", this.#path("/close-stdin"));
  }

  /** @param {string | number} [name] */
  async signal(name = "TERM") {
    await this.#client.json("POST", this.#path("/signal"), { signal: String(name) });
  }

  /** Kill the command. False: it had ended already. */
  async kill() {
    try {
      await this.signal("KILL");
      return true;
    } catch (e) {
      if (e instanceof NotFoundError) return false;
      throw e;
    }
  }

  /** @param {number} cols @param {number} rows */
  async resize(cols, rows) {
    await this.#client.json("POST", this.#path("/resize"), { cols, rows });
  }
}

/** sandbox.commands */
export class Commands {
  #client;
  #id;

  /** @internal @param {import("./http.js").Client} client @param {string} id */
  constructor(client, id) {
    this.#client = client;
    this.#id = id;
  }

  #path() {
    return target("/v1/sandboxes/{}/exec", [this.#id]);
  }

  /**
   * Run a command and wait for it, or with background: true return a handle at once.
   *
   * stdin: text of at most 1 MiB; true leaves it open for sendStdin() (with background). onStdout and
   * onStderr are called with each piece of text as it comes. check: throw CommandError unless the exit
   * code is 0. signal: end the call when it is aborted. If a call with callbacks ends so, or by an error such
   * as one of a callback, the command is killed; without callbacks it continues.
   * @overload
   * @param {Command} cmd @param {RunOptions & { background: true }} options @returns {Promise<CommandHandle>}
   */
  /**
   * @overload
   * @param {Command} cmd @param {RunOptions & { background?: false }} [options] @returns {Promise<CommandResult>}
   */
  /** @param {Command} cmd @param {RunOptions} [options] @returns {Promise<CommandResult | CommandHandle>} */
  async run(cmd, options = {}) {
    const { background, stdin, onStdout, onStderr, check, timeoutMs, signal } = options;
    const body = requestOf(cmd, options);
    if (typeof stdin === "string" || stdin instanceof Uint8Array) {
      try {
        body.stdin = typeof stdin === "string" ? stdin : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(stdin);
      } catch {
        throw invalid("stdin: bytes must be UTF-8; for others use background, stdin: true and sendStdin(), or write a file", "stdin");
      }
      if (Buffer.byteLength(body.stdin) > STDIN_MAX) throw invalid("stdin: more than 1 MiB; write a file and redirect it", "stdin");
    } else if (stdin) {
      if (!background) throw invalid("stdin: true needs background: true, else nobody could write to it", "stdin");
      body.stdin = true;
    }
    if (background) {
      if (onStdout || onStderr) throw invalid("give the callbacks to wait() of the handle", "onStdout");
      const answer = await this.#client.json("POST", this.#path(), { ...body, background: true });
      return new CommandHandle(this.#client, this.#id, answer.exec_id, answer.pid);
    }
    const limit = timeoutMs === undefined ? null : timeoutMs + (this.#client.requestTimeoutMs ?? timeoutMs);
    if (onStdout || onStderr) {
      signal?.throwIfAborted();
      const handle = await this.#follow(body);
      const stop = () => { handle.abandon(); };
      signal?.addEventListener("abort", stop, { once: true });
      if (signal?.aborted) stop();
      try {
        return await handle.wait({ onStdout, onStderr, timeoutMs: limit, check });
      } catch (e) {
        if (!(e instanceof ConnectError)) await handle.abandon();
        throw signal?.aborted ? signal.reason : e;
      } finally {
        signal?.removeEventListener("abort", stop);
      }
    }
    const answer = await this.#client.json("POST", this.#path(), { ...body, max_output: KEPT_MAX }, { timeoutMs: limit, signal });
    return checked(resultOf(answer, outputBytes(answer, "stdout"), outputBytes(answer, "stderr"), answer.truncated), check);
  }

  /**
   * Start a command whose output we read from its first byte on: it waits while we do not read.
   * @param {any} body
   */
  async #follow(body) {
    const events = await this.#client.events("POST", this.#path(), body);
    try {
      const first = await events.next(this.#client.requestTimeoutMs);
      if (!first) throw new ConnectError("the daemon closed the connection while the command started", true);
      if (first.event === "error") throw errorOf(first.data);
      return new CommandHandle(this.#client, this.#id, first.data.exec_id, first.data.pid, events);
    } catch (e) {
      events.close();
      throw e;
    }
  }

  /** The commands that the sandbox has a record of, newest first. @param {number} [limit] @returns {Promise<any[]>} */
  async list(limit = Infinity) {
    const found = [];
    for await (const item of this.#client.pages(this.#path(), "execs")) {
      if (found.length >= limit) break;
      found.push(item);
    }
    return found;
  }

  /** A handle of a command that runs, or has a record. Its output starts at the oldest byte kept. @param {string} execId */
  connect(execId) {
    return new CommandHandle(this.#client, this.#id, execId);
  }
}

/** sandbox.pty: commands with a terminal. */
export class Pty {
  #client;
  #id;

  /** @internal @param {import("./http.js").Client} client @param {string} id */
  constructor(client, id) {
    this.#client = client;
    this.#id = id;
  }

  /**
   * Start a command (a login shell) on a terminal. sendStdin() types, resize() changes its size.
   * @param {StartOptions & { cols?: number, rows?: number, cmd?: Command }} [options]
   */
  async create({ cols = 80, rows = 24, cmd = ["/bin/sh", "-l"], ...options } = {}) {
    const body = requestOf(cmd, { ...options, env: { TERM: "xterm-256color", ...options.env } });
    const answer = await this.#client.json("POST", target("/v1/sandboxes/{}/exec", [this.#id]),
      { ...body, tty: { cols, rows }, stdin: true, background: true });
    return new CommandHandle(this.#client, this.#id, answer.exec_id, answer.pid);
  }
}
