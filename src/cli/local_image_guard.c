/* SPDX-License-Identifier: MIT
 *
 * local_image_guard.c - keep images that a sandbox or snapshot of the registry needs.
 */
#include "cli/cli_env.h"
#include "cli/local_image.h"
#include "registry/registry_record.h"

#include <string.h>

enum {
    ID_MAX = 256,
};

/* The first snapshot that needs the image, if any: 1 and its id. */
static int find_snapshot(struct dz_registry *r, const char *sha256, char ret_id[static ID_MAX],
                         struct dz_err *err)
{
    char after[ID_MAX] = "";
    int found = 0;
    for (size_t n = DZ_REGISTRY_LIST_MAX; !found && n == DZ_REGISTRY_LIST_MAX;) {
        DZ_AUTO(dz_snapshot_rows_release)
        struct dz_snapshot_rows rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
        const struct dz_registry_record_filter f = {.after = after};
        int rc = dz_registry_snapshot_list(r, &f, &rows, err);
        if (rc < 0)
            return rc;
        n = rows.n;
        for (size_t i = 0; !found && i < n; i++) {
            (void)snprintf(after, sizeof after, "%s", rows.p[i].id);
            found = strcmp(rows.p[i].image, sha256) == 0;
        }
    }
    (void)snprintf(ret_id, ID_MAX, "%s", after);
    return found;
}

static int guard_sandboxes(struct dz_registry *r, const char *sha256, struct dz_err *err)
{
    DZ_AUTO(dz_instances_release) struct dz_instances rows = DZ_VEC_INIT(DZ_REGISTRY_LIST_MAX);
    const struct dz_registry_filter f = {.image = sha256, .limit = DZ_REGISTRY_LIST_MAX};
    int rc = dz_registry_list(r, &f, &rows, err);
    if (rc < 0 || rows.n == 0)
        return rc;
    const char *more = rows.n == 1 ? "" : rows.n < DZ_REGISTRY_LIST_MAX ? " and" : " and at least";
    char count[32] = "";
    if (rows.n > 1)
        (void)snprintf(count, sizeof count, " %zu more", rows.n - 1);
    return dz_fail(err, DZ_EBUSY,
                   "the sandbox %s%s%s needs the image %.12s; delete the sandbox first",
                   rows.p[0].id, more, count, sha256);
}

static int guard(void *arg, const char *sha256, struct dz_err *err)
{
    char id[ID_MAX];
    int rc = guard_sandboxes(arg, sha256, err);
    int found = rc < 0 ? 0 : find_snapshot(arg, sha256, id, err);
    if (rc == 0 && found > 0)
        rc =
            dz_fail(err, DZ_EBUSY,
                    "the snapshot %s needs the image %.12s; delete the snapshot first", id, sha256);
    return found < 0 ? found : rc;
}

int dz_cli_image_guard(struct dz_image_store *s, struct dz_registry **ret_registry,
                       struct dz_err *err)
{
    char data[DZ_PATH_MAX], name[DZ_PATH_MAX];
    int rc = dz_cli_data_dir(NULL, data, err);
    if (rc == 0)
        rc = dz_registry_locate(NULL, data, name, err);
    if (rc < 0)
        return rc;
    rc = dz_registry_open(name, false, ret_registry, err);
    if (rc == DZ_ENOENT)
        return 0; /* without a registry there are no sandboxes */
    if (rc == DZ_EBUSY)
        return dz_fail(err, rc,
                       "%s is in use by a daemon, which knows the images that sandboxes need: use "
                       "that daemon, or stop it",
                       name);
    if (rc == 0)
        dz_image_store_guard(s, guard, *ret_registry);
    return rc;
}

int dz_cli_image_guard_end(struct dz_registry *r, int rc, struct dz_err *err)
{
    struct dz_err late = {0};
    int closed = dz_registry_close(r, rc < 0 ? &late : err);
    return rc < 0 ? rc : closed < 0 ? closed : rc;
}
