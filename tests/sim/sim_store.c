/* SPDX-License-Identifier: MIT
 *
 * Objects in memory behind the verbs of a store, and their names in a directory: the system
 * calls of blob_file.c come here first and tell which names and bytes are durable.
 */
#include "sim_store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct sim_in {
    struct dz_blob_in head;
    struct sim_store *s;
    char bytes[SIM_BYTES]; /* as they were when it was opened */
};

struct sim_out {
    struct dz_blob_out head;
    struct sim_store *s;
    char key[DZ_BLOB_KEY_MAX + 1];
    char bytes[SIM_BYTES];
    size_t size;
    struct dz_blob_out *name; /* writes and commits the same, for the names' sake */
};

static struct sim_store *self(struct dz_blobs *s)
{
    return (struct sim_store *)s;
}

static int fault(struct sim_store *s, const char *call, struct dz_err *err)
{
    int rc = s->fault(s->arg, call);
    return rc < 0 ? dz_fail(err, rc, "simulated: %s: %s", call, dz_err_text(rc)) : 0;
}

struct sim_object *sim_store_find(struct sim_store *s, const char *key)
{
    for (int i = 0; i < SIM_OBJECTS; i++)
        if (strcmp(s->objects[i].key, key) == 0)
            return &s->objects[i];
    return NULL;
}

static size_t count(const struct sim_store *s)
{
    size_t n = 0;
    for (int i = 0; i < SIM_OBJECTS; i++)
        n += s->objects[i].key[0] != '\0';
    return n;
}

/* --- names ----------------------------------------------------------------------- */

/* The store whose verb runs now, and what the verb has done so far. */
static struct sim_store *acting;
static const char *acting_key;
static bool acted, synced;

static void change_name(struct sim_store *s, const char *key)
{
    const struct sim_object *o = sim_store_find(s, key);
    assert(s->change_count < SIM_CHANGES);
    struct sim_change *c = &s->changes[s->change_count++];
    *c = (struct sim_change){.existed = o != NULL};
    if (o)
        c->before = *o;
    (void)snprintf(c->before.key, sizeof c->before.key, "%s", key);
    acted = true;
}

int renameat(int old_dir, const char *old_path, int new_dir, const char *new_path)
{
    int rc = (int)syscall(SYS_renameat2, old_dir, old_path, new_dir, new_path, 0);
    if (acting && rc == 0)
        change_name(acting, new_path);
    return rc;
}

int unlinkat(int dir, const char *path, int flags)
{
    int rc = (int)syscall(SYS_unlinkat, dir, path, flags);
    if (acting && rc == 0 && strcmp(path, acting_key) == 0)
        change_name(acting, path);
    return rc;
}

int fsync(int fd)
{
    struct stat st;
    if (!acting)
        return (int)syscall(SYS_fsync, fd);
    if (fault(acting, "sync", NULL) < 0) {
        errno = EIO;
        return -1;
    }
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        acting->change_count = 0;
    else
        synced = true;
    return 0;
}

static void begin(struct sim_store *s, const char *key)
{
    acting = s;
    acting_key = key;
    acted = synced = false;
}

static void end(void)
{
    acting = NULL;
}

/* The name is or is not in the directory, as before the change. */
static void undo(struct sim_store *s, const struct sim_change *c)
{
    char path[sizeof s->dir + sizeof c->before.key];
    struct sim_object *o = sim_store_find(s, c->before.key);
    (void)snprintf(path, sizeof path, "%s/%s", s->dir, c->before.key);
    if (c->existed) {
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        o = o ? o : sim_store_find(s, "");
        assert(o && fd >= 0);
        (void)close(fd);
        *o = c->before;
    } else if (o) {
        (void)unlink(path);
        o->key[0] = '\0';
    }
}

void sim_store_power_cut(struct sim_store *s, size_t lost, bool lose_bytes)
{
    for (; lost > 0; lost--)
        undo(s, &s->changes[--s->change_count]);
    s->change_count = 0;
    for (int i = 0; lose_bytes && i < SIM_OBJECTS; i++)
        if (!s->objects[i].durable) {
            memset(s->objects[i].bytes, 0, SIM_BYTES);
            s->objects[i].size = 0;
        }
}

/* --- reading --------------------------------------------------------------------- */

static int in_read(struct dz_blob_in *in, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    struct sim_in *i = (struct sim_in *)in;
    int rc = fault(i->s, "read", err);
    if (rc == 0)
        memcpy(buf, i->bytes + at, n);
    return rc;
}

static void in_close(struct dz_blob_in *in)
{
    free(in);
}

static const struct dz_blob_in_ops in_ops = {in_read, in_close};

static int sim_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                       struct dz_err *err)
{
    int rc = fault(self(s), "open", err);
    const struct sim_object *o = sim_store_find(self(s), key);
    if (rc < 0)
        return rc;
    if (!o)
        return dz_fail(err, DZ_ENOENT, "simulated: no %s", key);
    struct sim_in *in = calloc(1, sizeof *in);
    assert(in);
    *in = (struct sim_in){{.ops = &in_ops, .size = o->size, .fd = -1}, self(s), ""};
    memcpy(in->bytes, o->bytes, o->size);
    *ret_in = &in->head;
    return 0;
}

/* --- writing --------------------------------------------------------------------- */

static int out_write(struct dz_blob_out *out, const void *data, size_t n, struct dz_err *err)
{
    struct sim_out *o = (struct sim_out *)out;
    int rc = fault(o->s, "write", err);
    if (rc < 0)
        return rc;
    assert(o->size + n <= SIM_BYTES);
    memcpy(o->bytes + o->size, data, n);
    o->size += n;
    return dz_blob_out_write(o->name, data, n, err);
}

static int out_commit(struct dz_blob_out *out, struct dz_err *err)
{
    struct sim_out *o = (struct sim_out *)out;
    int rc = fault(o->s, "commit", err);
    struct sim_object *at = sim_store_find(o->s, o->key);
    if (rc < 0)
        return rc;
    if (!at && count(o->s) >= o->s->capacity)
        return dz_fail(err, DZ_ENOSPC, "simulated: the store is full");
    o->s->guard(o->s->arg, o->key);
    o->name->claimed = out->claimed;
    begin(o->s, o->key);
    rc = dz_blob_out_commit(o->name, err);
    end();
    if (!acted)
        return rc;
    at = at ? at : sim_store_find(o->s, "");
    assert(at);
    *at = (struct sim_object){.size = o->size, .durable = synced};
    memcpy(at->key, o->key, sizeof at->key);
    memcpy(at->bytes, o->bytes, o->size);
    if (synced)
        memcpy(at->synced, o->bytes, o->size);
    return rc < 0 ? rc
                  : fault(o->s, "committed", err); /* done, but the caller does not get to know */
}

static void out_close(struct dz_blob_out *out)
{
    struct sim_out *o = (struct sim_out *)out;
    o->s->writers--;
    dz_blob_out_close(o->name);
    free(o);
}

static const struct dz_blob_out_ops out_ops = {
    .write = out_write, .commit = out_commit, .close = out_close};

static int sim_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                        struct dz_err *err)
{
    int rc = fault(self(s), "create", err);
    if (rc < 0)
        return rc;
    struct sim_out *out = calloc(1, sizeof *out);
    assert(out);
    *out = (struct sim_out){.head = {.ops = &out_ops, .fd = -1}, .s = self(s)};
    (void)snprintf(out->key, sizeof out->key, "%s", key);
    rc = dz_blob_out_open(self(s)->names, key, &out->name, err);
    if (rc < 0) {
        free(out);
        return rc;
    }
    self(s)->writers++;
    *ret_out = &out->head;
    return 0;
}

/* --- the rest -------------------------------------------------------------------- */

static int sim_stat(struct dz_blobs *s, const char *key, uint64_t *ret_size, struct dz_err *err)
{
    int rc = fault(self(s), "stat", err);
    const struct sim_object *o = sim_store_find(self(s), key);
    if (rc < 0)
        return rc;
    if (!o)
        return dz_fail(err, DZ_ENOENT, "simulated: no %s", key);
    *ret_size = o->size;
    return 0;
}

static int sim_remove(struct dz_blobs *s, const char *key, struct dz_err *err)
{
    int rc = fault(self(s), "remove", err);
    struct sim_object *o = sim_store_find(self(s), key);
    if (rc < 0)
        return rc;
    if (o)
        self(s)->guard(self(s)->arg, key);
    begin(self(s), key);
    rc = dz_blobs_remove(self(s)->names, key, err);
    end();
    if (o && acted)
        o->key[0] = '\0';
    return rc < 0 ? rc : fault(self(s), "removed", err);
}

static int sim_list(struct dz_blobs *s, int (*fn)(void *arg, const char *key, uint64_t size),
                    void *arg, struct dz_err *err)
{
    int rc = fault(self(s), "list", err);
    for (int i = 0; rc == 0 && i < SIM_OBJECTS; i++) {
        const struct sim_object o = self(s)->objects[i]; /* fn may remove it */
        if (o.key[0] && fn(arg, o.key, o.size))
            break;
    }
    return rc;
}

static int sim_sweep(struct dz_blobs *s, struct dz_err *err)
{
    int rc = dz_blobs_sweep(self(s)->names, err);
    self(s)->writers = 0;
    return rc < 0 ? rc : fault(self(s), "sweep", err);
}

static const struct dz_blobs_ops ops = {
    .stat = sim_stat,
    .in_open = sim_in_open,
    .out_open = sim_out_open,
    .remove = sim_remove,
    .list = sim_list,
    .sweep = sim_sweep,
};

void sim_store_init(struct sim_store *s)
{
    *s = (struct sim_store){.head = {&ops}, .capacity = SIM_OBJECTS};
    if (dz_fd_temp_dir("doze-sim", s->dir, NULL) < 0 ||
        dz_blobs_open_dir(s->dir, &s->names, NULL) < 0)
        abort();
}

void sim_store_release(struct sim_store *s)
{
    dz_blobs_free(s->names);
    if (dz_fd_remove_tree(AT_FDCWD, s->dir, NULL) < 0)
        abort();
}
