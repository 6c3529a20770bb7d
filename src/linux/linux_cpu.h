/* SPDX-License-Identifier: MIT
 *
 * linux_cpu.h - what of the processor is in a saved machine: the features that its programs could
 * see, and the extended registers of a thread.
 *
 * Programs choose their instructions by cpuid, once, when they start. So a machine can only
 * continue on a host that has every feature of the host where it was saved, or of the baseline that
 * was set there (dz_linux_baseline()).
 *
 * Extended registers are saved by components, each with its number and its size, which are the
 * architecture's; the place of a component in memory differs between processors and is not saved.
 */
#ifndef DZ_LINUX_LINUX_CPU_H
#define DZ_LINUX_LINUX_CPU_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "linux/linux_run.h"

#include <stddef.h>
#include <stdint.h>

struct dz_linux; /* AT_HWCAP, AT_HWCAP2, needs */

/* Ask the processor what it has, once for this process and the processes that it forks. */
void dz_linux_cpu_ask(void);

enum {
    DZ_LINUX_CPU_LEAVES = 6,  /* of cpuid that are saved */
    DZ_LINUX_CPU_TEXT = 2048, /* bytes of dz_linux_cpu_text() */
};
/* The features of the processor that a machine with an earlier sleep needs. */
struct dz_linux_cpu_needs {
    uint64_t hwcap, hwcap2, xcr0;
    uint32_t regs[DZ_LINUX_CPU_LEAVES][4];
};

/* Remove the features above the baseline from the text of dz_linux_cpuinfo(). */
void dz_linux_cpuinfo_hide(char *text);

/* Append the features that programs of this host may use, and those that the machine needs. */
void dz_linux_cpu_save(const struct dz_linux *l, struct dz_buf *to);
/* To saved features: threads use these components of extended registers. */
void dz_linux_cpu_used(uint8_t *saved, uint64_t components);
/* Does this host have all of the saved ones? The machine needs them from now on. DZ_EUNSUPPORTED
 * names one that it lacks. */
DZ_NODISCARD int dz_linux_cpu_check(struct dz_linux *l, const uint8_t *bytes, size_t size,
                                    struct dz_err *err);

/* Append what the saved features demand, as struct dz_linux_inspect_ops shows it. DZ_ECORRUPT. */
DZ_NODISCARD int dz_linux_cpu_text(const uint8_t *bytes, size_t size, struct dz_buf *to,
                                   struct dz_err *err);

/* Append the registers of an xstate in the layout of a signal frame, which comes from the stub.
 * Returns the components that are in use. */
uint64_t dz_linux_xstate_save(const uint8_t *xstate, size_t size, struct dz_buf *to);
/* Put saved registers into the xstate of a new thread, which defines the layout. DZ_ECORRUPT;
 * DZ_EUNSUPPORTED: this host has no such component. */
DZ_NODISCARD int dz_linux_xstate_restore(const uint8_t *bytes, size_t saved, uint8_t *xstate,
                                         size_t size, struct dz_err *err);

#endif
