/* SPDX-License-Identifier: MIT
 *
 * control_intent.c - intent files: marks on sandboxes and snapshots whose files exist before their
 * rows, or after them.
 *
 *     DATA/live/.ID.new    the files of ID are being made or removed; its row may not exist
 *
 * If the daemon dies in between, the intent file stays, and the next daemon removes the files
 * unless there is a row. Files that have neither a row nor an intent file are left alone, because
 * they may be the operator's.
 */
#include "control/control_int.h"

#include "base/fd.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX ".new"

static int path_of(const struct dz_control *e, const char *id, char out[static DZ_PATH_MAX],
                   struct dz_err *err)
{
    int n = snprintf(out, DZ_PATH_MAX, "%s/.%s" SUFFIX, e->live_path, id);
    return n < DZ_PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path of %s is too long", id);
}

int dz_intent_make(const struct dz_control *e, const char *id, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    int rc = path_of(e, id, path, err);
    if (rc < 0)
        return rc;
    DZ_AUTO(dz_fd_close)
    int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT, 0600, err);
    return fd < 0 ? fd : 0;
}

bool dz_intent_exists(const struct dz_control *e, const char *id)
{
    char path[DZ_PATH_MAX];
    return path_of(e, id, path, NULL) == 0 && access(path, F_OK) == 0;
}

void dz_intent_remove(const struct dz_control *e, const char *id)
{
    char path[DZ_PATH_MAX];
    if (path_of(e, id, path, NULL) < 0 || (unlink(path) < 0 && errno != ENOENT))
        dz_log(DZ_LOG_WARN, "claim_left", dz_log_strz("id", id));
}

static bool is_snapshot(const char *id)
{
    return dz_str_starts(dz_str(id), DZ_STR("snap_"));
}

int dz_intent_undo(const struct dz_control *e, const char *id, struct dz_err *err)
{
    int rc = is_snapshot(id)
                 ? dz_snap_remove_files(e, id, err)
                 : dz_cold_drop(&e->cold, id, DZ_COLD_BIT(LIVE) | DZ_COLD_BIT(LOG), err);
    if (rc == 0)
        dz_intent_remove(e, id);
    return rc;
}

/* 1: there is a row, which stays; 0: there is none. */
static int has_row(const struct dz_control *e, const char *id, struct dz_err *err)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    DZ_AUTO(dz_snapshot_row_release) struct dz_snapshot_row snap = {0};
    int rc = is_snapshot(id) ? dz_registry_snapshot_get(e->registry, NULL, id, &snap, err)
                             : dz_registry_get(e->registry, id, &row, err);
    if (rc == 0 && snap.kind && strcmp(snap.kind, "fork") == 0) {
        /* the fork that the snapshot was made for may be missing; a fork that exists keeps it */
        rc = dz_registry_snapshot_remove(e->registry, NULL, id, 0, err);
        return rc == DZ_ESTATE ? 1 : rc;
    }
    return rc == 0 || rc == DZ_EGONE ? 1 : rc == DZ_ENOENT ? 0 : rc;
}

static int recover_one(const struct dz_control *e, const char *id, struct dz_err *err)
{
    int rc = has_row(e, id, err);
    if (rc == 1)
        dz_intent_remove(e, id);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    dz_log(DZ_LOG_INFO, "claim_undone", dz_log_strz("id", id));
    return dz_intent_undo(e, id, err);
}

int dz_intents_recover(const struct dz_control *e, struct dz_err *err)
{
    DIR *d = opendir(e->live_path);
    int rc = 0;
    if (!d)
        return dz_fail_sys(err, errno, "open %s", e->live_path);
    for (const struct dirent *f; rc == 0 && (f = readdir(d));) {
        struct dz_str name = dz_str(f->d_name);
        char id[DZ_ID_TEXT];
        if (!dz_str_eat(&name, DZ_STR(".")) || !dz_str_ends(name, DZ_STR(SUFFIX)) ||
            name.n - strlen(SUFFIX) >= sizeof id)
            continue;
        (void)snprintf(id, sizeof id, "%.*s", (int)(name.n - strlen(SUFFIX)), name.p);
        rc = recover_one(e, id, err);
    }
    (void)closedir(d);
    return rc;
}
