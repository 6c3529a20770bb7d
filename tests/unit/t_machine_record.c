/* SPDX-License-Identifier: MIT
 * Structs as records: nothing is forgotten, nothing is believed. */
#include "machine/machine_state.h"
#include "tap.h"

/* Bytes of each struct that are links, counts made anew, or padding: the only ones
 * that no field covers. Grow these tables only with dz_kernel_thaw() in mind. */
#define HOLE(type, member) {offsetof(type, member), sizeof(((type *)0)->member)}
struct hole {
    size_t at, size;
};
static const struct hole proc_holes[] = {
    HOLE(struct dz_proc, used),       HOLE(struct dz_proc, index),  HOLE(struct dz_proc, alarm_at),
    HOLE(struct dz_proc, threads),    HOLE(struct dz_proc, thread), HOLE(struct dz_proc, pid_next),
    HOLE(struct dz_proc, wait_child), HOLE(struct dz_proc, fd_hint)};
static const struct hole thread_holes[] = {
    HOLE(struct dz_thread, used),       HOLE(struct dz_thread, index),
    HOLE(struct dz_thread, alarm_at),   HOLE(struct dz_thread, run_next),
    HOLE(struct dz_thread, run_prev),   HOLE(struct dz_thread, run_queue),
    HOLE(struct dz_thread, tid_next),   HOLE(struct dz_thread, next),
    HOLE(struct dz_thread, futex_next), HOLE(struct dz_thread, waiters)};
static const struct hole siginfo_holes[] = {HOLE(struct dz_siginfo, used),
                                            HOLE(struct dz_siginfo, index)};
static const struct hole file_holes[] = {
    HOLE(struct dz_file, used),   HOLE(struct dz_file, index),  HOLE(struct dz_file, refs),
    HOLE(struct dz_file, wait_r), HOLE(struct dz_file, wait_w), HOLE(struct dz_file, watched),
    HOLE(struct dz_file, items),  HOLE(struct dz_file, walk),   HOLE(struct dz_file, level)};
static const struct hole epitem_holes[] = {
    HOLE(struct dz_epitem, used),        HOLE(struct dz_epitem, index),
    HOLE(struct dz_epitem, next_item),   HOLE(struct dz_epitem, next_watch),
    HOLE(struct dz_epitem, ready_order), HOLE(struct dz_epitem, waiters),
    HOLE(struct dz_epitem, pad)};
static const struct hole socket_holes[] = {
    HOLE(struct dz_socket, used),       HOLE(struct dz_socket, index),
    HOLE(struct dz_socket, refs),       HOLE(struct dz_socket, file),
    HOLE(struct dz_socket, wmem),       HOLE(struct dz_socket, in_flight),
    HOLE(struct dz_socket, head),       HOLE(struct dz_socket, tail),
    HOLE(struct dz_socket, count),      HOLE(struct dz_socket, next),
    HOLE(struct dz_socket, wait_r),     HOLE(struct dz_socket, wait_w),
    HOLE(struct dz_socket, wait_p),     HOLE(struct dz_socket, mark),
    HOLE(struct dz_socket, mark_next),  HOLE(struct dz_socket, local.pad),
    HOLE(struct dz_socket, remote.pad), HOLE(struct dz_socket, pad)};
static const struct hole message_holes[] = {
    HOLE(struct dz_message, used),     HOLE(struct dz_message, index),
    HOLE(struct dz_message, next),     HOLE(struct dz_message, pad),
    HOLE(struct dz_message, from.pad), HOLE(struct dz_message, to.pad)};
static const struct hole ipc_holes[] = {HOLE(struct dz_ipc, used), HOLE(struct dz_ipc, index),
                                        HOLE(struct dz_ipc, wait_r), HOLE(struct dz_ipc, wait_w)};
static const struct hole semundo_holes[] = {
    HOLE(struct dz_semundo, used), HOLE(struct dz_semundo, index), HOLE(struct dz_semundo, pad)};
static const struct hole timer_holes[] = {HOLE(struct dz_timer, used),
                                          HOLE(struct dz_timer, index)};
static const struct hole inotify_holes[] = {
    HOLE(struct dz_inotify, used), HOLE(struct dz_inotify, index), HOLE(struct dz_inotify, first),
    HOLE(struct dz_inotify, file), HOLE(struct dz_inotify, wait_r)};
static const struct hole watch_holes[] = {
    HOLE(struct dz_watch, used), HOLE(struct dz_watch, index), HOLE(struct dz_watch, next),
    HOLE(struct dz_watch, next_node), HOLE(struct dz_watch, pad)};
static const struct hole mqueue_holes[] = {
    HOLE(struct dz_mqueue, used),   HOLE(struct dz_mqueue, index),  HOLE(struct dz_mqueue, opens),
    HOLE(struct dz_mqueue, wait_r), HOLE(struct dz_mqueue, wait_w), HOLE(struct dz_mqueue, pad)};
static const struct hole pipe_holes[] = {
    HOLE(struct dz_pipe, used),    HOLE(struct dz_pipe, index),  HOLE(struct dz_pipe, readers),
    HOLE(struct dz_pipe, writers), HOLE(struct dz_pipe, wait_r), HOLE(struct dz_pipe, wait_w)};
static const struct hole pty_holes[] = {
    HOLE(struct dz_pty, used),     HOLE(struct dz_pty, index),      HOLE(struct dz_pty, masters),
    HOLE(struct dz_pty, slaves),   HOLE(struct dz_pty, lines),      HOLE(struct dz_pty, wait_in),
    HOLE(struct dz_pty, wait_out), HOLE(struct dz_pty, wait_master)};
static const struct hole stream_holes[] = {
    HOLE(struct dz_stream, used),   HOLE(struct dz_stream, index),
    HOLE(struct dz_stream, files),  HOLE(struct dz_stream, blocked),
    HOLE(struct dz_stream, wait_r), HOLE(struct dz_stream, wait_w)};
static const struct hole job_holes[] = {HOLE(struct dz_job, used), HOLE(struct dz_job, index),
                                        HOLE(struct dz_job, procs)};
static const struct {
    const struct hole *holes;
    size_t count;
} holes[DZ_KERNEL_TABLE_COUNT] = {
    [DZ_KERNEL_TABLE_PROC] = {proc_holes, DZ_ARRAY_LEN(proc_holes)},
    [DZ_KERNEL_TABLE_FILE] = {file_holes, DZ_ARRAY_LEN(file_holes)},
    [DZ_KERNEL_TABLE_PIPE] = {pipe_holes, DZ_ARRAY_LEN(pipe_holes)},
    [DZ_KERNEL_TABLE_PTY] = {pty_holes, DZ_ARRAY_LEN(pty_holes)},
    [DZ_KERNEL_TABLE_STREAM] = {stream_holes, DZ_ARRAY_LEN(stream_holes)},
    [DZ_KERNEL_TABLE_JOB] = {job_holes, DZ_ARRAY_LEN(job_holes)},
    [DZ_KERNEL_TABLE_THREAD] = {thread_holes, DZ_ARRAY_LEN(thread_holes)},
    [DZ_KERNEL_TABLE_SIGINFO] = {siginfo_holes, DZ_ARRAY_LEN(siginfo_holes)},
    [DZ_KERNEL_TABLE_EPITEM] = {epitem_holes, DZ_ARRAY_LEN(epitem_holes)},
    [DZ_KERNEL_TABLE_SOCKET] = {socket_holes, DZ_ARRAY_LEN(socket_holes)},
    [DZ_KERNEL_TABLE_MESSAGE] = {message_holes, DZ_ARRAY_LEN(message_holes)},
    [DZ_KERNEL_TABLE_IPC] = {ipc_holes, DZ_ARRAY_LEN(ipc_holes)},
    [DZ_KERNEL_TABLE_SEMUNDO] = {semundo_holes, DZ_ARRAY_LEN(semundo_holes)},
    [DZ_KERNEL_TABLE_TIMER] = {timer_holes, DZ_ARRAY_LEN(timer_holes)},
    [DZ_KERNEL_TABLE_INOTIFY] = {inotify_holes, DZ_ARRAY_LEN(inotify_holes)},
    [DZ_KERNEL_TABLE_WATCH] = {watch_holes, DZ_ARRAY_LEN(watch_holes)},
    [DZ_KERNEL_TABLE_MQUEUE] = {mqueue_holes, DZ_ARRAY_LEN(mqueue_holes)},
};

enum {
    ROW_MAX = 8192,
    PAD_MAX = 7, /* bytes of padding between two fields */
};
static _Alignas(16) uint8_t full[ROW_MAX], back[ROW_MAX];

static void round_trip(const struct dz_record *r, struct dz_buf *b)
{
    struct dz_err err = {0};
    dz_buf_reset(b);
    dz_record_put(b, r, full);
    memset(back, 0, r->size);
    CHECK_INT(dz_record_get((const uint8_t *)b->p, b->len, r, back, &err), 0);
}

TEST(every_field_of_a_row_comes_back)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(1 << 20);
    for (int t = 0; t < DZ_KERNEL_TABLE_COUNT; t++) {
        const struct dz_record *r = &dz_machine_row_records[t];
        CHECK(r->size <= ROW_MAX);
        for (size_t i = 0; i < r->size; i++)
            full[i] = (uint8_t)(i * 7 + 1) ? (uint8_t)(i * 7 + 1) : 1;
        round_trip(r, &b);
        for (size_t h = 0; h < holes[t].count; h++)
            memcpy(back + holes[t].holes[h].at, full + holes[t].holes[h].at,
                   holes[t].holes[h].size);
        size_t lost = 0, longest = 0;
        for (size_t i = 0; i < r->size; i++) {
            lost = full[i] != back[i] ? lost + 1 : 0;
            longest = lost > longest ? lost : longest;
        }
        if (longest > PAD_MAX)
            printf("# a %s loses %zu bytes\n", r->what, longest);
        CHECK(longest <= PAD_MAX);
    }
}

TEST(zeros_take_no_room)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(1 << 20);
    memset(full, 0, sizeof full);
    round_trip(&dz_machine_row_records[DZ_KERNEL_TABLE_PROC], &b);
    CHECK_INT(b.len, 0);
    struct dz_proc *p = (struct dz_proc *)(void *)full;
    p->pid = 2;
    p->nice = -1;
    round_trip(&dz_machine_row_records[DZ_KERNEL_TABLE_PROC], &b);
    CHECK(b.len < 16);
    CHECK(memcmp(full, back, sizeof *p) == 0);
    memset(full, 0, sizeof full);
    struct dz_thread *t = (struct dz_thread *)(void *)full;
    t->tid = 2;
    t->call[16].deadline = INT64_MAX;
    round_trip(&dz_machine_row_records[DZ_KERNEL_TABLE_THREAD], &b);
    CHECK(b.len < 32);
    CHECK(memcmp(full, back, sizeof *t) == 0);
}

TEST(damaged_records_are_refused)
{
    DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(1 << 20);
    struct dz_err err = {0};
    const struct dz_record *r = &dz_machine_row_records[DZ_KERNEL_TABLE_PROC];
    struct dz_proc *p = (struct dz_proc *)(void *)full;
    memset(full, 0, sizeof full);
    p->pid = 77;
    p->act[3].mask = 5;
    dz_record_put(&b, r, full);
    for (size_t n = 1; n < b.len; n++) { /* cut off: shorter, or an error; never a crash */
        memset(back, 0, r->size);
        int rc = dz_record_get((const uint8_t *)b.p, n, r, back, &err);
        CHECK(rc == 0 || rc == DZ_ECORRUPT);
    }
    static const uint8_t newer[] = {120, 1, 1}, wide[] = {3, 5, 1, 2, 3, 4, 5},
                         twice[] = {3, 1, 1, 3, 1, 1}, endless[] = {0xff, 0xff, 0xff},
                         outside[] = {33, 5, 64, 3, 1, 1, 9};
    CHECK_INT(dz_record_get(newer, sizeof newer, r, back, &err), DZ_EUNSUPPORTED);
    CHECK_INT(dz_record_get(wide, sizeof wide, r, back, &err), DZ_ECORRUPT);
    CHECK_INT(dz_record_get(twice, sizeof twice, r, back, &err), DZ_ECORRUPT);
    CHECK_INT(dz_record_get(endless, sizeof endless, r, back, &err), DZ_ECORRUPT);
    CHECK_INT(dz_record_get(outside, sizeof outside, r, back, &err), DZ_ECORRUPT);
}

TEST(numbers_of_any_size)
{
    static const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < DZ_ARRAY_LEN(values); i++) {
        DZ_AUTO(dz_buf_release) struct dz_buf b = DZ_BUF_INIT(64);
        uint64_t v = 5;
        dz_record_put_number(&b, values[i]);
        const uint8_t *at = (const uint8_t *)b.p, *end = at + b.len;
        CHECK(dz_record_get_number(&at, end, &v) && at == end && v == values[i]);
    }
}

/* --- a packed state -------------------------------------------------------------------- */

static void some_state(struct dz_buf *b)
{
    for (uint32_t i = 0; i < 40000; i++) {
        uint32_t v = i / 16;
        dz_buf_add(b, &v, sizeof v);
    }
}

TEST(a_large_state_is_packed_and_comes_back)
{
    DZ_AUTO(dz_buf_release)
    struct dz_buf state = DZ_BUF_INIT(1 << 20), packed = DZ_BUF_INIT(1 << 20);
    DZ_AUTO(dz_buf_release) struct dz_buf plain = DZ_BUF_INIT(1 << 20), small = DZ_BUF_INIT(64);
    some_state(&state);
    CHECK_INT(dz_machine_state_pack(&state, &packed, NULL), 1);
    CHECK(packed.len < state.len);
    CHECK_INT(dz_machine_state_unpack(&packed, &plain, NULL), 0);
    CHECK_INT(plain.len, state.len);
    CHECK(memcmp(plain.p, state.p, state.len) == 0);
    dz_buf_adds(&small, "small");
    CHECK_INT(dz_machine_state_pack(&small, &packed, NULL), 0);
    CHECK_INT(dz_machine_state_unpack(&small, &plain, NULL), 0); /* as it is */
    CHECK_STR(plain.p, "small");
}

TEST(a_packed_state_that_lies_is_refused)
{
    DZ_AUTO(dz_buf_release)
    struct dz_buf state = DZ_BUF_INIT(1 << 20), packed = DZ_BUF_INIT(1 << 20);
    DZ_AUTO(dz_buf_release) struct dz_buf plain = DZ_BUF_INIT(1 << 20);
    struct dz_state_packed h;
    some_state(&state);
    CHECK_INT(dz_machine_state_pack(&state, &packed, NULL), 1);
    memcpy(&h, packed.p, sizeof h);
    static const uint64_t lies[] = {0, 1, 159999, 160001, UINT64_C(1) << 28, UINT64_MAX};
    for (size_t i = 0; i < DZ_ARRAY_LEN(lies); i++) {
        h.size = lies[i];
        memcpy(packed.p, &h, sizeof h);
        CHECK_INT(dz_machine_state_unpack(&packed, &plain, NULL), DZ_ECORRUPT);
    }
    h.size = 160000;
    memcpy(packed.p, &h, sizeof h);
    packed.len -= 9;
    CHECK_INT(dz_machine_state_unpack(&packed, &plain, NULL), DZ_ECORRUPT);
}
