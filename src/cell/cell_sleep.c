/* SPDX-License-Identifier: MIT
 *
 * cell_sleep.c - the cell's part in suspending and waking its machine: finding dirty pages
 * (os/os_dirty.h), native programs (linux/linux_sleep.h), finding programs, and saving input that
 * is in flight. machine/ does the rest.
 */
#include "cell/cell_sleep.h"

#include "base/hash.h"
#include "base/mem.h"
#include "db/db.h"
#include "linux/linux_run.h"
#include "linux/linux_sleep.h"
#include "machine/machine.h"
#include "os/os_fault.h"
#include "vfs/vfs.h"

#include <string.h>

/* --- dirty pages ---------------------------------------------------------------------- */

_Static_assert(sizeof(struct dz_machine_run) == sizeof(struct dz_os_run) &&
                   offsetof(struct dz_machine_run, size) == offsetof(struct dz_os_run, size),
               "runs are passed on unchanged");

static struct dz_os_dirty_range range_of(const struct dz_machine_range *r)
{
    return (struct dz_os_dirty_range){.at = r->at,
                                      .size = r->size,
                                      .image = r->image,
                                      .image_at = r->image_at,
                                      .image_size = r->image_size};
}

typedef int ask_fn(struct dz_os_dirty *d, const struct dz_os_dirty_range *r,
                   struct dz_os_runs *runs, struct dz_err *err);

static int ask(ask_fn *fn, const struct dz_cell_machine *m, const struct dz_machine_range *r,
               struct dz_machine_runs *runs, struct dz_err *err)
{
    struct dz_os_dirty_range range = range_of(r);
    struct dz_os_runs found = DZ_VEC_INIT(runs->max);
    int rc = fn(m->dirty, &range, &found, err);
    for (size_t i = 0; rc == 0 && i < found.n; i++)
        dz_vec_push(runs, ((struct dz_machine_run){found.p[i].at, found.p[i].size}));
    dz_vec_release(&found);
    return rc;
}

static int on_differs(void *arg, const struct dz_machine_range *r, struct dz_machine_runs *runs,
                      struct dz_err *err)
{
    return ask(dz_os_dirty_differs, arg, r, runs, err);
}

static int on_written(void *arg, const struct dz_machine_range *r, struct dz_machine_runs *runs,
                      struct dz_err *err)
{
    return ask(dz_os_dirty_written, arg, r, runs, err);
}

static int on_mark(void *arg, const struct dz_machine_range *r, struct dz_err *err)
{
    const struct dz_cell_machine *m = arg;
    struct dz_os_dirty_range range = range_of(r);
    return dz_os_dirty_mark(m->dirty, &range, err);
}

static void on_unmark(void *arg, const void *at)
{
    dz_os_dirty_unmark(((struct dz_cell_machine *)arg)->dirty, at);
}

/* --- memory on demand ----------------------------------------------------------------- */

static int on_missing(void *arg, void *at, size_t size, struct dz_err *err)
{
    return dz_os_dirty_absent(((struct dz_cell_machine *)arg)->dirty, at, size, err);
}

static int on_fill(void *arg, void *at, const uint8_t *bytes, size_t size, struct dz_err *err)
{
    return dz_os_dirty_fill(((struct dz_cell_machine *)arg)->dirty, at, bytes, size, err);
}

static bool on_touched(void *arg, void *at)
{
    return dz_machine_touched(arg, at);
}

static int on_watch(void *arg, struct dz_machine *m, struct dz_err *err)
{
    (void)arg;
    return dz_os_fault_catch(m ? on_touched : NULL, m, err);
}

/* --- programs -------------------------------------------------------------------------- */

static int on_module_get(void *arg, const struct dz_machine_program *program,
                         struct dz_wasm_module **ret_module, struct dz_err *err)
{
    return dz_modules_thaw(((struct dz_cell_machine *)arg)->modules, program, ret_module, err);
}

static void on_module_put(void *arg, struct dz_wasm_module *module)
{
    dz_modules_put(((struct dz_cell_machine *)arg)->modules, module);
}

static uint64_t on_module_ino(void *arg, const struct dz_wasm_module *module)
{
    return dz_modules_ino(((struct dz_cell_machine *)arg)->modules, module);
}

static const uint8_t *on_base_get(void *arg, size_t *ret_size)
{
    const struct dz_cell_machine *m = arg;
    uint8_t sha256[DZ_SHA256_BYTES];
    if (!m->image_sha256 || dz_sha256_parse(dz_str(m->image_sha256), sha256, NULL) < 0)
        return NULL;
    return dz_modules_base(m->modules, sha256, ret_size);
}

static bool on_base_map(void *arg, void *at, const uint8_t *part, size_t size)
{
    return dz_modules_map(((struct dz_cell_machine *)arg)->modules, at, part, size);
}

/* --- native programs ------------------------------------------------------------------- */

_Static_assert((int)DZ_MACHINE_PRIVATE == (int)DZ_LINUX_PRIVATE &&
                   (int)DZ_MACHINE_OBJECT == (int)DZ_LINUX_OBJECT &&
                   sizeof(struct dz_machine_pages) == sizeof(struct dz_linux_pages) &&
                   offsetof(struct dz_machine_pages, zeros) ==
                       offsetof(struct dz_linux_pages, zeros),
               "memories and pages are passed on unchanged");

static struct dz_linux *runner_of(void *arg)
{
    return ((struct dz_cell_machine *)arg)->native->runner;
}

static struct dz_linux_memory memory_of(const struct dz_machine_memory *mem)
{
    return (struct dz_linux_memory){(enum dz_linux_memory_kind)mem->kind, mem->id};
}

static int native_hold(void *arg, struct dz_err *err)
{
    return dz_linux_hold(runner_of(arg), err);
}

static void native_release(void *arg)
{
    dz_linux_release(runner_of(arg));
}

static int native_save(void *arg, struct dz_kernel *k, struct dz_buf *to, struct dz_err *err)
{
    return dz_linux_save(runner_of(arg), k, to, err);
}

static int native_restore(void *arg, struct dz_kernel *k, const void *bytes, size_t size,
                          struct dz_err *err)
{
    return dz_linux_restore(runner_of(arg), k, bytes, size, err);
}

struct each {
    int (*fn)(void *arg, const struct dz_machine_memory *mem, struct dz_err *err);
    void *arg;
};

static int each_memory(void *arg, const struct dz_linux_memory *mem, struct dz_err *err)
{
    const struct each *e = arg;
    const struct dz_machine_memory it = {(enum dz_machine_memory_kind)mem->kind, mem->id};
    return e->fn(e->arg, &it, err);
}

static int native_each(void *arg,
                       int (*fn)(void *fn_arg, const struct dz_machine_memory *mem,
                                 struct dz_err *err),
                       void *fn_arg, struct dz_err *err)
{
    struct each e = {fn, fn_arg};
    return dz_linux_memories(runner_of(arg), each_memory, &e, err);
}

static void copy_pages(const struct dz_linux_pages_list *from, struct dz_machine_pages_list *to)
{
    for (size_t i = 0; i < from->n; i++)
        dz_vec_push(
            to, ((struct dz_machine_pages){from->p[i].first, from->p[i].count, from->p[i].zeros}));
}

static int native_changed(void *arg, const struct dz_machine_memory *mem,
                          struct dz_machine_pages_list *ret_own,
                          struct dz_machine_pages_list *ret_written,
                          struct dz_machine_pages_list *ret_absent, struct dz_err *err)
{
    const struct dz_linux_memory it = memory_of(mem);
    struct dz_linux_pages_list own = DZ_VEC_INIT(DZ_LINUX_PAGES_MAX);
    struct dz_linux_pages_list absent = DZ_VEC_INIT(DZ_LINUX_PAGES_MAX);
    int rc = dz_linux_changed(runner_of(arg), &it, &own, &absent, err);
    if (rc == 0) {
        copy_pages(&own, ret_own);
        copy_pages(&own, ret_written);
        copy_pages(&absent, ret_absent);
    }
    dz_vec_release(&own);
    dz_vec_release(&absent);
    return rc;
}

static int native_read(void *arg, const struct dz_machine_memory *mem,
                       const struct dz_machine_pages *pages, size_t n, uint8_t *ret_bytes,
                       struct dz_err *err)
{
    const struct dz_linux_memory it = memory_of(mem);
    return dz_linux_read(runner_of(arg), &it, (const void *)pages, n, ret_bytes, err);
}

static int native_write(void *arg, const struct dz_machine_memory *mem,
                        const struct dz_machine_pages *pages, size_t n, const uint8_t *bytes,
                        struct dz_err *err)
{
    const struct dz_linux_memory it = memory_of(mem);
    return dz_linux_write(runner_of(arg), &it, (const void *)pages, n, bytes, err);
}

static int native_fill(void *arg, const struct dz_linux_memory *mem, uint64_t first, uint64_t count)
{
    const struct dz_machine_memory it = {(enum dz_machine_memory_kind)mem->kind, mem->id};
    return dz_machine_need(((struct dz_cell_machine *)arg)->keep, &it, first, count, NULL);
}

static int native_leave(void *arg, const struct dz_machine_memory *mem,
                        const struct dz_machine_pages *pages, size_t n, struct dz_err *err)
{
    const struct dz_linux_memory it = memory_of(mem);
    const struct dz_linux_filler filler = {native_fill, arg};
    return dz_linux_leave(runner_of(arg), &it, (const void *)pages, n, &filler, err);
}

static int native_ready(void *arg, const struct dz_machine_memory *mem,
                        const struct dz_machine_pages *pages, size_t n, struct dz_err *err)
{
    const struct dz_linux_memory it = memory_of(mem);
    return dz_linux_ready_pages(runner_of(arg), &it, (const void *)pages, n, err);
}

/* --- finding --------------------------------------------------------------------------- */

static int allowed(enum dz_machine_found found, const struct dz_started *s, struct dz_err *err)
{
    bool only = s->asleep == DZ_CELL_WAKE_ONLY;
    if (only && found == DZ_MACHINE_NONE)
        return dz_fail(err, DZ_ESTATE,
                       "no machine sleeps in the file; `doze run --file` starts one");
    if (only && found == DZ_MACHINE_LOST)
        return dz_fail(
            err, DZ_ESTATE,
            "memory_lost: the machine ran and was never suspended, so only its files are left; `doze run --file` starts with them");
    if (s->asleep == DZ_CELL_BEGIN && found == DZ_MACHINE_ASLEEP)
        return dz_fail(
            err, DZ_ESTATE,
            "a machine sleeps in the file; `doze resume` resumes it, --drop-memory keeps only its files");
    return 0;
}

int dz_cell_sleep_open(struct dz_cell_machine *m, const struct dz_started *start,
                       struct dz_err *err)
{
    struct dz_os_dirty *dirty = m->dirty;
    /* Use marks only if the host's kernel finds written pages by a scan. Otherwise each mark would
     * cost a copy of all memory, so pages are compared with the file. */
    bool scan = dirty && dz_os_dirty_written_how(dirty) == DZ_OS_DIRTY_SCAN;
    bool need = dirty && dz_os_dirty_by_need(dirty);
    m->keep_ops = (struct dz_machine_ops){.module_get = on_module_get,
                                          .module_put = on_module_put,
                                          .module_ino = on_module_ino,
                                          .differs = dirty ? on_differs : NULL,
                                          .written = scan ? on_written : NULL,
                                          .mark = scan ? on_mark : NULL,
                                          .unmark = scan ? on_unmark : NULL,
                                          .make_missing = need ? on_missing : NULL,
                                          .fill = need ? on_fill : NULL,
                                          .watch = need ? on_watch : NULL,
                                          .base_get = on_base_get,
                                          .base_map = on_base_map,
                                          .native = m->native ? &m->keep_native : NULL,
                                          .arg = m};
    m->keep_native = (struct dz_machine_native){.hold = native_hold,
                                                .release = native_release,
                                                .save = native_save,
                                                .restore = native_restore,
                                                .each = native_each,
                                                .changed = native_changed,
                                                .read = native_read,
                                                .write = native_write,
                                                .leave = native_leave,
                                                .ready = native_ready,
                                                .arg = m};
    const struct dz_machine_opts opts = {.db = m->db,
                                         .image = m->image,
                                         .ops = &m->keep_ops,
                                         .to_drop = start->asleep == DZ_CELL_DROP};
    int rc = dz_machine_open(&opts, &m->keep, err);
    if (rc < 0)
        return rc;
    m->lost = dz_machine_found(m->keep) == DZ_MACHINE_LOST;
    if (dz_machine_of_image(m->keep) && start->asleep == DZ_CELL_BEGIN)
        return 0; /* the image's machine stays asleep, because a new one starts over the same image
                   */
    return allowed(dz_machine_found(m->keep), start, err);
}

/* --- waking, sleeping --------------------------------------------------------------------- */

/* The head of each command's saved input; the bytes follow. tag: the command's number << 2. One
 * item with the tag MAIN_SENT has a u64 instead: how many bytes of the main command's output were
 * sent to hosts. */
struct saved_input {
    uint32_t tag, eof;
    uint64_t size;
};
enum {
    MAIN_SENT = DZ_CELL_STDOUT, /* the tag of the main command's output */
};

static struct dz_cell_input *find_input(const struct dz_cell_inputs *in, uint32_t number)
{
    for (size_t i = 0; i < in->count; i++)
        if (in->of[i].number == number)
            return in->of[i].in;
    return NULL;
}

static int read_inputs(struct dz_cell_inputs *in, const uint8_t *at, size_t left,
                       struct dz_err *err)
{
    while (left > 0) {
        struct saved_input h;
        if (left < sizeof h)
            break;
        memcpy(&h, at, sizeof h);
        at += sizeof h;
        left -= sizeof h;
        if (h.size > left || h.size > DZ_CELL_WINDOW)
            break;
        struct dz_cell_input *to = find_input(in, h.tag >> 2);
        if (h.tag == MAIN_SENT && h.size == sizeof in->main_sent) {
            memcpy(&in->main_sent, at, sizeof in->main_sent);
        } else if (to) {
            memcpy(to->bytes, at, (size_t)h.size);
            to->head = 0;
            to->len = (size_t)h.size;
            to->eof = h.eof != 0;
        }
        at += h.size;
        left -= (size_t)h.size;
    }
    return left ? dz_fail(err, DZ_ECORRUPT, "the machine in the file is damaged: its saved input")
                : 0;
}

int dz_cell_sleep_wake(struct dz_cell_machine *m, struct dz_cell_inputs *in, struct dz_err *err)
{
    size_t size;
    const uint8_t *bytes = dz_machine_host_bytes(m->keep, &size);
    int rc = read_inputs(in, bytes, size, err);
    if (rc == 0)
        rc = dz_machine_wake(m->keep, m->kernel, m->vfs, err);
    if (rc == 0)
        rc = dz_vfs_reap(m->vfs, err);
    return rc;
}

static void put_input(struct dz_buf *b, uint32_t number, const struct dz_cell_input *in)
{
    struct saved_input h = {.tag = number << 2, .eof = in->eof, .size = in->len};
    size_t first = sizeof in->bytes - in->head;
    first = first < in->len ? first : in->len;
    dz_buf_add(b, &h, sizeof h);
    dz_buf_add(b, in->bytes + in->head, first);
    dz_buf_add(b, in->bytes, in->len - first);
}

int dz_cell_sleep_write(struct dz_cell_machine *m, const struct dz_cell_inputs *in, bool goes_on,
                        int64_t *ret_wake_at, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf host = DZ_BUF_INIT(DZ_MACHINE_HOST_MAX);
    for (size_t i = 0; i < in->count; i++)
        if (in->of[i].in->len || in->of[i].in->eof)
            put_input(&host, in->of[i].number, in->of[i].in);
    if (in->main_sent) {
        struct saved_input h = {.tag = MAIN_SENT, .size = sizeof in->main_sent};
        dz_buf_add(&host, &h, sizeof h);
        dz_buf_add(&host, &in->main_sent, sizeof in->main_sent);
    }
    if (host.err)
        return dz_fail(err, host.err, "suspend the machine: out of memory");
    const struct dz_machine_how how = {
        .policy = m->policy, .host_bytes = host.p, .host_size = host.len, .goes_on = goes_on};
    int rc = dz_machine_sleep(m->keep, m->kernel, m->vfs, &how, err);
    *ret_wake_at = dz_machine_wake_at(m->keep);
    return rc;
}

void dz_cell_sleep_end(struct dz_cell_machine *m)
{
    dz_vfs_abandon(
        m->vfs); /* not closed, because that would remove files that processes have open */
    m->vfs = NULL;
    dz_machine_tidy(m->keep);
    (void)dz_cell_sleep_close(m, NULL); /* an error loses nothing, because the WAL has everything */
    if (m->native) /* the processes are held, and end before another cell opens the file's machine
                    */
        m->native->stub->ops->close(m->native->stub);
}

int dz_cell_sleep_close(struct dz_cell_machine *m, struct dz_err *err)
{
    dz_vfs_abandon(m->vfs);
    m->vfs = NULL;
    dz_machine_close(m->keep);
    m->keep = NULL;
    int rc = dz_db_close(m->db, false, err);
    m->db = NULL;
    return rc;
}

int dz_cell_sleep_leave(struct dz_cell_machine *m, struct dz_err *err)
{
    int rc = dz_vfs_quiesce(m->vfs, NULL, NULL, err);
    return rc < 0 ? rc : dz_cell_sleep_close(m, err);
}
