/* SPDX-License-Identifier: MIT
 *
 * crt1.c - where a guest begins.
 *
 * It runs the constructors itself: with wasi-libc's start-up code the linker
 * wraps every export in constructors and destructors, __doze_signal too, and
 * each signal would flush stdio.
 */
#include <doze.h>
#include <stdlib.h>
#include <unistd.h>

void __wasm_call_ctors(void);
int __original_main(void);

__attribute__((export_name("_start"))) void _start(void)
{
    if (doze_abi(DOZE_ABI_VERSION) < 0) {
        static const char text[] = "this program needs a newer doze\n";
        (void)!write(2, text, sizeof text - 1);
        _Exit(126);
    }
    __wasm_call_ctors();
    exit(__original_main());
}
