/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_OPEN_FILE_H
#define PENSTOCK_CORE_OPEN_FILE_H

/* Files of a handle, and their members. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <penstock/penstock.h>

#include "core/copy_trial.h"
#include "core/limits.h"
#include "engine/engine.h"
#include "file/backing.h"
#include "file/stripe.h"

struct penstock_io;

/* What is worth remembering of a block device: reading it from sysfs takes long. */
struct device {
	dev_t dev;
	uint32_t max_segments; /* of one request, 0: unknown */
	bool virtual;          /* a hypervisor gets each segment by itself */
};

/* What was found out about a device; by direction and kind of pages. */
struct device_trials {
	dev_t dev;
	bool used;
	struct copy_trial of[2][2];
};

enum file_attach { ATTACH_UNTRIED, ATTACH_DONE, ATTACH_REFUSED };

/* What engines are told of: a file, or a member of a striped one. */
struct file_member {
	struct penstock_backing *backing;
	int slot; /* for registration with engines, -1: none */
	struct device device;
	struct penstock_attached attached; /* with ATTACH_DONE */
};

/* What blocks of one queue have for one member of a striped file. */
struct member_load {
	uint64_t bytes;
	unsigned blocks;
	unsigned bounced; /* of these, in need of a bounce buffer */
};

struct penstock_file {
	struct penstock_io *io;
	struct penstock_file *next; /* in its bucket */
	struct penstock_backing backing;
	char *name;
	struct device device;      /* of a striped file: what suits all members */
	struct file_member single; /* the only member of a file that is not striped */
	struct file_member *members;
	unsigned nr_members;
	struct member_load *member_loads; /* with several: of each queue, for each of them */
	union {
		struct {
			bool remote;  /* an object, */
			bool striped; /* or several members */
		};
		uint16_t remote_or_striped; /* either; operations have it, too */
	};
	atomic_int attach;               /* of all members to an engine that takes device memory */
	bool by_path;                    /* closed with the last operation that uses it */
	uint64_t split[2];               /* on small pages, on huge ones; not of an object */
	uint64_t issued;                 /* an object: bytes whose writing was handed out */
	_Alignas(LINE) atomic_uint refs; /* operations, plus one while open */
};

/* References to a file that are taken together, for operations to come. */
struct file_refs {
	struct penstock_file *file;
	unsigned left;
	unsigned ahead; /* operations to come, the next one included */
};

/* ---- open_file.c */
int file_for_op(struct penstock_io *io, const struct penstock_op *u, struct file_refs *refs,
		struct penstock_file **out, struct penstock_err *err);
int file_put(struct penstock_file *f); /* what close(2) said if that was the last use, else 0 */
void file_put_many(struct penstock_file *f, unsigned n); /* of the user's; NULL: nothing */
void files_free(struct penstock_io *io);                 /* when the handle is closed */
/* Can the engine move device memory of this file?  Tried once; why not is told as a fallback. */
bool file_attach(struct penstock_file *f);

#endif
