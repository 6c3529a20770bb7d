/* SPDX-License-Identifier: MIT
 * Operations on the files of a machine, while it runs and while it sleeps. */
#include "tap.h"

#include "../lib/cell_rig.h"
#include "../lib/many_rig.h"
#include "../lib/tar_make.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *const copy[] = {"g", "c", NULL};
static const char *const says[] = {"g", "h", NULL};
static const char *const floods[] = {"g", "f", NULL};

static struct mop *plain(struct mrig *r, enum dz_cell_op_type type, const char *path)
{
    return mrig_op(r, &(struct dz_cell_op){.type = type, .path = path});
}

static struct dz_cell_view view(const struct mop *o)
{
    return (struct dz_cell_view){(const uint8_t *)o->data.p, o->data.len};
}

/* All of a READ but its stat. */
static const char *content(struct mrig *r, const char *path, struct dz_cell_stat *ret)
{
    struct mop *o = plain(r, DZ_CELL_OP_READ, path);
    if (mrig_done(r, o) != 0)
        return o->text;
    struct dz_cell_view v = view(o);
    const uint8_t *first = v.at;
    uint32_t fixed_and_size[2];
    memcpy(fixed_and_size, first, sizeof fixed_and_size);
    v.left = 8 + (fixed_and_size[0] >> 16) + fixed_and_size[1]; /* the first record alone */
    CHECK_INT(dz_cell_stat_next(&v, ret, &r->err), 1);
    return (const char *)v.at;
}

static void both(struct mrig *r, int asleep)
{
    mrig_start(r);
    if (!asleep)
        return;
    struct mexec *c = mrig_exec(r, copy, MEXEC_STDIN);
    mrig_until(r, c, DZ_CELL_STARTED);
    mrig_sleep(r, false);
    r->file_only = true;
    mrig_again(r);
    CHECK_INT(r->found, DZ_CELL_FOUND_ASLEEP);
}

TEST(files_are_written_read_and_named)
{
    for (int asleep = 0; asleep < 2; asleep++) {
        struct mrig r;
        struct dz_cell_stat s;
        both(&r, asleep);
        CHECK_INT(mrig_write(&r, "/workspace/d/a", "hello", 0), DZ_ENOENT);
        CHECK_INT(mrig_write(&r, "/workspace/d/a", "hello", DZ_CELL_OP_PARENTS), 0);
        CHECK_INT(r.ops[r.op_count - 1].end.count, 1);
        CHECK_STR(content(&r, "/workspace/d/a", &s), "hello");
        CHECK_INT(s.size, 5);
        CHECK_INT(s.mode, S_IFREG | 0644);
        CHECK_INT(mrig_write(&r, "/workspace/d/a", "again", DZ_CELL_OP_NEW), DZ_EEXIST);
        CHECK_INT(mrig_write(&r, "/workspace/d/a", "other", 0), 0);
        CHECK_INT(r.ops[r.op_count - 1].end.count, 0);
        CHECK_STR(content(&r, "/workspace/d/a", &s), "other");
        CHECK_INT(mrig_write(&r, "/workspace/d", "x", 0), DZ_EINVAL);
        CHECK_INT(mrig_done(&r, mrig_op(&r, &(struct dz_cell_op){.type = DZ_CELL_OP_MOVE,
                                                                 .path = "/workspace/d/a",
                                                                 .to = "/workspace/b"})),
                  0);
        CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_STAT, "/workspace/d/a")), DZ_ENOENT);
        CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_READ, "/workspace")), DZ_EINVAL);
        CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_MKDIR, "/workspace/d")), DZ_EEXIST);
        CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_MKDIR, "/workspace/e")), 0);
        CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_REMOVE, "/workspace/d")), 0);
        CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_REMOVE, "/workspace/d")), DZ_ENOENT);
        CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_STAT, "workspace")), DZ_EINVAL);
        mrig_sleep(&r, false);
        r.file_only = false;
        mrig_again(&r); /* all of it is there, and so is what slept */
        CHECK_INT(r.live, asleep);
        CHECK_STR(content(&r, "/workspace/b", &s), "other");
        mrig_free(&r);
    }
}

TEST(an_upload_that_breaks_off_leaves_nothing)
{
    struct mrig r;
    struct dz_cell_stat s;
    mrig_start(&r);
    CHECK_INT(mrig_write(&r, "/workspace/a", "old", 0), 0);
    struct mop *o = plain(&r, DZ_CELL_OP_WRITE, "/workspace/a");
    mrig_send(&r, o, "new, but no", 11);
    CHECK_STR(content(&r, "/workspace/a", &s), "old");
    CHECK_INT(dz_cell_op_cancel(r.cell, o->op, &r.err), 0);
    CHECK_INT(mrig_done(&r, o), DZ_ECANCELED);
    CHECK_STR(content(&r, "/workspace/a", &s), "old");
    o = plain(&r, DZ_CELL_OP_WRITE, "/workspace/a");
    mrig_send(&r, o, "neither", 7);
    mrig_sleep(&r, false);
    CHECK_INT(o->end.code, DZ_ECANCELED);
    CHECK_STR(mrig_sql(&r, "SELECT group_concat(path||content) FROM vfs WHERE volume='workspace'"),
              "aold");
    mrig_free(&r);
}

TEST(a_large_file_goes_both_ways_by_windows)
{
    struct mrig r;
    static char big[3000000];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7919 >> 5);
    mrig_start(&r);
    struct mexec *f = mrig_exec(&r, floods, MEXEC_DETACHED); /* and the machine is busy */
    mrig_until(&r, f, DZ_CELL_STARTED);
    struct mop *o = plain(&r, DZ_CELL_OP_WRITE, "/workspace/big");
    mrig_send(&r, o, big, sizeof big);
    CHECK_INT(dz_cell_op_end(r.cell, o->op, &r.err), 0);
    CHECK_INT(mrig_done(&r, o), 0);
    o = plain(&r, DZ_CELL_OP_READ, "/workspace/big");
    CHECK_INT(mrig_done(&r, o), 0);
    CHECK(o->data.len > sizeof big &&
          memcmp(o->data.p + o->data.len - sizeof big, big, sizeof big) == 0);
    o = mrig_op(
        &r, &(struct dz_cell_op){
                .type = DZ_CELL_OP_READ, .path = "/workspace/big", .offset = 100000, .length = 50});
    CHECK_INT(mrig_done(&r, o), 0);
    CHECK(memcmp(o->data.p + o->data.len - 50, big + 100000, 50) == 0);
    struct mop *slow = plain(&r, DZ_CELL_OP_READ, "/workspace/big");
    slow->slow = true;
    while (slow->data.len < DZ_CELL_OP_WINDOW)
        (void)mrig_step(&r);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_STAT, "/")), 0);
    CHECK(!slow->over && slow->data.len < DZ_CELL_OP_WINDOW + DZ_CELL_FRAME_MAX);
    CHECK_INT(dz_cell_op_cancel(r.cell, slow->op, &r.err), 0);
    CHECK_INT(mrig_done(&r, slow), DZ_ECANCELED);
    mrig_free(&r);
}

TEST(lists_are_sorted_and_go_down)
{
    static const char *const want[] = {"a", "b", "b/c", "b/c/d", "e"};
    struct mrig r;
    struct dz_cell_stat s;
    mrig_start(&r);
    CHECK_INT(mrig_write(&r, "/workspace/b/c/d", "1", DZ_CELL_OP_PARENTS), 0);
    CHECK_INT(mrig_write(&r, "/workspace/e", "22", 0), 0);
    CHECK_INT(mrig_write(&r, "/workspace/a", "333", 0), 0);
    for (uint32_t depth = 1; depth <= 3; depth++) {
        struct mop *o = mrig_op(
            &r,
            &(struct dz_cell_op){.type = DZ_CELL_OP_LIST, .path = "/workspace", .depth = depth});
        CHECK_INT(mrig_done(&r, o), 0);
        struct dz_cell_view v = view(o);
        for (size_t i = 0; i < 5; i++) {
            size_t slashes = 0;
            for (const char *p = want[i]; *p; p++)
                slashes += *p == '/';
            if (slashes >= depth)
                continue;
            CHECK_INT(dz_cell_stat_next(&v, &s, &r.err), 1);
            CHECK_STR(s.path, want[i]);
        }
        CHECK_INT(dz_cell_stat_next(&v, &s, &r.err), 0);
    }
    struct mop *o =
        mrig_op(&r, &(struct dz_cell_op){
                        .type = DZ_CELL_OP_LIST, .path = "/workspace", .depth = 9, .limit = 2});
    CHECK_INT(mrig_done(&r, o), 0);
    CHECK_INT(o->end.count, 1);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_LIST, "/workspace/a")), DZ_EINVAL);
    mrig_free(&r);
}

TEST(archives_go_out_and_in)
{
    struct mrig r;
    struct dz_cell_stat s;
    mrig_start(&r);
    CHECK_INT(mrig_write(&r, "/workspace/t/x/y", "inside", DZ_CELL_OP_PARENTS), 0);
    struct mop *out = plain(&r, DZ_CELL_OP_TAR_OUT, "/workspace/t");
    CHECK_INT(mrig_done(&r, out), 0);
    CHECK(out->data.len >= 10240);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_MKDIR, "/workspace/u")), 0);
    struct mop *in = plain(&r, DZ_CELL_OP_TAR_IN, "/workspace/u");
    mrig_send(&r, in, out->data.p, 1000);
    struct mexec *e = mrig_exec(&r, says, 0); /* the machine runs on in between */
    mrig_until(&r, e, DZ_CELL_EXITED);
    mrig_send(&r, in, out->data.p + 1000, out->data.len - 1000);
    CHECK_INT(dz_cell_op_end(r.cell, in->op, &r.err), 0);
    CHECK_INT(mrig_done(&r, in), 0);
    CHECK_STR(content(&r, "/workspace/u/x/y", &s), "inside");
    in = plain(&r, DZ_CELL_OP_TAR_IN, "/workspace/u");
    mrig_send(&r, in, out->data.p, 700); /* cut off */
    CHECK_INT(dz_cell_op_end(r.cell, in->op, &r.err), 0);
    CHECK_INT(mrig_done(&r, in), DZ_EINVAL);
    mrig_free(&r);
}

TEST(sums_count_each_file_once_and_follow_links_only_if_asked)
{
    struct mrig r;
    struct dz_cell_usage u;
    mrig_start(&r);
    CHECK_INT(mrig_write(&r, "/workspace/t/x/y", "inside", DZ_CELL_OP_PARENTS), 0);
    CHECK_INT(mrig_write(&r, "/workspace/t/z", "12", 0), 0);
    for (int follow = 0; follow < 2; follow++) {
        struct mop *o =
            mrig_op(&r, &(struct dz_cell_op){.type = DZ_CELL_OP_USAGE,
                                             .path = "/workspace/t",
                                             .flags = follow ? 0 : DZ_CELL_OP_NOFOLLOW});
        CHECK_INT(mrig_done(&r, o), 0);
        struct dz_cell_view v = view(o);
        CHECK_INT(dz_cell_usage_next(&v, &u, &r.err), 1);
        CHECK(u.size == 8 && u.stored == 8 && u.names == 4 && u.sockets == 0);
        CHECK_INT(dz_cell_usage_next(&v, &u, &r.err), 0);
    }
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_USAGE, "/workspace/none")), DZ_ENOENT);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_USAGE, "workspace")), DZ_EINVAL);
    mrig_free(&r);
}

TEST(changes_are_told_as_they_come)
{
    struct mrig r;
    struct dz_cell_change c;
    mrig_start(&r);
    struct mop *w =
        mrig_op(&r, &(struct dz_cell_op){
                        .type = DZ_CELL_OP_WATCH, .path = "/workspace", .flags = DZ_CELL_OP_DEEP});
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_MKDIR, "/workspace/d")), 0);
    CHECK_INT(mrig_write(&r, "/workspace/d/f", "x", 0), 0);
    struct mop *out = plain(&r, DZ_CELL_OP_TAR_OUT, "/workspace/d");
    CHECK_INT(mrig_done(&r, out), 0);
    struct mop *in = plain(&r, DZ_CELL_OP_TAR_IN, "/workspace");
    mrig_send(&r, in, out->data.p, out->data.len);
    CHECK_INT(dz_cell_op_end(r.cell, in->op, &r.err), 0);
    CHECK_INT(mrig_done(&r, in), 0);
    bool dir = false, file = false, unpacked = false;
    for (int i = 0; i < 50 && !(dir && file && unpacked); i++) {
        struct dz_cell_view v = view(w);
        while (dz_cell_change_next(&v, &c, &r.err) > 0) {
            CHECK(!strstr(c.path, ".doze-")); /* no name that is there only while a file arrives */
            unpacked |= strcmp(c.what, "moved_to") == 0 && strcmp(c.path, "/workspace/f") == 0;
            dir |= strcmp(c.what, "create") == 0 && strcmp(c.path, "/workspace/d") == 0;
            file |= strcmp(c.what, "moved_to") == 0 && strcmp(c.path, "/workspace/d/f") == 0;
        }
        if (!(dir && file && unpacked))
            (void)mrig_step(&r);
    }
    CHECK(dir && file && unpacked);
    CHECK_INT(dz_cell_op_cancel(r.cell, w->op, &r.err), 0);
    CHECK_INT(mrig_done(&r, w), DZ_ECANCELED);
    mrig_free(&r);
}

static struct mop *sql(struct mrig *r, const char *text)
{
    return mrig_op(r, &(struct dz_cell_op){.type = DZ_CELL_OP_SQL, .text = text});
}

TEST(sql_reads_and_no_more)
{
    struct mrig r;
    struct dz_cell_value x;
    mrig_start(&r);
    CHECK_INT(mrig_write(&r, "/workspace/q", "content", 0), 0);
    struct mop *o = sql(&r, "SELECT path, content, 7, 1.5, NULL FROM vfs WHERE path='q';");
    CHECK_INT(mrig_done(&r, o), 0);
    CHECK_INT(o->end.count, 1);
    struct dz_cell_view v = view(o);
    static const enum dz_cell_value_kind kinds[] = {
        DZ_CELL_COLUMN, DZ_CELL_COLUMN, DZ_CELL_COLUMN, DZ_CELL_COLUMN, DZ_CELL_COLUMN, DZ_CELL_ROW,
        DZ_CELL_TEXT,   DZ_CELL_BLOB,   DZ_CELL_INT,    DZ_CELL_REAL,   DZ_CELL_NULL};
    for (size_t i = 0; i < DZ_ARRAY_LEN(kinds); i++) {
        CHECK_INT(dz_cell_value_next(&v, &x, &r.err), 1);
        CHECK_INT(x.kind, kinds[i]);
        if (x.kind == DZ_CELL_BLOB)
            CHECK(x.size == 7 && memcmp(x.data, "content", 7) == 0);
        if (x.kind == DZ_CELL_INT)
            CHECK_INT(x.integer, 7);
    }
    CHECK_INT(dz_cell_value_next(&v, &x, &r.err), 0);
    CHECK(mrig_done(&r, sql(&r, "DELETE FROM node")) < 0);
    CHECK(mrig_done(&r, sql(&r, "ATTACH '/etc/passwd' AS x")) < 0);
    CHECK(mrig_done(&r, sql(&r, "PRAGMA journal_mode=DELETE")) < 0);
    CHECK_INT(mrig_done(&r, sql(&r, "SELECT 1; SELECT 2")), DZ_EINVAL);
    CHECK_INT(mrig_done(&r, sql(&r, "WITH i(n)AS(SELECT 1 UNION ALL SELECT n+1 FROM i)SELECT "
                                    "count(*) FROM i")),
              DZ_ELIMIT);
    CHECK_INT(mrig_done(&r, sql(&r, "SELECT zeroblob(30000000)")), DZ_ELIMIT);
    o = sql(&r, "SELECT zeroblob(100000)");
    CHECK_INT(mrig_done(&r, o), 0);
    v = view(o);
    size_t bytes = 0;
    while (dz_cell_value_next(&v, &x, &r.err) > 0)
        bytes += x.kind == DZ_CELL_BLOB ? x.size : 0;
    CHECK_INT(bytes, 100000);
    CHECK_INT(mrig_write(&r, "/workspace/after", "writes still work", 0), 0);
    mrig_free(&r);
}

TEST(records_of_commands_can_be_read_awake_and_asleep)
{
    struct mrig r;
    struct dz_cell_exec_row e;
    struct dz_cell_piece p;
    mrig_start(&r);
    r.next.spec = "{\"mine\":1}";
    r.next.spec_size = 10;
    struct mexec *a = mrig_exec(&r, says, 0), *b = mrig_exec(&r, copy, MEXEC_STDIN);
    mrig_until(&r, a, DZ_CELL_EXITED);
    mrig_until(&r, b, DZ_CELL_STARTED);
    for (int asleep = 0; asleep < 2; asleep++) {
        struct mop *o = mrig_op(&r, &(struct dz_cell_op){.type = DZ_CELL_OP_EXECS});
        CHECK_INT(mrig_done(&r, o), 0);
        struct dz_cell_view v = view(o);
        CHECK_INT(dz_cell_exec_row_next(&v, &e, &r.err), 1);
        CHECK_STR(e.id, b->id);
        CHECK_STR(e.state, "running");
        CHECK_INT(dz_cell_exec_row_next(&v, &e, &r.err), 1);
        CHECK_STR(e.id, a->id);
        CHECK_STR(e.state, "ended");
        CHECK_INT(e.exit_code, 3);
        CHECK_INT(e.output_bytes, 7);
        CHECK_INT(e.argc, 2);
        CHECK_STR(e.argv, "g");
        CHECK(e.spec_size == 10 && memcmp(e.spec, "{\"mine\":1}", 10) == 0);
        CHECK_INT(dz_cell_exec_row_next(&v, &e, &r.err), 0);
        o = mrig_op(&r,
                    &(struct dz_cell_op){.type = DZ_CELL_OP_OUTPUT, .text = a->id, .offset = 1});
        CHECK_INT(mrig_done(&r, o), 0);
        v = view(o);
        CHECK_INT(dz_cell_piece_next(&v, &p, &r.err), 1);
        CHECK(p.offset == 1 && p.stream == DZ_CELL_STDOUT && p.size == 2 &&
              memcmp(p.data, "i\n", 2) == 0);
        CHECK_INT(dz_cell_piece_next(&v, &p, &r.err), 1);
        CHECK(p.offset == 3 && p.stream == DZ_CELL_STDERR && p.size == 4);
        CHECK_INT(mrig_done(&r, mrig_op(&r, &(struct dz_cell_op){.type = DZ_CELL_OP_EXEC,
                                                                 .text = "exe_none"})),
                  DZ_ENOENT);
        o = mrig_op(&r, &(struct dz_cell_op){.type = DZ_CELL_OP_STATS});
        CHECK_INT(mrig_done(&r, o), 0);
        struct dz_cell_machine_stats s;
        struct dz_cell_process q;
        v = view(o);
        CHECK_INT(dz_cell_stats_next(&v, &s, &r.err), 1);
        CHECK_INT(s.up, !asleep);
        CHECK_INT(s.procs, !asleep);
        CHECK(s.inodes > 4);
        if (!asleep) {
            CHECK_INT(dz_cell_process_next(&v, &q, &r.err), 1);
            CHECK_STR(q.command, "g c");
            CHECK_STR(q.exec_id, b->id);
        }
        if (!asleep) {
            mrig_sleep(&r, false);
            r.file_only = true;
            mrig_again(&r);
        }
    }
    mrig_free(&r);
}

/* A program that sleeps keeps its file although its name is taken away meanwhile. */
TEST(what_a_sleeper_has_open_stays)
{
    struct mrig r;
    both(&r, 1);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_REMOVE, "/bin/g")), 0);
    mrig_sleep(&r, false);
    r.file_only = false;
    mrig_again(&r);
    CHECK_INT(r.live, 1);
    mrig_input(&r, &r.execs[0], "alive");
    CHECK_INT(dz_cell_exec_attach(r.cell, r.execs[0].exec, 0, &r.err), 0);
    while (r.execs[0].seen < 5)
        (void)mrig_step(&r);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_STAT, "/bin/g")), DZ_ENOENT);
    mrig_free(&r);
}

/* --- a host that takes nothing for a while ---------------------------------------------------- */

static char state_of(int32_t pid)
{
    char path[64], text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    (void)close(fd);
    const char *paren = strrchr(text, ')');
    return paren ? paren[2] : '?';
}

/* The socket was full when it had said all: it goes to sleep again when that is out. */
TEST(a_cell_that_has_only_the_file_waits_when_all_is_said)
{
    static char big[300000];
    struct mrig r;
    both(&r, 1);
    memset(big, 'x', sizeof big - 1);
    CHECK_INT(mrig_write(&r, "/workspace/big", big, 0), 0);
    struct mop *o = plain(&r, DZ_CELL_OP_READ, "/workspace/big"); /* more than the socket takes */
    struct mop *s = plain(&r, DZ_CELL_OP_STAT, "/workspace/big");
    while (state_of(dz_cell_pid(r.cell)) != 'S')
        (void)usleep(1000);
    CHECK_INT(mrig_done(&r, o), 0);
    CHECK_INT(mrig_done(&r, s), 0);
    while (state_of(dz_cell_pid(r.cell)) != 'S') /* or the alarm comes */
        (void)usleep(1000);
    mrig_sleep(&r, false);
    mrig_free(&r);
}

/* As another cell has it: all of SQLite's lock bytes. Ends with the descriptor that this is. */
static int hold_file(const struct mrig *r)
{
    struct flock all = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000000, .l_len = 512};
    int fd = mrig_reopen(r->start.disk_fd);
    CHECK_INT(fcntl(fd, F_OFD_SETLK, &all), 0);
    return fd;
}

/* How often the process has waited for something. */
static long waits(int32_t pid)
{
    char path[64], line[256];
    long n = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
            n = strtol(line + 24, NULL, 10);
    if (f)
        (void)fclose(f);
    return n;
}

/* It sleeps, and does not look again and again whether it may go on. */
static void until_it_rests(const struct mrig *r)
{
    const int32_t pid = dz_cell_pid(r->cell);
    long before = -1, now = waits(pid);
    for (int i = 0; i < 30 && (now != before || state_of(pid) != 'S'); i++) {
        (void)usleep(100 * 1000);
        before = now;
        now = waits(pid);
    }
    CHECK_INT(now, before);
}

static void asleep_as_files(struct mrig *r)
{
    mrig_start(r);
    mrig_sleep(r, true);
    r->file_only = true;
    r->ready = false;
}

TEST(a_file_that_another_has_is_waited_for)
{
    struct mrig r;
    asleep_as_files(&r);
    int other = hold_file(&r);
    CHECK_INT(mrig_spawn(&r), 0);
    until_it_rests(&r);
    (void)close(other);
    while (!r.ready)
        if (!mrig_step(&r) || r.last == DZ_CELL_FAILED)
            exit(1);
    CHECK_INT(mrig_write(&r, "/workspace/a", "mine", 0), 0);
    mrig_free(&r);
}

TEST(the_wait_for_a_file_ends)
{
    struct mrig r;
    asleep_as_files(&r);
    int other = hold_file(&r);
    r.start.lock_wait_ms = 50;
    CHECK_INT(mrig_spawn(&r), 0);
    while (r.last != DZ_CELL_FAILED && mrig_step(&r))
        ;
    CHECK_INT(r.end.type, DZ_CELL_FAILED);
    CHECK_INT(r.end.code, DZ_EBUSY);
    dz_cell_free(r.cell);
    r.start.lock_wait_ms = 5000;
    (void)close(other);
    mrig_again(&r);
    CHECK_INT(mrig_write(&r, "/workspace/a", "mine", 0), 0);
    mrig_free(&r);
}

/* Nobody wants the file of a cell whose host has gone: it leaves it as it is. */
TEST(a_cell_that_waits_for_a_file_does_not_outlive_its_host)
{
    struct mrig r;
    siginfo_t info;
    asleep_as_files(&r);
    int other = hold_file(&r);
    CHECK_INT(mrig_spawn(&r), 0);
    until_it_rests(&r);
    CHECK_INT(shutdown(dz_cell_fd(r.cell), SHUT_RDWR), 0);
    (void)close(other);
    CHECK_INT(waitid(P_PID, (id_t)dz_cell_pid(r.cell), &info, WEXITED | WNOWAIT), 0);
    CHECK_INT(info.si_code, CLD_EXITED);
    CHECK_INT(info.si_status, 1);
    dz_cell_free(r.cell);
    mrig_again(&r);
    mrig_free(&r);
}

/* Pages of the heap that the cell has for itself, in KiB. */
static long own_kib(const struct mrig *r)
{
    char path[64], line[512];
    bool heap = false;
    long kib = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/smaps", (int)dz_cell_pid(r->cell));
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strchr("0123456789abcdef", line[0]))
            heap = strstr(line, "[heap]") != NULL;
        else if (heap && strncmp(line, "Private_Dirty:", 14) == 0)
            kib += strtol(line + 14, NULL, 10);
    }
    if (f)
        (void)fclose(f);
    return kib;
}

/* The log's buffer has twelve pages then. It goes when nothing has happened for a while, or
 * the alarm ends this. */
TEST(a_cell_that_waits_gives_memory_back)
{
    struct mrig r;
    static char text[45000];
    memset(text, 'x', sizeof text - 1);
    mrig_start(&r);
    for (long busy = 1, now = 1; now > busy - 40;) { /* again, should the first look be late */
        CHECK_INT(mrig_write(&r, "/workspace/a", text, 0), 0);
        now = busy = own_kib(&r);
        if (busy == 0)
            SKIP("the heap is no mapping that says what of it is private");
        for (int i = 0; i < 200 && now > busy - 40; i++, now = own_kib(&r))
            (void)poll(NULL, 0, 10);
    }
    CHECK_INT(mrig_write(&r, "/workspace/a", "and goes on", 0), 0);
    mrig_free(&r);
}

static uint32_t mode_of(struct mrig *r, const char *path)
{
    struct dz_cell_stat s = {0};
    CHECK_STR(content(r, path, &s), "text");
    return s.mode & 07777;
}

static int write_as(struct mrig *r, const char *path, uint32_t mode)
{
    struct mop *o =
        mrig_op(r, &(struct dz_cell_op){.type = DZ_CELL_OP_WRITE, .path = path, .mode = mode});
    mrig_send(r, o, "text", 4);
    CHECK_INT(dz_cell_op_end(r->cell, o->op, &r->err), 0);
    return mrig_done(r, o);
}

TEST(a_file_that_is_replaced_keeps_its_mode)
{
    struct mrig r;
    mrig_start(&r);
    CHECK_INT(write_as(&r, "/workspace/a", 0), 0);
    CHECK_INT(mode_of(&r, "/workspace/a"), 0644);
    CHECK_INT(write_as(&r, "/workspace/a", 0600), 0);
    CHECK_INT(mode_of(&r, "/workspace/a"), 0600);
    CHECK_INT(write_as(&r, "/workspace/a", 0), 0);
    CHECK_INT(mode_of(&r, "/workspace/a"), 0600);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_MKDIR, "/workspace/d")), 0);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_REMOVE, "/workspace/d/.")), DZ_EINVAL);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_REMOVE, "/workspace/d/..")), DZ_EINVAL);
    CHECK_INT(mrig_done(&r, plain(&r, DZ_CELL_OP_STAT, "/workspace/d")), 0);
    mrig_free(&r);
}

static bool is_owned(struct mrig *r, const char *path, uint32_t id)
{
    struct dz_cell_stat s = {0};
    (void)content(r, path, &s);
    return s.uid == id && s.gid == id;
}

/* A new file belongs to the owner of its directory; a replaced file keeps its owner. */
TEST(a_file_that_is_written_has_an_owner)
{
    enum {
        TAR_OWNER = 01750
    };
    struct mrig r;
    DZ_AUTO(dz_buf_release) struct dz_buf tar = DZ_BUF_INIT(8192);
    const char name[100] = "theirs", no_link[100] = ""; /* fields of a header */
    mrig_start(&r);
    tar_header(&tar, '0', name, no_link, 0);
    tar_data(&tar, (const char[1024]){0}, 1024); /* the end */
    struct mop *in = plain(&r, DZ_CELL_OP_TAR_IN, "/workspace");
    mrig_send(&r, in, tar.p, tar.len);
    CHECK_INT(dz_cell_op_end(r.cell, in->op, &r.err), 0);
    CHECK_INT(mrig_done(&r, in), 0);
    CHECK(is_owned(&r, "/workspace/theirs", TAR_OWNER));
    CHECK_INT(mrig_write(&r, "/workspace/theirs", "text", 0), 0);
    CHECK(is_owned(&r, "/workspace/theirs", TAR_OWNER));
    CHECK_INT(mrig_write(&r, "/workspace/ours", "text", 0), 0);
    CHECK(is_owned(&r, "/workspace/ours", 0));
    mrig_free(&r);
}
