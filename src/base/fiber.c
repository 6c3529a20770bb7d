/* SPDX-License-Identifier: MIT
 *
 * fiber.c - see fiber.h. It uses the C library's contexts, which make only one system call
 * (rt_sigprocmask); the jail allows it. A page below each stack is not mapped.
 */
#include "base/fiber.h"

#include "base/mem.h"

#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

enum {
    STACK_BYTES = 512 << 10,
    GUARD_BYTES = 4096,
};

struct dz_fiber {
    ucontext_t own, caller;
    char *stack;
    void (*fn)(void *arg);
    void *arg;
    bool over;
#ifdef FIBER_ASAN
    void *fake, *caller_fake;
    const void *caller_stack;
    size_t caller_size;
#endif
};

static struct dz_fiber *starting; /* makecontext() passes no pointers */

/* The address sanitizer must be told about each switch of the stack. */
static void leave(struct dz_fiber *f, bool for_ever)
{
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(for_ever ? NULL : &f->fake, f->caller_stack, f->caller_size);
#else
    (void)f, (void)for_ever;
#endif
}

static void entered(struct dz_fiber *f)
{
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(f->fake, &f->caller_stack, &f->caller_size);
#else
    (void)f;
#endif
}

static void body(void)
{
    struct dz_fiber *f = starting;
    entered(f);
    f->fn(f->arg);
    f->over = true;
    leave(f, true);
}

struct dz_fiber *dz_fiber_new(void (*fn)(void *arg), void *arg)
{
    struct dz_fiber *f = dz_zalloc(sizeof *f);
    if (!f)
        return NULL;
    f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED || mprotect(f->stack, GUARD_BYTES, PROT_NONE) < 0 ||
        getcontext(&f->own) < 0) {
        if (f->stack != MAP_FAILED)
            (void)munmap(f->stack, STACK_BYTES);
        dz_free(f);
        return NULL;
    }
    f->fn = fn;
    f->arg = arg;
    f->own.uc_stack.ss_sp = f->stack;
    f->own.uc_stack.ss_size = STACK_BYTES;
    f->own.uc_link = &f->caller;
    makecontext(&f->own, body, 0);
    return f;
}

bool dz_fiber_resume(struct dz_fiber *f)
{
    starting = f;
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&f->caller_fake, f->stack, STACK_BYTES);
#endif
    (void)swapcontext(&f->caller, &f->own);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(f->caller_fake, NULL, NULL);
#endif
    return !f->over;
}

void dz_fiber_yield(struct dz_fiber *f)
{
    leave(f, false);
    (void)swapcontext(&f->own, &f->caller);
    entered(f);
}

void dz_fiber_free(struct dz_fiber *f)
{
    if (!f)
        return;
    (void)munmap(f->stack, STACK_BYTES);
    dz_free(f);
}
