/* SPDX-License-Identifier: MIT
 * Sizes against a reader that counts in 128 bits, and print and parse against
 * each other. The first eight bytes are also a value to print. */
#include "base/num.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of the text, or -1. The unit is spelled out: letter, i, B. */
static __int128 model(struct dz_str s)
{
    static const char letters[] = "KMGTPE";
    const __int128 ceiling = (__int128)UINT64_MAX + 1;
    __int128 value = 0;
    size_t i = 0;

    if (s.n > DZ_NUM_TEXT_MAX)
        return -1;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
        value = value * 10 + (s.p[i] - '0') < ceiling ? value * 10 + (s.p[i] - '0') : ceiling;
    if (i == 0)
        return -1;
    struct dz_str unit = dz_str_sub(s, i, s.n);
    if (unit.n == 0 || dz_str_eqz(unit, "B"))
        return value;
    if (unit.p[unit.n - 1] != 'B' || unit.n > 3)
        return -1;
    const char *letter = unit.p[0] ? strchr(letters, unit.p[0]) : NULL;
    if (unit.n == 3) {
        if (unit.p[1] != 'i' || !letter)
            return -1;
        return value << (10 * (letter - letters + 1));
    }
    if (unit.p[0] == 'k')
        letter = letters;
    if (!letter)
        return -1;
    for (; letter >= letters; letter--)
        value = value * 1000;
    return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dz_str s = dz_str_n((const char *)data, size);
    char text[DZ_SIZE_TEXT];
    struct dz_err e = {0};
    uint64_t got = 7, again = 8;

    __int128 want = model(s);
    int rc = dz_size_parse(s, 0, UINT64_MAX, &got, &e);
    if (want >= 0 && want <= UINT64_MAX)
        assert(rc == 0 && got == (uint64_t)want);
    else
        assert(rc == DZ_EINVAL && got == 7 && e.msg[0] == '"');
    if (rc != 0 && size >= sizeof got)
        memcpy(&got, data, sizeof got);
    (void)dz_size_print(got, text);
    assert(strlen(text) < sizeof text);
    assert(dz_size_parse(dz_str(text), got, got, &again, NULL) == 0 && again == got);
    return 0;
}
