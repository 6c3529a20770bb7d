/* SPDX-License-Identifier: MIT
 *
 * config_table.h - every setting of the daemon, one row each.
 *
 *     X(section, key, TYPE, default, min, max, flags, option, argument, sentence)
 *
 * The row is all there is to say of a setting. From it come the field section_key of
 * struct dz_config, the key in the file, the variable DOZE_SECTION_KEY, the option of
 * `doze daemon`, `doze config`, and the reference in docs/guide/configuration.md (written
 * by scripts/check-docs --write).
 *
 * TYPE       field        what is read
 *   TEXT     const char * a line of text
 *   PATH     const char * a path; absolute in a file
 *   WORD     const char * one of the words that `argument` names, "a|b"
 *   NUMBER   uint64_t     a whole number, min to max
 *   SIZE     uint64_t     bytes, min to max: 64MB, 4GiB
 *   DURATION int64_t      milliseconds, min to max: 15m, 1500ms, digits are seconds
 *   BOOL     bool         yes or no
 *
 * An empty default of TEXT and PATH means that it is not said. min and max are for the
 * three kinds of numbers. flags:
 *
 *   RELOAD   it counts from the next SIGHUP on; others from the next start
 *   NEVER    a duration that may also be `never`: DZ_CONFIG_NEVER
 *   ZERO     0 is allowed below min, and means what the sentence says
 *   SECRET   its value is not shown
 *
 * Rows of a section stand together. Sentences begin with a verb or a noun in lower case,
 * have no full stop, and fit one line of help.
 */
#ifndef DZ_CONFIG_CONFIG_TABLE_H
#define DZ_CONFIG_CONFIG_TABLE_H

#define DZ_CONFIG_YEAR_MS (INT64_C(365) * 24 * 3600 * 1000)

/* clang-format off */
#define DZ_CONFIG_SETTINGS(X) \
    X(doze, data, PATH, "", 0, 0, 0, "data", "DIR", \
      "directory in which the daemon keeps everything") \
    X(doze, socket, PATH, "", 0, 0, 0, "socket", "PATH", \
      "unix socket to listen on (default: doze.sock in the data directory)") \
    X(doze, registry, TEXT, "", 0, 0, 0, "registry", "FILE", \
      "registry to use (default: registry.db in the data directory)") \
    X(listen, address, TEXT, "", 0, 0, 0, "listen", "HOST:PORT,...", \
      "TCP addresses to listen on, for clients with tokens (default: none)") \
    X(listen, plain, BOOL, "no", 0, 0, 0, "plain", "yes|no", \
      "allow listening without TLS on addresses that others can reach") \
    X(listen, connections, NUMBER, "16384", 16, 1000000, 0, "connections", "N", \
      "concurrent connections; above 128, 64 are reserved for the unix socket") \
    X(listen, connections_per_address, NUMBER, "1024", 1, 1000000, 0, \
      "connections-per-address", "N", "concurrent connections from one address") \
    X(listen, requests_per_tenant, NUMBER, "1024", 1, 1000000, 0, "requests-per-tenant", "N", \
      "concurrent requests and streams of one tenant") \
    X(listen, unread_per_tenant, SIZE, "128MiB", 1048576, UINT64_C(1) << 40, 0, \
      "unread-per-tenant", "SIZE", \
      "buffered bytes of a tenant's requests and answers; beyond it, 429") \
    X(listen, unread, SIZE, "1GiB", 1048576, UINT64_C(1) << 40, 0, "unread", "SIZE", \
      "buffered bytes of all requests and answers; beyond it, 429") \
    X(tls, certificate, PATH, "", 0, 0, RELOAD, "tls-certificate", "FILE", \
      "PEM file with the certificate chain for TCP; setting it turns TLS on") \
    X(tls, key, PATH, "", 0, 0, RELOAD, "tls-key", "FILE", \
      "PEM file with the private key of the certificate") \
    X(preview, domain, TEXT, "", 0, 0, 0, "preview-domain", "DOMAIN[:PORT]", \
      "serve PORT-ID.DOMAIN as previews of sandboxes (default: only by path)") \
    X(preview, wait, DURATION, "10s", 1, 3600000, ZERO, "preview-wait", "DURATION", \
      "time that a sandbox which wakes for a connection may take to listen") \
    X(e2b, enabled, BOOL, "no", 0, 0, 0, "e2b", "yes|no", \
      "serve the API of E2B, too, for its clients") \
    X(e2b, templates, TEXT, "", 0, 0, 0, "e2b-templates", "NAME=IMAGE,...", \
      "images by the names of templates (default: an image of the same name)") \
    X(ladder, suspend_after, DURATION, "15m", 1, DZ_CONFIG_YEAR_MS, RELOAD | NEVER, \
      "suspend-after", "DURATION", "suspend a sandbox after this much idle time") \
    X(ladder, freeze_after, DURATION, "24h", 1, DZ_CONFIG_YEAR_MS, RELOAD | NEVER, \
      "freeze-after", "DURATION", "freeze a sandbox after it was suspended for this long") \
    X(quotas, sandboxes, NUMBER, "100000", 1, 10000000, ZERO, "quota-sandboxes", "N", \
      "sandboxes per tenant (0: no limit, as for all quotas)") \
    X(quotas, warm_sandboxes, NUMBER, "2000", 1, 1000000, ZERO, "quota-warm-sandboxes", "N", \
      "awake sandboxes per tenant") \
    X(quotas, creations, NUMBER, "256", 1, 1000000, ZERO, "quota-creations", "N", \
      "concurrent creations per tenant") \
    X(quotas, creations_per_minute, NUMBER, "0", 1, 1000000, ZERO, "quota-creations-per-minute", "N", \
      "creations per tenant and minute") \
    X(quotas, memory, SIZE, "0", 1048576, INT64_MAX, ZERO, "quota-memory", "SIZE", \
      "memory of all awake sandboxes of a tenant") \
    X(quotas, disk, SIZE, "0", 1048576, INT64_MAX, ZERO, "quota-disk", "SIZE", \
      "disk space of all sandboxes and snapshots of a tenant") \
    X(quotas, schedules, NUMBER, "10000", 1, 1000000, ZERO, "quota-schedules", "N", \
      "schedules of all sandboxes of a tenant") \
    X(prices, currency, TEXT, "", 0, 0, 0, "price-currency", "NAME", \
      "currency of the amounts in usage, as EUR (default: no amounts)") \
    X(prices, memory, TEXT, "", 0, 0, 0, "price-memory", "PRICE", \
      "price of a GB of memory for an hour, while a sandbox is active") \
    X(prices, storage_active, TEXT, "", 0, 0, 0, "price-storage-active", "PRICE", \
      "price of a GB of files for an hour, while a sandbox is active") \
    X(prices, storage_asleep, TEXT, "", 0, 0, 0, "price-storage-asleep", "PRICE", \
      "price of a GB of files for an hour, in all other states") \
    X(prices, snapshots, TEXT, "", 0, 0, 0, "price-snapshots", "PRICE", \
      "price of a GB of snapshots for an hour") \
    X(disk, free_percent, NUMBER, "5", 1, 50, ZERO | RELOAD, "disk-free-percent", "PERCENT", \
      "share of the file system to keep free; below it creations fail (0: off)") \
    X(disk, free_max, SIZE, "8GiB", 1048576, INT64_MAX, RELOAD, "disk-free-max", "SIZE", \
      "upper limit of what disk.free_percent keeps free") \
    X(disk, sandbox, SIZE, "10GiB", 1048576, UINT64_C(1) << 50, ZERO | RELOAD, "disk-sandbox", "SIZE", \
      "disk space of a sandbox that has no limit of its own (0: no limit)") \
    X(disk, reserve, SIZE, "16MiB", 1048576, UINT64_C(1) << 40, ZERO | RELOAD, "disk-reserve", "SIZE", \
      "space reserved so that deleting and suspending work on a full disk") \
    X(replica, url, TEXT, "", 0, 0, 0, "replica-url", "URL", \
      "replicate sandboxes to URL/ID: file:///DIR or s3://BUCKET/PREFIX") \
    X(replica, key_file, PATH, "", 0, 0, 0, "replica-key-file", "FILE", \
      "encrypt replicas with the keys in this file (see `doze key new`)") \
    X(replica, every, DURATION, "0", 1, INT64_C(24) * 3600 * 1000, ZERO, "replica-every", "DURATION", \
      "pause between uploads of a sandbox (0: none to a directory, 1s to a bucket)") \
    X(replica, snapshot, DURATION, "24h", 60000, DZ_CONFIG_YEAR_MS, 0, "replica-snapshot", "DURATION", \
      "time after which a replica that grew gets a new snapshot of all pages") \
    X(replica, retention, DURATION, "24h", 60000, DZ_CONFIG_YEAR_MS, 0, "replica-retention", "DURATION", \
      "time to which a sandbox can be restored back") \
    X(replica, connections, NUMBER, "8", 1, 64, 0, "replica-connections", "N", \
      "concurrent uploads of all sandboxes") \
    X(replica, behind, DURATION, "10s", 1000, DZ_CONFIG_YEAR_MS, 0, "replica-behind", "DURATION", \
      "lag of a replica that is reported by an event") \
    X(cells, ahead, NUMBER, "8", 1, 256, 0, "ahead", "N", \
      "cells kept ready for new sandboxes, for each image in use") \
    X(cells, fences, TEXT, "", 0, 0, 0, "fences", "NAME,...", \
      "fences that every cell must have, or it is not started (see `doze doctor`)") \
    X(cells, cpu, WORD, "host", 0, 0, 0, "cpu", "host|x86-64-v2|x86-64-v3|x86-64-v4", \
      "processor shown to native programs, so that they can wake on unlike hosts") \
    X(cells, uids, TEXT, "1879048192-1879113727", 0, 0, 0, "uids", "FIRST-LAST|no", \
      "range of user ids, one for each tenant, if the daemon is root") \
    X(cells, memory_max, SIZE, "0", UINT64_C(64) << 20, UINT64_C(1) << 50, ZERO, \
      "cells-memory", "SIZE", "memory of all sandboxes together, limited by a cgroup (0: no limit)") \
    X(cells, memory_beside, SIZE, "0", UINT64_C(1) << 20, UINT64_C(1) << 50, ZERO, \
      "cells-memory-beside", "SIZE", \
      "memory of a cell besides its guest's, limited by a cgroup (0: no limit)") \
    X(cells, cpu_max, NUMBER, "0", 1, 1000000, ZERO, \
      "cells-cpu", "PERCENT", "CPU time of all sandboxes in per cent of one core (0: no limit)") \
    X(cells, processes_max, NUMBER, "0", 16, 1000000, ZERO, \
      "cells-processes", "N", "processes of all sandboxes, limited by a cgroup (0: no limit)") \
    X(egress, mode, WORD, "off", 0, 0, 0, "egress-mode", "off|deny_all|allow_all", \
      "what sandboxes without egress rules reach (off: none reaches other machines)") \
    X(egress, allow_cidrs, TEXT, "", 0, 0, 0, "egress-allow-cidrs", "CIDR,...", \
      "addresses that sandboxes reach at most (default: all)") \
    X(egress, allow_domains, TEXT, "", 0, 0, 0, "egress-allow-domains", "NAME,...", \
      "names that sandboxes reach at most: example.com, *.example.com") \
    X(egress, allow_ports, TEXT, "", 0, 0, 0, "egress-allow-ports", "PORT,...", \
      "ports of these addresses and names that sandboxes reach (default: all)") \
    X(egress, deny_cidrs, TEXT, "", 0, 0, 0, "egress-deny-cidrs", "CIDR,...", \
      "addresses that no sandbox reaches") \
    X(egress, deny_domains, TEXT, "", 0, 0, 0, "egress-deny-domains", "NAME,...", \
      "names that no sandbox reaches or resolves") \
    X(egress, local_cidrs, TEXT, "", 0, 0, 0, "egress-local-cidrs", "CIDR,...", \
      "reserved addresses that sandboxes may reach by their rules (default: none)") \
    X(egress, resolvers, TEXT, "", 0, 0, 0, "egress-resolvers", "ADDRESS[:PORT],...", \
      "name servers for sandboxes (default: those of /etc/resolv.conf)") \
    X(egress, connect_timeout, DURATION, "127s", 1000, 127000, 0, "egress-connect-timeout", "DURATION", \
      "time for connecting to another machine") \
    X(egress, connections, NUMBER, "256", 1, 1024, 0, "egress-connections", "N", \
      "concurrent connections of one sandbox to other machines") \
    X(cold, url, TEXT, "", 0, 0, 0, "cold-url", "URL", \
      "cold storage: s3://BUCKET/PREFIX or file:///DIR (default: DATA/cold)") \
    X(cold, key_file, PATH, "", 0, 0, 0, "cold-key-file", "FILE", \
      "encrypt cold storage with the keys in this file (see `doze key new`)") \
    X(s3, endpoint, TEXT, "", 0, 0, 0, "s3-endpoint", "URL", \
      "server of buckets (default: AWS_ENDPOINT_URL, else Amazon's)") \
    X(s3, region, TEXT, "", 0, 0, 0, "s3-region", "NAME", \
      "region of buckets (default: AWS_REGION, else us-east-1)") \
    X(s3, addressing, WORD, "auto", 0, 0, 0, "s3-addressing", "auto|path|host", \
      "where a bucket's name stands in requests (auto: in the host name for Amazon)") \
    X(s3, credentials_file, PATH, "", 0, 0, 0, "s3-credentials-file", "FILE", \
      "keys and session token (default: AWS_ACCESS_KEY_ID, else ~/.aws/credentials)") \
    X(s3, profile, TEXT, "", 0, 0, 0, "s3-profile", "NAME", \
      "section of the credentials file (default: AWS_PROFILE, else default)") \
    X(s3, ca_file, PATH, "", 0, 0, 0, "s3-ca-file", "FILE", \
      "PEM file with the authorities trusted for buckets (default: the system's)") \
    X(daemon, drain_timeout, DURATION, "30s", 1000, INT64_C(3600) * 1000, RELOAD, "drain-timeout", \
      "DURATION", "time for suspending all sandboxes when the daemon stops") \
    X(log, level, WORD, "info", 0, 0, RELOAD, "log-level", "error|warn|info|debug", \
      "log lines of this severity and above") \
    X(log, format, WORD, "text", 0, 0, RELOAD, "log-format", "text|json", \
      "key=value text, or one JSON object per line")
/* clang-format on */

#endif
