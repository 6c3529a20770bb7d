/* SPDX-License-Identifier: MIT
 *
 * machine_flatten.c - flatten a sandbox and the image below it into one file without an image below
 * it, with its suspended machine: an image for others.
 *
 * Rows of the sandbox come first, then those of the image that they do not replace
 * (docs/format/disk.md, "The image below"). Inode numbers stay, because the machine refers to
 * them. Inodes without a name are left out at the end, except files that the machine has open.
 */
#include "machine/machine_mem.h"

#include "db/db.h"
#include "machine/machine_copy.h"
#include "machine/machine_state.h"
#include "vfs/vfs.h"

#include <string.h>

/* --- a machine whose memory's base is the image's machine -------------------------------- */

/* The machine is written again so that the base of its memories is their modules alone. A page
 * comes from the machine's own rows; a page that they do not name, or name as equal to its base,
 * comes from the rows of the image's machine. Every page is packed anew, once, as generation 1. The
 * state is the same but for the section that describes the memories. */

#define PAGE ((size_t)DZ_MACHINE_PAGE)

enum { /* in home[], of pages */
    SAID = 1,
    AS_BASE = 2,
};

struct merge {
    struct dz_machine *own, *below;
    struct dz_db *to;
    struct dz_mem_packer packer;
    int64_t seq;
};

/* --- memory ---------------------------------------------------------------------------- */

static int flush(struct merge *g, struct dz_err *err)
{
    const void *bytes;
    size_t size;
    if (g->packer.pages == 0)
        return 0;
    dz_mem_pack_end(&g->packer, true, &bytes, &size);
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(g->to, "INSERT INTO mem(gen,seq,data)VALUES(1,?1,?2)");
    dz_bind_int(st, 1, g->seq++);
    dz_bind_blob(st, 2, bytes, size);
    return dz_stmt_run(st, err);
}

static int put(struct merge *g, const struct dz_space *s, size_t page, const uint8_t *bytes,
               struct dz_err *err)
{
    int rc = dz_mem_pack_full(&g->packer) ? flush(g, err) : 0;
    if (rc == 0)
        dz_mem_pack_page(&g->packer, s->s.id, page, bytes);
    return rc;
}

/* The first run that names a page of a space decides its content. from_base: the run is of the
 * image's machine. */
static int take(struct merge *g, struct dz_space *s, const struct dz_mem_piece *p, bool from_base,
                struct dz_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < p->run.count; i++) {
        size_t page = (size_t)p->run.first + i;
        if (page >= s->homes || s->home[page] == SAID || (s->home[page] && !from_base))
            continue;
        s->home[page] = p->bytes || from_base || !s->s.base_space ? SAID : AS_BASE;
        if (p->bytes)
            rc = put(g, s, page, p->bytes + i * PAGE, err);
    }
    return rc;
}

static int add_own(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct merge *g = arg;
    struct dz_space *s = dz_mem_space(&g->own->mem, p->run.space);
    (void)row;
    return s ? take(g, s, p, false, err) : 0;
}

static int add_below(void *arg, uint32_t row, const struct dz_mem_piece *p, struct dz_err *err)
{
    struct merge *g = arg;
    int rc = 0;
    (void)row;
    for (size_t i = 0; rc == 0 && i < g->own->mem.spaces.n; i++) {
        struct dz_space *s = &g->own->mem.spaces.p[i];
        if (s->s.base_space == p->run.space)
            rc = take(g, s, p, true, err);
    }
    return rc;
}

static int merge_memory(struct merge *g, struct dz_err *err)
{
    uint64_t bytes;
    int rc = dz_mem_pack_init(&g->packer, DZ_MEM_ROW_MANY, NULL, err);
    for (size_t i = 0; rc == 0 && i < g->own->mem.spaces.n; i++) {
        struct dz_space *s = &g->own->mem.spaces.p[i];
        s->range.size = (size_t)s->s.pages * PAGE;
        rc = dz_mem_grow_homes(s, err);
    }
    if (rc == 0)
        rc = dz_mem_read_all(g->own, add_own, g, &bytes, err);
    if (rc == 0)
        rc = dz_mem_read_all(g->below, add_below, g, &bytes, err);
    if (rc == 0)
        rc = flush(g, err);
    dz_mem_pack_release(&g->packer);
    return rc;
}

/* --- the state --------------------------------------------------------------------------- */

static int write_state(struct merge *g, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(DZ_MACHINE_STATE_MAX);
    const struct dz_buf *old = &g->own->state;
    struct dz_state_section section = {.tag = DZ_STATE_SPACES};
    struct dz_state_head h;
    size_t at = (size_t)(g->own->section[DZ_STATE_SPACES].at - (const uint8_t *)old->p);
    dz_buf_add(&b, old->p, at);
    for (size_t i = 0; i < g->own->mem.spaces.n; i++) {
        struct dz_machine_space s = g->own->mem.spaces.p[i].s;
        s.base = DZ_MACHINE_BASE_MODULE;
        s.base_space = 0;
        dz_machine_item_put(&b, i, &dz_machine_space_record, &s);
    }
    section.size = b.len - at;
    const struct dz_view *spaces = &g->own->section[DZ_STATE_SPACES];
    dz_buf_add(&b, spaces->end, (size_t)((const uint8_t *)old->p + old->len - spaces->end));
    if (b.err)
        return dz_fail(err, b.err, "write the machine: out of memory");
    memcpy(b.p + at - sizeof section, &section, sizeof section);
    memcpy(&h, b.p, sizeof h);
    h.size = b.len;
    h.sum = dz_machine_sum(0, b.p + sizeof h, b.len - sizeof h);
    memcpy(b.p, &h, sizeof h);
    return dz_machine_state_put(g->to, &b, err);
}

static int merge(struct merge *g, struct dz_err *err)
{
    int rc = write_state(g, err);
    if (rc == 0)
        rc = dz_machine_rows_copy(g->own->db,
                                  "SELECT part,key,value FROM machine WHERE part<>'state'", g->to,
                                  "INSERT INTO machine(part,key,value)VALUES(?1,?2,?3)", err);
    return rc < 0 ? rc : merge_memory(g, err);
}

/* --- native programs, some of whose pages are in the rows of the image's machine ----------- */

/* The rows of the image that the machine uses are copied, and before its own: these get later
 * generations. Only the list of pages is written anew. */
static int copy_row(const struct merge *g, const struct dz_native_ref *ref, int64_t shift,
                    struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *from = dz_db_stmt(ref->below ? g->own->image : g->own->db,
                                      "SELECT data FROM mem WHERE gen=?1 AND seq=?2");
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *to = dz_db_stmt(g->to, "INSERT INTO mem(gen,seq,data)VALUES(?1,?2,?3)");
    size_t size;
    dz_bind_int(from, 1, ref->gen);
    dz_bind_int(from, 2, ref->seq);
    const int rc = dz_stmt_step(from, err);
    if (rc <= 0)
        return rc < 0 ? rc
                      : dz_fail(err, DZ_ECORRUPT,
                                "the memory of the machine in the file is damaged: a row in the "
                                "list of its pages does not exist");
    const void *bytes = dz_col_blob(from, 0, &size);
    dz_bind_int(to, 1, ref->gen + (ref->below ? 0 : shift));
    dz_bind_int(to, 2, ref->seq);
    dz_bind_blob(to, 3, bytes, size);
    return dz_stmt_run(to, err);
}

static int merge_native(const struct merge *g, struct dz_err *err)
{
    const struct dz_native *n = &g->own->native;
    const int64_t shift = n->refs.p[n->refs.n - 1].gen; /* the newest one of the image */
    DZ_AUTO(dz_buf_release) struct dz_buf list = DZ_BUF_INIT(DZ_MACHINE_NATIVE_MAX);
    int rc =
        dz_machine_rows_copy(g->own->db, "SELECT part,key,value FROM machine WHERE part<>'pages'",
                             g->to, "INSERT INTO machine(part,key,value)VALUES(?1,?2,?3)", err);
    for (size_t i = 0; rc == 0 && i < n->refs.n; i++)
        rc = copy_row(g, &n->refs.p[i], shift, err);
    dz_native_list_rebase(n, shift, &list);
    if (rc == 0 && list.err)
        rc = dz_fail(err, list.err, "flatten the file: the list of its pages is too long");
    return rc < 0 ? rc : dz_native_list_put(g->to, &list, err);
}

static bool is_based(const struct dz_machine *m)
{
    if (m->found != DZ_MACHINE_ASLEEP || m->below)
        return false;
    for (size_t i = 0; i < m->mem.spaces.n; i++)
        if (m->mem.spaces.p[i].s.base == DZ_MACHINE_BASE_IMAGE)
            return true;
    return false;
}

/* Write the machine that sleeps in `from` into the empty tables of `to` (state, modules, memory),
 * so that no memory has one of the image as its base. 1: done; 0: no memory has such a base, and
 * nothing was written. */
static int rebase_machine(struct dz_db *from, struct dz_db *image, struct dz_db *to,
                          struct dz_err *err)
{
    static const struct dz_machine_ops none;
    struct merge g = {.to = to};
    const struct dz_machine_opts own = {.db = from, .image = image, .ops = &none};
    const struct dz_machine_opts below = {.db = image, .ops = &none};
    int rc = image ? dz_machine_open(&own, &g.own, err) : 0;
    const bool native = rc == 0 && g.own && !g.own->below && dz_native_is_based(&g.own->native);
    const bool based = rc == 0 && g.own && is_based(g.own);
    if ((native && g.own->mem.spaces.n) ||
        (based && dz_view_left(&g.own->section[DZ_STATE_NATIVE])))
        rc = dz_fail(err, DZ_EUNSUPPORTED,
                     "flatten the file: native programs and WebAssembly programs of the image's "
                     "machine sleep in it together; end one of the two kinds first");
    else if (native)
        rc = merge_native(&g, err);
    if (rc == 0 && based)
        rc = dz_machine_open(&below, &g.below, err);
    if (rc == 0 && based && g.below->found != DZ_MACHINE_ASLEEP)
        rc = dz_fail(err, DZ_ECORRUPT, "the image below the file holds no suspended machine");
    if (rc == 0 && based)
        rc = merge(&g, err);
    dz_machine_close(g.below);
    dz_machine_close(g.own);
    return rc < 0 ? rc : based || native;
}

/* --- rows -------------------------------------------------------------------------------- */

#define NODE_COLUMNS "ino,mode,uid,gid,nlink,size,rdev,atime,mtime,ctime,base_size,data"
#define INTO_NODE    "INSERT INTO node(" NODE_COLUMNS ")VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)"

/* Does `to` have a row with the key of the current row of `st`? */
static int has(struct dz_db *to, struct dz_stmt *st, const char *sql, int keys, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *q = dz_db_stmt(to, sql);
    for (int i = 0; i < keys; i++) {
        size_t size;
        const void *p = NULL;
        if (dz_col_type(st, i) == DZ_DB_BLOB)
            p = dz_col_blob(st, i, &size);
        if (p)
            dz_bind_blob(q, i + 1, p, size);
        else
            dz_bind_int(q, i + 1, dz_col_int(st, i));
    }
    return dz_stmt_step(q, err);
}

struct table {
    const char *query, *has, *into;
    int keys;
};
static const struct table below[] = {
    {"SELECT " NODE_COLUMNS " FROM node", "SELECT 1 FROM node WHERE ino=?1", INTO_NODE, 1},
    {"SELECT parent,name,ino,type FROM dentry", "SELECT 1 FROM dentry WHERE parent=?1 AND name=?2",
     "INSERT INTO dentry(parent,name,ino,type)VALUES(?1,?2,?3,?4)", 2},
    {"SELECT ino,name,value FROM xattr", "SELECT 1 FROM xattr WHERE ino=?1 AND name=?2",
     "INSERT INTO xattr(ino,name,value)VALUES(?1,?2,?3)", 2},
};

static int copy_below(struct dz_db *image, struct dz_db *to, struct dz_err *err)
{
    for (size_t i = 0; i < DZ_ARRAY_LEN(below); i++) {
        DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(image, below[i].query);
        int rc;
        while ((rc = dz_stmt_step(st, err)) > 0) {
            rc = has(to, st, below[i].has, below[i].keys, err);
            if (rc == 0)
                rc = dz_machine_row_copy(to, st, below[i].into, err);
            if (rc < 0)
                return rc;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* How many bytes of this inode may come from the image; negative: none. */
static int from_image(struct dz_db *to, int64_t ino, int64_t *ret_limit, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(to, "SELECT base_size,data IS NULL FROM node WHERE ino=?1");
    dz_bind_int(st, 1, ino);
    int rc = dz_stmt_step(st, err);
    *ret_limit = rc > 0 && dz_col_int(st, 1) ? dz_col_int(st, 0) : -1;
    return rc < 0 ? rc : 0;
}

static int copy_content_below(struct dz_db *image, struct dz_db *to, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(image, "SELECT id,data FROM chunk");
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        int64_t id = dz_col_int(st, 0), limit;
        size_t size;
        const void *p = dz_col_blob(st, 1, &size);
        rc = from_image(to, id >> 24, &limit, err);
        limit -= (id & 0xffffff) * DZ_VFS_CHUNK;
        if (rc == 0 && limit > 0)
            rc = has(to, st, "SELECT 1 FROM chunk WHERE id=?1", 1, err);
        else if (rc == 0)
            continue;
        if (rc < 0)
            return rc;
        if (rc > 0)
            continue;
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *in = dz_db_stmt(to, "INSERT INTO chunk(id,data)VALUES(?1,?2)");
        dz_bind_int(in, 1, id);
        dz_bind_blob(in, 2, p ? p : "", size < (size_t)limit ? size : (size_t)limit);
        rc = dz_stmt_run(in, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static const struct {
    const char *query, *into;
} above[] = {
    {"SELECT " NODE_COLUMNS " FROM node", INTO_NODE},
    {"SELECT parent,name,ino,type FROM dentry",
     "INSERT INTO dentry(parent,name,ino,type)VALUES(?1,?2,?3,?4)"},
    {"SELECT id,data FROM chunk", "INSERT INTO chunk(id,data)VALUES(?1,?2)"},
    {"SELECT ino,name,value FROM xattr", "INSERT INTO xattr(ino,name,value)VALUES(?1,?2,?3)"},
    {"SELECT ns,k,v,mtime FROM kv", "INSERT INTO kv(ns,k,v,mtime)VALUES(?1,?2,?3,?4)"},
    {"SELECT k,v FROM meta WHERE k IN('chunk','seed','xattrs','orphans','machine','machine_live')",
     "INSERT INTO meta(k,v)VALUES(?1,?2)ON CONFLICT(k)DO UPDATE SET v=?2"},
};

/* In the image itself the size of a file says how much of it the image's rows hold. */
static const char whole_below[] =
    "UPDATE node SET base_size=size WHERE base_size=0 AND data IS NULL AND mode>>12=8 AND ino NOT IN"
    "(SELECT ino FROM temp.own)";
static const char tidy[] =
    "DELETE FROM dentry WHERE ino=0;"
    "DELETE FROM dentry WHERE parent NOT IN(SELECT ino FROM node);"
    "DELETE FROM node WHERE nlink>0 AND ino<>1 AND ino NOT IN(SELECT ino FROM dentry);"
    "DELETE FROM dentry WHERE parent NOT IN(SELECT ino FROM node);"
    "DELETE FROM chunk WHERE length(data)=0 OR id>>24 NOT IN(SELECT ino FROM node WHERE data IS NULL);"
    "DELETE FROM xattr WHERE value IS NULL OR ino NOT IN(SELECT ino FROM node);"
    "INSERT INTO meta(k,v)SELECT 'xattrs',1 WHERE EXISTS(SELECT 1 FROM xattr)"
    " ON CONFLICT(k)DO UPDATE SET v=1;"
    "UPDATE node SET base_size=0;"
    "DROP TABLE temp.own";

/* Copy the rows unchanged unless they refer to the image's. A file in which nothing ever slept has
 * no table of memory. */
static int copy_machine(struct dz_db *from, struct dz_db *image, struct dz_db *to,
                        struct dz_err *err)
{
    int merged = rebase_machine(from, image, to, err);
    if (merged != 0)
        return merged < 0 ? merged : 0;
    int done = dz_machine_rows_copy(from, "SELECT part,key,value FROM machine", to,
                                    "INSERT INTO machine(part,key,value)VALUES(?1,?2,?3)", err);
    if (done < 0)
        return done;
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(from, "SELECT 1 FROM sqlite_schema WHERE name='mem'");
    int rc = dz_stmt_step(st, err);
    return rc <= 0 ? rc
                   : dz_machine_rows_copy(from, "SELECT gen,seq,data FROM mem", to,
                                          "INSERT INTO mem(gen,seq,data)VALUES(?1,?2,?3)", err);
}

static int seal(struct dz_db *from, struct dz_db *image, const struct dz_vfs_pack *pack,
                struct dz_db *to, struct dz_err *err)
{
    const struct dz_vfs_pack none = {0};
    int rc = dz_db_exec(to, dz_vfs_schema_sleeper, err);
    if (rc == 0)
        rc = dz_db_exec(to,
                        "DELETE FROM node; DELETE FROM dentry; DELETE FROM meta WHERE k IN("
                        "'counters','used_bytes','used_inodes');"
                        "CREATE TEMP TABLE own(ino INTEGER PRIMARY KEY)",
                        err);
    for (size_t i = 0; rc == 0 && i < DZ_ARRAY_LEN(above); i++)
        rc = dz_machine_rows_copy(from, above[i].query, to, above[i].into, err);
    if (rc == 0)
        rc = copy_machine(from, image, to, err);
    if (rc == 0)
        rc = dz_db_exec(to, "INSERT INTO temp.own SELECT ino FROM node", err);
    if (rc == 0 && image)
        rc = copy_below(image, to, err);
    if (rc == 0 && image)
        rc = dz_db_exec(to, whole_below, err);
    if (rc == 0 && image)
        rc = copy_content_below(image, to, err);
    if (rc == 0 && image)
        rc = dz_vfs_unpack(to, pack ? pack : &none, err);
    return rc < 0 ? rc : dz_db_exec(to, tidy, err);
}

int dz_machine_flatten(struct dz_db *from, struct dz_db *image, const struct dz_vfs_pack *pack,
                       struct dz_db *to, struct dz_err *err)
{
    int rc = dz_db_begin(to, err);
    if (rc == 0)
        rc = seal(from, image, pack, to, err);
    if (rc == 0)
        rc = dz_db_commit(to, err);
    if (rc < 0)
        dz_db_rollback(to);
    return rc;
}
