#pragma once
/// What may happen to a value when it is restored into another dtype.

namespace cairn {

/// The rule. Between booleans, integers of 8 to 64 bits, float16, bfloat16, float32, float64,
/// complex64 and complex128; other dtypes are never converted.
///  - To integers and booleans: the value must be one of the new dtype. A number with a fraction,
///    out of range, NaN or infinite, and a boolean other than 0 and 1, is an error under either
///    rule: nothing wraps, is cut off or saturates. Negative zero becomes 0.
///  - To floating point: under `exact` the value must be the same number in the new dtype. Under
///    `round` it is rounded once, to nearest, ties to even; what is too large becomes an infinity,
///    what is too small a subnormal number or a zero with its sign. NaN stays NaN (which one is not
///    kept), infinities stay themselves.
///  - Complex to complex by parts; real to complex with imaginary part 0; complex to real only if
///  the imaginary part is 0.
enum class Conversion {
  refuse,  ///< a dtype that differs is an error
  exact,
  round,
};

}  // namespace cairn
