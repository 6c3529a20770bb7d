/**
 * doze: sandboxes for agents, each one SQLite file.
 *
 *     import { Sandbox } from "doze";
 *     const sandbox = await Sandbox.create({ image: "base" });
 *     console.log((await sandbox.commands.run("echo hello")).stdout);
 *     await sandbox.kill();
 */
export { CommandHandle } from "./commands.js";
export {
  BusyError, CommandError, ConflictError, ConnectError, DozeError, GoneError, InternalError, InvalidArgumentError,
  InvalidTransitionError, NotFoundError, PermissionDeniedError, QuotaExceededError, RateLimitedError, RestoringError,
  SandboxUnavailableError, StorageFullError, TimeoutError, TooLargeError, UnauthenticatedError, BY_CODE as ERRORS,
} from "./errors.js";
export { Watch } from "./files.js";
export { Client } from "./http.js";
export { Fork, Paginator, Sandbox, SandboxInstance, Snapshot, Volume } from "./sandbox.js";
export {
  Agent, DozeSandboxEnv, SandboxFork, Session, SuspendingSandboxEnv, attachSandbox, createSandboxEnv, init,
  registerSandbox, unregisterSandbox, withIdleSuspend,
} from "./session.js";

/**
 * @typedef {import("./commands.js").CommandResult} CommandResult
 * @typedef {import("./commands.js").Output} Output
 * @typedef {import("./commands.js").RunOptions} RunOptions
 * @typedef {import("./files.js").FileInfo} FileInfo
 * @typedef {import("./files.js").FileEvent} FileEvent
 * @typedef {import("./sandbox.js").CreateOptions} CreateOptions
 * @typedef {import("./sandbox.js").SandboxInfo} SandboxInfo
 * @typedef {import("./session.js").SandboxEnv} SandboxEnv
 * @typedef {import("./session.js").SandboxCapabilities} SandboxCapabilities
 * @typedef {import("./session.js").SandboxFactory} SandboxFactory
 * @typedef {import("./session.js").SandboxRef} SandboxRef
 */
