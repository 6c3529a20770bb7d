/* SPDX-License-Identifier: MIT
 * Libraries that are loaded late. */
#include "base/late.h"

#include "tap.h"

#include <math.h>

static __typeof__(&cos) late_cos;

TEST(a_function_of_a_late_library_can_be_called)
{
    static const struct dz_late f[] = {{"cos", &late_cos}};
    struct dz_err err = {0};
    CHECK_INT(dz_late_load("libm.so.6", "libc6", f, 1, &err), 0);
    CHECK_INT(dz_late_load("libm.so.6", "libc6", f, 1, &err), 0);
    CHECK(late_cos(0.0) > 0.999);
}

TEST(what_is_missing_is_named_with_its_package)
{
    static const struct dz_late f[] = {{"dz_no_such_function", &late_cos}};
    struct dz_err err = {0};
    CHECK_INT(dz_late_load("libdoze-none.so.1", "libnone1", f, 1, &err), DZ_EUNSUPPORTED);
    CHECK(strstr(err.msg, "install the package libnone1"));
    CHECK_INT(dz_late_load("libm.so.6", "libc6", f, 1, &err), DZ_EUNSUPPORTED);
    CHECK(strstr(err.msg, "dz_no_such_function"));
}
