/* SPDX-License-Identifier: MIT
 *
 * cli_term.h - what the terminal can show: colour, width, text.
 */
#ifndef DZ_CLI_TERM_H
#define DZ_CLI_TERM_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* May escape sequences for colour be written to this stream? Only to a
 * terminal that is not dumb, and not when NO_COLOR is set to something. */
bool dz_cli_term_color(FILE *f);

/* Can a line on this stream be drawn again? Only on a terminal, not a dumb one. */
bool dz_cli_term_live(FILE *f);

/* Columns of the stream's terminal, within 20 and 400; 80 if it is none. */
size_t dz_cli_term_width(FILE *f);

/* X(name, SGR parameters) */
#define DZ_CLI_STYLES(X) \
    X(PLAIN, "")         \
    X(BOLD, "1")         \
    X(DIM, "2")          \
    X(RED, "31")         \
    X(GREEN, "32")       \
    X(YELLOW, "33")

enum dz_cli_style {
#define X(name, sgr) DZ_CLI_##name,
    DZ_CLI_STYLES(X)
#undef X
};

/* The escape sequence that starts a style, or "" without colour; the end of
 * every style is dz_cli_sgr_end(). */
const char *dz_cli_sgr(bool color, enum dz_cli_style style);
const char *dz_cli_sgr_end(bool color, enum dz_cli_style style);

/* Write text and a newline, its words wrapped so that no line passes `width`
 * columns if that can be helped. The cursor stands at `column`; lines after the
 * first begin behind `indent` spaces. */
void dz_cli_wrap(FILE *out, const char *text, size_t column, size_t indent, size_t width);

/* Columns that a UTF-8 text takes: its characters (no tables of wide ones). */
size_t dz_cli_columns(const char *text);

/* Append a text from outside (a file name, a guest's text) so that it cannot steer a terminal or
 * break a line: control characters and invalid UTF-8 become \n, \t or \xNN, a backslash becomes
 * two. */
void dz_cli_escape(struct dz_buf *out, struct dz_str text);
/* The same for text of several lines: newlines and tabs stay as they are. */
void dz_cli_escape_lines(struct dz_buf *out, struct dz_str text);

/* Write lines of a trace to fd, -1: standard error. Other bytes than printable ASCII become '?',
 * because a sandbox must not steer the terminal. */
int dz_cli_put_trace(int fd, struct dz_str lines, struct dz_err *err);

/* A size for people: "0 B", "999 B", "1.2 KiB", "34 MiB". Returns out. */
#define DZ_CLI_SIZE_TEXT 16
char *dz_cli_size(uint64_t bytes, char out[static DZ_CLI_SIZE_TEXT]);

#endif
