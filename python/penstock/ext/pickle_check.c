/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a pickle simple: dicts, lists, tuples, numbers, text, what find_class() gives and
 * calls of it, persistent ids?  Then Python's own unpickler does nothing that torch's careful one
 * would not do, as long as find_class() gives nothing that is worth calling.  What it does besides
 * is refused here: instances (INST, OBJ, NEWOBJ), registered extensions, which are found without
 * find_class(), and numbers of the memo that would make it reserve memory.
 */
#include <string.h>

#include "ckpt.h"

#define PROTOCOL "\x80\x02"

enum { NO = -1, LINES = -2, TEXT = -3, LONG = -4 };

/* Bytes that follow an opcode, or what tells how many do. */
static int argument_bytes(unsigned char op)
{
	switch (op) {
	case '(':  /* MARK */
	case ')':  /* EMPTY_TUPLE */
	case ']':  /* EMPTY_LIST */
	case '}':  /* EMPTY_DICT */
	case 't':  /* TUPLE */
	case 'N':  /* NONE */
	case 'Q':  /* BINPERSID */
	case 'R':  /* REDUCE */
	case 'b':  /* BUILD */
	case 'a':  /* APPEND */
	case 'e':  /* APPENDS */
	case 's':  /* SETITEM */
	case 'u':  /* SETITEMS */
	case '.':  /* STOP */
	case 0x85: /* TUPLE1 */
	case 0x86: /* TUPLE2 */
	case 0x87: /* TUPLE3 */
	case 0x88: /* NEWTRUE */
	case 0x89: /* NEWFALSE */
		return 0;
	case 'K': /* BININT1 */
	case 'q': /* BINPUT */
	case 'h': /* BINGET */
		return 1;
	case 'M': /* BININT2 */
		return 2;
	case 'J': /* BININT */
	case 'r': /* LONG_BINPUT */
	case 'j': /* LONG_BINGET */
		return 4;
	case 'G': /* BINFLOAT */
		return 8;
	case 'c': /* GLOBAL */
		return LINES;
	case 'X': /* BINUNICODE */
		return TEXT;
	case 0x8a: /* LONG1 */
		return LONG;
	default:
		return NO;
	}
}

static uint32_t le32(const unsigned char *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Behind the second end of a line; NULL: there is none. */
static const unsigned char *skip_lines(const unsigned char *p, const unsigned char *end)
{
	for (int i = 0; p && i < 2; i++) {
		p = memchr(p, '\n', (size_t)(end - p));
		if (p)
			p++;
	}
	return p;
}

static bool check_pickle(const unsigned char *p, const unsigned char *end)
{
	uint64_t size = (uint64_t)(end - p);

	if (size < 2 || memcmp(p, PROTOCOL, 2) != 0)
		return false;
	p += 2;
	while (p < end) {
		unsigned char op = *p++;
		int more = argument_bytes(op);
		uint64_t left = (uint64_t)(end - p), n = (uint64_t)more;

		if (op == '.')
			return true;
		if (more == NO)
			return false;
		if (more == LINES) {
			p = skip_lines(p, end);
			if (!p)
				return false;
			continue;
		}
		if (more == TEXT)
			n = left < 4 ? UINT64_MAX : 4 + (uint64_t)le32(p);
		else if (more == LONG)
			n = left < 1 ? UINT64_MAX : 1 + (uint64_t)*p;
		if (n > left || (op == 'r' && le32(p) > size))
			return false;
		p += n;
	}
	return false;
}

PyObject *ckpt_is_simple_pickle(PyObject *module, PyObject *data)
{
	Py_buffer view;
	bool yes;

	(void)module;
	if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	yes = check_pickle(view.buf, (const unsigned char *)view.buf + view.len);
	PyBuffer_Release(&view);
	return PyBool_FromLong(yes);
}
