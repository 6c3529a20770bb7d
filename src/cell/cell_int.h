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
    DZ_FRAME_SIGNAL = 5, /* value: signal; stream & 1: to the whole job */
    DZ_FRAME_DIR = 6,    /* value: mode; payload: path with its NUL */
    DZ_FRAME_LINK = 7,   /* payload: path and target, each with its NUL */
    DZ_FRAME_FILE = 8,   /* value: mode; payload: path with its NUL */
    DZ_FRAME_DATA = 9,   /* payload: more bytes of that file */
    DZ_FRAME_GO = 10,
    DZ_FRAME_SUSPEND = 11,  /* value: 1 = keep the files only */
    DZ_FRAME_SNAPSHOT = 12, /* with the descriptor of an empty file */
    DZ_FRAME_EXEC = 13,     /* value: bytes of the whole; payload: the next part of it */
    DZ_FRAME_ATTACH = 14,   /* value: offset, or DZ_CELL_UNSENT */
    DZ_FRAME_DETACH = 15,
    DZ_FRAME_ROOM = 54,   /* value: bytes that its disk may still take; UINT64_MAX: no limit */
    DZ_FRAME_LIMITS = 55, /* payload: struct dz_frame_limits */
    DZ_FRAME_ACK = 48,    /* value: bytes of output that were used */
    /* stream: the operation */
    DZ_FRAME_OP = 49,       /* value: enum dz_cell_op_type; payload: struct dz_op_args, strings */
    DZ_FRAME_OP_INPUT = 50, /* payload */
    DZ_FRAME_OP_END = 51,
    DZ_FRAME_OP_CANCEL = 52,
    DZ_FRAME_OP_ACK = 53, /* value: bytes of data that were used */
    /* of connections to the outside (runtime/runtime_net.h) */
    DZ_FRAME_NET_IN = 80, /* value: generation; payload: struct dz_frame_net_in; its socket */
    DZ_FRAME_NET_CONNECTED = 81, /* stream: channel; value: generation; with its socket */
    DZ_FRAME_NET_REFUSED = 82,   /* stream: channel; value: errno */
    DZ_FRAME_NET_LOST = 83,      /* value: generation; stream: errno */
    DZ_FRAME_NET_RESUME = 84,    /* value: generation; with its socket */
    DZ_FRAME_NET_RESUMED = 85,
    DZ_FRAME_NET_REPLY = 86, /* value: the query; payload */
    /* the same, from the cell */
    DZ_FRAME_NET_ANSWER = 88,  /* value: generation; stream: -DZ_E*, 0: a listener has it */
    DZ_FRAME_NET_PORTS = 89,   /* payload: struct dz_cell_port, any number */
    DZ_FRAME_NET_CONNECT = 90, /* stream: channel; payload: struct dz_cell_address */
    DZ_FRAME_NET_CLOSED =
        91,                  /* value: generation; stream: 1: by a reset. Or value 0: the channel */
    DZ_FRAME_NET_REST = 92,  /* payload: struct dz_cell_rest, any number */
    DZ_FRAME_NET_QUERY = 93, /* value: its number; payload */
    /* cell to host */
    DZ_FRAME_OUTPUT = 16,    /* stream; payload */
    DZ_FRAME_WINDOW = 17,    /* stream; value: how many more bytes it takes */
    DZ_FRAME_FAILED = 19,    /* value: -DZ_E*; payload: the message */
    DZ_FRAME_SUSPENDED = 20, /* the last frame: the machine is durable. value: ns since 1970 of the
                                next deadline; stream 1: a process could run at once */
    DZ_FRAME_AWAKE =
        21, /* the machine keeps running. value: -DZ_E*; payload: why it was not suspended */
    DZ_FRAME_COPIED = 23, /* value: bytes of the snapshot; or stream 1, value -DZ_E*, payload why */
    DZ_FRAME_LOST = 22,   /* the file held a machine that was never suspended */
    DZ_FRAME_READY = 24,  /* value: enum dz_cell_found; payload: struct dz_frame_ready */
    DZ_FRAME_UP = 26,     /* value: 1: the machine has woken, 0: it is a new one; payload: struct
                             dz_frame_up, and so many struct dz_frame_live */
    DZ_FRAME_STARTED = 27,     /* value: pid */
    DZ_FRAME_EXEC_FAILED = 28, /* value: -DZ_E*; stream: enum dz_exec_wrong; payload: the message */
    DZ_FRAME_EXITED = 29,      /* value: exit code, or DZ_ENDED_SIGNAL + signal; payload: struct
                                  dz_frame_exited, the message */
    DZ_FRAME_ACTIVITY = 30,    /* payload: struct dz_frame_activity */
    DZ_FRAME_USED = 31,        /* payload: as in NEST_WARM */
    DZ_FRAME_OP_DATA = 56,     /* payload */
    DZ_FRAME_OP_WINDOW = 57,   /* value: how many more bytes it takes */
    DZ_FRAME_OP_DONE = 58,     /* value: the result; or DZ_E*, payload: the message */
    DZ_FRAME_FULL =
        60, /* nothing can be committed, the disk is full: the machine waits, and tries again from
               time to time; this frame comes again, too. payload: the message */
    DZ_FRAME_TOGETHER = 59, /* payload: several frames of the above, in their order */
    DZ_FRAME_BORN = 62,     /* the first frame of a forked cell; its credentials tell its pid */
    DZ_FRAME_STDERR = 61,   /* payload: text that a process wrote to standard error */
    /* from the pool to a zygote or the root zygote (cell_zygote.h) */
    DZ_FRAME_ZYGOTE_FORK = 64,  /* with the socket of a new cell; if the cell gets a cgroup and runs
                                   native programs, also with the socket of its gate: a byte on that
                                   says that the cell is in its cgroup */
    DZ_FRAME_ZYGOTE_IMAGE = 65, /* comes with the control socket of a new zygote, an image, its
                                 modules; payload: the hash of the image */
    DZ_FRAME_ZYGOTE_USER = 68,  /* the first to a zygote. value: the first of the ids, 0: none;
                                 stream: how many; payload: struct dz_zygote_user */
    DZ_FRAME_ZYGOTE_CALL =
        67, /* to the root zygote, with the socket of a call, its stop word and files. Then on that
               socket: stream: dz_call_id; payload: struct dz_call_head and the argument */
    DZ_FRAME_ZYGOTE_WARM = 66, /* payload: struct dz_zygote_warm, functions */
    /* from the zygotes to the pool */
    DZ_FRAME_ZYGOTE_FORKED = 72, /* from the root zygote. value: pid; or stream: errno */
    DZ_FRAME_ZYGOTE_CALLED =
        75, /* from the root zygote, on a call's socket. value: pid; or stream: errno */
    DZ_FRAME_ZYGOTE_READY = 73,  /* value: the fences that hold the zygote */
    DZ_FRAME_ZYGOTE_FAILED = 74, /* the last frame. value: -DZ_E*; payload: the message */
    /* frames of a call, from host to cell */
    DZ_FRAME_ANSWER = 32, /* stream: tag; value; payload */
    DZ_FRAME_CANCEL = 33, /* instead of an answer: the call is to end */
    /* frames of a call, from cell to host */
    DZ_FRAME_MESSAGE = 40, /* stream: tag; value; payload */
    DZ_FRAME_ASK = 41,     /* as MESSAGE; the host replies with ANSWER or CANCEL */
    DZ_FRAME_REPLY = 42,   /* payload: more bytes of the reply */
    DZ_FRAME_DONE = 43,    /* last. value: result or DZ_E*; stream: errno; payload: message */
};

/* No frame type is as large. The standard error of a jailed process is its socket, so text comes
 * over it as well: a packet that begins with a larger number, or is shorter than a number, is text
 * and received as WORDS. */
enum {
    DZ_FRAME_TYPES = 256,
};

struct dz_frame {
    uint32_t type, stream;
    uint64_t value;
    uint32_t size, reserved;
};
_Static_assert(sizeof(struct dz_frame) == 24, "the head of a frame");

/* In frames about a command, `stream` is exec << 2 | enum dz_cell_stream. The host numbers the
 * commands that it starts from 1 on; the cell numbers those that woke from DZ_EXEC_WOKEN on. */
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
    uint32_t live; /* how many commands woke with the machine */
};
struct dz_frame_live { /* the command's id with its NUL follows */
    uint64_t total;    /* bytes of output since the command's start */
    uint32_t exec;     /* handle << 2 | the stream that gets its input */
    uint32_t window;   /* how many bytes of input it takes */
    uint32_t id_size;
    int32_t pid; /* of the command's first process */
};
struct dz_frame_exited {
    int64_t cpu_ns;
    uint64_t total;      /* bytes of output since the command's start */
    uint32_t flags, pad; /* DZ_EXEC_TIMED_OUT */
};
/* The limits of the disk, which come with the frame ROOM. */
struct dz_frame_limits {
    uint64_t keep_free;  /* bytes of the host's file system that guests must leave free */
    uint64_t disk_bytes; /* the most that the files may take; 0: no limit */
};

struct dz_frame_activity {
    int64_t cpu_ns, wake_at;
    uint64_t bytes_in, bytes_out, memory_bytes, disk_bytes, net_in, net_out;
    uint32_t procs, pad;
};
struct dz_frame_net_in {
    struct dz_cell_address from;
    uint32_t port;
};
/* The payload of an EXEC. Strings with their NUL follow: id, program, cwd, user, argv, env,
 * preopens; then the bytes that the host keeps with the command. */
struct dz_exec_head {
    uint32_t flags; /* DZ_EXEC_TTY, _STDIN, _ATTACH, _BARE, _TRACE */
    uint16_t rows, cols;
    uint32_t argc, envc;
    int64_t cpu_ns;
    uint64_t output_bytes, keep_bytes;
    int64_t timeout_ns; /* 0: no limit */
    uint32_t spec_size, preopens;
};
/* The payload of an OP. The strings path, to and text follow, with their NULs. */
struct dz_op_args {
    uint64_t offset, length, limit;
    uint32_t mode, depth, flags, pad;
};
/* Reads consecutive strings, each with its NUL. */
struct dz_cursor {
    const char *at, *end;
};
const char *dz_cursor_string(struct dz_cursor *c); /* NULL: there is no further string */
/* `count` strings and a NULL, in one allocation that the caller frees. NULL: there are fewer. */
const char **dz_cursor_strings(struct dz_cursor *c, uint32_t count);

/* How many of `size` bytes fit into the next frame when the other side takes `window` bytes. */
static inline size_t dz_frame_piece(size_t window, size_t size)
{
    size_t n = window < size ? window : size;
    return n < DZ_CELL_FRAME_MAX ? n : DZ_CELL_FRAME_MAX;
}

/* Send a frame. 1: it was sent; 0: the socket is full (only without block); DZ_EIO. */
int dz_frame_send(int fd, const struct dz_frame *f, const void *payload, bool block,
                  struct dz_err *err);
/* Make a pair of sockets for frames. Both are nonblocking, so a process that writes to its end as
 * standard error never hangs; dz_frame_send() and dz_frame_receive() wait by poll(2). */
DZ_NODISCARD int dz_frame_pair(int ret_ends[2], struct dz_err *err);
/* Receive a frame into a buffer of DZ_CELL_FRAME_MAX bytes. 1: there was one; 0: there is none
 * (only without block). DZ_EIO: the other end has gone, or sent something invalid: descriptors, or
 * a packet longer than any frame. */
int dz_frame_receive(int fd, struct dz_frame *ret_frame, uint8_t *ret_payload, bool block,
                     struct dz_err *err);

/* The same for frames with descriptors. More than DZ_FRAME_FDS_MAX descriptors are invalid, and
 * closed. */
enum {
    DZ_FRAME_FDS_MAX = 3 + DZ_CELL_MODULES_MAX,
};
struct dz_frame_fds {
    int fds[DZ_FRAME_FDS_MAX];
    size_t count;
};
int dz_frame_receive_fds(int fd, struct dz_frame *ret_frame, uint8_t *ret_payload, bool block,
                         struct dz_frame_fds *ret_fds, struct dz_err *err);
/* Send again. 1: sent; 0: the socket is full; or DZ_E*. */
int dz_frame_send_fds(int fd, const struct dz_frame *head, const void *payload, const int *fds,
                      size_t count, struct dz_err *err);

/* Gathers the frames that a cell sends into few packets. Nothing else may send
 * on that socket. */
enum {
    DZ_OUT_MAX = 8192, /* gathers this many bytes; a larger frame is sent alone */
};
struct dz_frame_out {
    int fd;
    size_t len, count;
    uint8_t bytes[DZ_OUT_MAX];
};
/* 1: taken. 0: the socket is full (only without block), so the frame was not taken; after a flush,
 * frames still wait. DZ_EIO: the other end has gone. */
int dz_out_add(struct dz_frame_out *o, const struct dz_frame *f, const void *payload, bool block);
int dz_out_flush(struct dz_frame_out *o, bool block);

/* Limits of a cell. The rest of its jail is the same for all cells. */
enum {
    DZ_CELL_NOFILE = 256 + DZ_CELL_NET_MAX, /* descriptors */
    DZ_CELL_NOFILE_NATIVE = 16384, /* the same for a cell that runs native programs: each process
                                      and each mapped file has one */
    DZ_CELL_TASKS_NATIVE =
        4096 + 64,           /* threads of its guests and itself, in a cgroup of their own */
    DZ_CELL_CODE_MAX = 1000, /* every DZ_E* is above -DZ_CELL_CODE_MAX */
    /* processes of a zygote with all of its cells: the least and the most */
    DZ_CELL_PROCESSES_LEAST = 4096,
    DZ_CELL_PROCESSES_MOST = 1 << 16,
    /* Native programs of one cell may have this part of their zygote's processes, so that one
     * sandbox does not take what the others need. */
    DZ_CELL_PROCESSES_PART = 8,
};
struct dz_os_dirty;
struct dz_os_users;
/* What a cell needs to run native Linux programs: the processes in which they run (stub/), and the
 * runner (linux/). They are opened before the last fence of the jail, as that allows no fork. */
struct dz_cell_native {
    struct dz_linux *runner; /* NULL: it runs none */
    struct dz_stub *stub;
    uint32_t threads_max; /* of the guests, set before both are opened; 0: the most */
};
struct dz_cell_fence {
    uint64_t file_bytes;   /* the largest file */
    uint64_t memory_bytes; /* private memory; 0: no limit of its own */
    struct dz_os_dirty *
        *dirty; /* where to put a tracker of dirty pages; NULL: no tracker is wanted */
    struct dz_cell_native *native; /* to be opened; NULL: it runs no native programs */
    bool outlives;                 /* it keeps running when its host dies */
    bool net; /* a cell, which may have connections to the outside; a call has none */
    const struct dz_os_users *users; /* become `user`, which is one of these; NULL: keep the user */
    uint32_t user;
};
/* Close all descriptors but 0, 1, 2 and these, which are sorted here, and ignore the signals of a
 * terminal. fds[0] is the socket to the host and becomes standard error. 0 or a negative errno. */
int dz_cell_let_go(int *fds, size_t count);
/* An image or a module is open in several cells, so no cell may lock it. Move each descriptor of
 * these that is read-only to a number for which the jail refuses locks; -1 stays. DZ_EIO: one
 * cannot be moved. */
int dz_cell_part_shared(int *fds, size_t count, struct dz_err *err);
struct dz_zygote;
struct dz_os_jail_report;
/* Fill `calls`, which has room for DZ_CELL_CALLS_MAX, with the system calls that a cell may make;
 * returns how many. users: of a cell that becomes its tenant's user (NULL: it does not). zygote:
 * and those that a zygote needs. native: of a cell that runs native Linux programs, or of its
 * zygote.
 */
enum {
    DZ_CELL_CALLS_MAX = 256,
};
struct dz_os_syscall;
size_t dz_cell_calls(bool zygote, bool native, const struct dz_os_users *users,
                     struct dz_os_syscall *ret_calls);
/* How many processes a zygote may have with its cells: a quarter of what the machine may have. Ask
 * where /proc/sys can be read; the process of a guard (os_guard.h) cannot. */
uint64_t dz_cell_processes(void);
/* Enter the jail of a zygote: that of a cell, without the fences that would keep the zygote from
 * forking cells, and without those that each cell raises after the fork. The zygote becomes its
 * user (without users it keeps its own) with its limit of processes. fds: as in dz_cell_enter(). */
int dz_cell_enter_zygote(const struct dz_zygote *zygote, int *fds, size_t count,
                         struct dz_os_jail_report *ret_report, struct dz_err *err);
/* In a child of a zygote: enter the rest of the jail. native is opened if the zygote's cells run
 * native programs; else NULL. */
int dz_cell_enter_forked(const struct dz_zygote *zygote, struct dz_os_dirty **ret_dirty,
                         struct dz_cell_native *native, int *fds, size_t count, struct dz_err *err);
/* In a child that was just forked: close all descriptors but 0, 1, 2 and these, which are sorted
 * here (fds[0] as above), and enter the jail. After an error the child must exit. */
int dz_cell_enter(const struct dz_cell_fence *fence, int *fds, size_t count, struct dz_err *err);
/* Set err to "what: the cell was killed by ...", from a status of waitpid(). Returns an error. */
DZ_COLD int dz_cell_died(int status, const char *what, struct dz_err *err);
/* Has the other end of this socket been closed? */
bool dz_frame_gone(int fd);
/* Ask the kernel which process sent the next packet. The packet stays in the socket. 1: known; 0:
 * there is no packet yet; DZ_EIO: none will come; DZ_EINVAL: the packet has descriptors. The kernel
 * knows the sender only of packets that were sent after dz_frame_ask_sender(). */
struct dz_sender {
    pid_t pid; /* in our pid namespace */
    int pidfd; /* the caller closes it; -1: this kernel gives none (before Linux 6.5) */
};
void dz_frame_ask_sender(int fd, bool ask);
int dz_frame_sender(int fd, struct dz_sender *ret_sender);

/* Make the host's side for a socket whose other end a process has already. NULL: out of memory.
 * dz_cell_free() closes fd. */
struct dz_cell *dz_cell_adopt(int fd);

/* The first frame to a cell, with its descriptors. */
enum {
    DZ_START_VOLUME_FDS = 3,
    DZ_START_FDS_MAX = 3 + DZ_CELL_MODULES_MAX + DZ_START_VOLUME_FDS * DZ_CELL_VOLUMES_MAX,
    DZ_START_STRINGS_MAX = 4096,
    DZ_START_SIZE_MAX = 1 << 20,
};

struct dz_started_volume {
    int fd, wal_fd, again_fd; /* -1: none, or a database owns it */
    uint32_t number;
    bool readonly;
    uint64_t limit_bytes;
    const char *name, *path, *subpath;
};

/* The start as the cell reads it; strings point into `bytes`. */
struct dz_started {
    struct dz_buf bytes;
    size_t early; /* offset in `bytes` at which frames begin, which go to its end */
    int fds[DZ_START_FDS_MAX];
    size_t fd_count;
    int image_fd; /* -1: no image; fds[0] is the disk and fds[1] its WAL, -1: none */
    size_t module_first;
    uint64_t pack_at; /* where in its file the pack begins */
    const char *image_sha256, *policy;
    /* Each ends with NULL and is one allocation. */
    const char **env, **sleepers;
    struct dz_started_volume volumes[DZ_CELL_VOLUMES_MAX];
    size_t volume_count;
    enum dz_cell_asleep asleep;
    bool fresh, ephemeral, strict, readonly, volume, ends_with_main, go;
    bool net, net_resumes;
    uint32_t own4;
    int64_t clock_ns; /* 0: the time */
    bool forked;      /* the zygote has the image and its modules */
    uint32_t lock_wait_ms;
    uint32_t host_user;    /* the user that the cell becomes; 0: the one that it must */
    uint64_t memory_bytes; /* 0: as the policy says */
};
/* The frame in the form in which it is sent; fds are borrowed. forked: the cell has the image and
 * its modules already. */
struct dz_starting {
    struct dz_buf body;
    size_t size; /* bytes of the start; frames that the cell handles after it follow in body */
    int fds[DZ_START_FDS_MAX];
    size_t fd_count, own; /* the last `own` ones are passed with their locks, as the first two */
};
int dz_start_encode(const struct dz_cell_start *start, bool forked, struct dz_starting *ret,
                    struct dz_err *err);
/* Send this frame together with the start; false: there is no room. */
bool dz_start_add(struct dz_starting *s, const struct dz_frame *f, const void *payload);
/* Send the first packet with the descriptors. Where the body is longer than DZ_CELL_FRAME_MAX
 * bytes, the rest follows in START frames, which wait if the socket is full. Never blocks. */
int dz_start_send(int fd, const struct dz_starting *s, struct dz_err *err);
int dz_start_receive(int fd, struct dz_started *ret_started, struct dz_err *err);
void dz_started_release(struct dz_started *s);

/* Files that the host writes to the disk before the machine goes up. */
struct dz_vfs;
struct dz_put {
    struct dz_vfs *vfs;
    uint64_t ino, at; /* the file that is being written; 0: none */
};
/* Handle a frame DIR, LINK, FILE or DATA. A NUL follows the payload. */
int dz_put_frame(struct dz_put *p, const struct dz_frame *f, const char *payload,
                 struct dz_err *err);
void dz_put_release(struct dz_put *p);
/* Make the directories above the last component that are missing. 0 or a negative errno. */
int dz_put_above(struct dz_vfs *v, uint64_t root, const char *path);

/* Find a user of the machine: a name of its /etc/passwd, or "UID[:GID]". */
struct dz_user {
    uint32_t uid, gid, group_count, groups[16];
    char home[256];
};
int dz_user_find(struct dz_vfs *vfs, const char *text, struct dz_user *ret_user,
                 struct dz_err *err);

/* The cell itself, in its jail: serves the socket until it is told to end. Never returns. */
DZ_NORETURN void dz_cell_serve(int fd, struct dz_os_dirty *dirty, struct dz_cell_native *native,
                               struct dz_zygote *zygote);

struct dz_vfs_pack;
/* Find the image's pack among these descriptors, each at the offset `at` of its file, and map it.
 * *ret_fd is -1 if there is none. */
int dz_pack_among(const int *fds, size_t count, uint64_t at, struct dz_vfs_pack *ret_pack,
                  int *ret_fd, struct dz_err *err);

struct dz_modules;
struct dz_machine_program;
struct dz_vfs_attr;
struct dz_wasm_module;
struct dz_modules_of {
    struct dz_vfs *vfs;
    struct dz_db *image; /* the image below the file, or NULL */
    int pack_fd;         /* the descriptor among `fds` that is no module; -1: all are */
};
/* Modules by their hash: those that were prepared, and those that this cell compiled. */
int dz_modules_new(const int *fds, size_t count, const struct dz_modules_of *of,
                   struct dz_modules **ret_modules, struct dz_err *err);
void dz_modules_free(struct dz_modules *m);
/* Give the modules that a zygote opened ahead the disk of one of its cells. */
void dz_modules_use(struct dz_modules *m, struct dz_vfs *vfs);
/* In a zygote: open all of them ahead (of->vfs is NULL). */
int dz_modules_open_all(struct dz_modules *m, struct dz_err *err);
/* Find a module of which functions were translated since the last call: returns its hash and at
 * most *count functions, and sets *count to their number (dz_wasm_tell()). */
bool dz_modules_used(struct dz_modules *m, uint8_t ret_sha256[static 32], uint32_t *ret_funcs,
                     size_t *count);
/* Translate these functions of the module with this hash; functions that it does not have are
 * ignored. */
void dz_modules_warm(struct dz_modules *m, const uint8_t *sha256, const uint32_t *funcs,
                     size_t count);
/* module_get and module_put of the kernel's operations; arg is a struct dz_modules *. */
int dz_modules_get(struct dz_modules *m, uint64_t ino, const struct dz_vfs_attr *attr,
                   struct dz_wasm_module **ret_module, struct dz_err *err);
/* The memory of the machine that sleeps in the image of this hash; NULL: the host did not pass it.
 */
const uint8_t *dz_modules_base(const struct dz_modules *m, const uint8_t *image_sha256,
                               size_t *ret_size);
/* map_image of the kernel's operations, and base_map of the machine's. */
bool dz_modules_map(const struct dz_modules *m, void *at, const uint8_t *image, size_t size);
void dz_modules_ref(struct dz_modules *m, struct dz_wasm_module *module);
void dz_modules_put(struct dz_modules *m, struct dz_wasm_module *module);
/* dz_machine_ops.module_get, for a wake: the module of this hash, from the prepared ones, from its
 * inode, or compiled from its bytes. DZ_ENOENT. */
int dz_modules_thaw(struct dz_modules *m, const struct dz_machine_program *program,
                    struct dz_wasm_module **ret_module, struct dz_err *err);
/* The inode that still holds exactly this module's bytes; 0: none does. */
uint64_t dz_modules_ino(struct dz_modules *m, const struct dz_wasm_module *module);

#endif
