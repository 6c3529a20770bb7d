/* SPDX-License-Identifier: MIT
 *
 * local_jail.c - run the body of a command in a jail and pass its output, input and progress.
 */
#include "cli/local_jail.h"

#include "cli/cli_progress.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    TAG_OUT = 1,
    TAG_ERR,
    TAG_USAGE, /* the command line was wrong */
    TAG_START, /* progress. value: total << 1 | unit; data: the label of the progress line */
    TAG_AT,    /* value: done */
    TAG_END,
    TAG_READ, /* value: number of bytes at most; the answer has them */
    OUT_BUFFER = DZ_CALL_DATA_MAX,
};

/* --- inside ----------------------------------------------------------------------------- */

static struct inside {
    struct dz_call *call;
    struct dz_cli *c;
} inside; /* one process, one body */

static ssize_t write_out(void *cookie, const char *data, size_t n)
{
    const uint32_t *tag = cookie;
    return dz_call_write(inside.call, *tag, data, n) < 0 ? 0 : (ssize_t)n;
}

static FILE *open_out(uint32_t *tag, int mode, struct dz_err *err)
{
    static char out_buffer[OUT_BUFFER];
    FILE *f = fopencookie(tag, "w", (cookie_io_functions_t){.write = write_out});
    if (!f)
        (void)dz_fail(err, DZ_ENOMEM, "open a stream to the host: out of memory");
    else if (mode == _IOFBF)
        (void)setvbuf(f, out_buffer, mode, sizeof out_buffer);
    else
        (void)setvbuf(f, NULL, mode, BUFSIZ);
    return f;
}

static void show_progress(const struct dz_cli_progress *p, enum dz_cli_progress_step step,
                          uint64_t done)
{
    struct dz_call_msg m = {.tag = TAG_AT, .value = done};
    if (step == DZ_CLI_PROGRESS_START)
        m = (struct dz_call_msg){TAG_START, p->total << 1 | (p->unit == DZ_CLI_BYTES), p->what,
                                 strlen(p->what)};
    else if (step == DZ_CLI_PROGRESS_END)
        m = (struct dz_call_msg){.tag = TAG_END};
    (void)dz_call_send(inside.call, &m);
}

static bool asked_to_stop(void)
{
    return dz_call_stopped(inside.call);
}

ssize_t dz_cli_jail_read(void *buf, size_t n)
{
    struct dz_call_msg a;
    struct dz_err err;
    const struct dz_call_msg q = {.tag = TAG_READ, .value = n};
    if (dz_call_ask(inside.call, &q, &a, &err) < 0)
        return -EINTR;
    if (a.size > n)
        return -EIO;
    if (a.size > 0)
        memcpy(buf, a.data, a.size);
    return a.value ? -(ssize_t)a.value : (ssize_t)a.size;
}

static int body(struct dz_call *call, void *arg, struct dz_err *err)
{
    static uint32_t tag_out = TAG_OUT, tag_err = TAG_ERR;
    const struct dz_cli_jail *j = arg;
    struct dz_cli *c = inside.c;
    inside.call = call;
    c->out = open_out(&tag_out, _IOFBF, err);
    c->err = open_out(&tag_err, _IOLBF, err);
    if (!c->out || !c->err)
        return DZ_ENOMEM;
    c->progress = show_progress;
    dz_cli_signal_follow(asked_to_stop);
    int rc = j->body(c, j->arg, err);
    bool failed = fflush(c->out) != 0 || ferror(c->out) || fflush(c->err) != 0;
    if (c->usage_status)
        (void)dz_call_send(call, &(struct dz_call_msg){.tag = TAG_USAGE});
    return rc >= 0 && failed
               ? dz_fail(err, DZ_EIO, "send a message to the host: %s", strerror(EPIPE))
               : rc;
}

/* --- text that may steer a terminal ------------------------------------------------------- */

/* Filter a text that is shown on a terminal: control characters are dropped except for newline, tab
 * and the sequences for colour, each of which is closed. */
struct text_filter {
    enum {
        PLAIN,
        ESCAPE,
        SEQUENCE,
        C2
    } state;
};

static void put_plain(FILE *f, struct text_filter *t, unsigned char b)
{
    t->state = b == 0x1b ? ESCAPE : b == 0xc2 ? C2 : PLAIN;
    if (t->state == PLAIN) /* the other states depend on the next byte */
        (void)fputc((b >= 0x20 && b != 0x7f) || b == '\n' || b == '\t' ? b : '?', f);
}

static void put_byte(FILE *f, struct text_filter *t, unsigned char b)
{
    switch (t->state) {
    case ESCAPE:
        (void)fputs(b == '[' ? "\033[" : "?", f);
        if (b == '[')
            t->state = SEQUENCE;
        else
            put_plain(f, t, b);
        return;
    case SEQUENCE:
        if ((b >= '0' && b <= '9') || b == ';') {
            (void)fputc(b, f);
            return;
        }
        (void)fputc('m', f);
        t->state = PLAIN;
        if (b != 'm')
            put_plain(f, t, b);
        return;
    case C2: /* U+0080 to U+009F are control characters too */
        if (b >= 0xa0)
            (void)fputc(0xc2, f);
        t->state = PLAIN;
        (void)fputc(b >= 0xa0 ? b : '?', f);
        return;
    case PLAIN:
        put_plain(f, t, b);
    }
}

static void put_text(FILE *f, struct text_filter *t, const void *text, size_t n)
{
    const unsigned char *p = text;
    for (size_t i = 0; i < n; i++)
        put_byte(f, t, p[i]);
}

/* --- the host's side -------------------------------------------------------------------------- */

static int input_fd = -1; /* -1: the command reads nothing */

struct host {
    struct dz_cli *c;
    const struct dz_cli_jail *j;
    struct text_filter out, err;
    struct dz_cli_progress progress;
    char what[64]; /* text of the progress line */
    bool out_failed;
    char input[DZ_CALL_DATA_MAX];
};

void dz_cli_jail_input(int fd)
{
    input_fd = fd;
}

/* A failed write is reported at the end of the command, as for any other command. */
static int print(struct host *h, const struct dz_call_msg *m)
{
    if (h->c->out_tty)
        put_text(h->c->out, &h->out, m->data, m->size);
    else
        (void)fwrite(m->data, 1, m->size, h->c->out);
    if (h->c->out_tty)
        (void)fflush(h->c->out);
    h->out_failed = ferror(h->c->out) != 0;
    return 0;
}

static int complain(struct host *h, const struct dz_call_msg *m)
{
    dz_cli_progress_end(&h->progress);
    (void)fflush(h->c->out);
    put_text(h->c->err, &h->err, m->data, m->size);
    (void)fflush(h->c->err);
    return 0;
}

static int start_progress(struct host *h, const struct dz_call_msg *m)
{
    size_t n = m->size < sizeof h->what ? m->size : sizeof h->what - 1;
    memcpy(h->what, m->data, n);
    h->what[n] = '\0';
    dz_cli_progress_start(&h->progress, h->c, h->what, m->value >> 1,
                          m->value & 1 ? DZ_CLI_BYTES : DZ_CLI_COUNT);
    return 0;
}

static int pass_message(void *host, const struct dz_call_msg *m, struct dz_err *err)
{
    struct host *h = host;
    switch (m->tag) {
    case TAG_OUT:
        return print(h, m);
    case TAG_ERR:
        return complain(h, m);
    case TAG_USAGE:
        h->c->usage_status = DZ_EXIT_USAGE;
        return 0;
    case TAG_START:
        return start_progress(h, m);
    case TAG_AT:
        if (h->progress.cli)
            dz_cli_progress_at(&h->progress, m->value);
        return 0;
    case TAG_END:
        dz_cli_progress_end(&h->progress);
        return 0;
    default:
        break;
    }
    if (m->tag < DZ_CLI_TAG_OWN || !h->j->receive)
        return dz_fail(err, DZ_EIO, "a cell sent an invalid message (tag %u)", m->tag);
    return h->j->receive(h->j->host, m, err);
}

static void read_input(struct host *h, uint64_t most, struct dz_call_msg *ret)
{
    size_t n = most < sizeof h->input ? (size_t)most : sizeof h->input;
    ssize_t got;
    do
        got = read(input_fd, h->input, n);
    while (got < 0 && errno == EINTR && !dz_cli_interrupted());
    *ret = (struct dz_call_msg){TAG_READ, got < 0 ? (uint64_t)errno : 0, h->input,
                                got < 0 ? 0 : (size_t)got};
}

static int answer(void *host, const struct dz_call_msg *q, struct dz_call_msg *ret,
                  struct dz_err *err)
{
    struct host *h = host;
    if (q->tag == TAG_READ && input_fd >= 0) {
        read_input(h, q->value, ret);
        return 0;
    }
    if (q->tag < DZ_CLI_TAG_OWN || !h->j->answer)
        return dz_fail(err, DZ_EIO, "a cell asked an invalid question (tag %u)", q->tag);
    return h->j->answer(h->j->host, q, ret, err);
}

static bool stop(void *host)
{
    return dz_cli_interrupted() || ((const struct host *)host)->out_failed;
}

int dz_cli_jail_run(struct dz_cli *c, const struct dz_cli_jail *j, struct dz_err *err)
{
    static struct host h;
    union { /* run() does not write to it */
        const struct dz_cli_jail *in;
        void *out;
    } arg = {.in = j};
    struct dz_call_opts o = {.what = c->command->name,
                             .run = body,
                             .arg = arg.out,
                             .fds = j->fds,
                             .fd_count = j->fd_count,
                             .memory_bytes = j->memory_bytes,
                             .receive = pass_message,
                             .answer = answer,
                             .stop = stop,
                             .host = &h};
    h = (struct host){.c = c, .j = j};
    inside.c = c;
    (void)fflush(c->out);
    int rc = dz_cell_call(&o, NULL, err);
    dz_cli_progress_end(&h.progress);
    return h.out_failed ? DZ_EXIT_FAILURE : rc;
}
