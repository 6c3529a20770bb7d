/* SPDX-License-Identifier: MIT
 * Content: inline and chunked files, holes, truncation, append, seek; the image below. */
#include "../lib/vfs_rig.h"
#include "tap.h"

enum {
    CH = DZ_VFS_CHUNK
};

/* A file of n bytes that differ by position. */
static uint64_t make_file(struct rig *r, const char *path, size_t n)
{
    char *p = dz_alloc(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)('A' + (i * 7 + i / 251) % 57);
    CHECK_INT(rig_put(r, path, p, n), 0);
    dz_free(p);
    return rig_ino(r, path);
}

static void check_file(struct rig *r, const char *path, size_t n)
{
    size_t len = 0, bad = 0;
    char *p = rig_get(r, path, &len);
    CHECK(p != NULL);
    CHECK_INT(len, n);
    for (size_t i = 0; p && i < len; i++)
        bad += p[i] != (char)('A' + (i * 7 + i / 251) % 57);
    CHECK_INT(bad, 0);
    dz_free(p);
}

TEST(file_keeps_what_was_written_at_every_size)
{
    static const size_t size[] = {0,      1,  2047,   2048,       2049,       4096,
                                  CH - 1, CH, CH + 1, 2 * CH - 1, 3 * CH + 5, 1 << 20};
    struct rig r;
    rig_start(&r);
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < DZ_ARRAY_LEN(size); i++) {
            char path[32];
            (void)snprintf(path, sizeof path, "/workspace/f%zu", i);
            if (!again)
                (void)make_file(&r, path, size[i]);
            check_file(&r, path, size[i]);
        }
        CHECK_INT(rig_close(&r), 0);
        CHECK_INT(rig_open(&r), 0);
    }
    rig_free(&r);
}

TEST(file_reads_zeros_in_holes_and_nothing_at_its_end)
{
    struct rig r;
    rig_start(&r);
    char buf[64];
    uint64_t ino = make_file(&r, "/tmp/f", 10);
    CHECK_INT(dz_vfs_write(r.v, ino, 100000, "x", 1), 1);
    CHECK_INT(dz_vfs_read(r.v, ino, 99990, buf, sizeof buf), 11);
    CHECK(memcmp(buf, "\0\0\0\0\0\0\0\0\0\0x", 11) == 0);
    CHECK_INT(dz_vfs_read(r.v, ino, 100001, buf, sizeof buf), 0);
    CHECK_INT(dz_vfs_read(r.v, ino, 8, buf, 4), 4);
    CHECK(memcmp(buf + 2, "\0\0", 2) == 0);
    rig_free(&r);
}

static uint64_t allocated(struct rig *r, uint64_t ino)
{
    uint64_t n = 0;
    CHECK_INT(dz_vfs_allocated(r->v, ino, &n), 0);
    return n;
}

TEST(file_truncation_leaves_zeros_when_it_grows_again)
{
    struct rig r;
    rig_start(&r);
    static const uint64_t cut[] = {0, 1, 2000, 2048, 5000, CH - 1, CH, CH + 10, 2 * CH, 3 * CH - 1};
    for (size_t i = 0; i < DZ_ARRAY_LEN(cut); i++) {
        uint64_t ino = make_file(&r, "/tmp/f", 3 * CH);
        struct dz_vfs_attr a = {.size = cut[i]};
        CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
        check_file(&r, "/tmp/f", cut[i]);
        CHECK(allocated(&r, ino) <= cut[i]);
        a.size = 3 * CH;
        CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
        size_t n = 0, bad = 0;
        char *p = rig_get(&r, "/tmp/f", &n);
        for (size_t k = cut[i]; k < n; k++)
            bad += p[k] != 0;
        CHECK_INT(n, 3 * CH);
        CHECK_INT(bad, 0);
        dz_free(p);
    }
    rig_free(&r);
}

TEST(file_appends_at_its_end)
{
    struct rig r;
    rig_start(&r);
    uint64_t off = 0, ino = make_file(&r, "/tmp/log", 0);
    for (int i = 0; i < 5000; i++) {
        char line[32];
        (void)snprintf(line, sizeof line, "line %05d\n", i);
        CHECK_INT(dz_vfs_append(r.v, ino, line, 11, &off), 11);
        CHECK_INT(off, i * 11);
    }
    char buf[12] = {0};
    CHECK_INT(dz_vfs_read(r.v, ino, 3456 * 11, buf, 11), 11);
    CHECK_STR(buf, "line 03456\n");
    rig_free(&r);
}

TEST(file_punches_holes_and_finds_them)
{
    struct rig r;
    rig_start(&r);
    uint64_t off = 0, ino = make_file(&r, "/tmp/f", 4 * CH);
    CHECK_INT(dz_vfs_seek(r.v, ino, 5, SEEK_HOLE, &off), 0);
    CHECK_INT(off, 4 * CH);
    CHECK_INT(dz_vfs_punch(r.v, ino, CH - 10, 2 * CH + 20), 0);
    CHECK_INT(allocated(&r, ino), 2 * CH);
    CHECK_INT(dz_vfs_seek(r.v, ino, 5, SEEK_HOLE, &off), 0);
    CHECK_INT(off, CH);
    CHECK_INT(dz_vfs_seek(r.v, ino, off, SEEK_DATA, &off), 0);
    CHECK_INT(off, 3 * CH);
    CHECK_INT(dz_vfs_seek(r.v, ino, 4 * CH, SEEK_DATA, &off), -ENXIO);
    size_t n = 0;
    char *p = rig_get(&r, "/tmp/f", &n);
    CHECK_INT(n, 4 * CH);
    CHECK(p[CH - 11] != 0 && p[CH - 10] == 0 && p[3 * CH + 9] == 0 && p[3 * CH + 10] != 0);
    dz_free(p);
    rig_free(&r);
}

TEST(file_refuses_what_is_no_file_and_what_is_too_big)
{
    struct rig r;
    rig_start(&r);
    char c = 'x';
    uint64_t ino = make_file(&r, "/tmp/f", 1);
    CHECK_INT(dz_vfs_read(r.v, DZ_VFS_TMP, 0, &c, 1), -EISDIR);
    CHECK_INT(dz_vfs_write(r.v, DZ_VFS_TMP, 0, &c, 1), -EISDIR);
    CHECK_INT(dz_vfs_read(r.v, 999, 0, &c, 1), -ENOENT);
    CHECK_INT(dz_vfs_write(r.v, ino, DZ_VFS_FILE_MAX, &c, 1), -EFBIG);
    CHECK_INT(dz_vfs_write(r.v, ino, DZ_VFS_FILE_MAX - 1, &c, 1), 1);
    struct dz_vfs_attr a = {.size = DZ_VFS_FILE_MAX + 1};
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), -EFBIG);
    a.size = DZ_VFS_FILE_MAX;
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
    a.size = 0;
    CHECK_INT(dz_vfs_setattr(r.v, DZ_VFS_TMP, DZ_VFS_SET_SIZE, &a), -EISDIR);
    rig_free(&r);
}

static int64_t used(struct rig *r)
{
    struct dz_vfs_usage u;
    dz_vfs_usage(r->v, &u);
    return (int64_t)u.bytes;
}

TEST(image_file_is_copied_up_chunk_by_chunk)
{
    struct rig r;
    rig_start(&r);
    (void)make_file(&r, "/workspace/big", 10 * CH + 100);
    (void)make_file(&r, "/workspace/small", 1000);
    CHECK_INT(rig_close(&r), 0);
    rig_put_below(&r);
    CHECK_INT(rig_open(&r), 0);
    CHECK_STR(r.err.msg, "");
    uint64_t ino = rig_ino(&r, "/workspace/big");
    check_file(&r, "/workspace/big", 10 * CH + 100);
    check_file(&r, "/workspace/small", 1000);
    CHECK_INT(used(&r), 0);
    CHECK_INT(dz_vfs_write(r.v, ino, 5 * CH + 3, "!", 1), 1);
    CHECK_INT(used(&r), CH);
    CHECK_INT(rig_close(&r), 0);
    CHECK_INT(rig_open(&r), 0);
    size_t n = 0;
    char *p = rig_get(&r, "/workspace/big", &n);
    CHECK_INT(n, 10 * CH + 100);
    CHECK(p && p[5 * CH + 3] == '!');
    dz_free(p);
    CHECK_INT(used(&r), CH);
    rig_free(&r);
}

TEST(image_file_stays_cut_where_it_was_truncated)
{
    struct rig r;
    rig_start(&r);
    (void)make_file(&r, "/workspace/big", 4 * CH);
    CHECK_INT(rig_close(&r), 0);
    rig_put_below(&r);
    CHECK_INT(rig_open(&r), 0);
    uint64_t ino = rig_ino(&r, "/workspace/big");
    struct dz_vfs_attr a = {.size = CH + 50};
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
    a.size = 4 * CH;
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
    CHECK_INT(dz_vfs_write(r.v, ino, CH + 100, "x", 1), 1); /* a copy-up of what is left */
    for (int again = 0; again < 2; again++) {
        size_t n = 0, bad = 0;
        char *p = rig_get(&r, "/workspace/big", &n);
        CHECK_INT(n, 4 * CH);
        for (size_t i = CH + 50; p && i < n; i++)
            bad += p[i] != (i == CH + 100 ? 'x' : 0);
        CHECK_INT(bad, 0);
        CHECK(p && p[CH + 49] != 0);
        dz_free(p);
        CHECK_INT(rig_close(&r), 0);
        CHECK_INT(rig_open(&r), 0);
    }
    rig_free(&r);
}

/* Of the image a byte less, exactly at a chunk's edge, one more: what is cut never shows again. */
TEST(image_file_cut_by_a_byte_shows_none_of_it)
{
    static const uint64_t cut[] = {4 * CH - 1, 3 * CH + 1, 3 * CH, 3 * CH - 1, 2 * CH + 7, 1};
    for (size_t c = 0; c < DZ_ARRAY_LEN(cut); c++)
        for (int write = 0; write < 2; write++) {
            struct rig r;
            rig_start(&r);
            (void)make_file(&r, "/workspace/big", 4 * CH);
            CHECK_INT(rig_close(&r), 0);
            rig_put_below(&r);
            CHECK_INT(rig_open(&r), 0);
            uint64_t off = 0, ino = rig_ino(&r, "/workspace/big");
            struct dz_vfs_attr a = {.size = cut[c]};
            CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
            check_file(&r, "/workspace/big", cut[c]);
            a.size = 4 * CH;
            CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
            if (write) /* the last byte of a chunk: it is copied up */
                CHECK_INT(dz_vfs_write(r.v, ino, 4 * CH - 1, "x", 1), 1);
            for (int again = 0; again < 2; again++) {
                size_t n = 0, bad = 0;
                char *p = rig_get(&r, "/workspace/big", &n);
                CHECK_INT(n, 4 * CH);
                for (size_t i = cut[c]; p && i < n; i++)
                    bad += p[i] != (write && i == 4 * CH - 1 ? 'x' : 0);
                CHECK_INT(bad, 0);
                dz_free(p);
                if (!write && cut[c] % CH == 0) {
                    CHECK_INT(dz_vfs_seek(r.v, ino, cut[c], SEEK_DATA, &off), -ENXIO);
                    CHECK_INT(dz_vfs_seek(r.v, ino, 0, SEEK_HOLE, &off), 0);
                    CHECK_INT(off, cut[c]);
                }
                CHECK_INT(rig_close(&r), 0);
                CHECK_INT(rig_open(&r), 0);
            }
            rig_free(&r);
        }
}

/* A chunk of the image that is punched stays hidden: punched again, read again, opened again. */
TEST(image_file_is_punched)
{
    struct rig r;
    rig_start(&r);
    (void)make_file(&r, "/workspace/big", 4 * CH);
    CHECK_INT(rig_close(&r), 0);
    rig_put_below(&r);
    CHECK_INT(rig_open(&r), 0);
    uint64_t ino = rig_ino(&r, "/workspace/big");
    CHECK_INT(dz_vfs_write(r.v, ino, 2 * CH, "x", 1), 1); /* copied up, then punched */
    for (int again = 0; again < 3; again++) {
        size_t n = 0, bad = 0;
        CHECK_INT(dz_vfs_punch(r.v, ino, CH, 2 * CH), 0);
        char *p = rig_get(&r, "/workspace/big", &n);
        CHECK_INT(n, 4 * CH);
        for (size_t i = 0; p && i < n; i++)
            bad += (p[i] == 0) != (i >= CH && i < 3 * CH);
        CHECK_INT(bad, 0);
        CHECK_INT(used(&r), 0);
        dz_free(p);
        if (again == 1) {
            CHECK_INT(rig_close(&r), 0);
            CHECK_INT(rig_open(&r), 0);
        }
    }
    rig_free(&r);
}

/* Each step but the last is committed: so the log of a long cut stays short, and a crash just
 * after it finds the file cut. */
TEST(file_that_is_cut_in_steps_is_committed_between_them)
{
    struct rig r;
    rig_start(&r);
    CHECK_INT(rig_close(&r), 0);
    r.opts.step_chunks = 1;
    CHECK_INT(rig_open(&r), 0);
    uint64_t ino = make_file(&r, "/workspace/big", 6 * CH);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    struct dz_vfs_attr a = {.size = 10};
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
    rig_crash(&r);
    CHECK_INT(rig_open(&r), 0);
    check_file(&r, "/workspace/big", 10);
    rig_free(&r);
}

static int64_t rows_of_chunks(struct rig *r)
{
    DZ_AUTO(dz_stmt_resetp)
    struct dz_stmt *st = dz_db_stmt(r->db, "SELECT count(*) FROM chunk");
    CHECK_INT(dz_stmt_step(st, NULL), 1);
    return dz_col_int(st, 0);
}

TEST(file_has_rows_for_its_content_from_the_commit_on)
{
    struct rig r;
    rig_start(&r);
    static char step[4000];
    memset(step, 'x', sizeof step);
    uint64_t ino = make_file(&r, "/tmp/f", 0), n = 0;
    for (uint64_t at = 0; at < 3 * CH; at += sizeof step)
        CHECK_INT(dz_vfs_write(r.v, ino, at, step, sizeof step), (int)sizeof step);
    CHECK_INT(rows_of_chunks(&r), 0);
    CHECK_INT(dz_vfs_seek(r.v, ino, 0, SEEK_HOLE, &n), 0);
    CHECK_INT(n, 25 * sizeof step);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    CHECK_INT(rows_of_chunks(&r), 4);
    /* what is removed before the commit never becomes a row */
    (void)make_file(&r, "/tmp/short-lived", 5 * CH);
    CHECK_INT(dz_vfs_unlink(r.v, DZ_VFS_TMP, "short-lived", 11), 0);
    CHECK_INT(dz_vfs_write(r.v, ino, 4 * CH, step, sizeof step), (int)sizeof step);
    struct dz_vfs_attr a = {.size = CH};
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    CHECK_INT(rows_of_chunks(&r), 1);
    CHECK_INT(allocated(&r, ino), CH);
    rig_free(&r);
}

TEST(file_that_keeps_its_length_is_patched_with_all_its_changes)
{
    struct rig r;
    rig_start(&r);
    char buf[8];
    uint64_t ino = make_file(&r, "/tmp/f", CH);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    CHECK_INT(dz_vfs_write(r.v, ino, 9000, "abc", 3), 3);
    CHECK_INT(dz_vfs_write(r.v, ino, 500, "def", 3), 3);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    CHECK_INT(dz_vfs_read(r.v, ino, 9000, buf, 3), 3);
    CHECK(memcmp(buf, "abc", 3) == 0);
    CHECK_INT(dz_vfs_read(r.v, ino, 500, buf, 3), 3);
    CHECK(memcmp(buf, "def", 3) == 0);
    /* cut, and grown to the same length: zeros, not what the row had */
    struct dz_vfs_attr a = {.size = 3000};
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
    CHECK_INT(dz_vfs_write(r.v, ino, CH - 1, "z", 1), 1);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    CHECK_INT(dz_vfs_read(r.v, ino, 9000, buf, 3), 3);
    CHECK(memcmp(buf, "\0\0\0", 3) == 0);
    rig_free(&r);
}

TEST(file_is_refused_by_the_quota_at_its_write_and_not_later)
{
    struct rig r;
    rig_start(&r);
    struct dz_vfs_usage u;
    uint64_t ino = make_file(&r, "/tmp/f", 2 * CH);
    dz_vfs_usage(r.v, &u);
    const uint64_t used = u.bytes;
    CHECK_INT(used, 2 * CH);
    dz_vfs_set_limits(r.v, used + 100, 0);
    CHECK_INT(dz_vfs_write(r.v, ino, 2 * CH, "x", 1), 1);
    CHECK_INT(dz_vfs_write(r.v, ino, 4 * CH, "0123456789", 10), 10);
    char big[100] = "";
    CHECK_INT(dz_vfs_write(r.v, ino, 6 * CH, big, sizeof big), -EDQUOT);
    dz_vfs_usage(r.v, &u);
    CHECK_INT(u.bytes, used + 11);
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    dz_vfs_usage(r.v, &u);
    CHECK_INT(u.bytes, used + 11);
    rig_free(&r);
}

TEST(file_of_any_size_is_committed_while_it_is_written)
{
    struct rig r;
    rig_start(&r);
    static char step[CH];
    uint64_t ino = make_file(&r, "/tmp/f", 0);
    for (uint64_t at = 0; at < (uint64_t)16 << 20; at += CH)
        CHECK_INT(dz_vfs_write(r.v, ino, at, step, CH), CH);
    CHECK(rows_of_chunks(&r) >= 300);
    rig_free(&r);
}

TEST(file_inline_loses_what_is_cut_or_punched_and_no_more)
{
    struct rig r;
    rig_start(&r);
    uint64_t ino = make_file(&r, "/tmp/f", 1000);
    struct dz_vfs_attr a = {.size = 999};
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
    a.size = 1000;
    CHECK_INT(dz_vfs_setattr(r.v, ino, DZ_VFS_SET_SIZE, &a), 0);
    CHECK_INT(dz_vfs_punch(r.v, ino, 100, 50), 0);
    size_t n = 0;
    char *p = rig_get(&r, "/tmp/f", &n);
    CHECK_INT(n, 1000);
    CHECK(p[999] == 0 && p[998] != 0);
    CHECK(p[99] != 0 && p[100] == 0 && p[149] == 0 && p[150] != 0);
    dz_free(p);
    rig_free(&r);
}

TEST(file_ends_of_holes_are_exact)
{
    struct rig r;
    uint64_t off = 0;
    rig_start(&r);
    uint64_t ino = make_file(&r, "/tmp/f", 4 * CH - 100);
    CHECK_INT(dz_vfs_seek(r.v, ino, 5, SEEK_DATA, &off), 0);
    CHECK_INT(off, 5); /* not where its chunk begins */
    CHECK_INT(dz_vfs_seek(r.v, ino, 5, SEEK_HOLE, &off), 0);
    CHECK_INT(off, 4 * CH - 100); /* not where its chunk ends */
    CHECK_INT(dz_vfs_append(r.v, ino, "+", 1, &off), 1);
    CHECK_INT(off, 4 * CH - 100);
    CHECK_INT(dz_vfs_punch(r.v, ino, CH, CH), 0);
    CHECK_INT(dz_vfs_seek(r.v, ino, CH + 5, SEEK_HOLE, &off), 0);
    CHECK_INT(off, CH + 5);
    CHECK_INT(dz_vfs_punch(r.v, ino, 3 * CH + 10, UINT64_MAX), 0); /* to the end */
    CHECK_INT(dz_vfs_punch(r.v, ino, 4 * CH, 10), 0);              /* behind it: nothing */
    size_t n = 0;
    char *p = rig_get(&r, "/tmp/f", &n);
    CHECK_INT(n, 4 * CH - 99);
    CHECK(p[3 * CH + 9] != 0 && p[3 * CH + 10] == 0 && p[n - 1] == 0);
    dz_free(p);
    rig_free(&r);
}
