/* SPDX-License-Identifier: MIT */
#include "sandbox/sandbox_why.h"

#include <stdarg.h>
#include <stdio.h>

int(dz_why)(struct dz_why *why, int code, const char *field, const char *fmt, ...)
{
    va_list args;
    char msg[sizeof why->err.msg];
    va_start(args, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    why->reason = NULL;
    (void)snprintf(why->field, sizeof why->field, "%s", field ? field : "");
    return dz_fail(&why->err, code, "%s", msg);
}

int dz_why_unsupported(struct dz_why *why, const char *field, const char *text)
{
    int rc = dz_why(why, DZ_EINVAL, field, "%s", text);
    why->reason = "unsupported";
    return rc;
}

int(dz_why_err)(struct dz_why *why, int code, const struct dz_err *err)
{
    why->reason = NULL;
    why->field[0] = '\0';
    if (&why->err != err)
        why->err = *err;
    why->err.code = code;
    return code;
}

const char *dz_why_reason(const struct dz_why *why)
{
    return why->reason                        ? why->reason
           : why->err.code == DZ_EUNSUPPORTED ? "unsupported"
           : why->err.code == DZ_EVOLUME      ? "volume"
                                              : NULL;
}
