/* SPDX-License-Identifier: MIT
 * Files of an image whose content lies in its pack: read, changed above, put back, and hostile. */
#include "../lib/vfs_rig.h"
#include "tap.h"

#include "base/fd.h"
#include "base/mem.h"
#include "vfs/vfs_int.h"

#include <sys/mman.h>

enum {
    LARGE = 3 * DZ_VFS_CHUNK + 100,
    LARGE_AT = DZ_VFS_PACK_PAGE,
    SMALL_AT = LARGE_AT + 25 * DZ_VFS_PACK_PAGE,
    PACK = SMALL_AT + DZ_VFS_PACK_PAGE,
};

static struct rig r;
static uint8_t pack[PACK], large[LARGE];
static const char small[] = "small, but a program";

static void sql(struct dz_db_sim *sim, const char *text)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    struct dz_db *db = NULL;
    struct dz_err err = {0};
    CHECK_INT(dz_db_open_disk(&db, dz_db_sim_disk(sim), &opts, &err), 0);
    CHECK_INT(dz_db_exec(db, text, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(dz_db_close(db, false, &err), 0);
}

/* A closed disk with /large and /small in a pack, and /plain in rows. */
static void make_image(void)
{
    char text[400];
    rig_start(&r);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (uint8_t)(i * 7 + i / 251);
    CHECK_INT(rig_put(&r, "/large", large, LARGE), 0);
    CHECK_INT(rig_put(&r, "/small", small, sizeof small), 0);
    CHECK_INT(rig_put(&r, "/plain", "in rows", 7), 0);
    CHECK_INT(rig_ino(&r, "/large"), 5);
    CHECK_INT(rig_close(&r), 0);
    memset(pack, 0, sizeof pack);
    dz_vfs_pack_begin(pack, PACK);
    memcpy(pack + LARGE_AT, large, LARGE);
    memcpy(pack + SMALL_AT, small, sizeof small);
    (void)snprintf(text, sizeof text,
                   "UPDATE node SET rdev=%d WHERE ino=5;DELETE FROM chunk WHERE id>>24=5;"
                   "UPDATE node SET rdev=%d,data=NULL WHERE ino=6;"
                   "INSERT INTO meta VALUES('packed',%d);UPDATE meta SET v=7 WHERE k='used_bytes'",
                   LARGE_AT, SMALL_AT, LARGE + (int)sizeof small);
    sql(r.sim, text);
    r.opts.pack = (struct dz_vfs_pack){.at = pack, .size = PACK};
}

/* A new disk above it. */
static void begin(void)
{
    make_image();
    rig_put_below(&r);
    CHECK_INT(rig_open(&r), 0);
    CHECK_STR(r.err.msg, "");
}

static bool has(const char *path, const void *data, size_t n)
{
    size_t got = 0;
    char *p = rig_get(&r, path, &got);
    bool same = p && got == n && memcmp(p, data, n) == 0;
    dz_free(p);
    return same;
}

static uint64_t packed_at(const char *path)
{
    uint64_t at = 0;
    int rc = dz_vfs_packed(r.v, rig_ino(&r, path), &at);
    return rc > 0 ? at : 0;
}

static void tell(void *arg, const struct dz_vfs_damage *d)
{
    (void)arg;
    printf("# %s: %s\n", d->what, d->text);
}

static uint64_t damages(void)
{
    uint64_t count = 99;
    CHECK_INT(dz_vfs_commit(r.v, &r.err), 0);
    const struct dz_vfs_check_opts o = {
        .db = r.db, .image = r.image, .pack = r.opts.pack, .damage = tell};
    CHECK_INT(dz_vfs_check(&o, &count, &r.err), 0);
    return count;
}

TEST(files_of_the_pack_are_read_as_any)
{
    struct dz_vfs_usage u;
    struct dz_vfs_attr a;
    uint64_t at = 0, bytes = 0;
    char piece[100];
    begin();
    CHECK(has("/large", large, LARGE));
    CHECK(has("/small", small, sizeof small));
    CHECK(has("/plain", "in rows", 7));
    CHECK_INT(dz_vfs_read(r.v, 5, DZ_VFS_CHUNK - 50, piece, 100), 100);
    CHECK(memcmp(piece, large + DZ_VFS_CHUNK - 50, 100) == 0);
    CHECK_INT(dz_vfs_read(r.v, 5, LARGE - 10, piece, 100), 10);
    CHECK_INT(dz_vfs_getattr(r.v, 5, &a), 0);
    CHECK_INT(a.rdev, 0); /* a device has one */
    CHECK_INT(dz_vfs_seek(r.v, 5, 10, SEEK_DATA, &at), 0);
    CHECK_INT(at, 10);
    CHECK_INT(dz_vfs_seek(r.v, 5, 0, SEEK_HOLE, &at), 0);
    CHECK_INT(at, LARGE);
    CHECK_INT(dz_vfs_allocated(r.v, 5, &bytes), 0);
    CHECK_INT(bytes, LARGE);
    dz_vfs_usage(r.v, &u);
    CHECK_INT(u.image_bytes, LARGE + sizeof small + 7);
    CHECK_INT(damages(), 0);
    rig_free(&r);
}

TEST(where_a_file_is_in_the_pack_until_it_is_changed)
{
    const struct dz_vfs_attr mode = {.mode = 0600};
    begin();
    CHECK_INT(packed_at("/large"), LARGE_AT);
    CHECK_INT(packed_at("/small"), SMALL_AT);
    CHECK_INT(packed_at("/plain"), 0);
    CHECK_INT(dz_vfs_setattr(r.v, 5, DZ_VFS_SET_MODE, &mode), 0); /* its content is the image's */
    CHECK_INT(packed_at("/large"), LARGE_AT);
    CHECK_INT(dz_vfs_commit(r.v, NULL), 0);
    CHECK_INT(packed_at("/large"), LARGE_AT);
    CHECK_INT(dz_vfs_write(r.v, 5, DZ_VFS_CHUNK + 1, "x", 1), 1);
    CHECK_INT(packed_at("/large"), 0);
    CHECK_INT(rig_close(&r), 0);
    CHECK_INT(rig_open(&r), 0);
    CHECK_INT(packed_at("/large"), 0);
    CHECK_INT(packed_at("/small"), SMALL_AT);
    const struct dz_vfs_attr size = {.size = 5};
    CHECK_INT(dz_vfs_setattr(r.v, 6, DZ_VFS_SET_SIZE, &size), 0);
    CHECK_INT(packed_at("/small"), 0);
    CHECK_INT(packed_at("/large"), 0);
    CHECK_INT(damages(), 0);
    rig_free(&r);
}

TEST(what_is_written_copies_one_chunk_up)
{
    struct dz_vfs_usage u;
    begin();
    memcpy(large + DZ_VFS_CHUNK + 10, "new", 3);
    CHECK_INT(dz_vfs_write(r.v, 5, DZ_VFS_CHUNK + 10, "new", 3), 3);
    CHECK(has("/large", large, LARGE));
    dz_vfs_usage(r.v, &u);
    CHECK_INT(u.bytes, DZ_VFS_CHUNK);
    CHECK_INT(rig_close(&r), 0);
    CHECK_INT(rig_open(&r), 0);
    CHECK(has("/large", large, LARGE));
    CHECK_INT(damages(), 0);
    /* at its end, which lies in the pack's last page */
    char tail[LARGE + 3];
    memcpy(tail, large, LARGE);
    memcpy(tail + LARGE, "end", 3);
    CHECK_INT(dz_vfs_write(r.v, 5, LARGE, "end", 3), 3);
    CHECK(has("/large", tail, sizeof tail));
    CHECK_INT(damages(), 0);
    rig_free(&r);
}

TEST(what_is_cut_off_and_punched_out_stays_away)
{
    static uint8_t want[LARGE];
    begin();
    const struct dz_vfs_attr cut = {.size = DZ_VFS_CHUNK + 7}, grow = {.size = LARGE};
    memcpy(want, large, DZ_VFS_CHUNK + 7);
    CHECK_INT(dz_vfs_setattr(r.v, 5, DZ_VFS_SET_SIZE, &cut), 0);
    CHECK_INT(dz_vfs_setattr(r.v, 5, DZ_VFS_SET_SIZE, &grow), 0);
    CHECK(has("/large", want, LARGE)); /* the rest is zeros, not the pack's */
    CHECK_INT(dz_vfs_punch(r.v, 5, 0, DZ_VFS_CHUNK), 0);
    memset(want, 0, DZ_VFS_CHUNK);
    CHECK(has("/large", want, LARGE));
    CHECK_INT(rig_close(&r), 0);
    CHECK_INT(rig_open(&r), 0);
    CHECK(has("/large", want, LARGE));
    CHECK_INT(packed_at("/large"), 0);
    CHECK_INT(damages(), 0);
    /* to nothing, and filled again */
    CHECK_INT(rig_put(&r, "/small", "other", 5), 0);
    CHECK(has("/small", "other", 5));
    CHECK_INT(rig_put(&r, "/small", large, 5000), 0);
    CHECK(has("/small", large, 5000));
    CHECK_INT(damages(), 0);
    rig_free(&r);
}

TEST(without_its_pack_it_is_not_opened_and_with_it_never_written)
{
    make_image();
    CHECK_INT(rig_open(&r), DZ_EUNSUPPORTED); /* the image itself, to be changed */
    CHECK(strstr(r.err.msg, "cannot be changed") != NULL);
    r.opts.readonly = true;
    CHECK_INT(rig_open(&r), 0);
    CHECK(has("/large", large, LARGE));
    CHECK_INT(packed_at("/large"), LARGE_AT);
    CHECK_INT(dz_vfs_write(r.v, 5, 0, "x", 1), -EROFS);
    CHECK_INT(damages(), 0);
    rig_crash(&r);
    r.opts.pack = (struct dz_vfs_pack){0};
    CHECK_INT(rig_open(&r), DZ_ENOENT);
    CHECK(strstr(r.err.msg, "in its pack, which was not given") != NULL);
    r.opts.readonly = false;
    rig_put_below(&r);
    CHECK_INT(rig_open(&r), DZ_ENOENT);
    rig_free(&r);
}

TEST(a_check_without_the_pack_says_what_it_can)
{
    make_image();
    r.opts.readonly = true;
    CHECK_INT(rig_open(&r), 0);
    r.opts.pack = (struct dz_vfs_pack){0};
    CHECK_INT(damages(), 0);
    rig_free(&r);
}

/* --- hostile --------------------------------------------------------------------------- */

static void hostile(const char *edit, const char *path)
{
    char some[16];
    make_image();
    sql(r.sim, edit);
    r.opts.readonly = true;
    if (rig_open(&r) == 0) { /* the image itself */
        CHECK(damages() > 0);
        if (path)
            CHECK(rig_ino(&r, path) == 0); /* no such inode can be loaded */
        rig_crash(&r);
    }
    r.opts.readonly = false;
    rig_put_below(&r);
    if (rig_open(&r) == 0 && path) {
        CHECK_INT(dz_vfs_read(r.v, 5, 0, some, sizeof some), -EIO);
        CHECK_INT(dz_vfs_write(r.v, 5, 0, "x", 1), -EIO);
    }
    rig_free(&r);
}

TEST(offsets_and_sizes_that_do_not_fit_the_pack)
{
    hostile("UPDATE node SET rdev=1 WHERE ino=5", "/large");
    hostile("UPDATE node SET rdev=4095 WHERE ino=5", "/large");
    hostile("UPDATE node SET rdev=4097 WHERE ino=5", "/large");
    hostile("UPDATE node SET rdev=-4096 WHERE ino=5", "/large");
    hostile("UPDATE node SET rdev=1<<62 WHERE ino=5", "/large");
    hostile("UPDATE node SET rdev=8192,size=size+100000 WHERE ino=5", "/large");
    hostile("UPDATE node SET size=1<<38 WHERE ino=5", "/large");
    hostile("UPDATE node SET size=-1 WHERE ino=5", "/large");
}

TEST(content_in_two_places_and_notes_that_lie)
{
    hostile("UPDATE node SET data=x'00',size=1 WHERE ino=6", NULL);
    hostile("INSERT INTO chunk VALUES(5<<24,x'00')", NULL);
    hostile("UPDATE meta SET v=v+1 WHERE k='packed'", NULL);
    hostile("UPDATE meta SET v=-1 WHERE k='packed'", NULL);
    hostile("DELETE FROM meta WHERE k='packed'", NULL);
}

/* A sandbox's own row may not move a file in the pack. */
TEST(rows_above_that_lie)
{
    char text[200];
    const struct dz_vfs_attr mode = {.mode = 0600};
    begin();
    CHECK_INT(dz_vfs_setattr(r.v, 5, DZ_VFS_SET_MODE, &mode), 0);
    CHECK_INT(rig_close(&r), 0);
    (void)snprintf(text, sizeof text, "UPDATE node SET rdev=%d WHERE ino=5", SMALL_AT);
    sql(r.sim, text);
    CHECK_INT(rig_open(&r), 0);
    CHECK(rig_ino(&r, "/large") == 0); /* it would end behind the pack */
    CHECK(damages() > 0);
    CHECK_INT(rig_close(&r), 0);
    sql(r.sim, "UPDATE node SET rdev=0 WHERE ino=5");
    CHECK_INT(rig_open(&r), 0);
    CHECK(damages() > 0);
    CHECK_INT(rig_close(&r), 0);
    /* one that the image does not have is in no pack */
    CHECK_INT(rig_open(&r), 0);
    CHECK_INT(rig_put(&r, "/own", large, 5000), 0);
    CHECK_INT(rig_close(&r), 0);
    (void)snprintf(text, sizeof text, "UPDATE node SET rdev=%d WHERE ino=8", SMALL_AT);
    sql(r.sim, text);
    CHECK_INT(rig_open(&r), 0);
    CHECK(has("/own", large, 5000));
    CHECK_INT(packed_at("/own"), 0);
    rig_free(&r);
}

/* --- the file of a pack ------------------------------------------------------------------ */

static int file_of(size_t n)
{
    int fd = memfd_create("pack", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, pack, n) == (ssize_t)n);
    return fd;
}

static int map(int fd, uint64_t at)
{
    struct dz_vfs_pack p = {0};
    struct dz_err err = {0};
    int rc = dz_vfs_pack_map(fd, at, &p, &err);
    CHECK(rc < 0 ? err.msg[0] && !p.at : p.size == PACK && memcmp(p.at, pack, PACK) == 0);
    dz_vfs_pack_unmap(&p);
    return rc;
}

TEST(a_pack_is_mapped_when_it_is_one)
{
    make_image();
    DZ_AUTO(dz_fd_close) int fd = file_of(PACK), cut = file_of(PACK - 1), none = file_of(0);
    CHECK_INT(map(fd, 0), 0);
    CHECK(dz_vfs_pack_is(fd, 0));
    CHECK(!dz_vfs_pack_is(none, 0));
    CHECK(!dz_vfs_pack_is(fd, 4096));
    CHECK_INT(map(cut, 0), DZ_ECORRUPT);
    CHECK(map(none, 0) < 0);
    CHECK_INT(map(fd, 4096), DZ_ECORRUPT);
    /* behind something else, as in an exported file */
    DZ_AUTO(dz_fd_close) int behind = file_of(8192);
    CHECK(write(behind, pack, PACK) == PACK);
    CHECK_INT(map(behind, 8192), 0);
    static const struct {
        size_t at;
        int rc;
    } bad[] = {{0, DZ_ECORRUPT},
               {16, DZ_EUNSUPPORTED},
               {20, DZ_EUNSUPPORTED},
               {24, DZ_ECORRUPT},
               {31, DZ_ECORRUPT}};
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        pack[bad[i].at] ^= 1;
        DZ_AUTO(dz_fd_close) int other = file_of(PACK);
        struct dz_vfs_pack p = {0};
        CHECK_INT(dz_vfs_pack_map(other, 0, &p, NULL), bad[i].rc);
        pack[bad[i].at] ^= 1;
    }
    rig_free(&r);
}

/* --- back into rows ------------------------------------------------------------------------ */

static int unpack(const char *before, struct dz_vfs_pack with)
{
    const struct dz_db_opts opts = {.schema = &dz_vfs_schema};
    struct dz_db *db = NULL;
    CHECK_INT(dz_db_open_disk(&db, dz_db_sim_disk(r.sim), &opts, &r.err), 0);
    CHECK_INT(dz_db_begin(db, &r.err), 0);
    CHECK_INT(dz_db_exec(db, before, &r.err), 0);
    int rc = dz_vfs_unpack(db, &with, &r.err);
    if (rc == 0)
        rc = dz_db_exec(db, "UPDATE node SET base_size=0", &r.err);
    if (rc == 0)
        rc = dz_vfs_recount(db, &r.err);
    if (rc == 0)
        rc = dz_db_commit(db, &r.err);
    CHECK_INT(dz_db_close(db, rc < 0, &r.err), 0);
    return rc;
}

TEST(an_unpacked_disk_needs_no_pack)
{
    static const char whole[] = "UPDATE node SET base_size=size WHERE rdev<>0 AND mode>>12=8";
    const struct dz_vfs_pack with = {.at = pack, .size = PACK}, none = {0};
    make_image();
    r.opts.pack = none;
    CHECK_INT(unpack(whole, none), DZ_ECORRUPT);
    CHECK_INT(unpack(whole, with), 0);
    CHECK_INT(rig_open(&r), 0);
    CHECK(has("/large", large, LARGE));
    CHECK(has("/small", small, sizeof small));
    CHECK(has("/plain", "in rows", 7));
    CHECK_INT(damages(), 0);
    rig_free(&r);
    /* no more than base_size shows, and no chunk that is there already */
    make_image();
    r.opts.pack = none;
    CHECK_INT(unpack("UPDATE node SET base_size=32778,size=70000 WHERE ino=5;"
                     "INSERT INTO chunk VALUES(5<<24,x'4142')",
                     with),
              0);
    CHECK_INT(rig_open(&r), 0);
    static uint8_t want[70000];
    memcpy(want, "AB", 2);
    memcpy(want + DZ_VFS_CHUNK, large + DZ_VFS_CHUNK, 10);
    CHECK(has("/large", want, sizeof want));
    rig_free(&r);
}
