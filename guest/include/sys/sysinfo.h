/* SPDX-License-Identifier: MIT */
#ifndef _SYS_SYSINFO_H
#define _SYS_SYSINFO_H
#ifdef __cplusplus
extern "C" {
#endif
struct sysinfo {
    unsigned long uptime, loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap;
    unsigned short procs, pad;
    unsigned long totalhigh, freehigh;
    unsigned mem_unit;
};
int sysinfo(struct sysinfo *);
#ifdef __cplusplus
}
#endif
#endif
