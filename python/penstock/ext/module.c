/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module penstock._penstock.  Its state, like the I/O threads of handles, is the process's, so
 * it is for the main interpreter alone.
 */
#include "ckpt.h"
#include "handle.h"
#include "s3.h"

static struct module_state state;
static PyObject *self; /* the first one that was made; borrowed: the types hold it */

struct module_state *module_state(void)
{
	return &state;
}

PyObject *module_function(const char *name)
{
	return PyObject_GetAttrString(self, name);
}

PyObject *refuse_pickle(PyObject *obj, PyObject *unused)
{
	PyObject *name = PyType_GetName(Py_TYPE(obj));

	(void)unused;
	if (name)
		PyErr_Format(PyExc_TypeError,
			     "cannot pickle or copy 'penstock.%U': it belongs to this process, "
			     "with its threads and memory; make one where it is needed",
			     name);
	Py_XDECREF(name);
	return NULL;
}

/* Registered with atexit: finish what is under way, run what is due, tell what failed. */
static PyObject *at_exit(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	dispatch_end();
	Py_RETURN_NONE;
}

static int add_types(PyObject *m)
{
	static const struct {
		PyType_Spec *spec;
		PyTypeObject **type;
	} types[] = {
		{&handle_spec, &state.handle_type},   {&file_spec, &state.file_type},
		{&future_spec, &state.future_type},   {&memory_spec, &state.memory_type},
		{&writer_spec, &state.writer_type},   {&reader_spec, &state.reader_type},
		{&content_spec, &state.content_type}, {&store_spec, &state.store_type},
		{&client_spec, &state.client_type},   {&listing_spec, &state.listing_type},
		{&upload_spec, &state.upload_type},   {&bytes_view_spec, &state.bytes_view_type},
		{&weights_spec, &state.weights_type},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (!*types[i].type) /* a module that is imported anew has the same */
			*types[i].type =
				(PyTypeObject *)PyType_FromModuleAndSpec(m, types[i].spec, NULL);
		if (!*types[i].type || PyModule_AddType(m, *types[i].type) < 0)
			return -1;
	}
	return 0;
}

static int register_exit(PyObject *m)
{
	PyObject *atexit = PyImport_ImportModule("atexit");
	PyObject *f = PyObject_GetAttrString(m, "_at_exit"), *r = NULL;

	if (atexit && f)
		r = PyObject_CallMethod(atexit, "register", "O", f);
	Py_XDECREF(r);
	Py_XDECREF(f);
	Py_XDECREF(atexit);
	return r ? 0 : -1;
}

static PyMethodDef functions[] = {
	{"info", FAST(info_info),
	 "info(path=None)\n--\n\n"
	 "What the library, this machine and, if given, a path can do, and why not the rest."},
	{"in_memory", memory_in_memory, METH_VARARGS,
	 "in_memory(address, nbytes, /)\n--\n\n"
	 "Whether these bytes of this process lie inside one penstock.Memory."},
	{"file_state", file_state, METH_O,
	 "file_state(path, /)\n--\n\n"
	 "The length of a regular file, by its name or descriptor, of anything else -1; what tells "
	 "it from other files: device, inode."},
	{"crc32", ckpt_crc32, METH_VARARGS, "crc32(data, value=0, /)\n--\n\nAs zlib.crc32()."},
	{"copy", ckpt_copy, METH_VARARGS,
	 "copy(moves, /)\n--\n\n"
	 "Copy memory of this process: for each move three numbers of 64 bits, to, from, bytes."},
	{"huge", ckpt_huge, METH_VARARGS,
	 "huge(address, nbytes, /)\n--\n\n"
	 "Ask for huge pages under memory of this process that is about to be filled."},
	{"make_persistent_id", ckpt_make_persistent_id, METH_VARARGS,
	 "make_persistent_id(skipped_types, name, /)\n--\n\n"
	 "For pickle.Pickler.persistent_id: None for objects of skipped_types, else what name() "
	 "says."},
	{"is_simple_pickle", ckpt_is_simple_pickle, METH_O,
	 "is_simple_pickle(pickle, /)\n--\n\n"
	 "Whether unpickling it makes nothing but plain things and what find_class() gives."},
	{"_dispatch", dispatch_loop, METH_NOARGS, NULL},
	{"_at_exit", at_exit, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

/*
 * Another interpreter of the process runs its own exit functions, at another time: what a handle
 * has in flight there would be waited for by nobody, and the process would not end.
 */
static int check_interpreter(void)
{
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
		return 0;
	PyErr_SetString(PyExc_ImportError,
			"penstock works in the main interpreter only, not in a subinterpreter");
	return -1;
}

static int fill_module(PyObject *m)
{
	bool first = !self;

	if (check_interpreter() < 0)
		return -1;
	if (first)
		self = m;
	if ((first && (shared_io_setup() < 0 || torch_setup() < 0)) || add_types(m) < 0 ||
	    (first && register_exit(m) < 0))
		return -1;
	return PyModule_AddStringConstant(m, "__version__", PENSTOCK_VERSION_STRING);
}

static PyModuleDef_Slot slots[] = {
	{Py_mod_exec, fill_module},
#ifdef Py_GIL_DISABLED
	{Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
	{0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "penstock._penstock",
	.m_doc = "The extension module of penstock.",
	.m_methods = functions,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__penstock(void);

PyMODINIT_FUNC PyInit__penstock(void)
{
	return PyModuleDef_Init(&definition);
}
