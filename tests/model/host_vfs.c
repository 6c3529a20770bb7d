/* SPDX-License-Identifier: MIT
 *
 * host_vfs - the same calls to the kernel of this machine and to a disk: do both give
 * the same error, or the same result?
 *
 *     host_vfs [SEED=n] [STEPS=n]
 *
 * Random paths of few names, with symbolic links, dots and slashes where they hurt,
 * below a directory that is the root of both (chroot(2) here, dz_vfs_who.root there).
 * STEPS calls (40,000 by default), by turns on a fresh tree.
 */
#include "../lib/vfs_rig.h"

#include <ftw.h>
#include <sched.h>
#include <sys/wait.h>

enum {
    STEPS = 40000,
    EPISODE = 400,
    PATH_BYTES = 700,
    HISTORY = 40,
    SKIPPED = 77,
};

static uint64_t rng_state;
static char history[HISTORY][2 * PATH_BYTES + 100];
static int calls;

static uint32_t rng(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33) % n;
}

/* ---- paths -------------------------------------------------------------------------------- */

static const char *component(void)
{
    static char long_name[300];
    static const char *const names[] = {"a", "b", "c", "d", "e", "a", "b", "c", ".", ".."};
    uint32_t r = rng(200);
    if (r < 2) {
        memset(long_name, 'n', sizeof long_name);
        long_name[255 + r] = '\0';
        return long_name;
    }
    return names[r % DZ_ARRAY_LEN(names)];
}

static void make_path(char path[static PATH_BYTES])
{
    uint32_t n = rng(60) == 0 ? 0 : 1 + rng(3);
    size_t len = 0;
    path[0] = '\0';
    if (rng(6) == 0)
        len += (size_t)snprintf(path, PATH_BYTES, "%s", rng(3) ? "/" : "//");
    for (uint32_t i = 0; i < n; i++)
        len += (size_t)snprintf(path + len, PATH_BYTES - len, "%s%s", i ? rng(9) ? "/" : "//" : "",
                                component());
    if (n && rng(5) == 0)
        (void)snprintf(path + len, PATH_BYTES - len, "%s", rng(4) ? "/" : "//");
}

/* ---- one call, on both sides ------------------------------------------------------------------
 */

struct result {
    int rc; /* 0 or a negative errno */
    long long more[3];
    char text[PATH_BYTES];
};

struct call {
    int kind, flags;
    bool follow;
    char a[PATH_BYTES], b[PATH_BYTES];
    uint64_t size;
};

enum {
    OPEN,
    MKDIR,
    RMDIR,
    UNLINK,
    RENAME,
    LINK,
    SYMLINK,
    READLINK,
    STAT,
    TRUNCATE,
    MKNOD,
    KINDS,
};
static const char *const kind_name[] = {"open",   "mkdir",    "rmdir",   "unlink",
                                        "rename", "link",     "symlink", "readlink",
                                        "stat",   "truncate", "mknod"};

static int host_errno(long r)
{
    return r < 0 ? -errno : 0;
}

static struct result on_host(const struct call *c)
{
    struct result r = {0};
    struct stat st;
    long n = 0;
    switch (c->kind) {
    case OPEN:
        n = open(c->a, c->flags | O_CLOEXEC, 0644);
        r.rc = host_errno(n);
        if (n >= 0)
            (void)close((int)n);
        return r;
    case MKDIR:
        r.rc = host_errno(mkdir(c->a, 0755));
        return r;
    case RMDIR:
        r.rc = host_errno(rmdir(c->a));
        return r;
    case UNLINK:
        r.rc = host_errno(unlink(c->a));
        return r;
    case RENAME:
        r.rc = host_errno(renameat2(AT_FDCWD, c->a, AT_FDCWD, c->b, (unsigned)c->flags));
        return r;
    case LINK:
        r.rc =
            host_errno(linkat(AT_FDCWD, c->a, AT_FDCWD, c->b, c->follow ? AT_SYMLINK_FOLLOW : 0));
        return r;
    case SYMLINK:
        r.rc = host_errno(symlink(c->b, c->a));
        return r;
    case READLINK:
        n = readlink(c->a, r.text, sizeof r.text - 1);
        r.rc = host_errno(n);
        r.more[0] = n < 0 ? 0 : n;
        return r;
    case STAT:
        r.rc = host_errno(fstatat(AT_FDCWD, c->a, &st, c->follow ? 0 : AT_SYMLINK_NOFOLLOW));
        if (r.rc == 0) {
            r.more[0] = st.st_mode;
            r.more[1] = S_ISDIR(st.st_mode) ? 0 : st.st_size;
            r.more[2] = S_ISDIR(st.st_mode) ? 0 : (long long)st.st_nlink;
        }
        return r;
    case TRUNCATE:
        r.rc = host_errno(truncate(c->a, (off_t)c->size));
        return r;
    default:
        r.rc = host_errno(mknod(c->a, S_IFREG | 0644, 0));
        return r;
    }
}

static struct result on_disk(struct rig *rig, const struct dz_vfs_who *who, const struct call *c)
{
    struct result r = {0};
    struct dz_vfs_attr st;
    const struct dz_vfs_path a = {who->root, c->a}, b = {who->root, c->b};
    uint64_t ino = 0;
    switch (c->kind) {
    case OPEN:
        r.rc = dz_vfs_open_at(rig->v, who, a, c->flags, 0644, &ino);
        if (r.rc == 0)
            dz_vfs_unref(rig->v, ino);
        return r;
    case MKDIR:
        r.rc = dz_vfs_mkdir_at(rig->v, who, a, 0755);
        return r;
    case RMDIR:
        r.rc = dz_vfs_rmdir_at(rig->v, who, a);
        return r;
    case UNLINK:
        r.rc = dz_vfs_unlink_at(rig->v, who, a);
        return r;
    case RENAME:
        r.rc = dz_vfs_rename_at(rig->v, who, a, b, (unsigned)c->flags);
        return r;
    case LINK:
        r.rc = dz_vfs_link_at(rig->v, who, a, b, c->follow);
        return r;
    case SYMLINK:
        r.rc = dz_vfs_symlink_at(rig->v, who, c->b, a);
        return r;
    case READLINK:
        r.rc = dz_vfs_readlink_at(rig->v, who, a, r.text, sizeof r.text - 1);
        r.more[0] = r.rc > 0 ? r.rc : 0;
        r.rc = r.rc > 0 ? 0 : r.rc;
        return r;
    case STAT:
        r.rc = dz_vfs_stat_at(rig->v, who, a, c->follow, &st);
        if (r.rc == 0) {
            r.more[0] = st.mode;
            r.more[1] = S_ISDIR(st.mode) ? 0 : (long long)st.size;
            r.more[2] = S_ISDIR(st.mode) ? 0 : st.nlink;
        }
        return r;
    case TRUNCATE:
        r.rc = dz_vfs_truncate_at(rig->v, who, a, c->size);
        return r;
    default:
        r.rc = dz_vfs_mknod_at(rig->v, who, a, S_IFREG | 0644, 0);
        return r;
    }
}

static struct call make_call(void)
{
    static const int open_flags[] = {O_CREAT,    O_EXCL | O_CREAT, O_TRUNC, O_DIRECTORY,
                                     O_NOFOLLOW, O_PATH,           O_CREAT};
    static const int weights[KINDS] = {20, 14, 8, 12, 18, 8, 12, 4, 14, 3, 3};
    struct call c = {0};
    uint32_t r = rng(116);
    while (r >= (uint32_t)weights[c.kind])
        r -= (uint32_t)weights[c.kind++];
    make_path(c.a);
    make_path(c.b);
    c.follow = rng(2);
    c.size = rng(3000);
    if (c.kind == OPEN) {
        c.flags = (int)rng(3); /* O_RDONLY, O_WRONLY, O_RDWR */
        for (uint32_t i = rng(3); i > 0; i--)
            c.flags |= open_flags[rng(DZ_ARRAY_LEN(open_flags))];
    }
    if (c.kind == RENAME)
        c.flags = rng(4) ? 0 : rng(2) ? RENAME_NOREPLACE : RENAME_EXCHANGE;
    return c;
}

/* Both right. Of a call with two paths, the kernel looks at both directories before either
 * name. A path that grows by the links in it may be too long before it is too many. */
static bool both_right(const struct call *c, const struct result *h, const struct result *d)
{
    if (h->rc == -ELOOP && d->rc == -ENAMETOOLONG)
        return true;
    return (c->kind == RENAME || c->kind == LINK) && h->rc < 0 && d->rc < 0 &&
           (h->rc == -ENAMETOOLONG || d->rc == -ENAMETOOLONG);
}

static bool same(struct rig *rig, const struct dz_vfs_who *who)
{
    struct call c = make_call();
    struct result h = on_host(&c), d = on_disk(rig, who, &c);
    char *line = history[calls++ % HISTORY];
    (void)snprintf(line, sizeof history[0], "%s \"%s\" \"%s\" flags %#o%s: %d", kind_name[c.kind],
                   c.a, c.b, (unsigned)c.flags, c.follow ? " follow" : "", h.rc);
    if (both_right(&c, &h, &d))
        return true;
    if (h.rc == d.rc && memcmp(h.more, d.more, sizeof h.more) == 0 && strcmp(h.text, d.text) == 0)
        return true;
    for (int i = calls > HISTORY ? calls - HISTORY : 0; i < calls; i++)
        printf("# %s\n", history[i % HISTORY]);
    printf("# the host says %d (%s) %lld %lld %lld %s, the disk %d (%s) %lld %lld %lld %s\n", h.rc,
           h.rc ? strerrorname_np(-h.rc) : "", h.more[0], h.more[1], h.more[2], h.text, d.rc,
           d.rc ? strerrorname_np(-d.rc) : "", d.more[0], d.more[1], d.more[2], d.text);
    return false;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* In a child: the directory becomes its root. */
static int episode(const char *dir, uint64_t seed, int steps)
{
    static struct rig rig;
    bool root = geteuid() == 0;
    if ((!root && unshare(CLONE_NEWUSER) < 0) || chdir(dir) < 0 || chroot(".") < 0)
        return SKIPPED;
    (void)umask(022);
    rng_state = seed;
    rig_start(&rig);
    struct dz_vfs_who who = {.root = DZ_VFS_ROOT, .umask = 022};
    if (rig_mkdir(&rig, "/workspace/base"))
        return 1;
    who.root = rig_ino(&rig, "/workspace/base");
    for (int i = 0; i < steps; i++)
        if (!same(&rig, &who))
            return 1;
    rig_free(&rig);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int run(uint64_t seed, int steps)
{
    char dir[64];
    int status = 0;
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(dir, sizeof dir, "%.40s/host-vfs-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir) || chmod(dir, 0755))
        return 1;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int rc = episode(dir, seed, steps);
        (void)fflush(stdout);
        _exit(rc);
    }
    (void)waitpid(pid, &status, 0);
    (void)nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static unsigned long long argument(int argc, char **argv, const char *key, unsigned long long other)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], key, strlen(key)) == 0)
            return strtoull(argv[i] + strlen(key), NULL, 10);
    return other;
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, "SEED=", 20261121);
    int steps = (int)argument(argc, argv, "STEPS=", STEPS), rc = 0;
    printf("# seed %llu, %d steps\n", (unsigned long long)seed, steps);
    for (int done = 0; done < steps && rc == 0; done += EPISODE) {
        rc = run(seed + (uint64_t)done, EPISODE);
        if (rc == 1)
            printf("# host_vfs SEED=%llu STEPS=%d\n", (unsigned long long)(seed + (uint64_t)done),
                   EPISODE);
    }
    printf("%s 1 - the disk answers as the host does%s\n1..1\n",
           rc == 0 || rc == SKIPPED ? "ok" : "not ok",
           rc == SKIPPED ? " # SKIP no chroot here" : "");
    return rc == 0 || rc == SKIPPED ? 0 : 1;
}
