// Fourier transforms of tensors and of frames of signals.
#ifndef RVM_COMPILER_IMPORT_TORCH_SPECTRUM_H_
#define RVM_COMPILER_IMPORT_TORCH_SPECTRUM_H_

#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {

// fft_fft and the others of torch.fft that transform axes of real or complex numbers, and the core operators that these
// are made of.
Operands FourierTransform(NodeContext& c);
Operands Stft(NodeContext& c);
Operands InverseStft(NodeContext& c);

}  // namespace rvm::torch::convert

#endif  // RVM_COMPILER_IMPORT_TORCH_SPECTRUM_H_
