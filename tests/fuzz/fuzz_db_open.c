/* SPDX-License-Identifier: MIT
 *
 * A damaged database file, opened and used: an error or work, never a crash.
 *
 * The input is 'R' and the bytes of a file, or edits of a good file and its log.
 * An edit is 4 bytes: kind and three of position, then what the kind wants:
 *   0 xor of a byte of the file      1 the same of the log     (one byte more)
 *   2 the file cut there             3 the log cut there
 *   4 a page copied over another     5 a frame over another    (one byte more)
 *   6 a big-endian 16-bit number set at the start of a page    (two bytes more)
 */
#include "base/buf.h"
#include "base/mem.h"
#include "db/db.h"
#include "db/db_sim.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAME_BYTES = 24 + DZ_DB_PAGE_BYTES,
    ROWS_MAX = 2000,
};

static const char *const steps[] = {
    "CREATE TABLE chunk(id INTEGER PRIMARY KEY, data BLOB NOT NULL);"
    "CREATE TABLE dentry(parent INTEGER, name BLOB, ino INTEGER, PRIMARY KEY(parent, name)) "
    "WITHOUT ROWID;"
    "INSERT INTO chunk VALUES(1, zeroblob(9000)), (2, zeroblob(10)), (3, 'three');"
    "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i < 400) "
    "INSERT INTO dentry SELECT i % 3, 'a name of some length ' || i, i FROM n",
};
static const struct dz_db_schema schema = {"fuzzed file", 0x46555a5a, steps, 1, 0};

struct bytes {
    uint8_t *p;
    size_t n;
};
static struct bytes good[DZ_DB_FILES];

static struct bytes copy_of(const void *p, size_t n)
{
    struct bytes b = {malloc(n ? n : 1), n};
    if (!b.p)
        abort();
    if (n)
        memcpy(b.p, p, n);
    return b;
}

/* The good file, and a log of two transactions that was never moved. */
static void make_good(void)
{
    struct dz_buf t = DZ_BUF_INIT(DZ_DB_TEMPLATE_MAX);
    struct dz_db_sim *sim = dz_db_sim_new(1);
    struct dz_db *db = NULL;
    dz_db_seed(7);
    int r = dz_db_template(&schema, &t, NULL);
    if (r == 0 && sim)
        r = dz_db_sim_load(sim, DZ_DB_FILE_MAIN, t.p, t.len);
    if (r == 0)
        r = dz_db_open_disk(&db, dz_db_sim_disk(sim), &(struct dz_db_opts){.schema = &schema},
                            NULL);
    if (r == 0)
        r = dz_db_exec(db, "UPDATE chunk SET data = zeroblob(8000) WHERE id = 1", NULL);
    if (r == 0)
        r = dz_db_exec(db, "DELETE FROM dentry WHERE parent = 1", NULL);
    if (r != 0)
        abort();
    for (int f = 0; f < DZ_DB_FILES; f++) {
        size_t n = 0;
        const void *p = dz_db_sim_bytes(sim, (enum dz_db_file)f, &n);
        good[f] = copy_of(p, n);
    }
    (void)dz_db_close(db, true, NULL);
    dz_db_sim_free(sim);
    dz_buf_release(&t);
}

static void copy_unit(struct bytes *b, size_t unit, size_t to, size_t from)
{
    size_t count = b->n / unit;
    if (count)
        memmove(b->p + to % count * unit, b->p + from % count * unit, unit);
}

static size_t edit(struct bytes files[static DZ_DB_FILES], const uint8_t *p, size_t n)
{
    struct bytes *b = &files[p[0] & 1];
    size_t at = (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    size_t page_start = b->n ? at * DZ_DB_PAGE_BYTES % b->n : 0;
    switch (p[0] % 7) {
    case 0:
    case 1:
        if (b->n && n > 4)
            b->p[at % b->n] ^= p[4];
        return 5;
    case 2:
    case 3:
        b->n = at % (b->n + 1);
        return 4;
    case 4:
        copy_unit(&files[DZ_DB_FILE_MAIN], DZ_DB_PAGE_BYTES, at, n > 4 ? p[4] : 0);
        return 5;
    case 5:
        copy_unit(&files[DZ_DB_FILE_WAL], FRAME_BYTES, at, n > 4 ? p[4] : 0);
        return 5;
    default:
        if (n > 5 && page_start + 7 <= b->n)
            memcpy(b->p + page_start + 3 + (at & 2), p + 4, 2);
        return 6;
    }
}

static void scan(struct dz_db *db, const char *sql)
{
    struct dz_stmt *st = dz_db_stmt(db, sql);
    static volatile unsigned sum; /* every byte that we are told of can be read */
    int r = 1;
    for (int i = 0; r == 1 && i < ROWS_MAX; i++) {
        r = dz_stmt_step(st, NULL);
        if (r == 1) {
            size_t n = 0;
            const uint8_t *p = dz_col_blob(st, 0, &n);
            sum = sum + (n ? (unsigned)p[0] + p[n - 1] : 0u);
        }
    }
    dz_stmt_reset(st);
}

static void use(struct dz_db *db)
{
    struct dz_blob *blob = NULL;
    char buf[64];
    scan(db, "SELECT data, id FROM chunk");
    scan(db, "SELECT name, parent, ino FROM dentry");
    scan(db, "PRAGMA quick_check(5)");
    if (dz_db_begin(db, NULL) == 0) {
        int r = dz_db_exec(db, "INSERT INTO chunk(data) VALUES(zeroblob(20000))", NULL);
        if (dz_db_in_txn(db))
            r = dz_db_exec(db, "DELETE FROM chunk WHERE id = 2", NULL);
        if (dz_db_in_txn(db))
            r = dz_db_exec(db, "INSERT OR REPLACE INTO dentry VALUES(0, x'00', 1)", NULL);
        assert(r <= 0);
        if (dz_db_in_txn(db) && dz_db_commit(db, NULL) < 0)
            dz_db_rollback(db);
    }
    if (dz_blob_open(
            db, &(struct dz_blob_at){.table = "chunk", .column = "data", .rowid = 1, .write = true},
            &blob, NULL) == 0) {
        size_t n = dz_blob_size(blob) < sizeof buf ? dz_blob_size(blob) : sizeof buf;
        if (dz_blob_read(blob, buf, n, dz_blob_size(blob) - n, NULL) == 0)
            assert(dz_blob_write(blob, buf, n, 0, NULL) <= 0);
        dz_blob_close(blob);
    }
    dz_db_rollback(db);
    int done = dz_db_maintain(db, true, NULL);
    assert(done <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_err err = {0};
    struct dz_db *db = NULL;
    struct bytes files[DZ_DB_FILES];
    if (!good[0].p)
        make_good();
    if (size && data[0] == 'R') {
        files[DZ_DB_FILE_MAIN] = copy_of(data + 1, size - 1);
        files[DZ_DB_FILE_WAL] = copy_of("", 0);
    } else {
        for (int f = 0; f < DZ_DB_FILES; f++)
            files[f] = copy_of(good[f].p, good[f].n);
        for (size_t i = 0; i + 4 <= size;)
            i += edit(files, data + i, size - i);
    }
    struct dz_db_sim *sim = dz_db_sim_new(1);
    for (int f = 0; f < DZ_DB_FILES; f++) {
        if (!sim || dz_db_sim_load(sim, (enum dz_db_file)f, files[f].p, files[f].n) < 0)
            abort();
        free(files[f].p);
    }
    const struct dz_db_opts opts = {.schema = &schema, .label = "fuzzed", .wary = size % 2};
    int r = dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, &err);
    assert(r == 0 || (r < 0 && err.code == r && err.msg[0]));
    if (r == 0) {
        use(db);
        (void)dz_db_close(db, false, NULL);
    }
    dz_db_sim_free(sim);
    assert(size == 0 || good[0].n > 0);
    return 0;
}
