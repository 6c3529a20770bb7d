/* SPDX-License-Identifier: MIT
 *
 * cell_int.h - the frames between a host and its cell, and what both sides
 * share. docs/format/cell-protocol.md describes them.
 *
 * One SOCK_SEQPACKET message is one frame: a head of 24 bytes and at most
 * DZ_CELL_FRAME_MAX bytes of payload. Numbers are little-endian (the host's:
 * both ends are one machine). Neither end trusts the other: the cell's frames
 * are checked by the host as if a guest had written them.
 */
#ifndef DZ_CELL_CELL_INT_H
#define DZ_CELL_CELL_INT_H

#include "base/buf.h"
#include "base/err.h"
#include "cell/cell.h"
#include "runtime/runtime_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum dz_frame_type {
    /* host to cell */
    DZ_FRAME_START = 1,  /* payload: dz_start_encode(); descriptors with it */
    DZ_FRAME_INPUT = 2,  /* stream; payload */
    DZ_FRAME_EOF = 3,    /* stream */
    DZ_FRAME_RESIZE = 4, /* value: rows << 16 | cols */
    DZ_FRAME_SIGNAL = 5, /* value: signal */
    DZ_FRAME_DIR = 6,    /* value: mode; payload: path with its NUL */
    DZ_FRAME_LINK = 7,   /* payload: path and target, each with its NUL */
    DZ_FRAME_FILE = 8,   /* value: mode; payload: path with its NUL */
    DZ_FRAME_DATA = 9,   /* payload: more bytes of that file */
    DZ_FRAME_GO = 10,
    DZ_FRAME_SUSPEND = 11,  /* value: 1 = keep the files only */
    DZ_FRAME_SNAPSHOT = 12, /* with the descriptor of an empty file */
    DZ_FRAME_EXEC = 13,     /* value: bytes of the whole; payload: the next of them */
    DZ_FRAME_ATTACH = 14,   /* value: offset */
    DZ_FRAME_DETACH = 15,
    DZ_FRAME_ROOM = 54,   /* value: bytes that its disk may still take; UINT64_MAX: no limit */
    DZ_FRAME_LIMITS = 55, /* payload: struct dz_frame_limits */
    DZ_FRAME_TOOK = 48,   /* value: bytes of output that were used */
    /* stream: the operation */
    DZ_FRAME_OP = 49,       /* value: enum dz_cell_op_type; payload: struct dz_op_args, strings */
    DZ_FRAME_OP_INPUT = 50, /* payload */
    DZ_FRAME_OP_END = 51,
    DZ_FRAME_OP_CANCEL = 52,
    DZ_FRAME_OP_TOOK = 53, /* value: bytes of data that were used */
    /* cell to host */
    DZ_FRAME_OUTPUT = 16,    /* stream; payload */
    DZ_FRAME_WINDOW = 17,    /* stream; value: bytes that it can take besides */
    DZ_FRAME_ENDED = 18,     /* value: exit code, or 1000 + signal; payload: why */
    DZ_FRAME_FAILED = 19,    /* value: -DZ_E*; payload: the sentence */
    DZ_FRAME_SUSPENDED = 20, /* last, durable. value: ns since 1970 when it wants to wake; many:
                                of its deadlines, stream 1: something could run at once */
    DZ_FRAME_AWAKE = 21,     /* it goes on as it was. value: -DZ_E*; payload: why not asleep */
    DZ_FRAME_COPIED = 23, /* value: bytes of the snapshot; or stream 1, value -DZ_E*, payload why */
    DZ_FRAME_LOST = 22,   /* the file held a machine that had not been put to sleep */
    DZ_FRAME_READY = 24,  /* value: enum dz_cell_found; payload: struct dz_frame_ready */
    DZ_FRAME_UP = 26,     /* payload: struct dz_frame_up, and so many struct dz_frame_live */
    DZ_FRAME_STARTED = 27, /* value: pid */
    DZ_FRAME_EXEC_FAILED =
        28,                  /* value: -DZ_E*; stream: enum dz_exec_wrong; payload: the sentence */
    DZ_FRAME_EXITED = 29,    /* value: as of ENDED; payload: struct dz_frame_exited, the sentence */
    DZ_FRAME_ACTIVITY = 30,  /* payload: struct dz_frame_activity */
    DZ_FRAME_USED = 31,      /* payload: as of NEST_WARM */
    DZ_FRAME_OP_DATA = 56,   /* payload */
    DZ_FRAME_OP_WINDOW = 57, /* value: bytes that it can take besides */
    DZ_FRAME_OP_DONE = 58,   /* value: a result, or DZ_E* and payload: the sentence */
    DZ_FRAME_FULL = 60, /* nothing can be committed: the disk is full. The machine stands still and
                         * tries again now and then; this comes again, too. payload: the sentence */
    DZ_FRAME_TOGETHER = 59, /* payload: several frames of the above, in their order */
    DZ_FRAME_BORN = 62,     /* first of a forked cell: its credentials say which process it is */
    DZ_FRAME_WORDS = 61,    /* payload: what a process wrote to standard error; any process */
    /* pool to nest (cell_nest.h) */
    DZ_FRAME_NEST_FORK = 64,  /* with the socket of a new cell */
    DZ_FRAME_NEST_IMAGE = 65, /* with the control socket of a new nest, an image, modules; payload:
                                 the image's hash */
    DZ_FRAME_NEST_USER = 68,  /* to a zygote, its first. value: first of the ids; 0: none. stream:
                                 their count. payload: u32, the zygote's own */
    DZ_FRAME_NEST_CALL = 67,  /* to the seed, with the socket of a call, its stop word, its files;
                                 then  on that socket: stream: dz_call_id; payload: struct
                                 dz_call_head,  argument */
    DZ_FRAME_NEST_WARM = 66,  /* payload: struct dz_nest_warm, functions */
    /* and nest to pool */
    DZ_FRAME_NEST_FORKED = 72, /* of a seed, value: pid; or stream: errno */
    DZ_FRAME_NEST_CALLED = 75, /* the seed's, on a call's socket. value: pid; or stream: errno */
    DZ_FRAME_NEST_READY = 73,  /* value: the fences that hold it */
    DZ_FRAME_NEST_FAILED = 74, /* last. value: -DZ_E*; payload: the sentence */
    /* a call, host to cell */
    DZ_FRAME_ANSWER = 32, /* stream: tag; value; payload */
    DZ_FRAME_CANCEL = 33, /* there is no answer: come to an end */
    /* and cell to host */
    DZ_FRAME_SAY = 40,   /* stream: tag; value; payload */
    DZ_FRAME_ASK = 41,   /* the same, and one ANSWER or CANCEL comes back */
    DZ_FRAME_REPLY = 42, /* payload: more bytes of the reply */
    DZ_FRAME_DONE =
        43, /* last. value: the result, or DZ_E*; stream: errno; payload: the sentence */
};

/* No type is as large. Standard error of a jailed process is its socket: a packet that begins with
 * a larger number, or is shorter than one, is text, and received as WORDS. */
enum {
    DZ_FRAME_TYPES = 256,
};

struct dz_frame {
    uint32_t type, stream;
    uint64_t value;
    uint32_t size, reserved;
};
_Static_assert(sizeof(struct dz_frame) == 24, "the head of a frame");

/* With many commands, `stream` is exec << 2 | enum dz_cell_stream. The host numbers the
 * commands that it starts from 1, the cell those that woke from DZ_EXEC_WOKEN. */
enum {
    DZ_EXEC_WOKEN = 1 << 29,
    DZ_EXEC_MAX = 1 << 30,
};
struct dz_frame_ready {
    int64_t wake_at;
    int32_t pid, pad;
};
struct dz_frame_up {
    int32_t pid;
    uint32_t live; /* commands that slept in the machine */
};
struct dz_frame_live { /* behind it its id, with a NUL */
    uint64_t total;    /* bytes printed ever */
    uint32_t exec;     /* handle << 2 | the stream that its input goes to */
    uint32_t window;   /* bytes of input that it takes */
    uint32_t id_size;
    int32_t pid; /* of its first process */
};
struct dz_frame_exited {
    int64_t cpu_ns;
    uint64_t total;      /* bytes printed ever */
    uint32_t flags, pad; /* DZ_EXEC_TIMED_OUT */
};
/* Of the disk, besides what ROOM says. */
struct dz_frame_limits {
    uint64_t keep_free;  /* bytes of the host's file system that guests leave free */
    uint64_t disk_bytes; /* that its files may take; 0: no limit */
};

struct dz_frame_activity {
    int64_t cpu_ns, wake_at;
    uint64_t bytes_in, bytes_out, memory_bytes, disk_bytes;
    uint32_t procs, pad;
};
/* The whole of an EXEC; then strings with their NUL: id, program, cwd, user, argv, env; then
 * the host's own bytes. */
struct dz_exec_head {
    uint32_t flags; /* 1 tty, 2 stdin, 4 attach */
    uint16_t rows, cols;
    uint32_t argc, envc;
    int64_t cpu_ns;
    uint64_t output_bytes, keep_bytes;
    int64_t timeout_ns; /* 0: never */
    uint32_t spec_size, pad;
};
/* Of an OP: this; path, to and text with their NULs. */
struct dz_op_args {
    uint64_t offset, length, limit;
    uint32_t mode, depth, flags, pad;
};
/* Strings with their NUL, one after the other. */
struct dz_cursor {
    const char *at, *end;
};
const char *dz_cursor_string(struct dz_cursor *c); /* NULL: there is none */
/* count of them, and NULL; one allocation, to be freed. NULL: not so many. */
const char **dz_cursor_strings(struct dz_cursor *c, uint32_t count);

/* How much of `size` bytes goes into the next frame, where the other side has room for
 * `window`. */
static inline size_t dz_frame_piece(size_t window, size_t size)
{
    size_t n = window < size ? window : size;
    return n < DZ_CELL_FRAME_MAX ? n : DZ_CELL_FRAME_MAX;
}

/* Send one frame: 1, 0 when the socket is full (never with block), or DZ_EIO. */
int dz_frame_send(int fd, const struct dz_frame *f, const void *payload, bool block,
                  struct dz_err *err);
/* The two ends of a socket for frames. Neither blocks, also for what a process writes to its end
 * as standard error; dz_frame_send() and dz_frame_receive() wait by poll(2). */
DZ_NODISCARD int dz_frame_pair(int ret_ends[2], struct dz_err *err);
/* Receive one into a buffer of DZ_CELL_FRAME_MAX bytes: 1, 0 when there is none
 * (without block), DZ_EIO when the other end is gone or sent nonsense, which descriptors are, and a
 * packet that is longer than any frame. */
int dz_frame_receive(int fd, struct dz_frame *ret_frame, uint8_t *ret_payload, bool block,
                     struct dz_err *err);

/* The same with the descriptors that came along; and sending some with a head alone. More than
 * DZ_FRAME_FDS_MAX are nonsense, and closed. */
enum {
    DZ_FRAME_FDS_MAX = 3 + DZ_CELL_MODULES_MAX,
};
struct dz_frame_fds {
    int fds[DZ_FRAME_FDS_MAX];
    size_t count;
};
int dz_frame_receive_fds(int fd, struct dz_frame *ret_frame, uint8_t *ret_payload, bool block,
                         struct dz_frame_fds *ret_fds, struct dz_err *err);
/* 1, 0 when the socket is full, or DZ_E*. */
int dz_frame_send_fds(int fd, const struct dz_frame *head, const int *fds, size_t count,
                      struct dz_err *err);

/* What a cell with many commands says, gathered into as few packets as it may be; nothing else
 * sends over that socket. */
enum {
    DZ_OUT_MAX = 8192, /* bytes that wait; a larger frame goes by itself */
};
struct dz_frame_out {
    int fd;
    size_t len, count;
    uint8_t bytes[DZ_OUT_MAX];
};
/* 1; 0 when the socket is full (never with block): the frame is not taken, or all still waits;
 * DZ_EIO when nobody is there any more. */
int dz_out_add(struct dz_frame_out *o, const struct dz_frame *f, const void *payload, bool block);
int dz_out_flush(struct dz_frame_out *o, bool block);

/* What a cell may use up; the rest of its jail is the same for all. */
enum {
    DZ_CELL_NOFILE = 256,    /* descriptors */
    DZ_CELL_CODE_MAX = 1000, /* no DZ_E* is below its negative */
    /* of a zygote, with all of its cells: between these */
    DZ_CELL_PROCESSES_LEAST = 4096,
    DZ_CELL_PROCESSES_MOST = 1 << 16,
};
struct dz_os_dirty;
struct dz_os_users;
struct dz_cell_fence {
    uint64_t file_bytes;        /* that a file may have */
    uint64_t memory_bytes;      /* of private memory; 0: no limit of its own */
    struct dz_os_dirty **dirty; /* a tracker of dirty pages, opened on the way in; NULL: none */
    bool outlives;              /* it does not die with its host */
    const struct dz_os_users *users; /* become `user`, one of these; NULL: stay who we are */
    uint32_t user;
};
/* Close all descriptors but 0, 1, 2 and these (sorted here), ignore what a terminal sends. fds[0]
 * is the socket to the host, and becomes standard error. 0 or a negative errno. */
int dz_cell_let_go(int *fds, size_t count);
/* Move each of these that can only be read (an image, a module: others have it, too) to a number
 * through which the jail lets nobody lock it; -1 stays. DZ_EIO: it cannot be moved. */
int dz_cell_part_shared(int *fds, size_t count, struct dz_err *err);
struct dz_nest;
struct dz_os_jail_report;
/* The calls of a cell that becomes its tenant's user (users NULL: of one that does not), in room
 * for DZ_CELL_CALLS_MAX; how many. nest: those of a zygote, too. */
enum {
    DZ_CELL_CALLS_MAX = 128,
};
struct dz_os_syscall;
size_t dz_cell_calls(bool nest, const struct dz_os_users *users, struct dz_os_syscall *ret_calls);
/* How many processes a zygote may have with its cells: a quarter of what the machine may. To be
 * asked where /proc/sys can be read: no guard's process (os_guard.h) can. */
uint64_t dz_cell_processes(void);
/* A zygote: the jail but for what it must do to fork cells, and for what each of them
 * does after that. It becomes its user (without users it stays who it is), who may then have its
 * number of processes. fds as below. */
int dz_cell_enter_nest(const struct dz_nest *nest, int *fds, size_t count,
                       struct dz_os_jail_report *ret_report, struct dz_err *err);
/* In a child of a nest: the rest of the jail. */
int dz_cell_enter_nested(const struct dz_nest *nest, struct dz_os_dirty **ret_dirty, int *fds,
                         size_t count, struct dz_err *err);
/* In a child just forked: all descriptors but 0, 1, 2 and these (sorted here; fds[0] as above) are
 * closed, and the jail is entered. After an error the child must end. */
int dz_cell_enter(const struct dz_cell_fence *fence, int *fds, size_t count, struct dz_err *err);
/* "what: the cell was killed by ...", from a status of waitpid(). An error. */
DZ_COLD int dz_cell_died(int status, const char *what, struct dz_err *err);
/* Has the other end of this socket gone? */
bool dz_frame_gone(int fd);
/* Which process sent the packet that comes next, by the kernel's word: 1; the packet stays. 0:
 * there is none yet. DZ_EIO: none will come. DZ_EINVAL: it has descriptors. Only packets that were
 * sent while the socket asked for that (dz_frame_ask_sender) have a sender. */
struct dz_sender {
    pid_t pid; /* in our numbers */
    int pidfd; /* the caller's to close; -1: this kernel gives none (before Linux 6.5) */
};
void dz_frame_ask_sender(int fd, bool ask);
int dz_frame_sender(int fd, struct dz_sender *ret_sender);

/* The host's side of a socket whose other end is somebody's business already; NULL
 * when memory is short. dz_cell_free() closes fd. */
struct dz_cell *dz_cell_adopt(int fd);

/* The first frame, with its descriptors. */
enum {
    DZ_START_FDS_MAX = 3 + DZ_CELL_MODULES_MAX,
    DZ_START_STRINGS_MAX = 4096,
    DZ_START_SIZE_MAX = 1 << 20,
};

/* What the cell makes of it: strings point into `bytes`. */
struct dz_started {
    struct dz_buf bytes;
    size_t early; /* of these: frames begin here, up to the end */
    int fds[DZ_START_FDS_MAX];
    size_t fd_count;
    int image_fd; /* -1: none; the disk is fds[0], its log fds[1] */
    size_t module_first;
    const char *image_sha256, *program, *cwd, *user, *policy;
    const char **argv, **env, **preopens, **sleepers; /* end with NULL; one allocation each */
    bool tty, open_stdin, fresh, ephemeral, bare, resume, drop_memory, many, strict, go;
    bool nested; /* the image and its modules are the nest's */
    uint16_t rows, cols;
    uint32_t lock_wait_ms;
    uint32_t settle_as;    /* the user that the cell is to be; 0: it has no choice */
    uint64_t memory_bytes; /* 0: the policy's */
};
/* As it is sent; fds are borrowed. nested: to a cell that has the image and its modules. */
struct dz_starting {
    struct dz_buf body;
    size_t size; /* of the start; what follows in body are frames for the cell to take after it */
    int fds[DZ_START_FDS_MAX];
    size_t fd_count;
};
int dz_start_encode(const struct dz_cell_start *start, bool nested, struct dz_starting *ret,
                    struct dz_err *err);
/* The frame goes with it; false: there is no room. */
bool dz_start_add(struct dz_starting *s, const struct dz_frame *f, const void *payload);
/* Its first packet, with the descriptors. Of a longer one, what is behind DZ_CELL_FRAME_MAX bytes
 * of the body follows in START frames, which the socket need not have room for. Never waits. */
int dz_start_send(int fd, const struct dz_starting *s, struct dz_err *err);
int dz_start_receive(int fd, struct dz_started *ret_started, struct dz_err *err);
void dz_started_release(struct dz_started *s);

/* Files that the host puts into the disk before the start. */
struct dz_vfs;
struct dz_put {
    struct dz_vfs *vfs;
    uint64_t ino, at; /* the file being filled: 0 = none */
};
/* One of the frames DIR, LINK, FILE, DATA; payload ends with a NUL behind it. */
int dz_put_frame(struct dz_put *p, const struct dz_frame *f, const char *payload,
                 struct dz_err *err);
void dz_put_release(struct dz_put *p);
/* Make every directory above the last component: 0 or a negative errno. */
int dz_put_above(struct dz_vfs *v, const char *path);

/* A user of the machine: a name of its /etc/passwd, or "UID[:GID]". */
struct dz_user {
    uint32_t uid, gid, group_count, groups[16];
    char home[256];
};
int dz_user_find(struct dz_vfs *vfs, const char *text, struct dz_user *ret_user,
                 struct dz_err *err);

/* The cell itself, after the jail: serves the socket until its first process has
 * ended. Never returns to the host's code. */
DZ_NORETURN void dz_cell_serve(int fd, struct dz_os_dirty *dirty, struct dz_nest *nest);

/* Prepared modules by the hash of the module, and those that this cell prepared. */
struct dz_modules;
struct dz_machine_program;
struct dz_vfs_attr;
struct dz_wasm_module;
struct dz_modules_of {
    struct dz_vfs *vfs;
    struct dz_db *image; /* below it, or NULL */
};
int dz_modules_new(const int *fds, size_t count, const struct dz_modules_of *of,
                   struct dz_modules **ret_modules, struct dz_err *err);
void dz_modules_free(struct dz_modules *m);
/* Those that a nest opened ahead, for the disk of one of its cells. */
void dz_modules_use(struct dz_modules *m, struct dz_vfs *vfs);
/* Ahead: open them all (of->vfs NULL). */
int dz_modules_open_all(struct dz_modules *m, struct dz_err *err);
/* A module opened ahead of which functions have been translated that this did not tell of
 * yet: its hash, and *count of them, which was the room (dz_wasm_tell()). */
bool dz_modules_used(struct dz_modules *m, uint8_t ret_sha256[static 32], uint32_t *ret_funcs,
                     size_t *count);
/* Translate functions of the module of this hash; those that it does not have are left out. */
void dz_modules_warm(struct dz_modules *m, const uint8_t *sha256, const uint32_t *funcs,
                     size_t count);
/* The kernel's module_get and module_put; arg is a struct dz_modules *. */
int dz_modules_get(struct dz_modules *m, uint64_t ino, const struct dz_vfs_attr *attr,
                   struct dz_wasm_module **ret_module, struct dz_err *err);
/* The memory of what sleeps in the image of this hash; NULL: it was not handed over. */
const uint8_t *dz_modules_base(const struct dz_modules *m, const uint8_t *image_sha256,
                               size_t *ret_size);
/* The kernel's map_image, and the machine's base_map. */
bool dz_modules_map(const struct dz_modules *m, void *at, const uint8_t *image, size_t size);
void dz_modules_ref(struct dz_modules *m, struct dz_wasm_module *module);
void dz_modules_put(struct dz_modules *m, struct dz_wasm_module *module);
/* For a machine that wakes, dz_machine_ops.module_get: the module of this hash, from those
 * that were prepared, from its inode, or from its bytes. DZ_ENOENT. */
int dz_modules_thaw(struct dz_modules *m, const struct dz_machine_program *program,
                    struct dz_wasm_module **ret_module, struct dz_err *err);
/* The inode that holds exactly this module's bytes; 0: none any more. */
uint64_t dz_modules_ino(struct dz_modules *m, const struct dz_wasm_module *module);

#endif
