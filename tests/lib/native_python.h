/* SPDX-License-Identifier: MIT
 *
 * native_python.h - a rig with python3 of this machine, its library, cat and bash.
 */
#ifndef DZ_TESTS_NATIVE_PYTHON_H
#define DZ_TESTS_NATIVE_PYTHON_H

#include "native_rig.h"

static inline bool nrig_is_needless(const char *name)
{
    static const char *const names[] = {"test",       "idlelib",       "tkinter",   "lib2to3",
                                        "ensurepip",  "turtledemo",    "distutils", "__pycache__",
                                        "pydoc_data", "dist-packages", "unittest",  "xml"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "config-3", 8) == 0;
}
static inline void nrig_python(struct nrig *r)
{
    nrig_start(r);
    nrig_program(r, "/usr/bin/python3.11");
    nrig_tree(r, "/usr/lib/python3.11", nrig_is_needless);
    nrig_tree(r, "/usr/lib/python3.11/__pycache__", NULL);
    nrig_tree(r, "/usr/lib/python3.11/encodings/__pycache__", NULL);
    nrig_tree(r, "/usr/lib/python3.11/collections/__pycache__", NULL);
    nrig_tree(r, "/usr/lib/python3.11/re/__pycache__", NULL);
    nrig_program(r, "/bin/cat");
    nrig_program(r, "/bin/bash");
    for (const char **lib =
             (const char *[]){"libssl", "libcrypto", "libffi", "liblzma", "libbz2", NULL};
         *lib; lib++) {
        char line[256];
        (void)snprintf(line, sizeof line, "ls /lib/x86_64-linux-gnu/%s.so.? 2>/dev/null", *lib);
        FILE *f = popen(line, "r"); /* NOLINT: a test */
        while (f && fgets(line, sizeof line, f)) {
            line[strcspn(line, "\n")] = '\0';
            nrig_copy(r, line);
        }
        if (f)
            (void)pclose(f);
    }
}

#endif
