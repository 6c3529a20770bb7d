/** Sandboxes: make them, find them, let them sleep, branch them, and what belongs to them. */
import { Commands, Pty, duration } from "./commands.js";
import { GoneError, NotFoundError, invalid } from "./errors.js";
import { Files } from "./files.js";
import { defaultClient, target } from "./http.js";

/** @typedef {import("./http.js").Client} Client */
/** The daemon's object, as docs/guide/api.md shows it. @typedef {Record<string, any> & { id: string, state: string }} SandboxInfo */
/**
 * @typedef {object} CreateOptions
 * @property {string} [image] default: "base"
 * @property {string} [snapshotId] start from a snapshot instead of an image
 * @property {string} [name]
 * @property {number} [timeoutMs] destroy it after this long, or with onTimeout "pause" suspend it
 * @property {"destroy" | "kill" | "pause" | "hibernate"} [onTimeout]
 * @property {boolean} [autoResume] false: requests do not wake it
 * @property {Record<string, unknown>} [metadata]
 * @property {Record<string, string>} [labels]
 * @property {Record<string, string>} [env]
 * @property {string | number} [memory] bytes, or for instance "512MB"
 * @property {string | number} [disk]
 * @property {string} [size]
 * @property {string} [kind]
 * @property {string} [policy]
 * @property {string} [keep]
 * @property {string} [durability]
 * @property {string} [region]
 * @property {boolean} [persistent]
 * @property {Record<string, unknown>} [idle]
 * @property {Record<string, unknown>} [expiry]
 * @property {Record<string, unknown>} [network]
 * @property {(number | { target: number, protocol?: string, public?: boolean })[]} [ports]
 * @property {Record<string, string> | { name: string, path: string, mode?: string, subpath?: string }[]} [volumes]
 *   {path: volume}, or a list
 * @property {boolean} [start]
 * @property {string} [pull]
 * @property {string} [idempotencyKey] a repeated call with this key returns the same sandbox
 * @property {Client} [client]
 */

/** @type {Record<string, string>} */
const ACTIONS = { destroy: "destroy", kill: "destroy", pause: "pause", hibernate: "pause" };

/** @param {number} timeoutMs @param {string} onTimeout */
function timeoutOf(timeoutMs, onTimeout) {
  if (!(onTimeout in ACTIONS)) throw invalid(`onTimeout: must be destroy or pause, not ${onTimeout}`, "onTimeout");
  return { after: duration(timeoutMs), action: ACTIONS[onTimeout] };
}

/** The sandboxes of a list, page by page (nextItems) or one by one (a loop over it). */
export class Paginator {
  #client;
  #query;
  /** @type {string | undefined} */ #cursor;
  /** Are there pages that have not been fetched? */
  hasNext = true;

  /** @internal @param {Client} client @param {Record<string, any>} query */
  constructor(client, query) {
    this.#client = client;
    this.#query = query;
  }

  /** The next page; an empty list after the last. @returns {Promise<SandboxInfo[]>} */
  async nextItems() {
    if (!this.hasNext) return [];
    const answer = await this.#client.json("GET", target("/v1/sandboxes", [], { ...this.#query, cursor: this.#cursor }));
    this.#cursor = answer.next_cursor ?? undefined;
    this.hasNext = this.#cursor !== undefined;
    return answer.sandboxes;
  }

  /** @returns {AsyncGenerator<SandboxInfo>} */
  async *[Symbol.asyncIterator]() {
    while (this.hasNext) yield* await this.nextItems();
  }
}

/** sandbox.ports: ports that visitors reach, and the tokens of their previews. */
export class Ports {
  #client;
  #id;

  /** @internal @param {Client} client @param {string} id */
  constructor(client, id) {
    this.#client = client;
    this.#id = id;
  }

  /** @param {string} rest @param {(string | number)[]} parts */
  #path(rest, ...parts) {
    return target(`/v1/sandboxes/{}${rest}`, [this.#id, ...parts]);
  }

  /** Open a port. Visitors need a token unless it is public. @param {number} port @param {{ public?: boolean, protocol?: string }} [options] @returns {Promise<any>} */
  open(port, { public: open = false, protocol = "http" } = {}) {
    return this.#client.json("POST", this.#path("/ports"), { target: port, public: open, protocol });
  }

  /** @returns {Promise<any[]>} */
  async list() {
    return (await this.#client.json("GET", this.#path("/ports"))).ports;
  }

  /** @param {number} port */
  async close(port) {
    await this.#client.json("DELETE", this.#path("/ports/{}", port));
  }

  /** The URL of an open port's preview, by host name or by path. @param {number} port @returns {Promise<string>} */
  async url(port) {
    const info = (await this.list()).find((p) => p.target === port);
    if (!info) throw new NotFoundError(`port ${port} is not open: use ports.open()`, { code: "NOT_FOUND", status: 404 });
    if (info.url) return info.url;
    if (this.#client.baseUrl) return this.#client.baseUrl + info.path;
    throw invalid("the daemon has no preview.domain, and this client uses its unix socket: visitors reach the port at the "
      + `path ${info.path} of an address of the daemon (doze daemon --listen)`, "port");
  }

  /** A token for visitors of a port; only this answer has its secret. @param {number} port @param {string} [name] @returns {Promise<any>} */
  createToken(port, name) {
    return this.#client.json("POST", this.#path("/previews/{}/tokens", port), name === undefined ? {} : { name });
  }

  /** @param {number} port @returns {Promise<any[]>} */
  async listTokens(port) {
    return (await this.#client.json("GET", this.#path("/previews/{}/tokens", port))).tokens;
  }

  /** Revoke a token by its id or name. @param {number} port @param {string} token */
  async revokeToken(port, token) {
    await this.#client.json("DELETE", this.#path("/previews/{}/tokens/{}", port, token));
  }
}

/** A sandbox. `await using` kills it at the end of the block where the language has that. */
export class Sandbox {
  #client;

  /** @internal @param {Client} client @param {string} id */
  constructor(client, id) {
    this.#client = client;
    this.id = id;
    this.commands = new Commands(client, id);
    this.files = new Files(client, id);
    this.pty = new Pty(client, id);
    this.ports = new Ports(client, id);
  }

  get client() {
    return this.#client;
  }

  // --- making and finding ---------------------------------------------------------------------

  /**
   * Create a sandbox from an image, or from a snapshot, and start it.
   * @template {typeof Sandbox} T @this {T} @param {CreateOptions} [options] @returns {Promise<InstanceType<T>>}
   */
  static async create(options = {}) {
    const { client = defaultClient(), idempotencyKey, snapshotId, timeoutMs, onTimeout = "destroy", autoResume, ports, volumes, ...same } = options;
    const body = {
      ...same,
      image: same.image ?? (snapshotId === undefined ? "base" : undefined),
      snapshot: snapshotId,
      auto_resume: autoResume,
      timeout: timeoutMs === undefined ? undefined : timeoutOf(timeoutMs, onTimeout),
      ports: ports?.map((p) => (typeof p === "number" ? { target: p } : p)),
      volumes: volumes && !Array.isArray(volumes) ? Object.entries(volumes).map(([path, name]) => ({ path, name })) : volumes,
    };
    if (timeoutMs === undefined && !(onTimeout in ACTIONS)) timeoutOf(0, onTimeout);
    const answer = await client.json("POST", "/v1/sandboxes", body, idempotencyKey ? { headers: { "Idempotency-Key": idempotencyKey } } : {});
    return /** @type {InstanceType<T>} */ (new this(client, answer.id));
  }

  /**
   * The sandbox with this id, unique prefix of an id, or name. It is not woken.
   * @template {typeof Sandbox} T @this {T} @param {string} sandbox @param {{ client?: Client }} [options] @returns {Promise<InstanceType<T>>}
   */
  static async connect(sandbox, { client = defaultClient() } = {}) {
    const answer = await client.json("GET", target("/v1/sandboxes/{}", [sandbox]));
    return /** @type {InstanceType<T>} */ (new this(client, answer.id));
  }

  /**
   * What a snapshot holds, running: hibernate()'s wakes the same sandbox, others start a new one.
   * @template {typeof Sandbox} T @this {T} @param {string} snapshotId @param {{ name?: string, client?: Client }} [options]
   * @returns {Promise<InstanceType<T>>}
   */
  static async resume(snapshotId, { name, client = defaultClient() } = {}) {
    const answer = await client.json("POST", target("/v1/snapshots/{}/resume", [snapshotId]), { name });
    return /** @type {InstanceType<T>} */ (new this(client, answer.id));
  }

  /**
   * The sandboxes of the tenant. label: "k=v", or "k" for any value. limit: the size of a page.
   * @param {{ state?: string, kind?: string, image?: string, label?: string, limit?: number, client?: Client }} [options]
   */
  static list({ client = defaultClient(), ...query } = {}) {
    return new Paginator(client, query);
  }

  async [/** @type {any} */ (Symbol).asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.kill();
  }

  // --- its life -------------------------------------------------------------------------------

  /** @param {string} [rest] @param {Record<string, any>} [query] */
  #path(rest = "", query = {}) {
    return target(`/v1/sandboxes/{}${rest}`, [this.id], query);
  }

  /** @param {string} rest @param {any} [body] @returns {Promise<any>} */
  #post(rest, body = {}) {
    return this.#client.json("POST", this.#path(rest), body);
  }

  /** Delete the sandbox, whatever its state. False: it was gone already. Snapshots and forks stay. */
  async kill() {
    try {
      await this.#client.json("DELETE", this.#path("", { force: true }));
      return true;
    } catch (e) {
      if (e instanceof NotFoundError || e instanceof GoneError) return false;
      throw e;
    }
  }

  /** @returns {Promise<SandboxInfo>} */
  getInfo() {
    return this.#client.json("GET", this.#path());
  }

  /** Is it active? Not while it sleeps, and not after its end. */
  async isRunning() {
    try {
      return (await this.getInfo()).state === "active";
    } catch (e) {
      if (e instanceof NotFoundError || e instanceof GoneError) return false;
      throw e;
    }
  }

  /** Change name, labels, metadata, idle, timeout, expiry, network or auto_resume, as PATCH does. @param {Record<string, unknown>} changes @returns {Promise<SandboxInfo>} */
  update(changes) {
    return this.#client.json("PATCH", this.#path(), changes);
  }

  /** Limit how long the sandbox may run from now on; null: no limit. @param {number | null} timeoutMs @param {string} [onTimeout] */
  async setTimeout(timeoutMs, onTimeout = "destroy") {
    if (timeoutMs === null) await this.#client.json("DELETE", this.#path("/timeout"));
    else await this.#post("/timeout", timeoutOf(timeoutMs, onTimeout));
  }

  /**
   * Suspend the sandbox with its processes and memory. Sandbox.resume(snapshot.id) wakes it again, and so
   * does any command. keep "files": keep no memory.
   * @param {{ keep?: "memory" | "files" }} [options]
   */
  async hibernate({ keep } = {}) {
    const answer = await this.#post("/suspend", { keep });
    return { id: /** @type {string} */ (answer.snapshot_id), sandboxId: this.id };
  }

  /** Another name of hibernate(). @param {{ keep?: "memory" | "files" }} [options] */
  pause(options) {
    return this.hibernate(options);
  }

  /** Wake it now, and not only with its next use. @returns {Promise<any>} */
  wake() {
    return this.#post("/wake");
  }

  /** Keep it awake for a time. @param {number} forMs @returns {Promise<SandboxInfo>} */
  hold(forMs) {
    return this.#post("/hold", { for: duration(forMs, "forMs") });
  }

  /** @returns {Promise<SandboxInfo>} */
  unhold() {
    return this.#client.json("DELETE", this.#path("/hold"));
  }

  /** Move the file of a suspended sandbox to cold storage. @returns {Promise<SandboxInfo>} */
  freeze() {
    return this.#post("/freeze");
  }

  /** @param {{ keep?: "memory" | "files" }} [options] @returns {Promise<SandboxInfo>} */
  archive({ keep } = {}) {
    return this.#post("/archive", { keep });
  }

  /** @returns {Promise<SandboxInfo>} */
  revive() {
    return this.#post("/revive");
  }

  // --- branches -------------------------------------------------------------------------------

  /**
   * Store the sandbox as it is now; it keeps running. create({snapshotId}) starts any number from it.
   * @param {{ name?: string, expiresInMs?: number }} [options] @returns {Promise<any>}
   */
  createSnapshot({ name, expiresInMs } = {}) {
    return this.#post("/snapshot", { name, expires_in: expiresInMs === undefined ? undefined : duration(expiresInMs, "expiresInMs") });
  }

  /** Another sandbox that continues from this instant. @returns {Promise<this>} */
  async fork() {
    return (await this.forkMany(1))[0];
  }

  /** @param {number} count @returns {Promise<this[]>} */
  async forkMany(count) {
    const answer = await this.#post("/fork", { count });
    return answer.sandboxes.map((/** @type {any} */ s) => new /** @type {any} */ (this.constructor)(this.#client, s.id));
  }

  /**
   * A fork that is kept: its attach() starts sandboxes from this instant, at any time.
   * @param {string} [label] @param {{ expiresInMs?: number }} [options]
   */
  async checkpoint(label = "checkpoint", { expiresInMs } = {}) {
    const answer = await this.#post("/fork", { label, expires_in: expiresInMs === undefined ? undefined : duration(expiresInMs, "expiresInMs") });
    return new Fork(this.#client, answer.id, label);
  }

  /** A new sandbox with the files of this one, which must be suspended. @param {string} [name] @returns {Promise<this>} */
  async clone(name) {
    return new /** @type {any} */ (this.constructor)(this.#client, (await this.#post("/clone", { name })).id);
  }

  /** What happened to it, oldest first. @returns {Promise<any[]>} */
  async events() {
    const found = [];
    for await (const item of this.#client.pages(this.#path("/events"), "events")) found.push(item);
    return found;
  }

  /** One read-only statement over the sandbox's tables and the view vfs. @param {string} query @param {{ limit?: number }} [options] @returns {Promise<any>} */
  sql(query, { limit } = {}) {
    return this.#post("/sql", { query, limit });
  }
}

/** A stored instant of a sandbox. */
export class Fork {
  #client;

  /** @internal @param {Client} client @param {string} id @param {string} label */
  constructor(client, id, label) {
    this.#client = client;
    this.id = id;
    this.label = label;
  }

  /** Start a sandbox that continues from that instant. @param {{ name?: string }} [options] */
  async attach({ name } = {}) {
    return new Sandbox(this.#client, (await this.#client.json("POST", target("/v1/forks/{}/attach", [this.id]), { name })).id);
  }

  /** Delete the fork. Sandboxes that were started from it stay. */
  async delete() {
    await this.#client.json("DELETE", target("/v1/forks/{}", [this.id]));
  }
}

/** @param {Client} client @param {string} path @param {string} key @returns {Promise<any[]>} */
async function all(client, path, key) {
  const found = [];
  for await (const item of client.pages(path, key)) found.push(item);
  return found;
}

/** Snapshots of the tenant. */
export const Snapshot = {
  /** @param {{ client?: Client }} [options] */
  list: ({ client = defaultClient() } = {}) => all(client, "/v1/snapshots", "snapshots"),
  /** @param {string} snapshot @param {{ client?: Client }} [options] */
  async delete(snapshot, { client = defaultClient() } = {}) {
    await client.json("DELETE", target("/v1/snapshots/{}", [snapshot]));
  },
};

/** Volumes of the tenant: named file trees that sandboxes mount (volumes of create()). */
export const Volume = {
  /** @param {string} name @param {string | number} [size] @param {{ client?: Client }} [options] @returns {Promise<any>} */
  create: (name, size, { client = defaultClient() } = {}) => client.json("POST", "/v1/volumes", { name, size }),
  /** @param {string} volume @param {{ client?: Client }} [options] @returns {Promise<any>} */
  get: (volume, { client = defaultClient() } = {}) => client.json("GET", target("/v1/volumes/{}", [volume])),
  /** @param {{ client?: Client }} [options] */
  list: ({ client = defaultClient() } = {}) => all(client, "/v1/volumes", "volumes"),
  /** @param {string} volume @param {{ client?: Client }} [options] */
  async delete(volume, { client = defaultClient() } = {}) {
    await client.json("DELETE", target("/v1/volumes/{}", [volume]));
  },
};

/** A sandbox whose memory is given in MB, found and deleted by its name. */
export class SandboxInstance extends Sandbox {
  /**
   * @template {typeof Sandbox} T @this {T}
   * @param {Omit<CreateOptions, "memory"> & { memory?: number }} [options] memory in MB @returns {Promise<InstanceType<T>>}
   */
  static async create({ memory, ports, ...options } = {}) {
    return /** @type {InstanceType<T>} */ (await Sandbox.create.call(this, {
      ...options,
      memory: memory === undefined ? undefined : `${memory}MB`,
      ports: ports?.map((p) => (typeof p === "number" ? { target: p } : { ...p, protocol: p.protocol?.toLowerCase() })),
    }));
  }

  /** @param {string} sandbox an id or name @param {{ client?: Client }} [options] */
  static async delete(sandbox, { client = defaultClient() } = {}) {
    await client.json("DELETE", target("/v1/sandboxes/{}", [sandbox], { force: true }));
  }

  async delete() {
    await this.kill();
  }
}
