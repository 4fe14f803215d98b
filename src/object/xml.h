/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_XML_H
#define PENSTOCK_OBJECT_XML_H

/*
 * The XML that object stores answer with: elements and text.  From a server nobody knows, so
 * everything is bounded: depth, names, no document types, no entities but the five and numbers.
 */
#include <stdbool.h>
#include <stddef.h>

enum object_xml_event {
	OBJECT_XML_OPEN,
	OBJECT_XML_CLOSE,
};

/*
 * @name without its namespace; @text, for OBJECT_XML_CLOSE, is what stood between the last tag and
 * this one, decoded.  @depth of the outermost element is 1.  What is not 0 ends the walk.
 */
typedef int object_xml_fn(void *ctx, enum object_xml_event event, unsigned depth, const char *name,
			  const char *text);

/*
 * Walk through @len bytes of @doc, which is written to: doc[len] must be there, too.  Returns 0,
 * what
 * @fn returned, or -EBADMSG for what is no XML of this kind.
 */
int object_xml_walk(char *doc, size_t len, object_xml_fn *fn, void *ctx);

#endif
