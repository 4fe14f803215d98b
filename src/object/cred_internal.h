/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_CRED_INTERNAL_H
#define PENSTOCK_OBJECT_CRED_INTERNAL_H

/* Between the files of the sources of keys; others want cred.h. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "object/cred.h"

/* What a file, a program or a server may say at most. */
#define CRED_TEXT_MAX (1u << 20)

/* Ask the source for keys; @out is empty before, and after an error. */
typedef int cred_ask_fn(struct object_cred_source *s, struct object_cred *out,
			struct penstock_err *err);

struct object_cred_source {
	pthread_mutex_t lock; /* of @keys and @due_ns */
	struct object_cred keys;
	uint64_t due_ns; /* wall clock: when to ask again; 0: never */
	cred_ask_fn *ask;
	char name[96];
	object_fetch_fn *fetch;
	void *fetch_ctx;
	/* As the source has need of them; NULL or "" elsewhere. */
	char *command;                     /* credential_process */
	char *role, *session, *token_file; /* web identity */
	char *url;                         /* web identity, container, instance */
	char *auth;                        /* container: a token that was given */
};

/*
 * Is this source set?  1: @s is filled in.  0: no.  -EINVAL: it is, in a way that cannot be used.
 * The order of cred.c is that in which they are asked.
 */
typedef int cred_find_fn(struct object_cred_source *s, const struct object_cred_opts *o,
			 struct penstock_err *err);
cred_find_fn cred_find_profile, cred_find_web, cred_find_container, cred_find_instance;

cred_ask_fn cred_ask_process, cred_ask_web;

/* Value of a variable that is set and not empty, or NULL. */
const char *cred_env(const struct object_cred_opts *o, const char *name);

/* Copies of keys; -EINVAL where one has characters that would end a header.  @token may be NULL. */
int cred_set(struct object_cred *out, const char *where, const char *key_id, const char *secret,
	     const char *token, struct penstock_err *err);

/* The whole of a file, ended by a 0; -errno.  The caller overwrites it when it was a secret. */
int cred_read_file(char **out, const char *path, struct penstock_err *err);
/* Overwrite a text and free it. */
void cred_wipe(char *text);

/* -------------------------------------------------------------------- formats (cred_parse.c) */

/*
 * The value of @key in section @section of a file like ~/.aws/config; of several the last.  Copied;
 * NULL: not there.  *@has_section, where it is not NULL, is set where the section is there.
 */
char *cred_ini(const char *text, const char *section, const char *key, bool *has_section);

/*
 * Strings of the outermost object of a JSON text, one for each of @names, copied into @values;
 * NULL: not there, or no string.  0, or -EINVAL for what is not JSON, with nothing to free.
 */
int cred_json(const char *text, const char *const *names, char **values, unsigned n);

/* "2026-01-02T03:04:05Z" or with +hh:mm, as wall clock; 0: not a date. */
uint64_t cred_date_ns(const char *text);

/*
 * Keys from JSON as programs and servers write it, with the name that the session's token has
 * there.
 * @where is for messages.
 */
int cred_from_json(struct object_cred *out, const char *text, const char *token_name,
		   const char *where, struct penstock_err *err);

#endif
