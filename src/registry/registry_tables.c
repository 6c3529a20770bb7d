/* SPDX-License-Identifier: MIT
 *
 * The tables as data: their columns, the name of a row in messages, which rows forbid its removal
 * and which are removed with it. Back ends make their SQL from this.
 */
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_int.h"

#include <string.h>

_Static_assert(sizeof(char *) == sizeof(int64_t), "a column's number is its place");

#define T(name) {#name, offsetof(struct dz_instance, name), true},
#define I(name) {#name, offsetof(struct dz_instance, name), false},
static const struct dz_registry_column instance_columns[] = {DZ_INSTANCE_COLUMNS(T, I)};
#undef T
#undef I
_Static_assert(DZ_ARRAY_LEN(instance_columns) == DZ_INSTANCE_COLUMN_COUNT, "one of each");

const struct dz_registry_table dz_instance_table = {
    .name = "instances",
    .what = "sandbox",
    .columns = instance_columns,
    .count = DZ_INSTANCE_COLUMN_COUNT,
    .text_offset = offsetof(struct dz_instance, text),
};

/* --- records --------------------------------------------------------------------- */

static const struct dz_registry_guard tenant_guards[] = {
    {"SELECT 1 FROM instances WHERE tenant = ?1 LIMIT 1", "a sandbox"},
    {"SELECT 1 FROM snapshot WHERE tenant = ?1 LIMIT 1", "a snapshot"},
    {"SELECT 1 FROM volume WHERE tenant = ?1 LIMIT 1", "a volume"},
    {"SELECT 1 FROM fork WHERE tenant = ?1 LIMIT 1", "a fork"},
    {"SELECT 1 FROM workbooks WHERE tenant = ?1 LIMIT 1", "a workbook"},
    {NULL, NULL},
};
static const char *const tenant_hangers[] = {
    "DELETE FROM token WHERE tenant = ?1",
    "DELETE FROM ref WHERE tenant = ?1",
    "DELETE FROM idempotency WHERE tenant = ?1",
    "DELETE FROM tenant_number WHERE tenant = ?1",
    NULL,
};
static const char *const schedule_hangers[] = {
    "DELETE FROM schedule_run WHERE schedule_id = ?1",
    NULL,
};
static const struct dz_registry_guard snapshot_guards[] = {
    {"SELECT 1 FROM fork WHERE snapshot_id = ?1 LIMIT 1", "a fork"},
    {NULL, NULL},
};

#define T(name) {#name, offsetof(struct dz_tenant_row, name), true},
#define I(name) {#name, offsetof(struct dz_tenant_row, name), false},
static const struct dz_registry_column tenant_columns[] = {DZ_TENANT_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_tenant_table = {
    .name = "tenant",
    .what = "tenant",
    .columns = tenant_columns,
    .count = DZ_ARRAY_LEN(tenant_columns),
    .text_offset = offsetof(struct dz_tenant_row, text),
    .guards = tenant_guards,
    .hangers = tenant_hangers,
};

#define T(name) {#name, offsetof(struct dz_token_row, name), true},
#define I(name) {#name, offsetof(struct dz_token_row, name), false},
static const struct dz_registry_column token_columns[] = {DZ_TOKEN_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_token_table = {
    .name = "token",
    .what = "token",
    .columns = token_columns,
    .count = DZ_ARRAY_LEN(token_columns),
    .text_offset = offsetof(struct dz_token_row, text),
    .alias = "sha256",
    .lapses = true,
};

#define T(name) {#name, offsetof(struct dz_snapshot_row, name), true},
#define I(name) {#name, offsetof(struct dz_snapshot_row, name), false},
static const struct dz_registry_column snapshot_columns[] = {DZ_SNAPSHOT_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_snapshot_table = {
    .name = "snapshot",
    .what = "snapshot",
    .columns = snapshot_columns,
    .count = DZ_ARRAY_LEN(snapshot_columns),
    .text_offset = offsetof(struct dz_snapshot_row, text),
    .alias = "name",
    .guards = snapshot_guards,
};

static const struct dz_registry_guard volume_guards[] = {
    {"SELECT 1 FROM " DZ_LEASE_ALIVE " WHERE volume_id = ?1 LIMIT 1", "a running sandbox"},
    {NULL, NULL},
};
static const char *const volume_hangers[] = {
    "DELETE FROM lease WHERE volume_id = ?1",
    NULL,
};

#define T(name) {#name, offsetof(struct dz_volume_row, name), true},
#define I(name) {#name, offsetof(struct dz_volume_row, name), false},
static const struct dz_registry_column volume_columns[] = {DZ_VOLUME_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_volume_table = {
    .name = "volume",
    .what = "volume",
    .columns = volume_columns,
    .count = DZ_ARRAY_LEN(volume_columns),
    .text_offset = offsetof(struct dz_volume_row, text),
    .alias = "name",
    .guards = volume_guards,
    .hangers = volume_hangers,
};

#define T(name) {#name, offsetof(struct dz_fork_row, name), true},
#define I(name) {#name, offsetof(struct dz_fork_row, name), false},
static const struct dz_registry_column fork_columns[] = {DZ_FORK_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_fork_table = {
    .name = "fork",
    .what = "fork",
    .columns = fork_columns,
    .count = DZ_ARRAY_LEN(fork_columns),
    .text_offset = offsetof(struct dz_fork_row, text),
    .alias = "label",
};

#define T(name) {#name, offsetof(struct dz_ref_row, name), true},
#define I(name) {#name, offsetof(struct dz_ref_row, name), false},
static const struct dz_registry_column ref_columns[] = {DZ_REF_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_ref_table = {
    .name = "ref",
    .what = "reference",
    .columns = ref_columns,
    .count = DZ_ARRAY_LEN(ref_columns),
    .text_offset = offsetof(struct dz_ref_row, text),
    .alias = "name",
};

#define T(name) {#name, offsetof(struct dz_workbook_row, name), true},
#define I(name) {#name, offsetof(struct dz_workbook_row, name), false},
static const struct dz_registry_column workbook_columns[] = {DZ_WORKBOOK_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_workbook_table = {
    .name = "workbooks",
    .what = "workbook",
    .columns = workbook_columns,
    .count = DZ_ARRAY_LEN(workbook_columns),
    .text_offset = offsetof(struct dz_workbook_row, text),
    .alias = "name",
};

#define T(name) {#name, offsetof(struct dz_idempotency_row, name), true},
#define I(name) {#name, offsetof(struct dz_idempotency_row, name), false},
static const struct dz_registry_column idempotency_columns[] = {DZ_IDEMPOTENCY_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_idempotency_table = {
    .name = "idempotency",
    .what = "idempotency key",
    .columns = idempotency_columns,
    .count = DZ_ARRAY_LEN(idempotency_columns),
    .text_offset = offsetof(struct dz_idempotency_row, text),
    .lapses = true,
    .of_tenant = true,
};

#define T(name) {#name, offsetof(struct dz_schedule_row, name), true},
#define I(name) {#name, offsetof(struct dz_schedule_row, name), false},
static const struct dz_registry_column schedule_columns[] = {DZ_SCHEDULE_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_schedule_table = {
    .name = "schedule",
    .what = "schedule",
    .columns = schedule_columns,
    .count = DZ_ARRAY_LEN(schedule_columns),
    .text_offset = offsetof(struct dz_schedule_row, text),
    .hangers = schedule_hangers,
};

#define T(name) {#name, offsetof(struct dz_schedule_run_row, name), true},
#define I(name) {#name, offsetof(struct dz_schedule_run_row, name), false},
static const struct dz_registry_column schedule_run_columns[] = {DZ_SCHEDULE_RUN_COLUMNS(T, I)};
#undef T
#undef I
const struct dz_registry_table dz_schedule_run_table = {
    .name = "schedule_run",
    .what = "run",
    .columns = schedule_run_columns,
    .count = DZ_ARRAY_LEN(schedule_run_columns),
    .text_offset = offsetof(struct dz_schedule_run_row, text),
    .alias = "schedule_id",
};

const struct dz_registry_table *const dz_registry_tables[] = {
    &dz_tenant_table,
    &dz_token_table,
    &dz_snapshot_table,
    &dz_volume_table,
    &dz_fork_table,
    &dz_ref_table,
    &dz_workbook_table,
    &dz_idempotency_table,
    &dz_schedule_table,
    &dz_schedule_run_table,
    NULL,
};

/* --- rows of any table ----------------------------------------------------------- */

void dz_registry_record_release(const struct dz_registry_table *t, void *row)
{
    char *text;
    memcpy(&text, (char *)row + t->text_offset, sizeof text);
    dz_free(text);
    memset(row, 0, t->text_offset + sizeof text);
}

int dz_registry_column_of(const struct dz_registry_table *t, const char *name)
{
    for (size_t c = 0; c < t->count; c++)
        if (strcmp(t->columns[c].name, name) == 0)
            return (int)c;
    return -1;
}

int dz_registry_check_texts(const struct dz_registry_table *t, const void *row, uint64_t set,
                            struct dz_err *err)
{
    for (size_t c = 0; c < t->count; c++)
        if (set & UINT64_C(1) << c && t->columns[c].text &&
            strlen(dz_row_text(t, row, (int)c)) > DZ_REGISTRY_TEXT_MAX)
            return dz_fail(err, DZ_ELIMIT, "the %s of a %s is longer than %d bytes",
                           t->columns[c].name, t->what, DZ_REGISTRY_TEXT_MAX);
    return 0;
}
