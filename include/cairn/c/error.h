#pragma once
/** Errors, element types, version. */
#include <stddef.h>
#include <stdint.h>

#include "cairn/version_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The kinds of errors; 0 is success. The numbers are those of cairn::Code and do not change. */
enum cairn_code {
  CAIRN_OK = 0,
  CAIRN_INVALID_ARGUMENT = 1, /**< the caller's input cannot be used as it is */
  CAIRN_NOT_FOUND = 2,        /**< no such checkpoint, key or file */
  CAIRN_ALREADY_EXISTS = 3,   /**< the step exists and is live */
  CAIRN_DISAGREEMENT = 4,     /**< ranks called with different steps, options, dtypes or shapes */
  CAIRN_COVERAGE = 5,         /**< slices leave a gap, overlap or reach outside their tensor */
  CAIRN_SHARDING = 6,         /**< a sharding policy broke one of its promises */
  CAIRN_DATA_LOSS = 7,        /**< bytes on disk are not what was written */
  CAIRN_IO = 8,               /**< the operating system refused a file operation */
  CAIRN_NO_SPACE = 9,         /**< too little space, before or while bytes move */
  CAIRN_BUSY = 10,            /**< the directory is owned by another job */
  CAIRN_UNSUPPORTED = 11,     /**< a valid request that this build or format cannot serve */
  CAIRN_COMMUNICATION = 12,   /**< a message between ranks failed; no verdict is possible */
  CAIRN_DURABILITY_UNKNOWN = 13, /**< committed and visible, but the last directory fsync failed */
  CAIRN_INTERNAL = 14,           /**< a defect of the library */
  CAIRN_APPLICATION = 15,        /**< code of the application failed: a callback */
  CAIRN_UNAVAILABLE = 16         /**< the storage does not answer; what it holds may be sound */
};

/** Short stable name of a code, such as "data_loss"; "ok". */
const char* cairn_code_name(int code);

/** An error. No text is NULL; it may be empty. Later versions may add members at the end: use it
 * through the pointer that the library gives. */
typedef struct cairn_error {
  int code;
  int rank;            /**< where it happened; -1: it concerns the whole job */
  const char* problem; /**< what is wrong */
  const char* reason;  /**< why it matters */
  const char* way_out; /**< what to do */
  const char* tensor;  /**< the key of the tensor that it is about */
  const char* path;    /**< the file that it is about */
  const char* text;    /**< PROBLEM (REASON) WAY OUT */
} cairn_error;

/** The error of the last function that failed in this thread. Its texts are valid until another
 * function fails in this thread, or the thread ends. Never NULL; code is CAIRN_OK if none has
 * failed. A struct that each caller owns would have to be made and freed at every call, in every
 * language. */
const cairn_error* cairn_last_error(void);

/** A callback may call this before it returns a code other than CAIRN_OK: the library's error then
 * has these texts, which may be NULL. Without this call the error names the callback and its
 * code. */
void cairn_set_error(int code, const char* problem, const char* reason, const char* way_out);

/** Element types: TensorFlow's numbers, which never change. */
typedef int32_t cairn_dtype;
enum cairn_dtypes {
  CAIRN_FLOAT32 = 1,
  CAIRN_FLOAT64 = 2,
  CAIRN_INT32 = 3,
  CAIRN_UINT8 = 4,
  CAIRN_INT16 = 5,
  CAIRN_INT8 = 6,
  CAIRN_STRING = 7,
  CAIRN_COMPLEX64 = 8,
  CAIRN_INT64 = 9,
  CAIRN_BOOLEAN = 10, /**< one byte, 0 or 1 */
  CAIRN_QINT8 = 11,
  CAIRN_QUINT8 = 12,
  CAIRN_QINT32 = 13,
  CAIRN_BFLOAT16 = 14,
  CAIRN_QINT16 = 15,
  CAIRN_QUINT16 = 16,
  CAIRN_UINT16 = 17,
  CAIRN_COMPLEX128 = 18,
  CAIRN_FLOAT16 = 19,
  CAIRN_UINT32 = 22,
  CAIRN_UINT64 = 23,
  CAIRN_FLOAT8_E5M2 = 24,
  CAIRN_FLOAT8_E4M3FN = 25,
  CAIRN_FLOAT8_E4M3FNUZ = 26,
  CAIRN_FLOAT8_E4M3B11FNUZ = 27,
  CAIRN_FLOAT8_E5M2FNUZ = 28,
  CAIRN_INT4 = 29, /**< the 4- and 2-bit types take one byte an element, value in the low bits */
  CAIRN_UINT4 = 30,
  CAIRN_INT2 = 31,
  CAIRN_UINT2 = 32,
  CAIRN_FLOAT4_E2M1FN = 33
};

/** The name, "float32", "bool", …; "" for a number that is no dtype. */
const char* cairn_dtype_name(cairn_dtype dtype);
/** The dtype of this name; 0 if there is none. */
cairn_dtype cairn_dtype_from_name(const char* name);
/** Bytes of one element; 0 for CAIRN_STRING and for a number that is no dtype. */
size_t cairn_dtype_size(cairn_dtype dtype);

/** The version of the library, "0.1.0"; cairn/version_macros.h has that of the headers. */
const char* cairn_version(void);
/** The name of a build option, such as "mpi", and its value; NULL after the last. The texts are
 * always valid. */
const char* cairn_build_option(size_t index, const char** value);

#ifdef __cplusplus
}
#endif
