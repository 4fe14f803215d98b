/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* The whole text is a number. */
static bool device_parse(uint32_t *out, const char *text)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || v > UINT32_MAX)
		return false;
	*out = (uint32_t)v;
	return true;
}

/* "FOLDER:DEVICE" to a place. */
static int mapping_parse(struct cli_places *p, const struct cli_cmd *cmd, size_t i,
			 const char *text)
{
	const char *colon = strrchr(text, ':');
	uint32_t device;
	char *name;

	if (!colon || colon == text)
		return cli_usage(cmd, "--folder-to-device-mapping: '%s' is not FOLDER:DEVICE",
				 text);
	if (!device_parse(&device, colon + 1))
		return cli_usage(cmd,
				 "--folder-to-device-mapping: device '%s' of '%s' is not a number",
				 colon + 1, text);
	name = strndup(text, (size_t)(colon - text));
	if (!name)
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	p->names[i] = name;
	p->items[i].folder = name;
	p->items[i].device = device;
	return CLI_OK;
}

/* A folder nobody else has. */
static int private_folder(struct cli_places *p, const struct cli_cmd *cmd)
{
	struct penstock_err err;

	if (bed_folder_make(&p->own, ".", "io", NULL, &err) < 0)
		return cli_fail(cmd, CLI_FAILED, "%s; name one with --target", err.msg);
	return CLI_OK;
}

int cli_places_init(struct cli_places *p, const struct cli_cmd *cmd, const struct cli_list *folders,
		    const struct cli_list *mapping, uint32_t per, bool make)
{
	size_t nr = mapping->nr ? mapping->nr : (folders->nr ? folders->nr : 1) * per;
	int r = CLI_OK;

	if (folders->nr && mapping->nr)
		return cli_usage(cmd, "--target and --folder-to-device-mapping exclude each other");
	if (mapping->nr && per > 1)
		return cli_usage(cmd, "--workers goes with --target only");
	if (nr > CLI_PLACES_MAX)
		return cli_usage(cmd, "--workers: %zu workers are too many; at most %d", nr,
				 CLI_PLACES_MAX);
	p->items = calloc(nr, sizeof(*p->items));
	p->names = calloc(nr, sizeof(*p->names));
	if (!p->items || !p->names)
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	p->nr = (unsigned)nr;
	if (!folders->nr && !mapping->nr && make)
		r = private_folder(p, cmd);
	for (size_t i = 0; i < nr && r == CLI_OK; i++) {
		if (mapping->nr) {
			r = mapping_parse(p, cmd, i, mapping->items[i]);
			continue;
		}
		p->items[i].folder = folders->nr   ? folders->items[i / per]
				     : p->own.path ? p->own.path
						   : ".";
		p->items[i].device = (uint32_t)i;
	}
	return r;
}

int cli_places_gpus(struct cli_places *p, const struct cli_cmd *cmd, const struct cli_list *gpus,
		    bool mapped)
{
	struct penstock_gpu_info info = {.size = sizeof(info)};
	uint32_t device;

	if (mapped && gpus->nr)
		return cli_usage(cmd, "--gpu: the mapping names the devices already");
	penstock_probe_gpu(&info);
	for (unsigned i = 0; i < p->nr && !mapped; i++) {
		if (!gpus->nr)
			device = info.devices ? i % info.devices : 0;
		else if (!device_parse(&device, gpus->items[i % gpus->nr]))
			return cli_usage(cmd, "--gpu: '%s' is not a number of a device",
					 gpus->items[i % gpus->nr]);
		p->items[i].device = device;
	}
	return CLI_OK;
}

void cli_places_fini(struct cli_places *p, const struct cli_cmd *cmd, bool keep)
{
	CLEANUP_FREE char *name = p->own.path ? strdup(p->own.path) : NULL;
	int r = bed_folder_close(&p->own, keep);

	if (r < 0)
		cli_note(cmd, "%s was left: %s", name ? name : "", penstock_strerror(r));
	for (unsigned i = 0; i < p->nr; i++)
		free(p->names[i]);
	free(p->names);
	free(p->items);
}
