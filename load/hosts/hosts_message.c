/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of messages.  Nobody ever waits for a connection: what it does not take stays in memory
 * until it does, and of what comes as much is kept as is there.  So a text of megabytes on a slow
 * network holds up no sign of life, and a rank that stops in the middle of one holds up nobody.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "load/hosts/hosts_internal.h"

#define TEXT_MAX (1ull << 30) /* of a text */
#define RECV_MAX (1u << 20)   /* and then others have their turn */

bool hosts_receive_bytes(int fd, void *data, size_t len)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = recv(fd, (char *)data + got, len - got, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

/* ------------------------------------------------------------------- outgoing */

static void free_outgoing(struct outgoing *o)
{
	free(o->data);
	*o = (struct outgoing){.data = NULL};
}

void hosts_flush(struct peer *p)
{
	struct outgoing *o = &p->out;

	while (o->sent < o->len) {
		ssize_t n = send(p->fd, o->data + o->sent, o->len - o->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			break; /* who receives finds out, too */
		o->sent += (size_t)n;
	}
	free_outgoing(o);
}

bool hosts_send(struct peer *p, const struct header *head, const void *text)
{
	struct outgoing *o = &p->out;
	bool waits = o->len;

	if (p->fd < 0 ||
	    ARRAY_RESERVE(o->data, o->capacity, o->len + sizeof(*head) + head->len) < 0)
		return false;
	memcpy(o->data + o->len, head, sizeof(*head));
	if (head->len)
		memcpy(o->data + o->len + sizeof(*head), text, head->len);
	o->len += sizeof(*head) + head->len;
	hosts_flush(p);
	if (o->len && !waits && write(hosts_run.wake[1], "", 1) < 0)
		return errno == EAGAIN; /* it is full of words that wake up the thread */
	return true;
}

/* ------------------------------------------------------------------- incoming */

int hosts_receive_message(struct peer *p)
{
	struct incoming *in = &p->in;
	const size_t first = sizeof(in->head);

	for (;;) {
		bool text = in->got >= first;
		size_t whole = first + (text ? in->head.len : 0), left = whole - in->got;
		char *to = text ? in->text + (in->got - first) : (char *)&in->head + in->got;
		ssize_t n;

		if (text && !left)
			return 1;
		n = recv(p->fd, to, min_u64(left, RECV_MAX), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN ? 0 : -1;
		p->missed = 0;
		p->connected = true;
		in->got += (size_t)n;
		if (in->got == first &&
		    (in->head.len > TEXT_MAX || !(in->text = calloc(1, in->head.len + 1))))
			return -1;
		if (text && in->got < whole)
			return 0;
	}
}

void hosts_free_message(struct peer *p)
{
	free(p->in.text); /* what was kept is not there any more */
	p->in = (struct incoming){.got = 0};
}

void hosts_close_peer(struct peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	free_outgoing(&p->out);
	hosts_free_message(p);
}
