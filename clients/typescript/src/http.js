/**
 * HTTP to a daemon: where it is, requests, answers and streams of events.
 *
 * A request is repeated by itself in three cases only: the daemon refused it because it is busy
 * (nothing was done), the connection could not be made, or the connection ended and a repetition does
 * no harm (GET, HEAD, PUT, DELETE, and a POST with an idempotency key). No repetition begins after the
 * time limit of the request.
 */
import { execFile } from "node:child_process";
import http from "node:http";
import https from "node:https";
import path from "node:path";

import { ConnectError, DozeError, InternalError, TimeoutError, fromAnswer, invalid } from "./errors.js";

const RESTART_MS = 10_000; // how long a daemon that is being replaced is waited for
const EVENT_MAX = 64 << 20;

export const TIMER_MAX = 0x7fffffff; // milliseconds: 24.8 days; Node fires a longer timer at once

/** @param {number} ms */
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * A request target: each {} of the pattern becomes a part, encoded; the parameters that are given follow.
 * @param {string} pattern @param {(string | number)[]} parts
 * @param {Record<string, string | number | boolean | null | undefined>} [query]
 */
export function target(pattern, parts = [], query = {}) {
  const at = [...parts];
  const text = pattern.replace(/\{\}/g, () => encodeURIComponent(String(at.shift())));
  const given = Object.entries(query).filter(([, v]) => v !== undefined && v !== null);
  return text + given.map(([k, v], i) => `${i ? "&" : "?"}${k}=${encodeURIComponent(String(v))}`).join("");
}

/** The data directory, found as the program doze does. */
function dataDirectory() {
  const env = process.env;
  let dir = env.DOZE_DATA;
  if (!dir && env.XDG_DATA_HOME?.startsWith("/")) dir = path.join(env.XDG_DATA_HOME, "doze");
  if (!dir && env.HOME?.startsWith("/")) dir = path.join(env.HOME, ".local/share/doze");
  return path.resolve(dir || "/var/lib/doze");
}

/** @typedef {string | Uint8Array | AsyncIterable<Uint8Array> | null | undefined} Body */
/**
 * @typedef {object} RequestOptions
 * @property {Body} [body]
 * @property {Record<string, string>} [headers]
 * @property {number | null} [timeoutMs] of the whole request; null: no limit; default: the client's
 * @property {boolean} [stream] the limit is for the head of the answer only
 * @property {AbortSignal} [signal]
 */

/** An event of a stream. @typedef {{ event: string, id: string, data: any }} StreamEvent */

/** The events of an answer, one by one. */
export class Events {
  /** @type {string} */ #rest = "";
  /** @type {string} */ #id = "";
  #pieces;
  /** @type {Promise<IteratorResult<any>> | null} a read that a time limit left behind */ #pending = null;
  #response;
  #client;

  /** @param {Client} client @param {http.IncomingMessage} response */
  constructor(client, response) {
    this.#client = client;
    this.#response = response;
    response.setEncoding("utf8");
    this.#pieces = response[Symbol.asyncIterator]();
  }

  /** @returns {StreamEvent | null} */
  #parse() {
    for (;;) {
      const at = this.#rest.indexOf("\n\n");
      if (at < 0) return null;
      const lines = this.#rest.slice(0, at).split("\n");
      this.#rest = this.#rest.slice(at + 2);
      let event = "message";
      const data = [];
      for (const line of lines) {
        const colon = line.indexOf(":");
        const key = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (key === "event") event = value;
        else if (key === "id") this.#id = value;
        else if (key === "data") data.push(value);
      }
      if (!data.length) continue;
      try {
        return { event, id: this.#id, data: JSON.parse(data.join("\n")) };
      } catch {
        throw new InternalError("the daemon sent an event that is not JSON", { code: "INTERNAL" });
      }
    }
  }

  /**
   * The next event; null at the end of the stream. After timeoutMs: TimeoutError, and the stream stays.
   * @param {number | null} [timeoutMs]
   * @returns {Promise<StreamEvent | null>}
   */
  async next(timeoutMs = null) {
    const until = timeoutMs === null ? null : Date.now() + timeoutMs;
    for (;;) {
      const event = this.#parse();
      if (event) return event;
      this.#pending ??= this.#pieces.next();
      /** @type {NodeJS.Timeout | undefined} */
      let timer;
      try {
        const late = until === null || until - Date.now() > TIMER_MAX ? [] : [new Promise((_, reject) => {
          timer = setTimeout(() => reject(new TimeoutError("nothing came in time", { code: "TIMEOUT", retry: true })),
            Math.max(until - Date.now(), 0));
        })];
        const piece = /** @type {IteratorResult<any>} */ (await Promise.race([this.#pending, ...late]));
        this.#pending = null;
        if (piece.done) return null;
        this.#rest += piece.value;
        if (this.#rest.length > EVENT_MAX) throw new InternalError("the daemon sent an event that is too large", { code: "INTERNAL" });
      } catch (e) {
        if (e instanceof TimeoutError) throw e;
        this.close();
        throw this.#client.translate(e, true);
      } finally {
        clearTimeout(timer);
      }
    }
  }

  close() {
    this.#pending?.catch(() => {});
    this.#response.destroy();
  }
}

/**
 * A daemon: where it is, and how we identify ourselves. Without url: DOZE_URL; without that the socket
 * in the data directory of this user, where a daemon is started if none answers (DOZE_AUTOSTART=0
 * forbids that). Without token: DOZE_TOKEN.
 */
export class Client {
  #own;
  #token;
  #agent;
  #met = false; // has a daemon answered? Then one that is gone is being replaced
  /** @type {http.RequestOptions} */ #to;

  /** @param {{ url?: string, token?: string, requestTimeoutMs?: number | null }} [options] */
  constructor({ url, token, requestTimeoutMs = 60_000 } = {}) {
    url = url || process.env.DOZE_URL || "";
    this.#own = !url;
    this.url = url || `unix:${path.join(dataDirectory(), "doze.sock")}`;
    this.requestTimeoutMs = requestTimeoutMs;
    this.#token = token || process.env.DOZE_TOKEN || "";
    if (this.url.startsWith("unix:")) {
      const socketPath = this.url.slice(5).replace(/^\/\//, "");
      if (!socketPath) throw invalid(`${this.url}: the path of the socket is missing`);
      this.#to = { socketPath, host: "doze" };
    } else {
      if (!/^https?:\/\/[^/]+\/?$/.test(this.url) || !URL.canParse(this.url))
        throw invalid(`${this.url}: the URL of a daemon must be unix:PATH, https://HOST:PORT or http://HOST:PORT`);
      const u = new URL(this.url);
      this.#to = { host: u.hostname.replace(/^\[|\]$/g, ""), port: u.port || (u.protocol === "https:" ? 443 : 80) };
    }
    this.#agent = new (this.url.startsWith("https:") ? https : http).Agent({ keepAlive: true, maxSockets: Infinity });
  }

  /** The URL that paths of the daemon can be appended to; null for a unix socket. */
  get baseUrl() {
    return this.url.startsWith("unix:") ? null : this.url.replace(/\/$/, "");
  }

  /** Close the connections: requests in progress fail. The client can still be used. */
  close() {
    this.#agent.destroy();
  }

  /** @param {any} e @param {boolean} sent */
  translate(e, sent) {
    if (e instanceof DozeError || e?.name === "AbortError") return e;
    return new ConnectError(`${this.url}: ${e?.message ?? e}`, sent);
  }

  async #startDaemon() {
    const program = process.env.DOZE_PROGRAM || "doze";
    await new Promise((resolve, reject) => {
      execFile(program, ["quota"], (e, _, text) => {
        if (!e) return resolve(undefined);
        const missing = /** @type {any} */ (e).code === "ENOENT";
        reject(new ConnectError(missing
          ? `no daemon answers at ${this.url}, and the program doze is not in PATH: start one with \`doze daemon\`, or set DOZE_URL (or DOZE_PROGRAM)`
          : text.trim().split("\n").pop() || String(e)));
      });
    });
  }

  /**
   * @param {string} method @param {string} target_ @param {RequestOptions} options @param {number | null} until
   * @returns {Promise<http.IncomingMessage>}
   */
  #once(method, target_, { body, headers, stream, signal }, until) {
    const plain = body === null || body === undefined || typeof body === "string" || body instanceof Uint8Array;
    return new Promise((resolve, reject) => {
      let connected = false;
      /** @type {NodeJS.Timeout | undefined} */
      let timer;
      /** @type {Record<string, string | number>} */
      const all = { ...headers };
      if (this.#token) all.Authorization = `Bearer ${this.#token}`;
      if (plain && (body || ["POST", "PUT", "PATCH"].includes(method))) all["Content-Length"] = Buffer.byteLength(/** @type {any} */ (body ?? ""));
      const fail = (/** @type {any} */ e) => {
        clearTimeout(timer);
        const missing = e?.code === "ENOENT" || e?.code === "ECONNREFUSED";
        const error = this.translate(e, connected);
        if (missing) error.missing = true;
        reject(error);
      };
      const request = (this.url.startsWith("https:") ? https : http).request(
        { ...this.#to, method, path: target_, headers: all, agent: this.#agent, signal });
      request.on("socket", (s) => {
        if (!s.connecting) connected = true;
        else s.once("connect", () => { connected = true; });
      });
      request.on("error", fail);
      request.on("response", (response) => {
        if (stream) clearTimeout(timer);
        else response.on("close", () => clearTimeout(timer));
        resolve(response);
      });
      if (until !== null && until - Date.now() <= TIMER_MAX)
        timer = setTimeout(() => {
          const e = new TimeoutError(`${this.url} did not answer in time`, { code: "TIMEOUT", retry: true });
          fail(e);
          request.destroy(e);
        }, Math.max(until - Date.now(), 0));
      if (plain) {
        request.end(body || undefined);
        return;
      }
      (async () => {
        for await (const piece of /** @type {AsyncIterable<Uint8Array>} */ (body))
          if (request.destroyed) return;
          else if (!request.write(piece))
            await new Promise((next) => {
              const goOn = () => {
                request.off("drain", goOn).off("close", goOn);
                next(undefined);
              };
              request.once("drain", goOn).once("close", goOn);
            });
        request.end();
      })().catch((e) => { // an error of the body is the caller's own
        clearTimeout(timer);
        reject(e);
        request.destroy(e);
      });
    });
  }

  /**
   * Send a request, repeat it where that is harmless, and return the answer if it is a success.
   * @param {string} method @param {string} target_ @param {RequestOptions} [options]
   * @returns {Promise<http.IncomingMessage>}
   */
  async request(method, target_, options = {}) {
    const { body, headers = {} } = options;
    const limit = options.timeoutMs === undefined ? this.requestTimeoutMs : options.timeoutMs;
    const until = limit === null ? null : Date.now() + limit;
    const last = Math.min(Date.now() + RESTART_MS, until ?? Infinity);
    const plain = body === null || body === undefined || typeof body === "string" || body instanceof Uint8Array;
    const keyed = "Idempotency-Key" in headers;
    const harmless = plain && (["GET", "HEAD", "PUT", "DELETE"].includes(method) || keyed);
    let started = false;
    for (let pause = 20; ; pause = Math.min(pause * 2, 1000)) {
      let error, again;
      try {
        const response = await this.#once(method, target_, options, until);
        this.#met = true;
        const status = response.statusCode ?? 0;
        if (status >= 200 && status < 300) return response;
        let answer = null;
        try {
          answer = JSON.parse((await this.readAll(response)).toString());
        } catch (e) {
          if (e instanceof TimeoutError) throw e;
        }
        error = fromAnswer(status, answer);
        again = plain && ((["BUSY", "RESTORING", "RATE_LIMITED"].includes(error.code) && error.retry)
          || (error.code === "CONFLICT" && error.reason === "in_progress" && keyed));
        const wait = Number(response.headers["retry-after"]);
        if (wait > 0) pause = Math.max(pause, Math.min(wait * 1000, RESTART_MS));
      } catch (e) {
        error = /** @type {any} */ (e);
        if (!(error instanceof ConnectError)) throw error;
        if (this.#own && plain && !started && /** @type {any} */ (error).missing) {
          await this.#startDaemon();
          started = again = true;
        } else {
          again = error.sent ? harmless : plain && this.#met;
        }
      }
      if (!again || Date.now() + pause >= last) throw error;
      await sleep(pause);
    }
  }

  /** @param {http.IncomingMessage} response @returns {Promise<Buffer>} */
  async readAll(response) {
    const pieces = [];
    try {
      for await (const piece of response) pieces.push(piece);
    } catch (e) {
      throw this.translate(e, true);
    }
    return Buffer.concat(pieces);
  }

  /**
   * Send an object as JSON; the answer's object, or null.
   * @param {string} method @param {string} target_ @param {any} [body] @param {RequestOptions} [options]
   * @returns {Promise<any>}
   */
  async json(method, target_, body, options = {}) {
    const response = await this.request(method, target_, {
      ...options,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...options.headers },
    });
    const data = await this.readAll(response);
    if (!data.length) return null;
    try {
      return JSON.parse(data.toString());
    } catch {
      throw new InternalError("the daemon's answer is not JSON", { code: "INTERNAL" });
    }
  }

  /**
   * Open a stream of events. The head of the answer must come within requestTimeoutMs.
   * @param {string} method @param {string} target_ @param {any} [body]
   */
  async events(method, target_, body) {
    const response = await this.request(method, target_, {
      stream: true,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: { Accept: "text/event-stream", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    });
    return new Events(this, response);
  }

  /**
   * All items of a list, page by page.
   * @param {string} path_ @param {string} key @param {Record<string, any>} [query]
   * @returns {AsyncGenerator<any>}
   */
  async *pages(path_, key, query = {}) {
    let cursor;
    do {
      /** @type {any} */
      const answer = await this.json("GET", target(path_, [], { ...query, cursor }));
      yield* answer[key];
      cursor = answer.next_cursor;
    } while (cursor);
  }
}

/** @type {Map<string, Client>} */
const defaults = new Map();

/** The client of the surroundings: one for each DOZE_URL, DOZE_TOKEN and data directory. */
export function defaultClient() {
  const key = JSON.stringify([process.env.DOZE_URL, process.env.DOZE_TOKEN, dataDirectory()]);
  let client = defaults.get(key);
  if (!client) defaults.set(key, (client = new Client()));
  return client;
}

