/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a store. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <penstock/s3.h>

#include "base/err.h"
#include "base/keyhash.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

enum {
	LEAST_SHARE = 1 << 20, /* of the capacity, for a directory */
};

/* ------------------------------------------------------------------- small */

/* Goes on while the machine is suspended, as the lives of values do. */
static uint64_t boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t store_now(const struct penstock_store *s)
{
	return s->clock_base + (boot_ns() - s->clock_from) / 1000000000u;
}

struct store_hash store_hash_key(const struct store_secret *secret, const void *key, size_t len)
{
	return (struct store_hash){penstock_key_hash(key, len, secret->a),
				   penstock_key_hash(key, len, secret->b)};
}

/* Steps of a sixteenth: at most 6 % of a value's space is empty. */
uint64_t store_units(uint64_t len)
{
	uint64_t units = (len + STORE_UNIT - 1) / STORE_UNIT, step = 1;

	while (units > 32 * step)
		step *= 2;
	return align_up(units, step);
}

void store_report_error(const struct penstock_store *s, int code, const char *file, uint64_t len,
			const char *text)
{
	struct penstock_event e = {
		.what = PENSTOCK_TRACE_ERROR,
		.code = code,
		.file = file ? file : "",
		.text = text ? text : "",
		.len = len,
	};

	if (s->opts.on_error)
		s->opts.on_error(s->opts.on_error_arg, &e);
}

/*
 * By the clock, so that of two directories that went on without each other the later one is ahead;
 * and always ahead of what is there.
 */
uint64_t store_next_epoch(uint64_t epoch)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return max_u64(epoch + 1, (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec);
}

/* ------------------------------------------------------------------- parts */

int store_init(struct penstock_store *s)
{
	struct timespec ts;
	int r;

	clock_gettime(CLOCK_REALTIME, &ts);
	s->clock_base = (uint64_t)ts.tv_sec;
	s->clock_from = boot_ns();
	atomic_store(&s->clock_tick_ns, 60000000000u);
	s->event = -1;
	s->pid = getpid();
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->queues.lock, NULL);
	pthread_cond_init(&s->queues.work, NULL);
	pthread_cond_init(&s->queues.commit, NULL);
	pthread_cond_init(&s->queues.finished, NULL);
	store_op_queue_init(&s->queues.ready);
	store_op_queue_init(&s->queues.to_commit);
	store_op_queue_init(&s->waiting);
	atomic_store(&s->queues.next_deadline, UINT64_MAX);
	s->queues.done_last = &s->queues.done_first;
	atomic_store(&s->log_piece, 1 << 20);
	store_staging_init(s);
	r = store_index_init(&s->index);
	if (r == 0)
		r = store_policy_init(&s->policy, s->opts.policy);
	if (r == 0)
		r = store_seen_fit(&s->touched, 0);
	return r;
}

void store_fini(struct penstock_store *s)
{
	store_tier_fini(s);
	for (unsigned i = 0; i < s->nr_dirs; i++)
		store_dir_close(&s->dirs[i]);
	if (s->io)
		store_staging_fini(s);
	penstock_close(s->io, NULL);
	store_index_fini(&s->index);
	store_policy_fini(&s->policy);
	free(s->touched.marks);
	free(s->dirs);
	if (s->event >= 0)
		close(s->event);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->queues.lock);
	pthread_cond_destroy(&s->queues.work);
	pthread_cond_destroy(&s->queues.commit);
	pthread_cond_destroy(&s->queues.finished);
	free(s);
}

/* ----------------------------------------------------------------- options */

static int copy_opts(struct penstock_store_opts *to, const struct penstock_store_opts *from,
		     struct penstock_err *err)
{
	*to = (struct penstock_store_opts)PENSTOCK_STORE_OPTS_INIT;
	if (from) {
		if (from->size < 8)
			return penstock_fail(err, -EINVAL, "opts.size: %u is too small",
					     from->size);
		for (size_t i = sizeof(*to); i < from->size; i++)
			if (((const char *)from)[i])
				return penstock_fail(
					err, -E2BIG,
					"opts: sets a field this library does not know");
		memcpy(to, from, min_u64(from->size, sizeof(*to)));
		to->size = sizeof(*to);
	}
	to->threads = to->threads ? to->threads : 1;
	if (to->flags &
	    ~(PENSTOCK_STORE_SECOND_TOUCH | PENSTOCK_STORE_DURABLE | PENSTOCK_STORE_NO_RECENT))
		return penstock_fail(err, -EINVAL, "opts.flags: 0x%x is not known", to->flags);
	if (to->policy > PENSTOCK_STORE_LRU)
		return penstock_fail(err, -EINVAL, "opts.policy: %u is outside 0..1", to->policy);
	if (to->threads > 64)
		return penstock_fail(err, -EINVAL, "opts.threads: %u is outside 1..64",
				     to->threads);
	return 0;
}

static int check_dirs(const char *const *dirs, unsigned nr, uint64_t capacity,
		      struct penstock_err *err)
{
	unsigned below = 0;
	int r;

	if (!dirs || !nr || nr > STORE_DIRS_MAX)
		return penstock_fail(err, -EINVAL, "dirs: %u of them, 1..%d can be", nr,
				     STORE_DIRS_MAX);
	for (unsigned i = 0; i < nr; i++) {
		if (!dirs[i] || !dirs[i][0])
			return penstock_fail(err, -EINVAL, "dirs[%u]: is empty", i);
		r = penstock_s3_is_uri(dirs[i], err);
		if (r < 0)
			return r;
		if (r > 0 && (i == 0 || i + 1 < nr))
			return penstock_fail(err, -EINVAL,
					     "%s: an object store comes last, behind directories",
					     dirs[i]);
		below += r > 0;
	}
	nr -= below;
	if (capacity / nr < LEAST_SHARE)
		return penstock_fail(err, -EINVAL,
				     "capacity: %llu bytes for %u directories, each needs 1 MiB",
				     (unsigned long long)capacity, nr);
	return 0;
}

/* ----------------------------------------------------------------- opening */

static int open_io(struct penstock_store *s, struct penstock_err *err)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;

	o.engine = s->opts.engine;
	o.threads = s->opts.io_threads;
	s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event < 0)
		return penstock_fail(err, -errno, "eventfd: %s", strerror(errno));
	return penstock_open(&s->io, &o, err);
}

/* What no drive can be blamed for ends it; a drive that fails is left out. */
static bool is_fatal(int code)
{
	return code == -EBUSY || code == -EEXIST || code == -EPROTO || store_is_process_error(code);
}

/* Why it is left out. */
static void report_exclusion(const struct store_dir *d, int code, const struct penstock_err *err)
{
	char text[sizeof(err->msg) + 32];

	penstock_print_elided(text, sizeof(text), "%s; it is left out", err->msg);
	store_report_error(d->store, code, d->path, 0, text);
}

/* It is left out, unless that ends the opening. */
static int exclude_failed_dir(struct store_dir *d, unsigned nr, int code, struct penstock_err *err)
{
	struct penstock_store *s = d->store;

	if (is_fatal(code) || s->stats.dirs_out + 1 == nr)
		return code;
	report_exclusion(d, code, err);
	d->excluded = true;
	s->stats.dirs_out++;
	return 0;
}

/* The secret that all heads have, whichever drives are new. */
static int find_secret(struct penstock_store *s, struct penstock_err *err)
{
	const struct store_dir *first = NULL;

	for (unsigned i = 0; i < s->nr_dirs; i++) {
		const struct store_dir *d = &s->dirs[i];

		if (d->excluded || d->fresh)
			continue;
		first = first ? first : d;
		if (d->secret.a != first->secret.a || d->secret.b != first->secret.b)
			return penstock_fail(err, -EEXIST, "%s: belongs to another store than %s",
					     d->path, first->path);
	}
	if (first)
		s->secret = first->secret;
	else if (getrandom(&s->secret, sizeof(s->secret), 0) != sizeof(s->secret))
		s->secret = (struct store_secret){clock_ns(), (uint64_t)getpid() | 1};
	return 0;
}

static int open_dirs(struct penstock_store *s, const char *const *dirs, unsigned nr,
		     struct penstock_err *err)
{
	int r = 0;

	s->dirs = calloc(nr, sizeof(*s->dirs));
	if (!s->dirs)
		return penstock_fail(err, -ENOMEM, "out of memory");
	while (s->nr_dirs < nr && r == 0) {
		struct store_dir *d = &s->dirs[s->nr_dirs];

		d->nr = s->nr_dirs++;
		r = store_dir_open(d, s, dirs[d->nr], s->capacity / nr, err);
		if (r < 0)
			r = exclude_failed_dir(d, nr, r, err);
	}
	if (r == 0)
		r = find_secret(s, err);
	for (unsigned i = 0; i < nr && r == 0; i++) {
		if (s->dirs[i].excluded)
			continue;
		r = store_dir_open_files(&s->dirs[i], err);
		if (r < 0)
			r = exclude_failed_dir(&s->dirs[i], nr, r, err);
	}
	return r;
}

/* Forget what a log says. */
static int recreate_log(struct store_dir *d, struct penstock_err *err)
{
	store_log_close(&d->log);
	unlinkat(d->dir_fd, STORE_LOG_NAME, 0);
	return store_journal_create(&d->log, d, STORE_LOG_NAME, err);
}

/* Its log as far as it is believed; the head stays as it was. */
static int load_log(struct store_dir *d, uint64_t since, struct penstock_err *err)
{
	int r;

	if (d->log.head.epoch < since) /* what it has may be out of date: it was not there */
		return recreate_log(d, err);
	r = store_journal_load(d, err);
	/* What a writer that was killed has left; what could not be read may be there next time. */
	if (r == 0)
		store_log_truncate(d);
	return r;
}

/* The newest epoch there is, and since when the directories that took part in it have missed
 * nothing.
 */
static uint64_t newest_epoch(struct penstock_store *s, uint64_t *ret_since)
{
	uint64_t epoch = 0;

	*ret_since = 0;
	for (unsigned i = 0; i < s->nr_dirs; i++) {
		const struct store_log_head *head = &s->dirs[i].log.head;
		uint64_t since = head->since ? head->since : head->epoch;

		if (s->dirs[i].excluded || head->epoch < epoch)
			continue;
		*ret_since = head->epoch > epoch ? since : max_u64(since, *ret_since);
		epoch = head->epoch;
	}
	return epoch;
}

static void exclude_after_head_failure(struct store_dir *d, int code)
{
	store_report_error(d->store, code, d->path, 0,
			   "the head of its log cannot be written; it is left out");
	store_dir_exclude(d);
}

static int load_logs(struct penstock_store *s, struct penstock_err *err)
{
	uint64_t since, epoch = newest_epoch(s, &since);
	int r = 0, c;

	for (unsigned i = 0; i < s->nr_dirs; i++)
		if (!s->dirs[i].excluded)
			s->clock_base = max_u64(s->clock_base, s->dirs[i].log.head.clock);
	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_dir *d = &s->dirs[i];

		if (d->excluded)
			continue;
		c = load_log(d, since, err);
		if (is_fatal(c))
			return c;
		if (c == 0)
			continue;
		r = c;
		report_exclusion(d, c, err);
		store_dir_exclude(d);
	}
	c = store_journal_set_epoch(s, since, store_next_epoch(epoch), exclude_after_head_failure);
	return c < 0 ? penstock_fail(err, c, "a log cannot be written: %s", penstock_strerror(c))
		     : r;
}

/*
 * Logs that were written with a larger capacity.  What goes from one of them must not be there with
 * an older value in one that could not be told.
 */
static int fit_logs(struct penstock_store *s, struct penstock_err *err)
{
	bool over = false;
	int r = 0, c;

	for (unsigned i = 0; i < s->nr_dirs; i++)
		over = over || (!s->dirs[i].excluded && store_log_is_too_long(&s->dirs[i]));
	for (unsigned i = 0; i < s->nr_dirs && over; i++) {
		struct store_dir *d = &s->dirs[i];

		if (d->excluded)
			continue;
		c = d->group.len ? -EIO : store_log_shrink(d);
		if (c == 0)
			continue;
		r = penstock_fail(err, c, "%s: its log cannot be made shorter: %s", d->path,
				  penstock_strerror(c));
		if (is_fatal(c))
			return r;
		report_exclusion(d, c, err);
		store_dir_exclude(d);
	}
	return s->stats.dirs_out == s->nr_dirs ? r : 0;
}

static int load_dirs(struct penstock_store *s, struct penstock_err *err)
{
	int r = load_logs(s, err);

	if (is_fatal(r) || s->stats.dirs_out == s->nr_dirs)
		return r;
	store_journal_drop_spaceless(s);
	/*
	 * What was found to be older than what another log says is so for good before anything else
	 * is written: when the newer one goes, the older one must not be there for the next start.
	 */
	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_dir *d = &s->dirs[i];

		if (d->excluded)
			continue;
		store_log_space_init(d);
		r = store_journal_flush(d);
		if (store_is_process_error(r))
			return penstock_fail(err, r, "%s: its log cannot be written: %s", d->path,
					     penstock_strerror(r));
	}
	r = fit_logs(s, err);
	if (r < 0)
		return r;
	s->stats.recovered = s->stats.entries;
	for (unsigned i = 0; i < s->nr_dirs; i++)
		if (s->dirs[i].excluded)
			store_dir_remove_log(&s->dirs[i]);
	return 0;
}

int penstock_store_open(struct penstock_store **out, const char *const *dirs, unsigned nr,
			uint64_t capacity, const struct penstock_store_opts *opts,
			struct penstock_err *err)
{
	struct penstock_store_opts o;
	struct penstock_err local = {0, ""};
	struct penstock_store *s;
	bool below;
	int r;

	err = err ? err : &local;
	r = copy_opts(&o, opts, err);
	if (r == 0)
		r = check_dirs(dirs, nr, capacity, err);
	if (r < 0)
		return r;
	below = penstock_s3_is_uri(dirs[nr - 1], NULL) > 0;
	nr -= below;
	s = calloc(1, sizeof(*s));
	if (!s)
		return penstock_fail(err, -ENOMEM, "out of memory");
	s->opts = o;
	s->capacity = capacity;
	r = store_init(s);
	if (r < 0)
		penstock_fail(err, r, "out of memory");
	if (r == 0)
		r = open_io(s, err);
	if (r == 0)
		r = open_dirs(s, dirs, nr, err);
	if (r == 0 && below)
		r = store_tier_init(s, dirs[nr], err);
	if (r == 0)
		r = load_dirs(s, err);
	if (r == 0)
		r = store_log_writer_start(s, err);
	if (r == 0)
		r = store_workers_start(s, err);
	if (r == 0)
		r = store_tier_start(s, err);
	s->opts.s3 = NULL; /* the caller's */
	if (r < 0) {
		store_tier_stop(s);
		store_workers_stop(s);
		store_log_writer_stop(s);
		store_fini(s);
		return r;
	}
	*out = s;
	return 0;
}

/* ----------------------------------------------------------------- closing */

/* Until nothing is inside but batches that nobody has collected. */
static void wait_until_idle(struct penstock_store *s)
{
	struct store_queues *q = &s->queues;
	uint64_t waiting;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		waiting = 0;
		for (struct store_batch *b = q->done_first; b; b = b->next)
			waiting++;
		if (!q->open && q->objects == waiting)
			break;
		pthread_cond_wait(&q->finished, &q->lock);
	}
	pthread_mutex_unlock(&q->lock);
}

/* The child of a fork() has memory and descriptors to give back, and nothing else. */
static void close_child(struct penstock_store *s)
{
	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_dir *d = &s->dirs[i];

		if (d->data_fd >= 0)
			close(d->data_fd);
		if (d->log.file)
			close(d->log.fd);
		if (d->rewrite.to.file)
			close(d->rewrite.to.fd);
		if (d->head_fd >= 0)
			close(d->head_fd);
		if (d->dir_fd >= 0)
			close(d->dir_fd);
	}
	penstock_close(s->io, NULL);
	close(s->event);
}

int penstock_store_close(struct penstock_store *store, struct penstock_err *err)
{
	struct penstock_store_done done;
	int r = 0, c;

	if (!store)
		return 0;
	if (store->pid != getpid()) {
		close_child(store);
		return 0;
	}
	wait_until_idle(store);
	while (penstock_store_drain(store, &done, 1) > 0)
		;
	store_tier_stop(store);
	store_workers_stop(store);
	store_log_writer_stop(store);
	for (unsigned i = 0; i < store->nr_dirs; i++) {
		struct store_dir *d = &store->dirs[i];

		c = d->excluded ? 0 : store_journal_write_head(store, &d->log, NULL);
		if (!d->excluded && c == 0)
			c = store_sync(store, d->log.file);
		if (c < 0 && r == 0)
			r = penstock_fail(err, c, "%s: log: %s", d->path, penstock_strerror(c));
	}
	store_fini(store);
	return r;
}
