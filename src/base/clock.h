/* SPDX-License-Identifier: MIT
 *
 * clock.h - clocks, and times as RFC 3339 text.
 *
 * Three clocks, all in nanoseconds:
 *   mono  runs from an unspecified start, stops while the machine is suspended:
 *         for timeouts and measuring;
 *   boot  the same but counts suspended time: for deadlines in wall time;
 *   real  since 1970-01-01 UTC, may jump: for times that people read and rows keep.
 *
 * A test gives its own clock to the whole process with dz_clock_use and drives
 * it; nothing here waits.
 */
#ifndef DZ_BASE_CLOCK_H
#define DZ_BASE_CLOCK_H

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

#define DZ_NS_PER_MS 1000000LL
#define DZ_NS_PER_S  1000000000LL

int64_t dz_clock_mono_ns(void);
int64_t dz_clock_boot_ns(void);
int64_t dz_clock_real_ns(void);

static inline int64_t dz_clock_mono_ms(void)
{
    return dz_clock_mono_ns() / DZ_NS_PER_MS;
}
static inline int64_t dz_clock_real_ms(void)
{
    return dz_clock_real_ns() / DZ_NS_PER_MS;
}

/* The id of the machine's boot, a UUID: if it differs, CLOCK_BOOTTIME has restarted. "" if the
 * system does not provide it. */
enum {
    DZ_BOOT_ID = 37, /* with the terminator */
};
void dz_clock_boot_id(char ret_id[static DZ_BOOT_ID]);

/* A test clock that stands still until the test moves it. Access the fields only through these
 * functions, which any thread may call. */
struct dz_clock_test {
    _Atomic int64_t mono_ns, boot_ns, real_ns;
};

/* Make all dz_clock_* of the process read t; NULL: the kernel's clocks again. t must live until
 * then. */
void dz_clock_use(struct dz_clock_test *t);
void dz_clock_advance(struct dz_clock_test *t, int64_t ns); /* moves all three by ns >= 0 */
void dz_clock_set_real(struct dz_clock_test *t, int64_t real_ns);

/* RFC 3339 in UTC with milliseconds: 2026-01-31T23:59:59.000Z. */
enum {
    DZ_RFC3339_TEXT = 25
};

/* Milliseconds since 1970 of the years 0000 to 9999. */
#define DZ_RFC3339_MIN_MS (-62167219200000LL)
#define DZ_RFC3339_MAX_MS 253402300799999LL

/* A time out of this range is printed as the nearest end. Returns out. */
char *dz_rfc3339_print(int64_t unix_ms, char out[static DZ_RFC3339_TEXT]);

/* Parse a full date-time with 'T' and 'Z' (or lower case) or an offset (+01:00). A fraction has up
 * to nine digits and is cut to milliseconds. Second 60 is refused. DZ_EINVAL with a sentence. */
DZ_NODISCARD int dz_rfc3339_parse(struct dz_str s, int64_t *ret_unix_ms, struct dz_err *err);

#endif
