/* SPDX-License-Identifier: MIT
 *
 * kernel_run_wasm.c - the runner of WebAssembly programs: each process is a store with one instance
 * of the engine.
 *
 * A program is a WASI command: its start function if it has one, then "_start"; or
 * a reactor with an entry: "_initialize" if it has one, then "run", whose result is
 * the exit status.
 * Signal handlers are called through the export "__doze_signal" (i32 handler,
 * i32 signal, i32 code); a program without it dies of a signal that it wants to
 * handle. Memory is counted page by page as it is committed, so a memory.grow
 * past the machine's limit fails in the guest as it should; so does a table.grow.
 */
#include "kernel/kernel_wasm.h"

#include "kernel/kernel_int.h"

#include "base/str.h"
#include "wasm/wasm.h"

#include <signal.h>
#include <sys/resource.h>

enum {
    TABLES_FREE = 1 << 20, /* bytes */
};

/* The content of dz_task.own. A vfork child uses its parent's, which is counted for the parent. */
struct own {
    struct dz_task *task; /* whose it is */
    const struct dz_kernel_wasm *with;
    struct dz_wasm_store *store;
    struct dz_wasm_inst *inst;
    void *frames; /* frames of parents whose vfork children run in their instance: the last one's */
    uint64_t charged; /* bytes of memory, counted */
};

static struct own *own_of(const struct dz_task *t)
{
    return t->own;
}

struct dz_wasm_module *dz_kernel_wasm_module(const struct dz_task *t)
{
    return t->runner == &dz_kernel_runner_wasm ? t->program.handle : NULL;
}

struct dz_wasm_inst *dz_kernel_wasm_inst(const struct dz_task *t)
{
    return t->runner == &dz_kernel_runner_wasm ? own_of(t)->inst : NULL;
}

static struct own *own_new(struct dz_task *t, const struct dz_kernel_wasm *with)
{
    struct own *o = dz_zalloc(sizeof *o);
    if (o) {
        o->task = t;
        o->with = with;
    }
    return o;
}

/* ---- memory, counted --------------------------------------------------------------- */

static int mem_reserve(void *ctx, size_t size, void **ret_base, struct dz_err *err)
{
    (void)ctx;
    return dz_wasm_mem_anon.reserve(NULL, size, ret_base, err);
}

static void count(const struct own *o)
{
    struct dz_proc *p = o->task->proc;
    p->mem_bytes = o->charged;
    p->maxrss = p->maxrss > o->charged ? p->maxrss : o->charged;
}

static int charge(struct own *o, uint64_t bytes, struct dz_err *err)
{
    uint64_t most = o->task->proc->rlimit[RLIMIT_AS][0];
    if (o->charged > most || bytes > most - o->charged)
        return dz_fail(err, DZ_ELIMIT, "the process has as much memory as its limit allows");
    if (!dz_k_charge(o->task->kernel, bytes))
        return dz_fail(err, DZ_ELIMIT, "the sandbox's memory is used up");
    o->charged += bytes;
    return 0;
}

static void uncharge(struct own *o, uint64_t bytes)
{
    dz_k_uncharge(o->task->kernel, bytes);
    o->charged -= bytes;
}

static int mem_commit(void *ctx, void *base, size_t old, size_t size, struct dz_err *err)
{
    int rc = charge(ctx, size - old, err);
    if (rc < 0)
        return rc;
    rc = dz_wasm_mem_anon.commit(NULL, base, old, size, err);
    if (rc < 0)
        uncharge(ctx, size - old);
    return rc;
}

/* Programs of ordinary compilers have small tables, no larger than their stack, which is not
 * counted either. */
static int mem_tables(void *ctx, uint64_t old, uint64_t size)
{
    uint64_t had = old > TABLES_FREE ? old - TABLES_FREE : 0;
    uint64_t has = size > TABLES_FREE ? size - TABLES_FREE : 0;
    return has > had ? charge(ctx, has - had, NULL) : 0;
}

static int mem_map_image(void *ctx, void *at, uint32_t index, const uint8_t *image, size_t size,
                         struct dz_err *err)
{
    const struct dz_kernel_wasm *with = ((struct own *)ctx)->with;
    (void)index;
    (void)err;
    if (!with->map_image || !with->map_image(with->arg, at, image, size))
        memcpy(at, image, size);
    return 0;
}

static void mem_release(void *ctx, void *base, size_t size)
{
    (void)ctx; /* unload releases the whole count */
    dz_wasm_mem_anon.release(NULL, base, size);
}

static void mem_keep(void *ctx, void *base, size_t size, size_t committed)
{
    (void)ctx; /* likewise; a kept range belongs to no process */
    dz_wasm_mem_anon.keep(NULL, base, size, committed);
}

static bool mem_reuse(void *ctx, size_t size, void **ret_base, size_t *ret_old)
{
    (void)ctx; /* counted when it is committed */
    return dz_wasm_mem_anon.reuse(NULL, size, ret_base, ret_old);
}

static int mem_clear(void *ctx, void *base, size_t from, size_t to, struct dz_err *err)
{
    (void)ctx;
    return dz_wasm_mem_anon.clear(NULL, base, from, to, err);
}

static const struct dz_wasm_mem_ops counted = {
    .reserve = mem_reserve,
    .commit = mem_commit,
    .map_image = mem_map_image,
    .release = mem_release,
    .tables = mem_tables,
    .keep = mem_keep,
    .reuse = mem_reuse,
    .clear = mem_clear,
};

static struct dz_wasm_config config_for(struct own *o)
{
    return (struct dz_wasm_config){
        .mem_ops = &counted,
        .mem_ctx = o,
        .stack_slots = DZ_KERNEL_STACK_SLOTS,
    };
}

/* ---- the runner ---------------------------------------------------------------------- */

static int errno_of(int rc)
{
    return rc == DZ_ENOMEM || rc == DZ_ELIMIT ? -ENOMEM : -ENOEXEC;
}

static void unload(void *arg, struct dz_task *t)
{
    struct own *o = own_of(t);
    (void)arg;
    dz_wasm_store_free(o->store);
    uncharge(o, o->charged);
    t->proc->mem_bytes = 0;
    dz_free(o);
    t->own = NULL;
}

static int begin_export(const struct own *o, const char *name)
{
    int64_t entry = dz_wasm_export(o->inst, name, DZ_WASM_KIND_FUNC);
    return entry < 0 ? DZ_ENOENT : dz_wasm_begin(o->inst, (uint32_t)entry, NULL, 0, NULL);
}

/* Begin the entry after the start function; *ret_flags: the new stage of the process. */
static int begin_entry(const struct own *o, uint32_t *ret_flags)
{
    *ret_flags = 0;
    int rc = begin_export(o, "_start");
    if (rc != DZ_ENOENT)
        return rc;
    *ret_flags = DZ_PROC_INITIALIZING;
    rc = begin_export(o, "_initialize");
    if (rc != DZ_ENOENT)
        return rc;
    *ret_flags = 0;
    return begin_export(o, "run");
}

/* Does it import WASI's functions on files, and nothing of doze's own? */
static bool is_plain(const struct dz_wasm_module *m)
{
    bool preopens = false;
    for (uint32_t i = 0; i < m->n_imports; i++) {
        const struct dz_wasm_import *im = &m->imports[i];
        struct dz_str module = dz_str_n((const char *)m->wasm + im->module.offset, im->module.size);
        struct dz_str name = dz_str_n((const char *)m->wasm + im->name.offset, im->name.size);
        if (dz_str_eqz(module, "doze"))
            return false;
        preopens = preopens || dz_str_eqz(name, "fd_prestat_get");
    }
    return preopens;
}

static int load(void *arg, struct dz_task *t, const struct dz_load *from)
{
    struct own *o = own_new(t, arg);
    if (!o)
        return -ENOMEM;
    t->own = o;
    struct dz_wasm_config cfg = config_for(o);
    uint64_t before = t->proc->mem_bytes;
    int rc = dz_wasm_store_new(&cfg, &o->store, NULL);
    if (!rc)
        rc = dz_wasm_instantiate(o->store, t->program.handle,
                                 &(struct dz_wasm_imports){o->with->host, o->with->host_count, t},
                                 &o->inst, &t->kernel->why);
    if (!rc) {
        t->plain = is_plain(t->program.handle);
        rc = dz_wasm_begin_start(o->inst, NULL);
        t->starting = rc == 1 ? DZ_PROC_STARTING : 0;
        rc = rc == 1 ? 0 : rc == 0 ? begin_entry(o, &t->starting) : rc;
    }
    if (rc) {
        unload(arg, t);
        t->proc->mem_bytes = before;
        return errno_of(rc);
    }
    if (!from)
        dz_wasm_abandon(o->store); /* the caller restores another position than the start */
    return 0;
}

static int signal_of(enum dz_wasm_trap_kind kind)
{
    switch ((int)kind) {
    case DZ_WASM_TRAP_DIV_ZERO:
    case DZ_WASM_TRAP_INT_OVERFLOW:
    case DZ_WASM_TRAP_BAD_CONVERSION:
        return SIGFPE;
    case DZ_WASM_TRAP_UNREACHABLE:
    case DZ_WASM_TRAP_BAD_SIGNATURE:
        return SIGILL;
    case DZ_WASM_TRAP_NOMEM:
    case DZ_WASM_TRAP_CODE_LIMIT:
        return SIGKILL;
    default:
        return SIGSEGV;
    }
}

/* The current stage is over: begin the next. 1: it has begun; 0: that was the entry. */
static int begin_next(struct dz_task *t)
{
    struct dz_proc *p = t->proc;
    uint32_t at = p->flags & (DZ_PROC_STARTING | DZ_PROC_INITIALIZING), next = 0;
    if (!at)
        return 0;
    int rc =
        at == DZ_PROC_STARTING ? begin_entry(own_of(t), &next) : begin_export(own_of(t), "run");
    p->flags = (p->flags & ~at) | next;
    return rc == 0 ? 1 : rc;
}

/* Keep the result of the entry as exit status; "_start" returns nothing. */
static void keep_status(struct dz_task *t)
{
    const struct own *o = own_of(t);
    uint32_t params, results = 0;
    int64_t entry = dz_wasm_export(o->inst, "run", DZ_WASM_KIND_FUNC);
    if (entry >= 0 && dz_wasm_export(o->inst, "_start", DZ_WASM_KIND_FUNC) < 0)
        (void)dz_wasm_func_slots(o->inst, (uint32_t)entry, &params, &results);
    t->proc->exit_code = results ? (int32_t)(dz_wasm_results(o->store)[0] & 0xff) : 0;
}

static enum dz_run_stop run(void *arg, struct dz_task *t, int *ret_signal)
{
    const struct own *o = own_of(t);
    int next;
    (void)arg;
    for (;;) {
        enum dz_wasm_stop stop = dz_wasm_run(o->store);
        if (!t->borrowed)
            count(o);
        switch (stop) {
        case DZ_WASM_DONE:
            next = begin_next(t);
            if (next > 0)
                continue;
            if (next == 0) {
                keep_status(t);
                return DZ_RUN_DONE;
            }
            t->trap = DZ_WASM_TRAP_UNREACHABLE;
            *ret_signal = SIGILL;
            return DZ_RUN_TRAPPED;
        case DZ_WASM_EXITED:
            return DZ_RUN_EXITED;
        case DZ_WASM_BLOCKED:
            return DZ_RUN_BLOCKED;
        case DZ_WASM_INTERRUPTED:
        case DZ_WASM_OUT_OF_FUEL:
            return DZ_RUN_READY;
        case DZ_WASM_TRAPPED:
            t->trap = dz_wasm_trap_get(o->store).kind;
            *ret_signal = signal_of(t->trap);
            return DZ_RUN_TRAPPED;
        case DZ_WASM_UNCAUGHT:
            t->trap = DZ_WASM_TRAP_NONE;
            *ret_signal = SIGABRT;
            return DZ_RUN_TRAPPED;
        }
    }
}

static int copy(void *arg, struct dz_task *from, struct dz_task *to, const struct dz_clone *how)
{
    struct own *o = own_new(to, arg);
    assert(!how); /* it does not copy at once */
    if (!o)
        return -ENOMEM;
    struct dz_wasm_config cfg = config_for(o);
    struct dz_wasm_copy with = {
        .cfg = &cfg, .host = o->with->host, .host_count = o->with->host_count, .user = to};
    int rc = dz_wasm_copy(own_of(from)->inst, &with, &o->inst, NULL);
    if (rc) {
        uncharge(o, o->charged);
        dz_free(o);
        return rc == DZ_ENOMEM || rc == DZ_ELIMIT ? -ENOMEM : -EAGAIN;
    }
    o->store = dz_wasm_inst_store(o->inst);
    to->own = o;
    count(o);
    return 0;
}

static int inject(void *arg, struct dz_task *t, const struct dz_inject *h)
{
    struct dz_wasm_inst *inst = own_of(t)->inst;
    uint64_t args[3] = {(uint32_t)h->act->handler, (uint32_t)h->info->signo,
                        (uint32_t)h->info->code};
    int64_t entry = dz_wasm_export(inst, "__doze_signal", DZ_WASM_KIND_FUNC);
    (void)arg;
    if (entry < 0)
        return -ENOSYS;
    return dz_wasm_inject(inst, (uint32_t)entry, args, 3, NULL) == 0 ? 0 : -ENOMEM;
}

static uint32_t injected(void *arg, struct dz_task *t)
{
    (void)arg;
    return dz_wasm_injected(own_of(t)->inst);
}

static int frames_save(void *arg, struct dz_task *t)
{
    struct dz_wasm_frames *f;
    (void)arg;
    int rc = dz_wasm_frames_save(own_of(t)->inst, &f, NULL);
    if (rc)
        return rc == DZ_ENOMEM ? -ENOMEM : -ENOSYS; /* vfork then copies, like fork */
    own_of(t)->frames = f;
    return 0;
}

static void frames_restore(void *arg, struct dz_task *t)
{
    struct own *o = own_of(t);
    (void)arg;
    o->frames = dz_wasm_frames_restore(o->inst, o->frames);
}

static int jump(void *arg, struct dz_task *t, const uint64_t token[2], uint64_t value)
{
    (void)arg;
    return dz_wasm_jump(own_of(t)->inst, token, value, NULL) == 0 ? 0 : -EINVAL;
}

static void set_task(void *arg, struct dz_task *t)
{
    (void)arg;
    dz_wasm_inst_set_user(own_of(t)->inst, t);
}

static void interrupt(void *arg, struct dz_task *t)
{
    (void)arg;
    dz_wasm_interrupt(own_of(t)->store);
}

const struct dz_kernel_runner dz_kernel_runner_wasm = {
    .load = load,
    .unload = unload,
    .run = run,
    .copy = copy,
    .inject = inject,
    .injected = injected,
    .frames_save = frames_save,
    .frames_restore = frames_restore,
    .jump = jump,
    .set_task = set_task,
    .interrupt = interrupt,
};
