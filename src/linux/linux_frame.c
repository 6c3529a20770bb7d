/* SPDX-License-Identifier: MIT
 *
 * linux_frame.c - signal frames of x86-64, as Linux makes and reads them. From high to low:
 *
 *     sp of the program, less its red zone; or the end of the alternate stack
 *                xstate: FXSAVE with sw_reserved, XSAVE header, components, FP_XSTATE_MAGIC2
 *     frame+440  (a multiple of 64 above)
 *     frame+312  siginfo_t                    rsi
 *     frame+8    struct ucontext              rdx
 *     frame      address of the restorer      rsp
 *
 * The frame is where rsp is after a call: 8 less than a multiple of 16. Segment registers are
 * written as they always are, and never read: guests have one code segment.
 *
 * A handler begins with extended registers in their initial state. On return, the registers in a
 * frame pass all the checks of XRSTOR and are converted to the layout of this host.
 */
#include "linux/linux_frame.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000u
#endif
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

enum {
    RED_ZONE = 128,
    XSTATE_ALIGN = 64,
    FXSAVE_ALIGN = 16,
    FLAG_TF = 1 << 8,
    FLAG_DF = 1 << 10,
    FLAG_RF = 1 << 16,
    USER_CS = 0x33,
    USER_SS = 0x2b,
    /* uc_flags: extended registers are present; ss is present and used as it is */
    UC_FLAGS = 1 | 2 | 4,
};

/* The kernel's struct ucontext, between the restorer and siginfo_t. */
struct frame {
    uint64_t restorer;
    uint64_t uc_flags, uc_link;
    uint64_t stack_at;
    uint32_t stack_flags, stack_pad;
    uint64_t stack_size;
    uint64_t regs[18]; /* r8 to rip, rflags: the beginning of struct dz_stub_regs */
    uint16_t cs, gs, fs, ss;
    uint64_t error, trap, old_mask, address;
    uint64_t fpstate, reserved[8];
    uint64_t mask;
    uint8_t info[DZ_LINUX_SIGINFO];
};
_Static_assert(sizeof(struct frame) == DZ_LINUX_FRAME, "the ABI's");
_Static_assert(offsetof(struct frame, info) == 312 && offsetof(struct frame, cs) == 192,
               "the ABI's");
_Static_assert(offsetof(struct dz_stub_regs, fs_base) == 18 * 8, "registers as in sigcontext");

/* Offsets in an xstate. */
enum {
    XSTATE_FCW = 0,
    XSTATE_MXCSR = 24,
    XSTATE_MXCSR_MASK = 28,
    XSTATE_SW = 464, /* sw_reserved: struct said */
    XSTATE_FXSAVE = 512,
    XSTATE_HEADER = 512, /* xstate_bv, xcomp_bv, and 8 bytes that must be 0 */
    XSTATE_MIN = 512 + 64,
    FEATURE_SSE = 2,
    FEATURES_FXSAVE = 3, /* x87, SSE */
    FEATURES_MXCSR = 6,  /* SSE, AVX: loading either also loads MXCSR */
    MXCSR_MASK = 0xffbf, /* of a processor that reports none */
};

/* sw_reserved: a frame's description of its xstate. */
struct said {
    uint32_t magic1, extended_size;
    uint64_t xfeatures;
    uint32_t xstate_size, reserved[7];
};
_Static_assert(sizeof(struct said) == XSTATE_FXSAVE - XSTATE_SW, "the ABI's");
#define MAGIC1 UINT32_C(0x46505853)
#define MAGIC2 UINT32_C(0x46505845)

/* ---- siginfo ------------------------------------------------------------------------ */

enum layout {
    LAYOUT_SENDER, /* pid, uid */
    LAYOUT_VALUE,  /* and a value */
    LAYOUT_CHILD,  /* and a status */
    LAYOUT_FAULT,  /* address */
    LAYOUT_POLL,   /* band, descriptor */
    LAYOUT_SYS,    /* address of the call, its number, AUDIT_ARCH_* */
};
/* Codes from 1 up to a maximum belong to their signal, those below 0 to all signals. */
static enum layout layout_of(const struct dz_siginfo *i)
{
    static const struct {
        int signo, codes;
        enum layout layout;
    } own[] = {
        {SIGILL, 11, LAYOUT_FAULT}, {SIGFPE, 15, LAYOUT_FAULT}, {SIGSEGV, 10, LAYOUT_FAULT},
        {SIGBUS, 5, LAYOUT_FAULT},  {SIGTRAP, 6, LAYOUT_FAULT}, {SIGCHLD, 6, LAYOUT_CHILD},
        {SIGPOLL, 6, LAYOUT_POLL},  {SIGSYS, 2, LAYOUT_SYS},
    };
    if (i->code < 0)
        return i->code == SI_SIGIO ? LAYOUT_POLL : LAYOUT_VALUE;
    for (size_t n = 0; n < DZ_ARRAY_LEN(own); n++)
        if (own[n].signo == i->signo && i->code > 0 && i->code <= own[n].codes)
            return own[n].layout;
    return i->code > 0 && i->code <= 6 ? LAYOUT_POLL : LAYOUT_SENDER;
}

/* Three ints, and from byte 16 on the data of the signal. */
void dz_linux_siginfo_put(const struct dz_siginfo *info, uint8_t out[DZ_LINUX_SIGINFO])
{
    const enum layout layout = layout_of(info);
    memset(out, 0, DZ_LINUX_SIGINFO);
    memcpy(out, &info->signo, 4);
    memcpy(out + 8, &info->code, 4);
    if (layout == LAYOUT_FAULT || layout == LAYOUT_POLL || layout == LAYOUT_SYS) {
        memcpy(out + 16, &info->addr, 8); /* also the band */
    } else {
        memcpy(out + 16, &info->pid, 4);
        memcpy(out + 20, &info->uid, 4);
    }
    if (layout == LAYOUT_VALUE)
        memcpy(out + 24, &info->value, 8);
    else if (layout != LAYOUT_FAULT && layout != LAYOUT_SENDER)
        memcpy(out + 24, &info->status, 4); /* also descriptor, call */
    if (layout == LAYOUT_SYS)
        memcpy(out + 28, &info->value, 4);
}

/* ---- making one ------------------------------------------------------------------------ */

static bool on_stack(const struct dz_thread *t, uint64_t sp)
{
    return sp > t->alt_stack && sp - t->alt_stack <= t->alt_size;
}

/* Addresses of the frame and of its xstate; -EFAULT: the alternate stack has no room. */
static int place(const struct dz_linux_frame *f, const struct dz_thread *t, bool wants_alt,
                 uint64_t *ret_at, uint64_t *ret_xstate)
{
    const bool disarms = (t->alt_flags & SS_AUTODISARM) != 0; /* then a thread is never "on" it */
    const bool nested = !disarms && on_stack(t, f->regs->rsp);
    uint64_t sp = f->regs->rsp - RED_ZONE;
    const bool enters = wants_alt && t->alt_size > 0 && (disarms || !on_stack(t, sp));
    if (enters)
        sp = t->alt_stack + t->alt_size;
    const uint64_t xstate = (sp - f->xstate_size) & ~(uint64_t)(XSTATE_ALIGN - 1);
    const uint64_t at = ((xstate - sizeof(struct frame)) & ~UINT64_C(15)) - 8;
    if ((nested || enters) && !on_stack(t, at))
        return -EFAULT;
    *ret_at = at;
    *ret_xstate = xstate;
    return 0;
}

/* The initial state of a handler; the description of the layout stays. */
static void xstate_begin(uint8_t *x, size_t size)
{
    static const uint16_t fcw = 0x37f;
    static const uint32_t mxcsr = 0x1f80;
    uint32_t mask;
    memcpy(&mask, x + XSTATE_MXCSR_MASK, sizeof mask);
    memset(x, 0, XSTATE_SW);
    memset(x + XSTATE_FXSAVE, 0, size - sizeof(uint32_t) - XSTATE_FXSAVE);
    memcpy(x + XSTATE_FCW, &fcw, sizeof fcw);
    memcpy(x + XSTATE_MXCSR, &mxcsr, sizeof mxcsr);
    memcpy(x + XSTATE_MXCSR_MASK, &mask, sizeof mask);
}

static bool write_all(const struct dz_linux_mem *m, uint64_t at, const void *from, size_t n)
{
    return at <= UINT64_MAX - n && m->write(m->arg, at, from, n) == n;
}

int dz_linux_frame_push(const struct dz_linux_frame *f, struct dz_thread *thread,
                        const struct dz_linux_trap *trap, const struct dz_inject *h)
{
    assert(f->xstate_size >= XSTATE_MIN + sizeof(uint32_t));
    struct dz_stub_regs *r = f->regs;
    uint64_t at, xstate;
    if (!(h->act->flags & SA_RESTORER) ||
        place(f, thread, (h->act->flags & SA_ONSTACK) != 0, &at, &xstate) < 0)
        return -EFAULT;
    struct frame frame = {
        .restorer = h->act->restorer,
        .uc_flags = UC_FLAGS,
        .stack_at = thread->alt_stack,
        .stack_flags = thread->alt_flags | (thread->alt_size ? 0 : SS_DISABLE),
        .stack_size = thread->alt_size,
        .cs = USER_CS,
        .ss = USER_SS,
        .error = trap->error,
        .trap = trap->number,
        .old_mask = h->mask,
        .address = trap->address,
        .fpstate = xstate,
        .mask = h->mask,
    };
    struct dz_stub_regs seen = *r;
    if (h->in_call && h->again)
        seen.rip -= 2; /* of the call instruction; rax has its number */
    else if (h->in_call)
        seen.rax = (uint64_t)h->result;
    memcpy(frame.regs, &seen, sizeof frame.regs);
    size_t size = offsetof(struct frame, info);
    if (h->act->flags & SA_SIGINFO) {
        dz_linux_siginfo_put(h->info, frame.info);
        size = sizeof frame;
    }
    if (!write_all(f->mem, xstate, f->xstate, f->xstate_size) ||
        !write_all(f->mem, at, &frame, size))
        return -EFAULT;
    r->rip = h->act->handler;
    r->rsp = at;
    r->rdi = (uint64_t)h->info->signo;
    r->rsi = at + offsetof(struct frame, info);
    r->rdx = at + offsetof(struct frame, uc_flags);
    r->rax = 0;
    r->rflags &= ~(uint64_t)(FLAG_DF | FLAG_RF | FLAG_TF);
    xstate_begin(f->xstate, f->xstate_size);
    if (thread->alt_flags & SS_AUTODISARM)
        thread->alt_stack = thread->alt_size = thread->alt_flags = 0;
    return 0;
}

/* ---- reading one ------------------------------------------------------------------------ */

/* Read sw_reserved of the state at `at`. Without extended_size the state is FXSAVE's 512 bytes. */
static int xstate_kind(const struct dz_linux_frame *f, uint64_t at, struct said *ret_sw)
{
    struct said sw, ours;
    uint32_t magic;
    const struct dz_linux_mem *m = f->mem;
    memcpy(&ours, f->xstate + XSTATE_SW, sizeof ours);
    if (m->read(m->arg, at + XSTATE_SW, &sw, sizeof sw) != sizeof sw)
        return -EFAULT;
    bool extended = sw.magic1 == MAGIC1 && ours.magic1 == MAGIC1 && sw.xstate_size >= XSTATE_MIN &&
                    sw.xstate_size <= f->xstate_size - sizeof magic &&
                    sw.xstate_size <= sw.extended_size;
    if (extended) {
        if (m->read(m->arg, at + sw.xstate_size, &magic, sizeof magic) != sizeof magic)
            return -EFAULT;
        extended = magic == MAGIC2;
    }
    if (!extended)
        sw = (struct said){.xstate_size = XSTATE_FXSAVE, .xfeatures = FEATURES_FXSAVE};
    *ret_sw = sw;
    return 0;
}

/* Read the xstate at `at` into x, which is in the initial state. */
static int xstate_read(const struct dz_linux_frame *f, uint64_t at, uint8_t *x)
{
    const struct dz_linux_mem *m = f->mem;
    struct said sw, ours;
    uint64_t head[3] = {FEATURES_FXSAVE};
    uint32_t mask, mxcsr;
    uint8_t legacy[XSTATE_SW];
    if (at > UINT64_MAX - f->xstate_size || at % FXSAVE_ALIGN != 0 || xstate_kind(f, at, &sw) < 0)
        return -EFAULT;
    const bool extended = sw.xstate_size > XSTATE_FXSAVE;
    if ((extended && at % XSTATE_ALIGN != 0) ||
        m->read(m->arg, at, legacy, sizeof legacy) != sizeof legacy)
        return -EFAULT;
    memcpy(&ours, x + XSTATE_SW, sizeof ours);
    if (extended) {
        if (m->read(m->arg, at + XSTATE_HEADER, head, sizeof head) != sizeof head)
            return -EFAULT;
        if ((head[0] & ~ours.xfeatures) || head[1] != 0 || head[2] != 0)
            return -EFAULT;
    }
    memcpy(&mxcsr, legacy + XSTATE_MXCSR, sizeof mxcsr);
    memcpy(&mask, x + XSTATE_MXCSR_MASK, sizeof mask);
    if ((sw.xfeatures & FEATURES_MXCSR) && (mxcsr & ~(mask ? mask : MXCSR_MASK)))
        return -EFAULT;
    if (sw.xfeatures & FEATURE_SSE)
        memcpy(x + XSTATE_MXCSR, &mxcsr, sizeof mxcsr);
    const uint64_t present = head[0] & sw.xfeatures;
    memcpy(x, legacy, XSTATE_MXCSR);
    memcpy(x + XSTATE_MXCSR + 8, legacy + XSTATE_MXCSR + 8, XSTATE_SW - XSTATE_MXCSR - 8);
    memcpy(x + XSTATE_HEADER, &present, sizeof present);
    const size_t rest = extended ? sw.xstate_size - XSTATE_MIN : 0;
    return m->read(m->arg, at + XSTATE_MIN, x + XSTATE_MIN, rest) == rest ? 0 : -EFAULT;
}

int dz_linux_frame_pop(const struct dz_linux_frame *f, uint64_t *ret_mask,
                       struct dz_altstack *ret_stack)
{
    struct dz_stub_regs *r = f->regs;
    struct frame frame;
    const size_t size = offsetof(struct frame, info);
    uint8_t x[DZ_STUB_XSTATE_MAX];
    assert(f->xstate_size >= XSTATE_MIN + sizeof(uint32_t) && f->xstate_size <= sizeof x);
    if (f->mem->read(f->mem->arg, r->rsp - 8, &frame, size) != size)
        return -EFAULT;
    memcpy(x, f->xstate, f->xstate_size);
    xstate_begin(x, f->xstate_size);
    if (frame.fpstate && xstate_read(f, frame.fpstate, x) < 0)
        return -EFAULT;
    const uint64_t flags = r->rflags;
    memcpy(f->xstate, x, f->xstate_size);
    memcpy(r, frame.regs, sizeof frame.regs);
    r->rflags = (flags & ~(uint64_t)DZ_LINUX_FLAGS) | (r->rflags & DZ_LINUX_FLAGS);
    *ret_mask = frame.mask;
    *ret_stack = (struct dz_altstack){
        .at = frame.stack_at, .size = frame.stack_size, .flags = frame.stack_flags};
    return 0;
}
