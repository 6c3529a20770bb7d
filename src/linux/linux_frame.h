/* SPDX-License-Identifier: MIT
 *
 * linux_frame.h - the frame of a signal's handler on its stack, and the return from it.
 *
 *     kernel: inject(h) ──> dz_linux_frame_push()   sets registers and xstate for the handler
 *     guest:  handler, restorer, rt_sigreturn
 *     runner: dz_linux_frame_pop()                  restores both from the frame
 *     kernel: dz_sys_sigreturn(mask), dz_sys_sigaltstack(stack)
 *
 * Both work on copies: the caller gets registers and xstate from the platform and hands the changed
 * ones back. A frame is guest memory, so nothing in it is trusted.
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
    /* The flags that a program can set by itself: CF PF AF ZF SF TF DF OF RF AC. */
    DZ_LINUX_FLAGS = 0x1 | 0x4 | 0x10 | 0x40 | 0x80 | 1 << 8 | 1 << 10 | 0x800 | 1 << 16 | 1 << 18,
};

/* The thread's last exception, from DZ_STUB_FAULT; every frame of the thread shows it, also frames
 * of other signals. Zeros: it had none. */
struct dz_linux_trap {
    uint64_t number, error;
    uint64_t address; /* of a page fault; other exceptions keep it */
};

/* A stopped thread. mem grows the stack below sp as a guest's access would. */
struct dz_linux_frame {
    const struct dz_linux_mem *mem;
    struct dz_stub_regs *regs;
    uint8_t *xstate; /* from xstate_get(); its layout is trusted */
    size_t xstate_size;
};

/* Begin a handler. The thread's registers are those of the interrupted program; if it was parked in
 * a call, they are as DZ_STUB_CALL left them: rax has the number, rip is behind the instruction.
 * The alternate stack comes from the row, which is cleared if the stack has SS_AUTODISARM. -EFAULT:
 * the stack is full or bad, or there is no restorer: then only guest memory may have changed. */
DZ_NODISCARD int dz_linux_frame_push(const struct dz_linux_frame *f, struct dz_thread *thread,
                                     const struct dz_linux_trap *trap, const struct dz_inject *h);

/* rt_sigreturn(2): regs->rsp points behind the return address of the frame. The caller sets the
 * mask to *ret_mask and the alternate stack to *ret_stack, with the new rsp, and ignores an error
 * of that. rax comes from the frame, too: rt_sigreturn has no result. -EFAULT: the frame is bad,
 * which is a SIGSEGV with SI_KERNEL; nothing has changed. */
DZ_NODISCARD int dz_linux_frame_pop(const struct dz_linux_frame *f, uint64_t *ret_mask,
                                    struct dz_altstack *ret_stack);

/* A siginfo_t. For SI_TIMER, pid is the timer's number and uid the overrun. */
void dz_linux_siginfo_put(const struct dz_siginfo *info, uint8_t out[DZ_LINUX_SIGINFO]);

/* Size of a frame with so many bytes of xstate: AT_MINSIGSTKSZ. */
static inline uint64_t dz_linux_frame_size(size_t xstate_size)
{
    /* the red zone is not on an alternate stack; 64 + 16: for alignment */
    return DZ_LINUX_FRAME + 8 + 64 + 16 + xstate_size;
}

#endif
