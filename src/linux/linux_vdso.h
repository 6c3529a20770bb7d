/* SPDX-License-Identifier: MIT
 *
 * linux_vdso.h - clocks that a native program reads without a system call.
 *
 *     one object of memory for all processes of a machine
 *     0        struct dz_vdso_page       written here, read-only in guests
 *     4096     an ELF image              linux_vdso_guest.c; AT_SYSINFO_EHDR points to it
 *
 * The page has a straight line: kernel time and real time at one value of the time stamp counter,
 * and nanoseconds for each tick. dz_linux_vdso_update() draws it anew every DZ_VDSO_UPDATE_NS.
 * Where there is no line that holds (the counter is not invariant, or ran away; nobody has drawn
 * one for a second), the image makes the system call instead.
 *
 * A thread may be frozen between any two instructions of the image and wake on another machine. It
 * then finds another sequence number than the one it holds, and reads again: the number is kernel
 * time, which goes on while a machine sleeps, so none comes twice. But the image must be the one
 * that the thread was in: who saves a machine saves these bytes as well (dz_linux_vdso_image()),
 * and fields of the page keep their places for ever.
 */
#ifndef DZ_LINUX_LINUX_VDSO_H
#define DZ_LINUX_LINUX_VDSO_H

#include "base/attr.h"
#include "base/err.h"
#include "linux/linux_vdso_page.h"
#include "mm/mm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_VDSO_IMAGE_AT = DZ_MM_PAGE,      /* bytes of the object before the image */
    DZ_VDSO_IMAGE_MAX = 2 * DZ_MM_PAGE, /* bytes of the image */
    DZ_VDSO_UPDATE_NS = 50 * 1000 * 1000,
};

/* The clocks of the kernel: struct dz_kernel_ops' by way of dz_kernel_now(). The first one runs as
 * fast as CLOCK_BOOTTIME of the host. */
struct dz_linux_clocks {
    int64_t (*mono)(void *arg), (*real)(void *arg);
    void *arg;
};

struct dz_vdso_sample {
    uint64_t tsc;
    int64_t ns;
};
struct dz_linux_vdso {
    int fd;          /* the object: whoever maps it may not write to it */
    size_t size;     /* bytes that a process maps: page and image */
    uint8_t *object; /* mapped here */
    bool tsc;        /* the host trusts its counter, and so do we still */
    uint64_t mult;   /* as in the page; 0: not known yet */
    int64_t real;    /* real time less kernel time */
    bool real_known;
    int64_t due;                      /* kernel time of the next update; INT64_MAX: never */
    struct dz_vdso_sample anchors[2]; /* of CLOCK_BOOTTIME: what the rate is measured from */
};

/* Before a jail that hides /sys: does the host trust its counter? It is asked once, and what it
 * said holds for the processes that are forked from this one, too. */
bool dz_linux_vdso_look(void);
void dz_linux_vdso_told(bool trusts);
/* With the image of this program; it makes a memory file. */
DZ_NODISCARD int dz_linux_vdso_open(struct dz_linux_vdso *v, struct dz_err *err);
void dz_linux_vdso_close(struct dz_linux_vdso *v); /* also of a struct with fd -1 */
/* Instead of that image, before the first update: the one of a machine that slept. DZ_ECORRUPT: no
 * image has this size. */
DZ_NODISCARD int dz_linux_vdso_put(struct dz_linux_vdso *v, const void *image, size_t size,
                                   struct dz_err *err);
const void *dz_linux_vdso_image(const struct dz_linux_vdso *v, size_t *ret_size);

/* Before the machine's first thread runs, and when `due` has come. */
void dz_linux_vdso_update(struct dz_linux_vdso *v, const struct dz_linux_clocks *c);

/* By the Makefile. */
extern const unsigned char dz_linux_vdso_program[];
extern const size_t dz_linux_vdso_program_size;

#endif
