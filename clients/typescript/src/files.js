/** Files of a sandbox. All of this also works while the sandbox sleeps, and does not wake it. */
import path from "node:path";

import { InvalidArgumentError, NotFoundError, fromAnswer, invalid } from "./errors.js";
import { target } from "./http.js";

/**
 * An entry of a directory. `path` is absolute.
 * @typedef {{ name: string, path: string, type: string, size: number, mode: string, uid: number, gid: number,
 *   mtime: string | null, target: string | null }} FileInfo
 */
/**
 * A change: create, write, remove, moved_from, moved_to, attr, or overflow if changes were lost.
 * @typedef {{ event: string, path: string, type?: string, cookie?: number }} FileEvent
 */

/** Changes below a directory: a loop over it yields FileEvents until close(). */
export class Watch {
  #events;

  /** @internal @param {import("./http.js").Events} events */
  constructor(events) {
    this.#events = events;
  }

  /** The next change; null at the end. After timeoutMs: TimeoutError. @param {number | null} [timeoutMs] @returns {Promise<FileEvent | null>} */
  async next(timeoutMs = null) {
    const event = await this.#events.next(timeoutMs);
    if (!event) return null;
    if (event.event === "error") throw fromAnswer(0, event.data?.error ? event.data : { error: event.data });
    return { ...event.data, event: event.event };
  }

  /** @returns {AsyncGenerator<FileEvent>} */
  async *[Symbol.asyncIterator]() {
    for (let change; (change = await this.next()); ) yield change;
  }

  close() {
    this.#events.close();
  }
}

/** sandbox.files. Paths are absolute. */
export class Files {
  #client;
  #id;

  /** @internal @param {import("./http.js").Client} client @param {string} id */
  constructor(client, id) {
    this.#client = client;
    this.#id = id;
  }

  /** @param {string} rest @param {Record<string, any>} query */
  #path(rest, query) {
    return target(`/v1/sandboxes/{}/files${rest}`, [this.#id], query);
  }

  /** Read a file as text (UTF-8; other bytes become U+FFFD). @param {string} file */
  async read(file) {
    return Buffer.from(await this.readBytes(file)).toString();
  }

  /** @param {string} file @returns {Promise<Uint8Array>} */
  async readBytes(file) {
    return this.#client.readAll(await this.#client.request("GET", this.#path("", { path: file })));
  }

  /** The bytes of a file, piece by piece. @param {string} file @returns {AsyncGenerator<Uint8Array>} */
  async *readStream(file) {
    yield* await this.#client.request("GET", this.#path("", { path: file }), { stream: true });
  }

  /**
   * Create or replace a file in one step, with missing parent directories. exclusive: fail with
   * ConflictError if the file exists.
   * @param {string} file @param {string | Uint8Array | AsyncIterable<Uint8Array>} data
   * @param {{ mode?: number, exclusive?: boolean }} [options]
   */
  async write(file, data, { mode, exclusive } = {}) {
    const whole = typeof data === "string" || data instanceof Uint8Array;
    const response = await this.#client.request("PUT",
      this.#path("", { path: file, mode: mode === undefined ? undefined : mode.toString(8).padStart(4, "0") }), {
        body: data, timeoutMs: whole ? undefined : null,
        headers: { "Content-Type": "application/octet-stream", ...(exclusive ? { "If-None-Match": "*" } : {}) },
      });
    await this.#client.readAll(response);
  }

  /**
   * The entries of a directory, and of those below it down to depth.
   * @param {string} [dir] @param {{ depth?: number }} [options] @returns {Promise<FileInfo[]>}
   */
  async list(dir = "/workspace", { depth } = {}) {
    const answer = await this.#client.json("GET", this.#path("/list", { path: dir, depth, limit: 100_000 }));
    if (answer.truncated) throw invalid(`${dir} has more than 100000 entries: list parts of it`, "path");
    return answer.entries.map((/** @type {any} */ e) => ({ ...e, path: path.posix.join(dir, e.path) }));
  }

  /** One file or directory; NotFoundError if there is none. @param {string} file @returns {Promise<FileInfo>} */
  async getInfo(file) {
    const { dir, base } = path.posix.parse(path.posix.normalize(file));
    if (!base) return { name: "/", path: "/", type: "directory", size: 0, mode: "0755", uid: 0, gid: 0, mtime: null, target: null };
    const found = (await this.list(dir)).find((e) => e.name === base);
    if (!found) throw new NotFoundError(`${file}: no such file or directory`, { code: "NOT_FOUND", status: 404 });
    return found;
  }

  /** @param {string} file */
  async exists(file) {
    try {
      await this.#client.readAll(await this.#client.request("HEAD", this.#path("", { path: file })));
      return true;
    } catch (e) {
      if (e instanceof NotFoundError) return false;
      if (!(e instanceof InvalidArgumentError)) throw e; // else it is not a regular file
    }
    try {
      await this.#client.json("GET", this.#path("/list", { path: file, limit: 1 }));
    } catch (e) {
      if (!(e instanceof InvalidArgumentError)) throw e;
      await this.getInfo(file);
    }
    return true;
  }

  /** Remove a file, or a directory with everything in it. @param {string} file @param {{ recursive?: boolean }} [options] */
  async remove(file, { recursive = true } = {}) {
    await this.#client.json("DELETE", this.#path("", { path: file, recursive: recursive || undefined }));
  }

  /** @param {string} from @param {string} to @param {{ replace?: boolean, parents?: boolean }} [options] */
  async rename(from, to, { replace = false, parents = false } = {}) {
    await this.#client.json("POST", this.#path("/move", {}), { from, to, replace, parents });
  }

  /** Make a directory. With parents, one that exists is fine. @param {string} dir @param {{ parents?: boolean }} [options] */
  async makeDir(dir, { parents = true } = {}) {
    await this.#client.json("POST", this.#path("/mkdir", {}), { path: dir, parents });
  }

  /** Follow changes below a directory. @param {string} [dir] @param {{ recursive?: boolean }} [options] */
  async watch(dir = "/workspace", { recursive } = {}) {
    return new Watch(await this.#client.events("GET", this.#path("/watch", { path: dir, recursive: recursive || undefined })));
  }

  /** A file or directory tree as a tar archive. @param {string} file @returns {Promise<Uint8Array>} */
  async readTar(file) {
    return this.#client.readAll(await this.#client.request("GET", this.#path("/tar", { path: file })));
  }

  /** Unpack a tar archive into a directory; the number of its members. @param {string} dir @param {Uint8Array} data @returns {Promise<number>} */
  async writeTar(dir, data) {
    const response = await this.#client.request("PUT", this.#path("/tar", { path: dir }),
      { body: data, headers: { "Content-Type": "application/x-tar" } });
    return JSON.parse((await this.#client.readAll(response)).toString()).members;
  }
}
