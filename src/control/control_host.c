/* SPDX-License-Identifier: MIT
 *
 * control_host.c - what the sandbox module asks of the control plane: files and images for cells,
 * quotas, empty disks, and calls that look inside a file.
 *
 * make, settle and carry run on workers and use only the constant parts of the control plane; all
 * others run on the loop's thread.
 */
#include "control/control_int.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "cell/cell_disk.h"
#include "cell/cell_users.h"
#include "db/db.h"
#include "kernel/kernel.h"
#include "vfs/vfs.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- the clock ------------------------------------------------------------------------------- */

/* The file DATA/clock: the machine's boot id and three numbers of struct dz_sandbox_clock. */
#define CLOCK_FORMAT "%36s %" SCNd64 " %" SCNd64 " %" SCNd64

enum {
    CLOCK_TEXT = 128,
};

static void clock_path(const struct dz_control *e, char ret[static DZ_PATH_MAX])
{
    (void)snprintf(ret, DZ_PATH_MAX, "%s/clock", e->data_path);
}

static bool host_clock_load(void *arg, struct dz_sandbox_clock *ret_clock)
{
    struct dz_buf b = DZ_BUF_INIT(CLOCK_TEXT);
    char path[DZ_PATH_MAX], boot[DZ_BOOT_ID], was[DZ_BOOT_ID] = "";
    struct dz_sandbox_clock c = {0};
    clock_path(arg, path);
    bool known = dz_fd_read_file(AT_FDCWD, path, &b, NULL) == 0 && b.len > 0 &&
                 sscanf(b.p, CLOCK_FORMAT, was, &c.offset_ms, &c.skew_ms, &c.seen_ms) == 4;
    dz_buf_release(&b);
    dz_clock_boot_id(boot);
    c.same_boot = known && boot[0] && strcmp(boot, was) == 0;
    if (known)
        *ret_clock = c;
    return known;
}

static void host_clock_save(void *arg, const struct dz_sandbox_clock *clock)
{
    char path[DZ_PATH_MAX], boot[DZ_BOOT_ID], text[CLOCK_TEXT];
    struct dz_err err;
    clock_path(arg, path);
    dz_clock_boot_id(boot);
    int n = snprintf(text, sizeof text, "%s %" PRId64 " %" PRId64 " %" PRId64 "\n",
                     boot[0] ? boot : "-", clock->offset_ms, clock->skew_ms, clock->seen_ms);
    if (dz_fd_replace(AT_FDCWD, path, text, (size_t)n, 0600, &err) < 0)
        dz_log(DZ_LOG_WARN, "clock_not_saved", dz_log_err(&err));
}

/* --- files made ahead --------------------------------------------------------------------------
 */

/* Write an empty disk. Any thread. */
static int write_empty(struct dz_blob_out *out, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    int rc = dz_vfs_template_sleeper(&t, err);
    return rc < 0 ? rc : dz_blob_out_write(out, t.p, t.len, err);
}

int dz_prealloc_init(struct dz_prealloc *r, struct dz_err *err)
{
    int e = pthread_mutex_init(&r->lock, NULL);
    r->made = e == 0;
    return e ? dz_fail_sys(err, e, "make a lock") : 0;
}

void dz_prealloc_release(struct dz_prealloc *r)
{
    assert(!r->filling);
    for (size_t i = 0; i < r->count; i++)
        dz_blob_out_close(r->outs[i]);
    r->count = 0;
    if (r->made)
        (void)pthread_mutex_destroy(&r->lock);
    r->made = false;
}

/* A prepared file, which the caller owns; NULL: there is none. Any thread. */
static struct dz_blob_out *take_prepared(struct dz_prealloc *r)
{
    (void)pthread_mutex_lock(&r->lock);
    struct dz_blob_out *out = r->count > 0 ? r->outs[--r->count] : NULL;
    (void)pthread_mutex_unlock(&r->lock);
    return out;
}

size_t dz_prealloc_count(struct dz_prealloc *r)
{
    (void)pthread_mutex_lock(&r->lock);
    size_t n = r->count;
    (void)pthread_mutex_unlock(&r->lock);
    return n;
}

static int make_one(struct dz_control *e, struct dz_err *err)
{
    struct dz_blob_out *out = NULL;
    int rc = dz_blob_out_open(e->cold.live, "ready", &out, err);
    if (rc == 0)
        rc = write_empty(out, err);
    if (rc == 0)
        rc = dz_blob_out_sync(out, err);
    if (rc < 0) {
        dz_blob_out_close(out);
        return rc;
    }
    (void)pthread_mutex_lock(&e->prealloc.lock);
    e->prealloc.outs[e->prealloc.count++] = out;
    (void)pthread_mutex_unlock(&e->prealloc.lock);
    return 0;
}

/* Only this function adds files, so there is room. */
static void work_fill(void *arg)
{
    struct dz_control *e = arg;
    struct dz_err err;
    int rc = 0;
    while (rc == 0 && dz_prealloc_count(&e->prealloc) < DZ_CONTROL_PREALLOC_MAX)
        rc = make_one(e, &err);
    if (rc < 0) /* the files are then made on demand, and that reports the error */
        dz_log(DZ_LOG_DEBUG, "ready_failed", dz_log_err(&err));
}

static void on_filled(void *arg)
{
    ((struct dz_control *)arg)->prealloc.filling = false;
}

void dz_prealloc_fill(struct dz_control *e)
{
    struct dz_prealloc *r = &e->prealloc;
    if (!e->recovered || dz_sandboxes_draining(e->sandboxes) ||
        e->space.now.level >= DZ_SPACE_FULL || r->filling ||
        dz_prealloc_count(r) == DZ_CONTROL_PREALLOC_MAX)
        return;
    r->filling = dz_loop_work(e->loop, work_fill, on_filled, e, NULL) == 0;
}

static int host_make(void *arg, const struct dz_instance *row, struct dz_blob_out *out,
                     struct dz_err *err)
{
    (void)arg, (void)row;
    return write_empty(out, err);
}

static struct dz_blob_out *host_ready(void *arg)
{
    return take_prepared(&((struct dz_control *)arg)->prealloc);
}

/* --- what must look inside a file ------------------------------------------------------------- */

static int host_checkpoint(void *arg, const char *id, struct dz_err *err)
{
    const struct dz_control *e = arg;
    char path[DZ_PATH_MAX], key[DZ_COLD_KEY];
    int n = snprintf(path, sizeof path, "%s/%s", e->live_path, dz_cold_key(id, DZ_COLD_LIVE, key));
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of %s's file is too long", id);
    return dz_cell_disk_checkpoint(path, err);
}

static int host_transfer(void *arg, const struct dz_sandbox_transfer *c, struct dz_err *err)
{
    static const enum dz_cell_transfer kinds[] = {
        [DZ_SANDBOX_TRANSFER_COMPACT] = DZ_CELL_TRANSFER_COMPACT,
        [DZ_SANDBOX_TRANSFER_FILES] = DZ_CELL_TRANSFER_FILES,
        [DZ_SANDBOX_TRANSFER_CLONE] = DZ_CELL_TRANSFER_CLONE,
        [DZ_SANDBOX_TRANSFER_SHARE] = DZ_CELL_TRANSFER_SHARE,
    };
    const struct dz_control *e = arg;
    struct dz_image info = {0};
    DZ_AUTO(dz_fd_close) int image = -1, pack = -1;
    bool below = c->what == DZ_SANDBOX_TRANSFER_SHARE && c->row->image[0];
    int rc = below ? image = dz_image_open(e->images, c->row->image, err) : 0;
    if (rc >= 0 && below)
        rc = dz_image_load(e->images, c->row->image, &info, err);
    if (rc >= 0 && below)
        rc = dz_image_open_pack(e->images, &info, &pack, err);
    dz_image_release(&info);
    const struct dz_cell_disk d = {
        .from = c->from,
        .to = c->to,
        .image_fd = image,
        .pack_fd = pack,
        .image_sha256 = below ? c->row->image : NULL,
        .label = c->row->id,
        .cancel = c->cancel,
    };
    return rc < 0 ? rc : dz_cell_disk_transfer(&d, kinds[c->what], err);
}

static bool host_has_intent(void *arg, const char *id)
{
    return dz_intent_exists(arg, id);
}

const struct dz_sandbox_files dz_control_files = {
    .make = host_make,
    .ready = host_ready,
    .checkpoint = host_checkpoint,
    .transfer = host_transfer,
    .has_intent = host_has_intent,
    .make_room = dz_space_make_room,
    .clock_load = host_clock_load,
    .clock_save = host_clock_save,
};

/* --- what a cell is started with -----------------------------------------------------------------
 */

/* The descriptors opened for one start, until the start is over. */
struct opened {
    int disk_fd, wal_fd;
    struct dz_volumes volumes;
    const struct dz_sandbox_config *config;
    char **env;
};

static void opened_free(struct opened *o)
{
    dz_fd_close(&o->disk_fd);
    dz_fd_close(&o->wal_fd);
    dz_volumes_close(&o->volumes);
    dz_free(o->env);
    dz_free(o);
}

static bool is_strict(const struct opened *o)
{
    return o->config->durability && strcmp(o->config->durability, "strict") == 0;
}

/* Open the WAL. The name of a new WAL must be on the disk before a commit in it counts; this short
 * wait comes once in the life of a WAL. */
static int open_log(const struct dz_control *e, const char *id, struct opened *o,
                    struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    const char *name = dz_cold_key(id, DZ_COLD_LOG, key);
    bool named = !is_strict(o) || faccessat(e->live_fd, name, F_OK, 0) == 0;
    o->wal_fd = dz_fd_open(e->live_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);
    return o->wal_fd < 0 ? o->wal_fd : named ? 0 : dz_fd_sync_dir(e->live_fd, ".", err);
}

/* The file first: a start without it must not leave a WAL behind. */
static int open_files(const struct dz_control *e, const char *id, struct opened *o,
                      struct dz_err *err)
{
    char key[DZ_COLD_KEY];
    o->disk_fd =
        dz_fd_open(e->live_fd, dz_cold_key(id, DZ_COLD_LIVE, key), O_RDWR | O_NOFOLLOW, 0, err);
    return o->disk_fd < 0 ? o->disk_fd : open_log(e, id, o, err);
}

int dz_control_user_of(struct dz_control *e, const char *tenant, uint32_t *ret_user,
                       struct dz_err *err)
{
    int64_t most = dz_cell_users_tenants(), number = 0;
    if (most == INT64_MAX) {
        *ret_user = DZ_USER_NONE;
        return 0;
    }
    int rc = dz_registry_number(e->registry, tenant, most, &number, err);
    if (rc < 0)
        return dz_wrap(err, rc, "start a cell as its tenant's user (setting cells.uids)");
    *ret_user = dz_cell_user_of_tenant(number);
    return 0;
}

/* The address of a sandbox's eth0: one of 100.64.0.0/11, by its id. It is a name only, which no
 * packet ever has, so two sandboxes may have the same. */
static uint32_t own_address(const char *id)
{
    static const uint64_t key[2] = {1, 2};
    const uint32_t first = UINT32_C(0x64400000), count = 1 << 21;
    return first + 1 + (uint32_t)(dz_siphash(key, id, strlen(id)) % (count - 2));
}

static void fill_start(const struct dz_instance *row, const struct opened *o,
                       const struct engine_image *image, struct dz_sandbox_resources *f)
{
    const struct dz_image *info = image ? &image->info : NULL;
    const char *policy = o->config->policy      ? o->config->policy
                         : info && info->policy ? info->policy
                                                : "posix";
    f->start.disk_fd = o->disk_fd;
    f->start.wal_fd = o->wal_fd;
    f->start.volumes = o->volumes.of;
    f->start.volume_count = o->volumes.count;
    f->start.image_fd = image ? image->fd : -1;
    f->start.image_sha256 = info ? info->sha256 : NULL;
    f->start.module_fds = image ? image->module_fds : NULL;
    f->start.module_count = image ? image->module_count : 0;
    f->start.env = (const char *const *)o->env;
    f->start.policy = dz_policy_find(policy);
    f->start.memory_bytes = o->config->memory_bytes ? o->config->memory_bytes
                            : info                  ? info->memory_bytes
                                                    : 0;
    f->start.fresh = row->generation == 0 && image;
    f->start.strict = is_strict(o);
    f->start.own4 = own_address(row->id);
    f->workdir = info && info->workdir ? info->workdir : NULL;
    f->user = info && info->user ? info->user : NULL;
    f->stop_signal = info ? info->stop_signal : 0;
    f->disk_bytes = o->config->disk_bytes;
}

static int host_prepare(void *arg, const struct dz_instance *row,
                        const struct dz_sandbox_config *config, struct dz_sandbox_resources *f,
                        struct dz_err *err)
{
    struct dz_control *e = arg;
    struct engine_image *image = NULL;
    struct opened *o = dz_zalloc(sizeof *o);
    if (!o)
        return dz_fail(err, DZ_ENOMEM, "start %s: out of memory", row->id);
    o->disk_fd = o->wal_fd = -1;
    o->config = config;
    int rc = 0;
    if (row->image[0])
        rc = dz_control_image_get(e, row->image, &image, err);
    if (rc == 0)
        rc = dz_sandbox_env_of(o->config->env, image ? image->info.env : NULL, &o->env, err);
    if (rc == 0)
        rc = open_files(e, row->id, o, err);
    if (rc == 0)
        rc = dz_control_user_of(e, row->tenant, &f->start.host_user, err);
    if (rc == 0 && f->machine && config->volumes)
        rc = dz_volumes_open(e, row, config->volumes, &o->volumes, err);
    if (rc < 0) {
        dz_control_image_put(e, image);
        opened_free(o);
        return rc;
    }
    dz_replica_attach(e, row->id, o->disk_fd, o->wal_fd);
    fill_start(row, o, image, f);
    f->image = image;
    f->own = o;
    return 0;
}

static void host_started(void *arg, struct dz_sandbox_resources *f)
{
    opened_free(f->own);
    dz_control_pool_used(arg);
}

static void host_image_put(void *arg, void *image)
{
    dz_control_image_put(arg, image);
}

/* --- quotas and disk space
 * ------------------------------------------------------------------------ */

static int host_may_wake(void *arg, const struct dz_instance *row, struct dz_why *why)
{
    return dz_usage_may_wake(arg, row, why);
}

static int host_may_open(void *arg, const struct dz_instance *row, struct dz_why *why)
{
    return dz_usage_may_open(arg, row, why);
}

static int host_warm(void *arg, struct dz_sandbox *s, const struct dz_instance *row,
                     struct dz_why *why)
{
    return dz_usage_warm(arg, s, row, why);
}

static void host_opened(void *arg, struct dz_sandbox *s, const struct dz_instance *row)
{
    dz_usage_open(arg, s, row);
}

static void host_cold(void *arg, struct dz_sandbox *s)
{
    dz_usage_cold(arg, s);
    dz_replica_detach(arg, s->id);
    s->disk_left = 0;
}

static void host_limit(void *arg, struct dz_sandbox *s)
{
    dz_space_notify(arg, s);
    dz_usage_notify_disk(arg, s);
}

static bool host_has_file(void *arg, const char *id)
{
    return dz_live_bytes(arg, id) != 0;
}

static void host_counted(void *arg, const struct dz_instance *row, int by)
{
    dz_usage_counted(arg, row, by);
    if (by > 0) {
        dz_meter_file(arg, row->id);
        dz_replica_row(arg, row);
    } else {
        dz_replica_erased(arg, row->id);
        dz_services_erased(arg, row->id);
    }
}

static void host_timed(void *arg, const struct dz_sandbox_timing *timing)
{
    bool wake = strcmp(timing->operation, "activate") == 0;
    if (!wake || timing->rung != DZ_RUNG_LOCAL) /* else the file is the one of the suspend */
        dz_meter_file(arg, timing->id);
    const struct dz_control_timing t = {
        .operation = wake ? "wake" : timing->operation,
        .rung = wake && timing->code == 0 ? dz_rung_name(timing->rung) : "",
        .code = timing->code,
        .us = timing->us,
    };
    dz_control_timed(arg, &t);
}

/* --- copies
 * --------------------------------------------------------------------------------------- */

static bool host_copied(void *arg, struct dz_sandbox *s, const struct dz_cell_event *event)
{
    (void)arg;
    return dz_copy_event(s, event);
}

static void host_copies_down(void *arg, struct dz_sandbox *s, int code, const char *text)
{
    (void)arg;
    if (code < 0)
        dz_copy_down(s, code, text);
    else
        dz_copies_free(s);
}

static void host_net_connect(void *arg, struct dz_sandbox *s, uint64_t ticket,
                             const struct dz_cell_address *to)
{
    dz_egress_connect(arg, s, ticket, to);
}

static void host_net_closed(void *arg, struct dz_sandbox *s, uint64_t ticket)
{
    (void)s;
    dz_egress_closed(arg, ticket);
}

static void host_net_query(void *arg, struct dz_sandbox *s, const struct dz_net_query *query)
{
    dz_egress_query(arg, s, query);
}

static void host_net_ports(void *arg, struct dz_sandbox *s)
{
    dz_services_ports(arg, s);
}

static void host_machine_up(void *arg, struct dz_sandbox *s, bool woke)
{
    dz_services_up(arg, s, woke);
}

static void host_machine_down(void *arg, struct dz_sandbox *s, bool kept)
{
    dz_services_down(arg, s, kept);
}

const struct dz_sandbox_host dz_control_host = {
    .prepare = host_prepare,
    .started = host_started,
    .image_put = host_image_put,
    .may_wake = host_may_wake,
    .admit_machine = host_warm,
    .may_open = host_may_open,
    .admit_file = host_opened,
    .cell_gone = host_cold,
    .limit = host_limit,
    .has_file = host_has_file,
    .counted = host_counted,
    .timed = host_timed,
    .copied = host_copied,
    .copies_down = host_copies_down,
    .net_connect = host_net_connect,
    .net_closed = host_net_closed,
    .net_ports = host_net_ports,
    .machine_up = host_machine_up,
    .machine_down = host_machine_down,
    .net_query = host_net_query,
};
