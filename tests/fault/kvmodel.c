/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV store against a dictionary: random operations while the device fails, files are spoiled
 * and the store is closed, opened and killed.  Anything may be a miss; a hit is a value that the
 * key can have.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/random.h"
#include "base/util.h"
#include "kvstore/kvstore.h"
#include "tests/common/storekit.h"

enum { KEYS = 300, HISTORY = 1024, MOST = 200000, BATCH = 12 };

/* Versions that a get of the key may find; the first one is the last that was completed. */
struct model_key {
	uint32_t version[HISTORY];
	uint32_t nr;
	uint32_t made; /* versions so far */
	uint32_t busy; /* in the batch being made */
};

struct model {
	struct model_key keys[KEYS];
	uint64_t hits, misses, ops, corrupt;
	bool forgiven; /* all that a key has ever had, it may have again */
};

static struct model *m;
static struct penstock_random rng;
static const char *inner = "io_uring";
static const char *faults; /* settings of engine "fault", or NULL */
static char engine[200];
static unsigned char *bufs[BATCH];

static uint64_t random_below(uint64_t n)
{
	return penstock_random_below(&rng, n);
}

static uint64_t seed_of(unsigned key, uint32_t version)
{
	return (uint64_t)key << 32 | version;
}

/* A length follows from the version: some are empty, most small, few large. */
static uint64_t len_of(uint64_t seed)
{
	struct penstock_random r;
	uint64_t kind;

	penstock_random_seed(&r, seed);
	kind = penstock_random_below(&r, 20);
	return kind == 0 ? 0 : penstock_random_below(&r, kind < 15 ? 20000 : MOST);
}

static void allow_version(struct model_key *k, uint32_t version)
{
	if (k->nr == HISTORY) {
		memmove(&k->version[1], &k->version[2], (HISTORY - 2) * sizeof(*k->version));
		k->nr--;
	}
	k->version[k->nr++] = version;
}

static bool is_version(unsigned key, uint32_t version, const unsigned char *value, uint64_t len)
{
	uint64_t seed = seed_of(key, version);

	return len == len_of(seed) && penstock_pattern_check(value, len, seed, 0) == len;
}

/* Which of all that the key has had is it?  0: none. */
static uint32_t version_of(unsigned key, const unsigned char *value, uint64_t len)
{
	uint32_t v = m->keys[key].made;

	while (v && !is_version(key, v, value, len))
		v--;
	return v;
}

static bool is_allowed(unsigned key, const unsigned char *value, uint64_t len)
{
	const struct model_key *k = &m->keys[key];

	if (m->forgiven)
		return version_of(key, value, len) > 0;
	for (uint32_t i = 0; i < k->nr; i++)
		if (is_version(key, k->version[i], value, len))
			return true;
	return false;
}

/* A key of its own length for each number. */
static uint32_t key_bytes(unsigned char *to, unsigned key)
{
	uint32_t len = 4 + key * key % 200 + (key % 50 == 7 ? 3800 : 0);

	memset(to, 'k', len);
	memcpy(to, &key, 4);
	return len;
}

struct batch {
	unsigned char keys[BATCH][4096];
	unsigned key[BATCH];
	uint32_t version[BATCH];
	struct penstock_iov iov[BATCH];
	struct penstock_store_item items[BATCH];
	int64_t results[BATCH];
	struct penstock_store_batch user;
};

static void make_item(struct batch *b, unsigned i, unsigned key)
{
	struct model_key *k = &m->keys[key];
	uint64_t len = MOST;

	b->key[i] = key;
	if (b->user.opcode == PENSTOCK_STORE_SET) {
		b->version[i] = ++k->made;
		len = len_of(seed_of(key, b->version[i]));
		penstock_pattern_fill(bufs[i], len, seed_of(key, b->version[i]), 0);
		allow_version(k, b->version[i]); /* while it is under way, and where it fails */
	} else {
		memset(bufs[i], 0xee, 64);
	}
	b->iov[i] = (struct penstock_iov){bufs[i], len};
	b->items[i] =
		(struct penstock_store_item){b->keys[i], key_bytes(b->keys[i], key), 1, &b->iov[i]};
}

static void make_batch(struct batch *b)
{
	static const uint32_t codes[] = {PENSTOCK_STORE_GET,    PENSTOCK_STORE_GET,
					 PENSTOCK_STORE_SET,    PENSTOCK_STORE_SET,
					 PENSTOCK_STORE_EXISTS, PENSTOCK_STORE_DELETE};
	unsigned n = 1 + (unsigned)random_below(BATCH);

	b->user = (struct penstock_store_batch){.opcode = codes[random_below(T_COUNT(codes))],
						.items = b->items,
						.results = b->results};
	if (random_below(8) == 0)
		b->user.deadline_ns = 1 + random_below(2000000);
	for (unsigned i = 0; i < n; i++) {
		unsigned key = (unsigned)random_below(KEYS);

		if (m->keys[key].busy)
			continue;
		m->keys[key].busy = 1;
		make_item(b, b->user.nr++, key);
	}
}

static void check_result(struct batch *b, unsigned i)
{
	struct model_key *k = &m->keys[b->key[i]];
	int64_t r = b->results[i];

	k->busy = 0;
	switch (b->user.opcode) {
	case PENSTOCK_STORE_GET:
		m->hits += r >= 0;
		m->misses += r < 0;
		if (r >= 0 && !is_allowed(b->key[i], bufs[i], (uint64_t)r))
			T_FAIL("key %u: a wrong buffer of %lld bytes, version %u of %u, not %u or "
			       "one of %u later ones; with %s",
			       b->key[i], (long long)r, version_of(b->key[i], bufs[i], (uint64_t)r),
			       k->made, k->version[0], k->nr, engine);
		break;
	case PENSTOCK_STORE_SET:
		if (r >= 0) {
			k->version[0] = b->version[i];
			k->nr = 1;
		}
		break;
	case PENSTOCK_STORE_DELETE:
		if (r == 0)
			k->nr = 0;
		break;
	default:
		if (r >= 0 && !k->nr && !m->forgiven)
			T_FAIL("key %u: is there and was deleted", b->key[i]);
		break;
	}
}

static void random_batch(void)
{
	static struct batch b;
	struct penstock_err err = {0, ""};

	make_batch(&b);
	T_ERR(penstock_store_run(sk, &b.user, NULL, &err), 0, &err);
	for (unsigned i = 0; i < b.user.nr; i++)
		check_result(&b, i);
	m->ops += b.user.nr;
}

/* The same seed would fail in the same place for ever. */
static void set_engine(void)
{
	if (faults)
		snprintf(engine, sizeof(engine), "fault:inner=%s,seed=%llu,%s", inner,
			 (unsigned long long)random_below(1000000), faults);
	else
		snprintf(engine, sizeof(engine), "%s", inner);
	sk_opts.engine = engine;
}

static void open_model(void)
{
	struct penstock_err err = {0, ""};

	set_engine();
	sk_opts.memory = MIB(1) << random_below(4);
	sk_opts.policy = (uint32_t)random_below(2);
	sk_opts.threads = 1 + (uint32_t)random_below(3);
	sk_opts.flags = random_below(2) ? PENSTOCK_STORE_NO_RECENT : 0;
	/* A device may fail while the store is opened, too. */
	while (sk_try_open("x y", MIB(16), &err) < 0) {
		T_OK(err.code == -EIO || err.code == -ENOSPC);
		set_engine();
	}
	/* A log is rewritten while much happens; a record of a long key is half of this. */
	atomic_store(&sk->log_piece, KIB(8));
}

static void set_up(void)
{
	uint64_t seed = t_seed();

	penstock_random_seed(&rng, seed);
	sk_reset();
	m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	T_OK(m != MAP_FAILED);
	for (unsigned i = 0; i < BATCH; i++)
		bufs[i] = malloc(MOST + 1);
	faults = NULL;
}

static void tear_down(void)
{
	char cmd[600];

	penstock_store_close(sk, NULL);
	sk = NULL;
	munmap(m, sizeof(*m));
	for (unsigned i = 0; i < BATCH; i++)
		free(bufs[i]);
	snprintf(cmd, sizeof(cmd), "rm -rf %s/*", t_dir());
	T_EQ(system(cmd), 0);
}

/* ------------------------------------------------------------------- cases */

static void corrupt_file(const char *name, unsigned bytes)
{
	static const char *const dirs[] = {"x", "y"};
	char path[32];
	struct stat st;
	uint64_t at;
	char c;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dirs[random_below(2)], name);
	fd = open(t_path(path), O_RDWR);
	if (fd < 0)
		return;
	for (unsigned i = 0; i < bytes && fstat(fd, &st) == 0 && st.st_size > 100; i++) {
		at = 64 + random_below((uint64_t)st.st_size - 64);
		if (pread(fd, &c, 1, (off_t)at) == 1) {
			c ^= (char)(1 << random_below(8));
			T_EQ(pwrite(fd, &c, 1, (off_t)at), 1);
		}
	}
	close(fd);
}

static void run_some(unsigned long ops)
{
	uint64_t end = m->ops + ops;

	while (m->ops < end) {
		random_batch();
		if (random_below(400) == 0) {
			m->corrupt += sk_stats().corrupt;
			penstock_store_close(sk, NULL); /* an error of the device is told */
			open_model();
		}
	}
	m->corrupt += sk_stats().corrupt;
}

static void random_operations_agree_with_a_dictionary(void)
{
	open_model();
	run_some(t_ops(12000) / T_STEP);
	T_OK(m->hits > m->misses / 4);
	t_note("%llu hits, %llu misses", (unsigned long long)m->hits,
	       (unsigned long long)m->misses);
}

static void a_failing_device_gives_no_wrong_buffer(void)
{
	static const char *const settings[] = {
		"error=0.05,short=0.2,again=0.1,delay=0.1,reorder=1",
		"error=0.05,errno=28,only=write",
		"error=0.3,only=read,short=0.3",
		"short=0.5,delay=0.3",
	};

	for (unsigned i = 0; i < T_COUNT(settings); i++) {
		faults = settings[i];
		open_model();
		run_some(t_ops(8000) / 4 / T_STEP);
		penstock_store_close(sk, NULL);
		sk = NULL;
	}
	t_note("%llu hits, %llu misses", (unsigned long long)m->hits,
	       (unsigned long long)m->misses);
}

static void flipped_bits_give_no_wrong_buffer(void)
{
	open_model();
	for (unsigned i = 0; i < 30 / T_STEP; i++) {
		run_some(t_ops(6000) / 30);
		sk_close();
		corrupt_file("data", 200);
		open_model();
	}
	T_OK(m->corrupt > 0);
	t_note("%llu found corrupt", (unsigned long long)m->corrupt);
}

/* The log forgets its end, and so older values may be there again. */
static void a_torn_log_gives_no_foreign_buffer(void)
{
	struct stat st;

	m->forgiven = true;
	open_model();
	for (unsigned i = 0; i < 30 / T_STEP; i++) {
		run_some(t_ops(3000) / 30);
		sk_close();
		if (i % 2) {
			corrupt_file("log", 1 + (unsigned)random_below(3));
		} else if (stat(t_path("x/log"), &st) == 0 && st.st_size > 64) {
			T_EQ(truncate(t_path("x/log"),
				      64 + (off_t)random_below((uint64_t)st.st_size - 64)),
			     0);
		}
		open_model();
	}
}

/* The child works, and is killed; the dictionary is in memory of both. */
static void a_killed_store_gives_no_wrong_buffer(void)
{
	unsigned found = 0;

	for (unsigned i = 0; i < 20 / T_STEP; i++) {
		uint64_t life = random_below(30000);
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			penstock_random_seed(&rng, life * 7919 + i);
			open_model();
			for (;;)
				random_batch();
		}
		usleep((useconds_t)life + 20000);
		kill(pid, SIGKILL);
		T_EQ(waitpid(pid, &status, 0), pid);
		T_EQ(WTERMSIG(status), SIGKILL);
		for (unsigned k = 0; k < KEYS; k++)
			m->keys[k].busy = 0;
		open_model();
		found += (unsigned)sk_stats().recovered;
		run_some(200);
		sk_close();
	}
	T_OK(found > 0);
	t_note("%u entries found after kills", found);
}

/*
 * A log of long keys is being rewritten and not far with it; meanwhile a key whose value has been
 * copied gets another and goes.  Neither value may be there again.
 */
static void what_goes_while_a_log_is_rewritten_stays_gone(void)
{
	char name[4000], dir[16];

	memset(name, 'n', sizeof(name));
	for (unsigned i = 0; i < 10; i++) {
		snprintf(dir, sizeof(dir), "x%u", i);
		sk_open(dir, MIB(16));
		atomic_store(&sk->log_piece, 0);
		T_EQ(sk_set("k", 1, 100), 100);
		for (unsigned n = 0; n < 60; n++) {
			snprintf(name, 16, "%u", n % 10);
			T_EQ(sk_op(PENSTOCK_STORE_SET, name, sizeof(name), NULL, 0, 0), 0);
		}
		atomic_store(&sk->log_piece, KIB(8));
		usleep(50u << i % 5);
		atomic_store(&sk->log_piece, 0);
		T_EQ(sk_set("k", 2, 100), 100);
		T_EQ(sk_delete("k"), 0);
		atomic_store(&sk->log_piece, KIB(8));
		usleep(20000); /* it is complete now, most often */
		sk_close();
		sk_open(dir, MIB(16));
		T_EQ(sk_get("k", 0, 100), -ENOENT);
		sk_close();
	}
}

/* Each is a group, whose name a soak gives behind the engine. */
#define ALONE(name, fn)                                                   \
	{                                                                 \
		name, set_up, tear_down, (struct t_case[]){T_CASE(fn)}, 1 \
	}

int main(int argc, char **argv)
{
	const struct t_group groups[] = {
		ALONE("plain", random_operations_agree_with_a_dictionary),
		ALONE("failing", a_failing_device_gives_no_wrong_buffer),
		ALONE("flipped", flipped_bits_give_no_wrong_buffer),
		ALONE("torn", a_torn_log_gives_no_foreign_buffer),
		ALONE("killed", a_killed_store_gives_no_wrong_buffer),
		ALONE("rewritten", what_goes_while_a_log_is_rewritten_stays_gone),
	};

	if (argc > 1)
		inner = argv[1];
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
