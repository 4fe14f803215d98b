# SPDX-License-Identifier: Apache-2.0
"""Objects that have nothing but DLPack, made by hand; for the tests."""
import ctypes

_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    _fields_ = [('data', ctypes.c_void_p), ('device_type', ctypes.c_int32),
                ('device_id', ctypes.c_int32), ('ndim', ctypes.c_int32), ('code', ctypes.c_uint8),
                ('bits', ctypes.c_uint8), ('lanes', ctypes.c_uint16),
                ('shape', ctypes.POINTER(ctypes.c_int64)),
                ('strides', ctypes.POINTER(ctypes.c_int64)), ('byte_offset', ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [('tensor', _Tensor), ('context', ctypes.c_void_p), ('deleter', ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [('major', ctypes.c_uint32), ('minor', ctypes.c_uint32),
                ('context', ctypes.c_void_p), ('deleter', ctypes.c_void_p),
                ('flags', ctypes.c_uint64), ('tensor', _Tensor)]


class Capsule:
    """PyCapsule objects."""

    _new = ctypes.pythonapi.PyCapsule_New
    _new.restype = ctypes.py_object
    _new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    _alive = []  # names and structures stay where they are

    @classmethod
    def new(cls, name, pointer=1, destructor=None):
        cls._alive.append(name)
        return cls._new(pointer, name, ctypes.cast(destructor, ctypes.c_void_p))


class Dl:
    """An array over a copy of @content, of before DLPack 1.0: __dlpack__ takes no arguments."""

    def __init__(self, content, shape, strides=None, dtype=(1, 8, 1), device=(1, 0), byte_offset=0):
        self.memory = ctypes.create_string_buffer(content, len(content))
        self.device = device
        self.made = self.freed = 0
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        self._destructor = _FREE(self._free)
        self._tensor = _Tensor(ctypes.addressof(self.memory), *device, len(shape), *dtype,
                               self._shape, self._strides, byte_offset)
        Capsule._alive.append(self)

    def _free(self, capsule):
        self.freed += 1

    def _capsule(self, name, managed):
        self.made += 1
        self._managed = managed
        return Capsule.new(name, ctypes.addressof(managed), self._destructor)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self):
        return self._capsule(b'dltensor', _Managed(self._tensor))


class DlVersioned(Dl):
    """The same since 1.0: it has a version and flags."""

    def __init__(self, *args, flags=0, version=(1, 0), **kwargs):
        super().__init__(*args, **kwargs)
        self.flags, self.version = flags, version

    def __dlpack__(self, *, stream=None, **asked):
        self.asked = asked
        return self._capsule(b'dltensor_versioned',
                             _Versioned(*self.version, None, None, self.flags, self._tensor))
