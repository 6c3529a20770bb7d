/* SPDX-License-Identifier: MIT
 *
 * late.c - late libraries, by dlopen.
 */
#include "base/late.h"

#include <dlfcn.h>
#include <string.h>

int dz_late_load(const char *library, const char *package, const struct dz_late *functions,
                 size_t count, struct dz_err *err)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return dz_fail(err, DZ_EUNSUPPORTED, "%s could not be loaded: install the package %s (%s)",
                       library, package, dlerror());
    for (size_t i = 0; i < count; i++) {
        void *at = dlsym(handle, functions[i].name);
        if (!at)
            return dz_fail(err, DZ_EUNSUPPORTED,
                           "%s has no %s: it is not the version of the package %s", library,
                           functions[i].name, package);
        memcpy(functions[i].at, &at, sizeof at);
    }
    return 0; /* never unloaded, because pointers into it may still be in use */
}
