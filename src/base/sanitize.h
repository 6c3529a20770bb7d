/* SPDX-License-Identifier: MIT
 *
 * sanitize.h - detect a build with a sanitizer that has its own heap and shadow memory.
 *
 * DZ_SANITIZED is 1 under AddressSanitizer or ThreadSanitizer, of gcc or clang, else 0.
 */
#ifndef DZ_BASE_SANITIZE_H
#define DZ_BASE_SANITIZE_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DZ_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DZ_SANITIZED 1
#endif
#endif
#ifndef DZ_SANITIZED
#define DZ_SANITIZED 0
#endif

#endif
