/* SPDX-License-Identifier: MIT
 *
 * kernel_state.h - the objects of the kernel, in memory and in the rows of a saved machine.
 *
 * Every object is a row of a bounded table. A row is plain data: no pointer, no padding that
 * matters, references to other rows are indices (0 = none). Bytes of varying length (the content of
 * a pipe, argv, a descriptor table) are blobs, rows of one more table whose content
 * dz_kernel_blob() gives. What cannot be data (the engine's instance, the module) is in struct
 * dz_task and is made again after a thaw.
 *
 * A process holds what its threads share. A thread (struct dz_thread) is what is scheduled, parked
 * and woken. Threads and processes share one space of numbers.
 *
 * Two kinds of field are derived and need not be right in a saved row: links of queues and hashes
 * (marked "link"), and waiters. Waiters are not saved, because a call that waits is restartable:
 * dz_kernel_thaw() makes every parked process runnable, each asks again with the same arguments and
 * its absolute deadline, and parks again.
 */
#ifndef DZ_KERNEL_STATE_H
#define DZ_KERNEL_STATE_H

#include <stdint.h>

/* ---- limits -------------------------------------------------------------- */

enum {
    DZ_KERNEL_PROCS_MAX = 2048,
    DZ_KERNEL_PROCS_SPARE = 16,  /* processes beyond the limit, for what the embedder starts */
    DZ_KERNEL_FILES_MAX = 16384, /* open file descriptions */
    DZ_KERNEL_PIPES_MAX = 2048,
    DZ_KERNEL_PTYS_MAX = 64,
    DZ_KERNEL_STREAMS_MAX = 256,
    DZ_KERNEL_JOBS_MAX = 256,
    DZ_KERNEL_BLOBS_MAX = 32768,
    DZ_KERNEL_WAITERS_MAX = 65536,
    DZ_KERNEL_THREADS_MAX = 4096,
    DZ_KERNEL_EPITEMS_MAX = 65536,        /* descriptors that all epolls watch */
    DZ_KERNEL_EPOLL_DEPTH = 5,            /* epolls that watch epolls */
    DZ_KERNEL_SOCKETS_MAX = 16384,        /* a closed one counts while other rows name it */
    DZ_KERNEL_MESSAGES_MAX = 16384,       /* in all sockets' queues */
    DZ_KERNEL_IN_FLIGHT_MAX = 16384,      /* descriptors in those messages */
    DZ_KERNEL_SCM_FDS_MAX = 253,          /* descriptors in one message */
    DZ_KERNEL_IPCS_MAX = 4096,            /* System V objects, of each kind */
    DZ_KERNEL_TIMERS_MAX = 8192,          /* POSIX timers of all processes */
    DZ_KERNEL_SEMUNDOS_MAX = 16384,       /* processes with SEM_UNDO operations, for each set */
    DZ_KERNEL_MSGMAX = 8192,              /* bytes of a message in a System V queue, */
    DZ_KERNEL_MSGMNB = 16384,             /* and of all messages of a queue by default; */
    DZ_KERNEL_QUEUE_MAX = 1 << 24,        /* the most that root can set */
    DZ_KERNEL_SEMMSL = 32000,             /* semaphores of a set */
    DZ_KERNEL_SEMOPM = 500,               /* operations of one semop */
    DZ_KERNEL_SEMVMX = 32767,             /* the highest value */
    DZ_KERNEL_SHM_PAGE = 4096,            /* shared memory has whole pages */
    DZ_KERNEL_INOTIFIES_MAX = 1024,       /* instances of inotify */
    DZ_KERNEL_WATCHES_MAX = 65536,        /* of all instances */
    DZ_KERNEL_INOTIFY_EVENTS_MAX = 16384, /* that wait in one instance */
    DZ_KERNEL_MQUEUES_MAX = 4096,         /* POSIX message queues, */
    DZ_KERNEL_MQ_QUEUES_MAX = 256,        /* the most that an unprivileged process makes; */
    DZ_KERNEL_MQ_MSG_MAX = 10,        /* messages of a queue, by default and for such a process, */
    DZ_KERNEL_MQ_SIZE_MAX = 8192,     /* and bytes of a message */
    DZ_KERNEL_SIGINFOS_MAX = 8192,    /* pending signals with the content of their siginfo_t */
    DZ_KERNEL_FDS_MAX = 65536,        /* of one process: the hard limit of RLIMIT_NOFILE */
    DZ_KERNEL_PID_MAX = 32768,        /* pids are below */
    DZ_KERNEL_SIGNALS = 64,           /* 1..64 */
    DZ_KERNEL_HANDLERS_MAX = 16,      /* nested handlers; further signals wait */
    DZ_KERNEL_GROUPS_MAX = 16,        /* supplementary groups */
    DZ_KERNEL_ARGS_MAX = 256 * 1024,  /* bytes of argv and of environ, each */
    DZ_KERNEL_ARG_COUNT_MAX = 65536,  /* strings of argv and of environ, each */
    DZ_KERNEL_SCRIPT_DEPTH_MAX = 4,   /* scripts that name scripts as interpreter */
    DZ_KERNEL_SCRIPT_LINE_MAX = 256,  /* bytes of a "#!" line */
    DZ_KERNEL_PIPE_SIZE = 65536,      /* bytes in a pipe, at first, */
    DZ_KERNEL_PIPE_MAX = 1 << 20,     /* and at most */
    DZ_KERNEL_PIPE_BUF = 4096,        /* a write up to this is all or nothing */
    DZ_KERNEL_STREAM_SIZE = 65536,    /* bytes that wait in a stream, each way */
    DZ_KERNEL_TTY_IN = 4096,          /* bytes of input a terminal holds (MAX_CANON) */
    DZ_KERNEL_TTY_OUT = 8192,         /* bytes of output it holds for the master */
    DZ_KERNEL_POLL_MAX = 1024,        /* descriptors in one poll of WebAssembly */
    DZ_KERNEL_IOV_MAX = 1024,         /* pieces of one readv or writev */
    DZ_KERNEL_SLICE_NS = 5000000,     /* longest time slice */
    DZ_KERNEL_SYNTH_MAX = 8192 << 10, /* bytes of a file in /proc */
    DZ_KERNEL_RLIMITS = 16,
    DZ_KERNEL_FUTEXES_MAX = 128,     /* of one futex_waitv */
    DZ_KERNEL_ROBUST_MAX = 2048,     /* entries of a robust list that are handled */
    DZ_KERNEL_STACK_SLOTS = 1 << 19, /* of the engine, for each process */
};

/* ---- nodes --------------------------------------------------------------- */

/* Which file system a node is in. */
enum dz_kernel_fs {
    DZ_KERNEL_FS_DISK = 0, /* ino is the disk's */
    DZ_KERNEL_FS_PROC = 1, /* kernel_procfs.c composes ino */
    DZ_KERNEL_FS_DEV = 2,  /* kernel_devfs.c */
    DZ_KERNEL_FS_SYS = 3,  /* kernel_sysfs.c */
};
struct dz_node {
    uint64_t ino;
    uint32_t fs; /* enum dz_kernel_fs */
    uint32_t pad;
};

/* ---- descriptors ----------------------------------------------------------- */

enum dz_file_kind {
    DZ_FILE_NONE = 0,
    DZ_FILE_DISK = 1,   /* regular file, or a directory, of the disk */
    DZ_FILE_PIPE = 2,   /* obj: pipe; also a FIFO */
    DZ_FILE_PTM = 3,    /* obj: pty, master side */
    DZ_FILE_PTS = 4,    /* obj: pty, the terminal */
    DZ_FILE_DEVICE = 5, /* obj: enum dz_device */
    DZ_FILE_STREAM = 6, /* obj: stream to or from the outside */
    DZ_FILE_SYNTH = 7,  /* obj: blob with the text of a file of /proc; 0: not read yet */
    DZ_FILE_DIR = 8,    /* directory of /proc, /dev or /sys; node identifies it */
    DZ_FILE_PIDFD = 9,  /* obj: number of the process; pos: dz_proc.lock_owner */
    DZ_FILE_EPOLL = 10,
    DZ_FILE_EVENTFD = 11,  /* pos: its count; obj: EFD_SEMAPHORE or 0 */
    DZ_FILE_TIMERFD = 12,  /* obj: its clock; pos: expiries not read yet */
    DZ_FILE_SIGNALFD = 13, /* pos: its mask */
    DZ_FILE_SOCKET = 14,   /* obj: socket */
    DZ_FILE_INOTIFY = 15,  /* obj: instance */
    DZ_FILE_MQUEUE = 16,   /* obj: queue; pos: bytes read of its status */
    DZ_FILE_HINT = 17,     /* /proc/doze; obj: events of kernel_hint.c */
};
enum dz_device {
    DZ_DEVICE_NULL = 1,
    DZ_DEVICE_ZERO = 2,
    DZ_DEVICE_FULL = 3,
    DZ_DEVICE_RANDOM = 4,
    DZ_DEVICE_URANDOM = 5,
};

/* An open file description, which descriptors share after dup and fork. */
struct dz_file {
    uint32_t used, index;
    uint32_t refs; /* descriptors, of all processes */
    uint32_t kind; /* enum dz_file_kind */
    uint32_t obj;
    uint32_t flags;      /* O_ACCMODE, O_APPEND, O_NONBLOCK, O_SYNC, O_PATH of open(2) */
    struct dz_node node; /* the file; a pipe without a name: ino 0 */
    uint64_t pos;        /* offset, or a directory's cookie */
    uint64_t locks;      /* owner number of flock(2) locks: unique, never reused */
    uint32_t path;       /* blob: the path as it was opened, for /proc/PID/fd; 0 = none */
    uint32_t dir_synth;  /* entries of a synthetic directory given so far (with pos) */
    uint32_t flocked;    /* has ever held a flock(2) lock */
    uint32_t seals;      /* F_SEAL_* of a memfd, with DZ_SEAL_MEMFD; all descriptions of it agree */
    int64_t timer_at;    /* TIMERFD: kernel time when it expires next; 0 = off */
    int64_t timer_every; /* ns; 0 = once */
    uint32_t sig;        /* F_SETSIG; 0: SIGIO */
    uint32_t owner_kind; /* F_OWNER_*, */
    int32_t owner;       /* and its number; 0: nobody */
    uint32_t lease, lease_to; /* kernel_lease.c */
    int32_t lease_fd;         /* the descriptor that its signal names */
    int64_t lease_until;      /* being broken: kernel time when it is taken away */

    uint32_t wait_r, wait_w; /* link: waiters; of kinds that have no row of their own */
    uint32_t watched;        /* link: items of epoll that watch it */
    uint32_t items;          /* link: EPOLL: its items */
    uint32_t walk, level;    /* link: EPOLL: the last walk that reached it, and its depth */
};
#define DZ_SEAL_MEMFD (1u << 31)

/* An item of an epoll: a description, and the descriptor under which it was added. */
struct dz_epitem {
    uint32_t used, index;
    uint32_t epoll, file; /* descriptions */
    int32_t fd;
    uint32_t events; /* EPOLL*; 0: disabled by EPOLLONESHOT */
    uint64_t data;
    uint32_t hot; /* an event came since it was last found not ready, or reported */

    uint32_t next_item, next_watch; /* link: of the epoll, of the file */
    uint32_t ready_order; /* link: items are reported in the order in which they became hot */
    uint32_t waiters;     /* link */
    uint32_t pad;
};

/* A slot of a process's descriptor table (blob dz_proc.fds). */
enum {
    DZ_FD_CLOEXEC = 1,
};
struct dz_fd {
    uint32_t file; /* 0 = free */
    uint32_t flags;
    uint64_t rights, inherit; /* kept for WASI; both ~0 at first */
    uint32_t preopen;         /* blob: the name of a WASI preopen; 0 = none */
    uint32_t reserved;
};

struct dz_pipe {
    uint32_t used, index;
    uint32_t readers, writers; /* open file descriptions */
    uint32_t opens; /* number of opens of a FIFO: a wait for the peer ends when it changes */
    uint32_t reader_opens, writer_opens;
    uint32_t blob;           /* ring of DZ_KERNEL_PIPE_SIZE bytes; 0 until written to */
    uint32_t head, len;      /* ring */
    uint64_t ino;            /* number in stat; of a FIFO the disk's inode */
    uint32_t fifo;           /* has a name on the disk */
    uint32_t size;           /* as F_SETPIPE_SZ set it; 0: DZ_KERNEL_PIPE_SIZE */
    uint32_t wait_r, wait_w; /* link: waiters */
    int64_t atime, mtime, ctime;
};

/* ---- sockets ------------------------------------------------------------------ */

enum dz_socket_state {
    DZ_SOCKET_CLOSED = 0, /* not connected */
    DZ_SOCKET_LISTENING = 1,
    DZ_SOCKET_CONNECTED = 2,
    DZ_SOCKET_CONNECTING = 3, /* TCP: the listener's queue is full */
};
enum { /* dz_socket.shut: directions that are shut down */
    DZ_SOCKET_SHUT_RD = 1,
    DZ_SOCKET_SHUT_WR = 2,
    DZ_SOCKET_SHUT_BOTH = 3,
};
enum { /* dz_socket.options */
    DZ_SOCKET_PASSCRED = 1,
    DZ_SOCKET_REUSEADDR = 2,
    DZ_SOCKET_KEEPALIVE = 4,
    DZ_SOCKET_BROADCAST = 8,
    DZ_SOCKET_REUSEPORT = 16,
    DZ_SOCKET_OOBINLINE = 32,
    DZ_SOCKET_DONTROUTE = 64,
    DZ_SOCKET_LINGER = 128, /* seconds: dz_socket.linger */
    DZ_SOCKET_NODELAY = 256,
    DZ_SOCKET_CORK = 512,
    DZ_SOCKET_V6ONLY = 1024,
    DZ_SOCKET_PKTINFO = 2048,  /* IP_PKTINFO, */
    DZ_SOCKET_PKTINFO6 = 4096, /* IPV6_RECVPKTINFO */
    DZ_SOCKET_RECVERR = 8192,  /* IP_RECVERR, */
    DZ_SOCKET_RECVERR6 = 16384,
    DZ_SOCKET_OPTIONS = 32767,
};
enum {                     /* dz_socket.inet: what the net knows about a socket besides its state */
    DZ_INET_ADDR_LOCK = 1, /* bind(2) named the address, */
    DZ_INET_PORT_LOCK = 2, /* or the port: the socket keeps both after a connection */
    DZ_INET_PENDING = 4,   /* connect(2) has begun and has not reported its end */
    DZ_INET_ATTACHED = 8,  /* connect(2) has succeeded, or accept(2) made the socket */
    DZ_INET_FIN_SENT = 16,
    DZ_INET_FIN_SEEN = 32,
    DZ_INET_HAS_PORT = 64, /* the port of the local address is the socket's; else it was */
    DZ_INET_OUTSIDE = 128, /* the other end is, or was, outside of the machine */
    DZ_INET_FLAGS = 255,
};
enum {
    DZ_SOCKET_NAME_MAX = 109, /* bytes of sun_path, with a NUL after a path that fills it */
    DZ_SOCKET_CHUNK = 32768,  /* bytes of one message of a stream */
    DZ_SOCKET_COST = 768,     /* overhead of a message in SO_SNDBUF */
    DZ_SOCKET_BUF = 212992,   /* default of SO_SNDBUF and SO_RCVBUF, half of the maximum */
    DZ_SOCKET_SNDBUF_MIN = 4608,
    DZ_SOCKET_RCVBUF_MIN = 2304,
    DZ_SOCKET_BACKLOG_MAX = 4096,
    DZ_SOCKET_DATAGRAMS = 10, /* more in a queue stop senders that are not its peer */
    DZ_SOCKET_VALUES = 16,    /* options of the net that are numbers */
};

/* An end of a connection in the net: IPv6 in host order; IPv4 as ::ffff:a.b.c.d. */
struct dz_inet {
    uint64_t hi, lo;
    uint32_t port; /* 0 = none */
    uint32_t pad;
};

/* Credentials as SO_PEERCRED and SCM_CREDENTIALS report them. No sender: 0, UINT32_MAX,
 * UINT32_MAX. */
struct dz_ucred {
    int32_t pid;
    uint32_t uid, gid;
};

/* The row stays while its description, a listener's queue, a peer or a message names it. Each
 * non-dead socket has either one description or a listener that has not accepted it yet. */
struct dz_socket {
    uint32_t used, index;
    uint32_t family, type, protocol; /* AF_UNIX, AF_INET, AF_INET6; SOCK_* of Linux */
    uint32_t state;                  /* enum dz_socket_state */
    uint32_t shut;                   /* DZ_SOCKET_SHUT_* */
    uint32_t dead;                   /* closed, but other rows name it */
    uint32_t peer;                   /* socket; 0 = none. A stream keeps it, dead or not */
    uint32_t listener;               /* socket that has not accepted it yet */
    uint32_t name;                   /* blob: the bytes of sun_path; 0 = none */
    uint32_t bound;                  /* found by that name; else the name is its listener's */
    uint64_t ino;                    /* bound to a path: its inode on the disk */
    uint64_t number;                 /* inode number in stat, unique among sockets */
    uint64_t order;                  /* position in the listener's queue, lowest first */
    uint32_t backlog;
    uint32_t error;   /* errno for SO_ERROR and the next call */
    uint32_t options; /* DZ_SOCKET_PASSCRED, ... */
    uint32_t sndbuf, rcvbuf;
    struct dz_ucred peer_cred;
    int64_t rcvtimeo, sndtimeo; /* ns; 0 = none */
    struct dz_inet local, remote;
    uint32_t inet;                    /* DZ_INET_* */
    uint32_t uid;                     /* of its creator */
    uint32_t linger;                  /* seconds */
    int32_t values[DZ_SOCKET_VALUES]; /* kernel_sock_opt.c: less the default of each */
    uint64_t generation;              /* kernel_outside.h: of the host's socket; 0: not open yet, */
    uint32_t channel;                 /* and its number; 0: the connection is not to the outside */

    uint32_t refs;                   /* link: recounted */
    uint32_t file;                   /* link: its description */
    uint32_t wmem;                   /* link: bytes and overhead of messages charged to it */
    uint32_t in_flight;              /* link: references to its description in messages */
    uint32_t head, tail, count;      /* link: queue of messages; of a listener, of sockets */
    uint32_t next;                   /* link: in the listener's queue */
    uint32_t wait_r, wait_w, wait_p; /* link: waiters; p: for room in its queue */
    uint32_t mark, mark_next;        /* link: kernel_sock_flight.c */
    uint32_t pad;
};

/* A message in a queue: a datagram, or bytes of a stream. */
struct dz_message {
    uint32_t used, index;
    uint32_t socket, sender; /* sender: it is charged; for UDP the receiver itself */
    uint64_t order;          /* position in the queue, lowest first */
    uint32_t blob;           /* its bytes, from head on; 0 = none */
    uint32_t head, len;      /* len: bytes not read yet */
    uint32_t fds, fd_count;  /* blob of uint32_t: open file descriptions */
    struct dz_ucred cred;    /* of the sender; no sender: not requested */
    struct dz_inet from, to; /* UDP */

    uint32_t next; /* link: in the queue, or in the list of those to be freed */
    uint32_t pad;
};

/* ---- System V objects --------------------------------------------------------------- */

enum dz_ipc_kind {
    DZ_IPC_MSG = 1,
    DZ_IPC_SEM = 2,
    DZ_IPC_SHM = 3,
};
struct dz_ipc {
    uint32_t used, index;
    uint32_t kind; /* enum dz_ipc_kind */
    int32_t key;
    uint32_t number; /* id is number << 15 | index - 1 */
    uint32_t uid, gid, cuid, cgid;
    uint32_t mode;    /* permissions, SHM_DEST, SHM_LOCKED */
    uint32_t count;   /* messages; semaphores */
    int32_t cpid;     /* creator's pid */
    int32_t lpid[2];  /* pid of the last msgsnd, msgrcv; shmat or shmdt */
    uint32_t blob;    /* messages; semaphores: kernel_ipc.c */
    uint64_t bytes;   /* of all messages; of the memory */
    uint64_t limit;   /* of a queue: bytes, and messages */
    uint64_t ino;     /* the disk's inode that holds the memory */
    int64_t times[2]; /* s: msgsnd, msgrcv; semop; shmat, shmdt */
    int64_t ctime;    /* s */
    uint32_t wait_r;  /* link: waiters for a message or a semaphore */
    uint32_t wait_w;  /* link: waiters for room */
};
struct dz_sem {
    uint16_t value, pad;
    int32_t pid; /* pid of the last change */
};
/* What a process undoes in a set when it ends (SEM_UNDO): blob of int16_t for each semaphore. */
struct dz_semundo {
    uint32_t used, index;
    uint32_t proc, ipc, blob;
    uint32_t pad;
};

/* ---- inotify ----------------------------------------------------------------------------- */

struct dz_inotify {
    uint32_t used, index;
    uint32_t blob;         /* events: kernel_inotify.c; 0 = none */
    uint32_t head, len;    /* bytes of them in the blob */
    uint32_t count;        /* of them */
    uint32_t last_size;    /* bytes of the last of them */
    uint32_t lost;         /* events were dropped behind them */
    int32_t last_wd;       /* the last watch's number */
    uint32_t first;        /* link: its watches */
    uint32_t file, wait_r; /* link */
};
struct dz_watch {
    uint32_t used, index;
    uint32_t inotify;
    int32_t wd; /* its number in the instance */
    struct dz_node node;
    uint32_t mask;            /* IN_* */
    uint32_t next, next_node; /* link: of the instance, of the node's hash */
    uint32_t pad;
};

/* ---- POSIX message queues ------------------------------------------------------------------ */

struct dz_mqueue {
    uint32_t used, index;
    uint32_t name; /* blob, with its NUL; 0: removed */
    uint32_t uid, gid, mode;
    uint32_t user;      /* whose RLIMIT_MSGQUEUE counts it */
    uint32_t max, size; /* messages; bytes of one */
    uint32_t count;     /* messages */
    uint32_t blob;      /* messages: kernel_mqueue.c; 0 = none yet */
    uint32_t notify;    /* SIGEV_* */
    int32_t notify_pid, notify_signo;
    uint64_t notify_owner; /* dz_proc.lock_owner of the process to be notified; 0: none */
    uint64_t notify_value;
    uint64_t bytes;  /* of all messages */
    uint64_t number; /* inode number in stat */
    int64_t atime, mtime, ctime;
    uint32_t opens;          /* link: descriptions */
    uint32_t wait_r, wait_w; /* link: waiters */
    uint32_t pad;
};

/* ---- terminals ---------------------------------------------------------------- */

enum {
    DZ_TTY_NCCS = 32
};
/* struct termios of Linux, 60 bytes: guests read and write it as it is. */
struct dz_termios {
    uint32_t iflag, oflag, cflag, lflag;
    uint8_t line;
    uint8_t cc[DZ_TTY_NCCS];
    uint8_t pad[3];
    uint32_t ispeed, ospeed;
};
struct dz_winsize {
    uint16_t rows, cols, xpixel, ypixel;
};
struct dz_pty {
    uint32_t used, index; /* /dev/pts/(index - 1) */
    uint32_t masters;     /* open descriptions of the master */
    uint32_t slaves;      /* open descriptions of the terminal */
    uint32_t stream;      /* the stream that is the master outside; 0 = a guest's /dev/ptmx */
    uint32_t locked;      /* TIOCSPTLCK */
    uint32_t hungup;
    uint32_t opened;       /* the terminal side has been open once */
    int32_t session, pgrp; /* controlling session and its foreground group; 0 = none */
    struct dz_termios termios;
    struct dz_winsize size;
    uint32_t uid, gid, mode;
    uint32_t stopped;   /* output stopped by VSTOP */
    uint32_t lnext;     /* the next byte is taken literally */
    uint32_t column;    /* of the cursor, for tabs and erasing */
    uint32_t canon_col; /* column where the line being edited began */
    uint32_t lines;     /* delimiters in input: complete lines and ends of file */
    uint32_t head, len; /* input ring of DZ_KERNEL_TTY_IN bytes, the edited line at its end */
    uint32_t edit;      /* bytes of the line still being edited, the last ones of len */
    uint32_t in, marks; /* blobs: the ring, and one byte of marks for each of its bytes */
    uint32_t out;       /* blob: ring of output for the master */
    uint32_t out_head, out_len;
    uint32_t wait_in, wait_out, wait_master; /* link: waiters */
    int64_t atime, mtime;
};

/* ---- the outside ----------------------------------------------------------------- */

enum {
    DZ_STREAM_IN = 1,  /* guests read what the embedder pushed */
    DZ_STREAM_OUT = 2, /* guests write, the embedder takes */
    DZ_STREAM_PTY = 4, /* is the master of pty `pty` */
};
struct dz_stream {
    uint32_t used, index;
    uint32_t gen;  /* the handle is gen << 16 | index */
    uint32_t kind; /* DZ_STREAM_* */
    uint32_t pty;
    uint32_t files;   /* open descriptions */
    uint32_t in_eof;  /* the embedder has signalled the end of input */
    uint32_t closed;  /* 1: the embedder has left: writes give EPIPE; 2: output is discarded */
    uint32_t blocked; /* output was refused: wait for dz_kernel_stream_ready() */
    uint32_t in, in_head, in_len; /* blob and ring */
    uint32_t out, out_head, out_len;
    uint64_t tag;                 /* the embedder's */
    uint64_t in_total, out_total; /* bytes, ever */
    uint64_t missing;             /* lines of a trace for which there was no room */
    uint32_t wait_r, wait_w;      /* link: waiters */
};

/* ---- jobs: processes that the embedder started -------------------------------------- */

enum dz_job_end {
    DZ_JOB_RUNNING = 0,
    DZ_JOB_EXITED = 1,    /* status is what wait(2) gives */
    DZ_JOB_LIMIT_CPU = 2, /* stopped; the values below also name a reason */
    DZ_JOB_LIMIT_OUTPUT = 3,
    DZ_JOB_FAILED = 4, /* the host could not run it further, or killed it */
    DZ_JOB_LIMIT_MEMORY = 5,
    DZ_JOB_TRAPPED = 256, /* and above: dz_task.trap names the fault; status names the signal */
};
struct dz_job {
    uint32_t used, index;
    uint32_t gen;   /* the handle is gen << 16 | index */
    int32_t leader; /* pid of the process that was started */
    uint32_t procs; /* alive, of the leader's descendants */
    uint32_t end;   /* enum dz_job_end, of the leader */
    int32_t status;
    uint32_t taken; /* dz_kernel_event() has reported it */
    uint32_t trace; /* stream that gets its processes' system calls as lines; 0 = none */
    uint64_t tag;
    uint64_t cpu_ns, cpu_limit_ns; /* limit 0 = none; it ends with the leader */
    uint64_t out_bytes, out_limit;
};

/* ---- processes ------------------------------------------------------------------------ */

enum dz_proc_state {
    DZ_PROC_LIVE = 1, /* it has threads, but for process 1 */
    DZ_PROC_ZOMBIE = 3,
};

enum dz_thread_state {
    DZ_THREAD_READY = 1, /* in the run queue, or running */
    DZ_THREAD_WAIT = 2,  /* parked in a call */
    DZ_THREAD_VFORK = 4, /* waits until its vfork child lets go of its memory */
};

/* Waits for a futex with priority inheritance. */
enum dz_futex_pi {
    DZ_FUTEX_PLAIN = 0,
    DZ_FUTEX_LOCK = 1, /* in the line of the lock; whoever unlocks it makes this thread its owner */
    DZ_FUTEX_COND = 2, /* in another line, until it is moved into the lock's */
};

struct dz_sigact {
    uint64_t handler; /* 0 default, 1 ignore, else the guest's number or address of it */
    uint64_t mask;
    uint64_t restorer; /* SA_RESTORER: where the handler returns to */
    uint32_t flags;    /* SA_* */
    uint32_t pad;
};

/* A pending signal with the content of its siginfo_t. A signal may be pending without such a row,
 * if there was no room for one: it then counts as SI_USER from nobody, as on Linux. */
struct dz_siginfo {
    uint32_t used, index;
    uint32_t proc;   /* receiving process */
    uint32_t thread; /* receiving thread; 0: any */
    int32_t signo, code;
    int32_t pid; /* sender, or child */
    uint32_t uid;
    int32_t status; /* of a child */
    uint32_t owner; /* user whose limit it counts against */
    uint64_t addr, value;
    uint64_t order; /* among two of one signal, the lower came first */
};

enum {
    DZ_CALL_BEGUN = 1,     /* its first issue has set the fields below */
    DZ_CALL_NORESTART = 2, /* a handler ends it, even with SA_RESTART */
    DZ_CALL_SIGWAIT = 4,   /* waits for the signals in `done`, blocked or not */
    DZ_CALL_SEMOP = 8,     /* waits for the semaphore in `done` */
    DZ_CALL_LOCK = 16,     /* waits for a lock of the owner in `result` */
    DZ_CALL_LEASE = 64,    /* waits for leases on the file that it opens or truncates */
    DZ_CALL_MQUEUE = 32,   /* waits for a message of the queue in `done` */
    DZ_CALL_RESTART = 256, /* EINTR is never returned: a handler's call is repeated */
    DZ_CALL_HELD = 128,    /* not issued yet: waits for room in the stream of its trace */
};
/* A call that was parked: the state that its next issue continues from. */
struct dz_call {
    uint32_t parked;  /* the next call of this thread repeats it */
    uint32_t intr;    /* a handler ran meanwhile: answer EINTR */
    uint32_t flags;   /* DZ_CALL_* */
    uint32_t masked;  /* restore `mask` when the call ends */
    int64_t deadline; /* kernel time, ns; INT64_MAX = none */
    uint64_t done;    /* bytes already moved; or state of the call */
    uint64_t mask;
    int64_t result; /* for fork and vfork; or more state of the call */
};

/* A running handler on top of the program. */
struct dz_handler {
    uint64_t mask; /* restored when it returns */
    uint32_t signo;
    uint32_t pad;
};

struct dz_itimer {
    int64_t interval; /* ns */
    int64_t value;    /* real: deadline in kernel time; virtual, prof: CPU ns at which; 0 = off */
};

/* A POSIX timer; its number is index - 1. */
struct dz_timer {
    uint32_t used, index;
    uint32_t proc;
    int32_t clock, cpu_tid; /* CLOCK_*; the thread of CLOCK_THREAD_CPUTIME_ID */
    uint32_t notify;        /* SIGEV_* */
    int32_t signo, tid;     /* to this thread; 0 = to the process */
    uint32_t overrun;       /* overrun of the last signal, */
    uint32_t told;          /* and of the last one that was taken */
    uint32_t waits;         /* its signal is pending */
    uint64_t value;
    int64_t at;    /* next expiry, kernel time or CPU ns */
    int64_t every; /* ns; 0 = once */
    uint32_t on;   /* armed */
};

enum {
    DZ_PROC_STOPPED = 1,     /* job control: not scheduled */
    DZ_PROC_STOP_NEWS = 2,   /* the parent has not been notified of the stop */
    DZ_PROC_CONT_NEWS = 4,   /* nor of the continuation */
    DZ_PROC_EXECED = 8,      /* has called exec: setpgid by the parent is refused */
    DZ_PROC_VFORKED = 16,    /* shares its parent's memory, while the parent waits */
    DZ_PROC_EXEC_READY = 64, /* the new program is loaded: swap at the safepoint */
    DZ_PROC_EXITING = 128,
    DZ_PROC_INIT = 256,          /* pid 1: no program */
    DZ_PROC_STARTING = 512,      /* a module's start function runs before _start */
    DZ_PROC_LEADER = 2048,       /* of its job */
    DZ_PROC_INITIALIZING = 4096, /* a reactor's _initialize runs before its entry */
    DZ_PROC_LED = 8192,          /* its first thread has ended; exit_code is set */
    DZ_PROC_CAPS = 16384,        /* caps is valid; else capabilities follow from the ids */
    DZ_PROC_FSUID = 32768,       /* fsuid is valid; else it is euid */
    DZ_PROC_FSGID = 65536,       /* fsgid is valid; else it is egid */
    DZ_PROC_SUBREAPER = 131072,  /* adopts orphaned descendants */
    DZ_PROC_SECRET = 262144,     /* PR_SET_DUMPABLE 0 */
};
/* Sets of capabilities, bit n for number n. */
struct dz_capsets {
    uint64_t effective, permitted, inheritable, ambient;
    uint64_t unbounded; /* not in the bounding set */
};
enum {
    DZ_CAPABILITY_LAST = 40, /* CAP_CHECKPOINT_RESTORE */
};
enum {
    DZ_PROC_SILENT = -1, /* dz_proc.exit_signal: none */
};

enum {
    DZ_THREAD_FORK_WANTED = 32, /* kernel_fork.c copies its process at the safepoint */
    DZ_THREAD_EXITING = 128,
    DZ_THREAD_VFORK_WANTED = 1024,
};

/* A thread. A WebAssembly process has one. */
struct dz_thread {
    uint32_t used, index;
    uint32_t proc;  /* its process */
    uint32_t state; /* enum dz_thread_state */
    uint32_t flags; /* DZ_THREAD_* */
    int32_t tid;    /* of the first thread of a process: its pid */
    uint64_t sig_mask, sig_pending;
    uint32_t depth; /* handlers running that the runner counts */
    uint32_t frame; /* blob: the runner's registers; 0 = it keeps them elsewhere */
    struct dz_handler handler[DZ_KERNEL_HANDLERS_MAX];
    struct dz_call call[DZ_KERNEL_HANDLERS_MAX + 1]; /* [depth] is the current one */
    uint64_t clear_tid; /* address that is zeroed and woken when it ends; 0 = none */
    uint64_t robust;    /* head of its list of robust futexes; 0 = none */
    uint64_t alt_stack, alt_size;
    uint32_t alt_flags;             /* SS_* */
    int32_t vfork_child;            /* pid, in state VFORK */
    uint64_t futex_space, futex_at; /* the futex that it waits for */
    uint64_t futex_order;           /* threads are woken in this order */
    uint32_t futex_all;             /* blob: the keys of the futexes of a futex_waitv; 0 = none */
    uint32_t futex_bits;            /* 0 = none, or it was woken */
    uint32_t futex_pi;              /* enum dz_futex_pi: it waits for a lock */
    uint64_t lock_space, lock_at;   /* of a wait with futex_pi: the lock's key, */
    uint64_t lock_word;             /* and its address for this thread */
    uint32_t policy;                /* SCHED_*, SCHED_RESET_ON_FORK */
    uint64_t cpus;                  /* the first 64 processors that it may use; 0 = all */
    uint64_t utime_ns, stime_ns;
    uint64_t timer_slack, timer_slack_first; /* PR_SET_TIMERSLACK, ns; 0 = never set */
    char comm[16]; /* its own name; "": the process's, always for the first thread */

    int64_t alarm_at;                       /* the current call's deadline; link */
    uint32_t run_next, run_prev, run_queue; /* link */
    uint32_t tid_next;                      /* link: hash */
    uint32_t next;                          /* link: of its process */
    uint32_t futex_next;                    /* link: hash */
    uint32_t waiters;                       /* link: what it waits for */
};

struct dz_proc {
    uint32_t used, index;
    uint32_t state; /* enum dz_proc_state */
    uint32_t flags; /* DZ_PROC_* */
    int32_t pid, ppid, pgid, sid;
    uint32_t uid, euid, suid, gid, egid, sgid;
    uint32_t group_count, groups[DZ_KERNEL_GROUPS_MAX];
    uint32_t tty; /* controlling terminal: pty, 0 = none */
    uint32_t umask;
    int32_t nice;
    uint32_t job;
    struct dz_node cwd, root;
    uint64_t exe;        /* the disk's inode of the program */
    char comm[16];       /* its name, cut */
    uint32_t argv, argc; /* blob: strings with their NULs */
    uint32_t envv, envc;
    uint32_t exe_path;      /* blob */
    uint32_t fds, fd_count; /* blob of struct dz_fd, and its slots */

    uint64_t sig_pending; /* sent to the process: delivered to any thread that does not block it */
    struct dz_sigact act[DZ_KERNEL_SIGNALS];
    uint32_t term_sig; /* the fatal signal: 0 = exits with exit_code */

    struct dz_itimer itimer[3];
    int64_t alarm_at; /* of itimer[0]; link */
    int64_t start_ns; /* kernel time */
    uint64_t utime_ns, stime_ns, child_utime_ns, child_stime_ns;
    uint64_t minflt, slices, maxrss;
    uint64_t mem_bytes; /* of its linear memories, counted in the machine's sum */
    uint64_t rlimit[DZ_KERNEL_RLIMITS][2];
    uint64_t lock_owner; /* owner of its fcntl(2) locks */

    int32_t exit_code; /* 0..255 */
    uint32_t stop_sig;
    int32_t exit_signal; /* signal to its parent at its end; 0: SIGCHLD; DZ_PROC_SILENT */
    uint32_t death_sig;  /* signal to it at its parent's end; 0 = none */

    uint64_t io[4]; /* bytes read and written, calls that read and wrote */
    struct dz_capsets caps;
    uint32_t fsuid, fsgid;
    uint32_t securebits, persona; /* of prctl(2) and personality(2) */
    uint32_t ioprio;              /* of ioprio_set(2) */
    int32_t oom_adj;              /* /proc/PID/oom_score_adj */

    uint32_t threads; /* link: the first one */
    uint32_t thread;  /* link: the current one, whose call is served */
    uint32_t fd_hint; /* link: no lower descriptor is free */
    uint32_t pad2;
    uint32_t pid_next;   /* link: hash */
    uint32_t wait_child; /* link: waiters in its waitpid, and for its exec */
};

#endif
