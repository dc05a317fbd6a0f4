// A cuDNN that is only fake, on the fake CUDA runtime: it takes graphs of the operations that the
// library's attention is made of, as descriptors, and computes what they say: each operation in the
// types that its tensors have, sums in float. It offers three engines for every graph, which add in
// different orders: who takes another finds other bits; machine_options say what else they are.
// Deterministic gradients ask for a workspace, and so do those of shared keys that no memory is
// given for; it is overwritten. What does not fit together, or is not finalized, is refused.
//
// Of ragged tensors, whose sequences begin where offsets say, only the rows that lengths tell of
// are there: what lies beyond reads as not a number and is never written, though memory may be
// there. Scratch that such a graph writes and reads must begin where NVIDIA's own graphs have it
// begin (github.com/NVIDIA/cudnn-frontend, node/scaled_dot_product_flash_attention.h, class
// SDPA_backward_node, which makes dQ_accum, dK_fullhead, dV_fullhead and softmax_sum; read in
// November 2026): cuDNN 9.19 takes other graphs, and reads where nobody has written.
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
#include "support/graph_meaning.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

namespace meaning = test::graph_meaning;
using meaning::sizes;

/// Numbers of tensors by which a graph shows what it is.
constexpr std::int64_t queries_gradient = 7, float_sum = 15;

struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tensor as it is described; virtual ones lie in memory of their own.
struct tensor {
  std::int64_t uid = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  sizes extents{}, strides{};
  std::int64_t alignment = 16;
  bool is_virtual = false, is_number = false;
  std::int64_t offsets = 0;  // number of the tensor of a ragged one's offsets; 0: it is not ragged

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

/// A tensor whose elements are read and written.
struct bound_tensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  sizes extents{}, strides{};
  std::byte* data = nullptr;
  // Of a ragged one: where each sequence begins, how many rows it has, in which dimension
  std::int64_t const* offsets = nullptr;
  std::int32_t const* lengths = nullptr;
  std::size_t rows = 2;
  std::int64_t multiplier = 1;  // of the offsets

  [[nodiscard]] double get(sizes const& i, sizes const& of) const {
    sizes own{};
    for (std::size_t d = 0; d < 4; ++d) own[d] = i[d] / (of[d] / extents[d]);
    if (beyond(own)) return std::numeric_limits<double>::quiet_NaN();
    auto const at = place(own);
    switch (type) {
      case CUDNN_DATA_BFLOAT16: return static_cast<float>(as<parallel::bf16>()[at]);
      case CUDNN_DATA_INT32: return as<std::int32_t>()[at];
      case CUDNN_DATA_BOOLEAN: return as<std::uint8_t>()[at];
      default: return as<float>()[at];
    }
  }
  void set(sizes const& i, double value) const {
    if (beyond(i)) return;
    auto const at = place(i);
    switch (type) {
      case CUDNN_DATA_BFLOAT16:
        as<parallel::bf16>()[at] = static_cast<parallel::bf16>(static_cast<float>(value));
        return;
      case CUDNN_DATA_INT32: as<std::int32_t>()[at] = static_cast<std::int32_t>(value); return;
      case CUDNN_DATA_BOOLEAN: as<std::uint8_t>()[at] = value != 0.0 ? 1 : 0; return;
      default: as<float>()[at] = static_cast<float>(value);
    }
  }

 private:
  [[nodiscard]] bool beyond(sizes const& i) const {
    return lengths != nullptr && i[rows] >= lengths[i[0]];
  }
  [[nodiscard]] std::int64_t place(sizes const& i) const {
    std::int64_t at = offsets == nullptr ? i[0] * strides[0] : multiplier * offsets[i[0]];
    for (std::size_t d = 1; d < 4; ++d) at += i[d] * strides[d];
    return at;
  }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

struct operation {
  enum class kind { pointwise, select, positions, matmul, reduction, transpose };
  kind what = kind::pointwise;
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
  cudnnReduceTensorOp_t reduces = CUDNN_REDUCE_TENSOR_ADD;
  std::int64_t axis = 0;
  tensor a, b, mask, y;
  std::int64_t rows = 0, columns = 0, depth = 0;  // numbers of tensors of a product's true extents
};

struct graph {
  std::vector<operation> operations;
  std::map<std::int64_t, tensor> tensors;
  std::size_t workspace = 0;
  std::int64_t lengths = 0;  // number of the tensor that says how many rows sequences have, or 0
  // By which the offsets of a ragged tensor are multiplied, where that is not 1
  std::map<std::int64_t, std::int64_t> multipliers = {};

  [[nodiscard]] std::int64_t multiplier(tensor const& of) const {
    auto const known = multipliers.find(of.uid);
    return known == multipliers.end() ? 1 : known->second;
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
  std::shared_ptr<graph const> of = {};  // of a graph, its heuristics, engines and plans
  int engine = 0;

  template <class T>
  [[nodiscard]] std::vector<T> all(cudnnBackendAttributeName_t name) const {
    auto const found = values.find(name);
    if (found == values.end()) throw refused("attribute " + std::to_string(name) + " is not set");
    std::vector<T> out(found->second.bytes.size() / sizeof(T));
    std::memcpy(out.data(), found->second.bytes.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  [[nodiscard]] T one(cudnnBackendAttributeName_t name) const {
    auto const found = values.find(name);
    if (found == values.end() || found->second.bytes.size() != sizeof(T))
      throw refused("attribute " + std::to_string(name) + " is not set to one value");
    T out;
    return std::memcpy(&out, found->second.bytes.data(), sizeof out), out;
  }
  [[nodiscard]] bool has(cudnnBackendAttributeName_t name) const { return values.contains(name); }
  [[nodiscard]] descriptor const& part(cudnnBackendAttributeName_t name) const {
    auto const found = values.find(name);
    if (found == values.end() || found->second.descriptors.size() != 1)
      throw refused("attribute " + std::to_string(name) + " is not set to one descriptor");
    return *found->second.descriptors.front();
  }
};
using handle = std::shared_ptr<descriptor>;

/// What the machine's options say of an engine, and how many there are.
[[nodiscard]] fake_cuda::engine const& engine_of(int number) {
  return fake_cuda::machine::get().options.engines[static_cast<std::size_t>(number)];
}
constexpr int engines = 3;
[[nodiscard]] std::size_t workspace_of(descriptor const& plan) {
  return plan.of->workspace + engine_of(plan.engine).workspace;
}

[[nodiscard]] std::string& last_reason() {
  static thread_local std::string text;
  return text;
}
/// work(), whose refusal is the status.
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
[[nodiscard]] handle& of(cudnnBackendDescriptor_t raw) { return *static_cast<handle*>(raw); }

void expect(bool fits, char const* what) {
  if (!fits) throw refused(what);
}

[[nodiscard]] tensor tensor_of(descriptor const& d) {
  tensor out;
  out.type = d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  out.uid = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  out.alignment = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  auto const extents = d.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto const strides = d.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  expect(extents.size() == 4 && strides.size() == 4, "a tensor has not four dimensions");
  for (std::size_t i = 0; i < 4; ++i) {
    expect(extents[i] > 0 && strides[i] > 0, "a tensor's extent or stride is not positive");
    out.extents[i] = extents[i];
    out.strides[i] = strides[i];
  }
  out.is_virtual = d.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && d.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  out.is_number =
      d.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE) && d.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  expect(out.type == CUDNN_DATA_FLOAT || out.type == CUDNN_DATA_BFLOAT16 ||
             out.type == CUDNN_DATA_INT32 || out.type == CUDNN_DATA_INT64 ||
             out.type == CUDNN_DATA_BOOLEAN,
         "a tensor's type is none that attention has");
  if (d.has(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC)) {
    auto const offsets = tensor_of(d.part(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC));
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
  auto const take = [&](cudnnBackendAttributeName_t name) { return tensor_of(d.part(name)); };
  switch (d.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      auto const& how = d.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      out.mode = how.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
      out.a = out.b = take(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
      out.y = take(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      if (d.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
        out.b = take(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
      if (out.mode == CUDNN_POINTWISE_GEN_INDEX) {
        out.what = kind::positions;
        out.axis = how.one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
        expect(0 <= out.axis && out.axis < 4, "there is no such axis");
      } else if (out.mode == CUDNN_POINTWISE_BINARY_SELECT) {
        out.what = kind::select;
        out.mask = take(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
        expect(out.mask.type == CUDNN_DATA_BOOLEAN, "a mask is not of booleans");
        expect(repeats_in(out.mask, out.y.extents), "a mask does not fit the result");
      } else {
        static_cast<void>(meaning::value(out.mode, 1, 1));  // known
      }
      expect(repeats_in(out.a, out.y.extents) && repeats_in(out.b, out.y.extents),
             "the operands of an element-wise operation do not fit its result");
      return out;
    }
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      static_cast<void>(d.part(CUDNN_ATTR_OPERATION_MATMUL_DESC));
      out.what = kind::matmul;
      out.a = take(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
      out.b = take(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
      out.y = take(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      expect(out.a.extents[3] == out.b.extents[2] && out.a.extents[2] == out.y.extents[2] &&
                 out.b.extents[3] == out.y.extents[3] && out.a.extents[0] == out.y.extents[0] &&
                 out.b.extents[0] == out.y.extents[0] && out.a.extents[1] == out.y.extents[1] &&
                 out.y.extents[1] % out.b.extents[1] == 0,
             "the matrices of a product do not fit");
      for (auto const& [name, to] :
           {std::pair{CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, &out.rows},
            {CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, &out.columns},
            {CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, &out.depth}})
        if (d.has(name)) {
          auto const lengths = take(name);
          expect(lengths.in_memory() && lengths.type == CUDNN_DATA_INT32 &&
                     lengths.extents == sizes{out.y.extents[0], 1, 1, 1},
                 "true extents are not an integer for each sequence");
          *to = lengths.uid;
        }
      return out;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      auto const& how = d.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
      out.what = kind::reduction;
      out.reduces = how.one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
      expect(out.reduces == CUDNN_REDUCE_TENSOR_ADD || out.reduces == CUDNN_REDUCE_TENSOR_MAX,
             "a reduction that attention has not");
      out.a = out.b = take(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
      out.y = take(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
      expect(repeats_in(out.y, out.a.extents), "the result of a reduction does not fit");
      return out;
    }
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: {
      out.what = kind::transpose;
      out.a = out.b = take(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
      out.y = take(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
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

/// Refuses scratch of a ragged graph that does not begin where NVIDIA's own graphs have it begin.
void expect_tables_of_scratch(graph& g) {
  for (auto const& one : g.operations) {
    auto const& [x, y] = std::tie(one.a, one.y);
    if (!x.in_memory() || !y.ragged()) continue;
    if (one.what == operation::kind::pointwise && one.mode == CUDNN_POINTWISE_IDENTITY)
      expect(x.ragged() ? x.offsets == y.offsets && x.strides == y.strides
                        : x.strides == dense(x.extents),
             "the sums of a ragged gradient of queries are neither dense [B, H, S, D] without a "
             "table of offsets nor of the gradient's own strides and table");
    if (one.what == operation::kind::reduction && x.extents[1] > y.extents[1]) {
      auto const sharing = x.extents[1] / y.extents[1];
      expect(x.ragged() && x.offsets == y.offsets && x.strides[0] == sharing * y.strides[0] &&
                 x.strides[2] == sharing * y.strides[2],
             "every head's ragged gradients of shared keys have not the table of their sums' "
             "offsets and, times the heads that share a key head, their strides");
      g.multipliers[x.uid] = sharing;
    }
  }
  std::set<std::int64_t> made, read;
  for (auto const& one : g.operations) {
    made.insert(one.y.uid);
    read.insert({one.a.uid, one.b.uid});
  }
  auto const is_scratch = [&](tensor const& x) {
    return x.ragged() && made.contains(x.uid) && read.contains(x.uid);
  };
  std::set<std::int64_t> tables;  // of what is not scratch
  for (auto const& at : g.tensors)
    if (at.second.ragged() && !is_scratch(at.second)) tables.insert(at.second.offsets);
  for (auto const& at : g.tensors)
    expect(!is_scratch(at.second) || tables.contains(at.second.offsets),
           "scratch of a ragged graph has a table of offsets that no input or result has");
}

/// Every tensor is made before it is used, once, and has one description.
[[nodiscard]] graph graph_of(descriptor const& d) {
  graph out;
  static_cast<void>(d.one<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
  std::set<std::int64_t> made;
  auto const know = [&](tensor const& one) {
    auto const [at, is_new] = out.tensors.try_emplace(one.uid, one);
    expect(is_new || (at->second.extents == one.extents && at->second.strides == one.strides &&
                      at->second.type == one.type),
           "two tensors have one number");
  };
  for (auto const& each : d.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    auto const one = operation_of(*each);
    std::vector operands{one.a, one.b};
    if (one.what == operation::kind::select) operands.push_back(one.mask);
    if (one.what == operation::kind::positions) operands.clear();  // looks at the shape alone
    for (auto const& x : operands) {
      know(x);
      expect(!x.is_virtual || made.contains(x.uid), "a tensor is used before it is made");
    }
    know(one.y);
    expect(!one.y.is_number && made.insert(one.y.uid).second, "a tensor is made twice");
    for (auto const name : {CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                            CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                            CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC})
      if (each->has(name)) {
        know(tensor_of(each->part(name)));
        auto const lengths = tensor_of(each->part(name)).uid;
        expect(out.lengths == 0 || out.lengths == lengths, "sequences have two lengths");
        out.lengths = lengths;
      }
    if (one.what == operation::kind::reduction && one.a.is_virtual && one.y.in_memory() &&
        one.y.extents[1] < one.a.extents[1])
      out.workspace += one.a.bytes();  // what is summed lies there
    out.operations.push_back(one);
  }
  for (auto const& [uid, one] : std::map(out.tensors))
    if (one.ragged()) {
      expect(out.lengths != 0, "a tensor is ragged, but nothing says how long its sequences are");
      tensor offsets{.uid = one.offsets, .type = CUDNN_DATA_INT64};
      offsets.extents = {one.extents[0] + 1, 1, 1, 1};
      offsets.strides = {1, 1, 1, 1};
      know(offsets);
    }
  if (out.lengths != 0) {
    bool pads = false;
    for (auto const& one : out.operations) {
      pads =
          pads || (one.what == operation::kind::select && one.mask.is_virtual &&
                   std::ranges::any_of(out.operations, [&](operation const& made) {
                     return made.y.uid == one.mask.uid && made.mode == CUDNN_POINTWISE_LOGICAL_AND;
                   }));
      expect(one.what != operation::kind::matmul ||
                 (one.rows != 0 && (one.columns != 0) != (one.depth != 0)),
             "a product of sequences of several lengths does not say its true extents");
    }
    expect(pads, "sequences of several lengths are not padded");
    expect_tables_of_scratch(out);
    auto const sequences = static_cast<std::size_t>(out.tensors.at(out.lengths).extents[0]);
    out.workspace += 448 * sequences + 1152;  // as cuDNN 9.19 asks for on an H200
  }
  // a gradient of queries that has no float sum in memory is summed from all products of a head
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
      expect(d.has(CUDNN_ATTR_OPERATIONGRAPH_OPS), "a graph has no operations");
      d.of = std::make_shared<graph>(graph_of(d));
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      static_cast<void>(d.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
      d.of = d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).of;
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      static_cast<void>(d.one<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
      auto const& chosen = d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      d.of = chosen.of;
      d.engine = chosen.engine;
      break;
    }
    default: break;
  }
  d.finalized = true;
}

/// Computes a graph. `given`: the memory of tensors by their number.
void compute(graph const& g, int engine, std::map<std::int64_t, std::byte*> const& given) {
  std::map<std::int64_t, std::vector<std::byte>> between;
  auto const bind = [&](tensor const& one) {
    bound_tensor out{one.type, one.extents, one.strides};
    if (one.ragged()) {
      out.offsets = reinterpret_cast<std::int64_t const*>(given.at(one.offsets));
      out.lengths = reinterpret_cast<std::int32_t const*>(given.at(g.lengths));
      out.rows = one.rows();
      out.multiplier = g.multiplier(one);
    }
    if (auto const at = given.find(one.uid); at != given.end())
      out.data = at->second;
    else
      out.data = between.try_emplace(one.uid, one.bytes()).first->second.data();
    return out;
  };
  auto const all = [&](std::int64_t uid) {
    if (uid == 0) return std::vector<std::int64_t>();
    auto const* const lengths = reinterpret_cast<std::int32_t const*>(given.at(uid));
    return std::vector<std::int64_t>(lengths, lengths + g.tensors.at(uid).extents[0]);
  };
  for (auto const& one : g.operations) {
    auto const y = bind(one.y);
    switch (one.what) {
      using enum operation::kind;
      case pointwise: meaning::apply(one.mode, bind(one.a), bind(one.b), y); break;
      case select: meaning::select(bind(one.a), bind(one.b), bind(one.mask), y); break;
      case positions: meaning::positions(one.axis, y); break;
      case matmul:
        meaning::multiply<float>(bind(one.a), bind(one.b), y, engine,
                                 {all(one.rows), all(one.columns), all(one.depth)});
        break;
      case reduction: meaning::reduce<float>(one.reduces, bind(one.a), y); break;
      case transpose: meaning::transpose(bind(one.a), y); break;
    }
  }
}

/// The rows that a ragged tensor truly has must be memory of the device.
void require_ragged(int device, tensor const& one, std::int64_t multiplier, std::byte* data,
                    std::int64_t const* offsets, std::int32_t const* lengths) {
  auto const what = "tensor " + std::to_string(one.uid);
  for (std::int64_t i = 0; i < one.extents[0]; ++i) {
    if (lengths[i] < 0 || lengths[i] > one.extents[one.rows()] || offsets[i] < 0 ||
        offsets[i] > offsets[i + 1])
      throw std::runtime_error(what + " has a sequence of impossible length or place");
    if (lengths[i] == 0) continue;
    auto sequence = one;
    sequence.extents[0] = 1;
    sequence.extents[one.rows()] = lengths[i];
    fake_cuda::require_access(
        device, data + multiplier * offsets[i] * static_cast<std::int64_t>(one.width()),
        sequence.bytes(), what);
  }
}

cudnnStatus_t execute(cudnnHandle_t on, descriptor const& plan, descriptor const& pack) {
  expect(plan.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && plan.finalized,
         "what is run is no finalized plan");
  expect(pack.finalized, "the pack of addresses is not finalized");
  auto const uids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto const pointers = pack.all<std::byte*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  auto* const workspace = pack.one<std::byte*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  expect(uids.size() == pointers.size(), "there are not as many addresses as numbers");
  std::map<std::int64_t, std::byte*> given;
  for (std::size_t i = 0; i < uids.size(); ++i)
    expect(given.emplace(uids[i], pointers[i]).second, "a tensor has two addresses");
  std::map<std::int64_t, std::vector<std::byte>> numbers;  // as they are now
  std::size_t used = 0;
  for (auto const& [uid, one] : plan.of->tensors) {
    if (one.is_virtual) continue;
    auto const at = given.find(uid);
    expect(at != given.end() && at->second != nullptr, "a tensor has no address");
    ++used;
    if (one.is_number)
      numbers[uid].assign(at->second, at->second + one.width());
    else
      expect(reinterpret_cast<std::uintptr_t>(at->second) %
                     static_cast<std::uintptr_t>(one.alignment) ==
                 0,
             "an address is not aligned as was said");
  }
  expect(used == given.size(), "an address is of no tensor of the graph");
  if (fake_cuda::fails_next("cudnnBackendExecute") || !engine_of(plan.engine).runs)
    return CUDNN_STATUS_EXECUTION_FAILED;
  auto const status = fake_cuda::enqueue(
      on->stream, "cudnnBackendExecute",
      [g = plan.of, engine = plan.engine, given, numbers, workspace, bytes = workspace_of(plan),
       device = fake_cuda::device_of(on->stream)]() mutable {
        for (auto const& [uid, one] : g->tensors)
          if (one.in_memory() && !one.ragged())
            fake_cuda::require_access(device, given.at(uid), one.bytes(),
                                      "tensor " + std::to_string(uid));
        for (auto const& [uid, one] : g->tensors)
          if (one.ragged())
            require_ragged(device, one, g->multiplier(one), given.at(uid),
                           reinterpret_cast<std::int64_t const*>(given.at(one.offsets)),
                           reinterpret_cast<std::int32_t const*>(given.at(g->lengths)));
        if (bytes > 0) {
          fake_cuda::require_access(device, workspace, bytes, "the workspace");
          std::memset(workspace, 0x5a, bytes);
        }
        for (auto& [uid, number] : numbers) given[uid] = number.data();
        compute(*g, engine, given);
        auto& m = fake_cuda::machine::get();
        m.pretended_microseconds += engine_of(engine).microseconds;
        std::scoped_lock const lock(m.mutex);
        ++m.happened.attentions;
        if (g->lengths != 0) ++m.happened.ragged_attentions;
      });
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return 91900; }
char const* cudnnGetErrorString(cudnnStatus_t) { return "a status of the fake cuDNN"; }
void cudnnGetLastErrorString(char* out, std::size_t most) {
  std::snprintf(out, most, "%s", last_reason().c_str());
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
    if (of(raw)->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
        fake_cuda::fails_next("cudnnBackendFinalize of a plan"))
      return CUDNN_STATUS_NOT_SUPPORTED;
    return finalize(*of(raw)), CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       void const* values) {
  return attempt([&] {
    auto& to = *of(raw);
    expect(!to.finalized, "a finalized descriptor is set");
    attribute made{type, {}, {}};
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      auto const* const all = static_cast<cudnnBackendDescriptor_t const*>(values);
      for (std::int64_t i = 0; i < count; ++i) {
        expect(of(all[i])->finalized, "what it is set to is not finalized");
        made.descriptors.push_back(of(all[i]));
      }
    } else {
      std::size_t const width =
          type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE ? 8
          : type == CUDNN_TYPE_BOOLEAN || type == CUDNN_TYPE_CHAR                              ? 1
                                                                                               : 4;
      auto const* const bytes = static_cast<std::byte const*>(values);
      made.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * width);
    }
    to.values[name] = std::move(made);
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t most,
                                       std::int64_t* count, void* values) {
  return attempt([&] {
    auto const& from = *of(raw);
    expect(from.finalized, "a descriptor that is not finalized is read");
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
      auto const bytes = static_cast<std::int64_t>(workspace_of(from));
      std::memcpy(values, &bytes, sizeof bytes);
      return *count = 1, CUDNN_STATUS_SUCCESS;
    }
    expect(name == CUDNN_ATTR_ENGINEHEUR_RESULTS, "an attribute that nobody needs");
    bool const fallback =
        from.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) != CUDNN_HEUR_MODE_A;
    *count = fallback ? 0 : std::min<std::int64_t>(most, engines);
    auto* const all = static_cast<cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < *count; ++i) {
      auto& to = *of(all[i]);
      to.of = from.of;
      to.engine = static_cast<int>(i);
      to.finalized = true;
    }
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t on, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return attempt([&] { return execute(on, *of(plan), *of(pack)); });
}

}  // extern "C"
