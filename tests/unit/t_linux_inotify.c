/* SPDX-License-Identifier: MIT
 * inotify: the same random changes here and on this machine report the same events; limits. */
#include "../lib/linux_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STEPS = 6000,
    SLOTS = 4,
    BUF = 8192,
    EVENT = sizeof(struct inotify_event),
};

/* A walk: the same calls on both sides, whose descriptors differ. */
struct walk {
    struct fib *f;
    int64_t ours, theirs; /* inotify */
    int64_t our[SLOTS], their[SLOTS];
    int64_t cookie; /* ours less theirs */
    uint64_t seed;
    const char *last; /* what was done */
};

static uint32_t dice(struct walk *w, uint32_t n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->seed >> 33) % n;
}

static int64_t host(long number, long a, long b, long c, long d, long e)
{
    const long r = syscall(number, a, b, c, d, e);
    return r < 0 ? -errno : r;
}

static int64_t two_paths(struct walk *w, long number, const char *a, const char *b, uint32_t flags,
                         int64_t *ret_theirs)
{
    const uint64_t args[6] = {(uint64_t)AT_FDCWD, lmem_str(a), (uint64_t)AT_FDCWD, lmem_str(b),
                              flags};
    *ret_theirs = host(number, AT_FDCWD, (long)a, AT_FDCWD, (long)b, (long)flags);
    return lrig_call(w->f, (uint64_t)number, args);
}

static int64_t one_path(struct walk *w, long number, const char *a, uint64_t b, int64_t *ret_theirs)
{
    const uint64_t args[6] = {lmem_str(a), b};
    *ret_theirs = host(number, (long)a, (long)b, 0, 0, 0);
    return lrig_call(w->f, (uint64_t)number, args);
}

static bool opens(struct walk *w, uint32_t slot, const char *path, int flags)
{
    if (w->our[slot] >= 0)
        return true;
    w->their[slot] = host(SYS_open, (long)path, flags, 0666, 0, 0);
    w->our[slot] = CALL(w->f, open, lmem_str(path), flags, 0666);
    return w->our[slot] < 0 ? w->our[slot] == w->their[slot] : w->their[slot] >= 0;
}

static bool closes(struct walk *w, uint32_t slot)
{
    if (w->our[slot] < 0)
        return true;
    const int64_t r = CALL(w->f, close, w->our[slot]);
    const int64_t theirs = host(SYS_close, w->their[slot], 0, 0, 0, 0);
    w->our[slot] = -1;
    return r == theirs;
}

static bool moves(struct walk *w, uint32_t slot, uint32_t how)
{
    static char there[256];
    const uint64_t here = lmem_new(256);
    int64_t r, theirs;
    if (w->our[slot] < 0)
        return true;
    if (how == 0) {
        r = CALL(w->f, write, w->our[slot], here, 3);
        theirs = host(SYS_write, w->their[slot], (long)there, 3, 0, 0);
    } else {
        r = CALL(w->f, pread64, w->our[slot], here, 2, 0);
        theirs = host(SYS_pread64, w->their[slot], (long)there, 2, 0, 0);
    }
    return r == theirs;
}

static bool watches(struct walk *w, const char *path)
{
    static const uint32_t flags[] = {0, 0, 0, IN_ONLYDIR, IN_MASK_ADD, IN_ONESHOT, IN_MASK_CREATE};
    const uint32_t mask =
        (1 + dice(w, IN_ALL_EVENTS)) | IN_EXCL_UNLINK | flags[dice(w, DZ_ARRAY_LEN(flags))];
    const int64_t theirs =
        host(SYS_inotify_add_watch, w->theirs, (long)path, (long)(int)mask, 0, 0);
    return CALL(w->f, inotify_add_watch, w->ours, lmem_str(path), mask) == theirs;
}

static bool step(struct walk *w)
{
    static const char *const paths[] = {"a", "b", "d", "e", "d/a", "d/b", "e/a", ".", "d/e"};
    const char *a = paths[dice(w, DZ_ARRAY_LEN(paths))], *b = paths[dice(w, DZ_ARRAY_LEN(paths))];
    const uint32_t slot = dice(w, SLOTS), more = dice(w, 4);
    static const char *const names[] = {"open",   "close", "use",   "rename",   "look",
                                        "unlink", "mkdir", "rmdir", "chmod",    "truncate",
                                        "watch",  "watch", "watch", "rm_watch", "exchange"};
    const uint32_t what = dice(w, DZ_ARRAY_LEN(names));
    int64_t r = 0, theirs = 0;
    w->last = names[what];
    lmem.used = 0;
    switch (what) {
    case 0:
        return opens(w, slot, a,
                     more == 0   ? O_RDONLY
                     : more == 1 ? O_RDWR
                     : more == 2 ? O_RDWR | O_CREAT
                                 : O_WRONLY | O_CREAT);
    case 1:
        return closes(w, slot);
    case 2:
        return moves(w, slot, more % 2);
    case 3:
        r = two_paths(w, SYS_renameat2, a, b, 0, &theirs);
        break;
    case 4: /* no second names: we may report an open file by another one than Linux */
        return true;
    case 5:
        r = one_path(w, SYS_unlink, a, 0, &theirs);
        break;
    case 6:
        r = one_path(w, SYS_mkdir, a, 0755, &theirs);
        break;
    case 7:
        r = one_path(w, SYS_rmdir, a, 0, &theirs);
        break;
    case 8:
        r = one_path(w, SYS_chmod, a, 0700, &theirs);
        break;
    case 9:
        r = one_path(w, SYS_truncate, a, more, &theirs);
        break;
    case 13:
        theirs = host(SYS_inotify_rm_watch, w->theirs, (long)slot + 1, 0, 0, 0);
        r = CALL(w->f, inotify_rm_watch, w->ours, slot + 1);
        break;
    case 14:
        r = two_paths(w, SYS_renameat2, a, b, RENAME_EXCHANGE, &theirs);
        break;
    default:
        return watches(w, a);
    }
    if (r != theirs)
        printf("# %s %s %s: %lld, there %lld\n", w->last, a, b, (long long)r, (long long)theirs);
    return r == theirs;
}

static void show(const char *who, const uint8_t *buf, int64_t n)
{
    for (int64_t at = 0; at < n;) {
        struct inotify_event e;
        memcpy(&e, buf + at, EVENT);
        printf("# %s: wd %d mask %x cookie %u %s\n", who, e.wd, e.mask, e.cookie,
               e.len ? (const char *)buf + at + EVENT : "");
        at += EVENT + e.len;
    }
}

/* The order of two events about different watches may differ: the one about the file that lost its
 * name to another. So events are compared watch by watch. */
static bool same_events(struct walk *w)
{
    static uint8_t there[BUF], used[BUF];
    lmem.used = 0;
    const uint64_t at = lmem_new(BUF);
    const int64_t r = CALL(w->f, read, w->ours, at, BUF);
    const int64_t theirs = host(SYS_read, w->theirs, (long)there, BUF, 0, 0);
    const uint8_t *here = lmem_at(at);
    bool same = r == theirs;
    memset(used, 0, sizeof used);
    for (int64_t i = 0; same && i < r;) {
        struct inotify_event e, o;
        bool found = false;
        memcpy(&e, here + i, EVENT);
        for (int64_t j = 0; !found && j < theirs;) {
            memcpy(&o, there + j, EVENT);
            if (!used[j] && o.wd == e.wd) { /* the first of this watch */
                used[j] = 1;
                found = true;
                same = o.mask == e.mask && o.len == e.len && !o.cookie == !e.cookie &&
                       memcmp(here + i + EVENT, there + j + EVENT, e.len) == 0;
            }
            j += EVENT + o.len;
        }
        same = same && found;
        i += EVENT + e.len;
    }
    if (!same) {
        printf("# after %s:\n", w->last);
        show("here", here, r);
        show("there", there, theirs);
    }
    return same;
}

static int random_changes(struct fib *f)
{
    struct walk w = {.f = f, .our = {-1, -1, -1, -1}};
    GIVES(f, 0, mkdir, lmem_str("/tmp/w"), 0755);
    GIVES(f, 0, chdir, lmem_str("/tmp/w"));
    for (w.seed = 1; w.seed < 5; w.seed++) {
        const uint64_t seed = w.seed;
        w.ours = CALL(f, inotify_init1, IN_NONBLOCK);
        w.theirs = host(SYS_inotify_init1, IN_NONBLOCK, 0, 0, 0, 0);
        OK(f, w.ours >= 0 && w.theirs >= 0);
        for (int i = 0; i < STEPS; i++)
            if (!step(&w) || !same_events(&w)) {
                printf("# seed %llu, step %d\n", (unsigned long long)seed, i);
                return 1;
            }
        for (uint32_t s = 0; s < SLOTS; s++)
            OK(f, closes(&w, s));
        GIVES(f, 0, close, w.ours);
        OK(f, close((int)w.theirs) == 0);
        w.seed = seed;
    }
    return 0;
}

static int rm(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

TEST(random_changes_report_what_linux_reports)
{
    char dir[] = "/tmp/doze-inotify.XXXXXX";
    CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
    CHECK_INT(lrig_run(random_changes, 0), 0);
    CHECK(chdir("/") == 0 && nftw(dir, rm, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

/* ---- without a counterpart ----------------------------------------------------------------- */

struct head {
    int32_t wd;
    uint32_t mask;
};
static struct head event_at(uint64_t at)
{
    struct head e;
    memcpy(&e, lmem_at(at), sizeof e);
    return e;
}

static int errors(struct fib *f)
{
    const uint64_t buf = lmem_new(BUF), tmp = lmem_str("/tmp");
    GIVES(f, -EINVAL, inotify_init1, 1);
    GIVES(f, 3, inotify_init1, IN_CLOEXEC | IN_NONBLOCK);
    GIVES(f, FD_CLOEXEC, fcntl, 3, F_GETFD, 0);
    GIVES(f, -EINVAL, inotify_add_watch, 3, tmp, 0);
    GIVES(f, -EINVAL, inotify_add_watch, 3, tmp, 0x00100000);
    GIVES(f, -EBADF, inotify_add_watch, 9, tmp, IN_OPEN);
    GIVES(f, -EINVAL, inotify_add_watch, 0, tmp, IN_OPEN);
    GIVES(f, -EFAULT, inotify_add_watch, 3, 0, IN_OPEN);
    GIVES(f, -ENOENT, inotify_add_watch, 3, lmem_str("/tmp/none"), IN_OPEN);
    GIVES(f, -EINVAL, inotify_add_watch, 3, tmp, IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE);
    GIVES(f, 1, inotify_add_watch, 3, tmp, IN_CREATE | IN_ONLYDIR);
    GIVES(f, -EEXIST, inotify_add_watch, 3, tmp, IN_OPEN | IN_MASK_CREATE);
    GIVES(f, 1, inotify_add_watch, 3, tmp, IN_CREATE);
    GIVES(f, 2, inotify_add_watch, 3, lmem_str("/proc"), IN_CREATE);
    GIVES(f, -EINVAL, inotify_rm_watch, 3, 9);
    GIVES(f, -EINVAL, inotify_rm_watch, 0, 1);
    GIVES(f, -EBADF, inotify_rm_watch, 9, 1);
    GIVES(f, -EAGAIN, read, 3, buf, BUF);
    GIVES(f, -EBADF, write, 3, buf, 1);
    GIVES(f, 0, lseek, 3, 9, SEEK_SET);
    GIVES(f, 0, mkdir, lmem_str("/tmp/x"), 0700);
    GIVES(f, 0, ioctl, 3, FIONREAD, buf);
    OK(f, event_at(buf).wd == 2 * EVENT);
    GIVES(f, -EINVAL, read, 3, buf, 2 * EVENT - 1);
    GIVES(f, 2 * EVENT, read, 3, buf, 2 * EVENT);
    OK(f, event_at(buf).mask == (IN_CREATE | IN_ISDIR) && strcmp(lmem_at(buf + EVENT), "x") == 0);
    GIVES(f, 0, chmod, lmem_str("/tmp/x"), 0);
    GIVES(f, 0, setresuid, 7, 7, 7);
    GIVES(f, -EACCES, inotify_add_watch, 3, lmem_str("/tmp/x"), IN_OPEN);
    return 0;
}
TEST(arguments_are_checked_as_on_linux)
{
    CHECK_INT(lrig_run(errors, 0), 0);
}

/* A second name and O_TRUNC, which the walk leaves out. */
static int names(struct fib *f)
{
    const uint64_t buf = lmem_new(BUF), a = lmem_str("/tmp/a"), b = lmem_str("/tmp/b");
    GIVES(f, 3, inotify_init1, IN_NONBLOCK);
    GIVES(f, 4, creat, a, 0600);
    GIVES(f, 3, write, 4, a, 3);
    GIVES(f, 0, close, 4);
    GIVES(f, 1, inotify_add_watch, 3, a, IN_ALL_EVENTS);
    GIVES(f, 2, inotify_add_watch, 3, lmem_str("/tmp"), IN_CREATE | IN_DELETE);
    GIVES(f, 0, link, a, b);
    GIVES(f, 3 * EVENT, read, 3, buf, BUF); /* the second with a name */
    OK(f, event_at(buf).mask == IN_ATTRIB && event_at(buf + EVENT).mask == IN_CREATE);
    GIVES(f, 4, open, a, O_WRONLY | O_TRUNC);
    GIVES(f, 2 * EVENT, read, 3, buf, BUF);
    OK(f, event_at(buf).mask == IN_MODIFY && event_at(buf + EVENT).mask == IN_OPEN);
    GIVES(f, 0, unlink, a);
    GIVES(f, 0, unlink, b);
    GIVES(f, 6 * EVENT, read, 3, buf, BUF);
    OK(f, event_at(buf).mask == IN_ATTRIB && event_at(buf + EVENT).mask == IN_DELETE);
    GIVES(f, 0, close, 4);
    GIVES(f, 3 * EVENT, read, 3, buf, BUF);
    OK(f, event_at(buf).mask == IN_CLOSE_WRITE && event_at(buf + EVENT).mask == IN_DELETE_SELF);
    OK(f, event_at(buf + 2 * EVENT).mask == IN_IGNORED && event_at(buf + 2 * EVENT).wd == 1);
    GIVES(f, -EINVAL, inotify_rm_watch, 3, 1);
    GIVES(f, 0, inotify_rm_watch, 3, 2);
    GIVES(f, EVENT, read, 3, buf, BUF);
    return 0;
}
TEST(second_names_and_the_end_of_a_file_are_reported)
{
    CHECK_INT(lrig_run(names, 0), 0);
}

static int overflow(struct fib *f)
{
    const uint64_t buf = lmem_new(BUF), a = lmem_str("/tmp/a");
    int64_t n = 0, lost = 0, r;
    GIVES(f, 3, inotify_init1, IN_NONBLOCK);
    GIVES(f, 4, creat, a, 0600);
    GIVES(f, 1, inotify_add_watch, 3, a, IN_ATTRIB | IN_MODIFY);
    for (int i = 0; i < DZ_KERNEL_INOTIFY_EVENTS_MAX / 2 + 5; i++) {
        GIVES(f, 0, fchmod, 4, 0600);
        GIVES(f, 1, write, 4, a, 1);
    }
    while ((r = CALL(f, read, 3, buf, BUF)) > 0)
        for (int64_t at = 0; at < r; at += EVENT, n++)
            lost += event_at(buf + (uint64_t)at).mask == IN_Q_OVERFLOW &&
                    event_at(buf + (uint64_t)at).wd == -1;
    OK(f, r == -EAGAIN && n == DZ_KERNEL_INOTIFY_EVENTS_MAX + 1 && lost == 1);
    GIVES(f, 0, fchmod, 4, 0600);
    GIVES(f, EVENT, read, 3, buf, BUF);
    return 0;
}
TEST(a_full_queue_says_that_events_are_lost)
{
    CHECK_INT(lrig_run(overflow, 0), 0);
}

static int makes_a_file(struct fib *f)
{
    const uint64_t a = lmem_str("/tmp/a");
    fib_sleep(f, 10);
    GIVES(f, 4, creat, a, 0600);
    fib_sleep(f, 10);
    GIVES(f, 0, unlink, a);
    return 0;
}
/* The reader waits in poll, then in read, for what another process does. */
static int waits(struct fib *f)
{
    const uint64_t buf = lmem_new(BUF);
    struct pollfd p = {.fd = 3, .events = POLLIN};
    GIVES(f, 3, inotify_init);
    GIVES(f, 1, inotify_add_watch, 3, lmem_str("/tmp"), IN_CREATE | IN_DELETE);
    OK(f, fib_fork(f, makes_a_file) > 0);
    GIVES(f, 1, poll, lmem_put(&p, sizeof p), 1, -1);
    GIVES(f, 2 * EVENT, read, 3, buf, BUF);
    GIVES(f, 2 * EVENT, read, 3, buf, BUF);
    OK(f, event_at(buf).mask == IN_DELETE);
    return 0;
}
TEST(a_reader_is_woken_by_another_process)
{
    CHECK_INT(lrig_run(waits, 0), 0);
}
