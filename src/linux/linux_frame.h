/* SPDX-License-Identifier: MIT
 *
 * linux_frame.h - the frame that a signal's handler finds on its stack, and what it returns from.
 *
 *     kernel: inject(h) ──> dz_linux_frame_push()   registers and xstate become the handler's
 *     guest:  handler, restorer, rt_sigreturn
 *     runner: dz_linux_frame_pop()                  they become what the frame says
 *     kernel: dz_sys_sigreturn(mask), dz_sys_sigaltstack(stack)
 *
 * Both work on copies: who calls gets registers and xstate from the platform, and gives it what is
 * there afterwards. A frame is the guest's memory, so nothing in it is believed.
 */
#ifndef DZ_LINUX_LINUX_FRAME_H
#define DZ_LINUX_LINUX_FRAME_H

#include "base/attr.h"
#include "kernel/kernel.h"
#include "linux/linux_call.h"
#include "stub/stub.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DZ_LINUX_SIGINFO = 128, /* bytes of a siginfo_t */
    DZ_LINUX_FRAME = 440,   /* bytes of a frame without extended registers */
};

/* The thread's last exception, as DZ_STUB_FAULT told it; all frames of the thread show it, also
 * those of other signals. Zeros: it had none. */
struct dz_linux_trap {
    uint64_t number, error;
    uint64_t address; /* of a page fault; others leave it as it was */
};

/* A thread that stands still. mem grows the stack below sp as an access of the guest would. */
struct dz_linux_frame {
    const struct dz_linux_mem *mem;
    struct dz_stub_regs *regs;
    uint8_t *xstate; /* as xstate_get() gives it; the layout in it is believed */
    size_t xstate_size;
};

/* Begin a handler. The thread's registers are those of the interrupted program; if that was parked
 * in a call, then as DZ_STUB_CALL left them: rax has the number, rip is behind the instruction. The
 * row gives the alternate stack, and loses it when it is one with SS_AUTODISARM. -EFAULT: the
 * stack is full or bad, or there is no restorer: then only guest memory may have changed. */
DZ_NODISCARD int dz_linux_frame_push(const struct dz_linux_frame *f, struct dz_thread *thread,
                                     const struct dz_linux_trap *trap, const struct dz_inject *h);

/* rt_sigreturn(2): regs->rsp points behind the return address of the frame. The caller makes
 * *ret_mask the mask, and *ret_stack the alternate stack, with the new rsp and whatever it answers.
 * rax is in the frame, too: it is no answer of a call. -EFAULT: the frame is bad, which is a
 * SIGSEGV with SI_KERNEL; nothing has changed. */
DZ_NODISCARD int dz_linux_frame_pop(const struct dz_linux_frame *f, uint64_t *ret_mask,
                                    struct dz_altstack *ret_stack);

/* A siginfo_t. Of SI_TIMER pid is the timer's number, uid the overrun. */
void dz_linux_siginfo_put(const struct dz_siginfo *info, uint8_t out[DZ_LINUX_SIGINFO]);

/* A frame has room for so many bytes of xstate: AT_MINSIGSTKSZ. */
static inline uint64_t dz_linux_frame_size(size_t xstate_size)
{
    /* the red zone is not on an alternate stack; 64 + 16: what alignment may take */
    return DZ_LINUX_FRAME + 8 + 64 + 16 + xstate_size;
}

#endif
