// Matrix products by oneDNN (github.com/oneapi-src/oneDNN), versions 2 and 3: float, and bf16 if
// the processor supports it at full speed.
//
// The code of a product is generated once for each combination of shape, strides, types and number
// of threads, and cached in the engine. Products that vary share code for all shapes, which is as
// fast from some hundred rows on. One engine serves any number of streams: primitives use the
// stream's workspace, so they may run at the same time. The threads of oneDNN are OpenMP's; their
// number is set for the calling thread before each call. Link with -ldnnl, compile with -fopenmp.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <oneapi/dnnl/dnnl.hpp>

#include <parallel/core/error.hpp>
#include <parallel/device/host/matmul_engine.hpp>

namespace parallel::host {

/// Matrix products by oneDNN.
class onednn_engine final : public matmul_engine {
 public:
  onednn_engine() : engine_(dnnl::engine::kind::cpu, 0) {}

  /// f32·f32→f32; bf16·bf16→bf16 and bf16·bf16→f32 where the processor has AVX512-BF16. Elsewhere
  /// oneDNN refuses bf16 or emulates it slowly, and the stream's own product is used.
  [[nodiscard]] bool supports(dtype input, dtype output) const override {
    if (input == dtype::f32) return output == dtype::f32;
    return input == dtype::bf16 && (output == dtype::bf16 || output == dtype::f32) && has_bf16();
  }

  [[nodiscard]] bool serves_threads() const override { return true; }

  /// Throws `error` with oneDNN's message when oneDNN refuses the product.
  void multiply(matmul_arguments const& p, workspace& memory) const override {
    if (p.m == 0 || p.n == 0) return;
    omp_set_num_threads(p.threads);
    try {
      auto const product = find(p);
      std::size_t const packing = product->packing_bytes();
      std::byte* const space = memory.take(packing + product->scratch_bytes());
      std::byte* const scratch = space + packing;
      dnnl::stream stream(engine_);
      dnnl::memory b(b_of(p), engine_, const_cast<void*>(p.b));
      if (product->packs) {
        dnnl::memory packed(product->packed_b, engine_, space);
        product->pack.execute(stream,
                              {{DNNL_ARG_FROM, b},
                               {DNNL_ARG_TO, packed},
                               {DNNL_ARG_SCRATCHPAD, {product->pack_scratch, engine_, scratch}}});
        b = packed;
      }
      std::unordered_map<int, dnnl::memory> arguments{
          {DNNL_ARG_SRC, {a_of(p), engine_, const_cast<void*>(p.a)}},
          {DNNL_ARG_WEIGHTS, b},
          {DNNL_ARG_DST, {c_of(p), engine_, p.c}},
          {DNNL_ARG_SCRATCHPAD, {product->scratch, engine_, scratch}}};
      if (addition_of(p) == addition::other_matrix)
        arguments.insert({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1,
                          {c_of(p), engine_, const_cast<void*>(p.addend)}});
      product->primitive.execute(stream, arguments);
      stream.wait();
    } catch (dnnl::error const& problem) {
      fail("oneDNN refused the product [", p.m, ", ", p.k, "] x [", p.k, ", ", p.n, "] of ",
           to_string(p.input), " to ", to_string(p.output), ": ", problem.what());
    }
  }

 private:
  /// The addend of a product: nothing, C, or another matrix.
  enum class addition : std::uint8_t { none, result, other_matrix };

  using key =
      std::tuple<index, index, index, index, index, index, bool, bool, addition, dtype, dtype, int>;
  using desc = dnnl::memory::desc;

  struct product_code {
    desc scratch;
    dnnl::matmul primitive;
    bool packs = false;  // B is copied to the primitive's own layout first
    desc packed_b, pack_scratch;
    dnnl::reorder pack;

    /// Bytes of the copy of B, in whole cache lines.
    [[nodiscard]] std::size_t packing_bytes() const {
      return packs ? (packed_b.get_size() + 63) / 64 * 64 : 0;
    }
    /// Bytes of scratch: copying and multiplying use the same memory, one after the other.
    [[nodiscard]] std::size_t scratch_bytes() const {
      return std::max(scratch.get_size(), packs ? pack_scratch.get_size() : 0);
    }
  };

  [[nodiscard]] static addition addition_of(matmul_arguments const& p) {
    if (p.addend == nullptr) return addition::none;
    return p.addend == p.c ? addition::result : addition::other_matrix;
  }

  [[nodiscard]] static bool has_bf16() {
    auto const wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }

  [[nodiscard]] static dnnl::memory::data_type type_of(dtype type) {
    return type == dtype::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  }

  /// The description of op(X) [rows, columns] of a stored matrix whose rows are `ld` elements
  /// apart.
  [[nodiscard]] static desc describe(dtype type, index rows, index columns, index ld,
                                     bool transpose) {
    return {{rows, columns},
            type_of(type),
            transpose ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1}};
  }

  [[nodiscard]] static desc a_of(matmul_arguments const& p) {
    return describe(p.input, p.m, p.k, p.lda, p.transpose_a);
  }
  [[nodiscard]] static desc b_of(matmul_arguments const& p) {
    return describe(p.input, p.k, p.n, p.ldb, p.transpose_b);
  }
  [[nodiscard]] static desc c_of(matmul_arguments const& p) {
    return describe(p.output, p.m, p.n, p.ldc, false);
  }

  /// Whether copying B first is faster: rows a multiple of 4 KiB apart map to the same few lines of
  /// the nearest cache, so blocks of columns are read at half the speed.
  [[nodiscard]] static bool should_pack(matmul_arguments const& p) {
    return !p.varies && !p.transpose_b && p.m >= 256 &&
           static_cast<std::size_t>(p.ldb) * size_of(p.input) % 4096 == 0;
  }

  /// Version 2 takes a description of the operation first; version 3 has no such descriptions.
  template <class Matmul>
  [[nodiscard]] static typename Matmul::primitive_desc plan(
      dnnl::engine const& engine, desc const& a, desc const& b, desc const& c,
      dnnl::primitive_attr const& attributes) {
    if constexpr (requires { typename Matmul::desc; })
      return {typename Matmul::desc(a, b, c), attributes, engine};
    else
      return {engine, a, b, c, attributes};
  }

  [[nodiscard]] std::shared_ptr<product_code const> find(matmul_arguments p) const {
    auto const added = addition_of(p);
    if (p.varies) p.m = p.n = p.k = DNNL_RUNTIME_DIM_VAL;
    key const shape_key{p.m,           p.n,           p.k,   p.lda,   p.ldb,    p.ldc,
                        p.transpose_a, p.transpose_b, added, p.input, p.output, p.threads};
    std::scoped_lock const lock(mutex_);  // held while generating: other threads may need the code
    auto& cached = products_[shape_key];
    if (cached == nullptr) {
      auto code = std::make_shared<product_code>();
      desc const b = b_of(p), c = c_of(p);
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      dnnl::post_ops post_ops;
      if (added == addition::result) post_ops.append_sum();
      if (added == addition::other_matrix) post_ops.append_binary(dnnl::algorithm::binary_add, c);
      attributes.set_post_ops(post_ops);
      code->packed_b =
          should_pack(p) ? desc({p.k, p.n}, type_of(p.input), dnnl::memory::format_tag::any) : b;
      auto const planned = plan<dnnl::matmul>(engine_, a_of(p), code->packed_b, c, attributes);
      code->packed_b = planned.weights_desc();
      code->packs = code->packed_b != b;
      code->scratch = planned.scratchpad_desc();
      if (code->packs) {
        dnnl::primitive_attr copying;
        copying.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        dnnl::reorder::primitive_desc const copy(engine_, b, engine_, code->packed_b, copying);
        code->pack_scratch = copy.scratchpad_desc();
        code->pack = dnnl::reorder(copy);
      }
      code->primitive = dnnl::matmul(planned);
      cached = std::move(code);
    }
    return cached;
  }

  dnnl::engine engine_;
  mutable std::mutex mutex_;
  mutable std::map<key, std::shared_ptr<product_code const>> products_;
};

}  // namespace parallel::host
