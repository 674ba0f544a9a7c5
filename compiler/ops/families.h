// The families of operators, one file each. op_table.cc lists them.
#ifndef RVM_COMPILER_OPS_FAMILIES_H_
#define RVM_COMPILER_OPS_FAMILIES_H_

#include <span>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

std::span<const OpDef> UnaryOps();
std::span<const OpDef> BinaryOps();
std::span<const OpDef> ReduceOps();
std::span<const OpDef> TransformOps();  // shape changes
std::span<const OpDef> IndexOps();      // take, slices, concatenation
std::span<const OpDef> CreateOps();
std::span<const OpDef> ExtentOps();  // extents measured and checked
std::span<const OpDef> NeuralOps();  // dense, softmax
std::span<const OpDef> NormOps();
std::span<const OpDef> BlockOps();  // space to depth, space to batch, mirrored borders
std::span<const OpDef> ScatterOps();
std::span<const OpDef> VisionOps();  // boxes
std::span<const OpDef> GatherOps();  // gather, masks, scans
std::span<const OpDef> SortOps();
std::span<const OpDef> LayoutOps();
std::span<const OpDef> ConvolutionOps();
std::span<const OpDef> BlockedConvolutionOps();
std::span<const OpDef> PoolingOps();
std::span<const OpDef> LossOps();
std::span<const OpDef> WindowGradientOps();  // gradients of convolution and pooling
std::span<const OpDef> ImageOps();           // resized
std::span<const OpDef> SamplingOps();        // grids, deformed filters
std::span<const OpDef> RegionOps();
std::span<const OpDef> SparseOps();
std::span<const OpDef> DetectionOps();
std::span<const OpDef> NeighbourhoodOps();  // dilation, correlation, sliding windows
std::span<const OpDef> SpectrumOps();       // Fourier transforms
std::span<const OpDef> ActivationOps();
std::span<const OpDef> UpsamplingOps();
std::span<const OpDef> CropOps();
std::span<const OpDef> LookupOps();  // search, inverse indices
std::span<const OpDef> PatchOps();   // data with a part replaced, diagonals, grids
std::span<const OpDef> EinsumOps();
std::span<const OpDef> RandomOps();
std::span<const OpDef> AnnotationOps();
std::span<const OpDef> FixedPointOps();
std::span<const OpDef> QuantizedOps();             // elementwise, joining, pooling
std::span<const OpDef> QuantizedContractionOps();  // dense, convolution
std::span<const OpDef> PadOps();
std::span<const OpDef> DynamicOps();  // a shape is an argument
std::span<const OpDef> CountedOps();  // the number of results depends on all elements

// Indices with which a tensor of shape `from` is read at `indices` of the shape `to` it broadcasts to.
std::vector<te::Expr> BroadcastIndices(std::span<const te::Expr> indices, const Dims& from, const Dims& to);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_H_
