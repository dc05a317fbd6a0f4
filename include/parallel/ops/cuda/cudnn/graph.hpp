// A graph of operations for cuDNN to fuse, written as expressions: each operation takes tensors and
// returns the tensor of its result.
//
// All tensors have four dimensions. Tensors in memory have a number (uid), by which a plan gets
// their addresses; virtual tensors exist only inside the fused kernel. cuDNN accepts only patterns
// that it knows, so the order of operations matters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <parallel/ops/cuda/cudnn/descriptor.hpp>

namespace parallel::cuda::cudnn {

/// Extents or strides of a tensor of four dimensions.
using sizes = std::array<std::int64_t, 4>;

/// Strides of dense row-major tensors.
[[nodiscard]] constexpr sizes dense(sizes const& extents) {
  return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

/// The types in which an element-wise operation computes and in which its virtual result is stored.
struct arithmetic {
  cudnnDataType_t compute;
  cudnnDataType_t result;
};
/// Computes and stores floats.
inline constexpr arithmetic floats = {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT};
/// Computes and stores 32-bit integers.
inline constexpr arithmetic integers = {CUDNN_DATA_INT32, CUDNN_DATA_INT32};
/// Computes and stores truth values.
inline constexpr arithmetic logic = {CUDNN_DATA_BOOLEAN, CUDNN_DATA_BOOLEAN};

class graph {
 public:
  /// A tensor of the graph, by its position there.
  class tensor {
    friend graph;
    std::size_t position = 0;
  };

  /// A tensor in device memory, at a multiple of `alignment` bytes.
  tensor memory(std::int64_t uid, cudnnDataType_t type, sizes extents, sizes strides,
                std::int64_t alignment = 16) {
    return add(uid, type, extents, strides, CUDNN_ATTR_TENSOR_UNIQUE_ID, alignment);
  }
  /// Like `memory`, but sequence i of the first dimension begins at the element that element i of
  /// `offsets` states. `offsets` has one element more than there are sequences: the end of the
  /// last.
  tensor ragged(tensor offsets, std::int64_t uid, cudnnDataType_t type, sizes extents,
                sizes strides) {
    return add(uid, type, extents, strides, CUDNN_ATTR_TENSOR_UNIQUE_ID, 16, &offsets);
  }
  /// One number, which is read from host memory when the plan is run.
  tensor number(std::int64_t uid, cudnnDataType_t type) {
    return add(uid, type, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  }
  /// A virtual tensor, between two operations.
  tensor virtual_tensor(sizes extents, sizes strides, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return add(--last_virtual_uid_, type, extents, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  }
  tensor virtual_tensor(sizes extents, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return virtual_tensor(extents, dense(extents), type);
  }

  void apply(cudnnPointwiseMode_t mode, tensor x, tensor y, arithmetic in = floats) {
    pointwise(mode, in).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor_of(x));
    finish(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }
  void apply(cudnnPointwiseMode_t mode, tensor a, tensor b, tensor y, arithmetic in = floats) {
    pointwise(mode, in)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor_of(a))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, descriptor_of(b));
    finish(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }
  /// The result has the first operand's extents.
  tensor map(cudnnPointwiseMode_t mode, tensor x, arithmetic in = floats) {
    tensor const y = virtual_like(x, in.result);
    apply(mode, x, y, in);
    return y;
  }
  tensor map(cudnnPointwiseMode_t mode, tensor a, tensor b, arithmetic in = floats) {
    tensor const y = virtual_like(a, in.result);
    apply(mode, a, b, y, in);
    return y;
  }
  /// `x` where the mask is true, else `otherwise`.
  tensor select(tensor x, tensor otherwise, tensor mask) {
    pointwise(CUDNN_POINTWISE_BINARY_SELECT, floats)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor_of(x))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, descriptor_of(otherwise))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, descriptor_of(mask));
    return finish(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, virtual_like(x));
  }
  /// Each element's index along `axis`.
  tensor positions(tensor x, std::int64_t axis, cudnnDataType_t compute) {
    parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute)
        .set(CUDNN_ATTR_POINTWISE_AXIS, axis)
        .finalize();
    operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor_of(x));
    return finish(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, virtual_like(x, CUDNN_DATA_INT32));
  }

  /// The true extents of a product in each sequence: rows of a and c, columns of b and c, and
  /// columns of a, which are the rows of b; null: all.
  struct true_extents {
    tensor const* rows;
    tensor const* columns;
    tensor const* depth;
  };
  /// c = a b, batched over the first two dimensions; the second dimension of b may divide that of
  /// a.
  tensor multiply(tensor a, tensor b, tensor c,
                  true_extents const& extents = {nullptr, nullptr, nullptr}) {
    parts_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
        .set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT)
        .finalize();
    auto& product =
        operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC)
            .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptor_of(a))
            .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptor_of(b));
    auto const limit = [&](cudnnBackendAttributeName_t name, tensor const* extent) {
      if (extent != nullptr) product.set(name, descriptor_of(*extent));
    };
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, extents.rows);
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, extents.columns);
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, extents.depth);
    return finish(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  }

  /// y = x combined over the dimensions in which y has one element.
  tensor reduce(cudnnReduceTensorOp_t operator_kind, tensor x, tensor y) {
    parts_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
        .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_REDUCTION_OPERATOR, operator_kind)
        .finalize();
    operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptor_of(x));
    return finish(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  }

  /// x with its last two dimensions exchanged, as `type`; no data moves.
  tensor transpose(tensor x, cudnnDataType_t type) {
    sizes extents = extents_[x.position];
    sizes strides = strides_[x.position];
    std::swap(extents[2], extents[3]);
    std::swap(strides[2], strides[3]);
    operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, descriptor_of(x));
    return finish(CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
                  add(--last_virtual_uid_, type, extents, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 16,
                      offsets_[x.position] ? &*offsets_[x.position] : nullptr));
  }

  /// The finalized description of all operations. `handle` is null if there is no device.
  [[nodiscard]] descriptor operations(cudnnHandle_t handle) const {
    descriptor graph_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph_descriptor.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<descriptor const>(operations_));
    if (handle != nullptr) graph_descriptor.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
    graph_descriptor.finalize();
    return graph_descriptor;
  }

 private:
  tensor add(std::int64_t uid, cudnnDataType_t type, sizes const& extents, sizes const& strides,
             cudnnBackendAttributeName_t kind, std::int64_t alignment = 16,
             tensor const* offsets = nullptr) {
    auto& tensor_descriptor = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensor_descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<std::int64_t const>(extents))
        .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<std::int64_t const>(strides))
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
    if (kind != CUDNN_ATTR_TENSOR_UNIQUE_ID) tensor_descriptor.set(kind, true);
    if (offsets != nullptr)
      tensor_descriptor.set(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, descriptor_of(*offsets));
    tensor_descriptor.finalize();
    extents_.push_back(extents);
    strides_.push_back(strides);
    offsets_.push_back(offsets == nullptr ? std::nullopt : std::optional(*offsets));
    tensor result;
    result.position = tensors_.size() - 1;
    return result;
  }

  [[nodiscard]] descriptor const& descriptor_of(tensor x) const { return tensors_[x.position]; }
  tensor virtual_like(tensor x, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return virtual_tensor(extents_[x.position], type);
  }

  descriptor& pointwise(cudnnPointwiseMode_t mode, arithmetic in) {
    parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .set(CUDNN_ATTR_POINTWISE_MODE, mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, in.compute)
        .finalize();
    return operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  }
  // Adds an operation whose math is described by the last of parts_.
  descriptor& operation(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t name) {
    return operations_.emplace_back(type).set(name, parts_.back());
  }
  tensor finish(cudnnBackendAttributeName_t name, tensor result) {
    operations_.back().set(name, descriptor_of(result)).finalize();
    return result;
  }

  std::int64_t last_virtual_uid_ = std::int64_t{1} << 32;  // uids of virtual tensors count down
  std::vector<descriptor> tensors_, parts_, operations_;
  std::vector<sizes> extents_, strides_;
  std::vector<std::optional<tensor>> offsets_;
};

}  // namespace parallel::cuda::cudnn
