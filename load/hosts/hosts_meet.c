/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks find each other: the plug-in of the launcher's MPI tells all where rank 0 listens,
 * and a cookie without which nobody else gets in; then MPI is over.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/hosts/hosts_in.h"
#include "plugin/rendezvous.h"

#define ADDRESSES  16
#define COOKIE     32
#define MEET_NS    60000000000u
#define CONNECT_MS 3000

/* Where rank 0 is; the same bytes for all, so of fixed width. */
struct address {
	uint8_t cookie[COOKIE];
	uint64_t random;
	uint16_t port; /* of the network's order */
	uint16_t nr;
	struct in6_addr at[ADDRESSES]; /* those of IPv4 mapped, as ::ffff:10.0.0.1 */
};

/* -------------------------------------------------------------------- plug-in */

/* Which MPI a launcher's variables speak of; NULL: none, or of one rank only. */
static const char *launcher_mpi(void)
{
	static const struct {
		const char *size, *mpi;
	} words[] = {{"OMPI_COMM_WORLD_SIZE", "openmpi"}, {"PMI_SIZE", "mpich"}};
	const char *off = getenv("SLUICE_MPI");

	if (off && !strcmp(off, "off"))
		return NULL;
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		const char *v = getenv(words[i].size);

		if (v && atoi(v) > 1)
			return words[i].mpi;
	}
	/* srun with PMIx, which is Open MPI's, or with its own PMI, MPICH's */
	if (!getenv("SLURM_NTASKS") || atoi(getenv("SLURM_NTASKS")) < 2)
		return NULL;
	return getenv("PMIX_RANK") ? "openmpi" : getenv("PMI_RANK") ? "mpich" : NULL;
}

/* Beside the command as it was built, or where it is installed. */
static void *load_plugin(const char *mpi, char *why, size_t size)
{
	static const char *const places[] = {"plugin", "../lib/sluice"};
	const char *given = getenv("SLUICE_MPI_PLUGIN");
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
		snprintf(path, sizeof(path), "%s/%s/sluice-mpi-%s.so", exe, places[i], mpi);
		if (access(path, R_OK) < 0)
			continue;
		/* Open MPI's own plug-ins look for its symbols among the global ones. */
		dl = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
		if (!dl)
			snprintf(why, size, "%s", dlerror());
	}
	return dl;
}

static int find_plugin(const struct rendezvous **out, const char *mpi, struct sluice_err *err)
{
	char why[200];
	void *dl = load_plugin(mpi, why, sizeof(why));
	const struct rendezvous *r = dl ? dlsym(dl, RENDEZVOUS_SYMBOL) : NULL;

	if (dl && (!r || r->version != RENDEZVOUS_VERSION)) {
		snprintf(why, sizeof(why), "of another version");
		r = NULL;
	}
	if (!r)
		return sluice_fail(err, -ENOTSUP,
				   "several ranks were started, but the plug-in sluice-mpi-%s.so "
				   "cannot be used: %s; SLUICE_MPI=off lets each rank run by "
				   "itself",
				   mpi, why);
	*out = r;
	return 0;
}

/* ----------------------------------------------------------------- connections */

static void note_mapped(struct address *a, uint32_t of)
{
	struct in6_addr *to = &a->at[a->nr++];

	*to = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
	memcpy(&to->s6_addr[12], &of, sizeof(of));
}

/* One that others may reach: of a link's own addresses they would have to know the link. */
static void note_address(struct address *a, const struct sockaddr *of, bool six)
{
	const struct in6_addr *at = &((const struct sockaddr_in6 *)(const void *)of)->sin6_addr;

	if (of->sa_family == AF_INET)
		note_mapped(a, ((const struct sockaddr_in *)(const void *)of)->sin_addr.s_addr);
	else if (of->sa_family == AF_INET6 && six && !IN6_IS_ADDR_LINKLOCAL(at))
		a->at[a->nr++] = *at;
}

static void note_addresses(struct address *a, bool six)
{
	struct ifaddrs *all = NULL;

	note_mapped(a, htonl(INADDR_LOOPBACK)); /* first: of the same host the shortest way */
	if (getifaddrs(&all) < 0)
		return;
	for (struct ifaddrs *i = all; i && a->nr < ADDRESSES; i = i->ifa_next)
		if (i->ifa_addr && !(i->ifa_flags & IFF_LOOPBACK))
			note_address(a, i->ifa_addr, six);
	freeifaddrs(all);
}

/* Bound to a port of the kernel's choice, for both kinds of addresses where there are both. */
static int bind_anywhere(uint16_t *ret_port, bool six)
{
	struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
	struct sockaddr_in at4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
	struct sockaddr *at = six ? (struct sockaddr *)&at6 : (struct sockaddr *)&at4;
	socklen_t len = six ? sizeof(at6) : sizeof(at4);
	int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int off = 0;

	if (fd < 0)
		return -1;
	if ((six && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0) ||
	    bind(fd, at, len) < 0 || getsockname(fd, at, &len) < 0) {
		close(fd);
		return -1;
	}
	*ret_port = six ? at6.sin6_port : at4.sin_port;
	return fd;
}

/* Rank 0 listens; -1 with errno. */
static int listen_anywhere(struct address *a, unsigned size)
{
	int fd = bind_anywhere(&a->port, true);
	bool six = fd >= 0;

	if (!six)
		fd = bind_anywhere(&a->port, false);
	if (fd < 0)
		return -1;
	if (listen(fd, (int)size) < 0 || getrandom(a->cookie, COOKIE, 0) != COOKIE ||
	    getrandom(&a->random, sizeof(a->random), 0) != sizeof(a->random)) {
		close(fd);
		return -1;
	}
	note_addresses(a, six);
	return fd;
}

/* A peer that vanished without a word is found within five seconds. */
static void tend(int fd)
{
	const int on = 1, idle = 1, every = 1, times = 3, timeout_ms = 4000;
	const struct timeval silent = {.tv_sec = HOSTS_SILENT}; /* in the middle of a message */

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silent, sizeof(silent));
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
	uint32_t rank;
	char host[60];
};

static bool greet(int fd, const struct address *a, unsigned rank)
{
	struct greeting g = {.rank = rank}, back;

	memcpy(g.cookie, a->cookie, COOKIE);
	gethostname(g.host, sizeof(g.host) - 1);
	return send(fd, &g, sizeof(g), MSG_NOSIGNAL) == sizeof(g) &&
	       hosts_recv(fd, &back, sizeof(back)) && !memcmp(back.cookie, a->cookie, COOKIE);
}

static int call_rank0(struct hosts *h, const struct address *a, struct sluice_err *err)
{
	for (unsigned i = 0; i < a->nr; i++) {
		int fd = connect_within(&a->at[i], a->port, CONNECT_MS);

		if (fd >= 0 && greet(fd, a, h->rank)) {
			tend(fd);
			h->peers[0].fd = fd;
			snprintf(h->peers[0].name, HOSTS_NAME, "rank 0");
			return 0;
		}
		if (fd >= 0)
			close(fd);
	}
	return sluice_fail(err, -EHOSTUNREACH,
			   "rank %u cannot reach rank 0 at any of its %u addresses", h->rank,
			   a->nr);
}

/* One that knocks: the rank it is, or nobody. */
static void let_in(struct hosts *h, int fd, const struct address *a, unsigned *nr)
{
	struct greeting g, mine = {.rank = 0};
	const struct timeval limit = {.tv_sec = 5};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	memcpy(mine.cookie, a->cookie, COOKIE);
	if (!hosts_recv(fd, &g, sizeof(g)) || memcmp(g.cookie, a->cookie, COOKIE) != 0 ||
	    g.rank == 0 || g.rank >= h->size || h->peers[g.rank].fd >= 0 ||
	    send(fd, &mine, sizeof(mine), MSG_NOSIGNAL) != sizeof(mine)) {
		close(fd);
		return;
	}
	tend(fd);
	g.host[sizeof(g.host) - 1] = 0;
	h->peers[g.rank].fd = fd;
	snprintf(h->peers[g.rank].name, HOSTS_NAME, "rank %u (%s)", g.rank, g.host);
	++*nr;
}

static int wait_for_ranks(struct hosts *h, int fd, const struct address *a, struct sluice_err *err)
{
	uint64_t until = clock_ns() + MEET_NS;
	unsigned nr = 1;

	while (nr < h->size) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_ns();
		int one;

		if (now >= until || poll(&p, 1, (int)((until - now) / 1000000) + 1) == 0)
			return sluice_fail(err, -ETIMEDOUT, "only %u of %u ranks came within %u s",
					   nr, h->size, (unsigned)(MEET_NS / 1000000000u));
		one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (one >= 0)
			let_in(h, one, a, &nr);
	}
	return 0;
}

/* ------------------------------------------------------------------ the whole */

static int make_peers(struct hosts *h, struct sluice_err *err)
{
	char host[60] = "";

	h->peers = calloc(h->size, sizeof(*h->peers));
	if (!h->peers)
		return sluice_fail(err, -ENOMEM, "out of memory");
	gethostname(host, sizeof(host) - 1);
	for (unsigned i = 0; i < h->size; i++)
		h->peers[i].fd = -1;
	snprintf(h->peers[h->rank].name, HOSTS_NAME, "rank %u (%s)", h->rank, host);
	return 0;
}

int hosts_meet(struct hosts *h, struct sluice_err *err)
{
	const char *mpi = launcher_mpi();
	const struct rendezvous *meet = NULL;
	struct address a = {.nr = 0};
	int fd = -1, rank = 0, size = 1, r;

	if (!mpi)
		return 0;
	r = find_plugin(&meet, mpi, err);
	if (r < 0)
		return r;
	if (meet->open(&rank, &size) != 0)
		return sluice_fail(err, -EIO, "MPI cannot be opened");
	h->rank = (unsigned)rank;
	h->size = (unsigned)size;
	if (h->rank == 0 && h->size > 1)
		fd = listen_anywhere(&a, h->size);
	/* also where that failed: the others wait for it, and find no address */
	r = meet->share(&a, sizeof(a));
	h->random = a.random;
	if (meet->close() != 0 || r != 0)
		r = sluice_fail(err, -EIO, "MPI cannot tell the ranks of each other");
	else if (h->size > 1 && !a.nr)
		r = sluice_fail(err, -EIO, "rank 0 cannot listen for the others");
	if (r == 0 && h->size > 1)
		r = hosts_keep(h, err);
	if (r == 0 && h->size > 1)
		r = make_peers(h, err);
	if (r == 0 && h->size > 1)
		r = h->rank ? call_rank0(h, &a, err) : wait_for_ranks(h, fd, &a, err);
	if (fd >= 0)
		close(fd);
	return r;
}
