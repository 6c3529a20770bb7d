/* SPDX-License-Identifier: MIT
 *
 * control_quota.c - usage and quotas of tenants and tokens.
 *
 * A struct usage is the usage of one tenant or token. It is made when it is first needed, by
 * counting the registry's rows, and then updated by each change. The usage of a token counts the
 * sandboxes that were created with it. Disk space changes without notice when guests write. So for
 * a tenant or token with a quota of disk space, the blocks of files and WALs are measured again and
 * again, and the cells of its sandboxes are notified how much is left; between two measurements
 * each cell may take that amount once. A cell that takes far more than it may is killed.
 */
#include "control/control_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum {
    MEASURE_MS = 1000, /* interval at which files with a quota or limit are measured */
    /* extra space that a cell may take within its limit: indexes, WAL, blocks */
    /* rows that are measured at a time, for each tenant */
    DISK_SLACK = 64 << 20,
    MEASURE_ROWS = 1000,
    WANTED_MS = 60000, /* the disk space is measured for this long after a request for it */
};

struct usage {
    struct dz_control_usage now;
    struct dz_quotas own; /* DZ_QUOTA_DEFAULT: the server's */
    bool token, measured;
    int64_t keys; /* -1: not counted yet */
    int64_t next; /* creations: the theoretical arrival time of the next one, ns */
    int64_t wanted_ms;
    uint64_t sum;
    uint64_t promised;   /* disk space that copies in progress will take */
    uint64_t file_cells; /* cells that have only a file */
    char tenant[DZ_CONTROL_VALUE_MAX + 1];
    char after[DZ_COLD_KEY]; /* position of the measurement in progress */
    char name[];             /* a tenant, or "@" and a token's id */
};

static const struct dz_quotas quotas_default = {
#define X(name, text) .name = DZ_QUOTA_DEFAULT,
    DZ_QUOTAS(X)
#undef X
};

/* --- the table --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t at;
} fields[] = {
#define X(name, text) {#name, offsetof(struct dz_quotas, name)},
    DZ_QUOTAS(X)
#undef X
};

static uint64_t *field(struct dz_quotas *q, size_t i)
{
    return (uint64_t *)(void *)((char *)q + fields[i].at);
}

static uint64_t limit(const struct dz_control *e, const struct usage *u, size_t at)
{
    uint64_t own, server;
    memcpy(&own, (const char *)&u->own + at, sizeof own);
    memcpy(&server, (const char *)&e->quotas + at, sizeof server);
    return own != DZ_QUOTA_DEFAULT ? own : u->token ? DZ_QUOTA_NONE : server;
}
#define LIMIT(e, u, name) limit((e), (u), offsetof(struct dz_quotas, name))

/* --- as JSON ------------------------------------------------------------------------------- */

static int read_one(const char *name, const json_t *v, struct dz_quotas *q, struct dz_why *why)
{
    char where[64];
    const char *word = json_string_value(v);
    size_t i = 0;
    (void)snprintf(where, sizeof where, "quotas.%.40s", name);
    while (i < DZ_ARRAY_LEN(fields) && strcmp(fields[i].name, name) != 0)
        i++;
    if (i == DZ_ARRAY_LEN(fields))
        return dz_why(why, DZ_EINVAL, where, "%s: unknown quota", where);
    if (word && strcmp(word, "default") == 0)
        *field(q, i) = DZ_QUOTA_DEFAULT;
    else if (word && strcmp(word, "unlimited") == 0)
        *field(q, i) = DZ_QUOTA_NONE;
    else if (json_is_integer(v) && json_integer_value(v) >= 0)
        *field(q, i) = (uint64_t)json_integer_value(v);
    else
        return dz_why(why, DZ_EINVAL, where,
                      "%s: must be a whole number, 0 or more, or \"unlimited\" or \"default\"",
                      where);
    return 0;
}

int dz_quotas_read(const char *json, struct dz_quotas *q, struct dz_why *why)
{
    json_error_t bad;
    const char *key;
    json_t *v, *o = json && json[0] ? json_loads(json, 0, &bad) : json_object();
    int rc = json_is_object(o) ? 0 : dz_why(why, DZ_EINVAL, "quotas", "quotas: must be an object");
    if (rc == 0)
        json_object_foreach(o, key, v)
        {
            rc = read_one(key, v, q, why);
            if (rc < 0)
                break;
        }
    json_decref(o);
    return rc;
}

/* The quotas that are set, as JSON for the row. */
static char *quotas_text(struct dz_quotas *q)
{
    struct dz_buf b = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    size_t n;
    dz_json_init(&j, &b, false);
    dz_json_object(&j);
    for (size_t i = 0; i < DZ_ARRAY_LEN(fields); i++)
        if (*field(q, i) == DZ_QUOTA_NONE)
            dz_json_put_strz(&j, fields[i].name, "unlimited");
        else if (*field(q, i) != DZ_QUOTA_DEFAULT)
            dz_json_put_u64(&j, fields[i].name, *field(q, i));
    dz_json_end(&j);
    char *text = dz_json_finish(&j) < 0 ? NULL : dz_buf_detach(&b, &n);
    dz_buf_release(&b);
    return text;
}

/* --- uses ---------------------------------------------------------------------------------- */

static int load(struct dz_control *e, struct usage *u, struct dz_err *err)
{
    DZ_AUTO(dz_tenant_row_release) struct dz_tenant_row tenant = {0};
    DZ_AUTO(dz_token_row_release) struct dz_token_row token = {0};
    const struct dz_registry_filter rows = {.tenant = u->tenant,
                                            .owner = u->token ? u->name + 1 : NULL};
    struct dz_why why;
    int64_t n = 0;
    int rc = u->token ? dz_registry_token_get(e->registry, NULL, u->name + 1, &token, err)
                      : dz_registry_tenant_get(e->registry, NULL, u->name, &tenant, err);
    if (rc < 0 && rc != DZ_ENOENT)
        return rc;
    u->own = quotas_default;
    if (rc == 0 && dz_quotas_read(u->token ? token.quotas : tenant.quotas, &u->own, &why) < 0)
        dz_log(DZ_LOG_WARN, "quotas_unreadable", dz_log_strz("of", u->name), dz_log_err(&why.err));
    rc = dz_registry_count(e->registry, &rows, &n, err);
    u->now.sandboxes = (uint64_t)n;
    return rc;
}

static struct usage *usage_of(struct dz_control *e, const char *tenant, const char *token)
{
    char name[DZ_CONTROL_VALUE_MAX + 2];
    struct dz_err err;
    (void)snprintf(name, sizeof name, "%s%s", token ? "@" : "", token ? token : tenant);
    struct usage *u = dz_map_get(&e->usages, dz_str(name));
    if (u)
        return u;
    u = dz_zalloc(sizeof *u + strlen(name) + 1);
    if (!u)
        return NULL;
    memcpy(u->name, name, strlen(name) + 1);
    (void)snprintf(u->tenant, sizeof u->tenant, "%s", tenant);
    u->token = token != NULL;
    u->keys = -1;
    int rc = load(e, u, &err);
    if (rc < 0)
        dz_log(DZ_LOG_WARN, "usage_unknown", dz_log_strz("of", name), dz_log_err(&err));
    if (rc == 0 && dz_map_put(&e->usages, dz_str(u->name), u, NULL) == 0)
        return u;
    dz_free(u);
    return NULL;
}

static struct usage *known(struct dz_control *e, const char *tenant, const char *token)
{
    char name[DZ_CONTROL_VALUE_MAX + 2];
    (void)snprintf(name, sizeof name, "%s%s", token ? "@" : "", token ? token : tenant);
    return dz_map_get(&e->usages, dz_str(name));
}

/* The usages that a request changes: its tenant's and its token's. */
struct both {
    struct usage *u[2];
};

static int both_of(struct dz_control *e, const char *tenant, const char *token, struct both *ret,
                   struct dz_why *why)
{
    bool has_token = token && token[0];
    ret->u[0] = usage_of(e, tenant, NULL);
    ret->u[1] = has_token ? usage_of(e, tenant, token) : NULL;
    if (!ret->u[0] || (has_token && !ret->u[1]))
        return dz_why(why, DZ_EBUSY, NULL,
                      "the usage of tenant %s is not known at the moment; try again", tenant);
    return 0;
}

void dz_usage_counted(struct dz_control *e, const struct dz_instance *row, int by)
{
    struct usage *u[] = {known(e, row->tenant, NULL),
                         row->owner && row->owner[0] ? known(e, row->tenant, row->owner) : NULL};
    for (size_t i = 0; i < DZ_ARRAY_LEN(u); i++)
        if (u[i] && (by > 0 || u[i]->now.sandboxes > 0))
            u[i]->now.sandboxes += (uint64_t)(int64_t)by;
}

/* --- checking ----------------------------------------------------------------------------------
 */

static int over(const struct usage *u, const char *quota, uint64_t limit, uint64_t has,
                struct dz_why *why)
{
    return dz_why(why, DZ_EQUOTA, quota, "%s %s: the quota %s is %llu, and %llu are in use",
                  u->token ? "token" : "tenant", u->token ? u->name + 1 : u->name, quota,
                  (unsigned long long)limit, (unsigned long long)has);
}

/* Would `more` exceed this quota? */
#define CHECK(e, u, name, more, why)                                                           \
    (LIMIT(e, u, name) != DZ_QUOTA_NONE &&                                                     \
             ((u)->now.name > LIMIT(e, u, name) || (more) > LIMIT(e, u, name) - (u)->now.name) \
         ? over((u), #name, LIMIT(e, u, name), (u)->now.name, (why))                           \
         : 0)

/* A token bucket with the size of one minute, represented by the time at which it is full again. */
static int rate(const struct dz_control *e, struct usage *u, bool take, struct dz_why *why)
{
    uint64_t n = LIMIT(e, u, creations_per_minute);
    int64_t now = dz_clock_mono_ns(), minute = 60 * DZ_NS_PER_S;
    if (n == DZ_QUOTA_NONE)
        return 0;
    int64_t each = n ? minute / (int64_t)n : minute, base = u->next > now ? u->next : now;
    if (n == 0 || base + each - now > minute) {
        int rc = dz_why(why, DZ_ERATE, "creations_per_minute",
                        "%s %s: the quota creations_per_minute is %llu; try again later",
                        u->token ? "token" : "tenant", u->token ? u->name + 1 : u->name,
                        (unsigned long long)n);
        int64_t wait = base + each - now - minute;
        why->retry_s = n == 0 ? 60 : (unsigned)(wait / DZ_NS_PER_S) + 1;
        return rc;
    }
    if (take)
        u->next = base + each;
    return 0;
}

static int check_warm(const struct dz_control *e, const struct usage *u, uint64_t memory,
                      struct dz_why *why)
{
    int rc = CHECK(e, u, warm_sandboxes, 1, why);
    return rc < 0 ? rc : CHECK(e, u, memory_bytes, memory, why);
}

static int check_create(const struct dz_control *e, struct usage *u,
                        const struct dz_control_creation *c, struct dz_why *why)
{
    int rc = CHECK(e, u, sandboxes, 1, why);
    if (rc == 0)
        rc = CHECK(e, u, creations, 1, why);
    if (rc == 0 && c->starts)
        rc = check_warm(e, u, c->memory_bytes, why);
    return rc < 0 ? rc : rate(e, u, false, why);
}

/* --- measuring ------------------------------------------------------------------------------ */

/* Sizes in old rows were reported by cells and may be wrong: the sum saturates. */
static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t snapshot_bytes(struct dz_control *e, const char *tenant)
{
    char after[DZ_COLD_KEY] = "";
    uint64_t sum = 0;
    for (bool more = true; more;) {
        DZ_AUTO(dz_snapshot_rows_release)
        struct dz_snapshot_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        const struct dz_registry_record_filter f = {.tenant = tenant, .after = after};
        if (dz_registry_snapshot_list(e->registry, &f, &rows, NULL) < 0)
            break;
        for (size_t i = 0; i < rows.n; i++) {
            sum = plus(sum, rows.p[i].size > 0 ? (uint64_t)rows.p[i].size : 0);
            (void)snprintf(after, sizeof after, "%s", rows.p[i].id);
        }
        more = rows.n == DZ_REGISTRY_LIST_MAX;
    }
    return sum;
}

/* Measure the next rows; after the last one the sum becomes the usage. False: that was the last
 * one. */
static bool measure(struct dz_control *e, struct usage *u)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_filter f = {.tenant = u->tenant,
                                         .owner = u->token ? u->name + 1 : NULL,
                                         .after = u->after,
                                         .limit = MEASURE_ROWS};
    if (dz_registry_list(e->registry, &f, &rows, NULL) < 0)
        return false;
    for (size_t i = 0; i < rows.n; i++) {
        u->sum = plus(u->sum, dz_control_file_bytes(e, &rows.p[i]));
        (void)snprintf(u->after, sizeof u->after, "%s", rows.p[i].id);
    }
    if (rows.n == MEASURE_ROWS)
        return true;
    u->now.disk_bytes = plus(u->sum, u->token ? 0 : snapshot_bytes(e, u->name));
    u->measured = true;
    u->sum = 0;
    u->after[0] = '\0';
    return false;
}

/* --- room for copies ---------------------------------------------------------------------------
 */

static struct both known_both(const struct dz_room *room)
{
    const struct dz_room *r = room;
    return (struct both){
        {known(r->e, r->tenant, NULL), r->token[0] ? known(r->e, r->tenant, r->token) : NULL}};
}

/* A quota holds from the first request on: measure now if it was never measured. */
static int check_disk(struct dz_control *e, struct usage *u, uint64_t more, struct dz_why *why)
{
    uint64_t max = LIMIT(e, u, disk_bytes);
    if (max == DZ_QUOTA_NONE)
        return 0;
    for (bool rest = true; rest && !u->measured;)
        rest = measure(e, u);
    uint64_t has = plus(u->now.disk_bytes, u->promised);
    return has > max || more > max - has ? over(u, "disk_bytes", max, has, why) : 0;
}

/* A new file needs at least some space, even if its size is not known. */
static int check_room(struct dz_control *e, const struct both *b, uint64_t more, bool shared,
                      struct dz_why *why)
{
    int rc = dz_space_check_for(e, shared && e->space.shares ? 0 : more, why);
    for (size_t i = 0; i < DZ_ARRAY_LEN(b->u) && rc == 0; i++)
        rc = b->u[i] ? check_disk(e, b->u[i], more ? more : 1, why) : 0;
    return rc;
}

static void promise(const struct dz_room *room, uint64_t more, uint64_t less)
{
    const struct both b = known_both(room);
    if (!(room->shared && room->e->space.shares))
        room->e->space.promised += more - less;
    for (size_t i = 0; i < DZ_ARRAY_LEN(b.u); i++)
        if (b.u[i])
            b.u[i]->promised += more - less;
}

int dz_room_check(struct dz_control *e, const struct dz_room_of *of, struct dz_why *why)
{
    struct both b;
    int rc = both_of(e, of->tenant, of->token, &b, why);
    return rc == 0 ? check_room(e, &b, of->bytes, of->shared, why) : rc;
}

int dz_room_take(struct dz_control *e, const struct dz_room_of *of, struct dz_room *ret_room,
                 struct dz_why *why)
{
    int rc = dz_room_check(e, of, why);
    if (rc < 0)
        return rc;
    *ret_room = (struct dz_room){.e = e, .bytes = of->bytes, .shared = of->shared};
    (void)snprintf(ret_room->tenant, sizeof ret_room->tenant, "%s", of->tenant);
    (void)snprintf(ret_room->token, sizeof ret_room->token, "%s", of->token ? of->token : "");
    promise(ret_room, of->bytes, 0);
    return 0;
}

int dz_room_resize(struct dz_room *room, uint64_t bytes, struct dz_why *why)
{
    const struct both b = known_both(room);
    int rc = 0;
    if (bytes > room->bytes)
        rc = check_room(room->e, &b, bytes - room->bytes, room->shared, why);
    if (rc < 0)
        return rc;
    promise(room, bytes, room->bytes);
    room->bytes = bytes;
    return 0;
}

void dz_room_end(struct dz_room *room, bool kept)
{
    if (!room->e)
        return;
    const struct both b = known_both(room);
    promise(room, 0, room->bytes);
    for (size_t i = 0; i < DZ_ARRAY_LEN(b.u) && kept; i++)
        if (b.u[i] && b.u[i]->measured)
            b.u[i]->now.disk_bytes = plus(b.u[i]->now.disk_bytes, room->bytes);
    room->e = NULL;
}

/* --- creations --------------------------------------------------------------------------------
 */

struct dz_creating {
    struct dz_control *e;
    dz_sandbox_done_fn *done;
    void *arg;
    struct dz_room room;
};

struct dz_creating *dz_usage_create(struct dz_control *e, const struct dz_control_creation *c,
                                    dz_sandbox_done_fn *done, void *arg, struct dz_why *why)
{
    const struct dz_room_of file = {c->tenant, c->token, c->copy_bytes, c->shared};
    struct dz_creating *creating = dz_zalloc(sizeof *creating);
    struct both b;
    int rc = creating ? 0 : dz_why(why, DZ_ENOMEM, NULL, "create: out of memory");
    if (rc == 0)
        rc = both_of(e, c->tenant, c->token, &b, why);
    for (size_t i = 0; i < 2 && rc == 0; i++)
        rc = b.u[i] ? check_create(e, b.u[i], c, why) : 0;
    if (rc == 0)
        rc = dz_room_take(e, &file, &creating->room, why);
    if (rc < 0) {
        dz_free(creating);
        return NULL;
    }
    creating->e = e;
    creating->done = done;
    creating->arg = arg;
    for (size_t i = 0; i < 2; i++)
        if (b.u[i]) {
            b.u[i]->now.creations++;
            (void)rate(e, b.u[i], true, why);
        }
    return creating;
}

int dz_usage_room(struct dz_control *e, const char *tenant, const char *token, struct dz_why *why)
{
    struct both b;
    int rc = both_of(e, tenant, token, &b, why);
    for (size_t i = 0; i < 2 && rc == 0; i++)
        rc = b.u[i] ? CHECK(e, b.u[i], sandboxes, 1, why) : 0;
    return rc;
}

static void create_over(struct dz_creating *c, bool kept)
{
    const struct both b = known_both(&c->room);
    for (size_t i = 0; i < DZ_ARRAY_LEN(b.u); i++)
        if (b.u[i] && b.u[i]->now.creations)
            b.u[i]->now.creations--;
    dz_room_end(&c->room, kept);
    dz_free(c);
}

void dz_usage_create_over(struct dz_creating *c)
{
    create_over(c, false);
}

void dz_usage_created(void *creating, const struct dz_sandbox_result *result)
{
    struct dz_creating *c = creating;
    dz_sandbox_done_fn *done = c->done;
    void *arg = c->arg;
    create_over(c, result->code == 0);
    done(arg, result);
}

/* --- machines ----------------------------------------------------------------------------------
 */

int dz_usage_may_wake(struct dz_control *e, const struct dz_instance *row, struct dz_why *why)
{
    const struct dz_sandbox *s = dz_sandbox_find(e->sandboxes, row->id);
    struct both b;
    if (s && s->counted)
        return 0;
    int rc = dz_space_check(e, DZ_SPACE_OUT, why);
    if (rc == 0)
        rc = both_of(e, row->tenant, row->owner, &b, why);
    for (size_t i = 0; i < 2 && rc == 0; i++)
        rc = b.u[i] ? check_warm(e, b.u[i], (uint64_t)row->memory, why) : 0;
    return rc;
}

/* May another file-only cell be opened? Each counts as an awake sandbox, but a wake is never
 * refused because of them: an unused file-only cell ends within a second. A tenant whose awake
 * sandboxes use up the quota may still open one at a time, so that files of a sleeping sandbox can
 * always be read. DZ_EQUOTA, DZ_EBUSY: try again when one of the open cells has ended. */
int dz_usage_may_open(struct dz_control *e, const struct dz_instance *row, struct dz_why *why)
{
    struct both b;
    int rc = both_of(e, row->tenant, row->owner, &b, why);
    for (size_t i = 0; i < 2 && rc == 0; i++)
        if (b.u[i] && b.u[i]->file_cells > 0)
            rc = CHECK(e, b.u[i], warm_sandboxes, b.u[i]->file_cells + 1, why);
    if (rc == 0 && b.u[0]->file_cells >= DZ_CONTROL_FILE_CELLS_MAX)
        rc = dz_why(
            why, DZ_EBUSY, NULL,
            "tenant %s has the files of %d sleeping sandboxes open, which is the limit: try again",
            row->tenant, DZ_CONTROL_FILE_CELLS_MAX);
    return rc;
}

static void count_file(struct dz_control *e, struct dz_sandbox *s, int by)
{
    struct usage *u[] = {known(e, s->tenant, NULL),
                         s->owner[0] ? known(e, s->tenant, s->owner) : NULL};
    s->file_counted = by > 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(u); i++)
        if (u[i])
            u[i]->file_cells += (uint64_t)by;
    if (by < 0)
        dz_files_room(e->sandboxes);
}

void dz_usage_open(struct dz_control *e, struct dz_sandbox *s, const struct dz_instance *row)
{
    (void)snprintf(s->owner, sizeof s->owner, "%s", row->owner);
    count_file(e, s, 1);
}

int dz_usage_warm(struct dz_control *e, struct dz_sandbox *s, const struct dz_instance *row,
                  struct dz_why *why)
{
    struct both b;
    if (s->counted)
        return 0;
    int rc = dz_usage_may_wake(e, row, why);
    if (rc == 0)
        rc = both_of(e, row->tenant, row->owner, &b, why);
    if (rc < 0)
        return rc;
    if (s->file_counted)
        count_file(e, s, -1);
    s->counted = true;
    s->memory = (uint64_t)row->memory;
    (void)snprintf(s->owner, sizeof s->owner, "%s", row->owner);
    for (size_t i = 0; i < 2; i++)
        if (b.u[i]) {
            b.u[i]->now.warm_sandboxes++;
            b.u[i]->now.memory_bytes += s->memory;
        }
    return 0;
}

void dz_usage_cold(struct dz_control *e, struct dz_sandbox *s)
{
    struct usage *u[] = {known(e, s->tenant, NULL),
                         s->owner[0] ? known(e, s->tenant, s->owner) : NULL};
    dz_files_room(e->sandboxes);
    if (s->file_counted)
        count_file(e, s, -1);
    if (!s->counted)
        return;
    s->counted = false;
    for (size_t i = 0; i < DZ_ARRAY_LEN(u); i++)
        if (u[i]) {
            u[i]->now.warm_sandboxes--;
            u[i]->now.memory_bytes -= s->memory;
        }
}

/* --- disk space ----------------------------------------------------------------------------------
 */

static uint64_t left_of(const struct dz_control *e, const struct usage *u)
{
    uint64_t max = LIMIT(e, u, disk_bytes), has = plus(u->now.disk_bytes, u->promised);
    return max == DZ_QUOTA_NONE || !u->measured ? UINT64_MAX : max > has ? max - has : 0;
}

void dz_usage_notify_disk(struct dz_control *e, struct dz_sandbox *s)
{
    const struct usage *t = known(e, s->tenant, NULL);
    const struct usage *o = s->owner[0] ? known(e, s->tenant, s->owner) : NULL;
    uint64_t left = t ? left_of(e, t) : UINT64_MAX, of_token = o ? left_of(e, o) : UINT64_MAX;
    left = of_token < left ? of_token : left;
    if (!s->cell || left == s->disk_left || (left == UINT64_MAX && s->disk_left == 0))
        return;
    struct dz_err err;
    s->disk_left = left;
    if (s->ops->room(s->cell, left, &err) < 0)
        dz_log(DZ_LOG_WARN, "room_not_told", dz_log_strz("sandbox_id", s->id), dz_log_err(&err));
    dz_sandbox_watch_cell(s);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How much the sandbox may take by its own limit and by the quotas of its tenant and token. */
static uint64_t room_of(struct dz_control *e, const struct dz_sandbox *s)
{
    const struct usage *u[] = {known(e, s->tenant, NULL),
                               s->owner[0] ? known(e, s->tenant, s->owner) : NULL};
    uint64_t own = s->disk_limit ? s->disk_limit : e->space.opts.sandbox_bytes;
    uint64_t room = own ? own : DZ_QUOTA_NONE;
    for (size_t i = 0; i < DZ_ARRAY_LEN(u); i++)
        room = u[i] ? least(room, LIMIT(e, u[i], disk_bytes)) : room;
    return room;
}

/* An honest cell obeys its limits; a compromised one does not. Besides its limit an honest cell may
 * take the memory of its machine, a WAL of both, and what the file system and the database add. 0:
 * it has no limit. */
uint64_t dz_usage_most(struct dz_control *e, const struct dz_sandbox *s)
{
    uint64_t room = room_of(e, s);
    return room > UINT64_MAX / 4 || s->disk_state > UINT64_MAX / 4
               ? 0
               : 2 * (room + s->disk_state) + DISK_SLACK;
}

static void end_greedy(struct dz_sandbox *s, const char *whose, uint64_t bytes, uint64_t most)
{
    char text[200];
    (void)snprintf(text, sizeof text,
                   "the sandbox's %s %.1f MiB of the disk and may take %.1f MiB at most: its cell "
                   "did not obey its limit and was killed",
                   whose, (double)bytes / (1 << 20), (double)most / (1 << 20));
    dz_sandbox_end_cell(s, DZ_EQUOTA, "disk_exceeded", text);
}

/* Kill one cell that took far more than it may, in its own files or in a snapshot that it is
 * writing. True: there may be more such cells. */
static bool kill_greedy(struct dz_control *e, bool *any)
{
    DZ_MAP_FOREACH(it, dz_sandboxes_map(e->sandboxes)) {
        struct dz_sandbox *s = it->value;
        uint64_t most = s->cell ? dz_usage_most(e, s) : 0;
        uint64_t live = most ? dz_live_bytes(e, s->id) : 0, copy = most ? dz_copy_bytes(s) : 0;
        *any |= most != 0;
        if (live > most || copy > most) {
            end_greedy(s, live > most ? "files take" : "new snapshot takes",
                       live > most ? live : copy, most);
            return true; /* s may be freed now, and with it the position in the map */
        }
    }
    return false;
}

void dz_usages_measure(void *arg)
{
    struct dz_control *e = arg;
    bool any = false, more = kill_greedy(e, &any);
    DZ_MAP_FOREACH(it, &e->usages) {
        struct usage *u = it->value;
        if (LIMIT(e, u, disk_bytes) == DZ_QUOTA_NONE && dz_clock_mono_ms() > u->wanted_ms)
            continue;
        (void)measure(e, u);
        any = true;
    }
    if (any)
        DZ_MAP_FOREACH(it, dz_sandboxes_map(e->sandboxes))
            dz_usage_notify_disk(e, it->value);
    dz_timer_after(e->measure, more ? 0 : any ? MEASURE_MS : 10 * MEASURE_MS);
}

/* --- schedules --------------------------------------------------------------------------- */

static int count_schedules(struct dz_control *e, struct usage *u, struct dz_why *why)
{
    const struct dz_registry_record_filter of = {.tenant = u->tenant};
    struct dz_err err;
    int64_t n = 0;
    int rc = dz_registry_schedule_count(e->registry, &of, &n, &err);
    if (rc < 0)
        return dz_why_err(why, rc, &err);
    u->now.schedules = (uint64_t)n;
    return 0;
}

int dz_usage_schedule(struct dz_control *e, const char *tenant, struct dz_why *why)
{
    struct both b;
    int rc = both_of(e, tenant, NULL, &b, why);
    if (rc == 0)
        rc = count_schedules(e, b.u[0], why);
    return rc < 0 ? rc : CHECK(e, b.u[0], schedules, 1, why);
}

/* --- asked and set
 * -------------------------------------------------------------------------------- */

int dz_control_quotas(struct dz_control *e, const struct dz_control_caller *who, const char *tenant,
                      struct dz_control_quota_state *ret, struct dz_why *why)
{
    bool self = strcmp(tenant, "self") == 0;
    const char *name = self ? who->tenant : tenant;
    struct dz_why inner;
    if (!who->is_operator && strcmp(name, who->tenant) != 0)
        return dz_why(why, DZ_ENOENT, NULL, "there is no tenant %s", name);
    if (dz_control_check_name(name, &inner) < 0)
        return dz_why(why, DZ_EINVAL, "tenant", "%s is not a valid tenant name", name);
    struct usage *u = usage_of(e, name, self ? who->token : NULL);
    struct usage *t = self && who->token ? usage_of(e, name, NULL) : u;
    if (!u || !t)
        return dz_why(why, DZ_EBUSY, NULL,
                      "the usage of tenant %s is not known at the moment; try again", name);
    int rc = count_schedules(e, t, why);
    if (rc < 0)
        return rc;
    t->wanted_ms = dz_clock_mono_ms() + WANTED_MS;
    dz_timer_after(e->measure, 0);
    *ret = (struct dz_control_quota_state){
        .used = t->now, .measured = t->measured, .has_token = t != u};
    (void)snprintf(ret->tenant, sizeof ret->tenant, "%s", name);
    for (size_t i = 0; i < DZ_ARRAY_LEN(fields); i++) {
        *field(&ret->quotas, i) = limit(e, t, fields[i].at);
        *field(&ret->token_quotas, i) = limit(e, u, fields[i].at);
    }
    ret->token_used = u->now;
    return 0;
}

int dz_control_tenants(struct dz_control *e, const struct dz_control_caller *who, const char *after,
                       size_t limit, struct dz_tenant_rows *rows, struct dz_why *why)
{
    const struct dz_registry_record_filter f = {.after = after, .limit = limit};
    struct dz_err err;
    if (!who->is_operator)
        return dz_why(why, DZ_EDENIED, NULL, "only the operator can list tenants");
    /* a tenant can have sandboxes without a token */
    int rc = dz_control_know_tenant(e, who->tenant, &err);
    if (rc == 0)
        rc = dz_registry_tenant_list(e->registry, &f, rows, &err);
    return rc < 0 ? dz_why_err(why, rc, &err) : 0;
}

/* Write what is set into the tenant's row, and remember the quotas. */
static int change_tenant(struct dz_control *e, struct usage *u, const char *tenant,
                         const struct dz_control_tenant_set *set, struct dz_why *why)
{
    DZ_AUTO(dz_tenant_row_release) struct dz_tenant_row row = {0};
    struct dz_quotas q = u->own;
    uint64_t columns = set->replica ? DZ_ROW_COLUMN(tenant, replica) : 0;
    int rc = set->quotas ? dz_quotas_read(set->quotas, &q, why) : 0;
    if (rc == 0)
        rc = dz_control_know_tenant(e, tenant, &why->err);
    DZ_AUTO(dz_freep) char *text = rc == 0 && set->quotas ? quotas_text(&q) : NULL;
    if (rc == 0 && set->quotas && !text)
        rc = dz_why(why, DZ_ENOMEM, NULL, "out of memory");
    if (rc == 0)
        rc = dz_registry_tenant_get(e->registry, NULL, tenant, &row, &why->err);
    if (rc < 0)
        return rc;
    struct dz_tenant_row to = row;
    if (set->quotas) {
        to.quotas = text;
        columns |= DZ_ROW_COLUMN(tenant, quotas);
    }
    if (set->replica)
        to.replica = strcmp(set->replica, DZ_CONTROL_REPLICA_DEFAULT) == 0 ? "" : set->replica;
    rc = dz_registry_tenant_change(e->registry, &to, columns, true, &why->err);
    if (rc == 0)
        u->own = q;
    return rc;
}

int dz_control_set_tenant(struct dz_control *e, const struct dz_control_caller *who,
                          const char *tenant, const struct dz_control_tenant_set *set,
                          struct dz_why *why)
{
    struct dz_control_quota_state state;
    if (!who->is_operator)
        return dz_why(why, DZ_EDENIED, NULL, "only the operator can set quotas and replicas");
    int rc = dz_control_quotas(e, who, tenant, &state, why);
    struct usage *u = rc == 0 ? usage_of(e, state.tenant, NULL) : NULL;
    if (rc < 0 || !u)
        return rc < 0 ? rc : DZ_ENOMEM;
    rc = dz_replica_check_url(set->replica, true, why);
    if (rc == 0 && (set->quotas || set->replica))
        rc = change_tenant(e, u, state.tenant, set, why);
    if (rc < 0)
        return rc;
    if (set->replica)
        dz_replica_rows(e, state.tenant);
    dz_files_room(e->sandboxes);
    u->measured = u->measured && u->own.disk_bytes != DZ_QUOTA_NONE;
    dz_timer_after(e->measure, 0);
    return 0;
}

/* --- keys -------------------------------------------------------------------------------- */

int dz_usage_key(struct dz_control *e, const char *tenant, struct dz_why *why)
{
    const struct dz_registry_record_filter f = {.tenant = tenant};
    struct usage *u = usage_of(e, tenant, NULL);
    int rc = u ? 0
               : dz_why(why, DZ_EBUSY, NULL,
                        "the usage of tenant %s is not known at the moment; try again", tenant);
    if (rc == 0 && u->keys < 0) {
        rc = dz_registry_idempotency_count(e->registry, &f, &u->keys, &why->err);
        if (rc < 0)
            return dz_why_err(why, rc, &why->err);
    }
    if (rc == 0 && u->keys >= DZ_CONTROL_KEYS_MAX)
        rc = dz_why(why, DZ_EQUOTA, "Idempotency-Key",
                    "tenant %s already has %d idempotency keys, which is the limit; each is kept "
                    "for a day",
                    tenant, DZ_CONTROL_KEYS_MAX);
    if (rc == 0)
        u->keys++;
    return rc;
}

void dz_usages_recount_keys(struct dz_control *e)
{
    DZ_MAP_FOREACH(it, &e->usages)
        ((struct usage *)it->value)->keys = -1;
}

void dz_usages_release(struct dz_control *e)
{
    DZ_MAP_FOREACH(it, &e->usages)
        dz_free(it->value);
    dz_map_release(&e->usages);
}
