/* SPDX-License-Identifier: Apache-2.0 */
#include "object/retry.h"

#include <errno.h>
#include <string.h>

#include "base/random.h"
#include "base/util.h"
#include "dl/curl.h"

enum { SKEW_S = 300, WINDOW_MS = 100, WINDOW_MAX_MS = 10000 };

/* Of the last column, those that are not told by their status. */
static const struct {
	const char *code;
	enum object_verdict verdict;
	int err;
} codes[] = {
	{"SlowDown", OBJECT_RETRY_SLOWER, -EIO},
	{"ServiceUnavailable", OBJECT_RETRY_SLOWER, -EIO},
	{"RequestLimitExceeded", OBJECT_RETRY_SLOWER, -EIO},
	{"TooManyRequests", OBJECT_RETRY_SLOWER, -EIO},
	{"InternalError", OBJECT_RETRY, -EIO},
	{"RequestTimeout", OBJECT_RETRY, -ETIMEDOUT},
	{"OperationAborted", OBJECT_RETRY, -EBUSY},
	{"ConditionalRequestConflict", OBJECT_RETRY, -EBUSY},
	/* It was spoilt on its way, or cut. */
	{"BadDigest", OBJECT_RETRY, -EBADMSG},
	{"XAmzContentSHA256Mismatch", OBJECT_RETRY, -EBADMSG},
	{"IncompleteBody", OBJECT_RETRY, -EBADMSG},
	{"RequestTimeTooSkewed", OBJECT_CORRECT_CLOCK, -EACCES},
	{"PermanentRedirect", OBJECT_REDIRECT, -EINVAL},
	{"TemporaryRedirect", OBJECT_REDIRECT, -EINVAL},
	{"NoSuchKey", OBJECT_FAIL, -ENOENT},
	{"NoSuchBucket", OBJECT_FAIL, -ENOENT},
	{"NoSuchUpload", OBJECT_FAIL, -ENOENT},
	{"ExpiredToken", OBJECT_FAIL, -EACCES},
	{"NotImplemented", OBJECT_FAIL, -ENOTSUP},
};

static int find_code(const char *code)
{
	for (unsigned i = 0; i < ARRAY_SIZE(codes); i++)
		if (!strcmp(codes[i].code, code))
			return (int)i;
	return -1;
}

static enum object_verdict classify_transport_error(const struct object_outcome *o)
{
	if (o->abort_code)
		return o->abort_code == -EBADMSG ? OBJECT_RETRY : OBJECT_FAIL;
	switch (o->curl) {
	case CURLE_UNSUPPORTED_PROTOCOL: /* an answer that is no HTTP */
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_PARTIAL_FILE:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_FAIL_REWIND:
		return OBJECT_RETRY;
	default:
		return OBJECT_FAIL;
	}
}

static enum object_verdict classify_status(const struct object_outcome *o)
{
	switch (o->status) {
	case 301:
	case 302:
	case 307:
	case 308:
		return OBJECT_REDIRECT;
	case 400:
		return o->other_region ? OBJECT_REDIRECT : OBJECT_FAIL;
	case 403:
		/* The answer to HEAD has no document that would say so. */
		return o->skew_s > SKEW_S || o->skew_s < -SKEW_S ? OBJECT_CORRECT_CLOCK
								 : OBJECT_FAIL;
	case 409:
		return o->conditional ? OBJECT_RETRY : OBJECT_FAIL;
	case 429:
	case 503:
	case 509:
		return OBJECT_RETRY_SLOWER;
	case 408:
	case 500:
	case 502:
	case 504:
		return OBJECT_RETRY;
	default:
		return o->status >= 520 && o->status < 530 ? OBJECT_RETRY : OBJECT_FAIL;
	}
}

enum object_verdict object_classify_outcome(const struct object_outcome *o)
{
	int i;

	if (o->curl != CURLE_OK || o->abort_code || !o->status)
		return classify_transport_error(o);
	/* 200 with an error in it, too: of what takes long the status is sent first. */
	i = find_code(o->code);
	if (i >= 0)
		return codes[i].verdict;
	if (o->status < 300)
		return *o->code ? OBJECT_FAIL : OBJECT_DONE;
	return classify_status(o);
}

bool object_is_endpoint_fault(const struct object_outcome *o)
{
	if (o->abort_code)
		return false;
	return o->curl != CURLE_OK || o->status == 502 || o->status == 504;
}

static int transport_errno(const struct object_outcome *o)
{
	if (o->abort_code)
		return o->abort_code;
	switch (o->curl) {
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return -EHOSTUNREACH;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		return -EPROTO;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	default:
		return -ECONNRESET;
	}
}

int object_outcome_errno(const struct object_outcome *o)
{
	int i;

	if (o->curl != CURLE_OK || o->abort_code || !o->status)
		return transport_errno(o);
	i = find_code(o->code);
	if (i >= 0)
		return codes[i].err;
	switch (o->status) {
	case 401:
	case 403:
		return -EACCES;
	case 404:
		return -ENOENT;
	case 409:
		return -EBUSY;
	case 412:
		return -ESTALE;
	case 501:
		return -ENOTSUP;
	default:
		return o->status >= 500 || o->status < 300 ? -EIO : -EINVAL;
	}
}

uint64_t object_backoff_ns(struct penstock_random *random, unsigned failures)
{
	unsigned doubled = failures ? (unsigned)min_u64(failures - 1, 16) : 0;
	uint64_t window = min_u64((uint64_t)WINDOW_MS << doubled, WINDOW_MAX_MS);

	return penstock_random_below(random, window * 1000000 + 1);
}
