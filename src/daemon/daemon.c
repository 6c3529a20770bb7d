/* SPDX-License-Identifier: MIT
 *
 * daemon.c - start, serve, drain.
 *
 * The order of the start matters: the pool of cells is forked before there is a thread,
 * a lock or a socket that it could inherit; the data directory is locked before anything
 * in it is read. The loop recovers what an earlier daemon left, a few rows at a time. During
 * recovery, and at the end while sandboxes are suspended, the sockets are open and requests are
 * told to try again (api_auth.c). The service manager is notified when recovery is complete.
 */
#include "daemon/daemon.h"

#include "api/api.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_call.h"
#include "cell/cell_pool.h"
#include "control/control_daemon.h"
#include "daemon/daemon_died.h"
#include "http/http.h"
#include "loop/loop.h"
#include "os/os_cgroup.h"
#include "os/os_jail.h"
#include "os/os_notify.h"
#include "os/os_user.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct daemon {
    struct dz_config *config;
    struct dz_os_notify manager;
    struct dz_timer *watchdog;
    int lock_fd;
    struct dz_cell_pool *pool;
    struct dz_os_cgroup cells;     /* of all cells, if they have limits */
    struct dz_os_cgroup_each each; /* below it, one for each cell, if configured */
    struct dz_loop *loop;
    struct dz_control *control;
    struct dz_api *api;
    struct dz_signal *term, *interrupt, *hangup;
    struct dz_timer *recovery; /* the next piece of it */
    struct dz_died died;       /* the daemon before this one */
    bool stopping, ready, tls;
};

enum {
    RECOVERY_MS = 10, /* of recovery, between two turns of the loop */
};

/* --- the end -------------------------------------------------------------------------- */

static void on_drained(void *arg, size_t left)
{
    struct daemon *d = arg;
    dz_log(DZ_LOG_INFO, "daemon_drained", dz_log_uint("awake", left));
    dz_loop_stop(d->loop);
}

static void on_stop(void *arg)
{
    struct daemon *d = arg;
    if (d->stopping)
        return;
    d->stopping = true;
    dz_log(DZ_LOG_INFO, "daemon_stopping");
    dz_os_notify(&d->manager, "STOPPING=1\nSTATUS=suspending sandboxes");
    dz_http_quiesce(dz_api_http(d->api));
    dz_control_drain(d->control, d->config->daemon_drain_timeout, on_drained, d);
}

static void release(struct daemon *d)
{
    dz_control_stop_far(d->control);
    if (d->loop)
        dz_loop_settle(d->loop); /* its ends lead to the control plane, and to requests */
    dz_api_free(d->api);
    dz_control_free(d->control);
    dz_cell_pool_free(d->pool);
    dz_timer_free(d->watchdog);
    dz_timer_free(d->recovery);
    dz_signal_free(d->term);
    dz_signal_free(d->interrupt);
    dz_signal_free(d->hangup);
    dz_loop_free(d->loop);
    dz_fd_close(&d->lock_fd);
    dz_os_each_release(&d->each);
    dz_os_cgroup_remove(&d->cells);
}

/* --- settings ------------------------------------------------------------------------- */

static void set_up_log(const struct dz_config *c)
{
    enum dz_log_level level = DZ_LOG_INFO;
    if (dz_log_level_parse(dz_str(c->log_level), &level, NULL) < 0)
        level = DZ_LOG_INFO; /* never: the table's words are its */
    dz_log_setup(STDERR_FILENO, level, strcmp(c->log_format, "json") == 0);
}

static struct dz_idle_policy idle_policy_of(const struct dz_config *c)
{
    _Static_assert(DZ_CONFIG_NEVER == DZ_IDLE_OFF, "never is the same in both");
    return (struct dz_idle_policy){c->ladder_suspend_after, c->ladder_freeze_after};
}

static struct dz_space_opts space_of(const struct dz_config *c)
{
    return (struct dz_space_opts){.free_percent = (unsigned)c->disk_free_percent,
                                  .free_max_bytes = c->disk_free_max,
                                  .sandbox_bytes = c->disk_sandbox,
                                  .reserve_bytes = c->disk_reserve};
}

static void on_changed(void *arg, const struct dz_config_row *row, bool applied)
{
    const struct daemon *d = arg;
    char name[DZ_CONFIG_NAME_MAX];
    enum dz_config_key key = (enum dz_config_key)(row - dz_config_rows);
    (void)dz_config_name(row, name);
    if (applied)
        dz_log(DZ_LOG_INFO, "setting_changed", dz_log_strz("setting", name),
               dz_log_strz("value", dz_config_text(d->config, key)));
    else
        dz_log(DZ_LOG_WARN, "setting_needs_restart", dz_log_strz("setting", name));
}

static int load_certificate(struct daemon *d, struct dz_err *err)
{
    const char *certificate = d->config->tls_certificate, *key = d->config->tls_key;
    if (!certificate[0] && !key[0]) {
        if (d->tls) /* clients expect TLS: keep the last certificate */
            dz_log(DZ_LOG_WARN, "setting_needs_restart", dz_log_strz("setting", "tls.certificate"));
        return 0;
    }
    if (!certificate[0] || !key[0])
        return dz_fail(err, DZ_EINVAL,
                       "tls.certificate and tls.key must be set together: one is missing");
    int rc = dz_http_tls(dz_api_http(d->api), certificate, key, err);
    d->tls = d->tls || rc == 0;
    return rc;
}

/* Reload the configuration. Settings that are read at their point of use need no hook here. */
static void reload(struct daemon *d)
{
    struct dz_err why = {0};
    if (dz_config_reload(d->config, on_changed, d, &why) < 0) {
        dz_log(DZ_LOG_ERROR, "config_not_reloaded", dz_log_err(&why));
        return;
    }
    const struct dz_idle_policy policy = idle_policy_of(d->config);
    const struct dz_space_opts space = space_of(d->config);
    set_up_log(d->config);
    if (load_certificate(d, &why) < 0) /* the old one stays in use */
        dz_log(DZ_LOG_ERROR, "certificate_not_reloaded", dz_log_err(&why));
    dz_control_set_idle_policy(d->control, &policy);
    dz_control_set_space(d->control, &space);
    dz_log(DZ_LOG_INFO, "config_reloaded", dz_log_strz("file", d->config->file));
}

static void on_hangup(void *arg)
{
    struct daemon *d = arg;
    dz_os_notify_reloading(&d->manager);
    reload(d);
    if (d->ready)
        dz_os_notify(&d->manager, "READY=1");
}

/* Tell the service manager that the loop runs, twice in each watchdog period. */
static void on_watchdog(void *arg)
{
    struct daemon *d = arg;
    dz_os_notify(&d->manager, "WATCHDOG=1");
    dz_timer_after(d->watchdog, d->manager.watchdog_ms / 2);
}

/* --- secrets in the environment --------------------------------------------------------- */

/* Cells are forked from a copy of this process, so secrets are taken out of the environment until
 * that copy exists. Meanwhile they are in a page that no child gets. */
static const char *const secret_variables[] = {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"};

struct secrets {
    char values[DZ_ARRAY_LEN(secret_variables)][4096];
    bool set[DZ_ARRAY_LEN(secret_variables)];
};

static int hide_secrets(struct secrets **ret_secrets, struct dz_err *err)
{
    struct secrets *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return dz_fail_sys(err, errno, "keep the secrets of the environment from cells");
    if (madvise(s, sizeof *s, MADV_DONTFORK) < 0) {
        (void)munmap(s, sizeof *s);
        return dz_fail_sys(err, errno, "keep the secrets of the environment from cells");
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(secret_variables); i++) {
        char *value = getenv(secret_variables[i]);
        if (!value)
            continue;
        if (strlen(value) >= sizeof s->values[i]) {
            (void)munmap(s, sizeof *s);
            return dz_fail(err, DZ_ELIMIT, "the variable %s is longer than %zu bytes",
                           secret_variables[i], sizeof s->values[i] - 1);
        }
        (void)snprintf(s->values[i], sizeof s->values[i], "%s", value);
        s->set[i] = true;
        explicit_bzero(value, strlen(value));
        (void)unsetenv(secret_variables[i]);
    }
    *ret_secrets = s;
    return 0;
}

static int restore_secrets(struct secrets *s, struct dz_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < DZ_ARRAY_LEN(secret_variables); i++)
        if (s->set[i] && setenv(secret_variables[i], s->values[i], 1) < 0)
            rc = dz_fail(err, DZ_ENOMEM, "read the environment: out of memory");
    explicit_bzero(s, sizeof *s);
    (void)munmap(s, sizeof *s);
    return rc;
}

/* --- the start ------------------------------------------------------------------------ */

static int lock(struct daemon *d, struct dz_err *err)
{
    char path[DZ_PATH_MAX], pid[32];
    int rc = dz_fd_mkdirs(AT_FDCWD, d->config->doze_data, 0700, err);
    if (rc == 0 &&
        snprintf(path, sizeof path, "%s/daemon.lock", d->config->doze_data) >= DZ_PATH_MAX)
        rc = dz_fail(err, DZ_ELIMIT, "the path of the data directory is too long");
    if (rc == 0)
        rc = d->lock_fd = dz_fd_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);
    if (rc >= 0)
        rc = dz_fd_lock(d->lock_fd, DZ_FD_LOCK_EXCLUSIVE, err);
    if (rc == DZ_EBUSY)
        return dz_fail(err, rc, "%s is in use by another daemon", d->config->doze_data);
    if (rc < 0)
        return rc;
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid()); /* for people */
    if (ftruncate(d->lock_fd, 0) < 0)
        return dz_fail_sys(err, errno, "write %s", path);
    rc = dz_fd_pwrite(d->lock_fd, pid, (size_t)n, 0, err);
    return rc == DZ_ENOSPC ? 0 : rc; /* the lock holds without it, also on a full disk */
}

static int find_dead(struct daemon *d, struct dz_err *err)
{
    bool json = strcmp(d->config->log_format, "json") == 0;
    int rc = dz_died_begin(d->config->doze_data, json, &d->died, err);
    if (rc == 0 && d->died.found)
        dz_log(DZ_LOG_ERROR, "daemon_died", dz_log_int("died_pid", d->died.pid),
               dz_log_strz("signal", dz_died_signal(&d->died)),
               dz_log_int("started_ms", d->died.started_ms),
               dz_log_bool("rebooted", d->died.rebooted));
    return rc;
}

struct dz_s3_opts dz_daemon_s3(const struct dz_config *c)
{
    const char *addressing = c->s3_addressing;
    return (struct dz_s3_opts){
        .endpoint = c->s3_endpoint,
        .region = c->s3_region,
        .path_style = strcmp(addressing, "path") == 0   ? "true"
                      : strcmp(addressing, "host") == 0 ? "false"
                                                        : "",
        .credentials_file = c->s3_credentials_file,
        .profile = c->s3_profile,
        .ca_file = c->s3_ca_file,
    };
}

struct dz_blobs_place dz_daemon_cold(const struct dz_config *c)
{
    return (struct dz_blobs_place){
        .url = c->cold_url, .key_file = c->cold_key_file, .s3 = dz_daemon_s3(c)};
}

static uint64_t quota(uint64_t n)
{
    return n ? n : DZ_QUOTA_NONE;
}

static int prices_of(const struct dz_config *c, struct dz_usage_prices *ret, struct dz_err *err)
{
    struct dz_usage_prices p = {.memory = 0};
    const struct {
        const char *setting, *text;
        int64_t *price;
    } table[] = {
        {"prices.memory", c->prices_memory, &p.memory},
        {"prices.storage_active", c->prices_storage_active, &p.storage_active},
        {"prices.storage_asleep", c->prices_storage_asleep, &p.storage_asleep},
        {"prices.snapshots", c->prices_snapshots, &p.snapshots},
    };
    if (strlen(c->prices_currency) >= sizeof p.currency)
        return dz_fail(err, DZ_EINVAL, "setting prices.currency: must have at most %zu bytes",
                       sizeof p.currency - 1);
    (void)snprintf(p.currency, sizeof p.currency, "%s", c->prices_currency);
    for (size_t i = 0; i < DZ_ARRAY_LEN(table); i++) {
        int rc = dz_usage_price_parse(table[i].text, table[i].price, err);
        if (rc < 0)
            return dz_wrap(err, rc, "setting %s", table[i].setting);
        if (*table[i].price && !p.currency[0])
            return dz_fail(err, DZ_EINVAL, "setting %s: a price needs the setting prices.currency",
                           table[i].setting);
    }
    *ret = p;
    return 0;
}

static int start_engine(struct daemon *d, struct dz_err *err)
{
    struct dz_usage_prices prices;
    int rc = prices_of(d->config, &prices, err);
    if (rc < 0)
        return rc;
    const struct dz_control_opts control = {
        .loop = d->loop,
        .pool = d->pool,
        .data_path = d->config->doze_data,
        .registry = d->config->doze_registry,
        .idle_policy = idle_policy_of(d->config),
        .space = space_of(d->config),
        .cold = dz_daemon_cold(d->config),
        .replica =
            {
                .url = d->config->replica_url,
                .access = {.key_file = d->config->replica_key_file, .s3 = dz_daemon_s3(d->config)},
                .every_ms = d->config->replica_every,
                .snapshot_ms = d->config->replica_snapshot,
                .keep_ms = d->config->replica_retention,
                .behind_ms = d->config->replica_behind,
                .connections = (unsigned)d->config->replica_connections,
            },
        .quotas =
            {
                .sandboxes = quota(d->config->quotas_sandboxes),
                .warm_sandboxes = quota(d->config->quotas_warm_sandboxes),
                .creations = quota(d->config->quotas_creations),
                .creations_per_minute = quota(d->config->quotas_creations_per_minute),
                .memory_bytes = quota(d->config->quotas_memory),
                .disk_bytes = quota(d->config->quotas_disk),
                .schedules = quota(d->config->quotas_schedules),
            },
        .prices = prices,
        .egress =
            {
                .mode = d->config->egress_mode,
                .allow_cidrs = d->config->egress_allow_cidrs,
                .allow_domains = d->config->egress_allow_domains,
                .allow_ports = d->config->egress_allow_ports,
                .deny_cidrs = d->config->egress_deny_cidrs,
                .deny_domains = d->config->egress_deny_domains,
                .local_cidrs = d->config->egress_local_cidrs,
                .resolvers = d->config->egress_resolvers,
                .connect_timeout_ms = d->config->egress_connect_timeout,
                .connections = d->config->egress_connections,
            },
        .held_tenant = d->config->listen_unread_per_tenant,
        .held_all = d->config->listen_unread,
    };
    rc = dz_control_new(&control, &d->control, err);
    if (rc < 0)
        return rc;
    if (d->died.found)
        dz_control_note_death(d->control, d->died.pid, dz_died_signal(&d->died), d->died.rebooted);
    const struct dz_api_opts api = {
        .loop = d->loop,
        .control = d->control,
        .tenant = "default",
        .connections = (unsigned)d->config->listen_connections,
        .address_connections = (unsigned)d->config->listen_connections_per_address,
        .tenant_requests = (unsigned)d->config->listen_requests_per_tenant,
        .preview = {.domain = d->config->preview_domain,
                    .tls = d->config->tls_certificate[0] != '\0',
                    .wait_ms = d->config->preview_wait},
        .e2b = {.on = d->config->e2b_enabled,
                .templates = d->config->e2b_templates,
                .data_path = d->config->doze_data},
    };
    return dz_api_new(&api, &d->api, err);
}

/* Open the unix socket last, so that a client that waits for it finds all other sockets open. */
static int listen_all(struct daemon *d, struct dz_err *err)
{
    struct dz_str rest = dz_str(d->config->listen_address), part;
    int rc = load_certificate(d, err);
    while (rc == 0 && dz_str_split(&rest, ',', &part)) {
        char address[DZ_LOG_VALUE_MAX];
        part = dz_str_trim(part);
        (void)snprintf(address, sizeof address, "%.*s", DZ_STR_ARG(part));
        if (part.n == 0)
            continue;
        rc = dz_http_listen_tcp(dz_api_http(d->api), address, d->config->listen_plain, err);
        if (rc == 0)
            dz_log(DZ_LOG_INFO, "listening", dz_log_strz("address", address),
                   dz_log_strz("tls", d->config->tls_certificate[0] ? "yes" : "no"));
    }
    return rc < 0 ? rc : dz_http_listen_unix(dz_api_http(d->api), d->config->doze_socket, err);
}

/* Find the range of user ids for tenants. A daemon that is not root, or may not use the whole
 * range, runs all cells as its own user and logs why. */
static int find_users(const char *setting, struct dz_os_users *ret_users, struct dz_err *err)
{
    struct dz_err why = {0};
    int rc = dz_os_users_parse(setting, ret_users, err);
    if (rc < 0)
        return dz_wrap(err, rc, "setting cells.uids");
    if (ret_users->count == 0)
        (void)dz_fail(&why, DZ_EDENIED, "the setting cells.uids is \"no\"");
    else if (dz_os_users_check(ret_users, &why) == 0) {
        dz_log(DZ_LOG_INFO, "users", dz_log_int("first", ret_users->first),
               dz_log_int("count", ret_users->count));
        return 0;
    }
    dz_log(DZ_LOG_INFO, "users_shared", dz_log_strz("why", why.msg));
    ret_users->count = 0;
    return 0;
}

/* Start the pool. All cells inherit the cgroup of its first processes, so the daemon enters that
 * cgroup while it forks them. */
static int start_pool(struct daemon *d, struct dz_err *err)
{
    struct dz_cell_pool_opts pool = {.ahead = (size_t)d->config->cells_ahead};
    const struct dz_os_cgroup_limits limits = {.memory_bytes = d->config->cells_memory_max,
                                               .cpu_percent = d->config->cells_cpu_max,
                                               .processes = d->config->cells_processes_max,
                                               .each = d->config->cells_memory_beside > 0};
    bool limited = limits.memory_bytes || limits.cpu_percent || limits.processes || limits.each;
    uint32_t fences;
    int rc = dz_os_fences_parse(d->config->cells_fences, &fences, err);
    if (rc < 0)
        return dz_wrap(err, rc, "setting cells.fences");
    dz_os_jail_demand(fences);
    rc = dz_cell_baseline(d->config->cells_cpu, err);
    if (rc < 0)
        return dz_wrap(err, rc, "setting cells.cpu");
    rc = find_users(d->config->cells_uids, &pool.users, err);
    if (rc < 0)
        return rc;
    rc = limited ? dz_os_cgroup_make("doze-cells", &limits, &d->cells, err) : 0;
    if (rc < 0)
        return dz_wrap(err, rc, "limit the resources of sandboxes");
    if (limits.each) {
        dz_os_each_init(&d->each, &d->cells);
        pool.each = &d->each;
        pool.memory_beside = d->config->cells_memory_beside;
    }
    rc = dz_os_cgroup_enter(&d->cells, err);
    if (rc == 0)
        rc = dz_cell_pool_new(&pool, &d->pool, err);
    int left = dz_os_cgroup_leave(&d->cells, rc < 0 ? NULL : err);
    return rc < 0 ? rc : left;
}

static int start(struct daemon *d, struct dz_err *err)
{
    struct secrets *secrets = NULL;
    int rc = hide_secrets(&secrets, err);
    if (rc < 0)
        return rc;
    rc = start_pool(d, err);
    dz_cell_call_never_fork(); /* secrets come next: settings, registry, keys */
    int restored = restore_secrets(secrets, rc < 0 ? NULL : err);
    if (rc == 0)
        rc = restored;
    if (rc == 0)
        rc = lock(d, err);
    if (rc == 0)
        rc = find_dead(d, err);
    if (rc == 0)
        rc = dz_loop_new(&d->loop, err);
    if (rc == 0)
        rc = dz_signal_new(d->loop, SIGTERM, on_stop, d, &d->term, err);
    if (rc == 0)
        rc = dz_signal_new(d->loop, SIGINT, on_stop, d, &d->interrupt, err);
    if (rc == 0)
        rc = dz_signal_new(d->loop, SIGHUP, on_hangup, d, &d->hangup, err);
    if (rc == 0)
        rc = start_engine(d, err);
    return rc < 0 ? rc : listen_all(d, err);
}

static void tell_ready(struct daemon *d)
{
    d->ready = true;
    dz_log(DZ_LOG_INFO, "daemon_ready", dz_log_strz("socket", d->config->doze_socket),
           dz_log_int("pid", getpid()));
    dz_os_notify(&d->manager, "READY=1\nSTATUS=ready");
    if (d->watchdog)
        on_watchdog(d);
}

/* Recover one piece per turn of the loop, so that requests are answered in between. The next start
 * continues if the daemon is stopped before the end. */
static void on_recovery(void *arg)
{
    struct daemon *d = arg;
    struct dz_err why = {0};
    if (d->stopping)
        return;
    int rc = dz_control_recover_some(d->control, dz_clock_mono_ms() + RECOVERY_MS, &why);
    if (rc == 1) {
        dz_timer_after(d->recovery, 0);
        return;
    }
    if (rc < 0) /* what failed is retried later */
        dz_log(DZ_LOG_WARN, "recovery_incomplete", dz_log_err(&why));
    tell_ready(d);
}

static int start_timers(struct daemon *d, struct dz_err *err)
{
    int rc = dz_timer_new(d->loop, on_recovery, d, &d->recovery, err);
    if (rc == 0 && d->manager.watchdog_ms > 0)
        rc = dz_timer_new(d->loop, on_watchdog, d, &d->watchdog, err);
    if (rc == 0)
        on_recovery(
            d); /* usually there is little to recover: be ready as soon as the sockets listen */
    return rc;
}

int dz_daemon_run(struct dz_config *config, struct dz_err *err)
{
    struct daemon d = {.config = config, .lock_fd = -1};
    set_up_log(config);
    dz_os_notify_open(&d.manager);
    (void)signal(SIGPIPE, SIG_IGN);
    dz_mem_one_heap(); /* workers call cells */
    int rc = start(&d, err);
    if (rc == 0) {
        dz_log(DZ_LOG_INFO, "recovery_begins");
        dz_os_notify(&d.manager, "STATUS=finishing interrupted operations");
        rc = start_timers(&d, err);
    }
    if (rc == 0)
        rc = dz_loop_run(d.loop, err);
    release(&d);
    dz_died_end();
    dz_log(DZ_LOG_INFO, "daemon_stopped");
    return rc;
}
