/**
 * Errors: one class for each code of the daemon's errors, from one table (BY_CODE). A `code` is the
 * daemon's word in upper case, such as SANDBOX_UNAVAILABLE. docs/guide/errors.md explains the codes; a
 * test holds the table against it.
 */

/**
 * @typedef {object} ErrorDetails
 * @property {string} [code]
 * @property {string | null} [reason] tells causes of one code apart
 * @property {number} [status] of the HTTP answer; 0: the error did not come from the daemon
 * @property {boolean} [retry] whether the same request may succeed later
 * @property {string | null} [field] the part of the request at fault
 * @property {string | null} [sandboxId]
 * @property {string | null} [requestId]
 */

/** Something failed. */
export class DozeError extends Error {
  /** @param {string} message @param {ErrorDetails} [details] */
  constructor(message, details = {}) {
    super(message);
    this.name = new.target.name;
    /** @type {string} */
    this.code = details.code ?? "ERROR";
    /** @type {string | null} */
    this.reason = details.reason ?? null;
    /** @type {number} */
    this.status = details.status ?? 0;
    /** @type {boolean} */
    this.retry = details.retry ?? false;
    /** @type {string | null} */
    this.field = details.field ?? null;
    /** @type {string | null} */
    this.sandboxId = details.sandboxId ?? null;
    /** @type {string | null} */
    this.requestId = details.requestId ?? null;
  }
}

export class InvalidArgumentError extends DozeError {}
export class TooLargeError extends DozeError {}
export class NotFoundError extends DozeError {}
export class ConflictError extends DozeError {}
export class InvalidTransitionError extends DozeError {}
export class BusyError extends DozeError {}
/** The daemon reported a timeout, or did not answer in time (then `status` is 0). */
export class TimeoutError extends DozeError {}
export class InternalError extends DozeError {}
export class PermissionDeniedError extends DozeError {}
export class UnauthenticatedError extends DozeError {}
export class RestoringError extends DozeError {}
export class GoneError extends DozeError {}
export class QuotaExceededError extends DozeError {}
export class RateLimitedError extends DozeError {}
export class SandboxUnavailableError extends DozeError {}
export class StorageFullError extends DozeError {}

/** No daemon answers, or the connection ended before the answer. Not a code of the daemon. */
export class ConnectError extends DozeError {
  /** @param {string} message @param {boolean} [sent] whether the request may have been executed */
  constructor(message, sent = false) {
    super(message, { code: "CONNECTION", retry: !sent });
    this.sent = sent;
  }
}

/** A command that was run with check failed; `result` has its output. Not a code of the daemon. */
export class CommandError extends DozeError {
  /** @param {string} message @param {import("./commands.js").CommandResult} result */
  constructor(message, result) {
    super(message, { code: "COMMAND_FAILED" });
    this.result = result;
  }
}

/** @type {Record<string, typeof DozeError>} */
export const BY_CODE = {
  INVALID_ARGUMENT: InvalidArgumentError,
  TOO_LARGE: TooLargeError,
  NOT_FOUND: NotFoundError,
  CONFLICT: ConflictError,
  INVALID_TRANSITION: InvalidTransitionError,
  BUSY: BusyError,
  TIMEOUT: TimeoutError,
  INTERNAL: InternalError,
  PERMISSION_DENIED: PermissionDeniedError,
  UNAUTHENTICATED: UnauthenticatedError,
  RESTORING: RestoringError,
  GONE: GoneError,
  QUOTA_EXCEEDED: QuotaExceededError,
  RATE_LIMITED: RateLimitedError,
  SANDBOX_UNAVAILABLE: SandboxUnavailableError,
  STORAGE_FULL: StorageFullError,
};

/** The code of an answer without a body, as to HEAD. @type {Record<number, string>} */
const BY_STATUS = {
  400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "CONFLICT",
  410: "GONE", 413: "TOO_LARGE", 429: "RATE_LIMITED", 503: "SANDBOX_UNAVAILABLE", 504: "TIMEOUT", 507: "STORAGE_FULL",
};

/** @param {string} message @param {string} [field] */
export function invalid(message, field) {
  return new InvalidArgumentError(message, { code: "INVALID_ARGUMENT", field });
}

/**
 * The error that an answer of the daemon describes.
 * @param {number} status @param {any} answer
 */
export function fromAnswer(status, answer) {
  const e = answer?.error;
  if (typeof e !== "object" || e === null) {
    const code = BY_STATUS[status] ?? "INTERNAL";
    return new BY_CODE[code](`the daemon answered with HTTP status ${status} and no description`, { code, status });
  }
  /** @param {string} name */
  const text = (name) => (typeof e[name] === "string" ? e[name] : null);
  const code = (text("code") ?? "internal").toUpperCase();
  return new (BY_CODE[code] ?? DozeError)(text("message") ?? code, {
    code, status, reason: text("reason"), retry: e.retry === true, field: text("field"),
    sandboxId: text("sandbox_id"), requestId: text("request_id"),
  });
}
