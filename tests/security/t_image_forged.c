/* SPDX-License-Identifier: MIT
 * A hostile image has taken over the cell that reads it. Prepared modules serve all images, so
 * nothing that this cell writes may become one under the name of another program. */
#include "image/image_int.h"
#include "tap.h"

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "wasm/wasm_module.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A module whose function returns the number in byte 25. */
#define PROGRAM(n)                                               \
    {0,    'a', 's', 'm', 1, 0,  0, 0, 1, 5, 1,    0x60, 0,   1, \
     0x7f, 3,   2,   1,   0, 10, 6, 1, 4, 0, 0x41, (n),  0x0b}
static const uint8_t honest[] = PROGRAM(7), forged[] = PROGRAM(8);

struct rig {
    char data[64], path[DZ_IMAGE_PATH];
    struct dz_image_store *s;
    struct dz_image_program program;
    int image_fd;
    struct dz_err err;
};

static void rig_open(struct rig *r)
{
    uint8_t digest[DZ_SHA256_BYTES];
    static char name[] = "/bin/seven";
    *r = (struct rig){.data = "/tmp/t_image_forged.XXXXXX"};
    CHECK(mkdtemp(r->data) != NULL);
    CHECK_INT(dz_image_store_open(r->data, &r->s, &r->err), 0);
    r->image_fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* the cell that reads it is not ours */
    CHECK_INT(dz_sha256(honest, sizeof honest, digest, &r->err), 0);
    r->program = (struct dz_image_program){.path = name, .bytes = sizeof honest, .ino = 2};
    (void)dz_sha256_hex(digest, r->program.sha256);
    dz_image_module_path(r->path, r->program.sha256);
}

static void rig_close(struct rig *r)
{
    char cmd[96];
    dz_fd_close(&r->image_fd);
    dz_image_store_close(r->s);
    (void)snprintf(cmd, sizeof cmd, "rm -rf %s", r->data);
    CHECK_INT(system(cmd), 0);
}

/* Nothing is left of the try, neither in its place nor in scratch/. */
static void check_nothing_came(struct rig *r)
{
    char cmd[128];
    CHECK(!dz_image_exists(r->s, r->path));
    (void)snprintf(cmd, sizeof cmd, "test -z \"$(find %s/images -type f)\"", r->data);
    CHECK_INT(system(cmd), 0);
}

static int write_to(void *fd, const void *data, size_t size, struct dz_err *err)
{
    return dz_fd_write(*(int *)fd, data, size, err);
}

static int no_zeros(void *fd, uint64_t size, struct dz_err *err)
{
    return lseek(*(int *)fd, (off_t)size, SEEK_CUR) < 0 ? dz_fail(err, DZ_EIO, "seek") : 0;
}

/* What the cell does that was taken over: three ways to pass other code off as the program. */
static int writes_a_prepared_module(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct dz_image_copying *w = arg;
    const struct dz_wasm_sink sink = {write_to, no_zeros, &w->out_fd};
    (void)call;
    return dz_wasm_prepare(forged, sizeof forged, DZ_WASM_F_ALL, NULL, &sink, err);
}

static int writes_another_program(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct dz_image_copying *w = arg;
    (void)call;
    return dz_fd_write(w->out_fd, forged, sizeof forged, err);
}

static int writes_too_much(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct dz_image_copying *w = arg;
    (void)call;
    int rc = dz_fd_write(w->out_fd, honest, sizeof honest, err);
    return rc < 0 ? rc : dz_fd_write(w->out_fd, forged, sizeof forged, err);
}

static int writes_the_program(struct dz_call *call, void *arg, struct dz_err *err)
{
    struct dz_image_copying *w = arg;
    (void)call;
    return dz_fd_write(w->out_fd, honest, sizeof honest, err);
}

static void refused(dz_call_fn *copy)
{
    struct rig r;
    rig_open(&r);
    int rc = dz_image_prepare(r.s, r.image_fd, &r.program, copy, &r.err);
    CHECK_INT(rc, DZ_ECORRUPT);
    CHECK(strstr(r.err.msg, "does not have the hash") != NULL);
    check_nothing_came(&r);
    rig_close(&r);
}

TEST(a_prepared_module_of_other_code_is_refused)
{
    refused(writes_a_prepared_module);
}

TEST(another_program_is_refused)
{
    refused(writes_another_program);
}

TEST(more_than_the_program_is_refused)
{
    refused(writes_too_much);
}

TEST(the_program_itself_is_prepared)
{
    struct rig r;
    rig_open(&r);
    CHECK_INT(dz_image_prepare(r.s, r.image_fd, &r.program, writes_the_program, &r.err), 0);
    CHECK_STR(r.err.msg, "");
    CHECK_INT(dz_image_check_module(r.s, &r.program, &r.err), 0);
    rig_close(&r);
}
