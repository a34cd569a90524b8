#pragma once
/// Converts texts between Python and C++. It replaces pybind11's own conversion, which accepts only
/// UTF-8: file names and keys of other programs may have any bytes. A byte that is not UTF-8 is a
/// surrogate in Python, as in os.fsdecode. Include this before every other header of pybind11.
#include <pybind11/cast.h>

#include <string>

namespace pybind11::detail {

template <>
struct type_caster<std::string> {
  PYBIND11_TYPE_CASTER(std::string, const_name("str"));

  bool load(handle source, bool) {
    if (!source) return false;
    object bytes = reinterpret_borrow<object>(source);
    if (PyUnicode_Check(source.ptr())) {
      // Most texts are UTF-8; Python then keeps the encoded form.
      Py_ssize_t size = 0;
      if (const auto* text = PyUnicode_AsUTF8AndSize(source.ptr(), &size)) {
        value.assign(text, static_cast<std::size_t>(size));
        return true;
      }
      PyErr_Clear();
      bytes = reinterpret_steal<object>(
          PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape"));
      if (!bytes) {
        PyErr_Clear();
        return false;
      }
    }
    if (PyBytes_Check(bytes.ptr())) {
      value.assign(PyBytes_AS_STRING(bytes.ptr()),
                   static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr())));
      return true;
    }
    if (!PyByteArray_Check(bytes.ptr())) return false;
    value.assign(PyByteArray_AS_STRING(bytes.ptr()),
                 static_cast<std::size_t>(PyByteArray_GET_SIZE(bytes.ptr())));
    return true;
  }

  static handle cast(const std::string& text, return_value_policy, handle) {
    auto* made =
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
    if (!made) throw error_already_set();
    return made;
  }
};

}  // namespace pybind11::detail
