/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_RESULT_SCHEMA_H
#define PENSTOCK_REPORT_RESULT_SCHEMA_H

/*
 * Is a JSON value what its schema says?  The schemas of share/ are in the command, so that what
 * is read is what is documented.  Of JSON Schema that is understood which ours use: $ref into
 * $defs, type, const, enum, minimum, maximum, exclusiveMinimum, pattern (of POSIX), minLength,
 * items, prefixItems, minItems, maxItems, properties, patternProperties, additionalProperties,
 * required, anyOf.
 *
 * Members that a schema does not know are no error here, even where it says
 * "additionalProperties": false: version 1 of a result may get more of them.
 */
#include <jansson.h>

#include <penstock/penstock.h>

/* Made from share/ by tools/mkschema.py. */
extern const char report_schema_result[];
extern const char report_schema_trace[];
extern const char report_schema_kvcache[]; /* of the reference KV benchmark */
extern const char report_schema_summary[]; /* of its runs for MLPerf */

/*
 * 0, or -EINVAL with one line: what the member is, and what would be right; @name is what
 * messages call the file.
 */
int schema_check(const json_t *schema, const json_t *value, const char *name,
		 struct penstock_err *err);
/* The same by the text of a schema; -ENOMEM, too. */
int schema_check_text(const char *schema, const json_t *value, const char *name,
		      struct penstock_err *err);

#endif
