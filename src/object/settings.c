/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a client, and the variables of the environment that stand in for them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/optscopy.h"
#include "object/client.h"

int object_struct_copy_out(void *user, const void *ours, uint32_t size)
{
	uint32_t known;

	memcpy(&known, user, sizeof(known));
	if (known < sizeof(known) * 2)
		return -EINVAL;
	memcpy((char *)user + sizeof(known), (const char *)ours + sizeof(known),
	       min_u64(known, size) - sizeof(known));
	return 0;
}

/* ------------------------------------------------------------------ environment */

static const char *env_value(const struct penstock_s3_opts *o, const char *name)
{
	const char *v = o->env ? o->env(name) : NULL;

	return v && *v ? v : NULL;
}

/* The first of @names (ended by NULL) that is set. */
static const char *first_set(const struct penstock_s3_opts *o, const char *given,
			     const char *const *names)
{
	for (; !given && *names; names++)
		given = env_value(o, *names);
	return given;
}

static int set_endpoint(struct object_settings *s, struct penstock_err *err)
{
	static const char *const names[] = {"S3_ENDPOINT_URIS",    "S3_ENDPOINT_TEMPLATE",
					    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
					    "S3_ENDPOINT",         NULL};
	const char *file = s->o.endpoint ? NULL : env_value(&s->o, "S3_ENDPOINT_FILE");
	const char *given = first_set(&s->o, s->o.endpoint, names);

	if (!file && !given)
		return 0;
	if (asprintf(&s->endpoint, "%s%s", file ? "@" : "", file ? file : given) < 0) {
		s->endpoint = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int parse_choice(uint32_t *out, const char *variable, const char *value,
			const char *const *words, struct penstock_err *err)
{
	for (uint32_t i = 0; words[i]; i++)
		if (!strcmp(words[i], value)) {
			*out = i;
			return 0;
		}
	return penstock_fail(err, -EINVAL, "%s: '%s' is not known; '%s' is", variable, value,
			     words[0]);
}

static int set_choices(struct object_settings *s, struct penstock_err *err)
{
	static const char *const styles[] = {"auto", "path", "virtual", NULL};
	static const char *const balances[] = {"round_robin", "least_connections", "random", "rank",
					       NULL};
	const char *v = s->o.style ? NULL : env_value(&s->o, "AWS_S3_ADDRESSING_STYLE");
	int r = v ? parse_choice(&s->o.style, "AWS_S3_ADDRESSING_STYLE", v, styles, err) : 0;

	v = s->o.balance ? NULL : env_value(&s->o, "S3_LOAD_BALANCE_STRATEGY");
	if (r == 0 && v)
		r = parse_choice(&s->o.balance, "S3_LOAD_BALANCE_STRATEGY", v, balances, err);
	return r;
}

static void set_rank(struct object_settings *s)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",    "PMI_RANK",
					    "MV2_COMM_WORLD_RANK",  "SLURM_PROCID", NULL};
	const char *v = s->o.rank ? NULL : first_set(&s->o, NULL, names);

	if (v)
		s->o.rank = (uint32_t)strtoul(v, NULL, 10);
}

static int set_region(struct object_settings *s, struct penstock_err *err)
{
	static const char *const names[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
	const char *v = first_set(&s->o, s->o.region, names);

	v = v ? v : "us-east-1";
	if (!*v || strlen(v) >= sizeof(s->region) ||
	    strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
		    strlen(v))
		return penstock_fail(err, -EINVAL, "region: '%.80s' is none, such as us-east-1", v);
	snprintf(s->region, sizeof(s->region), "%s", v);
	return 0;
}

/* ----------------------------------------------------------------------- ranges */

static int check_u32(uint32_t *v, const char *name, uint32_t preset, uint32_t most,
		     struct penstock_err *err)
{
	if (!*v)
		*v = preset;
	if (*v > most)
		return penstock_fail(err, -EINVAL, "%s: %u is outside 1..%u", name, *v, most);
	return 0;
}

static int settings_check_ranges(struct penstock_s3_opts *o, struct penstock_err *err)
{
	int r = 0;

	if (o->flags & ~(PENSTOCK_S3_ANONYMOUS | PENSTOCK_S3_SIGN_BODY))
		return penstock_fail(err, -EINVAL, "flags: 0x%x has bits that mean nothing",
				     o->flags);
	if (o->style > PENSTOCK_S3_STYLE_VIRTUAL)
		return penstock_fail(err, -EINVAL, "style: %u is outside 0..2", o->style);
	if (o->balance > PENSTOCK_S3_RANK)
		return penstock_fail(err, -EINVAL, "balance: %u is outside 0..3", o->balance);
	if (o->checksum > PENSTOCK_S3_CHECKSUM_NONE)
		return penstock_fail(err, -EINVAL, "checksum: %u is outside 0..3", o->checksum);
	if (!o->key_id != !o->secret)
		return penstock_fail(err, -EINVAL, "key_id and secret go together");
	r = check_u32(&o->connections, "connections", 64, 1024, err);
	if (r == 0)
		r = check_u32(&o->attempts, "attempts", 10, 100, err);
	if (r == 0)
		r = check_u32(&o->timeout_ms, "timeout_ms", 600000, 86400000, err);
	if (r == 0)
		r = check_u32(&o->stall_ms, "stall_ms", 15000, 3600000, err);
	if (!o->part)
		o->part = 8 << 20;
	if (r == 0 && (o->part < OBJECT_PART_MIN || o->part > OBJECT_PART_MAX))
		r = penstock_fail(err, -EINVAL, "part: %llu is outside 5 MiB..1 GiB",
				  (unsigned long long)o->part);
	return r;
}

int object_settings_load(struct object_settings *s, const struct penstock_s3_opts *user,
			 struct penstock_err *err)
{
	static const char *const ca[] = {"AWS_CA_BUNDLE", NULL};
	const char *v;
	int r;

	memset(s, 0, sizeof(*s));
	r = penstock_opts_copy(&s->o, sizeof(s->o), user, err);
	if (r == 0)
		r = settings_check_ranges(&s->o, err);
	if (r == 0)
		r = set_choices(s, err);
	if (r == 0)
		r = set_region(s, err);
	if (r == 0)
		r = set_endpoint(s, err);
	if (r < 0)
		return r;
	set_rank(s);
	v = first_set(&s->o, s->o.ca_file, ca);
	s->ca_file = v ? strdup(v) : NULL;
	return v && !s->ca_file ? penstock_fail(err, -ENOMEM, "out of memory") : 0;
}

void object_settings_free(struct object_settings *s)
{
	free(s->endpoint);
	free(s->ca_file);
	s->endpoint = s->ca_file = NULL;
}
