/* SPDX-License-Identifier: MIT
 *
 * The registry's tables (docs/format/registry.md). A released step never changes; a change of the
 * schema is a new step.
 *
 * The columns are those of registry.h and registry_record.h, in their order. Step 2 makes the
 * tables of records again, because no verb had ever written to those of step 1.
 */
#include "db/db.h"
#include "registry/registry_int.h"

#define HEAD                                                              \
    "id TEXT NOT NULL, tenant TEXT NOT NULL, version INTEGER NOT NULL,\n" \
    "  created INTEGER NOT NULL, updated INTEGER NOT NULL,\n"
#define ID "PRIMARY KEY(id)"

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

    "DROP TABLE workbooks; DROP TABLE tenant; DROP TABLE token; DROP TABLE snapshot;\n"
    "DROP TABLE fork; DROP TABLE ref; DROP TABLE idempotency;\n"
    "CREATE INDEX event_tenant ON event(tenant, seq);\n"
    "CREATE TABLE tenant(" HEAD "  status TEXT, quotas TEXT, metadata TEXT, " ID ");\n"
    "CREATE TABLE token(" HEAD "  sha256 TEXT NOT NULL UNIQUE, sandbox_id TEXT, scope TEXT,\n"
    "  label TEXT, expires INTEGER, last_used INTEGER, " ID ");\n"
    "CREATE TABLE snapshot(" HEAD "  status TEXT, sandbox_id TEXT, name TEXT, kind TEXT,\n"
    "  image TEXT, config TEXT, metadata TEXT, uri TEXT, sha256 TEXT, size INTEGER,\n"
    "  generation INTEGER, expires INTEGER, error TEXT, " ID ");\n"
    "CREATE TABLE fork(" HEAD "  status TEXT, sandbox_id TEXT, label TEXT, snapshot_id TEXT,\n"
    "  config TEXT, attached INTEGER, expires INTEGER, " ID ");\n"
    "CREATE TABLE ref(" HEAD "  status TEXT, sandbox_id TEXT NOT NULL, owner TEXT,\n"
    "  attachments TEXT, attached INTEGER, closed INTEGER, " ID ");\n"
    "CREATE TABLE workbooks(" HEAD "  name TEXT, source TEXT, sandbox_id TEXT, metadata TEXT,\n"
    "  " ID ");\n"
    "CREATE TABLE idempotency(" HEAD "  request_sha256 TEXT, sandbox_id TEXT,\n"
    "  http_status INTEGER, response TEXT, expires INTEGER, PRIMARY KEY(tenant, id));\n"
    "CREATE INDEX token_tenant ON token(tenant, id);\n"
    "CREATE INDEX token_sandbox ON token(sandbox_id, id) WHERE sandbox_id IS NOT NULL;\n"
    "CREATE INDEX token_expires ON token(expires) WHERE expires > 0;\n"
    "CREATE INDEX snapshot_tenant ON snapshot(tenant, id);\n"
    "CREATE INDEX snapshot_sandbox ON snapshot(sandbox_id, id) WHERE sandbox_id IS NOT NULL;\n"
    "CREATE INDEX snapshot_name ON snapshot(name, tenant) WHERE name IS NOT NULL;\n"
    "CREATE INDEX snapshot_expires ON snapshot(expires) WHERE expires > 0;\n"
    "CREATE INDEX fork_tenant ON fork(tenant, id);\n"
    "CREATE INDEX fork_sandbox ON fork(sandbox_id, id) WHERE sandbox_id IS NOT NULL;\n"
    "CREATE INDEX fork_label ON fork(label, tenant) WHERE label IS NOT NULL;\n"
    "CREATE INDEX fork_snapshot ON fork(snapshot_id) WHERE snapshot_id IS NOT NULL;\n"
    "CREATE INDEX fork_expires ON fork(expires) WHERE expires > 0;\n"
    "CREATE INDEX ref_tenant ON ref(tenant, id);\n"
    "CREATE INDEX ref_sandbox ON ref(sandbox_id, id);\n"
    "CREATE INDEX ref_closed ON ref(closed) WHERE closed > 0;\n"
    "CREATE INDEX workbooks_tenant ON workbooks(tenant, id);\n"
    "CREATE INDEX workbooks_sandbox ON workbooks(sandbox_id, id) WHERE sandbox_id IS NOT NULL;\n"
    "CREATE UNIQUE INDEX workbooks_name ON workbooks(tenant, name) WHERE name IS NOT NULL;\n"
    "CREATE INDEX idempotency_expires ON idempotency(expires) WHERE expires > 0;\n",

    "ALTER TABLE instances ADD COLUMN timeout_ms INTEGER;\n"
    "ALTER TABLE instances ADD COLUMN timeout_action TEXT;\n"
    "ALTER TABLE instances ADD COLUMN timeout_at INTEGER;\n"
    "ALTER TABLE instances ADD COLUMN timeout_left INTEGER;\n"
    "ALTER TABLE instances ADD COLUMN ephemeral INTEGER;\n"
    "ALTER TABLE instances ADD COLUMN owner TEXT;\n"
    "ALTER TABLE instances ADD COLUMN memory INTEGER;\n"
    "ALTER TABLE token ADD COLUMN quotas TEXT;\n",

    /* Readers continue from the number that they have read up to, so old events keep their
     * numbers. */
    "ALTER TABLE event ADD COLUMN number INTEGER;\n"
    "UPDATE event SET number = seq;\n"
    "DROP INDEX event_tenant;\n"
    "CREATE INDEX event_tenant ON event(tenant, number);\n"
    "CREATE TABLE event_number(tenant TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;\n",

    /* by name in any tenant: for requests of the operator */
    "CREATE INDEX instances_any ON instances(name) WHERE name IS NOT NULL;\n",

    /* If several snapshots have the same name, the newest keeps it, and the others get a name with
     * the end of their id. If that is taken, too, the older one has no name: tenants choose names,
     * and no name may keep the registry from being opened. */
    "UPDATE snapshot SET name = substr(name, 1, 56) || '-' || substr(id, -6)\n"
    "  WHERE name IS NOT NULL AND EXISTS (SELECT 1 FROM snapshot n WHERE n.name = snapshot.name\n"
    "  AND n.tenant = snapshot.tenant AND (n.created > snapshot.created OR\n"
    "  (n.created = snapshot.created AND n.id > snapshot.id)));\n"
    "UPDATE snapshot SET name = NULL\n"
    "  WHERE name IS NOT NULL AND EXISTS (SELECT 1 FROM snapshot n WHERE n.name = snapshot.name\n"
    "  AND n.tenant = snapshot.tenant AND (n.created > snapshot.created OR\n"
    "  (n.created = snapshot.created AND n.id > snapshot.id)));\n"
    "DROP INDEX snapshot_name;\n"
    "CREATE UNIQUE INDEX snapshot_name ON snapshot(name, tenant) WHERE name IS NOT NULL;\n"
    "ALTER TABLE ref ADD COLUMN name TEXT;\n"
    "ALTER TABLE ref ADD COLUMN expires INTEGER;\n"
    "CREATE UNIQUE INDEX ref_name ON ref(name, tenant) WHERE name IS NOT NULL;\n"
    "CREATE INDEX ref_expires ON ref(expires) WHERE expires > 0;\n",

    /* The number that decides the user of a tenant's processes: see dz_registry_number. */
    ("CREATE TABLE tenant_number(tenant TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE)\n"
     "  WITHOUT ROWID;\n"),

    "ALTER TABLE tenant ADD COLUMN replica TEXT;\n",

    "CREATE TABLE schedule(" HEAD "  status TEXT, sandbox_id TEXT NOT NULL, name TEXT NOT NULL,\n"
    "  cron TEXT, zone TEXT, every_ms INTEGER, anchor INTEGER, command TEXT, missed TEXT,\n"
    "  overlap TEXT, planned INTEGER, due INTEGER, queued INTEGER, last_run TEXT, " ID ");\n"
    "CREATE INDEX schedule_due ON schedule(due) WHERE due > 0;\n"
    "CREATE INDEX schedule_tenant ON schedule(tenant, id);\n"
    "CREATE UNIQUE INDEX schedule_name ON schedule(sandbox_id, name);\n"
    "CREATE INDEX schedule_sandbox ON schedule(sandbox_id, id);\n"
    "CREATE TABLE schedule_run(" HEAD "  status TEXT, sandbox_id TEXT NOT NULL,\n"
    "  schedule_id TEXT NOT NULL, cause TEXT, planned INTEGER, started INTEGER, ended INTEGER,\n"
    "  exec_id TEXT, exit_code INTEGER, error TEXT, " ID ");\n"
    "CREATE INDEX schedule_run_of ON schedule_run(schedule_id, id);\n"
    "CREATE INDEX schedule_run_tenant ON schedule_run(tenant, id);\n"
    "CREATE INDEX schedule_run_sandbox ON schedule_run(sandbox_id, id);\n"
    "CREATE INDEX schedule_run_running ON schedule_run(status, id) WHERE status = 'running';\n",

    "CREATE TABLE volume(" HEAD "  status TEXT, name TEXT, size INTEGER, limit_bytes INTEGER,\n"
    "  metadata TEXT, " ID ");\n"
    "CREATE INDEX volume_tenant ON volume(tenant, id);\n"
    "CREATE UNIQUE INDEX volume_name ON volume(name, tenant) WHERE name IS NOT NULL;\n"
    "CREATE TABLE lease(volume_id TEXT NOT NULL, sandbox_id TEXT NOT NULL,\n"
    "  epoch INTEGER NOT NULL, writes INTEGER NOT NULL, taken INTEGER NOT NULL,\n"
    "  PRIMARY KEY(volume_id, sandbox_id)) WITHOUT ROWID;\n"
    "CREATE INDEX lease_sandbox ON lease(sandbox_id);\n",

    /* The journal of registry_meter.h begins now for what there is already. */
    "CREATE TABLE meter(id TEXT NOT NULL, tenant TEXT NOT NULL, sandbox_id TEXT,\n"
    "  state TEXT NOT NULL, memory INTEGER NOT NULL, file INTEGER NOT NULL,\n"
    "  cold INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL);\n"
    "CREATE UNIQUE INDEX meter_open ON meter(id) WHERE until = 9223372036854775807;\n"
    "CREATE INDEX meter_tenant ON meter(tenant, until, since, state, memory, file, cold);\n"
    "CREATE INDEX meter_sandbox ON meter(sandbox_id, until) WHERE sandbox_id IS NOT NULL;\n"
    "CREATE INDEX meter_until ON meter(until);\n"
    "CREATE TABLE meter_mark(id INTEGER PRIMARY KEY, at INTEGER NOT NULL);\n"
    "INSERT INTO meter SELECT id, tenant, id, state,\n"
    "  CASE state WHEN 'active' THEN ifnull(memory, 0) ELSE 0 END, 0, ifnull(cold_size, 0),\n"
    "  CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 9223372036854775807\n"
    "  FROM instances;\n"
    "INSERT INTO meter SELECT id, tenant, sandbox_id, 'snapshot', 0, ifnull(size, 0), 0,\n"
    "  CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 9223372036854775807\n"
    "  FROM snapshot;\n",

    "ALTER TABLE volume ADD COLUMN generation INTEGER;\n"
    "ALTER TABLE volume ADD COLUMN holder TEXT;\n",
};

const struct dz_db_schema dz_registry_schema = {
    .what = "registry",
    .application_id = 0x444f5a52, /* "DOZR" */
    .steps = steps,
    .version = 12,
};
