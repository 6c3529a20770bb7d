/* SPDX-License-Identifier: MIT
 *
 * machine_record.c - read and write records by tables of fields (machine_record.h); the tables.
 *
 * Structs hold numbers in the host's order, which is little-endian: the bytes of a number are
 * copied as they are. Records nest only as deep as their tables do.
 */
#include "machine/machine_record.h"

#include "machine/machine_int.h"

#include <assert.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "records are copied in the byte order of the host");

enum {
    NUMBER_MAX = 10, /* bytes of a LEB128 number */
    NESTING_MAX = 2, /* our tables nest records in records, but not deeper */
};

void dz_record_put_number(struct dz_buf *to, uint64_t v)
{
    uint8_t bytes[NUMBER_MAX];
    size_t n = 0;
    do {
        bytes[n] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
        n++;
    } while (v);
    dz_buf_add(to, bytes, n);
}

bool dz_record_get_number(const uint8_t **at, const uint8_t *end, uint64_t *ret_v)
{
    uint64_t v = 0;
    const uint8_t *p = *at;
    for (unsigned shift = 0; shift < 64 && p < end; shift += 7) {
        uint8_t b = *p++;
        if (shift == 63 && b > 1)
            return false;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *at = p;
            *ret_v = v;
            return true;
        }
    }
    return false;
}

/* --- out ------------------------------------------------------------------------ */

/* The number of bytes up to the last that is not zero. */
static size_t significant(const uint8_t *p, size_t n)
{
    while (n > 0 && p[n - 1] == 0)
        n--;
    return n;
}

static void put_one(struct dz_buf *to, uint64_t key, const uint8_t *bytes, size_t n)
{
    dz_record_put_number(to, key);
    dz_record_put_number(to, n);
    dz_buf_add(to, bytes, n);
}

static void put_record(struct dz_buf *to, const struct dz_record *r, const void *from, int depth);

/* The elements of an array of structs. */
static void put_subs(struct dz_buf *to, const struct dz_field *f, const uint8_t *from, int depth)
{
    DZ_AUTO(dz_buf_release) struct dz_buf all = DZ_BUF_INIT(to->max);
    DZ_AUTO(dz_buf_release) struct dz_buf one = DZ_BUF_INIT(to->max);
    for (uint32_t i = 0; i < f->count; i++) {
        const uint8_t *p = from + (size_t)i * f->width;
        if (significant(p, f->width) == 0)
            continue;
        dz_buf_reset(&one);
        put_record(&one, f->sub, p, depth + 1);
        if (one.len > 0)
            put_one(&all, i, (const uint8_t *)one.p, one.len);
    }
    if (all.len > 0)
        put_one(to, f->tag, (const uint8_t *)all.p, all.len);
    if (all.err || one.err)
        to->err = all.err ? all.err : one.err;
}

static void put_record(struct dz_buf *to, const struct dz_record *r, const void *from, int depth)
{
    assert(depth <= NESTING_MAX);
    for (size_t i = 0; i < r->field_count; i++) {
        const struct dz_field *f = &r->fields[i];
        const uint8_t *p = (const uint8_t *)from + f->offset;
        assert(i == 0 || f->tag > f[-1].tag);
        size_t n = significant(p, (size_t)f->width * f->count);
        if (n == 0)
            continue;
        if (f->sub)
            put_subs(to, f, p, depth);
        else
            put_one(to, f->tag, p, n);
    }
}

void dz_record_put(struct dz_buf *to, const struct dz_record *r, const void *from)
{
    put_record(to, r, from, 0);
}

/* --- in ---------------------------------------------------------------------------- */

struct piece {
    uint64_t key;
    const uint8_t *bytes;
    size_t size;
};

static bool next_piece(const uint8_t **at, const uint8_t *end, struct piece *p)
{
    uint64_t size;
    if (!dz_record_get_number(at, end, &p->key) || !dz_record_get_number(at, end, &size) ||
        size > (uint64_t)(end - *at))
        return false;
    p->bytes = *at;
    p->size = (size_t)size;
    *at += size;
    return true;
}

static int get_record(const uint8_t *bytes, size_t size, const struct dz_record *r, uint8_t *to,
                      struct dz_err *err);

static int get_subs(const struct piece *all, const struct dz_record *r, const struct dz_field *f,
                    uint8_t *to, struct dz_err *err)
{
    const uint8_t *at = all->bytes, *end = at + all->size;
    uint64_t next = 0;
    while (at < end) {
        struct piece p;
        if (!next_piece(&at, end, &p) || p.key < next || p.key >= f->count)
            return dz_fail(err, DZ_ECORRUPT, "a saved %s is damaged in field %u", r->what, f->tag);
        int rc = get_record(p.bytes, p.size, f->sub, to + (size_t)p.key * f->width, err);
        if (rc < 0)
            return rc;
        next = p.key + 1;
    }
    return 0;
}

static int get_record(const uint8_t *bytes, size_t size, const struct dz_record *r, uint8_t *to,
                      struct dz_err *err)
{
    const uint8_t *at = bytes, *end = bytes + size;
    size_t i = 0;
    uint64_t last = 0;
    while (at < end) {
        struct piece p;
        if (!next_piece(&at, end, &p) || p.key <= last)
            return dz_fail(err, DZ_ECORRUPT, "a saved %s is damaged after field %llu", r->what,
                           (unsigned long long)last);
        last = p.key;
        while (i < r->field_count && r->fields[i].tag < p.key)
            i++;
        if (i == r->field_count || r->fields[i].tag != p.key)
            return dz_fail(err, DZ_EUNSUPPORTED,
                           "a saved %s has field %llu, which this doze does not know; a newer one "
                           "wrote it",
                           r->what, (unsigned long long)p.key);
        const struct dz_field *f = &r->fields[i];
        if (f->sub) {
            int rc = get_subs(&p, r, f, to + f->offset, err);
            if (rc < 0)
                return rc;
        } else if (p.size > (size_t)f->width * f->count) {
            return dz_fail(err, DZ_ECORRUPT, "a saved %s has too large a number in field %u",
                           r->what, f->tag);
        } else {
            memcpy(to + f->offset, p.bytes, p.size);
        }
    }
    return 0;
}

int dz_record_get(const uint8_t *bytes, size_t size, const struct dz_record *r, void *ret_to,
                  struct dz_err *err)
{
    return get_record(bytes, size, r, ret_to, err);
}

/* --- the tables: fields by number -------------------------------------------------------- */

/* The fields of each record, as docs/format/machine.md lists them. A number that was used once is
 * never used for another field. Links (queues, hashes, waiters) and counts that dz_kernel_thaw()
 * computes again are left out. t_machine_record.c checks that every other byte of a struct is here.
 */

/* --- the tables: small structs ----------------------------------------------------------- */

#define T struct dz_node
static const struct dz_field node_fields[] = {
    DZ_FIELD(T, 1, ino),
    DZ_FIELD(T, 2, fs),
};
#undef T
static const struct dz_record node = DZ_RECORD("node", struct dz_node, node_fields);

#define T struct dz_sigact
static const struct dz_field sigact_fields[] = {
    DZ_FIELD(T, 1, handler),
    DZ_FIELD(T, 2, flags),
    DZ_FIELD(T, 3, mask),
    DZ_FIELD(T, 4, restorer),
};
#undef T
static const struct dz_record sigact = DZ_RECORD("signal action", struct dz_sigact, sigact_fields);

#define T struct dz_handler
static const struct dz_field handler_fields[] = {
    DZ_FIELD(T, 1, mask),
    DZ_FIELD(T, 2, signo),
};
#undef T
static const struct dz_record handler =
    DZ_RECORD("signal handler", struct dz_handler, handler_fields);

#define T struct dz_call
static const struct dz_field call_fields[] = {
    DZ_FIELD(T, 1, parked),   DZ_FIELD(T, 2, intr), DZ_FIELD(T, 3, flags), DZ_FIELD(T, 4, masked),
    DZ_FIELD(T, 5, deadline), DZ_FIELD(T, 6, done), DZ_FIELD(T, 7, mask),  DZ_FIELD(T, 8, result),
};
#undef T
static const struct dz_record call = DZ_RECORD("call", struct dz_call, call_fields);

#define T struct dz_itimer
static const struct dz_field itimer_fields[] = {
    DZ_FIELD(T, 1, interval),
    DZ_FIELD(T, 2, value),
};
#undef T
static const struct dz_record itimer = DZ_RECORD("timer", struct dz_itimer, itimer_fields);

#define T struct dz_termios
static const struct dz_field termios_fields[] = {
    DZ_FIELD(T, 1, iflag), DZ_FIELD(T, 2, oflag),    DZ_FIELD(T, 3, cflag),  DZ_FIELD(T, 4, lflag),
    DZ_FIELD(T, 5, line),  DZ_FIELD_ARRAY(T, 6, cc), DZ_FIELD(T, 7, ispeed), DZ_FIELD(T, 8, ospeed),
};
#undef T
static const struct dz_record termios =
    DZ_RECORD("terminal mode", struct dz_termios, termios_fields);

#define T struct dz_winsize
static const struct dz_field winsize_fields[] = {
    DZ_FIELD(T, 1, rows),
    DZ_FIELD(T, 2, cols),
    DZ_FIELD(T, 3, xpixel),
    DZ_FIELD(T, 4, ypixel),
};
#undef T
static const struct dz_record winsize = DZ_RECORD("window size", struct dz_winsize, winsize_fields);

/* A slot of a descriptor table. The table is a blob that is an array of slots. */
#define T struct dz_fd
static const struct dz_field fd_fields[] = {
    DZ_FIELD(T, 1, file),    DZ_FIELD(T, 2, flags),   DZ_FIELD(T, 3, rights),
    DZ_FIELD(T, 4, inherit), DZ_FIELD(T, 5, preopen),
};
#undef T
const struct dz_record dz_machine_fd_record = DZ_RECORD("descriptor", struct dz_fd, fd_fields);

#define T struct dz_capsets
static const struct dz_field capsets_fields[] = {
    DZ_FIELD(T, 1, effective), DZ_FIELD(T, 2, permitted), DZ_FIELD(T, 3, inheritable),
    DZ_FIELD(T, 4, ambient),   DZ_FIELD(T, 5, unbounded),
};
#undef T
static const struct dz_record capsets =
    DZ_RECORD("capabilities", struct dz_capsets, capsets_fields);

/* --- the tables: rows of the kernel ------------------------------------------------------ */

#define T struct dz_proc
static const struct dz_field proc_fields[] = {
    DZ_FIELD(T, 1, state),
    DZ_FIELD(T, 2, flags),
    DZ_FIELD(T, 3, pid),
    DZ_FIELD(T, 4, ppid),
    DZ_FIELD(T, 5, pgid),
    DZ_FIELD(T, 6, sid),
    DZ_FIELD(T, 7, uid),
    DZ_FIELD(T, 8, euid),
    DZ_FIELD(T, 9, suid),
    DZ_FIELD(T, 10, gid),
    DZ_FIELD(T, 11, egid),
    DZ_FIELD(T, 12, sgid),
    DZ_FIELD(T, 13, group_count),
    DZ_FIELD_ARRAY(T, 14, groups),
    DZ_FIELD(T, 15, tty),
    DZ_FIELD(T, 16, umask),
    DZ_FIELD(T, 17, nice),
    DZ_FIELD(T, 18, job),
    DZ_FIELD_SUB(T, 19, cwd, &node),
    DZ_FIELD_SUB(T, 20, root, &node),
    DZ_FIELD(T, 21, exe),
    DZ_FIELD_ARRAY(T, 22, comm),
    DZ_FIELD(T, 23, argv),
    DZ_FIELD(T, 24, argc),
    DZ_FIELD(T, 25, envv),
    DZ_FIELD(T, 26, envc),
    DZ_FIELD(T, 27, exe_path),
    DZ_FIELD(T, 28, fds),
    DZ_FIELD(T, 29, fd_count),
    DZ_FIELD(T, 31, sig_pending),
    DZ_FIELD_SUBS(T, 33, act, &sigact),
    DZ_FIELD(T, 35, term_sig),
    DZ_FIELD_SUBS(T, 38, itimer, &itimer),
    DZ_FIELD(T, 39, start_ns),
    DZ_FIELD(T, 40, utime_ns),
    DZ_FIELD(T, 41, stime_ns),
    DZ_FIELD(T, 42, child_utime_ns),
    DZ_FIELD(T, 43, child_stime_ns),
    DZ_FIELD(T, 44, minflt),
    DZ_FIELD(T, 45, slices),
    DZ_FIELD(T, 46, maxrss),
    DZ_FIELD(T, 47, mem_bytes),
    {48, sizeof(uint64_t), offsetof(T, rlimit), 2 * (uint32_t)DZ_KERNEL_RLIMITS, NULL},
    DZ_FIELD(T, 49, lock_owner),
    DZ_FIELD(T, 50, exit_code),
    DZ_FIELD(T, 51, stop_sig),
    DZ_FIELD(T, 53, exit_signal), /* version 1 used number 52 */
    DZ_FIELD(T, 54, death_sig),
    DZ_FIELD_SUB(T, 55, caps, &capsets),
    DZ_FIELD(T, 56, fsuid),
    DZ_FIELD(T, 57, fsgid),
    DZ_FIELD(T, 58, securebits),
    DZ_FIELD(T, 59, persona),
    DZ_FIELD(T, 60, ioprio),
    DZ_FIELD_ARRAY(T, 61, io),
    DZ_FIELD(T, 62, oom_adj),
};
#undef T

#define T struct dz_thread
static const struct dz_field thread_fields[] = {
    DZ_FIELD(T, 1, proc),
    DZ_FIELD(T, 2, state),
    DZ_FIELD(T, 3, flags),
    DZ_FIELD(T, 4, tid),
    DZ_FIELD(T, 5, sig_mask),
    DZ_FIELD(T, 6, sig_pending),
    DZ_FIELD(T, 7, depth),
    DZ_FIELD(T, 8, frame),
    DZ_FIELD_SUBS(T, 9, handler, &handler),
    DZ_FIELD_SUBS(T, 10, call, &call),
    DZ_FIELD(T, 11, clear_tid),
    DZ_FIELD(T, 12, robust),
    DZ_FIELD(T, 13, alt_stack),
    DZ_FIELD(T, 14, alt_size),
    DZ_FIELD(T, 15, alt_flags),
    DZ_FIELD(T, 16, vfork_child),
    DZ_FIELD(T, 17, utime_ns),
    DZ_FIELD(T, 18, stime_ns),
    DZ_FIELD(T, 19, futex_space),
    DZ_FIELD(T, 20, futex_at),
    DZ_FIELD(T, 21, futex_order),
    DZ_FIELD(T, 22, futex_bits),
    DZ_FIELD(T, 23, timer_slack),
    DZ_FIELD(T, 24, timer_slack_first),
    DZ_FIELD_ARRAY(T, 25, comm),
    DZ_FIELD(T, 26, policy),
    DZ_FIELD(T, 27, cpus),
    DZ_FIELD(T, 28, futex_all),
    DZ_FIELD(T, 29, futex_pi),
    DZ_FIELD(T, 30, lock_space),
    DZ_FIELD(T, 31, lock_at),
    DZ_FIELD(T, 32, lock_word),
};
#undef T

#define T struct dz_siginfo
static const struct dz_field siginfo_fields[] = {
    DZ_FIELD(T, 1, proc), DZ_FIELD(T, 2, thread), DZ_FIELD(T, 3, signo),  DZ_FIELD(T, 4, code),
    DZ_FIELD(T, 5, pid),  DZ_FIELD(T, 6, uid),    DZ_FIELD(T, 7, status), DZ_FIELD(T, 8, owner),
    DZ_FIELD(T, 9, addr), DZ_FIELD(T, 10, value), DZ_FIELD(T, 11, order),
};
#undef T

/* A process as version 1 stored it: with its only thread. */
#define T struct dz_machine_proc1
static const struct dz_field proc1_fields[] = {
    DZ_FIELD(T, 1, row.state),
    DZ_FIELD(T, 2, row.flags),
    DZ_FIELD(T, 3, row.pid),
    DZ_FIELD(T, 4, row.ppid),
    DZ_FIELD(T, 5, row.pgid),
    DZ_FIELD(T, 6, row.sid),
    DZ_FIELD(T, 7, row.uid),
    DZ_FIELD(T, 8, row.euid),
    DZ_FIELD(T, 9, row.suid),
    DZ_FIELD(T, 10, row.gid),
    DZ_FIELD(T, 11, row.egid),
    DZ_FIELD(T, 12, row.sgid),
    DZ_FIELD(T, 13, row.group_count),
    DZ_FIELD_ARRAY(T, 14, row.groups),
    DZ_FIELD(T, 15, row.tty),
    DZ_FIELD(T, 16, row.umask),
    DZ_FIELD(T, 17, row.nice),
    DZ_FIELD(T, 18, row.job),
    DZ_FIELD_SUB(T, 19, row.cwd, &node),
    DZ_FIELD_SUB(T, 20, row.root, &node),
    DZ_FIELD(T, 21, row.exe),
    DZ_FIELD_ARRAY(T, 22, row.comm),
    DZ_FIELD(T, 23, row.argv),
    DZ_FIELD(T, 24, row.argc),
    DZ_FIELD(T, 25, row.envv),
    DZ_FIELD(T, 26, row.envc),
    DZ_FIELD(T, 27, row.exe_path),
    DZ_FIELD(T, 28, row.fds),
    DZ_FIELD(T, 29, row.fd_count),
    DZ_FIELD(T, 30, thread.sig_mask),
    DZ_FIELD(T, 31, row.sig_pending),
    DZ_FIELD_ARRAY(T, 32, sig_code),
    DZ_FIELD_SUBS(T, 33, row.act, &sigact),
    DZ_FIELD(T, 34, thread.depth),
    DZ_FIELD(T, 35, row.term_sig),
    DZ_FIELD_SUBS(T, 36, thread.handler, &handler),
    DZ_FIELD_SUBS(T, 37, thread.call, &call),
    DZ_FIELD_SUBS(T, 38, row.itimer, &itimer),
    DZ_FIELD(T, 39, row.start_ns),
    DZ_FIELD(T, 40, row.utime_ns),
    DZ_FIELD(T, 41, row.stime_ns),
    DZ_FIELD(T, 42, row.child_utime_ns),
    DZ_FIELD(T, 43, row.child_stime_ns),
    DZ_FIELD(T, 44, row.minflt),
    DZ_FIELD(T, 45, row.slices),
    DZ_FIELD(T, 46, row.maxrss),
    DZ_FIELD(T, 47, row.mem_bytes),
    {48, sizeof(uint64_t), offsetof(T, row.rlimit), 2 * (uint32_t)DZ_KERNEL_RLIMITS, NULL},
    DZ_FIELD(T, 49, row.lock_owner),
    DZ_FIELD(T, 50, row.exit_code),
    DZ_FIELD(T, 51, row.stop_sig),
    DZ_FIELD(T, 52, thread.vfork_child),
};
#undef T
const struct dz_record dz_machine_proc1_record =
    DZ_RECORD("process", struct dz_machine_proc1, proc1_fields);

#define T struct dz_file
static const struct dz_field file_fields[] = {
    DZ_FIELD(T, 1, kind),         DZ_FIELD(T, 2, obj),
    DZ_FIELD(T, 3, flags),        DZ_FIELD_SUB(T, 4, node, &node),
    DZ_FIELD(T, 5, pos),          DZ_FIELD(T, 6, locks),
    DZ_FIELD(T, 7, path),         DZ_FIELD(T, 8, dir_synth),
    DZ_FIELD(T, 9, flocked),      DZ_FIELD(T, 10, seals),
    DZ_FIELD(T, 11, timer_at),    DZ_FIELD(T, 12, timer_every),
    DZ_FIELD(T, 13, sig),         DZ_FIELD(T, 14, owner_kind),
    DZ_FIELD(T, 15, owner),       DZ_FIELD(T, 16, lease),
    DZ_FIELD(T, 17, lease_to),    DZ_FIELD(T, 18, lease_fd),
    DZ_FIELD(T, 19, lease_until),
};
#undef T

#define T struct dz_epitem
static const struct dz_field epitem_fields[] = {
    DZ_FIELD(T, 1, epoll),  DZ_FIELD(T, 2, file), DZ_FIELD(T, 3, fd),
    DZ_FIELD(T, 4, events), DZ_FIELD(T, 5, data), DZ_FIELD(T, 6, hot),
};
#undef T

#define T struct dz_ucred
static const struct dz_field ucred_fields[] = {
    DZ_FIELD(T, 1, pid),
    DZ_FIELD(T, 2, uid),
    DZ_FIELD(T, 3, gid),
};
#undef T
static const struct dz_record ucred = DZ_RECORD("sender", struct dz_ucred, ucred_fields);

#define T struct dz_inet
static const struct dz_field inet_fields[] = {
    DZ_FIELD(T, 1, hi),
    DZ_FIELD(T, 2, lo),
    DZ_FIELD(T, 3, port),
};
#undef T
static const struct dz_record inet = DZ_RECORD("address", struct dz_inet, inet_fields);

#define T struct dz_socket
static const struct dz_field socket_fields[] = {
    DZ_FIELD(T, 1, family),
    DZ_FIELD(T, 2, type),
    DZ_FIELD(T, 3, protocol),
    DZ_FIELD(T, 4, state),
    DZ_FIELD(T, 5, shut),
    DZ_FIELD(T, 6, dead),
    DZ_FIELD(T, 7, peer),
    DZ_FIELD(T, 8, listener),
    DZ_FIELD(T, 9, name),
    DZ_FIELD(T, 10, bound),
    DZ_FIELD(T, 11, ino),
    DZ_FIELD(T, 12, number),
    DZ_FIELD(T, 13, order),
    DZ_FIELD(T, 14, backlog),
    DZ_FIELD(T, 15, error),
    DZ_FIELD(T, 16, options),
    DZ_FIELD(T, 17, sndbuf),
    DZ_FIELD(T, 18, rcvbuf),
    DZ_FIELD_SUB(T, 19, peer_cred, &ucred),
    DZ_FIELD(T, 20, rcvtimeo),
    DZ_FIELD(T, 21, sndtimeo),
    DZ_FIELD_SUB(T, 22, local, &inet),
    DZ_FIELD_SUB(T, 23, remote, &inet),
    DZ_FIELD(T, 24, inet),
    DZ_FIELD(T, 25, uid),
    DZ_FIELD(T, 26, linger),
    DZ_FIELD_ARRAY(T, 27, values),
    DZ_FIELD(T, 28, channel),
    DZ_FIELD(T, 29, generation),
};
#undef T

#define T struct dz_message
static const struct dz_field message_fields[] = {
    DZ_FIELD(T, 1, socket),
    DZ_FIELD(T, 2, sender),
    DZ_FIELD(T, 3, order),
    DZ_FIELD(T, 4, blob),
    DZ_FIELD(T, 5, head),
    DZ_FIELD(T, 6, len),
    DZ_FIELD(T, 7, fds),
    DZ_FIELD(T, 8, fd_count),
    DZ_FIELD_SUB(T, 9, cred, &ucred),
    DZ_FIELD_SUB(T, 10, from, &inet),
    DZ_FIELD_SUB(T, 11, to, &inet),
};
#undef T

#define T struct dz_pipe
static const struct dz_field pipe_fields[] = {
    DZ_FIELD(T, 1, opens),  DZ_FIELD(T, 2, reader_opens), DZ_FIELD(T, 3, writer_opens),
    DZ_FIELD(T, 4, blob),   DZ_FIELD(T, 5, head),         DZ_FIELD(T, 6, len),
    DZ_FIELD(T, 7, ino),    DZ_FIELD(T, 8, fifo),         DZ_FIELD(T, 9, atime),
    DZ_FIELD(T, 10, mtime), DZ_FIELD(T, 11, ctime),       DZ_FIELD(T, 12, size),
};
#undef T

#define T struct dz_pty
static const struct dz_field pty_fields[] = {
    DZ_FIELD(T, 1, stream),
    DZ_FIELD(T, 2, locked),
    DZ_FIELD(T, 3, hungup),
    DZ_FIELD(T, 4, opened),
    DZ_FIELD(T, 5, session),
    DZ_FIELD(T, 6, pgrp),
    DZ_FIELD_SUB(T, 7, termios, &termios),
    DZ_FIELD_SUB(T, 8, size, &winsize),
    DZ_FIELD(T, 9, uid),
    DZ_FIELD(T, 10, gid),
    DZ_FIELD(T, 11, mode),
    DZ_FIELD(T, 12, stopped),
    DZ_FIELD(T, 13, lnext),
    DZ_FIELD(T, 14, column),
    DZ_FIELD(T, 15, canon_col),
    DZ_FIELD(T, 16, head),
    DZ_FIELD(T, 17, len),
    DZ_FIELD(T, 18, edit),
    DZ_FIELD(T, 19, in),
    DZ_FIELD(T, 20, marks),
    DZ_FIELD(T, 21, out),
    DZ_FIELD(T, 22, out_head),
    DZ_FIELD(T, 23, out_len),
    DZ_FIELD(T, 24, atime),
    DZ_FIELD(T, 25, mtime),
};
#undef T

#define T struct dz_stream
static const struct dz_field stream_fields[] = {
    DZ_FIELD(T, 1, gen),       DZ_FIELD(T, 2, kind),       DZ_FIELD(T, 3, pty),
    DZ_FIELD(T, 4, in_eof),    DZ_FIELD(T, 5, closed),     DZ_FIELD(T, 6, in),
    DZ_FIELD(T, 7, in_head),   DZ_FIELD(T, 8, in_len),     DZ_FIELD(T, 9, out),
    DZ_FIELD(T, 10, out_head), DZ_FIELD(T, 11, out_len),   DZ_FIELD(T, 12, tag),
    DZ_FIELD(T, 13, in_total), DZ_FIELD(T, 14, out_total), DZ_FIELD(T, 15, missing),
};
#undef T

#define T struct dz_job
static const struct dz_field job_fields[] = {
    DZ_FIELD(T, 1, gen),        DZ_FIELD(T, 2, leader),       DZ_FIELD(T, 3, end),
    DZ_FIELD(T, 4, status),     DZ_FIELD(T, 5, taken),        DZ_FIELD(T, 6, tag),
    DZ_FIELD(T, 7, cpu_ns),     DZ_FIELD(T, 8, cpu_limit_ns), DZ_FIELD(T, 9, out_bytes),
    DZ_FIELD(T, 10, out_limit), DZ_FIELD(T, 11, trace),
};
#undef T

#define T struct dz_ipc
static const struct dz_field ipc_fields[] = {
    DZ_FIELD(T, 1, kind),         DZ_FIELD(T, 2, key),         DZ_FIELD(T, 3, number),
    DZ_FIELD(T, 4, uid),          DZ_FIELD(T, 5, gid),         DZ_FIELD(T, 6, cuid),
    DZ_FIELD(T, 7, cgid),         DZ_FIELD(T, 8, mode),        DZ_FIELD(T, 9, count),
    DZ_FIELD(T, 10, cpid),        DZ_FIELD_ARRAY(T, 11, lpid), DZ_FIELD(T, 12, blob),
    DZ_FIELD(T, 13, bytes),       DZ_FIELD(T, 14, limit),      DZ_FIELD(T, 15, ino),
    DZ_FIELD_ARRAY(T, 16, times), DZ_FIELD(T, 17, ctime),
};
#undef T

#define T struct dz_timer
static const struct dz_field timer_fields[] = {
    DZ_FIELD(T, 1, proc),  DZ_FIELD(T, 2, clock), DZ_FIELD(T, 3, cpu_tid), DZ_FIELD(T, 4, notify),
    DZ_FIELD(T, 5, signo), DZ_FIELD(T, 6, tid),   DZ_FIELD(T, 7, overrun), DZ_FIELD(T, 8, waits),
    DZ_FIELD(T, 9, value), DZ_FIELD(T, 10, at),   DZ_FIELD(T, 11, every),  DZ_FIELD(T, 12, on),
    DZ_FIELD(T, 13, told),
};
#undef T

#define T struct dz_semundo
static const struct dz_field semundo_fields[] = {
    DZ_FIELD(T, 1, proc),
    DZ_FIELD(T, 2, ipc),
    DZ_FIELD(T, 3, blob),
};
#undef T

#define T struct dz_inotify
static const struct dz_field inotify_fields[] = {
    DZ_FIELD(T, 1, blob),      DZ_FIELD(T, 2, head), DZ_FIELD(T, 3, len),     DZ_FIELD(T, 4, count),
    DZ_FIELD(T, 5, last_size), DZ_FIELD(T, 6, lost), DZ_FIELD(T, 7, last_wd),
};
#undef T

#define T struct dz_watch
static const struct dz_field watch_fields[] = {
    DZ_FIELD(T, 1, inotify),
    DZ_FIELD(T, 2, wd),
    DZ_FIELD_SUB(T, 3, node, &node),
    DZ_FIELD(T, 4, mask),
};
#undef T

#define T struct dz_mqueue
static const struct dz_field mqueue_fields[] = {
    DZ_FIELD(T, 1, name),          DZ_FIELD(T, 2, uid),           DZ_FIELD(T, 3, gid),
    DZ_FIELD(T, 4, mode),          DZ_FIELD(T, 5, user),          DZ_FIELD(T, 6, max),
    DZ_FIELD(T, 7, size),          DZ_FIELD(T, 8, count),         DZ_FIELD(T, 9, blob),
    DZ_FIELD(T, 10, notify),       DZ_FIELD(T, 11, notify_pid),   DZ_FIELD(T, 12, notify_signo),
    DZ_FIELD(T, 13, notify_owner), DZ_FIELD(T, 14, notify_value), DZ_FIELD(T, 15, bytes),
    DZ_FIELD(T, 16, number),       DZ_FIELD(T, 17, atime),        DZ_FIELD(T, 18, mtime),
    DZ_FIELD(T, 19, ctime),
};
#undef T

const struct dz_record dz_machine_row_records[DZ_KERNEL_TABLE_COUNT] = {
    [DZ_KERNEL_TABLE_PROC] = DZ_RECORD("process", struct dz_proc, proc_fields),
    [DZ_KERNEL_TABLE_FILE] = DZ_RECORD("open file", struct dz_file, file_fields),
    [DZ_KERNEL_TABLE_PIPE] = DZ_RECORD("pipe", struct dz_pipe, pipe_fields),
    [DZ_KERNEL_TABLE_PTY] = DZ_RECORD("terminal", struct dz_pty, pty_fields),
    [DZ_KERNEL_TABLE_STREAM] = DZ_RECORD("stream", struct dz_stream, stream_fields),
    [DZ_KERNEL_TABLE_JOB] = DZ_RECORD("job", struct dz_job, job_fields),
    [DZ_KERNEL_TABLE_THREAD] = DZ_RECORD("thread", struct dz_thread, thread_fields),
    [DZ_KERNEL_TABLE_SIGINFO] = DZ_RECORD("signal", struct dz_siginfo, siginfo_fields),
    [DZ_KERNEL_TABLE_EPITEM] = DZ_RECORD("item of an epoll", struct dz_epitem, epitem_fields),
    [DZ_KERNEL_TABLE_SOCKET] = DZ_RECORD("socket", struct dz_socket, socket_fields),
    [DZ_KERNEL_TABLE_MESSAGE] = DZ_RECORD("message", struct dz_message, message_fields),
    [DZ_KERNEL_TABLE_IPC] = DZ_RECORD("System V object", struct dz_ipc, ipc_fields),
    [DZ_KERNEL_TABLE_SEMUNDO] =
        DZ_RECORD("adjustment of a semaphore", struct dz_semundo, semundo_fields),
    [DZ_KERNEL_TABLE_TIMER] = DZ_RECORD("POSIX timer", struct dz_timer, timer_fields),
    [DZ_KERNEL_TABLE_INOTIFY] = DZ_RECORD("inotify", struct dz_inotify, inotify_fields),
    [DZ_KERNEL_TABLE_WATCH] = DZ_RECORD("watch of an inotify", struct dz_watch, watch_fields),
    [DZ_KERNEL_TABLE_MQUEUE] = DZ_RECORD("message queue", struct dz_mqueue, mqueue_fields),
};

/* --- the tables: structs of this module -------------------------------------------------- */

#define T struct dz_machine_head
static const struct dz_field head_fields[] = {
    DZ_FIELD(T, 1, slept_real_ns), DZ_FIELD(T, 2, now_ns),        DZ_FIELD(T, 3, next_owner),
    DZ_FIELD(T, 4, next_anon_ino), DZ_FIELD(T, 5, total_cpu_ns),  DZ_FIELD(T, 6, forks),
    DZ_FIELD(T, 7, next_pid),      DZ_FIELD_ARRAY(T, 8, load),    DZ_FIELD(T, 9, next_space),
    DZ_FIELD(T, 10, wake_real_ns), DZ_FIELD_ARRAY(T, 11, policy),
};
#undef T
const struct dz_record dz_machine_head_record =
    DZ_RECORD("machine", struct dz_machine_head, head_fields);

#define T struct dz_machine_module
static const struct dz_field module_fields[] = {
    DZ_FIELD_ARRAY(T, 1, sha256), DZ_FIELD(T, 2, size),  DZ_FIELD(T, 3, ino),
    DZ_FIELD(T, 4, pieces),       DZ_FIELD(T, 5, mtime),
};
#undef T
const struct dz_record dz_machine_module_record =
    DZ_RECORD("module", struct dz_machine_module, module_fields);

#define T struct dz_machine_space
static const struct dz_field space_fields[] = {
    DZ_FIELD(T, 1, id),         DZ_FIELD(T, 2, proc),  DZ_FIELD(T, 3, memory),
    DZ_FIELD(T, 4, base),       DZ_FIELD(T, 7, pages), /* numbers 5 and 6 were never used */
    DZ_FIELD(T, 8, base_space),
};
#undef T
const struct dz_record dz_machine_space_record =
    DZ_RECORD("memory", struct dz_machine_space, space_fields);

#define T struct dz_machine_lock
static const struct dz_field lock_fields[] = {
    DZ_FIELD(T, 1, ino), DZ_FIELD(T, 2, owner),     DZ_FIELD(T, 3, start),
    DZ_FIELD(T, 4, end), DZ_FIELD(T, 5, exclusive), DZ_FIELD(T, 6, flock),
};
#undef T
const struct dz_record dz_machine_lock_record =
    DZ_RECORD("file lock", struct dz_machine_lock, lock_fields);
