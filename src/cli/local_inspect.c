/* SPDX-License-Identifier: MIT
 *
 * `doze inspect`, `doze top`: what sleeps in a file, without waking it.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli_stats.h"
#include "cli/cli_table.h"
#include "cli/local_disk.h"
#include "linux/linux_inspect.h"
#include "machine/machine_inspect.h"

enum {
    JSON_MAX = 16 << 20,
};

struct space {
    uint64_t number;
    struct dz_buf maps;
};
struct look {
    struct dz_cli *c;
    DZ_VEC(, struct dz_inspect_proc) procs;
    DZ_VEC(, struct dz_inspect_fd) fds;
    struct dz_inspect_total total;
    /* of native programs */
    DZ_VEC(, struct dz_thread) threads;
    DZ_VEC(, struct dz_linux_inspect_thread) natives;
    DZ_VEC(, struct dz_linux_inspect_file) mapped;
    DZ_VEC(, struct space) spaces;
    struct dz_buf cpu;
};

static int on_proc(void *arg, const struct dz_inspect_proc *p, struct dz_err *err)
{
    struct look *l = arg;
    return dz_vec_push(&l->procs, *p) < 0 ? dz_fail(err, l->procs.err, "list processes") : 0;
}

static int on_fd(void *arg, const struct dz_inspect_fd *f, struct dz_err *err)
{
    struct look *l = arg;
    return dz_vec_push(&l->fds, *f) < 0 ? dz_fail(err, l->fds.err, "list descriptors") : 0;
}

static int on_cpu(void *arg, const char *needs, struct dz_err *err)
{
    struct look *l = arg;
    dz_buf_adds(&l->cpu, needs);
    return l->cpu.err ? dz_fail(err, l->cpu.err, "list features of the processor") : 0;
}

static int on_thread(void *arg, const struct dz_thread *t, struct dz_err *err)
{
    struct look *l = arg;
    return dz_vec_push(&l->threads, *t) < 0 ? dz_fail(err, l->threads.err, "list threads") : 0;
}
static int on_native(void *arg, const struct dz_linux_inspect_thread *t, struct dz_err *err)
{
    struct look *l = arg;
    return dz_vec_push(&l->natives, *t) < 0 ? dz_fail(err, l->natives.err, "list threads") : 0;
}
static int on_space(void *arg, uint64_t number, const struct dz_buf *maps, struct dz_err *err)
{
    struct look *l = arg;
    struct space s = {.number = number, .maps = DZ_BUF_INIT(JSON_MAX)};
    dz_buf_add(&s.maps, maps->p, maps->len);
    if (s.maps.err || dz_vec_push(&l->spaces, s) < 0) {
        dz_buf_release(&s.maps);
        return dz_fail(err, DZ_ENOMEM, "list mappings");
    }
    return 0;
}
static int on_mapped(void *arg, const struct dz_linux_inspect_file *f, struct dz_err *err)
{
    struct look *l = arg;
    return dz_vec_push(&l->mapped, *f) < 0 ? dz_fail(err, l->mapped.err, "list mapped files") : 0;
}

static void release(struct look *l)
{
    for (size_t i = 0; i < l->spaces.n; i++)
        dz_buf_release(&l->spaces.p[i].maps);
    dz_vec_release(&l->threads);
    dz_vec_release(&l->natives);
    dz_vec_release(&l->mapped);
    dz_vec_release(&l->spaces);
    dz_vec_release(&l->procs);
    dz_vec_release(&l->fds);
    dz_buf_release(&l->cpu);
}

/* --- words -------------------------------------------------------------------------- */

static const char *state_of(const struct dz_inspect_proc *p)
{
    if (p->row.flags & DZ_PROC_STOPPED)
        return "stopped";
    if (p->row.state == DZ_PROC_ZOMBIE)
        return "zombie";
    if (!p->waits)
        return "ready";
    return p->wakes_in_ns == INT64_MAX ? "waiting" : "timer";
}

static const char *found_text(enum dz_machine_found found)
{
    return found == DZ_MACHINE_ASLEEP ? "asleep" : found == DZ_MACHINE_LOST ? "lost" : "none";
}

static const char *time_text(int64_t ns, char out[static DZ_RFC3339_TEXT])
{
    return ns == INT64_MAX ? "never" : dz_rfc3339_print(ns / DZ_NS_PER_MS, out);
}

/* --- for people ------------------------------------------------------------------------ */

static int print_procs(struct look *l, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {
        {"PID", true},    {"PPID", true}, {"UID", true}, {"STATE", false},  {"CPU ms", true},
        {"MEMORY", true}, {"KEPT", true}, {"FDS", true}, {"COMMAND", false}};
    struct dz_cli_table t;
    char text[DZ_CLI_SIZE_TEXT];
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (size_t i = 0; i < l->procs.n; i++) {
        const struct dz_inspect_proc *p = &l->procs.p[i];
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%d", p->row.pid);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%d", p->row.ppid);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%u", p->row.uid);
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(state_of(p)));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%llu",
                           (unsigned long long)(p->row.utime_ns + p->row.stime_ns) / 1000000);
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(dz_cli_size(p->memory_bytes, text)));
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(dz_cli_size(p->kept_bytes, text)));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%u", p->descriptors);
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(p->command));
    }
    int rc = dz_cli_table_print(&t, l->c, err);
    dz_cli_table_release(&t);
    return rc;
}

static int print_fds(struct look *l, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {{"PID", true}, {"FD", true},    {"KIND", false},
                                                   {"AT", true},  {"WAITS", true}, {"NAME", false}};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (size_t i = 0; i < l->fds.n; i++) {
        const struct dz_inspect_fd *f = &l->fds.p[i];
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%d", f->pid);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%u", f->fd);
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(f->kind));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%llu", (unsigned long long)f->row.pos);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%u", f->waiting);
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(f->name));
    }
    int rc = dz_cli_table_print(&t, l->c, err);
    dz_cli_table_release(&t);
    return rc;
}

/* --- native programs --------------------------------------------------------------------- */

static int32_t pid_of(const struct look *l, uint32_t proc)
{
    for (size_t i = 0; i < l->procs.n; i++)
        if (l->procs.p[i].row.index == proc)
            return l->procs.p[i].row.pid;
    return 0;
}
static int32_t tid_of(const struct look *l, uint32_t thread)
{
    for (size_t i = 0; i < l->threads.n; i++)
        if (l->threads.p[i].index == thread)
            return l->threads.p[i].tid;
    return 0;
}

static int print_natives(struct look *l, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {{"TID", true}, {"PID", true}, {"MEMORY", true},
                                                   {"RIP", true}, {"RSP", true}, {"CALL", false}};
    struct dz_cli_table t;
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (size_t i = 0; i < l->natives.n; i++) {
        const struct dz_linux_inspect_thread *n = &l->natives.p[i];
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%d", tid_of(l, n->thread));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%d", pid_of(l, n->proc));
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%llu", (unsigned long long)n->space);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%llx", (unsigned long long)n->regs.rip);
        dz_cli_table_cellf(&t, DZ_CLI_PLAIN, "%llx", (unsigned long long)n->regs.rsp);
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(n->dead ? "killed" : n->call));
    }
    int rc = dz_cli_table_print(&t, l->c, err);
    dz_cli_table_release(&t);
    (void)fprintf(l->c->out, "\nprocessor: %s\n", l->cpu.p);
    for (size_t i = 0; i < l->spaces.n; i++)
        (void)fprintf(l->c->out, "\nmemory %llu:\n%s", (unsigned long long)l->spaces.p[i].number,
                      l->spaces.p[i].maps.p);
    for (size_t i = 0; i < l->mapped.n; i++) {
        const struct dz_linux_inspect_file *f = &l->mapped.p[i];
        char size[DZ_CLI_SIZE_TEXT];
        (void)fprintf(l->c->out, "%s%s %llu: %s%s\n", i ? "" : "\n", f->kind,
                      (unsigned long long)f->id, dz_cli_size(f->size, size),
                      f->in_memory ? ", among the pages" : "");
    }
    return rc;
}

static void put_natives(struct dz_json *j, const struct look *l)
{
    static const char *const names[] = {"r8",  "r9",  "r10", "r11",    "r12",     "r13",    "r14",
                                        "r15", "rdi", "rsi", "rbp",    "rbx",     "rdx",    "rax",
                                        "rcx", "rsp", "rip", "rflags", "fs_base", "gs_base"};
    char text[24];
    dz_json_key(j, "threads");
    dz_json_array(j);
    for (size_t i = 0; i < l->natives.n; i++) {
        const struct dz_linux_inspect_thread *n = &l->natives.p[i];
        uint64_t regs[DZ_ARRAY_LEN(names)];
        _Static_assert(sizeof regs == sizeof n->regs, "a name for each register");
        memcpy(regs, &n->regs, sizeof regs);
        dz_json_object(j);
        dz_json_put_i64(j, "tid", tid_of(l, n->thread));
        dz_json_put_i64(j, "pid", pid_of(l, n->proc));
        dz_json_put_u64(j, "memory", n->space);
        dz_json_put_strz(j, "call", n->call[0] ? n->call : NULL);
        for (size_t r = 0; r < DZ_ARRAY_LEN(names) && !n->dead; r++) {
            (void)snprintf(text, sizeof text, "0x%llx", (unsigned long long)regs[r]);
            dz_json_put_strz(j, names[r], text);
        }
        dz_json_end(j);
    }
    dz_json_end(j);
    dz_json_put_strz(j, "processor", l->cpu.p);
    dz_json_key(j, "memories");
    dz_json_array(j);
    for (size_t i = 0; i < l->spaces.n; i++) {
        dz_json_object(j);
        dz_json_put_u64(j, "memory", l->spaces.p[i].number);
        dz_json_put_strz(j, "maps", l->spaces.p[i].maps.p);
        dz_json_end(j);
    }
    dz_json_end(j);
    dz_json_key(j, "mapped_files");
    dz_json_array(j);
    for (size_t i = 0; i < l->mapped.n; i++) {
        const struct dz_linux_inspect_file *f = &l->mapped.p[i];
        dz_json_object(j);
        dz_json_put_strz(j, "kind", f->kind);
        dz_json_put_u64(j, f->kind[0] == 's' && f->kind[7] == 'm' ? "number" : "inode", f->id);
        dz_json_put_u64(j, "size", f->size);
        dz_json_put_bool(j, "in_pages", f->in_memory);
        dz_json_end(j);
    }
    dz_json_end(j);
}

static void print_total(const struct look *l)
{
    const struct dz_inspect_total *t = &l->total;
    char a[DZ_RFC3339_TEXT], b[DZ_RFC3339_TEXT], s[DZ_CLI_SIZE_TEXT], k[DZ_CLI_SIZE_TEXT];
    DZ_AUTO(dz_buf_release) struct dz_buf policy = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_cli_escape(&policy, dz_str(t->policy));
    (void)fprintf(l->c->out, "suspended since %s, next wake: %s, policy %s\n",
                  time_text(t->slept_real_ns, a), time_text(t->wake_real_ns, b), policy.p);
    (void)fprintf(l->c->out, "state %s, memory %s in %llu rows (%llu pages, %llu outdated)\n\n",
                  dz_cli_size(t->state_bytes, s), dz_cli_size(t->memory_bytes, k),
                  (unsigned long long)t->memory_rows, (unsigned long long)t->pages_live,
                  (unsigned long long)t->pages_garbage);
}

/* The content of each volume in this file, without the image below. */
static const char volumes_sql[] =
    "WITH RECURSIVE t(v,ino,type)AS(SELECT name,ino,type FROM dentry WHERE parent=1 AND ino IN(2,3,4)"
    " UNION SELECT t.v,d.ino,d.type FROM t JOIN dentry d ON d.parent=t.ino WHERE t.type=4 AND d.ino>0)"
    "SELECT CAST(v AS TEXT),count(*)-1,coalesce(sum((SELECT coalesce(length(data),0)FROM node n "
    "WHERE n.ino=t.ino)+(SELECT coalesce(sum(length(data)),0)FROM chunk c WHERE c.id BETWEEN t.ino<<24 "
    "AND(t.ino<<24)+16777215)),0)FROM t GROUP BY v ORDER BY min(ino)";

static int each_volume(struct dz_db *db, struct dz_cli *c, struct dz_json *j, struct dz_err *err)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(db, volumes_sql);
    char text[DZ_CLI_SIZE_TEXT];
    int rc;
    while ((rc = dz_stmt_step(st, err)) > 0) {
        uint64_t names = (uint64_t)dz_col_int(st, 1), bytes = (uint64_t)dz_col_int(st, 2);
        if (j) {
            dz_json_object(j);
            dz_json_put_strz(j, "volume", dz_col_text(st, 0));
            dz_json_put_u64(j, "names", names);
            dz_json_put_u64(j, "bytes", bytes);
            dz_json_end(j);
        } else {
            DZ_AUTO(dz_buf_release) struct dz_buf name = DZ_BUF_INIT(DZ_LINE_MAX);
            dz_cli_escape(&name, dz_str(dz_col_text(st, 0)));
            (void)fprintf(c->out, "volume %s: %llu names, %s\n", name.p, (unsigned long long)names,
                          dz_cli_size(bytes, text));
        }
    }
    return rc;
}

/* --- for programs --------------------------------------------------------------------------- */

static void put_time(struct dz_json *j, const char *key, int64_t ns)
{
    char text[DZ_RFC3339_TEXT];
    dz_json_put_strz(j, key, ns == INT64_MAX ? NULL : time_text(ns, text));
}

static void put_total(struct dz_json *j, const struct dz_inspect_total *t)
{
    put_time(j, "asleep_since", t->slept_real_ns);
    put_time(j, "wake_at", t->wake_real_ns);
    dz_json_put_strz(j, "policy", t->policy);
    dz_json_put_i64(j, "cpu_ns", t->cpu_ns);
    dz_json_put_u64(j, "state_bytes", t->state_bytes);
    dz_json_put_u64(j, "memory_bytes", t->memory_bytes);
    dz_json_put_u64(j, "memory_rows", t->memory_rows);
    dz_json_put_u64(j, "pages", t->pages_live);
    dz_json_put_u64(j, "pages_outdated", t->pages_garbage);
    dz_json_put_u64(j, "open_files", t->files);
    dz_json_put_u64(j, "pipes", t->pipes);
    dz_json_put_u64(j, "terminals", t->ptys);
    dz_json_put_u64(j, "programs", t->modules);
}

static void put_procs(struct dz_json *j, const struct look *l)
{
    dz_json_key(j, "processes");
    dz_json_array(j);
    for (size_t i = 0; i < l->procs.n; i++) {
        const struct dz_inspect_proc *p = &l->procs.p[i];
        dz_json_object(j);
        dz_json_put_i64(j, "pid", p->row.pid);
        dz_json_put_i64(j, "ppid", p->row.ppid);
        dz_json_put_u64(j, "uid", p->row.uid);
        dz_json_put_strz(j, "state", state_of(p));
        dz_json_put_u64(j, "cpu_ns", p->row.utime_ns + p->row.stime_ns);
        dz_json_put_u64(j, "memory_bytes", p->memory_bytes);
        dz_json_put_u64(j, "kept_bytes", p->kept_bytes);
        dz_json_put_u64(j, "descriptors", p->descriptors);
        dz_json_put_strz(j, "command", p->command);
        dz_json_end(j);
    }
    dz_json_end(j);
}

static void put_fds(struct dz_json *j, const struct look *l)
{
    dz_json_key(j, "descriptors");
    dz_json_array(j);
    for (size_t i = 0; i < l->fds.n; i++) {
        const struct dz_inspect_fd *f = &l->fds.p[i];
        dz_json_object(j);
        dz_json_put_i64(j, "pid", f->pid);
        dz_json_put_u64(j, "fd", f->fd);
        dz_json_put_strz(j, "kind", f->kind);
        dz_json_put_u64(j, "offset", f->row.pos);
        dz_json_put_u64(j, "waiting_bytes", f->waiting);
        dz_json_put_strz(j, "name", f->name);
        dz_json_end(j);
    }
    dz_json_end(j);
}

static int print_json(struct look *l, enum dz_machine_found found, struct dz_db *db, bool top,
                      struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(JSON_MAX);
    struct dz_json j;
    int rc = 0;
    dz_json_init(&j, &text, l->c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "machine", found_text(found));
    if (found == DZ_MACHINE_ASLEEP) {
        put_total(&j, &l->total);
        put_procs(&j, l);
    }
    if (!top) {
        if (found == DZ_MACHINE_ASLEEP)
            put_fds(&j, l);
        if (l->natives.n)
            put_natives(&j, l);
        dz_json_key(&j, "volumes");
        dz_json_array(&j);
        rc = each_volume(db, l->c, &j, err);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    return rc < 0 ? rc : dz_cli_print_json(l->c, &text, dz_json_finish(&j), err);
}

/* --- the commands ----------------------------------------------------------------------------- */

static uint64_t cpu_of(const struct dz_inspect_proc *p)
{
    return p->row.utime_ns + p->row.stime_ns;
}

/* Sort by hand: the C library's qsort requests memory from the system, which the jail forbids. */
static void sort_by_cpu(struct look *l)
{
    for (size_t i = 1; i < l->procs.n; i++) {
        struct dz_inspect_proc p = l->procs.p[i];
        size_t at = i;
        for (; at > 0 && cpu_of(&l->procs.p[at - 1]) < cpu_of(&p); at--)
            l->procs.p[at] = l->procs.p[at - 1];
        l->procs.p[at] = p;
    }
}

static int print(struct look *l, enum dz_machine_found found, struct dz_db *db, bool top,
                 struct dz_err *err)
{
    int rc = 0;
    if (l->c->json)
        return print_json(l, found, db, top, err);
    if (found == DZ_MACHINE_ASLEEP) {
        print_total(l);
        rc = print_procs(l, err);
    } else {
        (void)fprintf(l->c->out, "%s\n",
                      found == DZ_MACHINE_LOST
                          ? "memory_lost: processes ran here and were not suspended"
                          : "no processes sleep here");
    }
    if (rc < 0 || top)
        return rc;
    if (l->fds.n) {
        (void)fprintf(l->c->out, "\n");
        rc = print_fds(l, err);
    }
    if (rc == 0 && l->natives.n) {
        (void)fprintf(l->c->out, "\n");
        rc = print_natives(l, err);
    }
    (void)fprintf(l->c->out, "\n");
    return rc < 0 ? rc : each_volume(db, l->c, NULL, err);
}

static int look_at(struct dz_cli *c, struct dz_disk *d, bool top, struct dz_err *err)
{
    static const struct dz_machine_ops none;
    const struct dz_machine_opts opts = {.db = d->db, .ops = &none};
    struct look l = {.c = c, .procs.max = DZ_KERNEL_PROCS_MAX, .fds.max = DZ_KERNEL_FILES_MAX};
    const struct dz_inspect_ops ops = {
        .proc = on_proc, .fd = top ? NULL : on_fd, .thread = top ? NULL : on_thread, .arg = &l};
    const struct dz_linux_inspect_ops native = {
        .thread = on_native, .space = on_space, .file = on_mapped, .arg = &l, .cpu = on_cpu};
    l.cpu = (struct dz_buf)DZ_BUF_INIT(DZ_LINE_MAX);
    l.threads.max = l.natives.max = DZ_KERNEL_THREADS_MAX;
    l.mapped.max = l.spaces.max = DZ_MACHINE_MEMORIES_MAX;
    struct dz_machine *m = NULL;
    int rc = dz_machine_open(&opts, &m, err);
    enum dz_machine_found found = rc == 0 ? dz_machine_found(m) : DZ_MACHINE_NONE;
    if (rc == 0 && found == DZ_MACHINE_ASLEEP)
        rc = dz_machine_inspect(m, &ops, &l.total, err);
    if (rc == 0 && found == DZ_MACHINE_ASLEEP && !top) {
        size_t size;
        const void *bytes = dz_machine_native_bytes(m, &size);
        rc = dz_linux_inspect(bytes, size, &native, err);
    }
    if (rc == 0 && top)
        sort_by_cpu(&l);
    if (rc == 0)
        rc = print(&l, found, d->db, top, err);
    dz_machine_close(m);
    release(&l);
    return rc;
}

static int run(struct dz_cli *c, bool top, struct dz_err *err)
{
    struct dz_disk d;
    int rc = dz_disk_open(c, DZ_DISK_DATA, &d, err);
    if (rc == 0)
        rc = look_at(c, &d, top, err);
    return dz_disk_close(&d, rc, err);
}

static int inspect(struct dz_cli *c, struct dz_err *err)
{
    return run(c, false, err);
}

static int top(struct dz_cli *c, struct dz_err *err)
{
    return run(c, true, err);
}

const struct dz_cli_command dz_cmd_inspect = {
    .name = "inspect",
    .group = DZ_CLI_GROUP_RUN,
    .summary = "show what sleeps in a file, without waking it",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Lists processes, their open files, how much memory the file keeps, and what its\n"
            "volumes hold. MEMORY is the size of a process; KEPT is how much of it differs\n"
            "from its program's image; WAITS counts bytes in a pipe or terminal. The file is\n"
            "read in a jail and is not changed.\n",
    .run = inspect,
    .jail = dz_disk_jail,
};

/* Without a file the daemon provides the data, so nothing needs a jail. */
static int top_of_what(struct dz_cli *c, struct dz_err *err)
{
    return c->argc > 0 ? dz_disk_jail(c, err) : dz_cli_top(c, err);
}

const struct dz_cli_command dz_cmd_top = {
    .name = "top",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "show the sandboxes that are awake, busiest first",
    .args = "[FILE]",
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"interval", 'n', "DURATION", "redraw at this interval (default 2s)"},
            {"count", 'c', "N", "draw this many times, then exit"},
            DZ_CLI_OPTION_IMAGE,
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "Runs until Ctrl-C on a terminal; otherwise prints once, or --count times. CPU\n"
            "is the CPU time of a sandbox's process between two redraws, in per cent of one\n"
            "core.\n\n"
            "Of a FILE, without a daemon: lists the processes that sleep in it, ordered by\n"
            "the CPU time they have used, as `doze inspect` shows them.\n",
    .run = top,
    .jail = top_of_what,
};
