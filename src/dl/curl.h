/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_DL_CURL_H
#define PENSTOCK_DL_CURL_H

#include <stddef.h>
#include <stdint.h>

/*
 * libcurl, loaded at run time like dl/cuda.h.  Only what we call is declared, as libcurl.so.4 of
 * 7.68 and later has it; handles are void pointers here.
 */

/* CURLMsg */
struct penstock_curl_msg {
	int msg;
	void *easy;
	union {
		void *whatever;
		int result;
	} data;
};

struct penstock_curl {
	int (*global_init)(long flags);
	char *(*version)(void);
	const char *(*strerror)(int code);
	void *(*easy_init)(void);
	int (*easy_setopt)(void *easy, int option, ...);
	int (*easy_getinfo)(void *easy, int info, ...);
	int (*easy_perform)(void *easy);
	void (*easy_reset)(void *easy);
	void (*easy_cleanup)(void *easy);
	void *(*slist_append)(void *list, const char *line);
	void (*slist_free)(void *list);
	void *(*multi_init)(void);
	int (*multi_setopt)(void *multi, int option, ...);
	int (*multi_add)(void *multi, void *easy);
	int (*multi_remove)(void *multi, void *easy);
	int (*multi_perform)(void *multi, int *running);
	int (*multi_poll)(void *multi, void *fds, unsigned nr, int timeout_ms, int *ret);
	int (*multi_wakeup)(void *multi);
	struct penstock_curl_msg *(*multi_info_read)(void *multi, int *left);
	int (*multi_cleanup)(void *multi);
};

/* Of curl.h and multi.h, those we use. */
enum {
	CURLOPT_LOW_SPEED_LIMIT = 19,
	CURLOPT_LOW_SPEED_TIME = 20,
	CURLOPT_NOBODY = 44,
	CURLOPT_UPLOAD = 46,
	CURLOPT_POST = 47,
	CURLOPT_HTTPGET = 80,
	CURLOPT_HTTP_VERSION = 84,
	CURLOPT_BUFFERSIZE = 98,
	CURLOPT_NOSIGNAL = 99,
	CURLOPT_TIMEOUT_MS = 155,
	CURLOPT_CONNECTTIMEOUT_MS = 156,
	CURLOPT_PROTOCOLS = 181,
	CURLOPT_PATH_AS_IS = 234,
	CURLOPT_DNS_SHUFFLE_ADDRESSES = 275,
	CURLOPT_UPLOAD_BUFFERSIZE = 280,
	CURLOPT_WRITEDATA = 10001,
	CURLOPT_URL = 10002,
	CURLOPT_PROXY = 10004,
	CURLOPT_READDATA = 10009,
	CURLOPT_ERRORBUFFER = 10010,
	CURLOPT_POSTFIELDS = 10015,
	CURLOPT_USERAGENT = 10018,
	CURLOPT_HTTPHEADER = 10023,
	CURLOPT_HEADERDATA = 10029,
	CURLOPT_CUSTOMREQUEST = 10036,
	CURLOPT_CAINFO = 10065,
	CURLOPT_PRIVATE = 10103,
	CURLOPT_SEEKDATA = 10168,
	CURLOPT_WRITEFUNCTION = 20011,
	CURLOPT_READFUNCTION = 20012,
	CURLOPT_HEADERFUNCTION = 20079,
	CURLOPT_SEEKFUNCTION = 20167,
	CURLOPT_INFILESIZE_LARGE = 30115,
	CURLOPT_POSTFIELDSIZE_LARGE = 30120,

	CURL_HTTP_VERSION_1_1 = 2,
	CURLPROTO_HTTP = 1,
	CURLPROTO_HTTPS = 2,
	CURL_ERROR_SIZE = 256,
	CURL_READFUNC_ABORT = 0x10000000,

	CURLINFO_PRIVATE = 0x100000 + 21,
	CURLINFO_RESPONSE_CODE = 0x200000 + 2,
	CURLINFO_OS_ERRNO = 0x200000 + 25,
	CURLINFO_NUM_CONNECTS = 0x200000 + 26,

	CURLMOPT_MAXCONNECTS = 6,
	CURLMSG_DONE = 1,

	CURLE_OK = 0,
	CURLE_UNSUPPORTED_PROTOCOL = 1,
	CURLE_COULDNT_RESOLVE_PROXY = 5,
	CURLE_COULDNT_RESOLVE_HOST = 6,
	CURLE_COULDNT_CONNECT = 7,
	CURLE_WEIRD_SERVER_REPLY = 8,
	CURLE_PARTIAL_FILE = 18,
	CURLE_WRITE_ERROR = 23,
	CURLE_OUT_OF_MEMORY = 27,
	CURLE_OPERATION_TIMEDOUT = 28,
	CURLE_SSL_CONNECT_ERROR = 35,
	CURLE_ABORTED_BY_CALLBACK = 42,
	CURLE_GOT_NOTHING = 52,
	CURLE_SEND_ERROR = 55,
	CURLE_RECV_ERROR = 56,
	CURLE_SSL_CERTPROBLEM = 58,
	CURLE_PEER_FAILED_VERIFICATION = 60,
	CURLE_SEND_FAIL_REWIND = 65,
	CURLE_SSL_CACERT_BADFILE = 77,
};

/* The functions, or NULL with the reason in *@why. */
const struct penstock_curl *penstock_curl(const char **why);

#endif
