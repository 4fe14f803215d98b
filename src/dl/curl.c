/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/curl.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/util.h"
#include "dl/load.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct penstock_curl curl;
static char reason[160];
static bool usable;

static void curl_load(void)
{
	enum { EVERYTHING = 3 };
	const struct penstock_dl_symbol symbols[] = {
		{"curl_global_init", (void **)&curl.global_init, 0},
		{"curl_version", (void **)&curl.version, 0},
		{"curl_easy_strerror", (void **)&curl.strerror, 0},
		{"curl_easy_init", (void **)&curl.easy_init, 0},
		{"curl_easy_setopt", (void **)&curl.easy_setopt, 0},
		{"curl_easy_getinfo", (void **)&curl.easy_getinfo, 0},
		{"curl_easy_perform", (void **)&curl.easy_perform, 0},
		{"curl_easy_reset", (void **)&curl.easy_reset, 0},
		{"curl_easy_cleanup", (void **)&curl.easy_cleanup, 0},
		{"curl_slist_append", (void **)&curl.slist_append, 0},
		{"curl_slist_free_all", (void **)&curl.slist_free, 0},
		{"curl_multi_init", (void **)&curl.multi_init, 0},
		{"curl_multi_setopt", (void **)&curl.multi_setopt, 0},
		{"curl_multi_add_handle", (void **)&curl.multi_add, 0},
		{"curl_multi_remove_handle", (void **)&curl.multi_remove, 0},
		{"curl_multi_perform", (void **)&curl.multi_perform, 0},
		{"curl_multi_poll", (void **)&curl.multi_poll, 0},
		{"curl_multi_wakeup", (void **)&curl.multi_wakeup, 0},
		{"curl_multi_info_read", (void **)&curl.multi_info_read, 0},
		{"curl_multi_cleanup", (void **)&curl.multi_cleanup, 0},
	};

	/* Debian has it under a second name too, with another library for TLS. */
	usable = penstock_dl_load("libcurl.so.4", symbols, ARRAY_SIZE(symbols), reason,
				  sizeof(reason)) == 0;
	if (!usable) {
		char other[sizeof(reason)];

		usable = penstock_dl_load("libcurl-gnutls.so.4", symbols, ARRAY_SIZE(symbols),
					  other, sizeof(other)) == 0;
	}
	usable = usable && curl.global_init(EVERYTHING) == 0;
}

const struct penstock_curl *penstock_curl(const char **why)
{
	pthread_once(&once, curl_load);
	if (why)
		*why = reason;
	return usable ? &curl : NULL;
}
