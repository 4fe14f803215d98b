/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks find each other: the plug-in of the launcher's MPI tells all where rank 0 listens,
 * and a cookie without which nobody else gets in; then MPI is over.  Without MPI both are in the
 * environment, PENSTOCK_MEET=HOST:PORT:SECRET, and who is who says the launcher.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/hosts/hosts_internal.h"
#include "plugin/rendezvous.h"

#define ADDRESSES       16
#define COOKIE          32
#define CONNECT_MS      3000
#define ANSWER_MS       1000 /* and then another address is tried beside the one that is silent */
#define RETRY_MS        50
#define PENDING_UNKNOWN 64 /* that are silent may be there beside as many as there are ranks */

/* Where rank 0 is; the same bytes for all, so of fixed width. */
struct address {
	uint8_t cookie[COOKIE];
	uint16_t port; /* of the network's order */
	uint16_t nr;
	struct in6_addr at[ADDRESSES]; /* those of IPv4 mapped, as ::ffff:10.0.0.1 */
};

/* ------------------------------------------------------------------- launcher */

/*
 * srun starts with PMIx, which is Open MPI's, with its own PMI, which is MPICH's, or with none.  Of
 * a step: what a batch script runs without srun is one process, however many the job may have.
 */
static const char *slurm_mpi(void)
{
	return getenv("PMIX_RANK") ? "openmpi" : getenv("PMI_RANK") ? "mpich" : NULL;
}

/* The variables of one, and by which MPI its ranks find each other; NULL: see slurm_mpi(). */
struct launcher {
	const char *size, *rank, *mpi;
};

/* The one whose variables speak of several ranks, NULL: none; and which of them this is. */
static const struct launcher *find_launcher(struct hosts *h)
{
	static const struct launcher all[] = {
		{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "openmpi"},
		{"PMI_SIZE", "PMI_RANK", "mpich"},
		{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL}};
	const char *off = getenv("PENSTOCK_MPI");

	for (unsigned i = 0; i < ARRAY_SIZE(all) && !(off && !strcmp(off, "off")); i++) {
		const char *size = getenv(all[i].size), *rank = getenv(all[i].rank);

		if (!size || atoi(size) < 2)
			continue;
		h->size = (unsigned)atoi(size);
		h->rank = rank ? (unsigned)atoi(rank) : 0;
		return &all[i];
	}
	return NULL;
}

bool hosts_is_first(void)
{
	struct hosts h = {.size = 1};

	return find_launcher(&h) && h.rank == 0;
}

/* -------------------------------------------------------------------- plug-in */

/* Beside the command as it was built, or where it is installed. */
static void *load_plugin(const char *mpi, char *why, size_t size)
{
	static const char *const places[] = {"plugin", "../lib/penstock"};
	const char *given = getenv("PENSTOCK_MPI_PLUGIN");
	char exe[4000], path[4100];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	void *dl = NULL;

	snprintf(why, size, "not found");
	if (given) {
		dl = dlopen(given, RTLD_NOW | RTLD_GLOBAL);
		if (!dl)
			snprintf(why, size, "%s", dlerror());
		return dl;
	}
	exe[n > 0 ? n : 0] = 0;
	if (strrchr(exe, '/'))
		*strrchr(exe, '/') = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(places) && !dl; i++) {
		snprintf(path, sizeof(path), "%s/%s/penstock-mpi-%s.so", exe, places[i], mpi);
		if (access(path, R_OK) < 0)
			continue;
		/* Open MPI's own plug-ins look for its symbols among the global ones. */
		dl = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
		if (!dl)
			snprintf(why, size, "%s", dlerror());
	}
	return dl;
}

static int find_plugin(const struct rendezvous **out, const char *mpi, struct penstock_err *err)
{
	char why[200];
	void *dl = load_plugin(mpi, why, sizeof(why));
	const struct rendezvous *r = dl ? dlsym(dl, RENDEZVOUS_SYMBOL) : NULL;

	if (dl && (!r || r->version != RENDEZVOUS_VERSION)) {
		snprintf(why, sizeof(why), "of another version");
		r = NULL;
	}
	if (!r)
		return penstock_fail(
			err, -ENOTSUP,
			"several ranks were started, but the plug-in penstock-mpi-%s.so "
			"cannot be used: %s; PENSTOCK_MPI=off lets each rank run by "
			"itself",
			mpi, why);
	*out = r;
	return 0;
}

/* ----------------------------------------------------------------- connections */

static void add_mapped(struct address *a, uint32_t of)
{
	struct in6_addr *to = &a->at[a->nr++];

	*to = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
	memcpy(&to->s6_addr[12], &of, sizeof(of));
}

/* One that others may reach: of a link's own addresses they would have to know the link. */
static void add_address(struct address *a, const struct sockaddr *of, bool six)
{
	const struct in6_addr *at = &((const struct sockaddr_in6 *)(const void *)of)->sin6_addr;

	if (of->sa_family == AF_INET)
		add_mapped(a, ((const struct sockaddr_in *)(const void *)of)->sin_addr.s_addr);
	else if (of->sa_family == AF_INET6 && six && !IN6_IS_ADDR_LINKLOCAL(at))
		a->at[a->nr++] = *at;
}

static void add_addresses(struct address *a, bool six)
{
	struct ifaddrs *all = NULL;

	add_mapped(a, htonl(INADDR_LOOPBACK)); /* first: of the same host the shortest way */
	if (getifaddrs(&all) < 0)
		return;
	for (struct ifaddrs *i = all; i && a->nr < ADDRESSES; i = i->ifa_next)
		if (i->ifa_addr && !(i->ifa_flags & IFF_LOOPBACK))
			add_address(a, i->ifa_addr, six);
	freeifaddrs(all);
}

/*
 * Bound to *@port, 0: to one of the kernel's choice, for both kinds of addresses where there are
 * both.
 */
static int bind_anywhere(uint16_t *port, bool six)
{
	struct sockaddr_in6 at6 = {
		.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT, .sin6_port = *port};
	struct sockaddr_in at4 = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = *port};
	struct sockaddr *at = six ? (struct sockaddr *)&at6 : (struct sockaddr *)&at4;
	socklen_t len = six ? sizeof(at6) : sizeof(at4);
	int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int off = 0, on = 1;

	if (fd < 0)
		return -1;
	if (*port)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if ((six && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0) ||
	    bind(fd, at, len) < 0 || getsockname(fd, at, &len) < 0) {
		close(fd);
		return -1;
	}
	*port = six ? at6.sin6_port : at4.sin_port;
	return fd;
}

/* Rank 0 listens; -1 with errno. */
static int listen_anywhere(struct address *a, struct hosts *h, bool given)
{
	int fd = bind_anywhere(&a->port, true);
	bool six = fd >= 0;

	if (!six)
		fd = bind_anywhere(&a->port, false);
	if (fd < 0)
		return -1;
	if (listen(fd, (int)h->size + PENDING_UNKNOWN) < 0 ||
	    (!given && getrandom(a->cookie, COOKIE, 0) != COOKIE) ||
	    getrandom(&h->random, sizeof(h->random), 0) != sizeof(h->random)) {
		close(fd);
		return -1;
	}
	if (!given)
		add_addresses(a, six);
	return fd;
}

/* A peer that vanished without a word is found within five seconds. */
static void set_keepalive(int fd)
{
	const int on = 1, idle = 1, every = 1, times = 3, timeout_ms = 4000;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static int connect_within(const struct in6_addr *at, uint16_t port, int ms)
{
	struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = *at};
	struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_port = port};
	bool six = !IN6_IS_ADDR_V4MAPPED(at);
	int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval limit = {.tv_sec = ms / 1000};

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* of connect(), too */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	memcpy(&to4.sin_addr.s_addr, &at->s6_addr[12], sizeof(to4.sin_addr.s_addr));
	if (connect(fd, six ? (struct sockaddr *)&to6 : (struct sockaddr *)&to4,
		    six ? sizeof(to6) : sizeof(to4)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The two sides of a greeting: on another machine's port 127.0.0.1 anybody may listen. */
struct greeting {
	uint8_t cookie[COOKIE];
	uint64_t random; /* that rank 0 has for all */
	uint32_t rank;
	char host[60];
};

/* A connection to who listens there, which may be somebody else; -1: there is none. */
static int connect_and_greet(const struct hosts *h, const struct address *a, unsigned i)
{
	struct greeting g = {.rank = h->rank};
	int fd = connect_within(&a->at[i], a->port, CONNECT_MS);

	memcpy(g.cookie, a->cookie, COOKIE);
	gethostname(g.host, sizeof(g.host) - 1);
	if (fd >= 0 && send(fd, &g, sizeof(g), MSG_NOSIGNAL) != sizeof(g)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* It has something to say: is it rank 0? */
static bool is_rank0(struct hosts *h, const struct address *a, int fd)
{
	struct greeting back;

	if (!hosts_receive_bytes(fd, &back, sizeof(back)) ||
	    memcmp(back.cookie, a->cookie, COOKIE) != 0)
		return false;
	h->random = back.random;
	return true;
}

/* Until one of those that were greeted answers as rank 0 does, or not for some time: -1. */
static int await_answer(struct hosts *h, const struct address *a, struct pollfd *p)
{
	bool any = false;
	int r;

	for (unsigned i = 0; i < a->nr; i++)
		any = any || p[i].fd >= 0;
	if (poll(p, a->nr, any ? ANSWER_MS : RETRY_MS) <= 0)
		return -1;
	for (unsigned i = 0; i < a->nr; i++) {
		if (p[i].fd < 0 || !p[i].revents)
			continue;
		r = p[i].fd;
		p[i].fd = -1;
		if (is_rank0(h, a, r))
			return r;
		close(r);
	}
	return -1;
}

/*
 * At any of its addresses, again and again: it may not listen yet.  One that is silent may be
 * another's, or rank 0 that has much to do, so it is kept while others are tried.
 */
static int connect_rank0(struct hosts *h, const struct address *a, struct penstock_err *err)
{
	uint64_t until = clock_ns() + HOSTS_CONNECT_NS;
	struct pollfd p[ADDRESSES];
	int fd = -1;

	for (unsigned i = 0; i < ADDRESSES; i++)
		p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	do {
		for (unsigned i = 0; i < a->nr && fd < 0; i++) {
			if (p[i].fd < 0)
				p[i].fd = connect_and_greet(h, a, i);
			fd = await_answer(h, a, p);
		}
	} while (fd < 0 && clock_ns() < until);
	for (unsigned i = 0; i < a->nr; i++)
		if (p[i].fd >= 0)
			close(p[i].fd);
	if (fd < 0)
		return penstock_fail(err, -EHOSTUNREACH,
				     "rank %u cannot reach rank 0 at any of its %u addresses",
				     h->rank, a->nr);
	set_keepalive(fd);
	h->peers[0].fd = fd;
	snprintf(h->peers[0].name, HOSTS_NAME, "rank 0");
	return 0;
}

/* One that has said who it is, or has gone: the rank it is, or nobody. */
static void admit_rank(struct hosts *h, int fd, const struct address *a, unsigned *nr)
{
	struct greeting g, mine = {.random = h->random};
	const struct timeval limit = {.tv_sec = 5};
	const int any = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &any, sizeof(any));
	memcpy(mine.cookie, a->cookie, COOKIE);
	if (!hosts_receive_bytes(fd, &g, sizeof(g)) || memcmp(g.cookie, a->cookie, COOKIE) != 0 ||
	    g.rank == 0 || g.rank >= h->size || h->peers[g.rank].fd >= 0 ||
	    send(fd, &mine, sizeof(mine), MSG_NOSIGNAL) != sizeof(mine)) {
		close(fd);
		return;
	}
	set_keepalive(fd);
	g.host[sizeof(g.host) - 1] = 0;
	h->peers[g.rank].fd = fd;
	snprintf(h->peers[g.rank].name, HOSTS_NAME, "rank %u (%s)", g.rank, g.host);
	++*nr;
}

/* The listening socket, then connections that have not sent a whole greeting, oldest first. */
struct pending {
	struct pollfd *p;
	unsigned nr, capacity;
};

static int pending_remove(struct pending *d, unsigned i)
{
	int fd = d->p[i].fd;

	memmove(&d->p[i], &d->p[i + 1], (--d->nr - i) * sizeof(d->p[0]));
	return fd;
}

/*
 * It is looked at when all of its greeting is there, so that one that is slow holds up nobody.
 * Where there are no files for it the oldest that has not said who it is has to go; -errno: there
 * is none.
 */
static int pending_accept(struct pending *d)
{
	const int all = sizeof(struct greeting);
	int fd = accept4(d->p[0].fd, NULL, NULL, SOCK_CLOEXEC);

	while (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		if (d->nr == 1)
			return -errno;
		close(pending_remove(d, 1));
		fd = accept4(d->p[0].fd, NULL, NULL, SOCK_CLOEXEC);
	}
	if (fd < 0)
		return 0; /* it has gone */
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &all, sizeof(all));
	if (d->nr == d->capacity)
		close(pending_remove(d, 1));
	d->p[d->nr++] = (struct pollfd){.fd = fd, .events = POLLIN};
	return 0;
}

static int wait_for_ranks(struct hosts *h, int fd, const struct address *a,
			  struct penstock_err *err)
{
	struct pending d = {.nr = 1, .capacity = 1 + h->size + PENDING_UNKNOWN};
	uint64_t until = clock_ns() + HOSTS_CONNECT_NS, now = 0;
	unsigned nr = 1;
	int r = 0;

	d.p = calloc(d.capacity, sizeof(*d.p));
	if (!d.p)
		return penstock_fail(err, -ENOMEM, "out of memory");
	d.p[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	while (r == 0 && nr < h->size && (now = clock_ns()) < until) {
		if (poll(d.p, d.nr, (int)((until - now) / 1000000) + 1) <= 0)
			continue;
		for (unsigned i = d.nr; --i;)
			if (d.p[i].revents)
				admit_rank(h, pending_remove(&d, i), a, &nr);
		if (d.p[0].revents)
			r = pending_accept(&d);
	}
	while (d.nr > 1)
		close(pending_remove(&d, 1));
	free(d.p);
	if (r < 0)
		return penstock_fail(
			err, r, "%u of %u ranks have come, and there are no files for more: %s", nr,
			h->size, strerror(-r));
	return nr == h->size
		       ? 0
		       : penstock_fail(err, -ETIMEDOUT, "only %u of %u ranks came within %u s", nr,
				       h->size, (unsigned)(HOSTS_CONNECT_NS / 1000000000u));
}

/* ------------------------------------------------------------------ the whole */

static int make_peers(struct hosts *h, struct penstock_err *err)
{
	char host[60] = "";

	h->peers = calloc(h->size, sizeof(*h->peers));
	if (!h->peers)
		return penstock_fail(err, -ENOMEM, "out of memory");
	gethostname(host, sizeof(host) - 1);
	for (unsigned i = 0; i < h->size; i++)
		h->peers[i].fd = -1;
	snprintf(h->peers[h->rank].name, HOSTS_NAME, "rank %u (%s)", h->rank, host);
	return 0;
}

/* Rank 0 listens, and MPI tells the others where. */
static int find_rank0_by_mpi(struct hosts *h, const char *mpi, struct address *a, int *fd,
			     struct penstock_err *err)
{
	const struct rendezvous *mpi_plugin = NULL;
	int rank = 0, size = 1, r = find_plugin(&mpi_plugin, mpi, err);

	if (r < 0)
		return r;
	if (mpi_plugin->open(&rank, &size) != 0)
		return penstock_fail(err, -EIO, "MPI cannot be opened");
	h->rank = (unsigned)rank;
	h->size = (unsigned)size;
	if (h->rank == 0 && h->size > 1)
		*fd = listen_anywhere(a, h, false);
	/* also where that failed: the others wait for it, and find no address */
	r = mpi_plugin->broadcast(a, sizeof(*a));
	if (mpi_plugin->close() != 0 || r != 0)
		return penstock_fail(err, -EIO, "MPI cannot tell the ranks of each other");
	return 0;
}

/* Without MPI the launcher's word is all there is. */
static int check_rank(const struct hosts *h, const struct launcher *by, struct penstock_err *err)
{
	const char *rank = getenv(by->rank);

	if (rank && h->rank < h->size)
		return 0;
	return penstock_fail(err, -EINVAL, "%s is %s, which is none of the %u ranks of %s",
			     by->rank, rank ? rank : "not set", h->size, by->size);
}

/* The same by HOST:PORT:SECRET. */
static int find_rank0_by_name(struct hosts *h, const struct launcher *by, const char *text,
			      struct address *a, int *fd, struct penstock_err *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;
	char host[256], port[8], secret[COOKIE + 1];
	int r = check_rank(h, by, err);
	bool parsed;

	if (r < 0)
		return r;
	parsed = sscanf(text, "%255[^:]:%7[0-9]:%32s", host, port, secret) == 3;
	if (parsed && (atoi(port) < 1 || atoi(port) > UINT16_MAX))
		return penstock_fail(err, -EINVAL, "PENSTOCK_MEET: port %s is outside 1..65535",
				     port);
	if (!parsed || getaddrinfo(host, port, &hints, &all) != 0)
		return penstock_fail(
			err, -EINVAL,
			"PENSTOCK_MEET is not HOST:PORT:SECRET of rank 0, or there is no "
			"such host");
	memcpy(a->cookie, secret, strlen(secret));
	a->port = htons((uint16_t)atoi(port));
	for (struct addrinfo *i = all; i && a->nr < ADDRESSES; i = i->ai_next)
		add_address(a, i->ai_addr, true);
	freeaddrinfo(all);
	if (h->rank == 0)
		*fd = listen_anywhere(a, h, true);
	return h->rank || *fd >= 0 ? 0
				   : penstock_fail(err, -errno, "PENSTOCK_MEET: port %s: %s", port,
						   strerror(errno));
}

/* Where rank 0 is known. */
static int connect_all(struct hosts *h, const struct address *a, int fd, pid_t launcher,
		       struct penstock_err *err)
{
	int r = a->nr ? hosts_supervise(h, launcher, err)
		      : penstock_fail(err, -EIO, "rank 0 cannot listen for the others");

	if (r == 0)
		r = make_peers(h, err);
	if (r == 0)
		r = h->rank ? connect_rank0(h, a, err) : wait_for_ranks(h, fd, a, err);
	return r;
}

int hosts_connect(struct hosts *h, struct penstock_err *err)
{
	const char *given = getenv("PENSTOCK_MEET"), *mpi;
	const struct launcher *by = find_launcher(h);
	struct address a = {.nr = 0};
	pid_t launcher = getppid(); /* which may die while ranks meet */
	int fd = -1, r;

	given = given && *given ? given : NULL;
	mpi = by && by->mpi ? by->mpi : slurm_mpi();
	if (!by || (!given && !mpi)) {
		if (h->size > 1 && h->rank == 0)
			h->notify(
				"srun has started several tasks without PMI, and each runs by "
				"itself; with --mpi=pmix or --mpi=pmi2, or PENSTOCK_MEET, they are "
				"one run",
				false);
		h->size = 1;
		return 0;
	}
	r = given ? find_rank0_by_name(h, by, given, &a, &fd, err)
		  : find_rank0_by_mpi(h, mpi, &a, &fd, err);
	if (r == 0 && h->size > 1)
		r = connect_all(h, &a, fd, given ? 0 : launcher, err);
	if (fd >= 0)
		close(fd);
	return r;
}
