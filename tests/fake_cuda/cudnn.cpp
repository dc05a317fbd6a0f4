// A fake cuDNN on the fake CUDA runtime: it takes graphs of the operations that the library's
// attention consists of, as descriptors, and computes them: each operation in the types of its
// tensors, with sums in float. It offers three engines for every graph, which add in different
// orders, so another engine gives other bits; machine_options describe their times and workspaces.
// Deterministic gradients need a workspace, and so do gradients of shared keys for which the caller
// provides no memory; the workspace is overwritten. Descriptors that do not fit together or are not
// finalized are refused.
//
// A ragged tensor has offsets, at which its sequences begin, and lengths. Elements beyond a
// sequence's length read as NaN and are never written, even if memory exists there. Scratch that a
// ragged graph writes and reads must begin at the same offsets as in NVIDIA's own graphs
// (github.com/NVIDIA/cudnn-frontend, node/scaled_dot_product_flash_attention.h, class
// SDPA_backward_node, which makes dQ_accum, dK_fullhead, dV_fullhead and softmax_sum; read in
// November 2026): cuDNN 9.19 accepts other graphs, and reads memory that nothing has written.
#include <cudnn_graph.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/core/dtype.hpp>

#include "fake_cuda/machine.hpp"
#include "support/devices/graph_meaning.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

namespace meaning = test::graph_meaning;
using meaning::sizes;

/// Numbers of tensors that distinguish the kinds of graphs.
constexpr std::int64_t queries_gradient = 7, float_sum = 15;

struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tensor's description. A virtual tensor is an intermediate result, for which `compute`
/// allocates memory.
struct tensor {
  std::int64_t uid = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  sizes extents{}, strides{};
  std::int64_t alignment = 16;
  bool is_virtual = false, is_number = false;
  std::int64_t offsets = 0;  // number of the tensor of offsets; 0: the tensor is not ragged

  [[nodiscard]] bool in_memory() const { return !is_virtual && !is_number; }
  [[nodiscard]] bool ragged() const { return in_memory() && offsets != 0; }
  /// The dimension in which rows follow one another.
  [[nodiscard]] std::size_t rows() const { return extents[3] > 1 && strides[3] > 1 ? 3 : 2; }
  [[nodiscard]] std::size_t width() const {
    return type == CUDNN_DATA_BFLOAT16  ? 2
           : type == CUDNN_DATA_BOOLEAN ? 1
           : type == CUDNN_DATA_INT64   ? 8
                                        : 4;
  }
  [[nodiscard]] std::size_t bytes() const {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < 4; ++d) last += (extents[d] - 1) * strides[d];
    return static_cast<std::size_t>(last + 1) * width();
  }
};

/// A tensor with its memory, whose elements can be read and written.
struct bound_tensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  sizes extents{}, strides{};
  std::byte* data = nullptr;
  // For a ragged tensor: each sequence's first element and number of rows, and the rows' dimension
  std::int64_t const* offsets = nullptr;
  std::int32_t const* lengths = nullptr;
  std::size_t rows = 2;
  std::int64_t multiplier = 1;  // factor of the offsets

  [[nodiscard]] double get(sizes const& i, sizes const& result_extents) const {
    sizes element{};
    for (std::size_t d = 0; d < 4; ++d) element[d] = i[d] / (result_extents[d] / extents[d]);
    if (is_padding(element)) return std::numeric_limits<double>::quiet_NaN();
    auto const offset = offset_of(element);
    switch (type) {
      case CUDNN_DATA_BFLOAT16: return static_cast<float>(typed_data<parallel::bf16>()[offset]);
      case CUDNN_DATA_INT32: return typed_data<std::int32_t>()[offset];
      case CUDNN_DATA_BOOLEAN: return typed_data<std::uint8_t>()[offset];
      default: return typed_data<float>()[offset];
    }
  }
  void set(sizes const& i, double value) const {
    if (is_padding(i)) return;
    auto const offset = offset_of(i);
    switch (type) {
      case CUDNN_DATA_BFLOAT16:
        typed_data<parallel::bf16>()[offset] =
            static_cast<parallel::bf16>(static_cast<float>(value));
        return;
      case CUDNN_DATA_INT32:
        typed_data<std::int32_t>()[offset] = static_cast<std::int32_t>(value);
        return;
      case CUDNN_DATA_BOOLEAN: typed_data<std::uint8_t>()[offset] = value != 0.0 ? 1 : 0; return;
      default: typed_data<float>()[offset] = static_cast<float>(value);
    }
  }

 private:
  [[nodiscard]] bool is_padding(sizes const& i) const {
    return lengths != nullptr && i[rows] >= lengths[i[0]];
  }
  [[nodiscard]] std::int64_t offset_of(sizes const& i) const {
    std::int64_t offset = offsets == nullptr ? i[0] * strides[0] : multiplier * offsets[i[0]];
    for (std::size_t d = 1; d < 4; ++d) offset += i[d] * strides[d];
    return offset;
  }
  template <class T>
  [[nodiscard]] T* typed_data() const {
    return reinterpret_cast<T*>(data);
  }
};

struct operation {
  enum class kind { pointwise, select, positions, matmul, reduction, transpose };
  kind type = kind::pointwise;
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
  cudnnReduceTensorOp_t reduction = CUDNN_REDUCE_TENSOR_ADD;
  std::int64_t axis = 0;
  tensor a, b, mask, y;
  // Numbers of the tensors that hold a product's true extents
  std::int64_t rows = 0, columns = 0, depth = 0;
};

struct graph {
  std::vector<operation> operations;
  std::map<std::int64_t, tensor> tensors;
  std::size_t workspace = 0;
  std::int64_t lengths = 0;  // number of the tensor that holds the sequences' lengths, or 0
  // The factors, other than 1, of ragged tensors' offsets, by the tensor's number
  std::map<std::int64_t, std::int64_t> multipliers = {};

  [[nodiscard]] std::int64_t multiplier(tensor const& ragged) const {
    auto const entry = multipliers.find(ragged.uid);
    return entry == multipliers.end() ? 1 : entry->second;
  }
};

struct attribute {
  cudnnBackendAttributeType_t type;
  std::vector<std::byte> bytes;
  std::vector<std::shared_ptr<struct descriptor const>> descriptors;
};

struct descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, attribute> values = {};
  // For descriptors of graphs, heuristics, engines and plans
  std::shared_ptr<graph const> described_graph = {};
  int engine = 0;

  template <class T>
  [[nodiscard]] std::vector<T> values_of(cudnnBackendAttributeName_t name) const {
    auto const found = values.find(name);
    if (found == values.end()) throw refused("attribute " + std::to_string(name) + " is not set");
    std::vector<T> out(found->second.bytes.size() / sizeof(T));
    std::memcpy(out.data(), found->second.bytes.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  [[nodiscard]] T value_of(cudnnBackendAttributeName_t name) const {
    auto const found = values.find(name);
    if (found == values.end() || found->second.bytes.size() != sizeof(T))
      throw refused("attribute " + std::to_string(name) + " is not set to one value");
    T out;
    return std::memcpy(&out, found->second.bytes.data(), sizeof out), out;
  }
  [[nodiscard]] bool is_set(cudnnBackendAttributeName_t name) const {
    return values.contains(name);
  }
  [[nodiscard]] descriptor const& component(cudnnBackendAttributeName_t name) const {
    auto const found = values.find(name);
    if (found == values.end() || found->second.descriptors.size() != 1)
      throw refused("attribute " + std::to_string(name) + " is not set to one descriptor");
    return *found->second.descriptors.front();
  }
};
using handle = std::shared_ptr<descriptor>;

/// The engine as the machine's options describe it.
[[nodiscard]] fake_cuda::engine const& engine_of(int number) {
  return fake_cuda::machine::get().options.engines[static_cast<std::size_t>(number)];
}
constexpr int engines = 3;
[[nodiscard]] std::size_t workspace_of(descriptor const& plan) {
  return plan.described_graph->workspace + engine_of(plan.engine).workspace;
}

[[nodiscard]] std::string& last_reason() {
  static thread_local std::string text;
  return text;
}
/// Returns work(), or the error status for the exception that it throws.
template <class Work>
cudnnStatus_t attempt(Work const& work) {
  try {
    return work();
  } catch (refused const& e) {
    last_reason() = e.what();
    return CUDNN_STATUS_BAD_PARAM;
  } catch (parallel::error const& e) {
    last_reason() = e.what();
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
}
[[nodiscard]] handle& handle_of(cudnnBackendDescriptor_t raw) { return *static_cast<handle*>(raw); }

void expect(bool is_met, char const* message) {
  if (!is_met) throw refused(message);
}

[[nodiscard]] tensor tensor_of(descriptor const& d) {
  tensor out;
  out.type = d.value_of<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  out.uid = d.value_of<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  out.alignment = d.value_of<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  auto const extents = d.values_of<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto const strides = d.values_of<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  expect(extents.size() == 4 && strides.size() == 4, "a tensor has not four dimensions");
  for (std::size_t i = 0; i < 4; ++i) {
    expect(extents[i] > 0 && strides[i] > 0, "a tensor's extent or stride is not positive");
    out.extents[i] = extents[i];
    out.strides[i] = strides[i];
  }
  out.is_virtual =
      d.is_set(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && d.value_of<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  out.is_number =
      d.is_set(CUDNN_ATTR_TENSOR_IS_BY_VALUE) && d.value_of<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  expect(out.type == CUDNN_DATA_FLOAT || out.type == CUDNN_DATA_BFLOAT16 ||
             out.type == CUDNN_DATA_INT32 || out.type == CUDNN_DATA_INT64 ||
             out.type == CUDNN_DATA_BOOLEAN,
         "a tensor's type is none that attention has");
  if (d.is_set(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC)) {
    auto const offsets = tensor_of(d.component(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC));
    expect(offsets.in_memory() && offsets.type == CUDNN_DATA_INT64 &&
               offsets.extents == sizes{out.extents[0] + 1, 1, 1, 1},
           "offsets are not one 64-bit integer more than there are sequences");
    out.offsets = offsets.uid;
  }
  return out;
}

/// Whether each of x's extents divides y's.
[[nodiscard]] bool repeats_in(tensor const& x, sizes const& y) {
  for (std::size_t d = 0; d < 4; ++d)
    if (y[d] % x.extents[d] != 0) return false;
  return true;
}

[[nodiscard]] operation operation_of(descriptor const& d) {
  using kind = operation::kind;
  operation out;
  auto const read_tensor = [&](cudnnBackendAttributeName_t name) {
    return tensor_of(d.component(name));
  };
  switch (d.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      auto const& settings = d.component(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      out.mode = settings.value_of<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
      out.a = out.b = read_tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
      out.y = read_tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      if (d.is_set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
        out.b = read_tensor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
      if (out.mode == CUDNN_POINTWISE_GEN_INDEX) {
        out.type = kind::positions;
        out.axis = settings.value_of<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
        expect(0 <= out.axis && out.axis < 4, "there is no such axis");
      } else if (out.mode == CUDNN_POINTWISE_BINARY_SELECT) {
        out.type = kind::select;
        out.mask = read_tensor(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
        expect(out.mask.type == CUDNN_DATA_BOOLEAN, "a mask is not of booleans");
        expect(repeats_in(out.mask, out.y.extents), "a mask does not fit the result");
      } else {
        static_cast<void>(meaning::value(out.mode, 1, 1));  // throws for an unknown mode
      }
      expect(repeats_in(out.a, out.y.extents) && repeats_in(out.b, out.y.extents),
             "the operands of an element-wise operation do not fit its result");
      return out;
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      static_cast<void>(d.component(CUDNN_ATTR_OPERATION_MATMUL_DESC));
      out.type = kind::matmul;
      out.a = read_tensor(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
      out.b = read_tensor(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
      out.y = read_tensor(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      expect(out.a.extents[3] == out.b.extents[2] && out.a.extents[2] == out.y.extents[2] &&
                 out.b.extents[3] == out.y.extents[3] && out.a.extents[0] == out.y.extents[0] &&
                 out.b.extents[0] == out.y.extents[0] && out.a.extents[1] == out.y.extents[1] &&
                 out.y.extents[1] % out.b.extents[1] == 0,
             "the matrices of a product do not fit");
      for (auto const& [name, to] :
           {std::pair{CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, &out.rows},
            {CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, &out.columns},
            {CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, &out.depth}})
        if (d.is_set(name)) {
          auto const lengths = read_tensor(name);
          expect(lengths.in_memory() && lengths.type == CUDNN_DATA_INT32 &&
                     lengths.extents == sizes{out.y.extents[0], 1, 1, 1},
                 "true extents are not an integer for each sequence");
          *to = lengths.uid;
        }
      return out;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      auto const& settings = d.component(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
      out.type = kind::reduction;
      out.reduction = settings.value_of<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
      expect(out.reduction == CUDNN_REDUCE_TENSOR_ADD || out.reduction == CUDNN_REDUCE_TENSOR_MAX,
             "a reduction that attention has not");
      out.a = out.b = read_tensor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
      out.y = read_tensor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
      expect(repeats_in(out.y, out.a.extents), "the result of a reduction does not fit");
      return out;
    }
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: {
      out.type = kind::transpose;
      out.a = out.b = read_tensor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
      out.y = read_tensor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
      auto extents = out.a.extents, strides = out.a.strides;
      std::swap(extents[2], extents[3]);
      std::swap(strides[2], strides[3]);
      expect(out.y.extents == extents && out.y.strides == strides,
             "a reshape that does not exchange the last two dimensions");
      expect(out.y.offsets == out.a.offsets, "a reshape of a ragged tensor forgets its offsets");
      return out;
    }
    default: throw refused("an operation that attention has not");
  }
}

/// Strides of dense row-major tensors.
[[nodiscard]] sizes dense(sizes const& extents) {
  return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

/// Refuses scratch of a ragged graph whose offsets differ from those in NVIDIA's own graphs.
void expect_known_scratch_offsets(graph& g) {
  for (auto const& one : g.operations) {
    auto const& [x, y] = std::tie(one.a, one.y);
    if (!x.in_memory() || !y.ragged()) continue;
    if (one.type == operation::kind::pointwise && one.mode == CUDNN_POINTWISE_IDENTITY)
      expect(x.ragged() ? x.offsets == y.offsets && x.strides == y.strides
                        : x.strides == dense(x.extents),
             "the sums of a ragged gradient of queries are neither dense [B, H, S, D] without a "
             "table of offsets nor of the gradient's own strides and table");
    if (one.type == operation::kind::reduction && x.extents[1] > y.extents[1]) {
      auto const sharing = x.extents[1] / y.extents[1];
      expect(x.ragged() && x.offsets == y.offsets && x.strides[0] == sharing * y.strides[0] &&
                 x.strides[2] == sharing * y.strides[2],
             "every head's ragged gradients of shared keys have not the table of their sums' "
             "offsets and, times the heads that share a key head, their strides");
      g.multipliers[x.uid] = sharing;
    }
  }
  std::set<std::int64_t> produced, consumed;
  for (auto const& one : g.operations) {
    produced.insert(one.y.uid);
    consumed.insert({one.a.uid, one.b.uid});
  }
  auto const is_scratch = [&](tensor const& x) {
    return x.ragged() && produced.contains(x.uid) && consumed.contains(x.uid);
  };
  std::set<std::int64_t> tables;  // tables of tensors that are not scratch
  for (auto const& entry : g.tensors)
    if (entry.second.ragged() && !is_scratch(entry.second)) tables.insert(entry.second.offsets);
  for (auto const& entry : g.tensors)
    expect(!is_scratch(entry.second) || tables.contains(entry.second.offsets),
           "scratch of a ragged graph has a table of offsets that no input or result has");
}

/// Reads a graph and checks it: every tensor is written once, before its first use, and has one
/// description.
[[nodiscard]] graph graph_of(descriptor const& d) {
  graph out;
  static_cast<void>(d.value_of<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
  std::set<std::int64_t> produced;
  auto const register_tensor = [&](tensor const& one) {
    auto const [entry, is_new] = out.tensors.try_emplace(one.uid, one);
    expect(is_new || (entry->second.extents == one.extents &&
                      entry->second.strides == one.strides && entry->second.type == one.type),
           "two tensors have one number");
  };
  for (auto const& operation_descriptor : d.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    auto const one = operation_of(*operation_descriptor);
    std::vector operands{one.a, one.b};
    if (one.type == operation::kind::select) operands.push_back(one.mask);
    if (one.type == operation::kind::positions) operands.clear();  // uses only the operand's shape
    for (auto const& x : operands) {
      register_tensor(x);
      expect(!x.is_virtual || produced.contains(x.uid), "a tensor is used before it is made");
    }
    register_tensor(one.y);
    expect(!one.y.is_number && produced.insert(one.y.uid).second, "a tensor is made twice");
    for (auto const name : {CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                            CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                            CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC})
      if (operation_descriptor->is_set(name)) {
        register_tensor(tensor_of(operation_descriptor->component(name)));
        auto const lengths = tensor_of(operation_descriptor->component(name)).uid;
        expect(out.lengths == 0 || out.lengths == lengths, "sequences have two lengths");
        out.lengths = lengths;
      }
    if (one.type == operation::kind::reduction && one.a.is_virtual && one.y.in_memory() &&
        one.y.extents[1] < one.a.extents[1])
      out.workspace += one.a.bytes();  // holds the addends of the sum
    out.operations.push_back(one);
  }
  for (auto const& [uid, one] : std::map(out.tensors))
    if (one.ragged()) {
      expect(out.lengths != 0, "a tensor is ragged, but nothing says how long its sequences are");
      tensor offsets{.uid = one.offsets, .type = CUDNN_DATA_INT64};
      offsets.extents = {one.extents[0] + 1, 1, 1, 1};
      offsets.strides = {1, 1, 1, 1};
      register_tensor(offsets);
    }
  if (out.lengths != 0) {
    bool has_padding = false;
    for (auto const& one : out.operations) {
      has_padding =
          has_padding ||
          (one.type == operation::kind::select && one.mask.is_virtual &&
           std::ranges::any_of(out.operations, [&](operation const& producer) {
             return producer.y.uid == one.mask.uid && producer.mode == CUDNN_POINTWISE_LOGICAL_AND;
           }));
      expect(one.type != operation::kind::matmul ||
                 (one.rows != 0 && (one.columns != 0) != (one.depth != 0)),
             "a product of sequences of several lengths does not say its true extents");
    }
    expect(has_padding, "sequences of several lengths are not padded");
    expect_known_scratch_offsets(out);
    auto const sequences = static_cast<std::size_t>(out.tensors.at(out.lengths).extents[0]);
    out.workspace += 448 * sequences + 1152;  // as cuDNN 9.19 asks for on an H200
  }
  // A gradient of queries without a float sum in memory is summed from all products of a head.
  if (auto const dq = out.tensors.find(queries_gradient);
      dq != out.tensors.end() && !out.tensors.contains(float_sum)) {
    auto const& [b, h, s, width] = dq->second.extents;
    out.workspace += static_cast<std::size_t>(b * h * s * s) * 2;
  }
  return out;
}

void finalize(descriptor& d) {
  expect(!d.finalized, "it is finalized already");
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: static_cast<void>(tensor_of(d)); break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: static_cast<void>(operation_of(d)); break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      expect(d.is_set(CUDNN_ATTR_OPERATIONGRAPH_OPS), "a graph has no operations");
      d.described_graph = std::make_shared<graph>(graph_of(d));
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      static_cast<void>(d.value_of<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
      d.described_graph = d.component(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).described_graph;
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      static_cast<void>(d.value_of<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
      auto const& chosen = d.component(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      d.described_graph = chosen.described_graph;
      d.engine = chosen.engine;
      break;
    }
    default: break;
  }
  d.finalized = true;
}

/// Computes a graph. `addresses`: the memory of tensors by the tensor's number.
void compute(graph const& g, int engine, std::map<std::int64_t, std::byte*> const& addresses) {
  std::map<std::int64_t, std::vector<std::byte>> intermediates;
  auto const bind = [&](tensor const& one) {
    bound_tensor out{one.type, one.extents, one.strides};
    if (one.ragged()) {
      out.offsets = reinterpret_cast<std::int64_t const*>(addresses.at(one.offsets));
      out.lengths = reinterpret_cast<std::int32_t const*>(addresses.at(g.lengths));
      out.rows = one.rows();
      out.multiplier = g.multiplier(one);
    }
    if (auto const entry = addresses.find(one.uid); entry != addresses.end())
      out.data = entry->second;
    else
      out.data = intermediates.try_emplace(one.uid, one.bytes()).first->second.data();
    return out;
  };
  auto const lengths_of = [&](std::int64_t uid) {
    if (uid == 0) return std::vector<std::int64_t>();
    auto const* const lengths = reinterpret_cast<std::int32_t const*>(addresses.at(uid));
    return std::vector<std::int64_t>(lengths, lengths + g.tensors.at(uid).extents[0]);
  };
  for (auto const& one : g.operations) {
    auto const y = bind(one.y);
    switch (one.type) {
      using enum operation::kind;
      case pointwise: meaning::apply(one.mode, bind(one.a), bind(one.b), y); break;
      case select: meaning::select(bind(one.a), bind(one.b), bind(one.mask), y); break;
      case positions: meaning::positions(one.axis, y); break;
      case matmul:
        meaning::multiply<float>(
            bind(one.a), bind(one.b), y, engine,
            {lengths_of(one.rows), lengths_of(one.columns), lengths_of(one.depth)});
        break;
      case reduction: meaning::reduce<float>(one.reduction, bind(one.a), y); break;
      case transpose: meaning::transpose(bind(one.a), y); break;
    }
  }
}

/// Throws unless the device can access all rows that the sequences of a ragged tensor have.
void require_ragged(int device, tensor const& one, std::int64_t multiplier, std::byte* data,
                    std::int64_t const* offsets, std::int32_t const* lengths) {
  auto const label = "tensor " + std::to_string(one.uid);
  for (std::int64_t i = 0; i < one.extents[0]; ++i) {
    if (lengths[i] < 0 || lengths[i] > one.extents[one.rows()] || offsets[i] < 0 ||
        offsets[i] > offsets[i + 1])
      throw std::runtime_error(label + " has a sequence of impossible length or offset");
    if (lengths[i] == 0) continue;
    auto sequence = one;
    sequence.extents[0] = 1;
    sequence.extents[one.rows()] = lengths[i];
    fake_cuda::require_access(
        device, data + multiplier * offsets[i] * static_cast<std::int64_t>(one.width()),
        sequence.bytes(), label);
  }
}

cudnnStatus_t execute(cudnnHandle_t cudnn_handle, descriptor const& plan, descriptor const& pack) {
  expect(plan.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && plan.finalized,
         "what is run is no finalized plan");
  expect(pack.finalized, "the pack of addresses is not finalized");
  auto const uids = pack.values_of<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto const pointers = pack.values_of<std::byte*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  auto* const workspace = pack.value_of<std::byte*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  expect(uids.size() == pointers.size(), "there are not as many addresses as numbers");
  std::map<std::int64_t, std::byte*> addresses;
  for (std::size_t i = 0; i < uids.size(); ++i)
    expect(addresses.emplace(uids[i], pointers[i]).second, "a tensor has two addresses");
  std::map<std::int64_t, std::vector<std::byte>> numbers;  // copies of by-value tensors
  std::size_t used = 0;
  for (auto const& [uid, one] : plan.described_graph->tensors) {
    if (one.is_virtual) continue;
    auto const entry = addresses.find(uid);
    expect(entry != addresses.end() && entry->second != nullptr, "a tensor has no address");
    ++used;
    if (one.is_number)
      numbers[uid].assign(entry->second, entry->second + one.width());
    else
      expect(reinterpret_cast<std::uintptr_t>(entry->second) %
                     static_cast<std::uintptr_t>(one.alignment) ==
                 0,
             "an address is not aligned as was said");
  }
  expect(used == addresses.size(), "an address is of no tensor of the graph");
  if (fake_cuda::must_fail("cudnnBackendExecute") || !engine_of(plan.engine).runs)
    return CUDNN_STATUS_EXECUTION_FAILED;
  auto const status = fake_cuda::enqueue(
      cudnn_handle->stream, "cudnnBackendExecute",
      [g = plan.described_graph, engine = plan.engine, addresses, numbers, workspace,
       bytes = workspace_of(plan), device = fake_cuda::device_of(cudnn_handle->stream)]() mutable {
        for (auto const& [uid, one] : g->tensors)
          if (one.in_memory() && !one.ragged())
            fake_cuda::require_access(device, addresses.at(uid), one.bytes(),
                                      "tensor " + std::to_string(uid));
        for (auto const& [uid, one] : g->tensors)
          if (one.ragged())
            require_ragged(device, one, g->multiplier(one), addresses.at(uid),
                           reinterpret_cast<std::int64_t const*>(addresses.at(one.offsets)),
                           reinterpret_cast<std::int32_t const*>(addresses.at(g->lengths)));
        if (bytes > 0) {
          fake_cuda::require_access(device, workspace, bytes, "the workspace");
          std::memset(workspace, 0x5a, bytes);
        }
        for (auto& [uid, number] : numbers) addresses[uid] = number.data();
        compute(*g, engine, addresses);
        auto& m = fake_cuda::machine::get();
        m.simulated_microseconds += engine_of(engine).microseconds;
        std::scoped_lock const lock(m.mutex);
        ++m.history.attentions;
        if (g->lengths != 0) ++m.history.ragged_attentions;
      });
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return 91900; }
char const* cudnnGetErrorString(cudnnStatus_t) { return "a status of the fake cuDNN"; }
void cudnnGetLastErrorString(char* out, std::size_t size) {
  std::snprintf(out, size, "%s", last_reason().c_str());
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* out) {
  *out = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* out) {
  *out = new handle(std::make_shared<descriptor>(descriptor{type}));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw) {
  delete static_cast<handle*>(raw);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  return attempt([&] {
    if (handle_of(raw)->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
        fake_cuda::must_fail("cudnnBackendFinalize of a plan"))
      return CUDNN_STATUS_NOT_SUPPORTED;
    return finalize(*handle_of(raw)), CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       void const* values) {
  return attempt([&] {
    auto& to = *handle_of(raw);
    expect(!to.finalized, "a finalized descriptor is set");
    attribute new_attribute{type, {}, {}};
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      auto const* const elements = static_cast<cudnnBackendDescriptor_t const*>(values);
      for (std::int64_t i = 0; i < count; ++i) {
        expect(handle_of(elements[i])->finalized, "what it is set to is not finalized");
        new_attribute.descriptors.push_back(handle_of(elements[i]));
      }
    } else {
      std::size_t const width =
          type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE ? 8
          : type == CUDNN_TYPE_BOOLEAN || type == CUDNN_TYPE_CHAR                              ? 1
                                                                                               : 4;
      auto const* const bytes = static_cast<std::byte const*>(values);
      new_attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * width);
    }
    to.values[name] = std::move(new_attribute);
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t max_count,
                                       std::int64_t* count, void* values) {
  return attempt([&] {
    auto const& from = *handle_of(raw);
    expect(from.finalized, "a descriptor that is not finalized is read");
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
      auto const bytes = static_cast<std::int64_t>(workspace_of(from));
      std::memcpy(values, &bytes, sizeof bytes);
      return *count = 1, CUDNN_STATUS_SUCCESS;
    }
    expect(name == CUDNN_ATTR_ENGINEHEUR_RESULTS, "an attribute that nobody needs");
    bool const fallback =
        from.value_of<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) != CUDNN_HEUR_MODE_A;
    *count = fallback ? 0 : std::min<std::int64_t>(max_count, engines);
    auto* const results = static_cast<cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < *count; ++i) {
      auto& to = *handle_of(results[i]);
      to.described_graph = from.described_graph;
      to.engine = static_cast<int>(i);
      to.finalized = true;
    }
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return attempt([&] { return execute(handle, *handle_of(plan), *handle_of(pack)); });
}

}  // extern "C"
