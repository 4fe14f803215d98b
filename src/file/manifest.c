/* SPDX-License-Identifier: Apache-2.0 */
#include "file/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/full_io.h"
#include "base/util.h"

#define MANIFEST_MAGIC "penstock striped file 1\n"
#define FOLDER_MAGIC   "penstock striped folder 1\n"
#define MEMBER_MAGIC   "penstock member of a striped file 1\n"

void penstock_manifest_free(struct penstock_manifest *m)
{
	for (unsigned i = 0; m && i < m->nr; i++)
		free(m->members[i]);
	free(m);
}

/* The sum of all before it ends every text. */
static void end_text(FILE *f, char **text, const size_t *len)
{
	fflush(f);
	fprintf(f, "crc %08" PRIx32 "\n", penstock_crc32c(0, *text, *len));
}

/* Where the text with its magic word ends, which it does with the right sum; NULL: it does not. */
static const char *check_text(const char *text, size_t size)
{
	const char *end = memmem(text, size, "\ncrc ", 5);
	unsigned crc;

	/* A name may not hold such a line: the first one is it. */
	if (!end || sscanf(end + 5, "%8x", &crc) != 1)
		return NULL;
	return penstock_crc32c(0, text, (size_t)(end + 1 - text)) == crc ? end + 1 : NULL;
}

char *penstock_manifest_format(const struct penstock_manifest *m, size_t *len)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	bool bad;

	if (!f)
		return NULL;
	fprintf(f, "%sid %s\nunit %" PRIu64 "\nmembers %u\n",
		m->folder ? FOLDER_MAGIC : MANIFEST_MAGIC, m->id, m->unit, m->nr);
	for (unsigned i = 0; i < m->nr; i++)
		fprintf(f, "%s\n", m->members[i]);
	end_text(f, &text, &n);
	fflush(f);
	do {
		fputc('\n', f);
	} while (!fflush(f) && n % MANIFEST_STEP);
	bad = ferror(f) || n > (size_t)MANIFEST_STEP * MANIFEST_STEPS_MAX;
	if (fclose(f) || bad) {
		free(text);
		return NULL;
	}
	*len = n;
	return text;
}

static int parse_members(struct penstock_manifest *m, const char *at, const char *end, unsigned nr)
{
	const char *line_end;

	for (; m->nr < nr && at < end; at = line_end + 1) {
		line_end = memchr(at, '\n', (size_t)(end - at));
		if (!line_end || *at != '/')
			return -EBADMSG;
		m->members[m->nr] = strndup(at, (size_t)(line_end - at));
		if (!m->members[m->nr])
			return -ENOMEM;
		m->nr++;
	}
	return m->nr == nr && at == end ? 0 : -EBADMSG;
}

static bool manifest_begins(const char *text, const char *magic)
{
	return !strncmp(text, magic, strlen(magic));
}

static int parse_manifest(struct penstock_manifest *m, const char *text, size_t size)
{
	const char *end = check_text(text, size), *at = strchr(text, '\n') + 1;
	unsigned nr;
	int used = 0;

	if (!end || sscanf(at, "id %32[0-9a-f]\nunit %" SCNu64 "\nmembers %u\n%n", m->id, &m->unit,
			   &nr, &used) != 3)
		return -EBADMSG;
	if (!used || !nr || nr > PENSTOCK_STRIPE_MEMBERS || !m->unit || m->unit > UNIT_MAX ||
	    m->unit % UNIT_STEP)
		return -EBADMSG;
	return parse_members(m, at + used, end, nr);
}

int penstock_manifest_read(struct penstock_manifest **out, int fd)
{
	CLEANUP_FREE char *text = NULL;
	struct penstock_manifest *m;
	struct stat st;
	int64_t n;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !penstock_manifest_fits_size(st.st_size))
		return 0;
	text = calloc(1, (size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	n = penstock_full_pread(fd, text, (uint64_t)st.st_size, 0);
	if (n < 0)
		return (int)n;
	if (n != st.st_size ||
	    (!manifest_begins(text, MANIFEST_MAGIC) && !manifest_begins(text, FOLDER_MAGIC)))
		return 0;
	m = calloc(1, sizeof(*m));
	if (m)
		m->folder = manifest_begins(text, FOLDER_MAGIC);
	r = m ? parse_manifest(m, text, (size_t)n) : -ENOMEM;
	if (r < 0) {
		penstock_manifest_free(m);
		return r;
	}
	*out = m;
	return 1;
}

int penstock_member_header_format(const struct penstock_member_header *h, char *buf)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	bool bad;

	if (!f)
		return -ENOMEM;
	fprintf(f,
		MEMBER_MAGIC "id %s\nmember %u of %u\nunit %" PRIu64 "\nsettled %" PRIu64 "\n%s\n",
		h->id, h->index + 1, h->nr, h->unit, h->recorded_bytes, h->name);
	end_text(f, &text, &n);
	bad = ferror(f);
	bad = fclose(f) || bad || n >= MEMBER_HEADER_BYTES;
	memset(buf, 0, MEMBER_HEADER_BYTES);
	if (!bad)
		memcpy(buf, text, n);
	free(text);
	return bad ? -ENOMEM : 0;
}

int penstock_member_header_parse(struct penstock_member_header *h, const char *text)
{
	const char *end = check_text(text, MEMBER_HEADER_BYTES), *at;
	int used = 0;

	memset(h, 0, sizeof(*h));
	if (!end || strncmp(text, MEMBER_MAGIC, strlen(MEMBER_MAGIC)))
		return -EBADMSG;
	at = text + strlen(MEMBER_MAGIC);
	if (sscanf(at, "id %32[0-9a-f]\nmember %u of %u\nunit %" SCNu64 "\nsettled %" SCNu64 "%n",
		   h->id, &h->index, &h->nr, &h->unit, &h->recorded_bytes, &used) != 5 ||
	    !used || !h->index || at[used] != '\n') {
		h->id[0] = '\0';
		return -EBADMSG;
	}
	h->index--;
	at += used + 1;
	if (end > at && (size_t)(end - at) <= sizeof(h->name))
		memcpy(h->name, at, (size_t)(end - at) - 1);
	return 0;
}
