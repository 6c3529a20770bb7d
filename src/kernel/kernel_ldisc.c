/* SPDX-License-Identifier: MIT
 *
 * kernel_ldisc.c - the line discipline: the processing between typed text and read, and between
 * write and the screen, as in termios(3) of Linux for N_TTY.
 *
 *     typed -> mapping, flow control, signals -> editing -> input ring -> read
 *                                     echo |
 *     screen <- output ring <- output processing <- write
 *
 * The input ring holds complete lines and, at its end, `edit` bytes of the line
 * that may still be erased. Beside each byte is a mark: MARK_LINE ends a line,
 * MARK_EOF is an end of file and not itself a byte to be read. In raw mode there
 * is no editing and marks mean nothing.
 *
 * Not here: IUCLC, OLCUC, XCASE, delays, parity (PARMRK, INPCK), ECHOPRT, VDISCARD.
 *
 * Invariants:
 *   1. edit <= len <= DZ_KERNEL_TTY_IN; edit is 0 in raw mode (assert_rings);
 *   2. lines is the number of marks in the ring, none of them in the edited line
 *      (assert_rings checks the bound, dz_k_assert_all counts the marks).
 */
#include "kernel/kernel_int.h"

#include <signal.h>
#include <termios.h>

enum {
    MARK_NONE = 0,
    MARK_LINE = 1,
    MARK_EOF = 2,
    BELL = 7,
};

void dz_k_ldisc_reset(struct dz_termios *t)
{
    *t = (struct dz_termios){
        .iflag = ICRNL | IXON | IUTF8,
        .oflag = OPOST | ONLCR,
        .cflag = B38400 | CS8 | CREAD,
        .lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
        .ispeed = B38400,
        .ospeed = B38400,
    };
    static const uint8_t cc[] = {
        [VINTR] = 3,     [VQUIT] = 28,   [VERASE] = 127, [VKILL] = 21, [VEOF] = 4,
        [VMIN] = 1,      [VSTART] = 17,  [VSTOP] = 19,   [VSUSP] = 26, [VREPRINT] = 18,
        [VDISCARD] = 15, [VWERASE] = 23, [VLNEXT] = 22};
    memcpy(t->cc, cc, sizeof cc);
}

static bool is(const struct dz_pty *t, int which, uint8_t c)
{
    return t->termios.cc[which] != 0 && t->termios.cc[which] == c;
}
static bool local(const struct dz_pty *t, uint32_t flag)
{
    return (t->termios.lflag & flag) != 0;
}

/* Called after every change of the rings or the mode. */
static void assert_rings(const struct dz_pty *t)
{
    assert(t->edit <= t->len && t->len <= DZ_KERNEL_TTY_IN && t->head < DZ_KERNEL_TTY_IN);
    assert(t->edit == 0 || local(t, ICANON));
    assert(t->lines <= t->len - t->edit);
    assert(t->out_len <= DZ_KERNEL_TTY_OUT && t->out_head < DZ_KERNEL_TTY_OUT);
}

/* ---- output ----------------------------------------------------------------------- */

static void put_out(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    (void)dz_k_ring_put(dz_k_blob(k, t->out, NULL), DZ_KERNEL_TTY_OUT, t->out_head, &t->out_len, &c,
                        1);
}

static void put_text(struct dz_kernel *k, struct dz_pty *t, const char *s)
{
    for (; *s; s++)
        put_out(k, t, (uint8_t)*s);
}

/* Update the column of the cursor after c was written unchanged. */
static void move_column(struct dz_pty *t, uint8_t c)
{
    if (c == '\r')
        t->column = 0;
    else if (c == '\b')
        t->column -= t->column > 0;
    else if (c == '\t')
        t->column = (t->column | 7) + 1;
    else if (c >= ' ' && c != 127 && !((t->termios.iflag & IUTF8) && (c & 0xc0) == 0x80))
        t->column++;
}

/* Process and write one byte of output. False: no room (and no effect). */
static bool output(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    uint32_t o = t->termios.oflag;
    if (t->out_len + 8 > DZ_KERNEL_TTY_OUT)
        return false;
    if (!(o & OPOST)) {
        put_out(k, t, c);
        return true;
    }
    if (c == '\n') {
        if (o & ONLRET)
            t->column = 0;
        if (o & ONLCR) {
            t->column = 0;
            put_out(k, t, '\r');
        }
        put_out(k, t, '\n');
        return true;
    }
    if (c == '\r') {
        if ((o & ONOCR) && t->column == 0)
            return true;
        if (o & OCRNL)
            c = '\n';
    }
    if (c == '\t' && (o & TABDLY) == TAB3) {
        for (uint32_t to = (t->column | 7) + 1; t->column < to; t->column++)
            put_out(k, t, ' ');
        return true;
    }
    move_column(t, c);
    put_out(k, t, c);
    return true;
}

size_t dz_k_ldisc_write(struct dz_kernel *k, struct dz_pty *t, const uint8_t *data, size_t n)
{
    size_t done = 0;
    while (!t->stopped && done < n && output(k, t, data[done]))
        done++;
    if (done > 0) {
        t->canon_col = t->column; /* the next typed line begins here */
        dz_k_pty_output(k, t);
    }
    assert_rings(t);
    return done;
}

/* ---- echo ---------------------------------------------------------------------------- */

static bool shows_as_ctl(const struct dz_pty *t, uint8_t c)
{
    return local(t, ECHOCTL) && ((c < ' ' && c != '\t' && c != '\n') || c == 127);
}

static void echo(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    if (!local(t, ECHO) && !(c == '\n' && local(t, ECHONL) && local(t, ICANON)))
        return;
    if (t->edit == 0 && c != '\n')
        t->canon_col = t->column;
    if (shows_as_ctl(t, c)) {
        (void)output(k, t, '^');
        (void)output(k, t, c == 127 ? '?' : c ^ 0x40);
    } else {
        (void)output(k, t, c);
    }
}

/* ---- the input ring -------------------------------------------------------------------- */

struct ring {
    uint8_t *bytes, *marks;
};

static struct ring ring_of(const struct dz_kernel *k, const struct dz_pty *t)
{
    return (struct ring){dz_k_blob(k, t->in, NULL), dz_k_blob(k, t->marks, NULL)};
}

static uint32_t slot(const struct dz_pty *t, uint32_t i)
{
    return (t->head + i) % DZ_KERNEL_TTY_IN;
}

static void put_in(struct dz_kernel *k, struct dz_pty *t, uint8_t c, uint8_t mark)
{
    struct ring r = ring_of(k, t);
    if (t->len == DZ_KERNEL_TTY_IN)
        return;
    r.bytes[slot(t, t->len)] = c;
    r.marks[slot(t, t->len)] = mark;
    t->len++;
    if (mark == MARK_NONE && local(t, ICANON)) {
        t->edit++;
        return;
    }
    if (mark != MARK_NONE) {
        t->lines++;
        t->edit = 0;
    }
    dz_k_wake(k, &t->wait_in);
}

/* Room for one more byte? The last place is reserved for the end of a line. */
size_t dz_k_ldisc_room(const struct dz_pty *t)
{
    return DZ_KERNEL_TTY_IN - 1 - dz_k_min64(t->len, DZ_KERNEL_TTY_IN - 1);
}

void dz_k_ldisc_flush(struct dz_kernel *k, struct dz_pty *t)
{
    t->head = t->len = t->edit = t->lines = 0;
    t->lnext = 0;
    dz_k_wake(k, &t->wait_master); /* a writer of the master that waits for room */
}

/* ---- editing --------------------------------------------------------------------------- */

static uint8_t last_byte(const struct dz_kernel *k, const struct dz_pty *t, uint32_t back)
{
    return ring_of(k, t).bytes[slot(t, t->len - 1 - back)];
}

/* The column after the edited line, less its last `without` bytes. */
static uint32_t column_of(const struct dz_kernel *k, const struct dz_pty *t, uint32_t without)
{
    struct dz_pty at = *t; /* a copy, only to count columns */
    at.column = t->canon_col;
    for (uint32_t i = t->edit; i > without; i--) {
        uint8_t c = last_byte(k, t, i - 1);
        if (shows_as_ctl(t, c))
            at.column += 2;
        else
            move_column(&at, c);
    }
    return at.column;
}

/* Remove the last character of the line: one byte, or all bytes of a UTF-8 sequence. */
static void erase_one(struct dz_kernel *k, struct dz_pty *t, bool show)
{
    uint32_t n = 1;
    if (t->termios.iflag & IUTF8)
        while (n < t->edit && n < 4 && (last_byte(k, t, n - 1) & 0xc0) == 0x80)
            n++;
    if (show && local(t, ECHO) && local(t, ECHOE)) {
        uint32_t to = column_of(k, t, n), from = column_of(k, t, 0);
        bool tab = last_byte(k, t, 0) == '\t';
        for (; from > to; from--)
            put_text(k, t, tab ? "\b" : "\b \b");
        t->column = to;
    }
    assert(n <= t->edit);
    t->len -= n;
    t->edit -= n;
}

static bool is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c >= 0x80;
}

static void erase_word(struct dz_kernel *k, struct dz_pty *t)
{
    while (t->edit > 0 && !is_word(last_byte(k, t, 0)))
        erase_one(k, t, true);
    while (t->edit > 0 && is_word(last_byte(k, t, 0)))
        erase_one(k, t, true);
}

static void kill_line(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    bool visual = local(t, ECHOKE) && local(t, ECHOE) && local(t, ECHOK);
    while (t->edit > 0)
        erase_one(k, t, visual);
    if (visual)
        return;
    echo(k, t, c);
    if (local(t, ECHOK) && local(t, ECHO))
        (void)output(k, t, '\n');
}

static void reprint(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    echo(k, t, c);
    (void)output(k, t, '\n');
    t->canon_col = t->column;
    for (uint32_t i = t->edit; i > 0; i--)
        echo(k, t, last_byte(k, t, i - 1));
}

/* True: c was an editing key. */
static bool edit_key(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    bool extended = local(t, IEXTEN);
    if (is(t, VERASE, c)) {
        if (t->edit > 0)
            erase_one(k, t, true);
        if (!local(t, ECHOE))
            echo(k, t, c);
    } else if (is(t, VKILL, c)) {
        kill_line(k, t, c);
    } else if (extended && is(t, VWERASE, c)) {
        erase_word(k, t);
    } else if (extended && is(t, VREPRINT, c) && local(t, ECHO)) {
        reprint(k, t, c);
    } else if (extended && is(t, VLNEXT, c)) {
        t->lnext = 1;
        if (local(t, ECHO) && local(t, ECHOCTL))
            put_text(k, t, "^\b");
    } else {
        return false;
    }
    return true;
}

/* ---- typed ------------------------------------------------------------------------------- */

static int signal_of(const struct dz_pty *t, uint8_t c)
{
    if (!local(t, ISIG))
        return 0;
    return is(t, VINTR, c) ? SIGINT : is(t, VQUIT, c) ? SIGQUIT : is(t, VSUSP, c) ? SIGTSTP : 0;
}

static void start_output(struct dz_kernel *k, struct dz_pty *t)
{
    t->stopped = 0;
    dz_k_wake(k, &t->wait_out);
}

/* Flow control and signals. True: c has no other effect. */
static bool control_key(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    if (t->termios.iflag & IXON) {
        if (is(t, VSTART, c) || is(t, VSTOP, c)) {
            t->stopped = is(t, VSTOP, c) && !(is(t, VSTART, c) && t->stopped);
            if (!t->stopped)
                start_output(k, t);
            return true;
        }
        if (t->stopped && (t->termios.iflag & IXANY))
            start_output(k, t);
    }
    int signo = signal_of(t, c);
    if (signo == 0)
        return false;
    if (!local(t, NOFLSH)) {
        dz_k_ldisc_flush(k, t);
        t->out_len = 0;
        dz_k_wake(k, &t->wait_out);
    }
    if (t->stopped)
        start_output(k, t);
    echo(k, t, c);
    t->canon_col = t->column;
    dz_k_send_pgrp(k, t->pgrp, signo);
    return true;
}

static void canonical(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    if (edit_key(k, t, c))
        return;
    if (c == '\n') {
        echo(k, t, c);
        t->canon_col = t->column;
        put_in(k, t, c, MARK_LINE);
    } else if (is(t, VEOF, c)) {
        put_in(k, t, 0, MARK_EOF);
    } else if (dz_k_ldisc_room(t) == 0) {
        if (t->termios.iflag & IMAXBEL)
            put_out(k, t, BELL);
    } else {
        bool ends = is(t, VEOL, c) || (local(t, IEXTEN) && is(t, VEOL2, c));
        echo(k, t, c);
        put_in(k, t, c, ends ? MARK_LINE : MARK_NONE);
    }
}

static void type(struct dz_kernel *k, struct dz_pty *t, uint8_t c)
{
    uint32_t i = t->termios.iflag;
    if (i & ISTRIP)
        c &= 0x7f;
    if (t->lnext) {
        t->lnext = 0;
        if (dz_k_ldisc_room(t) > 0) {
            echo(k, t, c);
            put_in(k, t, c, MARK_NONE);
        }
        return;
    }
    if (control_key(k, t, c))
        return;
    if (c == '\r' && (i & IGNCR))
        return;
    if (c == '\r' && (i & ICRNL))
        c = '\n';
    else if (c == '\n' && (i & INLCR))
        c = '\r';
    if (local(t, ICANON)) {
        canonical(k, t, c);
        return;
    }
    echo(k, t, c);
    put_in(k, t, c, MARK_NONE);
}

size_t dz_k_ldisc_input(struct dz_kernel *k, struct dz_pty *t, const uint8_t *data, size_t n)
{
    size_t i = 0;
    for (; i < n; i++) {
        /* Then the byte may overflow the line: bell. */
        bool only_edit = local(t, ICANON) && t->edit == t->len;
        if (dz_k_ldisc_room(t) == 0 && !only_edit && signal_of(t, data[i]) == 0)
            break;
        type(k, t, data[i]);
    }
    t->atime = k->ops.real_ns(k->ops.arg);
    if (t->out_len > 0)
        dz_k_pty_output(k, t);
    assert_rings(t);
    return i;
}

/* ---- read ------------------------------------------------------------------------------------ */

/* Bytes of the first line, or all in raw mode; with the mark that ends it. */
static uint32_t first_line(const struct dz_kernel *k, const struct dz_pty *t, uint8_t *ret_mark)
{
    struct ring r = ring_of(k, t);
    uint32_t i = 0;
    *ret_mark = MARK_NONE;
    while (i < t->len && r.marks[slot(t, i)] == MARK_NONE)
        i++;
    if (i == t->len)
        return i;
    *ret_mark = r.marks[slot(t, i)];
    return *ret_mark == MARK_LINE ? i + 1 : i;
}

static void drop_in(const struct dz_kernel *k, struct dz_pty *t, uint32_t n)
{
    struct ring r = ring_of(k, t);
    assert(n <= t->len);
    for (uint32_t i = 0; i < n; i++)
        t->lines -= r.marks[slot(t, i)] != MARK_NONE;
    t->head = slot(t, n);
    t->len -= n;
    if (t->edit > t->len)
        t->edit = t->len;
}

static uint32_t copy_in(const struct dz_kernel *k, struct dz_pty *t, uint8_t *buf, uint32_t n)
{
    struct ring r = ring_of(k, t);
    for (uint32_t i = 0; i < n; i++)
        buf[i] = r.bytes[slot(t, i)];
    drop_in(k, t, n);
    return n;
}

uint32_t dz_k_ldisc_readable(const struct dz_pty *t)
{
    if (!local(t, ICANON))
        return t->len;
    return t->lines > 0 ? t->len - t->edit : 0;
}

bool dz_k_ldisc_ready(const struct dz_pty *t)
{
    const uint8_t *cc = t->termios.cc;
    if (local(t, ICANON))
        return t->lines > 0;
    return t->len >= (cc[VTIME] == 0 && cc[VMIN] > 0 ? cc[VMIN] : 1u);
}

/* Read what is available now, without waiting: -EAGAIN if nothing can be returned. */
int64_t dz_k_ldisc_read(struct dz_kernel *k, struct dz_pty *t, uint8_t *buf, size_t n)
{
    uint32_t got;
    if (!local(t, ICANON)) {
        if (t->len == 0)
            return -EAGAIN;
        got = copy_in(k, t, buf, (uint32_t)dz_k_min64(n, t->len));
    } else {
        uint8_t mark;
        if (t->lines == 0)
            return -EAGAIN;
        uint32_t line = first_line(k, t, &mark);
        got = copy_in(k, t, buf, (uint32_t)dz_k_min64(n, line));
        if (got == line && mark == MARK_EOF)
            drop_in(k, t, 1);
    }
    assert_rings(t);
    dz_k_wake(k, &t->wait_master); /* a writer of the master that waits for room */
    return got;
}

void dz_k_ldisc_set(struct dz_kernel *k, struct dz_pty *t, const struct dz_termios *to)
{
    bool was = local(t, ICANON);
    t->termios = *to;
    if (was && !local(t, ICANON)) {
        t->edit = 0; /* the edited bytes may be read, too */
        t->lnext = 0;
    } else if (!was && local(t, ICANON) && t->len > 0) {
        uint8_t *mark = &ring_of(k, t).marks[slot(t, t->len - 1)];
        t->lines += *mark == MARK_NONE; /* the bytes so far count as a line */
        *mark = *mark == MARK_NONE ? MARK_LINE : *mark;
        t->edit = 0;
    }
    assert_rings(t);
    if (!(to->iflag & IXON) && t->stopped)
        start_output(k, t);
    dz_k_wake(k, &t->wait_in);
}
