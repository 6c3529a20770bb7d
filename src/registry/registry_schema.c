/* SPDX-License-Identifier: MIT
 *
 * The registry's tables (docs/format/registry.md). A step is never changed once
 * it was released: what is new is another step.
 *
 * Only `instances` is written by this module's verbs; the other tables hold what
 * the operations above need, and go with a sandbox when it is erased.
 */
#include "db/db.h"
#include "registry/registry_int.h"

static const char *const steps[] = {
    "CREATE TABLE instances(\n"
    "  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, vfs_path TEXT,\n"
    "  updated INTEGER NOT NULL, version INTEGER NOT NULL, epoch INTEGER NOT NULL, host TEXT,\n"
    "  status TEXT, kind TEXT, image TEXT, config TEXT, metadata TEXT, created INTEGER,\n"
    "  last_active INTEGER, wake_at INTEGER, expires INTEGER, cold_uri TEXT, cold_sha256 TEXT,\n"
    "  cold_size INTEGER, error TEXT, name TEXT, deployment TEXT, op TEXT, step TEXT, keep TEXT,\n"
    "  generation INTEGER, cold_generation INTEGER, idle_mode TEXT, suspend_ms INTEGER,\n"
    "  freeze_ms INTEGER, suspended_at INTEGER, hold_until INTEGER, ttl_idle_ms INTEGER,\n"
    "  retry_at INTEGER, tries INTEGER, due INTEGER);\n"
    "CREATE INDEX instances_due ON instances(due) WHERE due > 0;\n"
    "CREATE INDEX instances_op ON instances(id) WHERE op IS NOT NULL;\n"
    "CREATE INDEX instances_tenant ON instances(tenant, id);\n"
    "CREATE UNIQUE INDEX instances_name ON instances(tenant, name) WHERE name IS NOT NULL;\n"
    "CREATE TABLE tombstone(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT,\n"
    "  deleted INTEGER NOT NULL) WITHOUT ROWID;\n"
    "CREATE INDEX tombstone_deleted ON tombstone(deleted);\n"
    "CREATE TABLE event(seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,\n"
    "  sandbox_id TEXT, tenant TEXT, what TEXT NOT NULL, detail TEXT);\n"
    "CREATE INDEX event_sandbox ON event(sandbox_id, seq);\n"
    "CREATE TABLE workbooks(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT, source TEXT,\n"
    "  created INTEGER, updated INTEGER);\n"
    "CREATE TABLE tenant(id TEXT PRIMARY KEY, quotas TEXT, metadata TEXT, created INTEGER);\n"
    "CREATE TABLE token(sha256 BLOB PRIMARY KEY, tenant TEXT, sandbox_id TEXT, scope TEXT,\n"
    "  label TEXT, created INTEGER, expires INTEGER) WITHOUT ROWID;\n"
    "CREATE INDEX token_sandbox ON token(sandbox_id) WHERE sandbox_id IS NOT NULL;\n"
    "CREATE TABLE snapshot(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, sandbox_id TEXT, name TEXT,\n"
    "  kind TEXT, uri TEXT, sha256 TEXT, size INTEGER, config TEXT, status TEXT,\n"
    "  created INTEGER);\n"
    "CREATE INDEX snapshot_sandbox ON snapshot(sandbox_id);\n"
    "CREATE TABLE fork(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, sandbox_id TEXT, label TEXT,\n"
    "  snapshot_id TEXT, created INTEGER);\n"
    "CREATE INDEX fork_sandbox ON fork(sandbox_id);\n"
    "CREATE TABLE ref(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, sandbox_id TEXT NOT NULL,\n"
    "  owner TEXT, attached INTEGER, closed INTEGER, created INTEGER);\n"
    "CREATE INDEX ref_sandbox ON ref(sandbox_id);\n"
    "CREATE TABLE idempotency(tenant TEXT NOT NULL, key TEXT NOT NULL, request_sha256 BLOB,\n"
    "  status INTEGER, response BLOB, created INTEGER, PRIMARY KEY(tenant, key));\n"
    "CREATE INDEX idempotency_created ON idempotency(created);\n",
};

const struct dz_db_schema dz_registry_schema = {
    .what = "registry",
    .application_id = 0x444f5a52, /* "DOZR" */
    .steps = steps,
    .version = 1,
};
