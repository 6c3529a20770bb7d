/**
 * Sandboxes as a harness of agents sees them: an agent (init), its sessions, and behind each session an
 * environment (SandboxEnv) that can sleep when it is idle, be forked, and be shared by a reference.
 */
import { DozeError, SandboxUnavailableError, invalid } from "./errors.js";
import { TIMER_MAX } from "./http.js";
import { Sandbox } from "./sandbox.js";

/** @typedef {import("./commands.js").Command} Command */
/** @typedef {import("./commands.js").CommandResult} CommandResult */
/** @typedef {import("./commands.js").RunOptions} RunOptions */
/** @typedef {import("./sandbox.js").CreateOptions} CreateOptions */
/** @typedef {{ suspend?: boolean, resume?: boolean, fork?: boolean }} SandboxCapabilities */
/**
 * What an environment of a session does. suspend, resume, snapshot and fork are there if `capabilities`
 * says so. fork(snapshot) makes another environment from what snapshot() returned, or without it from now.
 * @typedef {object} SandboxEnv
 * @property {SandboxCapabilities} capabilities
 * @property {(cmd: Command, options?: RunOptions & { background?: false }) => Promise<CommandResult>} exec
 * @property {(file: string) => Promise<string>} readFile
 * @property {(file: string) => Promise<Uint8Array>} readFileBytes
 * @property {(file: string, data: string | Uint8Array) => Promise<void>} writeFile
 * @property {(dir?: string) => Promise<import("./files.js").FileInfo[]>} readDir
 * @property {(dir: string) => Promise<void>} mkdir
 * @property {(file: string) => Promise<void>} rm
 * @property {(file: string) => Promise<boolean>} exists
 * @property {() => Promise<void>} cleanup
 * @property {() => Promise<void>} [suspend]
 * @property {() => Promise<void>} [resume]
 * @property {(label?: string) => Promise<unknown>} [snapshot]
 * @property {(snapshot?: any) => Promise<SandboxEnv>} [fork]
 */
/** @typedef {{ idleSuspendMs?: number, autoResumeOnAccess?: boolean }} SuspendOptions */
/** Makes the environment of a session. @typedef {(session?: string) => Promise<SandboxEnv>} SandboxFactory */
/** @typedef {string | Sandbox | SandboxEnv | SandboxFactory} SandboxSource an image, a sandbox, an environment, or a factory */

/** @param {string} message */
function unavailable(message) {
  return new SandboxUnavailableError(message, { code: "SANDBOX_UNAVAILABLE" });
}

const OPERATIONS = /** @type {const} */ (["exec", "readFile", "readFileBytes", "writeFile", "readDir", "mkdir", "rm", "exists"]);

/** A sandbox of doze as an environment. cleanup() kills it. @implements {SandboxEnv} */
export class DozeSandboxEnv {
  /** @param {Sandbox} sandbox @param {SandboxCapabilities} [capabilities] */
  constructor(sandbox, capabilities = { suspend: true, resume: true, fork: true }) {
    this.sandbox = sandbox;
    this.capabilities = capabilities;
  }

  /** @param {Command} cmd @param {RunOptions & { background?: false }} [options] */
  exec(cmd, options) {
    return this.sandbox.commands.run(cmd, options);
  }

  /** @param {string} file */
  readFile(file) {
    return this.sandbox.files.read(file);
  }

  /** @param {string} file */
  readFileBytes(file) {
    return this.sandbox.files.readBytes(file);
  }

  /** @param {string} file @param {string | Uint8Array} data */
  writeFile(file, data) {
    return this.sandbox.files.write(file, data);
  }

  /** @param {string} [dir] */
  readDir(dir) {
    return this.sandbox.files.list(dir);
  }

  /** @param {string} dir */
  mkdir(dir) {
    return this.sandbox.files.makeDir(dir);
  }

  /** @param {string} file */
  rm(file) {
    return this.sandbox.files.remove(file);
  }

  /** @param {string} file */
  exists(file) {
    return this.sandbox.files.exists(file);
  }

  async suspend() {
    await this.sandbox.hibernate();
  }

  async resume() {
    await this.sandbox.wake();
  }

  /** @param {string} [label] */
  snapshot(label) {
    return this.sandbox.checkpoint(label);
  }

  /** @param {import("./sandbox.js").Fork} [snapshot] @returns {Promise<SandboxEnv>} */
  async fork(snapshot) {
    return new DozeSandboxEnv(snapshot ? await snapshot.attach() : await this.sandbox.fork(), this.capabilities);
  }

  async cleanup() {
    await this.sandbox.kill();
  }
}

/**
 * An environment that is suspended when nothing used it for idleSuspendMs, and resumed by its next use.
 * With autoResumeOnAccess: false that use fails with SANDBOX_UNAVAILABLE instead. The timer never keeps
 * the process alive.
 * @implements {SandboxEnv}
 */
export class SuspendingSandboxEnv {
  /** @type {NodeJS.Timeout | undefined} */ #timer;
  #busy = 0;
  #over = false;
  #asleep = false;
  /** @type {Promise<unknown>} the last suspend or resume, which the next one and each use wait for */ #change = Promise.resolve();

  /** @param {SandboxEnv} inner @param {SuspendOptions & { idleSuspendMs: number }} options */
  constructor(inner, { idleSuspendMs, autoResumeOnAccess = true }) {
    if (!(idleSuspendMs > 0 && idleSuspendMs <= TIMER_MAX)) throw invalid(`idleSuspendMs: must be from 1 to ${TIMER_MAX}`, "idleSuspendMs");
    if (!inner.suspend || !inner.resume) throw unavailable("this environment cannot be suspended");
    this.inner = inner;
    this.idleSuspendMs = idleSuspendMs;
    this.autoResumeOnAccess = autoResumeOnAccess;
    this.lastAccess = Date.now();
    for (const name of OPERATIONS)
      /** @type {any} */ (this)[name] = (/** @type {any[]} */ ...args) => this.#use(() => /** @type {any} */ (inner)[name](...args));
    if (inner.snapshot) this.snapshot = (label) => this.#use(() => /** @type {any} */ (inner).snapshot(label));
    if (inner.fork)
      this.fork = (snapshot) => this.#use(async () => new SuspendingSandboxEnv(await /** @type {any} */ (inner).fork(snapshot), this));
    this.#arm();
  }

  /** @type {SandboxEnv["exec"]} */ exec;
  /** @type {SandboxEnv["readFile"]} */ readFile;
  /** @type {SandboxEnv["readFileBytes"]} */ readFileBytes;
  /** @type {SandboxEnv["writeFile"]} */ writeFile;
  /** @type {SandboxEnv["readDir"]} */ readDir;
  /** @type {SandboxEnv["mkdir"]} */ mkdir;
  /** @type {SandboxEnv["rm"]} */ rm;
  /** @type {SandboxEnv["exists"]} */ exists;
  /** @type {SandboxEnv["snapshot"]} */ snapshot;
  /** @type {SandboxEnv["fork"]} */ fork;

  get capabilities() {
    return this.inner.capabilities;
  }

  /** Is it suspended, as far as this object knows? */
  get suspended() {
    return this.#asleep;
  }

  #arm() {
    clearTimeout(this.#timer);
    if (this.#over || this.#asleep || this.#busy) return;
    this.#timer = setTimeout(() => {
      this.suspend().catch(() => this.#arm()); // it may be busy by another client; try again later
    }, this.idleSuspendMs);
    this.#timer.unref();
  }

  /** One suspend or resume at a time. @param {() => Promise<void>} step */
  #then(step) {
    const done = this.#change.then(step, step);
    this.#change = done.catch(() => {});
    return done;
  }

  /** @template T @param {() => Promise<T>} run @returns {Promise<T>} */
  async #use(run) {
    if (this.#over) throw unavailable("this environment is no longer alive (its cleanup ran)");
    this.#busy++;
    clearTimeout(this.#timer);
    try {
      await this.#change;
      if (this.#asleep && !this.autoResumeOnAccess) throw unavailable("this environment is suspended, and autoResumeOnAccess is false: call resume()");
      if (this.#asleep) await this.resume();
      return await run();
    } finally {
      this.#busy--;
      this.lastAccess = Date.now();
      this.#arm();
    }
  }

  async suspend() {
    clearTimeout(this.#timer);
    await this.#then(async () => {
      if (this.#asleep || this.#over) return;
      await /** @type {any} */ (this.inner).suspend();
      this.#asleep = true;
    });
  }

  async resume() {
    await this.#then(async () => {
      if (!this.#asleep) return;
      await /** @type {any} */ (this.inner).resume();
      this.#asleep = false;
    });
    this.#arm();
  }

  async cleanup() {
    this.#over = true;
    clearTimeout(this.#timer);
    await this.#change;
    await this.inner.cleanup();
  }
}

/**
 * The environment, suspending itself after idleSuspendMs; unchanged without that, or if it cannot.
 * @param {SandboxEnv} env @param {SuspendOptions} [options] @returns {SandboxEnv}
 */
export function withIdleSuspend(env, { idleSuspendMs = 0, autoResumeOnAccess = true } = {}) {
  const can = env.capabilities.suspend && env.capabilities.resume && env.suspend && env.resume;
  return idleSuspendMs > 0 && can ? new SuspendingSandboxEnv(env, { idleSuspendMs, autoResumeOnAccess }) : env;
}

/**
 * An environment from an image, a sandbox, an environment or a factory.
 * @param {SandboxSource} [source] @param {SuspendOptions & { create?: CreateOptions }} [options] @returns {Promise<SandboxEnv>}
 */
export async function createSandboxEnv(source = "base", { create, ...suspend } = {}) {
  let env;
  if (typeof source === "function") env = await source();
  else if (typeof source === "string") env = await ofSandbox(await Sandbox.create({ ...create, image: source }));
  else if (source instanceof Sandbox) env = await ofSandbox(source);
  else env = source;
  return withIdleSuspend(env, suspend);
}

/** @param {Sandbox} sandbox */
async function ofSandbox(sandbox) {
  const { suspend, resume, fork_memory: fork } = (await sandbox.getInfo()).capabilities;
  return new DozeSandboxEnv(sandbox, { suspend, resume, fork });
}

// --- references ---------------------------------------------------------------------------------

/** A reference to an environment of this process. @typedef {{ readonly id: string }} SandboxRef */

/** @type {Map<string, { env: SandboxEnv, alive: boolean, attached: number }>} */
const registry = new Map();
let last = 0;

/**
 * Make a reference to an environment, through which other sessions of this process attach to it. The
 * owner is who registered it: after its cleanup, or unregisterSandbox(), attached sessions fail with
 * SANDBOX_UNAVAILABLE.
 * @param {SandboxEnv} env @param {{ id?: string }} [options] @returns {SandboxRef}
 */
export function registerSandbox(env, { id = `env_${++last}` } = {}) {
  if (registry.get(id)?.alive) throw new DozeError(`a reference ${id} exists already`, { code: "CONFLICT" });
  registry.set(id, { env, alive: true, attached: 0 });
  return { id };
}

/** End a reference. False: there is none. @param {string} refId */
export function unregisterSandbox(refId) {
  const entry = registry.get(refId);
  if (!entry) return false;
  entry.alive = false;
  registry.delete(refId);
  return true;
}

/**
 * A factory for init({ sandbox }): its sessions use the environment of the reference, and their cleanup
 * leaves it alone.
 * @param {SandboxRef} ref @returns {SandboxFactory}
 */
export function attachSandbox(ref) {
  return async () => {
    const entry = registry.get(ref.id);
    const dead = () => unavailable(`the sandbox of ${ref.id} is no longer alive (owner cleanup ran)`);
    if (!entry) throw dead();
    let detached = false;
    entry.attached++;
    const check = () => {
      if (!entry.alive) throw dead();
      if (detached) throw unavailable(`this session has left the sandbox of ${ref.id}`);
    };
    /** @type {any} */
    const env = {
      get capabilities() {
        return entry.env.capabilities;
      },
      async cleanup() {
        if (!detached) entry.attached--;
        detached = true;
      },
    };
    for (const name of [...OPERATIONS, "suspend", "resume", "snapshot", "fork"])
      if (/** @type {any} */ (entry.env)[name])
        env[name] = async (/** @type {any[]} */ ...args) => {
          check();
          return /** @type {any} */ (entry.env)[name](...args);
        };
    return env;
  };
}

// --- sessions -----------------------------------------------------------------------------------

/** A stored state of a session; attach() starts a session from it, any number of times. */
export class SandboxFork {
  #env;
  #snapshot;
  #count = 0;

  /** @internal @param {SandboxEnv} env @param {unknown} snapshot @param {string} label */
  constructor(env, snapshot, label) {
    this.#env = env;
    this.#snapshot = snapshot;
    this.label = label;
  }

  /** A session of its own, whose sandbox continues from the stored state. @param {{ name?: string }} [options] */
  async attach({ name = `${this.label}-${++this.#count}` } = {}) {
    const env = await /** @type {any} */ (this.#env).fork(this.#snapshot);
    return new Session(name, () => Promise.resolve(env));
  }
}

/** A session of an agent, with a sandbox of its own that is made when it is first used. */
export class Session {
  #factory;
  /** @type {Promise<SandboxEnv> | undefined} */ #env;
  /** @type {string | undefined} */ #ref;

  /** @internal @param {string} name @param {SandboxFactory} factory */
  constructor(name, factory) {
    this.name = name;
    this.#factory = factory;
  }

  /** Its environment. @returns {Promise<SandboxEnv>} */
  get sandbox() {
    this.#env ??= this.#factory(this.name).catch((e) => {
      this.#env = undefined; // the next use tries again
      throw e;
    });
    return this.#env;
  }

  /** Run a line in the shell. @param {Command} cmd @param {RunOptions & { background?: false }} [options] */
  async shell(cmd, options) {
    return (await this.sandbox).exec(cmd, options);
  }

  /** Store its state as it is now. @param {string} [label] */
  async fork(label = "fork") {
    const env = await this.sandbox;
    if (!env.capabilities.fork || !env.fork || !env.snapshot) throw unavailable("this sandbox does not support fork");
    return new SandboxFork(env, await env.snapshot(label), label);
  }

  /** A reference, through which other sessions share the sandbox: attachSandbox(ref). @returns {Promise<SandboxRef>} */
  async sandboxRef() {
    const env = await this.sandbox;
    this.#ref ??= registerSandbox(env).id;
    return { id: this.#ref };
  }

  /** End the session: its sandbox is killed, unless it is another session's. */
  async cleanup() {
    const env = this.#env;
    if (this.#ref) unregisterSandbox(this.#ref);
    if (env) await (await env).cleanup();
  }
}

/** An agent: its sessions by name. */
export class Agent {
  #factory;
  /** @type {Map<string, Session>} */ #sessions = new Map();

  /** @internal @param {SandboxFactory} factory */
  constructor(factory) {
    this.#factory = factory;
  }

  /** The session of this name, which is made if there is none. @param {string} [name] */
  async session(name = "default") {
    let session = this.#sessions.get(name);
    if (!session) this.#sessions.set(name, (session = new Session(name, this.#factory)));
    return session;
  }

  /** End all sessions. */
  async cleanup() {
    const all = [...this.#sessions.values()];
    this.#sessions.clear();
    await Promise.all(all.map((s) => s.cleanup()));
  }
}

/**
 * Make an agent. sandbox: where its sessions' environments come from: an image (each session gets a
 * sandbox of its own), attachSandbox(ref), another factory, or one sandbox that all sessions use.
 * @param {SuspendOptions & { sandbox?: SandboxSource, create?: CreateOptions }} [options]
 */
export async function init({ sandbox = "base", idleSuspendMs, autoResumeOnAccess = true, create } = {}) {
  return new Agent(() => createSandboxEnv(sandbox, { idleSuspendMs, autoResumeOnAccess, create }));
}
