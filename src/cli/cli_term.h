/* SPDX-License-Identifier: MIT
 *
 * cli_term.h - what the terminal can show: colour, width, text.
 */
#ifndef DZ_CLI_TERM_H
#define DZ_CLI_TERM_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* May escape sequences for colour be written to this stream? Only to a
 * terminal that is not dumb, and not when NO_COLOR is set to something. */
bool dz_cli_term_color(FILE *f);

/* Can a line on this stream be drawn again? Only on a terminal, not a dumb one. */
bool dz_cli_term_live(FILE *f);

/* Columns of the stream's terminal, within 20 and 400; 80 if it is none. */
int dz_cli_term_width(FILE *f);

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

/* Write text as paragraphs: words wrapped so that no line passes `width`
 * columns, each line after the first behind `indent` spaces. The cursor is
 * taken to stand at column `indent` already. Ends with a newline. */
void dz_cli_wrap(FILE *out, const char *text, int indent, int width);

/* Columns that a UTF-8 text takes (its code points that are not combining
 * bytes; no tables of wide characters). */
size_t dz_cli_columns(const char *text);

#endif
