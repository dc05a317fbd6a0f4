// A graph of operations for cuDNN to fuse, written as expressions: each operation takes tensors and
// gives the tensor of its result.
//
// All tensors have four dimensions. Those in memory have a number (uid), by which a plan is told
// their addresses; those in between exist only inside the fused kernel. What cuDNN accepts are
// patterns it knows, so the order of operations matters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <parallel/ops/cuda/cudnn/descriptor.hpp>

namespace parallel::cuda::cudnn {

using sizes = std::array<std::int64_t, 4>;

/// Strides of dense row-major tensors.
[[nodiscard]] constexpr sizes dense(sizes const& extents) {
  return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

/// What an element-wise operation computes in, and what its result is kept as in between.
struct arithmetic {
  cudnnDataType_t compute;
  cudnnDataType_t result;
};
inline constexpr arithmetic floats = {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT};
inline constexpr arithmetic integers = {CUDNN_DATA_INT32, CUDNN_DATA_INT32};
inline constexpr arithmetic logic = {CUDNN_DATA_BOOLEAN, CUDNN_DATA_BOOLEAN};

class graph {
 public:
  /// A tensor of a graph.
  class tensor {
    friend graph;
    std::size_t at = 0;
  };

  /// In the device's memory, at a multiple of `alignment` bytes.
  tensor memory(std::int64_t uid, cudnnDataType_t type, sizes extents, sizes strides,
                std::int64_t alignment = 16) {
    return add(uid, type, extents, strides, CUDNN_ATTR_TENSOR_UNIQUE_ID, alignment);
  }
  /// As `memory`, but sequence i of the first dimension begins so many elements after the address
  /// as element i of `offsets` says, which has one more than there are sequences: where the last
  /// ends.
  tensor ragged(tensor offsets, std::int64_t uid, cudnnDataType_t type, sizes extents,
                sizes strides) {
    return add(uid, type, extents, strides, CUDNN_ATTR_TENSOR_UNIQUE_ID, 16, &offsets);
  }
  /// One number, read from the host's memory when the plan is run.
  tensor number(std::int64_t uid, cudnnDataType_t type) {
    return add(uid, type, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  }
  /// In between operations.
  tensor between(sizes extents, sizes strides, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return add(--last_between_, type, extents, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  }
  tensor between(sizes extents, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return between(extents, dense(extents), type);
  }

  void apply(cudnnPointwiseMode_t mode, tensor x, tensor y, arithmetic in = floats) {
    pointwise(mode, in).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
    finish(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }
  void apply(cudnnPointwiseMode_t mode, tensor a, tensor b, tensor y, arithmetic in = floats) {
    pointwise(mode, in)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(a))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(b));
    finish(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }
  /// The result has the first operand's extents.
  tensor map(cudnnPointwiseMode_t mode, tensor x, arithmetic in = floats) {
    tensor const y = like(x, in.result);
    apply(mode, x, y, in);
    return y;
  }
  tensor map(cudnnPointwiseMode_t mode, tensor a, tensor b, arithmetic in = floats) {
    tensor const y = like(a, in.result);
    apply(mode, a, b, y, in);
    return y;
  }
  /// `kept` where mask is true, else `otherwise`.
  tensor select(tensor kept, tensor otherwise, tensor mask) {
    pointwise(CUDNN_POINTWISE_BINARY_SELECT, floats)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(kept))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(otherwise))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(mask));
    return finish(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, like(kept));
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
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
    return finish(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, like(x, CUDNN_DATA_INT32));
  }

  /// How many rows of a and c, columns of b and c, and columns of a, which are rows of b, there are
  /// in each sequence; null: all.
  struct true_extents {
    tensor const* rows;
    tensor const* columns;
    tensor const* depth;
  };
  /// c = a b, batched over the first two dimensions, of which b's second may divide a's.
  tensor multiply(tensor a, tensor b, tensor c,
                  true_extents const& only = {nullptr, nullptr, nullptr}) {
    parts_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
        .set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT)
        .finalize();
    auto& made =
        operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC)
            .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a))
            .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
    auto const limit = [&](cudnnBackendAttributeName_t name, tensor const* to) {
      if (to != nullptr) made.set(name, of(*to));
    };
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, only.rows);
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, only.columns);
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, only.depth);
    return finish(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  }

  /// y = x combined over the dimensions in which y has one element.
  tensor reduce(cudnnReduceTensorOp_t how, tensor x, tensor y) {
    parts_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
        .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_REDUCTION_OPERATOR, how)
        .finalize();
    operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
    return finish(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  }

  /// x with its last two dimensions exchanged, kept as `type`: no data moves.
  tensor transpose(tensor x, cudnnDataType_t type) {
    sizes extents = extents_[x.at];
    sizes strides = strides_[x.at];
    std::swap(extents[2], extents[3]);
    std::swap(strides[2], strides[3]);
    operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
    return finish(CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
                  add(--last_between_, type, extents, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 16,
                      offsets_[x.at] ? &*offsets_[x.at] : nullptr));
  }

  /// The finalized description of all operations. `handle` is null where there is no device.
  [[nodiscard]] descriptor operations(cudnnHandle_t handle) const {
    descriptor all(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    all.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<descriptor const>(operations_));
    if (handle != nullptr) all.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
    all.finalize();
    return all;
  }

 private:
  tensor add(std::int64_t uid, cudnnDataType_t type, sizes const& extents, sizes const& strides,
             cudnnBackendAttributeName_t kind, std::int64_t alignment = 16,
             tensor const* offsets = nullptr) {
    auto& made = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<std::int64_t const>(extents))
        .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<std::int64_t const>(strides))
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
    if (kind != CUDNN_ATTR_TENSOR_UNIQUE_ID) made.set(kind, true);
    if (offsets != nullptr) made.set(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, of(*offsets));
    made.finalize();
    extents_.push_back(extents);
    strides_.push_back(strides);
    offsets_.push_back(offsets == nullptr ? std::nullopt : std::optional(*offsets));
    tensor result;
    result.at = tensors_.size() - 1;
    return result;
  }

  [[nodiscard]] descriptor const& of(tensor x) const { return tensors_[x.at]; }
  tensor like(tensor x, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return between(extents_[x.at], type);
  }

  descriptor& pointwise(cudnnPointwiseMode_t mode, arithmetic in) {
    parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .set(CUDNN_ATTR_POINTWISE_MODE, mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, in.compute)
        .finalize();
    return operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  }
  // An operation described by the last part.
  descriptor& operation(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t name) {
    return operations_.emplace_back(type).set(name, parts_.back());
  }
  tensor finish(cudnnBackendAttributeName_t name, tensor result) {
    operations_.back().set(name, of(result)).finalize();
    return result;
  }

  std::int64_t last_between_ = std::int64_t{1} << 32;  // uids of tensors in between count down
  std::vector<descriptor> tensors_, parts_, operations_;
  std::vector<sizes> extents_, strides_;
  std::vector<std::optional<tensor>> offsets_;
};

}  // namespace parallel::cuda::cudnn
