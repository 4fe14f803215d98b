/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV-cache workload on storage that fails:
 *
 *	kvfail ENGINE
 *
 * What fails is counted and told, what was lost is missed from then on, and the run goes on to its
 * end.  The reference counts what failed as if it had been done.
 */
#include "common/t.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/statvfs.h>

#include "common/kvkit.h"
#include "common/mounts.h"

static char engine[32];
static char settings[128];

static void setup(void)
{
	kvkit_setup();
	kvkit.job.opts.engine = engine;
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.params.max_requests = 120;
}

static void set_faults(const char *faults)
{
	snprintf(settings, sizeof(settings), "fault:inner=%s,seed=7,%s", engine, faults);
	kvkit.job.opts.engine = settings;
}

/* Whatever happened, the books agree. */
static void all_is_accounted_for(void)
{
	const struct kv_counts *n = &kvkit.r.counts;
	uint64_t read = 0, hits = 0, wrote = 0, failed = 0, misses = 0;

	T_EQ(kvkit.r.requests + kvkit.r.failed_requests, 120);
	for (size_t i = 0; i < kvkit.nr_ops; i++) {
		const struct kvkit_op *op = &kvkit.ops[i];

		if (op->type == FLOW_READ && op->result >= 0) {
			read += op->size;
			hits++;
		}
		wrote += op->type == FLOW_WRITE && op->result >= 0 ? op->size : 0;
		failed += op->type == FLOW_READ && op->result < 0;
	}
	for (size_t i = 0; i < kvkit.nr_events; i++)
		misses += kvkit.events[i].type == KV_EV_MISS;
	/* the first failure is an error; what was planned on the entry is missed after that */
	T_EQ(n->misses, misses + failed - kvkit.r.errors[0]);
	T_EQ(n->total_read_bytes, read);
	T_EQ(n->hits, hits);
	T_EQ(n->total_write_bytes, wrote);
	for (int t = 0; t < KV_TIERS; t++)
		T_EQ(kvkit.objects[t], kvkit.entries[t]);
	T_EQ(kvkit_names(kvkit.dir), 0);
}

static void failed_reads_are_counted_and_missed_afterwards(void)
{
	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		kvkit.job.layout = layout;
		set_faults("error=0.02,errno=5,only=read");
		kvkit_ok();
		all_is_accounted_for();
		T_OK(kvkit.r.errors[0] > 0);
		T_EQ(kvkit.r.errors[1], 0);
		T_OK(kvkit.r.failed_requests > 0 && kvkit.r.requests > 0);
		T_OK(kvkit.r.counts.misses > 0);
		T_STR_HAS(kvkit.r.first_error, "Input/output error");
		T_OK(!strchr(kvkit.r.first_error, '\n'));
		/* of the series that it is of */
		T_STR_HAS(kvkit.r.series[0].first_error, "Input/output error");
		T_EQ(strlen(kvkit.r.series[1].first_error), 0);
	}
}

/* What came down from another tier, too. */
static void a_failed_read_of_what_was_demoted_leaves_nothing(void)
{
	kvkit.params.cpu_gb = kvkit_mib(6);
	set_faults("error=0.1,errno=5,only=read");
	kvkit_ok();
	all_is_accounted_for();
	T_OK(kvkit.r.errors[0] > 0);
}

static void failed_writes_are_counted_and_leave_nothing(void)
{
	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		kvkit.job.layout = layout;
		set_faults("error=0.05,errno=5,only=write");
		kvkit_ok();
		all_is_accounted_for();
		T_OK(kvkit.r.errors[1] > 0);
		T_EQ(kvkit.r.errors[0], 0);
		T_OK(kvkit.r.counts.misses > 0);
	}
}

static void failed_demotions_are_counted_and_lose_the_entry(void)
{
	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		kvkit.job.layout = layout;
		kvkit.params.cpu_gb = kvkit_mib(16);
		set_faults("error=0.05,errno=5,only=write");
		kvkit_ok();
		all_is_accounted_for();
		T_OK(kvkit.r.errors[1] > 0);
		T_EQ(kvkit.r.errors[0], 0);
		T_EQ(kvkit.r.counts.tier_evicted_out[KV_CPU],
		     kvkit.r.counts.tier_evicted_in[KV_NVME]);
	}
}

static void upstream_counts_what_failed(void)
{
	set_faults("error=0.05,errno=5");
	kv_params_as_upstream(&kvkit.params);
	kvkit_ok();
	T_EQ(kvkit.r.requests, 120);
	T_EQ(kvkit.r.failed_requests, 0);
	T_OK(kvkit.r.errors[0] > 0 && kvkit.r.errors[1] > 0);
	T_OK(kvkit.r.counts.prefill_writes >= 120);
}

/* ------------------------------------------------------------------ vanished files */

/* Of the objects' files the first one there is. */
static bool find_object(char path[PATH_MAX + 300])
{
	DIR *d = opendir(kvkit.dir);
	const struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		found = e->d_name[0] != '.';
		snprintf(path, PATH_MAX + 300, "%s/%s", kvkit.dir, e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

static void remove_all(struct kvkit *k)
{
	char path[PATH_MAX + 300];

	(void)k;
	while (find_object(path) && unlink(path) == 0)
		;
}

static void files_that_vanish_are_errors_and_then_misses(void)
{
	kvkit.at = 300;
	kvkit.act = remove_all;
	kvkit_ok();
	T_OK(kvkit.r.errors[0] > 0);
	T_OK(kvkit.r.failed_requests > 0 && kvkit.r.requests > kvkit.r.failed_requests);
	T_STR_HAS(kvkit.r.first_error, kvkit.dir);
	T_EQ(kvkit_names(kvkit.dir), 0);
}

static void cut_all(struct kvkit *k)
{
	DIR *d = opendir(k->dir);
	const struct dirent *e;
	char path[PATH_MAX + 300];

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", k->dir, e->d_name);
		if (e->d_name[0] != '.')
			(void)!truncate(path, 5000);
	}
	if (d)
		closedir(d);
}

static void files_that_were_cut_are_errors(void)
{
	kvkit.at = 300;
	kvkit.act = cut_all;
	kvkit_ok();
	T_OK(kvkit.r.errors[0] > 0);
	T_OK(kvkit.r.failed_requests > 0);
}

static void spoil_all(struct kvkit *k)
{
	DIR *d = opendir(k->dir);
	const struct dirent *e;
	char path[PATH_MAX + 300];

	while (d && (e = readdir(d))) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s", k->dir, e->d_name);
		fd = e->d_name[0] == '.' ? -1 : open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		(void)!pwrite(fd, "spoilt", 6, 8192);
		fsync(fd);
		close(fd);
	}
	if (d)
		closedir(d);
}

static void content_that_is_not_what_was_written_is_found(void)
{
	kvkit.job.verify = true;
	kvkit.at = 300;
	kvkit.act = spoil_all;
	kvkit_ok();
	T_OK(kvkit.r.verify_errors > 0);
	T_EQ(kvkit.r.verify_errors, kvkit.r.errors[0]);
	T_OK(kvkit.r.failed_requests > 0);
	kvkit.job.verify = false;
	kvkit_ok();
	T_EQ(kvkit.r.errors[0], 0);
}

/* -------------------------------------------------------------------- a full disk */

static char ballast[PATH_MAX];

/* Somebody else takes what is left. */
static void fill_up(struct kvkit *k)
{
	static char block[1 << 16];
	int fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)k;
	memset(block, 1, sizeof(block));
	while (fd >= 0 && write(fd, block, sizeof(block)) > 0)
		;
	if (fd >= 0)
		close(fd);
}

static void a_disk_that_fills_up_is_counted_and_survived(void)
{
	int r = mounts_image("mnt", "ext4", MIB(96));

	if (r < 0)
		T_SKIP("ext4", "no ext4 here: %s", strerror(-r));
	snprintf(ballast, sizeof(ballast), "%s", t_path("mnt/ballast"));
	snprintf(kvkit.dir, sizeof(kvkit.dir), "%s", t_path("mnt/cache"));
	kvkit.params.storage_gb = kvkit_mib(48);
	kvkit.at = 60;
	kvkit.act = fill_up;
	kvkit_ok();
	T_EQ(kvkit.r.requests + kvkit.r.failed_requests, 120);
	T_OK(kvkit.r.errors[1] > 0);
	T_OK(kvkit.r.failed_requests > 0);
	T_STR_HAS(kvkit.r.first_error, "No space left on device");
	for (int t = 0; t < KV_TIERS; t++)
		T_EQ(kvkit.objects[t], kvkit.entries[t]);
	T_EQ(kvkit_names(kvkit.dir), 0);
	mounts_end("mnt");
}

static void the_storage_tier_is_most_of_the_free_space_unless_told(void)
{
	struct statvfs st;
	int r = mounts_image("mnt", "ext4", MIB(96));
	double room;

	if (r < 0)
		T_SKIP("ext4", "no ext4 here: %s", strerror(-r));
	T_EQ(statvfs(t_path("mnt"), &st), 0);
	room = (double)st.f_bavail * (double)st.f_frsize;
	snprintf(kvkit.dir, sizeof(kvkit.dir), "%s", t_path("mnt/cache"));
	kvkit.params.storage_gb = 0;
	kvkit_ok();
	T_OK((double)kvkit.r.limit[KV_NVME] <= 0.95 * room);
	T_OK((double)kvkit.r.limit[KV_NVME] > 0.94 * room);
	mounts_end("mnt");
}

/* ------------------------------------------------------------------ before the run */

static void a_run_that_cannot_be_prepared_says_why(void)
{
	kvkit.params.precondition = true;
	kvkit.params.precondition_gb = 100;
	kvkit.params.storage_gb = 1;
	set_faults("error=1,errno=5,only=write");
	T_EQ(kvkit_go(), -EIO);
	T_STR_HAS(kvkit.err.msg, "writes in a row failed");
	T_STR_HAS(kvkit.err.msg, "Input/output error");
	T_EQ(kvkit_names(kvkit.dir), 0);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(failed_reads_are_counted_and_missed_afterwards),
		T_CASE(a_failed_read_of_what_was_demoted_leaves_nothing),
		T_CASE(failed_writes_are_counted_and_leave_nothing),
		T_CASE(failed_demotions_are_counted_and_lose_the_entry),
		T_CASE(upstream_counts_what_failed),
		T_CASE(files_that_vanish_are_errors_and_then_misses),
		T_CASE(files_that_were_cut_are_errors),
		T_CASE(content_that_is_not_what_was_written_is_found),
		T_CASE(a_run_that_cannot_be_prepared_says_why),
	};
	static const struct t_case full[] = {
		T_CASE(a_disk_that_fills_up_is_counted_and_survived),
		T_CASE(the_storage_tier_is_most_of_the_free_space_unless_told),
	};
	static const struct t_group groups[] = {
		{"faults", setup, kvkit_teardown, cases, T_COUNT(cases)},
		{"full", setup, kvkit_teardown, full, T_COUNT(full)},
	};

	if (argc > 1)
		snprintf(engine, sizeof(engine), "%s", argv[1]);
	mounts_need();
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
