// Fourier transforms in importers of all formats: as products with matrices of roots of unity, for extents that are
// known.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_SPECTRUM_H_
#define RVM_COMPILER_IMPORT_BLOCKS_SPECTRUM_H_

#include <cstdint>
#include <span>

#include "compiler/import/steps.h"

namespace rvm::importing {

// Complex numbers by their parts, tensors of one type. No imaginary part: zeros.
struct Spectrum {
  Operand real = nullptr, imaginary = nullptr;
};

// The axes of these are counted from the front.
// Returns the numbers along an axis cut to `n`, or with zeros behind them; null for null.
Operand Fitted(Steps& c, Operand x, int64_t axis, int64_t n);
// Returns the discrete Fourier transform along an axis: sums over j of x[j] exp(-2 pi i j k / n), or with the other
// sign for `inverse`, which divides nothing.
Spectrum Transform(Steps& c, const Spectrum& x, int64_t axis, bool inverse);
// Returns the first n / 2 + 1 frequencies of real numbers; the others are their conjugates.
Spectrum TransformReal(Steps& c, Operand x, int64_t axis);
// Returns the real numbers, `n` of them, of which these are the first frequencies, cut or with zeros behind them; not
// divided.
Operand InverseOfReal(Steps& c, const Spectrum& x, int64_t axis, int64_t n);
// Returns the transform of real numbers along their last axes, cut or padded to `lengths`; the first frequencies of the
// last one.
Spectrum TransformRealAxes(Steps& c, Operand x, std::span<const int64_t> lengths);
// Returns the real numbers of which these are the frequencies along the last axes, those of the last one its first
// frequencies, cut or padded to `lengths`; divided by the product of the lengths.
Operand InverseOfRealAxes(Steps& c, Spectrum x, std::span<const int64_t> lengths);

// Returns the frames of signals (batch, time): (batch, frames, size), each `hop` behind the last one.
Operand Frames(Steps& c, Operand signal, int64_t size, int64_t hop);
// Returns the sums of frames (batch, frames, size) that overlap: (batch, time), where each lies `hop` behind the last
// one. The time is a multiple of `hop`; what is behind the last frame is 0.
Operand OverlapAdd(Steps& c, Operand frames, int64_t hop);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_SPECTRUM_H_
