/* SPDX-License-Identifier: MIT
 *
 * Input: a script for one terminal: bytes typed, written, read, and settings. The
 * rings must keep to their invariants (kernel_ldisc.c) after each step, and a read
 * must give what FIONREAD promised in raw mode. */
#include "../lib/kernel_rig.h"

#include <assert.h>

enum {
    STEPS_MAX = 4000,
};

struct input {
    const uint8_t *p;
    size_t n;
};

static uint32_t take(struct input *in, size_t bytes)
{
    uint32_t v = 0;
    for (size_t i = 0; i < bytes && in->n > 0; i++, in->n--)
        v = v << 8 | *in->p++;
    return v;
}

static const uint8_t *take_bytes(struct input *in, size_t want, size_t *ret_n)
{
    const uint8_t *p = in->p;
    *ret_n = want < in->n ? want : in->n;
    in->p += *ret_n;
    in->n -= *ret_n;
    return p;
}

static void check(struct krig *r, const struct dz_pty *t)
{
    size_t n = 0;
    uint32_t marks = 0;
    const uint8_t *m = dz_kernel_blob(r->k, t->marks, &n);
    assert(t->edit <= t->len && t->len <= DZ_KERNEL_TTY_IN && t->head < DZ_KERNEL_TTY_IN);
    assert((t->termios.lflag & ICANON) || t->edit == 0);
    for (uint32_t i = 0; m && i < t->len; i++)
        marks += m[(t->head + i) % DZ_KERNEL_TTY_IN] != 0;
    assert(!m || !(t->termios.lflag & ICANON) || marks == t->lines);
    assert(t->out_len <= DZ_KERNEL_TTY_OUT);
}

static void set(struct krig *r, struct dz_pty *t, struct input *in)
{
    struct dz_termios to = t->termios;
    uint32_t what = take(in, 1);
    if (what & 1)
        to.iflag = take(in, 2);
    if (what & 2)
        to.oflag = take(in, 2);
    if (what & 4)
        to.lflag = take(in, 3);
    for (uint32_t i = what >> 4; i > 0; i--)
        to.cc[take(in, 1) % sizeof to.cc] = (uint8_t)take(in, 1);
    dz_k_ldisc_set(r->k, t, &to);
}

static void read_some(struct krig *r, struct dz_pty *t, size_t n)
{
    static uint8_t buf[512];
    uint32_t promised = dz_k_ldisc_readable(t);
    bool ready = dz_k_ldisc_ready(t);
    int64_t got = dz_k_ldisc_read(r->k, t, buf, n < sizeof buf ? n : sizeof buf);
    assert(got == -EAGAIN || (got >= 0 && got <= (int64_t)sizeof buf));
    assert(ready || got <= 0 || n == 0 || !(t->termios.lflag & ICANON));
    assert(got <= 0 || promised > 0);
}

static void step(struct krig *r, struct dz_pty *t, uint32_t stream, struct input *in)
{
    size_t n;
    uint32_t op = take(in, 1);
    switch (op % 6) {
    case 0: {
        const uint8_t *p = take_bytes(in, op / 6, &n);
        assert(dz_kernel_stream_push(r->k, stream, p, n) <= (int64_t)n);
        break;
    }
    case 1: {
        const uint8_t *p = take_bytes(in, op / 6, &n);
        assert(dz_k_ldisc_write(r->k, t, p, n) <= n);
        break;
    }
    case 2:
        read_some(r, t, take(in, 1));
        break;
    case 3:
        set(r, t, in);
        break;
    case 4:
        if (op & 8)
            dz_k_ldisc_flush(r->k, t);
        r->take = op & 16 ? SIZE_MAX : op;
        break;
    default:
        (void)dz_kernel_flush(r->k, NULL);
        r->out_len = 0;
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct krig r;
    const struct dz_winsize win = {24, 80, 0, 0};
    struct input in = {data, size};
    uint32_t stream = 0;
    krig_start(&r);
    if (dz_kernel_pty_new(r.k, &win, 5, &stream, NULL) != 0)
        abort();
    struct dz_pty *t = dz_k_pty(r.k, 1);
    for (int i = 0; in.n > 0 && i < STEPS_MAX; i++) {
        step(&r, t, stream, &in);
        check(&r, t);
    }
    (void)krig_stop(&r);
    return 0;
}
