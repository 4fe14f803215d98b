/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OPT_PLACES_H
#define PENSTOCK_CLI_OPT_PLACES_H

/* Folders on the command line to places where workers work. */
#include "cli/opt/opt.h"
#include "load/bed/bed_folder.h"
#include "load/jobs/io.h"

#define CLI_PLACES_MAX 1024

struct cli_places {
	struct io_target *items;
	unsigned nr;
	char **names;          /* folders cut out of mappings */
	struct bed_folder own; /* made because no folder was named; else none */
};

/*
 * @per workers for each of @folders, or one for each "FOLDER:DEVICE" of @mapping;
 * with neither, @per workers in a new folder under the current one, or, where none is to be
 * made, in that.  Returns an
 * exit status, having said what is wrong; cli_places_fini() is due either way.
 * Workers without a device of the mapping are numbered.
 */
int cli_places_init(struct cli_places *p, const struct cli_cmd *cmd, const struct cli_list *folders,
		    const struct cli_list *mapping, uint32_t per, bool make);
/*
 * Give each worker a GPU: those of @gpus in turn, or the one a mapping names, or
 * those of the machine in turn.
 */
int cli_places_gpus(struct cli_places *p, const struct cli_cmd *cmd, const struct cli_list *gpus,
		    bool mapped);
/* Remove the folder that was made, unless it is to be kept or something is in it. */
void cli_places_fini(struct cli_places *p, const struct cli_cmd *cmd, bool keep);

#endif
