/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#include_next <time.h>
#ifndef DOZE_TIME_H
#define DOZE_TIME_H
#ifdef __cplusplus
extern "C" {
#endif
void tzset(void);
extern char *tzname[2];
extern int daylight;
extern long timezone;
int clock_settime(clockid_t, const struct timespec *);
#ifdef __cplusplus
}
#endif
#endif
