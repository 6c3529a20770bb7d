/* SPDX-License-Identifier: MIT
 * Functions in a jailed child: what they may do, how each way to fail is told. */
#include "tap.h"

#include "base/fd.h"
#include "base/hash.h"
#include "cell/cell_call.h"
#include "cell/cell_called.h"
#include "cell/cell_zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static struct dz_err err;

static int call(dz_call_fn *run, void *arg, struct dz_buf *reply)
{
    const struct dz_call_opts o = {.what = "test", .run = run, .arg = arg};
    err = (struct dz_err){0};
    return dz_cell_call(&o, reply, &err);
}

/* --- what it may do ------------------------------------------------------------------ */

static int file_with(const char *text)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
        abort();
    return fd;
}

struct sum {
    int fd, other;
};

static int sum(struct dz_call *c, void *arg, struct dz_err *e)
{
    const struct sum *s = arg;
    uint8_t digest[DZ_SHA256_BYTES];
    char text[8] = "";
    if (pread(s->fd, text, 3, 0) != 3)
        return dz_fail_sys(e, errno, "read");
    if (fcntl(s->other, F_GETFD) >= 0)
        return dz_fail(e, DZ_ESTATE, "a descriptor that it was not given is there");
    int rc = dz_sha256(text, 3, digest, e);
    return rc < 0 ? rc : dz_call_reply(c, digest, sizeof digest, e) < 0 ? DZ_EIO : 7;
}

TEST(it_has_its_descriptors_and_no_others)
{
    struct sum s = {.fd = file_with("abc"), .other = file_with("secret")};
    uint8_t digest[DZ_SHA256_BYTES];
    struct dz_buf reply = DZ_BUF_INIT(DZ_SHA256_BYTES);
    const int fds[] = {-1, s.fd};
    const struct dz_call_opts o = {
        .what = "test", .run = sum, .arg = &s, .fds = fds, .fd_count = 2};
    CHECK_INT(dz_cell_call(&o, &reply, &err), 7);
    CHECK_STR(err.msg, "");
    CHECK_INT(dz_sha256("abc", 3, digest, NULL), 0);
    CHECK_INT(reply.len, sizeof digest);
    CHECK(memcmp(reply.p, digest, sizeof digest) == 0);
    dz_buf_release(&reply);
    (void)close(s.fd);
    (void)close(s.other);
}

static int change_memory(struct dz_call *c, void *arg, struct dz_err *e)
{
    (void)c, (void)e;
    *(int *)arg = 1;
    return 0;
}

static int has_terminal(struct dz_call *c, void *arg, struct dz_err *e)
{
    struct stat st;
    (void)c, (void)e;
    return dz_fd_stat(STDERR_FILENO, &st) == 0 && st.st_rdev == *(const dev_t *)arg;
}

/* What a cell printed there could steer the terminal of whoever runs the daemon. */
TEST(it_has_no_terminal)
{
    struct stat st;
    int kept = dup(STDERR_FILENO), master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(terminal >= 0 && fstat(terminal, &st) == 0);
    CHECK(dup2(terminal, STDERR_FILENO) == STDERR_FILENO);
    int rc = call(has_terminal, &st.st_rdev, NULL);
    CHECK(dup2(kept, STDERR_FILENO) == STDERR_FILENO);
    CHECK_INT(rc, 0);
    (void)close(terminal);
    (void)close(master);
    (void)close(kept);
}

TEST(what_it_changes_stays_with_it)
{
    int value = 0;
    CHECK_INT(call(change_memory, &value, NULL), 0);
    CHECK_INT(value, 0);
}

/* --- what it may not ------------------------------------------------------------------- */

static int try_it(struct dz_call *c, void *arg, struct dz_err *e)
{
    (void)c, (void)e;
    switch (*(const int *)arg) {
    case 0:
        return open("/etc/passwd", O_RDONLY) < 0 ? 0 : 1;
    case 1:
        return socket(AF_INET, SOCK_STREAM, 0) < 0 ? 0 : 1;
    case 2:
        return execve("/bin/true", (char *[]){NULL}, (char *[]){NULL});
    case 3:
        return (int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
    case 4:
        return kill(getppid(), 0);
    case 5:
        return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    default:
        return mmap(NULL, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
    }
}

TEST(what_the_jail_forbids_kills_it_and_is_told)
{
    for (int i = 0; i < 7; i++) {
        CHECK_INT(call(try_it, &i, NULL), DZ_EIO);
        CHECK(strstr(err.msg, "test: ") == err.msg && strstr(err.msg, "signal 31") != NULL);
    }
}

/* --- how it fails --------------------------------------------------------------------------- */

static int fail_with_words(struct dz_call *c, void *arg, struct dz_err *e)
{
    (void)c, (void)arg;
    return dz_fail_sys(e, ENOENT, "look for it");
}

static int die(struct dz_call *c, void *arg, struct dz_err *e)
{
    (void)c, (void)e;
    if (*(const int *)arg == 0)
        _exit(3);
    __builtin_trap();
}

TEST(its_error_is_the_error)
{
    struct dz_err here = {0};
    int rc = dz_fail_sys(&here, ENOENT, "look for it");
    CHECK_INT(call(fail_with_words, NULL, NULL), rc);
    CHECK_STR(err.msg, here.msg);
    CHECK_INT(err.code, rc);
    CHECK_INT(err.sys, ENOENT);
}

TEST(a_death_is_told)
{
    int how = 0;
    CHECK_INT(call(die, &how, NULL), DZ_EIO);
    CHECK(strstr(err.msg, "status 3") != NULL);
    how = 1;
    CHECK_INT(call(die, &how, NULL), DZ_EIO);
    CHECK(strstr(err.msg, "signal 4") != NULL);
}

static int for_ever(struct dz_call *c, void *arg, struct dz_err *e)
{
    (void)e;
    for (;;)
        if (*(const int *)arg && dz_call_stopped(c))
            return 0;
}

TEST(one_that_hangs_is_stopped_in_time)
{
    int never = 0;
    const struct dz_call_opts o = {
        .what = "test", .run = for_ever, .arg = &never, .timeout_ms = 50};
    CHECK_INT(dz_cell_call(&o, NULL, &err), DZ_ETIMEOUT);
    CHECK(strstr(err.msg, "50 ms") != NULL);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
}

static int flood(struct dz_call *c, void *arg, struct dz_err *e)
{
    static char big[100000];
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        int rc = dz_call_reply(c, big, sizeof big, e);
        if (rc < 0)
            return rc;
        if (dz_call_stopped(c))
            return dz_fail(e, DZ_ECANCELED, "stopped");
    }
    return 0;
}

TEST(a_flood_is_refused_at_its_ceiling)
{
    struct dz_buf reply = DZ_BUF_INIT(1 << 18);
    CHECK_INT(call(flood, NULL, &reply), DZ_ELIMIT);
    CHECK(strstr(err.msg, "262144 bytes") != NULL);
    CHECK(reply.len <= 1 << 18);
    dz_buf_release(&reply);
    CHECK_INT(call(flood, NULL, NULL), DZ_ELIMIT);
}

static int write_far(struct dz_call *c, void *arg, struct dz_err *e)
{
    (void)c;
    return pwrite(*(const int *)arg, "x", 1, 100000) == 1 ? 0 : dz_fail_sys(e, errno, "write far");
}

TEST(a_file_has_its_size)
{
    int fd = file_with("");
    struct dz_call_opts o = {
        .what = "test", .run = write_far, .arg = &fd, .fds = &fd, .fd_count = 1};
    CHECK_INT(dz_cell_call(&o, NULL, &err), 0);
    o.file_bytes = 4096;
    CHECK(dz_cell_call(&o, NULL, &err) < 0);
    CHECK_INT(err.sys, EFBIG);
    (void)close(fd);
}

/* --- messages -------------------------------------------------------------------------------- */

struct talk {
    char got[64];
    size_t total;
    int asked, say_no;
    bool stop;
};

static int take(void *host, const struct dz_call_msg *m, struct dz_err *e)
{
    struct talk *t = host;
    t->total += m->size;
    if (t->say_no == 1)
        return dz_fail(e, DZ_ENOSPC, "no room for it");
    if (m->size < sizeof t->got - 1)
        (void)snprintf(t->got, sizeof t->got, "%u %llu %.*s", m->tag, (unsigned long long)m->value,
                       (int)m->size, (const char *)m->data);
    return 0;
}

static int answer(void *host, const struct dz_call_msg *q, struct dz_call_msg *ret,
                  struct dz_err *e)
{
    struct talk *t = host;
    if (t->say_no == 2)
        return dz_fail(e, DZ_EDENIED, "no answer to that");
    *ret = (struct dz_call_msg){q->tag + 1, (uint64_t)++t->asked, "answer", 6};
    return 0;
}

static bool stop(void *host)
{
    return ((struct talk *)host)->stop;
}

static int talk(struct dz_call *c, void *arg, struct dz_err *e)
{
    struct dz_call_msg a;
    char text[64];
    (void)arg;
    for (int i = 0; i < 3; i++) {
        int rc = dz_call_ask(c, &(struct dz_call_msg){5, 6, "q", 1}, &a, e);
        if (rc < 0)
            return rc;
    }
    int n = snprintf(text, sizeof text, "%u %llu %s", a.tag, (unsigned long long)a.value,
                     (const char *)a.data);
    return dz_call_send(c, &(struct dz_call_msg){8, 9, text, (size_t)n});
}

static int call_talking(dz_call_fn *run, struct talk *t)
{
    int yes = 1;
    const struct dz_call_opts o = {.what = "test",
                                   .run = run,
                                   .arg = &yes,
                                   .receive = take,
                                   .answer = answer,
                                   .stop = stop,
                                   .host = t};
    err = (struct dz_err){0};
    return dz_cell_call(&o, NULL, &err);
}

TEST(questions_are_answered)
{
    struct talk t = {0};
    CHECK_INT(call_talking(talk, &t), 0);
    CHECK_STR(t.got, "8 9 6 3 answer");
}

TEST(a_host_that_fails_ends_it_with_its_own_words)
{
    struct talk t = {.say_no = 1};
    CHECK_INT(call_talking(talk, &t), DZ_ENOSPC);
    CHECK_STR(err.msg, "no room for it");
    t = (struct talk){.say_no = 2};
    CHECK_INT(call_talking(talk, &t), DZ_EDENIED);
    CHECK_STR(err.msg, "no answer to that");
    CHECK_INT(call(talk, NULL, NULL), DZ_EIO); /* nobody to answer */
    CHECK(strstr(err.msg, "answers no questions") != NULL);
}

TEST(it_can_be_asked_to_stop)
{
    struct talk t = {.stop = true};
    CHECK_INT(call_talking(for_ever, &t), 0);
    CHECK_INT(call_talking(talk, &t), DZ_ECANCELED);
}

/* A cell that was taken over writes to its stop word, says that it has, and stays. */
static int stays(struct dz_call *c, void *arg, struct dz_err *e)
{
    *(volatile int *)(uintptr_t)c->stop = 1;
    (void)dz_call_send(c, &(struct dz_call_msg){.tag = 1});
    return for_ever(c, arg, e);
}

static bool stop_when_told(void *host)
{
    return ((struct talk *)host)->got[0] != '\0';
}

/* It is stopped all the same, at the end of the grace and not of the call's time. */
TEST(a_cell_that_writes_its_stop_word_is_stopped)
{
    struct talk t = {0};
    int never = 0;
    const struct dz_call_opts o = {.what = "test",
                                   .run = stays,
                                   .arg = &never,
                                   .receive = take,
                                   .stop = stop_when_told,
                                   .host = &t,
                                   .timeout_ms = DZ_CALL_STOP_GRACE_MS * 4};
    err = (struct dz_err){0};
    CHECK_INT(dz_cell_call(&o, NULL, &err), DZ_ECANCELED);
}

static int pour(struct dz_call *c, void *arg, struct dz_err *e)
{
    static char big[1 << 20];
    (void)arg, (void)e;
    for (int i = 0; i < 16; i++)
        if (dz_call_write(c, 1, big, sizeof big) < 0)
            return DZ_EIO;
    return dz_call_stopped(c) ? 1 : 0;
}

TEST(bytes_pour_and_wait_for_their_reader)
{
    struct talk t = {0};
    CHECK_INT(call_talking(pour, &t), 0);
    CHECK_INT(t.total, 16 << 20);
}

TORTURE(memory_short)
{
    struct dz_buf reply = DZ_BUF_INIT(DZ_SHA256_BYTES);
    struct sum s = {.fd = file_with("abc"), .other = -1};
    const struct dz_call_opts o = {
        .what = "test", .run = sum, .arg = &s, .fds = &s.fd, .fd_count = 1};
    int rc = dz_cell_call(&o, &reply, &err);
    CHECK(rc == 7 ? reply.len == DZ_SHA256_BYTES : err.msg[0] != '\0');
    dz_buf_release(&reply);
    (void)close(s.fd);
}

/* --- a seed that does not listen ------------------------------------------------------------ */

static _Atomic int caller_tid;
static atomic_bool caller_done;

static void *call_by_seed(void *arg)
{
    const struct dz_call_opts o = {
        .what = "test", .id = DZ_CALL_CHECKPOINT, .run = dz_call_functions[DZ_CALL_CHECKPOINT].run};
    struct dz_err e = {0};
    atomic_store(&caller_tid, (int)syscall(SYS_gettid));
    *(int *)arg = dz_cell_call(&o, NULL, &e);
    atomic_store(&caller_done, true);
    return NULL;
}

/* In poll or ppoll, by the kernel's word. */
static bool waits_in_poll(int tid)
{
    char path[64];
    long number = -1;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%ld", &number) != 1)
        number = -1;
    if (f)
        (void)fclose(f);
    return number == SYS_poll || number == SYS_ppoll;
}

TEST(who_waits_for_a_seed_does_not_hold_up_who_changes_it)
{
    static const struct dz_frame junk = {.type = DZ_FRAME_ZYGOTE_FORK};
    int ends[2], got = 0;
    pthread_t caller;
    CHECK_INT(dz_frame_pair(ends, &err), 0);
    while (dz_frame_send(ends[0], &junk, NULL, false, &err) > 0)
        ;
    dz_call_set_root(ends[0]);
    CHECK_INT(pthread_create(&caller, NULL, call_by_seed, &got), 0);
    while (!atomic_load(&caller_tid) || !waits_in_poll(atomic_load(&caller_tid)))
        (void)sched_yield();
    dz_call_set_root(-1); /* the loop does this when a seed has died */
    CHECK(!atomic_load(&caller_done));
    (void)close(ends[1]);
    CHECK_INT(pthread_join(caller, NULL), 0);
    CHECK_INT(got, DZ_EIO);
}
