/* SPDX-License-Identifier: MIT
 *
 * Native programs as data, over coroutines: saved after each turn of the kernel and continued in
 * another machine; and blobs that lie. */
#define TAP_ALARM_S 90
#include "tap.h"

#include "../lib/linux_play.h"

#include "linux/linux_inspect.h"

enum {
    TURNS = 400,
};
static struct rig disk;

static void move(struct lplay *p, uint64_t seed)
{
    struct asleep s;
    struct lplay to;
    struct dz_err err = {0};
    CHECK_INT(asleep_save(&s, p->l, p->k, &err), 0);
    lplay_machine(&to, &disk, seed);
    to.job = p->job;
    const int rc = asleep_wake(&s, p->k, to.k, to.l, &err);
    CHECK_INT(rc, 0);
    if (rc < 0)
        printf("# %s\n", err.msg);
    lplay_free(p);
    dz_linux_release(to.l);
    *p = to;
    asleep_release(&s);
}

/* Returns the number of turns; `at`: move after this one; 0: after each. */
static int run(uint64_t seed, int at)
{
    struct lplay p;
    int turns = 0;
    lplay_disk(&disk);
    lplay_machine(&p, &disk, seed);
    lplay_spawn(&p);
    while (turns < TURNS && lplay_turn(&p))
        if (++turns == at || at == 0)
            move(&p, seed + (uint64_t)turns);
    CHECK_INT(p.ended.status, 3 << 8);
    CHECK(strstr(lplay.out, "thread\n") && strstr(lplay.out, "child\n") &&
          strcmp(lplay.out + lplay.out_len - 5, "main\n") == 0 && lplay.out_len == 18);
    lplay_free(&p);
    char text[8] = "";
    CHECK_INT(dz_vfs_read(disk.v, rig_ino(&disk, "/file"), 0, text, 4), 4);
    CHECK_STR(text, "file"); /* the write to the mapping came to the disk */
    rig_free(&disk);
    return turns;
}

TEST(after_each_turn)
{
    for (uint64_t seed = 0; seed < 10; seed++)
        CHECK(run(seed, 0) > 10);
}
TEST(after_any_turn)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        const int turns = run(seed, -1);
        for (int at = 1; at <= turns; at++)
            (void)run(seed, at);
    }
}

/* A machine in which a thread waits for a futex and a child sleeps. */
static struct lplay asleep;
static struct asleep saved;
static void begin(void)
{
    struct dz_err err = {0};
    lplay_disk(&disk);
    lplay_machine(&asleep, &disk, 0);
    lplay_spawn(&asleep);
    lplay_settle(&asleep);
    CHECK_INT(asleep_save(&saved, asleep.l, asleep.k, &err), 0);
}
static void end(void)
{
    asleep_release(&saved);
    lplay_free(&asleep);
    rig_free(&disk);
}
static int wake(struct dz_err *err)
{
    struct lplay to;
    lplay_machine(&to, &disk, 0);
    const int rc = asleep_wake(&saved, asleep.k, to.k, to.l, err);
    dz_linux_release(to.l);
    for (int i = 0; rc == 0 && i < 50 && lplay_turn(&to); i++)
        continue;
    lplay_free(&to);
    return rc;
}

/* The content of part `tag`, and its size. */
static uint8_t *part(uint32_t tag, uint64_t *ret_size)
{
    size_t at = 16;
    for (;;) {
        uint32_t is;
        memcpy(&is, saved.state.p + at, 4);
        memcpy(ret_size, saved.state.p + at + 8, 8);
        at += 16;
        if (is == tag)
            return (uint8_t *)saved.state.p + at;
        at += *ret_size;
    }
}

TEST(processor_without_a_feature)
{
    struct dz_err err = {0};
    uint64_t size;
    begin();
    CHECK_INT(wake(&err), 0);
    uint8_t *cpu = part(1, &size); /* the second leaf is 7.0 */
    cpu[24 + 24 + 8 + 8 + 3] |= 4; /* ecx, bit 26, has no name: it does not count */
    CHECK_INT(wake(&err), 0);
    cpu[24 + 24 + 8 + 12 + 1] |= 0xff; /* edx, bits 8 to 15: vp2intersect or serialize */
    CHECK_INT(wake(&err), DZ_EUNSUPPORTED);
    CHECK(strstr(err.msg, "keep=files") &&
          (strstr(err.msg, "avx512_vp2intersect") || strstr(err.msg, "serialize")));
    end();
    begin();
    cpu = part(1, &size);
    cpu[16 + 7] |= 0x40; /* XCR0, bit 62 */
    CHECK_INT(wake(&err), DZ_EUNSUPPORTED);
    end();
}

/* Every byte of the blob with other values: refused, or the guest fails by itself. */
TEST(every_byte)
{
    begin();
    for (size_t i = 0; i < saved.state.len; i++) {
        struct dz_err err = {0};
        uint8_t *p = (uint8_t *)saved.state.p + i, was = *p;
        *p = (uint8_t)(i % 3 == 0 ? ~was : i % 3 == 1 ? was + 1 : was ^ 0x80);
        const int rc = wake(&err);
        CHECK(rc == 0 || rc == DZ_ECORRUPT || rc == DZ_EUNSUPPORTED || rc == DZ_ELIMIT ||
              rc == DZ_EIO || rc == DZ_ENOMEM || err.msg[0]);
        *p = was;
        if (i > 2000 && i < saved.state.len - 1200)
            i += 13;
    }
    end();
}
TEST(cut_off)
{
    begin();
    const size_t all = saved.state.len;
    for (size_t n = 0; n < all; n += n < 500 || n + 500 > all ? 1 : 37) {
        struct dz_err err = {0};
        saved.state.len = n;
        CHECK_INT(wake(&err), DZ_ECORRUPT);
    }
    saved.state.len = all;
    end();
}

static void lie(uint32_t tag, uint64_t at, uint64_t value, size_t n, int want)
{
    struct dz_err err = {0};
    uint64_t size, was;
    uint8_t *p = part(tag, &size);
    CHECK(at + n <= size);
    memcpy(&was, p + at, n);
    memcpy(p + at, &value, n);
    const int rc = wake(&err);
    CHECK_INT(rc, want);
    if (rc != want)
        printf("# part %u, byte %d: %s\n", tag, (int)at, err.msg);
    memcpy(p + at, &was, n);
}
TEST(lies)
{
    enum {
        REGS = 16 + 7 * 8 + 3 * 8
    };
    begin();
    lie(2, 0, UINT64_MAX, 8, DZ_ECORRUPT);
    lie(2, 0, 0, 8, DZ_ECORRUPT); /* spaces have higher numbers */
    lie(5, 8, 1 << 20, 8, DZ_ECORRUPT);
    lie(5, 0, 3, 4, DZ_ECORRUPT); /* a kind that is no file */
    lie(5, 24, 2, 4, DZ_ECORRUPT);
    lie(6, 8, 8, 8, DZ_ECORRUPT);   /* size of a row */
    lie(7, 0, 999, 8, DZ_ECORRUPT); /* no such space */
    lie(7, 8, 4096, 4, DZ_ECORRUPT);
    lie(7, 12, 4, 4, DZ_ECORRUPT);
    lie(8, 0, 77, 4, DZ_ECORRUPT); /* no such thread */
    lie(8, 4, 77, 4, DZ_ECORRUPT);
    lie(8, 8, 64, 4, DZ_ECORRUPT);
    lie(8, 8, 0, 4, DZ_ECORRUPT); /* not parked, but its row waits */
    lie(8, 12, 100000, 4, DZ_ECORRUPT);
    lie(8, 16, SYS_execve, 8, DZ_ECORRUPT);
    lie(8, REGS + 18 * 8, UINT64_C(1) << 60, 8, DZ_ECORRUPT); /* base of fs */
    lie(8, REGS + 17 * 8, UINT64_MAX, 8, 0);                  /* rflags: what is allowed */
    lie(8, REGS + 16 * 8, UINT64_C(1) << 60, 8, 0);           /* rip: the guest's affair */
    lie(8, 256, UINT64_C(1) << 5, 8, DZ_ECORRUPT);            /* a component that does not come */
    lie(8, 256 + 8 + 24, UINT32_MAX, 4, DZ_ECORRUPT);         /* MXCSR */
    end();
}

/* Pages of an address space in which no process lives: refused, whether they are left out or
 * written.
 */
TEST(pages_of_dead_processes)
{
    const uint32_t dead[2] = {2, 4}; /* of a process, of a thread */
    uint64_t size, left = 0;
    begin();
    uint8_t *p = part(7, &size);
    for (uint64_t at = 0; at < size; at += 16)
        memcpy(p + at + 12, &dead[0], 4);
    p = part(8, &size);
    for (uint64_t at = 0; at < size;) { /* without the floating-point registers */
        uint32_t flags[2];
        memmove(p + left, p + at, 256);
        memcpy(flags, p + left + 8, sizeof flags);
        at += 256 + flags[1];
        flags[0] |= dead[1];
        flags[1] = 0;
        memcpy(p + left + 8, flags, sizeof flags);
        left += 256;
    }
    memcpy(p - 8, &left, 8);
    saved.state.len -= size - left;
    for (int i = 0; i < 2; i++) {
        struct dz_err err = {0};
        saved.by_need = i == 0;
        CHECK(wake(&err) < 0);
        CHECK(strstr(err.msg, i == 0 ? "leave out pages" : "write the memory"));
    }
    end();
}

/* ---- inspection ------------------------------------------------------------------------------ */

static struct {
    int threads, files, spaces;
    uint64_t inode;
    char calls[512];
    char maps[4096];
} seen;
static int on_thread(void *arg, const struct dz_linux_inspect_thread *t, struct dz_err *err)
{
    (void)arg, (void)err;
    seen.threads++;
    CHECK(!t->dead && t->regs.rip >= LPLAY_CODE && t->regs.rip < LPLAY_CODE + 64);
    (void)snprintf(seen.calls + strlen(seen.calls), sizeof seen.calls - strlen(seen.calls), "%s\n",
                   t->call);
    return 0;
}
static int on_space(void *arg, uint64_t space, const struct dz_buf *maps, struct dz_err *err)
{
    (void)arg, (void)err;
    seen.spaces++;
    CHECK(space > 0);
    (void)snprintf(seen.maps, sizeof seen.maps, "%s", maps->p);
    return 0;
}
static int on_file(void *arg, const struct dz_linux_inspect_file *f, struct dz_err *err)
{
    (void)arg, (void)err;
    seen.files++;
    CHECK((strcmp(f->kind, "shared memory") == 0) == (f->in_memory && f->size == 16384));
    return 0;
}
static int on_cpu(void *arg, const char *needs, struct dz_err *err)
{
    (void)arg, (void)err;
    CHECK(strncmp(needs, "x86-64", 6) == 0);
    return 0;
}
static void on_inode(void *arg, uint64_t ino)
{
    (void)arg;
    seen.inode = ino == rig_ino(&disk, "/file") ? ino : seen.inode;
}
TEST(inspect)
{
    const struct dz_linux_inspect_ops ops = {on_thread, on_space, on_file, NULL, on_cpu};
    struct dz_err err = {0};
    begin();
    memset(&seen, 0, sizeof seen);
    CHECK_INT(dz_linux_inspect(saved.state.p, saved.state.len, &ops, &err), 0);
    CHECK_INT(seen.threads, 3);
    CHECK_INT(seen.spaces, 2);
    CHECK(seen.files >= 3); /* the program, /file, the object */
    CHECK(strstr(seen.calls, "wait4(0xffffffffffffffff, ") && strstr(seen.calls, "nanosleep(") &&
          strstr(seen.calls, "futex(0x10000000, 0, "));
    CHECK(strstr(seen.maps, "10000000-10004000 rw-s 00000000 ") && strstr(seen.maps, "[vdso]") &&
          strstr(seen.maps, "inode "));
    CHECK_INT(dz_linux_inspect_inodes(saved.state.p, saved.state.len, on_inode, NULL, &err), 0);
    CHECK(seen.inode);
    CHECK_INT(dz_linux_inspect(saved.state.p, 0, &ops, &err), 0);
    CHECK_INT(dz_linux_inspect(saved.state.p, saved.state.len - 1, &ops, &err), DZ_ECORRUPT);
    end();
}
