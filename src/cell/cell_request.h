/* SPDX-License-Identifier: MIT
 *
 * cell_request.h - the requests that a root zygote, a zygote and the process of a call read,
 * checked before anything is done for them.
 *
 * A request is one frame and the descriptors that came with it. Each socket takes a few types of
 * them. dz_request_read() looks at every byte of a request and does nothing else: it opens, forks
 * and allocates nothing. docs/format/cell-protocol.md has the frames.
 *
 * These processes trust their host. So a request that is refused is a bug of the host, or
 * descriptors that the kernel did not hand over; but the numbers of WARM come from cells.
 */
#ifndef DZ_CELL_CELL_REQUEST_H
#define DZ_CELL_CELL_REQUEST_H

#include "base/attr.h"
#include "base/err.h"
#include "cell/cell_call.h"
#include "cell/cell_int.h"
#include "os/os_jail.h"

#include <stddef.h>
#include <stdint.h>

/* Functions of a module that sandboxes of the image used; their numbers follow, u32 each. Without a
 * module (zeros): pages of the heap that they wrote. */
struct dz_zygote_warm {
    uint8_t sha256[32];
};
enum {
    DZ_ZYGOTE_WARM_MAX = (DZ_CELL_FRAME_MAX - 32) / 4,
};

/* The payload of USER: the user of a zygote, and whether its cells run native Linux programs. A
 * zygote can read neither /sys nor /proc/cpuinfo, so this also says whether the host trusts the
 * processor's time stamp counter, and the text of dz_linux_cpuinfo() follows. */
enum dz_zygote_native {
    DZ_ZYGOTE_MODULES,    /* no native programs */
    DZ_ZYGOTE_NATIVE,     /* their clocks are system calls */
    DZ_ZYGOTE_NATIVE_TSC, /* their clocks read the counter */
};
struct dz_zygote_user {
    uint32_t user;
    uint32_t native; /* enum dz_zygote_native */
    uint32_t cpu;    /* enum dz_linux_cpu: the baseline of native programs */
    uint32_t pad;
};

/* Before the argument of a call that the root zygote started. */
struct dz_call_head {
    uint64_t memory_bytes, file_bytes;
    uint64_t present; /* a bit for each descriptor of the call that is not -1 */
    uint32_t fd_count, arg_size;
    struct dz_os_users users; /* and the user that the call becomes, which is one of these */
    uint32_t user, pad;
};
enum {
    DZ_CALL_SOCKET = 3, /* descriptors of the process of a call */
    DZ_CALL_STOP = 4,
    DZ_CALL_FILES = 5,
};

/* The socket that was read, and the process that reads from it. */
enum dz_request_reader {
    DZ_READER_ROOT,         /* FORK: a blank zygote; IMAGE: a zygote of an image */
    DZ_READER_ROOT_CALLS,   /* CALL */
    DZ_READER_ZYGOTE_FIRST, /* USER */
    DZ_READER_ZYGOTE_IMAGE, /* IMAGE, its second frame: the hash */
    DZ_READER_ZYGOTE,       /* FORK: a cell; WARM */
    DZ_READER_CALL,         /* CALL: what to do */
    DZ_READERS,
};

/* Pointers are into the payload. */
struct dz_request {
    enum dz_frame_type type;
    union {
        struct {
            struct dz_os_users users; /* count 0: none, and user is DZ_USER_NONE */
            uint32_t user;
            enum dz_zygote_native native;
            uint32_t cpu;
            const char *cpuinfo; /* without a NUL */
            size_t cpuinfo_size;
        } who; /* USER */
        char image_sha256[65];
        struct {
            const uint8_t *sha256; /* hash of the module; NULL: the numbers are pages of the heap */
            const uint8_t *numbers; /* u32 each, at any address */
            size_t count;
        } warm;
        struct {
            const struct dz_call_function *function;
            const uint8_t *arg; /* function->arg_size bytes, at any address */
            int fds[DZ_CALL_FDS_MAX];
            size_t fd_count;
            uint64_t memory_bytes, file_bytes; /* 0: the default */
            struct dz_os_users users;          /* as of USER */
            uint32_t user;
        } call; /* for DZ_READER_CALL */
    };
};

/* Check a frame that this reader received, with its payload of f->size bytes and its number of
 * descriptors. DZ_READER_CALL got its descriptors by its exec: fd_count is how many are open from
 * DZ_CALL_FILES on. 0, or DZ_EIO with the error in *err. */
DZ_NODISCARD int dz_request_read(enum dz_request_reader by, const struct dz_frame *f,
                                 const uint8_t *payload, size_t fd_count,
                                 struct dz_request *ret_request, struct dz_err *err);

#endif
